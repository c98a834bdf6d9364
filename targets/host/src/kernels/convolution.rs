//! Sweeps of taps as products: rows are the channels that come out, lanes are output positions.
//!
//! The source is repacked once, a few images at a time, into planes of units with its border of
//! zeros; a tap is then an offset into a plane, and a panel of lanes is gathered by copying runs.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use super::engine::{Element, Engine, Largest, Nest, Run, SLACK, Side};
use super::geometry::ConvGeometry;
use super::memo::Packing;
use super::own::Own;
use super::parts::Parts;
use super::products::DIRECT;
use super::scratch::{Scratch, items_bytes, packed, words_bytes};
use super::sweep::Sweep;
use super::target::{Lanes, Store, Target};
use super::threads;

/// Most units of repacked source at a time; less than half of a usual second-level cache.
const SOURCE_UNITS: usize = 96 * 1024;
/// Most units of gathered lanes at a time, which the blocks of rows read in turn; they share that cache with the source.
const PANEL_UNITS: usize = 48 * 1024;
/// Likewise where a single block of rows reads them; half of a first-level cache.
const PANEL_UNITS_ONCE: usize = 4 * 1024;
/// Most units of one reduction in one pass of a tile.
const DEPTH_UNITS: usize = 512;

/// Sizes of the working buffers of one sweep under one engine.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Channels that come out, of one group.
    rows: usize,
    /// Rows of a tile but for the last.
    block: usize,
    /// Planes of units of one image.
    planes: usize,
    /// Units of the whole reduction.
    depth: usize,
    /// Units of one pass of the reduction.
    depth_block: usize,
    /// Images repacked together.
    images: usize,
    /// Grid rows repacked together; the whole grid unless a single image is too large.
    grid_rows: usize,
    /// Columns of a repacked plane.
    width: usize,
    /// Rows that the taps span.
    span: usize,
    /// Tiles of lanes gathered together.
    tiles: usize,
    /// Whether the lanes of a tile are neighbours in the repacked source at every tap, so that none is gathered.
    direct: bool,
}

impl Plan {
    fn new<E: Engine>(g: &ConvGeometry, sweep: &Sweep, channels: usize, rows: usize) -> Self {
        let planes = if sweep.tap_units.is_some() { channels } else { channels.div_ceil(E::DEPTH) };
        let depth = planes * sweep.taps.len();
        let (_, span) = sweep.row_span();
        let (_, column_span) = sweep.column_span();
        let width = sweep.grid_width.saturating_sub(1) * sweep.step_width + column_span;
        let height = |rows: usize| rows.saturating_sub(1) * sweep.step_height + span;
        let mut grid_rows = sweep.grid_height;
        while grid_rows > 1 && planes * height(grid_rows) * width > SOURCE_UNITS {
            grid_rows = grid_rows.div_ceil(2);
        }
        let image = (planes * height(grid_rows) * width).max(1);
        let images = if grid_rows < sweep.grid_height {
            1
        } else {
            (SOURCE_UNITS / image).clamp(1, g.batch.max(1))
        };
        let taps = sweep.taps.len();
        let block = E::block(rows);
        let depth_passes = depth.div_ceil(DEPTH_UNITS).max(1);
        let pass = planes.div_ceil(depth_passes);
        let direct = sweep.step_width == 1
            && sweep.grid_width.is_multiple_of(E::LANES)
            && (1..=DEPTH_UNITS).contains(&taps)
            && E::suits(block, &Nest { outer: pass, ..sweep.taps.nest(width) });
        let depth_block = if direct { pass * taps } else { depth.div_ceil(depth_passes) };
        let all_tiles = (images * grid_rows * sweep.grid_width).div_ceil(E::LANES).max(1);
        let panel = if rows <= E::ROWS { PANEL_UNITS_ONCE } else { PANEL_UNITS };
        let tiles = (panel / (depth_block * E::LANES).max(1)).clamp(1, all_tiles);
        Self {
            rows,
            block,
            planes,
            depth,
            depth_block,
            images,
            grid_rows,
            width,
            span,
            tiles,
            direct,
        }
    }

    /// The walk of a pass of `depth` units, over planes of `plane` units.
    fn nest<E: Engine>(&self, sweep: &Sweep, depth: usize, plane: usize) -> Nest {
        if !self.direct {
            return Nest::line(depth, E::LANES);
        }
        let outer = depth / sweep.taps.len();
        Nest { outer, outer_step: plane as isize, ..sweep.taps.nest(self.width) }
    }

    const fn height(&self, sweep: &Sweep, grid_rows: usize) -> usize {
        grid_rows.saturating_sub(1) * sweep.step_height + self.span
    }

    fn source_units(&self, sweep: &Sweep) -> usize {
        self.planes * self.images * self.height(sweep, self.grid_rows) * self.width + SLACK
    }

    fn panel_units<E: Engine>(&self) -> usize {
        if self.direct {
            return 0;
        }
        self.tiles * self.depth_block * E::LANES + SLACK
    }

    const fn staging_units(&self, sweep: &Sweep) -> usize {
        sweep.source_height * sweep.source_width
    }

    /// Units of the packed weights of one group, and their rows' first sums. Where there is no tap, there is nothing to multiply by.
    const fn panel(&self) -> (usize, usize) {
        match self.depth {
            0 => (0, 0),
            depth => (self.rows * depth, self.rows),
        }
    }

    /// Bytes that the packed weights of one group take.
    const fn weight_bytes(&self) -> usize {
        words_bytes(self.rows * self.depth) + words_bytes(self.rows)
    }

    /// Bytes that one thread takes.
    fn thread_bytes<E: Engine>(&self, sweep: &Sweep) -> usize {
        words_bytes(self.source_units(sweep))
            + words_bytes(self.panel_units::<E>())
            + words_bytes(self.staging_units(sweep))
            + items_bytes::<usize>(self.depth)
            + items_bytes::<E::Element>(self.line(E::DEPTH, sweep))
            + items_bytes::<Run>(E::LANES)
            + items_bytes::<Run>(self.tiles * E::LANES)
            + 2 * items_bytes::<usize>(self.tiles)
    }

    /// Operands of a row and what lies behind it, for units of neighbouring taps.
    fn line(&self, depth: usize, sweep: &Sweep) -> usize {
        sweep.tap_units.map_or(0, |distance| self.width + (depth - 1) * distance)
    }
}

/// Which channel counts play which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    InputGradient,
}

impl Direction {
    /// Channels read and channels written, of one group.
    const fn channels(self, g: &ConvGeometry) -> (usize, usize) {
        match self {
            Self::Forward => (g.group_in_channels(), g.group_out_channels()),
            Self::InputGradient => (g.group_out_channels(), g.group_in_channels()),
        }
    }

    fn sweeps<E: Engine>(self, g: &ConvGeometry) -> impl Iterator<Item = Sweep> {
        let forward = (self == Self::Forward).then(|| Sweep::forward_by(g, E::DEPTH));
        let phases = (self == Self::InputGradient).then(|| Sweep::input_gradient(g));
        forward.into_iter().chain(phases.into_iter().flatten())
    }

    /// Units that packing and arranging a block of the weights' rows stages.
    fn weight_staging<E: Engine>(self, g: &ConvGeometry, plan: &Plan) -> usize {
        let packing = match self {
            Self::Forward => plan.block * plan.depth,
            Self::InputGradient => plan.block * g.taps(),
        };
        packing.max(E::arrangement(plan.block * plan.depth_block))
    }

    /// Whether `E` suits one of the sweeps at least.
    fn suits<E: Engine>(self, g: &ConvGeometry) -> bool {
        let (channels, rows) = self.channels(g);
        channels > 0
            && rows > 0
            && self.sweeps::<E>(g).filter(|sweep| !sweep.taps.is_empty()).any(|sweep| {
                let plan = Plan::new::<E>(g, &sweep, channels, rows);
                E::suits(plan.block, &plan.nest::<E>(&sweep, plan.depth_block, 0))
            })
    }
}

/// Scratch of [`forward`] under `E`.
pub(crate) fn forward_bytes<E: Engine>(g: &ConvGeometry) -> usize {
    bytes::<E>(g, Direction::Forward)
}

/// Scratch of [`input_gradient`] under `E`.
pub(crate) fn input_gradient_bytes<E: Engine>(g: &ConvGeometry) -> usize {
    bytes::<E>(g, Direction::InputGradient)
}

/// Whether `E` suits [`forward`].
pub(crate) fn forward_suits<E: Engine>(g: &ConvGeometry) -> bool {
    Direction::Forward.suits::<E>(g)
}

/// Whether `E` suits [`input_gradient`].
pub(crate) fn input_gradient_suits<E: Engine>(g: &ConvGeometry) -> bool {
    Direction::InputGradient.suits::<E>(g)
}

fn bytes<E: Engine>(g: &ConvGeometry, direction: Direction) -> usize {
    let (channels, rows) = direction.channels(g);
    let mut panels = 0;
    let mut own = 0;
    for sweep in direction.sweeps::<E>(g) {
        let plan = Plan::new::<E>(g, &sweep, channels, rows);
        let staging = Scratch::LOSS + words_bytes(direction.weight_staging::<E>(g, &plan));
        panels += g.groups * plan.weight_bytes();
        own = own.max(staging).max(Scratch::LOSS + plan.thread_bytes::<E>(&sweep));
    }
    Scratch::LOSS + panels + own
}

/// What becomes of sums while they are near: a thread's, some images at a time.
pub(crate) struct Near<'a, S> {
    /// How many at most.
    pub(crate) images: usize,
    /// Whether sums are kept; otherwise each chunk's overwrite the last one's.
    pub(crate) keeps: bool,
    /// Takes the sums of whole images, of which the first one's number is given.
    pub(crate) take: &'a (dyn Fn(usize, &[S]) + Sync),
}

/// Bytes of packed weights that [`forward`] takes under `E`.
pub(crate) fn forward_panel_bytes<E: Engine>(g: &ConvGeometry) -> usize {
    let direction = Direction::Forward;
    let (channels, rows) = direction.channels(g);
    let plans = direction.sweeps::<E>(g).map(|sweep| Plan::new::<E>(g, &sweep, channels, rows));
    let (units, sums) = panel_lengths(g, plans);
    Scratch::LOSS + words_bytes(units) + words_bytes(sums)
}

/// `y = conv(x, w)`; returns the largest magnitude of `y`. Where sums are taken near and not kept, `y` is working memory. Packed weights
/// have the memory `packing`, if there is one.
pub(crate) fn forward<E: Engine>(
    g: &ConvGeometry,
    [x, w]: [&[E::Element]; 2],
    y: &mut [E::Sum],
    scratch: &mut [u8],
    (near, packing): (Option<&Near<'_, E::Sum>>, Option<Packing<'_>>),
) -> u32 {
    run::<E>(g, Direction::Forward, [x, w], y, scratch, (near, packing))
}

/// `dx`, the gradient of the input; returns its largest magnitude. Where sums are taken near and not kept, `dx` is working memory.
pub(crate) fn input_gradient<E: Engine>(
    g: &ConvGeometry,
    [dy, w]: [&[E::Element]; 2],
    dx: &mut [E::Sum],
    scratch: &mut [u8],
    near: Option<&Near<'_, E::Sum>>,
) -> u32 {
    run::<E>(g, Direction::InputGradient, [dy, w], dx, scratch, (near, None))
}

fn run<E: Engine>(
    g: &ConvGeometry,
    direction: Direction,
    [source, w]: [&[E::Element]; 2],
    out: &mut [E::Sum],
    scratch: &mut [u8],
    (near, packing): (Option<&Near<'_, E::Sum>>, Option<Packing<'_>>),
) -> u32 {
    let (channels, rows) = direction.channels(g);
    if out.is_empty() {
        return 0;
    }
    let mut scratch = Scratch::new(scratch);
    let planned = || {
        direction.sweeps::<E>(g).map(|sweep| {
            let plan = Plan::new::<E>(g, &sweep, channels, rows);
            (sweep, plan)
        })
    };
    let (units, sums) = panel_lengths(g, planned().map(|(_, plan)| plan));
    // Of each sweep, of each group.
    let (panels, biases, rest) = match packing {
        Some(Packing::Packed(bytes)) => {
            let (panels, biases) = packed::<E::Sum>(bytes, units, sums);
            (panels, biases, scratch.rest())
        }
        fresh => {
            let mut kept;
            let memory = match fresh {
                Some(Packing::Fresh(bytes)) => {
                    kept = Scratch::new(bytes);
                    &mut kept
                }
                _ => &mut scratch,
            };
            let panels = memory.units(units);
            let biases = memory.sums::<E::Sum>(sums);
            let rest = scratch.rest();
            let per_group = g.group_out_channels() * g.group_in_channels() * g.taps();
            let (mut unused, mut unused_biases) = (&mut *panels, &mut *biases);
            for (sweep, plan) in planned() {
                for weights in w.chunks_exact(per_group.max(1)) {
                    let (units, sums) = plan.panel();
                    let (panel, others) = unused.split_at_mut(units);
                    let (bias, other_biases) = unused_biases.split_at_mut(sums);
                    (unused, unused_biases) = (others, other_biases);
                    if units > 0 {
                        pack_weights::<E>(g, direction, &plan, &sweep, weights, panel, bias, rest);
                    }
                }
            }
            (&*panels, &*biases, rest)
        }
    };
    let image = out.len() / g.batch;
    let source_image = source.len() / g.batch;
    let shares = Shares::new(g, rows, E::block(rows), near.is_some());
    let outs = Parts::new(out, |index| {
        let share = shares.get(index);
        share.images.start * image + share.rows.start * (image / rows)
    });
    let found = AtomicU32::new(0);
    let own = Own::new(rest);
    threads::run(shares.count, &|index| {
        let Share { images, rows: own_rows } = shares.get(index);
        let image = image / rows * own_rows.len();
        let out = outs.take(index);
        let mut largest = Largest::default();
        let at_once = near.map_or(images.len(), |near| near.images.min(images.len())).max(1);
        let needed = planned().map(|(sweep, plan)| plan.thread_bytes::<E>(&sweep)).max();
        own.with(Scratch::LOSS + needed.unwrap_or(0), |bytes| {
            for first in images.clone().step_by(at_once) {
                let count = at_once.min(images.end - first);
                let source = &source[first * source_image..][..count * source_image];
                let keeps = near.is_none_or(|near| near.keeps);
                let start = if keeps { first - images.start } else { 0 };
                let out = &mut out[start * image..][..count * image];
                let (mut panels, mut biases) = (panels, biases);
                // All in one go: positions that no tap reaches lie a stride apart.
                if planned().any(|(_, plan)| plan.depth == 0) {
                    out.fill(E::Sum::default());
                }
                for (sweep, plan) in planned() {
                    if plan.depth == 0 {
                        continue;
                    }
                    for group in 0..g.groups {
                        let (panel, others) = panels.split_at(plan.rows * plan.depth);
                        let (bias, other_biases) = biases.split_at(plan.rows);
                        (panels, biases) = (others, other_biases);
                        let part = Part {
                            images: count,
                            channels,
                            source_stride: channels * g.groups,
                            source_first: group * channels,
                            out_stride: own_rows.len() * g.groups,
                            out_first: group * own_rows.len(),
                        };
                        let panel = &panel[own_rows.start * plan.depth..own_rows.end * plan.depth];
                        let bias = &bias[own_rows.clone()];
                        let plan = &Plan { rows: own_rows.len(), ..plan };
                        let operands = Operands::<E> { sweep: &sweep, plan, panel, bias };
                        let scratch = &mut Scratch::new(bytes);
                        operands.run(&part, source, out, scratch, &mut largest);
                    }
                }
                if let Some(near) = near {
                    (near.take)(first, out);
                }
            }
        });
        found.fetch_max(largest.value(), Ordering::Relaxed);
    });
    found.into_inner()
}

/// Units and sums of all groups' packed weights.
fn panel_lengths(g: &ConvGeometry, plans: impl Iterator<Item = Plan>) -> (usize, usize) {
    plans.fold((0, 0), |(units, sums), plan| {
        let (panel, bias) = plan.panel();
        (units + g.groups * panel, sums + g.groups * bias)
    })
}

/// What a thread makes: images, or rows of a single one.
struct Share {
    images: Range<usize>,
    rows: Range<usize>,
}

/// How a product is divided among threads: by images or, where those are fewer than threads, by blocks of their rows, too.
struct Shares {
    count: usize,
    images: usize,
    rows: usize,
    block: usize,
    /// Parts of an image's rows.
    of_an_image: usize,
}

impl Shares {
    fn new(g: &ConvGeometry, rows: usize, block: usize, whole_images: bool) -> Self {
        let most = threads::parts(g.multiplications(), usize::MAX);
        let of_an_image = match whole_images || g.groups > 1 {
            true => 1,
            false => (most / g.batch).clamp(1, rows.div_ceil(block)),
        };
        let count = if of_an_image > 1 { g.batch * of_an_image } else { most.min(g.batch) };
        Self { count, images: g.batch, rows, block, of_an_image }
    }

    /// That of a thread; the one behind the last is empty and begins at the end.
    fn get(&self, index: usize) -> Share {
        if self.of_an_image == 1 {
            let images = threads::piece(self.images, 1, self.count, index);
            return Share { images, rows: 0..self.rows };
        }
        let (image, piece) = (index / self.of_an_image, index % self.of_an_image);
        let rows = threads::piece(self.rows, self.block, self.of_an_image, piece);
        Share { images: image..image + 1, rows }
    }
}

/// The weights of one group into panels of rows, which threads share, and what each row's sums start from.
#[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
fn pack_weights<E: Engine>(
    g: &ConvGeometry,
    direction: Direction,
    plan: &Plan,
    sweep: &Sweep,
    weights: &[E::Element],
    panel: &mut [u32],
    bias: &mut [E::Sum],
    scratch: &mut [u8],
) {
    let blocks = plan.rows.div_ceil(plan.block);
    let count = threads::parts(DIRECT * weights.len(), blocks);
    let piece = |index| {
        let blocks = threads::piece(blocks, 1, count, index);
        (blocks.start * plan.block).min(plan.rows)..(blocks.end * plan.block).min(plan.rows)
    };
    let panels = Parts::new(panel, |index| piece(index).start * plan.depth);
    let biases = Parts::new(bias, |index| piece(index).start);
    let units = direction.weight_staging::<E>(g, plan);
    let own = Own::new(scratch);
    threads::run(count, &|index| {
        let (panels, biases) = (panels.take(index), biases.take(index));
        own.with(Scratch::LOSS + words_bytes(units), |bytes| {
            let staging = Scratch::new(bytes).units(units);
            let panels = panels.chunks_mut(plan.block * plan.depth);
            let firsts = piece(index).step_by(plan.block);
            for ((first, panel), bias) in firsts.zip(panels).zip(biases.chunks_mut(plan.block)) {
                match direction {
                    Direction::Forward => {
                        pack_forward::<E>(g, plan, sweep, weights, first, panel, staging);
                    }
                    Direction::InputGradient => {
                        pack_transposed::<E>(g, plan, sweep, weights, first, panel, staging);
                    }
                }
                let count = bias.len();
                E::bias(panel, count, bias);
                for panel in panel.chunks_mut(plan.depth_block * count) {
                    let nest = plan.nest::<E>(sweep, panel.len() / count, 0);
                    E::arrange(panel, count, &nest, staging);
                }
            }
        });
    });
}

/// A block of rows of weights `[rows, channels, taps]` into its panel, reduction order (plane, tap, depth).
fn pack_forward<E: Engine>(
    g: &ConvGeometry,
    plan: &Plan,
    sweep: &Sweep,
    weights: &[E::Element],
    first: usize,
    panel: &mut [u32],
    staging: &mut [u32],
) {
    let (taps, channels) = (g.taps(), g.group_in_channels());
    let count = panel.len() / plan.depth;
    if let Some(units) = E::Element::as_units(weights) {
        E::transpose(&units[first * plan.depth..], plan.depth, count, plan.depth, panel, count);
        return;
    }
    for row in 0..count {
        let from = &weights[(first + row) * channels * taps..][..channels * taps];
        let units = &mut staging[row * plan.depth..][..plan.depth];
        if sweep.tap_units.is_some() {
            let lines = from.chunks_exact(g.kernel_width);
            let units = units.chunks_exact_mut(g.kernel_width.div_ceil(E::DEPTH));
            for (line, units) in lines.zip(units) {
                E::widen(Side::Rows, line, units);
            }
            continue;
        }
        if taps == 1 {
            E::widen(Side::Rows, from, units);
            continue;
        }
        for (plane, units) in units.chunks_exact_mut(taps).enumerate() {
            let present = E::DEPTH.min(channels - plane * E::DEPTH);
            E::interleave(Side::Rows, &from[plane * E::DEPTH * taps..], taps, present, units);
        }
    }
    E::transpose(staging, plan.depth, count, plan.depth, panel, count);
}

/// A block of rows of weights `[channels, rows, all taps]` into its panel, reduction order (plane, tap of the sweep, depth).
fn pack_transposed<E: Engine>(
    g: &ConvGeometry,
    plan: &Plan,
    sweep: &Sweep,
    weights: &[E::Element],
    first: usize,
    panel: &mut [u32],
    staging: &mut [u32],
) {
    let all = g.taps();
    let line = plan.rows * all;
    let taps = sweep.taps.len();
    let channels = g.group_out_channels();
    let count = panel.len() / plan.depth;
    for (plane, panel) in panel.chunks_exact_mut(taps * count).enumerate() {
        let present = E::DEPTH.min(channels - plane * E::DEPTH);
        let weights = &weights[plane * E::DEPTH * line + first * all..];
        let from = match E::Element::as_units(weights) {
            Some(units) => &units[..count * all],
            None => {
                E::interleave(Side::Rows, weights, line, present, &mut staging[..count * all]);
                &staging[..count * all]
            }
        };
        if taps == all {
            E::transpose(from, all, count, all, panel, count);
            continue;
        }
        for (panel, tap) in panel.chunks_exact_mut(count).zip(sweep.taps.iter()) {
            for (row, unit) in panel.iter_mut().enumerate() {
                *unit = from[row * all + tap.index];
            }
        }
    }
}

/// Where the channels of one group lie in the source and in the output.
struct Part {
    images: usize,
    channels: usize,
    /// Channels of one image of the source, over all groups.
    source_stride: usize,
    source_first: usize,
    /// Channels of one image of the output, over all groups.
    out_stride: usize,
    out_first: usize,
}

/// What every thread of one sweep reads.
struct Operands<'a, E: Engine> {
    sweep: &'a Sweep,
    plan: &'a Plan,
    panel: &'a [u32],
    bias: &'a [E::Sum],
}

/// Lists of runs, in the scratch.
struct Lists<'a> {
    /// Of the tile that is gathered.
    gathers: &'a mut [Run],
    /// Of each tile's results.
    stores: &'a mut [Run],
    /// How many results' runs each tile has.
    lengths: &'a mut [usize],
    /// Where each tile's first step lies in the repacked source.
    starts: &'a mut [usize],
}

/// Images and grid rows that are repacked together.
#[derive(Clone, Copy)]
struct Chunk {
    first_image: usize,
    images: usize,
    first_row: usize,
    rows: usize,
    /// Rows of a repacked plane.
    height: usize,
}

impl<E: Engine> Operands<'_, E> {
    fn run(
        &self,
        part: &Part,
        source: &[E::Element],
        out: &mut [E::Sum],
        scratch: &mut Scratch<'_>,
        largest: &mut Largest,
    ) {
        let (sweep, plan) = (self.sweep, self.plan);
        let repacked = scratch.units(plan.source_units(sweep));
        let panel = scratch.units(plan.panel_units::<E>());
        let staging = scratch.units(plan.staging_units(sweep));
        let offsets = scratch.items(plan.depth);
        let line = scratch.items(plan.line(E::DEPTH, sweep));
        let lists = &mut Lists {
            gathers: scratch.items(E::LANES),
            stores: scratch.items(plan.tiles * E::LANES),
            lengths: scratch.items(plan.tiles),
            starts: scratch.items(plan.tiles),
        };
        for first_image in (0..part.images).step_by(plan.images) {
            for first_row in (0..sweep.grid_height).step_by(plan.grid_rows) {
                let rows = plan.grid_rows.min(sweep.grid_height - first_row);
                let chunk = Chunk {
                    first_image,
                    images: plan.images.min(part.images - first_image),
                    first_row,
                    rows,
                    height: plan.height(sweep, rows),
                };
                self.repack(part, &chunk, source, repacked, staging, line);
                self.offsets(&chunk, offsets);
                self.multiply(part, &chunk, offsets, repacked, panel, lists, out, largest);
            }
        }
    }

    /// Copies the source of a chunk into `[plane][image][row][column]` units with its border.
    fn repack(
        &self,
        part: &Part,
        chunk: &Chunk,
        source: &[E::Element],
        repacked: &mut [u32],
        staging: &mut [u32],
        line: &mut [E::Element],
    ) {
        let (sweep, plan) = (self.sweep, self.plan);
        let size = sweep.source_height * sweep.source_width;
        let (low_row, _) = sweep.row_span();
        let (low_column, _) = sweep.column_span();
        let top = (chunk.first_row * sweep.step_height) as isize + low_row;
        let rows = overlap(top, chunk.height, sweep.source_height);
        let columns = overlap(low_column, plan.width, sweep.source_width);
        let whole = rows.len() == chunk.height
            && columns.len() == plan.width
            && plan.width == sweep.source_width;
        let plane_units = chunk.height * plan.width;
        if let Some(distance) = sweep.tap_units {
            line.fill(E::Element::default());
            let columns = overlap(low_column, line.len(), sweep.source_width);
            let inside = (columns.start as isize - low_column) as usize;
            for (index, to) in repacked[..plan.planes * chunk.images * plane_units]
                .chunks_exact_mut(plane_units)
                .enumerate()
            {
                let (channel, image) = (index / chunk.images, index % chunk.images);
                let channel =
                    (chunk.first_image + image) * part.source_stride + part.source_first + channel;
                to.fill(E::LANE_ZERO);
                for row in rows.clone() {
                    let from =
                        &source[(channel * sweep.source_height + row) * sweep.source_width..];
                    line[inside..inside + columns.len()].copy_from_slice(&from[columns.clone()]);
                    let at = (row as isize - top) as usize * plan.width;
                    let units = &mut to[at..at + plan.width];
                    E::interleave(Side::Lanes, line, distance, E::DEPTH, units);
                }
            }
            return;
        }
        for plane in 0..plan.planes {
            let present = E::DEPTH.min(part.channels - plane * E::DEPTH);
            for image in 0..chunk.images {
                let channel = (chunk.first_image + image) * part.source_stride
                    + part.source_first
                    + plane * E::DEPTH;
                let to =
                    &mut repacked[(plane * chunk.images + image) * plane_units..][..plane_units];
                let from = &source[channel * size + rows.start * sweep.source_width..];
                if whole {
                    E::interleave(Side::Lanes, from, size, present, to);
                    continue;
                }
                to.fill(E::LANE_ZERO);
                if rows.is_empty() || columns.is_empty() {
                    continue;
                }
                let staged = &mut staging[..rows.len() * sweep.source_width];
                E::interleave(Side::Lanes, from, size, present, staged);
                let mut at = (rows.start as isize - top) as usize * plan.width
                    + (columns.start as isize - low_column) as usize;
                for line in staged.chunks_exact(sweep.source_width) {
                    to[at..at + columns.len()].copy_from_slice(&line[columns.clone()]);
                    at += plan.width;
                }
            }
        }
    }

    /// Where each step of the reduction starts in the repacked source.
    fn offsets(&self, chunk: &Chunk, offsets: &mut [usize]) {
        let (low_row, _) = self.sweep.row_span();
        let (low_column, _) = self.sweep.column_span();
        let taps = self.sweep.taps.len();
        for (plane, offsets) in offsets.chunks_exact_mut(taps).enumerate() {
            let base = plane * chunk.images * chunk.height * self.plan.width;
            for (offset, tap) in offsets.iter_mut().zip(self.sweep.taps.iter()) {
                let row = (tap.row - low_row) as usize;
                let column = (tap.column - low_column) as usize;
                *offset = base + row * self.plan.width + column;
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    fn multiply(
        &self,
        part: &Part,
        chunk: &Chunk,
        offsets: &[usize],
        repacked: &[u32],
        panel: &mut [u32],
        lists: &mut Lists<'_>,
        out: &mut [E::Sum],
        largest: &mut Largest,
    ) {
        let plan = self.plan;
        let plane = chunk.images * chunk.height * plan.width;
        let positions = chunk.images * chunk.rows * self.sweep.grid_width;
        let zeros = [E::Sum::default(); 64];
        for first in (0..positions).step_by(plan.tiles * E::LANES) {
            let tiles = (positions - first).div_ceil(E::LANES).min(plan.tiles);
            for (pass, offsets) in offsets.chunks(plan.depth_block).enumerate() {
                let depth = offsets.len();
                let start = pass * plan.depth_block;
                let last = start + depth == plan.depth;
                let nest = plan.nest::<E>(self.sweep, depth, plane);
                for tile in 0..tiles {
                    let from = first + tile * E::LANES;
                    let to = (from + E::LANES).min(positions);
                    let stores = &mut lists.stores[tile * E::LANES..][..E::LANES];
                    let [gathered, stored] =
                        self.runs(part, chunk, from..to, lists.gathers, stores);
                    lists.lengths[tile] = stored;
                    lists.starts[tile] = lists.gathers[0].source + offsets[0];
                    if plan.direct {
                        continue;
                    }
                    let panel = &mut panel[tile * depth * E::LANES..];
                    let gathers = &lists.gathers[..gathered];
                    E::gather(repacked, offsets, gathers, self.sweep.step_width, panel);
                }
                for row in (0..plan.rows).step_by(plan.block) {
                    let rows = plan.block.min(plan.rows - row);
                    let a = &self.panel[row * plan.depth + start * rows..][..depth * rows];
                    let bias = if pass == 0 { &self.bias[row..][..rows] } else { &zeros[..rows] };
                    for tile in 0..tiles {
                        let store = &Store {
                            runs: &lists.stores[tile * E::LANES..][..lists.lengths[tile]],
                            count: E::LANES.min(positions - first - tile * E::LANES),
                        };
                        let (units, first) = if plan.direct {
                            (repacked, lists.starts[tile])
                        } else {
                            (&*panel, tile * depth * E::LANES)
                        };
                        let lanes = Lanes { units, first, nest: &nest };
                        let target = Target {
                            plane: self.sweep.out_height * self.sweep.out_width,
                            row,
                            step: self.sweep.out_step_width,
                            accumulate: pass > 0,
                            last,
                        };
                        target.tile::<E>(rows, a, lanes, bias, store, out, largest);
                    }
                }
            }
        }
    }

    /// The runs of these positions of a chunk, at most one a lane, in the repacked source and in the output; gives how many there are.
    fn runs(
        &self,
        part: &Part,
        chunk: &Chunk,
        positions: Range<usize>,
        gathers: &mut [Run],
        stores: &mut [Run],
    ) -> [usize; 2] {
        let (sweep, plan) = (self.sweep, self.plan);
        let plane = sweep.out_height * sweep.out_width;
        let [mut gathered, mut stored] = [0; 2];
        let mut at = positions.start;
        while at < positions.end {
            let line = at / sweep.grid_width;
            let column = at % sweep.grid_width;
            let (image, row) = (line / chunk.rows, line % chunk.rows);
            let length = (sweep.grid_width - column).min(positions.end - at);
            let lane = at - positions.start;
            gathers[gathered] = Run {
                source: (image * chunk.height + row * sweep.step_height) * plan.width
                    + column * sweep.step_width,
                lane,
                length,
            };
            gathered += 1;
            let out_row = sweep.out_first_row + (chunk.first_row + row) * sweep.out_step_height;
            let out = ((chunk.first_image + image) * part.out_stride + part.out_first) * plane
                + out_row * sweep.out_width
                + sweep.out_first_column
                + column * sweep.out_step_width;
            match stores[..stored].last_mut() {
                Some(run) if sweep.is_dense() && run.source + run.length == out => {
                    run.length += length;
                }
                _ => {
                    stores[stored] = Run { source: out, lane, length };
                    stored += 1;
                }
            }
            at += length;
        }
        [gathered, stored]
    }
}

/// Positions `first..first + count` of a line that lie in `0..length`.
pub(crate) fn overlap(first: isize, count: usize, length: usize) -> Range<usize> {
    let start = first.clamp(0, length as isize) as usize;
    let end = (first + count as isize).clamp(start as isize, length as isize) as usize;
    start..end
}
