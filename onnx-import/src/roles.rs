//! Which values of a model are parameters, which are constants, and which inputs are class labels.
//!
//! A float initializer with a dimension is a parameter if it is used as the weight, bias or scale of an operator that
//! has those, or if it is added or multiplied; a running statistic is a parameter that is not trained.
//! The use may lie behind operators that only move, convert or quantize. All else is a constant.
//!
//! Exporters merge initializers that are equal, which ties parameters that have nothing to do with each other.
//! Merged ones are told from shared ones by their traces: an `Identity` node for each copy (PyTorch's TorchScript
//! exporter), or one initializer in nodes that do not share the rest (its dynamo exporter; see `untie`). They become
//! separate parameters.

mod untie;

use std::collections::{BTreeMap, BTreeSet};

use self::untie::untie;
use crate::known::{Known, KnownData, is_float};
use crate::proto::{GraphProto, NodeProto};

/// How a value is used further on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Demand {
    /// As a weight.
    pub(crate) weight: bool,
    /// As a weight, if it looks like one: as a term or factor.
    pub(crate) term: bool,
    /// As a running statistic.
    pub(crate) statistic: bool,
}

impl Demand {
    fn merge(&mut self, other: Demand) {
        self.weight |= other.weight;
        self.term |= other.term;
        self.statistic |= other.statistic;
    }

    /// Whether an initializer of that use and name is a parameter, and whether it is trained.
    fn parameter(self, name: &str, initializer: &Known) -> Option<bool> {
        if !is_float(initializer.dtype)
            || initializer.dims.is_empty()
            || initializer.dims.contains(&0)
        {
            None
        } else if self.weight
            || self.term && !is_mask(initializer) && !(initializer.len() == 1 && is_numbered(name))
        {
            Some(true)
        } else {
            self.statistic.then_some(false)
        }
    }
}

const NONE: Demand = Demand { weight: false, term: false, statistic: false };
const WEIGHT: Demand = Demand { weight: true, ..NONE };
const TERM: Demand = Demand { term: true, ..NONE };
const STATISTIC: Demand = Demand { statistic: true, ..NONE };

/// Whether a term or factor is a mask: no vector, and infinite in places, or nothing but zeros and numbers that leave nothing
/// of an exponential (Swin's -100), as attention masks are.
fn is_mask(initializer: &Known) -> bool {
    fn masks(values: impl Iterator<Item = f64> + Clone) -> bool {
        let all = values.clone().all(|x| x == 0.0 || x <= -100.0);
        values.clone().any(f64::is_infinite) || all && values.clone().any(|x| x != 0.0)
    }
    let masks = match &initializer.data {
        KnownData::Float(v) => masks(v.iter().map(|&x| x.into())),
        KnownData::Double(v) => masks(v.iter().copied()),
        _ => false,
    };
    masks && initializer.dims.len() > 1
}

/// Whether PyTorch's exporters made up a name: they give one to each constant that they fold, as the root of an attention's
/// width, where parameters have those of the module.
fn is_numbered(name: &str) -> bool {
    let number = match name.strip_prefix("val_") {
        Some(number) => Some(number),
        None => name.strip_prefix("onnx::").and_then(|rest| rest.split_once('_')).map(|(_, n)| n),
    };
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A parameter of its own made from an initializer that others use too.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Copy<'m> {
    /// Its name.
    pub(crate) name: String,
    /// Where its value comes from.
    pub(crate) initializer: &'m str,
    /// Whether it is trained.
    pub(crate) trainable: bool,
}

/// What [`analyse`] found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles<'m> {
    /// Initializers that are parameters, and whether they are trained.
    pub(crate) parameters: BTreeMap<&'m str, bool>,
    /// Outputs of `Identity` nodes that are parameters of their own.
    pub(crate) identities: BTreeMap<&'m str, Copy<'m>>,
    /// Parameters of their own with the operands (node, position) that use them.
    pub(crate) copies: Vec<(Copy<'m>, Vec<(usize, usize)>)>,
    /// Graph inputs that are class labels.
    pub(crate) labels: BTreeSet<&'m str>,
    /// Use of each value.
    pub(crate) demands: BTreeMap<&'m str, Demand>,
    /// Parameters made from vectors that several nodes share, and by how many.
    pub(crate) shared: BTreeMap<String, usize>,
}

/// What is wanted of an operand if `result` is wanted of the results; `runs` tells whether they depend on an input,
/// `own` whether the operand does.
fn operand_demand(op: &str, operand: usize, result: Demand, runs: bool, own: bool) -> Demand {
    let mut demand = match (op, operand) {
        // An embedding.
        ("Gather", 0) if runs && !own => WEIGHT,
        ("BatchNormalization", 3 | 4) => STATISTIC,
        ("Gemm", 0)
        | (
            "Conv"
            | "ConvTranspose"
            | "Gemm"
            | "BatchNormalization"
            | "LayerNormalization"
            | "InstanceNormalization"
            | "GroupNormalization",
            1 | 2,
        )
        | ("PRelu", 1)
        | ("LSTM" | "GRU" | "RNN", 1..=3 | 7) => WEIGHT,
        ("MatMul" | "Einsum", _) => WEIGHT,
        ("Add" | "Mul", _) => TERM,
        _ => NONE,
    };
    // What is wanted of the result is wanted of what it is made from; of what a weight is computed from, too, but
    // not of what happens to activations on their way to a product.
    demand.merge(match (op, operand) {
        (
            "Identity" | "Transpose" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Cast"
            | "CastLike" | "QuantizeLinear" | "DequantizeLinear" | "Quant" | "IntQuant"
            | "BipolarQuant" | "Trunc" | "Clip" | "Dropout" | "Expand" | "Slice" | "Split" | "Pad"
            | "Gather" | "GatherND" | "GatherElements",
            0,
        )
        | ("Concat", _)
        | ("Where", 1 | 2) => result,
        (
            "Add" | "Sub" | "Mul" | "Div" | "Neg" | "Abs" | "Exp" | "Log" | "Sqrt" | "Reciprocal"
            | "Tanh" | "Sigmoid" | "Relu" | "Sum" | "Mean" | "ReduceSum" | "ReduceMean"
            | "ReduceMax",
            _,
        ) if !runs && (result.weight || result.term) => WEIGHT,
        _ => NONE,
    });
    demand
}

fn labels<'m>(
    graph: &'m GraphProto,
    producers: &BTreeMap<&str, &'m NodeProto>,
) -> BTreeSet<&'m str> {
    let mut found = BTreeSet::new();
    let mut stack: Vec<&'m str> = graph
        .node
        .iter()
        .filter(|n| matches!(&*n.op_type, "SoftmaxCrossEntropyLoss" | "NegativeLogLikelihoodLoss"))
        .filter_map(|n| n.input.get(1).map(String::as_str))
        .collect();
    while let Some(name) = stack.pop() {
        if found.insert(name)
            && let Some(node) = producers.get(name)
            && let Some(source) = node.input.first()
            && matches!(
                &*node.op_type,
                "Identity" | "Cast" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Transpose"
            )
        {
            stack.push(source);
        }
    }
    found
}

/// Finds the roles of initializers and inputs. `nodes` are the nodes that matter, by position; `initializers`
/// holds all that are known before the first node.
pub(crate) fn analyse<'m>(
    graph: &'m GraphProto,
    nodes: &[(usize, &'m NodeProto)],
    initializers: &BTreeMap<&'m str, std::sync::Arc<Known>>,
    node_name: impl Fn(usize) -> String,
) -> Roles<'m> {
    let mut demands: BTreeMap<&str, Demand> = BTreeMap::new();
    // Values that depend on an input of the graph.
    let inputs = graph.input.iter().map(|i| i.name.as_str());
    let mut run_time: BTreeSet<&str> = inputs.filter(|i| !initializers.contains_key(i)).collect();
    for (_, node) in nodes {
        if node.input.iter().any(|i| run_time.contains(i.as_str())) {
            run_time.extend(node.output.iter().map(String::as_str));
        }
    }
    for (_, node) in nodes.iter().rev() {
        let runs = node.output.iter().any(|o| run_time.contains(o.as_str()));
        let mut result = NONE;
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            result.merge(demands.get(output.as_str()).copied().unwrap_or_default());
        }
        for (i, input) in node.input.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            // An Identity of an initializer keeps what is wanted of it to itself: it is a copy.
            if node.op_type == "Identity" && initializers.contains_key(input.as_str()) {
                continue;
            }
            let own = run_time.contains(input.as_str());
            let demand = operand_demand(&node.op_type, i, result, runs, own);
            demands.entry(input).or_default().merge(demand);
        }
    }
    let mut roles = Roles::default();
    for (&name, known) in initializers {
        if let Some(trainable) = demands.get(name).and_then(|d| d.parameter(name, known)) {
            roles.parameters.insert(name, trainable);
        }
    }
    for (_, node) in nodes.iter().filter(|(_, n)| n.op_type == "Identity") {
        if let (Some(input), Some(output)) = (node.input.first(), node.output.first())
            && let Some((&initializer, known)) = initializers.get_key_value(input.as_str())
            && let Some(trainable) =
                demands.get(output.as_str()).and_then(|d| d.parameter(output, known))
        {
            let copy = Copy { name: output.clone(), initializer, trainable };
            roles.identities.insert(output, copy);
        }
    }
    untie(&mut roles, nodes, initializers, &run_time, node_name);
    // In the order of their first use.
    roles.copies.sort_by(|(_, a), (_, b)| a.cmp(b));
    let producers: BTreeMap<&str, &NodeProto> = graph
        .node
        .iter()
        .flat_map(|n| n.output.iter().map(move |output| (output.as_str(), n)))
        .collect();
    roles.labels = labels(graph, &producers);
    roles.demands = demands;
    roles
}
