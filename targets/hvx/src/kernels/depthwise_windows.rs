//! A depthwise convolution at stride 1 of planes that fill vectors, as large as its result: all positions of a vector are windows.
//!
//! Of each vector there are two, a row's words shifted by the padding and the words behind those, what is no position being padding;
//! rows of the kernel read them rows apart.

use super::depthwise::{Line, Sweep};
use super::depthwise_pass::{SheetFinish, SheetPass};
use super::depthwise_sheet::{Sheet, rows_apart};
use super::depthwise_wide::in_order;
use super::depthwise_words::{KernelWords, WORDS};
use super::kernel::{DataObject, Kernel};
use super::pool::{VECTOR, number, table};
use super::requantize::Order;
use super::support::{loop_over, or_lanes, words as words_of, zero_vector};
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Packets of 128 positions: their sums, those where a plane is too long for rounds to overlap, and those of a second channel; their
/// rounding.
const SUMS: usize = 10;
const LONG_SUMS: usize = 14;
const SECOND_SUMS: usize = 6;
const ROUNDING: usize = 5;
/// Packets in which 128 positions' wide sums are put in order.
const WIDE: usize = 2;
/// Most vectors of a plane whose rounds overlap.
const OVERLAPPING: usize = 5;

/// A depthwise convolution whose planes fill vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SheetWindows {
    sheet: Sheet,
    words: KernelWords,
    /// Rows and columns of padding before.
    before: [usize; 2],
    /// As a sweep's.
    unsigned: bool,
    wide: bool,
}

/// What stays in registers.
struct Constants {
    /// From the first column of a word to the first position that it reads, and to that behind its last.
    shifts: [Register; 2],
    /// Columns that are positions then.
    inside: [Register; 2],
    padding: Register,
    /// Whether 128 is added.
    flips: bool,
    /// Rows apart in bytes, one and two.
    rows: [Register; 2],
    /// Positions of the second of two channels.
    second: Register,
}

impl SheetWindows {
    /// The windows of a sweep; `None` if these kernels cannot do it.
    pub(super) fn of(sweep: &Sweep) -> Option<SheetWindows> {
        let Sweep { images, channels, vertical, horizontal, turned, unsigned, wide } = *sweep;
        let sheet = Sheet { images, channels, rows: vertical.input, columns: horizontal.input };
        let (rows, columns) = (vertical.taps, horizontal.taps);
        let words = KernelWords { channels, rows, columns, turned };
        let before = [vertical.before, horizontal.before];
        let same = |line: &Line| {
            let steps = [line.step, line.stride, line.dilation];
            steps == [1; 3] && line.input == line.output && line.before < line.taps
        };
        let all_same = same(&vertical) && same(&horizontal);
        let windows = SheetWindows { sheet, words, before, unsigned, wide };
        let supported = all_same
            && sheet.is_supported()
            && words.is_supported()
            && (!wide || sheet.beside_all().wide().is_divisible());
        (supported && windows.reach() <= VECTOR).then_some(windows)
    }

    /// Bytes to the farthest row that a row of windows reads.
    fn reach(&self) -> usize {
        self.sheet.row() * self.before[0].max(self.words.rows - 1 - self.before[0])
    }

    /// An estimate of the packets of a launch.
    pub(super) fn packets(&self) -> usize {
        let sums = if self.sheet.vectors() > OVERLAPPING { LONG_SUMS } else { SUMS };
        let beside = self.sheet.beside_all();
        if self.wide {
            let each = sums + SECOND_SUMS * (self.sheet.channels_beside() - 1) + WIDE;
            return self.words.packets()
                + self.sheet.all_vectors() * each
                + beside.packets()
                + beside.wide().packets()
                + 40;
        }
        let each = sums + SECOND_SUMS * (self.sheet.channels_beside() - 1) + ROUNDING;
        self.words.packets() + self.sheet.all_vectors() * each + 2 * beside.packets() + 40
    }

    /// `int kernel(planes, kernels, result, working memory)`: requantises; returns the shift.
    pub(super) fn kernel(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        self.finished(name, SheetFinish::Requantize { bits, low, order: Order::Beside })
    }

    /// `void kernel(planes, kernels, sums, working memory)`.
    pub(super) fn wide_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        self.finished(name, SheetFinish::Wide)
    }

    fn finished(&self, name: &str, finish: SheetFinish) -> Result<Kernel, MachineError> {
        let beside = self.sheet.beside_all();
        let pass = SheetPass { words: &self.words, operand: &beside, result: &beside };
        pass.kernel(name, |name| self.sums(name), finish)
    }

    /// Columns from the first of a word to the first position that it reads, backwards, and to that behind its last.
    fn shifts(&self) -> [usize; 2] {
        [self.before[1], 4 - self.before[1]]
    }

    /// The bytes of a vector that are positions when shifted, and those of a second channel.
    fn table(&self, name: &str) -> DataObject {
        let [behind, ahead] = self.shifts();
        let columns = self.sheet.columns;
        let beside = self.sheet.beside() * columns;
        let bytes = |holds: &dyn Fn(usize) -> bool| {
            std::array::from_fn(|at| if holds(at) { 0xff } else { 0 })
        };
        let masks: [[u8; VECTOR]; 3] = [
            bytes(&|at| at % columns >= behind),
            bytes(&|at| at % columns + ahead < columns),
            bytes(&|at| self.sheet.channels_beside() > 1 && at / beside % 2 == 1),
        ];
        table(name, [&masks[0], &masks[1], &masks[2]])
    }

    /// `int sums(vectors in order, words, sums)`: the bitwise or of the magnitudes of all sums; and the table that it reads. Wide
    /// sums are put in order, and nothing is returned.
    fn sums(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Sums of each channel by its own kernel.");
        let (planes, words, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (source, kernels) = (b.object("planes"), b.object("words"));
        let (result, constant) = (b.object("sums"), b.object("table"));
        let table = self.table(name);
        let address = b.address(&table.symbol, 0);
        let bits = b.constant(-1);
        let masks = [0, 1, 2].map(|i| {
            let mask = b.load(Opcode::LoadV, (address, i), constant);
            b.emit(Opcode::QandVR, (mask, bits))
        });
        let padding = b.constant(if self.unsigned { 0 } else { -128 });
        let [behind, ahead] = self.shifts();
        let row = self.sheet.row();
        let constants = Constants {
            shifts: [b.constant(-number(behind)), b.constant(number(ahead))],
            inside: [masks[0], masks[1]],
            padding: b.emit(Opcode::VsplatB, (padding,)),
            flips: !self.unsigned,
            rows: [b.constant(number(row)), b.constant(number(2 * row))],
            second: masks[2],
        };
        let all = (!self.wide).then(|| [(); 4].map(|()| b.fresh(Class::V)));
        all.iter().flatten().for_each(|&all| zero_vector(&mut b, all));
        let beside = self.sheet.channels_beside();
        let from = b.copy(planes);
        let to = b.copy(sums);
        let groups = self.sheet.groups();
        let step = groups * 4 * WORDS;
        loop_over(&mut b, self.sheet.images / self.sheet.beside(), "images", |b| {
            let pointers: Vec<Register> = (0..beside)
                .map(|i| b.emit(Opcode::AddImmediate, (words, number(i * step))))
                .collect();
            loop_over(b, groups, "channels", |b| {
                let kernels: Vec<(Vec<Register>, Register)> = pointers
                    .iter()
                    .map(|&at| {
                        let pairs = [(); 2].map(|()| b.load(Opcode::LoadDNext, (at, 8), kernels));
                        let words = words_of(pairs);
                        let mut rows = words[..self.words.rows].to_vec();
                        if self.words.turned {
                            rows.reverse();
                        }
                        let start = match self.unsigned {
                            true => constants.padding,
                            false => b.emit(Opcode::VsplatW, (words[3],)),
                        };
                        (rows, start)
                    })
                    .collect();
                self.plane(b, &constants, (from, source), &kernels, &mut |b, sums| {
                    let sums = if self.wide { in_order(b, &sums) } else { sums.to_vec() };
                    for (i, sum) in sums.into_iter().enumerate() {
                        b.store(Opcode::StoreV, (to, number(i), sum), result);
                        if let Some(all) = all.map(|all| all[i]) {
                            let magnitude = b.emit(Opcode::VabsW, (sum,));
                            b.emit_to(all, Opcode::Vor, (all, magnitude));
                        }
                    }
                    b.emit_to(to, Opcode::AddImmediate, (to, number(4 * VECTOR)));
                });
            });
        });
        let Some(all) = all else {
            return Ok((b.finish(None)?, table));
        };
        let low = b.emit(Opcode::Vor, (all[0], all[1]));
        let high = b.emit(Opcode::Vor, (all[2], all[3]));
        let all = b.emit(Opcode::Vor, (low, high));
        let all = or_lanes(&mut b, all);
        Ok((b.finish(Some(all))?, table))
    }

    /// The sums of the vectors of a plane, or of the planes of a vector: of each those at columns that are 0, 1, 2, 3 mod 4.
    fn plane(
        &self,
        b: &mut Builder,
        constants: &Constants,
        (from, source): (Register, Object),
        kernels: &[(Vec<Register>, Register)],
        put: &mut dyn FnMut(&mut Builder, [Register; 4]),
    ) {
        let count = self.sheet.vectors();
        let mut shifted: Vec<Register> = Vec::new();
        for vector in 0..count {
            while shifted.len() < count.min(vector + 2) {
                shifted.push(constants.shifted(b, (from, source), self.shifts()));
            }
            let pairs: Vec<Register> = (0..self.words.rows)
                .map(|row| self.rows_apart(b, constants, &shifted, vector, row))
                .collect();
            let mut sums = Vec::new();
            for (words, start) in kernels {
                let even = b.emit(Opcode::Vcombine, (*start, *start));
                let odd = b.emit(Opcode::Vcombine, (*start, *start));
                for (&pair, &word) in pairs.iter().zip(words) {
                    b.update(Opcode::VrmpyUbBPairAccumulate, (even, pair, word, 0));
                    b.update(Opcode::VrmpyUbBPairAccumulate, (odd, pair, word, 1));
                }
                sums.push([even.low(), odd.low(), even.high(), odd.high()]);
            }
            let chosen = match sums[..] {
                [first, second] => std::array::from_fn(|i| {
                    b.emit(Opcode::Vmux, (constants.second, second[i], first[i]))
                }),
                _ => sums[0],
            };
            put(b, chosen);
        }
    }

    /// What a row of the kernel reads of a plane's vector.
    fn rows_apart(
        &self,
        b: &mut Builder,
        constants: &Constants,
        shifted: &[Register],
        vector: usize,
        row: usize,
    ) -> Register {
        let before = self.before[0];
        if row == before {
            return shifted[vector];
        }
        let rows = row.cast_signed() - before.cast_signed();
        let distance = rows * self.sheet.row().cast_signed();
        let control = constants.rows[rows.unsigned_abs() - 1];
        let result = b.fresh(Class::VV);
        let halves: [fn(Register) -> Register; 2] = [Register::low, Register::high];
        for half in halves {
            let vector_at = |at: Option<usize>| {
                let pair = at.and_then(|at| shifted.get(at));
                pair.map_or(constants.padding, |&pair| half(pair))
            };
            let others = [vector_at(vector.checked_sub(1)), vector_at(Some(vector + 1))];
            rows_apart(b, half(result), half(shifted[vector]), others, (distance, control));
        }
        result
    }
}

impl Constants {
    /// The next vector, 128 added where it is signed, as words that begin at the first position that they read, and those behind them.
    fn shifted(
        &self,
        b: &mut Builder,
        (from, source): (Register, Object),
        shifts: [usize; 2],
    ) -> Register {
        let mut codes = b.load(Opcode::LoadVNext, (from, 1), source);
        if self.flips {
            codes = b.emit(Opcode::Vxor, (codes, self.padding));
        }
        let pair = b.fresh(Class::VV);
        let halves = [pair.low(), pair.high()];
        for (i, half) in halves.into_iter().enumerate() {
            if shifts[i] == 0 {
                b.emit_to(half, Opcode::Vassign, (codes,));
            } else {
                let turned = b.emit(Opcode::Vror, (codes, self.shifts[i]));
                b.emit_to(half, Opcode::Vmux, (self.inside[i], turned, self.padding));
            }
        }
        pair
    }
}
