//! `broadcast`. See [`Broadcast`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;

use crate::ops::properties::{Property, Work};
use crate::ops::rule::{ensure, operands};
use crate::ops::support::movement::{Gather, result_shape};
use crate::ops::support::{derivation, gradient, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// The operand stretched to a shape by NumPy's rule; any type without per-axis scale.
    pub struct Broadcast = "broadcast" {
        /// New shape.
        pub shape: Shape,
    }
}

impl Operator for Broadcast {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Moves];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands("broadcast", inputs)?;
        let shape = result_shape("broadcast", self.shape.dims().to_vec())?;
        ensure(x.shape.broadcast(&shape).as_ref() == Some(&shape), || {
            format!("broadcast: {} does not stretch to {shape}", x.shape)
        })?;
        Ok(vec![x.with_shape(shape)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        vec![Gather::broadcast(inputs[0].shape(), &self.shape).apply(inputs[0])]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let shape = graph.ty(node.inputs[0]).shape.clone();
        let name = derivation::name(graph, node, "gradient");
        Ok(vec![Some(gradient::sum_to(graph, node.output_gradient(), &shape, &name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        Gather::broadcast(&inputs[0].shape, &self.shape).lower(inputs, outputs)
    }

    fn cases() -> Vec<Case> {
        let to = |dims: &[usize]| Broadcast { shape: dims.into() };
        vec![
            Case::new(
                to(&[2, 3]),
                vec![Tensor::f32([3], vec![1., 2., 3.])],
                vec![Tensor::f32([2, 3], vec![1., 2., 3., 1., 2., 3.])],
            ),
            Case::new(
                to(&[2, 2, 2]),
                vec![Tensor::i8_shared([2, 1], vec![-128, 127], 7)],
                vec![Tensor::i8_shared(
                    [2, 2, 2],
                    vec![-128, -128, 127, 127, -128, -128, 127, 127],
                    7,
                )],
            ),
            Case::shape_only(to(&[3, 1, 2]), vec![Tensor::f32([0; 0], vec![-0.0])]),
            Case::shape_only(to(&[0, 2]), vec![sample::f32([1, 2], 1)]),
            Case::shape_only(to(&[2, 5, 3, 4]), vec![sample::integers([5, 1, 4], Element::I32, 2)]),
            Case::shape_only(to(&[2, 3]), vec![sample::f32([2, 3], 3)]),
            Case::shape_only(to(&[3, 67]), vec![sample::integers([67], Element::I4, 4)]),
            Case::shape_only(to(&[3, 5, 32]), vec![sample::integers([5, 1], Element::U2, 5)]),
        ]
    }
}
