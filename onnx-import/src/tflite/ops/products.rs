//! Matrix products.

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::AttributeProto;
use crate::tflite::layout::{Layout, permuted};
use crate::tflite::ops::Call;
use crate::tflite::ops::convolution::has_bias;
use crate::tflite::stored::Form;
use crate::tflite::translator::Value;

/// x [N, I], weights [O, I], an optional bias [O].
pub(super) fn fully_connected(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (dims, weights) = (call.dims(0)?, call.dims(1)?);
    let &[outputs, inputs] = &weights[..] else {
        return Err(invalid!("weights {weights:?}"));
    };
    if call.option_u8(1)? != 0 {
        return Err(unsupported("option `weights_format`", "shuffled weights", "DEFAULT"));
    }
    let keeps = call.option_u8(2)? != 0 && dims.len() > 2;
    let code = call.option_u8(0)?;
    if keeps {
        let (x, w, bias) = (call.plain(0)?, transposed(call, 1)?, bias(call)?);
        let mut y = call.add("MatMul", &[&x, &w], Vec::new(), "");
        if let Some(bias) = &bias {
            y = call.add("Add", &[&y, bias], Vec::new(), "bias");
        }
        let y = call.activation(y, code)?;
        return call.finish(y, Layout::Plain);
    }
    let (x, w) = flattened(call, &dims, outputs, inputs)?;
    let bias = bias(call)?;
    let mut operands = vec![x.as_str(), w.as_str()];
    operands.extend(bias.as_deref());
    let y = call.add("Gemm", &operands, vec![AttributeProto::int("transB", 1)], "");
    let y = call.activation(y, code)?;
    call.finish(y, Layout::Plain)
}

fn bias(call: &mut Call<'_, '_>) -> NodeResult<Option<String>> {
    if has_bias(call)? { call.plain(2).map(Some) } else { Ok(None) }
}

/// The operands of a dense layer. Behind an image with channels first the weights are permuted, not the image.
fn flattened(
    call: &mut Call<'_, '_>,
    dims: &[usize],
    outputs: usize,
    inputs: usize,
) -> NodeResult<(String, String)> {
    let (mut x, layout) = call.any(0)?;
    let value = call.value(1)?;
    let image = match (layout, dims) {
        (Layout::Flat(image), _) => Some(image),
        (Layout::Channels, &[_, h, w, c]) if h * w * c == inputs => {
            x = call.t.reshape(&x, &[0, inputs as i64], "flat");
            Some([c, h, w])
        }
        _ => None,
    };
    if let (Some([c, h, w]), Value::Stored { root, permutation }) = (image, &value)
        && permutation.is_sorted()
        && h * w * c == inputs
    {
        let (view, dims) = (vec![outputs, h, w, c], vec![outputs, inputs]);
        let form = Form { view, permutation: vec![0, 3, 1, 2], dims };
        return Ok((x, call.t.stored(*root, form)?));
    }
    let mut x = call.plain(0)?;
    if dims.len() != 2 || dims.last() != Some(&inputs) {
        x = call.t.reshape(&x, &[-1, inputs as i64], "rows");
    }
    Ok((x, call.plain(1)?))
}

/// An operand with its last two axes exchanged.
fn transposed(call: &mut Call<'_, '_>, i: usize) -> NodeResult<String> {
    let rank = call.dims(i)?.len();
    if rank < 2 {
        return Err(invalid!("a matrix of {rank} dimensions"));
    }
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 2, rank - 1);
    match call.value(i)? {
        Value::Stored { root, permutation } => {
            call.t.stored_permuted(root, permuted(&permutation, &axes))
        }
        _ => {
            let x = call.plain(i)?;
            Ok(call.t.transpose(&x, &axes, "transposed"))
        }
    }
}

pub(super) fn batch_matmul(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (adjoint_x, adjoint_y) = (call.option_u8(0)? != 0, call.option_u8(1)? != 0);
    let weights = call.dims(1)?;
    let (x, layout) = call.any(0)?;
    // A dense layer behind a flattened image, as a variable's product is written.
    if let (Layout::Flat([c, h, w]), &[inputs, outputs], false, false) =
        (layout, &weights[..], adjoint_x, adjoint_y)
        && let Value::Stored { root, permutation } = call.value(1)?
        && permutation.is_sorted()
        && h * w * c == inputs
    {
        let (view, dims) = (vec![h, w, c, outputs], vec![inputs, outputs]);
        let y = call.t.stored(root, Form { view, permutation: vec![2, 0, 1, 3], dims })?;
        let z = call.add("MatMul", &[&x, &y], Vec::new(), "");
        return call.finish(z, Layout::Plain);
    }
    let x = if adjoint_x { transposed(call, 0)? } else { call.plain(0)? };
    let y = if adjoint_y { transposed(call, 1)? } else { call.plain(1)? };
    let z = call.add("MatMul", &[&x, &y], Vec::new(), "");
    call.finish(z, Layout::Plain)
}
