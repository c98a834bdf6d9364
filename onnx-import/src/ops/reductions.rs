//! Reductions over axes.

use trainc_ir::ValueId;
use trainc_ir::ops::{Abs, Add, Div, Exp, Log, Mul, Neg, ReduceMax, ReduceSum, Sqrt, Sub};

use crate::call::{Bound, Call, axis, sorted_axes};
use crate::error::{NodeResult, invalid, unsupported};
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
    if dims.is_empty() && matches!(name, "ReduceSum" | "ReduceMax" | "ReduceMin") {
        return one(call.f32(0)?);
    }
    let x = call.f32(0)?;
    one(reduction(call, name, x, axes, keep_dims)?)
}

/// A reduction of FP32 values by those that graphs have.
fn reduction(
    call: &mut Call<'_, '_>,
    name: &str,
    x: ValueId,
    axes: Vec<usize>,
    keep_dims: bool,
) -> NodeResult<ValueId> {
    let sum = ReduceSum { axes: axes.clone(), keep_dims };
    match name {
        "ReduceSum" => call.add(sum, &[x], ""),
        "ReduceMax" => call.add(ReduceMax { axes, keep_dims }, &[x], ""),
        "ReduceMin" => {
            let turned = call.add(Neg {}, &[x], "turned")?;
            let largest = call.add(ReduceMax { axes, keep_dims }, &[turned], "largest")?;
            call.add(Neg {}, &[largest], "")
        }
        "ReduceL1" => {
            let sizes = call.add(Abs {}, &[x], "sizes")?;
            call.add(sum, &[sizes], "")
        }
        "ReduceSumSquare" => {
            let squares = call.add(Mul {}, &[x, x], "squares")?;
            call.add(sum, &[squares], "")
        }
        "ReduceL2" => {
            let squares = call.add(Mul {}, &[x, x], "squares")?;
            let total = call.add(sum, &[squares], "sum")?;
            call.add(Sqrt {}, &[total], "")
        }
        "ReduceLogSum" => {
            let total = call.add(sum, &[x], "sum")?;
            call.add(Log {}, &[total], "")
        }
        "ReduceLogSumExp" => {
            // Less the largest, so that nothing overflows.
            let largest = ReduceMax { axes: axes.clone(), keep_dims: true };
            let largest = call.add(largest, &[x], "largest")?;
            let less = call.add(Sub {}, &[x, largest], "less")?;
            let powers = call.add(Exp {}, &[less], "powers")?;
            let total = call.add(sum, &[powers], "sum")?;
            let logarithm = call.add(Log {}, &[total], "logarithm")?;
            let shape = call.shape(logarithm);
            let largest = call.reshaped(&largest.into(), shape)?;
            let largest = call.lower(&largest, "the largest")?;
            call.add(Add {}, &[logarithm, largest], "")
        }
        other => Err(unsupported(
            "operand `data`",
            format!("{other} of floats"),
            "known integers; for floats the other reductions",
        )),
    }
}

/// `x / norm(x)` along an axis.
pub(crate) fn lp_normalization(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.f32(0)?;
    let at = axis(call.int("axis", -1)?, call.shape(x).len())?;
    let name = match call.int("p", 2)? {
        1 => "ReduceL1",
        2 => "ReduceL2",
        other => return Err(invalid!("`p` is {other}, not 1 or 2")),
    };
    let norm = reduction(call, name, x, vec![at], true)?;
    one(call.add(Div {}, &[x, norm], "normal")?)
}
