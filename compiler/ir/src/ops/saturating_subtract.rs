//! `saturating_subtract`. See [`SaturatingSubtract`].

use crate::attributes::Attributes;
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::numeric::{self, integer};
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// NITI's update: `clamp(w - g, -127, 127)` on i8 with shared exponents; the exponent of `w` is kept,
    /// that of `g` is not used.
    pub struct SaturatingSubtract = "saturating_subtract" {
    }
}

impl Operator for SaturatingSubtract {
    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [w, g] = rule::operands(Self::NAME, inputs)?;
        let shared = |ty: &TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
        rule::ensure(shared(w) && shared(g), || {
            format!("{} takes two i8<2^e>, here {w} and {g}", Self::NAME)
        })?;
        rule::ensure(w.shape == g.shape, || {
            format!("{} takes operands of one shape, here {w} and {g}", Self::NAME)
        })?;
        Ok(vec![w.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let subtract = |(&w, &g): (&i8, &i8)| numeric::saturate_i8(i64::from(w) - i64::from(g));
        let data = inputs[0].as_i8().iter().zip(inputs[1].as_i8()).map(subtract).collect();
        vec![Tensor::new(inputs[0].ty().clone(), Data::I8(data), inputs[0].scale().clone())]
    }

    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        Err(GradientError::NotDifferentiable(Self::NAME))
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (w, g, y) = (b.input(0), b.input(1), b.output(0));
        let exponent = b.input_exponent(0);
        b.set_output_exponent(0, exponent);
        b.for_("i", inputs[0].count(), |b, i| {
            let difference = b.load(w, i.clone()) - b.load(g, i.clone());
            b.store(y, i, integer::clamp(difference, -127, 127));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |w: &[i8], g: &[i8], y: &[i8]| {
            let tensor = |q: &[i8], e: i32| Tensor::i8_shared([q.len()], q.to_vec(), e);
            Case::new(SaturatingSubtract {}, vec![tensor(w, -8), tensor(g, 30)], vec![tensor(y, -8)])
        };
        let pattern = |n: i32| (0..30).map(|i| (i * n % 256) as u8 as i8).collect();
        vec![
            case(&[5, -5, 0, 100], &[7, -7, 0, -27], &[-2, 2, 0, 127]),
            case(
                &[127, -127, -128, -128, 127, 0, 0],
                &[-1, 1, 127, -128, -128, -128, 127],
                &[127, -127, -127, 0, 127, 127, -127],
            ),
            case(&[-128], &[0], &[-127]),
            case(&[], &[], &[]),
            Case::shape_only(
                SaturatingSubtract {},
                vec![
                    Tensor::i8_shared([2, 3, 5], pattern(37), i32::MIN),
                    Tensor::i8_shared([2, 3, 5], pattern(91), i32::MAX),
                ],
            ),
        ]
    }
}
