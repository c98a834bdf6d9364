//! Offsets in the arena: each item gets a range of bytes for its lifetime, disjoint from those of items live with it.
//!
//! Finding the least peak is hard in general; placing items one by one, each at the lowest offset where it fits, is
//! good if the order of the items is. The classic order is by size, largest first; here several orders compete, and a
//! fixed number of rounds then moves items that stick out forward. The search ends early at the lower bound.
//!
//! Comparing items with each other takes their number squared. Where there are very many, two sweeps over time compete
//! instead, in which memory is taken and given back as a program would.

use std::collections::{BTreeMap, BTreeSet};

/// Something that needs memory for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// Bytes, a multiple of the alignment.
    pub(super) bytes: usize,
    /// Position of the first launch that uses it.
    pub(super) start: usize,
    /// Position of the last launch that uses it.
    pub(super) end: usize,
}

impl Item {
    fn meets(&self, other: &Item) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn span(&self) -> usize {
        self.end - self.start + 1
    }
}

/// Offsets of items.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// What found it.
    pub(super) method: &'static str,
    /// One an item.
    pub(super) offsets: Vec<usize>,
    /// One past the last byte used.
    pub(super) peak: usize,
}

/// Comparisons of two items that the rounds of improvement may take together: what bounds the time, without a clock.
const EFFORT: usize = 20_000_000;

/// Most items whose placement compares items with each other.
const MOST_COMPARED: usize = 1 << 12;

/// Places items by each method; returns the best placement and the peak of each method tried.
pub(super) fn place(
    items: &[Item],
    lower_bound: usize,
    search: bool,
) -> (Placement, Vec<(&'static str, usize)>) {
    if items.len() > MOST_COMPARED {
        return place_many(items, search);
    }
    let mut tried = Vec::new();
    let mut placed: Vec<(Placement, Vec<usize>)> = Vec::new();
    for (method, order) in orders(items, search) {
        let Some((offsets, peak)) = lowest_fit(items, &order, usize::MAX) else { continue };
        tried.push((method, peak));
        placed.push((Placement { method, offsets, peak }, order));
        if peak <= lower_bound {
            break;
        }
    }
    placed.sort_by_key(|(placement, _)| placement.peak);
    let mut best = placed[0].0.clone();
    if search && best.peak > lower_bound {
        // What is best as it comes need not be what can be made best.
        let starts = (EFFORT / (4 * items.len() * items.len()).max(1)).max(1);
        for (start, order) in placed.into_iter().take(starts) {
            let improved = improve(items, order, &start, lower_bound);
            if improved.peak < best.peak {
                best = improved;
            }
            if best.peak <= lower_bound {
                break;
            }
        }
        tried.push(("improved", best.peak));
    }
    (best, tried)
}

/// [`place`] in time that hardly grows faster than the number of items.
fn place_many(items: &[Item], search: bool) -> (Placement, Vec<(&'static str, usize)>) {
    let forward = sweep(items, "sweep");
    let mut tried = vec![(forward.method, forward.peak)];
    let mut best = forward;
    if search {
        // The same backwards in time.
        let last = items.iter().map(|item| item.end).max().unwrap_or(0);
        let mirrored: Vec<Item> = items
            .iter()
            .map(|item| Item { start: last - item.end, end: last - item.start, ..*item })
            .collect();
        let backward = sweep(&mirrored, "sweep-backward");
        tried.push((backward.method, backward.peak));
        if backward.peak < best.peak {
            best = backward;
        }
    }
    (best, tried)
}

/// Places items as they come: each takes the lowest free range that holds it, among as many as [`FREE_RANGES`], else the
/// smallest free range that holds it, else what follows all, and gives it back at its end.
fn sweep(items: &[Item], method: &'static str) -> Placement {
    let mut order: Vec<usize> = (0..items.len()).filter(|&i| items[i].bytes > 0).collect();
    order.sort_by_cached_key(|&i| (items[i].start, std::cmp::Reverse(items[i].span()), i));
    let mut ending = order.clone();
    ending.sort_by_cached_key(|&i| (items[i].end, i));
    let mut ending = ending.into_iter().peekable();
    let mut offsets = vec![0; items.len()];
    let mut free = Free::default();
    let mut peak = 0;
    for index in order {
        while let Some(over) = ending.next_if(|&i| items[i].end < items[index].start) {
            free.give(offsets[over], items[over].bytes);
        }
        offsets[index] = free.take(items[index].bytes);
        peak = peak.max(offsets[index] + items[index].bytes);
    }
    Placement { method, offsets, peak }
}

/// Free ranges that are looked at from the lowest on.
const FREE_RANGES: usize = 64;

/// Free memory below a top, from which on all is free. Neighbouring ranges are one.
#[derive(Default)]
struct Free {
    /// Bytes of each range by its offset.
    ranges: BTreeMap<usize, usize>,
    /// Ranges by bytes and offset.
    sizes: BTreeSet<(usize, usize)>,
    top: usize,
}

impl Free {
    fn take(&mut self, bytes: usize) -> usize {
        let low = self.ranges.iter().take(FREE_RANGES).find(|(_, size)| **size >= bytes);
        let found = low.map(|(&offset, &size)| (size, offset));
        let found = found.or_else(|| self.sizes.range((bytes, 0)..).next().copied());
        let Some((size, offset)) = found else {
            self.top += bytes;
            return self.top - bytes;
        };
        self.remove(offset, size);
        if size > bytes {
            self.insert(offset + bytes, size - bytes);
        }
        offset
    }

    fn give(&mut self, mut offset: usize, mut bytes: usize) {
        if let Some((&before, &size)) = self.ranges.range(..offset).next_back()
            && before + size == offset
        {
            self.remove(before, size);
            (offset, bytes) = (before, size + bytes);
        }
        if let Some(&size) = self.ranges.get(&(offset + bytes)) {
            self.remove(offset + bytes, size);
            bytes += size;
        }
        match offset + bytes == self.top {
            true => self.top = offset,
            false => self.insert(offset, bytes),
        }
    }

    fn insert(&mut self, offset: usize, bytes: usize) {
        self.ranges.insert(offset, bytes);
        self.sizes.insert((bytes, offset));
    }

    fn remove(&mut self, offset: usize, bytes: usize) {
        self.ranges.remove(&offset);
        self.sizes.remove(&(bytes, offset));
    }
}

type Order = (&'static str, Vec<usize>);

/// Orders to place items in; the first alone is the baseline.
fn orders(items: &[Item], all: bool) -> Vec<Order> {
    let indices: Vec<usize> = (0..items.len()).collect();
    let sorted = |method: &'static str, key: &dyn Fn(&Item) -> (u128, usize)| -> Order {
        let mut order = indices.clone();
        order.sort_by_cached_key(|&i| {
            let (first, then) = key(&items[i]);
            (std::cmp::Reverse(first), std::cmp::Reverse(then), i)
        });
        (method, order)
    };
    let mut result = vec![sorted("greedy-by-size", &|item| (item.bytes as u128, item.span()))];
    if !all {
        return result;
    }
    result.push(sorted("by-lifetime", &|item| (item.span() as u128, item.bytes)));
    result.push(sorted("by-area", &|item| (item.bytes as u128 * item.span() as u128, item.bytes)));
    result.push(sorted("by-start", &|item| ((usize::MAX - item.start) as u128, item.bytes)));
    result.push(sorted("by-end", &|item| (item.end as u128, item.bytes)));
    // Bytes that are live during a launch: items of the most crowded launch first.
    let crowd = crowds(items);
    let crowded = |item: &Item| crowd[item.start..=item.end].iter().copied().max().unwrap_or(0);
    result.push(sorted("by-crowd", &|item| (crowded(item) as u128, item.span())));
    result.push(sorted("by-crowd-and-size", &|item| (crowded(item) as u128, item.bytes)));
    result
}

/// Bytes live during each launch.
fn crowds(items: &[Item]) -> Vec<usize> {
    let launches = items.iter().map(|i| i.end + 1).max().unwrap_or(0);
    let mut change = vec![(0, 0); launches + 1];
    for item in items {
        change[item.start].0 += item.bytes;
        change[item.end + 1].1 += item.bytes;
    }
    let mut live = 0;
    change
        .iter()
        .take(launches)
        .map(|(more, less)| {
            live = live + more - less;
            live
        })
        .collect()
}

/// Places items in that order, each at the lowest offset where it fits. Returns offsets and peak; `None` as soon as the peak
/// is above the limit.
fn lowest_fit(items: &[Item], order: &[usize], limit: usize) -> Option<(Vec<usize>, usize)> {
    let mut offsets = vec![0; items.len()];
    // Placed items by offset.
    let mut placed: Vec<(usize, usize)> = Vec::with_capacity(items.len());
    let mut peak = 0;
    for &index in order {
        let item = &items[index];
        if item.bytes == 0 {
            continue;
        }
        let mut offset = 0;
        for &(start, other) in &placed {
            if start >= offset + item.bytes {
                break;
            }
            if items[other].meets(item) {
                offset = offset.max(start + items[other].bytes);
            }
        }
        offsets[index] = offset;
        peak = peak.max(offset + item.bytes);
        if peak > limit {
            return None;
        }
        let at = placed.partition_point(|&(start, _)| start <= offset);
        placed.insert(at, (offset, index));
    }
    Some((offsets, peak))
}

/// Rounds of moving an item that ends at the peak forward in the order, and others out of its way, kept unless they make it worse.
fn improve(
    items: &[Item],
    mut order: Vec<usize>,
    start: &Placement,
    lower_bound: usize,
) -> Placement {
    let rounds = (EFFORT / (items.len() * items.len()).max(1)).clamp(4, 400);
    let mut best = Placement { method: "improved", ..start.clone() };
    let mut current = best.clone();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..rounds {
        // Knuth's linear congruential generator: any fixed sequence would do.
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let top: Vec<usize> = (0..order.len())
            .filter(|&at| {
                let index = order[at];
                items[index].bytes > 0
                    && current.offsets[index] + items[index].bytes == current.peak
            })
            .collect();
        let Some(&at) = top.get((random >> 33) as usize % top.len().max(1)) else { break };
        let to = (random >> 13) as usize % (at + 1);
        let mut changed = order.clone();
        let index = changed.remove(at);
        changed.insert(to, index);
        // In half of the rounds one of those that it went in front of, and that are live with it, moves anywhere, too.
        if random >> 63 == 1 {
            let passed: Vec<usize> =
                (to + 1..=at).filter(|&other| items[changed[other]].meets(&items[index])).collect();
            if let Some(&from) = passed.get((random >> 23) as usize % passed.len().max(1)) {
                let other = changed.remove(from);
                changed.insert((random >> 43) as usize % (changed.len() + 1), other);
            }
        }
        let Some((offsets, peak)) = lowest_fit(items, &changed, current.peak) else { continue };
        order = changed;
        current = Placement { method: "improved", offsets, peak };
        if peak < best.peak {
            best = current.clone();
        }
        if peak <= lower_bound {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(items: &[Item]) -> usize {
        crowds(items).into_iter().max().unwrap_or(0)
    }

    /// Panics if two items that are live together share a byte, or one lies beyond the peak.
    fn check(items: &[Item], placement: &Placement) {
        for (i, a) in items.iter().enumerate() {
            assert!(a.bytes == 0 || placement.offsets[i] + a.bytes <= placement.peak);
            for (j, b) in items.iter().enumerate().skip(i + 1) {
                let (x, y) = (placement.offsets[i], placement.offsets[j]);
                let apart = x + a.bytes <= y || y + b.bytes <= x;
                let live_together = a.start <= b.end && b.start <= a.end;
                assert!(apart || !live_together || a.bytes == 0 || b.bytes == 0, "{a:?} {b:?}");
            }
        }
    }

    fn random_items(count: usize, seed: u64) -> Vec<Item> {
        let mut state = seed;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(12345);
            (state >> 33) % n
        };
        (0..count)
            .map(|_| {
                let start = below(count as u64) as usize;
                let span = if below(4) == 0 { below(count as u64) } else { below(6) } as usize;
                Item { bytes: below(40) as usize * 64, start, end: start + span }
            })
            .collect()
    }

    #[test]
    fn random_items_are_disjoint_and_close_to_the_bound() {
        let (mut baseline, mut found, mut least) = (0, 0, 0);
        for seed in 0..60 {
            let items = random_items(8 + 3 * seed, seed as u64);
            let bound = bound(&items);
            let (greedy, _) = place(&items, bound, false);
            let (best, tried) = place(&items, bound, true);
            check(&items, &greedy);
            check(&items, &best);
            assert_eq!(tried.iter().map(|(_, peak)| *peak).min(), Some(best.peak));
            assert!(bound <= best.peak && best.peak <= greedy.peak);
            baseline += greedy.peak;
            found += best.peak;
            least += bound;
        }
        println!("greedy by size {baseline}, best {found}, lower bound {least}");
        assert!(baseline * 100 > least * 102, "the items are too easy to place");
        assert!(found * 100 < least * 101);
    }

    #[test]
    fn very_many_items_are_placed_in_sweeps() {
        let items = random_items(5000, 7);
        let (best, tried) = place(&items, bound(&items), true);
        check(&items, &best);
        assert_eq!(tried.iter().map(|(method, _)| *method).collect::<Vec<_>>().len(), 2);
        assert!(bound(&items) <= best.peak && best.peak * 100 < bound(&items) * 110);
        // The values of a forward pass, all kept for the backward pass, and what each step needs on the way.
        let count = 200_000;
        let items: Vec<Item> = (0..count)
            .flat_map(|i| {
                let kept = Item { bytes: 64 + i % 3 * 64, start: i, end: 2 * count - i };
                [kept, Item { bytes: 128, start: i, end: i + 1 }]
            })
            .collect();
        let (best, _) = place(&items, bound(&items), true);
        assert!(best.peak <= bound(&items) + 1024, "{} of {}", best.peak, bound(&items));
    }

    #[test]
    fn no_items_need_no_memory() {
        let (placement, _) = place(&[], 0, true);
        assert_eq!(placement.peak, 0);
        let empty = Item { bytes: 0, start: 0, end: 3 };
        assert_eq!(place(&[empty; 2], 0, true).0.offsets, [0, 0]);
    }
}
