//! TensorFlow Lite files: from bytes to the model that the importer takes.
//!
//! `flatbuffer` reads bytes, `schema` the tables, `ops` translate operators one by one into those of the importer, with
//! channels behind the batch where convolutions want them (`layout`); `translator` holds what they build.

mod flatbuffer;
mod flexbuffer;
mod layout;
pub(crate) mod ops;
mod quantization;
mod schema;
mod stored;
mod translator;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{ImportError, ImportErrorKind, NodeError, Unsupported, Warning, WarningKind};
use crate::limits;
use crate::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
    data_type,
};
use flatbuffer::Reader;
use layout::Layout;
use ops::Call;
use schema::{Model, Signature, Subgraph};
use stored::element;
use translator::{Translator, Value};

/// Version of the importer's operator set that the nodes are written in.
const OPSET: i64 = 20;

/// Version of ONNX's file format that an exported model states: initializers need not be inputs.
const IR_VERSION: i64 = 9;

/// Whether bytes are such a file, or claim to be.
pub(crate) fn is_lite(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(b"TFL3")
}

/// A file as the importer takes it.
#[derive(Debug)]
pub(crate) struct Lite {
    pub(crate) model: ModelProto,
    pub(crate) warnings: Vec<Warning>,
    /// Operators of the file by the names of their nodes.
    places: BTreeMap<String, Place>,
    /// How often each operator occurs.
    pub(crate) operators: BTreeMap<String, usize>,
}

/// An operator of the file.
#[derive(Clone, Debug)]
struct Place {
    /// In words.
    node: String,
    op: String,
}

impl Lite {
    /// An error of the importer with the file's operator in place of the node made from it.
    pub(crate) fn located(&self, mut error: ImportError) -> ImportError {
        let place = |node: &str| self.places.get(node.split('/').next().unwrap_or_default());
        match &mut error.kind {
            ImportErrorKind::Unsupported(items) => {
                for item in items {
                    if let Some(Place { node, op }) = place(&item.node) {
                        (item.node, item.op) = (node.clone(), op.clone());
                    }
                }
            }
            ImportErrorKind::Invalid { node: Some(name), reason, .. } => {
                if let Some(Place { node, op }) = place(name) {
                    error.kind = ImportError::invalid_node(node, op, reason.clone()).kind;
                }
            }
            _ => {}
        }
        error
    }
}

fn malformed(reason: String) -> ImportError {
    ImportError::new(ImportErrorKind::NotLite(reason))
}

/// Decodes a file's bytes.
///
/// # Errors
/// If they are malformed, beyond the limits, or use what is not supported.
pub(crate) fn decode(bytes: &[u8]) -> Result<Lite, ImportError> {
    let reader = Reader::new(bytes);
    let model = schema::read(&reader).map_err(malformed)?;
    let (index, signature) = choose(&model)?;
    let Some(subgraph) = model.subgraphs.get(index) else {
        return Err(malformed("there is no subgraph".to_string()));
    };
    if subgraph.operators.len() > limits::MAX_NODES {
        return Err(ImportError::limit(format!("{} operators", subgraph.operators.len())));
    }
    let mut t = Translator::new(subgraph, bytes.len());
    say_signatures(&mut t, &model, signature);
    let mut graph = GraphProto { name: "model".to_string(), ..GraphProto::default() };
    let lists = signature.map(|s| (&s.inputs[..], &s.outputs[..])).unwrap_or_default();
    let inputs = named(&mut t, &subgraph.inputs, lists.0);
    let outputs = named(&mut t, &subgraph.outputs, lists.1);
    if outputs.is_empty() {
        return Err(malformed("the subgraph has no output".to_string()));
    }
    for (tensor, name) in &inputs {
        graph.input.push(input(&mut t, *tensor, name)?);
    }
    variables(&mut t, &model).map_err(|e| failed(e, "variables", "ASSIGN_VARIABLE"))?;
    let places = operators(&mut t, index)?;
    ops::say_empty(&mut t);
    say_hybrid(&mut t);
    for (tensor, name) in outputs {
        t.begin(name.clone());
        let error = |e| failed(e, &format!("output `{name}`"), "output");
        let x = t.plain(tensor).map_err(error)?;
        t.nodes.push(NodeProto::new("Identity", &name, &[&x], &[&name]));
        t.say_grid(tensor, "output", &name);
        let sizes = sizes(&subgraph.tensors[tensor]);
        graph.output.push(ValueInfoProto::tensor(&name, data_type::FLOAT, sizes));
    }
    (graph.node, graph.initializer) = (t.nodes, t.initializers);
    let set = |domain: &str, version| OperatorSetIdProto { domain: domain.to_string(), version };
    let model = ModelProto {
        ir_version: IR_VERSION,
        producer_name: "TensorFlow Lite".to_string(),
        producer_version: model.description.clone(),
        opset_import: vec![set("", OPSET), set(quantization::QUANTIZERS, 1)],
        graph: Some(graph),
        ..ModelProto::default()
    };
    Ok(Lite { model, warnings: t.warnings, places, operators: counted(subgraph) })
}

/// How often each operator of a file's model occurs; nothing for what cannot be read.
pub(crate) fn operators_of(bytes: &[u8]) -> BTreeMap<String, usize> {
    let reader = Reader::new(bytes);
    let Ok(model) = schema::read(&reader) else { return BTreeMap::new() };
    let subgraph = choose(&model).ok().and_then(|(index, _)| model.subgraphs.get(index));
    subgraph.map(counted).unwrap_or_default()
}

fn counted(subgraph: &Subgraph<'_>) -> BTreeMap<String, usize> {
    let mut operators = BTreeMap::new();
    for op in &subgraph.operators {
        *operators.entry(op.name.clone()).or_default() += 1;
    }
    operators
}

/// The subgraph that is the model: that of the signature for inference, or the first.
fn choose<'m>(model: &'m Model<'_>) -> Result<(usize, Option<&'m Signature>), ImportError> {
    const INFERENCE: [&str; 6] =
        ["serving_default", "infer", "inference", "predict", "forward", "eval"];
    let changes = |s: &&Signature| {
        model.subgraphs[s.subgraph].operators.iter().any(|op| op.name == "ASSIGN_VARIABLE")
    };
    let named = INFERENCE.iter().find_map(|key| model.signatures.iter().find(|s| s.key == *key));
    let quiet = || model.signatures.iter().find(|s| !changes(s) && !s.outputs.is_empty());
    match named.or_else(quiet).or(model.signatures.first()) {
        Some(signature) if changes(&signature) => Err(malformed(format!(
            "no signature is for inference: `{}` changes variables; trainc makes the training step itself from a \
             signature such as `infer` or `serving_default`",
            signature.key
        ))),
        Some(signature) => Ok((signature.subgraph, Some(signature))),
        None => Ok((0, None)),
    }
}

fn say_signatures(t: &mut Translator<'_>, model: &Model<'_>, chosen: Option<&Signature>) {
    let Some(chosen) = chosen else { return };
    let others: Vec<String> = model
        .signatures
        .iter()
        .filter(|s| s.key != chosen.key)
        .map(|s| format!("`{}`", s.key))
        .collect();
    if !others.is_empty() {
        let message = format!(
            "the model is signature `{}`; the file's {} is not used: trainc makes the training step itself",
            chosen.key,
            others.join(", ")
        );
        t.warn(WarningKind::Ignored, message);
    }
}

/// Inputs or outputs with unique names: the signature's, or the tensors' own.
fn named(
    t: &mut Translator<'_>,
    tensors: &[usize],
    names: &[(String, usize)],
) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for &tensor in tensors {
        let own = &t.subgraph.tensors[tensor].name;
        let name = names.iter().find(|(_, i)| *i == tensor).map_or(own, |(name, _)| name).clone();
        found.push((tensor, t.unique(&name)));
    }
    found
}

/// Sizes of an input or output; an open first one is the batch.
fn sizes(tensor: &schema::Tensor<'_>) -> Vec<DimensionProto> {
    let size = |i: usize| match (tensor.open[i], i) {
        (false, _) => DimensionProto::known(tensor.dims[i]),
        (true, 0) => DimensionProto::symbol("batch"),
        (true, _) => DimensionProto::symbol("?"),
    };
    (0..tensor.dims.len()).map(size).collect()
}

fn input(t: &mut Translator<'_>, tensor: usize, name: &str) -> Result<ValueInfoProto, ImportError> {
    let info = &t.subgraph.tensors[tensor];
    let dims = info.dims.clone();
    let refused = |e| failed(e, &format!("input `{name}`"), "input");
    let quantized =
        quantization::grid(info.ty, info.quantization.as_ref()).map_err(refused)?.is_some();
    let ty = if quantized { data_type::FLOAT } else { element(info.ty) };
    t.begin(name.to_string());
    let value = t.on_grid(tensor, name.to_string()).map_err(refused)?;
    t.say_grid(tensor, "input", name);
    t.values.insert(tensor, Value::Computed { dims, forms: vec![(Layout::Plain, value)] });
    Ok(ValueInfoProto::tensor(name, ty, sizes(info)))
}

/// Takes the values of variables that subgraphs called once assign.
fn variables<'m>(t: &mut Translator<'m>, model: &'m Model<'m>) -> Result<(), NodeError> {
    let called = t.subgraph.operators.iter().filter(|op| op.name == "CALL_ONCE");
    for op in called.collect::<Vec<_>>() {
        let index = op.options.map_or(Ok(0), |o| o.i32(0, 0)).map_err(NodeError::Invalid)?;
        let Some(initial) = usize::try_from(index).ok().and_then(|i| model.subgraphs.get(i)) else {
            return Err(NodeError::Invalid(format!("there is no subgraph {index}")));
        };
        assigned(t, initial)?;
    }
    Ok(())
}

fn assigned<'m>(t: &mut Translator<'m>, initial: &'m Subgraph<'m>) -> Result<(), NodeError> {
    let mut handles: BTreeMap<usize, String> = BTreeMap::new();
    for op in &initial.operators {
        match (&*op.name, &op.inputs[..], &op.outputs[..]) {
            ("VAR_HANDLE", _, &[handle]) => {
                let text = |number| op.options.map_or(Ok(String::new()), |o| o.string(number));
                let (container, name) = (text(0), text(1));
                let (container, name) =
                    (container.map_err(NodeError::Invalid)?, name.map_err(NodeError::Invalid)?);
                handles.insert(handle, ops::variable_key(&container, &name));
            }
            ("ASSIGN_VARIABLE", &[Some(handle), Some(value)], _) => {
                let tensor = &initial.tensors[value];
                let (Some(key), Some(bytes)) = (handles.get(&handle), tensor.data) else {
                    continue;
                };
                let (ty, q) = (tensor.ty, tensor.quantization.clone());
                let stored = t.root(key, ty, tensor.dims.clone(), q, bytes.into())?;
                if let Value::Stored { root, .. } = stored {
                    t.variables.insert(key.clone(), root);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Operators that an output depends on, by position.
fn live(subgraph: &Subgraph<'_>) -> Vec<usize> {
    let mut wanted: BTreeSet<usize> = subgraph.outputs.iter().copied().collect();
    let mut live = Vec::new();
    for (index, op) in subgraph.operators.iter().enumerate().rev() {
        if op.outputs.iter().any(|o| wanted.contains(o)) {
            // A shape that is computed is what the file states of the result.
            let shape = |i: usize, tensor: usize| {
                op.name == "RESHAPE" && i == 1 && subgraph.tensors[tensor].data.is_none()
            };
            let operands = op.inputs.iter().enumerate();
            wanted.extend(operands.filter_map(|(i, o)| o.filter(|&o| !shape(i, o))));
            live.push(index);
        }
    }
    live.reverse();
    live
}

/// Translates the operators.
fn operators(t: &mut Translator<'_>, index: usize) -> Result<BTreeMap<String, Place>, ImportError> {
    let subgraph = t.subgraph;
    let mut places = BTreeMap::new();
    let mut unsupported = Vec::new();
    let mut wrong: Option<ImportError> = None;
    let mut defined: BTreeSet<usize> = subgraph.inputs.iter().copied().collect();
    for at in live(subgraph) {
        let op = &subgraph.operators[at];
        let name = match subgraph.name.as_str() {
            "" => format!("{at} of subgraph {index}"),
            name => format!("{at} of subgraph {index} ({name})"),
        };
        let place = Place { node: format!("operator {name}"), op: op.name.clone() };
        t.begin(format!("{}_{at}", op.name));
        places.insert(t.current.clone(), place.clone());
        let twice = op.outputs.iter().find(|o| !defined.insert(**o));
        let poisoned =
            op.inputs.iter().flatten().any(|i| matches!(t.values.get(i), Some(Value::Poison)));
        let result = match ops::find(&op.name) {
            _ if poisoned => Err(None),
            _ if twice.is_some() => {
                Err(Some(NodeError::Invalid("a result that is already defined".to_string())))
            }
            None => Err(Some(unknown(op.custom))),
            Some(row) => (row.import)(&mut Call { t: &mut *t, op }).map_err(Some),
        };
        let Err(error) = result else { continue };
        for &output in &op.outputs {
            t.values.insert(output, Value::Poison);
        }
        match error {
            Some(NodeError::Unsupported { what, reason, supported }) => {
                let Place { node, op } = place;
                unsupported.push(Unsupported { node, op, what, reason, supported });
            }
            Some(NodeError::Invalid(reason)) => {
                wrong.get_or_insert_with(|| {
                    ImportError::invalid_node(&place.node, &place.op, reason)
                });
            }
            None => {}
        }
    }
    match wrong {
        _ if !unsupported.is_empty() => {
            Err(ImportError::new(ImportErrorKind::Unsupported(unsupported)))
        }
        Some(error) => Err(error),
        None => Ok(places),
    }
}

fn unknown(custom: bool) -> NodeError {
    NodeError::Unsupported {
        what: if custom { "custom operator" } else { "operator" }.to_string(),
        reason: "is not supported".to_string(),
        supported: "the operators in the table of docs/tflite.md".to_string(),
    }
}

fn failed(error: NodeError, place: &str, op: &str) -> ImportError {
    match error {
        NodeError::Invalid(reason) => ImportError::invalid(place, reason),
        NodeError::Unsupported { what, reason, supported } => {
            let (node, op) = (place.to_string(), op.to_string());
            ImportError::new(ImportErrorKind::Unsupported(vec![Unsupported {
                node,
                op,
                what,
                reason,
                supported,
            }]))
        }
    }
}

/// Says that products of integer weights and float activations are FP32.
fn say_hybrid(t: &mut Translator<'_>) {
    let integer = |tensor: usize| {
        let tensor = &t.subgraph.tensors[tensor];
        tensor.quantization.is_some() && !tensor.ty.is_float()
    };
    let hybrid = |op: &schema::Operator<'_>| match op.inputs[..] {
        [Some(x), Some(w), ..] => !integer(x) && integer(w),
        _ => false,
    };
    let products = ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL"];
    let found = t.subgraph.operators.iter().filter(|op| products.contains(&&*op.name));
    let count = found.filter(|op| hybrid(op)).count();
    if count > 0 {
        let message = format!(
            "{count} operator(s) have integer weights and FP32 activations: they are FP32 here, where the runtime rounds \
             activations to 8 bits as it goes"
        );
        t.warn(WarningKind::Quantization, message);
    }
}
