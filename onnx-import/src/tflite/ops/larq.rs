//! Larq's binary operators: activations and weights that are +1 or -1, as FP32 between binary quantizers.
//!
//! The file packs 32 of them in an integer, the first in the lowest bit; a set bit is -1.

use std::borrow::Cow;

use crate::error::{NodeResult, invalid, unsupported};
use crate::limits;
use crate::proto::AttributeProto;
use crate::tflite::flexbuffer;
use crate::tflite::layout::Layout;
use crate::tflite::ops::Call;
use crate::tflite::ops::convolution::padding;
use crate::tflite::quantization::QUANTIZERS;
use crate::tflite::schema::Type;
use crate::tflite::translator::Value;

fn option(call: &Call<'_, '_>, key: &str) -> NodeResult<i64> {
    flexbuffer::integer(call.op.custom_options, key)
        .ok_or_else(|| invalid!("option `{key}` is missing"))
}

/// +1 where a value is not negative, -1 elsewhere.
fn binary(call: &mut Call<'_, '_>, x: &str, suffix: &str) -> String {
    let one = call.t.floats(&[], &[1.0], "one");
    let y = call.add("BipolarQuant", &[x, &one], Vec::new(), suffix);
    call.t.of_domain(QUANTIZERS);
    y
}

pub(super) fn quantize(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (dims, (x, layout)) = (call.dims(0)?, call.any(0)?);
    let y = binary(call, &x, "");
    // Not as the file has them: packed.
    call.define(0, y, layout, dims)
}

pub(super) fn dequantize(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (dims, (x, layout)) = (call.dims(0)?, call.any(0)?);
    call.define(0, x, layout, dims)
}

pub(super) fn max_pool(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let x = call.channels(0)?;
    let kernel = [option(call, "filter_height")?, option(call, "filter_width")?];
    let strides = [option(call, "stride_height")?, option(call, "stride_width")?];
    let attributes = vec![
        AttributeProto::string("auto_pad", padding(option(call, "padding")?)?),
        AttributeProto::ints("kernel_shape", &kernel),
        AttributeProto::ints("strides", &strides),
    ];
    let y = call.add("MaxPool", &[&x], attributes, "");
    let mut result = call.result_dims(0)?;
    if let (Some(last), Some(&channels)) = (result.last_mut(), dims.last()) {
        *last = channels;
    }
    call.define(0, y, Layout::Channels, result)
}

/// Weights of +1 and -1, [O, H, W, I], from [O, H, W, I / 32] integers of 32 bits.
fn unpacked(call: &mut Call<'_, '_>, per_group: usize) -> NodeResult<Value> {
    let tensor = call.operand(1)?;
    let dims = call.dims(1)?;
    let (&[o, h, w, words], Value::Stored { root, .. }) = (&dims[..], call.value(1)?) else {
        return Err(unsupported("operand 1", "binary weights computed at run time", "a constant"));
    };
    if words != per_group.div_ceil(32) {
        return Err(invalid!("binary weights {dims:?} for {per_group} channels"));
    }
    let packed = call.t.roots[root].clone();
    if packed.ty != Type::Int32 {
        return Err(invalid!("binary weights of {}", packed.ty.name()));
    }
    let count = limits::count(&[o, h, w, per_group]).ok_or_else(|| invalid!("too many weights"))?;
    call.t.spend_empty(count)?;
    let mut bytes = Vec::with_capacity(4 * count);
    for row in packed.bytes.chunks_exact(4 * words.max(1)) {
        for i in 0..per_group {
            let negative = row[i / 8] >> (i % 8) & 1 == 1;
            bytes.extend(if negative { -1f32 } else { 1f32 }.to_le_bytes());
        }
    }
    let name = call.t.subgraph.tensors[tensor].name.clone();
    call.t.root(&name, Type::Float32, vec![o, h, w, per_group], None, Cow::Owned(bytes))
}

/// Sums of products of +1 and -1 through a fused activation, then a gain and a shift for each channel; or +1 and -1 again,
/// by a threshold for each channel.
pub(super) fn conv(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (dims, filter) = (call.dims(0)?, call.dims(1)?);
    let mut x = call.channels(0)?;
    let (&[_, height, width, channels], &[outputs, kernel_h, kernel_w, words]) =
        (&dims[..], &filter[..])
    else {
        return Err(invalid!("operands {dims:?} and {filter:?}"));
    };
    if i64::try_from(channels) != Ok(option(call, "channels_in")?) {
        return Err(invalid!("{channels} channels, not option `channels_in`"));
    }
    // Groups have whole words.
    let groups = match words {
        _ if words == channels.div_ceil(32) => 1,
        1.. if channels.is_multiple_of(32 * words) => channels / (32 * words),
        _ => return Err(invalid!("{channels} channels with weights {filter:?}")),
    };
    let Value::Stored { root, .. } = unpacked(call, channels / groups)? else {
        return Err(invalid!("the weights are no constant"));
    };
    let weights = call.t.stored_permuted(root, vec![0, 3, 1, 2])?;
    let weights = binary(call, &weights, "weights");
    let strides = [option(call, "stride_height")?, option(call, "stride_width")?];
    let dilations =
        [option(call, "dilation_height_factor")?, option(call, "dilation_width_factor")?];
    let mut pad = padding(option(call, "padding")?)?;
    if pad != "VALID" && option(call, "pad_values")? == 1 {
        // The border holds +1.
        let sizes = [(height, kernel_h, 0), (width, kernel_w, 1)];
        let mut pads = vec![0i64; 8];
        for (size, kernel, i) in sizes {
            let (stride, dilation) = (strides[i], dilations[i]);
            if stride < 1
                || dilation < 1
                || stride > limits::MAX_WINDOW
                || dilation > limits::MAX_WINDOW
            {
                return Err(invalid!("strides {strides:?}, dilations {dilations:?}"));
            }
            let span = (kernel.max(1) as i64 - 1) * dilation + 1;
            let moved = ((size as i64 + stride - 1) / stride - 1) * stride;
            let total = (moved + span - size as i64).max(0);
            (pads[2 + i], pads[6 + i]) = (total / 2, total - total / 2);
        }
        let (pads, one) = (call.t.ints(&pads, "pads"), call.t.floats(&[], &[1.0], "border"));
        x = call.add("Pad", &[&x, &pads, &one], Vec::new(), "pad");
        pad = "VALID";
    }
    let attributes = vec![
        AttributeProto::string("auto_pad", pad),
        AttributeProto::ints("strides", &strides),
        AttributeProto::ints("dilations", &dilations),
        AttributeProto::int("group", groups as i64),
    ];
    let sums = call.add("Conv", &[&x, &weights], attributes, "");
    let mut result = call.result_dims(0)?;
    if let Some(last) = result.last_mut() {
        *last = outputs;
    }
    let tensor = call.result(0)?;
    match call.t.subgraph.tensors[tensor].ty {
        Type::Float32 => {}
        Type::Int32 => {
            let y = thresholds(call, sums, outputs, kernel_h * kernel_w * (channels / groups))?;
            return call.define(0, y, Layout::Channels, result);
        }
        other => {
            return Err(unsupported(
                "result",
                format!("element type {}", other.name()),
                "FLOAT32, and INT32 of packed bits",
            ));
        }
    }
    let code = u8::try_from(option(call, "fused_activation_function")?).unwrap_or(u8::MAX);
    let y = call.activation(sums, code)?;
    let shape = [1, outputs as i64, 1, 1];
    let gain = call.plain(2)?;
    let gain = call.t.reshape(&gain, &shape, "gain");
    let y = call.add("Mul", &[&y, &gain], Vec::new(), "scaled");
    let shift = call.plain(3)?;
    let shift = call.t.reshape(&shift, &shape, "shift");
    let y = call.add("Add", &[&y, &shift], Vec::new(), "shifted");
    call.define(0, y, Layout::Channels, result)
}

/// A result of bits: -1 where more products than the threshold are -1, of `terms` products.
fn thresholds(
    call: &mut Call<'_, '_>,
    sums: String,
    outputs: usize,
    terms: usize,
) -> NodeResult<String> {
    let limits = call.must_know(4, "thresholds")?;
    if limits.len() != outputs {
        return Err(invalid!("{} thresholds for {outputs} channels", limits.len()));
    }
    // A sum is the number of terms without twice those that are -1.
    let least: Vec<f32> =
        limits.iter().map(|&t| (terms as i64).saturating_sub(t.saturating_mul(2)) as f32).collect();
    let least = call.t.floats(&[1, outputs, 1, 1], &least, "thresholds");
    let above = call.add("Sub", &[&sums, &least], Vec::new(), "above");
    Ok(binary(call, &above, "binary"))
}
