//! Greedy DAG extraction: the cheapest node of each class, where a shared class is paid once.
//!
//! Each class keeps the set of classes that its best term uses; its cost is the sum over that set. A node whose set
//! would hold its own class is refused, so cycles need no special care. Greedy is not optimal, and does not claim to
//! be; costs are integers, classes are visited in a fixed order and ties go to the term of fewer classes, then to the
//! smaller node, so the result is the same on every machine.
//!
//! The idea of cost sets is that of the extraction gym's greedy-dag extractor.

use std::collections::{BTreeMap, BTreeSet};

use egg::{Id, Language};
use trainc_ir::target::Cost;

use super::language::{Graph, Node};
use super::set::Set;

/// The chosen node of each class that has a finite cost.
#[derive(Clone, Debug, Default)]
pub struct Extraction {
    choice: BTreeMap<Id, Node>,
    cost: BTreeMap<Id, Cost>,
}

impl Extraction {
    /// The node chosen for a class; `None` if every term costs infinity.
    pub fn node(&self, egraph: &Graph, id: Id) -> Option<&Node> {
        self.choice.get(&egraph.find(id))
    }

    /// Cost of a class's best term with everything below it, shared parts once.
    pub fn cost(&self, egraph: &Graph, id: Id) -> Cost {
        self.cost.get(&egraph.find(id)).copied().unwrap_or(Cost::INFEASIBLE)
    }
}

/// A node of a class: its own cost and the positions of its operands' classes.
struct Candidate {
    node: Node,
    own: Cost,
    children: Vec<usize>,
}

/// The best term of a class so far.
#[derive(Clone, PartialEq)]
struct Best {
    /// Position among the class's candidates.
    candidate: usize,
    /// Cost of the set.
    total: Cost,
    /// The classes that the term uses, its own too.
    set: Set,
}

/// Most times that a class is looked at. Costs settle after a few; the bound is for cycles that never do.
const MOST_VISITS: usize = 1000;

/// Extracts by `cost`, the cost of a node alone (its children's are added here).
pub fn extract(egraph: &Graph, cost: impl Fn(&Graph, Id, &Node) -> Cost) -> Extraction {
    let mut ids: Vec<Id> = egraph.classes().map(|class| class.id).collect();
    ids.sort_unstable();
    let position: BTreeMap<Id, usize> = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
    let candidates: Vec<Vec<Candidate>> = ids
        .iter()
        .enumerate()
        .map(|(i, &id)| {
            let mut candidates: Vec<Candidate> = egraph[id]
                .nodes
                .iter()
                .map(|node| Candidate {
                    node: node.clone(),
                    own: cost(egraph, id, node),
                    children: node.children().iter().map(|&c| position[&egraph.find(c)]).collect(),
                })
                .filter(|candidate| candidate.own != Cost::INFEASIBLE)
                .collect();
            candidates.sort_by(|a, b| a.node.cmp(&b.node));
            for candidate in &candidates {
                candidate.children.iter().for_each(|&c| parents[c].push(i));
            }
            candidates
        })
        .collect();
    parents.iter_mut().for_each(|p| {
        p.sort_unstable();
        p.dedup();
    });
    // Operands before their users, as far as cycles let them be, so that most classes are looked at once.
    let order = post_order(&candidates);
    let mut rank = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &class)| rank[class] = at);
    let mut best: Vec<Option<Best>> = vec![None; ids.len()];
    let mut visits = vec![0usize; ids.len()];
    let is_leaf = |class: &usize| candidates[*class].iter().any(|c| c.children.is_empty());
    let mut dirty: BTreeSet<usize> =
        (0..ids.len()).filter(is_leaf).map(|class| rank[class]).collect();
    while let Some(at) = dirty.pop_first() {
        let class = order[at];
        visits[class] += 1;
        if visits[class] > MOST_VISITS {
            continue;
        }
        // The current choice again first: what lies below it may have changed.
        let current = best[class].take();
        let mut chosen: Option<Best> =
            current.as_ref().and_then(|b| combine(&best, class, b.candidate, &candidates[class]));
        for candidate in 0..candidates[class].len() {
            let Some(other) = combine(&best, class, candidate, &candidates[class]) else {
                continue;
            };
            // Of equal cost the one of fewer parts.
            let key = |best: &Best| (best.total, best.set.size());
            if chosen.as_ref().is_none_or(|b| key(&other) < key(b)) {
                chosen = Some(other);
            }
        }
        let improved = current.as_ref().map(|b| &b.set) != chosen.as_ref().map(|b| &b.set);
        best[class] = chosen;
        if improved {
            dirty.extend(parents[class].iter().map(|&p| rank[p]));
        }
    }
    let mut extraction = Extraction::default();
    for (class, (best, mut candidates)) in best.into_iter().zip(candidates).enumerate() {
        if let Some(best) = best {
            extraction.cost.insert(ids[class], best.total);
            extraction.choice.insert(ids[class], candidates.swap_remove(best.candidate).node);
        }
    }
    extraction
}

/// Classes after those that their candidates use, but for cycles.
fn post_order(candidates: &[Vec<Candidate>]) -> Vec<usize> {
    let mut entered = vec![false; candidates.len()];
    let mut order = Vec::with_capacity(candidates.len());
    for root in 0..candidates.len() {
        if std::mem::replace(&mut entered[root], true) {
            continue;
        }
        let operands = |class: usize| candidates[class].iter().flat_map(|c| &c.children);
        let mut stack = vec![(root, operands(root))];
        while let Some((class, operands_left)) = stack.last_mut() {
            match operands_left.find(|&&child| !entered[child]) {
                Some(&child) => {
                    entered[child] = true;
                    stack.push((child, operands(child)));
                }
                None => {
                    order.push(*class);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// The term of a candidate with the best terms of its operands, unless that is not known or holds the class itself.
fn combine(
    best: &[Option<Best>],
    class: usize,
    position: usize,
    candidates: &[Candidate],
) -> Option<Best> {
    let candidate = &candidates[position];
    let mut below = Set::default();
    for &child in &candidate.children {
        below = below.union(&best[child].as_ref()?.set);
    }
    if below.contains(class) {
        return None;
    }
    let set = below.union(&Set::of(class, candidate.own));
    Some(Best { candidate: position, total: set.cost(), set })
}
