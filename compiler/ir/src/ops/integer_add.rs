//! `integer_add`. See [`IntegerAdd`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::rule::{self, operands};
use crate::ops::support::{narrow, sample};
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// `a * factors[0] + b * factors[1]` in i32 (wraps). Operands: `a`, `b` of one shape, plain integers of at most 8
    /// bits, each of its own element. No gradient.
    pub struct IntegerAdd = "integer_add" {
        /// Factor of each operand.
        pub factors: [i32; 2],
    }
}

impl Operator for IntegerAdd {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b] = operands(Self::NAME, inputs)?;
        narrow::infer(Self::NAME, a)?;
        narrow::infer(Self::NAME, b)?;
        rule::ensure(a.shape == b.shape, || {
            format!("{} takes operands of one shape, here {a} and {b}", Self::NAME)
        })?;
        Ok(vec![TensorType::new(a.shape.clone(), Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0].to_i64(), inputs[1].to_i64());
        let [of_a, of_b] = self.factors;
        let scaled = |x: i64, factor: i32| (x as i32).wrapping_mul(factor);
        let sums = a.iter().zip(&b).map(|(&a, &b)| scaled(a, of_a).wrapping_add(scaled(b, of_b)));
        vec![Tensor::i32(inputs[0].shape().dims(), sums.collect())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let [a, b] = [0, 1].map(|i| builder.input(i));
        let y = builder.output(0);
        builder.for_("i", inputs[0].count(), |builder, i| {
            let [a, b] = [(a, self.factors[0]), (b, self.factors[1])]
                .map(|(x, factor)| builder.load(x, i.clone()) * Expr::i32(factor));
            builder.store(y, i, a + b);
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        use Element::{B1, I2, I4, I8, U2, U4, U8};
        let op = |factors| IntegerAdd { factors };
        let integers = |element, values: &[i64]| {
            Tensor::from_i64(&TensorType::new([values.len()], element), values, ScaleData::None)
        };
        let mut cases = vec![
            Case::new(
                op([3, -5]),
                vec![integers(U8, &[0, 1, 255]), integers(I4, &[-8, 7, 2])],
                vec![Tensor::i32([3], vec![40, -32, 755])],
            ),
            // 2 * 2^30 wraps to -2^31, 3 * 2^30 to -2^30; -128 * -2^31 to 0, 127 * -2^31 to -2^31.
            Case::new(
                op([1 << 30, 0]),
                vec![integers(U2, &[2, 3]), integers(U2, &[3, 3])],
                vec![Tensor::i32([2], vec![i32::MIN, -(1 << 30)])],
            ),
            Case::new(
                op([i32::MIN, i32::MAX]),
                vec![integers(I8, &[-128, 127]), integers(U8, &[0, 1])],
                vec![Tensor::i32([2], vec![0, -1])],
            ),
        ];
        let pairs = [(U8, U8), (U4, U2), (U2, U4), (I8, I2), (I4, I4), (I2, I8), (B1, B1)];
        for (salt, (a, b)) in pairs.into_iter().enumerate() {
            let salt = 2 * salt as u32;
            for shape in [[1, 3, 3, 3], [2, 2, 2, 8]] {
                let x =
                    vec![sample::integers(shape, a, salt), sample::integers(shape, b, salt + 1)];
                cases.push(Case::shape_only(op([0x1234_5678, -77]), x));
            }
        }
        cases
    }
}
