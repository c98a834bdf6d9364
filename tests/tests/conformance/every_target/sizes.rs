//! Operations of a training step at all sizes around the vectors', on extreme values; depthwise convolutions.

use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Add, AlignedAdd, AvgPool2d, AvgPool2dGradient, Chain, Conv2d, Conv2dGradientInput,
    Conv2dGradientWeight, Dequantize, Div, MaxPool2d, MaxPool2dGradient, Maximum, QuantizeExponent,
    QuantizeGradient, QuantizeUnsigned, Relu, ReluGradient, Requantize, RequantizeStochastic,
    SaturatingSubtract, ShiftRight,
};
use trainc_ir::{Element, Op, Tensor};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;

const ROUNDINGS: [Rounding; 4] =
    [Rounding::HalfAway, Rounding::PseudoStochastic, Rounding::Truncate, Rounding::Floor];

fn bytes(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    let exponent = (random.next() >> 60) as i32 - 8;
    let values = (0..count).map(|_| random.integer() as i8).collect();
    Tensor::i8_shared(shape, values, exponent)
}

fn words(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    // Sums of some width, and of all widths.
    let shift = random.next() >> 59;
    let values = (0..count).map(|_| random.integer() as i32 >> shift).collect();
    Tensor::i32_shared(shape, values, 3)
}

fn floats(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::f32(shape, (0..count).map(|_| random.float()).collect())
}

/// Operations on `n` elements, or on rows of `n`.
fn operations(random: &mut Random, n: usize) -> Vec<(Op, Vec<Tensor>)> {
    let mut cases: Vec<(Op, Vec<Tensor>)> = Vec::new();
    let rounding = ROUNDINGS[n % 4];
    let row = [n];
    cases.push((Relu {}.into(), vec![bytes(random, &row)]));
    cases.push((ReluGradient {}.into(), vec![bytes(random, &row), bytes(random, &row)]));
    cases.push((SaturatingSubtract {}.into(), vec![bytes(random, &row), bytes(random, &row)]));
    let low = [-127, 0][n / 4 % 2];
    cases.push((Requantize { bits: 7, rounding, low }.into(), vec![words(random, &row)]));
    let width = Tensor::i32([], vec![(n % 8) as i32]);
    cases.push((QuantizeGradient { rounding }.into(), vec![words(random, &row), width]));
    let amount = (n % 32) as u8;
    let shift = ShiftRight { amount, rounding, element: Element::I8 };
    cases.push((shift.into(), vec![words(random, &row)]));
    cases.push((QuantizeExponent {}.into(), vec![floats(random, &row)]));
    cases.push((QuantizeUnsigned {}.into(), vec![floats(random, &row)]));
    let stream = n as u32 % 3;
    cases.push((RequantizeStochastic { stream }.into(), vec![floats(random, &row)]));
    cases.push((RequantizeStochastic { stream }.into(), vec![words(random, &row)]));
    cases.push((Dequantize {}.into(), vec![bytes(random, &row)]));
    cases.push((Dequantize {}.into(), vec![words(random, &row)]));
    cases.push((AlignedAdd {}.into(), vec![bytes(random, &row), bytes(random, &row)]));
    for op in [Op::from(Add {}), Div {}.into(), Maximum {}.into()] {
        cases.push((op, vec![floats(random, &row), floats(random, &row)]));
    }
    // A bias of each channel.
    cases.push((Add {}.into(), vec![floats(random, &[2, 3, n]), floats(random, &[3, 1])]));
    if n >= 2 {
        let (kernel, strides, pads, dilations) = ([2, 2], [2, 2], [0; 4], [1, 1]);
        let x = bytes(random, &[1, 2, 4 + n % 2, n]);
        let y = [1, 2, 2, n / 2];
        let pool = MaxPool2d { kernel, strides, pads, dilations, ceil: false };
        cases.push((pool.into(), vec![x.clone()]));
        let gradient = MaxPool2dGradient { kernel, strides, pads, dilations, ceil: false };
        cases.push((gradient.into(), vec![x.clone(), bytes(random, &y)]));
        let (ceil, count_include_pad) = (false, false);
        let mean = AvgPool2d { kernel, strides, pads, ceil, count_include_pad };
        cases.push((mean.into(), vec![x.clone()]));
        let input_size = [4 + n % 2, n];
        let gradient =
            AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, input_size };
        cases.push((gradient.into(), vec![bytes(random, &y)]));
        // Windows that overlap, and the whole plane.
        let (kernel, strides) = ([2, 2], [1, 1]);
        let pool = MaxPool2d { kernel, strides, pads, dilations, ceil: false };
        cases.push((pool.into(), vec![x.clone()]));
        let kernel = [4 + n % 2, n];
        let mean = AvgPool2d { kernel, strides, pads, ceil, count_include_pad };
        cases.push((mean.into(), vec![x]));
    }
    cases
}

fn case(n: usize, (op, inputs): (Op, Vec<Tensor>)) -> Case {
    let types: Vec<String> = inputs.iter().map(|t| t.ty().to_string()).collect();
    Case { what: format!("{n}: {op} of {}", types.join(", ")), op, inputs, constant: false }
}

/// All sizes up to two and a half vectors; each operation sees a third of them.
pub(crate) fn all() -> Vec<Case> {
    let mut random = Random(77);
    let mut all = Vec::new();
    for size in 1..=40 {
        let cases = operations(&mut random, size).into_iter().enumerate();
        let third = cases.filter(|(at, _)| (at + size) % 3 == 0);
        all.extend(third.map(|(at, one)| case(at, one)));
    }
    all
}

/// Batch, channels, input, kernel, strides, pads.
type Convolution = (usize, usize, [usize; 2], [usize; 2], [usize; 2], [usize; 4]);

const CONVOLUTIONS: [Convolution; 19] = [
    (2, 3, [8, 8], [3, 3], [1, 1], [1, 1, 1, 1]),
    (1, 2, [14, 14], [3, 3], [1, 1], [1, 1, 1, 1]),
    (2, 2, [14, 14], [3, 3], [2, 2], [1, 1, 1, 1]),
    (1, 2, [7, 7], [3, 3], [1, 1], [1, 1, 1, 1]),
    (2, 2, [7, 7], [3, 3], [2, 2], [1, 1, 1, 1]),
    (1, 3, [35, 33], [3, 3], [2, 2], [0, 0, 1, 1]),
    (1, 2, [20, 37], [5, 5], [1, 1], [2, 2, 2, 2]),
    (1, 2, [21, 18], [5, 5], [2, 2], [2, 2, 2, 2]),
    (1, 2, [6, 19], [2, 3], [1, 2], [0, 2, 1, 0]),
    (1, 2, [19, 9], [3, 2], [2, 1], [1, 0, 0, 1]),
    (1, 2, [3, 2], [3, 3], [2, 2], [1, 1, 1, 1]),
    (1, 4, [16, 17], [1, 1], [2, 2], [0, 0, 0, 0]),
    // Planes of whole vectors and a few columns more, several images, more channels than parts.
    (3, 9, [7, 32], [3, 3], [1, 1], [1, 1, 1, 1]),
    (2, 11, [4, 4], [3, 3], [1, 1], [1, 1, 1, 1]),
    (1, 2, [6, 29], [3, 3], [1, 1], [0, 2, 2, 0]),
    (2, 3, [8, 8], [3, 3], [2, 2], [1, 1, 1, 1]),
    (1, 3, [9, 34], [4, 4], [1, 1], [3, 3, 0, 0]),
    (1, 2, [11, 21], [4, 2], [2, 2], [1, 0, 2, 1]),
    (1, 2, [12, 12], [2, 2], [1, 2], [0, 0, 0, 0]),
];

/// The three products of each depthwise convolution, alone and with what follows them in a training step.
pub(crate) fn depthwise() -> Vec<Case> {
    let mut random = Random(99);
    let mut all = Vec::new();
    for (at, convolution) in CONVOLUTIONS.iter().enumerate() {
        all.extend(products(&mut random, at, convolution).into_iter().map(|one| case(at, one)));
    }
    all
}

fn products(
    random: &mut Random,
    at: usize,
    &(batch, channels, input, kernel, strides, pads): &Convolution,
) -> Vec<(Op, Vec<Tensor>)> {
    let groups = channels;
    let dilations = [1, 1];
    let x = bytes(random, &[batch, channels, input[0], input[1]]);
    let w = bytes(random, &[channels, 1, kernel[0], kernel[1]]);
    let forward: Op = Conv2d { strides, pads, dilations, groups }.into();
    let y = forward.infer(&[x.ty(), w.ty()]).expect("it types").remove(0);
    let dy = bytes(random, &y.shape);
    let of_input: Op =
        Conv2dGradientInput { strides, pads, dilations, groups, input_size: input }.into();
    let of_weight: Op =
        Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: kernel }.into();
    let requantize: Op = Requantize { bits: 7, rounding: ROUNDINGS[at % 4], low: -127 }.into();
    let quantize: Op = QuantizeGradient { rounding: ROUNDINGS[at % 4] }.into();
    let chain = |ops: Vec<Op>| Op::from(Chain { ops });
    let other = bytes(random, &y.shape);
    vec![
        (forward.clone(), vec![x.clone(), w.clone()]),
        (of_input.clone(), vec![dy.clone(), w.clone()]),
        (of_weight.clone(), vec![x.clone(), dy.clone()]),
        (
            chain(vec![forward, requantize.clone(), AlignedAdd {}.into(), Relu {}.into()]),
            vec![x.clone(), w.clone(), other],
        ),
        (chain(vec![of_input, requantize]), vec![dy.clone(), w]),
        (chain(vec![of_weight, quantize]), vec![x, dy, Tensor::i32([], vec![5])]),
    ]
}
