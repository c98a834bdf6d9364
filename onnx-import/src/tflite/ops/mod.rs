//! The operators of TensorFlow Lite that are imported: one table, and one file a family.
//!
//! Each gives nodes of the importer's operators. The table drives the importer, the check of a model and the list of
//! supported operators, so they agree.

mod choice;
mod convolution;
mod elementwise;
mod images;
mod larq;
mod movement;
mod products;
mod reductions;
mod variables;

pub(crate) use variables::{key as variable_key, say_empty};

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::AttributeProto;
use crate::tflite::flatbuffer::Malformed;
use crate::tflite::layout::Layout;
use crate::tflite::schema::Operator;
use crate::tflite::translator::{Translator, Value};

/// Imports one operator: adds its nodes and says what its results stand for.
pub(crate) type Import = fn(&mut Call<'_, '_>) -> NodeResult<()>;

/// One operator of the table.
pub(crate) struct Row {
    /// The schema's name, or the custom operator's.
    pub(crate) op: &'static str,
    /// What a user should know.
    pub(crate) notes: &'static str,
    pub(crate) import: Import,
}

const fn row(op: &'static str, notes: &'static str, import: Import) -> Row {
    Row { op, notes, import }
}

/// The table, ordered by name.
pub(crate) static TABLE: &[Row] = &[
    row("ABS", "", elementwise::unary),
    row("ADD", "", elementwise::binary),
    row("ADD_N", "", elementwise::sum),
    row("AVERAGE_POOL_2D", "", convolution::pool),
    row("BATCH_MATMUL", "", products::batch_matmul),
    row("CAST", "between floats; anything on known values", elementwise::cast),
    row("CEIL", "", elementwise::unary),
    row("CONCATENATION", "", movement::concatenation),
    row("CONV_2D", "groups and dilation too", convolution::conv),
    row("DEPTHWISE_CONV_2D", "", convolution::conv),
    row("DEPTH_TO_SPACE", "", images::blocks),
    row("DEQUANTIZE", "of constants too (FLOAT16 weights)", elementwise::same),
    row("DIV", "", elementwise::binary),
    row("ELU", "", elementwise::unary),
    row("EQUAL", "", choice::compare),
    row("EXP", "", elementwise::unary),
    row("EXPAND_DIMS", "axis known while importing", movement::expand_dims),
    row("FLOOR", "", elementwise::unary),
    row("FULLY_CONNECTED", "", products::fully_connected),
    row("GATHER", "no batch dimensions; at run time an index outside gives zeros", choice::gather),
    row("GELU", "", elementwise::gelu),
    row("GREATER", "", choice::compare),
    row("GREATER_EQUAL", "", choice::compare),
    row("HARD_SWISH", "", elementwise::unary),
    row("L2_NORMALIZATION", "", reductions::l2),
    row("LEAKY_RELU", "", elementwise::leaky_relu),
    row("LESS", "", choice::compare),
    row("LESS_EQUAL", "", choice::compare),
    row("LOG", "", elementwise::unary),
    row("LOGICAL_AND", "", choice::compare),
    row("LOGICAL_NOT", "", elementwise::unary),
    row("LOGICAL_OR", "", choice::compare),
    row("LOGISTIC", "", elementwise::unary),
    row("LOG_SOFTMAX", "", reductions::softmax),
    row("LceBMaxPool2d", "Larq", larq::max_pool),
    row("LceBconv2d", "Larq; see below", larq::conv),
    row("LceDequantize", "Larq", larq::dequantize),
    row("LceQuantize", "Larq", larq::quantize),
    row("MAXIMUM", "", elementwise::binary),
    row("MAX_POOL_2D", "", convolution::pool),
    row("MEAN", "axes known while importing", reductions::reduce),
    row("MINIMUM", "", elementwise::binary),
    row("MUL", "", elementwise::binary),
    row("NEG", "", elementwise::unary),
    row("NOT_EQUAL", "", choice::compare),
    row("PACK", "", movement::pack),
    row("PAD", "amounts known while importing", movement::pad),
    row("PADV2", "amounts and value known while importing", movement::pad),
    row("POW", "", elementwise::binary),
    row("PRELU", "", elementwise::prelu),
    row("QUANTIZE", "INT8 and UINT8", elementwise::same),
    row("READ_VARIABLE", "a parameter", variables::read),
    row("REDUCE_MAX", "axes known while importing", reductions::reduce),
    row("REDUCE_MIN", "axes known while importing", reductions::reduce),
    row("RELU", "", elementwise::unary),
    row("RELU6", "", elementwise::unary),
    row("RELU_0_TO_1", "", elementwise::unary),
    row("RELU_N1_TO_1", "", elementwise::unary),
    row("RESHAPE", "", movement::reshape),
    row("RESIZE_BILINEAR", "sizes known while importing", images::resize),
    row("RESIZE_NEAREST_NEIGHBOR", "sizes known while importing", images::resize),
    row("RSQRT", "", elementwise::unary),
    row("SELECT", "no condition for rows", choice::select),
    row("SELECT_V2", "", choice::select),
    row("SHAPE", "", movement::shape),
    row("SIGN", "", elementwise::unary),
    row("SLICE", "bounds known while importing", movement::slice),
    row("SOFTMAX", "", reductions::softmax),
    row("SPACE_TO_DEPTH", "", images::blocks),
    row("SPLIT", "axis known while importing", movement::split),
    row("SPLIT_V", "sizes known while importing", movement::split),
    row("SQRT", "", elementwise::unary),
    row("SQUARE", "", elementwise::square),
    row("SQUARED_DIFFERENCE", "", elementwise::squared_difference),
    row("SQUEEZE", "", movement::squeeze),
    row("STRIDED_SLICE", "bounds known while importing; no new axes", movement::strided_slice),
    row("SUB", "", elementwise::binary),
    row("SUM", "axes known while importing", reductions::reduce),
    row("TANH", "", elementwise::unary),
    row("TRANSPOSE", "order known while importing", movement::transpose),
    row("TRANSPOSE_CONV", "sizes known while importing", images::transpose_conv),
    row("UNPACK", "", choice::unpack),
    row("VAR_HANDLE", "", variables::handle),
];

/// The row of an operator.
pub(crate) fn find(op: &str) -> Option<&'static Row> {
    TABLE.binary_search_by(|row| row.op.cmp(op)).ok().map(|i| &TABLE[i])
}

/// One operator being translated.
pub(crate) struct Call<'t, 'm> {
    pub(crate) t: &'t mut Translator<'m>,
    pub(crate) op: &'m Operator<'m>,
}

fn malformed(e: Malformed) -> crate::error::NodeError {
    invalid!("{e}")
}

/// Options, by their numbers in the operator's table of the schema.
impl Call<'_, '_> {
    pub(crate) fn option_u8(&self, number: usize) -> NodeResult<u8> {
        self.op.options.map_or(Ok(0), |o| o.u8(number)).map_err(malformed)
    }

    pub(crate) fn option_i32(&self, number: usize, default: i32) -> NodeResult<i32> {
        self.op.options.map_or(Ok(default), |o| o.i32(number, default)).map_err(malformed)
    }

    pub(crate) fn option_f32(&self, number: usize) -> NodeResult<f32> {
        self.op.options.map_or(Ok(0.0), |o| o.f32(number)).map_err(malformed)
    }

    pub(crate) fn option_i32s(&self, number: usize) -> NodeResult<Option<Vec<i32>>> {
        self.op.options.map_or(Ok(None), |o| o.i32s(number)).map_err(malformed)
    }

    pub(crate) fn option_string(&self, number: usize) -> NodeResult<String> {
        self.op.options.map_or(Ok(String::new()), |o| o.string(number)).map_err(malformed)
    }
}

/// Operands and results.
impl Call<'_, '_> {
    pub(crate) fn operands(&self) -> usize {
        self.op.inputs.len()
    }

    pub(crate) fn given(&self, i: usize) -> bool {
        self.op.inputs.get(i).is_some_and(Option::is_some)
    }

    /// The tensor of an operand.
    pub(crate) fn operand(&self, i: usize) -> NodeResult<usize> {
        self.op.inputs.get(i).copied().flatten().ok_or_else(|| invalid!("operand {i} is missing"))
    }

    /// The tensor of a result.
    pub(crate) fn result(&self, i: usize) -> NodeResult<usize> {
        self.op.outputs.get(i).copied().ok_or_else(|| invalid!("result {i} is missing"))
    }

    pub(crate) fn dims(&mut self, i: usize) -> NodeResult<Vec<usize>> {
        let tensor = self.operand(i)?;
        self.t.dims(tensor)
    }

    /// Dimensions of a result, as the file states them.
    pub(crate) fn result_dims(&self, i: usize) -> NodeResult<Vec<usize>> {
        let tensor = self.result(i)?;
        Ok(self.t.subgraph.tensors[tensor].dims.clone())
    }

    pub(crate) fn plain(&mut self, i: usize) -> NodeResult<String> {
        let tensor = self.operand(i)?;
        self.t.plain(tensor)
    }

    pub(crate) fn channels(&mut self, i: usize) -> NodeResult<String> {
        let tensor = self.operand(i)?;
        self.t.channels(tensor)
    }

    pub(crate) fn any(&mut self, i: usize) -> NodeResult<(String, Layout)> {
        let tensor = self.operand(i)?;
        self.t.any(tensor)
    }

    pub(crate) fn value(&mut self, i: usize) -> NodeResult<Value> {
        let tensor = self.operand(i)?;
        self.t.value(tensor)
    }

    /// An operand of integers that must be known while importing.
    pub(crate) fn must_know(&mut self, i: usize, what: &str) -> NodeResult<Vec<i64>> {
        let tensor = self.operand(i)?;
        self.t.known_ints(tensor)?.ok_or_else(|| {
            unsupported(
                format!("operand {i}"),
                format!("{what} computed at run time"),
                "a constant",
            )
        })
    }

    /// An axis of a tensor of this rank.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> NodeResult<usize> {
        let from_end = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(from_end)
            .ok()
            .filter(|&a| a < rank)
            .ok_or_else(|| invalid!("axis {axis} of {rank} dimensions"))
    }

    pub(crate) fn add(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        suffix: &str,
    ) -> String {
        self.t.add(op, inputs, attributes, suffix)
    }

    /// The fused activation function of a value.
    pub(crate) fn activation(&mut self, x: String, code: u8) -> NodeResult<String> {
        Ok(match code {
            0 => x,
            1 => self.add("Relu", &[&x], Vec::new(), "relu"),
            2 => self.clip(&x, -1.0, 1.0),
            3 => self.clip(&x, 0.0, 6.0),
            4 => self.add("Tanh", &[&x], Vec::new(), "tanh"),
            other => {
                return Err(unsupported(
                    "fused activation function",
                    if other == 5 { "SIGN_BIT".to_string() } else { format!("number {other}") },
                    "NONE, RELU, RELU_N1_TO_1, RELU6, TANH",
                ));
            }
        })
    }

    pub(crate) fn clip(&mut self, x: &str, low: f32, high: f32) -> String {
        let (low, high) = (self.t.floats(&[], &[low], "min"), self.t.floats(&[], &[high], "max"));
        self.add("Clip", &[x, &low, &high], Vec::new(), "clip")
    }

    /// Makes a computed value the first result, on the grid of its tensor.
    pub(crate) fn finish(&mut self, x: String, layout: Layout) -> NodeResult<()> {
        let tensor = self.result(0)?;
        let dims = self.result_dims(0)?;
        let x = self.t.on_grid(tensor, x)?;
        self.define(0, x, layout, dims)
    }

    /// As [`Call::finish`], of elements that were only moved from an operand: they are on the grid if that has the same.
    pub(crate) fn finish_moved(
        &mut self,
        from: usize,
        x: String,
        layout: Layout,
    ) -> NodeResult<()> {
        let (source, tensor) = (self.operand(from)?, self.result(0)?);
        if !self.t.same_grid(source, tensor) {
            return self.finish(x, layout);
        }
        let dims = self.result_dims(0)?;
        self.define(0, x, layout, dims)
    }

    /// Makes a value a result as it is.
    pub(crate) fn define(
        &mut self,
        i: usize,
        x: String,
        layout: Layout,
        dims: Vec<usize>,
    ) -> NodeResult<()> {
        let tensor = self.result(i)?;
        let name = self.t.rename(x, tensor);
        self.t.values.insert(tensor, Value::Computed { dims, forms: vec![(layout, name)] });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.op < b.op));
    }
}
