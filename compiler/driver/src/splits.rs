//! Which products take their batch in parts, and why: for reports.

use std::fmt::Write as _;

use serde::Serialize;
use trainc_ir::batch_split::MicroBatch;
use trainc_ir::harness::launches;
use trainc_ir::names::shown;
use trainc_ir::program::Program;

/// A product of an entry on a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Split {
    /// The entry.
    pub entry: String,
    /// The model's node.
    pub node: String,
    /// The machine.
    pub device: &'static str,
    /// All of it.
    pub whole: String,
    /// What is taken at a time, if not all.
    pub part: Option<String>,
    /// Why.
    pub reason: String,
    /// Working memory of the launch.
    pub scratch_bytes: usize,
}

/// Those of all entries, in their order; none if nothing was asked for.
pub fn splits(program: &Program) -> Vec<Split> {
    let mut all = Vec::new();
    for entry in &program.entries {
        for launch in launches(entry) {
            let kernel = program.kernel(launch.kernel);
            let several = program.devices.len() > 1 && kernel.selection.splits.len() > 1;
            let here = &program.devices[launch.device.0];
            for outcome in &kernel.selection.splits {
                if several && outcome.device != here {
                    continue;
                }
                all.push(Split {
                    entry: entry.name.clone(),
                    node: launch.name.clone(),
                    device: outcome.device,
                    whole: outcome.whole.clone(),
                    part: outcome.part.clone(),
                    reason: outcome.reason.clone(),
                    scratch_bytes: kernel.scratch_bytes(),
                });
            }
        }
    }
    all
}

/// A table for people.
pub fn text(splits: &[Split]) -> String {
    let mut out = String::from("batch splitting: what products take at a time, and why\n");
    for split in splits {
        let Split { entry, node, device, whole, part, reason, scratch_bytes } = split;
        let taken = match part {
            Some(part) => format!("{part} of {whole}"),
            None => format!("all {whole}"),
        };
        let node = shown(node);
        _ = writeln!(
            out,
            "  {entry} {node} on {device}: {taken}, {scratch_bytes} bytes of working memory\n      {reason}"
        );
    }
    out
}

/// What the option did, in a line; `unsplit` is the arena without it.
pub(crate) fn note(asked: MicroBatch, program: &Program, unsplit: usize, target: &str) -> String {
    let all = splits(program);
    let arena = program.memory.arena_bytes;
    let count = all.iter().filter(|split| split.part.is_some()).count();
    if all.is_empty() {
        return format!(
            "micro-batch {asked}: nothing is split, for the model has no products by image, or target `{target}` no kernels that \
             take a batch in parts (those in C or assembly have: c, neon, hvx, xpulpv2, neon+hvx)"
        );
    }
    if count == 0 {
        return format!(
            "micro-batch {asked}: none of {} products takes its batch in parts; `trainc inspect` says why",
            all.len()
        );
    }
    format!(
        "micro-batch {asked}: {count} of {} products take their batch in parts; arena {arena} bytes, {unsplit} unsplit",
        all.len()
    )
}
