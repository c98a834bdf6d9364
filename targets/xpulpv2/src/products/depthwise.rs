//! Convolutions of each channel by itself, and their gradients: a plane has a copy with room around and between its elements,
//! in which a word holds a row of a window, `trainc_xpulp_depthwise.h`, or two, `trainc_xpulp_depthwise_wide.h`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::layout::CORES;

/// Rows and columns of a window that words hold.
pub(super) const TAPS: usize = 3;
/// Rows and columns of a window at most.
pub(super) const MOST: [usize; 2] = [8, 5];
/// Columns of windows at once: the last ones of a row overlap others.
const LANES: usize = 4;

/// Cycles of a part, of a plane beside its rows, of one that is copied, of a row of that, of a word of it and of an element
/// that lies apart.
const PART: u64 = 150;
const PLANE: u64 = 50;
const COPY: u64 = 20;
const ROW: u64 = 5;
const ROW_APART: u64 = 22;
const WORD: u64 = 3;
const APART: u64 = 3;
/// Of four columns of windows, of each of their pairs of rows, and of a row of windows that lie apart.
const COLUMNS: u64 = 20;
const PAIR: u64 = 62;
const LINE_APART: u64 = 45;
/// Of a plane's weights, of four columns of windows by a row of them, of a row of windows side by side and apart, and of a sum's
/// magnitude.
const WIDE_PLANE: u64 = 120;
const WIDE_COLUMNS: u64 = 30;
const WIDE_LINE: u64 = 20;
const WIDE_LINE_APART: u64 = 28;
const MAGNITUDE: u64 = 3;
/// Of a row of errors by nine taps, and of a word of it.
const TAPS_ROW: u64 = 6;
const TAPS_WORD: u64 = 17;

/// Elements of planes and where they go in a copy; `struct trainc_xpulp_placing`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placing {
    operand: usize,
    height: usize,
    width: usize,
    rows: usize,
    columns: usize,
    before: usize,
    down: usize,
    right: usize,
}

impl Placing {
    /// Of a copy's rows of so many bytes as much as lies in the area `[rows, columns]`.
    pub(super) fn new(
        operand: usize,
        [height, width]: [usize; 2],
        [top, left]: [usize; 2],
        steps: [usize; 2],
        area: [usize; 2],
        row: usize,
    ) -> Placing {
        let [rows, columns] = [(height, top, 0), (width, left, 1)].map(|(size, before, axis)| {
            let room: usize = area[axis].saturating_sub(before);
            size.min(room.div_ceil(steps[axis]))
        });
        Placing {
            operand,
            height,
            width,
            rows,
            columns,
            before: top * row + left,
            down: steps[0] * row,
            right: steps[1],
        }
    }

    /// An estimate of the cycles of a plane.
    pub(super) fn cycles(&self) -> u64 {
        let columns = self.columns as u64;
        let row = match self.right {
            1 if self.columns.is_multiple_of(8) || self.columns < 16 => {
                ROW + columns / 4 * WORD + columns % 4 * APART
            }
            1 => ROW_APART + columns / 4 * WORD + columns % 4 * APART,
            _ => ROW_APART + columns * APART,
        };
        COPY + self.rows as u64 * row
    }

    pub(super) fn emit(&self, out: &mut Text, name: &str) {
        out.line(format!("{name}.from = x{};", self.operand));
        for (field, value) in [
            ("plane", self.height * self.width),
            ("width", self.width),
            ("rows", self.rows),
            ("columns", self.columns),
            ("before", self.before),
            ("down", self.down),
            ("right", self.right),
        ] {
            out.line(format!("{name}.{field} = {value};"));
        }
    }
}

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Depthwise {
    gradient: bool,
    reverse: bool,
    images: usize,
    channels: usize,
    taps: [usize; 2],
    /// Whether windows are of more rows or columns than [`TAPS`].
    wide: bool,
    strides: [usize; 2],
    /// Windows.
    rows: usize,
    columns: usize,
    /// Of a copy.
    row: usize,
    x: Placing,
    dy: Option<Placing>,
    x_copy: usize,
    dy_copy: usize,
    /// In the working memory.
    pub(crate) sums: usize,
    widths: usize,
    copies: usize,
    pub(crate) bytes: usize,
}

impl Depthwise {
    /// How channels are convolved by themselves; `None` where windows are larger, lie apart in themselves or are too few.
    pub(crate) fn of(c: &Convolution) -> Option<Depthwise> {
        let suits = c.is_depthwise()
            && c.outputs == 1
            && c.padding == 0
            && c.taps.iter().zip(MOST).all(|(&taps, most)| taps <= most)
            && c.dilations == [1, 1]
            && !c.swapped;
        let wide = c.taps.iter().any(|&taps| taps > TAPS);
        let gradient = c.pass == Pass::Gradient;
        // Taps that windows have room for.
        let extent = match (wide, gradient) {
            (true, false) => c.taps,
            (true, true) => c.taps.map(|taps| taps.next_multiple_of(TAPS)),
            (false, _) => [TAPS; 2],
        };
        // Elsewhere windows may lie in the padding alone.
        if !suits || [0, 1, 2, 3].iter().any(|&side| c.pads[side] >= extent[side % 2]) {
            return None;
        }
        let error = c.pass == Pass::Error;
        let [rows, columns] = if error { [c.height, c.width] } else { [c.rows, c.columns] };
        // Windows of an error are of its elements with room between them.
        let strides = if error { [1, 1] } else { c.strides };
        let by_pairs = !wide && !gradient && strides == [1, 1];
        let fewest = [if by_pairs { 2 } else { 1 }, LANES];
        if rows < fewest[0] || columns < fewest[1] {
            return None;
        }
        let area = [0, 1].map(|axis| ([rows, columns][axis] - 1) * strides[axis] + extent[axis]);
        // Words of the last window are read whose last bytes count nothing.
        let row = (area[1] + 1).next_multiple_of(4);
        let (x_size, y_size) = ([c.height, c.width], [c.rows, c.columns]);
        let pads = [c.pads[0], c.pads[1]];
        let x = if error {
            let before = [0, 1].map(|axis| extent[axis] - 1 - pads[axis]);
            Placing::new(0, y_size, before, c.strides, area, row)
        } else {
            Placing::new(0, x_size, pads, [1, 1], area, row)
        };
        // Zeros before a row of errors, two for three columns of taps, and rows side by side.
        let dy = gradient.then(|| {
            let before = extent[1] - 1;
            let area = [c.rows, before + (c.columns - 1) * c.strides[1] + 1];
            Placing::new(1, y_size, [0, before], [1, c.strides[1]], area, row)
        });
        let mut depthwise = Depthwise {
            gradient,
            reverse: error,
            images: c.images,
            channels: c.groups,
            taps: c.taps,
            wide,
            strides,
            rows,
            columns,
            row,
            x,
            dy,
            // Words are read behind the last window.
            x_copy: area[0] * row + if wide { 8 } else { 4 },
            dy_copy: if gradient { c.rows * row + 4 } else { 0 },
            sums: 0,
            widths: 0,
            copies: 0,
            bytes: 0,
        };
        let mut scratch = Scratch::default();
        let [rows, lanes] = depthwise.results();
        depthwise.sums = scratch.take(rows * lanes * 4);
        // Rounding reads a word behind the sums.
        depthwise.widths = scratch.take(depthwise.parts() * 4);
        let copies = depthwise.x_copy + depthwise.dy_copy;
        depthwise.copies = scratch.take(depthwise.parts() * copies);
        depthwise.bytes = scratch.bytes();
        // Offsets are 32-bit.
        (depthwise.bytes < 1 << 30).then_some(depthwise)
    }

    /// What has a copy of its own.
    pub(crate) fn parts(&self) -> usize {
        let planes = if self.gradient { self.channels } else { self.images * self.channels };
        planes.min(CORES)
    }

    /// Rows of sums and lanes of each: they lie side by side, and rows are rounded by a core each.
    pub(crate) fn results(&self) -> [usize; 2] {
        let (planes, each) = if self.gradient {
            (self.channels, self.taps[0] * self.taps[1])
        } else {
            (self.images * self.channels, self.rows * self.columns)
        };
        let rows = if planes.is_multiple_of(CORES) { CORES } else { planes };
        [rows, planes / rows * each]
    }

    /// An estimate of the cycles, without those of rounding.
    pub(crate) fn cycles(&self) -> u64 {
        let [rows, columns] = [self.rows, self.columns].map(|n| n as u64);
        let placed = self.x.cycles() + self.dy.map_or(0, |dy| dy.cycles());
        let plane = if self.gradient {
            let blocks = self.taps.iter().map(|taps| taps.div_ceil(TAPS) as u64).product::<u64>();
            blocks * rows * (TAPS_ROW + TAPS_WORD * (self.row / 4) as u64)
        } else if self.wide {
            let line = if self.strides == [1, 1] { WIDE_LINE } else { WIDE_LINE_APART };
            let passes = columns.div_ceil(4) * self.taps[0] as u64;
            WIDE_PLANE + passes * (WIDE_COLUMNS + rows * line) + rows * columns * MAGNITUDE
        } else if self.strides == [1, 1] {
            columns.div_ceil(4) * (COLUMNS + rows.div_ceil(2) * PAIR)
        } else {
            columns.div_ceil(4) * (COLUMNS + rows * LINE_APART)
        };
        let zeros = (self.x_copy + self.dy_copy) as u64 * 5 / 16;
        let planes = (self.images * self.channels) as u64;
        self.parts() as u64 * (PART + zeros) + planes * (PLANE + placed + plane)
    }

    /// The sums.
    pub(crate) fn emit(&self, out: &mut Text) {
        let [rows, lanes] = self.results();
        declare(out, "int32_t", "sums", self.sums, &format!("[{rows}][{lanes}]"));
        declare(out, "uint32_t", "widths", self.widths, "Of the sums, by parts.");
        let text = format!("{} of {} bytes.", self.parts(), self.x_copy + self.dy_copy);
        declare(out, "int8_t", "copies", self.copies, &text);
        out.line("struct trainc_xpulp_depthwise work;");
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
            ("dy_copy", number(self.dy_copy)),
            ("row", number(self.row)),
            ("weights", if self.gradient { "0" } else { "x1" }.into()),
            ("taps[0]", number(self.taps[0])),
            ("taps[1]", number(self.taps[1])),
            ("reverse", number(usize::from(self.reverse))),
            ("strides[0]", number(self.strides[0])),
            ("strides[1]", number(self.strides[1])),
            ("rows", number(self.rows)),
            ("columns", number(self.columns)),
            ("sums", "sums".into()),
            ("largest", "widths".into()),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
        let name = match (self.gradient, self.wide) {
            (true, _) => "weights",
            (false, true) => "wide_planes",
            (false, false) => "planes",
        };
        out.long(format!(
            "TRAINC_PARALLEL_FOR(&work, {}, trainc_xpulp_depthwise_{name});",
            self.parts()
        ));
    }
}
