//! Small models built in code, and how to import and run them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use trainc_ir::interpreter::Interpreter;
use trainc_ir::{Graph, RunContext, Tensor};
use trainc_onnx_import::proto::*;
use trainc_onnx_import::{
    ExternalLocation, ImportError, ImportErrorKind, ImportOptions, Imported, Unsupported,
    import_bytes,
};

/// A model to be built up.
#[derive(Clone, Default)]
pub struct Model {
    pub opset: i64,
    pub graph: GraphProto,
}

pub fn model(opset: i64) -> Model {
    let graph = GraphProto { name: "test".into(), ..GraphProto::default() };
    Model { opset, graph }
}

impl Model {
    /// A FLOAT input; a negative size is the symbol `batch`, 0 the symbol `size`.
    pub fn input(self, name: &str, dims: &[i64]) -> Model {
        self.typed_input(name, data_type::FLOAT, dims)
    }

    pub fn typed_input(mut self, name: &str, dtype: i32, dims: &[i64]) -> Model {
        let dim = dims
            .iter()
            .map(|&d| match d {
                0 => DimensionProto::symbol("size"),
                d if d < 0 => DimensionProto::symbol("batch"),
                d => DimensionProto::known(d as usize),
            })
            .collect();
        self.graph.input.push(ValueInfoProto::tensor(name, dtype, dim));
        self
    }

    pub fn floats(mut self, name: &str, dims: &[usize], values: &[f32]) -> Model {
        self.graph.initializer.push(TensorProto::f32(name, dims, values));
        self
    }

    pub fn ints(mut self, name: &str, dims: &[usize], values: &[i64]) -> Model {
        self.graph.initializer.push(TensorProto::i64(name, dims, values));
        self
    }

    pub fn tensor(mut self, tensor: TensorProto) -> Model {
        self.graph.initializer.push(tensor);
        self
    }

    /// A node named after its first output.
    pub fn node(self, op: &str, inputs: &[&str], outputs: &[&str]) -> Model {
        self.node_with(op, inputs, outputs, vec![])
    }

    pub fn node_with(
        mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> Model {
        let name = format!("node_{}", outputs.first().unwrap_or(&""));
        let mut node = NodeProto::new(op, &name, inputs, outputs);
        node.attribute = attributes;
        self.graph.node.push(node);
        self
    }

    /// A node of QONNX's domain.
    pub fn qonnx(
        self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> Model {
        let mut model = self.node_with(op, inputs, outputs, attributes);
        if let Some(node) = model.graph.node.last_mut() {
            node.domain = "qonnx.custom_op.general".into();
        }
        model
    }

    pub fn output(mut self, name: &str) -> Model {
        self.graph.output.push(ValueInfoProto::tensor(name, data_type::FLOAT, vec![]));
        self
    }

    pub fn proto(&self) -> ModelProto {
        ModelProto {
            ir_version: 8,
            producer_name: "test".into(),
            graph: Some(self.graph.clone()),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            ..ModelProto::default()
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.proto().encode_to_vec()
    }

    pub fn try_import(&self, options: &ImportOptions) -> Result<Imported, ImportError> {
        import_bytes(&self.bytes(), &no_files, options)
    }

    pub fn import(&self) -> Imported {
        self.import_with(&ImportOptions::default())
    }

    pub fn import_with(&self, options: &ImportOptions) -> Imported {
        self.try_import(options).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Why it does not import.
    pub fn error(&self) -> ImportErrorKind {
        match self.try_import(&ImportOptions::default()) {
            Ok(_) => panic!("the model imports"),
            Err(e) => e.kind,
        }
    }

    /// The text of the error.
    pub fn message(&self) -> String {
        self.error().to_string()
    }

    pub fn unsupported(&self) -> Vec<Unsupported> {
        match self.error() {
            ImportErrorKind::Unsupported(items) => items,
            other => panic!("{other}"),
        }
    }
}

pub fn no_files(at: &ExternalLocation) -> Result<Vec<u8>, String> {
    Err(format!("no file `{}` here", at.location))
}

/// The outputs of one step.
pub fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    Interpreter::new(graph).step(inputs, &RunContext::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The only output's shape and elements for an FP32 input.
pub fn run_one(model: &Model, dims: &[usize], input: &[f32]) -> (Vec<usize>, Vec<f32>) {
    let imported = model.import();
    let outputs = run(&imported.graph, &[Tensor::f32(dims, input.to_vec())]);
    (outputs[0].shape().to_vec(), outputs[0].as_f32().to_vec())
}

pub fn parameter_names(graph: &Graph, trainable: bool) -> Vec<&str> {
    graph
        .parameters()
        .iter()
        .filter(|p| p.trainable == trainable)
        .map(|p| graph.value(p.value).name.as_str())
        .collect()
}

pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto::int(name, value)
}

pub fn string(name: &str, value: &str) -> AttributeProto {
    AttributeProto::string(name, value)
}

pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto::ints(name, values)
}

/// A convolutional net with batch norm in training form, a shape chain and a loss: something of everything.
pub fn net() -> Model {
    let ramp =
        |n: usize| (0..n).map(|i| (i as f32 - n as f32 / 2.0) / n as f32).collect::<Vec<_>>();
    model(17)
        .input("x", &[-1, 1, 6, 6])
        .typed_input("labels", data_type::INT64, &[-1])
        .floats("c.weight", &[2, 1, 3, 3], &ramp(18))
        .floats("c.bias", &[2], &ramp(2))
        .floats("b.weight", &[2], &[1.0, 0.5])
        .floats("b.bias", &[2], &[0.0, 0.25])
        .floats("b.running_mean", &[2], &[0.0, 0.0])
        .floats("b.running_var", &[2], &[1.0, 1.0])
        .floats("f.weight", &[3, 8], &ramp(24))
        .floats("f.bias", &[3], &ramp(3))
        .ints("zero", &[], &[0])
        .ints("axes", &[1], &[0])
        .ints("rest", &[1], &[-1])
        .node_with("Conv", &["x", "c.weight", "c.bias"], &["c"], vec![ints("pads", &[1, 1, 1, 1])])
        .node_with(
            "BatchNormalization",
            &["c", "b.weight", "b.bias", "b.running_mean", "b.running_var"],
            &["b", "new_mean", "new_var"],
            vec![int("training_mode", 1)],
        )
        .node("Relu", &["b"], &["r"])
        .node_with(
            "MaxPool",
            &["r"],
            &["p"],
            vec![ints("kernel_shape", &[3, 3]), ints("strides", &[3, 3])],
        )
        .node("Shape", &["p"], &["shape"])
        .node("Gather", &["shape", "zero"], &["batch"])
        .node("Unsqueeze", &["batch", "axes"], &["first"])
        .node_with("Concat", &["first", "rest"], &["target"], vec![int("axis", 0)])
        .node("Reshape", &["p", "target"], &["flat"])
        .node_with("Gemm", &["flat", "f.weight", "f.bias"], &["logits"], vec![int("transB", 1)])
        .node("SoftmaxCrossEntropyLoss", &["logits", "labels"], &["loss"])
        .output("logits")
        .output("loss")
}
