//! `integer_max_pool2d`. See [`IntegerMaxPool2d`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::rule::operands;
use crate::ops::support::narrow::{self, ChannelsLastPool};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, Shape, TensorType};

operator! {
    /// Maximum over windows of `[B,H,W,C]`: plain integers of at most 8 bits or i32, channels last; of bits an or. Positions
    /// outside the operand are skipped. No gradient.
    pub struct IntegerMaxPool2d = "integer_max_pool2d" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
    }
}

impl IntegerMaxPool2d {
    fn pool(&self, x: &Shape) -> Result<ChannelsLastPool, TypeError> {
        ChannelsLastPool::new(Self::NAME, [self.kernel, self.strides], self.pads, x)
    }
}

/// Not above any element.
fn least(element: Element) -> i64 {
    element.integer_range().map_or(0, |(low, _)| low)
}

impl Operator for IntegerMaxPool2d {
    const WORK: Work = Work::Windows;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands(Self::NAME, inputs)?;
        if x.element != Element::I32 || x.scale != Scale::None {
            narrow::infer(Self::NAME, x)?;
        }
        Ok(vec![x.with_shape(self.pool(&x.shape)?.y())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let pool = self.pool(x.shape()).expect("the type rule has checked the operand");
        let y = pool.fold(&x.to_i64(), least(x.ty().element), i64::max, |most, _| most);
        vec![Tensor::from_i64(&x.ty().with_shape(pool.y()), &y, ScaleData::None)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let pool = self.pool(&inputs[0].shape).expect("the type rule has checked the operand");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        if inputs[0].element == Element::B1
            && let Some(pool) = pool.of_bytes()
        {
            b.packed_bytes(x);
            b.packed_bytes(y);
            pool.for_windows(&mut b, |b, window| {
                let any = b.local("any", Expr::i32(0));
                window.for_taps(b, |b, tap| {
                    let tap = b.load(x, tap);
                    b.set(any, tap.or(b.get(any)));
                });
                b.store(y, window.at.clone(), b.get(any));
            });
            return b.finish();
        }
        pool.for_windows(&mut b, |b, window| {
            let most = b.local("most", Expr::i32(least(inputs[0].element) as i32));
            window.for_taps(b, |b, tap| {
                let tap = b.load(x, tap);
                b.set(most, tap.maximum(b.get(most)));
            });
            b.store(y, window.at.clone(), b.get(most));
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Element::{B1, I2, I4, I8, I32, U2, U4, U8};
        let op = |kernel, strides, pads| IntegerMaxPool2d { kernel, strides, pads };
        let integers = |shape: [usize; 4], element, values: &[i64]| {
            Tensor::from_i64(&TensorType::new(shape, element), values, ScaleData::None)
        };
        let mut cases = vec![
            // Channels apart: rows (1,-8) (3,-7) and (2,7) (0,-1).
            Case::new(
                op([2, 2], [2, 2], [0; 4]),
                vec![integers([1, 2, 2, 2], I4, &[1, -8, 3, -7, 2, 7, 0, -1])],
                vec![integers([1, 1, 1, 2], I4, &[3, 7])],
            ),
            // Padding never wins, whatever the sign.
            Case::new(
                op([1, 2], [1, 1], [0, 1, 0, 1]),
                vec![integers([1, 1, 3, 1], I8, &[-128, -128, -1])],
                vec![integers([1, 1, 4, 1], I8, &[-128, -128, -1, -1])],
            ),
        ];
        for (salt, element) in [U8, U4, U2, I8, I4, I2, B1, I32].into_iter().enumerate() {
            let salt = 2 * salt as u32;
            let x = sample::integers([2, 5, 6, 3], element, salt);
            cases.push(Case::shape_only(op([3, 2], [2, 1], [1, 0, 2, 1]), vec![x]));
            let x = sample::integers([1, 4, 4, 8], element, salt + 1);
            cases.push(Case::shape_only(op([2, 2], [2, 2], [0; 4]), vec![x]));
        }
        cases
    }
}
