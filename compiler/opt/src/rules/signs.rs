//! Signs as bits: they move through layouts, pools and quantizers, up to the sums that they are the signs of, where the chain
//! between becomes a `threshold` (`chain-into-threshold`).

use trainc_ir::ops::{
    BipolarQuant, DequantizeLinear, IntegerMaxPool2d, MaxPool2d, QuantizeLinear, SignBits,
    Threshold, Transpose,
};
use trainc_ir::types::{Scale, TensorType};
use trainc_ir::{Element, Op, ScaleData, Tensor, ValueId};

use super::instance::{Builder, Instance, Random};
use super::matched::Match;
use super::{Exactness, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

/// The axes of `[B,C,H,W]` as those of `[B,H,W,C]`.
pub(super) const TO_LAST: [usize; 4] = [0, 2, 3, 1];
/// The other way round.
pub(super) const TO_FIRST: [usize; 4] = [0, 3, 1, 2];

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "sign-bits-of-transpose",
        summary: "sign_bits(transpose(x)) = transpose(sign_bits(x))",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns::one(&[(
            "(sign_bits (transpose ?p ?x))",
            "(transpose ?p (sign_bits ?x))",
        )])),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let x = i.input(TensorType::f32(r.shape(3)));
            let permutation = r.choose(&[vec![0, 2, 1], vec![1, 2, 0], vec![2, 1, 0]]);
            let x = i.op(Transpose { permutation }, &[x]);
            let y = i.op(SignBits {}, &[x]);
            i.finish(y)
        }),
    },
    // A maximum is at least 0 where one of its numbers is: an or. What is no number never wins, and has the bit 0.
    Rule {
        name: "sign-bits-of-max-pool",
        summary: "sign_bits(max_pool2d(x)) = integer_max_pool2d(sign_bits(x)), channels last",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(sign_bits (max_pool2d ?pool ?x))", "?pooled")],
            conditions: &[],
            computed: (&["pooled"], |m| {
                let pool = integer_pool(m)?;
                let bits = Term::operation(SignBits {}, vec![Term::Class(m.id("x")?)]);
                Some(vec![moved(TO_FIRST, Term::operation(pool, vec![moved(TO_LAST, bits)]))])
            }),
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let x = i.input(TensorType::f32([r.range(1, 2), r.range(1, 9), 4, r.range(3, 5)]));
            let x = i.op(any_pool(r), &[x]);
            let y = i.op(SignBits {}, &[x]);
            i.finish(y)
        }),
    },
    Rule {
        name: "sign-bits-of-threshold",
        summary: "sign_bits(threshold{low=-1}(acc, t)) = threshold{low=0, element=b1}(acc, t'), t' the thresholds of the level 0",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                (
                    "(sign_bits (threshold ?stairs ?x ?rows))",
                    "(threshold{low=0, element=b1} ?x ?first)",
                ),
                (
                    "(sign_bits (threshold ?stairs ?x ?rows ?flip))",
                    "(threshold{low=0, element=b1} ?x ?first ?flip)",
                ),
            ],
            guards: &["?stairs.low = -1"],
            conditions: &[],
            computed: (&["first"], |m| {
                let rows = m.constant("rows")?;
                let [channels, levels] = <[usize; 2]>::try_from(rows.shape().dims()).ok()?;
                let first = rows.as_i32().chunks(levels.max(1)).map(|row| row[0]).collect();
                Some(vec![Term::Integers("thresholds", [channels, 1].into(), first)])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let channels = r.range(1, 5);
            let sums = i.input(TensorType::new([r.range(1, 3), channels], Element::I32));
            let x = signs_of(r, &mut i, sums, channels);
            let y = i.op(SignBits {}, &[x]);
            i.finish(y)
        }),
    },
    Rule {
        name: "sign-bits-of-integer-max-pool",
        summary: "sign_bits(integer_max_pool2d(x)) = integer_max_pool2d(sign_bits(x))",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns::one(&[(
            "(sign_bits (integer_max_pool2d ?pool ?x))",
            "(integer_max_pool2d ?pool (sign_bits ?x))",
        )])),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let element = r.choose(&[Element::I2, Element::I8, Element::I32]);
            let x = TensorType::new([r.range(1, 2), 4, 3, r.range(1, 9)], element);
            let x = i.input(x);
            let (kernel, pads) = ([2, 2], [r.range(0, 1), 0, 0, 1]);
            let x = i.op(IntegerMaxPool2d { kernel, strides: [1, 2], pads }, &[x]);
            let y = i.op(SignBits {}, &[x]);
            i.finish(y)
        }),
    },
    // More of a sum never reaches fewer of its thresholds; complements turn that round, so nothing is complemented here. No
    // window is without a number.
    Rule {
        name: "threshold-of-integer-max-pool",
        summary: "threshold(integer_max_pool2d(x), t) = integer_max_pool2d(threshold(x, t))",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                (
                    "(threshold ?stairs (integer_max_pool2d ?pool ?x) ?rows)",
                    "(integer_max_pool2d ?pool (threshold ?stairs ?x ?rows))",
                ),
                (
                    "(integer_max_pool2d ?pool (threshold ?stairs ?x ?rows))",
                    "(threshold ?stairs (integer_max_pool2d ?pool ?x) ?rows)",
                ),
            ],
            conditions: &[],
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (channels, levels) = (r.range(1, 9), r.range(1, 3));
            let x = TensorType::new([r.range(1, 2), 4, r.range(3, 4), channels], Element::I32);
            let x = i.input(x);
            let mut rows: Vec<i32> =
                (0..channels * levels).map(|_| (r.bits() >> 60) as i32 - 8).collect();
            // Thresholds that all reach, and none.
            rows[0] = r.choose(&[i32::MIN, rows[0], i32::MAX]);
            rows.chunks_exact_mut(levels).for_each(<[i32]>::sort_unstable);
            let rows = i.constant(Tensor::i32([channels, levels], rows));
            let stairs = Threshold {
                low: r.choose(&[0, -1]),
                element: r.choose(&[Element::I4, Element::I8]),
            };
            let stairs = match levels {
                1 => Threshold { low: 0, element: Element::B1 },
                _ => stairs,
            };
            let pads = [0; 4].map(|_| r.range(0, 1));
            let (kernel, strides) = ([2, 2], [r.range(1, 2), 1]);
            let pool = IntegerMaxPool2d { kernel, strides, pads };
            let y = match r.range(0, 1) {
                0 => {
                    let x = i.op(pool, &[x]);
                    i.op(stairs, &[x, rows])
                }
                _ => {
                    let x = i.op(stairs, &[x, rows]);
                    i.op(pool, &[x])
                }
            };
            i.finish(y)
        }),
    },
    // A quotient by a positive number keeps the sign that bipolar_quant gave; NaN has the sign -1 there, and the bit 0 here.
    Rule {
        name: "sign-bits-of-bipolar-quant",
        summary: "sign_bits(quantize_linear(bipolar_quant(x, s), s, 0)) = sign_bits(x), for a known scalar s > 0",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[(
                "(sign_bits (quantize_linear ?grid (bipolar_quant ?x ?s) ?s ?z))",
                "(sign_bits ?x)",
            )],
            conditions: &[
                ("s is a positive number", |m| {
                    Some(number(m, "s")? > 0.0 && number(m, "s")?.is_finite())
                }),
                ("z is 0", |m| Some(m.constant("z")?.to_i64() == [0])),
            ],
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let shape = r.shape(3);
            let x = i.input(TensorType::f32(shape));
            let x = bipolar(r, &mut i, x);
            let y = i.op(SignBits {}, &[x]);
            i.finish(y)
        }),
    },
    // Numbers grow with their integers where the scale is positive: the maximum is that of the largest integer.
    Rule {
        name: "max-pool-of-sums",
        summary: "max_pool2d(dequantize_linear(q, s, 0)) = dequantize_linear(integer_max_pool2d(q), s, 0), channels last, for \
                  a known scalar s > 0",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(max_pool2d ?pool (dequantize_linear ?real ?x ?s ?z))", "?pooled")],
            conditions: &[
                ("s is a positive number", |m| {
                    Some(number(m, "s")? > 0.0 && number(m, "s")?.is_finite())
                }),
                ("z is 0", |m| Some(m.constant("z")?.to_i64() == [0])),
            ],
            computed: (&["pooled"], |m| {
                let pool = integer_pool(m)?;
                let last = moved(TO_LAST, Term::Class(m.id("x")?));
                let q = moved(TO_FIRST, Term::operation(pool, vec![last]));
                let scale = ["s", "z"].map(|name| m.id(name).map(Term::Class));
                let [scale, zero] = scale;
                let real = m.op::<DequantizeLinear>("real")?.clone();
                Some(vec![Term::operation(real, vec![q, scale?, zero?])])
            }),
            ..Patterns::NONE
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let element = r.choose(&[Element::I32, Element::I8, Element::U4]);
            let shape = [r.range(1, 2), r.range(1, 5), 4, r.range(3, 5)];
            let q = i.input(TensorType::new(shape, element));
            let s = i.constant(Tensor::f32([], vec![r.choose(&[1.0, 0.1, 1e-44, 1e38])]));
            let zero = TensorType::new([0usize; 0], element);
            let z = i.constant(Tensor::from_i64(&zero, &[0], ScaleData::None));
            let x = i.op(DequantizeLinear { axis: 0 }, &[q, s, z]);
            let y = i.op(any_pool(r), &[x]);
            i.finish(y)
        }),
    },
];

/// The value of a scalar that is known.
pub(super) fn number(m: &Match<'_>, name: &str) -> Option<f32> {
    match m.constant(name)?.as_f32() {
        [value] => Some(*value),
        _ => None,
    }
}

/// A value with its axes permuted.
pub(super) fn moved(permutation: [usize; 4], x: Term) -> Term {
    Term::operation(Transpose { permutation: permutation.to_vec() }, vec![x])
}

/// The pool of integers, channels last, that gives what `?pool` gives of `?x`.
fn integer_pool(m: &Match<'_>) -> Option<IntegerMaxPool2d> {
    let pool = m.op::<MaxPool2d>("pool")?;
    let x = m.ty("x")?;
    let [batch, channels, height, width] = <[usize; 4]>::try_from(x.shape.dims()).ok()?;
    let own = IntegerMaxPool2d { kernel: pool.kernel, strides: pool.strides, pads: pool.pads };
    // Dilated and partial windows have no form of integers.
    let last = TensorType::new([batch, height, width, channels], Element::B1);
    let result = Op::from(own.clone()).infer(&[&last]).ok()?;
    let floats = Op::from(pool.clone()).infer(&[&TensorType::f32(x.shape.clone())]).ok()?;
    let sizes = |ty: &TensorType, axes: [usize; 2]| axes.map(|axis| ty.shape[axis]);
    let same = sizes(&result[0], [1, 2]) == sizes(&floats[0], [2, 3]);
    (pool.dilations == [1, 1] && same && x.scale == Scale::None).then_some(own)
}

fn any_pool(r: &mut Random) -> MaxPool2d {
    MaxPool2d {
        kernel: [2, r.range(1, 2)],
        strides: [r.range(1, 2), r.range(1, 2)],
        pads: [r.range(0, 1), 0, r.range(0, 1), 0],
        dilations: [1, 1],
        ceil: false,
    }
}

/// The integers of a bipolar quantizer.
fn bipolar(r: &mut Random, i: &mut Builder, x: ValueId) -> ValueId {
    let s = i.constant(Tensor::f32([], vec![r.choose(&[1.0, 0.3, 1e-44, 1e38])]));
    let zero = TensorType::new([0usize; 0], Element::I2);
    let z = i.constant(Tensor::from_i64(&zero, &[0], ScaleData::None));
    let x = i.op(BipolarQuant {}, &[x, s]);
    i.op(QuantizeLinear { axis: 0 }, &[x, s, z])
}

/// -1 and 1 from sums `[..,C]`, with and without a flip.
pub(super) fn signs_of(r: &mut Random, i: &mut Builder, sums: ValueId, channels: usize) -> ValueId {
    let rows = (0..channels).flat_map(|_| {
        let at = r.choose(&[i32::MIN, -3, 0, 1, 7, i32::MAX]);
        [at, at]
    });
    let rows = rows.collect();
    let mut operands = vec![sums, i.constant(Tensor::i32([channels, 2], rows))];
    if r.range(0, 1) == 0 {
        let flip = (0..channels).map(|_| -(r.range(0, 1) as i32)).collect();
        operands.push(i.constant(Tensor::i32([channels], flip)));
    }
    i.op(Threshold { low: -1, element: r.choose(&[Element::I2, Element::I8]) }, &operands)
}
