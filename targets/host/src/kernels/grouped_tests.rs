//! Products of groups on every path against plain loops written from their definition: parts summed as integers, then one
//! rounded step of FP32 a part.

use super::tests::{Random, bits, paths, shapes, terms};
use super::*;

/// `total = total + f32(sum) * (scale * scale)` over the parts of one result.
fn total(sums: &[i32], scales: impl Fn(usize) -> f32, by_part: bool) -> f32 {
    let mut total = 0.0f32;
    if by_part {
        for (part, &sum) in sums.iter().enumerate() {
            total += sum as f32 * scales(part);
        }
    } else {
        total += sums.iter().fold(0i32, |all, &sum| all.wrapping_add(sum)) as f32 * scales(0);
    }
    total * 0.5 * 4.0
}

/// Scales of a matrix `[rows, columns]` of planes; all the same ones along what is summed over unless `by_part`.
fn scales(
    random: &mut Random,
    shape: [usize; 2],
    summed: usize,
    by_part: bool,
) -> (Vec<f32>, [usize; 2]) {
    let mut own = shape;
    let mut steps = [shape[1], 1];
    if !by_part {
        own[summed] = 1;
        steps = [own[1], 1];
        steps[summed] = 0;
    }
    (random.operands_f32(own[0] * own[1]), steps)
}

fn check_convolution(g: &ConvGeometry, by_part: bool, random: &mut Random) {
    let (inputs, outputs, taps) = (g.group_in_channels(), g.group_out_channels(), g.taps());
    let x = random.operands_i8(g.input_len(), 0);
    let w = random.operands_i8(g.weight_len(), 3);
    let dy = random.operands_i8(g.output_len(), 0);
    let mut y_parts = vec![0i32; g.output_len() * inputs];
    let mut dx_parts = vec![0i32; g.input_len() * outputs];
    let mut dw_parts = vec![0i32; g.weight_len() * g.batch];
    terms(g, |yi, xi, wi| {
        let (feature, channel) = (wi / taps / inputs, wi / taps % inputs);
        let image = xi / (g.in_channels * g.in_plane());
        y_parts[yi * inputs + channel] += i32::from(x[xi]) * i32::from(w[wi]);
        dx_parts[xi * outputs + feature % outputs] += i32::from(dy[yi]) * i32::from(w[wi]);
        dw_parts[wi * g.batch + image] += i32::from(x[xi]) * i32::from(dy[yi]);
    });
    let planes = [[g.batch, g.in_channels], [g.out_channels, inputs], [g.batch, g.out_channels]];
    for pass in [GroupedPass::Forward, GroupedPass::InputGradient, GroupedPass::WeightGradient] {
        let (a, b, left, right, summed) = match pass {
            GroupedPass::Forward => (&x, &w, planes[0], planes[1], [1, 1]),
            GroupedPass::InputGradient => (&dy, &w, planes[2], planes[1], [1, 0]),
            GroupedPass::WeightGradient => (&x, &dy, planes[0], planes[2], [0, 0]),
        };
        let (scale_a, steps_a) = scales(random, left, summed[0], by_part);
        let (scale_b, steps_b) = scales(random, right, summed[1], by_part);
        let at_a = |i: usize, j: usize| scale_a[i * steps_a[0] + j * steps_a[1]];
        let at_b = |i: usize, j: usize| scale_b[i * steps_b[0] + j * steps_b[1]];
        let expected: Vec<f32> = match pass {
            GroupedPass::Forward => (0..g.output_len())
                .map(|i| {
                    let plane = i / g.out_plane();
                    let (image, feature) = (plane / g.out_channels, plane % g.out_channels);
                    let first = feature / outputs * inputs;
                    let scale = |c: usize| at_a(image, first + c) * at_b(feature, c);
                    total(&y_parts[i * inputs..][..inputs], scale, by_part)
                })
                .collect(),
            GroupedPass::InputGradient => (0..g.input_len())
                .map(|i| {
                    let plane = i / g.in_plane();
                    let (image, channel) = (plane / g.in_channels, plane % g.in_channels);
                    let first = channel / inputs * outputs;
                    let scale =
                        |o: usize| at_a(image, first + o) * at_b(first + o, channel % inputs);
                    total(&dx_parts[i * outputs..][..outputs], scale, by_part)
                })
                .collect(),
            GroupedPass::WeightGradient => (0..g.weight_len())
                .map(|i| {
                    let (feature, channel) = (i / taps / inputs, i / taps % inputs);
                    let source = feature / outputs * inputs + channel;
                    let scale = |image: usize| at_a(image, source) * at_b(image, feature);
                    total(&dw_parts[i * g.batch..][..g.batch], scale, by_part)
                })
                .collect(),
        };
        let groups = |values, steps| GroupScales { values, steps };
        let sums = GroupedSums {
            scales: [groups(&scale_a, steps_a), groups(&scale_b, steps_b)],
            by_part,
            factors: [0.5, 4.0],
        };
        let mut scratch = vec![0xa5; grouped_convolution_scratch_bytes(g)];
        for path in paths() {
            let mut out = vec![f32::NAN; expected.len()];
            grouped_convolution_on(path, pass, g, a, b, &sums, &mut out, &mut scratch);
            assert!(bits(&out) == bits(&expected), "{pass:?} {path:?} by part {by_part} {g:?}");
        }
    }
}

#[test]
fn convolutions() {
    let mut random = Random(11);
    for g in shapes() {
        for by_part in [false, true] {
            check_convolution(&g, by_part, &mut random);
        }
    }
}

#[test]
fn matrices() {
    let mut random = Random(12);
    for [m, n, k] in [[1, 1, 1], [3, 17, 5], [16, 10, 33], [7, 64, 16]] {
        for (form, by_part) in (0..4).flat_map(|form| [(form, false), (form, true)]) {
            let (transpose_a, transpose_b) = (form & 1 == 1, form & 2 == 2);
            let g = MatMulGeometry::single(m, n, k, transpose_a, transpose_b);
            let a = random.operands_i8(g.a_len(), 0);
            let b = random.operands_i8(g.b_len(), 3);
            let (shape_a, summed_a) = if transpose_a { ([k, m], 0) } else { ([m, k], 1) };
            let (shape_b, summed_b) = if transpose_b { ([n, k], 1) } else { ([k, n], 0) };
            let (scale_a, steps_a) = scales(&mut random, shape_a, summed_a, by_part);
            let (scale_b, mut steps_b) = scales(&mut random, shape_b, summed_b, by_part);
            // Scales of whole rows of the right operand, too.
            if m == 16 {
                steps_b[1 - summed_b] = 0;
            }
            let index =
                |transposed: bool, i: usize, j: usize| if transposed { [j, i] } else { [i, j] };
            let mut expected = Vec::new();
            for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let own = |k: usize| {
                    let ([i, j], [p, q]) =
                        (index(transpose_a, row, k), index(transpose_b, k, column));
                    let product =
                        i32::from(a[i * shape_a[1] + j]) * i32::from(b[p * shape_b[1] + q]);
                    let scale_a = scale_a[i * steps_a[0] + j * steps_a[1]];
                    (product, scale_a * scale_b[p * steps_b[0] + q * steps_b[1]])
                };
                let products: Vec<i32> = (0..k).map(|k| own(k).0).collect();
                expected.push(total(&products, |k| own(k).1, by_part));
            }
            let groups = |values, steps| GroupScales { values, steps };
            let sums = GroupedSums {
                scales: [groups(&scale_a, steps_a), groups(&scale_b, steps_b)],
                by_part,
                factors: [0.5, 4.0],
            };
            let mut scratch = vec![0xa5; grouped_matmul_scratch_bytes(&g)];
            for path in paths() {
                let mut out = vec![f32::NAN; expected.len()];
                grouped_matmul_on(path, &g, &a, &b, &sums, &mut out, &mut scratch);
                assert!(bits(&out) == bits(&expected), "{path:?} by part {by_part} {g:?}");
            }
        }
    }
}
