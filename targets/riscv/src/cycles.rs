//! The cycles that RI5CY takes, with memory that answers at once: as its user manual states them ("Pipeline Details"),
//! and, where it is silent, as its RTL behaves (`rtl/run` compares).
//!
//! - An instruction takes one cycle, products and sums of products of 8 and 16 bits among them.
//! - One that needs the register that the load before it fetches waits for a cycle; so does one whose arithmetic result
//!   goes to that register.
//! - A taken branch takes 3 cycles: the instruction that it leads to begins [`REFETCH`] cycles after it. A jump takes 2:
//!   [`REFETCH`] cycles after it is decoded, which is when the instruction before it begins; if that takes long, the jump
//!   hides behind it. One cycle more if the instruction at the target takes 4 bytes and is not aligned to them.
//! - A jump to a register is decoded when the register is in the register file: after the arithmetic instruction that
//!   writes it, or [`JUMP_AFTER_LOAD`] after the load. One that links to the register that it jumps to takes
//!   [`JUMP_TO_LINK`] unless it hides.
//! - The upper half of a product takes [`MULTIPLY_HIGH`] cycles, a quotient or remainder [`division`].
//! - A division that stands behind a taken branch is computed to its end, for nothing, from two cycles after the branch; then
//!   twice if the branch's target takes 4 bytes and is not aligned to them.
//! - An access of data that crosses a word takes one more.
//! - Hardware loops cost nothing, unless the body's first instruction takes 4 bytes and is not aligned to them: then a
//!   cycle for each iteration, unless one of the last two instructions had to wait. (Not quite: it depends on how far the
//!   core has fetched ahead, which is not modelled. Loops that are meant to be fast are aligned.)
//!
//! A machine's cycles are those until its last instruction ended; what a jump costs beside itself counts when the next
//! instruction begins.

/// Cycles from a branch, or from a jump's decoding, to the instruction at its target.
pub const REFETCH: u64 = 3;
/// Further cycles of arriving at an instruction of 4 bytes that is not aligned.
pub const UNALIGNED_TARGET: u64 = 1;
/// Further cycles of a data access that crosses a word.
pub const UNALIGNED_ACCESS: u64 = 1;
/// Cycles of `mulh`, `mulhu` and `mulhsu`.
pub const MULTIPLY_HIGH: u64 = 5;
/// Cycles between the last one of a load and the decoding of a jump to what it loads.
pub const JUMP_AFTER_LOAD: u64 = 1;
/// Cycles of a jump to a register that it writes itself.
pub const JUMP_TO_LINK: u64 = 3;

/// Cycles of a division: one for each bit of the quotient that the divisor's size leaves possible.
pub fn division(divisor: u32, signed: bool) -> u64 {
    if signed && (divisor as i32) < 0 {
        2 + u64::from((!divisor).leading_zeros())
    } else {
        3 + u64::from(divisor.leading_zeros())
    }
}
