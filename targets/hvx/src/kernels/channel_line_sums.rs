//! Codes of planes, of one operand or of two, by factors of each channel, with an offset of each channel added, as words: what a
//! batch normalization by integers computes, and its error.
//!
//! Codes of both operands lie side by side, so that a dot product of two halves makes each word in its place. A line is the
//! factors and the offset of 32 neighbouring words, or of all of a channel's.

use super::channel_lines::{Images, spread};
use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::lanes::{LANES, shuffle_unit};
use super::planes_of_codes::PlanesOfCodes;
use super::product::VECTOR;
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// Bytes of a word.
const WORD: usize = 4;
/// Most vectors of codes of a place in straight code.
const STRAIGHT: usize = 8;
/// Packets of a vector of codes, of a line, of a place, and of a call.
const CODES: usize = 5;
const LINE: usize = 3;
const PLACE: usize = 2;
const CALL: usize = 60;

/// Planes of i8 `[image][channel][position]` whose sums are i32.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelLineSums {
    /// Images.
    pub images: usize,
    /// Channels.
    pub channels: usize,
    /// Positions of a plane.
    pub positions: usize,
    /// Whether there is a second operand.
    pub two: bool,
}

impl ChannelLineSums {
    /// Whether planes are whole vectors, or a power of two of them is one.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.planes().fill_vectors(1 << 26)
    }

    fn planes(&self) -> PlanesOfCodes {
        let &Self { images, channels, positions, .. } = self;
        PlanesOfCodes { images, channels, positions }
    }

    /// Vectors of codes of a place, which is a plane or the planes of a vector, in an image.
    fn plane(&self) -> usize {
        self.planes().vectors()
    }

    fn places(&self) -> usize {
        self.planes().places()
    }

    /// Lines of a place.
    fn lines(&self) -> usize {
        (VECTOR / self.positions.min(VECTOR)).min(VECTOR / LANES)
    }

    /// Words of a channel in its line.
    fn words(&self) -> usize {
        self.positions.min(LANES)
    }

    fn line_bytes(&self) -> usize {
        2 * self.channels.div_ceil(LANES) * self.words() * VECTOR
    }

    /// An estimate of the packets of a call.
    #[must_use]
    pub fn packets(&self) -> usize {
        let vectors = self.images * self.plane();
        let around = if vectors > STRAIGHT { 2 * self.images } else { 0 };
        CALL + self.places() * (vectors * CODES + around + self.lines() * LINE + PLACE)
    }

    /// `void sums(codes, others, factors, offsets, sums, working memory)`, with a word for each channel of factors, of 16 bits, those
    /// of the codes, and behind so many bytes of those the others', and of offsets; they may be read up to a vector beyond their
    /// ends. Without a second operand nothing is read of it.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str, between: usize) -> Result<Kernel, MachineError> {
        let mut scratch = Scratch::default();
        let lines = scratch.take(self.line_bytes());
        let [codes, others, factors, offsets, sums] = [0, 1, 2, 3, 4].map(Argument::Parameter);
        let phases = vec![
            Phase {
                function: self.spread_lines(&format!("{name}_lines"), between)?,
                arguments: vec![factors, offsets, lines],
            },
            Phase {
                function: self.sums(&format!("{name}_words"))?,
                arguments: vec![codes, others, lines, sums],
            },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Codes by factors and offsets of their channels, as words.".into(),
            parameters: 5,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: Vec::new(),
        })
    }

    /// `void lines(factors, offsets, lines)`.
    fn spread_lines(&self, name: &str, between: usize) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Factors and offsets beside the sums of their channels.");
        let [factors, offsets, lines] = [0, 1, 2].map(|i| b.parameter(i));
        let objects = ["factors", "offsets", "lines"].map(|name| b.object(name));
        let others = b.emit(Opcode::AddImmediate, (factors, word(between)));
        let unit = shuffle_unit(&mut b);
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        loop_over(&mut b, self.channels.div_ceil(LANES), "channels of a vector", |b| {
            let factor = b.load(Opcode::LoadVUnalignedNext, (factors, 1), objects[0]);
            let other = match self.two {
                true => b.load(Opcode::LoadVUnalignedNext, (others, 1), objects[0]),
                false => zero,
            };
            let offset = b.load(Opcode::LoadVUnalignedNext, (offsets, 1), objects[1]);
            let both = b.emit(Opcode::VshuffeH, (other, factor));
            spread(b, unit, self.words().ilog2(), [both, offset], &mut |b, line| {
                for vector in line {
                    b.store(Opcode::StoreVNext, (lines, 1, vector), objects[2]);
                }
            });
        });
        b.finish(None)
    }

    /// `void words(codes, others, lines, sums)`.
    fn sums(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Sums as words.");
        let [codes, others, lines, sums] = [0, 1, 2, 3].map(|i| b.parameter(i));
        let range = b.range(self.places(), &["codes", "others", "lines", "sums"]);
        let bytes = self.plane() * VECTOR;
        range.move_on(&mut b, codes, bytes);
        range.move_on(&mut b, others, bytes);
        range.move_on(&mut b, lines, 2 * self.lines() * VECTOR);
        range.move_on(&mut b, sums, WORD * bytes);
        let objects = ["codes", "others", "lines", "sums"].map(|name| b.object(name));
        let bytes_apart = b.constant(-1);
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let pointers = [(codes, 1), (sums, WORD), (others, 1)];
        let pointers = &pointers[..if self.two { 3 } else { 2 }];
        let sizes = [self.images, self.plane(), self.channels * self.positions];
        let images = Images::new(&mut b, sizes, pointers, STRAIGHT);
        range.repeat(&mut b, "places", |b| {
            let found: Vec<[Register; 2]> = (0..self.lines())
                .map(|_| [(); 2].map(|()| b.load(Opcode::LoadVNext, (lines, 1), objects[2])))
                .collect();
            images.visit(b, |b, pointers, _| {
                let x = b.load(Opcode::LoadVNext, (pointers[0], 1), objects[0]);
                let other = match pointers {
                    [_, _, others] => b.load(Opcode::LoadVNext, (*others, 1), objects[1]),
                    _ => zero,
                };
                let both = b.emit(Opcode::Vshuff, (other, x, bytes_apart));
                let halves = [both.low(), both.high()].map(|x| b.emit(Opcode::VunpackB, (x,)));
                let quarters = halves.iter().flat_map(|pair| [pair.low(), pair.high()]);
                for (at, codes) in quarters.enumerate() {
                    let [factors, offsets] = found[at * self.lines() / (VECTOR / LANES)];
                    let sum = b.copy(offsets);
                    b.update(Opcode::VdmpyHHvAccumulate, (sum, codes, factors));
                    b.store(Opcode::StoreVNext, (pointers[1], 1, sum), objects[3]);
                }
            });
        });
        b.finish(None)
    }
}
