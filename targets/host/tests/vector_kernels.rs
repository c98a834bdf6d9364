//! Operations as programs run them, by vector kernels where there are any, against their meaning, bit for bit.

mod common;

use common::Random;
use common::program::{ProgramBuilder, assert_bits};
use trainc_host::HostProgram;
use trainc_ir::graph::InputRole;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul, ProductRole,
    QuantizeGradient, Relu, Requantize, ShiftRight,
};
use trainc_ir::program::Program;
use trainc_ir::{Element, Op, OpKind, RunContext, Tensor, TensorType, Verified};

const RUN: RunContext = RunContext { seed: 0x1234_5678_9abc_def0, step: 3 };

/// A program of one operation.
fn program(op: &Op, inputs: &[&TensorType]) -> Verified<Program> {
    let mut b = ProgramBuilder::new("one");
    let operands: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, &ty)| b.input(&format!("x{i}"), ty.clone(), InputRole::Data))
        .collect();
    let results = op.infer(inputs).expect("the operands fit");
    let outputs: Vec<_> =
        results.into_iter().enumerate().map(|(i, ty)| b.output(&format!("y{i}"), ty)).collect();
    b.op_into(op.clone(), &operands, &outputs);
    b.entry("infer");
    b.finish()
}

fn check(place: &str, op: &Op, inputs: &[&Tensor]) {
    let types: Vec<&TensorType> = inputs.iter().map(|t| t.ty()).collect();
    let program = program(op, &types);
    let expected = op.evaluate(inputs, &RUN);
    for (form, compiled) in [
        ("vector", HostProgram::compile(&program)),
        ("loops", HostProgram::compile_generic(&program)),
    ] {
        let mut compiled = compiled.unwrap_or_else(|e| panic!("{place}, {form}: {e}"));
        let found = compiled.run("infer", inputs, &RUN).expect("the operands are the entry's");
        assert_bits(&format!("{place}, {form}: {op}"), &expected, &found);
    }
}

#[test]
fn cases_of_every_operation() {
    for &kind in OpKind::ALL {
        for (i, case) in kind.cases().iter().enumerate() {
            check(
                &format!("{} case {i}", kind.name()),
                &case.op,
                &case.inputs.iter().collect::<Vec<_>>(),
            );
        }
    }
}

fn shared(shape: &[usize]) -> TensorType {
    TensorType::shared(shape, Element::I8)
}

/// Values whose sums neither overflow nor round in i32, of all magnitudes; floats that are finite.
fn operand(random: &mut Random, ty: &TensorType) -> Tensor {
    if ty.is_f32() {
        let value = |r: &mut Random| (r.next() as i32 >> 8) as f32 / 65536.0;
        return Tensor::f32(ty.shape.clone(), (0..ty.count()).map(|_| value(random)).collect());
    }
    random.tensor(ty)
}

const FINISHES: [Option<(Rounding, i8)>; 4] = [
    None,
    Some((Rounding::HalfAway, -127)),
    Some((Rounding::PseudoStochastic, 0)),
    Some((Rounding::Floor, -127)),
];

/// Each product alone, requantized, and as a weight gradient of few bits, in odd and in larger shapes.
#[test]
fn products_and_what_follows_them() {
    let mut random = Random(99);
    let shapes = [
        // batch, in, out, size, kernel, stride, pads, dilation, groups
        (2, 3, 5, [9, 7], [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),
        (3, 4, 6, [8, 8], [2, 3], [2, 1], [0, 2, 1, 0], [1, 2], 2),
        (2, 6, 6, [10, 5], [3, 3], [1, 2], [1, 1, 0, 1], [1, 1], 6),
        (1, 16, 24, [14, 14], [1, 1], [1, 1], [0, 0, 0, 0], [1, 1], 1),
        (2, 8, 40, [16, 16], [5, 5], [1, 1], [2, 2, 2, 2], [1, 1], 1),
    ];
    for (batch, cin, cout, size, kernel, strides, pads, dilations, groups) in shapes {
        let out = |i: usize| {
            let reach = dilations[i] * (kernel[i] - 1) + 1;
            (size[i] + pads[i] + pads[i + 2] - reach) / strides[i] + 1
        };
        let x = vec![batch, cin, size[0], size[1]];
        let w = vec![cout, cin / groups, kernel[0], kernel[1]];
        let y = vec![batch, cout, out(0), out(1)];
        let forward = Op::from(Conv2d { strides, pads, dilations, groups });
        let input_size = size;
        let back = Op::from(Conv2dGradientInput { strides, pads, dilations, groups, input_size });
        let kernel_size = kernel;
        let weight =
            Op::from(Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size });
        for (op, a, b) in [(forward, &x, &w), (back, &y, &w), (weight, &x, &y)] {
            all_forms(&mut random, &op, a, b);
        }
    }
    for (a, b, transpose_a, transpose_b) in [
        (vec![7, 33], vec![33, 10], false, false),
        (vec![33, 7], vec![33, 10], true, false),
        (vec![64, 100], vec![40, 100], false, true),
        (vec![100, 16], vec![40, 100], true, true),
        (vec![2, 3, 5, 6], vec![6, 4], false, false),
        (vec![2, 3, 6, 5], vec![6, 4], true, false),
        (vec![5, 6], vec![3, 6, 4], false, false),
        (vec![2, 3, 5, 6], vec![2, 3, 6, 4], false, false),
        // No constant distance between matrices: by loops.
        (vec![2, 1, 5, 6], vec![1, 3, 6, 4], false, false),
        (vec![2, 3, 5, 6], vec![3, 6, 4], false, false),
    ] {
        let op = MatMul { transpose_a, transpose_b, role: ProductRole::Forward };
        all_forms(&mut random, &op.into(), &a, &b);
    }
}

fn all_forms(random: &mut Random, op: &Op, a: &[usize], b: &[usize]) {
    let operands = [TensorType::f32(a), TensorType::f32(b)].map(|ty| operand(random, &ty));
    check("f32", op, &[&operands[0], &operands[1]]);
    let follow = Op::from(Chain { ops: vec![op.clone(), Relu {}.into()] });
    check("f32 chain", &follow, &[&operands[0], &operands[1]]);

    let operands = [shared(a), shared(b)].map(|ty| operand(random, &ty));
    let pair = [&operands[0], &operands[1]];
    for finish in FINISHES {
        let Some((rounding, low)) = finish else {
            check("i8", op, &pair);
            continue;
        };
        let requantize = Requantize { bits: 7, rounding, low };
        let chain = Chain { ops: vec![op.clone(), requantize.into()] };
        check("requantized", &chain.into(), &pair);
    }
    for (mu, rounding) in [
        (1, Rounding::PseudoStochastic),
        (5, Rounding::HalfAway),
        (-30, Rounding::PseudoStochastic),
    ] {
        let chain = Chain { ops: vec![op.clone(), QuantizeGradient { rounding }.into()] };
        let bits = Tensor::i32([], vec![mu]);
        check("gradient", &chain.into(), &[pair[0], pair[1], &bits]);
    }
}

/// A product in the middle of a chain: loops before, a vector kernel, loops behind, intermediates between.
#[test]
fn a_product_inside_a_chain() {
    let mut random = Random(5);
    let to_i8 = ShiftRight { amount: 20, rounding: Rounding::HalfAway, element: Element::I8 };
    let product = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    let requantize = Requantize { bits: 7, rounding: Rounding::PseudoStochastic, low: -127 };
    let after = ShiftRight { amount: 1, rounding: Rounding::Floor, element: Element::I8 };
    let chain = Op::from(Chain {
        ops: vec![to_i8.into(), product.into(), requantize.into(), after.into(), Relu {}.into()],
    });
    let x = random.tensor(&TensorType::shared([12, 40], Element::I32));
    let w = random.tensor(&shared(&[9, 40]));
    check("chain", &chain, &[&x, &w]);
}

/// Codes of all magnitudes but for few, which `rare` gives.
fn codes(
    random: &mut Random,
    shape: &[usize],
    exponent: i32,
    most: i32,
    rare: Option<i8>,
) -> Tensor {
    let count = shape.iter().product();
    let mut data: Vec<i8> = (0..count)
        .map(|_| (random.next() as i32).rem_euclid(2 * most + 1) - most)
        .map(|q| q as i8)
        .collect();
    if let (Some(rare), Some(last)) = (rare, data.last_mut()) {
        *last = rare;
    }
    Tensor::i8_shared(shape.to_vec(), data, exponent)
}

/// Sums that fit, that do not, and that do not but at the last element; alone and with what follows.
#[test]
fn aligned_sums() {
    use trainc_ir::ops::AlignedAdd;
    let mut random = Random(31);
    let relu = |op: Op| Op::Chain(Chain { ops: vec![op, Relu {}.into()] });
    for shape in [&[1][..], &[3, 5, 7], &[2, 3, 64, 64], &[5, 40_000]] {
        for distance in [0, 1, 2, 3, 7, 8, 15, 16, 200] {
            for (most, rare) in [(127, None), (30, None), (20, Some(-128)), (20, Some(127))] {
                let large = shape.iter().product::<usize>() > 100_000;
                if large && ![0, 1, 7].contains(&distance) {
                    continue;
                }
                let x = codes(&mut random, shape, -3, most, rare);
                let y = codes(&mut random, shape, -3 - distance, most, rare);
                for operands in [[&x, &y], [&y, &x]] {
                    check("sum", &AlignedAdd {}.into(), &operands);
                    check("sum with relu", &relu(AlignedAdd {}.into()), &operands);
                }
            }
        }
    }
}

/// Integer batch normalization and its error with their roundings, and sums of channels: planes shorter and longer than a run.
#[test]
fn planes_of_codes() {
    use trainc_ir::ops::{
        IntegerBatchNorm, IntegerBatchNormError, IntegerBatchNormSums, IntegerBatchStatistics,
        RequantizeStochastic,
    };
    let mut random = Random(32);
    let fixed = |rounding, low| -> Op { Requantize { bits: 7, rounding, low }.into() };
    let roundings = [
        fixed(Rounding::HalfAway, -127),
        fixed(Rounding::HalfAway, 0),
        fixed(Rounding::PseudoStochastic, -127),
        fixed(Rounding::Floor, -127),
        RequantizeStochastic { stream: 9 }.into(),
    ];
    for shape in
        [&[3, 5][..], &[2, 7, 2, 2], &[2, 3, 31], &[2, 3, 4, 8], &[3, 2, 1030], &[2, 64, 64, 65]]
    {
        let channels = shape[1];
        let vector = |random: &mut Random, low: f32| {
            let value = |r: &mut Random| (r.next() as i32 >> 8) as f32 * 1e-7 + low;
            Tensor::f32([channels], (0..channels).map(|_| value(random)).collect())
        };
        let x = codes(&mut random, shape, -6, 127, Some(-128));
        let dy = codes(&mut random, shape, -20, 127, Some(-128));
        let [scale, bias, mean, dscale, dbias] =
            [1.0, 0.0, 0.0, 0.0, 0.0].map(|low| vector(&mut random, low));
        let inverse = vector(&mut random, 3.0);
        for rounding in &roundings {
            let chain = |op: Op| Op::Chain(Chain { ops: vec![op, rounding.clone()] });
            let norm = chain(IntegerBatchNorm {}.into());
            check("norm", &norm, &[&x, &scale, &bias, &mean, &inverse]);
            for batch in [false, true] {
                let error = chain(IntegerBatchNormError { batch }.into());
                check("error", &error, &[&x, &dy, &scale, &mean, &inverse, &dscale, &dbias]);
            }
        }
        check("statistics", &IntegerBatchStatistics {}.into(), &[&x]);
        check("sums", &IntegerBatchNormSums {}.into(), &[&x, &dy, &mean, &inverse]);
    }
}

/// Sums of all widths, rounded by chance.
#[test]
fn sums_rounded_by_chance() {
    use trainc_ir::ops::RequantizeStochastic;
    let mut random = Random(33);
    for drop in [0, 7, 20, 25, 30] {
        let data: Vec<i32> = (0..70_001).map(|_| random.next() as i32 >> drop).collect();
        let sums = Tensor::i32_shared([data.len()], data, 5);
        check("by chance", &RequantizeStochastic { stream: 3 }.into(), &[&sums]);
    }
}

/// Clips and their gradients where bounds lie among, below and above the codes, max-pools of all elements.
#[test]
fn clips_and_pools() {
    use trainc_ir::ops::{Clip, ClipGradient, MaxPool2d, MaxPool2dGradient, ReluGradient};
    let mut random = Random(34);
    let dy = codes(&mut random, &[3000], -20, 127, Some(-128));
    let bounds = [
        [0.0, 6.0],
        [-1.0, 1.0],
        [f32::NEG_INFINITY, 6.0],
        [0.1, f32::INFINITY],
        [5.0, 1.0],
        [1.0e-45, 3.0e38],
        [0.3, 0.4],
    ];
    for exponent in [
        i32::MIN,
        -300,
        -152,
        -130,
        -40,
        -9,
        -8,
        -7,
        -6,
        -5,
        -4,
        -3,
        0,
        1,
        2,
        9,
        127,
        300,
        i32::MAX,
    ] {
        let x = codes(&mut random, &[3000], exponent, 127, Some(-128));
        for [min, max] in bounds.map(|bounds| bounds.map(trainc_ir::attributes::F32::new)) {
            check("clip", &Clip { min, max }.into(), &[&x]);
            check("clip gradient", &ClipGradient { min, max }.into(), &[&x, &dy]);
        }
        check("relu gradient", &ReluGradient {}.into(), &[&x, &dy]);
    }
    let ([kernel, strides], dilations, pads, ceil) = ([[2, 2]; 2], [1, 1], [0; 4], false);
    for shape in [[1, 2, 2, 2], [3, 5, 7, 9], [2, 3, 64, 66], [9, 1, 3, 2]] {
        let windows = [shape[0], shape[1], shape[2] / 2, shape[3] / 2];
        for element in [Element::I8, Element::U8, Element::F32] {
            let ty = |element: Element, shape: [usize; 4]| match element {
                Element::F32 => TensorType::f32(shape),
                element => TensorType::shared(shape, element),
            };
            let errors = if element == Element::F32 { element } else { Element::I8 };
            let x = operand(&mut random, &ty(element, shape));
            let dy = operand(&mut random, &ty(errors, windows));
            let pool = MaxPool2d { kernel, strides, pads, dilations, ceil };
            check("pool", &pool.into(), &[&x]);
            let gradient = MaxPool2dGradient { kernel, strides, pads, dilations, ceil };
            check("pool gradient", &gradient.into(), &[&x, &dy]);
        }
    }
}

/// Largest codes of steps that follow each other, of which the width of sums is guessed: guesses that hold, that are too small, also at the
/// last image alone, and too large.
const STEPS: [(i32, Option<i8>); 7] =
    [(100, None), (90, None), (1, None), (1, Some(-128)), (2, None), (0, None), (127, None)];

/// Products that are rounded by a shift guessed from the last step, whose sums are kept and are not.
#[test]
fn guessed_shifts() {
    let mut random = Random(35);
    let conv = |kernel: usize, groups| -> Op {
        let pad = kernel / 2;
        Conv2d { strides: [1, 1], pads: [pad; 4], dilations: [1, 1], groups }.into()
    };
    for (kernel, groups, channels, features) in [(1, 1, 8, 17), (3, 16, 16, 16), (3, 1, 24, 12)] {
        let shape = [40, channels, 48, 48];
        let w = codes(&mut random, &[features, channels / groups, kernel, kernel], -5, 127, None);
        for rounding in [Rounding::HalfAway, Rounding::PseudoStochastic] {
            let finish = Requantize { bits: 7, rounding, low: -127 };
            let op = Op::Chain(Chain { ops: vec![conv(kernel, groups), finish.into()] });
            let x = codes(&mut random, &shape, -6, 1, None);
            let program = program(&op, &[x.ty(), w.ty()]);
            let mut compiled = HostProgram::compile(&program).expect("it compiles");
            for (most, rare) in STEPS {
                let x = codes(&mut random, &shape, -6, most, rare);
                let found = compiled.run("infer", &[&x, &w], &RUN).expect("the entry's operands");
                assert_bits(&format!("{op}, {most}"), &op.evaluate(&[&x, &w], &RUN), &found);
            }
        }
    }
}

/// Likewise integer batch normalization and its error.
#[test]
fn guessed_shifts_of_planes() {
    use trainc_ir::ops::{IntegerBatchNorm, IntegerBatchNormError};
    let mut random = Random(36);
    let shape = [3, 5, 9, 7];
    let vector = |value: f32| Tensor::f32([5], vec![value; 5]);
    let [scale, bias, mean, inverse] = [1.5, 0.01, 0.25, 2.0].map(vector);
    let finish = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
    let chain = |op: Op| Op::Chain(Chain { ops: vec![op, finish.clone().into()] });
    let still = codes(&mut random, &shape, -6, 100, None);
    let (norm, error) =
        (chain(IntegerBatchNorm {}.into()), chain(IntegerBatchNormError { batch: false }.into()));
    let compile = |op: &Op, inputs: &[&Tensor]| {
        let types: Vec<&TensorType> = inputs.iter().map(|input| input.ty()).collect();
        HostProgram::compile(&program(op, &types)).expect("it compiles")
    };
    let of_norm = [&still, &scale, &bias, &mean, &inverse];
    let of_error = [&still, &still, &scale, &mean, &inverse, &bias, &bias];
    let mut compiled = [compile(&norm, &of_norm), compile(&error, &of_error)];
    for (most, rare) in STEPS {
        let x = codes(&mut random, &shape, -6, most, rare);
        let (mut of_norm, mut of_error) = (of_norm, of_error);
        (of_norm[0], of_error[1]) = (&x, &x);
        let cases: [(&Op, &[&Tensor]); 2] = [(&norm, &of_norm), (&error, &of_error)];
        for (compiled, (op, inputs)) in compiled.iter_mut().zip(cases) {
            let found = compiled.run("infer", inputs, &RUN).expect("the entry's operands");
            assert_bits(&format!("{op}, {most}"), &op.evaluate(inputs, &RUN), &found);
        }
    }
}
