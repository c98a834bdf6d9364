//! `softmax_cross_entropy`. See [`SoftmaxCrossEntropy`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Comparison, Expr, LoopKernel};
use crate::numeric;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::rows::Rows;
use crate::ops::support::{elementwise, rows};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, Mul, SoftmaxCrossEntropyGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Mean over the batch of the softmax cross-entropy. Operands: logits FP32 `[B,C]`, labels i32 `[B]`;
    /// result: a scalar. Labels outside 0..C contribute nothing (but count in B).
    ///
    /// Order: `largest` from -inf, `sum` of `e^(x - largest)` from +0, both along the row; each row adds
    /// `log(sum) - (x[label] - largest)` to a total from +0, in the order of the batch; `total / B`.
    pub struct SoftmaxCrossEntropy = "softmax_cross_entropy" {
    }
}

impl Operator for SoftmaxCrossEntropy {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        infer_operands("softmax_cross_entropy", inputs)?;
        Ok(vec![TensorType::f32(Shape::scalar())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let rows = Rows::of("softmax_cross_entropy", inputs[0].ty(), 1).expect("checked by infer");
        let (x, labels) = (inputs[0].as_f32(), inputs[1].as_i32());
        let mut total = 0f32;
        for (start, &label) in rows.starts().zip(labels) {
            let Some(label) = usize::try_from(label).ok().filter(|&label| label < rows.length) else {
                continue;
            };
            let largest = rows::largest(x, rows.row(start));
            let sum = rows::sum_exp(x, rows.row(start), largest, |_, _| {});
            total += numeric::log(sum) - (x[start + label] - largest);
        }
        vec![Tensor::f32(Shape::scalar(), vec![total / rows.outer as f32])]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None, None]);
        }
        let dy = node.output_gradient();
        let name = "softmax_cross_entropy/gradient";
        let gradient = graph.add1(SoftmaxCrossEntropyGradient {}, node.inputs, name)?;
        let is_one = graph.constant_of(dy).is_some_and(|dy| dy.as_f32() == [1.0]);
        let gradient =
            if is_one { gradient } else { graph.add1(Mul {}, &[gradient, dy], name)? };
        Ok(vec![Some(gradient), None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let rows = Rows::of("softmax_cross_entropy", inputs[0], 1).expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, labels, y) = (builder.input(0), builder.input(1), builder.output(0));
        // Powers and rows are independent of one another; only what is left of each row is added in order.
        let powers = builder.scratch("powers", Element::F32, rows.outer * rows.length);
        let values = builder.scratch("values", Element::F32, rows.outer);
        let start = |row: &Expr| row.clone() * Expr::index(rows.length);
        builder.for_("row", rows.outer, |builder, row| {
            let start = builder.let_("start", start(&row));
            let largest = rows::lower_largest(builder, rows, x, &start);
            builder.for_("j", rows.length, |builder, j| {
                let index = builder.let_("index", rows.index(&start, j));
                let shifted = builder.load(x, index.clone()) - largest.clone();
                builder.store(powers, index, shifted);
            });
            builder.store(values, row, largest);
        });
        builder.for_("i", rows.outer * rows.length, |builder, i| {
            let shifted = builder.load(powers, i.clone());
            let power = numeric::float::exp_expression(builder, shifted);
            builder.store(powers, i, power);
        });
        builder.for_("row", rows.outer, |builder, row| {
            let start = builder.let_("start", start(&row));
            let label = builder.load(labels, row.clone());
            let label = builder.let_("label", label.extend());
            let counts =
                label.clone().compare(Comparison::LessUnsigned, Expr::index(rows.length));
            let value = builder.local("value", Expr::f32(0.0));
            builder.if_(counts, |builder| {
                let sum = builder.local("sum", Expr::f32(0.0));
                builder.for_("j", rows.length, |builder, j| {
                    let power = builder.load(powers, rows.index(&start, j));
                    let sum_so_far = builder.get(sum) + power;
                    builder.set(sum, sum_so_far);
                });
                let sum = builder.get(sum);
                let logarithm = numeric::float::log_expression(builder, sum);
                let chosen = builder.load(x, start.clone() + label.clone());
                let chosen = chosen - builder.load(values, row.clone());
                builder.set(value, logarithm - chosen);
            });
            let value = builder.get(value);
            builder.store(values, row, value);
        });
        // What does not count is 0, of which nothing comes.
        let total = builder.local("total", Expr::f32(0.0));
        builder.for_("row", rows.outer, |builder, row| {
            let value = builder.get(total) + builder.load(values, row);
            builder.set(total, value);
        });
        let mean = builder.get(total).divide(Expr::f32(rows.outer as f32));
        builder.store(y, Expr::i64(0), mean);
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = || SoftmaxCrossEntropy {};
        let ln2 = std::f32::consts::LN_2;
        let mut cases = vec![
            // ln 2 and 0; the third row counts only in the divisor.
            Case::new(
                op(),
                vec![
                    Tensor::f32([4, 2], vec![3.0, 3.0, 0.0, -200.0, 1.0, 2.0, 1.0, 2.0]),
                    Tensor::i32([4], vec![1, 0, 2, -1]),
                ],
                vec![Tensor::f32([], vec![ln2 / 4.0])],
            ),
            // log(1) - (-200 - 0)
            Case::new(
                op(),
                vec![Tensor::f32([1, 2], vec![0.0, -200.0]), Tensor::i32([1], vec![1])],
                vec![Tensor::f32([], vec![200.0])],
            ),
        ];
        cases.extend(label_operands().into_iter().map(|inputs| Case::shape_only(op(), inputs)));
        cases
    }
}

/// The type rule of logits `[B,C]` and labels `[B]`.
pub(crate) fn infer_operands(name: &str, inputs: &[&TensorType]) -> Result<(), TypeError> {
    let [logits, labels] = rule::operands::<2>(name, inputs)?;
    rule::all_f32(name, &[logits])?;
    rule::ensure(logits.shape.rank() == 2, || format!("{name} takes logits [B,C], here {logits}"))?;
    let expected = TensorType::new([logits.shape[0]], Element::I32);
    rule::ensure(*labels == expected, || {
        format!("{name}: the labels of {logits} have type {expected}, here {labels}")
    })?;
    rule::ensure(logits.shape[0] > 0, || format!("{name}: an empty batch"))?;
    Rows::of(name, logits, 1).map(|_| ())
}

/// Logits and labels of odd sizes and extreme values.
pub(crate) fn label_operands() -> Vec<Vec<Tensor>> {
    let mut operands: Vec<Vec<Tensor>> = [(1, 1), (3, 5), (7, 10), (5, 3)]
        .into_iter()
        .map(|(batch, classes)| {
            let labels = (0..batch).map(|b| (b * 3 % (classes + 1)) as i32).collect();
            let logits = elementwise::ramp(batch * classes);
            vec![Tensor::f32([batch, classes], logits), Tensor::i32([batch], labels)]
        })
        .collect();
    let logits = vec![3.0e38, -3.0e38, 1.0e-40, 0.0, f32::NEG_INFINITY, 88.0];
    let labels = Tensor::i32([2], vec![i32::MIN, i32::MAX]);
    operands.push(vec![Tensor::f32([2, 3], logits.clone()), labels]);
    operands.push(vec![Tensor::f32([2, 3], logits), Tensor::i32([2], vec![1, 0])]);
    operands
}
