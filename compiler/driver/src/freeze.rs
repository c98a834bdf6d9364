//! Which parameters of a model train: patterns over the names of parameters and of layers.
//!
//! A pattern is matched against a parameter's own name and the names of the nodes that use it. `*` stands for any
//! characters, `?` for one. A pattern matches a whole name, or the part of it before a `.` or `/` (so that `conv1`
//! matches `conv1.weight` and the node `/conv1/Conv`).

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::graph::{Graph, ValueId};
use trainc_opt::freeze::normalizations;

use crate::config::Config;
use crate::error::{Result, ensure};

/// The parameters that do not train, by position: with `train` all that it does not match, and whatever `freeze`
/// matches. The running statistics of a batch normalisation go with its scale and shift.
///
/// # Errors
/// If a pattern matches no parameter.
pub(crate) fn frozen(graph: &Graph, config: &Config) -> Result<BTreeSet<usize>> {
    let mut frozen = BTreeSet::new();
    if config.freeze.is_empty() && config.train.is_empty() {
        return Ok(frozen);
    }
    let names = names(graph);
    let matched = |pattern: &String| -> Result<BTreeSet<usize>> {
        let found: BTreeSet<usize> = (0..names.len())
            .filter(|&i| names[i].iter().any(|name| matches(pattern, name)))
            .collect();
        ensure!(!found.is_empty(), "{}", unmatched(pattern, graph, &names));
        Ok(found)
    };
    if !config.train.is_empty() {
        frozen.extend(0..names.len());
        for pattern in &config.train {
            let trained = matched(pattern)?;
            frozen.retain(|i| !trained.contains(i));
        }
    }
    for pattern in &config.freeze {
        frozen.extend(matched(pattern)?);
    }
    for norm in normalizations(graph) {
        if !norm.trained.is_empty() && norm.trained.iter().all(|i| frozen.contains(i)) {
            frozen.extend(norm.statistics);
        }
    }
    Ok(frozen)
}

/// For each parameter its name, then the names of the nodes that use it: those that take it, or what is computed of
/// parameters alone, together with data.
fn names(graph: &Graph) -> Vec<Vec<String>> {
    let mut runs: BTreeSet<ValueId> = graph
        .inputs()
        .iter()
        .filter(|input| !input.role.is_scheduled())
        .map(|input| input.value)
        .collect();
    for node in graph.nodes() {
        if node.inputs.iter().any(|v| runs.contains(v)) {
            runs.extend(&node.outputs);
        }
    }
    let parameters = graph.parameters();
    let mut names: Vec<Vec<String>> =
        parameters.iter().map(|p| vec![graph.value(p.value).name.clone()]).collect();
    // Parameters behind a value that no data decide.
    let mut carried: BTreeMap<ValueId, BTreeSet<usize>> =
        parameters.iter().enumerate().map(|(i, p)| (p.value, BTreeSet::from([i]))).collect();
    for node in graph.nodes() {
        let behind: BTreeSet<usize> =
            node.inputs.iter().filter_map(|v| carried.get(v)).flatten().copied().collect();
        for &i in &behind {
            if names[i].last() != Some(&node.name) {
                names[i].push(node.name.clone());
            }
        }
        for &output in node.outputs.iter().filter(|v| !runs.contains(v)) {
            carried.insert(output, behind.clone());
        }
    }
    names
}

/// Whether a pattern matches a name or a leading part of it.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.trim_start_matches('/').chars().collect();
    let name: Vec<char> = name.trim_start_matches('/').chars().collect();
    let ends = (0..name.len()).filter(|&i| matches!(name[i], '.' | '/'));
    ends.chain([name.len()]).any(|end| glob(&pattern, &name[..end]))
}

/// Whether a pattern of `*` (any characters) and `?` (one) is all of a text. Linear in both but for the last `*`.
fn glob(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was, and up to where of the text it reaches.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p).is_some_and(|&c| c == '?' || c == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, reach)) = star {
            star = Some((at, reach + 1));
            (p, t) = (at + 1, reach + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// The message for a pattern without a parameter, with the names that there are.
fn unmatched(pattern: &str, graph: &Graph, names: &[Vec<String>]) -> String {
    let list = |all: Vec<&String>| {
        const SHOWN: usize = 60;
        let more = all.len().saturating_sub(SHOWN);
        let shown: Vec<String> = all.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", shown.join(", "))
    };
    let parameters: Vec<&String> = names.iter().filter_map(|names| names.first()).collect();
    let used: BTreeSet<&String> = names.iter().flat_map(|names| &names[1..]).collect();
    let mut layers: Vec<&String> = Vec::new();
    for node in graph.nodes() {
        if used.contains(&node.name) && layers.last() != Some(&&node.name) {
            layers.push(&node.name);
        }
    }
    format!(
        "no parameter matches `{pattern}`; parameters are {}; layers with parameters are {}",
        list(parameters),
        list(layers)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("conv1.weight", "conv1.weight", true),
            ("conv1", "conv1.weight", true),
            ("conv1", "conv10.weight", false),
            ("conv1*", "conv10.weight", true),
            ("*.weight", "conv1.weight", true),
            ("*.weight", "conv1.bias", false),
            ("conv1", "/conv1/Conv", true),
            ("/conv1/*", "/conv1/Conv", true),
            ("conv?.bias", "conv2.bias", true),
            ("conv?.bias", "conv.bias", false),
            ("features.*.weight", "features.0.conv.weight", true),
            ("*a*b", "xaxxabxb", true),
            ("*a*b", "xaxxc", false),
            ("", "w", false),
            ("*", "w", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
