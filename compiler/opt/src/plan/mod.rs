//! Planning: from graphs to a program, that is a static schedule with every buffer at a fixed place.
//!
//! Read in this order: `tasks` (what must run, and where values live), `schedule` (in which order), `liveness` (from
//! when to when memory is needed), `arena` (at which offsets), `limit` (what is computed again where the arena has a
//! limit), and here, where the best of it becomes the program, whose launches `devices` assigns where the target has
//! several.
//! Each program is checked before it leaves: by [`verify_program`], and against the graphs.
//!
//! What emitters may rely on, beyond [`trainc_ir::program`]:
//! - results of an entry do not overlap its inputs, and are written before they are read within a step;
//! - a result of a launch shares bytes with an operand only if both have the same type and the operation allows it
//!   ([`Op::may_overwrite`](trainc_ir::Op::may_overwrite)); both are then at the same offset, under the same or
//!   different buffers;
//! - several buffers may name the same bytes under types that differ in shape only, in the arena, in inputs and
//!   results of the caller (unless [`PlanOptions::argument_views`] is off), and among constants, but not in state.

mod arena;
mod check;
pub mod devices;
mod limit;
mod liveness;
pub mod residency;
mod schedule;
mod shared;
mod tasks;

use std::collections::BTreeMap;

use trainc_ir::Verified;
use trainc_ir::batch_split::Splitting;
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::implementation::Cost;
use trainc_ir::names::identifier;
use trainc_ir::program::{
    Argument, Buffer, BufferId, DeviceId, Entry, Kernel, KernelId, Launch, MemoryPlan, Notes,
    Program, Region, Step,
};
use trainc_ir::program_verify::{ProgramErrors, verify_program};
use trainc_ir::target::Target;

use self::arena::{Item, Placement};
use self::liveness::Lifetimes;
use self::shared::Shared;
use self::tasks::{Again, Home, Operand, Tasks};

/// Most elements a tensor may have here; byte counts of programs then stay far from overflow.
const ELEMENT_LIMIT: usize = 1 << 40;

/// A graph that becomes a function of the program.
#[derive(Clone, Copy, Debug)]
pub struct PlanEntry<'g> {
    /// The function's name: `train_step` or `infer`.
    pub name: &'g str,
    /// A graph that its verifier accepts.
    pub graph: &'g Graph,
}

/// What the planner may do. Everything, by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanOptions {
    /// Whether reshapes may become views instead of launches.
    pub views: bool,
    /// Whether there may be views of the caller's memory, so that a region `Input` or `Output` has several buffers.
    pub argument_views: bool,
    /// Whether results may take the place of operands that are not needed any more.
    pub in_place: bool,
    /// Whether several orders and placements compete; otherwise the graph's order, placed greedily by size.
    pub search: bool,
    /// Whether values that are computed from fewer bytes may be computed again for uses far behind, where the arena gets
    /// smaller by that.
    pub recompute: bool,
    /// Most bytes that the arena may have. Where it would have more, values are computed again for later uses until it fits,
    /// those first that give most bytes for the target's estimate of their launches.
    pub arena_limit: Option<usize>,
    /// How products take their batch.
    pub splitting: Splitting,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            views: true,
            argument_views: true,
            in_place: true,
            search: true,
            recompute: true,
            arena_limit: None,
            splitting: Splitting::default(),
        }
    }
}

/// What was planned for one entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryReport {
    /// The entry.
    pub name: String,
    /// Orders of launches, with the largest sum of arena bytes live at once under each.
    pub orders: Vec<(&'static str, usize)>,
    /// The order of the plan.
    pub order: &'static str,
    /// Ways to place buffers under that order, with the arena bytes of each; later ones are not tried once one
    /// reaches the lower bound.
    pub placements: Vec<(&'static str, usize)>,
    /// The way of the plan.
    pub placement: &'static str,
    /// Arena bytes of the entry.
    pub peak_bytes: usize,
    /// The largest sum of arena bytes live at once: what no placement under this order can beat.
    pub lower_bound_bytes: usize,
    /// Launches in the schedule.
    pub launches: usize,
    /// Launches whose result takes an operand's place in the arena.
    pub in_place: usize,
    /// Parameters whose new value is computed in their own place.
    pub updates_in_place: usize,
    /// Reshapes that need no launch.
    pub views: usize,
    /// Launches that only copy a value to where it is needed.
    pub copies: usize,
    /// Launches that compute a value again.
    pub recomputed: usize,
    /// What the limit on the arena took, if there is one that the entry would be over.
    pub limited: Option<Limited>,
}

/// What it took to keep an entry's arena within a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limited {
    /// Arena bytes of the entry without a limit.
    pub natural_bytes: usize,
    /// Names of nodes that run again, each with the estimate of a launch in the target's unit.
    pub again: Vec<(String, Cost)>,
    /// The estimate of all other launches.
    pub cost: Cost,
}

/// What the planner did, for `inspect`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanReport {
    /// One an entry.
    pub entries: Vec<EntryReport>,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// Two entries of one name.
    #[error("there are two entries `{0}`")]
    EntryTwice(String),
    /// One graph with two parameters of one name.
    #[error("there are two parameters `{parameter}` in one graph")]
    ParameterTwice {
        /// The name.
        parameter: String,
    },
    /// A parameter with different types in two entries.
    #[error("parameter `{parameter}` is {first_type} in `{first}` but {second_type} in `{second}`")]
    ParameterType {
        /// The parameter.
        parameter: String,
        /// An entry.
        first: String,
        /// Its type there.
        first_type: String,
        /// Another entry.
        second: String,
        /// Its type there.
        second_type: String,
    },
    /// A parameter with different initial values in two entries.
    #[error("parameter `{parameter}` starts with different values in `{first}` and `{second}`")]
    ParameterValue {
        /// The parameter.
        parameter: String,
        /// An entry.
        first: String,
        /// Another entry.
        second: String,
    },
    /// A tensor beyond any memory.
    #[error("value `{value}` ({ty}) is too large")]
    TooLarge {
        /// The value.
        value: String,
        /// Its type.
        ty: String,
    },
    /// No plan was found that keeps the arena within its limit.
    #[error(
        "`{entry}` needs an arena of {least} bytes, and {limit} are allowed: this is the least that was found by computing values \
         again ({natural} bytes without a limit). It is fullest in `{fullest}`: {held}"
    )]
    ArenaLimit {
        /// The entry.
        entry: String,
        /// The least found.
        least: usize,
        /// The limit.
        limit: usize,
        /// Bytes without a limit.
        natural: usize,
        /// The launch during which the arena is fullest.
        fullest: String,
        /// What lies there, largest first.
        held: String,
    },
    /// The plan does not pass its check: a bug of the planner.
    #[error("the plan is not valid:\n{}", .0.0.join("\n"))]
    Internal(ProgramErrors),
}

/// Plans a program of several entries, which share state (parameters of the same name), constants, kernels and the
/// arena. Parameters become state in the order of first appearance.
///
/// # Errors
/// See [`PlanError`].
pub fn plan(
    name: &str,
    entries: &[PlanEntry<'_>],
    target: &dyn Target,
    options: &PlanOptions,
) -> Result<(Verified<Program>, PlanReport), PlanError> {
    check_entries(entries)?;
    let mut shared = Shared::new(entries, target, options.splitting)?;
    let mut planned = Vec::new();
    let mut report = PlanReport::default();
    let mut memory = MemoryPlan { state_bytes: shared.state_bytes, ..MemoryPlan::default() };
    for entry in entries {
        let (tasks, chosen, limited) = plan_entry(entry, &mut shared, options)?;
        memory.arena_bytes = memory.arena_bytes.max(chosen.placement.peak);
        memory.arena_lower_bound_bytes =
            memory.arena_lower_bound_bytes.max(chosen.lifetimes.lower_bound);
        report.entries.push(EntryReport {
            name: entry.name.to_string(),
            orders: chosen.orders.clone(),
            order: chosen.order_name,
            placements: chosen.placements.clone(),
            placement: chosen.placement.method,
            peak_bytes: chosen.placement.peak,
            lower_bound_bytes: chosen.lifetimes.lower_bound,
            launches: tasks.tasks.len(),
            in_place: chosen.lifetimes.in_place,
            updates_in_place: tasks.updates_in_place,
            views: tasks.views,
            copies: tasks.copies,
            recomputed: tasks.recomputed,
            limited,
        });
        planned.push((tasks, chosen));
    }
    memory.constant_bytes = shared.constant_bytes;
    let program = assemble(name, entries, target, &mut shared, &planned, memory);
    let mut program = check_program(program, entries).map_err(PlanError::Internal)?;
    if let Some(switch) = target.switch_cost() {
        let cost = |kernel: &Kernel, device| kernel.selection.device_cost(device);
        program = devices::assign_program(program, &cost, switch).map_err(PlanError::Internal)?;
    }
    Ok((program, report))
}

/// The tasks of an entry and their places, with values computed again if that makes the arena smaller by an eighth at
/// least, or as much of that as a limit takes.
fn plan_entry(
    entry: &PlanEntry<'_>,
    shared: &mut Shared<'_>,
    options: &PlanOptions,
) -> Result<(Tasks, Chosen, Option<Limited>), PlanError> {
    let (tasks, chosen) = plan_freely(entry, shared, options)?;
    match options.arena_limit {
        Some(limit) if chosen.placement.peak > limit => {
            let natural = chosen.placement.peak;
            let (tasks, chosen, limited) = limit::fit(entry, shared, options, limit, natural)?;
            Ok((tasks, chosen, Some(limited)))
        }
        _ => Ok((tasks, chosen, None)),
    }
}

fn plan_freely(
    entry: &PlanEntry<'_>,
    shared: &mut Shared<'_>,
    options: &PlanOptions,
) -> Result<(Tasks, Chosen), PlanError> {
    let once = PlanOptions { recompute: false, ..*options };
    let tasks = tasks::tasks(entry, shared, &once, &Again::new())?;
    let chosen = choose(&tasks, shared.alignment(), options);
    if options.recompute {
        let again = tasks::tasks(entry, shared, options, &Again::new())?;
        if again.recomputed > 0 {
            let other = choose(&again, shared.alignment(), options);
            if other.placement.peak <= chosen.placement.peak / 8 * 7 {
                return Ok((again, other));
            }
        }
    }
    Ok((tasks, chosen))
}

/// Checks a program as [`plan`] does: it keeps its promises about memory ([`verify_program`]), and its entries compute
/// what the graphs mean, by following both symbolically.
///
/// # Errors
/// Everything found.
pub fn check_program(
    program: Program,
    entries: &[PlanEntry<'_>],
) -> Result<Verified<Program>, ProgramErrors> {
    let program = verify_program(program)?;
    check::check(&program, entries).map_err(ProgramErrors)?;
    Ok(program)
}

fn check_entries(entries: &[PlanEntry<'_>]) -> Result<(), PlanError> {
    for (i, entry) in entries.iter().enumerate() {
        if entries[..i].iter().any(|other| other.name == entry.name) {
            return Err(PlanError::EntryTwice(entry.name.to_string()));
        }
        if let Some(value) = entry.graph.values().iter().find(|v| v.ty.count() > ELEMENT_LIMIT) {
            let (value, ty) = (value.name.clone(), value.ty.to_string());
            return Err(PlanError::TooLarge { value, ty });
        }
    }
    Ok(())
}

/// The best schedule and placement of an entry.
struct Chosen {
    orders: Vec<(&'static str, usize)>,
    order_name: &'static str,
    order: Vec<usize>,
    lifetimes: Lifetimes,
    placements: Vec<(&'static str, usize)>,
    placement: Placement,
}

/// Offsets of scratch follow those of storages in a placement.
fn items(tasks: &Tasks, order: &[usize], lifetimes: &Lifetimes, alignment: usize) -> Vec<Item> {
    let storages = lifetimes.storages.iter().map(|s| Item {
        bytes: if s.home == Home::Arena { s.bytes } else { 0 },
        start: s.start,
        end: s.end,
    });
    let scratch = order.iter().enumerate().map(|(at, &task)| Item {
        bytes: tasks.tasks[task].scratch.next_multiple_of(alignment),
        start: at,
        end: at,
    });
    storages.chain(scratch).collect()
}

/// Tries the orders from the most promising on; no order can beat its own lower bound.
fn choose(tasks: &Tasks, alignment: usize, options: &PlanOptions) -> Chosen {
    let mut candidates: Vec<(&'static str, Vec<usize>, Lifetimes)> =
        schedule::schedules(tasks, alignment, options.search)
            .into_iter()
            .map(|(name, order)| {
                let lifetimes = liveness::lifetimes(tasks, &order, options, alignment);
                (name, order, lifetimes)
            })
            .collect();
    let orders: Vec<_> = candidates.iter().map(|(name, _, l)| (*name, l.lower_bound)).collect();
    candidates.sort_by_key(|(_, _, lifetimes)| lifetimes.lower_bound);
    let mut best: Option<Chosen> = None;
    for (order_name, order, lifetimes) in candidates {
        if best.as_ref().is_some_and(|b| b.placement.peak <= lifetimes.lower_bound) {
            break;
        }
        let items = items(tasks, &order, &lifetimes, alignment);
        let (placement, placements) = arena::place(&items, lifetimes.lower_bound, options.search);
        if best.as_ref().is_none_or(|b| placement.peak < b.placement.peak) {
            let orders = orders.clone();
            best = Some(Chosen { orders, order_name, order, lifetimes, placements, placement });
        }
    }
    best.unwrap_or_else(|| Chosen {
        orders,
        order_name: "graph",
        order: Vec::new(),
        lifetimes: liveness::lifetimes(tasks, &[], options, alignment),
        placements: Vec::new(),
        placement: Placement { method: "greedy-by-size", offsets: Vec::new(), peak: 0 },
    })
}

fn assemble(
    name: &str,
    entries: &[PlanEntry<'_>],
    target: &dyn Target,
    shared: &mut Shared<'_>,
    planned: &[(Tasks, Chosen)],
    memory: MemoryPlan,
) -> Program {
    let description = target.description();
    let mut buffers = Vec::new();
    for (index, fixed) in shared.state.iter().enumerate() {
        buffers.push(Buffer {
            name: fixed.identifier.clone(),
            ty: fixed.tensor.ty().clone(),
            region: Region::State { index, initial: fixed.tensor.clone() },
            offset: fixed.offset,
        });
    }
    for fixed in &shared.constants {
        buffers.push(Buffer {
            name: fixed.identifier.clone(),
            ty: fixed.tensor.ty().clone(),
            region: Region::Constant(fixed.tensor.clone()),
            offset: fixed.offset,
        });
    }
    let mut assembled = Vec::new();
    for (entry, (tasks, chosen)) in entries.iter().zip(planned) {
        let mut assembler = Assembler {
            entry,
            tasks,
            chosen,
            shared,
            buffers: &mut buffers,
            known: BTreeMap::new(),
        };
        assembled.push(assembler.entry());
    }
    let kernels = launched(&mut assembled, std::mem::take(&mut shared.kernels));
    Program {
        name: identifier(name),
        devices: description.devices.iter().map(ToString::to_string).collect(),
        buffers,
        kernels,
        entries: assembled,
        memory,
        notes: Notes::default(),
    }
}

/// The kernels that are launched: plans that were tried may have asked for others.
fn launched(entries: &mut [Entry], kernels: Vec<Kernel>) -> Vec<Kernel> {
    let mut is_used = vec![false; kernels.len()];
    let steps = || entries.iter().flat_map(|entry| &entry.steps);
    for step in steps() {
        if let Step::Launch(launch) = step {
            is_used[launch.kernel.0] = true;
        }
    }
    let mut position = Vec::with_capacity(kernels.len());
    let mut kept = 0;
    for &used in &is_used {
        position.push(kept);
        kept += usize::from(used);
    }
    for step in entries.iter_mut().flat_map(|entry| &mut entry.steps) {
        if let Step::Launch(launch) = step {
            launch.kernel = KernelId(position[launch.kernel.0]);
        }
    }
    kernels.into_iter().zip(is_used).filter(|(_, used)| *used).map(|(kernel, _)| kernel).collect()
}

struct Assembler<'a, 't> {
    entry: &'a PlanEntry<'a>,
    tasks: &'a Tasks,
    chosen: &'a Chosen,
    shared: &'a mut Shared<'t>,
    buffers: &'a mut Vec<Buffer>,
    known: BTreeMap<(usize, usize), BufferId>,
}

impl Assembler<'_, '_> {
    fn entry(&mut self) -> Entry {
        let graph = self.entry.graph;
        let tasks = self.tasks;
        let inputs = graph
            .inputs()
            .iter()
            .zip(&tasks.inputs)
            .map(|(input, &operand)| Argument {
                name: graph.value(input.value).name.clone(),
                buffer: self.buffer(operand),
                role: input.role,
            })
            .collect();
        let outputs = graph
            .outputs()
            .iter()
            .zip(&tasks.outputs)
            .map(|(output, &operand)| Argument {
                name: output.name.clone(),
                buffer: self.buffer(operand),
                role: InputRole::Data,
            })
            .collect();
        let scratch = &self.chosen.placement.offsets[self.chosen.lifetimes.storages.len()..];
        let mut steps = Vec::with_capacity(self.chosen.order.len());
        for (&index, &scratch) in self.chosen.order.iter().zip(scratch) {
            let task = &tasks.tasks[index];
            steps.push(Step::Launch(Launch {
                kernel: KernelId(task.kernel),
                device: DeviceId(0),
                inputs: task.reads.iter().map(|&o| self.buffer(o)).collect(),
                outputs: task.writes.iter().map(|&o| self.buffer(o)).collect(),
                scratch: (task.scratch > 0).then_some(scratch),
                name: task.name.clone(),
            }));
        }
        Entry { name: self.entry.name.to_string(), inputs, outputs, steps }
    }

    fn buffer(&mut self, operand: Operand) -> BufferId {
        let group = &self.tasks.groups[operand.group];
        // State and constants are there, in their order.
        match group.home {
            Home::State(index) => return BufferId(index),
            Home::Constant(index) => return BufferId(self.shared.state.len() + index),
            _ => {}
        }
        if let Some(&id) = self.known.get(&(operand.group, operand.view)) {
            return id;
        }
        let storage = self.chosen.lifetimes.storage_of[operand.group];
        let home = storage.map_or(group.home, |s| self.chosen.lifetimes.storages[s].home);
        let (region, offset) = match home {
            Home::Input(i) => (Region::Input(i), 0),
            Home::Output(i) => (Region::Output(i), 0),
            _ => (Region::Arena, storage.map_or(0, |s| self.chosen.placement.offsets[s])),
        };
        let (ty, name) = &group.views[operand.view];
        let name = self.shared.buffer_name(name, self.entry.name);
        self.buffers.push(Buffer { name, ty: ty.clone(), region, offset });
        let id = BufferId(self.buffers.len() - 1);
        self.known.insert((operand.group, operand.view), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use trainc_ir::implementation::Selection;
    use trainc_ir::ops::{Neg, Relu, Tanh};
    use trainc_ir::{Op, TensorType};

    use super::*;

    #[test]
    fn kernels_of_plans_that_were_only_tried_are_dropped() {
        let ty = TensorType::f32([3]);
        let kernel = |op: Op| {
            Kernel::new("", op, vec![ty.clone()], vec![ty.clone()], |signature| {
                Selection::loops(signature, Cost::ZERO)
            })
        };
        let kernels = vec![kernel(Neg {}.into()), kernel(Relu {}.into()), kernel(Tanh {}.into())];
        let launch = |kernel| {
            Step::Launch(Launch {
                kernel: KernelId(kernel),
                device: DeviceId(0),
                inputs: Vec::new(),
                outputs: Vec::new(),
                scratch: None,
                name: String::new(),
            })
        };
        let steps = vec![launch(2), launch(0), launch(2)];
        let name = "train_step".to_string();
        let mut entries = [Entry { name, inputs: Vec::new(), outputs: Vec::new(), steps }];
        let kept = launched(&mut entries, kernels);
        assert_eq!(
            kept.iter().map(|k| k.op.clone()).collect::<Vec<_>>(),
            [Op::from(Neg {}), Op::from(Tanh {})]
        );
        assert_eq!(entries[0].steps, [launch(1), launch(0), launch(1)]);
    }
}
