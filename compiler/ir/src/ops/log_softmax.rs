//! `log_softmax`. See [`LogSoftmax`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::rows::Rows;
use crate::ops::support::{elementwise, rows};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, Exp, Sub, Mul, ReduceSum};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `x - max - log(sum e^(x - max))` along an axis (FP32), from the left, with the sum from +0 in the order of
    /// the axis.
    pub struct LogSoftmax = "log_softmax" {
        /// Axis.
        pub axis: usize,
    }
}

impl Operator for LogSoftmax {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("log_softmax", inputs)?;
        rule::all_f32("log_softmax", inputs)?;
        Rows::of("log_softmax", x, self.axis)?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let rows = Rows::of("log_softmax", inputs[0].ty(), self.axis).expect("checked by infer");
        let x = inputs[0].as_f32();
        let mut y = vec![0f32; x.len()];
        for start in rows.starts() {
            let row = rows.row(start);
            let largest = rows::largest(x, row.clone());
            let logarithm = numeric::log(rows::sum_exp(x, row.clone(), largest, |_, _| {}));
            row.for_each(|i| y[i] = x[i] - largest - logarithm);
        }
        vec![Tensor::f32(inputs[0].shape().dims(), y)]
    }

    /// `dy - e^y * sum(dy)`.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        let (y, dy) = (node.outputs[0], node.output_gradient());
        let total = ReduceSum { axes: vec![self.axis], keep_dims: true };
        let sum = graph.add1(total, &[dy], "log_softmax/sum")?;
        let softmax = graph.add1(Exp {}, &[y], "log_softmax/softmax")?;
        let part = graph.add1(Mul {}, &[softmax, sum], "log_softmax/part")?;
        Ok(vec![Some(graph.add1(Sub {}, &[dy, part], "log_softmax/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let rows = Rows::of("log_softmax", inputs[0], self.axis).expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (builder.input(0), builder.output(0));
        rows.lower(&mut builder, |builder, start| {
            let largest = rows::lower_largest(builder, rows, x, &start);
            let sum = rows::lower_sum_exp(builder, rows, x, &start, &largest, None);
            let logarithm = numeric::float::log_expression(builder, sum);
            builder.for_("j", rows.length, |builder, j| {
                let index = rows.index(&start, j);
                let value = builder.load(x, index.clone()) - largest - logarithm;
                builder.store(y, index, value);
            });
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |axis| LogSoftmax { axis };
        let mut cases = vec![
            Case::new(
                op(1),
                vec![Tensor::f32([2, 2], vec![3.0, 3.0, 0.0, -200.0])],
                vec![Tensor::f32([2, 2], vec![-std::f32::consts::LN_2, -std::f32::consts::LN_2, 0.0, -200.0])],
            ),
            Case::shape_only(op(0), vec![Tensor::f32([3], vec![3.0e38, -3.0e38, 1.0e-40])]),
            Case::shape_only(op(1), vec![Tensor::f32([0, 3], vec![])]),
        ];
        for (axis, shape) in [(0, &[7][..]), (1, &[3, 5]), (0, &[3, 5]), (1, &[2, 3, 2, 5]), (2, &[1, 1, 1, 1, 1])] {
            let x = Tensor::f32(shape, elementwise::ramp(shape.iter().product()));
            cases.push(Case::shape_only(op(axis), vec![x]));
        }
        cases
    }
}
