//! Building blocks of FP32 gradient rules.

use crate::graph::{Definition, Graph, ValueId};
use crate::ops::{Broadcast, Differentiated, GradientError, Op, ReduceSum, Reshape, TypeError};
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

/// Whether a value is a parameter with more dimensions, the first of them for the batch, such as the bias of a convolution.
fn is_row_parameter(graph: &Graph, v: ValueId) -> bool {
    let Definition::Result { node, .. } = graph.value(v).definition else { return false };
    let node = graph.node(node);
    let parameter = matches!(node.op, Op::Reshape(_))
        && matches!(graph.value(node.inputs[0]).definition, Definition::Parameter(_));
    let [before, after] = [node.inputs[0], v].map(|v| &graph.ty(v).shape);
    parameter && after.rank() > before.rank() && after.first() == Some(&1)
}

/// A sum over a batch of one, which larger batches have for the gradient of a parameter: algorithms round what they sum, and sums are
/// what their updates take.
fn sum_over_batch(graph: &mut Graph, gradient: ValueId, name: &str) -> Result<ValueId, TypeError> {
    let sum = ReduceSum { axes: vec![0], keep_dims: true };
    graph.add1(sum, &[gradient], format!("{name}/sum"))
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
            let operand = node.inputs[i];
            let shape = graph.ty(operand).shape.clone();
            gradients[i] =
                Some(match is_row_parameter(graph, operand) && graph.ty(full).shape == shape {
                    true => sum_over_batch(graph, full, name)?,
                    false => sum_to(graph, full, &shape, name)?,
                });
        }
    }
    Ok(gradients)
}
