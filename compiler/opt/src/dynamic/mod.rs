//! Precisions that each example chooses in each block (DFQ): gates in the model's graph, before it is differentiated, so that gradients go
//! through them; the term of cost in the loss; and counts of what was chosen, as state.
//!
//! A layer's operand is rounded to what its example chose, and so is the error of its result. A product is linear in either, so this is
//! the sum of all options' results, each times its number in the choice, in one product.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Copied, Graph, NodeId, ValueId};
use trainc_ir::ops::{
    Add, Compare, Comparison, ExamplePrecision, Floor, Mul, PrecisionOf, ProductRole, ReduceSum,
    Sub,
};
use trainc_ir::{Op, Tensor, TypeError};

use self::blocks::{Block, blocks, of_data};
use self::gate::Gates;
use crate::algorithm::dynamic::Dynamic;
use crate::model_rules::Applied;
use crate::widths::multiplications;

mod blocks;
mod gate;

/// Name of the output that holds the term of cost; of the state that adds it up, too.
pub const COST: &str = "gates.cost";
/// Behind a block's name: how many examples chose each option, modulo [`CARRY`].
const COUNT: &str = "gate.count";
/// Behind a block's name: how often that count came around.
const ROUNDS: &str = "gate.rounds";
/// Where a count begins anew: far below 2^24, up to which FP32 counts.
const CARRY: f32 = 1048576.0;

/// A model with gates.
#[derive(Clone, Debug)]
pub struct Gated {
    /// The forward graph; with the output [`COST`].
    pub graph: Graph,
    /// The blocks: what is noted of rules of the model.
    pub applied: Vec<Applied>,
}

/// Names of the state that counts the choices of a block: numbers for each option, and how often these came around.
pub fn count_names(block: &str) -> [String; 2] {
    [format!("{block}.{COUNT}"), format!("{block}.{ROUNDS}")]
}

/// The blocks whose choices are counted in a state of these names, in the state's order.
pub fn counted_blocks<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let own = |name: &'n str| name.strip_suffix(COUNT)?.strip_suffix('.');
    names.filter_map(own).collect()
}

/// How many examples chose each option, by the two tensors of state.
pub fn counts(count: &Tensor, rounds: &Tensor) -> Vec<u64> {
    let whole = |(count, rounds): (&f32, &f32)| {
        *count as u64 + (*rounds as u64).saturating_mul(CARRY as u64)
    };
    count.as_f32().iter().zip(rounds.as_f32()).map(whole).collect()
}

/// A block with what its layers cost.
struct Chosen {
    name: String,
    choice: ValueId,
    /// Multiplications of an example's forward products.
    multiplications: f64,
}

/// Steps of a recurrent layer have one name: the second is called `NAME.2`, and so on.
fn tell_apart(blocks: &mut [Block]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for block in blocks {
        let times = seen.entry(block.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            block.name = format!("{}.{times}", block.name);
        }
    }
}

/// Puts gates into a model. Each block (residual, or a layer outside of such) gets one; activations of its layers and errors of their
/// results become `example_precision` of its choice. `seed` draws the gates' first weights.
///
/// # Errors
/// If no layer of the model could choose, or a name is taken.
pub fn add_gates(graph: &Graph, dynamic: &Dynamic, seed: u64) -> Result<Gated, TypeError> {
    let mut blocks = blocks(graph);
    if blocks.is_empty() {
        let message = "`dynamic`: no layer of the model could choose a precision: there is none with a trained weight between its first and \
                       its last whose rows are the batch's; `sbm` has one precision for all";
        return Err(TypeError::new(message));
    }
    let of: BTreeMap<NodeId, usize> = blocks
        .iter()
        .enumerate()
        .flat_map(|(i, b)| b.layers.iter().map(move |&l| (l, i)))
        .collect();
    let errors = results(graph, of.keys().copied());
    // A layer is called as its result with the bias.
    for (&result, layer) in &errors {
        let block = &mut blocks[of[layer]];
        let node = graph.producer(result).filter(|_| block.name == graph.node(*layer).name);
        node.into_iter().for_each(|node| block.name.clone_from(&node.name));
    }
    tell_apart(&mut blocks);
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut gates = Gates::new(graph, dynamic, seed);
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut marked: BTreeMap<(ValueId, usize), ValueId> = BTreeMap::new();
    let precision = |of: PrecisionOf, block: usize| {
        let which = usize::from(of == PrecisionOf::ErrorOf);
        ExamplePrecision { of, block, steps: dynamic.steps(which) }
    };
    graph.copy_changed(&mut result, &mut new, |target, new, v| {
        let Some(node) = graph.producer(v) else { return Ok(Copied::AsItIs) };
        let layer = graph.node_ids().find(|&id| graph.node(id).outputs.first() == Some(&v));
        let layer = layer.filter(|id| of.contains_key(id));
        let mut operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v]).collect();
        if let Some(id) = layer {
            let block = of[&id];
            let own = &blocks[block];
            // Blocks are in the order of their first layers.
            if block == chosen.len() {
                let choice = gates.add(target, &own.name, new[&own.of])?;
                chosen.push(Chosen { name: own.name.clone(), choice, multiplications: 0.0 });
            }
            let batch = graph.ty(v).shape[0].max(1) as f64;
            let all = multiplications(graph, node).unwrap_or_default() as f64;
            chosen[block].multiplications += all / batch;
            let x = node.inputs[0];
            operands[0] = match marked.get(&(x, block)) {
                Some(&known) => known,
                None => {
                    let op = precision(PrecisionOf::Value, block);
                    let name = format!("{}/precision", node.name);
                    let value = target.add1(op, &[new[&x], chosen[block].choice], name)?;
                    marked.insert((x, block), value);
                    value
                }
            };
        } else if !errors.contains_key(&v) {
            return Ok(Copied::AsItIs);
        }
        let value = target.add1(node.op.clone(), &operands, &node.name)?;
        target.set_name(value, &graph.value(v).name);
        let Some(layer) = errors.get(&v) else { return Ok(Copied::As(value)) };
        let block = of[layer];
        let op = precision(PrecisionOf::ErrorOf, block);
        let name = format!("{}/error", graph.node(*layer).name);
        Ok(Copied::As(target.add1(op, &[value, chosen[block].choice], name)?))
    })?;
    graph.copy_roots(&mut result, &new);
    add_cost(&mut result, dynamic, (&chosen, of.len()))?;
    for block in &chosen {
        add_counts(&mut result, block)?;
    }
    let names = |block: &blocks::Block| {
        let layers: Vec<&str> =
            block.layers.iter().map(|&id| graph.node(id).name.as_str()).collect();
        ("dynamic".to_string(), format!("{} ({})", block.name, layers.join(", ")))
    };
    Ok(Gated { graph: result, applied: blocks.iter().map(names).collect() })
}

/// For each value whose error is rounded, the layer: its result, behind the addition of a bias if that is all that is done with it.
fn results(graph: &Graph, layers: impl Iterator<Item = NodeId>) -> BTreeMap<ValueId, NodeId> {
    let data = of_data(graph);
    let result = |id: NodeId| {
        let y = graph.node(id).outputs[0];
        let mut users = graph.nodes().iter().filter(|node| node.inputs.contains(&y));
        let only = match (users.next(), users.next()) {
            (Some(node), None) => Some(node),
            _ => None,
        };
        let kept = graph.roots().any(|root| root == y);
        let bias = only.filter(|node| {
            let others = node.inputs.iter().filter(|&&v| v != y);
            let same = graph.ty(node.outputs[0]).shape == graph.ty(y).shape;
            matches!(node.op, Op::Add(_)) && same && others.into_iter().all(|v| !data[v.index()])
        });
        (bias.filter(|_| !kept).map_or(y, |node| node.outputs[0]), id)
    };
    layers.map(result).collect()
}

/// A number as a constant.
fn number(graph: &mut Graph, name: &str, value: f64) -> ValueId {
    graph.add_constant(format!("gates/{name}"), Tensor::f32([], vec![value as f32]))
}

/// A new state of zeros: its position and value.
fn add_state(graph: &mut Graph, name: &str, count: usize) -> Result<(usize, ValueId), TypeError> {
    if graph.parameter_named(name).is_some() {
        let message = format!("the model has a parameter `{name}`, as a state would be called");
        return Err(TypeError::new(message));
    }
    let value = graph.add_parameter(name, Arc::new(Tensor::f32([count], vec![0.0; count])), false);
    Ok((graph.parameters().len() - 1, value))
}

/// The term of cost, as the output [`COST`], and the state that adds it up: `weight * sign * cost`. The sign is -1 where the mean cost of the
/// batch's examples is below the target, 1 from the target and its band on, 0 between; `cost` is the sum over layers of what an example's
/// products cost in the option that it chose, each layer's over FP32's of a mean layer.
fn add_cost(
    graph: &mut Graph,
    dynamic: &Dynamic,
    (blocks, layers): (&[Chosen], usize),
) -> Result<(), TypeError> {
    let costs = dynamic.costs();
    let all: f64 = 3.0 * blocks.iter().map(|block| block.multiplications).sum::<f64>();
    let mut total: Option<ValueId> = None;
    for block in blocks {
        let batch = graph.ty(block.choice).shape[0].max(1) as f64;
        // Percent of FP32's cost that one example has in each option.
        let own = costs.iter().map(|cost| 100.0 * cost * block.multiplications / (all * batch));
        let own = Tensor::f32([costs.len()], own.map(|own| own as f32).collect());
        let name = format!("{}.gate/cost", block.name);
        let own = graph.add_constant(name.clone(), own);
        let products = graph.add1(Mul {}, &[block.choice, own], name.clone())?;
        let sum = ReduceSum { axes: vec![0, 1], keep_dims: false };
        let own = graph.add1(sum, &[products], name.clone())?;
        total = Some(match total {
            Some(before) => graph.add1(Add {}, &[before, own], name)?,
            None => own,
        });
    }
    let Some(share) = total else { return Ok(()) };
    let name = |part: &str| format!("gates/{part}");
    let target = number(graph, "target", dynamic.target);
    let end = number(graph, "end", dynamic.target + dynamic.band);
    let above = Compare { comparison: Comparison::LessEqual };
    let above = graph.add1(above, &[end, share], name("above"))?;
    let below = Compare { comparison: Comparison::Less };
    let below = graph.add1(below, &[share, target], name("below"))?;
    let sign = graph.add1(Sub {}, &[above, below], name("sign"))?;
    let weight = number(graph, "weight", dynamic.weight * 3.0 * layers as f64 / 100.0);
    let weighted = graph.add1(Mul {}, &[sign, weight], name("weighted"))?;
    let cost = graph.add1(Mul {}, &[weighted, share], name("cost"))?;
    graph.add_output(COST, cost);
    let (state, before) = add_state(graph, COST, 1)?;
    let sum = graph.add1(Add {}, &[before, cost], name("sum"))?;
    graph.add_update(state, sum);
    Ok(())
}

/// Counts a block's choices: whole numbers in FP32, exact below 2^44 examples.
fn add_counts(graph: &mut Graph, block: &Chosen) -> Result<(), TypeError> {
    let name = format!("{}.gate/count", block.name);
    let options = graph.ty(block.choice).shape[1];
    let [count, rounds] = count_names(&block.name);
    let (count, low) = add_state(graph, &count, options)?;
    let (rounds, high) = add_state(graph, &rounds, options)?;
    let sum = ReduceSum { axes: vec![0], keep_dims: false };
    let own = graph.add1(sum, &[block.choice], name.clone())?;
    let all = graph.add1(Add {}, &[low, own], name.clone())?;
    let part = number(graph, "part", f64::from(1.0 / CARRY));
    let times = graph.add1(Mul {}, &[all, part], name.clone())?;
    let times = graph.add1(Floor {}, &[times], name.clone())?;
    let whole = number(graph, "whole", f64::from(CARRY));
    let whole = graph.add1(Mul {}, &[times, whole], name.clone())?;
    let low = graph.add1(Sub {}, &[all, whole], name.clone())?;
    graph.add_update(count, low);
    let high = graph.add1(Add {}, &[high, times], name)?;
    graph.add_update(rounds, high);
    Ok(())
}

/// Multiplications of an example's forward products in each block, of a training graph with gates.
pub fn block_multiplications(training: &Graph) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    for node in training.nodes() {
        let forward = match &node.op {
            Op::Conv2d(_) => true,
            Op::MatMul(op) => op.role == ProductRole::Forward,
            _ => false,
        };
        let by = node.inputs.first().and_then(|&x| training.producer(x)).map(|by| &by.op);
        let (true, Some(Op::ExamplePrecision(op))) = (forward, by) else { continue };
        let batch = training.ty(node.outputs[0]).shape[0].max(1) as f64;
        all.resize(all.len().max(op.block + 1), 0.0);
        all[op.block] += multiplications(training, node).unwrap_or_default() as f64 / batch;
    }
    all
}

/// What choices cost, percent of the cost of the same products in FP32: `counts` are examples for each option of each block.
pub fn share(dynamic: &Dynamic, multiplications: &[f64], counts: &[Vec<u64>]) -> f64 {
    let costs = dynamic.costs();
    let (mut own, mut full) = (0.0, 0.0);
    for (&each, counts) in multiplications.iter().zip(counts) {
        for (cost, &count) in costs.iter().zip(counts) {
            own += each * count as f64 * cost;
            full += each * count as f64 * 3.0;
        }
    }
    if full > 0.0 { 100.0 * own / full } else { 0.0 }
}
