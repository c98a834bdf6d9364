//! What to give up where the registers do not suffice: of one loop or one piece of straight code at a time.

use std::collections::BTreeMap;

use super::allocate::Limits;
use super::flow::Flow;
use super::pipeline::Overlap;
use super::registers::{Class, FIRST_VIRTUAL_UNIT};
use super::schedule::Order;

/// Most rounds in flight of a loop nobody has complained about.
const STAGES: usize = 6;

/// How often a large loop's rounds come to be farther apart before it is not pipelined.
const YIELDS: usize = 3;

/// Instructions of a body that is large.
const LARGE: usize = 64;

/// How the blocks of a function are scheduled. Blocks go by their number before pipelining, [`FlowBlock::origin`].
///
/// [`FlowBlock::origin`]: super::flow::FlowBlock::origin
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Most rounds in flight of a loop; 0 if it is not pipelined.
    stages: BTreeMap<usize, usize>,
    /// Of loops that were short of registers, which are settled: packets from a round to the next, at least, and how often a large loop
    /// got more.
    intervals: BTreeMap<usize, (usize, usize)>,
    /// Orders of blocks that gave way.
    orders: BTreeMap<usize, Order>,
    /// Whether no loop is pipelined, and whether all blocks are in source order.
    plain: bool,
    all_source: bool,
}

impl Plan {
    /// The best schedules without pipelines.
    pub(super) fn plain() -> Self {
        Plan { plain: true, ..Plan::default() }
    }

    /// The shortest live ranges.
    pub(super) fn source() -> Self {
        Plan { plain: true, all_source: true, ..Plan::default() }
    }

    /// Pipelined loops, and the shortest live ranges around them.
    pub(super) fn loops() -> Self {
        Plan { all_source: true, ..Plan::default() }
    }

    /// Most rounds in flight of a loop.
    pub(super) fn stages(&self, origin: usize) -> usize {
        let unless = if self.plain { 0 } else { STAGES };
        self.stages.get(&origin).copied().unwrap_or(unless)
    }

    /// How the rounds of a loop may overlap.
    pub(super) fn overlap(&self, origin: usize) -> Overlap {
        let settled = self.intervals.get(&origin);
        let interval = settled.map_or(0, |(least, _)| *least);
        Overlap { stages: self.stages(origin), interval, settled: settled.is_some() }
    }

    /// Small innermost loops that have given rounds up, the deepest first.
    pub(super) fn given_up(&self, flow: &Flow) -> Vec<usize> {
        let loops = flow.blocks.iter().filter(|block| {
            let small = block.run.len() <= LARGE;
            block.inner.is_some() && small && self.stages(block.origin) < STAGES
        });
        let mut found: Vec<(u32, usize)> = loops.map(|b| (b.depth, b.origin)).collect();
        found.sort_by_key(|&(depth, origin)| (std::cmp::Reverse(depth), origin));
        found.into_iter().map(|(_, origin)| origin).collect()
    }

    /// The same with all rounds of a loop.
    pub(super) fn restored(&self, origin: usize) -> Self {
        let mut plan = self.clone();
        plan.stages.insert(origin, STAGES);
        plan
    }

    /// The order of a block.
    pub(super) fn order(&self, origin: usize) -> Order {
        match self.all_source {
            true => Order::Source,
            false => self.orders.get(&origin).copied().unwrap_or(Order::Critical),
        }
    }

    /// Gives something up where a scheduled flow is short of registers; false if nothing is left there. `pipelined` are
    /// the rounds in flight of its pipelined loops, and the packets between them.
    pub(super) fn relax(
        &mut self,
        flow: &Flow,
        segments: &BTreeMap<u32, Vec<(u32, u32)>>,
        starts: &[u32],
        limits: Limits,
        pipelined: &BTreeMap<usize, (usize, usize)>,
    ) -> bool {
        let crowds = crowds(flow, segments, starts, limits);
        // Even where there are enough, places may not fit together.
        let mut worst: Vec<usize> = (0..crowds.len()).collect();
        worst.sort_by_key(|&i| (std::cmp::Reverse(crowds[i]), i));
        let origin = |index: usize| flow.blocks.get(index).map(|block| block.origin);
        for index in worst {
            // Code around a loop gives way before its rounds do.
            if let Some(origin) = origin(index)
                && !pipelined.contains_key(&origin)
                && self.order(origin) == Order::Critical
            {
                self.orders.insert(origin, Order::Window);
                return true;
            }
            // The loop itself, or the one whose first or last rounds stand here.
            let near = [Some(index), index.checked_add(1), index.checked_sub(1)];
            let rounds = near
                .into_iter()
                .flatten()
                .filter_map(origin)
                .find_map(|origin| Some((origin, *pipelined.get(&origin)?)));
            if let Some((origin, (rounds, interval))) = rounds {
                // Values that live shorter cost nothing.
                let Some(&(_, given)) = self.intervals.get(&origin) else {
                    self.intervals.insert(origin, (0, 0));
                    return true;
                };
                // Large bodies lose much by less overlap: packets between rounds first.
                let large = near.into_iter().flatten().any(|i| {
                    let block = flow.blocks.get(i);
                    block.is_some_and(|b| b.origin == origin && b.run.len() > LARGE)
                });
                if large && given < YIELDS {
                    self.intervals.insert(origin, (interval + 1 + given, given + 1));
                } else {
                    self.stages.insert(origin, if large { 0 } else { rounds.div_ceil(2) });
                }
                return true;
            }
            let Some(origin) = origin(index) else { continue };
            if self.order(origin) != Order::Source {
                self.orders.insert(origin, Order::Source);
                return true;
            }
        }
        false
    }
}

/// For each block by how many registers of a class, at the worst packet, there are too few.
fn crowds(
    flow: &Flow,
    segments: &BTreeMap<u32, Vec<(u32, u32)>>,
    starts: &[u32],
    limits: Limits,
) -> Vec<i64> {
    let classes = [
        (Class::R, limits.scalars, 0),
        (Class::V, limits.vectors, 32),
        (Class::P, Class::P.file(), 64),
        (Class::Q, Class::Q.file(), 68),
        (Class::M, Class::M.file(), 72),
    ];
    let mut crowds = vec![i64::MIN; starts.len()];
    for (class, room, first) in classes {
        // Lives that begin and end at a time.
        let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
        for (&unit, list) in segments {
            let counts = match unit.checked_sub(FIRST_VIRTUAL_UNIT) {
                Some(unit) => flow.classes[unit as usize / 2].half() == class,
                None => (first..first + room).contains(&unit),
            };
            if !counts {
                continue;
            }
            for (start, end) in list.iter().filter(|(start, end)| start < end) {
                *changes.entry(*start).or_default() += 1;
                *changes.entry(*end).or_default() -= 1;
            }
        }
        let (mut alive, mut block) = (0, 0);
        for (time, change) in changes {
            // What lived on belongs to the blocks up to here.
            while block + 1 < starts.len() && 2 * starts[block + 1] <= time {
                block += 1;
                crowds[block] = crowds[block].max(alive - i64::from(room));
            }
            alive += change;
            crowds[block] = crowds[block].max(alive - i64::from(room));
        }
    }
    crowds
}
