//! Building blocks of FP32 gradient rules.

use crate::graph::{Graph, ValueId};
use crate::ops::{Broadcast, Differentiated, GradientError, ReduceSum, Reshape, TypeError};
use crate::tensor::Tensor;
use crate::types::Shape;

/// A scalar FP32 constant.
pub(crate) fn scalar(graph: &mut Graph, value: f32) -> ValueId {
    graph.add_constant(format!("constant_{value:?}"), Tensor::f32(Shape::scalar(), vec![value]))
}

/// Sums a gradient of a broadcast result over what was stretched, to the operand's shape.
pub(crate) fn sum_to(
    graph: &mut Graph,
    gradient: ValueId,
    operand: &Shape,
    name: &str,
) -> Result<ValueId, TypeError> {
    let shape = graph.ty(gradient).shape.clone();
    let missing = shape.rank() - operand.rank();
    let stretched: Vec<usize> =
        (missing..shape.rank()).filter(|&i| operand[i - missing] != shape[i]).collect();
    let axes: Vec<usize> = (0..missing).chain(stretched.iter().copied()).collect();
    if axes.is_empty() {
        return Ok(gradient);
    }
    let keep_dims = missing == 0;
    let sum = graph.add1(ReduceSum { axes, keep_dims }, &[gradient], format!("{name}/sum"))?;
    reshape(graph, sum, operand, name)
}

/// The same elements under another shape.
pub(crate) fn reshape(
    graph: &mut Graph,
    value: ValueId,
    shape: &Shape,
    name: &str,
) -> Result<ValueId, TypeError> {
    if graph.ty(value).shape == *shape {
        return Ok(value);
    }
    graph.add1(Reshape { shape: shape.clone() }, &[value], format!("{name}/reshape"))
}

/// Stretches the gradient of a reduction over `axes` to the operand's shape.
pub(crate) fn stretch(
    graph: &mut Graph,
    gradient: ValueId,
    operand: &Shape,
    axes: &[usize],
    name: &str,
) -> Result<ValueId, TypeError> {
    let value = reshape(graph, gradient, &kept_shape(operand, axes), name)?;
    if graph.ty(value).shape == *operand {
        return Ok(value);
    }
    graph.add1(Broadcast { shape: operand.clone() }, &[value], format!("{name}/broadcast"))
}

/// `shape` with `axes` reduced to size 1.
pub(crate) fn kept_shape(shape: &Shape, axes: &[usize]) -> Shape {
    let dims = shape.iter().enumerate();
    dims.map(|(i, &dim)| if axes.contains(&i) { 1 } else { dim }).collect::<Vec<_>>().into()
}

/// Builds one operand's gradient over the result's shape.
pub(crate) type Rule<'a> = &'a dyn Fn(&mut Graph) -> Result<ValueId, TypeError>;

/// Gradients of two operands that broadcast, from rules that give each over the result's shape.
pub(crate) fn of_binary(
    graph: &mut Graph,
    node: &Differentiated<'_>,
    name: &str,
    rules: [Rule<'_>; 2],
) -> Result<Vec<Option<ValueId>>, GradientError> {
    let mut gradients = vec![None, None];
    for (i, rule) in rules.into_iter().enumerate() {
        if node.wanted[i] {
            let full = rule(graph)?;
            let shape = graph.ty(node.inputs[i]).shape.clone();
            gradients[i] = Some(sum_to(graph, full, &shape, name)?);
        }
    }
    Ok(gradients)
}
