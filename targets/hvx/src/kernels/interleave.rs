//! The second pass of a weight gradient: i32 sums to i8 with pseudo-stochastic rounding, and taps side by side.
//!
//! With magnitude m, shift s, h = s >> 1 and w = s - h, pseudo-stochastic rounding adds 1 to `m >> s` if the upper half of
//! the dropped bits, q, exceeds the lower half, r (doubled if s is odd; then r'). As `m >> h` is `(m >> s) << w | q`, that
//! is `((m >> h) - r' + 2^w - 1) >> w`, which is `-((r' - (m >> h)) >> w)`: no comparison, and 16 bits hold it. If s is
//! odd, halving both sides gives `-((r - ((m + 2^h) >> w)) >> h)`: r stays as it is, and the shift of m rounds.

use super::kernel::DataObject;
use super::product::{LANES, VECTOR};
use super::requantize::FEWEST;
use super::support::{Piece, loop_over};
use super::weight_gradient::{ROWS, WeightGradient, word};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Range, Register};

/// Longest shift of the 16-bit form, and most bits that it keeps.
const SHORT: i32 = 16;
const SHORT_BITS: i32 = 7;

/// What rounding needs besides the sums.
pub(crate) struct Rounding {
    /// What the exponent grows by: the shift, however long.
    pub(crate) exponent: Register,
    /// Bits of the magnitudes.
    pub(crate) width: Register,
    /// The shift as far as it matters, its half rounded down, and what that leaves.
    pub(crate) shift: Register,
    half: Register,
    pub(crate) rest: Register,
    pub(crate) odd: Register,
    /// Masks of the dropped bits and of the lower half of them.
    remainder: Register,
    low: Register,
    zero: Register,
    /// Whether the 16-bit form will do.
    pub(crate) short: Register,
}

/// Which 16-bit form: by the shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parity {
    /// 2, 4, ..., 14.
    Even,
    /// 1, 3, ..., 15.
    Odd,
    /// 16: the last shift is by a byte, beyond what its instruction takes.
    Sixteen,
}

/// Constants of the 16-bit form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    vectors: ShortVectors,
    /// Of the magnitudes: half the shift, rounded up.
    rest: Register,
    /// Of the difference: half the shift, rounded down.
    half: Register,
}

/// Those of them that are vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortVectors {
    parity: Parity,
    /// The shift, if it is known ahead.
    amount: i32,
    low_mask: Register,
    /// -127 in all bytes.
    lowest: Register,
    /// 0 and -1 in all bytes, where sums may have more than 24 bits.
    limits: Option<[Register; 2]>,
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
    pub(crate) fn new(b: &mut Builder, magnitudes: Register, bits: Register) -> Self {
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
        Self { exponent, width, shift, half, rest, odd, remainder, low, zero, short }
    }

    /// Runs the 16-bit form's code for the shift at hand.
    pub(crate) fn by_parity(&self, b: &mut Builder, body: impl Fn(&mut Builder, Parity)) {
        let odd = b.emit(Opcode::CompareEqImmediate, (self.odd, 1));
        b.branch(
            odd,
            |b| body(b, Parity::Odd),
            |b| {
                let sixteen = b.emit(Opcode::CompareGtImmediate, (self.shift, SHORT - 1));
                b.branch(sixteen, |b| body(b, Parity::Sixteen), |b| body(b, Parity::Even));
            },
        );
    }
}

/// What is left of two vectors of sums: of every lane r less the magnitude's upper part, and bits of which the highest
/// is the sign; the first vector's lanes are even.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    difference: Register,
    sign: Register,
}

impl ShortVectors {
    /// Of a shift of 1 to 16 bits known ahead; `bits`: that magnitudes can have at most.
    pub(crate) fn new(b: &mut Builder, amount: i32, bits: u32) -> Self {
        let parity = match amount {
            SHORT => Parity::Sixteen,
            _ if amount % 2 == 1 => Parity::Odd,
            _ => Parity::Even,
        };
        let low = b.constant((1 << (amount / 2)) - 1);
        let zero = b.zero();
        Self { amount, ..Self::with(b, parity, [low, zero], bits) }
    }

    fn with(b: &mut Builder, parity: Parity, [low, zero]: [Register; 2], bits: u32) -> Self {
        let lowest = b.constant(-127);
        let limits = (bits > 24).then(|| {
            let minus_one = b.constant(-1);
            [zero, minus_one].map(|number| b.emit(Opcode::VsplatW, (number,)))
        });
        Self {
            parity,
            amount: 0,
            low_mask: b.emit(Opcode::VsplatH, (low,)),
            lowest: b.emit(Opcode::VsplatB, (lowest,)),
            limits,
        }
    }

    /// With the amounts of a shift known ahead.
    pub(crate) fn short(&self, b: &mut Builder) -> Short {
        let half = self.amount / 2;
        Short { vectors: *self, rest: b.constant(self.amount - half), half: b.constant(half) }
    }
}

impl Short {
    /// `bits`: that magnitudes can have at most.
    pub(crate) fn new(b: &mut Builder, rounding: &Rounding, parity: Parity, bits: u32) -> Self {
        let vectors = ShortVectors::with(b, parity, [rounding.low, rounding.zero], bits);
        Self { vectors, rest: rounding.rest, half: rounding.half }
    }

    /// Two vectors of sums, piece by piece: `[even, odd]`; the result is in `halves`. Magnitudes' upper parts are or-ed
    /// into `seen`, if any.
    pub(crate) fn halves<'a>(
        &'a self,
        b: &mut Builder,
        [even, odd]: [Register; 2],
        seen: Option<Register>,
    ) -> (Vec<Piece<'a>>, Halves) {
        let fresh = |b: &mut Builder| b.fresh(Class::V);
        let halves = Halves { difference: fresh(b), sign: fresh(b) };
        let (m_even, m_odd, upper, lower) = (fresh(b), fresh(b), fresh(b), fresh(b));
        let shift = match self.vectors.parity {
            Parity::Odd => Opcode::VasrWHRoundSaturate,
            Parity::Even | Parity::Sixteen => Opcode::VasrWHSaturate,
        };
        let mut pieces: Vec<Piece<'a>> = vec![
            Box::new(move |b| b.emit_to(halves.sign, Opcode::VshuffoH, (odd, even))),
            Box::new(move |b| b.emit_to(m_even, Opcode::VabsW, (even,))),
            Box::new(move |b| b.emit_to(m_odd, Opcode::VabsW, (odd,))),
            Box::new(move |b| b.emit_to(upper, shift, (m_odd, m_even, self.rest))),
            Box::new(move |b| b.emit_to(lower, Opcode::VshuffeH, (m_odd, m_even))),
            Box::new(move |b| b.emit_to(lower, Opcode::Vand, (lower, self.vectors.low_mask))),
        ];
        if let Some(seen) = seen {
            pieces.push(Box::new(move |b| b.emit_to(seen, Opcode::Vor, (seen, upper))));
        }
        pieces.push(Box::new(move |b| {
            b.emit_to(halves.difference, Opcode::VsubH, (lower, upper));
        }));
        (pieces, halves)
    }

    /// Vectors 0 and 2, then 1 and 3, to bytes, piece by piece: byte `4 l + i` is lane `l` of vector `i`. After the first
    /// pieces, two registers are all that the others need.
    pub(crate) fn join<'a>(
        &'a self,
        b: &mut Builder,
        [even, odd]: [Halves; 2],
    ) -> ([Vec<Piece<'a>>; 2], Register) {
        let [negated, sign, turned, result] = [(); 4].map(|()| b.fresh(Class::V));
        let first: Vec<Piece<'a>> = vec![
            Box::new(move |b| {
                let operands = (odd.difference, even.difference);
                match self.vectors.parity {
                    Parity::Sixteen => b.emit_to(negated, Opcode::VshuffoB, operands),
                    _ => {
                        let (odd, even) = operands;
                        b.emit_to(negated, Opcode::VasrHBSaturate, (odd, even, self.half));
                    }
                }
            }),
            Box::new(move |b| b.emit_to(sign, Opcode::VshuffoB, (odd.sign, even.sign))),
        ];
        let mut pieces: Vec<Piece<'a>> = vec![Box::new(move |b| {
            b.emit_to(negated, Opcode::VmaxB, (negated, self.vectors.lowest))
        })];
        if let Some([zeros, minus_one]) = self.vectors.limits {
            pieces.push(Box::new(move |b| b.emit_to(sign, Opcode::VminB, (sign, zeros))));
            pieces.push(Box::new(move |b| b.emit_to(sign, Opcode::VmaxB, (sign, minus_one))));
        }
        // The negated quotient n: -1 - (n ^ -1) = n for negative sums, 0 - (n ^ 0) = -n for others.
        pieces.push(Box::new(move |b| b.emit_to(turned, Opcode::Vxor, (negated, sign))));
        pieces.push(Box::new(move |b| b.emit_to(result, Opcode::VsubB, (sign, turned))));
        ([first, pieces], result)
    }

    /// Four vectors of sums to bytes, piece by piece, in three stages: byte `4 l + i` is lane `l` of vector `i`.
    pub(crate) fn pieces(
        &self,
        b: &mut Builder,
        x: [Register; 4],
    ) -> ([Vec<Piece<'_>>; 3], Register) {
        let [(even, first), (odd, second)] =
            [[x[0], x[2]], [x[1], x[3]]].map(|pair| self.halves(b, pair, None));
        let ([mut then, last], y) = self.join(b, [first, second]);
        then.extend(last);
        // Both pairs side by side; of each, signs and magnitudes first.
        let halves = even.into_iter().zip(odd).flat_map(|(even, odd)| [even, odd]);
        let mut magnitudes: Vec<Piece<'_>> = halves.collect();
        let halves = magnitudes.split_off(6);
        ([magnitudes, halves, then], y)
    }

    fn narrow(&self, b: &mut Builder, x: [Register; 4]) -> Register {
        let (pieces, result) = self.pieces(b, x);
        pieces.iter().flatten().for_each(|piece| piece(b));
        result
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
/// The second function has the same parameters: the first calls it for shifts that 16 bits cannot do. `width` is the most
/// bits that a magnitude can have.
///
/// # Errors
/// Of the machine layer.
pub fn quantize_gradient(
    name: &str,
    vectors: usize,
    width: u32,
) -> Result<[Function; 2], MachineError> {
    quantize_gradient_to(name, vectors, width, false)
}

/// As [`quantize_gradient`], the bytes in the order of the sums.
pub(crate) fn quantize_gradient_in_order(
    name: &str,
    vectors: usize,
    width: u32,
) -> Result<[Function; 2], MachineError> {
    quantize_gradient_to(name, vectors, width, true)
}

/// Byte k of each word to quarter k.
fn in_order(b: &mut Builder, y: Register) -> Register {
    let y = b.emit(Opcode::VdealB, (y,));
    b.emit(Opcode::VdealB, (y,))
}

fn quantize_gradient_to(
    name: &str,
    vectors: usize,
    width: u32,
    in_order: bool,
) -> Result<[Function; 2], MachineError> {
    let put = move |b: &mut Builder, bytes: Register, mut y: Register, object: Object| {
        if in_order {
            y = self::in_order(b, y);
        }
        b.store(Opcode::StoreVNext, (bytes, 1, y), object);
    };
    let long_name = format!("{name}_long");
    let form = |name: &str, is_long: bool| {
        let mut b = Builder::new(name, 4);
        let (sums, bytes) = (b.parameter(0), b.parameter(1));
        let (magnitudes, bits) = (b.parameter(2), b.parameter(3));
        let fours = match vectors / 4 {
            few if few < FEWEST => Range::Whole(u32::try_from(few).unwrap_or(u32::MAX)),
            many => b.range(many, &["sums", "bytes", "magnitudes", "bits"]),
        };
        let memory = (b.object("sums"), b.object("bytes"));
        let move_on = |b: &mut Builder| {
            fours.move_on(b, sums, 4 * VECTOR);
            fours.move_on(b, bytes, VECTOR);
        };
        let rounding = Rounding::new(&mut b, magnitudes, bits);
        let load = |b: &mut Builder| b.load(Opcode::LoadVNext, (sums, 1), memory.0);
        if is_long {
            b.purpose("Shifts sums right with pseudo-stochastic rounding, by any shift.");
            let long = Long::new(&mut b, &rounding);
            move_on(&mut b);
            fours.repeat(&mut b, "128 sums", |b| {
                let y = long.bytes(b, load);
                put(b, bytes, y, memory.1);
            });
        } else {
            b.purpose(
                "Shifts sums right with pseudo-stochastic rounding and packs them into bytes.",
            );
            b.branch(
                rounding.short,
                |b| {
                    move_on(b);
                    rounding.by_parity(b, |b, parity| {
                        let short = Short::new(b, &rounding, parity, width);
                        fours.repeat(b, "128 sums in 16 bits", |b| {
                            let x = std::array::from_fn(|_| load(b));
                            let y = short.narrow(b, x);
                            put(b, bytes, y, memory.1);
                        });
                    });
                },
                |b| {
                    let mut arguments = vec![sums, bytes, magnitudes, bits];
                    if let Range::Part { first, count } = fours {
                        arguments.extend([first, count]);
                    }
                    b.call(&long_name, &arguments);
                },
            );
        }
        b.finish(Some(rounding.exponent))
    };
    Ok([form(name, false)?, form(&long_name, true)?])
}

impl WeightGradient {
    /// Masks for [`Self::interleave`]: bytes whose place modulo the taps has bit 0, 1, 2, 3; then those of the second of
    /// two features that lie in the first 64 bytes and the other way round, or, of more features, how byte n gets to place
    /// `taps n` modulo 128.
    pub(crate) fn place_table(&self, symbol: &str) -> DataObject {
        let taps = self.weight_taps();
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
        match self.block() {
            1 => bytes.extend(multiplied_places(taps)),
            _ => bytes.extend((0..VECTOR).map(swapped)),
        }
        let words = bytes.chunks_exact(4);
        let words = words.map(|w| i32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        DataObject { symbol: symbol.into(), words }
    }

    /// `void interleave(bytes, dw)`.
    pub(crate) fn interleave(&self, name: &str, table: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts taps side by side.");
        let (bytes, dw) = (b.parameter(0), b.parameter(1));
        let (taps, block) = (self.weight_taps(), self.block());
        let channels = self.narrow.as_ref().map_or(self.channels, |narrow| narrow.channels);
        // Quads of features of a round: with 16 channels two fill a row.
        let quads_of_round = if channels == LANES / 2 { 2 } else { 1 };
        let quads = b.range(self.feature_quads() / quads_of_round, &["bytes", "dw"]);
        // A row is 128 channels of a feature, 64 of two, 32 of four or 16 of eight.
        let rows = ROWS * block / 4;
        let order = Order::new(&mut b, self, table, rows * VECTOR);
        let row_bytes = match block {
            4 => taps * channels,
            _ => taps * VECTOR,
        };
        let quad_bytes = quads_of_round * ROWS * channels * taps;
        let round_bytes = quads_of_round * self.blocks() * self.taps() * rows * VECTOR;
        quads.move_on(&mut b, bytes, round_bytes);
        quads.move_on(&mut b, dw, quad_bytes);
        quads.repeat(&mut b, "quads of features", |b| {
            let column = b.copy(dw);
            loop_over(b, self.blocks(), "blocks of channels", |b| {
                let to = b.copy(column);
                loop_over(b, rows, "128 bytes of all taps", |b| {
                    order.row(b, bytes, to);
                    b.emit_to(bytes, Opcode::AddImmediate, (bytes, word(VECTOR)));
                    b.emit_to(to, Opcode::AddImmediate, (to, word(row_bytes)));
                });
                let rest = round_bytes / self.blocks() - rows * VECTOR;
                b.emit_to(bytes, Opcode::AddImmediate, (bytes, word(rest)));
                b.emit_to(column, Opcode::AddImmediate, (column, word(taps * VECTOR)));
            });
            b.emit_to(dw, Opcode::AddImmediate, (dw, word(quad_bytes)));
        });
        b.finish(None)
    }

    /// `void scatter(bytes, dw)`: byte by byte.
    ///
    /// Rows of one tap go by vectors instead, if they are long enough.
    pub(crate) fn scatter(&self, name: &str) -> Result<Function, MachineError> {
        // The last store of a row reaches no further than the next row.
        let reach = (self.vectors() - 1) * LANES + VECTOR;
        if self.taps() == 1 && self.features > 1 && reach <= 2 * self.channels {
            return self.scatter_rows(name);
        }
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

impl WeightGradient {
    /// [`WeightGradient::scatter`] of one tap: 32 channels of a feature at a time, stored with what stands after them, which later
    /// stores put right. The last feature goes byte by byte.
    fn scatter_rows(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts channels side by side.");
        let (bytes, dw) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("bytes"), b.object("dw"));
        let block = self.block();
        let column_bytes = word(ROWS * block * LANES);
        let quad_bytes = word(self.blocks()) * column_bytes;
        // A vector of channels is a byte of each word of a vector.
        let place = |feature: usize, i: usize| {
            let index = feature * block + i;
            (word(index / 4), index % 4)
        };
        let turns: Vec<Register> = (0..4).map(|k| b.constant(word(k * LANES))).collect();
        let row = |b: &mut Builder, feature: usize| {
            let (from, to) = (b.copy(bytes), b.copy(dw));
            loop_over(b, self.blocks(), "columns of channels", |b| {
                for i in 0..block {
                    let (vector, byte) = place(feature, i);
                    let mut y = b.load(Opcode::LoadV, (from, vector), memory.0);
                    // Byte k of each word to quarter k.
                    for _ in 0..2 {
                        y = b.emit(Opcode::VdealB, (y,));
                    }
                    if byte > 0 {
                        y = b.emit(Opcode::Vror, (y, turns[byte]));
                    }
                    b.store(Opcode::StoreVUnaligned, (to, 0, y), memory.1);
                    b.emit_to(to, Opcode::AddImmediate, (to, word(LANES)));
                }
                b.emit_to(from, Opcode::AddImmediate, (from, column_bytes));
            });
            b.emit_to(dw, Opcode::AddImmediate, (dw, word(self.channels)));
        };
        let quads = self.feature_quads();
        loop_over(&mut b, quads - 1, "quads of features", |b| {
            (0..ROWS).for_each(|feature| row(b, feature));
            b.emit_to(bytes, Opcode::AddImmediate, (bytes, quad_bytes));
        });
        let last = self.features - ROWS * (quads - 1) - 1;
        (0..last).for_each(|feature| row(&mut b, feature));
        for vector in 0..self.vectors() {
            let (within, byte) = place(last, vector % block);
            let column = word(vector / block) * column_bytes;
            let from = column + within * word(VECTOR) + word(byte);
            let from = b.emit(Opcode::AddImmediate, (bytes, from));
            loop_over(&mut b, LANES.min(self.channels - vector * LANES), "channels", |b| {
                let y = b.load(Opcode::LoadB, (from, 0), memory.0);
                b.store(Opcode::StoreBNext, (dw, 1, y), memory.1);
                b.emit_to(from, Opcode::AddImmediate, (from, 4));
            });
        }
        b.finish(None)
    }
}

/// What brings byte n of a vector to place `factor n` modulo 128, the factor odd, as `vdelta` takes it: a place's bit says
/// whether at that distance it takes the other byte. No two bytes ever meet: places of which the upper bits are right already and
/// the lower ones are those of n differ, as n and the product have their lowest different bit in common.
fn multiplied_places(factor: usize) -> [u8; VECTOR] {
    let mut controls = [0; VECTOR];
    for n in 0..VECTOR {
        let target = n * factor % VECTOR;
        let mut place = n;
        for distance in [64, 32, 16, 8, 4, 2, 1] {
            if (place ^ target) & distance != 0 {
                place ^= distance;
                controls[place] |= distance as u8;
            }
        }
    }
    controls
}

/// Vectors from a result's start to the address that it is stored by: offsets reach as far back.
pub(crate) const AHEAD: i32 = 8;

/// How 128 channels of all taps get side by side.
pub(crate) struct Order {
    taps: usize,
    block: usize,
    /// Places whose number modulo the taps has bit 0, 1, 2, 3.
    places: Vec<Register>,
    /// Mask of the places whose byte comes from the other half; or how bytes are permuted.
    swapped: Register,
    /// Where two quads of features fill a row: half of what they have of a channel's lanes, and bytes to the second.
    second: Option<(Register, usize)>,
    /// Where a vector has two columns: taps of a row of windows.
    columns: Option<usize>,
    step: Register,
    half: Register,
    memory: (Object, Object),
}

impl Order {
    /// Rows whose taps are so many bytes apart; `table` is that of [`WeightGradient::place_table`].
    pub(crate) fn new(
        b: &mut Builder,
        gradient: &WeightGradient,
        table: &str,
        step: usize,
    ) -> Self {
        let object = b.object("places");
        let places = b.address(table, 0);
        let masks: Vec<Register> =
            (0..5).map(|i| b.load(Opcode::LoadV, (places, i), object)).collect();
        let ones = b.constant(0x0101_0101);
        let step = b.constant(word(step));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        let half = b.constant(64);
        let memory = (b.object("bytes"), b.object("dw"));
        let places = masks[..4].iter().map(|&mask| b.emit(Opcode::QandVR, (mask, ones))).collect();
        let (taps, block) = (gradient.weight_taps(), gradient.block());
        let narrow = gradient.narrow.as_ref();
        let columns = narrow.map(|narrow| narrow.taps);
        let channels = narrow.map_or(gradient.channels, |narrow| narrow.channels);
        let second = (channels == LANES / 2).then(|| (b.constant(-16), gradient.taps() * VECTOR));
        Self { taps, block, places, swapped: masks[4], second, columns, step, half, memory }
    }

    /// Where rows are read from.
    pub(crate) fn bytes(&self) -> Object {
        self.memory.0
    }

    /// 128 channels: a byte vector of each tap to `taps` vectors of the result.
    pub(crate) fn row(&self, b: &mut Builder, from: Register, to: Register) {
        let from = b.copy(from);
        let load = |b: &mut Builder, from: Register| {
            b.load(Opcode::LoadVStep, (from, self.step), self.memory.0)
        };
        let vectors: Vec<Register> = match (self.block, self.second) {
            (1, Some((half, bytes))) => {
                let second = b.emit(Opcode::AddImmediate, (from, word(bytes)));
                let pair = |b: &mut Builder| {
                    let [low, high] = [from, second].map(|from| {
                        let y = load(b, from);
                        in_order(b, y)
                    });
                    b.emit(Opcode::Vdeal, (high, low, half))
                };
                let mut vectors = Vec::new();
                while vectors.len() < self.taps {
                    let both = pair(b);
                    vectors.push(both.low());
                    // The last vector of a row of taps may have one column only.
                    if self.columns.is_some_and(|taps| vectors.len() % taps != 0) {
                        vectors.push(both.high());
                    }
                }
                vectors
            }
            (1, None) => {
                let one = |b: &mut Builder| {
                    let y = load(b, from);
                    in_order(b, y)
                };
                (0..self.taps).map(|_| one(b)).collect()
            }
            (2, _) => (0..self.taps)
                .map(|_| {
                    let y = load(b, from);
                    self.two_features(b, y)
                })
                .collect(),
            _ => (0..self.taps).map(|_| load(b, from)).collect(),
        };
        let vectors = (0..).zip(vectors).map(|(tap, mut y)| {
            if self.block == 1 {
                y = b.emit(Opcode::Vdelta, (y, self.swapped));
            }
            let turned = if tap == 0 { y } else { b.fresh(Class::V) };
            self.turn(b, turned, y, tap);
            turned
        });
        let vectors = vectors.collect();
        let to = b.emit(Opcode::AddImmediate, (to, AHEAD * word(VECTOR)));
        let selection = self.select(b, vectors, to);
        selection.iter().flatten().for_each(|piece| piece(b));
    }

    /// A tap's bytes `y` to where they belong within 128; those of tap 0 are there.
    pub(crate) fn turn(&self, b: &mut Builder, turned: Register, y: Register, tap: usize) {
        if tap > 0 {
            let turn = b.constant(word(VECTOR - tap));
            b.emit_to(turned, Opcode::Vror, (y, turn));
        }
    }

    /// Turned bytes of all taps to the result [`AHEAD`] vectors before the address, piece by piece; the second part
    /// stores.
    pub(crate) fn select<'a>(
        &'a self,
        b: &mut Builder,
        mut vectors: Vec<Register>,
        to: Register,
    ) -> [Vec<Piece<'a>>; 2] {
        let mut parts: [Vec<Piece<'a>>; 2] = [Vec::new(), Vec::new()];
        // Place m of result j belongs to tap (128 j + m) mod taps: after this, vector i holds there tap (i + m) mod taps.
        let bits = self.taps.next_power_of_two().ilog2();
        for bit in 0..bits {
            let places = self.places[bit as usize];
            let before = vectors.clone();
            // Around the cycle: each vector is read twice in a row.
            for i in (0..self.taps).map(|i| (i << bit) % self.taps) {
                let other = before[(i + (1 << bit)) % self.taps];
                let (own, result) = (before[i], b.fresh(Class::V));
                vectors[i] = result;
                let is_last = bit + 1 == bits;
                let part = &mut parts[usize::from(is_last)];
                part.push(Box::new(move |b| {
                    b.emit_to(result, Opcode::Vmux, (places, other, own));
                }));
                if is_last {
                    part.extend(self.put(i, result, to));
                }
            }
        }
        if bits == 0 {
            parts[1].extend(self.put(0, vectors[0], to));
        }
        parts
    }

    /// Stores vector i where it belongs.
    fn put<'a>(&'a self, i: usize, vector: Register, to: Register) -> Option<Piece<'a>> {
        let place = (0..self.taps).find(|j| VECTOR * j % self.taps == i)?;
        Some(Box::new(move |b| {
            b.store(Opcode::StoreV, (to, word(place) - AHEAD, vector), self.memory.1);
        }))
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
