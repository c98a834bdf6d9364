//! Blocks of space and depth, triangles, products by index letters.

use trainc_ir::ValueId;
use trainc_ir::ops::{MatMul, Mul, ProductRole, ReduceSum, Reshape, Select, Transpose};

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::{Known, KnownData};
use crate::ops::movement::one;

/// DepthToSpace and SpaceToDepth.
pub(crate) fn blocks(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let to_space = call.node.op_type == "DepthToSpace";
    let block = usize::try_from(call.int("blocksize", 0)?).unwrap_or(0);
    let x = call.value(0)?;
    let &[n, c, h, w] = &*call.shape(x) else {
        return Err(invalid!("an operand of shape {:?}, not [N, C, H, W]", call.shape(x)));
    };
    let squared = block.checked_mul(block).filter(|&squared| squared > 0);
    let fits = squared.is_some_and(|squared| match to_space {
        true => c % squared == 0,
        false => h % block == 0 && w % block == 0,
    });
    let (true, Some(squared)) = (fits, squared) else {
        return Err(invalid!("blocks of {block} in {:?}", [n, c, h, w]));
    };
    let (split, permutation, joined) = if to_space {
        let depth = c / squared;
        let (split, permutation) = match call.string("mode", "DCR")? {
            "DCR" => (vec![n, block, block, depth, h, w], vec![0, 3, 4, 1, 5, 2]),
            "CRD" => (vec![n, depth, block, block, h, w], vec![0, 1, 4, 2, 5, 3]),
            other => return Err(invalid!("`mode` is `{other}`, not DCR or CRD")),
        };
        (split, permutation, vec![n, depth, h * block, w * block])
    } else {
        let (rows, columns) = (h / block, w / block);
        (
            vec![n, c, rows, block, columns, block],
            vec![0, 3, 5, 1, 2, 4],
            vec![n, c * squared, rows, columns],
        )
    };
    let split = call.add(Reshape { shape: split.into() }, &[x], "blocks")?;
    let moved = call.add(Transpose { permutation }, &[split], "moved")?;
    one(call.add(Reshape { shape: joined.into() }, &[moved], "")?)
}

pub(crate) fn trilu(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let upper = call.flag("upper", true)?;
    let k = match call.given(1) {
        true => match call.must_know_ints(1, "k")?[..] {
            [k] => k,
            _ => return Err(invalid!("k is no scalar")),
        },
        false => 0,
    };
    let dims = call.dims(0)?;
    let &[.., rows, columns] = &*dims else { return Err(invalid!("an operand {dims:?}")) };
    let kept = move |i: usize| {
        let (row, column) = ((i / columns % rows) as i64, (i % columns) as i64);
        let over = column - row;
        if upper { over >= k } else { over <= k }
    };
    if let Some(known) = call.known(0)? {
        let count = call.fold_budget(&dims)?;
        let data = match &known.data {
            KnownData::Float(v) => {
                KnownData::Float((0..count).map(|i| if kept(i) { v[i] } else { 0.0 }).collect())
            }
            KnownData::Double(v) => {
                KnownData::Double((0..count).map(|i| if kept(i) { v[i] } else { 0.0 }).collect())
            }
            KnownData::Ints(v) => {
                KnownData::Ints((0..count).map(|i| if kept(i) { v[i] } else { 0 }).collect())
            }
            KnownData::Opaque => return Err(unsupported("operand `input`", "its type", "FLOAT")),
        };
        return one(Known { data, ..(*known).clone() });
    }
    let x = call.f32(0)?;
    let count = call.fold_budget(&[rows, columns])?;
    let mask = (0..count).map(|i| if kept(i) { 1.0 } else { 0.0 }).collect();
    let mask = call.lower(&Known::f32(vec![rows, columns], mask).into(), "mask")?;
    let zero = call.scalar(0.0);
    one(call.add(Select {}, &[mask, x, zero], "")?)
}

/// Einsum of one or two operands.
pub(crate) fn einsum(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let equation: String =
        call.string("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let refuse = |why: &str| {
        unsupported(
            "attribute `equation`",
            format!("`{equation}`: {why}"),
            "one or two operands, each letter once in each; otherwise MatMul, Transpose and ReduceSum",
        )
    };
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&*equation, None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|term| term.chars().collect()).collect();
    let twice = |term: &[char]| (1..term.len()).any(|i| term[..i].contains(&term[i]));
    if terms.iter().flatten().any(|c| !c.is_ascii_alphabetic()) {
        return Err(refuse("an ellipsis"));
    }
    if terms.iter().any(|term| twice(term)) {
        return Err(refuse("a diagonal"));
    }
    if terms.len() != call.operands() || terms.is_empty() || terms.len() > 2 {
        return Err(refuse(&format!("{} operands", call.operands())));
    }
    let result: Vec<char> = match right {
        Some(right) => right.chars().collect(),
        None => {
            let all: Vec<char> = terms.concat();
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|c| all.iter().filter(|d| *d == c).count() == 1)
                .collect();
            once.sort_unstable();
            once
        }
    };
    if twice(&result) || result.iter().any(|c| !terms.iter().any(|term| term.contains(c))) {
        return Err(refuse("a result letter twice or of no operand"));
    }
    let mut operands = Vec::new();
    for (i, term) in terms.iter().enumerate() {
        let x = call.f32(i)?;
        if call.shape(x).len() != term.len() {
            return Err(invalid!("`{equation}` with an operand of shape {:?}", call.shape(x)));
        }
        // What no one else has is summed at once.
        let other = terms.get(1 - i.min(1)).filter(|_| terms.len() == 2);
        let alone = |c: &char| !result.contains(c) && !other.is_some_and(|other| other.contains(c));
        let axes: Vec<usize> = (0..term.len()).filter(|&a| alone(&term[a])).collect();
        let letters: Vec<char> = term.iter().copied().filter(|c| !alone(c)).collect();
        let x = match axes.is_empty() {
            true => x,
            false => call.add(ReduceSum { axes, keep_dims: false }, &[x], "summed")?,
        };
        operands.push((x, letters));
    }
    let (x, letters) = match &operands[..] {
        [(x, letters)] => (*x, letters.clone()),
        [a, b] => product(call, a, b, &result)?,
        _ => return Err(refuse("no operands")),
    };
    one(call.arranged(x, &letters, &result, "")?)
}

/// The product of two operands: letters that both have and the result has, those of the left, those of the right.
fn product(
    call: &mut Call<'_, '_>,
    (a, left): &(ValueId, Vec<char>),
    (b, right): &(ValueId, Vec<char>),
    result: &[char],
) -> NodeResult<(ValueId, Vec<char>)> {
    let size = |call: &Call<'_, '_>, c: char| -> NodeResult<usize> {
        let of =
            |x: ValueId, term: &[char]| term.iter().position(|d| *d == c).map(|i| call.shape(x)[i]);
        match (of(*a, left), of(*b, right)) {
            (Some(m), Some(n)) if m != n => Err(invalid!("`{c}` is of size {m} and of size {n}")),
            (m, n) => Ok(m.or(n).unwrap_or(1)),
        }
    };
    let of = |keep: &dyn Fn(char) -> bool, term: &[char]| -> Vec<char> {
        term.iter().copied().filter(|&c| keep(c)).collect()
    };
    let both = of(&|c| right.contains(&c) && result.contains(&c), left);
    let inner = of(&|c| right.contains(&c) && !result.contains(&c), left);
    let rows = of(&|c| !right.contains(&c), left);
    let columns = of(&|c| !left.contains(&c), right);
    let count = |call: &Call<'_, '_>, letters: &[char]| -> NodeResult<usize> {
        letters.iter().try_fold(1, |n, &c| Ok(n * size(call, c)?))
    };
    let letters = [&both[..], &rows, &columns].concat();
    let shape = letters.iter().map(|&c| size(call, c)).collect::<NodeResult<Vec<_>>>()?;
    if inner.is_empty() && (rows.is_empty() || columns.is_empty()) {
        // Nothing is summed: factors, stretched.
        let a = call.arranged(*a, left, &[&both[..], &rows].concat(), "left")?;
        let b = call.arranged(*b, right, &[&both[..], &columns].concat(), "right")?;
        let widen = |call: &mut Call<'_, '_>, x: ValueId, before: usize, after: usize| {
            let own = call.shape(x);
            let dims = [&own[..both.len()], &vec![1; before], &own[both.len()..], &vec![1; after]]
                .concat();
            call.add(Reshape { shape: dims.into() }, &[x], "widened")
        };
        let a = widen(call, a, 0, columns.len())?;
        let b = widen(call, b, rows.len(), 0)?;
        return Ok((call.add(Mul {}, &[a, b], "product")?, letters));
    }
    let (batch, m) = (count(call, &both)?, count(call, &rows)?);
    let (k, n) = (count(call, &inner)?, count(call, &columns)?);
    let a = call.arranged(*a, left, &[&both[..], &rows, &inner].concat(), "left")?;
    let b = call.arranged(*b, right, &[&both[..], &inner, &columns].concat(), "right")?;
    let table = |call: &mut Call<'_, '_>, x, r, c| {
        let shape = if both.is_empty() { vec![r, c] } else { vec![batch, r, c] };
        call.add(Reshape { shape: shape.into() }, &[x], "table")
    };
    let (a, b) = (table(call, a, m, k)?, table(call, b, k, n)?);
    let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
    let y = call.add(op, &[a, b], "product")?;
    Ok((call.add(Reshape { shape: shape.into() }, &[y], "result")?, letters))
}

impl Call<'_, '_> {
    /// An operand with its axes in another order of their letters.
    fn arranged(
        &mut self,
        x: ValueId,
        from: &[char],
        to: &[char],
        suffix: &str,
    ) -> NodeResult<ValueId> {
        let permutation: Vec<usize> =
            to.iter().filter_map(|c| from.iter().position(|d| d == c)).collect();
        if permutation.len() != from.len() {
            return Err(invalid!("internal: letters {from:?} as {to:?}"));
        }
        match permutation.is_sorted() {
            true => Ok(x),
            false => self.add(Transpose { permutation }, &[x], suffix),
        }
    }
}
