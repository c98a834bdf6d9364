//! Loop kernels: what every target can run.
//!
//! Each operation lowers to a [`LoopKernel`], a nest of counted loops over flat buffers with scalar integer and
//! float expressions. A target prints or compiles these, so it serves any operation; tuned kernels replace them
//! where they pay. An operation's meaning stays its `evaluate`; the lowering is checked against it bit for bit
//! by [`evaluate`], which runs loop kernels on any machine.
//!
//! Arithmetic is exact and total: integers wrap, shifts take their amount modulo nothing (the builder's user
//! keeps it below the width), floats are IEEE binary32 without contraction, division by zero does not occur.

pub mod builder;
pub mod evaluate;
pub mod packed;
pub mod scratch;
mod walk;

pub use walk::{each_expression, each_statement, height};

use crate::attributes::F32;
use crate::types::Element;

/// The type of a scalar expression. Narrow elements are widened by loads and truncated by stores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scalar {
    /// 32-bit integer; signedness is in the operation.
    I32,
    /// 64-bit integer: indices and wide sums.
    I64,
    /// IEEE binary32.
    F32,
    /// Truth value.
    Bool,
}

/// A mutable scalar or a loop variable of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Local(pub u32);

/// A buffer parameter of a kernel, by position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Buffer(pub u32);

/// A typed scalar expression.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Expr {
    /// Type of the result.
    pub ty: Scalar,
    /// What computes it.
    pub node: Box<Node>,
}

/// The forms of expressions.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Node {
    /// An integer constant (I32, I64 or Bool).
    Integer(i64),
    /// A float constant.
    Float(F32),
    /// A local's current value.
    Local(Local),
    /// An element: i8/i16/i32 sign-extend, u8/u16 zero-extend to I32; u32 loads as I32 bits; f32 loads as F32.
    Load(Buffer, Expr),
    /// One operand.
    Unary(Unary, Expr),
    /// Two operands of one type.
    Binary(Binary, Expr, Expr),
    /// Comparison of two operands of one type; result Bool.
    Compare(Comparison, Expr, Expr),
    /// `if .0 then .1 else .2`; both sides may be computed.
    Select(Expr, Expr, Expr),
}

/// Operations on one scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Unary {
    /// Negation (integers wrap).
    Negate,
    /// Absolute value of a float.
    FloatAbs,
    /// IEEE square root.
    Sqrt,
    /// Round to integral, ties to even.
    RoundTiesEven,
    /// Largest integral not above.
    Floor,
    /// Smallest integral not below.
    Ceil,
    /// Leading zeros of an I32 (32 for 0), as I32.
    LeadingZeros,
    /// I32 -> I64, sign-extending.
    Extend,
    /// I32 -> I64, zero-extending.
    ExtendUnsigned,
    /// I64 -> I32, keeping the low bits.
    Truncate,
    /// I32 -> F32, ties to even.
    ToFloat,
    /// F32 -> I32, toward zero, saturating; NaN gives 0.
    ToInteger,
    /// The bits of an F32 as I32.
    ToBits,
    /// The F32 of an I32's bits.
    FromBits,
    /// Not, of Bool.
    Not,
    /// Bool -> I32, 0 or 1.
    BoolToInteger,
}

/// Operations on two scalars of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Binary {
    /// Sum (integers wrap).
    Add,
    /// Difference.
    Subtract,
    /// Product (integers wrap).
    Multiply,
    /// Float quotient, or integer quotient toward zero (divisor never 0).
    Divide,
    /// Integer remainder, sign of the dividend.
    Remainder,
    /// Minimum: of signed integers, or of floats as `if a < b { a } else { b }`.
    Minimum,
    /// Maximum: of signed integers, or of floats as `if a > b { a } else { b }`.
    Maximum,
    /// Bitwise and; logical and of Bool.
    And,
    /// Bitwise or; logical or of Bool.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift; amount below the width.
    ShiftLeft,
    /// Arithmetic right shift; amount below the width.
    ShiftRight,
    /// Logical right shift; amount below the width.
    ShiftRightUnsigned,
}

/// Comparisons; integers as signed unless stated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// Unsigned `<` (integers only).
    LessUnsigned,
}

/// Statements.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Stmt {
    /// Sets a local.
    Assign(Local, Expr),
    /// Stores an element, truncated to the buffer's width.
    Store(Buffer, Expr, Expr),
    /// `for variable in start..end` (I64, step 1).
    For {
        /// The loop variable.
        variable: Local,
        /// First value.
        start: Expr,
        /// One past the last value.
        end: Expr,
        /// Statements of one round.
        body: Vec<Stmt>,
    },
    /// Conditional statements.
    If {
        /// Bool.
        condition: Expr,
        /// When true.
        then: Vec<Stmt>,
        /// When false.
        otherwise: Vec<Stmt>,
    },
}

/// What a buffer parameter holds.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Elements of operand `n`.
    Input(usize),
    /// Run-time scale of operand `n` (its shared exponent as one I32).
    InputScale(usize),
    /// Elements of result `n`.
    Output(usize),
    /// Run-time scale of result `n`.
    OutputScale(usize),
    /// Seed low word, seed high word, step (three I32).
    RunContext,
    /// Working memory of the kernel.
    Scratch,
}

/// A buffer parameter.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferParameter {
    /// Readable name, such as `x` or `x_exponent`.
    pub name: String,
    /// Stored element. Narrower than a byte only while an operation lowers itself: see [`packed`].
    pub element: Element,
    /// Number of elements.
    pub count: usize,
    /// What it holds.
    pub role: Role,
}

/// A kernel as loops over buffers. See the module documentation.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LoopKernel {
    /// Parameters in call order: inputs (elements, then scale), outputs (elements, then scale), run context, scratch.
    pub buffers: Vec<BufferParameter>,
    /// Types (and readable names) of the locals.
    pub locals: Vec<(String, Scalar)>,
    /// The code.
    pub body: Vec<Stmt>,
    /// Which of the locals are uniform bits.
    pub draws: Vec<Draw>,
}

/// Uniform bits by [`crate::random::RunContext::draw`], which statements compute step by step; targets with a function for that may
/// call it instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Draw {
    /// The stream.
    pub stream: u32,
    /// The element (I32).
    pub element: Local,
    /// The bits (I32). Locals between the two are those of the steps, which nothing else reads.
    pub bits: Local,
}
