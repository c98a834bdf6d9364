//! Weight gradients whose lanes are 32 channels, and few channels of neighbouring columns: awkward shapes against the meaning, bit for
//! bit, and their packets beside their estimates.

use trainc_tests::hexagon_convolution::{ConvolutionCase, Fill};

use super::harness::folder;

/// Images, channels, features, rows and columns, taps, strides, padding above and left, below and right.
type Shape = ([usize; 3], [usize; 2], [usize; 2], [usize; 2], [usize; 2], [usize; 2]);

fn case((counts, size, kernel, strides, before, after): Shape) -> ConvolutionCase {
    let [images, channels, features] = counts;
    let ([top, left], [bottom, right]) = (before, after);
    let pads = [top, left, bottom, right];
    ConvolutionCase { images, channels, features, size, kernel, strides, pads, dilations: [1, 1] }
}

#[test]
fn wide_and_narrow() {
    let shapes: [Shape; 20] = [
        // Rows of 128 bytes: 16 channels of eight features, 32 of four.
        ([4, 16, 32], [9, 7], [3, 3], [2, 2], [1, 1], [1, 1]),
        ([4, 16, 16], [8, 8], [3, 3], [1, 1], [1, 1], [1, 1]),
        ([4, 16, 8], [5, 6], [1, 5], [1, 1], [0, 2], [0, 2]),
        ([4, 16, 16], [6, 6], [1, 1], [2, 2], [0, 0], [0, 0]),
        ([4, 32, 12], [5, 5], [3, 3], [1, 1], [1, 1], [1, 1]),
        ([5, 32, 4], [5, 9], [1, 7], [1, 2], [0, 3], [0, 0]),
        // Rows of a single tap: whole vectors, several, with lanes that are no channels, features that fill up.
        ([4, 96, 8], [4, 4], [1, 1], [1, 1], [0, 0], [0, 0]),
        ([4, 320, 12], [4, 4], [1, 1], [1, 1], [0, 0], [0, 0]),
        ([5, 24, 16], [5, 7], [1, 1], [1, 1], [0, 0], [0, 0]),
        ([3, 144, 6], [6, 6], [1, 1], [2, 2], [0, 0], [0, 0]),
        ([1, 160, 7], [3, 5], [1, 1], [1, 1], [0, 0], [0, 0]),
        ([4, 1, 3], [5, 5], [1, 1], [1, 1], [1, 1], [1, 1]),
        // Byte by byte.
        ([3, 6, 16], [14, 14], [5, 5], [1, 1], [0, 0], [0, 0]),
        ([4, 3, 10], [9, 11], [3, 3], [1, 1], [1, 1], [0, 1]),
        ([1, 1, 5], [7, 9], [5, 5], [1, 2], [2, 2], [2, 2]),
        ([9, 13, 9], [4, 5], [2, 4], [2, 1], [1, 3], [0, 2]),
        ([4, 16, 9], [6, 7], [3, 3], [1, 1], [0, 0], [0, 0]),
        ([4, 6, 8], [5, 12], [3, 7], [1, 1], [1, 3], [1, 3]),
        ([2, 1, 4], [6, 40], [3, 9], [1, 3], [0, 4], [0, 4]),
        ([4, 8, 8], [3, 126], [2, 2], [1, 1], [0, 1], [0, 0]),
    ];
    let mut failures = Vec::new();
    for shape in shapes {
        for (fill, bits) in [(Fill::Random, 5), (Fill::Extreme, 7), (Fill::Small, 1)] {
            let case = case(shape);
            let name =
                format!("gradients {shape:?} {fill:?}").replace(['[', ']', ',', '(', ')'], "");
            let wide = case.check_weight_gradient(&folder(&name), fill, bits);
            let narrow = case.check_narrow_gradient(&folder(&format!("{name} narrow")), fill, bits);
            for (what, checked) in [("wide", Some(wide)), ("narrow", narrow)] {
                let Some(checked) = checked else { continue };
                println!("{name} {what}: {} packets", checked.kernel_packets());
                let difference = checked.difference.map(|d| format!("{name} {what}: {d}"));
                failures.extend(difference);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
