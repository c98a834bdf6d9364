//! Sums to bytes by a shift known ahead, while they are in registers: the end of a product with a static exponent.
//!
//! No sum goes to memory. Of four vectors of sums, byte `4 l + i` of the result is lane `l` of vector `i`, clamped to
//! -127..=127.

use trainc_ir::numeric::Rounding;

use super::interleave::{Short, ShortVectors};
use super::support::{Piece, weave};
use crate::machine::{Builder, Class, Opcode, Register};

/// Most products of a sum: with fewer, adding half a unit of any shift done in 16 bits stays within 32 bits.
const PRODUCTS: usize = 1 << 16;
/// Most bits that the narrowing shift takes.
const NARROW: i32 = 15;
/// Most bits of a pseudo-stochastically rounding shift, which compares all dropped bits.
const PSEUDO: u8 = 16;

/// A rounding right shift of sums of products of i8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticShift {
    /// Bits, below 32.
    pub amount: u8,
    /// Rounding.
    pub rounding: Rounding,
}

/// Vectors that a shift needs.
#[derive(Debug)]
pub(crate) enum Narrow {
    /// Rounding by what is added, or by the narrowing shift itself.
    Add {
        shift: StaticShift,
        /// Zero, and what is added to negative sums.
        negative: Option<[Register; 2]>,
        /// -127 in all bytes.
        lowest: Register,
    },
    /// Pseudo-stochastic rounding.
    Halves(ShortVectors),
}

/// The vectors and amounts in registers.
pub(crate) enum Ready {
    Add(Adding),
    Halves(Short),
}

/// Rounding by what is added.
pub(crate) struct Adding {
    negative: Option<[Register; 2]>,
    /// Of more than [`NARROW`] bits those that are shifted out first.
    first: Option<Register>,
    narrow: Opcode,
    rest: Register,
    zero: Register,
    lowest: Register,
}

impl StaticShift {
    /// Whether these kernels can shift sums of so many products: pseudo-stochastically by up to 16 bits, otherwise by any
    /// number.
    #[must_use]
    pub fn is_supported(&self, products: usize) -> bool {
        let amount = if self.rounding == Rounding::PseudoStochastic { PSEUDO } else { 31 };
        self.amount <= amount && products < PRODUCTS
    }

    /// Whether rounding compares the dropped bits' halves.
    pub(crate) fn compares_halves(&self) -> bool {
        self.rounding == Rounding::PseudoStochastic && self.amount > 0
    }

    /// The vectors, for sums of so many products at most.
    pub(crate) fn narrow(&self, b: &mut Builder, products: usize) -> Narrow {
        let amount = i32::from(self.amount);
        if self.compares_halves() {
            let bits = usize::BITS - products.saturating_mul(1 << 14).leading_zeros();
            return Narrow::Halves(ShortVectors::new(b, amount, bits));
        }
        // To nearest, ties away: a negative sum less one, and half a unit for all. Towards zero: all but a unit more.
        let more = match self.rounding {
            Rounding::HalfAway if amount > 0 => Some(-1),
            Rounding::Truncate if amount > 0 => Some(((1i64 << amount) - 1) as i32),
            _ => None,
        };
        let negative = more.map(|more| [0, more].map(|number| splat(b, Opcode::VsplatW, number)));
        let lowest = splat(b, Opcode::VsplatB, -127);
        Narrow::Add { shift: *self, negative, lowest }
    }
}

fn splat(b: &mut Builder, opcode: Opcode, number: i32) -> Register {
    let number = b.constant(number);
    b.emit(opcode, (number,))
}

impl Narrow {
    /// Amounts in registers, near their use: scalars are few where products are summed.
    pub(crate) fn ready(&self, b: &mut Builder) -> Ready {
        match self {
            Narrow::Halves(vectors) => Ready::Halves(vectors.short(b)),
            Narrow::Add { shift, negative, lowest } => {
                let amount = i32::from(shift.amount);
                let rounds = shift.rounding == Rounding::HalfAway && amount > 0;
                Ready::Add(Adding {
                    negative: *negative,
                    first: (amount > NARROW).then(|| b.constant(amount - NARROW)),
                    narrow: match rounds {
                        true => Opcode::VasrWHRoundSaturate,
                        false => Opcode::VasrWHSaturate,
                    },
                    rest: b.constant(amount.min(NARROW)),
                    zero: b.zero(),
                    lowest: *lowest,
                })
            }
        }
    }
}

impl Ready {
    /// Fours of vectors of sums, which may change, to bytes: three fours at a time, each at another stage.
    pub(crate) fn all(
        &self,
        b: &mut Builder,
        sums: impl Iterator<Item = [Register; 4]>,
        store: impl Fn(&mut Builder, Register),
    ) {
        let store = &store;
        let mut fours: Vec<[Vec<Piece<'_>>; 3]> = Vec::new();
        for four in sums {
            let (mut stages, y) = self.pieces(b, four);
            stages[2].push(Box::new(move |b| store(b, y)));
            fours.push(stages);
        }
        for time in 0..fours.len() + 2 {
            let mut at = |stage: usize| {
                let four = time.checked_sub(stage).and_then(|four| fours.get_mut(four));
                four.map(|four| std::mem::take(&mut four[stage])).unwrap_or_default()
            };
            let stages = [at(2), at(1), at(0)];
            weave(b, &stages);
        }
    }

    /// Four vectors of sums, piece by piece, in three stages.
    fn pieces(&self, b: &mut Builder, sums: [Register; 4]) -> ([Vec<Piece<'_>>; 3], Register) {
        let &Adding { negative, first, narrow, rest, zero, lowest } = match self {
            Ready::Halves(short) => return short.pieces(b, sums),
            Ready::Add(adding) => adding,
        };
        let mut begin: Vec<Piece<'_>> = Vec::new();
        if let Some([zeros, more]) = negative {
            for x in sums {
                let below = b.fresh(Class::Q);
                begin.push(Box::new(move |b| {
                    b.emit_to(below, Opcode::VcompareGtW, (zeros, x));
                    b.emit_to(x, Opcode::VaddWIfQ, (below, more));
                }));
            }
        }
        if let Some(first) = first {
            for x in sums {
                begin.push(Box::new(move |b| b.emit_to(x, Opcode::VasrW, (x, first))));
            }
        }
        let [even, odd, y] = [(); 3].map(|()| b.fresh(Class::V));
        let middle: Vec<Piece<'_>> = vec![
            Box::new(move |b| b.emit_to(even, narrow, (sums[2], sums[0], rest))),
            Box::new(move |b| b.emit_to(odd, narrow, (sums[3], sums[1], rest))),
        ];
        let end: Vec<Piece<'_>> = vec![
            Box::new(move |b| b.emit_to(y, Opcode::VasrHBSaturate, (odd, even, zero))),
            Box::new(move |b| b.emit_to(y, Opcode::VmaxB, (y, lowest))),
        ];
        ([begin, middle, end], y)
    }
}
