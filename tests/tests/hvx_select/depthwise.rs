//! Packets of the depthwise kernels beside those of the loops that they replace.

use trainc_hvx::kernels::{DataObject, Depthwise, Kernel, Span};
use trainc_hvx::lower;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, Requantize};
use trainc_ir::{Data, Op, RunContext, Tensor};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check, text};

/// Packets of the loops and of the kernel.
fn packets(what: &str, op: &Op, operands: [&Tensor; 2], kernel: &Kernel, extra: usize) -> [u32; 2] {
    let run = RunContext::default();
    let types = operands.map(|t| t.ty());
    let results = op.infer(&types).expect("the case types");
    let meaning = op.evaluate(&operands, &run);
    let loops = lower(op, &types, &results.iter().collect::<Vec<_>>());
    let mut image = Image::default();
    image.kernel("loops", what, &loops, &operands, &meaning, &run);
    let loops = check(&folder(&format!("{what} loops")), &image, &assembly("loops", &loops));

    let mut image = Image::default();
    let mut arguments: Vec<usize> = operands
        .iter()
        .map(|operand| {
            let bytes: Vec<u8> = operand.as_i8().iter().map(|x| x.cast_unsigned()).collect();
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
    [loops, check(&folder(&format!("{what} kernel")), &image, &source)]
}

#[test]
fn fewer_packets_than_loops() {
    // Images, channels, size, kernel, stride; for forward, error and weight the kernel's packets at most, and how many times
    // fewer they are than the loops'.
    type Limits = [(u32, f64); 3];
    let cases: [([usize; 5], Limits); 7] = [
        ([1, 32, 14, 3, 1], [(1866, 110.0), (1866, 90.0), (1887, 35.0)]),
        ([1, 32, 14, 3, 2], [(1867, 27.0), (1866, 24.0), (1887, 13.0)]),
        ([4, 16, 7, 3, 1], [(1129, 110.0), (1129, 75.0), (1161, 35.0)]),
        ([1, 8, 28, 3, 1], [(1481, 140.0), (1481, 110.0), (1257, 50.0)]),
        ([1, 2, 112, 3, 2], [(3032, 70.0), (4885, 35.0), (3427, 17.0)]),
        ([2, 8, 14, 5, 1], [(1557, 140.0), (1557, 140.0), (1634, 55.0)]),
        ([4, 32, 2, 3, 1], [(1730, 9.0), (1730, 18.0), (1973, 10.0)]),
    ];
    let mut random = Random(11);
    let mut failures = Vec::new();
    for ([images, channels, size, taps, stride], limits) in cases {
        let (strides, pads, dilations) = ([stride; 2], [taps / 2; 4], [1, 1]);
        let output = (size - 1) / stride + 1;
        let span =
            Span { input: size, output, kernel: taps, stride, dilation: 1, before: taps / 2 };
        let depthwise = Depthwise { images, channels, vertical: span, horizontal: span };
        let mut tensor = |shape: [usize; 4], exponent| {
            let values = (0..shape.iter().product()).map(|_| (random.next() >> 56) as i8).collect();
            Tensor::i8_shared(shape, values, exponent)
        };
        let x = tensor([images, channels, size, size], -3);
        let w = tensor([channels, 1, taps, taps], -5);
        let dy = tensor([images, channels, output, output], 2);
        let groups = channels;
        let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
        let chain = |op: Op| Op::from(Chain { ops: vec![op, requantize.clone().into()] });
        let forward = chain(Conv2d { strides, pads, dilations, groups }.into());
        let input_size = [size; 2];
        let error =
            chain(Conv2dGradientInput { strides, pads, dilations, groups, input_size }.into());
        let kernel_size = [taps; 2];
        let weight =
            Op::from(Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size });
        let kernels = [
            (forward, [&x, &w], depthwise.convolution("kernel", 7, -127), 0),
            (error, [&dy, &w], depthwise.error_gradient("kernel", 7, -127), 0),
            (
                weight,
                [&x, &dy],
                depthwise.weight_gradient("kernel"),
                depthwise.gradient_sum_bytes(),
            ),
        ];
        for ((pass, (op, operands, kernel, extra)), (most, least)) in
            ["forward", "error", "weight"].iter().zip(kernels).zip(limits)
        {
            let what = format!("depthwise {images} {channels} {size} {taps} {stride} {pass}");
            let kernel = kernel.expect("a kernel");
            let [loops, kernel] = packets(&what, &op, operands, &kernel, extra);
            let ratio = f64::from(loops) / f64::from(kernel);
            println!("{what}: {loops} packets by loops, {kernel} by the kernel: {ratio:.1}");
            if kernel > most || ratio < least {
                failures.push(format!(
                    "{what}: {kernel} packets, not {most}; {ratio:.1} times fewer, not {least}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
