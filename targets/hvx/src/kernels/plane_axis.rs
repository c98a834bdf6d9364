//! One axis of the products of planes. At a stride, positions fall into parts, every stride-th from a start; in a part neighbouring
//! windows read neighbouring positions, so that a tap is a distance again.

use super::window::Span;

/// Every stride-th position of an axis, from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The first position.
    pub start: usize,
    /// Positions.
    pub count: usize,
}

/// Positions of the operand that lie side by side in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandPart {
    /// The positions.
    pub part: Part,
    /// Their first place in a frame.
    pub first: usize,
}

/// A tap that the windows of a part have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tap {
    /// Of the weights.
    pub tap: usize,
    /// Which part of the operand it reads.
    pub operand: usize,
    /// The place that the part's first window reads.
    pub place: usize,
}

/// Positions of the result whose windows have the same taps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResultPart {
    /// The positions.
    pub part: Part,
    /// Their taps.
    pub taps: Vec<Tap>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaneAxis {
    /// Positions of the operand.
    pub input: usize,
    /// Positions of the result.
    pub output: usize,
    /// Taps of the weights.
    pub taps: usize,
    /// From a position of a part of the operand to the next.
    pub operand_stride: usize,
    /// From a position of a part of the result to the next.
    pub result_stride: usize,
    /// Parts of the operand that windows read.
    pub operand: Vec<OperandPart>,
    /// All positions of the result.
    pub result: Vec<ResultPart>,
    /// Positions behind a tap's place that go with it.
    pub beside: usize,
}

impl PlaneAxis {
    /// The windows of the convolution itself: its operand falls into parts.
    #[must_use]
    pub fn forward(span: &Span) -> PlaneAxis {
        let Span { input, output, kernel, stride, dilation, before } = *span;
        let mut remainders: Vec<usize> = (0..kernel).map(|tap| tap * dilation % stride).collect();
        remainders.sort_unstable();
        remainders.dedup();
        let operand = |&remainder: &usize| {
            // Windows, padding included, whose such place lies before the operand.
            let first = before.saturating_sub(remainder).div_ceil(stride);
            let start = first * stride + remainder - before;
            let count = input.saturating_sub(start).div_ceil(stride);
            OperandPart { part: Part { start, count }, first }
        };
        let tap = |tap: usize| {
            let at = tap * dilation;
            let operand = remainders.iter().position(|&r| r == at % stride).unwrap_or(0);
            Tap { tap, operand, place: at / stride }
        };
        let taps = (0..kernel).map(tap).collect();
        PlaneAxis {
            input,
            output,
            taps: kernel,
            operand_stride: stride,
            result_stride: 1,
            operand: remainders.iter().map(operand).collect(),
            result: vec![ResultPart { part: Part { start: 0, count: output }, taps }],
            beside: 0,
        }
    }

    /// Windows that are a position each, one after the other.
    #[must_use]
    pub fn each_position(count: usize) -> PlaneAxis {
        let (kernel, stride, dilation, before) = (1, 1, 1, 0);
        Self::forward(&Span { input: count, output: count, kernel, stride, dilation, before })
    }

    /// Whether windows are a position each, one after the other.
    #[must_use]
    pub fn is_each_position(&self) -> bool {
        *self == Self::each_position(self.input)
    }

    /// The windows of a convolution at stride 1 whose neighbouring positions go four at a time, as one tap.
    #[must_use]
    pub fn forward_by_fours(span: &Span) -> PlaneAxis {
        let taps = span.kernel.div_ceil(4);
        let tap = |tap: usize| Tap { tap, operand: 0, place: 4 * tap };
        let part = Part { start: 0, count: span.output };
        PlaneAxis {
            taps,
            result: vec![ResultPart { part, taps: (0..taps).map(tap).collect() }],
            beside: span.kernel - 1 - 4 * (taps - 1),
            ..PlaneAxis::forward(span)
        }
    }

    /// The error gradient's windows, which gather what read a position: its result falls into parts.
    #[must_use]
    pub fn error(span: &Span) -> PlaneAxis {
        let Span { input, output, kernel, stride, dilation, before } = *span;
        // The window whose tap reads a part's first position, and the places of the frame before the first window.
        let window = |start: usize, tap: usize| {
            let distance = (start + before).cast_signed() - (tap * dilation).cast_signed();
            (distance % stride.cast_signed() == 0).then_some(distance / stride.cast_signed())
        };
        let starts = 0..stride.min(input);
        let read = starts.clone().flat_map(|start| (0..kernel).map(move |tap| (start, tap)));
        let least = read.filter_map(|(start, tap)| window(start, tap)).min().unwrap_or(0);
        let first = least.min(0).unsigned_abs();
        let result = |start: usize| {
            let tap = |tap: usize| {
                let place = window(start, tap)?.checked_add_unsigned(first)?;
                Some(Tap { tap, operand: 0, place: place.unsigned_abs() })
            };
            let part = Part { start, count: (input - start).div_ceil(stride) };
            ResultPart { part, taps: (0..kernel).filter_map(tap).collect() }
        };
        PlaneAxis {
            input: output,
            output: input,
            taps: kernel,
            operand_stride: 1,
            result_stride: stride,
            operand: vec![OperandPart { part: Part { start: 0, count: output }, first }],
            result: starts.map(result).collect(),
            beside: 0,
        }
    }

    /// Places from a row of a frame to the next, of the axis of columns: zeros between rows are as many as one side of the padding
    /// takes.
    #[must_use]
    pub fn pitch(&self) -> usize {
        let read = self.result.iter().flat_map(|result| {
            let behind = |tap: &Tap| {
                let behind = result.part.count + tap.place + self.beside;
                behind.saturating_sub(self.operand[tap.operand].first)
            };
            result.taps.iter().map(behind).collect::<Vec<usize>>()
        });
        let held = self.operand.iter().map(|operand| operand.first + operand.part.count);
        read.chain(held).max().unwrap_or(1).max(self.longest())
    }

    /// Positions of the longest part of the result.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.result.iter().map(|result| result.part.count).max().unwrap_or(0)
    }

    /// The last place that a part's first window reads.
    #[must_use]
    pub fn last_place(&self) -> usize {
        self.result.iter().flat_map(|result| &result.taps).map(|tap| tap.place).max().unwrap_or(0)
    }
}
