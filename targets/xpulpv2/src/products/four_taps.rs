//! Windows of channels by themselves whose taps lie apart or are many, of any size: words hold four taps of a window each,
//! `trainc_xpulp_depthwise_apart.h`.

use trainc_c::text::Text;
use trainc_ir::product::Convolution;

use super::planes::Planes;

/// Taps of a word, and words at once.
const FOUR: usize = 4;
const AT_ONCE: usize = 3;

/// Cycles of a plane, of a word of it that holds taps, of a tap of its weights, of a window by three words and by one, of a row
/// of them and of a sum's magnitude.
const PLANE: u64 = 180;
const WORD_OF_TAPS: u64 = 5;
const TAP: u64 = 12;
const WINDOW: u64 = 8;
const WINDOW_BY_ONE: u64 = 4;
const ROW: u64 = 5;
const MAGNITUDE: u64 = 3;

/// See the module documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FourTaps {
    /// Taps that words hold, and rows of such.
    inner: usize,
    outer: usize,
    /// Whether words hold taps of a row, for windows have but one.
    is_line: bool,
    /// Rows of words.
    word_rows: usize,
}

impl FourTaps {
    /// With the planes; `None` where windows lie in the padding alone.
    pub(super) fn of(c: &Convolution) -> Option<(Planes, FourTaps)> {
        let planes = Planes::of(c, c.taps, 0)?;
        let is_line = c.taps[0] == 1;
        let [inner, outer] = if is_line { [c.taps[1], 1] } else { c.taps };
        let mut four = FourTaps { inner, outer, is_line, word_rows: planes.rows };
        if !four.is_by_windows() {
            let between = (planes.rows - 1) * planes.strides[0];
            four.word_rows = between + (four.groups() - 1) * FOUR * planes.dilations[0] + 1;
        }
        // Taps of a word that are none are read behind the others.
        let more = if inner > FOUR { inner.next_multiple_of(FOUR) - inner } else { 0 };
        let [down, right] = if is_line { [0, more] } else { [more, 0] };
        let behind = (right + if is_line { FOUR } else { 0 }) * c.dilations[1] + 4;
        let copy = (planes.area[0] + down * c.dilations[0]) * planes.row + behind;
        let words = four.word_rows * planes.row * 4;
        Some((planes.with_copies(copy.next_multiple_of(4), words)?, four))
    }

    /// Words that hold a window's inner taps.
    fn groups(&self) -> usize {
        self.inner.div_ceil(FOUR)
    }

    /// Whether there is a row of words for each of windows, not of the copy.
    fn is_by_windows(&self) -> bool {
        self.is_line || self.groups() == 1
    }

    /// An estimate of the cycles of a plane beside its copy.
    pub(super) fn plane_cycles(&self, planes: &Planes) -> u64 {
        let count = self.groups() * self.outer;
        let (three, one) = match count % AT_ONCE {
            1 => (count / AT_ONCE, 1),
            _ => (count.div_ceil(AT_ONCE), 0),
        };
        let [three, one, rows] = [three, one, planes.rows].map(|n| n as u64);
        let words = (self.word_rows * planes.row) as u64 * WORD_OF_TAPS;
        let window = three * WINDOW + one * WINDOW_BY_ONE;
        let windows = rows * planes.columns as u64;
        let taps = (self.inner * self.outer) as u64 * TAP;
        PLANE + words + taps + windows * (window + MAGNITUDE) + rows * ROW * (three + one)
    }

    /// Sets the fields of `struct trainc_xpulp_depthwise_apart` beside those of its planes.
    pub(super) fn fields(&self, planes: &Planes, out: &mut Text) {
        let [down, right] = [planes.dilations[0] * planes.row, planes.dilations[1]];
        let [step, weight] = if self.is_line { [right, 1] } else { [down, self.outer] };
        let stride = planes.strides[0];
        let [word_step, window_step] = if self.is_by_windows() { [stride, 1] } else { [1, stride] };
        for (field, value) in [
            ("inner", self.inner),
            ("inner_weight", weight),
            ("inner_step", step),
            ("outer", self.outer),
            ("outer_weight", 1),
            ("outer_step", right),
            ("four_taps", FOUR * step),
            ("word_rows", self.word_rows),
            ("word_step", word_step),
            ("window_step", window_step),
        ] {
            out.line(format!("work.{field} = {value};"));
        }
    }
}
