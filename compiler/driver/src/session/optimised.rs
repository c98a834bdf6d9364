//! The third stage: modules after the optimiser.

use std::ops::Deref;

use trainc_ir::Op;
use trainc_ir::graph::Graph;
use trainc_ir::verify::verify;
use trainc_opt::batch_norm::Fate;
use trainc_opt::one_by_one::one_by_one;
use trainc_opt::optimise::{Optimisation, optimise};

use super::compilation::timed;
use super::translated::joined;
use super::{Compilation, INFER, Staged, TranslatedEntry, words};
use crate::error::Result;

/// A function after the optimiser.
#[derive(Debug)]
pub struct OptimisedEntry {
    pub(super) before: TranslatedEntry,
    /// The module.
    pub optimised: Graph,
    /// What the optimiser did.
    pub optimisation: Optimisation,
}

impl Deref for OptimisedEntry {
    type Target = TranslatedEntry;

    fn deref(&self) -> &TranslatedEntry {
        &self.before
    }
}

impl Staged<TranslatedEntry> {
    /// Optimises every function for the target.
    ///
    /// # Errors
    /// A rule's bug, or an operation that the target cannot run.
    pub fn optimise(self) -> Result<Staged<OptimisedEntry>> {
        let Staged { mut compilation, entries } = self;
        let mut times = Vec::new();
        let entries = timed(&mut times, "optimise", || {
            let each = |entry| optimised(&compilation, entry);
            entries.into_iter().map(each).collect::<Result<Vec<OptimisedEntry>>>()
        })?;
        compilation.times.extend(times);
        thresholds(&mut compilation, &entries);
        for entry in &entries {
            if let Some(limit) = &entry.optimisation.limit {
                let name = &entry.name;
                compilation.warnings.push(format!(
                    "{name}: the optimiser stopped early ({limit}); the result is correct"
                ));
            }
        }
        Ok(Staged { compilation, entries })
    }
}

fn optimised(compilation: &Compilation, mut before: TranslatedEntry) -> Result<OptimisedEntry> {
    let options = compilation.optimise_options(None);
    let run = |graph: &Graph| optimise(graph, &before.stage, compilation.target, &options);
    let (mut result, mut report);
    match (&before.prefix, &before.parts) {
        (Some(frozen), Some(parts)) => {
            (result, report) = run(&parts.rest)?;
            let (prefix, own) = run(&parts.prefix)?;
            let batch = compilation.config.batch_size() as u64;
            result = joined(compilation, frozen, &prefix, &result)?;
            report.cost_before += own.cost_before * batch;
            report.cost_after += own.cost_after * batch;
            report.limit = report.limit.or(own.limit);
        }
        _ => (result, report) = run(&before.module)?,
    }
    verify(&result, &before.stage)?;
    // Inference of several examples from that of one, at every stage.
    let count = compilation.inference_batch;
    if before.name == INFER && compilation.graph_batch() != count {
        before.before.float = one_by_one(&before.float, count)?;
        before.module = one_by_one(&before.module, count)?;
        result = one_by_one(&result, count)?;
        verify(&result, &before.stage)?;
    }
    Ok(OptimisedEntry { before, optimised: result, optimisation: report })
}

/// Says of batch normalizations with frozen statistics that no module has any more that they are thresholds now.
fn thresholds(compilation: &mut Compilation, entries: &[OptimisedEntry]) {
    let mut left: Vec<(&str, usize)> = Vec::new();
    let mut stairs = 0;
    for node in entries.iter().flat_map(|entry| entry.optimised.nodes()) {
        let ops = match &node.op {
            Op::Chain(chain) => &chain.ops[..],
            op => std::slice::from_ref(op),
        };
        let norms = ops.iter().filter(|op| matches!(op, Op::BatchNorm(_))).count();
        stairs += ops.iter().filter(|op| matches!(op, Op::Threshold(_))).count();
        if norms > 0 {
            left.push((&node.name, norms));
        }
    }
    // A chain is named by one of its operations: which norm is in it is not known.
    let fates = &mut compilation.batch_norms;
    let known = |name: &str| fates.iter().any(|fate| fate.node == name);
    if stairs == 0 || left.iter().any(|&(name, norms)| norms > 1 || !known(name)) {
        return;
    }
    let before = words::batch_norms(fates);
    for fate in fates.iter_mut().filter(|fate| matches!(fate.fate, Fate::Frozen { .. })) {
        if !left.iter().any(|&(name, _)| name == fate.node) {
            fate.fate = Fate::Threshold;
        }
    }
    let after = words::batch_norms(fates);
    let place = compilation.notes.iter().position(|note| before.contains(note)).unwrap_or(0);
    compilation.notes.retain(|note| !before.contains(note));
    compilation.notes.splice(place..place, after);
}
