//! The second pass of a product: i32 sums to i8 by a run-time shift, four vectors at a time, or twice four where there are many.

use super::product::VECTOR;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Range, Register};

/// Most bits that a narrowing shift can take.
const NARROW: i32 = 15;
/// Fewest rounds that are worth a range: a loop of a number known ahead takes less code.
pub(super) const FEWEST: usize = 64;
/// Fewest rounds of twice four vectors.
const SEVERAL: usize = 8;

/// Requantises `vectors` vectors (a multiple of 4) of i32, to nearest with ties away from zero, into i8: of four
/// vectors, byte `4 l + i` of the result is lane `l` of vector `i`.
///
/// `int requantize(sums, bytes, magnitudes)`: the bitwise or of all magnitudes has b bits; the shift is
/// `max(0, b - bits)`, which is returned. Results are clamped to `low..=127`.
///
/// # Errors
/// Of the machine layer.
pub fn requantize(name: &str, vectors: usize, bits: u8, low: i8) -> Result<Function, MachineError> {
    requantize_to(name, vectors, bits, low, Order::Beside)
}

/// The order of the bytes of four vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Byte `4 l + i` is lane l of vector i.
    Beside,
    /// As the sums.
    Vectors,
    /// Two vectors and two vectors, byte `2 l + i` of each half lane l of vector i.
    Halves,
    /// As `Beside`, so many bytes of four vectors and so many of the next four in turn.
    Rows(usize),
}

/// As [`requantize`], the bytes in the order of the sums.
pub(crate) fn requantize_in_order(
    name: &str,
    vectors: usize,
    bits: u8,
    low: i8,
) -> Result<Function, MachineError> {
    requantize_to(name, vectors, bits, low, Order::Vectors)
}

/// As [`requantize`], the bytes in some order; by rows, eight vectors at a time.
pub(crate) fn requantize_to(
    name: &str,
    vectors: usize,
    bits: u8,
    low: i8,
    order: Order,
) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 3);
    b.purpose("Shifts sums right to nearest, ties away from zero, and packs them into bytes.");
    let (sums, bytes, magnitudes) = (b.parameter(0), b.parameter(1), b.parameter(2));
    let together = match order {
        Order::Rows(_) => 2,
        _ if (vectors / 4).is_multiple_of(2) && vectors / 8 >= SEVERAL => 2,
        _ => 1,
    };
    let fours = match vectors / 4 / together {
        few if few < FEWEST => Range::Whole(u32::try_from(few).unwrap_or(u32::MAX)),
        many => b.range(many, &["sums", "bytes", "magnitudes"]),
    };
    fours.move_on(&mut b, sums, 4 * together * VECTOR);
    fours.move_on(&mut b, bytes, together * VECTOR);
    let zeros = b.emit(Opcode::CountLeadingZeros, (magnitudes,));
    let excess = b.emit(Opcode::SubFromImmediate, (32 - i32::from(bits), zeros));
    let zero = b.zero();
    let shift = b.emit(Opcode::Max, (excess, zero));
    let low = b.constant(i32::from(low));
    let low = b.emit(Opcode::VsplatB, (low,));
    let memory = (b.object("sums"), b.object("bytes"));
    // A negative number less one, plus half a unit, shifted down, is the nearest with ties away; without a shift there is
    // nothing to round.
    let some = b.emit(Opcode::CompareGtImmediate, (shift, 0));
    let less = b.emit(Opcode::MuxImmediate, (some, -1, 0));
    let less = b.emit(Opcode::VsplatW, (less,));
    let narrow = b.constant(NARROW);
    let unit = match order {
        Order::Rows(bytes) => b.constant(-i32::try_from(bytes).unwrap_or(i32::MAX)),
        _ => zero,
    };
    let pass = Pass { sums, bytes, low, zero, unit, memory, order, together };
    let long = b.emit(Opcode::CompareGt, (shift, narrow));
    b.branch(
        long,
        |b| {
            let first = b.emit(Opcode::Sub, (shift, narrow));
            let sign = b.constant(31);
            fours.repeat(b, "128 sums by a long shift", |b| {
                pass.round(b, narrow, |b, x| {
                    let negative = b.emit(Opcode::VasrW, (x, sign));
                    let x = b.emit(Opcode::VaddWSaturate, (x, negative));
                    b.emit(Opcode::VasrW, (x, first))
                });
            });
        },
        |b| {
            let zeros = b.emit(Opcode::VsplatW, (zero,));
            fours.repeat(b, "128 sums", |b| {
                pass.round(b, shift, |b, x| {
                    let negative = b.emit(Opcode::VcompareGtW, (zeros, x));
                    b.emit_to(x, Opcode::VaddWIfQ, (negative, less));
                    x
                });
            });
        },
    );
    b.finish(Some(shift))
}

struct Pass {
    sums: Register,
    bytes: Register,
    low: Register,
    zero: Register,
    /// What goes in turn.
    unit: Register,
    memory: (Object, Object),
    order: Order,
    /// Fours of vectors of a round.
    together: usize,
}

impl Pass {
    fn round(
        &self,
        b: &mut Builder,
        shift: Register,
        adjust: impl Fn(&mut Builder, Register) -> Register,
    ) {
        let mut fours: Vec<Register> =
            (0..self.together).map(|_| self.four(b, shift, &adjust)).collect();
        for y in &mut fours {
            match self.order {
                Order::Beside | Order::Rows(_) => {}
                Order::Vectors => {
                    // Byte k of each word to quarter k.
                    for _ in 0..2 {
                        *y = b.emit(Opcode::VdealB, (*y,));
                    }
                }
                Order::Halves => *y = b.emit(Opcode::VdealH, (*y,)),
            }
        }
        if let (Order::Rows(_), &[even, odd]) = (self.order, &fours[..]) {
            let both = b.emit(Opcode::Vshuff, (odd, even, self.unit));
            fours = vec![both.low(), both.high()];
        }
        for y in fours {
            b.store(Opcode::StoreVNext, (self.bytes, 1, y), self.memory.1);
        }
    }

    /// The bytes of four vectors, side by side.
    fn four(
        &self,
        b: &mut Builder,
        shift: Register,
        adjust: &impl Fn(&mut Builder, Register) -> Register,
    ) -> Register {
        let x: Vec<Register> = (0..4)
            .map(|_| {
                let x = b.load(Opcode::LoadVNext, (self.sums, 1), self.memory.0);
                adjust(b, x)
            })
            .collect();
        let even = b.emit(Opcode::VasrWHRoundSaturate, (x[2], x[0], shift));
        let odd = b.emit(Opcode::VasrWHRoundSaturate, (x[3], x[1], shift));
        let y = b.emit(Opcode::VasrHBRoundSaturate, (odd, even, self.zero));
        b.emit(Opcode::VmaxB, (y, self.low))
    }
}
