//! Sums over windows by strips: a line of results has a strip of its operand, in which a column holds all channels and all
//! rows of a window, so that each window lies there whole, some columns behind the one before. Where channels are whole
//! words, each row of the operand is turned into columns of all channels but once, and a window is a segment of each
//! row; those outside of the operand are skipped. `trainc_xpulp_strips.h`.

use std::collections::BTreeMap;

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::layout::{CORES, Taps, divided};
use super::zero;

/// Results of a line at once: the last ones of a line overlap others.
const LANES: usize = 4;

/// Cycles of a strip's row of four bytes a column, and of four columns of it.
const ROW: u64 = 70;
const TURN: u64 = 22;
/// Cycles of a line, of four columns of it, of a tile beside its products, of a segment and of a word of it.
const LINE: u64 = 100;
const COLUMNS: u64 = 40;
const TILE: u64 = 60;
const SEGMENT: u64 = 4;
const WORD: u64 = 24;
const WORD_JOINED: u64 = 22;
/// Most bytes of all images' rows that are turned before any is multiplied.
const JOINED: usize = 1 << 14;
/// Most pieces that a core passes by on its way to the next.
const STEPS: usize = 32;
/// Fewest words of a segment: the first one's products are not added to anything.
const SEGMENT_WORDS: usize = 2;
/// Cycles of a weight that is packed: four at a time, or alone.
const WEIGHT: u64 = 2;
const SINGLE: u64 = 11;

/// A product by strips, of each image and group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Strips {
    /// Those whose lines follow each other.
    images: usize,
    /// Of the operand: channels, rows, columns.
    channels: usize,
    height: usize,
    width: usize,
    /// Rows and columns of a window.
    taps: [usize; 2],
    /// Between a window's rows.
    dilation: usize,
    /// From a window to the next.
    steps: [usize; 2],
    /// Rows above the operand, or less than none, and columns before it.
    top: isize,
    left: usize,
    /// Columns of the operand that a strip holds.
    used: usize,
    /// Results.
    lines: usize,
    columns: usize,
    rows: usize,
    /// The weights' elements from a row to the next and from a channel to the next.
    row_step: usize,
    channel_step: usize,
    /// For each tap of a channel of weights the bytes of a vector before its first channel, if it has a place.
    places: Vec<Option<usize>>,
    /// Whether rows of the operand are turned once, in place of strips for each line.
    turns_rows: bool,
    /// Whether a tile's windows share the columns that they meet: of three taps each.
    joins: bool,
    /// Whether columns of strips are no whole words, and lie side by side: windows have less words then.
    is_close: bool,
    /// Tiles of rows and columns of a piece of a line, where lines are divided among cores, and from a piece to the next that
    /// a core takes.
    piece: [usize; 2],
    step: usize,
    /// What it shares with other phases.
    shared: Shared,
    /// In the working memory.
    packed_rows: usize,
    unused: usize,
    strips: usize,
    zeros: usize,
}

/// What phases of one product share: vectors of weights that hold those of each, and the turned rows of the operand.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Shared {
    /// Whether a phase before has packed the weights, and turned the rows of all images.
    packed: bool,
    turned: bool,
    /// Bytes of a vector before the own ones, and behind them.
    before: usize,
    behind: usize,
    /// Bytes of a turned row, at least.
    row: usize,
}

/// Whether multiples of a number, by a count, come to all that are below the count.
fn has_no_factor_in_common(mut number: usize, mut count: usize) -> bool {
    while number > 0 {
        (number, count) = (count % number, number);
    }
    count == 1
}

/// What declares the structures.
const TAPS: &str = "struct trainc_xpulp_taps taps;";
const STRIPS: &str = "struct trainc_xpulp_strips lines;";

/// Fields of structures that products one after the other share.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Whether they are declared around all of the products.
    shared: bool,
    numbers: BTreeMap<String, String>,
}

impl Known {
    /// Declares the structures for products that follow.
    pub(crate) fn shared(out: &mut Text) -> Known {
        out.line(TAPS);
        out.line(STRIPS);
        Known { shared: true, ..Known::default() }
    }

    fn declare(&self, out: &mut Text, structure: &str) {
        if !self.shared {
            out.line(structure);
        }
    }

    /// Sets a field, unless it is known to hold that number.
    fn set(&mut self, out: &mut Text, structure: &str, field: &str, value: &str) {
        let place = format!("{structure}.{field}");
        if self.shared && value.parse::<i64>().is_ok() {
            if self.numbers.get(&place).is_some_and(|known| known == value) {
                return;
            }
            self.numbers.insert(place.clone(), value.to_string());
        } else {
            self.numbers.remove(&place);
        }
        out.line(format!("{place} = {value};"));
    }
}

impl Strips {
    /// How a sum over windows goes by strips; `None` where windows do not lie side by side, or are too few.
    pub(crate) fn of(c: &Convolution, weights: Taps) -> Option<Strips> {
        Strips::planned(c, weights, false)
    }

    /// As [`Strips::of`], by rows that are turned once, whatever room they take.
    pub(crate) fn by_rows(c: &Convolution, weights: Taps) -> Option<Strips> {
        Strips::planned(c, weights, true).filter(|strips| strips.turns_rows)
    }

    fn planned(c: &Convolution, weights: Taps, by_rows: bool) -> Option<Strips> {
        let forward = c.pass == Pass::Forward;
        if c.pass == Pass::Gradient || c.dilations[1] != 1 || !(forward || c.strides == [1, 1]) {
            return None;
        }
        let y = [c.outputs, c.rows, c.columns];
        let x = [c.channels, c.height, c.width];
        let ([channels, height, width], [rows, lines, columns]) =
            if forward { (x, y) } else { (y, x) };
        // How far windows reach beyond their first element, and how much lies before the operand.
        let reach = [0, 1].map(|axis| (c.taps[axis] - 1) * c.dilations[axis]);
        let before = [0, 1].map(|axis| match forward {
            true => c.pads[axis] as isize,
            false => reach[axis] as isize - c.pads[axis] as isize,
        });
        let left = usize::try_from(before[1]).ok()?;
        let steps = if forward { c.strides } else { [1, 1] };
        let all = (columns.checked_sub(1)? * steps[1]) + c.taps[1];
        let used = width.min(all.checked_sub(left)?);
        if columns < LANES || used < LANES {
            return None;
        }
        // Weights of an error are in reverse.
        let mut places = vec![None; weights.channel];
        for down in 0..weights.counts[0] {
            for right in 0..weights.counts[1] {
                let tap = weights.first + down * weights.strides[0] + right * weights.strides[1];
                let place = match forward {
                    true => [down, right],
                    false => [weights.counts[0] - 1 - down, weights.counts[1] - 1 - right],
                };
                *places.get_mut(tap)? = Some(place);
            }
        }
        let (row_step, channel_step) = if forward {
            (c.channels * weights.channel, weights.channel)
        } else {
            (weights.channel, c.channels * weights.channel)
        };
        let mut strips = Strips {
            images: if c.groups == 1 { c.images } else { 1 },
            channels,
            height,
            width,
            taps: c.taps,
            dilation: c.dilations[0],
            steps,
            top: before[0],
            left,
            used,
            lines,
            columns,
            rows,
            row_step,
            channel_step,
            places: Vec::new(),
            turns_rows: false,
            joins: false,
            is_close: false,
            piece: [0; 2],
            step: 1,
            shared: Shared::default(),
            packed_rows: 0,
            unused: 0,
            strips: 0,
            zeros: 0,
        };
        let by_lines = strips.room();
        let images = strips.images;
        strips.turns_rows = channels.is_multiple_of(4);
        if strips.turns_rows {
            strips.images = 1;
            // Of large operands, strips take less room. Windows that share rows are worth a quarter more of all.
            let sums = 4 * c.images * c.groups * strips.sum_rows() * strips.sums_stride();
            let rows = strips.room();
            let fits = rows <= by_lines
                || (c.taps[0] > steps[0] && 4 * (rows + sums) <= 5 * (by_lines + sums));
            strips.turns_rows = strips.segment() >= SEGMENT_WORDS && (by_rows || fits);
        }
        if !strips.turns_rows || images * strips.room() <= JOINED {
            strips.images = images;
        }
        // Of fewer lines, what is no strips has more cores at work.
        if !strips.turns_rows && channels * c.taps[0] >= 4 && strips.all_lines() >= CORES {
            let close = Strips { is_close: true, ..strips.clone() };
            if close.words_of_tiles() < strips.words_of_tiles() {
                strips = close;
            }
        }
        // Tiles are whole, and of two words at least, as a first one's products are not added to anything; taps that have
        // no place would take more room, and weights of few taps are packed one by one, which takes longer where they lie apart.
        strips.joins = strips.turns_rows
            && !by_rows
            && (c.taps[1], strips.steps[1]) == (3, 1)
            && strips.is_whole()
            && !places.contains(&None)
            && places.len() >= 4
            && channels >= 4 * SEGMENT_WORDS
            && !strips.trims();
        strips.places = places
            .iter()
            .map(|place| {
                let [down, right] = (*place)?;
                Some(match strips.turns_rows {
                    true if strips.joins => down * strips.taps[1] * channels + right * 4,
                    true => (down * strips.taps[1] + right) * channels,
                    false => right * strips.column() + down * channels,
                })
            })
            .collect();
        (strips.piece, strips.step) = strips.best_piece();
        // Places of weights are 16-bit.
        (strips.vector() < 1 << 15 && strips.segment() >= SEGMENT_WORDS).then_some(strips)
    }

    /// Lets phases of a product share what they can; whether these are some.
    pub(crate) fn share(phases: &mut [&mut Strips], images: usize) -> bool {
        let key = |phase: &Strips| {
            let operand =
                [phase.images, phase.channels, phase.height, phase.width, phase.left, phase.used];
            (phase.turns_rows && !matches!(phase.rows % 4, 1 | 2)).then_some(operand)
        };
        let vector: usize = phases.iter().map(|phase| phase.vector()).sum();
        let [first, others @ ..] = phases else { return false };
        let alike = key(first).is_some() && others.iter().all(|other| key(other) == key(first));
        if !alike || others.is_empty() || vector >= 1 << 15 {
            return false;
        }
        let row = others.iter().map(|other| other.bytes()).fold(first.bytes(), usize::max);
        let mut before = first.vector();
        first.shared = Shared { behind: vector - before, row, ..Shared::default() };
        for other in others {
            let own = other.vector();
            let behind = vector - before - own;
            other.shared =
                Shared { packed: true, turned: first.images == images, before, behind, row };
            for (place, &own) in first.places.iter_mut().zip(&other.places) {
                *place = place.or(own.map(|own| before + own));
            }
            before += own;
        }
        true
    }

    /// Whether tiles of rows and columns are whole, but for a last one less of either.
    fn is_whole(&self) -> bool {
        matches!((self.rows % 4, self.columns % 4), (0 | 3, 0 | 3))
    }

    /// Bytes of a column: of one row, or of all of a window's.
    fn column(&self) -> usize {
        let rows = if self.turns_rows { 1 } else { self.taps[0] };
        let bytes = rows * self.channels;
        if self.is_close { bytes } else { bytes.next_multiple_of(4) }
    }

    /// Of four lanes' words those that lie across two.
    fn unaligned(&self) -> u64 {
        (0..LANES).filter(|lane| !(lane * self.steps[1] * self.column()).is_multiple_of(4)).count()
            as u64
    }

    /// Cycles of a window's words, of four columns and all rows.
    fn words_of_tiles(&self) -> u64 {
        let across = self.unaligned();
        let last = [0, 9 + across, 14 + across, WORD + across][self.rows % 4];
        ((self.rows / 4) as u64 * (WORD + across) + last) * self.segment() as u64
    }

    /// Parts of a window that lie apart.
    fn segments(&self) -> usize {
        if self.turns_rows { self.taps[0] } else { 1 }
    }

    /// Words of a segment.
    fn segment(&self) -> usize {
        (self.taps[1] * self.column()).div_ceil(4)
    }

    /// Segments of a line's windows that lie in the operand.
    fn segments_of(&self, line: usize) -> usize {
        if !self.turns_rows {
            return 1;
        }
        let top = (line * self.steps[0]) as isize - self.top;
        let row = |tap: usize| top + (tap * self.dilation) as isize;
        (0..self.taps[0]).filter(|&tap| (0..self.height as isize).contains(&row(tap))).count()
    }

    /// Bytes of a vector of weights.
    fn all_vectors(&self) -> usize {
        self.shared.before + self.vector() + self.shared.behind
    }

    /// Bytes of a window.
    fn vector(&self) -> usize {
        self.segments() * self.segment() * 4
    }

    /// Strips, or rows that are turned.
    fn strip_count(&self) -> usize {
        if self.turns_rows { self.images * self.height } else { self.parts() }
    }

    /// Bytes of all of them.
    fn room(&self) -> usize {
        self.strip_count() * self.bytes()
    }

    /// Bytes of a strip.
    fn bytes(&self) -> usize {
        let windows = (self.columns - 1) * self.steps[1] + self.taps[1];
        // Where columns lie side by side, a window's last word may reach beyond it.
        let beyond = if self.is_close { 3 } else { 0 };
        let bytes = windows.max(self.left + self.used) * self.column() + beyond;
        bytes.next_multiple_of(4).max(self.shared.row)
    }

    /// Widths of sums.
    pub(crate) fn widths(&self) -> usize {
        if self.turns_rows { self.all_lines() * self.pieces_of(self.piece) } else { self.parts() }
    }

    /// Whether it is the product of all images, and not of one.
    pub(crate) fn joins_images(&self) -> bool {
        self.images > 1
    }

    /// Lines of all images.
    fn all_lines(&self) -> usize {
        self.images * self.lines
    }

    /// Lines of all images in a row.
    fn parts(&self) -> usize {
        self.all_lines().min(CORES)
    }

    fn turns(&self) -> bool {
        self.channels.is_multiple_of(4) && self.places.len() >= 4
    }

    /// An estimate of the cycles: of the weights, and of an image.
    pub(crate) fn cycles(&self) -> (u64, u64) {
        let weights = (self.rows * self.channels * self.places.len()) as u64;
        let weights = match (self.shared.packed, self.turns()) {
            (true, _) => 0,
            (false, true) => weights * WEIGHT,
            (false, false) => weights * SINGLE,
        };
        let columns = self.used.div_ceil(4) as u64;
        let fill = self.column().div_ceil(4) as u64 * (ROW + TURN * columns);
        let fills = match (self.shared.turned, self.turns_rows) {
            (true, _) => 0,
            (false, true) => self.height as u64,
            (false, false) => self.lines as u64,
        };
        let lines =
            (0..self.lines).map(|line| self.line(line, 0, self.columns, self.rows)).sum::<u64>();
        (weights, fills * fill + lines)
    }

    /// Whether columns of windows that meet no column of the operand are left out: where that saves a tile a tap. Each window
    /// meets some.
    fn trims(&self) -> bool {
        let meets = self.left < self.taps[1] && self.columns < self.left + self.used + 1;
        self.turns_rows
            && self.steps[1] == 1
            && self.column() >= 4 * SEGMENT_WORDS
            && meets
            && (0..self.columns)
                .step_by(LANES)
                .any(|column| self.taps_from(column, LANES) < self.taps[1])
    }

    /// Columns of windows side by side, from a column of results on, that meet the operand.
    fn taps_from(&self, column: usize, lanes: usize) -> usize {
        let behind = self.taps[1].min((self.left + self.used).saturating_sub(column));
        behind.saturating_sub(self.left.saturating_sub(column + lanes - 1))
    }

    /// An estimate of the cycles of a line, or of so many columns, from one on, and rows of it.
    fn line(&self, line: usize, from: usize, columns: usize, rows: usize) -> u64 {
        let segments = self.segments_of(line) as u64;
        let word = if self.joins { WORD_JOINED } else { WORD + self.unaligned() };
        let trims = self.trims();
        // Half a tile has about half the products.
        let halved = |rest: usize, cycles: u64| if rest <= 2 { cycles * 7 / 12 } else { cycles };
        let tiles = (from..from + columns).step_by(LANES).map(|column| {
            let lanes = (from + columns - column).min(LANES);
            let words = match trims {
                true => self.taps_from(column, lanes) * self.column() / 4,
                false => self.segment(),
            };
            let tile = TILE + segments * (SEGMENT + word * words as u64);
            let last = if rows.is_multiple_of(4) { 0 } else { halved(rows % 4, tile) };
            (rows / 4) as u64 * halved(lanes, tile) + last + COLUMNS
        });
        tiles.sum::<u64>() + LINE
    }

    /// Tiles of rows, and columns in whole fours: all that there are.
    fn whole_piece(&self) -> [usize; 2] {
        [self.rows.div_ceil(4), self.columns.next_multiple_of(4)]
    }

    /// How many pieces of that size a line has.
    fn pieces_of(&self, [tiles, columns]: [usize; 2]) -> usize {
        let [all_tiles, all_columns] = self.whole_piece();
        all_tiles.div_ceil(tiles) * all_columns.div_ceil(columns)
    }

    /// The cycles of all lines' pieces, one line's first pieces before the second ones.
    fn cycles_of(&self, [tiles, columns]: [usize; 2]) -> Vec<u64> {
        let [all_tiles, all_columns] = self.whole_piece();
        let rest = |all: usize, from: usize, some: usize| some.min(all - from);
        let rows = (0..all_tiles).step_by(tiles).map(|tile| rest(self.rows, 4 * tile, 4 * tiles));
        let pieces = rows.flat_map(|rows| {
            let columns = (0..all_columns).step_by(columns);
            columns.map(move |column| (rows, column))
        });
        pieces
            .flat_map(|(rows, column)| {
                let columns = rest(self.columns, column, columns);
                (0..self.all_lines())
                    .map(move |line| self.line(line % self.lines, column, columns, rows))
            })
            .collect()
    }

    /// From a piece to the next that a core takes such that the core that takes longest does so the shortest, and its cycles.
    fn best_step(&self, piece: [usize; 2]) -> (usize, u64) {
        let cycles = self.cycles_of(piece);
        let count = cycles.len();
        let longest = |step: usize| {
            let part = |core: usize| core * count / CORES..(core + 1) * count / CORES;
            let sum = |core| part(core).map(|n| cycles[n * step % count]).sum::<u64>();
            (0..CORES).map(sum).max().unwrap_or(0)
        };
        let (mut best, mut least) = (1, longest(1));
        for step in (2..count.min(STEPS)).filter(|&step| has_no_factor_in_common(step, count)) {
            let longest = longest(step);
            if longest * 100 < least * 99 {
                (best, least) = (step, longest);
            }
        }
        (best, least)
    }

    /// The pieces, and steps between them, by which cores have the least to wait for one another: the largest, unless smaller
    /// ones save some hundredths.
    fn best_piece(&self) -> ([usize; 2], usize) {
        let whole = self.whole_piece();
        if !self.turns_rows {
            // Halves, where cores share lines unevenly: one in the middle of a line fills its strip once more.
            let (lines, half) = (self.all_lines(), (self.columns / 2).next_multiple_of(4));
            let halves = (2 * lines).div_ceil(CORES);
            let slowest = halves.div_ceil(2) * half + halves / 2 * (self.columns - half);
            let uneven = 20 * slowest < 19 * lines.div_ceil(CORES) * self.columns;
            let piece = if self.columns >= 16 && uneven { [whole[0], half] } else { whole };
            return (piece, 1);
        }
        let (step, mut least) = self.best_step(whole);
        let mut best = (whole, step);
        for pieces in [[2, 1], [1, 2], [4, 1], [2, 2], [1, 3], [1, 4]] {
            let [tiles, columns] = [0, 1].map(|axis: usize| whole[axis].div_ceil(pieces[axis]));
            let piece = [tiles, columns.next_multiple_of(4)];
            let (step, longest) = self.best_step(piece);
            if longest * 100 < least * 97 {
                (best, least) = ((piece, step), longest);
            }
        }
        best
    }

    /// Takes its working memory, with weights of some groups.
    pub(crate) fn lay_out(&mut self, scratch: &mut Scratch, groups: usize) {
        let tiles = self.rows.div_ceil(4);
        self.packed_rows = scratch.take(groups * tiles * 4 * self.all_vectors());
        self.strips = scratch.take(self.room());
        if self.places.contains(&None) && !self.shared.packed {
            self.unused = scratch.take(tiles * 4 * self.channels);
        }
        if !self.turns_rows {
            self.zeros = scratch.take(self.width.next_multiple_of(4));
        }
    }

    /// Declares its working memory and packs nothing yet.
    pub(crate) fn declarations(&self, out: &mut Text) {
        let text =
            format!("{} vectors of {} bytes.", self.rows.div_ceil(4) * 4, self.all_vectors());
        declare(out, "int8_t", "rows", self.packed_rows, &text);
        let text = format!("{} of {} bytes.", self.strip_count(), self.bytes());
        declare(out, "int8_t", "strips", self.strips, &text);
        if !self.turns_rows {
            declare(out, "int8_t", "zeros", self.zeros, "A row of the operand's.");
        }
        if self.shared.packed {
            return;
        }
        let number = |place: &Option<usize>| place.map_or("-1".into(), |place| place.to_string());
        let list: Vec<String> = self.places.iter().map(number).collect();
        out.long(format!("static const int16_t places[] = {{ {} }};", list.join(", ")));
    }

    /// Zeroes what stays zero.
    pub(crate) fn clear(&self, out: &mut Text, groups: usize) {
        if self.shared.packed {
            return;
        }
        let bytes = groups * self.rows_bytes();
        if self.vector() != self.taps[1] * self.taps[0] * self.channels || self.rows % 4 == 3 {
            out.line(zero("rows", bytes));
        }
        if !self.turns_rows {
            out.line(format!("trainc_xpulp_zero(zeros, {});", self.width));
        } else if self.bytes() != self.width * self.column() {
            out.line(zero("strips", self.room()));
        }
    }

    /// Packs the weights at `from` to `to`.
    pub(crate) fn pack(&self, out: &mut Text, known: &mut Known, from: &str, to: &str) {
        if self.shared.packed {
            return;
        }
        known.declare(out, TAPS);
        let unused = if self.places.contains(&None) {
            format!("(int8_t *)(void *)(scratch + {})", self.unused)
        } else {
            to.to_string()
        };
        for (field, value) in [
            ("from", from.to_string()),
            ("count", self.rows.to_string()),
            ("row_step", self.row_step.to_string()),
            ("channels", self.channels.to_string()),
            ("channel_step", self.channel_step.to_string()),
            ("taps", self.places.len().to_string()),
            ("places", "places".into()),
            ("every", if self.joins { self.taps[1].to_string() } else { "1".into() }),
            ("to", to.to_string()),
            ("bytes", self.all_vectors().to_string()),
            ("unused", unused),
        ] {
            known.set(out, "taps", field, &value);
        }
        out.long(format!("TRAINC_PARALLEL_FOR(&taps, {}, trainc_xpulp_pack_taps);", self.rows));
    }

    /// Multiplies the operand at `from` by the weights at `rows`.
    pub(crate) fn multiply(
        &self,
        out: &mut Text,
        known: &mut Known,
        [from, rows, sums, bits]: [&str; 4],
    ) {
        known.declare(out, STRIPS);
        let jump = match self.turns_rows {
            // From behind the words of the first column, or of all.
            true => {
                let words = self.segment() / if self.joins { self.taps[1] } else { 1 };
                (self.dilation * self.bytes()) as isize - (4 * words) as isize
            }
            false => 0,
        };
        let number = |n: usize| n.to_string();
        let rows = match self.shared.before {
            0 => rows.to_string(),
            before => format!("{rows} + {}", 4 * before),
        };
        for (field, value) in [
            ("from", from.to_string()),
            ("images", number(self.images)),
            ("channels", number(self.channels)),
            ("height", number(self.height)),
            ("width", number(self.width)),
            ("zeros", if self.turns_rows { "0" } else { "zeros" }.into()),
            ("taps", number(self.taps[0])),
            ("dilation", number(self.dilation)),
            ("down", number(self.steps[0])),
            ("top", self.top.to_string()),
            ("left", number(self.left)),
            ("used", number(self.used)),
            ("column", number(self.column())),
            ("bytes", number(self.bytes())),
            ("right", number(self.steps[1] * self.column())),
            ("words", number(self.all_vectors() / 4)),
            ("segment", number(self.segment())),
            ("jump", jump.to_string()),
            ("strips", "strips".into()),
            ("rows", rows),
            ("row_count", number(self.rows)),
            ("lines", number(self.lines)),
            ("columns", number(self.columns)),
            ("parts", number(self.parts())),
            ("piece_tiles", divided(self.piece[0], self.whole_piece()[0])),
            ("piece_columns", divided(self.piece[1], self.whole_piece()[1])),
            ("sums", sums.to_string()),
            ("sums_stride", number(self.sums_stride())),
            ("image_sums", number(self.sum_rows() * self.sums_stride())),
            ("largest", bits.to_string()),
        ] {
            known.set(out, "lines", field, &value);
        }
        if self.turns_rows {
            known.set(out, "lines", "pieces", &divided(self.widths(), self.all_lines()));
            known.set(out, "lines", "step", &divided(self.step, 1));
        }
        if self.trims() {
            known.set(out, "lines", "across", &number(self.taps[1]));
        }
        let mut share = |count: String, name: &str| {
            out.long(format!("TRAINC_PARALLEL_FOR(&lines, {count}, trainc_xpulp_{name});"));
        };
        if self.turns_rows {
            if !self.shared.turned {
                share(number(self.strip_count()), "turn_rows");
            }
            let multiply = match (self.joins, self.trims()) {
                (true, _) => "multiply_joined",
                (false, true) => "multiply_trimmed",
                (false, false) if self.is_whole() => "multiply_whole_lines",
                (false, false) => "multiply_lines",
            };
            share(divided(self.widths(), self.all_lines()), multiply);
        } else {
            let whole = self.is_whole();
            let multiply = if whole { "multiply_whole_strips" } else { "multiply_strips" };
            share(number(self.parts()), multiply);
        }
    }

    /// Sums of a row.
    fn sums_stride(&self) -> usize {
        (self.lines * self.columns).next_multiple_of(4)
    }

    /// As [`super::layout::Layout::sum_rows`] has them.
    fn sum_rows(&self) -> usize {
        self.rows + usize::from(self.rows % 4 == 3)
    }

    /// Bytes of a group's packed weights.
    pub(crate) fn rows_bytes(&self) -> usize {
        self.rows.div_ceil(4) * 4 * self.all_vectors()
    }
}
