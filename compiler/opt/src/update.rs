//! An optimizer's formulas as nodes of a training graph: what is elementwise becomes one `formula` for each trained
//! parameter, whatever else stands in a formula a node of its own.
//!
//! Numbers that are known when compiling are worked out in double precision and rounded once. What they leave nothing of is
//! left out: `(mul 0 ?w)`, `(add x 0)`, `(mul 1 x)`, and state that then nothing needs or that never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_ir::attributes::F32;
use trainc_ir::graph::{Graph, ValueId};
use trainc_ir::ops::formula::{Formula as FormulaOp, Function, Step, Term};
use trainc_ir::ops::{Op, SquaredNorm, TypeError};
use trainc_ir::{Shape, Tensor, TensorType};

use crate::algorithm::formula::Formula;
use crate::algorithm::optimizer::{GRADIENT, GRID, Optimizer, State, StateOf, WEIGHT};
use crate::codes::Grid;
use crate::roles::Role;

pub use self::epoch_end::{EpochEnd, epoch_end_graph, only_updates};

mod epoch_end;

/// What stands before the name of the step's own state.
pub const STEP_STATE: &str = "optimizer.";
/// Ending of the name of the FP32 value that a stored weight is made of.
pub const MASTER: &str = ".master";

/// A part of an update, numbered in an [`Update`].
type Part = usize;

/// Parts of formulas: equal ones are one.
#[derive(Clone, PartialEq, Debug)]
enum Expression {
    Number(f64),
    /// A value of the graph.
    Value(ValueId),
    /// The value of a state before the step, by its position.
    State(usize),
    /// An elementwise function.
    Function(Function, Vec<Part>),
    /// A result of any other operation, by its position; the only one if nothing is said.
    Operation(Op, Vec<Part>, Option<usize>),
}

/// A trained parameter to update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trained {
    /// Its position.
    pub(crate) parameter: usize,
    /// What formulas call `?w`: the parameter, or the FP32 value that it is made of.
    pub(crate) weight: ValueId,
    /// Its gradient.
    pub(crate) gradient: ValueId,
    /// What the gradient was multiplied by.
    pub(crate) scale: f64,
    /// What it is for.
    pub(crate) role: Option<Role>,
    /// The layers whose products it is in.
    pub(crate) layers: &'static [&'static str],
    /// What the algorithm calls it, if it added it to the model: the position in the optimizer's names.
    pub(crate) added: Option<usize>,
    /// The largest magnitude of a gradient's element.
    pub(crate) largest: Option<f64>,
    /// What it stands for, if it is kept in integers.
    pub(crate) grid: Option<Grid>,
    /// A factor of all gradients, a scalar.
    pub(crate) factor: Option<ValueId>,
}

/// When formulas apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// In each step.
    Step,
    /// At an epoch's end.
    EpochEnd,
}

/// Builds updates by an optimizer in a graph.
pub(crate) struct Updates<'a> {
    optimizer: &'a Optimizer,
    when: When,
    /// The inputs that formulas may name.
    inputs: BTreeMap<&'a str, ValueId>,
    /// The step's state before the step, and after it.
    step_states: BTreeMap<usize, (ValueId, Option<ValueId>)>,
}

impl<'a> Updates<'a> {
    pub(crate) fn new(optimizer: &'a Optimizer, inputs: BTreeMap<&'a str, ValueId>) -> Updates<'a> {
        Updates { optimizer, when: When::Step, inputs, step_states: BTreeMap::new() }
    }

    /// Adds what updates one parameter; its new value, in FP32.
    pub(crate) fn add(&mut self, graph: &mut Graph, of: &Trained) -> Result<ValueId, TypeError> {
        let mut update = self.simplified(Some(of))?;
        let mut needed = update.needed(&[update.weight()]);
        // What an epoch's end reads.
        for index in self.optimizer.read_at_epoch_end() {
            if !update.constant.contains(&index) {
                needed.extend(update.needed(&[update.after[&index]]));
                needed.insert(index);
            }
        }
        let own = graph.value(graph.parameters()[of.parameter].value).name.clone();
        let ty = graph.ty(of.weight).clone();
        let mut states = Vec::new();
        for &index in &needed {
            let state = &self.optimizer.state[index];
            let before = match state.of {
                StateOf::Step => self.step_state(graph, index)?.0,
                StateOf::Weight => {
                    let name = format!("{own}.{}", state.name);
                    let parameter = add_state(graph, &name, &ty, state.initial)?;
                    // What only an epoch's end changes stays.
                    if update.parts[update.after[&index]] != Expression::State(index) {
                        states.push((index, parameter));
                    }
                    graph.parameters()[parameter].value
                }
            };
            update.before.insert(index, before);
        }
        for (index, state) in self.optimizer.state.iter().enumerate() {
            let own_name = format!("{own}.{}", state.name);
            let absent = state.of == StateOf::Weight && !needed.contains(&index);
            if absent && self.optimizer.epoch_end.contains_key(&state.name) {
                free(graph, &own_name)?;
            }
        }
        let mut results = vec![(update.weight(), format!("{own}/update"))];
        for (index, _) in &states {
            let name = &self.optimizer.state[*index].name;
            results.push((update.after[index], format!("{own}/{name}")));
        }
        for index in update.after_steps.intersection(&needed).copied().collect::<Vec<_>>() {
            let after = self.step_state(graph, index)?.1;
            update.after_values.extend(after.map(|after| (update.after[&index], after)));
        }
        let values = update.emit(graph, &results, &ty.shape)?;
        for ((_, parameter), value) in states.iter().zip(&values[1..]) {
            graph.add_update(*parameter, *value);
        }
        Ok(values[0])
    }

    /// The step's state of that position, which the graph gets with its update the first time.
    fn step_state(
        &mut self,
        graph: &mut Graph,
        index: usize,
    ) -> Result<(ValueId, Option<ValueId>), TypeError> {
        if let Some(&known) = self.step_states.get(&index) {
            return Ok(known);
        }
        let state = &self.optimizer.state[index];
        let scalar = TensorType::f32(Shape::scalar());
        let name = format!("{STEP_STATE}{}", state.name);
        let parameter = add_state(graph, &name, &scalar, state.initial)?;
        let before = graph.parameters()[parameter].value;
        self.step_states.insert(index, (before, None));
        let mut update = self.simplified(None)?;
        let after = update.after[&index];
        for index in update.needed(&[after]) {
            let before = self.step_state(graph, index)?.0;
            update.before.insert(index, before);
        }
        let value = update.emit(graph, &[(after, format!("{name}/update"))], &Shape::scalar())?[0];
        if value != before {
            graph.add_update(parameter, value);
        }
        self.step_states.insert(index, (before, Some(value)));
        Ok((before, Some(value)))
    }

    /// The formulas for one parameter (or of the step's state alone), where state that never changes is a number.
    fn simplified(&self, of: Option<&Trained>) -> Result<Update<'a>, TypeError> {
        let mut constant = BTreeSet::new();
        let mut when = When::Step;
        loop {
            let mut update = Update {
                optimizer: self.optimizer,
                when,
                inputs: self.inputs.clone(),
                of: of.copied(),
                constant: constant.clone(),
                parts: Vec::new(),
                after: BTreeMap::new(),
                weight: None,
                before: BTreeMap::new(),
                after_steps: BTreeSet::new(),
                after_values: BTreeMap::new(),
                names: BTreeMap::new(),
            };
            for (index, state) in self.optimizer.state.iter().enumerate() {
                if of.is_none() && state.of == StateOf::Weight {
                    continue;
                }
                let part = update.named(&state.name, true)?;
                update.after.insert(index, part);
            }
            let unchanging = update.after.iter().filter(|(index, part)| {
                let state = &self.optimizer.state[**index];
                update.parts[**part] == Expression::Number(state.initial)
                    && !self.optimizer.epoch_end.contains_key(&state.name)
            });
            let found: BTreeSet<usize> = unchanging.map(|(index, _)| *index).collect();
            if when == When::Step && self.when == When::EpochEnd && found == constant {
                // What no step changes an epoch's end does not, either.
                when = When::EpochEnd;
                continue;
            }
            if when == When::EpochEnd || found == constant {
                if of.is_some() {
                    update.weight = Some(update.named(WEIGHT, true)?);
                }
                return Ok(update);
            }
            constant = found;
        }
    }
}

/// The most sums of squares that one formula adds.
const ADDED: usize = 100;

/// The factor that brings gradients together to a Euclidean norm, where it is larger: `min(norm / (root + 1e-6), 1)`.
pub(crate) fn clip_factor(
    graph: &mut Graph,
    gradients: &[ValueId],
    norm: f64,
) -> Result<ValueId, TypeError> {
    let name = format!("{STEP_STATE}clip");
    let number = |value: f64| Term::Number(F32::new(value as f32));
    let squares: Vec<ValueId> = gradients
        .iter()
        .map(|&gradient| graph.add1(SquaredNorm {}, &[gradient], format!("{name}/squares")))
        .collect::<Result<_, _>>()?;
    let mut total: Option<ValueId> = None;
    let parts = squares.chunks(ADDED).count();
    for (part, own) in squares.chunks(ADDED).enumerate() {
        let operands: Vec<ValueId> = total.into_iter().chain(own.iter().copied()).collect();
        let mut steps = Vec::new();
        let mut sum = Term::Operand(0);
        let mut step = |function, terms: &[Term]| {
            steps.push(Step { function, terms: terms.to_vec() });
            Term::Step(steps.len() - 1)
        };
        for operand in 1..operands.len() {
            sum = step(Function::Add, &[sum, Term::Operand(operand)]);
        }
        if part + 1 == parts {
            let root = step(Function::Sqrt, &[sum]);
            let root = step(Function::Add, &[root, number(1e-6)]);
            let factor = step(Function::Div, &[number(norm), root]);
            sum = step(Function::Minimum, &[factor, number(1.0)]);
        }
        let op = FormulaOp { steps, results: vec![sum] };
        total = Some(graph.add1(op, &operands, name.clone())?);
    }
    total.ok_or_else(|| TypeError::new("there is no gradient to clip"))
}

/// Whether state may have that name.
fn free(graph: &Graph, name: &str) -> Result<(), TypeError> {
    match graph.parameter_named(name) {
        None => Ok(()),
        Some(_) => Err(TypeError::new(format!(
            "the model has a parameter `{name}`, which is what the optimizer's state would be called"
        ))),
    }
}

/// Adds state of an optimizer; its position.
fn add_state(
    graph: &mut Graph,
    name: &str,
    ty: &TensorType,
    initial: f64,
) -> Result<usize, TypeError> {
    free(graph, name)?;
    let values = vec![initial as f32; ty.count()];
    let initial = Tensor::f32(ty.shape.clone(), values);
    graph.add_parameter(name, Arc::new(initial), false);
    Ok(graph.parameters().len() - 1)
}

/// The formulas of one parameter.
struct Update<'a> {
    optimizer: &'a Optimizer,
    when: When,
    inputs: BTreeMap<&'a str, ValueId>,
    of: Option<Trained>,
    /// State that is its initial value for ever.
    constant: BTreeSet<usize>,
    parts: Vec<Expression>,
    /// The new value of each state.
    after: BTreeMap<usize, Part>,
    weight: Option<Part>,
    /// Values of state before the step.
    before: BTreeMap<usize, ValueId>,
    /// The step's state whose new value is needed.
    after_steps: BTreeSet<usize>,
    /// Parts that the graph has as values.
    after_values: BTreeMap<Part, ValueId>,
    /// Formulas that are parts already.
    names: BTreeMap<String, Part>,
}

impl Update<'_> {
    fn weight(&self) -> Part {
        self.weight.unwrap_or_default()
    }

    fn part(&mut self, expression: Expression) -> Part {
        let known = self.parts.iter().position(|known| *known == expression);
        known.unwrap_or_else(|| {
            self.parts.push(expression);
            self.parts.len() - 1
        })
    }

    fn number(&mut self, value: f64) -> Part {
        self.part(Expression::Number(value))
    }

    /// What a name stands for.
    fn named(&mut self, name: &str, after: bool) -> Result<Part, TypeError> {
        let optimizer = self.optimizer;
        let state = optimizer.state.iter().position(|state| state.name == name);
        let formulas = match self.when {
            When::Step => &optimizer.update,
            When::EpochEnd => &optimizer.epoch_end,
        };
        let shared = name != WEIGHT && state.is_none() && formulas.contains_key(name);
        if after || shared {
            if let Some(&part) = self.names.get(name) {
                return Ok(part);
            }
            // Weights and state without a formula stay as they are.
            let stays = state.is_some() || name == WEIGHT;
            if let Some(formula) = formulas.get(name) {
                let part = self.build(formula)?;
                self.names.insert(name.to_string(), part);
                return Ok(part);
            }
            if !stays {
                return Err(unknown(name));
            }
        }
        if let Some(index) = state {
            return Ok(match self.constant.contains(&index) {
                true => self.number(optimizer.state[index].initial),
                false => self.part(Expression::State(index)),
            });
        }
        let (role, layers) = self.of.map_or((None, &[][..]), |of| (of.role, of.layers));
        let added = self.of.and_then(|of| of.added).map(|i| optimizer.added[i].as_str());
        if let Some(value) = optimizer.value(name, role, layers, added) {
            return Ok(self.number(value));
        }
        if let Some(at) = GRID.iter().position(|known| *known == name) {
            // Of a weight that is kept as it is: its own steps, without bounds.
            let Some(grid) = self.of.and_then(|of| of.grid) else {
                return Ok(self.number([1.0, f64::NEG_INFINITY, f64::INFINITY][at]));
            };
            return Ok(match at {
                0 => self.part(Expression::Value(grid.scale)),
                at => self.number([grid.least, grid.largest][at - 1]),
            });
        }
        let value = match (name, self.of) {
            (WEIGHT, Some(of)) => of.weight,
            (GRADIENT, Some(of)) => return Ok(self.gradient(&of)),
            _ => *self.inputs.get(name).ok_or_else(|| unknown(name))?,
        };
        Ok(self.part(Expression::Value(value)))
    }

    /// The gradient of the loss itself, as it is clipped.
    fn gradient(&mut self, of: &Trained) -> Part {
        let mut part = self.part(Expression::Value(of.gradient));
        if let Some(factor) = of.factor {
            let factor = self.part(Expression::Value(factor));
            part = self.function(Function::Mul, vec![part, factor]);
        }
        let scale = self.number(of.scale);
        part = self.function(Function::Div, vec![part, scale]);
        if let Some(largest) = of.largest {
            let (low, high) = (self.number(-largest), self.number(largest));
            part = self.function(Function::Maximum, vec![part, low]);
            part = self.function(Function::Minimum, vec![part, high]);
        }
        part
    }

    fn build(&mut self, formula: &Formula) -> Result<Part, TypeError> {
        match formula {
            Formula::Number(value) => Ok(self.number(*value)),
            Formula::Before(name) => self.named(name, false),
            Formula::After(name) => {
                let part = self.named(name, true)?;
                let step = |s: &State| s.name == *name && s.of == StateOf::Step;
                if self.of.is_some() {
                    self.after_steps.extend(self.optimizer.state.iter().position(step));
                }
                Ok(part)
            }
            Formula::Apply(op, operands) => {
                let operands = operands.iter().map(|f| self.build(f)).collect::<Result<_, _>>()?;
                Ok(self.apply(op, operands))
            }
            Formula::Result(slot, op, operands) => {
                let operands = operands.iter().map(|f| self.build(f)).collect::<Result<_, _>>()?;
                Ok(self.part(Expression::Operation(op.clone(), operands, Some(*slot))))
            }
        }
    }

    fn apply(&mut self, op: &Op, operands: Vec<Part>) -> Part {
        if let Some(function) = Function::of(op.kind()) {
            return self.function(function, operands);
        }
        // Whole where it stands alone, else two steps of a formula: the same bits.
        if let (Op::SgdUpdate(_), [w, g, rate]) = (op, &operands[..])
            && !matches!(self.parts[*g], Expression::Value(_))
        {
            let step = self.function(Function::Mul, vec![*rate, *g]);
            return self.function(Function::Sub, vec![*w, step]);
        }
        self.part(Expression::Operation(op.clone(), operands, None))
    }

    fn function(&mut self, function: Function, operands: Vec<Part>) -> Part {
        let number = |part: &Part| match self.parts[*part] {
            Expression::Number(value) => Some(value),
            _ => None,
        };
        let numbers: Vec<Option<f64>> = operands.iter().map(number).collect();
        if let Some(value) = folded(function, &numbers) {
            return self.number(value);
        }
        match (function, &numbers[..]) {
            (Function::Mul, [Some(x), _] | [_, Some(x)]) if *x == 0.0 => self.number(0.0),
            (Function::Mul, [Some(x), _]) | (Function::Add, [Some(x), _])
                if *x == f64::from(u8::from(function == Function::Mul)) =>
            {
                operands[1]
            }
            (Function::Mul | Function::Div, [_, Some(x)]) if *x == 1.0 => operands[0],
            (Function::Add | Function::Sub, [_, Some(x)]) if *x == 0.0 => operands[0],
            (Function::Maximum, [_, Some(x)]) if *x == f64::NEG_INFINITY => operands[0],
            (Function::Minimum, [_, Some(x)]) if *x == f64::INFINITY => operands[0],
            _ if operands.iter().any(|part| self.has_own_shape(*part)) => {
                match function.operation() {
                    Some(op) => self.part(Expression::Operation(op, operands, None)),
                    None => self.part(Expression::Function(function, operands)),
                }
            }
            _ => self.part(Expression::Function(function, operands)),
        }
    }

    /// Whether a part is no scalar and not of the weight's shape: sizes of steps, and what is made of them alone. Such parts meet
    /// others in operations, which broadcast.
    fn has_own_shape(&self, part: Part) -> bool {
        let Some(grid) = self.of.and_then(|of| of.grid) else { return false };
        match &self.parts[part] {
            Expression::Value(v) => grid.scale == *v,
            Expression::Operation(_, operands, _) => {
                operands.iter().all(|&operand| match self.parts[operand] {
                    Expression::Number(_) => true,
                    _ => self.has_own_shape(operand),
                })
            }
            _ => false,
        }
    }

    /// The state that parts need: what they are made of, and what the new value of that is.
    fn needed(&self, parts: &[Part]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut stack = parts.to_vec();
        while let Some(part) = stack.pop() {
            if !seen.insert(part) {
                continue;
            }
            match &self.parts[part] {
                Expression::State(index) => {
                    found.insert(*index);
                    stack.extend(self.after.get(index));
                }
                Expression::Function(_, operands) | Expression::Operation(_, operands, _) => {
                    stack.extend(operands);
                }
                Expression::Number(_) | Expression::Value(_) => {}
            }
        }
        found
    }

    /// Adds nodes that compute these parts, under these names.
    fn emit(
        &mut self,
        graph: &mut Graph,
        results: &[(Part, String)],
        shape: &Shape,
    ) -> Result<Vec<ValueId>, TypeError> {
        // First what is no formula, from the inside; states before the weight that follows from them.
        for (part, name) in results.iter().rev() {
            self.operations(graph, *part, name, shape)?;
        }
        // All formulas in one loop, under the first one's name.
        let open: Vec<&(Part, String)> =
            results.iter().filter(|(part, _)| self.value(*part).is_none()).collect();
        if let Some((_, name)) = open.first() {
            let parts: Vec<Part> = open.iter().map(|(part, _)| *part).collect();
            let values = self.formula(graph, &parts, name, shape)?;
            for ((part, name), value) in open.iter().zip(values) {
                graph.set_name(value, name);
                self.after_values.insert(*part, value);
            }
        }
        let value = |(part, _): &(Part, String)| {
            self.value(*part).ok_or_else(|| TypeError::new("a formula without a value"))
        };
        results.iter().map(value).collect()
    }

    /// The value that a part is in the graph, if it is one.
    fn value(&self, part: Part) -> Option<ValueId> {
        if let Some(&value) = self.after_values.get(&part) {
            return Some(value);
        }
        match &self.parts[part] {
            Expression::Value(value) => Some(*value),
            Expression::State(index) => self.before.get(index).copied(),
            _ => None,
        }
    }

    /// Adds the operations in a part that no formula can hold.
    fn operations(
        &mut self,
        graph: &mut Graph,
        part: Part,
        name: &str,
        shape: &Shape,
    ) -> Result<(), TypeError> {
        if self.value(part).is_some() {
            return Ok(());
        }
        match self.parts[part].clone() {
            Expression::Function(_, operands) => {
                for operand in operands {
                    self.operations(graph, operand, name, shape)?;
                }
            }
            Expression::Operation(op, operands, slot) => {
                let mut values = Vec::new();
                for &operand in &operands {
                    self.operations(graph, operand, name, shape)?;
                    let value = match self.value(operand) {
                        Some(value) => value,
                        None => {
                            let own = self.shape(graph, operand, shape);
                            self.formula(graph, &[operand], name, &own)?[0]
                        }
                    };
                    // A number of the weight's shape is another value.
                    if !matches!(self.parts[operand], Expression::Number(_)) {
                        self.after_values.insert(operand, value);
                    }
                    values.push(value);
                }
                let results = graph.add(op.clone(), &values, name)?;
                let (kind, count) = (op.kind().name(), results.len());
                match slot {
                    None if count == 1 => {
                        self.after_values.insert(part, results[0]);
                    }
                    Some(slot) if slot < count => {
                        for (slot, result) in results.into_iter().enumerate() {
                            let whole = (op.clone(), operands.clone(), Some(slot));
                            let part = self.part(Expression::Operation(whole.0, whole.1, whole.2));
                            self.after_values.insert(part, result);
                        }
                    }
                    _ => {
                        let message =
                            format!("`{kind}` has {count} result(s): (result{{0}} ({kind} ...))");
                        return Err(TypeError::new(message));
                    }
                }
            }
            Expression::Number(_) | Expression::Value(_) | Expression::State(_) => {}
        }
        Ok(())
    }

    /// The shape of a part by itself: the weight's, or a scalar's if nothing in it has the weight's.
    fn shape(&self, graph: &Graph, part: Part, shape: &Shape) -> Shape {
        let mut stack = vec![part];
        while let Some(part) = stack.pop() {
            match (self.value(part), &self.parts[part]) {
                (Some(value), _) if graph.ty(value).shape == *shape => return shape.clone(),
                (None, Expression::Function(_, operands)) => stack.extend(operands),
                _ => {}
            }
        }
        Shape::scalar()
    }

    /// Adds one node for parts that are made of functions; their values.
    fn formula(
        &self,
        graph: &mut Graph,
        parts: &[Part],
        name: &str,
        shape: &Shape,
    ) -> Result<Vec<ValueId>, TypeError> {
        if let [part] = parts
            && let Expression::Number(value) = self.parts[*part]
        {
            let tensor = Tensor::f32(shape.clone(), vec![value as f32; shape.count()]);
            return Ok(vec![graph.add_constant(name, Arc::new(tensor))]);
        }
        let mut written = Written {
            update: self,
            operands: Vec::new(),
            steps: Vec::new(),
            known: BTreeMap::new(),
        };
        let results: Vec<Term> =
            parts.iter().map(|&part| written.term(part)).collect::<Result<_, _>>()?;
        let Written { mut operands, steps, .. } = written;
        let shaped = operands.iter().any(|&v| graph.ty(v).shape == *shape);
        if let ([step], [Term::Step(0)]) = (&steps[..], &results[..])
            && let Some(operation) = whole(step).filter(|_| shaped)
        {
            let terms = step.terms.iter().map(|term| match term {
                Term::Operand(x) => operands[*x],
                Term::Step(_) | Term::Number(_) => operands[0],
            });
            return Ok(vec![graph.add1(operation, &terms.collect::<Vec<_>>(), name)?]);
        }
        if !shaped {
            // Results of the weight's shape are made of scalars alone: the weight gives the shape.
            operands.extend(self.of.map(|of| of.weight));
        }
        graph.add(FormulaOp { steps, results }, &operands, name)
    }
}

/// The operation that a step of operands alone is.
fn whole(step: &Step) -> Option<Op> {
    let operands = step.terms.iter().all(|term| matches!(term, Term::Operand(_)));
    step.function.operation().filter(|_| operands)
}

fn unknown(name: &str) -> TypeError {
    TypeError::new(format!("the optimizer's formulas name `?{name}`, which there is not"))
}

/// A function of numbers, in double precision.
fn folded(function: Function, numbers: &[Option<f64>]) -> Option<f64> {
    let a = (*numbers.first()?)?;
    let b = match numbers.get(1) {
        Some(b) => (*b)?,
        None => 0.0,
    };
    Some(match function {
        Function::Add => a + b,
        Function::Sub => a - b,
        Function::Mul => a * b,
        Function::Div => a / b,
        Function::Maximum => a.max(b),
        Function::Minimum => a.min(b),
        Function::Abs => a.abs(),
        Function::Neg => -a,
        Function::Sqrt => a.sqrt(),
        Function::Floor => a.floor(),
        Function::Ceil => a.ceil(),
        Function::Reciprocal => 1.0 / a,
        // Whose last bits differ between machines, or that few write of numbers.
        Function::Sign
        | Function::Exp
        | Function::Log
        | Function::Sigmoid
        | Function::Tanh
        | Function::Erf => return None,
    })
}

/// A formula as it is written down.
struct Written<'u, 'a> {
    update: &'u Update<'a>,
    operands: Vec<ValueId>,
    steps: Vec<Step>,
    known: BTreeMap<Part, Term>,
}

impl Written<'_, '_> {
    fn term(&mut self, part: Part) -> Result<Term, TypeError> {
        if let Some(&term) = self.known.get(&part) {
            return Ok(term);
        }
        let term = match (self.update.value(part), &self.update.parts[part]) {
            (Some(value), _) => {
                let known = self.operands.iter().position(|&v| v == value);
                Term::Operand(known.unwrap_or_else(|| {
                    self.operands.push(value);
                    self.operands.len() - 1
                }))
            }
            (None, Expression::Number(value)) => Term::Number(F32::new(*value as f32)),
            (None, Expression::Function(function, operands)) => {
                let terms =
                    operands.iter().map(|&operand| self.term(operand)).collect::<Result<_, _>>()?;
                self.steps.push(Step { function: *function, terms });
                Term::Step(self.steps.len() - 1)
            }
            (None, Expression::State(index)) => {
                let name = &self.update.optimizer.state[*index].name;
                return Err(TypeError::new(format!("state `{name}` has no value here")));
            }
            (None, Expression::Operation(op, ..)) => {
                let name = op.kind().name();
                return Err(TypeError::new(format!("`{name}` has no value here")));
            }
            (None, Expression::Value(_)) => return Err(TypeError::new("a value that is none")),
        };
        self.known.insert(part, term);
        Ok(term)
    }
}
