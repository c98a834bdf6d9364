//! `relu_gradient`. See [`ReluGradient`].

use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// The error where the ReLU's operand was positive, else 0.
    ///
    /// Operands: `x` (the ReLU's operand, or its result) and `dy`, of one shape; both FP32 or both i8 with shared
    /// exponents (`x` also u8). The result has the type and exponent of `dy`.
    pub struct ReluGradient = "relu_gradient" {
    }
}

impl Operator for ReluGradient {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        elementwise::infer_same_shape_or_shared("relu_gradient", inputs)
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, dy) = (inputs[0], inputs[1]);
        if x.ty().is_f32() {
            return elementwise::evaluate_binary(inputs, |x, dy| if x > 0.0 { dy } else { 0.0 });
        }
        let pairs = x.to_i64().into_iter().zip(dy.as_i8());
        let elements = pairs.map(|(x, &dy)| if x > 0 { dy } else { 0 }).collect();
        vec![Tensor::i8_shared(x.shape().dims(), elements, dy.exponent())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        if inputs[0].is_f32() {
            return elementwise::lower_binary(inputs, outputs, |_, x, dy| {
                Expr::f32(0.0).less(x).select(dy, Expr::f32(0.0))
            });
        }
        elementwise::lower_shared(inputs, outputs, 1, |_, values| {
            Expr::i32(0).less(values[0].clone()).select(values[1].clone(), Expr::i32(0))
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 1
    }

    fn cases() -> Vec<Case> {
        let extremes = elementwise::extreme_tensor();
        let errors = Tensor::f32(extremes.shape().dims(), elementwise::ramp(extremes.ty().count()));
        vec![
            Case::new(
                ReluGradient {},
                vec![
                    Tensor::f32([5], vec![1.5, -2.0, -0.0, 0.0, 1.0e-40]),
                    Tensor::f32([5], vec![1.0, 2.0, 3.0, 4.0, -5.0]),
                ],
                vec![Tensor::f32([5], vec![1.0, 0.0, 0.0, 0.0, -5.0])],
            ),
            Case::new(
                ReluGradient {},
                vec![
                    Tensor::i8_shared([5], vec![127, -128, 0, 1, -1], -9),
                    Tensor::i8_shared([5], vec![-127, 2, 3, -128, 5], 4),
                ],
                vec![Tensor::i8_shared([5], vec![-127, 0, 0, -128, 0], 4)],
            ),
            Case::shape_only(ReluGradient {}, vec![extremes, errors]),
            Case::shape_only(
                ReluGradient {},
                vec![
                    sample::shared([45], Element::U8, 1, -9),
                    sample::shared([45], Element::I8, 2, 4),
                ],
            ),
            Case::new(
                ReluGradient {},
                vec![
                    sample::shared_of([3], Element::U8, &[0, 128, 255], -9),
                    Tensor::i8_shared([3], vec![-127, 2, 3], 4),
                ],
                vec![Tensor::i8_shared([3], vec![0, 2, 3], 4)],
            ),
        ]
    }
}
