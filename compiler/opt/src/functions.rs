//! Elementwise functions of one tensor (hard swish, SiLU, GELU, ...) as one operation each, so that an algorithm's rules can compute
//! them from a table with an entry for each code.
//!
//! All FP32 operations that follow each other and depend, element by element, on one value of the forward pass and on numbers alone
//! become one `formula` of that value. An error that goes back through them depends on the error from above linearly, so it is one
//! product, `e * c(x)`: the slope `c` is what their gradients make of an error of 1, and is a `formula` of the same value. The product is
//! rounded once where their gradients rounded several times: an algorithm asks for this pass (`gather_functions`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::attributes::F32;
use trainc_ir::graph::{Copied, Definition, Graph, InputRole, Node, ValueId};
use trainc_ir::ops::formula::{Formula, Function, LONGEST, Step, Term};
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{Mul, TypeError};
use trainc_ir::types::TensorType;
use trainc_ir::{Op, OpKind};

use crate::algorithm::Algorithm;
use crate::roles::{Roles, Side};

/// The graph with functions gathered as an algorithm asks for it.
///
/// # Errors
/// As [`gather_functions`].
pub fn gathered_for<'g>(
    algorithm: &Algorithm,
    graph: &'g Graph,
) -> Result<Cow<'g, Graph>, TypeError> {
    Ok(match algorithm.gather_functions {
        Some(least) => Cow::Owned(gather_functions(graph, least)?),
        None => Cow::Borrowed(graph),
    })
}

/// The graph with each elementwise function of a tensor of at least `least` elements an example as one `formula`, where what reads
/// the results takes integers anyway (products, pools, additions), and errors through it as one product with a `formula`.
///
/// # Errors
/// None that a verified graph gives.
pub fn gather_functions(graph: &Graph, least: usize) -> Result<Graph, TypeError> {
    let found = Functions::of(graph, least);
    if !found.accepted.contains(&true) {
        return Ok(graph.clone());
    }
    let passing = found.passing();
    let mut result = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut made: BTreeMap<(ValueId, Formula), ValueId> = BTreeMap::new();
    graph.copy_changed(&mut result, &mut new, |copy, new, v| {
        let Some(node) = graph.producer(v) else { return Ok(Copied::AsItIs) };
        // It may read what is no longer made.
        if found.dead[v.index()] || passing[v.index()] {
            return Ok(Copied::Not);
        }
        let (function, error) = (found.function(v), found.error(v));
        if function.is_none() && error.is_none() {
            return Ok(Copied::AsItIs);
        }
        if !found.needed(v) {
            return Ok(Copied::Not);
        }
        let mut steps = Steps::default();
        let (base, result) = match (function, error) {
            (Some(base), _) => (base, steps.function(&found, base, v)),
            (None, Some((error, base))) => (base, steps.slope(&found, (error, base), v)),
            (None, None) => return Ok(Copied::AsItIs),
        };
        // What has a form of its own.
        if found.is_own(node) {
            return Ok(Copied::AsItIs);
        }
        let formula = Formula { steps: steps.steps, results: vec![result] };
        let known = made.get(&(base, formula.clone())).copied();
        let mut own = |copy: &mut Graph, name: String| match known {
            Some(known) => Ok(known),
            None => {
                let value = copy.add1(formula.clone(), &[new[&base]], name)?;
                made.insert((base, formula.clone()), value);
                Ok::<ValueId, TypeError>(value)
            }
        };
        let value = match error {
            None => own(copy, node.name.clone())?,
            Some((error, _)) => {
                let slope = match result {
                    Term::Operand(_) => new[&base],
                    _ => own(copy, format!("{}/slope", node.name))?,
                };
                copy.add1(Mul {}, &[new[&error], slope], &node.name)?
            }
        };
        copy.set_name(value, &graph.value(v).name);
        Ok(Copied::As(value))
    })?;
    graph.copy_roots(&mut result, &new);
    Ok(result)
}

/// What an operation computes of each element.
#[derive(Clone, Copy)]
enum Pointwise {
    Of(Function),
    Relu,
    Clip(F32, F32),
    LeakyRelu(F32),
}

fn pointwise(op: &Op) -> Option<Pointwise> {
    Some(match op {
        Op::Relu(_) => Pointwise::Relu,
        Op::Clip(clip) => Pointwise::Clip(clip.min, clip.max),
        Op::LeakyRelu(own) => Pointwise::LeakyRelu(own.alpha),
        _ => Pointwise::Of(Function::of(op.kind())?),
    })
}

/// How an operation of a backward pass passes on an error: the sum of its operands that are errors, negated or not, and what else it is
/// multiplied by.
struct Linear {
    errors: Vec<ValueId>,
    negative: bool,
    factor: Option<(ValueId, Factor)>,
}

#[derive(Clone, Copy)]
enum Factor {
    Times,
    Divided,
    /// 1 where the value is above 0, else that number.
    Above(F32),
    /// 1 strictly between the bounds.
    Between(F32, F32),
}

fn number(x: f32) -> Term {
    Term::Number(F32::new(x))
}

/// What is known of a graph's values.
struct Functions<'a> {
    graph: &'a Graph,
    roles: Roles,
    /// The value that a value is a function of.
    functions: Vec<Option<ValueId>>,
    /// The error that a value is a multiple of, and the value that the factor is a function of; `None` of a number.
    errors: Vec<Option<(ValueId, Option<ValueId>)>>,
    /// The live nodes that read a value.
    readers: Vec<Vec<&'a Node>>,
    /// Whether nothing needs a value.
    dead: Vec<bool>,
    /// Whether something outside of the step reads a value.
    roots: Vec<bool>,
    /// Whether a value depends on the step's data.
    data: Vec<bool>,
    /// Whether a value depends on the step's labels: forward, a part of the loss.
    labels: Vec<bool>,
    /// Whether what reads values is computed in integers, by the results of readers.
    integers: Vec<bool>,
    /// Whether functions of a value are gathered.
    accepted: Vec<bool>,
}

impl<'a> Functions<'a> {
    fn of(graph: &'a Graph, least: usize) -> Functions<'a> {
        let count = graph.values().len();
        let mut roots = vec![false; count];
        graph.roots().for_each(|v| roots[v.index()] = true);
        let mut readers: Vec<Vec<&Node>> = vec![Vec::new(); count];
        let mut dead = vec![false; count];
        for (node, live) in graph.nodes().iter().zip(graph.live_nodes()) {
            node.inputs.iter().filter(|_| live).for_each(|v| readers[v.index()].push(node));
            node.outputs.iter().for_each(|v| dead[v.index()] = !live);
        }
        let depends = |role: InputRole| {
            let mut depends = vec![false; count];
            for v in graph.value_ids() {
                depends[v.index()] = match &graph.value(v).definition {
                    Definition::Input(i) => graph.inputs()[*i].role == role,
                    _ => {
                        let of = |node: &Node| node.inputs.iter().any(|u| depends[u.index()]);
                        graph.producer(v).is_some_and(of)
                    }
                };
            }
            depends
        };
        let mut found = Functions {
            graph,
            roles: Roles::of(graph),
            functions: vec![None; count],
            errors: vec![None; count],
            readers,
            dead,
            roots,
            data: depends(InputRole::Data),
            labels: depends(InputRole::Labels),
            integers: Vec::new(),
            accepted: vec![false; count],
        };
        found.integers = found.integers();
        for node in graph.nodes() {
            let [v] = node.outputs[..] else { continue };
            if let Some(base) = found.function_of(node) {
                found.functions[v.index()] = Some(base);
            } else if let Some(error) = found.error_of(node) {
                found.errors[v.index()] = Some(error);
            }
        }
        let bases: BTreeSet<ValueId> = found.functions.iter().flatten().copied().collect();
        for base in bases {
            found.accepted[base.index()] = found.accepts(base, least);
        }
        found
    }

    /// The value that a value is a gathered function of.
    fn function(&self, v: ValueId) -> Option<ValueId> {
        self.functions[v.index()].filter(|base| self.accepted[base.index()])
    }

    /// The error that a value is a gathered multiple of, and what the factor is a function of.
    fn error(&self, v: ValueId) -> Option<(ValueId, ValueId)> {
        let (error, base) = self.errors[v.index()]?;
        base.filter(|base| self.accepted[base.index()]).map(|base| (error, base))
    }

    fn number(&self, v: ValueId) -> Option<F32> {
        let tensor = self.graph.constant_of(v)?;
        let one = tensor.ty().is_f32() && tensor.ty().count() == 1;
        one.then(|| F32::new(tensor.as_f32()[0]))
    }

    /// Whether functions of a value may be gathered: of the forward pass, and made from the data.
    fn may_be_base(&self, v: ValueId) -> bool {
        let made = self.graph.producer(v).is_some();
        made && self.data[v.index()] && self.roles.side(v) == Some(Side::Forward)
    }

    /// What the operand of an elementwise operation is a function of; itself, if nothing else. `Err`: no such function.
    fn base(&self, v: ValueId, ty: &TensorType) -> Result<Option<ValueId>, ()> {
        if self.number(v).is_some() {
            return Ok(None);
        }
        match self.functions[v.index()] {
            _ if self.graph.ty(v) != ty => Err(()),
            Some(base) => Ok(Some(base)),
            None if self.may_be_base(v) => Ok(Some(v)),
            None => Err(()),
        }
    }

    /// Whether a node has an integer form of its own: a bound of the value that nothing else is a function of.
    fn is_own(&self, node: &Node) -> bool {
        let plain = node.inputs.first().is_some_and(|v| self.functions[v.index()].is_none());
        plain && matches!(node.op, Op::Relu(_) | Op::Clip(_))
    }

    fn function_of(&self, node: &Node) -> Option<ValueId> {
        pointwise(&node.op)?;
        // What is rounded behind its bound has more bits: a base of its own where nothing else reads the operand.
        if self.is_own(node) {
            let forward =
                |reader: &&&Node| self.roles.side(reader.outputs[0]) == Some(Side::Forward);
            let v = node.inputs[0].index();
            if self.readers[v].iter().filter(forward).count() + usize::from(self.roots[v]) < 2 {
                return None;
            }
        }
        let ty = self.graph.ty(node.outputs[0]);
        let mut base = None;
        for &v in &node.inputs {
            match (self.base(v, ty).ok()?, base) {
                (Some(own), Some(other)) if own != other => return None,
                (own, other) => base = own.or(other),
            }
        }
        base
    }

    /// A node of a backward pass as a multiple of errors.
    fn linear(&self, node: &Node) -> Option<Linear> {
        let is_error = |v: ValueId| {
            self.roles.side(v) == Some(Side::Backward)
                && self.functions[v.index()].is_none()
                && self.number(v).is_none()
        };
        let (a, b) = (*node.inputs.first()?, node.inputs.get(1).copied());
        let times = |error, factor, how| {
            Some(Linear { errors: vec![error], negative: false, factor: Some((factor, how)) })
        };
        match (&node.op, b) {
            (Op::Mul(_), Some(b)) if is_error(a) && !is_error(b) => times(a, b, Factor::Times),
            (Op::Mul(_), Some(b)) if is_error(b) && !is_error(a) => times(b, a, Factor::Times),
            (Op::Div(_), Some(b)) if is_error(a) && !is_error(b) => times(a, b, Factor::Divided),
            (Op::ReluGradient(_), Some(b)) => times(b, a, Factor::Above(F32::new(0.0))),
            (Op::LeakyReluGradient(own), Some(b)) => times(b, a, Factor::Above(own.alpha)),
            (Op::ClipGradient(own), Some(b)) => times(b, a, Factor::Between(own.min, own.max)),
            (Op::Neg(_), None) => Some(Linear { errors: vec![a], negative: true, factor: None }),
            (Op::Add(_), Some(b)) => {
                Some(Linear { errors: vec![a, b], negative: false, factor: None })
            }
            _ => None,
        }
        .filter(|linear| linear.errors.iter().all(|&v| is_error(v)))
    }

    fn error_of(&self, node: &Node) -> Option<(ValueId, Option<ValueId>)> {
        let v = node.outputs[0];
        if self.roles.side(v) != Some(Side::Backward) {
            return None;
        }
        let (linear, ty) = (self.linear(node)?, self.graph.ty(v));
        let (mut error, mut base) = (None, None);
        let mut meets = |own: Option<ValueId>| match (own, base) {
            (Some(own), Some(other)) if own != other => None,
            _ => {
                base = own.or(base);
                Some(())
            }
        };
        for &v in &linear.errors {
            let (root, own) = match self.errors[v.index()] {
                Some((root, own)) => (root, own),
                None => (v, None),
            };
            if error.is_some_and(|error| error != root) || self.graph.ty(root) != ty {
                return None;
            }
            error = Some(root);
            meets(own)?;
        }
        if let Some((factor, _)) = linear.factor {
            let own = self.base(factor, ty).ok()?;
            if meets(own).is_none() {
                // A function of another value: the error begins anew.
                return Some((linear.errors[0], own));
            }
        }
        Some((error?, base))
    }

    /// Whether functions of a value are worth a table: there is one that is no line, and all that reads them takes integers.
    fn accepts(&self, base: ValueId, least: usize) -> bool {
        if !self.may_be_base(base) {
            return false;
        }
        let shape = &self.graph.ty(base).shape;
        let examples = if shape.rank() > 1 { shape[0].max(1) } else { 1 };
        if shape.count() / examples < least {
            return false;
        }
        // Its own readers, too: what a layer normalization divides in FP32 is not squared in 8 bits.
        let float = |node: &&Node| !self.takes_integers(node);
        if self.roots[base.index()] || self.outside(base, base).iter().any(float) {
            return false;
        }
        let mut curved = false;
        let of_base = |v: &ValueId| self.functions[v.index()] == Some(base);
        for v in self.graph.value_ids().filter(of_base) {
            if self.graph.producer(v).is_none_or(|node| self.is_own(node)) {
                continue;
            }
            let outside = self.outside(v, base);
            if self.roots[v.index()] || outside.iter().any(|node| !self.takes_integers(node)) {
                return false;
            }
            let mut steps = Steps::default();
            steps.function(self, base, v);
            if steps.steps.len() > LONGEST {
                return false;
            }
            // A mean of squares is part of a normalization.
            let square = matches!(&steps.steps[..], [step] if step.terms == [Term::Operand(0); 2]);
            let means = outside.iter().all(|node| matches!(node.op, Op::ReduceMean(_)));
            let some = !(outside.is_empty() || square && means);
            curved |= some && steps.steps.iter().any(is_curved);
        }
        let slope = |v: ValueId| match self.errors[v.index()] {
            Some((error, own)) if own == Some(base) => {
                let mut steps = Steps::default();
                steps.slope(self, (error, base), v);
                steps.steps.len() <= LONGEST
            }
            _ => true,
        };
        curved && self.graph.value_ids().all(slope)
    }

    /// The readers of a value that do not go on with functions of a base.
    fn outside(&self, v: ValueId, base: ValueId) -> Vec<&'a Node> {
        let inside = |node: &Node| {
            let of = node.outputs[0].index();
            let multiple = self.errors[of].is_some_and(|(_, own)| own == Some(base));
            node.outputs.len() == 1 && (self.functions[of] == Some(base) || multiple)
        };
        self.readers[v.index()].iter().copied().filter(|node| !inside(node)).collect()
    }

    /// Whether a gathered value is read by what is not gathered with it.
    fn needed(&self, v: ValueId) -> bool {
        let base = self.functions[v.index()].or(self.errors[v.index()].and_then(|(_, base)| base));
        self.roots[v.index()] || base.is_some_and(|base| !self.outside(v, base).is_empty())
    }

    /// Values that are an error times a number, and that only gathered multiples of the error read.
    fn passing(&self) -> Vec<bool> {
        let mut passing = vec![false; self.graph.values().len()];
        for v in self.graph.value_ids().rev() {
            let multiple = matches!(self.errors[v.index()], Some((_, None)));
            let gathered = |reader: &&Node| {
                let v = reader.outputs[0];
                self.error(v).is_some() || passing[v.index()]
            };
            passing[v.index()] =
                multiple && !self.roots[v.index()] && self.readers[v.index()].iter().all(gathered);
        }
        passing
    }

    /// Whether algorithms compute a reader in integers, as far as it reads an activation; of what is moved, its readers.
    fn takes_integers(&self, node: &Node) -> bool {
        self.integers[node.outputs[0].index()]
    }

    /// [`Functions::takes_integers`] of each value's node, in one walk from the last.
    fn integers(&self) -> Vec<bool> {
        let mut integers = vec![false; self.graph.values().len()];
        for node in self.graph.nodes().iter().rev() {
            let of = |node: &Node| integers[node.outputs[0].index()];
            let own = match node.op.kind() {
                OpKind::Reshape
                | OpKind::Transpose
                | OpKind::Slice
                | OpKind::Pad
                | OpKind::Concat => {
                    let v = node.outputs[0].index();
                    !self.roots[v] && self.readers[v].iter().all(|reader| of(reader))
                }
                kind => takes_integers(kind),
            };
            let v = node.outputs[0];
            // Which is FP32.
            let of_loss = self.roles.side(v) == Some(Side::Forward) && self.labels[v.index()];
            let own = own && !of_loss;
            node.outputs.iter().for_each(|v| integers[v.index()] = own);
        }
        integers
    }
}

/// Whether algorithms compute an operation in integers, as far as it reads an activation.
fn takes_integers(kind: OpKind) -> bool {
    kind.has(Property::Bilinear)
        || matches!(
            kind,
            OpKind::Add
                | OpKind::Mul
                | OpKind::Relu
                | OpKind::Clip
                | OpKind::MaxPool2d
                | OpKind::MaxPool2dGradient
                | OpKind::AvgPool2d
                | OpKind::ReduceMean
                | OpKind::BatchStatistics
                | OpKind::BatchNorm
                | OpKind::BatchNormGradient
                | OpKind::Dropout
        )
}

/// Whether a step makes more than a line of its operand.
fn is_curved(step: &Step) -> bool {
    let numbers = step.terms.iter().filter(|term| matches!(term, Term::Number(_))).count();
    match step.function {
        Function::Add | Function::Sub | Function::Neg => false,
        Function::Mul => numbers == 0,
        Function::Div => !matches!(step.terms[1], Term::Number(_)),
        _ => true,
    }
}

/// A formula that is written.
#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    known: BTreeMap<ValueId, Term>,
}

impl Steps {
    /// Beyond the longest formula nothing is added: its length says so.
    fn step(&mut self, function: Function, terms: &[Term]) -> Term {
        let step = Step { function, terms: terms.to_vec() };
        let known = self.steps.iter().position(|other| *other == step);
        Term::Step(known.unwrap_or_else(|| {
            if self.steps.len() <= LONGEST {
                self.steps.push(step);
            }
            self.steps.len() - 1
        }))
    }

    /// A value as a function of the base.
    fn function(&mut self, of: &Functions<'_>, base: ValueId, v: ValueId) -> Term {
        if v == base {
            return Term::Operand(0);
        }
        if let Some(known) = self.known.get(&v) {
            return *known;
        }
        let own = of.graph.producer(v).filter(|_| of.functions[v.index()].is_some());
        let term = match (of.number(v), own.and_then(|node| Some((node, pointwise(&node.op)?)))) {
            (None, Some((node, what))) => {
                let terms: Vec<Term> =
                    node.inputs.iter().map(|&u| self.function(of, base, u)).collect();
                self.pointwise(what, &terms)
            }
            (value, _) => Term::Number(value.unwrap_or(F32::new(f32::NAN))),
        };
        self.known.insert(v, term);
        term
    }

    fn pointwise(&mut self, what: Pointwise, terms: &[Term]) -> Term {
        match what {
            Pointwise::Of(function) => self.step(function, terms),
            Pointwise::Relu => self.step(Function::Maximum, &[terms[0], number(0.0)]),
            Pointwise::Clip(min, max) => {
                let above = self.step(Function::Maximum, &[terms[0], Term::Number(min)]);
                self.step(Function::Minimum, &[above, Term::Number(max)])
            }
            Pointwise::LeakyRelu(alpha) => {
                let above = self.step(Function::Maximum, &[terms[0], number(0.0)]);
                let below = self.step(Function::Minimum, &[terms[0], number(0.0)]);
                let scaled = self.step(Function::Mul, &[below, Term::Number(alpha)]);
                self.step(Function::Add, &[above, scaled])
            }
        }
    }

    /// 1 where a term is above 0, else 0.
    fn above(&mut self, term: Term) -> Term {
        let sign = self.step(Function::Sign, &[term]);
        self.step(Function::Maximum, &[sign, number(0.0)])
    }

    fn times(&mut self, a: Term, b: Term) -> Term {
        match (a, b) {
            (Term::Number(one), other) | (other, Term::Number(one)) if one.get() == 1.0 => other,
            _ => self.step(Function::Mul, &[a, b]),
        }
    }

    /// A value as a multiple of the error.
    fn slope(&mut self, of: &Functions<'_>, (error, base): (ValueId, ValueId), v: ValueId) -> Term {
        if v == error {
            return number(1.0);
        }
        if let Some(known) = self.known.get(&v) {
            return *known;
        }
        let Some(linear) = of.graph.producer(v).and_then(|node| of.linear(node)) else {
            return number(f32::NAN);
        };
        let mut sum = self.slope(of, (error, base), linear.errors[0]);
        for &u in &linear.errors[1..] {
            let own = self.slope(of, (error, base), u);
            sum = self.step(Function::Add, &[sum, own]);
        }
        if linear.negative {
            sum = self.step(Function::Neg, &[sum]);
        }
        let term = match linear.factor {
            None => sum,
            Some((factor, how)) => {
                let factor = self.function(of, base, factor);
                self.factor(sum, factor, how)
            }
        };
        self.known.insert(v, term);
        term
    }

    fn factor(&mut self, sum: Term, factor: Term, how: Factor) -> Term {
        match how {
            Factor::Times => self.times(sum, factor),
            Factor::Divided => self.step(Function::Div, &[sum, factor]),
            Factor::Above(rest) => {
                let above = self.above(factor);
                if rest.get() == 0.0 {
                    return self.times(sum, above);
                }
                // above + (1 - above) * rest
                let below = self.step(Function::Sub, &[number(1.0), above]);
                let below = self.step(Function::Mul, &[below, Term::Number(rest)]);
                let slope = self.step(Function::Add, &[above, below]);
                self.times(sum, slope)
            }
            Factor::Between(min, max) => {
                let over = self.step(Function::Sub, &[factor, Term::Number(min)]);
                let over = self.above(over);
                let under = self.step(Function::Sub, &[Term::Number(max), factor]);
                let under = self.above(under);
                let between = self.times(over, under);
                self.times(sum, between)
            }
        }
    }
}
