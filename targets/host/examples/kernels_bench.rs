//! Speed of the host kernels on the layers of LeNet-5 (MNIST) and VGG-11 (CIFAR), batch 64.
//!
//! `cargo run --release -p trainc-host --example kernels_bench [-- paths, comma separated [layer]]`
//!
//! A layer is a part of its printed name; all without it.
//!
//! Prints billions of operations a second (a multiplication and its addition are two) of the
//! forward product, the gradient of the input and the gradient of the weights, packing included,
//! for each path, in time of the processor on one thread (`TRAINC_THREADS` sets another number;
//! then it is time of the clock), and the ratio of the last path to the first. The best of several
//! runs counts.

#![allow(unsafe_code, reason = "the clock of the thread is a C function")]

use std::time::Instant;

use trainc_host::kernels::*;

/// Seconds that this thread has computed, which other programs on the machine do not lengthen;
/// seconds of the clock where several threads compute.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn now() -> f64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const CLOCK_MONOTONIC: i32 = 1;
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let clock = if threads() > 1 { CLOCK_MONOTONIC } else { CLOCK_THREAD_CPUTIME_ID };
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library of Linux has this function and layout; it writes to `time` only.
    unsafe { clock_gettime(clock, &raw mut time) };
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
}

/// Seconds since the first call.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn now() -> f64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

const BATCH: usize = 64;

fn convolution(channels: [usize; 2], size: usize, kernel: usize, pad: usize) -> ConvGeometry {
    let out = size + 2 * pad + 1 - kernel;
    ConvGeometry {
        batch: BATCH,
        in_channels: channels[0],
        in_height: size,
        in_width: size,
        out_channels: channels[1],
        out_height: out,
        out_width: out,
        kernel_height: kernel,
        kernel_width: kernel,
        stride_height: 1,
        stride_width: 1,
        dilation_height: 1,
        dilation_width: 1,
        pad_top: pad,
        pad_left: pad,
        groups: 1,
    }
}

/// Seconds of the fastest run.
fn time(mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    let mut runs = 0;
    while runs < 3 || (begin.elapsed().as_secs_f64() < 0.15 && runs < 200) {
        let start = now();
        run();
        best = best.min(now() - start);
        runs += 1;
    }
    best
}

fn operands(length: usize) -> (Vec<i8>, Vec<f32>) {
    let mut state = 1u32;
    let integers: Vec<i8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as i8
        })
        .collect();
    let floats = integers.iter().map(|&value| f32::from(value) / 64.0).collect();
    (integers, floats)
}

/// Seconds of the three products of one layer, `[i8 or f32][product]`.
type Seconds = [[f64; 3]; 2];

fn layer(path: KernelPath, g: &ConvGeometry) -> Seconds {
    let (x, fx) = operands(g.input_len());
    let (w, fw) = operands(g.weight_len());
    let (dy, fdy) = operands(g.output_len());
    let sizes = [
        conv2d_i8_scratch_bytes(g),
        conv2d_grad_input_i8_scratch_bytes(g),
        conv2d_grad_weight_i8_scratch_bytes(g),
        conv2d_f32_scratch_bytes(g),
        conv2d_grad_input_f32_scratch_bytes(g),
        conv2d_grad_weight_f32_scratch_bytes(g),
    ];
    let mut scratch = vec![0u8; sizes.into_iter().max().unwrap_or(0)];
    let s = &mut scratch;
    let mut out = vec![0i32; g.input_len().max(g.weight_len()).max(g.output_len())];
    let mut fout = vec![0f32; out.len()];
    let (nx, nw, ny) = (g.input_len(), g.weight_len(), g.output_len());
    [
        [
            time(|| _ = conv2d_i8_on(path, g, &x, &w, &mut out[..ny], s)),
            time(|| _ = conv2d_grad_input_i8_on(path, g, &dy, &w, &mut out[..nx], s)),
            time(|| _ = conv2d_grad_weight_i8_on(path, g, &x, &dy, &mut out[..nw], s)),
        ],
        [
            time(|| conv2d_f32_on(path, g, &fx, &fw, &mut fout[..ny], s)),
            time(|| conv2d_grad_input_f32_on(path, g, &fdy, &fw, &mut fout[..nx], s)),
            time(|| conv2d_grad_weight_f32_on(path, g, &fx, &fdy, &mut fout[..nw], s)),
        ],
    ]
}

/// A fully connected layer `[BATCH, inputs] -> [BATCH, outputs]` with weights `[outputs, inputs]`.
fn linear(path: KernelPath, inputs: usize, outputs: usize) -> Seconds {
    let (x, fx) = operands(BATCH * inputs);
    let (w, fw) = operands(outputs * inputs);
    let (dy, fdy) = operands(BATCH * outputs);
    let products = [
        MatMulGeometry::single(BATCH, outputs, inputs, false, true),
        MatMulGeometry::single(BATCH, inputs, outputs, false, false),
        MatMulGeometry::single(outputs, inputs, BATCH, true, false),
    ];
    let mut seconds = [[0.0; 3]; 2];
    for (i, g) in products.iter().enumerate() {
        let (a, b) = [(&x, &w), (&dy, &w), (&dy, &x)][i];
        let (fa, fb) = [(&fx, &fw), (&fdy, &fw), (&fdy, &fx)][i];
        let mut s = vec![0u8; matmul_i8_scratch_bytes(g).max(matmul_f32_scratch_bytes(g))];
        let (mut c, mut fc) = (vec![0i32; g.c_len()], vec![0f32; g.c_len()]);
        seconds[0][i] = time(|| _ = matmul_i8_on(path, g, a, b, &mut c, &mut s));
        seconds[1][i] = time(|| matmul_f32_on(path, g, fa, fb, &mut fc, &mut s));
    }
    seconds
}

fn report(name: &str, multiplications: usize, paths: &[KernelPath], all: &[Seconds]) {
    let rate = |seconds: f64| 2.0 * multiplications as f64 / seconds / 1e9;
    for (kind, label) in ["i8", "f32"].into_iter().enumerate() {
        print!("{name:<26} {label:<4}");
        for (path, seconds) in paths.iter().zip(all) {
            let [y, dx, dw] = seconds[kind].map(rate);
            print!(" | {:>8} {y:6.1} {dx:6.1} {dw:6.1}", path.name());
        }
        if let [first, .., last] = all {
            let ratio = |i: usize| first[kind][i] / last[kind][i];
            print!(" | x {:5.1} {:5.1} {:5.1}", ratio(0), ratio(1), ratio(2));
        }
        println!();
    }
}

fn network(
    name: &str,
    layers: &[ConvGeometry],
    linears: &[(usize, usize)],
    paths: &[KernelPath],
    part: &str,
) {
    println!(
        "{name}, batch {BATCH}, threads {}: G operations/s of forward, input gradient, weight gradient",
        threads()
    );
    let mut totals = vec![[[0.0; 3]; 2]; paths.len()];
    let mut multiplications = 0;
    let add = |total: &mut Seconds, seconds: &Seconds| {
        for (total, seconds) in total.iter_mut().flatten().zip(seconds.iter().flatten()) {
            *total += seconds;
        }
    };
    for g in layers {
        let label = format!(
            "conv {}x{} {}->{} @{}",
            g.kernel_height, g.kernel_width, g.in_channels, g.out_channels, g.in_height
        );
        if !label.contains(part) {
            continue;
        }
        let all: Vec<Seconds> = paths.iter().map(|&path| layer(path, g)).collect();
        for (total, seconds) in totals.iter_mut().zip(&all) {
            add(total, seconds);
        }
        multiplications += g.multiplications();
        report(&label, g.multiplications(), paths, &all);
    }
    report("all convolutions", multiplications, paths, &totals);
    for (path, total) in paths.iter().zip(&totals) {
        let [i8_ms, f32_ms] = total.map(|products| products.iter().sum::<f64>() * 1e3);
        println!(
            "  {:<8} convolutions of one step: i8 {i8_ms:.2} ms, f32 {f32_ms:.2} ms",
            path.name()
        );
    }
    for &(inputs, outputs) in linears {
        let label = format!("linear {inputs}->{outputs}");
        if !label.contains(part) {
            continue;
        }
        let all: Vec<Seconds> = paths.iter().map(|&path| linear(path, inputs, outputs)).collect();
        report(&label, BATCH * inputs * outputs, paths, &all);
    }
}

fn main() {
    if std::env::var_os("TRAINC_THREADS").is_none() {
        set_threads(1);
    }
    let asked = std::env::args().nth(1);
    let asked = asked.as_deref().map(|names| names.split(',').collect::<Vec<_>>());
    let paths: Vec<KernelPath> = KernelPath::ALL
        .into_iter()
        .filter(|path| path.is_available())
        .filter(|path| asked.as_ref().is_none_or(|names| names.contains(&path.name())))
        .collect();
    let part = std::env::args().nth(2).unwrap_or_default();
    network(
        "LeNet-5",
        &[convolution([1, 6], 28, 5, 2), convolution([6, 16], 14, 5, 0)],
        &[(400, 120), (120, 84), (84, 10)],
        &paths,
        &part,
    );
    network(
        "VGG-11",
        &[
            convolution([3, 64], 32, 3, 1),
            convolution([64, 128], 16, 3, 1),
            convolution([128, 256], 8, 3, 1),
            convolution([256, 256], 8, 3, 1),
            convolution([256, 512], 4, 3, 1),
            convolution([512, 512], 4, 3, 1),
            convolution([512, 512], 2, 3, 1),
            convolution([512, 512], 2, 3, 1),
        ],
        &[(512, 512), (512, 10)],
        &paths,
        &part,
    );
}
