//! Loops of operations whose generic lowering leaves work to the scalar core that vectors can do.

use trainc_ir::loops::builder::{LoopBuilder, broadcast_index, flat_index};
use trainc_ir::loops::{Expr, LoopKernel, Scalar, Unary};
use trainc_ir::numeric::Rounding;
use trainc_ir::numeric::dither::DitherLoop;
use trainc_ir::numeric::integer::{self, RightShift};
use trainc_ir::ops::{self, QuantizeGradient, Requantize, RequantizeStochastic};
use trainc_ir::{Element, Op, TensorType};

use crate::{batch_norm, conversions, inverse_deviation, normalized_update};

/// Bytes of a vector.
const VECTOR: usize = 128;

/// The loops of an operation on Hexagon.
pub fn lower(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    match op {
        Op::AlignedAdd(_) => aligned_add(inputs, outputs),
        Op::QuantizeGradient(op) => quantize_gradient(op, inputs, outputs),
        Op::QuantizeExponent(_) => conversions::quantize(inputs, outputs, true),
        Op::QuantizeUnsigned(_) if inputs[0].is_f32() => {
            conversions::quantize(inputs, outputs, false)
        }
        Op::RequantizeStochastic(op) if inputs[0].is_f32() => {
            conversions::quantize_stochastic(op, inputs, outputs)
        }
        Op::RequantizeStochastic(op) => requantize_stochastic(op, inputs, outputs),
        Op::Dequantize(_) if inputs[0].element.bits() <= 16 => {
            conversions::dequantize(inputs, outputs)
        }
        Op::Dequantize(_) if inputs[0].element == Element::I32 => {
            conversions::dequantize_sums(inputs, outputs)
        }
        Op::Requantize(op) if op.rounding == Rounding::PseudoStochastic => {
            requantize(op, inputs, outputs)
        }
        Op::InverseDeviation(inverse) => inverse_deviation::lower(inverse, inputs, outputs)
            .unwrap_or_else(|| op.lower(inputs, outputs)),
        Op::NormalizedUpdate(_) => {
            normalized_update::lower(inputs, outputs).unwrap_or_else(|| op.lower(inputs, outputs))
        }
        Op::BatchStatistics(_) => {
            batch_norm::statistics(inputs, outputs).unwrap_or_else(|| op.lower(inputs, outputs))
        }
        Op::BatchNormGradient(gradient) => batch_norm::gradient(gradient, inputs, outputs)
            .unwrap_or_else(|| op.lower(inputs, outputs)),
        _ => ops::lower_by_images(op, inputs, outputs, VECTOR)
            .unwrap_or_else(|| op.lower(inputs, outputs)),
    }
}

/// A pseudo-stochastically rounding right shift, as [`RightShift`] does it, whose values need few vector predicates:
/// there are four, and each that is in use at once keeps rounds of a loop from overlapping.
struct PseudoShift {
    amount: Expr,
    remainder_mask: Expr,
    half_amount: Expr,
    low_mask: Expr,
    odd: Expr,
    /// Bits of a value, 16 or 32.
    bits: u32,
}

impl PseudoShift {
    /// A shift of values of 32 bits by 0 to 31.
    fn words(b: &mut LoopBuilder, amount: Expr) -> PseudoShift {
        let amount = b.let_("shift", amount.maximum(Expr::i32(0)).minimum(Expr::i32(31)));
        let mask = Expr::i32(1).shift_left(amount.clone()) - Expr::i32(1);
        PseudoShift::new(b, amount, mask, 32)
    }

    /// A shift of values of 16 bits by 0 to 15, or by more if magnitudes are below 2^8: then the remainder's upper half is
    /// 0, as the quotient is, and nothing is left.
    fn halves(b: &mut LoopBuilder, amount: Expr) -> PseudoShift {
        let full = b.let_("full_shift", amount);
        let amount = b.let_("shift", full.clone().maximum(Expr::i32(0)).minimum(Expr::i32(15)));
        let mask = Expr::i32(1).shift_left(amount.clone()) - Expr::i32(1);
        let mask = Expr::i32(15).less(full).select(Expr::i32(0), mask);
        PseudoShift::new(b, amount, mask, 16)
    }

    fn new(b: &mut LoopBuilder, amount: Expr, mask: Expr, bits: u32) -> PseudoShift {
        assert_eq!(amount.ty, Scalar::I32, "amount");
        let half_amount = b.let_("half_shift", amount.clone().shr_unsigned(Expr::i32(1)));
        let low_mask = Expr::i32(1).shift_left(half_amount.clone()) - Expr::i32(1);
        PseudoShift {
            remainder_mask: b.let_("remainder_mask", mask),
            low_mask: b.let_("low_mask", low_mask),
            odd: b.let_("odd", amount.clone().and(Expr::i32(1))),
            amount,
            half_amount,
            bits,
        }
    }

    fn apply(&self, b: &mut LoopBuilder, x: Expr) -> Expr {
        let x = b.let_("value", x);
        // The smallest's magnitude is read as unsigned.
        let m = b.let_("magnitude", x.clone().maximum(x.clone().unary(Unary::Negate)));
        let p = b.let_("remainder", m.clone().and(self.remainder_mask.clone()));
        let q = p.clone().shr_unsigned(self.half_amount.clone());
        let r = p.and(self.low_mask.clone()).shift_left(self.odd.clone());
        // 1 if q exceeds r; both have at most half the bits.
        let up = (q - r).maximum(Expr::i32(0)).minimum(Expr::i32(1));
        let quotient = match self.bits {
            16 => m.shift_right(self.amount.clone()),
            _ => m.shr_unsigned(self.amount.clone()),
        };
        let quotient = b.let_("quotient", quotient + up);
        x.less(Expr::i32(0)).select(quotient.clone().unary(Unary::Negate), quotient)
    }
}

fn requantize(op: &Requantize, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let magnitudes = integer::magnitude_bits(&mut b, x, count);
    let excess = integer::bit_width(magnitudes) - Expr::i32(op.bits.into());
    let s = b.let_("s", excess.maximum(Expr::i32(0)));
    let exponent = b.input_exponent(0) + s.clone();
    b.set_output_exponent(0, exponent);
    let shift = PseudoShift::words(&mut b, s);
    b.for_("i", count, |b, i| {
        let x = b.load(x, i.clone());
        let q = shift.apply(b, x);
        b.store(y, i, integer::clamp(q, op.low.into(), 127));
    });
    b.finish()
}

/// [`dither::shift_right`](trainc_ir::numeric::dither::shift_right) as one shift of a sum: `x` and the uniform bits have 33 bits
/// together, which lanes that halve sums need not hold. They halve one even where nothing is shifted out, of `x` and itself then.
fn requantize_stochastic(
    op: &RequantizeStochastic,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, true);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let dither = DitherLoop::new(&mut b, op.stream);
    let magnitudes = integer::magnitude_bits(&mut b, x, count);
    let excess = integer::bit_width(magnitudes) - Expr::i32(7);
    let s = b.let_("s", excess.maximum(Expr::i32(0)));
    let exponent = b.input_exponent(0) + s.clone();
    b.set_output_exponent(0, exponent);
    let whole = b.let_("whole", s.clone().equal(Expr::i32(0)));
    let shift = b.let_("shift", s.maximum(Expr::i32(1)).minimum(Expr::i32(31)));
    let spread = b.let_("spread", Expr::i32(31) - shift.clone());
    b.for_("i", count, |b, i| {
        let x = b.load(x, i.clone());
        let bits = dither.bits(b, i.clone());
        let uniform = bits.shr_unsigned(Expr::i32(1)).shr_unsigned(spread.clone());
        let added = whole.clone().select(x.clone(), uniform);
        let sum = x.extend() + added.extend();
        let q = b.let_("q", sum.shift_right(shift.clone().extend()).truncate());
        b.store(y, i, integer::clamp(q, -127, 127));
    });
    b.finish()
}

/// In 32 bits where the shift is below 32: beyond, magnitudes of 32 bits and half a unit need more.
fn quantize_gradient(
    op: &QuantizeGradient,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, y, count) = (b.input(0), b.output(0), inputs[0].count());
    let magnitudes = integer::magnitude_bits(&mut b, x, count);
    let width = integer::bit_width(magnitudes).extend();
    let bits = b.load(b.input(1), Expr::i64(0)).extend();
    let s = b.let_("s", (width - bits).maximum(Expr::i64(0)));
    let exponent = b.input_exponent(0) + s.clone().truncate();
    b.set_output_exponent(0, exponent);
    let pass = |b: &mut LoopBuilder, shift: &dyn Fn(&mut LoopBuilder, Expr) -> Expr| {
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone());
            let q = shift(b, x);
            b.store(y, i, integer::clamp(q, -127, 127));
        });
    };
    b.if_else(
        s.clone().less(Expr::i64(32)),
        |b| {
            let amount = b.let_("amount", s.clone().minimum(Expr::i64(31)).truncate());
            if op.rounding == Rounding::PseudoStochastic {
                let shift = PseudoShift::words(b, amount);
                pass(b, &|b, x| shift.apply(b, x));
            } else {
                let shift = RightShift::run_time(b, amount, op.rounding);
                pass(b, &|b, x| shift.apply(b, x));
            }
        },
        |b| {
            let shift = RightShift::wide(b, s.clone(), op.rounding);
            pass(b, &|b, x| shift.apply(b, x));
        },
    );
    b.finish()
}

/// In 16 bits: which operand is shifted is decided outside of the loops.
fn aligned_add(inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let y = b.output(0);
    let [shape, own @ ..] = merged([&outputs[0].shape, &inputs[0].shape, &inputs[1].shape]);
    let e = [0, 1].map(|i| b.input_exponent(i));
    let e = [b.let_("e0", e[0].clone()), b.let_("e1", e[1].clone())];
    let larger = b.let_("larger", e[0].clone().maximum(e[1].clone()));
    let smaller = b.let_("smaller", e[0].clone().minimum(e[1].clone()));
    let distance = larger.clone().extend() - smaller.clone().extend();
    // From 16 on, nothing is left of the operand that is shifted.
    let distance = distance.maximum(Expr::i64(0)).minimum(Expr::i64(16)).truncate();
    let distance = b.let_("distance", distance);
    let doubles = b.let_("doubles", distance.clone().equal(Expr::i32(1)));
    let exponent = b.let_("exponent", doubles.clone().select(smaller, larger));
    let twice = b.let_("twice", doubles.clone().select(Expr::i32(1), Expr::i32(0)));
    let amount = doubles.select(Expr::i32(0), distance);
    let shift = PseudoShift::halves(&mut b, amount);
    let bits = b.local("magnitude_bits", Expr::i32(0));
    // The sums are computed twice: to see whether they fit, and to store them. `above` is the operand with the larger
    // exponent.
    let sum = |b: &mut LoopBuilder, above: usize, indices: &[Expr]| {
        let load =
            |b: &mut LoopBuilder, i: usize| b.load(b.input(i), broadcast_index(&own[i], indices));
        let (high, low) = (load(b, above), load(b, 1 - above));
        let low = shift.apply(b, low);
        b.let_("sum", high.shift_left(twice.clone()) + low)
    };
    let measure = |b: &mut LoopBuilder, above: usize| {
        b.for_shape("i", &shape, |b, indices| {
            let sum = sum(b, above, indices);
            let magnitude = sum.clone().maximum(sum.unary(Unary::Negate));
            let all = b.get(bits).or(magnitude);
            b.set(bits, all);
        });
    };
    let ordered = b.let_("ordered", e[1].clone().less(e[0].clone()));
    b.if_else(ordered.clone(), |b| measure(b, 0), |b| measure(b, 1));
    let exceeds = Expr::i32(127).less(b.get(bits));
    let last = b.let_("last", exceeds.select(Expr::i32(2), Expr::i32(0)));
    b.set_output_exponent(0, exponent + last.clone());
    let narrow = PseudoShift::halves(&mut b, last);
    let store = |b: &mut LoopBuilder, above: usize| {
        b.for_shape("i", &shape, |b, indices| {
            let sum = sum(b, above, indices);
            let q = narrow.apply(b, sum);
            b.store(y, flat_index(&shape, indices), integer::clamp(q, -127, 127));
        });
    };
    b.if_else(ordered, |b| store(b, 0), |b| store(b, 1));
    b.finish()
}

/// Shapes of as many dimensions as the first, which the others broadcast to; neighbouring ones that all operands go
/// through, or stay at, alike are one dimension: long loops fill vectors.
fn merged<const N: usize>(shapes: [&[usize]; N]) -> [Vec<usize>; N] {
    let rank = shapes[0].len();
    let dimension = |k: usize, d: usize| match (d + shapes[k].len()).checked_sub(rank) {
        Some(own) => shapes[k][own],
        None => 1,
    };
    let mut merged: [Vec<usize>; N] = std::array::from_fn(|_| Vec::new());
    let mut last: Option<[bool; N]> = None;
    for d in 0..rank {
        if dimension(0, d) == 1 {
            continue;
        }
        let varies: [bool; N] = std::array::from_fn(|k| dimension(k, d) != 1);
        for (k, own) in merged.iter_mut().enumerate() {
            match own.last_mut() {
                Some(size) if last == Some(varies) => *size *= dimension(k, d),
                _ => own.push(dimension(k, d)),
            }
        }
        last = Some(varies);
    }
    merged
}
