//! Estimates of what products whose lanes are places of windows take: tiles, the operand's copy with its border, the weights'
//! packing.

use trainc_ir::product::Pass;

use super::super::{CALL, SIX, TILE, TILES, TILES_BEHIND, places, zeros};
use super::{Reading, WindowsInPlace};
use crate::level::Level;

impl WindowsInPlace<'_> {
    /// An estimate of the instructions of a call.
    pub(crate) fn instructions(&self) -> usize {
        let c = self.convolution;
        let tiles: usize = self.phases.iter().map(|reading| self.tile_instructions(reading)).sum();
        let stored: usize = self.phases.iter().map(Reading::places).sum();
        // The result, where no tap meets the operand in some of its places.
        let cleared = if stored < self.result_plane { self.outer * self.result_plane } else { 0 };
        let tables: usize = self
            .phases
            .iter()
            .map(|reading| match reading.dense() {
                true => places(reading.phase.windows.size),
                false => 2 * places(reading.phase.windows.size),
            })
            .sum();
        let of_pixels = if self.has_places() { places(self.plane) } else { 0 };
        let images = c.images * (tiles + self.pixel_instructions() + zeros(cleared));
        CALL + images + self.weight_instructions() + tables + of_pixels
    }

    /// Of a phase's products of an image, rounded and stored.
    fn tile_instructions(&self, reading: &Reading) -> usize {
        let store =
            match reading.dense() || self.stores_between && self.neighbour(reading).is_some() {
                true => self.row_panels() * self.store,
                // Rows lane by lane.
                false => self.row_panels() * self.store + self.outer * 18 + 24,
            };
        let calls = self.row_panels().div_ceil(self.panels_together());
        let tiles = if self.together(reading) { TILES_BEHIND } else { TILES };
        let around = self.row_panels() * TILE + store + calls * tiles;
        let row = reading.stretches.row_instructions(self.level);
        // Of few rows three `smmla` in the place of four.
        let row = if self.apart.is_some() && self.outer <= SIX { row * 13 / 16 } else { row };
        let [rows, asks] = match self.met(reading) {
            Some(met) => met.rows_and_instructions(&reading.phase.windows),
            None => [reading.panels() * reading.stretches.outer.count, 0],
        };
        reading.panels() * around + rows * row * self.row_panels() + asks * calls
    }

    /// Of an image's operand, with its border.
    fn pixel_instructions(&self) -> usize {
        let [rows, columns] = self.plane;
        let copied = match self.pixel_bytes {
            1 => rows * (7 + 4 * columns.div_ceil(16)),
            _ if self.interleaved() => rows * (5 + 6 * columns.div_ceil(16)),
            // 16 pixels by 16 channels at a time.
            _ => 140 * (rows * columns).div_ceil(16) * self.inner.div_ceil(16),
        };
        let (pairs, plain) = match self.apart {
            Some(apart) if self.narrow() => {
                let [_, step] = self.pairs_read();
                let each = match (self.pixel_bytes, self.lane_bytes, apart, step) {
                    (1, 8, 1, 2) => 3,
                    _ => 9,
                };
                (each * self.pixels() / step, self.plain_at())
            }
            Some(_) => (self.pixels() * self.pixel_bytes / 3, self.plain_at()),
            None => (0, 0),
        };
        // Zeros before the first row, behind the last, and between them.
        let gap = (self.size[1] - columns) * self.pixel_bytes;
        let between = rows * (4 + 4 * gap.div_ceil(16));
        let inside = rows * self.size[1] * self.pixel_bytes;
        copied + pairs + between + zeros((self.layout.image_bytes - plain).saturating_sub(inside))
    }

    /// Of the weights' packing.
    fn weight_instructions(&self) -> usize {
        let c = self.convolution;
        let taps = c.tap_count();
        if !self.whole_blocks() {
            // Four bytes at a time where a tap's channels lie together, else byte by byte. Compilers unroll loops of up to 16
            // channels whose rows of taps are short, and know all places then.
            let unrolled = self.inner <= 16 && self.inner * c.taps[1] <= 48;
            let each = match (c.pass, taps) {
                (Pass::Forward, 1) => self.inner / 4 * 2 + self.inner % 4 * 9 / 4,
                _ if unrolled => self.inner * taps * 9 / 4,
                _ => self.inner * taps * 17 / 2,
            };
            return self.outer * each + zeros(self.row_panels() * self.layout.rows_bytes);
        }
        // What brings a tap's channels together, of so many of them.
        let apart = |channels: usize| match (channels, taps) {
            (16, 9) => 68,
            (16, 1) => 8,
            (_, 1) => 16,
            _ => 8 + taps * (5 + 4 * channels),
        };
        if c.pass == Pass::Error {
            let whole = self.outer / 16;
            let rest = match self.outer % 16 {
                0 => 0,
                channels => 11 + apart(channels),
            };
            let blocks = self.inner.div_ceil(16) * self.outer.div_ceil(16);
            return self.inner * (whole * (11 + apart(16)) + rest) + 58 * blocks * taps;
        }
        // Of a block's tap: its halves or its quarters.
        let put = if self.level == Level::I8mm { 4 } else { 7 };
        self.outer * (40 + self.inner / 16 * (9 + put * taps + apart(16)))
    }
}
