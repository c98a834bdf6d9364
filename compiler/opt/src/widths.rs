//! Widths of blocks that follow the loss (DYNASTY): sensitivities that a training step adds up, and the choice at an epoch's end.
//!
//! Each operand of a forward product that has a gradient is looked at: weights, and activations of all layers but the first. Its
//! blocks' sensitivities are state, `VALUE.sensitivity`, its blocks' widths are, too, under the name that the algorithm's file
//! gives. One choice is made for weights and one for activations; each keeps two numbers, `widths.weight` and `widths.activation`.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Graph, Node, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{BlockSensitivity, TypeError};
use trainc_ir::{Op, Tensor, TensorType};

use crate::algorithm::widths::Widths;
use crate::roles::{Role, Roles, Side, own_name};

/// The state that adds up sensitivities.
const SENSITIVITY: &str = "sensitivity";

/// How many multiplications a product makes, those of padding included.
pub fn multiplications(graph: &Graph, node: &Node) -> Option<usize> {
    let ty = |v: ValueId| graph.ty(v);
    let by_filter = |w: &TensorType| w.count() / w.shape[0].max(1);
    match &node.op {
        Op::MatMul(op) => {
            let a = &ty(node.inputs[0]).shape;
            let inner = a[a.rank() - if op.transpose_a { 2 } else { 1 }];
            Some(ty(node.outputs[0]).count() * inner)
        }
        Op::Conv2d(_) => Some(ty(node.outputs[0]).count() * by_filter(ty(node.inputs[1]))),
        Op::Conv2dGradientInput(_) => {
            Some(ty(node.inputs[0]).count() * by_filter(ty(node.inputs[1])))
        }
        _ => None,
    }
}

/// How often each element of the operands of forward products is multiplied, of those that may have blocks with widths.
fn uses(graph: &Graph, roles: &Roles) -> BTreeMap<ValueId, f32> {
    let mut uses = BTreeMap::new();
    let is_weight = |v| roles.role_in_products(v) == Some(Role::Weight) && !roles.constant(v);
    let forward = |node: &&Node| {
        let side = roles.side(node.outputs[0]);
        node.op.kind().has(Property::Bilinear) && side == Some(Side::Forward)
    };
    for node in graph.nodes().iter().filter(forward) {
        let Some(all) = multiplications(graph, node) else { continue };
        for (i, &v) in node.inputs.iter().enumerate() {
            // An activation's widths are for the gradient of a weight, the other operand.
            let other = node.inputs[1 - i];
            let trained = roles.role(other) == Some(Role::Weight) && is_weight(other);
            let activation = !roles.layer(v).contains(&"first") && trained;
            if is_weight(v) || activation {
                *uses.entry(v).or_default() += all as f32 / graph.ty(v).count() as f32;
            }
        }
    }
    uses
}

/// Adds to a training graph what adds up sensitivities, given the gradient of each value by its index.
///
/// # Errors
/// If a state would have the name of a parameter of the model.
pub(crate) fn add_sensitivities(
    graph: &mut Graph,
    roles: &Roles,
    gradients: &[Option<ValueId>],
) -> Result<(), TypeError> {
    for &v in uses(graph, roles).keys() {
        let Some(gradient) = gradients.get(v.index()).copied().flatten() else { continue };
        let own = own_name(graph, v);
        let name = format!("{own}.{SENSITIVITY}");
        let axes = roles.block_axes(v);
        let zeros = Tensor::zeros(&TensorType::f32(axes.grid(&graph.ty(v).shape)?));
        let before = add(graph, &name, zeros)?;
        let position = graph.parameters().len() - 1;
        let operands = [before, v, gradient];
        let after =
            graph.add1(BlockSensitivity { axes }, &operands, format!("{own}/{SENSITIVITY}"))?;
        graph.add_update(position, after);
    }
    Ok(())
}

/// Adds to the graph of an epoch's end what chooses widths; `new` says which value of it one of the training graph is.
///
/// # Errors
/// If a state would have the name of a parameter of the model.
pub(crate) fn add_choices(
    graph: &mut Graph,
    training: &Graph,
    widths: &Widths,
    new: &BTreeMap<ValueId, ValueId>,
) -> Result<(), TypeError> {
    let roles = Roles::of(training);
    let uses = uses(training, &roles);
    let looked = |weights: bool| {
        let found = training.updates().iter().filter_map(|update| {
            let node = training.producer(update.value)?;
            let Op::BlockSensitivity(_) = &node.op else { return None };
            let of = node.inputs[1];
            let weight = roles.role_in_products(of) == Some(Role::Weight);
            (weight == weights).then_some((update.parameter, of, *uses.get(&of)?))
        });
        found.collect::<Vec<_>>()
    };
    for (name, weights) in [("widths.weight", true), ("widths.activation", false)] {
        let looked = looked(weights);
        if looked.is_empty() {
            continue;
        }
        let state = add(graph, name, Tensor::f32([2], vec![0.0; 2]))?;
        let mut parameters = vec![graph.parameters().len() - 1];
        let mut operands = vec![state];
        for &(_, of, _) in &looked {
            let first = widths.kept.first(training.ty(of), roles.block_axes(of));
            let first = first.ok_or_else(|| TypeError::new("a value without blocks"))?;
            let own = format!("{}.{}", own_name(training, of), widths.state);
            let own = add(graph, &own, first)?;
            parameters.push(graph.parameters().len() - 1);
            operands.push(own);
        }
        // Widths and sensitivities take turns.
        let mut pairs = vec![operands[0]];
        let mut updated = vec![parameters[0]];
        for (i, &(sensitivity, ..)) in looked.iter().enumerate() {
            let before = training.parameters()[sensitivity].value;
            let name = &training.value(before).name;
            let own = graph.parameter_named(name);
            let own = own.ok_or_else(|| TypeError::new(format!("no step keeps `{name}`")))?;
            pairs.extend([operands[i + 1], new[&before]]);
            updated.extend([parameters[i + 1], own]);
        }
        let uses: Vec<f32> = looked.iter().map(|(_, _, uses)| *uses).collect();
        let results = graph.add(widths.choice(&uses), &pairs, format!("{name}/choice"))?;
        for (parameter, value) in updated.into_iter().zip(results) {
            graph.add_update(parameter, value);
        }
    }
    Ok(())
}

/// A new parameter that does not train.
fn add(graph: &mut Graph, name: &str, initial: Tensor) -> Result<ValueId, TypeError> {
    if graph.parameter_named(name).is_some() {
        let message = format!("the model has a parameter `{name}`, as a state would be called");
        return Err(TypeError::new(message));
    }
    Ok(graph.add_parameter(name, Arc::new(initial), false))
}
