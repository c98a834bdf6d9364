//! Reports: what a model is, what each stage made of it, and why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use trainc_ir::graph::Graph;
use trainc_ir::program::MemoryPlan;
use trainc_onnx_import::{ImportOptions, check_path};
use trainc_opt::optimise::{Optimisation, optimise};
use trainc_opt::untranslated::{WithoutRule, serving, without_rule};

use crate::algorithms;
use crate::config::{Config, OptimiserStrategy};
use crate::emit::{Depth, Texts};
use crate::error::{Error, Result};
use crate::manifest::{KernelReport, kernels};
use crate::model::ModelSource;
#[cfg(feature = "hvx")]
use crate::residency::{Residency, residencies};
use crate::session::{
    Compilation, Entries, FloatEntry, OptimisedEntry, Session, StageTime, Staged, TranslatedEntry,
    import,
};
use crate::splits::{self, Split};
use crate::timeline::{Timeline, timelines};

/// What [`check`] found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CheckReport {
    /// Whether the model imports.
    pub imports: bool,
    /// The error, if it is another than unsupported operators.
    pub error: Option<String>,
    /// Everything that is not supported: one line each, with the node and what is supported.
    pub unsupported: Vec<UnsupportedReport>,
    /// What is worth saying.
    pub warnings: Vec<String>,
    /// How often each operator occurs.
    pub operators: BTreeMap<String, usize>,
    /// Whether it compiles as asked; absent if it does not import, or nothing was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiles: Option<Compiles>,
}

/// Whether a model compiles with an algorithm for a target.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compiles {
    /// The algorithm.
    pub algorithm: String,
    /// The target.
    pub target: String,
    /// Whether it does.
    pub compiles: bool,
    /// Why not: what `compile` says.
    pub error: Option<String>,
    /// The node that the error is about.
    pub node: Option<String>,
    /// The operations for which the algorithm has no rule.
    pub without_rule: Vec<OperationNodes>,
    /// Built-in algorithms that train them all.
    pub would_train: Vec<String>,
}

/// An operation and its nodes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OperationNodes {
    /// The operation.
    pub op: String,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// One thing that is not supported.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UnsupportedReport {
    /// The node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// What about it, why, and what is supported instead.
    pub message: String,
}

/// Whether a model would import for training, and all that is in the way; with a configuration also whether it compiles
/// with that.
pub fn check(path: &Path, config: Option<&Config>) -> CheckReport {
    let source = ModelSource::File(path.to_path_buf());
    if source.text().is_some() {
        return check_text(&source, config);
    }
    let report = check_path(path);
    CheckReport {
        compiles: config.filter(|_| report.imports).map(|config| compiles(path, config)),
        imports: report.imports,
        error: report.error.map(|e| e.to_string()),
        unsupported: report
            .unsupported
            .iter()
            .map(|u| UnsupportedReport {
                node: u.node.clone(),
                op: u.op.clone(),
                message: u.to_string(),
            })
            .collect(),
        warnings: report.warnings.iter().map(ToString::to_string).collect(),
        operators: report.operators,
    }
}

/// [`check`] of a model in the text form, whose operators are operations.
fn check_text(source: &ModelSource, config: Option<&Config>) -> CheckReport {
    let imported = source.import(&ImportOptions::default());
    let mut operators: BTreeMap<String, usize> = BTreeMap::new();
    for node in imported.iter().flat_map(|imported| imported.graph.nodes()) {
        *operators.entry(node.op.kind().name().to_string()).or_default() += 1;
    }
    let path = source.path().filter(|_| imported.is_ok());
    CheckReport {
        compiles: config.zip(path).map(|(config, path)| compiles(path, config)),
        imports: imported.is_ok(),
        error: imported.as_ref().err().map(|e| crate::error::message(e)),
        unsupported: Vec::new(),
        warnings: imported.iter().flat_map(crate::model::warnings).collect(),
        operators,
    }
}

/// Takes a model through every stage, as `compile` does.
fn compiles(path: &Path, config: &Config) -> Compiles {
    let source = ModelSource::File(path.to_path_buf());
    let error = Session::new(&source, config, Entries::TrainAndInfer)
        .and_then(|session| Ok(session.target.emit(session.program()).map(|_| ())?))
        .err();
    let mut compiles = Compiles {
        algorithm: config.algorithm.clone(),
        target: config.target.clone(),
        compiles: error.is_none(),
        error: error.as_ref().map(|e| match e {
            Error::InModel { place, .. } => place.message.clone(),
            other => crate::error::message(other),
        }),
        node: error.as_ref().and_then(|e| crate::error::place(e).node),
        without_rule: Vec::new(),
        would_train: Vec::new(),
    };
    if let Some(nodes) = error.as_ref().and_then(Error::untranslated) {
        let groups = without_rule(nodes);
        let kinds = groups.iter().map(|group| group.op).collect();
        let named = |group: WithoutRule| OperationNodes {
            op: group.op.name().to_string(),
            nodes: group.nodes,
        };
        if !groups.is_empty() {
            let serving = serving(algorithms::split(&config.algorithm).0, &kinds);
            compiles.would_train = serving.training.iter().map(ToString::to_string).collect();
        }
        compiles.without_rule = groups.into_iter().map(named).collect();
    }
    compiles
}

impl CheckReport {
    /// For people.
    pub fn text(&self, file: &str) -> String {
        let mut out = String::new();
        let list: Vec<String> = self.operators.iter().map(|(op, n)| format!("{op} x{n}")).collect();
        line(&mut out, format_args!("{file}: {}", list.join(", ")));
        for item in &self.unsupported {
            line(&mut out, format_args!("  not supported: {}", item.message));
        }
        if let Some(error) = &self.error {
            line(&mut out, format_args!("  error: {error}"));
        }
        for warning in &self.warnings {
            line(&mut out, format_args!("  warning: {warning}"));
        }
        let verdict = if self.imports { "the model imports" } else { "the model does not import" };
        line(&mut out, format_args!("{verdict}"));
        if let Some(Compiles { algorithm, target, compiles, error, .. }) = &self.compiles {
            let how = format!("with `--algorithm {algorithm} --target {target}`");
            match error {
                Some(error) => line(&mut out, format_args!("it does not compile {how}: {error}")),
                None if *compiles => line(&mut out, format_args!("it compiles {how}")),
                None => {}
            }
        }
        out
    }
}

/// A summary of a session, for `trainc inspect`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The model's name.
    pub name: String,
    /// Fingerprint of the model.
    pub model_hash: String,
    /// Tool and opset that wrote it.
    pub producer: String,
    /// Algorithm and target.
    pub algorithm: String,
    /// Target.
    pub target: String,
    /// Trainable numbers.
    pub trainable_parameters: usize,
    /// Parameters that the configuration freezes.
    pub frozen: Vec<String>,
    /// Inputs with types.
    pub inputs: Vec<(String, String)>,
    /// Outputs with types.
    pub outputs: Vec<(String, String)>,
    /// Seconds of each stage.
    pub stages: Vec<StageSeconds>,
    /// Each function's stages.
    pub entries: Vec<EntrySummary>,
    /// Quantized inference: the output stages of 8 bits that are not exact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_stages: Vec<StageSummary>,
    /// The memory plan.
    pub memory: MemorySummary,
    /// Which products take their batch in parts, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<Split>,
    /// Which device runs which launch of each function, if the target has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Packed constants that can be kept between calls.
    #[cfg(feature = "hvx")]
    pub residencies: Vec<Residency>,
    /// What the target's costs count.
    pub cost_unit: &'static str,
    /// The kernels, costliest launches first.
    pub kernels: Vec<KernelReport>,
}

/// An output stage by scale, offset and shift.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StageSummary {
    /// The quantizer's node.
    pub node: String,
    /// The shift.
    pub shift: u32,
    /// The share of sums that are not clamped whose result is one level from the model's rounding.
    pub off_by_one: f64,
}

/// Seconds of a stage.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StageSeconds {
    /// The stage.
    pub stage: String,
    /// Wall time.
    pub seconds: f64,
}

/// A function's way through the stages.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EntrySummary {
    /// `train_step` or `infer`.
    pub name: String,
    /// Live nodes of the FP32 graph, the module, the optimised module.
    pub nodes: Vec<(String, usize)>,
    /// Estimated cost before and after the optimiser, in the target's unit.
    pub cost: (u64, u64),
    /// Launches of the plan.
    pub launches: Option<usize>,
    /// The order of the plan, and the orders tried with their lower bounds.
    pub orders: Vec<(String, usize)>,
    /// The order and placement chosen.
    pub chosen: Option<(String, String)>,
    /// Arena bytes and lower bound of this entry.
    pub arena: Option<(usize, usize)>,
}

/// The memory plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MemorySummary {
    /// Arena.
    pub arena_bytes: usize,
    /// Largest sum of live buffers.
    pub arena_lower_bound_bytes: usize,
    /// State.
    pub state_bytes: usize,
    /// Constants.
    pub constant_bytes: usize,
}

impl From<MemoryPlan> for MemorySummary {
    fn from(memory: MemoryPlan) -> MemorySummary {
        MemorySummary {
            arena_bytes: memory.arena_bytes,
            arena_lower_bound_bytes: memory.arena_lower_bound_bytes,
            state_bytes: memory.state_bytes,
            constant_bytes: memory.constant_bytes,
        }
    }
}

/// A session, as far as it was asked to go.
pub enum Reached {
    /// FP32 graphs.
    Float(Staged<FloatEntry>),
    /// Translated modules.
    Translated(Staged<TranslatedEntry>),
    /// Optimised modules.
    Optimised(Staged<OptimisedEntry>),
    /// The program.
    Planned(Box<Session>),
}

impl Reached {
    /// Takes a model as far as `last`.
    ///
    /// # Errors
    /// The first stage's that fails.
    pub fn new(source: &ModelSource, config: &Config, last: Depth) -> Result<Reached> {
        let float = import(&source.name(), source, config, Entries::TrainAndInfer)?;
        if last == Depth::Float {
            return Ok(Reached::Float(float));
        }
        let translated = source.about(float.translate())?;
        if last == Depth::Translated {
            return Ok(Reached::Translated(translated));
        }
        let optimised = source.about(translated.optimise())?;
        if last == Depth::Optimised {
            return Ok(Reached::Optimised(optimised));
        }
        Ok(Reached::Planned(Box::new(source.about(optimised.plan())?)))
    }

    /// What every stage knows.
    pub fn compilation(&self) -> &Compilation {
        match self {
            Reached::Float(staged) => staged,
            Reached::Translated(staged) => staged,
            Reached::Optimised(staged) => staged,
            Reached::Planned(session) => session,
        }
    }

    /// The texts of its stages.
    pub fn texts(&self) -> &dyn Texts {
        match self {
            Reached::Float(staged) => staged,
            Reached::Translated(staged) => staged,
            Reached::Optimised(staged) => staged,
            Reached::Planned(session) => &**session,
        }
    }

    /// The optimised functions, if it went that far.
    pub fn optimised(&self) -> Option<&Staged<OptimisedEntry>> {
        match self {
            Reached::Optimised(staged) => Some(staged),
            Reached::Planned(session) => Some(session),
            _ => None,
        }
    }
}

fn live(graph: &Graph) -> usize {
    graph.live_nodes().into_iter().filter(|live| *live).count()
}

/// Summarises a session.
pub fn summary(session: &Session) -> Summary {
    let graph = &session.imported.graph;
    let named = |values: Vec<(String, trainc_ir::ValueId)>| {
        values.into_iter().map(|(name, v)| (name, graph.ty(v).to_string())).collect()
    };
    let inputs =
        graph.inputs().iter().map(|i| (graph.value(i.value).name.clone(), i.value)).collect();
    let outputs = graph.outputs().iter().map(|o| (o.name.clone(), o.value)).collect();
    let producer = &session.imported.producer;
    let mut kernels = kernels(session);
    for (report, kernel) in kernels.iter_mut().zip(&session.program().kernels) {
        report.scalar_loops = kernel.selection.scalar_loops();
    }
    let total = |k: &KernelReport| k.cost.unwrap_or(0).saturating_mul(k.launches as u64);
    kernels.sort_by(|a, b| total(b).cmp(&total(a)).then_with(|| a.name.cmp(&b.name)));
    Summary {
        name: session.name.clone(),
        model_hash: session.model_hash().to_string(),
        producer: format!("{} {}, opset {}", producer.name, producer.version, producer.opset),
        algorithm: session.algorithm.spelled(),
        target: session.target.description().name.to_string(),
        cost_unit: session.target.description().cost_unit,
        trainable_parameters: graph
            .parameters()
            .iter()
            .filter(|p| p.trainable && !session.frozen.contains(&graph.value(p.value).name))
            .map(|p| p.initial.ty().count())
            .sum(),
        frozen: session.frozen.clone(),
        inputs: named(inputs),
        outputs: named(outputs),
        stages: session.times.iter().map(stage_seconds).collect(),
        entries: entries(session),
        output_stages: session
            .entries
            .iter()
            .flat_map(|entry| &entry.output_stages)
            .map(|s| StageSummary {
                node: s.node.clone(),
                shift: s.shift,
                off_by_one: s.off_by_one,
            })
            .collect(),
        memory: session.program().memory.into(),
        splits: splits::splits(session.program()),
        timelines: timelines(session),
        #[cfg(feature = "hvx")]
        residencies: residencies(session.program()),
        kernels,
    }
}

fn stage_seconds(time: &StageTime) -> StageSeconds {
    StageSeconds { stage: time.stage.to_string(), seconds: time.seconds }
}

fn entries(session: &Session) -> Vec<EntrySummary> {
    session
        .entries
        .iter()
        .map(|entry| {
            let nodes = [
                ("fp32", &entry.float),
                (&session.algorithm.name, &entry.module),
                ("optimised", &entry.optimised),
            ];
            let plan = session.plan.entries.iter().find(|e| e.name == entry.name);
            EntrySummary {
                name: entry.name.to_string(),
                nodes: nodes.map(|(stage, graph)| (stage.to_string(), live(graph))).to_vec(),
                cost: (entry.optimisation.cost_before, entry.optimisation.cost_after),
                launches: plan.map(|p| p.launches),
                orders: plan
                    .map(|p| p.orders.iter().map(|(n, b)| (n.to_string(), *b)).collect())
                    .unwrap_or_default(),
                chosen: plan.map(|p| (p.order.to_string(), p.placement.to_string())),
                arena: plan.map(|p| (p.peak_bytes, p.lower_bound_bytes)),
            }
        })
        .collect()
}

/// Most kernels in the text of a summary.
const KERNELS_SHOWN: usize = 20;

impl Summary {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let o = &mut out;
        line(o, format_args!("model      {} ({})", self.name, self.model_hash));
        line(o, format_args!("written by {}", self.producer));
        for (name, ty) in &self.inputs {
            line(o, format_args!("input      {name}: {ty}"));
        }
        for (name, ty) in &self.outputs {
            line(o, format_args!("output     {name}: {ty}"));
        }
        line(o, format_args!("trainable  {} numbers", self.trainable_parameters));
        if !self.frozen.is_empty() {
            line(o, format_args!("frozen     {}", self.frozen.join(", ")));
        }
        line(o, format_args!("algorithm  {}", self.algorithm));
        line(o, format_args!("target     {}", self.target));
        line(o, format_args!("\nstage                seconds"));
        for stage in &self.stages {
            line(o, format_args!("{:<20} {:>7.3}", stage.stage, stage.seconds));
        }
        for entry in &self.entries {
            let nodes: Vec<String> =
                entry.nodes.iter().map(|(stage, n)| format!("{n} {stage}")).collect();
            line(o, format_args!("\n{}", entry.name));
            line(o, format_args!("  nodes      {}", nodes.join(", ")));
            let (before, after) = entry.cost;
            let saved = percent(before, after);
            let unit = self.cost_unit;
            line(o, format_args!("  cost       {before} -> {after} {unit} ({saved})"));
            if let (Some(launches), Some((order, placement))) = (entry.launches, &entry.chosen) {
                line(o, format_args!("  launches   {launches}"));
                line(o, format_args!("  order      {order}, placed {placement}"));
            }
            for (order, bytes) in &entry.orders {
                line(o, format_args!("    {order:<22} needs at least {bytes} bytes"));
            }
            if let Some((arena, bound)) = entry.arena {
                line(o, format_args!("  arena      {}", arena_text(arena, bound)));
            }
        }
        if !self.output_stages.is_empty() {
            line(o, format_args!("\n8-bit output stages: shift, results one level off"));
            for StageSummary { node, shift, off_by_one } in &self.output_stages {
                line(o, format_args!("  {shift:>5} {:>8.3} %  {node}", 100.0 * off_by_one));
            }
        }
        let memory = &self.memory;
        line(o, format_args!("\nmemory"));
        let arena = arena_text(memory.arena_bytes, memory.arena_lower_bound_bytes);
        line(o, format_args!("  arena      {arena}"));
        line(o, format_args!("  state      {} bytes", memory.state_bytes));
        line(o, format_args!("  constants  {} bytes", memory.constant_bytes));
        if !self.splits.is_empty() {
            line(o, format_args!("\n{}", splits::text(&self.splits).trim_end()));
        }
        #[cfg(feature = "hvx")]
        for residency in &self.residencies {
            line(o, format_args!("\n{}", residency.text().trim_end()));
        }
        for timeline in &self.timelines {
            line(o, format_args!("\ndevices of {}", timeline.text().trim_end()));
        }
        if !self.kernels.is_empty() {
            let unit = self.cost_unit;
            line(
                o,
                format_args!("\nkernels by estimated cost ({unit} x launches), and how they run"),
            );
            for kernel in self.kernels.iter().take(KERNELS_SHOWN) {
                let cost = kernel.cost.map_or_else(|| "-".to_string(), |c| c.to_string());
                let KernelReport { name, launches, implementation, .. } = kernel;
                line(o, format_args!("  {cost:>12} x {launches:<3} {name}: {implementation}"));
                for declined in &kernel.declined {
                    line(o, format_args!("  {:>18} not {declined}", ""));
                }
                for scalar in &kernel.scalar_loops {
                    line(o, format_args!("  {:>18} scalar loop {scalar}", ""));
                }
            }
            if self.kernels.len() > KERNELS_SHOWN {
                line(o, format_args!("  ... and {} more", self.kernels.len() - KERNELS_SHOWN));
            }
        }
        out
    }
}

fn arena_text(arena: usize, bound: usize) -> String {
    let ratio = arena as f64 / bound.max(1) as f64;
    format!("{arena} bytes, {ratio:.3} x the lower bound of {bound}")
}

fn percent(before: u64, after: u64) -> String {
    let saved = 100.0 * (before as f64 - after as f64) / before.max(1) as f64;
    format!("{saved:.1} % saved")
}

/// What translation and optimiser did, for `trainc inspect --rewrites`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Rewrites {
    /// What the target's costs count.
    pub cost_unit: &'static str,
    /// One a function.
    pub entries: Vec<EntryRewrites>,
}

/// A function's rewrites.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EntryRewrites {
    /// `train_step` or `infer`.
    pub name: String,
    /// The algorithm's rules with the number of nodes each translated.
    pub translation: Vec<(String, usize)>,
    /// The optimiser's rules: how often each is part of the result, and what it saved there.
    pub rules: Vec<RuleTotal>,
    /// Each rewrite in the result.
    pub fired: Vec<FiredReport>,
    /// Cost without optimiser, with each rule once in order, and with saturation.
    pub cost: Comparison,
    /// Rounds, e-nodes and e-classes of the saturation.
    pub iterations: usize,
    /// E-nodes.
    pub nodes: usize,
    /// E-classes.
    pub classes: usize,
    /// Whether nothing more could change.
    pub saturated: bool,
    /// Why the search stopped early.
    pub limit: Option<String>,
}

/// A rule's share of the result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RuleTotal {
    /// The rule.
    pub rule: String,
    /// Applications in the e-graph, used or not.
    pub applications: usize,
    /// Applications in the result.
    pub used: usize,
    /// Cycles those saved.
    pub saved: i64,
}

/// One rewrite in the result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FiredReport {
    /// The rule.
    pub rule: String,
    /// The model's node.
    pub node: String,
    /// What was chosen.
    pub chosen: String,
    /// What it saves, in the target's unit.
    pub saved: i64,
}

/// Estimated costs in the target's unit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Without optimiser.
    pub off: u64,
    /// Each rule once, in order.
    pub ordered: u64,
    /// Equality saturation.
    pub saturate: u64,
}

/// Which rules fired in the optimised functions of a session, and what both searches gain.
///
/// # Errors
/// If the optimiser has a bug.
pub fn rewrites(session: &Staged<OptimisedEntry>) -> Result<Rewrites> {
    let mut entries = Vec::new();
    for entry in &session.entries {
        let (translation, own) = (&entry.translation, &entry.optimisation);
        let under = |strategy: OptimiserStrategy| -> Result<Optimisation> {
            if session.config.opt == strategy {
                return Ok(own.clone());
            }
            let options = session.optimise_options(Some(strategy));
            Ok(optimise(&entry.module, &entry.stage, session.target, &options)?.1)
        };
        let ordered = under(OptimiserStrategy::Ordered)?.cost_after;
        let saturate = under(OptimiserStrategy::Saturate)?.cost_after;
        let mut totals: BTreeMap<&str, (usize, usize, i64)> = BTreeMap::new();
        for (rule, applications) in &own.applications {
            totals.entry(rule).or_default().0 += applications;
        }
        for fired in &own.fired {
            let total = totals.entry(fired.rule).or_default();
            total.1 += 1;
            total.2 += fired.saved;
        }
        entries.push(EntryRewrites {
            name: entry.name.to_string(),
            translation: translation.fired.clone(),
            rules: totals
                .into_iter()
                .map(|(rule, (applications, used, saved))| RuleTotal {
                    rule: rule.to_string(),
                    applications,
                    used,
                    saved,
                })
                .collect(),
            fired: own
                .fired
                .iter()
                .map(|f| FiredReport {
                    rule: f.rule.to_string(),
                    node: f.node.clone(),
                    chosen: f.chosen.clone(),
                    saved: f.saved,
                })
                .collect(),
            cost: Comparison { off: own.cost_before, ordered, saturate },
            iterations: own.iterations,
            nodes: own.nodes,
            classes: own.classes,
            saturated: own.saturated,
            limit: own.limit.clone(),
        });
    }
    Ok(Rewrites { cost_unit: session.target.description().cost_unit, entries })
}

impl Rewrites {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let o = &mut out;
        for entry in &self.entries {
            line(o, format_args!("{}", entry.name));
            if !entry.translation.is_empty() {
                line(o, format_args!("  translation rules, with the nodes each translated"));
            }
            for (rule, count) in &entry.translation {
                line(o, format_args!("    {rule:<28} {count:>4}"));
            }
            let unit = self.cost_unit;
            line(o, format_args!("  optimiser rules: in the e-graph, in the result, {unit} saved"));
            for rule in &entry.rules {
                let RuleTotal { rule, applications, used, saved } = rule;
                line(o, format_args!("    {rule:<28} {applications:>5} {used:>4} {saved:>12}"));
            }
            line(o, format_args!("  rewrites in the result"));
            for fired in &entry.fired {
                let FiredReport { rule, node, chosen, saved } = fired;
                line(o, format_args!("    {node}: {rule} gives {chosen}, saves {saved}"));
            }
            let Comparison { off, ordered, saturate } = entry.cost;
            line(o, format_args!("  cost in {unit}"));
            line(o, format_args!("    not optimised              {off:>14}"));
            let gain = percent(off, ordered);
            line(o, format_args!("    each rule once, in order   {ordered:>14}  {gain}"));
            let gain = percent(off, saturate);
            line(o, format_args!("    equality saturation        {saturate:>14}  {gain}"));
            let gain = percent(ordered, saturate);
            line(o, format_args!("    saturation over in-order   {:>14}  {gain}", ""));
            let state = match (&entry.limit, entry.saturated) {
                (Some(limit), _) => format!("stopped early: {limit}"),
                (None, true) => "saturated".to_string(),
                (None, false) => "not saturated".to_string(),
            };
            let EntryRewrites { iterations, nodes, classes, .. } = entry;
            line(
                o,
                format_args!(
                    "  {iterations} rounds, {nodes} e-nodes in {classes} classes, {state}\n"
                ),
            );
        }
        out
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}
