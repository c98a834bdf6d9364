//! Operators that move elements: the same on known tensors and on values of the graph.

use trainc_ir::ops::{
    Broadcast, Compare, Concat, DequantizeLinear, Pad, Reshape, Slice, Transpose,
};
use trainc_ir::{Data, Element, Op, ScaleData, Shape, Tensor, TensorType};

use crate::call::{Bound, Call, axis, sorted_axes};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::Known;
use crate::limits;
use crate::proto::data_type;
use crate::shapes::{self, broadcast_index};

/// Moving elements, wherever they are.
impl Call<'_, '_> {
    /// The same elements under another shape of the same count.
    pub(crate) fn reshaped(&mut self, x: &Bound, dims: Vec<usize>) -> NodeResult<Bound> {
        let old = self.dims_of(x)?;
        if limits::count(&old) != limits::count(&dims) || limits::count(&dims).is_none() {
            return Err(invalid!("cannot reshape {old:?} to {dims:?}"));
        }
        match x {
            _ if old == dims => Ok(x.clone()),
            Bound::Known(known) => {
                // Floats are shared, integers are copied.
                if known.ints().is_some() {
                    self.fold_budget(&dims)?;
                }
                Ok(known.reshaped(dims).into())
            }
            other => {
                let value = self.lower(other, "the operand")?;
                Ok(self.add(Reshape { shape: dims.into() }, &[value], "")?.into())
            }
        }
    }

    /// A box of the operand.
    pub(crate) fn boxed(
        &mut self,
        x: &Bound,
        starts: Vec<usize>,
        lengths: Vec<usize>,
        steps: Vec<i64>,
        suffix: &str,
    ) -> NodeResult<Bound> {
        let dims = self.dims_of(x)?;
        let whole = starts.iter().all(|&s| s == 0) && steps.iter().all(|&s| s == 1);
        if whole && lengths == dims {
            return Ok(x.clone());
        }
        match x {
            Bound::Known(known) => {
                let count = self.fold_budget(&lengths)?;
                let strides = Shape::from(&*dims).strides();
                let source = (0..count).map(|mut flat| {
                    let mut index = 0i64;
                    for i in (0..lengths.len()).rev() {
                        let at = starts[i] as i64 + (flat % lengths[i]) as i64 * steps[i];
                        index += at * strides[i] as i64;
                        flat /= lengths[i];
                    }
                    index as usize
                });
                Ok(known.pick(lengths.clone(), source).into())
            }
            other => {
                if lengths.contains(&0) {
                    // No element depends on what is computed.
                    let value = self.lower(other, "the operand")?;
                    if !self.builder.graph.ty(value).is_f32() {
                        return Err(unsupported("shape", "an empty result", "FLOAT"));
                    }
                    return Ok(Known::f32(lengths, Vec::new()).into());
                }
                let value = self.lower(other, "the operand")?;
                Ok(self.add(Slice { starts, lengths, steps }, &[value], suffix)?.into())
            }
        }
    }

    /// Stretched to a shape by NumPy's rule.
    pub(crate) fn stretched(&mut self, x: &Bound, dims: Vec<usize>) -> NodeResult<Bound> {
        let old = self.dims_of(x)?;
        let fits = Shape::from(&*old).broadcast(&Shape::from(&*dims)).is_some_and(|s| *s == *dims);
        if !fits {
            return Err(invalid!("cannot expand {old:?} to {dims:?}"));
        }
        match x {
            _ if old == dims => Ok(x.clone()),
            Bound::Known(known) => {
                self.fold_budget(&dims)?;
                Ok(known.pick(dims.clone(), broadcast_index(&dims, &old)).into())
            }
            other => {
                let value = self.lower(other, "the operand")?;
                Ok(self.add(Broadcast { shape: dims.into() }, &[value], "")?.into())
            }
        }
    }
}

/// One result.
pub(crate) fn one(bound: impl Into<Bound>) -> NodeResult<Vec<Bound>> {
    Ok(vec![bound.into()])
}

pub(crate) fn identity(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    one(call.bound(0)?)
}

pub(crate) fn cast(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if !call.has("to") {
        return Err(invalid!("attribute `to` is missing"));
    }
    let to = i32::try_from(call.int("to", 0)?).unwrap_or(-1);
    cast_to(call, to)
}

pub(crate) fn cast_like(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let to = call.dtype(1)?;
    cast_to(call, to)
}

fn cast_to(call: &mut Call<'_, '_>, to: i32) -> NodeResult<Vec<Bound>> {
    let refuse = |from: &str| {
        unsupported(
            format!("conversion from {from} to {}", data_type::name(to)),
            "not supported",
            "between FLOAT, DOUBLE and integers on known values; to FLOAT and BOOL at run time",
        )
    };
    let x = call.bound(0)?;
    let value = match &x {
        Bound::Known(known) => {
            call.fold_budget(&known.dims)?;
            let from = data_type::name(known.dtype);
            return one(shapes::cast(known, to)?.ok_or_else(|| refuse(from))?);
        }
        other => call.lower(other, "the operand")?,
    };
    let ty = call.builder.graph.ty(value).clone();
    match (ty.element, to) {
        (Element::F32, data_type::FLOAT)
        // Labels stay i32.
        | (Element::I32, data_type::INT32 | data_type::INT64)
        | (Element::I8, data_type::INT8)
        | (Element::U8, data_type::UINT8)
        | (Element::I4, data_type::INT4)
        | (Element::U4, data_type::UINT4)
        | (Element::I2, data_type::INT2)
        | (Element::U2, data_type::UINT2) => one(value),
        (
            Element::I8
            | Element::U8
            | Element::I4
            | Element::U4
            | Element::I2
            | Element::U2
            | Element::I32,
            data_type::FLOAT,
        ) => {
            let scale = call.scalar(1.0);
            let zero = Tensor::new(
                TensorType::new(Vec::new(), ty.element),
                Data::zeros(ty.element, 1),
                ScaleData::None,
            );
            let zero = call.builder.graph.add_constant(format!("{}/zero_point", call.name), zero);
            one(call.add(DequantizeLinear { axis: 0 }, &[value, scale, zero], "")?)
        }
        // Truth values are FP32 already.
        (Element::F32, data_type::BOOL)
            if matches!(
                call.builder.graph.producer(value).map(|node| &node.op),
                Some(Op::Compare(Compare { .. }))
            ) =>
        {
            one(value)
        }
        (Element::F32 | Element::I32, data_type::BOOL) => {
            let zero = call.is_zero(value, "zero")?;
            one(call.is_zero(zero, "")?)
        }
        _ => Err(refuse(ty.element.name())),
    }
}

pub(crate) fn concat(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if !call.has("axis") {
        return Err(invalid!("attribute `axis` is missing"));
    }
    if call.operands() == 0 {
        return Err(invalid!("Concat of nothing"));
    }
    let mut dims = call.dims(0)?;
    let axis = axis(call.int("axis", 0)?, dims.len())?;
    dims[axis] = 0;
    for i in 0..call.operands() {
        let other = call.dims(i)?;
        let agree =
            other.len() == dims.len() && (0..dims.len()).all(|d| d == axis || other[d] == dims[d]);
        if !agree {
            return Err(invalid!("Concat along axis {axis} of {:?} and {other:?}", call.dims(0)?));
        }
        dims[axis] = dims[axis].saturating_add(other[axis]);
    }
    let Some(operands) = call.all_known()? else {
        let mut values = Vec::new();
        for i in 0..call.operands() {
            if !call.dims(i)?.contains(&0) {
                values.push(call.value(i)?);
            }
        }
        return match values[..] {
            [value] => one(value),
            _ => one(call.add(Concat { axis }, &values, "")?),
        };
    };
    call.fold_budget(&dims)?;
    // All operands end to end, then the elements in order.
    let outer: usize = dims[..axis].iter().product();
    let inner: usize = dims[axis + 1..].iter().product();
    let mut index = Vec::new();
    for row in 0..outer {
        let mut base = 0;
        for operand in &operands {
            let block = operand.dims[axis] * inner;
            index.extend((base + row * block)..(base + (row + 1) * block));
            base += operand.len();
        }
    }
    let joined = join(&operands)?;
    one(joined.pick(dims, index.into_iter()))
}

/// All elements of several tensors of one type, end to end.
fn join(operands: &[std::sync::Arc<Known>]) -> NodeResult<Known> {
    use crate::known::KnownData;
    let dtype = operands[0].dtype;
    if operands.iter().any(|o| o.dtype != dtype) {
        return Err(invalid!("Concat of several element types"));
    }
    let data = match operands[0].data {
        KnownData::Ints(_) => KnownData::Ints(
            operands.iter().flat_map(|o| o.ints().unwrap_or_default()).copied().collect(),
        ),
        KnownData::Float(_) => {
            KnownData::Float(operands.iter().flat_map(|o| o.to_f32().unwrap_or_default()).collect())
        }
        KnownData::Double(_) => KnownData::Double(
            operands
                .iter()
                .flat_map(|o| match &o.data {
                    KnownData::Double(v) => v.clone(),
                    _ => Vec::new(),
                })
                .collect(),
        ),
        KnownData::Opaque => {
            return Err(unsupported(
                "operands",
                format!("element type {}", data_type::name(dtype)),
                "FLOAT",
            ));
        }
    };
    Ok(Known { dims: Vec::new(), dtype, data })
}

pub(crate) fn flatten(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = call.dims(0)?;
    // The axis may equal the rank.
    let axis = axis_or_end(call.int("axis", 1)?, dims.len())?;
    let x = call.bound(0)?;
    let product = |dims: &[usize]| limits::count(dims).ok_or_else(|| invalid!("too many elements"));
    let shape = vec![product(&dims[..axis])?, product(&dims[axis..])?];
    one(call.reshaped(&x, shape)?)
}

fn axis_or_end(at: i64, rank: usize) -> NodeResult<usize> {
    if at == rank as i64 { Ok(rank) } else { axis(at, rank) }
}

pub(crate) fn reshape(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let target = call.must_know_ints(1, "shape")?;
    let allow_zero = call.opset() >= 14 && call.flag("allowzero", false)?;
    if target.len() > limits::MAX_RANK {
        return Err(invalid!("a shape of {} dimensions", target.len()));
    }
    // A batch size written into the shape follows the batch size that replaces it.
    if let Some((file, new)) = call.builder.batch
        && target.first() == Some(&(file as i64))
        && dims.first() == Some(&new)
        && let Bound::Value(value) = x
        && !call.builder.is_parameter(value)
    {
        let mut replaced = target.clone();
        replaced[0] = new as i64;
        if let Ok(shape) = resolve(&dims, &replaced, allow_zero) {
            return one(call.reshaped(&x, shape)?);
        }
    }
    let shape = resolve(&dims, &target, allow_zero)?;
    one(call.reshaped(&x, shape)?)
}

/// The shape that Reshape's target stands for.
fn resolve(dims: &[usize], target: &[i64], allow_zero: bool) -> NodeResult<Vec<usize>> {
    let mismatch = || invalid!("cannot reshape {dims:?} to {target:?}");
    let count = limits::count(dims).ok_or_else(mismatch)?;
    let mut shape = Vec::with_capacity(target.len());
    let mut open = None;
    for (i, &d) in target.iter().enumerate() {
        shape.push(match d {
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            0 if !allow_zero => *dims.get(i).ok_or_else(mismatch)?,
            d => usize::try_from(d).map_err(|_| mismatch())?,
        });
    }
    let known = limits::count(&shape).ok_or_else(mismatch)?;
    if let Some(i) = open {
        if known == 0 || count % known != 0 {
            return Err(mismatch());
        }
        shape[i] = count / known;
    } else if known != count {
        return Err(mismatch());
    }
    Ok(shape)
}

pub(crate) fn transpose(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let permutation = match call.ints("perm")? {
        None => (0..dims.len()).rev().collect(),
        Some(perm) => {
            let axes = perm.iter().map(|&a| axis(a, dims.len())).collect::<NodeResult<Vec<_>>>()?;
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            if sorted.iter().ne((0..dims.len()).collect::<Vec<_>>().iter()) {
                return Err(invalid!(
                    "`perm` {perm:?} is not a permutation of {} axes",
                    dims.len()
                ));
            }
            axes
        }
    };
    if permutation.is_sorted() {
        return one(x);
    }
    let Bound::Known(known) = &x else {
        let value = call.lower(&x, "the operand")?;
        return one(call.add(Transpose { permutation }, &[value], "")?);
    };
    let shape: Vec<usize> = permutation.iter().map(|&a| dims[a]).collect();
    let count = call.fold_budget(&shape)?;
    let strides = Shape::from(&*dims).strides();
    let source = (0..count).map(|mut flat| {
        let mut index = 0;
        for (&d, &a) in shape.iter().zip(&permutation).rev() {
            index += flat % d * strides[a];
            flat /= d;
        }
        index
    });
    one(known.pick(shape.clone(), source))
}

pub(crate) fn squeeze(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let axes = match call.axes(13, 1)? {
        Some(axes) => sorted_axes(&axes, dims.len())?,
        None => (0..dims.len()).filter(|&i| dims[i] == 1).collect(),
    };
    if let Some(&i) = axes.iter().find(|&&i| dims[i] != 1) {
        return Err(invalid!("cannot squeeze axis {i} of {dims:?}"));
    }
    let shape = (0..dims.len()).filter(|i| !axes.contains(i)).map(|i| dims[i]).collect();
    one(call.reshaped(&x, shape)?)
}

pub(crate) fn unsqueeze(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let Some(axes) = call.axes(13, 1)? else { return Err(invalid!("`axes` are missing")) };
    let rank = dims.len() + axes.len();
    if rank > limits::MAX_RANK {
        return Err(invalid!("a result of {rank} dimensions"));
    }
    let axes = sorted_axes(&axes, rank)?;
    let mut old = dims.into_iter();
    let shape =
        (0..rank).map(|i| if axes.contains(&i) { 1 } else { old.next().unwrap_or(1) }).collect();
    one(call.reshaped(&x, shape)?)
}

pub(crate) fn expand(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let target = call.must_know_ints(1, "shape")?;
    let (mut target, _) = limits::dimensions(&target).map_err(|e| invalid!("{e}"))?;
    // As in a reshape: a batch size written into the shape follows the one that replaces it.
    if let Some((file, new)) = call.builder.batch
        && target.first() == Some(&file)
        && dims.first() == Some(&new)
        && dims.len() == target.len()
        && let Bound::Value(value) = x
        && !call.builder.is_parameter(value)
    {
        target[0] = new;
    }
    let shape = Shape::from(&*dims)
        .broadcast(&Shape::from(&*target))
        .ok_or_else(|| invalid!("cannot expand {dims:?} to {target:?}"))?;
    one(call.stretched(&x, shape.to_vec())?)
}

pub(crate) fn slice(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let rank = dims.len();
    let (starts, ends, axes, steps);
    if call.opset() < 10 {
        starts = call.ints("starts")?.map(<[i64]>::to_vec).unwrap_or_default();
        ends = call.ints("ends")?.map(<[i64]>::to_vec).unwrap_or_default();
        axes = call.ints("axes")?.map(<[i64]>::to_vec);
        steps = None;
    } else {
        starts = call.must_know_ints(1, "starts")?;
        ends = call.must_know_ints(2, "ends")?;
        axes = if call.given(3) { Some(call.must_know_ints(3, "axes")?) } else { None };
        steps = if call.given(4) { Some(call.must_know_ints(4, "steps")?) } else { None };
    }
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(invalid!("starts, ends, axes and steps differ in length"));
    }
    sorted_axes(&axes, rank)?;
    let (mut first, mut lengths, mut strides) = (vec![0; rank], dims.clone(), vec![1i64; rank]);
    for i in 0..starts.len() {
        let a = axis(axes[i], rank)?;
        let (n, step) = (dims[a] as i64, steps[i]);
        if step == 0 {
            return Err(invalid!("a step of 0"));
        }
        let from_end = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
        let (start, end) = if step > 0 {
            (from_end(starts[i]).clamp(0, n), from_end(ends[i]).clamp(0, n))
        } else {
            let last = (n - 1).max(0);
            (from_end(starts[i]).clamp(0, last), from_end(ends[i]).clamp(-1, last))
        };
        let span = if step > 0 { end - start } else { start - end };
        let length =
            if span <= 0 || n == 0 { 0 } else { span.unsigned_abs().div_ceil(step.unsigned_abs()) };
        lengths[a] = length as usize;
        first[a] = if length == 0 { 0 } else { start as usize };
        // A step of a single element does not matter; keep it small.
        strides[a] = if length <= 1 { 1 } else { step };
    }
    one(call.boxed(&x, first, lengths, strides, "")?)
}

pub(crate) fn split(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let at = axis(call.int("axis", 0)?, dims.len())?;
    let sizes = if call.opset() < 13 {
        call.ints("split")?.map(<[i64]>::to_vec)
    } else if call.given(1) {
        Some(call.must_know_ints(1, "split")?)
    } else {
        None
    };
    let outputs = call.node.output.len();
    let sizes: Vec<usize> = match sizes {
        Some(sizes) => sizes
            .iter()
            .map(|&s| usize::try_from(s).map_err(|_| invalid!("a part of size {s}")))
            .collect::<NodeResult<_>>()?,
        None => {
            let parts = call.int("num_outputs", outputs as i64)?;
            if parts != outputs as i64 || outputs == 0 {
                return Err(invalid!("`num_outputs` is {parts}, the node has {outputs}"));
            }
            let chunk = dims[at].div_ceil(outputs);
            (0..outputs).map(|i| chunk.min(dims[at].saturating_sub(i * chunk))).collect()
        }
    };
    if sizes.len() != outputs {
        return Err(invalid!("{outputs} results of parts of {sizes:?}"));
    }
    parts(call, &x, at, &sizes)
}

/// Parts of these sizes along an axis.
pub(crate) fn parts(
    call: &mut Call<'_, '_>,
    x: &Bound,
    at: usize,
    sizes: &[usize],
) -> NodeResult<Vec<Bound>> {
    let dims = call.dims_of(x)?;
    if sizes.iter().fold(0usize, |n, &s| n.saturating_add(s)) != dims[at] {
        return Err(invalid!("cannot split {dims:?} along axis {at} into parts of {sizes:?}"));
    }
    let mut start = 0;
    let mut parts = Vec::new();
    for (i, &size) in sizes.iter().enumerate() {
        let (mut starts, mut lengths) = (vec![0; dims.len()], dims.clone());
        (starts[at], lengths[at]) = (start, size);
        start += size;
        let steps = vec![1; dims.len()];
        parts.push(call.boxed(x, starts, lengths, steps, &i.to_string())?);
    }
    Ok(parts)
}

pub(crate) fn pad(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let mode = call.string("mode", "constant")?;
    if mode != "constant" {
        return Err(unsupported("attribute `mode`", format!("mode `{mode}`"), "constant"));
    }
    let dims = call.dims(0)?;
    let rank = dims.len();
    let (pads, value, axes);
    if call.opset() < 11 {
        pads = call.ints("pads")?.map(<[i64]>::to_vec).unwrap_or_default();
        value = call.float("value", 0.0)?;
        axes = None;
    } else {
        pads = call.must_know_ints(1, "pads")?;
        value = match call.given(2) {
            true => {
                let known = call.must_know(2, "the padding value")?;
                known.scalar_f32().ok_or_else(|| invalid!("the padding value is not a scalar"))?
            }
            false => 0.0,
        };
        axes = if call.given(3) { Some(call.must_know_ints(3, "axes")?) } else { None };
    }
    let axes = match axes {
        None => (0..rank).collect::<Vec<_>>(),
        Some(axes) => {
            sorted_axes(&axes, rank)?;
            axes.iter().map(|&a| axis(a, rank)).collect::<NodeResult<_>>()?
        }
    };
    if pads.len() != 2 * axes.len() {
        return Err(invalid!("{} pads for {} axes", pads.len(), axes.len()));
    }
    let mut before = vec![0; rank];
    let mut after = vec![0; rank];
    let mut starts = vec![0; rank];
    let mut lengths = dims.clone();
    for (i, &a) in axes.iter().enumerate() {
        let (low, high) = (pads[i], pads[axes.len() + i]);
        if low.saturating_abs() > limits::MAX_WINDOW || high.saturating_abs() > limits::MAX_WINDOW {
            return Err(invalid!("pads of {low} and {high}"));
        }
        // Negative padding removes.
        let cut = low.min(0).unsigned_abs() as usize + high.min(0).unsigned_abs() as usize;
        if cut >= dims[a] && cut > 0 {
            return Err(invalid!("pads of {low} and {high} leave nothing of {dims:?}"));
        }
        starts[a] = low.min(0).unsigned_abs() as usize;
        lengths[a] = dims[a] - cut;
        (before[a], after[a]) = (low.max(0) as usize, high.max(0) as usize);
    }
    let x = call.bound(0)?;
    let x = call.boxed(&x, starts, lengths, vec![1; rank], "crop")?;
    if before.iter().chain(&after).all(|&p| p == 0) {
        return one(x);
    }
    let value = value.into();
    let x = call.lower(&x, "the operand")?;
    one(call.add(Pad { before, after, value }, &[x], "")?)
}
