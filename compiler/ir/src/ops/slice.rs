//! `slice`. See [`Slice`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;

use crate::ops::properties::{Examples, Property, Work};
use crate::ops::rule::{ensure, operands};
use crate::ops::support::movement::Gather;
use crate::ops::support::{derivation, gradient, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, Pad, Reshape, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// A strided box of the operand: `start + i * step`, any type without per-axis scale; steps may be
    /// negative (FP32 gradient for positive steps).
    pub struct Slice = "slice" {
        /// First index of each axis.
        pub starts: Vec<usize>,
        /// Result size of each axis.
        pub lengths: Vec<usize>,
        /// Step of each axis, not 0.
        pub steps: Vec<i64>,
    }
}

impl Slice {
    /// A box of consecutive elements.
    pub(crate) fn contiguous(starts: Vec<usize>, lengths: Vec<usize>) -> Slice {
        let steps = vec![1; starts.len()];
        Slice { starts, lengths, steps }
    }

    fn walk(&self, shape: &Shape) -> Gather {
        let strides = shape.strides();
        // An empty result reads nothing, wherever it starts.
        let starts = self.starts.iter().zip(&strides);
        Gather {
            shape: self.lengths.clone(),
            start: starts.map(|(&start, &stride)| (start * stride) as i64).sum(),
            strides: (0..shape.rank()).map(|axis| self.step(axis) * strides[axis] as i64).collect(),
        }
    }

    /// The step where it matters: from an element to a next one.
    fn step(&self, axis: usize) -> i64 {
        if self.lengths[axis] > 1 { self.steps[axis] } else { 1 }
    }

    /// Index of the last element of `axis`, if it has one and it exists.
    fn last(&self, axis: usize) -> Option<i128> {
        let length = self.lengths[axis] as i128;
        (length > 0).then(|| self.starts[axis] as i128 + (length - 1) * i128::from(self.steps[axis]))
    }
}

impl Operator for Slice {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Moves];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands("slice", inputs)?;
        let rank = x.shape.rank();
        ensure([self.starts.len(), self.lengths.len(), self.steps.len()] == [rank; 3], || {
            format!("slice: needs a start, length and step for each of the {rank} axes")
        })?;
        for (axis, &size) in x.shape.iter().enumerate() {
            let (start, step) = (self.starts[axis], self.steps[axis]);
            ensure(step != 0, || format!("slice: step 0 along axis {axis}"))?;
            let inside = match self.last(axis) {
                Some(last) => start < size && (0..size as i128).contains(&last),
                None => start <= size,
            };
            ensure(inside, || {
                format!(
                    "slice: {} element(s) from {start} by {step} leave axis {axis} of size {size}",
                    self.lengths[axis]
                )
            })?;
        }
        Ok(vec![x.with_shape(self.lengths.clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        vec![self.walk(inputs[0].shape()).apply(inputs[0])]
    }

    /// The error goes back to its places: flipped where the step is negative, spread by the step, and padded.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let name = derivation::name(graph, node, "gradient");
        let sizes = graph.ty(node.inputs[0]).shape.clone();
        let rank = sizes.rank();
        let axes = 0..rank;
        let mut error = node.output_gradient();
        if self.lengths.contains(&0) {
            let zeros = Tensor::zeros(graph.ty(node.inputs[0]));
            return Ok(vec![Some(graph.add_constant(name, zeros))]);
        }
        let flips = |axis: usize| self.step(axis) < 0;
        if axes.clone().any(flips) {
            let flip = Slice {
                starts: axes
                    .clone()
                    .map(|a| if flips(a) { self.lengths[a] - 1 } else { 0 })
                    .collect(),
                lengths: self.lengths.clone(),
                steps: axes.clone().map(|a| if flips(a) { -1 } else { 1 }).collect(),
            };
            error = graph.add1(flip, &[error], format!("{name}.flip"))?;
        }
        let step = |axis: usize| self.step(axis).unsigned_abs() as usize;
        let span: Vec<usize> =
            axes.clone().map(|axis| (self.lengths[axis] - 1) * step(axis) + 1).collect();
        if axes.clone().any(|axis| step(axis) > 1) {
            // [n] -> [n, 1] -> [n, step] -> [n * step], along every axis at once.
            let pairs = |second: &dyn Fn(usize) -> usize| -> Vec<usize> {
                axes.clone().flat_map(|axis| [self.lengths[axis], second(axis)]).collect()
            };
            let columns = Reshape { shape: pairs(&|_| 1).into() };
            error = graph.add1(columns, &[error], format!("{name}.columns"))?;
            let after = axes.clone().flat_map(|axis| [0, step(axis) - 1]).collect();
            let spread = Pad { before: vec![0; 2 * rank], after, value: 0.0.into() };
            error = graph.add1(spread, &[error], format!("{name}.spread"))?;
            let rows: Vec<usize> =
                axes.clone().map(|axis| self.lengths[axis] * step(axis)).collect();
            error = gradient::reshape(graph, error, &rows.into(), &format!("{name}.rows"))?;
            let trim = Slice::contiguous(vec![0; rank], span.clone());
            error = graph.add1(trim, &[error], format!("{name}.trim"))?;
        }
        let before: Vec<usize> = axes
            .clone()
            .map(|axis| self.starts[axis].min(self.last(axis).map_or(0, |last| last as usize)))
            .collect();
        let after = axes.map(|axis| sizes[axis] - before[axis] - span[axis]).collect();
        let pad = Pad { before, after, value: 0.0.into() };
        Ok(vec![Some(graph.add1(pad, &[error], name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.walk(&inputs[0].shape).lower(inputs, outputs)
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
            && (self.starts[0], self.lengths[0], self.steps[0]) == (0, operands.examples, 1)
    }

    fn cases() -> Vec<Case> {
        let slice = |starts: &[usize], lengths: &[usize], steps: &[i64]| Slice {
            starts: starts.to_vec(),
            lengths: lengths.to_vec(),
            steps: steps.to_vec(),
        };
        vec![
            Case::new(
                slice(&[0, 1], &[2, 2], &[1, 1]),
                vec![Tensor::f32([2, 4], vec![1., 2., 3., 4., 5., 6., 7., 8.])],
                vec![Tensor::f32([2, 2], vec![2., 3., 6., 7.])],
            ),
            Case::new(
                slice(&[1, 3], &[2, 2], &[-1, -2]),
                vec![Tensor::f32([2, 4], vec![1., 2., 3., 4., 5., 6., 7., 8.])],
                vec![Tensor::f32([2, 2], vec![8., 6., 4., 2.])],
            ),
            Case::new(
                slice(&[4], &[3], &[-2]),
                vec![Tensor::i8_shared([5], vec![-128, 1, 2, 3, 127], 5)],
                vec![Tensor::i8_shared([3], vec![127, 2, -128], 5)],
            ),
            Case::shape_only(
                slice(&[1, 6, 0], &[3, 3, 1], &[2, -3, 1]),
                vec![sample::f32([7, 7, 3], 1)],
            ),
            Case::shape_only(slice(&[2, 5], &[3, 0], &[1, 1]), vec![sample::f32([5, 5], 2)]),
            Case::shape_only(slice(&[], &[], &[]), vec![Tensor::f32([0; 0], vec![1.5])]),
            Case::shape_only(slice(&[1], &[3], &[3]), vec![sample::integers([9], Element::U8, 3)]),
            Case::shape_only(
                slice(&[1, 40], &[3, 37], &[1, -1]),
                vec![sample::integers([4, 41], Element::I4, 4)],
            ),
            Case::shape_only(
                slice(&[0, 3], &[5, 32], &[1, 2]),
                vec![sample::integers([5, 69], Element::B1, 5)],
            ),
        ]
    }
}
