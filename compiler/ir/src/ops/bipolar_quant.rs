//! `bipolar_quant`. See [`BipolarQuant`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Order, Property, Work};
use crate::ops::support::grid::{self, Rounding};
use crate::ops::support::{elementwise, gradient};
use crate::ops::{
    Case, Differentiated, GradientError, Mul, Operator, StraightThrough, TypeError, rule,
};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// QONNX BipolarQuant: `scale` where `x >= 0`, else `-scale`.
    ///
    /// Operands: `x` and `scale`, FP32; the scale broadcasts to `x`. Both zeros give `scale`, NaN gives `-scale`; the
    /// scale may have any sign.
    ///
    /// Gradient: `dy * scale` where `x / scale` is in [-1, 1], else 0, as Brevitas trains activations (a clamped binary
    /// quantizer); the file does not tell them from weights, whose errors Brevitas passes everywhere. The scale has none.
    pub struct BipolarQuant = "bipolar_quant" {
    }
}

impl Operator for BipolarQuant {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Quantizes];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, _] = rule::operands::<2>("bipolar_quant", inputs)?;
        grid::check_operands("bipolar_quant", inputs)?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        elementwise::evaluate_binary(inputs, |x, scale| {
            let sign: f32 = if x >= 0.0 { 1.0 } else { -1.0 };
            sign * scale
        })
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if node.wanted[1] {
            return Err(GradientError::NotDifferentiable("bipolar_quant"));
        }
        let zero = gradient::scalar(graph, 0.0);
        // Away from zero, so that nothing beyond the bounds rounds to them.
        let rounding = Rounding::Up;
        let op = StraightThrough { low: (-1.0).into(), high: 1.0.into(), rounding };
        let [x, scale] = [0, 1].map(|i| node.inputs[i]);
        let dy = graph.add1(Mul {}, &[node.output_gradient(), scale], "bipolar_quant/scaled")?;
        let operands = [x, scale, zero, dy];
        Ok(vec![Some(graph.add1(op, &operands, "bipolar_quant/gradient")?), None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_binary(inputs, outputs, |_, x, scale| {
            let positive = Expr::f32(0.0).less_equal(x);
            positive.select(Expr::f32(1.0), Expr::f32(-1.0)) * scale
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    fn cases() -> Vec<Case> {
        let mut cases = vec![
            // From the qonnx package 1.0.0.
            Case::new(
                BipolarQuant {},
                vec![
                    Tensor::f32([2, 3], vec![-2.0, -0.0, 0.0, 3.0, -1.0e-9, f32::NAN]),
                    Tensor::f32([2, 1], vec![0.5, 0.25]),
                ],
                vec![Tensor::f32([2, 3], vec![-0.5, 0.5, 0.5, 0.25, -0.25, -0.25])],
            ),
        ];
        let extremes = elementwise::extreme_tensor();
        for scale in [0.3, -2.0, 0.0] {
            let operands = vec![extremes.clone(), Tensor::f32([1], vec![scale])];
            cases.push(Case::shape_only(BipolarQuant {}, operands));
        }
        let x = Tensor::f32([2, 3, 4], elementwise::ramp(24));
        for shape in [&[4][..], &[3, 1], &[2, 1, 1], &[2, 3, 4]] {
            let scale = Tensor::f32(shape, elementwise::ramp(shape.iter().product()));
            cases.push(Case::shape_only(BipolarQuant {}, vec![x.clone(), scale]));
        }
        cases
    }
}
