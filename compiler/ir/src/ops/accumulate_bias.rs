//! `accumulate_bias`. See [`AccumulateBias`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::{self, integer};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::support::walk::Walk;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// A bias added to the int32 sums of a product, before anything is rounded. Operands: sums `x` i32 with exponent
    /// `ex`, bias `b` i32 with exponent `eb`, NumPy broadcasting to the shape of `x`.
    ///
    /// The result's exponent is `e = max(ex, eb + w - 30)`, w the bit width of max |b|: that of the sums, unless the
    /// bias would not fit beside them. Sums are shifted right by `e - ex` (toward minus infinity), the bias by `e - eb`
    /// to either side (right: to nearest, half away from zero); both are added modulo 2^32. Shifts are at most 31,
    /// of the bias to the right at most 32.
    pub struct AccumulateBias = "accumulate_bias" {
    }
}

/// Bits of a bias beside sums: the sum of both cannot overflow while the sums have as many.
const BIAS_BITS: i32 = 30;

impl Operator for AccumulateBias {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, b] = rule::operands(Self::NAME, inputs)?;
        let sums = |ty: &TensorType| ty.element == Element::I32 && ty.scale == Scale::Exponent;
        rule::ensure(sums(x) && sums(b), || {
            format!("{} takes two i32<2^e>, here {x} and {b}", Self::NAME)
        })?;
        rule::ensure(x.shape.broadcast(&b.shape).as_ref() == Some(&x.shape), || {
            format!("{}: {b} does not broadcast to {x}", Self::NAME)
        })?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, b) = (inputs[0], inputs[1]);
        let (ex, eb) = (i64::from(x.exponent()), i64::from(b.exponent()));
        let largest = b.as_i32().iter().map(|b| b.unsigned_abs()).max().unwrap_or(0);
        let e = ex.max(eb + i64::from(numeric::bit_width(largest)) - i64::from(BIAS_BITS));
        let down = (e - ex).min(31) as u32;
        let align = |b: i32| match e - eb {
            d if d > 0 => {
                numeric::shift_right(b.into(), d.min(32) as u32, numeric::Rounding::HalfAway) as i32
            }
            d => b.wrapping_shl((-d).min(31) as u32),
        };
        let walk = Walk::broadcast(x.shape(), [x.shape().dims(), b.shape().dims()]);
        let (count, inner) = walk.inner();
        let (sums, bias) = (x.as_i32(), b.as_i32());
        let mut data = Vec::with_capacity(sums.len());
        walk.rows(|[i, j]| {
            data.extend((0..count).map(|n| {
                (sums[i + n * inner[0]] >> down).wrapping_add(align(bias[j + n * inner[1]]))
            }));
        });
        vec![Tensor::i32_shared(x.shape().clone(), data, e as i32)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, bias, y) = (b.input(0), b.input(1), b.output(0));
        let (ex, eb) = (b.input_exponent(0).extend(), b.input_exponent(1).extend());
        let (ex, eb) = (b.let_("ex", ex), b.let_("eb", eb));
        let bits = integer::magnitude_bits(&mut b, bias, inputs[1].count());
        let width = integer::bit_width(bits).extend();
        let e = ex.clone().maximum(eb.clone() + width - Expr::i64(BIAS_BITS.into()));
        let e = b.let_("e", e);
        b.set_output_exponent(0, e.clone().truncate());
        // Not below 0; vectors shift where that can be seen.
        let zero = Expr::i64(0);
        let down = (e.clone() - ex).maximum(zero.clone()).minimum(Expr::i64(31)).truncate();
        let down = b.let_("down", down);
        let distance = b.let_("distance", e - eb);
        let left = (zero.clone() - distance.clone()).maximum(zero.clone()).minimum(Expr::i64(31));
        let left = b.let_("left", left.truncate());
        // One bit less than the distance, then half a unit and the last bit.
        let right = distance.clone().maximum(zero).minimum(Expr::i64(32)).truncate();
        let right = b.let_("right", right);
        let rounds = b.let_("rounds", right.clone().minimum(Expr::i32(1)));
        let first = b.let_("first", right - rounds.clone());
        let walk = Walk::broadcast(
            &outputs[0].shape,
            [inputs[0].shape.dims(), inputs[1].shape.dims(), outputs[0].shape.dims()],
        );
        walk.lower(&mut b, "i", |b, [i, j, k]| {
            let bias = b.load(bias, j);
            let bias = b.let_("bias", bias);
            let negative = b.let_("negative", bias.clone().less(Expr::i32(0)));
            let m = b.let_("m", integer::magnitude(bias));
            let m = b.let_("shifted", m.shr_unsigned(first).shift_left(left));
            let m = (m + rounds.clone()).shr_unsigned(rounds);
            let m = b.let_("aligned", m);
            let aligned = negative.select(m.clone().unary(crate::loops::Unary::Negate), m);
            b.store(y, k, b.load(x, i).shift_right(down) + aligned);
        });
        b.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let op = AccumulateBias {};
        let shared = |shape: &[usize], x: &[i32], e: i32| Tensor::i32_shared(shape, x.to_vec(), e);
        let case = |x: Tensor, b: Tensor, y: Tensor| Case::new(op.clone(), vec![x, b], vec![y]);
        let mut cases = vec![
            // The bias is shifted right by 4: 8 / 16 rounds to 1, 7 / 16 to 0, -24 / 16 to -2.
            case(
                shared(&[1, 3, 2], &[10, 20, 30, 40, 50, 60], -6),
                shared(&[1, 3, 1], &[8, 7, -24], -10),
                shared(&[1, 3, 2], &[11, 21, 30, 40, 48, 58], -6),
            ),
            // Left by 2.
            case(shared(&[2], &[1, -1], -8), shared(&[1], &[3], -6), shared(&[2], &[13, 11], -8)),
            // One exponent; no shift.
            case(shared(&[2], &[5, 6], 3), shared(&[2], &[-7, 8], 3), shared(&[2], &[-2, 14], 3)),
            // 2^20 at exponent 0 beside sums at exponent -40: e = 0 + 21 - 30 = -9; sums by 31.
            case(
                shared(&[2], &[i32::MAX, -1], -40),
                shared(&[1], &[1 << 20], 0),
                shared(&[2], &[1 << 29, (1 << 29) - 1], -9),
            ),
            // A bias far below the sums' unit vanishes; half a unit does not.
            case(
                shared(&[3], &[1, 2, 3], 0),
                shared(&[3], &[i32::MIN, i32::MAX, 1 << 29], -32),
                shared(&[3], &[0, 2, 3], 0),
            ),
            case(shared(&[2], &[9, -9], 5), shared(&[1], &[0], -24), shared(&[2], &[9, -9], 5)),
        ];
        // Biases to the left beside sums that stay, a plane of an even number of elements.
        cases.push(Case::shape_only(op.clone(), vec![
            sample::shared([2, 3, 2, 4], Element::I32, 1, -8),
            shared(&[3, 1, 1], &[1000, -1, -999], -6),
        ]));
        for (ex, eb) in [(-15, -24), (-24, -24), (-30, -24), (-60, -24), (10, -24), (i32::MAX, i32::MIN)] {
            let x = sample::shared([2, 3, 3, 3], Element::I32, 1, ex);
            let b = sample::shared([3, 1, 1], Element::I32, 2, eb);
            cases.push(Case::shape_only(op.clone(), vec![x, b]));
        }
        cases
    }
}
