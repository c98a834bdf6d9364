//! Codes of planes by a factor of each channel, with an offset of each channel added: what a batch normalization by integers
//! computes, its sums rounded to bytes by their own width.
//!
//! A place is a plane, or the vector of an image that holds several. It has a vector of factors and one of offsets, a word for four
//! neighbouring codes, which are one channel's: even and odd codes, and even and odd halves of these, take the same ones. The
//! least and the greatest code of four give the largest sums, for a sum moves one way with its code.

use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::lanes::{LANES, shuffle_unit};
use super::planes_of_codes::{PlanesOfCodes, WORD};
use super::product::VECTOR;
use super::support::{loop_over, or_lanes, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Most vectors of a place that are measured, and rounded, in straight code.
const MEASURED: usize = 32;
const ROUNDED: usize = 8;
/// Most that a shift which narrows words shifts by, and one that narrows halves.
const MOST_OF_WORDS: i32 = 15;
const MOST_OF_HALVES: i32 = 7;
/// Packets of a vector that is measured, and of one that is rounded; of a place, and of a call.
const MEASURE: usize = 1;
const ROUND: usize = 7;
const PLACE: usize = 6;
const CALL: usize = 100;

/// Planes of i8 `[image][channel][position]` whose sums become bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelLines {
    /// Images.
    pub images: usize,
    /// Channels.
    pub channels: usize,
    /// Positions of a plane.
    pub positions: usize,
    /// Least byte.
    pub low: i8,
}

impl ChannelLines {
    /// Whether planes are whole vectors, or a power of two of them is one.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.planes().fill_vectors(1 << 28)
    }

    fn planes(&self) -> PlanesOfCodes {
        let &Self { images, channels, positions, .. } = self;
        PlanesOfCodes { images, channels, positions }
    }

    /// Vectors of a place in an image.
    fn plane(&self) -> usize {
        self.planes().vectors()
    }

    fn places(&self) -> usize {
        self.planes().places()
    }

    /// Words of a channel in a vector.
    fn words(&self) -> usize {
        self.positions.min(VECTOR) / WORD
    }

    /// Bytes of factors and offsets of all places, and of those that fill up the last vector of channels.
    fn line_bytes(&self) -> usize {
        2 * self.channels.div_ceil(LANES) * self.words() * VECTOR
    }

    /// An estimate of the packets of a call.
    #[must_use]
    pub fn packets(&self) -> usize {
        let vectors = self.images * self.plane();
        let around = if vectors > ROUNDED { self.images } else { 0 };
        CALL + self.places() * (vectors * (MEASURE + ROUND) + around + PLACE)
    }

    /// `int32_t shift(codes, factors, offsets, bytes, working memory)`, with a word for each channel of factors, of 16 bits, and of
    /// offsets; they may be read up to a vector beyond their ends.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn rounded(&self, name: &str) -> Result<Kernel, MachineError> {
        let mut scratch = Scratch::default();
        let lines = scratch.take(self.line_bytes());
        let [codes, factors, offsets, bytes] = [0, 1, 2, 3].map(Argument::Parameter);
        let phases = vec![
            Phase {
                function: lines_of(&format!("{name}_lines"), [self.channels, self.words()], None)?,
                arguments: vec![factors, offsets, lines],
            },
            Phase {
                function: self.magnitudes(&format!("{name}_magnitudes"))?,
                arguments: vec![codes, lines],
            },
            Phase {
                function: self.bytes(&format!("{name}_bytes"))?,
                arguments: vec![codes, lines, bytes, Argument::Result(1)],
            },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Codes by factors and offsets of their channels, rounded to bytes.".into(),
            parameters: 4,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: Vec::new(),
        })
    }

    /// `int32_t magnitudes(codes, lines)`: the bitwise or of the magnitudes of each channel's largest sums.
    fn magnitudes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Bits of the largest sums' magnitudes.");
        let (codes, lines) = (b.parameter(0), b.parameter(1));
        let range = b.range(self.places(), &["codes", "lines"]);
        range.move_on(&mut b, codes, self.plane() * VECTOR);
        range.move_on(&mut b, lines, 2 * VECTOR);
        let objects = ["codes", "lines"].map(|name| b.object(name));
        let bits = b.fresh(crate::machine::Class::V);
        zero_vector(&mut b, bits);
        let images = self.images(&mut b, &[codes], MEASURED);
        range.repeat(&mut b, "places", |b| {
            let line = load_line(b, lines, objects[1]);
            let extremes = [(); 2].map(|()| b.fresh(crate::machine::Class::V));
            let measure = |b: &mut Builder, pointers: &[Register], first: bool| {
                let x = b.load(Opcode::LoadVNext, (pointers[0], 1), objects[0]);
                for (extreme, opcode) in extremes.into_iter().zip([Opcode::VminB, Opcode::VmaxB]) {
                    match first {
                        true => b.copy_to(extreme, x),
                        false => b.emit_to(extreme, opcode, (extreme, x)),
                    }
                }
            };
            if !images.is_straight() {
                for (extreme, code) in extremes.into_iter().zip([i8::MAX, i8::MIN]) {
                    let code = b.constant(i32::from_ne_bytes([code.cast_unsigned(); WORD]));
                    b.emit_to(extreme, Opcode::VsplatW, (code,));
                }
            }
            images.visit(b, measure);
            for (extreme, opcode) in extremes.into_iter().zip([Opcode::VminH, Opcode::VmaxH]) {
                let halves = b.emit(Opcode::VsxtB, (extreme,));
                let halves = b.emit(opcode, (halves.low(), halves.high()));
                for sum in sums(b, halves, line) {
                    let magnitude = b.emit(Opcode::VabsW, (sum,));
                    b.emit_to(bits, Opcode::Vor, (bits, magnitude));
                }
            }
        });
        let bits = or_lanes(&mut b, bits);
        b.finish(Some(bits))
    }

    /// `int32_t bytes(codes, lines, bytes, magnitudes)`: the shift.
    fn bytes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Sums as bytes, rounded half away from zero.");
        let [codes, lines, bytes, magnitudes] = [0, 1, 2, 3].map(|i| b.parameter(i));
        let range = b.range(self.places(), &["codes", "lines", "bytes", "magnitudes"]);
        for pointer in [codes, bytes] {
            range.move_on(&mut b, pointer, self.plane() * VECTOR);
        }
        range.move_on(&mut b, lines, 2 * VECTOR);
        let objects = ["codes", "lines", "bytes"].map(|name| b.object(name));
        let shift = shift_to_bytes(&mut b, magnitudes);
        let zero = b.zero();
        // Half of what is shifted out, and what is added below zero: nothing if nothing is shifted out.
        let one = b.constant(1);
        let half = b.emit(Opcode::ShiftLeft, (one, shift));
        let half = b.emit(Opcode::LogicalRightImmediate, (half, 1));
        let half = b.emit(Opcode::VsplatW, (half,));
        let away = b.emit(Opcode::Min, (shift, one));
        let away = b.emit(Opcode::SubFromImmediate, (0, away));
        let away = b.emit(Opcode::VsplatW, (away,));
        let low = b.constant(i32::from_ne_bytes([self.low.cast_unsigned(); WORD]));
        let low = b.emit(Opcode::VsplatW, (low,));
        let images = self.images(&mut b, &[codes, bytes], ROUNDED);
        // What makes bytes of the halves of even codes and those of odd ones, and halves of even and of odd words.
        let places =
            |b: &mut Builder, narrow: &dyn Fn(&mut Builder, [[Register; 2]; 2]) -> Register| {
                range.repeat(b, "places", |b| {
                    let [factors, offsets] = load_line(b, lines, objects[1]);
                    let offsets = b.emit(Opcode::VaddW, (offsets, half));
                    images.visit(b, |b, pointers, _| {
                        let x = b.load(Opcode::LoadVNext, (pointers[0], 1), objects[0]);
                        let halves = b.emit(Opcode::VsxtB, (x,));
                        let words = [halves.low(), halves.high()].map(|halves| {
                            let sums = sums(b, halves, [factors, offsets]);
                            for sum in sums {
                                let below = b.emit(Opcode::VcompareGtW, (half, sum));
                                b.update(Opcode::VaddWIfQ, (sum, below, away));
                            }
                            sums
                        });
                        let y = narrow(b, words);
                        let y = b.emit(Opcode::VmaxB, (y, low));
                        b.store(Opcode::StoreVNext, (pointers[1], 1, y), objects[2]);
                    });
                });
            };
        let far = b.emit(Opcode::CompareGtImmediate, (shift, MOST_OF_WORDS));
        b.branch(
            far,
            |b| {
                // Of the upper halves.
                let most = b.constant(MOST_OF_HALVES);
                let rest = b.emit(Opcode::AddImmediate, (shift, -16));
                let last = b.emit(Opcode::Min, (rest, most));
                let first = b.emit(Opcode::Sub, (rest, last));
                places(b, &|b, words| {
                    let [even, odd] = words.map(|[even, odd]| {
                        let upper = b.emit(Opcode::VshuffoH, (odd, even));
                        b.emit(Opcode::VasrH, (upper, first))
                    });
                    b.emit(Opcode::VasrHBSaturate, (odd, even, last))
                });
            },
            |b| {
                places(b, &|b, words| {
                    let [even, odd] =
                        words.map(|[even, odd]| b.emit(Opcode::VasrWHSaturate, (odd, even, shift)));
                    b.emit(Opcode::VasrHBSaturate, (odd, even, zero))
                });
            },
        );
        b.finish(Some(shift))
    }

    /// How the images of a place are visited by some pointers, which are those of the first place.
    fn images(&self, b: &mut Builder, pointers: &[Register], straight: usize) -> Images {
        let pointers: Vec<(Register, usize)> = pointers.iter().map(|&p| (p, 1)).collect();
        let image = self.channels * self.positions;
        Images::new(b, [self.images, self.plane(), image], &pointers, straight)
    }
}

/// Images of a place.
pub(super) struct Images {
    images: usize,
    /// Vectors of codes in each.
    plane: usize,
    /// Most vectors in straight code.
    straight: usize,
    /// From an image to the next, for each pointer.
    strides: Vec<Register>,
    /// Bytes of a code, for each pointer.
    widths: Vec<usize>,
    /// Of each image, or of the first.
    pointers: Vec<Vec<Register>>,
}

impl Images {
    /// Images, vectors of codes of a place in each, and codes of an image; pointers to the first place, with the bytes of what they
    /// have for each code.
    pub(super) fn new(
        b: &mut Builder,
        [images, plane, image]: [usize; 3],
        pointers: &[(Register, usize)],
        straight: usize,
    ) -> Images {
        let widths: Vec<usize> = pointers.iter().map(|&(_, width)| width).collect();
        let strides: Vec<Register> =
            widths.iter().map(|width| b.constant(word(width * image))).collect();
        let count = if images * plane <= straight { images } else { 1 };
        let mut of_images = vec![pointers.iter().map(|&(pointer, _)| pointer).collect::<Vec<_>>()];
        for image in 1..count {
            let next = of_images[image - 1].iter().zip(&strides);
            let next = next.map(|(&p, &stride)| b.emit(Opcode::Add, (p, stride))).collect();
            of_images.push(next);
        }
        Images { images, plane, straight, strides, widths, pointers: of_images }
    }

    fn is_straight(&self) -> bool {
        self.images * self.plane <= self.straight
    }

    /// Every vector, with pointers that `body` moves on, and whether it is the first in straight code; leaves pointers at the
    /// next place.
    pub(super) fn visit(&self, b: &mut Builder, body: impl Fn(&mut Builder, &[Register], bool)) {
        if self.is_straight() {
            for (image, pointers) in self.pointers.iter().enumerate() {
                for at in 0..self.plane {
                    body(b, pointers, image + at == 0);
                }
            }
            return;
        }
        let starts: Vec<Register> = self.pointers[0].iter().map(|&p| b.copy(p)).collect();
        loop_over(b, self.images, "images", |b| {
            let own: Vec<Register> = starts.iter().map(|&p| b.copy(p)).collect();
            if self.plane <= self.straight {
                (0..self.plane).for_each(|_| body(b, &own, false));
            } else {
                loop_over(b, self.plane, "vectors of a plane", |b| body(b, &own, false));
            }
            for (&start, &stride) in starts.iter().zip(&self.strides) {
                b.emit_to(start, Opcode::Add, (start, stride));
            }
        });
        for (&pointer, width) in self.pointers[0].iter().zip(&self.widths) {
            let bytes = word(width * self.plane * VECTOR);
            b.emit_to(pointer, Opcode::AddImmediate, (pointer, bytes));
        }
    }
}

/// `void lines(factors, offsets, lines)`: each channel's words as often as it has words in a vector; with those of factors, if there
/// are, that lie so many bytes behind.
pub(super) fn lines_of(
    name: &str,
    [channels, words]: [usize; 2],
    between: Option<usize>,
) -> Result<Function, MachineError> {
    let mut b = Builder::new(name, 3);
    b.purpose("Factors and offsets beside the codes of their channels.");
    let [factors, offsets, lines] = [0, 1, 2].map(|i| b.parameter(i));
    let objects = ["factors", "offsets", "lines"].map(|name| b.object(name));
    let others = between.map(|between| b.emit(Opcode::AddImmediate, (factors, word(between))));
    let (unit, levels) = (shuffle_unit(&mut b), words.ilog2());
    loop_over(&mut b, channels.div_ceil(LANES), "channels of a vector", |b| {
        let load = |b: &mut Builder, pointer: Register| {
            let factor = b.load(Opcode::LoadVUnalignedNext, (pointer, 1), objects[0]);
            b.emit(Opcode::VshuffeH, (factor, factor))
        };
        let factor = load(b, factors);
        let other = others.map(|others| load(b, others));
        let offset = b.load(Opcode::LoadVUnalignedNext, (offsets, 1), objects[1]);
        let put = |b: &mut Builder, line: &[Register]| {
            for &vector in line {
                b.store(Opcode::StoreVNext, (lines, 1, vector), objects[2]);
            }
        };
        match other {
            None => spread(b, unit, levels, [factor, offset], &mut |b, line| put(b, &line)),
            Some(other) => {
                spread(b, unit, levels, [factor, other, offset], &mut |b, line| put(b, &line));
            }
        }
    });
    b.finish(None)
}

/// The shift that leaves 7 bits of magnitudes.
pub(super) fn shift_to_bytes(b: &mut Builder, magnitudes: Register) -> Register {
    let zeros = b.emit(Opcode::CountLeadingZeros, (magnitudes,));
    let shift = b.emit(Opcode::SubFromImmediate, (32 - 7, zeros));
    let zero = b.zero();
    b.emit(Opcode::Max, (shift, zero))
}

/// Factors and offsets of the next place.
fn load_line(b: &mut Builder, lines: Register, object: Object) -> [Register; 2] {
    [(); 2].map(|()| b.load(Opcode::LoadVNext, (lines, 1), object))
}

/// Sums of the even halves of a vector, and of the odd ones.
fn sums(b: &mut Builder, halves: Register, [factors, offsets]: [Register; 2]) -> [Register; 2] {
    let products = b.emit(Opcode::VmpyHHv, (halves, factors));
    [products.low(), products.high()].map(|product| b.emit(Opcode::VaddW, (product, offsets)))
}

/// Gives each word of some vectors 2^levels times, in order.
pub(super) fn spread<const N: usize>(
    b: &mut Builder,
    unit: Register,
    levels: u32,
    vectors: [Register; N],
    give: &mut dyn FnMut(&mut Builder, [Register; N]),
) {
    if levels == 0 {
        return give(b, vectors);
    }
    let twice = vectors.map(|vector| b.emit(Opcode::Vshuff, (vector, vector, unit)));
    spread(b, unit, levels - 1, twice.map(|twice| twice.low()), give);
    spread(b, unit, levels - 1, twice.map(|twice| twice.high()), give);
}
