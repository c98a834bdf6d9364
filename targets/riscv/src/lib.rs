//! A simulator of RV32IMC with the PULP extension XpulpV2, as the core RI5CY (GAP8's) encodes and times it: one core,
//! ideal memory. `trainc verify` runs the XpulpV2 target's artifacts in it, and tests their kernels.
//!
//! ```
//! use trainc_riscv::{Machine, Memory};
//!
//! let mut machine = Machine::new(Memory::new(0x1000, 0x1000));
//! // li a7, 93; ecall
//! for (address, word) in [(0x1000, 0x05d0_0893), (0x1004, 0x0000_0073)] {
//!     machine.memory.store(address, 4, word).unwrap();
//! }
//! machine.set_register(10, 7);
//! assert_eq!(machine.run(100).unwrap().code, 7);
//! assert_eq!((machine.instructions, machine.cycles), (2, 2));
//! ```
//!
//! Memory ([`memory`]), calls of the host ([`host`]), cycles ([`cycles`]), instructions ([`decode`]); programs are built
//! by [`toolchain::compile`], or elsewhere with the files of [`support`].

mod access;
mod bits;
pub mod compressed;
mod control;
pub mod cycles;
pub mod decode;
pub mod elf;
mod hardware_loop;
pub mod host;
mod machine;
pub mod memory;
mod multiply;
mod scalar;
pub mod support;
pub mod toolchain;
mod vector;

pub use elf::{ElfError, Program};
pub use host::{Cluster, Mark};
pub use machine::{Exit, Machine, Trap};
pub use memory::Memory;
