//! The ONNX operators that are imported: one table, and one file a family.
//!
//! The table drives the importer, the check of a model and the list of supported operators, so they agree.

mod activations;
mod constants;
mod convolution;
mod elementwise;
mod indexing;
mod logic;
mod losses;
mod movement;
mod normalization;
mod pooling;
mod products;
pub(crate) mod qonnx;
mod quantization;
mod random;
mod rearrange;
mod recurrent;
mod reductions;
mod resize;
mod sequences;

use crate::call::{Bound, Call};
use crate::error::NodeResult;

/// First version of ONNX's operator set that is read.
pub const FIRST_OPSET: i64 = 7;
/// Last version of ONNX's operator set that is read.
pub const LAST_OPSET: i64 = 25;

/// Imports one node: gives what its results stand for.
pub(crate) type Import = fn(&mut Call<'_, '_>) -> NodeResult<Vec<Bound>>;

/// One operator of the table.
pub(crate) struct Row {
    /// ONNX's name.
    pub(crate) op: &'static str,
    /// Version of the operator set that brought it (7 for older ones).
    pub(crate) since: i64,
    /// Most operands, each from a version of the operator set on.
    pub(crate) operands: &'static [(i64, usize)],
    /// Attributes that are understood.
    pub(crate) attributes: &'static [&'static str],
    /// What a user should know.
    pub(crate) notes: &'static str,
    /// The importer.
    pub(crate) import: Import,
}

/// The table, ordered by name.
pub(crate) static TABLE: &[Row] = &[
    row("Abs", 7, ONE, &[], "", elementwise::unary),
    row("Add", 7, TWO, &[], "", elementwise::binary),
    row("And", 7, TWO, &[], "", logic::combine),
    row(
        "AveragePool",
        7,
        ONE,
        &[
            "kernel_shape",
            "strides",
            "pads",
            "auto_pad",
            "ceil_mode",
            "count_include_pad",
            "dilations",
        ],
        "1-D and 2-D; no dilation",
        pooling::average_pool,
    ),
    row(
        "BatchNormalization",
        7,
        &[(7, 5)],
        &["epsilon", "momentum", "training_mode", "spatial"],
        "training and inference form; running statistics are updated as ONNX says (population variance)",
        normalization::batch_norm,
    ),
    row(
        "Bernoulli",
        15,
        ONE,
        &["dtype", "seed"],
        "of one known probability; the draws are trainc's own, the seed is not used",
        random::bernoulli,
    ),
    row(
        "Cast",
        7,
        ONE,
        &["to", "saturate"],
        "at run time to FLOAT and BOOL; anything on known values",
        movement::cast,
    ),
    row("CastLike", 15, TWO, &["saturate"], "as Cast", movement::cast_like),
    row("Ceil", 7, ONE, &[], "", elementwise::unary),
    row("Celu", 12, ONE, &["alpha"], DECOMPOSED, activations::activation),
    row(
        "Clip",
        7,
        &[(7, 1), (11, 3)],
        &["min", "max"],
        "also between QuantizeLinear and DequantizeLinear",
        elementwise::clip,
    ),
    row("Concat", 7, ANY, &["axis"], "", movement::concat),
    row(
        "Constant",
        7,
        &[(7, 0)],
        &["value", "value_float", "value_floats", "value_int", "value_ints"],
        "dense; no strings",
        constants::constant,
    ),
    row("ConstantOfShape", 9, ONE, &["value"], "", constants::constant_of_shape),
    row(
        "Conv",
        7,
        THREE,
        &["kernel_shape", "strides", "pads", "auto_pad", "dilations", "group"],
        "1-D and 2-D; groups (depthwise), dilation, all of auto_pad",
        convolution::conv,
    ),
    row(
        "ConvTranspose",
        7,
        THREE,
        &[
            "kernel_shape",
            "strides",
            "pads",
            "auto_pad",
            "dilations",
            "group",
            "output_padding",
            "output_shape",
        ],
        "1-D and 2-D",
        convolution::conv_transpose,
    ),
    row("DepthToSpace", 7, ONE, &["blocksize", "mode"], "", rearrange::blocks),
    row(
        "DequantizeLinear",
        10,
        THREE,
        &["axis", "block_size"],
        "INT8, UINT8, INT4, UINT4, INT2 and UINT2, of a tensor or of an axis; integer weights become FP32 parameters",
        quantization::dequantize,
    ),
    row("Div", 7, TWO, &[], "", elementwise::binary),
    row(
        "Dropout",
        7,
        &[(7, 1), (12, 3)],
        &["ratio", "seed"],
        "the mask only in inference; the mask is trainc's own, the seed is not used",
        normalization::dropout,
    ),
    row(
        "Einsum",
        12,
        ANY,
        &["equation"],
        "one or two operands, each letter once in each, no ellipsis",
        rearrange::einsum,
    ),
    row("Elu", 7, ONE, &["alpha"], DECOMPOSED, activations::activation),
    row("Equal", 7, TWO, &[], "", logic::compare),
    row("Erf", 9, ONE, &[], "", elementwise::unary),
    row("Exp", 7, ONE, &[], "", elementwise::unary),
    row("Expand", 8, TWO, &[], "", movement::expand),
    row("Flatten", 7, ONE, &["axis"], "", movement::flatten),
    row("Floor", 7, ONE, &[], "", elementwise::unary),
    row(
        "GRU",
        7,
        &[(7, 6)],
        &[
            "activation_alpha",
            "activation_beta",
            "activations",
            "clip",
            "direction",
            "hidden_size",
            "layout",
            "linear_before_reset",
        ],
        UNROLLED,
        recurrent::gru,
    ),
    row("Gather", 7, TWO, &["axis"], "at run time an index outside gives zeros", indexing::gather),
    row(
        "GatherElements",
        11,
        TWO,
        &["axis"],
        "at run time as a selection along the axis",
        indexing::gather_elements,
    ),
    row("GatherND", 11, TWO, &["batch_dims"], "indices known while importing", indexing::gather_nd),
    row("Gelu", 20, ONE, &["approximate"], "decomposed", elementwise::gelu),
    row("Gemm", 7, THREE, &["alpha", "beta", "transA", "transB"], "", products::gemm),
    row("GlobalAveragePool", 7, ONE, &[], "", pooling::global_average_pool),
    row("GlobalMaxPool", 7, ONE, &[], "", pooling::global_max_pool),
    row("Greater", 7, TWO, &[], "", logic::compare),
    row("GreaterOrEqual", 12, TWO, &[], "", logic::compare),
    row(
        "GroupNormalization",
        18,
        THREE,
        &["epsilon", "num_groups", "stash_type"],
        DECOMPOSED,
        normalization::group_norm,
    ),
    row("HardSigmoid", 7, ONE, &["alpha", "beta"], "decomposed", elementwise::hard_sigmoid),
    row("HardSwish", 14, ONE, &[], DECOMPOSED, elementwise::hard_swish),
    row("Identity", 7, ONE, &[], "", movement::identity),
    row("InstanceNormalization", 7, THREE, &["epsilon"], DECOMPOSED, normalization::group_norm),
    row(
        "LSTM",
        7,
        &[(7, 8)],
        &[
            "activation_alpha",
            "activation_beta",
            "activations",
            "clip",
            "direction",
            "hidden_size",
            "input_forget",
            "layout",
        ],
        UNROLLED,
        recurrent::lstm,
    ),
    row(
        "LayerNormalization",
        17,
        THREE,
        &["axis", "epsilon", "stash_type"],
        "decomposed",
        normalization::layer_norm,
    ),
    row("LeakyRelu", 7, ONE, &["alpha"], "", elementwise::leaky_relu),
    row("Less", 7, TWO, &[], "", logic::compare),
    row("LessOrEqual", 12, TWO, &[], "", logic::compare),
    row("Log", 7, ONE, &[], "", elementwise::unary),
    row(
        "LogSoftmax",
        7,
        ONE,
        &["axis"],
        "before opset 13 over the flattened rest",
        losses::softmax,
    ),
    row("LpNormalization", 7, ONE, &["axis", "p"], DECOMPOSED, reductions::lp_normalization),
    row("MatMul", 7, TWO, &[], "", products::matmul),
    row("Max", 7, ANY, &[], "", elementwise::binary),
    row(
        "MaxPool",
        7,
        ONE,
        &["kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "dilations", "storage_order"],
        "1-D and 2-D; no Indices",
        pooling::max_pool,
    ),
    row("Mean", 7, ANY, &[], "", elementwise::binary),
    row("Min", 7, ANY, &[], "", elementwise::binary),
    row("Mish", 18, ONE, &[], DECOMPOSED, activations::activation),
    row("Mod", 10, TWO, &["fmod"], KNOWN, elementwise::known_only),
    row("Mul", 7, TWO, &[], "", elementwise::binary),
    row("Neg", 7, ONE, &[], "", elementwise::unary),
    row(
        "NegativeLogLikelihoodLoss",
        12,
        THREE,
        &["reduction", "ignore_index"],
        "",
        losses::negative_log_likelihood,
    ),
    row("Not", 7, ONE, &[], "", logic::not),
    row("Or", 7, TWO, &[], "", logic::combine),
    row("PRelu", 7, TWO, &[], DECOMPOSED, activations::prelu),
    row(
        "Pad",
        7,
        &[(7, 1), (11, 3), (18, 4)],
        &["mode", "pads", "value"],
        "mode constant",
        movement::pad,
    ),
    row("Pow", 7, TWO, &[], "", elementwise::binary),
    row(
        "QuantizeLinear",
        10,
        THREE,
        &["axis", "saturate", "block_size", "output_dtype", "precision"],
        "INT8, UINT8, INT4, UINT4, INT2 and UINT2, of a tensor or of an axis",
        quantization::quantize,
    ),
    row(
        "RNN",
        7,
        &[(7, 6)],
        &[
            "activation_alpha",
            "activation_beta",
            "activations",
            "clip",
            "direction",
            "hidden_size",
            "layout",
        ],
        UNROLLED,
        recurrent::rnn,
    ),
    row(
        "RandomUniform",
        7,
        NO_OPERANDS,
        &["dtype", "high", "low", "seed", "shape"],
        RANDOM,
        random::uniform,
    ),
    row("RandomUniformLike", 7, ONE, &["dtype", "high", "low", "seed"], RANDOM, random::uniform),
    row("Range", 11, THREE, &[], KNOWN, constants::range),
    row("Reciprocal", 7, ONE, &[], "", elementwise::unary),
    row("ReduceL1", 7, &[(7, 1), (18, 2)], REDUCE, DECOMPOSED, reductions::reduce),
    row("ReduceL2", 7, &[(7, 1), (18, 2)], REDUCE, DECOMPOSED, reductions::reduce),
    row("ReduceLogSum", 7, &[(7, 1), (18, 2)], REDUCE, DECOMPOSED, reductions::reduce),
    row("ReduceLogSumExp", 7, &[(7, 1), (18, 2)], REDUCE, DECOMPOSED, reductions::reduce),
    row("ReduceMax", 7, &[(7, 1), (18, 2)], REDUCE, "", reductions::reduce),
    row("ReduceMean", 7, &[(7, 1), (18, 2)], REDUCE, "", reductions::reduce),
    row("ReduceMin", 7, &[(7, 1), (18, 2)], REDUCE, "", reductions::reduce),
    row("ReduceProd", 7, &[(7, 1), (18, 2)], REDUCE, KNOWN, reductions::reduce),
    row("ReduceSum", 7, &[(7, 1), (13, 2)], REDUCE, "", reductions::reduce),
    row("ReduceSumSquare", 7, &[(7, 1), (18, 2)], REDUCE, DECOMPOSED, reductions::reduce),
    row("Relu", 7, ONE, &[], "", elementwise::unary),
    row("Reshape", 7, TWO, &["allowzero"], "shape known while importing", movement::reshape),
    row(
        "Resize",
        10,
        &[(10, 2), (11, 4)],
        &[
            "antialias",
            "axes",
            "coordinate_transformation_mode",
            "cubic_coeff_a",
            "exclude_outside",
            "extrapolation_value",
            "keep_aspect_ratio_policy",
            "mode",
            "nearest_mode",
        ],
        "nearest, linear, cubic; all of coordinate_transformation_mode but tf_crop_and_resize",
        resize::resize,
    ),
    row(
        "ScatterElements",
        11,
        THREE,
        &["axis", "reduction"],
        "indices known while importing; reduction none, add",
        indexing::scatter_elements,
    ),
    row(
        "ScatterND",
        11,
        THREE,
        &["reduction"],
        "indices known while importing, or rows added at run time; reduction none, add",
        indexing::scatter_nd,
    ),
    row("Selu", 7, ONE, &["alpha", "gamma"], DECOMPOSED, activations::activation),
    row(
        "SequenceAt",
        11,
        TWO,
        &[],
        "of SplitToSequence; position known while importing",
        sequences::at,
    ),
    row("Shape", 7, ONE, &["start", "end"], "", constants::shape),
    row("Sigmoid", 7, ONE, &[], "", elementwise::unary),
    row("Sign", 9, ONE, &[], "", elementwise::unary),
    row("Size", 7, ONE, &[], "", constants::size),
    row(
        "Slice",
        7,
        &[(7, 1), (10, 5)],
        &["starts", "ends", "axes"],
        "bounds known while importing",
        movement::slice,
    ),
    row("Softmax", 7, ONE, &["axis"], "before opset 13 over the flattened rest", losses::softmax),
    row(
        "SoftmaxCrossEntropyLoss",
        12,
        THREE,
        &["reduction", "ignore_index"],
        "",
        losses::softmax_cross_entropy,
    ),
    row("Softplus", 7, ONE, &[], DECOMPOSED, activations::activation),
    row("Softsign", 7, ONE, &[], DECOMPOSED, activations::activation),
    row("SpaceToDepth", 7, ONE, &["blocksize"], "", rearrange::blocks),
    row("Split", 7, &[(7, 1), (13, 2)], &["axis", "split", "num_outputs"], "", movement::split),
    row(
        "SplitToSequence",
        11,
        &[(11, 2)],
        &["axis", "keepdims"],
        "sizes known while importing",
        sequences::split,
    ),
    row("Sqrt", 7, ONE, &[], "", elementwise::unary),
    row("Squeeze", 7, &[(7, 1), (13, 2)], &["axes"], "", movement::squeeze),
    row("Sub", 7, TWO, &[], "", elementwise::binary),
    row("Sum", 7, ANY, &[], "", elementwise::binary),
    row("Tanh", 7, ONE, &[], "", elementwise::unary),
    row("ThresholdedRelu", 10, ONE, &["alpha"], DECOMPOSED, activations::activation),
    row("Transpose", 7, ONE, &["perm"], "", movement::transpose),
    row("Trilu", 14, &[(14, 2)], &["upper"], "", rearrange::trilu),
    row("Unsqueeze", 7, &[(7, 1), (13, 2)], &["axes"], "", movement::unsqueeze),
    row(
        "Upsample",
        7,
        &[(7, 1), (9, 2)],
        &["mode", "scales"],
        "nearest, linear; as the operator sets before 10 have it",
        resize::resize,
    ),
    row("Where", 9, THREE, &[], "", logic::select),
    row("Xor", 7, TWO, &[], "", logic::combine),
];

const NO_OPERANDS: &[(i64, usize)] = &[(7, 0)];
const ONE: &[(i64, usize)] = &[(7, 1)];
const TWO: &[(i64, usize)] = &[(7, 2)];
const THREE: &[(i64, usize)] = &[(7, 3)];
const ANY: &[(i64, usize)] = &[(7, usize::MAX)];
const DECOMPOSED: &str = "decomposed";
const UNROLLED: &str =
    "unrolled: sequences of one length, activations Sigmoid, Tanh, Relu, Softsign, Softplus";
const KNOWN: &str = "on values known while importing";
const RANDOM: &str =
    "from 0 to 1, compared with a probability; the draws are trainc's own, the seed is not used";
const REDUCE: &[&str] = &["axes", "keepdims", "noop_with_empty_axes"];

const fn row(
    op: &'static str,
    since: i64,
    operands: &'static [(i64, usize)],
    attributes: &'static [&'static str],
    notes: &'static str,
    import: Import,
) -> Row {
    Row { op, since, operands, attributes, notes, import }
}

impl Row {
    /// Most operands in a version of the operator set.
    pub(crate) fn most_operands(&self, opset: i64) -> usize {
        self.operands.iter().rev().find(|(since, _)| *since <= opset).map_or(0, |&(_, most)| most)
    }

    /// Most results in a version of the operator set.
    pub(crate) fn most_results(&self, opset: i64) -> usize {
        match self.op {
            "BatchNormalization" if opset < 14 => 5,
            "BatchNormalization" | "LayerNormalization" => 3,
            "MaxPool" if opset < 8 => 1,
            "Dropout" | "MaxPool" | "SoftmaxCrossEntropyLoss" => 2,
            "LSTM" => 3,
            "GRU" | "RNN" => 2,
            "Split" => usize::MAX,
            _ => 1,
        }
    }
}

/// The row of an operator of a domain.
pub(crate) fn find(domain: &str, op: &str) -> Option<&'static Row> {
    match domain {
        "" | "ai.onnx" => TABLE.binary_search_by(|row| row.op.cmp(op)).ok().map(|i| &TABLE[i]),
        _ if qonnx::DOMAINS.contains(&domain) => qonnx::find(op),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.op < b.op));
        assert!(qonnx::TABLE.is_sorted_by(|a, b| a.op < b.op));
    }
}
