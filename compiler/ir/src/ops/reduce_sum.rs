//! `reduce_sum`. See [`ReduceSum`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::support::{elementwise, gradient, reduction};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// Sum over axes: FP32, or i8 with a shared exponent, giving i32 with the same exponent.
    ///
    /// Order: each result is a sequential sum from +0 over the reduced elements in row-major order.
    pub struct ReduceSum = "reduce_sum" {
        /// Reduced axes, ascending.
        pub axes: Vec<usize>,
        /// Whether reduced axes stay with size 1.
        pub keep_dims: bool,
    }
}

impl Operator for ReduceSum {
    const WORK: Work = Work::Strides;
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("reduce_sum", inputs)?;
        rule::f32_or_shared_i8("reduce_sum", x)?;
        let (shape, count) = reduction::infer("reduce_sum", x, &self.axes, self.keep_dims)?;
        if x.is_f32() {
            return Ok(vec![TensorType::f32(shape)]);
        }
        rule::ensure(count <= MAX_INTEGER_TERMS, || {
            format!("reduce_sum: {count} terms may overflow i32, at most {MAX_INTEGER_TERMS}")
        })?;
        Ok(vec![TensorType::shared(shape, Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let (shape, _) = reduction::infer("reduce_sum", x.ty(), &self.axes, self.keep_dims)
            .expect("checked by infer");
        if x.ty().is_f32() {
            let mut sums = vec![0f32; shape.count()];
            reduction::fold(x.shape(), &self.axes, x.as_f32(), &mut sums, |sum, x| sum + x);
            vec![Tensor::f32(shape, sums)]
        } else {
            let mut sums = vec![0i32; shape.count()];
            let add = |sum: i32, x: i8| sum + i32::from(x);
            reduction::fold(x.shape(), &self.axes, x.as_i8(), &mut sums, add);
            vec![Tensor::i32_shared(shape, sums, x.exponent())]
        }
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        let shape = graph.ty(node.inputs[0]).shape.clone();
        let dy = node.output_gradient();
        Ok(vec![Some(gradient::stretch(graph, dy, &shape, &self.axes, "reduce_sum")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let zero = if inputs[0].is_f32() { Expr::f32(0.0) } else { Expr::i32(0) };
        if !inputs[0].is_f32() {
            let exponent = builder.input_exponent(0);
            builder.set_output_exponent(0, exponent);
        }
        let buffers = [builder.input(0), builder.output(0)];
        reduction::lower(
            &mut builder,
            &inputs[0].shape,
            &self.axes,
            buffers,
            |_, _| zero,
            |sum, x| sum + x,
            |sum| sum,
        );
        builder.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && !self.axes.contains(&0)
    }

    fn cases() -> Vec<Case> {
        let sum = |axes: &[usize], keep_dims| ReduceSum { axes: axes.to_vec(), keep_dims };
        let matrix = || Tensor::f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let integers = || Tensor::i8_shared([2, 3], vec![127, 127, -128, 1, -2, 3], -7);
        let block = || Tensor::f32([2, 3, 2, 5], elementwise::ramp(60));
        let mut cases = vec![
            Case::new(sum(&[0], false), vec![matrix()], vec![Tensor::f32([3], vec![5.0, 7.0, 9.0])]),
            Case::new(sum(&[1], true), vec![matrix()], vec![Tensor::f32([2, 1], vec![6.0, 15.0])]),
            Case::new(sum(&[0, 1], false), vec![matrix()], vec![Tensor::f32([], vec![21.0])]),
            // Sequential: 2^24 + 1 rounds to 2^24 each time; 1 + 1 first would give 2^24 + 2.
            Case::new(
                sum(&[0], false),
                vec![Tensor::f32([3], vec![16_777_216.0, 1.0, 1.0])],
                vec![Tensor::f32([], vec![16_777_216.0])],
            ),
            // Without terms, and from +0: -0 alone becomes +0.
            Case::new(
                sum(&[1], false),
                vec![Tensor::f32([2, 0], vec![])],
                vec![Tensor::f32([2], vec![0.0, 0.0])],
            ),
            Case::new(
                sum(&[], false),
                vec![Tensor::f32([2], vec![-0.0, 1.0])],
                vec![Tensor::f32([2], vec![0.0, 1.0])],
            ),
            Case::new(
                sum(&[1], false),
                vec![integers()],
                vec![Tensor::i32_shared([2], vec![126, 2], -7)],
            ),
            Case::new(
                sum(&[0], true),
                vec![integers()],
                vec![Tensor::i32_shared([1, 3], vec![128, 125, -125], -7)],
            ),
            Case::shape_only(sum(&[0], false), vec![elementwise::extreme_tensor()]),
            Case::shape_only(sum(&[], true), vec![Tensor::f32([], vec![3.5])]),
        ];
        for axes in [&[0][..], &[1], &[3], &[0, 2, 3], &[1, 2], &[0, 3], &[0, 1, 2, 3]] {
            cases.push(Case::shape_only(sum(axes, axes.len() == 2), vec![block()]));
        }
        cases
    }
}

/// Terms of magnitude 128 that an i32 sum holds.
const MAX_INTEGER_TERMS: usize = (1 << 24) - 1;
