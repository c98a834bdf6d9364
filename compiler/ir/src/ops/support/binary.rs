//! Loops of products of packed bits.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, LoopKernel, Unary};
use crate::ops::BinaryConv2d;
use crate::ops::support::convolution::Convolution;
use crate::ops::support::window::Axis;
use crate::types::TensorType;

/// Bytes of a word.
const WORD: usize = 4;

/// The number of ones among an I32's bits: sums of ever wider fields, a form that compilers know.
fn ones(b: &mut LoopBuilder, word: Expr) -> Expr {
    let mask = |value: u32| Expr::i32(value as i32);
    let shifted = |word: &Expr, by: i32| word.clone().shr_unsigned(Expr::i32(by));
    let word = b.let_("word", word);
    let pairs = word.clone() - shifted(&word, 1).and(mask(0x5555_5555));
    let pairs = b.let_("pairs", pairs);
    let nibbles = pairs.clone().and(mask(0x3333_3333)) + shifted(&pairs, 2).and(mask(0x3333_3333));
    let nibbles = b.let_("nibbles", nibbles);
    let bytes = (nibbles.clone() + shifted(&nibbles, 4)).and(mask(0x0f0f_0f0f));
    shifted(&(bytes * mask(0x0101_0101)), 24)
}

/// The `count` bytes of a packed buffer from byte `at` on as one word, the first in its low bits.
fn word(b: &LoopBuilder, buffer: Buffer, at: &Expr, count: usize) -> Expr {
    let byte = |i: usize| {
        let byte = b.load(buffer, at.clone() + Expr::index(i));
        if i == 0 { byte } else { byte.shift_left(Expr::i32(8 * i as i32)) }
    };
    (1..count).fold(byte(0), |word, i| word.or(byte(i)))
}

/// For the words of a tap: how many of its bits differ, added to `differ`. `at` are the first bytes of both operands; without
/// that of `x` the tap is outside.
fn tap(
    b: &mut LoopBuilder,
    op: &BinaryConv2d,
    [x, w]: [Buffer; 2],
    (x_at, w_at): (Option<&Expr>, &Expr),
    stored: usize,
    differ: crate::loops::Local,
) {
    let step = |b: &mut LoopBuilder, first: Expr, bytes: usize, fixed: Option<usize>| {
        let weights = word(b, w, &(w_at.clone() + first.clone()), bytes);
        let bits = match (x_at, fixed) {
            (Some(x_at), _) => word(b, x, &(x_at.clone() + first), bytes).xor(weights),
            (None, Some(byte)) if op.padding == 1 => {
                let ones = (0..bytes)
                    .fold(0u32, |word, i| word | u32::from(op.ones(byte + i)) << (8 * i as u32));
                weights.xor(Expr::i32(ones as i32))
            }
            (None, _) => weights,
        };
        let count = ones(b, bits);
        b.set(differ, b.get(differ) + count);
    };
    let (words, rest) = (stored / WORD, stored % WORD);
    // Words that are not all alike outside are written out; there are few taps like that.
    let alike = x_at.is_some() || op.padding != 1;
    if words == 0 {
        // Fewer bits than a word has.
    } else if alike {
        b.for_("word", words, |b, index| {
            let first = b.let_("at", index * Expr::index(WORD));
            step(b, first, WORD, None);
        });
    } else {
        let whole = (op.channels / 8 / WORD).min(words);
        if whole > 0 {
            b.for_("word", whole, |b, index| {
                let first = b.let_("at", index * Expr::index(WORD));
                step(b, first, WORD, Some(0));
            });
        }
        for index in whole..words {
            step(b, Expr::index(WORD * index), WORD, Some(WORD * index));
        }
    }
    if rest > 0 {
        step(b, Expr::index(WORD * words), rest, Some(WORD * words));
    }
}

/// The output channels, each with the first byte of its group in a pixel where there are several.
fn each_feature(
    b: &mut LoopBuilder,
    c: &Convolution,
    body: impl FnOnce(&mut LoopBuilder, Expr, Option<Expr>),
) {
    if c.groups == 1 {
        return b.for_("feature", c.outputs, |b, feature| body(b, feature, None));
    }
    b.for_("group", c.groups, |b, group| {
        let first = b.let_("first", group.clone() * Expr::index(c.inputs / 8));
        b.for_("member", c.outputs, |b, member| {
            let feature = b.let_("feature", group * Expr::index(c.outputs) + member);
            body(b, feature, Some(first));
        });
    });
}

/// The loops of a convolution of bits, over the packed bytes of its operands; with further operands those of a chain that ends in
/// a `threshold` of one level, which then come with no memory for sums: the thresholds `[C,1]`, and which channels are
/// complemented, if any are.
pub(crate) fn lower(
    op: &BinaryConv2d,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> LoopKernel {
    let c = op
        .convolution(&inputs[0].shape, &inputs[1].shape)
        .expect("the type rule has checked the operands");
    let (vertical, horizontal) = (c.windows.vertical, c.windows.horizontal);
    let (bytes, features) = (c.inputs / 8, c.groups * c.outputs);
    // Padding of zeros adds nothing: its taps are left out.
    let inside = vertical.all_inside() && horizontal.all_inside();
    let skips = op.padding == 0 || inside;
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, w, y) = (b.input(0), b.input(1), b.output(0));
    let thresholds = (inputs.len() > 2).then(|| b.input(2));
    let flip = (inputs.len() > 3).then(|| b.input(3));
    b.packed_bytes(x);
    b.packed_bytes(w);
    b.for_("image", c.batch, |b, image| {
        b.for_("oh", vertical.output, |b, oh| {
            let all = (Expr::i64(0), Expr::index(vertical.kernel));
            let (kh_start, kh_end) = if skips { vertical.tap_range(b, &oh) } else { all };
            let top = b.let_("top", vertical.origin(&oh));
            let line = image.clone() * Expr::index(vertical.output) + oh;
            let line = b.let_("line", line * Expr::index(horizontal.output));
            b.for_("ow", horizontal.output, |b, ow| {
                let all = (Expr::i64(0), Expr::index(horizontal.kernel));
                let (kw_start, kw_end) = if skips { horizontal.tap_range(b, &ow) } else { all };
                let left = b.let_("left", horizontal.origin(&ow));
                let pixel = b.let_("pixel", (line + ow) * Expr::index(features));
                let length = |axis: &Axis, start: &Expr, end: &Expr| {
                    let taps = (end.clone() - start.clone()).truncate();
                    // A window beside the map begins behind its end.
                    if axis.never_empty() { taps } else { taps.maximum(Expr::i32(0)) }
                };
                let taps = match skips {
                    true => {
                        length(&vertical, &kh_start, &kh_end)
                            * length(&horizontal, &kw_start, &kw_end)
                    }
                    false => Expr::i32((vertical.kernel * horizontal.kernel) as i32),
                };
                let most = b.let_("most", taps * Expr::i32(op.channels as i32));
                each_feature(b, &c, |b, feature, first| {
                    let differ = b.local("differ", Expr::i32(0));
                    b.for_range("kh", kh_start, kh_end, |b, kh| {
                        let row = b.let_("row", top + kh.clone() * Expr::index(vertical.dilation));
                        let x_row = image * Expr::index(vertical.input) + row.clone();
                        let x_row = b.let_("x_row", x_row * Expr::index(horizontal.input));
                        let w_row = feature.clone() * Expr::index(vertical.kernel) + kh;
                        let w_row = b.let_("w_row", w_row * Expr::index(horizontal.kernel));
                        b.for_range("kw", kw_start, kw_end, |b, kw| {
                            let column = left + kw.clone() * Expr::index(horizontal.dilation);
                            let column = b.let_("column", column);
                            let pixel = (x_row + column.clone()) * Expr::index(c.groups * bytes);
                            let x_at = first.clone().map_or(pixel.clone(), |first| pixel + first);
                            let w_at = b.let_("w_at", (w_row + kw) * Expr::index(bytes));
                            let within = |position: Expr, size: usize| {
                                let above = Expr::i64(-1).less(position.clone());
                                above.and(position.less(Expr::index(size)))
                            };
                            let present = |b: &mut LoopBuilder| {
                                let x_at = b.let_("x_at", x_at.clone());
                                tap(b, op, [x, w], (Some(&x_at), &w_at), bytes, differ);
                            };
                            if skips {
                                return present(b);
                            }
                            let holds =
                                within(row, vertical.input).and(within(column, horizontal.input));
                            b.if_else(holds, present, |b| {
                                tap(b, op, [x, w], (None, &w_at), bytes, differ);
                            });
                        });
                    });
                    let sum = most - b.get(differ) * Expr::i32(2);
                    let result = match thresholds {
                        None => sum,
                        Some(thresholds) => {
                            let sum = match flip {
                                Some(flip) => sum.xor(b.load(flip, feature.clone())),
                                None => sum,
                            };
                            let reached = b.load(thresholds, feature.clone()).less_equal(sum);
                            reached.unary(Unary::BoolToInteger)
                        }
                    };
                    b.store(y, pixel + feature, result);
                });
            });
        });
    });
    b.finish()
}
