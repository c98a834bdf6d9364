//! The tables of a TensorFlow Lite model that are needed, read whole: version 3 of the public schema.

use crate::limits;
use crate::tflite::flatbuffer::{Malformed, Reader, Table};

/// Element types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Float32,
    Float16,
    Bfloat16,
    Float64,
    Int4,
    Int8,
    Uint8,
    Int16,
    Int32,
    Int64,
    Bool,
    /// A reference to a variable.
    Resource,
    /// One that is not read, by its number.
    Other(u8),
}

impl Type {
    fn of(code: u8) -> Type {
        match code {
            0 => Type::Float32,
            1 => Type::Float16,
            2 => Type::Int32,
            3 => Type::Uint8,
            4 => Type::Int64,
            6 => Type::Bool,
            7 => Type::Int16,
            9 => Type::Int8,
            10 => Type::Float64,
            13 => Type::Resource,
            17 => Type::Int4,
            18 => Type::Bfloat16,
            other => Type::Other(other),
        }
    }

    /// The schema's name.
    pub(crate) fn name(self) -> String {
        match self {
            Type::Bfloat16 => "BFLOAT16".to_string(),
            Type::Other(code) => format!("number {code}"),
            other => format!("{other:?}").to_uppercase(),
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::Float32 | Type::Float16 | Type::Bfloat16 | Type::Float64)
    }
}

/// Affine quantization: `(integer - zero_point) * scale`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Quantization {
    /// One, or one for each index of the axis.
    pub(crate) scales: Vec<f32>,
    /// As many.
    pub(crate) zero_points: Vec<i64>,
    pub(crate) axis: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Sizes; 1 where the signature is open.
    pub(crate) dims: Vec<usize>,
    /// Which sizes are open.
    pub(crate) open: Vec<bool>,
    pub(crate) quantization: Option<Quantization>,
    /// The elements of a constant.
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) sparse: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Operator<'a> {
    /// Name of the schema, or the custom operator's own.
    pub(crate) name: String,
    pub(crate) custom: bool,
    /// Positions of tensors; `None` for an absent operand.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) options: Option<Table<'a>>,
    /// Options of a custom operator.
    pub(crate) custom_options: &'a [u8],
}

#[derive(Clone, Debug)]
pub(crate) struct Subgraph<'a> {
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor<'a>>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) operators: Vec<Operator<'a>>,
}

/// Names of a subgraph's inputs and outputs.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) key: String,
    pub(crate) subgraph: usize,
    pub(crate) inputs: Vec<(String, usize)>,
    pub(crate) outputs: Vec<(String, usize)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model<'a> {
    pub(crate) description: String,
    pub(crate) subgraphs: Vec<Subgraph<'a>>,
    pub(crate) signatures: Vec<Signature>,
}

/// Reads a model's tables.
pub(crate) fn read<'a>(reader: &'a Reader<'a>) -> Result<Model<'a>, Malformed> {
    let root = reader.root()?;
    let version = root.u32(0)?;
    if version != 3 {
        return Err(format!("version {version} of the schema; supported: 3"));
    }
    let codes = root.tables(1)?.iter().map(code).collect::<Result<Vec<_>, _>>()?;
    let buffers = root
        .tables(4)?
        .iter()
        .map(|table| buffer(table, reader.bytes()))
        .collect::<Result<Vec<_>, _>>()?;
    let subgraphs = root
        .tables(2)?
        .iter()
        .enumerate()
        .map(|(i, table)| {
            subgraph(table, &codes, &buffers, reader.bytes())
                .map_err(|e| format!("subgraph {i}: {e}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let signatures = root
        .tables(7)?
        .iter()
        .map(|table| signature(table, &subgraphs))
        .collect::<Result<_, _>>()?;
    Ok(Model { description: root.string(3)?, subgraphs, signatures })
}

/// An operator's code: its number, and the name of a custom one.
fn code(table: &Table<'_>) -> Result<(i32, String), Malformed> {
    // Files from before the codes needed more than a byte have them in the first field alone.
    let old = i32::from(table.u8(0)? as i8);
    Ok((table.i32(3, 0)?.max(old), table.string(1)?))
}

/// A buffer's bytes; in files beyond 2 GiB they lie behind the FlatBuffer.
fn buffer<'a>(table: &Table<'a>, file: &'a [u8]) -> Result<&'a [u8], Malformed> {
    let (offset, size) = (table.u64(1)?, table.u64(2)?);
    if offset <= 1 {
        return table.bytes(0);
    }
    usize::try_from(offset)
        .ok()
        .zip(usize::try_from(size).ok())
        .and_then(|(start, size)| file.get(start..start.checked_add(size)?))
        .ok_or_else(|| format!("a buffer of {size} bytes at byte {offset} leaves the file"))
}

/// Positions below `count`.
fn positions(numbers: Vec<i32>, count: usize, what: &str) -> Result<Vec<usize>, Malformed> {
    numbers
        .into_iter()
        .map(|n| match usize::try_from(n) {
            Ok(i) if i < count => Ok(i),
            _ => Err(format!("{what}: there is no tensor {n}")),
        })
        .collect()
}

fn subgraph<'a>(
    table: &Table<'a>,
    codes: &[(i32, String)],
    buffers: &[&'a [u8]],
    file: &'a [u8],
) -> Result<Subgraph<'a>, Malformed> {
    let tensors = table
        .tables(0)?
        .iter()
        .enumerate()
        .map(|(i, t)| tensor(t, buffers).map_err(|e| format!("tensor {i}: {e}")))
        .collect::<Result<Vec<_>, _>>()?;
    let count = tensors.len();
    let operators = table
        .tables(3)?
        .iter()
        .enumerate()
        .map(|(i, t)| operator(t, codes, count, file).map_err(|e| format!("operator {i}: {e}")))
        .collect::<Result<_, _>>()?;
    Ok(Subgraph {
        name: table.string(4)?,
        inputs: positions(table.i32s(1)?.unwrap_or_default(), count, "its inputs")?,
        outputs: positions(table.i32s(2)?.unwrap_or_default(), count, "its outputs")?,
        tensors,
        operators,
    })
}

fn tensor<'a>(table: &Table<'a>, buffers: &[&'a [u8]]) -> Result<Tensor<'a>, Malformed> {
    let shape: Vec<i64> = table.i32s(0)?.unwrap_or_default().into_iter().map(i64::from).collect();
    // An open size may stand in the shape itself.
    let closed: Vec<i64> = shape.iter().map(|&size| if size == -1 { 1 } else { size }).collect();
    let (dims, _) = limits::dimensions(&closed)?;
    let signature = table.i32s(7)?.unwrap_or_default();
    let open = (0..dims.len())
        .map(|i| signature.get(i).map_or(shape[i], |&size| i64::from(size)) == -1)
        .collect();
    let buffer = table.u32(2)? as usize;
    let data = match buffers.get(buffer) {
        // Buffer 0 is that of tensors without data.
        _ if buffer == 0 => None,
        Some(bytes) => (!bytes.is_empty()).then_some(*bytes),
        None => return Err(format!("there is no buffer {buffer}")),
    };
    Ok(Tensor {
        name: table.string(3)?,
        ty: Type::of(table.u8(1)?),
        dims,
        open,
        quantization: table.table(4)?.map(|q| quantization(&q)).transpose()?.flatten(),
        data,
        sparse: table.table(6)?.is_some(),
    })
}

fn quantization(table: &Table<'_>) -> Result<Option<Quantization>, Malformed> {
    let scales = table.f32s(2)?;
    if scales.is_empty() {
        return Ok(None);
    }
    if table.u8(4)? != 0 {
        return Err("quantization of a custom kind".to_string());
    }
    let mut zero_points = table.i64s(3)?;
    if zero_points.is_empty() {
        zero_points = vec![0; scales.len()];
    }
    if zero_points.len() != scales.len() {
        return Err(format!("{} scales but {} zero points", scales.len(), zero_points.len()));
    }
    if let Some(scale) = scales.iter().find(|s| !s.is_finite() || **s <= 0.0) {
        return Err(format!("a quantization scale of {scale}"));
    }
    let axis = usize::try_from(table.i32(6, 0)?).map_err(|_| "a negative quantized dimension")?;
    Ok(Some(Quantization { scales, zero_points, axis }))
}

fn operator<'a>(
    table: &Table<'a>,
    codes: &[(i32, String)],
    tensors: usize,
    file: &'a [u8],
) -> Result<Operator<'a>, Malformed> {
    let index = table.u32(0)? as usize;
    let (code, custom_name) =
        codes.get(index).ok_or_else(|| format!("there is no operator code {index}"))?;
    let custom = *code == CUSTOM;
    let name = match BUILTIN.iter().find(|(number, _)| number == code) {
        _ if custom => custom_name.clone(),
        Some((_, name)) => (*name).to_string(),
        None => format!("BUILTIN_{code}"),
    };
    let inputs = table.i32s(1)?.unwrap_or_default();
    let inputs = inputs
        .into_iter()
        .map(|n| match n {
            -1 => Ok(None),
            n => positions(vec![n], tensors, "its operands").map(|p| p.first().copied()),
        })
        .collect::<Result<_, _>>()?;
    let (offset, size) = (table.u64(9)?, table.u64(10)?);
    let custom_options = match offset {
        0 | 1 => table.bytes(5)?,
        _ => usize::try_from(offset)
            .ok()
            .zip(usize::try_from(size).ok())
            .and_then(|(start, size)| file.get(start..start.checked_add(size)?))
            .ok_or("its options leave the file")?,
    };
    Ok(Operator {
        name,
        custom,
        inputs,
        outputs: positions(table.i32s(2)?.unwrap_or_default(), tensors, "its results")?,
        options: table.table(4)?,
        custom_options,
    })
}

fn signature(table: &Table<'_>, subgraphs: &[Subgraph<'_>]) -> Result<Signature, Malformed> {
    let key = table.string(2)?;
    let subgraph = table.u32(4)? as usize;
    let Some(target) = subgraphs.get(subgraph) else {
        return Err(format!("signature `{key}`: there is no subgraph {subgraph}"));
    };
    let map = |number| -> Result<Vec<(String, usize)>, Malformed> {
        table
            .tables(number)?
            .iter()
            .map(|entry| match entry.u32(1)? as usize {
                i if i < target.tensors.len() => Ok((entry.string(0)?, i)),
                i => Err(format!("signature `{key}`: there is no tensor {i}")),
            })
            .collect()
    };
    Ok(Signature { inputs: map(0)?, outputs: map(1)?, key, subgraph })
}

const CUSTOM: i32 = 32;

/// Numbers and names of operators: those that are imported, and others that a message should name.
#[rustfmt::skip]
const BUILTIN: &[(i32, &str)] = &[
    (0, "ADD"), (1, "AVERAGE_POOL_2D"), (2, "CONCATENATION"), (3, "CONV_2D"),
    (4, "DEPTHWISE_CONV_2D"), (5, "DEPTH_TO_SPACE"), (6, "DEQUANTIZE"), (7, "EMBEDDING_LOOKUP"),
    (8, "FLOOR"), (9, "FULLY_CONNECTED"), (10, "HASHTABLE_LOOKUP"), (11, "L2_NORMALIZATION"),
    (12, "L2_POOL_2D"), (13, "LOCAL_RESPONSE_NORMALIZATION"), (14, "LOGISTIC"),
    (15, "LSH_PROJECTION"), (16, "LSTM"), (17, "MAX_POOL_2D"), (18, "MUL"), (19, "RELU"),
    (20, "RELU_N1_TO_1"), (21, "RELU6"), (22, "RESHAPE"), (23, "RESIZE_BILINEAR"), (24, "RNN"),
    (25, "SOFTMAX"), (26, "SPACE_TO_DEPTH"), (27, "SVDF"), (28, "TANH"), (29, "CONCAT_EMBEDDINGS"),
    (30, "SKIP_GRAM"), (31, "CALL"), (33, "EMBEDDING_LOOKUP_SPARSE"), (34, "PAD"),
    (35, "UNIDIRECTIONAL_SEQUENCE_RNN"), (36, "GATHER"), (37, "BATCH_TO_SPACE_ND"),
    (38, "SPACE_TO_BATCH_ND"), (39, "TRANSPOSE"), (40, "MEAN"), (41, "SUB"), (42, "DIV"),
    (43, "SQUEEZE"), (44, "UNIDIRECTIONAL_SEQUENCE_LSTM"), (45, "STRIDED_SLICE"),
    (46, "BIDIRECTIONAL_SEQUENCE_RNN"), (47, "EXP"), (48, "TOPK_V2"), (49, "SPLIT"),
    (50, "LOG_SOFTMAX"), (51, "DELEGATE"), (52, "BIDIRECTIONAL_SEQUENCE_LSTM"), (53, "CAST"),
    (54, "PRELU"), (55, "MAXIMUM"), (56, "ARG_MAX"), (57, "MINIMUM"), (58, "LESS"), (59, "NEG"),
    (60, "PADV2"), (61, "GREATER"), (62, "GREATER_EQUAL"), (63, "LESS_EQUAL"), (64, "SELECT"),
    (65, "SLICE"), (66, "SIN"), (67, "TRANSPOSE_CONV"), (68, "SPARSE_TO_DENSE"), (69, "TILE"),
    (70, "EXPAND_DIMS"), (71, "EQUAL"), (72, "NOT_EQUAL"), (73, "LOG"), (74, "SUM"), (75, "SQRT"),
    (76, "RSQRT"), (77, "SHAPE"), (78, "POW"), (79, "ARG_MIN"), (80, "FAKE_QUANT"),
    (81, "REDUCE_PROD"), (82, "REDUCE_MAX"), (83, "PACK"), (84, "LOGICAL_OR"), (85, "ONE_HOT"),
    (86, "LOGICAL_AND"), (87, "LOGICAL_NOT"), (88, "UNPACK"), (89, "REDUCE_MIN"),
    (90, "FLOOR_DIV"), (91, "REDUCE_ANY"), (92, "SQUARE"), (93, "ZEROS_LIKE"), (94, "FILL"),
    (95, "FLOOR_MOD"), (96, "RANGE"), (97, "RESIZE_NEAREST_NEIGHBOR"), (98, "LEAKY_RELU"),
    (99, "SQUARED_DIFFERENCE"), (100, "MIRROR_PAD"), (101, "ABS"), (102, "SPLIT_V"),
    (103, "UNIQUE"), (104, "CEIL"), (105, "REVERSE_V2"), (106, "ADD_N"), (107, "GATHER_ND"),
    (108, "COS"), (109, "WHERE"), (110, "RANK"), (111, "ELU"), (112, "REVERSE_SEQUENCE"),
    (113, "MATRIX_DIAG"), (114, "QUANTIZE"), (115, "MATRIX_SET_DIAG"), (116, "ROUND"),
    (117, "HARD_SWISH"), (118, "IF"), (119, "WHILE"), (120, "NON_MAX_SUPPRESSION_V4"),
    (121, "NON_MAX_SUPPRESSION_V5"), (122, "SCATTER_ND"), (123, "SELECT_V2"), (124, "DENSIFY"),
    (125, "SEGMENT_SUM"), (126, "BATCH_MATMUL"), (128, "CUMSUM"), (129, "CALL_ONCE"),
    (130, "BROADCAST_TO"), (131, "RFFT2D"), (132, "CONV_3D"), (133, "IMAG"), (134, "REAL"),
    (135, "COMPLEX_ABS"), (136, "HASHTABLE"), (137, "HASHTABLE_FIND"), (138, "HASHTABLE_IMPORT"),
    (139, "HASHTABLE_SIZE"), (140, "REDUCE_ALL"), (141, "CONV_3D_TRANSPOSE"), (142, "VAR_HANDLE"),
    (143, "READ_VARIABLE"), (144, "ASSIGN_VARIABLE"), (145, "BROADCAST_ARGS"),
    (146, "RANDOM_STANDARD_NORMAL"), (147, "BUCKETIZE"), (148, "RANDOM_UNIFORM"),
    (149, "MULTINOMIAL"), (150, "GELU"), (151, "DYNAMIC_UPDATE_SLICE"), (152, "RELU_0_TO_1"),
    (153, "UNSORTED_SEGMENT_PROD"), (154, "UNSORTED_SEGMENT_MAX"), (155, "UNSORTED_SEGMENT_SUM"),
    (156, "ATAN2"), (157, "UNSORTED_SEGMENT_MIN"), (158, "SIGN"), (159, "BITCAST"),
    (160, "BITWISE_XOR"), (161, "RIGHT_SHIFT"), (162, "STABLEHLO_LOGISTIC"),
    (163, "STABLEHLO_ADD"), (164, "STABLEHLO_DIVIDE"), (165, "STABLEHLO_MULTIPLY"),
    (166, "STABLEHLO_MAXIMUM"), (167, "STABLEHLO_RESHAPE"), (168, "STABLEHLO_CLAMP"),
    (169, "STABLEHLO_CONCATENATE"), (170, "STABLEHLO_BROADCAST_IN_DIM"),
    (171, "STABLEHLO_CONVOLUTION"), (172, "STABLEHLO_SLICE"), (173, "STABLEHLO_CUSTOM_CALL"),
    (174, "STABLEHLO_REDUCE"), (175, "STABLEHLO_ABS"), (176, "STABLEHLO_AND"),
    (177, "STABLEHLO_COSINE"), (178, "STABLEHLO_EXPONENTIAL"), (179, "STABLEHLO_FLOOR"),
    (180, "STABLEHLO_LOG"), (181, "STABLEHLO_MINIMUM"), (182, "STABLEHLO_NEGATE"),
    (183, "STABLEHLO_OR"), (184, "STABLEHLO_POWER"), (185, "STABLEHLO_REMAINDER"),
    (186, "STABLEHLO_RSQRT"), (187, "STABLEHLO_SELECT"), (188, "STABLEHLO_SUBTRACT"),
    (189, "STABLEHLO_TANH"), (190, "STABLEHLO_SCATTER"), (191, "STABLEHLO_COMPARE"),
    (192, "STABLEHLO_CONVERT"), (193, "STABLEHLO_DYNAMIC_SLICE"),
    (194, "STABLEHLO_DYNAMIC_UPDATE_SLICE"), (195, "STABLEHLO_PAD"), (196, "STABLEHLO_IOTA"),
    (197, "STABLEHLO_DOT_GENERAL"), (198, "STABLEHLO_REDUCE_WINDOW"), (199, "STABLEHLO_SORT"),
    (200, "STABLEHLO_WHILE"), (201, "STABLEHLO_GATHER"), (202, "STABLEHLO_TRANSPOSE"),
    (203, "DILATE"), (204, "STABLEHLO_RNG_BIT_GENERATOR"), (205, "REDUCE_WINDOW"),
    (206, "STABLEHLO_COMPOSITE"), (207, "STABLEHLO_SHIFT_LEFT"), (208, "STABLEHLO_CBRT"),
];
