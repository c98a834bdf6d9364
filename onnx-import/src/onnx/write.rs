//! Writes ONNX models: the project's own reference models, and models for tests.
//!
//! A [`ModelWriter`] collects inputs, initializers, nodes and outputs in the order they are given and encodes
//! them in that order, so equal calls give equal bytes. Mistakes are collected too and told by
//! [`ModelWriter::finish`]; the calls before it need no `?`.

use std::collections::BTreeSet;

use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, Message, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, ValueInfoProto, data_location, data_type,
};

/// Version of ONNX's file format that is written.
pub const IR_VERSION: i64 = 8;
/// Offsets in a file of external data are multiples of this many bytes, as ONNX recommends for mapping pages.
pub const EXTERNAL_ALIGNMENT: usize = 4096;
/// Largest encoded model: the wire format's own limit.
pub const MAX_MODEL_BYTES: usize = (1 << 31) - 1;

/// A dimension of an input or an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension<'a> {
    /// Known size.
    Known(usize),
    /// Open, with a name such as `batch`.
    Symbol(&'a str),
}

impl From<usize> for Dimension<'_> {
    fn from(size: usize) -> Self {
        Dimension::Known(size)
    }
}

impl<'a> From<&'a str> for Dimension<'a> {
    fn from(symbol: &'a str) -> Self {
        Dimension::Symbol(symbol)
    }
}

/// The value of a node's attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute<'a> {
    /// An integer; also a flag.
    Int(i64),
    /// Integers.
    Ints(&'a [i64]),
    /// A float.
    Float(f32),
    /// Floats.
    Floats(&'a [f32]),
    /// A string.
    String(&'a str),
    /// A tensor.
    Tensor(&'a TensorProto),
}

impl Attribute<'_> {
    fn encode(&self, name: &str) -> AttributeProto {
        match self {
            Attribute::Int(value) => AttributeProto::int(name, *value),
            Attribute::Ints(values) => AttributeProto::ints(name, values),
            Attribute::Float(value) => AttributeProto::float(name, *value),
            Attribute::Floats(values) => AttributeProto::floats(name, values),
            Attribute::String(value) => AttributeProto::string(name, value),
            Attribute::Tensor(value) => AttributeProto::tensor(name, (*value).clone()),
        }
    }
}

/// Why a model cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// Two values, or two nodes, have one name.
    #[error("the name `{0}` is given twice")]
    Twice(String),
    /// A node or the model uses a value that nothing before it gives.
    #[error("{user} uses `{value}`, which nothing before it gives")]
    Undefined {
        /// The node or output.
        user: String,
        /// The value.
        value: String,
    },
    /// An initializer's data do not fit its shape.
    #[error("initializer `{name}` of shape {shape:?} is given {elements} elements")]
    Elements {
        /// Its name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Elements given.
        elements: usize,
    },
    /// A dimension that does not fit ONNX's signed 64 bits.
    #[error("`{0}` has a dimension that is too large")]
    Dimension(String),
    /// No output was given.
    #[error("the model has no output")]
    NoOutput,
    /// The encoded model is beyond the wire format's 2 GiB; external data help.
    #[error("the model takes {0} bytes, more than the 2 GiB a file may have; use external data")]
    TooLarge(usize),
}

/// Builds a model. See the module documentation.
#[derive(Clone, Debug)]
pub struct ModelWriter {
    opset: i64,
    graph: GraphProto,
    /// Names of values so far.
    values: BTreeSet<String>,
    /// Names of nodes so far.
    nodes: BTreeSet<String>,
    /// The first mistake.
    mistake: Option<WriteError>,
}

impl ModelWriter {
    /// A model without nodes: the graph's name and the version of ONNX's operator set.
    pub fn new(name: &str, opset: i64) -> ModelWriter {
        ModelWriter {
            opset,
            graph: GraphProto { name: name.to_string(), ..GraphProto::default() },
            values: BTreeSet::new(),
            nodes: BTreeSet::new(),
            mistake: None,
        }
    }

    fn blame(&mut self, mistake: WriteError) {
        self.mistake.get_or_insert(mistake);
    }

    fn define(&mut self, name: &str) {
        if !self.values.insert(name.to_string()) {
            self.blame(WriteError::Twice(name.to_string()));
        }
    }

    fn require(&mut self, name: &str, user: impl FnOnce() -> String) {
        if !self.values.contains(name) {
            self.blame(WriteError::Undefined { user: user(), value: name.to_string() });
        }
    }

    fn value_info(&mut self, name: &str, element: i32, shape: &[Dimension<'_>]) -> ValueInfoProto {
        let dimension = |d: &Dimension<'_>| match *d {
            Dimension::Known(size) => DimensionProto::known(size),
            Dimension::Symbol(symbol) => DimensionProto::symbol(symbol),
        };
        let huge =
            |d: &Dimension<'_>| matches!(d, Dimension::Known(n) if i64::try_from(*n).is_err());
        if shape.iter().any(huge) {
            self.blame(WriteError::Dimension(name.to_string()));
        }
        ValueInfoProto::tensor(name, element, shape.iter().map(dimension).collect())
    }

    fn initializer(&mut self, tensor: TensorProto, shape: &[usize], elements: usize) -> &mut Self {
        self.define(&tensor.name);
        if shape.iter().any(|&d| i64::try_from(d).is_err()) {
            self.blame(WriteError::Dimension(tensor.name.clone()));
        }
        if shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) != Some(elements) {
            let (name, shape) = (tensor.name.clone(), shape.to_vec());
            self.blame(WriteError::Elements { name, shape, elements });
        }
        self.graph.initializer.push(tensor);
        self
    }

    /// Adds an FP32 input.
    pub fn input(&mut self, name: &str, shape: &[Dimension<'_>]) -> &mut Self {
        self.define(name);
        let info = self.value_info(name, data_type::FLOAT, shape);
        self.graph.input.push(info);
        self
    }

    /// Adds an INT64 input: indices.
    pub fn input_i64(&mut self, name: &str, shape: &[Dimension<'_>]) -> &mut Self {
        self.define(name);
        let info = self.value_info(name, data_type::INT64, shape);
        self.graph.input.push(info);
        self
    }

    /// Adds an input of bytes (UINT8).
    pub fn input_u8(&mut self, name: &str, shape: &[Dimension<'_>]) -> &mut Self {
        self.define(name);
        let info = self.value_info(name, data_type::UINT8, shape);
        self.graph.input.push(info);
        self
    }

    /// Adds an FP32 initializer: a parameter or a constant, elements in row-major order.
    pub fn initializer_f32(&mut self, name: &str, shape: &[usize], data: &[f32]) -> &mut Self {
        self.initializer(TensorProto::f32(name, shape, data), shape, data.len())
    }

    /// Adds an INT64 initializer: a shape or an axis list, elements in row-major order.
    pub fn initializer_i64(&mut self, name: &str, shape: &[usize], data: &[i64]) -> &mut Self {
        self.initializer(TensorProto::i64(name, shape, data), shape, data.len())
    }

    /// Adds a node of ONNX's own domain. An empty operand or result name stands for an absent optional one.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attribute<'_>)],
        name: &str,
    ) -> &mut Self {
        for input in inputs.iter().filter(|i| !i.is_empty()) {
            self.require(input, || format!("node `{name}`"));
        }
        for output in outputs.iter().filter(|o| !o.is_empty()) {
            self.define(output);
        }
        if !name.is_empty() && !self.nodes.insert(name.to_string()) {
            self.blame(WriteError::Twice(name.to_string()));
        }
        let mut node = NodeProto::new(op, name, inputs, outputs);
        node.attribute = attributes.iter().map(|(name, value)| value.encode(name)).collect();
        self.graph.node.push(node);
        self
    }

    /// Makes an FP32 value an output of the model.
    pub fn output(&mut self, name: &str, shape: &[Dimension<'_>]) -> &mut Self {
        self.require(name, || "the model's output".to_string());
        let info = self.value_info(name, data_type::FLOAT, shape);
        self.graph.output.push(info);
        self
    }

    /// Encodes the model.
    ///
    /// # Errors
    /// The first mistake of the calls before, or if the model is too large for one file.
    pub fn finish(mut self) -> Result<Vec<u8>, WriteError> {
        if self.graph.output.is_empty() {
            self.blame(WriteError::NoOutput);
        }
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let model = ModelProto {
            ir_version: IR_VERSION,
            producer_name: "trainc".to_string(),
            producer_version: env!("CARGO_PKG_VERSION").to_string(),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            graph: Some(self.graph),
            ..ModelProto::default()
        };
        match model.encoded_len() {
            0..=MAX_MODEL_BYTES => Ok(model.encode_to_vec()),
            length => Err(WriteError::TooLarge(length)),
        }
    }

    /// Encodes the model with the data of initializers of at least `threshold` bytes in a file of their own.
    /// Gives the model's bytes and that file's, which belongs beside the model under the name `file`.
    ///
    /// # Errors
    /// As [`ModelWriter::finish`].
    pub fn finish_with_external_data(
        mut self,
        file: &str,
        threshold: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), WriteError> {
        let mut data = Vec::new();
        for tensor in &mut self.graph.initializer {
            let Some(bytes) = tensor.raw_data.take_if(|bytes| bytes.len() >= threshold) else {
                continue;
            };
            data.resize(data.len().next_multiple_of(EXTERNAL_ALIGNMENT), 0);
            let entry =
                |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
            tensor.external_data = vec![
                entry("location", file.to_string()),
                entry("offset", data.len().to_string()),
                entry("length", bytes.len().to_string()),
            ];
            tensor.data_location = Some(data_location::EXTERNAL);
            data.extend_from_slice(&bytes);
        }
        Ok((self.finish()?, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::ExternalLocation;
    use crate::{ImportOptions, import_bytes};

    fn affine() -> ModelWriter {
        let mut writer = ModelWriter::new("affine", 17);
        writer
            .input("x", &["batch".into(), 2.into()])
            .initializer_f32("w", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .initializer_f32("b", &[3], &[0.5, 0.0, -0.5])
            .node("Gemm", &["x", "w", "b"], &["y"], &[("transB", Attribute::Int(1))], "fc")
            .output("y", &["batch".into(), 3.into()]);
        writer
    }

    /// The bytes of the smallest model, written by hand from the official field numbers.
    #[test]
    fn bytes_by_hand() {
        let mut writer = ModelWriter::new("g", 17);
        writer.input("x", &["n".into(), 2.into()]);
        writer.node("LeakyRelu", &["x"], &["y"], &[("alpha", Attribute::Float(0.5))], "r");
        writer.output("y", &[1.into()]);
        let expected = [
            &[0x08, 8, 0x12, 6][..],
            b"trainc",
            &[0x1a, env!("CARGO_PKG_VERSION").len() as u8],
            env!("CARGO_PKG_VERSION").as_bytes(),
            &[0x3a, 81, 0x0a, 37, 0x0a, 1, b'x', 0x12, 1, b'y', 0x1a, 1, b'r', 0x22, 9],
            b"LeakyRelu",
            // Attribute: name, f = 0.5, type = FLOAT.
            &[0x2a, 15, 0x0a, 5],
            b"alpha",
            &[0x15, 0, 0, 0, 0x3f, 0xa0, 0x01, 1],
            &[0x12, 1, b'g'],
            // Input: FLOAT, dimensions `n` and 2.
            &[0x5a, 20, 0x0a, 1, b'x', 0x12, 15, 0x0a, 13, 0x08, 1, 0x12, 9],
            &[0x0a, 3, 0x12, 1, b'n', 0x0a, 2, 0x08, 2],
            // Output: FLOAT, dimension 1.
            &[0x62, 15, 0x0a, 1, b'y', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x08, 1],
            &[0x42, 2, 0x10, 17],
        ]
        .concat();
        assert_eq!(writer.finish(), Ok(expected));
    }

    #[test]
    fn imports_again() {
        let bytes = affine().finish().expect("a model");
        let none = |_: &ExternalLocation| Err("no files".to_string());
        let options = ImportOptions { batch: Some(5), ..ImportOptions::default() };
        let imported = import_bytes(&bytes, &none, &options).expect("imports");
        let output = imported.graph.outputs()[0].value;
        assert_eq!(imported.graph.ty(output).shape.dims(), [5, 3]);
        assert_eq!(imported.graph.parameters().len(), 2);
        assert_eq!((&*imported.producer.name, imported.producer.opset), ("trainc", 17));
        assert_eq!(imported.producer.ir_version, 8);
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }

    #[test]
    fn external_data_imports_to_the_same_graph() {
        let none = |_: &ExternalLocation| Err("no files".to_string());
        let options = ImportOptions::default();
        let inside = import_bytes(&affine().finish().expect("a model"), &none, &options);
        for (threshold, length) in [(0, 4096 + 12), (24, 24), (25, 0)] {
            let (model, data) =
                affine().finish_with_external_data("weights.bin", threshold).expect("a model");
            assert_eq!(data.len(), length);
            let read = |at: &ExternalLocation| {
                assert_eq!(at.location, "weights.bin");
                let start = at.offset as usize;
                Ok(data[start..start + at.length as usize].to_vec())
            };
            assert_eq!(import_bytes(&model, &read, &options), inside);
        }
        let (model, _) = affine().finish_with_external_data("weights.bin", 24).expect("a model");
        assert!(import_bytes(&model, &none, &options).is_err(), "the weights are outside");
    }

    #[test]
    fn mistakes_are_told() {
        let told = |change: fn(&mut ModelWriter)| {
            let mut writer = affine();
            change(&mut writer);
            writer.finish().expect_err("a mistake").to_string()
        };
        assert_eq!(
            told(|w| {
                w.initializer_f32("w", &[], &[0.0]);
            }),
            "the name `w` is given twice"
        );
        assert_eq!(
            told(|w| {
                w.node("Relu", &["y"], &["z"], &[], "fc");
            }),
            "the name `fc` is given twice"
        );
        assert_eq!(
            told(|w| {
                w.node("Relu", &["q"], &["z"], &[], "relu");
            }),
            "node `relu` uses `q`, which nothing before it gives"
        );
        assert_eq!(
            told(|w| {
                w.output("q", &[]);
            }),
            "the model's output uses `q`, which nothing before it gives"
        );
        assert_eq!(
            told(|w| {
                w.initializer_i64("s", &[2, 2], &[1, 2, 3]);
            }),
            "initializer `s` of shape [2, 2] is given 3 elements"
        );
        assert_eq!(
            told(|w| {
                w.initializer_f32("s", &[usize::MAX, 2], &[]);
            }),
            "`s` has a dimension that is too large"
        );
        assert_eq!(
            ModelWriter::new("empty", 17).finish().expect_err("empty").to_string(),
            "the model has no output"
        );
    }
}
