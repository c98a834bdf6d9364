//! The weight gradient of a depthwise convolution whose planes fill vectors: the operand shifted by columns times the error shifted
//! by rows, what is shifted in being zero. At stride 2 the operand's even and odd rows and columns come apart first: each such part
//! lies as the error does.
//!
//! | what | layout |
//! |---|---|
//! | partial sums | `[vector of channels][tap][channel][lane]` i32 |
//! | sums | `[channel][tap]` i32, with room for a vector behind |

use super::depthwise::Depthwise;
use super::depthwise_gradient::products;
use super::depthwise_sheet::{Sheet, rows_apart};
use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::lanes::{LANES, shuffle_unit};
use super::pool::{VECTOR, number, table};
use super::support::{loop_over, zero_vector};
use super::window::Span;
use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

/// Most taps of a kernel, and of an axis.
const TAPS: usize = 9;
const ACROSS: usize = 3;
/// Most vectors of all images of a channel that are written out.
const WRITTEN_OUT: usize = 8;
/// Taps of which one is added up by the multiplication, the others by an addition of their own.
const SHARE: usize = 3;
/// Sources of a vector of channels' sums.
const SOURCES: u32 = 4;
/// Packets of 128 positions, and those by which the operand's parts come apart; of a vector of channels, for each tap; of a channel.
const POSITIONS: usize = 8;
const APART: usize = 5;
const PARTIAL: usize = 1;
const CHANNEL: usize = 2;

/// The weight gradient of planes that fill vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SheetGradient {
    /// Of the error.
    sheet: Sheet,
    /// Positions of the operand from a window to the next.
    stride: usize,
    /// Rows and columns of a kernel, and of padding before.
    taps: [usize; 2],
    before: [usize; 2],
    /// Whether the operand is u8.
    unsigned: bool,
}

/// Shifts of an axis, one for each tap but the one that has none.
struct Shifts {
    controls: Vec<Option<Register>>,
    /// What is a position then, where rows or columns of several planes lie side by side.
    inside: Vec<Option<Register>>,
}

impl SheetGradient {
    /// The gradient of a convolution; `None` if these kernels cannot do it.
    pub(super) fn of(d: &Depthwise) -> Option<SheetGradient> {
        let axes = [&d.vertical, &d.horizontal];
        let sheet = Sheet {
            images: d.images,
            channels: d.channels,
            rows: d.vertical.output,
            columns: d.horizontal.output,
        };
        let stride = d.vertical.stride;
        let fits = |span: &&Span| {
            [span.stride, span.dilation] == [stride, 1]
                && span.input == stride * span.output
                && (1..=ACROSS).contains(&span.kernel)
                && span.before < span.kernel
        };
        let (taps, before) = (axes.map(|span| span.kernel), axes.map(|span| span.before));
        let unsigned = d.unsigned;
        let gradient = SheetGradient { sheet, stride, taps, before, unsigned };
        let rows = stride == 1 || stride == 2 && 2 * d.horizontal.input <= VECTOR;
        let supported = rows && axes.iter().all(fits) && taps[0] * taps[1] <= TAPS && sheet.fills();
        (supported && (sheet.planes() > 1 || gradient.reach() <= VECTOR)).then_some(gradient)
    }

    fn reach(&self) -> usize {
        self.sheet.columns * self.before[0].max(self.taps[0] - 1 - self.before[0])
    }

    fn taps(&self) -> usize {
        self.taps[0] * self.taps[1]
    }

    fn groups(&self) -> usize {
        self.sheet.channels / self.sheet.planes()
    }

    /// Bytes of the sums.
    pub(super) fn sum_bytes(&self) -> usize {
        (4 * self.sheet.channels * self.taps()).next_multiple_of(LANES * 4) + VECTOR
    }

    /// An estimate of the packets of a launch, without the rounding.
    pub(super) fn packets(&self) -> usize {
        let parts = if self.stride > 1 { APART } else { 0 };
        let positions = self.sheet.all_vectors() * (POSITIONS + parts);
        positions + self.groups() * self.taps() * PARTIAL + self.sheet.channels * CHANNEL + 50
    }

    /// `void kernel(x, dy, sums, working memory)`.
    pub(super) fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let mut scratch = Scratch::default();
        let partial = scratch.take(self.groups() * self.taps() * VECTOR);
        let [x, dy, sums] = [0, 1, 2].map(Argument::Parameter);
        let (products, table) = self.products(&phase_name("products"))?;
        let add = self.add_lanes(&phase_name("add_lanes"))?;
        let phases = vec![
            Phase { function: products, arguments: vec![x, dy, partial] },
            Phase { function: add, arguments: vec![partial, sums] },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Sums of errors times operands for each channel and tap.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![table],
        })
    }

    /// Positions of the operand from a window's to the ones that taps read.
    fn away(&self, axis: usize) -> impl Iterator<Item = isize> {
        let before = self.before[axis].cast_signed();
        (0..self.taps[axis].cast_signed()).map(move |tap| tap - before)
    }

    /// Columns of the operand's part, rows of the error: how far from a tap's position to the one that it multiplies.
    fn distances(&self) -> [Vec<isize>; 2] {
        let stride = self.stride.cast_signed();
        let down = self.away(0).map(|rows| -rows.div_euclid(stride));
        [self.away(1).map(|columns| columns.div_euclid(stride)).collect(), down.collect()]
    }

    /// Of the taps' rows and columns, the part of the operand that they read.
    fn parts(&self) -> [Vec<usize>; 2] {
        let stride = self.stride.cast_signed();
        let part = |away: isize| away.rem_euclid(stride).unsigned_abs();
        [self.away(0).map(part).collect(), self.away(1).map(part).collect()]
    }

    /// The operand's parts that lie as a vector of the error: of even and odd rows those of even and odd columns.
    fn apart(&self, b: &mut Builder, loaded: &[Register], unit: Register) -> Vec<Vec<Register>> {
        if self.stride == 1 {
            return vec![loaded.to_vec()];
        }
        let rows: Vec<Register> =
            loaded.chunks(2).map(|x| b.emit(Opcode::Vdeal, (x[1], x[0], unit))).collect();
        let halves: [fn(Register) -> Register; 2] = [Register::low, Register::high];
        let mut columns = |half: fn(Register) -> Register| {
            let (first, second) = (half(rows[0]), half(rows[1]));
            [Opcode::VpackeB, Opcode::VpackoB].map(|pack| b.emit(pack, (second, first))).to_vec()
        };
        halves.map(&mut columns).to_vec()
    }

    /// The bytes of a vector that are positions when shifted by so many columns, and rows.
    fn masks(&self, name: &str) -> DataObject {
        let (columns, rows) = (self.sheet.columns, self.sheet.rows);
        let [across, down] = self.distances();
        let mask = |distance: isize, unit: usize, count: usize| -> [u8; VECTOR] {
            std::array::from_fn(|at| {
                let place = (at / unit % count).checked_add_signed(distance);
                if place.is_some_and(|place| place < count) { 0xff } else { 0 }
            })
        };
        let columns_inside = across.iter().map(|&distance| mask(distance, 1, columns));
        let rows_inside = down.iter().map(|&distance| mask(distance, columns, rows));
        let words = columns_inside.chain(rows_inside).flat_map(|m| table("", [&m]).words).collect();
        DataObject { symbol: format!("{name}_table"), words }
    }

    /// The shifts of an axis, by units of so many bytes, and their masks, the first of which is the table's one of this number.
    fn shifts(
        &self,
        b: &mut Builder,
        distances: &[isize],
        unit: usize,
        masks: Option<(Register, usize, Object)>,
    ) -> Shifts {
        let some = |i: usize| distances[i] != 0;
        let controls = (0..distances.len())
            .map(|i| {
                let bytes = number(unit * distances[i].unsigned_abs());
                let turned = if masks.is_some() && distances[i] < 0 { -bytes } else { bytes };
                some(i).then(|| b.constant(turned))
            })
            .collect();
        let bits = b.constant(-1);
        let inside = (0..distances.len())
            .map(|i| {
                let (address, first, memory) = masks.filter(|_| some(i))?;
                let mask = b.load(Opcode::LoadV, (address, number(first + i)), memory);
                Some(b.emit(Opcode::QandVR, (mask, bits)))
            })
            .collect();
        Shifts { controls, inside }
    }

    /// `void products(x, dy, partial sums)`, and the table that it reads.
    fn products(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Products of errors and operands, 128 positions at a time.");
        let parameters = [b.parameter(0), b.parameter(1)];
        let to = b.parameter(2);
        let memory = [b.object("x"), b.object("dy")];
        let (result, constant) = (b.object("sums"), b.object("table"));
        let table = self.masks(name);
        let address = b.address(&table.symbol, 0);
        let [across, down] = self.distances();
        let columns = self.sheet.columns;
        let beside = self.sheet.planes() > 1;
        let masks = |first: usize| Some((address, first, constant));
        let horizontal = self.shifts(&mut b, &across, 1, masks(0));
        let vertical = self.shifts(&mut b, &down, columns, masks(across.len()).filter(|_| beside));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        // Of the operand and the error.
        let times = [self.stride * self.stride, 1];
        let image = self.sheet.channels * self.sheet.plane();
        let vectors = self.sheet.vectors();
        let unit = b.constant(-number(self.stride * columns));
        let [row_parts, column_parts] = self.parts();
        let [multiply, accumulate] = products(self.unsigned);
        let written_out = self.sheet.images * vectors * times[0] <= WRITTEN_OUT;
        let images = if written_out { self.sheet.images } else { 1 };
        let pointers: Vec<[Register; 2]> = (0..images)
            .map(|i| {
                [0, 1].map(|operand| {
                    let bytes = number(i * image * times[operand]);
                    b.emit(Opcode::AddImmediate, (parameters[operand], bytes))
                })
            })
            .collect();
        let planes = |b: &mut Builder, at: [Register; 2], sums: &mut Vec<Option<Register>>| {
            let errors: Vec<Register> =
                (0..vectors).map(|_| b.load(Opcode::LoadVNext, (at[1], 1), memory[1])).collect();
            for vector in 0..vectors {
                let loaded: Vec<Register> = (0..times[0])
                    .map(|_| b.load(Opcode::LoadVNext, (at[0], 1), memory[0]))
                    .collect();
                let parts = self.apart(b, &loaded, unit);
                let operands: Vec<Vec<Register>> = parts
                    .iter()
                    .map(|part| {
                        let turned = |(column, &of): (usize, &usize)| {
                            horizontal.turned(b, column, part[of], zero)
                        };
                        column_parts.iter().enumerate().map(turned).collect()
                    })
                    .collect();
                for (row, &distance) in down.iter().enumerate() {
                    let dy = errors[vector];
                    let error = if beside || distance == 0 {
                        vertical.turned(b, row, dy, zero)
                    } else {
                        let before = vector.checked_sub(1).map_or(zero, |at| errors[at]);
                        let after = errors.get(vector + 1).copied().unwrap_or(zero);
                        let result = b.fresh(Class::V);
                        let control = vertical.controls[row].unwrap_or(at[0]);
                        let bytes = distance * columns.cast_signed();
                        rows_apart(b, result, dy, [before, after], (bytes, control));
                        result
                    };
                    for (column, &x) in operands[row_parts[row]].iter().enumerate() {
                        let tap = row * across.len() + column;
                        match sums[tap] {
                            None => sums[tap] = Some(b.emit(multiply, (x, error))),
                            Some(sum) if tap % SHARE == 0 => {
                                b.update(accumulate, (sum, x, error));
                            }
                            Some(sum) => {
                                let product = b.emit(multiply, (x, error));
                                b.emit_to(sum, Opcode::VaddW, (sum, product));
                            }
                        }
                    }
                }
            }
        };
        loop_over(&mut b, self.groups(), "channels", |b| {
            let mut sums = vec![None; self.taps()];
            if written_out {
                for &at in &pointers {
                    planes(b, at, &mut sums);
                }
            } else {
                for sum in &mut sums {
                    let cleared = b.fresh(Class::V);
                    zero_vector(b, cleared);
                    *sum = Some(cleared);
                }
                let at = pointers[0].map(|pointer| b.copy(pointer));
                loop_over(b, self.sheet.images, "images", |b| {
                    planes(b, at, &mut sums);
                    for (at, times) in at.into_iter().zip(times) {
                        let rest = number(times * image) - number(times * vectors * VECTOR);
                        b.emit_to(at, Opcode::AddImmediate, (at, rest));
                    }
                });
                for (pointer, times) in pointers[0].into_iter().zip(times) {
                    let next = (pointer, number(times * vectors * VECTOR));
                    b.emit_to(pointer, Opcode::AddImmediate, next);
                }
            }
            for sum in sums.into_iter().flatten() {
                b.store(Opcode::StoreVNext, (to, 1, sum), result);
            }
        });
        Ok((b.finish(None)?, table))
    }

    /// `void add_lanes(partial sums, sums)`: the sum of each channel's lanes. Vectors go two by two, their even lanes and their odd
    /// lanes side by side: added where those are of one channel, or else channels come apart.
    fn add_lanes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Adds up the lanes of each channel.");
        let (from, to) = (b.parameter(0), b.parameter(1));
        let (source, target) = (b.object("partial sums"), b.object("sums"));
        let unit = shuffle_unit(&mut b);
        let channels = self.sheet.planes();
        let added = LANES.ilog2() - channels.ilog2();
        loop_over(&mut b, self.groups(), "channels", |b| {
            let mut sums: Vec<Vec<Register>> = (0..self.taps())
                .map(|_| vec![b.load(Opcode::LoadVNext, (from, 1), source)])
                .collect();
            for stage in 0..=SOURCES {
                let pairs = sums.chunks(2).map(|pair| {
                    let (even, odd) = (&pair[0], pair.last().unwrap_or(&pair[0]));
                    let both = even.iter().zip(odd);
                    let both: Vec<Register> = both
                        .map(|(&even, &odd)| b.emit(Opcode::Vdeal, (odd, even, unit)))
                        .collect();
                    if stage < added {
                        let sum =
                            |pair: &Register| b.emit(Opcode::VaddW, (pair.low(), pair.high()));
                        both.iter().map(sum).collect()
                    } else {
                        let lows = both.iter().map(|pair| pair.low());
                        lows.chain(both.iter().map(|pair| pair.high())).collect()
                    }
                });
                sums = pairs.collect();
            }
            // What lies behind a channel's sums is written anew by the next.
            for &sum in &sums[0] {
                b.store(Opcode::StoreVUnaligned, (to, 0, sum), target);
                b.emit_to(to, Opcode::AddImmediate, (to, number(4 * self.taps())));
            }
        });
        b.finish(None)
    }
}

impl Shifts {
    /// A vector turned by the shift of a tap, what is no position then zero.
    fn turned(&self, b: &mut Builder, tap: usize, vector: Register, zero: Register) -> Register {
        let (Some(control), Some(inside)) = (self.controls[tap], self.inside[tap]) else {
            return vector;
        };
        let turned = b.emit(Opcode::Vror, (vector, control));
        b.emit(Opcode::Vmux, (inside, turned, zero))
    }
}
