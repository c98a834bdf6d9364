//! Batch normalisation with frozen statistics, folded into the convolution before it.

use trainc_ir::Tensor;
use trainc_ir::attributes::F32;
use trainc_ir::ops::{Add, BatchNorm, Conv2d, Mul, Reciprocal, Reshape, Sqrt, Sub};
use trainc_ir::types::TensorType;

use super::instance::Instance;
use super::{Exactness, Rule, RuleContext, matching};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};

pub(super) const RULES: &[Rule] = &[
    // k = scale / sqrt(variance + epsilon): (conv(x, w) - mean) k + bias = conv(x, k w) + (bias - mean k).
    Rule {
        name: "batch-norm-into-conv",
        summary: "batch_norm{frozen}(conv2d(x, w)) = conv2d(x, k w) + (bias - mean k), k = scale / sqrt(variance + epsilon)",
        exactness: Exactness::Ulp(4096),
        search: batch_norm_into_conv,
        instance: |r| {
            let mut i = Instance::new();
            let (batch, input, output) = (r.range(1, 2), r.range(1, 3), r.range(1, 3));
            let size = r.range(3, 5);
            // Moderate values: the rule is about rounding, not about overflow.
            let mut draw = |shape: Vec<usize>, low: f32, high: f32| {
                let count = shape.iter().product();
                let unit = |r: &mut super::Random| (r.bits() >> 40) as f32 / (1u32 << 24) as f32;
                let data = (0..count).map(|_| low + (high - low) * unit(r)).collect();
                Tensor::f32(shape, data)
            };
            let x = draw(vec![batch, input, size, size], -1.0, 1.0);
            let w = draw(vec![output, input, 3, 3], -1.0, 1.0);
            let parameters = [
                draw(vec![output], -2.0, 2.0),
                draw(vec![output], -1.0, 1.0),
                draw(vec![output], -1.0, 1.0),
                draw(vec![output], 0.25, 4.0),
            ];
            let (x, w) = (i.constant(x), i.constant(w));
            let conv = Conv2d { strides: [1, 1], pads: [1, 1, 1, 1], dilations: [1, 1], groups: 1 };
            let y = i.op(conv, &[x, w]);
            let mut operands = vec![y];
            operands.extend(parameters.map(|p| i.constant(p)));
            let y = i.op(BatchNorm { epsilon: F32::new(1e-5), batch: false }, &operands);
            i.finish(y)
        },
    },
];

fn batch_norm_into_conv(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (norm, op, operands) in matching!(view, id, BatchNorm) {
        let [product, scale, bias, mean, variance] = operands[..] else { continue };
        if norm.batch {
            continue;
        }
        for (conv, inner_op, inputs) in matching!(view, product, Conv2d) {
            let Some(channels) = view.ty(scale).map(TensorType::count) else { continue };
            let class = Term::Class;
            let shifted =
                Term::operation(Add {}, vec![class(variance), Term::Scalar(norm.epsilon)]);
            let k = Term::operation(
                Mul {},
                vec![
                    class(scale),
                    Term::operation(Reciprocal {}, vec![Term::operation(Sqrt {}, vec![shifted])]),
                ],
            );
            let as_shape = |shape: Vec<usize>, term: Term| {
                Term::operation(Reshape { shape: shape.into() }, vec![term])
            };
            let weight = Term::operation(
                Mul {},
                vec![class(inputs[1]), as_shape(vec![channels, 1, 1, 1], k.clone())],
            );
            let offset = Term::operation(
                Sub {},
                vec![class(bias), Term::operation(Mul {}, vec![class(mean), k])],
            );
            let folded = Term::operation(conv, vec![class(inputs[0]), weight]);
            found.push(Replacement {
                term: Term::operation(
                    Add {},
                    vec![folded, as_shape(vec![1, channels, 1, 1], offset)],
                ),
                replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
            });
        }
    }
    found
}
