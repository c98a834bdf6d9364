//! `trainc algorithms --check`: whether a file is an algorithm, and what its rules do in a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;
use trainc_opt::matches::{Floating, Why, matches};

use crate::algorithms;
use crate::config::Config;
use crate::error::{Result, message};
use crate::model::{self, ModelSource};
use crate::session::{self, Entries, TranslatedEntry};

/// What is known of an algorithm, and of a model under it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AlgorithmCheck {
    /// Its name, with the values of parameters.
    pub algorithm: String,
    /// How many rules it has, those of the model included.
    pub rules: usize,
    /// Name, value and range of each parameter.
    pub parameters: Vec<String>,
    /// What the rules do in a model, if one was given.
    pub model: Option<ModelCheck>,
}

/// What an algorithm's rules do in a model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ModelCheck {
    /// Each rule that matches, in the file's order, those of the model first.
    pub matching: Vec<RuleMatches>,
    /// Rules that match nothing in the model.
    pub never: Vec<String>,
    /// What is computed in FP32, by reason and operation.
    pub float: Vec<FloatNodes>,
    /// Why the model does not translate.
    pub error: Option<String>,
}

/// The nodes that a rule matches.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RuleMatches {
    /// The rule.
    pub rule: String,
    /// The nodes, each with its operation, in the order of the training step, then of inference.
    pub nodes: Vec<String>,
}

/// Nodes that stay FP32.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FloatNodes {
    /// The operation.
    pub operation: String,
    /// Why.
    pub why: String,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// Checks the algorithm that `config` names; with a model, what its rules do there.
///
/// # Errors
/// If the file is no algorithm, or the model does not import or train.
pub fn check(config: &Config, model: Option<&ModelSource>) -> Result<AlgorithmCheck> {
    let algorithm = algorithms::load(&config.algorithm)?;
    Ok(AlgorithmCheck {
        algorithm: algorithm.spelled(),
        rules: algorithm.rules.len() + algorithm.model_rules.len(),
        parameters: algorithm.parameters.lines(),
        model: model.map(|source| in_model(config, source)).transpose()?,
    })
}

fn in_model(config: &Config, source: &ModelSource) -> Result<ModelCheck> {
    let staged = session::import("model", source, config, Entries::TrainAndInfer)?;
    let algorithm = algorithms::load(&config.algorithm)?;
    let applied = model::applied_rules(&staged.imported, &algorithm, &BTreeSet::new())?;
    let graphs: Vec<_> = staged.entries.iter().map(|entry| entry.float.clone()).collect();
    let translated = staged.translate();
    let floated: Vec<BTreeSet<String>> = match &translated {
        Ok(staged) => {
            let names = |e: &'_ TranslatedEntry| {
                e.translation.floated.iter().map(|(name, _)| name.clone()).collect()
            };
            staged.entries.iter().map(names).collect()
        }
        Err(_) => vec![BTreeSet::new(); graphs.len()],
    };
    let mut nodes: Vec<Vec<String>> = vec![Vec::new(); algorithm.rules.len()];
    let mut float: BTreeMap<(Why, &str), Vec<String>> = BTreeMap::new();
    for (graph, floated) in graphs.iter().zip(&floated) {
        let found = matches(graph, &algorithm, floated);
        for (own, more) in nodes.iter_mut().zip(found.rules) {
            for (name, op) in more {
                push_once(own, format!("{name} ({})", op.name()));
            }
        }
        for Floating { node, op, why } in found.floating {
            push_once(float.entry((why, op.name())).or_default(), node);
        }
    }
    let of_model = algorithm.model_rules.iter().map(|rule| {
        let own = applied.iter().filter(|(name, _)| *name == rule.rewrite.name);
        (rule.rewrite.name.clone(), own.map(|(_, node)| node.clone()).collect::<Vec<_>>())
    });
    let of_graphs =
        algorithm.rules.iter().zip(nodes).map(|(rule, nodes)| (rule.name.clone(), nodes));
    let (matching, never): (Vec<_>, Vec<_>) =
        of_model.chain(of_graphs).partition(|(_, nodes)| !nodes.is_empty());
    let carried = algorithm.carrier.is_some();
    let float = float.into_iter().map(|((why, op), nodes)| FloatNodes {
        operation: op.to_string(),
        why: reason(&why, carried),
        nodes,
    });
    Ok(ModelCheck {
        matching: matching.into_iter().map(|(rule, nodes)| RuleMatches { rule, nodes }).collect(),
        never: never.into_iter().map(|(rule, _)| rule).collect(),
        float: float.collect(),
        error: translated.err().map(|e| message(&e)),
    })
}

fn push_once(list: &mut Vec<String>, item: String) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn reason(why: &Why, carried: bool) -> String {
    match why {
        Why::NoRule if carried => "no rule; the carrier is FP32".into(),
        Why::NoRule => "no rule".into(),
        Why::NoMatch(rules) => {
            format!("no rule matches here; for the operation there are {}", rules.join(", "))
        }
        Why::Refused => "what its rule gives is not allowed here".into(),
        Why::Update => "updates of parameters are FP32".into(),
    }
}

/// The first of a list, and how many there are.
fn some(list: &[String]) -> String {
    let shown = list.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    match list.len() {
        0..=3 => shown,
        more => format!("{shown} and {} more", more - 3),
    }
}

impl AlgorithmCheck {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = format!("{}: {} rules", self.algorithm, self.rules);
        out.push('\n');
        for parameter in &self.parameters {
            let _ = writeln!(out, "  parameter {parameter}");
        }
        let Some(model) = &self.model else { return out };
        for RuleMatches { rule, nodes } in &model.matching {
            let _ = writeln!(out, "  rule {rule}: {} nodes: {}", nodes.len(), some(nodes));
        }
        for rule in &model.never {
            let _ = writeln!(out, "  rule {rule}: matches nothing in this model");
        }
        for FloatNodes { operation, why, nodes } in &model.float {
            let _ =
                writeln!(out, "  FP32 {operation}, {why}: {} nodes: {}", nodes.len(), some(nodes));
        }
        if let Some(error) = &model.error {
            let _ = writeln!(out, "  the model does not translate: {error}");
        }
        out
    }
}
