//! `nll_loss`. See [`NllLoss`].

use crate::graph::{Graph, ValueId};
use crate::keyword_enum;
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::likelihood::Plan;
use crate::ops::support::{elementwise};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule, NllLossGradient};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{Shape, TensorType};

keyword_enum! {
    /// How the losses of the elements become the result.
    pub enum Reduction {
        /// Every element's own loss.
        None = "none",
        /// Their sum.
        Sum = "sum",
        /// Their sum divided by the sum of the weights that count.
        Mean = "mean",
    }
}

operator! {
    /// Negative log likelihood.
    ///
    /// Operands: log-probabilities `[N,C,d...]`, labels i32 `[N,d...]`, optionally
    /// class weights `[C]`. Labels outside 0..C count as ignored.
    ///
    /// Order: a label that counts has the loss `-(weight * score)` (weight 1 without class weights), others 0;
    /// sums of losses and of weights from +0 in row-major order of the labels. If the weights sum to 0 the mean is
    /// NaN.
    pub struct NllLoss = "nll_loss" {
        /// How element losses become the result.
        pub reduction: Reduction,
        /// Label that does not count (use -1 for none).
        pub ignore_index: i64,
    }
}

impl Operator for NllLoss {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let plan = Plan::of("nll_loss", inputs, inputs.get(2).copied())?;
        rule::ensure(inputs.len() <= 3, || {
            format!("nll_loss takes 2 or 3 operand(s), here {}", inputs.len())
        })?;
        Ok(vec![plan.result(self.reduction)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let plan = Plan::checked(&[inputs[0].ty(), inputs[1].ty()]);
        let scores = inputs[0].as_f32();
        let terms = plan.terms(self.ignore_index, inputs[1], inputs.get(2).copied());
        let shape = inputs[1].shape().dims();
        if self.reduction == Reduction::None {
            let mut losses = vec![0f32; inputs[1].ty().count()];
            terms.for_each(|term| losses[term.position] = -(term.weight * scores[term.index]));
            return vec![Tensor::f32(shape, losses)];
        }
        let (total, weight) = terms.fold((0f32, 0f32), |(total, weight), term| {
            (total + -(term.weight * scores[term.index]), weight + term.weight)
        });
        let result = match self.reduction {
            Reduction::Mean if weight == 0.0 => numeric::float::NAN,
            Reduction::Mean => total / weight,
            _ => total,
        };
        vec![Tensor::f32(Shape::scalar(), vec![result])]
    }

    /// Of the log-probabilities only; asking for that of the class weights is an error.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if node.wanted.get(2) == Some(&true) {
            return Err(GradientError::NotDifferentiable("nll_loss with trained class weights"));
        }
        let mut gradients = vec![None; node.inputs.len()];
        if node.wanted[0] {
            let mut operands = vec![node.inputs[0], node.inputs[1], node.output_gradient()];
            operands.extend(node.inputs.get(2));
            let op =
                NllLossGradient { reduction: self.reduction, ignore_index: self.ignore_index };
            gradients[0] = Some(graph.add1(op, &operands, "nll_loss/gradient")?);
        }
        Ok(gradients)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let plan = Plan::checked(inputs);
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (scores, y) = (builder.input(0), builder.output(0));
        let weights = (inputs.len() == 3).then(|| builder.input(2));
        let each = self.reduction == Reduction::None;
        let total = builder.local("total", Expr::f32(0.0));
        let weight = builder.local("weight", Expr::f32(0.0));
        if each {
            builder.for_("i", plan.count(), |builder, i| builder.store(y, i, Expr::f32(0.0)));
        }
        plan.lower(&mut builder, self.ignore_index, weights, |builder, term| {
            let loss = (term.weight.clone() * builder.load(scores, term.index)).unary(Unary::Negate);
            if each {
                builder.store(y, term.position, loss);
            } else {
                let value = builder.get(total) + loss;
                builder.set(total, value);
                let value = builder.get(weight) + term.weight;
                builder.set(weight, value);
            }
        });
        if !each {
            let (total, weight) = (builder.get(total), builder.get(weight));
            let result = match self.reduction {
                Reduction::Mean => weight
                    .clone()
                    .equal(Expr::f32(0.0))
                    .select(Expr::f32(numeric::float::NAN), total.divide(weight)),
                _ => total,
            };
            builder.store(y, Expr::i64(0), result);
        }
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |reduction, ignore_index| NllLoss { reduction, ignore_index };
        let scores = || Tensor::f32([3, 2], vec![-0.5, -1.0, -2.0, -4.0, -8.0, -16.0]);
        let labels = || Tensor::i32([3], vec![1, 0, 1]);
        let weights = || Tensor::f32([2], vec![0.5, 2.0]);
        let scalar = |value| vec![Tensor::f32([], vec![value])];
        let mut cases = vec![
            Case::new(
                op(Reduction::None, -1),
                vec![scores(), labels()],
                vec![Tensor::f32([3], vec![1.0, 2.0, 16.0])],
            ),
            Case::new(op(Reduction::Sum, -1), vec![scores(), labels()], scalar(19.0)),
            Case::new(op(Reduction::Mean, 0), vec![scores(), labels()], scalar(8.5)),
            // (2*1 + 0.5*2 + 2*16) / (2 + 0.5 + 2)
            Case::new(
                op(Reduction::Mean, -1),
                vec![scores(), labels(), weights()],
                scalar(f32::from_bits(0x40f8_e38e)),
            ),
            Case::new(op(Reduction::Sum, 1), vec![scores(), labels(), weights()], scalar(1.0)),
            // Nothing counts.
            Case::new(
                op(Reduction::Mean, -1),
                vec![scores(), Tensor::i32([3], vec![-1, 2, i32::MIN])],
                scalar(numeric::float::NAN),
            ),
            Case::new(
                op(Reduction::None, 1),
                vec![scores(), labels(), weights()],
                vec![Tensor::f32([3], vec![0.0, 1.0, 0.0])],
            ),
        ];
        for &reduction in Reduction::ALL {
            for ignored in [-1, 2, i64::MAX] {
                for weighted in [false, true] {
                    let inputs = operands(weighted);
                    cases.push(Case::shape_only(op(reduction, ignored), inputs));
                }
            }
        }
        cases
    }
}

/// Log-probabilities [2,5,3,1], labels (some outside the classes), and class weights if `weighted`.
pub(crate) fn operands(weighted: bool) -> Vec<Tensor> {
    let scores = elementwise::ramp(30).into_iter().map(|x| x - 4.0).collect();
    let labels = Tensor::i32([2, 3, 1], vec![4, 2, 5, 0, -1, 2]);
    let mut operands = vec![Tensor::f32([2, 5, 3, 1], scores), labels];
    if weighted {
        operands.push(Tensor::f32([5], vec![0.25, 1.0, 0.3, 0.0, 3.0]));
    }
    operands
}
