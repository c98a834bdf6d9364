//! `transpose`. See [`Transpose`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;

use crate::ops::properties::{Examples, Property, Work};
use crate::ops::rule::{ensure, operands};
use crate::ops::support::movement::Gather;
use crate::ops::support::{derivation, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Axes permuted: result axis `i` is operand axis `permutation[i]`. Any type without per-axis scale.
    pub struct Transpose = "transpose" {
        /// A permutation of the axes.
        pub permutation: Vec<usize>,
    }
}

impl Transpose {
    fn walk(&self, shape: &Shape) -> Gather {
        let strides = shape.strides();
        Gather {
            shape: self.permutation.iter().map(|&axis| shape[axis]).collect(),
            start: 0,
            strides: self.permutation.iter().map(|&axis| strides[axis] as i64).collect(),
        }
    }
}

impl Operator for Transpose {
    const WORK: Work = Work::Strides;
    const PROPERTIES: &'static [Property] = &[Property::Moves];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands("transpose", inputs)?;
        let mut sorted = self.permutation.clone();
        sorted.sort_unstable();
        ensure(sorted.iter().copied().eq(0..x.shape.rank()), || {
            format!("transpose: {:?} does not permute the axes of {}", self.permutation, x.shape)
        })?;
        let dims: Vec<usize> = self.permutation.iter().map(|&axis| x.shape[axis]).collect();
        Ok(vec![x.with_shape(dims)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        vec![self.walk(inputs[0].shape()).apply(inputs[0])]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let mut permutation = vec![0; self.permutation.len()];
        for (to, &from) in self.permutation.iter().enumerate() {
            permutation[from] = to;
        }
        let name = derivation::name(graph, node, "gradient");
        Ok(vec![Some(graph.add1(Transpose { permutation }, &[node.output_gradient()], name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.walk(&inputs[0].shape).lower(inputs, outputs)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && self.permutation.first() == Some(&0)
    }

    fn cases() -> Vec<Case> {
        let permute = |axes: &[usize]| Transpose { permutation: axes.to_vec() };
        vec![
            Case::new(
                permute(&[1, 0]),
                vec![Tensor::f32([2, 3], vec![1., 2., 3., 4., 5., 6.])],
                vec![Tensor::f32([3, 2], vec![1., 4., 2., 5., 3., 6.])],
            ),
            // Axis 0 of the result is axis 2 of the operand, so this is a rotation and not its inverse.
            Case::new(
                permute(&[2, 0, 1]),
                vec![Tensor::i8_shared([1, 2, 3], vec![1, 2, 3, 4, 5, -128], 4)],
                vec![Tensor::i8_shared([3, 1, 2], vec![1, 4, 2, 5, 3, -128], 4)],
            ),
            Case::shape_only(permute(&[]), vec![Tensor::f32([0; 0], vec![3.5])]),
            Case::shape_only(permute(&[0, 2, 3, 1]), vec![sample::f32([2, 3, 5, 4], 1)]),
            Case::shape_only(permute(&[3, 1, 0, 2]), vec![sample::i8_shared([3, 1, 4, 5], 2, -3)]),
            Case::shape_only(permute(&[1, 0]), vec![sample::integers([4, 7], Element::U16, 3)]),
            Case::shape_only(permute(&[1, 0]), vec![Tensor::f32([0, 7], vec![])]),
            Case::shape_only(
                permute(&[0, 2, 3, 1]),
                vec![sample::integers([2, 5, 3, 37], Element::U4, 4)],
            ),
            Case::shape_only(permute(&[0, 2, 1]), vec![sample::integers([3, 8, 40], Element::I2, 5)]),
        ]
    }
}
