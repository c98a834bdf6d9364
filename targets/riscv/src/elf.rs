//! Executables: ELF of 32 bits, little-endian, for RISC-V, linked to fixed addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use crate::memory::Memory;

/// Why a file is no program for this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElfError {
    /// Not an executable ELF of 32 bits for RISC-V; what is wrong.
    Format(&'static str),
    /// A table or a segment ends after the file.
    Truncated,
    /// A segment lies outside the memory: address and bytes.
    OutOfRange(u32, u32),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElfError::Format(reason) => write!(f, "not a program for this machine: {reason}"),
            ElfError::Truncated => write!(f, "the file is cut off"),
            ElfError::OutOfRange(address, size) => {
                write!(f, "a segment of {size} bytes at {address:#x} lies outside the memory")
            }
        }
    }
}

impl std::error::Error for ElfError {}

/// A loaded program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its first instruction.
    pub entry: u32,
    /// Addresses of its executable segments.
    pub code: Range<u32>,
    /// Its symbols' values.
    pub symbols: BTreeMap<String, u32>,
}

/// A reader of numbers.
struct File<'f>(&'f [u8]);

impl File<'_> {
    fn bytes(&self, offset: u32, length: u32) -> Result<&[u8], ElfError> {
        let start = offset as usize;
        let end = start.checked_add(length as usize).ok_or(ElfError::Truncated)?;
        self.0.get(start..end).ok_or(ElfError::Truncated)
    }

    fn half(&self, offset: u32) -> Result<u32, ElfError> {
        let bytes = self.bytes(offset, 2)?;
        Ok(u32::from(bytes[0]) | u32::from(bytes[1]) << 8)
    }

    fn word(&self, offset: u32) -> Result<u32, ElfError> {
        Ok(self.half(offset)? | self.half(add(offset, 2)?)? << 16)
    }
}

fn add(a: u32, b: u32) -> Result<u32, ElfError> {
    a.checked_add(b).ok_or(ElfError::Truncated)
}

/// Copies a program's segments into the memory.
///
/// # Errors
/// If the file is not such an executable, is cut off, or does not fit into the memory.
pub fn load(file: &[u8], memory: &mut Memory) -> Result<Program, ElfError> {
    const EXECUTABLE: u32 = 2;
    const RISC_V: u32 = 243;
    let file = File(file);
    if file.bytes(0, 6)? != [0x7f, b'E', b'L', b'F', 1, 1] {
        return Err(ElfError::Format("no ELF of 32 bits, little-endian"));
    }
    if file.half(16)? != EXECUTABLE {
        return Err(ElfError::Format("not linked to fixed addresses"));
    }
    if file.half(18)? != RISC_V {
        return Err(ElfError::Format("not for RISC-V"));
    }
    let code = segments(&file, memory)?;
    Ok(Program { entry: file.word(24)?, code, symbols: symbols(&file)? })
}

fn segments(file: &File<'_>, memory: &mut Memory) -> Result<Range<u32>, ElfError> {
    const LOADED: u32 = 1;
    const EXECUTED: u32 = 1;
    let mut code: Option<Range<u32>> = None;
    let (table, size, count) = (file.word(28)?, file.half(42)?, file.half(44)?);
    for index in 0..count {
        let header = add(table, index * size)?;
        if file.word(header)? != LOADED {
            continue;
        }
        let at = |field| file.word(add(header, field)?);
        let (offset, address, held, length, flags) = (at(4)?, at(8)?, at(16)?, at(20)?, at(24)?);
        let bytes = file.bytes(offset, held)?;
        let outside = ElfError::OutOfRange(address, length);
        let place = memory.slice_mut(address, length).ok_or(outside.clone())?;
        let (contents, zeros) = place.split_at_mut_checked(bytes.len()).ok_or(outside)?;
        contents.copy_from_slice(bytes);
        zeros.fill(0);
        if flags & EXECUTED != 0 {
            let end = address + length;
            let range = code.get_or_insert(address..end);
            *range = range.start.min(address)..range.end.max(end);
        }
    }
    Ok(code.unwrap_or(0..0))
}

fn symbols(file: &File<'_>) -> Result<BTreeMap<String, u32>, ElfError> {
    const SYMBOLS: u32 = 2;
    let mut found = BTreeMap::new();
    let (table, size, count) = (file.word(32)?, file.half(46)?, file.half(48)?);
    for index in 0..count {
        let header = add(table, index * size)?;
        if file.word(add(header, 4)?)? != SYMBOLS {
            continue;
        }
        let (offset, length) = (file.word(add(header, 16)?)?, file.word(add(header, 20)?)?);
        let names = add(table, file.word(add(header, 24)?)?.saturating_mul(size))?;
        let names = file.bytes(file.word(add(names, 16)?)?, file.word(add(names, 20)?)?)?;
        for entry in (offset..add(offset, length)?).step_by(16) {
            let name = names.get(file.word(entry)? as usize..).ok_or(ElfError::Truncated)?;
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            if !name.is_empty() {
                let name = String::from_utf8_lossy(name).into_owned();
                found.insert(name, file.word(add(entry, 4)?)?);
            }
        }
    }
    Ok(found)
}
