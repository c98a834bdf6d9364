//! What pools share: the planes of [B,C,H,W], and the integer mean.

use super::convolution::rank4;
use super::movement::result_shape;
use super::window::{Geometry, Windows};
use crate::loops::Expr;
use crate::loops::builder::LoopBuilder;
use crate::numeric::{Rounding, shift_right};
use crate::ops::TypeError;
use crate::ops::rule::ensure;
use crate::types::{Shape, TensorType};

/// Largest window of an integer pool: sums of errors, times the factor of a mean, stay in 32 bits.
const INTEGER_TAPS: usize = 1 << 14;

/// Bits of the fixed-point reciprocal of a window's size.
pub(crate) const RECIPROCAL_BITS: u32 = 15;

/// A pool whose operand fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    /// B and C.
    pub(crate) leading: [usize; 2],
    /// Windows over each plane.
    pub(crate) windows: Windows,
}

impl Pool {
    /// Checks the operand's shape [B,C,H,W].
    pub(crate) fn new(name: &str, geometry: &Geometry, x: &Shape) -> Result<Pool, TypeError> {
        let [batch, channels, height, width] = rank4(name, "x", x)?;
        let windows = Windows::new(name, geometry, [height, width])?;
        windows.never_empty(name)?;
        let pool = Pool { leading: [batch, channels], windows };
        result_shape(name, pool.x().to_vec())?;
        result_shape(name, pool.y().to_vec())?;
        Ok(pool)
    }

    /// Refuses an error whose shape is not the result's.
    pub(crate) fn fits_error(&self, name: &str, dy: &Shape) -> Result<(), TypeError> {
        let y = Shape::from(self.y());
        ensure(*dy == y, || format!("{name}: the pool's result is {y}, the error {dy}"))
    }

    /// Number of planes.
    pub(crate) fn planes(&self) -> usize {
        self.leading[0] * self.leading[1]
    }

    /// Shape of the operand.
    pub(crate) fn x(&self) -> [usize; 4] {
        let Windows { vertical, horizontal } = self.windows;
        [self.leading[0], self.leading[1], vertical.input, horizontal.input]
    }

    /// Shape of the result.
    pub(crate) fn y(&self) -> [usize; 4] {
        let Windows { vertical, horizontal } = self.windows;
        [self.leading[0], self.leading[1], vertical.output, horizontal.output]
    }

    /// Elements of an operand's plane.
    pub(crate) fn x_plane(&self) -> usize {
        self.windows.vertical.input * self.windows.horizontal.input
    }

    /// Elements of a result's plane.
    pub(crate) fn y_plane(&self) -> usize {
        self.windows.vertical.output * self.windows.horizontal.output
    }

    /// Positions in a plane of `x` of the taps of window `[oh, ow]`, in row-major order.
    pub(crate) fn positions(&self, [oh, ow]: [usize; 2]) -> impl Iterator<Item = usize> + use<> {
        let Windows { vertical, horizontal } = self.windows;
        vertical.taps(oh).flat_map(move |kh| {
            let row = vertical.position(oh, kh) * horizontal.input;
            horizontal.taps(ow).map(move |kw| row + horizontal.position(ow, kw))
        })
    }

    /// Windows in row-major order.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let Windows { vertical, horizontal } = self.windows;
        (0..vertical.output).flat_map(move |oh| (0..horizontal.output).map(move |ow| [oh, ow]))
    }

    /// Loops over planes and windows: the body gets the plane's number and the window's place.
    pub(crate) fn for_windows(
        &self,
        b: &mut LoopBuilder,
        plane: &Expr,
        body: impl FnOnce(&mut LoopBuilder, &Window),
    ) {
        let Windows { vertical, horizontal } = self.windows;
        let x_plane = b.let_("x_plane", plane.clone() * Expr::index(self.x_plane()));
        let y_plane = b.let_("y_plane", plane.clone() * Expr::index(self.y_plane()));
        b.for_("oh", vertical.output, |b, oh| {
            let rows = vertical.tap_range(b, &oh);
            let top = b.let_("top", vertical.origin(&oh));
            b.for_("ow", horizontal.output, |b, ow| {
                let columns = horizontal.tap_range(b, &ow);
                let left = b.let_("left", horizontal.origin(&ow));
                let at = y_plane + oh.clone() * Expr::index(horizontal.output) + ow.clone();
                let window = Window {
                    windows: self.windows,
                    place: [oh, ow],
                    rows,
                    columns,
                    top,
                    left,
                    x_plane,
                    at: b.let_("at", at),
                };
                body(b, &window);
            });
        });
    }
}

/// One window in loops.
#[derive(Debug)]
pub(crate) struct Window {
    windows: Windows,
    /// Row and column of the window.
    pub(crate) place: [Expr; 2],
    rows: (Expr, Expr),
    columns: (Expr, Expr),
    top: Expr,
    left: Expr,
    /// Index of the first element of the operand's plane.
    pub(crate) x_plane: Expr,
    /// Index of the window's result.
    pub(crate) at: Expr,
}

impl Window {
    /// Loops over the window's taps inside the operand, in row-major order; the body gets the position in the
    /// operand's plane.
    pub(crate) fn for_taps(&self, b: &mut LoopBuilder, body: impl FnOnce(&mut LoopBuilder, Expr)) {
        let Windows { vertical, horizontal } = self.windows;
        let (start, end) = self.rows.clone();
        b.for_range("kh", start, end, |b, kh| {
            let row = self.top.clone() + kh * Expr::index(vertical.dilation);
            let row = row * Expr::index(horizontal.input) + self.left.clone();
            let row = b.let_("row", row);
            let (start, end) = self.columns.clone();
            b.for_range("kw", start, end, |b, kw| {
                body(b, row + kw * Expr::index(horizontal.dilation));
            });
        });
    }

    /// Number of the window's taps inside the operand.
    pub(crate) fn taps(&self) -> Expr {
        let length = |(start, end): &(Expr, Expr)| end.clone() - start.clone();
        length(&self.rows) * length(&self.columns)
    }

    /// Position in the operand's plane of the window's first tap inside.
    pub(crate) fn first(&self) -> Expr {
        let Windows { vertical, horizontal } = self.windows;
        let row = self.top.clone() + self.rows.0.clone() * Expr::index(vertical.dilation);
        let column = self.left.clone() + self.columns.0.clone() * Expr::index(horizontal.dilation);
        row * Expr::index(horizontal.input) + column
    }
}

/// How an integer pool divides by the size of its windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mean {
    /// `2^n` elements in every window: the exponent drops by `n`.
    Exponent(u32),
    /// One other count: times this factor, then shifted right by 15, half away from zero, then clamped to +-127.
    Factor(i32),
    /// Counts that differ: each window has the [`reciprocal`] of its own.
    Windows,
}

/// `round(2^15 / count)`. No tie: it would need 2^16 / count to be an odd integer.
pub(crate) fn reciprocal(count: usize) -> i32 {
    (((2 << RECIPROCAL_BITS) + count) / (2 * count)) as i32
}

/// [`reciprocal`] of an I32.
pub(crate) fn lower_reciprocal(b: &mut LoopBuilder, count: Expr) -> Expr {
    let count = b.let_("count", count);
    let twice = count.clone() + count.clone();
    b.let_("reciprocal", (Expr::i32(2 << RECIPROCAL_BITS) + count).divide(twice))
}

impl Mean {
    /// The mean of windows of `fewest` to `most` elements.
    pub(crate) fn of([fewest, most]: [usize; 2]) -> Mean {
        if fewest != most {
            Mean::Windows
        } else if most.is_power_of_two() {
            Mean::Exponent(most.trailing_zeros())
        } else {
            Mean::Factor(reciprocal(most))
        }
    }

    /// What remains to be done to a sum of elements; of [`Mean::Windows`] to one of elements times their windows'
    /// reciprocals.
    pub(crate) fn apply(self, sum: i64) -> i64 {
        let factor = match self {
            Mean::Exponent(_) => return sum,
            Mean::Factor(factor) => i64::from(factor),
            Mean::Windows => 1,
        };
        shift_right(sum * factor, RECIPROCAL_BITS, Rounding::HalfAway).clamp(-127, 127)
    }

    /// The exponent of what [`Mean::apply`] gives, of the operand's.
    pub(crate) fn exponent(self, exponent: i32) -> i32 {
        match self {
            Mean::Exponent(n) => exponent.wrapping_sub(n as i32),
            Mean::Factor(_) | Mean::Windows => exponent,
        }
    }

    /// [`Mean::apply`] of an I32.
    pub(crate) fn lower(self, b: &mut LoopBuilder, sum: Expr) -> Expr {
        let product = match self {
            Mean::Exponent(_) => return sum,
            Mean::Factor(factor) => b.let_("product", sum * Expr::i32(factor)),
            Mean::Windows => b.let_("product", sum),
        };
        let negative = product.clone().less(Expr::i32(0));
        let magnitude = negative.clone().select(Expr::i32(0) - product.clone(), product);
        let half = Expr::i32(1 << (RECIPROCAL_BITS - 1));
        let rounded = (magnitude + half).shift_right(Expr::i32(RECIPROCAL_BITS as i32));
        let rounded = b.let_("rounded", rounded);
        saturated(negative.select(Expr::i32(0) - rounded.clone(), rounded))
    }

    /// [`Mean::exponent`] of an I32.
    pub(crate) fn lower_exponent(self, exponent: Expr) -> Expr {
        match self {
            Mean::Exponent(n) => exponent - Expr::i32(n as i32),
            Mean::Factor(_) | Mean::Windows => exponent,
        }
    }
}

/// Refuses windows that an integer pool cannot sum in 32 bits.
pub(crate) fn integer_window(
    name: &str,
    ty: &TensorType,
    kernel: [usize; 2],
) -> Result<(), TypeError> {
    let count = kernel[0].saturating_mul(kernel[1]);
    ensure(ty.is_f32() || count <= INTEGER_TAPS, || {
        format!("{name}: a window of {count} integers is too large (at most {INTEGER_TAPS})")
    })
}

/// Refuses the gradient of windows of different counts, of `fewest` elements at least, whose errors times reciprocals
/// cannot be summed in 32 bits: an element is in so many windows of so few elements.
pub(crate) fn integer_overlap(
    name: &str,
    windows: &Windows,
    fewest: usize,
) -> Result<(), TypeError> {
    let along = |axis: &super::window::Axis| axis.kernel.div_ceil(axis.stride).min(axis.output);
    let overlap = along(&windows.vertical) * along(&windows.horizontal);
    let largest = overlap as i64 * i64::from(reciprocal(fewest)) * 128;
    ensure(largest <= i64::from(i32::MAX) - (1 << RECIPROCAL_BITS), || {
        format!(
            "{name}: {overlap} windows over one element are too many where one holds only {fewest} element(s)"
        )
    })
}

/// An I32 clamped to the symmetric i8 range.
pub(crate) fn saturated(x: Expr) -> Expr {
    x.minimum(Expr::i32(127)).maximum(Expr::i32(-127))
}
