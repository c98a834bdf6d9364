//! Grids of integers that FP32 tensors are rounded to, as QONNX defines them.

use crate::keyword_enum;
use crate::loops::{Expr, Unary};
use crate::ops::{TypeError, rule};
use crate::types::{Shape, TensorType};

keyword_enum! {
    /// How a real number becomes an integer.
    pub enum Rounding {
        /// Nearest, ties to even (QONNX: ROUND, HALF_EVEN).
        HalfEven = "half_even",
        /// Nearest, ties away from zero.
        HalfUp = "half_up",
        /// Nearest, ties toward zero.
        HalfDown = "half_down",
        /// Away from zero.
        Up = "up",
        /// Toward zero.
        Down = "down",
        /// Toward plus infinity.
        Ceil = "ceil",
        /// Toward minus infinity.
        Floor = "floor",
    }
}

impl Rounding {
    /// Applies it, in FP32 throughout: the ties of `half_up` and `half_down` are those of `|x| + 0.5` and `|x| - 0.5`
    /// as FP32 rounds them.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Rounding::HalfEven => x.round_ties_even(),
            Rounding::HalfUp => sign(x) * (x.abs() + 0.5).floor(),
            Rounding::HalfDown => sign(x) * (x.abs() - 0.5).ceil(),
            Rounding::Up => sign(x) * x.abs().ceil(),
            Rounding::Down => {
                let (up, down) = (x.ceil(), x.floor());
                if x < 0.0 { up } else { down }
            }
            Rounding::Ceil => x.ceil(),
            Rounding::Floor => x.floor(),
        }
    }

    /// As [`Rounding::apply`]; `x` is used several times.
    pub(crate) fn expression(self, x: Expr) -> Expr {
        let zero = Expr::f32(0.0);
        let sign = |x: &Expr| {
            let negative = x.clone().less(zero.clone());
            let below = negative.select(Expr::f32(-1.0), zero.clone());
            zero.clone().less(x.clone()).select(Expr::f32(1.0), below)
        };
        let magnitude = |x: &Expr| x.clone().unary(Unary::FloatAbs);
        match self {
            Rounding::HalfEven => x.unary(Unary::RoundTiesEven),
            Rounding::HalfUp => sign(&x) * (magnitude(&x) + Expr::f32(0.5)).unary(Unary::Floor),
            Rounding::HalfDown => sign(&x) * (magnitude(&x) - Expr::f32(0.5)).unary(Unary::Ceil),
            Rounding::Up => sign(&x) * magnitude(&x).unary(Unary::Ceil),
            Rounding::Down => {
                let (up, down) = (x.clone().unary(Unary::Ceil), x.clone().unary(Unary::Floor));
                x.less(zero).select(up, down)
            }
            Rounding::Ceil => x.unary(Unary::Ceil),
            Rounding::Floor => x.unary(Unary::Floor),
        }
    }
}

/// 1, -1, or 0 for both zeros.
fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

/// Largest number of bits of a grid.
pub const MAX_BITS: u32 = 32;

/// Smallest and largest integer of a grid, in FP32 (from 25 bits on, as FP32 rounds them). A narrow grid lacks the
/// smallest integer if it is signed, else the largest.
pub fn grid_bounds(signed: bool, narrow: bool, bits: u32) -> [f32; 2] {
    let power = |exponent: u32| 2f32.powi(i32::try_from(exponent).unwrap_or(i32::MAX));
    let less = if narrow { 1.0 } else { 0.0 };
    match signed {
        true => {
            let half = power(bits.saturating_sub(1));
            [-half + less, half - 1.0]
        }
        false => [0.0, power(bits) - 1.0 - less],
    }
}

/// `min(max(y, low), high)` that keeps NaN and the sign of zero.
pub(crate) fn clamp(y: f32, [low, high]: [f32; 2]) -> f32 {
    let below = if high < y { high } else { y };
    if low > below { low } else { below }
}

/// As [`clamp`].
pub(crate) fn clamp_expression(y: Expr, bounds: [f32; 2]) -> Expr {
    let [low, high] = bounds.map(Expr::f32);
    low.maximum(high.minimum(y))
}

/// Checks the number of bits.
pub(crate) fn check_bits(name: &str, bits: u32) -> Result<(), TypeError> {
    rule::ensure((1..=MAX_BITS).contains(&bits), || {
        format!("{name}: a grid of {bits} bits, not 1 to {MAX_BITS}")
    })
}

/// Checks that operand 0 is stretched by no other.
pub(crate) fn check_operands(name: &str, inputs: &[&TensorType]) -> Result<(), TypeError> {
    rule::all_f32(name, inputs)?;
    let stretches =
        |shape: &Shape| inputs[0].shape.broadcast(shape) != Some(inputs[0].shape.clone());
    match inputs[1..].iter().find(|ty| stretches(&ty.shape)) {
        None => Ok(()),
        Some(ty) => {
            Err(TypeError::new(format!("{name}: {ty} does not broadcast to {}", inputs[0])))
        }
    }
}
