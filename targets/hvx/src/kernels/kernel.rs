//! A kernel of several phases, each a function of its own, over one piece of working memory.

use std::fmt::Write as _;

use crate::machine::{Builder, Function, MachineError, Opcode, Register};

/// Read-only words that a kernel addresses by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataObject {
    /// Symbol; aligned to 128 bytes.
    pub symbol: String,
    /// Contents.
    pub words: Vec<i32>,
}

impl DataObject {
    /// The words as assembly.
    #[must_use]
    pub fn assembly(&self) -> String {
        let mut text = format!("\n\t.section .rodata\n\t.balign 128\n{}:\n", self.symbol);
        for words in self.words.chunks(8) {
            let words: Vec<String> = words.iter().map(i32::to_string).collect();
            let _ = writeln!(text, "\t.word {}", words.join(", "));
        }
        text
    }
}

/// An argument of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A parameter of the kernel.
    Parameter(usize),
    /// This many bytes into the working memory.
    Scratch(usize),
    /// What an earlier phase returned.
    Result(usize),
}

/// A function that a kernel calls.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The function.
    pub function: Function,
    /// Its arguments, at most six, without its range.
    pub arguments: Vec<Argument>,
}

/// Calls a function for all its rounds.
pub(super) fn call_whole(b: &mut Builder, function: &Function, arguments: &[Register]) -> Register {
    let mut arguments = arguments.to_vec();
    if let Some(range) = &function.range {
        arguments.extend([b.zero(), b.constant(range.count.cast_signed())]);
    }
    b.call(&function.name, &arguments)
}

/// The C function that divides the rounds of a phase with this symbol.
#[must_use]
pub fn in_parts(function: &str) -> String {
    format!("{function}_in_parts")
}

/// A kernel: its phases in order. All buffers and the working memory are aligned to 128 bytes.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Symbol of the whole.
    pub name: String,
    /// One line.
    pub purpose: String,
    /// Parameters before the last, which is the working memory.
    pub parameters: usize,
    /// Bytes of working memory.
    pub scratch_bytes: usize,
    /// Phases.
    pub phases: Vec<Phase>,
    /// Functions that phases call.
    pub helpers: Vec<Function>,
    /// Tables.
    pub data: Vec<DataObject>,
}

impl Kernel {
    /// All functions but [`Self::entry`].
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.phases.iter().map(|phase| &phase.function).chain(&self.helpers)
    }

    /// `int kernel(parameters..., working memory)`: calls the phases and returns what the last phase with a result
    /// returned.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn entry(&self) -> Result<Function, MachineError> {
        self.entry_of(false)
    }

    /// As [`Self::entry`]; phases of ranges are called as [`in_parts`] names what divides them.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn divided_entry(&self) -> Result<Function, MachineError> {
        self.entry_of(true)
    }

    fn entry_of(&self, divided: bool) -> Result<Function, MachineError> {
        let count = u32::try_from(self.parameters + 1).unwrap_or(u32::MAX);
        let mut b = Builder::new(&self.name, count);
        b.purpose(&self.purpose);
        let mut results: Vec<Register> = Vec::new();
        let mut last = None;
        for phase in &self.phases {
            let arguments: Vec<Register> = phase
                .arguments
                .iter()
                .map(|argument| match *argument {
                    Argument::Parameter(index) => b.parameter(index),
                    Argument::Scratch(offset) => {
                        let scratch = b.parameter(self.parameters);
                        let offset = i32::try_from(offset).unwrap_or(i32::MAX);
                        b.emit(Opcode::AddImmediate, (scratch, offset))
                    }
                    Argument::Result(phase) => results[phase],
                })
                .collect();
            let result = match &phase.function.range {
                Some(_) if divided => b.call(&in_parts(&phase.function.name), &arguments),
                _ => call_whole(&mut b, &phase.function, &arguments),
            };
            if phase.function.result.is_some() {
                last = Some(result);
            }
            results.push(result);
        }
        b.finish(last)
    }
}

impl Kernel {
    /// The kernel with one parameter more, before the working memory: the bits of a magnitude that take the place of those that the
    /// sums have, which phase `products` returned, unless they are 0.
    ///
    /// # Errors
    /// Of the machine layer.
    pub(crate) fn with_kept_width(mut self, products: usize) -> Result<Kernel, MachineError> {
        let mut b = Builder::new(&format!("{}_width", self.name), 2);
        b.purpose("The bits that are kept between steps, if there are, or else those of the sums.");
        let (own, kept) = (b.parameter(0), b.parameter(1));
        let zero = b.zero();
        let some = b.emit(Opcode::CompareEq, (kept, zero));
        let bits = b.emit(Opcode::Mux, (some, own, kept));
        let function = b.finish(Some(bits))?;
        for phase in &mut self.phases[products + 1..] {
            for argument in &mut phase.arguments {
                if let Argument::Result(phase) = argument
                    && *phase >= products
                {
                    *phase += 1;
                }
            }
        }
        let arguments = vec![Argument::Result(products), Argument::Parameter(self.parameters)];
        self.phases.insert(products + 1, Phase { function, arguments });
        self.parameters += 1;
        Ok(self)
    }
}

/// Hands out pieces of working memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Bytes so far.
    pub(crate) bytes: usize,
}

impl Scratch {
    pub(crate) fn take(&mut self, bytes: usize) -> Argument {
        let offset = self.bytes;
        self.bytes += bytes.next_multiple_of(128);
        Argument::Scratch(offset)
    }
}
