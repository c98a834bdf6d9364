//! Translation: from an FP32 graph to a module in an algorithm's integers.
//!
//! The algorithm's rules run in an e-graph of their own. There, being in one class means "implements this FP32 value
//! under this algorithm"; `lowered` and `raised` mark the border between a value and its representation, and cost
//! infinity, as does every operation on FP32 that the algorithm does not allow. So extraction can only pick the
//! algorithm's own operations, and what it cannot reach is reported node by node.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_ir::graph::{Copied, Definition, Graph, InputRole, NodeId, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::random::RunContext;
use trainc_ir::target::Cost;
use trainc_ir::types::{Element, Scale, Shape, TensorType};
use trainc_ir::verify::{Stage, VerifyErrors, verify};
use trainc_ir::{Data, Op, OpKind, Tensor};

use crate::algorithm::optimizer::Stored;
use crate::algorithm::{Algorithm, Carrier, Otherwise};
use crate::egraph::Id;
use crate::egraph::convert::{BuildError, Builder, Loaded, load_but, operation_cost};
use crate::egraph::extract::extract;
use crate::egraph::forms::{Forms, State, resolve_all};
use crate::egraph::language::{Graph as EGraph, Node, add_operation};
use crate::egraph::pattern::{self, Attributes, Part};
use crate::egraph::saturate::{Condition, Limits, matched_classes, saturate};
use crate::functions::gathered_for;
use crate::roles::{Role, Roles, node_name, own_name, weight_of};
use crate::untranslated::{Untranslated, report, untranslated};
use crate::update::STEP_STATE;

/// Why a graph could not be translated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TranslateError {
    /// Nodes without a rule.
    #[error("algorithm `{algorithm}` has no translation for:\n{}", report(.algorithm, .nodes))]
    Untranslated {
        /// The algorithm.
        algorithm: String,
        /// At least one node.
        nodes: Vec<Untranslated>,
    },
    /// A limit of saturation was reached before the translation was complete.
    #[error("algorithm `{algorithm}`: {message}")]
    Rules {
        /// The algorithm.
        algorithm: String,
        /// What went wrong.
        message: String,
    },
    /// The lowered module does not verify: a bug of the algorithm's rules.
    #[error("algorithm `{algorithm}`: {errors}")]
    Verify {
        /// The algorithm.
        algorithm: String,
        /// Everything wrong with it.
        errors: VerifyErrors,
    },
}

/// Leaves operations out of a forward graph: the first operand takes their place, if it has the result's type.
/// Parameters and updates that only they used go too.
pub fn remove_operations(graph: &Graph, remove: &BTreeSet<OpKind>) -> Graph {
    if remove.is_empty() {
        return graph.clone();
    }
    // What stands for a value that is left out.
    let operand = |v: ValueId| {
        let node = graph.producer(v).filter(|node| remove.contains(&node.op.kind()))?;
        let first = *node.inputs.first()?;
        (node.outputs[0] == v && graph.ty(first) == graph.ty(v)).then_some(first)
    };
    let mut used = BTreeSet::new();
    let mut stack: Vec<ValueId> = graph.outputs().iter().map(|o| o.value).collect();
    while let Some(v) = stack.pop() {
        if !used.insert(v) {
            continue;
        }
        match (operand(v), graph.producer(v)) {
            (Some(first), _) => stack.push(first),
            (None, Some(node)) => stack.extend(&node.inputs),
            (None, None) => {}
        }
    }
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let copied = graph.copy_changed(&mut result, &mut new, |_, new, v| {
        let input = matches!(graph.value(v).definition, Definition::Input(_));
        Ok(match operand(v) {
            _ if !input && !used.contains(&v) => Copied::Not,
            Some(first) => Copied::As(new[&first]),
            None => Copied::AsItIs,
        })
    });
    copied.unwrap_or_else(|e| unreachable!("what takes a value's place has its type: {e}"));
    graph.copy_roots(&mut result, &new);
    result
}

/// What translation did, for `inspect`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Translation {
    /// Names of the rules with the number of nodes each translated.
    pub fired: Vec<(String, usize)>,
    /// Nodes that no rule matched and that are computed in FP32: name and operation, in the graph's order.
    pub floated: Vec<(String, OpKind)>,
    /// Rounds of saturation.
    pub iterations: usize,
    /// E-nodes at the end.
    pub nodes: usize,
}

/// Translates a training or inference graph (whose removed operations are already gone) under an algorithm.
///
/// Inputs keep their names and order; the step size input takes the algorithm's element type. Trainable parameters
/// that the graph uses keep their names and take the stored form.
///
/// # Errors
/// See [`TranslateError`].
pub fn translate(
    graph: &Graph,
    algorithm: &Algorithm,
) -> Result<(Graph, Translation), TranslateError> {
    if algorithm.is_identity() {
        return Ok((graph.clone(), Translation::default()));
    }
    let gathered = gathered_for(algorithm, graph).map_err(|e| TranslateError::Rules {
        algorithm: algorithm.name.clone(),
        message: e.to_string(),
    })?;
    let graph = &*gathered;
    // Nodes whose rules give no allowed form here (a dropout of another ratio, bounds that are no integers): FP32, too.
    let mut refused = BTreeSet::new();
    let roles = Roles::of(graph);
    let interface = lowered_interface(graph, algorithm, &roles);
    loop {
        let result = attempt(graph, algorithm, &refused, (&roles, &interface));
        let Err(TranslateError::Untranslated { nodes, .. }) = &result else { return result };
        let float = |id: &NodeId| {
            let node = graph.node(*id);
            node.outputs.iter().all(|&v| graph.ty(v).is_f32()) && !refused.contains(id)
        };
        let float = |id: &NodeId| float(id) && !is_carried_product(algorithm, graph, *id);
        let more: Vec<NodeId> = nodes.iter().filter_map(|n| n.id).filter(float).collect();
        if more.is_empty() || algorithm.otherwise == Otherwise::Refuse {
            return result;
        }
        refused.extend(more);
    }
}

/// [`translate`], with some nodes in FP32 whatever the rules say.
fn attempt(
    graph: &Graph,
    algorithm: &Algorithm,
    refused: &BTreeSet<NodeId>,
    (stored_roles, (lowered, leaves)): (&Roles, &(Graph, BTreeMap<ValueId, ValueId>)),
) -> Result<(Graph, Translation), TranslateError> {
    let failed =
        |message: String| TranslateError::Rules { algorithm: algorithm.name.clone(), message };
    let mut loaded = load_but(graph, refused);
    loaded.egraph.analysis.roles = stored_roles.clone();
    loaded.egraph.analysis.values = graph.values().len();
    loaded.egraph.analysis.forms = Arc::new(Forms {
        forward: algorithm.narrow.clone(),
        backward: algorithm.narrow_error.clone(),
        named: algorithm.forms.clone(),
    });
    seed(graph, algorithm, lowered, leaves, &mut loaded);
    let floated = float_unmatched(graph, algorithm, refused, &mut loaded);
    let kinds = floated.iter().map(|&node| graph.node(node).op.kind());
    let stage = Stage::Quantized { float_operations: float_operations(algorithm, kinds) };
    let seams = pattern::rewrite(
        "lowered-of-raised",
        "(lowered (raised ?q))",
        "?q",
        Vec::new(),
        Condition::Any,
    );
    let mut rules = vec![seams.map_err(failed)?];
    let seam_rules = rules.len();
    rules.extend(algorithm.rules.iter().cloned());
    let mut report =
        saturate(&mut loaded.egraph, &rules, Limits::default(), false).map_err(failed)?;
    while report.limit.is_none() && resolve_all(&mut loaded.egraph) {
        let more =
            saturate(&mut loaded.egraph, &rules, Limits::default(), false).map_err(failed)?;
        report.iterations += more.iterations;
        report.applications.extend(more.applications);
        (report.nodes, report.limit) = (more.nodes, more.limit);
    }
    if let Some(limit) = report.limit {
        return Err(failed(limit));
    }
    let egraph = &loaded.egraph;
    let opaque = |v: ValueId| match graph.values().get(v.index()).map(|value| &value.definition) {
        Some(Definition::Result { node, .. }) => refused.contains(node),
        _ => false,
    };
    let extraction = extract(egraph, |egraph, id, node| match node {
        Node::Leaf(v) if opaque(*v) => Cost::INFEASIBLE,
        _ => cost(egraph, &stage, id, node),
    });
    let root_class = |v: ValueId| find_lowered(egraph, loaded.classes[v.index()]);
    // FP32 results leave through the algorithm's output form.
    let mut missing = Vec::new();
    let names = |v: ValueId| node_name(graph, v);
    let mut roots = Vec::new();
    for v in graph.roots() {
        match root_class(v) {
            Some(id) if extraction.cost(egraph, id) != Cost::INFEASIBLE => roots.push(id),
            _ => missing.push(v),
        }
    }
    if !missing.is_empty() {
        return Err(TranslateError::Untranslated {
            algorithm: algorithm.name.clone(),
            nodes: untranslated(graph, algorithm, &loaded, &extraction, &missing),
        });
    }
    let mut lowered_leaves = leaves.clone();
    for (&old, &new) in leaves {
        lowered_leaves.insert(stored_leaf(old, graph.values().len()), new);
    }
    // What is kept of values becomes parameters where it is first asked for.
    let kept: RefCell<Vec<(usize, Option<Id>)>> = RefCell::default();
    let leaf = |target: &mut Graph, v: ValueId| match egraph.analysis.states.get(&v) {
        Some(state) => {
            let parameter = add_state(graph, state, target);
            kept.borrow_mut().push((parameter, state.next));
            target.parameters()[parameter].value
        }
        None => lowered_leaves[&v],
    };
    let mut builder = Builder::new(egraph, &extraction, lowered.clone(), leaf, &names);
    let mut values = Vec::new();
    for id in roots {
        values.push(builder.value(id).map_err(|e: BuildError| failed(e.to_string()))?);
    }
    let (mut next, mut looked) = (Vec::new(), 0);
    while stored_roles.trains() {
        let asked = kept.borrow().get(looked).copied();
        let Some((parameter, class)) = asked else { break };
        looked += 1;
        let Some(class) = class else { continue };
        let value = builder.value(class).map_err(|e: BuildError| failed(e.to_string()))?;
        next.push((parameter, value));
    }
    let mut result = builder.graph;
    for (parameter, value) in next {
        result.add_update(parameter, value);
    }
    for (output, &value) in graph.outputs().iter().zip(&values) {
        let value = finish_output(&mut result, algorithm, value).map_err(failed)?;
        result.add_output(&output.name, value);
    }
    for (update, &value) in graph.updates().iter().zip(&values[graph.outputs().len()..]) {
        let old = graph.parameters()[update.parameter].value;
        let (name, role) = (&graph.value(old).name, stored_roles.role(old));
        let parameter = result
            .parameter_named(name)
            .ok_or_else(|| failed(format!("parameter `{name}` is updated but not used")))?;
        let value = stored_again(&mut result, algorithm, role, parameter, value).map_err(failed)?;
        result.add_update(parameter, value);
    }
    let result = with_own_streams(&result).map_err(failed)?;
    verify(&result, &stage)
        .map_err(|errors| TranslateError::Verify { algorithm: algorithm.name.clone(), errors })?;
    let mut fired = vec![0usize; rules.len()];
    report.applications.iter().for_each(|a| fired[a.rule] += 1);
    let fired = rules
        .iter()
        .zip(fired)
        .skip(seam_rules)
        .filter(|(_, n)| *n > 0)
        .map(|(rule, n)| (rule.name.clone(), n))
        .collect();
    let floated = floated
        .into_iter()
        .filter(|&node| algorithm.carrier.is_none() && !is_optimizers(graph.node(node).op.kind()))
        .map(|node| (graph.node(node).name.clone(), graph.node(node).op.kind()))
        .collect();
    let (iterations, nodes) = (report.iterations, report.nodes);
    Ok((result, Translation { fired, floated, iterations, nodes }))
}

/// The parameter that does not train for what an algorithm keeps of a value: `VALUE.STATE`, with a number after it where that is
/// taken; that of the graph itself, if it has it already.
fn add_state(graph: &Graph, state: &State, target: &mut Graph) -> usize {
    let of = if state.of_blocks { own_name } else { node_name };
    let own = format!("{}.{}", of(graph, state.source), state.name);
    let known = graph.parameter_named(&own).and_then(|_| target.parameter_named(&own));
    let same = |p: &usize| target.ty(target.parameters()[*p].value) == state.initial.ty();
    if let Some(parameter) = known.filter(same) {
        return parameter;
    }
    let mut names = std::iter::once(own.clone()).chain((2..).map(|n| format!("{own}_{n}")));
    let free = names.find(|name| target.parameter_named(name).is_none());
    target.add_parameter(free.unwrap_or(own), state.initial.clone(), false);
    target.parameters().len() - 1
}

/// Inputs, parameters and constants of the lowered module, and which value stands for which leaf.
fn lowered_interface(
    graph: &Graph,
    algorithm: &Algorithm,
    roles: &Roles,
) -> (Graph, BTreeMap<ValueId, ValueId>) {
    let mut lowered = Graph::new(graph.name());
    let mut leaves = BTreeMap::new();
    for input in graph.inputs() {
        let value = graph.value(input.value);
        let ty = match input.role {
            InputRole::LearningRate => TensorType::new(Shape::scalar(), algorithm.learning_rate),
            InputRole::Scheduled => {
                let declared = algorithm.optimizer.inputs.get(&value.name);
                let element = declared.map_or(Element::F32, |input| input.element);
                TensorType::new(Shape::scalar(), element)
            }
            InputRole::Data | InputRole::Labels => value.ty.clone(),
        };
        leaves.insert(input.value, lowered.add_input(&value.name, ty, input.role));
    }
    let mut stored: BTreeMap<ValueId, Arc<Tensor>> = BTreeMap::new();
    for parameter in graph.parameters() {
        let value = graph.value(parameter.value);
        let weight = weight_of(graph, &value.name).and_then(|weight| stored.get(&weight));
        let state = weight.filter(|_| kept_as_weight(algorithm, &value.name));
        let initial = match (roles.role(parameter.value), state) {
            // In its weight's units.
            (_, Some(weight)) => {
                let zeros = Data::zeros(weight.ty().element, weight.ty().count());
                Arc::new(Tensor::new(weight.ty().clone(), zeros, *weight.scale()))
            }
            (role, _) if parameter.trainable => quantized(algorithm, role, &parameter.initial),
            _ => parameter.initial.clone(),
        };
        stored.insert(parameter.value, initial.clone());
        let new = lowered.add_parameter(&value.name, initial, parameter.trainable);
        leaves.insert(parameter.value, new);
    }
    for v in graph.value_ids() {
        if let Definition::Constant(tensor) = &graph.value(v).definition {
            // A frozen weight is stored as a trained one.
            let tensor = match roles.role(v) {
                role @ Some(Role::Weight | Role::Bias) => quantized(algorithm, role, tensor),
                _ => tensor.clone(),
            };
            leaves.insert(v, lowered.add_constant(&graph.value(v).name, tensor));
        }
    }
    (lowered, leaves)
}

/// Whether a parameter of that name is state that is stored as its weight is.
fn kept_as_weight(algorithm: &Algorithm, name: &str) -> bool {
    let own = name.rsplit_once('.').map_or(name, |(_, own)| own);
    algorithm.optimizer.state.iter().any(|s| s.name == own && s.stored == Stored::Weight)
}

/// How the algorithm stores a parameter of that role.
pub fn stored_form(algorithm: &Algorithm, role: Option<Role>) -> Option<&Op> {
    match role {
        Some(Role::Bias) => algorithm.bias_quantizer.as_ref().or(algorithm.quantizer.as_ref()),
        Some(Role::Weight) => algorithm.quantizer.as_ref(),
        _ if algorithm.otherwise == Otherwise::Float => None,
        _ => algorithm.quantizer.as_ref(),
    }
}

fn quantized(algorithm: &Algorithm, role: Option<Role>, tensor: &Arc<Tensor>) -> Arc<Tensor> {
    match stored_form(algorithm, role) {
        Some(quantizer) if tensor.ty().is_f32() => {
            let stored = quantizer.evaluate(&[tensor], &RunContext::default());
            Arc::new(stored.into_iter().next().unwrap_or_else(|| Tensor::zeros(tensor.ty())))
        }
        _ => tensor.clone(),
    }
}

/// Tells the e-graph how leaves are represented.
fn seed(
    graph: &Graph,
    algorithm: &Algorithm,
    lowered: &Graph,
    leaves: &BTreeMap<ValueId, ValueId>,
    loaded: &mut Loaded,
) {
    let egraph = &mut loaded.egraph;
    for (&old, &new) in leaves {
        let class = loaded.classes[old.index()];
        let (before, after) = (graph.ty(old), lowered.ty(new));
        let mark = egraph.add(Node::Lowered([class]));
        if before != after {
            // Stored in another form: a leaf of its own. Its id is the old value's; the type tells them apart.
            let leaf = stored_leaf(old, graph.values().len());
            egraph.analysis.leaves.insert(leaf, after.clone());
            let id = egraph.add(Node::Leaf(leaf));
            egraph.union(mark, id);
        } else if !before.is_f32() {
            egraph.union(mark, class);
        } else if let (Some(input), Definition::Input(i)) =
            (&algorithm.input, &graph.value(old).definition)
            && !graph.inputs()[*i].role.is_scheduled()
        {
            let id = input.instantiate(egraph, class);
            egraph.union(mark, id);
        } else if algorithm.otherwise == Otherwise::Float || is_state(graph, old) {
            egraph.union(mark, class);
        }
    }
    // Every value is wanted in the algorithm's representation, so that markers can look it up.
    for &class in &loaded.classes {
        egraph.add(Node::Lowered([class]));
    }
    egraph.rebuild();
}

/// Whether a node is a product, of an algorithm that computes products in integers alone.
fn is_carried_product(algorithm: &Algorithm, graph: &Graph, node: NodeId) -> bool {
    algorithm.carrier.is_some() && graph.node(node).op.kind().has(Property::Bilinear)
}

/// Whether an operation is one that optimizers compute in FP32.
pub(crate) fn is_optimizers(kind: OpKind) -> bool {
    matches!(kind, OpKind::Formula | OpKind::SquaredNorm)
}

/// Whether a value is state in FP32 that the optimizer keeps.
fn is_state(graph: &Graph, v: ValueId) -> bool {
    let name = &graph.value(v).name;
    let parameter = matches!(graph.value(v).definition, Definition::Parameter(_));
    parameter && (weight_of(graph, name).is_some() || name.starts_with(STEP_STATE))
}

/// Gives each FP32 node that no rule matches, or whose rules are refused, its own FP32 operation, on operands as FP32. In the graph's order.
fn float_unmatched(
    graph: &Graph,
    algorithm: &Algorithm,
    refused: &BTreeSet<NodeId>,
    loaded: &mut Loaded,
) -> Vec<NodeId> {
    let egraph = &mut loaded.egraph;
    let mut matched = BTreeSet::new();
    for rule in &algorithm.rules {
        matched.extend(matched_classes(egraph, rule));
    }
    let mut floated = Vec::new();
    for id in graph.node_ids() {
        let node = graph.node(id);
        let classes: Vec<Id> =
            node.outputs.iter().map(|v| egraph.find(loaded.classes[v.index()])).collect();
        // Integers of the model's own, such as indices and those of its quantizers, stay what they are.
        let own = |v: &ValueId| {
            let ty = graph.ty(*v);
            ty.is_f32() || ty.scale == Scale::None
        };
        let float = node.outputs.iter().all(own);
        let has_rule = classes.iter().any(|class| matched.contains(class));
        // The optimizer's formulas are FP32 by what they are.
        let formula = is_optimizers(node.op.kind());
        let silent = algorithm.otherwise == Otherwise::Refuse && !formula;
        let silent = silent || is_carried_product(algorithm, graph, id);
        if !float || silent || has_rule && !refused.contains(&id) {
            continue;
        }
        let operands: Vec<Id> = node
            .inputs
            .iter()
            .map(|v| egraph.add(Node::Floated([loaded.classes[v.index()]])))
            .collect();
        let operation = add_operation(egraph, &node.op, &operands);
        for (slot, &class) in classes.iter().enumerate() {
            let value = match classes.len() {
                1 => operation,
                _ => egraph.add(Node::Result(slot as u8, [operation])),
            };
            let mark = egraph.add(Node::Lowered([class]));
            egraph.union(mark, value);
        }
        if node.outputs.iter().all(|&v| graph.ty(v).is_f32()) {
            floated.push(id);
        }
    }
    egraph.rebuild();
    floated
}

/// What may be FP32 in a module: what the algorithm says (`None`: all), and, where it computes in FP32 what it is silent
/// about, those operations and movements of their results.
pub fn float_operations(
    algorithm: &Algorithm,
    floated: impl Iterator<Item = OpKind>,
) -> Option<BTreeSet<OpKind>> {
    let products = |kind: &OpKind| kind.has(Property::Bilinear);
    let carried = || -> BTreeSet<OpKind> {
        OpKind::ALL.iter().copied().filter(|kind| !products(kind)).collect()
    };
    let mut allowed = match (&algorithm.float_operations, algorithm.carrier) {
        (Some(allowed), None) => allowed.clone(),
        // What is listed: products that the algorithm's rules leave in FP32.
        (listed, Some(Carrier::F32)) => &carried() | listed.as_ref().unwrap_or(&BTreeSet::new()),
        (None, None) => return None,
    };
    allowed.extend(floated);
    if algorithm.otherwise == Otherwise::Float {
        allowed.extend(OpKind::all_with(Property::Moves));
    }
    // Weights that are made of FP32 ones in each step, and gradients that become FP32 for them.
    if algorithm.updates_in_float() {
        let quantizers = algorithm.quantizer.iter().chain(&algorithm.bias_quantizer);
        allowed.extend(quantizers.map(Op::kind));
        allowed.extend([OpKind::Formula, OpKind::Dequantize]);
    }
    Some(allowed)
}

/// The module with a random stream of its own for each stochastic operation of the algorithm: those of the model's
/// dropouts stay, the others take the numbers that these leave, in the module's order.
fn with_own_streams(graph: &Graph) -> Result<Graph, String> {
    let dropout = |op: &Op| matches!(op, Op::Dropout(_));
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    for node in graph.nodes().iter().filter(|n| dropout(&n.op)) {
        taken.extend(node.op.stream());
    }
    let mut free = (0..).filter(|stream| !taken.contains(stream));
    graph
        .map_operations(|op| match op.stream() {
            Some(_) if !dropout(op) => op.with_stream(free.next().unwrap_or_default()),
            _ => op.clone(),
        })
        .map_err(|e| e.to_string())
}

/// The leaf of a value's stored form: a value id past the graph's own.
fn stored_leaf(old: ValueId, count: usize) -> ValueId {
    ValueId::from_index(old.index() + count)
}

/// A new value in FP32 of a parameter that is stored in integers: quantized anew, as its first value was.
fn stored_again(
    graph: &mut Graph,
    algorithm: &Algorithm,
    role: Option<Role>,
    parameter: usize,
    value: ValueId,
) -> Result<ValueId, String> {
    let own = &graph.parameters()[parameter];
    if !graph.ty(value).is_f32() || graph.ty(own.value).is_f32() || !own.trainable {
        return Ok(value);
    }
    let Some(quantizer) = stored_form(algorithm, role).cloned() else { return Ok(value) };
    let name = format!("{}/stored", graph.value(own.value).name);
    graph.add1(quantizer, &[value], name).map_err(|e| e.to_string())
}

/// Every allowed operation costs one; what the algorithm does not allow is infeasible.
fn cost(egraph: &EGraph, stage: &Stage, id: Id, node: &Node) -> Cost {
    operation_cost(egraph, id, node, |op, inputs, outputs| {
        if stage.allows(op, inputs, outputs) { Cost::new(1) } else { Cost::INFEASIBLE }
    })
}

pub(crate) fn find_lowered(egraph: &EGraph, class: Id) -> Option<Id> {
    egraph.lookup(Node::Lowered([egraph.find(class)]))
}

/// Puts an output in the algorithm's output form if it is not FP32 already.
fn finish_output(
    graph: &mut Graph,
    algorithm: &Algorithm,
    value: ValueId,
) -> Result<ValueId, String> {
    let Some(template) = &algorithm.output else { return Ok(value) };
    if graph.ty(value).scale == Scale::None {
        return Ok(value);
    }
    let name = graph.value(value).name.clone();
    let parts = template.parts().ok_or("translation.output: expected operations applied to ?q")?;
    let mut values: Vec<ValueId> = Vec::new();
    for part in parts {
        values.push(match part {
            Part::Variable(_) => value,
            Part::Number(number) => {
                graph.add_constant(name.clone(), Tensor::f32([], vec![number.get()]))
            }
            Part::Operation(Attributes::Variable(kind, _), _) => {
                return Err(format!(
                    "translation.output: the attributes of `{}` are open",
                    kind.name()
                ));
            }
            Part::Operation(Attributes::Given(op), operands) => {
                let operands: Vec<ValueId> = operands.iter().map(|&i| values[i]).collect();
                graph.add1(op, &operands, name.clone()).map_err(|e| e.to_string())?
            }
        });
    }
    values.last().copied().ok_or_else(|| "translation.output is empty".into())
}
