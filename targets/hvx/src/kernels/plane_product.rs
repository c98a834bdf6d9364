//! Sums over windows at stride 1 whose lanes are neighbouring positions: for few images, few channels, few features.
//!
//! The operand lies in frames: of an image and four channels, every position is a word, 128 added, and rows follow each
//! other with as many zeros between them as one side of the padding takes. In a frame a tap is a distance, so a vector
//! of 32 positions reads its operand at any tap by one load, and pairs of products take a word of weights of a feature each.
//! Lanes between rows hold sums, too: they are left out of the magnitudes, and when rows are put together.
//!
//! | what | layout |
//! |---|---|
//! | frames | `[image][quad of channels][position][channel of the quad]` u8, 128 added |
//! | packed weights | start values, `[group of features][step][feature][channel of the quad]` i8; a step is a quad and a tap |
//! | sums | `[image][feature][position]` i32, whole vectors |
//! | bytes | `[image][feature][position]` i8 |

use trainc_ir::product::{Convolution, Pass};

use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::plane_tile::{Memory, Tile};
use super::product::{LANES, VECTOR};
use super::requantize::requantize_in_order;
use super::support::{loop_over, or_lanes, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Range};

/// Most position vectors of a tile.
const MOST_VECTORS: usize = 4;
/// Features of a tile.
pub(super) const ROWS: usize = 4;
/// Most taps whose weights are packed, and most columns of a plane.
const MOST_TAPS: usize = 32;
const MOST_COLUMNS: usize = VECTOR;

/// `y[n, f, r, c] = sum over channels k, taps i, j of x[n, k, r + di - before, c + dj - before] w[f, k, tap(i, j)]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaneProduct {
    /// Images.
    pub images: usize,
    /// Channels of the operand.
    pub channels: usize,
    /// Channels of the result.
    pub features: usize,
    /// Rows and columns of the operand.
    pub input: [usize; 2],
    /// Rows and columns of the result.
    pub output: [usize; 2],
    /// Of a window.
    pub taps: [usize; 2],
    /// From a tap to the next.
    pub dilations: [usize; 2],
    /// Zeros above and left of the operand.
    pub before: [usize; 2],
    /// Whether the weights' last tap reads first: the error of a convolution.
    pub reversed: bool,
}

impl PlaneProduct {
    /// The product of a convolution or of its error gradient.
    ///
    /// # Errors
    /// Why these kernels cannot do it.
    pub fn new(c: &Convolution) -> Result<PlaneProduct, &'static str> {
        if c.strides != [1, 1] || c.groups > 1 {
            return Err("its windows lie apart");
        }
        let pads = [c.pads[0], c.pads[1]];
        let reach: [usize; 2] = std::array::from_fn(|i| (c.taps[i] - 1) * c.dilations[i]);
        let (x, y) = ([c.height, c.width], [c.rows, c.columns]);
        let (taps, dilations) = (c.taps, c.dilations);
        let product = match c.pass {
            Pass::Error => {
                if pads[0] > reach[0] || pads[1] > reach[1] {
                    return Err("its padding reaches further than its windows");
                }
                let before = std::array::from_fn(|i| reach[i] - pads[i]);
                let (channels, features) = (c.outputs, c.channels);
                let (input, output) = (y, x);
                let (images, reversed) = (c.images, true);
                Self {
                    images,
                    channels,
                    features,
                    input,
                    output,
                    taps,
                    dilations,
                    before,
                    reversed,
                }
            }
            _ => {
                let (channels, features) = (c.channels, c.outputs);
                let (input, output, before) = (x, y, pads);
                let (images, reversed) = (c.images, false);
                Self {
                    images,
                    channels,
                    features,
                    input,
                    output,
                    taps,
                    dilations,
                    before,
                    reversed,
                }
            }
        };
        if product.tap_count() > MOST_TAPS || x[1].max(y[1]) > MOST_COLUMNS {
            return Err("its windows or rows are too large");
        }
        let bytes = product.sums_bytes().max(product.frame_bytes()).max(product.weight_bytes());
        let words = product.frame_words();
        if bytes >= 1 << 30 || words > 1 << 20 || product.images * product.features == 0 {
            return Err("its sums or frames are too large");
        }
        Ok(product)
    }

    /// Taps of a window.
    #[must_use]
    pub fn tap_count(&self) -> usize {
        self.taps[0] * self.taps[1]
    }

    /// Most products of a sum.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.tap_count() * self.channels
    }

    /// Multiplications, those with padding included.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        self.images * self.features * self.depth() * self.output[0] * self.output[1]
    }

    pub(super) fn quads(&self) -> usize {
        self.channels.div_ceil(4)
    }

    /// Positions from a row of a frame to the next.
    pub(super) fn pitch(&self) -> usize {
        let [_, before] = self.before;
        let last = self.output[1] + (self.taps[1] - 1) * self.dilations[1];
        let after = last.saturating_sub(before + self.input[1]);
        (self.input[1] + before.max(after)).max(self.output[1])
    }

    /// Vectors of result positions of an image and a feature.
    pub(super) fn vectors(&self) -> usize {
        ((self.output[0] - 1) * self.pitch() + self.output[1]).div_ceil(LANES)
    }

    /// The place of the operand's first element.
    pub(super) fn first_word(&self) -> usize {
        self.before[0] * self.pitch() + self.before[1]
    }

    /// Stores that write a row and the zeros behind it.
    pub(super) fn row_vectors(&self) -> usize {
        self.pitch().div_ceil(LANES)
    }

    pub(super) fn tap_words(&self, i: usize, j: usize) -> usize {
        i * self.dilations[0] * self.pitch() + j * self.dilations[1]
    }

    /// Words of a frame.
    pub(super) fn frame_words(&self) -> usize {
        let read = self.vectors() * LANES + self.tap_words(self.taps[0] - 1, self.taps[1] - 1);
        let last_row = self.first_word() + (self.input[0] - 1) * self.pitch();
        read.max(last_row + self.row_vectors() * LANES).next_multiple_of(LANES)
    }

    /// Bytes of all frames, and of what is written behind the last.
    fn frame_bytes(&self) -> usize {
        self.images * self.quads() * self.frame_words() * 4 + VECTOR
    }

    /// Quads and taps, filled up to an even number.
    pub(super) fn steps(&self) -> usize {
        (self.quads() * self.tap_count()).next_multiple_of(2)
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
        (self.rows() * 4 + VECTOR).next_multiple_of(VECTOR)
    }

    /// Bytes of the weights as the program has them.
    pub(super) fn plain_weight_bytes(&self) -> usize {
        self.features * self.depth()
    }

    /// Bytes of working memory while weights are packed.
    #[must_use]
    pub fn packing_bytes(&self) -> usize {
        self.plain_weight_bytes().next_multiple_of(VECTOR) + VECTOR
    }

    /// Bytes of the packed weights, and of what is written or read behind them.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.start_bytes() + (self.rows() * self.steps() * 4 + VECTOR).next_multiple_of(VECTOR)
    }

    fn sums_bytes(&self) -> usize {
        self.sum_vectors() * VECTOR
    }

    /// A multiple of four.
    fn sum_vectors(&self) -> usize {
        (self.images * self.rows() * self.vectors()).next_multiple_of(4)
    }

    /// Vectors of each tile.
    fn tiles(&self) -> Vec<usize> {
        let vectors = self.vectors();
        let count = vectors.div_ceil(MOST_VECTORS);
        (0..count).map(|i| vectors / count + usize::from(i < vectors % count)).collect()
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub fn packets(&self) -> usize {
        let (images, quads, groups) = (self.images, self.quads(), self.groups());
        let around = self.frame_words().saturating_sub(self.input[0] * self.pitch()) / LANES;
        let frames = images * quads * (self.input[0] * (7 + self.row_vectors()) + around + 12);
        let weights = groups.len() * (quads * 36 + 16) + self.plain_weight_bytes() / VECTOR;
        let tile = |rows: usize, vectors: usize| {
            self.steps() * (rows * vectors / 2).max(vectors + rows / 2) + rows * vectors + 16
        };
        let tiles = self.tiles();
        let products: usize =
            groups.iter().flat_map(|&rows| tiles.iter().map(move |&v| tile(rows, v))).sum();
        let planes = images * self.features;
        let rows =
            planes * (3 * self.output[0] + 4) + planes * self.output[0] * self.output[1] / 64;
        frames + weights + images * products + self.sum_vectors() * 3 / 2 + rows + 80
    }

    /// Distances of the steps in a frame's bytes, and one more; then, of the vectors of result positions, which lanes are
    /// results.
    fn tables(&self, name: &str) -> [DataObject; 2] {
        let [vertical, horizontal] = self.taps;
        let place = |tap: usize| match self.reversed {
            true => self.tap_count() - 1 - tap,
            false => tap,
        };
        let steps = (0..self.quads()).flat_map(|quad| {
            (0..vertical * horizontal).map(move |tap| {
                let tap = place(tap);
                let tap = self.tap_words(tap / horizontal, tap % horizontal);
                word(4 * (quad * self.frame_words() + tap))
            })
        });
        let mut steps: Vec<i32> = steps.collect();
        steps.resize(self.steps() + 2, 0);
        let (pitch, [rows, columns]) = (self.pitch(), self.output);
        let is_result = |at: usize| at % pitch < columns && at / pitch < rows;
        let lanes = (0..self.vectors() * LANES).map(|at| -i32::from(is_result(at))).collect();
        [
            DataObject { symbol: format!("{name}_steps"), words: steps },
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
        let bytes = scratch.take(self.sum_vectors() * LANES + VECTOR);
        let dense = scratch.take(self.result_bytes() + VECTOR);
        let [steps, lanes] = self.tables(name);
        let products = self.products(&phase_name("products"), &steps.symbol, &lanes.symbol)?;
        let round = requantize_in_order(&phase_name("requantize"), self.sum_vectors(), bits, low)?;
        let phases = vec![
            Phase {
                function: self.frames(&phase_name("frames"))?,
                arguments: vec![Argument::Parameter(0), frames],
            },
            Phase { function: products, arguments: vec![frames, Argument::Parameter(1), sums] },
            Phase { function: round, arguments: vec![sums, bytes, Argument::Result(1)] },
            Phase {
                function: self.put_rows(&phase_name("rows"))?,
                arguments: vec![bytes, dense, Argument::Parameter(2)],
            },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Sums over windows of planes, requantised by the largest magnitude.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![steps, lanes],
        })
    }

    /// Bytes of the result.
    pub(super) fn result_bytes(&self) -> usize {
        self.images * self.features * self.output[0] * self.output[1]
    }

    /// Positions of all features of an image with those that fill up groups.
    pub(super) fn image_positions(&self) -> usize {
        self.rows() * self.vectors() * LANES
    }

    /// `int products(frames, packed weights, sums)`: returns the bitwise or of all magnitudes.
    fn products(&self, name: &str, steps: &str, lanes: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose(
            "Sums over windows, 32 positions at a time, and the bitwise or of their magnitudes.",
        );
        let (frames, packed, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let groups = self.groups();
        let full = groups.iter().filter(|&&rows| rows == ROWS).count();
        // The last group alone has other features.
        let range = match full == groups.len() {
            true => b.range(full, &["frames", "weights", "sums"]),
            false => Range::Whole(u32::try_from(full).unwrap_or(u32::MAX)),
        };
        let magnitude = b.fresh(Class::V);
        zero_vector(&mut b, magnitude);
        let memory = Memory {
            frames: b.object("frames"),
            weights: b.object("weights"),
            steps: b.object("steps"),
            lanes: b.object("lanes"),
            sums: b.object("sums"),
        };
        let tiles = self.tiles();
        let group_sums = ROWS * self.vectors() * VECTOR;
        loop_over(&mut b, self.images, "images", |b| {
            let (starts, to_sums) = (b.copy(packed), b.copy(sums));
            let weights = b.emit(Opcode::AddImmediate, (packed, word(self.start_bytes())));
            range.move_on(b, starts, 4 * ROWS);
            range.move_on(b, weights, 4 * ROWS * self.steps());
            range.move_on(b, to_sums, group_sums);
            let group = |b: &mut Builder, rows: usize| {
                let (x, to, mask) = (b.copy(frames), b.copy(to_sums), b.address(lanes, 0));
                let tile = |b: &mut Builder, vectors: usize| {
                    let step = self.vectors() * VECTOR;
                    let tile = Tile::new(b, rows, vectors, step, magnitude, memory);
                    tile.start(b, starts);
                    let list = b.address(steps, 0);
                    tile.sum(b, x, list, weights, self.steps());
                    tile.finish(b, to, mask);
                    for pointer in [x, to, mask] {
                        b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(vectors * VECTOR)));
                    }
                };
                let large = tiles.iter().filter(|&&vectors| vectors == tiles[0]).count();
                loop_over(b, large, "tiles", |b| tile(b, tiles[0]));
                if large < tiles.len() {
                    let last = tiles[tiles.len() - 1];
                    loop_over(b, tiles.len() - large, "tiles", |b| tile(b, last));
                }
                for (pointer, bytes) in [
                    (to_sums, rows * self.vectors() * VECTOR),
                    (starts, 4 * rows),
                    (weights, 4 * rows * self.steps()),
                ] {
                    b.emit_to(pointer, Opcode::AddImmediate, (pointer, word(bytes)));
                }
            };
            range.repeat(b, "groups of features", |b| group(b, ROWS));
            if full < groups.len() {
                group(b, groups[full]);
            }
            let image = word(4 * self.quads() * self.frame_words());
            b.emit_to(frames, Opcode::AddImmediate, (frames, image));
            let image = word(self.rows() * self.vectors() * VECTOR);
            b.emit_to(sums, Opcode::AddImmediate, (sums, image));
        });
        let magnitude = or_lanes(&mut b, magnitude);
        b.finish(Some(magnitude))
    }
}
