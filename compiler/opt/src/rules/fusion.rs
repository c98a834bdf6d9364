//! Fusion: an operation and the ones applied to its result become one kernel, a `chain`.
//!
//! A chain means the composition of its parts, so fusing keeps every bit; whether it pays is the target's cost.

use trainc_ir::graph::ValueId;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{
    Add, AlignedAdd, Chain, Conv2d, Conv2dGradientWeight, IntegerAdd, IntegerBatchNorm,
    IntegerBatchNormError, IntegerConv2d, IntegerSumPool2d, MatMul, ProductRole, QuantizeGradient,
    Relu, Requantize, RequantizeAdaptive, RequantizeStochastic, SaturatingSubtract,
    SaturatingSubtractFrom, ScaleShift, Threshold,
};
use trainc_ir::types::TensorType;
use trainc_ir::{Element, Op, Tensor};

use super::instance::{Builder, Instance, Random};
use super::{Exactness, Patterns, Rule, RuleContext, Sides};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};

/// The longest chain: a product with bias, rescale and activation.
const LONGEST: usize = 4;

pub(super) const RULES: &[Rule] = &[
    // Addition of floats commutes (a NaN's payload aside), so that a bias may stand on either side.
    Rule {
        name: "add-commutes",
        summary: "add(a, b) = add(b, a) where b begins a chain",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(add ?a ?b)", "(add ?b ?a)")],
            conditions: &[("b begins a chain", |m| {
                Some(m.operations("b").iter().any(|op| match op {
                    Op::Chain(_) => true,
                    op => op.kind().has(Property::BeginsChain),
                }))
            })],
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (m, k, n) = (r.range(1, 4), r.range(1, 4), r.range(1, 4));
            let a = i.input(TensorType::f32([m, k]));
            let b = i.input(TensorType::f32([k, n]));
            let bias = i.input(TensorType::f32([n]));
            let product =
                MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
            let y = i.op(product, &[a, b]);
            let y = i.op(Add {}, &[bias, y]);
            i.finish(y)
        }),
    },
    // No patterns: a chain holds a list of operations and takes as many operands as they do.
    Rule {
        name: "fuse-into-product",
        summary: "g(f(x, ..), ..) = chain{f; g}(x, .., ..), f a product, pool, reduction or sum, g a rescale, staircase, bias or activation",
        exactness: Exactness::Bit,
        sides: Sides::Search(fuse_into_product),
        instance: Instance::Built(fusion_instance),
    },
    Rule {
        name: "fuse-rounding",
        summary: "r(n(x, ..)) = chain{n; r}(x, ..), n sums of codes by channel, r a rounding to 8 bits",
        exactness: Exactness::Bit,
        sides: Sides::Search(fuse_rounding),
        instance: Instance::Built(rounding_instance),
    },
    Rule {
        name: "fuse-update",
        summary: "saturating_subtract(w, chain{..; f}(x, ..)) = chain{..; f; saturating_subtract_from}(x, .., w), f a gradient's rounding",
        exactness: Exactness::Bit,
        sides: Sides::Search(fuse_update),
        instance: Instance::Built(update_instance),
    },
    Rule {
        name: "extend-chain",
        summary: "g(chain{..; f}(x, ..), ..) = chain{..; f; g}(x, .., ..)",
        exactness: Exactness::Bit,
        sides: Sides::Search(extend_chain),
        instance: Instance::Built(chain_instance),
    },
];

fn fuse(
    view: View<'_>,
    id: Id,
    continues: Property,
    parts: impl Fn(&Op) -> Option<Vec<Op>>,
) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (tail, operands) in view.operations(id) {
        if !tail.kind().has(continues) || operands[1..].iter().any(|&o| view.same(o, operands[0])) {
            continue;
        }
        for (head, inputs) in view.operations(operands[0]) {
            let Some(mut ops) = parts(&head) else { continue };
            // The running result keeps its shape, so that later parts work in place of it.
            if ops.len() >= LONGEST
                || view.ty(operands[0]).map(|t| &t.shape) != view.ty(id).map(|t| &t.shape)
            {
                continue;
            }
            ops.push(tail.clone());
            let terms = inputs.iter().chain(&operands[1..]).map(|&o| Term::Class(o)).collect();
            found.push(Replacement {
                term: Term::operation(Chain { ops }, terms),
                replaced: vec![(tail.clone(), operands.clone()), (head, inputs)],
            });
        }
    }
    found
}

fn fuse_into_product(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let begins = |op: &Op| op.kind().has(Property::BeginsChain).then(|| vec![op.clone()]);
    fuse(view, id, Property::ContinuesChain, begins)
}

fn fuse_rounding(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let sums = |op: &Op| op.kind().has(Property::SumsOfCodes).then(|| vec![op.clone()]);
    fuse(view, id, Property::RoundsSums, sums)
}

/// The gradient then needs no memory of its own, and no launch reads it.
fn fuse_update(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    if !context.updates_in_products {
        return found;
    }
    for (tail, operands) in view.operations(id) {
        let (Op::SaturatingSubtract(_), &[weights, gradient]) = (&tail, &operands[..]) else {
            continue;
        };
        for (head, inputs) in view.operations(gradient) {
            let Op::Chain(Chain { ops }) = &head else { continue };
            let [product, Op::QuantizeGradient(_)] = &ops[..] else { continue };
            if !product.kind().has(Property::Bilinear) {
                continue;
            }
            let ops = ops.iter().cloned().chain([SaturatingSubtractFrom {}.into()]).collect();
            let terms = inputs.iter().chain([&weights]).map(|&o| Term::Class(o)).collect();
            found.push(Replacement {
                term: Term::operation(Chain { ops }, terms),
                replaced: vec![(tail.clone(), operands.clone()), (head.clone(), inputs)],
            });
        }
    }
    found
}

fn extend_chain(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    fuse(view, id, Property::ContinuesChain, |op| match op {
        Op::Chain(Chain { ops }) => {
            let ends = ops.last().is_some_and(|op| op.kind().has(Property::EndsChain));
            // Sums that are rounded as they are made have no kernel for more.
            let begins = ops.first().is_some_and(|op| op.kind().has(Property::BeginsChain));
            (begins && !ends).then(|| ops.clone())
        }
        _ => None,
    })
}

fn rounding_instance(r: &mut Random) -> trainc_ir::Graph {
    let mut i = Builder::new();
    let channels = r.range(1, 5);
    let shape = [r.range(1, 3), channels, r.range(1, 4), r.range(1, 9)];
    let [x, e] = [(); 2].map(|()| i.input(TensorType::shared(shape, Element::I8)));
    let vectors = [(); 5].map(|()| i.input(TensorType::f32([channels])));
    let sums = match r.range(0, 1) {
        0 => {
            let operands = [&[x], &vectors[..4]].concat();
            i.op(IntegerBatchNorm {}, &operands)
        }
        _ => {
            let operands = [&[x, e], &vectors[..]].concat();
            i.op(IntegerBatchNormError { batch: true }, &operands)
        }
    };
    let y = match r.range(0, 1) {
        0 => {
            let rounding = r.choose(&[Rounding::HalfAway, Rounding::PseudoStochastic]);
            i.op(Requantize { bits: 7, rounding, low: r.choose(&[-127, 0]) }, &[sums])
        }
        _ => i.op(RequantizeStochastic { stream: 0 }, &[sums]),
    };
    i.finish(y)
}

fn random_conv(r: &mut Random) -> Conv2d {
    Conv2d {
        strides: [r.range(1, 2), r.range(1, 2)],
        pads: [r.range(0, 1), r.range(0, 1), r.range(0, 1), r.range(0, 1)],
        dilations: [1, 1],
        groups: 1,
    }
}

fn fusion_instance(r: &mut Random) -> trainc_ir::Graph {
    let mut i = Builder::new();
    let (batch, input, output) = (r.range(1, 2), r.range(1, 3), r.range(1, 3));
    let (height, width) = (r.range(3, 6), r.range(3, 6));
    let rounding = r.choose(&[Rounding::HalfAway, Rounding::PseudoStochastic]);
    let i8 = |shape: [usize; 4]| TensorType::shared(shape, Element::I8);
    match r.range(0, 6) {
        5 | 6 => {
            let sums = integer_sums(r, &mut i);
            let y = integer_tail(r, &mut i, sums);
            i.finish(y)
        }
        4 => {
            let x = i.input(i8([batch, input, height, width]));
            let bias = i.input(i8([1, input, 1, 1]));
            let y = i.op(AlignedAdd {}, &[x, bias]);
            let y = i.op(Relu {}, &[y]);
            i.finish(y)
        }
        0 => {
            let x = i.input(i8([batch, input, height, width]));
            let w = i.input(i8([output, input, 3, 2]));
            let y = i.op(random_conv(r), &[x, w]);
            if r.range(0, 1) == 0 {
                let state = i.input(TensorType::f32([r.range(4, 6)]));
                let low = r.choose(&[-127, 0]);
                let y = i.op(RequantizeAdaptive { bits: 7, rounding, low }, &[y, state]);
                return i.finish(y);
            }
            let y = i.op(Requantize { bits: 7, rounding, low: -127 }, &[y]);
            i.finish(y)
        }
        1 => {
            let x = i.input(i8([batch, input, height, width]));
            let e = i.input(i8([batch, output, height, width]));
            let gradient = Conv2dGradientWeight {
                strides: [1, 1],
                pads: [1, 1, 1, 1],
                dilations: [1, 1],
                groups: 1,
                kernel_size: [3, 3],
            };
            let bits = i.constant(Tensor::i32([], vec![r.range(0, 6) as i32 - 1]));
            let g = i.op(gradient, &[x, e]);
            let g = i.op(QuantizeGradient { rounding }, &[g, bits]);
            i.finish(g)
        }
        2 => {
            let x = i.input(TensorType::f32([batch, input, height, width]));
            let w = i.input(TensorType::f32([output, input, 3, 2]));
            let bias = i.input(TensorType::f32([1, output, 1, 1]));
            let y = i.op(random_conv(r), &[x, w]);
            let y = i.op(Add {}, &[y, bias]);
            i.finish(y)
        }
        _ => {
            let a = i.input(TensorType::f32([height, width]));
            let b = i.input(TensorType::f32([output, width]));
            let product =
                MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
            let y = i.op(product, &[a, b]);
            let y = i.op(Relu {}, &[y]);
            i.finish(y)
        }
    }
}

fn update_instance(r: &mut Random) -> trainc_ir::Graph {
    let mut i = Builder::new();
    let [images, rows, lanes] = [r.range(1, 3), r.range(1, 4), r.range(1, 5)];
    let i8 = |shape: [usize; 2]| TensorType::shared(shape, Element::I8);
    let [x, e, w] =
        [[images, lanes], [images, rows], [rows, lanes]].map(|shape| i.input(i8(shape)));
    let rounding = r.choose(&[Rounding::HalfAway, Rounding::PseudoStochastic]);
    let bits = i.constant(Tensor::i32([], vec![r.range(0, 9) as i32 - 1]));
    let product = MatMul { transpose_a: true, transpose_b: false, role: ProductRole::Gradient };
    let ops = vec![product.into(), QuantizeGradient { rounding }.into()];
    let g = i.op(Chain { ops }, &[e, x, bits]);
    let w = i.op(SaturatingSubtract {}, &[w, g]);
    i.finish(w)
}

const NARROW: [Element; 6] =
    [Element::U8, Element::U4, Element::U2, Element::I8, Element::I4, Element::I2];

/// A head of quantized inference on a random narrow operand: i32 `[B,H,W,C]`.
fn integer_sums(r: &mut Random, i: &mut Builder) -> ValueId {
    let (batch, height, width) = (r.range(1, 2), r.range(3, 5), r.range(3, 5));
    let element = r.choose(&NARROW);
    let padding = r.choose(&[0, 1, if element == Element::U8 { 255 } else { 0 }]);
    let (strides, pads) = ([r.range(1, 2), r.range(1, 2)], [r.range(0, 1), 0, r.range(0, 1), 1]);
    match r.range(0, 2) {
        0 => {
            let (groups, inputs, outputs) = (r.range(1, 3), r.range(1, 5), r.range(1, 3));
            let x = [batch, height, width, groups * inputs];
            let x = i.input(TensorType::new(x, element));
            let w = [groups * outputs, 3, 2, inputs];
            let w = i.input(TensorType::new(w, r.choose(&NARROW[3..])));
            let dilations = [1, r.range(1, 2)];
            i.op(IntegerConv2d { strides, pads, dilations, groups, padding }, &[x, w])
        }
        1 => {
            let x = i.input(TensorType::new([batch, height, width, r.range(1, 5)], element));
            i.op(IntegerSumPool2d { kernel: [2, 3], strides, pads, padding }, &[x])
        }
        _ => {
            let shape = [batch, height, width, r.range(1, 5)];
            let other = r.choose(&NARROW);
            let operands = [element, other].map(|e| i.input(TensorType::new(shape, e)));
            let factors = [r.bits() as i32, r.range(0, 9) as i32 - 4];
            i.op(IntegerAdd { factors }, &operands)
        }
    }
}

/// A tail of quantized inference on i32 `[..,C]`, with scales and stairs of any values.
fn integer_tail(r: &mut Random, i: &mut Builder, sums: ValueId) -> ValueId {
    let channels = i.ty(sums).shape.last().copied().unwrap_or(1);
    let element = r.choose(&NARROW);
    let (low, high) = element.integer_range().unwrap_or_default();
    let vector = TensorType::new([channels], Element::I32);
    if r.range(0, 1) == 0 {
        let operands = [sums, i.input(vector.clone()), i.input(vector)];
        let (low, high) = (low as i32, high as i32);
        return i.op(ScaleShift { shift: r.range(0, 31) as u32, low, high, element }, &operands);
    }
    let levels = r.range(1, (high - low) as usize);
    let mut operands = vec![sums, i.input(vector.with_shape([channels, levels]))];
    if r.range(0, 1) == 0 {
        let flip = (0..channels).map(|_| -(r.range(0, 1) as i32)).collect();
        operands.push(i.constant(Tensor::i32([channels], flip)));
    }
    i.op(Threshold { low: low as i32, element }, &operands)
}

fn chain_instance(r: &mut Random) -> trainc_ir::Graph {
    let mut i = Builder::new();
    let (batch, input, output) = (r.range(1, 2), r.range(1, 3), r.range(1, 3));
    let size = r.range(3, 6);
    if r.range(0, 2) == 0 {
        let x = i.input(TensorType::new([batch, size, size, input], Element::U4));
        let w = i.input(TensorType::new([output, 3, 3, input], Element::I2));
        let vectors = [(); 2].map(|()| i.input(TensorType::new([output], Element::I32)));
        let convolution = IntegerConv2d {
            strides: [1, r.range(1, 2)],
            pads: [1, 0, 0, 1],
            dilations: [1, 1],
            groups: 1,
            padding: 7,
        };
        let (shift, element) = (r.range(0, 31) as u32, Element::I32);
        let scale = ScaleShift { shift, low: i32::MIN + 5, high: i32::MAX - 7, element };
        let chain = Chain { ops: vec![convolution.into(), scale.into()] };
        let y = i.op(chain, &[x, w, vectors[0], vectors[1]]);
        let y = integer_tail(r, &mut i, y);
        return i.finish(y);
    }
    if r.range(0, 1) == 0 {
        let x = i.input(TensorType::shared([batch, input, size, size], Element::I8));
        let w = i.input(TensorType::shared([output, input, 3, 3], Element::I8));
        let rounding = r.choose(&[Rounding::HalfAway, Rounding::PseudoStochastic]);
        let ops = vec![random_conv(r).into(), Requantize { bits: 7, rounding, low: -127 }.into()];
        let mut y = i.op(Chain { ops }, &[x, w]);
        if r.range(0, 1) == 0 {
            let bias = i.input(TensorType::shared([1, output, 1, 1], Element::I8));
            y = i.op(AlignedAdd {}, &[y, bias]);
        } else {
            y = i.op(Relu {}, &[y]);
        }
        return i.finish(y);
    }
    let x = i.input(TensorType::f32([batch, input, size, size]));
    let w = i.input(TensorType::f32([output, input, 3, 3]));
    let bias = i.input(TensorType::f32([1, output, 1, 1]));
    let y = i.op(Chain { ops: vec![random_conv(r).into(), Add {}.into()] }, &[x, w, bias]);
    let y = i.op(Relu {}, &[y]);
    i.finish(y)
}
