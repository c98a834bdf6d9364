//! `trunc`. See [`Trunc`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::support::grid::{self, Rounding};
use crate::ops::support::walk::Walk;
use crate::ops::support::{elementwise, gradient};
use crate::ops::{
    Case, Differentiated, Div, GradientError, Mul, Operator, StraightThrough, TypeError,
    rule,
};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// QONNX Trunc: integers on a grid lose their `shift` low bits, and get another scale.
    ///
    /// Operands, all FP32, of which all but `x` broadcast to it: `x`, its `scale` and `zero_point`, and scale and zero
    /// point of the result. The result is `(round(clamp(integer / 2^shift)) - output_zero_point) * output_scale`,
    /// where `integer = round_ties_even(x / scale + zero_point)`, each step in FP32 and in this order, as the qonnx
    /// package computes it: it clamps before it rounds.
    ///
    /// QONNX 2 gives the output scale: `2^shift` is the power of two nearest to `output_scale / scale`, the output zero
    /// point is `zero_point / 2^shift`, and results are clamped. QONNX 1 gives bits of operand and result: `shift`
    /// is their difference, the scale and the zero point stay, and nothing is clamped.
    ///
    /// Gradient: straight-through, as Brevitas trains: `dy * output_scale / (scale * 2^shift)` where the result is not
    /// clamped after `round(x / (scale * 2^shift) + output_zero_point)`, else 0. Scales and zero points have none.
    pub struct Trunc = "trunc" {
        /// Bits that are cut; negative if some are added.
        pub shift: i32,
        /// Whether the result's grid has negative integers.
        pub signed: bool,
        /// Whether the result's grid lacks its smallest integer (its largest if it is unsigned).
        pub narrow: bool,
        /// How the shifted integer becomes one.
        pub rounding: Rounding,
        /// Bits of the result's integers, 1 to 32.
        pub bits: u32,
        /// Whether results are clamped to the grid.
        pub clamp: bool,
    }
}

/// Largest number of bits cut or added.
const MAX_SHIFT: i32 = 64;

impl Trunc {
    /// Smallest and largest integer of the result; infinite if nothing is clamped.
    pub fn bounds(&self) -> [f32; 2] {
        match self.clamp {
            true => grid::grid_bounds(self.signed, self.narrow, self.bits),
            false => [f32::NEG_INFINITY, f32::INFINITY],
        }
    }

    /// `2^shift`.
    fn step(&self) -> f32 {
        2f32.powi(self.shift)
    }
}

impl Operator for Trunc {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Quantizes];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, ..] = rule::operands::<5>("trunc", inputs)?;
        grid::check_bits("trunc", self.bits)?;
        rule::ensure((-MAX_SHIFT..=MAX_SHIFT).contains(&self.shift), || {
            format!("trunc by {} bits, not {} to {MAX_SHIFT}", self.shift, -MAX_SHIFT)
        })?;
        grid::check_operands("trunc", inputs)?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let shape = inputs[0].shape();
        let walk = Walk::broadcast(shape, std::array::from_fn::<&[usize], 5, _>(|i| inputs[i].shape()));
        let [x, scale, zero, output_scale, output_zero] =
            [0, 1, 2, 3, 4].map(|i| inputs[i].as_f32());
        let (count, steps) = walk.inner();
        let (bounds, step) = (self.bounds(), self.step());
        let mut values = Vec::with_capacity(x.len());
        walk.rows(|start| {
            values.extend((0..count).map(|n| {
                let [i, j, k, l, m] = std::array::from_fn(|t| start[t] + n * steps[t]);
                let integer = (x[i] / scale[j] + zero[k]).round_ties_even();
                let integer = self.rounding.apply(grid::clamp(integer / step, bounds));
                (integer - output_zero[m]) * output_scale[l]
            }));
        });
        vec![Tensor::f32(shape.dims(), values)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if node.wanted[1..].contains(&true) {
            return Err(GradientError::NotDifferentiable("trunc"));
        }
        let [x, scale, output_scale, output_zero] = [0, 1, 3, 4].map(|i| node.inputs[i]);
        let step = gradient::scalar(graph, self.step());
        let wide = graph.add1(Mul {}, &[scale, step], "trunc/step")?;
        let factor = graph.add1(Div {}, &[output_scale, wide], "trunc/factor")?;
        let dy = graph.add1(Mul {}, &[node.output_gradient(), factor], "trunc/scaled")?;
        if !self.clamp {
            return Ok(vec![Some(dy), None, None, None, None]);
        }
        let [low, high] = self.bounds().map(Into::into);
        let op = StraightThrough { low, high, rounding: self.rounding };
        let dx = graph.add1(op, &[x, wide, output_zero, dy], "trunc/gradient")?;
        Ok(vec![Some(dx), None, None, None, None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let buffers: [_; 5] = std::array::from_fn(|i| builder.input(i));
        let result = builder.output(0);
        let shape = &inputs[0].shape;
        let walk = Walk::broadcast(shape, std::array::from_fn::<&[usize], 5, _>(|i| &inputs[i].shape));
        walk.lower(&mut builder, "i", |builder, indices| {
            let place = indices[0].clone();
            let mut loads = buffers.into_iter().zip(indices);
            let [x, scale, zero, output_scale, output_zero] = std::array::from_fn(|_| {
                let (buffer, index) = loads.next().expect("one for each of five operands");
                builder.load(buffer, index)
            });
            let integer = (x.divide(scale) + zero).unary(Unary::RoundTiesEven);
            let shifted = builder.let_("shifted", integer.divide(Expr::f32(self.step())));
            let clamped = grid::clamp_expression(shifted, self.bounds());
            let clamped = builder.let_("clamped", clamped);
            let integer = self.rounding.expression(clamped);
            builder.store(result, place, (integer - output_zero) * output_scale);
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    /// Known results are those of the qonnx package 1.0.0.
    fn cases() -> Vec<Case> {
        let scalar = |value: f32| Tensor::f32([], vec![value]);
        let x = vec![-40.0, -3.5, -0.75, 0.2, 1.0, 6.1, 7.3, 33.0];
        let op = |shift, signed, narrow, rounding, bits, clamp| Trunc {
            shift,
            signed,
            narrow,
            rounding,
            bits,
            clamp,
        };
        let mut cases = vec![
            Case::new(
                op(2, true, false, Rounding::Floor, 4, true),
                vec![
                    Tensor::f32([8], x.clone()),
                    scalar(0.25),
                    scalar(0.0),
                    scalar(1.0),
                    scalar(0.0),
                ],
                vec![Tensor::f32([8], vec![-8.0, -4.0, -1.0, 0.0, 1.0, 6.0, 7.0, 7.0])],
            ),
            Case::new(
                op(2, false, true, Rounding::HalfEven, 4, true),
                vec![
                    Tensor::f32([8], x.clone()),
                    scalar(0.25),
                    scalar(4.0),
                    scalar(1.0),
                    scalar(1.0),
                ],
                vec![Tensor::f32([8], vec![-1.0, -1.0, -1.0, 0.0, 1.0, 6.0, 7.0, 13.0])],
            ),
            Case::new(
                op(2, true, false, Rounding::Ceil, 4, true),
                vec![
                    Tensor::f32([2, 4], x.clone()),
                    Tensor::f32([2, 1], vec![0.25, 0.3]),
                    scalar(0.0),
                    Tensor::f32([2, 1], vec![1.0, 1.2]),
                    scalar(0.0),
                ],
                vec![Tensor::f32(
                    [2, 4],
                    vec![-8.0, -3.0, -0.0, 1.0, 1.2, 6.0, 7.200_000_3, 8.400_001],
                )],
            ),
            Case::new(
                op(2, true, false, Rounding::Floor, 6, false),
                vec![Tensor::f32([8], x), scalar(0.25), scalar(1.0), scalar(0.25), scalar(1.0)],
                vec![Tensor::f32([8], vec![-10.25, -1.25, -0.5, -0.25, 0.0, 1.25, 1.5, 8.0])],
            ),
        ];
        for (shift, clamp) in [(0, true), (-3, true), (7, false), (64, true), (-64, true)] {
            let extremes = elementwise::extreme_tensor();
            let operands = vec![extremes, scalar(0.3), scalar(5.0), scalar(2.0), scalar(-1.0)];
            for &rounding in Rounding::ALL {
                let op = op(shift, true, true, rounding, 8, clamp);
                cases.push(Case::shape_only(op, operands.clone()));
            }
        }
        let x = Tensor::f32([2, 3, 4], elementwise::ramp(24));
        let channels = |first: f32| Tensor::f32([3, 1], vec![first, first + 0.5, first + 1.0]);
        let row = Tensor::f32([4], elementwise::ramp(4));
        let operands = vec![x, channels(0.25), row.clone(), channels(1.0), row];
        cases.push(Case::shape_only(op(1, false, false, Rounding::Floor, 3, true), operands));
        cases
    }
}
