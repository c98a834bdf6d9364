//! The gradient of the weights: rows are output channels, lanes are input channels, and the
//! reduction runs over images and output positions.
//!
//! A unit holds the same position of [`Engine::DEPTH`] images, so that whatever the strides, the
//! dilation and the size of the plane, every step of the reduction is one position, a tap is an
//! offset, and nothing is gathered tap by tap. With few input channels the lanes would stay
//! empty: then the taps are spread over the lanes as well.
//!
//! Threads take rectangles of the gradient, some rows by some channels, and each repacks what its
//! own reads: what another core has written is dearer to read than to pack.

use core::sync::atomic::{AtomicU32, Ordering};

use super::convolution::overlap;
use super::engine::{Element, Engine, Largest, Nest, Panel, Run, SLACK, Side};
use super::geometry::ConvGeometry;
use super::own::Own;
use super::parts::MOST_PARTS;
use super::rectangles::{Rectangle, Rectangles};
use super::scratch::{Scratch, items_bytes, words_bytes, words_of, words_of_mut};
use super::threads;

/// Most units of both repacked operands at a time.
const PANEL_UNITS: usize = 160 * 1024;

/// Least rows of a thread: each repacks the input of its channels.
const LEAST_ROWS: usize = 4;

/// Steps of a vector of sums that take as long as repacking one unit.
const PACKING: usize = 2;

/// Sizes of the working buffers under one engine.
#[derive(Clone, Copy, Debug)]
struct Plan {
    channels: usize,
    rows: usize,
    /// Rows of a tile but for the last.
    block: usize,
    taps: usize,
    /// Whether the lanes are (tap, channel) pairs rather than channels.
    spread: bool,
    /// Blocks of lanes.
    blocks: usize,
    /// Groups of `DEPTH` images that are repacked together.
    groups: usize,
    /// Output rows that are repacked together.
    grid_rows: usize,
    /// Columns of a repacked input.
    width: usize,
    /// Input rows repacked together.
    height: usize,
}

impl Plan {
    /// For `rows` output channels and `channels` input channels of one group.
    fn new<E: Engine>(g: &ConvGeometry, rows: usize, channels: usize) -> Self {
        let taps = g.taps();
        let spread = is_spread::<E>(g);
        let spread_blocks = (channels * taps).div_ceil(E::LANES);
        let blocks = if spread { spread_blocks } else { channels.div_ceil(E::LANES) };
        let width = g.out_width.saturating_sub(1) * g.stride_width
            + (g.kernel_width - 1) * g.dilation_width
            + 1;
        let height = |rows: usize| {
            rows.saturating_sub(1) * g.stride_height + (g.kernel_height - 1) * g.dilation_height + 1
        };
        let units = |grid_rows: usize| {
            let positions = grid_rows * g.out_width;
            let lanes = if spread { positions } else { height(grid_rows) * width };
            (blocks * E::LANES * lanes + rows * positions).max(1)
        };
        let mut grid_rows = g.out_height.max(1);
        while grid_rows > 1 && units(grid_rows) > PANEL_UNITS {
            grid_rows = grid_rows.div_ceil(2);
        }
        let all_groups = g.batch.div_ceil(E::DEPTH).max(1);
        let groups = if grid_rows < g.out_height {
            1
        } else {
            (PANEL_UNITS / units(grid_rows)).clamp(1, all_groups)
        };
        Self {
            channels,
            rows,
            block: E::block(rows).max(1),
            taps,
            spread,
            blocks,
            groups,
            grid_rows,
            width,
            height: height(grid_rows),
        }
    }

    /// For one whole group.
    fn whole<E: Engine>(g: &ConvGeometry) -> Self {
        Self::new::<E>(g, g.group_out_channels(), g.group_in_channels())
    }

    /// Units of the lane panels.
    fn lane_units<E: Engine>(&self, g: &ConvGeometry) -> usize {
        let each =
            if self.spread { self.grid_rows * g.out_width } else { self.height * self.width };
        // Spread blocks end with slack each.
        self.blocks * (self.groups * each * E::LANES + SLACK)
    }

    const fn row_units(&self, g: &ConvGeometry) -> usize {
        self.rows * self.groups * self.grid_rows * g.out_width
    }

    fn staging_units<E: Engine>(&self, g: &ConvGeometry) -> usize {
        let lanes = E::LANES.min(self.channels) * self.height.min(g.in_height) * g.in_width;
        let rows = self.block * self.grid_rows * g.out_width;
        let arranged = E::arrangement(rows * self.groups);
        lanes.max(rows).max(if self.spread { self.blocks * E::LANES } else { 0 }).max(arranged)
    }

    /// The walk over so many groups of images and rows of the output, whose lanes are repacked together as `height` rows of the input.
    fn nest<E: Engine>(&self, g: &ConvGeometry, groups: usize, rows: usize, height: usize) -> Nest {
        if self.spread {
            return Nest::line(groups * rows * g.out_width, E::LANES);
        }
        let nest = Nest {
            outer: groups,
            outer_step: (height * self.width * E::LANES) as isize,
            middle: rows,
            middle_step: (g.stride_height * self.width * E::LANES) as isize,
            inner: g.out_width,
            inner_step: (g.stride_width * E::LANES) as isize,
            panel: Panel::Whole,
        };
        nest.merged()
    }

    /// Units of the repacked input of one group of images from which taps are spread.
    const fn spread_units(&self) -> usize {
        if self.spread { self.height * self.width * self.channels + SLACK } else { 0 }
    }

    /// Taps that a block of lanes is multiplied at.
    const fn tiles(&self) -> usize {
        if self.spread { 1 } else { self.taps }
    }

    /// Sums of one row while they are collected, lanes rounded up to whole blocks. A block of rows
    /// collects `[block of lanes][tap][row][lane]`.
    fn line<E: Engine>(&self) -> usize {
        self.blocks * self.tiles() * E::LANES
    }

    /// Scratch of the whole plan.
    fn bytes<E: Engine>(&self, g: &ConvGeometry) -> usize {
        Scratch::LOSS
            + words_bytes(self.lane_units::<E>(g))
            + words_bytes(self.row_units(g))
            + words_bytes(self.staging_units::<E>(g))
            + words_bytes(self.spread_units())
            + words_bytes(self.rows * self.line::<E>())
            + words_bytes(self.block)
            + items_bytes::<Run>(self.spread_runs::<E>())
            + items_bytes::<usize>(self.spread_lists(self.blocks))
            + items_bytes::<usize>(self.spread_lists(self.grid_rows * g.out_width))
    }

    /// Runs of taps in blocks of lanes, at most one a lane.
    fn spread_runs<E: Engine>(&self) -> usize {
        self.spread_lists(self.blocks * E::LANES)
    }

    /// So many, where taps are spread.
    const fn spread_lists(&self, count: usize) -> usize {
        if self.spread { count } else { 0 }
    }
}

/// Whether the lanes are (tap, channel) pairs rather than channels.
const fn is_spread<E: Engine>(g: &ConvGeometry) -> bool {
    let channels = g.group_in_channels();
    let spread_blocks = (channels * g.taps()).div_ceil(E::LANES);
    channels <= E::LANES && spread_blocks * 4 <= channels.div_ceil(E::LANES) * g.taps() * 3
}

/// How threads share the gradient of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Pieces of the rows.
    rows: usize,
    /// Pieces of the channels.
    channels: usize,
}

impl Share {
    /// The quickest among so many threads: the more pieces the channels are cut into, the less of the input each thread repacks, and the
    /// more of the gradient of the output.
    fn new<E: Engine>(g: &ConvGeometry, threads: usize) -> Self {
        let all = g.group_out_channels();
        let most_rows = all.div_ceil(LEAST_ROWS.max(E::LEAST_ROWS));
        let blocks = g.group_in_channels().div_ceil(E::LANES);
        let most_channels = if is_spread::<E>(g) { 1 } else { blocks };
        let shares = (1..=most_channels.min(threads)).map(|channels| {
            let rows = (threads / channels).clamp(1, most_rows);
            Self { rows, channels }
        });
        // Of the thread that has most; of lanes a vector at a time, over all positions of the output.
        let time = |share: &Self| {
            let (rows, blocks) = (all.div_ceil(share.rows), blocks.div_ceil(share.channels));
            let products = rows * blocks * g.taps() * g.out_plane();
            let packed = rows * g.out_plane() + blocks * E::LANES * g.in_plane();
            products + PACKING * packed
        };
        shares.min_by_key(time).unwrap_or(Self { rows: 1, channels: 1 })
    }

    const fn threads(self) -> usize {
        self.rows * self.channels
    }
}

/// Scratch of [`weight_gradient`] under `E`.
pub(crate) fn bytes<E: Engine>(g: &ConvGeometry) -> usize {
    Plan::whole::<E>(g).bytes::<E>(g)
}

/// Whether `E` suits [`weight_gradient`].
pub(crate) fn suits<E: Engine>(g: &ConvGeometry) -> bool {
    let plan = Plan::whole::<E>(g);
    E::suits(plan.block, &plan.nest::<E>(g, plan.groups, plan.grid_rows, plan.height))
}

/// `dw`; returns its largest magnitude.
pub(crate) fn weight_gradient<E: Engine>(
    g: &ConvGeometry,
    x: &[E::Element],
    dy: &[E::Element],
    dw: &mut [E::Sum],
    scratch: &mut [u8],
) -> u32 {
    let per_group = g.group_out_channels() * g.group_in_channels() * g.taps();
    if dw.is_empty() {
        return 0;
    }
    if g.output_len() == 0 {
        dw.fill(E::Sum::default());
        return 0;
    }
    let (rows, channels) = (g.group_out_channels(), g.group_in_channels());
    // What each thread reads it repacks, whoever wrote it: small products are not worth that.
    let work = g.multiplications() / g.groups / 2;
    let share = Share::new::<E>(g, threads::parts(work, MOST_PARTS));
    let piece_of_rows = |index| threads::piece(rows, 1, share.rows, index);
    let piece_of_channels = |index| threads::piece(channels, E::LANES, share.channels, index);
    let mut most = 0;
    for (group, dw) in dw.chunks_exact_mut(per_group).enumerate() {
        let parts = Rectangles::new(
            dw,
            channels * g.taps(),
            share.channels,
            |index| piece_of_rows(index).start,
            |index| piece_of_channels(index).start * g.taps(),
        );
        let found = AtomicU32::new(0);
        let own = Own::new(scratch);
        threads::run(share.threads(), &|index| {
            let own_rows = piece_of_rows(index / share.channels);
            let own_channels = piece_of_channels(index % share.channels);
            let product = Product {
                g,
                plan: &Plan::new::<E>(g, own_rows.len(), own_channels.len()),
                first_row: group * rows + own_rows.start,
                first_channel: group * channels + own_channels.start,
                engine: core::marker::PhantomData::<E>,
            };
            let mut dw = parts.take(index);
            let mut largest = Largest::default();
            // A plan of fewer rows may choose larger chunks than the one that sized the scratch.
            let needed = product.plan.bytes::<E>(g);
            own.with(needed, |bytes| {
                product.run(x, dy, &mut dw, &mut Scratch::new(bytes), &mut largest);
            });
            found.fetch_max(largest.value(), Ordering::Relaxed);
        });
        most = most.max(found.into_inner());
    }
    most
}

/// Some output channels by some input channels of one group.
struct Product<'a, E: Engine> {
    g: &'a ConvGeometry,
    plan: &'a Plan,
    /// First output channel, over all groups.
    first_row: usize,
    /// First input channel, over all groups.
    first_channel: usize,
    engine: core::marker::PhantomData<E>,
}

/// One block of rows in one chunk of the reduction.
struct Block<'a, E: Engine> {
    /// First row, within the plan's.
    first: usize,
    /// Packed rows.
    a: &'a [u32],
    bias: &'a [E::Sum],
    /// Whether the sums begin with this chunk.
    begins: bool,
    /// Whether they are complete with it.
    ends: bool,
}

/// Lists for taps that are spread over lanes, in the scratch.
struct Lists<'a> {
    /// Runs of each block of lanes.
    runs: &'a mut [Run],
    /// How many each block has.
    lengths: &'a mut [usize],
    /// Where each position's window begins in the repacked input.
    bases: &'a mut [usize],
}

/// Images and output rows that are repacked together.
#[derive(Clone, Copy)]
struct Chunk {
    first_image: usize,
    images: usize,
    /// Groups of `DEPTH` images.
    groups: usize,
    first_row: usize,
    rows: usize,
    /// Input rows.
    height: usize,
}

impl<E: Engine> Product<'_, E> {
    fn run(
        &self,
        x: &[E::Element],
        dy: &[E::Element],
        dw: &mut Rectangle<'_, E::Sum>,
        scratch: &mut Scratch<'_>,
        largest: &mut Largest,
    ) {
        let (g, plan) = (self.g, self.plan);
        let lanes = scratch.units(plan.lane_units::<E>(g));
        let rows = scratch.units(plan.row_units(g));
        let staging = scratch.units(plan.staging_units::<E>(g));
        let spread = scratch.units(plan.spread_units());
        let sums = scratch.sums::<E::Sum>(plan.rows * plan.line::<E>());
        let bias = scratch.sums::<E::Sum>(plan.block);
        let lists = &mut Lists {
            runs: scratch.items(plan.spread_runs::<E>()),
            lengths: scratch.items(plan.spread_lists(plan.blocks)),
            bases: scratch.items(plan.spread_lists(plan.grid_rows * g.out_width)),
        };
        let step = plan.groups * E::DEPTH;
        for first_image in (0..g.batch).step_by(step) {
            for first_row in (0..g.out_height).step_by(plan.grid_rows) {
                let images = step.min(g.batch - first_image);
                let grid_rows = plan.grid_rows.min(g.out_height - first_row);
                let chunk = Chunk {
                    first_image,
                    images,
                    groups: images.div_ceil(E::DEPTH),
                    first_row,
                    rows: grid_rows,
                    height: (grid_rows - 1) * g.stride_height
                        + (g.kernel_height - 1) * g.dilation_height
                        + 1,
                };
                self.pack_rows(&chunk, dy, rows, staging);
                if plan.spread {
                    self.pack_spread(&chunk, x, lanes, spread, staging, lists);
                } else {
                    self.pack_lanes(&chunk, x, lanes, staging);
                }
                let begins = first_image == 0 && first_row == 0;
                let ends = first_image + images == g.batch && first_row + grid_rows == g.out_height;
                let steps = chunk.groups * chunk.rows * g.out_width;
                let nest = plan.nest::<E>(g, chunk.groups, chunk.rows, chunk.height);
                for first in (0..plan.rows).step_by(plan.block) {
                    let count = plan.block.min(plan.rows - first);
                    let a = &mut rows[first * steps..][..count * steps];
                    E::bias(a, count, bias);
                    E::arrange(a, count, &nest, staging);
                    let block = Block { first, a, bias: &bias[..count], begins, ends };
                    let sums = &mut sums[first * plan.line::<E>()..];
                    self.tiles(&chunk, &nest, &block, lanes, sums, dw, staging, largest);
                }
            }
        }
    }

    /// Multiplies one block of rows by every block of lanes at every tap.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    fn tiles(
        &self,
        chunk: &Chunk,
        nest: &Nest,
        block: &Block<'_, E>,
        lanes: &[u32],
        sums: &mut [E::Sum],
        dw: &mut Rectangle<'_, E::Sum>,
        staging: &mut [u32],
        largest: &mut Largest,
    ) {
        let (g, plan) = (self.g, self.plan);
        let rows = block.bias.len();
        let block_units = if plan.spread {
            nest.steps() * E::LANES + SLACK
        } else {
            chunk.groups * chunk.height * plan.width * E::LANES
        };
        let tile = rows * E::LANES;
        for index in 0..plan.blocks {
            // Sums that are finished at once stay in the first-level cache.
            let keep = if block.begins && block.ends && !plan.spread { 0 } else { index };
            let sums = &mut sums[keep * plan.tiles() * tile..][..plan.tiles() * tile];
            for (tap, c) in sums.chunks_exact_mut(tile).enumerate() {
                let row = tap / g.kernel_width * g.dilation_height;
                let column = tap % g.kernel_width * g.dilation_width;
                let offset = (row * plan.width + column) * E::LANES;
                let b = &lanes[index * block_units + offset..];
                assert!(block.a.len() == nest.steps() * rows);
                assert!(nest.is_within(0, E::LANES, b.len()));
                // SAFETY: the assertion and the slices give every operand its length; `rows` is at
                // most the block of rows.
                unsafe {
                    E::tile(
                        rows,
                        block.a.as_ptr(),
                        b.as_ptr(),
                        nest,
                        block.bias.as_ptr(),
                        !block.begins,
                        c.as_mut_ptr(),
                        E::LANES,
                    );
                }
            }
            if block.ends && !plan.spread {
                let first = index * E::LANES;
                let count = E::LANES.min(plan.channels - first);
                for row in 0..rows {
                    let dw = &mut dw.row(block.first + row)[first * plan.taps..];
                    let dw = &mut dw[..count * plan.taps];
                    let from = &words_of(sums)[row * E::LANES..];
                    E::transpose(from, tile, plan.taps, count, words_of_mut(dw), plan.taps);
                    E::fold_max(largest, dw, dw.len(), 1, dw.len());
                }
            }
        }
        if block.ends && plan.spread {
            let size = plan.channels * plan.taps;
            for row in 0..rows {
                let dw = dw.row(block.first + row);
                let line = &mut staging[..plan.blocks * E::LANES];
                for (index, line) in line.chunks_exact_mut(E::LANES).enumerate() {
                    let from = &words_of(sums)[index * tile + row * E::LANES..][..E::LANES];
                    line.copy_from_slice(from);
                }
                let out = words_of_mut(dw);
                E::transpose(line, plan.channels, plan.taps, plan.channels, out, plan.taps);
                E::fold_max(largest, dw, size, 1, size);
            }
        }
    }

    /// The gradient of the output into `[row block][group][position][row]` units.
    fn pack_rows(&self, chunk: &Chunk, dy: &[E::Element], out: &mut [u32], staging: &mut [u32]) {
        let (g, plan) = (self.g, self.plan);
        let plane = g.out_plane();
        let image = g.out_channels * plane;
        let positions = chunk.rows * g.out_width;
        for first in (0..plan.rows).step_by(plan.block) {
            let count = plan.block.min(plan.rows - first);
            for group in 0..chunk.groups {
                let present = E::DEPTH.min(chunk.images - group * E::DEPTH);
                let base = (chunk.first_image + group * E::DEPTH) * image
                    + (self.first_row + first) * plane
                    + chunk.first_row * g.out_width;
                let at = first * chunk.groups * positions + group * positions * count;
                let out = &mut out[at..][..positions * count];
                if let Some(units) = E::Element::as_units(dy) {
                    E::transpose(&units[base..], plane, count, positions, out, count);
                    continue;
                }
                for row in 0..count {
                    let from = &dy[base + row * plane..];
                    let units = &mut staging[row * positions..][..positions];
                    E::interleave(Side::Rows, from, image, present, units);
                }
                E::transpose(staging, positions, count, positions, out, count);
            }
        }
    }

    /// The input into `[block of lanes][group][row][column][lane]` units with its border.
    fn pack_lanes(&self, chunk: &Chunk, x: &[E::Element], out: &mut [u32], staging: &mut [u32]) {
        let plan = self.plan;
        let plane = chunk.height * plan.width * E::LANES;
        for block in 0..plan.blocks {
            let first = block * E::LANES;
            let count = E::LANES.min(plan.channels - first);
            for group in 0..chunk.groups {
                let out = &mut out[(block * chunk.groups + group) * plane..][..plane];
                self.pack_plane(chunk, group, x, first, count, E::LANES, out, staging);
            }
        }
    }

    /// The input of one group of images, channels `first..first + count`, into
    /// `[row][column][stride]` units with its border.
    #[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
    fn pack_plane(
        &self,
        chunk: &Chunk,
        group: usize,
        x: &[E::Element],
        first: usize,
        count: usize,
        stride: usize,
        out: &mut [u32],
        staging: &mut [u32],
    ) {
        let (g, plan) = (self.g, self.plan);
        let top = (chunk.first_row * g.stride_height) as isize - g.pad_top as isize;
        let left = -(g.pad_left as isize);
        let rows = overlap(top, chunk.height, g.in_height);
        let columns = overlap(left, plan.width, g.in_width);
        let whole =
            rows.len() == chunk.height && columns.len() == plan.width && plan.width == g.in_width;
        if !whole || count < stride {
            out.fill(E::LANE_ZERO);
        }
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let image = g.in_channels * g.in_plane();
        let present = E::DEPTH.min(chunk.images - group * E::DEPTH);
        let base = (chunk.first_image + group * E::DEPTH) * image
            + (self.first_channel + first) * g.in_plane()
            + rows.start * g.in_width;
        // Where channels lie `size` units apart, these rows first.
        let (units, size) = match E::Element::as_units(x) {
            Some(units) => (&units[base..], g.in_plane()),
            None => {
                let size = rows.len() * g.in_width;
                for channel in 0..count {
                    let from = &x[base + channel * g.in_plane()..];
                    let staged = &mut staging[channel * size..][..size];
                    E::interleave(Side::Lanes, from, image, present, staged);
                }
                (&*staging, size)
            }
        };
        if whole {
            E::transpose(units, size, count, rows.len() * g.in_width, out, stride);
            return;
        }
        for row in rows.clone() {
            let from = &units[(row - rows.start) * g.in_width + columns.start..];
            let at = (row as isize - top) as usize * plan.width
                + (columns.start as isize - left) as usize;
            E::transpose(from, size, count, columns.len(), &mut out[at * stride..], stride);
        }
    }

    /// The input into `[block of lanes][group][position][lane]` units, the lanes being (tap,
    /// channel) pairs.
    fn pack_spread(
        &self,
        chunk: &Chunk,
        x: &[E::Element],
        out: &mut [u32],
        plane: &mut [u32],
        staging: &mut [u32],
        lists: &mut Lists<'_>,
    ) {
        let (g, plan) = (self.g, self.plan);
        let channels = plan.channels;
        let positions = chunk.rows * g.out_width;
        let block_units = chunk.groups * positions * E::LANES + SLACK;
        // Taps of one kernel row are neighbours unless the kernel is dilated.
        let (runs, run) = if g.dilation_width == 1 {
            (1, g.kernel_width * channels)
        } else {
            (g.kernel_width, channels)
        };
        lists.lengths.fill(0);
        let mut lane = 0;
        for tap_row in 0..g.kernel_height {
            for tap_run in 0..runs {
                let row = tap_row * g.dilation_height * plan.width;
                let mut source = (row + tap_run * g.dilation_width) * channels;
                let end = source + run;
                while source < end {
                    let length = (end - source).min(E::LANES - lane % E::LANES);
                    let block = lane / E::LANES;
                    let next = &mut lists.lengths[block];
                    lists.runs[block * E::LANES + *next] =
                        Run { source, lane: lane % E::LANES, length };
                    *next += 1;
                    source += length;
                    lane += length;
                }
            }
        }
        let bases = &mut lists.bases[..positions];
        for (position, base) in bases.iter_mut().enumerate() {
            let (row, column) = (position / g.out_width, position % g.out_width);
            *base = (row * g.stride_height * plan.width + column * g.stride_width) * channels;
        }
        for group in 0..chunk.groups {
            let units = chunk.height * plan.width * channels;
            self.pack_plane(chunk, group, x, 0, channels, channels, &mut plane[..units], staging);
            for (block, &length) in lists.lengths.iter().enumerate() {
                let to = block * block_units + group * positions * E::LANES;
                let runs = &lists.runs[block * E::LANES..][..length];
                E::gather(plane, bases, runs, 1, &mut out[to..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::portable::PortableI8;
    use super::*;

    fn square(channels: usize, side: usize, stride: usize) -> ConvGeometry {
        ConvGeometry {
            batch: 64,
            in_channels: channels,
            in_height: side,
            in_width: side,
            out_channels: channels,
            out_height: side / stride,
            out_width: side / stride,
            kernel_height: 3,
            kernel_width: 3,
            stride_height: stride,
            stride_width: stride,
            dilation_height: 1,
            dilation_width: 1,
            pad_top: 1,
            pad_left: 1,
            groups: 1,
        }
    }

    /// Units that all threads together repack, over what one alone does.
    fn repacked(g: &ConvGeometry, share: Share) -> f64 {
        let (x, dy) = (g.in_channels * g.in_plane(), g.out_channels * g.out_plane());
        (share.rows * x + share.channels * dy) as f64 / (x + dy) as f64
    }

    #[test]
    fn threads_do_not_repack_all_of_the_input_each() {
        for (channels, side, stride) in [(512, 8, 1), (128, 32, 1), (256, 16, 2), (64, 64, 2)] {
            let g = square(channels, side, stride);
            for threads in [1, 2, 4, 8, 16] {
                let share = Share::new::<PortableI8>(&g, threads);
                assert_eq!(share.threads(), threads, "{channels} channels: no thread is idle");
                let most = 1.07 * (threads as f64).sqrt();
                let found = repacked(&g, share);
                assert!(found <= most, "{channels} channels, {threads} threads: {found} times");
            }
        }
    }

    #[test]
    fn shares_leave_threads_idle_rather_than_rows_few() {
        let g = ConvGeometry { in_channels: 3, out_channels: 10, ..square(3, 32, 1) };
        let share = Share::new::<PortableI8>(&g, 40);
        assert_eq!(share, Share { rows: 10_usize.div_ceil(LEAST_ROWS), channels: 1 });
    }
}
