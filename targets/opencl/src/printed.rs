//! A kernel of OpenCL as text, and what all of them cost.

use trainc_c::syntax::{Pointer, Syntax};

use crate::syntax::OpenClC;

/// What a launch costs beside its work.
pub(crate) const LAUNCH: u64 = 10_000;
/// Work items that run at a time.
pub(crate) const LANES: u64 = 64;

/// A kernel as text, one of those that make up a kernel of the program.
pub(crate) struct PrintedPhase {
    /// The kernel's name.
    pub(crate) name: String,
    /// It, as OpenCL C.
    pub(crate) text: String,
    /// Its buffers.
    pub(crate) pointers: Vec<Pointer>,
    /// Rounds of the loops that are work items.
    pub(crate) rounds: Vec<i32>,
}

impl PrintedPhase {
    /// A kernel with these lines behind its pointers.
    pub(crate) fn of(
        name: String,
        pointers: Vec<Pointer>,
        rounds: Vec<i32>,
        body: Vec<String>,
    ) -> PrintedPhase {
        let mut text = wrapped(&OpenClC.head(&name, &pointers));
        text.push_str("\n{\n");
        for line in OpenClC.start(&pointers).into_iter().chain(body) {
            text.push_str(&if line.is_empty() { "\n".into() } else { format!("    {line}\n") });
        }
        text.push_str("}\n");
        PrintedPhase { name, text, pointers, rounds }
    }
}

/// The head of a function, its parameters on lines of at most 100 characters.
fn wrapped(head: &str) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for part in head.split_inclusive(", ") {
        if line.len() + part.trim_end().len() > 100 {
            text.push_str(line.trim_end());
            text.push('\n');
            line = "    ".into();
        }
        line.push_str(part);
    }
    text + &line
}
