//! What a convolution kernel computes, free of the program around it.

use trainc_ir::ops::{Chain, IntegerConv2d, ScaleShift, Threshold};
use trainc_ir::{Element, Op, TensorType};

/// What becomes of the sums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// They are the result.
    Sums,
    /// See [`ScaleShift`].
    ScaleShift(ScaleShift),
    /// See [`Threshold`], with the number of thresholds of a channel and whether there are flips.
    Threshold { threshold: Threshold, levels: usize, flips: bool },
}

impl Stage {
    /// The stage of a chain's last operation, with the operands that are its own.
    pub(crate) fn of(op: Option<&Op>, operands: &[&TensorType]) -> Option<Stage> {
        Some(match op {
            None => Stage::Sums,
            Some(Op::ScaleShift(scale_shift)) => Stage::ScaleShift(scale_shift.clone()),
            Some(Op::Threshold(threshold)) => Stage::Threshold {
                threshold: threshold.clone(),
                levels: *operands.first()?.shape.dims().get(1)?,
                flips: operands.len() == 2,
            },
            _ => return None,
        })
    }
}

/// A convolution, channels last, and its output stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Convolution {
    pub(crate) batch: usize,
    /// Rows and columns of the operand.
    pub(crate) input: [usize; 2],
    /// Rows and columns of the result.
    pub(crate) output: [usize; 2],
    pub(crate) channels: usize,
    pub(crate) filters: usize,
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    /// Top, left, bottom, right.
    pub(crate) pads: [usize; 4],
    pub(crate) dilations: [usize; 2],
    pub(crate) groups: usize,
    pub(crate) padding: i32,
    pub(crate) x: Element,
    pub(crate) w: Element,
    pub(crate) y: Element,
    pub(crate) stage: Stage,
}

impl Convolution {
    /// The convolution of an operation, alone or in a chain with one output stage.
    pub(crate) fn of(
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<Convolution> {
        let (conv, stage): (&IntegerConv2d, Option<&Op>) = match op {
            Op::IntegerConv2d(conv) => (conv, None),
            Op::Chain(Chain { ops }) => match &ops[..] {
                [Op::IntegerConv2d(conv), stage] => (conv, Some(stage)),
                _ => return None,
            },
            _ => return None,
        };
        let stage = Stage::of(stage, inputs.get(2..)?)?;
        let [x, w, ..] = inputs else { return None };
        let [y] = outputs else { return None };
        let (&[batch, height, width, channels], &[filters, kh, kw, _], &[_, rows, columns, _]) =
            (x.shape.dims(), w.shape.dims(), y.shape.dims())
        else {
            return None;
        };
        let all = [x.count(), w.count(), y.count()];
        // Offsets are 32-bit.
        if all.iter().any(|&count| count == 0 || count >= 1 << 28) {
            return None;
        }
        Some(Convolution {
            batch,
            input: [height, width],
            output: [rows, columns],
            channels,
            filters,
            kernel: [kh, kw],
            strides: conv.strides,
            pads: conv.pads,
            dilations: conv.dilations,
            groups: conv.groups,
            padding: conv.padding,
            x: x.element,
            w: w.element,
            y: y.element,
            stage,
        })
    }

    /// Multiplications.
    pub(crate) fn products(&self) -> u64 {
        let taps = self.kernel[0] * self.kernel[1] * self.channels / self.groups;
        (self.batch * self.output[0] * self.output[1] * self.filters * taps) as u64
    }

    /// Whether the operand has signs.
    pub(crate) fn is_signed(&self) -> bool {
        is_signed(self.x)
    }

    /// Whether each channel has a filter of its own, and they fill a tile.
    pub(crate) fn is_depthwise(&self) -> bool {
        let own = self.groups == self.channels && self.groups == self.filters;
        own && self.groups >= 4
    }

    /// Bytes of the padding's number, four alike.
    pub(crate) fn padding_word(&self) -> u32 {
        u32::from(self.padding as u8) * 0x0101_0101
    }
}

/// Whether an integer element has signs.
pub(crate) fn is_signed(element: Element) -> bool {
    matches!(element, Element::I2 | Element::I4 | Element::I8 | Element::I32)
}

/// Bits of an element.
pub(crate) fn bits(element: Element) -> usize {
    element.bits() as usize
}
