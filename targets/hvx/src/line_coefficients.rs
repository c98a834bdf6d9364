//! Coefficients of batch normalization by integers and of its error: loops that make them of each channel's floats. What turns
//! floats into integers works on their bits, in vectors; the results are those of the operations' own loops.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, LoopKernel, Role, Unary};
use trainc_ir::numeric::exponent;
use trainc_ir::target::loop_scratch;
use trainc_ir::{Element, Op, TensorType};

use crate::conversions::{magnitude, signed};

/// Packets of a channel: of a normalization, and of its error.
pub(crate) const NORM: u64 = 6;
pub(crate) const ERROR: u64 = 9;
/// Packets of a call.
pub(crate) const CALL: u64 = 250;
/// Bytes beyond coefficients that may be read.
const BEYOND: usize = 128;

/// Bits of the magnitude of what a code is multiplied by, and of what is added.
const FACTOR_BITS: i64 = 15;
const OFFSET_BITS: i64 = 30;
/// In the place of a largest magnitude of 0.
const LEAST: f32 = f32::from_bits(1);
/// A float is its mantissa, with the bit that is not stored, times 2^(biased exponent - this).
const BIAS: i32 = 150;
const MANTISSA: i32 = 23;
const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();
/// Most places that a mantissa moves up, whose integer has at most 31 bits, and down, from where on nothing is left of it.
const UP: i32 = 7;
const DOWN: i32 = 26;

/// Loops that set the exponent of sums and leave each channel's factors and offset, words, in their working memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coefficients {
    pub(crate) loops: LoopKernel,
    /// Where factors of each operand and offsets are.
    pub(crate) factors: Vec<usize>,
    pub(crate) offsets: usize,
    /// Where the key of stochastic rounding is, if there is any.
    pub(crate) key: Option<usize>,
}

impl Coefficients {
    /// Those of a normalization, or of its error; `None` of other operations. The result is i32 sums, and the key of a random stream that
    /// rounds them.
    pub(crate) fn of(
        op: &Op,
        inputs: &[&TensorType],
        output: &TensorType,
        stream: Option<u32>,
    ) -> Option<Coefficients> {
        let [_, channels, ..] = *inputs.first()?.shape.dims() else { return None };
        let mut b = LoopBuilder::new(inputs, &[output], stream.is_some());
        let operands: &[usize] = match op {
            Op::IntegerBatchNorm(_) => &[0],
            Op::IntegerBatchNormError(_) => &[1, 0],
            _ => return None,
        };
        let factors: Vec<Buffer> = (0..operands.len())
            .map(|n| b.scratch(&format!("factors{n}"), Element::F32, channels))
            .collect();
        let offsets = b.scratch("offsets", Element::F32, channels);
        match op {
            Op::IntegerBatchNormError(op) => {
                let count = inputs[0].count() / channels.max(1);
                error(
                    &mut b,
                    op.batch.then_some(count),
                    [factors[0], factors[1]],
                    offsets,
                    channels,
                );
            }
            _ => norm(&mut b, factors[0], offsets, channels),
        }
        integers(&mut b, operands, &factors, offsets, channels);
        if let Some(stream) = stream {
            let key = b.scratch("key", Element::I32, 1);
            let drawn = b.draw(stream, Expr::i64(0));
            b.store(key, Expr::i64(0), drawn);
        }
        let loops = b.finish();
        let (places, _) = loop_scratch(&loops);
        let scratch = loops.buffers.iter().filter(|buffer| buffer.role == Role::Scratch);
        let names: Vec<&str> = scratch.map(|buffer| buffer.name.as_str()).collect();
        let place = |name: &str| Some(places[names.iter().position(|&own| own == name)?]);
        let factors =
            (0..operands.len()).map(|n| place(&format!("codes{n}"))).collect::<Option<_>>()?;
        let offsets = place("added")?;
        Some(Coefficients { key: place("key"), loops, factors, offsets })
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        loop_scratch(&self.loops).1 + BEYOND
    }
}

/// As [`trainc_ir::ops::IntegerBatchNorm`] defines them.
fn norm(b: &mut LoopBuilder, factors: Buffer, offsets: Buffer, channels: usize) {
    b.for_("c", channels, |b, c| {
        let [scale, bias, mean, inverse] = [1, 2, 3, 4].map(|i| b.load(b.input(i), c.clone()));
        let slope = b.let_("slope", scale * inverse);
        b.store(factors, c.clone(), slope.clone());
        b.store(offsets, c, bias - mean * slope);
    });
}

/// As [`trainc_ir::ops::IntegerBatchNormError`] defines them; of a channel's elements if statistics are the batch's. In two loops,
/// each of so few operations that rounds overlap.
fn error(
    b: &mut LoopBuilder,
    count: Option<usize>,
    [slopes, turns]: [Buffer; 2],
    offsets: Buffer,
    channels: usize,
) {
    let negated = |x: Expr| x.unary(Unary::Negate);
    let of = |b: &LoopBuilder, i: usize, c: &Expr| b.load(b.input(i), c.clone());
    let share = |slope: Expr| slope.divide(Expr::f32(count.unwrap_or(1) as f32));
    b.for_("c", channels, |b, c| {
        let inverse = of(b, 4, &c);
        let inverse = b.let_("inverse", inverse);
        let slope = of(b, 2, &c) * inverse.clone();
        let slope = b.let_("slope", slope);
        b.store(slopes, c.clone(), slope.clone());
        let turn = match count {
            Some(_) => {
                let share = b.let_("share", share(slope));
                negated(share * of(b, 5, &c) * inverse)
            }
            None => Expr::f32(0.0),
        };
        b.store(turns, c, turn);
    });
    b.for_("c", channels, |b, c| {
        let offset = match count {
            Some(_) => {
                let slope = b.load(slopes, c.clone());
                let share = b.let_("share", share(slope));
                negated(share * of(b, 6, &c)) - b.load(turns, c.clone()) * of(b, 3, &c)
            }
            None => Expr::f32(0.0),
        };
        b.store(offsets, c, offset);
    });
}

/// The floats as integers beside an exponent, the result's: the least at which factors' magnitudes stay below 2^15 and offsets'
/// within 2^30, by the powers of two that bound their largest.
fn integers(
    b: &mut LoopBuilder,
    operands: &[usize],
    factors: &[Buffer],
    offsets: Buffer,
    channels: usize,
) {
    let width = |b: &mut LoopBuilder, buffer: Buffer| {
        let largest = exponent::largest_finite(b, buffer, channels);
        exponent::ceil_log2(b, largest.maximum(Expr::f32(LEAST))).extend()
    };
    let mut all = width(b, offsets) - Expr::i64(OFFSET_BITS);
    let mut own = Vec::new();
    for (&operand, &buffer) in operands.iter().zip(factors) {
        let exponent = b.input_exponent(operand).extend();
        let exponent = b.let_("own", exponent);
        own.push(exponent.clone());
        let bound = exponent + width(b, buffer) - Expr::i64(FACTOR_BITS);
        all = all.maximum(bound);
    }
    let all = b.let_("exponent", all);
    b.set_output_exponent(0, all.clone().truncate());
    for (n, (&buffer, own)) in factors.iter().zip(own).enumerate() {
        rounded(
            b,
            &format!("codes{n}"),
            buffer,
            own - all.clone(),
            (1 << FACTOR_BITS) - 1,
            channels,
        );
    }
    rounded(b, "added", offsets, Expr::i64(0) - all, 1 << OFFSET_BITS, channels);
}

/// Floats times 2^by to nearest, ties to even, within a limit; no finite one has more than 31 bits.
fn rounded(b: &mut LoopBuilder, name: &str, from: Buffer, by: Expr, limit: i32, channels: usize) {
    let by = by.maximum(Expr::i64(-1000)).minimum(Expr::i64(1000)).truncate();
    let unit = b.let_("unit", by - Expr::i32(BIAS));
    let to = b.scratch(name, Element::I32, channels);
    b.for_("c", channels, |b, c| {
        let [bits, number] = magnitude(b, from, c.clone(), true);
        let biased = number.clone().shr_unsigned(Expr::i32(MANTISSA)).maximum(Expr::i32(1));
        let biased = b.let_("biased", biased);
        let above = (biased.clone() - Expr::i32(1)).shift_left(Expr::i32(MANTISSA));
        let mantissa = b.let_("mantissa", number.clone() - above);
        let places = b.let_("places", biased + unit.clone());
        let up = places.clone().maximum(Expr::i32(0)).minimum(Expr::i32(UP));
        let down = (Expr::i32(0) - places).maximum(Expr::i32(0)).minimum(Expr::i32(DOWN));
        let down = b.let_("down", down);
        // Nothing is added where nothing is shifted out.
        let half = Expr::i32(1).shift_left(down.clone()).shr_unsigned(Expr::i32(1));
        let half = b.let_("half", half);
        let odd = mantissa.clone().shr_unsigned(down.clone()).and(Expr::i32(1));
        let bias = (half.clone() - Expr::i32(1)).maximum(Expr::i32(0)) + odd.minimum(half);
        let q = (mantissa + bias).shr_unsigned(down).shift_left(up);
        let q = Expr::i32(INFINITY).equal(number).select(Expr::i32(limit), q);
        let q = b.let_("q", q.minimum(Expr::i32(limit)));
        let q = signed(b, q, bits);
        b.store(to, c, q);
    });
}
