//! Sums of a depthwise convolution that stay 32 bits wide, in the order of memory.
//!
//! Four vectors of sums, whose lanes are positions in turn, become positions in order; at a stride only its multiples are kept. Where
//! planes have padding, rows are then stored as whole vectors, several at once where they are short: what lies behind them is written
//! anew by the rows that follow.

use super::depthwise::{CALL, CHANNEL, COPIED, Sweep, WORD};
use super::depthwise_order::Target;
use super::depthwise_pack::{moved, step};
use super::depthwise_strided::Strided;
use super::depthwise_windows::SheetWindows;
use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::lanes::LANES;
use super::pool::{VECTOR, gather, table};
use super::support::{loop_over, rotate_in};
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Bytes of a sum.
const SUM: usize = 4;
/// Packets of 128 positions besides their products, and of a vector that is put in order.
const POSITIONS: usize = 6;
const ORDERED: usize = 3;
/// Most groups of rows that are written out.
const WRITTEN_OUT: usize = 4;

/// Positions in order, of two or four vectors whose lanes are positions in turn.
pub(super) fn in_order(b: &mut Builder, vectors: &[Register]) -> Vec<Register> {
    match vectors.len() {
        0 | 1 => vectors.to_vec(),
        count => rotate_in(b, vectors, SUM as i32, count),
    }
}

/// What puts rows in order.
struct Rows<'a> {
    target: &'a Target,
    source: Object,
    /// Brings several rows together.
    network: Option<Register>,
}

impl Sweep {
    /// Vectors of sums of 128 positions.
    pub(super) fn kept(&self) -> usize {
        if self.wide { (4 / self.horizontal.stride).max(1) } else { 4 }
    }

    /// Sums from a row to the next, and from an image of a vector to the next.
    fn sum_row(&self) -> usize {
        self.window_row() / self.horizontal.stride
    }

    fn sum_image(&self) -> usize {
        self.plane() / self.horizontal.stride
    }

    /// Bytes of the sums of 128 positions.
    fn sum_bytes(&self) -> usize {
        self.kept() * VECTOR
    }

    /// Rows that a vector holds.
    fn together(&self) -> usize {
        match LANES.checked_sub(self.horizontal.output) {
            Some(rest) => (rest / self.sum_row() + 1).min(self.tile().rows),
            None => 1,
        }
    }

    fn sum_places(&self) -> Vec<usize> {
        let row = |r: usize| (0..self.horizontal.output).map(move |c| r * self.sum_row() + c);
        let sums = (0..self.together()).flat_map(row);
        sums.flat_map(|at| (0..SUM).map(move |byte| SUM * at + byte)).collect()
    }

    pub(super) fn is_wide_order_supported(&self) -> bool {
        let stride = self.horizontal.stride;
        matches!(stride, 1 | 2 | 4)
            && self.window_row().is_multiple_of(stride)
            && (self.together() == 1 || gather(&self.sum_places()).is_some())
    }

    /// Rows of windows of the vectors of a plane.
    fn tiles(&self) -> (usize, usize) {
        let rows = self.tile().rows;
        (self.vertical.output / rows, self.vertical.output % rows)
    }

    /// Vectors of so many rows that are put in order.
    fn stores(&self, rows: usize) -> usize {
        (rows * self.horizontal.output).div_ceil(LANES)
    }

    /// Where vectors of a plane of the result begin, in bytes.
    fn starts(&self) -> Vec<usize> {
        let (tile, output) = (self.tile().rows, self.horizontal.output);
        let mut starts = Vec::new();
        let mut row = 0;
        while row < self.vertical.output {
            let left = (tile - row % tile).min(self.vertical.output - row);
            let rows = self.together().min(left);
            let vectors = (0..self.stores(rows)).map(|i| SUM * row * output + i * VECTOR);
            starts.extend(vectors);
            row += rows;
        }
        starts
    }

    /// An estimate of the packets of [`Self::wide_kernel`] of padded planes.
    pub(super) fn wide_packets(&self) -> usize {
        let copied = self.codes().vectors() * COPIED;
        let word = if self.horizontal.stride == 1 { WORD } else { 1 };
        let positions = POSITIONS + word * self.vertical.taps * self.words();
        let ordered = self.images * self.starts().len() * ORDERED;
        self.channels * (copied + self.vectors() * positions + ordered + CHANNEL) + CALL
    }

    /// `void kernel(planes, kernels, sums, working memory)`.
    pub(super) fn wide_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        if let Some(windows) = SheetWindows::of(self) {
            return windows.wide_kernel(name);
        }
        if let Some(strided) = Strided::of(self) {
            return strided.wide_kernel(name);
        }
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let [x, weights, y] = [0, 1, 2].map(Argument::Parameter);
        let packing = self.codes();
        let mut scratch = Scratch::default();
        let planes = scratch.take(packing.bytes());
        // Rows are read by whole vectors.
        let sums = self.channels * self.vectors() * self.sum_bytes() + SUM * VECTOR;
        let sums = scratch.take(sums);
        let end = scratch.take(3 * VECTOR);
        let (pack, pack_table) = packing.function(&phase_name("pack"))?;
        let (sweep, sweep_table) = self.sums(&phase_name("sums"))?;
        let (order, order_table) = self.wide_order(&phase_name("order"))?;
        let phases = vec![
            Phase { function: pack, arguments: vec![x, planes] },
            Phase { function: sweep, arguments: vec![planes, weights, sums] },
            Phase { function: order, arguments: vec![sums, y, end] },
        ];
        let tables = [Some(pack_table), sweep_table, order_table];
        Ok(Kernel {
            name: name.into(),
            purpose: "Each channel by its own kernel, in 32 bits.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: tables.into_iter().flatten().collect(),
        })
    }

    /// `void order(sums, result, end)`, and the table that it reads, if any. `end` is three vectors of working memory.
    fn wide_order(&self, name: &str) -> Result<(Function, Option<DataObject>), MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts sums in the order image, channel, row, column.");
        let (sums, y, end) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (source, object, constant) = (b.object("sums"), b.object("y"), b.object("table"));
        let table = (self.together() > 1).then(|| {
            let network = gather(&self.sum_places()).unwrap_or([0; VECTOR]);
            table(name, [&network])
        });
        let network = table.as_ref().map(|table| {
            let address = b.address(&table.symbol, 0);
            b.load(Opcode::LoadV, (address, 0), constant)
        });
        let target = Target::new(&mut b, y, end, SUM * self.results(), object);
        let rows = Rows { target: &target, source, network };
        let (from, to) = (b.copy(sums), b.copy(y));
        let image = |b: &mut Builder| {
            let from = b.copy(from);
            loop_over(b, self.channels, "channels", |b| {
                self.wide_plane(b, from, to, &rows);
                step(b, from, from, self.vectors() * self.sum_bytes());
            });
        };
        let tile = self.tile();
        if tile.images == 1 {
            loop_over(&mut b, self.images, "images", |b| {
                image(b);
                step(b, from, from, self.vectors_of_image() * self.sum_bytes());
            });
        } else {
            let distance = SUM * self.sum_image();
            loop_over(&mut b, self.images / tile.images, "vectors of images", |b| {
                let next = moved(b, from, self.sum_bytes());
                loop_over(b, tile.images, "images of a vector", |b| {
                    image(b);
                    step(b, from, from, distance);
                });
                b.copy_to(from, next);
            });
            let rest = self.images % tile.images;
            // The last vector holds images of the one before again.
            step(&mut b, from, from, (tile.images - rest) * distance);
            loop_over(&mut b, rest, "images of the last vector", |b| {
                image(b);
                step(b, from, from, distance);
            });
        }
        target.finish(&mut b, self.first_wide_behind());
        Ok((b.finish(None)?, table))
    }

    /// A plane of sums; `to` ends at the next of the result.
    fn wide_plane(&self, b: &mut Builder, from: Register, to: Register, rows: &Rows<'_>) {
        let (tiles, rest) = self.tiles();
        let vector = b.copy(from);
        loop_over(b, tiles, "vectors of a plane", |b| {
            self.wide_rows(b, vector, to, self.tile().rows, rows);
            step(b, vector, vector, self.sum_bytes());
        });
        if rest > 0 {
            // The last vector covers rows of the one before again.
            let covered = SUM * (self.tile().rows - rest) * self.sum_row();
            step(b, vector, vector, covered);
            self.wide_rows(b, vector, to, rest, rows);
        }
    }

    /// Rows of a vector of positions; `to` ends behind them.
    fn wide_rows(
        &self,
        b: &mut Builder,
        from: Register,
        to: Register,
        count: usize,
        rows: &Rows<'_>,
    ) {
        let together = self.together();
        let (full, rest) = (count / together, count % together);
        let [source, result] = [self.sum_row(), self.horizontal.output].map(|row| SUM * row);
        if full <= WRITTEN_OUT {
            for first in (0..count).step_by(together) {
                let at = moved(b, from, first * source);
                let target = moved(b, to, first * result);
                rows.store(b, at, target, self.stores(together.min(count - first)));
            }
            step(b, to, to, count * result);
            return;
        }
        let at = b.copy(from);
        loop_over(b, full, "rows", |b| {
            rows.store(b, at, to, self.stores(together));
            step(b, at, at, together * source);
            step(b, to, to, together * result);
        });
        if rest > 0 {
            rows.store(b, at, to, self.stores(rest));
            step(b, to, to, rest * result);
        }
    }

    /// As [`Self::first_behind`], of sums.
    fn first_wide_behind(&self) -> Option<usize> {
        let count = SUM * self.results();
        let plane = SUM * self.vertical.output * self.horizontal.output;
        let starts = self.starts();
        let planes = (0..count / plane).rev().map(|p| p * plane);
        let near = planes.take_while(|start| start + plane + VECTOR > count);
        near.flat_map(|start| starts.iter().map(move |at| start + at))
            .filter(|at| at + VECTOR > count)
            .min()
    }
}

impl Rows<'_> {
    /// Vectors that follow each other.
    fn store(&self, b: &mut Builder, from: Register, to: Register, vectors: usize) {
        for i in 0..vectors {
            let [from, to] = [from, to].map(|at| moved(b, at, i * VECTOR));
            let mut sums = b.load(Opcode::LoadVUnaligned, (from, 0), self.source);
            if let Some(network) = self.network {
                sums = b.emit(Opcode::Vrdelta, (sums, network));
            }
            self.target.store(b, to, sums);
        }
    }
}
