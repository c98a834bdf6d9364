//! Freezing: parameters that do not train become constants, and batch normalisation whose running statistics are
//! frozen normalizes with them.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_ir::ops::{BatchNorm, Op, TypeError};

use crate::inference::running_statistics;

/// The trainable parameters and running statistics of a layer's normalisation, by their positions among the parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Normalization {
    /// Scale and shift, as far as they are trainable parameters.
    pub trained: Vec<usize>,
    /// Running mean and variance, as far as they are parameters that the model updates or infers with.
    pub statistics: Vec<usize>,
}

/// Every batch normalisation of a model.
pub fn normalizations(model: &Graph) -> Vec<Normalization> {
    let running = running_statistics(model);
    let parameter = |v: ValueId| match model.value(v).definition {
        Definition::Parameter(i) => Some(i),
        _ => None,
    };
    let norms = model.nodes().iter().filter(|node| matches!(node.op, Op::BatchNorm(_)));
    norms
        .map(|node| {
            let (trained, statistics) = node.inputs[1..].split_at(2);
            let trained = trained.iter().filter_map(|&v| parameter(v));
            let statistics = statistics.iter().map(|v| running.get(v).copied().unwrap_or(*v));
            Normalization {
                trained: trained.filter(|&i| model.parameters()[i].trainable).collect(),
                statistics: statistics.filter_map(parameter).collect(),
            }
        })
        .collect()
}

/// The model with these parameters as constants of the same names. A batch normalisation by the batch's own statistics
/// whose running ones are all frozen takes those; updates of frozen parameters are gone.
///
/// # Errors
/// None that a valid graph gives.
pub fn freeze(model: &Graph, frozen: &BTreeSet<usize>) -> Result<Graph, TypeError> {
    let running = running_statistics(model);
    let is_frozen = |v: ValueId| match model.value(v).definition {
        Definition::Parameter(i) => frozen.contains(&i),
        _ => false,
    };
    let mut result = Graph::new(model.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for v in model.value_ids() {
        let value = model.value(v);
        match &value.definition {
            Definition::Input(i) => {
                let role = model.inputs()[*i].role;
                new.insert(v, result.add_input(&value.name, value.ty.clone(), role));
            }
            Definition::Parameter(i) => {
                let parameter = &model.parameters()[*i];
                let initial = parameter.initial.clone();
                let id = match frozen.contains(i) {
                    true => result.add_constant(&value.name, initial),
                    false => result.add_parameter(&value.name, initial, parameter.trainable),
                };
                new.insert(v, id);
            }
            Definition::Constant(tensor) => {
                new.insert(v, result.add_constant(&value.name, tensor.clone()));
            }
            Definition::Result { slot, .. } if *slot > 0 => {}
            Definition::Result { node, .. } => {
                let node = model.node(*node);
                let mut inputs = node.inputs.clone();
                let mut op = node.op.clone();
                if let Op::BatchNorm(norm) = &node.op
                    && norm.batch
                {
                    let kept: Vec<ValueId> =
                        inputs[3..].iter().filter_map(|v| running.get(v).copied()).collect();
                    if kept.len() == 2 && kept.iter().all(|&v| is_frozen(v)) {
                        inputs[3..].copy_from_slice(&kept);
                        op = BatchNorm { batch: false, ..norm.clone() }.into();
                    }
                }
                let operands: Vec<ValueId> = inputs.iter().map(|o| new[o]).collect();
                let outputs = result.add(op, &operands, &node.name)?;
                for (&old, output) in node.outputs.iter().zip(outputs) {
                    result.set_name(output, &model.value(old).name);
                    new.insert(old, output);
                }
            }
        }
    }
    model.copy_roots(&mut result, &new);
    Ok(result)
}
