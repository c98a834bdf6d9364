//! Codes of two operands by factors of each channel, with an offset of each channel added, rounded stochastically to bytes: the error
//! of a batch normalization by integers.
//!
//! Words of four neighbouring codes, which are one channel's, are in four vectors: those of the even codes, even and odd, and of the odd
//! ones. They are kept until the largest is known; then each is rounded by the hash of its element's number
//! ([`trainc_ir::numeric::dither`]).

use super::channel_lines::{Images, lines_of, shift_to_bytes};
use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::lanes::{LANES, shuffle_unit};
use super::planes_of_codes::{PlanesOfCodes, WORD};
use super::product::VECTOR;
use super::support::{or_lanes, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// Most vectors of codes of a place in straight code.
const STRAIGHT: usize = 8;
/// Multipliers of [`trainc_ir::numeric::dither::mix`].
const MULTIPLIERS: [u32; 2] = [0x7feb_352d, 0x846c_a68b];
/// Vectors, of four, in which the words of four codes are.
const PLACES: [i32; WORD] = [0, 2, 1, 3];
/// Most bits shifted out of sums for which the upper half of a hash is enough.
const UPPER: i32 = 16;
/// Packets of a vector of codes whose words are kept, and of one that is rounded; of a line, of a place, and of a call.
const KEEP: usize = 8;
const ROUND: usize = 16;
const LINE: usize = 2;
const PLACE: usize = 4;
const CALL: usize = 110;

/// Planes of i8 `[image][channel][position]` whose sums become bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DitheredLines {
    /// Images.
    pub images: usize,
    /// Channels.
    pub channels: usize,
    /// Positions of a plane.
    pub positions: usize,
}

impl DitheredLines {
    /// Whether planes are whole vectors, or a power of two of them is one.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.planes().fill_vectors(1 << 26)
    }

    fn planes(&self) -> PlanesOfCodes {
        let &Self { images, channels, positions } = self;
        PlanesOfCodes { images, channels, positions }
    }

    /// Vectors of codes of a place in an image.
    fn plane(&self) -> usize {
        self.planes().vectors()
    }

    fn places(&self) -> usize {
        self.planes().places()
    }

    /// Vectors of codes.
    fn vectors(&self) -> usize {
        self.images * self.places() * self.plane()
    }

    /// Words of a channel in a vector.
    fn words(&self) -> usize {
        self.positions.min(VECTOR) / WORD
    }

    /// An estimate of the packets of a call.
    #[must_use]
    pub fn packets(&self) -> usize {
        let vectors = self.images * self.plane();
        let around = if vectors > STRAIGHT { 2 * self.images } else { 0 };
        let places = self.places() * (vectors * KEEP + around + LINE + PLACE);
        CALL + places + self.vectors() * ROUND
    }

    /// `int32_t shift(codes, others, factors, offsets, key, bytes, working memory)`, with a word for each channel of factors, of 16 bits,
    /// those of the codes, and behind so many bytes of those the others', and of offsets; they may be read up to a vector beyond
    /// their ends. Sums' magnitudes are at most 2^30 + 2^23. The key is the word that elements' numbers are added to.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str, between: usize) -> Result<Kernel, MachineError> {
        let mut scratch = Scratch::default();
        let lines = scratch.take(3 * self.channels.div_ceil(LANES) * self.words() * VECTOR);
        let sums = scratch.take(WORD * self.vectors() * VECTOR);
        let [codes, others, factors, offsets, key, bytes] =
            [0, 1, 2, 3, 4, 5].map(Argument::Parameter);
        let phases = vec![
            Phase {
                function: lines_of(
                    &format!("{name}_lines"),
                    [self.channels, self.words()],
                    Some(between),
                )?,
                arguments: vec![factors, offsets, lines],
            },
            Phase {
                function: self.sums(&format!("{name}_sums"))?,
                arguments: vec![codes, others, lines, sums],
            },
            Phase {
                function: self.bytes(&format!("{name}_bytes"))?,
                arguments: vec![sums, bytes, key, Argument::Result(1)],
            },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Codes by factors and offsets of their channels, rounded to bytes.".into(),
            parameters: 6,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: Vec::new(),
        })
    }

    /// `int32_t sums(codes, others, lines, sums)`: the bitwise or of their magnitudes.
    fn sums(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Sums as words, and the bits of their magnitudes.");
        let [codes, others, lines, sums] = [0, 1, 2, 3].map(|i| b.parameter(i));
        let range = b.range(self.places(), &["codes", "others", "lines", "sums"]);
        let bytes = self.plane() * VECTOR;
        range.move_on(&mut b, codes, bytes);
        range.move_on(&mut b, others, bytes);
        range.move_on(&mut b, lines, 3 * VECTOR);
        range.move_on(&mut b, sums, WORD * bytes);
        let objects = ["codes", "others", "lines", "sums"].map(|name| b.object(name));
        let bits = b.fresh(Class::V);
        zero_vector(&mut b, bits);
        let sizes = [self.images, self.plane(), self.channels * self.positions];
        let pointers = [(codes, 1), (others, 1), (sums, WORD)];
        let images = Images::new(&mut b, sizes, &pointers, STRAIGHT);
        range.repeat(&mut b, "places", |b| {
            let [factors, turns, offsets] =
                [(); 3].map(|()| b.load(Opcode::LoadVNext, (lines, 1), objects[2]));
            images.visit(b, |b, pointers, _| {
                let [own, others] = [0, 1].map(|operand| {
                    let x = b.load(Opcode::LoadVNext, (pointers[operand], 1), objects[operand]);
                    b.emit(Opcode::VsxtB, (x,))
                });
                for half in [0, 1] {
                    let [own, others] =
                        [own, others].map(|x| if half == 0 { x.low() } else { x.high() });
                    let products = b.emit(Opcode::VmpyHHv, (own, factors));
                    b.update(Opcode::VmpyHHvAccumulate, (products, others, turns));
                    for products in [products.low(), products.high()] {
                        let sum = b.emit(Opcode::VaddW, (products, offsets));
                        b.store(Opcode::StoreVNext, (pointers[2], 1, sum), objects[3]);
                        let magnitude = b.emit(Opcode::VabsW, (sum,));
                        b.emit_to(bits, Opcode::Vor, (bits, magnitude));
                    }
                }
            });
        });
        let bits = or_lanes(&mut b, bits);
        b.finish(Some(bits))
    }

    /// `int32_t bytes(sums, bytes, key, magnitudes)`: the shift.
    fn bytes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Sums as bytes, rounded stochastically.");
        let [sums, bytes, key, magnitudes] = [0, 1, 2, 3].map(|i| b.parameter(i));
        let range = b.range(self.vectors(), &["sums", "bytes", "key", "magnitudes"]);
        range.move_on(&mut b, sums, WORD * VECTOR);
        range.move_on(&mut b, bytes, VECTOR);
        let objects = ["sums", "bytes", "key"].map(|name| b.object(name));
        let number = b.load(Opcode::LoadW, (key, 0), objects[2]);
        range.move_on(&mut b, number, VECTOR);
        let counter = counters(&mut b, number);
        let shift = shift_to_bytes(&mut b, magnitudes);
        let zero = b.zero();
        let splat = |b: &mut Builder, value: i32| {
            let value = b.constant(value);
            b.emit(Opcode::VsplatW, (value,))
        };
        // From a word of four codes to the next, and from the last to the next vector's first.
        let [next, last_to_first] = [1, word(VECTOR - WORD + 1)].map(|by| splat(&mut b, by));
        let hash = Hash {
            multipliers: MULTIPLIERS.map(|multiplier| splat(&mut b, multiplier.cast_signed())),
            zero: b.emit(Opcode::VsplatW, (zero,)),
            places: b.constant(15),
        };
        let low = splat(&mut b, i32::from_ne_bytes([(-127i8).cast_unsigned(); WORD]));
        // What rounds a vector of words, and narrows two.
        let rounds =
            |b: &mut Builder,
             upper: bool,
             last: Register,
             round: &dyn Fn(&mut Builder, Register, Register) -> Register| {
                // The next words' hashes are begun while those of these end.
                let begun = [(); WORD].map(|()| b.fresh(Class::V));
                let begin = |b: &mut Builder| {
                    let mut number = counter;
                    for (at, begun) in begun.into_iter().enumerate() {
                        if at > 0 {
                            number = b.emit(Opcode::VaddW, (number, next));
                        }
                        hash.begin(b, number, begun);
                    }
                    b.emit_to(counter, Opcode::VaddW, (number, last_to_first));
                };
                begin(b);
                range.repeat(b, "128 sums", |b| {
                    let words: [Register; WORD] = std::array::from_fn(|at| {
                        let sum = b.load(Opcode::LoadV, (sums, PLACES[at]), objects[0]);
                        let bits = hash.end(b, begun[at], upper);
                        round(b, sum, bits)
                    });
                    b.emit_to(sums, Opcode::AddImmediate, (sums, word(WORD * VECTOR)));
                    begin(b);
                    let [even, odd] = [0, 1]
                        .map(|at| b.emit(Opcode::VasrWHSaturate, (words[at + 2], words[at], last)));
                    let y = b.emit(Opcode::VasrHBSaturate, (odd, even, zero));
                    let y = b.emit(Opcode::VmaxB, (y, low));
                    b.store(Opcode::StoreVNext, (bytes, 1, y), objects[1]);
                });
            };
        let before = b.emit(Opcode::AddImmediate, (shift, -1));
        let all = b.emit(Opcode::CompareGtUImmediate, (before, UPPER - 1));
        b.branch(
            all,
            |b| {
                // Of no shift, nothing is added.
                let spread = b.emit(Opcode::SubFromImmediate, (31, shift));
                let one = b.constant(1);
                rounds(b, false, zero, &|b, sum, bits| {
                    let half = b.emit(Opcode::VlsrW, (bits, one));
                    let uniform = b.emit(Opcode::VlsrW, (half, spread));
                    let sum = b.emit(Opcode::VaddW, (sum, uniform));
                    b.emit(Opcode::VasrW, (sum, shift))
                });
            },
            |b| {
                let spread = b.emit(Opcode::SubFromImmediate, (32, shift));
                rounds(b, true, before, &|b, sum, bits| {
                    let uniform = b.emit(Opcode::VlsrW, (bits, spread));
                    // Half of their sum: what narrows shifts by 15 at most.
                    b.emit(Opcode::VavgW, (sum, uniform))
                });
            },
        );
        b.finish(Some(shift))
    }
}

/// A number and, from lane to lane, four more.
fn counters(b: &mut Builder, number: Register) -> Register {
    let unit = shuffle_unit(b);
    let zero = b.zero();
    let four = b.constant(4);
    let four = b.emit(Opcode::VsplatW, (four,));
    let mut lanes = b.emit(Opcode::VsplatW, (zero,));
    // From each lane modulo 2^k to modulo 2^(k + 1): twice that, and one more, in turn.
    for _ in 0..LANES.ilog2() {
        let even = b.emit(Opcode::VaddW, (lanes, lanes));
        let odd = b.emit(Opcode::VaddW, (even, four));
        lanes = b.emit(Opcode::Vshuff, (odd, even, unit)).low();
    }
    let number = b.emit(Opcode::VsplatW, (number,));
    b.emit(Opcode::VaddW, (lanes, number))
}

/// What hashes need in registers.
struct Hash {
    multipliers: [Register; 2],
    zero: Register,
    places: Register,
}

impl Hash {
    /// The hash of words up to the first product, which becomes `product`.
    fn begin(&self, b: &mut Builder, number: Register, product: Register) {
        let x = self.fold(b, number);
        self.multiply(b, x, 0, product);
    }

    /// The uniform bits of words whose hash is begun, or their upper halves, and something below.
    fn end(&self, b: &mut Builder, begun: Register, upper: bool) -> Register {
        let moved = b.emit(Opcode::VlsrW, (begun, self.places));
        let x = b.emit(Opcode::Vxor, (begun, moved));
        let product = b.fresh(Class::V);
        self.multiply(b, x, 1, product);
        if upper { product } else { self.fold(b, product) }
    }

    /// `x ^ (x >> 16)`.
    fn fold(&self, b: &mut Builder, x: Register) -> Register {
        let half = b.emit(Opcode::VshuffoH, (self.zero, x));
        b.emit(Opcode::Vxor, (x, half))
    }

    fn multiply(&self, b: &mut Builder, x: Register, by: usize, product: Register) {
        let multiplier = self.multipliers[by];
        b.emit_to(product, Opcode::VmpyieoH, (x, multiplier));
        b.update(Opcode::VmpyieWUhAccumulate, (product, x, multiplier));
    }
}
