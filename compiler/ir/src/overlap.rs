//! What of an entry runs at the same time on two devices: launches of other devices than the first go on while the first one's
//! next launches run, until one of these touches memory that they touch.
//!
//! Which memory launches touch is known to the byte, so that this holds for any order and any plan of the memory, and takes no
//! graph. Ranges count in whole lines of [`LINE`] bytes, since machines without common caches share no line.

use std::ops::Range;

use crate::program::{Entry, Launch, Program, Region, Step};

/// Bytes of the largest cache line.
pub const LINE: usize = 128;

/// What the first device does, in order. Launches are numbers of the entry's steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// It runs launches.
    Here(Range<usize>),
    /// It has another device start with launches, and goes on.
    Start(Range<usize>),
    /// It waits until what was started is done.
    Join,
}

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Space {
    Arena,
    State,
    Constant,
    Input(usize),
    Output(usize),
}

/// What a launch touches: a place, whether it is written there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touched(Vec<(Space, Range<usize>, bool)>);

impl Touched {
    /// What a launch touches; its working memory is left out where it is to have its own.
    pub fn of(program: &Program, launch: &Launch, own_scratch: bool) -> Touched {
        let lines =
            |range: Range<usize>| range.start / LINE * LINE..range.end.next_multiple_of(LINE);
        let place = |id, written| {
            let buffer = program.buffer(id);
            let space = match buffer.region {
                Region::Arena => Space::Arena,
                Region::State { .. } => Space::State,
                Region::Constant(_) => Space::Constant,
                Region::Input(i) => Space::Input(i),
                Region::Output(i) => Space::Output(i),
            };
            (space, lines(buffer.offset..buffer.offset + buffer.bytes()), written)
        };
        let reads = launch.inputs.iter().map(|&id| place(id, false));
        let mut all: Vec<_> =
            reads.chain(launch.outputs.iter().map(|&id| place(id, true))).collect();
        let bytes = program.kernel(launch.kernel).scratch_bytes();
        if let Some(at) = launch.scratch.filter(|_| bytes > 0 && !own_scratch) {
            all.push((Space::Arena, lines(at..at + bytes), true));
        }
        Touched(all)
    }

    /// Whether one writes what the other reads or writes.
    pub fn conflicts(&self, other: &Touched) -> bool {
        self.0.iter().any(|(space, range, written)| {
            other.0.iter().any(|(other_space, other_range, other_written)| {
                (*written || *other_written)
                    && space == other_space
                    && range.start < other_range.end
                    && other_range.start < range.end
            })
        })
    }
}

/// What each step of an entry touches; `None` for a branch. Launches of other devices than the first have working memory of their
/// own if `own_scratch`.
pub fn touched(program: &Program, entry: &Entry, own_scratch: bool) -> Vec<Option<Touched>> {
    let of = |step: &Step| match step {
        Step::Launch(launch) => {
            Some(Touched::of(program, launch, own_scratch && launch.device.0 != 0))
        }
        Step::Branch { .. } => None,
    };
    entry.steps.iter().map(of).collect()
}

/// The actions of an entry, as its devices are.
pub fn actions(program: &Program, entry: &Entry) -> Vec<Action> {
    actions_of(&devices(entry), &touched(program, entry, false))
}

/// The device of each step; a branch is the first one's.
pub fn devices(entry: &Entry) -> Vec<usize> {
    let of = |step: &Step| match step {
        Step::Launch(launch) => launch.device.0,
        Step::Branch { .. } => 0,
    };
    entry.steps.iter().map(of).collect()
}

/// As [`actions`], of steps on devices that touch memory.
pub fn actions_of(devices: &[usize], touched: &[Option<Touched>]) -> Vec<Action> {
    let mut all = Vec::new();
    let mut started: Option<Range<usize>> = None;
    let mut at = 0;
    while at < devices.len() {
        let device = devices[at];
        let end = (at..devices.len()).find(|&n| devices[n] != device).unwrap_or(devices.len());
        if device != 0 {
            if started.take().is_some() {
                all.push(Action::Join);
            }
            all.push(Action::Start(at..end));
            started = Some(at..end);
            at = end;
            continue;
        }
        if let Some(there) = started.take() {
            let meets = |n: &usize| {
                let own = touched[*n].as_ref();
                there.clone().any(|m| match (own, &touched[m]) {
                    (Some(own), Some(other)) => own.conflicts(other),
                    _ => true,
                })
            };
            let until = (at..end).find(meets).unwrap_or(end);
            if until > at {
                all.push(Action::Here(at..until));
            }
            if until == end && end < devices.len() {
                // The other device's next launches wait for it, too.
                started = Some(there);
                at = end;
                continue;
            }
            all.push(Action::Join);
            at = until;
        }
        if at < end {
            all.push(Action::Here(at..end));
        }
        at = end;
    }
    if started.is_some() {
        all.push(Action::Join);
    }
    all
}

/// Steps of the first device that run while another one does.
pub fn beside(actions: &[Action]) -> usize {
    let mut started = false;
    let mut count = 0;
    for action in actions {
        match action {
            Action::Start(_) => started = true,
            Action::Join => started = false,
            Action::Here(range) => count += if started { range.len() } else { 0 },
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that reads and writes lines of the arena.
    fn step(reads: &[usize], writes: &[usize]) -> Option<Touched> {
        let place =
            |&line: &usize, written| (Space::Arena, line * LINE..(line + 1) * LINE, written);
        let reads = reads.iter().map(|line| place(line, false));
        Some(Touched(reads.chain(writes.iter().map(|line| place(line, true))).collect()))
    }

    #[test]
    fn until_memory_is_shared() {
        // Two branches of one value, then their sum.
        let fork = [
            step(&[], &[0]),
            step(&[0], &[1]),
            step(&[0], &[2]),
            step(&[2], &[3]),
            step(&[1, 3], &[4]),
        ];
        use Action::{Here, Join, Start};
        let found = actions_of(&[0, 1, 0, 0, 0], &fork);
        assert_eq!(found, [Here(0..1), Start(1..2), Here(2..4), Join, Here(4..5)]);
        assert_eq!(beside(&found), 2);
        // The sum on the other device waits for both.
        let found = actions_of(&[0, 1, 0, 0, 1], &fork);
        assert_eq!(found, [Here(0..1), Start(1..2), Here(2..4), Join, Start(4..5), Join]);
        // A chain has nothing that runs beside.
        let chain = [step(&[], &[0]), step(&[0], &[1]), step(&[1], &[2])];
        let found = actions_of(&[0, 1, 0], &chain);
        assert_eq!(found, [Here(0..1), Start(1..2), Join, Here(2..3)]);
        assert_eq!(beside(&found), 0);
    }

    #[test]
    fn memory_that_is_used_again_counts() {
        // The second overwrites what the first still reads; the third writes another part of a line.
        let reused = [step(&[0], &[1]), step(&[2], &[0])];
        use Action::{Here, Join, Start};
        assert_eq!(actions_of(&[1, 0], &reused), [Start(0..1), Join, Here(1..2)]);
        let both_read = [step(&[0], &[1]), step(&[0], &[2])];
        assert_eq!(actions_of(&[1, 0], &both_read), [Start(0..1), Here(1..2), Join]);
        // A branch waits.
        assert_eq!(
            actions_of(&[1, 0], &[reused[0].clone(), None]),
            [Start(0..1), Join, Here(1..2)]
        );
    }
}
