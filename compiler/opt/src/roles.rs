//! What the values of an FP32 graph are for: which parameters are weights, biases or parts of a normalization, and on
//! which side of the training step a value stands. Algorithms quantize by it.

use std::collections::BTreeSet;

use trainc_ir::graph::{Definition, Graph, Node, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{BlockAxes, PrecisionOf, Rounding};
use trainc_ir::text::nearest::did_you_mean;
use trainc_ir::{Element, Op, OpKind};

/// What [`Roles::layer`] says.
pub const LAYERS: [&str; 3] = ["first", "inner", "last"];

/// What a parameter or constant is for, and what is only moved from it (reshaped, transposed, broadcast).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// An operand of a convolution or matrix product, or rows that are read by index.
    Weight,
    /// Added to the result of a convolution or matrix product, and nothing else.
    Bias,
    /// An operand of batch normalization, and nothing else.
    Normalization,
    /// Anything else.
    Other,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Weight, Role::Bias, Role::Normalization, Role::Other];

    /// Name in algorithm files.
    pub fn name(self) -> &'static str {
        match self {
            Role::Weight => "weight",
            Role::Bias => "bias",
            Role::Normalization => "normalization",
            Role::Other => "other",
        }
    }

    /// The role of that name.
    ///
    /// # Errors
    /// If there is none: those that there are.
    pub fn named(name: &str) -> Result<Role, String> {
        Role::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| {
            let names = Role::ALL.map(Role::name);
            let near = did_you_mean(name, names);
            format!("there is no role `{name}`{near}; there are {}", names.join(", "))
        })
    }
}

/// Where a value stands in a training step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// On the way from the inputs to the outputs.
    Forward,
    /// On the way from the loss to the updates by gradients.
    Backward,
    /// Only for updates that take no learning rate: running statistics.
    Statistic,
}

impl Side {
    /// Name in algorithm files.
    pub fn name(self) -> &'static str {
        match self {
            Side::Forward => "forward",
            Side::Backward => "backward",
            Side::Statistic => "statistic",
        }
    }
}

/// Roles and sides of a graph's values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roles {
    roles: Vec<Option<Role>>,
    sides: Vec<Option<Side>>,
    layers: Vec<&'static [&'static str]>,
    /// Values that are computed from parameters and constants alone.
    derived: Vec<bool>,
    /// Values that are constants or computed from constants alone.
    constant: Vec<bool>,
    /// Operands of matrix products on the way forward.
    matrices: Vec<bool>,
    /// Values that are integers times a scale by what the model says.
    quantized: Vec<bool>,
    /// Values whose examples have chosen a precision.
    chosen: Vec<bool>,
    /// What [`Roles::codes`] says.
    codes: Vec<bool>,
    trains: bool,
}

impl Roles {
    /// Works them out.
    pub fn of(graph: &Graph) -> Roles {
        let sides = sides(graph);
        let mut roles = vec![None; graph.values().len()];
        let uses = uses(graph, &sides);
        for v in graph.value_ids() {
            let leaf = matches!(
                graph.value(v).definition,
                Definition::Parameter(_) | Definition::Constant(_)
            );
            if leaf && graph.ty(v).is_f32() {
                let found = &uses[v.index()];
                let only = |role| !found.is_empty() && found.iter().all(|r| *r == role);
                roles[v.index()] = Some(match () {
                    () if found.contains(&Role::Weight) => Role::Weight,
                    () if only(Role::Bias) => Role::Bias,
                    () if only(Role::Normalization) => Role::Normalization,
                    () => Role::Other,
                });
            } else if let Some(node) = graph.producer(v)
                && is_movement(&node.op)
            {
                roles[v.index()] = roles[node.inputs[0].index()];
            }
        }
        // An optimizer's state is what its weight is.
        for parameter in graph.parameters() {
            if let Some(weight) = weight_of(graph, &graph.value(parameter.value).name) {
                roles[parameter.value.index()] = roles[weight.index()];
            }
        }
        let layers = layers(graph, &sides);
        let trains = graph.inputs().iter().any(|input| input.role.is_scheduled());
        let derived = derived(graph, true);
        let constant = constants(graph);
        let mut matrices = vec![false; graph.values().len()];
        for node in graph.nodes().iter().filter(|node| matches!(node.op, Op::MatMul(_))) {
            if sides[node.outputs[0].index()] == Side::Forward {
                node.inputs.iter().for_each(|v| matrices[v.index()] = true);
            }
        }
        let quantized = quantized(graph, &derived);
        let chosen = chosen(graph);
        let codes = codes(graph, &derived);
        Roles {
            codes,
            derived,
            constant,
            matrices,
            quantized,
            chosen,
            roles,
            sides: sides.into_iter().map(Some).collect(),
            layers,
            trains,
        }
    }

    /// Which layer a value belongs to, among the model's convolutions and matrix products: `first`, `inner`, `last`, or
    /// the first two of these where there is one. Nothing for values that are no operand or result of one.
    pub fn layer(&self, value: ValueId) -> &'static [&'static str] {
        self.layers.get(value.index()).copied().unwrap_or_default()
    }

    /// Whether the graph is a training step.
    pub fn trains(&self) -> bool {
        self.trains
    }

    /// The role of a parameter, a constant, or what is moved from one.
    pub fn role(&self, value: ValueId) -> Option<Role> {
        self.roles.get(value.index()).copied().flatten()
    }

    /// [`Roles::role`]; of an operand of a product that is computed from parameters alone, a weight.
    pub fn role_in_products(&self, value: ValueId) -> Option<Role> {
        let derived =
            || self.derived.get(value.index()) == Some(&true) && !self.layer(value).is_empty();
        self.role(value).or_else(|| derived().then_some(Role::Weight))
    }

    /// Whether a value is a constant, or computed from constants alone: what no training changes.
    pub fn constant(&self, value: ValueId) -> bool {
        self.constant.get(value.index()) == Some(&true)
    }

    /// The axes that blocks of a value tile: the last two of an operand of a matrix product, else the first two.
    pub fn block_axes(&self, value: ValueId) -> BlockAxes {
        match self.matrices.get(value.index()) {
            Some(true) => BlockAxes::Last,
            _ => BlockAxes::First,
        }
    }

    /// Whether a value stands on a grid of 8-bit integers that the model brings: the result of a quantizer, or a weight that is
    /// kept in its integers; and what is only moved from one.
    pub fn quantized(&self, value: ValueId) -> bool {
        self.quantized.get(value.index()) == Some(&true)
    }

    /// Whether each example of a value has chosen its precision: results of `example_precision`, but for those whose errors have.
    pub fn chosen(&self, value: ValueId) -> bool {
        self.chosen.get(value.index()) == Some(&true)
    }

    /// Whether algorithms of integers make a value in integers: what products, pools, bounds, normalizations, sums of such and functions of
    /// one tensor give, and such a value times another or times a smaller one of the data, a gate.
    pub fn codes(&self, value: ValueId) -> bool {
        self.codes.get(value.index()) == Some(&true)
    }

    /// The side of a value of the graph.
    pub fn side(&self, value: ValueId) -> Option<Side> {
        self.sides.get(value.index()).copied().flatten()
    }
}

/// The trained parameter that a parameter of the name `WEIGHT.STATE` is kept for.
pub fn weight_of(graph: &Graph, name: &str) -> Option<ValueId> {
    let (weight, _) = name.rsplit_once('.')?;
    let own = graph.parameter_named(name)?;
    let found = &graph.parameters()[graph.parameter_named(weight)?];
    (!graph.parameters()[own].trainable && found.trainable).then_some(found.value)
}

/// What a value is called by: its node, or its own name; of a leaf's stored form, the leaf's.
pub(crate) fn node_name(graph: &Graph, v: ValueId) -> String {
    // Leaves of stored forms lie past the graph's own values.
    let v = ValueId::from_index(v.index() % graph.values().len().max(1));
    match graph.producer(v) {
        Some(node) => node.name.clone(),
        None => graph.value(v).name.clone(),
    }
}

/// [`node_name`] with a number behind it where values before this one are called so, too.
pub(crate) fn own_name(graph: &Graph, v: ValueId) -> String {
    let name = node_name(graph, v);
    let before = graph.value_ids().take_while(|other| *other != v);
    match before.filter(|&other| node_name(graph, other) == name).count() {
        0 => name,
        count => format!("{name}_{}", count + 1),
    }
}

fn is_movement(op: &Op) -> bool {
    matches!(op.kind(), OpKind::Reshape | OpKind::Transpose | OpKind::Broadcast)
}

/// Values that `roots` are computed from, themselves included.
fn ancestors(graph: &Graph, roots: impl Iterator<Item = ValueId>) -> BTreeSet<ValueId> {
    let mut found = BTreeSet::new();
    let mut stack: Vec<ValueId> = roots.collect();
    while let Some(v) = stack.pop() {
        if found.insert(v)
            && let Some(node) = graph.producer(v)
        {
            stack.extend(&node.inputs);
            found.extend(&node.outputs);
        }
    }
    found
}

/// Which values are constants or computed from constants alone.
fn constants(graph: &Graph) -> Vec<bool> {
    let mut constant = derived(graph, false);
    for v in graph.value_ids() {
        constant[v.index()] |= matches!(graph.value(v).definition, Definition::Constant(_));
    }
    constant
}

/// Which results of nodes are computed from constants alone, or, with `parameters`, from these and parameters.
fn derived(graph: &Graph, parameters: bool) -> Vec<bool> {
    let mut derived = vec![false; graph.values().len()];
    for node in graph.nodes() {
        let own = |v: &ValueId| match graph.value(*v).definition {
            Definition::Parameter(_) => parameters,
            Definition::Constant(_) => true,
            Definition::Result { .. } => derived[v.index()],
            Definition::Input(_) => false,
        };
        let all = !node.inputs.is_empty() && node.inputs.iter().all(own);
        node.outputs.iter().for_each(|v| derived[v.index()] = all);
    }
    derived
}

/// See [`Roles::chosen`].
fn chosen(graph: &Graph) -> Vec<bool> {
    let own = |v: ValueId| match graph.producer(v).map(|node| &node.op) {
        Some(Op::ExamplePrecision(op)) => op.of != PrecisionOf::ErrorOf,
        _ => false,
    };
    graph.value_ids().map(own).collect()
}

/// See [`Roles::codes`].
fn codes(graph: &Graph, derived: &[bool]) -> Vec<bool> {
    let mut codes = vec![false; graph.values().len()];
    for node in graph.nodes() {
        let of = |v: &ValueId| codes[v.index()];
        let all = || !node.inputs.is_empty() && node.inputs.iter().all(of);
        let own = match node.op.kind() {
            OpKind::MaxPool2d
            | OpKind::MaxPool2dGradient
            | OpKind::AvgPool2d
            | OpKind::AvgPool2dGradient
            | OpKind::Relu
            | OpKind::ReluGradient
            | OpKind::Clip
            | OpKind::ClipGradient
            | OpKind::BatchNorm
            | OpKind::BatchNormGradient => true,
            OpKind::Add => node.inputs.iter().any(of),
            OpKind::Concat => all(),
            OpKind::ReduceSum | OpKind::Slice | OpKind::Pad => of(&node.inputs[0]),
            OpKind::Formula => node.inputs.len() == 1 && graph.ty(node.inputs[0]).shape.rank() > 0,
            OpKind::Mul => {
                let [a, b] = [0, 1].map(|i| node.inputs[i]);
                let made = |v: ValueId| graph.producer(v).is_some() && !derived[v.index()];
                let smaller =
                    |v: ValueId| made(v) && graph.ty(v).count() < graph.ty(node.outputs[0]).count();
                match (of(&a), of(&b)) {
                    (true, true) => true,
                    (true, false) => smaller(b),
                    (false, true) => smaller(a),
                    (false, false) => false,
                }
            }
            kind if kind.has(Property::Bilinear) => true,
            _ => is_movement(&node.op) && of(&node.inputs[0]),
        };
        if own {
            node.outputs.iter().for_each(|v| codes[v.index()] = true);
        }
    }
    codes
}

/// See [`Roles::quantized`].
fn quantized(graph: &Graph, derived: &[bool]) -> Vec<bool> {
    let mut quantized = vec![false; graph.values().len()];
    let eight = |op: &Op| matches!(op, Op::Quant(q) if q.bits == 8 && !q.narrow && q.rounding == Rounding::HalfEven);
    for node in graph.nodes() {
        let own = match &node.op {
            // One scale for the whole tensor; a zero point of the quantizer's own.
            op if eight(op) => {
                graph.ty(node.inputs[1]).count() == 1 && !derived[node.outputs[0].index()]
            }
            Op::DequantizeLinear(_) => {
                let by = graph.producer(node.inputs[0]).map(|by| (by.op.kind(), &by.inputs[1..]));
                by == Some((OpKind::QuantizeLinear, &node.inputs[1..]))
                    && graph.ty(node.inputs[1]).count() == 1
                    && matches!(graph.ty(node.inputs[0]).element, Element::I8 | Element::U8)
            }
            Op::Mul(_) => {
                derived[node.outputs[0].index()] && codes_of_weight(graph, node.inputs[0])
            }
            op if is_movement(op) || matches!(op, Op::MaxPool2d(_)) => {
                quantized[node.inputs[0].index()] && op.kind() != OpKind::Broadcast
            }
            _ => false,
        };
        quantized[node.outputs[0].index()] = own;
    }
    quantized
}

/// Whether a value is a weight's integers, of at most 8 bits.
fn codes_of_weight(graph: &Graph, v: ValueId) -> bool {
    graph.producer(v).is_some_and(|node| matches!(&node.op, Op::Quant(q) if q.bits <= 8))
}

fn sides(graph: &Graph) -> Vec<Side> {
    let forward = ancestors(graph, graph.outputs().iter().map(|o| o.value));
    // What depends on the step size updates by a gradient.
    let mut stepped: Vec<bool> = vec![false; graph.values().len()];
    for input in graph.inputs().iter().filter(|i| i.role.is_scheduled()) {
        stepped[input.value.index()] = true;
    }
    for node in graph.nodes() {
        if node.inputs.iter().any(|v| stepped[v.index()]) {
            node.outputs.iter().for_each(|v| stepped[v.index()] = true);
        }
    }
    let trained = graph.updates().iter().map(|u| u.value).filter(|v| stepped[v.index()]);
    let backward = ancestors(graph, trained);
    graph
        .value_ids()
        .map(|v| match () {
            () if forward.contains(&v) => Side::Forward,
            () if backward.contains(&v) => Side::Backward,
            () => Side::Statistic,
        })
        .collect()
}

/// For operands and results of forward products: whether nothing before them, or nothing behind them, is one.
fn layers(graph: &Graph, sides: &[Side]) -> Vec<&'static [&'static str]> {
    let mut layers: Vec<&'static [&'static str]> = vec![&[]; graph.values().len()];
    let forward = |node: &Node| sides[node.outputs[0].index()] == Side::Forward;
    let product = |node: &Node| node.op.kind().has(Property::Bilinear);
    let mut behind = vec![false; layers.len()];
    for node in graph.nodes().iter().filter(|n| forward(n)) {
        let any = product(node) || node.inputs.iter().any(|v| behind[v.index()]);
        node.outputs.iter().for_each(|v| behind[v.index()] = any);
    }
    let mut before = vec![false; layers.len()];
    for node in graph.nodes().iter().rev().filter(|n| forward(n)) {
        let any = product(node) || node.outputs.iter().any(|v| before[v.index()]);
        if any {
            node.inputs.iter().for_each(|v| before[v.index()] = true);
        }
    }
    for node in graph.nodes().iter().filter(|n| forward(n) && product(n)) {
        let first = !node.inputs.iter().any(|v| behind[v.index()]);
        let last = !node.outputs.iter().any(|v| before[v.index()]);
        let layer: &'static [&'static str] = match (first, last) {
            (true, true) => &["first", "last"],
            (true, false) => &["first"],
            (false, true) => &["last"],
            (false, false) => &["inner"],
        };
        for v in node.inputs.iter().chain(&node.outputs) {
            if layers[v.index()].is_empty() {
                layers[v.index()] = layer;
            }
        }
    }
    layers
}

/// For each leaf, what the forward nodes behind it make of it, movements looked through.
fn uses(graph: &Graph, sides: &[Side]) -> Vec<Vec<Role>> {
    let product =
        |v: ValueId| graph.producer(v).is_some_and(|n| n.op.kind().has(Property::Bilinear));
    let mut uses: Vec<Vec<Role>> = vec![Vec::new(); graph.values().len()];
    // From the end, so that what is moved on is known already.
    for id in graph.node_ids().rev() {
        let node = graph.node(id);
        if sides[node.outputs[0].index()] != Side::Forward {
            continue;
        }
        for (i, &v) in node.inputs.iter().enumerate() {
            let found = match &node.op {
                op if is_movement(op) => uses[node.outputs[0].index()].clone(),
                Op::Conv2d(_) => vec![if i == 1 { Role::Weight } else { Role::Other }],
                Op::MatMul(_) => vec![Role::Weight],
                // A transposed convolution.
                Op::Conv2dGradientInput(_) => vec![if i == 1 { Role::Weight } else { Role::Other }],
                // An embedding.
                Op::Gather(_) if i == 0 => vec![Role::Weight],
                Op::Add(_)
                    if product(node.inputs[1 - i]) && broadcasts(graph, v, node.inputs[1 - i]) =>
                {
                    vec![Role::Bias]
                }
                Op::BatchNorm(_) if i > 0 => vec![Role::Normalization],
                _ => vec![Role::Other],
            };
            uses[v.index()].extend(found);
        }
    }
    uses
}

/// Whether `v` broadcasts to the shape of the other operand of an addition.
fn broadcasts(graph: &Graph, v: ValueId, other: ValueId) -> bool {
    let (shape, wide) = (&graph.ty(v).shape, &graph.ty(other).shape);
    shape.broadcast(wide).as_ref() == Some(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::graph::InputRole;
    use trainc_ir::ops::{Add, MatMul, ProductRole, Relu, Reshape};
    use trainc_ir::{Tensor, TensorType};

    #[test]
    fn parameters_by_use() {
        let mut g = Graph::new("g");
        let x = g.add_input("x", TensorType::f32([1, 4]), InputRole::Data);
        let flat = g.add_parameter("w", Tensor::f32([8], vec![1.0; 8]), true);
        let bias = g.add_parameter("b", Tensor::f32([2], vec![1.0; 2]), true);
        let other = g.add_parameter("s", Tensor::f32([1, 2], vec![1.0; 2]), true);
        let w = g.add1(Reshape { shape: [4, 2].into() }, &[flat], "w2").unwrap();
        let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
        let y = g.add1(op, &[x, w], "y").unwrap();
        let y = g.add1(Add {}, &[y, bias], "y").unwrap();
        let y = g.add1(Relu {}, &[y], "y").unwrap();
        let y = g.add1(Add {}, &[y, other], "y").unwrap();
        g.add_output("y", y);
        let roles = Roles::of(&g);
        assert_eq!(roles.role(flat), Some(Role::Weight));
        assert_eq!(roles.role(w), Some(Role::Weight));
        assert_eq!(roles.role(bias), Some(Role::Bias));
        assert_eq!(roles.role(other), Some(Role::Other));
        assert_eq!(roles.role(y), None);
        assert_eq!(roles.side(y), Some(Side::Forward));
        assert_eq!(roles.layer(w), ["first", "last"]);
        assert!(roles.layer(bias).is_empty() && !roles.trains());
    }
}
