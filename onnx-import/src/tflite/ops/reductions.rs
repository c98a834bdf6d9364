//! Reductions and softmax.

use crate::error::{NodeResult, WarningKind};
use crate::proto::AttributeProto;
use crate::tflite::layout::{FROM_CHANNELS, Layout};
use crate::tflite::ops::Call;

pub(super) fn reduce(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let op = match &*call.op.name {
        "MEAN" => "ReduceMean",
        "SUM" => "ReduceSum",
        "REDUCE_MIN" => "ReduceMin",
        _ => "ReduceMax",
    };
    let rank = call.dims(0)?.len();
    let mut axes = Vec::new();
    for axis in call.must_know(1, "axes")? {
        axes.push(call.axis(axis, rank)?);
    }
    let keeps = call.option_u8(0)? != 0;
    let (mut x, mut layout) = call.any(0)?;
    // Axes that stay must be in the file's order if they are all there is.
    let rest = FROM_CHANNELS.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let in_order = rest.map(|(_, &place)| place).is_sorted();
    if layout != Layout::Channels || !(keeps || in_order) {
        (x, layout) = (call.plain(0)?, Layout::Plain);
    }
    let mut places: Vec<i64> = axes.iter().map(|&a| layout.axis(a) as i64).collect();
    places.sort_unstable();
    places.dedup();
    let places = call.t.ints(&places, "axes");
    let keep = AttributeProto::int("keepdims", i64::from(keeps));
    let empty = AttributeProto::int("noop_with_empty_axes", 1);
    let y = call.add(op, &[&x, &places], vec![keep, empty], "");
    call.finish(y, if keeps { layout } else { Layout::Plain })
}

/// L2_NORMALIZATION: along the last axis of the file, by norms of at least 1e-6.
pub(super) fn l2(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (mut x, mut layout) = call.any(0)?;
    if layout != Layout::Channels {
        (x, layout) = (call.plain(0)?, Layout::Plain);
    }
    let axis = if layout == Layout::Channels { 1 } else { -1 };
    let square = call.add("Mul", &[&x, &x], Vec::new(), "square");
    let axes = call.t.ints(&[axis], "axes");
    let sum = call.add("ReduceSum", &[&square, &axes], Vec::new(), "sum");
    let root = call.add("Sqrt", &[&sum], Vec::new(), "sqrt");
    let least = call.t.floats(&[], &[1e-6], "least");
    let norm = call.add("Max", &[&root, &least], Vec::new(), "norm");
    let y = call.add("Div", &[&x, &norm], Vec::new(), "");
    let y = call.activation(y, call.option_u8(0)?)?;
    call.finish(y, layout)
}

/// Along the last axis of the file.
pub(super) fn softmax(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let log = call.op.name == "LOG_SOFTMAX";
    let (mut x, mut layout) = call.any(0)?;
    let axis = match layout {
        Layout::Channels => 1,
        _ => {
            (x, layout) = (call.plain(0)?, Layout::Plain);
            -1
        }
    };
    let beta = if log { 1.0 } else { call.option_f32(0)? };
    if beta != 1.0 {
        let factor = call.t.floats(&[], &[beta], "beta");
        x = call.add("Mul", &[&x, &factor], Vec::new(), "scaled");
    }
    let op = if log { "LogSoftmax" } else { "Softmax" };
    let y = call.add(op, &[&x], vec![AttributeProto::int("axis", axis)], "");
    let tensor = call.result(0)?;
    let quantized = call.t.subgraph.tensors[tensor].quantization.is_some();
    if !quantized || !call.t.only_leaves(tensor) {
        return call.finish(y, layout);
    }
    let name = call.t.subgraph.tensors[tensor].name.clone();
    call.t.warn(
        WarningKind::Quantization,
        format!(
            "`{name}` is not rounded to the file's integers: a loss takes the scores before it"
        ),
    );
    let dims = call.result_dims(0)?;
    call.define(0, y, layout, dims)
}
