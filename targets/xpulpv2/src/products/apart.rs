//! Convolutions of each channel by itself whose taps lie apart or are many, and their gradients, of any size: words hold
//! four taps of a window each, `trainc_xpulp_depthwise_apart.h`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::depthwise::{Depthwise, MOST, Placing, TAPS};
use super::layout::CORES;

/// Taps of a word, and words at once.
const FOUR: usize = 4;
const AT_ONCE: usize = 3;

/// Cycles of a part, of a plane whose windows or weights are summed, of a word of it that holds taps, of a tap of its
/// weights, of a window by three words and by one, of a row of them and of a sum's magnitude.
const PART: u64 = 150;
const PLANE: u64 = 180;
const GRADIENT_PLANE: u64 = 60;
const WORD_OF_TAPS: u64 = 5;
const TAP: u64 = 12;
const WINDOW: u64 = 8;
const WINDOW_BY_ONE: u64 = 4;
const ROW: u64 = 5;
const MAGNITUDE: u64 = 3;
/// Of a block of nine taps, of a row of errors by those, and of a word of it.
const BLOCK: u64 = 40;
const TAPS_ROW: u64 = 6;
const TAPS_WORD: u64 = 15;

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Apart {
    gradient: bool,
    reverse: bool,
    images: usize,
    channels: usize,
    taps: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    /// Windows.
    rows: usize,
    columns: usize,
    /// Of a copy.
    row: usize,
    /// Rows of words.
    word_rows: usize,
    x: Placing,
    dy: Option<Placing>,
    x_copy: usize,
    other_copy: usize,
    sums: usize,
    widths: usize,
    copies: usize,
    bytes: usize,
}

impl Apart {
    /// How channels are convolved by themselves; `None` where taps lie side by side and are few.
    pub(crate) fn of(c: &Convolution) -> Option<Apart> {
        let dense = c.dilations == [1, 1] && c.taps.iter().zip(MOST).all(|(&n, most)| n <= most);
        if !c.is_depthwise() || c.outputs != 1 || c.padding != 0 || c.swapped || dense {
            return None;
        }
        let gradient = c.pass == Pass::Gradient;
        let error = c.pass == Pass::Error;
        let [rows, columns] = if error { [c.height, c.width] } else { [c.rows, c.columns] };
        // Windows of an error are of its elements with room between them.
        let strides = if error { [1, 1] } else { c.strides };
        let extent = if gradient { c.taps.map(|taps| taps.next_multiple_of(TAPS)) } else { c.taps };
        let reach = [0, 1].map(|axis| (extent[axis] - 1) * c.dilations[axis]);
        let area = [0, 1].map(|axis| ([rows, columns][axis] - 1) * strides[axis] + reach[axis] + 1);
        let row = area[1].next_multiple_of(4);
        let (x_size, y_size) = ([c.height, c.width], [c.rows, c.columns]);
        let pads = [c.pads[0], c.pads[1]];
        let x = if error {
            // Elsewhere errors may lie before the first window.
            if pads[0] > reach[0] || pads[1] > reach[1] {
                return None;
            }
            let before = [0, 1].map(|axis| reach[axis] - pads[axis]);
            Placing::new(0, y_size, before, c.strides, area, row)
        } else {
            Placing::new(0, x_size, pads, [1, 1], area, row)
        };
        // Zeros before a row of errors, and rows side by side.
        let dy = gradient.then(|| {
            let area = [c.rows, area[1]];
            Placing::new(1, y_size, [0, reach[1]], [1, c.strides[1]], area, row)
        });
        let mut apart = Apart {
            gradient,
            reverse: error,
            images: c.images,
            channels: c.groups,
            taps: c.taps,
            strides,
            dilations: c.dilations,
            rows,
            columns,
            row,
            word_rows: 0,
            x,
            dy,
            x_copy: 0,
            other_copy: 0,
            sums: 0,
            widths: 0,
            copies: 0,
            bytes: 0,
        };
        if gradient {
            apart.x_copy = area[0] * row;
            // Words of the last row are read as far behind it as taps reach.
            apart.other_copy = (c.rows * row + reach[1] + 4).next_multiple_of(4);
        } else {
            let [inner, _] = apart.inner_outer();
            // Taps of a word that are none are read behind the others.
            let more = if inner > FOUR { inner.next_multiple_of(FOUR) - inner } else { 0 };
            let [down, right] = if apart.is_line() { [0, more] } else { [more, 0] };
            let behind = (right + if apart.is_line() { FOUR } else { 0 }) * c.dilations[1] + 4;
            apart.word_rows = match apart.groups() {
                1 => rows,
                _ if apart.is_line() => rows,
                groups => (rows - 1) * strides[0] + (groups - 1) * FOUR * c.dilations[0] + 1,
            };
            let copy = (area[0] + down * c.dilations[0]) * row + behind;
            apart.x_copy = copy.next_multiple_of(4);
            apart.other_copy = apart.word_rows * row * 4;
        }
        let mut scratch = Scratch::default();
        let [rows, lanes] = apart.results();
        apart.sums = scratch.take(rows * lanes * 4);
        // Rounding reads a word behind the sums.
        apart.widths = scratch.take(apart.parts() * 4);
        apart.copies = scratch.take(apart.parts() * (apart.x_copy + apart.other_copy));
        apart.bytes = scratch.bytes();
        // Offsets are 32-bit.
        (apart.bytes < 1 << 30).then_some(apart)
    }

    /// Whether words hold taps of a row, for windows have but one.
    fn is_line(&self) -> bool {
        self.taps[0] == 1
    }

    /// Taps that words hold, and rows of such.
    fn inner_outer(&self) -> [usize; 2] {
        let [rows, columns] = self.taps;
        if self.is_line() { [columns, 1] } else { [rows, columns] }
    }

    /// Words that hold a window's inner taps.
    fn groups(&self) -> usize {
        self.inner_outer()[0].div_ceil(FOUR)
    }

    fn parts(&self) -> usize {
        let planes = if self.gradient { self.channels } else { self.images * self.channels };
        planes.min(CORES)
    }

    fn results(&self) -> [usize; 2] {
        let (planes, each) = if self.gradient {
            (self.channels, self.taps[0] * self.taps[1])
        } else {
            (self.images * self.channels, self.rows * self.columns)
        };
        let rows = if planes.is_multiple_of(CORES) { CORES } else { planes };
        [rows, planes / rows * each]
    }

    fn cycles(&self) -> u64 {
        let placed = self.x.cycles() + self.dy.map_or(0, |dy| dy.cycles());
        let windows = (self.rows * self.columns) as u64;
        let taps = self.taps[0] * self.taps[1];
        let plane = if self.gradient {
            let blocks = self.taps.iter().map(|taps| taps.div_ceil(TAPS) as u64).product::<u64>();
            let row = TAPS_ROW + TAPS_WORD * (self.row / 4) as u64;
            GRADIENT_PLANE + blocks * (BLOCK + self.rows as u64 * row)
        } else {
            let count = self.groups() * self.inner_outer()[1];
            let (three, one) = match count % AT_ONCE {
                1 => (count / AT_ONCE, 1),
                _ => (count.div_ceil(AT_ONCE), 0),
            };
            let words = (self.word_rows * self.row) as u64 * WORD_OF_TAPS;
            let window = three as u64 * WINDOW + one * WINDOW_BY_ONE;
            let rows = self.rows as u64 * ROW * (three as u64 + one);
            PLANE + words + taps as u64 * TAP + windows * (window + MAGNITUDE) + rows
        };
        let zeroed = if self.gradient { self.x_copy + self.other_copy } else { self.x_copy };
        let planes = (self.images * self.channels) as u64;
        self.parts() as u64 * (PART + zeroed as u64 * 5 / 16) + planes * (placed + plane)
    }

    fn emit(&self, out: &mut Text) {
        let [rows, lanes] = self.results();
        declare(out, "int32_t", "sums", self.sums, &format!("[{rows}][{lanes}]"));
        declare(out, "uint32_t", "widths", self.widths, "Of the sums, by parts.");
        let text = format!("{} of {} bytes.", self.parts(), self.x_copy + self.other_copy);
        declare(out, "int8_t", "copies", self.copies, &text);
        out.line("struct trainc_xpulp_depthwise_apart work;");
        self.x.emit(out, "work.x");
        if let Some(dy) = &self.dy {
            dy.emit(out, "work.dy");
        }
        let number = |n: usize| n.to_string();
        for (field, value) in [
            ("images", number(self.images)),
            ("channels", number(self.channels)),
            ("parts", number(self.parts())),
            ("copies", "copies".into()),
            ("x_copy", number(self.x_copy)),
            ("other_copy", number(self.other_copy)),
            ("row", number(self.row)),
            ("taps[0]", number(self.taps[0])),
            ("taps[1]", number(self.taps[1])),
            ("strides[0]", number(self.strides[0])),
            ("strides[1]", number(self.strides[1])),
            ("rows", number(self.rows)),
            ("columns", number(self.columns)),
            ("sums", "sums".into()),
            ("largest", "widths".into()),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        let name = if self.gradient {
            for axis in [0, 1] {
                out.line(format!("work.dilations[{axis}] = {};", self.dilations[axis]));
            }
            "weights"
        } else {
            out.line("work.weights = x1;");
            out.line(format!("work.reverse = {};", usize::from(self.reverse)));
            let [down, right] = [self.dilations[0] * self.row, self.dilations[1]];
            let [inner, outer] = self.inner_outer();
            let [step, weight] = if self.is_line() { [right, 1] } else { [down, self.taps[1]] };
            let every = self.groups() == 1 || self.is_line();
            let [word_step, window_step] =
                if every { [self.strides[0], 1] } else { [1, self.strides[0]] };
            for (field, value) in [
                ("inner", inner),
                ("inner_weight", weight),
                ("inner_step", step),
                ("outer", outer),
                ("outer_weight", 1),
                ("outer_step", right),
                ("four_taps", FOUR * step),
                ("word_rows", self.word_rows),
                ("word_step", word_step),
                ("window_step", window_step),
            ] {
                out.line(format!("work.{field} = {value};"));
            }
            "planes"
        };
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_depthwise_apart_{name});",
            self.parts()
        ));
    }
}

/// Convolutions of each channel by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ByChannel {
    /// Whose taps lie side by side.
    Close(Depthwise),
    /// All others.
    Apart(Apart),
}

impl ByChannel {
    /// `None` where neither serves.
    pub(crate) fn of(c: &Convolution) -> Option<ByChannel> {
        let apart = || Apart::of(c).map(ByChannel::Apart);
        Depthwise::of(c).map(ByChannel::Close).or_else(apart)
    }

    /// What has a copy of its own.
    pub(crate) fn parts(&self) -> usize {
        match self {
            ByChannel::Close(close) => close.parts(),
            ByChannel::Apart(apart) => apart.parts(),
        }
    }

    /// Rows of sums and lanes of each: they lie side by side, and rows are rounded by a core each.
    pub(crate) fn results(&self) -> [usize; 2] {
        match self {
            ByChannel::Close(close) => close.results(),
            ByChannel::Apart(apart) => apart.results(),
        }
    }

    /// An estimate of the cycles, without those of rounding.
    pub(crate) fn cycles(&self) -> u64 {
        match self {
            ByChannel::Close(close) => close.cycles(),
            ByChannel::Apart(apart) => apart.cycles(),
        }
    }

    /// Of the working memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            ByChannel::Close(close) => close.bytes,
            ByChannel::Apart(apart) => apart.bytes,
        }
    }

    /// The sums.
    pub(crate) fn emit(&self, out: &mut Text) {
        match self {
            ByChannel::Close(close) => close.emit(out),
            ByChannel::Apart(apart) => apart.emit(out),
        }
    }
}
