//! Sums to bytes by a shift known ahead, while they are in registers: the end of a product with a static exponent.
//!
//! No sum goes to memory. Of four vectors of sums, byte `4 l + i` of the result is lane `l` of vector `i`, clamped to
//! -127..=127.

use trainc_ir::numeric::Rounding;

use super::interleave::{Short, ShortVectors};
use crate::machine::{Builder, Opcode, Register};

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
    Add {
        negative: Option<[Register; 2]>,
        /// Of more than [`NARROW`] bits those that are shifted out first.
        first: Option<Register>,
        narrow: Opcode,
        rest: Register,
        zero: Register,
        lowest: Register,
    },
    Halves(Short),
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
                Ready::Add {
                    negative: *negative,
                    first: (amount > NARROW).then(|| b.constant(amount - NARROW)),
                    narrow: match rounds {
                        true => Opcode::VasrWHRoundSaturate,
                        false => Opcode::VasrWHSaturate,
                    },
                    rest: b.constant(amount.min(NARROW)),
                    zero: b.zero(),
                    lowest: *lowest,
                }
            }
        }
    }
}

impl Ready {
    /// Four vectors of sums, which may change, to bytes.
    pub(crate) fn bytes(&self, b: &mut Builder, sums: [Register; 4]) -> Register {
        let (negative, first, narrow, rest, zero, lowest) = match self {
            Ready::Halves(short) => return short.narrow(b, sums),
            Ready::Add { negative, first, narrow, rest, zero, lowest } => {
                (negative, first, narrow, rest, zero, lowest)
            }
        };
        for &x in &sums {
            if let &Some([zeros, more]) = negative {
                let below = b.emit(Opcode::VcompareGtW, (zeros, x));
                b.emit_to(x, Opcode::VaddWIfQ, (below, more));
            }
            if let &Some(first) = first {
                b.emit_to(x, Opcode::VasrW, (x, first));
            }
        }
        let even = b.emit(*narrow, (sums[2], sums[0], *rest));
        let odd = b.emit(*narrow, (sums[3], sums[1], *rest));
        let y = b.emit(Opcode::VasrHBSaturate, (odd, even, *zero));
        b.emit(Opcode::VmaxB, (y, *lowest))
    }
}
