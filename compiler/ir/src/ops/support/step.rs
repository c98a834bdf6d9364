//! The step of a weight in integers: a gradient times a learning rate, in units of what it updates.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Unary};
use crate::numeric::dither::{self, DitheredShift};
use crate::ops::{TypeError, rule};
use crate::types::{Element, Scale, TensorType};

/// Mantissa bits of the square root of 2: the border between rounding a logarithm down and up.
const SQRT2_MANTISSA: i32 = 0x35_04f3;
/// Largest magnitudes of shifts; beyond them nothing is left, or everything is at its limit.
const LIMIT: i64 = 62;

/// The exponent of the power of two nearest to a learning rate (in the logarithm); `None` unless it is positive, normal
/// and finite.
pub(crate) fn rate_exponent(rate: f32) -> Option<i32> {
    let bits = rate.to_bits() as i32;
    let up = (bits & 0x7f_ffff) > SQRT2_MANTISSA;
    (rate.is_normal() && rate > 0.0).then(|| (bits >> 23) - 127 + i32::from(up))
}

/// How a gradient of exponent `eg` becomes a step in units of `2^e`, at that rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Whether there is a rate.
    on: bool,
    /// Right shift if positive, left if negative.
    shift: i64,
    /// Largest magnitude of the result.
    limit: i32,
    /// Largest left shift.
    most: i64,
}

impl Step {
    pub(crate) fn new(eg: i32, e: i32, rate: f32, element: Element) -> Step {
        let exponent = rate_exponent(rate);
        let shift = i64::from(e) - i64::from(eg) - i64::from(exponent.unwrap_or(0));
        Step {
            on: exponent.is_some(),
            shift: shift.clamp(-LIMIT, LIMIT),
            limit: limit(element),
            most: most(element),
        }
    }

    /// The step of one element of the gradient.
    pub(crate) fn apply(&self, g: i32, bits: u32) -> i32 {
        let g = if self.on { g } else { 0 };
        if self.shift > 0 {
            return dither::shift_right(g, self.shift as u32, bits).clamp(-self.limit, self.limit);
        }
        let left = (-self.shift).min(self.most) as u32;
        let largest = self.limit >> left;
        g.clamp(-largest, largest) << left
    }
}

/// Largest magnitude of a symmetric integer element.
pub(crate) fn limit(element: Element) -> i32 {
    element.integer_range().map_or(0, |(_, high)| high as i32)
}

/// Largest left shift: one that leaves a magnitude of 1 inside the element.
fn most(element: Element) -> i64 {
    i64::from(element.bits()) - 2
}

/// [`Step`] in loops.
#[derive(Clone, Debug)]
pub(crate) struct StepLoop {
    mask: Expr,
    right: DitheredShift,
    left: Expr,
    /// Largest magnitude before a left shift.
    largest: Expr,
    limit: i32,
}

impl StepLoop {
    /// `eg`, `e` and the rate as loop values.
    pub(crate) fn new(
        b: &mut LoopBuilder,
        eg: Expr,
        e: Expr,
        rate: Expr,
        element: Element,
    ) -> StepLoop {
        let bits = b.let_("rate_bits", rate.unary(Unary::ToBits));
        let biased = b.let_("biased", bits.clone().shift_right(Expr::i32(23)));
        let mantissa = bits.and(Expr::i32(0x7f_ffff));
        let up = Expr::i32(SQRT2_MANTISSA).less(mantissa).unary(Unary::BoolToInteger);
        // A sign bit makes the biased exponent negative.
        let positive = Expr::i32(0).less(biased.clone()).and(biased.clone().less(Expr::i32(255)));
        let exponent = biased - Expr::i32(127) + up;
        let exponent = positive.clone().select(exponent, Expr::i32(0));
        let shift = e.extend() - eg.extend() - exponent.extend();
        let shift = shift.maximum(Expr::i64(-LIMIT)).minimum(Expr::i64(LIMIT)).truncate();
        let shift = b.let_("step_shift", shift);
        let mask = positive.select(Expr::i32(-1), Expr::i32(0));
        let mask = b.let_("step_mask", mask);
        let right = DitheredShift::new(b, shift.clone().maximum(Expr::i32(0)), true);
        let left =
            (Expr::i32(0) - shift).maximum(Expr::i32(0)).minimum(Expr::i32(most(element) as i32));
        let left = b.let_("left_shift", left);
        let limit = limit(element);
        // Sums shifted to the right are limited after the shift.
        let full = Expr::i32(limit).shift_right(left.clone());
        let largest = left.clone().equal(Expr::i32(0)).select(Expr::i32(i32::MAX), full);
        let largest = b.let_("largest", largest);
        StepLoop { mask, right, left, largest, limit }
    }

    /// [`Step::apply`].
    pub(crate) fn apply(&self, b: &mut LoopBuilder, g: Expr, bits: Expr) -> Expr {
        let g = b.let_("g", g.and(self.mask.clone()));
        let shifted = self.right.apply(b, g, bits);
        let low = Expr::i32(0) - self.largest.clone();
        let limited = b.let_("limited", shifted.maximum(low).minimum(self.largest.clone()));
        let step = limited.shift_left(self.left.clone());
        let step = step.maximum(Expr::i32(-self.limit)).minimum(Expr::i32(self.limit));
        b.let_("step", step)
    }
}

/// The types of what is updated, its gradient and the rate.
pub(crate) fn infer(
    name: &str,
    state: &TensorType,
    gradient: &TensorType,
    rate: &TensorType,
) -> Result<(), TypeError> {
    let elements = matches!(state.element, Element::I8 | Element::I16 | Element::I32);
    rule::ensure(elements && state.scale == Scale::Exponent, || {
        format!("{name} updates i8<2^e>, i16<2^e> or i32<2^e>, here {state}")
    })?;
    let sums = matches!(gradient.element, Element::I8 | Element::I32);
    rule::ensure(sums && gradient.scale == Scale::Exponent, || {
        format!("{name} takes a gradient i8<2^e> or i32<2^e>, here {gradient}")
    })?;
    rule::ensure(state.shape == gradient.shape, || {
        format!(
            "{name} takes a gradient of the shape of what it updates, here {state} and {gradient}"
        )
    })?;
    rule::ensure(rate.is_f32() && rate.shape.rank() == 0, || {
        format!("{name} takes the learning rate as an FP32 scalar, here {rate}")
    })
}
