//! Sizes of what a relocatable object in ELF holds, by its section headers (System V ABI, little-endian).

/// Bytes that an object takes of a device's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sizes {
    /// Code.
    pub(crate) code: u64,
    /// Read-only data beside it, such as tables of kernels.
    pub(crate) tables: u64,
}

impl std::ops::Add for Sizes {
    type Output = Sizes;
    fn add(self, other: Sizes) -> Sizes {
        Sizes { code: self.code + other.code, tables: self.tables + other.tables }
    }
}

/// Flag of sections that are written.
const WRITE: u64 = 1;
/// Flag of sections that are taken into memory.
const ALLOC: u64 = 2;
/// Flag of sections that are executed.
const EXECUTE: u64 = 4;
/// The type of sections that only bear a size.
const NO_BITS: u64 = 8;
/// The type of sections of notes.
const NOTE: u64 = 7;
/// Types from here on are the processor's: how a stack is unwound.
const PROCESSOR: u64 = 0x7000_0000;
/// The same as plain data, by its name.
const UNWIND: &[u8] = b".eh_frame\0";

/// What an object holds; `None` if it is no little-endian ELF.
pub(crate) fn sizes(bytes: &[u8]) -> Option<Sizes> {
    let wide = match bytes.get(..6)? {
        [0x7f, b'E', b'L', b'F', 1, 1] => false,
        [0x7f, b'E', b'L', b'F', 2, 1] => true,
        _ => return None,
    };
    let number = |at: usize, size: usize| -> Option<u64> {
        let field = bytes.get(at..at.checked_add(size)?)?;
        Some(field.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    };
    let word = if wide { 8 } else { 4 };
    let table = number(if wide { 0x28 } else { 0x20 }, word)? as usize;
    let sizes_at = if wide { 0x3a } else { 0x2e };
    let (entry, count) = (number(sizes_at, 2)? as usize, number(sizes_at + 2, 2)? as usize);
    let header = |section: usize| table.checked_add(section.checked_mul(entry)?);
    let names = number(header(number(sizes_at + 4, 2)? as usize)? + 8 + 2 * word, word)?;
    let mut found = Sizes::default();
    for section in 0..count {
        let at = header(section)?;
        let (name, kind) = (names.checked_add(number(at, 4)?)? as usize, number(at + 4, 4)?);
        let flags = number(at + 8, word)?;
        let size = number(at + 8 + 3 * word, word)?;
        let outside = kind == NO_BITS || kind == NOTE || kind >= PROCESSOR;
        let unwinds = bytes.get(name..)?.starts_with(UNWIND);
        if outside || unwinds || flags & ALLOC == 0 || flags & WRITE != 0 {
            continue;
        }
        match flags & EXECUTE != 0 {
            true => found.code += size,
            false => found.tables += size,
        }
    }
    Some(found)
}
