//! Compares a program with the graphs that it was planned from: both are followed symbolically, each value being the
//! operation and values that it comes from, and the results and the new state must be the same values.
//!
//! Together with [`trainc_ir::program_verify`] (which shows that a launch reads whole values, and that what runs in
//! place may) this shows for all inputs that the program computes what the graph means.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_ir::program::{BufferId, Entry, Program, Region, Step};
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::types::TensorType;
use trainc_ir::{Op, Tensor};

use super::PlanEntry;

/// What a value is. Reshapes keep a value what it is; the types under which it is used are part of its uses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Meaning {
    Input(usize),
    /// Old value of a piece of state.
    State(usize),
    Constant(Vec<u8>),
    Result(Op, Vec<(usize, TensorType)>, usize),
}

#[derive(Default)]
struct Meanings(BTreeMap<Meaning, usize>);

impl Meanings {
    fn of(&mut self, meaning: Meaning) -> usize {
        let next = self.0.len();
        *self.0.entry(meaning).or_insert(next)
    }

    fn results(&mut self, op: &Op, operands: Vec<(usize, TensorType)>, count: usize) -> Vec<usize> {
        match (op, &operands[..]) {
            (Op::Reshape(_), [(operand, _)]) => vec![*operand],
            _ => (0..count)
                .map(|slot| self.of(Meaning::Result(op.clone(), operands.clone(), slot)))
                .collect(),
        }
    }
}

/// Where a value can be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Arena(usize),
    State(usize),
    Constant(usize),
    Input(usize),
    Output(usize),
}

/// Checks that each entry of a program computes what its graph means. The state is the parameters in the order of
/// their first appearance.
///
/// # Errors
/// Every result and piece of state that holds another value.
pub(super) fn check(program: &Program, entries: &[PlanEntry<'_>]) -> Result<(), Vec<String>> {
    let mut errors = Vec::new();
    let mut state: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for entry in entries {
        let parameters = entry.graph.parameters().iter();
        let names = parameters.map(|p| entry.graph.value(p.value).name.as_str());
        state.extend(names.filter(|&name| seen.insert(name)));
    }
    for planned in entries {
        match program.entry(planned.name) {
            Some(entry) => check_entry(program, entry, planned.graph, &state, &mut errors),
            None => errors.push(format!("there is no entry `{}`", planned.name)),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn has_no_bytes(ty: &TensorType) -> bool {
    ty.count() == 0 && tensor_bytes(&Tensor::zeros(ty)).is_empty()
}

fn check_entry(
    program: &Program,
    entry: &Entry,
    graph: &Graph,
    state: &[&str],
    errors: &mut Vec<String>,
) {
    let mut meanings = Meanings::default();
    // Values without bytes may lie in one place.
    let nothing = Some(meanings.of(Meaning::Constant(Vec::new())));
    let index_of: BTreeMap<&str, usize> =
        state.iter().enumerate().map(|(i, &name)| (name, i)).collect();
    // The graph.
    let mut values: Vec<Option<usize>> = vec![None; graph.values().len()];
    let live = graph.live_nodes();
    let parameter = |i: usize| {
        let name = graph.value(graph.parameters()[i].value).name.as_str();
        index_of.get(name).copied().unwrap_or(usize::MAX)
    };
    for v in graph.value_ids() {
        values[v.index()] = match &graph.value(v).definition {
            Definition::Input(i) => Some(meanings.of(Meaning::Input(*i))),
            Definition::Parameter(i) => Some(meanings.of(Meaning::State(parameter(*i)))),
            Definition::Constant(tensor) => {
                Some(meanings.of(Meaning::Constant(tensor_bytes(tensor))))
            }
            Definition::Result { .. } => None,
        };
    }
    for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
        let operand = |&v: &ValueId| {
            let ty = graph.ty(v);
            let held = if has_no_bytes(ty) { nothing } else { values[v.index()] };
            (held.unwrap_or(usize::MAX), ty.clone())
        };
        let operands = node.inputs.iter().map(operand).collect();
        let results = meanings.results(&node.op, operands, node.outputs.len());
        for (v, meaning) in node.outputs.iter().zip(results) {
            values[v.index()] = Some(meaning);
        }
    }
    // The program.
    let mut memory: BTreeMap<Place, usize> = BTreeMap::new();
    for (i, _) in entry.inputs.iter().enumerate() {
        memory.insert(Place::Input(i), meanings.of(Meaning::Input(i)));
    }
    for (i, buffer) in program.buffers.iter().enumerate() {
        let meaning = match &buffer.region {
            Region::State { index, .. } => Meaning::State(*index),
            Region::Constant(tensor) => Meaning::Constant(tensor_bytes(tensor)),
            _ => continue,
        };
        memory.insert(place(program, BufferId(i)), meanings.of(meaning));
    }
    for step in &entry.steps {
        let Step::Launch(launch) = step else {
            return errors.push(format!("{}: a graph has no branches", entry.name));
        };
        let kernel = program.kernel(launch.kernel);
        let operands = launch
            .inputs
            .iter()
            .map(|&id| {
                let ty = &program.buffer(id).ty;
                let held = memory.get(&place(program, id)).copied();
                let held = if has_no_bytes(ty) { nothing } else { held };
                (held.unwrap_or(usize::MAX), ty.clone())
            })
            .collect();
        let results = meanings.results(&kernel.op, operands, launch.outputs.len());
        for (&id, meaning) in launch.outputs.iter().zip(results) {
            memory.insert(place(program, id), meaning);
        }
    }
    for (i, output) in graph.outputs().iter().enumerate() {
        let expected = values[output.value.index()];
        let empty = graph.ty(output.value).count() == 0;
        if !empty && (expected.is_none() || memory.get(&Place::Output(i)).copied() != expected) {
            errors.push(format!("{}: output `{}` is another value", entry.name, output.name));
        }
    }
    let mut expected: BTreeMap<usize, Option<usize>> = BTreeMap::new();
    for (i, _) in state.iter().enumerate() {
        expected.insert(i, Some(meanings.of(Meaning::State(i))));
    }
    for update in graph.updates() {
        expected.insert(parameter(update.parameter), values[update.value.index()]);
    }
    for (i, buffer) in program.buffers.iter().enumerate() {
        let Region::State { index, .. } = buffer.region else { continue };
        let found = memory.get(&place(program, BufferId(i))).copied();
        if buffer.bytes() > 0 && Some(found) != expected.get(&index).copied() {
            errors.push(format!("{}: state `{}` gets another value", entry.name, buffer.name));
        }
    }
}

fn place(program: &Program, id: BufferId) -> Place {
    let buffer = program.buffer(id);
    match buffer.region {
        Region::Arena => Place::Arena(buffer.offset),
        Region::State { .. } => Place::State(buffer.offset),
        Region::Constant(_) => Place::Constant(buffer.offset),
        Region::Input(i) => Place::Input(i),
        Region::Output(i) => Place::Output(i),
    }
}
