//! Devices of launches: a program in its order is a chain, of which each launch runs on one of the target's devices.
//!
//! The dynamic programme of Mandheling (Xu et al., MobiCom 2022): what the cheapest way costs that ends on a device after
//! `i` launches follows from those after `i - 1`, by staying or by a switch. Operands and results of an entry are the first
//! device's, so that a switch is charged at the ends, too. Linear in the launches, and optimal for this cost; that a switch
//! is charged between neighbours, and not along what flows, makes it an estimate, and so does that nothing overlaps. Then
//! launches change their device one by one as long as that makes the whole shorter with what runs beside each other
//! ([`trainc_ir::overlap`]).

use trainc_ir::Verified;
use trainc_ir::overlap::{self, Action};
use trainc_ir::program::{DeviceId, Entry, Kernel, Program, Step};
use trainc_ir::program_verify::{ProgramErrors, verify_program};
use trainc_ir::target::Cost;

/// Where a chain runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The device of each launch.
    pub devices: Vec<DeviceId>,
    /// What it costs with its switches.
    pub cost: Cost,
}

/// The cheapest assignment of a chain; of equal ones, one that stays where it is.
///
/// `costs` has a row for each launch with its cost on each device, `switch` is the cost of going from one to another. All
/// rows have one length, at least 1. A launch that runs nowhere makes the cost infeasible.
pub fn assign(costs: &[Vec<Cost>], switch: Cost) -> Assignment {
    let count = costs.first().map_or(1, Vec::len);
    // Of each device, the cost of the cheapest way there; of each launch and device, where that way was before.
    let mut ways: Vec<Cost> =
        (0..count).map(|d| if d == 0 { Cost::ZERO } else { switch }).collect();
    let mut before: Vec<Vec<usize>> = Vec::with_capacity(costs.len());
    for (i, row) in costs.iter().enumerate() {
        let reach = |to: usize| {
            let from = |from: usize| match from == to {
                true => ways[from],
                false => ways[from] + switch,
            };
            // The way that stays comes first, so that it wins where others cost as much. Before the first launch all
            // comes from the first device, which is what `ways` holds.
            let others = (0..count).filter(|&other| other != to && i > 0);
            std::iter::once(to).chain(others).map(|d| (from(d), d)).min_by_key(|(cost, _)| *cost)
        };
        let reached: Vec<(Cost, usize)> =
            (0..count).map(|to| reach(to).unwrap_or((Cost::INFEASIBLE, to))).collect();
        ways = reached.iter().zip(row).map(|((cost, _), launch)| *cost + *launch).collect();
        before.push(reached.into_iter().map(|(_, from)| from).collect());
    }
    let back = |d: usize| if d == 0 || costs.is_empty() { ways[d] } else { ways[d] + switch };
    let mut device = (0..count).min_by_key(|&d| back(d)).unwrap_or(0);
    let cost = back(device);
    let mut devices = vec![DeviceId(0); costs.len()];
    for (at, from) in before.iter().enumerate().rev() {
        devices[at] = DeviceId(device);
        device = from[device];
    }
    Assignment { devices, cost }
}

/// Gives each launch its device by costs of kernels on devices, in one unit with the switch. A program of one device, or
/// with branches, stays as it is.
///
/// # Errors
/// None, if the program was verified before.
pub fn assign_program(
    program: Verified<Program>,
    cost: &dyn Fn(&Kernel, DeviceId) -> Cost,
    switch: Cost,
) -> Result<Verified<Program>, ProgramErrors> {
    let mut program = program.into_inner();
    for at in 0..program.entries.len() {
        let costs = costs(&program, &program.entries[at], cost);
        let devices = assign(&costs, switch).devices;
        place(&mut program.entries[at], &devices);
        improve(&mut program, at, &costs, switch);
    }
    verify_program(program)
}

/// Times of an entry's steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Times {
    /// When each starts.
    pub starts: Vec<Cost>,
    /// When all is done.
    pub end: Cost,
}

/// When the steps of an entry run: what another device starts with begins after a switch and is known to be done after another
/// one, and the first device goes on meanwhile.
pub fn times(actions: &[Action], devices: &[usize], costs: &[Vec<Cost>], switch: Cost) -> Times {
    let (mut now, mut done) = (Cost::ZERO, Cost::ZERO);
    let mut starts = vec![Cost::ZERO; devices.len()];
    let mut run = |range: &std::ops::Range<usize>, mut at: Cost| {
        for step in range.clone() {
            starts[step] = at;
            at = at + costs[step][devices[step]];
        }
        at
    };
    for action in actions {
        match action {
            Action::Here(range) => now = run(range, now),
            Action::Start(range) => done = run(range, now + switch) + switch,
            Action::Join => now = now.max(done),
        }
    }
    Times { starts, end: now }
}

/// Most launches of a program whose devices are changed one by one.
const CHANGED: usize = 400;
/// Rounds over all launches, at most.
const ROUNDS: usize = 4;

/// Changes devices of launches as long as the whole takes less, where launches run beside each other.
fn improve(program: &mut Program, at: usize, costs: &[Vec<Cost>], switch: Cost) {
    let entry = &program.entries[at];
    if costs.len() != entry.steps.len() || costs.len() > CHANGED {
        return;
    }
    let mut devices = overlap::devices(entry);
    // Of each step here and elsewhere, where it has working memory of its own.
    let here = overlap::touched(program, entry, false);
    let mut moved = entry.clone();
    place(&mut moved, &vec![DeviceId(1); devices.len()]);
    let there = overlap::touched(program, &moved, true);
    let end = |devices: &[usize]| {
        let touched: Vec<_> = devices
            .iter()
            .enumerate()
            .map(|(n, &device)| if device == 0 { here[n].clone() } else { there[n].clone() })
            .collect();
        times(&overlap::actions_of(devices, &touched), devices, costs, switch).end
    };
    let mut best = end(&devices);
    for _ in 0..ROUNDS {
        let before = best;
        for step in 0..devices.len() {
            let own = devices[step];
            for other in (0..program.devices.len()).filter(|&other| other != own) {
                devices[step] = other;
                let found = end(&devices);
                if found < best {
                    best = found;
                    break;
                }
                devices[step] = own;
            }
        }
        if best == before {
            break;
        }
    }
    let devices: Vec<DeviceId> = devices.into_iter().map(DeviceId).collect();
    place(&mut program.entries[at], &devices);
}

/// Gives launches of other devices than the first working memory of their own behind the arena, if more runs beside each other
/// then, and the arena stays within the limit. Depends on the program and its devices alone.
///
/// # Errors
/// None, if the program was verified before.
pub fn with_own_scratch(
    program: Verified<Program>,
    alignment: usize,
    limit: Option<usize>,
) -> Result<Verified<Program>, ProgramErrors> {
    let mut program = program.into_inner();
    let beside = |own_scratch: bool| -> usize {
        let of = |entry: &Entry| {
            let touched = overlap::touched(&program, entry, own_scratch);
            overlap::beside(&overlap::actions_of(&overlap::devices(entry), &touched))
        };
        program.entries.iter().map(of).sum()
    };
    let at = program.memory.arena_bytes.next_multiple_of(alignment);
    let mut most = 0;
    let more = beside(true) > beside(false);
    let mut entries = program.entries.clone();
    for step in entries.iter_mut().flat_map(|entry| &mut entry.steps) {
        if let Step::Launch(launch) = step
            && launch.device.0 != 0
            && launch.scratch.is_some()
        {
            most = most.max(program.kernel(launch.kernel).scratch_bytes());
            launch.scratch = Some(at);
        }
    }
    if more && limit.is_none_or(|limit| at + most <= limit) {
        program.entries = entries;
        program.memory.arena_bytes = at + most.next_multiple_of(alignment);
    }
    verify_program(program)
}

/// Gives the launches of each entry, in order, these devices.
///
/// # Errors
/// If there is no such device.
pub fn with_devices(
    program: Verified<Program>,
    devices: &[Vec<DeviceId>],
) -> Result<Verified<Program>, ProgramErrors> {
    let mut program = program.into_inner();
    for (entry, devices) in program.entries.iter_mut().zip(devices) {
        place(entry, devices);
    }
    verify_program(program)
}

/// What each launch of an entry costs on each device of the program.
pub fn costs(
    program: &Program,
    entry: &Entry,
    cost: &dyn Fn(&Kernel, DeviceId) -> Cost,
) -> Vec<Vec<Cost>> {
    let launches = entry.steps.iter().filter_map(|step| match step {
        Step::Launch(launch) => Some(launch),
        Step::Branch { .. } => None,
    });
    let row = |kernel: &Kernel| {
        (0..program.devices.len()).map(|device| cost(kernel, DeviceId(device))).collect()
    };
    launches.map(|launch| row(program.kernel(launch.kernel))).collect()
}

fn place(entry: &mut Entry, devices: &[DeviceId]) {
    let launches = entry.steps.iter_mut().filter_map(|step| match step {
        Step::Launch(launch) => Some(launch),
        Step::Branch { .. } => None,
    });
    launches.zip(devices).for_each(|(launch, &device)| launch.device = device);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an assignment costs.
    fn total(costs: &[Vec<Cost>], switch: Cost, devices: &[usize]) -> Cost {
        let mut at = 0;
        let mut total = Cost::ZERO;
        for (row, &device) in costs.iter().zip(devices) {
            total = total + row[device] + if device == at { Cost::ZERO } else { switch };
            at = device;
        }
        total + if at == 0 { Cost::ZERO } else { switch }
    }

    /// The least that any assignment costs.
    fn least(costs: &[Vec<Cost>], switch: Cost, count: usize) -> Cost {
        let all = count.pow(costs.len() as u32);
        let digits = |n: usize| (0..costs.len() as u32).map(move |i| n / count.pow(i) % count);
        (0..all).map(|n| total(costs, switch, &digits(n).collect::<Vec<_>>())).min().unwrap()
    }

    /// xorshift64*.
    fn below(state: &mut u64, limit: u64) -> u64 {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn numbers(assignment: &Assignment) -> Vec<usize> {
        assignment.devices.iter().map(|device| device.0).collect()
    }

    #[test]
    fn as_cheap_as_the_cheapest_of_all() {
        let mut random = 7;
        for chain in 0..200 {
            // Of few different costs, so that many ways cost the same; some launches run on one device alone.
            let count = if chain % 4 == 3 { 3 } else { 2 };
            let length = 1 + below(&mut random, 8) as usize;
            let switch = Cost::new(below(&mut random, 12));
            let mut cost = || match below(&mut random, 12) {
                11 => Cost::INFEASIBLE,
                cost => Cost::new(cost * cost),
            };
            let costs: Vec<Vec<Cost>> =
                (0..length).map(|_| (0..count).map(|_| cost()).collect()).collect();
            let found = assign(&costs, switch);
            let expected = least(&costs, switch, count);
            assert_eq!(found.cost, expected, "chain {chain}: {costs:?} {switch:?}");
            let devices = numbers(&found);
            assert_eq!(total(&costs, switch, &devices), expected, "{devices:?} of {costs:?}");
        }
    }

    /// A chain like the paper's: convolutions much faster on the DSP, transposition and normalization much slower. The
    /// numbers are this test's own, in milliseconds; a switch takes the 25 that the paper measured on a XiaoMI 10.
    #[test]
    fn transposition_and_normalization_run_on_the_processor() {
        let launches = [
            ("convolution", 180, 40),
            ("relu", 4, 2),
            ("convolution", 300, 60),
            ("transpose", 20, 90),
            ("normalization", 25, 130),
            ("convolution", 260, 50),
            ("requantize", 6, 3),
        ];
        let costs: Vec<Vec<Cost>> =
            launches.map(|(_, cpu, dsp)| vec![Cost::new(cpu), Cost::new(dsp)]).into();
        let found = assign(&costs, Cost::new(25));
        assert_eq!(numbers(&found), [1, 1, 1, 0, 0, 1, 1]);
        assert_eq!(found.cost, Cost::new(40 + 2 + 60 + 20 + 25 + 50 + 3 + 4 * 25));
        // Where a switch is dear nothing leaves the processor.
        assert_eq!(numbers(&assign(&costs, Cost::new(400))), [0; 7]);
    }

    #[test]
    fn what_runs_beside_ends_with_the_later() {
        let cost = |n| vec![Cost::new(n), Cost::new(n)];
        let costs = [cost(5), cost(100), cost(30), cost(7)];
        use Action::{Here, Join, Start};
        let actions = [Here(0..1), Start(1..2), Here(2..3), Join, Here(3..4)];
        let found = times(&actions, &[0, 1, 0, 0], &costs, Cost::new(10));
        assert_eq!(found.starts, [0, 15, 5, 125].map(Cost::new));
        assert_eq!(found.end, Cost::new(132));
        // One after the other, it is what the dynamic programme counts.
        let actions = [Here(0..1), Start(1..2), Join, Here(2..4)];
        let found = times(&actions, &[0, 1, 0, 0], &costs, Cost::new(10));
        assert_eq!(found.end, total(&costs, Cost::new(10), &[0, 1, 0, 0]));
    }

    #[test]
    fn equal_ways_stay() {
        let same = |n: u64| vec![Cost::new(n), Cost::new(n)];
        assert_eq!(numbers(&assign(&[same(3), same(1), same(4)], Cost::ZERO)), [0, 0, 0]);
        let there = vec![Cost::INFEASIBLE, Cost::new(1)];
        let costs = [there.clone(), same(3), there];
        assert_eq!(numbers(&assign(&costs, Cost::ZERO)), [1, 1, 1]);
        assert_eq!(assign(&[], Cost::new(9)), Assignment { devices: vec![], cost: Cost::ZERO });
        let nowhere = [vec![Cost::INFEASIBLE; 2]];
        assert_eq!(assign(&nowhere, Cost::ZERO).cost, Cost::INFEASIBLE);
    }
}
