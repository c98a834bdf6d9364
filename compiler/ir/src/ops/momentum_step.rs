//! `momentum_step`. See [`MomentumStep`].

use crate::attributes::{Attributes, F32};
use crate::loops::LoopKernel;
use crate::loops::Expr;
use crate::loops::builder::LoopBuilder;
use crate::numeric::dither::{Dither, DitherLoop};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::step::{self, Step, StepLoop};
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// The step of gradient descent with momentum: `m' = momentum * m + learning_rate * gradient`. Operands: the last
    /// step `m`, the gradient, the learning rate (FP32 scalar). What it moves is then reduced by `m'`.
    ///
    /// FP32: two products and a sum, each rounded. Integers: `m` is i8, i16 or i32 with the exponent of what it moves,
    /// and keeps it; the gradient's part is that of [`super::ScaledStep`]; with `c = round(256 * momentum)` the other
    /// is `floor((m c + u) / 256)`, u the 8 least significant of the element's 32 random bits, whose most significant the
    /// gradient's part takes; the sum is limited to the symmetric range of the element.
    pub struct MomentumStep = "momentum_step" {
        /// Factor of the last step, in [0, 1).
        pub momentum: F32,
        /// Random stream of the rounding (integers).
        pub stream: u32,
    }
}

impl MomentumStep {
    /// The momentum in units of 1/256.
    pub fn factor(&self) -> i32 {
        (self.momentum.get() * 256.0).round() as i32
    }
}

impl Operator for MomentumStep {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [m, g, rate] = rule::operands(Self::NAME, inputs)?;
        rule::ensure((0.0..1.0).contains(&self.momentum.get()) && self.factor() < 256, || {
            format!("{} takes a momentum in [0, 1), here {}", Self::NAME, self.momentum.get())
        })?;
        if m.is_f32() && g.is_f32() {
            rule::ensure(m == g && rate.is_f32() && rate.shape.rank() == 0, || {
                format!("{}: {m}, {g} and {rate} do not fit together", Self::NAME)
            })?;
        } else {
            step::infer(Self::NAME, m, g, rate)?;
        }
        Ok(vec![m.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let [m, g, rate] = [0, 1, 2].map(|i: usize| inputs[i]);
        let rate = rate.as_f32()[0];
        if m.ty().is_f32() {
            let momentum = self.momentum.get();
            return elementwise::evaluate_binary(&[m, g], |m, g| momentum * m + rate * g);
        }
        let dither = Dither::new(run, self.stream);
        let element = m.ty().element;
        let step = Step::new(g.exponent(), m.exponent(), rate, element);
        let limit = i64::from(step::limit(element));
        let values: Vec<i64> = m
            .to_i64()
            .iter()
            .zip(g.to_i64())
            .enumerate()
            .map(|(i, (&m, g))| {
                let bits = dither.bits(i);
                let kept = (m * i64::from(self.factor()) + i64::from(bits & 255)) >> 8;
                (kept + i64::from(step.apply(g as i32, bits))).clamp(-limit, limit)
            })
            .collect();
        vec![Tensor::from_i64(m.ty(), &values, ScaleData::Exponent(m.exponent()))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let float = inputs[0].is_f32();
        let mut b = LoopBuilder::new(inputs, outputs, !float);
        let (m, g, rate, y) = (b.input(0), b.input(1), b.input(2), b.output(0));
        let rate = b.load(rate, Expr::i64(0));
        let rate = b.let_("rate", rate);
        let count = inputs[0].count();
        if float {
            let momentum = Expr::f32(self.momentum.get());
            b.for_("i", count, |b, i| {
                let kept = momentum * b.load(m, i.clone());
                let step = rate * b.load(g, i.clone());
                b.store(y, i, kept + step);
            });
            return b.finish();
        }
        let element = inputs[0].element;
        let e = b.input_exponent(0);
        let e = b.let_("e", e);
        b.set_output_exponent(0, e.clone());
        let eg = b.input_exponent(1);
        let step = StepLoop::new(&mut b, eg, e, rate, element);
        let dither = DitherLoop::new(&mut b, self.stream);
        let limit = step::limit(element);
        b.for_("i", count, |b, i| {
            let bits = dither.bits(b, i.clone());
            let factor = Expr::i32(self.factor());
            let last = b.load(m, i.clone());
            let last = b.let_("last", last);
            let step = {
                let g = b.load(g, i.clone());
                step.apply(b, g, bits.clone())
            };
            // In two parts, so that products of 32-bit steps fit 32 bits.
            let low = b.let_("low", last.clone().and(Expr::i32(255)) * factor.clone());
            let low = b.let_("low", low + bits.and(Expr::i32(255)));
            let low = b.let_("low", low.shift_right(Expr::i32(8)));
            let kept = b.let_("kept", last.shift_right(Expr::i32(8)) * factor + low);
            let sum = match element {
                // Two halves that may not fit 32 bits together.
                Element::I32 => {
                    let wide = kept.extend() + step.extend();
                    let limit = i64::from(limit);
                    wide.maximum(Expr::i64(-limit)).minimum(Expr::i64(limit)).truncate()
                }
                _ => (kept + step).maximum(Expr::i32(-limit)).minimum(Expr::i32(limit)),
            };
            b.store(y, i, sum);
        });
        b.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let op = |momentum: f32| MomentumStep { momentum: F32::new(momentum), stream: 3 };
        let shared = |element: Element, y: &[i64], e: i32| {
            Tensor::from_i64(&TensorType::shared([y.len()], element), y, ScaleData::Exponent(e))
        };
        let rate = |rate: f32| Tensor::f32([], vec![rate]);
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let mut cases = vec![
            Case::new(
                op(0.5),
                vec![f32(&[2.0, -1.0]), f32(&[4.0, 8.0]), rate(0.25)],
                vec![f32(&[2.0, 1.5])],
            ),
            // Multiples of 2 halve exactly; the gradient's part is exact: right by 8.
            Case::new(
                op(0.5),
                vec![
                    shared(Element::I16, &[100, -100, 0], -14),
                    shared(Element::I32, &[512, -768, 2560], -20),
                    rate(0.25),
                ],
                vec![shared(Element::I16, &[52, -53, 10], -14)],
            ),
            // Both ends of the range.
            Case::new(
                op(0.5),
                vec![
                    shared(Element::I16, &[32766, -32766], 0),
                    shared(Element::I32, &[32767, -32767], 0),
                    rate(1.0),
                ],
                vec![shared(Element::I16, &[32767, -32767], 0)],
            ),
            Case::new(
                op(0.0),
                vec![shared(Element::I8, &[127], -7), shared(Element::I8, &[5], -7), rate(1.0)],
                vec![shared(Element::I8, &[5], -7)],
            ),
        ];
        // To the right by what the halves of a word hold and by more, and to the left.
        for shift in [1, 8, 16, 17, 31, 32, 0, -3] {
            let m = sample::shared([3, 37], Element::I16, 2, -14);
            let g = sample::shared([3, 37], Element::I32, 1, -14 - shift);
            cases.push(Case::shape_only(op(0.996), vec![m, g, rate(1.0)]));
        }
        for element in [Element::I8, Element::I16, Element::I32] {
            for (eg, e, r) in [(-20, -14, 0.01), (-8, -14, 1.0e-4), (40, -7, 3.0), (0, -24, 0.0)] {
                let m = sample::shared([45], element, 2, e);
                let g = sample::shared([45], Element::I32, 1, eg);
                cases.push(Case::shape_only(op(0.9), vec![m, g, rate(r)]));
            }
        }
        let floats = |salt: u32| sample::f32([37], salt);
        cases.push(Case::shape_only(op(0.9), vec![floats(1), floats(2), rate(0.01)]));
        cases
    }
}
