//! `straight_through`. See [`StraightThrough`].

use crate::attributes::F32;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::grid::{self, Rounding};
use crate::ops::support::walk::Walk;
use crate::ops::support::elementwise;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// The error of a rounding to a grid where the rounded operand was within the grid's bounds or on them, else 0.
    ///
    /// Operands: `x` (the operand that was rounded), `scale`, `zero_point`, and `dy` of the type of `x`; all FP32.
    /// The result is 0 where `round(x / scale + zero_point)` is above `high` or below `low`, else `dy` (also at NaN).
    pub struct StraightThrough = "straight_through" {
        /// Smallest integer of the grid.
        pub low: F32,
        /// Largest integer of the grid.
        pub high: F32,
        /// How `x / scale + zero_point` becomes an integer.
        pub rounding: Rounding,
    }
}

impl Operator for StraightThrough {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, scale, zero_point, dy] = rule::operands::<4>("straight_through", inputs)?;
        grid::check_operands("straight_through", &[x, scale, zero_point, dy])?;
        rule::ensure(x == dy, || {
            format!("straight_through: operand {x} and error {dy} must have one type")
        })?;
        rule::ensure(!self.low.get().is_nan() && !self.high.get().is_nan(), || {
            "straight_through: the bounds must be numbers".to_string()
        })?;
        Ok(vec![dy.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (low, high) = (self.low.get(), self.high.get());
        let shape = inputs[0].shape();
        let walk = Walk::broadcast(shape, [shape, inputs[1].shape(), inputs[2].shape()]);
        let [x, scale, zero_point, dy] = [0, 1, 2, 3].map(|i| inputs[i].as_f32());
        let (count, [_, scale_step, zero_step]) = walk.inner();
        let mut values = Vec::with_capacity(x.len());
        walk.rows(|[i, j, k]| {
            values.extend((0..count).map(|n| {
                let y = x[i + n] / scale[j + n * scale_step] + zero_point[k + n * zero_step];
                let y = self.rounding.apply(y);
                if y > high || y < low { 0.0 } else { dy[i + n] }
            }));
        });
        vec![Tensor::f32(shape.dims(), values)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [x, scale, zero_point, dy] = [0, 1, 2, 3].map(|i| builder.input(i));
        let dx = builder.output(0);
        let [low, high] = [self.low, self.high].map(|bound| Expr::f32(bound.get()));
        let shape = &inputs[0].shape;
        let walk = Walk::broadcast(shape, [shape, &inputs[1].shape, &inputs[2].shape]);
        walk.lower(&mut builder, "i", |builder, [i, j, k]| {
            let ratio = builder.load(x, i.clone()).divide(builder.load(scale, j));
            let y = ratio + builder.load(zero_point, k);
            let y = builder.let_("y", y);
            let y = self.rounding.expression(y);
            let y = builder.let_("integer", y);
            let error = builder.load(dy, i.clone());
            let outside = high.less(y.clone()).or(y.less(low));
            builder.store(dx, i, outside.select(Expr::f32(0.0), error));
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |low: f32, high: f32, rounding| StraightThrough {
            low: low.into(),
            high: high.into(),
            rounding,
        };
        let mut cases = vec![
            // First row: -2.25, -2.5, 1.0 (-2, -2, 1 are within), 1.75; second: -2, -2.625, 1.5, 1.25 with zero point 1.
            Case::new(
                op(-2.0, 1.0, Rounding::HalfEven),
                vec![
                    Tensor::f32([2, 4], vec![-1.125, -1.25, 0.5, 0.875, -3.0, -3.625, 0.5, 0.25]),
                    Tensor::f32([2, 1], vec![0.5, 1.0]),
                    Tensor::f32([2, 1], vec![0.0, 1.0]),
                    Tensor::f32([2, 4], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
                ],
                vec![Tensor::f32([2, 4], vec![1.0, 2.0, 3.0, 0.0, 5.0, 0.0, 0.0, 8.0])],
            ),
            // Away from zero: what is beyond the bounds is outside, however little.
            Case::new(
                op(-1.0, 1.0, Rounding::Up),
                vec![
                    Tensor::f32([4], vec![-0.25, -0.250_000_03, 0.0, 0.26]),
                    Tensor::f32([], vec![0.25]),
                    Tensor::f32([], vec![0.0]),
                    Tensor::f32([4], vec![1.0, 2.0, 3.0, 4.0]),
                ],
                vec![Tensor::f32([4], vec![1.0, 0.0, 3.0, 0.0])],
            ),
        ];
        let extremes = elementwise::extreme_tensor();
        let errors = Tensor::f32(extremes.shape().dims(), elementwise::ramp(extremes.ty().count()));
        for &rounding in Rounding::ALL {
            let (scale, zero) = (Tensor::f32([], vec![0.3]), Tensor::f32([1], vec![-3.0]));
            let operands = vec![extremes.clone(), scale, zero, errors.clone()];
            cases.push(Case::shape_only(op(-8.0, 7.0, rounding), operands));
        }
        cases
    }
}
