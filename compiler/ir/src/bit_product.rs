//! Convolutions of packed bits with what becomes of their sums, as targets with kernels of their own for them see a kernel.

use crate::implementation::Signature;
use crate::ops::{BinaryConv2d, Op};
use crate::types::Element;

/// A convolution of bits, with a threshold of one level or alone.
#[derive(Clone, Debug)]
pub struct BitProduct {
    /// The convolution.
    pub conv: BinaryConv2d,
    /// Batch, height, width and bytes of a pixel of the operand, of all groups.
    pub x: [usize; 4],
    /// Output channels, rows and columns of the weights.
    pub w: [usize; 3],
    /// Height and width of the result.
    pub y: [usize; 2],
    /// What becomes of the sums.
    pub tail: BitTail,
}

/// What becomes of a bit product's sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitTail {
    /// They are stored.
    Sums,
    /// Bits, by thresholds: the third operand has the least sum of each channel.
    Threshold,
    /// Bits, by thresholds of sums or their complements: the fourth operand has 0 or -1 for each channel.
    Flipped,
}

impl BitTail {
    /// What follows the sums of a product `[..,C]` with two operands.
    ///
    /// # Errors
    /// If it is something else.
    pub fn of(rest: &[Op], signature: &Signature<'_>) -> Result<BitTail, String> {
        let features = signature.outputs[0].shape.last().copied().unwrap_or(0);
        match (rest, signature.inputs.len()) {
            ([], _) => Ok(BitTail::Sums),
            ([Op::Threshold(stage)], operands)
                if (stage.low, stage.element) == (0, Element::B1)
                    && signature.inputs[2].shape[1] == 1
                    && features.is_multiple_of(8) =>
            {
                Ok(if operands == 4 { BitTail::Flipped } else { BitTail::Threshold })
            }
            _ => Err("what follows the sums is no bit of each in whole bytes".into()),
        }
    }
}

impl BitProduct {
    /// The convolution of bits that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why it is none: what follows the sums, padding with 1 or -1, dilations, groups.
    pub fn of(signature: &Signature<'_>) -> Option<Result<BitProduct, String>> {
        let product = BitProduct::grouped(signature)?;
        Some(product.and_then(|product| match product.conv.groups {
            1 => Ok(product),
            _ => Err("it has groups".into()),
        }))
    }

    /// As [`BitProduct::of`], with groups.
    ///
    /// # Errors
    /// As its, but for those.
    pub fn grouped(signature: &Signature<'_>) -> Option<Result<BitProduct, String>> {
        let (Op::BinaryConv2d(conv), rest) = signature.ops().split_first()? else { return None };
        Some(BitProduct::new(conv, rest, signature))
    }

    /// Bytes of a group's channels in a pixel.
    pub fn bytes(&self) -> usize {
        self.x[3] / self.conv.groups
    }

    /// Output channels of a group.
    pub fn members(&self) -> usize {
        self.w[0] / self.conv.groups
    }

    fn new(
        conv: &BinaryConv2d,
        rest: &[Op],
        signature: &Signature<'_>,
    ) -> Result<BitProduct, String> {
        let [_, y_height, y_width, features] = four(&signature.outputs[0].shape)?;
        let tail = BitTail::of(rest, signature)?;
        let [batch, height, width, stored] = four(&signature.inputs[0].shape)?;
        let [_, rows, columns, _] = four(&signature.inputs[1].shape)?;
        if conv.padding != 0 && conv.pads != [0; 4] {
            return Err("its padding is not 0".into());
        }
        if conv.dilations != [1, 1] {
            return Err("its taps are dilated".into());
        }
        Ok(BitProduct {
            conv: conv.clone(),
            x: [batch, height, width, stored / 8],
            w: [features, rows, columns],
            y: [y_height, y_width],
            tail,
        })
    }
}

fn four(shape: &[usize]) -> Result<[usize; 4], String> {
    shape.try_into().map_err(|_| "not four dimensions".to_string())
}
