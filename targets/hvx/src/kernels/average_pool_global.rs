//! Averages of whole planes, and their gradient.
//!
//! The mean of 2^n elements is their sum, the exponent n lower; else the sum times a reciprocal of 15 bits, shifted
//! right to nearest, ties away from zero, and clamped to +-127.

use super::depthwise_order::Target;
use super::depthwise_pack::step;
use super::kernel::DataObject;
use super::lanes::{LANES, lane_sums, shuffle_unit};
use super::pool::{VECTOR, number, table};
use super::support::loop_over;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Bits behind the point of a reciprocal.
const RECIPROCAL_BITS: i32 = 15;
/// Most vectors of a plane that are added without a loop.
const STRAIGHT: usize = 3;

/// Planes of bytes, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAverage {
    /// Planes: images times channels.
    pub planes: usize,
    /// Bytes of a plane.
    pub size: usize,
}

/// What the sums take.
struct Sums {
    size: usize,
    ones: Register,
    /// Ones where the last vector of a plane has its elements.
    last_ones: Register,
    /// The last plane's address, and the last from which a vector can be read.
    last_plane: Register,
    last: Register,
    memory: Object,
}

impl GlobalAverage {
    fn bytes(&self) -> usize {
        self.planes * self.size
    }

    /// Whether the kernels can do it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.planes > 0 && self.size > 0 && self.bytes() < 1 << 29
    }

    /// What a sum is multiplied by; `None` if the exponent takes it.
    fn factor(&self) -> Option<i32> {
        let factor = ((2 << RECIPROCAL_BITS) + self.size) / (2 * self.size);
        (!self.size.is_power_of_two()).then(|| number(factor))
    }

    /// By how much the exponent of a mean is lower than the elements'.
    #[must_use]
    pub fn exponent(&self) -> u32 {
        if self.size.is_power_of_two() { self.size.trailing_zeros() } else { 0 }
    }

    /// Vectors of all planes.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.planes * self.size.div_ceil(VECTOR)
    }

    /// `void average(x, y)`: the mean of each plane, i32, and the table that it reads.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn forward(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Means of planes.");
        let (x, y) = (b.parameter(0), b.parameter(1));
        let (memory, result, constant) = (b.object("x"), b.object("y"), b.object("table"));
        let in_last = (self.size - 1) % VECTOR + 1;
        let mut mask = [0; VECTOR];
        mask[..in_last].fill(1);
        let table = table(name, [&[1; VECTOR], &mask]);
        let address = b.address(&table.symbol, 0);
        let readable = self.bytes().next_multiple_of(VECTOR) - VECTOR;
        let sums = Sums {
            size: self.size,
            ones: b.load(Opcode::LoadV, (address, 0), constant),
            last_ones: b.load(Opcode::LoadV, (address, 1), constant),
            last_plane: b.emit(Opcode::AddImmediate, (x, number(self.bytes() - self.size))),
            last: b.emit(Opcode::AddImmediate, (x, number(readable))),
            memory,
        };
        let mean = self.mean(&mut b);
        let unit = shuffle_unit(&mut b);
        let groups = self.planes.div_ceil(LANES);
        // Groups whose vectors can be read as they are.
        let reach = |group: usize| (group + 1) * LANES * self.size + VECTOR - in_last;
        let free = (0..groups).take_while(|&group| reach(group) <= readable + VECTOR).count();
        let free = free.min(groups - 1);
        let group = |b: &mut Builder, free: bool| {
            let words = lane_sums(b, unit, &mut |b, plane| sums.plane(b, x, plane, free));
            step(b, x, x, LANES * self.size);
            mean(b, words)
        };
        for (free, count) in [(true, free), (false, groups - 1 - free)] {
            loop_over(&mut b, count, "32 planes", |b| {
                let words = group(b, free);
                b.store(Opcode::StoreVNext, (y, 1, words), result);
            });
        }
        let words = group(&mut b, false);
        match self.planes % LANES {
            0 => b.store(Opcode::StoreV, (y, 0, words), result),
            rest => {
                let bytes = b.constant(number(4 * rest));
                let mask = b.emit(Opcode::Vsetq, (bytes,));
                b.store(Opcode::StoreVIfQ, (mask, y, 0, words), result);
            }
        }
        Ok((b.finish(None)?, table))
    }

    /// From sums to means.
    fn mean(&self, b: &mut Builder) -> impl Fn(&mut Builder, Register) -> Register + use<> {
        let constants = self.factor().map(|factor| {
            let factor = b.constant(factor << 16 | factor);
            let half = b.constant(1 << (RECIPROCAL_BITS - 1));
            let half = b.emit(Opcode::VsplatW, (half,));
            let (sign, bits) = (b.constant(31), b.constant(RECIPROCAL_BITS));
            let [most, least] = [127, -127].map(|limit| {
                let limit = b.constant(limit);
                b.emit(Opcode::VsplatW, (limit,))
            });
            (factor, half, sign, bits, most, least)
        });
        move |b, sums| {
            let Some((factor, half, sign, bits, most, least)) = constants else { return sums };
            let product = b.emit(Opcode::VmpyiWH, (sums, factor));
            let negative = b.emit(Opcode::VasrW, (product, sign));
            let product = b.emit(Opcode::VaddW, (product, negative));
            let product = b.emit(Opcode::VaddW, (product, half));
            let mean = b.emit(Opcode::VasrW, (product, bits));
            let mean = b.emit(Opcode::VminW, (mean, most));
            b.emit(Opcode::VmaxW, (mean, least))
        }
    }

    /// Bytes of working memory of [`Self::gradient`].
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        3 * VECTOR
    }

    /// `void gradient(dy, dx, working memory)`: each element of a plane takes the mean of its error.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn gradient(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Means of errors go to all elements of their planes.");
        let (dy, dx, end) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (memory, result) = (b.object("dy"), b.object("dx"));
        let target = Target::new(&mut b, dx, end, self.bytes(), result);
        let (least, most) = (b.constant(-127), b.constant(127));
        let half = b.constant(1 << (RECIPROCAL_BITS - 1));
        let factor = self.factor().map(|factor| b.constant(factor));
        let plane = b.copy(dx);
        loop_over(&mut b, self.planes, "planes", |b| {
            let mut error = b.load(Opcode::LoadBNext, (dy, 1), memory);
            if let Some(factor) = factor {
                let product = b.emit(Opcode::Multiply, (error, factor));
                let negative = b.emit(Opcode::ArithmeticRightImmediate, (product, 31));
                let product = b.emit(Opcode::Add, (product, negative));
                let product = b.emit(Opcode::Add, (product, half));
                error = b.emit(Opcode::ArithmeticRightImmediate, (product, RECIPROCAL_BITS));
                error = b.emit(Opcode::Min, (error, most));
            }
            let error = b.emit(Opcode::Max, (error, least));
            let errors = b.emit(Opcode::VsplatB, (error,));
            let to = b.copy(plane);
            loop_over(b, self.size.div_ceil(VECTOR), "vectors of a plane", |b| {
                target.store(b, to, errors);
                step(b, to, to, VECTOR);
            });
            step(b, plane, plane, self.size);
        });
        target.finish(&mut b, self.first_behind());
        b.finish(None)
    }

    /// The first place from which a vector of the gradient would leave it, if any would.
    fn first_behind(&self) -> Option<usize> {
        let near = VECTOR.div_ceil(self.size) + 1;
        let planes = self.planes.saturating_sub(near)..self.planes;
        let vectors =
            |plane: usize| (0..self.size).step_by(VECTOR).map(move |at| plane * self.size + at);
        planes.flat_map(vectors).find(|at| at + VECTOR > self.bytes())
    }
}

impl Sums {
    /// A vector whose lanes add up to a plane's sum. Where its vectors may not be read as they are, a plane behind the
    /// last is the last.
    fn plane(&self, b: &mut Builder, x: Register, plane: usize, free: bool) -> Register {
        let mut at = b.emit(Opcode::AddImmediate, (x, number(plane * self.size)));
        if !free {
            at = b.emit(Opcode::MinU, (at, self.last_plane));
        }
        let whole = self.size.div_ceil(VECTOR) - 1;
        let sum = b.fresh(Class::V);
        let add = |b: &mut Builder| {
            let x = b.load(Opcode::LoadVUnalignedNext, (at, 1), self.memory);
            b.update(Opcode::VrmpyBBvAccumulate, (sum, x, self.ones));
        };
        if whole > 0 {
            let x = b.load(Opcode::LoadVUnalignedNext, (at, 1), self.memory);
            b.emit_to(sum, Opcode::VrmpyBBv, (x, self.ones));
            if whole <= STRAIGHT {
                (1..whole).for_each(|_| add(b));
            } else {
                loop_over(b, whole - 1, "vectors of a plane", add);
            }
        }
        let last = match free {
            true => b.load(Opcode::LoadVUnaligned, (at, 0), self.memory),
            false => {
                let address = b.emit(Opcode::MinU, (at, self.last));
                let turn = b.emit(Opcode::Sub, (at, address));
                let x = b.load(Opcode::LoadVUnaligned, (address, 0), self.memory);
                b.emit(Opcode::Vror, (x, turn))
            }
        };
        match whole {
            0 => b.emit_to(sum, Opcode::VrmpyBBv, (last, self.last_ones)),
            _ => b.update(Opcode::VrmpyBBvAccumulate, (sum, last, self.last_ones)),
        }
        sum
    }
}
