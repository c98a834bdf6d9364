//! A kernel of OpenCL as text, and what all of them cost.

use trainc_c::syntax::{Pointer, Syntax};

use crate::syntax::{OpenClC, items};

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
    /// What it is, if it may be launched in the place of the one before and is not by itself.
    pub(crate) variant: Option<Variant>,
    /// The variant of it that is launched in its place unless a device has it otherwise: how many kernels behind it.
    pub(crate) first: Option<usize>,
}

/// A kernel that does what another does.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    /// What it is called.
    pub(crate) name: &'static str,
    /// A sentence for its comment.
    pub(crate) about: &'static str,
    /// Work items of a group, which it needs; `None` if it is one of several kernels, with buffers of their own, that are launched one
    /// behind the other.
    pub(crate) group: Option<[u32; 3]>,
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
        PrintedPhase { name, text, pointers, rounds, variant: None, first: None }
    }
}

impl PrintedPhase {
    /// It as a variant of the kernel before.
    pub(crate) fn variant_of(mut self, variant: Variant) -> PrintedPhase {
        if let Some([x, y, z]) = variant.group {
            let head =
                format!("__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\nvoid");
            self.text = self.text.replacen("__kernel void", &head, 1);
        }
        self.variant = Some(variant);
        self
    }

    /// Work items along each dimension: whole groups of a variant.
    pub(crate) fn items(&self) -> [i64; 3] {
        let mut items = items(&self.rounds);
        if let Some(Variant { group: Some(group), .. }) = self.variant {
            for (n, of) in items.iter_mut().zip(group) {
                *n = (*n + i64::from(of) - 1) / i64::from(of) * i64::from(of);
            }
        }
        items
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
