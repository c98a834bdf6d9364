//! Sums over windows of int8 maps: the convolution and its error gradient.
//!
//! The multiplier takes unsigned bytes of a vector and signed bytes of a scalar. Lanes are result channels, whose weights
//! are stored with 128 added; the scalar holds four channels of one position of one image. What the 128 adds, 128 times
//! the sum of the operand over the window, is the start value of the accumulators. The operand's bytes may be unsigned, too.
//!
//! Memory of a launch, all in pieces of 128 bytes (images come in groups of four, channels in quads):
//!
//! | what | layout |
//! |---|---|
//! | packed operand | `[group][quad][position][image of the group][channel of the quad]` i8 |
//! | channel sums | `[group][position][image]` i32 |
//! | start values | `[group][result position][image]` i32 |
//! | packed weights | `[block][tap][quad][vector of the block][32 lanes][channel of the quad]` u8 |
//! | sums | `[group][vector][image][result position][32 lanes]` i32 |
//! | bytes | `[group][vector][image][result position / 4][32 lanes][4 positions]` i8 |
//!
//! Taps in the padding are never multiplied: each result position walks a list of the taps that it has. One that has none
//! takes no part: the others' bytes are spread out at the end.

use super::DataObject;
use super::spread::{Places, Spread};
use super::static_shift::{Narrow, StaticShift};
use super::support::{Piece, constant_loop, loop_over, multiply_among, words, zero_vector};
use super::weights::WeightStrides;
use super::window::{Axis, Classes};
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Range, Register};

/// Packets of a vector that is spread out.
const SPREAD: usize = 4;
/// Images of a group: rows of a tile.
pub const GROUP: usize = 4;
/// Bytes of a position in the packed operand, and of its channel sums.
pub const POSITION_BYTES: usize = 16;
/// Bytes of a vector.
pub const VECTOR: usize = 128;
/// 32-bit lanes of a vector.
pub const LANES: usize = 32;

/// Bytes between neighbours of an operand `[image][channel][position]`, whatever stands for its images and channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandStrides {
    /// From an image to the next.
    pub image: usize,
    /// From a channel to the next.
    pub channel: usize,
}

impl OperandStrides {
    /// Of bytes without gaps.
    #[must_use]
    pub fn natural(channels: usize, positions: usize) -> OperandStrides {
        OperandStrides { image: channels * positions, channel: positions }
    }
}

/// A sum over windows: `y[n, f, oh, ow] = sum over channels c, taps t of x[n, c, reads(oh, ow, t)] w[f, c, t]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WindowProduct {
    /// Images.
    pub images: usize,
    /// Channels of the operand.
    pub channels: usize,
    /// Channels of the result.
    pub features: usize,
    /// Rows.
    pub vertical: Axis,
    /// Columns.
    pub horizontal: Axis,
    /// Where these rows and columns lie in the result, if others read nothing.
    pub spread: Option<Spread>,
    /// Whether the operand's bytes are unsigned.
    pub unsigned: bool,
    /// Where the operand's bytes lie.
    pub operand: OperandStrides,
}

impl WindowProduct {
    /// The product with these rows and columns. Those that read nothing are no part of it, but of the way in which the
    /// result is written.
    ///
    /// # Errors
    /// Why these kernels cannot do it.
    pub fn new(
        images: usize,
        channels: usize,
        features: usize,
        [vertical, horizontal]: [Axis; 2],
    ) -> Result<WindowProduct, &'static str> {
        let dense = [vertical.dense(), horizontal.dense()];
        let spread = if dense[0] == vertical && dense[1] == horizontal {
            None
        } else {
            let (Some(rows), Some(columns)) = (Places::of(&vertical), Places::of(&horizontal))
            else {
                return Err("windows without a tap lie between others at unequal distances");
            };
            let spread = Spread { planes: images * features, rows, columns };
            if !spread.is_supported() {
                return Err("windows without a tap lie between others in rows wider than a vector");
            }
            Some(spread)
        };
        let [vertical, horizontal] = dense;
        let positions = vertical.input * horizontal.input;
        let operand = OperandStrides::natural(channels, positions);
        let product = WindowProduct {
            images,
            channels,
            features,
            vertical,
            horizontal,
            spread,
            unsigned: false,
            operand,
        };
        if !product.is_supported() {
            return Err("its sums, panels or tables are too large");
        }
        Ok(product)
    }

    fn is_supported(&self) -> bool {
        self.images > 0
            && self.channels > 0
            && self.features > 0
            && self.sums_bytes() < 1 << 30
            && self.operand_bytes() < 1 << 30
            && self.weight_bytes() < 1 << 30
    }

    /// Groups of four images.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.images.div_ceil(GROUP)
    }

    /// Quads of channels, an even number.
    #[must_use]
    pub fn quads(&self) -> usize {
        self.channels.div_ceil(8) * 2
    }

    /// Positions of the operand.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.vertical.input * self.horizontal.input
    }

    /// Positions of the result.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.vertical.reads.len() * self.horizontal.reads.len()
    }

    /// Bytes of one quad of one group in the packed operand.
    #[must_use]
    pub fn plane_bytes(&self) -> usize {
        self.inputs().next_multiple_of(8) * POSITION_BYTES
    }

    /// Bytes of the packed operand.
    #[must_use]
    pub fn operand_bytes(&self) -> usize {
        self.groups() * self.quads() * self.plane_bytes()
    }

    /// Bytes of the channel sums.
    #[must_use]
    pub fn channel_sum_bytes(&self) -> usize {
        self.groups() * self.plane_bytes()
    }

    /// Bytes of the start values.
    #[must_use]
    pub fn start_bytes(&self) -> usize {
        (self.groups() * self.outputs() * POSITION_BYTES).next_multiple_of(VECTOR)
    }

    /// Vectors of result channels.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.features.div_ceil(LANES)
    }

    /// Vectors of a tile: the most that four rows of accumulators leave room for.
    #[must_use]
    pub fn block(&self) -> usize {
        [4, 3, 2].into_iter().find(|n| self.vectors().is_multiple_of(*n)).unwrap_or(1)
    }

    /// Taps of the kernel.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.vertical.taps * self.horizontal.taps
    }

    /// Bytes of the packed weights.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.vectors() * self.taps() * self.quads() * VECTOR
    }

    /// Result positions with the padding to whole quads.
    #[must_use]
    pub fn padded_outputs(&self) -> usize {
        self.outputs().next_multiple_of(4)
    }

    /// Bytes of the sums.
    #[must_use]
    pub fn sums_bytes(&self) -> usize {
        self.groups() * self.vectors() * GROUP * self.padded_outputs() * VECTOR
    }

    /// Bytes of the requantised sums before they are put in the result's order.
    #[must_use]
    pub fn byte_bytes(&self) -> usize {
        self.sums_bytes() / 4
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

    /// An estimate of the packets of its products and start values.
    #[must_use]
    pub fn packets(&self) -> usize {
        let (rows, columns) = (self.vertical.count(), self.horizontal.count());
        let quad = 2 * self.block().max(1);
        let blocks = self.vectors() / self.block();
        let tile = rows * columns * (blocks * self.quads() * quad + 4);
        self.groups() * (tile + 30 * blocks * self.outputs())
    }

    /// An estimate of the packets of a launch, weights that have those strides packed.
    #[must_use]
    pub(crate) fn launch_packets(&self, strides: &WeightStrides) -> usize {
        let (groups, positions) = (self.groups(), self.outputs());
        let operand = self.groups() * self.quads() * self.plane_bytes() / VECTOR;
        let pairs = self.vertical.count() * self.horizontal.count();
        let starts = groups * (2 * pairs + 14 * positions);
        let (block, blocks) = (self.block(), self.vectors() / self.block());
        let step = (2 * block).max(block / 2 + 2);
        let products =
            groups * blocks * (pairs * (self.quads() * step + 2) + positions * (10 + 6 * block));
        let round = self.sums_bytes() / VECTOR * 3 / 2;
        let whole = self.has_whole_planes();
        let results = self.images * self.features * positions;
        let planes = if whole { self.sums_bytes() / VECTOR / 2 } else { results * 5 / 4 };
        let words = self.vectors() * self.taps() * self.quads() * LANES;
        let rows = strides.feature == 1 && self.features >= VECTOR;
        let weights = match (self.packing_packets(strides), strides.feature == 1, self.taps()) {
            (Some(packets), ..) => packets,
            _ if rows => words / 4,
            (_, true, 1) => words * 5,
            (_, _, 1) => words * 4 / 3,
            _ => words * 7 / 2,
        };
        let spread = self.spread.map_or(0, |spread| SPREAD * spread.vectors());
        2 * operand + starts + products + round + planes + weights + spread + 300
    }

    fn classes(&self) -> (Classes, Classes) {
        (self.vertical.classes(), self.horizontal.classes())
    }

    /// Bytes of one list of taps: count, then (operand offset, weight offset) of each tap and one more.
    fn list_bytes(&self) -> usize {
        8 * (self.taps() + 2)
    }

    /// The table of windows: (operand offset, list offset) of each row, of each column, then the lists, of which row
    /// and column offsets together choose one.
    #[must_use]
    pub fn table(&self, symbol: &str) -> DataObject {
        let (rows, columns) = self.classes();
        let mut words: Vec<i32> = Vec::new();
        let width = self.horizontal.input;
        let word = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        for &(first, class) in &rows.positions {
            let list = class * columns.lists.len() * self.list_bytes();
            words.extend([word(first * width * POSITION_BYTES), word(list)]);
        }
        for &(first, class) in &columns.positions {
            words.extend([word(first * POSITION_BYTES), word(class * self.list_bytes())]);
        }
        let tap_bytes = self.quads() * self.block() * VECTOR;
        for row in &rows.lists {
            for column in &columns.lists {
                let mut list = vec![word(row.len() * column.len()), 0];
                for &(kh, ih) in row {
                    for &(kw, iw) in column {
                        list.push(word((ih * width + iw) * POSITION_BYTES));
                        list.push(word((kh * self.horizontal.taps + kw) * tap_bytes));
                    }
                }
                // The tile's last step loads one entry more than it uses.
                list.resize(self.list_bytes() / 4, 0);
                words.extend(list);
            }
        }
        DataObject { symbol: symbol.into(), words }
    }

    /// Offset of the lists in the table.
    fn lists_offset(&self) -> usize {
        8 * (self.vertical.reads.len() + self.horizontal.reads.len())
    }

    /// Walks the result positions of a range of rows, whose entries of the table begin at `rows`; the body gets the offset of
    /// the window's first position and its list.
    fn each_position(
        &self,
        b: &mut Builder,
        table: &str,
        (range, rows): (Range, Register),
        body: impl FnOnce(&mut Builder, Register, Register),
    ) {
        let table_object = b.object("windows");
        range.repeat(b, "rows of the result", |b| {
            let row = b.load(Opcode::LoadDNext, (rows, 8), table_object);
            let lists = b.address(table, i32::try_from(self.lists_offset()).unwrap_or(0));
            let lists = b.emit(Opcode::Add, (row.high(), lists));
            let first = b.copy(row.low());
            let columns =
                b.address(table, i32::try_from(8 * self.vertical.reads.len()).unwrap_or(0));
            loop_over(b, self.horizontal.reads.len(), "columns of the result", |b| {
                let column = b.load(Opcode::LoadDNext, (columns, 8), table_object);
                let offset = b.emit(Opcode::Add, (first, column.low()));
                let list = b.emit(Opcode::Add, (lists, column.high()));
                body(b, offset, list);
            });
        });
        range.move_back(b, rows, 8);
    }

    /// `void sums(packed operand, channel sums)`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn channel_sums(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Sums each position's channels.");
        let (operand, sums) = (b.parameter(0), b.parameter(1));
        let (input, output) = (b.object("operand"), b.object("channel sums"));
        let ones = b.constant(0x0101_0101);
        let ones = b.emit(Opcode::VsplatW, (ones,));
        let plane = self.plane_bytes();
        let step = b.constant(word(plane));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        loop_over(&mut b, self.groups(), "groups of images", |b| {
            let position = b.copy(operand);
            loop_over(b, plane / VECTOR, "8 positions of 4 images", |b| {
                let quad = b.copy(position);
                let sum = b.fresh(Class::V);
                zero_vector(b, sum);
                constant_loop(b, self.quads(), "a quad of channels", |b| {
                    let x = b.load(Opcode::LoadVStep, (quad, step), input);
                    let accumulate = match self.unsigned {
                        true => Opcode::VrmpyUbUbvAccumulate,
                        false => Opcode::VrmpyUbBvAccumulate,
                    };
                    b.update(accumulate, (sum, ones, x));
                });
                b.store(Opcode::StoreVNext, (sums, 1, sum), output);
                b.emit_to(position, Opcode::AddImmediate, (position, word(VECTOR)));
            });
            b.emit_to(operand, Opcode::AddImmediate, (operand, word(plane * self.quads())));
        });
        b.finish(None)
    }

    /// `void starts(channel sums, start values)`: -128 times each window's sum.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn start_values(&self, name: &str, table: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("What an accumulator starts with: -128 times the window's sum.");
        let (sums, starts) = (b.parameter(0), b.parameter(1));
        let rows = self.rows(&mut b, table, &["sums", "starts"]);
        let (input, output) = (b.object("channel sums"), b.object("start values"));
        let list_object = b.object("list");
        let row_starts = self.row_positions() * POSITION_BYTES;
        rows.0.move_on(&mut b, starts, row_starts);
        loop_over(&mut b, self.groups(), "groups of images", |b| {
            self.each_position(b, table, rows, |b, offset, list| {
                let window = b.emit(Opcode::Add, (sums, offset));
                let count = b.load(Opcode::LoadW, (list, 0), list_object);
                let tap = b.emit(Opcode::AddImmediate, (list, 8));
                let totals: Vec<Register> = (0..GROUP).map(|_| b.constant(0)).collect();
                b.repeat(count, "taps of the window", |b| {
                    let offset = b.load(Opcode::LoadWNext, (tap, 8), list_object);
                    let place = b.emit(Opcode::Add, (window, offset));
                    let first = b.load(Opcode::LoadD, (place, 0), input);
                    let second = b.load(Opcode::LoadD, (place, 8), input);
                    let parts = [first.low(), first.high(), second.low(), second.high()];
                    for (&total, part) in totals.iter().zip(parts) {
                        b.emit_to(total, Opcode::Sub, (total, part));
                    }
                });
                for &total in &totals {
                    b.emit_to(total, Opcode::ShiftLeftImmediate, (total, 7));
                }
                let first = b.emit(Opcode::Combine, (totals[1], totals[0]));
                let second = b.emit(Opcode::Combine, (totals[3], totals[2]));
                b.store(Opcode::StoreDNext, (starts, 8, first), output);
                b.store(Opcode::StoreDNext, (starts, 8, second), output);
            });
            b.emit_to(sums, Opcode::AddImmediate, (sums, word(self.plane_bytes())));
            rows.0.move_back(b, starts, row_starts);
            let group = word(self.outputs() * POSITION_BYTES);
            b.emit_to(starts, Opcode::AddImmediate, (starts, group));
        });
        b.finish(None)
    }

    /// Rows of the result, of which some are done, and the first one's entry of the table.
    fn rows(&self, b: &mut Builder, table: &str, parameters: &[&str]) -> (Range, Register) {
        let range = b.range(self.vertical.reads.len(), parameters);
        let rows = b.address(table, 0);
        range.move_on(b, rows, 8);
        (range, rows)
    }

    /// Positions of a row of the result.
    fn row_positions(&self) -> usize {
        self.horizontal.reads.len()
    }

    /// `int products(packed operand, packed weights, start values, sums)`: returns the bitwise or of all magnitudes.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn products(&self, name: &str, table: &str) -> Result<Function, MachineError> {
        self.sums_to(name, table, None)
    }

    /// `void products(packed operand, packed weights, start values, bytes)`: shifted sums as
    /// `[group][vector][result position][32 lanes][image]`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn shifted_products(
        &self,
        name: &str,
        table: &str,
        shift: StaticShift,
    ) -> Result<Function, MachineError> {
        self.sums_to(name, table, Some(shift))
    }

    /// Most products of a sum.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.taps() * self.channels
    }

    fn sums_to(
        &self,
        name: &str,
        table: &str,
        shift: Option<StaticShift>,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose(match shift {
            None => "Sums over windows, and the bitwise or of their magnitudes.",
            Some(_) => "Sums over windows, shifted right and packed into bytes.",
        });
        let (operand, weights) = (b.parameter(0), b.parameter(1));
        let (starts, sums) = (b.parameter(2), b.parameter(3));
        let rows = self.rows(&mut b, table, &["operand", "weights", "starts", "sums"]);
        let row_starts = self.row_positions() * POSITION_BYTES;
        rows.0.move_on(&mut b, starts, row_starts);
        rows.0.move_on(&mut b, sums, self.row_positions() * VECTOR);
        let tile = Tile::new(&mut b, self, weights, shift.is_none());
        let narrow = shift.map(|shift| shift.narrow(&mut b, self.depth()));
        let step = b.constant(word(self.padded_outputs() * VECTOR));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        let outputs = self.outputs();
        let pieces = if shift.is_some() { 1 } else { GROUP };
        let block_sums = pieces * self.block() * self.padded_outputs() * VECTOR;
        loop_over(&mut b, self.groups(), "groups of images", |b| {
            loop_over(b, self.vectors() / self.block(), "blocks of result channels", |b| {
                let place = b.copy(sums);
                self.each_position(b, table, rows, |b, offset, list| {
                    let window = b.emit(Opcode::Add, (operand, offset));
                    let first = b.load(Opcode::LoadDNext, (starts, 8), tile.start_object);
                    let second = b.load(Opcode::LoadDNext, (starts, 8), tile.start_object);
                    tile.start(b, [first, second]);
                    tile.sum(b, window, list, self.quads() / 2);
                    match &narrow {
                        Some(narrow) => tile.finish_shifted(b, place, step, narrow),
                        None => tile.finish(b, place, step),
                    }
                    b.emit_to(place, Opcode::AddImmediate, (place, word(VECTOR)));
                });
                rows.0.move_back(b, starts, row_starts);
                b.emit_to(sums, Opcode::AddImmediate, (sums, word(block_sums)));
                let block = self.taps() * self.quads() * self.block() * VECTOR;
                b.emit_to(weights, Opcode::AddImmediate, (weights, word(block)));
            });
            b.emit_to(starts, Opcode::AddImmediate, (starts, word(outputs * POSITION_BYTES)));
            b.emit_to(weights, Opcode::AddImmediate, (weights, -word(self.weight_bytes())));
            b.emit_to(
                operand,
                Opcode::AddImmediate,
                (operand, word(self.quads() * self.plane_bytes())),
            );
        });
        let magnitude = shift.is_none().then(|| super::support::or_lanes(&mut b, tile.magnitude));
        b.finish(magnitude)
    }
}

/// A number of bytes as an immediate; sizes are checked by [`WindowProduct::new`].
fn word(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Four images times a block of vectors of result channels at one position.
struct Tile {
    weights: Register,
    /// What adds products of weights and the operand's bytes.
    accumulate: Opcode,
    /// `[vector][image]`.
    accumulators: Vec<[Register; GROUP]>,
    /// Two steps' operands: one is multiplied while the other is loaded.
    steps: [Step; 2],
    /// Bitwise or of the magnitudes so far.
    magnitude: Register,
    /// Bytes from a quad to the next, and the register of them where they are many.
    plane: usize,
    plane_register: Register,
    operand_object: crate::machine::Object,
    weight_object: crate::machine::Object,
    list_object: crate::machine::Object,
    start_object: crate::machine::Object,
    sum_object: crate::machine::Object,
}

/// Operands of a quad of channels.
struct Step {
    /// Images 0 and 1, 2 and 3.
    images: [Register; 2],
    weights: Vec<Register>,
}

impl Step {
    fn new(b: &mut Builder, block: usize) -> Self {
        Self {
            images: [b.fresh(Class::RR), b.fresh(Class::RR)],
            weights: (0..block).map(|_| b.fresh(Class::V)).collect(),
        }
    }
}

impl Tile {
    fn new(b: &mut Builder, product: &WindowProduct, weights: Register, magnitudes: bool) -> Self {
        let block = product.block();
        let magnitude = b.fresh(Class::V);
        if magnitudes {
            zero_vector(b, magnitude);
        }
        let plane = product.plane_bytes();
        Self {
            weights,
            accumulate: match product.unsigned {
                true => Opcode::VrmpyUbUbAccumulate,
                false => Opcode::VrmpyUbBAccumulate,
            },
            accumulators: (0..block).map(|_| std::array::from_fn(|_| b.fresh(Class::V))).collect(),
            steps: [Step::new(b, block), Step::new(b, block)],
            magnitude,
            plane,
            plane_register: b.constant(word(plane)),
            operand_object: b.object("operand"),
            weight_object: b.object("weights"),
            list_object: b.object("list"),
            start_object: b.object("start values"),
            sum_object: b.object("sums"),
        }
    }

    /// Start values of the four images in all lanes.
    fn start(&self, b: &mut Builder, values: [Register; 2]) {
        let values = words(values);
        for (image, &value) in values.iter().enumerate() {
            b.emit_to(self.accumulators[0][image], Opcode::VsplatW, (value,));
            for vector in &self.accumulators[1..] {
                b.emit_to(vector[image], Opcode::Vassign, (self.accumulators[0][image],));
            }
        }
    }

    /// What loads a step's operands, and moves the pointers on, in pieces of about a packet's load.
    fn loads(&self, step: usize, x: Register, w: Register) -> Vec<Piece<'_>> {
        let step = &self.steps[step];
        let mut pieces: Vec<Piece<'_>> = vec![
            Box::new(move |b| {
                b.load_to(step.images[0], Opcode::LoadD, (x, 0), self.operand_object);
            }),
            Box::new(move |b| {
                b.load_to(step.images[1], Opcode::LoadD, (x, 8), self.operand_object);
                match i16::try_from(self.plane) {
                    Ok(plane) => b.emit_to(x, Opcode::AddImmediate, (x, i32::from(plane))),
                    Err(_) => b.emit_to(x, Opcode::Add, (x, self.plane_register)),
                }
            }),
        ];
        for &vector in &step.weights {
            pieces.push(Box::new(move |b| {
                b.load_to(vector, Opcode::LoadVNext, (w, 1), self.weight_object);
            }));
        }
        pieces
    }

    fn multiply(&self, b: &mut Builder, step: usize, pieces: &[Piece<'_>]) {
        let step = &self.steps[step];
        let rows = words(step.images);
        let names = ("result channels", "images");
        let accumulators = &self.accumulators;
        multiply_among(b, self.accumulate, accumulators, &step.weights, rows, pieces, names);
    }

    /// Adds all taps of a window; each tap has `rounds` times two quads. Loads run one step ahead of the products,
    /// across taps too.
    fn sum(&self, b: &mut Builder, window: Register, list: Register, rounds: usize) {
        let count = b.load(Opcode::LoadW, (list, 0), self.list_object);
        let tap = b.emit(Opcode::AddImmediate, (list, 8));
        let (x, w) = (b.fresh(Class::R), b.fresh(Class::R));
        let next = b.load(Opcode::LoadDNext, (tap, 8), self.list_object);
        let mut first: Vec<Piece<'_>> = vec![
            Box::new(move |b| {
                b.emit_to(x, Opcode::Add, (window, next.low()));
                b.emit_to(w, Opcode::Add, (self.weights, next.high()));
            }),
            Box::new(move |b| {
                b.load_to(next, Opcode::LoadDNext, (tap, 8), self.list_object);
            }),
        ];
        first.extend(self.loads(0, x, w));
        first.iter().for_each(|piece| piece(b));
        let loads = [self.loads(0, x, w), self.loads(1, x, w)];
        b.repeat(count, "taps of the window", |b| {
            if rounds > 1 {
                let count = u32::try_from(rounds - 1).unwrap_or(u32::MAX);
                b.repeat(count, "8 channels of 4 images times a block of weights", |b| {
                    self.multiply(b, 0, &loads[1]);
                    self.multiply(b, 1, &loads[0]);
                });
            }
            self.multiply(b, 0, &loads[1]);
            self.multiply(b, 1, &first);
        });
    }

    /// Stores the sums and notes their magnitudes.
    fn finish(&self, b: &mut Builder, place: Register, step: Register) {
        let place = b.copy(place);
        for &accumulator in self.accumulators.iter().flatten() {
            b.store(Opcode::StoreVStep, (place, step, accumulator), self.sum_object);
            let magnitude = b.emit(Opcode::VabsW, (accumulator,));
            b.emit_to(self.magnitude, Opcode::Vor, (self.magnitude, magnitude));
        }
    }

    /// Stores the four images of each vector of channels as bytes.
    fn finish_shifted(&self, b: &mut Builder, place: Register, step: Register, narrow: &Narrow) {
        let place = b.copy(place);
        let sums = self.accumulators.iter().copied();
        narrow.ready(b).all(b, sums, |b, y| {
            b.store(Opcode::StoreVStep, (place, step, y), self.sum_object);
        });
    }
}
