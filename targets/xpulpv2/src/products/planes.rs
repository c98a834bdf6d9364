//! Planes of convolutions of each channel by itself: what has a copy of its own, where elements go in it, and the sums;
//! `struct trainc_xpulp_depthwise`.

use trainc_c::text::{Scratch, Text, declare};
use trainc_ir::product::{Convolution, Pass};

use super::layout::CORES;

/// Cycles of a plane that is copied, of a row of that, of a word of it and of an element that lies apart.
const COPY: u64 = 20;
const ROW: u64 = 5;
const ROW_APART: u64 = 22;
const WORD: u64 = 3;
const APART: u64 = 3;
/// Of a part.
const PART: u64 = 150;

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
pub(super) struct Planes {
    gradient: bool,
    reverse: bool,
    images: usize,
    channels: usize,
    pub(super) taps: [usize; 2],
    /// From a window to the next.
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// Windows.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Bytes of a row of a copy.
    pub(super) row: usize,
    /// Rows and columns of a copy that windows reach, and of a window but its first.
    pub(super) area: [usize; 2],
    pub(super) reach: [usize; 2],
    x: Placing,
    dy: Option<Placing>,
    /// Bytes of copies of x, and of what lies behind each: one of dy, or of words.
    x_copy: usize,
    other_copy: usize,
    /// In the working memory.
    sums: usize,
    widths: usize,
    copies: usize,
    bytes: usize,
}

impl Planes {
    /// Those of convolutions whose windows have room for an extent of taps, rows of a copy so many bytes behind the last window;
    /// `None` where channels have several outputs, or where windows lie in the padding alone.
    pub(super) fn of(c: &Convolution, extent: [usize; 2], behind: usize) -> Option<Planes> {
        if !c.is_depthwise() || c.outputs != 1 || c.padding != 0 || c.swapped {
            return None;
        }
        let (gradient, error) = (c.pass == Pass::Gradient, c.pass == Pass::Error);
        let [rows, columns] = if error { [c.height, c.width] } else { [c.rows, c.columns] };
        // Windows of an error are of its elements with room between them.
        let strides = if error { [1, 1] } else { c.strides };
        let reach = [0, 1].map(|axis| (extent[axis] - 1) * c.dilations[axis]);
        let area = [0, 1].map(|axis| ([rows, columns][axis] - 1) * strides[axis] + reach[axis] + 1);
        let row = (area[1] + behind).next_multiple_of(4);
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
        let (images, channels, taps, dilations) = (c.images, c.groups, c.taps, c.dilations);
        Some(Planes {
            gradient,
            reverse: error,
            images,
            channels,
            taps,
            strides,
            dilations,
            rows,
            columns,
            row,
            area,
            reach,
            x,
            dy,
            x_copy: 0,
            other_copy: 0,
            sums: 0,
            widths: 0,
            copies: 0,
            bytes: 0,
        })
    }

    /// With copies of so many bytes; `None` where they are too large.
    pub(super) fn with_copies(self, x_copy: usize, other_copy: usize) -> Option<Planes> {
        let mut scratch = Scratch::default();
        let [rows, lanes] = self.results();
        let sums = scratch.take(rows * lanes * 4);
        // Rounding reads a word behind the sums.
        let widths = scratch.take(self.parts() * 4);
        let copies = scratch.take(self.parts() * (x_copy + other_copy));
        let bytes = scratch.bytes();
        // Offsets are 32-bit.
        (bytes < 1 << 30).then_some(Planes {
            x_copy,
            other_copy,
            sums,
            widths,
            copies,
            bytes,
            ..self
        })
    }

    /// What has a copy of its own.
    pub(super) fn parts(&self) -> usize {
        let planes = if self.gradient { self.channels } else { self.images * self.channels };
        planes.min(CORES)
    }

    /// Rows of sums and lanes of each: they lie side by side, and rows are rounded by a core each.
    pub(super) fn results(&self) -> [usize; 2] {
        let (planes, each) = if self.gradient {
            (self.channels, self.taps[0] * self.taps[1])
        } else {
            (self.images * self.channels, self.rows * self.columns)
        };
        let rows = if planes.is_multiple_of(CORES) { CORES } else { planes };
        [rows, planes / rows * each]
    }

    /// Of the working memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// An estimate of the cycles where a plane beside its copies takes so many; whether other copies are zeroed first.
    pub(super) fn cycles(&self, plane: u64, zeroes_other: bool) -> u64 {
        let zeroed = self.x_copy + if zeroes_other { self.other_copy } else { 0 };
        let placed = self.x.cycles() + self.dy.map_or(0, |dy| dy.cycles());
        let planes = (self.images * self.channels) as u64;
        self.parts() as u64 * (PART + zeroed as u64 * 5 / 16) + planes * (placed + plane)
    }

    /// Declares the working memory.
    pub(super) fn declarations(&self, out: &mut Text) {
        let [rows, lanes] = self.results();
        declare(out, "int32_t", "sums", self.sums, &format!("[{rows}][{lanes}]"));
        declare(out, "uint32_t", "widths", self.widths, "Of the sums, by parts.");
        let text = format!("{} of {} bytes.", self.parts(), self.x_copy + self.other_copy);
        declare(out, "int8_t", "copies", self.copies, &text);
    }

    /// Sets a structure's fields.
    pub(super) fn fields(&self, out: &mut Text, name: &str) {
        self.x.emit(out, &format!("{name}.x"));
        if let Some(dy) = &self.dy {
            dy.emit(out, &format!("{name}.dy"));
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
            ("weights", if self.gradient { "0" } else { "x1" }.into()),
            ("taps[0]", number(self.taps[0])),
            ("taps[1]", number(self.taps[1])),
            ("reverse", number(usize::from(self.reverse))),
            ("strides[0]", number(self.strides[0])),
            ("strides[1]", number(self.strides[1])),
            ("dilations[0]", number(self.dilations[0])),
            ("dilations[1]", number(self.dilations[1])),
            ("rows", number(self.rows)),
            ("columns", number(self.columns)),
            ("sums", "sums".into()),
            ("largest", "widths".into()),
        ] {
            out.line(format!("{name}.{field} = {value};"));
        }
    }

    /// Calls a function of all parts.
    pub(super) fn call(&self, out: &mut Text, name: &str) {
        let parts = self.parts();
        out.long(format!("TRAINC_PARALLEL_FOR(&work, {parts}, trainc_xpulp_depthwise_{name});"));
    }
}
