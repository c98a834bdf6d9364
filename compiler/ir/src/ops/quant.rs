//! `quant`. See [`Quant`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Order, Property, Work};
use crate::ops::support::grid::{self, Rounding};
use crate::ops::support::elementwise;
use crate::ops::support::walk::Walk;
use crate::ops::{
    Case, Differentiated, GradientError, Operator, StraightThrough, TypeError, rule,
};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// QONNX Quant: an FP32 tensor rounded to a grid of `bits`-bit integers, FP32 again.
    ///
    /// Operands: `x`, `scale`, `zero_point`, all FP32; the last two broadcast to `x`. The result is
    /// `(round(clamp(x / scale + zero_point)) - zero_point) * scale`, each step in FP32 and in this order, as the
    /// qonnx package computes it: it clamps before it rounds, to the integers of [`crate::ops::grid_bounds`]; NaN stays
    /// NaN. One signed bit is -1 or 1 by the sign of `x / scale + zero_point` (0 gives 1, NaN gives -1), unrounded.
    ///
    /// Gradient: straight-through, as Brevitas trains: the error where `round(x / scale + zero_point)` is within the
    /// grid's bounds or on them, else 0 (for one signed bit, where it is in [-1, 1] unrounded). Scales and zero points
    /// have none.
    pub struct Quant = "quant" {
        /// Whether the grid has negative integers.
        pub signed: bool,
        /// Whether the grid lacks its smallest integer (its largest if it is unsigned).
        pub narrow: bool,
        /// How `clamp(x / scale + zero_point)` becomes an integer.
        pub rounding: Rounding,
        /// Bits of the integers, 1 to 32.
        pub bits: u32,
    }
}

impl Quant {
    /// Smallest and largest integer of the grid.
    pub fn bounds(&self) -> [f32; 2] {
        match self.is_bipolar() {
            true => [-1.0, 1.0],
            false => grid::grid_bounds(self.signed, self.narrow, self.bits),
        }
    }

    /// Whether the integers are -1 and 1.
    pub fn is_bipolar(&self) -> bool {
        self.signed && self.bits == 1
    }

    /// The integer of a value that is divided by the scale and moved by the zero point.
    fn integer(&self, y: f32) -> f32 {
        match self.is_bipolar() {
            true if y >= 0.0 => 1.0,
            true => -1.0,
            false => self.rounding.apply(grid::clamp(y, self.bounds())),
        }
    }
}

impl Operator for Quant {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Quantizes];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, _, _] = rule::operands::<3>("quant", inputs)?;
        grid::check_bits("quant", self.bits)?;
        grid::check_operands("quant", inputs)?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let shape = inputs[0].shape();
        let walk = Walk::broadcast(shape, [shape, inputs[1].shape(), inputs[2].shape()]);
        let [x, scale, zero_point] = [0, 1, 2].map(|i| inputs[i].as_f32());
        let (count, [_, scale_step, zero_step]) = walk.inner();
        let mut values = Vec::with_capacity(x.len());
        walk.rows(|[i, j, k]| {
            values.extend(x[i..i + count].iter().enumerate().map(|(n, x)| {
                let (scale, zero) = (scale[j + n * scale_step], zero_point[k + n * zero_step]);
                (self.integer(x / scale + zero) - zero) * scale
            }));
        });
        vec![Tensor::f32(shape.dims(), values)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if node.wanted[1] || node.wanted[2] {
            return Err(GradientError::NotDifferentiable("quant"));
        }
        let [low, high] = self.bounds().map(Into::into);
        // Away from zero, so that nothing beyond the bounds rounds to them.
        let rounding = if self.is_bipolar() { Rounding::Up } else { self.rounding };
        let operands = [node.inputs[0], node.inputs[1], node.inputs[2], node.output_gradient()];
        let dx = graph.add1(StraightThrough { low, high, rounding }, &operands, "quant/gradient")?;
        Ok(vec![Some(dx), None, None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [x, scale, zero_point] = [0, 1, 2].map(|i| builder.input(i));
        let result = builder.output(0);
        let shape = &inputs[0].shape;
        let walk = Walk::broadcast(shape, [shape, &inputs[1].shape, &inputs[2].shape]);
        walk.lower(&mut builder, "i", |builder, [i, j, k]| {
            let scale = builder.load(scale, j);
            let scale = builder.let_("scale", scale);
            let zero = builder.load(zero_point, k);
            let zero = builder.let_("zero", zero);
            let y = builder.load(x, i.clone()).divide(scale.clone()) + zero.clone();
            let y = builder.let_("y", y);
            let integer = match self.is_bipolar() {
                true => Expr::f32(0.0).less_equal(y).select(Expr::f32(1.0), Expr::f32(-1.0)),
                false => {
                    let clamped = grid::clamp_expression(y, self.bounds());
                    let clamped = builder.let_("clamped", clamped);
                    self.rounding.expression(clamped)
                }
            };
            builder.store(result, i, (integer - zero) * scale);
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    /// Known results are those of the qonnx package 1.0.0.
    fn cases() -> Vec<Case> {
        let op = |signed, narrow, rounding, bits| Quant { signed, narrow, rounding, bits };
        let tensor = |shape: &[usize], values: &[f32]| Tensor::f32(shape, values.to_vec());
        let scalar = |value: f32| Tensor::f32([], vec![value]);
        let mut cases = Vec::new();
        let x = [
            -9.0, -2.5, -1.5, -1.25, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 2.5, 3.25,
            9.0,
        ];
        let rounded: [(Rounding, [f32; 16]); 7] = [
            (
                Rounding::HalfEven,
                [
                    -4.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.5, 2.5, 3.0,
                    3.5,
                ],
            ),
            (
                Rounding::HalfUp,
                [
                    -4.0, -2.5, -1.5, -1.5, -0.5, -0.5, 0.0, 0.0, 0.5, 0.5, 1.0, 1.5, 1.5, 2.5, 3.5,
                    3.5,
                ],
            ),
            (
                Rounding::HalfDown,
                [
                    -4.0, -2.5, -1.5, -1.0, -0.5, -0.0, -0.0, -0.0, 0.0, 0.5, 0.5, 1.0, 1.5, 2.5,
                    3.0, 3.5,
                ],
            ),
            (
                Rounding::Up,
                [
                    -4.0, -2.5, -1.5, -1.5, -0.5, -0.5, 0.0, 0.0, 0.5, 0.5, 1.0, 1.5, 1.5, 2.5, 3.5,
                    3.5,
                ],
            ),
            (
                Rounding::Down,
                [
                    -4.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.5, 2.5, 3.0,
                    3.5,
                ],
            ),
            (
                Rounding::Ceil,
                [
                    -4.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.5, 1.5, 2.5, 3.5,
                    3.5,
                ],
            ),
            (
                Rounding::Floor,
                [
                    -4.0, -2.5, -1.5, -1.5, -0.5, -0.5, 0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.5, 2.5, 3.0,
                    3.5,
                ],
            ),
        ];
        for (rounding, y) in rounded {
            let operands = vec![tensor(&[16], &x), scalar(0.5), scalar(0.0)];
            cases.push(Case::new(op(true, false, rounding, 4), operands, vec![tensor(&[16], &y)]));
        }
        let x = tensor(&[2, 3], &[-3.7, -0.3, 0.31, 0.9, 4.1, 100.0]);
        let channels = tensor(&[2, 1], &[0.3, 0.7]);
        let even = Rounding::HalfEven;
        let known = [
            (
                op(true, true, even, 3),
                channels.clone(),
                scalar(0.0),
                [-0.900_000_04, -0.3, 0.3, 0.7, 2.1, 2.1],
            ),
            (
                op(false, true, even, 2),
                channels,
                tensor(&[3], &[1.0, 0.0, 2.0]),
                [-0.3, 0.0, 0.0, 0.7, 1.4, 0.0],
            ),
            (
                op(false, false, even, 8),
                scalar(0.1),
                scalar(128.0),
                [-3.7, -0.3, 0.3, 0.900_000_04, 4.1, 12.7],
            ),
            (op(true, false, even, 1), scalar(0.1), scalar(0.0), [-0.1, -0.1, 0.1, 0.1, 0.1, 0.1]),
            (op(false, false, even, 1), scalar(0.1), scalar(0.0), [0.0, 0.0, 0.1, 0.1, 0.1, 0.1]),
        ];
        for (op, scale, zero, y) in known {
            cases.push(Case::new(op, vec![x.clone(), scale, zero], vec![tensor(&[2, 3], &y)]));
        }
        cases.push(Case::new(
            op(true, true, even, 32),
            vec![tensor(&[3], &[-3.0e9, 3.0e9, 1.5]), scalar(1.0), scalar(0.0)],
            vec![tensor(&[3], &[-2_147_483_648.0, 2_147_483_648.0, 2.0])],
        ));
        cases.push(Case::new(
            op(true, false, Rounding::HalfUp, 4),
            vec![tensor(&[2], &[f32::INFINITY, f32::NEG_INFINITY]), scalar(0.25), scalar(0.0)],
            vec![tensor(&[2], &[1.75, -2.0])],
        ));
        for &rounding in Rounding::ALL {
            let extremes = elementwise::extreme_tensor();
            let operands = vec![extremes, Tensor::f32([1], vec![0.3]), scalar(3.0)];
            cases.push(Case::shape_only(op(true, true, rounding, 8), operands));
        }
        for (signed, bits) in [(true, 1), (false, 1), (true, 2), (false, 8), (true, 32)] {
            for scales in [&[][..], &[5], &[3, 1, 1], &[2, 1, 3, 1], &[2, 3, 3, 5]] {
                let count = scales.iter().product();
                let steps = (0..count).map(|i: usize| 0.25 + 0.125 * i as f32).collect();
                let x = Tensor::f32([2, 3, 3, 5], elementwise::ramp(90));
                let zero = Tensor::f32([3, 5], elementwise::ramp(15));
                let operands = vec![x, Tensor::f32(scales, steps), zero];
                cases.push(Case::shape_only(op(signed, false, even, bits), operands));
            }
        }
        cases
    }
}
