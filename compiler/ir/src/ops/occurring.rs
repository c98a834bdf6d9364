//! `occurring`. See [`Occurring`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{sample, table};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// Which codes occur in a tensor: 1 or 0 for each. What they are is multiplied by, so that what is quantized by the largest of a
    /// table's entries has the exponent that the tensor's own results would have. Operand: the codes `x`, i8 or u8 with a shared
    /// exponent. Result: `[256]` FP32, in the order of [`super::EveryCode`].
    pub struct Occurring = "occurring" {
    }
}

impl Operator for Occurring {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        table::check_codes(Self::NAME, x)?;
        Ok(vec![TensorType::f32([table::SIZE])])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let mut found = vec![0.0; table::SIZE];
        for code in inputs[0].to_i64() {
            found[table::entry(inputs[0].ty(), code)] = 1.0;
        }
        vec![Tensor::f32([table::SIZE], found)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        b.for_("entry", table::SIZE, |b, i| b.store(y, i, Expr::f32(0.0)));
        b.for_("i", inputs[0].count(), |b, i| {
            let code = b.load(x, i);
            let entry = b.let_("entry", table::entry_expression(inputs[0], code));
            b.store(y, entry, Expr::f32(1.0));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let found = |entries: &[usize]| {
            let mut all = vec![0.0; table::SIZE];
            entries.iter().for_each(|&i| all[i] = 1.0);
            vec![Tensor::f32([table::SIZE], all)]
        };
        let bytes = |element, of: &[i64]| vec![sample::shared_of([of.len()], element, of, 3)];
        let mut cases = vec![
            Case::new(
                Occurring {},
                bytes(Element::I8, &[-128, 127, 0, 127, 20]),
                found(&[0, 255, 128, 148]),
            ),
            Case::new(Occurring {}, bytes(Element::U8, &[0, 255, 255, 9]), found(&[0, 255, 9])),
        ];
        for element in [Element::I8, Element::U8] {
            for shape in [&[1][..], &[2, 3, 5, 7], &[40, 64], &[3, 131]] {
                cases.push(Case::shape_only(Occurring {}, vec![sample::shared(shape, element, 2, 7)]));
            }
        }
        cases
    }
}
