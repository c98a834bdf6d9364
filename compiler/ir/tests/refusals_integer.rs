//! Operations of quantized inference refuse what does not fit, with a reason.

use trainc_ir::ops::{
    Chain, IntegerAdd, IntegerConv2d, IntegerMaxPool2d, IntegerSumPool2d, ScaleShift, Threshold,
};
use trainc_ir::{Element, Op, TensorType};

const HUGE: usize = usize::MAX;

fn ty(shape: &[usize], element: Element) -> TensorType {
    TensorType::new(shape, element)
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
fn convolutions() {
    let plain =
        IntegerConv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1, padding: 0 };
    let (x, w) = (ty(&[1, 5, 5, 4], Element::U4), ty(&[6, 3, 3, 4], Element::I2));
    let operands = [x.clone(), w.clone()];
    assert_eq!(Op::from(plain.clone()).infer(&[&x, &w]), Ok(vec![ty(&[1, 5, 5, 6], Element::I32)]));
    refused(plain.clone(), std::slice::from_ref(&x), "takes 2 operand");
    refused(plain.clone(), &[ty(&[1, 5, 5, 4], Element::I16), w.clone()], "unscaled i8");
    refused(plain.clone(), &[ty(&[1, 5, 5, 4], Element::B1), w.clone()], "unscaled i8");
    refused(plain.clone(), &[TensorType::shared([1, 5, 5, 4], Element::I8), w.clone()], "unscaled");
    refused(plain.clone(), &[x.clone(), ty(&[6, 3, 3, 4], Element::U4)], "weights of i8");
    refused(plain.clone(), &[ty(&[5, 5, 4], Element::U4), w.clone()], "rank 4");
    refused(plain.clone(), &[x.clone(), ty(&[6, 3, 3, 3], Element::I2)], "weights of 4 channels");
    refused(plain.clone(), &[x.clone(), ty(&[6, 8, 3, 4], Element::I2)], "exceeds the padded");
    refused(IntegerConv2d { groups: 3, ..plain.clone() }, &operands, "do not divide");
    refused(IntegerConv2d { padding: 16, ..plain.clone() }, &operands, "not a number of u4");
    refused(IntegerConv2d { padding: -1, ..plain.clone() }, &operands, "not a number of u4");
    refused(IntegerConv2d { dilations: [HUGE, 1], ..plain.clone() }, &operands, "dilation");
    refused(IntegerConv2d { pads: [HUGE; 4], ..plain }, &operands, "padding");
}

#[test]
fn pools_and_sums() {
    let x = ty(&[1, 5, 5, 4], Element::U2);
    let maximum = |kernel, pads| IntegerMaxPool2d { kernel, strides: [1, 1], pads };
    refused(maximum([2, 2], [0; 4]), &[ty(&[1, 5, 5, 4], Element::I16)], "at most 8 bits");
    refused(maximum([2, 2], [0; 4]), &[TensorType::f32([1, 5, 5, 4])], "at most 8 bits");
    refused(maximum([2, 2], [0; 4]), &[ty(&[5, 5, 4], Element::U2)], "rank 4");
    refused(maximum([2, 2], [2; 4]), std::slice::from_ref(&x), "padding alone");
    refused(maximum([HUGE, 2], [0; 4]), std::slice::from_ref(&x), "too large");
    let sum = |padding| IntegerSumPool2d { kernel: [2, 2], strides: [1, 1], pads: [1; 4], padding };
    refused(sum(4), std::slice::from_ref(&x), "not a number of u2");
    refused(IntegerAdd { factors: [1, 1] }, &[x.clone(), ty(&[4], Element::U2)], "one shape");
    refused(
        IntegerAdd { factors: [1, 1] },
        &[x.clone(), ty(&[1, 5, 5, 4], Element::I32)],
        "8 bits",
    );
}

#[test]
fn rescales() {
    let (acc, vector) = (ty(&[2, 3], Element::I32), ty(&[3], Element::I32));
    let scale = |shift, low, high| ScaleShift { shift, low, high, element: Element::U4 };
    let operands = [acc.clone(), vector.clone(), vector.clone()];
    refused(scale(32, 0, 15), &operands, "at most 31 bits");
    refused(scale(3, -1, 15), &operands, "not a range of u4");
    refused(scale(3, 0, 16), &operands, "not a range of u4");
    refused(scale(3, 9, 8), &operands, "not a range of u4");
    let floats = ScaleShift { shift: 0, low: 0, high: 1, element: Element::F32 };
    refused(floats, &operands, "not a range of f32");
    refused(scale(3, 0, 15), &[acc.clone(), vector.clone(), ty(&[2], Element::I32)], "3 channels");
    refused(scale(3, 0, 15), &[ty(&[], Element::I32), vector.clone(), vector.clone()], "[.., C]");
    refused(scale(3, 0, 15), &[ty(&[2, 3], Element::I8), vector.clone(), vector.clone()], "i32");
    let threshold = |low| Threshold { low, element: Element::I2 };
    let rows = ty(&[3, 3], Element::I32);
    refused(threshold(-2), std::slice::from_ref(&acc), "2 or 3 operand");
    refused(threshold(-1), &[acc.clone(), rows.clone()], "not a range of i2");
    refused(threshold(i32::MAX), &[acc.clone(), rows.clone()], "not a range of i2");
    refused(threshold(-2), &[acc.clone(), ty(&[2, 3], Element::I32)], "thresholds [3, L]");
    refused(threshold(-2), &[acc.clone(), ty(&[3, 0], Element::I32)], "thresholds [3, L]");
    refused(threshold(-2), &[acc.clone(), rows.clone(), ty(&[2], Element::I32)], "3 channels");
    // In a chain, the optional operand belongs to the staircase.
    let add = IntegerAdd { factors: [1, 1] };
    let x = ty(&[2, 3], Element::I8);
    let chain = |ops: &[Op]| Op::from(Chain { ops: ops.to_vec() });
    let stairs = chain(&[add.into(), threshold(-2).into()]);
    let types = [&x, &x, &rows, &vector];
    assert_eq!(stairs.infer(&types), Ok(vec![ty(&[2, 3], Element::I2)]));
    assert_eq!(stairs.infer(&types[..3]), Ok(vec![ty(&[2, 3], Element::I2)]));
    assert!(stairs.infer(&types[..2]).is_err());
}
