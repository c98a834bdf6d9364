//! Weights that are no numbers: nothing can be trained from them, and no integer stands for them.

use trainc_ir::graph::Definition;
use trainc_ir::ops::properties::Property;
use trainc_ir::{Data, Graph, Op, Tensor, ValueId};

use crate::error::{ImportError, ImportErrorKind};

/// Checks that a graph can be trained or quantized: no NaN in parameters and constants, and nothing infinite in
/// parameters and in constants that are weights of convolutions and matrix products. Elsewhere infinite constants have
/// a meaning (bounds, attention masks).
///
/// # Errors
/// The first tensor that holds one, with the first element.
pub fn check_finite(graph: &Graph) -> Result<(), ImportError> {
    let weights = weight_constants(graph);
    for (index, value) in graph.values().iter().enumerate() {
        let (what, tensor, weight) = match &value.definition {
            Definition::Parameter(position) => {
                ("parameter", &graph.parameters()[*position].initial, true)
            }
            Definition::Constant(tensor) => ("constant", tensor, weights[index]),
            _ => continue,
        };
        let Some((at, found)) = first(tensor, |x| x.is_nan() || weight && x.is_infinite()) else {
            continue;
        };
        let count = tensor.shape().count();
        return Err(ImportError::new(ImportErrorKind::Invalid {
            node: None,
            place: Some(format!("{what} `{}`", value.name)),
            reason: format!(
                "element {at} of {count} is {found}: weights that are to be trained or quantized must be finite \
                 numbers; export the model from a checkpoint before its training diverged (`trainc run` evaluates it \
                 in FP32 as it is)"
            ),
        }));
    }
    Ok(())
}

fn first(tensor: &Tensor, bad: impl Fn(f32) -> bool) -> Option<(usize, f32)> {
    let Data::F32(values) = tensor.data() else { return None };
    // Nearly always none is: a look at all of them without a way out is one by vectors.
    const EXPONENT: u32 = 0x7f80_0000;
    if !values.iter().fold(false, |any, x| any | (x.to_bits() & EXPONENT == EXPONENT)) {
        return None;
    }
    values.iter().position(|&x| bad(x)).map(|at| (at, values[at]))
}

/// Constants that convolutions and matrix products multiply, as they are or moved and quantized before.
fn weight_constants(graph: &Graph) -> Vec<bool> {
    let mut found = vec![false; graph.values().len()];
    for node in graph.nodes() {
        if !node.op.kind().has(Property::Bilinear) {
            continue;
        }
        for &operand in &node.inputs {
            let source = behind(graph, operand);
            found[source.index()] |= graph.constant_of(source).is_some();
        }
    }
    found
}

/// What a value was made from by moving and quantizing alone.
fn behind(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some(node) = graph.producer(value) {
        match node.op {
            Op::Reshape(_)
            | Op::Transpose(_)
            | Op::QuantizeLinear(_)
            | Op::DequantizeLinear(_)
            | Op::Quant(_)
            | Op::BipolarQuant(_) => value = node.inputs[0],
            _ => break,
        }
    }
    value
}
