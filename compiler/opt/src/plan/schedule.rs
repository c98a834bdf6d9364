//! Orders of the tasks. Each is a topological order of the dependencies; they differ in the memory that is live.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use super::liveness::group_bytes;
use super::tasks::{Home, Tasks};

/// An order with its name.
pub(super) type Schedule = (&'static str, Vec<usize>);

/// All orders to compare; without a search, the graph's own alone.
pub(super) fn schedules(tasks: &Tasks, alignment: usize, search: bool) -> Vec<Schedule> {
    let scheduler = Scheduler::new(tasks, alignment);
    let mut result = vec![("graph", scheduler.forward(|_, task| (0, task)))];
    if search {
        result.push((
            "freeing-first",
            scheduler.forward(|s, task| (i64::from(s.change(task) > 0), task)),
        ));
        result.push(("greedy", scheduler.forward(|s, task| (s.change(task), task))));
        result
            .push(("greedy-latest", scheduler.forward(|s, task| (s.change(task), Reverse(task)))));
        result.push(("greedy-backward", scheduler.backward()));
        result.push(("depth-first", scheduler.depth_first()));
    }
    result
}

/// What list scheduling needs to know of the tasks.
struct Scheduler<'a> {
    tasks: &'a Tasks,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// Arena bytes of each group; 0 for groups that live elsewhere.
    bytes: Vec<usize>,
    /// Groups that each task reads, once each.
    reads: Vec<Vec<usize>>,
}

/// Progress of list scheduling.
struct Progress<'a> {
    scheduler: &'a Scheduler<'a>,
    /// Readers of each group that have not run.
    readers: Vec<usize>,
}

impl Progress<'_> {
    /// Bytes that are live after the task less those before.
    fn change(&self, task: usize) -> i64 {
        let Scheduler { tasks, bytes, reads, .. } = self.scheduler;
        let freed: usize =
            reads[task].iter().filter(|&&g| self.readers[g] == 1).map(|&g| bytes[g]).sum();
        let kept: usize = tasks.tasks[task]
            .writes
            .iter()
            .filter(|o| self.readers[o.group] > 0)
            .map(|o| bytes[o.group])
            .sum();
        kept as i64 - freed as i64
    }
}

impl<'a> Scheduler<'a> {
    fn new(tasks: &'a Tasks, alignment: usize) -> Scheduler<'a> {
        let neighbours = |task: usize, direction| -> Vec<usize> {
            let found = tasks.order.neighbors_directed(NodeIndex::new(task), direction);
            found.map(NodeIndex::index).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let all = 0..tasks.tasks.len();
        let bytes = |group: usize| match tasks.groups[group].home {
            Home::Arena => group_bytes(tasks, group).next_multiple_of(alignment),
            _ => 0,
        };
        let reads = |task: usize| -> Vec<usize> {
            let groups = tasks.tasks[task].reads.iter().map(|o| o.group);
            groups.collect::<BTreeSet<_>>().into_iter().collect()
        };
        Scheduler {
            tasks,
            before: all.clone().map(|t| neighbours(t, Direction::Incoming)).collect(),
            after: all.clone().map(|t| neighbours(t, Direction::Outgoing)).collect(),
            bytes: (0..tasks.groups.len()).map(bytes).collect(),
            reads: all.map(reads).collect(),
        }
    }

    /// List scheduling: among the tasks that are ready, the one with the least key comes next.
    fn forward<K: Ord>(&self, key: impl Fn(&Progress<'_>, usize) -> K) -> Vec<usize> {
        let mut progress = Progress {
            scheduler: self,
            readers: self.tasks.groups.iter().map(|g| g.readers.len()).collect(),
        };
        let mut waiting: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = (0..waiting.len()).filter(|&t| waiting[t] == 0).collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(task) = ready.iter().copied().min_by_key(|&task| key(&progress, task)) {
            ready.remove(&task);
            order.push(task);
            self.reads[task].iter().for_each(|&g| progress.readers[g] -= 1);
            for &next in &self.after[task] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        order
    }

    /// Greedy list scheduling from the end: the last task is the one whose operands cost least and results most.
    fn backward(&self) -> Vec<usize> {
        let mut live = vec![false; self.tasks.groups.len()];
        let mut waiting: Vec<usize> = self.after.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = (0..waiting.len()).filter(|&t| waiting[t] == 0).collect();
        let mut order = Vec::with_capacity(waiting.len());
        let change = |live: &[bool], task: usize| {
            let more: usize =
                self.reads[task].iter().filter(|&&g| !live[g]).map(|&g| self.bytes[g]).sum();
            let writes = self.tasks.tasks[task].writes.iter().map(|o| o.group);
            let less: usize = writes.filter(|&g| live[g]).map(|g| self.bytes[g]).sum();
            more as i64 - less as i64
        };
        while let Some(task) =
            ready.iter().copied().min_by_key(|&task| (change(&live, task), Reverse(task)))
        {
            ready.remove(&task);
            order.push(task);
            self.reads[task].iter().for_each(|&g| live[g] = true);
            self.tasks.tasks[task].writes.iter().for_each(|o| live[o.group] = false);
            for &next in &self.before[task] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        order.reverse();
        order
    }

    /// Each task right after what it depends on, the most demanding part of it first (Sethi and Ullman's order).
    fn depth_first(&self) -> Vec<usize> {
        let count = self.tasks.tasks.len();
        let result_bytes = |task: usize| -> usize {
            self.tasks.tasks[task].writes.iter().map(|o| self.bytes[o.group]).sum()
        };
        // Need of a task: the most that is live until it is done, were its dependencies a tree.
        let mut need = vec![0usize; count];
        let mut ordered = self.before.clone();
        for task in self.forward(|_, task| task) {
            ordered[task].sort_by_key(|&t| (Reverse(need[t].saturating_sub(result_bytes(t))), t));
            let mut held = 0usize;
            for &t in &ordered[task] {
                need[task] = need[task].max(held.saturating_add(need[t]));
                held = held.saturating_add(result_bytes(t));
            }
            need[task] = need[task].max(held.saturating_add(result_bytes(task)));
        }
        let mut done = vec![false; count];
        let mut order = Vec::with_capacity(count);
        for root in (0..count).filter(|&t| self.after[t].is_empty()) {
            let mut stack = vec![(root, 0)];
            while let Some((task, next)) = stack.pop() {
                if done[task] {
                    continue;
                }
                match ordered[task].get(next) {
                    Some(&dependency) => {
                        stack.push((task, next + 1));
                        stack.push((dependency, 0));
                    }
                    None => {
                        done[task] = true;
                        order.push(task);
                    }
                }
            }
        }
        order
    }
}
