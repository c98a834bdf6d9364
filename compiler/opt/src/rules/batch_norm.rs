//! Batch normalisation with frozen statistics, folded into the convolution before it.

use trainc_ir::Tensor;
use trainc_ir::attributes::F32;
use trainc_ir::ops::{BatchNorm, Conv2d, Reshape};

use super::instance::{Drawn, Instance, Random, Value};
use super::{Exactness, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

/// `scale / sqrt(variance + epsilon)`.
macro_rules! factor {
    () => {
        "(mul ?scale (reciprocal (sqrt (add ?variance ?epsilon))))"
    };
}

pub(super) const RULES: &[Rule] = &[
    // k = scale / sqrt(variance + epsilon): (conv(x, w) - mean) k + bias = conv(x, k w) + (bias - mean k).
    Rule {
        name: "batch-norm-into-conv",
        summary: "batch_norm{frozen}(conv2d(x, w)) = conv2d(x, k w) + (bias - mean k), k = scale / sqrt(variance + epsilon)",
        exactness: Exactness::Ulp(4096),
        sides: Sides::Patterns(Patterns {
            forms: &[(
                "(batch_norm ?norm (conv2d ?conv ?x ?w) ?scale ?bias ?mean ?variance)",
                concat!(
                    "(add (conv2d ?conv ?x (mul ?w (reshape ?of_weight ",
                    factor!(),
                    "))) (reshape ?of_result (sub ?bias (mul ?mean ",
                    factor!(),
                    "))))"
                ),
            )],
            guards: &["?norm.batch = false"],
            conditions: &[],
            computed: (&["epsilon", "of_weight", "of_result"], |m| {
                let channels = m.ty("scale")?.count();
                let shape = |shape: [usize; 4]| {
                    Term::Attributes(Reshape { shape: shape.as_slice().to_vec().into() }.into())
                };
                Some(vec![
                    Term::Scalar(m.op::<BatchNorm>("norm")?.epsilon),
                    shape([channels, 1, 1, 1]),
                    shape([1, channels, 1, 1]),
                ])
            }),
        }),
        // Moderate values: the rule is about rounding, not about overflow.
        instance: Instance::Drawn(&[
            ("x", |r, _| {
                let size = r.range(3, 5);
                let shape = vec![r.range(1, 2), r.range(1, 3), size, size];
                within(r, shape, -1.0, 1.0)
            }),
            ("w", |r, d| {
                let shape = vec![r.range(1, 3), d.ty("x").shape[1], 3, 3];
                within(r, shape, -1.0, 1.0)
            }),
            ("conv", |_, _| {
                Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 }.into()
            }),
            ("norm", |_, _| BatchNorm { epsilon: F32::new(1e-5), batch: false }.into()),
            ("scale", |r, d| within(r, channels(d), -2.0, 2.0)),
            ("bias", |r, d| within(r, channels(d), -1.0, 1.0)),
            ("mean", |r, d| within(r, channels(d), -1.0, 1.0)),
            ("variance", |r, d| within(r, channels(d), 0.25, 4.0)),
        ]),
    },
];

fn channels(d: &Drawn) -> Vec<usize> {
    vec![d.ty("w").shape[0]]
}

fn within(r: &mut Random, shape: Vec<usize>, low: f32, high: f32) -> Value {
    let count = shape.iter().product();
    let unit = |r: &mut Random| (r.bits() >> 40) as f32 / (1u32 << 24) as f32;
    let data = (0..count).map(|_| low + (high - low) * unit(r)).collect();
    Tensor::f32(shape, data).into()
}
