//! The cycles that RI5CY takes, with memory that answers at once: as its user manual states them ("Pipeline Details"),
//! and, where it is silent, as its RTL behaves (`rtl/run` compares).
//!
//! - An instruction takes one cycle, products and sums of products of 8 and 16 bits among them.
//! - One that needs the register that the load before it fetches waits for a cycle; so does one whose arithmetic result
//!   goes to that register.
//! - A jump takes 2 cycles, a taken branch 3; one more if the instruction that it leads to takes 4 bytes and is not
//!   aligned to them.
//! - A jump to a register waits until the register is in the register file: [`JUMP_AFTER_RESULT`], [`JUMP_AFTER_LOAD`].
//! - The upper half of a product takes [`MULTIPLY_HIGH`] cycles, a quotient or remainder [`division`].
//! - An access of data that crosses a word takes one more.
//! - Hardware loops cost nothing, unless the body's first instruction is not aligned.

/// Further cycles of a jump.
pub const JUMP: u64 = 1;
/// Further cycles of a branch that is taken.
pub const BRANCH: u64 = 2;
/// Further cycles of arriving at an instruction of 4 bytes that is not aligned.
pub const UNALIGNED_TARGET: u64 = 1;
/// Further cycles of a data access that crosses a word.
pub const UNALIGNED_ACCESS: u64 = 1;
/// Cycles of `mulh`, `mulhu` and `mulhsu`.
pub const MULTIPLY_HIGH: u64 = 5;
/// Cycles between the last one of an arithmetic instruction and a jump to its result.
pub const JUMP_AFTER_RESULT: u64 = 1;
/// Cycles from a load's to that of a jump to what it loads.
pub const JUMP_AFTER_LOAD: u64 = 3;

/// Cycles of a division: one for each bit of the quotient that the divisor's size leaves possible.
pub fn division(divisor: u32, signed: bool) -> u64 {
    if signed && (divisor as i32) < 0 {
        2 + u64::from((!divisor).leading_zeros())
    } else {
        3 + u64::from(divisor.leading_zeros())
    }
}
