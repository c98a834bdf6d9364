//! Products of u8 as products of i8, for targets whose kernels take i8: an unsigned byte is twice its upper seven bits
//! plus its lowest bit, and 128 more than a signed one, and products are linear.

use trainc_ir::graph::Graph;
use trainc_ir::ops::{BytePart, Conv2d, Conv2dGradientWeight, Pad, ReduceSum, Reshape, SplitByte};
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::{Element, Op};

use super::instance::{Builder, Instance, Random};
use super::{Exactness, Match, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

/// The product of the two parts of `?u`.
macro_rules! parts {
    ($before:literal, $after:literal) => {
        (
            concat!("(any{bilinear} ?a ", $before, "?u", $after, ")"),
            concat!(
                "(doubled_sum (any{bilinear} ?a ",
                $before,
                "(split_byte{part=upper} ?u)",
                $after,
                ") (any{bilinear} ?a ",
                $before,
                "(split_byte{part=lowest} ?u)",
                $after,
                "))"
            ),
        )
    };
}

/// The product of what `?u` is above 128, its border put in, and 128 times the sums of `?y`.
macro_rules! offset {
    ($product:literal, $bordered:literal) => {
        (
            concat!("(", $product, " ?a ?u ?y)"),
            concat!(
                "(offset_sum (",
                $product,
                " ?inside (split_byte ?offset ",
                $bordered,
                ") ?y) (reshape ?beside (reduce_sum ?all ?y)))"
            ),
        )
    };
}

pub(super) const RULES: &[Rule] = &[
    // Sums are modulo 2^32 on both sides. Of two operands one at most is unsigned.
    Rule {
        name: "unsigned-product-by-parts",
        summary: "product(u: u8, y) = doubled_sum(product(upper(u), y), product(lowest(u), y)), u either operand",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[parts!("", " ?y"), parts!("?x ", "")],
            conditions: &[("u is u8", is_unsigned)],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[]),
    },
    // Without a border every window has all taps, so what 128 adds is the same everywhere.
    Rule {
        name: "unsigned-convolution-by-offset",
        summary: "conv2d(u: u8, w) = offset_sum(conv2d(u - 128, w), sums of w) if there is no border; its weight gradient alike",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[offset!("conv2d", "?u"), offset!("conv2d_gradient_weight", "?u")],
            conditions: &[
                ("u is u8", is_unsigned),
                ("there is no border", |m| Some(pads(m)? == [0; 4])),
            ],
            computed: (&["inside", "offset", "all", "beside"], |m| {
                let [inside, _, offset, all, beside] = terms(m)?;
                Some(vec![inside, offset, all, beside])
            }),
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| instance(r, false)),
    },
    Rule {
        name: "unsigned-bordered-convolution-by-offset",
        summary: "conv2d(u: u8, w) = offset_sum(conv2d(pad(u) - 128, w), sums of w); its weight gradient alike",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                offset!("conv2d", "(pad ?border ?u)"),
                offset!("conv2d_gradient_weight", "(pad ?border ?u)"),
            ],
            conditions: &[
                ("u is u8", is_unsigned),
                ("there is a border", |m| Some(pads(m)? != [0; 4])),
            ],
            computed: (&["inside", "border", "offset", "all", "beside"], |m| {
                Some(terms(m)?.to_vec())
            }),
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| instance(r, true)),
    },
];

fn is_unsigned(m: &Match<'_>) -> Option<bool> {
    Some(m.ty("u")?.element == Element::U8)
}

/// Border of a convolution or its weight gradient: top, left, bottom, right.
fn pads(m: &Match<'_>) -> Option<[usize; 4]> {
    let forward = m.op::<Conv2d>("a").map(|conv| conv.pads);
    forward.or_else(|| m.op::<Conv2dGradientWeight>("a").map(|gradient| gradient.pads))
}

/// The same without a border, the border, the offset, the sums of `?y`, and their shape beside the result.
fn terms(m: &Match<'_>) -> Option<[Term; 5]> {
    let y = &m.ty("y")?.shape;
    let (inside, axes, beside): (Op, Vec<usize>, Shape) = match m.op::<Conv2d>("a") {
        Some(conv) => {
            let inside = Conv2d { pads: [0; 4], ..conv.clone() };
            (inside.into(), vec![1, 2, 3], [1, y[0], 1, 1].into())
        }
        None => {
            let gradient = m.op::<Conv2dGradientWeight>("a")?;
            let inside = Conv2dGradientWeight { pads: [0; 4], ..gradient.clone() };
            (inside.into(), vec![0, 2, 3], [y[1], 1, 1, 1].into())
        }
    };
    let [top, left, bottom, right] = pads(m)?;
    let (before, after) = (vec![0, 0, top, left], vec![0, 0, bottom, right]);
    let border = Pad { before, after, value: 0.0.into() };
    let offset = SplitByte { part: BytePart::Offset };
    let all = ReduceSum { axes, keep_dims: false };
    let ops = [inside, border.into(), offset.into(), all.into(), Reshape { shape: beside }.into()];
    Some(ops.map(Term::Attributes))
}

/// A convolution of u8 or its weight gradient.
fn instance(r: &mut Random, bordered: bool) -> Graph {
    let mut i = Builder::new();
    let groups = r.range(1, 2);
    let [batch, inputs, outputs] = [r.range(1, 3), groups * r.range(1, 3), groups * r.range(1, 3)];
    let [height, width] = [r.range(3, 6), r.range(3, 6)];
    let kernel = [r.range(1, 3), r.range(1, 3)];
    let strides = [r.range(1, 2), r.range(1, 2)];
    let mut pads = [0; 4];
    if bordered {
        pads = std::array::from_fn(|_| r.range(0, 1));
        pads[r.range(0, 3)] = 1;
    }
    let u = i.input(TensorType::shared([batch, inputs, height, width], Element::U8));
    let forward = Conv2d { strides, pads, dilations: [1, 1], groups };
    let w = TensorType::shared([outputs, inputs / groups, kernel[0], kernel[1]], Element::I8);
    let result = if r.range(0, 1) == 0 {
        let w = i.input(w);
        i.op(forward, &[u, w])
    } else {
        let size = |axis: usize, size: usize| {
            (size + pads[axis] + pads[axis + 2] - kernel[axis]) / strides[axis] + 1
        };
        let e = [batch, outputs, size(0, height), size(1, width)];
        let e = i.input(TensorType::shared(e, Element::I8));
        let dilations = [1, 1];
        let gradient =
            Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: kernel };
        i.op(gradient, &[u, e])
    };
    i.finish(result)
}
