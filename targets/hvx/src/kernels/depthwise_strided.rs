//! A depthwise convolution at stride 2 whose planes fill vectors, and its error gradient, with one row and one column of padding
//! before: only the windows that there are, and only the taps that each error has.
//!
//! Forward, even and odd rows of two vectors come apart. A word of four columns has the taps of one window as it is, and those of the
//! one before when shifted by a column.
//!
//! The error gradient turns pairs of errors into words with the pair behind them. Four words of weights take from each the errors of
//! four columns; even rows have the middle taps, odd rows those of two rows of errors.

use super::depthwise::{Line, Sweep};
use super::depthwise_pass::SheetPass;
use super::depthwise_sheet::{Beside, Sheet, rows_apart};
use super::depthwise_words::KernelWords;
use super::kernel::{DataObject, Kernel};
use super::pool::{VECTOR, number, table};
use super::requantize::Order;
use super::support::{loop_over, or_lanes, words as words_of, zero_vector};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Bytes of the result of two vectors, and of errors whose words are a vector.
const HALF: usize = VECTOR / 2;
/// Packets of two vectors of the operand, and of a plane's kernel; of 64 errors, and of their kernel; of rounding.
const WINDOWS: [usize; 2] = [7, 1];
const ERRORS: [usize; 2] = [14, 6];
const ROUNDING: usize = 5;

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Forward,
    Error,
}

/// A depthwise convolution at stride 2, or its error gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    pass: Pass,
    /// Of the operand, and of the result.
    operand: Beside,
    result: Beside,
    words: KernelWords,
}

/// What stays in registers.
struct Constants {
    /// To the column that is read, where one is.
    shift: Register,
    inside: Register,
    padding: Register,
    /// Bytes from a row to the next, and what comes apart or goes in turn.
    row: Register,
    unit: Register,
    zero: Register,
}

/// Where sums go.
struct Sums {
    to: Register,
    result: Object,
    all: Register,
}

impl Strided {
    /// The windows or the errors of a sweep; `None` if these kernels cannot do it.
    pub(super) fn of(sweep: &Sweep) -> Option<Strided> {
        let Sweep { images, channels, vertical, horizontal, turned } = *sweep;
        let lines = [&vertical, &horizontal];
        let forward = |line: &&Line| {
            let own = [line.step, line.stride, line.before];
            own == [1, 2, 1] && line.input == 2 * line.output
        };
        let error = |line: &&Line| {
            let own = [line.step, line.stride, line.taps - line.before];
            own == [2, 1, 2] && line.output == 2 * line.input
        };
        let pass = match turned {
            false if lines.iter().all(forward) => Pass::Forward,
            true if lines.iter().all(error) => Pass::Error,
            _ => return None,
        };
        let fit = |line: &&Line| line.dilation == 1 && (2..=3).contains(&line.taps);
        let (rows, columns) = (vertical.taps, horizontal.taps);
        let words = KernelWords { channels, rows, columns, turned: false };
        let sheet = |size: fn(&Line) -> usize| {
            let (rows, columns) = (size(&vertical), size(&horizontal));
            Sheet { images, channels, rows, columns }
        };
        let (operand, result) = (sheet(|line| line.input), sheet(|line| line.output));
        // Two vectors of the operand, or half a vector of errors, for a channel at least.
        let least = if pass == Pass::Forward { 2 * VECTOR } else { HALF };
        let beside = least.div_ceil(operand.plane().max(1));
        let together = |sheet: Sheet| Beside { sheet, images: beside, blocks: 1 };
        let strided = Strided { pass, operand: together(operand), result: together(result), words };
        let supported = lines.iter().all(fit)
            && words.is_supported()
            && beside.is_power_of_two()
            && strided.channel().is_multiple_of(least)
            && strided.operand.is_supported()
            && strided.result.is_supported()
            && strided.row() <= HALF
            && (images * channels * operand.plane()).is_multiple_of(4 * VECTOR);
        supported.then_some(strided)
    }

    /// Bytes from a row of the operand's vectors to the next.
    fn row(&self) -> usize {
        self.operand.sheet.columns * self.operand.images
    }

    /// Bytes of a channel of the images that go together.
    fn channel(&self) -> usize {
        self.operand.sheet.plane() * self.operand.images
    }

    /// An estimate of the packets of a launch.
    pub(super) fn packets(&self) -> usize {
        let bytes = self.operand.sheet.bytes();
        let (size, [each, kernel]) = match self.pass {
            Pass::Forward => (2 * VECTOR, WINDOWS),
            Pass::Error => (HALF, ERRORS),
        };
        self.words.packets()
            + bytes / size * each
            + bytes / self.channel() * kernel
            + self.result.sheet.all_vectors() * ROUNDING
            + self.operand.packets()
            + self.result.packets()
            + 40
    }

    /// `int kernel(planes, kernels, result, working memory)`: requantises; returns the shift.
    pub(super) fn kernel(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        let order = match self.pass {
            Pass::Forward => Order::Halves,
            Pass::Error => Order::Rows(2 * self.row()),
        };
        let (operand, result) = (&self.operand, &self.result);
        let pass = SheetPass { words: &self.words, operand, result, order };
        pass.kernel(name, |name| self.sums(name), bits, low)
    }

    /// How far from a column to the one that is read instead.
    fn shift(&self) -> isize {
        match self.pass {
            Pass::Forward => -1,
            Pass::Error => 2,
        }
    }

    /// `int sums(vectors in order, words, sums)`: the bitwise or of the magnitudes of all sums; and the table that it reads.
    fn sums(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Sums of each channel by its own kernel.");
        let (planes, words, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (source, kernels) = (b.object("planes"), b.object("words"));
        let (result, constant) = (b.object("sums"), b.object("table"));
        let columns = self.operand.sheet.columns;
        let inside = std::array::from_fn(|at| {
            let read = (at % columns).checked_add_signed(self.shift());
            if read.is_some_and(|read| read < columns) { 0xff } else { 0 }
        });
        let table = table(name, [&inside]);
        let address = b.address(&table.symbol, 0);
        let inside = b.load(Opcode::LoadV, (address, 0), constant);
        let bits = b.constant(-1);
        let padding = b.constant(-128);
        let (row, unit) = match self.pass {
            Pass::Forward => (self.row(), self.row()),
            Pass::Error => (2 * self.row(), 2),
        };
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let shift = i32::try_from(self.shift()).unwrap_or(0);
        let constants = Constants {
            shift: b.constant(shift),
            inside: b.emit(Opcode::QandVR, (inside, bits)),
            padding: b.emit(Opcode::VsplatB, (padding,)),
            row: b.constant(number(row)),
            unit: b.constant(-number(unit)),
            zero,
        };
        let all = b.copy(zero);
        let from = (b.copy(planes), source);
        let sums = Sums { to: b.copy(sums), result, all };
        // Channels whose operands begin and end with vectors.
        let together = VECTOR.div_ceil(self.channel());
        let channels = self.operand.sheet.channels / together;
        loop_over(&mut b, self.operand.sheet.images / self.operand.images, "images", |b| {
            let at = b.copy(words);
            loop_over(b, channels, "channels", |b| {
                let load = |b: &mut Builder| {
                    let pairs = [(); 2].map(|()| b.load(Opcode::LoadDNext, (at, 8), kernels));
                    words_of(pairs)
                };
                match self.pass {
                    Pass::Forward => {
                        let words = load(b);
                        self.windows(b, &constants, from, words, &sums);
                    }
                    Pass::Error => {
                        let vectors = self.channel() * together / VECTOR;
                        let words: Vec<Register> =
                            (0..vectors).flat_map(|_| constants.pairs(b, from)).collect();
                        for channel in words.chunks(words.len() / together) {
                            let kernel = load(b);
                            errors(b, &constants, channel, kernel, &sums, 2 * self.row());
                        }
                    }
                }
            });
        });
        let all = or_lanes(&mut b, all);
        Ok((b.finish(Some(all))?, table))
    }

    /// The sums of a channel's windows: those at even columns, those at odd columns.
    fn windows(
        &self,
        b: &mut Builder,
        constants: &Constants,
        from: (Register, Object),
        words: [Register; 4],
        sums: &Sums,
    ) {
        let start = b.emit(Opcode::VsplatW, (words[3],));
        let kernel = &words[..3];
        let next: Vec<Register> =
            kernel.iter().map(|&word| b.emit(Opcode::ShiftLeftImmediate, (word, 8))).collect();
        let row = self.row().cast_signed();
        let mut above = [constants.padding; 2];
        for _ in 0..self.channel() / (2 * VECTOR) {
            let [first, second] = [(); 2].map(|()| constants.codes(b, from));
            let rows = b.emit(Opcode::Vdeal, (second, first, constants.unit));
            // A part as it is, and shifted.
            let mut both = |part: Register| [part, constants.shifted(b, part)];
            let (even, odd) = (both(rows.low()), both(rows.high()));
            let before: [Register; 2] = std::array::from_fn(|i| {
                let result = b.fresh(Class::V);
                let others = [above[i], constants.padding];
                rows_apart(b, result, odd[i], others, (-row, constants.row));
                result
            });
            above = odd;
            for (i, words) in [(1, kernel), (0, &next[..])] {
                let sum = b.copy(start);
                for (read, &word) in [before, even, odd].iter().zip(words) {
                    b.update(Opcode::VrmpyUbBAccumulate, (sum, read[i], word));
                }
                sums.put(b, sum);
            }
        }
    }
}

/// The sums that errors of a channel come to, those of even rows, then those of odd rows: of each the columns that are 0, 1, 2, 3
/// mod 4.
fn errors(
    b: &mut Builder,
    constants: &Constants,
    pairs: &[Register],
    words: [Register; 4],
    sums: &Sums,
    row: usize,
) {
    let kernel: Vec<[Register; 4]> = words[..3]
        .iter()
        .map(|&word| {
            let middle = b.emit(Opcode::ExtractBits, (word, 8, 8));
            let outer = b.emit(Opcode::ExtractBits, (word, 8, 16));
            b.update(Opcode::InsertBits, (outer, word, 8, 8));
            let [second, fourth] =
                [middle, outer].map(|word| b.emit(Opcode::ShiftLeftImmediate, (word, 8)));
            [middle, outer, second, fourth]
        })
        .collect();
    // What the 128 of each position adds is taken off.
    let mut start = |rows: &[usize]| -> [Register; 2] {
        std::array::from_fn(|i| {
            let mut added = constants.zero;
            for (number, &row) in rows.iter().enumerate() {
                if number == 0 {
                    added = b.emit(Opcode::VrmpyUbB, (constants.padding, kernel[row][i]));
                } else {
                    let word = kernel[row][i];
                    b.update(Opcode::VrmpyUbBAccumulate, (added, constants.padding, word));
                }
            }
            b.emit(Opcode::VsubW, (constants.zero, added))
        })
    };
    let starts = [start(&[1]), start(&[2, 0])];
    for (vector, &own) in pairs.iter().enumerate() {
        let next = pairs.get(vector + 1).copied().unwrap_or(constants.padding);
        let below = b.fresh(Class::V);
        let others = [constants.padding, next];
        rows_apart(b, below, own, others, (row.cast_signed(), constants.row));
        let even: &[(Register, usize)] = &[(own, 1)];
        let odd: &[(Register, usize)] = &[(own, 2), (below, 0)];
        for (rows, start) in [even, odd].into_iter().zip(starts) {
            for column in 0..4 {
                let sum = b.copy(start[column % 2]);
                for &(errors, row) in rows {
                    let word = kernel[row][column];
                    b.update(Opcode::VrmpyUbBAccumulate, (sum, errors, word));
                }
                sums.put(b, sum);
            }
        }
    }
}

impl Sums {
    fn put(&self, b: &mut Builder, sum: Register) {
        b.store(Opcode::StoreVNext, (self.to, 1, sum), self.result);
        let magnitude = b.emit(Opcode::VabsW, (sum,));
        b.emit_to(self.all, Opcode::Vor, (self.all, magnitude));
    }
}

impl Constants {
    /// The next vector, 128 added.
    fn codes(&self, b: &mut Builder, (from, source): (Register, Object)) -> Register {
        let codes = b.load(Opcode::LoadVNext, (from, 1), source);
        b.emit(Opcode::Vxor, (codes, self.padding))
    }

    /// A vector shifted by columns, padding where there are none.
    fn shifted(&self, b: &mut Builder, vector: Register) -> Register {
        let turned = b.emit(Opcode::Vror, (vector, self.shift));
        b.emit(Opcode::Vmux, (self.inside, turned, self.padding))
    }

    /// The next vector's pairs of columns, each with the one behind it: two vectors.
    fn pairs(&self, b: &mut Builder, from: (Register, Object)) -> [Register; 2] {
        let codes = self.codes(b, from);
        let behind = self.shifted(b, codes);
        let both = b.emit(Opcode::Vshuff, (behind, codes, self.unit));
        [both.low(), both.high()]
    }
}
