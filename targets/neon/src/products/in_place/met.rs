//! Which rows of taps the lanes of a panel meet, so that tile kernels leave out those that read the border alone.

use super::super::shape::Windows;
use super::super::text::Text;

/// Instructions that asking for a panel's rows takes.
const ASK: usize = 25;

/// Rows of windows and of the operand: row `i` of the taps of a lane in row `r` reads row `start + r down + i tap_down`, or the border.
/// Where taps run backwards, rows are counted from the last, so that `tap_down` is at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    /// Lanes of a row.
    columns: i64,
    start: i64,
    down: i64,
    tap_down: i64,
    taps: i64,
    /// Of the operand.
    rows: i64,
}

impl Met {
    /// That of windows which have lanes.
    fn of(w: &Windows) -> Self {
        let (rows, columns) = (w.plane[0] as i64, w.size[1] as i64);
        let (start, down, taps) = (w.start[0], w.step[0], w.taps[0] as i64);
        if w.tap_step[0] > 0 {
            return Self { columns, start, down, tap_down: w.tap_step[0], taps, rows };
        }
        let start = rows - 1 - start;
        Self { columns, start, down: -down, tap_down: (-w.tap_step[0]).max(1), taps, rows }
    }

    /// That of windows whose panels of 8 lanes save more by it than it takes; a row of taps takes so many instructions of a panel.
    pub(super) fn worth(w: &Windows, row: usize) -> Option<Self> {
        let met = Self::of(w);
        let panels = met.firsts(w).count();
        let all: usize = met.firsts(w).map(|place| met.rows_of(place).1).sum();
        ((w.taps[0] * panels - all) * row > ASK * panels).then_some(met)
    }

    /// The first lane of each panel; the last panel overlaps the one before.
    fn firsts(&self, w: &Windows) -> impl Iterator<Item = usize> + use<> {
        let places = w.size[0] * w.size[1];
        (0..places.div_ceil(8)).map(move |panel| (8 * panel).min(places - 8))
    }

    /// The first row of taps that a panel from this lane on meets, and how many from there on: `trainc_meet`.
    fn rows_of(&self, place: usize) -> (usize, usize) {
        let row = |place: usize| self.start + place as i64 / self.columns * self.down;
        let (a, b) = (row(place), row(place + 7));
        let (least, most) = (a.min(b), a.max(b));
        let first = if most < 0 { (-most + self.tap_down - 1) / self.tap_down } else { 0 };
        let behind =
            if least < self.rows { (self.rows - 1 - least) / self.tap_down + 1 } else { 0 };
        let count = (behind.min(self.taps) - first).max(0);
        (first as usize, count as usize)
    }

    /// Rows of taps of all panels, and instructions of asking for them.
    pub(super) fn rows_and_instructions(&self, w: &Windows) -> [usize; 2] {
        let rows = self.firsts(w).map(|place| self.rows_of(place).1).sum();
        [rows, ASK * self.firsts(w).count()]
    }

    /// Prints it as a constant.
    pub(super) fn emit(&self, name: &str, out: &mut Text) {
        let Self { columns, start, down, tap_down, taps, rows } = self;
        out.long(format!(
            "static const struct trainc_rows_met {name} = {{ .columns = {columns}, .start = {start}, .down = {down}, .tap_down = {tap_down}, .taps = {taps}, .rows = {rows} }};"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a panel leaves out, no lane of it meets; its first and last row of taps some lane does.
    #[test]
    fn rows_are_those_that_lanes_meet() {
        let mut left_out = 0;
        for (size, plane, start, step, tap_step) in [
            ([14, 14], [10, 10], 0, 1, -1),
            ([28, 28], [28, 28], -2, 1, 1),
            ([5, 3], [9, 5], -2, 2, 1),
            ([8, 8], [8, 8], -4, 1, 4),
            ([7, 9], [4, 9], 2, 1, -3),
            ([9, 4], [2, 4], -6, 1, 2),
            ([4, 2], [3, 2], 5, 1, 1),
        ] {
            let w = Windows {
                size,
                plane,
                start: [start, 0],
                step: [step, 1],
                taps: [5, 1],
                tap_step: [tap_step, 1],
            };
            let met = Met::of(&w);
            for first in met.firsts(&w) {
                let rows: Vec<usize> = (first..first + 8).map(|place| place / size[1]).collect();
                let (begin, end) = w.meeting(0, &rows);
                let expected = (begin.min(end), end.saturating_sub(begin));
                let found = met.rows_of(first);
                assert!(found.1 == expected.1, "{w:?} from {first}: {found:?}, not {expected:?}");
                assert!(found.1 == 0 || found.0 == expected.0, "{w:?} from {first}: {found:?}");
                left_out += 5 - found.1;
            }
        }
        assert!(left_out > 50);
    }
}
