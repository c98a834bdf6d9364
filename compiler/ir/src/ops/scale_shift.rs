//! `scale_shift`. See [`ScaleShift`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::integer;
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::rule::{self, operands};
use crate::ops::support::{narrow, sample};
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// `clamp((acc * scale[c] + offset[c]) >> shift, low, high)`: i32 sums to narrow integers, a batch normalisation
    /// and a rescale at once. Operands: `acc` i32 `[..,C]`, `scale` i32 `[C]`, `offset` i32 `[C]`; product and sum wrap
    /// in 32 bits, the shift is arithmetic (toward minus infinity). No gradient.
    pub struct ScaleShift = "scale_shift" {
        /// Bits, at most 31.
        pub shift: u32,
        /// Least result.
        pub low: i32,
        /// Largest result.
        pub high: i32,
        /// Element of the result.
        pub element: Element,
    }
}

impl Operator for ScaleShift {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [acc, scale, offset] = operands(Self::NAME, inputs)?;
        narrow::channelwise(Self::NAME, acc, &[scale, offset])?;
        rule::ensure(self.shift <= 31, || {
            format!("{} shifts by at most 31 bits, here {}", Self::NAME, self.shift)
        })?;
        narrow::result_range(Self::NAME, [self.low.into(), self.high.into()], self.element)?;
        Ok(vec![acc.with_element(self.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let [acc, scale, offset] = [0, 1, 2].map(|i| inputs[i].as_i32());
        let q = acc.iter().enumerate().map(|(i, acc)| {
            let channel = i % scale.len();
            let sum = acc.wrapping_mul(scale[channel]).wrapping_add(offset[channel]);
            i64::from((sum >> self.shift).clamp(self.low, self.high))
        });
        let ty = inputs[0].ty().with_element(self.element);
        vec![Tensor::from_i64(&ty, &q.collect::<Vec<_>>(), ScaleData::None)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let channels = inputs[1].count();
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let [acc, scale, offset] = [0, 1, 2].map(|i| b.input(i));
        let y = b.output(0);
        let rows = inputs[0].count().checked_div(channels).unwrap_or(0);
        b.for_("row", rows, |b, row| {
            let row = b.let_("first", row * Expr::index(channels));
            b.for_("channel", channels, |b, channel| {
                let i = row + channel.clone();
                let product = b.load(acc, i.clone()) * b.load(scale, channel.clone());
                let sum = product + b.load(offset, channel);
                let q = sum.shift_right(Expr::i32(self.shift as i32));
                b.store(y, i, integer::clamp(q, self.low, self.high));
            });
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Element::{B1, I2, I4, I8, I16, I32, U2, U4, U8};
        let op = |shift, low, high, element| ScaleShift { shift, low, high, element };
        let case = |op: ScaleShift, acc: &[i32], scale: &[i32], offset: &[i32], y: &[i64]| {
            let [rows, channels] = [acc.len() / scale.len(), scale.len()];
            let ty = TensorType::new([rows, channels], op.element);
            let vector = |v: &[i32]| Tensor::i32([channels], v.to_vec());
            Case::new(
                op,
                vec![Tensor::i32([rows, channels], acc.to_vec()), vector(scale), vector(offset)],
                vec![Tensor::from_i64(&ty, y, ScaleData::None)],
            )
        };
        let mut cases = vec![
            // (10*3+1) >> 2 = 7, (-10*-1+0) >> 2 = 2, (-3*3+1) >> 2 = -2, (9*-1) >> 2 = -3.
            case(op(2, -8, 7, I4), &[10, -10, -3, 9], &[3, -1], &[1, 0], &[7, 2, -2, -3]),
            // Clamped on both sides.
            case(op(0, 0, 255, U8), &[-1, 256, 255, 0], &[1], &[0], &[0, 255, 255, 0]),
            case(op(0, -1, 1, I2), &[-7, 7, 1, -1], &[1], &[0], &[-1, 1, 1, -1]),
            // 2^30 * 4 wraps to 0; 2^31 - 1 plus 1 to -2^31.
            case(op(31, -1, 0, I8), &[1 << 30, i32::MAX], &[4, 1], &[0, 1], &[0, -1]),
            case(op(31, -2, 1, I2), &[i32::MIN, i32::MAX, -1], &[1], &[0], &[-1, 0, -1]),
        ];
        for (salt, element) in [U8, U4, U2, I8, I4, I2, B1, I16, I32].into_iter().enumerate() {
            let salt = 4 * salt as u32;
            let (low, high) = element.integer_range().expect("an integer");
            for (shape, shift) in [([2, 3, 3, 5], 28), ([1, 2, 3, 8], 3)] {
                let acc = sample::integers(shape, I32, salt);
                let scale = sample::integers([shape[3]], I32, salt + 1);
                let offset = sample::integers([shape[3]], I32, salt + 2);
                let op = op(shift, low as i32, high as i32, element);
                cases.push(Case::shape_only(op, vec![acc, scale, offset]));
            }
        }
        cases
    }
}
