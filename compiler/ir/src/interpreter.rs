//! The reference interpreter: what a graph means.
//!
//! It walks the nodes in order and calls each operation's `evaluate`. Everything else (emitted code, optimised
//! modules) is judged by it, bit for bit.

use std::collections::BTreeMap;

use crate::graph::{Definition, Graph, ValueId};
use crate::random::RunContext;
use crate::tensor::Tensor;

/// Why an evaluation could not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterpretError {
    /// An input tensor has another type than the graph's input.
    #[error("input `{name}`: expected {expected}, got {found}")]
    InputType {
        /// The input's name.
        name: String,
        /// The graph's type.
        expected: String,
        /// The tensor's type.
        found: String,
    },
    /// The number of input tensors differs from the graph's.
    #[error("expected {expected} input(s), got {found}")]
    InputCount {
        /// The graph's.
        expected: usize,
        /// The caller's.
        found: usize,
    },
}

/// Runs a graph step by step, keeping its parameters.
#[derive(Clone, Debug)]
pub struct Interpreter<'g> {
    graph: &'g Graph,
    parameters: Vec<Tensor>,
}

impl<'g> Interpreter<'g> {
    /// An interpreter whose parameters have their initial values.
    pub fn new(graph: &'g Graph) -> Interpreter<'g> {
        let parameters = graph.parameters().iter().map(|p| (*p.initial).clone()).collect();
        Interpreter { graph, parameters }
    }

    /// Current values of the parameters, in the graph's order.
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// Replaces a parameter's value. Panics if the type differs.
    pub fn set_parameter(&mut self, index: usize, tensor: Tensor) {
        assert_eq!(self.parameters[index].ty(), tensor.ty(), "parameter {index}");
        self.parameters[index] = tensor;
    }

    /// Evaluates one step: returns the outputs in order and applies the updates.
    ///
    /// # Errors
    /// If the inputs do not fit the graph's.
    pub fn step(
        &mut self,
        inputs: &[Tensor],
        run: &RunContext,
    ) -> Result<Vec<Tensor>, InterpretError> {
        self.step_watching(inputs, run, |_, _| {})
    }

    /// As [`Interpreter::step`], showing every value (by reference) as it is computed.
    ///
    /// # Errors
    /// If the inputs do not fit the graph's.
    pub fn step_watching(
        &mut self,
        inputs: &[Tensor],
        run: &RunContext,
        mut watch: impl FnMut(ValueId, &Tensor),
    ) -> Result<Vec<Tensor>, InterpretError> {
        let graph = self.graph;
        if inputs.len() != graph.inputs().len() {
            return Err(InterpretError::InputCount {
                expected: graph.inputs().len(),
                found: inputs.len(),
            });
        }
        for (input, tensor) in graph.inputs().iter().zip(inputs) {
            if graph.ty(input.value) != tensor.ty() {
                return Err(InterpretError::InputType {
                    name: graph.value(input.value).name.clone(),
                    expected: graph.ty(input.value).to_string(),
                    found: tensor.ty().to_string(),
                });
            }
        }
        let live = graph.live_nodes();
        let mut last_use: Vec<usize> = vec![0; graph.values().len()];
        for (i, node) in graph.nodes().iter().enumerate().filter(|(i, _)| live[*i]) {
            node.inputs.iter().for_each(|v| last_use[v.index()] = i);
        }
        graph.roots().for_each(|v| last_use[v.index()] = usize::MAX);
        let mut results: BTreeMap<ValueId, Tensor> = BTreeMap::new();
        for (i, node) in graph.nodes().iter().enumerate().filter(|(i, _)| live[*i]) {
            let outputs = {
                let operands: Vec<&Tensor> =
                    node.inputs.iter().map(|&v| self.lookup(v, inputs, &results)).collect();
                node.op.evaluate(&operands, run)
            };
            for (&id, tensor) in node.outputs.iter().zip(outputs) {
                debug_assert_eq!(graph.ty(id), tensor.ty(), "{}", node.op);
                watch(id, &tensor);
                results.insert(id, tensor);
            }
            for v in &node.inputs {
                if last_use[v.index()] == i {
                    results.remove(v);
                }
            }
        }
        let outputs = graph
            .outputs()
            .iter()
            .map(|o| self.lookup(o.value, inputs, &results).clone())
            .collect();
        let updates: Vec<(usize, Tensor)> = graph
            .updates()
            .iter()
            .map(|u| (u.parameter, self.lookup(u.value, inputs, &results).clone()))
            .collect();
        for (parameter, tensor) in updates {
            self.parameters[parameter] = tensor;
        }
        Ok(outputs)
    }

    fn lookup<'a>(
        &'a self,
        id: ValueId,
        inputs: &'a [Tensor],
        results: &'a BTreeMap<ValueId, Tensor>,
    ) -> &'a Tensor {
        match &self.graph.value(id).definition {
            Definition::Input(i) => &inputs[*i],
            Definition::Parameter(i) => &self.parameters[*i],
            Definition::Constant(tensor) => tensor,
            Definition::Result { .. } => &results[&id],
        }
    }
}
