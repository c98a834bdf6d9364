//! Reads ONNX and TensorFlow Lite models into trainc's language.
//!
//! [`import_path`] gives a [`Graph`] with its parameters and what is worth a warning; [`check_path`] says whether a
//! model would import and lists everything that is in the way; [`supported_ops`] is the table of operators.
//!
//! Read the sources in this order: `onnx` (files, to and from [`proto`], a model of ONNX's operators), `tflite` (files of
//! TensorFlow Lite, translated into such models), then what takes those models, whatever the file: `known` (tensors), `roles` and `untie` (what is a parameter), `import` (the pass), `call` (one node), `ops` (one file a family of operators).
#![forbid(unsafe_code)]

mod call;
mod error;
mod file;
mod finite;
mod import;
mod known;
pub mod limits;
mod onnx;
mod ops;
pub mod proto;
mod roles;
mod shapes;
mod tflite;
mod traps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainc_ir::{Element, Graph, Tensor, ValueId};

pub use error::{ImportError, ImportErrorKind, Unsupported, Warning, WarningKind};
use file::read_file;
pub use finite::check_finite;
pub use known::{ExternalLocation, ExternalReader};
use onnx::external;
pub use onnx::{export, write};
pub use ops::{FIRST_OPSET, LAST_OPSET};
use proto::{ModelProto, TensorProto};

/// How batch norm normalizes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum BatchNormMode {
    /// As the file says.
    #[default]
    AsExported,
    /// With the statistics of the batch, updating the running ones.
    Training,
    /// With the running statistics.
    Frozen,
}

/// Whether dropout drops.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DropoutMode {
    /// As the file says.
    #[default]
    AsExported,
    /// Never: for evaluation.
    Off,
}

/// How to import.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ImportOptions {
    /// Batch size: for an open first dimension of the inputs (1 if not given), and in place of a fixed one.
    pub batch: Option<usize>,
    /// Sizes of other open dimensions, by symbol.
    pub dimensions: BTreeMap<String, usize>,
    /// Whether the model is to be trained: adds warnings about what exporters do to batch norm.
    pub training: bool,
    /// How batch norm normalizes.
    pub batch_norm: BatchNormMode,
    /// Whether dropout drops.
    pub dropout: DropoutMode,
    /// Inputs of the model that are constants with these values.
    pub constants: BTreeMap<String, TensorProto>,
}

/// A loss that the model computes itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Loss {
    /// Name of the output that is the loss.
    pub output: String,
    /// The loss: a scalar, or an element for each label without reduction.
    pub value: ValueId,
    /// What the loss node is given: logits or log-probabilities [N, C, d...].
    pub scores: ValueId,
    /// Name of the output that is `scores`, if there is one.
    pub scores_output: Option<String>,
    /// Class labels, i32 [N, d...].
    pub labels: ValueId,
    /// What `scores` are.
    pub form: LossForm,
}

/// What a loss node is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossForm {
    /// Logits.
    SoftmaxCrossEntropy,
    /// Log-probabilities.
    NegativeLogLikelihood,
}

/// Who wrote the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Producer {
    /// Tool.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Version of ONNX's operator set.
    pub opset: i64,
    /// Version of the file format.
    pub ir_version: i64,
}

/// How the file stores a parameter as integers (DequantizeLinear of an initializer): its values are
/// `(integer - zero_point) * scale`.
#[derive(Clone, PartialEq, Debug)]
pub struct IntegerParameter {
    /// The FP32 parameter.
    pub value: ValueId,
    /// The integers' type in the file; bounds by Clip may be tighter.
    pub element: Element,
    /// Channel axis if there are several scales.
    pub axis: usize,
    /// One scale, or one for each index of the axis.
    pub scale: Vec<f32>,
    /// As many zero points.
    pub zero_point: Vec<i64>,
    /// The integers, row-major in the shape of the parameter.
    pub integers: Vec<i64>,
}

impl IntegerParameter {
    /// The values in the shape of the parameter, row-major.
    pub fn values(&self, shape: &[usize]) -> Vec<f32> {
        let stride: usize = shape.iter().skip(self.axis + 1).product::<usize>().max(1);
        let count = self.scale.len().max(1);
        let integers = self.integers.iter().enumerate();
        let real = integers.map(|(i, &q)| {
            let at = i / stride % count;
            q.saturating_sub(self.zero_point[at]) as f32 * self.scale[at]
        });
        real.collect()
    }
}

/// An imported model.
#[derive(Clone, PartialEq, Debug)]
pub struct Imported {
    /// The model: FP32, forward; batch norm in training form also has updates of its running statistics.
    pub graph: Graph,
    /// What is worth saying.
    pub warnings: Vec<Warning>,
    /// The loss, if an output of the model is one.
    pub loss: Option<Loss>,
    /// Parameters that the file stores as integers, in the order of their nodes.
    pub integer_parameters: Vec<IntegerParameter>,
    /// Who wrote the file.
    pub producer: Producer,
}

/// A model that was read. What is imported from it several times (with other batch sizes) shares the weights.
#[derive(Debug)]
pub struct Model {
    read: import::Read,
    /// What the format has beside the model.
    lite: Option<tflite::Lite>,
    path: Option<PathBuf>,
}

impl Model {
    /// Reads a model file. Weights in other files are read from its folder.
    ///
    /// # Errors
    /// If the file cannot be read, breaks its format's rules, or is beyond [`limits`].
    pub fn open(path: &Path) -> Result<Model, ImportError> {
        let folder = external::Folder::of(path);
        // The file's bytes go before the weights are read from the messages.
        let model = read_file(path)
            .and_then(|bytes| decode(&bytes))
            .and_then(|decoded| decoded.read(&|at| folder.read(at)))
            .map_err(|e| e.in_file(path))?;
        Ok(Model { path: Some(path.to_path_buf()), ..model })
    }

    /// Reads a model from bytes; `external` gives the bytes of weights in other files.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn decode(bytes: &[u8], external: &ExternalReader<'_>) -> Result<Model, ImportError> {
        decode(bytes)?.read(external)
    }

    /// Imports the model.
    ///
    /// # Errors
    /// If it breaks ONNX's rules, is beyond [`limits`], or uses what is not supported.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported, ImportError> {
        let imported = match &self.lite {
            None => import::import(&self.read, options),
            Some(lite) => import::import(&self.read, options).map_err(|e| lite.located(e)).map(
                |mut imported| {
                    imported.warnings.splice(..0, lite.warnings.iter().cloned());
                    imported
                },
            ),
        };
        imported.map_err(|e| match &self.path {
            Some(path) => e.in_file(path),
            None => e,
        })
    }
}

/// Reads and imports a model file, as [`Model::open`] and [`Model::import`].
///
/// # Errors
/// As theirs.
pub fn import_path(path: &Path, options: &ImportOptions) -> Result<Imported, ImportError> {
    Model::open(path)?.import(options)
}

/// The files beside a model file that it takes weights from, for build systems; they need not be there.
///
/// # Errors
/// If the file cannot be read or is no model.
pub fn external_files(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let decoded = read_file(path).and_then(|b| decode(&b)).map_err(|e| e.in_file(path))?;
    let Decoded::Onnx(model) = decoded else { return Ok(Vec::new()) };
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok(external::locations(&model).iter().map(|location| folder.join(location)).collect())
}

/// Reads and imports a model from bytes; `external` gives the bytes of weights in other files.
///
/// # Errors
/// As [`import_path`].
pub fn import_bytes(
    bytes: &[u8],
    external: &ExternalReader<'_>,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    Model::decode(bytes, external)?.import(options)
}

/// Imports a decoded model, as [`import_bytes`].
///
/// # Errors
/// As [`import_path`].
pub fn import_model(
    model: ModelProto,
    external: &ExternalReader<'_>,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    Decoded::Onnx(model).read(external)?.import(options)
}

/// A file's content, by its format.
enum Decoded {
    Onnx(ModelProto),
    Lite(tflite::Lite),
}

fn decode(bytes: &[u8]) -> Result<Decoded, ImportError> {
    match tflite::is_lite(bytes) {
        true => tflite::decode(bytes).map(Decoded::Lite),
        false => onnx::decode(bytes).map(Decoded::Onnx),
    }
}

impl Decoded {
    fn read(self, external: &ExternalReader<'_>) -> Result<Model, ImportError> {
        let (model, lite) = match self {
            Decoded::Onnx(model) => (model, None),
            Decoded::Lite(mut lite) => (std::mem::take(&mut lite.model), Some(lite)),
        };
        let read = import::Read::new(model, external).map_err(|e| match &lite {
            Some(lite) => lite.located(e),
            None => e,
        })?;
        Ok(Model { read, lite, path: None })
    }
}

/// Reads a tensor message (a `.pb` file of ONNX's tests): floats as f32, integers by their width, INT64 as i32.
///
/// # Errors
/// In words, if the data do not fit the claimed type and shape, or the type or a value is not supported.
pub fn read_tensor(tensor: &TensorProto) -> Result<Tensor, String> {
    let no_files = |_: &ExternalLocation| Err("no external data here".to_string());
    known::Known::read(&mut tensor.clone(), &no_files)?.to_tensor().map(Arc::unwrap_or_clone)
}

/// What [`check_path`] found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CheckReport {
    /// Whether the model imports.
    pub imports: bool,
    /// Everything that is not supported.
    pub unsupported: Vec<Unsupported>,
    /// Why the model does not import, if not for what is in `unsupported`.
    pub error: Option<ImportError>,
    /// What is worth saying if it imports.
    pub warnings: Vec<Warning>,
    /// How often each operator occurs, by name.
    pub operators: BTreeMap<String, usize>,
}

/// Checks whether a model would import for training, and lists all that is in the way.
pub fn check_path(path: &Path) -> CheckReport {
    let folder = external::Folder::of(path);
    match read_file(path) {
        Ok(bytes) => {
            let mut report = check_bytes(&bytes, &|at| folder.read(at));
            report.error = report.error.map(|e| e.in_file(path));
            report
        }
        Err(e) => CheckReport { error: Some(e.in_file(path)), ..CheckReport::default() },
    }
}

/// As [`check_path`], from bytes.
pub fn check_bytes(bytes: &[u8], external: &ExternalReader<'_>) -> CheckReport {
    let mut report = CheckReport::default();
    let decoded = match decode(bytes) {
        Ok(decoded) => decoded,
        Err(ImportError { kind: ImportErrorKind::Unsupported(unsupported), .. }) => {
            let operators = tflite::operators_of(bytes);
            return CheckReport { unsupported, operators, ..report };
        }
        Err(e) => return CheckReport { error: Some(e), ..report },
    };
    let mut in_table = Vec::new();
    match &decoded {
        Decoded::Onnx(model) => {
            (report.operators, in_table) = onnx_operators(model);
        }
        Decoded::Lite(lite) => report.operators.clone_from(&lite.operators),
    }
    let options = ImportOptions { training: true, ..ImportOptions::default() };
    match decoded.read(external).and_then(|model| model.import(&options)) {
        Ok(imported) => {
            report.imports = true;
            report.warnings = imported.warnings;
        }
        Err(ImportError { kind: ImportErrorKind::Unsupported(items), .. }) => {
            report.unsupported = items;
        }
        Err(e) => {
            // A training graph is one thing to say, not a list of operators.
            if !matches!(e.kind, ImportErrorKind::TrainingGraph { .. }) {
                report.unsupported = in_table;
            }
            report.error = Some(e);
        }
    }
    report
}

/// How often each operator of a model occurs, and what the table alone says is not supported.
fn onnx_operators(model: &ModelProto) -> (BTreeMap<String, usize>, Vec<Unsupported>) {
    let mut operators: BTreeMap<String, usize> = BTreeMap::new();
    for node in model.graph.iter().flat_map(|g| &g.node) {
        let name = match node.domain.as_str() {
            "" | "ai.onnx" => node.op_type.clone(),
            domain => format!("{domain}.{}", node.op_type),
        };
        *operators.entry(name).or_default() += 1;
    }
    let own = |o: &&proto::OperatorSetIdProto| matches!(&*o.domain, "" | "ai.onnx");
    let opset = model.opset_import.iter().filter(own).map(|o| o.version).max().unwrap_or(1);
    let in_table = model.graph.as_ref().map(|g| import::check_table(g, opset)).unwrap_or_default();
    (operators, in_table)
}

/// An operator that is imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupportedOp {
    /// ONNX's name.
    pub op: &'static str,
    /// First and last version of the operator set.
    pub opsets: (i64, i64),
    /// Attributes that are understood.
    pub attributes: &'static [&'static str],
    /// What a user should know.
    pub notes: &'static str,
}

/// Every operator of ONNX that is imported, ordered by name.
pub fn supported_ops() -> impl Iterator<Item = SupportedOp> {
    ops::TABLE.iter().map(|row| SupportedOp {
        op: row.op,
        opsets: (row.since.max(FIRST_OPSET), LAST_OPSET),
        attributes: row.attributes,
        notes: row.notes,
    })
}

/// Every operator of QONNX that is imported, ordered by name, with the versions of QONNX's operator set.
pub fn supported_qonnx_ops() -> impl Iterator<Item = SupportedOp> {
    ops::qonnx::TABLE.iter().map(|row| SupportedOp {
        op: row.op,
        opsets: (row.since, ops::qonnx::LAST_VERSION),
        attributes: row.attributes,
        notes: row.notes,
    })
}

/// The table of [`supported_ops`] in Markdown.
pub fn supported_ops_table() -> String {
    table(supported_ops())
}

/// The table of [`supported_qonnx_ops`] in Markdown.
pub fn supported_qonnx_ops_table() -> String {
    table(supported_qonnx_ops())
}

/// Every operator of TensorFlow Lite that is imported, ordered by name, with what a user should know.
pub fn supported_lite_ops() -> impl Iterator<Item = (&'static str, &'static str)> {
    tflite::ops::TABLE.iter().map(|row| (row.op, row.notes))
}

/// The table of [`supported_lite_ops`] in Markdown.
pub fn supported_lite_ops_table() -> String {
    let mut text = String::from("| operator | notes |\n| --- | --- |\n");
    for (op, notes) in supported_lite_ops() {
        text.push_str(&format!("| {op} | {notes} |\n"));
    }
    text
}

fn table(ops: impl Iterator<Item = SupportedOp>) -> String {
    let mut text = String::from("| operator | opsets | notes |\n| --- | --- | --- |\n");
    for op in ops {
        text.push_str(&format!("| {} | {}-{} | {} |\n", op.op, op.opsets.0, op.opsets.1, op.notes));
    }
    text
}
