//! Loops that a dialect prints in its own way, such as several rounds at a time.

use std::rc::Rc;

use trainc_ir::loops::{Expr, Local, LoopKernel, Stmt};
use trainc_ir::names::unique;

use crate::loops::Printer;
use trainc_loops::Interval;

/// A loop of a kernel: `for variable in start..end`.
#[derive(Clone, Copy, Debug)]
pub struct CountedLoop<'a> {
    /// The loop variable.
    pub variable: Local,
    /// First value.
    pub start: &'a Expr,
    /// One past the last value.
    pub end: &'a Expr,
    /// Statements of one round.
    pub body: &'a [Stmt],
}

/// The rounds that follow the leading ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rest {
    /// All rounds are done.
    None,
    /// Those from this value (a C expression of the variable's type), as scalars.
    From(String),
}

/// Prints the leading rounds of loops.
pub trait LeadingRounds {
    /// Prints the leading rounds of a loop at this place. `None` leaves all rounds to the scalar loop; then all that
    /// was printed and named is forgotten.
    fn print(&self, counted: &CountedLoop<'_>, scope: &mut Scope<'_, '_>) -> Option<Rest>;
}

/// The place in a function where something is printed.
pub struct Scope<'p, 'k> {
    pub(crate) printer: &'p mut Printer<'k>,
}

impl<'k> Scope<'_, 'k> {
    /// The kernel, without dead code and copies; its buffers have the names of the parameters.
    pub fn kernel(&self) -> &'k LoopKernel {
        self.printer.expressions.kernel
    }

    /// What is known about the values of a local.
    pub fn local_interval(&self, local: Local) -> Interval {
        self.printer.expressions.intervals.local(local)
    }

    /// What is known about the values of an expression.
    pub fn interval(&self, e: &Expr) -> Interval {
        self.printer.expressions.intervals.get(e)
    }

    /// An expression in C. Its type is `float`, `int`, `int32_t`, or, where an I64 may not fit that, `int64_t`.
    pub fn scalar(&self, e: &Expr) -> String {
        self.printer.expressions.print(e).text
    }

    /// An expression in C as an operand of any operator.
    pub fn operand(&self, e: &Expr) -> String {
        self.printer.expressions.print(e).primary()
    }

    /// Forgets what was printed and named if nothing came of it.
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Scope<'_, 'k>) -> Option<T>) -> Option<T> {
        let Printer { lines, added, renamed, .. } = &*self.printer;
        let (end, added, renamed) = (lines.end(), added.len(), renamed.len());
        let result = f(self);
        if result.is_none() {
            let printer = &mut *self.printer;
            printer.lines.cut(end);
            printer.release(added);
            for (local, name) in printer.renamed.drain(renamed..).rev() {
                printer.expressions.names[local.0 as usize] = name;
            }
        }
        result
    }

    /// Mentions of each local in the kernel, counted by the first call.
    pub fn uses(&self, count: impl FnOnce(&LoopKernel) -> Vec<usize>) -> Rc<[usize]> {
        let kernel = self.printer.expressions.kernel;
        self.printer.uses.get_or_init(|| count(kernel).into()).clone()
    }

    /// The name of a local in sight.
    pub fn local_name(&self, local: Local) -> &str {
        &self.printer.expressions.names[local.0 as usize]
    }

    /// The C type of a local.
    pub fn local_type(&self, local: Local) -> &'static str {
        self.printer.expressions.local_type(local)
    }

    /// A name that nothing in sight has.
    pub fn fresh(&mut self, name: &str) -> String {
        let name = unique(name, &self.printer.taken);
        self.printer.take(&name);
        name
    }

    /// Gives a local a name.
    pub fn set_local_name(&mut self, local: Local, name: &str) {
        self.printer.rename(local, name);
    }

    /// A line of code.
    pub fn line(&mut self, code: &str) {
        self.printer.lines.line(code);
    }

    /// A line that opens a block, which is indented.
    pub fn open(&mut self, code: &str) {
        self.printer.lines.open(code);
    }

    /// Closes a block.
    pub fn close(&mut self) {
        self.printer.lines.close("}");
    }

    /// A comment.
    pub fn comment(&mut self, text: &str) {
        self.printer.lines.comment(&[text.into()]);
    }
}
