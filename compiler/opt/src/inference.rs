//! From a model's graph to the graph that infers: running statistics in batch normalisation, no dropout, no loss.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{Definition, Graph, InputRole, NodeId, ValueId};
use trainc_ir::ops::{BatchNorm, Op, TypeError};

/// The inference form of a model: batch normalisation reads the running statistics that the model's own updates keep,
/// dropout passes its operand through, outputs that depend on labels and all updates are gone. Every parameter that
/// the outputs use keeps its name.
///
/// # Errors
/// If a batch normalisation by the batch's own statistics has no running statistics to take their place.
pub fn inference_graph(model: &Graph) -> Result<Graph, TypeError> {
    let running = running_statistics(model);
    let mut result = Graph::new(model.name());
    let mut substitute: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let labelled = depends_on_labels(model);
    let kept: Vec<ValueId> =
        model.outputs().iter().map(|o| o.value).filter(|v| !labelled.contains(v)).collect();
    let used = used(model, &kept, &running)?;
    for v in model.value_ids().filter(|v| used.contains(v)) {
        let value = model.value(v);
        let new = match &value.definition {
            Definition::Input(i) => {
                result.add_input(&value.name, value.ty.clone(), model.inputs()[*i].role)
            }
            Definition::Parameter(i) => {
                let p = &model.parameters()[*i];
                result.add_parameter(&value.name, p.initial.clone(), p.trainable)
            }
            Definition::Constant(tensor) => result.add_constant(&value.name, tensor.clone()),
            Definition::Result { slot, .. } if *slot > 0 => continue,
            Definition::Result { node, .. } => {
                let node = model.node(*node);
                let operands: Vec<ValueId> =
                    operands(model, node, &running)?.iter().map(|o| substitute[o]).collect();
                let outputs = match &node.op {
                    Op::Dropout(_) => vec![operands[0]],
                    Op::BatchNorm(norm) => {
                        let frozen = BatchNorm { batch: false, ..norm.clone() };
                        result.add(frozen, &operands, &node.name)?
                    }
                    op => result.add(op.clone(), &operands, &node.name)?,
                };
                for (&old, &new) in node.outputs.iter().zip(&outputs).skip(1) {
                    substitute.insert(old, new);
                }
                outputs[0]
            }
        };
        substitute.insert(v, new);
    }
    for output in model.outputs().iter().filter(|o| !labelled.contains(&o.value)) {
        result.add_output(&output.name, substitute[&output.value]);
    }
    Ok(result)
}

/// The model with running statistics in batch normalisation; the updates that keep them are gone, all else stays (nodes
/// that nothing needs any more, too).
///
/// # Errors
/// As [`inference_graph`].
pub fn with_running_statistics(model: &Graph) -> Result<Graph, TypeError> {
    let running = running_statistics(model);
    let kept: BTreeSet<ValueId> = running.values().copied().collect();
    let mut result = Graph::new(model.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for v in model.value_ids() {
        let Some(node) = model.producer(v) else { continue };
        let Op::BatchNorm(norm) = &node.op else { continue };
        if norm.batch {
            model.copy_into(&mut result, &mut new, |w| w < v)?;
            let operands = operands(model, node, &running)?;
            let operands: Vec<ValueId> = operands.iter().map(|o| new[o]).collect();
            let frozen = BatchNorm { batch: false, ..norm.clone() };
            let output = result.add1(frozen, &operands, &node.name)?;
            result.set_name(output, &model.value(v).name);
            new.insert(v, output);
        }
    }
    model.copy_into(&mut result, &mut new, |_| true)?;
    for output in model.outputs() {
        result.add_output(&output.name, new[&output.value]);
    }
    let updates = model.updates().iter();
    for update in updates.filter(|u| !kept.contains(&model.parameters()[u.parameter].value)) {
        result.add_update(update.parameter, new[&update.value]);
    }
    Ok(result)
}

/// For each result of a `batch_statistics`, the parameter whose update follows it.
pub(crate) fn running_statistics(model: &Graph) -> BTreeMap<ValueId, ValueId> {
    let mut found = BTreeMap::new();
    for update in model.updates() {
        let parameter = &model.parameters()[update.parameter];
        if parameter.trainable {
            continue;
        }
        let mut stack = vec![update.value];
        let mut seen = BTreeSet::new();
        while let Some(v) = stack.pop() {
            let Some(node) = model.producer(v) else { continue };
            if matches!(node.op, Op::BatchStatistics(_)) {
                found.entry(v).or_insert(parameter.value);
            } else if seen.insert(v) {
                stack.extend(&node.inputs);
            }
        }
    }
    found
}

/// A node's operands with running statistics in place of the batch's.
fn operands(
    model: &Graph,
    node: &trainc_ir::graph::Node,
    running: &BTreeMap<ValueId, ValueId>,
) -> Result<Vec<ValueId>, TypeError> {
    match &node.op {
        Op::Dropout(_) => Ok(vec![node.inputs[0]]),
        Op::BatchNorm(norm) if norm.batch => {
            let mut operands = node.inputs.clone();
            for statistic in &mut operands[3..] {
                *statistic = *running.get(statistic).ok_or_else(|| {
                    TypeError::new(format!(
                        "batch normalisation `{}` keeps no running statistics to infer with ({})",
                        node.name,
                        model.name()
                    ))
                })?;
            }
            Ok(operands)
        }
        _ => Ok(node.inputs.clone()),
    }
}

fn used(
    model: &Graph,
    roots: &[ValueId],
    running: &BTreeMap<ValueId, ValueId>,
) -> Result<BTreeSet<ValueId>, TypeError> {
    let mut used: BTreeSet<ValueId> =
        model.inputs().iter().filter(|i| i.role == InputRole::Data).map(|i| i.value).collect();
    let mut stack = roots.to_vec();
    while let Some(v) = stack.pop() {
        if !used.insert(v) {
            continue;
        }
        if let Some(node) = model.producer(v) {
            used.extend(&node.outputs);
            stack.extend(operands(model, node, running)?);
        }
    }
    Ok(used)
}

fn depends_on_labels(model: &Graph) -> BTreeSet<ValueId> {
    let mut found: BTreeSet<ValueId> =
        model.inputs().iter().filter(|i| i.role == InputRole::Labels).map(|i| i.value).collect();
    let ids: Vec<NodeId> = model.node_ids().collect();
    for id in ids {
        let node = model.node(id);
        if node.inputs.iter().any(|v| found.contains(v)) {
            found.extend(&node.outputs);
        }
    }
    found
}
