//! Operators that read and write by index: slices where the indices are known and run evenly, rows by index otherwise.

use trainc_ir::ops::{
    Add, Broadcast, Compare, Comparison, Concat, Gather, Maximum, ReduceSum, Reshape, ScatterAdd,
    Select,
};
use trainc_ir::{Element, Shape, ValueId};

use crate::call::{Bound, Call, axis};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::{Known, KnownData};
use crate::limits;
use crate::ops::movement::one;

/// Most slices that known indices become; more are rows by index.
const MOST_SLICES: usize = 8;

/// Rows at known places.
impl Call<'_, '_> {
    /// Rows of an operand along an axis, which must exist.
    pub(super) fn rows(&mut self, x: &Bound, at: usize, rows: &[usize]) -> NodeResult<Bound> {
        let dims = self.dims_of(x)?;
        let mut shape = dims.clone();
        shape[at] = rows.len();
        if rows.iter().copied().eq(0..dims[at]) {
            return Ok(x.clone());
        }
        if let Bound::Known(known) = x {
            self.fold_budget(&shape)?;
            let outer: usize = dims[..at].iter().product();
            let inner: usize = dims[at + 1..].iter().product();
            let size = dims[at];
            let starts = (0..outer).flat_map(|o| rows.iter().map(move |row| o * size + row));
            let source = starts.flat_map(|start| start * inner..(start + 1) * inner);
            return Ok(known.pick(shape, source).into());
        }
        if rows.is_empty() {
            return Err(unsupported("operand `indices`", "no indices", "at least one"));
        }
        // Each row as often as the others: rows once, stretched.
        let often = rows.iter().take_while(|&row| *row == rows[0]).count();
        let once: Vec<usize> = rows.iter().copied().step_by(often).collect();
        let even = rows
            .chunks(often)
            .all(|same| same.len() == often && same.iter().all(|r| *r == same[0]));
        if often > 1 && even && runs(&once).len() <= MOST_SLICES {
            let single = self.rows(x, at, &once)?;
            let single = self.lower(&single, "the operand")?;
            let mut wide = self.shape(single);
            wide.insert(at + 1, 1);
            let column = self.add(Reshape { shape: wide.clone().into() }, &[single], "column")?;
            wide[at + 1] = often;
            let wide = self.add(Broadcast { shape: wide.into() }, &[column], "repeated")?;
            return self.reshaped(&wide.into(), shape);
        }
        let runs = runs(rows);
        if runs.len() > MOST_SLICES {
            let value = self.lower(x, "the operand")?;
            let indices = rows.iter().map(|&row| row as i64).collect();
            let indices = Known::i64(vec![rows.len()], indices).into();
            let indices = self.lower(&indices, "operand `indices`")?;
            return Ok(self.add(Gather { axis: at }, &[value, indices], "")?.into());
        }
        let mut parts = Vec::new();
        for (start, step, length) in runs {
            let (mut starts, mut lengths) = (vec![0; dims.len()], dims.clone());
            let mut steps = vec![1; dims.len()];
            (starts[at], lengths[at], steps[at]) = (start, length, step);
            let suffix = format!("part{}", parts.len());
            let part = self.boxed(x, starts, lengths, steps, &suffix)?;
            parts.push(self.lower(&part, "the operand")?);
        }
        match parts[..] {
            [only] => Ok(only.into()),
            _ => Ok(self.add(Concat { axis: at }, &parts, "joined")?.into()),
        }
    }

    /// An operand of indices at run time.
    fn indices(&mut self, i: usize) -> NodeResult<ValueId> {
        let value = self.value(i)?;
        let element = self.builder.graph.ty(value).element;
        match element {
            Element::I32 => Ok(value),
            _ => Err(invalid!("indices are {element}, not INT32 or INT64")),
        }
    }
}

/// Rows as runs of a constant step: first row, step (not 0), length.
fn runs(rows: &[usize]) -> Vec<(usize, i64, usize)> {
    let mut found = Vec::new();
    let mut i = 0;
    while i < rows.len() {
        let gap = |j: usize| rows[j] as i64 - rows[j - 1] as i64;
        let step = if i + 1 < rows.len() { gap(i + 1) } else { 1 };
        let mut end = i + 1;
        while step != 0 && end < rows.len() && gap(end) == step {
            end += 1;
        }
        found.push((rows[i], if end - i == 1 { 1 } else { step }, end - i));
        i = end;
    }
    found
}

pub(crate) fn gather(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let at = axis(call.int("axis", 0)?, dims.len())?;
    let index_dims = call.dims(1)?;
    let shape: Vec<usize> =
        dims[..at].iter().chain(&index_dims).chain(&dims[at + 1..]).copied().collect();
    if shape.len() > limits::MAX_RANK {
        return Err(invalid!("a result of {} dimensions", shape.len()));
    }
    let Some(indices) = call.known(1)? else {
        let (x, indices) = (call.value(0)?, call.indices(1)?);
        return one(call.add(Gather { axis: at }, &[x, indices], "")?);
    };
    let Some(values) = indices.ints() else { return Err(invalid!("indices are not integers")) };
    let rows = values.iter().map(|&i| axis(i, dims[at])).collect::<NodeResult<Vec<usize>>>()?;
    let picked = call.rows(&x, at, &rows)?;
    one(call.reshaped(&picked, shape)?)
}

/// Index tuples along the last axis of known indices, each from 0 on: `columns[c][i]` is part `c` of tuple `i`.
fn tuples(indices: &Known, dims: &[usize], parts: usize) -> NodeResult<Vec<Vec<usize>>> {
    let Some(values) = indices.ints() else { return Err(invalid!("indices are not integers")) };
    (0..parts)
        .map(|c| values.iter().skip(c).step_by(parts).map(|&i| axis(i, dims[c])).collect())
        .collect()
}

pub(crate) fn gather_nd(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let indices = call.must_know(1, "indices")?;
    let batch = usize::try_from(call.int("batch_dims", 0)?).unwrap_or(usize::MAX);
    let Some((&parts, places)) = indices.dims.split_last() else {
        return Err(invalid!("indices without a dimension"));
    };
    if batch >= indices.dims.len() || parts == 0 || batch + parts > dims.len() {
        return Err(invalid!("indices {:?} into {dims:?}", indices.dims));
    }
    if dims[..batch] != places[..batch] {
        return Err(invalid!("indices {:?} for batches of {dims:?}", indices.dims));
    }
    let shape = [places, &dims[batch + parts..]].concat();
    if shape.len() > limits::MAX_RANK || limits::count(&shape).is_none() {
        return Err(invalid!("a result of shape {shape:?}"));
    }
    let columns = tuples(&indices, &dims[batch..], parts)?;
    if batch == 0
        && let Some(groups) = separate(&columns, places)
    {
        let mut picked = x;
        for (at, rows) in groups.iter().enumerate() {
            picked = call.rows(&picked, at, rows)?;
        }
        return one(call.reshaped(&picked, shape)?);
    }
    let count = columns[0].len();
    let each = count / places[..batch].iter().product::<usize>().max(1);
    let flat: Vec<usize> = (0..count)
        .map(|i| {
            let parts = columns.iter().zip(&dims[batch..]);
            parts.fold(i / each.max(1), |flat, (column, &size)| flat * size + column[i])
        })
        .collect();
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    let table = vec![product(&dims[..batch + parts]), product(&dims[batch + parts..])];
    let x = call.reshaped(&x, table)?;
    let picked = call.rows(&x, 0, &flat)?;
    one(call.reshaped(&picked, shape)?)
}

/// Rows along each axis where part `c` of the tuples depends on the places' dimensions of a group of its own, groups in
/// order: what indexing by a grid of rows and columns gives.
fn separate(columns: &[Vec<usize>], places: &[usize]) -> Option<Vec<Vec<usize>>> {
    let strides = Shape::from(places).strides();
    let depends = |column: &[usize], d: usize| {
        (0..column.len()).any(|i| column[i] != column[i - i / strides[d] % places[d] * strides[d]])
    };
    let mut start = 0;
    let mut groups = Vec::new();
    for (c, column) in columns.iter().enumerate() {
        let used: Vec<usize> = (0..places.len()).filter(|&d| depends(column, d)).collect();
        if used.first().is_some_and(|&first| first < start) {
            return None;
        }
        let end = match used.last() {
            _ if c + 1 == columns.len() => places.len(),
            Some(&last) => last + 1,
            None => start,
        };
        let count: usize = places[start..end].iter().product();
        let stride = if end > start { strides[end - 1] } else { 1 };
        if count == 0 || column.is_empty() {
            return None;
        }
        groups.push((0..count).map(|i| column[i * stride]).collect());
        start = end;
    }
    Some(groups)
}

/// Flat places that GatherElements and ScatterElements name along an axis, in the order of the indices.
fn elements(indices: &Known, dims: &[usize], at: usize) -> NodeResult<Vec<usize>> {
    let Some(values) = indices.ints() else { return Err(invalid!("indices are not integers")) };
    let fits = |(i, (index, size)): (usize, (&usize, &usize))| i == at || index <= size;
    if indices.dims.len() != dims.len() || !indices.dims.iter().zip(dims).enumerate().all(fits) {
        return Err(invalid!("indices {:?} into {dims:?}", indices.dims));
    }
    let strides = Shape::from(dims).strides();
    let own = Shape::from(&*indices.dims).strides();
    values
        .iter()
        .enumerate()
        .map(|(i, &index)| {
            let row = axis(index, dims[at])?;
            Ok((0..dims.len()).fold(0, |flat, d| {
                let place = if d == at { row } else { i / own[d] % indices.dims[d] };
                flat + place * strides[d]
            }))
        })
        .collect()
}

pub(crate) fn gather_elements(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.bound(0)?;
    let dims = call.dims(0)?;
    let at = axis(call.int("axis", 0)?, dims.len())?;
    if let Some(indices) = call.known(1)? {
        let flat = elements(&indices, &dims, at)?;
        let count = dims.iter().product();
        let x = call.reshaped(&x, vec![count])?;
        let picked = call.rows(&x, 0, &flat)?;
        return one(call.reshaped(&picked, indices.dims.clone())?);
    }
    let index_dims = call.dims(1)?;
    let alike = |i: usize| i == at || index_dims.get(i) == Some(&dims[i]);
    if index_dims.len() != dims.len() || !(0..dims.len()).all(alike) {
        return Err(unsupported(
            "operand `indices`",
            format!("of shape {index_dims:?} at run time into {dims:?}"),
            "indices known while importing, or of the operand's shape but along the axis",
        ));
    }
    // The sum of what is left where the index does not name it: exact, for the others are zeros.
    let (x, indices) = (call.f32(0)?, call.indices(1)?);
    let (mut table, mut names) = (dims.clone(), index_dims.clone());
    table.insert(at, 1);
    names.insert(at + 1, 1);
    let size = dims[at] as i64;
    let column = |from: i64| {
        let mut shape = vec![1; dims.len() + 1];
        shape[at + 1] = dims[at];
        Known::i64(shape, (from..from + size).collect())
    };
    let x = call.add(Reshape { shape: table.into() }, &[x], "table")?;
    let indices = call.add(Reshape { shape: names.into() }, &[indices], "names")?;
    let mut named = Vec::new();
    for from in [0, -size] {
        let places = call.lower(&column(from).into(), "places")?;
        let equal = Compare { comparison: Comparison::Equal };
        named.push(call.add(equal, &[indices, places], "named")?);
    }
    let named = call.add(Maximum {}, &named, "named")?;
    let zero = call.scalar(0.0);
    let left = call.add(Select {}, &[named, x, zero], "left")?;
    one(call.add(ReduceSum { axes: vec![at + 1], keep_dims: false }, &[left], "")?)
}

/// What happens to an element that is written.
fn reduction(call: &Call<'_, '_>) -> NodeResult<bool> {
    match call.string("reduction", "none")? {
        "none" => Ok(false),
        "add" => Ok(true),
        other => Err(unsupported("attribute `reduction`", format!("`{other}`"), "none, add")),
    }
}

pub(crate) fn scatter_nd(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = call.dims(0)?;
    let index_dims = call.dims(1)?;
    let Some((&parts, places)) = index_dims.split_last() else {
        return Err(invalid!("indices without a dimension"));
    };
    if parts == 0 || parts > dims.len() {
        return Err(invalid!("indices {index_dims:?} into {dims:?}"));
    }
    if call.dims(2)? != [places, &dims[parts..]].concat() {
        return Err(invalid!("updates of shape {:?}", call.dims(2)?));
    }
    let add = reduction(call)?;
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    let (rows, width) = (product(&dims[..parts]), product(&dims[parts..]));
    if let Some(indices) = call.known(1)? {
        let columns = tuples(&indices, &dims, parts)?;
        let flat = (0..columns[0].len()).map(|i| {
            columns.iter().zip(&dims).fold(0, |flat, (column, &size)| flat * size + column[i])
        });
        let flat: Vec<usize> = flat.collect();
        return one(scatter(call, &flat, [rows, width], add)?);
    }
    if !add || parts != 1 {
        return Err(unsupported(
            "operand `indices`",
            "computed at run time",
            "indices known while importing; at run time into the first axis with reduction `add`",
        ));
    }
    let (data, indices, updates) = (call.f32(0)?, call.indices(1)?, call.f32(2)?);
    let indices = call.add(Reshape { shape: places.to_vec().into() }, &[indices], "rows")?;
    let op = ScatterAdd { axis: 0, size: rows };
    let sums = call.add(op, &[updates, indices], "sums")?;
    one(call.add(Add {}, &[data, sums], "")?)
}

pub(crate) fn scatter_elements(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = call.dims(0)?;
    let at = axis(call.int("axis", 0)?, dims.len())?;
    let indices = call.must_know(1, "indices")?;
    if call.dims(2)? != indices.dims {
        return Err(invalid!("updates of shape {:?}", call.dims(2)?));
    }
    let add = reduction(call)?;
    let flat = elements(&indices, &dims, at)?;
    let count = dims.iter().product();
    one(scatter(call, &flat, [count, 1], add)?)
}

/// Operand 0, seen as `rows` rows of `width` elements, with the rows of operand 2 written (the last one wins) or added at
/// known places.
fn scatter(
    call: &mut Call<'_, '_>,
    places: &[usize],
    [rows, width]: [usize; 2],
    add: bool,
) -> NodeResult<Bound> {
    let dims = call.dims(0)?;
    if places.is_empty() {
        return call.bound(0);
    }
    if let (Some(data), Some(updates)) = (call.known(0)?, call.known(2)?)
        && let Some(written) = written(&data, &updates, places, width, add)
    {
        call.fold_budget(&dims)?;
        return Ok(written.into());
    }
    let updates = call.f32(2)?;
    let updates = call.reshaped(&updates.into(), vec![places.len(), width])?;
    let data = call.f32(0)?;
    if add {
        let updates = call.lower(&updates, "operand `updates`")?;
        let indices = places.iter().map(|&place| place as i64).collect();
        let indices = Known::i64(vec![places.len()], indices).into();
        let indices = call.lower(&indices, "operand `indices`")?;
        let op = ScatterAdd { axis: 0, size: rows };
        let sums = call.add(op, &[updates, indices], "sums")?;
        let sums = call.reshaped(&sums.into(), dims)?;
        let sums = call.lower(&sums, "sums")?;
        return Ok(call.add(Add {}, &[data, sums], "")?.into());
    }
    call.fold_budget(&[rows])?;
    let mut from: Vec<Option<usize>> = vec![None; rows];
    places.iter().enumerate().for_each(|(i, &place)| from[place] = Some(i));
    let sources: Vec<usize> = from.iter().map(|i| i.unwrap_or(0)).collect();
    let mask = from.iter().map(|i| if i.is_some() { 1.0 } else { 0.0 }).collect();
    let mask = call.lower(&Known::f32(vec![rows, 1], mask).into(), "mask")?;
    let moved = call.rows(&updates, 0, &sources)?;
    let moved = call.lower(&moved, "operand `updates`")?;
    let table = call.reshaped(&data.into(), vec![rows, width])?;
    let table = call.lower(&table, "operand `data`")?;
    let chosen = call.add(Select {}, &[mask, moved, table], "written")?;
    call.reshaped(&chosen.into(), dims)
}

/// [`scatter`] of known values of one type; `None` where it does not fold.
fn written(
    data: &Known,
    updates: &Known,
    places: &[usize],
    width: usize,
    add: bool,
) -> Option<Known> {
    let pairs = || {
        let rows = places.iter().enumerate();
        rows.flat_map(move |(i, place)| (0..width).map(move |j| (place * width + j, i * width + j)))
    };
    let result = match (&data.data, &updates.data) {
        (KnownData::Float(x), KnownData::Float(u)) => {
            let mut x = x.to_vec();
            pairs().for_each(|(to, from)| x[to] = if add { x[to] + u[from] } else { u[from] });
            KnownData::Float(x.into())
        }
        (KnownData::Ints(x), KnownData::Ints(u)) if !add => {
            let mut x = x.clone();
            pairs().for_each(|(to, from)| x[to] = u[from]);
            KnownData::Ints(x)
        }
        _ => return None,
    };
    Some(Known { data: result, ..data.clone() })
}
