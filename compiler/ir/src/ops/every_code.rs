//! `every_code`. See [`EveryCode`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{sample, table};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// All values that an element can have, in the order of their codes: of i8 -128 to 127, of u8 0 to 255, with the operand's shared
    /// exponent. Operand: `x` i8 or u8. Result: `[256]` of its element. What is computed of it is a table of an elementwise function
    /// of `x`, for [`super::Lookup`].
    pub struct EveryCode = "every_code" {
    }
}

impl Operator for EveryCode {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        table::check_codes(Self::NAME, x)?;
        Ok(vec![x.with_shape([table::SIZE])])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let ty = x.ty().with_shape([table::SIZE]);
        let first = table::first_code(x.ty());
        let codes: Vec<i64> = (first..).take(table::SIZE).collect();
        vec![Tensor::from_i64(&ty, &codes, ScaleData::Exponent(x.exponent()))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (y, exponent) = (b.output(0), b.input_exponent(0));
        b.set_output_exponent(0, exponent);
        b.for_("code", table::SIZE, |b, i| {
            let code = i.clone() + crate::loops::Expr::i64(table::first_code(inputs[0]));
            b.store(y, i, code.truncate());
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |element: Element, first: i64, exponent| {
            let all: Vec<i64> = (first..first + 256).collect();
            Case::new(
                EveryCode {},
                vec![sample::shared([3, 5], element, 1, exponent)],
                vec![sample::shared_of([256], element, &all, exponent)],
            )
        };
        vec![case(Element::I8, -128, -9), case(Element::U8, 0, 4), case(Element::I8, -128, i32::MAX)]
    }
}
