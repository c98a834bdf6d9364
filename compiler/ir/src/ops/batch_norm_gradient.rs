//! `batch_norm_gradient`. See [`BatchNormGradient`].

use crate::attributes::{F32};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::channels::{self, Channels};
use crate::ops::support::{elementwise};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Gradients of a batch normalisation. Operands: `x`, `scale`, `mean`, `variance`, `dy`; results: `dx`,
    /// `dscale` `[C]`, `dbias` `[C]` (FP32).
    ///
    /// Order, with N elements a channel and sums as of `batch_statistics`:
    /// `inverse = 1 / sqrt(variance + epsilon)`, `normal = (x - mean) * inverse`, `dbias = sum(dy)`,
    /// `dscale = sum(dy * normal)`, `slope = scale * inverse`. With `batch`
    /// `dx = (slope / N) * ((N * dy - dbias) - normal * dscale)`, else `dx = slope * dy`.
    pub struct BatchNormGradient = "batch_norm_gradient" {
        /// Added to the variance.
        pub epsilon: F32,
        /// Whether the gradient goes through the statistics.
        pub batch: bool,
    }
}

impl Operator for BatchNormGradient {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, scale, mean, variance, dy] =
            rule::operands::<5>("batch_norm_gradient", inputs)?;
        rule::all_f32("batch_norm_gradient", inputs)?;
        let epsilon = self.epsilon.get();
        rule::ensure(epsilon.is_finite() && epsilon >= 0.0, || {
            format!("batch_norm_gradient: epsilon must be finite and not negative, here {epsilon}")
        })?;

        let sizes = Channels::of("batch_norm_gradient", x)?;
        sizes.check("batch_norm_gradient", &[scale, mean, variance])?;
        sizes.check_count("batch_norm_gradient")?;
        rule::ensure(x == dy, || {
            format!("batch_norm_gradient: x and dy must have one shape, here {x} and {dy}")
        })?;
        let vector = TensorType::f32([sizes.channels]);
        Ok(vec![x.clone(), vector.clone(), vector])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let sizes = Channels::of("batch_norm_gradient", inputs[0].ty()).expect("checked by infer");
        let [x, scale, mean, variance, dy] = [0, 1, 2, 3, 4].map(|i| inputs[i].as_f32());
        let count = sizes.count() as f32;
        let mut dx = vec![0f32; x.len()];
        let (mut dscale, mut dbias) = (Vec::new(), Vec::new());
        for c in 0..sizes.channels {
            let inverse = 1.0 / (variance[c] + self.epsilon.get()).sqrt();
            let normal = |i: usize| (x[i] - mean[c]) * inverse;
            let sum = sizes.sum(c, |i| dy[i]);
            let product = sizes.sum(c, |i| dy[i] * normal(i));
            let slope = scale[c] * inverse;
            let factor = if self.batch { slope / count } else { slope };
            for i in sizes.runs(c).flatten() {
                let error =
                    if self.batch { count * dy[i] - sum - normal(i) * product } else { dy[i] };
                dx[i] = factor * error;
            }
            dscale.push(product);
            dbias.push(sum);
        }
        let vector = |values| Tensor::f32([sizes.channels], values);
        vec![Tensor::f32(inputs[0].shape().dims(), dx), vector(dscale), vector(dbias)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let sizes = Channels::of("batch_norm_gradient", inputs[0]).expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [x, scale, mean, variance, dy] = [0, 1, 2, 3, 4].map(|i| builder.input(i));
        let [dx, dscale, dbias] = [0, 1, 2].map(|i| builder.output(i));
        let parts =
            ["sums", "products"].map(|name| sizes.partial_sums(&mut builder, name));
        let count = Expr::f32(sizes.count() as f32);
        builder.for_("c", sizes.channels, |builder, c| {
            let inverse = channels::inverse_deviation(builder, variance, &c, self.epsilon);
            let mean = channels::load(builder, "mean", mean, &c);
            let normal = |builder: &LoopBuilder, i: Expr| {
                (builder.load(x, i) - mean.clone()) * inverse.clone()
            };
            let sums = [("sum", parts[0]), ("product", parts[1])];
            let [sum, product] = sizes.lower_sums(builder, sums, &c, |builder, i| {
                let dy = builder.load(dy, i.clone());
                let dy = builder.let_("dy", dy);
                [dy.clone(), dy * normal(builder, i)]
            });
            let slope = builder.load(scale, c.clone()) * inverse.clone();
            let factor = if self.batch { slope.divide(count.clone()) } else { slope };
            let factor = builder.let_("factor", factor);
            sizes.lower(builder, &c, |builder, i| {
                let mut error = builder.load(dy, i.clone());
                if self.batch {
                    error = count * error
                        - sum.clone()
                        - normal(builder, i.clone()) * product.clone();
                }
                builder.store(dx, i, factor * error);
            });
            builder.store(dscale, c.clone(), product);
            builder.store(dbias, c, sum);
        });
        builder.finish()
    }

    /// `x` and `dy`: the sums of a channel are complete before its first element is written.
    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0 || operand == 4
    }

    fn cases() -> Vec<Case> {
        let norm = |epsilon: f32, batch| BatchNormGradient { epsilon: F32::new(epsilon), batch };
        let vector = |values: &[f32]| Tensor::f32([values.len()], values.to_vec());
        let operands = || {
            vec![
                Tensor::f32([2, 1, 2], vec![-1.0, -1.0, 1.0, 1.0]),
                vector(&[2.0]),
                vector(&[0.0]),
                vector(&[1.0]),
                Tensor::f32([2, 1, 2], vec![1.0, 2.0, 3.0, 6.0]),
            ]
        };
        // The normalised operand is x itself; sum(dy) = 12, sum(dy * x) = 6.
        let mut cases = vec![
            Case::new(
                norm(0.0, true),
                operands(),
                vec![
                    Tensor::f32([2, 1, 2], vec![-1.0, 1.0, -3.0, 3.0]),
                    vector(&[6.0]),
                    vector(&[12.0]),
                ],
            ),
            Case::new(
                norm(0.0, false),
                operands(),
                vec![
                    Tensor::f32([2, 1, 2], vec![2.0, 4.0, 6.0, 12.0]),
                    vector(&[6.0]),
                    vector(&[12.0]),
                ],
            ),
        ];
        for shape in [&[3, 5][..], &[2, 5, 7], &[3, 5, 3, 7]] {
            for batch in [false, true] {
                let count = shape.iter().product();
                let x = Tensor::f32(shape, elementwise::ramp(count));
                let dy = elementwise::ramp(count + 3).split_off(3);
                cases.push(Case::shape_only(
                    norm(1.0e-5, batch),
                    vec![
                        x,
                        vector(&[1.0, -2.0, 0.0, 0.3, 3.0e38]),
                        vector(&[0.0, 0.1, -0.7, 1.0e-40, 5.0]),
                        vector(&[0.0, 0.1, 1.0, 2.5, 1.0e6]),
                        Tensor::f32(shape, dy),
                    ],
                ));
            }
        }
        cases
    }
}
