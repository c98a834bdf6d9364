//! Loops of operations whose generic lowering leaves work to the scalar core that vectors can do.

use trainc_ir::loops::builder::{LoopBuilder, broadcast_index, flat_index};
use trainc_ir::loops::{Buffer, Expr, LoopKernel, Scalar, Unary};
use trainc_ir::numeric::Rounding;
use trainc_ir::numeric::dither::DitherLoop;
use trainc_ir::numeric::integer::{self, RightShift};
use trainc_ir::ops::{self, QuantizeGradient, ReduceSum, Requantize, RequantizeStochastic};
use trainc_ir::{Element, Op, TensorType};

use crate::{batch_norm, conversions, inverse_deviation, normalized_update, window_pools};

/// Bytes of a vector.
const VECTOR: usize = 128;

/// The loops of an operation on Hexagon.
pub fn lower(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    match op {
        Op::AlignedAdd(_) => aligned_add(inputs, outputs),
        Op::MaxPool2d(pool) => {
            window_pools::maxima(pool, inputs, outputs).unwrap_or_else(|| op.lower(inputs, outputs))
        }
        Op::MaxPool2dGradient(pool) => window_pools::gradient(pool, inputs, outputs)
            .unwrap_or_else(|| op.lower(inputs, outputs)),
        Op::ReduceSum(sum) => {
            reduce_sum(sum, inputs, outputs).unwrap_or_else(|| op.lower(inputs, outputs))
        }
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

/// In 16 bits: which operand is shifted is decided outside of the loops. An operand that short rows repeat is repeated in working
/// memory first, so that vectors go through several rows at once.
fn aligned_add(inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let y = b.output(0);
    let [mut shape, mut own @ ..] = merged([&outputs[0].shape, &inputs[0].shape, &inputs[1].shape]);
    let mut operands = [0, 1].map(|i| b.input(i));
    if let Some(rows) = [0, 1].iter().find_map(|&i| rows_together(&shape, &own[i])) {
        for dims in std::iter::once(&mut shape).chain(&mut own) {
            // All rows are one operand's, or none.
            let together = if dims[0] == 1 { 1 } else { rows };
            dims.splice(..1, [dims[0] / together, together]);
        }
    }
    for i in [0, 1] {
        if own[1 - i] == shape
            && let Some(block) = repeated_block(&shape, &own[i])
        {
            operands[i] = repeat(&mut b, operands[i], &shape[shape.len() - block..], &own[i]);
            let split = shape.len() - block;
            let [outside, inside] =
                [&shape[..split], &shape[split..]].map(|dims| dims.iter().product::<usize>());
            shape = if outside > 1 { vec![outside, inside] } else { vec![inside] };
            own = [shape.clone(), shape.clone()];
            if outside > 1 {
                own[i][0] = 1;
            }
        }
    }
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
            |b: &mut LoopBuilder, i: usize| b.load(operands[i], broadcast_index(&own[i], indices));
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

/// Positions of a row from which on it is worth vectors of its own, and the most bytes of working memory for repeated operands: of
/// all rows, and of some of those that are more.
const LONG: usize = 1024;
const MOST_REPEATED: usize = 1 << 16;
const MOST_TOGETHER: usize = 1 << 13;

/// Of an operand that is one row, which the rows of a large result repeat, how many of them are worth being together, whole vectors
/// if that can be: a divisor of their number. `None` of others.
fn rows_together(shape: &[usize], own: &[usize]) -> Option<usize> {
    let &[rows, inner] = shape else { return None };
    if own != [1, inner] || inner >= LONG || rows * inner <= MOST_REPEATED {
        return None;
    }
    let most = MOST_TOGETHER / inner;
    let fitting = (2..=most).filter(|together| rows.is_multiple_of(*together));
    fitting.max_by_key(|together| ((together * inner).is_multiple_of(VECTOR), *together))
}

/// The last dimensions of a shape in which an operand of own shape `own` is repeated so that rows become longer; `None` if that is
/// not worth it.
fn repeated_block(shape: &[usize], own: &[usize]) -> Option<usize> {
    let (rank, inner) = (shape.len(), *shape.last()?);
    let bytes = |block: usize| shape[rank - block..].iter().product::<usize>();
    let varies = own.iter().position(|&size| size != 1)?;
    let worth = own != shape && inner < LONG && bytes(rank) >= VECTOR;
    // All of the shape, or what an image or some rows have of it.
    let mut blocks = (rank - varies..=rank).rev().filter(|&block| worth && bytes(block) > inner);
    blocks.find(|&block| bytes(block) <= MOST_REPEATED)
}

/// A copy of an operand of own shape `own` with as many elements as the last dimensions of the result, `block`.
fn repeat(b: &mut LoopBuilder, operand: Buffer, block: &[usize], own: &[usize]) -> Buffer {
    let Some((&inner, rows)) = block.split_last() else { return operand };
    let count = block.iter().product::<usize>();
    let own = &own[own.len() - block.len()..];
    let one = own.last() == Some(&1);
    // Whole vectors of a number: the next row's write over what is too much.
    let columns = if one { inner.next_multiple_of(VECTOR) } else { inner };
    let copy = b.scratch("repeated", Element::I8, count + columns - inner);
    b.for_shape("row", rows, |b, indices| {
        let row = flat_index(rows, indices);
        let value = |column: Expr| {
            let mut indices = indices.to_vec();
            indices.push(column);
            broadcast_index(own, &indices)
        };
        let same = one.then(|| b.let_("same", b.load(operand, value(Expr::i64(0)))));
        b.for_("column", columns, |b, column| {
            let value = same.clone().unwrap_or_else(|| b.load(operand, value(column.clone())));
            b.store(copy, row * Expr::index(inner) + column, value);
        });
    });
    copy
}

/// Sums over positions, and images, of bytes whose planes fill no vectors: planes go to working memory with zeros behind each, whole
/// vectors. `None` of others.
fn reduce_sum(
    op: &ReduceSum,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let [images, channels, space @ ..] = inputs.first()?.shape.dims() else { return None };
    let rank = inputs[0].shape.rank();
    let positions: usize = space.iter().product();
    // Over the images, or of a single one.
    let over_space = op.axes.iter().copied().filter(|&axis| axis > 0).eq(2..rank);
    let over_images = op.axes.first() == Some(&0) || *images == 1;
    let pitch = positions.next_multiple_of(VECTOR);
    let planes = images * channels;
    let fits = (4..LONG).contains(&positions) && pitch > positions;
    let fits = fits && planes * pitch <= MOST_REPEATED && inputs[0].element == Element::I8;
    if !(over_space && over_images && fits) {
        return None;
    }
    // Planes of which as many bytes can be read as a row of working memory has.
    let readable = (planes * positions).checked_sub(pitch)? / positions + 1;
    if readable < planes / 2 {
        return None;
    }
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let exponent = b.input_exponent(0);
    b.set_output_exponent(0, exponent);
    let (x, y) = (b.input(0), b.output(0));
    let rows = b.scratch("rows", Element::I8, planes * pitch + pitch);
    let row = |b: &mut LoopBuilder, plane: Expr, columns: usize| {
        b.for_("column", columns, |b, column| {
            let from = plane.clone() * Expr::index(positions) + column.clone();
            let value = b.load(x, from);
            b.store(rows, plane.clone() * Expr::index(pitch) + column, value);
        });
        // What the next plane writes over is zero, too, where it is whole vectors.
        let zeros = if columns == pitch { VECTOR } else { pitch - positions };
        b.for_("column", zeros, |b, column| {
            let at = plane.clone() * Expr::index(pitch) + Expr::index(positions) + column;
            b.store(rows, at, Expr::i32(0));
        });
    };
    b.for_("plane", readable, |b, plane| row(b, plane, pitch));
    b.for_range("plane", Expr::index(readable), Expr::index(planes), |b, plane| {
        row(b, plane, positions);
    });
    b.for_("channel", *channels, |b, channel| {
        let sum = b.local("sum", Expr::i32(0));
        b.for_("image", *images, |b, image| {
            let first = (image * Expr::index(*channels) + channel.clone()) * Expr::index(pitch);
            b.for_("column", pitch, |b, column| {
                let value = b.load(rows, first.clone() + column);
                let added = b.get(sum) + value;
                b.set(sum, added);
            });
        });
        let sum = b.get(sum);
        b.store(y, channel, sum);
    });
    Some(b.finish())
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
