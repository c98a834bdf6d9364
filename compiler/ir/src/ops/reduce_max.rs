//! `reduce_max`. See [`ReduceMax`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, gradient, reduction};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, Transpose, MaxPool2dGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Shape, TensorType};

operator! {
    /// Maximum over axes (FP32), from -inf by `if x > largest { x } else { largest }` in row-major order (NaN
    /// does not count). The gradient goes to the first maximum.
    pub struct ReduceMax = "reduce_max" {
        /// Reduced axes, ascending.
        pub axes: Vec<usize>,
        /// Whether reduced axes stay with size 1.
        pub keep_dims: bool,
    }
}

impl Operator for ReduceMax {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("reduce_max", inputs)?;
        rule::all_f32("reduce_max", inputs)?;
        let (shape, count) = reduction::infer("reduce_max", x, &self.axes, self.keep_dims)?;
        rule::ensure(count > 0, || format!("reduce_max: no elements to compare in {x}"))?;
        Ok(vec![TensorType::f32(shape)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let (shape, _) = reduction::infer("reduce_max", x.ty(), &self.axes, self.keep_dims)
            .expect("checked by infer");
        let mut largest = vec![f32::NEG_INFINITY; shape.count()];
        let larger = |largest: f32, x: f32| if x > largest { x } else { largest };
        reduction::fold(x.shape(), &self.axes, x.as_f32(), &mut largest, larger);
        vec![Tensor::f32(shape, largest)]
    }

    /// As the gradient of a pooling window that holds all reduced elements: to the first maximum.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        let (x, dy) = (node.inputs[0], node.output_gradient());
        let shape = graph.ty(x).shape.clone();
        let (kept, reduced): (Vec<usize>, Vec<usize>) =
            (0..shape.rank()).partition(|axis| !self.axes.contains(axis));
        let permutation: Vec<usize> = kept.iter().chain(&reduced).copied().collect();
        let in_order = permutation.is_sorted();
        let moved: Shape = permutation.iter().map(|&axis| shape[axis]).collect::<Vec<_>>().into();
        let count = |axes: &[usize]| -> usize {
            axes.iter().fold(1, |count: usize, &axis| count.saturating_mul(shape[axis]))
        };
        let (window, rows) = (count(&reduced), count(&kept));
        let mut windows = x;
        if !in_order {
            let op = Transpose { permutation: permutation.clone() };
            windows = graph.add1(op, &[x], "reduce_max/transpose")?;
        }
        let windows = gradient::reshape(graph, windows, &[rows, 1, 1, window].into(), "reduce_max")?;
        let errors = gradient::reshape(graph, dy, &[rows, 1, 1, 1].into(), "reduce_max")?;
        let op = MaxPool2dGradient {
            kernel: [1, window],
            strides: [1, window],
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        let dx = graph.add1(op, &[windows, errors], "reduce_max/gradient")?;
        let mut dx = gradient::reshape(graph, dx, &moved, "reduce_max")?;
        if !in_order {
            let mut back = vec![0; permutation.len()];
            permutation.iter().enumerate().for_each(|(i, &axis)| back[axis] = i);
            dx = graph.add1(Transpose { permutation: back }, &[dx], "reduce_max/transpose")?;
        }
        Ok(vec![Some(dx)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let buffers = [builder.input(0), builder.output(0)];
        reduction::lower(
            &mut builder,
            &inputs[0].shape,
            &self.axes,
            buffers,
            |_, _| Expr::f32(f32::NEG_INFINITY),
            |largest, x| x.maximum(largest),
            |largest| largest,
        );
        builder.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && !self.axes.contains(&0)
    }

    fn cases() -> Vec<Case> {
        let max = |axes: &[usize], keep_dims| ReduceMax { axes: axes.to_vec(), keep_dims };
        let matrix = || Tensor::f32([2, 3], vec![1.0, 9.0, 3.0, -4.0, -5.0, -1.0]);
        let low = f32::NEG_INFINITY;
        let mut zeros = vec![-1.0; 40];
        (zeros[6], zeros[8]) = (-0.0, 0.0);
        let mut cases = vec![
            Case::new(max(&[0], false), vec![matrix()], vec![Tensor::f32([3], vec![1.0, 9.0, 3.0])]),
            Case::new(max(&[1], true), vec![matrix()], vec![Tensor::f32([2, 1], vec![9.0, -1.0])]),
            // The first of equal zeros is kept.
            Case::new(
                max(&[1], false),
                vec![Tensor::f32([3, 2], vec![-0.0, 0.0, 0.0, -0.0, low, low])],
                vec![Tensor::f32([3], vec![-0.0, 0.0, low])],
            ),
            // Among those that vectors see in another order, too.
            Case::new(max(&[0], false), vec![Tensor::f32([40], zeros)], vec![Tensor::f32([], vec![-0.0])]),
            Case::shape_only(max(&[0], false), vec![elementwise::extreme_tensor()]),
            Case::shape_only(max(&[], true), vec![Tensor::f32([], vec![-2.0])]),
        ];
        for axes in [&[0][..], &[1], &[3], &[0, 2, 3], &[1, 2], &[0, 3], &[0, 1, 2, 3]] {
            let block = Tensor::f32([2, 3, 2, 5], elementwise::ramp(60));
            cases.push(Case::shape_only(max(axes, axes.len() == 2), vec![block]));
        }
        cases
    }
}
