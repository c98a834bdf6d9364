//! Greedy DAG extraction: the cheapest node of each class, where a shared class is paid once.
//!
//! Each class keeps the set of classes that its best term uses; its cost is the sum over that set. A node whose set
//! would hold its own class is refused, so cycles need no special care. Greedy is not optimal, and does not claim to
//! be; costs are integers, classes are visited in a fixed order and ties go to the smaller node, so the result is the
//! same on every machine.
//!
//! The idea of cost sets is that of the extraction gym's greedy-dag extractor.

use std::collections::BTreeMap;

use egg::{Id, Language};
use trainc_ir::target::Cost;

use super::language::{Graph, Node};

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

/// A set of classes as bits.
#[derive(Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(classes: usize) -> Set {
        Set(vec![0; classes.div_ceil(64)])
    }

    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    fn contains(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    fn union(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        })
    }
}

struct Best {
    node: Node,
    own: Cost,
    total: Cost,
    set: Set,
}

/// Extracts by `cost`, the cost of a node alone (its children's are added here).
pub fn extract(egraph: &Graph, cost: impl Fn(&Graph, Id, &Node) -> Cost) -> Extraction {
    let mut ids: Vec<Id> = egraph.classes().map(|class| class.id).collect();
    ids.sort_unstable();
    let position: BTreeMap<Id, usize> = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
    let nodes: Vec<Vec<(Node, Cost, Vec<usize>)>> = ids
        .iter()
        .enumerate()
        .map(|(i, &id)| {
            let mut nodes: Vec<(Node, Cost, Vec<usize>)> = egraph[id]
                .nodes
                .iter()
                .map(|node| {
                    let children: Vec<usize> =
                        node.children().iter().map(|&c| position[&egraph.find(c)]).collect();
                    (node.clone(), cost(egraph, id, node), children)
                })
                .filter(|(_, cost, _)| *cost != Cost::INFEASIBLE)
                .collect();
            nodes.sort_by(|a, b| a.0.cmp(&b.0));
            for (_, _, children) in &nodes {
                children.iter().for_each(|&c| parents[c].push(i));
            }
            nodes
        })
        .collect();
    parents.iter_mut().for_each(|p| {
        p.sort_unstable();
        p.dedup();
    });
    let mut best: Vec<Option<Best>> = (0..ids.len()).map(|_| None).collect();
    // A worklist in rounds, each in class order. Costs only fall, and rounds are bounded besides.
    let mut dirty: Vec<bool> =
        nodes.iter().map(|n| n.iter().any(|(_, _, children)| children.is_empty())).collect();
    for _ in 0..ids.len() + 8 {
        if !dirty.contains(&true) {
            break;
        }
        let round = std::mem::replace(&mut dirty, vec![false; ids.len()]);
        for i in (0..ids.len()).filter(|&i| round[i]) {
            // The current choice again first: what lies below it may have changed.
            let current = best[i].take();
            let previous = current.as_ref().map(|b| (b.total, b.set.clone()));
            let mut chosen: Option<Best> = current.and_then(|b| {
                let children = nodes[i].iter().find(|n| n.0 == b.node).map(|n| n.2.clone())?;
                combine(&best, i, &b.node, b.own, &children)
            });
            for (node, own, children) in &nodes[i] {
                let Some(candidate) = combine(&best, i, node, *own, children) else { continue };
                if chosen.as_ref().is_none_or(|b| candidate.total < b.total) {
                    chosen = Some(candidate);
                }
            }
            let improved = previous != chosen.as_ref().map(|b| (b.total, b.set.clone()));
            best[i] = chosen;
            if improved {
                parents[i].iter().for_each(|&p| dirty[p] = true);
            }
        }
    }
    let mut extraction = Extraction::default();
    for (i, best) in best.into_iter().enumerate() {
        if let Some(best) = best {
            extraction.cost.insert(ids[i], best.total);
            extraction.choice.insert(ids[i], best.node);
        }
    }
    extraction
}

fn combine(
    best: &[Option<Best>],
    class: usize,
    node: &Node,
    own: Cost,
    children: &[usize],
) -> Option<Best> {
    let mut set = Set::new(best.len());
    for &child in children {
        set.union(&best[child].as_ref()?.set);
    }
    if set.contains(class) {
        return None;
    }
    let mut total = own;
    for member in set.iter() {
        total = total + best[member].as_ref()?.own;
    }
    set.insert(class);
    Some(Best { node: node.clone(), own, total, set })
}
