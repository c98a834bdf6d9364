//! The C target: a program as portable C99 that needs no library, for any compiler and machine; and the printer of
//! loop kernels that targets with C kernels of their own share.
//!
//! Emitted code is freestanding: the caller owns all memory, nothing is global but constant data, and the small
//! runtime ([`RUNTIME_HEADER`], [`RUNTIME_SOURCE`]) comes with it. Results have the bits of the reference
//! interpreter.

mod arranged;
pub mod batch_split;
pub mod behind;
mod border_rounds;
mod cost;
mod counting;
mod data;
mod dialect;
mod documents;
mod evaluate;
mod example;
mod exponents;
mod expression;
mod fraction;
mod harness;
mod header;
mod heads;
mod indicator;
mod input;
pub mod interface;
mod kernel;
mod layout;
mod leading;
mod loops;
pub mod product;
mod program;
pub mod rust;
mod schedule;
mod segments;
pub mod syntax;
mod target;
pub mod text;

pub use cost::{Floats, cycles, loop_cycles, vector_cycles};
pub use counting::{COUNTING_HOOKS, PLUGIN, counting};
pub use dialect::{Dialect, Facts, Language, SupportFile};
pub use documents::FLAGS;
pub use example::{bare_example, example};
pub use harness::{compilers, flags, harness, support};
pub use input::header_notes;
pub use kernel::{CKernel, Emitted, Loops, Piece, in_c, take};
pub use leading::{LeadingRounds, Rest, Scope};
pub use loops::{element_type, function, function_in, function_with};
pub use program::{emit, emit_with_pieces, model_hash};

/// Parts of artifacts, for targets whose C launches kernels of another language.
pub mod parts {
    /// Constants and the initial state as C arrays.
    pub mod data {
        pub use crate::data::{arrays, declaration, source};
    }
    pub use crate::evaluate::Evaluation;
    pub use crate::header::header;
    pub use crate::layout::Lines;
    pub use crate::program::{check, each_launch, entry_macro, kernel_comment};
    pub use crate::segments::{Part, Segment, Window, part, segment_function};
}
pub use target::{C, CTarget};

/// The runtime's header, `trainc_rt.h`.
pub const RUNTIME_HEADER: &str = include_str!("../../../runtime-stub/trainc_rt.h");
/// The runtime's source, `trainc_rt.c`.
pub const RUNTIME_SOURCE: &str = include_str!("../../../runtime-stub/trainc_rt.c");
