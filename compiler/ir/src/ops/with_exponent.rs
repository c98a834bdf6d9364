//! `with_exponent`. See [`WithExponent`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::narrow;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// Unscaled 8-bit integers, such as `quantize_linear` gives, as integers with that shared exponent, which products take:
    /// `q` stands for `q * 2^exponent`.
    pub struct WithExponent = "with_exponent" {
        /// The exponent.
        pub exponent: i32,
    }
}

impl Operator for WithExponent {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        narrow::infer(Self::NAME, x)?;
        rule::ensure(matches!(x.element, Element::I8 | Element::U8), || {
            format!("{} takes integers of 8 bits, here {x}", Self::NAME)
        })?;
        Ok(vec![TensorType::shared(x.shape.clone(), x.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let ty = TensorType::shared(inputs[0].shape().clone(), inputs[0].ty().element);
        vec![Tensor::from_i64(&ty, &inputs[0].to_i64(), ScaleData::Exponent(self.exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (builder.input(0), builder.output(0));
        builder.set_output_exponent(0, Expr::i32(self.exponent));
        builder.for_("i", outputs[0].count(), |builder, i| {
            let value = builder.load(x, i.clone());
            builder.store(y, i, value);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |shape: &[usize], element, exponent, values: &[i64]| {
            let plain = Tensor::from_i64(&TensorType::new(shape, element), values, ScaleData::None);
            let shared = TensorType::shared(shape, element);
            let scaled = Tensor::from_i64(&shared, values, ScaleData::Exponent(exponent));
            Case::new(WithExponent { exponent }, vec![plain], vec![scaled])
        };
        let many: Vec<i64> = (0..67).map(|i| i * 37 % 256 - 128).collect();
        vec![
            case(&[3], Element::I8, 0, &[-128, 0, 127]),
            case(&[2, 2], Element::U8, -3, &[0, 128, 200, 255]),
            case(&[67], Element::I8, 5, &many),
        ]
    }
}
