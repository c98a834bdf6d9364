//! Operations of a training step element by element: all counts, floats of any bits, windows that leave a rest.

use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    AlignedAdd, Chain, MaxPool2d, MaxPool2dGradient, QuantizeExponent, QuantizeGradient, ReduceSum,
    Relu, ReluGradient, Requantize, SaturatingSubtract,
};
use trainc_ir::{Op, Tensor};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;

/// Bytes of all values, extreme ones often.
fn bytes(random: &mut Random, count: usize) -> Vec<i8> {
    const EXTREMES: [i8; 6] = [-128, -127, -1, 0, 1, 127];
    let mut one = || match random.next() % 3 {
        0 => EXTREMES[(random.next() % 6) as usize],
        _ => random.next() as i8,
    };
    (0..count).map(|_| one()).collect()
}

/// Elements of a training step.
pub(crate) fn all() -> Vec<Case> {
    let mut products = Vec::new();
    let random = &mut Random(11);
    for count in (1..40).chain([255, 1021]) {
        for op in [Op::from(SaturatingSubtract {}), Op::from(ReluGradient {})] {
            let [a, b] = [3, -4].map(|e| Tensor::i8_shared([count], bytes(random, count), e));
            let what = format!("{op} {count}");
            products.push(Case { op, inputs: vec![a, b], what, constant: false });
        }
        // Floats of one size, of any size, and of any bits.
        for spread in [1, 40, 255] {
            let low = random.next() % (256 - spread) as u64;
            let mut one = || {
                let exponent = (low + random.next() % spread as u64) as u32;
                f32::from_bits(exponent << 23 | (random.next() as u32 & 0x807f_ffff))
            };
            let x = Tensor::f32([count], (0..count).map(|_| one()).collect());
            let what = format!("quantize_exponent {count}, spread {spread}");
            products.push(Case {
                op: QuantizeExponent {}.into(),
                inputs: vec![x],
                what,
                constant: false,
            });
        }
    }
    let sizes = [([9, 7], [2, 2]), ([8, 8], [2, 2]), ([6, 11], [3, 1]), ([7, 9], [3, 4])];
    // Pairs of a row: rests of a vector of pairs that fill half of it, less and more.
    let pairs = [[1, 64], [1, 72], [3, 100], [1, 1024]].map(|size| (size, [1, 2]));
    for (size, kernel) in sizes.into_iter().chain(pairs) {
        let [rows, columns] = [0, 1].map(|a| size[a] / kernel[a]);
        let x =
            Tensor::i8_shared([2, 3, size[0], size[1]], bytes(random, 6 * size[0] * size[1]), 1);
        let dy = Tensor::i8_shared([2, 3, rows, columns], bytes(random, 6 * rows * columns), -9);
        let op = MaxPool2dGradient {
            kernel,
            strides: kernel,
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        let what = format!("{op:?} {size:?}");
        let pool =
            MaxPool2d { kernel, strides: kernel, pads: [0; 4], dilations: [1, 1], ceil: false };
        let forward = format!("{pool:?} {size:?}");
        let inputs = vec![x.clone()];
        products.push(Case { op: pool.into(), inputs, what: forward, constant: false });
        // Twice: neighbouring cases lie in memory of the program's and of the caller's, in turn.
        for what in [format!("{what} again"), what] {
            let inputs = vec![x.clone(), dy.clone()];
            products.push(Case { op: op.clone().into(), inputs, what, constant: false });
        }
    }
    // Windows that overlap, leave planes, or lie apart; planes of which several fill a vector, and large ones.
    let windows = [
        ([2_usize, 8, 14, 14], [3, 3], [2, 2], [1, 1, 1, 1]),
        ([1, 3, 28, 28], [3, 3], [2, 2], [0, 0, 1, 1]),
        ([3, 16, 7, 5], [3, 3], [1, 1], [1, 1, 1, 1]),
        ([1, 5, 9, 130], [2, 3], [3, 2], [1, 2, 0, 0]),
        ([2, 70, 3, 2], [3, 2], [2, 2], [2, 0, 1, 1]),
        ([1, 2, 120, 110], [3, 3], [2, 2], [1, 1, 1, 1]),
        ([4, 6, 8, 8], [1, 3], [1, 3], [0, 1, 0, 0]),
    ];
    for (size, kernel, strides, pads) in windows {
        let (dilations, ceil) = ([1, 1], false);
        let pool = MaxPool2d { kernel, strides, pads, dilations, ceil };
        for any in [true, false] {
            let count = size.iter().product();
            // Among the least bytes the first of a window counts, and nothing beside the plane does.
            let values = match any {
                true => bytes(random, count),
                false => (0..count).map(|i| if i % 11 == 0 { -127 } else { -128 }).collect(),
            };
            let x = Tensor::i8_shared(size, values, 3);
            let shape = Op::from(pool.clone()).infer(&[x.ty()]).expect("it types").remove(0).shape;
            let count = shape.count();
            let dy = Tensor::i8_shared(shape, bytes(random, count), -2);
            let back = MaxPool2dGradient { kernel, strides, pads, dilations, ceil };
            let what = [format!("{pool:?} {size:?} {any}"), format!("{back:?} {size:?} {any}")];
            let back = (Op::from(back), vec![x.clone(), dy]);
            let cases = [(Op::from(pool.clone()), vec![x]), back.clone(), back];
            let [forward, back] = what;
            let what = [forward, format!("{back} again"), back];
            for ((op, inputs), what) in cases.into_iter().zip(what) {
                products.push(Case { op, inputs, what, constant: false });
            }
        }
    }
    products
}

/// Bytes that hold every value, and more of one sign than would come by chance.
fn signed(random: &mut Random, shape: &[usize], exponent: i32, small: bool) -> Tensor {
    let count: usize = shape.iter().product();
    let shift = if small { 58 } else { 56 };
    let values = (0..count).map(|i| {
        if i < 256 && !small { i as u8 as i8 } else { ((random.next() as i64) >> shift) as i8 }
    });
    Tensor::i8_shared(shape.to_vec(), values.collect(), exponent)
}

/// Tensors that fill vectors, at the shifts where their loops change.
pub(crate) fn long() -> Vec<Case> {
    let mut random = Random(11);
    let mut cases = Vec::new();
    let mut push = |what: String, op: Op, inputs: Vec<Tensor>| {
        cases.push(Case { what, op, inputs, constant: false })
    };
    let shapes: [[&[usize]; 2]; 5] = [
        [&[3, 300], &[3, 300]],
        [&[4, 560], &[4, 560]],
        [&[2, 3, 10, 15], &[3, 1, 1]],
        [&[3, 1, 1], &[2, 3, 10, 15]],
        [&[2, 1, 2, 130], &[1, 3, 1, 130]],
    ];
    for [a, b] in shapes {
        for distance in [0, 1, 2, 3, 7, 8, 13, 14, 15, 16, 17, 40] {
            for (ea, eb) in [(distance - 5, -5), (-5, distance - 5)] {
                for small in [false, true] {
                    let x = signed(&mut random, a, ea, small);
                    let y = signed(&mut random, b, eb, small);
                    let what = format!("aligned add {a:?} {b:?} 2^{ea} 2^{eb}");
                    let inputs = vec![x, y];
                    if a == b {
                        let ops = vec![AlignedAdd {}.into(), Relu {}.into()];
                        push(format!("{what}, relu"), Chain { ops }.into(), inputs.clone());
                    }
                    push(what, AlignedAdd {}.into(), inputs);
                }
            }
        }
    }
    // Operands that short rows repeat: a bias of each channel whose planes fill no vectors, and of each column.
    // Of rows that are too many for all of them to be together, too, and of a prime number of such.
    let repeated: [[&[usize]; 2]; 9] = [
        [&[1, 33, 25, 5], &[1, 33, 1, 1]],
        [&[3, 5, 1, 1], &[4, 3, 5, 7, 7]],
        [&[2, 9, 14, 14], &[1, 9, 1, 1]],
        [&[9, 48], &[48]],
        [&[1, 2, 33, 33], &[1, 2, 1, 1]],
        [&[200, 1], &[200, 3]],
        [&[2, 600, 60], &[60]],
        [&[64], &[1100, 64]],
        [&[1201, 60], &[60]],
    ];
    for [a, b] in repeated {
        for (ea, eb) in [(-5, -5), (-4, -5), (-7, -5), (-5, 9)] {
            let x = signed(&mut random, a, ea, false);
            let y = signed(&mut random, b, eb, false);
            push(
                format!("aligned add {a:?} {b:?} 2^{ea} 2^{eb}"),
                AlignedAdd {}.into(),
                vec![x, y],
            );
        }
    }
    // Sums over planes that fill no vectors, of images and of one.
    let planes: [(&[usize], &[usize], bool); 6] = [
        (&[1, 33, 25, 5], &[2, 3], true),
        (&[3, 7, 7, 7], &[0, 2, 3], false),
        (&[2, 9, 14, 14], &[0, 2, 3], true),
        (&[1, 70, 3, 5], &[0, 2, 3], true),
        (&[2, 40, 31], &[0, 2], false),
        (&[1, 3, 17, 31], &[2, 3], true),
    ];
    for (shape, axes, keep_dims) in planes {
        let op = ReduceSum { axes: axes.to_vec(), keep_dims };
        let least = Tensor::i8_shared(shape.to_vec(), vec![-128; shape.iter().product()], 2);
        let any = signed(&mut random, shape, -3, false);
        for (x, what) in [(least, "least"), (any, "any")] {
            push(format!("{op:?} of {shape:?}, {what}"), op.clone().into(), vec![x]);
        }
    }
    // One sum among others of zero, about where it exceeds a byte.
    for distance in [0, 1, 2] {
        for sum in [-129, -128, -127, -126, 126, 127, 128, 129_i32] {
            let sign = sum.signum();
            // Of the operand with the larger exponent, and of the other one: shifted, 20 are 5.
            let [larger, smaller] = match distance {
                0 => [sum / 2, sum - sum / 2],
                1 => [40 * sign, sum - 80 * sign],
                _ => [sum - 5 * sign, 20 * sign],
            };
            let tensor = |value: i32, exponent: i32| {
                let mut values = vec![0; 2240];
                values[1500] = i8::try_from(value).expect("sums of two bytes");
                Tensor::i8_shared([2240], values, exponent)
            };
            for ordered in [false, true] {
                let mut inputs = vec![tensor(larger, distance), tensor(smaller, 0)];
                if ordered {
                    inputs.reverse();
                }
                push(format!("one sum {sum}, {distance} apart"), AlignedAdd {}.into(), inputs);
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
                push(format!("{width} bits to {bits}, {rounding:?}"), op.into(), operands);
            }
            for bits in [1, 7] {
                let op = Requantize { bits, rounding, low: -127 };
                let what = format!("requantize {width} bits to {bits}, {rounding:?}");
                push(what, op.into(), vec![words.clone()]);
            }
        }
    }
    cases
}
