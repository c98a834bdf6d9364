//! Convolutions and pools.

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::AttributeProto;
use crate::tflite::layout::{Layout, permuted};
use crate::tflite::ops::Call;
use crate::tflite::translator::Value;

/// The padding's name in ONNX: where it is computed the odd element comes last.
pub(super) fn padding(code: i64) -> NodeResult<&'static str> {
    match code {
        0 => Ok("SAME_UPPER"),
        1 => Ok("VALID"),
        other => Err(unsupported("option `padding`", format!("number {other}"), "SAME, VALID")),
    }
}

/// Weights with their axes permuted for ONNX.
pub(super) fn weights(
    call: &mut Call<'_, '_>,
    operand: usize,
    order: &[usize; 4],
) -> NodeResult<String> {
    let dims = call.dims(operand)?;
    if dims.len() != 4 {
        return Err(invalid!("weights of {} dimensions", dims.len()));
    }
    match call.value(operand)? {
        Value::Stored { root, permutation } => {
            call.t.stored_permuted(root, permuted(&permutation, order))
        }
        _ => {
            let x = call.plain(operand)?;
            Ok(call.t.transpose(&x, order, "weights"))
        }
    }
}

/// Whether a layer's third operand is a bias. In a file that keeps its parameters in variables a constant of zeros is none:
/// the converter writes it, and what is trained is added behind.
pub(super) fn has_bias(call: &mut Call<'_, '_>) -> NodeResult<bool> {
    if !call.given(2) || call.t.variables.is_empty() {
        return Ok(call.given(2));
    }
    let Value::Stored { root, .. } = call.value(2)? else { return Ok(true) };
    let variable = call.t.variables.values().any(|&v| v == root);
    Ok(variable || call.t.roots[root].bytes.iter().any(|&b| b != 0))
}

/// CONV_2D: weights [O, H, W, I]; DEPTHWISE_CONV_2D: weights [1, H, W, O].
pub(super) fn conv(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let depthwise = call.op.name == "DEPTHWISE_CONV_2D";
    let (x, dims, kernel) = (call.channels(0)?, call.dims(0)?, call.dims(1)?);
    let order = if depthwise { [3, 0, 1, 2] } else { [0, 3, 1, 2] };
    let w = weights(call, 1, &order)?;
    let inputs = dims[3];
    let groups = match depthwise {
        true => inputs,
        false if kernel[3] > 0 && inputs % kernel[3] == 0 => inputs / kernel[3],
        false => return Err(invalid!("{inputs} channels with weights {kernel:?}")),
    };
    if depthwise && kernel[0] != 1 {
        return Err(invalid!("depthwise weights {kernel:?}"));
    }
    // The options of the two differ by the depth multiplier, which the weights state, too.
    let (activation, dilation) = if depthwise { (4, 5) } else { (3, 4) };
    let strides = [call.option_i32(2, 0)?, call.option_i32(1, 0)?].map(i64::from);
    let dilations =
        [call.option_i32(dilation + 1, 1)?, call.option_i32(dilation, 1)?].map(i64::from);
    let attributes = vec![
        AttributeProto::string("auto_pad", padding(call.option_u8(0)?.into())?),
        AttributeProto::ints("strides", &strides),
        AttributeProto::ints("dilations", &dilations),
        AttributeProto::int("group", groups as i64),
    ];
    let mut operands = vec![x, w];
    if has_bias(call)? {
        operands.push(call.plain(2)?);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let y = call.add("Conv", &operands, attributes, "");
    let y = call.activation(y, call.option_u8(activation)?)?;
    call.finish(y, Layout::Channels)
}

/// AVERAGE_POOL_2D, whose padding does not count, and MAX_POOL_2D.
pub(super) fn pool(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let x = call.channels(0)?;
    let kernel = [call.option_i32(4, 0)?, call.option_i32(3, 0)?].map(i64::from);
    let strides = [call.option_i32(2, 0)?, call.option_i32(1, 0)?].map(i64::from);
    let attributes = vec![
        AttributeProto::string("auto_pad", padding(call.option_u8(0)?.into())?),
        AttributeProto::ints("kernel_shape", &kernel),
        AttributeProto::ints("strides", &strides),
    ];
    let moves = call.op.name == "MAX_POOL_2D";
    let y = call.add(if moves { "MaxPool" } else { "AveragePool" }, &[&x], attributes, "");
    let code = call.option_u8(5)?;
    let y = call.activation(y, code)?;
    match moves && code == 0 {
        true => call.finish_moved(0, y, Layout::Channels),
        false => call.finish(y, Layout::Channels),
    }
}
