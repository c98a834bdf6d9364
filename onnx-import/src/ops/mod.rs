//! The ONNX operators that are imported: one table, and one file a family.
//!
//! The table drives the importer, the check of a model and the list of supported operators, so they agree.

mod constants;
mod convolution;
mod elementwise;
mod losses;
mod movement;
mod normalization;
mod pooling;
mod products;
pub(crate) mod qonnx;
mod quantization;
mod reductions;

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
    /// Attributes that are understood.
    pub(crate) attributes: &'static [&'static str],
    /// What a user should know.
    pub(crate) notes: &'static str,
    /// The importer.
    pub(crate) import: Import,
}

/// The table, ordered by name.
pub(crate) static TABLE: &[Row] = &[
    row("Abs", 7, &[], "", elementwise::unary),
    row("Add", 7, &[], "", elementwise::binary),
    row("And", 7, &[], KNOWN, elementwise::known_only),
    row(
        "AveragePool",
        7,
        &[
            "kernel_shape",
            "strides",
            "pads",
            "auto_pad",
            "ceil_mode",
            "count_include_pad",
            "dilations",
        ],
        "2-D; no dilation",
        pooling::average_pool,
    ),
    row(
        "BatchNormalization",
        7,
        &["epsilon", "momentum", "training_mode", "spatial"],
        "training and inference form; running statistics are updated as ONNX says (population variance)",
        normalization::batch_norm,
    ),
    row("Cast", 7, &["to", "saturate"], "between floats; anything on known values", movement::cast),
    row("CastLike", 15, &["saturate"], "as Cast", movement::cast_like),
    row("Ceil", 7, &[], "", elementwise::unary),
    row(
        "Clip",
        7,
        &["min", "max"],
        "also between QuantizeLinear and DequantizeLinear",
        elementwise::clip,
    ),
    row("Concat", 7, &["axis"], "", movement::concat),
    row(
        "Constant",
        7,
        &["value", "value_float", "value_floats", "value_int", "value_ints"],
        "dense; no strings",
        constants::constant,
    ),
    row("ConstantOfShape", 9, &["value"], "", constants::constant_of_shape),
    row(
        "Conv",
        7,
        &["kernel_shape", "strides", "pads", "auto_pad", "dilations", "group"],
        "2-D; groups (depthwise), dilation, all of auto_pad",
        convolution::conv,
    ),
    row(
        "DequantizeLinear",
        10,
        &["axis", "block_size"],
        "INT8, UINT8, INT4, UINT4, INT2 and UINT2, of a tensor or of an axis; integer weights become FP32 parameters",
        quantization::dequantize,
    ),
    row("Div", 7, &[], "", elementwise::binary),
    row(
        "Dropout",
        7,
        &["ratio", "seed"],
        "the mask only in inference; the mask is trainc's own, the seed is not used",
        normalization::dropout,
    ),
    row("Equal", 7, &[], KNOWN, elementwise::known_only),
    row("Erf", 9, &[], "", elementwise::unary),
    row("Exp", 7, &[], "", elementwise::unary),
    row("Expand", 8, &[], "", movement::expand),
    row("Flatten", 7, &["axis"], "", movement::flatten),
    row("Floor", 7, &[], "", elementwise::unary),
    row("Gather", 7, &["axis"], "indices known while importing", movement::gather),
    row("Gelu", 20, &["approximate"], "decomposed", elementwise::gelu),
    row("Gemm", 7, &["alpha", "beta", "transA", "transB"], "", products::gemm),
    row("GlobalAveragePool", 7, &[], "", pooling::global_average_pool),
    row("GlobalMaxPool", 7, &[], "", pooling::global_max_pool),
    row("Greater", 7, &[], KNOWN, elementwise::known_only),
    row("GreaterOrEqual", 12, &[], KNOWN, elementwise::known_only),
    row("HardSigmoid", 7, &["alpha", "beta"], "decomposed", elementwise::hard_sigmoid),
    row("HardSwish", 14, &[], "decomposed", elementwise::hard_swish),
    row("Identity", 7, &[], "", movement::identity),
    row(
        "LayerNormalization",
        17,
        &["axis", "epsilon", "stash_type"],
        "decomposed",
        normalization::layer_norm,
    ),
    row("LeakyRelu", 7, &["alpha"], "", elementwise::leaky_relu),
    row("Less", 7, &[], KNOWN, elementwise::known_only),
    row("LessOrEqual", 12, &[], KNOWN, elementwise::known_only),
    row("Log", 7, &[], "", elementwise::unary),
    row("LogSoftmax", 7, &["axis"], "before opset 13 over the flattened rest", losses::softmax),
    row("MatMul", 7, &[], "", products::matmul),
    row("Max", 7, &[], "", elementwise::binary),
    row(
        "MaxPool",
        7,
        &["kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "dilations", "storage_order"],
        "2-D; no Indices",
        pooling::max_pool,
    ),
    row("Mean", 7, &[], "", elementwise::binary),
    row("Min", 7, &[], "", elementwise::binary),
    row("Mod", 10, &["fmod"], KNOWN, elementwise::known_only),
    row("Mul", 7, &[], "", elementwise::binary),
    row("Neg", 7, &[], "", elementwise::unary),
    row(
        "NegativeLogLikelihoodLoss",
        12,
        &["reduction", "ignore_index"],
        "",
        losses::negative_log_likelihood,
    ),
    row("Not", 7, &[], KNOWN, elementwise::known_only),
    row("Or", 7, &[], KNOWN, elementwise::known_only),
    row("Pad", 7, &["mode", "pads", "value"], "mode constant", movement::pad),
    row("Pow", 7, &[], "", elementwise::binary),
    row(
        "QuantizeLinear",
        10,
        &["axis", "saturate", "block_size", "output_dtype", "precision"],
        "INT8, UINT8, INT4, UINT4, INT2 and UINT2, of a tensor or of an axis",
        quantization::quantize,
    ),
    row("Range", 11, &[], KNOWN, constants::range),
    row("Reciprocal", 7, &[], "", elementwise::unary),
    row("ReduceMax", 7, REDUCE, "", reductions::reduce),
    row("ReduceMean", 7, REDUCE, "", reductions::reduce),
    row("ReduceMin", 7, REDUCE, KNOWN, reductions::reduce),
    row("ReduceProd", 7, REDUCE, KNOWN, reductions::reduce),
    row("ReduceSum", 7, REDUCE, "", reductions::reduce),
    row("Relu", 7, &[], "", elementwise::unary),
    row("Reshape", 7, &["allowzero"], "shape known while importing", movement::reshape),
    row("Shape", 7, &["start", "end"], "", constants::shape),
    row("Sigmoid", 7, &[], "", elementwise::unary),
    row("Sign", 9, &[], "", elementwise::unary),
    row("Size", 7, &[], "", constants::size),
    row("Slice", 7, &["starts", "ends", "axes"], "bounds known while importing", movement::slice),
    row("Softmax", 7, &["axis"], "before opset 13 over the flattened rest", losses::softmax),
    row(
        "SoftmaxCrossEntropyLoss",
        12,
        &["reduction", "ignore_index"],
        "",
        losses::softmax_cross_entropy,
    ),
    row("Split", 7, &["axis", "split", "num_outputs"], "", movement::split),
    row("Sqrt", 7, &[], "", elementwise::unary),
    row("Squeeze", 7, &["axes"], "", movement::squeeze),
    row("Sub", 7, &[], "", elementwise::binary),
    row("Sum", 7, &[], "", elementwise::binary),
    row("Tanh", 7, &[], "", elementwise::unary),
    row("Transpose", 7, &["perm"], "", movement::transpose),
    row("Unsqueeze", 7, &["axes"], "", movement::unsqueeze),
    row("Where", 9, &[], KNOWN, constants::select),
];

const KNOWN: &str = "on values known while importing";
const REDUCE: &[&str] = &["axes", "keepdims", "noop_with_empty_axes"];

const fn row(
    op: &'static str,
    since: i64,
    attributes: &'static [&'static str],
    notes: &'static str,
    import: Import,
) -> Row {
    Row { op, since, attributes, notes, import }
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
