//! `scaled_step`. See [`ScaledStep`].

use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::loops::Expr;
use crate::loops::builder::LoopBuilder;
use crate::numeric::dither::{Dither, DitherLoop};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::support::step::{self, Step, StepLoop};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// The step of gradient descent in a weight's own units: `learning_rate * gradient`, rounded stochastically.
    /// Operands: gradient (i8 or i32 with a shared exponent `eg`), weight (i8, i16 or i32 with a shared exponent `e`;
    /// only its type and exponent count), learning rate (FP32 scalar). The result has the weight's type and exponent.
    ///
    /// The rate counts as the nearest power of two `2^k` (in the logarithm: the border lies at `sqrt(2) * 2^k`); one that is
    /// not positive, normal and finite gives no step. With `s = e - eg - k`, limited to +-62: `s > 0` shifts right as
    /// [`crate::numeric::dither::shift_right`], else the gradient is shifted left by `min(-s, b - 2)`, b the bits of the
    /// element; both limit the result to the symmetric range of the element (a left shift to its largest multiple of the
    /// shift's power of two).
    pub struct ScaledStep = "scaled_step" {
        /// Random stream of the rounding.
        pub stream: u32,
    }
}

impl Operator for ScaledStep {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [g, w, rate] = rule::operands(Self::NAME, inputs)?;
        step::infer(Self::NAME, w, g, rate)?;
        Ok(vec![w.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let [g, w, rate] = [0, 1, 2].map(|i: usize| inputs[i]);
        let dither = Dither::new(run, self.stream);
        let step = Step::new(g.exponent(), w.exponent(), rate.as_f32()[0], w.ty().element);
        let values: Vec<i64> = g
            .to_i64()
            .iter()
            .enumerate()
            .map(|(i, &g)| step.apply(g as i32, dither.bits(i)).into())
            .collect();
        vec![Tensor::from_i64(w.ty(), &values, ScaleData::Exponent(w.exponent()))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, true);
        let (g, rate, y) = (b.input(0), b.input(2), b.output(0));
        let e = b.input_exponent(1);
        let e = b.let_("e", e);
        b.set_output_exponent(0, e.clone());
        let eg = b.input_exponent(0);
        let rate = b.load(rate, Expr::i64(0));
        let step = StepLoop::new(&mut b, eg, e, rate, outputs[0].element);
        let dither = DitherLoop::new(&mut b, self.stream);
        b.for_("i", inputs[0].count(), |b, i| {
            let bits = dither.bits(b, i.clone());
            let g = b.load(g, i.clone());
            let step = step.apply(b, g, bits);
            b.store(y, i, step);
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = ScaledStep { stream: 2 };
        let sums = |x: &[i32], e: i32| Tensor::i32_shared([x.len()], x.to_vec(), e);
        let zeros = |element: Element, count: usize, e: i32| {
            let ty = TensorType::shared([count], element);
            Tensor::from_i64(&ty, &vec![0; count], ScaleData::Exponent(e))
        };
        let whole = |element: Element, y: &[i64], e: i32| {
            Tensor::from_i64(&TensorType::shared([y.len()], element), y, ScaleData::Exponent(e))
        };
        let rate = |rate: f32| Tensor::f32([], vec![rate]);
        let case = |g: Tensor, element: Element, e: i32, r: f32, y: &[i64]| {
            let w = zeros(element, y.len(), e);
            Case::new(op.clone(), vec![g, w, rate(r)], vec![whole(element, y, e)])
        };
        let mut cases = vec![
            // 2^-10 * 1/4 in units of 2^-14: left by 2.
            case(sums(&[1, -3, 0], -10), Element::I16, -14, 0.25, &[4, -12, 0]),
            // Multiples of the unit stay exact: right by 8.
            case(sums(&[512, -768, 2560], -20), Element::I16, -14, 0.25, &[2, -3, 10]),
            // 0.3 is nearest to 2^-2, 0.36 to 2^-1 (the border is 2^-1.5 = 0.35355).
            case(sums(&[4], -14), Element::I16, -14, 0.3, &[1]),
            case(sums(&[4], -14), Element::I16, -14, 0.36, &[2]),
            // Limits: i8 at 127; left by 3 at the largest multiple of 8.
            case(sums(&[300, -300], -7), Element::I8, -7, 1.0, &[127, -127]),
            case(sums(&[300, -300], -4), Element::I8, -7, 1.0, &[120, -120]),
            case(sums(&[i32::MAX, 1], 0), Element::I32, -24, 1.0, &[127 << 24, 1 << 24]),
            // No rate, no step.
            case(sums(&[300, -300], 0), Element::I8, -7, 0.0, &[0, 0]),
            case(sums(&[300], 0), Element::I8, -7, -0.5, &[0]),
            case(sums(&[300], 0), Element::I8, -7, f32::NAN, &[0]),
            case(sums(&[300], 0), Element::I8, -7, f32::INFINITY, &[0]),
        ];
        for element in [Element::I8, Element::I16, Element::I32] {
            for (eg, e, r) in
                [(-20, -14, 0.01), (-8, -14, 1.0e-4), (-60, -7, 0.5), (40, -7, 3.0), (0, i32::MIN, 1.0)]
            {
                let g = sample::shared([3, 15], Element::I32, 1, eg);
                let w = sample::shared([3, 15], element, 2, e);
                cases.push(Case::shape_only(op.clone(), vec![g, w, rate(r)]));
            }
            let g = sample::shared([45], Element::I8, 3, -9);
            let w = sample::shared([45], element, 2, -7);
            cases.push(Case::shape_only(op.clone(), vec![g, w, rate(0.125)]));
        }
        cases
    }
}
