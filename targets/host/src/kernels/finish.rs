//! How sums become bytes: by which shift, and rounded how.

use super::numbers::draw;
use super::path::{active_path, on_features};
use super::requantize::{ELEMENT, LINE, half_away, pseudo_stochastic, stochastic};
use super::threads;

/// How far sums are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// So that the largest has so many bits, at most.
    Sums(u8),
    /// Likewise in steps for which the further operand, a state, says so, and else by the shift that it keeps.
    Kept(u8),
    /// So that the largest has as many bits as the further operand says.
    Given,
    /// By so many bits.
    Shift(u8),
}

/// Which of its neighbours a quotient becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// The nearest, halves away from zero.
    HalfAway,
    /// By the discarded bits themselves, as NITI rounds.
    PseudoStochastic,
    /// By chance: the random stream's draws.
    Stochastic {
        /// Random stream.
        stream: u32,
    },
}

/// How sums become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish {
    /// How far they are shifted.
    pub width: Width,
    /// How they are rounded.
    pub rounding: Rounding,
    /// The lower clamp.
    pub low: i8,
}

/// What a width is asked of beside the sums.
#[derive(Clone, Copy)]
pub(super) enum Further<'a> {
    /// Nothing.
    None,
    /// The state of a shift that is kept.
    State(&'a [f32]),
    /// Bits.
    Bits(i32),
}

/// What brings sums to bytes in one step: the amount is known, the key drawn.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    pub(super) shift: i64,
    rounding: Rounding,
    low: i8,
    /// Of the step's draws.
    key: u32,
}

impl Finish {
    /// Whether the shift depends on the sums' largest magnitude.
    #[must_use]
    pub const fn asks_magnitude(&self) -> bool {
        !matches!(self.width, Width::Shift(_))
    }

    /// The shift for sums of that largest magnitude, which constant shifts and kept ones do not ask for; `run` gives seed and step, which
    /// nothing asks for but what rounds by chance.
    pub(super) fn narrow(
        &self,
        largest: impl Fn() -> u32,
        further: Further<'_>,
        run: impl Fn() -> [u32; 3],
    ) -> Narrow {
        let width = |magnitude: u32| i64::from(32 - magnitude.leading_zeros());
        let above = |bits: u8| (width(largest()) - i64::from(bits)).max(0);
        let shift = match (self.width, further) {
            (Width::Sums(bits), _) => above(bits),
            (Width::Kept(bits), Further::State(state)) => {
                kept_shift(state, bits).map_or_else(|| above(bits), i64::from)
            }
            (Width::Kept(bits), _) => above(bits),
            (Width::Given, Further::Bits(bits)) => (width(largest()) - i64::from(bits)).max(0),
            (Width::Given, _) => width(largest()),
            (Width::Shift(amount), _) => amount.into(),
        };
        let key = match self.rounding {
            Rounding::Stochastic { stream } => draw(&run(), stream, 0),
            _ => 0,
        };
        Narrow { shift, rounding: self.rounding, low: self.low, key }
    }
}

impl Narrow {
    /// As [`Self::round`], by this thread alone.
    pub(super) fn round_here(&self, sums: &[i32], first: usize, out: &mut [i8]) {
        assert_eq!(sums.len(), out.len(), "as many sums as bytes");
        let narrow = self;
        on_features!(
            active_path(),
            bytes(narrow: &Narrow, sums: &[i32], first: usize, out: &mut [i8])
        );
    }

    /// The bytes of sums, of which the first is number `start` of its tensor.
    pub(super) fn round(&self, sums: &[i32], start: usize, out: &mut [i8]) {
        assert_eq!(sums.len(), out.len(), "as many sums as bytes");
        threads::fill(out, LINE, ELEMENT * sums.len(), &|line, out| {
            let (narrow, first) = (self, start + line * LINE);
            let sums = &sums[line * LINE..][..out.len()];
            on_features!(
                active_path(),
                bytes(narrow: &Narrow, sums: &[i32], first: usize, out: &mut [i8])
            );
        });
    }
}

/// The bytes of sums, of which the first is number `first` of its tensor.
#[inline(always)]
pub(super) fn bytes(narrow: &Narrow, sums: &[i32], first: usize, out: &mut [i8]) {
    let low = narrow.low;
    match (narrow.rounding, u32::try_from(narrow.shift)) {
        (Rounding::HalfAway, Ok(shift)) => return half_away(sums, shift, low, out),
        (Rounding::PseudoStochastic, Ok(shift)) if shift <= 32 => {
            pseudo_stochastic(sums, shift, out);
        }
        (Rounding::Stochastic { .. }, Ok(shift)) => {
            stochastic(sums, shift, narrow.key.wrapping_add(first as u32), out);
        }
        // A shift beyond the width: a negative number of bits was asked for.
        _ => {
            let shift = narrow.shift.clamp(0, u32::MAX.into()) as u32;
            out.iter_mut().zip(sums).for_each(|(q, &x)| *q = shift_beyond(x, shift));
        }
    }
    if low > -127 {
        out.iter_mut().for_each(|q| *q = (*q).max(low));
    }
}

/// The shift of a state's steps that do not look for one; see the IR's `requantize_adaptive`, which a test compares it with.
pub(crate) fn kept_shift(state: &[f32], bits: u8) -> Option<u32> {
    let &[left, shift, ..] = state else { return None };
    if left <= 0.0 {
        return None;
    }
    let most = 32.0 - f32::from(bits);
    let least = if shift < most { shift } else { most };
    Some(if 0.0 < shift { least as u32 } else { 0 })
}

/// A pseudo-stochastic shift by more than 32 bits, which leaves nothing but what is rounded up.
pub(crate) fn shift_beyond(x: i32, shift: u32) -> i8 {
    if shift >= 128 {
        return 0;
    }
    let (discarded, half) = (u64::from(x.unsigned_abs()), shift / 2);
    let random = (discarded & ((1 << half) - 1)) << (shift % 2);
    let up = i8::from(discarded >> half > random);
    if x < 0 { -up } else { up }
}
