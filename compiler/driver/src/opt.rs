//! Passes on texts: `trainc opt`, and the tests in its form.

use trainc_ir::graph::NodeId;
use trainc_ir::target::Target;
use trainc_ir::text::cursor::{Span, SyntaxError};
use trainc_ir::text::{Parsed, Printer};
use trainc_ir::verify::{Subject, VerifyError, verify};
use trainc_opt::optimise::{OptimiseError, OptimiseOptions, Strategy};
use trainc_opt::training::TrainingError;
use trainc_opt::translate::TranslateError;

use crate::error::{Error, Result, TextError, bail, ensure, message};
use crate::passes::{Form, Module, Pass, PassOptions, find};
use crate::text_model::{located, read};
use crate::{algorithms, targets};

/// What to do with a text: options of the command line, or the lines of the text that start with [`DIRECTIVE`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Names of passes, in order.
    pub passes: Vec<String>,
    /// Name or file of the algorithm.
    pub algorithm: Option<String>,
    /// Name of the target; the host's if absent.
    pub target: Option<String>,
    /// What the text is, where it does not look it: `forward`, `training`, `quantized`.
    pub form: Option<String>,
    /// How the optimiser searches: `saturate`, `ordered`, `off`.
    pub strategy: Option<String>,
    /// The only file to print of those that a target emits.
    pub file: Option<String>,
    /// Whether to print the data of large tensors.
    pub with_data: bool,
}

/// How a line of a text starts that says what to do with it: `;! pass: autodiff, translate`.
pub const DIRECTIVE: &str = ";!";

impl Request {
    /// What the text's own lines ask for.
    ///
    /// # Errors
    /// If a line has no known key.
    pub fn of(text: &str) -> Result<Request, SyntaxError> {
        let mut request = Request::default();
        for line in text.lines().filter(|line| line.starts_with(DIRECTIVE)) {
            let start = line.as_ptr() as usize - text.as_ptr() as usize;
            let span = Span { start, end: start + line.len() };
            let (key, value) = line[DIRECTIVE.len()..]
                .split_once(':')
                .ok_or_else(|| span.error(text, "expected `;! key: value`"))?;
            let value = value.trim().to_string();
            match key.trim() {
                "pass" => {
                    request.passes.extend(value.split(',').map(|name| name.trim().to_string()))
                }
                "algorithm" => request.algorithm = Some(value),
                "target" => request.target = Some(value),
                "form" => request.form = Some(value),
                "opt" => request.strategy = Some(value),
                "file" => request.file = Some(value),
                key => {
                    let known = "pass, algorithm, target, form, opt, file";
                    return Err(span.error(text, format!("unknown key `{key}`, expected {known}")));
                }
            }
        }
        Ok(request)
    }

    /// This request, with that one's answers where it has none.
    pub fn or(self, other: Request) -> Request {
        Request {
            passes: if self.passes.is_empty() { other.passes } else { self.passes },
            algorithm: self.algorithm.or(other.algorithm),
            target: self.target.or(other.target),
            form: self.form.or(other.form),
            strategy: self.strategy.or(other.strategy),
            file: self.file.or(other.file),
            with_data: self.with_data || other.with_data,
        }
    }

    fn options(&self) -> Result<PassOptions> {
        let algorithm = self.algorithm.as_deref().map(algorithms::load).transpose()?;
        let default: &'static dyn Target = targets::TARGETS[0];
        let target = self.target.as_deref().map_or(Ok(default), targets::find)?;
        let strategy = match self.strategy.as_deref() {
            None | Some("saturate") => Strategy::Saturate,
            Some("ordered") => Strategy::Ordered,
            Some("off") => Strategy::Off,
            Some(other) => {
                bail!("unknown strategy `{other}`, expected saturate, ordered, off")
            }
        };
        let optimiser = OptimiseOptions { strategy, ..OptimiseOptions::default() };
        PassOptions::new(algorithm, target, optimiser)
    }

    fn form(&self) -> Result<Option<Form>> {
        Ok(match self.form.as_deref() {
            None => None,
            Some("forward") => Some(Form::Forward),
            Some("training") => Some(Form::Training),
            Some("quantized") => Some(Form::Quantized),
            Some(other) => {
                bail!("unknown form `{other}`, expected forward, training, quantized")
            }
        })
    }
}

/// Runs the passes of a request on a text; the result as text.
///
/// # Errors
/// With line and column of the text where the error is about one.
pub fn run(bytes: &[u8], request: &Request) -> Result<String> {
    let (text, parsed) = read(bytes)?;
    let options = request.options()?;
    ensure!(
        !request.passes.is_empty(),
        "no pass: give `--pass NAME,...` (`trainc opt --list` names them), or a line `;! pass: NAME, ...` in the text"
    );
    let passes: Vec<Pass> = request.passes.iter().map(|name| find(name)).collect::<Result<_>>()?;
    let graphs = parsed.iter().map(|p| p.graph.clone()).collect();
    let mut module = Module::new(graphs, request.form()?)?;
    let stage = module.stage(&options);
    for parsed in &parsed {
        verify(&parsed.graph, &stage).map_err(|e| located(text, parsed, &e))?;
    }
    for (position, pass) in passes.iter().enumerate() {
        pass.run(&mut module, &options).map_err(|e| {
            let places = places(&e, &parsed, position == 0);
            let mut shown = format!("{}: {}", pass.name, message(&e));
            let mut errors = Vec::new();
            for (span, what) in places {
                let error = span.error(text, what);
                shown = format!("{shown}\n{}", error.shown(text));
                errors.push(error);
            }
            TextError { shown, errors }
        })?;
    }
    if let Some(wanted) = &request.file {
        let names: Vec<&str> = module.files.iter().map(|f| f.name.as_str()).collect();
        ensure!(
            names.contains(&wanted.as_str()),
            "there is no file `{wanted}`; the passes give {}",
            if names.is_empty() { "none".to_string() } else { names.join(", ") }
        );
    }
    Ok(print(&module, request))
}

/// Where in the text an error of a pass is: the nodes that it names. Ids are those of the text's graph for the first pass
/// alone; later passes keep the model's names.
fn places(error: &Error, parsed: &[Parsed], first: bool) -> Vec<(Span, String)> {
    let node = |name: &str, id: Option<NodeId>| -> Option<(Span, String)> {
        parsed.iter().find_map(|p| {
            let named =
                |id: &NodeId| p.graph.nodes().get(id.index()).is_some_and(|n| n.name == name);
            let mut all = p.graph.node_ids();
            let id = id.filter(named).or_else(|| all.find(|id| named(id) && !name.is_empty()))?;
            let what = format!("this `{}`", p.graph.node(id).op.kind().name());
            Some((p.places.of(Subject::Node(id))?, what))
        })
    };
    match error {
        Error::InModel { cause, .. } | Error::While { cause, .. } => places(cause, parsed, first),
        Error::Translate(TranslateError::Untranslated { nodes, .. }) => {
            nodes.iter().filter_map(|n| node(&n.node, n.id)).collect()
        }
        Error::Training(TrainingError::Autodiff(e)) => node(&e.node, None).into_iter().collect(),
        Error::Optimise(OptimiseError::Infeasible { node: name, .. }) => {
            node(name, None).into_iter().collect()
        }
        Error::Verify(errors) if first && parsed.len() == 1 => {
            let at = |e: &VerifyError| Some((parsed[0].places.of(e.subject)?, e.message.clone()));
            errors.errors.iter().filter_map(at).collect()
        }
        _ => Vec::new(),
    }
}

/// A module as text: graphs, a program, or files one after another.
fn print(module: &Module, request: &Request) -> String {
    let mut parts: Vec<String> = module.remarks.iter().map(|r| format!("; {r}\n")).collect();
    let printer = Printer::default();
    let count = module.graphs.len();
    for (i, graph) in module.graphs.iter().enumerate() {
        let text = match request.with_data {
            true => printer.with_data(graph),
            false => printer.graph(graph),
        };
        parts.push(match module.form {
            Form::Alternatives => format!("; alternative {} of {count}\n{text}", i + 1),
            _ => text,
        });
    }
    parts.extend(module.program.as_ref().map(ToString::to_string));
    for file in &module.files {
        if request.file.as_ref().is_some_and(|wanted| *wanted != file.name) {
            continue;
        }
        parts.push(match std::str::from_utf8(&file.contents) {
            Ok(text) => format!("; file {}\n{text}", file.name),
            Err(_) => format!("; file {}: {} bytes\n", file.name, file.contents.len()),
        });
    }
    parts.join("\n")
}
