//! Maxima of 2x2 windows at stride 2 without padding, and their gradient, on bytes.
//!
//! A vector holds several pairs of rows (or several small planes) as they lie in memory. The window's maximum is formed
//! at its top left byte; one pass of a delta network then moves these bytes together, or spreads the errors out. Vectors
//! are stored whole, in the order of memory: what lies beyond the valid bytes is written anew by the next store. The
//! last stores, which would leave the buffer, are masked.

use super::kernel::DataObject;
use super::support::loop_over;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Bytes of a vector.
pub(super) const VECTOR: usize = 128;
/// Fewest results of a vector: with fewer, the code of the masked stores grows out of proportion.
const FEWEST: usize = 8;

/// Planes of bytes, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Planes: images times channels.
    pub planes: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Bytes of a row.
    pub width: usize,
}

/// What is done alike, again and again.
pub(super) struct Layout {
    /// Parts that are walked one by one, their bytes, and their windows.
    pub(super) parts: usize,
    pub(super) part_bytes: usize,
    pub(super) part_windows: usize,
    /// Units of a part, their bytes and windows, and how many a vector holds.
    pub(super) units: usize,
    pub(super) unit_bytes: usize,
    pub(super) unit_windows: usize,
    pub(super) together: usize,
    /// Top left bytes of the windows of a vector.
    pub(super) places: Vec<usize>,
}

/// A pointer that moves on with the windows, and what it counts.
#[derive(Clone, Copy)]
pub(super) enum Pointer {
    /// Bytes of the planes, from this one on.
    Plane(Register, Register, usize),
    /// Windows, each of so many bytes.
    Window(Register, Register, usize),
}

impl Pool {
    fn windows(&self) -> [usize; 2] {
        [self.height / 2, self.width / 2]
    }

    /// Bytes of the operand.
    pub(super) fn bytes(&self) -> usize {
        self.planes * self.height * self.width
    }

    /// Windows of all planes.
    #[must_use]
    pub fn results(&self) -> usize {
        let [rows, columns] = self.windows();
        self.planes * rows * columns
    }

    /// Whether the kernels can do it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let fits = self.width <= VECTOR && i32::try_from(self.bytes() + 2 * VECTOR).is_ok();
        let some = self.results() > 0;
        some && fits
            && [false, true].into_iter().all(|gradient| {
                let layout = self.layout(gradient);
                layout.places.len() >= FEWEST.min(self.results())
                    && gather(&layout.places).is_some()
            })
    }

    /// Vectors of a pass over all windows.
    #[must_use]
    pub fn vectors(&self, gradient: bool) -> usize {
        let layout = self.layout(gradient);
        layout.parts * layout.units.div_ceil(layout.together)
    }

    pub(super) fn layout(&self, gradient: bool) -> Layout {
        let [rows, columns] = self.windows();
        let plane = self.height * self.width;
        let pair = 2 * self.width;
        let at = |rows: usize| -> Vec<usize> {
            (0..rows).flat_map(|row| (0..columns).map(move |c| row * pair + 2 * c)).collect()
        };
        let (parts, units, unit_bytes, unit) = if self.height.is_multiple_of(2) {
            (1, self.planes * rows, pair, at(1))
        } else if plane <= VECTOR / 2 {
            (1, self.planes, plane, at(rows))
        } else {
            (self.planes, rows, pair, at(1))
        };
        let last = unit.last().map_or(0, |place| place + 2);
        let room = if gradient { VECTOR / unit_bytes } else { (VECTOR - last) / unit_bytes + 1 };
        let together = room.clamp(1, units.max(1));
        let places = (0..together).flat_map(|k| unit.iter().map(move |at| k * unit_bytes + at));
        Layout {
            parts,
            part_bytes: self.bytes() / parts,
            part_windows: self.results() / parts,
            units,
            unit_bytes,
            unit_windows: unit.len(),
            together,
            places: places.collect(),
        }
    }

    /// `void pool(x, y)`, and the table that it reads.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn forward(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let layout = self.layout(false);
        let mut b = Builder::new(name, 2);
        b.purpose("Maxima of 2x2 windows at stride 2.");
        let (x, y) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("y"), b.object("table"));
        let table = table(name, [&gather(&layout.places).unwrap_or([0; VECTOR])]);
        let network = b.address(&table.symbol, 0);
        let network = b.load(Opcode::LoadV, (network, 0), memory.2);
        let one = b.constant(1);
        let maxima = |b: &mut Builder, rows: [Register; 2]| {
            let most = b.emit(Opcode::VmaxB, (rows[0], rows[1]));
            let next = b.emit(Opcode::Vror, (most, one));
            let most = b.emit(Opcode::VmaxB, (most, next));
            b.emit(Opcode::Vrdelta, (most, network))
        };
        let (top, bottom, to) = (b.copy(x), b.copy(x), b.copy(y));
        let pointers = [
            Pointer::Plane(top, x, 0),
            Pointer::Plane(bottom, x, self.width),
            Pointer::Window(to, y, 1),
        ];
        let bytes = self.bytes().next_multiple_of(VECTOR);
        let inside = |byte: usize, window: usize| {
            byte + self.width + VECTOR <= bytes && window + VECTOR <= self.results()
        };
        let whole = |b: &mut Builder| {
            let rows = [top, bottom].map(|row| b.load(Opcode::LoadVUnaligned, (row, 0), memory.0));
            let result = maxima(b, rows);
            b.store(Opcode::StoreVUnaligned, (to, 0, result), memory.1);
        };
        let masked = |b: &mut Builder, byte: usize, window: usize, units: usize| {
            let rows = [byte, byte + self.width].map(|at| load(b, x, memory.0, at, bytes));
            let result = maxima(b, rows);
            store(b, y, memory.1, window..window + units * layout.unit_windows, result);
        };
        layout.walk(&mut b, &pointers, &inside, &whole, &masked, &|_, _| {});
        Ok((b.finish(None)?, table))
    }

    /// `void gradient(x, dy, dx)`: the error goes to the first maximum, -128 as -127; and the table that it reads.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn gradient(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let layout = self.layout(true);
        let mut b = Builder::new(name, 3);
        b.purpose("Errors of 2x2 windows at stride 2 go to the first maximum.");
        let (x, dy, dx) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("x"), b.object("dy"), b.object("dx"), b.object("table"));
        let mut places = [0; VECTOR];
        layout.places.iter().for_each(|&at| places[at] = 0xff);
        let table = table(name, [&gather(&layout.places).unwrap_or([0; VECTOR]), &places]);
        let address = b.address(&table.symbol, 0);
        let network = b.load(Opcode::LoadV, (address, 0), memory.3);
        let places = b.load(Opcode::LoadV, (address, 1), memory.3);
        let (zero, least) = (b.constant(0), b.constant(-127));
        let (zero, least) = (b.emit(Opcode::VsplatW, (zero,)), b.emit(Opcode::VsplatB, (least,)));
        let (one, back) = (b.constant(1), b.constant(-1));
        // Where one vector holds both rows of its pairs, they leave together.
        let both = layout.unit_bytes <= VECTOR;
        let down = b.constant(-i32::try_from(self.width).unwrap_or(0));
        let errors = |b: &mut Builder, rows: [Register; 2], error: Register| {
            let error = b.emit(Opcode::VmaxB, (error, least));
            let spread = b.emit(Opcode::Vdelta, (error, network));
            let mut left = b.emit(Opcode::Vand, (spread, places));
            let vertical = b.emit(Opcode::VmaxB, (rows[0], rows[1]));
            let next = b.emit(Opcode::Vror, (vertical, one));
            let most = b.emit(Opcode::VmaxB, (vertical, next));
            let mut results = Vec::new();
            for row in rows {
                let right = b.emit(Opcode::Vror, (row, one));
                let mut taken = [row, right].map(|tap| {
                    let wins = b.emit(Opcode::VcompareEqB, (tap, most));
                    let taken = b.emit(Opcode::Vmux, (wins, left, zero));
                    left = b.emit(Opcode::Vmux, (wins, zero, left));
                    taken
                });
                taken[1] = b.emit(Opcode::Vror, (taken[1], back));
                results.push(b.emit(Opcode::Vor, (taken[0], taken[1])));
            }
            if both {
                let lower = b.emit(Opcode::Vror, (results[1], down));
                results = vec![b.emit(Opcode::Vor, (results[0], lower))];
            }
            results
        };
        let (top, bottom, from) = (b.copy(x), b.copy(x), b.copy(dy));
        let to = [b.copy(dx), b.copy(dx)];
        let pointers = [
            Pointer::Plane(top, x, 0),
            Pointer::Plane(bottom, x, self.width),
            Pointer::Window(from, dy, 1),
            Pointer::Plane(to[0], dx, 0),
            Pointer::Plane(to[1], dx, self.width),
        ];
        let bytes = self.bytes().next_multiple_of(VECTOR);
        let windows = self.results().next_multiple_of(VECTOR);
        // Also the row of zeros that may follow.
        let inside = |byte: usize, window: usize| {
            byte + layout.together * layout.unit_bytes + self.width + VECTOR <= self.bytes()
                && window + VECTOR <= windows
        };
        let whole = |b: &mut Builder| {
            let rows = [top, bottom].map(|row| b.load(Opcode::LoadVUnaligned, (row, 0), memory.0));
            let error = b.load(Opcode::LoadVUnaligned, (from, 0), memory.1);
            for (result, to) in errors(b, rows, error).into_iter().zip(to) {
                b.store(Opcode::StoreVUnaligned, (to, 0, result), memory.2);
            }
        };
        let masked = |b: &mut Builder, byte: usize, window: usize, units: usize| {
            let rows = [byte, byte + self.width].map(|at| load(b, x, memory.0, at, bytes));
            let error = load(b, dy, memory.1, window, windows);
            let length = if both { units * layout.unit_bytes } else { self.width };
            for (row, result) in errors(b, rows, error).into_iter().enumerate() {
                let at = byte + row * self.width;
                store(b, dx, memory.2, at..at + length, result);
            }
        };
        // The row without a window.
        let after = |b: &mut Builder, byte: Option<usize>| {
            if layout.units * layout.unit_bytes == layout.part_bytes {
                return;
            }
            match byte {
                None => b.store(Opcode::StoreVUnaligned, (to[0], 0, zero), memory.2),
                Some(at) => store(b, dx, memory.2, at..at + self.width, zero),
            }
        };
        layout.walk(&mut b, &pointers, &inside, &whole, &masked, &after);
        Ok((b.finish(None)?, table))
    }
}

impl Layout {
    /// Goes over all windows: `whole` where `inside(byte, window)` says that whole vectors may be read and written, then
    /// `masked(byte, window, units)`. `after` comes after each part, with its last bytes' place where it is masked.
    pub(super) fn walk(
        &self,
        b: &mut Builder,
        pointers: &[Pointer],
        inside: &dyn Fn(usize, usize) -> bool,
        whole: &dyn Fn(&mut Builder),
        masked: &dyn Fn(&mut Builder, usize, usize, usize),
        after: &dyn Fn(&mut Builder, Option<usize>),
    ) {
        let groups = self.units.div_ceil(self.together);
        let place = |part: usize, group: usize| {
            let unit = group * self.together;
            (
                part * self.part_bytes + unit * self.unit_bytes,
                part * self.part_windows + unit * self.unit_windows,
            )
        };
        let free = |part: usize, group: usize| {
            let (byte, window) = place(part, group);
            inside(byte, window)
        };
        let step = |b: &mut Builder, bytes: usize, windows: usize| {
            for pointer in pointers {
                let (register, by) = match *pointer {
                    Pointer::Plane(register, ..) => (register, bytes),
                    Pointer::Window(register, _, bytes) => (register, windows * bytes),
                };
                if by > 0 {
                    b.emit_to(register, Opcode::AddImmediate, (register, number(by)));
                }
            }
        };
        let units = |b: &mut Builder, units: usize| {
            whole(b);
            step(b, units * self.unit_bytes, units * self.unit_windows);
        };
        let start = |b: &mut Builder, part: usize| {
            let (byte, window) = place(part, 0);
            for pointer in pointers {
                let (register, base, at) = match *pointer {
                    Pointer::Plane(register, base, offset) => (register, base, byte + offset),
                    Pointer::Window(register, base, bytes) => (register, base, window * bytes),
                };
                b.emit_to(register, Opcode::AddImmediate, (base, number(at)));
            }
        };
        let parts = (0..self.parts).take_while(|&part| free(part, groups - 1)).count();
        start(b, 0);
        loop_over(b, parts, "planes", |b| {
            let full = self.units / self.together;
            loop_over(b, full, "vectors of a plane", |b| units(b, self.together));
            if full < groups {
                units(b, self.units - full * self.together);
            }
            after(b, None);
            step(b, self.part_bytes - self.units * self.unit_bytes, 0);
        });
        for part in parts..self.parts {
            let count = (0..groups - 1).take_while(|&group| free(part, group)).count();
            if count > 0 {
                start(b, part);
                loop_over(b, count, "vectors", |b| units(b, self.together));
            }
            for group in count..groups {
                let (byte, window) = place(part, group);
                let units = self.together.min(self.units - group * self.together);
                b.comment(&format!("From window {window}, masked"));
                masked(b, byte, window, units);
            }
            after(b, Some(place(part, 0).0 + self.units * self.unit_bytes));
        }
    }
}

pub(super) fn number(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// The controls of `vrdelta` that bring the bytes at these places to the front, in order; with `vdelta` they go from the
/// front to the places. `None` if two would meet.
pub(super) fn gather(places: &[usize]) -> Option<[u8; VECTOR]> {
    let mut controls = [0; VECTOR];
    let mut held: Vec<usize> = places.to_vec();
    for stage in 0..7 {
        let bit = 1 << stage;
        let mut taken = [false; VECTOR];
        for (target, at) in held.iter_mut().enumerate() {
            let next = *at & !bit | target & bit;
            if std::mem::replace(taken.get_mut(next)?, true) {
                return None;
            }
            if next != *at {
                // An exchange: then the way back has the same controls.
                controls[next] |= bit as u8;
                controls[*at] |= bit as u8;
            }
            *at = next;
        }
    }
    Some(controls)
}

pub(super) fn table<const N: usize>(name: &str, vectors: [&[u8; VECTOR]; N]) -> DataObject {
    let words = vectors.into_iter().flat_map(|vector| vector.chunks_exact(4));
    let words = words.map(|w| i32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    DataObject { symbol: format!("{name}_table"), words }
}

/// A vector from a place in a buffer of so many bytes, whole vectors; beyond its end, anything.
pub(super) fn load(
    b: &mut Builder,
    base: Register,
    object: Object,
    at: usize,
    bytes: usize,
) -> Register {
    let last = bytes - VECTOR;
    let address = b.emit(Opcode::AddImmediate, (base, number(at.min(last))));
    let vector = b.load(Opcode::LoadVUnaligned, (address, 0), object);
    if at <= last {
        return vector;
    }
    let turn = b.constant(number(at - last));
    b.emit(Opcode::Vror, (vector, turn))
}

/// The first bytes of a vector to a place in an aligned buffer, and no other byte.
pub(super) fn store(
    b: &mut Builder,
    base: Register,
    object: Object,
    range: std::ops::Range<usize>,
    vector: Register,
) {
    let first = range.start % VECTOR;
    let end = first + range.len();
    let turn = b.constant(-number(first));
    let turned = b.emit(Opcode::Vror, (vector, turn));
    for (block, from, to) in [(0, first, end.min(VECTOR)), (1, 0, end.saturating_sub(VECTOR))] {
        if to == 0 {
            continue;
        }
        let at = range.start - first + block * VECTOR;
        let address = b.emit(Opcode::AddImmediate, (base, number(at)));
        let mut below = |count: usize| {
            let count = b.constant(number(count));
            b.emit(Opcode::Vsetq, (count,))
        };
        match (from, to) {
            (0, VECTOR) => b.store(Opcode::StoreV, (address, 0, turned), object),
            (0, to) => {
                let mask = below(to);
                b.store(Opcode::StoreVIfQ, (mask, address, 0, turned), object);
            }
            (from, VECTOR) => {
                let mask = below(from);
                b.store(Opcode::StoreVIfNotQ, (mask, address, 0, turned), object);
            }
            (from, to) => {
                let (low, high) = (below(from), below(to));
                let mask = b.emit(Opcode::QXor, (low, high));
                b.store(Opcode::StoreVIfQ, (mask, address, 0, turned), object);
            }
        }
    }
}
