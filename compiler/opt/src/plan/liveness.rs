//! Lifetimes under a schedule: which groups share a storage because one is computed in place of another, from which
//! launch to which each storage is live, and the largest sum of what is live at once.

use super::PlanOptions;
use super::tasks::{Home, Task, Tasks};

/// Memory for one group, or for several in succession.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// The arena, or a result's memory of the caller.
    pub(super) home: Home,
    /// Bytes, a multiple of the alignment.
    pub(super) bytes: usize,
    /// Position of the launch that writes it first.
    pub(super) start: usize,
    /// Position of the launch that uses it last.
    pub(super) end: usize,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Lifetimes {
    pub(super) storages: Vec<Storage>,
    /// The storage of each group that lives in the arena or in a result.
    pub(super) storage_of: Vec<Option<usize>>,
    /// Launches that run in place.
    pub(super) in_place: usize,
    /// The largest sum of storages and working memory in the arena during a launch.
    pub(super) lower_bound: usize,
}

/// Lifetimes of a schedule: task indices in order.
pub(super) fn lifetimes(
    tasks: &Tasks,
    order: &[usize],
    options: &PlanOptions,
    alignment: usize,
) -> Lifetimes {
    let mut position = vec![0; tasks.tasks.len()];
    order.iter().enumerate().for_each(|(at, &task)| position[task] = at);
    let last_use: Vec<usize> = tasks
        .groups
        .iter()
        .map(|g| g.readers.iter().chain(&g.writer).map(|&t| position[t]).max().unwrap_or(0))
        .collect();
    let mut result = Lifetimes {
        storages: Vec::new(),
        storage_of: vec![None; tasks.groups.len()],
        in_place: 0,
        lower_bound: 0,
    };
    for (at, &index) in order.iter().enumerate() {
        let task = &tasks.tasks[index];
        for (slot, operand) in task.writes.iter().enumerate() {
            let (group, home) = (operand.group, tasks.groups[operand.group].home);
            if !matches!(home, Home::Arena | Home::Output(_)) {
                continue;
            }
            let end = last_use[group];
            let storage = match result.replaced(tasks, task, at, home, options) {
                Some(storage) if slot == 0 => {
                    result.in_place += 1;
                    result.storages[storage].home = home;
                    result.storages[storage].end = end;
                    storage
                }
                _ => {
                    let bytes = group_bytes(tasks, group).next_multiple_of(alignment);
                    result.storages.push(Storage { home, bytes, start: at, end });
                    result.storages.len() - 1
                }
            };
            result.storage_of[group] = Some(storage);
        }
    }
    result.lower_bound = result.profile(tasks, order, alignment).into_iter().max().unwrap_or(0);
    result
}

/// Bytes of a group: the same under each of its types.
pub(super) fn group_bytes(tasks: &Tasks, group: usize) -> usize {
    tasks.groups[group].views.first().map_or(0, |(ty, _)| trainc_ir::program::buffer_bytes(ty))
}

impl Lifetimes {
    /// The storage of a dying operand that a launch's first result takes over.
    fn replaced(
        &self,
        tasks: &Tasks,
        task: &Task,
        at: usize,
        home: Home,
        options: &PlanOptions,
    ) -> Option<usize> {
        // A value on the way in a result's memory is seen there under a type and name of its own.
        if !options.in_place || (home != Home::Arena && !options.argument_views) {
            return None;
        }
        // Operands that cannot be overwritten are out before all are compared with each other.
        let overwritable = task.reads.iter().enumerate().filter(|(i, _)| task.op.may_overwrite(*i));
        let mut storages = overwritable.filter_map(|(_, operand)| self.storage_of[operand.group]);
        storages.find(|&storage| {
            let Storage { home, end, .. } = self.storages[storage];
            home == Home::Arena
                && end == at
                && tasks.may_overwrite(task, 0, |group| self.storage_of[group] == Some(storage))
        })
    }

    /// Bytes of storages and working memory in the arena during each launch.
    pub(super) fn profile(&self, tasks: &Tasks, order: &[usize], alignment: usize) -> Vec<usize> {
        let mut change = vec![(0usize, 0usize); order.len() + 1];
        for storage in self.storages.iter().filter(|s| s.home == Home::Arena) {
            change[storage.start].0 += storage.bytes;
            change[storage.end + 1].1 += storage.bytes;
        }
        let mut live = 0;
        let during = order.iter().zip(change).map(|(&task, (more, less))| {
            live = live + more - less;
            live + tasks.tasks[task].scratch.next_multiple_of(alignment)
        });
        during.collect()
    }
}
