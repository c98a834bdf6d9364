//! What a convolution kernel computes, free of the program around it.

use trainc_ir::implementation::Signature;
use trainc_ir::ops::{ScaleShift, Threshold};
use trainc_ir::product::{Numbers, Product};
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
    /// The convolution of a kernel, alone or with one output stage; `None` if it is none of plain integers.
    ///
    /// # Errors
    /// Why there is no kernel for it.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Convolution, String>> {
        let product = Product::of(signature.ops(), signature.inputs, |_| true)?;
        match product {
            Ok(product) if product.numbers != Numbers::Plain => None,
            product => Some(product.and_then(|product| Convolution::new(signature, &product))),
        }
    }

    fn new(signature: &Signature<'_>, product: &Product) -> Result<Convolution, String> {
        if product.ops < signature.ops().len() {
            return Err("more than an output stage follows".into());
        }
        let (&[x, w, ref operands @ ..], &[y]) = (signature.inputs, signature.outputs) else {
            return Err("it has not two operands and one result".into());
        };
        let stage =
            Stage::of(signature.ops().get(1), operands).ok_or("its thresholds are no table")?;
        let all = [x.count(), w.count(), y.count()];
        if all.iter().any(|&count| count >= 1 << 28) {
            return Err("its offsets exceed 32 bits".into());
        }
        if y.element == Element::B1 {
            return Err("its results are bits".into());
        }
        let c = product.convolution()?;
        Ok(Convolution {
            batch: c.images,
            input: [c.height, c.width],
            output: [c.rows, c.columns],
            channels: c.groups * c.channels,
            filters: c.groups * c.outputs,
            kernel: c.taps,
            strides: c.strides,
            pads: c.pads,
            dilations: c.dilations,
            groups: c.groups,
            padding: c.padding,
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

/// Whether elements are integers of at most a byte.
pub(crate) fn is_known(element: Element) -> bool {
    use Element::{I2, I4, I8, U2, U4, U8};
    matches!(element, U8 | I8 | U4 | I4 | U2 | I2)
}

/// Whether an integer element has signs.
pub(crate) fn is_signed(element: Element) -> bool {
    matches!(element, Element::I2 | Element::I4 | Element::I8 | Element::I32)
}

/// Bits of an element.
pub(crate) fn bits(element: Element) -> usize {
    element.bits() as usize
}
