//! Sums over windows whose lanes are neighbouring positions: for few images, few channels, few features.
//!
//! The operand lies in frames: of an image and four channels, every position is a word, 128 added, and rows follow each
//! other with as many zeros between them as one side of the padding takes. In a frame a tap is a distance, so a vector
//! of 32 positions reads its operand at any tap by one load, and pairs of products take a word of weights of a feature each.
//! Lanes between rows hold sums, too: they are left out of the magnitudes, and when rows are put together.
//!
//! At stride 2 the operand of a convolution falls into parts, a frame of its even rows and odd columns and so on, and the result of
//! an error gradient does: in a part of it all windows have the same taps, and no inserted zero is multiplied.
//!
//! | what | layout |
//! |---|---|
//! | frames | `[image][quad of channels][part][position][channel of the quad]` u8, 128 added |
//! | packed weights | start values `[group][part][feature]`, `[group of features][quad, tap][feature][channel of the quad]` i8 |
//! | sums | `[image][feature][part][position]` i32, whole vectors |
//! | bytes | `[image][feature][part][position]` i8 |

use trainc_ir::product::{Convolution, Pass};

use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::plane_axis::{OperandPart, PlaneAxis, ResultPart, Tap};
use super::plane_memory::advance;
use super::plane_tile::{Memory, Tile};
use super::product::{LANES, VECTOR};
use super::requantize::requantize_in_order;
use super::support::{loop_over, or_lanes, zero_vector};
use super::weight_gradient::word;
use super::weights::WeightStrides;
use super::window::Span;
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Range, Register};

/// Most position vectors of a tile.
const MOST_VECTORS: usize = 4;
/// Features of a tile.
pub(super) const ROWS: usize = 4;
/// Most taps whose weights are packed, and most columns of a plane.
const MOST_TAPS: usize = 64;
const MOST_COLUMNS: usize = VECTOR;

/// Columns that a word holds beside its own, where it holds four.
const LEAD: usize = 3;
/// Most stride.
const MOST_STRIDE: usize = 2;

/// `y[n, f, r, c] = sum over channels k, taps of the window at (r, c) of x[n, k, where it reads] w[f, k, tap]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaneProduct {
    /// Images.
    pub images: usize,
    /// Channels of the operand.
    pub channels: usize,
    /// Channels of the result.
    pub features: usize,
    /// Rows and columns.
    pub axes: [PlaneAxis; 2],
    /// Of a single channel, taps of a row of windows, if a word holds four columns instead of four channels.
    pub columns: Option<usize>,
    /// Whether the operand's bytes are unsigned: they lie in frames as they are.
    pub unsigned: bool,
}

impl PlaneProduct {
    /// The product of a convolution or of its error gradient. Of a single channel, words hold four columns where windows allow it.
    ///
    /// # Errors
    /// Why these kernels cannot do it.
    pub fn new(c: &Convolution) -> Result<PlaneProduct, &'static str> {
        let [rows, columns] = Span::of(c);
        let single = c.channels == 1 && c.pass == Pass::Forward;
        let near = columns.stride == 1 && columns.dilation == 1 && columns.kernel > 1;
        let product = Self::of_channels(c)?.flat();
        if !single || !near || c.width + LEAD > MOST_COLUMNS {
            return Ok(product);
        }
        let axes = [PlaneAxis::forward(&rows), PlaneAxis::forward_by_fours(&columns)];
        Ok(PlaneProduct { axes, columns: Some(columns.kernel), ..product })
    }

    /// The same product; where windows are single positions, each of them, rows are as long as can be: lanes between rows are
    /// none, and fewer rows are put into frames.
    fn flat(self) -> PlaneProduct {
        if !self.axes.iter().all(PlaneAxis::is_each_position) {
            return self;
        }
        let positions: usize = self.input().iter().product();
        let columns = (1..=MOST_COLUMNS).rev().find(|n| positions.is_multiple_of(*n)).unwrap_or(1);
        let axes = [positions / columns, columns].map(PlaneAxis::each_position);
        PlaneProduct { axes, ..self }
    }

    /// Whether sums lie as results do, all lanes of all vectors: bytes of sums in order are the result.
    pub(super) fn is_dense(&self) -> bool {
        let [rows, columns] = self.output();
        let side_by_side = self.result_parts().len() == 1 && self.pitch() == columns;
        side_by_side && (rows * columns).is_multiple_of(LANES) && self.features.is_multiple_of(ROWS)
    }

    /// As [`Self::new`], words always of channels.
    ///
    /// # Errors
    /// Why these kernels cannot do it.
    pub(super) fn of_channels(c: &Convolution) -> Result<PlaneProduct, &'static str> {
        if c.strides.iter().any(|&stride| stride > MOST_STRIDE) || c.groups > 1 {
            return Err("its windows lie apart");
        }
        let (images, spans) = (c.images, Span::of(c));
        let (axes, [channels, features]) = match c.pass {
            Pass::Error => (spans.each_ref().map(PlaneAxis::error), [c.outputs, c.channels]),
            _ => (spans.each_ref().map(PlaneAxis::forward), [c.channels, c.outputs]),
        };
        let product = Self { images, channels, features, axes, columns: None, unsigned: false };
        if product.tap_count() > MOST_TAPS || c.width.max(c.columns) > MOST_COLUMNS {
            return Err("its windows or rows are too large");
        }
        let bytes = product.sums_bytes().max(product.frame_bytes()).max(product.weight_bytes());
        let words = product.quad_words();
        if bytes >= 1 << 30 || words > 1 << 20 || product.images * product.features == 0 {
            return Err("its sums or frames are too large");
        }
        Ok(product)
    }

    /// Taps of a window.
    #[must_use]
    pub fn tap_count(&self) -> usize {
        self.axes[0].taps * self.axes[1].taps
    }

    /// Most products of a sum.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self.columns {
            Some(taps) => self.axes[0].taps * taps,
            None => self.tap_count() * self.channels,
        }
    }

    /// Words before a row that hold some of its columns, where a word holds four.
    pub(super) fn lead(&self) -> usize {
        if self.columns.is_some() { LEAD.min(self.axes[1].operand[0].first) } else { 0 }
    }

    /// Rows and columns of the operand.
    pub(super) fn input(&self) -> [usize; 2] {
        self.axes.each_ref().map(|axis| axis.input)
    }

    /// Rows and columns of the result.
    pub(super) fn output(&self) -> [usize; 2] {
        self.axes.each_ref().map(|axis| axis.output)
    }

    /// Parts of the operand: rows and columns of each.
    pub(super) fn operand_parts(&self) -> Vec<[OperandPart; 2]> {
        let [rows, columns] = &self.axes;
        rows.operand.iter().flat_map(|&r| columns.operand.iter().map(move |&c| [r, c])).collect()
    }

    /// Parts of the result: rows and columns of each.
    pub(super) fn result_parts(&self) -> Vec<[&ResultPart; 2]> {
        let [rows, columns] = &self.axes;
        rows.result.iter().flat_map(|r| columns.result.iter().map(move |c| [r, c])).collect()
    }

    /// Of each tap of a part of the result, the weights' and the word of a quad's frames that its first window reads.
    pub(super) fn taps_of(&self, [rows, columns]: [&ResultPart; 2]) -> Vec<(usize, usize)> {
        let [_, across] = &self.axes;
        let taps = rows.taps.iter().flat_map(|r| columns.taps.iter().map(move |c| (r, c)));
        let place = |(r, c): (&Tap, &Tap)| {
            let part = r.operand * across.operand.len() + c.operand;
            let word = part * self.frame_words() + r.place * self.pitch() + c.place;
            (r.tap * across.taps + c.tap, word)
        };
        taps.map(place).collect()
    }

    /// Multiplications, those with padding included.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        let of = |axis: &PlaneAxis| -> usize {
            axis.result.iter().map(|result| result.part.count * result.taps.len()).sum()
        };
        let [rows, columns] = &self.axes;
        let columns = match self.columns {
            Some(taps) => columns.output * taps,
            None => of(columns),
        };
        self.images * self.features * self.channels * of(rows) * columns
    }

    pub(super) fn quads(&self) -> usize {
        self.channels.div_ceil(4)
    }

    /// Positions from a row of a frame to the next.
    pub(super) fn pitch(&self) -> usize {
        self.axes[1].pitch()
    }

    /// Vectors of result positions of an image, a feature and a part.
    pub(super) fn vectors(&self) -> usize {
        let [rows, columns] = self.axes.each_ref().map(PlaneAxis::longest);
        ((rows - 1) * self.pitch() + columns).div_ceil(LANES)
    }

    /// The place of a part's first element.
    pub(super) fn first_word(&self, [rows, columns]: [OperandPart; 2]) -> usize {
        rows.first * self.pitch() + columns.first
    }

    /// Stores that write a row and the zeros behind it.
    pub(super) fn row_vectors(&self) -> usize {
        self.pitch().div_ceil(LANES)
    }

    /// Words of a frame.
    pub(super) fn frame_words(&self) -> usize {
        let [rows, columns] = self.axes.each_ref().map(PlaneAxis::last_place);
        let read = self.vectors() * LANES + rows * self.pitch() + columns;
        let written = |parts: &[OperandPart; 2]| {
            let last = parts[0].part.count.saturating_sub(1);
            self.first_word(*parts) + last * self.pitch() + self.row_vectors() * LANES
        };
        let written = self.operand_parts().iter().map(written).max().unwrap_or(0);
        read.max(written).next_multiple_of(LANES)
    }

    /// Words of the frames of an image and a quad.
    pub(super) fn quad_words(&self) -> usize {
        self.operand_parts().len() * self.frame_words()
    }

    /// Bytes of all frames, and of what is written behind the last.
    fn frame_bytes(&self) -> usize {
        self.images * self.quads() * self.quad_words() * 4 + VECTOR
    }

    /// Quads and taps of a part of the result, filled up to an even number.
    fn steps_of(&self, part: [&ResultPart; 2]) -> usize {
        let taps = part[0].taps.len() * part[1].taps.len();
        (self.quads() * taps).next_multiple_of(2).max(2)
    }

    /// Quads and taps of all parts.
    fn steps(&self) -> usize {
        self.result_parts().into_iter().map(|part| self.steps_of(part)).sum()
    }

    /// Quads and taps that weights are packed of, and, where there is one, a tap of zeros that fills up.
    pub(super) fn packed_steps(&self) -> usize {
        let taps = self.quads() * self.tap_count();
        match self.result_parts().len() {
            1 => taps.next_multiple_of(2),
            _ => taps + 1,
        }
    }

    /// Features of each group.
    pub(super) fn groups(&self) -> Vec<usize> {
        let rest = match self.features % ROWS {
            0 => None,
            1 | 2 => Some(2),
            _ => Some(ROWS),
        };
        std::iter::repeat_n(ROWS, self.features / ROWS).chain(rest).collect()
    }

    /// Features with those that fill up a group.
    fn rows(&self) -> usize {
        self.groups().iter().sum()
    }

    /// Bytes of the start values, and of what is written behind them.
    pub(super) fn start_bytes(&self) -> usize {
        (self.rows() * self.result_parts().len() * 4 + VECTOR).next_multiple_of(VECTOR)
    }

    /// Bytes of the weights as the program has them.
    pub(super) fn plain_weight_bytes(&self) -> usize {
        self.features * self.depth()
    }

    /// Bytes of working memory while weights are packed.
    #[must_use]
    pub fn packing_bytes(&self) -> usize {
        let copy = self.plain_weight_bytes().next_multiple_of(VECTOR) + VECTOR;
        let single = (self.tap_count() == 1).then(|| self.single_tap_bytes());
        copy.max(single.unwrap_or(0))
    }

    /// Bytes of the packed weights, and of what is written or read behind them.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.start_bytes()
            + (self.rows() * self.packed_steps() * 4 + VECTOR).next_multiple_of(VECTOR)
    }

    fn sums_bytes(&self) -> usize {
        self.sum_vectors() * VECTOR
    }

    /// Vectors of a feature's sums of all parts.
    pub(super) fn feature_vectors(&self) -> usize {
        self.result_parts().len() * self.vectors()
    }

    /// A multiple of four.
    fn sum_vectors(&self) -> usize {
        (self.images * self.rows() * self.feature_vectors()).next_multiple_of(4)
    }

    /// Vectors of each tile.
    fn tiles(&self) -> Vec<usize> {
        let vectors = self.vectors();
        let count = vectors.div_ceil(MOST_VECTORS);
        (0..count).map(|i| vectors / count + usize::from(i < vectors % count)).collect()
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub fn packets(&self, strides: &WeightStrides) -> usize {
        let planes = self.images * self.features;
        let [rows, across] = self.output();
        let parts = self.axes[1].result.len();
        let row = if parts > 1 { 4 } else { 2 };
        let results = match self.rows_of_vector() {
            _ if self.is_dense() => 0,
            Some(_) => {
                let row = if parts > 1 { 9 } else { 4 };
                planes * (rows * row / 3 + rows * across / VECTOR + 8)
            }
            None => planes * (row * rows + 4) + planes * rows * across / 64,
        };
        self.product_packets(strides) + self.sum_vectors() * 5 / 4 + results
    }

    /// An estimate of the packets of a launch of [`Self::sums_kernel`].
    #[must_use]
    pub fn sums_packets(&self, strides: &WeightStrides) -> usize {
        let rows = if self.is_dense() { 0 } else { self.word_row_packets() };
        self.product_packets(strides) + rows
    }

    /// Packets of all but what is done with sums.
    fn product_packets(&self, strides: &WeightStrides) -> usize {
        let (images, quads, groups) = (self.images, self.quads(), self.groups());
        let [_, columns] = &self.axes;
        let frame = |row: &OperandPart| {
            let [_, width] = self.input();
            // A load of a row is for all its parts.
            let parts = columns.operand.len();
            let apart = if columns.operand_stride > 1 { width.div_ceil(2 * LANES) } else { 0 };
            let around = self.frame_words().saturating_sub(row.part.count * self.pitch()) / LANES;
            row.part.count * (7 + apart + parts * self.row_vectors()) + parts * (around + 12)
        };
        let frames: usize = self.axes[0].operand.iter().map(frame).sum();
        let parts = self.result_parts();
        let start = if parts.len() > 1 { 14 * parts.len() } else { 0 };
        let turns = self.tap_count().div_ceil(LANES);
        let by_words = groups.len() * (quads * turns * (36 + 2 * start / 14) + 16 + start)
            + self.plain_weight_bytes() / VECTOR;
        let weights = match self.columns {
            Some(_) => self.features * (self.depth() * 2 + 12),
            None => self.single_tap_packets(strides).unwrap_or(by_words),
        };
        let tiles = self.tiles();
        let tile = |rows: usize, vectors: usize| -> usize {
            let step = (rows * vectors / 2).max(vectors + 1);
            let around = match parts.len() {
                1 if self.is_dense() => 12,
                1 => 16,
                _ => 20,
            };
            let part =
                |&part: &[&ResultPart; 2]| self.steps_of(part) * step + rows * vectors + around;
            parts.iter().map(part).sum()
        };
        let products: usize =
            groups.iter().flat_map(|&rows| tiles.iter().map(move |&v| tile(rows, v))).sum();
        images * quads * frames + weights + images * products + 80
    }

    /// What steps read of a quad's frames and of a group's weights; then, of the vectors of result positions, which lanes are
    /// results.
    ///
    /// Steps of a single part have their distances in a frame's bytes, and one more; weights follow each other. Of several parts,
    /// each has half its steps and where its list begins; lists are of (distance, place of the weights).
    fn tables(&self, name: &str) -> [DataObject; 2] {
        let parts = self.result_parts();
        let single = parts.len() == 1;
        let mut words = Vec::new();
        let mut lists: Vec<i32> = Vec::new();
        // Of two features; of four, twice as much.
        let place = |step: usize| word(4 * 2 * step);
        let nothing = place(self.packed_steps() - 1);
        for &part in &parts {
            let (taps, steps) = (self.taps_of(part), self.steps_of(part));
            if !single {
                words.push(word(steps / 2));
                words.push(word(4 * (2 * parts.len() + lists.len())));
            }
            let mut list = Vec::new();
            for quad in 0..self.quads() {
                for &(tap, at) in &taps {
                    list.push(word(4 * (quad * self.quad_words() + at)));
                    if !single {
                        list.push(place(quad * self.tap_count() + tap));
                    }
                }
            }
            let filling: &[i32] = if single { &[0] } else { &[0, nothing] };
            while list.len() < (steps + 2) * filling.len() {
                list.extend(filling);
            }
            lists.extend(list);
        }
        words.extend(lists);
        let pitch = self.pitch();
        let lanes = parts.iter().flat_map(|[rows, columns]| {
            let [rows, columns] = [rows.part.count, columns.part.count];
            let is_result = move |at: usize| at % pitch < columns && at / pitch < rows;
            (0..self.vectors() * LANES).map(move |at| -i32::from(is_result(at)))
        });
        let lanes = lanes.collect();
        [
            DataObject { symbol: format!("{name}_steps"), words },
            DataObject { symbol: format!("{name}_lanes"), words: lanes },
        ]
    }

    /// `int kernel(x, packed weights, y, working memory)`: `y = requantize(product)`; returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let mut scratch = Scratch::default();
        let frames = scratch.take(self.frame_bytes());
        let sums = scratch.take(self.sums_bytes());
        let [steps, lanes] = self.tables(name);
        let symbols = [steps.symbol.as_str(), lanes.symbol.as_str()];
        let products = self.products(&phase_name("products"), symbols, true)?;
        let round = requantize_in_order(&phase_name("requantize"), self.sum_vectors(), bits, low)?;
        let y = Argument::Parameter(2);
        let (bytes, dense) = match self.is_dense() {
            true => (y, None),
            false => {
                let bytes = scratch.take(self.sum_vectors() * LANES + VECTOR);
                (bytes, Some(scratch.take(self.result_bytes() + VECTOR)))
            }
        };
        let mut phases = vec![
            Phase {
                function: self.frames(&phase_name("frames"))?,
                arguments: vec![Argument::Parameter(0), frames],
            },
            Phase { function: products, arguments: vec![frames, Argument::Parameter(1), sums] },
            Phase { function: round, arguments: vec![sums, bytes, Argument::Result(1)] },
        ];
        if let Some(dense) = dense {
            let function = self.put_rows(&phase_name("rows"))?;
            phases.push(Phase { function, arguments: vec![bytes, dense, y] });
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "Sums over windows of planes, requantised by the largest magnitude.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: if self.is_dense() { vec![steps] } else { vec![steps, lanes] },
        })
    }

    /// `int kernel(x, packed weights, y, working memory)`: `y = product` in 32 bits; what it returns says nothing.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn sums_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let mut scratch = Scratch::default();
        let frames = scratch.take(self.frame_bytes());
        let [x, weights, y] = [0, 1, 2].map(Argument::Parameter);
        let [steps, lanes] = self.tables(name);
        let symbols = [steps.symbol.as_str(), lanes.symbol.as_str()];
        let products = self.products(&phase_name("products"), symbols, false)?;
        let sums = match self.is_dense() {
            true => y,
            false => scratch.take(self.sums_bytes() + VECTOR),
        };
        let mut phases = vec![
            Phase { function: self.frames(&phase_name("frames"))?, arguments: vec![x, frames] },
            Phase { function: products, arguments: vec![frames, weights, sums] },
        ];
        if !self.is_dense() {
            let last = scratch.take(self.last_words_bytes());
            let function = self.put_words(&phase_name("rows"))?;
            phases.push(Phase { function, arguments: vec![sums, last, y] });
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "Sums over windows of planes, in 32 bits.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![steps],
        })
    }

    /// Bytes of the result.
    pub(super) fn result_bytes(&self) -> usize {
        let [rows, columns] = self.output();
        self.images * self.features * rows * columns
    }

    /// Positions of all features of an image with those that fill up groups.
    pub(super) fn image_positions(&self) -> usize {
        self.rows() * self.feature_vectors() * LANES
    }

    /// `int products(frames, packed weights, sums)`: returns the bitwise or of all magnitudes, if wanted.
    fn products(
        &self,
        name: &str,
        [steps, lanes]: [&str; 2],
        magnitudes: bool,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose(match magnitudes {
            true => {
                "Sums over windows, 32 positions at a time, and the bitwise or of their magnitudes."
            }
            false => "Sums over windows, 32 positions at a time.",
        });
        let (frames, packed, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let groups = self.groups();
        let full = groups.iter().filter(|&&rows| rows == ROWS).count();
        // The last group alone has other features.
        let range = match full == groups.len() {
            true => b.range(full, &["frames", "weights", "sums"]),
            false => Range::Whole(u32::try_from(full).unwrap_or(u32::MAX)),
        };
        let magnitude = magnitudes.then(|| {
            let magnitude = b.fresh(Class::V);
            zero_vector(&mut b, magnitude);
            magnitude
        });
        let memory = Memory {
            frames: b.object("frames"),
            weights: b.object("weights"),
            steps: b.object("steps"),
            lanes: b.object("lanes"),
            sums: b.object("sums"),
        };
        let tiles = self.tiles();
        let parts = self.result_parts().len();
        let group_bytes = |rows: usize| {
            [
                rows * self.feature_vectors() * VECTOR,
                4 * rows * parts,
                4 * rows * self.packed_steps(),
            ]
        };
        loop_over(&mut b, self.images, "images", |b| {
            let (starts, to_sums) = (b.copy(packed), b.copy(sums));
            let weights = b.emit(Opcode::AddImmediate, (packed, word(self.start_bytes())));
            for (pointer, bytes) in [to_sums, starts, weights].into_iter().zip(group_bytes(ROWS)) {
                range.move_on(b, pointer, bytes);
            }
            let group = |b: &mut Builder, rows: usize| {
                let masked = magnitudes && !self.is_dense();
                let mask = masked.then(|| b.address(lanes, 0));
                // A part: its start values and sums, and, of several, its list with how often two steps of it are.
                let part = |b: &mut Builder, starts, sums, list: Option<(Register, Register)>| {
                    let (x, to) = (b.copy(frames), b.copy(sums));
                    let tile = |b: &mut Builder, vectors: usize| {
                        let plane = self.feature_vectors() * VECTOR;
                        let tile = Tile::new(b, rows, vectors, plane, magnitude, memory);
                        tile.start(b, starts);
                        match list {
                            None => {
                                let list = b.address(steps, 0);
                                tile.sum(b, x, list, weights, self.steps() / 2);
                            }
                            Some((list, rounds)) => {
                                let list = b.copy(list);
                                tile.sum_of_lists(b, x, list, weights, rounds);
                            }
                        }
                        tile.finish(b, to, mask);
                        for pointer in [x, to].into_iter().chain(mask) {
                            advance(b, pointer, vectors * VECTOR);
                        }
                    };
                    let large = tiles.iter().filter(|&&vectors| vectors == tiles[0]).count();
                    loop_over(b, large, "tiles", |b| tile(b, tiles[0]));
                    if large < tiles.len() {
                        let last = tiles[tiles.len() - 1];
                        loop_over(b, tiles.len() - large, "tiles", |b| tile(b, last));
                    }
                };
                if parts == 1 {
                    part(b, starts, to_sums, None);
                } else {
                    let table = b.address(steps, 0);
                    let (entry, starts, sums) = (b.copy(table), b.copy(starts), b.copy(to_sums));
                    loop_over(b, parts, "parts of the result", |b| {
                        let head = b.load(Opcode::LoadDNext, (entry, 8), memory.steps);
                        let list = b.emit(Opcode::Add, (table, head.high()));
                        part(b, starts, sums, Some((list, head.low())));
                        advance(b, starts, 4 * rows);
                        advance(b, sums, self.vectors() * VECTOR);
                    });
                }
                for (pointer, bytes) in
                    [to_sums, starts, weights].into_iter().zip(group_bytes(rows))
                {
                    advance(b, pointer, bytes);
                }
            };
            range.repeat(b, "groups of features", |b| group(b, ROWS));
            if full < groups.len() {
                group(b, groups[full]);
            }
            advance(b, frames, 4 * self.quads() * self.quad_words());
            advance(b, sums, self.rows() * self.feature_vectors() * VECTOR);
        });
        let magnitude = magnitude.map(|magnitude| or_lanes(&mut b, magnitude));
        b.finish(magnitude)
    }
}
