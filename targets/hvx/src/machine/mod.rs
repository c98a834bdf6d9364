//! The machine layer: Hexagon scalar and HVX instructions as typed values, from structured code on virtual registers
//! to assembly text.
//!
//! ```text
//! Builder ──▶ Function ──schedule, pipeline──▶ packets of virtual registers ──allocate──▶ Assembled ──print──▶ .S
//! ```
//!
//! - [`registers`]: classes, virtual and fixed registers, halves of pairs, versions of the architecture.
//! - [`table`]: the facts that an instruction's row states; [`instructions`]: the rows, one [`Opcode`] each.
//! - [`function`]: structured code; [`builder`]: how it is written.
//! - [`packets`]: the rules of a legal packet; [`dependence`], [`schedule`], [`pipeline`]: making packets.
//! - [`mod@compile`]: all stages. Registers come from a linear scan over packets (`allocate`, `liveness`), values that find
//!   none live in the frame (`spill`, `frame`); structure becomes labels and hardware loops (`flow`, `rename`).
//! - [`mod@print`]: assembly text. [`evaluate`]: the meaning of each instruction, for tests.
//!
//! ```
//! use trainc_hvx::machine::{Builder, Count, Opcode, Options, Version, compile};
//!
//! // void dot(const uint8_t *a, const int8_t *b, int32_t sums[32], int vectors)
//! let mut b = Builder::new("dot", 4);
//! let (a, weights, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
//! let vectors = b.parameter(3);
//! let (input, output) = (b.object("inputs"), b.object("sums"));
//! let zero = b.zero();
//! let accumulator = b.emit(Opcode::VsplatW, (zero,));
//! b.repeat(Count::Register(vectors), "128 products a round", |b| {
//!     let x = b.load(Opcode::LoadVNext, (a, 1), input);
//!     let y = b.load(Opcode::LoadVNext, (weights, 1), input);
//!     b.update(Opcode::VrmpyUbBvAccumulate, (accumulator, x, y));
//! });
//! b.store(Opcode::StoreV, (sums, 0, accumulator), output);
//! let function = b.finish(None)?;
//! let assembled = compile(&function, Version::V66, &Options::default())?;
//! assert!(assembled.assembly().contains("vrmpy"));
//! # Ok::<(), trainc_hvx::machine::MachineError>(())
//! ```

mod allocate;
pub mod builder;
pub mod compile;
pub mod dependence;
pub mod error;
pub mod evaluate;
mod evaluate_scalar;
mod evaluate_vector;
mod flow;
mod frame;
pub mod function;
pub mod instructions;
mod lanes;
mod liveness;
pub mod packets;
pub mod pipeline;
pub mod print;
pub mod registers;
mod relax;
mod rename;
pub mod schedule;
mod spill;
pub mod table;

pub use builder::{Builder, Operands, Range};
pub use compile::{Assembled, Block, LoopReport, Options, compile};
pub use error::MachineError;
pub use function::{Access, Count, Function, Instruction, Object, Operand, Rounds};
pub use instructions::Opcode;
pub use registers::{Class, Register, Version};
