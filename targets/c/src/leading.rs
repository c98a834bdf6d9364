//! Loops that a dialect prints in its own way, such as several rounds at a time.

use trainc_ir::loops::{Expr, Local, LoopKernel};
use trainc_ir::names::unique;

use crate::loops::Printer;
use trainc_loops::Place;

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
    /// Prints the leading rounds of a loop at this place. `None`, with nothing printed, leaves all rounds to the scalar
    /// loop.
    fn print(&self, place: &Place<'_>, scope: &mut Scope<'_, '_>) -> Option<Rest>;
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

    /// An expression in C. Its type is `float`, `int`, `int32_t`, or, where an I64 may not fit that, `int64_t`.
    pub fn scalar(&self, e: &Expr) -> String {
        self.printer.expressions.print(e).text
    }

    /// An expression in C as an operand of any operator.
    pub fn operand(&self, e: &Expr) -> String {
        self.printer.expressions.print(e).primary()
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
