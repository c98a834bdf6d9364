//! Walks over statements and expressions.

use trainc_ir::loops::{Buffer, Expr, Local, Node, Stmt};

/// Calls `f` for an expression and each part of it.
pub(crate) fn each_expr<'a>(e: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    f(e);
    match &*e.node {
        Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
        Node::Load(_, x) | Node::Unary(_, x) => each_expr(x, f),
        Node::Binary(_, a, b) | Node::Compare(_, a, b) => {
            each_expr(a, f);
            each_expr(b, f);
        }
        Node::Select(c, a, b) => {
            each_expr(c, f);
            each_expr(a, f);
            each_expr(b, f);
        }
    }
}

/// Whether an expression reads a local of a kind.
pub(crate) fn mentions(e: &Expr, is: &dyn Fn(Local) -> bool) -> bool {
    let mut found = false;
    each_expr(e, &mut |e| {
        if let Node::Local(local) = &*e.node {
            found |= is(*local);
        }
    });
    found
}

/// Calls `f` for each statement, those of inner blocks too.
pub(crate) fn each_statement<'a>(block: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    for statement in block {
        f(statement);
        match statement {
            Stmt::For { body, .. } => each_statement(body, f),
            Stmt::If { then, otherwise, .. } => {
                each_statement(then, f);
                each_statement(otherwise, f);
            }
            Stmt::Assign(..) | Stmt::Store(..) => {}
        }
    }
}

/// The expressions of a statement, without those of its inner blocks.
pub(crate) fn expressions(statement: &Stmt) -> Vec<&Expr> {
    match statement {
        Stmt::Assign(_, value) => vec![value],
        Stmt::Store(_, index, value) => vec![index, value],
        Stmt::For { start, end, .. } => vec![start, end],
        Stmt::If { condition, .. } => vec![condition],
    }
}

/// Adds how often each local is read, assigned or counts a loop.
pub(crate) fn count_uses(block: &[Stmt], counts: &mut [usize]) {
    each_statement(block, &mut |statement| {
        if let Stmt::Assign(local, _) | Stmt::For { variable: local, .. } = statement {
            counts[local.0 as usize] += 1;
        }
        for e in expressions(statement) {
            each_expr(e, &mut |e| {
                if let Node::Local(local) = &*e.node {
                    counts[local.0 as usize] += 1;
                }
            });
        }
    });
}

/// Locals that a block assigns, and buffers that it stores to.
pub(crate) fn changed(block: &[Stmt]) -> (Vec<Local>, Vec<Buffer>) {
    let (mut locals, mut buffers) = (Vec::new(), Vec::new());
    each_statement(block, &mut |statement| match statement {
        Stmt::Assign(local, _) | Stmt::For { variable: local, .. } => locals.push(*local),
        Stmt::Store(buffer, ..) => buffers.push(*buffer),
        Stmt::If { .. } => {}
    });
    (locals, buffers)
}
