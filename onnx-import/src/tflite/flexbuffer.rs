//! Integers of a FlexBuffers map, the form in which custom operators store their options.
//!
//! The last byte is the width of the root, the byte before it its type; a map is a vector of values with their types
//! behind it and, before it, the offset back to its sorted keys.

const MAP: u8 = 9;
const INT: u8 = 1;
const UINT: u8 = 2;
const BOOL: u8 = 26;

fn unsigned(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let slice = bytes.get(at..at.checked_add(width)?)?;
    Some(slice.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Where the offset back at a place leads.
fn back(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    at.checked_sub(usize::try_from(unsigned(bytes, at, width)?).ok()?)
}

/// The integer (or boolean) under a key of the map; `None` if the bytes are no map, or it has no such integer.
pub(crate) fn integer(bytes: &[u8], key: &str) -> Option<i64> {
    let width = usize::from(*bytes.last()?);
    let kind = *bytes.get(bytes.len().checked_sub(2)?)?;
    if !matches!(width, 1 | 2 | 4 | 8) || kind >> 2 != MAP {
        return None;
    }
    let map = back(bytes, bytes.len().checked_sub(2 + width)?, width)?;
    let width = 1usize << (kind & 3);
    let count = usize::try_from(unsigned(bytes, map.checked_sub(width)?, width)?).ok()?;
    let keys_width = usize::try_from(unsigned(bytes, map.checked_sub(2 * width)?, width)?).ok()?;
    let keys = back(bytes, map.checked_sub(3 * width)?, width)?;
    if !matches!(keys_width, 1 | 2 | 4 | 8) {
        return None;
    }
    let types = map.checked_add(count.checked_mul(width)?)?;
    for i in 0..count {
        let name = back(bytes, keys.checked_add(i.checked_mul(keys_width)?)?, keys_width)?;
        let text = bytes.get(name..)?;
        if text.strip_prefix(key.as_bytes()).is_none_or(|rest| rest.first() != Some(&0)) {
            continue;
        }
        let value = unsigned(bytes, map + i * width, width)?;
        let unused = 64 - 8 * width as u32;
        return match *bytes.get(types.checked_add(i)?)? >> 2 {
            INT => Some((value << unused) as i64 >> unused),
            UINT | BOOL => i64::try_from(value).ok(),
            _ => None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a": 5, "b": -3}` as the flatbuffers package of Python writes it.
    const MAP_BYTES: [u8; 17] = [b'a', 0, b'b', 0, 2, 5, 4, 2, 1, 2, 5, 0xfd, 4, 4, 4, 0x24, 1];

    #[test]
    fn integers_of_a_map() {
        assert_eq!(integer(&MAP_BYTES, "a"), Some(5));
        assert_eq!(integer(&MAP_BYTES, "b"), Some(-3));
        assert_eq!(integer(&MAP_BYTES, "c"), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        for i in 0..MAP_BYTES.len() {
            for byte in 0..=255 {
                let mut bytes = MAP_BYTES;
                bytes[i] = byte;
                integer(&bytes, "b");
            }
            integer(&MAP_BYTES[..i], "a");
        }
    }
}
