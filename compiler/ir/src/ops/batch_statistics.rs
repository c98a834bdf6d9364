//! `batch_statistics`. See [`BatchStatistics`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::channels::Channels;
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, Add, Sub, Mul, Div, Broadcast};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Shape, TensorType};

operator! {
    /// Mean and (biased) variance over batch and space of each channel of `[B,C,...]` (FP32). Results: `mean`
    /// `[C]`, `variance` `[C]`.
    ///
    /// Order: a sum has 16 partial sums from +0; element `i` of a sample's channel is added, by batch, then space, to partial sum
    /// `i mod 16`; then the partial sums from the first to the last. `mean = sum(x) / N`,
    /// `variance = sum((x - mean) * (x - mean)) / N`.
    pub struct BatchStatistics = "batch_statistics" {
    }
}

impl Operator for BatchStatistics {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("batch_statistics", inputs)?;
        rule::all_f32("batch_statistics", inputs)?;
        let sizes = Channels::of("batch_statistics", x)?;
        sizes.check_count("batch_statistics")?;
        let vector = TensorType::f32([sizes.channels]);
        Ok(vec![vector.clone(), vector])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of("batch_statistics", inputs[0].ty()).expect("checked by infer");
        let x = inputs[0].as_f32();
        let count = sizes.count() as f32;
        let (means, variances) = (0..sizes.channels)
            .map(|c| {
                let mean = sizes.sum(c, |i| x[i]) / count;
                let variance = sizes.sum(c, |i| (x[i] - mean) * (x[i] - mean)) / count;
                (mean, variance)
            })
            .unzip();
        vec![Tensor::f32([sizes.channels], means), Tensor::f32([sizes.channels], variances)]
    }

    /// `dmean / N + dvariance * (2 / N) * (x - mean)`, each channel's vectors stretched over batch and space.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        let name = "batch_statistics/gradient";
        let x = node.inputs[0];
        let ty = graph.ty(x).clone();
        let sizes = Channels::of("batch_statistics", &ty)?;
        let count = sizes.count() as f32;
        let mut dims = vec![1; ty.shape.rank()];
        dims[1] = sizes.channels;
        let column: Shape = dims.into();
        let mut total = None;
        if let Some(dmean) = node.output_gradients[0] {
            let count = gradient::scalar(graph, count);
            let share = graph.add1(Div {}, &[dmean, count], name)?;
            let share = gradient::reshape(graph, share, &column, name)?;
            total = Some(graph.add1(Broadcast { shape: ty.shape.clone() }, &[share], name)?);
        }
        if let Some(dvariance) = node.output_gradients[1] {
            let factor = gradient::scalar(graph, 2.0 / count);
            let share = graph.add1(Mul {}, &[dvariance, factor], name)?;
            let share = gradient::reshape(graph, share, &column, name)?;
            let mean = gradient::reshape(graph, node.outputs[0], &column, name)?;
            let centred = graph.add1(Sub {}, &[x, mean], name)?;
            let part = graph.add1(Mul {}, &[centred, share], name)?;
            total = Some(match total {
                Some(total) => graph.add1(Add {}, &[total, part], name)?,
                None => part,
            });
        }
        Ok(vec![total])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let sizes = Channels::of("batch_statistics", inputs[0]).expect("checked by infer");
        let count = Expr::f32(sizes.count() as f32);
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let x = builder.input(0);
        let results = [builder.output(0), builder.output(1)];
        let parts = sizes.partial_sums(&mut builder, "parts");
        builder.for_("c", sizes.channels, |builder, c| {
            let [sum] =
                sizes.lower_sums(builder, [("sum", parts)], &c, |builder, i| [builder.load(x, i)]);
            let mean = builder.let_("mean", sum.divide(count.clone()));
            let [squares] = sizes.lower_sums(builder, [("squares", parts)], &c, |builder, i| {
                let centred = builder.load(x, i) - mean.clone();
                let centred = builder.let_("centred", centred);
                [centred.clone() * centred]
            });
            builder.store(results[0], c.clone(), mean);
            builder.store(results[1], c, squares.divide(count));
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                BatchStatistics {},
                vec![Tensor::f32([2, 2, 2], vec![1.0, 2.0, 5.0, 5.0, 3.0, 6.0, 5.0, 5.0])],
                vec![Tensor::f32([2], vec![3.0, 5.0]), Tensor::f32([2], vec![3.5, 0.0])],
            ),
            Case::new(
                BatchStatistics {},
                vec![Tensor::f32([2, 3], vec![1.0, 2.0, 3.0, 3.0, -2.0, 3.0])],
                vec![Tensor::f32([3], vec![2.0, 0.0, 3.0]), Tensor::f32([3], vec![1.0, 4.0, 0.0])],
            ),
            Case::shape_only(
                BatchStatistics {},
                vec![Tensor::f32([3, 5, 3, 7], elementwise::ramp(315))],
            ),
            Case::shape_only(BatchStatistics {}, vec![Tensor::f32([1, 1], vec![3.0e38])]),
            Case::shape_only(
                BatchStatistics {},
                vec![Tensor::f32([1, 2, 2], vec![1.0e-40, -1.0e-45, 3.0e38, -3.0e38])],
            ),
        ]
    }
}
