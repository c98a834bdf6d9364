//! Convolutions, depthwise convolutions and pools at the shapes and on the values where kernels change their ways: whole and
//! part vectors, several images a vector and several vectors an image, sums that stay in registers and that do not.

use std::collections::BTreeSet;

use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    AvgPool2d, AvgPool2dGradient, Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul,
    MaxPool2d, MaxPool2dGradient, ProductRole, QuantizeGradient, Requantize, ShiftRight,
};
use trainc_ir::{Element, Op, Tensor, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::kernels::{is_tuned, kernel};
use trainc_tests::random::Random;

use super::products::{InferShape, Shape, Values, tensor};
use super::targets;

const fn same(images: usize, channels: usize, features: usize, size: usize) -> Shape {
    (images, 1, [channels, features], [size; 2], [3, 3], [1, 1], [1, 1], [1; 4])
}

const fn plain(
    images: usize,
    maps: [usize; 2],
    size: [usize; 2],
    kernel: [usize; 2],
    pads: [usize; 4],
) -> Shape {
    (images, 1, maps, size, kernel, [1, 1], [1, 1], pads)
}

/// Weights that are packed in one pass or both, of one and several blocks, runs of quads and taps.
const fn weights(channels: usize, features: usize, kernel: [usize; 2]) -> Shape {
    plain(4, [channels, features], [kernel[0] + 1, kernel[1] + 1], kernel, [0; 4])
}

const UNEVEN: Shape = (4, 1, [9, 36], [6, 10], [2, 3], [2, 1], [1, 2], [0, 2, 1, 0]);
const TWO_FEATURES: Shape = same(4, 64, 8, 4);
const FEW_POSITIONS: Shape = same(4, 128, 12, 2);

/// Whole and partial groups, quads, blocks and vectors; each way to order the result.
const CONVOLUTIONS: [Shape; 34] = [
    UNEVEN,
    TWO_FEATURES,
    FEW_POSITIONS,
    same(4, 64, 128, 4),
    same(8, 16, 96, 2),
    same(4, 256, 8, 2),
    same(1, 128, 8, 1),
    plain(3, [256, 4], [1, 4], [3, 3], [1; 4]),
    plain(2, [128, 8], [1, 4], [1, 7], [0, 3, 0, 3]),
    plain(4, [128, 8], [2, 2], [1, 1], [0; 4]),
    plain(3, [256, 4], [1, 4], [1, 3], [0; 4]),
    plain(4, [128, 12], [1, 3], [1, 5], [0, 2, 0, 2]),
    plain(1, [128, 8], [1, 4], [1, 11], [0, 5, 0, 5]),
    plain(1, [128, 8], [1, 4], [3, 5], [1, 2, 1, 2]),
    plain(8, [64, 4], [3, 3], [3, 1], [0; 4]),
    same(4, 8, 64, 16),
    same(1, 4, 32, 32),
    same(4, 20, 160, 8),
    same(1, 3, 5, 7),
    same(5, 13, 33, 3),
    plain(4, [24, 40], [5, 9], [1, 1], [0; 4]),
    plain(2, [6, 32], [9, 6], [5, 5], [2; 4]),
    (3, 1, [12, 64], [11, 12], [3, 3], [2, 2], [1, 1], [1; 4]),
    weights(64, 32, [3, 3]),
    weights(32, 64, [3, 3]),
    weights(128, 128, [3, 3]),
    weights(24, 256, [3, 3]),
    weights(128, 128, [1, 1]),
    weights(256, 96, [1, 1]),
    weights(192, 64, [1, 1]),
    weights(80, 64, [3, 1]),
    weights(48, 32, [1, 5]),
    weights(32, 32, [7, 1]),
    weights(16, 32, [3, 5]),
];

const fn square(
    images: usize,
    channels: usize,
    size: usize,
    kernel: usize,
    stride: usize,
) -> Shape {
    let (taps, pads) = ([kernel; 2], [kernel / 2; 4]);
    (images, channels, [1, 1], [size; 2], taps, [stride; 2], [1, 1], pads)
}

/// Results shorter than a vector, both ways to read the word behind a vector, kernels of several words.
const DEPTHWISE: [Shape; 32] = [
    square(1, 1, 1, 1, 1),
    square(1, 1, 1, 3, 1),
    square(1, 32, 14, 3, 1),
    square(2, 5, 14, 3, 2),
    square(1, 3, 28, 3, 1),
    square(2, 3, 28, 3, 2),
    square(5, 7, 7, 3, 1),
    square(3, 7, 7, 3, 2),
    square(9, 3, 4, 3, 1),
    square(7, 4, 2, 3, 1),
    square(33, 2, 1, 3, 1),
    square(64, 3, 2, 3, 2),
    square(1, 2, 56, 3, 1),
    square(1, 1, 112, 3, 2),
    square(1, 2, 112, 3, 1),
    square(1, 1, 127, 3, 1),
    square(1, 1, 128, 3, 1),
    square(2, 1, 126, 3, 2),
    square(1, 3, 65, 3, 1),
    square(2, 3, 9, 5, 1),
    square(2, 3, 12, 5, 2),
    square(1, 2, 11, 7, 1),
    square(3, 5, 6, 1, 1),
    square(2, 3, 9, 2, 1),
    (3, 5, [1, 1], [10; 2], [3; 2], [1, 1], [1, 1], [0; 4]),
    (3, 5, [1, 1], [9; 2], [2; 2], [2, 2], [1, 1], [0, 1, 1, 0]),
    (2, 3, [1, 1], [13; 2], [4; 2], [2, 1], [1, 1], [0, 1, 1, 2]),
    (2, 3, [1, 1], [13; 2], [3; 2], [1, 2], [1, 1], [1; 4]),
    (2, 3, [1, 1], [3, 40], [1, 8], [1, 1], [1, 1], [0, 3, 0, 4]),
    (2, 3, [1, 1], [60, 4], [5, 1], [1, 1], [1, 1], [2, 0, 2, 0]),
    (2, 3, [1, 1], [17; 2], [3; 2], [3, 3], [1, 1], [1; 4]),
    (2, 3, [1, 1], [8; 2], [3, 1], [1, 1], [2, 1], [2, 0, 2, 0]),
];

/// Depthwise convolutions whose planes fill vectors: several images a vector, or channels, and several vectors a plane.
const SHEETS: [Shape; 8] = [
    square(2, 3, 16, 3, 1),
    square(2, 6, 8, 3, 1),
    square(4, 16, 4, 3, 1),
    square(1, 8, 8, 3, 1),
    square(1, 2, 32, 3, 2),
    square(3, 2, 16, 3, 2),
    square(4, 16, 8, 3, 2),
    square(1, 1, 16, 1, 1),
];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Pass {
    Forward,
    Error,
    Weight,
}

const PASSES: [Pass; 3] = [Pass::Forward, Pass::Error, Pass::Weight];
const RANDOM: [Values; 2] = [Values::Any; 2];
const SMALL: [Values; 2] = [Values::Small; 2];
const EXTREME: [Values; 2] = [Values::Extremes; 2];
const LOWEST: [Values; 2] = [Values::All(-128); 2];
/// The most negative sums.
const OPPOSITE: [Values; 2] = [Values::All(-128), Values::All(127)];
const ZERO: [Values; 2] = [Values::All(0); 2];

/// What follows a product; none, its sums.
#[derive(Clone, Copy, Debug)]
enum Finish {
    Sums,
    Requantize(i8),
    Bits(i32),
    Shift(u8, Rounding),
}

struct Cases {
    random: Random,
    all: Vec<Case>,
}

impl Cases {
    /// The shapes of a convolution's operand, weights and result.
    fn shapes(shape: &Shape) -> [Vec<usize>; 3] {
        let &(images, groups, [channels, features], size, taps, strides, dilations, pads) = shape;
        let x = vec![images, groups * channels, size[0], size[1]];
        let w = vec![groups * features, channels, taps[0], taps[1]];
        let forward = Conv2d { strides, pads, dilations, groups };
        let y = forward.infer_shape(&x, &w).expect("the shapes fit");
        [x, w, y]
    }

    fn product(&mut self, shape: &Shape, pass: Pass, values: [Values; 2], finish: Finish) {
        let [x, w, y] = Self::shapes(shape);
        let (a, b) = match pass {
            Pass::Forward => (x, w),
            Pass::Error => (y, w),
            Pass::Weight => (x, y),
        };
        let [first, second] = [(a, values[0]), (b, values[1])]
            .map(|(shape, values)| tensor(&mut self.random, &shape, values));
        self.product_of(shape, pass, vec![first, second], finish);
    }

    /// The sums themselves, the first operand's bytes taken as unsigned ones where it says so.
    fn sums(&mut self, shape: &Shape, pass: Pass, values: [Values; 2], unsigned: bool) {
        self.product(shape, pass, values, Finish::Sums);
        let Some(case) = self.all.last_mut().filter(|_| unsigned) else { return };
        let signed = &case.inputs[0];
        let ty = TensorType::shared(signed.shape().dims(), Element::U8);
        let bytes: Vec<i64> = signed.to_i64().into_iter().map(|x| x & 255).collect();
        case.inputs[0] = Tensor::from_i64(&ty, &bytes, *signed.scale());
        case.what.push_str(", unsigned");
    }

    /// Sums of a product of matrices, the first of unsigned bytes.
    fn unsigned_matrices(&mut self, role: ProductRole, sides: [[usize; 2]; 2], values: Values) {
        let transposes = match role {
            ProductRole::Forward => [false, true],
            ProductRole::Error => [false, false],
            ProductRole::Gradient => [true, false],
        };
        let [transpose_a, transpose_b] = transposes;
        let [signed, b] = sides.map(|side| tensor(&mut self.random, &side, values));
        let bytes: Vec<i64> = signed.to_i64().into_iter().map(|x| x & 255).collect();
        let ty = TensorType::shared(sides[0], Element::U8);
        let a = Tensor::from_i64(&ty, &bytes, *signed.scale());
        self.all.push(Case {
            what: format!("{role:?} of matrices, unsigned"),
            op: MatMul { transpose_a, transpose_b, role }.into(),
            inputs: vec![a, b],
            constant: false,
        });
    }

    fn product_of(&mut self, shape: &Shape, pass: Pass, mut inputs: Vec<Tensor>, finish: Finish) {
        let &(_, groups, _, size, taps, strides, dilations, pads) = shape;
        let product: Op = match pass {
            Pass::Forward => Conv2d { strides, pads, dilations, groups }.into(),
            Pass::Error => {
                let input_size = size;
                Conv2dGradientInput { strides, pads, dilations, groups, input_size }.into()
            }
            Pass::Weight => {
                let kernel_size = taps;
                Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size }.into()
            }
        };
        let last: Option<Op> = match finish {
            Finish::Sums => None,
            Finish::Requantize(low) => {
                Some(Requantize { bits: 7, rounding: Rounding::HalfAway, low }.into())
            }
            Finish::Bits(bits) => {
                inputs.push(Tensor::i32([], vec![bits]));
                Some(QuantizeGradient { rounding: Rounding::PseudoStochastic }.into())
            }
            Finish::Shift(amount, rounding) => {
                Some(ShiftRight { amount, rounding, element: Element::I8 }.into())
            }
        };
        let op = match last {
            Some(last) => Chain { ops: vec![product, last] }.into(),
            None => product,
        };
        let what = format!("{pass:?} {shape:?}, {finish:?}");
        self.all.push(Case { what, op, inputs, constant: false });
    }
}

/// Convolutions: every pass of every shape, and on three shapes all values, widths and shifts.
pub(crate) fn convolutions() -> Vec<Case> {
    let mut cases = Cases { random: Random(0x9e37_79b9_7f4a_7c15), all: Vec::new() };
    for (n, shape) in CONVOLUTIONS.iter().enumerate() {
        cases.product(shape, Pass::Forward, RANDOM, Finish::Requantize(-127));
        cases.product(shape, Pass::Error, RANDOM, Finish::Requantize(-127));
        cases.product(shape, Pass::Weight, RANDOM, Finish::Bits(5));
        for pass in PASSES {
            for rounding in [Rounding::ALL[n % Rounding::ALL.len()], Rounding::PseudoStochastic] {
                cases.product(shape, pass, RANDOM, Finish::Shift(7 + (n % 5) as u8, rounding));
            }
        }
    }
    for (values, low) in [(SMALL, 0), (EXTREME, -127), (LOWEST, -127), (ZERO, 0)] {
        cases.product(&UNEVEN, Pass::Forward, values, Finish::Requantize(low));
        cases.product(&UNEVEN, Pass::Error, values, Finish::Requantize(low));
    }
    for shape in [UNEVEN, TWO_FEATURES, FEW_POSITIONS] {
        for (values, bits) in [
            (RANDOM, 3),
            (SMALL, 7),
            (SMALL, 20),
            (EXTREME, 4),
            (LOWEST, -1),
            (RANDOM, -9),
            (RANDOM, -40),
            (RANDOM, i32::MIN),
            (RANDOM, i32::MAX),
            (ZERO, 3),
        ] {
            cases.product(&shape, Pass::Weight, values, Finish::Bits(bits));
        }
        // Shifts of the 16-bit form, each once, where sums stay in registers and where they do not.
        for bits in 0..19 {
            cases.product(&shape, Pass::Weight, RANDOM, Finish::Bits(bits));
        }
    }
    let shifts = [0, 1, 2, 5, 8, 15, 16, 17, 23, 31];
    for (shape, pass) in [
        (UNEVEN, Pass::Forward),
        (UNEVEN, Pass::Weight),
        (FEW_POSITIONS, Pass::Weight),
        (TWO_FEATURES, Pass::Error),
    ] {
        for (rounding, amount) in in_turn(&shifts) {
            cases.product(&shape, pass, RANDOM, Finish::Shift(amount, rounding));
        }
    }
    // The largest sums of either sign, of more than 24 bits, and numbers that saturate.
    for (shape, pass) in [
        (same(3, 456, 40, 2), Pass::Forward),
        (same(4, 33, 64, 17), Pass::Weight),
        (same(4, 128, 4, 2), Pass::Weight),
    ] {
        for (values, amounts) in [
            (LOWEST, &[0, 1, 2, 15, 16, 20, 26][..]),
            (OPPOSITE, &[0, 1, 2, 15, 16, 20, 26]),
            (EXTREME, &[0, 1, 2, 15]),
        ] {
            for (rounding, amount) in in_turn(amounts) {
                cases.product(&shape, pass, values, Finish::Shift(amount, rounding));
            }
        }
    }
    wrong_guesses(&mut cases);
    sums(&mut cases);
    cases.all
}

/// Sums that nothing rounds, of signed and unsigned bytes; windows without taps among them.
fn sums(cases: &mut Cases) {
    for (n, shape) in CONVOLUTIONS.iter().enumerate().step_by(2) {
        cases.sums(shape, PASSES[n / 2 % 3], RANDOM, n / 2 % 3 != 1);
    }
    const APART: [Shape; 3] = [
        (1, 1, [16, 20], [8, 8], [1, 1], [2, 2], [1, 1], [0; 4]),
        (5, 1, [3, 33], [9, 7], [1, 1], [3, 2], [1, 1], [0; 4]),
        (4, 1, [70, 5], [6, 6], [2, 2], [3, 3], [1, 1], [0; 4]),
    ];
    for shape in &APART {
        cases.sums(shape, Pass::Forward, RANDOM, true);
        cases.sums(shape, Pass::Error, RANDOM, false);
        cases.sums(shape, Pass::Weight, RANDOM, true);
    }
    for values in [EXTREME, LOWEST, OPPOSITE, [Values::All(-1), Values::All(-128)]] {
        for shape in [UNEVEN, same(3, 456, 40, 2), same(5, 13, 33, 3)] {
            cases.sums(&shape, Pass::Forward, values, true);
            cases.sums(&shape, Pass::Error, values, false);
            cases.sums(&shape, Pass::Weight, values, true);
        }
    }
    for values in [RANDOM[0], EXTREME[0], LOWEST[0]] {
        cases.unsigned_matrices(ProductRole::Forward, [[5, 37], [6, 37]], values);
        cases.unsigned_matrices(ProductRole::Error, [[5, 37], [37, 6]], values);
        cases.unsigned_matrices(ProductRole::Gradient, [[5, 37], [5, 6]], values);
    }
}

/// Every rounding with every second amount, and the next one with the others.
fn in_turn(amounts: &[u8]) -> impl Iterator<Item = (Rounding, u8)> {
    Rounding::ALL.iter().enumerate().flat_map(move |(n, &rounding)| {
        amounts.iter().skip(n % 2).step_by(2).map(move |&amount| (rounding, amount))
    })
}

/// The error channels with the most energy give much smaller sums than the others, or none.
fn wrong_guesses(cases: &mut Cases) {
    let [x, _, y] = Cases::shapes(&FEW_POSITIONS);
    for last in [-60, -64] {
        // `[image][feature][position]`: the first features' images cancel, the others' do not.
        let error: Vec<i8> = [64, -64, 64, last]
            .into_iter()
            .flat_map(|loud| {
                (0..12 * 4).map(move |i| if i < 4 * 4 { loud } else { 40 - (i % 3) as i8 })
            })
            .collect();
        for bits in [3, 5, 11] {
            let operand = Tensor::i8_shared(&x[..], vec![100i8; 4 * 128 * 4], 3);
            let error = Tensor::i8_shared(&y[..], error.clone(), 4);
            let inputs = vec![operand, error];
            cases.product_of(&FEW_POSITIONS, Pass::Weight, inputs, Finish::Bits(bits));
        }
    }
}

/// Depthwise convolutions, on any and on extreme values, and on others in turn.
pub(crate) fn depthwise() -> Vec<Case> {
    let mut cases = Cases { random: Random(0x5851_f42d_4c95_7f2d), all: Vec::new() };
    for (n, shape) in DEPTHWISE.iter().enumerate() {
        for values in [RANDOM, EXTREME, [SMALL, LOWEST, ZERO][n % 3]] {
            cases.product(shape, Pass::Forward, values, Finish::Requantize(-127));
            cases.product(shape, Pass::Error, values, Finish::Requantize(-127));
            cases.product(shape, Pass::Weight, values, Finish::Sums);
        }
        cases.sums(shape, Pass::Forward, RANDOM, n % 3 > 0);
        cases.sums(shape, Pass::Error, RANDOM, false);
        cases.sums(shape, Pass::Weight, RANDOM, true);
    }
    for (n, shape) in SHEETS.iter().enumerate() {
        let values = [RANDOM, EXTREME, LOWEST, OPPOSITE][n % 4];
        cases.sums(shape, Pass::Forward, values, true);
        cases.sums(shape, Pass::Forward, RANDOM, false);
        cases.sums(shape, Pass::Error, values, false);
        cases.sums(shape, Pass::Weight, values, true);
    }
    cases.all
}

/// Planes, rows, columns of windows of 2x2: even and odd sizes, several planes a vector and several vectors a plane, whole
/// and part vectors, results shorter than a vector.
const POOLS: [[usize; 3]; 27] = [
    [1, 2, 2],
    [1, 3, 3],
    [64, 2, 2],
    [300, 2, 3],
    [40, 28, 28],
    [5, 28, 28],
    [48, 10, 10],
    [48, 16, 16],
    [24, 32, 32],
    [96, 8, 8],
    [200, 4, 4],
    [70, 7, 7],
    [70, 5, 7],
    [13, 9, 6],
    [9, 9, 11],
    [9, 13, 13],
    [7, 15, 30],
    [5, 21, 33],
    [5, 17, 64],
    [5, 18, 64],
    [4, 16, 65],
    [4, 33, 63],
    [3, 15, 66],
    [3, 10, 127],
    [3, 10, 128],
    [3, 9, 128],
    [6, 3, 126],
];

/// Planes, rows, columns of averages of whole planes: powers of two and others, planes shorter and longer than a vector,
/// whole and part vectors and groups of planes.
const PLANES: [[usize; 3]; 17] = [
    [1, 1, 1],
    [65, 1, 1],
    [1, 7, 7],
    [64, 7, 7],
    [320, 8, 5],
    [33, 4, 4],
    [200, 2, 2],
    [96, 1, 3],
    [31, 3, 3],
    [40, 8, 16],
    [3, 14, 14],
    [35, 14, 14],
    [2, 28, 28],
    [34, 16, 32],
    [5, 56, 13],
    [70, 11, 12],
    [129, 1, 127],
];

/// Pools and their gradients: on any values, with ties, and where sums are largest.
pub(crate) fn pools() -> Vec<Case> {
    let mut random = Random(7);
    let mut all = Vec::new();
    let mut push = |op: Op, inputs: Vec<Tensor>| {
        let what = format!("{op} of {}", inputs[0].ty());
        all.push(Case { what, op, inputs, constant: false });
    };
    let (pads, dilations, ceil, count_include_pad) = ([0; 4], [1, 1], false, false);
    for values in [Values::Any, Values::Small, Values::Extremes, Values::All(-128)] {
        for [planes, height, width] in POOLS {
            let x = tensor(&mut random, &[1, planes, height, width], values);
            let dy = tensor(&mut random, &[1, planes, height / 2, width / 2], values);
            let ([kernel, strides], input_size) = ([[2, 2]; 2], [height, width]);
            push(MaxPool2d { kernel, strides, pads, dilations, ceil }.into(), vec![x.clone()]);
            let gradient = MaxPool2dGradient { kernel, strides, pads, dilations, ceil };
            push(gradient.into(), vec![x.clone(), dy.clone()]);
            push(AvgPool2d { kernel, strides, pads, ceil, count_include_pad }.into(), vec![x]);
            let gradient =
                AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, input_size };
            push(gradient.into(), vec![dy]);
        }
        for [planes, height, width] in PLANES {
            let x = tensor(&mut random, &[1, planes, height, width], values);
            let dy = tensor(&mut random, &[1, planes, 1, 1], values);
            let (kernel, strides, input_size) = ([height, width], [1, 1], [height, width]);
            push(AvgPool2d { kernel, strides, pads, ceil, count_include_pad }.into(), vec![x]);
            let gradient =
                AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, input_size };
            push(gradient.into(), vec![dy]);
        }
    }
    all
}

/// Every version of Hexagon has registers enough for its kernels: none keeps values in the frame.
#[test]
fn registers_of_hexagon_suffice() {
    let mut all = convolutions();
    all.extend(depthwise());
    all.extend(pools());
    for target in targets().into_iter().filter(|t| t.description().name.starts_with("hvx")) {
        let (mut tuned, mut known) = (0, BTreeSet::new());
        for case in all.iter().step_by(7) {
            let types: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
            let kernel = kernel(target, "kernel", &case.op, &types);
            if !is_tuned(&kernel) || !known.insert((&case.op, types)) {
                continue;
            }
            tuned += 1;
            let emitted = trainc_c::in_c(&kernel).and_then(|own| own.emit("kernel", &kernel));
            let emitted = emitted.unwrap_or_else(|error| panic!("{}: {error}", case.what));
            let spills = |piece: &trainc_c::Piece| piece.text.contains("for want of registers");
            assert!(!emitted.pieces.iter().any(spills), "{}", case.what);
        }
        assert!(tuned > 90, "{tuned} kernels that are not loops");
    }
}
