//! The weight gradient of a convolution: for each tap, the product of the error and the shifted operand over all
//! positions of all images.
//!
//! Lanes are 32 channels of the operand with 128 added, scalars four images of one position of one error channel; a tile
//! is four error channels times a block of vectors. Memory of a launch, in pieces of 128 bytes:
//!
//! | what | layout |
//! |---|---|
//! | packed error | `[group][quad of features][position][feature of the quad][image]` i8, a vector of zeros behind each plane |
//! | packed operand | `[group][position][vector][32 channels][image]` u8, 128 added |
//! | start values | `[quad of features][tap]` i32, the four features over and over |
//! | sums | `[quad of features][block][tap][feature of the quad][vector of the block][32 lanes]` i32 |
//!
//! Of one tap, where no selections follow that are better, sums are `[feature][vector][32 lanes]`: rows of the result.
//!
//! Taps in the padding are never multiplied: each tap walks a list of its pairs of positions.
//!
//! The result is `[feature][channel][tap]`, so that taps of a channel end up side by side. With T taps, T odd, the bytes
//! of 128 channels go to places `T c + t`: one byte vector a tap holds channel c at place `T c mod 128`, turned by t it
//! has every byte where it belongs within its 128 bytes, and a few selections pick, for each place, the right tap
//! ([`interleave`](super::interleave)). The order of channels in lanes is chosen for that when the operand is packed, or, where a
//! vector has bytes of four features or more, bytes are permuted.

use super::interleave::{quantize_gradient, quantize_gradient_in_order};
use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::narrow_gradient::Narrow;
use super::pack::{Order, Packing};
use super::plane_memory::put_rows;
use super::product::{GROUP, LANES, OperandStrides, VECTOR};
use super::resident_gradient::Memory;
use super::static_shift::StaticShift;
use super::support::{loop_over, rotate_in, zero_vector};
use super::window::Axis;
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// Features of a tile.
pub(crate) const ROWS: usize = 4;
/// What a kernel does.
const PURPOSE: &str = "The weight gradient, quantised to a run-time number of bits.";
/// Most taps whose start values are summed together.
const START_TAPS: usize = 9;

/// `dw[f, c, t] = sum over images n and positions p of dy[n, f, p] x[n, c, reads(p, t)]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightGradient {
    /// Images.
    pub images: usize,
    /// Channels of the operand.
    pub channels: usize,
    /// Channels of the error.
    pub features: usize,
    /// Rows of the convolution's windows.
    pub vertical: Axis,
    /// Columns.
    pub horizontal: Axis,
    /// If lanes are few channels of several columns, of which `channels` then are 32: the module `narrow_gradient`.
    pub narrow: Option<Narrow>,
    /// Whether the operand's bytes are unsigned: they are multiplied as they are.
    pub unsigned: bool,
}

/// How the result gets its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// By selections, 128 bytes at a time: channels of a feature, 64 of two, 32 of four or 16 of eight.
    Interleave,
    /// Byte by byte.
    Bytes,
}

pub(crate) fn word(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

impl WeightGradient {
    /// Whether these kernels can compute it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.images > 0
            && self.channels > 0
            && self.features > 0
            && self.sums_bytes() < 1 << 30
            && self.operand().bytes() < 1 << 30
            && self.table_bytes() < 1 << 22
    }

    pub(crate) fn taps(&self) -> usize {
        self.vertical.taps * self.horizontal.taps
    }

    /// Taps of the weights: those that a vector has several of, each.
    pub(crate) fn weight_taps(&self) -> usize {
        let columns = self.narrow.as_ref().map_or(self.horizontal.taps, |narrow| narrow.taps);
        self.vertical.taps * columns
    }

    /// Bytes of a position of the packed operand.
    fn position_bytes(&self) -> usize {
        match &self.narrow {
            Some(narrow) => narrow.channels * GROUP,
            None => self.vectors() * VECTOR,
        }
    }

    pub(crate) fn inputs(&self) -> usize {
        self.vertical.input * self.horizontal.input
    }

    pub(crate) fn outputs(&self) -> usize {
        self.vertical.reads.len() * self.horizontal.reads.len()
    }

    pub(crate) fn groups(&self) -> usize {
        self.images.div_ceil(GROUP)
    }

    pub(crate) fn feature_quads(&self) -> usize {
        self.features.div_ceil(ROWS)
    }

    /// Vectors of channels.
    pub(crate) fn vectors(&self) -> usize {
        self.channels.div_ceil(LANES)
    }

    /// Vectors of a tile.
    pub(crate) fn block(&self) -> usize {
        [4, 2].into_iter().find(|n| self.vectors().is_multiple_of(*n)).unwrap_or(1)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.vectors() / self.block()
    }

    pub(crate) fn finish(&self) -> Finish {
        let taps = self.weight_taps();
        let channels = self.narrow.as_ref().map_or(self.channels, |narrow| narrow.channels);
        // Those that fill a row of 128 bytes.
        let features = match channels {
            16 => 2 * ROWS,
            32 | 64 => ROWS,
            channels if channels.is_multiple_of(VECTOR) => ROWS,
            _ => return Finish::Bytes,
        };
        match taps % 2 == 1 && taps <= 15 && self.features.is_multiple_of(features) {
            true => Finish::Interleave,
            false => Finish::Bytes,
        }
    }

    /// Whether sums that are rounded by what all of them are lie in rows, a feature's one after the other: then their bytes in order are
    /// the result, but for lanes without a channel.
    pub(crate) fn has_rows(&self) -> bool {
        self.finish() == Finish::Bytes && self.taps() == 1 && self.narrow.is_none()
    }

    /// Whether there are no such lanes, and no features but those of the result.
    fn fills_rows(&self) -> bool {
        self.has_rows() && self.channels.is_multiple_of(LANES) && self.features.is_multiple_of(ROWS)
    }

    /// Bytes of the sums.
    pub(crate) fn sums_bytes(&self) -> usize {
        self.feature_quads() * self.taps() * ROWS * self.vectors() * VECTOR
    }

    /// Most bits of a sum's magnitude.
    pub(crate) fn sum_bits(&self) -> u32 {
        let most = (self.images * self.outputs()).saturating_mul(1 << 14);
        usize::BITS - most.leading_zeros()
    }

    /// Multiplications including those with padding.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        self.images * self.features * self.channels * self.taps() * self.outputs()
    }

    /// Multiplications within the operand.
    #[must_use]
    pub fn multiplications_inside(&self) -> usize {
        self.images
            * self.features
            * self.channels
            * self.vertical.count()
            * self.horizontal.count()
    }

    /// An estimate of the packets of its products.
    #[must_use]
    pub fn packets(&self) -> usize {
        let pairs = self.vertical.count() * self.horizontal.count();
        self.groups() * pairs * self.feature_quads() * self.vectors() * self.four_steps() / 4
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub(crate) fn launch_packets(&self) -> usize {
        let sums = self.sums_bytes() / VECTOR;
        let finish = match self.finish() {
            Finish::Interleave if self.block() == 1 => 4 * sums,
            Finish::Interleave => 3 * sums,
            Finish::Bytes if self.has_rows() => {
                let vectors = 3 * self.channels.div_ceil(VECTOR) + 4;
                let copied = self.features * (vectors + self.channels * 2 / VECTOR);
                4 * sums + if self.fills_rows() { 0 } else { copied }
            }
            Finish::Bytes => {
                let channels = self.narrow.as_ref().map_or(self.channels, |narrow| narrow.channels);
                2 * sums + self.features * channels * (self.weight_taps() + 4)
            }
        };
        finish + self.packets_before_finish()
    }

    /// Packets of packing and products.
    pub(super) fn packets_before_finish(&self) -> usize {
        let padded = self
            .narrow
            .as_ref()
            .map_or(0, |narrow| 3 * self.images * narrow.channels * self.vertical.input);
        let packed = (self.operand().bytes() * 3 + self.error().bytes() * 2) / VECTOR;
        self.packets() + padded + packed + self.taps() * self.feature_quads() * 20 + 300
    }

    pub(crate) fn error(&self) -> Packing {
        Packing {
            images: self.images,
            channels: self.features,
            positions: self.outputs(),
            quads: self.feature_quads(),
            order: Order::ImagesInner,
            table: None,
            tail: 1,
            strides: OperandStrides::natural(self.features, self.outputs()),
        }
    }

    /// Before the lanes are brought together.
    pub(crate) fn operand(&self) -> Packing {
        let narrow = self.narrow.as_ref();
        Packing {
            images: self.images,
            channels: narrow.map_or(self.channels, |narrow| narrow.channels),
            positions: self.inputs(),
            quads: match narrow {
                Some(narrow) => narrow.channels.div_ceil(4).next_power_of_two(),
                None => self.vectors() * LANES / 4,
            },
            order: Order::ImagesInner,
            table: None,
            tail: 0,
            strides: self.operand_strides(),
        }
    }

    /// Byte offsets of the channel in each lane, in the order of packing, where it is not the natural one.
    fn channel_table(&self, symbol: &str) -> Option<DataObject> {
        let block = self.block();
        // Of 32 channels or fewer, bytes are permuted when they have been rounded.
        if self.finish() == Finish::Bytes || block == 1 {
            return None;
        }
        let size = block * LANES;
        let taps = self.taps();
        // Lane l of vector i becomes byte `block l + i` (of its feature), which is to be place `taps c` modulo the size.
        let inverse = (0..size).find(|n| n * taps % size == 1)?;
        let channels = (0..self.blocks()).flat_map(|first| {
            (0..size).map(move |place| {
                let (vector, lane) = (place / LANES, place % LANES);
                first * size + (block * lane + vector) * inverse % size
            })
        });
        let words = channels.map(|channel| word(channel * self.inputs())).collect();
        Some(DataObject { symbol: symbol.into(), words })
    }

    /// Pairs of positions of a tap: (result position, operand position).
    pub(crate) fn pairs(&self, tap: usize) -> Vec<(usize, usize)> {
        let (kh, kw) = (tap / self.horizontal.taps, tap % self.horizontal.taps);
        let axis = |axis: &Axis, tap: usize| -> Vec<(usize, usize)> {
            let reads = axis.reads.iter().enumerate();
            reads
                .flat_map(|(o, reads)| reads.iter().map(move |&(k, i)| (o, k, i)))
                .filter_map(|(o, k, i)| (k == tap).then_some((o, i)))
                .collect()
        };
        let columns = axis(&self.horizontal, kw);
        let (outputs, inputs) = (self.horizontal.reads.len(), self.horizontal.input);
        axis(&self.vertical, kh)
            .into_iter()
            .flat_map(|(oh, ih)| {
                columns.iter().map(move |&(ow, iw)| (oh * outputs + ow, ih * inputs + iw))
            })
            .collect()
    }

    /// Steps of a tap: an even number, at least 2.
    fn steps(&self, tap: usize) -> usize {
        self.pairs(tap).len().next_multiple_of(2).max(2)
    }

    /// Rounds of two steps that every tap has before the last, as far as products rely on it: in blocks of fewer than
    /// four vectors relying on it was measured to cost packets, probably for lack of registers.
    pub(crate) fn fewest_rounds(&self) -> u32 {
        if self.block() < 4 {
            return 0;
        }
        let rounds = (0..self.taps()).map(|tap| self.steps(tap) / 2 - 1).min();
        rounds.and_then(|rounds| u32::try_from(rounds).ok()).unwrap_or(0)
    }

    fn table_bytes(&self) -> usize {
        (0..self.taps()).map(|tap| 8 * (self.steps(tap) + 3)).sum()
    }

    /// The table of taps: (rounds before the last, list offset) of each, then the lists of (error offset, operand
    /// offset), each with its first entry again and one more.
    fn tap_table(&self, symbol: &str) -> DataObject {
        let mut heads = Vec::new();
        let mut lists: Vec<i32> = Vec::new();
        let row = self.position_bytes();
        for tap in 0..self.taps() {
            heads.push(word(self.steps(tap) / 2 - 1));
            heads.push(word(8 * self.taps() + 4 * lists.len()));
            let mut entries: Vec<(usize, usize)> = self
                .pairs(tap)
                .into_iter()
                .map(|(result, operand)| (result * 16, operand * row))
                .collect();
            // Padding multiplies the zeros behind the plane.
            entries.resize(self.steps(tap), (self.error().plane_bytes() - VECTOR, 0));
            entries.extend([entries[0], entries[0]]);
            lists.extend(entries.into_iter().flat_map(|(dy, x)| [word(dy), word(x)]));
        }
        heads.extend(lists);
        DataObject { symbol: symbol.into(), words: heads }
    }

    /// Ones in the bytes of the positions that a tap uses: `[8 positions][tap][128]`.
    fn mask_table(&self, symbol: &str) -> DataObject {
        let taps: Vec<Vec<(usize, usize)>> = (0..self.taps()).map(|tap| self.pairs(tap)).collect();
        let used = |tap: usize, position: usize| {
            let ones = taps[tap].iter().any(|&(result, _)| result == position);
            [if ones { 0x0101_0101 } else { 0 }; 4]
        };
        let words = (0..self.outputs().div_ceil(8))
            .flat_map(|eight| (0..self.taps()).map(move |tap| (eight, tap)))
            .flat_map(|(eight, tap)| (0..8).flat_map(move |i| [(8 * eight + i, tap)]))
            .flat_map(|(position, tap)| used(tap, position))
            .collect();
        DataObject { symbol: symbol.into(), words }
    }

    /// `void lanes(packed as planes, packed operand)`: brings 32 channels of a position together and adds 128.
    fn lanes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose(match self.unsigned {
            true => "Brings the channels of a position together.",
            false => "Brings the channels of a position together, and adds 128.",
        });
        let (source, target) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("planes"), b.object("packed operand"));
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let plane = self.operand().plane_bytes();
        let from_step = b.constant(word(plane));
        let from_step = b.emit(Opcode::ModifierFromR, (from_step,));
        let row = self.vectors() * VECTOR;
        let to_step = b.constant(word(row));
        let to_step = b.emit(Opcode::ModifierFromR, (to_step,));
        loop_over(&mut b, self.groups(), "groups of images", |b| {
            let first = b.copy(source);
            loop_over(b, plane / VECTOR, "8 positions", |b| {
                let from = b.copy(first);
                loop_over(b, self.vectors(), "32 channels", |b| {
                    let loaded: Vec<Register> = (0..8)
                        .map(|_| b.load(Opcode::LoadVStep, (from, from_step), memory.0))
                        .collect();
                    let to = b.copy(target);
                    for mut vector in rotate_in(b, &loaded, 16, 8) {
                        if !self.unsigned {
                            vector = b.emit(Opcode::Vxor, (vector, flip));
                        }
                        b.store(Opcode::StoreVStep, (to, to_step, vector), memory.1);
                    }
                    b.emit_to(target, Opcode::AddImmediate, (target, word(VECTOR)));
                });
                b.emit_to(target, Opcode::AddImmediate, (target, word(7 * row)));
                b.emit_to(first, Opcode::AddImmediate, (first, word(VECTOR)));
            });
            let group = self.vectors() * 8 * plane;
            b.emit_to(source, Opcode::AddImmediate, (source, word(group)));
        });
        b.finish(None)
    }

    pub(crate) fn group_strides(&self) -> (usize, usize) {
        let positions = self.inputs().next_multiple_of(8);
        (self.feature_quads() * self.error().plane_bytes(), positions * self.position_bytes())
    }

    /// `void starts(packed error, start values)`: -128 times the sum of the error over each tap's positions, or zeros.
    pub(super) fn start_values(&self, name: &str, masks: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        let (error, starts) = (b.parameter(0), b.parameter(1));
        if self.unsigned {
            b.purpose("What an accumulator starts with: nothing.");
            let (memory, zeros) = (b.object("start values"), b.fresh(Class::V));
            zero_vector(&mut b, zeros);
            loop_over(&mut b, self.feature_quads() * self.taps(), "taps of 4 features", |b| {
                b.store(Opcode::StoreVNext, (starts, 1, zeros), memory);
            });
            return b.finish(None);
        }
        b.purpose("What an accumulator starts with: -128 times the error's sum over a tap.");
        let quads = b.range(self.feature_quads(), &["error", "starts"]);
        let memory = (b.object("packed error"), b.object("start values"), b.object("masks"));
        let taps = self.taps();
        let plane = self.error().plane_bytes();
        quads.move_on(&mut b, error, plane);
        quads.move_on(&mut b, starts, taps * VECTOR);
        let zeros = b.fresh(Class::V);
        zero_vector(&mut b, zeros);
        let turns: Vec<Register> = [64, 32, 16].into_iter().map(|n| b.constant(n)).collect();
        let seven = b.constant(7);
        let group = word(self.group_strides().0);
        quads.repeat(&mut b, "quads of features", |b| {
            let mut first = 0;
            while first < taps {
                let count = START_TAPS.min(taps - first);
                let sums: Vec<Register> = (0..count)
                    .map(|_| {
                        let sum = b.fresh(Class::V);
                        b.emit_to(sum, Opcode::Vassign, (zeros,));
                        sum
                    })
                    .collect();
                let from = b.copy(error);
                loop_over(b, self.groups(), "groups of images", |b| {
                    let position = b.copy(from);
                    let mask = b.address(masks, word(first * VECTOR));
                    loop_over(b, self.outputs().div_ceil(8), "8 positions", |b| {
                        let dy = b.load(Opcode::LoadVNext, (position, 1), memory.0);
                        for &sum in &sums {
                            let ones = b.load(Opcode::LoadVNext, (mask, 1), memory.2);
                            b.update(Opcode::VrmpyUbBvAccumulate, (sum, ones, dy));
                        }
                        if count < taps {
                            let skip = word((taps - count) * VECTOR);
                            b.emit_to(mask, Opcode::AddImmediate, (mask, skip));
                        }
                    });
                    b.emit_to(from, Opcode::AddImmediate, (from, group));
                });
                for &sum in &sums {
                    let mut sum = sum;
                    for &turn in &turns {
                        let turned = b.emit(Opcode::Vror, (sum, turn));
                        sum = b.emit(Opcode::VaddW, (sum, turned));
                    }
                    let scaled = b.emit(Opcode::VaslW, (sum, seven));
                    let start = b.emit(Opcode::VsubW, (zeros, scaled));
                    b.store(Opcode::StoreVNext, (starts, 1, start), memory.1);
                }
                first += count;
            }
            b.emit_to(error, Opcode::AddImmediate, (error, word(plane)));
        });
        b.finish(None)
    }

    /// `int kernel(x, dy, bits, dw, working memory)`: `dw = quantize_gradient(product, bits)` with pseudo-stochastic
    /// rounding; `bits` is the address of the number of bits. Returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let (bits, dw) = (Argument::Parameter(2), Argument::Parameter(3));
        let resident = self.is_resident();
        let Packed { mut phases, mut data, mut scratch, tables, operand, error } =
            self.packed(name, true)?;
        let starts = scratch.take(self.feature_quads() * self.taps() * VECTOR);
        let sums = scratch.take(self.sums_bytes().max(self.ahead_bytes()));
        let bytes = scratch.take(self.sums_bytes() / 4 + VECTOR);
        let words = scratch.take(if resident { self.word_bytes() } else { 0 });
        let quantize = if self.has_rows() { quantize_gradient_in_order } else { quantize_gradient };
        let [quantize, long] =
            quantize(&phase_name("quantize"), self.sums_bytes() / VECTOR, self.sum_bits())?;
        // Behind the start values.
        let products = phases.len() + 1;
        let starts_phase =
            phase(self.start_values(&phase_name("starts"), &tables.masks)?, &[error, starts]);
        let sums_phase = phase(
            self.products(
                &phase_name("products"),
                &tables.taps,
                tables.columns.as_deref(),
                self.has_rows(),
            )?,
            &[operand, error, starts, sums],
        );
        let rounded = |to: Argument| [sums, to, Argument::Result(products), bits];
        if self.has_rows() {
            phases.extend([starts_phase, sums_phase]);
            if self.fills_rows() {
                phases.push(phase(quantize, &rounded(dw)));
            } else {
                let (pitch, columns) = (self.vectors() * LANES, self.channels);
                let dense = scratch.take(self.features * columns + VECTOR);
                let rows = put_rows(&phase_name("rows"), self.features, pitch, columns)?;
                phases.push(phase(quantize, &rounded(bytes)));
                phases.push(phase(rows, &[bytes, dense, dw]));
            }
            return Ok(Kernel {
                name: name.into(),
                purpose: PURPOSE.into(),
                parameters: 4,
                scratch_bytes: scratch.bytes,
                phases,
                helpers: vec![long],
                data,
            });
        }
        let from_memory = [
            starts_phase,
            sums_phase,
            phase(quantize, &rounded(bytes)),
            phase(self.ordered(name, &tables, &mut data)?, &[bytes, dw]),
        ];
        let mut helpers = vec![long];
        if resident {
            let memory = Memory { operand, error, words, starts, sums, bytes };
            let detour = from_memory.map(|phase| phase.function);
            let (own, functions) = self.resident_phases(name, &tables.places, memory, &detour)?;
            phases.extend(own);
            helpers.extend(functions.into_iter().chain(detour));
        } else {
            phases.extend(from_memory);
        }
        Ok(Kernel {
            name: name.into(),
            purpose: PURPOSE.into(),
            parameters: 4,
            scratch_bytes: scratch.bytes,
            phases,
            helpers,
            data,
        })
    }

    /// `void kernel(x, dy, dw, working memory)`: `dw = shift_right(product)`, rounded as sums are made.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn static_kernel(&self, name: &str, shift: StaticShift) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let dw = Argument::Parameter(2);
        let Packed { mut phases, mut data, mut scratch, tables, operand, error } =
            self.packed(name, true)?;
        let last = self.ordered(name, &tables, &mut data)?;
        if self.is_resident() && shift.compares_halves() {
            let words = scratch.take(self.word_bytes());
            let row = scratch.take(self.taps() * VECTOR);
            let pass = self.static_pass(&phase_name("pass"), &tables.places, shift)?;
            phases.extend([
                phase(self.words(&phase_name("words"))?, &[error, words]),
                phase(pass, &[operand, words, row, dw]),
            ]);
        } else {
            let starts = scratch.take(self.feature_quads() * self.taps() * VECTOR);
            let bytes = scratch.take((self.sums_bytes() / 4).max(self.ahead_bytes()));
            phases.extend([
                phase(self.start_values(&phase_name("starts"), &tables.masks)?, &[error, starts]),
                phase(
                    self.shifted_products(&phase_name("products"), &tables.taps, shift)?,
                    &[operand, error, starts, bytes],
                ),
                phase(last, &[bytes, dw]),
            ]);
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "The weight gradient, shifted right by a number of bits known ahead.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data,
        })
    }

    /// The last step of a tap loads one group ahead: so much must be behind the packed error.
    pub(super) fn ahead_bytes(&self) -> usize {
        2 * self.error().plane_bytes()
    }

    /// The packing of both operands; channels in the order that rounded bytes need, or in their own.
    pub(super) fn packed(&self, name: &str, reorders: bool) -> Result<Packed, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let (x, dy) = (Argument::Parameter(0), Argument::Parameter(1));
        let mut scratch = Scratch::default();
        let padded = scratch.take(self.padded_bytes());
        let planes = scratch.take(self.operand().bytes());
        // Of narrow ones, a vector is read from the last position on.
        let operand = scratch.take(self.groups() * self.group_strides().1 + 2 * VECTOR);
        let error = scratch.take(self.error().bytes());
        let tables = Tables {
            taps: phase_name("taps"),
            masks: phase_name("masks"),
            places: phase_name("places"),
            columns: self.has_idle_columns().then(|| phase_name("columns")),
        };
        let channels = self.channel_table(&phase_name("channels")).filter(|_| reorders);
        let operand_packing =
            Packing { table: channels.as_ref().map(|t| t.symbol.clone()), ..self.operand() };
        let mut data = vec![self.tap_table(&tables.taps), self.mask_table(&tables.masks)];
        data.extend(channels);
        data.extend(tables.columns.as_deref().and_then(|symbol| self.column_table(symbol)));
        let packing = operand_packing.function(&phase_name("pack_operand"))?;
        let (mut phases, mut from, lanes) = (Vec::new(), x, phase_name("lanes"));
        let lanes = match &self.narrow {
            Some(narrow) => {
                if narrow.width < self.horizontal.input {
                    phases.push(phase(self.pad(&phase_name("pad"), narrow)?, &[x, padded]));
                    from = padded;
                }
                self.narrow_lanes(&lanes, narrow)?
            }
            None => self.lanes(&lanes)?,
        };
        phases.extend([
            phase(packing, &[from, planes]),
            phase(lanes, &[planes, operand]),
            phase(self.error().function(&phase_name("pack_error"))?, &[dy, error]),
        ]);
        Ok(Packed { phases, data, scratch, tables, operand, error })
    }

    /// `void order(bytes, dw)`, and its table.
    fn ordered(
        &self,
        name: &str,
        tables: &Tables,
        data: &mut Vec<DataObject>,
    ) -> Result<Function, MachineError> {
        match self.finish() {
            Finish::Interleave => {
                data.push(self.place_table(&tables.places));
                self.interleave(&format!("{name}_interleave"), &tables.places)
            }
            Finish::Bytes => match &self.narrow {
                Some(narrow) => self.narrow_scatter(&format!("{name}_scatter"), narrow),
                None => self.scatter(&format!("{name}_scatter")),
            },
        }
    }
}

/// What comes before the products.
pub(super) struct Packed {
    pub(super) phases: Vec<Phase>,
    pub(super) data: Vec<DataObject>,
    pub(super) scratch: Scratch,
    pub(super) tables: Tables,
    pub(super) operand: Argument,
    pub(super) error: Argument,
}

/// Symbols.
pub(super) struct Tables {
    pub(super) taps: String,
    pub(super) masks: String,
    places: String,
    columns: Option<String>,
}

pub(super) fn phase(function: Function, arguments: &[Argument]) -> Phase {
    Phase { function, arguments: arguments.to_vec() }
}
