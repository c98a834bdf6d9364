//! Products of FP32 numbers and of bytes whose planes have scales: shapes that do not divide, numbers of all sizes, and what is no
//! number.

use trainc_ir::ops::matmul::ProductRole;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, GroupedProduct, MatMul, ProductOf,
    Relu,
};
use trainc_ir::{Op, Tensor};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;

use super::products::{InferShape, SHAPES, Values, tensor};

/// Rows, inner size, columns.
const MATRICES: &[[usize; 3]] = &[[9, 33, 17], [32, 20, 65], [16, 100, 10]];

/// Numbers with full mantissas of about one size.
fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
    let mut one = || (random.next() as i32 >> 7) as f32 / (1 << 20) as f32;
    (0..count).map(|_| one()).collect()
}

/// Of many sizes, with zeros of both signs and what a product has too large or too small a result of; in one of two tensors also
/// infinities.
fn floats(random: &mut Random, shape: &[usize], n: usize) -> Tensor {
    let count = shape.iter().product();
    let mut data = numbers(random, count);
    for x in data.iter_mut().filter(|_| n % 2 == 1) {
        *x = match random.below(40) {
            0 => -0.0,
            1 => *x * 1e-38,
            2 => *x * 1e30,
            3 => f32::from_bits(1),
            4 if n % 4 == 3 && random.below(count) < 12 => f32::NEG_INFINITY,
            5 if n % 4 == 3 && random.below(count) < 12 => f32::NAN,
            _ => *x,
        };
    }
    Tensor::f32(shape, data)
}

/// All products.
pub(crate) fn all() -> Vec<Case> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut cases: Vec<Case> = Vec::new();
    let mut n = 0;
    // Alone, and with a rectifier behind it; with scales of its groups where there are some.
    let mut push = |of: ProductOf, shapes: [&[usize]; 2], grouped: bool, random: &mut Random| {
        let op = Op::from(of.clone());
        let inputs = vec![floats(random, shapes[0], n), floats(random, shapes[1], n / 2)];
        let whole = match n % 3 {
            0 => Chain { ops: vec![op.clone(), Relu {}.into()] }.into(),
            _ => op.clone(),
        };
        cases.push(Case { what: format!("{n}: {whole}"), op: whole, inputs, constant: n % 5 == 0 });
        if grouped {
            let values = [Values::Any, Values::Extremes][n % 2];
            let mut inputs: Vec<Tensor> =
                shapes.iter().map(|shape| tensor(random, shape, values)).collect();
            for shape in shapes {
                // Now and then one scale for all planes along an axis.
                let dims = [shape[0], if n % 7 == 3 { 1 } else { shape[1] }, 1, 1];
                let scales = numbers(random, dims[0] * dims[1]);
                inputs.push(Tensor::f32(&dims[..], scales));
            }
            let op: Op = GroupedProduct { of }.into();
            cases.push(Case { what: format!("{n}: {op}"), op, inputs, constant: n % 5 == 1 });
        }
        n += 1;
    };
    for &(images, groups, [c, o], size, taps, strides, dilations, pads) in SHAPES {
        let x = [images, groups * c, size[0], size[1]];
        let w = [groups * o, c, taps[0], taps[1]];
        let forward = Conv2d { strides, pads, dilations, groups };
        let y = forward.clone().infer_shape(&x, &w).expect("they fit");
        let grouped = groups == 1;
        push(ProductOf::Conv2d(forward), [&x, &w], grouped, &mut random);
        let error = Conv2dGradientInput { strides, pads, dilations, groups, input_size: size };
        push(ProductOf::Conv2dGradientInput(error), [&y, &w], grouped, &mut random);
        let gradient = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: taps };
        push(ProductOf::Conv2dGradientWeight(gradient), [&x, &y], grouped, &mut random);
    }
    for &[m, k, n] in MATRICES {
        let matmul = |transpose_a, transpose_b, role| {
            ProductOf::MatMul(MatMul { transpose_a, transpose_b, role })
        };
        let forward = matmul(false, true, ProductRole::Forward);
        push(forward, [&[m, k], &[n, k]], false, &mut random);
        push(matmul(false, false, ProductRole::Error), [&[m, k], &[k, n]], false, &mut random);
        push(matmul(true, false, ProductRole::Gradient), [&[m, k], &[m, n]], false, &mut random);
    }
    // Several matrices, each by its own.
    for (count, [m, k, n]) in [(3, [9, 33, 17]), (4, [16, 20, 8])] {
        let matmul = |transpose_a, transpose_b| {
            let role = ProductRole::Forward;
            ProductOf::MatMul(MatMul { transpose_a, transpose_b, role })
        };
        push(matmul(false, false), [&[count, m, k], &[count, k, n]], false, &mut random);
        push(matmul(true, false), [&[count, k, m], &[count, k, n]], false, &mut random);
        push(matmul(false, true), [&[count, m, k], &[count, n, k]], false, &mut random);
    }
    cases
}
