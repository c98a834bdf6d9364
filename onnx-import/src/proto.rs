//! The ONNX wire format: this crate's own subset of `onnx.proto` as annotated structs.
//!
//! Field numbers are those of the official schema (IR version 13 and before). Fields outside the subset are
//! skipped when reading. Optional strings are plain: absent and empty mean the same in ONNX.
//!
//! The structs serve reading and writing; [`prost::Message::encode_to_vec`] gives a file's bytes.

pub use prost::Message;

/// A model: the root message of an `.onnx` file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// Name of the tool that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Version of that tool.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// Reverse-DNS name of the model's domain.
    #[prost(string, tag = "4")]
    pub domain: String,
    /// Version of the model.
    #[prost(int64, tag = "5")]
    pub model_version: i64,
    /// Documentation.
    #[prost(string, tag = "6")]
    pub doc_string: String,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Operator sets the graph uses.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Key/value pairs.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// Training extension (only its presence matters here).
    #[prost(message, repeated, tag = "20")]
    pub training_info: Vec<TrainingInfoProto>,
    /// Functions that nodes may name as operators.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// A domain and its version.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// Domain; empty is ONNX's own.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Version of the operator set.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A key and a value.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// ONNX's training extension.
#[derive(Clone, PartialEq, Message)]
pub struct TrainingInfoProto {
    /// Graph that initializes state.
    #[prost(message, optional, tag = "1")]
    pub initialization: Option<GraphProto>,
    /// Graph of a training step.
    #[prost(message, optional, tag = "2")]
    pub algorithm: Option<GraphProto>,
}

/// A function of the model: a named body of nodes.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// Name, used as a node's `op_type`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Formal inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Formal outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Attributes without default values.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// Body in topological order.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Operator sets the body uses.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Domain, used as a node's `domain`.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with default values.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Tells functions of one name apart.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// A graph of nodes in topological order.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constant tensors by name; also the default values of inputs of the same name.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Documentation.
    #[prost(string, tag = "10")]
    pub doc_string: String,
    /// Inputs.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of inner values.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// Sparse constants (only their names matter here).
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// Key/value pairs.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// A node: an operator applied to named values. An empty name stands for an absent optional value.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the operands.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the results.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Name of the node; may be empty.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Documentation.
    #[prost(string, tag = "6")]
    pub doc_string: String,
    /// Domain of the operator; empty is ONNX's own.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Tells functions of one name apart.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// A named attribute of a node. `r#type` says which field holds the value.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A string (bytes, UTF-8 by custom).
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// A tensor.
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<TensorProto>>,
    /// A graph.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// Floats.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Tensors.
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<TensorProto>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    /// Documentation.
    #[prost(string, tag = "13")]
    pub doc_string: String,
    /// One of [`attribute_type`].
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// In a function body: the name of the caller's attribute that this one takes its value from.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

/// Values of [`AttributeProto::type`].
pub mod attribute_type {
    /// Not given (files of IR version 1).
    pub const UNDEFINED: i32 = 0;
    /// `f`.
    pub const FLOAT: i32 = 1;
    /// `i`.
    pub const INT: i32 = 2;
    /// `s`.
    pub const STRING: i32 = 3;
    /// `t`.
    pub const TENSOR: i32 = 4;
    /// `g`.
    pub const GRAPH: i32 = 5;
    /// `floats`.
    pub const FLOATS: i32 = 6;
    /// `ints`.
    pub const INTS: i32 = 7;
    /// `strings`.
    pub const STRINGS: i32 = 8;
    /// `tensors`.
    pub const TENSORS: i32 = 9;
    /// `graphs`.
    pub const GRAPHS: i32 = 10;
}

/// A tensor: in `raw_data` (little endian), in the typed field of its element type, or in another file.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Dimensions; none is a scalar.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// One of [`data_type`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// FLOAT (and the parts of COMPLEX64).
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// INT32, INT16, INT8, UINT16, UINT8, BOOL, and the bits of FLOAT16, BFLOAT16 and the 8- and 4-bit types.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// STRING.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// INT64.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements as little-endian bytes; absent if a typed field is used.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// DOUBLE (and the parts of COMPLEX128).
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// UINT64, UINT32.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Documentation.
    #[prost(string, tag = "12")]
    pub doc_string: String,
    /// `location`, `offset`, `length`, `checksum` of the bytes if they are in another file.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// One of [`data_location`].
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// Values of [`TensorProto::data_location`].
pub mod data_location {
    /// In the message.
    pub const DEFAULT: i32 = 0;
    /// In another file.
    pub const EXTERNAL: i32 = 1;
}

/// Values of [`TensorProto::data_type`] and [`TensorTypeProto::elem_type`].
pub mod data_type {
    /// Not given.
    pub const UNDEFINED: i32 = 0;
    /// IEEE binary32.
    pub const FLOAT: i32 = 1;
    /// Unsigned 8-bit.
    pub const UINT8: i32 = 2;
    /// Signed 8-bit.
    pub const INT8: i32 = 3;
    /// Unsigned 16-bit.
    pub const UINT16: i32 = 4;
    /// Signed 16-bit.
    pub const INT16: i32 = 5;
    /// Signed 32-bit.
    pub const INT32: i32 = 6;
    /// Signed 64-bit.
    pub const INT64: i32 = 7;
    /// String.
    pub const STRING: i32 = 8;
    /// Boolean.
    pub const BOOL: i32 = 9;
    /// IEEE binary16.
    pub const FLOAT16: i32 = 10;
    /// IEEE binary64.
    pub const DOUBLE: i32 = 11;
    /// Unsigned 32-bit.
    pub const UINT32: i32 = 12;
    /// Unsigned 64-bit.
    pub const UINT64: i32 = 13;
    /// Two binary32.
    pub const COMPLEX64: i32 = 14;
    /// Two binary64.
    pub const COMPLEX128: i32 = 15;
    /// The upper half of a binary32.
    pub const BFLOAT16: i32 = 16;

    /// Unsigned 4-bit; two in a byte, the first in its low bits.
    pub const UINT4: i32 = 21;
    /// Signed 4-bit.
    pub const INT4: i32 = 22;
    /// Unsigned 2-bit; four in a byte, the first in its low bits.
    pub const UINT2: i32 = 25;
    /// Signed 2-bit.
    pub const INT2: i32 = 26;

    /// The name ONNX gives to a data type, for messages.
    pub fn name(code: i32) -> &'static str {
        const NAMES: [&str; 27] = [
            "UNDEFINED",
            "FLOAT",
            "UINT8",
            "INT8",
            "UINT16",
            "INT16",
            "INT32",
            "INT64",
            "STRING",
            "BOOL",
            "FLOAT16",
            "DOUBLE",
            "UINT32",
            "UINT64",
            "COMPLEX64",
            "COMPLEX128",
            "BFLOAT16",
            "FLOAT8E4M3FN",
            "FLOAT8E4M3FNUZ",
            "FLOAT8E5M2",
            "FLOAT8E5M2FNUZ",
            "UINT4",
            "INT4",
            "FLOAT4E2M1",
            "FLOAT8E8M0",
            "UINT2",
            "INT2",
        ];
        usize::try_from(code).ok().and_then(|i| NAMES.get(i)).copied().unwrap_or("unknown")
    }
}

/// A sparse tensor, of which only the name is read.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    /// The elements that are not zero; their tensor has the sparse one's name.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
}

/// A named value and its type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// Documentation.
    #[prost(string, tag = "3")]
    pub doc_string: String,
}

/// The type of a value; only tensors are read.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A dense tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// Element type and shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// One of [`data_type`].
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// Shape; absent if even the rank is unknown.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Dimensions.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// Dimensions, outermost first.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One dimension.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// Its size, if it has one.
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

/// The size of a dimension.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum DimensionValue {
    /// Known.
    #[prost(int64, tag = "1")]
    DimValue(i64),
    /// Symbolic, such as `batch`.
    #[prost(string, tag = "2")]
    DimParam(String),
}

impl AttributeProto {
    /// An integer attribute.
    pub fn int(name: &str, value: i64) -> AttributeProto {
        AttributeProto {
            name: name.into(),
            r#type: attribute_type::INT,
            i: Some(value),
            ..Default::default()
        }
    }

    /// An attribute of integers.
    pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
        AttributeProto {
            name: name.into(),
            r#type: attribute_type::INTS,
            ints: values.to_vec(),
            ..Default::default()
        }
    }

    /// A float attribute.
    pub fn float(name: &str, value: f32) -> AttributeProto {
        AttributeProto {
            name: name.into(),
            r#type: attribute_type::FLOAT,
            f: Some(value),
            ..Default::default()
        }
    }

    /// An attribute of floats.
    pub fn floats(name: &str, values: &[f32]) -> AttributeProto {
        AttributeProto {
            name: name.into(),
            r#type: attribute_type::FLOATS,
            floats: values.to_vec(),
            ..Default::default()
        }
    }

    /// A string attribute.
    pub fn string(name: &str, value: &str) -> AttributeProto {
        AttributeProto {
            name: name.into(),
            r#type: attribute_type::STRING,
            s: Some(value.as_bytes().to_vec()),
            ..Default::default()
        }
    }

    /// A tensor attribute.
    pub fn tensor(name: &str, value: TensorProto) -> AttributeProto {
        AttributeProto {
            name: name.into(),
            r#type: attribute_type::TENSOR,
            t: Some(Box::new(value)),
            ..Default::default()
        }
    }
}

impl NodeProto {
    /// A node of ONNX's own domain.
    pub fn new(op_type: &str, name: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
        NodeProto {
            op_type: op_type.into(),
            name: name.into(),
            input: inputs.iter().map(|s| s.to_string()).collect(),
            output: outputs.iter().map(|s| s.to_string()).collect(),
            ..Default::default()
        }
    }

    /// The node with one more attribute.
    #[must_use]
    pub fn with(mut self, attribute: AttributeProto) -> NodeProto {
        self.attribute.push(attribute);
        self
    }
}

impl TensorProto {
    /// An FP32 tensor in `raw_data`.
    pub fn f32(name: &str, dims: &[usize], values: &[f32]) -> TensorProto {
        TensorProto {
            name: name.into(),
            dims: dims.iter().map(|&d| d as i64).collect(),
            data_type: data_type::FLOAT,
            raw_data: Some(values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            ..Default::default()
        }
    }

    /// An INT64 tensor in `raw_data`.
    pub fn i64(name: &str, dims: &[usize], values: &[i64]) -> TensorProto {
        TensorProto {
            name: name.into(),
            dims: dims.iter().map(|&d| d as i64).collect(),
            data_type: data_type::INT64,
            raw_data: Some(values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            ..Default::default()
        }
    }
}

impl DimensionProto {
    /// A known dimension.
    pub fn known(size: usize) -> DimensionProto {
        DimensionProto { value: Some(DimensionValue::DimValue(size as i64)) }
    }

    /// A symbolic dimension.
    pub fn symbol(name: &str) -> DimensionProto {
        DimensionProto { value: Some(DimensionValue::DimParam(name.into())) }
    }
}

impl ValueInfoProto {
    /// A tensor value; `elem_type` is one of [`data_type`].
    pub fn tensor(name: &str, elem_type: i32, dim: Vec<DimensionProto>) -> ValueInfoProto {
        ValueInfoProto {
            name: name.into(),
            r#type: Some(TypeProto {
                tensor_type: Some(TensorTypeProto {
                    elem_type,
                    shape: Some(TensorShapeProto { dim }),
                }),
            }),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes written by hand from the wire format's rules: field numbers are the official ones.
    #[test]
    fn wire_bytes_by_hand() {
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
            graph: Some(GraphProto {
                node: vec![NodeProto::new("Relu", "r", &["x"], &["y"])],
                ..Default::default()
            }),
            ..Default::default()
        };
        let expected: &[u8] = &[
            0x08, 8, // ir_version = 1
            0x3a, 17, // graph = 7
            0x0a, 15, // node = 1
            0x0a, 1, b'x', 0x12, 1, b'y', 0x1a, 1, b'r', 0x22, 4, b'R', b'e', b'l', b'u', //
            0x42, 2, 0x10, 17, // opset_import = 8, version = 2
        ];
        assert_eq!(model.encode_to_vec(), expected);
        assert_eq!(ModelProto::decode(expected), Ok(model));
    }

    #[test]
    fn packed_and_unpacked_integers_both_read() {
        let unpacked: &[u8] = &[0x08, 2, 0x08, 3, 0x10, 7, 0x38, 1, 0x38, 2];
        let packed: &[u8] = &[0x0a, 2, 2, 3, 0x10, 7, 0x3a, 2, 1, 2];
        let a = TensorProto::decode(unpacked).expect("unpacked");
        assert_eq!(a.dims, [2, 3]);
        assert_eq!(a.int64_data, [1, 2]);
        assert_eq!(TensorProto::decode(packed), Ok(a));
    }
}
