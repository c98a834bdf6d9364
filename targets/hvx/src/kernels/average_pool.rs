//! Averages of 2x2 windows at stride 2 without padding, and their gradient: a window of four elements is their sum, the
//! exponent two lower. Vectors are walked as [`super::pool`] does.

use super::kernel::DataObject;
use super::lanes::LANES;
use super::pool::{Pointer, Pool, VECTOR, gather, load, number, store, table};
use crate::machine::{Builder, Function, MachineError, Opcode, Register};

impl Pool {
    /// `void sums(x, y)`: the sum of each window, i32, and the table that it reads.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn sums(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let layout = self.layout(false);
        let mut b = Builder::new(name, 2);
        b.purpose("Sums of 2x2 windows at stride 2.");
        let (x, y) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("y"), b.object("table"));
        // The pairs of a row side by side.
        let pairs: Vec<usize> = layout.places.iter().flat_map(|&at| [at, at + 1]).collect();
        let table = table(name, [&gather(&pairs).unwrap_or([0; VECTOR])]);
        let network = b.address(&table.symbol, 0);
        let network = b.load(Opcode::LoadV, (network, 0), memory.2);
        let (flip, ones, added) = (b.constant(-128), b.constant(0x0101_0101), b.constant(512));
        let flip = b.emit(Opcode::VsplatB, (flip,));
        let added = b.emit(Opcode::VsplatH, (added,));
        let sums = |b: &mut Builder, rows: [Register; 2]| {
            let [top, bottom] = rows.map(|row| {
                let pairs = b.emit(Opcode::Vrdelta, (row, network));
                b.emit(Opcode::Vxor, (pairs, flip))
            });
            let sums = b.emit(Opcode::VdmpyUbB, (top, ones));
            b.update(Opcode::VdmpyUbBAccumulate, (sums, bottom, ones));
            let sums = b.emit(Opcode::VsubH, (sums, added));
            let words = b.emit(Opcode::VunpackH, (sums,));
            [words.low(), words.high()]
        };
        let vectors = layout.places.len().div_ceil(LANES);
        let (top, bottom, to) = (b.copy(x), b.copy(x), b.copy(y));
        let pointers = [
            Pointer::Plane(top, x, 0),
            Pointer::Plane(bottom, x, self.width),
            Pointer::Window(to, y, 4),
        ];
        let bytes = self.bytes().next_multiple_of(VECTOR);
        let inside = |byte: usize, window: usize| {
            byte + self.width + VECTOR <= bytes && window + vectors * LANES <= self.results()
        };
        let whole = |b: &mut Builder| {
            let rows = [top, bottom].map(|row| b.load(Opcode::LoadVUnaligned, (row, 0), memory.0));
            for (i, words) in sums(b, rows).into_iter().take(vectors).enumerate() {
                b.store(Opcode::StoreVUnaligned, (to, i as i32, words), memory.1);
            }
        };
        let masked = |b: &mut Builder, byte: usize, window: usize, units: usize| {
            let rows = [byte, byte + self.width].map(|at| load(b, x, memory.0, at, bytes));
            let count = units * layout.unit_windows;
            for (i, words) in sums(b, rows).into_iter().enumerate() {
                let (first, end) = ((i * LANES).min(count), ((i + 1) * LANES).min(count));
                if first < end {
                    store(b, y, memory.1, 4 * (window + first)..4 * (window + end), words);
                }
            }
        };
        layout.walk(&mut b, &pointers, &inside, &whole, &masked, &|_, _| {});
        Ok((b.finish(None)?, table))
    }

    /// `void gradient(dy, dx)`: each element of a window takes its error, -128 as -127; and the table that it reads.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn average_gradient(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let layout = self.layout(true);
        let mut b = Builder::new(name, 2);
        b.purpose("Errors of 2x2 windows at stride 2 go to all their elements.");
        let (dy, dx) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("dy"), b.object("dx"), b.object("table"));
        let mut places = [0; VECTOR];
        layout.places.iter().for_each(|&at| places[at] = 0xff);
        let table = table(name, [&gather(&layout.places).unwrap_or([0; VECTOR]), &places]);
        let address = b.address(&table.symbol, 0);
        let network = b.load(Opcode::LoadV, (address, 0), memory.2);
        let places = b.load(Opcode::LoadV, (address, 1), memory.2);
        let (zero, least) = (b.constant(0), b.constant(-127));
        let (zero, least) = (b.emit(Opcode::VsplatW, (zero,)), b.emit(Opcode::VsplatB, (least,)));
        let back = b.constant(-1);
        // Where one vector holds both rows of its pairs, they leave together.
        let both = layout.unit_bytes <= VECTOR;
        let down = b.constant(-number(self.width));
        let errors = |b: &mut Builder, error: Register| {
            let error = b.emit(Opcode::VmaxB, (error, least));
            let spread = b.emit(Opcode::Vdelta, (error, network));
            let left = b.emit(Opcode::Vand, (spread, places));
            let right = b.emit(Opcode::Vror, (left, back));
            let row = b.emit(Opcode::Vor, (left, right));
            if !both {
                return vec![row, row];
            }
            let lower = b.emit(Opcode::Vror, (row, down));
            vec![b.emit(Opcode::Vor, (row, lower))]
        };
        let from = b.copy(dy);
        let to = [b.copy(dx), b.copy(dx)];
        let pointers = [
            Pointer::Window(from, dy, 1),
            Pointer::Plane(to[0], dx, 0),
            Pointer::Plane(to[1], dx, self.width),
        ];
        let windows = self.results().next_multiple_of(VECTOR);
        // Also the row of zeros that may follow.
        let inside = |byte: usize, window: usize| {
            byte + layout.together * layout.unit_bytes + self.width + VECTOR <= self.bytes()
                && window + VECTOR <= windows
        };
        let whole = |b: &mut Builder| {
            let error = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
            for (result, to) in errors(b, error).into_iter().zip(to) {
                b.store(Opcode::StoreVUnaligned, (to, 0, result), memory.1);
            }
        };
        let masked = |b: &mut Builder, byte: usize, window: usize, units: usize| {
            let error = load(b, dy, memory.0, window, windows);
            let length = if both { units * layout.unit_bytes } else { self.width };
            for (row, result) in errors(b, error).into_iter().enumerate() {
                let at = byte + row * self.width;
                store(b, dx, memory.1, at..at + length, result);
            }
        };
        // The row without a window.
        let after = |b: &mut Builder, byte: Option<usize>| {
            if layout.units * layout.unit_bytes == layout.part_bytes {
                return;
            }
            match byte {
                None => b.store(Opcode::StoreVUnaligned, (to[0], 0, zero), memory.1),
                Some(at) => store(b, dx, memory.1, at..at + self.width, zero),
            }
        };
        layout.walk(&mut b, &pointers, &inside, &whole, &masked, &after);
        Ok((b.finish(None)?, table))
    }
}
