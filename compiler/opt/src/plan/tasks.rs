//! From a graph to tasks over groups: what must run, which values share memory, what must come before what.
//!
//! A *group* is a value with its reshapes: the same bytes under several types. A *task* is a launch without a place
//! in the schedule: a node, or a copy (a reshape) where a value must arrive in memory that it does not live in.
//!
//! Where a value lives:
//! - inputs, parameters and constants where they are; reshapes of inputs are views, reshapes of constants become
//!   constants (of the same bytes), reshapes of parameters run, since state is seen under one type only;
//! - a result of the step in the caller's memory for it, where later nodes read it too (it is readable once written);
//!   a value that is several results lives in the first and is copied to the others;
//! - a parameter's new value in the parameter's place, if everyone who reads the old value can run before, and the
//!   node that computes it either does not read the old value or may overwrite it; otherwise it is a copy at the end;
//! - everything else in the arena.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Dfs;
use trainc_ir::graph::{Definition, Graph, NodeId, ValueId};
use trainc_ir::ops::Reshape;
use trainc_ir::program::buffer_bytes;
use trainc_ir::program_verify::ProgramErrors;
use trainc_ir::types::{Element, TensorType};
use trainc_ir::{Op, Tensor};

use super::shared::Shared;
use super::{PlanEntry, PlanError, PlanOptions};

/// Nodes between two uses of a value from which on it is computed again for the second.
const FAR: usize = 6;

/// Where the bytes of a group live.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Home {
    Arena,
    /// Position in the program's state.
    State(usize),
    /// Position among the program's constants.
    Constant(usize),
    Input(usize),
    Output(usize),
}

/// Values of the same bytes.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) home: Home,
    /// Types that the bytes are seen under, each with the name of the first value that has it.
    pub(super) views: Vec<(TensorType, String)>,
    /// The task that writes it, if one does.
    pub(super) writer: Option<usize>,
    /// Tasks that read it.
    pub(super) readers: Vec<usize>,
}

/// A group seen under one of its types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operand {
    pub(super) group: usize,
    pub(super) view: usize,
}

/// Values that are computed again, each right before the node at that position, which reads it like those behind.
pub(super) type Again = BTreeSet<(usize, ValueId)>;

/// A launch to be.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) name: String,
    /// The node that it runs; `None` of a copy.
    pub(super) node: Option<NodeId>,
    /// The node that it was made for, by its position in the graph: its own or, where it computes something again, that
    /// which reads it. Copies come behind all.
    pub(super) at: usize,
    /// Position in the program's kernels.
    pub(super) kernel: usize,
    pub(super) op: Op,
    pub(super) reads: Vec<Operand>,
    pub(super) writes: Vec<Operand>,
    pub(super) scratch: usize,
}

/// An entry as tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) groups: Vec<Group>,
    pub(super) tasks: Vec<Task>,
    /// One node a task; an edge from what comes first.
    pub(super) order: DiGraph<(), ()>,
    pub(super) inputs: Vec<Operand>,
    pub(super) outputs: Vec<Operand>,
    pub(super) views: usize,
    pub(super) copies: usize,
    pub(super) updates_in_place: usize,
    pub(super) recomputed: usize,
}

impl Tasks {
    pub(super) fn ty(&self, operand: Operand) -> &TensorType {
        &self.groups[operand.group].views[operand.view].0
    }

    /// Whether that result of a task may be written over its operands of a group: all of them, since one launch may
    /// read a group several times.
    pub(super) fn may_overwrite(
        &self,
        task: &Task,
        slot: usize,
        is_group: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(&result) = task.writes.get(slot) else { return false };
        task.reads.iter().enumerate().filter(|(_, operand)| is_group(operand.group)).all(
            |(position, &operand)| {
                task.op.overwrites(slot, position) && self.ty(operand) == self.ty(result)
            },
        )
    }
}

/// Divides an entry into tasks.
pub(super) fn tasks(
    entry: &PlanEntry<'_>,
    shared: &mut Shared<'_>,
    options: &PlanOptions,
    again: &Again,
) -> Result<Tasks, PlanError> {
    let result = Tasks {
        groups: Vec::new(),
        tasks: Vec::new(),
        order: DiGraph::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        views: 0,
        copies: 0,
        updates_in_place: 0,
        recomputed: 0,
    };
    let PlanEntry { name: entry, graph } = *entry;
    let mut builder = Builder {
        entry,
        graph,
        shared,
        options,
        again,
        result,
        operands: BTreeMap::new(),
        constants: BTreeMap::new(),
    };
    builder.leaves();
    builder.nodes();
    builder.roots();
    builder.data_edges();
    builder.updates();
    builder.kernels();
    if petgraph::algo::toposort(&builder.result.order, None).is_err() {
        return Err(PlanError::Internal(ProgramErrors(vec![
            "the tasks depend on each other in a circle".into(),
        ])));
    }
    Ok(builder.result)
}

struct Builder<'a, 's, 't> {
    entry: &'a str,
    graph: &'a Graph,
    shared: &'s mut Shared<'t>,
    options: &'a PlanOptions,
    again: &'a Again,
    result: Tasks,
    /// Where each value is.
    operands: BTreeMap<ValueId, Operand>,
    /// Groups of constants, by position among the program's.
    constants: BTreeMap<usize, usize>,
}

impl Builder<'_, '_, '_> {
    fn group(&mut self, home: Home, ty: &TensorType, name: &str) -> Operand {
        self.result.groups.push(Group {
            home,
            views: vec![(ty.clone(), name.to_string())],
            writer: None,
            readers: Vec::new(),
        });
        Operand { group: self.result.groups.len() - 1, view: 0 }
    }

    /// A group under a type, which it may have already.
    fn view(&mut self, group: usize, ty: &TensorType, name: &str) -> Operand {
        let views = &mut self.result.groups[group].views;
        let view = views.iter().position(|(t, _)| t == ty).unwrap_or_else(|| {
            views.push((ty.clone(), name.to_string()));
            views.len() - 1
        });
        Operand { group, view }
    }

    fn task(&mut self, op: &Op, name: &str, reads: Vec<Operand>, writes: Vec<Operand>) -> usize {
        let (op, name) = (op.clone(), name.to_string());
        let index = self.result.tasks.len();
        for operand in &reads {
            let readers = &mut self.result.groups[operand.group].readers;
            if readers.last() != Some(&index) {
                readers.push(index);
            }
        }
        for operand in &writes {
            self.result.groups[operand.group].writer = Some(index);
        }
        let (node, at, kernel, scratch) = (None, usize::MAX, usize::MAX, 0);
        self.result.tasks.push(Task { name, node, at, kernel, op, reads, writes, scratch });
        self.result.order.add_node(());
        index
    }

    /// The kernel of each task, now that its operands and results have homes.
    fn kernels(&mut self) {
        for index in 0..self.result.tasks.len() {
            let (result, task) = (&self.result, &self.result.tasks[index]);
            let types = |operands: &[Operand]| -> Vec<TensorType> {
                operands.iter().map(|&o| result.ty(o).clone()).collect()
            };
            let in_caller = |elements: &[Element]| {
                task.reads.iter().chain(&task.writes).any(|&operand| {
                    let home = result.groups[operand.group].home;
                    matches!(home, Home::Input(_) | Home::Output(_))
                        && elements.contains(&result.ty(operand).element)
                })
            };
            let (reads, writes) = (types(&task.reads), types(&task.writes));
            let kernel = self.shared.kernel(&task.op, reads, writes, in_caller);
            let scratch = self.shared.scratch_bytes(kernel);
            let task = &mut self.result.tasks[index];
            (task.kernel, task.scratch) = (kernel, scratch);
        }
    }

    /// Copies a value to memory of the same count of elements.
    fn copy(&mut self, from: Operand, to: Operand, name: &str) -> usize {
        let shape = self.result.ty(to).shape.clone();
        self.result.copies += 1;
        self.task(&Reshape { shape }.into(), &format!("{name}/copy"), vec![from], vec![to])
    }

    fn leaves(&mut self) {
        for (i, input) in self.graph.inputs().iter().enumerate() {
            let value = self.graph.value(input.value);
            let operand = self.group(Home::Input(i), &value.ty, &value.name);
            self.operands.insert(input.value, operand);
            self.result.inputs.push(operand);
        }
        for parameter in self.graph.parameters() {
            let value = self.graph.value(parameter.value);
            let home = Home::State(self.shared.state_named(&value.name));
            let operand = self.group(home, &value.ty, &value.name);
            self.operands.insert(parameter.value, operand);
        }
    }

    fn constant(&mut self, tensor: &Arc<Tensor>, name: &str) -> Operand {
        let index = self.shared.constant(tensor, name, self.entry);
        if let Some(&group) = self.constants.get(&index) {
            return Operand { group, view: 0 };
        }
        let operand = self.group(Home::Constant(index), tensor.ty(), name);
        self.constants.insert(index, operand.group);
        operand
    }

    fn operand(&mut self, v: ValueId) -> Operand {
        if let Some(&operand) = self.operands.get(&v) {
            return operand;
        }
        let graph = self.graph;
        let value = graph.value(v);
        let operand = match &value.definition {
            Definition::Constant(tensor) => self.constant(tensor, &value.name),
            // Every other value is known before its use.
            _ => self.group(Home::Arena, &value.ty, &value.name),
        };
        self.operands.insert(v, operand);
        operand
    }

    fn nodes(&mut self) {
        let graph = self.graph;
        let live = graph.live_nodes();
        // Where each value was used last.
        let mut used: BTreeMap<ValueId, usize> = BTreeMap::new();
        let nodes = graph.node_ids().zip(live).enumerate().filter(|(_, (_, live))| *live);
        for (at, (id, _)) in nodes {
            let node = graph.node(id);
            if self.options.recompute {
                for &v in &node.inputs {
                    if used.insert(v, at).is_some_and(|last| at > last + FAR) {
                        self.recompute(v);
                    }
                }
            }
            self.compute_again(at);
            let reads: Vec<Operand> = node.inputs.iter().map(|&v| self.operand(v)).collect();
            if let (Op::Reshape(_), true) = (&node.op, self.options.views)
                && let Some(operand) = self.reshaped(reads[0], node.outputs[0])
            {
                self.operands.insert(node.outputs[0], operand);
                self.result.views += 1;
                continue;
            }
            let writes: Vec<Operand> = node.outputs.iter().map(|&v| self.operand(v)).collect();
            let task = self.task(&node.op, &node.name, reads, writes);
            (self.result.tasks[task].node, self.result.tasks[task].at) = (Some(id), at);
        }
    }

    /// Computes again what the node at a position and those behind it are to read so.
    fn compute_again(&mut self, at: usize) {
        let (graph, again) = (self.graph, self.again);
        let mut ran: BTreeMap<NodeId, Vec<Operand>> = BTreeMap::new();
        // Values come in their order, so that a value's operands are there before it.
        for &(_, v) in again.iter().filter(|(position, _)| *position == at) {
            let Definition::Result { node: id, slot } = graph.value(v).definition else { continue };
            let node = graph.node(id);
            let to = if let Some(writes) = ran.get(&id) {
                writes[slot]
            } else {
                let reads = node.inputs.iter().map(|&v| self.operand(v)).collect();
                let results = node.outputs.iter().map(|&v| graph.value(v));
                let writes: Vec<Operand> =
                    results.map(|r| self.group(Home::Arena, &r.ty, &r.name)).collect();
                let task = self.task(&node.op, &node.name, reads, writes.clone());
                (self.result.tasks[task].node, self.result.tasks[task].at) = (Some(id), at);
                self.result.recomputed += 1;
                let to = writes[slot];
                ran.insert(id, writes);
                to
            };
            let Some(from) = self.operands.insert(v, to) else { continue };
            // Its reshapes are views of the new bytes, too.
            let views = self.operands.iter().filter(|(_, operand)| operand.group == from.group);
            for view in views.map(|(&view, _)| view).collect::<Vec<_>>() {
                let value = graph.value(view);
                let moved = self.view(to.group, &value.ty, &value.name);
                self.operands.insert(view, moved);
            }
        }
    }

    /// Computes a value of the arena again, for uses from here on, if it comes from fewer bytes there by little work.
    fn recompute(&mut self, v: ValueId) {
        let graph = self.graph;
        let value = graph.value(v);
        let Definition::Result { node, .. } = value.definition else { return };
        let node = graph.node(node);
        let (Op::Dequantize(_), &[from]) = (&node.op, &node.inputs[..]) else { return };
        let in_arena = |builder: &Self, v| {
            let operand = builder.operands.get(&v)?;
            (builder.result.groups[operand.group].home == Home::Arena).then_some(*operand)
        };
        let (Some(from_operand), Some(_)) = (in_arena(self, from), in_arena(self, v)) else {
            return;
        };
        if buffer_bytes(graph.ty(from)) >= buffer_bytes(&value.ty) {
            return;
        }
        let to = self.group(Home::Arena, &value.ty, &value.name);
        self.task(&node.op, &node.name, vec![from_operand], vec![to]);
        self.operands.insert(v, to);
        self.result.recomputed += 1;
    }

    /// A reshape without a launch, where that can be.
    fn reshaped(&mut self, from: Operand, to: ValueId) -> Option<Operand> {
        let value = self.graph.value(to);
        match self.result.groups[from.group].home {
            Home::Arena => {}
            Home::Input(_) if self.options.argument_views => {}
            Home::Constant(index) => {
                let tensor = self.shared.constant_tensor(index).reshaped(value.ty.shape.clone());
                return Some(self.constant(&Arc::new(tensor), &value.name));
            }
            _ => return None,
        }
        Some(self.view(from.group, &value.ty, &value.name))
    }

    /// Homes of the results, and the copies that they need.
    fn roots(&mut self) {
        for (i, output) in self.graph.outputs().iter().enumerate() {
            let from = self.operand(output.value);
            let ty = self.graph.ty(output.value);
            let group = &mut self.result.groups[from.group];
            let fits = self.options.argument_views || group.views.iter().all(|(t, _)| t == ty);
            if group.home == Home::Arena && fits {
                group.home = Home::Output(i);
                self.result.outputs.push(from);
                continue;
            }
            let to = self.group(Home::Output(i), ty, &output.name);
            self.copy(from, to, &output.name);
            self.result.outputs.push(to);
        }
    }

    fn data_edges(&mut self) {
        let result = &mut self.result;
        for (i, task) in result.tasks.iter().enumerate() {
            for operand in &task.reads {
                if let Some(writer) = result.groups[operand.group].writer {
                    result.order.update_edge(NodeIndex::new(writer), NodeIndex::new(i), ());
                }
            }
        }
    }

    fn edge(&mut self, from: usize, to: usize) {
        if from != to {
            self.result.order.update_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        }
    }

    /// New values of parameters: in place, or a copy once nobody reads the old value any more.
    fn updates(&mut self) {
        let graph = self.graph;
        let updates: Vec<(ValueId, ValueId)> = graph
            .updates()
            .iter()
            .map(|u| (graph.parameters()[u.parameter].value, u.value))
            .filter(|(parameter, value)| parameter != value)
            .collect();
        // A parameter that takes another's old value, which is itself replaced: kept aside first, since two such may
        // wait for each other.
        let mut sources = Vec::new();
        for &(_, value) in &updates {
            let mut from = self.operand(value);
            if updates.iter().any(|(parameter, _)| *parameter == value) {
                let Operand { group, .. } = from;
                let name = graph.value(value).name.clone();
                let aside = self.group(Home::Arena, graph.ty(value), &name);
                self.copy(Operand { group, view: 0 }, aside, &name);
                from = aside;
            }
            sources.push(from);
        }
        let mut copies = Vec::new();
        for (&(parameter, _), &from) in updates.iter().zip(&sources) {
            let state = self.operands[&parameter];
            if self.in_place(state, from) {
                self.result.groups[from.group].home = self.result.groups[state.group].home;
                self.result.updates_in_place += 1;
                let writer = self.result.groups[from.group].writer;
                let readers = self.result.groups[state.group].readers.clone();
                for reader in readers {
                    writer.into_iter().for_each(|writer| self.edge(reader, writer));
                }
            } else {
                copies.push((state, from));
            }
        }
        for (state, from) in copies {
            let (ty, name) = self.result.groups[state.group].views[0].clone();
            let to = self.group(self.result.groups[state.group].home, &ty, &name);
            let readers = self.result.groups[state.group].readers.clone();
            let copy = self.copy(from, to, &name);
            if let Some(writer) = self.result.groups[from.group].writer {
                self.edge(writer, copy);
            }
            for reader in readers {
                self.edge(reader, copy);
            }
        }
    }

    /// Whether a parameter's new value can be computed in the parameter's place.
    fn in_place(&self, state: Operand, new: Operand) -> bool {
        let result = &self.result;
        let (old, group) = (&result.groups[state.group], &result.groups[new.group]);
        let Some(writer) = group.writer else { return false };
        if !self.options.in_place || group.home != Home::Arena || group.views.len() > 1 {
            return false;
        }
        if group.views[0].0 != old.views[0].0 {
            return false;
        }
        let task = &result.tasks[writer];
        let reads_old = old.readers.contains(&writer);
        let slot = task.writes.iter().position(|w| w.group == new.group);
        let over = |slot| result.may_overwrite(task, slot, |g| g == state.group);
        if reads_old && !slot.is_some_and(over) {
            return false;
        }
        // Readers of the old value must not depend on the new one.
        let mut behind = Dfs::new(&result.order, NodeIndex::new(writer));
        while let Some(node) = behind.next(&result.order) {
            if node.index() != writer && old.readers.contains(&node.index()) {
                return false;
            }
        }
        true
    }
}
