//! Convolutions of each channel by a kernel of its own: forward, error gradient, weight gradient.
//!
//! Planes are copied into working memory with their padding, channel by channel, so that the images of a channel lie
//! one after another:
//!
//! | what | layout |
//! |---|---|
//! | padded planes | `[channel][image][row][column]`, u8 with 128 added, or i8; the zeros behind a row are also those before the next, likewise behind a plane |
//! | sums | `[channel][vector][position mod 4][32 lanes]` i32: lane l of the vector for i is position `4 l + i` |
//! | bytes | `[channel][vector][position]` i8 |
//! | wide sums | `[channel][vector][position, only multiples of the stride]` i32 |
//!
//! A vector of positions covers several rows, or all rows of several images; positions between the rows are computed
//! too, and dropped. The error gradient is the same with the kernel turned around and zeros between the errors of a
//! stride.

use super::depthwise_pack::PlanePacking;
use super::depthwise_strided::Strided;
use super::depthwise_windows::SheetWindows;
use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::pool::{VECTOR, gather};
use super::requantize::requantize;
use super::window::Span;
use crate::machine::MachineError;

/// Largest buffer.
const LARGEST: usize = 1 << 29;
/// Most words of a kernel: each is in a scalar register.
const WORDS: usize = 14;
/// Most columns of a kernel.
const COLUMNS: usize = 8;
/// Packets of a vector of rows that is copied between zeros.
pub(super) const COPIED: usize = 3;
/// Packets of 128 positions: of each word of a kernel, and their rounding.
pub(super) const WORD: usize = 2;
const POSITIONS: usize = 11;
/// Packets of a vector of positions of an image that is put in order.
const ORDERED: usize = 3;
/// Packets of a channel: its kernel.
pub(super) const CHANNEL: usize = 10;
/// Packets of a call with its phases.
pub(super) const CALL: usize = 200;

/// A convolution with a kernel for each channel. Operand `[images][channels][rows][columns]`, i8 or u8; kernels
/// `[channels][rows][columns]`, i8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depthwise {
    /// Images.
    pub images: usize,
    /// Channels of operand and result.
    pub channels: usize,
    /// Rows.
    pub vertical: Span,
    /// Columns.
    pub horizontal: Span,
    /// Whether the operand is u8; then there are sums only.
    pub unsigned: bool,
}

/// One axis of a pass over padded planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Positions of the operand.
    pub(super) input: usize,
    /// Padded positions from one of them to the next.
    pub(super) step: usize,
    /// Padded positions before them.
    pub(super) before: usize,
    /// Taps, and positions from one to the next.
    pub(super) taps: usize,
    pub(super) dilation: usize,
    /// Windows, and positions from one to the next.
    pub(super) output: usize,
    pub(super) stride: usize,
}

impl Line {
    fn forward(span: &Span) -> Line {
        let Span { input, output, kernel: taps, stride, dilation, before } = *span;
        Line { input, step: 1, before, taps, dilation, output, stride }
    }

    /// The error gradient's; `None` if it would leave out errors at the border.
    fn error(span: &Span) -> Option<Line> {
        let Span { input, output, kernel: taps, stride, dilation, before } = *span;
        let before = ((taps - 1) * dilation).checked_sub(before)?;
        Some(Line { input: output, step: stride, before, taps, dilation, output: input, stride: 1 })
    }

    /// Padded positions from the first of the operand to the last.
    fn extent(&self) -> usize {
        (self.input - 1) * self.step + 1
    }

    /// Positions from the first window to the last.
    pub(super) fn span(&self) -> usize {
        (self.output - 1) * self.stride + 1
    }

    /// Padded positions from a line to the next: one's zeros behind are the next's zeros before.
    fn pitch(&self) -> usize {
        let reach = self.span() + (self.taps - 1) * self.dilation;
        let after = reach.saturating_sub(self.before + self.extent());
        self.extent() + self.before.max(after)
    }
}

/// A pass of kernels over padded planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) vertical: Line,
    pub(super) horizontal: Line,
    /// Whether kernels are turned around.
    pub(super) turned: bool,
    /// Whether the operand is u8.
    pub(super) unsigned: bool,
    /// Whether sums are the result: in 32 bits, in the order of memory.
    pub(super) wide: bool,
}

/// What a vector of positions holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Rows of windows.
    pub(super) rows: usize,
    /// Images; several only with all their rows.
    pub(super) images: usize,
    /// Positions that are used, from the first on.
    pub(super) length: usize,
}

impl Sweep {
    /// Bytes from a padded row to the next.
    pub(super) fn row(&self) -> usize {
        self.horizontal.pitch()
    }

    /// Bytes from a padded plane to the next.
    pub(super) fn plane(&self) -> usize {
        let plane = self.vertical.pitch() * self.row();
        // Only multiples of the stride are kept of wide sums.
        if self.wide { plane.next_multiple_of(self.horizontal.stride) } else { plane }
    }

    /// Bytes from a channel to the next.
    pub(super) fn channel(&self) -> usize {
        (self.images * self.plane()).next_multiple_of(VECTOR)
    }

    /// Bytes between rows of windows.
    pub(super) fn window_row(&self) -> usize {
        self.vertical.stride * self.row()
    }

    pub(super) fn tile(&self) -> Tile {
        let span = self.horizontal.span();
        let row = self.window_row();
        let rows = ((VECTOR - span) / row + 1).min(self.vertical.output);
        let length = (rows - 1) * row + span;
        let images = match rows == self.vertical.output {
            true => ((VECTOR - length) / self.plane() + 1).min(self.images),
            false => 1,
        };
        Tile { rows, images, length: length + (images - 1) * self.plane() }
    }

    /// Vectors of an image, if they hold no more than one.
    pub(super) fn vectors_of_image(&self) -> usize {
        self.vertical.output.div_ceil(self.tile().rows)
    }

    /// Vectors of a channel.
    pub(super) fn vectors(&self) -> usize {
        match self.tile().images {
            1 => self.images * self.vectors_of_image(),
            together => self.images.div_ceil(together),
        }
    }

    /// Positions of one of a vector's images that are windows.
    pub(super) fn places(&self, image: usize) -> Vec<usize> {
        let start = image * self.plane();
        let row = |r: usize| {
            (0..self.horizontal.output)
                .map(move |c| start + r * self.window_row() + c * self.horizontal.stride)
        };
        (0..self.tile().rows).flat_map(row).collect()
    }

    /// Words of a row of a kernel.
    pub(super) fn words(&self) -> usize {
        self.horizontal.taps.div_ceil(4)
    }

    /// Padded planes as products take them: unsigned.
    pub(super) fn codes(&self) -> PlanePacking {
        self.packing(!self.unsigned)
    }

    pub(super) fn packing(&self, flip: bool) -> PlanePacking {
        PlanePacking {
            images: self.images,
            channels: self.channels,
            rows: self.vertical.input,
            columns: self.horizontal.input,
            steps: [self.vertical.step, self.horizontal.step],
            row: self.row(),
            plane: self.plane(),
            channel: self.channel(),
            first: self.vertical.before * self.row() + self.horizontal.before,
            flip,
        }
    }

    /// Whether there is something to do, and padded planes have a place of its own for each window.
    pub(super) fn has_places(&self) -> bool {
        let some = self.images > 0 && self.channels > 0 && self.horizontal.dilation == 1;
        some && [&self.vertical, &self.horizontal].iter().all(|line| {
            line.input > 0 && line.output > 0 && line.taps > 0 && line.span() <= line.pitch()
        })
    }

    /// An estimate of the packets of [`Self::kernel`].
    fn packets(&self) -> usize {
        if let Some(windows) = SheetWindows::of(self) {
            return windows.packets();
        }
        if let Some(strided) = Strided::of(self) {
            return strided.packets();
        }
        if self.wide {
            return self.wide_packets();
        }
        let ordered = match self.tile().images {
            1 => self.vectors(),
            _ => self.images,
        };
        let copied = self.packing(true).vectors() * COPIED;
        let positions = POSITIONS + WORD * self.vertical.taps * self.words();
        let each = copied + self.vectors() * positions + ordered * ORDERED + CHANNEL;
        self.channels * each + CALL
    }

    fn is_supported(&self) -> bool {
        SheetWindows::of(self).is_some()
            || Strided::of(self).is_some()
            || self.is_padded_supported()
    }

    fn is_padded_supported(&self) -> bool {
        let ordered = match self.wide {
            true => self.is_wide_order_supported(),
            false => (0..self.tile().images).all(|image| gather(&self.places(image)).is_some()),
        };
        ordered && self.is_sum_supported()
    }

    /// Whether padded planes' sums can be made.
    fn is_sum_supported(&self) -> bool {
        self.has_places()
            && self.horizontal.taps <= COLUMNS
            && self.vertical.taps * self.words() <= WORDS
            && self.horizontal.span() <= VECTOR
            && self.packing(true).is_supported()
            && 4 * self.channels * self.vectors() * VECTOR < LARGEST
    }

    /// Bytes of the result.
    pub(super) fn results(&self) -> usize {
        self.images * self.channels * self.vertical.output * self.horizontal.output
    }

    /// `int kernel(planes, kernels, result, working memory)`: requantises; returns the shift.
    fn kernel(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        if let Some(windows) = SheetWindows::of(self) {
            return windows.kernel(name, bits, low);
        }
        if let Some(strided) = Strided::of(self) {
            return strided.kernel(name, bits, low);
        }
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let (x, weights, y) =
            (Argument::Parameter(0), Argument::Parameter(1), Argument::Parameter(2));
        let vectors = self.channels * self.vectors();
        let packing = self.packing(true);
        let mut scratch = Scratch::default();
        let planes = scratch.take(packing.bytes());
        let sums = scratch.take(4 * vectors * VECTOR);
        let bytes = scratch.take(vectors * VECTOR);
        let end = scratch.take(3 * VECTOR);
        let (pack, pack_table) = packing.function(&phase_name("pack"))?;
        let (sweep, sweep_table) = self.sums(&phase_name("sums"))?;
        let sweep_table = sweep_table.into_iter();
        let (order, order_table) = self.order(&phase_name("order"))?;
        let phases = vec![
            Phase { function: pack, arguments: vec![x, planes] },
            Phase { function: sweep, arguments: vec![planes, weights, sums] },
            Phase {
                function: requantize(&phase_name("requantize"), 4 * vectors, bits, low)?,
                arguments: vec![sums, bytes, Argument::Result(1)],
            },
            Phase { function: order, arguments: vec![bytes, y, end] },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Each channel by its own kernel, requantised by the largest magnitude.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: [pack_table].into_iter().chain(sweep_table).chain([order_table]).collect(),
        })
    }
}

impl Depthwise {
    pub(super) fn forward(&self) -> Sweep {
        Sweep {
            images: self.images,
            channels: self.channels,
            vertical: Line::forward(&self.vertical),
            horizontal: Line::forward(&self.horizontal),
            turned: false,
            unsigned: self.unsigned,
            wide: false,
        }
    }

    fn wide_forward(&self) -> Sweep {
        Sweep { wide: true, ..self.forward() }
    }

    fn error(&self) -> Option<Sweep> {
        Some(Sweep {
            images: self.images,
            channels: self.channels,
            vertical: Line::error(&self.vertical)?,
            horizontal: Line::error(&self.horizontal)?,
            turned: true,
            unsigned: self.unsigned,
            wide: false,
        })
    }

    fn wide_error(&self) -> Option<Sweep> {
        Some(Sweep { wide: true, ..self.error()? })
    }

    /// Whether [`Self::convolution`] can do it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.forward().is_supported()
    }

    /// Whether [`Self::error_gradient`] can do it.
    #[must_use]
    pub fn is_error_supported(&self) -> bool {
        self.error().is_some_and(|sweep| sweep.is_supported())
    }

    /// `int kernel(x, w, y, working memory)`: `y = requantize(convolution)`; returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn convolution(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        self.forward().kernel(name, bits, low)
    }

    /// `int kernel(dy, w, dx, working memory)`: the error of the operand, requantised; returns the shift.
    ///
    /// # Errors
    /// Of the machine layer, or if it is not supported.
    pub fn error_gradient(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        self.error().ok_or_else(|| unsupported(name))?.kernel(name, bits, low)
    }

    /// An estimate of the packets of [`Self::convolution`].
    #[must_use]
    pub fn packets(&self) -> usize {
        self.forward().packets()
    }

    /// An estimate of the packets of [`Self::error_gradient`]; none if it is not supported.
    #[must_use]
    pub fn error_packets(&self) -> usize {
        self.error().map_or(0, |sweep| sweep.packets())
    }

    /// Whether [`Self::convolution_sums`] can do it.
    #[must_use]
    pub fn are_sums_supported(&self) -> bool {
        self.wide_forward().is_supported()
    }

    /// Whether [`Self::error_sums`] can do it.
    #[must_use]
    pub fn are_error_sums_supported(&self) -> bool {
        self.wide_error().is_some_and(|sweep| sweep.is_supported())
    }

    /// `void kernel(x, w, y, working memory)`: `y` = convolution, i32 `[image][channel][row][column]`.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn convolution_sums(&self, name: &str) -> Result<Kernel, MachineError> {
        self.wide_forward().wide_kernel(name)
    }

    /// `void kernel(dy, w, dx, working memory)`: the error of the operand, i32 as the operand lies.
    ///
    /// # Errors
    /// Of the machine layer, or if it is not supported.
    pub fn error_sums(&self, name: &str) -> Result<Kernel, MachineError> {
        self.wide_error().ok_or_else(|| unsupported(name))?.wide_kernel(name)
    }

    /// An estimate of the packets of [`Self::convolution_sums`].
    #[must_use]
    pub fn sum_packets(&self) -> usize {
        self.wide_forward().packets()
    }

    /// An estimate of the packets of [`Self::error_sums`]; none if it is not supported.
    #[must_use]
    pub fn error_sum_packets(&self) -> usize {
        self.wide_error().map_or(0, |sweep| sweep.packets())
    }

    /// Multiplications, those with padding included.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        let positions = self.vertical.output * self.horizontal.output;
        self.images * self.channels * positions * self.vertical.kernel * self.horizontal.kernel
    }
}

fn unsupported(function: &str) -> MachineError {
    MachineError::Operand { function: function.into(), reason: "padding exceeds the kernel".into() }
}
