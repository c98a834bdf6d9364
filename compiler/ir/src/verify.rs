//! The verifier. It runs after every pass and reports everything that is wrong, not the first thing only.
//!
//! Checked for every graph:
//! - operands exist before their use, results belong to their node;
//! - each node's result types are what its type rule gives for its operands;
//! - inputs, parameters and outputs have unique names within their kind; parameters' initial values have their types;
//! - each parameter has at most one update, of the parameter's type.
//!
//! Checked by stage:
//! - [`Stage::Float`]: values are FP32 or integers without scale;
//! - [`Stage::Quantized`]: FP32 values appear only as inputs and around the operations that the algorithm allows.

use std::collections::BTreeSet;
use std::fmt;

use crate::graph::{Definition, Graph, NodeId, ValueId};
use crate::ops::formula::Formula;
use crate::ops::{Op, OpKind};
use crate::types::{Scale, TensorType};

/// What a graph may contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// FP32 graphs: forward or training.
    Float,
    /// Quantized modules.
    Quantized {
        /// Operations that may have FP32 operands or results; `None` if the algorithm carries floats freely.
        float_operations: Option<BTreeSet<OpKind>>,
    },
}

impl Stage {
    /// Whether a node of these operands and results may stand in the graph. The parts of a chain count one by one, and the steps of
    /// a formula.
    ///
    /// The verifier asks this of every node, and the optimiser of every form before it may be chosen.
    pub fn allows(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> bool {
        let float = inputs.iter().chain(outputs).any(|ty| ty.is_f32());
        match (self, op) {
            (Stage::Float, _) => inputs.iter().chain(outputs).all(|ty| ty.scale == Scale::None),
            (Stage::Quantized { float_operations: None }, _) => true,
            (Stage::Quantized { .. }, Op::Chain(chain)) => chain.parts(inputs).is_ok_and(|parts| {
                parts.iter().all(|(op, inputs, result)| {
                    self.allows(op, &inputs.iter().collect::<Vec<_>>(), &[result])
                })
            }),
            (Stage::Quantized { float_operations: Some(allowed) }, op) => {
                let steps = |formula: &Formula| {
                    formula.steps.iter().all(|step| allowed.contains(&step.function.kind()))
                };
                !float
                    || allowed.contains(&op.kind())
                    || matches!(op, Op::Formula(formula) if steps(formula))
            }
        }
    }
}

/// What an error is about. A text form knows where it stands ([`crate::text::Places`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// A node.
    Node(NodeId),
    /// An input, a parameter, a constant or a result.
    Value(ValueId),
    /// Position in [`Graph::outputs`].
    Output(usize),
    /// Position in [`Graph::updates`].
    Update(usize),
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// What it is about.
    pub subject: Subject,
    /// The same in words: the node, value, parameter or output.
    pub place: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Everything that is wrong with a graph.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the graph `{graph}` is not valid:\n{}", .errors.iter().map(|e| format!("  {e}")).collect::<Vec<_>>().join("\n"))]
pub struct VerifyErrors {
    /// The graph's name.
    pub graph: String,
    /// At least one error.
    pub errors: Vec<VerifyError>,
}

/// Checks a graph. See the module documentation for the list.
///
/// # Errors
/// Everything found.
pub fn verify(graph: &Graph, stage: &Stage) -> Result<(), VerifyErrors> {
    let mut errors = Vec::new();
    check_nodes(graph, &mut errors);
    check_interface(graph, &mut errors);
    check_stage(graph, stage, &mut errors);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(VerifyErrors { graph: graph.name().to_string(), errors })
    }
}

fn error(
    errors: &mut Vec<VerifyError>,
    subject: Subject,
    place: impl Into<String>,
    message: impl Into<String>,
) {
    errors.push(VerifyError { subject, place: place.into(), message: message.into() });
}

fn check_nodes(graph: &Graph, errors: &mut Vec<VerifyError>) {
    for id in graph.node_ids() {
        let node = graph.node(id);
        let place = format!("node {} `{}` ({})", id.index(), node.name, node.op.kind().name());
        let defined = |v: ValueId| match graph.values().get(v.index()).map(|v| &v.definition) {
            Some(Definition::Result { node, .. }) => *node < id,
            Some(_) => true,
            None => false,
        };
        if let Some(v) = node.inputs.iter().find(|&&v| !defined(v)) {
            error(
                errors,
                Subject::Node(id),
                place,
                format!("operand %{} is used before its definition", v.index()),
            );
            continue;
        }
        let types: Vec<&TensorType> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
        match node.op.infer(&types) {
            Err(e) => error(errors, Subject::Node(id), place, e.to_string()),
            Ok(results) => {
                let own: Vec<&TensorType> = node.outputs.iter().map(|&v| graph.ty(v)).collect();
                if own != results.iter().collect::<Vec<_>>() {
                    error(
                        errors,
                        Subject::Node(id),
                        place,
                        format!("results are {own:?}, the type rule gives {results:?}"),
                    );
                }
            }
        }
    }
}

fn check_interface(graph: &Graph, errors: &mut Vec<VerifyError>) {
    let unique = |kind: &str, names: Vec<(Subject, &str)>, errors: &mut Vec<VerifyError>| {
        let mut seen = BTreeSet::new();
        for (subject, name) in names {
            if !seen.insert(name.to_string()) {
                error(errors, subject, format!("{kind} `{name}`"), "the name is taken");
            }
        }
    };
    let name = |v: ValueId| graph.value(v).name.as_str();
    let named = |v: ValueId| (Subject::Value(v), name(v));
    let outputs = graph.outputs().iter().enumerate();
    let outputs = outputs.map(|(i, o)| (Subject::Output(i), o.name.as_str()));
    unique("input", graph.inputs().iter().map(|i| named(i.value)).collect(), errors);
    unique("parameter", graph.parameters().iter().map(|p| named(p.value)).collect(), errors);
    unique("output", outputs.collect(), errors);
    for parameter in graph.parameters() {
        if parameter.initial.ty() != graph.ty(parameter.value) {
            error(
                errors,
                Subject::Value(parameter.value),
                format!("parameter `{}`", name(parameter.value)),
                format!("its initial value is {}", parameter.initial.ty()),
            );
        }
    }
    let mut updated = BTreeSet::new();
    for (i, update) in graph.updates().iter().enumerate() {
        let subject = Subject::Update(i);
        let Some(parameter) = graph.parameters().get(update.parameter) else {
            let place = format!("update {}", update.parameter);
            error(errors, subject, place, "there is no such parameter");
            continue;
        };
        let place = format!("update of `{}`", name(parameter.value));
        if !updated.insert(update.parameter) {
            error(errors, subject, place.clone(), "the parameter is updated twice");
        }
        if graph.ty(update.value) != graph.ty(parameter.value) {
            error(
                errors,
                subject,
                place,
                format!("{} for a {}", graph.ty(update.value), graph.ty(parameter.value)),
            );
        }
    }
}

fn check_stage(graph: &Graph, stage: &Stage, errors: &mut Vec<VerifyError>) {
    match stage {
        Stage::Float => {
            for id in graph.value_ids().filter(|&v| graph.ty(v).scale != Scale::None) {
                let value = graph.value(id);
                error(
                    errors,
                    Subject::Value(id),
                    format!("value `{}`", value.name),
                    format!("{} among FP32", value.ty),
                );
            }
        }
        Stage::Quantized { float_operations: None } => {}
        Stage::Quantized { float_operations: Some(_) } => {
            for id in graph.node_ids() {
                let node = graph.node(id);
                let types = |values: &[ValueId]| -> Vec<&TensorType> {
                    values.iter().map(|&v| graph.ty(v)).collect()
                };
                if stage.allows(&node.op, &types(&node.inputs), &types(&node.outputs)) {
                    continue;
                }
                let float =
                    node.inputs.iter().chain(&node.outputs).find(|&&v| graph.ty(v).is_f32());
                let what = match float {
                    Some(&v) => format!("FP32 value `{}`", name_of(graph, v)),
                    // Inside a chain.
                    None => "an FP32 value".to_string(),
                };
                error(
                    errors,
                    Subject::Node(id),
                    format!("node `{}` ({})", node.name, node.op.kind().name()),
                    format!("{what} where the algorithm computes in integers"),
                );
            }
        }
    }
}

fn name_of(graph: &Graph, v: ValueId) -> &str {
    &graph.value(v).name
}
