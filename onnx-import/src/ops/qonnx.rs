//! QONNX: quantization to grids of any number of bits, FP32 in and out, as Brevitas exports it.
//!
//! The operators have the meaning that the qonnx package gives them. Scales and zero points may be computed at run
//! time, except those of Trunc; numbers of bits are known.

use trainc_ir::ops::{BipolarQuant, MAX_BITS, Quant, Rounding, Trunc};
use trainc_ir::{Shape, ValueId};

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::Known;
use crate::ops::movement::one;
use crate::ops::{Import, Row};
use crate::shapes::broadcast_index;

/// Domains of these operators: QONNX's own, and those of older exports.
pub(crate) const DOMAINS: &[&str] =
    &["qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"];

/// Last version of QONNX's operator set that is read.
pub(crate) const LAST_VERSION: i64 = 2;

const QUANT: &[&str] = &["signed", "narrow", "rounding_mode"];
const BITS: &str = "1 to 32 bits known while importing; straight-through when trained";

/// The table, ordered by name.
pub(crate) static TABLE: &[Row] = &[
    row("BipolarQuant", &[(1, 2)], &[], "straight-through when trained", bipolar_quant),
    // Another name of Quant in the qonnx package.
    row("IntQuant", &[(1, 4)], QUANT, BITS, quant),
    row("Quant", &[(1, 4)], QUANT, BITS, quant),
    row(
        "Trunc",
        &[(1, 6)],
        &["rounding_mode", "signed", "narrow"],
        "5 operands (version 1) and 6 (version 2); all but the first known while importing",
        trunc,
    ),
];

const fn row(
    op: &'static str,
    operands: &'static [(i64, usize)],
    attributes: &'static [&'static str],
    notes: &'static str,
    import: Import,
) -> Row {
    Row { op, since: 1, operands, attributes, notes, import }
}

/// The row of an operator.
pub(crate) fn find(op: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.op == op)
}

/// Largest change of bits by Trunc.
const MAX_SHIFT: f32 = 32.0;

fn rounding(call: &Call<'_, '_>, default: &'static str) -> NodeResult<Rounding> {
    let mode = call.string("rounding_mode", default)?;
    Ok(match mode.to_ascii_uppercase().as_str() {
        "ROUND" | "HALF_EVEN" => Rounding::HalfEven,
        "HALF_UP" => Rounding::HalfUp,
        "HALF_DOWN" => Rounding::HalfDown,
        "UP" => Rounding::Up,
        // Brevitas' name.
        "DOWN" | "ROUND_TO_ZERO" => Rounding::Down,
        "CEIL" => Rounding::Ceil,
        "FLOOR" => Rounding::Floor,
        _ => {
            return Err(unsupported(
                "attribute `rounding_mode`",
                format!("`{mode}`"),
                "ROUND, HALF_EVEN, HALF_UP, HALF_DOWN, UP, DOWN, ROUND_TO_ZERO, CEIL, FLOOR",
            ));
        }
    })
}

/// A number of bits.
fn bits(call: &mut Call<'_, '_>, operand: usize) -> NodeResult<u32> {
    let known = call.must_know(operand, "a number of bits")?;
    let place = call.operand_name(operand);
    let Some(bits) = known.scalar_f32() else {
        return Err(invalid!("{place}: a number of bits of shape {:?}", known.dims));
    };
    match (1..=MAX_BITS).find(|&whole| whole as f32 == bits) {
        Some(whole) => Ok(whole),
        None => Err(unsupported(
            place,
            format!("{bits} bits"),
            format!("a whole number of bits from 1 to {MAX_BITS}"),
        )),
    }
}

fn check_operands(call: &Call<'_, '_>, counts: &[usize]) -> NodeResult<()> {
    let found = call.operands();
    match counts.contains(&found) {
        true => Ok(()),
        false => Err(invalid!("{found} operand(s)")),
    }
}

/// A scale or zero point: one element of any rank, or what broadcasts to the operand.
fn factor(call: &mut Call<'_, '_>, operand: usize, x: ValueId) -> NodeResult<ValueId> {
    let whole = Shape::from(call.shape(x));
    if let Some(known) = call.known(operand)?
        && known.dims.len() > whole.rank()
        && let Some(value) = known.scalar_f32()
    {
        return Ok(call.scalar(value));
    }
    let value = call.as_f32(operand)?;
    let dims = Shape::from(call.shape(value));
    match whole.broadcast(&dims) {
        Some(shape) if shape == whole => Ok(value),
        _ => Err(invalid!(
            "{} of shape {dims} does not broadcast to the quantized operand's {whole}",
            call.operand_name(operand)
        )),
    }
}

pub(crate) fn quant(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    check_operands(call, &[4])?;
    for attribute in ["signed", "narrow"] {
        if !call.has(attribute) {
            return Err(invalid!("attribute `{attribute}` is missing"));
        }
    }
    let (signed, narrow) = (call.flag("signed", true)?, call.flag("narrow", true)?);
    let rounding = rounding(call, "ROUND")?;
    let bits = bits(call, 3)?;
    let x = call.f32(0)?;
    let (scale, zero_point) = (factor(call, 1, x)?, factor(call, 2, x)?);
    let op = Quant { signed, narrow, rounding, bits };
    one(call.add(op, &[x, scale, zero_point], "")?)
}

pub(crate) fn bipolar_quant(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    check_operands(call, &[2])?;
    let x = call.f32(0)?;
    let scale = factor(call, 1, x)?;
    one(call.add(BipolarQuant {}, &[x, scale], "")?)
}

fn known_floats(call: &mut Call<'_, '_>, operand: usize, what: &str) -> NodeResult<Known> {
    let known = call.must_know(operand, what)?;
    let Some(values) = known.to_f32() else {
        return Err(invalid!("{what} is not a number"));
    };
    Ok(Known::f32(known.dims.clone(), values))
}

/// The power of two nearest to the ratio of the scales, which has to be one for all channels.
fn scale_shift(call: &mut Call<'_, '_>, scale: &Known, output_scale: &Known) -> NodeResult<i32> {
    let name = call.operand_name(4);
    let fail = |reason: String| {
        unsupported(name.clone(), reason, "scales with one ratio from 2^-32 to 2^32")
    };
    let shape = Shape::from(scale.dims.clone()).broadcast(&Shape::from(output_scale.dims.clone()));
    let Some(shape) = shape else {
        return Err(invalid!("scales of shapes {:?} and {:?}", scale.dims, output_scale.dims));
    };
    call.fold_budget(&shape)?;
    let (scales, outputs) =
        (scale.to_f32().unwrap_or_default(), output_scale.to_f32().unwrap_or_default());
    let mut shift = None;
    for (i, j) in
        broadcast_index(&shape, &scale.dims).zip(broadcast_index(&shape, &output_scale.dims))
    {
        // The logarithm of an FP32 quotient, rounded to FP32.
        let ratio = outputs[j] / scales[i];
        let exponent = (f64::from(ratio).log2() as f32).round_ties_even();
        if exponent.is_nan() || exponent.abs() > MAX_SHIFT {
            return Err(fail(format!("{ratio} times the operand's scale")));
        }
        if *shift.get_or_insert(exponent) != exponent {
            return Err(fail("ratios to the operand's scale that differ".to_string()));
        }
    }
    Ok(shift.unwrap_or(0.0) as i32)
}

pub(crate) fn trunc(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    check_operands(call, &[5, 6])?;
    let second = call.operands() == 6;
    // Version 1 has neither; they say nothing where nothing is clamped.
    let (signed, narrow) = (call.flag("signed", true)?, call.flag("narrow", false)?);
    let rounding = rounding(call, "FLOOR")?;
    let x = call.f32(0)?;
    let scale = known_floats(call, 1, "a scale")?;
    let zero_point = known_floats(call, 2, "a zero point")?;
    let input_bits = bits(call, 3)?;
    let bits = bits(call, if second { 5 } else { 4 })?;
    let (scale_value, zero) = (factor(call, 1, x)?, factor(call, 2, x)?);
    if !second {
        let shift = input_bits as i32 - bits as i32;
        let op = Trunc { shift, signed, narrow, rounding, bits, clamp: false };
        return one(call.add(op, &[x, scale_value, zero, scale_value, zero], "")?);
    }
    let output_scale = known_floats(call, 4, "the result's scale")?;
    let output_scale_value = factor(call, 4, x)?;
    let shift = scale_shift(call, &scale, &output_scale)?;
    let step = 2f32.powi(shift);
    let moved = zero_point.to_f32().unwrap_or_default().iter().map(|zero| zero / step).collect();
    // As `zero` it may have more dimensions than the operand.
    let dims = call.shape(zero);
    let moved = Known::f32(dims, moved);
    let output_zero = call.lower(&moved.into(), "the result's zero point")?;
    let op = Trunc { shift, signed, narrow, rounding, bits, clamp: true };
    one(call.add(op, &[x, scale_value, zero, output_scale_value, output_zero], "")?)
}
