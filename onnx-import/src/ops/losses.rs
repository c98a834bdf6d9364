//! Softmax and the classification losses.

use trainc_ir::ops::nll_loss::Reduction;
use trainc_ir::ops::{LogSoftmax, NllLoss, Softmax, SoftmaxCrossEntropy};
use trainc_ir::{Element, Op, ValueId};

use crate::call::{Bound, Call, axis};
use crate::error::{NodeResult, invalid, unsupported};
use crate::limits;
use crate::ops::movement::one;
use crate::{Loss, LossForm};

pub(crate) fn softmax(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let is_softmax = call.node.op_type == "Softmax";
    let op = |axis: usize| -> Op {
        if is_softmax { Softmax { axis }.into() } else { LogSoftmax { axis }.into() }
    };
    let x = call.f32(0)?;
    let dims = call.shape(x);
    if call.opset() >= 13 {
        let axis = axis(call.int("axis", -1)?, dims.len())?;
        return one(call.add(op(axis), &[x], "")?);
    }
    // Before opset 13 the axes from `axis` on are one.
    let at = axis(call.int("axis", 1)?, dims.len())?;
    if at + 1 == dims.len() {
        return one(call.add(op(at), &[x], "")?);
    }
    let product = |dims: &[usize]| limits::count(dims).ok_or_else(|| invalid!("too many elements"));
    let flat = vec![product(&dims[..at])?, product(&dims[at..])?];
    let shape = trainc_ir::ops::Reshape { shape: flat.into() };
    let x = call.add(shape, &[x], "flat")?;
    let y = call.add(op(1), &[x], "flat_result")?;
    one(call.reshaped(&y.into(), dims)?)
}

fn reduction(call: &Call<'_, '_>) -> NodeResult<Reduction> {
    match call.string("reduction", "mean")? {
        "none" => Ok(Reduction::None),
        "sum" => Ok(Reduction::Sum),
        "mean" => Ok(Reduction::Mean),
        other => Err(unsupported("attribute `reduction`", format!("`{other}`"), "none, sum, mean")),
    }
}

/// Scores [N, C, d...] and labels [N, d...].
fn operands(call: &mut Call<'_, '_>) -> NodeResult<(ValueId, ValueId)> {
    let (scores, labels) = (call.f32(0)?, call.value(1)?);
    if call.builder.graph.ty(labels).element != Element::I32 {
        return Err(invalid!("labels are {}", call.builder.graph.ty(labels)));
    }
    let (dims, mut expected) = (call.shape(scores), call.shape(scores));
    if dims.len() < 2 {
        return Err(invalid!("scores of shape {dims:?}, not [N, C, ...]"));
    }
    expected.remove(1);
    if call.shape(labels) != expected {
        return Err(invalid!("labels of shape {:?}, not {expected:?}", call.shape(labels)));
    }
    Ok((scores, labels))
}

fn nll(
    call: &mut Call<'_, '_>,
    log_probabilities: ValueId,
    labels: ValueId,
) -> NodeResult<ValueId> {
    // Labels outside the classes count for nothing, so -1 ignores no class.
    let ignore_index = call.int("ignore_index", -1)?;
    let op = NllLoss { reduction: reduction(call)?, ignore_index };
    let mut inputs = vec![log_probabilities, labels];
    if call.given(2) {
        inputs.push(call.f32(2)?);
    }
    call.add(op, &inputs, "")
}

fn record(
    call: &mut Call<'_, '_>,
    scores: ValueId,
    labels: ValueId,
    value: ValueId,
    form: LossForm,
) {
    if let Some(name) = call.node.output.first() {
        let loss = Loss { output: name.clone(), value, scores, scores_output: None, labels, form };
        call.builder.losses.push((name, loss));
    }
}

pub(crate) fn negative_log_likelihood(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (scores, labels) = operands(call)?;
    let loss = nll(call, scores, labels)?;
    record(call, scores, labels, loss, LossForm::NegativeLogLikelihood);
    one(loss)
}

pub(crate) fn softmax_cross_entropy(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (scores, labels) = operands(call)?;
    let with_log = call.uses_output(1);
    let plain = reduction(call)? == Reduction::Mean
        && !call.given(2)
        && !call.has("ignore_index")
        && call.shape(scores).len() == 2;
    let mut results = Vec::new();
    let log = LogSoftmax { axis: 1 };
    let loss = if plain {
        call.add(SoftmaxCrossEntropy {}, &[scores, labels], "")?
    } else {
        let log_probabilities = call.add(log.clone(), &[scores], "log_probabilities")?;
        results.push(log_probabilities);
        nll(call, log_probabilities, labels)?
    };
    if with_log && results.is_empty() {
        results.push(call.add(log, &[scores], "log_probabilities")?);
    }
    record(call, scores, labels, loss, LossForm::SoftmaxCrossEntropy);
    Ok(std::iter::once(loss).chain(results).map(Bound::Value).collect())
}
