//! Constants and operators whose result is always known while importing.

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::{Known, KnownData};
use crate::limits;
use crate::ops::movement::one;
use crate::proto::data_type;
use crate::shapes::broadcast_index;

pub(crate) fn constant(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if let Some(known) = call.tensor("value")? {
        return one(known);
    }
    if call.has("value_float") {
        return one(Known::f32(Vec::new(), vec![call.float("value_float", 0.0)?]));
    }
    if call.has("value_int") {
        return one(Known::i64(Vec::new(), vec![call.int("value_int", 0)?]));
    }
    if let Some(values) = call.floats("value_floats")? {
        return one(Known::f32(vec![values.len()], values.to_vec()));
    }
    if let Some(values) = call.ints("value_ints")? {
        return one(Known::i64(vec![values.len()], values.to_vec()));
    }
    Err(invalid!("a constant without a value"))
}

pub(crate) fn constant_of_shape(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = call.must_know_ints(0, "shape")?;
    let (dims, _) = limits::dimensions(&dims).map_err(|e| invalid!("{e}"))?;
    let value = call.tensor("value")?.unwrap_or_else(|| Known::f32(vec![1], vec![0.0]));
    if value.len() != 1 {
        return Err(invalid!("attribute `value` is not one element"));
    }
    let count = call.fold_budget(&dims)?;
    one(value.pick(dims, std::iter::repeat_n(0, count)))
}

pub(crate) fn shape(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims: Vec<i64> = call.dims(0)?.into_iter().map(|d| d as i64).collect();
    let rank = dims.len() as i64;
    let clamp = |v: i64| if v < 0 { v.saturating_add(rank) } else { v }.clamp(0, rank) as usize;
    let start = clamp(call.int("start", 0)?);
    let end = clamp(call.int("end", i64::MAX)?);
    let part = dims.get(start..end).unwrap_or_default().to_vec();
    one(Known::i64(vec![part.len()], part))
}

pub(crate) fn size(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = call.dims(0)?;
    let count = limits::count(&dims).ok_or_else(|| invalid!("too many elements"))?;
    one(Known::i64(Vec::new(), vec![count as i64]))
}

pub(crate) fn range(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let start = call.must_know(0, "start")?;
    let limit = call.must_know(1, "limit")?;
    let delta = call.must_know(2, "delta")?;
    if start.len() != 1 || limit.len() != 1 || delta.len() != 1 {
        return Err(invalid!("start, limit and delta must be scalars"));
    }
    match (&start.data, &limit.data, &delta.data) {
        (KnownData::Ints(s), KnownData::Ints(l), KnownData::Ints(d)) => {
            let (s, l, d) = (i128::from(s[0]), i128::from(l[0]), i128::from(d[0]));
            if d == 0 {
                return Err(invalid!("a delta of 0"));
            }
            let span = if d > 0 { l - s } else { s - l };
            let count = if span <= 0 { 0 } else { (span + d.abs() - 1) / d.abs() };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            call.fold_budget(&[count])?;
            let values = (0..count as i128).map(|i| (s + i * d) as i64).collect();
            let data = KnownData::Ints(values);
            one(Known { dims: vec![count], dtype: start.dtype, data })
        }
        (KnownData::Float(s), KnownData::Float(l), KnownData::Float(d)) => {
            let count = ((f64::from(l[0]) - f64::from(s[0])) / f64::from(d[0])).ceil();
            if count.is_nan() {
                return Err(invalid!("a range without a length"));
            }
            let count = count.max(0.0) as usize;
            call.fold_budget(&[count])?;
            let values = (0..count).map(|i| s[0] + i as f32 * d[0]).collect();
            one(Known::f32(vec![count], values))
        }
        _ => Err(unsupported(
            "operands",
            format!("element type {}", data_type::name(start.dtype)),
            "FLOAT and integers",
        )),
    }
}

/// Where.
pub(crate) fn select(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let condition = call.must_know(0, "a condition")?;
    let Some(choose) = condition.ints() else { return Err(invalid!("the condition is no BOOL")) };
    let (a, b) = (call.must_know(1, "a choice")?, call.must_know(2, "a choice")?);
    let shape = |k: &Known| trainc_ir::Shape::from(&*k.dims);
    let dims = shape(&a)
        .broadcast(&shape(&b))
        .and_then(|s| s.broadcast(&shape(&condition)))
        .ok_or_else(|| invalid!("operands do not broadcast"))?
        .to_vec();
    if a.dtype != b.dtype {
        return Err(invalid!("choices of two element types"));
    }
    call.fold_budget(&dims)?;
    let index = broadcast_index(&dims, &condition.dims)
        .zip(broadcast_index(&dims, &a.dims).zip(broadcast_index(&dims, &b.dims)));
    let data = match (&a.data, &b.data) {
        (KnownData::Ints(x), KnownData::Ints(y)) => KnownData::Ints(
            index.map(|(c, (i, j))| if choose[c] != 0 { x[i] } else { y[j] }).collect(),
        ),
        (KnownData::Float(x), KnownData::Float(y)) => KnownData::Float(
            index.map(|(c, (i, j))| if choose[c] != 0 { x[i] } else { y[j] }).collect(),
        ),
        _ => {
            return Err(unsupported(
                "operands",
                format!("element type {}", data_type::name(a.dtype)),
                "FLOAT and integers",
            ));
        }
    };
    one(Known { dims, dtype: a.dtype, data })
}
