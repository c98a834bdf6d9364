//! What is kept of a requantization between steps: FP32 numbers, `left`, `shift`, `period`, then the newest looks. A look is the
//! steps since the look before it, less than 0 if it found another shift than that one, 0 where there was none yet.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Unary};
use crate::ops::TypeError;
use crate::ops::rule::ensure;
use crate::types::TensorType;

/// Steps until the next look.
pub(crate) const LEFT: usize = 0;
/// Bits of the shift that was found last.
pub(crate) const SHIFT: usize = 1;
/// Steps from the last look to the next.
pub(crate) const PERIOD: usize = 2;
/// Where the looks begin.
pub(crate) const LOOKS: usize = 3;

/// Checks the type of a state.
pub(crate) fn check(name: &str, state: &TensorType) -> Result<(), TypeError> {
    let fits = state.is_f32() && state.shape.rank() == 1 && state.count() > LOOKS;
    ensure(fits, || {
        format!("{name}: the state is {LOOKS} numbers and some looks in f32, here {state}")
    })
}

/// Whether a step looks.
pub(crate) fn due(state: &[f32]) -> bool {
    state[LEFT] <= 0.0
}

/// The most that a width of `bits` is shifted by.
fn most(bits: u8) -> f32 {
    32.0 - f32::from(bits)
}

/// The shift of steps that do not look: between 0 and what a look can give, whatever the state holds.
pub(crate) fn kept(state: &[f32], bits: u8) -> u32 {
    let (shift, most) = (state[SHIFT], most(bits));
    let shift = if shift < most { shift } else { most };
    if 0.0 < state[SHIFT] { shift as u32 } else { 0 }
}

/// [`due`], in loops.
pub(crate) fn lower_due(b: &LoopBuilder, state: Buffer) -> Expr {
    b.load(state, Expr::index(LEFT)).less_equal(Expr::f32(0.0))
}

/// [`kept`], in loops.
pub(crate) fn lower_kept(b: &mut LoopBuilder, state: Buffer, bits: u8) -> Expr {
    let shift = b.load(state, Expr::index(SHIFT));
    let shift = b.let_("kept", shift);
    let most = || Expr::f32(most(bits));
    let least = shift.clone().less(most()).select(shift.clone(), most());
    Expr::f32(0.0).less(shift).select(least, Expr::f32(0.0)).unary(Unary::ToInteger)
}
