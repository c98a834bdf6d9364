//! Packets of the depthwise kernels beside those of the loops that they replace.

use trainc_hvx::kernels::{DataObject, Depthwise, Kernel, Span};
use trainc_hvx::lower;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, Requantize};
use trainc_ir::{Data, Element, Op, RunContext, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check, text};

/// Packets of the loops.
fn loop_packets(what: &str, op: &Op, operands: [&Tensor; 2]) -> u32 {
    let run = RunContext::default();
    let types = operands.map(|t| t.ty());
    let results = op.infer(&types).expect("the case types");
    let meaning = op.evaluate(&operands, &run);
    let loops = lower(op, &types, &results.iter().collect::<Vec<_>>());
    let mut image = Image::default();
    image.kernel("loops", what, &loops, &operands, &meaning, &run);
    check(&folder(&format!("{what} loops")), &image, &assembly("loops", &loops))
}

/// Packets of the kernel.
fn packets(what: &str, op: &Op, operands: [&Tensor; 2], kernel: &Kernel, extra: usize) -> u32 {
    let meaning = op.evaluate(&operands, &RunContext::default());
    let mut image = Image::default();
    let mut arguments: Vec<usize> = operands
        .iter()
        .map(|operand| {
            let bytes: Vec<u8> = operand.to_i64().into_iter().map(|x| x as u8).collect();
            image.place(what, Some(&bytes), None, bytes.len())
        })
        .collect();
    let expected: Vec<u8> = match meaning[0].data() {
        Data::I8(values) => values.iter().map(|x| x.cast_unsigned()).collect(),
        _ => meaning[0].as_i32().iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    let result = image.place(what, None, Some(&expected), expected.len());
    // What fills the last block of a gradient's sums.
    image.reserve_behind(extra - expected.len().min(extra));
    arguments.push(result);
    arguments.push(image.reserve("working memory", kernel.scratch_bytes));
    let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
    image.call(&kernel.name, &arguments);
    let entry = kernel.entry().expect("an entry");
    let mut source: String = kernel.functions().chain([&entry]).map(text).collect();
    source.extend(kernel.data.iter().map(DataObject::assembly));
    source.push_str("\t.text\n");
    check(&folder(&format!("{what} kernel")), &image, &source)
}

/// A convolution, its error gradient and its weight gradient.
struct Layer {
    depthwise: Depthwise,
    /// What they are.
    what: [String; 3],
    ops: [Op; 3],
    x: Tensor,
    w: Tensor,
    dy: Tensor,
}

impl Layer {
    fn new(
        [images, channels, rows, columns, taps, stride]: [usize; 6],
        value: &mut dyn FnMut() -> i8,
    ) -> Layer {
        let (strides, pads, dilations) = ([stride; 2], [taps / 2; 4], [1, 1]);
        let outputs = [rows, columns].map(|size| (size - 1) / stride + 1);
        let [vertical, horizontal] = [0, 1].map(|axis| Span {
            input: [rows, columns][axis],
            output: outputs[axis],
            kernel: taps,
            stride,
            dilation: 1,
            before: taps / 2,
        });
        let unsigned = false;
        let depthwise = Depthwise { images, channels, vertical, horizontal, unsigned };
        let mut tensor = |shape: [usize; 4], exponent| {
            let values = (0..shape.iter().product()).map(|_| value()).collect();
            Tensor::i8_shared(shape, values, exponent)
        };
        let x = tensor([images, channels, rows, columns], -3);
        let w = tensor([channels, 1, taps, taps], -5);
        let dy = tensor([images, channels, outputs[0], outputs[1]], 2);
        let (groups, input_size, kernel_size) = (channels, [rows, columns], [taps; 2]);
        let ops = [
            Conv2d { strides, pads, dilations, groups }.into(),
            Conv2dGradientInput { strides, pads, dilations, groups, input_size }.into(),
            Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size }.into(),
        ];
        let shape = format!("{images} {channels} {rows}x{columns} {taps} {stride}");
        let what = ["forward", "error", "weight"].map(|pass| format!("depthwise {shape} {pass}"));
        Layer { depthwise, what, ops, x, w, dy }
    }
}

/// The passes of a layer: what each is, the packets of its loops, if asked for, and of its kernel, and those estimated.
fn passes(
    shape: [usize; 6],
    by_loops: bool,
    value: &mut dyn FnMut() -> i8,
) -> [(String, [u32; 2], usize); 3] {
    let Layer { depthwise, what, ops, x, w, dy } = Layer::new(shape, value);
    let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
    let chain = |op: Op| Op::from(Chain { ops: vec![op, requantize.clone().into()] });
    let [forward, error, weight] = ops;
    let sums = depthwise.gradient_sum_bytes();
    let kernels = [
        (depthwise.convolution("kernel", 7, -127), depthwise.packets()),
        (depthwise.error_gradient("kernel", 7, -127), depthwise.error_packets()),
        (depthwise.weight_gradient("kernel"), depthwise.gradient_packets()),
    ];
    let operands =
        [(chain(forward), [&x, &w], 0), (chain(error), [&dy, &w], 0), (weight, [&x, &dy], sums)];
    let mut operands = operands.into_iter().zip(what);
    kernels.map(|(kernel, estimated)| {
        let ((op, operands, extra), what) = operands.next().expect("three passes");
        let kernel = kernel.expect("a kernel");
        let loops = if by_loops { loop_packets(&what, &op, operands) } else { 0 };
        let kernel = packets(&what, &op, operands, &kernel, extra);
        println!("{what}: {kernel} packets, estimated {estimated}; by loops, if they ran: {loops}");
        (what, [loops, kernel], estimated)
    })
}

/// The passes of a layer, its sums 32 bits wide, its operand u8 where it says so: what each is, the packets of its kernel, and those
/// estimated.
fn wide_passes(
    shape: [usize; 6],
    unsigned: bool,
    value: &mut dyn FnMut() -> i8,
) -> [(String, u32, usize); 3] {
    let Layer { depthwise: errors, what, ops, mut x, w, dy } = Layer::new(shape, value);
    let depthwise = Depthwise { unsigned, ..errors.clone() };
    if unsigned {
        let ty = TensorType::shared(x.shape().dims(), Element::U8);
        let bytes: Vec<i64> = x.to_i64().into_iter().map(|x| x & 255).collect();
        x = Tensor::from_i64(&ty, &bytes, *x.scale());
    }
    let kernels = [
        (depthwise.convolution_sums("kernel"), depthwise.sum_packets()),
        (errors.error_sums("kernel"), errors.error_sum_packets()),
        (depthwise.weight_sums("kernel"), depthwise.weight_sum_packets()),
    ];
    let mut operands = ops.into_iter().zip([[&x, &w], [&dy, &w], [&x, &dy]]).zip(what);
    kernels.map(|(kernel, estimated)| {
        let ((op, operands), what) = operands.next().expect("three passes");
        let what = format!("{what} wide {}", if unsigned { "u8" } else { "i8" });
        let packets = packets(&what, &op, operands, &kernel.expect("a kernel"), 0);
        println!("{what}: {packets} packets, estimated {estimated}");
        (what, packets, estimated)
    })
}

#[test]
fn sums_that_stay_wide() {
    // Images, channels, size, kernel, stride; the packets at most of forward, error and weight.
    let cases: [([usize; 5], [u32; 3]); 14] = [
        ([4, 16, 32, 3, 1], [7420, 7935, 3983]),
        ([4, 32, 16, 3, 1], [2913, 3047, 2705]),
        ([4, 64, 8, 3, 1], [2175, 2313, 1466]),
        ([4, 64, 4, 3, 1], [886, 929, 491]),
        ([4, 16, 32, 3, 2], [2811, 8899, 1854]),
        ([4, 32, 16, 3, 2], [1228, 4110, 1086]),
        ([4, 64, 8, 3, 2], [974, 2518, 656]),
        ([1, 32, 14, 3, 1], [1873, 2000, 1901]),
        ([1, 32, 14, 3, 2], [1402, 2000, 1901]),
        ([4, 16, 7, 3, 1], [1121, 1184, 1174]),
        ([1, 8, 28, 3, 1], [1584, 1612, 1268]),
        ([1, 2, 112, 3, 2], [2310, 5071, 3434]),
        ([2, 8, 14, 5, 1], [1634, 1715, 1649]),
        ([4, 32, 2, 3, 1], [1604, 1672, 1987]),
    ];
    let mut random = Random(13);
    let mut failures = Vec::new();
    for ([images, channels, size, taps, stride], most) in cases {
        let shape = [images, channels, size, size, taps, stride];
        let passes = wide_passes(shape, true, &mut || (random.next() >> 56) as i8);
        for ((what, kernel, estimated), most) in passes.into_iter().zip(most) {
            if kernel > most {
                failures.push(format!("{what}: {kernel} packets, not {most}"));
            }
            if (kernel as usize).abs_diff(estimated) * 4 > kernel as usize {
                failures.push(format!("{what}: {kernel} packets, estimated {estimated}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn fewer_packets_than_loops() {
    // Images, channels, size, kernel, stride; for forward, error and weight the kernel's packets at most, and how many times
    // fewer they are than the loops'.
    type Limits = [(u32, f64); 3];
    let cases: [([usize; 5], Limits); 14] = [
        ([4, 16, 32, 3, 1], [(9627, 250.0), (9630, 180.0), (3970, 160.0)]),
        ([4, 32, 16, 3, 1], [(3952, 300.0), (4097, 215.0), (2691, 135.0)]),
        ([4, 64, 8, 3, 1], [(2276, 260.0), (2412, 190.0), (1443, 155.0)]),
        ([4, 64, 4, 3, 1], [(914, 150.0), (957, 140.0), (468, 175.0)]),
        ([4, 16, 32, 3, 2], [(2461, 235.0), (6370, 74.0), (1841, 100.0)]),
        ([4, 32, 16, 3, 2], [(1557, 185.0), (3709, 68.0), (1072, 110.0)]),
        ([4, 64, 8, 3, 2], [(1030, 140.0), (2149, 72.0), (633, 145.0)]),
        ([1, 32, 14, 3, 1], [(1771, 120.0), (1771, 95.0), (1887, 35.0)]),
        ([1, 32, 14, 3, 2], [(1772, 31.0), (1771, 28.0), (1887, 13.0)]),
        ([4, 16, 7, 3, 1], [(1083, 120.0), (1083, 84.0), (1161, 35.0)]),
        ([1, 8, 28, 3, 1], [(1399, 155.0), (1399, 120.0), (1257, 50.0)]),
        ([1, 2, 112, 3, 2], [(2865, 75.0), (4551, 38.0), (3427, 17.0)]),
        ([2, 8, 14, 5, 1], [(1511, 150.0), (1511, 145.0), (1634, 55.0)]),
        ([4, 32, 2, 3, 1], [(1684, 9.5), (1684, 18.0), (1973, 10.0)]),
    ];
    let mut random = Random(11);
    let mut failures = Vec::new();
    for ([images, channels, size, taps, stride], limits) in cases {
        let shape = [images, channels, size, size, taps, stride];
        let passes = passes(shape, true, &mut || (random.next() >> 56) as i8);
        for ((what, [loops, kernel], estimated), (most, least)) in passes.into_iter().zip(limits) {
            let ratio = f64::from(loops) / f64::from(kernel);
            if kernel > most || ratio < least {
                failures.push(format!(
                    "{what}: {kernel} packets, not {most}; {ratio:.1} times fewer, not {least}"
                ));
            }
            if (kernel as usize).abs_diff(estimated) * 4 > kernel as usize {
                failures.push(format!("{what}: {kernel} packets, estimated {estimated}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Images, channels, rows, columns, kernel, stride.
const SHEETS: [[usize; 6]; 25] = [
    // Several images a vector, or channels, or neither.
    [1, 12, 8, 8, 3, 1],
    [2, 6, 8, 8, 3, 1],
    [3, 10, 8, 8, 3, 1],
    [1, 64, 4, 4, 3, 1],
    [2, 64, 4, 4, 3, 1],
    [8, 16, 4, 4, 3, 1],
    [4, 24, 4, 4, 3, 1],
    // A single channel, and planes that are no squares.
    [1, 1, 16, 16, 3, 1],
    [2, 3, 4, 32, 3, 1],
    [1, 2, 2, 64, 3, 1],
    [4, 8, 2, 32, 3, 1],
    [2, 2, 12, 32, 3, 1],
    [1, 2, 16, 64, 3, 1],
    [1, 2, 4, 128, 3, 1],
    [2, 8, 16, 16, 1, 1],
    // At stride 2.
    [1, 2, 32, 32, 3, 2],
    [3, 1, 32, 32, 3, 2],
    [1, 3, 16, 16, 3, 2],
    [1, 2, 16, 16, 3, 2],
    [2, 16, 8, 16, 3, 2],
    [2, 32, 8, 8, 3, 2],
    [4, 8, 8, 8, 3, 2],
    [4, 12, 8, 8, 3, 2],
    [1, 2, 8, 64, 3, 2],
    [1, 8, 14, 16, 3, 2],
];

#[test]
fn planes_that_fill_vectors_and_those_that_nearly_do() {
    let mut random = Random(12);
    for (case, unsigned) in SHEETS.into_iter().zip([true, false].into_iter().cycle()) {
        passes(case, false, &mut || (random.next() >> 56) as i8);
        wide_passes(case, unsigned, &mut || (random.next() >> 56) as i8);
    }
    // The largest magnitudes, and the least.
    for value in [-128, 127, 0, -1] {
        for case in [[4, 16, 8, 8, 3, 1], [4, 16, 4, 4, 3, 1], [4, 8, 16, 16, 3, 2]] {
            passes(case, false, &mut || value);
            wide_passes(case, true, &mut || value);
            wide_passes(case, false, &mut || value);
        }
    }
}
