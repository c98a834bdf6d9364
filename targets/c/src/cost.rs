//! An estimate of a kernel's cycles as scalar code: the operations of its loops, each by its price, times the rounds.

use trainc_ir::loops::{Binary, Expr, LoopKernel, Node, Scalar, Stmt, Unary};
use trainc_ir::{Op, TensorType};

/// Calling a kernel.
const CALL: u64 = 50;
/// A round of a loop: counting and jumping.
const ROUND: u64 = 2;
/// An access to memory.
const MEMORY: u64 = 2;
/// A quotient, a remainder.
const DIVISION: u64 = 12;
/// A square root digit by digit.
const ROOT: u64 = 120;
/// Rounds of a loop whose count is known at run time only.
const UNKNOWN_ROUNDS: u64 = 8;

/// Cycles of an operation on these types by its generic loops.
pub fn cycles(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
    loop_cycles(&op.lower(inputs, outputs))
}

/// Cycles of a loop kernel.
pub fn loop_cycles(kernel: &LoopKernel) -> u64 {
    block(&kernel.body).saturating_add(CALL)
}

fn block(statements: &[Stmt]) -> u64 {
    statements.iter().map(statement).fold(0, u64::saturating_add)
}

fn statement(statement: &Stmt) -> u64 {
    match statement {
        Stmt::Assign(_, value) => expression(value),
        Stmt::Store(_, index, value) => MEMORY + expression(index) + expression(value),
        Stmt::For { start, end, body, .. } => {
            let rounds = match (start.as_constant(), end.as_constant()) {
                (Some(start), Some(end)) => end.saturating_sub(start).max(0) as u64,
                _ => UNKNOWN_ROUNDS,
            };
            let once = expression(start) + expression(end);
            once.saturating_add(rounds.saturating_mul(block(body).saturating_add(ROUND)))
        }
        Stmt::If { condition, then, otherwise } => {
            (1 + expression(condition)).saturating_add(block(then).max(block(otherwise)))
        }
    }
}

fn expression(e: &Expr) -> u64 {
    // Indices are mostly strength-reduced by a C compiler: their arithmetic is not counted.
    let own = |price: u64| if e.ty == Scalar::I64 { 0 } else { price };
    match &*e.node {
        Node::Integer(_) | Node::Float(_) | Node::Local(_) => 0,
        Node::Load(_, index) => MEMORY + expression(index),
        Node::Unary(op, x) => {
            let price = match op {
                Unary::Sqrt => ROOT,
                Unary::RoundTiesEven | Unary::Floor | Unary::Ceil | Unary::LeadingZeros => 6,
                Unary::ToFloat | Unary::ToInteger => 3,
                Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate | Unary::BoolToInteger => 0,
                _ => 1,
            };
            own(price) + expression(x)
        }
        Node::Binary(op, a, b) => {
            let price = match op {
                Binary::Divide | Binary::Remainder => DIVISION,
                _ if e.ty == Scalar::F32 => 2,
                _ => 1,
            };
            own(price) + expression(a) + expression(b)
        }
        Node::Compare(_, a, b) => 1 + expression(a) + expression(b),
        Node::Select(c, a, b) => 1 + expression(c) + expression(a).max(expression(b)),
    }
}
