//! Operators on elements, alone and in pairs with NumPy's rule.

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::{AttributeProto, data_type};
use crate::tflite::layout::{Layout, TO_CHANNELS};
use crate::tflite::ops::Call;
use crate::tflite::schema::Type;
use crate::tflite::translator::Value;

/// One operand as it is, in its own layout.
pub(super) fn unary(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (x, layout) = call.any(0)?;
    let y = match &*call.op.name {
        "RELU6" => call.clip(&x, 0.0, 6.0),
        "RELU_N1_TO_1" => call.clip(&x, -1.0, 1.0),
        "RELU_0_TO_1" => call.clip(&x, 0.0, 1.0),
        "RSQRT" => {
            let root = call.add("Sqrt", &[&x], Vec::new(), "sqrt");
            call.add("Reciprocal", &[&root], Vec::new(), "")
        }
        name => {
            let op = match name {
                "ABS" => "Abs",
                "CEIL" => "Ceil",
                "ELU" => "Elu",
                "EXP" => "Exp",
                "FLOOR" => "Floor",
                "HARD_SWISH" => "HardSwish",
                "LOG" => "Log",
                "LOGICAL_NOT" => "Not",
                "LOGISTIC" => "Sigmoid",
                "NEG" => "Neg",
                "RELU" => "Relu",
                "SIGN" => "Sign",
                "SQRT" => "Sqrt",
                "TANH" => "Tanh",
                other => return Err(invalid!("{other} is none on single elements")),
            };
            call.add(op, &[&x], Vec::new(), "")
        }
    };
    call.finish(y, layout)
}

/// QUANTIZE and DEQUANTIZE: the same number, on the result's grid if it has one.
pub(super) fn same(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (tensor, source) = (call.result(0)?, call.operand(0)?);
    let ty = call.t.subgraph.tensors[source].ty;
    let value = call.value(0)?;
    if let Value::Stored { .. } = value
        && (ty.is_float() || call.t.subgraph.tensors[source].quantization.is_some())
        && call.t.subgraph.tensors[tensor].ty == Type::Float32
    {
        call.t.values.insert(tensor, value);
        return Ok(());
    }
    let (x, layout) = call.any(0)?;
    call.finish_moved(0, x, layout)
}

pub(super) fn cast(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (source, tensor) = (call.operand(0)?, call.result(0)?);
    let (from, to) = (call.t.subgraph.tensors[source].ty, call.t.subgraph.tensors[tensor].ty);
    let (x, layout) = call.any(0)?;
    let code = match to {
        _ if from == to || (from.is_float() && to.is_float()) => {
            return call.finish_moved(0, x, layout);
        }
        Type::Float32 => data_type::FLOAT,
        Type::Int32 | Type::Int64 => data_type::INT64,
        Type::Bool => data_type::BOOL,
        other => {
            return Err(unsupported(
                "result",
                format!("element type {}", other.name()),
                "FLOAT32, INT32, INT64, BOOL",
            ));
        }
    };
    let y = call.add("Cast", &[&x], vec![AttributeProto::int("to", code.into())], "");
    call.finish(y, layout)
}

pub(super) fn leaky_relu(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (x, layout) = call.any(0)?;
    let alpha = AttributeProto::float("alpha", call.option_f32(0)?);
    let y = call.add("LeakyRelu", &[&x], vec![alpha], "");
    call.finish(y, layout)
}

pub(super) fn gelu(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (x, layout) = call.any(0)?;
    let approximate = if call.option_u8(0)? != 0 { "tanh" } else { "none" };
    let y = call.add("Gelu", &[&x], vec![AttributeProto::string("approximate", approximate)], "");
    call.finish(y, layout)
}

pub(super) fn square(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (x, layout) = call.any(0)?;
    let y = call.add("Mul", &[&x, &x], Vec::new(), "");
    call.finish(y, layout)
}

/// max(x, 0) - slope * max(-x, 0).
pub(super) fn prelu(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (operands, layout) = aligned(call, &[0, 1])?;
    let [x, slope] = &operands[..] else { return Err(invalid!("operands are missing")) };
    let above = call.add("Relu", &[x], Vec::new(), "above");
    let minus = call.add("Neg", &[x], Vec::new(), "minus");
    let below = call.add("Relu", &[&minus], Vec::new(), "below");
    let scaled = call.add("Mul", &[&below, slope], Vec::new(), "scaled");
    let y = call.add("Sub", &[&above, &scaled], Vec::new(), "");
    call.finish(y, layout)
}

/// ADD_N.
pub(super) fn sum(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let all: Vec<usize> = (0..call.operands()).collect();
    let (operands, layout) = aligned(call, &all)?;
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let y = call.add("Sum", &operands, Vec::new(), "");
    call.finish(y, layout)
}

pub(super) fn squared_difference(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (operands, layout) = aligned(call, &[0, 1])?;
    let [x, y] = &operands[..] else { return Err(invalid!("operands are missing")) };
    let difference = call.add("Sub", &[x, y], Vec::new(), "difference");
    let square = call.add("Mul", &[&difference, &difference], Vec::new(), "");
    call.finish(square, layout)
}

pub(super) fn binary(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (op, fused) = match &*call.op.name {
        "ADD" => ("Add", true),
        "SUB" => ("Sub", true),
        "MUL" => ("Mul", true),
        "DIV" => ("Div", true),
        "MAXIMUM" => ("Max", false),
        "MINIMUM" => ("Min", false),
        "POW" => ("Pow", false),
        other => return Err(invalid!("{other} is none on pairs")),
    };
    let (operands, layout) = aligned(call, &[0, 1])?;
    let [x, y] = &operands[..] else { return Err(invalid!("operands are missing")) };
    let z = call.add(op, &[x, y], Vec::new(), "");
    let code = if fused { call.option_u8(0)? } else { 0 };
    let z = call.activation(z, code)?;
    call.finish(z, layout)
}

/// Operands in one layout: that of the first that has one of its own, if the others can follow.
pub(super) fn aligned(
    call: &mut Call<'_, '_>,
    operands: &[usize],
) -> NodeResult<(Vec<String>, Layout)> {
    let mut values = Vec::new();
    for &i in operands {
        values.push((call.dims(i)?, call.value(i)?));
    }
    let own = values.iter().find_map(|(_, value)| match value {
        Value::Computed { forms, .. } => Some(forms[0].0).filter(|&own| own != Layout::Plain),
        _ => None,
    });
    let layout = own
        .filter(|&layout| values.iter().all(|(dims, value)| follows(layout, dims, value)))
        .unwrap_or(Layout::Plain);
    let mut names = Vec::new();
    for &i in operands {
        names.push(match layout {
            Layout::Channels => beside_image(call, i)?,
            Layout::Flat(_) => call.any(i)?.0,
            Layout::Plain => call.plain(i)?,
        });
    }
    Ok((names, layout))
}

/// Whether a value can stand beside another of this layout.
fn follows(layout: Layout, dims: &[usize], value: &Value) -> bool {
    let own = match value {
        Value::Computed { forms, .. } => forms[0].0,
        _ => Layout::Plain,
    };
    let single = dims.iter().product::<usize>() == 1;
    match layout {
        _ if own == layout || single => true,
        Layout::Channels => dims.len() == 4 || matches!(value, Value::Stored { .. }),
        _ => false,
    }
}

/// An operand as it stands beside an image whose channels are behind the batch.
fn beside_image(call: &mut Call<'_, '_>, i: usize) -> NodeResult<String> {
    let dims = call.dims(i)?;
    match (call.value(i)?, &dims[..]) {
        (_, dims) if dims.iter().product::<usize>() == 1 => call.plain(i),
        (_, [_, _, _, _]) => call.channels(i),
        // As a bias stands beside a convolution.
        (_, &[channels]) => {
            let x = call.plain(i)?;
            Ok(call.t.reshape(&x, &[1, channels as i64, 1, 1], "per_channel"))
        }
        _ => {
            let x = call.plain(i)?;
            let mut image = vec![1usize; 4usize.saturating_sub(dims.len())];
            image.extend(&dims);
            let shape: Vec<i64> = image.iter().map(|&d| d as i64).collect();
            let x = call.t.reshape(&x, &shape, "image");
            Ok(call.t.transpose(&x, &TO_CHANNELS, "layout"))
        }
    }
}
