//! `integer_sum_pool2d`. See [`IntegerSumPool2d`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::rule::operands;
use crate::ops::support::narrow::{self, ChannelsLastPool};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Sum over windows of `[B,H,W,C]`: plain integers of at most 8 bits, channels last, giving i32 (sums wrap).
    /// Positions outside the operand hold `padding`, the integer that stands for 0. No gradient.
    pub struct IntegerSumPool2d = "integer_sum_pool2d" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// What positions outside the operand hold; a number of its element.
        pub padding: i32,
    }
}

impl IntegerSumPool2d {
    fn pool(&self, x: &Shape) -> Result<ChannelsLastPool, TypeError> {
        ChannelsLastPool::new(Self::NAME, [self.kernel, self.strides], self.pads, x)
    }

    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
}

impl Operator for IntegerSumPool2d {
    const WORK: Work = Work::Windows;
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands(Self::NAME, inputs)?;
        narrow::infer(Self::NAME, x)?;
        narrow::padding(Self::NAME, self.padding, x.element)?;
        Ok(vec![TensorType::new(self.pool(&x.shape)?.y(), Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let pool = self.pool(x.shape()).expect("the type rule has checked the operand");
        // The conversion to i32 wraps, once for the whole sum.
        let outside = |inside| i64::from(self.padding).wrapping_mul((self.taps() - inside) as i64);
        let y = pool.fold(&x.to_i64(), 0, i64::wrapping_add, |sum, inside| {
            sum.wrapping_add(outside(inside))
        });
        let ty = TensorType::new(pool.y(), Element::I32);
        vec![Tensor::from_i64(&ty, &y, ScaleData::None)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let pool = self.pool(&inputs[0].shape).expect("the type rule has checked the operand");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        pool.for_windows(&mut b, |b, window| {
            let first = match self.padding {
                0 => Expr::i32(0),
                padding => {
                    let outside = Expr::index(self.taps()) - window.taps.clone();
                    outside.truncate() * Expr::i32(padding)
                }
            };
            let sum = b.local("sum", first);
            window.for_taps(b, |b, tap| {
                let tap = b.load(x, tap);
                b.set(sum, b.get(sum) + tap);
            });
            b.store(y, window.at.clone(), b.get(sum));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Element::{B1, I2, I4, I8, U2, U4, U8};
        let op =
            |kernel, strides, pads, padding| IntegerSumPool2d { kernel, strides, pads, padding };
        let integers = |shape: [usize; 4], element, values: &[i64]| {
            Tensor::from_i64(&TensorType::new(shape, element), values, ScaleData::None)
        };
        let mut cases = vec![
            // Channels apart: 1 + 3 + 2 + 0 and -8 - 7 + 7 - 1.
            Case::new(
                op([2, 2], [2, 2], [0; 4], 0),
                vec![integers([1, 2, 2, 2], I4, &[1, -8, 3, -7, 2, 7, 0, -1])],
                vec![Tensor::i32([1, 1, 1, 2], vec![6, -9])],
            ),
            // The padding counts: 100 250 | 250 5 | 5 100.
            Case::new(
                op([1, 2], [1, 1], [0, 1, 0, 1], 100),
                vec![integers([1, 1, 2, 1], U8, &[250, 5])],
                vec![Tensor::i32([1, 1, 3, 1], vec![350, 255, 105])],
            ),
        ];
        for (salt, element) in [U8, U4, U2, I8, I4, I2, B1].into_iter().enumerate() {
            let (salt, (low, high)) =
                (2 * salt as u32, element.integer_range().expect("an integer"));
            let padding = [high as i32, low as i32, 0][salt as usize % 3];
            let x = sample::integers([2, 5, 6, 3], element, salt);
            cases.push(Case::shape_only(op([3, 2], [2, 1], [1, 0, 2, 1], padding), vec![x]));
            let x = sample::integers([1, 4, 4, 8], element, salt + 1);
            cases.push(Case::shape_only(op([4, 4], [1, 1], [0; 4], 0), vec![x]));
        }
        cases
    }
}
