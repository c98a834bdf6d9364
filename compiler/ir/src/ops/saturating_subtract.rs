//! `saturating_subtract`. See [`SaturatingSubtract`].

use crate::attributes::Attributes;
use crate::loops::{Expr, LoopKernel};
use crate::loops::builder::LoopBuilder;
use crate::numeric::integer;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{sample, step};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// NITI's update: `w - g` on i8 with shared exponents, clamped to +-127; the exponent of `w` is kept, that of `g` is
    /// not used. Likewise i16 and i32, clamped to their symmetric ranges.
    pub struct SaturatingSubtract = "saturating_subtract" {
    }
}

/// The loops of `w - g`, the operands at these positions.
pub(super) fn lower_difference(
    inputs: &[&TensorType],
    outputs: &[&TensorType],
    [w, g]: [usize; 2],
) -> LoopKernel {
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let exponent = b.input_exponent(w);
    b.set_output_exponent(0, exponent);
    let element = inputs[w].element;
    let (w, g, y) = (b.input(w), b.input(g), b.output(0));
    b.for_("i", inputs[0].count(), |b, i| {
        let (w, g) = (b.load(w, i.clone()), b.load(g, i.clone()));
        let limit = step::limit(element);
        let difference = match element {
            Element::I32 => {
                let limit = i64::from(limit);
                let wide = w.extend() - g.extend();
                wide.maximum(Expr::i64(-limit)).minimum(Expr::i64(limit)).truncate()
            }
            _ => integer::clamp(w - g, -limit, limit),
        };
        b.store(y, i, difference);
    });
    b.finish()
}

impl Operator for SaturatingSubtract {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [w, g] = rule::operands(Self::NAME, inputs)?;
        let elements = matches!(w.element, Element::I8 | Element::I16 | Element::I32);
        let shared = w.scale == Scale::Exponent && g.scale == Scale::Exponent;
        rule::ensure(elements && w.element == g.element && shared, || {
            format!("{} takes two i8<2^e>, i16<2^e> or i32<2^e>, here {w} and {g}", Self::NAME)
        })?;
        rule::ensure(w.shape == g.shape, || {
            format!("{} takes operands of one shape, here {w} and {g}", Self::NAME)
        })?;
        Ok(vec![w.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (w, g) = (inputs[0], inputs[1]);
        let limit = i64::from(step::limit(w.ty().element));
        let pairs = w.to_i64().into_iter().zip(g.to_i64());
        let values: Vec<i64> = pairs.map(|(w, g)| (w - g).clamp(-limit, limit)).collect();
        vec![Tensor::from_i64(w.ty(), &values, *w.scale())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        lower_difference(inputs, outputs, [0, 1])
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let case = |w: &[i8], g: &[i8], y: &[i8]| {
            let tensor = |q: &[i8], e: i32| Tensor::i8_shared([q.len()], q.to_vec(), e);
            Case::new(SaturatingSubtract {}, vec![tensor(w, -8), tensor(g, 30)], vec![tensor(y, -8)])
        };
        let pattern = |n: i32| (0..30).map(|i| (i * n % 256) as u8 as i8).collect();
        let halves = |count: usize| {
            let [w, g] = [1, 2].map(|salt| sample::shared([count], Element::I16, salt, -15));
            Case::shape_only(SaturatingSubtract {}, vec![w, g])
        };
        vec![
            halves(1),
            halves(2),
            halves(45),
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
            Case::new(
                SaturatingSubtract {},
                vec![
                    sample::shared_of([4], Element::I16, &[32767, -32768, 5, 300], -15),
                    sample::shared_of([4], Element::I16, &[-1, 1, 7, 200], -15),
                ],
                vec![sample::shared_of([4], Element::I16, &[32767, -32767, -2, 100], -15)],
            ),
            Case::new(
                SaturatingSubtract {},
                vec![
                    Tensor::i32_shared([3], vec![i32::MAX, i32::MIN, 5], -24),
                    Tensor::i32_shared([3], vec![i32::MIN, i32::MAX, 7], -24),
                ],
                vec![Tensor::i32_shared([3], vec![i32::MAX, -i32::MAX, -2], -24)],
            ),
        ]
    }
}
