//! Planes of bytes spread out over larger planes with zeros between: results of windows, where other places of the
//! result have none (the error gradient of a convolution that skips positions).
//!
//! One pass of a delta network spreads a vector's bytes out; vectors are walked as [`super::pool`] does.

use super::kernel::DataObject;
use super::pool::{Layout, Pointer, VECTOR, gather, load, store, table};
use super::window::Axis;
use crate::machine::{Builder, Function, MachineError, Opcode};

/// Places at equal distances along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// Positions of the axis.
    pub total: usize,
    /// The first place.
    pub first: usize,
    /// Positions from a place to the next.
    pub step: usize,
    /// Places, at least one.
    pub count: usize,
}

/// `[plane][row place][column place]` to `[plane][row][column]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// Planes.
    pub planes: usize,
    /// Rows.
    pub rows: Places,
    /// Columns.
    pub columns: Places,
}

impl Places {
    /// The positions of an axis that read something; `None` if there are none, or not at equal distances.
    #[must_use]
    pub fn of(axis: &Axis) -> Option<Places> {
        let reading = |&(_, reads): &(usize, &Vec<_>)| !Vec::is_empty(reads);
        let places: Vec<usize> =
            axis.reads.iter().enumerate().filter(reading).map(|(at, _)| at).collect();
        let first = *places.first()?;
        let total = axis.reads.len();
        let step = places.get(1).map_or(total, |second| second - first);
        let places_are_even = places.windows(2).all(|pair| pair[1] - pair[0] == step);
        places_are_even.then_some(Places { total, first, step, count: places.len() })
    }

    fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |i| self.first + i * self.step)
    }
}

impl Spread {
    /// Bytes of the smaller planes, and what may be read behind them.
    #[must_use]
    pub fn source_bytes(&self) -> usize {
        self.places().next_multiple_of(VECTOR) + VECTOR
    }

    fn places(&self) -> usize {
        self.planes * self.rows.count * self.columns.count
    }

    fn bytes(&self) -> usize {
        self.planes * self.rows.total * self.columns.total
    }

    /// Whether the kernel can do it: planes of at most a vector, or rows of at most a vector with a place in every so
    /// many of them.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let layout = self.layout();
        let fits = i32::try_from(self.bytes() + 2 * VECTOR).is_ok();
        fits && layout.is_some_and(|layout| gather(&layout.places).is_some())
    }

    /// Vectors that are written.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.layout().map_or(0, |layout| {
            layout.units.div_ceil(layout.together) * layout.unit_bytes.div_ceil(VECTOR)
        })
    }

    fn layout(&self) -> Option<Layout> {
        let Spread { planes, rows, columns } = *self;
        let plane = rows.total * columns.total;
        let band = rows.step * columns.total;
        let (units, unit_bytes, unit): (usize, usize, Vec<usize>) = if plane <= VECTOR {
            let row = |row: usize| columns.positions().map(move |c| row * columns.total + c);
            (planes, plane, rows.positions().flat_map(row).collect())
        } else if rows.total == rows.count * rows.step && columns.total <= VECTOR {
            // Where a band is more than a vector, its rows are stored one by one.
            let row = if band <= VECTOR { rows.first } else { 0 };
            let places = columns.positions().map(|c| row * columns.total + c);
            (planes * rows.count, band, places.collect())
        } else {
            return None;
        };
        let together = (VECTOR / unit_bytes).clamp(1, units.max(1));
        let places = (0..together).flat_map(|k| unit.iter().map(move |at| k * unit_bytes + at));
        Some(Layout {
            parts: 1,
            part_bytes: self.bytes(),
            part_windows: self.places(),
            units,
            unit_bytes,
            unit_windows: unit.len(),
            together,
            places: places.collect(),
        })
    }

    /// `void spread(x, y)`, and the table that it reads; x has [`Self::source_bytes`].
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn function(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Spreads planes out over larger ones, with zeros between.");
        let (x, y) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("y"), b.object("table"));
        let Some(layout) = self.layout() else {
            return Ok((b.finish(None)?, table(name, [&[0; VECTOR]])));
        };
        let mut mask = [0; VECTOR];
        layout.places.iter().for_each(|&at| mask[at] = 0xff);
        let table = table(name, [&gather(&layout.places).unwrap_or([0; VECTOR]), &mask]);
        let address = b.address(&table.symbol, 0);
        let network = b.load(Opcode::LoadV, (address, 0), memory.2);
        let mask = b.load(Opcode::LoadV, (address, 1), memory.2);
        let zero = b.zero();
        let zero = b.emit(Opcode::VsplatW, (zero,));
        // What a unit is stored in: all at once, or row by row, each store beginning where the last one's bytes end.
        let width = self.columns.total;
        let whole_units = layout.unit_bytes <= VECTOR;
        let rows = if whole_units { 1 } else { self.rows.step };
        let first = if whole_units { 0 } else { self.rows.first };
        let from = b.copy(x);
        let to: Vec<_> = (0..rows).map(|_| b.copy(y)).collect();
        let mut pointers = vec![Pointer::Window(from, x, 1)];
        pointers.extend(to.iter().enumerate().map(|(row, &to)| Pointer::Plane(to, y, row * width)));
        let windows = self.source_bytes();
        let inside = |byte: usize, window: usize| {
            byte + (rows - 1) * width + VECTOR <= self.bytes() && window + VECTOR <= windows
        };
        let spread = |b: &mut Builder, x| {
            let spread = b.emit(Opcode::Vdelta, (x, network));
            b.emit(Opcode::Vand, (spread, mask))
        };
        let whole = |b: &mut Builder| {
            let x = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
            let spread = spread(b, x);
            for (row, &to) in to.iter().enumerate() {
                let row = if row == first { spread } else { zero };
                b.store(Opcode::StoreVUnaligned, (to, 0, row), memory.1);
            }
        };
        let masked = |b: &mut Builder, byte: usize, window: usize, units: usize| {
            let x = load(b, x, memory.0, window, windows);
            let spread = spread(b, x);
            let length = if whole_units { units * layout.unit_bytes } else { width };
            for row in 0..rows {
                let at = byte + row * width;
                store(b, y, memory.1, at..at + length, if row == first { spread } else { zero });
            }
        };
        layout.walk(&mut b, &pointers, &inside, &whole, &masked, &|_, _| {});
        Ok((b.finish(None)?, table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::Span;
    use super::*;

    #[test]
    fn windows_of_a_stride_wider_than_the_kernel_lie_apart() {
        let span = Span { input: 8, output: 4, kernel: 1, stride: 2, dilation: 1, before: 0 };
        let places = Places::of(&span.error());
        assert_eq!(places, Some(Places { total: 8, first: 0, step: 2, count: 4 }));
        // Two taps at stride 3 leave one position in three.
        let span = Span { input: 6, output: 2, kernel: 2, stride: 3, dilation: 1, before: 0 };
        assert_eq!(Places::of(&span.error()), None);
        // A window in the padding, at each end.
        let span = Span { input: 3, output: 5, kernel: 1, stride: 1, dilation: 1, before: 1 };
        let places = Places::of(&span.forward());
        assert_eq!(places, Some(Places { total: 5, first: 1, step: 1, count: 3 }));
    }
}
