//! C for words of packed elements.

use trainc_ir::Element;

use super::convolution::{bits, is_signed};

/// A word of four equal bytes.
pub(crate) fn repeated(byte: u8) -> String {
    format!("UINT32_C({:#010x})", u32::from(byte) * 0x0101_0101)
}

/// What 1, 2 or 4 bytes at a place hold.
pub(crate) fn load(place: &str, bytes: usize) -> String {
    match bytes {
        4 => format!("trainc_xpulp_load({place})"),
        2 => format!("trainc_mixed_load16({place})"),
        _ => format!("*({place})").replace("(at)", "at"),
    }
}

/// Stores the lowest 1, 2 or 4 bytes.
pub(crate) fn store(place: &str, value: &str, bytes: usize) -> String {
    match bytes {
        4 => format!("trainc_xpulp_store({place}, {value});"),
        2 => format!("trainc_mixed_store16({place}, {value});"),
        _ => format!("trainc_mixed_store8({place}, {value});"),
    }
}

/// Element `i` of a word.
pub(crate) fn lane(word: &str, element: Element, i: usize) -> String {
    let (width, sign) = (bits(element), if is_signed(element) { "" } else { "u" });
    format!("trainc_xpulp_extract{sign}({word}, {width}, {})", i * width)
}

/// Bytes of four elements from element `index` on, a multiple of four.
pub(crate) fn offset(index: &str, element: Element) -> String {
    match bits(element) {
        2 => format!("({index} >> 2)"),
        4 => format!("({index} >> 1)"),
        8 => index.to_string(),
        width => format!("{index} * {}", width / 8),
    }
}
