//! Keeps an entry's arena within a limit by computing values again.
//!
//! A value that waits in memory from one use to a far one may be given up after the first and computed again before the
//! second (rematerialization). Its operands must be there by then: they wait in its place, or are computed again as well.
//! Operations are functions, stochastic ones of their counters, so that no bit changes.
//!
//! The search is greedy. What is over the limit is summed over all launches; in each round, those candidates that seem to
//! take most bytes off that sum for the estimate of their launches are tried for real, and the best one stays. At last,
//! what later choices made needless is dropped.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{NodeId, ValueId};
use trainc_ir::implementation::Cost;

use super::liveness::{self, Lifetimes, group_bytes};
use super::shared::Shared;
use super::tasks::{self, Again, Home, Tasks};
use super::{Chosen, Limited, PlanEntry, PlanError, PlanOptions, choose, schedule};

/// Candidates that are tried for real in a round.
const TRIED: usize = 6;

/// A bound that sinks does so by this part of what it was.
const STEP: usize = 32;

/// How many operands of operands a candidate computes again, at most.
const DEEPEST: usize = 4;

/// Plans an entry whose arena is over a limit.
///
/// # Errors
/// [`PlanError::ArenaLimit`] with the least that was found.
pub(super) fn fit(
    entry: &PlanEntry<'_>,
    shared: &mut Shared<'_>,
    options: &PlanOptions,
    limit: usize,
    natural_bytes: usize,
) -> Result<(Tasks, Chosen, Limited), PlanError> {
    let options = PlanOptions { recompute: false, ..*options };
    let mut search = Search { entry, shared, options, goal: limit };
    let mut again = Again::new();
    let mut least: Option<Fitted> = None;
    // At once, by what lies over the limit anywhere; where that ends above it, by what lies over a bound that sinks in steps.
    for stepwise in [false, true] {
        again.clear();
        search.goal = if stepwise { natural_bytes / STEP * (STEP - 1) } else { limit };
        loop {
            let state = search.descend(&mut again)?;
            let chosen = choose(&state.tasks, search.shared.alignment(), &options);
            let (over, peak) = (state.over, chosen.placement.peak);
            if least.as_ref().is_none_or(|(_, chosen)| peak < chosen.placement.peak) {
                least = Some((state.tasks, chosen));
            }
            if peak <= limit {
                let Some(fitted) = least else { break };
                let (tasks, chosen) = search.thin(&mut again, fitted, limit)?;
                let limited = search.limited(&tasks, natural_bytes);
                return Ok((tasks, chosen, limited));
            }
            // Placement loses a little to gaps: the sum of what is live must be lower by that.
            let next = match stepwise {
                true => {
                    (peak / STEP * (STEP - 1)).min(search.goal / STEP * (STEP - 1)).max(limit / 2)
                }
                false => search.goal.saturating_sub((peak - limit).max(search.shared.alignment())),
            };
            if over > 0 || next >= search.goal || next == 0 {
                break;
            }
            search.goal = next;
        }
    }
    Err(search.refusal(least.as_ref(), limit, natural_bytes))
}

/// Tasks with their places.
type Fitted = (Tasks, Chosen);

struct Search<'a, 'e, 't> {
    entry: &'a PlanEntry<'e>,
    shared: &'a mut Shared<'t>,
    options: PlanOptions,
    /// Bytes that may be live at once.
    goal: usize,
}

/// Tasks under the order in which least is over the goal.
struct State {
    tasks: Tasks,
    order: Vec<usize>,
    lifetimes: Lifetimes,
    /// Bytes live during each launch.
    profile: Vec<usize>,
    /// Bytes over the goal, summed over launches.
    over: u128,
}

/// What may be computed again together.
struct Candidate {
    values: Vec<(usize, ValueId)>,
    cost: u64,
    /// Bytes over the goal that it seems to save, summed over launches.
    relief: u128,
}

impl Candidate {
    /// Bytes saved for what it costs.
    fn worth(&self, relief: u128) -> f64 {
        relief as f64 / (1.0 + self.cost as f64)
    }
}

impl Search<'_, '_, '_> {
    fn state(&mut self, again: &Again) -> Result<State, PlanError> {
        let tasks = tasks::tasks(self.entry, self.shared, &self.options, again)?;
        let alignment = self.shared.alignment();
        let mut best: Option<(u128, Vec<usize>, Lifetimes, Vec<usize>)> = None;
        for (_, order) in schedule::schedules(&tasks, alignment, self.options.search) {
            let lifetimes = liveness::lifetimes(&tasks, &order, &self.options, alignment);
            let profile = lifetimes.profile(&tasks, &order, alignment);
            let over = profile.iter().map(|&live| live.saturating_sub(self.goal) as u128).sum();
            if best.as_ref().is_none_or(|(least, ..)| over < *least) {
                best = Some((over, order, lifetimes, profile));
            }
        }
        let (over, order, lifetimes, profile) = best.unwrap_or_else(|| {
            let lifetimes = liveness::lifetimes(&tasks, &[], &self.options, alignment);
            (0, Vec::new(), lifetimes, Vec::new())
        });
        Ok(State { tasks, order, lifetimes, profile, over })
    }

    /// Adds to what is computed again until nothing is over the goal, or no candidate helps.
    fn descend(&mut self, again: &mut Again) -> Result<State, PlanError> {
        let mut state = self.state(again)?;
        while state.over > 0 {
            let mut candidates = self.candidates(&state, again);
            candidates.sort_by(|a, b| b.worth(b.relief).total_cmp(&a.worth(a.relief)));
            let mut best: Option<(f64, Again, State)> = None;
            for candidate in candidates.iter().take(TRIED) {
                let mut more = again.clone();
                more.extend(&candidate.values);
                let after = self.state(&more)?;
                let worth = candidate.worth(state.over.saturating_sub(after.over));
                if after.over < state.over && best.as_ref().is_none_or(|(b, ..)| worth > *b) {
                    best = Some((worth, more, after));
                }
            }
            let Some((_, more, after)) = best else { break };
            (*again, state) = (more, after);
        }
        Ok(state)
    }

    /// What could be computed again where it lies over launches that are over the goal, between two uses.
    fn candidates(&self, state: &State, again: &Again) -> Vec<Candidate> {
        let uses = Uses::new(self.entry, state);
        let mut found = Vec::new();
        for group in 0..state.tasks.groups.len() {
            for (last, next, at) in uses.gaps(group) {
                let within = &state.profile[last + 1..next];
                if !within.iter().any(|&live| live > self.goal) {
                    continue;
                }
                let mut before = 0;
                for depth in 0..=DEEPEST {
                    let mut draft = Draft { at, next, values: BTreeSet::new(), ..Draft::default() };
                    draft.changes.push((last + 1, next, -(uses.bytes[group] as i128)));
                    draft.add(&uses, group, depth);
                    if draft.values.len() == before || draft.values.is_subset(again) {
                        break;
                    }
                    before = draft.values.len();
                    let relief = draft.relief(&state.profile, self.goal);
                    if relief > 0 {
                        let values = draft.values.into_iter().collect();
                        let cost = draft.nodes.iter().map(|&n| self.cost(state, &uses, n)).sum();
                        found.push(Candidate { values, cost, relief: relief.unsigned_abs() });
                    }
                }
            }
        }
        found
    }

    fn cost(&self, state: &State, uses: &Uses<'_>, node: NodeId) -> u64 {
        let task = uses.task_of.get(&node).map(|&task| state.tasks.tasks[task].kernel);
        task.map_or(0, |kernel| self.shared.kernels[kernel].selection.cost().cycles().unwrap_or(0))
    }

    /// Drops what is not needed for the limit, the dearest first; the tasks that remain.
    fn thin(
        &mut self,
        again: &mut Again,
        (mut tasks, mut chosen): Fitted,
        limit: usize,
    ) -> Result<Fitted, PlanError> {
        let alignment = self.shared.alignment();
        let mut dearest: Vec<(u64, (usize, ValueId))> = Vec::new();
        for &(at, value) in again.iter() {
            let runs = tasks.tasks.iter().filter(|t| t.at == at && t.node.is_some());
            let graph = self.entry.graph;
            let task = runs.into_iter().find(|t| {
                t.node.is_some_and(|n| n.index() < at && graph.node(n).outputs.contains(&value))
            });
            let cost = task.and_then(|t| self.shared.kernels[t.kernel].selection.cost().cycles());
            dearest.push((cost.unwrap_or(0), (at, value)));
        }
        dearest.sort_by_key(|&(cost, key)| (std::cmp::Reverse(cost), key));
        for (_, key) in dearest {
            let mut fewer = again.clone();
            fewer.remove(&key);
            let state = self.state(&fewer)?;
            if state.lifetimes.lower_bound > limit {
                continue;
            }
            let other = choose(&state.tasks, alignment, &self.options);
            if other.placement.peak <= limit {
                (*again, tasks, chosen) = (fewer, state.tasks, other);
            }
        }
        Ok((tasks, chosen))
    }

    fn limited(&self, tasks: &Tasks, natural_bytes: usize) -> Limited {
        let cost = |kernel: usize| self.shared.kernels[kernel].selection.cost();
        let is_again = |task: &tasks::Task| task.node.is_some_and(|node| node.index() < task.at);
        let (again, once): (Vec<_>, Vec<_>) =
            tasks.tasks.iter().filter(|task| task.node.is_some()).partition(|t| is_again(t));
        Limited {
            natural_bytes,
            again: again.iter().map(|t| (t.name.clone(), cost(t.kernel))).collect(),
            cost: once.iter().fold(Cost::ZERO, |sum, task| sum + cost(task.kernel)),
        }
    }

    fn refusal(&self, least: Option<&Fitted>, limit: usize, natural: usize) -> PlanError {
        let (fullest, held) = least.map(|fitted| self.fullest(fitted)).unwrap_or_default();
        PlanError::ArenaLimit {
            entry: self.entry.name.to_string(),
            least: least.map_or(natural, |(_, chosen)| chosen.placement.peak),
            limit,
            natural,
            fullest,
            held,
        }
    }

    /// The launch during which the arena is fullest, and what lies there then.
    fn fullest(&self, (tasks, chosen): &Fitted) -> (String, String) {
        let alignment = self.shared.alignment();
        let profile = chosen.lifetimes.profile(tasks, &chosen.order, alignment);
        let most = profile.iter().max().copied().unwrap_or(0);
        let at = profile.iter().position(|&live| live == most).unwrap_or(0);
        let Some(task) = chosen.order.get(at).map(|&task| &tasks.tasks[task]) else {
            return Default::default();
        };
        let mut held: Vec<(usize, String)> = Vec::new();
        for (group, value) in tasks.groups.iter().enumerate() {
            let Some(storage) = chosen.lifetimes.storage_of[group] else { continue };
            let storage = chosen.lifetimes.storages[storage];
            let users = value.readers.iter().chain(&value.writer);
            let places = users.filter_map(|t| chosen.order.iter().position(|o| o == t));
            let first = places.clone().min().unwrap_or(0);
            let last = places.max().unwrap_or(0);
            if storage.home == Home::Arena && (first..=last).contains(&at) {
                held.push((storage.bytes, value.views[0].1.clone()));
            }
        }
        if task.scratch > 0 {
            held.push((task.scratch, "its working memory".to_string()));
        }
        held.sort_by(|a, b| b.cmp(a));
        let rest: usize = held.iter().skip(4).map(|(bytes, _)| bytes).sum();
        let largest = held.iter().take(4).map(|(bytes, name)| format!("{bytes} {name}"));
        let mut words: Vec<String> = largest.collect();
        if rest > 0 {
            words.push(format!("{rest} in {} more", held.len() - 4));
        }
        (task.name.clone(), words.join(", "))
    }
}

/// Who uses what when, under a state's order.
struct Uses<'a> {
    tasks: &'a Tasks,
    graph: &'a trainc_ir::Graph,
    position: Vec<usize>,
    /// Bytes of each group.
    bytes: Vec<usize>,
    /// A task that runs the node.
    task_of: BTreeMap<NodeId, usize>,
    /// Groups of one result of one node: that of the node itself and those computed again, each with the node that it was
    /// made for.
    copies: BTreeMap<(NodeId, usize), Vec<(usize, usize)>>,
}

impl<'a> Uses<'a> {
    fn new(entry: &PlanEntry<'a>, state: &'a State) -> Uses<'a> {
        let tasks = &state.tasks;
        let mut position = vec![0; tasks.tasks.len()];
        state.order.iter().enumerate().for_each(|(at, &task)| position[task] = at);
        let mut task_of = BTreeMap::new();
        let mut copies: BTreeMap<(NodeId, usize), Vec<(usize, usize)>> = BTreeMap::new();
        for (index, task) in tasks.tasks.iter().enumerate() {
            let Some(node) = task.node else { continue };
            task_of.insert(node, index);
            for (slot, written) in task.writes.iter().enumerate() {
                copies.entry((node, slot)).or_default().push((task.at, written.group));
            }
        }
        let bytes = (0..tasks.groups.len()).map(|group| group_bytes(tasks, group)).collect();
        Uses { tasks, graph: entry.graph, position, bytes, task_of, copies }
    }

    /// The result of a node that a group of the arena is; `None` for what is computed by no node.
    fn result(&self, group: usize) -> Option<(NodeId, usize)> {
        let value = &self.tasks.groups[group];
        let task = &self.tasks.tasks[value.writer.filter(|_| value.home == Home::Arena)?];
        Some((task.node?, task.writes.iter().position(|written| written.group == group)?))
    }

    /// Position of a group's last use.
    fn end(&self, group: usize) -> usize {
        let value = &self.tasks.groups[group];
        let users = value.readers.iter().chain(&value.writer);
        users.map(|&task| self.position[task]).max().unwrap_or(0)
    }

    /// From use to use of a group: positions of both, and the node before which it would be computed again for the second
    /// and all behind.
    fn gaps(&self, group: usize) -> Vec<(usize, usize, usize)> {
        let value = &self.tasks.groups[group];
        let (Some(_), Some(writer)) = (self.result(group), value.writer) else { return Vec::new() };
        let mut users: Vec<(usize, usize)> = std::iter::once(&writer)
            .chain(&value.readers)
            .map(|&task| (self.position[task], self.tasks.tasks[task].at))
            .collect();
        users.sort_unstable();
        let mut found = Vec::new();
        for split in 1..users.len() {
            let (before, behind) = users.split_at(split);
            let (last, next) = (before[split - 1].0, behind[0].0);
            let at = behind.iter().map(|&(_, at)| at).min().unwrap_or(usize::MAX);
            // Copies read what is there at the end; nodes in another order than the graph's divide nothing.
            let divided = before.iter().all(|&(_, other)| other < at) && at != usize::MAX;
            if next > last + 1 && divided {
                found.push((last, next, at));
            }
        }
        found
    }

    /// The group of the same value that a node at that position would read.
    fn copy_at(&self, group: usize, at: usize) -> usize {
        let Some(copies) = self.result(group).and_then(|result| self.copies.get(&result)) else {
            return group;
        };
        let latest = copies.iter().filter(|(made_for, _)| *made_for < at).max();
        latest.map_or(group, |&(_, group)| group)
    }
}

/// A candidate as it is put together.
#[derive(Default)]
struct Draft {
    /// The node before which all is computed, and its position in the order.
    at: usize,
    next: usize,
    values: BTreeSet<(usize, ValueId)>,
    nodes: BTreeSet<NodeId>,
    /// Ranges of positions with the bytes that they get more.
    changes: Vec<(usize, usize, i128)>,
}

impl Draft {
    /// Computes a group's value again. Operands that are not there any more are, up to that depth, computed as well, or
    /// wait until then.
    fn add(&mut self, uses: &Uses<'_>, group: usize, depth: usize) {
        let Some((node, slot)) = uses.result(group) else { return };
        self.values.insert((self.at, uses.graph.node(node).outputs[slot]));
        if !self.nodes.insert(node) {
            return;
        }
        let Some(&task) = uses.task_of.get(&node) else { return };
        for operand in &uses.tasks.tasks[task].reads {
            let operand = uses.copy_at(operand.group, self.at);
            let end = uses.end(operand);
            if uses.tasks.groups[operand].home != Home::Arena || end >= self.next {
                continue;
            }
            let bytes = uses.bytes[operand] as i128;
            if depth > 0 && uses.result(operand).is_some() {
                self.changes.push((self.next.saturating_sub(1), self.next, bytes));
                self.add(uses, operand, depth - 1);
            } else {
                self.changes.push((end + 1, self.next, bytes));
            }
        }
    }

    /// Bytes over the goal that are saved, summed over launches.
    fn relief(&self, profile: &[usize], goal: usize) -> i128 {
        let from = self.changes.iter().map(|c| c.0).min().unwrap_or(0);
        let to = self.changes.iter().map(|c| c.1).max().unwrap_or(0).min(profile.len());
        let over = |live: i128| (live - goal as i128).max(0);
        let mut relief = 0;
        for (position, &live) in profile.iter().enumerate().take(to).skip(from) {
            let here = self.changes.iter().filter(|c| (c.0..c.1).contains(&position));
            let change: i128 = here.map(|c| c.2).sum();
            relief += over(live as i128) - over(live as i128 + change);
        }
        relief
    }
}
