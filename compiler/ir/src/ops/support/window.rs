//! Windows of convolutions and pools: sizes, and which taps of which windows fall inside the operand.
//!
//! Along one axis, tap `k` of window `o` reads position `o * stride + k * dilation - before` of the operand.
//! All checks are in [`Axis::new`]; a built axis has small, consistent numbers, so nothing after it can overflow.

use std::ops::Range;

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, Scalar};
use crate::ops::TypeError;
use crate::ops::rule::ensure;

/// Largest size, stride, dilation or padding of an axis.
const LIMIT: usize = i32::MAX as usize;

/// Attributes of a window, both axes (vertical first; pads are top, left, bottom, right).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) pads: [usize; 4],
    pub(crate) dilations: [usize; 2],
    pub(crate) ceil: bool,
}

/// One axis of checked windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// Size of the operand.
    pub(crate) input: usize,
    /// Taps of a window.
    pub(crate) kernel: usize,
    /// Positions from a window to the next.
    pub(crate) stride: usize,
    /// Positions from a tap to the next.
    pub(crate) dilation: usize,
    /// Padding before the operand.
    pub(crate) before: usize,
    /// Padding after the operand.
    pub(crate) after: usize,
    /// Number of windows.
    pub(crate) output: usize,
}

/// Both axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Rows.
    pub(crate) vertical: Axis,
    /// Columns.
    pub(crate) horizontal: Axis,
}

impl Windows {
    /// Windows of `geometry` over an operand of `[H, W]` = `input`.
    pub(crate) fn new(
        name: &str,
        geometry: &Geometry,
        input: [usize; 2],
    ) -> Result<Windows, TypeError> {
        let axis = |i: usize, place: &str| {
            Axis::new(
                geometry.kernel[i],
                geometry.strides[i],
                geometry.dilations[i],
                [geometry.pads[i], geometry.pads[i + 2]],
                geometry.ceil,
                input[i],
            )
            .map_err(|e| TypeError::new(format!("{name}: {place}: {e}")))
        };
        Ok(Windows { vertical: axis(0, "height")?, horizontal: axis(1, "width")? })
    }

    /// Refuses windows without any tap inside the operand: a pool has nothing to say about them.
    pub(crate) fn never_empty(&self, name: &str) -> Result<(), TypeError> {
        ensure(self.vertical.never_empty() && self.horizontal.never_empty(), || {
            format!("{name}: a window lies in the padding alone")
        })
    }
}

impl Axis {
    fn new(
        kernel: usize,
        stride: usize,
        dilation: usize,
        [before, after]: [usize; 2],
        ceil: bool,
        input: usize,
    ) -> Result<Axis, TypeError> {
        for (value, what) in [(kernel, "kernel"), (stride, "stride"), (dilation, "dilation")] {
            ensure(value >= 1, || format!("the {what} is 0"))?;
            ensure(value <= LIMIT, || format!("the {what} {value} is too large"))?;
        }
        for (value, what) in [(before, "padding"), (after, "padding"), (input, "operand")] {
            ensure(value <= LIMIT, || format!("the {what} {value} is too large"))?;
        }
        ensure(input >= 1, || "the operand is empty".into())?;
        let padded = before + input + after;
        let extent = (kernel - 1).checked_mul(dilation).and_then(|n| n.checked_add(1));
        let Some(slack) = extent.and_then(|extent| padded.checked_sub(extent)) else {
            return Err(TypeError::new(format!(
                "a window of {kernel} tap(s) with dilation {dilation} exceeds the padded operand of {padded}"
            )));
        };
        let mut output = slack / stride + 1;
        // A partial window counts if it starts inside the operand or the padding before it.
        if ceil && slack % stride != 0 && output * stride < input + before {
            output += 1;
        }
        Ok(Axis { input, kernel, stride, dilation, before, after, output })
    }

    /// Operand position of a tap that is inside.
    pub(crate) fn position(&self, window: usize, tap: usize) -> usize {
        window * self.stride + tap * self.dilation - self.before
    }

    /// Taps of a window that are inside the operand.
    pub(crate) fn taps(&self, window: usize) -> Range<usize> {
        let start = window * self.stride;
        let first = self.before.saturating_sub(start).div_ceil(self.dilation);
        let end = (self.input + self.before).saturating_sub(start).div_ceil(self.dilation);
        first.min(self.kernel)..end.min(self.kernel).max(first.min(self.kernel))
    }

    /// Windows for which a tap is inside the operand.
    pub(crate) fn windows(&self, tap: usize) -> Range<usize> {
        let offset = tap * self.dilation;
        let first = self.before.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.input + self.before).saturating_sub(offset).div_ceil(self.stride);
        first.min(self.output)..end.min(self.output).max(first.min(self.output))
    }

    /// The window whose tap reads a position, if there is one.
    pub(crate) fn window_at(&self, position: usize, tap: usize) -> Option<usize> {
        let start = (position + self.before).checked_sub(tap * self.dilation)?;
        (start.is_multiple_of(self.stride) && start / self.stride < self.output)
            .then(|| start / self.stride)
    }

    /// Number of positions of a window (dilation 1) inside the operand with its padding.
    pub(crate) fn padded_taps(&self, window: usize) -> usize {
        let start = window * self.stride;
        self.kernel.min(self.before + self.input + self.after - start)
    }

    /// Whether every tap of every window is inside the operand.
    pub(crate) fn all_inside(&self) -> bool {
        self.before == 0
            && (self.output - 1) * self.stride + (self.kernel - 1) * self.dilation < self.input
    }

    /// Whether every window has a tap in the operand.
    pub(crate) fn never_empty(&self) -> bool {
        // Only windows that start before the operand, and the last one, can miss it.
        let early = (self.before / self.stride + 1).min(self.output);
        early <= 1 << 20
            && (0..early).chain([self.output - 1]).all(|window| !self.taps(window).is_empty())
    }

    /// [`Axis::taps`] as expressions of a window (I64); constants where all taps are inside.
    pub(crate) fn tap_range(&self, b: &mut LoopBuilder, window: &Expr) -> (Expr, Expr) {
        let start = window.clone() * Expr::index(self.stride);
        let step = self.dilation;
        let first = match self.before {
            0 => Expr::i64(0),
            before => ceiling_quotient(b, Expr::index(before) - start.clone(), step),
        };
        let last_start = (self.output - 1) * self.stride;
        let end = match last_start + (self.kernel - 1) * step < self.input + self.before {
            true => Expr::index(self.kernel),
            false => {
                let end = ceiling_quotient(b, Expr::index(self.input + self.before) - start, step);
                b.let_("tap_end", end.minimum(Expr::index(self.kernel)))
            }
        };
        (first, end)
    }

    /// [`Axis::windows`] as expressions of a tap (I64); constants where all taps are inside.
    pub(crate) fn window_range(&self, b: &mut LoopBuilder, tap: &Expr) -> (Expr, Expr) {
        if self.all_inside() {
            return (Expr::i64(0), Expr::index(self.output));
        }
        let offset = tap.clone() * Expr::index(self.dilation);
        let first = ceiling_quotient(b, Expr::index(self.before) - offset.clone(), self.stride);
        let end = ceiling_quotient(b, Expr::index(self.input + self.before) - offset, self.stride);
        let end = b.let_("window_end", end.minimum(Expr::index(self.output)));
        (first, end)
    }

    /// [`Axis::window_at`] as expressions: whether there is one, and which.
    pub(crate) fn window_expression(
        &self,
        b: &mut LoopBuilder,
        position: &Expr,
        tap: &Expr,
    ) -> (Expr, Expr) {
        let start = position.clone() + Expr::index(self.before);
        let start = b.let_("start", start - tap.clone() * Expr::index(self.dilation));
        let inside = Expr::i64(-1).less(start.clone());
        let inside = inside.and(start.clone().less(Expr::index(self.output * self.stride)));
        if self.stride == 1 {
            return (inside, start);
        }
        let whole = start.clone().remainder(Expr::index(self.stride)).equal(Expr::i64(0));
        let window = b.let_("window", start.divide(Expr::index(self.stride)));
        (inside.and(whole), window)
    }

    /// Position of tap 0 of a window, which may be negative.
    pub(crate) fn origin(&self, window: &Expr) -> Expr {
        window.clone() * Expr::index(self.stride) - Expr::index(self.before)
    }
}

/// `ceil(max(distance, 0) / step)`, named.
fn ceiling_quotient(b: &mut LoopBuilder, distance: Expr, step: usize) -> Expr {
    debug_assert_eq!(distance.ty, Scalar::I64);
    let quotient = match distance.as_constant() {
        Some(distance) => Expr::index((distance.max(0) as usize).div_ceil(step)),
        None => (distance.maximum(Expr::i64(0)) + Expr::index(step - 1)).divide(Expr::index(step)),
    };
    match quotient.as_constant() {
        Some(_) => quotient,
        None => b.let_("bound", quotient),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(k: usize, s: usize, d: usize, pads: [usize; 2], ceil: bool, n: usize) -> Axis {
        Axis::new(k, s, d, pads, ceil, n).expect("a window")
    }

    /// Sizes of the ONNX operators' examples and of its shape formula.
    #[test]
    fn output_sizes() {
        assert_eq!(axis(3, 2, 1, [0, 0], false, 4).output, 1);
        assert_eq!(axis(3, 2, 1, [0, 0], true, 4).output, 2);
        assert_eq!(axis(3, 2, 1, [1, 1], false, 7).output, 4);
        // ceil((2 + 0 - 1) / 2) + 1 = 2 windows, but the second would start at 2, after the operand.
        assert_eq!(axis(1, 2, 1, [0, 0], true, 2).output, 1);
        // ceil((2 + 1 - 1) / 3) + 1 = 2, the second would start at 3 = input + padding before.
        assert_eq!(axis(1, 3, 1, [1, 0], true, 2).output, 1);
        assert_eq!(axis(3, 1, 2, [0, 0], false, 5).output, 1);
    }

    /// Ranges against the definition, position by position.
    #[test]
    fn ranges_are_the_definition() {
        for code in 0..3 * 3 * 3 * 4 * 4 * 2 * 5 {
            let mut rest = code;
            let mut digit = |n: usize| {
                let digit = rest % n;
                rest /= n;
                digit
            };
            let (k, s, d) = (digit(3) + 1, digit(3) + 1, digit(3) + 1);
            let (pads, ceil, n) = ([digit(4), digit(4)], digit(2) == 1, digit(5) + 1);
            let Ok(axis) = Axis::new(k, s, d, pads, ceil, n) else { continue };
            let inside = |o: usize, t: usize| {
                let position = (o * s + t * d) as i64 - pads[0] as i64;
                (0..n as i64).contains(&position).then_some(position as usize)
            };
            for o in 0..axis.output {
                for t in 0..k {
                    assert_eq!(axis.taps(o).contains(&t), inside(o, t).is_some(), "{axis:?}");
                    assert_eq!(axis.windows(t).contains(&o), inside(o, t).is_some(), "{axis:?}");
                    if let Some(position) = inside(o, t) {
                        assert_eq!(axis.window_at(position, t), Some(o), "{axis:?}");
                        assert_eq!(axis.position(o, t), position);
                    }
                }
            }
            let full = (0..axis.output).all(|o| (0..k).all(|t| inside(o, t).is_some()));
            assert_eq!(axis.all_inside(), full, "{axis:?}");
            let empty = (0..axis.output).any(|o| (0..k).all(|t| inside(o, t).is_none()));
            assert_eq!(axis.never_empty(), !empty, "{axis:?}");
        }
    }

    #[test]
    fn hostile_attributes_are_refused() {
        let huge = usize::MAX;
        for (k, s, d, pads, n) in [
            (0, 1, 1, [0, 0], 4),
            (1, 0, 1, [0, 0], 4),
            (1, 1, 0, [0, 0], 4),
            (5, 1, 1, [0, 0], 4),
            (huge, 1, 1, [0, 0], 4),
            (2, huge, 1, [0, 0], 4),
            (2, 1, huge, [0, 0], 4),
            (LIMIT, 1, LIMIT, [0, 0], 4),
            (1, 1, 1, [huge, 0], 4),
            (1, 1, 1, [0, huge], 4),
            (1, 1, 1, [1, 1], 0),
            (1, 1, 1, [0, 0], huge),
        ] {
            assert!(Axis::new(k, s, d, pads, true, n).is_err(), "{k} {s} {d} {pads:?} {n}");
        }
    }
}
