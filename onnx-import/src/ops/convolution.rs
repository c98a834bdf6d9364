//! Convolutions, and the windows they share with pooling. A line `[N, C, L]` is an image of one row.

use trainc_ir::ValueId;
use trainc_ir::ops::{Add, Conv2d, Conv2dGradientInput, Reshape};

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

/// Values of an attribute for rows and columns; where the operand is a line, `row` for the rows.
fn pair(
    call: &Call<'_, '_>,
    name: &'static str,
    [low, row]: [i64; 2],
    spatial: usize,
) -> NodeResult<Option<[usize; 2]>> {
    let Some(values) = call.ints(name)? else { return Ok(None) };
    let [a, b] = match *values {
        [b] if spatial == 1 => [row, b],
        [a, b] if spatial == 2 => [a, b],
        _ => {
            return Err(invalid!(
                "attribute `{name}` has {} values for {spatial} spatial dimension(s)",
                values.len()
            ));
        }
    };
    if [a, b].iter().any(|v| !(low..=MAX_WINDOW).contains(v)) {
        return Err(invalid!("attribute `{name}` is {values:?}"));
    }
    Ok(Some([a as usize, b as usize]))
}

/// Padding (top, left, bottom, right) that the file gives.
fn given_pads(call: &Call<'_, '_>, spatial: usize) -> NodeResult<[usize; 4]> {
    let Some(values) = call.ints("pads")? else { return Ok([0; 4]) };
    let pads = match *values {
        [left, right] if spatial == 1 => [0, left, 0, right],
        [top, left, bottom, right] if spatial == 2 => [top, left, bottom, right],
        _ => {
            return Err(invalid!(
                "attribute `pads` has {} values for {spatial} spatial dimension(s)",
                values.len()
            ));
        }
    };
    if values.iter().any(|v| !(0..=MAX_WINDOW).contains(v)) {
        return Err(unsupported(
            "attribute `pads`",
            format!("{values:?}"),
            "from 0; a Slice before the operator takes elements away",
        ));
    }
    Ok(pads.map(|v| v as usize))
}

/// Dimensions of an operand as an image, and how many of them are spatial.
fn image(dims: &[usize]) -> NodeResult<([usize; 4], usize)> {
    match *dims {
        [n, c, l] => Ok(([n, c, 1, l], 1)),
        [n, c, h, w] => Ok(([n, c, h, w], 2)),
        _ => Err(unsupported(
            "operand `X`",
            format!("{} dimensions", dims.len()),
            "3 (batch, channels, length) or 4 (batch, channels, height, width)",
        )),
    }
}

impl Call<'_, '_> {
    /// An operand `[N, C, L]` as an image of one row; images as they are.
    pub(super) fn as_image(&mut self, x: ValueId, suffix: &str) -> NodeResult<ValueId> {
        match *self.shape(x) {
            [n, c, l] => self.add(Reshape { shape: [n, c, 1, l].into() }, &[x], suffix),
            _ => Ok(x),
        }
    }

    /// An image of one row as a line again, if it was one.
    pub(super) fn as_line(&mut self, y: ValueId, line: bool) -> NodeResult<ValueId> {
        match *self.shape(y) {
            [n, c, 1, l] if line => self.add(Reshape { shape: [n, c, l].into() }, &[y], ""),
            _ => Ok(y),
        }
    }
}

/// Reads the attributes of a window over an operand of these dimensions.
pub(crate) fn window(
    call: &Call<'_, '_>,
    dims: &[usize],
    kernel: Option<[usize; 2]>,
) -> NodeResult<Window> {
    let ([_, _, height, width], spatial) = image(dims)?;
    let given = pair(call, "kernel_shape", [1, 1], spatial)?;
    if let (Some(given), Some(kernel)) = (given, kernel)
        && given != kernel
    {
        return Err(invalid!("`kernel_shape` {given:?}, but the weights are {kernel:?}"));
    }
    let Some(kernel) = kernel.or(given) else {
        return Err(invalid!("attribute `kernel_shape` is missing"));
    };
    let strides = pair(call, "strides", [1, 1], spatial)?.unwrap_or([1, 1]);
    let dilations = pair(call, "dilations", [1, 1], spatial)?.unwrap_or([1, 1]);
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
        "NOTSET" => pads = given_pads(call, spatial)?,
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
    let ([_, channels, ..], spatial) = image(&dims)?;
    let ([maps, per_group, height, width], _) = image(&weights)?;
    if weights.len() != dims.len() {
        return Err(invalid!("weights {weights:?} for {dims:?}"));
    }
    let window = window(call, &dims, Some([height, width]))?;
    let groups = call.int("group", 1)?;
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&g| g > 0 && maps % g == 0 && per_group.checked_mul(g) == Some(channels))
        .ok_or_else(|| invalid!("{groups} group(s) of {dims:?} with weights {weights:?}"))?;
    let op =
        Conv2d { strides: window.strides, pads: window.pads, dilations: window.dilations, groups };
    let (x, w) = (call.as_image(x, "image")?, call.as_image(w, "kernels")?);
    let last = spatial == 2 && !has_bias(call)?;
    let y = call.add(op, &[x, w], if last { "" } else { "product" })?;
    let y = biased(call, y, maps, spatial == 1)?;
    one(call.as_line(y, spatial == 1)?)
}

/// Whether there is a bias; exporters write one of zeros for convolutions without.
fn has_bias(call: &mut Call<'_, '_>) -> NodeResult<bool> {
    Ok(call.given(2) && !call.known(2)?.is_some_and(|bias| is_zero(&bias)))
}

/// The bias added to the maps of a convolution, if there is one.
fn biased(call: &mut Call<'_, '_>, y: ValueId, maps: usize, inner: bool) -> NodeResult<ValueId> {
    if !has_bias(call)? {
        return Ok(y);
    }
    call.f32(2)?;
    let bias = call.bound(2)?;
    if call.dims_of(&bias)? != [maps] {
        return Err(invalid!("a bias of shape {:?}, not [{maps}]", call.dims_of(&bias)?));
    }
    let bias = call.lower(&bias, "B")?;
    let op = Reshape { shape: vec![1, maps, 1, 1].into() };
    let bias = call.add(op, &[bias], "bias")?;
    call.add(Add {}, &[y, bias], if inner { "sum" } else { "" })
}

/// A transposed convolution is the error of the operand of a convolution with the same weights.
pub(crate) fn conv_transpose(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (x, w) = (call.f32(0)?, call.f32(1)?);
    let (dims, weights) = (call.shape(x), call.shape(w));
    let ([_, channels, rows, columns], spatial) = image(&dims)?;
    let ([inputs, per_group, height, width], _) = image(&weights)?;
    if weights.len() != dims.len() || inputs != channels {
        return Err(invalid!("weights {weights:?} for {dims:?}"));
    }
    let kernel = [height, width];
    if pair(call, "kernel_shape", [1, 1], spatial)?.is_some_and(|given| given != kernel) {
        return Err(invalid!("`kernel_shape` differs from the weights, {kernel:?}"));
    }
    let strides = pair(call, "strides", [1, 1], spatial)?.unwrap_or([1, 1]);
    let dilations = pair(call, "dilations", [1, 1], spatial)?.unwrap_or([1, 1]);
    let more = pair(call, "output_padding", [0, 0], spatial)?.unwrap_or([0, 0]);
    let shape = pair(call, "output_shape", [1, 1], spatial)?;
    let groups = call.int("group", 1)?;
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&g| g > 0 && inputs % g == 0)
        .ok_or_else(|| invalid!("{groups} group(s) of {dims:?} with weights {weights:?}"))?;
    let auto_pad = call.string("auto_pad", "NOTSET")?;
    let mut pads = given_pads(call, spatial)?;
    let mut input_size = [0; 2];
    let mut more = more;
    for i in 0..2 {
        let span = (kernel[i] - 1) * dilations[i] + 1;
        let mut full = ([rows, columns][i] - 1) * strides[i] + span + more[i];
        let wanted = match (shape, auto_pad) {
            (Some(shape), _) if !(spatial == 1 && i == 0) => Some(shape[i]),
            (_, "SAME_UPPER" | "SAME_LOWER") => Some([rows, columns][i] * strides[i]),
            (_, "NOTSET" | "VALID") => None,
            (_, other) => return Err(invalid!("`auto_pad` is `{other}`")),
        };
        if let Some(wanted) = wanted {
            more[i] += wanted.saturating_sub(full);
            full = full.max(wanted);
            let total = full - wanted;
            let (less, rest) = (total / 2, total - total / 2);
            (pads[i], pads[i + 2]) =
                if auto_pad == "SAME_UPPER" { (less, rest) } else { (rest, less) };
        }
        input_size[i] = full
            .checked_sub(pads[i] + pads[i + 2])
            .filter(|&size| size > 0)
            .ok_or_else(|| invalid!("pads {pads:?} leave nothing of {full}"))?;
        if more[i] >= strides[i] && more[i] > 0 {
            return Err(unsupported(
                "attributes `output_padding` and `output_shape`",
                format!("{} element(s) beyond the windows, with stride {}", more[i], strides[i]),
                "fewer than the stride; a Pad behind the operator adds zeros",
            ));
        }
    }
    let op = Conv2dGradientInput { strides, pads, dilations, groups, input_size };
    let (x, w) = (call.as_image(x, "image")?, call.as_image(w, "kernels")?);
    let last = spatial == 2 && !has_bias(call)?;
    let y = call.add(op, &[x, w], if last { "" } else { "product" })?;
    let y = biased(call, y, per_group * groups, spatial == 1)?;
    one(call.as_line(y, spatial == 1)?)
}
