//! Loops on vectors and loops of quotients, at sizes with and without a rest, on extremes, beside the operations' meaning.

use trainc_hvx::lower;
use trainc_ir::attributes::F32;
use trainc_ir::ops::{
    IntegerBatchNorm, IntegerBatchNormError, InverseDeviation, NormalizedUpdate, QuantizeExponent,
    RequantizeStochastic,
};
use trainc_ir::{Op, RunContext, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check};

/// Each operation's kernel on its operands.
fn run(name: &str, cases: Vec<(Op, Vec<Tensor>)>) {
    let context = RunContext::default();
    let mut image = Image::default();
    let mut text = String::new();
    for (at, (op, operands)) in cases.iter().enumerate() {
        let operands: Vec<&Tensor> = operands.iter().collect();
        let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
        let results = op.infer(&types).expect("the case types");
        let meaning = op.evaluate(&operands, &context);
        let kernel = lower(op, &types, &results.iter().collect::<Vec<_>>());
        let symbol = format!("kernel{at}");
        let what = format!("{at}: {op}");
        image.kernel(&symbol, &what, &kernel, &operands, &meaning, &context);
        text.push_str(&assembly(&symbol, &kernel));
    }
    let packets = check(&folder(name), &image, &text);
    println!("{name}: {packets} packets of {} kernels", cases.len());
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::f32([values.len()], values.to_vec())
}

/// Numbers near the ends of the range, zeros, and what is no number.
const EXTREMES: [f32; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.999_999_9,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1.0e-40,
    f32::from_bits(1),
    f32::MAX,
    f32::MIN,
    3.0e-31,
    1.0e-30,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    7.5,
];

#[test]
fn sums_rounded_by_chance() {
    let mut random = Random(41);
    let mut cases = Vec::new();
    for (at, count) in [128usize, 129, 300, 384, 515].into_iter().enumerate() {
        for drop in [25u32, 24, 23, 12, 1, 0] {
            let mut values: Vec<i32> =
                (0..count).map(|_| (random.next() >> 32) as i32 >> drop).collect();
            // The greatest sums, with and without the least one, of which the magnitude takes a bit more.
            match drop {
                0 => values[..4].copy_from_slice(&[i32::MAX, i32::MAX - 3, i32::MIN, i32::MAX]),
                1 => values[..3].copy_from_slice(&[i32::MAX, -i32::MAX, i32::MAX]),
                _ => {}
            }
            let op = RequantizeStochastic { stream: at as u32 };
            cases.push((op.into(), vec![Tensor::i32_shared([count], values, -3)]));
        }
    }
    run("sums_rounded_by_chance", cases);
}

#[test]
fn quotients_of_groups() {
    let mut random = Random(43);
    let mut cases: Vec<(Op, Vec<Tensor>)> = Vec::new();
    let ordinary = |random: &mut Random, count: usize| -> Vec<f32> {
        (0..count).map(|_| ((random.next() >> 40) as f32 - 8.0e6) * 1.0e-7).collect()
    };
    for count in [3usize, 4, 5, 12, 37, 131] {
        for greatest in [1.0f32, 2.0 - f32::EPSILON, 3.0e38, 1.0e-38, 1.0e-42, 6.0e-20, 0.0] {
            for extremes in [false, true] {
                let w = ordinary(&mut random, count);
                let mut g: Vec<f32> =
                    ordinary(&mut random, count).into_iter().map(|x| x * greatest).collect();
                g[count / 2] = greatest;
                if extremes {
                    for (to, from) in g.iter_mut().zip(EXTREMES) {
                        let kept = from.abs() <= greatest || !from.is_finite();
                        *to = if kept { from } else { *to };
                    }
                }
                let bits = Tensor::i32([], vec![(count % 8) as i32]);
                let operands = vec![vector(&w), vector(&g), bits];
                cases.push((NormalizedUpdate {}.into(), operands));
            }
        }
        let mut variances: Vec<f32> =
            ordinary(&mut random, count).into_iter().map(f32::abs).collect();
        let inverse = |epsilon: f32| InverseDeviation { epsilon: F32::new(epsilon), batch: true };
        cases.push((inverse(1.0e-5).into(), vec![vector(&variances)]));
        for (to, from) in variances.iter_mut().zip(EXTREMES) {
            *to = from;
        }
        cases.push((inverse(0.0).into(), vec![vector(&variances)]));
        cases.push((inverse(1.0e-3).into(), vec![vector(&variances)]));
    }
    run("quotients_of_groups", cases);
}

#[test]
fn greatest_magnitudes() {
    let mut cases: Vec<(Op, Vec<Tensor>)> = Vec::new();
    for count in [32usize, 33, 64, 100] {
        for only in [f32::NAN, -f32::NAN, f32::NEG_INFINITY, -0.0, -f32::from_bits(3)] {
            let mut values = vec![only; count];
            cases.push((QuantizeExponent {}.into(), vec![vector(&values)]));
            cases.push((
                NormalizedUpdate {}.into(),
                vec![vector(&vec![0.5; count]), vector(&values), Tensor::i32([], vec![5])],
            ));
            values[count - 1] = -2.5;
            cases.push((
                NormalizedUpdate {}.into(),
                vec![vector(&vec![0.5; count]), vector(&values), Tensor::i32([], vec![5])],
            ));
        }
    }
    run("greatest_magnitudes", cases);
}

/// By channels and by images, planes of working memory that are filled by pairs and that are not.
#[test]
fn sums_of_short_products() {
    let mut random = Random(47);
    let mut cases: Vec<(Op, Vec<Tensor>)> = Vec::new();
    let shapes: [&[usize]; 7] = [
        &[2, 3, 8, 20],
        &[1, 2, 16, 16],
        &[2, 64, 4, 4],
        &[3, 40, 2, 2],
        &[2, 36, 1, 5],
        &[2, 5, 8, 8],
        &[4, 130, 1],
    ];
    for shape in shapes {
        let (count, channels) = (shape.iter().product::<usize>(), shape[1]);
        for extremes in [false, true] {
            let mut codes = |exponent: i32| {
                let code = |_| if extremes { -128 } else { (random.next() >> 40) as i8 };
                Tensor::i8_shared(shape, (0..count).map(code).collect(), exponent)
            };
            let (x, dy) = (codes(-7), codes(-20));
            let mut column = |scale: f32| {
                let mut values: Vec<f32> = (0..channels)
                    .map(|_| ((random.next() >> 40) as f32 - 8.0e6) * 1.0e-7 * scale)
                    .collect();
                if extremes {
                    values.iter_mut().zip(EXTREMES).skip(1).for_each(|(to, from)| *to = from);
                }
                vector(&values)
            };
            let of = |column: &mut dyn FnMut(f32) -> Tensor| {
                [column(1.0), column(0.5), column(3.0), column(200.0)]
            };
            let [scale, bias, mean, inverse] = of(&mut column);
            let forward =
                vec![x.clone(), scale.clone(), bias.clone(), mean.clone(), inverse.clone()];
            cases.push((IntegerBatchNorm {}.into(), forward));
            for batch in [false, true] {
                let operands = vec![
                    x.clone(),
                    dy.clone(),
                    scale.clone(),
                    mean.clone(),
                    inverse.clone(),
                    bias.clone(),
                    mean.clone(),
                ];
                cases.push((IntegerBatchNormError { batch }.into(), operands));
            }
        }
    }
    run("sums_of_short_products", cases);
}
