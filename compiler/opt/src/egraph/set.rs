//! Sets of classes with the sum of their costs, which share what they have in common.
//!
//! A set is a binary tree by the bits of its members, so that equal sets of equal history are one tree: sets that
//! differ in a few members are united, compared and extended in the time of those members, not of all. The best terms
//! of a graph's classes are such sets, each its operands' with one member more.

use std::sync::Arc;

use trainc_ir::target::Cost;

/// Bits that one level of the tree decides: sixteen branches.
const BITS: u32 = 4;
const BRANCHES: usize = 1 << BITS;

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Set(Option<Arc<Tree>>);

#[derive(Debug)]
struct Tree {
    /// Sum of the members' costs.
    cost: Cost,
    /// Number of members.
    size: usize,
    /// A mark that sets of other members or costs do not have (but for the odds of 64 bits).
    mark: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// One member.
    Member(u32),
    /// Members with the same bits above `shift + BITS`, by the bits at `shift`.
    Branches { shift: u32, prefix: u32, children: Box<[Option<Arc<Tree>>; BRANCHES]> },
}

/// Spreads the bits of a number (the finalizer of Steele, Lea and Flood's SplitMix).
fn spread(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn above(member: u32, shift: u32) -> u32 {
    member.checked_shr(shift + BITS).unwrap_or(0)
}

fn branch(member: u32, shift: u32) -> usize {
    (member >> shift) as usize % BRANCHES
}

impl Tree {
    fn member(member: u32, cost: Cost) -> Arc<Tree> {
        let own = cost.cycles().unwrap_or(u64::MAX);
        let mark = spread(spread(u64::from(member) + 1).wrapping_add(own));
        Arc::new(Tree { cost, size: 1, mark, kind: Kind::Member(member) })
    }

    fn branches(
        shift: u32,
        prefix: u32,
        children: Box<[Option<Arc<Tree>>; BRANCHES]>,
    ) -> Arc<Tree> {
        let (mut cost, mut size, mut mark) = (Cost::ZERO, 0, 0u64);
        for child in children.iter().flatten() {
            cost = cost + child.cost;
            size += child.size;
            mark = mark.wrapping_add(child.mark);
        }
        Arc::new(Tree { cost, size, mark, kind: Kind::Branches { shift, prefix, children } })
    }

    /// Some member, to tell where the tree belongs.
    fn place(&self) -> (u32, u32) {
        match &self.kind {
            Kind::Member(member) => (0, *member),
            Kind::Branches { shift, prefix, .. } => {
                (*shift, prefix.checked_shl(shift + BITS).unwrap_or(0))
            }
        }
    }

    fn union(a: &Arc<Tree>, b: &Arc<Tree>) -> Arc<Tree> {
        if Arc::ptr_eq(a, b) {
            return a.clone();
        }
        let ((level_a, some_a), (level_b, some_b)) = (a.place(), b.place());
        match (&a.kind, &b.kind) {
            (Kind::Member(x), Kind::Member(y)) if x == y => return a.clone(),
            (
                Kind::Branches { shift, prefix, children },
                Kind::Branches { shift: other_shift, prefix: other, children: others },
            ) if shift == other_shift && prefix == other => {
                let mut united = children.clone();
                let mut changed = false;
                for (child, other) in united.iter_mut().zip(others.iter()) {
                    let new = match (&*child, other) {
                        (Some(a), Some(b)) => Some(Tree::union(a, b)),
                        (None, Some(b)) => Some(b.clone()),
                        _ => continue,
                    };
                    changed |= !matches!((&*child, &new), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
                    *child = new;
                }
                return if changed { Tree::branches(*shift, *prefix, united) } else { a.clone() };
            }
            // One lies within a branch of the other.
            (Kind::Branches { shift, prefix, children }, _)
                if (level_a > level_b || matches!(b.kind, Kind::Member(_)))
                    && above(some_b, *shift) == *prefix =>
            {
                return Tree::within(a, *shift, *prefix, children, b, some_b, false);
            }
            (_, Kind::Branches { shift, prefix, children })
                if (level_b > level_a || matches!(a.kind, Kind::Member(_)))
                    && above(some_a, *shift) == *prefix =>
            {
                return Tree::within(b, *shift, *prefix, children, a, some_a, true);
            }
            _ => {}
        }
        // Apart: a branch above both.
        let mut shift = level_a.max(level_b);
        while above(some_a, shift) != above(some_b, shift) {
            shift += BITS;
        }
        let mut children: Box<[Option<Arc<Tree>>; BRANCHES]> = Box::default();
        children[branch(some_a, shift)] = Some(a.clone());
        children[branch(some_b, shift)] = Some(b.clone());
        Tree::branches(shift, above(some_a, shift), children)
    }

    /// `inner` put into a branch of `outer`, whose members stand where both have one unless `swapped`.
    fn within(
        outer: &Arc<Tree>,
        shift: u32,
        prefix: u32,
        children: &[Option<Arc<Tree>>; BRANCHES],
        inner: &Arc<Tree>,
        some: u32,
        swapped: bool,
    ) -> Arc<Tree> {
        let at = branch(some, shift);
        let new = match &children[at] {
            None => inner.clone(),
            Some(child) if swapped => Tree::union(inner, child),
            Some(child) => Tree::union(child, inner),
        };
        if children[at].as_ref().is_some_and(|child| Arc::ptr_eq(child, &new)) {
            return outer.clone();
        }
        let mut children = Box::new(children.clone());
        children[at] = Some(new);
        Tree::branches(shift, prefix, children)
    }
}

impl Set {
    /// The set of one class.
    pub(super) fn of(member: usize, cost: Cost) -> Set {
        Set(Some(Tree::member(member as u32, cost)))
    }

    /// Sum of the members' costs.
    pub(super) fn cost(&self) -> Cost {
        self.0.as_ref().map_or(Cost::ZERO, |tree| tree.cost)
    }

    /// Number of members.
    pub(super) fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |tree| tree.size)
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        let member = member as u32;
        let mut at = self.0.as_ref();
        while let Some(tree) = at {
            match &tree.kind {
                Kind::Member(other) => return *other == member,
                Kind::Branches { shift, prefix, children } => {
                    if above(member, *shift) != *prefix {
                        return false;
                    }
                    at = children[branch(member, *shift)].as_ref();
                }
            }
        }
        false
    }

    /// The members of both; where one member has two costs the first set's stands.
    pub(super) fn union(&self, other: &Set) -> Set {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Set(Some(Tree::union(a, b))),
            (Some(_), None) => self.clone(),
            (None, _) => other.clone(),
        }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || (a.cost, a.mark) == (b.cost, b.mark),
            (None, None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sets_are_those_of_the_standard_library() {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(12345);
            (state >> 33) % n
        };
        for limit in [3, 17, 300, 1 << 20, 1 << 32] {
            let mut sets: Vec<(Set, BTreeMap<usize, u64>)> = vec![Default::default()];
            for _ in 0..400 {
                let member = below(limit) as usize;
                let cost = spread(member as u64) % 100;
                let one = (Set::of(member, Cost::new(cost)), BTreeMap::from([(member, cost)]));
                let (a, b) = (below(sets.len() as u64), below(sets.len() as u64));
                let (a, b) = (&sets[a as usize], &sets[b as usize]);
                let set = a.0.union(&b.0).union(&one.0);
                let mut expected = a.1.clone();
                expected.extend(&b.1);
                expected.extend(&one.1);
                assert_eq!(set.cost(), Cost::new(expected.values().sum()));
                assert_eq!(set.size(), expected.len());
                let probe = below(limit) as usize;
                assert!(set.contains(member));
                assert_eq!(set.contains(probe), expected.contains_key(&probe));
                let same = sets.iter().find(|(other, _)| *other == set);
                assert_eq!(same.is_some(), sets.iter().any(|(_, other)| *other == expected));
                sets.push((set, expected));
            }
        }
    }

    #[test]
    fn a_union_with_a_part_of_it_is_the_same_tree() {
        let member = |i: usize| Set::of(i, Cost::new(1));
        let many = (0..5000).fold(Set::default(), |set, i| set.union(&member(i)));
        let more = many.union(&member(70_000));
        let (Some(tree), Some(again)) = (&more.0, &more.union(&many).0) else { panic!("members") };
        assert!(Arc::ptr_eq(tree, again));
        assert_eq!(more.cost(), Cost::new(5001));
    }
}
