//! Comparisons, what they choose, and rows by index.

use crate::error::{NodeResult, invalid, unsupported};
use crate::proto::AttributeProto;
use crate::tflite::layout::Layout;
use crate::tflite::ops::Call;
use crate::tflite::ops::elementwise::aligned;

/// Comparisons and logic of two operands.
pub(super) fn compare(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (op, negated) = match &*call.op.name {
        "EQUAL" => ("Equal", false),
        "NOT_EQUAL" => ("Equal", true),
        "GREATER" => ("Greater", false),
        "GREATER_EQUAL" => ("GreaterOrEqual", false),
        "LESS" => ("Less", false),
        "LESS_EQUAL" => ("LessOrEqual", false),
        "LOGICAL_AND" => ("And", false),
        "LOGICAL_OR" => ("Or", false),
        other => return Err(invalid!("{other} is no comparison")),
    };
    let (operands, layout) = aligned(call, &[0, 1])?;
    let [x, y] = &operands[..] else { return Err(invalid!("operands are missing")) };
    let mut z = call.add(op, &[x, y], Vec::new(), "");
    if negated {
        z = call.add("Not", &[&z], Vec::new(), "not");
    }
    call.finish(z, layout)
}

/// SELECT and SELECT_V2: condition, where it holds, where not. SELECT's condition of one dimension chooses rows.
pub(super) fn select(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let (condition, dims) = (call.dims(0)?, call.dims(1)?);
    if call.op.name == "SELECT" && condition.len() == 1 && dims.len() > 1 {
        return Err(unsupported(
            "operand 0",
            "a condition for rows",
            "a condition of the choices' shape",
        ));
    }
    let (operands, layout) = aligned(call, &[0, 1, 2])?;
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let y = call.add("Where", &operands, Vec::new(), "");
    call.finish(y, layout)
}

/// GATHER: a table and indices.
pub(super) fn gather(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let rank = call.dims(0)?.len();
    let axis = call.axis(call.option_i32(0, 0)?.into(), rank)?;
    if call.option_i32(1, 0)? != 0 {
        return Err(unsupported("option `batch_dims`", "indices for each example", "0"));
    }
    let (x, indices) = (call.plain(0)?, call.plain(1)?);
    let axis = AttributeProto::int("axis", axis as i64);
    let y = call.add("Gather", &[&x, &indices], vec![axis], "");
    call.finish_moved(0, y, Layout::Plain)
}

/// UNPACK: the parts along an axis, without it.
pub(super) fn unpack(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let dims = call.dims(0)?;
    let axis = call.axis(call.option_i32(1, 0)?.into(), dims.len())?;
    let parts = call.op.outputs.len();
    if dims[axis] != parts {
        return Err(invalid!("{parts} results of {dims:?} along axis {axis}"));
    }
    let x = call.plain(0)?;
    let along = AttributeProto::int("axis", axis as i64);
    let results = match parts {
        1 => vec![x],
        _ => call.t.add_many("Split", &[&x], vec![along], "parts", parts),
    };
    for (i, part) in results.into_iter().enumerate() {
        let axes = call.t.ints(&[axis as i64], "axes");
        let name = call.add("Squeeze", &[&part, &axes], Vec::new(), "");
        let (source, tensor) = (call.operand(0)?, call.result(i)?);
        let name = match call.t.same_grid(source, tensor) {
            true => name,
            false => call.t.on_grid(tensor, name)?,
        };
        let dims = call.result_dims(i)?;
        call.define(i, name, Layout::Plain, dims)?;
    }
    Ok(())
}
