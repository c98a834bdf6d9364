//! What the stages tell the user.

use std::collections::BTreeMap;

use trainc_ir::OpKind;
use trainc_ir::graph::Graph;
use trainc_ir::implementation::Cost;
use trainc_opt::algorithm::Algorithm;
use trainc_opt::algorithm::dynamic::Dynamic;
use trainc_opt::algorithm::stages::{Choice, Stage, Stages};
use trainc_opt::batch_norm::{BatchNormFate, Fate};
use trainc_opt::dynamic::counted_blocks;
use trainc_opt::frozen_prefix::FrozenPrefix;
use trainc_opt::plan::{EntryReport, Limited, PlanReport};

use super::TRAIN_STEP;

/// One line for each kind of fate, with the nodes where they are few.
pub(super) fn batch_norms(fates: &[BatchNormFate]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for fate in fates {
        let text = match &fate.fate {
            Fate::Trains => "train, with running statistics".to_string(),
            Fate::Folded { .. } => {
                "have frozen statistics and are folded into the weights before them".to_string()
            }
            Fate::Threshold => {
                "have frozen statistics and are thresholds of integer sums now".to_string()
            }
            Fate::Frozen { because } => {
                format!("keep frozen statistics and stay in FP32 ({because})")
            }
        };
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, nodes)) => nodes.push(&fate.node),
            None => groups.push((text, vec![&fate.node])),
        }
    }
    let line = |(text, nodes): (String, Vec<&str>)| {
        let (count, all) = (nodes.len(), fates.len());
        format!("{count} of {all} batch normalizations {text}: {}", few(&nodes))
    };
    groups.into_iter().map(line).collect()
}

/// Says that the layers before the first trained one are computed one example after the other.
pub(super) fn prefix(prefix: &FrozenPrefix) -> String {
    let outputs = prefix.prefix.outputs();
    let names: Vec<&str> = outputs.iter().map(|o| o.name.as_str()).collect();
    format!(
        "what comes before the first trained layer ({} nodes, up to {}) is computed as in inference: one example after the \
         other, in the memory of one",
        prefix.prefix.nodes().len(),
        few(&names)
    )
}

/// Which training steps there are beside the algorithm's own.
pub(super) fn stages(stages: &Stages) -> String {
    let other = |(i, stage): (usize, &Stage)| {
        format!("{} (`{}`: {})", i + 1, stage.function(), stage.values)
    };
    let others: Vec<String> = stages.others.iter().enumerate().map(other).collect();
    format!(
        "the training has stages over one state, each with a step of its own: 0 (`{TRAIN_STEP}`), {}; inference is that of stage 0{}",
        others.join(", "),
        match &stages.choice {
            Choice::Schedule(_) => String::new(),
            Choice::Indicator(indicator) => {
                let order: Vec<String> = indicator.order.iter().map(u32::to_string).collect();
                format!("; they follow the loss, in the order {}", order.join(", "))
            }
        }
    )
}

/// What the limit on the arena took, a line an entry.
pub(super) fn limited(report: &PlanReport, unit: &str) -> Vec<String> {
    let entries = report.entries.iter();
    let line = |(entry, limited): (&EntryReport, &Limited)| {
        let cycles = |cost: Cost| cost.cycles().unwrap_or(0);
        let more: u64 = limited.again.iter().map(|(_, cost)| cycles(*cost)).sum();
        let names: Vec<&str> = limited.again.iter().map(|(name, _)| name.as_str()).collect();
        format!(
            "`{}` keeps its arena to {} bytes ({} without a limit) by computing {} of its launches again, by estimate \
             {:.1} % more {unit}: {}",
            entry.name,
            entry.peak_bytes,
            limited.natural_bytes,
            names.len(),
            100.0 * more as f64 / cycles(limited.cost).max(1) as f64,
            few(&names)
        )
    };
    entries.filter_map(|entry| Some((entry, entry.limited.as_ref()?))).map(line).collect()
}

/// Which blocks choose a precision for each example, and among what.
pub(super) fn gates(training: &Graph, dynamic: &Dynamic) -> String {
    let names = training.parameters().iter().map(|p| training.value(p.value).name.as_str());
    let blocks = counted_blocks(names);
    let option = |[bits, errors]: &[u32; 2]| format!("{bits}/{errors}");
    let options: Vec<String> = dynamic.options.iter().map(option).collect();
    format!(
        "each example chooses the precision of {} {}: {}; bits of activations/errors {}, of weights {}; the loss steers their products' \
         cost to {} to {} % of FP32's",
        blocks.len(),
        if blocks.len() == 1 { "block" } else { "blocks" },
        few(&blocks),
        options.join(", "),
        dynamic.weight_bits,
        dynamic.target,
        dynamic.target + dynamic.band,
    )
}

/// At most four names.
fn few(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(4).map(|name| format!("`{name}`")).collect();
    let rest = if names.len() > 4 { ", ..." } else { "" };
    format!("{}{rest}", shown.join(", "))
}

/// What a training step computes in FP32 because the algorithm has no rule for it, by operation, and the ways out.
pub(super) fn floats(floated: &[(String, OpKind)], algorithm: &Algorithm) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    floated.iter().for_each(|(_, kind)| *counts.entry(kind.name()).or_default() += 1);
    let list: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let normalizes = floated.iter().any(|(_, kind)| *kind == OpKind::BatchNorm);
    // The algorithms that have it by integers have a parameter for that.
    let asked = algorithm.parameters.declared().any(|(name, _)| name == "norm");
    let integers = format!(", `--algorithm {}:norm=1` computes it by integers", algorithm.name);
    let way_out = if normalizes {
        format!(
            ". Where floats are emulated, batch normalization is most of a step then: `--batch-norm frozen` folds it into the weights{}",
            if asked { integers.as_str() } else { "" }
        )
    } else {
        String::new()
    };
    (!list.is_empty()).then(|| {
        format!(
            "{} operations of the training step are computed in FP32, for the algorithm has no integer form of them: {}{way_out}",
            floated.len(),
            list.join(", ")
        )
    })
}

/// Says what an algorithm leaves out of a model.
pub(super) fn removed(graph: &Graph, algorithm: &Algorithm) -> Option<String> {
    let nodes = graph.nodes().iter().filter(|n| algorithm.remove.contains(&n.op.kind()));
    let names: Vec<&str> = nodes.map(|n| n.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "algorithm `{}` leaves {} operations out of the model, which changes what it computes: {}",
            algorithm.name,
            names.len(),
            few(&names)
        )
    })
}
