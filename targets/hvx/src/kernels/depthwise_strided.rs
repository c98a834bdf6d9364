//! A depthwise convolution at stride 2 whose planes fill vectors, and its error gradient, with one row and one column of padding
//! before: only the windows that there are, and only the taps that each error has.
//!
//! Forward, even and odd rows of two vectors come apart. A word of four columns has the taps of one window as it is, and those of the
//! one before when shifted by a column.
//!
//! The error gradient turns pairs of errors into words with the pair behind them. Four words of weights take from each the errors of
//! four columns; even rows have the middle taps, odd rows those of two rows of errors.

use super::depthwise::{Line, Sweep};
use super::depthwise_pass::{SheetFinish, SheetPass};
use super::depthwise_sheet::{Beside, Sheet, rows_apart};
use super::depthwise_wide::in_order;
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
/// Packets in which 128 positions' wide sums are put in order; those more of 64 errors, of rows shorter than a vector, and where there
/// are more of a channel: the sums of all of them are under way at once.
const WIDE: usize = 2;
const WIDE_ERRORS: [usize; 2] = [7, 14];

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
    /// As a sweep's.
    unsigned: bool,
    wide: bool,
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
    /// Whether 128 is added.
    flips: bool,
}

/// Where sums go.
struct Sums {
    to: Register,
    result: Object,
    /// The bits of the magnitudes, unless sums stay wide.
    all: Option<Register>,
}

impl Strided {
    /// The windows or the errors of a sweep; `None` if these kernels cannot do it.
    pub(super) fn of(sweep: &Sweep) -> Option<Strided> {
        let Sweep { images, channels, vertical, horizontal, turned, unsigned, wide } = *sweep;
        let lines = [&vertical, &horizontal];
        let forward = |line: &&Line| {
            let own = [line.step, line.stride, line.before];
            own == [1, 2, 1] && line.input == 2 * line.output
        };
        let error = |line: &&Line| {
            let own = [line.step, line.stride, line.before + 2];
            own == [2, 1, line.taps] && line.output == 2 * line.input
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
        let (operand, result) = (together(operand), together(result));
        let strided = Strided { pass, operand, result, words, unsigned, wide };
        let supported = lines.iter().all(fit)
            && words.is_supported()
            && beside.is_power_of_two()
            && strided.channel().is_multiple_of(least)
            && strided.operand.is_supported()
            && strided.result.is_supported()
            && strided.row() <= HALF
            && (!wide || strided.result.wide().is_divisible())
            && strided.operand.sheet.bytes().is_multiple_of(4 * VECTOR);
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

    /// Packets more of 64 errors where their sums stay wide.
    fn wide_errors(&self) -> usize {
        match self.pass {
            Pass::Forward => 0,
            Pass::Error if self.channel() > HALF => WIDE_ERRORS[1],
            Pass::Error if 8 * self.row() < VECTOR => WIDE_ERRORS[0],
            Pass::Error => 0,
        }
    }

    /// An estimate of the packets of a launch.
    pub(super) fn packets(&self) -> usize {
        let bytes = self.operand.sheet.bytes();
        let (size, [each, kernel]) = match self.pass {
            Pass::Forward => (2 * VECTOR, WINDOWS),
            Pass::Error => (HALF, ERRORS),
        };
        let vectors = self.result.sheet.all_vectors();
        let finish = match self.wide {
            true => {
                let more = bytes / size * self.wide_errors();
                vectors * WIDE + more + self.result.wide().packets()
            }
            false => vectors * ROUNDING + self.result.packets(),
        };
        self.words.packets()
            + bytes / size * each
            + bytes / self.channel() * kernel
            + self.operand.packets()
            + finish
            + 40
    }

    /// `int kernel(planes, kernels, result, working memory)`: requantises; returns the shift.
    pub(super) fn kernel(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        let order = match self.pass {
            Pass::Forward => Order::Halves,
            Pass::Error => Order::Rows(2 * self.row()),
        };
        let finish = SheetFinish::Requantize { bits, low, order };
        self.sheet_pass().kernel(name, |name| self.sums(name), finish)
    }

    /// `void kernel(planes, kernels, sums, working memory)`.
    pub(super) fn wide_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        self.sheet_pass().kernel(name, |name| self.sums(name), SheetFinish::Wide)
    }

    fn sheet_pass(&self) -> SheetPass<'_> {
        SheetPass { words: &self.words, operand: &self.operand, result: &self.result }
    }

    /// How far from a column to the one that is read instead.
    fn shift(&self) -> isize {
        match self.pass {
            Pass::Forward => -1,
            Pass::Error => 2,
        }
    }

    /// `int sums(vectors in order, words, sums)`: the bitwise or of the magnitudes of all sums; and the table that it reads. Wide
    /// sums are put in order, and nothing is returned.
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
        let padding = b.constant(if self.unsigned { 0 } else { -128 });
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
            flips: !self.unsigned,
        };
        let all = (!self.wide).then(|| b.copy(zero));
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
        let Some(all) = all else {
            return Ok((b.finish(None)?, table));
        };
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
        let start = match self.unsigned {
            true => constants.zero,
            false => b.emit(Opcode::VsplatW, (words[3],)),
        };
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
            let mut wide = Vec::new();
            for (i, words) in [(1, kernel), (0, &next[..])] {
                let sum = b.copy(start);
                for (read, &word) in [before, even, odd].iter().zip(words) {
                    b.update(Opcode::VrmpyUbBAccumulate, (sum, read[i], word));
                }
                sums.put(b, sum, &mut wide);
            }
            for sum in in_order(b, &wide) {
                sums.store(b, sum);
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
    let starts = match constants.flips {
        true => [start(&[1]), start(&[2, 0])],
        false => [[constants.zero; 2]; 2],
    };
    for (vector, &own) in pairs.iter().enumerate() {
        let next = pairs.get(vector + 1).copied().unwrap_or(constants.padding);
        let below = b.fresh(Class::V);
        let others = [constants.padding, next];
        rows_apart(b, below, own, others, (row.cast_signed(), constants.row));
        let even: &[(Register, usize)] = &[(own, 1)];
        let odd: &[(Register, usize)] = &[(own, 2), (below, 0)];
        let mut wide = [Vec::new(), Vec::new()];
        for ((rows, start), wide) in [even, odd].into_iter().zip(starts).zip(&mut wide) {
            for column in 0..4 {
                let sum = b.copy(start[column % 2]);
                for &(errors, row) in rows {
                    let word = kernel[row][column];
                    b.update(Opcode::VrmpyUbBAccumulate, (sum, errors, word));
                }
                sums.put(b, sum, wide);
            }
        }
        if sums.all.is_none() {
            let rows = wide.map(|sums| in_order(b, &sums));
            sums.put_rows(b, rows, 4 * row);
        }
    }
}

impl Sums {
    /// Stores sums, or keeps them for later if they are wide.
    fn put(&self, b: &mut Builder, sum: Register, wide: &mut Vec<Register>) {
        let Some(all) = self.all else { return wide.push(sum) };
        self.store(b, sum);
        let magnitude = b.emit(Opcode::VabsW, (sum,));
        b.emit_to(all, Opcode::Vor, (all, magnitude));
    }

    fn store(&self, b: &mut Builder, sum: Register) {
        b.store(Opcode::StoreVNext, (self.to, 1, sum), self.result);
    }

    /// Stores wide sums of even rows and odd rows of so many bytes.
    fn put_rows(&self, b: &mut Builder, [even, odd]: [Vec<Register>; 2], bytes: usize) {
        let rows: Vec<Register> = if bytes < VECTOR {
            let unit = b.constant(-number(bytes));
            let both = even.into_iter().zip(odd);
            let both = both.map(|(even, odd)| b.emit(Opcode::Vshuff, (odd, even, unit)));
            both.flat_map(|both| [both.low(), both.high()]).collect()
        } else {
            let vectors = bytes / VECTOR;
            let both = even.chunks(vectors).zip(odd.chunks(vectors));
            both.flat_map(|(even, odd)| [even, odd].concat()).collect()
        };
        for (i, &sum) in rows.iter().enumerate() {
            b.store(Opcode::StoreV, (self.to, number(i), sum), self.result);
        }
        b.emit_to(self.to, Opcode::AddImmediate, (self.to, number(rows.len() * VECTOR)));
    }
}

impl Constants {
    /// The next vector, 128 added where it is signed.
    fn codes(&self, b: &mut Builder, (from, source): (Register, Object)) -> Register {
        let codes = b.load(Opcode::LoadVNext, (from, 1), source);
        if self.flips { b.emit(Opcode::Vxor, (codes, self.padding)) } else { codes }
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
