//! What kernels of convolutions have in common: their buffers, and the taps of a window that lie in the map.

use trainc_c::syntax::Pointer;
use trainc_ir::bit_product::BitTail;

/// The buffers of a convolution: map and weights of these types, what the tail takes, the result.
pub(crate) fn pointers(operands: [&'static str; 2], tail: BitTail) -> Vec<Pointer> {
    let count = match tail {
        BitTail::Sums => 2,
        BitTail::Threshold => 3,
        BitTail::Flipped => 4,
    };
    let pointer = |at: usize| {
        let written = at == count;
        Pointer {
            buffer: at,
            name: if written { "y0".into() } else { format!("x{at}") },
            element: match at {
                0 | 1 => operands[at],
                _ if written && tail != BitTail::Sums => "uint8_t",
                _ => "int32_t",
            },
            written,
            scratch: None,
        }
    };
    (0..=count).map(pointer).collect()
}

/// Where the window of a work item (the result's column `ow`, its row in all images `row`) lies, and which of its taps lie in the map.
pub(crate) fn window(
    [height, width]: [usize; 2],
    [rows, columns]: [usize; 2],
    [down, right]: [usize; 2],
    [top, left, ..]: [usize; 4],
    y_height: usize,
) -> Vec<String> {
    vec![
        "const int32_t ow = (int32_t)get_global_id(1);".into(),
        "const int32_t row = (int32_t)get_global_id(2);".into(),
        format!("const int32_t top = row % {y_height}{};", placed(down, top)),
        format!("const int32_t left = ow{};", placed(right, left)),
        "/* The taps that lie in the map. */".into(),
        "const int32_t first_row = max(-top, 0);".into(),
        format!("const int32_t last_row = min({height} - top, {rows});"),
        "const int32_t first_column = max(-left, 0);".into(),
        format!("const int32_t last_column = min({width} - left, {columns});"),
    ]
}

/// Where a window begins, behind the number of the result.
fn placed(stride: usize, pad: usize) -> String {
    let times = if stride == 1 { String::new() } else { format!(" * {stride}") };
    let less = if pad == 0 { String::new() } else { format!(" - {pad}") };
    times + &less
}
