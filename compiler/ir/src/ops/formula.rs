//! `formula`. See [`Formula`].

use crate::attributes::{Attribute, Attributes, F32};
use crate::keyword_enum;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric;
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::support::elementwise;
use crate::ops::{Case, Op, OpKind, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::text::cursor::{Cursor, SyntaxError};
use crate::types::{Shape, TensorType};

/// The most steps of a formula.
pub const LONGEST: usize = 256;

keyword_enum! {
    /// What a step computes: the operation of that name, of FP32 elements.
    pub enum Function {
        /// `a + b`.
        Add = "add",
        /// `a - b`.
        Sub = "sub",
        /// `a * b`.
        Mul = "mul",
        /// `a / b`.
        Div = "div",
        /// The larger.
        Maximum = "maximum",
        /// The smaller.
        Minimum = "minimum",
        /// `|a|`.
        Abs = "abs",
        /// `-a`.
        Neg = "neg",
        /// -1, 0 or 1.
        Sign = "sign",
        /// The square root.
        Sqrt = "sqrt",
        /// The largest integer up to `a`.
        Floor = "floor",
        /// The smallest integer from `a` on.
        Ceil = "ceil",
        /// `1 / a`.
        Reciprocal = "reciprocal",
        /// e to the power of `a`.
        Exp = "exp",
        /// The natural logarithm.
        Log = "log",
        /// `1 / (1 + e^-a)`.
        Sigmoid = "sigmoid",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
    }
}

impl Function {
    /// Its name, which is the operation's.
    pub fn name(self) -> String {
        let mut name = String::new();
        self.print(&mut name);
        name
    }

    /// The function that an operation is, if it is one.
    pub fn of(kind: OpKind) -> Option<Function> {
        Function::ALL.iter().copied().find(|f| f.name() == kind.name())
    }

    /// The operation's kind.
    pub fn kind(self) -> OpKind {
        let name = self.name();
        OpKind::from_name(&name).unwrap_or_else(|| unreachable!("`{name}` is an operation"))
    }

    /// The operation, where it has no attributes.
    pub fn operation(self) -> Option<Op> {
        self.kind().parse_attributes(&mut Cursor::new("")).ok()
    }

    /// How many operands it takes.
    pub fn arity(self) -> usize {
        match self {
            Function::Add
            | Function::Sub
            | Function::Mul
            | Function::Div
            | Function::Maximum
            | Function::Minimum => 2,
            _ => 1,
        }
    }

    fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            Function::Add => a + b,
            Function::Sub => a - b,
            Function::Mul => a * b,
            Function::Div => a / b,
            Function::Maximum => if a > b || a.is_nan() { a } else { b },
            Function::Minimum => if a < b || a.is_nan() { a } else { b },
            Function::Abs => a.abs(),
            Function::Neg => -a,
            Function::Sign => if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { 0.0 },
            Function::Sqrt => a.sqrt(),
            Function::Floor => a.floor(),
            Function::Ceil => a.ceil(),
            Function::Reciprocal => 1.0 / a,
            Function::Exp => numeric::exp(a),
            Function::Log => numeric::log(a),
            Function::Sigmoid => numeric::sigmoid(a),
            Function::Tanh => numeric::tanh(a),
            Function::Erf => numeric::erf(a),
        }
    }

    fn expression(self, builder: &mut LoopBuilder, a: Expr, b: Expr) -> Expr {
        match self {
            Function::Add => a + b,
            Function::Sub => a - b,
            Function::Mul => a * b,
            Function::Div => a.divide(b),
            // The comparison fails where one is NaN, which gives `b`.
            Function::Maximum => a.clone().not_equal(a.clone()).select(a.clone(), a.maximum(b)),
            Function::Minimum => a.clone().not_equal(a.clone()).select(a.clone(), a.minimum(b)),
            Function::Abs => a.unary(Unary::FloatAbs),
            Function::Neg => a.unary(Unary::Negate),
            Function::Sign => {
                let zero = || Expr::f32(0.0);
                let negative = a.clone().less(zero()).select(Expr::f32(-1.0), zero());
                zero().less(a).select(Expr::f32(1.0), negative)
            }
            Function::Sqrt => a.unary(Unary::Sqrt),
            Function::Floor => a.unary(Unary::Floor),
            Function::Ceil => a.unary(Unary::Ceil),
            Function::Reciprocal => Expr::f32(1.0).divide(a),
            Function::Exp => numeric::float::exp_expression(builder, a),
            Function::Log => numeric::float::log_expression(builder, a),
            Function::Sigmoid => numeric::float::sigmoid_expression(builder, a),
            Function::Tanh => numeric::float::tanh_expression(builder, a),
            Function::Erf => numeric::float::erf_expression(builder, a),
        }
    }
}

/// What a step takes, or a result is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Term {
    /// An operand of the formula: `x0`.
    Operand(usize),
    /// What an earlier step gave: `s0`.
    Step(usize),
    /// A number.
    Number(F32),
}

impl Attribute for Term {
    fn print(&self, out: &mut String) {
        match self {
            Term::Operand(i) => out.push_str(&format!("x{i}")),
            Term::Step(i) => out.push_str(&format!("s{i}")),
            Term::Number(value) => value.print(out),
        }
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Term, SyntaxError> {
        Ok(match cursor.peek() {
            Some('x') => {
                cursor.expect("x")?;
                Term::Operand(cursor.parse_number()?)
            }
            Some('s') => {
                cursor.expect("s")?;
                Term::Step(cursor.parse_number()?)
            }
            _ => Term::Number(F32::parse(cursor)?),
        })
    }
}

/// A function of terms: `mul(x0, 0.5)`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Step {
    /// What it computes.
    pub function: Function,
    /// Of what.
    pub terms: Vec<Term>,
}

impl Attribute for Step {
    fn print(&self, out: &mut String) {
        self.function.print(out);
        for (i, term) in self.terms.iter().enumerate() {
            out.push_str(if i == 0 { "(" } else { ", " });
            term.print(out);
        }
        out.push(')');
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Step, SyntaxError> {
        let function = Function::parse(cursor)?;
        cursor.expect("(")?;
        let mut terms = vec![Term::parse(cursor)?];
        while cursor.accept(",") {
            terms.push(Term::parse(cursor)?);
        }
        cursor.expect(")")?;
        Ok(Step { function, terms })
    }
}

operator! {
    /// Elementwise formulas in one loop (FP32): an optimizer's step. Operands: tensors of one shape `S`, and scalars, which
    /// each element meets; results: of shape `S` each (scalars where all operands are). Each step rounds once, as the
    /// operation of its name.
    pub struct Formula = "formula" {
        /// What is computed, in order: functions of operands (`x0`), earlier steps (`s0`) and numbers.
        pub steps: Vec<Step>,
        /// What the results are.
        pub results: Vec<Term>,
    }
}

impl Formula {
    /// The shape of the results; none of any operands that do not fit.
    fn shape<'a>(inputs: &[&'a TensorType]) -> Option<&'a Shape> {
        let mut tensors = inputs.iter().filter(|ty| ty.shape.rank() > 0);
        let first = tensors.next().or(inputs.first())?;
        tensors.all(|ty| ty.shape == first.shape).then_some(&first.shape)
    }

    fn check_terms(&self, terms: &[Term], operands: usize, before: usize) -> Result<(), TypeError> {
        for term in terms {
            let known = match term {
                Term::Operand(i) => *i < operands,
                Term::Step(i) => *i < before,
                Term::Number(_) => true,
            };
            rule::ensure(known, || {
                let mut text = String::new();
                term.print(&mut text);
                format!("formula: there is no `{text}` where it is used")
            })?;
        }
        Ok(())
    }
}

impl Operator for Formula {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Variadic];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure(!inputs.is_empty() && !self.results.is_empty(), || {
            "formula: takes an operand or more, and gives a result or more".into()
        })?;
        rule::ensure(self.steps.len() <= LONGEST, || {
            format!("formula: at most {LONGEST} steps, here {}", self.steps.len())
        })?;
        for (i, step) in self.steps.iter().enumerate() {
            let (found, arity) = (step.terms.len(), step.function.arity());
            rule::ensure(found == arity, || {
                format!("formula: `{}` takes {arity} operand(s), here {found}", step.function.name())
            })?;
            self.check_terms(&step.terms, inputs.len(), i)?;
        }
        self.check_terms(&self.results, inputs.len(), self.steps.len())?;
        let Some(shape) = Formula::shape(inputs) else {
            return Err(TypeError::new("formula: operands that are no scalars have one shape"));
        };
        Ok(vec![TensorType::f32(shape.clone()); self.results.len()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let types: Vec<&TensorType> = inputs.iter().map(|x| x.ty()).collect();
        let shape = Formula::shape(&types).expect("checked by infer").clone();
        let values: Vec<&[f32]> = inputs.iter().map(|x| x.as_f32()).collect();
        let mut results = vec![Vec::with_capacity(shape.count()); self.results.len()];
        let mut steps = Vec::with_capacity(self.steps.len());
        for i in 0..shape.count() {
            let value = |steps: &[f32], term: &Term| match *term {
                Term::Operand(x) => values[x][if inputs[x].shape().rank() == 0 { 0 } else { i }],
                Term::Step(s) => steps[s],
                Term::Number(number) => number.get(),
            };
            steps.clear();
            for step in &self.steps {
                let a = value(&steps, &step.terms[0]);
                let b = step.terms.get(1).map_or(0.0, |term| value(&steps, term));
                steps.push(step.function.apply(a, b));
            }
            for (result, term) in results.iter_mut().zip(&self.results) {
                result.push(value(&steps, term));
            }
        }
        results.into_iter().map(|values| Tensor::f32(shape.dims(), values)).collect()
    }

    /// What only scalars make is computed before the loop; all operands of an element are read before its results are stored.
    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let scalar = |x: usize| inputs[x].shape.rank() == 0;
        let mut operands: Vec<Option<Expr>> = vec![None; inputs.len()];
        for x in (0..inputs.len()).filter(|&x| scalar(x)) {
            let value = builder.load(builder.input(x), Expr::i64(0));
            operands[x] = Some(builder.let_("scalar", value));
        }
        let mut steps: Vec<Option<Expr>> = vec![None; self.steps.len()];
        self.lower_steps(&mut builder, &operands, &mut steps);
        builder.for_("i", outputs[0].count(), |builder, i| {
            for x in (0..inputs.len()).filter(|&x| !scalar(x)) {
                let value = builder.load(builder.input(x), i.clone());
                operands[x] = Some(builder.let_("x", value));
            }
            self.lower_steps(builder, &operands, &mut steps);
            for (n, term) in self.results.iter().enumerate() {
                let value = known(term, &operands, &steps).expect("all are known here");
                builder.store(builder.output(n), i.clone(), value);
            }
        });
        builder.finish()
    }

    fn may_overwrite(&self, _operand: usize) -> bool {
        true
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn overwrites(&self, _result: usize, _operand: usize) -> bool {
        true
    }

    fn cases() -> Vec<Case> {
        let number = |x: f32| Term::Number(F32::new(x));
        let (x, s) = (Term::Operand, Term::Step);
        let step = |function, terms: &[Term]| Step { function, terms: terms.to_vec() };
        // m' = 0.5 m + g, w' = w - rate m'.
        let momentum = Formula {
            steps: vec![
                step(Function::Mul, &[number(0.5), x(1)]),
                step(Function::Add, &[s(0), x(2)]),
                step(Function::Mul, &[x(3), s(1)]),
                step(Function::Sub, &[x(0), s(2)]),
            ],
            results: vec![s(3), s(1)],
        };
        let scalars = Formula {
            steps: vec![step(Function::Add, &[x(0), number(1.0)])],
            results: vec![s(0), x(0), number(2.5)],
        };
        let every = Formula {
            steps: Function::ALL
                .iter()
                .enumerate()
                .map(|(i, &f)| step(f, &[x(i % 2), x(1 - i % 2)][..f.arity()]))
                .collect(),
            results: (0..Function::ALL.len()).map(s).collect(),
        };
        // The scalar's root is taken once.
        let hoisted = Formula {
            steps: vec![
                step(Function::Sqrt, &[x(1)]),
                step(Function::Maximum, &[s(0), number(1.0e-3)]),
                step(Function::Div, &[x(0), s(1)]),
            ],
            results: vec![s(2)],
        };
        // Two averages that follow others.
        let averages = Formula {
            steps: vec![
                step(Function::Mul, &[x(0), number(0.9)]),
                step(Function::Mul, &[number(0.1), x(1)]),
                step(Function::Add, &[s(0), s(1)]),
                step(Function::Mul, &[x(2), number(0.9)]),
                step(Function::Mul, &[x(0), number(0.1)]),
                step(Function::Add, &[s(3), s(4)]),
            ],
            results: vec![s(2), s(5)],
        };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let scalar = |x: f32| Tensor::f32([], vec![x]);
        let extremes = elementwise::extreme_tensor();
        let count = extremes.ty().count();
        let ramp = Tensor::f32(extremes.shape().dims(), elementwise::ramp(count));
        let wide = Tensor::f32([3, 5, 7], elementwise::ramp(105));
        vec![
            Case::new(
                momentum.clone(),
                vec![f32(&[1.0, 2.0]), f32(&[4.0, -2.0]), f32(&[1.0, 0.5]), scalar(0.25)],
                vec![f32(&[0.25, 2.125]), f32(&[3.0, -0.5])],
            ),
            Case::new(
                scalars,
                vec![scalar(3.0)],
                vec![scalar(4.0), scalar(3.0), scalar(2.5)],
            ),
            Case::new(
                hoisted.clone(),
                vec![f32(&[6.0, -1.0, 0.0]), scalar(4.0)],
                vec![f32(&[3.0, -0.5, 0.0])],
            ),
            Case::shape_only(hoisted, vec![extremes.clone(), scalar(0.0)]),
            Case::shape_only(every.clone(), vec![extremes.clone(), ramp.clone()]),
            Case::shape_only(every, vec![ramp.clone(), extremes.clone()]),
            Case::shape_only(averages.clone(), vec![extremes.clone(), ramp.clone(), ramp]),
            Case::shape_only(averages, vec![wide.clone(), wide.clone(), wide.clone()]),
            Case::shape_only(momentum, vec![wide.clone(), wide.clone(), wide, scalar(0.1)]),
        ]
    }
}

/// A term whose parts are known so far.
fn known(term: &Term, operands: &[Option<Expr>], steps: &[Option<Expr>]) -> Option<Expr> {
    match *term {
        Term::Operand(x) => operands[x].clone(),
        Term::Step(i) => steps[i].clone(),
        Term::Number(number) => Some(Expr::f32(number.get())),
    }
}

impl Formula {
    /// Computes every step that is not known yet and whose terms are.
    fn lower_steps(
        &self,
        builder: &mut LoopBuilder,
        operands: &[Option<Expr>],
        steps: &mut [Option<Expr>],
    ) {
        for (i, step) in self.steps.iter().enumerate() {
            if steps[i].is_some() {
                continue;
            }
            let terms: Option<Vec<Expr>> =
                step.terms.iter().map(|term| known(term, operands, steps)).collect();
            let Some(terms) = terms else { continue };
            let (a, b) = (terms[0].clone(), terms.get(1).unwrap_or(&terms[0]).clone());
            let value = step.function.expression(builder, a, b);
            steps[i] = Some(builder.let_("s", value));
        }
    }
}
