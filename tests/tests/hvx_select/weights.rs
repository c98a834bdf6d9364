//! Weights in the order of products by vectors: where each lies, and packets beside the estimate.

use trainc_hvx::kernels::{Span, WeightStrides, WindowProduct};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{check, text};

const LANES: usize = 32;

#[test]
fn weights_by_vectors() {
    // Channels, features, rows and columns of windows; whether a channel's weights lie side by side.
    let cases = [
        ([128, 32, 3, 3], false),
        ([256, 96, 3, 3], false),
        ([128, 64, 1, 5], false),
        ([384, 32, 7, 1], false),
        ([128, 32, 1, 3], false),
        ([256, 32, 1, 1], false),
        ([64, 64, 3, 3], false),
        ([24, 128, 3, 3], true),
        ([16, 256, 1, 5], true),
        ([8, 128, 7, 1], true),
        ([16, 96, 3, 3], true),
        ([40, 128, 1, 1], true),
        ([144, 96, 1, 1], true),
        ([40, 64, 1, 1], true),
        ([144, 32, 1, 1], true),
        ([96, 24, 1, 1], true),
        ([192, 5, 1, 1], true),
    ];
    let mut random = Random(31);
    let mut failures = Vec::new();
    for ([channels, features, rows, columns], across) in cases {
        let span = |kernel: usize| Span {
            input: kernel,
            output: 1,
            kernel,
            stride: 1,
            dilation: 1,
            before: 0,
        };
        let axes = [rows, columns].map(|kernel| span(kernel).forward());
        let product = WindowProduct::new(1, channels, features, axes).expect("supported");
        let taps = rows * columns;
        let strides = match across {
            false => WeightStrides { feature: channels * taps, channel: taps, tap: 1 },
            true => WeightStrides { feature: taps, channel: features * taps, tap: 1 },
        };
        let what = format!("weights {channels} {features} {rows} {columns} {across}");
        let weights: Vec<u8> =
            (0..channels * features * taps).map(|_| (random.next() >> 40) as u8).collect();
        let block = product.block();
        let mut expected = Vec::new();
        for first in (0..product.vectors()).step_by(block) {
            for tap in 0..taps {
                for quad in 0..product.quads() {
                    for lane in first * LANES..(first + block) * LANES {
                        for channel in 4 * quad..4 * quad + 4 {
                            let at = lane * strides.feature + channel * strides.channel + tap;
                            let is_weight = lane < features && channel < channels;
                            expected.push(if is_weight { weights[at] ^ 0x80 } else { 0x80 });
                        }
                    }
                }
            }
        }
        let (function, table) = product.pack_weights("pack", &strides).expect("packs");
        let mut image = Image::default();
        let arguments = [
            image.place("weights", Some(&weights), None, weights.len()),
            image.place("packed", None, Some(&expected), expected.len()),
            image.reserve("working memory", product.packing_bytes(&strides).max(128)),
        ];
        let arguments = arguments.map(|at| format!("image+{at}"));
        image.call("pack", &arguments);
        let mut source = text(&function);
        source.extend(table.map(|table| table.assembly()));
        source.push_str("\t.text\n");
        let packets = check(&folder(&what), &image, &source) as usize;
        let estimate = product.packing_packets(&strides);
        println!("{what}: {packets} packets, estimated {estimate:?}");
        if estimate.is_none_or(|estimate| packets.abs_diff(estimate) * 4 > packets) {
            failures.push(format!("{what}: {packets} packets, estimated {estimate:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
