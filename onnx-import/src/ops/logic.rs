//! Comparisons, truth values and choices. At run time a truth value is FP32, 0 or 1.

use trainc_ir::ops::{Compare, Comparison, Maximum, Mul, Select};
use trainc_ir::{Element, ValueId};

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::is_float;
use crate::ops::constants;
use crate::ops::movement::one;
use crate::shapes::{fold_binary, fold_unary};

impl Call<'_, '_> {
    /// Whether an operand is one of integers at run time (indices, labels).
    fn runs_integers(&mut self, i: usize) -> NodeResult<bool> {
        Ok(match self.bound(i)? {
            Bound::Value(value) => self.builder.graph.ty(value).element == Element::I32,
            _ => false,
        })
    }

    /// 1 where a value is 0, else 0.
    pub(crate) fn is_zero(&mut self, value: ValueId, suffix: &str) -> NodeResult<ValueId> {
        let zero = match self.builder.graph.ty(value).element {
            Element::I32 => {
                let zero = crate::known::Known::i64(Vec::new(), vec![0]);
                self.lower(&zero.into(), "0")?
            }
            _ => self.scalar(0.0),
        };
        self.add(Compare { comparison: Comparison::Equal }, &[value, zero], suffix)
    }
}

pub(crate) fn compare(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let name = call.node.op_type.as_str();
    if call.operands() != 2 {
        return Err(invalid!("{} operand(s)", call.operands()));
    }
    if let Some(folded) = fold_binary(call, name)? {
        return one(folded);
    }
    let (comparison, turned) = match name {
        "Equal" => (Comparison::Equal, false),
        "Less" => (Comparison::Less, false),
        "LessOrEqual" => (Comparison::LessEqual, false),
        "Greater" => (Comparison::Less, true),
        "GreaterOrEqual" => (Comparison::LessEqual, true),
        other => return Err(invalid!("internal: {other} is no comparison")),
    };
    if comparison == Comparison::Less
        && let Some(drawn) = super::random::below(call, turned)?
    {
        return one(drawn);
    }
    let integers = call.runs_integers(0)? || call.runs_integers(1)?;
    let mut operands = Vec::new();
    for i in 0..2 {
        operands.push(if integers { call.value(i)? } else { call.as_f32(i)? });
    }
    if turned {
        operands.reverse();
    }
    one(call.add(Compare { comparison }, &operands, "")?)
}

/// And, Or, Xor of truth values.
pub(crate) fn combine(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let name = call.node.op_type.as_str();
    if call.operands() != 2 {
        return Err(invalid!("{} operand(s)", call.operands()));
    }
    if let Some(folded) = fold_binary(call, name)? {
        return one(folded);
    }
    let operands = [call.as_f32(0)?, call.as_f32(1)?];
    one(match name {
        "And" => call.add(Mul {}, &operands, "")?,
        "Or" => call.add(Maximum {}, &operands, "")?,
        _ => {
            let same = Compare { comparison: Comparison::Equal };
            let same = call.add(same, &operands, "same")?;
            call.is_zero(same, "")?
        }
    })
}

pub(crate) fn not(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if let Some(folded) = fold_unary(call, "Not")? {
        return one(folded);
    }
    let x = call.f32(0)?;
    one(call.is_zero(x, "")?)
}

/// Where.
pub(crate) fn select(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if call.operands() != 3 {
        return Err(invalid!("{} operand(s)", call.operands()));
    }
    if call.all_known()?.is_some() {
        return constants::select(call);
    }
    let condition = call.as_f32(0)?;
    let (a, b) = (call.dtype(1)?, call.dtype(2)?);
    if is_float(a) != is_float(b) {
        return Err(invalid!("choices of two element types"));
    }
    let choices = match is_float(a) {
        true => [call.f32(1)?, call.f32(2)?],
        false => [call.value(1)?, call.value(2)?],
    };
    if choices
        .iter()
        .any(|&v| !matches!(call.builder.graph.ty(v).element, Element::F32 | Element::I32))
    {
        return Err(unsupported("operands", "choices of narrow integers", "FLOAT, INT32, INT64"));
    }
    one(call.add(Select {}, &[condition, choices[0], choices[1]], "")?)
}
