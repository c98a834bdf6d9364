//! Maps in the order that products read: four images and four channels of a position side by side.

use super::product::{GROUP, OperandStrides, VECTOR, WindowProduct};
use super::support::{loop_over, rotate_in, zero_vector};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Positions of a vector of one channel.
const RUN: usize = 128;

/// Bytes of four images and four channels at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[image][channel]`: a word is four channels of an image.
    ChannelsInner,
    /// `[channel][image]`: a word is four images of a channel.
    ImagesInner,
}

/// From `[image][channel][position]` to `[group][quad][position][16 bytes]`, positions padded to a multiple of 8.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    /// Images.
    pub(crate) images: usize,
    /// Channels.
    pub(crate) channels: usize,
    /// Positions of a channel.
    pub(crate) positions: usize,
    /// Quads of the result; those beyond the channels are zero.
    pub(crate) quads: usize,
    /// The 16 bytes.
    pub(crate) order: Order,
    /// Table of the byte offset of the channel in each place of the result, where that is not the natural order; every
    /// place then has a channel.
    pub(crate) table: Option<String>,
    /// Vectors of zero behind each plane.
    pub(crate) tail: usize,
    /// Where the bytes lie.
    pub(crate) strides: OperandStrides,
}

impl WindowProduct {
    /// `void pack(x, packed operand)`: bytes `[image][channel][position]` to the packed operand (see [`super::product`]).
    /// Reads up to 127 bytes beyond the end of `x`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn pack_operand(&self, name: &str) -> Result<Function, MachineError> {
        let packing = Packing {
            images: self.images,
            channels: self.channels,
            positions: self.inputs(),
            quads: self.quads(),
            order: Order::ChannelsInner,
            table: None,
            tail: 0,
            strides: self.operand,
        };
        packing.function(name)
    }
}

impl Packing {
    /// Bytes of a plane of the result.
    pub(crate) fn plane_bytes(&self) -> usize {
        self.positions.next_multiple_of(8) * 16 + self.tail * VECTOR
    }

    /// Bytes of the result.
    pub(crate) fn bytes(&self) -> usize {
        self.images.div_ceil(GROUP) * self.quads * self.plane_bytes()
    }

    /// `void pack(source, target)`.
    pub(crate) fn function(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Interleaves four images and four channels byte by byte.");
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let packer = Packer {
            packing: self,
            source: b.parameter(0),
            target: b.parameter(1),
            memory: (b.object("source"), b.object("target")),
            table: b.object("channels"),
            zero,
        };
        loop_over(&mut b, self.images / GROUP, "groups of four images", |b| {
            packer.group(b, GROUP);
        });
        let images = self.images % GROUP;
        if images > 0 {
            packer.group(&mut b, images);
        }
        b.finish(None)
    }
}

struct Packer<'a> {
    packing: &'a Packing,
    source: Register,
    target: Register,
    memory: (Object, Object),
    table: Object,
    zero: Register,
}

impl Packer<'_> {
    /// One group; both pointers end at the next.
    fn group(&self, b: &mut Builder, images: usize) {
        let Packing { channels, quads, strides, .. } = *self.packing;
        if let Some(table) = &self.packing.table {
            let offsets = b.address(table, 0);
            loop_over(b, quads, "quads of channels", |b| {
                let pointers: Vec<Register> = (0..4)
                    .map(|_| {
                        let offset = b.load(Opcode::LoadWNext, (offsets, 4), self.table);
                        b.emit(Opcode::Add, (self.source, offset))
                    })
                    .collect();
                self.quad(b, images, &pointers);
            });
            self.move_source(b, signed(images * strides.image));
            return;
        }
        let natural = |b: &mut Builder, channels: usize| {
            let pointers: Vec<Register> = (0..channels)
                .map(|channel| {
                    let offset = signed(channel * strides.channel);
                    b.emit(Opcode::AddImmediate, (self.source, offset))
                })
                .collect();
            self.quad(b, images, &pointers);
            self.move_source(b, signed(channels * strides.channel));
        };
        loop_over(b, channels / 4, "quads of channels", |b| natural(b, 4));
        if channels % 4 > 0 {
            natural(b, channels % 4);
        }
        let empty = quads - channels.div_ceil(4);
        let vectors = empty * self.packing.plane_bytes() / VECTOR;
        loop_over(b, vectors, "quads beyond the last channel", |b| self.put(b, self.zero));
        self.move_source(b, signed(images * strides.image) - signed(channels * strides.channel));
    }

    fn move_source(&self, b: &mut Builder, bytes: i32) {
        if bytes != 0 {
            b.emit_to(self.source, Opcode::AddImmediate, (self.source, bytes));
        }
    }

    fn put(&self, b: &mut Builder, vector: Register) {
        b.store(Opcode::StoreVNext, (self.target, 1, vector), self.memory.1);
    }

    /// All positions of up to four channels, each with its pointer, of up to four images.
    fn quad(&self, b: &mut Builder, images: usize, pointers: &[Register]) {
        let Packing { positions, strides, .. } = *self.packing;
        // Images lie behind each other at a distance that a modifier holds.
        let image = b.constant(signed(strides.image));
        let image = b.emit(Opcode::ModifierFromR, (image,));
        loop_over(b, positions / RUN, "128 positions", |b| {
            self.run(b, images, pointers, image, RUN / 8);
            for &pointer in pointers {
                b.emit_to(pointer, Opcode::AddImmediate, (pointer, RUN as i32));
            }
        });
        let rest = positions % RUN;
        if rest > 0 {
            self.run(b, images, pointers, image, rest.div_ceil(8));
        }
        for _ in 0..self.packing.tail {
            self.put(b, self.zero);
        }
    }

    /// Up to 128 positions: `vectors` times 8.
    fn run(
        &self,
        b: &mut Builder,
        images: usize,
        pointers: &[Register],
        image: Register,
        vectors: usize,
    ) {
        let aligned = self.packing.positions.is_multiple_of(RUN);
        let opcode = if aligned { Opcode::LoadVStep } else { Opcode::LoadVUnalignedStep };
        let mut loaded = [self.zero; 4 * GROUP];
        for (channel, &pointer) in pointers.iter().enumerate() {
            let pointer = b.copy(pointer);
            for row in 0..images {
                let place = match self.packing.order {
                    Order::ChannelsInner => 4 * row + channel,
                    Order::ImagesInner => GROUP * channel + row,
                };
                loaded[place] = b.load(opcode, (pointer, image), self.memory.0);
            }
        }
        for vector in rotate_in(b, &loaded, 1, vectors) {
            self.put(b, vector);
        }
    }
}

/// A number of bytes as a difference of addresses; sizes are checked by [`WindowProduct::new`].
fn signed(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
