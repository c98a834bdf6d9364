//! Products whose lanes are positions, and products of rows: awkward shapes against the meaning, bit for bit, and their
//! packets beside their estimates.

use trainc_hvx::kernels::{
    DataObject, DotProduct, Kernel, PlaneGradient, PlaneProduct, RowFinish, RowProduct,
    WeightStrides,
};
use trainc_hvx::machine::Function;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul, ProductRole,
    QuantizeGradient, Requantize,
};
use trainc_ir::product::{Convolution, Product};
use trainc_ir::{Op, RunContext, Tensor};
use trainc_tests::hexagon_convolution::entry_in_pieces;
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{check, text};

const REQUANTIZE: Requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
const QUANTIZE: QuantizeGradient = QuantizeGradient { rounding: Rounding::PseudoStochastic };
/// Bits of a gradient.
const BITS: i32 = 5;

/// One kernel on its own: what it is, the kernel, the packets estimated, and functions with arguments that go before it.
struct Case {
    what: String,
    op: Op,
    operands: [Tensor; 2],
    kernel: Kernel,
    estimate: usize,
    packing: Option<(Function, usize, usize)>,
}

/// Runs the kernel on its operands and compares its results: its packets.
fn packets(case: &Case) -> u32 {
    let Case { what, op, operands: [x, w], kernel, packing, .. } = case;
    let bits = Tensor::i32([], vec![BITS]);
    let gradient = kernel.parameters == 4;
    let operands: Vec<&Tensor> = if gradient { vec![x, w, &bits] } else { vec![x, w] };
    let meaning = op.evaluate(&operands, &RunContext::default());
    let mut image = Image::default();
    let bytes = |t: &Tensor| t.as_i8().iter().map(|x| x.cast_unsigned()).collect::<Vec<u8>>();
    let mut arguments: Vec<usize> =
        [x, w].map(|t| image.place(what, Some(&bytes(t)), None, t.as_i8().len())).to_vec();
    let mut source = String::new();
    if let Some((function, packed, memory)) = packing {
        let packed = image.reserve("packed weights", *packed);
        let memory = image.reserve("working memory of packing", *memory);
        let addresses = [arguments[1], packed, memory].map(|at| format!("image+{at}"));
        image.call(&function.name, &addresses);
        source.push_str(&text(function));
        arguments[1] = packed;
    }
    if gradient {
        arguments.push(image.place("bits", Some(&BITS.to_le_bytes()), None, 4));
    }
    let expected = bytes(&meaning[0]);
    arguments.push(image.place(what, None, Some(&expected), expected.len()));
    arguments.push(image.reserve("working memory", kernel.scratch_bytes));
    image.reserve_behind(256);
    let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
    image.call(&kernel.name, &arguments);
    source.extend(kernel.functions().chain(&entry_in_pieces(kernel)).map(text));
    source.extend(kernel.data.iter().map(DataObject::assembly));
    source.push_str("\t.text\n");
    check(&folder(what), &image, &source)
}

fn tensor(random: &mut Random, shape: &[usize], extreme: bool) -> Tensor {
    let value = |random: &mut Random| match extreme {
        true => [-128, 127][(random.next() >> 63) as usize],
        false => (random.next() >> 56) as i8,
    };
    let values = (0..shape.iter().product()).map(|_| value(random)).collect();
    Tensor::i8_shared(shape, values, -3)
}

fn convolution(op: &Op, operands: [&Tensor; 2]) -> Convolution {
    let product = Product::of(std::slice::from_ref(op), &operands.map(|t| t.ty()), |_| true);
    product.expect("a product").expect("of bytes").convolution().expect("a convolution")
}

fn chain(op: Op, finish: Op) -> Op {
    Chain { ops: vec![op, finish] }.into()
}

/// The three passes of a convolution.
fn passes(random: &mut Random, extreme: bool, case: [usize; 10]) -> Vec<Case> {
    let [images, channels, features, height, width, taps, pad, dilation, down, across] = case;
    let (strides, pads, dilations, groups) = ([down, across], [pad; 4], [dilation; 2], 1);
    let result = |size: usize, stride| (size + 2 * pad - (taps - 1) * dilation - 1) / stride + 1;
    let x = tensor(random, &[images, channels, height, width], extreme);
    let w = tensor(random, &[features, channels, taps, taps], extreme);
    let dy = [images, features, result(height, down), result(width, across)];
    let dy = tensor(random, &dy, extreme);
    let what = |pass: &str| format!("planes {case:?} {pass}").replace(['[', ']', ','], "");
    let mut cases = Vec::new();
    let forward: Op = Conv2d { strides, pads, dilations, groups }.into();
    let input_size = [height, width];
    let error: Op = Conv2dGradientInput { strides, pads, dilations, groups, input_size }.into();
    let of = channels * taps * taps;
    for (pass, op, x, [feature, channel]) in
        [("forward", forward, &x, [of, taps * taps]), ("error", error, &dy, [taps * taps, of])]
    {
        let product = PlaneProduct::new(&convolution(&op, [x, &w])).expect("supported");
        let strides = WeightStrides { feature, channel, tap: 1 };
        let (packing, parts) = product.pack_weights("pack", &strides).expect("packs");
        let mut kernel = product.kernel("kernel", 7, -127).expect("a kernel");
        kernel.data.extend(parts);
        cases.push(Case {
            what: what(pass),
            op: chain(op, REQUANTIZE.into()),
            operands: [x.clone(), w.clone()],
            kernel,
            estimate: product.packets(&strides),
            packing: Some((packing, product.weight_bytes(), product.packing_bytes())),
        });
    }
    let kernel_size = [taps; 2];
    let op: Op = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size }.into();
    if let Ok(gradient) = PlaneGradient::new(&convolution(&op, [&x, &dy])) {
        cases.push(Case {
            what: what("weight"),
            op: chain(op, QUANTIZE.into()),
            operands: [x, dy],
            kernel: gradient.kernel("kernel").expect("a kernel"),
            estimate: gradient.packets(),
            packing: None,
        });
    }
    cases
}

/// The three passes of a fully connected layer.
fn rows(random: &mut Random, extreme: bool, case: [usize; 3]) -> Vec<Case> {
    let [images, channels, features] = case;
    let x = tensor(random, &[images, channels], extreme);
    let w = tensor(random, &[features, channels], extreme);
    let dy = tensor(random, &[images, features], extreme);
    let what = |pass: &str| format!("rows {case:?} {pass}").replace(['[', ']', ','], "");
    let op = |transpose_b, role| -> Op { MatMul { transpose_a: false, transpose_b, role }.into() };
    let forward = DotProduct { images, channels, features };
    let of_forward = forward.is_supported().then(|| Case {
        what: what("forward"),
        op: chain(op(true, ProductRole::Forward), REQUANTIZE.into()),
        operands: [x.clone(), w.clone()],
        kernel: forward.kernel("kernel", 7, -127).expect("a kernel"),
        estimate: forward.packets(),
        packing: None,
    });
    let error = RowProduct { rows: images, depth: features, columns: channels, across: false };
    let weight = RowProduct { rows: features, depth: images, columns: channels, across: true };
    let finish = RowFinish::Requantize { bits: 7, low: -127 };
    // The gradient's kernel takes the forward operand first.
    let of_error = Case {
        what: what("error"),
        op: chain(op(false, ProductRole::Error), REQUANTIZE.into()),
        operands: [dy.clone(), w],
        kernel: error.kernel("kernel", finish).expect("a kernel"),
        estimate: error.packets(finish),
        packing: None,
    };
    let transposed = Conv2dGradientWeight {
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
        groups: 1,
        kernel_size: [1, 1],
    };
    let single = |t: &Tensor, size: usize| {
        Tensor::i8_shared([images, size, 1, 1], t.as_i8().to_vec(), t.exponent())
    };
    let of_weight = Case {
        what: what("weight"),
        op: chain(transposed.into(), QUANTIZE.into()),
        operands: [single(&x, channels), single(&dy, features)],
        kernel: weight.kernel("kernel", RowFinish::Gradient).expect("a kernel"),
        estimate: weight.packets(RowFinish::Gradient),
        packing: None,
    };
    of_forward.into_iter().chain([of_error, of_weight]).collect()
}

/// Estimates choose between kernels: of launches of some size, within a quarter of what is counted.
#[test]
fn planes_and_rows() {
    let mut random = Random(23);
    let mut cases = Vec::new();
    // Images, channels, features, rows, columns, taps, padding, dilation, strides of rows and columns.
    for (extreme, shape) in [
        (false, [1, 1, 6, 28, 28, 5, 2, 1, 1, 1]),
        (true, [2, 6, 16, 14, 14, 5, 0, 1, 1, 1]),
        (false, [3, 5, 7, 9, 11, 3, 1, 1, 1, 1]),
        (false, [1, 3, 9, 5, 40, 3, 2, 2, 1, 1]),
        (true, [2, 4, 2, 6, 5, 1, 0, 1, 1, 1]),
        (false, [1, 9, 5, 7, 128, 3, 0, 1, 1, 1]),
        (false, [2, 16, 16, 16, 16, 3, 1, 1, 1, 1]),
        (false, [1, 2, 3, 4, 4, 4, 3, 1, 1, 1]),
        (false, [1, 16, 32, 32, 32, 3, 1, 1, 2, 2]),
        (true, [1, 32, 64, 16, 16, 3, 1, 1, 2, 2]),
        (false, [1, 16, 32, 32, 32, 1, 0, 1, 2, 2]),
        (true, [2, 3, 6, 9, 11, 3, 1, 1, 2, 2]),
        (false, [2, 5, 7, 8, 10, 5, 2, 1, 2, 1]),
        (false, [1, 4, 3, 7, 12, 3, 0, 2, 1, 2]),
        (false, [3, 6, 5, 6, 7, 2, 0, 1, 2, 2]),
        (true, [1, 3, 2, 2, 1, 3, 1, 1, 2, 2]),
        (false, [1, 7, 4, 4, 127, 3, 2, 1, 2, 2]),
        (false, [1, 2, 3, 6, 9, 4, 3, 3, 2, 2]),
        (true, [2, 1, 5, 7, 9, 3, 0, 1, 1, 1]),
        (false, [1, 1, 3, 9, 12, 5, 2, 1, 2, 1]),
        (true, [1, 1, 4, 5, 125, 4, 1, 1, 1, 1]),
        (false, [3, 1, 9, 6, 8, 5, 4, 1, 1, 1]),
        // Windows of single positions: rows as long as can be, all lanes results or not.
        (false, [4, 24, 16, 32, 32, 1, 0, 1, 1, 1]),
        (true, [2, 5, 8, 8, 12, 1, 0, 1, 1, 1]),
        (false, [1, 8, 12, 14, 14, 1, 0, 1, 1, 1]),
        (true, [3, 16, 6, 4, 16, 1, 0, 1, 1, 1]),
        (false, [1, 3, 4, 2, 127, 1, 0, 2, 1, 1]),
        (false, [1, 64, 64, 25, 5, 1, 0, 1, 1, 1]),
        (true, [2, 37, 52, 7, 9, 1, 0, 1, 1, 1]),
        (false, [1, 130, 36, 4, 4, 1, 0, 1, 1, 1]),
        (false, [1, 34, 261, 3, 5, 1, 0, 1, 1, 1]),
        // Taps of more than a vector of words.
        (true, [1, 6, 9, 12, 13, 7, 3, 1, 1, 1]),
        (false, [2, 5, 6, 21, 20, 7, 3, 1, 2, 2]),
        (false, [1, 1, 8, 30, 9, 8, 0, 1, 2, 2]),
    ] {
        cases.extend(passes(&mut random, extreme, shape));
    }
    // Weights of one position whose channels, or features, fill up blocks of them.
    for (extreme, shape) in
        [(true, [1, 72, 34, 8, 8, 1, 0, 1, 1, 1]), (false, [1, 33, 68, 5, 5, 1, 0, 1, 1, 1])]
    {
        let with_weights = passes(&mut random, extreme, shape).into_iter();
        cases.extend(with_weights.filter(|case| case.packing.is_some()));
    }
    for (extreme, shape) in [
        (false, [1, 400, 120]),
        (true, [3, 130, 7]),
        (false, [9, 33, 10]),
        (false, [4, 20, 3]),
        // Rows that are multiplied where they arise: what lies behind the last column is large beside it.
        (false, [1, 5, 9]),
        (false, [2, 130, 4]),
        (true, [4, 257, 13]),
        (false, [1, 1, 30]),
        (true, [1, 128, 8]),
        (false, [2, 96, 1]),
        (false, [4, 384, 70]),
        // Start values far behind the words.
        (false, [4, 256, 1000]),
    ] {
        cases.extend(rows(&mut random, extreme, shape));
    }
    let mut failures = Vec::new();
    for case in &cases {
        let (packets, estimate) = (packets(case), case.estimate);
        let ratio = estimate as f64 / f64::from(packets);
        println!("{}: {packets} packets, {estimate} estimated, {ratio:.2}", case.what);
        if packets >= 1500 && !(0.8..=1.25).contains(&ratio) {
            failures.push(format!("{}: {packets} packets, {estimate} estimated", case.what));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
