//! Precisions assigned to a model that has no quantizers: bits of each layer's input, weight and output.
//!
//! A precision file (TOML) says them; ranges of activations are in the file or come from calibration. [`Plan`] is what
//! a file means for a model; [`Plan::apply`] writes quantizers into the model's graph.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use trainc_ir::graph::{Definition, Graph, NodeId, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{Quant, Rounding};
use trainc_ir::{Op, Shape, Tensor, TypeError};

use super::EightBit;

/// A precision file.
#[derive(Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// How 8-bit results are made, in place of the algorithm's choice.
    pub eight_bit: Option<EightBit>,
    /// What holds for every layer unless it says otherwise. Without it only the layers that are named are quantized.
    pub default: Option<LayerPrecision>,
    /// Layers by name: the nodes of convolutions and of products with weights.
    #[serde(default)]
    pub layers: BTreeMap<String, LayerPrecision>,
}

/// The precision of a layer.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct LayerPrecision {
    /// Bits of its operand: 8, 4 or 2.
    pub input: Option<u32>,
    /// Bits of its weights.
    pub weight: Option<u32>,
    /// Bits of its result, after the bias, batch normalisation and activation that follow it.
    pub output: Option<u32>,
    /// Smallest and largest number of its operand; absent: by calibration.
    pub input_range: Option<[f32; 2]>,
    /// Smallest and largest number of its result; absent: by calibration.
    pub output_range: Option<[f32; 2]>,
    /// Whether each output channel has its own scale.
    pub weight_scale: Option<Granularity>,
}

/// What shares one scale.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// An output channel.
    #[default]
    Channel,
    /// The whole weight.
    Tensor,
}

/// Why a precision file does not fit a model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PrecisionError {
    /// It is not TOML of this form.
    #[error("{0}")]
    Syntax(String),
    /// It names a layer that the model does not have.
    #[error("the model has no layer `{name}`; its layers are {}", .layers.join(", "))]
    UnknownLayer {
        /// The name in the file.
        name: String,
        /// Names of the model's layers.
        layers: Vec<String>,
    },
    /// Something about one layer.
    #[error("layer `{layer}`: {message}")]
    Layer {
        /// The layer.
        layer: String,
        /// What is wrong.
        message: String,
    },
}

impl Precision {
    /// Reads a precision file's text.
    ///
    /// # Errors
    /// If it is not TOML of this form, or a number of bits or a range is not possible.
    pub fn parse(text: &str) -> Result<Precision, PrecisionError> {
        let parsed: Precision =
            toml::from_str(text).map_err(|e| PrecisionError::Syntax(e.to_string()))?;
        let own = parsed.default.iter().map(|p| ("default", p));
        for (name, layer) in own.chain(parsed.layers.iter().map(|(n, p)| (n.as_str(), p))) {
            layer.check(name)?;
        }
        Ok(parsed)
    }
}

impl LayerPrecision {
    fn check(&self, layer: &str) -> Result<(), PrecisionError> {
        let fail = |message: String| PrecisionError::Layer { layer: layer.to_string(), message };
        for (what, bits) in
            [("input", self.input), ("weight", self.weight), ("output", self.output)]
        {
            if let Some(bits) = bits
                && ![2, 4, 8].contains(&bits)
            {
                return Err(fail(format!("`{what}` is {bits} bits, not 8, 4 or 2")));
            }
        }
        for range in [self.input_range, self.output_range].into_iter().flatten() {
            let [low, high] = range;
            if !(low.is_finite() && high.is_finite() && low < high) {
                return Err(fail(format!("a range from {low} to {high}")));
            }
        }
        Ok(())
    }

    fn or(&self, other: &LayerPrecision) -> LayerPrecision {
        LayerPrecision {
            input: self.input.or(other.input),
            weight: self.weight.or(other.weight),
            output: self.output.or(other.output),
            input_range: self.input_range.or(other.input_range),
            output_range: self.output_range.or(other.output_range),
            weight_scale: self.weight_scale.or(other.weight_scale),
        }
    }
}

/// A quantizer of an activation.
#[derive(Clone, PartialEq, Debug)]
struct Point {
    bits: u32,
    range: Option<[f32; 2]>,
    layer: String,
}

/// Where a precision file puts quantizers in a model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Quantizers of values, for all their uses.
    values: BTreeMap<ValueId, Point>,
    /// Quantizers of operand 0 of a node alone.
    uses: BTreeMap<NodeId, Point>,
    /// Bits and granularity of operand 1 of a node.
    weights: BTreeMap<NodeId, (u32, Granularity)>,
}

/// A layer's name: that of the model's node, without what the importer adds for a bias.
fn layer_name(name: &str) -> &str {
    name.strip_suffix("/product").unwrap_or(name)
}

/// The layers of a graph: products with weights that are known.
fn layers(graph: &Graph) -> Vec<(String, NodeId)> {
    let known = known(graph);
    let is_layer = |id: &NodeId| {
        let node = graph.node(*id);
        node.op.kind().has(Property::Bilinear)
            && known.contains(&node.inputs[1])
            && !known.contains(&node.inputs[0])
    };
    graph
        .node_ids()
        .filter(is_layer)
        .map(|id| (layer_name(&graph.node(id).name).to_string(), id))
        .collect()
}

/// Values that depend on no input.
fn known(graph: &Graph) -> BTreeSet<ValueId> {
    let mut known = BTreeSet::new();
    for v in graph.value_ids() {
        let constant = match &graph.value(v).definition {
            Definition::Input(_) => false,
            Definition::Parameter(_) | Definition::Constant(_) => true,
            Definition::Result { node, .. } => {
                graph.node(*node).inputs.iter().all(|o| known.contains(o))
            }
        };
        if constant {
            known.insert(v);
        }
    }
    known
}

impl Plan {
    /// What a file means for a graph.
    ///
    /// # Errors
    /// If it names a layer that the graph does not have, or leaves out a layer's bits.
    pub fn new(graph: &Graph, file: &Precision) -> Result<Plan, PrecisionError> {
        let layers = layers(graph);
        if let Some(name) = file.layers.keys().find(|n| !layers.iter().any(|(l, _)| l == *n)) {
            let layers = layers.into_iter().map(|(name, _)| format!("`{name}`")).collect();
            return Err(PrecisionError::UnknownLayer { name: name.clone(), layers });
        }
        let known = known(graph);
        let mut users: BTreeMap<ValueId, Vec<NodeId>> = BTreeMap::new();
        let live = graph.live_nodes();
        for id in graph.node_ids().filter(|id| live[id.index()]) {
            for &v in &graph.node(id).inputs {
                users.entry(v).or_default().push(id);
            }
        }
        let outputs: BTreeSet<ValueId> = graph.outputs().iter().map(|o| o.value).collect();
        let only_user = |v: ValueId| match users.get(&v).map(Vec::as_slice) {
            Some([user]) if !outputs.contains(&v) => Some(*user),
            _ => None,
        };
        let mut plan = Plan::default();
        let mut inputs = Vec::new();
        for (name, id) in &layers {
            let own = file.layers.get(name);
            let Some(precision) = (match (own, &file.default) {
                (Some(own), Some(default)) => Some(own.or(default)),
                (own, default) => own.copied().or(*default),
            }) else {
                continue;
            };
            let missing = |what: &str| PrecisionError::Layer {
                layer: name.clone(),
                message: format!("its bits of `{what}` are not given, and there is no default"),
            };
            let input = precision.input.ok_or_else(|| missing("input"))?;
            let weight = precision.weight.ok_or_else(|| missing("weight"))?;
            plan.weights.insert(*id, (weight, precision.weight_scale.unwrap_or_default()));
            let range = precision.input_range;
            inputs.push((*id, Point { bits: input, range, layer: name.clone() }));
            let mut end = graph.node(*id).outputs[0];
            while let Some(user) = only_user(end) {
                let node = graph.node(user);
                let position = node.inputs.iter().position(|&v| v == end).unwrap_or_default();
                let others = node.inputs.iter().filter(|v| **v != end);
                if !follows(&node.op, position) || !others.copied().all(|v| known.contains(&v)) {
                    break;
                }
                end = node.outputs[0];
            }
            // The default leaves scores as they are.
            let asked = own.is_some_and(|own| own.output.is_some()) || !outputs.contains(&end);
            if let (Some(bits), true) = (precision.output, asked) {
                let range = precision.output_range;
                plan.values.insert(end, Point { bits, range, layer: name.clone() });
            }
        }
        for (id, point) in inputs {
            // Pools of maxima and reshapes keep a grid: the quantizer stands before them.
            let mut place = graph.node(id).inputs[0];
            let mut shared = only_user(place).is_some();
            let quantized =
                |plan: &Plan, v: ValueId| plan.values.get(&v).is_some_and(|p| p.bits == point.bits);
            while !plan.values.contains_key(&place)
                && let Some(node) = graph.producer(place)
                && matches!(node.op, Op::MaxPool2d(_) | Op::Reshape(_) | Op::Transpose(_))
            {
                let before = node.inputs[0];
                if !quantized(&plan, before) && only_user(before).is_none() {
                    break;
                }
                place = before;
                shared = only_user(place).is_some();
            }
            if quantized(&plan, place) {
                continue;
            }
            if shared && !plan.values.contains_key(&place) {
                plan.values.insert(place, point);
            } else {
                plan.uses.insert(id, point);
            }
        }
        Ok(plan)
    }

    /// The values whose ranges are not known, with the layers that need them.
    pub fn missing(&self, graph: &Graph) -> BTreeMap<ValueId, String> {
        let uses = self.uses.iter().map(|(id, p)| (graph.node(*id).inputs[0], p));
        self.values
            .iter()
            .map(|(v, p)| (*v, p))
            .chain(uses)
            .filter(|(_, point)| point.range.is_none())
            .map(|(v, point)| (v, point.layer.clone()))
            .collect()
    }

    /// The graph with the plan's quantizers. `ranges` are those of [`Plan::missing`]; a value without one is taken to
    /// be 0 throughout.
    ///
    /// # Errors
    /// If a quantizer does not type: a bug.
    pub fn apply(
        &self,
        graph: &Graph,
        ranges: &BTreeMap<ValueId, [f32; 2]>,
    ) -> Result<Graph, TypeError> {
        let mut fresh = Graph::new(graph.name());
        let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        let quantized = |fresh: &mut Graph, old: ValueId, v: ValueId, point: &Point, name: &str| {
            let [low, high] = point.range.or_else(|| ranges.get(&old).copied()).unwrap_or_default();
            let signed = low < 0.0;
            let bits = if signed { point.bits - 1 } else { point.bits };
            let steps = ((1u32 << bits) - 1) as f32;
            let scale = Tensor::f32(Shape::scalar(), vec![positive(low.abs().max(high) / steps)]);
            quantizer(fresh, v, scale, point.bits, signed, false, name)
        };
        for old in graph.value_ids() {
            let value = graph.value(old);
            let v = match &value.definition {
                Definition::Input(i) => {
                    fresh.add_input(&value.name, value.ty.clone(), graph.inputs()[*i].role)
                }
                Definition::Parameter(i) => {
                    let parameter = &graph.parameters()[*i];
                    let initial = parameter.initial.clone();
                    fresh.add_parameter(&value.name, initial, parameter.trainable)
                }
                Definition::Constant(tensor) => fresh.add_constant(&value.name, tensor.clone()),
                Definition::Result { slot, .. } if *slot > 0 => continue,
                Definition::Result { node: id, .. } => {
                    let node = graph.node(*id);
                    let mut operands: Vec<ValueId> = node.inputs.iter().map(|v| new[v]).collect();
                    let name = layer_name(&node.name);
                    if let Some(point) = self.uses.get(id) {
                        let name = format!("{name}/input");
                        operands[0] =
                            quantized(&mut fresh, node.inputs[0], operands[0], point, &name)?;
                    }
                    if let Some(&(bits, granularity)) = self.weights.get(id) {
                        let name = format!("{name}/weight");
                        let values = constant(graph, node.inputs[1]);
                        let by_column = matches!(&node.op, Op::MatMul(m) if !m.transpose_b);
                        let scale = weight_scale(&values, bits, granularity, by_column);
                        operands[1] =
                            quantizer(&mut fresh, operands[1], scale, bits, true, true, &name)?;
                    }
                    let results = fresh.add(node.op.clone(), &operands, &node.name)?;
                    for (&old, &result) in node.outputs.iter().zip(&results).skip(1) {
                        new.insert(old, result);
                    }
                    results[0]
                }
            };
            fresh.set_name(v, &value.name);
            let v = match self.values.get(&old) {
                Some(point) => {
                    let name = format!("{}/quantized", value.name);
                    quantized(&mut fresh, old, v, point, &name)?
                }
                None => v,
            };
            new.insert(old, v);
        }
        for output in graph.outputs() {
            fresh.add_output(&output.name, new[&output.value]);
        }
        Ok(fresh)
    }
}

/// Whether an operation may stand between a layer and the quantizer of its result, which is its operand `position`.
fn follows(op: &Op, position: usize) -> bool {
    let kind = op.kind();
    op.order(position).is_some() && !kind.has(Property::Quantizes) && !kind.has(Property::Moves)
}

fn positive(scale: f32) -> f32 {
    if scale.is_finite() && scale > 0.0 { scale } else { 1.0 }
}

fn quantizer(
    graph: &mut Graph,
    v: ValueId,
    scale: Tensor,
    bits: u32,
    signed: bool,
    narrow: bool,
    name: &str,
) -> Result<ValueId, TypeError> {
    let scale = graph.add_constant(format!("{name}/scale"), scale);
    let zero = Tensor::f32(Shape::scalar(), vec![0.0]);
    let zero = graph.add_constant(format!("{name}/zero_point"), zero);
    let op = Quant { signed, narrow, rounding: Rounding::HalfEven, bits };
    graph.add1(op, &[v, scale, zero], name)
}

/// The value of what depends on no input.
fn constant(graph: &Graph, v: ValueId) -> Tensor {
    match &graph.value(v).definition {
        Definition::Parameter(i) => graph.parameters()[*i].initial.as_ref().clone(),
        Definition::Constant(tensor) => tensor.as_ref().clone(),
        Definition::Input(_) => Tensor::zeros(graph.ty(v)),
        Definition::Result { node, slot } => {
            let node = graph.node(*node);
            let operands: Vec<Tensor> = node.inputs.iter().map(|&o| constant(graph, o)).collect();
            let operands: Vec<&Tensor> = operands.iter().collect();
            let run = trainc_ir::RunContext::default();
            node.op.evaluate(&operands, &run).swap_remove(*slot)
        }
    }
}

/// The scales of a weight: its largest magnitude is the largest integer. Output channels lie along the first axis, or
/// the last of a matrix.
fn weight_scale(values: &Tensor, bits: u32, granularity: Granularity, by_column: bool) -> Tensor {
    let largest = ((1u32 << (bits - 1)) - 1) as f32;
    let shape = values.shape();
    let axis = if by_column { shape.rank().saturating_sub(1) } else { 0 };
    let channels = match granularity {
        Granularity::Channel => shape.get(axis).copied().unwrap_or(1),
        Granularity::Tensor => 1,
    };
    let stride = shape.strides().get(axis).copied().unwrap_or(1).max(1);
    let mut most = vec![0f32; channels.max(1)];
    for (i, v) in values.as_f32().iter().enumerate() {
        let own = &mut most[i / stride % channels.max(1)];
        *own = own.max(v.abs());
    }
    let scales: Vec<f32> = most.into_iter().map(|m| positive(m / largest)).collect();
    if scales.len() == 1 {
        return Tensor::f32(Shape::scalar(), scales);
    }
    let mut dims = vec![1; shape.rank()];
    dims[axis] = scales.len();
    Tensor::f32(dims, scales)
}
