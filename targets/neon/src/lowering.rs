//! Loops of operations whose generic lowering fills no vectors, or wide ones only.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Expr, LoopKernel, Unary};
use trainc_ir::numeric::Rounding;
use trainc_ir::numeric::integer::{self, RightShift};
use trainc_ir::ops::{self, Alignment, MaxPool2dGradient, QuantizeGradient};
use trainc_ir::{Element, Op, TensorType};

/// Bytes that fill the smallest vector.
const LANES: usize = 8;

/// Bytes of a vector.
const VECTOR: usize = 16;

/// The loops of an operation, for vectors where there is a choice.
pub fn lower(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    let own = match op {
        Op::MaxPool2dGradient(op) => max_pool2d_gradient(op, inputs, outputs),
        Op::QuantizeGradient(op) => Some(quantize_gradient(op, inputs, outputs)),
        Op::AlignedAdd(_) => aligned_add(inputs, outputs, -127),
        Op::Chain(chain) if matches!(&chain.ops[..], [Op::AlignedAdd(_), Op::Relu(_)]) => {
            aligned_add(inputs, outputs, 0)
        }
        _ => ops::lower_in_halves(op, inputs, outputs, VECTOR),
    };
    own.unwrap_or_else(|| op.lower(inputs, outputs))
}

/// Windows of two columns that do not overlap: each element is asked whether it is the first maximum of its window,
/// instead of adding to the one that is.
fn max_pool2d_gradient(
    op: &MaxPool2dGradient,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let [x, dy] = [inputs[0], inputs[1]];
    let [height, width] = [x.shape[2], x.shape[3]];
    let [rows, columns] = [dy.shape[2], dy.shape[3]];
    let whole = rows * op.kernel[0] <= height && columns * op.kernel[1] <= width;
    let apart = op.kernel == op.strides && op.dilations == [1, 1] && op.pads == [0; 4];
    let fits = x.element == Element::I8
        && whole
        && apart
        && op.kernel[1] == 2
        && op.kernel[0] <= 4
        && columns >= LANES;
    if !fits {
        return None;
    }
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, dy, dx) = (b.input(0), b.input(1), b.output(0));
    let exponent = b.input_exponent(1);
    b.set_output_exponent(0, exponent);
    b.for_("plane", inputs[0].shape[0] * inputs[0].shape[1], |b, plane| {
        let x_plane = b.let_("x_plane", plane.clone() * Expr::index(height * width));
        let y_plane = b.let_("y_plane", plane * Expr::index(rows * columns));
        let zeros = |b: &mut LoopBuilder, row: Expr, from: usize| {
            let start = x_plane.clone() + row * Expr::index(width);
            b.for_range("rest", Expr::index(from), Expr::index(width), |b, column| {
                b.store(dx, start + column, Expr::i32(0));
            });
        };
        b.for_("oh", rows, |b, oh| {
            let top = oh.clone() * Expr::index(op.kernel[0]);
            b.for_("ow", columns, |b, ow| {
                let first = (x_plane.clone() + top.clone() * Expr::index(width))
                    + ow.clone() * Expr::i64(2);
                let places: Vec<Expr> = (0..op.kernel[0])
                    .flat_map(|kh| [0, 1].map(|kw| kh * width + kw))
                    .map(|offset| first.clone() + Expr::index(offset))
                    .collect();
                let load = |b: &mut LoopBuilder, place: &Expr| {
                    let value = b.load(x, place.clone());
                    b.let_("value", value)
                };
                let values: Vec<Expr> = places.iter().map(|place| load(b, place)).collect();
                let most = values.iter().cloned().reduce(Expr::maximum);
                let most = b.let_("most", most.unwrap_or(Expr::i32(0)));
                let at = y_plane.clone() + oh * Expr::index(columns) + ow;
                let error = b.load(dy, at);
                // As of a sum that is clamped.
                let error = b.let_("error", error.maximum(Expr::i32(-127)));
                let mut found: Option<Expr> = None;
                for (place, value) in places.into_iter().zip(values) {
                    let equal = value.equal(most.clone());
                    let wins = match &found {
                        None => equal.clone(),
                        Some(found) => equal.clone().and(found.clone().unary(Unary::Not)),
                    };
                    let wins = b.let_("wins", wins);
                    let any = match found {
                        None => wins.clone(),
                        Some(found) => found.or(equal),
                    };
                    found = Some(b.let_("found", any));
                    b.store(dx, place, wins.select(error.clone(), Expr::i32(0)));
                }
            });
            for row in 0..op.kernel[0] {
                zeros(b, top.clone() + Expr::index(row), columns * 2);
            }
        });
        b.for_range("row", Expr::index(rows * op.kernel[0]), Expr::index(height), |b, row| {
            zeros(b, row, 0);
        });
    });
    Some(b.finish())
}

/// Operands of one shape; results are `low` at least. Sums are kept in 16 bits, and what is shifted, and whether anything is, is asked
/// outside of the loops.
fn aligned_add(inputs: &[&TensorType], outputs: &[&TensorType], low: i32) -> Option<LoopKernel> {
    let [x, y] = [inputs[0], inputs[1]];
    if x.shape != y.shape {
        return None;
    }
    let count = x.count();
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let alignment = Alignment::new(&mut b);
    let ordered = alignment.ordered(&mut b);
    let Alignment { distance, doubles, exponent, .. } = alignment;
    let factor = b.let_("factor", doubles.select(Expr::i32(2), Expr::i32(1)));
    let sums = b.scratch("sums", Element::I16, count);
    let bits = b.local("magnitude_bits", Expr::i32(0));
    // The operand `above` has the larger exponent.
    let sum = |b: &mut LoopBuilder, above: usize, shift: Option<&RightShift>| {
        b.for_("i", count, |b, i| {
            let high = b.load(b.input(above), i.clone());
            let other = b.load(b.input(1 - above), i.clone());
            let sum = match shift {
                None => high * factor.clone() + other,
                Some(shift) => {
                    let shifted = shift.apply(b, other);
                    high + shifted
                }
            };
            let sum = b.let_("sum", sum);
            let all = b.get(bits).or(integer::magnitude(sum.clone()));
            b.set(bits, all);
            b.store(sums, i, sum);
        });
    };
    let either = |b: &mut LoopBuilder, shift: Option<&RightShift>| {
        b.if_else(ordered.clone(), |b| sum(b, 0, shift), |b| sum(b, 1, shift));
    };
    b.if_else(
        distance.clone().less(Expr::i64(2)),
        |b| either(b, None),
        |b| {
            // Magnitudes of 8 bits vanish from a shift of 16 on.
            let amount = b.let_("amount", distance.clone().minimum(Expr::i64(31)).truncate());
            let shift = RightShift::run_time(b, amount, Rounding::PseudoStochastic);
            either(b, Some(&shift));
        },
    );
    let exceeds = b.let_("exceeds", Expr::i32(127).less(b.get(bits)));
    let last = exceeds.clone().select(Expr::i32(2), Expr::i32(0));
    b.set_output_exponent(0, exponent + last);
    let results = |b: &mut LoopBuilder, result: &dyn Fn(&mut LoopBuilder, Expr) -> Expr| {
        b.for_("i", count, |b, i| {
            let sum = b.load(sums, i.clone());
            let q = result(b, sum);
            b.store(b.output(0), i, integer::clamp(q, low, 127));
        });
    };
    b.if_else(
        exceeds,
        |b| {
            results(b, &|b, sum| {
                // Sums are 384 at most; that magnitudes have 16 bits, loops of vectors are told so.
                let sum = b.let_("value", sum.maximum(Expr::i32(-384)));
                let magnitude = b.let_("magnitude", integer::magnitude(sum.clone()));
                // Of two bits that are shifted out, the upper exceeds the lower if it is set alone.
                let up = magnitude.clone().and(Expr::i32(3)).equal(Expr::i32(2));
                let quotient = magnitude.shift_right(Expr::i32(2)) + up.unary(Unary::BoolToInteger);
                let quotient = b.let_("quotient", quotient);
                let negative = sum.less(Expr::i32(0));
                negative.select(quotient.clone().unary(Unary::Negate), quotient)
            });
        },
        |b| results(b, &|_, sum| sum),
    );
    Some(b.finish())
}

/// As the operation lowers itself, but in 32 bits where the shift is below 32: beyond, magnitudes of 32 bits and half a
/// unit need more.
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
    let pass = |b: &mut LoopBuilder, shift: &RightShift| {
        b.for_("i", count, |b, i| {
            let x = b.load(x, i.clone());
            let q = shift.apply(b, x);
            b.store(y, i, integer::clamp(q, -127, 127));
        });
    };
    b.if_else(
        s.clone().less(Expr::i64(32)),
        |b| {
            let amount = b.let_("amount", s.clone().minimum(Expr::i64(31)).truncate());
            let shift = RightShift::run_time(b, amount, op.rounding);
            pass(b, &shift);
        },
        |b| {
            let shift = RightShift::wide(b, s.clone(), op.rounding);
            pass(b, &shift);
        },
    );
    b.finish()
}
