//! A model for tests of whole programs.
#![allow(dead_code, reason = "each test file uses a part")]

use trainc_ir::attributes::F32;
use trainc_ir::graph::InputRole;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientWeight, Dropout, IntegerCrossEntropyGradient, MatMul, ProductRole,
    QuantizeExponent, QuantizeGradient, ReluGradient, Requantize, Reshape, SaturatingSubtract,
    SgdUpdate,
};
use trainc_ir::program::{Program, Step};
use trainc_ir::{Element, Op, Tensor, TensorType, Verified};

use super::Random;
use super::program::ProgramBuilder;

/// Batch.
pub(crate) const BATCH: usize = 4;

fn requantize(low: i8) -> Op {
    Requantize { bits: 7, rounding: Rounding::PseudoStochastic, low }.into()
}

fn product(transpose_a: bool, transpose_b: bool) -> Op {
    MatMul { transpose_a, transpose_b, role: ProductRole::Forward }.into()
}

fn chain(ops: Vec<Op>) -> Op {
    Chain { ops }.into()
}

/// A convolution, a hidden layer and a classifier in i8: a step of training with updates in place, dropout, a branch
/// and an FP32 parameter; and inference.
///
/// `train_step(images f32, labels, mask i8<2^e>, flag, bits, rate) -> (logits, bias)`, `infer(images) -> logits`.
pub(crate) fn small_model() -> Verified<Program> {
    let mut random = Random(3);
    let mut b = ProgramBuilder::new("Small-Model 1");
    let weight = |random: &mut Random, shape: &[usize]| {
        let count = shape.iter().product();
        let values = (0..count).map(|_| (random.next() >> 57) as i8 - 64).collect();
        Tensor::i8_shared(shape, values, -7)
    };
    let kernel = b.state("conv.weight", weight(&mut random, &[3, 2, 3, 3]));
    let hidden = b.state("fc1.weight", weight(&mut random, &[8, 48]));
    let last = b.state("fc2.weight", weight(&mut random, &[5, 8]));
    let bias = b.state("bias", Tensor::f32([3], vec![0.5, -0.0, 2.0]));
    let steps = b.state("steps", Tensor::i32([], vec![7]));
    let gradient = b.constant("fixed.gradient", Tensor::f32([3], vec![0.1, 0.2, -0.3]));
    let images_type = TensorType::f32([BATCH, 2, 4, 4]);
    let strides = [1, 1];
    let (pads, dilations, groups) = ([1, 1, 1, 1], [1, 1], 1);
    let conv = Op::from(Conv2d { strides, pads, dilations, groups });
    let logits_type = TensorType::shared([BATCH, 5], Element::I8);
    for train in [true, false] {
        let images = b.input("images", images_type.clone(), InputRole::Data);
        let x = b.op(QuantizeExponent {}, &[images])[0];
        let a = b.op(chain(vec![conv.clone(), requantize(0)]), &[x, kernel])[0];
        let flat = b.op(Reshape { shape: [BATCH, 48].into() }, &[a])[0];
        if !train {
            let h = b.op(chain(vec![product(false, true), requantize(0)]), &[flat, hidden])[0];
            let logits = b.output("logits", logits_type.clone());
            b.op_into(chain(vec![product(false, true), requantize(-127)]), &[h, last], &[logits]);
            b.entry("infer");
            continue;
        }
        let labels = b.input("labels", TensorType::new([BATCH], Element::I32), InputRole::Labels);
        let mask = b.input("mask", TensorType::shared([BATCH, 8], Element::I8), InputRole::Data);
        let flag = b.input("flag", TensorType::new([], Element::I32), InputRole::Data);
        let bits = b.input("bits", TensorType::new([], Element::I32), InputRole::LearningRate);
        let rate = b.input("rate", TensorType::f32([]), InputRole::LearningRate);
        let logits = b.output("logits", logits_type.clone());
        let out = b.output("bias", TensorType::f32([3]));
        let h = b.op(chain(vec![product(false, true), requantize(0)]), &[flat, hidden])[0];
        let h = b.op(Dropout { ratio: F32::new(0.5), stream: 2 }, &[h])[0];
        b.op_into(chain(vec![product(false, true), requantize(-127)]), &[h, last], &[logits]);
        let e = b.op(IntegerCrossEntropyGradient { stream: 1 }, &[logits, labels])[0];
        let quantize = Op::from(QuantizeGradient { rounding: Rounding::PseudoStochastic });
        let g = b.op(chain(vec![product(true, false), quantize.clone()]), &[e, h, bits])[0];
        let eh = b.op(chain(vec![product(false, false), requantize(-127)]), &[e, last])[0];
        b.op_into(SaturatingSubtract {}, &[last, g], &[last]);
        // In place over the error.
        b.op_into(ReluGradient {}, &[h, eh], &[eh]);
        b.op_into(ReluGradient {}, &[mask, eh], &[eh]);
        let g = b.op(chain(vec![product(true, false), quantize.clone()]), &[eh, flat, bits])[0];
        let ea = b.op(chain(vec![product(false, false), requantize(-127)]), &[eh, hidden])[0];
        b.op_into(SaturatingSubtract {}, &[hidden, g], &[hidden]);
        let ea = b.op(Reshape { shape: [BATCH, 3, 4, 4].into() }, &[ea])[0];
        let weight_gradient = Op::from(Conv2dGradientWeight {
            strides,
            pads,
            dilations,
            groups,
            kernel_size: [3, 3],
        });
        let g = b.op(chain(vec![weight_gradient, quantize]), &[x, ea, bits])[0];
        b.op_into(SaturatingSubtract {}, &[kernel, g], &[kernel]);
        let then = vec![b.launch(SgdUpdate {}.into(), &[bias, gradient, rate], &[bias])];
        let otherwise = vec![
            b.launch(trainc_ir::ops::Neg {}.into(), &[bias], &[bias]),
            b.launch(Reshape { shape: [].into() }.into(), &[flag], &[steps]),
        ];
        b.step(Step::Branch { condition: flag, then, otherwise });
        b.op_into(Dropout { ratio: F32::new(0.25), stream: 9 }, &[bias], &[out]);
        b.entry("train_step");
    }
    b.finish()
}

/// Operands of one step.
pub(crate) fn operands(step: usize) -> Vec<Tensor> {
    let mut random = Random(1000 + step as u64);
    let pixel = |r: &mut Random| (r.next() as i32 >> 12) as f32 / 65536.0;
    let images = (0..BATCH * 32).map(|_| pixel(&mut random)).collect();
    let labels = (0..BATCH).map(|_| random.below(5) as i32).collect();
    vec![
        Tensor::f32([BATCH, 2, 4, 4], images),
        Tensor::i32([BATCH], labels),
        random.tensor(&TensorType::shared([BATCH, 8], Element::I8)),
        Tensor::i32([], vec![(step % 2) as i32]),
        Tensor::i32([], vec![5 - step as i32 % 3]),
        Tensor::f32([], vec![0.125]),
    ]
}
