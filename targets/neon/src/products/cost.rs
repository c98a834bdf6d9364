//! An estimate of a product's instructions, with what fills panels counted: of blocks multiplied, packed, and results stored, as
//! counted of LeNet-5 and ResNet-8.

use trainc_ir::product::{Convolution, Pass};

use super::shape::Windows;
use crate::level::Level;

/// Of a call: set-up of windows and panels.
const CALL: usize = 400;
/// Of a pair of panels, besides its blocks.
const TILE: usize = 100;
/// Of a block of 8 units that is packed, and of a tap's panel besides.
const BLOCK: usize = 60;
const PANEL: usize = 100;
/// Of a group of several, whose operands are packed and whose sums are stored apart, and of a row of it.
const GROUP: usize = 1600;
const ROW: usize = 40;
/// Of a channel of a single row that is copied.
const LINE: usize = 10;

/// An estimate of the instructions of a product in panels; `finished` if its sums are rounded.
pub(super) fn instructions(c: &Convolution, level: Level, finished: bool) -> u64 {
    let [tiles, rest] = match c.pass {
        Pass::Gradient => gradient(c, level, finished),
        Pass::Forward | Pass::Error => windows(c, level),
    };
    let group = match c.pass {
        Pass::Forward if c.groups > 1 => GROUP + ROW * c.outputs,
        Pass::Error if c.groups > 1 => GROUP + ROW * c.channels,
        _ => 0,
    };
    let rest = rest + group;
    // Packing and storing have half the lanes there.
    let times = if level == Level::Armv7 { 2 } else { 1 };
    (CALL + c.groups * (tiles + times * rest)) as u64
}

/// Pairs of a window and a tap that meet the plane.
fn met(windows: &Windows) -> usize {
    let axis = |axis: usize| {
        (0..windows.taps[axis])
            .map(|tap| {
                (0..windows.size[axis]).filter(|&at| windows.meets(axis, at, tap).is_some()).count()
            })
            .sum::<usize>()
    };
    axis(0) * axis(1)
}

/// Of a group of a forward product or an error: of its tiles, and of what is around them.
fn windows(c: &Convolution, level: Level) -> [usize; 2] {
    let (inner, outer, plane, result_plane) = match c.pass {
        Pass::Error => (c.outputs, c.channels, c.places(), c.plane()),
        _ => (c.channels, c.outputs, c.plane(), c.places()),
    };
    let (taps, blocks) = (c.tap_count(), inner.div_ceil(16));
    let panels = (c.images * result_plane).div_ceil(8);
    let row_panels = outer.div_ceil(8);
    let dense = result_plane.is_multiple_of(8) && (c.pass == Pass::Forward || c.strides == [1, 1]);
    let each = if dense { 20 } else { 45 };
    let store = panels * outer * each;
    let of_patches = (taps * inner).div_ceil(16);
    if c.pass == Pass::Forward && 4 * taps * blocks > 5 * of_patches {
        let tiles = row_panels * (TILE + level.block_instructions() * of_patches);
        // Windows side by side are gathered by rows, others one by one.
        let apart = match c.columns {
            _ if c.strides[1] > 1 => 100,
            columns if columns.is_multiple_of(8) => 0,
            columns => (800 / columns).min(100),
        };
        let gather = (16 * (100 - apart) + 80 * apart) * inner * taps / 100;
        let pack = gather + PANEL + BLOCK * of_patches;
        return [panels * tiles, panels * pack + store + 12 * outer * of_patches];
    }
    // Taps that meet the plane from some lane of a panel: all, but where planes are small and images fill the panels.
    let windows = Windows::of(c);
    let met_taps = (met(&windows) * 100).div_ceil(windows.size[0] * windows.size[1]);
    let hundredths = match c.pass {
        Pass::Error => 100 * taps / (c.strides[0] * c.strides[1]),
        _ if c.images.is_multiple_of(8) && result_plane <= 4096 => met_taps,
        _ => 100 * taps,
    };
    let tile_blocks = hundredths * blocks;
    let tiles = row_panels * (TILE + level.block_instructions() * tile_blocks / 100);
    let pack = (PANEL * hundredths + BLOCK * tile_blocks) / 100;
    let weights = outer * taps * blocks * if c.pass == Pass::Error { 24 } else { 12 };
    [panels * tiles, panels * pack + store + weights + 20 * c.images * plane * blocks]
}

/// Of a group of a weight's gradient, likewise: see [`super::gradient::GradientProduct`].
fn gradient(c: &Convolution, level: Level, finished: bool) -> [usize; 2] {
    let (row_panels, lane_panels) = (c.outputs.div_ceil(8), c.channels.div_ceil(8));
    let (taps, tile_block) = (c.tap_count(), level.block_instructions());
    let windows = Windows::of(c);
    let (met, blocks) = (met(&windows), c.images.div_ceil(16));
    let in_order = (c.images * c.places()).div_ceil(16);
    // A single row of places, as matrices have: channels are copied as they lie, and so are results.
    let lines = c.images == 1 && c.rows == 1 && taps == 1;
    let each = match finished {
        _ if lines => 1,
        true => 11,
        false => 9,
    };
    let store = c.outputs * c.channels * taps * each;
    if met * blocks <= taps * in_order * (70 * row_panels + 100) / (70 * row_panels) {
        let tiles = row_panels * lane_panels * (taps * TILE + met * blocks * tile_block);
        let packed = c.images * (c.outputs * c.places() + c.channels * c.plane());
        return [tiles, packed * 3 / 2 + store];
    }
    let tiles = row_panels * lane_panels * taps * (TILE + in_order * tile_block);
    let row = if lines { LINE } else { 15 + c.columns };
    let copied = |channels: usize, times: usize| times * channels * c.images * c.rows * row;
    let packed = |panels: usize| panels * (PANEL + in_order * (BLOCK + 12));
    let lanes = taps * packed(lane_panels) + copied(c.channels, taps);
    [tiles, lanes + packed(row_panels) + copied(c.outputs, 1) + store]
}
