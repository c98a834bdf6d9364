//! `nll_loss_gradient`. See [`NllLossGradient`].

use crate::loops::builder::{LoopBuilder};
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::nll_loss::{Reduction, operands};
use crate::ops::support::likelihood::Plan;
use crate::ops::support::{elementwise};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{Tensor};
use crate::types::{TensorType};

operator! {
    /// Gradient of `nll_loss` with respect to the log-probabilities. Operands: log-probabilities, labels,
    /// `dy`, optionally class weights.
    ///
    /// Where a label counts, at its class: `-(weight * dy)`, for the mean divided by the sum of the weights that count
    /// (0 if that is 0); else 0.
    pub struct NllLossGradient = "nll_loss_gradient" {
        /// As in `nll_loss`.
        pub reduction: Reduction,
        /// As in `nll_loss`.
        pub ignore_index: i64,
    }
}

impl Operator for NllLossGradient {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let plan = Plan::of("nll_loss_gradient", inputs, inputs.get(3).copied())?;
        rule::ensure(matches!(inputs.len(), 3 | 4), || {
            format!("nll_loss_gradient takes 3 or 4 operand(s), here {}", inputs.len())
        })?;
        let expected = plan.result(self.reduction);
        rule::ensure(*inputs[2] == expected, || {
            format!("nll_loss_gradient: dy has type {expected}, here {}", inputs[2])
        })?;
        Ok(vec![inputs[0].clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let plan = Plan::checked(&[inputs[0].ty(), inputs[1].ty()]);
        let dy = inputs[2].as_f32();
        let terms = || plan.terms(self.ignore_index, inputs[1], inputs.get(3).copied());
        let total = terms().fold(0f32, |total, term| total + term.weight);
        let mut dx = vec![0f32; inputs[0].ty().count()];
        for term in terms() {
            let dy = if self.reduction == Reduction::None { dy[term.position] } else { dy[0] };
            let error = -(term.weight * dy);
            dx[term.index] = match self.reduction {
                Reduction::Mean if total == 0.0 => 0.0,
                Reduction::Mean => error / total,
                _ => error,
            };
        }
        vec![Tensor::f32(inputs[0].shape().dims(), dx)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let plan = Plan::checked(inputs);
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (dy, dx) = (builder.input(2), builder.output(0));
        let weights = (inputs.len() == 4).then(|| builder.input(3));
        let mean = self.reduction == Reduction::Mean;
        builder.for_("i", inputs[0].count(), |builder, i| builder.store(dx, i, Expr::f32(0.0)));
        let total = builder.local("total", Expr::f32(0.0));
        if mean {
            plan.lower(&mut builder, self.ignore_index, weights, |builder, term| {
                let value = builder.get(total) + term.weight;
                builder.set(total, value);
            });
        }
        let total = builder.get(total);
        plan.lower(&mut builder, self.ignore_index, weights, |builder, term| {
            let each = self.reduction == Reduction::None;
            let place = if each { term.position } else { Expr::i64(0) };
            let mut error = (term.weight * builder.load(dy, place)).unary(Unary::Negate);
            if mean {
                let none = total.clone().equal(Expr::f32(0.0));
                error = none.select(Expr::f32(0.0), error.divide(total));
            }
            builder.store(dx, term.index, error);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |reduction, ignore_index| NllLossGradient { reduction, ignore_index };
        let scores = || Tensor::f32([3, 2], vec![-0.5, -1.0, -2.0, -4.0, -8.0, -16.0]);
        let labels = || Tensor::i32([3], vec![1, 0, 1]);
        let weights = || Tensor::f32([2], vec![0.5, 1.5]);
        let scalar = |value| Tensor::f32([], vec![value]);
        let result = |values: [f32; 6]| vec![Tensor::f32([3, 2], values.to_vec())];
        let mut cases = vec![
            Case::new(
                op(Reduction::None, -1),
                vec![scores(), labels(), Tensor::f32([3], vec![1.0, 2.0, -3.0])],
                result([0.0, -1.0, -2.0, 0.0, 0.0, 3.0]),
            ),
            Case::new(
                op(Reduction::Sum, 0),
                vec![scores(), labels(), scalar(2.0), weights()],
                result([0.0, -3.0, 0.0, 0.0, 0.0, -3.0]),
            ),
            // Weights sum to 3.5; 1.5 * 7 / 3.5 = 3.
            Case::new(
                op(Reduction::Mean, -1),
                vec![scores(), labels(), scalar(7.0), weights()],
                result([0.0, -3.0, -1.0, 0.0, 0.0, -3.0]),
            ),
            Case::new(
                op(Reduction::Mean, -1),
                vec![scores(), labels(), scalar(7.0), Tensor::f32([2], vec![0.0, 0.0])],
                result([0.0; 6]),
            ),
        ];
        for &reduction in Reduction::ALL {
            for ignored in [-1, 2, i64::MAX] {
                for weighted in [false, true] {
                    let mut inputs = operands(weighted);
                    let dy = match reduction {
                        Reduction::None => Tensor::f32([2, 3, 1], elementwise::ramp(6)),
                        _ => scalar(0.7),
                    };
                    inputs.insert(2, dy);
                    cases.push(Case::shape_only(op(reduction, ignored), inputs));
                }
            }
        }
        cases
    }
}
