//! Convolutions of quantized inference on XpulpV2: the 27 combinations of 8, 4 and 2 bits, and shapes and values that tiles do
//! not fit, bit-identical to the interpreter: natively in the portable form under sanitizers, and in the simulator.

use std::path::{Path, PathBuf};

use trainc_ir::ops::{Chain, IntegerAdd, IntegerMaxPool2d, IntegerSumPool2d, ScaleShift};
use trainc_ir::target::Target;
use trainc_ir::{Element, Op, Tensor, TensorType};
use trainc_tests::random::Random;
use trainc_tests::xpulp_convolutions::{Shape, combinations, convolution, tensor};
use trainc_tests::xpulp_kernels::{Case, check_natively, simulate, source};
use trainc_xpulpv2::XPULPV2;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("xpulp_kernels").join(name)
}

fn check(name: &str, cases: &[Case]) {
    check_natively(&folder(&format!("{name}-native")), cases);
    simulate(&folder(&format!("{name}-simulated")), cases, true);
}

#[test]
fn the_reference_layer_of_all_27() {
    let mut random = Random(27);
    let all: Vec<Case> = combinations()
        .into_iter()
        .map(|elements| convolution(&Shape::reference(), elements, false, true, &mut random))
        .collect();
    check_natively(&folder("reference-native"), &all);
    let shared = simulate(&folder("reference-simulated"), &all, true);
    for (case, measured) in all.iter().zip(shared) {
        // What PULP-NN's own kernel of 8-bit weights takes on one core, eight times as fast.
        assert!(measured.parallel_cycles < 2_577_980 / 8, "{}: {measured:?}", case.what);
        let inputs: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
        let outputs = case.op.infer(&inputs).expect("the case is well typed");
        let outputs: Vec<&TensorType> = outputs.iter().collect();
        let estimate = Target::cost(&XPULPV2, &case.op, &inputs, &outputs).cycles();
        let estimate = estimate.expect("the target runs it") as f64;
        let off = (estimate / measured.cycles as f64 - 1.0).abs();
        assert!(off < 0.02, "{}: estimate {estimate}, {measured:?}", case.what);
    }
}

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

#[test]
fn odd_shapes_with_constant_weights() {
    for (part, cases) in odd(&odd_shapes(), true, 5).chunks(54).enumerate() {
        check(&format!("odd-{part}"), cases);
    }
}

#[test]
fn weights_that_are_no_constants_and_channel_groups() {
    let mut shapes = odd_shapes();
    shapes.truncate(10);
    let grouped = |x, filters, groups| Shape { groups, ..Shape::three(x, filters) };
    shapes.push(grouped([1, 5, 6, 8], 12, 4));
    shapes.push(grouped([2, 4, 5, 7], 7, 7));
    shapes.push(Shape { padded: true, ..grouped([1, 6, 6, 16], 16, 16) });
    for (part, cases) in odd(&shapes, false, 9).chunks(60).enumerate() {
        check(&format!("direct-{part}"), cases);
    }
}

#[test]
fn depthwise_convolutions() {
    let depthwise = |x: [usize; 4]| Shape { groups: x[3], ..Shape::three(x, x[3]) };
    let shapes = [
        depthwise([1, 8, 8, 16]),
        depthwise([2, 5, 7, 12]),
        Shape { strides: [2, 2], ..depthwise([1, 9, 9, 8]) },
        Shape { dilations: [1, 2], ..depthwise([1, 7, 9, 8]) },
        Shape { pads: [0; 4], kernel: [5, 3], ..depthwise([1, 9, 9, 20]) },
        Shape { padded: true, ..depthwise([1, 5, 6, 10]) },
        depthwise([1, 3, 3, 5]),
    ];
    for (part, cases) in odd(&shapes, true, 31).chunks(70).enumerate() {
        check(&format!("depthwise-{part}"), cases);
    }
}

/// Operands that come to the cluster's memory piece by piece: strips of rows, pieces of the weights.
#[test]
fn layers_that_do_not_fit() {
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
    let cases: Vec<Case> = all
        .into_iter()
        .map(|(shape, elements)| convolution(&shape, elements, false, true, &mut random))
        .collect();
    for case in &cases {
        let (text, _) = source(std::slice::from_ref(case));
        assert!(text.contains("uint8_t *const l1 = TRAINC_L1"), "{}", case.what);
    }
    check("pieces", &cases);
}

#[test]
fn max_pools() {
    let mut random = Random(41);
    let pools = [
        ([2, 6, 8, 8], [2, 2], [2, 2], [0; 4]),
        ([1, 7, 5, 4], [3, 3], [2, 2], [1; 4]),
        ([1, 5, 9, 12], [3, 2], [1, 3], [1, 0, 2, 1]),
    ];
    let mut cases = Vec::new();
    for (x, kernel, strides, pads) in pools {
        for element in [Element::U8, Element::I8] {
            let op = Op::IntegerMaxPool2d(IntegerMaxPool2d { kernel, strides, pads });
            let what = format!("{op} of {x:?} {element}");
            let inputs = vec![tensor(&x, element, &mut random)];
            cases.push(Case { what, op, inputs, constant: false });
        }
    }
    check("pools", &cases);
}

/// What has no kernel of the target's own runs in loops.
#[test]
fn sum_pools_and_sums() {
    let mut random = Random(43);
    let mut cases = Vec::new();
    for element in [Element::U8, Element::U4, Element::U2, Element::I8] {
        let scale_shift = |channels: usize| {
            let stage = ScaleShift { shift: 8, low: 0, high: 255, element: Element::U8 };
            let vectors = [vec![70; channels], (0..channels as i32).collect()];
            (Op::ScaleShift(stage), vectors.map(|v| Tensor::i32([channels], v)))
        };
        let x = [1, 6, 6, 5];
        let pool =
            IntegerSumPool2d { kernel: [3, 3], strides: [2, 1], pads: [1, 0, 1, 0], padding: 1 };
        let (stage, [scale, offset]) = scale_shift(5);
        let op = Op::Chain(Chain { ops: vec![Op::IntegerSumPool2d(pool), stage.clone()] });
        let what = format!("{op} of {element}");
        let inputs = vec![tensor(&x, element, &mut random), scale.clone(), offset.clone()];
        cases.push(Case { what, op, inputs, constant: false });
        let add = Op::IntegerAdd(IntegerAdd { factors: [300, -17] });
        let op = Op::Chain(Chain { ops: vec![add, stage] });
        let what = format!("{op} of {element}");
        let two = [Element::I4, element].map(|element| tensor(&x, element, &mut random));
        let inputs = two.into_iter().chain([scale, offset]).collect();
        cases.push(Case { what, op, inputs, constant: false });
    }
    check("loops", &cases);
}
