//! Type rules against operands that do not fit: refused with a message, never a panic.

use trainc_ir::attributes::F32;
use trainc_ir::ops::{self, nll_loss::Reduction};
use trainc_ir::types::Element;
use trainc_ir::{Op, TensorType};

fn operations() -> Vec<Op> {
    let f = F32::new;
    let (low, high, none) = (f(f32::NEG_INFINITY), f(f32::INFINITY), f(f32::NAN));
    let mut all: Vec<Op> = vec![
        ops::Abs {}.into(),
        ops::Pow {}.into(),
        ops::Relu {}.into(),
        ops::ReluGradient {}.into(),
        ops::BatchStatistics {}.into(),
        ops::SoftmaxCrossEntropy {}.into(),
        ops::SoftmaxCrossEntropyGradient {}.into(),
        ops::SgdUpdate {}.into(),
    ];
    for value in [f(0.5), low, high, none, f(-0.0)] {
        all.push(ops::LeakyRelu { alpha: value }.into());
        all.push(ops::LeakyReluGradient { alpha: value }.into());
        all.push(ops::Clip { min: value, max: high }.into());
        all.push(ops::ClipGradient { min: low, max: value }.into());
        all.push(ops::Dropout { ratio: value, stream: u32::MAX }.into());
        all.push(ops::BatchNorm { epsilon: value, batch: true }.into());
        all.push(ops::BatchNormGradient { epsilon: value, batch: false }.into());
    }
    for axes in [vec![], vec![0], vec![1, 0], vec![0, 0], vec![0, 1, 2], vec![usize::MAX]] {
        for keep_dims in [false, true] {
            all.push(ops::ReduceSum { axes: axes.clone(), keep_dims }.into());
            all.push(ops::ReduceMean { axes: axes.clone(), keep_dims }.into());
            all.push(ops::ReduceMax { axes: axes.clone(), keep_dims }.into());
        }
    }
    for axis in [0, 1, 7, usize::MAX] {
        all.push(ops::Softmax { axis }.into());
        all.push(ops::LogSoftmax { axis }.into());
        all.push(ops::QuantizeLinear { axis }.into());
        all.push(ops::DequantizeLinear { axis }.into());
    }
    for &reduction in Reduction::ALL {
        for ignore_index in [i64::MIN, 0] {
            all.push(ops::NllLoss { reduction, ignore_index }.into());
            all.push(ops::NllLossGradient { reduction, ignore_index }.into());
        }
    }
    all
}

fn types() -> Vec<TensorType> {
    let huge = usize::MAX / 2;
    let shapes: [&[usize]; 9] =
        [&[], &[0], &[1], &[3], &[huge, huge], &[3, 2], &[3, 0], &[2, 3, 4], &[0, huge, huge]];
    let mut types: Vec<TensorType> = shapes.iter().map(|&shape| TensorType::f32(shape)).collect();
    for element in [Element::I8, Element::I32, Element::U8, Element::B1] {
        types.push(TensorType::new([3], element));
        types.push(TensorType::shared([3, 2], element));
    }
    types.push(TensorType::shared([huge, huge], Element::I8));
    types
}

#[test]
fn nothing_panics() {
    let types = types();
    let mut accepted = 0;
    for op in operations() {
        let mut operands: Vec<Vec<&TensorType>> = vec![vec![]];
        for (i, a) in types.iter().enumerate() {
            operands.push(vec![a]);
            operands.push(vec![a; 6]);
            for (j, b) in types.iter().enumerate() {
                operands.push(vec![a, b]);
                operands.push(vec![a, b, &types[(i + j) % types.len()]]);
                operands.push(vec![a, b, b, a]);
                operands.push(vec![a, b, b, b, b]);
                operands.push(vec![a, b, b, b, a]);
            }
        }
        for operands in operands {
            match op.infer(&operands) {
                Ok(_) => accepted += 1,
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    assert!(accepted > 200, "{accepted}");
}

fn refused(op: impl Into<Op>, operands: &[TensorType], because: &str) {
    let op = op.into();
    let error = op.infer(&operands.iter().collect::<Vec<_>>()).expect_err(&op.to_string());
    assert!(error.to_string().contains(because), "{op}: {error}");
}

#[test]
fn refusals_say_why() {
    let f32s = |shape: &[usize]| TensorType::f32(shape);
    let labels = |shape: &[usize]| TensorType::new(shape, Element::I32);
    let i8s = |shape: &[usize]| TensorType::shared(shape, Element::I8);
    refused(ops::Add {}, &[f32s(&[2, 3]), f32s(&[2])], "do not broadcast");
    refused(ops::Add {}, &[f32s(&[2, 3])], "2 operand(s)");
    refused(ops::Add {}, &[f32s(&[2]), i8s(&[2])], "f32");
    refused(ops::ReluGradient {}, &[f32s(&[2]), i8s(&[2])], "one type");
    refused(ops::ReluGradient {}, &[f32s(&[2]), f32s(&[1])], "one type");
    let axes = |axes: &[usize]| ops::ReduceSum { axes: axes.to_vec(), keep_dims: true };
    refused(axes(&[1, 0]), &[f32s(&[2, 3])], "ascend");
    refused(axes(&[2]), &[f32s(&[2, 3])], "rank");
    refused(axes(&[0]), &[i8s(&[1 << 24])], "overflow");
    let mean = ops::ReduceMean { axes: vec![0], keep_dims: true };
    refused(mean, &[f32s(&[0, 3])], "no elements");
    let clip = ops::Clip { min: F32::new(f32::NAN), max: F32::new(0.0) };
    refused(clip, &[f32s(&[2])], "numbers");
    let dropout = |ratio: f32| ops::Dropout { ratio: F32::new(ratio), stream: 0 };
    refused(dropout(1.0), &[f32s(&[2])], "[0, 1)");
    refused(dropout(f32::NAN), &[f32s(&[2])], "[0, 1)");
    refused(dropout(0.25), &[i8s(&[2])], "0.5");
    refused(ops::BatchStatistics {}, &[f32s(&[3])], "[batch, channel, ...]");
    refused(ops::BatchStatistics {}, &[f32s(&[0, 3])], "without elements");
    let norm = |epsilon: f32| ops::BatchNorm { epsilon: F32::new(epsilon), batch: false };
    let vector = || f32s(&[3]);
    let operands = [f32s(&[2, 3]), vector(), vector(), vector(), f32s(&[2])];
    refused(norm(0.1), &operands, "3 channels");
    let operands = [f32s(&[2, 3]), vector(), vector(), vector(), vector()];
    refused(norm(-0.1), &operands, "epsilon");
    refused(ops::Softmax { axis: 1 }, &[f32s(&[3])], "no axis 1");
    refused(ops::Softmax { axis: 1 }, &[f32s(&[3, 0])], "empty");
    refused(ops::SoftmaxCrossEntropy {}, &[f32s(&[2, 3]), labels(&[3])], "labels");
    refused(ops::SoftmaxCrossEntropy {}, &[f32s(&[0, 3]), labels(&[0])], "empty batch");
    let loss = || ops::NllLoss { reduction: Reduction::Mean, ignore_index: -1 };
    refused(loss(), &[f32s(&[2, 3, 4]), labels(&[2, 3])], "labels");
    refused(loss(), &[f32s(&[2, 3]), labels(&[2]), f32s(&[2])], "3 channels");
    refused(ops::SgdUpdate {}, &[f32s(&[2]), f32s(&[2]), f32s(&[1])], "scalar");
    let quantize = || ops::QuantizeLinear { axis: 1 };
    let bytes = |shape: &[usize]| TensorType::new(shape, Element::I8);
    refused(quantize(), &[f32s(&[2, 3]), f32s(&[2]), bytes(&[2])], "axis 1");
    refused(quantize(), &[f32s(&[2, 3]), f32s(&[3]), bytes(&[])], "one shape");
    refused(quantize(), &[f32s(&[2, 3]), f32s(&[]), labels(&[])], "at most 8 bits");
    let dequantize = ops::DequantizeLinear { axis: 0 };
    refused(dequantize, &[bytes(&[2]), f32s(&[]), labels(&[])], "zero point");
}
