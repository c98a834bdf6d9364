//! Operations of a training step element by element: all counts, floats of any bits, windows that leave a rest.

use trainc_ir::ops::{MaxPool2dGradient, QuantizeExponent, ReluGradient, SaturatingSubtract};
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
    for (size, kernel) in [([9, 7], [2, 2]), ([8, 8], [2, 2]), ([6, 11], [3, 1]), ([7, 9], [3, 4])]
    {
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
        products.push(Case { op: op.into(), inputs: vec![x, dy], what, constant: false });
    }
    products
}
