//! `shift_right`. See [`ShiftRight`].

use crate::attributes::Attributes;
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::loops::Expr;
use crate::numeric::integer::{self, RightShift};
use crate::numeric::{self, Rounding};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// Static right shift of integers (i32, i16 or i8, shared exponent or unscaled): rounded, clamped to the
    /// range of `element` (symmetric: +-(2^(bits-1)-1)), exponent plus `amount`.
    pub struct ShiftRight = "shift_right" {
        /// Bits, below 32.
        pub amount: u8,
        /// Rounding of the shift.
        pub rounding: Rounding,
        /// Element of the result.
        pub element: Element,
    }
}

impl Operator for ShiftRight {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain, Property::IgnoresShape];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        let element = matches!(x.element, Element::I8 | Element::I16 | Element::I32);
        let scale = matches!(x.scale, Scale::None | Scale::Exponent);
        rule::ensure(element && scale, || {
            format!("{} takes i8, i16 or i32, unscaled or with a shared exponent, here {x}", Self::NAME)
        })?;
        rule::ensure(self.amount < 32, || {
            format!("{} shifts by less than 32 bits, here {}", Self::NAME, self.amount)
        })?;
        rule::ensure(self.element.integer_range().is_some_and(|(low, _)| low < 0), || {
            format!("{} gives signed integers, here {}", Self::NAME, self.element)
        })?;
        Ok(vec![x.with_element(self.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let limit = self.limit();
        let shift = |&x: &i64| {
            numeric::shift_right(x, self.amount.into(), self.rounding).clamp(-limit, limit)
        };
        let values: Vec<i64> = inputs[0].to_i64().iter().map(shift).collect();
        let scale = match inputs[0].scale() {
            ScaleData::Exponent(e) => ScaleData::Exponent(e.wrapping_add(self.amount.into())),
            other => *other,
        };
        vec![Tensor::from_i64(&inputs[0].ty().with_element(self.element), &values, scale)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        if inputs[0].scale == Scale::Exponent {
            let exponent = b.input_exponent(0) + Expr::i32(self.amount.into());
            b.set_output_exponent(0, exponent);
        }
        let shift = RightShift::constant(self.amount.into(), self.rounding);
        let limit = self.limit() as i32;
        b.for_("i", inputs[0].count(), |b, i| {
            let x = b.load(x, i.clone());
            let q = shift.apply(b, x);
            b.store(y, i, integer::clamp(q, -limit, limit));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Rounding::{Floor, HalfAway, PseudoStochastic, Truncate};
        let x = [20, 21, 22, 23, -20, -21, -22, -23];
        let by_two = |rounding: Rounding, y: &[i32; 8]| {
            Case::new(
                ShiftRight { amount: 2, rounding, element: Element::I32 },
                vec![Tensor::i32_shared([2, 4], x.to_vec(), -3)],
                vec![Tensor::i32_shared([2, 4], y.to_vec(), -1)],
            )
        };
        let extremes = vec![i32::MIN, i32::MIN + 1, i32::MAX, 0, 1, -1];
        let clamped = |element: Element, amount: u8, y: &[i64]| {
            Case::new(
                ShiftRight { amount, rounding: HalfAway, element },
                vec![Tensor::i32([6], extremes.clone())],
                vec![Tensor::from_i64(&TensorType::new([6], element), y, ScaleData::None)],
            )
        };
        let narrow = vec![-128, -127, 127, 64, 63, -1, 0];
        let mut cases = vec![
            by_two(Truncate, &[5, 5, 5, 5, -5, -5, -5, -5]),
            by_two(Floor, &[5, 5, 5, 5, -5, -6, -6, -6]),
            by_two(HalfAway, &[5, 5, 6, 6, -5, -5, -6, -6]),
            by_two(PseudoStochastic, &[5, 5, 6, 5, -5, -5, -6, -5]),
            clamped(Element::I32, 0, &[-2147483647, -2147483647, 2147483647, 0, 1, -1]),
            clamped(Element::I32, 1, &[-1073741824, -1073741824, 1073741824, 0, 1, -1]),
            clamped(Element::I16, 16, &[-32767, -32767, 32767, 0, 0, 0]),
            clamped(Element::I8, 24, &[-127, -127, 127, 0, 0, 0]),
            clamped(Element::I8, 31, &[-1, -1, 1, 0, 0, 0]),
            clamped(Element::I4, 29, &[-4, -4, 4, 0, 0, 0]),
            clamped(Element::I2, 29, &[-1, -1, 1, 0, 0, 0]),
            Case::new(
                ShiftRight { amount: 0, rounding: Truncate, element: Element::I8 },
                vec![Tensor::i8_shared([7], narrow.clone(), i32::MAX)],
                vec![Tensor::i8_shared([7], vec![-127, -127, 127, 64, 63, -1, 0], i32::MAX)],
            ),
            Case::new(
                ShiftRight { amount: 7, rounding: HalfAway, element: Element::I8 },
                vec![Tensor::i8_shared([7], narrow, i32::MAX)],
                vec![Tensor::i8_shared([7], vec![-1, -1, 1, 1, 0, 0, 0], i32::MIN + 6)],
            ),
        ];
        for amount in [0, 1, 2, 3, 7, 15, 16, 30, 31] {
            for rounding in Rounding::ALL {
                let x = (0..27).map(|i: i32| i.wrapping_mul(0x4b1d_93a7) >> (i % 9)).collect();
                cases.push(Case::shape_only(
                    ShiftRight { amount, rounding: *rounding, element: Element::I16 },
                    vec![Tensor::i32([3, 9], x)],
                ));
                cases.push(Case::shape_only(
                    ShiftRight { amount, rounding: *rounding, element: Element::I32 },
                    vec![Tensor::i32([6], extremes.clone())],
                ));
            }
        }
        // The upper byte of 16 bits, as products take it.
        cases.push(Case::new(
            ShiftRight { amount: 8, rounding: HalfAway, element: Element::I8 },
            vec![sample::shared_of([5], Element::I16, &[32767, -32767, 127, 128, -128], -15)],
            vec![Tensor::i8_shared([5], vec![127, -127, 0, 1, -1], -7)],
        ));
        cases.push(Case::shape_only(
            ShiftRight { amount: 8, rounding: HalfAway, element: Element::I8 },
            vec![sample::shared([3, 37], Element::I16, 1, -15)],
        ));
        // Fewer bits, so that bytes are limited.
        for amount in 1..=7 {
            cases.push(Case::shape_only(
                ShiftRight { amount, rounding: HalfAway, element: Element::I8 },
                vec![sample::shared([45], Element::I16, 1, -15)],
            ));
        }
        cases
    }
}

impl ShiftRight {
    /// The largest magnitude of the result.
    fn limit(&self) -> i64 {
        self.element.integer_range().map_or(0, |(_, high)| high)
    }
}
