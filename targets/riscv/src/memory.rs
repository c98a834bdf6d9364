//! The machine's memory: one block of bytes, little-endian, accessed at any alignment.

/// Where programs are linked to: see `support/link.ld`.
pub const BASE: u32 = 0x8000_0000;
/// Bytes of memory of [`Memory::default`]: see `support/link.ld`.
pub const SIZE: u32 = 64 << 20;

/// A block of bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    base: u32,
    bytes: Vec<u8>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new(BASE, SIZE)
    }
}

impl Memory {
    /// `size` bytes of zeros from the address `base` on.
    pub fn new(base: u32, size: u32) -> Memory {
        Memory { base, bytes: vec![0; size as usize] }
    }

    /// Its first address.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Number of its bytes.
    pub fn size(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Bytes from an address on; none if they are not all there.
    pub fn slice(&self, address: u32, length: u32) -> Option<&[u8]> {
        let start = address.wrapping_sub(self.base) as usize;
        self.bytes.get(start..start.checked_add(length as usize)?)
    }

    /// The same, to be written.
    pub fn slice_mut(&mut self, address: u32, length: u32) -> Option<&mut [u8]> {
        let start = address.wrapping_sub(self.base) as usize;
        self.bytes.get_mut(start..start.checked_add(length as usize)?)
    }

    /// `N` bytes.
    #[inline]
    fn array<const N: usize>(&self, address: u32) -> Option<[u8; N]> {
        let start = address.wrapping_sub(self.base) as usize;
        self.bytes.get(start..)?.first_chunk().copied()
    }

    /// A value of 1, 2 or 4 bytes, not extended by its sign.
    #[inline]
    pub fn load(&self, address: u32, size: u8) -> Option<u32> {
        match size {
            1 => self.array(address).map(|[byte]| u32::from(byte)),
            2 => self.array(address).map(|bytes| u32::from(u16::from_le_bytes(bytes))),
            _ => self.array(address).map(u32::from_le_bytes),
        }
    }

    /// Stores the lowest 1, 2 or 4 bytes of a value.
    #[inline]
    pub fn store(&mut self, address: u32, size: u8, value: u32) -> Option<()> {
        let start = address.wrapping_sub(self.base) as usize;
        let bytes = self.bytes.get_mut(start..)?;
        match size {
            1 => *bytes.first_mut()? = value as u8,
            2 => *bytes.first_chunk_mut()? = (value as u16).to_le_bytes(),
            _ => *bytes.first_chunk_mut()? = value.to_le_bytes(),
        }
        Some(())
    }
}
