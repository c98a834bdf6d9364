//! Operations on tensors that fill vectors, at the shifts where their loops change.

use trainc_hvx::lower;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{AlignedAdd, QuantizeGradient, Requantize};
use trainc_ir::{Op, RunContext, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check};

/// Bytes that hold every value, and more of one sign than would come by chance.
fn bytes(random: &mut Random, shape: &[usize], exponent: i32, small: bool) -> Tensor {
    let count: usize = shape.iter().product();
    let shift = if small { 58 } else { 56 };
    let values = (0..count).map(|i| {
        if i < 256 && !small { i as u8 as i8 } else { ((random.next() as i64) >> shift) as i8 }
    });
    Tensor::i8_shared(shape.to_vec(), values.collect(), exponent)
}

#[test]
fn long_tensors() {
    let mut random = Random(11);
    let mut cases: Vec<(String, Op, Vec<Tensor>)> = Vec::new();
    let shapes: [[&[usize]; 2]; 4] = [
        [&[3, 300], &[3, 300]],
        [&[2, 3, 10, 15], &[3, 1, 1]],
        [&[3, 1, 1], &[2, 3, 10, 15]],
        [&[2, 1, 2, 130], &[1, 3, 1, 130]],
    ];
    for [a, b] in shapes {
        for distance in [0, 1, 2, 3, 7, 8, 13, 14, 15, 16, 17, 40] {
            for (ea, eb) in [(distance - 5, -5), (-5, distance - 5)] {
                for small in [false, true] {
                    let x = bytes(&mut random, a, ea, small);
                    let y = bytes(&mut random, b, eb, small);
                    let what = format!("aligned add {a:?} {b:?} 2^{ea} 2^{eb}");
                    cases.push((what, AlignedAdd {}.into(), vec![x, y]));
                }
            }
        }
    }
    // Magnitudes of that many bits.
    for width in [0, 1, 7, 8, 9, 16, 17, 31, 32] {
        let mut values: Vec<i32> = (0..333)
            .map(|_| ((random.next() as i64) >> 32 >> (32 - width).min(31)) as i32)
            .collect();
        if width == 32 {
            values[7] = i32::MIN;
            values[8] = i32::MAX;
        }
        let words = Tensor::i32_shared([333], values, 3);
        for &rounding in Rounding::ALL {
            for bits in [-40, -32, -31, -30, -1, 0, 1, 2, 5, 7] {
                let op = QuantizeGradient { rounding };
                let operands = vec![words.clone(), Tensor::i32([], vec![bits])];
                cases.push((format!("{width} bits to {bits}, {rounding:?}"), op.into(), operands));
            }
            for bits in [1, 7] {
                let op = Requantize { bits, rounding, low: -127 };
                let what = format!("requantize {width} bits to {bits}, {rounding:?}");
                cases.push((what, op.into(), vec![words.clone()]));
            }
        }
    }
    let run = RunContext::default();
    let (mut image, mut text) = (Image::default(), String::new());
    let mut known: Vec<(Op, Vec<TensorType>, String)> = Vec::new();
    for (what, op, operands) in &cases {
        let operands: Vec<&Tensor> = operands.iter().collect();
        let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
        let results = op.infer(&types).expect("the case types");
        let meaning = op.evaluate(&operands, &run);
        let kernel = lower(op, &types, &results.iter().collect::<Vec<_>>());
        let same = |k: &&(Op, Vec<TensorType>, String)| k.0 == *op && k.1.iter().eq(types.clone());
        let name = match known.iter().find(same) {
            Some((.., name)) => name.clone(),
            None => {
                let name = format!("kernel_{}", known.len());
                text.push_str(&assembly(&name, &kernel));
                known.push((
                    op.clone(),
                    types.iter().map(|t| (*t).clone()).collect(),
                    name.clone(),
                ));
                name
            }
        };
        image.kernel(&name, what, &kernel, &operands, &meaning, &run);
    }
    check(&folder("long"), &image, &text);
}
