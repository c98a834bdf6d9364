//! `reduce_mean`. See [`ReduceMean`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, gradient, reduction};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, Div};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Mean over axes (FP32): the sum of `reduce_sum` divided by the count.
    pub struct ReduceMean = "reduce_mean" {
        /// Reduced axes, ascending.
        pub axes: Vec<usize>,
        /// Whether reduced axes stay with size 1.
        pub keep_dims: bool,
    }
}

impl Operator for ReduceMean {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("reduce_mean", inputs)?;
        rule::all_f32("reduce_mean", inputs)?;
        let (shape, count) = reduction::infer("reduce_mean", x, &self.axes, self.keep_dims)?;
        rule::ensure(count > 0, || format!("reduce_mean: no elements to average in {x}"))?;
        Ok(vec![TensorType::f32(shape)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let (shape, count) = reduction::infer("reduce_mean", x.ty(), &self.axes, self.keep_dims)
            .expect("checked by infer");
        let mut sums = vec![0f32; shape.count()];
        reduction::fold(x.shape(), &self.axes, x.as_f32(), &mut sums, |sum, x| sum + x);
        sums.iter_mut().for_each(|sum| *sum /= count as f32);
        vec![Tensor::f32(shape, sums)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        let x = graph.ty(node.inputs[0]).clone();
        let (_, count) = reduction::infer("reduce_mean", &x, &self.axes, self.keep_dims)?;
        let count = gradient::scalar(graph, count as f32);
        let share = graph.add1(Div {}, &[node.output_gradient(), count], "reduce_mean/share")?;
        Ok(vec![Some(gradient::stretch(graph, share, &x.shape, &self.axes, "reduce_mean")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let (_, count) = reduction::infer("reduce_mean", inputs[0], &self.axes, self.keep_dims)
            .expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let buffers = [builder.input(0), builder.output(0)];
        reduction::lower(
            &mut builder,
            &inputs[0].shape,
            &self.axes,
            buffers,
            |_, _| Expr::f32(0.0),
            |sum, x| sum + x,
            |sum| sum.divide(Expr::f32(count as f32)),
        );
        builder.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && !self.axes.contains(&0)
    }

    fn cases() -> Vec<Case> {
        let mean = |axes: &[usize], keep_dims| ReduceMean { axes: axes.to_vec(), keep_dims };
        let matrix = || Tensor::f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0]);
        let mut cases = vec![
            Case::new(mean(&[0], false), vec![matrix()], vec![Tensor::f32([3], vec![2.5, 3.5, 5.0])]),
            Case::new(
                mean(&[1], true),
                vec![matrix()],
                vec![Tensor::f32([2, 1], vec![2.0, f32::from_bits(0x40aa_aaab)])],
            ),
            Case::new(
                mean(&[], false),
                vec![Tensor::f32([], vec![3.0])],
                vec![Tensor::f32([], vec![3.0])],
            ),
            Case::shape_only(mean(&[0], false), vec![elementwise::extreme_tensor()]),
        ];
        for axes in [&[0][..], &[1], &[3], &[0, 2, 3], &[1, 2], &[0, 3], &[0, 1, 2, 3]] {
            let block = Tensor::f32([2, 3, 2, 5], elementwise::ramp(60));
            cases.push(Case::shape_only(mean(axes, axes.len() == 2), vec![block]));
        }
        cases
    }
}
