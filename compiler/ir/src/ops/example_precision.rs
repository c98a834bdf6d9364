//! `example_precision`. See [`ExamplePrecision`].

use crate::attributes::{Attribute, Attributes};
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::ops::properties::Work;
use crate::ops::support::{elementwise, sample};
use crate::ops::{
    Case, Concat, Differentiated, GradientError, Mul, Op, Operator, ReduceSum, Reshape, TypeError,
    rule,
};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::text::cursor::{Cursor, SyntaxError};
use crate::types::{Shape, TensorType};
use crate::{keyword_enum, operator};

keyword_enum! {
    /// What of a value has the precision.
    pub enum PrecisionOf {
        /// The value.
        Value = "value",
        /// The error of the value, when there is one.
        ErrorOf = "error_of",
        /// The value is an error.
        Error = "error",
    }
}

operator! {
    /// `x` (FP32), each of whose examples has one of several precisions: its own choice among numbers of levels between its least and its
    /// largest element. Operands: `x` [batch, ...]; the choice, FP32 [batch, options] or [1, options], one 1 in each row and 0 elsewhere.
    /// The value itself stays: an algorithm's translation rounds it.
    ///
    /// The gradient of `x` is straight-through. That of option k of an example's choice is the sum over the example's elements of the
    /// error times the value in option k's precision, as if the options' values were added, each times its number in the choice. With `of=error_of`
    /// nothing happens to the value; its error becomes one of that precision, and the choice has no gradient.
    pub struct ExamplePrecision = "example_precision" {
        /// What has the precision.
        pub of: PrecisionOf,
        /// Which of the model's choices it is.
        pub block: usize,
        /// For each option the number of steps between the least and the largest element: `2^bits - 1`.
        pub steps: Vec<usize>,
    }
}

/// The type of a choice for examples of a value, checked.
pub(super) fn check_choice(
    name: &str,
    options: usize,
    [x, choice]: [&TensorType; 2],
) -> Result<(), TypeError> {
    let rows = choice.shape.first().copied();
    let fits = choice.shape.rank() == 2
        && choice.shape[1] == options
        && (rows == Some(1) || rows == x.shape.first().copied());
    rule::ensure(fits && x.shape.rank() > 0, || {
        format!("{name}: a choice among {options} options for each example of {x}, here {choice}")
    })
}

/// The options, checked.
pub(super) fn check_steps(name: &str, steps: &[usize]) -> Result<(), TypeError> {
    let fit = steps.iter().all(|steps| (1..=255).contains(steps));
    rule::ensure(!steps.is_empty() && fit, || format!("{name}: 1 to 255 steps, here {steps:?}"))
}

impl Attribute for ExamplePrecision {
    fn print(&self, out: &mut String) {
        Attribute::print(&Op::from(self.clone()), out);
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<ExamplePrecision, SyntaxError> {
        let at = cursor.clone();
        match Op::parse(cursor)? {
            Op::ExamplePrecision(op) => Ok(op),
            other => Err(at.error(format!("`{}` is no {}", other.kind().name(), Self::NAME))),
        }
    }
}

impl Operator for ExamplePrecision {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, choice] = rule::operands::<2>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        check_steps(Self::NAME, &self.steps)?;
        check_choice(Self::NAME, self.steps.len(), [x, choice])?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        vec![inputs[0].clone()]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let (x, choice, dy) = (node.inputs[0], node.inputs[1], node.output_gradient());
        if self.of == PrecisionOf::ErrorOf {
            let op = ExamplePrecision { of: PrecisionOf::Error, ..self.clone() };
            let error = || graph.add1(op, &[dy, choice], "example_precision/error");
            return Ok(vec![node.wanted[0].then(error).transpose()?, None]);
        }
        let mut gradients = vec![node.wanted[0].then_some(dy), None];
        if node.wanted[1] {
            let ty = graph.ty(x).clone();
            let name = |part: &str| format!("{}/{part}", Self::NAME);
            let mut all = Vec::new();
            for option in 0..self.steps.len() {
                let row = (0..self.steps.len()).map(|k| if k == option { 1.0 } else { 0.0 });
                let row = Tensor::f32([1, self.steps.len()], row.collect());
                let row = graph.add_constant(format!("option_{option}"), row);
                let value = graph.add1(self.clone(), &[x, row], name("option"))?;
                let product = graph.add1(Mul {}, &[dy, value], name("product"))?;
                let axes = (1..ty.shape.rank()).collect::<Vec<_>>();
                let sum = match axes.is_empty() {
                    true => product,
                    false => {
                        let op = ReduceSum { axes, keep_dims: false };
                        graph.add1(op, &[product], name("sum"))?
                    }
                };
                let shape: Shape = [ty.shape[0], 1].into();
                all.push(graph.add1(Reshape { shape }, &[sum], name("column"))?);
            }
            let all = graph.add1(Concat { axis: 1 }, &all, name("choice"))?;
            let single = graph.ty(choice).shape[0] == 1 && ty.shape[0] != 1;
            gradients[1] = Some(match single {
                true => {
                    let op = ReduceSum { axes: vec![0], keep_dims: true };
                    graph.add1(op, &[all], name("choice"))?
                }
                false => all,
            });
        }
        Ok(gradients)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        elementwise::lower_unary(inputs, outputs, |_, x| x)
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let op = |of| ExamplePrecision { of, block: 0, steps: vec![7, 255] };
        let choice = || Tensor::f32([3, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let x = || Tensor::f32([3, 2], vec![1.5, -0.0, f32::INFINITY, 2.0, 3.0, 1.0e-45]);
        let mut cases = vec![Case::new(op(PrecisionOf::Value), vec![x(), choice()], vec![x()])];
        for &of in PrecisionOf::ALL {
            let one = Tensor::f32([1, 2], vec![0.0, 1.0]);
            cases.push(Case::shape_only(op(of), vec![sample::f32([3, 2, 5], 1), choice()]));
            cases.push(Case::shape_only(op(of), vec![sample::f32([4, 3], 2), one]));
        }
        cases
    }
}
