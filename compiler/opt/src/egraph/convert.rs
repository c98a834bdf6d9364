//! Graphs to e-graphs and back.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;
use trainc_ir::graph::{Definition, Graph as IrGraph, NodeId, ValueId};
use trainc_ir::ops::TypeError;
use trainc_ir::ops::properties::Property;
use trainc_ir::target::Cost;
use trainc_ir::{Element, Op, OpKind, Tensor};

use super::extract::Extraction;
use super::language::{Graph, Node, Ty, Types, add_operation, operation};

/// An e-graph that holds a graph.
#[derive(Debug)]
pub struct Loaded {
    /// The e-graph.
    pub egraph: Graph,
    /// The class of each value of the graph.
    pub classes: Vec<Id>,
}

/// Loads a graph: one class a value.
pub fn load(graph: &IrGraph) -> Loaded {
    load_but(graph, &BTreeSet::new())
}

/// [`load`], with the results of some nodes as leaves: no rule sees these nodes.
pub(crate) fn load_but(graph: &IrGraph, opaque: &BTreeSet<NodeId>) -> Loaded {
    let is_leaf = |v: ValueId| match graph.value(v).definition {
        Definition::Result { node, .. } => opaque.contains(&node),
        _ => true,
    };
    let leaves =
        graph.value_ids().filter(|&v| is_leaf(v)).map(|v| (v, graph.ty(v).clone())).collect();
    let mut egraph = Graph::new(Types { leaves, ..Types::default() });
    let mut classes: Vec<Id> = vec![Id::from(0); graph.values().len()];
    for v in graph.value_ids() {
        if is_leaf(v) {
            let class = egraph.add(Node::Leaf(v));
            if matches!(graph.value(v).definition, Definition::Result { .. }) {
                set_source(&mut egraph, class, v);
            }
            classes[v.index()] = class;
        }
    }
    for id in graph.node_ids().filter(|id| !opaque.contains(id)) {
        let node = graph.node(id);
        let operands: Vec<Id> = node.inputs.iter().map(|v| classes[v.index()]).collect();
        let id = add_operation(&mut egraph, &node.op, &operands);
        for (slot, &output) in node.outputs.iter().enumerate() {
            let class = match node.outputs.len() {
                1 => id,
                _ => egraph.add(Node::Result(slot as u8, [id])),
            };
            set_source(&mut egraph, class, output);
            if node.outputs.len() > 1 && slot == 0 {
                set_source(&mut egraph, id, output);
            }
            classes[output.index()] = class;
        }
    }
    egraph.rebuild();
    Loaded { egraph, classes }
}

fn set_source(egraph: &mut Graph, class: Id, value: ValueId) {
    let mut facts = egraph[class].data.clone();
    facts.source = Some(facts.source.map_or(value, |s| s.min(value)));
    egraph.set_analysis_data(class, facts);
}

/// Why a graph could not be built from an extraction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// No term of finite cost.
    #[error("no form of finite cost")]
    Infeasible(Id),
    /// The chosen nodes form a cycle.
    #[error("the extraction is cyclic")]
    Cycle,
    /// The built graph does not type: a bug of a rule.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// How far bits are followed to what they are the signs of.
const FAR: usize = 6;

/// Builds a graph's nodes from chosen classes.
pub struct Builder<'a, Leaf> {
    egraph: &'a Graph,
    extraction: &'a Extraction,
    /// The graph being built.
    pub graph: IrGraph,
    /// Gives the new graph's value for a leaf.
    leaf: Leaf,
    names: &'a dyn Fn(ValueId) -> String,
    done: BTreeMap<Id, Vec<ValueId>>,
}

impl<Leaf> std::fmt::Debug for Builder<'_, Leaf> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Builder of {}", self.graph.name())
    }
}

impl<'a, Leaf: FnMut(&mut IrGraph, ValueId) -> ValueId> Builder<'a, Leaf> {
    /// A builder that appends to `graph`; `leaf` gives the value of a leaf, `names` the node name of a source value.
    pub fn new(
        egraph: &'a Graph,
        extraction: &'a Extraction,
        graph: IrGraph,
        leaf: Leaf,
        names: &'a dyn Fn(ValueId) -> String,
    ) -> Self {
        Builder { egraph, extraction, graph, leaf, names, done: BTreeMap::new() }
    }

    /// The value of a class, appending the nodes that compute it.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn value(&mut self, id: Id) -> Result<ValueId, BuildError> {
        let values = self.build(id)?;
        Ok(values[0])
    }

    /// Builds a class without recursion (training graphs are deep).
    fn build(&mut self, root: Id) -> Result<Vec<ValueId>, BuildError> {
        enum Task {
            Enter(Id, String),
            Exit(Id, String),
        }
        let root = self.egraph.find(root);
        let mut stack = vec![Task::Enter(root, "step".into())];
        let mut open = std::collections::BTreeSet::new();
        while let Some(task) = stack.pop() {
            match task {
                Task::Enter(id, user) => {
                    if self.done.contains_key(&id) {
                        continue;
                    }
                    if !open.insert(id) {
                        return Err(BuildError::Cycle);
                    }
                    let source = self.egraph[id].data.source.or_else(|| self.bits_of(id, FAR));
                    let name = source.map_or(user, self.names);
                    let node =
                        self.extraction.node(self.egraph, id).ok_or(BuildError::Infeasible(id))?;
                    let children = self.operands(node)?;
                    stack.push(Task::Exit(id, name.clone()));
                    for child in children.into_iter().rev() {
                        let child = self.egraph.find(child);
                        stack.push(Task::Enter(child, name.clone()));
                    }
                }
                Task::Exit(id, name) => {
                    open.remove(&id);
                    let values = self.finish(id, &name)?;
                    self.done.insert(id, values);
                }
            }
        }
        Ok(self.done[&root].clone())
    }

    /// The value that bits, which rules have made, are the signs of: its name says more than that of what takes them.
    fn bits_of(&self, id: Id, far: usize) -> Option<ValueId> {
        let class = &self.egraph[id];
        let Ty::Tensor(ty) = &class.data.ty else { return None };
        if ty.element != Element::B1 || far == 0 {
            return None;
        }
        class.nodes.iter().find_map(|node| {
            let Node::Operation(kind, children) = node else { return None };
            let moves = kind.has(Property::Moves) || *kind == OpKind::IntegerMaxPool2d;
            if !moves && *kind != OpKind::SignBits {
                return None;
            }
            let (_, operands) = operation(self.egraph, *kind, children)?;
            let operand = self.egraph.find(*operands.first()?);
            self.egraph[operand].data.source.or_else(|| self.bits_of(operand, far - 1))
        })
    }

    fn operands(&self, node: &Node) -> Result<Vec<Id>, BuildError> {
        Ok(match node {
            Node::Operation(kind, children) => operation(self.egraph, *kind, children)
                .map(|(_, operands)| operands.to_vec())
                .unwrap_or_default(),
            Node::Result(_, child) => child.to_vec(),
            Node::Leaf(_) | Node::Scalar(_) => Vec::new(),
            Node::Attributes(_)
            | Node::Around(..)
            | Node::Lowered(_)
            | Node::Narrowed(_)
            | Node::Floated(_)
            | Node::Form(..)
            | Node::Raised(_)
            | Node::Step(_) => {
                return Err(BuildError::Cycle);
            }
        })
    }

    fn finish(&mut self, id: Id, name: &str) -> Result<Vec<ValueId>, BuildError> {
        let node = self.extraction.node(self.egraph, id).ok_or(BuildError::Infeasible(id))?.clone();
        let of = |done: &BTreeMap<Id, Vec<ValueId>>, egraph: &Graph, id: Id| {
            done.get(&egraph.find(id)).cloned().ok_or(BuildError::Cycle)
        };
        Ok(match &node {
            Node::Leaf(value) => match self.egraph.analysis.constants.get(value) {
                Some((suffix, tensor)) => {
                    vec![self.graph.add_constant(format!("{name}/{suffix}"), tensor.clone())]
                }
                None => vec![(self.leaf)(&mut self.graph, *value)],
            },
            Node::Scalar(value) => {
                let tensor = Tensor::f32(trainc_ir::Shape::scalar(), vec![value.get()]);
                vec![self.graph.add_constant(name, tensor)]
            }
            Node::Result(slot, [child]) => {
                let values = of(&self.done, self.egraph, *child)?;
                vec![*values.get(usize::from(*slot)).ok_or(BuildError::Cycle)?]
            }
            Node::Operation(kind, children) => {
                let (op, operands) = operation(self.egraph, *kind, children)
                    .ok_or_else(|| TypeError::new("an operation without attributes"))?;
                let mut values = Vec::with_capacity(operands.len());
                for &operand in operands {
                    values.push(of(&self.done, self.egraph, operand)?[0]);
                }
                self.graph.add(op, &values, name)?
            }
            Node::Attributes(_)
            | Node::Around(..)
            | Node::Lowered(_)
            | Node::Narrowed(_)
            | Node::Floated(_)
            | Node::Form(..)
            | Node::Raised(_)
            | Node::Step(_) => {
                return Err(BuildError::Cycle);
            }
        })
    }
}

/// Cost of an e-node as an operation on a target: its operands' and results' types decide. Leaves and selections of
/// results are free; markers, ill-typed and unknown nodes are infeasible.
pub fn operation_cost(
    egraph: &Graph,
    class: Id,
    node: &Node,
    cost: impl Fn(&Op, &[&trainc_ir::TensorType], &[&trainc_ir::TensorType]) -> Cost,
) -> Cost {
    match node {
        Node::Leaf(_)
        | Node::Scalar(_)
        | Node::Attributes(_)
        | Node::Around(..)
        | Node::Result(..)
        | Node::Step(_) => Cost::ZERO,
        Node::Lowered(_)
        | Node::Narrowed(_)
        | Node::Floated(_)
        | Node::Form(..)
        | Node::Raised(_) => Cost::INFEASIBLE,
        Node::Operation(kind, children) => {
            let Some((op, operands)) = operation(egraph, *kind, children) else {
                return Cost::INFEASIBLE;
            };
            let mut inputs = Vec::with_capacity(operands.len());
            for &operand in operands {
                match &egraph[operand].data.ty {
                    Ty::Tensor(ty) => inputs.push(ty),
                    _ => return Cost::INFEASIBLE,
                }
            }
            // The class may have its type from another node: this one must type by itself.
            let Ok(results) = op.infer(&inputs) else { return Cost::INFEASIBLE };
            let fits = match &egraph[class].data.ty {
                Ty::Tensor(ty) => results.len() == 1 && results[0] == *ty,
                Ty::Tuple(types) => *types == results,
                _ => false,
            };
            if !fits {
                return Cost::INFEASIBLE;
            }
            cost(&op, &inputs, &results.iter().collect::<Vec<_>>())
        }
    }
}
