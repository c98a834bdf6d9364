//! Convolutions of each channel by itself, and their gradients: a plane has a copy with room around and between its elements.
//! A word of it holds a row of a window, `trainc_xpulp_depthwise.h`, or two, `trainc_xpulp_depthwise_wide.h`; where taps lie
//! apart or are many, words of a further copy hold four of them, `trainc_xpulp_depthwise_apart.h`.

use trainc_c::text::Text;
use trainc_ir::product::{Convolution, Pass};

use super::four_taps::FourTaps;
use super::planes::Planes;

/// Rows and columns of a window that words hold.
const TAPS: usize = 3;
/// Rows and columns of a window at most, that rows of words hold.
const MOST: [usize; 2] = [8, 5];
/// Columns of windows at once: the last ones of a row overlap others.
const LANES: usize = 4;

/// Cycles of a plane beside its rows, of four columns of windows, of each of their pairs of rows, and of a row of windows that
/// lie apart.
const PLANE: u64 = 50;
const COLUMNS: u64 = 20;
const PAIR: u64 = 62;
const LINE_APART: u64 = 45;
/// Of a plane's weights, of four columns of windows by a row of them, of a row of windows side by side and apart, and of a sum's
/// magnitude.
const WIDE_PLANE: u64 = 170;
const WIDE_COLUMNS: u64 = 30;
const WIDE_LINE: u64 = 20;
const WIDE_LINE_APART: u64 = 28;
const MAGNITUDE: u64 = 3;
/// Of a block of nine taps, of one that is not whole beside that, of a row of errors by those and of a word of it.
const BLOCK: u64 = 40;
const BLOCK_IN_PART: u64 = 90;
const TAPS_ROW: u64 = 6;
const TAPS_WORD: u64 = 15;

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Depthwise {
    planes: Planes,
    way: Way,
}

/// What words hold.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Way {
    /// A row of a window.
    Rows,
    /// Two words a row.
    WideRows,
    /// Four taps.
    FourTaps(FourTaps),
    /// Elements of rows of both operands, whose products are of one tap.
    Gradient,
}

impl Depthwise {
    /// How channels are convolved by themselves; `None` where they have several outputs, or windows may lie in the padding alone.
    pub(crate) fn of(c: &Convolution) -> Option<Depthwise> {
        if c.pass == Pass::Gradient {
            let planes = Planes::of(c, c.taps.map(|taps| taps.next_multiple_of(TAPS)), 0)?;
            let copy = planes.area[0] * planes.row;
            // Words of the last row are read as far behind it as taps reach.
            let other = (c.rows * planes.row + planes.reach[1] + 4).next_multiple_of(4);
            return Some(Depthwise {
                planes: planes.with_copies(copy, other)?,
                way: Way::Gradient,
            });
        }
        Depthwise::by_rows(c).or_else(|| {
            let (planes, four) = FourTaps::of(c)?;
            Some(Depthwise { planes, way: Way::FourTaps(four) })
        })
    }

    /// Where taps lie side by side, and are few.
    fn by_rows(c: &Convolution) -> Option<Depthwise> {
        let wide = c.taps.iter().any(|&taps| taps > TAPS);
        let extent = if wide { c.taps } else { [TAPS; 2] };
        if c.dilations != [1, 1]
            || c.taps.iter().zip(MOST).any(|(&taps, most)| taps > most)
            || [0, 1, 2, 3].iter().any(|&side| c.pads[side] >= extent[side % 2])
        {
            return None;
        }
        // Words of the last window are read whose last bytes count nothing.
        let planes = Planes::of(c, extent, 1)?;
        let by_pairs = !wide && planes.strides == [1, 1];
        if planes.rows < if by_pairs { 2 } else { 1 } || planes.columns < LANES {
            return None;
        }
        // Words are read behind the last window.
        let copy = planes.area[0] * planes.row + if wide { 8 } else { 4 };
        let way = if wide { Way::WideRows } else { Way::Rows };
        Some(Depthwise { planes: planes.with_copies(copy, 0)?, way })
    }

    /// What has a copy of its own.
    pub(crate) fn parts(&self) -> usize {
        self.planes.parts()
    }

    /// Rows of sums and lanes of each: they lie side by side, and rows are rounded by a core each.
    pub(crate) fn results(&self) -> [usize; 2] {
        self.planes.results()
    }

    /// Of the working memory.
    pub(crate) fn bytes(&self) -> usize {
        self.planes.bytes()
    }

    /// An estimate of the cycles, without those of rounding.
    pub(crate) fn cycles(&self) -> u64 {
        let planes = &self.planes;
        let [rows, columns] = [planes.rows, planes.columns].map(|n| n as u64);
        let by_fours = columns.div_ceil(LANES as u64);
        let plane = match &self.way {
            Way::FourTaps(four) => four.plane_cycles(planes),
            Way::Gradient => {
                let blocks = planes.taps.map(|taps| taps.div_ceil(TAPS) as u64);
                let whole = planes.taps.map(|taps| (taps / TAPS) as u64);
                let in_part = blocks[0] * blocks[1] - whole[0] * whole[1];
                let block = BLOCK + rows * (TAPS_ROW + TAPS_WORD * (planes.row / 4) as u64);
                PLANE + blocks[0] * blocks[1] * block + in_part * BLOCK_IN_PART
            }
            Way::WideRows => {
                let line = if planes.strides == [1, 1] { WIDE_LINE } else { WIDE_LINE_APART };
                let passes = by_fours * planes.taps[0] as u64;
                WIDE_PLANE + passes * (WIDE_COLUMNS + rows * line) + rows * columns * MAGNITUDE
            }
            Way::Rows if planes.strides == [1, 1] => {
                PLANE + by_fours * (COLUMNS + rows.div_ceil(2) * PAIR)
            }
            Way::Rows => PLANE + by_fours * (COLUMNS + rows * LINE_APART),
        };
        planes.cycles(plane, !matches!(self.way, Way::FourTaps(_)))
    }

    /// The sums.
    pub(crate) fn emit(&self, out: &mut Text) {
        let planes = &self.planes;
        planes.declarations(out);
        if let Way::FourTaps(four) = &self.way {
            out.line("struct trainc_xpulp_depthwise_apart work;");
            planes.fields(out, "work.planes");
            four.fields(planes, out);
        } else {
            out.line("struct trainc_xpulp_depthwise work;");
            planes.fields(out, "work");
        }
        planes.call(
            out,
            match self.way {
                Way::Rows => "planes",
                Way::WideRows => "wide_planes",
                Way::FourTaps(_) => "apart_planes",
                Way::Gradient => "weights",
            },
        );
    }
}
