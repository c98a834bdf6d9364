//! Weight gradients by shifted copies: for each column of a window there is a copy of the operand whose rows hold what that
//! column meets of it, so that all elements of a tap lie side by side, some rows behind those of the tap above. Four
//! channels of a tap are the lanes of a tile; where channels are no whole tiles, taps below or beside each other are, in a list.
//! Of three rows of taps a line of a copy is loaded once for all three, unless code is to be small.
//! `trainc_xpulp_shifted.h`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::layout::{divided, even_pieces};
use super::zero;

/// Cycles of a row of a copy, of four bytes of it side by side and of four that lie apart.
const ROW: u64 = 12;
const WORD: u64 = 5;
const WORD_APART: u64 = 6;
/// Of a channel's copy, beside its rows.
const COPY: u64 = 80;
/// Of a column of tiles, of a tile beside its products, and of a word of it.
const COLUMN: u64 = 45;
const TILE: u64 = 60;
const PRODUCTS: u64 = 24;
/// Of a tile of two rows.
const TILE_OF_TWO: u64 = 50;
const PRODUCTS_OF_TWO: u64 = 14;
/// Of three rows of taps: of a pair of rows by two channels' column beside its products, of a word of a line, and of a line of it.
const PAIR_BELOW: u64 = 52;
const WORD_BELOW: u64 = 7;
const LINE_BELOW: u64 = 16;
/// Most portions of the operand.
const MOST_PORTIONS: usize = 4;

/// Lanes of a tile; `struct trainc_xpulp_lanes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lanes {
    from: usize,
    stride: usize,
    to: usize,
    apart: usize,
}

impl Lanes {
    /// How many lanes' words lie across two.
    fn unaligned(&self) -> usize {
        (0..4).filter(|lane| !(self.from + lane * self.stride).is_multiple_of(4)).count()
    }
}

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shifted {
    /// Of the operand.
    channels: usize,
    height: usize,
    width: usize,
    /// Of a window, and from one to the next.
    taps: [usize; 2],
    strides: [usize; 2],
    /// Above and before the operand.
    pads: [usize; 2],
    /// Of errors.
    rows: usize,
    columns: usize,
    /// Rows of weights, and in how many pieces cores share them, by tiles and where all three taps of a column are taken at a time.
    outputs: usize,
    pieces: usize,
    pieces_below: usize,
    /// In how many portions, of as many channels each, the operand is copied and multiplied.
    portions: usize,
    /// Where channels are no whole tiles.
    listed: Vec<Lanes>,
    /// In the working memory.
    copies: usize,
    words: usize,
}

impl Shifted {
    /// How a weight gradient goes by shifted copies; `None` where outputs are no whole tiles, a pair beside, or errors no words.
    pub(crate) fn of(c: &Convolution) -> Option<Shifted> {
        let tiles = c.channels.is_multiple_of(4) && c.outputs.is_multiple_of(4);
        let tiles = tiles && c.columns.is_multiple_of(4);
        let lists = c.strides == [1, 1] && c.outputs >= 4 && c.outputs.is_multiple_of(2);
        let suits = c.pass == Pass::Gradient
            && c.dilations == [1, 1]
            && (tiles || lists)
            && c.places().is_multiple_of(4)
            // A tile's first word is not added to anything.
            && c.places() >= 8;
        let mut shifted = suits.then_some(Shifted {
            channels: c.channels,
            height: c.height,
            width: c.width,
            taps: c.taps,
            strides: c.strides,
            pads: [c.pads[0], c.pads[1]],
            rows: c.rows,
            columns: c.columns,
            outputs: c.outputs,
            pieces: 1,
            pieces_below: 1,
            portions: 1,
            listed: Vec::new(),
            copies: 0,
            words: 0,
        })?;
        if !tiles {
            shifted.listed = shifted.list();
        }
        shifted.share();
        Some(shifted)
    }

    /// Chooses pieces for cores.
    fn share(&mut self) {
        self.pieces = even_pieces(self.tiles() / self.portions, self.outputs / 4);
        self.pieces_below = even_pieces(self.columns_below() / self.portions, self.outputs / 2);
    }

    /// Whether all three taps of a column of windows are taken at a time.
    fn is_below(&self) -> bool {
        self.listed.is_empty()
            && self.strides == [1, 1]
            && self.taps[0] == 3
            && self.rows >= 4
            && self.columns >= 8
    }

    /// Columns of windows of two channels each.
    fn columns_below(&self) -> usize {
        self.channels / 2 * self.taps[1]
    }

    /// The number where three taps are taken at a time, and elsewhere.
    fn below(&self, below: String, otherwise: String) -> String {
        if !self.is_below() || below == otherwise {
            return otherwise;
        }
        format!("TRAINC_XPULP_TAPS_BELOW({below}, {otherwise})")
    }

    /// The same as a whole and in portions, where channels are whole tiles: each takes less room than those before.
    pub(crate) fn in_portions(self) -> Vec<Shifted> {
        let fours = if self.listed.is_empty() { self.channels / 4 } else { 1 };
        let counts = (1..=MOST_PORTIONS).filter(|&portions| fours.is_multiple_of(portions));
        counts
            .map(|portions| {
                let mut shifted = Shifted { portions, ..self.clone() };
                shifted.share();
                shifted
            })
            .collect()
    }

    /// All lanes, where windows lie side by side: four taps below each other; of the rows of taps that are left four beside each
    /// other; and the taps in the corner of four channels, or of one.
    fn list(&self) -> Vec<Lanes> {
        let (copy, row, [rows, columns]) = (self.copy(), self.columns, self.taps);
        let taps = rows * columns;
        let (all_rows, all_columns) = (rows / 4 * 4, columns / 4 * 4);
        let at = |channel: usize, down: usize, right: usize, stride: usize, apart: usize| Lanes {
            from: (channel * columns + right) * copy + down * row,
            stride,
            to: channel * taps + down * columns + right,
            apart,
        };
        let mut listed = Vec::new();
        for channel in 0..self.channels {
            for right in 0..columns {
                let downs = (0..all_rows).step_by(4);
                listed.extend(downs.map(|down| at(channel, down, right, row, columns)));
            }
            for down in all_rows..rows {
                let rights = (0..all_columns).step_by(4);
                listed.extend(rights.map(|right| at(channel, down, right, copy, 1)));
            }
        }
        for (down, right) in
            (all_rows..rows).flat_map(|down| (all_columns..columns).map(move |right| (down, right)))
        {
            let all = self.channels / 4 * 4;
            let fours = (0..all).step_by(4);
            listed.extend(fours.map(|channel| at(channel, down, right, columns * copy, taps)));
            listed.extend((all..self.channels).map(|channel| at(channel, down, right, 0, 0)));
        }
        listed
    }

    /// Rows of a copy whose numbers have the same remainder by the stride, which lie side by side.
    fn class(&self) -> usize {
        self.rows - 1 + self.taps[0].div_ceil(self.strides[0])
    }

    /// Bytes of a copy.
    fn copy(&self) -> usize {
        (self.class() * self.strides[0] * self.columns).next_multiple_of(4)
    }

    /// Bytes of all copies of a portion.
    fn copied(&self) -> usize {
        self.channels / self.portions * self.taps[1] * self.copy()
    }

    /// Bytes of the errors.
    fn errors(&self) -> usize {
        self.outputs * self.rows * self.columns
    }

    /// Bytes of its working memory.
    pub(crate) fn room(&self) -> usize {
        self.copied() + self.errors()
    }

    /// Columns of tiles.
    fn tiles(&self) -> usize {
        if !self.listed.is_empty() {
            return self.listed.len();
        }
        self.channels / 4 * self.taps[0] * self.taps[1]
    }

    /// Widths of sums.
    pub(crate) fn widths(&self) -> usize {
        let below = if self.is_below() { self.columns_below() * self.pieces_below } else { 0 };
        below.max(self.tiles() * self.pieces)
    }

    /// An estimate of an image's cycles.
    pub(crate) fn cycles(&self) -> u64 {
        let [columns, tiles, rows] =
            [self.columns, self.tiles(), self.outputs / 4].map(|n| n as u64);
        let word = if self.strides[1] == 1 { WORD } else { WORD_APART };
        let row = ROW + columns.div_ceil(4) * word;
        let copied = (self.rows * self.strides[0]).min(self.height) as u64;
        let copies = (self.channels * self.taps[1]) as u64;
        let unaligned = self.listed.iter().map(Lanes::unaligned).sum::<usize>() as u64;
        let pair = if self.outputs.is_multiple_of(4) { 0 } else { 1 };
        let words = (self.rows * self.columns / 4) as u64;
        let errors = self.errors() as u64 / 2 + rows * COPY;
        let all = copies * (COPY + copied * row) + errors;
        if self.is_below() {
            let pairs = self.columns_below() as u64 * 2 * rows;
            let word = WORD_BELOW + LINE_BELOW * self.rows as u64;
            return all
                + self.columns_below() as u64 * COLUMN
                + pairs * (PAIR_BELOW + columns.div_ceil(4) * word);
        }
        all + tiles * (COLUMN + rows * (TILE + PRODUCTS * words))
            + pair * tiles * (TILE_OF_TWO + PRODUCTS_OF_TWO * words)
            + unaligned * (rows + pair) * words
    }

    /// Takes its working memory.
    pub(crate) fn lay_out(&mut self, scratch: &mut Scratch) {
        self.copies = scratch.take(self.copied());
        self.words = scratch.take(self.errors());
    }

    /// Declares its working memory.
    pub(crate) fn declarations(&self, out: &mut Text) {
        let text = format!(
            "[{}][{}][{}][{}][{}]",
            self.channels / self.portions,
            self.taps[1],
            self.strides[0],
            self.class(),
            self.columns
        );
        declare(out, "int8_t", "copies", self.copies, &text);
        let text = format!("[{}][{}][4]", self.outputs / 4, self.rows * self.columns);
        declare(out, "int8_t", "words", self.words, &text);
        if !self.listed.is_empty() {
            let text = |l: &Lanes| format!("{{ {}, {}, {}, {} }}", l.from, l.stride, l.to, l.apart);
            let listed: Vec<String> = self.listed.iter().map(text).collect();
            out.long(format!(
                "static const struct trainc_xpulp_lanes listed[] = {{ {} }};",
                listed.join(", ")
            ));
        }
    }

    /// Zeroes what stays zero.
    pub(crate) fn clear(&self, out: &mut Text) {
        out.line(zero("copies", self.copied()));
    }

    /// Multiplies the errors at `rows` by the operand at `from`.
    pub(crate) fn multiply(&self, out: &mut Text, [from, rows, sums, bits]: [&str; 4], adds: bool) {
        out.line("struct trainc_xpulp_shifted work;");
        let number = |n: usize| n.to_string();
        for (field, value) in [
            ("from", from.to_string()),
            ("channels", number(self.channels)),
            ("height", number(self.height)),
            ("width", number(self.width)),
            ("taps[0]", number(self.taps[0])),
            ("taps[1]", number(self.taps[1])),
            ("strides[0]", number(self.strides[0])),
            ("strides[1]", number(self.strides[1])),
            ("pads[0]", number(self.pads[0])),
            ("pads[1]", number(self.pads[1])),
            ("rows", number(self.rows)),
            ("columns", number(self.columns)),
            ("alike", number(self.class() * self.columns)),
            ("copy", number(self.copy())),
            ("copies", "copies".into()),
            ("errors", rows.to_string()),
            ("words", "words".into()),
            ("outputs", number(self.outputs)),
            ("sums", sums.to_string()),
            ("adds", number(usize::from(adds))),
            ("pieces", self.below(divided(self.pieces_below, 1), divided(self.pieces, 1))),
            ("largest", bits.to_string()),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        let lists = !self.listed.is_empty();
        if lists {
            let stride = (self.channels * self.taps[0] * self.taps[1]).next_multiple_of(4);
            out.line("work.listed = listed;");
            out.line(format!("work.sums_stride = {stride};"));
        }
        let share = |out: &mut Text, count: String, name: &str| {
            out.long(format!("TRAINC_PARALLEL_FOR(&work, {count}, trainc_xpulp_{name});"));
        };
        let words = number(self.outputs / 4 * self.rows * self.columns / 4);
        if self.is_below() {
            let lines = number(self.outputs / 2 * self.columns / 4);
            share(out, self.below(lines, words), "error_lines");
        } else {
            share(out, words, "error_words");
        }
        if !self.outputs.is_multiple_of(4) {
            share(out, number(self.rows * self.columns / 4), "error_pairs");
        }
        let [channels, tiles] = [self.channels, self.tiles()].map(|n| n / self.portions);
        if self.portions > 1 {
            out.for_("portion", self.portions);
        }
        share(out, number(channels * self.taps[1]), "shift_channels");
        let columns = self.columns_below() / self.portions;
        let parts = self.below(
            divided(columns * self.pieces_below, columns),
            divided(tiles * self.pieces, tiles),
        );
        let multiply = match (lists, self.is_below()) {
            (true, _) => "multiply_listed",
            (false, true) => "multiply_below",
            (false, false) => "multiply_shifted",
        };
        share(out, parts.clone(), multiply);
        if self.portions > 1 {
            let taps = self.taps[0] * self.taps[1];
            out.line(format!("work.from += {};", channels * self.height * self.width));
            out.line(format!("work.sums += {};", channels * taps));
            out.line(format!("work.largest += {parts};"));
            out.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each element that a window meets in the padded operand lies in its column's copy, and where the tap's vector has it.
    #[test]
    fn taps_meet_the_operand_in_copies() {
        for (size, taps, stride, pad) in
            [(8, 3, 1, 1), (8, 3, 2, 1), (9, 3, 2, 1), (8, 1, 2, 0), (12, 5, 3, 2), (8, 2, 4, 0)]
        {
            let rows = (size + 2 * pad - taps) / stride + 1;
            let shifted = Shifted {
                channels: 4,
                height: size,
                width: size,
                taps: [taps, taps],
                strides: [stride, stride],
                pads: [pad, pad],
                rows,
                columns: rows,
                outputs: 4,
                pieces: 1,
                pieces_below: 1,
                portions: 1,
                listed: Vec::new(),
                copies: 0,
                words: 0,
            };
            for tap in 0..taps {
                // As `multiply_shifted` places it.
                let vector = tap % stride * shifted.class() + tap / stride;
                for row in 0..rows {
                    let padded = row * stride + tap;
                    let place = padded % stride * shifted.class() + padded / stride;
                    assert_eq!(vector + row, place, "{size} {taps} {stride} {pad}");
                    assert!(padded / stride < shifted.class());
                }
            }
        }
    }

    /// Each tap of each channel has its sum once, and its elements where its lane begins.
    #[test]
    fn lists_have_each_tap_once() {
        for (channels, taps) in [(1, [5, 5]), (6, [5, 5]), (3, [3, 3]), (5, [4, 1]), (2, [1, 7])] {
            let mut shifted = Shifted {
                channels,
                height: 14,
                width: 14,
                taps,
                strides: [1, 1],
                pads: [0, 0],
                rows: 10,
                columns: 10,
                outputs: 6,
                pieces: 1,
                pieces_below: 1,
                portions: 1,
                listed: Vec::new(),
                copies: 0,
                words: 0,
            };
            shifted.listed = shifted.list();
            let mut places = vec![None; channels * taps[0] * taps[1]];
            for lanes in &shifted.listed {
                let count = if lanes.apart == 0 { 1 } else { 4 };
                for lane in 0..count {
                    let place = &mut places[lanes.to + lane * lanes.apart];
                    assert_eq!(place.replace(lanes.from + lane * lanes.stride), None);
                }
            }
            for (place, from) in places.into_iter().enumerate() {
                let (channel, tap) = (place / (taps[0] * taps[1]), place % (taps[0] * taps[1]));
                let (down, right) = (tap / taps[1], tap % taps[1]);
                let copy = (channel * taps[1] + right) * shifted.copy();
                assert_eq!(from, Some(copy + down * shifted.columns), "{channels} {taps:?}");
            }
        }
    }
}
