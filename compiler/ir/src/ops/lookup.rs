//! `lookup`. See [`Lookup`].

use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{sample, table};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// An elementwise function by its table: the entry of each code. Operands: `table` `[256]`, i8 or u8 with a shared exponent, and
    /// the codes `x`, i8 or u8 with one, of which [`super::EveryCode`] gives the order. Result: the table's element and exponent, the
    /// shape of `x`.
    pub struct Lookup = "lookup" {
    }
}

impl Operator for Lookup {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [entries, x] = rule::operands(Self::NAME, inputs)?;
        table::check_codes(Self::NAME, x)?;
        table::check_table(Self::NAME, entries)?;
        let byte = matches!(entries.element, Element::I8 | Element::U8);
        rule::ensure(byte && entries.scale == Scale::Exponent, || {
            format!("{} takes a table i8<2^e> or u8<2^e>, here {entries}", Self::NAME)
        })?;
        Ok(vec![entries.with_shape(x.shape.clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (entries, x) = (inputs[0], inputs[1]);
        let codes = x.to_i64();
        let entry = |&code: &i64| table::entry(x.ty(), code);
        vec![entries.gather(x.shape().clone(), codes.iter().map(entry))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (entries, x, y, exponent) = (b.input(0), b.input(1), b.output(0), b.input_exponent(0));
        b.set_output_exponent(0, exponent);
        b.for_("i", outputs[0].count(), |b, i| {
            let code = b.load(x, i.clone());
            let entry = b.let_("entry", table::entry_expression(inputs[1], code));
            let value = b.load(entries, entry);
            b.store(y, i, value);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let squares = |element, divide: i64| {
            let all: Vec<i64> = (-128..128).map(|i: i64| i * i / divide - 100).collect();
            sample::shared_of([256], element, &all, -11)
        };
        let bytes = |element, of: &[i64]| sample::shared_of([of.len()], element, of, 3);
        let mut cases = vec![
            Case::new(
                Lookup {},
                vec![squares(Element::I8, 100), bytes(Element::I8, &[-128, 127, 0, 20, -20])],
                vec![sample::shared_of([5], Element::I8, &[63, 61, -100, -96, -96], -11)],
            ),
            Case::new(
                Lookup {},
                vec![squares(Element::I8, 100), bytes(Element::U8, &[0, 255, 128, 129])],
                vec![sample::shared_of([4], Element::I8, &[63, 61, -100, -100], -11)],
            ),
        ];
        for (element, codes) in [
            (Element::I8, Element::I8),
            (Element::U8, Element::I8),
            (Element::I8, Element::U8),
            (Element::U8, Element::U8),
        ] {
            for shape in [&[1][..], &[2, 3, 5, 7], &[4, 64], &[3, 131]] {
                cases.push(Case::shape_only(
                    Lookup {},
                    vec![sample::shared([256], element, 5, -3), sample::shared(shape, codes, 2, 7)],
                ));
            }
        }
        cases
    }
}
