//! Products of 8-bit integers, alone and with what follows them: convolutions and matrices whose sizes, paddings and
//! values are awkward.

use trainc_ir::numeric::Rounding;
use trainc_ir::ops::matmul::ProductRole;
use trainc_ir::ops::{
    AlignedAdd, Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul, QuantizeGradient,
    Relu, Requantize, RequantizeAdaptive, SaturatingSubtractFrom, ShiftRight,
};
use trainc_ir::{Element, Op, Tensor, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;

/// A tensor: of any values, of the extremes only, of one value, or mostly zeros.
pub(crate) fn tensor(random: &mut Random, shape: &[usize], values: Values) -> Tensor {
    let count = shape.iter().product();
    let mut draw = || match values {
        Values::Any => random.next() as i8,
        Values::Small => (random.next() % 7) as i8 - 3,
        Values::Extremes => [-128, 127, -127][random.below(3)],
        Values::All(value) => value,
        Values::Few => {
            if random.below(8) == 0 {
                random.next() as i8
            } else {
                0
            }
        }
    };
    let data = (0..count).map(|_| draw()).collect();
    Tensor::i8_shared(shape, data, random.below(9) as i32 - 6)
}

#[derive(Clone, Copy)]
pub(crate) enum Values {
    Any,
    Small,
    Extremes,
    All(i8),
    Few,
}

const VALUES: [(Values, Values); 8] = [
    (Values::Any, Values::Any),
    (Values::Extremes, Values::Extremes),
    (Values::All(-128), Values::All(-128)),
    (Values::Few, Values::Any),
    (Values::All(127), Values::All(-128)),
    (Values::Any, Values::All(0)),
    (Values::Any, Values::Few),
    (Values::All(127), Values::All(127)),
];

/// A chain of a product and what follows, with the further operands.
fn finished(
    n: usize,
    product: Op,
    mut inputs: Vec<Tensor>,
    random: &mut Random,
) -> (Op, Vec<Tensor>) {
    use Rounding::{HalfAway, PseudoStochastic, Truncate};
    let requantize = |bits, rounding, low| Op::from(Requantize { bits, rounding, low });
    let bits = |bits: i32| Tensor::i32([0usize; 0], vec![bits]);
    let next: Vec<Op> = match n % 14 {
        0 | 1 => return (product, inputs),
        2 | 3 => vec![requantize(7, HalfAway, -127)],
        4 => vec![requantize(7, HalfAway, 0)],
        5 => vec![requantize(7, PseudoStochastic, -127)],
        6 => vec![requantize(3, PseudoStochastic, -5)],
        7 | 8 => {
            inputs.push(bits([5, 0, 7][n % 3]));
            vec![QuantizeGradient { rounding: PseudoStochastic }.into()]
        }
        9 => {
            inputs.push(bits([-3, -13, -14, -25, -31, -50, i32::MIN, i32::MAX][n / 14 % 8]));
            vec![QuantizeGradient { rounding: [HalfAway, PseudoStochastic][n % 2] }.into()]
        }
        10 => {
            vec![ShiftRight { amount: 9, rounding: PseudoStochastic, element: Element::I8 }.into()]
        }
        11 => {
            vec![ShiftRight { amount: 0, rounding: HalfAway, element: Element::I8 }.into()]
        }
        // What has no kernel of its own follows in loops.
        12 => vec![requantize(7, Truncate, -127)],
        _ => {
            let types: Vec<&TensorType> = inputs.iter().map(Tensor::ty).collect();
            let sums = product.infer(&types).expect("it types").remove(0);
            inputs.push(tensor(random, &sums.shape, Values::Any));
            vec![requantize(7, HalfAway, -127), AlignedAdd {}.into(), Relu {}.into()]
        }
    };
    let ops = std::iter::once(product).chain(next).collect();
    (Chain { ops }.into(), inputs)
}

/// images, groups, channels and outputs of a group, height and width, taps, strides, dilations, pads.
pub(crate) type Shape =
    (usize, usize, [usize; 2], [usize; 2], [usize; 2], [usize; 2], [usize; 2], [usize; 4]);

/// Convolutions as in nets, and odd ones.
pub(crate) const SHAPES: &[Shape] = &[
    // As in nets.
    (2, 1, [16, 32], [8, 8], [3, 3], [1, 1], [1, 1], [1; 4]),
    (4, 1, [32, 16], [4, 4], [3, 3], [1, 1], [1, 1], [1; 4]),
    (8, 1, [32, 40], [2, 2], [3, 3], [1, 1], [1, 1], [1; 4]),
    (16, 1, [24, 16], [4, 4], [3, 3], [1, 1], [1, 1], [1; 4]),
    (16, 1, [16, 16], [2, 2], [3, 3], [1, 1], [1, 1], [1; 4]),
    (3, 1, [1, 6], [12, 12], [5, 5], [1, 1], [1, 1], [2; 4]),
    (2, 1, [6, 16], [10, 10], [5, 5], [1, 1], [1, 1], [0; 4]),
    (4, 1, [16, 24], [8, 8], [3, 3], [2, 2], [1, 1], [1; 4]),
    (16, 1, [17, 19], [5, 5], [3, 3], [2, 2], [1, 1], [1; 4]),
    (2, 1, [20, 9], [9, 7], [1, 1], [2, 2], [1, 1], [0; 4]),
    (4, 1, [32, 48], [7, 7], [1, 1], [1, 1], [1, 1], [0; 4]),
    // Odd ones.
    (1, 1, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4]),
    (1, 1, [3, 5], [7, 5], [3, 3], [1, 1], [1, 1], [0, 1, 2, 0]),
    (3, 1, [33, 7], [5, 6], [3, 3], [1, 1], [1, 1], [1; 4]),
    (3, 1, [16, 8], [6, 9], [3, 3], [1, 1], [2, 2], [2; 4]),
    (1, 1, [18, 11], [11, 9], [3, 3], [2, 2], [2, 2], [2, 1, 0, 3]),
    (2, 1, [19, 10], [9, 11], [3, 2], [3, 2], [2, 3], [1, 2, 3, 4]),
    (1, 2, [8, 8], [6, 6], [3, 3], [1, 1], [1, 1], [1; 4]),
    (3, 2, [17, 5], [5, 5], [3, 3], [2, 1], [1, 1], [1; 4]),
    (17, 3, [4, 6], [3, 3], [2, 2], [1, 1], [1, 1], [0, 0, 1, 1]),
    (2, 1, [16, 8], [2, 2], [5, 5], [1, 1], [1, 1], [4; 4]),
    (1, 1, [2, 3], [1, 20], [1, 7], [1, 3], [1, 1], [0, 3, 0, 3]),
    (20, 1, [9, 8], [3, 2], [2, 3], [1, 1], [1, 1], [1, 2, 1, 0]),
    (32, 1, [8, 3], [3, 3], [3, 3], [1, 1], [1, 1], [1; 4]),
    (1, 1, [48, 16], [4, 4], [1, 1], [3, 3], [1, 1], [0; 4]),
    // Matrices of few images; rows of which every second place is taken, longer than a vector.
    (3, 1, [21, 23], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4]),
    (2, 1, [9, 16], [17, 38], [3, 3], [2, 2], [1, 1], [1; 4]),
    (6, 1, [37, 11], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4]),
    (5, 1, [16, 9], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4]),
    (8, 1, [24, 8], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4]),
    // Windows that lie in the padding alone.
    (2, 1, [16, 4], [2, 3], [2, 2], [1, 1], [1, 1], [3, 2, 2, 3]),
    // Rows of the result in units of 8 and of 16 columns, taps beyond both borders, by strides and dilations.
    (3, 1, [16, 8], [9, 8], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 1, [32, 16], [10, 24], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 1, [16, 8], [11, 33], [3, 5], [2, 2], [2, 1], [2, 2, 1, 3]),
    (2, 1, [16, 8], [13, 20], [3, 3], [3, 1], [1, 1], [1; 4]),
    (2, 1, [16, 16], [8, 32], [3, 3], [2, 2], [1, 1], [1; 4]),
    // Few channels; even rows of windows, whose neighbours lie in pairs; places that follow each other.
    (3, 1, [3, 12], [9, 18], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 1, [4, 9], [6, 12], [2, 4], [1, 2], [1, 1], [1; 4]),
    (2, 1, [1, 8], [9, 14], [5, 5], [1, 1], [1, 1], [2; 4]),
    (2, 1, [24, 17], [6, 10], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 1, [40, 24], [7, 7], [1, 1], [1, 1], [1, 1], [0; 4]),
    // Phases of a single image, and of large ones, whose operands are whole words of channels.
    (1, 1, [19, 8], [10, 24], [3, 3], [2, 2], [1, 1], [1; 4]),
    (2, 1, [4, 64], [34, 36], [3, 3], [2, 2], [1, 1], [1; 4]),
];

/// Windows of which some have no tap, in the error gradient or in the convolution: planes smaller and larger than a vector,
/// rows that divide one and that do not, the last planes within a vector of the end, places at unequal distances, rows
/// wider than a vector.
const SPARSE: &[Shape] = &[
    (4, 1, [32, 16], [16, 16], [1, 1], [2, 2], [1, 1], [0; 4]),
    (1, 1, [40, 16], [8, 8], [1, 1], [2, 2], [1, 1], [0; 4]),
    (3, 1, [7, 9], [4, 6], [1, 1], [2, 2], [1, 1], [0; 4]),
    (2, 1, [33, 8], [7, 7], [1, 1], [2, 2], [1, 1], [0; 4]),
    (1, 1, [5, 12], [14, 30], [1, 1], [2, 2], [1, 1], [0; 4]),
    (2, 1, [3, 8], [6, 66], [1, 1], [2, 2], [1, 1], [0; 4]),
    (1, 1, [2, 4], [4, 128], [1, 1], [2, 2], [1, 1], [0; 4]),
    (1, 1, [3, 8], [12, 24], [1, 1], [3, 4], [1, 1], [0; 4]),
    (1, 1, [2, 8], [24, 100], [1, 1], [4, 2], [1, 1], [0; 4]),
    (2, 1, [5, 3], [6, 15], [1, 2], [2, 1], [1, 1], [0; 4]),
    (1, 1, [4, 8], [15, 15], [1, 1], [2, 2], [1, 1], [0; 4]),
    (1, 1, [4, 8], [6, 6], [2, 2], [3, 3], [1, 1], [0; 4]),
    (1, 1, [4, 8], [4, 140], [1, 1], [2, 2], [1, 1], [0; 4]),
    (2, 1, [8, 12], [5, 5], [1, 1], [1, 1], [1, 1], [2, 1, 1, 3]),
    (1, 1, [3, 40], [3, 3], [1, 1], [5, 5], [1, 1], [1; 4]),
];

/// Channels in groups: as in nets, single channels with several filters or with taps that lie apart, slices shorter than a vector, of
/// whole vectors and not, one image and several.
const GROUPS: &[Shape] = &[
    (3, 4, [9, 9], [20, 20], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 8, [4, 4], [8, 8], [3, 3], [2, 2], [1, 1], [1; 4]),
    (1, 3, [8, 5], [16, 16], [3, 3], [1, 1], [1, 1], [1; 4]),
    (4, 2, [16, 24], [7, 7], [1, 1], [1, 1], [1, 1], [0; 4]),
    (2, 2, [6, 10], [9, 5], [1, 1], [2, 2], [1, 1], [0; 4]),
    (3, 6, [1, 1], [10, 12], [3, 3], [1, 1], [2, 2], [2; 4]),
    (1, 5, [1, 2], [11, 9], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 5, [1, 3], [5, 5], [5, 5], [2, 1], [1, 1], [2; 4]),
    (5, 7, [3, 2], [1, 1], [1, 1], [1, 1], [1, 1], [0; 4]),
    (1, 2, [4, 40], [3, 3], [3, 3], [1, 1], [1, 1], [0; 4]),
    (1, 4, [2, 2], [1, 40], [1, 5], [1, 1], [1, 4], [0, 8, 0, 8]),
    (2, 9, [1, 1], [7, 33], [3, 3], [2, 2], [2, 2], [2; 4]),
    (1, 3, [1, 1], [1, 50], [1, 3], [1, 1], [1, 8], [0, 8, 0, 8]),
    (1, 2, [1, 1], [21, 6], [5, 1], [1, 2], [4, 1], [8, 0, 8, 0]),
    (4, 4, [1, 1], [6, 6], [2, 3], [2, 1], [1, 3], [0, 3, 1, 3]),
    (2, 9, [1, 1], [11, 13], [7, 7], [1, 1], [1, 1], [3; 4]),
    (1, 3, [1, 1], [1, 37], [1, 9], [1, 2], [1, 1], [0, 4, 0, 4]),
    (1, 16, [1, 1], [10, 9], [5, 5], [1, 1], [2, 2], [4; 4]),
    (3, 2, [1, 1], [23, 7], [9, 1], [2, 1], [1, 1], [4, 0, 4, 0]),
    (1, 1, [1, 1], [4, 4], [3, 3], [1, 1], [4, 4], [4; 4]),
    (2, 5, [1, 1], [12, 3], [9, 2], [1, 2], [1, 1], [4, 0, 4, 1]),
];

/// Rows, inner size, columns.
const MATRICES: &[[usize; 3]] = &[
    [1, 1, 1],
    [1, 128, 10],
    [4, 128, 128],
    [16, 33, 17],
    [3, 20, 65],
    [2, 7, 9],
    [32, 16, 24],
    [1, 100, 100],
];

/// Matrices that each have their own on the right: how many, along several dimensions, and rows, inner size, columns.
const PAIRS: &[(&[usize], [usize; 3])] = &[
    (&[2, 3], [8, 8, 8]),
    (&[4], [5, 9, 17]),
    (&[1, 2, 2], [33, 16, 20]),
    (&[3], [1, 7, 12]),
    (&[7], [6, 3, 1]),
    (&[2], [12, 64, 40]),
    (&[5], [4, 1, 6]),
    (&[3], [16, 32, 130]),
];

/// All products.
pub(crate) fn all() -> Vec<Case> {
    let mut products = Vec::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut n = 0;
    let mut push = |what: String, op: Op, shapes: [&[usize]; 2], random: &mut Random| {
        for _ in 0..2 {
            let (a, b) = VALUES[n % 8];
            let inputs = vec![tensor(random, shapes[0], a), tensor(random, shapes[1], b)];
            let (op, inputs) = finished(n, op.clone(), inputs, random);
            products.push(Case {
                what: format!("{n}: {what}, {op}"),
                op,
                inputs,
                constant: n % 3 == 0,
            });
            n += 5;
        }
    };
    for shape in SHAPES {
        for (pass, op, [a, b]) in passes(shape) {
            push(format!("{pass} {a:?} {b:?}"), op, [&a, &b], &mut random);
        }
    }
    for &[m, k, n] in MATRICES {
        let matmul = |transpose_a, transpose_b, role| MatMul { transpose_a, transpose_b, role };
        let what = |pass: &str| format!("{pass} {m}x{k}x{n}");
        let forward = matmul(false, true, ProductRole::Forward);
        push(what("matrix forward"), forward.into(), [&[m, k], &[n, k]], &mut random);
        let error = matmul(false, false, ProductRole::Error);
        push(what("matrix error"), error.into(), [&[m, k], &[k, n]], &mut random);
        let gradient = matmul(true, false, ProductRole::Gradient);
        push(what("matrix gradient"), gradient.into(), [&[m, k], &[m, n]], &mut random);
    }
    for (count, [m, k, n]) in PAIRS {
        for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true)] {
            let matrices = |transposed: bool, [rows, columns]: [usize; 2]| {
                [*count, &if transposed { [columns, rows] } else { [rows, columns] }].concat()
            };
            let [a, b] = [matrices(transpose_a, [*m, *k]), matrices(transpose_b, [*k, *n])];
            let matmul = MatMul { transpose_a, transpose_b, role: ProductRole::Forward };
            push(format!("matrices {a:?} by {b:?}"), matmul.into(), [&a, &b], &mut random);
        }
    }
    let halving = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
    let shift = ShiftRight { amount: 6, rounding: Rounding::HalfAway, element: Element::I8 };
    for (n, shape) in SPARSE.iter().enumerate() {
        let [forward, error, _] = passes(shape);
        for (pass, op, [operand, w]) in [forward, error] {
            for finish in [Op::from(halving.clone()), shift.clone().into()] {
                let (a, b) = VALUES[n % 4];
                products.push(Case {
                    what: format!("sparse {pass} {operand:?} {w:?}, {finish}"),
                    op: Chain { ops: vec![op.clone(), finish] }.into(),
                    inputs: vec![tensor(&mut random, &operand, a), tensor(&mut random, &w, b)],
                    constant: n % 2 == 0,
                });
            }
        }
    }
    grouped(&mut products, &mut random);
    kept_shifts(&mut products, &mut random);
    updates(&mut products, &mut random);
    products.extend((1..=16).map(ties));
    products
}

/// Sums of channels in groups, of all passes.
fn grouped(products: &mut Vec<Case>, random: &mut Random) {
    for (n, shape) in GROUPS.iter().enumerate() {
        for (pass, op, shapes) in passes(shape) {
            for (a, b) in [VALUES[0], VALUES[1 + n % 7]] {
                products.push(Case {
                    what: format!("groups {pass} {:?} {:?}", shapes[0], shapes[1]),
                    op: op.clone(),
                    inputs: vec![tensor(random, &shapes[0], a), tensor(random, &shapes[1], b)],
                    constant: n % 3 == 0,
                });
            }
        }
    }
}

/// What a pass is called, its operation and its operands' shapes.
type PassOf = (&'static str, Op, [Vec<usize>; 2]);

/// The three passes of a convolution.
fn passes(&(images, groups, [c, o], size, taps, strides, dilations, pads): &Shape) -> [PassOf; 3] {
    let x = vec![images, groups * c, size[0], size[1]];
    let w = vec![groups * o, c, taps[0], taps[1]];
    let forward = Conv2d { strides, pads, dilations, groups };
    let y = forward.infer_shape(&x, &w).unwrap_or_else(|| panic!("{x:?} {w:?} do not fit"));
    let y = y.to_vec();
    let error = Conv2dGradientInput { strides, pads, dilations, groups, input_size: size };
    let gradient = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: taps };
    [
        ("forward", forward.into(), [x.clone(), w.clone()]),
        ("error", error.into(), [y.clone(), w]),
        ("gradient", gradient.into(), [x, y]),
    ]
}

/// Sums that lie halfway between results of either sign, and one beside, whose largest is shifted by so many bits.
fn ties(shift: i32) -> Case {
    const WIDTH: i32 = 128;
    const OUTPUTS: i32 = 12;
    let halfway = |place: i32| place.min(126) * (1 << shift) + (1 << (shift - 1));
    // So many channels by 127, the rest of it, and what lies beside.
    let whole = (halfway(WIDTH) / 127 + 126) / 127;
    let channels = whole + 2;
    let x = |channel: i32, place: i32| match channel - whole {
        0 => halfway(place) % 127,
        1 => 1,
        _ => (halfway(place) / 127 - 127 * channel).clamp(0, 127),
    };
    let w = |output: i32, channel: i32| {
        let sign = if output % 2 == 0 { 1 } else { -1 };
        match channel - whole {
            0 => sign,
            1 => output / 2 % 3 - 1,
            _ => 127 * sign,
        }
    };
    let x = (0..channels).flat_map(|channel| (0..WIDTH).map(move |place| x(channel, place) as i8));
    let w =
        (0..OUTPUTS).flat_map(|output| (0..channels).map(move |channel| w(output, channel) as i8));
    let [x, w] = [x.collect(), w.collect()];
    let conv = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    let round = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
    let [channels, width, outputs] = [channels, WIDTH, OUTPUTS].map(|size| size as usize);
    Case {
        what: format!("halfway between results by a shift of {shift}"),
        op: Chain { ops: vec![conv.into(), round.into()] }.into(),
        inputs: vec![
            Tensor::i8_shared([1, channels, width / 16, 16], x, -3),
            Tensor::i8_shared([outputs, channels, 1, 1], w, -7),
        ],
        constant: shift % 2 == 0,
    }
}

/// Gradients of weights, of few images and of more, which are subtracted from the weights.
fn updates(products: &mut Vec<Case>, random: &mut Random) {
    let (transpose_a, transpose_b, role) = (true, false, ProductRole::Gradient);
    let product = MatMul { transpose_a, transpose_b, role };
    // The last: of so many weights that threads share them.
    for (n, images) in (1..=5).chain(1..=5).chain([1]).enumerate() {
        let [rows, lanes] = [[7, 13], [12, 40], [1, 3], [9, 67], [5, 4], [131, 601]][n / 2];
        let rounding = [Rounding::PseudoStochastic, Rounding::HalfAway][n % 2];
        let ops = vec![
            product.clone().into(),
            QuantizeGradient { rounding }.into(),
            SaturatingSubtractFrom {}.into(),
        ];
        let bits = [5, 7, 3, 0][n % 4];
        let [a, b] = [0, 3].map(|from| VALUES[(n + from) % 8].0);
        products.push(Case {
            what: format!("update {n}: {rows}x{lanes} of {images}, {rounding:?} to {bits} bits"),
            op: Chain { ops }.into(),
            inputs: vec![
                tensor(random, &[images, rows], a),
                tensor(random, &[images, lanes], b),
                Tensor::i32([], vec![bits]),
                tensor(random, &[rows, lanes], VALUES[n % 8].1),
            ],
            constant: n % 3 == 0,
        });
    }
}

/// Products that are shifted by what is kept, in steps that look at the width of the sums and in others.
fn kept_shifts(products: &mut Vec<Case>, random: &mut Random) {
    use Rounding::{HalfAway, PseudoStochastic};
    let mut n = 0;
    let mut push = |op: Op, shapes: [&[usize]; 2]| {
        for _ in 0..2 {
            let (bits, low) = [(7, -127), (7, 0), (4, -127)][n % 3];
            let rounding = if n % 5 == 4 { PseudoStochastic } else { HalfAway };
            // Looks, then kept shifts: of sums, of none, past the width.
            let (left, shift) =
                [(0.0, 3.0), (1.0, 8.0), (2.0, 0.0), (-1.0, 0.0), (9.0, 40.0)][n % 5];
            let state = Tensor::f32([5], vec![left, shift, 1.0, 1.0, 0.0]);
            let finish = RequantizeAdaptive { bits, rounding, low };
            let (a, b) = VALUES[n % 8];
            products.push(Case {
                what: format!("kept {n}: {op}, {finish:?}, {left} left"),
                op: Chain { ops: vec![op.clone(), finish.into()] }.into(),
                inputs: vec![tensor(random, shapes[0], a), tensor(random, shapes[1], b), state],
                constant: n % 3 == 0,
            });
            n += 1;
        }
    };
    for &(images, groups, [c, o], size, taps, strides, dilations, pads) in
        SHAPES.iter().chain(SPARSE)
    {
        let x = [images, groups * c, size[0], size[1]];
        let w = [groups * o, c, taps[0], taps[1]];
        let forward = Conv2d { strides, pads, dilations, groups };
        let y =
            forward.clone().infer_shape(&x, &w).unwrap_or_else(|| panic!("{x:?} {w:?} do not fit"));
        push(forward.into(), [&x, &w]);
        let error = Conv2dGradientInput { strides, pads, dilations, groups, input_size: size };
        push(error.into(), [&y, &w]);
        let gradient = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: taps };
        push(gradient.into(), [&x, &y]);
    }
    for &[m, k, n] in MATRICES {
        let matmul = |transpose_a, transpose_b, role| MatMul { transpose_a, transpose_b, role };
        push(matmul(false, true, ProductRole::Forward).into(), [&[m, k], &[n, k]]);
        push(matmul(false, false, ProductRole::Forward).into(), [&[m, k], &[k, n]]);
        push(matmul(true, false, ProductRole::Forward).into(), [&[k, m], &[k, n]]);
    }
}

pub(crate) trait InferShape {
    /// Shape of the result.
    fn infer_shape(&self, x: &[usize], w: &[usize]) -> Option<Vec<usize>>;
}

impl InferShape for Conv2d {
    fn infer_shape(&self, x: &[usize], w: &[usize]) -> Option<Vec<usize>> {
        let [x, w] = [x, w].map(|shape| TensorType::shared(shape, Element::I8));
        let y = Op::from(self.clone()).infer(&[&x, &w]).ok()?;
        Some(y[0].shape.to_vec())
    }
}
