//! What lies in the arena and when.

use std::collections::BTreeMap;

use serde::Serialize;
use trainc_ir::harness::launches;
use trainc_ir::program::{BufferId, Entry, Program, Region};

/// A place in the arena from a launch to a launch, both included.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Span {
    /// What it holds.
    pub name: String,
    /// Its first byte.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
    /// The launch that writes it first.
    pub from: usize,
    /// The last launch that uses it.
    pub to: usize,
}

/// Something in the arena.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Held {
    /// A tensor, or a launch's working memory.
    pub name: String,
    /// Its bytes.
    pub bytes: usize,
}

/// Where an entry fills the arena most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Peak {
    /// The launch.
    pub launch: usize,
    /// Its node.
    pub node: String,
    /// Bytes in use.
    pub bytes: usize,
    /// By what, the largest first.
    pub held: Vec<Held>,
}

/// All that an entry keeps in the arena, in the order in which it appears.
pub fn spans(program: &Program, entry: &Entry) -> Vec<Span> {
    let mut tensors: BTreeMap<BufferId, [usize; 2]> = BTreeMap::new();
    let mut found = Vec::new();
    for (number, launch) in launches(entry).into_iter().enumerate() {
        for &id in launch.inputs.iter().chain(&launch.outputs) {
            if program.buffer(id).region == Region::Arena {
                tensors.entry(id).or_insert([number; 2])[1] = number;
            }
        }
        let bytes = program.kernel(launch.kernel).scratch_bytes();
        if let Some(offset) = launch.scratch.filter(|_| bytes > 0) {
            let name = format!("working memory of {}", launch.name);
            found.push(Span { name, offset, bytes, from: number, to: number });
        }
    }
    for (id, [from, to]) in tensors {
        let buffer = program.buffer(id);
        let (name, bytes) = (buffer.name.clone(), buffer.bytes());
        found.push(Span { name, offset: buffer.offset, bytes, from, to });
    }
    found.sort_by_key(|span| (span.from, span.offset));
    found
}

/// Where the most bytes are in use.
pub(super) fn peak(entry: &Entry, spans: &[Span]) -> Option<Peak> {
    let all = launches(entry);
    let live = |launch: usize| spans.iter().filter(move |s| (s.from..=s.to).contains(&launch));
    let bytes = |launch: usize| live(launch).map(|s| s.bytes).sum::<usize>();
    let launch = (0..all.len()).rev().max_by_key(|&launch| bytes(launch))?;
    let mut held: Vec<Held> =
        live(launch).map(|s| Held { name: s.name.clone(), bytes: s.bytes }).collect();
    held.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    Some(Peak { launch, node: all[launch].name.clone(), bytes: bytes(launch), held })
}
