//! `grouped_product`. See [`GroupedProduct`].

use crate::attributes::Attributes;
use crate::loops::builder::{LoopBuilder, broadcast_index};
use crate::loops::{Buffer, Expr, Local, LoopKernel, Unary};
use crate::numeric::{self, exponent};
use crate::operator;
use crate::ops::properties::{Work, by_index};
use crate::ops::support::sample;
use crate::ops::support::terms::{ProductOf, Sum, SumLoop, Terms, each_index};
use crate::ops::{Case, Conv2d, Operator};
use crate::ops::{TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Shape, TensorType};

operator! {
    /// A matrix product, a convolution or a gradient of one of 8-bit integers whose groups have FP32 scales of their own: sums of
    /// integers inside groups, FP32 across them. Operands: `a`, `b`, i8 or u8 with shared exponents, as the product takes them;
    /// `scale_a`, `scale_b`, FP32: scalars, or of the operand's rank with 1 for each axis that a group extends over. Groups of a
    /// convolution's operands are whole planes (the last two axes are 1). Result: FP32.
    ///
    /// Order: that of the product's FP32 sums. Where a scale has an index for each of the outermost axis that is summed over
    /// (`k`; the channel of a convolution, the feature of its error, the example of its weight's gradient), a part is the terms
    /// of one such index; else all terms are one part. Terms of a part are added in i32, modulo 2^32; then
    /// `total = total + f32(sum) * (scale_a * scale_b)` from +0, each step rounded; then the total is multiplied by 2 to the
    /// exponents' sum.
    pub struct GroupedProduct = "grouped_product" {
        /// The product, with its attributes.
        pub of: ProductOf,
    }
}

/// Whether a scale changes along an axis.
fn changes(scale: &Shape, axis: usize) -> bool {
    scale.rank() > 0 && scale[axis] > 1
}

/// Whether sums are scaled after each part, rather than once.
fn by_part(terms: &Terms, scales: [&Shape; 2]) -> bool {
    let axes = terms.summed_axes();
    (0..2).any(|i| changes(scales[i], axes[i]))
}

/// The sum of one result.
struct Groups<'a> {
    a: &'a [i64],
    b: &'a [i64],
    scales: [&'a Tensor; 2],
    by_part: bool,
    total: f32,
    sum: i32,
    /// Axes of the last part.
    last: [Vec<usize>; 2],
}

impl Groups<'_> {
    fn end(&mut self) {
        let [a, b] = [0, 1].map(|i| {
            let (scale, axes) = (self.scales[i], &self.last[i]);
            let place = scale.shape().iter().zip(axes);
            let place = place.fold(0, |at, (&dim, &i)| at * dim + if dim == 1 { 0 } else { i });
            scale.as_f32()[place]
        });
        self.total += self.sum as f32 * (a * b);
        self.sum = 0;
    }
}

impl Sum for Groups<'_> {
    fn term(&mut self, a: usize, b: usize) {
        self.sum = self.sum.wrapping_add((self.a[a] * self.b[b]) as i32);
    }

    fn part(&mut self, a: &[usize], b: &[usize]) {
        self.last = [a.to_vec(), b.to_vec()];
        if self.by_part {
            self.end();
        }
    }
}

/// [`Groups`] in loops; the locals are those of the result at hand.
struct GroupLoop {
    operands: [Buffer; 2],
    scales: [(Buffer, Shape); 2],
    by_part: bool,
    locals: Option<[Local; 2]>,
    power: [Expr; 2],
}

impl GroupLoop {
    fn locals(&self) -> [Local; 2] {
        self.locals.expect("the sum has started")
    }

    fn end(&self, b: &mut LoopBuilder, left: &[Expr], right: &[Expr]) {
        let [total, sum] = self.locals();
        let [first, second] = [(0, left), (1, right)].map(|(i, axes)| {
            let (buffer, shape) = &self.scales[i];
            b.load(*buffer, broadcast_index(shape, axes))
        });
        let value = b.get(sum).unary(Unary::ToFloat) * (first * second);
        let value = b.get(total) + value;
        b.set(total, value);
    }
}

impl SumLoop for GroupLoop {
    fn start(&mut self, b: &mut LoopBuilder) {
        let total = b.local("total", Expr::f32(0.0));
        let sum = b.local("sum", Expr::i32(0));
        self.locals = Some([total, sum]);
    }

    fn term(&mut self, b: &mut LoopBuilder, left: Expr, right: Expr) {
        let [_, sum] = self.locals();
        let product = b.load(self.operands[0], left) * b.load(self.operands[1], right);
        let value = b.get(sum) + product;
        b.set(sum, value);
    }

    fn part(&mut self, b: &mut LoopBuilder, left: &[Expr], right: &[Expr]) {
        if self.by_part {
            self.end(b, left, right);
            b.set(self.locals()[1], Expr::i32(0));
        }
    }

    fn finish(&mut self, b: &mut LoopBuilder, left: &[Expr], right: &[Expr]) -> Expr {
        if !self.by_part {
            self.end(b, left, right);
        }
        let [first, second] = self.power.clone();
        b.get(self.locals()[0]) * first * second
    }
}

impl GroupedProduct {
    /// Whether sums of operands of these shapes are scaled after each part (see [`GroupedProduct`]), rather than once; `scales`
    /// are the shapes of `scale_a` and `scale_b`.
    ///
    /// # Errors
    /// If the operands do not fit.
    pub fn scales_parts(
        &self,
        operands: [&Shape; 2],
        scales: [&Shape; 2],
    ) -> Result<bool, TypeError> {
        Ok(by_part(&Terms::new(&self.of, operands[0], operands[1])?, scales))
    }
}

impl Operator for GroupedProduct {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b, scale_a, scale_b] = rule::operands(Self::NAME, inputs)?;
        rule::ensure(!a.is_f32(), || format!("{} takes integers, here {a} and {b}", Self::NAME))?;
        rule::product(Self::NAME, a, b)?;
        rule::all_f32(Self::NAME, &inputs[2..])?;
        let terms = Terms::new(&self.of, &a.shape, &b.shape)?;
        for (i, (own, scale)) in [(a, scale_a), (b, scale_b)].into_iter().enumerate() {
            let (dims, outer) = (&scale.shape, terms.outer_axes(i));
            let fits = |(axis, (&dim, &whole)): (usize, (&usize, &usize))| {
                dim == 1 || dim == whole && axis < outer
            };
            let same_rank = dims.rank() == own.shape.rank();
            let fits = same_rank && dims.iter().zip(own.shape.iter()).enumerate().all(fits);
            rule::ensure(dims.rank() == 0 || fits, || {
                format!(
                    "{}: a scale of {own} is a scalar, or has its rank and 1 for the axes of a group (all from axis {outer} \
                     on), here {scale}",
                    Self::NAME
                )
            })?;
        }
        Ok(vec![TensorType::f32(terms.result().clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b, scales) = (inputs[0], inputs[1], [inputs[2], inputs[3]]);
        let terms =
            Terms::new(&self.of, a.shape(), b.shape()).expect("the type rule has checked the operands");
        let by_part = by_part(&terms, scales.map(|scale| scale.shape()));
        let power = a.exponent().wrapping_add(b.exponent());
        let (left, right) = (a.to_i64(), b.to_i64());
        let mut y = Vec::with_capacity(terms.result().count());
        each_index(terms.result(), |at| {
            let last = [a, b].map(|operand| vec![0; operand.shape().rank()]);
            let mut sum =
                Groups { a: &left, b: &right, scales, by_part, total: 0.0, sum: 0, last };
            terms.each(at, &mut sum);
            if !by_part {
                sum.end();
            }
            y.push(numeric::scale_by_power_of_two(sum.total, power));
        });
        vec![Tensor::f32(terms.result().clone(), y)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let terms = Terms::new(&self.of, &inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let by_part = by_part(&terms, [&inputs[2].shape, &inputs[3].shape]);
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let operands = [b.input(0), b.input(1)];
        let scales = [2, 3].map(|i| (b.input(i), inputs[i].shape.clone()));
        let power = b.input_exponent(0) + b.input_exponent(1);
        let power = exponent::power_of_two_factors(&mut b, power);
        let y = b.output(0);
        terms.lower(&mut b, y, &mut GroupLoop { operands, scales, by_part, locals: None, power });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use sample::{conv, error, matrix as product, weight};
        let of = |of| GroupedProduct { of };
        let i8 = |shape: &[usize], q: &[i8]| Tensor::i8_shared(shape, q.to_vec(), 0);
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        // Codes of both operands, and a scale for each plane.
        let planes = |op: ProductOf, a: [usize; 4], b: [usize; 4]| {
            let own = |[first, second, ..]: [usize; 4], salt| sample::f32([first, second, 1, 1], salt);
            let codes = |shape: [usize; 4], salt| sample::i8_shared(shape, salt, -5);
            Case::shape_only(of(op), vec![codes(a, 1), codes(b, 2), own(a, 3), own(b, 4)])
        };
        vec![
            // Scales of rows and of columns: one sum, 1 * 3 + 2 * 4 = 11, by 0.5 and 10.
            Case::new(
                of(product(false, true)),
                vec![i8(&[1, 2], &[1, 2]), i8(&[2, 2], &[3, 4, -1, 0]), f32(&[1, 1], &[0.5]), f32(&[2, 1], &[10.0, 8.0])],
                vec![f32(&[1, 2], &[55.0, -4.0])],
            ),
            // A scale for each term: 1 * 3 * 0.5 + 2 * 4 * 2, by 2^-1.
            Case::new(
                of(product(false, false)),
                vec![Tensor::i8_shared([1, 2], vec![1, 2], -3), Tensor::i8_shared([2, 1], vec![3, 4], 2), f32(&[], &[1.0]), f32(&[2, 1], &[0.5, 2.0])],
                vec![f32(&[1, 1], &[8.75])],
            ),
            // Across groups in FP32: 2^24 + 1 is 2^24, twice; inside of one the two are 2 first.
            Case::new(
                of(product(false, false)),
                vec![i8(&[1, 3], &[1, 1, 1]), i8(&[3, 1], &[1, 1, 1]), f32(&[1, 3], &[16_777_216.0, 1.0, 1.0]), f32(&[], &[1.0])],
                vec![f32(&[1, 1], &[16_777_216.0])],
            ),
            // Two channels of two taps: 0.5 * 2 * (1 * 3 + 2 * 4) + 0.25 * 4 * (5 * -1 + 6 * 1).
            Case::new(
                of(ProductOf::Conv2d(Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 })),
                vec![i8(&[1, 2, 1, 2], &[1, 2, 5, 6]), i8(&[1, 2, 1, 2], &[3, 4, -1, 1]), f32(&[1, 2, 1, 1], &[0.5, 0.25]), f32(&[1, 2, 1, 1], &[2.0, 4.0])],
                vec![f32(&[1, 1, 1, 1], &[12.0])],
            ),
            planes(conv(1), [2, 3, 5, 6], [4, 3, 3, 2]),
            planes(conv(2), [1, 4, 5, 6], [6, 2, 3, 2]),
            planes(error(1), [2, 4, 3, 6], [4, 3, 3, 2]),
            planes(error(2), [1, 6, 3, 6], [6, 2, 3, 2]),
            planes(weight(1), [2, 3, 5, 6], [2, 4, 3, 6]),
            planes(weight(2), [2, 4, 5, 6], [2, 6, 3, 6]),
            // One scale each: one part.
            Case::shape_only(
                of(conv(1)),
                vec![sample::i8_shared([2, 3, 5, 6], 1, 3), sample::i8_shared([4, 3, 3, 2], 2, -9), sample::f32([2, 1, 1, 1], 3), sample::f32([], 4)],
            ),
            Case::shape_only(
                of(product(true, true)),
                vec![sample::i8_shared([2, 1, 5, 3], 1, 0), sample::i8_shared([4, 7, 5], 2, 0), sample::f32([2, 1, 5, 3], 3), sample::f32([4, 7, 1], 4)],
            ),
        ]
    }
}
