//! `softmax_cross_entropy_gradient`. See [`SoftmaxCrossEntropyGradient`].

use crate::loops::builder::{LoopBuilder};
use crate::loops::{Comparison, Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::softmax_cross_entropy::{infer_operands, label_operands};
use crate::ops::support::rows::Rows;
use crate::ops::support::{rows};
use crate::ops::{Case, Operator, TypeError};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// `(softmax(logits) - onehot(labels)) / B` (FP32). Operands: logits `[B,C]`, labels i32 `[B]`. Rows whose
    /// label is outside 0..C are 0.
    ///
    /// Order: as in `softmax_cross_entropy`, then `(e^(x - largest) / sum - onehot) / B`.
    pub struct SoftmaxCrossEntropyGradient = "softmax_cross_entropy_gradient" {
    }
}

impl Operator for SoftmaxCrossEntropyGradient {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        infer_operands("softmax_cross_entropy_gradient", inputs)?;
        Ok(vec![inputs[0].clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let rows = Rows::of("softmax_cross_entropy", inputs[0].ty(), 1).expect("checked by infer");
        let (x, labels) = (inputs[0].as_f32(), inputs[1].as_i32());
        let count = rows.outer as f32;
        let mut dx = vec![0f32; x.len()];
        for (start, &label) in rows.starts().zip(labels) {
            let Some(label) = usize::try_from(label).ok().filter(|&label| label < rows.length) else {
                continue;
            };
            let largest = rows::largest(x, rows.row(start));
            let sum = rows::sum_exp(x, rows.row(start), largest, |i, e| dx[i] = e);
            for (j, dx) in dx[start..start + rows.length].iter_mut().enumerate() {
                *dx = (*dx / sum - if j == label { 1.0 } else { 0.0 }) / count;
            }
        }
        vec![Tensor::f32(inputs[0].shape().dims(), dx)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let rows = Rows::of("softmax_cross_entropy", inputs[0], 1).expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, labels, y) = (builder.input(0), builder.input(1), builder.output(0));
        let count = Expr::f32(rows.outer as f32);
        rows.lower(&mut builder, |builder, start| {
            let row = start.clone().divide(Expr::index(rows.length));
            let label = builder.load(labels, row).extend();
            let label = builder.let_("label", label);
            let counts =
                label.clone().compare(Comparison::LessUnsigned, Expr::index(rows.length));
            builder.if_else(
                counts,
                |builder| {
                    let largest = rows::lower_largest(builder, rows, x, &start);
                    let sum = rows::lower_sum_exp(builder, rows, x, &start, &largest, Some(y));
                    builder.for_("j", rows.length, |builder, j| {
                        let target = j.clone().equal(label);
                        let target = target.select(Expr::f32(1.0), Expr::f32(0.0));
                        let index = rows.index(&start, j);
                        let value = builder.load(y, index.clone()).divide(sum) - target;
                        builder.store(y, index, value.divide(count.clone()));
                    });
                },
                |builder| {
                    builder.for_("j", rows.length, |builder, j| {
                        builder.store(y, rows.index(&start, j), Expr::f32(0.0));
                    });
                },
            );
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = || SoftmaxCrossEntropyGradient {};
        let mut cases = vec![Case::new(
            op(),
            vec![
                Tensor::f32([4, 2], vec![3.0, 3.0, 0.0, -200.0, 1.0, 2.0, 1.0, 2.0]),
                Tensor::i32([4], vec![1, 1, 2, -1]),
            ],
            vec![Tensor::f32([4, 2], vec![0.125, -0.125, 0.25, -0.25, 0.0, 0.0, 0.0, 0.0])],
        )];
        cases.extend(label_operands().into_iter().map(|inputs| Case::shape_only(op(), inputs)));
        cases
    }
}
