//! Reductions over axes.

use trainc_ir::Op;
use trainc_ir::ops::{ReduceMax, ReduceSum};

use crate::call::{Bound, Call, sorted_axes};
use crate::error::{NodeResult, unsupported};
use crate::ops::movement::one;
use crate::ops::pooling::spatial_mean;
use crate::shapes;

pub(crate) fn reduce(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let name = call.node.op_type.as_str();
    // Axes became an operand in opset 13 for ReduceSum, in 18 for the others.
    let since = if name == "ReduceSum" { 13 } else { 18 };
    let axes = call.axes(since, 1)?.unwrap_or_default();
    let keep_dims = call.flag("keepdims", true)?;
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    if axes.is_empty() && call.flag("noop_with_empty_axes", false)? {
        return one(x);
    }
    let axes = match axes.is_empty() {
        true => (0..dims.len()).collect(),
        false => sorted_axes(&axes, dims.len())?,
    };
    if let Bound::Known(known) = &x
        && let Some(folded) = shapes::reduce(known, name, &axes, keep_dims)?
    {
        return one(folded);
    }
    if name == "ReduceMean" {
        let x = call.f32(0)?;
        return one(match dims.is_empty() {
            true => x,
            false => spatial_mean(call, x, axes, keep_dims)?,
        });
    }
    let op: Op = match name {
        "ReduceSum" => ReduceSum { axes, keep_dims }.into(),
        "ReduceMax" => ReduceMax { axes, keep_dims }.into(),
        _ => return Err(unsupported("operand `data`", "floats", "known integers")),
    };
    let x = call.f32(0)?;
    if dims.is_empty() {
        return one(x);
    }
    one(call.add(op, &[x], "")?)
}
