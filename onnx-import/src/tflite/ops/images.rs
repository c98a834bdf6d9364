//! Operators that change the size of images.

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::AttributeProto;
use crate::tflite::layout::Layout;
use crate::tflite::ops::Call;
use crate::tflite::ops::convolution::{padding, weights};

/// RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR.
pub(super) fn resize(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let nearest = call.op.name == "RESIZE_NEAREST_NEIGHBOR";
    // The other's first two options are sizes of old files.
    let first = if nearest { 0 } else { 2 };
    let (corners, half) = (call.option_u8(first)? != 0, call.option_u8(first + 1)? != 0);
    let (place, rounding) = match (corners, half) {
        (false, false) => ("asymmetric", "floor"),
        (false, true) => ("half_pixel", "round_prefer_ceil"),
        (true, false) => ("align_corners", "round_prefer_ceil"),
        (true, true) => {
            return Err(unsupported(
                "options",
                "align_corners with half_pixel_centers",
                "one of them",
            ));
        }
    };
    let sizes = call.must_know(1, "sizes")?;
    if sizes.len() != 2 {
        return Err(invalid!("{} sizes for rows and columns", sizes.len()));
    }
    let x = call.channels(0)?;
    let sizes = call.t.ints(&sizes, "sizes");
    let attributes = vec![
        AttributeProto::ints("axes", &[2, 3]),
        AttributeProto::string("mode", if nearest { "nearest" } else { "linear" }),
        AttributeProto::string("coordinate_transformation_mode", place),
        AttributeProto::string("nearest_mode", rounding),
    ];
    let y = call.add("Resize", &[&x, "", "", &sizes], attributes, "");
    match nearest {
        true => call.finish_moved(0, y, Layout::Channels),
        false => call.finish(y, Layout::Channels),
    }
}

/// TRANSPOSE_CONV: sizes of the result, weights [O, H, W, I], operand, bias.
pub(super) fn transpose_conv(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let sizes = call.must_know(0, "sizes of the result")?;
    let (dims, kernel) = (call.dims(2)?, call.dims(1)?);
    if sizes.len() != 4 || dims.len() != 4 || kernel.len() != 4 {
        return Err(invalid!("a result {sizes:?} of {dims:?} and weights {kernel:?}"));
    }
    let same = padding(call.option_u8(0)?.into())? == "SAME_UPPER";
    let strides = [call.option_i32(2, 0)?, call.option_i32(1, 0)?].map(i64::from);
    let (mut before, mut after, mut beyond) = ([0; 2], [0; 2], [0; 2]);
    for i in 0..2 {
        let whole = (dims[i + 1] as i64 - 1)
            .checked_mul(strides[i])
            .and_then(|n| n.checked_add(kernel[i + 1] as i64));
        let over = whole.and_then(|whole| whole.checked_sub(sizes[i + 1]));
        let over = over.ok_or_else(|| invalid!("strides {strides:?} of {dims:?}"))?;
        // What is cut off: half of it before the image where padding is computed, else all behind it.
        before[i] = if same { over.max(0) / 2 } else { 0 };
        after[i] = over.max(0) - before[i];
        beyond[i] = (-over).max(0);
    }
    let x = call.channels(2)?;
    let w = weights(call, 1, &[3, 0, 1, 2])?;
    let mut operands = vec![x, w];
    if call.given(3) {
        operands.push(call.plain(3)?);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let attributes = vec![
        AttributeProto::ints("strides", &strides),
        AttributeProto::ints("pads", &[before, after].concat()),
        AttributeProto::ints("output_padding", &beyond),
    ];
    let y = call.add("ConvTranspose", &operands, attributes, "");
    let y = call.activation(y, call.option_u8(3)?)?;
    call.finish(y, Layout::Channels)
}

/// DEPTH_TO_SPACE and SPACE_TO_DEPTH.
pub(super) fn blocks(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let op = if call.op.name == "DEPTH_TO_SPACE" { "DepthToSpace" } else { "SpaceToDepth" };
    let x = call.channels(0)?;
    let size = AttributeProto::int("blocksize", call.option_i32(0, 0)?.into());
    let y = call.add(op, &[&x], vec![size], "");
    call.finish_moved(0, y, Layout::Channels)
}
