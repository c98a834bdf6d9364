//! Reductions over axes.

use super::walk::Walk;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr};
use crate::ops::{TypeError, rule};
use crate::types::{Shape, TensorType};

/// Checks axes (ascending, below the rank) and gives the result's shape and the number of reduced elements.
pub(crate) fn infer(
    name: &str,
    x: &TensorType,
    axes: &[usize],
    keep_dims: bool,
) -> Result<(Shape, usize), TypeError> {
    rule::ensure(axes.windows(2).all(|pair| pair[0] < pair[1]), || {
        format!("{name}: axes must ascend without repetition, here {axes:?}")
    })?;
    rule::ensure(axes.last().is_none_or(|&axis| axis < x.shape.rank()), || {
        format!("{name}: axes {axes:?} exceed the rank of {x}")
    })?;
    let reduced: Shape = axes.iter().map(|&axis| x.shape[axis]).collect::<Vec<_>>().into();
    let dims = x.shape.iter().enumerate();
    let shape: Vec<usize> = dims
        .filter_map(|(i, &dim)| match axes.binary_search(&i) {
            Err(_) => Some(dim),
            Ok(_) => keep_dims.then_some(1),
        })
        .collect();
    Ok((shape.into(), reduced.count()))
}

/// A walk over the operand in row-major order: indices of the operand and of the result.
pub(crate) fn walk(shape: &Shape, axes: &[usize]) -> Walk<2> {
    let own = shape.strides();
    let mut strides = vec![[0usize; 2]; shape.rank()];
    let mut stride = 1;
    for i in (0..shape.rank()).rev() {
        let kept = axes.binary_search(&i).is_err();
        strides[i] = [own[i], if kept { stride } else { 0 }];
        if kept {
            stride = stride.saturating_mul(shape[i]);
        }
    }
    Walk::new(shape, &strides)
}

/// Folds each result's elements in row-major order, all results at once in one pass over the operand.
pub(crate) fn fold<T: Copy, A: Copy>(
    shape: &Shape,
    axes: &[usize],
    x: &[T],
    results: &mut [A],
    f: impl Fn(A, T) -> A,
) {
    let walk = walk(shape, axes);
    let (count, inner) = walk.inner();
    walk.rows(|[i, j]| {
        let x = &x[i..i + count];
        if inner[1] == 0 {
            results[j] = x.iter().fold(results[j], |sum, &x| f(sum, x));
        } else {
            results[j..j + count].iter_mut().zip(x).for_each(|(sum, &x)| *sum = f(*sum, x));
        }
    });
}

/// Loops that fold each result's elements in row-major order and store `finish` of the last value.
pub(crate) fn lower(
    builder: &mut LoopBuilder,
    shape: &Shape,
    axes: &[usize],
    [x, y]: [Buffer; 2],
    first: impl FnOnce(&LoopBuilder, Expr) -> Expr,
    f: impl FnOnce(Expr, Expr) -> Expr,
    finish: impl FnOnce(Expr) -> Expr,
) {
    let own = shape.strides();
    let part = |reduced: bool| -> Vec<usize> {
        (0..shape.rank()).filter(|i| axes.binary_search(i).is_ok() == reduced).collect()
    };
    let dims = |part: &[usize]| part.iter().map(|&i| shape[i]).collect::<Vec<_>>();
    let (kept, reduced) = (part(false), part(true));
    let result: Shape = dims(&kept).into();
    let results = result.strides();
    let outer: Vec<[usize; 2]> =
        kept.iter().zip(&results).map(|(&i, &stride)| [own[i], stride]).collect();
    let inner: Vec<[usize; 1]> = reduced.iter().map(|&i| [own[i]]).collect();
    Walk::new(&result, &outer).lower(builder, "i", |builder, [base, index]| {
        let base = builder.let_("base", base);
        let value = first(builder, base.clone());
        let sum = builder.local("result", value);
        Walk::new(&dims(&reduced), &inner).lower(builder, "r", |builder, [offset]| {
            let element = builder.load(x, base + offset);
            let value = f(builder.get(sum), element);
            builder.set(sum, value);
        });
        let value = finish(builder.get(sum));
        builder.store(y, index, value);
    });
}
