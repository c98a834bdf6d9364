//! Printing graphs.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use super::EQUAL_ELEMENTS_LIMIT;
use super::cursor::quote;
use crate::attributes::{Attribute, F32};
use crate::graph::{Definition, Graph, InputRole, Node, NodeId};
use crate::tensor::{Data, ScaleData, Tensor};
use crate::tensor_bytes::tensor_bytes;

/// Bytes of a line of data.
const DATA_BYTES: usize = 48;

/// Writes the text form of graphs. See [`crate::text`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Printer {
    /// Most elements of a tensor whose data stand in the text; larger ones stand as their hash.
    pub inline_limit: usize,
}

impl Default for Printer {
    /// For people: up to 16 elements.
    fn default() -> Printer {
        Printer { inline_limit: 16 }
    }
}

impl fmt::Display for Graph {
    /// As [`Printer::default`] prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Printer::default().graph(self))
    }
}

impl Printer {
    /// Everything stands in the text.
    pub fn complete() -> Printer {
        Printer { inline_limit: usize::MAX }
    }

    /// The text form of a graph.
    pub fn graph(&self, graph: &Graph) -> String {
        let mut out = String::from("graph @");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match graph.name() {
            name if !name.is_empty() && name.chars().all(plain) => out.push_str(name),
            name => out.push_str(&quote(name)),
        }
        out.push_str(" {\n");
        for id in graph.value_ids() {
            let value = graph.value(id);
            let label = format!("  %{}: {} =", id.index(), value.ty);
            let name = quote(&value.name);
            match &value.definition {
                Definition::Input(position) => {
                    let role = role_word(graph.inputs()[*position].role);
                    push(&mut out, format_args!("{label} input {name} {{role={role}}}\n"));
                }
                Definition::Parameter(position) => {
                    let parameter = &graph.parameters()[*position];
                    let trainable = parameter.trainable;
                    let fields = format!("trainable={trainable}, initial=");
                    push(&mut out, format_args!("{label} parameter {name} {{{fields}"));
                    self.dense(&parameter.initial, &mut out);
                    out.push_str("}\n");
                }
                Definition::Constant(tensor) => {
                    push(&mut out, format_args!("{label} constant {name} "));
                    self.dense(tensor, &mut out);
                    out.push('\n');
                }
                Definition::Result { node, slot: 0 } => print_node(graph, *node, &mut out),
                Definition::Result { .. } => {}
            }
        }
        for output in graph.outputs() {
            let (name, value) = (quote(&output.name), output.value.index());
            push(&mut out, format_args!("  output {name} %{value}\n"));
        }
        for update in graph.updates() {
            let parameter = graph.parameters()[update.parameter].value;
            let name = quote(&graph.value(parameter).name);
            let (parameter, value) = (parameter.index(), update.value.index());
            push(&mut out, format_args!("  update %{parameter} = %{value} ; {name}\n"));
        }
        out.push_str("}\n");
        out
    }

    /// [`Printer::graph`], and the data of the tensors that stand there as hashes: all that it takes to read it back.
    pub fn with_data(&self, graph: &Graph) -> String {
        let mut out = self.graph(graph);
        for (hash, tensor) in self.blobs(graph) {
            push(&mut out, format_args!("data 0x{hash:016x} {{\n"));
            for line in tensor_bytes(&tensor).chunks(DATA_BYTES) {
                out.push_str("  ");
                let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n)]);
                out.extend(line.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
                out.push('\n');
            }
            out.push_str("}\n");
        }
        out
    }

    /// The tensors that [`Printer::graph`] writes as hashes, by hash: what a reader's lookup must provide.
    pub fn blobs(&self, graph: &Graph) -> BTreeMap<u64, Arc<Tensor>> {
        let parameters = graph.parameters().iter().map(|p| &p.initial);
        let constants = graph.value_ids().filter_map(|id| graph.constant_of(id));
        parameters
            .chain(constants)
            .filter(|tensor| self.by_hash(tensor))
            .map(|tensor| (content_hash(tensor), tensor.clone()))
            .collect()
    }

    fn by_hash(&self, tensor: &Tensor) -> bool {
        tensor.data().len() > self.inline_limit && !all_equal(tensor)
    }

    fn dense(&self, tensor: &Tensor, out: &mut String) {
        let count = tensor.data().len();
        if self.by_hash(tensor) {
            let hash = content_hash(tensor);
            push(out, format_args!("dense<blob 0x{hash:016x} of {count} elements>"));
            return;
        }
        out.push_str("dense<");
        let list = !all_equal(tensor);
        let shown = if list { count } else { 1 };
        if list {
            out.push('[');
        }
        for i in 0..shown {
            if i > 0 {
                out.push_str(", ");
            }
            match tensor.data() {
                Data::F32(v) => F32::new(v[i]).print(out),
                Data::I8(v) => push(out, format_args!("{}", v[i])),
                Data::I16(v) => push(out, format_args!("{}", v[i])),
                Data::I32(v) => push(out, format_args!("{}", v[i])),
                Data::U8(v) => push(out, format_args!("{}", v[i])),
                Data::U16(v) => push(out, format_args!("{}", v[i])),
                Data::U32(v) => push(out, format_args!("{}", v[i])),
            }
        }
        if list {
            out.push(']');
        }
        match tensor.scale() {
            ScaleData::None => {}
            ScaleData::Exponent(e) => push(out, format_args!(", exponent={e}")),
        }
        out.push('>');
    }
}

fn push(out: &mut String, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}

fn print_node(graph: &Graph, id: NodeId, out: &mut String) {
    let Node { op, inputs, outputs, name } = graph.node(id);
    for (slot, &result) in outputs.iter().enumerate() {
        let value = graph.value(result);
        out.push_str(if slot == 0 { "  %" } else { ", %" });
        push(out, format_args!("{}", result.index()));
        if value.name != default_name(name, slot, outputs.len()) {
            push(out, format_args!(" {}", quote(&value.name)));
        }
        push(out, format_args!(": {}", value.ty));
    }
    push(out, format_args!(" = {}", op.kind().name()));
    for (i, input) in inputs.iter().enumerate() {
        let separator = if i == 0 { "" } else { "," };
        push(out, format_args!("{separator} %{}", input.index()));
    }
    let mut attributes = String::new();
    op.print_attributes(&mut attributes);
    for part in [attributes, if name.is_empty() { String::new() } else { quote(name) }] {
        if !part.is_empty() {
            push(out, format_args!(" {part}"));
        }
    }
    out.push('\n');
}

/// The name [`Graph::add`] gives a result.
fn default_name(node: &str, slot: usize, results: usize) -> String {
    if results > 1 { format!("{node}.{slot}") } else { node.to_string() }
}

/// The word of an input's role.
pub(super) fn role_word(role: InputRole) -> &'static str {
    match role {
        InputRole::Data => "data",
        InputRole::Labels => "labels",
        InputRole::LearningRate => "learning_rate",
        InputRole::Scheduled => "scheduled",
    }
}

/// Whether one number stands for all elements.
fn all_equal(tensor: &Tensor) -> bool {
    fn same<T: PartialEq>(values: &[T]) -> bool {
        values.windows(2).all(|pair| pair[0] == pair[1])
    }
    if !(1..=EQUAL_ELEMENTS_LIMIT).contains(&tensor.data().len()) {
        return false;
    }
    match tensor.data() {
        Data::F32(v) => v.windows(2).all(|pair| pair[0].to_bits() == pair[1].to_bits()),
        Data::I8(v) => same(v),
        Data::I16(v) => same(v),
        Data::I32(v) => same(v),
        Data::U8(v) => same(v),
        Data::U16(v) => same(v),
        Data::U32(v) => same(v),
    }
}

/// [`Tensor::content_hash`].
pub fn content_hash(tensor: &Tensor) -> u64 {
    tensor.content_hash()
}
