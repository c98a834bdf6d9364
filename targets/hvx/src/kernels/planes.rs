//! Requantised bytes from `[vector][image][position / 4][32 channels][4 positions]` to `[image][channel][position]`.

use super::product::{GROUP, LANES, VECTOR, WindowProduct};
use super::support::{loop_over, rotate_in};
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Most vectors that are turned in registers.
const TURN: usize = 16;

impl WindowProduct {
    /// `void planes(bytes, y, scratch)`; the scratch takes [`WindowProduct::plane_scratch_bytes`].
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn planes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts bytes in the order image, channel, position.");
        let quads = self.padded_outputs() / 4;
        let order = Order {
            features: self.features,
            outputs: self.outputs(),
            quads,
            bytes: b.parameter(0),
            scratch: b.parameter(2),
            memory: (b.object("bytes"), b.object("y"), b.object("scratch")),
        };
        let whole = self.has_whole_planes();
        let image_bytes = self.features * self.outputs();
        let y = b.parameter(1);
        let mut images = self.images;
        // Groups of four images, then the rest.
        while images > 0 {
            let (groups, rows) =
                if images >= GROUP { (images / GROUP, GROUP) } else { (1, images) };
            loop_over(&mut b, groups, "groups of images", |b| {
                order.vectors(b, self.vectors(), rows, y, image_bytes, whole);
                let bytes = i32::try_from(rows * image_bytes).unwrap_or(i32::MAX);
                b.emit_to(y, Opcode::AddImmediate, (y, bytes));
            });
            images -= groups * rows;
        }
        b.finish(None)
    }

    /// Whether vectors are turned: the last ones' channels, too, fill whole vectors of the result.
    pub(super) fn has_whole_planes(&self) -> bool {
        let (outputs, rest) = (self.outputs(), self.features % LANES);
        outputs.is_multiple_of(4)
            && (outputs / 4).is_power_of_two()
            && (rest * outputs).is_multiple_of(VECTOR)
            && rest.is_multiple_of(2)
    }

    /// `void positions(shifted, bytes)`: from `[vector][position][32 channels][4 images]`, positions up to whole quads, to
    /// the order that [`WindowProduct::planes`] takes.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn positions_inside(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Exchanges positions and images, four by four bytes.");
        let (from, to) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("shifted"), b.object("bytes"));
        let quads = self.padded_outputs() / 4;
        let image_bytes = i32::try_from(quads * VECTOR).unwrap_or(i32::MAX);
        let image = b.constant(image_bytes);
        let image = b.emit(Opcode::ModifierFromR, (image,));
        loop_over(&mut b, self.groups() * self.vectors(), "vectors of channels", |b| {
            loop_over(b, quads, "4 positions", |b| {
                let x: [Register; 4] =
                    std::array::from_fn(|_| b.load(Opcode::LoadVNext, (from, 1), memory.0));
                // Images 0 and 2, then 1 and 3, of two positions side by side.
                let pairs = [[x[1], x[0]], [x[3], x[2]]];
                let even = pairs.map(|[odd, even]| b.emit(Opcode::VshuffeB, (odd, even)));
                let odd = pairs.map(|[odd, even]| b.emit(Opcode::VshuffoB, (odd, even)));
                let target = b.copy(to);
                for opcode in [Opcode::VshuffeH, Opcode::VshuffoH] {
                    for [low, high] in [even, odd] {
                        let y = b.emit(opcode, (high, low));
                        b.store(Opcode::StoreVStep, (target, image, y), memory.1);
                    }
                }
                b.emit_to(to, Opcode::AddImmediate, (to, VECTOR as i32));
            });
            let rest = image_bytes.saturating_mul(GROUP as i32 - 1);
            b.emit_to(to, Opcode::AddImmediate, (to, rest));
        });
        b.finish(None)
    }

    /// Bytes of working memory of [`WindowProduct::planes`].
    #[must_use]
    pub fn plane_scratch_bytes(&self) -> usize {
        let quads = self.padded_outputs() / 4;
        if quads > TURN { quads * VECTOR } else { 0 }
    }
}

struct Order {
    features: usize,
    /// Positions.
    outputs: usize,
    /// Vectors of one image's 32 channels.
    quads: usize,
    bytes: Register,
    scratch: Register,
    memory: (Object, Object, Object),
}

impl Order {
    fn vectors(
        &self,
        b: &mut Builder,
        vectors: usize,
        images: usize,
        y: Register,
        image_bytes: usize,
        whole: bool,
    ) {
        let block = |b: &mut Builder, place: Register, channels: usize| {
            let image_bytes = i32::try_from(image_bytes).unwrap_or(i32::MAX);
            let target = b.copy(place);
            loop_over(b, images, "images", |b| {
                if whole {
                    self.turn(b, target, channels);
                } else {
                    self.bytes(b, target, channels);
                }
                b.emit_to(target, Opcode::AddImmediate, (target, image_bytes));
            });
            let missing = (GROUP - images) * self.quads * VECTOR;
            if missing > 0 {
                let missing = i32::try_from(missing).unwrap_or(i32::MAX);
                b.emit_to(self.bytes, Opcode::AddImmediate, (self.bytes, missing));
            }
        };
        let place = b.copy(y);
        let full = self.features / LANES;
        loop_over(b, full, "vectors of 32 channels", |b| {
            block(b, place, LANES);
            let step = i32::try_from(LANES * self.outputs).unwrap_or(i32::MAX);
            b.emit_to(place, Opcode::AddImmediate, (place, step));
        });
        if vectors > full {
            block(b, place, self.features - full * LANES);
        }
    }

    /// One image's channels, an even number up to 32: a power of two of vectors.
    fn turn(&self, b: &mut Builder, y: Register, channels: usize) {
        if self.quads <= TURN {
            let target = b.copy(y);
            for vector in self.turned(b, self.quads, channels * self.outputs / VECTOR) {
                b.store(Opcode::StoreVNext, (target, 1, vector), self.memory.1);
            }
            return;
        }
        // Sixteen vectors at a time, each result holding 64 positions of two channels; then pairs of those.
        let blocks = self.quads / TURN;
        let middle = b.copy(self.scratch);
        loop_over(b, blocks, "64 positions of 32 channels", |b| {
            for vector in self.turned(b, TURN, channels / 2) {
                b.store(Opcode::StoreVNext, (middle, 1, vector), self.memory.2);
            }
        });
        let half = b.constant(-64);
        let row = blocks / 2;
        let pairs = channels / 2;
        let next = b.constant((pairs * VECTOR) as i32);
        let next = b.emit(Opcode::ModifierFromR, (next,));
        let source = b.copy(self.scratch);
        let target = b.copy(y);
        loop_over(b, pairs, "two channels", |b| {
            let from = b.copy(source);
            let second = i32::try_from(row * VECTOR).unwrap_or(i32::MAX);
            let to = [b.copy(target), b.emit(Opcode::AddImmediate, (target, second))];
            for _ in 0..row {
                let low = b.load(Opcode::LoadVStep, (from, next), self.memory.2);
                let high = b.load(Opcode::LoadVStep, (from, next), self.memory.2);
                let both = b.emit(Opcode::Vshuff, (high, low, half));
                b.store(Opcode::StoreVNext, (to[0], 1, both.low()), self.memory.1);
                b.store(Opcode::StoreVNext, (to[1], 1, both.high()), self.memory.1);
            }
            b.emit_to(source, Opcode::AddImmediate, (source, VECTOR as i32));
            b.emit_to(target, Opcode::AddImmediate, (target, 2 * second));
        });
    }

    /// The first `wanted` of so many vectors, turned.
    fn turned(&self, b: &mut Builder, count: usize, wanted: usize) -> Vec<Register> {
        let loaded: Vec<Register> =
            (0..count).map(|_| b.load(Opcode::LoadVNext, (self.bytes, 1), self.memory.0)).collect();
        rotate_in(b, &loaded, 4, wanted)
    }

    /// One image's channels, byte by byte: sizes that do not fit vectors.
    fn bytes(&self, b: &mut Builder, y: Register, channels: usize) {
        let source = b.copy(self.bytes);
        let target = b.copy(y);
        loop_over(b, channels, "channels", |b| {
            let from = b.copy(source);
            let vector = b.constant(VECTOR as i32);
            loop_over(b, self.outputs / 4, "4 positions", |b| {
                for i in 0..4 {
                    let x = b.load(Opcode::LoadB, (from, i), self.memory.0);
                    b.store(Opcode::StoreBNext, (target, 1, x), self.memory.1);
                }
                b.emit_to(from, Opcode::Add, (from, vector));
            });
            for i in 0..self.outputs % 4 {
                let x = b.load(Opcode::LoadB, (from, i as i32), self.memory.0);
                b.store(Opcode::StoreBNext, (target, 1, x), self.memory.1);
            }
            b.emit_to(source, Opcode::AddImmediate, (source, 4));
        });
        let next = i32::try_from(self.quads * VECTOR).unwrap_or(i32::MAX);
        b.emit_to(self.bytes, Opcode::AddImmediate, (self.bytes, next));
    }
}
