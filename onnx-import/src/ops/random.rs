//! Random masks, as exporters write stochastic depth: uniform numbers that are only compared with a probability, and
//! Bernoulli. The draws are trainc's own (see `dropout`), of a stream for each node; the file's seed is not used.

use trainc_ir::ops::{Dropout, Mul};
use trainc_ir::{Tensor, ValueId};

use crate::DropoutMode;
use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::Known;
use crate::limits;
use crate::ops::movement::one;
use crate::proto::data_type;

/// RandomUniform and RandomUniformLike.
pub(crate) fn uniform(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let dims = match call.node.op_type.as_str() {
        "RandomUniform" => {
            let shape = call.ints("shape")?.ok_or_else(|| invalid!("`shape` is missing"))?;
            limits::dimensions(shape).map_err(|e| invalid!("{e}"))?.0
        }
        _ => call.dims(0)?,
    };
    call.float("seed", 0.0)?;
    let dtype = call.int("dtype", i64::from(data_type::FLOAT))?;
    if dtype != i64::from(data_type::FLOAT) {
        return Err(unsupported("attribute `dtype`", "is not FLOAT", "FLOAT"));
    }
    let (low, high) = (call.float("low", 0.0)?, call.float("high", 1.0)?);
    if (low, high) != (0.0, 1.0) {
        return Err(unsupported("attributes", format!("from {low} to {high}"), "from 0 to 1"));
    }
    one(Bound::Uniform(dims))
}

/// `Less` (or `Greater`, turned round) of uniform numbers and a known probability: 1 with that probability, else 0; `None`
/// if the operands are no such.
pub(super) fn below(call: &mut Call<'_, '_>, turned: bool) -> NodeResult<Option<Bound>> {
    let (drawn, bound) = if turned { (1, 0) } else { (0, 1) };
    let Bound::Uniform(dims) = call.bound(drawn)? else { return Ok(None) };
    let Some(probability) = call.known(bound)?.and_then(|known| known.scalar_f32()) else {
        return Err(unsupported(
            call.operand_name(bound),
            "random numbers compared with something else than a number",
            "a probability known while importing",
        ));
    };
    mask(call, dims, probability).map(Some)
}

pub(crate) fn bernoulli(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    call.float("seed", 0.0)?;
    let dtype = call.int("dtype", i64::from(data_type::FLOAT))?;
    if dtype != i64::from(data_type::FLOAT) {
        return Err(unsupported("attribute `dtype`", "is not FLOAT", "FLOAT"));
    }
    let known = call.must_know(0, "probabilities")?;
    let values = known.to_f32().unwrap_or_default();
    match values.first() {
        Some(&first) if values.iter().all(|&p| p == first) => {
            one(mask(call, known.dims.clone(), first)?)
        }
        _ => Err(unsupported("operand `input`", "several probabilities", "one probability")),
    }
}

/// Ones with a probability, else zeros. Inference keeps every one, times the probability: the mean.
fn mask(call: &mut Call<'_, '_>, dims: Vec<usize>, probability: f32) -> NodeResult<Bound> {
    if probability.is_nan() {
        return Err(invalid!("a probability of NaN"));
    }
    let count = call.fold_budget(&dims)?;
    let ratio = 1.0 - probability;
    if ratio <= 0.0 || ratio >= 1.0 {
        let value = if ratio <= 0.0 { 1.0 } else { 0.0 };
        return Ok(Known::f32(dims, vec![value; count]).into());
    }
    if call.builder.options.dropout == DropoutMode::Off {
        return Ok(Known::f32(dims, vec![probability; count]).into());
    }
    let ones = Tensor::f32(dims, vec![1.0; count]);
    let ones: ValueId = call.builder.graph.add_constant(format!("{}/ones", call.name), ones);
    let stream = call.builder.streams;
    call.builder.streams += 1;
    // Dropout gives 1 / probability where it keeps an element.
    let kept = call.add(Dropout { ratio: ratio.into(), stream }, &[ones], "drawn")?;
    let probability = call.scalar(probability);
    Ok(call.add(Mul {}, &[kept, probability], "")?.into())
}
