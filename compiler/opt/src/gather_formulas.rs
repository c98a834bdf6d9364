//! FP32 operations of single elements that follow each other, as one `formula`: one launch and one loop, and what is between them is
//! never stored.
//!
//! An operation joins those that read its result where nothing else does. Formulas that nothing reads in the step (new values of kept
//! statistics) are one where they read results of one node, as the moving averages of a normalization's mean and variance do. This is
//! no rule of the e-graph: it depends on all readers of a value, and a formula has several results. Whether it pays is the target's
//! cost, as for any fusion.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::Op;
use trainc_ir::attributes::F32;
use trainc_ir::graph::{Copied, Graph, ValueId};
use trainc_ir::ops::formula::{Formula, Function, LONGEST, Step, Term};
use trainc_ir::target::{Signature, Target};
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::verify::Stage;

/// Operations that became one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// The node that it is called by.
    pub node: String,
    /// How many they were.
    pub operations: usize,
    /// Their cost less the formula's (the target's unit).
    pub saved: u64,
}

/// The graph with formulas in place of the operations that they are made of, where the target says that they cost no more: every bit
/// stays.
pub fn gather_formulas(
    graph: &Graph,
    stage: &Stage,
    target: &dyn Target,
) -> (Graph, Vec<Gathered>) {
    let readers = Readers::of(graph);
    let mut taken: Vec<Taken> = Vec::new();
    for parts in beside_each_other(graph, &readers, following(graph, &readers)) {
        let whole = parts.concat();
        match Taken::of(graph, &readers, whole, stage, target) {
            Some(formula) => taken.push(formula),
            None if parts.len() > 1 => taken.extend(
                parts.into_iter().filter_map(|own| Taken::of(graph, &readers, own, stage, target)),
            ),
            None => {}
        }
    }
    if taken.is_empty() {
        return (graph.clone(), Vec::new());
    }
    let inside: BTreeMap<usize, usize> = taken
        .iter()
        .enumerate()
        .flat_map(|(number, formula)| formula.nodes.iter().map(move |&node| (node, number)))
        .collect();
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    // Results of a formula that are met before its place in the order: only roots are.
    let mut earlier: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let copied = graph.copy_changed(&mut result, &mut new, |copy, new, v| {
        let Some(node) = readers.producer(v) else {
            let read = &readers.of[v.index()];
            let dissolved = is_number(graph, v)
                && !readers.roots.contains(&v)
                && !read.is_empty()
                && read.iter().all(|node| inside.contains_key(node));
            return Ok(if dissolved { Copied::Not } else { Copied::AsItIs });
        };
        let Some(&number) = inside.get(&node) else {
            // What nothing needs may read what is no longer made.
            return Ok(if readers.live[node] { Copied::AsItIs } else { Copied::Not });
        };
        let formula = &taken[number];
        if formula.nodes.last() != Some(&node) {
            return Ok(Copied::Not);
        }
        let operands: Vec<ValueId> = formula.operands.iter().map(|v| new[v]).collect();
        let results = copy.add(formula.op.clone(), &operands, formula.name(graph))?;
        for (&old, &new) in formula.results.iter().zip(&results) {
            copy.set_name(new, &graph.value(old).name);
            earlier.insert(old, new);
        }
        Ok(Copied::As(earlier[&v]))
    });
    copied.unwrap_or_else(|e| unreachable!("a formula has the types of its operations: {e}"));
    new.extend(earlier);
    graph.copy_roots(&mut result, &new);
    let gathered = taken
        .iter()
        .map(|formula| Gathered {
            node: formula.name(graph),
            operations: formula.nodes.len(),
            saved: formula.saved,
        })
        .collect();
    (result, gathered)
}

/// Who reads what in a step.
struct Readers {
    /// For each value the live nodes that read it.
    of: Vec<Vec<usize>>,
    /// For each value the node that makes it.
    producers: Vec<Option<usize>>,
    /// Values that leave the step.
    roots: BTreeSet<ValueId>,
    /// For each node whether a root depends on it.
    live: Vec<bool>,
}

impl Readers {
    fn of(graph: &Graph) -> Readers {
        let live = graph.live_nodes();
        let mut of = vec![Vec::new(); graph.values().len()];
        let mut producers = vec![None; graph.values().len()];
        for (number, node) in graph.nodes().iter().enumerate() {
            node.outputs.iter().for_each(|v| producers[v.index()] = Some(number));
            for v in node.inputs.iter().filter(|_| live[number]) {
                of[v.index()].push(number);
            }
        }
        Readers { of, producers, roots: graph.roots().collect(), live }
    }

    fn producer(&self, v: ValueId) -> Option<usize> {
        self.producers[v.index()]
    }
}

/// Whether a value is a number that is known.
fn is_number(graph: &Graph, v: ValueId) -> bool {
    graph.constant_of(v).is_some_and(|tensor| tensor.ty() == &TensorType::f32([]))
}

/// What a node computes of each element, if a formula can: of operands of its result's shape, and of scalars.
fn function(graph: &Graph, node: usize) -> Option<(Function, &Shape)> {
    let node = &graph.nodes()[node];
    let function = Function::of(node.op.kind())?;
    let [result] = node.outputs[..] else { return None };
    let shape = &graph.ty(result).shape;
    let fits = |&v: &ValueId| {
        let ty = graph.ty(v);
        *ty == TensorType::f32(ty.shape.clone()) && (ty.shape == *shape || ty.shape.rank() == 0)
    };
    node.inputs.iter().chain(&node.outputs).all(fits).then_some((function, shape))
}

/// Groups of nodes, each in order: every node but the last has its only readers in its group.
fn following(graph: &Graph, readers: &Readers) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut group_of: BTreeMap<usize, usize> = BTreeMap::new();
    for number in (0..graph.nodes().len()).rev().filter(|&number| readers.live[number]) {
        let Some((_, shape)) = function(graph, number) else { continue };
        let result = graph.nodes()[number].outputs[0];
        let of = |reader: &usize| group_of.get(reader).copied();
        let read = &readers.of[result.index()];
        let joined = read.first().and_then(of).filter(|group| {
            !readers.roots.contains(&result)
                && read.iter().all(|reader| of(reader) == Some(*group))
                && function(graph, *group).is_some_and(|(_, own)| own == shape)
                && groups[group].len() < LONGEST
        });
        let group = joined.unwrap_or(number);
        group_of.insert(number, group);
        groups.entry(group).or_default().push(number);
    }
    groups
        .into_values()
        .map(|mut group| {
            group.reverse();
            group
        })
        .collect()
}

/// Puts groups beside each other whose results nothing reads in the step, and that read results of one node.
fn beside_each_other(
    graph: &Graph,
    readers: &Readers,
    groups: Vec<Vec<usize>>,
) -> Vec<Vec<Vec<usize>>> {
    let mut result: Vec<Vec<Vec<usize>>> = Vec::new();
    let mut by_source: BTreeMap<(usize, &Shape), usize> = BTreeMap::new();
    for group in groups {
        let last = &graph.nodes()[group[group.len() - 1]];
        let shape = &graph.ty(last.outputs[0]).shape;
        let several = |v: &ValueId| {
            readers.producer(*v).filter(|&source| graph.nodes()[source].outputs.len() > 1)
        };
        let mut operands = group.iter().flat_map(|&node| &graph.nodes()[node].inputs);
        let source = match readers.of[last.outputs[0].index()].is_empty() {
            true => operands.find_map(several),
            false => None,
        };
        let Some(source) = source else {
            result.push(vec![group]);
            continue;
        };
        let place = *by_source.entry((source, shape)).or_insert(result.len());
        let room = result.get(place).is_some_and(|parts| {
            parts.iter().map(Vec::len).sum::<usize>() + group.len() <= LONGEST
        });
        if room {
            result[place].push(group);
        } else {
            by_source.insert((source, shape), result.len());
            result.push(vec![group]);
        }
    }
    result
}

/// A formula and what it takes the place of.
struct Taken {
    /// In order.
    nodes: Vec<usize>,
    op: Formula,
    operands: Vec<ValueId>,
    results: Vec<ValueId>,
    saved: u64,
}

impl Taken {
    /// The formula of some nodes, if it is allowed and costs no more than they do.
    fn of(
        graph: &Graph,
        readers: &Readers,
        mut nodes: Vec<usize>,
        stage: &Stage,
        target: &dyn Target,
    ) -> Option<Taken> {
        if nodes.len() < 2 {
            return None;
        }
        nodes.sort_unstable();
        let mut operands: Vec<ValueId> = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        let mut step_of: BTreeMap<ValueId, usize> = BTreeMap::new();
        for &number in &nodes {
            let node = &graph.nodes()[number];
            let (function, _) = function(graph, number)?;
            let mut terms = Vec::new();
            for &v in &node.inputs {
                let constant = graph.constant_of(v).filter(|_| is_number(graph, v));
                terms.push(match (step_of.get(&v), constant) {
                    (Some(&step), _) => Term::Step(step),
                    (None, Some(tensor)) => Term::Number(F32::new(tensor.as_f32()[0])),
                    (None, None) => {
                        let known = operands.iter().position(|&operand| operand == v);
                        Term::Operand(known.unwrap_or_else(|| {
                            operands.push(v);
                            operands.len() - 1
                        }))
                    }
                });
            }
            step_of.insert(node.outputs[0], steps.len());
            steps.push(Step { function, terms });
        }
        let own = |reader: &usize| nodes.contains(reader);
        let (results, terms): (Vec<ValueId>, Vec<Term>) = nodes
            .iter()
            .map(|&number| graph.nodes()[number].outputs[0])
            .filter(|v| readers.roots.contains(v) || !readers.of[v.index()].iter().all(own))
            .map(|v| (v, Term::Step(step_of[&v])))
            .unzip();
        let op = Formula { steps, results: terms };
        let types: Vec<&TensorType> = operands.iter().map(|&v| graph.ty(v)).collect();
        let made: Vec<&TensorType> = results.iter().map(|&v| graph.ty(v)).collect();
        let whole = Op::from(op.clone());
        // Numbers alone would be a scalar.
        let typed = whole.infer(&types).is_ok_and(|found| found.iter().eq(made.iter().copied()));
        if !typed || !stage.allows(&whole, &types, &made) {
            return None;
        }
        let cost = target.select(&Signature::new(&whole, &types, &made)).cost().cycles()?;
        let apart = nodes.iter().map(|&number| {
            let node = &graph.nodes()[number];
            let [inputs, outputs] =
                [&node.inputs, &node.outputs].map(|v| v.iter().map(|&v| graph.ty(v)).collect());
            let (inputs, outputs): (Vec<&TensorType>, Vec<&TensorType>) = (inputs, outputs);
            target.select(&Signature::new(&node.op, &inputs, &outputs)).cost().cycles()
        });
        let saved = apart.sum::<Option<u64>>()?.checked_sub(cost)?;
        Some(Taken { nodes, op, operands, results, saved })
    }

    /// The name of its last operation.
    fn name(&self, graph: &Graph) -> String {
        graph.nodes()[self.nodes[self.nodes.len() - 1]].name.clone()
    }
}
