//! The engine of tiles: its products directly, whatever their shape, and where a path chooses it.

use super::amx::{DotI8, PRODUCTS};
use super::amx_emulator::is_configured;
use super::engine::{Engine, Nest, Panel, Side};
use super::geometry::{ConvGeometry, MatMulGeometry};
use super::path::KernelPath;
use super::tests::{Random, shape, shapes, terms};
use super::{convolution, matmul, products as called, weight_gradient};

/// Whether there are tiles, or what stands for them.
fn has_tiles() -> bool {
    KernelPath::Amx.is_available()
}

/// Products of tiles that this thread has done so far.
fn products() -> usize {
    PRODUCTS.get()
}

fn largest(values: &[i32]) -> u32 {
    values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0)
}

/// A scratch of so many bytes, and what must not be written behind it.
fn with_scratch<T>(bytes: usize, call: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut scratch = vec![0xc3; bytes + 65];
    let result = call(&mut scratch[1..=bytes]);
    assert!(scratch[bytes + 1..].iter().all(|&byte| byte == 0xc3), "behind the scratch");
    result
}

/// The three products of a convolution by tiles, whether they are worth it or not.
fn check(g: &ConvGeometry, kind: usize, random: &mut Random) {
    let x = random.operands_i8(g.input_len(), kind);
    let w = random.operands_i8(g.weight_len(), if kind == 2 { 1 } else { kind });
    let dy = random.operands_i8(g.output_len(), kind);
    let [mut y, mut dx, mut dw] =
        [g.output_len(), g.input_len(), g.weight_len()].map(|length| vec![0i32; length]);
    terms(g, |yi, xi, wi| {
        y[yi] += i32::from(x[xi]) * i32::from(w[wi]);
        dx[xi] += i32::from(dy[yi]) * i32::from(w[wi]);
        dw[wi] += i32::from(dy[yi]) * i32::from(x[xi]);
    });
    let mut out = vec![7; g.output_len()];
    let most = with_scratch(convolution::forward_bytes::<DotI8>(g), |scratch| {
        convolution::forward::<DotI8>(g, [&x, &w], &mut out, scratch, (None, None))
    });
    assert!(out == y && most == largest(&y), "forward {g:?}");
    let mut out = vec![7; g.input_len()];
    let most = with_scratch(convolution::input_gradient_bytes::<DotI8>(g), |scratch| {
        convolution::input_gradient::<DotI8>(g, [&dy, &w], &mut out, scratch, None)
    });
    assert!(out == dx && most == largest(&dx), "input gradient {g:?}");
    let mut out = vec![7; g.weight_len()];
    // Threads of fewer rows may take more of it.
    let bytes =
        weight_gradient::bytes::<DotI8>(g).max(called::conv2d_grad_weight_i8_scratch_bytes(g));
    let most = with_scratch(bytes, |scratch| {
        weight_gradient::weight_gradient::<DotI8>(g, &x, &dy, &mut out, scratch)
    });
    assert!(out == dw && most == largest(&dw), "weight gradient {g:?}");
    assert!(!is_configured(), "registers are released");
}

#[test]
fn convolutions_by_tiles() {
    if !has_tiles() {
        return;
    }
    let mut random = Random(21);
    let before = products();
    for (kind, g) in shapes().into_iter().filter(|g| !g.is_depthwise()).enumerate() {
        check(&g, kind % 4, &mut random);
    }
    // Several passes over one reduction, of neighbouring lanes and of gathered ones.
    check(&shape(2, [700, 33], [3, 16], [3, 3], [1, 1], [1, 1], [1; 4], 1), 0, &mut random);
    check(&shape(1, [700, 40], [5, 7], [3, 3], [1, 1], [1, 1], [1; 4], 1), 3, &mut random);
    assert!(products() > before, "tiles were multiplied");
}

/// 1 to 40 rows, channels of all remainders, and walks whose longest loop is any of the three.
#[test]
fn random_convolutions_by_tiles() {
    if !has_tiles() {
        return;
    }
    let mut random = Random(22);
    for rows in 1..=40 {
        let mut pick = |low: usize, high: usize| low + random.next() as usize % (high - low + 1);
        let kernel = [pick(1, 4), pick(1, 4)];
        let size = [kernel[0] + pick(0, 8), [16, kernel[1] + pick(0, 20)][pick(0, 1)]];
        let groups = pick(1, 4).saturating_sub(2).max(1);
        let channels = [groups * pick(1, 70), groups * rows];
        let dilation = [1, pick(1, 4).saturating_sub(2).max(1)];
        let stride = [pick(1, 2), pick(1, 4).saturating_sub(2).max(1)];
        let pads = [pick(0, 2), 4, pick(0, 2), 4];
        let g = shape(pick(1, 5), channels, size, kernel, stride, dilation, pads, groups);
        if g.is_depthwise() {
            continue;
        }
        check(&g, rows % 4, &mut random);
    }
}

#[test]
fn matrices_by_tiles() {
    if !has_tiles() {
        return;
    }
    let mut random = Random(23);
    for rows in 1..=40 {
        let mut pick = |low: usize, high: usize| low + random.next() as usize % (high - low + 1);
        let (n, k) = (pick(1, 50), if rows % 9 == 0 { 2500 } else { pick(1, 300) });
        let g = MatMulGeometry::single(rows, n, k, rows % 2 == 0, rows % 3 == 0);
        let a = random.operands_i8(g.a_len(), rows % 4);
        let b = random.operands_i8(g.b_len(), rows % 4);
        let mut expected = vec![0i32; g.c_len()];
        for (i, sum) in expected.iter_mut().enumerate() {
            let (m, n) = (i / g.n, i % g.n);
            for k in 0..g.k {
                let a = a[if g.transpose_a { k * g.m + m } else { m * g.k + k }];
                let b = b[if g.transpose_b { n * g.k + k } else { k * g.n + n }];
                *sum += i32::from(a) * i32::from(b);
            }
        }
        let mut c = vec![7; g.c_len()];
        let most = with_scratch(matmul::bytes::<DotI8>(&g), |scratch| {
            matmul::matmul::<DotI8>(&g, &a, &b, &mut c, scratch)
        });
        assert!(c == expected && most == largest(&expected), "{g:?}");
    }
}

/// One tile along walks that divide best by the outer, the middle and the inner loop, forwards and backwards, along all of a panel and
/// along parts, from the packed panel to the sums.
#[test]
fn walks() {
    if !has_tiles() {
        return;
    }
    let mut random = Random(24);
    // With their tiles of steps.
    let walks = [
        ([1, 1, 5], 1),
        ([2, 3, 14], 2 * 3),
        ([2, 3, 19], 2 * 19),
        ([3, 16, 2], 3 * 2),
        ([2, 37, 3], 2 * 37),
        ([33, 2, 5], 2 * 5 * 3),
        ([32, 1, 3], 3 * 2),
        ([3, 3, 3], 3 * 3),
        ([2, 5, 48], 2 * 5 * 3),
    ];
    for (counts, tiles) in walks {
        for rows in [1, 3, 15, 16, 17, 31, 32] {
            for backwards in [false, true] {
                let [outer, middle, inner] = counts;
                let (inner_step, middle_step) = (17isize, 17 * inner as isize + 5);
                let outer_step = middle_step * middle as isize + 3;
                let sign = if backwards { -1 } else { 1 };
                let whole = Nest {
                    outer,
                    outer_step,
                    middle,
                    middle_step: sign * middle_step,
                    inner,
                    inner_step: sign * inner_step,
                    panel: Panel::Whole,
                };
                walk(&mut random, &whole, &whole, [0, 0], rows, tiles);
                // Every second of the outer loop, and of the middle one from its second on.
                let of = |outer, middle| Panel::Part { outer, middle };
                let panel = of(2 * middle * inner, 2 * inner);
                let part = Nest { outer: outer.div_ceil(2), middle: middle / 2, panel, ..whole };
                let whole = Nest { panel: of(middle * inner, inner), ..whole };
                let tiles = part.steps() / (1..=16).rfind(|&n| inner % n == 0).unwrap();
                walk(&mut random, &whole, &part, [0, 1], rows, tiles);
            }
        }
    }
}

/// Multiplies along a part of a walk by the panel of the whole, from there on in its outer and its middle loop.
fn walk(
    random: &mut Random,
    whole: &Nest,
    nest: &Nest,
    [from_outer, from_middle]: [usize; 2],
    rows: usize,
    tiles: usize,
) {
    if nest.steps() == 0 {
        return;
    }
    let (outer_step, steps) = (whole.outer_step as usize, whole.steps());
    let first = if whole.inner_step < 0 { outer_step } else { 0 };
    let length = 2 * outer_step * whole.outer + 16;
    let b = random.operands_i8(4 * length, 0);
    let a = random.operands_i8(4 * steps * rows, 3);
    let mut units = [vec![0; steps * rows], vec![0; length]];
    DotI8::widen(Side::Rows, &a, &mut units[0]);
    DotI8::widen(Side::Lanes, &b, &mut units[1]);
    let [panel, lanes] = &mut units;
    assert!(nest.is_within(first, 16, lanes.len()));
    let start = (from_outer * whole.middle + from_middle) * whole.inner;
    let stride = 19;
    let mut c: Vec<i32> = (0..rows * stride).map(|i| i as i32 - 99).collect();
    let mut expected = c.clone();
    for o in 0..nest.outer {
        for m in 0..nest.middle {
            for i in 0..nest.inner {
                let at = first as isize + nest.middle_start(o, m) + i as isize * nest.inner_step;
                let step = start + nest.panel_start(o, m) + i;
                for (row, sums) in expected.chunks_mut(stride).enumerate() {
                    for (lane, sum) in sums[..16].iter_mut().enumerate() {
                        let a = &a[4 * (step * rows + row)..][..4];
                        let b = &b[4 * (at as usize + lane)..][..4];
                        let products = a.iter().zip(b);
                        *sum += products.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum::<i32>();
                    }
                }
            }
        }
    }
    let mut buffer = vec![0; DotI8::arrangement(panel.len())];
    DotI8::arrange(panel, rows, whole, &mut buffer);
    let zeros = [0; 32];
    let before = products();
    // SAFETY: the panel was arranged, every step lies within the lanes, and there are sums for all rows.
    unsafe {
        let b = lanes.as_ptr().add(first);
        let (a, c) = (panel[start * rows..].as_ptr(), c.as_mut_ptr());
        DotI8::tile(rows, a, b, nest, zeros.as_ptr(), true, c, stride);
    }
    assert!(c == expected, "{rows} rows along {nest:?}");
    let halves = rows.div_ceil(16);
    assert_eq!(products() - before, halves * tiles, "{rows} rows along {nest:?}");
    assert!(!is_configured(), "registers are released");
}

/// Products that are worth it go by tiles, others by vectors.
#[test]
fn a_path_chooses() {
    if !has_tiles() {
        return;
    }
    let path = KernelPath::Amx;
    let mut random = Random(25);
    let mut tiles_of = |g: &ConvGeometry| {
        let x = random.operands_i8(g.input_len(), 0);
        let w = random.operands_i8(g.weight_len(), 0);
        let dy = random.operands_i8(g.output_len(), 0);
        let counted = |call: &mut dyn FnMut()| {
            let before = products();
            call();
            products() - before
        };
        let mut scratch = vec![
            0;
            called::conv2d_i8_scratch_bytes(g)
                .max(called::conv2d_grad_input_i8_scratch_bytes(g))
                .max(called::conv2d_grad_weight_i8_scratch_bytes(g))
        ];
        let s = &mut scratch[..];
        let [mut y, mut dx, mut dw] =
            [g.output_len(), g.input_len(), g.weight_len()].map(|length| vec![0i32; length]);
        [
            counted(&mut || _ = called::conv2d_i8_on(path, g, &x, &w, &mut y, s)),
            counted(&mut || _ = called::conv2d_grad_input_i8_on(path, g, &dy, &w, &mut dx, s)),
            counted(&mut || _ = called::conv2d_grad_weight_i8_on(path, g, &x, &dy, &mut dw, s)),
        ]
    };
    // Small enough for one thread, which counts.
    let products_of = |channels, size: [usize; 2], kernel, batch| {
        shape(batch, channels, size, kernel, [1, 1], [1, 1], [kernel[0] / 2; 4], 1)
    };
    // 128 channels of 4 steps for 20 rows: two halves of 2 tiles of steps each, at 2 tiles of lanes; for the gradient of the input as
    // many rows in blocks of 32. Of the weights: 32 positions of one image, by 16 channels.
    let g = products_of([128, 20], [4, 8], [1, 1], 1);
    assert_eq!(tiles_of(&g), [2 * 2 * 2, 0, 2 * 2 * 8]);
    // 40 rows are three registers, not two blocks of 20, which would be four.
    let g = products_of([128, 40], [4, 8], [1, 1], 1);
    assert_eq!(tiles_of(&g), [3 * 2 * 2, 0, 3 * 2 * 8]);
    // The input gradient's reduction of 20 channels is too short; of 128 it is not.
    let g = products_of([20, 128], [4, 8], [1, 1], 1);
    assert_eq!(tiles_of(&g), [0, 2 * 2 * 2, 8 * 2 * 2]);
    // Too few rows.
    assert_eq!(tiles_of(&products_of([128, 7], [4, 8], [1, 1], 1)), [0, 0, 0]);
    // Too few steps.
    assert_eq!(tiles_of(&products_of([16, 16], [4, 4], [1, 1], 4)), [0, 0, 0]);
    for (k, tiles) in [(124, 0), (128, 2 * 2)] {
        let g = MatMulGeometry::single(16, 32, k, false, false);
        let (a, b) = (random.operands_i8(g.a_len(), 0), random.operands_i8(g.b_len(), 0));
        let mut c = vec![0; g.c_len()];
        let before = products();
        let scratch = &mut vec![0; called::matmul_i8_scratch_bytes(&g)];
        called::matmul_i8_on(path, &g, &a, &b, &mut c, scratch);
        assert_eq!(products() - before, tiles, "{k} terms");
    }
}

/// What callers are told to bring is enough for tiles; of a matrix of 32 rows they take the most of all.
#[test]
fn scratch_covers_tiles() {
    for g in shapes().into_iter().filter(|g| !g.is_depthwise()) {
        let told = [
            called::conv2d_i8_scratch_bytes(&g),
            called::conv2d_grad_input_i8_scratch_bytes(&g),
            called::conv2d_grad_weight_i8_scratch_bytes(&g),
        ];
        let taken = [
            convolution::forward_bytes::<DotI8>(&g),
            convolution::input_gradient_bytes::<DotI8>(&g),
            weight_gradient::bytes::<DotI8>(&g),
        ];
        assert!(told.iter().zip(taken).all(|(&told, taken)| told >= taken), "{g:?}");
    }
    let g = MatMulGeometry::single(32, 16, 4096, false, false);
    assert_eq!(called::matmul_i8_scratch_bytes(&g), matmul::bytes::<DotI8>(&g));
}
