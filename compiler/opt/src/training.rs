//! From a model's graph to its training graph: loss, backward pass, update, still with FP32 meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::{Add, LogSoftmax, Mul, Op, ReduceMean, SoftmaxCrossEntropy};
use trainc_ir::types::{Element, TensorType};
use trainc_ir::{Tensor, TypeError};

use crate::algorithm::optimizer::{Optimizer, RATE};
use crate::algorithm::widths::Widths;
use crate::algorithm::{Algorithm, Master, Recipe};
use crate::autodiff::{AutodiffError, differentiate_recorded};
use crate::codes::grid;
use crate::dynamic::COST;
use crate::roles::{Role, Roles};
use crate::translate::stored_form;
use crate::update::{MASTER, Trained, Updates, clip_factor};
use crate::widths::add_sensitivities;

/// Name of the output that holds the loss.
pub const LOSS: &str = "loss";
/// Name of the input that holds the class labels, where the model brings none.
pub const LABELS: &str = "labels";
/// Name of the input that holds the step size.
pub const LEARNING_RATE: &str = "learning_rate";

/// Why a model cannot be trained.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrainingError {
    /// No output that could be class scores.
    #[error("the model has no output of shape [batch, classes] to put a loss on{0}")]
    NoLogits(String),
    /// Nothing to train.
    #[error("the model has no trainable parameter")]
    NoParameters,
    /// A node stands in the way.
    #[error(transparent)]
    Autodiff(#[from] AutodiffError),
    /// The loss does not type.
    #[error("the loss: {0}")]
    Loss(#[from] TypeError),
    /// A loss that is the model's own.
    #[error("label-smoothing: the model brings its own loss; smooth its labels there")]
    OwnLoss,
    /// A formula of the optimizer does not type.
    #[error("the optimizer's update of `{parameter}`: {error}")]
    Update {
        /// The parameter.
        parameter: String,
        /// Why.
        error: TypeError,
    },
    /// A loss is asked of an output that there is not.
    #[error("output-loss: the model has no FP32 output `{name}`; there are {known}")]
    Output {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The model has an input that is called as one of the algorithm.
    #[error(
        "the model has an input `{name}`, as an input of the algorithm is called: rename one of them"
    )]
    Input {
        /// Its name.
        name: String,
    },
    /// The built-in optimizer is broken: a bug.
    #[error(transparent)]
    Optimizer(#[from] crate::algorithm::AlgorithmError),
}

/// Where the loss of a training graph comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSource {
    /// A scalar of the model.
    Model(ValueId),
    /// The mean softmax cross-entropy of these class scores [batch, classes] with the model's labels, or an input
    /// [`LABELS`] if it has none (with a number after it if the model has another input of that name).
    Scores(ValueId),
}

/// The training graph of a model: its outputs, the output [`LOSS`], and one update for each trainable parameter that
/// the loss depends on.
///
/// Where no loss is named the scores are the model's first output [batch, classes]; a final softmax or log-softmax is
/// then taken as part of the loss. Gradient descent with a run-time [`LEARNING_RATE`] updates the parameters; updates that
/// the model brings (running statistics) stay.
///
/// # Errors
/// See [`TrainingError`].
pub fn training_graph(model: &Graph, loss: Option<LossSource>) -> Result<Graph, TrainingError> {
    let recipe = (&Recipe::default(), 1.0);
    build(model, loss, (&Optimizer::built_in("sgd")?, None), recipe, |_| false)
}

/// [`training_graph`] with the optimizer of an algorithm. What it keeps are parameters of their own, that do not train:
/// `WEIGHT.STATE` of a weight, `optimizer.STATE` of the step. Where the algorithm has master weights, the optimizer works on
/// `WEIGHT.master`, and the weight's new value is that one's.
///
/// # Errors
/// See [`TrainingError`].
pub fn training_graph_under(
    model: &Graph,
    loss: Option<LossSource>,
    algorithm: &Algorithm,
) -> Result<Graph, TrainingError> {
    let master =
        |role| algorithm.master == Some(Master::F32) && stored_form(algorithm, role).is_some();
    let recipe = (&algorithm.recipe, algorithm.loss_scale);
    let optimizer = (&algorithm.optimizer, algorithm.widths.as_ref());
    build(model, loss, optimizer, recipe, master)
}

fn build(
    model: &Graph,
    loss: Option<LossSource>,
    (optimizer, widths): (&Optimizer, Option<&Widths>),
    (recipe, scale): (&Recipe, f64),
    master: impl Fn(Option<Role>) -> bool,
) -> Result<Graph, TrainingError> {
    let mut graph = model.clone();
    let source = match loss {
        Some(source) => source,
        None => LossSource::Scores(logits(&graph)?),
    };
    let loss = match source {
        LossSource::Model(_) if recipe.label_smoothing > 0.0 => {
            return Err(TrainingError::OwnLoss);
        }
        LossSource::Model(loss) => loss,
        LossSource::Scores(logits) => {
            let batch = graph.ty(logits).shape[0];
            let ty = TensorType::new([batch], Element::I32);
            let labels = match graph.input_of_role(InputRole::Labels) {
                Some(labels) => labels,
                None => {
                    let name = free_input(&graph, LABELS);
                    graph.add_input(name, ty, InputRole::Labels)
                }
            };
            let plain = graph.add1(SoftmaxCrossEntropy {}, &[logits, labels], LOSS)?;
            match recipe.label_smoothing {
                0.0 => plain,
                share => smoothed(&mut graph, logits, plain, share)?,
            }
        }
    };
    // The term of cost that gates bring.
    let cost = graph.outputs().iter().find(|o| o.name == COST).map(|o| o.value);
    let loss = match cost {
        Some(cost) => graph.add1(Add {}, &[loss, cost], LOSS)?,
        None => loss,
    };
    if !graph.outputs().iter().any(|o| o.value == loss) {
        graph.add_output(LOSS, loss);
    }
    let trainable: Vec<(usize, ValueId)> = graph
        .parameters()
        .iter()
        .enumerate()
        .filter(|(_, p)| p.trainable)
        .map(|(i, p)| (i, p.value))
        .collect();
    if trainable.is_empty() {
        return Err(TrainingError::NoParameters);
    }
    let values: Vec<ValueId> = trainable.iter().map(|(_, v)| *v).collect();
    let roles = Roles::of(&graph);
    let all = differentiate_recorded(&mut graph, loss, scale as f32, &values)?;
    let gradients: Vec<Option<ValueId>> = values.iter().map(|v| all[v.index()]).collect();
    if widths.is_some() {
        add_sensitivities(&mut graph, &roles, &all)?;
    }
    let scalar = TensorType::f32(trainc_ir::Shape::scalar());
    let name = free_input(&graph, LEARNING_RATE);
    let learning_rate = graph.add_input(name, scalar.clone(), InputRole::LearningRate);
    let mut inputs = BTreeMap::from([(RATE, learning_rate)]);
    for name in optimizer.inputs.keys() {
        if free_input(&graph, name) != *name {
            return Err(TrainingError::Input { name: name.clone() });
        }
        inputs.insert(name, graph.add_input(name, scalar.clone(), InputRole::Scheduled));
    }
    let factor = match recipe.clip_norm {
        Some(norm) => {
            let gradients: Vec<ValueId> = gradients.iter().flatten().copied().collect();
            Some(clip_factor(&mut graph, &gradients, norm * scale)?)
        }
        None => None,
    };
    let largest = recipe.clip_value;
    let mut updates = Updates::new(optimizer, inputs);
    for ((parameter, value), gradient) in trainable.into_iter().zip(gradients) {
        let Some(gradient) = gradient else { continue };
        let (role, layers) = (roles.role(value), roles.layer(value));
        let own = graph.value(value).name.clone();
        let added = optimizer.added_as(&own);
        let failed = |error| TrainingError::Update { parameter: own.clone(), error };
        let kept = master(role).then(|| format!("{own}{MASTER}"));
        let kept = match kept {
            Some(name) if graph.parameter_named(&name).is_some() => {
                let message = format!(
                    "the model has a parameter `{name}`, as its master weight would be called"
                );
                return Err(failed(TypeError::new(message)));
            }
            Some(name) => {
                let initial = Arc::clone(&graph.parameters()[parameter].initial);
                let value = graph.add_parameter(name, initial, false);
                Some((graph.parameters().len() - 1, value))
            }
            None => None,
        };
        let weight = kept.map_or(value, |(_, master)| master);
        let grid = grid(&graph, value);
        let trained = Trained {
            parameter,
            weight,
            gradient,
            scale,
            role,
            layers,
            added,
            largest,
            factor,
            grid,
        };
        let updated = updates.add(&mut graph, &trained).map_err(failed)?;
        graph.add_update(parameter, updated);
        if let Some((master, _)) = kept {
            graph.add_update(master, updated);
        }
    }
    Ok(graph)
}

/// A loss with smoothed labels: `(1 - share) loss - share mean(log softmax)`, the mean over all scores of the batch.
fn smoothed(
    graph: &mut Graph,
    logits: ValueId,
    loss: ValueId,
    share: f64,
) -> Result<ValueId, TypeError> {
    let name = format!("{LOSS}/smoothing");
    let scalar = |graph: &mut Graph, value: f64| {
        let tensor = Tensor::f32([], vec![value as f32]);
        graph.add_constant(format!("{LOSS}/share"), Arc::new(tensor))
    };
    let likelihoods = graph.add1(LogSoftmax { axis: 1 }, &[logits], name.clone())?;
    let mean = ReduceMean { axes: vec![0, 1], keep_dims: false };
    let mean = graph.add1(mean, &[likelihoods], name.clone())?;
    let (own, all) = (scalar(graph, 1.0 - share), scalar(graph, -share));
    let loss = graph.add1(Mul {}, &[loss, own], name.clone())?;
    let mean = graph.add1(Mul {}, &[mean, all], name)?;
    graph.add1(Add {}, &[loss, mean], LOSS)
}

/// The name of an input that is added, with a number where the model has it for another.
fn free_input(graph: &Graph, name: &str) -> String {
    let taken = |name: &str| graph.inputs().iter().any(|i| graph.value(i.value).name == name);
    let mut all = std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}_{n}")));
    all.find(|name| !taken(name)).unwrap_or_default()
}

/// The class scores before a softmax: the first rank-2 FP32 output, looked through a final softmax or log-softmax.
pub fn logits(graph: &Graph) -> Result<ValueId, TrainingError> {
    let found: Vec<String> =
        graph.outputs().iter().map(|o| format!("`{}` {}", o.name, graph.ty(o.value))).collect();
    let output = graph
        .outputs()
        .iter()
        .map(|o| o.value)
        .find(|&v| graph.ty(v).is_f32() && graph.ty(v).shape.rank() == 2)
        .ok_or_else(|| TrainingError::NoLogits(format!(
            "; it has {}; `--loss` puts another on every output: mse, bce, or cross-entropy at each position",
            found.join(", ")
        )))?;
    Ok(match graph.producer(output) {
        Some(node) if is_final_softmax(&node.op) => node.inputs[0],
        _ => output,
    })
}

fn is_final_softmax(op: &Op) -> bool {
    match op {
        Op::Softmax(softmax) => softmax.axis == 1,
        Op::LogSoftmax(softmax) => softmax.axis == 1,
        _ => false,
    }
}
