//! Integers of at most 8 bits, and tensors of [B,H,W,C] (channels fastest).

use super::convolution::rank4;
use super::movement::result_shape;
use super::window::{Geometry, Windows};
use crate::loops::Expr;
use crate::loops::builder::LoopBuilder;
use crate::ops::TypeError;
use crate::ops::rule::ensure;
use crate::types::{Element, Scale, Shape, TensorType};

/// Refuses operands that are not unscaled integers of at most 8 bits.
pub(crate) fn infer(name: &str, ty: &TensorType) -> Result<(), TypeError> {
    ensure(is_narrow(ty.element) && ty.scale == Scale::None, || {
        format!("{name} takes unscaled integers of at most 8 bits, here {ty}")
    })
}

/// Whether an element is an integer of at most 8 bits.
pub(crate) fn is_narrow(element: Element) -> bool {
    element.bits() <= 8 && !element.is_float()
}

/// Refuses a padding value that is not one of the element.
pub(crate) fn padding(name: &str, value: i32, element: Element) -> Result<(), TypeError> {
    let fits =
        element.integer_range().is_some_and(|(low, high)| (low..=high).contains(&i64::from(value)));
    ensure(fits, || format!("{name}: the padding {value} is not a number of {element}"))
}

/// Refuses vectors that are not i32 with one element a channel, the channel being the last axis of `acc` (i32, too).
pub(crate) fn channelwise(
    name: &str,
    acc: &TensorType,
    vectors: &[&TensorType],
) -> Result<usize, TypeError> {
    let plain = |ty: &TensorType| ty.element == Element::I32 && ty.scale == Scale::None;
    ensure(plain(acc), || format!("{name} takes unscaled i32, here {acc}"))?;
    let Some(&channels) = acc.shape.last() else {
        return Err(TypeError::new(format!("{name} takes [.., C], here {acc}")));
    };
    match vectors.iter().find(|ty| !plain(ty) || ty.shape.dims() != [channels]) {
        None => Ok(channels),
        Some(ty) => Err(TypeError::new(format!(
            "{name} takes one i32 for each of {channels} channels, here {ty}"
        ))),
    }
}

/// Refuses results that do not all fit the element.
pub(crate) fn result_range(
    name: &str,
    [low, high]: [i64; 2],
    element: Element,
) -> Result<(), TypeError> {
    let fits = element
        .integer_range()
        .is_some_and(|(least, most)| least <= low && low <= high && high <= most);
    ensure(fits, || format!("{name}: {low} to {high} is not a range of {element}"))
}

/// A pool over [B,H,W,C] whose operand fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelsLastPool {
    batch: usize,
    channels: usize,
    windows: Windows,
}

/// One window in loops.
#[derive(Debug)]
pub(crate) struct ChannelsLastWindow {
    /// Number of the window's taps inside the operand (I64).
    pub(crate) taps: Expr,
    /// Index of the window's result.
    pub(crate) at: Expr,
    rows: (Expr, Expr),
    columns: (Expr, Expr),
    /// Index of the operand's element of this channel in tap (0, 0), which may lie outside.
    first: Expr,
    width: usize,
    channels: usize,
}

impl ChannelsLastPool {
    /// Checks the operand's shape.
    pub(crate) fn new(
        name: &str,
        [kernel, strides]: [[usize; 2]; 2],
        pads: [usize; 4],
        x: &Shape,
    ) -> Result<ChannelsLastPool, TypeError> {
        let [batch, height, width, channels] = rank4(name, "x", x)?;
        let geometry = Geometry { kernel, strides, pads, dilations: [1, 1], ceil: false };
        let windows = Windows::new(name, &geometry, [height, width])?;
        windows.never_empty(name)?;
        let pool = ChannelsLastPool { batch, channels, windows };
        result_shape(name, pool.y().to_vec())?;
        Ok(pool)
    }

    /// The pool over the bytes that hold eight bits each; `None` if channels are no whole bytes.
    pub(crate) fn of_bytes(&self) -> Option<ChannelsLastPool> {
        let whole = self.channels.is_multiple_of(8);
        whole.then_some(ChannelsLastPool { channels: self.channels / 8, ..*self })
    }

    /// Shape of the result.
    pub(crate) fn y(&self) -> [usize; 4] {
        let Windows { vertical, horizontal } = self.windows;
        [self.batch, vertical.output, horizontal.output, self.channels]
    }

    /// For each result, in order: a fold over the taps inside, from `first`, and their number given to `finish`.
    pub(crate) fn fold<T: Copy>(
        &self,
        x: &[T],
        first: i64,
        step: impl Fn(i64, T) -> i64,
        finish: impl Fn(i64, usize) -> i64,
    ) -> Vec<i64> {
        let Windows { vertical, horizontal } = self.windows;
        let image = vertical.input * horizontal.input * self.channels;
        let mut y = Vec::with_capacity(self.y().iter().product());
        for x in x.chunks_exact(image.max(1)) {
            for oh in 0..vertical.output {
                for ow in 0..horizontal.output {
                    let (rows, columns) = (vertical.taps(oh), horizontal.taps(ow));
                    let taps = rows.len() * columns.len();
                    for channel in 0..self.channels {
                        let mut value = first;
                        for kh in rows.clone() {
                            for kw in columns.clone() {
                                let row = vertical.position(oh, kh) * horizontal.input;
                                let pixel = row + horizontal.position(ow, kw);
                                value = step(value, x[pixel * self.channels + channel]);
                            }
                        }
                        y.push(finish(value, taps));
                    }
                }
            }
        }
        y
    }

    /// Loops over the windows and channels.
    pub(crate) fn for_windows(
        &self,
        b: &mut LoopBuilder,
        body: impl FnOnce(&mut LoopBuilder, &ChannelsLastWindow),
    ) {
        let Windows { vertical, horizontal } = self.windows;
        let (width, channels) = (horizontal.input, self.channels);
        b.for_("image", self.batch, |b, image| {
            b.for_("oh", vertical.output, |b, oh| {
                let rows = vertical.tap_range(b, &oh);
                let row = image.clone() * Expr::index(vertical.input) + vertical.origin(&oh);
                let row = b.let_("row", row * Expr::index(width));
                let line = image * Expr::index(vertical.output) + oh;
                let line = b.let_("line", line * Expr::index(horizontal.output));
                b.for_("ow", horizontal.output, |b, ow| {
                    let columns = horizontal.tap_range(b, &ow);
                    let pixel = (row + horizontal.origin(&ow)) * Expr::index(channels);
                    let pixel = b.let_("pixel", pixel);
                    let length = |(start, end): &(Expr, Expr)| end.clone() - start.clone();
                    let taps = length(&rows) * length(&columns);
                    let place = (line + ow) * Expr::index(channels);
                    b.for_("channel", channels, |b, channel| {
                        let window = ChannelsLastWindow {
                            taps,
                            at: place + channel.clone(),
                            rows,
                            columns,
                            first: pixel + channel,
                            width,
                            channels,
                        };
                        body(b, &window);
                    });
                });
            });
        });
    }
}

impl ChannelsLastWindow {
    /// Loops over the taps inside; the body gets the index of the operand's element.
    pub(crate) fn for_taps(&self, b: &mut LoopBuilder, body: impl FnOnce(&mut LoopBuilder, Expr)) {
        let (start, end) = self.rows.clone();
        b.for_range("kh", start, end, |b, kh| {
            let row = self.first.clone() + kh * Expr::index(self.width * self.channels);
            let row = b.let_("tap_row", row);
            let (start, end) = self.columns.clone();
            b.for_range("kw", start, end, |b, kw| {
                body(b, row + kw * Expr::index(self.channels));
            });
        });
    }
}
