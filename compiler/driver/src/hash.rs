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

/// A fingerprint of a file, against mistakes: FNV-1a as above over little-endian words of 64 bits in four lanes, word `i`
/// in lane `i % 4`, zeros behind the end up to a multiple of 32 bytes; then FNV-1a over the bytes of the lanes and of the
/// length.
#[cfg(any(feature = "host", test))]
#[derive(Clone, Debug)]
pub(crate) struct FileFingerprint {
    lanes: [u64; 4],
    bytes: u64,
    rest: Vec<u8>,
}

#[cfg(any(feature = "host", test))]
impl FileFingerprint {
    const BLOCK: usize = 32;

    pub(crate) fn new() -> FileFingerprint {
        FileFingerprint { lanes: [Fingerprint::new().0; 4], bytes: 0, rest: Vec::new() }
    }

    pub(crate) fn of(bytes: &[u8]) -> String {
        let mut print = FileFingerprint::new();
        print.add(bytes);
        print.text()
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if !self.rest.is_empty() {
            let missing = (Self::BLOCK - self.rest.len()).min(bytes.len());
            self.rest.extend(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.rest.len() < Self::BLOCK {
                return;
            }
            let whole = std::mem::take(&mut self.rest);
            self.blocks(&whole);
        }
        let (blocks, rest) = bytes.split_at(bytes.len() / Self::BLOCK * Self::BLOCK);
        self.blocks(blocks);
        self.rest.extend(rest);
    }

    fn blocks(&mut self, bytes: &[u8]) {
        for block in bytes.as_chunks::<{ Self::BLOCK }>().0 {
            for (lane, word) in self.lanes.iter_mut().zip(block.as_chunks().0) {
                *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }

    /// How many bytes there were.
    pub(crate) fn length(&self) -> u64 {
        self.bytes
    }

    /// 16 hexadecimal digits.
    pub(crate) fn text(mut self) -> String {
        let mut rest = std::mem::take(&mut self.rest);
        rest.resize(rest.len().next_multiple_of(Self::BLOCK), 0);
        self.blocks(&rest);
        let lanes = self.lanes.iter().chain([&self.bytes]);
        lanes.fold(Fingerprint::new(), |print, lane| print.add(&lane.to_le_bytes())).text()
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

    /// However a file comes in pieces, and each of its bytes counts.
    #[test]
    fn fingerprints_of_files() {
        let bytes: Vec<u8> = (0..200u8).collect();
        let whole = FileFingerprint::of(&bytes);
        for size in [1, 7, 31, 32, 33, 64, 199] {
            let mut print = FileFingerprint::new();
            bytes.chunks(size).for_each(|piece| print.add(piece));
            assert_eq!((print.length(), print.text()), (200, whole.clone()), "{size}");
        }
        for i in 0..bytes.len() {
            let mut other = bytes.clone();
            other[i] ^= 0x80;
            assert_ne!(FileFingerprint::of(&other), whole, "{i}");
        }
        assert_ne!(FileFingerprint::of(&[bytes, vec![0]].concat()), whole);
        // By the definition: no word, so the lanes are where they began.
        let start = 0xcbf2_9ce4_8422_2325u64.to_le_bytes();
        let expected = Fingerprint::new().add(&[start; 4].concat()).add(&[0; 8]).text();
        assert_eq!(FileFingerprint::of(b""), expected);
    }
}
