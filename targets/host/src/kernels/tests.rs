//! Every path against plain loops written from the definitions. `grouped_tests` shares what is random here.

use std::sync::Mutex;

use super::convolution::Near;
use super::geometry::Pass;
use super::products::near_i8;
use super::*;

/// SplitMix64, so that the operands are the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn operands_i8(&mut self, length: usize, kind: usize) -> Vec<i8> {
        let value = |random: u64| match kind {
            0 => random as i8,
            1 => -128,
            2 => 127,
            _ => [-128, 127, 0, -1][(random % 4) as usize],
        };
        (0..length).map(|_| value(self.next())).collect()
    }

    pub(super) fn operands_f32(&mut self, length: usize) -> Vec<f32> {
        let value = |random: u64| {
            let mantissa = ((random >> 40) as f32 / (1u64 << 24) as f32) * 2.0 - 1.0;
            match random % 16 {
                0 => 0.0,
                1 => -0.0,
                // Widely different magnitudes make every change of order visible.
                _ => mantissa * 2f32.powi((random >> 8) as i32 % 12),
            }
        };
        (0..length).map(|_| value(self.next())).collect()
    }
}

pub(super) fn paths() -> Vec<KernelPath> {
    KernelPath::ALL.into_iter().filter(|path| path.is_available()).collect()
}

/// Calls `term(y, x, w)` with the flat indices of every product of the convolution, in the order
/// batch, output channel, output row, output column, input channel, kernel row, kernel column.
pub(super) fn terms(g: &ConvGeometry, mut term: impl FnMut(usize, usize, usize)) {
    let (inner, outer) = (g.in_channels / g.groups, g.out_channels / g.groups);
    for b in 0..g.batch {
        for o in 0..g.out_channels {
            for oh in 0..g.out_height {
                for ow in 0..g.out_width {
                    for c in 0..inner {
                        for kh in 0..g.kernel_height {
                            for kw in 0..g.kernel_width {
                                let ih = (oh * g.stride_height + kh * g.dilation_height) as i64
                                    - g.pad_top as i64;
                                let iw = (ow * g.stride_width + kw * g.dilation_width) as i64
                                    - g.pad_left as i64;
                                if ih < 0
                                    || iw < 0
                                    || ih >= g.in_height as i64
                                    || iw >= g.in_width as i64
                                {
                                    continue;
                                }
                                let channel = o / outer * inner + c;
                                let y = ((b * g.out_channels + o) * g.out_height + oh)
                                    * g.out_width
                                    + ow;
                                let x = ((b * g.in_channels + channel) * g.in_height + ih as usize)
                                    * g.in_width
                                    + iw as usize;
                                let w =
                                    ((o * inner + c) * g.kernel_height + kh) * g.kernel_width + kw;
                                term(y, x, w);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The products of each target, sorted by `order` and summed from zero one by one.
fn ordered(length: usize, mut products: Vec<(usize, usize, f32)>) -> Vec<u32> {
    products.sort_by_key(|&(target, order, _)| (target, order));
    let mut sums = vec![0f32; length];
    for (target, _, product) in products {
        sums[target] += product;
    }
    sums.iter().map(|sum| sum.to_bits()).collect()
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn largest(values: &[i32]) -> u32 {
    values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0)
}

/// A scratch full of rubbish; without its first byte it does not start on a boundary.
fn scratch(bytes: usize) -> Vec<u8> {
    vec![0xc3; bytes + 1]
}

/// Sums that are taken while they are near, one image at a time and two: each image's once.
fn check_near(
    path: KernelPath,
    pass: Pass,
    g: &ConvGeometry,
    operands: [&[i8]; 2],
    expected: &[i32],
) {
    for (images, keeps) in [(1, false), (2, false), (2, true)] {
        let found = Mutex::new(vec![None; expected.len()]);
        let take = &|first: usize, sums: &[i32]| {
            let mut found = found.lock().unwrap();
            let image = expected.len() / g.batch;
            assert!(sums.len() <= images * image && sums.len().is_multiple_of(image));
            for (found, &sum) in found[first * image..].iter_mut().zip(sums) {
                assert!(found.replace(sum).is_none(), "an image that was taken");
            }
        };
        let near = Near { images, keeps, take };
        let (mut sums, bytes) = (
            vec![7; expected.len()],
            match pass {
                Pass::Forward => conv2d_i8_scratch_bytes(g),
                _ => conv2d_grad_input_i8_scratch_bytes(g),
            },
        );
        let s = &mut scratch(bytes)[1..];
        let Some(most) = near_i8(path, pass, g, operands, &mut sums, s, &near) else { return };
        let found: Vec<i32> =
            found.into_inner().unwrap().into_iter().map(|sum| sum.unwrap()).collect();
        assert!(found == expected, "{pass:?} near {path:?} {g:?}");
        assert!(!keeps || sums == expected, "{pass:?} kept {path:?} {g:?}");
        assert_eq!(most, largest(expected), "{pass:?} near {path:?} {g:?}");
    }
}

fn check_i8(g: &ConvGeometry, kind: usize, random: &mut Random) {
    let x = random.operands_i8(g.input_len(), kind);
    let w = random.operands_i8(g.weight_len(), if kind == 2 { 1 } else { kind });
    let dy = random.operands_i8(g.output_len(), kind);
    let mut y_expected = vec![0i32; g.output_len()];
    let mut dx_expected = vec![0i32; g.input_len()];
    let mut dw_expected = vec![0i32; g.weight_len()];
    terms(g, |yi, xi, wi| {
        y_expected[yi] += i32::from(x[xi]) * i32::from(w[wi]);
        dx_expected[xi] += i32::from(dy[yi]) * i32::from(w[wi]);
        dw_expected[wi] += i32::from(dy[yi]) * i32::from(x[xi]);
    });
    for path in paths() {
        let mut y = vec![7; g.output_len()];
        let mut s = scratch(conv2d_i8_scratch_bytes(g));
        let most = conv2d_i8_on(path, g, &x, &w, &mut y, &mut s[1..]);
        assert!(y == y_expected, "forward {path:?} {g:?}");
        assert_eq!(most, largest(&y_expected), "forward {path:?} {g:?}");

        let mut dx = vec![7; g.input_len()];
        let mut s = scratch(conv2d_grad_input_i8_scratch_bytes(g));
        let most = conv2d_grad_input_i8_on(path, g, &dy, &w, &mut dx, &mut s[1..]);
        assert!(dx == dx_expected, "input gradient {path:?} {g:?}");
        assert_eq!(most, largest(&dx_expected), "input gradient {path:?} {g:?}");

        let mut dw = vec![7; g.weight_len()];
        let mut s = scratch(conv2d_grad_weight_i8_scratch_bytes(g));
        let most = conv2d_grad_weight_i8_on(path, g, &x, &dy, &mut dw, &mut s[1..]);
        assert!(dw == dw_expected, "weight gradient {path:?} {g:?}");
        check_near(path, Pass::Forward, g, [&x, &w], &y_expected);
        check_near(path, Pass::InputGradient, g, [&dy, &w], &dx_expected);
        assert_eq!(most, largest(&dw_expected), "weight gradient {path:?} {g:?}");
    }
}

fn check_f32(g: &ConvGeometry, random: &mut Random) {
    let x = random.operands_f32(g.input_len());
    let w = random.operands_f32(g.weight_len());
    let dy = random.operands_f32(g.output_len());
    let (mut y_terms, mut dx_terms, mut dw_terms) = (Vec::new(), Vec::new(), Vec::new());
    let plane = g.out_height * g.out_width;
    terms(g, |yi, xi, wi| {
        y_terms.push((yi, wi, x[xi] * w[wi]));
        // Weights are [o, c, kh, kw]: for one input element, ascending (o, kh, kw).
        dx_terms.push((xi, wi, dy[yi] * w[wi]));
        // Ascending (b, oh, ow).
        let order = yi / (g.out_channels * plane) * plane + yi % plane;
        dw_terms.push((wi, order, dy[yi] * x[xi]));
    });
    let y_expected = ordered(g.output_len(), y_terms);
    let dx_expected = ordered(g.input_len(), dx_terms);
    let dw_expected = ordered(g.weight_len(), dw_terms);
    for path in paths() {
        let mut y = vec![f32::NAN; g.output_len()];
        let mut s = scratch(conv2d_f32_scratch_bytes(g));
        conv2d_f32_on(path, g, &x, &w, &mut y, &mut s[1..]);
        assert!(bits(&y) == y_expected, "forward {path:?} {g:?}");

        let mut dx = vec![f32::NAN; g.input_len()];
        let mut s = scratch(conv2d_grad_input_f32_scratch_bytes(g));
        conv2d_grad_input_f32_on(path, g, &dy, &w, &mut dx, &mut s[1..]);
        assert!(bits(&dx) == dx_expected, "input gradient {path:?} {g:?}");

        let mut dw = vec![f32::NAN; g.weight_len()];
        let mut s = scratch(conv2d_grad_weight_f32_scratch_bytes(g));
        conv2d_grad_weight_f32_on(path, g, &x, &dy, &mut dw, &mut s[1..]);
        assert!(bits(&dw) == dw_expected, "weight gradient {path:?} {g:?}");
    }
}

/// A convolution from `[batch, in, height, width]` to `out` channels; `pads` are top, left, bottom
/// and right.
#[allow(clippy::too_many_arguments, reason = "one line for each shape below")]
pub(super) fn shape(
    batch: usize,
    channels: [usize; 2],
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    pads: [usize; 4],
    groups: usize,
) -> ConvGeometry {
    let out = |i: usize| {
        (size[i] + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilation[i] - 1) / stride[i] + 1
    };
    ConvGeometry {
        batch,
        in_channels: channels[0],
        in_height: size[0],
        in_width: size[1],
        out_channels: channels[1],
        out_height: out(0),
        out_width: out(1),
        kernel_height: kernel[0],
        kernel_width: kernel[1],
        stride_height: stride[0],
        stride_width: stride[1],
        dilation_height: dilation[0],
        dilation_width: dilation[1],
        pad_top: pads[0],
        pad_left: pads[1],
        groups,
    }
}

pub(super) fn shapes() -> Vec<ConvGeometry> {
    vec![
        shape(1, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4], 1),
        shape(2, [1, 6], [28, 28], [5, 5], [1, 1], [1, 1], [2; 4], 1),
        shape(3, [6, 16], [14, 14], [5, 5], [1, 1], [1, 1], [0; 4], 1),
        shape(2, [3, 64], [32, 32], [3, 3], [1, 1], [1, 1], [1; 4], 1),
        shape(5, [40, 37], [8, 8], [3, 3], [1, 1], [1, 1], [1; 4], 1),
        shape(7, [64, 33], [4, 4], [3, 3], [1, 1], [1, 1], [1; 4], 1),
        shape(9, [35, 70], [2, 2], [3, 3], [1, 1], [1, 1], [1; 4], 1),
        shape(4, [13, 29], [7, 9], [1, 1], [1, 1], [1, 1], [0; 4], 1),
        shape(3, [20, 24], [9, 11], [1, 1], [2, 2], [1, 1], [0; 4], 1),
        shape(2, [17, 19], [15, 13], [3, 3], [2, 2], [1, 1], [1; 4], 1),
        shape(2, [5, 7], [17, 23], [7, 5], [3, 2], [1, 1], [3, 2, 1, 0], 1),
        shape(1, [9, 10], [19, 21], [3, 3], [1, 1], [2, 3], [2, 3, 2, 3], 1),
        shape(2, [4, 6], [18, 20], [3, 2], [2, 3], [3, 2], [4, 0, 1, 5], 1),
        shape(2, [12, 18], [10, 10], [3, 3], [1, 1], [1, 1], [1; 4], 3),
        shape(3, [8, 8], [11, 6], [3, 3], [2, 1], [1, 1], [0, 1, 2, 1], 2),
        shape(2, [10, 10], [12, 13], [3, 3], [1, 1], [1, 1], [1; 4], 10),
        shape(2, [6, 12], [13, 12], [5, 3], [2, 3], [1, 2], [2, 1, 0, 3], 6),
        // Kernels larger than the input, and outputs that read nothing but padding.
        shape(1, [3, 2], [2, 3], [5, 5], [1, 1], [1, 1], [4; 4], 1),
        shape(2, [2, 3], [3, 2], [2, 2], [1, 1], [1, 1], [5, 4, 3, 6], 1),
        // A stride longer than the kernel leaves inputs that nothing reads.
        shape(2, [3, 5], [12, 14], [2, 1], [4, 3], [1, 1], [0, 1, 0, 0], 1),
        // Sums longer than one pass of a tile.
        shape(2, [700, 13], [3, 5], [3, 3], [1, 1], [1, 1], [1; 4], 1),
        shape(1, [13, 700], [3, 5], [3, 3], [2, 2], [1, 1], [1; 4], 1),
    ]
}

#[test]
fn convolutions_i8() {
    let mut random = Random(1);
    for g in shapes() {
        for kind in 0..4 {
            check_i8(&g, kind, &mut random);
        }
    }
}

#[test]
fn convolutions_f32() {
    let mut random = Random(2);
    for g in shapes() {
        check_f32(&g, &mut random);
    }
}

/// A plane that is repacked in several strips, and images that are repacked in several lots.
#[test]
fn large_operands() {
    let mut random = Random(3);
    let strips = shape(2, [40, 3], [90, 110], [3, 3], [2, 1], [1, 1], [1; 4], 1);
    let lots = shape(70, [64, 5], [8, 8], [3, 3], [1, 1], [1, 1], [1; 4], 1);
    for g in [strips, lots] {
        check_i8(&g, 0, &mut random);
        check_f32(&g, &mut random);
    }
}

#[test]
fn random_convolutions() {
    let mut random = Random(4);
    let mut done = 0;
    while done < 150 {
        let mut pick = |low: usize, high: usize| low + random.next() as usize % (high - low + 1);
        let groups = pick(1, 3);
        let kernel = [pick(1, 4), pick(1, 4)];
        let dilation = [pick(1, 2), pick(1, 2)];
        let size = [pick(1, 12), pick(1, 40)];
        let pads = [pick(0, 3), pick(0, 3), pick(0, 3), pick(0, 3)];
        let fits = |i: usize| size[i] + pads[i] + pads[i + 2] > (kernel[i] - 1) * dilation[i];
        if !(fits(0) && fits(1)) {
            continue;
        }
        let channels = [groups * pick(1, 20), groups * pick(1, 20)];
        let stride = [pick(1, 3), pick(1, 3)];
        let g = shape(pick(1, 6), channels, size, kernel, stride, dilation, pads, groups);
        check_i8(&g, done % 4, &mut random);
        check_f32(&g, &mut random);
        done += 1;
    }
}

/// A filter for each channel, and several: images one below the other and alone, strides, padding of all sizes.
#[test]
fn random_depthwise() {
    let mut random = Random(5);
    let mut done = 0;
    while done < 200 {
        let mut pick = |low: usize, high: usize| low + random.next() as usize % (high - low + 1);
        let groups = pick(2, 5);
        let kernel = [pick(1, 5), pick(1, 6)];
        let dilation = [pick(1, 4).saturating_sub(2).max(1), pick(1, 4).saturating_sub(2).max(1)];
        let size = [pick(1, 12), pick(1, 40)];
        let pads = [pick(0, 3), pick(0, 3), pick(0, 3), pick(0, 3)];
        let fits = |i: usize| size[i] + pads[i] + pads[i + 2] > (kernel[i] - 1) * dilation[i];
        if !(fits(0) && fits(1)) {
            continue;
        }
        let channels = [groups, groups * pick(1, 3).saturating_sub(1).max(1)];
        let stride = [pick(1, 3), pick(1, 3)];
        let g = shape(pick(1, 20), channels, size, kernel, stride, dilation, pads, groups);
        check_i8(&g, done % 4, &mut random);
        check_f32(&g, &mut random);
        done += 1;
    }
}

/// Maps of few positions and many images and channels, whose lanes are images.
#[test]
fn small_maps() {
    let mut random = Random(6);
    let mut done = 0;
    while done < 60 {
        let mut pick = |low: usize, high: usize| low + random.next() as usize % (high - low + 1);
        let kernel = [pick(1, 4), pick(1, 4)];
        let dilation = [pick(1, 4).saturating_sub(2).max(1), pick(1, 4).saturating_sub(2).max(1)];
        let size = [pick(1, 5), pick(1, 5)];
        let pads = [pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)];
        let fits = |i: usize| size[i] + pads[i] + pads[i + 2] > (kernel[i] - 1) * dilation[i];
        if !(fits(0) && fits(1)) {
            continue;
        }
        let stride = [pick(1, 4).saturating_sub(2).max(1), pick(1, 4).saturating_sub(2).max(1)];
        let channels = [pick(16, 70), pick(16, 70)];
        let g = shape(pick(16, 50), channels, size, kernel, stride, dilation, pads, 1);
        check_i8(&g, done % 4, &mut random);
        done += 1;
    }
}

fn check_matmul(g: &MatMulGeometry, kind: usize, random: &mut Random) {
    let (a, b) = (random.operands_i8(g.a_len(), kind), random.operands_i8(g.b_len(), kind));
    let (fa, fb) = (random.operands_f32(g.a_len()), random.operands_f32(g.b_len()));
    let mut expected = vec![0i32; g.c_len()];
    let mut expected_f32 = vec![0f32; g.c_len()];
    for batch in 0..g.batch {
        for m in 0..g.m {
            for n in 0..g.n {
                let (mut sum, mut sum_f32) = (0i32, 0f32);
                for k in 0..g.k {
                    let ai = batch * g.batch_stride_a
                        + if g.transpose_a { k * g.m + m } else { m * g.k + k };
                    let bi = batch * g.batch_stride_b
                        + if g.transpose_b { n * g.k + k } else { k * g.n + n };
                    sum += i32::from(a[ai]) * i32::from(b[bi]);
                    sum_f32 += fa[ai] * fb[bi];
                }
                expected[(batch * g.m + m) * g.n + n] = sum;
                expected_f32[(batch * g.m + m) * g.n + n] = sum_f32;
            }
        }
    }
    for path in paths() {
        let mut c = vec![7; g.c_len()];
        let mut s = scratch(matmul_i8_scratch_bytes(g));
        let most = matmul_i8_on(path, g, &a, &b, &mut c, &mut s[1..]);
        assert!(c == expected, "{path:?} {g:?}");
        assert_eq!(most, largest(&expected), "{path:?} {g:?}");
        let mut c = vec![f32::NAN; g.c_len()];
        let mut s = scratch(matmul_f32_scratch_bytes(g));
        matmul_f32_on(path, g, &fa, &fb, &mut c, &mut s[1..]);
        assert!(bits(&c) == bits(&expected_f32), "{path:?} {g:?}");
    }
}

#[test]
fn matrix_products() {
    let mut random = Random(5);
    let sizes = [
        [1, 1, 1],
        [64, 10, 84],
        [1, 70, 33],
        [33, 1, 5],
        [12, 32, 4],
        [13, 33, 17],
        [200, 65, 31],
        [7, 600, 9],
        [25, 40, 2500],
        [3, 5, 0],
        [0, 5, 3],
    ];
    for [m, n, k] in sizes {
        for kind in 0..4 {
            for (transpose_a, transpose_b) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let g = MatMulGeometry::single(m, n, k, transpose_a, transpose_b);
                check_matmul(&g, kind, &mut random);
            }
        }
    }
    let batched = MatMulGeometry {
        batch: 3,
        batch_stride_a: 7 * 9,
        batch_stride_b: 0,
        m: 7,
        n: 11,
        k: 9,
        transpose_a: true,
        transpose_b: false,
    };
    check_matmul(&batched, 0, &mut random);
    let other = MatMulGeometry { batch_stride_a: 0, batch_stride_b: 11 * 9 + 5, ..batched };
    check_matmul(&other, 0, &mut random);
}

/// Sums may leave the range of `i32`; they wrap.
#[test]
fn sums_wrap() {
    let g = MatMulGeometry::single(1, 1, 131_073, false, false);
    let operands = vec![-128i8; g.k];
    for path in paths() {
        let mut c = [0];
        let mut s = scratch(matmul_i8_scratch_bytes(&g));
        let most = matmul_i8_on(path, &g, &operands, &operands, &mut c, &mut s[1..]);
        assert_eq!(c, [i32::MIN + (1 << 14)], "{path:?}");
        assert_eq!(most, (1 << 31) - (1 << 14), "{path:?}");
    }
}

/// Wide integers, so that no shift is special.
fn rounded(value: i32, shift: u32, low: i64, up: impl Fn(u64) -> bool) -> i8 {
    let magnitude = i64::from(value).unsigned_abs();
    let whole = (u128::from(magnitude) >> shift) as i64;
    let result = whole + i64::from(up(magnitude));
    (if value < 0 { -result } else { result }).clamp(low, 127) as i8
}

fn sums_of_interest(random: &mut Random) -> Vec<i32> {
    let mut sums = vec![0, 1, -1, i32::MAX, i32::MIN, i32::MIN + 1];
    for shift in 0..31 {
        for near in -2..=2 {
            sums.push((1i32 << shift).wrapping_add(near));
            sums.push((1i32 << shift).wrapping_add(near).wrapping_neg());
        }
    }
    for _ in 0..1000 {
        let value = random.next();
        sums.push((value as i32) >> (value >> 32 & 31));
    }
    sums
}

#[test]
fn requantization() {
    let mut random = Random(6);
    let sums = sums_of_interest(&mut random);
    for path in paths() {
        let mut out = vec![0; sums.len()];
        for shift in (0..=40).chain([64, u32::MAX]) {
            for low in [-127, 0] {
                requantize_half_away_on(path, &sums, shift, low, &mut out);
                for (&sum, &out) in sums.iter().zip(&out) {
                    let shift = shift.min(60);
                    let up = |m: u64| shift > 0 && (m >> (shift - 1)) & 1 == 1;
                    let expected = rounded(sum, shift, i64::from(low), up);
                    assert_eq!(out, expected, "{path:?} {sum} >> {shift}, low {low}");
                }
            }
        }
        for shift in 0..=32 {
            requantize_pseudo_stochastic_on(path, &sums, shift, &mut out);
            for (&sum, &out) in sums.iter().zip(&out) {
                let up = |m: u64| {
                    let p = m & ((1u64 << shift) - 1);
                    let h = shift >> 1;
                    let mut r = p & ((1u64 << h) - 1);
                    if shift % 2 == 1 {
                        r <<= 1;
                    }
                    p >> h > r
                };
                let expected = rounded(sum, shift, -127, up);
                assert_eq!(out, expected, "{path:?} {sum} >> {shift}");
            }
        }
        assert_eq!(max_abs_i32_on(path, &sums), 1 << 31);
        assert_eq!(max_abs_i32_on(path, &[]), 0);
        for length in [1, 2, 63, 64, 65, 200] {
            for at in 0..length {
                let mut values = vec![-3; length];
                values[at] = -1000;
                assert_eq!(max_abs_i32_on(path, &values), 1000, "{path:?} {at} of {length}");
            }
        }
    }
}

/// The published examples of pseudo-stochastic rounding.
#[test]
fn pseudo_stochastic_examples() {
    let sums = [1, -1, 3, 4, 5, 6, 7, 8];
    let mut out = [0; 8];
    requantize_pseudo_stochastic(&sums, 1, &mut out);
    assert_eq!(out, [1, -1, 2, 2, 3, 3, 4, 4], "every odd value goes away from zero");
    requantize_pseudo_stochastic(&sums, 2, &mut out);
    assert_eq!(out, [0, 0, 0, 1, 1, 2, 1, 2], "of the remainders, only 2 rounds up");
}

#[test]
fn names_of_paths() {
    for path in KernelPath::ALL {
        assert_eq!(KernelPath::from_name(path.name()), Some(path));
    }
    assert_eq!(KernelPath::from_name("fast"), None);
    assert!(KernelPath::Portable.is_available());
    assert!(active_path().is_available());
}

/// Shapes that are worth several threads, on more threads than there are pieces or cores.
#[test]
fn threads_change_nothing() {
    let mut random = Random(7);
    for count in [1, 2, 3, 40] {
        set_threads(count);
        assert_eq!(threads(), count);
        check_i8(&shape(7, [33, 70], [9, 8], [3, 3], [1, 1], [1, 1], [1; 4], 1), 0, &mut random);
        check_i8(&shape(5, [64, 90], [9, 8], [3, 3], [2, 1], [1, 1], [1; 4], 2), 3, &mut random);
        // More to repack of the input than of the gradient: threads share channels first.
        check_i8(&shape(9, [100, 41], [17, 19], [3, 3], [2, 2], [1, 1], [1; 4], 1), 0, &mut random);
        check_matmul(&MatMulGeometry::single(130, 210, 220, true, false), 0, &mut random);
        // Fewer images than threads, which share their rows.
        let few = shape(1, [70, 150], [17, 9], [3, 3], [1, 1], [1, 1], [1; 4], 1);
        check_i8(&few, 0, &mut random);
        check_f32(&few, &mut random);
        check_i8(&shape(2, [90, 75], [17, 19], [3, 3], [2, 2], [1, 1], [1; 4], 1), 0, &mut random);
    }
    check_f32(&shape(7, [33, 70], [9, 8], [3, 3], [1, 1], [1, 1], [1; 4], 1), &mut random);
    // Maps of few positions, and depthwise products of whole images and of planes.
    let maps = shape(40, [64, 50], [4, 4], [3, 3], [1, 1], [1, 1], [1; 4], 1);
    check_i8(&maps, 0, &mut random);
    check_i8(&shape(9, [31, 31], [30, 41], [3, 3], [2, 1], [1, 1], [1; 4], 31), 0, &mut random);
    // Direct products and roundings, long enough for several threads.
    let direct = shape(3, [13, 26], [50, 41], [3, 3], [1, 1], [1, 1], [1; 4], 13);
    check_i8(&direct, 0, &mut random);
    check_f32(&direct, &mut random);
    let sums: Vec<i32> = (0..300_001).map(|_| random.next() as i32 >> 7).collect();
    assert_eq!(max_abs_i32(&sums), largest(&sums));
    let (mut alone, mut together) = (vec![0; sums.len()], vec![0; sums.len()]);
    for (one, sum) in alone.chunks_mut(1000).zip(sums.chunks(1000)) {
        requantize_half_away(sum, 17, -127, one);
    }
    requantize_half_away(&sums, 17, -127, &mut together);
    assert!(alone == together, "halves away on several threads");
    for (one, sum) in alone.chunks_mut(1000).zip(sums.chunks(1000)) {
        requantize_pseudo_stochastic(sum, 17, one);
    }
    requantize_pseudo_stochastic(&sums, 17, &mut together);
    assert!(alone == together, "pseudo-stochastic on several threads");
}

/// Several threads that call at once, of which one has the pool.
#[test]
fn calls_at_once() {
    set_threads(3);
    let g = MatMulGeometry::single(200, 220, 230, false, true);
    let mut random = Random(8);
    let a = random.operands_i8(g.a_len(), 0);
    let b = random.operands_i8(g.b_len(), 0);
    let product = || {
        let mut c = vec![0; g.c_len()];
        let most = matmul_i8(&g, &a, &b, &mut c, &mut scratch(matmul_i8_scratch_bytes(&g))[1..]);
        (most, c)
    };
    let first = product();
    std::thread::scope(|scope| {
        let calls: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..20).all(|_| product() == first))).collect();
        for call in calls {
            assert!(call.join().expect("no call panics"));
        }
    });
}

/// A task that panics does so in the caller, and the pool goes on.
#[test]
fn panics_reach_the_caller() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for _ in 0..20 {
        let outcome = std::panic::catch_unwind(|| {
            super::threads::run(4, &|index| assert!(index != 2, "task two"));
        });
        assert!(outcome.is_err());
        let sum = AtomicUsize::new(0);
        super::threads::run(5, &|index| _ = sum.fetch_add(index + 1, Ordering::Relaxed));
        assert_eq!(sum.into_inner(), 15);
    }
}

/// Calls that follow each other at once, and after rests in which threads go to sleep.
#[test]
fn calls_wake_who_sleeps() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for round in 0..300usize {
        std::thread::sleep(std::time::Duration::from_micros(round as u64 % 5 * 30));
        let sum = AtomicUsize::new(0);
        super::threads::run(3, &|index| {
            // The caller sleeps, too.
            if (round + index).is_multiple_of(7) {
                std::thread::sleep(std::time::Duration::from_micros(120));
            }
            sum.fetch_add(index + round, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 3 + 3 * round);
    }
}

#[test]
fn pieces_cover_everything_once() {
    for units in [0, 1, 11, 12, 13, 100] {
        for grain in [1, 4, 12] {
            for count in [1, 2, 3, 7] {
                let mut next = 0;
                for index in 0..count {
                    let piece = super::threads::piece(units, grain, count, index);
                    assert_eq!(piece.start, next);
                    assert!(piece.start.is_multiple_of(grain) || piece.is_empty());
                    next = piece.end;
                }
                assert_eq!(next, units);
            }
        }
    }
}
