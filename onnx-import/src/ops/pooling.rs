//! Pooling.

use trainc_ir::ValueId;
use trainc_ir::ops::{AvgPool2d, MaxPool2d, ReduceMax, ReduceMean, Reshape};

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::ops::convolution::window;
use crate::ops::movement::one;

pub(crate) fn max_pool(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if call.uses_output(1) {
        return Err(unsupported("output `Indices`", "is used", "the maxima only"));
    }
    // Only Indices depend on it.
    call.int("storage_order", 0)?;
    let x = call.f32(0)?;
    let window = window(call, &call.shape(x), None)?;
    let line = call.shape(x).len() == 3;
    let x = call.as_image(x, "image")?;
    let ceil = call.flag("ceil_mode", false)? && !window.automatic;
    let op = MaxPool2d {
        kernel: window.kernel,
        strides: window.strides,
        pads: window.pads,
        dilations: window.dilations,
        ceil,
    };
    let y = call.add(op, &[x], if line { "pooled" } else { "" })?;
    one(call.as_line(y, line)?)
}

pub(crate) fn average_pool(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.f32(0)?;
    let window = window(call, &call.shape(x), None)?;
    if window.dilations != [1, 1] {
        return Err(unsupported(
            "attribute `dilations`",
            format!("{:?}", window.dilations),
            "[1, 1]",
        ));
    }
    let line = call.shape(x).len() == 3;
    let x = call.as_image(x, "image")?;
    let ceil = call.flag("ceil_mode", false)? && !window.automatic;
    let count_include_pad = call.flag("count_include_pad", false)?;
    let op = AvgPool2d {
        kernel: window.kernel,
        strides: window.strides,
        pads: window.pads,
        ceil,
        count_include_pad,
    };
    let y = call.add(op, &[x], if line { "pooled" } else { "" })?;
    one(call.as_line(y, line)?)
}

fn spatial_axes(dims: &[usize]) -> NodeResult<Vec<usize>> {
    match dims.len() {
        0..=2 => Err(invalid!("no spatial dimensions in {dims:?}")),
        rank => Ok((2..rank).collect()),
    }
}

pub(crate) fn global_average_pool(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.f32(0)?;
    let axes = spatial_axes(&call.shape(x))?;
    one(spatial_mean(call, x, axes, true)?)
}

/// Mean over axes: the pool of the whole plane where these are the two spatial axes of an image (the same sums in the
/// same order, and a form that every training algorithm knows), a reduction otherwise.
pub(super) fn spatial_mean(
    call: &mut Call<'_, '_>,
    x: ValueId,
    axes: Vec<usize>,
    keep_dims: bool,
) -> NodeResult<ValueId> {
    let dims = call.shape(x);
    if axes.iter().all(|&axis| dims[axis] == 1) {
        // The mean of one element is the element.
        let kept = |axis: &usize| keep_dims || !axes.contains(axis);
        let shape = (0..dims.len()).filter(kept).map(|axis| dims[axis]).collect();
        let same = call.reshaped(&x.into(), shape)?;
        return call.lower(&same, "the operand");
    }
    let [batch, channels, height, width] = dims[..] else {
        return call.add(ReduceMean { axes, keep_dims }, &[x], "");
    };
    if axes != [2, 3] || height == 0 || width == 0 {
        return call.add(ReduceMean { axes, keep_dims }, &[x], "");
    }
    let whole = AvgPool2d {
        kernel: [height, width],
        strides: [1, 1],
        pads: [0; 4],
        ceil: false,
        count_include_pad: false,
    };
    let mean = call.add(whole, &[x], "")?;
    if keep_dims {
        return Ok(mean);
    }
    call.add(Reshape { shape: [batch, channels].into() }, &[mean], "flat")
}

pub(crate) fn global_max_pool(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.f32(0)?;
    let axes = spatial_axes(&call.shape(x))?;
    one(call.add(ReduceMax { axes, keep_dims: true }, &[x], "")?)
}
