//! What an optimizer does at an epoch's end: formulas over weights and state alone.

use std::collections::BTreeMap;

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::TypeError;
use trainc_ir::{Shape, TensorType};

use super::{MASTER, Part, STEP_STATE, Trained, Update, Updates, When, add_state};
use crate::algorithm::optimizer::{Optimizer, RATE, State, StateOf, WEIGHT};
use crate::algorithm::widths::Widths;
use crate::codes::grid;
use crate::roles::Roles;
use crate::widths::add_choices;

/// The end of an epoch as a graph.
#[derive(Clone, Debug)]
pub struct EpochEnd {
    /// Updates of weights and state, and what they are computed of.
    pub graph: Graph,
    /// The same beside the training step's values, which say what parameters are for.
    pub context: Graph,
}

/// The graph of an epoch's end, for a training graph under the optimizer and the choice of widths, if there is one; `None` if nothing
/// is to be done then.
///
/// # Errors
/// If a formula does not type, or state would have the name of a parameter of the model.
pub fn epoch_end_graph(
    training: &Graph,
    optimizer: &Optimizer,
    widths: Option<&Widths>,
) -> Result<Option<EpochEnd>, TypeError> {
    if optimizer.epoch_end.is_empty() && widths.is_none() {
        return Ok(None);
    }
    let mut graph = Graph::new(training.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    training.copy_into(&mut graph, &mut new, |_| true)?;
    for output in training.outputs() {
        graph.add_output(&output.name, new[&output.value]);
    }
    let inputs = inputs(&mut graph, optimizer);
    let updates = Updates { when: When::EpochEnd, ..Updates::new(optimizer, inputs) };
    let roles = Roles::of(training);
    updates.end_states(&mut graph)?;
    for update in training.updates() {
        let parameter = &training.parameters()[update.parameter];
        if !parameter.trainable {
            continue;
        }
        let own = &training.value(parameter.value).name;
        let named = |graph: &Graph, name: &str| graph.parameter_named(name);
        let Some(position) = named(&graph, own) else { continue };
        let master = named(&graph, &format!("{own}{MASTER}"));
        let weight = graph.parameters()[master.unwrap_or(position)].value;
        let (role, layers) = (roles.role(parameter.value), roles.layer(parameter.value));
        let (gradient, scale) = (weight, 1.0);
        let of = Trained {
            parameter: position,
            weight,
            gradient,
            scale,
            role,
            layers,
            added: optimizer.added_as(own),
            largest: None,
            factor: None,
            grid: grid(&graph, graph.parameters()[position].value),
        };
        updates.end(&mut graph, own, &of, master)?;
    }
    if let Some(widths) = widths {
        add_choices(&mut graph, training, widths, &new)?;
    }
    let own = only_updates(&graph)?;
    Ok((!own.updates().is_empty()).then_some(EpochEnd { graph: own, context: graph }))
}

/// The graph with its updates alone, and what they are computed of.
///
/// # Errors
/// None of a graph that types.
pub fn only_updates(graph: &Graph) -> Result<Graph, TypeError> {
    let roots =
        graph.updates().iter().flat_map(|u| [u.value, graph.parameters()[u.parameter].value]);
    let needed = graph.needed(roots);
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    graph.copy_into(&mut result, &mut new, |v| needed.contains(&v))?;
    graph.copy_updates(&mut result, &new);
    Ok(result)
}

/// What schedules give, as the training step has it; what it does not need is added.
fn inputs<'a>(graph: &mut Graph, optimizer: &'a Optimizer) -> BTreeMap<&'a str, ValueId> {
    let names = optimizer.inputs.keys().map(|name| (name.as_str(), InputRole::Scheduled));
    let mut found = BTreeMap::new();
    for (name, role) in names.chain([(RATE, InputRole::LearningRate)]) {
        let own = |v: ValueId| role == InputRole::LearningRate || graph.value(v).name == name;
        let known = graph.inputs().iter().find(|i| i.role == role && own(i.value));
        let value = match known {
            Some(input) => input.value,
            None => graph.add_input(name, TensorType::f32(Shape::scalar()), role),
        };
        found.insert(name, value);
    }
    found
}

/// The parameter that a state is. State that no step has, because none needs it, is nowhere; state that no step changes is
/// added.
fn kept(
    graph: &mut Graph,
    optimizer: &Optimizer,
    state: &State,
    (name, ty): (&str, &TensorType),
) -> Result<Option<usize>, TypeError> {
    match graph.parameter_named(name) {
        Some(known) => Ok(Some(known)),
        None if optimizer.update.contains_key(&state.name) => Ok(None),
        None => add_state(graph, name, ty, state.initial).map(Some),
    }
}

impl Updates<'_> {
    /// Updates of the step's own state.
    fn end_states(&self, graph: &mut Graph) -> Result<(), TypeError> {
        let optimizer = self.optimizer;
        let mut update = self.simplified(None)?;
        let scalar = TensorType::f32(Shape::scalar());
        let (mut results, mut parameters) = (Vec::new(), Vec::new());
        for (index, state) in optimizer.state.iter().enumerate() {
            if state.of != StateOf::Step || !optimizer.epoch_end.contains_key(&state.name) {
                continue;
            }
            let name = format!("{STEP_STATE}{}", state.name);
            if let Some(parameter) = kept(graph, optimizer, state, (&name, &scalar))? {
                results.push((update.after[&index], format!("{name}/epoch_end")));
                parameters.push(vec![parameter]);
            }
        }
        self.finish(graph, &mut update, ("", &scalar), (&results, &parameters))
    }

    /// Updates of a weight and its state.
    fn end(
        &self,
        graph: &mut Graph,
        own: &str,
        of: &Trained,
        master: Option<usize>,
    ) -> Result<(), TypeError> {
        let optimizer = self.optimizer;
        let mut update = self.simplified(Some(of))?;
        let ty = graph.ty(of.weight).clone();
        let (mut results, mut parameters) = (Vec::new(), Vec::new());
        if optimizer.epoch_end.contains_key(WEIGHT) {
            results.push((update.weight(), format!("{own}/epoch_end")));
            parameters.push(std::iter::once(of.parameter).chain(master).collect());
        }
        for (index, state) in optimizer.state.iter().enumerate() {
            if state.of != StateOf::Weight || !optimizer.epoch_end.contains_key(&state.name) {
                continue;
            }
            let name = format!("{own}.{}", state.name);
            if let Some(parameter) = kept(graph, optimizer, state, (&name, &ty))? {
                results.push((update.after[&index], format!("{own}/{}/epoch_end", state.name)));
                parameters.push(vec![parameter]);
            }
        }
        self.finish(graph, &mut update, (own, &ty), (&results, &parameters))
    }

    /// Adds what computes results, and gives each to its parameters.
    fn finish(
        &self,
        graph: &mut Graph,
        update: &mut Update<'_>,
        (own, ty): (&str, &TensorType),
        (results, parameters): (&[(Part, String)], &[Vec<usize>]),
    ) -> Result<(), TypeError> {
        let parts: Vec<Part> = results.iter().map(|(part, _)| *part).collect();
        let scalar = TensorType::f32(Shape::scalar());
        for index in update.needed(&parts) {
            let state = &self.optimizer.state[index];
            let (name, ty) = match state.of {
                StateOf::Weight => (format!("{own}.{}", state.name), ty),
                StateOf::Step => (format!("{STEP_STATE}{}", state.name), &scalar),
            };
            let Some(parameter) = kept(graph, self.optimizer, state, (&name, ty))? else {
                return Err(TypeError::new(format!("no step keeps `{name}`")));
            };
            update.before.insert(index, graph.parameters()[parameter].value);
        }
        if results.is_empty() {
            return Ok(());
        }
        let values = update.emit(graph, results, &ty.shape)?;
        for (value, parameters) in values.into_iter().zip(parameters) {
            parameters.iter().for_each(|&parameter| graph.add_update(parameter, value));
        }
        Ok(())
    }
}
