//! The passes by name: one table behind `trainc opt`, its tests and its documentation.

use trainc_ir::Verified;
use trainc_ir::graph::Graph;
use trainc_ir::ops::OpKind;
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, Target};
use trainc_ir::verify::{Stage, verify};
use trainc_opt::algorithm::{Algorithm, Otherwise};
use trainc_opt::alternatives::alternatives;
use trainc_opt::fold_relu::fold_relus;
use trainc_opt::functions::gather_functions;
use trainc_opt::gather_formulas::gather_formulas;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::quantized::{StoredScales, quantize};
use trainc_opt::rules::{Rule, rules};
use trainc_opt::translate::{float_operations, translate};

use crate::config::LossFunction;
use crate::error::{Context, Result, bail, ensure};
pub use crate::form::Form;
use crate::model::{self, InferenceForm};
use crate::session::{INFER, TRAIN_STEP};
use crate::text_model;

/// What passes need to know besides the module.
pub struct PassOptions {
    /// The training algorithm.
    algorithm: Option<Algorithm>,
    /// The algorithm that leaves a graph as it is, where none is named.
    identity: Algorithm,
    /// The target.
    pub target: &'static dyn Target,
    /// How the optimiser searches.
    pub optimiser: OptimiseOptions,
}

impl PassOptions {
    /// Options with these answers.
    ///
    /// # Errors
    /// If a built-in algorithm does not parse: a bug.
    pub fn new(
        algorithm: Option<Algorithm>,
        target: &'static dyn Target,
        optimiser: OptimiseOptions,
    ) -> Result<PassOptions> {
        Ok(PassOptions { algorithm, identity: Algorithm::built_in("fp32")?, target, optimiser })
    }

    fn algorithm(&self) -> Result<&Algorithm> {
        let none = "it needs an algorithm (`--algorithm NAME`, see `trainc algorithms`)";
        self.algorithm.as_ref().context(none)
    }

    fn algorithm_or_identity(&self) -> &Algorithm {
        self.algorithm.as_ref().unwrap_or(&self.identity)
    }
}

/// A module between two passes.
#[derive(Clone, Debug)]
pub struct Module {
    /// What it is.
    pub form: Form,
    /// The graphs: functions, or alternatives; none once they are planned.
    pub graphs: Vec<Graph>,
    /// The program, once planned.
    pub program: Option<Verified<Program>>,
    /// The files, once emitted.
    pub files: Vec<ArtifactFile>,
    /// What passes remarked.
    pub remarks: Vec<String>,
}

impl Module {
    /// A module of graphs.
    ///
    /// # Errors
    /// If it has none, or graphs of different stages.
    pub fn new(graphs: Vec<Graph>, form: Option<Form>) -> Result<Module> {
        let first = graphs.first().map(Form::of).context("there is no graph")?;
        let quantized = graphs.iter().any(|g| Form::of(g) == Form::Quantized);
        // Functions of one program may train or not.
        let found = if quantized { Form::Quantized } else { first };
        let form = form.unwrap_or(found);
        Ok(Module { form, graphs, program: None, files: Vec::new(), remarks: Vec::new() })
    }

    /// What its graphs may contain.
    pub fn stage(&self, options: &PassOptions) -> Stage {
        let algorithm = match (self.form, &options.algorithm) {
            (Form::Forward | Form::Training, None) => return Stage::Float,
            (Form::Forward | Form::Training, Some(a)) if !a.is_identity() => return Stage::Float,
            (_, Some(algorithm)) => algorithm,
            (_, None) => return Stage::Quantized { float_operations: None },
        };
        // Where an algorithm computes in FP32 what it is silent about, that is what the module has.
        let float = |g: &Graph| -> Vec<OpKind> {
            let has = g
                .nodes()
                .iter()
                .filter(|n| n.inputs.iter().chain(&n.outputs).any(|&v| g.ty(v).is_f32()));
            has.map(|n| n.op.kind()).collect()
        };
        let floated = match algorithm.otherwise {
            Otherwise::Float => self.graphs.iter().flat_map(float).collect(),
            Otherwise::Refuse => Vec::new(),
        };
        Stage::Quantized { float_operations: float_operations(algorithm, floated.into_iter()) }
    }

    fn map(&mut self, mut f: impl FnMut(&Graph) -> Result<Graph>) -> Result<()> {
        self.graphs = self.graphs.iter().map(&mut f).collect::<Result<_>>()?;
        Ok(())
    }
}

/// What a pass does.
#[derive(Clone, Copy)]
enum Body {
    Stage(fn(&mut Module, &PassOptions) -> Result<()>),
    Rule(Rule),
}

/// A pass.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The forms that it can start from.
    pub takes: &'static [Form],
    body: Body,
}

const FLOAT: &[Form] = &[Form::Forward, Form::Training];
const GRAPHS: &[Form] = &[Form::Forward, Form::Training, Form::Quantized];

/// The passes in the order of the stages; rewrite rules follow them ([`passes`]).
const STAGES: &[Pass] = &[
    Pass {
        name: "verify",
        summary: "check the module, and nothing else",
        takes: GRAPHS,
        body: Body::Stage(|_, _| Ok(())),
    },
    Pass {
        name: "inference",
        summary: "outputs without labels, running statistics, no dropout",
        takes: &[Form::Forward],
        body: Body::Stage(inference),
    },
    Pass {
        name: "autodiff",
        summary: "loss, backward pass and update, after the algorithm's preparation (folded batch normalization)",
        takes: &[Form::Forward],
        body: Body::Stage(autodiff),
    },
    Pass {
        name: "gather-functions",
        summary: "elementwise functions of one tensor, and slopes of errors through them, become one formula each (part of `translate`, where the algorithm asks for it)",
        takes: FLOAT,
        body: Body::Stage(functions),
    },
    Pass {
        name: "translate",
        summary: "into the algorithm's representation",
        takes: FLOAT,
        body: Body::Stage(translated),
    },
    Pass {
        name: "fold-relus",
        summary: "ReLUs of results that are rounded by a kept shift become their clamp (part of `optimise`)",
        takes: GRAPHS,
        body: Body::Stage(|module, _| module.map(|graph| Ok(fold_relus(graph)))),
    },
    Pass {
        name: "gather-formulas",
        summary: "FP32 operations of single elements that follow each other become one formula where it costs no more (part of `optimise`)",
        takes: GRAPHS,
        body: Body::Stage(gathered),
    },
    Pass {
        name: "optimise",
        summary: "every rewrite rule by equality saturation, extracted by the target's costs",
        takes: GRAPHS,
        body: Body::Stage(optimised),
    },
    Pass {
        name: "plan",
        summary: "schedule and memory plan",
        takes: GRAPHS,
        body: Body::Stage(planned),
    },
    Pass {
        name: "emit",
        summary: "the target's files",
        takes: &[Form::Program],
        body: Body::Stage(emitted),
    },
];

/// Every pass: the stages in order, then each rewrite rule by its name.
pub fn passes() -> Vec<Pass> {
    let rule = |rule: Rule| Pass {
        name: rule.name,
        summary: rule.summary,
        takes: GRAPHS,
        body: Body::Rule(rule),
    };
    STAGES.iter().copied().chain(rules().into_iter().map(rule)).collect()
}

/// The pass of that name.
///
/// # Errors
/// If there is none: the names that are near, and where the list is.
pub fn find(name: &str) -> Result<Pass> {
    let all = passes();
    let near = || trainc_ir::text::nearest::did_you_mean(name, all.iter().map(|p| p.name));
    let found = all.iter().copied().find(|p| p.name == name);
    found.with_context(|| {
        format!("there is no pass `{name}`{}; `trainc opt --list` names them", near())
    })
}

impl Pass {
    /// Whether it is a rewrite rule.
    pub fn is_rule(&self) -> bool {
        matches!(self.body, Body::Rule(_))
    }

    /// The forms that it takes, in words.
    fn taken(&self) -> String {
        let names: Vec<String> =
            self.takes.iter().map(|form| format!("a {}", form.name())).collect();
        match &names[..] {
            [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            names => names.concat(),
        }
    }

    /// What to do where it cannot start from a form.
    fn way_out(&self, form: Form) -> &'static str {
        match form {
            Form::Alternatives => "let no pass follow a rule that gives several",
            Form::Program => "only `emit` follows `plan`",
            Form::Files => "no pass follows `emit`",
            _ if self.takes == [Form::Program] => "put `plan` before it",
            _ => {
                "start from an earlier stage (`trainc inspect MODEL --emit=graph` prints the first), or leave the pass out"
            }
        }
    }

    /// Runs the pass; the result verifies.
    ///
    /// # Errors
    /// If it cannot start from the module's form, and the pass's own.
    pub fn run(&self, module: &mut Module, options: &PassOptions) -> Result<()> {
        let form = module.form;
        if !self.takes.contains(&form) {
            bail!(
                "it takes {}, and this is a {}: {}",
                self.taken(),
                form.name(),
                self.way_out(form)
            );
        }
        match self.body {
            Body::Stage(run) => run(module, options)?,
            Body::Rule(rule) => rewritten(&rule, module)?,
        }
        // Rules and the optimiser know no stages; their results are in that of what they started from.
        let checked =
            Module { form: if self.is_rule() { form } else { module.form }, ..module.clone() };
        let stage = checked.stage(options);
        for graph in &module.graphs {
            verify(graph, &stage)?;
        }
        Ok(())
    }
}

fn inference(module: &mut Module, options: &PassOptions) -> Result<()> {
    let algorithm = options.algorithm_or_identity();
    module.map(|graph| {
        let imported = text_model::imported(graph.clone());
        model::inference(&imported, algorithm, None, &Default::default(), InferenceForm::Running)
    })
}

fn autodiff(module: &mut Module, options: &PassOptions) -> Result<()> {
    let algorithm = options.algorithm_or_identity();
    ensure!(
        algorithm.inference.is_none(),
        "algorithm `{}` only infers; give one that trains",
        algorithm.name
    );
    module.map(|graph| {
        let imported = text_model::imported(graph.clone());
        model::training(&imported, algorithm, None, &Default::default(), LossFunction::Model)
    })?;
    module.form = Form::Training;
    Ok(())
}

fn functions(module: &mut Module, options: &PassOptions) -> Result<()> {
    let least = options.algorithm_or_identity().gather_functions.unwrap_or(1);
    module.map(|graph| Ok(gather_functions(graph, least)?))
}

fn translated(module: &mut Module, options: &PassOptions) -> Result<()> {
    let algorithm = options.algorithm()?;
    if let Some(inference) = algorithm.inference {
        let mut remarks = Vec::new();
        module.map(|graph| {
            let found = quantize(graph, inference.eight_bit, &StoredScales::default())?;
            remarks.extend(found.warnings);
            Ok(found.module)
        })?;
        module.remarks.extend(remarks);
    } else {
        module.map(|graph| Ok(translate(graph, algorithm)?.0))?;
    }
    if !algorithm.is_identity() {
        module.form = Form::Quantized;
    }
    Ok(())
}

fn optimised(module: &mut Module, options: &PassOptions) -> Result<()> {
    let stage = module.stage(options);
    let limit = |limit: &String| format!("the optimiser stopped early ({limit})");
    let mut remarks = Vec::new();
    module.map(|graph| {
        let (optimised, report) = optimise(graph, &stage, options.target, &options.optimiser)?;
        remarks.extend(report.limit.as_ref().map(limit));
        Ok(optimised)
    })?;
    module.remarks.extend(remarks);
    Ok(())
}

fn gathered(module: &mut Module, options: &PassOptions) -> Result<()> {
    let stage = module.stage(options);
    module.map(|graph| Ok(gather_formulas(graph, &stage, options.target).0))
}

/// One rule, once. Where it finds nothing the module stays; where it finds several forms the result is their list.
fn rewritten(rule: &Rule, module: &mut Module) -> Result<()> {
    let [graph] = &module.graphs[..] else {
        bail!("rule `{}` takes one graph, and here are {}", rule.name, module.graphs.len());
    };
    let found = alternatives(graph, rule)?;
    match found.len() {
        0 => module.remarks.push(format!("rule `{}` finds nothing here", rule.name)),
        1 => module.graphs = found,
        _ => (module.form, module.graphs) = (Form::Alternatives, found),
    }
    Ok(())
}

/// Functions that update are called `train_step`, the others `infer`, with a number where that is taken.
fn planned(module: &mut Module, options: &PassOptions) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for graph in &module.graphs {
        let name = if graph.updates().is_empty() { INFER } else { TRAIN_STEP };
        let mut all = std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}_{n}")));
        names.extend(all.find(|name| !names.contains(name)));
    }
    let entries: Vec<PlanEntry<'_>> =
        names.iter().zip(&module.graphs).map(|(name, graph)| PlanEntry { name, graph }).collect();
    let name = module.graphs.first().map_or("", |g| g.name());
    let (program, _) = plan(name, &entries, options.target, &PlanOptions::default())?;
    module.graphs = Vec::new();
    module.program = Some(program);
    module.form = Form::Program;
    Ok(())
}

fn emitted(module: &mut Module, options: &PassOptions) -> Result<()> {
    let program = module.program.take().context("the program is not planned")?;
    module.files = options.target.emit(&program)?;
    module.form = Form::Files;
    Ok(())
}
