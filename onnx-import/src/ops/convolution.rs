//! Convolution, and the windows it shares with pooling.

use trainc_ir::ops::{Add, Conv2d};

use crate::call::{Bound, Call, is_zero};
use crate::error::{NodeResult, invalid, unsupported};
use crate::limits::MAX_WINDOW;
use crate::ops::movement::one;

/// A 2-D window and how it moves; the fields are those of the graph's operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) pads: [usize; 4],
    pub(crate) dilations: [usize; 2],
    /// Whether the padding was computed: then the sizes divide up and `ceil_mode` has no effect.
    pub(crate) automatic: bool,
}

fn pair(call: &Call<'_, '_>, name: &'static str, low: i64) -> NodeResult<Option<[usize; 2]>> {
    let Some(values) = call.ints(name)? else { return Ok(None) };
    let &[a, b] = values else {
        return Err(unsupported(
            format!("attribute `{name}`"),
            format!("{} values", values.len()),
            "2 (two spatial dimensions)",
        ));
    };
    if [a, b].iter().any(|v| !(low..=MAX_WINDOW).contains(v)) {
        return Err(invalid!("attribute `{name}` is {values:?}"));
    }
    Ok(Some([a as usize, b as usize]))
}

/// Reads the attributes of a window over an operand of these dimensions.
pub(crate) fn window(
    call: &Call<'_, '_>,
    dims: &[usize],
    kernel: Option<[usize; 2]>,
) -> NodeResult<Window> {
    let &[_, _, height, width] = dims else {
        return Err(unsupported(
            "operand `X`",
            format!("{} dimensions", dims.len()),
            "4 (batch, channels, height, width)",
        ));
    };
    let given = pair(call, "kernel_shape", 1)?;
    if let (Some(given), Some(kernel)) = (given, kernel)
        && given != kernel
    {
        return Err(invalid!("`kernel_shape` {given:?}, but the weights are {kernel:?}"));
    }
    let Some(kernel) = kernel.or(given) else {
        return Err(invalid!("attribute `kernel_shape` is missing"));
    };
    let strides = pair(call, "strides", 1)?.unwrap_or([1, 1]);
    let dilations = pair(call, "dilations", 1)?.unwrap_or([1, 1]);
    if kernel.iter().any(|&k| k as i64 > MAX_WINDOW) {
        return Err(invalid!("a window of {kernel:?}"));
    }
    let auto_pad = call.string("auto_pad", "NOTSET")?;
    // ONNX: not both. Exporters write pads of zeros beside it, which say nothing to a pool.
    if auto_pad != "NOTSET"
        && let Some(pads) = call.ints("pads")?
        && (call.node.op_type == "Conv" || pads.iter().any(|&p| p != 0))
    {
        return Err(invalid!("`auto_pad` {auto_pad} together with `pads` {pads:?}"));
    }
    let mut pads = [0; 4];
    match auto_pad {
        "NOTSET" => {
            if let Some(values) = call.ints("pads")? {
                let &[top, left, bottom, right] = values else {
                    return Err(unsupported(
                        "attribute `pads`",
                        format!("{} values", values.len()),
                        "4 (two spatial dimensions)",
                    ));
                };
                if values.iter().any(|v| !(0..=MAX_WINDOW).contains(v)) {
                    return Err(unsupported("attribute `pads`", format!("{values:?}"), "from 0"));
                }
                pads = [top, left, bottom, right].map(|v| v as usize);
            }
        }
        "VALID" => {}
        "SAME_UPPER" | "SAME_LOWER" => {
            for (i, size) in [height, width].into_iter().enumerate() {
                let span = (kernel[i] - 1) * dilations[i] + 1;
                let moved = (size.div_ceil(strides[i]) - 1) * strides[i];
                let total = (moved + span).saturating_sub(size);
                let (less, more) = (total / 2, total - total / 2);
                let (before, after) =
                    if auto_pad == "SAME_UPPER" { (less, more) } else { (more, less) };
                (pads[i], pads[i + 2]) = (before, after);
            }
        }
        other => {
            return Err(unsupported(
                "attribute `auto_pad`",
                format!("`{other}`"),
                "NOTSET, SAME_UPPER, SAME_LOWER, VALID",
            ));
        }
    }
    for (i, size) in [height, width].into_iter().enumerate() {
        let span = (kernel[i] - 1) * dilations[i] + 1;
        if size + pads[i] + pads[i + 2] < span {
            return Err(invalid!(
                "a window of {span} does not fit the padded size {}",
                size + pads[i] + pads[i + 2]
            ));
        }
    }
    Ok(Window { kernel, strides, pads, dilations, automatic: auto_pad != "NOTSET" })
}

pub(crate) fn conv(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (x, w) = (call.f32(0)?, call.f32(1)?);
    let (dims, weights) = (call.shape(x), call.shape(w));
    let &[maps, per_group, height, width] = &*weights else {
        return Err(unsupported(
            "operand `W`",
            format!("{} dimensions", weights.len()),
            "4 (2-D convolution)",
        ));
    };
    let window = window(call, &dims, Some([height, width]))?;
    let groups = call.int("group", 1)?;
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&g| g > 0 && maps % g == 0 && per_group.checked_mul(g) == Some(dims[1]))
        .ok_or_else(|| invalid!("{groups} group(s) of {dims:?} with weights {weights:?}"))?;
    let op =
        Conv2d { strides: window.strides, pads: window.pads, dilations: window.dilations, groups };
    // Exporters write a bias of zeros for convolutions without one.
    let bias = call.given(2) && !call.known(2)?.is_some_and(|bias| is_zero(&bias));
    let y = call.add(op, &[x, w], if bias { "product" } else { "" })?;
    if !bias {
        return one(y);
    }
    call.f32(2)?;
    let bias = call.bound(2)?;
    if call.dims_of(&bias)? != [maps] {
        return Err(invalid!("a bias of shape {:?}, not [{maps}]", call.dims_of(&bias)?));
    }
    let bias = call.lower(&bias, "B")?;
    let op = trainc_ir::ops::Reshape { shape: vec![1, maps, 1, 1].into() };
    let bias = call.add(op, &[bias], "bias")?;
    one(call.add(Add {}, &[y, bias], "")?)
}
