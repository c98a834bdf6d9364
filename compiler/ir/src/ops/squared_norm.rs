//! `squared_norm`. See [`SquaredNorm`].

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::elementwise;
use crate::ops::support::partial_sums::{self, PartialSumLoops, PartialSums};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

operator! {
    /// The sum of the squares of all elements (FP32): a scalar.
    ///
    /// Order: element `i` is added to partial sum `i mod 16`, from +0; then the partial sums from the first to the last.
    pub struct SquaredNorm = "squared_norm" {
    }
}

impl Operator for SquaredNorm {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::operands::<1>("squared_norm", inputs)?;
        rule::all_f32("squared_norm", inputs)?;
        Ok(vec![TensorType::f32(Shape::scalar())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sum = PartialSums::sum(inputs[0].as_f32().iter().map(|x| x * x));
        vec![Tensor::f32([], vec![sum])]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (builder.input(0), builder.output(0));
        let sums = PartialSumLoops::one(&mut builder, "parts");
        let value = partial_sums::lower(&mut builder, &sums, inputs[0].count(), |builder, i| {
            let value = builder.load(x, i);
            let value = builder.let_("x", value);
            value.clone() * value
        });
        builder.store(y, Expr::i64(0), value);
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let ramp = |n: usize| Tensor::f32([n], elementwise::ramp(n));
        // 2^24 and ones: in one sum the ones would be lost one by one.
        let mut wide = vec![1.0; 33];
        wide[0] = 4096.0;
        vec![
            Case::new(
                SquaredNorm {},
                vec![Tensor::f32([2, 2], vec![1.0, -2.0, 3.0, 0.5])],
                vec![Tensor::f32([], vec![14.25])],
            ),
            // Part 0 is 2^24 + 1 + 1, of which both are lost; the other 30 are 2 each, none of which is.
            Case::new(
                SquaredNorm {},
                vec![Tensor::f32([33], wide)],
                vec![Tensor::f32([], vec![16_777_246.0])],
            ),
            Case::shape_only(SquaredNorm {}, vec![elementwise::extreme_tensor()]),
            Case::shape_only(SquaredNorm {}, vec![ramp(5)]),
            Case::shape_only(SquaredNorm {}, vec![ramp(100)]),
            Case::shape_only(SquaredNorm {}, vec![Tensor::f32([], vec![-3.0])]),
        ]
    }
}
