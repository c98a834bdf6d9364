//! What blocks read, set and store.

use std::collections::BTreeSet;

use trainc_ir::loops::{Buffer, Expr, Local, LoopKernel, Stmt, each_expression, each_statement};

/// How often a block mentions each of a kernel's locals: read, assigned, or counting a loop.
pub fn count_uses(kernel: &LoopKernel, block: &[Stmt]) -> Vec<usize> {
    let mut counts = vec![0; kernel.locals.len()];
    each_statement(block, &mut |s| s.sets().into_iter().for_each(|l| counts[l.0 as usize] += 1));
    each_expression(block, &mut |e| e.each_local(&mut |local| counts[local.0 as usize] += 1));
    counts
}

/// What a block changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Locals that it assigns, and variables of its loops.
    pub locals: BTreeSet<Local>,
    /// Buffers that it stores to.
    pub buffers: BTreeSet<Buffer>,
}

impl Changes {
    /// What a block changes.
    pub fn of(block: &[Stmt]) -> Changes {
        let mut changes = Changes::default();
        each_statement(block, &mut |statement| {
            changes.locals.extend(statement.sets());
            if let Stmt::Store(buffer, ..) = statement {
                changes.buffers.insert(*buffer);
            }
        });
        changes
    }

    /// Whether an expression may have another value after the changes; `shares` says whether two buffers may lie in the
    /// same memory.
    pub fn touch(&self, e: &Expr, shares: &dyn Fn(Buffer, Buffer) -> bool) -> bool {
        let mut touched = e.mentions(|local| self.locals.contains(&local));
        e.each_load(&mut |from, _| touched |= self.buffers.iter().any(|&to| shares(from, to)));
        touched
    }
}
