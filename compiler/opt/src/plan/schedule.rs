//! Orders of the tasks. Each is a topological order of the dependencies; they differ in the memory that is live.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use super::liveness::group_bytes;
use super::tasks::{Home, Tasks};

/// An order with its name.
pub(super) type Schedule = (&'static str, Vec<usize>);

/// All orders to compare; without a search, the graph's own alone.
pub(super) fn schedules(tasks: &Tasks, alignment: usize, search: bool) -> Vec<Schedule> {
    let scheduler = Scheduler::new(tasks, alignment);
    let mut result = vec![("graph", scheduler.forward(|_, task| task))];
    if search {
        let freeing = |change, task| (i64::from(change > 0), task);
        result.push(("freeing-first", scheduler.forward(freeing)));
        result.push(("greedy", scheduler.forward(|change, task| (change, task))));
        result.push(("greedy-latest", scheduler.forward(|change, task| (change, Reverse(task)))));
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

/// Tasks that could run now, by key; `K` holds the task, so that keys differ.
struct Ready<K> {
    keys: BTreeMap<K, usize>,
    /// How many tasks each still waits for.
    waiting: Vec<usize>,
}

impl<K: Ord> Ready<K> {
    fn new(before: &[Vec<usize>], key: impl Fn(usize) -> K) -> Ready<K> {
        let waiting: Vec<usize> = before.iter().map(Vec::len).collect();
        let free = (0..waiting.len()).filter(|&task| waiting[task] == 0);
        Ready { keys: free.map(|task| (key(task), task)).collect(), waiting }
    }

    fn next(&mut self) -> Option<usize> {
        self.keys.pop_first().map(|(_, task)| task)
    }

    /// A task's key is another one.
    fn changed(&mut self, task: usize, before: K, after: K) {
        if self.keys.remove(&before).is_some() {
            self.keys.insert(after, task);
        }
    }

    /// These wait for one task less.
    fn release(&mut self, tasks: &[usize], key: impl Fn(usize) -> K) {
        for &task in tasks {
            self.waiting[task] -= 1;
            if self.waiting[task] == 0 {
                self.keys.insert(key(task), task);
            }
        }
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

    /// List scheduling: among the tasks that are ready, the one with the least key comes next. The key is of the bytes
    /// that are live after the task less those before, and the task.
    fn forward<K: Ord>(&self, key: impl Fn(i64, usize) -> K) -> Vec<usize> {
        let groups = &self.tasks.groups;
        // Readers of each group that have not run.
        let mut readers: Vec<usize> = groups.iter().map(|g| g.readers.len()).collect();
        let change = |task: usize| -> i64 {
            let freed = self.reads[task].iter().filter(|&&g| readers[g] == 1);
            let writes = self.tasks.tasks[task].writes.iter().map(|o| o.group);
            let kept = writes.filter(|&g| readers[g] > 0);
            self.sum(kept) - self.sum(freed.copied())
        };
        let mut changes: Vec<i64> = (0..self.before.len()).map(change).collect();
        let mut ready = Ready::new(&self.before, |task| key(changes[task], task));
        let mut order = Vec::with_capacity(changes.len());
        let mut done = vec![false; changes.len()];
        while let Some(task) = ready.next() {
            done[task] = true;
            order.push(task);
            for &group in &self.reads[task] {
                readers[group] -= 1;
                // The last reader frees it.
                if readers[group] == 1
                    && let Some(&last) = groups[group].readers.iter().find(|&&t| !done[t])
                {
                    let before = key(changes[last], last);
                    changes[last] -= self.bytes[group] as i64;
                    ready.changed(last, before, key(changes[last], last));
                }
            }
            ready.release(&self.after[task], |task| key(changes[task], task));
        }
        order
    }

    fn sum(&self, groups: impl Iterator<Item = usize>) -> i64 {
        groups.map(|g| self.bytes[g] as i64).sum()
    }

    /// Greedy list scheduling from the end: the last task is the one whose operands cost least and results most.
    fn backward(&self) -> Vec<usize> {
        let groups = &self.tasks.groups;
        let mut live = vec![false; groups.len()];
        // What the operands of each task cost that are not live, less its results that are.
        let mut changes: Vec<i64> =
            self.reads.iter().map(|reads| self.sum(reads.iter().copied())).collect();
        let key = |changes: &[i64], task: usize| (changes[task], Reverse(task));
        let mut ready = Ready::new(&self.after, |task| key(&changes, task));
        let mut order = Vec::with_capacity(changes.len());
        while let Some(task) = ready.next() {
            order.push(task);
            for &group in &self.reads[task] {
                if std::mem::replace(&mut live[group], true) {
                    continue;
                }
                for &user in groups[group].readers.iter().chain(&groups[group].writer) {
                    let before = key(&changes, user);
                    changes[user] -= self.bytes[group] as i64;
                    ready.changed(user, before, key(&changes, user));
                }
            }
            // Nobody before it uses its results, so that nothing has to know that they are live no more.
            ready.release(&self.before[task], |task| key(&changes, task));
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
