//! Fingerprints and checksums: which model, algorithm or data a file belongs to, and whether it is whole.

/// FNV-1a, 64 bits: a fingerprint against mistakes, not against attacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(mut self, bytes: &[u8]) -> Fingerprint {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self
    }

    /// 16 hexadecimal digits.
    pub(crate) fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// CRC-32 as in gzip and PNG (reflected polynomial 0xEDB88320).
#[cfg(any(feature = "host", test))]
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (i, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).fold(i as u32, |c, _| (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg()));
    }
    !bytes.iter().fold(!0u32, |c, &b| (c >> 8) ^ table[((c ^ u32::from(b)) & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values from the catalogue of CRC algorithms and from FNV's reference.
    #[test]
    fn known_answers() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(Fingerprint::new().add(b"a").text(), "af63dc4c8601ec8c");
        assert_eq!(Fingerprint::new().add(b"foo").add(b"bar").text(), "85944171f73967e8");
    }
}
