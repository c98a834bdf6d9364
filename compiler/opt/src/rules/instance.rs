//! Random instances for the proofs of rules: a small deterministic generator of shapes, types and values, and graphs that
//! hold a rule's left side.

use std::collections::BTreeMap;

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::{
    BatchNorm, ClipGradient, Conv2d, DequantizeLinear, MatMul, QuantizeLinear, Requantize, Reshape,
    ScaleShift, ShiftRight, Threshold, Transpose,
};
use trainc_ir::types::{Scale, Shape, TensorType};
use trainc_ir::{Data, Element, Op, OpKind, ScaleData, Tensor};

use super::{Rule, RuleContext, Sides};
use crate::egraph::convert::load;
use crate::egraph::pattern::{Attributes, Part, Template};
use crate::egraph::saturate::matched_classes;

/// A deterministic generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..=high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// One of the choices.
    pub fn choose<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.range(0, choices.len() - 1)].clone()
    }

    /// A small shape of that rank.
    pub fn shape(&mut self, rank: usize) -> Shape {
        (0..rank).map(|_| self.range(1, 4)).collect::<Vec<_>>().into()
    }

    /// A tensor of that type: small, wide and extreme values mixed.
    pub fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let count = ty.count();
        let style = self.range(0, 3);
        let scale = match ty.scale {
            Scale::Exponent => ScaleData::Exponent(self.range(0, 24) as i32 - 16),
            Scale::None => ScaleData::None,
        };
        if ty.element == Element::F32 {
            let data = (0..count).map(|_| self.float(style)).collect();
            return Tensor::new(ty.clone(), Data::F32(data), scale);
        }
        let (low, high) = ty.element.integer_range().unwrap_or((0, 1));
        let values: Vec<i64> = (0..count)
            .map(|_| {
                let bits = self.bits();
                match style {
                    0 => ((bits % 17) as i64 - 8).clamp(low, high),
                    1 => self.choose(&[low, high, 0, low + 1, high - 1]),
                    // A random width, so that every magnitude occurs.
                    2 => {
                        let width = (bits >> 32) % u64::from(ty.element.bits());
                        ((bits as i64) & ((1i64 << width) - 1))
                            .wrapping_mul(if bits >> 63 == 1 { -1 } else { 1 })
                            .clamp(low, high)
                    }
                    _ => low + (bits % (high - low + 1) as u64) as i64,
                }
            })
            .collect();
        Tensor::from_i64(ty, &values, scale)
    }

    fn float(&mut self, style: usize) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1u32 << 24) as f32 * 2.0 - 1.0;
        match style {
            0 => unit,
            1 => self.choose(&[0.0, -0.0, 1.0, -1.0, 0.5, 255.0, 1e-30, -1e30]),
            2 => (unit * 16.0).round(),
            _ => unit * f32::from_bits((self.range(64, 190) as u32) << 23),
        }
    }
}

/// How random graphs that hold a rule's left side are made.
#[derive(Clone, Copy, Debug)]
pub enum Instance {
    /// By hand: a graph whose only output holds it.
    Built(fn(&mut Random) -> Graph),
    /// From the pattern: its variables by these draws, in order, those that it has; the others by the operations'
    /// examples, in other representations too, until they type and the rule applies.
    Drawn(&'static [(&'static str, Draw)]),
}

/// Draws what a variable stands for, from what was drawn before.
pub type Draw = fn(&mut Random, &Drawn) -> Value;

/// What a variable stands for.
#[derive(Clone, Debug)]
pub enum Value {
    /// An input of that type; the test draws its value.
    Input(TensorType),
    /// A constant.
    Constant(Tensor),
    /// What a graph computes.
    Computed(fn(&mut Random, &mut Builder) -> ValueId),
    /// An operation's attributes.
    Attributes(Op),
}

impl From<TensorType> for Value {
    fn from(ty: TensorType) -> Value {
        Value::Input(ty)
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Constant(tensor)
    }
}

/// Attributes that rules draw.
macro_rules! drawn_attributes {
    ($($name:ident),* $(,)?) => {$(
        impl From<$name> for Value {
            fn from(op: $name) -> Value {
                Value::Attributes(op.into())
            }
        }
    )*};
}
drawn_attributes! {
    BatchNorm, ClipGradient, Conv2d, DequantizeLinear, MatMul, QuantizeLinear, Requantize, Reshape, ScaleShift,
    ShiftRight, Threshold, Transpose,
}

/// What was drawn so far, by the names of variables.
#[derive(Debug, Default)]
pub struct Drawn {
    builder: Builder,
    values: BTreeMap<String, ValueId>,
    attributes: BTreeMap<String, Op>,
}

impl Drawn {
    /// The type of a value.
    ///
    /// # Panics
    /// If it is not drawn: a mistake in the order of a rule's draws.
    pub fn ty(&self, variable: &str) -> &TensorType {
        let value = self.values.get(variable);
        self.builder.ty(*value.unwrap_or_else(|| panic!("?{variable} is not drawn")))
    }

    /// The operation whose attributes were drawn.
    ///
    /// # Panics
    /// As [`Drawn::ty`].
    pub fn op<'d, T>(&'d self, variable: &str) -> &'d T
    where
        &'d T: TryFrom<&'d Op>,
    {
        self.find(variable).unwrap_or_else(|| panic!("?{variable} is not drawn"))
    }

    /// The operation whose attributes were drawn, if they were.
    pub fn find<'d, T>(&'d self, variable: &str) -> Option<&'d T>
    where
        &'d T: TryFrom<&'d Op>,
    {
        self.attributes.get(variable)?.try_into().ok()
    }

    fn set(&mut self, variable: &str, value: Value, random: &mut Random) {
        let id = match value {
            Value::Input(ty) => self.builder.input(ty),
            Value::Constant(tensor) => self.builder.constant(tensor),
            Value::Computed(build) => build(random, &mut self.builder),
            Value::Attributes(op) => {
                self.attributes.insert(variable.to_string(), op);
                return;
            }
        };
        self.values.insert(variable.to_string(), id);
    }
}

/// Most attempts to draw an instance.
const ATTEMPTS: usize = 20_000;

/// Most elements of an example's operands.
const SMALL: usize = 1000;

/// Small examples of operations: attributes and operand types.
#[derive(Default)]
struct Examples(BTreeMap<OpKind, Vec<(Op, Vec<TensorType>)>>);

impl Examples {
    /// A random one of an operation, with its operands now and then in other representations.
    fn draw(&mut self, kind: OpKind, random: &mut Random) -> Option<(Op, Vec<TensorType>)> {
        let known = self.0.entry(kind).or_insert_with(|| {
            let types = |case: &trainc_ir::ops::Case| -> Vec<TensorType> {
                case.inputs.iter().map(|x| x.ty().clone()).collect()
            };
            let cases = kind.cases().into_iter().map(|case| (case.op.clone(), types(&case)));
            cases.filter(|(_, x)| x.iter().all(|ty| (1..=SMALL).contains(&ty.count()))).collect()
        });
        if known.is_empty() {
            return None;
        }
        let (op, types) = random.choose(known);
        let types = types.into_iter().map(|ty| match random.range(0, 5) {
            0 => TensorType::f32(ty.shape),
            1 => TensorType::shared(ty.shape, Element::I8),
            2 => TensorType::shared(ty.shape, Element::U8),
            3 => TensorType::shared(ty.shape, Element::I32),
            _ => ty,
        });
        Some((op, types.collect()))
    }
}

impl Rule {
    /// A random graph to which one of the rule's forms applies; `None` if none was found.
    ///
    /// # Panics
    /// If the rule's text is none of a rule.
    pub fn instance(&self, form: usize, random: &mut Random) -> Option<Graph> {
        let (draws, patterns) = match (self.instance, &self.sides) {
            (Instance::Built(build), _) => return Some(build(random)),
            (Instance::Drawn(draws), Sides::Patterns(patterns)) => (draws, patterns),
            (Instance::Drawn(_), Sides::Search(_)) => return None,
        };
        let (left, _) = self.must(patterns.pairs()).swap_remove(form);
        let parts = self.must(Template::parse(&left).map_err(|e| e.to_string())).parts()?;
        let mut examples = Examples::default();
        (0..ATTEMPTS).find_map(|_| {
            let graph = attempt(&parts, draws, &mut examples, random)?;
            self.applies(form, &graph).then_some(graph)
        })
    }

    /// Whether a form applies to what gives the graph's first output.
    fn applies(&self, form: usize, graph: &Graph) -> bool {
        let loaded = load(graph);
        let rewrite = self.rewrite_form(form, &RuleContext::of(graph));
        let root = loaded.egraph.find(loaded.classes[graph.outputs()[0].value.index()]);
        matched_classes(&loaded.egraph, &rewrite).contains(&root)
    }
}

/// The graph of a pattern with its variables drawn; `None` if it does not type.
fn attempt(
    parts: &[Part],
    draws: &[(&str, Draw)],
    examples: &mut Examples,
    random: &mut Random,
) -> Option<Graph> {
    let mut drawn = Drawn::default();
    let has = |name: &str| parts.iter().any(|p| matches!(p, Part::Variable(n) if n == name));
    for (name, draw) in draws.iter().filter(|(name, _)| has(name)) {
        let value = draw(random, &drawn);
        drawn.set(name, value, random);
    }
    let mut results: Vec<Option<ValueId>> = Vec::with_capacity(parts.len());
    for part in parts {
        let Part::Operation(attributes, operands) = part else {
            results.push(None);
            continue;
        };
        let (kind, known) = match attributes {
            Attributes::Given(op) => (op.kind(), Some(op.clone())),
            Attributes::Variable(kind, name) => (*kind, drawn.attributes.get(name).cloned()),
        };
        let variable = |i: usize| match &parts[i] {
            Part::Variable(name) => Some(name),
            Part::Operation(..) | Part::Number(_) => None,
        };
        let value = |drawn: &Drawn, i: usize| match variable(i) {
            Some(name) => drawn.values.get(name).copied(),
            None => results[i],
        };
        let open = operands.iter().any(|&i| value(&drawn, i).is_none());
        let (op, types) = match known {
            Some(op) if !open => (op, Vec::new()),
            known => {
                let (op, types) = examples.draw(kind, random)?;
                (known.unwrap_or(op), types)
            }
        };
        if let Attributes::Variable(_, name) = attributes {
            drawn.attributes.insert(name.clone(), op.clone());
        }
        let mut inputs = Vec::with_capacity(operands.len());
        for (position, &i) in operands.iter().enumerate() {
            if let (None, Some(name)) = (value(&drawn, i), variable(i)) {
                // As another operand, or as the example has it.
                let ty = match inputs.first() {
                    Some(&first) if random.range(0, 1) == 0 => drawn.builder.ty(first).clone(),
                    _ => types.get(position)?.clone(),
                };
                drawn.set(name, Value::Input(ty), random);
            }
            inputs.push(value(&drawn, i)?);
        }
        let name = kind.name();
        results.push(Some(drawn.builder.graph.add1(op, &inputs, name).ok()?));
    }
    let root = results.pop()??;
    Some(drawn.builder.finish(root))
}

/// Builds instance graphs; operations that do not type are bugs of the instance.
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    inputs: usize,
}

impl Builder {
    /// An empty instance.
    pub fn new() -> Builder {
        Builder { graph: Graph::new("instance"), inputs: 0 }
    }

    /// An input of that type; the test draws its value.
    pub fn input(&mut self, ty: TensorType) -> ValueId {
        self.inputs += 1;
        self.graph.add_input(format!("x{}", self.inputs), ty, InputRole::Data)
    }

    /// A constant.
    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.add_constant("constant", tensor)
    }

    /// An operation.
    pub fn op(&mut self, op: impl Into<Op>, operands: &[ValueId]) -> ValueId {
        let op = op.into();
        let name = op.kind().name();
        match self.graph.add1(op, operands, name) {
            Ok(value) => value,
            Err(e) => panic!("the instance does not type: {e}"),
        }
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        self.graph.ty(value)
    }

    /// The graph with that output.
    pub fn finish(mut self, output: ValueId) -> Graph {
        self.graph.add_output("y", output);
        self.graph
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}
