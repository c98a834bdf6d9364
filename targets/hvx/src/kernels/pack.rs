//! Operands in the order that products read: four images and four channels of a position side by side.

use super::product::{GROUP, VECTOR, WindowProduct};
use super::support::{loop_over, rotate_in, zero_vector};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Positions of a vector of one channel.
const RUN: usize = 128;

impl WindowProduct {
    /// `void pack(x, packed operand)`: `[image][channel][position]` i8 to the packed operand (see [`super::product`]).
    /// Reads up to 127 bytes beyond the end of `x`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn pack_operand(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Interleaves four images and four channels byte by byte.");
        let packer = Packer {
            inputs: self.inputs(),
            image_bytes: self.channels * self.inputs(),
            source: b.parameter(0),
            target: b.parameter(1),
            memory: (b.object("x"), b.object("packed operand")),
            zero: {
                let zero = b.fresh(Class::V);
                zero_vector(&mut b, zero);
                zero
            },
        };
        let images = self.images % GROUP;
        loop_over(&mut b, self.images / GROUP, "groups of four images", |b| {
            packer.group(b, GROUP, self.channels, self.quads());
        });
        if images > 0 {
            packer.group(&mut b, images, self.channels, self.quads());
        }
        b.finish(None)
    }
}

struct Packer {
    /// Positions of a plane.
    inputs: usize,
    image_bytes: usize,
    source: Register,
    target: Register,
    memory: (Object, Object),
    zero: Register,
}

impl Packer {
    /// One group; both pointers end at the next.
    fn group(&self, b: &mut Builder, images: usize, channels: usize, quads: usize) {
        loop_over(b, channels / 4, "quads of channels", |b| {
            self.quad(b, images, 4);
            self.move_source(b, 4 * self.inputs as i64);
        });
        let rest = channels % 4;
        if rest > 0 {
            self.quad(b, images, rest);
            self.move_source(b, (rest * self.inputs) as i64);
        }
        let empty = quads - channels.div_ceil(4);
        loop_over(b, empty * self.plane_vectors(), "quads beyond the last channel", |b| {
            b.store(Opcode::StoreVNext, (self.target, 1, self.zero), self.memory.1);
        });
        self.move_source(b, ((images - 1) * self.image_bytes) as i64);
    }

    fn move_source(&self, b: &mut Builder, bytes: i64) {
        if bytes != 0 {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            b.emit_to(self.source, Opcode::AddImmediate, (self.source, bytes));
        }
    }

    fn plane_vectors(&self) -> usize {
        self.inputs.next_multiple_of(8) * 16 / VECTOR
    }

    /// All positions of up to four channels of up to four images.
    fn quad(&self, b: &mut Builder, images: usize, channels: usize) {
        // One pointer a channel; images lie behind each other at a distance that a modifier holds.
        let pointers: Vec<Register> = (0..channels)
            .map(|channel| {
                let offset = i32::try_from(channel * self.inputs).unwrap_or(i32::MAX);
                b.emit(Opcode::AddImmediate, (self.source, offset))
            })
            .collect();
        let image = b.constant(i32::try_from(self.image_bytes).unwrap_or(i32::MAX));
        let image = b.emit(Opcode::ModifierFromR, (image,));
        loop_over(b, self.inputs / RUN, "128 positions", |b| {
            self.run(b, images, &pointers, image, RUN / 8);
            for &pointer in &pointers {
                b.emit_to(pointer, Opcode::AddImmediate, (pointer, RUN as i32));
            }
        });
        let rest = self.inputs % RUN;
        if rest > 0 {
            self.run(b, images, &pointers, image, rest.div_ceil(8));
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
        let aligned = self.inputs.is_multiple_of(RUN);
        let opcode = if aligned { Opcode::LoadVStep } else { Opcode::LoadVUnalignedStep };
        let mut loaded = [[self.zero; 4]; GROUP];
        for (channel, &pointer) in pointers.iter().enumerate() {
            let pointer = b.copy(pointer);
            for row in loaded.iter_mut().take(images) {
                row[channel] = b.load(opcode, (pointer, image), self.memory.0);
            }
        }
        for vector in rotate_in(b, loaded.as_flattened(), 1, vectors) {
            b.store(Opcode::StoreVNext, (self.target, 1, vector), self.memory.1);
        }
    }
}
