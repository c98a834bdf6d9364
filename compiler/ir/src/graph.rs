//! The graph: values in single assignment, nodes in topological order.
//!
//! One structure serves the FP32 graph, the training graph and quantized modules (QIR); [`crate::verify`] tells
//! the stages apart. A graph is append-only: passes build a new one, so operands always exist before their use
//! and a graph is acyclic by construction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ops::{Op, TypeError};
use crate::tensor::Tensor;
use crate::types::TensorType;

/// A value: an input, a parameter, a constant or a result of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(u32);

impl ValueId {
    /// The id of a position.
    pub fn from_index(index: usize) -> ValueId {
        ValueId(index as u32)
    }

    /// Position in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node: an operation applied to values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// Position in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Definition {
    /// Given by the caller at each step; position in [`Graph::inputs`].
    Input(usize),
    /// State that lives across steps; position in [`Graph::parameters`].
    Parameter(usize),
    /// Known at compile time.
    Constant(Arc<Tensor>),
    /// Result `slot` of a node.
    Result {
        /// The node.
        node: NodeId,
        /// Which of its results.
        slot: usize,
    },
}

/// A value's type, name and origin.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// Type.
    pub ty: TensorType,
    /// Name from the model where it has one, for messages and emitted symbols.
    pub name: String,
    /// Origin.
    pub definition: Definition,
}

/// What an input means to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum InputRole {
    /// Data: images, features.
    Data,
    /// Class labels, i32.
    Labels,
    /// The step size of the schedule: FP32 learning rate, or NITI's number of bits of an update (i32).
    LearningRate,
    /// Another number that a schedule gives; the input's name says which.
    Scheduled,
}

impl InputRole {
    /// Whether a schedule gives it.
    pub fn is_scheduled(self) -> bool {
        matches!(self, InputRole::LearningRate | InputRole::Scheduled)
    }
}

/// An input of a graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Its value; the name and type are there.
    pub value: ValueId,
    /// What it means.
    pub role: InputRole,
}

/// State that lives across steps: a weight, a running statistic, a momentum.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Its value at the start of a step; the name and type are there.
    pub value: ValueId,
    /// Whether training updates it by its gradient (a weight, not a running statistic).
    pub trainable: bool,
    /// Its value before the first step.
    pub initial: Arc<Tensor>,
}

/// A named result of a graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// Name, unique among the outputs.
    pub name: String,
    /// Its value.
    pub value: ValueId,
}

/// A parameter's value after the step. All updates take place at the end of the step, at once.
#[derive(Clone, PartialEq, Debug)]
pub struct Update {
    /// Position in [`Graph::parameters`].
    pub parameter: usize,
    /// The new value, of the parameter's type.
    pub value: ValueId,
}

/// An operation applied to values.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Operands.
    pub inputs: Vec<ValueId>,
    /// Results.
    pub outputs: Vec<ValueId>,
    /// The model's node this stems from, such as `conv1` or `conv1/gradient_weight`.
    pub name: String,
}

/// A graph. See the module documentation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Graph {
    name: String,
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<Input>,
    parameters: Vec<Parameter>,
    outputs: Vec<Output>,
    updates: Vec<Update>,
}

/// What becomes of a value in a copy of its graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// It is copied, with all results of its node.
    AsItIs,
    /// It is left out.
    Not,
    /// That value of the copy takes its place.
    As(ValueId),
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All values; a [`ValueId`] is a position.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// All nodes in an order where operands come first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Ids of all nodes, in order.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Ids of all values, in order.
    pub fn value_ids(&self) -> impl DoubleEndedIterator<Item = ValueId> + use<> {
        (0..self.values.len() as u32).map(ValueId)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// A value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// A value's type.
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.values[id.index()].ty
    }

    /// Inputs in call order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Named results.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Parameters' new values.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// The only input of that role, if there is one.
    pub fn input_of_role(&self, role: InputRole) -> Option<ValueId> {
        self.inputs.iter().find(|i| i.role == role).map(|i| i.value)
    }

    /// The parameter of that name.
    pub fn parameter_named(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|p| self.value(p.value).name == name)
    }

    /// The constant tensor behind a value, if it is one.
    pub fn constant_of(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        match &self.value(id).definition {
            Definition::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The node that computes a value, if one does.
    pub fn producer(&self, id: ValueId) -> Option<&Node> {
        match self.value(id).definition {
            Definition::Result { node, .. } => Some(self.node(node)),
            _ => None,
        }
    }

    fn push(&mut self, ty: TensorType, name: String, definition: Definition) -> ValueId {
        self.values.push(Value { ty, name, definition });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Adds an input.
    pub fn add_input(
        &mut self,
        name: impl Into<String>,
        ty: TensorType,
        role: InputRole,
    ) -> ValueId {
        let value = self.push(ty, name.into(), Definition::Input(self.inputs.len()));
        self.inputs.push(Input { value, role });
        value
    }

    /// Adds a parameter; its type is its initial value's.
    pub fn add_parameter(
        &mut self,
        name: impl Into<String>,
        initial: impl Into<Arc<Tensor>>,
        trainable: bool,
    ) -> ValueId {
        let initial = initial.into();
        let definition = Definition::Parameter(self.parameters.len());
        let value = self.push(initial.ty().clone(), name.into(), definition);
        self.parameters.push(Parameter { value, trainable, initial });
        value
    }

    /// Gives a parameter another value before the first step, of its type.
    ///
    /// # Panics
    /// If the type is another.
    pub fn set_initial(&mut self, parameter: usize, initial: Arc<Tensor>) {
        let parameter = &mut self.parameters[parameter];
        assert_eq!(initial.ty(), parameter.initial.ty(), "a parameter keeps its type");
        parameter.initial = initial;
    }

    /// Adds a constant.
    pub fn add_constant(
        &mut self,
        name: impl Into<String>,
        tensor: impl Into<Arc<Tensor>>,
    ) -> ValueId {
        let tensor = tensor.into();
        self.push(tensor.ty().clone(), name.into(), Definition::Constant(tensor))
    }

    /// Adds a node; its results' types follow from the type rule.
    pub fn add(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        name: impl Into<String>,
    ) -> Result<Vec<ValueId>, TypeError> {
        let op = op.into();
        let name = name.into();
        let types: Vec<&TensorType> = inputs.iter().map(|&v| self.ty(v)).collect();
        let results = op.infer(&types)?;
        let node = NodeId(self.nodes.len() as u32);
        let many = results.len() > 1;
        let outputs = results
            .into_iter()
            .enumerate()
            .map(|(slot, ty)| {
                let name = if many { format!("{name}.{slot}") } else { name.clone() };
                self.push(ty, name, Definition::Result { node, slot })
            })
            .collect::<Vec<_>>();
        self.nodes.push(Node { op, inputs: inputs.to_vec(), outputs: outputs.clone(), name });
        Ok(outputs)
    }

    /// Adds a node with one result.
    pub fn add1(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        name: impl Into<String>,
    ) -> Result<ValueId, TypeError> {
        let outputs = self.add(op, inputs, name)?;
        match outputs[..] {
            [value] => Ok(value),
            _ => Err(TypeError::new(format!("expected one result, here {}", outputs.len()))),
        }
    }

    /// Gives a value a name (the model's).
    pub fn set_name(&mut self, id: ValueId, name: impl Into<String>) {
        self.values[id.index()].name = name.into();
    }

    /// Gives a node a name; results that were named after it follow.
    pub fn set_node_name(&mut self, id: NodeId, name: impl Into<String>) {
        let name = name.into();
        let node = &mut self.nodes[id.index()];
        let old = std::mem::replace(&mut node.name, name.clone());
        let outputs = node.outputs.clone();
        for (slot, &v) in outputs.iter().enumerate() {
            let (before, after) = match outputs.len() {
                1 => (old.clone(), name.clone()),
                _ => (format!("{old}.{slot}"), format!("{name}.{slot}")),
            };
            let value = &mut self.values[v.index()].name;
            if *value == before {
                *value = after;
            }
        }
    }

    /// The same graph with other operations in the nodes' places, of the same types.
    ///
    /// # Errors
    /// If an operation gives other types.
    pub fn map_operations(&self, mut f: impl FnMut(&Op) -> Op) -> Result<Graph, TypeError> {
        let mut graph = self.clone();
        for node in &mut graph.nodes {
            let op = f(&node.op);
            if op == node.op {
                continue;
            }
            let types = |values: &[ValueId]| -> Vec<&TensorType> {
                values.iter().map(|v| &self.values[v.index()].ty).collect()
            };
            let results = op.infer(&types(&node.inputs))?;
            if results.iter().collect::<Vec<_>>() != types(&node.outputs) {
                return Err(TypeError::new(format!("{op} gives other types than {}", node.op)));
            }
            node.op = op;
        }
        Ok(graph)
    }

    /// Adds a named result.
    pub fn add_output(&mut self, name: impl Into<String>, value: ValueId) {
        self.outputs.push(Output { name: name.into(), value });
    }

    /// Adds a parameter's new value.
    pub fn add_update(&mut self, parameter: usize, value: ValueId) {
        self.updates.push(Update { parameter, value });
    }

    /// Values that leave the step: outputs, then updates.
    pub fn roots(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.outputs.iter().map(|o| o.value).chain(self.updates.iter().map(|u| u.value))
    }

    /// These values and all that they depend on, with every result of the nodes among it.
    pub fn needed(&self, values: impl IntoIterator<Item = ValueId>) -> BTreeSet<ValueId> {
        let mut needed = BTreeSet::new();
        let mut stack: Vec<ValueId> = values.into_iter().collect();
        while let Some(value) = stack.pop() {
            if needed.insert(value)
                && let Some(node) = self.producer(value)
            {
                stack.extend(&node.inputs);
                needed.extend(&node.outputs);
            }
        }
        needed
    }

    /// Copies the values that are `wanted` into another graph: [`Graph::copy_changed`] without changes.
    ///
    /// # Errors
    /// If a counterpart has a type that its users refuse.
    ///
    /// # Panics
    /// If a wanted node has an operand that neither is wanted nor has a counterpart.
    pub fn copy_into(
        &self,
        target: &mut Graph,
        new: &mut BTreeMap<ValueId, ValueId>,
        wanted: impl Fn(ValueId) -> bool,
    ) -> Result<(), TypeError> {
        self.copy_changed(target, new, |_, _, v| {
            Ok(if wanted(v) { Copied::AsItIs } else { Copied::Not })
        })
    }

    /// Copies values into another graph, in order, with their names. `new` says which of them have a counterpart there
    /// already, and learns the others'; `change` sees it for each other value and says what to do.
    ///
    /// # Errors
    /// If a counterpart has a type that its users refuse, or `change` fails.
    ///
    /// # Panics
    /// If a node that is copied has an operand without a counterpart.
    pub fn copy_changed(
        &self,
        target: &mut Graph,
        new: &mut BTreeMap<ValueId, ValueId>,
        mut change: impl FnMut(
            &mut Graph,
            &BTreeMap<ValueId, ValueId>,
            ValueId,
        ) -> Result<Copied, TypeError>,
    ) -> Result<(), TypeError> {
        for old in self.value_ids() {
            if new.contains_key(&old) {
                continue;
            }
            match change(target, new, old)? {
                Copied::AsItIs => {}
                Copied::Not => continue,
                Copied::As(value) => {
                    new.insert(old, value);
                    continue;
                }
            }
            let value = self.value(old);
            let name = &value.name;
            let copy = match &value.definition {
                Definition::Input(i) => {
                    target.add_input(name, value.ty.clone(), self.inputs[*i].role)
                }
                Definition::Parameter(i) => {
                    let parameter = &self.parameters[*i];
                    target.add_parameter(name, parameter.initial.clone(), parameter.trainable)
                }
                Definition::Constant(tensor) => target.add_constant(name, tensor.clone()),
                Definition::Result { node, .. } => {
                    let node = self.node(*node);
                    let operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v]).collect();
                    let results = target.add(node.op.clone(), &operands, &node.name)?;
                    for (&old, result) in node.outputs.iter().zip(results) {
                        target.set_name(result, &self.value(old).name);
                        new.insert(old, result);
                    }
                    continue;
                }
            };
            new.insert(old, copy);
        }
        Ok(())
    }

    /// Gives a copy the outputs and the updates ([`Graph::copy_updates`]).
    ///
    /// # Panics
    /// If an output has no counterpart.
    pub fn copy_roots(&self, target: &mut Graph, new: &BTreeMap<ValueId, ValueId>) {
        for output in &self.outputs {
            target.add_output(&output.name, new[&output.value]);
        }
        self.copy_updates(target, new);
    }

    /// Gives a copy the updates of which it has the parameter, by name, and the value.
    pub fn copy_updates(&self, target: &mut Graph, new: &BTreeMap<ValueId, ValueId>) {
        for update in &self.updates {
            let name = &self.value(self.parameters[update.parameter].value).name;
            if let (Some(parameter), Some(&value)) =
                (target.parameter_named(name), new.get(&update.value))
            {
                target.add_update(parameter, value);
            }
        }
    }

    /// For each node, whether a root depends on it.
    pub fn live_nodes(&self) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        let mut stack: Vec<ValueId> = self.roots().collect();
        while let Some(value) = stack.pop() {
            if let Definition::Result { node, .. } = self.value(value).definition
                && !std::mem::replace(&mut live[node.index()], true)
            {
                stack.extend(&self.node(node).inputs);
            }
        }
        live
    }
}
