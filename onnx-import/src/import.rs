//! From a decoded model to a graph.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_ir::{Element, Graph, InputRole, TensorType};

use crate::call::{Bound, Builder, Call};
use crate::error::{
    ImportError, ImportErrorKind, NodeError, NodeResult, Unsupported, WarningKind, display_name,
    invalid,
};
use crate::known::{ExternalReader, Known};
use crate::onnx::signs::{self, Signs};
use crate::onnx::training;
use crate::ops::{self, FIRST_OPSET, LAST_OPSET};
use crate::proto::{
    DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, data_type,
};
use crate::roles::{self, Roles};
use crate::{ImportOptions, Imported, Producer, finite, limits, traps};

/// A decoded model whose weights are read. Imports share them.
#[derive(Debug)]
pub(crate) struct Read {
    /// Without its graph.
    model: ModelProto,
    opset: i64,
    /// Without its initializers.
    graph: GraphProto,
    /// The names of all initializers in the file's order, with the tensors of those that are used.
    tensors: Vec<(String, Option<Arc<Known>>)>,
    signs: Signs,
}

impl Read {
    /// Reads the weights of a model.
    pub(crate) fn new(
        mut model: ModelProto,
        external: &ExternalReader<'_>,
    ) -> Result<Read, ImportError> {
        // Before anything else is found wrong with it.
        if let Some(error) = model.graph.as_ref().and_then(training::training_graph) {
            return Err(error);
        }
        let opset = opset(&model)?;
        let Some(mut graph) = model.graph.take() else {
            return Err(ImportError::new(ImportErrorKind::NotOnnx(
                "there is no graph".to_string(),
            )));
        };
        if graph.node.len() > limits::MAX_NODES {
            return Err(ImportError::limit(format!("{} nodes", graph.node.len())));
        }
        let initializers = std::mem::take(&mut graph.initializer);
        check_definitions(&graph, &initializers)?;
        let live = live_nodes(&graph);
        let used = used_names(&graph, &live);
        if let Some(name) = sparse_names(&graph).find(|name| used.contains(name)) {
            return Err(ImportError::invalid(
                format!("sparse initializer `{name}`"),
                "sparse tensors are not supported; store it as a dense initializer",
            ));
        }
        let mut tensors = Vec::with_capacity(initializers.len());
        // Each message goes before the next is read.
        for mut tensor in initializers {
            let name = std::mem::take(&mut tensor.name);
            let read = |tensor| {
                Known::read(tensor, external)
                    .map_err(|e| ImportError::invalid(format!("initializer `{name}`"), e))
            };
            let used = used.contains(name.as_str());
            let known = if used { Some(Arc::new(read(&mut tensor)?)) } else { None };
            tensors.push((name, known));
        }
        let signs = signs::binarize(&mut graph, &mut tensors);
        Ok(Read { model, opset, graph, tensors, signs })
    }
}

/// Imports a model.
pub(crate) fn import(read: &Read, options: &ImportOptions) -> Result<Imported, ImportError> {
    let Read { model, opset, graph, tensors, signs } = read;
    let opset = *opset;
    let live = live_nodes(graph);
    let used = used_names(graph, &live);
    let initializers: BTreeMap<&str, Arc<Known>> =
        tensors.iter().filter_map(|(name, known)| Some((name.as_str(), known.clone()?))).collect();
    // Inputs that the caller fixes are constants; they are no parameters.
    let mut fixed = BTreeMap::new();
    for (name, tensor) in &options.constants {
        let no_files = |_: &_| Err("a constant's tensor cannot be in another file".to_string());
        let known = Known::read(&mut tensor.clone(), &no_files)
            .map_err(|e| ImportError::invalid(format!("constant for input `{name}`"), e))?;
        fixed.insert(name.as_str(), Bound::from(known));
    }
    let node_name = |index: usize| display_name(&graph.node[index], index);
    let roles = roles::analyse(graph, &live, &initializers, node_name);
    let graph_name = if graph.name.is_empty() { "model" } else { &graph.name };
    let mut builder = Builder {
        graph: Graph::new(graph_name),
        values: fixed,
        slots: BTreeMap::new(),
        constants: BTreeMap::new(),
        options,
        opset,
        roles,
        warnings: Vec::new(),
        used,
        batch: None,
        streams: 0,
        updates: BTreeMap::new(),
        inference_batch_norms: Vec::new(),
        training_batch_norms: Vec::new(),
        losses: Vec::new(),
        integer_parameters: Vec::new(),
        folded: 0,
        copied: 0,
        parameter_names: BTreeSet::new(),
        named: BTreeSet::new(),
    };
    add_inputs(&mut builder, graph, &initializers)?;
    add_parameters(&mut builder, tensors, initializers)?;
    let mut rejected = Rejected::default();
    for &(index, node) in &live {
        import_node(&mut builder, node, index, &mut rejected);
    }
    if !rejected.unsupported.is_empty() {
        return Err(ImportError::new(ImportErrorKind::Unsupported(rejected.unsupported)));
    }
    if let Some(error) = rejected.invalid {
        return Err(error);
    }
    add_outputs(&mut builder, graph)?;
    for (parameter, value) in std::mem::take(&mut builder.updates) {
        builder.graph.add_update(parameter, value);
    }
    if options.training {
        finite::check_finite(&builder.graph)?;
    }
    for message in signs.warnings(options.training) {
        builder.warn(WarningKind::Signs, message);
    }
    traps::warn(&mut builder, graph, &live, &model.producer_name);
    let loss = builder.losses.iter().find_map(|(name, loss)| {
        graph.output.iter().any(|o| o.name == *name).then(|| loss.clone())
    });
    let loss = loss.map(|mut loss| {
        let outputs = builder.graph.outputs();
        loss.scores_output =
            outputs.iter().find(|o| o.value == loss.scores).map(|o| o.name.clone());
        loss
    });
    if !model.training_info.is_empty() {
        builder.warn(
            WarningKind::Ignored,
            "the model's own training graph (training_info) is not used".to_string(),
        );
    }
    Ok(Imported {
        graph: builder.graph,
        warnings: builder.warnings,
        loss,
        integer_parameters: builder.integer_parameters,
        producer: Producer {
            name: model.producer_name.clone(),
            version: model.producer_version.clone(),
            opset,
            ir_version: model.ir_version,
        },
    })
}

/// The version of ONNX's own operator set.
fn opset(model: &ModelProto) -> Result<i64, ImportError> {
    let own = |domain: &str| domain.is_empty() || domain == "ai.onnx";
    let found = model.opset_import.iter().filter(|o| own(&o.domain)).map(|o| o.version).max();
    let found = match found {
        Some(version) => version,
        None if model.graph.is_none() => {
            return Err(ImportError::new(ImportErrorKind::NotOnnx(
                "there is no graph".to_string(),
            )));
        }
        None => 1,
    };
    if !(FIRST_OPSET..=LAST_OPSET).contains(&found) {
        return Err(ImportError::new(ImportErrorKind::Opset {
            found,
            first: FIRST_OPSET,
            last: LAST_OPSET,
        }));
    }
    Ok(found)
}

fn invalid_node(node: &NodeProto, index: usize, reason: String) -> ImportError {
    ImportError::invalid_node(&display_name(node, index), &node.op_type, reason)
}

fn place(node: &NodeProto, index: usize) -> String {
    format!("node `{}` ({})", display_name(node, index), node.op_type)
}

/// Every name is defined once, and before its use.
fn check_definitions(graph: &GraphProto, tensors: &[TensorProto]) -> Result<(), ImportError> {
    let mut defined: BTreeSet<&str> = BTreeSet::new();
    for input in &graph.input {
        if !defined.insert(&input.name) {
            return Err(ImportError::invalid(
                format!("input `{}`", input.name),
                "is defined twice",
            ));
        }
    }
    let mut initialized: BTreeSet<&str> = BTreeSet::new();
    for tensor in tensors {
        // An initializer may give an input its value.
        if !initialized.insert(&tensor.name) {
            return Err(ImportError::invalid(
                format!("initializer `{}`", tensor.name),
                "is defined twice",
            ));
        }
        defined.insert(&tensor.name);
    }
    for name in sparse_names(graph) {
        if !defined.insert(name) {
            return Err(ImportError::invalid(
                format!("sparse initializer `{name}`"),
                "is defined twice",
            ));
        }
    }
    let all: BTreeMap<&str, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(i, n)| n.output.iter().map(move |o| (o.as_str(), i)))
        .collect();
    for (index, node) in graph.node.iter().enumerate() {
        for input in node.input.iter().filter(|i| !i.is_empty()) {
            if defined.contains(input.as_str()) {
                continue;
            }
            let reason = match all.get(input.as_str()) {
                Some(&later) => format!(
                    "uses `{input}`, which {} defines at or after it: the graph is cyclic or not sorted",
                    place(&graph.node[later], later)
                ),
                None => format!("uses `{input}`, which nothing defines"),
            };
            return Err(invalid_node(node, index, reason));
        }
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            if !defined.insert(output) {
                let reason = format!("defines `{output}`, which is already defined");
                return Err(invalid_node(node, index, reason));
            }
        }
    }
    if graph.output.is_empty() {
        return Err(ImportError::new(ImportErrorKind::Invalid {
            node: None,
            place: None,
            reason: "the graph has no output".to_string(),
        }));
    }
    let mut outputs: BTreeSet<&str> = BTreeSet::new();
    for output in &graph.output {
        let place = || format!("output `{}`", output.name);
        if !defined.contains(output.name.as_str()) {
            return Err(ImportError::invalid(place(), "nothing defines it"));
        }
        if !outputs.insert(&output.name) {
            return Err(ImportError::invalid(place(), "is listed twice"));
        }
    }
    Ok(())
}

/// Nodes that an output depends on, with their positions.
fn live_nodes(graph: &GraphProto) -> Vec<(usize, &NodeProto)> {
    let mut wanted: BTreeSet<&str> = graph.output.iter().map(|o| o.name.as_str()).collect();
    let mut live = Vec::new();
    for (index, node) in graph.node.iter().enumerate().rev() {
        if node.output.iter().any(|o| wanted.contains(o.as_str())) {
            wanted.extend(node.input.iter().map(String::as_str));
            live.push((index, node));
        }
    }
    live.reverse();
    live
}

fn sparse_names(graph: &GraphProto) -> impl Iterator<Item = &str> {
    graph.sparse_initializer.iter().filter_map(|s| s.values.as_ref()).map(|v| v.name.as_str())
}

fn used_names<'m>(graph: &'m GraphProto, live: &[(usize, &'m NodeProto)]) -> BTreeSet<&'m str> {
    let inputs = live.iter().flat_map(|(_, n)| n.input.iter().map(String::as_str));
    inputs
        .chain(graph.output.iter().map(|o| o.name.as_str()))
        .filter(|name| !name.is_empty())
        .collect()
}

/// One dimension of an input: known, or open with its symbol.
fn dimension(info: &ValueInfoProto, i: usize) -> Result<usize, String> {
    let dim = info
        .r#type
        .as_ref()
        .and_then(|t| t.tensor_type.as_ref())
        .and_then(|t| t.shape.as_ref())
        .and_then(|s| s.dim.get(i));
    match dim.and_then(|d| d.value.as_ref()) {
        Some(DimensionValue::DimValue(size)) => usize::try_from(*size).map_err(|_| "?".to_string()),
        Some(DimensionValue::DimParam(symbol)) if !symbol.is_empty() => Err(symbol.clone()),
        _ => Err("?".to_string()),
    }
}

fn input_error(input: &str, reason: impl Into<String>) -> ImportError {
    ImportError::new(ImportErrorKind::Input { input: input.to_string(), reason: reason.into() })
}

fn add_inputs<'m>(
    builder: &mut Builder<'m>,
    graph: &'m GraphProto,
    initializers: &BTreeMap<&'m str, Arc<Known>>,
) -> Result<(), ImportError> {
    let options = builder.options;
    if options.batch == Some(0) {
        return Err(input_error("batch", "a batch of 0"));
    }
    let mut file_batch = None;
    for info in &graph.input {
        let name = info.name.as_str();
        if initializers.contains_key(name) || builder.values.contains_key(name) {
            continue;
        }
        if !builder.used.contains(name) {
            let message = format!("input `{name}` is not used and left out");
            builder.warn(WarningKind::Ignored, message);
            continue;
        }
        let tensor = info.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
        let Some(tensor) = tensor else {
            return Err(input_error(name, "is not a tensor"));
        };
        let is_label = builder.roles.labels.contains(name);
        let (element, role) = match tensor.elem_type {
            data_type::FLOAT => (Element::F32, InputRole::Data),
            data_type::INT64 | data_type::INT32 if is_label => (Element::I32, InputRole::Labels),
            data_type::INT64 | data_type::INT32 => (Element::I32, InputRole::Data),
            data_type::UINT8 => (Element::U8, InputRole::Data),
            data_type::INT8 => (Element::I8, InputRole::Data),
            data_type::UINT4 => (Element::U4, InputRole::Data),
            data_type::INT4 => (Element::I4, InputRole::Data),
            data_type::UINT2 => (Element::U2, InputRole::Data),
            data_type::INT2 => (Element::I2, InputRole::Data),
            other => {
                return Err(input_error(
                    name,
                    format!(
                        "element type {} is not supported for it; supported: FLOAT, INT64 and INT32 (as 32 bits) and \
                         signed and unsigned integers of 8, 4 and 2 bits",
                        data_type::name(other)
                    ),
                ));
            }
        };
        let Some(shape) = &tensor.shape else {
            return Err(input_error(name, "its shape is not given"));
        };
        let mut dims = Vec::new();
        for i in 0..shape.dim.len().min(limits::MAX_RANK + 1) {
            dims.push(match (i, dimension(info, i)) {
                (0, Ok(size)) => {
                    // The first fixed size is the batch that the user's replaces, wherever it comes first.
                    let file = *file_batch.get_or_insert(size);
                    match options.batch {
                        Some(batch) if file == size => batch,
                        _ => size,
                    }
                }
                (0, Err(_)) => options.batch.unwrap_or(1),
                (_, Ok(size)) => size,
                (_, Err(symbol)) => match options.dimensions.get(&symbol) {
                    Some(&size) => size,
                    None => {
                        return Err(ImportError::new(ImportErrorKind::DynamicShape {
                            input: name.to_string(),
                            dimension: i,
                            symbol,
                        }));
                    }
                },
            });
        }
        if dims.len() > limits::MAX_RANK {
            return Err(input_error(name, format!("more than {} dimensions", limits::MAX_RANK)));
        }
        if dims.contains(&0) {
            return Err(input_error(name, format!("a dimension of size 0 in {dims:?}")));
        }
        if limits::count(&dims).is_none() {
            return Err(input_error(
                name,
                format!("shape {dims:?} has more than {} elements", limits::MAX_ELEMENTS),
            ));
        }
        let value = builder.graph.add_input(name, TensorType::new(dims, element), role);
        builder.values.insert(name, value.into());
    }
    if let (Some(file), Some(batch)) = (file_batch, options.batch)
        && file != batch
    {
        builder.batch = Some((file, batch));
        let message = format!("the file's batch size {file} is replaced by {batch}");
        builder.warn(WarningKind::Batch, message);
    }
    Ok(())
}

fn add_parameters<'m>(
    builder: &mut Builder<'m>,
    order: &'m [(String, Option<Arc<Known>>)],
    mut initializers: BTreeMap<&'m str, Arc<Known>>,
) -> Result<(), ImportError> {
    let Roles { parameters, copies: separated, identities, .. } = builder.roles.clone();
    let mut copies: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for copy in identities.values() {
        copies.entry(copy.initializer).or_default().push(copy.name.clone());
    }
    let fail = |name: &str, e: String| ImportError::invalid(format!("initializer `{name}`"), e);
    let mut originals: BTreeMap<&str, Arc<Known>> = BTreeMap::new();
    for copy in separated.iter().map(|(copy, _)| copy).chain(identities.values()) {
        let known = initializers[copy.initializer].clone();
        builder.count_copy(known.len()).map_err(ImportError::limit)?;
        originals.insert(copy.initializer, known);
    }
    for name in order.iter().map(|(name, _)| name.as_str()) {
        let Some(known) = initializers.remove(name) else { continue };
        let bound = match parameters.get(name) {
            Some(&trainable) => {
                builder.parameter(name, &known, trainable).map_err(|e| fail(name, e))?.into()
            }
            None => Bound::Known(known),
        };
        builder.values.insert(name, bound);
    }
    for (copy, slots) in separated {
        let known = &originals[copy.initializer];
        let value = builder
            .parameter(&copy.name, known, copy.trainable)
            .map_err(|e| fail(copy.initializer, e))?;
        copies.entry(copy.initializer).or_default().push(copy.name.clone());
        builder.slots.extend(slots.into_iter().map(|slot| (slot, value)));
    }
    for (&output, copy) in &identities {
        let known = &originals[copy.initializer];
        let value = builder
            .parameter(&copy.name, known, copy.trainable)
            .map_err(|e| fail(copy.initializer, e))?;
        builder.values.insert(output, value.into());
    }
    for (initializer, copies) in copies {
        let names: Vec<String> = copies.iter().map(|name| format!("`{name}`")).collect();
        builder.warn(
            WarningKind::Untied,
            format!(
                "the exporter merged parameters equal to `{initializer}`; they are separate again: {}",
                names.join(", ")
            ),
        );
    }
    let shared = std::mem::take(&mut builder.roles.shared);
    for (initializer, count) in shared {
        let message =
            format!("parameter `{initializer}` serves {count} nodes and is trained as one");
        builder.warn(WarningKind::Shared, message);
    }
    Ok(())
}

/// What was not imported.
#[derive(Default)]
struct Rejected {
    unsupported: Vec<Unsupported>,
    /// The first node that breaks the rules.
    invalid: Option<ImportError>,
}

fn import_node<'m>(
    builder: &mut Builder<'m>,
    node: &'m NodeProto,
    index: usize,
    rejected: &mut Rejected,
) {
    let before = rejected.unsupported.len();
    let row = check_node(node, index, builder.opset, &mut rejected.unsupported);
    let poisoned =
        node.input.iter().any(|i| builder.values.get(i.as_str()) == Some(&Bound::Poison));
    let mut results = Vec::new();
    // An Identity that is a parameter of its own has its value already.
    let done = node.op_type == "Identity"
        && node.output.iter().all(|o| builder.values.contains_key(o.as_str()));
    if done {
        return;
    }
    if let Some(row) = row
        && !poisoned
        && rejected.unsupported.len() == before
    {
        let name = display_name(node, index);
        let asked = RefCell::default();
        let form = check_form(node, row, builder.opset);
        let mut call = Call { builder, node, index, name, asked };
        let result = form.and_then(|()| (row.import)(&mut call));
        debug_assert!(
            call.asked.borrow().iter().all(|a| row.attributes.contains(a)),
            "the table lacks an attribute of {}",
            row.op
        );
        match result {
            Ok(bounds) => results = bounds,
            Err(NodeError::Unsupported { what, reason, supported }) => {
                rejected.unsupported.push(Unsupported {
                    node: display_name(node, index),
                    op: node.op_type.clone(),
                    what,
                    reason,
                    supported,
                });
            }
            Err(NodeError::Invalid(reason)) => {
                let hint = match builder.batch {
                    Some((file, new)) => format!(
                        " (the file fixes the batch at {file}, asked for is {new}: export the model with an open \
                         batch, or use {file})"
                    ),
                    None => String::new(),
                };
                rejected
                    .invalid
                    .get_or_insert_with(|| invalid_node(node, index, format!("{reason}{hint}")));
            }
        }
    }
    for (i, output) in node.output.iter().enumerate().filter(|(_, o)| !o.is_empty()) {
        let bound = results.get(i).cloned().unwrap_or(Bound::Poison);
        // A value takes the model's name if it has none from the model yet.
        if let Bound::Value(value) = bound
            && builder.graph.producer(value).is_some()
            && builder.named.insert(value)
        {
            builder.graph.set_name(value, output);
        }
        builder.values.insert(output, bound);
    }
}

/// Checks a node against the table: operator, version, attributes.
fn check_node(
    node: &NodeProto,
    index: usize,
    opset: i64,
    unsupported: &mut Vec<Unsupported>,
) -> Option<&'static ops::Row> {
    let own = node.domain.is_empty() || node.domain == "ai.onnx";
    let op = match own {
        true => node.op_type.clone(),
        false => format!("{}.{}", node.domain, node.op_type),
    };
    let mut refuse = |what: String, reason: String, supported: String| {
        let node = display_name(node, index);
        unsupported.push(Unsupported { node, op: op.clone(), what, reason, supported });
    };
    let Some(row) = ops::find(&node.domain, &node.op_type) else {
        let known = own || ops::qonnx::DOMAINS.contains(&node.domain.as_str());
        let reason = if known { "is not supported" } else { "of another domain is not supported" };
        refuse(
            "operator".to_string(),
            reason.to_string(),
            "the operators in the README's table".to_string(),
        );
        return None;
    };
    if own && opset < row.since {
        refuse(
            "opset".to_string(),
            format!("ONNX has no {} in operator set {opset}", row.op),
            format!("from {}", row.since),
        );
    }
    for attribute in &node.attribute {
        let name = attribute.name.as_str();
        if !attribute.ref_attr_name.is_empty() {
            let reason = "refers to a function's attribute".to_string();
            refuse(format!("attribute `{name}`"), reason, "a value".to_string());
        } else if !row.attributes.contains(&name) {
            let supported = match row.attributes {
                [] => "none".to_string(),
                names => names.join(", "),
            };
            refuse(format!("attribute `{name}`"), "is not supported".to_string(), supported);
        }
    }
    Some(row)
}

/// Checks what ONNX says of the form of every node: each attribute once, no more operands and results than the
/// operator has.
fn check_form(node: &NodeProto, row: &ops::Row, opset: i64) -> NodeResult<()> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    if let Some(twice) = node.attribute.iter().find(|a| !names.insert(&a.name)) {
        return Err(invalid!("attribute `{}` is given twice", twice.name));
    }
    let (operands, results) = (row.most_operands(opset), row.most_results(opset));
    if node.input.len() > operands {
        return Err(invalid!(
            "{} operands, but {} has at most {operands}",
            node.input.len(),
            row.op
        ));
    }
    if node.output.len() > results {
        return Err(invalid!(
            "{} results, but {} has at most {results}",
            node.output.len(),
            row.op
        ));
    }
    Ok(())
}

fn add_outputs(builder: &mut Builder<'_>, graph: &GraphProto) -> Result<(), ImportError> {
    for output in &graph.output {
        let name = output.name.as_str();
        let place = || format!("output `{name}`");
        let value = match builder.values.get(name) {
            Some(Bound::Value(value)) => *value,
            Some(Bound::Known(known)) => {
                let tensor = known.to_tensor().map_err(|e| ImportError::invalid(place(), e))?;
                builder.graph.add_constant(name, tensor)
            }
            _ => return Err(ImportError::invalid(place(), "the node gives no such result")),
        };
        builder.graph.add_output(name, value);
    }
    Ok(())
}

/// Checks a model without building its graph: everything unsupported that can be told from operators, versions
/// and attributes alone. Used if the graph cannot be built at all (an input with an open size).
pub(crate) fn check_table(graph: &GraphProto, opset: i64) -> Vec<Unsupported> {
    let mut unsupported = Vec::new();
    for (index, node) in live_nodes(graph) {
        check_node(node, index, opset, &mut unsupported);
    }
    unsupported
}
