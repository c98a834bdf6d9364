//! Binary networks: products of signs as products of packed bits, and what stands between sums and the next signs.
//!
//! A binary layer with known weights is recognised from the codes -1 and 1 that it multiplies. Its sums are counted by
//! exclusive or; the next layer's signs are bits, which move through pools and layouts, so that the chain from sums to signs
//! becomes one `threshold` of integers (`chain-into-threshold`), whatever the sign of a batch norm's gain.

use trainc_ir::ops::{
    BinaryConv2d, Conv2d, DequantizeLinear, IntegerConv2d, IntegerMaxPool2d, MatMul, Pad,
    QuantizeSteps, Reshape, SignBits, StepRounding,
};
use trainc_ir::tensor::Data;
use trainc_ir::types::TensorType;
use trainc_ir::{Element, Graph, Op, ScaleData, Tensor, ValueId};

use super::classes::Classes;
use super::instance::{Builder, Instance, Random};
use super::matched::Match;
use super::signs::{TO_FIRST, TO_LAST, moved, number, signs_of};
use super::{Condition, Exactness, Patterns, Rule, Sides};
use crate::egraph::Id;
use crate::egraph::saturate::Term;
use crate::stage::source::Source;

/// The codes of `$x`: -1 and 1 as integers, from FP32 numbers.
macro_rules! codes {
    ($x:literal) => {
        concat!(
            "(quantize_steps ?codes (sub (mul (compare{comparison=less_equal} ?zero ",
            $x,
            ") ?two) ?one) ?step)"
        )
    };
}

/// What makes integers the codes of signs, and weights binary.
const BINARY: &[(&str, Condition)] = &[
    ("codes are -1 and 1", |m| {
        let q = m.op::<QuantizeSteps>("codes")?;
        let range = (q.element, q.low, q.high, q.base, q.exponent) == (Element::I8, -1, 1, 0, 0);
        let numbers = [("zero", 0.0), ("two", 2.0), ("one", 1.0), ("step", 1.0)];
        let known = numbers.iter().all(|&(name, value)| number(m, name) == Some(value));
        Some(range && known && q.rounding == StepRounding::HalfEven)
    }),
    ("w is known, -1 and 1 throughout, with the exponent 0", |m| {
        let w = m.constant("w")?;
        let shared = w.ty().element == Element::I8 && *w.scale() == ScaleData::Exponent(0);
        Some(shared && signs(w).is_some())
    }),
];

pub(super) const RULES: &[Rule] = &[
    // Zeros that the convolution pads with add nothing on either side.
    Rule {
        name: "conv2d-of-signs",
        summary: "dequantize(conv2d(codes(x), w)) = dequantize_linear(binary_conv2d(sign_bits(x), bits(w))), channels last \
                  and filled up to bytes; codes and known w are -1 and 1",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[(concat!("(dequantize (conv2d ?a ", codes!("?x"), " ?w))"), "?sums")],
            guards: &[],
            conditions: BINARY,
            computed: (&["sums"], |m| {
                let conv = m.op::<Conv2d>("a")?;
                let [features, channels, rows, columns] =
                    <[usize; 4]>::try_from(m.constant("w")?.shape().dims()).ok()?;
                let x = moved(TO_LAST, Term::Class(m.id("x")?));
                let map = <[usize; 4]>::try_from(m.ty("x")?.shape.dims()).ok()?;
                let pixels = [map[0], map[2], map[3]];
                let bits =
                    grouped(Term::operation(SignBits {}, vec![x]), pixels, conv.groups, channels);
                let w = weights(m, [features, channels, rows, columns], |at| at);
                let product = BinaryConv2d {
                    strides: conv.strides,
                    pads: conv.pads,
                    dilations: conv.dilations,
                    groups: conv.groups,
                    padding: 0,
                    channels,
                };
                let sums = Term::operation(product, vec![bits, w?]);
                Some(vec![real(m, moved(TO_FIRST, sums))?])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (channels, groups) = (r.choose(&[1, 3, 8, 17]), r.choose(&[1, 1, 2, 3]));
            let features = groups * r.range(1, if groups == 1 { 9 } else { 3 });
            let all = groups * channels;
            let x = TensorType::f32([r.range(1, 2), all, r.range(3, 5), r.range(3, 5)]);
            let x = i.input(x);
            let shape = [features, channels, r.range(1, 3), r.range(1, 3)];
            let conv = Conv2d {
                strides: [r.range(1, 2), r.range(1, 2)],
                pads: [r.range(0, 1), r.range(0, 2), r.range(0, 1), r.range(0, 1)],
                dilations: [1, r.range(1, 1 + usize::from(shape[3] < 3))],
                groups,
            };
            layer(r, i, conv, x, &shape)
        }),
    },
    Rule {
        name: "matmul-of-signs",
        summary: "dequantize(matmul(codes(x), w)) = dequantize_linear(binary_conv2d(sign_bits(x), bits(w))), rows as pixels; \
                  codes and known w are -1 and 1",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[(concat!("(dequantize (matmul ?a ", codes!("?x"), " ?w))"), "?sums")],
            guards: &["?a.transpose_a = false"],
            conditions: BINARY,
            computed: (&["sums"], |m| {
                let [rows, channels] = <[usize; 2]>::try_from(m.ty("x")?.shape.dims()).ok()?;
                let x = Term::operation(SignBits {}, vec![Term::Class(m.id("x")?)]);
                let bits = filled(shaped([rows, 1, 1, channels], x), channels);
                Some(vec![linear(m, bits, rows, [channels, 1, 1])?])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (inputs, features) = (r.choose(&[1, 7, 16, 40]), r.range(1, 5));
            let x = i.input(TensorType::f32([r.range(1, 3), inputs]));
            dense(r, i, x, inputs, features)
        }),
    },
    // Flattened maps are taken with their channels last: a window as large as the map.
    Rule {
        name: "matmul-of-signs-of-maps",
        summary: "as matmul-of-signs, x a flattened [B,C,H,W]: a window of H by W in place of rows",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[(
                concat!("(dequantize (matmul ?a ", codes!("(reshape ?to ?x)"), " ?w))"),
                "?sums",
            )],
            guards: &["?a.transpose_a = false"],
            conditions: BINARY,
            computed: (&["sums"], |m| {
                let [batch, channels, height, width] =
                    <[usize; 4]>::try_from(m.ty("x")?.shape.dims()).ok()?;
                let all = channels * height * width;
                if m.op::<Reshape>("to")?.shape.dims() != [batch, all] {
                    return None;
                }
                let x = moved(TO_LAST, Term::Class(m.id("x")?));
                let bits = filled(Term::operation(SignBits {}, vec![x]), channels);
                Some(vec![linear(m, bits, batch, [channels, height, width])?])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (channels, features) = (r.choose(&[1, 3, 8]), r.range(1, 5));
            let shape = [r.range(1, 3), channels, r.range(1, 3), r.range(1, 3)];
            let x = i.input(TensorType::f32(shape));
            let inputs = shape[1..].iter().product();
            let x = i.op(Reshape { shape: [shape[0], inputs].into() }, &[x]);
            dense(r, i, x, inputs, features)
        }),
    },
    Rule {
        name: "integer-conv2d-of-signs",
        summary: "integer_conv2d(x, w) = binary_conv2d(sign_bits(x), bits(w)), channels filled up to bytes; x is seen to be -1 and \
                  1, known w and the padding are -1, 0 (the padding) and 1",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(integer_conv2d ?a ?x ?w)", "(binary_conv2d ?product ?bits ?weights)")],
            guards: &["?a.padding = -1 | 0 | 1"],
            conditions: &[
                ("w is known, -1 and 1 throughout", |m| Some(signs(m.constant("w")?).is_some())),
                ("x is -1 and 1", |m| {
                    let source = Classes { context: m.context(), view: m.view() };
                    Some(holds_signs(&source, m.id("x")?, DEPTH))
                }),
            ],
            computed: (&["product", "bits", "weights"], |m| {
                let conv = m.op::<IntegerConv2d>("a")?;
                let w = m.constant("w")?;
                let [features, rows, columns, channels] =
                    <[usize; 4]>::try_from(w.shape().dims()).ok()?;
                let product = BinaryConv2d {
                    strides: conv.strides,
                    pads: conv.pads,
                    dilations: conv.dilations,
                    groups: conv.groups,
                    padding: conv.padding,
                    channels,
                };
                let x = Term::operation(SignBits {}, vec![Term::Class(m.id("x")?)]);
                // The constant has its channels last already.
                let weights = weights(m, [features, channels, rows, columns], |at| {
                    let (rest, tap) = (at / (rows * columns), at % (rows * columns));
                    (rest / channels * rows * columns + tap) * channels + rest % channels
                });
                let map = <[usize; 4]>::try_from(m.ty("x")?.shape.dims()).ok()?;
                let x = grouped(x, [map[0], map[1], map[2]], conv.groups, channels);
                Some(vec![Term::Attributes(product.into()), x, weights?])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (channels, groups) = (r.choose(&[1, 8, 19]), r.choose(&[1, 1, 2]));
            let (features, all) = (groups * r.range(1, 3), groups * channels);
            let sums = TensorType::new([r.range(1, 2), 4, r.range(3, 4), all], Element::I32);
            let sums = i.input(sums);
            let x = signs_of(r, &mut i, sums, all);
            let x = match r.range(0, 1) {
                0 => x,
                _ => {
                    let (kernel, strides) = ([2, 1], [1, r.range(1, 2)]);
                    i.op(IntegerMaxPool2d { kernel, strides, pads: [0; 4] }, &[x])
                }
            };
            let shape = [features, r.range(1, 3), r.range(1, 3), channels];
            let ty = TensorType::new(shape, r.choose(&[Element::I2, Element::I8]));
            let w: Vec<i64> = (0..ty.count()).map(|_| 1 - 2 * (r.bits() >> 63) as i64).collect();
            let w = i.constant(Tensor::from_i64(&ty, &w, ScaleData::None));
            let op = IntegerConv2d {
                strides: [r.range(1, 2), 1],
                pads: [r.range(0, 2), 0, r.range(0, 1), 1],
                dilations: [1, 1],
                groups,
                padding: r.range(0, 2) as i32 - 1,
            };
            let y = i.op(op, &[x, w]);
            i.finish(y)
        }),
    },
];

/// Steps back that are looked through.
const DEPTH: usize = 8;

/// Whether a value is seen to hold -1 and 1 alone: a staircase that leaves 0 out, a bipolar quantizer, and what moves these.
fn holds_signs(source: &Classes<'_>, id: Id, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    source.producers(id).into_iter().any(|(op, operands)| match &op {
        Op::Threshold(stairs) => {
            stairs.low == -1
                && source.constant(operands[1]).is_some_and(|rows| {
                    rows.shape()[1] == 2 && rows.as_i32().chunks(2).all(|row| row[0] == row[1])
                })
        }
        Op::QuantizeLinear(_) => {
            let scale = source.constant(operands[1]);
            let positive =
                scale.is_some_and(|s| matches!(s.as_f32(), [s] if *s > 0.0 && s.is_finite()));
            let zero = source.constant(operands[2]).is_some_and(|z| z.to_i64() == [0]);
            let same = |by: Id| source.view.same(by, operands[1]);
            let quantized =
                |(op, own): &(Op, Vec<Id>)| matches!(op, Op::BipolarQuant(_)) && same(own[1]);
            positive && zero && source.producers(operands[0]).iter().any(quantized)
        }
        Op::Transpose(_) | Op::Reshape(_) | Op::IntegerMaxPool2d(_) => {
            holds_signs(source, operands[0], depth)
        }
        _ => false,
    })
}

fn shaped<const N: usize>(shape: [usize; N], x: Term) -> Term {
    Term::operation(Reshape { shape: shape.into() }, vec![x])
}

/// Bits `[B,H,W,C]` with their channels filled up to whole bytes.
fn filled(bits: Term, channels: usize) -> Term {
    match channels.next_multiple_of(8) - channels {
        0 => bits,
        missing => {
            let after = vec![0, 0, 0, missing];
            Term::operation(Pad { before: vec![0; 4], after, value: 0.0.into() }, vec![bits])
        }
    }
}

/// As [`filled`], each group of channels of `[B,H,W]` pixels by itself.
fn grouped(bits: Term, [batch, height, width]: [usize; 3], groups: usize, channels: usize) -> Term {
    let stored = channels.next_multiple_of(8);
    if groups == 1 || stored == channels {
        return filled(bits, channels);
    }
    // Pixels and groups are rows of their own meanwhile.
    let rows = shaped([batch * height, width, groups, channels], bits);
    shaped([batch, height, width, groups * stored], filled(rows, channels))
}

/// The elements of a tensor that holds -1 and 1 alone.
fn signs(w: &Tensor) -> Option<&[i8]> {
    match w.data() {
        Data::I8(codes) if codes.iter().all(|code| matches!(code, -1 | 1)) => Some(codes),
        _ => None,
    }
}

/// The bits of the known `[O,C,H,W]` weights as `[O,H,W,C]`, filled up. `place` says where an element stands in the constant.
fn weights(
    m: &Match<'_>,
    [features, channels, rows, columns]: [usize; 4],
    place: impl Fn(usize) -> usize,
) -> Option<Term> {
    let codes = signs(m.constant("w")?)?;
    let stored = channels.next_multiple_of(8);
    let mut bits = Vec::with_capacity(features * rows * columns * stored);
    for feature in 0..features {
        for tap in 0..rows * columns {
            bits.extend((0..stored).map(|c| {
                let at = |c: usize| (feature * channels + c) * rows * columns + tap;
                u8::from(c < channels && codes[place(at(c))] > 0)
            }));
        }
    }
    let ty = TensorType::new([features, rows, columns, stored], Element::B1);
    Some(Term::Constant("bits", Tensor::new(ty, Data::U8(bits), ScaleData::None)))
}

/// The FP32 values of sums.
fn real(m: &Match<'_>, sums: Term) -> Option<Term> {
    let one = Term::Class(m.id("one")?);
    let zero = Term::Integers("zero_point", [0usize; 0].into(), vec![0]);
    Some(Term::operation(DequantizeLinear { axis: 0 }, vec![sums, one, zero]))
}

/// The FP32 result of a product of rows with known weights, the rows' bits as maps of that size.
fn linear(m: &Match<'_>, bits: Term, rows: usize, [c, h, w]: [usize; 3]) -> Option<Term> {
    let product = m.op::<MatMul>("a")?;
    let [first, second] = <[usize; 2]>::try_from(m.constant("w")?.shape().dims()).ok()?;
    let inputs = c * h * w;
    let features = if product.transpose_b { first } else { second };
    let w = weights(m, [features, c, h, w], |at| match product.transpose_b {
        true => at,
        false => at % inputs * features + at / inputs,
    });
    let op = BinaryConv2d {
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
        groups: 1,
        padding: 0,
        channels: c,
    };
    real(m, shaped([rows, features], Term::operation(op, vec![bits, w?])))
}

/// `dequantize(product(codes(x), w))`.
fn layer(
    r: &mut Random,
    mut i: Builder,
    product: impl Into<Op>,
    x: ValueId,
    shape: &[usize],
) -> Graph {
    let mut scalar = |value: f32| i.constant(Tensor::f32([], vec![value]));
    let [zero, two, one, step] = [0.0, 2.0, 1.0, 1.0].map(&mut scalar);
    let comparison = trainc_ir::ops::Comparison::LessEqual;
    let holds = i.op(trainc_ir::ops::Compare { comparison }, &[zero, x]);
    let doubled = i.op(trainc_ir::ops::Mul {}, &[holds, two]);
    let signs = i.op(trainc_ir::ops::Sub {}, &[doubled, one]);
    let codes = QuantizeSteps {
        element: Element::I8,
        exponent: 0,
        base: 0,
        low: -1,
        high: 1,
        rounding: StepRounding::HalfEven,
        stream: 0,
    };
    let codes = i.op(codes, &[signs, step]);
    let count = shape.iter().product();
    let w: Vec<i8> = (0..count).map(|_| 1 - 2 * (r.bits() >> 63) as i8).collect();
    let w = i.constant(Tensor::i8_shared(shape, w, 0));
    let y = i.op(product, &[codes, w]);
    let y = i.op(trainc_ir::ops::Dequantize {}, &[y]);
    i.finish(y)
}

fn dense(r: &mut Random, i: Builder, x: ValueId, inputs: usize, features: usize) -> Graph {
    let transpose_b = r.range(0, 1) == 0;
    let shape = if transpose_b { [features, inputs] } else { [inputs, features] };
    let role = trainc_ir::ops::ProductRole::Forward;
    layer(r, i, MatMul { transpose_a: false, transpose_b, role }, x, &shape)
}
