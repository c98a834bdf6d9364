//! Losses for models that bring none: what they are trained for is asked by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::Tensor;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::{
    Add, Exp, Log, LogSoftmax, Mul, Neg, NllLoss, Op, ReduceMean, Reduction, Relu,
    SoftmaxCrossEntropy, Sub,
};
use trainc_ir::types::{Element, Shape, TensorType};

use crate::training::{LABELS, TrainingError};

/// Name of the input that holds what a model's only result shall be; of several `RESULT.targets`.
pub const TARGETS: &str = "targets";

/// What a model is trained for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The mean softmax cross-entropy of class scores `[N, C, d...]` and labels i32 `[N, d...]`; a final softmax or
    /// log-softmax is taken as part of the loss.
    CrossEntropy,
    /// The mean binary cross-entropy of logits and targets in 0 to 1, `log(1 + e^x) - x t`; a final sigmoid
    /// is taken as part of the loss.
    BinaryCrossEntropy,
    /// The mean of squared differences to targets.
    MeanSquaredError,
}

/// Appends a loss: that of every FP32 output, with an input of its own for each, summed in their order from the left.
///
/// # Errors
/// If no output is FP32, or none that the loss could be of.
pub fn add_loss(graph: &mut Graph, loss: Loss) -> Result<ValueId, TrainingError> {
    add_losses(graph, Some(loss), &BTreeMap::new())
}

/// [`add_loss`] with a loss and a factor of its own for some outputs; the others have `all`, or none.
///
/// # Errors
/// As [`add_loss`], and if there is no output of a name.
pub fn add_losses(
    graph: &mut Graph,
    all: Option<Loss>,
    own: &BTreeMap<String, (Loss, f64)>,
) -> Result<ValueId, TrainingError> {
    let outputs: Vec<(String, ValueId)> = graph
        .outputs()
        .iter()
        .filter(|output| graph.ty(output.value).is_f32())
        .map(|output| (output.name.clone(), output.value))
        .collect();
    if let Some(name) = own.keys().find(|name| !outputs.iter().any(|(known, _)| known == *name)) {
        let known: Vec<String> = outputs.iter().map(|(name, _)| format!("`{name}`")).collect();
        return Err(TrainingError::Output { name: name.clone(), known: known.join(", ") });
    }
    let mut total = None;
    for (name, value) in &outputs {
        let asked = own.get(name).copied().or(all.map(|loss| (loss, 1.0)));
        let Some((loss, weight)) = asked else { continue };
        let input = if loss == Loss::CrossEntropy { LABELS } else { TARGETS };
        let input = if outputs.len() == 1 { input.to_string() } else { format!("{name}.{input}") };
        let term = match loss {
            Loss::CrossEntropy => cross_entropy(graph, *value, input)?,
            Loss::BinaryCrossEntropy => binary_cross_entropy(graph, *value, input)?,
            Loss::MeanSquaredError => {
                let targets = targets(graph, *value, input);
                let difference = graph.add1(Sub {}, &[*value, targets], "loss/difference")?;
                let squares = graph.add1(Mul {}, &[difference, difference], "loss/squares")?;
                mean(graph, squares)?
            }
        };
        let term = match weight {
            1.0 => term,
            weight => {
                let factor = Tensor::f32([], vec![weight as f32]);
                let factor = graph.add_constant("loss/weight", Arc::new(factor));
                graph.add1(Mul {}, &[term, factor], "loss/weighted")?
            }
        };
        total = Some(match total {
            None => term,
            Some(total) => graph.add1(Add {}, &[total, term], "loss/total")?,
        });
    }
    total.ok_or_else(|| TrainingError::NoLogits("; none of its outputs is f32".to_string()))
}

/// An input of the type of a result.
fn targets(graph: &mut Graph, value: ValueId, name: String) -> ValueId {
    let ty = graph.ty(value).clone();
    graph.add_input(name, ty, InputRole::Labels)
}

/// The mean of all elements.
fn mean(graph: &mut Graph, value: ValueId) -> Result<ValueId, TrainingError> {
    let axes: Vec<usize> = (0..graph.ty(value).shape.rank()).collect();
    match axes.is_empty() {
        true => Ok(value),
        false => Ok(graph.add1(ReduceMean { axes, keep_dims: false }, &[value], "loss")?),
    }
}

fn cross_entropy(
    graph: &mut Graph,
    value: ValueId,
    name: String,
) -> Result<ValueId, TrainingError> {
    let scores = match graph.producer(value).map(|node| (&node.op, node.inputs[0])) {
        Some((Op::Softmax(softmax), scores)) if softmax.axis == 1 => scores,
        Some((Op::LogSoftmax(softmax), scores)) if softmax.axis == 1 => scores,
        _ => value,
    };
    let shape = graph.ty(scores).shape.clone();
    if shape.rank() < 2 {
        let found = format!("; `{}` is {}", graph.value(value).name, graph.ty(value));
        return Err(TrainingError::NoLogits(found));
    }
    let places: Vec<usize> = [&shape[..1], &shape[2..]].concat();
    let ty = TensorType::new(Shape::from(places), Element::I32);
    let labels = graph.add_input(name, ty, InputRole::Labels);
    if shape.rank() == 2 {
        return Ok(graph.add1(SoftmaxCrossEntropy {}, &[scores, labels], "loss")?);
    }
    let logarithms = graph.add1(LogSoftmax { axis: 1 }, &[scores], "loss/log_probabilities")?;
    let op = NllLoss { reduction: Reduction::Mean, ignore_index: -1 };
    Ok(graph.add1(op, &[logarithms, labels], "loss")?)
}

fn binary_cross_entropy(
    graph: &mut Graph,
    value: ValueId,
    name: String,
) -> Result<ValueId, TrainingError> {
    let x = match graph.producer(value).map(|node| (&node.op, node.inputs[0])) {
        Some((Op::Sigmoid(_), logits)) => logits,
        _ => value,
    };
    let targets = targets(graph, x, name);
    // log(1 + e^x) as log(e^(x - m) + e^-m) + m for m = max(x, 0): it does not overflow, and is smooth at 0.
    let most = graph.add1(Relu {}, &[x], "loss/most")?;
    let less = graph.add1(Sub {}, &[x, most], "loss/less")?;
    let power = graph.add1(Exp {}, &[less], "loss/power")?;
    let below = graph.add1(Neg {}, &[most], "loss/negative")?;
    let unit = graph.add1(Exp {}, &[below], "loss/unit")?;
    let sum = graph.add1(Add {}, &[power, unit], "loss/sum")?;
    let logarithm = graph.add1(Log {}, &[sum], "loss/logarithm")?;
    let rest = graph.add1(Add {}, &[logarithm, most], "loss/rest")?;
    let taken = graph.add1(Mul {}, &[x, targets], "loss/taken")?;
    let each = graph.add1(Sub {}, &[rest, taken], "loss/each")?;
    mean(graph, each)
}
