//! Heads of printed functions: parameters, pointers into working memory, locals that start as 0.

use std::collections::BTreeSet;

use trainc_ir::loops::{BufferParameter, Local, Role, Stmt, each_expression};
use trainc_ir::target::loop_scratch;
use trainc_loops::Changes;

use crate::loops::{Printer, element_type};
use crate::syntax::{Pointer, Syntax};

/// Which buffers a block reads or writes.
pub(crate) fn used(block: &[Stmt], reads: &mut BTreeSet<u32>, writes: &mut BTreeSet<u32>) {
    each_expression(block, &mut |e| e.each_load(&mut |buffer, _| _ = reads.insert(buffer.0)));
    writes.extend(Changes::of(block).buffers.iter().map(|buffer| buffer.0));
}

/// The type of a pointer to a buffer's elements.
pub(crate) fn pointer(buffer: &BufferParameter, written: bool) -> String {
    let constant = if written { "" } else { "const " };
    format!("{constant}{} *", element_type(buffer.element))
}

impl Printer<'_> {
    /// The head in C.
    pub(crate) fn head(&mut self, name: &str) {
        let kernel = self.expressions.kernel;
        let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
        used(&kernel.body, &mut reads, &mut writes);
        let is_used = |i: usize| reads.contains(&(i as u32)) || writes.contains(&(i as u32));
        // What follows these loops may write a result that they do not.
        let pointer = |i: usize, b: &BufferParameter| {
            pointer(b, writes.contains(&(i as u32)) || matches!(b.role, Role::Output(_)))
        };
        let buffers = || kernel.buffers.iter().enumerate();
        let mut parameters: Vec<String> = buffers()
            .filter(|(_, b)| b.role != Role::Scratch)
            .map(|(i, b)| format!("{}{}", pointer(i, b), b.name))
            .collect();
        let has_scratch = buffers().any(|(_, b)| b.role == Role::Scratch);
        if has_scratch {
            parameters.push("uint8_t *scratch".into());
        }
        self.lines.line(&format!("static void {name}({})", parameters.join(", ")));
        self.lines.open("{");
        let (offsets, _) = loop_scratch(kernel);
        let mut scratch_used = false;
        let scratch = buffers().filter(|(_, b)| b.role == Role::Scratch);
        for ((i, b), offset) in scratch.zip(offsets) {
            if is_used(i) {
                scratch_used = true;
                let (ty, name) = (element_type(b.element), &b.name);
                let place =
                    if offset == 0 { "scratch".into() } else { format!("(scratch + {offset})") };
                self.lines.line(&format!("{ty} *const {name} = ({ty} *)(void *){place};"));
            }
        }
        for (i, b) in buffers() {
            if b.role != Role::Scratch && !is_used(i) {
                self.lines.line(&format!("(void){};", b.name));
            }
        }
        if has_scratch && !scratch_used {
            self.lines.line("(void)scratch;");
        }
    }

    /// The head in another language.
    pub(crate) fn head_in(&mut self, syntax: &dyn Syntax, name: &str) -> Vec<Pointer> {
        let kernel = self.expressions.kernel;
        let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
        used(&kernel.body, &mut reads, &mut writes);
        let mut offsets = loop_scratch(kernel).0.into_iter();
        let mut pointers = Vec::new();
        for (buffer, b) in kernel.buffers.iter().enumerate() {
            let scratch = if b.role == Role::Scratch { offsets.next() } else { None };
            let (number, name) = (buffer as u32, b.name.clone());
            let written = writes.contains(&number);
            if written || reads.contains(&number) {
                let element = element_type(b.element);
                pointers.push(Pointer { buffer, name, element, written, scratch });
            }
        }
        // What heads make of a name.
        for name in pointers.iter().map(|p| p.name.as_str()).chain(["scratch"]) {
            self.taken.extend(["memory", "offset"].map(|part| format!("{name}_{part}")));
        }
        self.lines.line(&syntax.head(name, &pointers));
        self.lines.open("{");
        syntax.start(&pointers).iter().for_each(|line| self.lines.line(line));
        pointers
    }

    /// Declares the locals that start as 0.
    pub(crate) fn hoisted(&mut self) {
        for i in 0..self.expressions.kernel.locals.len() {
            let local = Local(i as u32);
            if self.locals.is_hoisted(local) {
                let name = self.declare(local);
                let ty = self.expressions.local_type(local);
                let zero = if ty == "float" { "0.0f" } else { "0" };
                self.lines.line(&format!("{ty} {name} = {zero};"));
            }
        }
    }
}
