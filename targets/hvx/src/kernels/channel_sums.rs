//! Sums of a channel's codes, and of their products with other codes, for all channels at once.
//!
//! A vector of an image is added to those at its place in the other images, and in its plane: four codes a word, whether of one
//! channel or of several. Then neighbouring words are added, and all of them moved together, until each channel has one.

use super::planes_of_codes::{PlanesOfCodes, WORD};
use super::product::{LANES, VECTOR};
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Most vectors of a place that are added in straight code.
const STRAIGHT: usize = 32;
/// Most codes of a channel: sums of products are words.
const MOST: usize = 1 << 16;
/// Vectors that become one while words are added twice.
const FOUR: usize = 4;

/// Planes of i8 `[image][channel][position]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelSums {
    /// Images.
    pub images: usize,
    /// Channels.
    pub channels: usize,
    /// Positions of a plane.
    pub positions: usize,
    /// Whether codes are multiplied by themselves.
    pub squares: bool,
}

impl ChannelSums {
    /// Whether planes are whole vectors, or a power of two of them is one.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.planes().fill_vectors(1 << 28) && self.images * self.positions <= MOST
    }

    fn planes(&self) -> PlanesOfCodes {
        let &Self { images, channels, positions, .. } = self;
        PlanesOfCodes { images, channels, positions }
    }

    /// Vectors of a plane.
    fn plane(&self) -> usize {
        self.planes().vectors()
    }

    /// Words of a channel in a vector.
    fn words(&self) -> usize {
        self.positions.min(VECTOR) / WORD
    }

    /// Vectors of sums of one kind before words are added.
    fn places(&self) -> usize {
        self.planes().places()
    }

    /// The same with those that fill up the last vector of results.
    fn padded(&self) -> usize {
        self.places().next_multiple_of(self.words())
    }

    /// Bytes of working memory: sums, then those of products, and both once more for what they become.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        4 * self.padded() * VECTOR
    }

    /// Where the working memory holds a word of each channel in the end: of codes, and of products.
    #[must_use]
    pub fn results(&self) -> [usize; 2] {
        let bytes = self.padded() / self.words() * VECTOR;
        let moves = self.words().ilog2().div_ceil(FOUR.ilog2()) as usize;
        let start = self.half(moves);
        [start, start + bytes]
    }

    /// The half of the working memory that results of so many rounds of additions lie in.
    fn half(&self, rounds: usize) -> usize {
        rounds % 2 * 2 * self.padded() * VECTOR
    }

    /// An estimate of the packets of a call.
    #[must_use]
    pub fn packets(&self) -> usize {
        let vectors = self.images * self.plane();
        let around = if vectors > STRAIGHT { 8 } else { 0 };
        let mut packets = 20 + self.places() * ((2 * vectors).max(3) + around);
        let (mut vectors, mut words) = (2 * self.padded(), self.words());
        while words > 1 {
            let taken = FOUR.min(words);
            packets += vectors + 8;
            vectors /= taken;
            words /= taken;
        }
        packets
    }

    /// `void sums(codes, others, working memory)`: the others are the codes again if they are squared.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn function(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Sums of each channel's codes, and of their products with others.");
        let memory = b.parameter(2);
        // What is read and what is written, in turn.
        let objects = [b.object("sums"), b.object("added sums")];
        self.places_to(&mut b, objects[0]);
        let (mut vectors, mut words) = (2 * self.padded(), self.words());
        let unit = b.constant(-word(WORD));
        let add = |b: &mut Builder, [low, high]: [Register; 2]| {
            let apart = b.emit(Opcode::Vdeal, (high, low, unit));
            b.emit(Opcode::VaddW, (apart.low(), apart.high()))
        };
        for round in 0.. {
            let taken = FOUR.min(words);
            if taken == 1 {
                break;
            }
            let [from, to] = [round, round + 1]
                .map(|round| b.emit(Opcode::AddImmediate, (memory, word(self.half(round)))));
            let [source, target] = [objects[round % 2], objects[(round + 1) % 2]];
            loop_over(&mut b, vectors / taken, "neighbouring words", |b| {
                let mut sums: Vec<Register> =
                    (0..taken).map(|_| b.load(Opcode::LoadVNext, (from, 1), source)).collect();
                while sums.len() > 1 {
                    sums = sums.chunks_exact(2).map(|two| add(b, [two[0], two[1]])).collect();
                }
                b.store(Opcode::StoreVNext, (to, 1, sums[0]), target);
            });
            vectors /= taken;
            words /= taken;
        }
        b.finish(None)
    }

    /// Four codes a word, of all images and of all vectors of a plane.
    fn places_to(&self, b: &mut Builder, to: Object) {
        let (codes, others, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let objects = [b.object("codes"), b.object("others")];
        let products = b.emit(Opcode::AddImmediate, (sums, word(self.padded() * VECTOR)));
        let ones = b.constant(0x0101_0101);
        let ones = b.emit(Opcode::VsplatW, (ones,));
        let image = b.constant(word(self.channels * self.positions));
        let [sum, product] = [(); 2].map(|()| b.fresh(Class::V));
        let sums_to = b.copy(sums);
        let straight = self.images * self.plane() <= STRAIGHT;
        // Adds a plane's vectors of an image.
        let add = |b: &mut Builder, places: [Register; 2], count: usize, first: bool| {
            for at in 0..count {
                let x = b.load(Opcode::LoadVNext, (places[0], 1), objects[0]);
                let y = match self.squares {
                    true => x,
                    false => b.load(Opcode::LoadVNext, (places[1], 1), objects[1]),
                };
                if first && at == 0 {
                    b.emit_to(sum, Opcode::VrmpyUbBv, (ones, x));
                    b.emit_to(product, Opcode::VrmpyBBv, (x, y));
                } else {
                    b.update(Opcode::VrmpyUbBvAccumulate, (sum, ones, x));
                    b.update(Opcode::VrmpyBBvAccumulate, (product, x, y));
                }
            }
        };
        loop_over(b, self.places(), "a vector of words", |b| {
            let starts = [b.copy(codes), b.copy(others)];
            if straight {
                for at in 0..self.images {
                    let places = starts.map(|start| b.copy(start));
                    add(b, places, self.plane(), at == 0);
                    if at + 1 < self.images {
                        for start in starts {
                            b.emit_to(start, Opcode::Add, (start, image));
                        }
                    }
                }
            } else {
                zero_vector(b, sum);
                zero_vector(b, product);
                loop_over(b, self.images, "images", |b| {
                    let places = starts.map(|start| b.copy(start));
                    loop_over(b, self.plane(), "vectors of a plane", |b| {
                        add(b, places, 1, false);
                    });
                    for start in starts {
                        b.emit_to(start, Opcode::Add, (start, image));
                    }
                });
            }
            b.store(Opcode::StoreVNext, (sums_to, 1, sum), to);
            b.store(Opcode::StoreVNext, (products, 1, product), to);
            for pointer in [codes, others] {
                b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(self.plane() * VECTOR)));
            }
        });
    }
}

const _: () = assert!(WORD * LANES == VECTOR);
