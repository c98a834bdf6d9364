//! Products, windows and data movement refuse what does not fit, hostile attributes included, with a reason.

use std::slice::from_ref;

use trainc_ir::ops::matmul::ProductRole;
use trainc_ir::ops::{
    AvgPool2d, AvgPool2dGradient, Broadcast, Chain, Concat, Conv2d, Conv2dGradientInput,
    Conv2dGradientWeight, MatMul, MaxPool2d, MaxPool2dGradient, Pad, Relu, Reshape, Slice,
    Transpose,
};
use trainc_ir::{Element, Op, TensorType};

const HUGE: usize = usize::MAX;

fn f32(shape: &[usize]) -> TensorType {
    TensorType::f32(shape)
}

fn i8s(shape: &[usize]) -> TensorType {
    TensorType::shared(shape, Element::I8)
}

#[track_caller]
fn refused(op: impl Into<Op>, operands: &[TensorType], reason: &str) {
    let op = op.into();
    match op.infer(&operands.iter().collect::<Vec<_>>()) {
        Ok(types) => panic!("{op} accepts, giving {types:?}"),
        Err(error) => assert!(error.to_string().contains(reason), "{op}: {error}"),
    }
}

#[test]
fn matmul() {
    let op = || MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
    refused(op(), &[f32(&[2, 3])], "takes 2 operand");
    refused(op(), &[f32(&[3]), f32(&[3, 2])], "rank 2");
    refused(op(), &[f32(&[2, 3]), f32(&[2, 3])], "summed axis");
    refused(op(), &[f32(&[2, 2, 3]), f32(&[3, 3, 2])], "do not broadcast");
    refused(op(), &[f32(&[2, 3]), i8s(&[3, 2])], "two f32 or two i8");
    refused(op(), &[f32(&[HUGE, 1]), f32(&[1, HUGE])], "too large");
}

#[test]
fn convolutions() {
    let plain = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    let (x, w) = (f32(&[1, 4, 5, 5]), f32(&[6, 4, 3, 3]));
    let operands = [x.clone(), w.clone()];
    refused(plain.clone(), &[f32(&[4, 5, 5]), w.clone()], "rank 4");
    refused(plain.clone(), &[x.clone(), f32(&[6, 3, 3, 3])], "weights of 4 channels");
    refused(plain.clone(), &[x.clone(), f32(&[6, 4, 6, 3])], "exceeds the padded operand");
    refused(plain.clone(), &[x.clone(), f32(&[6, 4, 0, 3])], "kernel is 0");
    refused(plain.clone(), &[f32(&[1, 4, 0, 5]), w.clone()], "operand is empty");
    refused(Conv2d { groups: 0, ..plain.clone() }, &operands, "0 group");
    refused(Conv2d { groups: 3, ..plain.clone() }, &operands, "do not divide");
    refused(Conv2d { groups: HUGE, ..plain.clone() }, &operands, "do not divide");
    refused(Conv2d { strides: [0, 1], ..plain.clone() }, &operands, "height: the stride is 0");
    refused(Conv2d { strides: [1, HUGE], ..plain.clone() }, &operands, "width: the stride");
    refused(Conv2d { dilations: [HUGE, 1], ..plain.clone() }, &operands, "dilation");
    refused(Conv2d { pads: [0, HUGE, 0, HUGE], ..plain.clone() }, &operands, "padding");
    let most = i32::MAX as usize;
    refused(Conv2d { pads: [most; 4], ..plain }, &operands, "too large");
    let input = |groups, input_size| Conv2dGradientInput {
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
        groups,
        input_size,
    };
    let dy = f32(&[1, 6, 3, 3]);
    refused(input(1, [5, 6]), &[dy.clone(), w.clone()], "the error");
    refused(input(1, [HUGE, 5]), &[dy.clone(), w.clone()], "too large");
    refused(input(HUGE, [5, 5]), &[dy.clone(), w.clone()], "do not divide");
    refused(input(1, [2, 5]), &[dy.clone(), w], "exceeds the padded operand");
    let weight = |kernel_size| Conv2dGradientWeight {
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
        groups: 1,
        kernel_size,
    };
    refused(weight([2, 3]), &[x.clone(), dy.clone()], "the error");
    refused(weight([HUGE, 3]), &[x.clone(), dy], "too large");
    refused(weight([3, 3]), &[x, f32(&[2, 6, 3, 3])], "the error");
}

#[test]
fn pools() {
    let max =
        MaxPool2d { kernel: [2, 2], strides: [1, 1], pads: [0; 4], dilations: [1, 1], ceil: false };
    let x = f32(&[1, 1, 4, 4]);
    refused(max.clone(), &[TensorType::new([1, 1, 4, 4], Element::I32)], "f32, i8");
    refused(MaxPool2d { kernel: [5, 1], ..max.clone() }, from_ref(&x), "exceeds");
    refused(MaxPool2d { kernel: [HUGE, 1], ..max.clone() }, from_ref(&x), "too large");
    refused(MaxPool2d { strides: [1, 0], ..max.clone() }, from_ref(&x), "stride is 0");
    refused(MaxPool2d { pads: [2, 0, 0, 0], ..max.clone() }, from_ref(&x), "padding alone");
    // Taps at -1 and 1 miss an operand of one row.
    refused(
        MaxPool2d { pads: [1, 0, 1, 0], dilations: [2, 1], ..max },
        &[f32(&[1, 1, 1, 4])],
        "padding alone",
    );
    let gradient = MaxPool2dGradient {
        kernel: [2, 2],
        strides: [2, 2],
        pads: [0; 4],
        dilations: [1, 1],
        ceil: false,
    };
    refused(gradient.clone(), &[x.clone(), f32(&[1, 1, 2, 3])], "the error");
    refused(gradient, &[x.clone(), i8s(&[1, 1, 2, 2])], "one representation");
    let average = AvgPool2d {
        kernel: [2, 2],
        strides: [2, 2],
        pads: [0; 4],
        ceil: false,
        count_include_pad: false,
    };
    refused(AvgPool2d { pads: [0, 0, 0, 2], ..average.clone() }, &[x], "padding alone");
    refused(AvgPool2d { kernel: [200, 200], ..average }, &[i8s(&[1, 1, 200, 200])], "too large");
    let gradient = AvgPool2dGradient {
        kernel: [2, 2],
        strides: [2, 2],
        pads: [0; 4],
        ceil: false,
        count_include_pad: false,
        input_size: [4, 5],
    };
    refused(gradient.clone(), &[f32(&[1, 1, 2, 3])], "the error");
    // Each of four elements is in a hundred times a hundred windows, some with no other.
    let crowded = AvgPool2dGradient {
        kernel: [100, 100],
        strides: [1, 1],
        pads: [99; 4],
        input_size: [2, 2],
        ..gradient.clone()
    };
    refused(crowded, &[i8s(&[1, 1, 101, 101])], "too many");
    refused(
        AvgPool2dGradient { input_size: [HUGE, 4], ..gradient },
        &[f32(&[1, 1, 2, 2])],
        "too large",
    );
}

#[test]
fn movement() {
    let x = || f32(&[2, 3]);
    refused(Reshape { shape: vec![4, 2].into() }, &[x()], "6 elements");
    refused(Reshape { shape: vec![HUGE, HUGE].into() }, &[x()], "too large");
    refused(Transpose { permutation: vec![0, 0] }, &[x()], "permute");
    refused(Transpose { permutation: vec![0, 2] }, &[x()], "permute");
    refused(Transpose { permutation: vec![0] }, &[x()], "permute");
    refused(Broadcast { shape: vec![3, 3].into() }, &[x()], "does not stretch");
    refused(Broadcast { shape: vec![3].into() }, &[x()], "does not stretch");
    refused(Broadcast { shape: vec![HUGE, HUGE, 2, 3].into() }, &[x()], "too large");
    refused(Concat { axis: 0 }, &[], "at least one");
    refused(Concat { axis: 2 }, &[x()], "no axis 2");
    refused(Concat { axis: 0 }, &[x(), f32(&[2, 4])], "does not fit");
    refused(Concat { axis: 0 }, &[x(), TensorType::new([2, 3], Element::I32)], "does not fit");
    refused(Concat { axis: 0 }, &[i8s(&[2])], "unscaled");
    refused(Concat { axis: 0 }, &[f32(&[HUGE]), f32(&[HUGE])], "too large");
    let pad = |before: &[usize], value: f32| Pad {
        before: before.to_vec(),
        after: vec![0; 2],
        value: value.into(),
    };
    refused(pad(&[1], 0.0), &[x()], "each of the 2 axes");
    refused(pad(&[HUGE, 0], 0.0), &[x()], "too large");
    refused(pad(&[1 << 62, 0], 0.0), &[x()], "too large");
    refused(pad(&[1, 0], 0.5), &[i8s(&[2, 3])], "is 0");
    refused(pad(&[1, 0], 0.5), &[TensorType::new([2, 3], Element::I32)], "is 0");
}

#[test]
fn slices() {
    let x = [f32(&[4])];
    let slice = |start, length, step| Slice {
        starts: vec![start],
        lengths: vec![length],
        steps: vec![step],
    };
    refused(slice(0, 2, 0), &x, "step 0");
    refused(slice(4, 1, 1), &x, "leave axis 0");
    refused(slice(5, 0, 1), &x, "leave axis 0");
    refused(slice(1, 4, 1), &x, "leave axis 0");
    refused(slice(1, 3, -1), &x, "leave axis 0");
    refused(slice(HUGE, HUGE, i64::MAX), &x, "leave axis 0");
    refused(slice(HUGE, HUGE, i64::MIN), &x, "leave axis 0");
    refused(slice(1, 2, i64::MIN), &x, "leave axis 0");
    refused(Slice { starts: vec![], lengths: vec![1], steps: vec![1] }, &x, "for each of the 1");
}

#[test]
fn chains() {
    let relu = || Op::from(Relu {});
    let x = || f32(&[2, 3]);
    refused(Chain { ops: vec![] }, &[x()], "at least two");
    refused(Chain { ops: vec![relu()] }, &[x()], "at least two");
    refused(Chain { ops: vec![relu(), relu()] }, &[x(), x()], "takes 1 operand");
    refused(Chain { ops: vec![relu(), relu()] }, &[], "operation 0 does not fit");
    let inner = Op::from(Chain { ops: vec![relu(), relu()] });
    refused(Chain { ops: vec![inner, relu()] }, &[x()], "cannot hold `chain`");
    let concat = Op::from(Concat { axis: 0 });
    refused(Chain { ops: vec![relu(), concat] }, &[x()], "cannot hold `concat`");
    let reshape = Op::from(Reshape { shape: vec![5].into() });
    refused(Chain { ops: vec![relu(), reshape] }, &[x()], "operation 1 does not fit");
}
