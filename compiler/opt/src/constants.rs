//! Constants: what depends on nothing that is given at run time is computed at compile time.

use std::collections::BTreeMap;

use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_ir::ops::TypeError;
use trainc_ir::{RunContext, Tensor};

/// The graph with the results of constants as constants, where these take no more room than what they are computed of
/// and a few numbers. What draws random numbers stays.
///
/// # Errors
/// None that a valid graph gives.
pub fn fold_constants(graph: &Graph) -> Result<Graph, TypeError> {
    /// Bytes of a few numbers.
    const FEW: usize = 64;
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for v in graph.value_ids() {
        let value = graph.value(v);
        match &value.definition {
            Definition::Input(i) => {
                let role = graph.inputs()[*i].role;
                new.insert(v, result.add_input(&value.name, value.ty.clone(), role));
            }
            Definition::Parameter(i) => {
                let parameter = &graph.parameters()[*i];
                let initial = parameter.initial.clone();
                new.insert(v, result.add_parameter(&value.name, initial, parameter.trainable));
            }
            Definition::Constant(tensor) => {
                new.insert(v, result.add_constant(&value.name, tensor.clone()));
            }
            Definition::Result { slot, .. } if *slot > 0 => {}
            Definition::Result { node, .. } => {
                let node = graph.node(*node);
                let operands: Vec<ValueId> = node.inputs.iter().map(|o| new[o]).collect();
                let known: Option<Vec<&Tensor>> = operands
                    .iter()
                    .map(|&o| result.constant_of(o).map(std::convert::AsRef::as_ref))
                    .collect();
                let room = |values: &[ValueId], of: &Graph| -> usize {
                    values.iter().map(|&v| of.ty(v).element_bytes()).sum()
                };
                let fits = room(&node.outputs, graph) <= room(&operands, &result) + FEW;
                let outputs = match known.filter(|_| fits && node.op.stream().is_none()) {
                    Some(known) => {
                        let tensors = node.op.evaluate(&known, &RunContext::default());
                        let name = &node.name;
                        tensors.into_iter().map(|t| result.add_constant(name, t)).collect()
                    }
                    None => result.add(node.op.clone(), &operands, &node.name)?,
                };
                for (&old, output) in node.outputs.iter().zip(outputs) {
                    result.set_name(output, &graph.value(old).name);
                    new.insert(old, output);
                }
            }
        }
    }
    graph.copy_roots(&mut result, &new);
    Ok(result)
}
