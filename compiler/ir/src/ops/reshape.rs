//! `reshape`. See [`Reshape`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;

use crate::ops::properties::{Examples, Order, Property, Work};
use crate::ops::rule::{ensure, operands};
use crate::ops::support::movement::{Gather, result_shape};
use crate::ops::support::{derivation, gradient, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// The same elements in row-major order under another shape; any type without per-axis scale.
    pub struct Reshape = "reshape" {
        /// New shape, same count.
        pub shape: Shape,
    }
}

impl Operator for Reshape {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Moves];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands("reshape", inputs)?;
        let shape = result_shape("reshape", self.shape.dims().to_vec())?;
        ensure(shape.count() == x.count(), || {
            format!("reshape: {} has {} elements, {shape} has {}", x.shape, x.count(), shape.count())
        })?;
        Ok(vec![x.with_shape(shape)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        vec![inputs[0].reshaped(self.shape.clone())]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let shape = graph.ty(node.inputs[0]).shape.clone();
        let name = derivation::name(graph, node, "gradient");
        Ok(vec![Some(gradient::reshape(graph, node.output_gradient(), &shape, &name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        Gather { shape: vec![inputs[0].count()], start: 0, strides: vec![1] }.lower(inputs, outputs)
    }

    fn order(&self, operand: usize) -> Option<Order> {
        (operand == 0).then_some(Order::Monotone)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && self.shape.first() == Some(&operands.examples)
    }

    fn cases() -> Vec<Case> {
        let to = |dims: &[usize]| Reshape { shape: dims.into() };
        vec![
            Case::new(
                to(&[3, 2]),
                vec![Tensor::f32([2, 3], vec![1., 2., 3., 4., 5., 6.])],
                vec![Tensor::f32([3, 2], vec![1., 2., 3., 4., 5., 6.])],
            ),
            Case::new(
                to(&[1, 4, 1]),
                vec![Tensor::i8_shared([2, 2], vec![-128, 127, 0, -1], -9)],
                vec![Tensor::i8_shared([1, 4, 1], vec![-128, 127, 0, -1], -9)],
            ),
            Case::new(
                to(&[]),
                vec![Tensor::f32([1, 1], vec![-0.0])],
                vec![Tensor::f32([0; 0], vec![-0.0])],
            ),
            Case::shape_only(to(&[0, 5]), vec![Tensor::f32([0], vec![])]),
            Case::shape_only(to(&[5]), vec![sample::integers([5, 1], Element::U32, 1)]),
            Case::shape_only(to(&[67, 3]), vec![sample::integers([3, 67], Element::I4, 2)]),
            Case::shape_only(to(&[4, 32]), vec![sample::integers([2, 64], Element::U2, 3)]),
        ]
    }
}
