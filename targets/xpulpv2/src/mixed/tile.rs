//! The tile: four filters by one, two or four columns, over a whole group of filters after group, with their output stage.
//!
//! Registers bound it: 16 sums, a word of each column, a word of each filter (8 bits: two in turn), one for what is unpacked,
//! and two addresses are 24 (8 bits) and 27 of the 28 there are. A word of narrow weights serves once for each of its parts: shifted left and
//! back by bytes, which extends the signs of four at a time; the last part needs no shift to the left. Loads are ordered so that
//! nothing waits for them.

use crate::instructions::{
    Binary, Block, Builder, Immediate, Kind, Register, Slot, Ternary, Width,
};

use super::layout::FILTERS;
use super::stage::{Clamp, TileStage};

/// What a tile is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tile {
    /// 1, 2 or 4.
    pub(crate) columns: usize,
    /// Bits of a weight.
    pub(crate) bits: usize,
    /// Whether the operand has signs.
    pub(crate) signed: bool,
    /// Rows of the kernel.
    pub(crate) rows: usize,
    /// Units of a segment: words of weights for each filter.
    pub(crate) units: usize,
    /// Bytes from a column's window to the next one's.
    pub(crate) step: usize,
    /// Bytes from a word of a column to the next that is read.
    pub(crate) x_step: usize,
    /// Bytes that a window moves on with each group: four channels of a depthwise kernel, else none.
    pub(crate) group_step: usize,
    /// Bytes from a line's segment to the next line's.
    pub(crate) line: usize,
    /// Bytes from a column's results to the next one's.
    pub(crate) y_step: usize,
    pub(crate) stage: TileStage,
}

/// What an innermost loop does and costs in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InnerLoop {
    /// Instructions.
    pub instructions: u64,
    /// Cycles on RI5CY with ideal memory.
    pub cycles: u64,
    /// Multiplications.
    pub products: u64,
}

struct Slots {
    x: Slot,
    w: Slot,
    operands: Vec<Slot>,
    y: Slot,
}

impl Tile {
    /// Bytes before the second column, at which a tile of several columns gets its window.
    pub(crate) fn bias(&self) -> usize {
        if self.columns > 1 { self.step } else { 0 }
    }

    /// What a round of the innermost loop does.
    pub(crate) fn inner_loop(&self, block: &Block) -> InnerLoop {
        let (instructions, cycles) = block.inner_loop().unwrap_or((0, 0));
        // A word of a depthwise kernel's weights holds one.
        let word = if self.group_step > 0 { 1 } else { 32 / self.bits };
        let products = (self.columns * FILTERS * word) as u64;
        InnerLoop { instructions, cycles, products }
    }

    /// The instructions. Parameters: `x` (the window of column 1, or of the only one), `w`, the stage's operands, `y`,
    /// `groups`. Addresses move on with each group, `x` with channels alone.
    pub(crate) fn block(&self) -> Block {
        let mut parameters = vec![("x", Kind::Source), ("w", Kind::Source)];
        parameters.extend(self.stage.operands().iter().map(|&name| (name, Kind::Source)));
        parameters.extend([("y", Kind::Target), ("groups", Kind::Word)]);
        let (mut b, slots) = Builder::new(&parameters);
        let count = slots.len();
        let places = Slots {
            x: slots[0],
            w: slots[1],
            operands: slots[2..count - 2].to_vec(),
            y: slots[count - 2],
        };
        b.repeat(slots[count - 1], |b| {
            let sums = self.sums(b, &places);
            match self.stage {
                TileStage::Sums => {}
                TileStage::ScaleShift { shift, clamp, .. } => {
                    self.scale_shift(b, &places, &sums, shift, clamp);
                }
                TileStage::Threshold { bits: 2, flips, .. } => {
                    self.three_thresholds(b, &places, &sums, flips);
                }
                TileStage::Threshold { flips, .. } => {
                    self.fifteen_thresholds(b, &places, &sums, flips);
                }
            }
            self.store(b, &places, &sums);
            b.free(sums.into_iter().flatten());
            if self.group_step > 0 {
                let x = b.take_slot(places.x);
                b.advance(x, self.group_step as i32);
                b.keep(x, places.x);
            }
        });
        b.finish()
    }

    /// Sums by column, then filter.
    fn sums(&self, b: &mut Builder, slots: &Slots) -> Vec<Vec<Register>> {
        let sums: Vec<Vec<Register>> = (0..self.columns)
            .map(|column| (0..FILTERS).map(|f| b.word(format!("sum{f}{column}"))).collect())
            .collect();
        let (x, w) = (b.take_slot(slots.x), b.take_slot(slots.w));
        sums.iter().flatten().for_each(|&sum| b.constant(sum, 0));
        let words: Vec<Register> = (0..self.columns).map(|c| b.word(format!("x{c}"))).collect();
        let filters = if self.bits == 8 { 2 } else { FILTERS };
        let weights: Vec<Register> = (0..filters).map(|f| b.word(format!("w{f}"))).collect();
        let part = (self.bits < 8).then(|| b.word("part"));
        let all: Vec<Register> = sums.iter().flatten().copied().collect();
        b.describe("sums, by filter and column", &all);
        b.describe("addresses of operand and weights", &[x, w]);
        b.describe("a word of each column", &words);
        b.describe("words of filters", &weights);
        if let Some(part) = part {
            b.describe("a part of a filter's word, its signs extended", &[part]);
        }
        let line = self.line as i32 - (self.units * 32 / self.bits / 4 * self.x_step) as i32;
        let body = |b: &mut Builder| {
            b.hardware_loop(0, self.units, words[0], |b| match part {
                None => self.bytes(b, [x, w], &words, &weights, &sums),
                Some(part) => self.parts(b, [x, w], &words, (&weights, part), &sums),
            });
        };
        if self.rows == 1 {
            body(b);
        } else {
            b.hardware_loop(1, self.rows, words[0], |b| {
                body(b);
                if (-2048..2048).contains(&line) {
                    b.immediate(Immediate::Add, x, x, line);
                } else {
                    b.constant(words[0], line);
                    b.binary(Binary::Add, x, x, words[0]);
                }
            });
        }
        b.keep(w, slots.w);
        b.free([x]);
        b.free(words);
        b.free(weights);
        b.free(part);
        sums
    }

    fn dot(&self) -> Ternary {
        if self.signed { Ternary::DotSigned } else { Ternary::DotUnsigned }
    }

    /// Loads the next word of each column; the one at the address comes last, since it moves on.
    fn columns(&self, b: &mut Builder, x: Register, words: &[Register]) {
        let (step, at) = (self.step as i32, usize::from(self.columns > 1));
        for (column, &word) in words.iter().enumerate() {
            if column != at {
                b.load(word, x, (column as i32 - at as i32) * step);
            }
        }
        b.load_step(words[at], x, self.x_step as i32);
    }

    /// A round of 8-bit weights.
    fn bytes(
        &self,
        b: &mut Builder,
        [x, w]: [Register; 2],
        words: &[Register],
        weights: &[Register],
        sums: &[Vec<Register>],
    ) {
        b.load_step(weights[0], w, 4);
        self.columns(b, x, words);
        b.load_step(weights[1], w, 4);
        for filter in 0..FILTERS {
            for (column, &word) in words.iter().enumerate() {
                b.ternary(self.dot(), sums[column][filter], word, weights[filter % 2]);
            }
            if filter + 2 < FILTERS {
                b.load_step(weights[filter % 2], w, 4);
            }
        }
    }

    /// A round of narrower weights.
    fn parts(
        &self,
        b: &mut Builder,
        [x, w]: [Register; 2],
        words: &[Register],
        (weights, part): (&[Register], Register),
        sums: &[Vec<Register>],
    ) {
        for &weight in weights {
            b.load_step(weight, w, 4);
        }
        let parts = 8 / self.bits;
        for n in 0..parts {
            self.columns(b, x, words);
            for (filter, &weight) in weights.iter().enumerate() {
                let unused = (8 - self.bits) as i32;
                let left = unused - (n * self.bits) as i32;
                let bytes = if left == 0 {
                    b.immediate(Immediate::ShiftBytesRight, weight, weight, unused);
                    weight
                } else {
                    b.immediate(Immediate::ShiftBytesLeft, part, weight, left);
                    b.immediate(Immediate::ShiftBytesRight, part, part, unused);
                    part
                };
                for (column, &word) in words.iter().enumerate() {
                    b.ternary(self.dot(), sums[column][filter], word, bytes);
                }
            }
        }
    }

    fn scale_shift(
        &self,
        b: &mut Builder,
        slots: &Slots,
        sums: &[Vec<Register>],
        shift: u32,
        clamp: Clamp,
    ) {
        b.comment(format!("(sum * scale + offset) >> {shift}, between its bounds"));
        let [of_scale, of_offset] = [slots.operands[0], slots.operands[1]];
        let [scale, offset] = [of_scale, of_offset].map(|slot| b.take_slot(slot));
        let mut numbers = Vec::new();
        for filter in 0..FILTERS {
            let [s, o] = ["scale", "offset"].map(|name| b.word(format!("{name}{filter}")));
            b.load_step(s, scale, 4);
            b.load_step(o, offset, 4);
            numbers.push([s, o]);
        }
        b.keep(scale, of_scale);
        b.keep(offset, of_offset);
        let bounds = match clamp {
            Clamp::Between(low, high) => {
                let bounds = [("low", low), ("high", high)];
                bounds
                    .map(|(name, value)| {
                        let register = b.word(name);
                        b.constant(register, value);
                        register
                    })
                    .to_vec()
            }
            _ => Vec::new(),
        };
        for column in sums {
            for (&sum, &[s, o]) in column.iter().zip(&numbers) {
                b.binary(Binary::Multiply, sum, sum, s);
                b.add_shift(sum, sum, o, shift);
                match clamp {
                    Clamp::Signed(n) => b.immediate(Immediate::Clip, sum, sum, n),
                    Clamp::Unsigned(n) => b.immediate(Immediate::ClipUnsigned, sum, sum, n),
                    Clamp::Between(..) => {
                        b.binary(Binary::Maximum, sum, sum, bounds[0]);
                        b.binary(Binary::Minimum, sum, sum, bounds[1]);
                    }
                }
            }
        }
        b.free(numbers.into_iter().flatten().chain(bounds));
    }

    /// A sum becomes the number of its three thresholds that are above it.
    fn three_thresholds(
        &self,
        b: &mut Builder,
        slots: &Slots,
        sums: &[Vec<Register>],
        flips: bool,
    ) {
        b.comment("how many of three thresholds are above the sum");
        let rows = b.take_slot(slots.operands[0]);
        let of_flips = flips.then(|| b.take_slot(slots.operands[1]));
        let thresholds: Vec<Register> = (0..3).map(|i| b.word(format!("threshold{i}"))).collect();
        let above: Vec<Register> = (0..2).map(|i| b.word(format!("above{i}"))).collect();
        for filter in 0..FILTERS {
            if let Some(flips) = of_flips {
                b.load_step(above[0], flips, 4);
            }
            b.load(thresholds[1], rows, 4);
            b.load(thresholds[2], rows, 8);
            b.load_step(thresholds[0], rows, 12);
            if flips {
                for column in sums {
                    b.binary(Binary::Xor, column[filter], column[filter], above[0]);
                }
            }
            for column in sums {
                let sum = column[filter];
                b.binary(Binary::SetLess, above[0], sum, thresholds[1]);
                b.binary(Binary::SetLess, above[1], sum, thresholds[2]);
                b.binary(Binary::SetLess, sum, sum, thresholds[0]);
                b.binary(Binary::Add, above[0], above[0], above[1]);
                b.binary(Binary::Add, sum, sum, above[0]);
            }
        }
        b.keep(rows, slots.operands[0]);
        if let Some(flips) = of_flips {
            b.keep(flips, slots.operands[1]);
        }
        b.free(thresholds.into_iter().chain(above));
    }

    /// A sum becomes four times the number of its fifteen thresholds that are above it: binary search in their row, all
    /// columns at once. The address starts at the row and goes back by what is above; it stands for the row's upper half.
    fn fifteen_thresholds(
        &self,
        b: &mut Builder,
        slots: &Slots,
        sums: &[Vec<Register>],
        flips: bool,
    ) {
        b.comment("how many of fifteen thresholds are above the sum, by binary search, times 4");
        let halvings = [16, 8, 4].map(|bytes| {
            let register = b.word(format!("back{bytes}"));
            b.constant(register, bytes);
            register
        });
        let row = b.take_slot(slots.operands[0]);
        let places: Vec<Register> =
            (0..self.columns).map(|c| b.take(format!("place{c}"), Kind::Source)).collect();
        let above: Vec<Register> = (0..self.columns).map(|c| b.word(format!("above{c}"))).collect();
        b.describe("each column's place in the row", &places);
        for filter in 0..FILTERS {
            b.comment(format!("filter {filter}"));
            if flips {
                // No register is left for this address.
                let (address, flip) = (places[0], above[0]);
                b.load_slot(address, slots.operands[1]);
                b.load_step(flip, address, 4);
                b.store_slot(address, slots.operands[1]);
                for column in sums {
                    b.binary(Binary::Xor, column[filter], column[filter], flip);
                }
            }
            // All columns compare with the row's middle first.
            let middle = above[self.columns - 1];
            b.load(middle, row, 28);
            for (column, (&place, &above)) in sums.iter().zip(places.iter().zip(&above)) {
                b.binary(Binary::SetLess, above, column[filter], middle);
                b.immediate(Immediate::ShiftLeft, above, above, 5);
                b.binary(Binary::Subtract, place, row, above);
            }
            for (offset, halving) in [(44, 0), (52, 1), (56, 2)] {
                for (&place, &above) in places.iter().zip(&above) {
                    b.load(above, place, offset);
                }
                for (column, (&place, &above)) in sums.iter().zip(places.iter().zip(&above)) {
                    b.binary(Binary::SetLess, above, column[filter], above);
                    b.ternary(Ternary::MultiplySubtract, place, above, halvings[halving]);
                }
            }
            for (column, &place) in sums.iter().zip(&places) {
                b.binary(Binary::Subtract, column[filter], row, place);
            }
            b.immediate(Immediate::Add, row, row, 60);
        }
        b.keep(row, slots.operands[0]);
        b.free(halvings.into_iter().chain(places).chain(above));
    }

    fn store(&self, b: &mut Builder, slots: &Slots, results: &[Vec<Register>]) {
        let y = b.take_slot(slots.y);
        let bytes = match self.stage {
            TileStage::Sums => 16,
            TileStage::ScaleShift { .. } => 4,
            TileStage::Threshold { bits, .. } => FILTERS * bits / 8,
        } as i32;
        b.comment("results, column after column");
        for (n, column) in results.iter().enumerate() {
            match self.stage {
                TileStage::Sums => {
                    for (filter, &sum) in column.iter().enumerate() {
                        b.store(Width::Word, sum, y, 4 * filter as i32);
                    }
                }
                TileStage::ScaleShift { words: true, .. } => {
                    b.ternary(Ternary::PackLow, column[0], column[1], column[0]);
                    b.ternary(Ternary::PackHigh, column[0], column[3], column[2]);
                    b.store(Width::Word, column[0], y, 0);
                }
                TileStage::ScaleShift { .. } => {
                    for (filter, &result) in column.iter().enumerate() {
                        b.store(Width::Byte, result, y, filter as i32);
                    }
                }
                TileStage::Threshold { bits: 2, pattern, .. } => {
                    for (filter, &count) in column.iter().enumerate().skip(1) {
                        b.insert(column[0], count, 2, 2 * filter as u32);
                    }
                    self.pattern(b, column[0], pattern);
                    b.store(Width::Byte, column[0], y, 0);
                }
                TileStage::Threshold { pattern, halves, .. } => {
                    for (filter, &count) in column.iter().enumerate() {
                        b.immediate(Immediate::ShiftRight, count, count, 2);
                        if filter % 2 == 1 || halves && filter > 0 {
                            let into = if halves { 0 } else { filter - 1 };
                            let offset = 4 * (filter - into) as u32;
                            b.insert(column[into], count, 4, offset);
                        }
                    }
                    if halves {
                        self.pattern(b, column[0], pattern);
                        b.store(Width::Half, column[0], y, 0);
                    } else {
                        for (pair, half) in [(0, 0), (2, 1)] {
                            self.pattern(b, column[pair], pattern & 0xff);
                            b.store(Width::Byte, column[pair], y, half);
                        }
                    }
                }
            }
            if n + 1 < results.len() {
                b.advance(y, self.y_step as i32);
            }
        }
        b.advance(y, bytes - (self.y_step * (self.columns - 1)) as i32);
        b.keep(y, slots.y);
    }

    /// Exclusive-or with bits of which more than 11 may be set.
    fn pattern(&self, b: &mut Builder, result: Register, pattern: u32) {
        // Only the bits that are stored matter: 0xffff may be -1.
        let signed = match pattern {
            0 => return,
            1..=0x7ff => pattern as i32,
            0xf800..=0xffff => pattern as i32 - 0x10000,
            _ => {
                let bits = b.word("bits");
                b.constant(bits, pattern as i32);
                b.binary(Binary::Xor, result, result, bits);
                b.free([bits]);
                return;
            }
        };
        b.immediate(Immediate::Xor, result, result, signed);
    }
}
