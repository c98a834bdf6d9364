//! A forward graph for another number of examples.

use std::collections::BTreeMap;

use trainc_ir::graph::{Definition, Graph, InputRole, ValueId};
use trainc_ir::ops::{Broadcast, Op, Reshape, Slice, TypeError};
use trainc_ir::types::{Shape, TensorType};

/// The number of examples of a graph: the first dimension of its data inputs; `None` if they have none, or several.
pub fn batch(graph: &Graph) -> Option<usize> {
    let data = graph.inputs().iter().filter(|i| i.role == InputRole::Data);
    let mut sizes = data.map(|i| graph.ty(i.value).shape.first().copied());
    let first = sizes.next()??;
    sizes.all(|size| size == Some(first)).then_some(first)
}

/// The graph with `count` examples where it has another number: inputs of data and labels, and all that depends on them.
/// Shapes that operations name follow as long as the examples are the first dimension there.
///
/// # Errors
/// If the graph has no number of examples, or it is part of a constant or of a later dimension.
pub fn with_batch(graph: &Graph, count: usize) -> Result<Graph, TypeError> {
    let old = batch(graph).filter(|&old| old > 0).ok_or_else(|| {
        TypeError::new("the data inputs have no first dimension in common for the examples")
    })?;
    if old == count {
        return Ok(graph.clone());
    }
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for v in graph.value_ids() {
        let value = graph.value(v);
        let copy = match &value.definition {
            Definition::Input(i) => {
                let role = graph.inputs()[*i].role;
                let ty = match value.ty.shape.first() {
                    Some(&n) if n == old && !role.is_scheduled() => {
                        value.ty.with_shape(rows(&value.ty.shape, old, count))
                    }
                    _ => value.ty.clone(),
                };
                result.add_input(&value.name, ty, role)
            }
            Definition::Parameter(i) => {
                let p = &graph.parameters()[*i];
                result.add_parameter(&value.name, p.initial.clone(), p.trainable)
            }
            Definition::Constant(tensor) => result.add_constant(&value.name, tensor.clone()),
            Definition::Result { slot, .. } if *slot > 0 => continue,
            Definition::Result { node, .. } => {
                let node = graph.node(*node);
                let operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v]).collect();
                let follows = operands.iter().zip(&node.inputs);
                let follows = follows.into_iter().any(|(&n, &o)| result.ty(n) != graph.ty(o));
                let op = if follows { resized(&node.op, old, count) } else { node.op.clone() };
                let fail = |why: String| {
                    TypeError::new(format!("node `{}` with {count} examples: {why}", node.name))
                };
                let outputs =
                    result.add(op, &operands, &node.name).map_err(|e| fail(e.to_string()))?;
                for (&o, n) in node.outputs.iter().zip(outputs) {
                    let (was, is) = (graph.ty(o), result.ty(n));
                    if was != is && !is_resized(was, is, old, count) {
                        return Err(fail(format!("{was} would become {is}")));
                    }
                    result.set_name(n, &graph.value(o).name);
                    new.insert(o, n);
                }
                continue;
            }
        };
        new.insert(v, copy);
    }
    for output in graph.outputs() {
        result.add_output(&output.name, new[&output.value]);
    }
    for update in graph.updates() {
        result.add_update(update.parameter, new[&update.value]);
    }
    Ok(result)
}

/// Whether only the first dimension changed, in proportion.
fn is_resized(was: &TensorType, is: &TensorType, old: usize, count: usize) -> bool {
    *is == was.with_shape(rows(&was.shape, old, count))
        && was.shape.first().is_some_and(|n| n % old == 0)
}

fn rows(shape: &Shape, old: usize, count: usize) -> Shape {
    let mut dims = shape.to_vec();
    if let Some(first) = dims.first_mut() {
        *first = *first / old * count;
    }
    dims.into()
}

/// An operation whose attributes name the number of examples, for another one.
fn resized(op: &Op, old: usize, count: usize) -> Op {
    let resize = |shape: &Shape| match shape.first() {
        Some(n) if n % old == 0 => rows(shape, old, count),
        _ => shape.clone(),
    };
    match op {
        Op::Reshape(reshape) => Reshape { shape: resize(&reshape.shape) }.into(),
        Op::Broadcast(broadcast) => Broadcast { shape: resize(&broadcast.shape) }.into(),
        Op::Slice(slice) if slice.lengths.first() == Some(&old) => {
            let mut slice: Slice = slice.clone();
            slice.lengths[0] = count;
            slice.into()
        }
        op => op.clone(),
    }
}
