//! Sums over windows that stay 32 bits wide: of the forward pass, of errors and of weight gradients, as one kernel.
//!
//! A weight gradient is a sum over windows, too: its images are the operand's channels, its channels the images, its taps the
//! places of the error, which stands for the weights.
//!
//! Or the sums are added to FP32 totals, each by the scale of its image and feature: the parts of a product of groups.

use super::convolution::Packed;
use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::product::{GROUP, LANES, OperandStrides, VECTOR, WindowProduct};
use super::spread::Places;
use super::support::loop_over;
use super::weight_gradient::word;
use super::weights::WeightStrides;
use super::window::Span;
use super::word_order::{MOST_ROWS, side_by_side, store_lanes, store_packets};
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Bytes of a sum.
const WORD: usize = 4;
/// Packets in which a sum is added to its total: four, of which an estimate of a launch counts the one of a result.
const ADD: usize = 3;

/// Sums between neighbours of a result `[image][feature][position]`, whatever stands for its images and features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResultStrides {
    /// From an image to the next.
    pub image: usize,
    /// From a feature to the next.
    pub feature: usize,
}

/// A sum over windows whose sums are the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SumProduct {
    /// The sums.
    pub product: WindowProduct,
    /// Of the bytes that stand for weights.
    pub weights: WeightStrides,
    /// Of the result.
    pub result: ResultStrides,
}

impl SumProduct {
    /// A product whose result has no gaps.
    #[must_use]
    pub fn natural(product: WindowProduct, weights: WeightStrides) -> SumProduct {
        let [rows, columns] = places(&product);
        let positions = rows.total * columns.total;
        let image = product.features * positions;
        SumProduct { product, weights, result: ResultStrides { image, feature: positions } }
    }

    /// The gradient of weights `[features][channels][taps]`, of maps `[images][channels]` and errors `[images][features]`.
    ///
    /// # Errors
    /// Why these kernels cannot do it.
    pub fn gradient(
        [images, channels, features]: [usize; 3],
        spans: [Span; 2],
    ) -> Result<SumProduct, &'static str> {
        let axes = spans.map(|span| {
            let Span { input, output, kernel, stride, dilation, before } = span;
            let turned = Span {
                input,
                output: kernel,
                kernel: output,
                stride: dilation,
                dilation: stride,
                before,
            };
            turned.forward()
        });
        let product = WindowProduct::new(channels, images, features, axes)?;
        let positions = product.inputs();
        let operand = OperandStrides { image: positions, channel: channels * positions };
        let [places, taps] = [|s: Span| s.output, |s: Span| s.kernel]
            .map(|size| spans.into_iter().map(size).product::<usize>());
        let weights = WeightStrides { feature: places, channel: features * places, tap: 1 };
        let result = ResultStrides { image: taps, feature: channels * taps };
        Ok(SumProduct { product: WindowProduct { operand, ..product }, weights, result })
    }

    /// `int kernel(x, packed weights, y, working memory)`: `y = product` in 32 bits; what it returns says nothing.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        self.make(name, false)
    }

    /// `int kernel(x, packed weights, y, scales, working memory)`: `y = y + f32(product) * scale` for each element of y, FP32, each
    /// step rounded; scales are FP32 numbers `[image][feature]`. What it returns says nothing. Only for products without windows
    /// that have no tap.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn scaled_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        self.make(name, true)
    }

    fn make(&self, name: &str, scaled: bool) -> Result<Kernel, MachineError> {
        let product = &self.product;
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let table = phase_name("windows");
        let mut scratch = Scratch::default();
        let Packed { mut phases, operand, starts } =
            Packed::new(name, product, &mut scratch, &table)?;
        let sums = scratch.take(product.sums_bytes());
        let (purpose, parameters, last) = match scaled {
            true => ("Adds sums over windows to FP32 totals, by their scales.", 4, "add"),
            false => ("Sums over windows, in 32 bits.", 3, "order"),
        };
        let mut arguments = vec![sums];
        arguments.extend((2..parameters).map(Argument::Parameter));
        if !scaled && self.turn() == Some(Turn::Blocks) {
            arguments.push(scratch.take(MOST_ROWS * VECTOR));
        }
        phases.extend([
            Phase {
                function: product.products(&phase_name("products"), &table)?,
                arguments: vec![operand, Argument::Parameter(1), starts, sums],
            },
            Phase { function: self.order(&phase_name(last), scaled)?, arguments },
        ]);
        Ok(Kernel {
            name: name.into(),
            purpose: purpose.into(),
            parameters,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![product.table(&table)],
        })
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub(crate) fn packets(&self) -> usize {
        let product = &self.product;
        let [rows, columns] = places(product);
        let results = product.images * product.features;
        let zeros = if product.spread.is_some() { rows.total * columns.total } else { 0 };
        let positions = product.outputs();
        let (whole, rest) = (product.features / LANES, product.features % LANES);
        let scalar = |features: usize| features * (positions + zeros + 6);
        let order = match self.turn() {
            None => results * (positions + zeros + 6),
            Some(Turn::Blocks) => {
                let block = |features: usize| 50 + features * 5 / 4;
                let of = |features| if features > 0 { block(features) } else { 0 };
                product.images * positions.div_ceil(LANES) * (whole * block(LANES) + of(rest))
            }
            Some(Turn::Whole) => {
                let vector = store_packets(positions, LANES) + positions + 8;
                product.images * (whole * vector + scalar(rest))
            }
        };
        product.launch_packets(&self.weights) + order
    }

    /// Whether positions and features change places by vectors.
    fn turn(&self) -> Option<Turn> {
        let positions = self.product.outputs();
        let side_by_side = self.result.feature == positions;
        match self.product.spread {
            Some(_) => None,
            None if positions >= LANES => Some(Turn::Blocks),
            None if positions.is_power_of_two() && side_by_side => Some(Turn::Whole),
            None => None,
        }
    }

    /// An estimate of the packets of a launch of [`Self::scaled_kernel`].
    #[must_use]
    pub(crate) fn scaled_packets(&self) -> usize {
        let product = &self.product;
        let results = product.images * product.features;
        // A channel alone is packed a weight at a time, one a packet where others take seven for two.
        let words = product.vectors() * product.taps() * product.quads() * LANES;
        let alone = if product.channels == 1 { words * 5 / 2 } else { 0 };
        let launch = product.launch_packets(&self.weights).saturating_sub(alone);
        launch + results * (product.outputs() * ADD + 15)
    }

    /// `void order(sums, y[, working memory])`: from `[group][vector][image][position][32 lanes]` to the result's order, 0 where no window has
    /// a tap. Or `void add(sums, y, scales)`: added to what the result holds, by the scale of its image and feature.
    fn order(&self, name: &str, scaled: bool) -> Result<Function, MachineError> {
        let product = &self.product;
        let turn = self.turn().filter(|_| !scaled);
        let blocks = turn == Some(Turn::Blocks);
        let mut b = Builder::new(name, if scaled || blocks { 3 } else { 2 });
        b.purpose(match scaled {
            true => "Adds sums, by their scales, in the order of the result.",
            false => "Puts sums in the order of the result.",
        });
        let [rows, columns] = places(product);
        // What is read of the result is no other round's to write.
        let scales = scaled.then(|| Scales {
            at: b.parameter(2),
            memory: b.object("scales"),
            totals: b.object("totals"),
        });
        let memory = (b.object("sums"), b.object("y"));
        let aside = blocks.then(|| (b.parameter(2), b.object("turned")));
        let order = Order { sums: self, rows, columns, memory, scales, turn, aside };
        let (sums, y) = (b.parameter(0), b.parameter(1));
        if product.spread.is_some() {
            let (zero, to) = (b.zero(), b.copy(y));
            let count = product.images * product.features * rows.total * columns.total;
            loop_over(&mut b, count, "sums", |b| {
                b.store(Opcode::StoreWNext, (to, WORD as i32, zero), order.memory.1);
            });
        }
        let first = rows.first * columns.total + columns.first;
        step(&mut b, y, first * WORD);
        let (full, rest) = (product.images / GROUP, product.images % GROUP);
        loop_over(&mut b, full, "groups of images", |b| order.group(b, sums, y, GROUP));
        if rest > 0 {
            order.group(&mut b, sums, y, rest);
        }
        b.finish(None)
    }
}

/// How positions and features change places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// 32 positions at a time.
    Blocks,
    /// All positions at once, of features that lie one behind the other.
    Whole,
}

/// Where a product's rows and columns lie in its result.
fn places(product: &WindowProduct) -> [Places; 2] {
    let dense = |count: usize| Places { total: count, first: 0, step: 1, count };
    match &product.spread {
        Some(spread) => [spread.rows, spread.columns],
        None => [dense(product.vertical.reads.len()), dense(product.horizontal.reads.len())],
    }
}

struct Order<'a> {
    sums: &'a SumProduct,
    rows: Places,
    columns: Places,
    memory: (Object, Object),
    scales: Option<Scales>,
    turn: Option<Turn>,
    /// Where half of a block's positions wait.
    aside: Option<(Register, Object)>,
}

/// FP32 scales `[image][feature]`, and what is added to.
struct Scales {
    /// Of a group's first image and feature.
    at: Register,
    memory: Object,
    totals: Object,
}

impl Order<'_> {
    /// Up to four images; all pointers end at the next group.
    fn group(&self, b: &mut Builder, sums: Register, y: Register, images: usize) {
        let features = self.sums.product.features;
        let (full, rest) = (features / LANES, features % LANES);
        let to = b.copy(y);
        let scale = self.scales.as_ref().map(|scales| b.copy(scales.at));
        loop_over(b, full, "vectors of features", |b| {
            self.vector(b, sums, (to, scale), images, LANES);
            step(b, to, LANES * self.sums.result.feature * WORD);
            if let Some(scale) = scale {
                step(b, scale, LANES * WORD);
            }
        });
        if rest > 0 {
            self.vector(b, sums, (to, scale), images, rest);
        }
        step(b, y, GROUP * self.sums.result.image * WORD);
        if let Some(scales) = &self.scales {
            step(b, scales.at, GROUP * features * WORD);
        }
    }

    /// Up to 32 features; the pointer to the sums ends at the next vector.
    fn vector(
        &self,
        b: &mut Builder,
        sums: Register,
        (y, scale): (Register, Option<Register>),
        images: usize,
        features: usize,
    ) {
        let image_bytes = self.sums.product.padded_outputs() * VECTOR;
        let target = b.copy(y);
        let scale = scale.map(|scale| b.copy(scale));
        loop_over(b, images, "images", |b| {
            let (lane, plane) = (b.copy(sums), b.copy(target));
            let turned = match (self.turn, self.aside) {
                (Some(Turn::Blocks), Some(aside)) => {
                    self.blocks(b, (lane, plane), features, aside);
                    true
                }
                (Some(Turn::Whole), _) if features == LANES => {
                    let positions = self.sums.product.outputs();
                    let load =
                        |b: &mut Builder| b.load(Opcode::LoadVNext, (lane, 1), self.memory.0);
                    let rows: Vec<Register> = (0..positions).map(|_| load(b)).collect();
                    store_lanes(b, &rows, LANES, (plane, self.memory.1));
                    true
                }
                _ => false,
            };
            if turned {
                step(b, sums, image_bytes);
                step(b, target, self.sums.result.image * WORD);
                return;
            }
            let scale_of_lane = scale.map(|scale| b.copy(scale));
            loop_over(b, features, "features", |b| {
                let factor = scale_of_lane.zip(self.scales.as_ref()).map(|(scale, scales)| {
                    (b.load(Opcode::LoadWNext, (scale, WORD as i32), scales.memory), scales)
                });
                self.plane(b, lane, plane, factor);
                step(b, lane, WORD);
                step(b, plane, self.sums.result.feature * WORD);
            });
            step(b, sums, image_bytes);
            step(b, target, self.sums.result.image * WORD);
            if let Some(scale) = scale {
                step(b, scale, self.sums.product.features * WORD);
            }
        });
        step(b, sums, (GROUP - images) * image_bytes);
    }

    /// All positions of up to 32 features, 32 at a time; the last ones go back as far as they are fewer.
    fn blocks(
        &self,
        b: &mut Builder,
        (from, plane): (Register, Register),
        features: usize,
        (aside, turned): (Register, Object),
    ) {
        let feature = word(self.sums.result.feature * WORD);
        let half = b.constant(-64);
        let rows = |b: &mut Builder| -> Vec<Register> {
            let rows: Vec<Register> = (0..MOST_ROWS)
                .map(|_| b.load(Opcode::LoadVNext, (from, 1), self.memory.0))
                .collect();
            side_by_side(b, &rows, features)
        };
        let block = |b: &mut Builder| {
            let place = b.copy(aside);
            for first in rows(b) {
                b.store(Opcode::StoreVNext, (place, 1, first), turned);
            }
            let place = b.copy(aside);
            let to = b.copy(plane);
            for (at, second) in (0..).zip(rows(b)) {
                let first = b.load(Opcode::LoadVNext, (place, 1), turned);
                let both = b.emit(Opcode::Vshuff, (second, first, half));
                for (lane, row) in [(2 * at, both.low()), (2 * at + 1, both.high())] {
                    if lane < word(features) {
                        b.store(Opcode::StoreVUnaligned, (to, 0, row), self.memory.1);
                        b.emit_to(to, Opcode::AddImmediate, (to, feature));
                    }
                }
            }
            step(b, plane, VECTOR);
        };
        let positions = self.sums.product.outputs();
        loop_over(b, positions / LANES, "32 positions", block);
        let rest = positions % LANES;
        if rest > 0 {
            let back = LANES - rest;
            b.emit_to(from, Opcode::AddImmediate, (from, -word(back * VECTOR)));
            b.emit_to(plane, Opcode::AddImmediate, (plane, -word(back * WORD)));
            block(b);
        }
    }

    /// All places of an image's feature.
    fn plane(
        &self,
        b: &mut Builder,
        lane: Register,
        plane: Register,
        factor: Option<(Register, &Scales)>,
    ) {
        let (from, row) = (b.copy(lane), b.copy(plane));
        let places = |b: &mut Builder, count: usize, distance: usize| {
            let to = b.copy(row);
            loop_over(b, count, "places", |b| {
                let mut sum = b.load(Opcode::LoadW, (from, 0), self.memory.0);
                step(b, from, VECTOR);
                if let Some((factor, scales)) = factor {
                    let total = b.load(Opcode::LoadW, (to, 0), scales.totals);
                    sum = b.emit(Opcode::FloatFromW, (sum,));
                    sum = b.emit(Opcode::FloatMultiply, (sum, factor));
                    sum = b.emit(Opcode::FloatAdd, (total, sum));
                }
                b.store(Opcode::StoreW, (to, 0, sum), self.memory.1);
                step(b, to, distance * WORD);
            });
        };
        let (rows, columns) = (self.rows, self.columns);
        let whole = columns.count == columns.total && rows.step == 1;
        if whole {
            places(b, rows.count * columns.count, 1);
            return;
        }
        loop_over(b, rows.count, "rows", |b| {
            places(b, columns.count, columns.step);
            step(b, row, rows.step * columns.total * WORD);
        });
    }
}

fn step(b: &mut Builder, pointer: Register, bytes: usize) {
    if bytes > 0 {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        b.emit_to(pointer, Opcode::AddImmediate, (pointer, bytes));
    }
}
