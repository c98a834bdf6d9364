//! Output stages of integer inference: what stands between sums and the next layer's integers becomes one `threshold`
//! or one `scale_shift`.

use std::sync::Arc;

use trainc_ir::attributes::F32;

use trainc_ir::ops::{
    Add, BatchNorm, BipolarQuant, Clip, DequantizeLinear, IntegerAdd, IntegerConv2d, LeakyRelu,
    Mul, Quant, QuantizeLinear, Relu, Reshape, Rounding, ScaleShift, Sigmoid, Threshold, Transpose,
};
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::{Element, Op, OpKind, ScaleData, Tensor, ValueId};

use super::classes::Classes;
use super::instance::{Builder, Drawn, Instance, Random, Value};
use super::matched::Match;
use super::{Condition, Exactness, Patterns, Rule, RuleContext, Sides};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};
use crate::stage::bounds::bounds;
use crate::stage::chain::trace;
use crate::stage::stairs::Stairs;

pub(crate) const RULES: &[Rule] = &[
    // Bisection of the chain itself finds where it reaches each level; every step keeps the order of its operands.
    // No pattern: a chain is any number of operations.
    Rule {
        name: "chain-into-threshold",
        summary: "quantize_linear(f(dequantize_linear(acc))) = threshold(acc), f a chain of monotone operations on each \
                  channel with known operands; sign_bits likewise",
        exactness: Exactness::Bit,
        sides: Sides::Search(chain_into_threshold),
        instance: Instance::Built(chain_instance),
    },
    Rule {
        name: "stage-before-reshape",
        summary: "f(reshape(acc)) = reshape(f(acc)), f a threshold or scale_shift and the last dimension the same",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                (
                    "(threshold ?stairs (reshape ?to ?x) ?rows)",
                    "(reshape ?to (threshold ?stairs ?x ?rows))",
                ),
                (
                    "(threshold ?stairs (reshape ?to ?x) ?rows ?flip)",
                    "(reshape ?to (threshold ?stairs ?x ?rows ?flip))",
                ),
                (
                    "(scale_shift ?stage (reshape ?to ?x) ?scale ?offset)",
                    "(reshape ?to (scale_shift ?stage ?x ?scale ?offset))",
                ),
            ],
            conditions: &[("the last dimension is the same", |m| {
                Some(m.ty("x")?.shape.last() == m.op::<Reshape>("to")?.shape.last())
            })],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| TensorType::new(r.shape(4), Element::I32).into()),
            ("to", |_, d| {
                let shape = &d.ty("x").shape;
                Reshape { shape: [shape[..3].iter().product(), shape[3]].into() }.into()
            }),
            ("stairs", any_stairs),
            ("rows", |r, d| rows(r, d, 1 << 30)),
            ("flip", any_flip),
            ("stage", any_stage),
            ("scale", wide),
            ("offset", wide),
        ]),
    },
    // (a s1 + o1) s2 + o2 = a (s1 s2) + (o1 s2 + o2) in wrapping arithmetic.
    Rule {
        name: "affine-into-scale-shift",
        summary: "scale_shift(affine(acc), s, o) = scale_shift(acc, s s', o + s o'), affine = scale_shift{shift=0} \
                  without clamps, known s', o', s, o",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[(
                "(scale_shift ?stage (scale_shift ?affine ?x ?slope ?start) ?scale ?offset)",
                "(scale_shift ?stage ?x ?both ?moved)",
            )],
            guards: AFFINE,
            conditions: &[],
            computed: (&["both", "moved"], |m| {
                let (scale, offset) = (m.integers("scale")?, m.integers("offset")?);
                let (slope, start) = (m.integers("slope")?, m.integers("start")?);
                let channels: Shape = [scale.len()].into();
                let both = scale.iter().zip(slope).map(|(a, b)| a.wrapping_mul(*b)).collect();
                let moved = (scale.iter().zip(start).zip(offset))
                    .map(|((s, o), offset)| o.wrapping_mul(*s).wrapping_add(*offset))
                    .collect();
                Some(vec![
                    Term::Integers("scale", channels.clone(), both),
                    Term::Integers("offset", channels, moved),
                ])
            }),
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| TensorType::new(r.shape(3), Element::I32).into()),
            ("affine", affine),
            ("slope", wide),
            ("start", wide),
            ("stage", any_stage),
            ("scale", wide),
            ("offset", wide),
        ]),
    },
    // s a + o >= t exactly where a >= ceil((t - o) / s), or a <= floor((t - o) / s) if s < 0: sums must not wrap.
    Rule {
        name: "affine-into-threshold",
        summary: "threshold(affine(acc), t) = threshold(acc, t - o divided by s), affine = scale_shift{shift=0} without \
                  clamps that cannot wrap for these sums; known s, o, t",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                (
                    "(threshold ?stairs (scale_shift ?affine ?x ?slope ?start) ?rows)",
                    "(threshold ?stairs ?x ?divided ?turned)",
                ),
                (
                    "(threshold ?stairs (scale_shift ?affine ?x ?slope ?start) ?rows ?flip)",
                    "(threshold ?stairs ?x ?divided ?turned)",
                ),
            ],
            guards: AFFINE,
            conditions: &[],
            computed: (&["divided", "turned"], divided_stairs),
        }),
        instance: Instance::Drawn(&[
            ("x", |_, _| Value::Computed(sums)),
            ("affine", affine),
            ("slope", |r, d| vector(r, d, 9)),
            ("start", |r, d| vector(r, d, 9)),
            ("stairs", any_stairs),
            ("rows", |r, d| rows(r, d, 200)),
            ("flip", any_flip),
        ]),
    },
    Rule {
        name: "clamp-into-scale-shift",
        summary: "clamp(scale_shift(acc)) = scale_shift(acc) with tighter bounds, clamp = scale_shift{shift=0} by 1 of \
                  integer_add{factors=[1, 0]}",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[(
                "(scale_shift ?clamp (integer_add{factors=[1, 0]} (scale_shift ?stage ?x ?scale ?offset) ?y) ?one ?zero)",
                "(scale_shift ?tighter ?x ?scale ?offset)",
            )],
            guards: &["?clamp.shift = 0"],
            conditions: CLAMP,
            computed: (&["tighter"], |m| {
                let (clamp, stage) = (m.op::<ScaleShift>("clamp")?, m.op::<ScaleShift>("stage")?);
                let within = |v: i32| v.clamp(clamp.low, clamp.high);
                let (low, high) = (within(stage.low), within(stage.high));
                let tighter = ScaleShift { low, high, ..stage.clone() };
                (stage.element == clamp.element).then(|| vec![Term::Attributes(tighter.into())])
            }),
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| TensorType::new(r.shape(3), Element::I32).into()),
            ("stage", any_stage),
            ("scale", wide),
            ("offset", wide),
            ("y", |_, d| TensorType::new(d.ty("x").shape.clone(), element(d)).into()),
            ("clamp", any_clamp),
            ("one", |_, d| all(d, 1)),
            ("zero", |_, d| all(d, 0)),
        ]),
    },
    Rule {
        name: "clamp-into-threshold",
        summary: "clamp(threshold(acc)) = threshold(acc) with the levels between the bounds, clamp as above",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                (
                    "(scale_shift ?clamp (integer_add{factors=[1, 0]} (threshold ?stairs ?x ?rows) ?y) ?one ?zero)",
                    "(threshold ?fewer ?x ?kept)",
                ),
                (
                    "(scale_shift ?clamp (integer_add{factors=[1, 0]} (threshold ?stairs ?x ?rows ?flip) ?y) ?one ?zero)",
                    "(threshold ?fewer ?x ?kept ?flip)",
                ),
            ],
            guards: &["?clamp.shift = 0"],
            conditions: CLAMP,
            computed: (&["fewer", "kept"], clamped_stairs),
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| TensorType::new(r.shape(3), Element::I32).into()),
            ("stairs", any_stairs),
            ("rows", |r, d| rows(r, d, 1 << 30)),
            ("flip", any_flip),
            ("y", |_, d| TensorType::new(d.ty("x").shape.clone(), element(d)).into()),
            ("clamp", any_clamp),
            ("one", |_, d| all(d, 1)),
            ("zero", |_, d| all(d, 0)),
        ]),
    },
];

/// An affine function of sums: neither rounded nor clamped.
const AFFINE: &[&str] = &[
    "?affine.shift = 0",
    "?affine.element = i32",
    "?affine.low = -2147483648",
    "?affine.high = 2147483647",
];

/// A clamp's factor and offset.
const CLAMP: &[(&str, Condition)] = &[
    ("one is 1 throughout", |m| Some(m.integers("one")?.iter().all(|&v| v == 1))),
    ("zero is 0 throughout", |m| Some(m.integers("zero")?.iter().all(|&v| v == 0))),
];

const NARROW: [Element; 6] =
    [Element::U8, Element::U4, Element::U2, Element::I8, Element::I4, Element::I2];

fn range(element: Element) -> (i32, i32) {
    let (low, high) = element.integer_range().unwrap_or_default();
    (low as i32, high as i32)
}

fn chain_into_threshold(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let source = Classes { context, view };
    let of_kind = |id: Id, kind: OpKind| -> Vec<(Op, Vec<Id>)> {
        view.operations(id).into_iter().filter(|(op, _)| op.kind() == kind).collect()
    };
    let found = || {
        let (start, chain) = trace(&source, id)?;
        let ty = view.ty(start)?;
        let narrow = ty.element != Element::I32;
        if narrow && ty.element.bits() > 8 {
            return None;
        }
        let bounds = bounds(&source, start, chain.axis)?;
        let stairs = Stairs::of(&chain, &bounds)?;
        let rank = ty.shape.rank();
        // Channels go last, and back.
        let mut permutation: Vec<usize> = (0..rank).filter(|&a| a != chain.axis).collect();
        permutation.push(chain.axis);
        let inverse: Vec<usize> =
            (0..rank).map(|a| permutation.iter().position(|&p| p == a).unwrap_or(a)).collect();
        let moved = |permutation: Vec<usize>, term: Term| match permutation.is_sorted() {
            true => term,
            false => Term::operation(Transpose { permutation }, vec![term]),
        };
        let channels = chain.channels;
        let start = moved(permutation, Term::Class(start));
        let sums = match narrow {
            true => Term::operation(IntegerAdd { factors: [1, 0] }, vec![start.clone(), start]),
            false => start,
        };
        let mut operands = vec![
            sums,
            Term::Integers("thresholds", [channels, stairs.levels].into(), stairs.thresholds),
        ];
        if let Some(flip) = stairs.flip {
            operands.push(Term::Integers("flip", [channels].into(), flip));
        }
        let stage = Threshold { low: stairs.low, element: chain.element };
        let term = moved(inverse, Term::operation(stage, operands));
        let shape = view.ty(id)?.shape.clone();
        let term =
            if shape == ty.shape { term } else { Term::operation(Reshape { shape }, vec![term]) };
        let replaced =
            [OpKind::QuantizeLinear, OpKind::SignBits].map(|kind| of_kind(id, kind)).concat();
        Some(Replacement { term, replaced })
    };
    // Stairs take a while to find: once is enough.
    let threshold = |id: Id| !of_kind(id, OpKind::Threshold).is_empty();
    let moved = |(op, operands): &(Op, Vec<Id>)| {
        matches!(op, Op::Transpose(_) | Op::Reshape(_)) && threshold(operands[0])
    };
    let ends = [OpKind::QuantizeLinear, OpKind::SignBits];
    if ends.iter().all(|&kind| of_kind(id, kind).is_empty())
        || threshold(id)
        || view.operations(id).iter().any(moved)
    {
        return Vec::new();
    }
    found().into_iter().collect()
}

/// Thresholds of `a * slope + start` as thresholds of `a`, and where they fall.
fn divided_stairs(m: &Match<'_>) -> Option<Vec<Term>> {
    let (rows, slope, start) = (m.integers("rows")?, m.integers("slope")?, m.integers("start")?);
    let flip = match m.id("flip") {
        Some(_) => m.integers("flip")?,
        None => &[],
    };
    let source = Classes { context: m.context(), view: m.view() };
    let rank = m.ty("x")?.shape.rank();
    let limits = bounds(&source, m.id("x")?, rank.saturating_sub(1))?;
    let channels = slope.len();
    let levels = rows.len() / channels.max(1);
    let divided = (0..channels)
        .map(|c| {
            let limit = *limits.get(c).or(limits.first())?;
            let turned = flip.get(c).is_some_and(|&f| f != 0);
            divide(&rows[c * levels..][..levels], turned, slope[c], start[c], limit)
        })
        .collect::<Option<Vec<_>>>()?;
    let thresholds = divided.iter().flat_map(|(row, _)| row.iter().copied()).collect();
    let turned = divided.iter().map(|(_, turned)| -i32::from(*turned)).collect();
    Some(vec![
        Term::Integers("thresholds", [channels, levels].into(), thresholds),
        Term::Integers("flip", [channels].into(), turned),
    ])
}

/// A row of thresholds of `a * scale + offset`, as one of `a` in `least..=most` with its flip. `None` if the product or
/// the sum can wrap, or a row would have to lie above every `a`.
fn divide(
    row: &[i32],
    turned: bool,
    scale: i32,
    offset: i32,
    (least, most): (i64, i64),
) -> Option<(Vec<i32>, bool)> {
    let (scale, offset) = (i64::from(scale), i64::from(offset));
    let fits = |v: i64| i32::try_from(v).is_ok();
    let ends = [least, most].map(|a| a * scale);
    if !ends.iter().all(|&v| fits(v) && fits(v + offset)) {
        return None;
    }
    // With a flip the condition is v <= !t.
    let falls = turned != (scale < 0);
    let (first, last) = if falls { (!most, !least) } else { (least, most) };
    let row = row
        .iter()
        .map(|&t| {
            let bound = if turned { !i64::from(t) } else { i64::from(t) } - offset;
            // The least u with a = u (or !u) on the right side of the bound.
            let u = match (scale, turned) {
                (0, false) if 0 >= bound => i64::MIN,
                (0, true) if 0 <= bound => i64::MIN,
                (0, _) => i64::MAX,
                (_, false) if scale > 0 => div_ceil(bound, scale),
                (_, true) if scale > 0 => !div_floor(bound, scale),
                (_, false) => !div_floor(bound, scale),
                (_, true) => div_ceil(bound, scale),
            };
            if u <= first {
                Some(i32::MIN)
            } else if u > last {
                (last < i64::from(i32::MAX)).then_some(i32::MAX)
            } else {
                i32::try_from(u).ok()
            }
        })
        .collect::<Option<Vec<i32>>>()?;
    Some((row, falls))
}

fn div_floor(a: i64, b: i64) -> i64 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn div_ceil(a: i64, b: i64) -> i64 {
    -div_floor(-a, b)
}

/// Stairs without the levels outside a clamp; `None` if fewer than one level is left, or rows are not known.
fn clamped_stairs(m: &Match<'_>) -> Option<Vec<Term>> {
    let (clamp, stairs) = (m.op::<ScaleShift>("clamp")?, m.op::<Threshold>("stairs")?);
    let rows = m.integers("rows")?;
    let levels = *m.ty("rows")?.shape.get(1)?;
    let high = stairs.low + levels as i32;
    let (low, top) = (stairs.low.clamp(clamp.low, clamp.high), high.clamp(clamp.low, clamp.high));
    if top <= low || stairs.element != clamp.element {
        return None;
    }
    let kept = (low - stairs.low) as usize..(top - stairs.low) as usize;
    let rows: Vec<i32> =
        rows.chunks(levels).flat_map(|row| row[kept.clone()].iter().copied()).collect();
    let shape = [rows.len() / kept.len(), kept.len()].into();
    let fewer = Threshold { low, element: stairs.element };
    Some(vec![Term::Attributes(fewer.into()), Term::Integers("thresholds", shape, rows)])
}

/// i32 sums `[B,H,W,C]` of a convolution with known weights, or of two narrow operands.
fn sums(r: &mut Random, i: &mut Builder) -> ValueId {
    let element = r.choose(&NARROW);
    let (channels, size) = (r.range(1, 3), r.range(2, 4));
    let x = i.input(TensorType::new([1, size, size, channels], element));
    if r.range(0, 2) == 0 {
        let factors = [r.range(0, 60) as i32 - 30, r.range(0, 60) as i32 - 30];
        return i.op(IntegerAdd { factors }, &[x, x]);
    }
    let element = r.choose(&NARROW[3..]);
    let outputs = r.range(1, 3);
    let w = r.tensor(&TensorType::new([outputs, 2, 2, channels], element));
    let w = i.constant(w);
    let conv = IntegerConv2d {
        strides: [1, 1],
        pads: [1, 0, 0, 1],
        dilations: [1, 1],
        groups: 1,
        padding: r.range(0, 1) as i32,
    };
    i.op(conv, &[x, w])
}

/// The channels of a drawn operand.
fn channels(d: &Drawn) -> usize {
    d.ty("x").shape.last().copied().unwrap_or(1)
}

/// Known numbers, one a channel, of any size.
fn wide(r: &mut Random, d: &Drawn) -> Value {
    r.tensor(&TensorType::new([channels(d)], Element::I32)).into()
}

/// Known numbers within `most` of 0, one a channel.
fn vector(r: &mut Random, d: &Drawn, most: usize) -> Value {
    let values = (0..channels(d)).map(|_| r.range(0, 2 * most) as i32 - most as i32).collect();
    Tensor::i32([channels(d)], values).into()
}

fn all(d: &Drawn, value: i32) -> Value {
    Tensor::i32([channels(d)], vec![value; channels(d)]).into()
}

fn affine(_: &mut Random, _: &Drawn) -> Value {
    ScaleShift { shift: 0, low: i32::MIN, high: i32::MAX, element: Element::I32 }.into()
}

fn any_stage(r: &mut Random, _: &Drawn) -> Value {
    let element = r.choose(&NARROW);
    let (low, high) = range(element);
    ScaleShift { shift: r.range(0, 31) as u32, low, high, element }.into()
}

fn any_stairs(r: &mut Random, _: &Drawn) -> Value {
    let element = r.choose(&NARROW);
    Threshold { low: range(element).0, element }.into()
}

/// The element of a drawn stage or of drawn stairs.
fn element(d: &Drawn) -> Element {
    let stage = d.find::<ScaleShift>("stage").map(|stage| stage.element);
    stage.unwrap_or_else(|| d.op::<Threshold>("stairs").element)
}

/// Bounds within the element of a stage.
fn any_clamp(r: &mut Random, d: &Drawn) -> Value {
    let element = element(d);
    let (low, high) = range(element);
    let mut bound = || low + r.range(0, (high - low) as usize) as i32;
    let (a, b) = (bound(), bound());
    ScaleShift { shift: 0, low: a.min(b), high: a.max(b), element }.into()
}

/// Rising rows of thresholds within `most` of 0, the extremes among them.
fn rows(r: &mut Random, d: &Drawn, most: usize) -> Value {
    let (low, high) = range(d.op::<Threshold>("stairs").element);
    let levels = r.range(1, (high - low) as usize);
    let mut rows = Vec::new();
    for _ in 0..channels(d) {
        let mut row: Vec<i32> = (0..levels)
            .map(|_| match r.range(0, 9) {
                0 => r.choose(&[i32::MIN, i32::MAX]),
                _ => r.range(0, 2 * most) as i32 - most as i32,
            })
            .collect();
        row.sort_unstable();
        rows.extend(row);
    }
    Tensor::i32([channels(d), levels], rows).into()
}

fn any_flip(r: &mut Random, d: &Drawn) -> Value {
    let flip = (0..channels(d)).map(|_| -(r.range(0, 1) as i32)).collect();
    Tensor::i32([channels(d)], flip).into()
}

/// Sums through a random chain: slopes of both signs and zero, biases, batch norm, activations, a quantizer.
fn chain_instance(r: &mut Random) -> trainc_ir::Graph {
    let mut i = Builder::new();
    let start = match r.range(0, 3) {
        // Narrow integers that are quantized again.
        0 => i.input(TensorType::new([2, 2, 3, r.range(1, 3)], r.choose(&NARROW))),
        _ => sums(r, &mut i),
    };
    let to_model = Transpose { permutation: vec![0, 3, 1, 2] };
    let acc = i.op(to_model, &[start]);
    let (channels, element) = (i.ty(acc).shape[1], i.ty(acc).element);
    let unit = |r: &mut Random| (r.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
    let draw = |r: &mut Random, low: f32, high: f32| -> Vec<f32> {
        (0..channels)
            .map(|_| match r.range(0, 5) {
                0 if low < 0.0 => 0.0,
                _ => low + (high - low) * (unit(r) + 1.0) / 2.0,
            })
            .collect()
    };
    let vector = |values: Vec<f32>| Arc::new(Tensor::f32([channels], values));
    let scale = draw(r, 0.001, 0.1);
    let scale = i.constant(vector(scale).as_ref().clone());
    let zero: Vec<i64> = match element {
        Element::I32 => (0..channels).map(|_| r.range(0, 40) as i64 - 20).collect(),
        narrow => vec![r.range(0, range(narrow).1 as usize) as i64; channels],
    };
    let zero = Tensor::from_i64(&TensorType::new([channels], element), &zero, ScaleData::None);
    let zero = i.constant(zero);
    let mut y = i.op(DequantizeLinear { axis: 1 }, &[acc, scale, zero]);
    for _ in 0..r.range(0, 3) {
        let shaped = |values: Vec<f32>| Tensor::f32([1, channels, 1, 1], values);
        y = match r.range(0, 6) {
            0 => {
                let bias = draw(r, -2.0, 2.0);
                let bias = i.constant(shaped(bias));
                i.op(Add {}, &[y, bias])
            }
            1 => {
                let gain = draw(r, -2.0, 2.0);
                let gain = i.constant(shaped(gain));
                i.op(Mul {}, &[gain, y])
            }
            2 => i.op(Relu {}, &[y]),
            3 => i.op(Clip { min: F32::new(-1.0), max: F32::new(3.0) }, &[y]),
            4 => i.op(LeakyRelu { alpha: F32::new(0.125) }, &[y]),
            5 => i.op(Sigmoid {}, &[y]),
            _ => {
                let parameters = [(-2.0, 2.0), (-1.0, 1.0), (-1.0, 1.0), (0.25, 4.0)];
                let mut operands = vec![y];
                for (low, high) in parameters {
                    let values = draw(r, low, high);
                    operands.push(i.constant(vector(values).as_ref().clone()));
                }
                i.op(BatchNorm { epsilon: F32::new(1e-5), batch: false }, &operands)
            }
        };
    }
    let element = r.choose(&NARROW);
    let (low, high) = range(element);
    let step = 8.0 / (high - low) as f32;
    let scalar = |i: &mut Builder, value: f32| i.constant(Tensor::f32([], vec![value]));
    let zero = if low < 0 { 0 } else { r.range(0, high as usize) as i64 };
    let scale = scalar(&mut i, step);
    match r.range(0, 2) {
        0 => {
            let zero = scalar(&mut i, zero as f32);
            let rounding = r.choose(&[Rounding::HalfEven, Rounding::Floor, Rounding::HalfUp]);
            let bits = element.bits();
            let quant = Quant { signed: low < 0, narrow: r.range(0, 1) == 0, rounding, bits };
            y = i.op(quant, &[y, scale, zero]);
        }
        1 if low < 0 => y = i.op(BipolarQuant {}, &[y, scale]),
        _ => {}
    }
    let zero = Tensor::from_i64(&TensorType::new([], element), &[zero], ScaleData::None);
    let zero = i.constant(zero);
    let y = i.op(QuantizeLinear { axis: 0 }, &[y, scale, zero]);
    i.finish(y)
}
