//! From a graph for one example to one for several, each computed as if alone: where exponents follow the values that
//! they scale, examples of one tensor would share them.

use std::collections::BTreeMap;

use trainc_ir::graph::{Definition, Graph, InputRole, ValueId};
use trainc_ir::ops::{Concat, Slice, TypeError};
use trainc_ir::{Shape, TensorType};

/// The graph of `count` examples from that of one: every data input [1, ...] becomes [count, ...], every output [1, ...]
/// that depends on one becomes [count, ...], and row `i` of the outputs is what the graph gives for row `i` of the
/// inputs, bit for bit. What depends on no input is computed once.
///
/// # Errors
/// If the graph updates parameters, or an output depends on an input and has no dimension for examples.
pub fn one_by_one(graph: &Graph, count: usize) -> Result<Graph, TypeError> {
    if count == 1 {
        return Ok(graph.clone());
    }
    if !graph.updates().is_empty() {
        return Err(TypeError::new(format!("{} updates parameters", graph.name())));
    }
    let mut result = Graph::new(graph.name());
    // One value for all examples, or one each.
    let mut new: BTreeMap<ValueId, Vec<ValueId>> = BTreeMap::new();
    for v in graph.value_ids() {
        let value = graph.value(v);
        match &value.definition {
            Definition::Input(i) => {
                let role = graph.inputs()[*i].role;
                let single = role == InputRole::Data && value.ty.shape.first() == Some(&1);
                let all = match single {
                    true => rows(&mut result, &value.name, &value.ty, role, count)?,
                    false => vec![result.add_input(&value.name, value.ty.clone(), role)],
                };
                new.insert(v, all);
            }
            Definition::Parameter(i) => {
                let p = &graph.parameters()[*i];
                let id = result.add_parameter(&value.name, p.initial.clone(), p.trainable);
                new.insert(v, vec![id]);
            }
            Definition::Constant(tensor) => {
                new.insert(v, vec![result.add_constant(&value.name, tensor.clone())]);
            }
            Definition::Result { slot, .. } if *slot > 0 => {}
            Definition::Result { node, .. } => {
                let node = graph.node(*node);
                let each = node.inputs.iter().map(|v| new[v].len()).max().unwrap_or(1);
                for example in 0..each {
                    let operand = |v: &ValueId| new[v][example.min(new[v].len() - 1)];
                    let operands: Vec<ValueId> = node.inputs.iter().map(operand).collect();
                    let outputs = result.add(node.op.clone(), &operands, &node.name)?;
                    for (&old, &output) in node.outputs.iter().zip(&outputs) {
                        let name = &graph.value(old).name;
                        match each {
                            1 => result.set_name(output, name),
                            _ => result.set_name(output, format!("{name}/example{example}")),
                        }
                        new.entry(old).or_default().push(output);
                    }
                }
            }
        }
    }
    for output in graph.outputs() {
        let value = match &new[&output.value][..] {
            [one] => *one,
            all if graph.ty(output.value).shape.first() == Some(&1) => {
                result.add1(Concat { axis: 0 }, all, &output.name)?
            }
            _ => {
                let ty = graph.ty(output.value);
                let why = format!("output `{}` ({ty}) has no dimension for examples", output.name);
                return Err(TypeError::new(why));
            }
        };
        result.add_output(&output.name, value);
    }
    Ok(result)
}

/// An input of `count` examples, taken apart.
fn rows(
    graph: &mut Graph,
    name: &str,
    one: &TensorType,
    role: InputRole,
    count: usize,
) -> Result<Vec<ValueId>, TypeError> {
    let mut shape = one.shape.to_vec();
    shape[0] = count;
    let all = TensorType { shape: Shape::from(shape), ..one.clone() };
    let input = graph.add_input(name, all, role);
    let row = |example: usize| {
        let mut starts = vec![0; one.shape.rank()];
        starts[0] = example;
        let steps = vec![1; one.shape.rank()];
        let slice = Slice { starts, lengths: one.shape.to_vec(), steps };
        graph.add1(slice, &[input], format!("{name}/example{example}"))
    };
    (0..count).map(row).collect()
}
