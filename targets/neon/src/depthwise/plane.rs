//! Planes in working memory: padded, and split by the residues of their rows and columns.

use trainc_ir::Element;
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr};

/// What is done with neighbours: the index of each in a dense plane, and here.
type Neighbours<'a> = dyn FnMut(&mut LoopBuilder, &[(Expr, Expr)]) + 'a;

/// Positions of an axis that a stride splits: position `p` is element `p / stride` of part `p % stride`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// 1 or 2.
    pub(super) stride: usize,
    /// Positions before the first element.
    pub(super) before: usize,
    /// Elements of a part.
    pub(super) length: usize,
}

/// An element of an axis.
pub(super) struct Position {
    /// Its number.
    pub(super) number: Expr,
    /// The part of its position.
    pub(super) part: usize,
    /// Its place there.
    pub(super) place: Expr,
}

impl Axis {
    /// Elements that have a position, of `count`.
    pub(super) fn reached(&self, count: usize) -> usize {
        count.min((self.length * self.stride).saturating_sub(self.before))
    }

    /// A loop over `count` elements, one of each part a round.
    pub(super) fn each(
        &self,
        b: &mut LoopBuilder,
        name: &str,
        count: usize,
        body: &mut dyn FnMut(&mut LoopBuilder, &[Position]),
    ) {
        let before = self.before;
        if self.stride == 1 {
            return b.for_(name, count, |b, number| {
                let place = number.clone() + Expr::index(before);
                body(b, &[Position { number, part: 0, place }]);
            });
        }
        b.for_(name, count / 2, |b, pair| {
            let of = |residue: usize| Position {
                number: pair.clone() * Expr::i64(2) + Expr::index(residue),
                part: (before + residue) % 2,
                place: pair.clone() + Expr::index((before + residue) / 2),
            };
            body(b, &[of(0), of(1)]);
        });
        if count % 2 == 1 {
            let at = count - 1 + before;
            let (number, place) = (Expr::index(count - 1), Expr::index(at / 2));
            body(b, &[Position { number, part: at % 2, place }]);
        }
    }
}

/// A plane in working memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    buffer: Buffer,
    rows: Axis,
    columns: Axis,
    /// Elements from a part to the next.
    part: usize,
}

impl Plane {
    /// A plane of zeros; `slack` elements follow each part.
    pub(super) fn new(
        b: &mut LoopBuilder,
        name: &str,
        element: Element,
        [rows, columns]: [Axis; 2],
        slack: usize,
    ) -> Plane {
        let part = rows.length * columns.length + slack;
        let count = part * rows.stride * columns.stride;
        let buffer = b.scratch(name, element, count);
        b.for_("i", count, |b, i| b.store(buffer, i, Expr::i32(0)));
        Plane { buffer, rows, columns, part }
    }

    /// Elements from a row to the next.
    pub(super) fn pitch(&self) -> usize {
        self.columns.length
    }

    /// Start of the part that holds some residues.
    pub(super) fn start(&self, [row, column]: [usize; 2]) -> usize {
        (row * self.columns.stride + column) * self.part
    }

    /// An element of a part.
    pub(super) fn load(&self, b: &LoopBuilder, index: Expr) -> Expr {
        b.load(self.buffer, index)
    }

    /// Stores an element of a part.
    pub(super) fn store(&self, b: &mut LoopBuilder, index: Expr, value: Expr) {
        b.store(self.buffer, index, value);
    }

    /// Loops over the elements of a dense plane of `[height, width]`: for each of neighbours, its index there and here.
    fn each(&self, b: &mut LoopBuilder, [height, width]: [usize; 2], body: &mut Neighbours<'_>) {
        let (height_reached, width_reached) =
            (self.rows.reached(height), self.columns.reached(width));
        self.rows.each(b, "row", height_reached, &mut |b, rows| {
            for row in rows {
                self.columns.each(b, "column", width_reached, &mut |b, columns| {
                    let places: Vec<(Expr, Expr)> = columns
                        .iter()
                        .map(|column| {
                            let dense = row.number.clone() * Expr::index(width);
                            let start = self.start([row.part, column.part]);
                            let place = row.place.clone() * Expr::index(self.pitch())
                                + column.place.clone()
                                + Expr::index(start);
                            (dense + column.number.clone(), place)
                        })
                        .collect();
                    body(b, &places);
                });
            }
        });
    }

    /// Copies a dense plane, which starts at `base`, in here.
    pub(super) fn fill(&self, b: &mut LoopBuilder, from: Buffer, base: &Expr, size: [usize; 2]) {
        self.each(b, size, &mut |b, places| {
            let load = |b: &mut LoopBuilder, dense: &Expr| {
                let value = b.load(from, base.clone() + dense.clone());
                b.let_("value", value)
            };
            let values: Vec<Expr> = places.iter().map(|(dense, _)| load(b, dense)).collect();
            for ((_, place), value) in places.iter().zip(values) {
                b.store(self.buffer, place.clone(), value);
            }
        });
    }

    /// Copies what is here to a dense plane, which starts at `base`.
    pub(super) fn extract(&self, b: &mut LoopBuilder, to: Buffer, base: &Expr, size: [usize; 2]) {
        self.each(b, size, &mut |b, places| {
            for (dense, place) in places {
                let value = b.load(self.buffer, place.clone());
                b.store(to, base.clone() + dense.clone(), value);
            }
        });
    }
}
