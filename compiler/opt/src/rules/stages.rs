//! Output stages of integer inference: what stands between sums and the next layer's integers becomes one `threshold`
//! or one `scale_shift`.

use std::sync::Arc;

use trainc_ir::attributes::F32;

use trainc_ir::ops::{
    Add, BatchNorm, BipolarQuant, Clip, DequantizeLinear, IntegerAdd, IntegerConv2d, LeakyRelu,
    Mul, Quant, QuantizeLinear, Relu, Reshape, Rounding, ScaleShift, Sigmoid, Threshold, Transpose,
};
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::{Element, Op, ScaleData, Tensor, ValueId};

use super::instance::{Instance, Random};
use super::{Exactness, Rule, RuleContext, matching};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};
use crate::quantized::bounds::bounds;
use crate::quantized::chain::trace;
use crate::quantized::source::Classes;
use crate::quantized::stairs::Stairs;

pub(crate) const RULES: &[Rule] = &[
    // Bisection of the chain itself finds where it reaches each level; every step keeps the order of its operands.
    Rule {
        name: "chain-into-threshold",
        summary: "quantize_linear(f(dequantize_linear(acc))) = threshold(acc), f a chain of monotone operations on each \
                  channel with known operands",
        exactness: Exactness::Bit,
        search: chain_into_threshold,
        instance: chain_instance,
    },
    Rule {
        name: "stage-before-reshape",
        summary: "f(reshape(acc)) = reshape(f(acc)), f a threshold or scale_shift and the last dimension the same",
        exactness: Exactness::Bit,
        search: stage_before_reshape,
        instance: |r| {
            let mut i = Instance::new();
            let shape = r.shape(4);
            let (rows, channels) = (shape[..3].iter().product(), shape[3]);
            let acc = i.input(TensorType::new(shape, Element::I32));
            let acc = i.op(Reshape { shape: [rows, channels].into() }, &[acc]);
            let y = stage(r, &mut i, acc);
            i.finish(y)
        },
    },
    // (a s1 + o1) s2 + o2 = a (s1 s2) + (o1 s2 + o2) in wrapping arithmetic.
    Rule {
        name: "affine-into-scale-shift",
        summary: "scale_shift(affine(acc), s, o) = scale_shift(acc, s s', o + s o'), affine = scale_shift{shift=0} \
                  without clamps, known s', o', s, o",
        exactness: Exactness::Bit,
        search: affine_into_scale_shift,
        instance: |r| {
            let mut i = Instance::new();
            let acc = i.input(TensorType::new(r.shape(3), Element::I32));
            let acc = affine(r, &mut i, acc, i32::MAX);
            let channels = last(i.ty(acc));
            let [scale, offset] = [(); 2].map(|()| wide(r, &mut i, channels));
            let (shift, element) = (r.range(0, 31) as u32, r.choose(&NARROW));
            let (low, high) = range(element);
            let y = i.op(ScaleShift { shift, low, high, element }, &[acc, scale, offset]);
            i.finish(y)
        },
    },
    // s a + o >= t exactly where a >= ceil((t - o) / s), or a <= floor((t - o) / s) if s < 0: sums must not wrap.
    Rule {
        name: "affine-into-threshold",
        summary: "threshold(affine(acc), t) = threshold(acc, t - o divided by s), affine = scale_shift{shift=0} without \
                  clamps that cannot wrap for these sums; known s, o, t",
        exactness: Exactness::Bit,
        search: affine_into_threshold,
        instance: |r| {
            let mut i = Instance::new();
            let acc = sums(r, &mut i);
            let acc = affine(r, &mut i, acc, 9);
            let y = stairs(r, &mut i, acc, 200);
            i.finish(y)
        },
    },
    Rule {
        name: "clamp-into-stage",
        summary: "clamp(f(acc)) = f(acc) with tighter bounds, f a threshold or scale_shift, clamp = scale_shift{shift=0} \
                  by 1 of integer_add{factors=[1, 0]}",
        exactness: Exactness::Bit,
        search: clamp_into_stage,
        instance: |r| {
            let mut i = Instance::new();
            let acc = i.input(TensorType::new(r.shape(3), Element::I32));
            let y = stage(r, &mut i, acc);
            let (element, channels) = (i.ty(y).element, last(i.ty(y)));
            let y = i.op(IntegerAdd { factors: [1, 0] }, &[y, y]);
            let one = i.constant(Tensor::i32([channels], vec![1; channels]));
            let zero = i.constant(Tensor::i32([channels], vec![0; channels]));
            let (low, high) = range(element);
            let a = low + r.range(0, (high - low) as usize) as i32;
            let b = low + r.range(0, (high - low) as usize) as i32;
            let clamp = ScaleShift { shift: 0, low: a.min(b), high: a.max(b), element };
            let y = i.op(clamp, &[y, one, zero]);
            i.finish(y)
        },
    },
];

const NARROW: [Element; 6] =
    [Element::U8, Element::U4, Element::U2, Element::I8, Element::I4, Element::I2];

fn range(element: Element) -> (i32, i32) {
    let (low, high) = element.integer_range().unwrap_or_default();
    (low as i32, high as i32)
}

fn last(ty: &TensorType) -> usize {
    ty.shape.last().copied().unwrap_or(1)
}

fn integers(context: &RuleContext, view: View<'_>, id: Id) -> Option<Vec<i32>> {
    let tensor = context.constant(view, id)?;
    (tensor.ty().element == Element::I32).then(|| tensor.as_i32().to_vec())
}

fn chain_into_threshold(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let source = Classes { context, view };
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
        let replaced = matching!(view, id, QuantizeLinear);
        let replaced = replaced.into_iter().map(|(_, op, operands)| (op, operands)).collect();
        Some(Replacement { term, replaced })
    };
    // Stairs take a while to find: once is enough.
    let threshold = |id: Id| !matching!(view, id, Threshold).is_empty();
    let moved = |(op, operands): &(Op, Vec<Id>)| {
        matches!(op, Op::Transpose(_) | Op::Reshape(_)) && threshold(operands[0])
    };
    if matching!(view, id, QuantizeLinear).is_empty()
        || threshold(id)
        || view.operations(id).iter().any(moved)
    {
        return Vec::new();
    }
    found().into_iter().collect()
}

fn stage_before_reshape(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (op, operands) in view.operations(id) {
        if !matches!(op, Op::Threshold(_) | Op::ScaleShift(_)) {
            continue;
        }
        for (reshape, inner_op, inputs) in matching!(view, operands[0], Reshape) {
            let same = view.ty(inputs[0]).is_some_and(|ty| ty.shape.last() == reshape.shape.last());
            if same {
                let inner = std::iter::once(inputs[0]).chain(operands[1..].iter().copied());
                let stage = Term::operation(op.clone(), inner.map(Term::Class).collect());
                found.push(Replacement {
                    term: Term::operation(reshape, vec![stage]),
                    replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
                });
            }
        }
    }
    found
}

/// An affine function of sums: operands and its operation.
type AffineOf = (Op, Vec<Id>, Vec<i32>, Vec<i32>);

/// The affine functions in a class, of sums and with known scales and offsets.
fn affines(context: &RuleContext, view: View<'_>, id: Id) -> Vec<AffineOf> {
    matching!(view, id, ScaleShift)
        .into_iter()
        .filter_map(|(inner, op, inputs)| {
            let plain = inner.shift == 0
                && inner.element == Element::I32
                && (inner.low, inner.high) == (i32::MIN, i32::MAX);
            let scale = integers(context, view, inputs[1])?;
            let offset = integers(context, view, inputs[2])?;
            plain.then_some((op, inputs, scale, offset))
        })
        .collect()
}

fn affine_into_scale_shift(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (outer, op, operands) in matching!(view, id, ScaleShift) {
        let known = |i: usize| integers(context, view, operands[i]);
        let (Some(scale), Some(offset)) = (known(1), known(2)) else { continue };
        for (inner_op, inputs, first, start) in affines(context, view, operands[0]) {
            let channels: Shape = [scale.len()].into();
            let both = scale.iter().zip(&first).map(|(a, b)| a.wrapping_mul(*b)).collect();
            let moved = (scale.iter().zip(&start).zip(&offset))
                .map(|((s, o), offset)| o.wrapping_mul(*s).wrapping_add(*offset))
                .collect();
            let term = Term::operation(
                outer.clone(),
                vec![
                    Term::Class(inputs[0]),
                    Term::Integers("scale", channels.clone(), both),
                    Term::Integers("offset", channels, moved),
                ],
            );
            let replaced = vec![(op.clone(), operands.clone()), (inner_op, inputs)];
            found.push(Replacement { term, replaced });
        }
    }
    found
}

fn affine_into_threshold(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    let source = Classes { context, view };
    for (stage, op, operands) in matching!(view, id, Threshold) {
        let Some(rows) = integers(context, view, operands[1]) else { continue };
        let flip = match operands.get(2) {
            Some(&flip) => integers(context, view, flip),
            None => Some(Vec::new()),
        };
        let Some(flip) = flip else { continue };
        for (inner_op, inputs, scale, offset) in affines(context, view, operands[0]) {
            let rank = view.ty(inputs[0]).map_or(0, |ty| ty.shape.rank());
            let Some(limits) = bounds(&source, inputs[0], rank.saturating_sub(1)) else { continue };
            let channels = scale.len();
            let levels = rows.len() / channels.max(1);
            let divided = (0..channels)
                .map(|c| {
                    let limit = *limits.get(c).or(limits.first())?;
                    let turned = flip.get(c).is_some_and(|&f| f != 0);
                    divide(&rows[c * levels..][..levels], turned, scale[c], offset[c], limit)
                })
                .collect::<Option<Vec<_>>>();
            let Some(divided) = divided else { continue };
            let thresholds = divided.iter().flat_map(|(row, _)| row.iter().copied()).collect();
            let flip = divided.iter().map(|(_, turned)| -i32::from(*turned)).collect();
            let term = Term::operation(
                stage.clone(),
                vec![
                    Term::Class(inputs[0]),
                    Term::Integers("thresholds", [channels, levels].into(), thresholds),
                    Term::Integers("flip", [channels].into(), flip),
                ],
            );
            let replaced = vec![(op.clone(), operands.clone()), (inner_op, inputs)];
            found.push(Replacement { term, replaced });
        }
    }
    found
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

fn clamp_into_stage(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (clamp, op, operands) in matching!(view, id, ScaleShift) {
        let all = |i: usize, value: i32| {
            integers(context, view, operands[i]).is_some_and(|v| v.iter().all(|&x| x == value))
        };
        if clamp.shift != 0 || !all(1, 1) || !all(2, 0) {
            continue;
        }
        for (sum, sum_op, parts) in matching!(view, operands[0], IntegerAdd) {
            if sum.factors != [1, 0] {
                continue;
            }
            for (inner, inputs) in view.operations(parts[0]) {
                let clamped = match &inner {
                    Op::ScaleShift(stage) if stage.element == clamp.element => {
                        let within = |v: i32| v.clamp(clamp.low, clamp.high);
                        let (low, high) = (within(stage.low), within(stage.high));
                        let stage = ScaleShift { low, high, ..stage.clone() };
                        let operands = inputs.iter().map(|&o| Term::Class(o)).collect();
                        Some(Term::operation(stage, operands))
                    }
                    Op::Threshold(stage) if stage.element == clamp.element => {
                        clamped_stairs(context, view, stage, &inputs, &clamp)
                    }
                    _ => None,
                };
                if let Some(term) = clamped {
                    let replaced = vec![
                        (op.clone(), operands.clone()),
                        (sum_op.clone(), parts.clone()),
                        (inner, inputs),
                    ];
                    found.push(Replacement { term, replaced });
                }
            }
        }
    }
    found
}

/// Stairs without the levels outside a clamp; `None` if fewer than one level is left, or rows are not known.
fn clamped_stairs(
    context: &RuleContext,
    view: View<'_>,
    stage: &Threshold,
    inputs: &[Id],
    clamp: &ScaleShift,
) -> Option<Term> {
    let rows = integers(context, view, inputs[1])?;
    let levels = *view.ty(inputs[1])?.shape.get(1)?;
    let high = stage.low + levels as i32;
    let (low, top) = (stage.low.clamp(clamp.low, clamp.high), high.clamp(clamp.low, clamp.high));
    if top <= low {
        return None;
    }
    let kept = (low - stage.low) as usize..(top - stage.low) as usize;
    let rows: Vec<i32> =
        rows.chunks(levels).flat_map(|row| row[kept.clone()].iter().copied()).collect();
    let shape = [rows.len() / kept.len(), kept.len()].into();
    let mut operands = vec![Term::Class(inputs[0]), Term::Integers("thresholds", shape, rows)];
    operands.extend(inputs.get(2).map(|&flip| Term::Class(flip)));
    Some(Term::operation(Threshold { low, element: stage.element }, operands))
}

/// i32 sums `[B,H,W,C]` of a convolution with known weights, or of two narrow operands.
fn sums(r: &mut Random, i: &mut Instance) -> ValueId {
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

/// Known numbers of any size.
fn wide(r: &mut Random, i: &mut Instance, channels: usize) -> ValueId {
    let tensor = r.tensor(&TensorType::new([channels], Element::I32));
    i.constant(tensor)
}

/// An affine function with scales up to `most`, zero and negative ones among them.
fn affine(r: &mut Random, i: &mut Instance, acc: ValueId, most: i32) -> ValueId {
    let channels = last(i.ty(acc));
    let mut draw = || {
        let vector = (0..channels).map(|_| match most {
            i32::MAX => r.bits() as i32,
            _ => r.range(0, 2 * most as usize) as i32 - most,
        });
        vector.collect::<Vec<i32>>()
    };
    let [scale, offset] = [(); 2].map(|()| Tensor::i32([channels], draw()));
    let (scale, offset) = (i.constant(scale), i.constant(offset));
    let stage = ScaleShift { shift: 0, low: i32::MIN, high: i32::MAX, element: Element::I32 };
    i.op(stage, &[acc, scale, offset])
}

/// Known stairs within `most` of 0, with and without flips.
fn stairs(r: &mut Random, i: &mut Instance, acc: ValueId, most: i32) -> ValueId {
    let channels = last(i.ty(acc));
    let element = r.choose(&NARROW);
    let (low, high) = range(element);
    let levels = r.range(1, (high - low) as usize);
    let mut rows = Vec::new();
    for _ in 0..channels {
        let mut row: Vec<i32> = (0..levels)
            .map(|_| match r.range(0, 9) {
                0 => r.choose(&[i32::MIN, i32::MAX]),
                _ => r.range(0, 2 * most as usize) as i32 - most,
            })
            .collect();
        row.sort_unstable();
        rows.extend(row);
    }
    let mut operands = vec![acc, i.constant(Tensor::i32([channels, levels], rows))];
    if r.range(0, 1) == 0 {
        let flip = (0..channels).map(|_| -(r.range(0, 1) as i32)).collect();
        operands.push(i.constant(Tensor::i32([channels], flip)));
    }
    i.op(Threshold { low, element }, &operands)
}

fn stage(r: &mut Random, i: &mut Instance, acc: ValueId) -> ValueId {
    if r.range(0, 1) == 0 {
        return stairs(r, i, acc, 1 << 30);
    }
    let channels = last(i.ty(acc));
    let [scale, offset] = [(); 2].map(|()| wide(r, i, channels));
    let element = r.choose(&NARROW);
    let (low, high) = range(element);
    i.op(ScaleShift { shift: r.range(0, 31) as u32, low, high, element }, &[acc, scale, offset])
}

/// Sums through a random chain: slopes of both signs and zero, biases, batch norm, activations, a quantizer.
fn chain_instance(r: &mut Random) -> trainc_ir::Graph {
    let mut i = Instance::new();
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
    let scalar = |i: &mut Instance, value: f32| i.constant(Tensor::f32([], vec![value]));
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
