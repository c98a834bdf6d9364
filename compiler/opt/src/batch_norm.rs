//! Batch normalization with frozen statistics, folded into the convolution or matrix product before it: an FP32 pass over
//! models, so that algorithms in integers see one product with a bias.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Copied, Definition, Graph, ValueId};
use trainc_ir::ops::{Add, BatchNorm, Op, Reshape, TypeError};
use trainc_ir::{Shape, Tensor};

/// What became of one batch normalization.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchNormFate {
    /// The model's node.
    pub node: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a batch normalization.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It trains: normalizes by the batch and keeps running statistics.
    Trains,
    /// Folded into the product of that node: `w k` and `bias + (b - mean) k`, `k = scale / sqrt(variance + epsilon)`.
    Folded {
        /// The product's node.
        into: String,
    },
    /// It normalizes by its running statistics, which stay as they are; why it is not folded.
    Frozen {
        /// Why.
        because: &'static str,
    },
    /// Its running statistics stay as they are, and with the signs behind it it is a comparison of integer sums.
    Threshold,
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fate::Trains => f.write_str("trains, with running statistics"),
            Fate::Folded { into } => write!(f, "folded into `{into}` (frozen statistics)"),
            Fate::Threshold => f.write_str("frozen statistics, a threshold of integer sums"),
            Fate::Frozen { because } => write!(f, "frozen statistics, not folded: {because}"),
        }
    }
}

/// One batch normalization that can be folded.
struct Fold {
    /// The product's weight, and the axis of its results.
    weight: ValueId,
    /// The product's value, before any bias.
    product: ValueId,
    /// Scale of each result channel.
    factor: Vec<f64>,
    /// What is added to each result channel, the product's own bias folded.
    offset: Vec<f64>,
    /// The normalization's own bias leaf, which names and holds the folded one.
    name: String,
    trainable: bool,
}

/// Folds each batch normalization with frozen statistics into the convolution or matrix product whose result, or whose
/// result plus a bias, it alone uses, where all parameters are known before the first step. Arithmetic is in f64, rounded
/// once. The folded bias takes the name of the normalization's.
///
/// Those that normalize by the batch stay. Gives what became of each, in the model's order.
///
/// # Errors
/// If the new graph does not type, which would be a bug.
pub fn fold_batch_norms(model: &Graph) -> Result<(Graph, Vec<BatchNormFate>), TypeError> {
    let uses = uses(model);
    let mut fates = Vec::new();
    let mut folds: BTreeMap<ValueId, Fold> = BTreeMap::new();
    for node in model.nodes() {
        let Op::BatchNorm(norm) = &node.op else { continue };
        let fate = if norm.batch {
            Fate::Trains
        } else {
            match fold(model, &uses, norm, &node.inputs) {
                Ok(found) => {
                    let into = model.producer(found.product).map(|n| n.name.clone());
                    folds.insert(node.outputs[0], found);
                    Fate::Folded { into: into.unwrap_or_default() }
                }
                Err(because) => Fate::Frozen { because },
            }
        };
        fates.push(BatchNormFate { node: node.name.clone(), fate });
    }
    let graph = if folds.is_empty() { model.clone() } else { rebuilt(model, &folds)? };
    Ok((graph, fates))
}

fn uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.values().len()];
    let used = graph.nodes().iter().flat_map(|n| &n.inputs).copied().chain(graph.roots());
    used.for_each(|v| uses[v.index()] += 1);
    uses
}

/// The initial value of a parameter or constant.
fn known(graph: &Graph, v: ValueId) -> Option<&Arc<Tensor>> {
    match &graph.value(v).definition {
        Definition::Parameter(i) => Some(&graph.parameters()[*i].initial),
        Definition::Constant(tensor) => Some(tensor),
        _ => None,
    }
}

/// A leaf behind reshapes, each used once.
fn leaf(graph: &Graph, uses: &[usize], mut v: ValueId) -> Option<ValueId> {
    while let Some(node) = graph.producer(v) {
        if !matches!(node.op, Op::Reshape(_)) || uses[v.index()] != 1 {
            return None;
        }
        v = node.inputs[0];
    }
    (known(graph, v).is_some() && uses[v.index()] == 1).then_some(v)
}

fn fold(
    graph: &Graph,
    uses: &[usize],
    norm: &BatchNorm,
    operands: &[ValueId],
) -> Result<Fold, &'static str> {
    let [x, parameters @ ..] = operands else { return Err("it has no operand") };
    let mut values = Vec::new();
    for &v in parameters {
        values.push(known(graph, v).ok_or("its parameters are computed")?.as_f32());
    }
    let [scale, bias, mean, variance] = values[..] else { return Err("it has other operands") };
    let alone = |v: ValueId| uses[v.index()] == 1;
    let mut product = *x;
    let mut own_bias = None;
    if !alone(product) {
        return Err("its operand is used elsewhere, too");
    }
    if let Some(node) = graph.producer(product)
        && matches!(node.op, Op::Add(_))
    {
        let found = [0, 1].into_iter().find_map(|i| {
            let leaf = leaf(graph, uses, node.inputs[i])?;
            let other = node.inputs[1 - i];
            is_product(graph, other).then_some((other, leaf))
        });
        let (other, leaf) = found.ok_or("it does not follow a convolution or matrix product")?;
        if !alone(other) {
            return Err("the product before it is used elsewhere, too");
        }
        (product, own_bias) = (other, Some(leaf));
    }
    let node = graph.producer(product).ok_or("it follows an input")?;
    let weight = match &node.op {
        Op::Conv2d(_) => node.inputs[1],
        _ => return Err("it does not follow a convolution"),
    };
    if known(graph, weight).is_none() || !alone(weight) {
        return Err("the weight before it is shared or computed");
    }
    let channels = scale.len();
    let previous = match own_bias {
        Some(leaf) => {
            let values = known(graph, leaf).map(|t| t.as_f32()).unwrap_or_default();
            if values.len() != channels {
                return Err("the bias before it is not one number a channel");
            }
            values.to_vec()
        }
        None => vec![0.0; channels],
    };
    let epsilon = f64::from(norm.epsilon.get());
    let factor: Vec<f64> = (0..channels)
        .map(|c| f64::from(scale[c]) / (f64::from(variance[c]) + epsilon).sqrt())
        .collect();
    let offset: Vec<f64> = (0..channels)
        .map(|c| f64::from(bias[c]) + (f64::from(previous[c]) - f64::from(mean[c])) * factor[c])
        .collect();
    if factor.iter().chain(&offset).any(|x| !x.is_finite()) {
        return Err("its statistics are no finite numbers");
    }
    let trainable = |v: ValueId| match &graph.value(v).definition {
        Definition::Parameter(i) => graph.parameters()[*i].trainable,
        _ => false,
    };
    Ok(Fold {
        weight,
        product,
        factor,
        offset,
        name: graph.value(parameters[1]).name.clone(),
        trainable: trainable(parameters[1]) || own_bias.is_some_and(trainable),
    })
}

fn is_product(graph: &Graph, v: ValueId) -> bool {
    graph.producer(v).is_some_and(|n| matches!(n.op, Op::Conv2d(_) | Op::MatMul(_)))
}

/// The weight times each result channel's factor.
fn scaled(weight: &Tensor, factor: &[f64]) -> Tensor {
    let run = weight.shape().count() / factor.len().max(1);
    let values = weight.as_f32().iter().enumerate();
    let data = values.map(|(i, &w)| (f64::from(w) * factor[i / run.max(1)]) as f32).collect();
    Tensor::f32(weight.shape().clone(), data)
}

fn rebuilt(model: &Graph, folds: &BTreeMap<ValueId, Fold>) -> Result<Graph, TypeError> {
    let weights: BTreeMap<ValueId, &Fold> = folds.values().map(|f| (f.weight, f)).collect();
    let mut result = Graph::new(model.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    model.copy_changed(&mut result, &mut new, |result, new, v| {
        let value = model.value(v);
        if let Some(fold) = folds.get(&v) {
            let name = model.producer(v).map_or(&value.name, |node| &node.name);
            return with_bias(result, fold, new[&fold.product], name).map(Copied::As);
        }
        let Some(fold) = weights.get(&v) else { return Ok(Copied::AsItIs) };
        let scaled = |tensor: &Tensor| scaled(tensor, &fold.factor);
        Ok(match &value.definition {
            Definition::Parameter(i) => {
                let p = &model.parameters()[*i];
                let initial = scaled(&p.initial);
                Copied::As(result.add_parameter(&value.name, initial, p.trainable))
            }
            Definition::Constant(w) => Copied::As(result.add_constant(&value.name, scaled(w))),
            _ => Copied::AsItIs,
        })
    })?;
    model.copy_roots(&mut result, &new);
    without_unused(&result)
}

/// The product plus the folded bias.
fn with_bias(
    graph: &mut Graph,
    fold: &Fold,
    product: ValueId,
    name: &str,
) -> Result<ValueId, TypeError> {
    let channels = fold.offset.len();
    let data = fold.offset.iter().map(|&x| x as f32).collect();
    let tensor = Tensor::f32([channels], data);
    // The folded parameters are left out below, so the name is free.
    let bias = match fold.trainable {
        true => graph.add_parameter(&fold.name, tensor, true),
        false => graph.add_constant(&fold.name, tensor),
    };
    let mut shape = vec![1; graph.ty(product).shape.rank()];
    shape[1] = channels;
    let op = Reshape { shape: Shape::from(shape) };
    let bias = graph.add1(op, &[bias], name)?;
    graph.add1(Add {}, &[product, bias], name)
}

/// The graph without nodes, parameters and constants that no output or update needs, as after folding.
fn without_unused(graph: &Graph) -> Result<Graph, TypeError> {
    let needed = graph.needed(graph.roots());
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let input = |v: ValueId| matches!(graph.value(v).definition, Definition::Input(_));
    graph.copy_into(&mut result, &mut new, |v| needed.contains(&v) || input(v))?;
    graph.copy_roots(&mut result, &new);
    Ok(result)
}
