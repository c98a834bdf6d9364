//! Convolutions of bits on every path against plain loops.

use super::tests::{Random, paths};
use super::*;

/// The sums, from the definition.
fn sums(g: &BitGeometry, x: &[u8], w: &[u8]) -> Vec<i32> {
    let mut all = Vec::new();
    let [rows, columns] = g.kernel;
    for image in 0..g.batch {
        for place in 0..g.y[0] * g.y[1] {
            let (oh, ow) = (place / g.y[1], place % g.y[1]);
            for feature in 0..g.features {
                let mut sum = 0;
                for tap in 0..rows * columns {
                    let row = (oh * g.strides[0] + tap / columns).wrapping_sub(g.pads[0]);
                    let column = (ow * g.strides[1] + tap % columns).wrapping_sub(g.pads[1]);
                    if row >= g.x[0] || column >= g.x[1] {
                        continue;
                    }
                    let pixel = ((image * g.x[0] + row) * g.x[1] + column) * g.bytes;
                    let own = (feature * rows * columns + tap) * g.bytes;
                    let pairs = x[pixel..pixel + g.bytes].iter().zip(&w[own..own + g.bytes]);
                    let differ: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
                    sum += g.channels as i32 - 2 * differ as i32;
                }
                all.push(sum);
            }
        }
    }
    all
}

#[test]
fn products_of_bits_on_every_path() {
    let mut random = Random(11);
    let mut bytes = |count: usize| -> Vec<u8> {
        random.operands_i8(count, 0).into_iter().map(|b| b as u8).collect()
    };
    // Whole and partial words, blocks of features and what is left, windows that overlap nothing, few pixels and many.
    for (at, (pixel, features)) in
        [(1, 8), (2, 24), (3, 5), (4, 64), (6, 72), (8, 130), (12, 1), (32, 8), (64, 200)]
            .into_iter()
            .enumerate()
    {
        for (x, kernel, strides, pads, y) in [
            ([7, 9], [3, 3], [1, 1], [1, 1], [7, 9]),
            ([6, 5], [3, 2], [2, 3], [0, 2], [2, 3]),
            ([4, 4], [4, 4], [1, 1], [0, 0], [1, 1]),
            ([1, 1], [1, 1], [1, 1], [0, 0], [1, 1]),
            ([2, 3], [3, 2], [2, 1], [4, 3], [4, 8]),
        ] {
            let g = BitGeometry {
                batch: 1 + at % 3,
                x,
                bytes: pixel,
                channels: 8 * pixel - at % 8,
                features,
                kernel,
                y,
                strides,
                pads,
            };
            let a = bytes(g.batch * x[0] * x[1] * pixel);
            let b = bytes(features * kernel[0] * kernel[1] * pixel);
            let expected = sums(&g, &a, &b);
            let least: Vec<i32> = (0..features).map(|f| expected[f] + f as i32 % 3 - 1).collect();
            let flips: Vec<i32> = (0..features).map(|f| -((f / 3) as i32 % 2)).collect();
            let mut scratch = vec![0xa5; conv2d_bits_scratch_bytes(&g)];
            for path in paths() {
                let mut found = vec![7; expected.len()];
                conv2d_bits_on(path, &g, &a, &b, &mut found, &mut scratch);
                assert_eq!(found, expected, "{path:?} {g:?}");
                if features % 8 > 0 {
                    continue;
                }
                for flips in [None, Some(&flips[..])] {
                    let thresholds = BitThresholds { least: &least, flips };
                    let mut found = vec![7; expected.len() / 8];
                    conv2d_bits_thresholds_on(
                        path,
                        &g,
                        &a,
                        &b,
                        thresholds,
                        &mut found,
                        &mut scratch,
                    );
                    for (i, sum) in expected.iter().enumerate() {
                        let f = i % features;
                        let reached = sum ^ flips.map_or(0, |flips| flips[f]) >= least[f];
                        let bit = found[i / 8] >> (i % 8) & 1 == 1;
                        assert_eq!(bit, reached, "{path:?} {g:?}, {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn groups_of_bits() {
    let mut random = Random(12);
    let mut bytes = |count: usize| -> Vec<u8> {
        random.operands_i8(count, 0).into_iter().map(|b| b as u8).collect()
    };
    for (groups, pixel, features, side) in [(3, 2, 16, 5), (2, 5, 8, 1), (4, 4, 72, 4)] {
        let g = BitGeometry {
            batch: 2,
            x: [side, side],
            bytes: pixel,
            channels: 8 * pixel - 3,
            features,
            kernel: [3, 3],
            y: [side, side],
            strides: [1, 1],
            pads: [1, 1],
        };
        let product = BitProduct { geometry: g, groups };
        let pixels = g.batch * side * side;
        let x = bytes(pixels * groups * pixel);
        let w = bytes(groups * features * 9 * pixel);
        let mut expected = vec![0; pixels * groups * features];
        for group in 0..groups {
            let of = |all: &[u8]| all[group * pixel..][..pixel].to_vec();
            let own: Vec<u8> = x.chunks_exact(groups * pixel).flat_map(of).collect();
            let w = &w[group * features * 9 * pixel..][..features * 9 * pixel];
            let sums = sums(&g, &own, w);
            for (all, own) in
                expected.chunks_exact_mut(groups * features).zip(sums.chunks_exact(features))
            {
                all[group * features..][..features].copy_from_slice(own);
            }
        }
        let mut scratch = vec![0xa5; product.scratch_bytes()];
        let mut found = vec![7; expected.len()];
        product.sums([&x, &w], &mut found, &mut scratch);
        assert_eq!(found, expected, "{product:?}");
        let least: Vec<i32> =
            (0..groups * features).map(|f| expected[f] + f as i32 % 3 - 1).collect();
        let flips: Vec<i32> = (0..groups * features).map(|f| -((f / 3) as i32 % 2)).collect();
        for flips in [None, Some(&flips[..])] {
            let thresholds = BitThresholds { least: &least, flips };
            let mut found = vec![7; expected.len() / 8];
            product.bits([&x, &w], thresholds, &mut found, &mut scratch);
            for (i, sum) in expected.iter().enumerate() {
                let f = i % (groups * features);
                let reached = sum ^ flips.map_or(0, |flips| flips[f]) >= least[f];
                assert_eq!(found[i / 8] >> (i % 8) & 1 == 1, reached, "{product:?}, {i}");
            }
        }
    }
}
