//! Loops whose rounds come from outside: what a thread, or another function, does of them.

use trainc_ir::Element;
use trainc_ir::loops::{
    Buffer, BufferParameter, Expr, Local, LoopKernel, Node, Role, Scalar, Stmt,
};

/// The kernel with the rounds of one loop, so many loops deep in its last statement, in a range: a buffer more, of that role, has
/// the first one and that after the last. The loop is one of a [`Phase`](crate::Phase), whose rounds there are so many.
pub fn ranged(mut kernel: LoopKernel, depth: usize, rounds: i32, role: Role) -> LoopKernel {
    let buffer = Buffer(kernel.buffers.len() as u32);
    kernel.buffers.push(BufferParameter {
        name: "range".into(),
        element: Element::I32,
        count: 2,
        role,
    });
    let [first, after] = ["first", "after"].map(|name| local(&mut kernel, name));
    if let Some(Stmt::For { start, end, .. }) = inner(&mut kernel.body, depth).last_mut() {
        (*start, *end) = (read(first), read(after));
    }
    for (word, local) in [(1, after), (0, first)] {
        let load = Node::Load(buffer, Expr::i64(word));
        let bound = Expr { ty: Scalar::I32, node: Box::new(load) };
        // What the analysis of intervals then knows.
        let bound = bound.extend().maximum(Expr::i64(0)).minimum(Expr::i64(rounds.into()));
        kernel.body.insert(0, Stmt::Assign(local, bound));
    }
    kernel
}

/// The kernel with the rounds of one loop, so many loops deep in its last statement, in so many blocks that a loop around it
/// runs. `None` if they do not divide the rounds.
pub fn blocked(mut kernel: LoopKernel, depth: usize, blocks: i64) -> Option<LoopKernel> {
    let block = local(&mut kernel, "block");
    let body = inner(&mut kernel.body, depth);
    let Some(Stmt::For { variable, start, end, body: rounds }) = body.pop() else { return None };
    let count = end.as_constant().filter(|count| blocks > 0 && count % blocks == 0)?;
    if start.as_constant() != Some(0) {
        return None;
    }
    let each = Expr::i64(count / blocks);
    let start = read(block) * each.clone();
    let end = start.clone() + each;
    body.push(Stmt::For {
        variable: block,
        start: Expr::i64(0),
        end: Expr::i64(blocks),
        body: vec![Stmt::For { variable, start, end, body: rounds }],
    });
    Some(kernel)
}

fn local(kernel: &mut LoopKernel, name: &str) -> Local {
    kernel.locals.push((name.into(), Scalar::I64));
    Local(kernel.locals.len() as u32 - 1)
}

fn read(local: Local) -> Expr {
    Expr { ty: Scalar::I64, node: Box::new(Node::Local(local)) }
}

/// The block with a loop so many loops deep.
fn inner(body: &mut Vec<Stmt>, depth: usize) -> &mut Vec<Stmt> {
    if depth == 0 || !matches!(body.last(), Some(Stmt::For { .. })) {
        return body;
    }
    match body.last_mut() {
        Some(Stmt::For { body, .. }) => inner(body, depth - 1),
        _ => unreachable!("a loop is last"),
    }
}
