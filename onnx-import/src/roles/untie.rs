//! Vectors that an exporter merged because they were equal become parameters of their own again.
//!
//! A module that is applied twice shares all it has. So of the nodes that use one vector only those share it on
//! purpose that have everything else in common too: the kind of use, and every other operand that no input of the
//! model changes. What is computed from initializers counts as in common if it is the same computation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Copy, Roles};
use crate::known::Known;
use crate::proto::NodeProto;

/// The name of an operand that holds a parameter; also the kind of use that a module could share.
fn slot_name(op: &str, operand: usize) -> Option<&'static str> {
    Some(match (op, operand) {
        ("Conv" | "Gemm", 1) | ("MatMul", 0 | 1) => "weight",
        ("Conv" | "Gemm", 2) => "bias",
        ("BatchNormalization" | "LayerNormalization", 1) => "scale",
        ("BatchNormalization" | "LayerNormalization", 2) => "shift",
        ("BatchNormalization", 3) => "running_mean",
        ("BatchNormalization", 4) => "running_var",
        _ => return None,
    })
}

fn is_statistic(slot: &str) -> bool {
    slot.starts_with("running")
}

/// What a node has in common with another application of the same module: the numbers of its operands, `None` where
/// an input of the model changes one.
type Module = Vec<Option<usize>>;

/// The live part of a model, with equal values numbered equally.
struct Values<'m> {
    /// Numbers of the values that no input of the model changes.
    numbers: BTreeMap<&'m str, usize>,
    producers: BTreeMap<&'m str, &'m NodeProto>,
}

impl<'m> Values<'m> {
    fn of(
        roles: &Roles<'m>,
        nodes: &[(usize, &'m NodeProto)],
        initializers: &BTreeMap<&'m str, Arc<Known>>,
        run_time: &BTreeSet<&str>,
    ) -> Values<'m> {
        let mut numbers: BTreeMap<&str, usize> =
            initializers.keys().enumerate().map(|(number, &name)| (name, number)).collect();
        let mut producers = BTreeMap::new();
        let mut next = numbers.len();
        let mut computations: BTreeMap<(&str, usize, Module), usize> = BTreeMap::new();
        for &(_, node) in nodes {
            let operands: Module =
                node.input.iter().map(|name| numbers.get(name.as_str()).copied()).collect();
            for (slot, output) in node.output.iter().enumerate() {
                producers.insert(output.as_str(), node);
                if run_time.contains(output.as_str()) || output.is_empty() {
                    continue;
                }
                // A copy is a parameter of its own; a constant is told by nothing but its node.
                let own = operands.is_empty() || roles.identities.contains_key(output.as_str());
                let number = match own {
                    true => next,
                    false => {
                        *computations.entry((&node.op_type, slot, operands.clone())).or_insert(next)
                    }
                };
                next = next.max(number + 1);
                numbers.insert(output, number);
            }
        }
        Values { numbers, producers }
    }

    fn module(&self, node: &NodeProto) -> Module {
        node.input.iter().map(|name| self.numbers.get(name.as_str()).copied()).collect()
    }

    /// The kind of use that an operand is, and its module.
    fn slot(&self, node: &NodeProto, operand: usize) -> Option<(&'static str, Module)> {
        if let Some(slot) = slot_name(&node.op_type, operand) {
            return Some((slot, self.module(node)));
        }
        // A dense layer on more than two dimensions: the bias is added to a product with its weight.
        let ("Add", [left, right]) = (&*node.op_type, &node.input[..]) else { return None };
        let other = if operand == 0 { right } else { left };
        let product = self.producers.get(other.as_str()).filter(|n| n.op_type == "MatMul")?;
        let mut module = self.module(product);
        let weights = module.iter().filter(|number| number.is_some()).count();
        module.push(self.numbers.get(node.input[operand].as_str()).copied());
        (weights == 1).then_some(("bias", module))
    }
}

/// A module; the second part makes it unlike all others if it is given.
type Distinct = (Module, Option<usize>);

/// One use of a vector as a parameter.
struct Use {
    node: usize,
    operand: usize,
    slot: &'static str,
    module: Distinct,
}

/// Separates vectors that serve as different kinds of parameters or in different modules, and notes those that are
/// shared. `run_time` are the values that an input of the model changes.
pub(crate) fn untie<'m>(
    roles: &mut Roles<'m>,
    nodes: &[(usize, &'m NodeProto)],
    initializers: &BTreeMap<&'m str, Arc<Known>>,
    run_time: &BTreeSet<&str>,
    node_name: impl Fn(usize) -> String,
) {
    let values = Values::of(roles, nodes, initializers, run_time);
    let mut all: BTreeMap<&str, Vec<Use>> = BTreeMap::new();
    for &(index, node) in nodes {
        for (operand, input) in node.input.iter().enumerate() {
            if let Some((&name, known)) = initializers.get_key_value(input.as_str())
                && known.dims.len() == 1
                && roles.parameters.contains_key(name)
                && let Some((slot, module)) = values.slot(node, operand)
            {
                let module = (module, None);
                all.entry(name).or_default().push(Use { node: index, operand, slot, module });
            }
        }
    }
    // Modules of vectors alone (those without a bias) may all be equal before training. Where one of their vectors
    // was merged with one of another kind, having the same ones says nothing.
    let mixed: BTreeSet<usize> = all
        .values()
        .filter(|uses| uses.iter().any(|u| u.slot != uses[0].slot))
        .flatten()
        .filter(|u| u.slot != "bias")
        .map(|u| u.node)
        .collect();
    for (initializer, mut uses) in all.into_iter().filter(|(_, uses)| uses.len() > 1) {
        for one in uses.iter_mut().filter(|u| mixed.contains(&u.node)) {
            one.module.1 = Some(one.node);
        }
        separate(roles, initializer, &uses, &node_name);
    }
}

/// Gives the uses of a vector their parameters: one for each kind and module.
fn separate<'m>(
    roles: &mut Roles<'m>,
    initializer: &'m str,
    uses: &[Use],
    node_name: &impl Fn(usize) -> String,
) {
    // The first trained use keeps the name.
    let Some(keeper) = uses.iter().find(|u| !is_statistic(u.slot)).or(uses.first()) else { return };
    let mut groups: BTreeMap<(&str, &Distinct), Vec<&Use>> = BTreeMap::new();
    for one in uses {
        groups.entry((one.slot, &one.module)).or_default().push(one);
    }
    for ((slot, module), group) in groups {
        let keeps = (slot, module) == (keeper.slot, &keeper.module);
        let name = match keeps {
            true => initializer.to_string(),
            false => format!("{}.{slot}", node_name(group[0].node)),
        };
        if group.len() > 1 {
            roles.shared.insert(name.clone(), group.len());
        }
        if !keeps {
            let trainable = !is_statistic(slot);
            let slots = group.iter().map(|u| (u.node, u.operand)).collect();
            roles.copies.push((Copy { name, initializer, trainable }, slots));
        }
    }
}
