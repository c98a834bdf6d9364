//! Optimisation: exact rewrites by equality saturation, extracted by a target's cost.
//!
//! Being in one class means equal bits here. The rules are in [`crate::rules`]; each states its exactness in its type.

use std::collections::BTreeMap;

use trainc_ir::Op;
use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_ir::target::{Cost, Signature, Target};
use trainc_ir::types::TensorType;
use trainc_ir::verify::{Stage, VerifyErrors, verify};

use crate::egraph::Id;
use crate::egraph::convert::{BuildError, Builder, load, operation_cost};
use crate::egraph::extract::{Extraction, extract};
use crate::egraph::language::{Graph as EGraph, Node, Ty, canonical};
use crate::egraph::saturate::{Application, Limits, saturate};
use crate::fold_relu::fold_relus;
use crate::gather_formulas::gather_formulas;
use crate::rules::{Exactness, Rule, RuleContext, rules};

/// How to search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// All rules until nothing changes.
    #[default]
    Saturate,
    /// Each rule once, in order: the baseline that shows what saturation gains.
    Ordered,
    /// No rule.
    Off,
}

/// Options of the optimiser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptimiseOptions {
    /// How to search.
    pub strategy: Strategy,
    /// Whether only rules that keep every bit may be used.
    pub exact: bool,
    /// Limits of saturation.
    pub limits: Limits,
}

impl Default for OptimiseOptions {
    fn default() -> OptimiseOptions {
        OptimiseOptions { strategy: Strategy::Saturate, exact: true, limits: Limits::default() }
    }
}

/// A rewrite that is part of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fired {
    /// The rule.
    pub rule: &'static str,
    /// The model's node.
    pub node: String,
    /// What was chosen.
    pub chosen: String,
    /// Cost of what it replaced, less its own (the target's unit).
    pub saved: i64,
}

/// What the optimiser did, for `inspect`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Optimisation {
    /// Cost of the graph as it came.
    pub cost_before: u64,
    /// Cost of the graph as it left.
    pub cost_after: u64,
    /// Rewrites in the result.
    pub fired: Vec<Fired>,
    /// Applications of each rule in the e-graph, used or not.
    pub applications: Vec<(&'static str, usize)>,
    /// Rounds.
    pub iterations: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// E-classes at the end.
    pub classes: usize,
    /// Whether nothing more could change.
    pub saturated: bool,
    /// Why the search stopped early.
    pub limit: Option<String>,
}

/// Why a graph could not be optimised. Each is a bug of a rule; user input cannot cause them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptimiseError {
    /// A rule joined two types.
    #[error("{0}")]
    Rule(String),
    /// The result does not verify.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
    /// The target runs no form of an operation.
    #[error("target `{target}` cannot run {op} of node `{node}`")]
    Infeasible {
        /// The target.
        target: &'static str,
        /// The operation.
        op: String,
        /// The model's node.
        node: String,
    },
}

/// Optimises a graph for a target.
///
/// # Errors
/// See [`OptimiseError`].
pub fn optimise(
    graph: &Graph,
    stage: &Stage,
    target: &dyn Target,
    options: &OptimiseOptions,
) -> Result<(Graph, Optimisation), OptimiseError> {
    let cost_before = graph_cost(graph, target)?;
    if options.strategy == Strategy::Off {
        let report =
            Optimisation { cost_before, cost_after: cost_before, ..Optimisation::default() };
        return Ok((graph.clone(), report));
    }
    let rules: Vec<Rule> = rules()
        .into_iter()
        .filter(|rule| !options.exact || rule.exactness == Exactness::Bit)
        .collect();
    let graph = &fold_relus(graph);
    let context = RuleContext::of(graph).on(target);
    let rewrites: Vec<_> = rules.iter().map(|rule| rule.rewrite(&context)).collect();
    let mut loaded = load(graph);
    let ordered = options.strategy == Strategy::Ordered;
    let run = saturate(&mut loaded.egraph, &rewrites, options.limits, ordered)
        .map_err(OptimiseError::Rule)?;
    let egraph = &loaded.egraph;
    let extraction = extract(egraph, |egraph, id, node| {
        // A form that the stage does not allow is equal in bits, yet no choice: rules need not know of stages.
        operation_cost(egraph, id, node, |op, inputs, outputs| {
            match stage.allows(op, inputs, outputs) {
                true => target.select(&Signature::new(op, inputs, outputs)).cost(),
                false => Cost::INFEASIBLE,
            }
        })
    });
    let mut limit = run.limit;
    let built = match rebuild(graph, &loaded.egraph, &loaded.classes, &extraction) {
        Ok(built) => {
            verify(&built, stage)?;
            let cost = graph_cost(&built, target)?;
            // Greedy extraction can lose against the graph as it came; that is then the result.
            (cost <= cost_before).then_some(built)
        }
        // Extraction refuses cycles class by class; should one slip through, the graph stays as it is.
        Err(error @ (BuildError::Cycle | BuildError::Infeasible(_))) => {
            let why = match error {
                BuildError::Cycle => "the extracted terms were cyclic",
                _ => "a value has no form that the stage allows and the target runs",
            };
            limit.get_or_insert_with(|| format!("{why}; nothing was rewritten"));
            None
        }
        Err(BuildError::Type(e)) => return Err(OptimiseError::Rule(e.to_string())),
    };
    let mut fired = match built {
        Some(_) => fired(graph, egraph, &extraction, &run.applications, &rules, target),
        None => Vec::new(),
    };
    let result = built.unwrap_or_else(|| graph.clone());
    let (result, gathered) = gather_formulas(&result, stage, target);
    if !gathered.is_empty() {
        verify(&result, stage)?;
    }
    let cost_after = graph_cost(&result, target)?;
    fired.extend(gathered.into_iter().map(|formula| Fired {
        rule: "gather-formulas",
        node: formula.node,
        chosen: format!("formula of {} operations", formula.operations),
        saved: formula.saved as i64,
    }));
    let mut applications: BTreeMap<usize, usize> = BTreeMap::new();
    run.applications.iter().for_each(|a| *applications.entry(a.rule).or_default() += 1);
    let report = Optimisation {
        cost_before,
        cost_after,
        fired,
        applications: applications.into_iter().map(|(i, n)| (rules[i].name, n)).collect(),
        iterations: run.iterations,
        nodes: run.nodes,
        classes: run.classes,
        saturated: run.saturated,
        limit,
    };
    Ok((result, report))
}

/// Cost of all live nodes of a graph on a target.
///
/// # Errors
/// If the target cannot run a node.
pub fn graph_cost(graph: &Graph, target: &dyn Target) -> Result<u64, OptimiseError> {
    let live = graph.live_nodes();
    let mut total = 0u64;
    for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
        let inputs: Vec<&TensorType> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
        let outputs: Vec<&TensorType> = node.outputs.iter().map(|&v| graph.ty(v)).collect();
        let selection = target.select(&Signature::new(&node.op, &inputs, &outputs));
        let cost = selection.cost().cycles().ok_or_else(|| OptimiseError::Infeasible {
            target: target.description().name,
            op: node.op.to_string(),
            node: node.name.clone(),
        })?;
        total = total.saturating_add(cost);
    }
    Ok(total)
}

/// Builds the graph of an extraction, with the interface of the original.
///
/// # Errors
/// See [`BuildError`].
pub fn rebuild(
    graph: &Graph,
    egraph: &EGraph,
    classes: &[Id],
    extraction: &Extraction,
) -> Result<Graph, BuildError> {
    let mut fresh = Graph::new(graph.name());
    let mut leaves: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for input in graph.inputs() {
        let value = graph.value(input.value);
        let new = fresh.add_input(&value.name, value.ty.clone(), input.role);
        leaves.insert(input.value, new);
    }
    for parameter in graph.parameters() {
        let name = &graph.value(parameter.value).name;
        let new = fresh.add_parameter(name, parameter.initial.clone(), parameter.trainable);
        leaves.insert(parameter.value, new);
    }
    let names = |v: ValueId| match graph.producer(v) {
        Some(node) => node.name.clone(),
        None => graph.value(v).name.clone(),
    };
    let mut builder = Builder::new(
        egraph,
        extraction,
        fresh,
        |fresh: &mut Graph, v: ValueId| match (leaves.get(&v), &graph.value(v).definition) {
            (None, Definition::Constant(tensor)) => {
                fresh.add_constant(&graph.value(v).name, tensor.clone())
            }
            (found, _) => found.copied().unwrap_or(v),
        },
        &names,
    );
    let mut outputs = Vec::new();
    for output in graph.outputs() {
        outputs.push(builder.value(classes[output.value.index()])?);
    }
    let mut updates = Vec::new();
    for update in graph.updates() {
        updates.push(builder.value(classes[update.value.index()])?);
    }
    let mut result = builder.graph;
    for (output, value) in graph.outputs().iter().zip(outputs) {
        result.add_output(&output.name, value);
    }
    for (update, value) in graph.updates().iter().zip(updates) {
        result.add_update(update.parameter, value);
    }
    Ok(result)
}

/// The applications whose e-node was chosen, with what each saved.
fn fired(
    graph: &Graph,
    egraph: &EGraph,
    extraction: &Extraction,
    applications: &[Application],
    rules: &[Rule],
    target: &dyn Target,
) -> Vec<Fired> {
    let cost_of = |op: &Op, operands: &[Id]| -> Option<u64> {
        let types: Option<Vec<&TensorType>> = operands
            .iter()
            .map(|&id| match &egraph[id].data.ty {
                Ty::Tensor(ty) => Some(ty),
                _ => None,
            })
            .collect();
        let types = types?;
        let outputs = op.infer(&types).ok()?;
        let outputs: Vec<&TensorType> = outputs.iter().collect();
        target.select(&Signature::new(op, &types, &outputs)).cost().cycles()
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut result = Vec::new();
    for application in applications {
        let class = egraph.find(application.class);
        let Some(chosen) = extraction.node(egraph, class) else { continue };
        let matches = application
            .added
            .as_ref()
            .is_some_and(|n| canonical(egraph, n) == canonical(egraph, chosen));
        if !matches
            || application.replaced.is_empty()
            || !seen.insert((class, canonical(egraph, chosen)))
        {
            continue;
        }
        let own = match chosen {
            Node::Operation(kind, children) => {
                crate::egraph::language::operation(egraph, *kind, children)
                    .and_then(|(op, operands)| Some((cost_of(&op, operands)?, op)))
            }
            _ => None,
        };
        let replaced: u64 =
            application.replaced.iter().filter_map(|(op, operands)| cost_of(op, operands)).sum();
        let (own, text) = match own {
            Some((cost, op)) => (cost, short(&op)),
            None => (0, "its operand".to_string()),
        };
        let node = egraph[class].data.source.map_or_else(String::new, |v| {
            graph.producer(v).map_or_else(|| graph.value(v).name.clone(), |n| n.name.clone())
        });
        result.push(Fired {
            rule: rules[application.rule].name,
            node,
            chosen: text,
            saved: replaced as i64 - own as i64,
        });
    }
    result
}

/// An operation's name, with a ReLU that it took in; for a chain the names of its parts.
fn short(op: &Op) -> String {
    match op {
        Op::Chain(chain) => chain.ops.iter().map(short).collect::<Vec<_>>().join(" + "),
        Op::Requantize(requantize) if requantize.low == 0 => "requantize with relu".to_string(),
        _ => op.kind().name().to_string(),
    }
}
