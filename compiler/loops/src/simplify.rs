//! Conditions whose outcome is known, and copies: C compilers warn of the ones, and readers stumble over both.

use trainc_ir::loops::{Binary, Comparison, Expr, LoopKernel, Node, Scalar, Stmt, Unary};

use crate::intervals::Intervals;
use crate::locals::{Locals, without_dead_code};

/// A kernel without dead code, copies, and comparisons that have one outcome.
///
/// # Errors
/// If a loop variable is used outside of its loop or assigned.
pub fn simplified(kernel: &LoopKernel) -> Result<LoopKernel, String> {
    let mut kernel = without_dead_code(kernel);
    let locals = Locals::of_kernel(&kernel)?;
    let known = Known { intervals: Intervals::of_kernel(&kernel, &locals), locals: &locals };
    kernel.body = fold_block(&kernel.body, &known);
    Ok(without_dead_code(&kernel))
}

/// What is known of a kernel's locals.
struct Known<'a> {
    intervals: Intervals<'a>,
    locals: &'a Locals,
}

fn fold_block(block: &[Stmt], known: &Known<'_>) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(block.len());
    for statement in block {
        match statement {
            Stmt::Assign(local, value) => out.push(Stmt::Assign(*local, fold(value, known))),
            Stmt::Store(buffer, index, value) => {
                out.push(Stmt::Store(*buffer, fold(index, known), fold(value, known)));
            }
            Stmt::For { variable, start, end, body } => out.push(Stmt::For {
                variable: *variable,
                start: fold(start, known),
                end: fold(end, known),
                body: fold_block(body, known),
            }),
            Stmt::If { condition, then, otherwise } => {
                let condition = fold(condition, known);
                let (then, otherwise) = (fold_block(then, known), fold_block(otherwise, known));
                match constant(&condition) {
                    Some(true) => out.extend(then),
                    Some(false) => out.extend(otherwise),
                    None => out.push(Stmt::If { condition, then, otherwise }),
                }
            }
        }
    }
    out
}

fn constant(e: &Expr) -> Option<bool> {
    match (e.ty, &*e.node) {
        (Scalar::Bool, Node::Integer(value)) => Some(*value != 0),
        _ => None,
    }
}

fn truth(value: bool) -> Expr {
    Expr { ty: Scalar::Bool, node: Box::new(Node::Integer(value.into())) }
}

fn fold(e: &Expr, known: &Known<'_>) -> Expr {
    if let Some(local) = e.as_local() {
        return known
            .locals
            .stands_for(local)
            .map_or_else(|| e.clone(), |other| fold(other, known));
    }
    let folded = e.map_operands(&mut |x| Some(fold(x, known))).unwrap_or_else(|| e.clone());
    let simpler = match &*folded.node {
        Node::Unary(Unary::Not, x) => constant(x).map(|value| truth(!value)),
        Node::Unary(Unary::BoolToInteger, x) => constant(x).map(|value| Expr::i32(value.into())),
        Node::Binary(op, a, b) => match (op, constant(a), constant(b)) {
            (Binary::And, Some(true), _) | (Binary::Or, Some(false), _) => Some(b.clone()),
            (Binary::And, _, Some(true)) | (Binary::Or, _, Some(false)) => Some(a.clone()),
            (Binary::And, Some(false), _) | (Binary::And, _, Some(false)) => Some(truth(false)),
            (Binary::Or, Some(true), _) | (Binary::Or, _, Some(true)) => Some(truth(true)),
            _ => None,
        },
        Node::Compare(comparison, a, b) => outcome(*comparison, a, b, known).map(truth),
        Node::Select(c, a, b) => constant(c).map(|holds| if holds { a.clone() } else { b.clone() }),
        _ => None,
    };
    simpler.unwrap_or(folded)
}

fn outcome(comparison: Comparison, a: &Expr, b: &Expr, known: &Known<'_>) -> Option<bool> {
    if a.ty == Scalar::F32 {
        return None;
    }
    let ((a0, a1), (b0, b1)) = (known.intervals.get(a), known.intervals.get(b));
    let apart = a1 < b0 || b1 < a0;
    let same = a0 == a1 && b0 == b1 && a0 == b0;
    let either = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
    match comparison {
        Comparison::Equal => either(same, apart),
        Comparison::NotEqual => either(apart, same),
        Comparison::Less => either(a1 < b0, a0 >= b1),
        Comparison::LessEqual => either(a1 <= b0, a0 > b1),
        Comparison::LessUnsigned => {
            if a0 >= 0 && b0 >= 0 {
                return either(a1 < b0, a0 >= b1);
            }
            // Nothing is below 0, and nothing above the largest, -1.
            either(false, (b0, b1) == (0, 0) || (a0, a1) == (-1, -1))
        }
    }
}
