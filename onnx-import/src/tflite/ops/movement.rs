//! Operators that move elements.

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::AttributeProto;
use crate::tflite::layout::{FROM_CHANNELS, Layout, TO_CHANNELS, moves_nothing, permuted};
use crate::tflite::ops::Call;
use crate::tflite::ops::elementwise::aligned;
use crate::tflite::translator::Value;

/// The layout and name of an operand for work along axes: an image as it is, all else with the file's axes.
fn along_axes(call: &mut Call<'_, '_>, i: usize) -> NodeResult<(String, Layout)> {
    match call.any(i)? {
        (x, Layout::Channels) => Ok((x, Layout::Channels)),
        _ => Ok((call.plain(i)?, Layout::Plain)),
    }
}

/// The sizes that RESHAPE gives: of its operand if that is a constant, or of its option, else what the file states.
fn target(call: &mut Call<'_, '_>) -> NodeResult<Vec<i64>> {
    if call.given(1) {
        let tensor = call.operand(1)?;
        if matches!(call.t.values.get(&tensor), None | Some(Value::Stored { .. }))
            && call.t.subgraph.tensors[tensor].data.is_some()
            && let Some(shape) = call.t.known_ints(tensor)?
        {
            return Ok(shape);
        }
    } else if let Some(shape) = call.option_i32s(0)? {
        return Ok(shape.into_iter().map(i64::from).collect());
    }
    let tensor = &call.t.subgraph.tensors[call.result(0)?];
    let mut shape: Vec<i64> = tensor.dims.iter().map(|&d| d as i64).collect();
    let open: Vec<usize> = (0..shape.len()).filter(|&i| tensor.open[i]).collect();
    match open[..] {
        [] => {}
        [i] => shape[i] = -1,
        _ => {
            return Err(unsupported(
                "the result",
                format!("{} open dimensions", open.len()),
                "one (the batch)",
            ));
        }
    }
    Ok(shape)
}

pub(super) fn reshape(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let mut shape = target(call)?;
    // The size that is left.
    let count: usize = dims.iter().product();
    let sizes = shape.iter().filter(|&&d| d != -1);
    let rest = sizes.copied().try_fold(1i64, i64::checked_mul).unwrap_or(0);
    if let Some(open) = shape.iter().position(|&d| d == -1) {
        if rest <= 0 || count as i64 % rest != 0 {
            return Err(invalid!("cannot reshape {dims:?} to {shape:?}"));
        }
        shape[open] = count as i64 / rest;
    }
    let sizes: Vec<usize> = shape
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| invalid!("cannot reshape {dims:?} to {shape:?}")))
        .collect::<NodeResult<_>>()?;
    if sizes.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) != Some(count) {
        return Err(invalid!("cannot reshape {dims:?} to {shape:?}"));
    }
    let tensor = call.result(0)?;
    if call.t.subgraph.tensors[tensor].dims.len() != sizes.len() {
        return Err(invalid!("the file states another number of dimensions than {}", sizes.len()));
    }
    // A batch that stays first is whatever it is at run time.
    let keeps_batch = sizes.first() == dims.first() && !sizes.is_empty();
    let open = |sizes: &[usize]| -> Vec<i64> {
        let mut shape: Vec<i64> = sizes.iter().map(|&d| d as i64).collect();
        if keeps_batch {
            shape[0] = 0;
        }
        shape
    };
    let (x, layout) = call.any(0)?;
    match (layout, &dims[..], &sizes[..]) {
        (Layout::Channels, &[_, h, w, c], &[_, _]) if keeps_batch => {
            let y = call.t.reshape(&x, &open(&sizes), "");
            let still = moves_nothing(&[1, h, w, c], &TO_CHANNELS);
            let layout = if still { Layout::Plain } else { Layout::Flat([c, h, w]) };
            call.finish_moved(0, y, layout)
        }
        (Layout::Flat([c, h, w]), _, &[_, new_h, new_w, new_c])
            if keeps_batch && [c, h, w] == [new_c, new_h, new_w] =>
        {
            let y = call.t.reshape(&x, &open(&[0, c, h, w]), "");
            call.finish_moved(0, y, Layout::Channels)
        }
        _ => {
            let x = call.plain(0)?;
            let y = call.t.reshape(&x, &open(&sizes), "");
            call.finish_moved(0, y, Layout::Plain)
        }
    }
}

pub(super) fn transpose(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let order = call.must_know(1, "an order of axes")?;
    let mut axes = Vec::new();
    for &axis in &order {
        axes.push(call.axis(axis, dims.len())?);
    }
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..dims.len()) {
        return Err(invalid!("{order:?} is no order of {} axes", dims.len()));
    }
    if let Value::Stored { root, permutation } = call.value(0)? {
        // A constant is stored as it is wanted.
        let (source, tensor) = (call.operand(0)?, call.result(0)?);
        if call.t.same_grid(source, tensor)
            || call.t.subgraph.tensors[tensor].quantization.is_none()
        {
            let permutation = permuted(&permutation, &axes);
            call.t.values.insert(tensor, Value::Stored { root, permutation });
            return Ok(());
        }
    }
    let (x, layout) = along_axes(call, 0)?;
    if layout == Layout::Plain && axes == FROM_CHANNELS {
        // What was channels first is an image whose channels are behind the batch.
        return call.finish_moved(0, x, Layout::Channels);
    }
    let permutation: Vec<usize> = axes.iter().map(|&a| layout.axis(a)).collect();
    let y = match permutation.is_sorted() {
        true => x,
        false => call.t.transpose(&x, &permutation, ""),
    };
    call.finish_moved(0, y, Layout::Plain)
}

pub(super) fn concatenation(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let rank = call.dims(0)?.len();
    let axis = call.axis(call.option_i32(0, 0)?.into(), rank)?;
    let all: Vec<usize> = (0..call.operands()).collect();
    for &i in &all {
        if call.dims(i)?.len() != rank {
            return Err(invalid!("operands of {rank} and {} dimensions", call.dims(i)?.len()));
        }
    }
    let (operands, layout) = match rank {
        4 => aligned(call, &all)?,
        _ => {
            let names = all.iter().map(|&i| call.plain(i)).collect::<NodeResult<Vec<_>>>()?;
            (names, Layout::Plain)
        }
    };
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let axis = AttributeProto::int("axis", layout.axis(axis) as i64);
    let y = call.add("Concat", &operands, vec![axis], "");
    let y = call.activation(y, call.option_u8(1)?)?;
    call.finish(y, layout)
}

/// SPLIT: axis, operand; SPLIT_V: operand, sizes, axis.
pub(super) fn split(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let by_sizes = call.op.name == "SPLIT_V";
    let (operand, axis) = if by_sizes { (0, 2) } else { (1, 0) };
    let dims = call.dims(operand)?;
    let axis = match call.must_know(axis, "an axis")?[..] {
        [axis] => call.axis(axis, dims.len())?,
        _ => return Err(invalid!("several axes")),
    };
    let parts = call.op.outputs.len();
    let mut sizes = match by_sizes {
        true => call.must_know(1, "sizes")?,
        false if parts > 0 && dims[axis].is_multiple_of(parts) => {
            vec![(dims[axis] / parts) as i64; parts]
        }
        false => return Err(invalid!("{parts} parts of {dims:?} along axis {axis}")),
    };
    if let Some(open) = sizes.iter().position(|&s| s == -1) {
        let others = sizes.iter().filter(|&&s| s != -1);
        let rest = others.fold(0i64, |sum, &size| sum.saturating_add(size));
        sizes[open] = (dims[axis] as i64).saturating_sub(rest);
    }
    if sizes.len() != parts {
        return Err(invalid!("{} sizes for {parts} results", sizes.len()));
    }
    let (x, layout) = along_axes(call, operand)?;
    let sizes = call.t.ints(&sizes, "sizes");
    let axis = AttributeProto::int("axis", layout.axis(axis) as i64);
    let results = call.t.add_many("Split", &[&x, &sizes], vec![axis], "", parts);
    for (i, name) in results.into_iter().enumerate() {
        let (source, tensor) = (call.operand(operand)?, call.result(i)?);
        let name = match call.t.same_grid(source, tensor) {
            true => name,
            false => call.t.on_grid(tensor, name)?,
        };
        let dims = call.result_dims(i)?;
        call.define(i, name, layout, dims)?;
    }
    Ok(())
}

/// What is cut from one axis of the file.
struct Cut {
    axis: usize,
    start: i64,
    end: i64,
    step: i64,
}

/// Cuts a box; axes without a cut are taken whole.
fn cut(call: &mut Call<'_, '_>, cuts: &[Cut]) -> NodeResult<(String, Layout)> {
    let (x, layout) = along_axes(call, 0)?;
    if cuts.is_empty() {
        return Ok((x, layout));
    }
    let column = |part: fn(&Cut) -> i64| cuts.iter().map(part).collect::<Vec<i64>>();
    let places: Vec<i64> = cuts.iter().map(|c| layout.axis(c.axis) as i64).collect();
    let starts = call.t.ints(&column(|c| c.start), "starts");
    let ends = call.t.ints(&column(|c| c.end), "ends");
    let axes = call.t.ints(&places, "axes");
    let steps = call.t.ints(&column(|c| c.step), "steps");
    Ok((call.add("Slice", &[&x, &starts, &ends, &axes, &steps], Vec::new(), ""), layout))
}

pub(super) fn slice(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let (starts, sizes) = (call.must_know(1, "bounds")?, call.must_know(2, "bounds")?);
    if starts.len() != dims.len() || sizes.len() != dims.len() {
        return Err(invalid!("a slice {starts:?}, {sizes:?} of {dims:?}"));
    }
    let mut cuts = Vec::new();
    for (axis, (&start, &size)) in starts.iter().zip(&sizes).enumerate() {
        let length = dims[axis] as i64;
        let end = if size == -1 { length } else { start.saturating_add(size) };
        if start < 0 || end < start || end > length {
            return Err(invalid!("a slice {starts:?}, {sizes:?} of {dims:?}"));
        }
        if (start, end) != (0, length) {
            cuts.push(Cut { axis, start, end, step: 1 });
        }
    }
    let (y, layout) = cut(call, &cuts)?;
    call.finish_moved(0, y, layout)
}

pub(super) fn strided_slice(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let [begin_mask, end_mask, ellipsis, new_axis, shrink] =
        [0, 1, 2, 3, 4].map(|number| call.option_i32(number, 0));
    let (begin_mask, end_mask, shrink) = (begin_mask?, end_mask?, shrink?);
    if ellipsis? != 0 || new_axis? != 0 {
        return Err(unsupported("options", "an ellipsis or a new axis", "bounds of each axis"));
    }
    if call.option_u8(5)? != 0 {
        return Err(unsupported("option `offset`", "ends relative to starts", "false"));
    }
    let (starts, ends) = (call.must_know(1, "bounds")?, call.must_know(2, "bounds")?);
    let steps = call.must_know(3, "steps")?;
    let n = starts.len();
    if n > dims.len() || ends.len() != n || steps.len() != n {
        return Err(invalid!("a slice {starts:?}, {ends:?}, {steps:?} of {dims:?}"));
    }
    let mut cuts = Vec::new();
    let mut gone = Vec::new();
    for axis in 0..n {
        let bit = |mask: i32| mask & (1 << axis.min(30)) != 0;
        let step = steps[axis];
        if step == 0 {
            return Err(invalid!("a step of 0"));
        }
        if bit(shrink) {
            let start = starts[axis];
            let end = if start == -1 { i64::MAX } else { start.saturating_add(1) };
            cuts.push(Cut { axis, start, end, step: 1 });
            gone.push(axis as i64);
            continue;
        }
        let start = match bit(begin_mask) {
            true if step < 0 => i64::MAX,
            true => 0,
            false => starts[axis],
        };
        let end = match bit(end_mask) {
            true if step < 0 => i64::MIN,
            true => i64::MAX,
            false => ends[axis],
        };
        if start != 0 || step != 1 || (end != i64::MAX && end != dims[axis] as i64) {
            cuts.push(Cut { axis, start, end, step });
        }
    }
    if gone.is_empty() {
        let (y, layout) = cut(call, &cuts)?;
        return call.finish_moved(0, y, layout);
    }
    // Without some of its axes it is no image any more.
    call.plain(0)?;
    let (y, layout) = cut(call, &cuts)?;
    let y = match layout {
        Layout::Channels => call.t.transpose(&y, &FROM_CHANNELS, "layout"),
        _ => y,
    };
    let axes = call.t.ints(&gone, "axes");
    let y = call.add("Squeeze", &[&y, &axes], Vec::new(), "squeeze");
    call.finish_moved(0, y, Layout::Plain)
}

/// PAD with zeros, PADV2 with a number.
pub(super) fn pad(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let amounts = call.must_know(1, "amounts")?;
    if amounts.len() != 2 * dims.len() {
        return Err(invalid!("{} amounts for {dims:?}", amounts.len()));
    }
    let (x, layout) = along_axes(call, 0)?;
    let mut pads = vec![0; amounts.len()];
    for (axis, pair) in amounts.chunks(2).enumerate() {
        let to = layout.axis(axis);
        (pads[to], pads[to + dims.len()]) = (pair[0], pair[1]);
    }
    let pads = call.t.ints(&pads, "pads");
    let mut operands = vec![x, pads];
    let filled = call.op.name == "PADV2" && call.given(2);
    if filled {
        operands.push(call.plain(2)?);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let y = call.add("Pad", &operands, Vec::new(), "");
    match filled {
        true => call.finish(y, layout),
        false => call.finish_moved(0, y, layout),
    }
}

pub(super) fn squeeze(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let given: Vec<i64> =
        call.option_i32s(0)?.unwrap_or_default().into_iter().map(i64::from).collect();
    let axes = match given.is_empty() {
        true => (0..dims.len()).filter(|&i| dims[i] == 1).map(|i| i as i64).collect(),
        false => given,
    };
    let x = call.plain(0)?;
    let axes = call.t.ints(&axes, "axes");
    let y = call.add("Squeeze", &[&x, &axes], Vec::new(), "");
    call.finish_moved(0, y, Layout::Plain)
}

pub(super) fn expand_dims(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let axis = call.must_know(1, "an axis")?;
    let x = call.plain(0)?;
    let axes = call.t.ints(&axis, "axes");
    let y = call.add("Unsqueeze", &[&x, &axes], Vec::new(), "");
    call.finish_moved(0, y, Layout::Plain)
}

pub(super) fn shape(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (x, layout) = along_axes(call, 0)?;
    let mut y = call.add("Shape", &[&x], Vec::new(), "");
    if layout == Layout::Channels {
        let order = call.t.ints(&FROM_CHANNELS.map(|a| a as i64), "order");
        y = call.add("Gather", &[&y, &order], vec![AttributeProto::int("axis", 0)], "layout");
    }
    call.finish(y, Layout::Plain)
}

pub(super) fn pack(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let rank = call.dims(0)?.len() + 1;
    let axis = call.axis(call.option_i32(1, 0)?.into(), rank)? as i64;
    let mut parts = Vec::new();
    for i in 0..call.operands() {
        let x = call.plain(i)?;
        let axes = call.t.ints(&[axis], "axes");
        parts.push(call.add("Unsqueeze", &[&x, &axes], Vec::new(), "part"));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let y = call.add("Concat", &parts, vec![AttributeProto::int("axis", axis)], "");
    call.finish(y, Layout::Plain)
}
