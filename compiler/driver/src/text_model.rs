//! Models in the text form: what `trainc inspect --emit=graph` prints, read back.

use std::io::Read;
use std::path::Path;

use trainc_ir::graph::{Graph, ValueId};
use trainc_ir::text::{Parsed, parse_graphs};
use trainc_ir::verify::{Stage, VerifyErrors, verify};
use trainc_ir::{Op, OpKind};
use trainc_onnx_import::{
    BatchNormMode, DropoutMode, ImportOptions, Imported, Loss, LossForm, Producer, Warning,
    WarningKind, limits,
};
use trainc_opt::inference::with_running_statistics;
use trainc_opt::rebatch::{batch, with_batch};
use trainc_opt::translate::remove_operations;

use crate::error::{Context, Error, Result, TextError, bail, ensure};
use crate::form::Form;
use crate::select::select;

/// Extension of files in the text form.
pub const EXTENSION: &str = "qir";

/// Whether a file's content starts as a text does: with the word `graph`, after comments.
pub fn is_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(START)];
    let mut lines = start.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b";"));
    let rest = first.and_then(|line| line.strip_prefix(b"graph"));
    rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"@"))
}

/// Bytes of a file that may be comments before its graph.
const START: usize = 4096;

/// [`is_text`] of the start of a file.
pub fn starts_as_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map(|file| file.take(START as u64));
    file.and_then(|mut file| file.read_to_end(&mut start)).is_ok() && is_text(&start)
}

/// Reads the graphs of a text.
///
/// # Errors
/// If it is none, with line and column.
pub fn read(bytes: &[u8]) -> Result<(&str, Vec<Parsed>)> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
        Error::Refused(format!("line {line}: the text is not UTF-8"))
    })?;
    let parsed = parse_graphs(text).map_err(|e| TextError::new(text, vec![e]))?;
    for Parsed { graph, places, .. } in &parsed {
        let large = graph.value_ids().find(|&v| graph.ty(v).count() > limits::MAX_ELEMENTS);
        if let Some(v) = large {
            let message = format!("{} has more than 2^31 - 1 elements", graph.ty(v));
            let place = places.of(trainc_ir::verify::Subject::Value(v)).unwrap_or_default();
            return Err(TextError::new(text, vec![place.error(text, message)]).into());
        }
    }
    Ok((text, parsed))
}

/// The verifier's errors at their places in the text.
pub fn located(text: &str, parsed: &Parsed, errors: &VerifyErrors) -> TextError {
    let at = |e: &trainc_ir::verify::VerifyError| {
        parsed.places.of(e.subject).unwrap_or_default().error(text, e.to_string())
    };
    TextError::new(text, errors.errors.iter().map(at).collect())
}

/// Reads a model from its text form, as the importer would give it under these options.
///
/// # Errors
/// If the text is not one forward graph that verifies, with line and column; or it cannot be what the options ask for.
pub fn import(bytes: &[u8], options: &ImportOptions) -> Result<Imported> {
    let (text, parsed) = read(bytes)?;
    let [model] = &parsed[..] else {
        bail!(
            "a model is one graph, and the text has {}; `trainc opt` takes several",
            parsed.len()
        );
    };
    let form = Form::of(&model.graph);
    ensure!(
        form == Form::Forward,
        "the text is a {}, and a model is a forward graph, as `trainc inspect MODEL --emit=graph` prints it; \
         `trainc opt` goes on from any stage",
        form.name()
    );
    verify(&model.graph, &Stage::Float).map_err(|e| located(text, model, &e))?;
    ensure!(
        options.dimensions.is_empty() && options.constants.is_empty(),
        "the text form states every size; sizes of open dimensions are for ONNX files"
    );
    let mut graph = model.graph.clone();
    if let Some(count) = options.batch.filter(|&count| batch(&graph) != Some(count)) {
        graph = with_batch(&graph, count).context("the text form at another batch size")?;
    }
    let norms = |wanted: bool| {
        let is = |op: &Op| matches!(op, Op::BatchNorm(norm) if norm.batch == wanted);
        graph.nodes().iter().find(|n| is(&n.op)).map(|n| n.name.clone())
    };
    match options.batch_norm {
        BatchNormMode::Training => {
            if let Some(node) = norms(false) {
                bail!(
                    "batch normalization `{node}` has frozen statistics in the text; print the text from the ONNX file with \
                     `--batch-norm training`"
                );
            }
        }
        BatchNormMode::Frozen if norms(true).is_some() => {
            graph = with_running_statistics(&graph)?;
            let outputs: Vec<(String, ValueId)> =
                graph.outputs().iter().map(|o| (o.name.clone(), o.value)).collect();
            graph = select(&graph, &outputs, true)?;
        }
        BatchNormMode::Frozen | BatchNormMode::AsExported => {}
    }
    if options.dropout == DropoutMode::Off {
        graph = remove_operations(&graph, &[OpKind::Dropout].into());
    }
    let mut imported = imported(graph);
    if model.drawn > 0 {
        let message = format!(
            "the text has {} tensor(s) by their hash alone; others were drawn in their place (--with-data prints their data)",
            model.drawn
        );
        imported.warnings.push(Warning { kind: WarningKind::Drawn, message });
    }
    Ok(imported)
}

/// A forward graph as a model: with its loss, if an output is one.
pub fn imported(graph: Graph) -> Imported {
    let loss = graph.nodes().iter().find_map(|node| {
        let scores = match &node.op {
            Op::SoftmaxCrossEntropy(_) => node.inputs[0],
            Op::NllLoss(_) => match graph.producer(node.inputs[0]) {
                // As the importer spells a loss of scores that is not the plain one.
                Some(log) if log.name == format!("{}/log_probabilities", node.name) => {
                    log.inputs[0]
                }
                _ => node.inputs[0],
            },
            _ => return None,
        };
        let named = |value| graph.outputs().iter().find(|o| o.value == value);
        let output = named(node.outputs[0])?;
        Some(Loss {
            output: output.name.clone(),
            value: output.value,
            scores,
            scores_output: named(scores).map(|o| o.name.clone()),
            labels: node.inputs[1],
            form: match node.op {
                Op::NllLoss(_) if scores == node.inputs[0] => LossForm::NegativeLogLikelihood,
                _ => LossForm::SoftmaxCrossEntropy,
            },
        })
    });
    Imported {
        graph,
        warnings: Vec::new(),
        loss,
        integer_parameters: Vec::new(),
        producer: Producer {
            name: "trainc".to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            opset: 0,
            ir_version: 0,
        },
    }
}
