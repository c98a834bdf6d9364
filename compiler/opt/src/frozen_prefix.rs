//! The part of a training step before its first trained layer: it is inference, so each example can be computed as if
//! alone, in the memory that one example takes.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{Definition, Graph, InputRole, Node, ValueId};
use trainc_ir::ops::TypeError;
use trainc_ir::ops::properties::{Examples, Property};
use trainc_ir::types::TensorType;

/// A training step in two: what comes before the first trained layer, for one example, and the rest, for a batch.
#[derive(Clone, Debug)]
pub struct FrozenPrefix {
    /// From the data inputs [1, ...] to the values that the rest needs.
    pub prefix: Graph,
    /// The training step, with those values [batch, ...] as data inputs of the same names.
    pub rest: Graph,
    /// Names and roles of the whole step's inputs, in order.
    inputs: Vec<(String, InputRole)>,
}

/// Takes a training step apart, given the same step for a batch of one. `None` if no product comes before the first
/// trained layer, or the batch is one.
///
/// The prefix holds what depends on data and constants alone and treats each example by itself: no statistics of the
/// batch, no dropout.
///
/// # Errors
/// None that graphs of one model give.
pub fn frozen_prefix(train: &Graph, one: &Graph) -> Result<Option<FrozenPrefix>, TypeError> {
    let data: Vec<ValueId> = train
        .inputs()
        .iter()
        .filter(|input| input.role == InputRole::Data)
        .map(|input| input.value)
        .collect();
    let Some(&batch) = data.first().and_then(|&v| train.ty(v).shape.first()) else {
        return Ok(None);
    };
    let same = train.values().len() == one.values().len();
    if batch == 1 || !same || !data.iter().all(|&v| is_row(train, one, v, batch)) {
        return Ok(None);
    }
    let mut inside: BTreeSet<ValueId> = data.iter().copied().collect();
    let mut constant: BTreeSet<ValueId> = BTreeSet::new();
    let mut products = 0;
    for v in train.value_ids() {
        match &train.value(v).definition {
            Definition::Constant(_) => {
                constant.insert(v);
            }
            Definition::Result { node, slot: 0 } => {
                let (node, alone) = (train.node(*node), one.node(*node));
                let known = |v: &ValueId| inside.contains(v) || constant.contains(v);
                if node.outputs.len() != 1 || !node.inputs.iter().all(known) {
                    continue;
                }
                if node.inputs.iter().all(|v| constant.contains(v)) {
                    constant.insert(v);
                } else if is_by_example(train, node, &inside, batch)
                    && alone.op.kind() == node.op.kind()
                    && alone.inputs == node.inputs
                    && is_row(train, one, v, batch)
                {
                    products += usize::from(node.op.kind().has(Property::Bilinear));
                    inside.insert(v);
                }
            }
            _ => {}
        }
    }
    if products == 0 {
        return Ok(None);
    }
    let outside = train.nodes().iter().filter(|n| n.outputs.iter().all(|v| !inside.contains(v)));
    let needed: BTreeSet<ValueId> =
        outside.flat_map(|n| n.inputs.iter().copied()).chain(train.roots()).collect();
    let boundary: Vec<ValueId> = needed.intersection(&inside).copied().collect();
    if boundary.iter().any(|v| train.producer(*v).is_none()) {
        // The first layer trains, or something beside it reads the input.
        return Ok(None);
    }

    let mut prefix = Graph::new(one.name());
    let mut new = BTreeMap::new();
    let wanted = one.needed(boundary.iter().copied());
    one.copy_into(&mut prefix, &mut new, |v| wanted.contains(&v) || data.contains(&v))?;
    for v in &boundary {
        prefix.add_output(&train.value(*v).name, new[v]);
    }

    let mut rest = Graph::new(train.name());
    let mut new = BTreeMap::new();
    for &v in &boundary {
        let value = train.value(v);
        new.insert(v, rest.add_input(&value.name, value.ty.clone(), InputRole::Data));
    }
    let mut wanted = train.needed(train.roots());
    inside.iter().for_each(|v| {
        wanted.remove(v);
    });
    // Constants of the prefix alone.
    let users = train.nodes().iter().filter(|n| n.outputs.iter().any(|v| wanted.contains(v)));
    let used: BTreeSet<ValueId> =
        users.flat_map(|n| n.inputs.iter().copied()).chain(train.roots()).collect();
    wanted.retain(|v| used.contains(v) || !constant.contains(v));
    train.inputs().iter().for_each(|i| {
        if i.role != InputRole::Data {
            wanted.insert(i.value);
        }
    });
    train.copy_into(&mut rest, &mut new, |v| wanted.contains(&v))?;
    train.copy_roots(&mut rest, &new);
    let name = |v: ValueId| train.value(v).name.clone();
    let inputs = train.inputs().iter().map(|i| (name(i.value), i.role)).collect();
    Ok(Some(FrozenPrefix { prefix, rest, inputs }))
}

impl FrozenPrefix {
    /// The whole step from a form of [`FrozenPrefix::prefix`] for a batch (see [`crate::one_by_one`]) and one of
    /// [`FrozenPrefix::rest`], both of which keep the names of inputs and outputs.
    ///
    /// # Errors
    /// If the two do not fit.
    pub fn join(&self, prefix: &Graph, rest: &Graph) -> Result<Graph, TypeError> {
        let mut whole = Graph::new(rest.name());
        let named = |graph: &Graph, name: &str| {
            let mut all = graph.inputs().iter().map(|i| i.value);
            all.find(|&v| graph.value(v).name == name)
        };
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        for (name, role) in &self.inputs {
            let found = match role {
                InputRole::Data => named(prefix, name).map(|v| (prefix, v, &mut before)),
                _ => named(rest, name).map(|v| (rest, v, &mut after)),
            };
            let (graph, v, new) =
                found.ok_or_else(|| TypeError::new(format!("no input {name}")))?;
            new.insert(v, whole.add_input(name, graph.ty(v).clone(), *role));
        }
        prefix.copy_into(&mut whole, &mut before, |_| true)?;
        for output in prefix.outputs() {
            let v = named(rest, &output.name)
                .filter(|&v| rest.ty(v) == prefix.ty(output.value))
                .ok_or_else(|| TypeError::new(format!("`{}` does not fit", output.name)))?;
            after.insert(v, before[&output.value]);
        }
        rest.copy_into(&mut whole, &mut after, |_| true)?;
        rest.copy_roots(&mut whole, &after);
        Ok(whole)
    }
}

/// Whether a value has a row for each example, and is one row for a batch of one.
fn is_row(train: &Graph, one: &Graph, v: ValueId, batch: usize) -> bool {
    let (many, single) = (train.ty(v), one.ty(v));
    many.shape.first() == Some(&batch)
        && single.shape.first() == Some(&1)
        && many.shape[1..] == single.shape[1..]
        && many.is_f32()
}

/// Whether row `i` of a node's result depends on row `i` of its operands `inside` alone.
fn is_by_example(graph: &Graph, node: &Node, inside: &BTreeSet<ValueId>, batch: usize) -> bool {
    let data: Vec<bool> = node.inputs.iter().map(|v| inside.contains(v)).collect();
    let inputs: Vec<&TensorType> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
    let output = graph.ty(node.outputs[0]);
    node.op.by_example(&Examples { data: &data, inputs: &inputs, output, examples: batch })
}
