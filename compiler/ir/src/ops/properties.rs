//! What operations say of themselves, each in its own file, for rules, passes and estimates to read.

use crate::keyword_enum;
use crate::types::TensorType;

keyword_enum! {
    /// A fact about every instance of an operation.
    pub enum Property {
        /// Linear in each of its two operands: a sum of products, modulo 2^32 in integers.
        Bilinear = "bilinear",
        /// Passes over its result are worth taking into its kernel.
        BeginsChain = "begins_chain",
        /// Worth taking into the kernel that gives its first operand, where the result has that operand's shape.
        ContinuesChain = "continues_chain",
        /// Has readers of its own by what it is: nothing behind it is worth taking into its kernel.
        EndsChain = "ends_chain",
        /// i32 sums that are cheap enough to be made twice: a rounding behind it is worth taking into its kernel.
        SumsOfCodes = "sums_of_codes",
        /// Brings i32 sums to 8 bits by the width of the largest of them.
        RoundsSums = "rounds_sums",
        /// One tensor operand, and a result that does not depend on its shape: elementwise, or by the whole tensor.
        IgnoresShape = "ignores_shape",
        /// The result's elements are elements of the operands as they are, or zeros.
        Moves = "moves",
        /// Puts FP32 values on a grid that further operands give.
        Quantizes = "quantizes",
        /// Takes any number of operands.
        Variadic = "variadic",
    }
}

/// What the loops of an operation do beside reading operands and writing results: what estimates of cost start from.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// So little that moving the elements is what takes time.
    Little,
    /// Sums in a fixed order, or reads with a stride.
    Strides,
    /// Windows, an element at a time.
    Windows,
    /// A polynomial or a random number for each element.
    Series,
    /// So many multiplications for each result, from the operands' types.
    Products(fn(&[&TensorType]) -> usize),
}

/// Elements of a tensor for each index of one axis.
pub(crate) fn by_index(ty: &TensorType, axis: usize) -> usize {
    ty.count() / ty.shape.get(axis).copied().unwrap_or(1).max(1)
}

/// How a result moves with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Never both up and down: each of its roundings keeps the order.
    Monotone,
    /// Up, but for what its approximation does.
    Approximate,
}

/// The operands of a node by whether they hold a row an example.
#[derive(Clone, Copy, Debug)]
pub struct Examples<'a> {
    /// Whether an operand holds a row for each example; the others are the same for all.
    pub data: &'a [bool],
    /// The operands' types.
    pub inputs: &'a [&'a TensorType],
    /// The type of the first result.
    pub output: &'a TensorType,
    /// The number of examples.
    pub examples: usize,
}

impl Examples<'_> {
    /// Whether the first operand holds rows, and no other.
    pub fn only_first(&self) -> bool {
        self.data.first() == Some(&true) && !self.data[1..].contains(&true)
    }

    /// Whether rows of the operands meet rows of the same examples under broadcasting, and all else is the same for all.
    pub fn broadcast(&self) -> bool {
        let rank = self.output.shape.rank();
        self.data.iter().zip(self.inputs).all(|(&data, ty)| match data {
            true => ty.shape.rank() == rank && ty.shape[0] == self.examples,
            false => ty.shape.rank() < rank || ty.shape[0] == 1,
        })
    }
}
