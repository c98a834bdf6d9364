//! Quantized inference in packed integers: convolutions of 8, 4 and 2 bits in all combinations, pools and additions with
//! their output stages, of shapes and values that tiles, words and strips do not fit.

use trainc_ir::ops::{
    Chain, IntegerAdd, IntegerMaxPool2d, IntegerSumPool2d, ScaleShift, Threshold,
};
use trainc_ir::tensor::ScaleData;
use trainc_ir::{Element, Op, Tensor, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;
use trainc_tests::xpulp_convolutions::{Shape, combinations, convolution, tensor};

/// Shapes that tiles of 4 by 4, words and strips do not fit.
fn odd_shapes() -> Vec<Shape> {
    let three = Shape::three;
    let strided = |x, filters, stride| Shape { strides: [stride; 2], ..three(x, filters) };
    vec![
        three([1, 5, 7, 8], 9),
        three([2, 5, 5, 16], 6),
        three([1, 3, 3, 16], 5),
        three([1, 4, 2, 4], 4),
        three([3, 6, 6, 3], 7),
        three([1, 7, 5, 1], 10),
        Shape { padded: true, ..three([1, 5, 6, 12], 8) },
        Shape { padded: true, ..three([2, 5, 6, 5], 4) },
        strided([2, 9, 9, 8], 8, 2),
        strided([1, 11, 8, 6], 12, 3),
        Shape { pads: [0; 4], ..three([2, 6, 7, 16], 8) },
        Shape { pads: [2, 0, 1, 3], kernel: [2, 4], ..three([1, 6, 6, 8], 8) },
        Shape { dilations: [2, 1], ..three([1, 8, 6, 8], 8) },
        Shape { dilations: [1, 2], ..three([1, 6, 9, 8], 8) },
        Shape { kernel: [5, 5], pads: [2; 4], ..three([1, 8, 8, 4], 3) },
        Shape::one([2, 3, 5, 16], 12),
        Shape::one([1, 4, 4, 10], 5),
        Shape::one([1, 1, 1, 64], 10),
        Shape::one([1, 1, 1, 33], 16),
        Shape::one([5, 1, 1, 24], 10),
        Shape::one([1, 2, 3, 1100], 4),
        Shape::one([1, 2, 2, 16], 1),
        // More than one strip.
        three([1, 40, 12, 64], 4),
        three([1, 13, 70, 16], 4),
    ]
}

fn odd(shapes: &[Shape], constant: bool, seed: u64) -> Vec<Case> {
    let mut random = Random(seed);
    let mut cases = Vec::new();
    for (n, elements) in combinations().into_iter().enumerate() {
        for (m, shape) in shapes.iter().enumerate() {
            // Each shape meets each weight; signed operands, sums and flips in turn.
            if (n + m) % 3 != 0 {
                continue;
            }
            let [mut x, w, mut y] = elements;
            let signed = |element| match element {
                Element::U8 => Element::I8,
                Element::U4 => Element::I4,
                _ => Element::I2,
            };
            let choice = random.next();
            if choice & 1 == 1 {
                x = signed(x);
            }
            match choice >> 1 & 3 {
                0 => y = signed(y),
                1 if n % 3 == 0 => y = Element::I32,
                _ => {}
            }
            cases.push(convolution(shape, [x, w, y], choice & 8 != 0, constant, &mut random));
        }
    }
    cases
}

/// Convolutions: with constant weights, with weights that are none, in groups of channels, depthwise.
pub(crate) fn convolutions() -> Vec<Case> {
    let mut all = odd(&odd_shapes(), true, 5);
    let mut shapes = odd_shapes();
    shapes.truncate(10);
    let grouped = |x, filters, groups| Shape { groups, ..Shape::three(x, filters) };
    shapes.push(grouped([1, 5, 6, 8], 12, 4));
    shapes.push(grouped([2, 4, 5, 7], 7, 7));
    shapes.push(Shape { padded: true, ..grouped([1, 6, 6, 16], 16, 16) });
    all.extend(odd(&shapes, false, 9));
    let depthwise = |x: [usize; 4]| Shape { groups: x[3], ..Shape::three(x, x[3]) };
    let shapes = [
        depthwise([1, 8, 8, 16]),
        depthwise([2, 5, 7, 12]),
        Shape { strides: [2, 2], ..depthwise([1, 9, 9, 8]) },
        Shape { dilations: [1, 2], ..depthwise([1, 7, 9, 8]) },
        Shape { pads: [0; 4], kernel: [5, 3], ..depthwise([1, 9, 9, 20]) },
        Shape { padded: true, ..depthwise([1, 5, 6, 10]) },
        depthwise([1, 3, 3, 5]),
        // Rows of whole words.
        depthwise([1, 6, 8, 4]),
        depthwise([2, 4, 16, 12]),
    ];
    all.extend(odd(&shapes, true, 31));
    all
}

/// Operands that come to the cluster's memory piece by piece: strips of rows, pieces of the weights.
pub(crate) fn large() -> Vec<Case> {
    let mut random = Random(51);
    let three = Shape::three;
    let wide = Shape { padded: true, ..three([2, 24, 24, 32], 40) };
    let down = Shape { strides: [2, 2], ..three([1, 41, 40, 64], 9) };
    let depthwise = Shape { groups: 48, ..three([1, 40, 40, 48], 48) };
    let dilated = Shape { dilations: [2, 1], pads: [2, 1, 2, 1], ..three([1, 30, 37, 72], 6) };
    use Element::{I2, I4, I8, I32, U2, U4, U8};
    let all = [
        (three([1, 40, 40, 64], 8), [U8, I8, U8]),
        (wide.clone(), [U8, I4, U4]),
        (wide, [U4, I8, U8]),
        (down, [U8, I2, U2]),
        (three([1, 20, 20, 64], 46), [U8, I8, U8]),
        (three([1, 20, 20, 60], 46), [U8, I8, I32]),
        (Shape::one([2, 20, 20, 128], 16), [U8, I8, U8]),
        (Shape::one([1, 1, 1, 2048], 66), [I8, I8, I8]),
        (Shape::one([3, 1, 1, 4096], 40), [U4, I4, U4]),
        (depthwise, [U8, I8, U8]),
        (dilated, [U8, I8, U4]),
    ];
    all.into_iter()
        .map(|(shape, elements)| convolution(&shape, elements, false, true, &mut random))
        .collect()
}

/// Rows and columns of an operand; window, strides and places beyond the edges.
type Pool = ([usize; 2], [usize; 2], [usize; 2], [usize; 4]);

/// Odd ones.
const POOLS: [Pool; 5] = [
    ([6, 8], [2, 2], [2, 2], [0; 4]),
    ([7, 5], [3, 3], [2, 2], [1; 4]),
    ([5, 9], [3, 2], [1, 3], [1, 0, 2, 1]),
    ([7, 7], [7, 7], [7, 7], [0; 4]),
    ([4, 3], [1, 4], [3, 1], [0, 3, 0, 2]),
];

const NARROW: [Element; 6] =
    [Element::U8, Element::I8, Element::U4, Element::I4, Element::U2, Element::I2];

fn all_of(x: &[usize], element: Element, value: i64) -> Tensor {
    let ty = TensorType::new(x.to_vec(), element);
    let values = vec![value; ty.count()];
    Tensor::from_i64(&ty, &values, ScaleData::None)
}

/// A random operand, or one of an extreme everywhere.
fn operand(x: &[usize], element: Element, random: &mut Random) -> Tensor {
    let (low, high) = element.integer_range().expect("an integer element");
    match random.next() % 6 {
        0 => all_of(x, element, low),
        1 => all_of(x, element, high),
        _ => tensor(x, element, random),
    }
}

/// Pools and sums, with every output stage.
pub(crate) fn pools_and_additions() -> Vec<Case> {
    [max_pools(), additions(), sum_pools()].concat()
}

fn max_pools() -> Vec<Case> {
    let mut random = Random(41);
    let mut cases = Vec::new();
    for (n, ([height, width], kernel, strides, pads)) in POOLS.into_iter().enumerate() {
        for element in NARROW {
            // Channels of words, halves and bytes; then such that places share bytes, which run in loops.
            for channels in [[16, 6], [8, 5], [4, 12], [6, 32], [5, 4]][n] {
                let x = [1 + n % 2, height, width, channels];
                let op = Op::IntegerMaxPool2d(IntegerMaxPool2d { kernel, strides, pads });
                let what = format!("{op} of {x:?} {element}");
                let inputs = vec![operand(&x, element, &mut random)];
                cases.push(Case { what, op, inputs, constant: false });
            }
        }
    }
    cases
}

/// Output stages for sums of up to so many levels: none, 8 bits with every kind of bounds, 2, 4 and 8 bits by
/// thresholds.
fn stages(channels: usize, most: i64, random: &mut Random) -> Vec<(Option<Op>, Vec<Tensor>)> {
    let mut all = vec![(None, vec![])];
    let mut vector = |low: i64, high: i64| {
        let values = (0..channels).map(|_| random.between(low, high) as i32).collect();
        Tensor::i32([channels], values)
    };
    for (element, low, high) in [
        (Element::U8, 0, 255),
        (Element::I8, -128, 127),
        (Element::U8, 3, 250),
        (Element::I4, -7, 7),
    ] {
        let scale = (1i64 << 20) / most;
        let stage = Op::ScaleShift(ScaleShift { shift: 12, low, high, element });
        all.push((Some(stage), vec![vector(-scale, scale), vector(-(60 << 12), 200 << 12)]));
    }
    // Products that wrap.
    let stage = Op::ScaleShift(ScaleShift { shift: 0, low: 0, high: 127, element: Element::I8 });
    all.push((Some(stage), vec![vector(i64::from(i32::MIN), i64::from(i32::MAX)); 2]));
    for element in [Element::U2, Element::I2, Element::U4, Element::I4, Element::U8] {
        let (low, high) = element.integer_range().expect("an integer element");
        let levels = (high - low) as usize;
        let rows: Vec<i32> = (0..channels)
            .flat_map(|channel| {
                let mut row: Vec<i32> =
                    (0..levels).map(|_| random.between(-most, most) as i32).collect();
                match channel % 4 {
                    1 => row[0] = i32::MIN,
                    2 => row[levels - 1] = i32::MAX,
                    _ => {}
                }
                row.sort_unstable();
                row
            })
            .collect();
        let rows = Tensor::i32([channels, levels], rows);
        let stage = Op::Threshold(Threshold { low: low as i32, element });
        all.push((Some(stage.clone()), vec![rows.clone()]));
        let flips = (0..channels).map(|_| -((random.next() % 2) as i32)).collect();
        all.push((Some(stage), vec![rows, Tensor::i32([channels], flips)]));
    }
    all
}

fn staged(head: Op, stage: Option<Op>) -> Op {
    match stage {
        None => head,
        Some(stage) => Op::Chain(Chain { ops: vec![head, stage] }),
    }
}

fn additions() -> Vec<Case> {
    let mut random = Random(47);
    let mut cases = Vec::new();
    let factors = [[1, 1], [300, -17], [1, 0], [0, 5], [i32::MIN, i32::MAX], [-3, 1]];
    for (n, a) in NARROW.into_iter().enumerate() {
        for (m, b) in NARROW.into_iter().enumerate() {
            // Places of one vector, of an image, and channels that are no multiple of four.
            for x in [vec![1, 3, 5, 8], vec![2, 20], vec![1, 2, 2, 7]] {
                let channels = x[x.len() - 1];
                for (k, (stage, operands_of_stage)) in
                    stages(channels, 1000, &mut random).into_iter().enumerate()
                {
                    if (5 * n + m + k) % 15 != 0 {
                        continue;
                    }
                    let factors = factors[random.next() as usize % factors.len()];
                    let op = staged(Op::IntegerAdd(IntegerAdd { factors }), stage);
                    let mut inputs = [a, b].map(|e| operand(&x, e, &mut random)).to_vec();
                    inputs.extend(operands_of_stage);
                    let what = format!("{op} of {x:?} {a} {b}");
                    cases.push(Case { what, op, inputs, constant: false });
                }
            }
        }
    }
    cases
}

fn sum_pools() -> Vec<Case> {
    let mut random = Random(43);
    let mut cases = Vec::new();
    for (n, ([height, width], kernel, strides, pads)) in POOLS.into_iter().enumerate() {
        for (m, element) in NARROW.into_iter().enumerate() {
            for channels in [8, 12, 5] {
                let x = [1 + n % 2, height, width, channels];
                let (low, high) = element.integer_range().expect("an integer element");
                for (k, (stage, operands_of_stage)) in
                    stages(channels, high * 16, &mut random).into_iter().enumerate()
                {
                    if (5 * n + m + k) % 8 != 0 {
                        continue;
                    }
                    let padding = random.between(low, high) as i32;
                    let pool = IntegerSumPool2d { kernel, strides, pads, padding };
                    let op = staged(Op::IntegerSumPool2d(pool), stage);
                    let what = format!("{op} of {x:?} {element}");
                    let mut inputs = vec![operand(&x, element, &mut random)];
                    inputs.extend(operands_of_stage);
                    cases.push(Case { what, op, inputs, constant: false });
                }
            }
        }
    }
    cases
}
