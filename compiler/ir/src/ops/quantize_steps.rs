//! `quantize_steps`. See [`QuantizeSteps`].

use crate::attributes::Attributes;
use crate::keyword_enum;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::numeric::dither::{Dither, DitherLoop};
use crate::numeric::integer;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::walk::Walk;
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

keyword_enum! {
    /// How a number of steps becomes an integer.
    pub enum StepRounding {
        /// Nearest, ties to even.
        HalfEven = "half_even",
        /// `floor(x + u)`, u uniform in [0, 1).
        Stochastic = "stochastic",
    }
}

operator! {
    /// FP32 to integers by a step that is a value: `q = clamp(round((x - origin) / step) + base, low, high)`, each operation
    /// rounded to FP32, `base` added in integers. Operands: `x`; `step`, and `origin` or nothing (0), that broadcast to the
    /// shape of `x`: scalars, or one for each channel, example or group. Result: integers with the exponent that is given,
    /// so that products of results are integer products; what `step` stands for is multiplied by afterwards, in FP32.
    ///
    /// Stochastic: u is the upper 24 of an element's bits ([`crate::numeric::dither`]) by 2^24; the sum rounds to FP32. Quotients
    /// beyond i32 saturate; NaN (as of a step of 0 and an element of 0) counts as 0.
    pub struct QuantizeSteps = "quantize_steps" {
        /// i8, u8, i16 or i32.
        pub element: Element,
        /// Exponent of the result: 0, or that of a fixed point whose step is a power of two.
        pub exponent: i32,
        /// What `origin` becomes.
        pub base: i32,
        /// Smallest result.
        pub low: i32,
        /// Largest result.
        pub high: i32,
        /// To nearest or by chance.
        pub rounding: StepRounding,
        /// Random stream of the rounding.
        pub stream: u32,
    }
}

/// The operands' shapes, `origin` as a scalar where there is none.
fn walk(inputs: &[&TensorType]) -> Walk<3> {
    let of = |i: usize| inputs.get(i).map_or(&[][..], |ty| ty.shape.dims());
    Walk::broadcast(of(0), [of(0), of(1), of(2)])
}

impl Operator for QuantizeSteps {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::ensure(matches!(inputs.len(), 2 | 3), || {
            format!("{} takes 2 or 3 operands, here {}", Self::NAME, inputs.len())
        })?;
        rule::all_f32(Self::NAME, inputs)?;
        let x = inputs[0];
        for own in &inputs[1..] {
            rule::ensure(own.shape.broadcast(&x.shape).as_ref() == Some(&x.shape), || {
                format!("{}: {own} does not broadcast to {x}", Self::NAME)
            })?;
        }
        let elements = [Element::I8, Element::U8, Element::I16, Element::I32];
        rule::ensure(elements.contains(&self.element), || {
            format!("{} gives i8, u8, i16 or i32, here {}", Self::NAME, self.element)
        })?;
        let (least, largest) = self.element.integer_range().unwrap_or_default();
        let (low, high) = (i64::from(self.low), i64::from(self.high));
        rule::ensure(least <= low && low <= high && high <= largest, || {
            format!("{}: {low} to {high} is no range of {}", Self::NAME, self.element)
        })?;
        rule::ensure(self.base.unsigned_abs() <= 1 << 16 && self.exponent.unsigned_abs() <= 126, || {
            format!("{}: a base within 2^16 and an exponent within 126", Self::NAME)
        })?;
        Ok(vec![TensorType::shared(x.shape.clone(), self.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let types: Vec<&TensorType> = inputs.iter().map(|x| x.ty()).collect();
        let (x, step) = (inputs[0].as_f32(), inputs[1].as_f32());
        let origin = inputs.get(2).map(|origin| origin.as_f32());
        let dither = Dither::new(run, self.stream);
        let walk = walk(&types);
        let (count, strides) = walk.inner();
        let mut values = Vec::with_capacity(x.len());
        walk.rows(|first| {
            for n in 0..count {
                let [i, s, o] = std::array::from_fn(|operand| first[operand] + n * strides[operand]);
                let above = origin.map_or(x[i], |origin| x[i] - origin[o]);
                let steps = above / step[s];
                let rounded = match self.rounding {
                    StepRounding::HalfEven => steps.round_ties_even(),
                    StepRounding::Stochastic => {
                        let uniform = dither.uniform(i);
                        (steps + uniform).floor()
                    }
                };
                let limits = (self.low - self.base, self.high - self.base);
                values.push(i64::from((rounded as i32).clamp(limits.0, limits.1) + self.base));
            }
        });
        let ty = TensorType::shared(inputs[0].shape().clone(), self.element);
        vec![Tensor::from_i64(&ty, &values, ScaleData::Exponent(self.exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let stochastic = self.rounding == StepRounding::Stochastic;
        let mut builder = LoopBuilder::new(inputs, outputs, stochastic);
        let (x, step, y) = (builder.input(0), builder.input(1), builder.output(0));
        let origin = (inputs.len() > 2).then(|| builder.input(2));
        builder.set_output_exponent(0, Expr::i32(self.exponent));
        let dither = stochastic.then(|| DitherLoop::new(&mut builder, self.stream));
        // A scalar is read once.
        let scalar = |i: usize| inputs.get(i).is_some_and(|ty| ty.count() == 1);
        let mut once = |i: usize, buffer| {
            let value = builder.load(buffer, Expr::i64(0));
            scalar(i).then(|| builder.let_(["", "step", "origin"][i], value))
        };
        let own_step = once(1, step);
        let own_origin = origin.and_then(|buffer| once(2, buffer));
        walk(inputs).lower(&mut builder, "i", |builder, [i, s, o]| {
            let mut value = builder.load(x, i.clone());
            if let Some(buffer) = origin {
                value = value - own_origin.unwrap_or_else(|| builder.load(buffer, o));
            }
            let mut steps = value.divide(own_step.unwrap_or_else(|| builder.load(step, s)));
            steps = match &dither {
                None => steps.unary(Unary::RoundTiesEven),
                Some(dither) => {
                    let uniform = dither.uniform(builder, i.clone());
                    (steps + uniform).unary(Unary::Floor)
                }
            };
            let (low, high) = (self.low - self.base, self.high - self.base);
            let mut q = integer::clamp(steps.unary(Unary::ToInteger), low, high);
            if self.base != 0 {
                q = q + Expr::i32(self.base);
            }
            builder.store(y, i, q);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let signed = QuantizeSteps {
            element: Element::I8,
            exponent: 0,
            base: 0,
            low: -127,
            high: 127,
            rounding: StepRounding::HalfEven,
            stream: 3,
        };
        let affine = QuantizeSteps { base: -128, low: -128, ..signed.clone() };
        let fixed = QuantizeSteps { exponent: -7, ..signed.clone() };
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        let scalar = |x: f32| f32(&[], &[x]);
        let shared = |element, shape: &[usize], q: &[i64], e| {
            Tensor::from_i64(&TensorType::shared(shape, element), q, ScaleData::Exponent(e))
        };
        let bytes = |shape: &[usize], q: &[i64]| shared(Element::I8, shape, q, 0);
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let mut cases = vec![
            // Ties to even, both ends.
            Case::new(
                signed.clone(),
                vec![f32(&[7], &[1.0, 3.0, -5.0, 300.0, -300.0, nan, infinity]), scalar(2.0)],
                vec![bytes(&[7], &[0, 2, -2, 127, -127, 0, 127])],
            ),
            Case::new(
                signed.clone(),
                vec![f32(&[3], &[0.0, 1.0, -1.0]), scalar(0.0)],
                vec![bytes(&[3], &[0, 127, -127])],
            ),
            // 256 levels from the least to the largest.
            Case::new(
                affine.clone(),
                vec![f32(&[4], &[-1.0, 1.5, 4.1, 9.0]), scalar(0.02), scalar(-1.0)],
                vec![bytes(&[4], &[-128, -3, 127, 127])],
            ),
            Case::new(
                fixed.clone(),
                vec![f32(&[4], &[0.5, -1.0, 0.003_906_25, 0.011_718_75]), scalar(0.007_812_5)],
                vec![shared(Element::I8, &[4], &[64, -127, 0, 2], -7)],
            ),
            // A step for each row, an origin for each column.
            Case::new(
                QuantizeSteps { element: Element::I16, low: -1000, high: 1000, ..signed.clone() },
                vec![
                    f32(&[2, 2], &[1.0, 2.0, 30.0, -4000.0]),
                    f32(&[2, 1], &[0.5, 2.0]),
                    f32(&[2], &[0.0, 1.0]),
                ],
                vec![shared(Element::I16, &[2, 2], &[2, 2, 15, -1000], 0)],
            ),
            Case::new(
                QuantizeSteps { element: Element::U8, low: 0, high: 15, ..signed.clone() },
                vec![f32(&[4], &[-1.0, 0.51, 0.95, 2.0]), scalar(1.0 / 15.0)],
                vec![shared(Element::U8, &[4], &[0, 8, 14, 15], 0)],
            ),
            // What is whole stays whole.
            Case::new(
                QuantizeSteps { rounding: StepRounding::Stochastic, ..signed.clone() },
                vec![f32(&[4], &[0.0, -4.0, 254.0, 400.0]), scalar(2.0)],
                vec![bytes(&[4], &[0, -2, 127, 127])],
            ),
        ];
        for rounding in [StepRounding::HalfEven, StepRounding::Stochastic] {
            for op in [&signed, &affine] {
                let op = QuantizeSteps { rounding, ..op.clone() };
                let origin = || Tensor::f32([], vec![-0.9]);
                cases.push(Case::shape_only(op.clone(), vec![elementwise::extreme_tensor(), scalar(0.01)]));
                cases.push(Case::shape_only(op.clone(), vec![sample::f32([5, 67], 1), scalar(0.013), origin()]));
                let channels = Tensor::f32([5, 1, 1], vec![0.01, 0.5, 1.0e-3, 2.0, 1.0e-40]);
                cases.push(Case::shape_only(op.clone(), vec![sample::f32([2, 5, 3, 7], 2), channels]));
                let rows = Tensor::f32([3, 1], vec![0.01, 0.02, 0.5]);
                cases.push(Case::shape_only(op, vec![sample::f32([3, 33], 3), rows]));
            }
        }
        cases
    }
}
