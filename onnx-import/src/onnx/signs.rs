//! Signs that are meant as bits, as PyTorch users write them: `torch.sign` (in a function with a gradient of its own, or in a detached
//! difference, `y + (sign(x) - y).detach()`), `torch.where(x >= 0, 1, -1)`, `(x >= 0) * 2 - 1`, and weights that the exporter has
//! brought to one magnitude, or one for each feature where it has folded batch normalization. A file has no gradients: in front of convolutions and matrix products these become what QONNX says
//! of such networks, `BipolarQuant`.
//!
//! A bit has no zero: where the file's sign of 0 is not 1, the operand must be one that is seldom exactly 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::known::Known;
use crate::proto::{GraphProto, NodeProto};

/// How far a value is followed through nodes that leave it as it is.
const FAR: usize = 16;
/// How many values before one are looked at.
const LOOKS: usize = 64;
/// Fewer weights of a feature may have one magnitude by chance.
const FEW: usize = 4;
const DOMAIN: &str = "qonnx.custom_op.general";

/// What became of a model's signs: names of the values that they give.
#[derive(Clone, Default, Debug)]
pub(crate) struct Signs {
    /// Those that became binary quantizers.
    pub(crate) binary: Vec<String>,
    /// Those among them whose 0 counted otherwise in the file.
    pub(crate) zeros: Vec<String>,
    /// Those that stay FP32 operations, each with what its operand comes from.
    pub(crate) left: Vec<(String, String)>,
}

impl Signs {
    /// What to say of them, of a model that is to be trained or not.
    pub(crate) fn warnings(&self, training: bool) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(first) = self.binary.first()
            && training
        {
            all.push(format!(
                "{} sign(s) in front of convolutions and matrix products, the first `{first}`, are trained as binary \
                 quantizers: errors pass them straight where the operand is within -1 and 1 (--algorithm fp32 trains such a \
                 network as it is, --algorithm quantized deploys it)",
                self.binary.len()
            ));
        }
        if let Some(first) = self.zeros.first() {
            all.push(format!(
                "{} sign(s) in front of convolutions and matrix products, the first `{first}`, are bits here: an \
                 operand of exactly 0 counts as 1, where the file says otherwise; write torch.where(x >= 0, 1.0, \
                 -1.0) to say so in the model",
                self.zeros.len()
            ));
        }
        for (name, source) in &self.left {
            all.push(format!(
                "`{name}` stays the sign of FP32 numbers, with no gradient: its operand comes from {source} and may \
                 often be exactly 0, whose sign no bit holds; torch.where(x >= 0, 1.0, -1.0) in the model says what \
                 zeros become"
            ));
        }
        all
    }
}

/// The sign of a value, as some nodes compute it.
struct Sign {
    source: String,
    /// The magnitude of the result.
    scale: f32,
    /// Whether the sign of 0 is that of positive numbers.
    exact: bool,
}

/// Puts binary quantizers in place of signs, where products take them.
pub(crate) fn binarize(
    graph: &mut GraphProto,
    tensors: &mut Vec<(String, Option<Arc<Known>>)>,
) -> Signs {
    let mut found = Signs::default();
    let mut scales = Vec::new();
    let mut changes: Vec<(usize, NodeProto)> = Vec::new();
    let mut weights: BTreeMap<usize, NodeProto> = BTreeMap::new();
    {
        let model = Model::new(graph, tensors);
        let mut quantizer = |name: &str, source: &str, result: &str, scale: Known| {
            let operand = model.unused(&format!("{result}/scale"));
            scales.push((operand.clone(), scale));
            let mut node = NodeProto::new("BipolarQuant", name, &[source, &operand], &[result]);
            node.domain = DOMAIN.into();
            node
        };
        for (index, node) in graph.node.iter().enumerate() {
            let Some(result) = node.output.first() else { continue };
            if let Some(sign) = model.sign(node)
                && model.feeds_products(result)
            {
                if !sign.exact
                    && let Err(source) = model.seldom_zero(&sign.source, &mut { LOOKS })
                {
                    found.left.push((result.clone(), source));
                    continue;
                }
                if !sign.exact && !model.tensors.contains_key(sign.source.as_str()) {
                    found.zeros.push(result.clone());
                }
                found.binary.push(result.clone());
                let scale = Known::f32(Vec::new(), vec![sign.scale]);
                changes.push((index, quantizer(&node.name, &sign.source, result, scale)));
            }
            // Weights of one magnitude, beside signs.
            if let Some([data, weight]) = model.product(node)
                && model.is_sign(data, FAR)
                && let Some(scale) = model.magnitudes(node, weight)
            {
                let result = model.unused(&format!("{weight}/sign"));
                weights.insert(index, quantizer(&result, weight, &result, scale));
                found.binary.push(weight.to_string());
            }
        }
    }
    for (index, node) in changes {
        graph.node[index] = node;
    }
    for (index, node) in weights.into_iter().rev() {
        let result = node.output[0].clone();
        if let Some(operand) = graph.node[index].input.get_mut(1) {
            *operand = result;
        }
        graph.node.insert(index, node);
    }
    tensors.extend(scales.into_iter().map(|(name, scale)| (name, Some(Arc::new(scale)))));
    found
}

/// A model's nodes by what they give and take.
struct Model<'g> {
    nodes: &'g [NodeProto],
    producers: BTreeMap<&'g str, &'g NodeProto>,
    /// Nodes with the position among their operands.
    consumers: BTreeMap<&'g str, Vec<(&'g NodeProto, usize)>>,
    tensors: BTreeMap<&'g str, &'g Known>,
    outputs: BTreeSet<&'g str>,
}

impl<'g> Model<'g> {
    fn new(graph: &'g GraphProto, tensors: &'g [(String, Option<Arc<Known>>)]) -> Model<'g> {
        let (mut producers, mut consumers) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for node in &graph.node {
            producers.extend(node.output.iter().map(|name| (name.as_str(), node)));
            for (position, name) in node.input.iter().enumerate() {
                consumers.entry(name.as_str()).or_default().push((node, position));
            }
        }
        let known = |(name, known): &'g (String, Option<Arc<Known>>)| {
            Some((name.as_str(), known.as_deref()?))
        };
        Model {
            nodes: &graph.node,
            producers,
            consumers,
            tensors: tensors.iter().filter_map(known).collect(),
            outputs: graph.output.iter().map(|o| o.name.as_str()).collect(),
        }
    }

    /// A name that nothing has.
    fn unused(&self, wanted: &str) -> String {
        let taken = |name: &str| {
            self.producers.contains_key(name)
                || self.consumers.contains_key(name)
                || self.tensors.contains_key(name)
        };
        let numbered = (1..=self.nodes.len() + 1).map(|n| format!("{wanted}_{n}"));
        let mut names = std::iter::once(wanted.to_string()).chain(numbered);
        names.find(|name| !taken(name)).unwrap_or_else(|| wanted.to_string())
    }

    fn producer(&self, name: &str) -> Option<&'g NodeProto> {
        self.producers.get(name).copied().filter(|node| is_own(node))
    }

    /// The number that all elements of a value are.
    fn number(&self, name: &str, far: usize) -> Option<f32> {
        let one = |known: &Known| {
            let all = known.to_f32()?;
            all.first().copied().filter(|first| all.iter().all(|x| x == first))
        };
        if let Some(known) = self.tensors.get(name) {
            return one(known);
        }
        let node = self.producer(name).filter(|_| far > 0)?;
        let attribute = |name: &str| node.attribute.iter().find(|a| a.name == name);
        match node.op_type.as_str() {
            "Constant" => match value(node) {
                Some(known) => one(&known),
                None => attribute("value_float")?.f,
            },
            "ConstantOfShape" if attribute("value").is_none() => Some(0.0),
            "ConstantOfShape" => one(&value(node)?),
            "Neg" => self.number(node.input.first()?, far - 1).map(|x| -x),
            "Identity" | "Expand" | "Cast" | "CastLike" | "Reshape" => {
                self.number(node.input.first()?, far - 1)
            }
            _ => None,
        }
    }

    fn is(&self, name: &str, number: f32) -> bool {
        self.number(name, FAR) == Some(number)
    }

    /// The magnitudes of weights, if each feature has one and there are positive and negative ones: one number, or one for each feature.
    fn magnitudes(&self, product: &NodeProto, weight: &str) -> Option<Known> {
        let constant = match self.tensors.contains_key(weight) {
            true => None,
            false => value(self.producer(weight).filter(|n| n.op_type == "Constant")?),
        };
        let known = constant.as_ref().or_else(|| self.tensors.get(weight).copied())?;
        let all = known.to_f32()?;
        let turned = product.attribute.iter().any(|a| a.name == "transB" && a.i == Some(1));
        let first = product.op_type == "Conv" || turned;
        let axis = if first { 0 } else { known.dims.len().checked_sub(1)? };
        let features = *known.dims.get(axis)?;
        let after: usize = known.dims[axis + 1..].iter().product();
        if features == 0 || all.len() / features < FEW {
            return None;
        }
        let mut magnitudes: Vec<f32> = (0..features).map(|f| all[f * after].abs()).collect();
        let one = |(at, w): (usize, &f32)| w.abs() == magnitudes[at / after % features];
        let finite = magnitudes.iter().all(|m| *m > 0.0 && m.is_finite());
        let both = all.iter().any(|w| *w > 0.0) && all.iter().any(|w| *w < 0.0);
        if !(finite && both && all.iter().enumerate().all(one)) {
            return None;
        }
        let mut dims = vec![1; known.dims.len()];
        dims[axis] = features;
        if magnitudes.iter().all(|m| *m == magnitudes[0]) {
            dims.clear();
            magnitudes.truncate(1);
        }
        Some(Known::f32(dims, magnitudes))
    }

    /// A comparison with 0, as what is compared, whether it holds of positive numbers, and whether 0 is with these.
    fn comparison(&self, name: &str, far: usize) -> Option<(&'g str, bool, bool)> {
        let node = self.producer(name).filter(|_| far > 0)?;
        if node.op_type == "Not" {
            let (x, positive, exact) = self.comparison(node.input.first()?, far - 1)?;
            return Some((x, !positive, exact));
        }
        let [a, b] = &node.input[..] else { return None };
        let (x, turned) = match (self.is(a, 0.0), self.is(b, 0.0)) {
            (false, true) => (a, false),
            (true, false) => (b, true),
            _ => return None,
        };
        // Whether larger numbers fulfil it, and whether 0 does.
        let (larger, zero) = match node.op_type.as_str() {
            "GreaterOrEqual" => (true, true),
            "Greater" => (true, false),
            "LessOrEqual" => (false, true),
            "Less" => (false, false),
            _ => return None,
        };
        let positive = larger != turned;
        Some((x, positive, positive == zero))
    }

    /// What a node computes, if that is a sign.
    fn sign(&self, node: &'g NodeProto) -> Option<Sign> {
        if !is_own(node) {
            return None;
        }
        let input = |i: usize| node.input.get(i).map(String::as_str);
        match node.op_type.as_str() {
            "Sign" => Some(Sign { source: input(0)?.into(), scale: 1.0, exact: false }),
            "Where" => {
                let (x, positive, exact) = self.comparison(input(0)?, FAR)?;
                let [yes, no] = [self.number(input(1)?, FAR)?, self.number(input(2)?, FAR)?];
                let scale = if positive { yes } else { no };
                let whole = scale > 0.0 && scale.is_finite() && yes == -no;
                whole.then(|| Sign { source: x.into(), scale, exact })
            }
            "Add" | "Sub" => self.difference(node).or_else(|| self.detached(node)),
            _ => None,
        }
    }

    /// `(x >= 0) * 2 - 1`.
    fn difference(&self, node: &'g NodeProto) -> Option<Sign> {
        let [product, one] = &node.input[..] else { return None };
        let one = self.number(one, FAR)?;
        let scale = if node.op_type == "Sub" { one } else { -one };
        let product = self.producer(product).filter(|n| n.op_type == "Mul")?;
        let [a, b] = &product.input[..] else { return None };
        let truth = match (self.is(a, 2.0 * scale), self.is(b, 2.0 * scale)) {
            (false, true) => a,
            (true, false) => b,
            _ => return None,
        };
        let cast = self.producer(truth).filter(|n| n.op_type == "Cast")?;
        let (x, positive, exact) = self.comparison(cast.input.first()?, FAR)?;
        let whole = positive && scale > 0.0 && scale.is_finite();
        whole.then(|| Sign { source: x.into(), scale, exact })
    }

    /// `y + (sign(x) - y)`, where `y` is `x` or what lies of it between bounds.
    fn detached(&self, node: &'g NodeProto) -> Option<Sign> {
        let [a, b] = &node.input[..] else { return None };
        let of = |y: &'g str, difference: &'g str| {
            let difference = self.producer(difference).filter(|n| n.op_type == "Sub")?;
            let [sign, minus] = &difference.input[..] else { return None };
            let sign = self.sign(self.producer(sign).filter(|n| n.op_type != "Add")?)?;
            let bounded = |name: &str| {
                let clip =
                    self.producer(name).filter(|n| matches!(&*n.op_type, "Clip" | "HardTanh"));
                clip.and_then(|n| n.input.first()).is_some_and(|x| *x == sign.source)
            };
            (minus == y && (sign.source == y || bounded(y))).then_some(sign)
        };
        (node.op_type == "Add").then(|| of(a, b).or_else(|| of(b, a)))?
    }

    /// Data and weight of a product.
    fn product(&self, node: &'g NodeProto) -> Option<[&'g str; 2]> {
        let known = is_own(node) && matches!(&*node.op_type, "Conv" | "Gemm" | "MatMul");
        known.then(|| Some([node.input.first()?.as_str(), node.input.get(1)?.as_str()]))?
    }

    /// Whether products take a value, moved or pooled at most, and nothing else does.
    fn feeds_products(&self, name: &'g str) -> bool {
        let (mut seen, mut left) = (BTreeSet::from([name]), vec![name]);
        while let Some(name) = left.pop() {
            let consumers = self.consumers.get(name).map(Vec::as_slice).unwrap_or_default();
            if consumers.is_empty() || self.outputs.contains(name) {
                return false;
            }
            for &(node, position) in consumers {
                let product =
                    matches!(&*node.op_type, "Conv" | "ConvTranspose" | "Gemm" | "MatMul");
                let moved = node.output.first().filter(|_| moves(node, position));
                match moved {
                    _ if !is_own(node) => return false,
                    _ if product && position < 2 => {}
                    Some(result) if seen.insert(result) => left.push(result),
                    Some(_) => {}
                    None => return false,
                }
            }
        }
        true
    }

    /// Whether a value holds signs, moved or pooled at most.
    fn is_sign(&self, name: &str, far: usize) -> bool {
        let Some(node) = self.producers.get(name).filter(|_| far > 0) else { return false };
        let sign = node.op_type == "BipolarQuant" || self.sign(node).is_some();
        sign || is_own(node)
            && moves(node, 0)
            && node.input.first().is_some_and(|x| self.is_sign(x, far - 1))
    }

    /// Whether a value is seldom exactly 0; what it comes from, where it may be so or `looks` at values do not tell.
    fn seldom_zero(&self, name: &str, looks: &mut usize) -> Result<(), String> {
        if let Some(known) = self.tensors.get(name) {
            let some = known.to_f32().is_none_or(|all| all.contains(&0.0));
            return if some { Err(format!("`{name}`, which has zeros")) } else { Ok(()) };
        }
        let Some(node) = self.producer(name).filter(|_| *looks > 0) else {
            return Err(format!("`{name}`"));
        };
        *looks -= 1;
        let may = || Err(format!("{} (`{name}`)", node.op_type));
        let mut behind = |position: usize| match node.input.get(position) {
            Some(operand) => self.seldom_zero(operand, looks),
            None => may(),
        };
        match node.op_type.as_str() {
            "BatchNormalization"
            | "InstanceNormalization"
            | "LayerNormalization"
            | "GroupNormalization" => Ok(()),
            // Sums of signs are whole multiples of one number: every second may be 0.
            "Conv" | "Gemm" | "MatMul" => match self.product(node) {
                Some([x, w]) if self.is_sign(x, FAR) && self.holds_signs(node, w) => {
                    match node.input.get(2) {
                        Some(bias) => self.fractions(bias).then_some(()).map_or_else(may, Ok),
                        None => may(),
                    }
                }
                _ => Ok(()),
            },
            "Clip" | "HardTanh" => {
                let bound = |i: usize| node.input.get(i).and_then(|name| self.number(name, FAR));
                let attribute = |name: &str| node.attribute.iter().find(|a| a.name == name)?.f;
                let low = bound(1).or(attribute("min")).unwrap_or(f32::MIN);
                let high = bound(2).or(attribute("max")).unwrap_or(f32::MAX);
                if low < 0.0 && high > 0.0 { behind(0) } else { may() }
            }
            "Identity" | "Reshape" | "Flatten" | "Transpose" | "Squeeze" | "Unsqueeze" | "Tanh"
            | "LeakyRelu" | "PRelu" | "MaxPool" | "AveragePool" | "GlobalAveragePool" | "Neg" => {
                behind(0)
            }
            "Add" | "Sub" => behind(0).or_else(|_| behind(1)),
            "Mul" => behind(0).and_then(|()| behind(1)),
            "Div" => behind(0),
            _ => may(),
        }
    }

    fn holds_signs(&self, product: &NodeProto, weight: &str) -> bool {
        self.is_sign(weight, FAR) || self.magnitudes(product, weight).is_some()
    }

    /// Whether no element is a whole number.
    fn fractions(&self, name: &str) -> bool {
        let all = self.tensors.get(name).and_then(|known| known.to_f32());
        all.is_some_and(|all| all.iter().all(|x| x.fract() != 0.0))
    }
}

/// The tensor that a node has as its value.
fn value(node: &NodeProto) -> Option<Known> {
    let mut tensor = node.attribute.iter().find(|a| a.name == "value")?.t.as_deref()?.clone();
    Known::read(&mut tensor, &|_| Err(String::new())).ok()
}

fn is_own(node: &NodeProto) -> bool {
    node.domain.is_empty() || node.domain == "ai.onnx"
}

/// Whether the elements of a node's result are elements of the operand.
fn moves(node: &NodeProto, position: usize) -> bool {
    match node.op_type.as_str() {
        "MaxPool" | "Identity" | "Reshape" | "Flatten" | "Transpose" | "Squeeze" | "Unsqueeze"
        | "Dropout" => position == 0,
        "Concat" => true,
        _ => false,
    }
}
