//! ONNX's affine quantization.

use trainc_ir::ops::{DequantizeLinear, QuantizeLinear, Reshape};
use trainc_ir::{Data, Element, ScaleData, Tensor, TensorType, ValueId};

use crate::IntegerParameter;
use crate::call::{Bound, Call, axis};
use crate::error::{NodeError, NodeResult, WarningKind, invalid, unsupported};
use crate::known::Known;
use crate::ops::movement::one;
use crate::proto::data_type;
use crate::shapes::broadcast_index;

const TYPES: &str = "integers of 8, 4 and 2 bits";

fn refuse_type(operand: &str, name: &str) -> NodeError {
    unsupported(format!("operand `{operand}`"), format!("element type {name}"), TYPES)
}

/// The element of a data type that integers are quantized to.
fn element(dtype: i32) -> Option<Element> {
    Some(match dtype {
        data_type::INT2 => Element::I2,
        data_type::UINT2 => Element::U2,
        data_type::INT4 => Element::I4,
        data_type::UINT4 => Element::U4,
        data_type::INT8 => Element::I8,
        data_type::UINT8 => Element::U8,
        data_type::INT16 => Element::I16,
        data_type::UINT16 => Element::U16,
        data_type::INT32 => Element::I32,
        _ => return None,
    })
}

/// Whether QuantizeLinear and DequantizeLinear run on it.
fn is_narrow(element: Element) -> bool {
    matches!(
        element,
        Element::I2 | Element::U2 | Element::I4 | Element::U4 | Element::I8 | Element::U8
    )
}

/// The channel axis; 0 where the scale is a scalar.
fn channel_axis(call: &Call<'_, '_>, rank: usize, scale: &[usize]) -> NodeResult<usize> {
    if call.int("block_size", 0)? != 0 || scale.len() > 1 {
        return Err(unsupported(
            "attribute `block_size`",
            "blocks with scales of their own",
            "one scale, or one for each channel of an axis",
        ));
    }
    match scale {
        [] | [1] => Ok(0),
        _ => axis(call.int("axis", 1)?, rank),
    }
}

/// A scale or zero point of one element as a scalar.
fn scalar_or_vector(call: &mut Call<'_, '_>, value: ValueId) -> NodeResult<ValueId> {
    if call.shape(value) != [1] {
        return Ok(value);
    }
    call.add(Reshape { shape: Vec::new().into() }, &[value], "scalar")
}

/// The zero point, or zeros of that element type like the scale.
fn zero_point(call: &mut Call<'_, '_>, scale: ValueId, element: Element) -> NodeResult<ValueId> {
    if call.given(2) {
        let zero = call.value(2)?;
        let found = call.builder.graph.ty(zero).element;
        if found != element {
            return Err(refuse_type("zero_point", found.name()));
        }
        let zero = scalar_or_vector(call, zero)?;
        if call.shape(zero) != call.shape(scale) {
            return Err(invalid!("scale and zero point differ in shape"));
        }
        return Ok(zero);
    }
    let dims = call.shape(scale);
    let count = dims.iter().product();
    let ty = TensorType::new(dims, element);
    let tensor = Tensor::new(ty, Data::zeros(element, count), ScaleData::None);
    let name = format!("{}/zero_point", call.name);
    Ok(call.builder.graph.add_constant(name, tensor))
}

pub(crate) fn quantize(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    // `saturate` is about 8-bit floats only.
    call.int("saturate", 1)?;
    let precision = call.int("precision", 0)?;
    if precision != 0 && precision != i64::from(data_type::FLOAT) {
        return Err(unsupported("attribute `precision`", "is not FLOAT", "FLOAT"));
    }
    let (x, scale) = (call.f32(0)?, call.f32(1)?);
    let axis = channel_axis(call, call.shape(x).len(), &call.shape(scale))?;
    let scale = scalar_or_vector(call, scale)?;
    let given = if call.given(2) {
        Some(call.dtype(2)?)
    } else {
        match call.int("output_dtype", 0)? {
            0 => None,
            code => Some(i32::try_from(code).unwrap_or(-1)),
        }
    };
    let given = given.unwrap_or(data_type::UINT8);
    let element = element(given)
        .filter(|&element| is_narrow(element))
        .ok_or_else(|| refuse_type("y", data_type::name(given)))?;
    let zero = zero_point(call, scale, element)?;
    one(call.add(QuantizeLinear { axis }, &[x, scale, zero], "")?)
}

pub(crate) fn dequantize(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let q = call.bound(0)?;
    let dims = call.dims(0)?;
    let scale_dims = call.dims(1)?;
    let axis = channel_axis(call, dims.len(), &scale_dims)?;
    if let Bound::Known(known) = &q {
        return one(dequantize_known(call, known, axis)?);
    }
    let (q, scale) = (call.value(0)?, call.f32(1)?);
    let scale = scalar_or_vector(call, scale)?;
    let element = call.builder.graph.ty(q).element;
    if !is_narrow(element) {
        return Err(refuse_type("x", element.name()));
    }
    let zero = zero_point(call, scale, element)?;
    one(call.add(DequantizeLinear { axis }, &[q, scale, zero], "")?)
}

/// Integers in the file: their FP32 values, a parameter if they are used as a weight.
fn dequantize_known(call: &mut Call<'_, '_>, q: &Known, axis: usize) -> NodeResult<Bound> {
    let Some(values) = q.ints() else {
        return Err(refuse_type("x", data_type::name(q.dtype)));
    };
    let scale = call.must_know(1, "the scale of known integers")?;
    let scales = scale.to_f32().unwrap_or_default();
    let zeros = match call.given(2) {
        true => {
            let known = call.must_know(2, "the zero point of known integers")?;
            known.ints().ok_or_else(|| invalid!("the zero point is not an integer"))?.to_vec()
        }
        false => vec![0; scales.len()],
    };
    let mut shape = vec![1; q.dims.len()];
    if scales.len() > 1 {
        shape[axis] = scales.len();
        if q.dims[axis] != scales.len() {
            return Err(invalid!("{} scales for {:?} along axis {axis}", scales.len(), q.dims));
        }
    }
    if zeros.len() != scales.len() || scales.is_empty() {
        return Err(invalid!("scale and zero point differ in shape"));
    }
    call.builder.count_copy(values.len()).map_err(|e| unsupported("operand `x`", e, ""))?;
    let floats: Vec<f32> = values
        .iter()
        .zip(broadcast_index(&q.dims, &shape))
        .map(|(&v, i)| v.saturating_sub(zeros[i]) as f32 * scales[i])
        .collect();
    let known = Known::f32(q.dims.clone(), floats);
    let output = call.node.output.first().map(String::as_str).unwrap_or_default();
    if !call.builder.roles.demands.get(output).is_some_and(|d| d.weight || d.term)
        || q.dims.contains(&0)
    {
        return Ok(known.into());
    }
    let name = call.node.input[0].clone();
    let value = call.builder.parameter(&name, &known, true).map_err(|e| invalid!("{e}"))?;
    if let Some(element) = element(q.dtype) {
        call.builder.integer_parameters.push(IntegerParameter {
            value,
            element,
            axis,
            scale: scales,
            zero_point: zeros,
            integers: values.to_vec(),
        });
    }
    call.builder.warn(
        WarningKind::IntegerWeights,
        format!("`{name}` is stored as integers; it becomes an FP32 parameter of the same values"),
    );
    Ok(value.into())
}
