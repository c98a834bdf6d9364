//! The second pass of a weight gradient: i32 sums to i8 with pseudo-stochastic rounding, and taps side by side.
//!
//! With magnitude m, shift s, h = s >> 1 and w = s - h, pseudo-stochastic rounding adds 1 to `m >> s` if the upper half of
//! the dropped bits, q, exceeds the lower half, r (doubled if s is odd; then r'). As `m >> h` is `(m >> s) << w | q`, that
//! is `((m >> h) - r' + 2^w - 1) >> w`, which is `-((r' - (m >> h)) >> w)`: no comparison, and 16 bits hold it.

use super::kernel::DataObject;
use super::product::{LANES, VECTOR};
use super::support::loop_over;
use super::weight_gradient::{ROWS, WeightGradient, word};
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Longest shift of the 16-bit form, and most bits that it keeps.
const SHORT: i32 = 16;
const SHORT_BITS: i32 = 7;

/// What rounding needs besides the sums.
struct Rounding {
    /// What the exponent grows by: the shift, however long.
    exponent: Register,
    /// The shift as far as it matters, its half rounded down, and what that leaves.
    shift: Register,
    half: Register,
    rest: Register,
    odd: Register,
    /// Masks of the dropped bits and of the lower half of them.
    remainder: Register,
    low: Register,
    zero: Register,
    /// Whether the 16-bit form will do.
    short: Register,
}

/// Constants of the 16-bit form.
struct Short {
    half: Register,
    rest: Register,
    low_mask: Register,
    /// 1, or 2 if the shift is odd, in each byte.
    scale: Register,
    zeros: Register,
    minus_one: Register,
    /// -127 in all bytes.
    lowest: Register,
}

/// Constants of the 32-bit form, for any shift.
struct Long {
    remainder_mask: Register,
    low_mask: Register,
    one: Register,
    zeros: Register,
    lowest: Register,
    shift: Register,
    /// 1 if the shift is 32 or more, for the rest of it.
    beyond: Register,
    half: Register,
    odd: Register,
    zero: Register,
}

impl Rounding {
    /// From the bitwise or of all magnitudes and the address of the number of bits.
    fn new(b: &mut Builder, magnitudes: Register, bits: Register) -> Self {
        let object = b.object("bits");
        let bits = b.load(Opcode::LoadW, (bits, 0), object);
        let zero = b.zero();
        let leading = b.emit(Opcode::CountLeadingZeros, (magnitudes,));
        let width = b.emit(Opcode::SubFromImmediate, (32, leading));
        let exponent = b.emit(Opcode::Sub, (width, bits));
        let none = b.emit(Opcode::CompareGt, (bits, width));
        let exponent = b.emit(Opcode::Mux, (none, zero, exponent));
        // For rounding, shifts of more than 64 are alike.
        let floor = b.constant(-64);
        let bits = b.emit(Opcode::Max, (bits, floor));
        let excess = b.emit(Opcode::SubSaturate, (width, bits));
        let shift = b.emit(Opcode::Max, (excess, zero));
        let half = b.emit(Opcode::LogicalRightImmediate, (shift, 1));
        let rest = b.emit(Opcode::Sub, (shift, half));
        let odd = b.emit(Opcode::AndImmediate, (shift, 1));
        // Masks of 64 bits by a shift, of which the low word counts.
        let ones = b.emit(Opcode::CombineImmediate, (-1, -1));
        let mask = |b: &mut Builder, amount: Register| {
            let above = b.emit(Opcode::ShiftLeftD, (ones, amount));
            let minus_one = b.constant(-1);
            b.emit(Opcode::Xor, (above.low(), minus_one))
        };
        let remainder = mask(b, shift);
        // For shifts of 64 and more the upper half of the remainder holds no bit.
        let far = b.emit(Opcode::CompareGtImmediate, (shift, 63));
        let remainder = b.emit(Opcode::Mux, (far, zero, remainder));
        let low = mask(b, half);
        // 1 <= shift <= 16, and the bits that are left at most 7.
        let left = b.emit(Opcode::Sub, (width, shift));
        let some = b.emit(Opcode::CompareGtImmediate, (shift, 0));
        let many = b.emit(Opcode::CompareGtImmediate, (shift, SHORT));
        let wide = b.emit(Opcode::CompareGtImmediate, (left, SHORT_BITS));
        let long = b.emit(Opcode::PredicateOr, (many, wide));
        let fits = b.emit(Opcode::PredicateNot, (long,));
        let short = b.emit(Opcode::PredicateAnd, (some, fits));
        Self { exponent, shift, half, rest, odd, remainder, low, zero, short }
    }
}

impl Short {
    fn new(b: &mut Builder, rounding: &Rounding) -> Self {
        let one = b.constant(1);
        let scale = b.emit(Opcode::Add, (one, rounding.odd));
        let (lowest, minus_one) = (b.constant(-127), b.constant(-1));
        Self {
            half: rounding.half,
            rest: rounding.rest,
            low_mask: b.emit(Opcode::VsplatH, (rounding.low,)),
            scale: b.emit(Opcode::SplatB, (scale,)),
            zeros: b.emit(Opcode::VsplatW, (rounding.zero,)),
            minus_one: b.emit(Opcode::VsplatW, (minus_one,)),
            lowest: b.emit(Opcode::VsplatB, (lowest,)),
        }
    }

    /// Four vectors of sums to bytes: byte `4 l + i` is lane `l` of vector `i`.
    fn bytes(&self, b: &mut Builder, load: impl Fn(&mut Builder) -> Register) -> Register {
        let x: [Register; 4] = std::array::from_fn(|_| load(b));
        // Vectors 0 and 2, then 1 and 3, so that the last step puts all four in order.
        let halves = [(2, 0), (3, 1)].map(|(odd, even)| {
            let m_odd = b.emit(Opcode::VabsW, (x[odd],));
            let m_even = b.emit(Opcode::VabsW, (x[even],));
            let sign = b.emit(Opcode::VshuffoH, (x[odd], x[even]));
            let upper = b.emit(Opcode::VasrWH, (m_odd, m_even, self.half));
            let lower = b.emit(Opcode::VshuffeH, (m_odd, m_even));
            let lower = b.emit(Opcode::Vand, (lower, self.low_mask));
            let lower = b.emit(Opcode::VmpyiHB, (lower, self.scale));
            let difference = b.emit(Opcode::VsubH, (lower, upper));
            (b.emit(Opcode::VasrH, (difference, self.rest)), sign)
        });
        let negated = b.emit(Opcode::VshuffeB, (halves[1].0, halves[0].0));
        let negated = b.emit(Opcode::VmaxB, (negated, self.lowest));
        let signs = b.emit(Opcode::VshuffoB, (halves[1].1, halves[0].1));
        let signs = b.emit(Opcode::VminB, (signs, self.zeros));
        let signs = b.emit(Opcode::VmaxB, (signs, self.minus_one));
        // The negated quotient n: -1 - (n ^ -1) = n for negative sums, 0 - (n ^ 0) = -n for others.
        let turned = b.emit(Opcode::Vxor, (negated, signs));
        b.emit(Opcode::VsubB, (signs, turned))
    }
}

impl Long {
    fn new(b: &mut Builder, rounding: &Rounding) -> Self {
        let limit = b.constant(31);
        let beyond = b.emit(Opcode::CompareGtImmediate, (rounding.shift, 31));
        let (one, lowest) = (b.constant(1), b.constant(-127));
        Self {
            remainder_mask: b.emit(Opcode::VsplatW, (rounding.remainder,)),
            low_mask: b.emit(Opcode::VsplatW, (rounding.low,)),
            one: b.emit(Opcode::VsplatW, (one,)),
            zeros: b.emit(Opcode::VsplatW, (rounding.zero,)),
            lowest: b.emit(Opcode::VsplatB, (lowest,)),
            shift: b.emit(Opcode::Min, (rounding.shift, limit)),
            beyond: b.emit(Opcode::MuxImmediate, (beyond, 1, 0)),
            half: b.emit(Opcode::Min, (rounding.half, limit)),
            odd: rounding.odd,
            zero: rounding.zero,
        }
    }

    /// Four vectors of sums to bytes: byte `4 l + i` is lane `l` of vector `i`.
    fn bytes(&self, b: &mut Builder, load: impl Fn(&mut Builder) -> Register) -> Register {
        let quotients: [Register; 4] = std::array::from_fn(|_| {
            let x = load(b);
            let m = b.emit(Opcode::VabsW, (x,));
            let p = b.emit(Opcode::Vand, (m, self.remainder_mask));
            let q = b.emit(Opcode::VlsrW, (p, self.half));
            let r = b.emit(Opcode::Vand, (p, self.low_mask));
            let r = b.emit(Opcode::VaslW, (r, self.odd));
            let up = b.emit(Opcode::VcompareGtUw, (q, r));
            let quotient = b.emit(Opcode::VlsrW, (m, self.shift));
            let quotient = b.emit(Opcode::VlsrW, (quotient, self.beyond));
            b.emit_to(quotient, Opcode::VaddWIfQ, (up, self.one));
            // 2^31 without a shift stays what it is: its own opposite, which saturates to the negative limit.
            let negative = b.emit(Opcode::VcompareGtW, (self.zeros, x));
            let opposite = b.emit(Opcode::VsubW, (self.zeros, quotient));
            b.emit(Opcode::Vmux, (negative, opposite, quotient))
        });
        let even = b.emit(Opcode::VsatWH, (quotients[2], quotients[0]));
        let odd = b.emit(Opcode::VsatWH, (quotients[3], quotients[1]));
        let y = b.emit(Opcode::VasrHBRoundSaturate, (odd, even, self.zero));
        b.emit(Opcode::VmaxB, (y, self.lowest))
    }
}

/// `int quantize(sums, bytes, magnitudes, bits)`: a multiple of 4 of vectors, in order; `bits` is the address of the number
/// of bits. Byte `4 l + i` of a result is lane `l` of the i-th of its four vectors. Returns the shift.
///
/// The second function has the same parameters: the first calls it for shifts that 16 bits cannot do.
///
/// # Errors
/// Of the machine layer.
pub fn quantize_gradient(name: &str, vectors: usize) -> Result<[Function; 2], MachineError> {
    let long_name = format!("{name}_long");
    let form = |name: &str, is_long: bool| {
        let mut b = Builder::new(name, 4);
        let (sums, bytes) = (b.parameter(0), b.parameter(1));
        let (magnitudes, bits) = (b.parameter(2), b.parameter(3));
        let memory = (b.object("sums"), b.object("bytes"));
        let rounding = Rounding::new(&mut b, magnitudes, bits);
        let load = |b: &mut Builder| b.load(Opcode::LoadVNext, (sums, 1), memory.0);
        if is_long {
            b.purpose("Shifts sums right with pseudo-stochastic rounding, by any shift.");
            let long = Long::new(&mut b, &rounding);
            loop_over(&mut b, vectors / 4, "128 sums", |b| {
                let y = long.bytes(b, load);
                b.store(Opcode::StoreVNext, (bytes, 1, y), memory.1);
            });
        } else {
            b.purpose(
                "Shifts sums right with pseudo-stochastic rounding and packs them into bytes.",
            );
            b.branch(
                rounding.short,
                |b| {
                    let short = Short::new(b, &rounding);
                    loop_over(b, vectors / 4, "128 sums in 16 bits", |b| {
                        let y = short.bytes(b, load);
                        b.store(Opcode::StoreVNext, (bytes, 1, y), memory.1);
                    });
                },
                |b| {
                    b.call(&long_name, &[sums, bytes, magnitudes, bits]);
                },
            );
        }
        b.finish(Some(rounding.exponent))
    };
    Ok([form(name, false)?, form(&long_name, true)?])
}

impl WeightGradient {
    /// Masks for [`Self::interleave`]: bytes whose place modulo the taps has bit 0, 1, 2, 3; then those of the second of
    /// two features that lie in the first 64 bytes and the other way round.
    pub(crate) fn place_table(&self, symbol: &str) -> DataObject {
        let taps = self.taps();
        let mut bytes: Vec<u8> = Vec::new();
        for bit in 0..4 {
            bytes.extend((0..VECTOR).map(|place| u8::from(((place % taps) >> bit) & 1 == 1)));
        }
        // With 64 channels, `place` holds channel c and feature f with `taps (64 f + c) = place` modulo 128; before that
        // it holds the byte of place modulo 64 of the feature in its half.
        let swapped = |place: usize| {
            let both = (0..VECTOR).find(|n| n * taps % VECTOR == place).unwrap_or(0);
            if both / 64 == place / 64 { 0 } else { 0xff }
        };
        bytes.extend((0..VECTOR).map(swapped));
        let words = bytes.chunks_exact(4);
        let words = words.map(|w| i32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        DataObject { symbol: symbol.into(), words }
    }

    /// `void interleave(bytes, dw)`.
    pub(crate) fn interleave(&self, name: &str, table: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts taps side by side.");
        let (bytes, dw) = (b.parameter(0), b.parameter(1));
        let (taps, block) = (self.taps(), self.block());
        let object = b.object("places");
        let places = b.address(table, 0);
        let masks: Vec<Register> =
            (0..5).map(|i| b.load(Opcode::LoadV, (places, i), object)).collect();
        let ones = b.constant(0x0101_0101);
        // A row is 128 channels of a feature, or 64 of two.
        let rows = ROWS * block / 4;
        let step = b.constant(word(rows * VECTOR));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        let half = b.constant(64);
        let memory = (b.object("bytes"), b.object("dw"));
        let places = masks[..4].iter().map(|&mask| b.emit(Opcode::QandVR, (mask, ones))).collect();
        let order = Order { taps, block, places, swapped: masks[4], step, half, memory };
        let row_bytes = match block {
            4 => taps * self.channels,
            _ => taps * VECTOR,
        };
        loop_over(&mut b, self.feature_quads(), "quads of features", |b| {
            let column = b.copy(dw);
            loop_over(b, self.blocks(), "blocks of channels", |b| {
                let to = b.copy(column);
                loop_over(b, rows, "128 channels of all taps", |b| {
                    order.row(b, bytes, to);
                    b.emit_to(bytes, Opcode::AddImmediate, (bytes, word(VECTOR)));
                    b.emit_to(to, Opcode::AddImmediate, (to, word(row_bytes)));
                });
                let rest = (taps - 1) * rows * VECTOR;
                b.emit_to(bytes, Opcode::AddImmediate, (bytes, word(rest)));
                b.emit_to(column, Opcode::AddImmediate, (column, word(taps * VECTOR)));
            });
            b.emit_to(dw, Opcode::AddImmediate, (dw, word(ROWS * self.channels * taps)));
        });
        b.finish(None)
    }

    /// `void scatter(bytes, dw)`: byte by byte.
    pub(crate) fn scatter(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts taps side by side, byte by byte.");
        let (bytes, dw) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("bytes"), b.object("dw"));
        let (taps, block) = (self.taps(), self.block());
        let tap_bytes = ROWS * block * LANES;
        let lane = |b: &mut Builder, from: Register| {
            let tap = b.copy(from);
            loop_over(b, taps, "taps", |b| {
                let y = b.load(Opcode::LoadB, (tap, 0), memory.0);
                b.store(Opcode::StoreBNext, (dw, 1, y), memory.1);
                b.emit_to(tap, Opcode::AddImmediate, (tap, word(tap_bytes)));
            });
        };
        let quad = |b: &mut Builder, features: usize| {
            for feature in 0..features {
                for vector in 0..self.channels.div_ceil(LANES) {
                    let (column, i) = (vector / block, vector % block);
                    let index = feature * block + i;
                    let offset = column * taps * tap_bytes + index / 4 * VECTOR + index % 4;
                    let from = b.emit(Opcode::AddImmediate, (bytes, word(offset)));
                    let lanes = LANES.min(self.channels - vector * LANES);
                    loop_over(b, lanes, "channels", |b| {
                        lane(b, from);
                        b.emit_to(from, Opcode::AddImmediate, (from, 4));
                    });
                }
            }
            let quad = self.blocks() * taps * tap_bytes;
            b.emit_to(bytes, Opcode::AddImmediate, (bytes, word(quad)));
        };
        loop_over(&mut b, self.features / ROWS, "quads of features", |b| quad(b, ROWS));
        if !self.features.is_multiple_of(ROWS) {
            quad(&mut b, self.features % ROWS);
        }
        b.finish(None)
    }
}

struct Order {
    taps: usize,
    block: usize,
    /// Places whose number modulo the taps has bit 0, 1, 2, 3.
    places: Vec<Register>,
    /// Mask of the places whose byte comes from the other half.
    swapped: Register,
    step: Register,
    half: Register,
    memory: (Object, Object),
}

impl Order {
    /// 128 channels: a byte vector of each tap to `taps` vectors of the result.
    fn row(&self, b: &mut Builder, from: Register, to: Register) {
        let from = b.copy(from);
        let mut vectors: Vec<Register> = (0..self.taps)
            .map(|tap| {
                let y = b.load(Opcode::LoadVStep, (from, self.step), self.memory.0);
                let y = if self.block == 2 { self.two_features(b, y) } else { y };
                if tap == 0 {
                    return y;
                }
                let turn = b.constant(word(VECTOR - tap));
                b.emit(Opcode::Vror, (y, turn))
            })
            .collect();
        // Place m of result j belongs to tap (128 j + m) mod taps: after this, vector i holds there tap (i + m) mod taps.
        for bit in 0..self.taps.next_power_of_two().ilog2() {
            let places = self.places[bit as usize];
            vectors = (0..self.taps)
                .map(|i| {
                    let other = vectors[(i + (1 << bit)) % self.taps];
                    b.emit(Opcode::Vmux, (places, other, vectors[i]))
                })
                .collect();
        }
        let to = b.copy(to);
        for j in 0..self.taps {
            let vector = vectors[VECTOR * j % self.taps];
            b.store(Opcode::StoreVNext, (to, 1, vector), self.memory.1);
        }
    }

    /// Bytes `4 l + 2 f + i` to their places: feature f to its half, then swapped where the place says so.
    fn two_features(&self, b: &mut Builder, y: Register) -> Register {
        let y = b.emit(Opcode::VdealH, (y,));
        let other = b.emit(Opcode::Vror, (y, self.half));
        // All four predicates are taken: selected by logic.
        let change = b.emit(Opcode::Vxor, (y, other));
        let change = b.emit(Opcode::Vand, (change, self.swapped));
        b.emit(Opcode::Vxor, (y, change))
    }
}
