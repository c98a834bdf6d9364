//! `chunked_product`. See [`ChunkedProduct`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Local, LoopKernel};
use crate::numeric::small_float::FloatFormat;
use crate::operator;
use crate::ops::properties::{Work, by_index};
use crate::ops::support::sample;
use crate::ops::support::terms::{ProductOf, Sum, SumLoop, Terms, each_index};
use crate::ops::{Case, Operator};
use crate::ops::{TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// A matrix product, a convolution or a gradient of one of FP32 operands whose sums are kept in a small float format: terms
    /// are added `chunk` at a time, then the chunks' sums (Wang et al. 2018, section 2.1). Operands and result as of the product.
    ///
    /// Order: that of the product's FP32 sums, padding left out. A chunk's sum starts at +0; each term gives
    /// `sum = round(sum + a * b)`, where the product and the sum round to FP32 first and `round` is to the nearest number of the
    /// format, as of `quantize_float`. After `chunk` terms, and after the last one, `total = round(total + sum)`, from +0.
    pub struct ChunkedProduct = "chunked_product" {
        /// The product, with its attributes.
        pub of: ProductOf,
        /// The format of all sums, as `e6m9`.
        pub format: FloatFormat,
        /// Terms of a chunk.
        pub chunk: usize,
    }
}

/// The sum of one result.
struct Chunks<'a> {
    op: &'a ChunkedProduct,
    a: &'a [f32],
    b: &'a [f32],
    total: f32,
    sum: f32,
    terms: usize,
}

impl Chunks<'_> {
    fn end(&mut self) {
        self.total = self.op.format.nearest(self.total + self.sum);
        (self.sum, self.terms) = (0.0, 0);
    }
}

impl Sum for Chunks<'_> {
    fn term(&mut self, a: usize, b: usize) {
        self.sum = self.op.format.nearest(self.sum + self.a[a] * self.b[b]);
        self.terms += 1;
        if self.terms == self.op.chunk {
            self.end();
        }
    }

    fn part(&mut self, _a: &[usize], _b: &[usize]) {}
}

/// [`Chunks`] in loops; the locals are those of the result at hand.
struct ChunkLoop<'a> {
    op: &'a ChunkedProduct,
    operands: [Buffer; 2],
    locals: Option<[Local; 3]>,
}

impl ChunkLoop<'_> {
    fn locals(&self) -> [Local; 3] {
        self.locals.expect("the sum has started")
    }

    fn end(&self, b: &mut LoopBuilder) -> Expr {
        let [total, sum, _] = self.locals();
        let exact = b.get(total) + b.get(sum);
        self.op.format.nearest_expression(b, exact)
    }
}

impl SumLoop for ChunkLoop<'_> {
    fn start(&mut self, b: &mut LoopBuilder) {
        let total = b.local("total", Expr::f32(0.0));
        let sum = b.local("sum", Expr::f32(0.0));
        let terms = b.local("terms", Expr::i32(0));
        self.locals = Some([total, sum, terms]);
    }

    fn term(&mut self, b: &mut LoopBuilder, left: Expr, right: Expr) {
        let [total, sum, terms] = self.locals();
        let product = b.load(self.operands[0], left) * b.load(self.operands[1], right);
        let exact = b.get(sum) + product;
        let rounded = self.op.format.nearest_expression(b, exact);
        b.set(sum, rounded);
        let count = b.get(terms) + Expr::i32(1);
        b.set(terms, count);
        // A chunk that no tensor's sum reaches is none.
        let Ok(chunk) = i32::try_from(self.op.chunk) else { return };
        let full = b.get(terms).equal(Expr::i32(chunk));
        b.if_(full, |b| {
            let value = self.end(b);
            b.set(total, value);
            b.set(sum, Expr::f32(0.0));
            b.set(terms, Expr::i32(0));
        });
    }

    fn part(&mut self, _b: &mut LoopBuilder, _left: &[Expr], _right: &[Expr]) {}

    fn finish(&mut self, b: &mut LoopBuilder, _left: &[Expr], _right: &[Expr]) -> Expr {
        self.end(b)
    }
}

impl Operator for ChunkedProduct {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        rule::ensure(self.chunk >= 1, || format!("{}: a chunk has a term at least", Self::NAME))?;
        let terms = Terms::new(&self.of, &a.shape, &b.shape)?;
        Ok(vec![TensorType::f32(terms.result().clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0], inputs[1]);
        let terms =
            Terms::new(&self.of, a.shape(), b.shape()).expect("the type rule has checked the operands");
        let mut y = Vec::with_capacity(terms.result().count());
        each_index(terms.result(), |at| {
            let (a, b) = (a.as_f32(), b.as_f32());
            let mut sum = Chunks { op: self, a, b, total: 0.0, sum: 0.0, terms: 0 };
            terms.each(at, &mut sum);
            sum.end();
            y.push(sum.total);
        });
        vec![Tensor::f32(terms.result().clone(), y)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let terms = Terms::new(&self.of, &inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let operands = [b.input(0), b.input(1)];
        let y = b.output(0);
        terms.lower(&mut b, y, &mut ChunkLoop { op: self, operands, locals: None });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use sample::{conv, error, matrix as product, weight};
        let half = FloatFormat::new(6, 9, 31, 0).expect("a format that there is");
        let eighth = FloatFormat::new(5, 2, 15, 0).expect("a format that there is");
        let of = |of, format, chunk| ChunkedProduct { of, format, chunk };
        let ones = |shape: [usize; 2]| Tensor::f32(shape, vec![1.0; 4096]);
        let sum = |format, chunk, result: f32| {
            Case::new(
                of(product(false, false), format, chunk),
                vec![ones([1, 4096]), ones([4096, 1])],
                vec![Tensor::f32([1, 1], vec![result])],
            )
        };
        vec![
            // Beyond 1024 a step is 2, and 1 more a tie that stays: sums are swamped (section 2.3). In chunks they are not.
            sum(half, 4096, 1024.0),
            sum(half, usize::MAX, 1024.0),
            sum(half, 64, 4096.0),
            // 8 + 1 stays 8; two chunks of 4 a time: 4, 8, then 12 by 4.
            sum(eighth, 4096, 8.0),
            Case::new(
                of(product(false, true), eighth, 2),
                vec![Tensor::f32([1, 5], vec![1.0, 0.25, 2.0, 0.5, -8.0]), Tensor::f32([1, 5], vec![1.0; 5])],
                // 1.25; 2.5, together 3.75 -> 4; -8, together -4.
                vec![Tensor::f32([1, 1], vec![-4.0])],
            ),
            Case::shape_only(
                of(product(true, true), half, 3),
                vec![sample::f32([2, 1, 5, 3], 1), sample::f32([4, 7, 5], 2)],
            ),
            Case::shape_only(of(conv(1), half, 4), vec![sample::f32([2, 3, 5, 6], 1), sample::f32([4, 3, 3, 2], 2)]),
            Case::shape_only(of(conv(2), half, 5), vec![sample::f32([1, 4, 5, 6], 1), sample::f32([6, 2, 3, 2], 2)]),
            Case::shape_only(of(error(1), half, 4), vec![sample::f32([2, 4, 3, 6], 3), sample::f32([4, 3, 3, 2], 4)]),
            Case::shape_only(of(error(2), eighth, 3), vec![sample::f32([1, 6, 3, 6], 3), sample::f32([6, 2, 3, 2], 4)]),
            Case::shape_only(of(weight(1), half, 7), vec![sample::f32([2, 3, 5, 6], 5), sample::f32([2, 4, 3, 6], 6)]),
            Case::shape_only(of(weight(2), half, 7), vec![sample::f32([2, 4, 5, 6], 5), sample::f32([2, 6, 3, 6], 6)]),
        ]
    }
}
