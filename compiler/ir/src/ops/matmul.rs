//! `matmul`. See [`MatMul`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::broadcast_index;
use crate::loops::{Expr, LoopKernel};
use crate::ops::properties::{Examples, Property, Work, by_index};
use crate::ops::rule::{self, ensure, operands};
use crate::ops::support::movement::{Gather, result_shape};
use crate::ops::support::product::{self, Product, Term};
use crate::ops::support::{derivation, gradient, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};
use crate::{keyword_enum, operator};

keyword_enum! {
    /// Which pass of the training step a product belongs to; algorithms quantize by it.
    pub enum ProductRole {
        /// Forward: an activation.
        Forward = "forward",
        /// Backward: an error.
        Error = "error",
        /// Backward: a weight gradient.
        Gradient = "gradient",
    }
}

operator! {
    /// Matrix product `op(A) op(B)` over the last two dimensions, leading ones broadcast (rank >= 2 each):
    /// FP32, or i8 x i8 (one may be u8) -> i32 with summed exponents.
    ///
    /// FP32 order: each result is a sequential sum from +0 over k ascending of rounded products.
    pub struct MatMul = "matmul" {
        /// Whether the last two axes of A are exchanged.
        pub transpose_a: bool,
        /// Whether the last two axes of B are exchanged.
        pub transpose_b: bool,
        /// Which pass it belongs to.
        pub role: ProductRole,
    }
}

/// Sizes of a product whose operands fit.
#[derive(Debug)]
struct Sizes {
    rows: usize,
    inner: usize,
    columns: usize,
    /// Leading dimensions of A, of B, and of the result.
    leading: [Shape; 3],
}

impl Sizes {
    fn result(&self) -> Vec<usize> {
        [&self.leading[2][..], &[self.rows, self.columns]].concat()
    }
}

impl MatMul {
    fn sizes(&self, a: &Shape, b: &Shape) -> Result<Sizes, TypeError> {
        ensure(a.rank() >= 2 && b.rank() >= 2, || {
            format!("matmul takes operands of rank 2 or more, here {a} and {b}")
        })?;
        let matrix = |shape: &Shape, transposed: bool| {
            let (leading, matrix) = shape.split_at(shape.rank() - 2);
            let [rows, columns] = if transposed { [1, 0] } else { [0, 1] };
            (Shape::from(leading), matrix[rows], matrix[columns])
        };
        let (leading_a, rows, inner) = matrix(a, self.transpose_a);
        let (leading_b, inner_b, columns) = matrix(b, self.transpose_b);
        ensure(inner == inner_b, || {
            format!("matmul: {a} and {b} differ in the summed axis: {inner} and {inner_b}")
        })?;
        let Some(leading) = leading_a.broadcast(&leading_b) else {
            return Err(TypeError::new(format!(
                "matmul: the leading axes of {a} and {b} do not broadcast"
            )));
        };
        Ok(Sizes { rows, inner, columns, leading: [leading_a, leading_b, leading] })
    }

    /// The product that gives the gradient of A (`of_a`) or B; each operand is one of A, B and the error.
    fn derived(
        &self,
        graph: &mut Graph,
        [a, b, error]: [ValueId; 3],
        of_a: bool,
        role: ProductRole,
        name: &str,
    ) -> Result<ValueId, TypeError> {
        let (ta, tb) = (self.transpose_a, self.transpose_b);
        // With C = A' B', dA' = dC B'^T and dB' = A'^T dC; a transposed operand's gradient is the transposed
        // product.
        let (left, right, transpose_a, transpose_b) = match (of_a, ta, tb) {
            (true, false, _) => (error, b, false, !tb),
            (true, true, _) => (b, error, tb, true),
            (false, _, false) => (a, error, !ta, false),
            (false, _, true) => (error, a, true, ta),
        };
        graph.add1(MatMul { transpose_a, transpose_b, role }, &[left, right], name)
    }
}

struct Plan<'a> {
    op: &'a MatMul,
    sizes: Sizes,
}

/// Row-major copy of a matrix that is stored transposed.
fn transposed<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..rows).flat_map(|r| (0..columns).map(move |c| matrix[c * rows + r])).collect()
}

impl Product for Plan<'_> {
    fn sums<T: Term>(&self, a: &[T], b: &[T]) -> Vec<T::Sum> {
        let Sizes { rows, inner, columns, leading: [la, lb, ly] } = &self.sizes;
        let (rows, inner, columns) = (*rows, *inner, *columns);
        let mut y = vec![T::ZERO; ly.count() * rows * columns];
        if y.is_empty() || inner == 0 {
            return y;
        }
        let matrices = |operand: &Shape| Gather::broadcast(operand, ly).indices();
        let products = matrices(la).into_iter().zip(matrices(lb));
        for ((at_a, at_b), y) in products.zip(y.chunks_exact_mut(rows * columns)) {
            let a = &a[at_a as usize * rows * inner..][..rows * inner];
            let b = &b[at_b as usize * inner * columns..][..inner * columns];
            let (packed_a, packed_b);
            let a = if self.op.transpose_a {
                packed_a = transposed(a, rows, inner);
                &packed_a
            } else {
                a
            };
            let b = if self.op.transpose_b {
                packed_b = transposed(b, inner, columns);
                &packed_b
            } else {
                b
            };
            // Row by row of B, so that each sum runs over k ascending while memory is read in order.
            for (y, a) in y.chunks_exact_mut(columns).zip(a.chunks_exact(inner)) {
                for (&factor, b) in a.iter().zip(b.chunks_exact(columns)) {
                    product::add_scaled(y, b, factor);
                }
            }
        }
        y
    }
}

impl Operator for MatMul {
    const WORK: Work = Work::Products(|inputs| by_index(inputs[1], 0));
    const PROPERTIES: &'static [Property] = &[Property::Bilinear, Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b] = operands("matmul", inputs)?;
        let (element, scale) = rule::product("matmul", a, b)?;
        let sizes = self.sizes(&a.shape, &b.shape)?;
        Ok(vec![TensorType { shape: result_shape("matmul", sizes.result())?, element, scale }])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0], inputs[1]);
        let sizes =
            self.sizes(a.shape(), b.shape()).expect("the type rule has checked the operands");
        let shape = Shape::from(sizes.result());
        vec![product::evaluate(&Plan { op: self, sizes }, a, b, shape)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let shapes = [0, 1].map(|i| graph.ty(node.inputs[i]).shape.clone());
        let sizes = self.sizes(&shapes[0], &shapes[1])?;
        let mut gradients = vec![None; 2];
        for (i, result) in gradients.iter_mut().enumerate().filter(|(i, _)| node.wanted[*i]) {
            let mut operands = [node.inputs[0], node.inputs[1], node.output_gradient()];
            let (role, suffix) = match derivation::is_weight(graph, node.inputs[i]) {
                true => (ProductRole::Gradient, "gradient_weight"),
                false => (ProductRole::Error, "gradient_input"),
            };
            let name = derivation::name(graph, node, suffix);
            // One B for all rows of all A: stacking the rows makes the sum over the leading axes part of the
            // product.
            let stacks = i == 1
                && sizes.leading[1].count() == 1
                && sizes.leading[0].count() == sizes.leading[2].count()
                && !self.transpose_a;
            if stacks {
                let rows = sizes.leading[2].count() * sizes.rows;
                let stack = |graph: &mut Graph, value, columns: usize, suffix: &str| {
                    let shape = Shape::from([rows, columns]);
                    gradient::reshape(graph, value, &shape, &format!("{name}/{suffix}"))
                };
                operands[0] = stack(graph, operands[0], sizes.inner, "stacked")?;
                operands[2] = stack(graph, operands[2], sizes.columns, "error")?;
            }
            let product = self.derived(graph, operands, i == 0, role, &name)?;
            *result = Some(match stacks {
                true => gradient::reshape(graph, product, &shapes[i], &name)?,
                false => gradient::sum_to(graph, product, &shapes[i], &name)?,
            });
        }
        Ok(gradients)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let sizes = self
            .sizes(&inputs[0].shape, &inputs[1].shape)
            .expect("the type rule has checked the operands");
        let Sizes { rows, inner, columns, leading: [leading_a, leading_b, leading] } = &sizes;
        let (rows, inner, columns) = (*rows, *inner, *columns);
        // Steps from a row, or column, of op(X) to the next.
        let steps = |transposed: bool, rows: usize, columns: usize| {
            let [row, column] = if transposed { [1, rows] } else { [columns, 1] };
            [Expr::index(row), Expr::index(column)]
        };
        let [a_row, a_inner] = steps(self.transpose_a, rows, inner);
        let [b_inner, b_column] = steps(self.transpose_b, inner, columns);
        let mut b = product::builder(inputs, outputs);
        let (left, right, y) = (b.input(0), b.input(1), b.output(0));
        b.for_shape("batch", leading, |b, batch| {
            let at = |shape: &Shape, count: usize| {
                broadcast_index(shape, batch) * Expr::index(count)
            };
            let a_start = b.let_("a_start", at(leading_a, rows * inner));
            let b_start = b.let_("b_start", at(leading_b, inner * columns));
            let y_start = b.let_("y_start", at(leading, rows * columns));
            b.for_("row", rows, |b, row| {
                let a_start = b.let_("a_row", a_start + row.clone() * a_row);
                let y_start = b.let_("y_row", y_start + row * Expr::index(columns));
                b.for_("column", columns, |b, column| {
                    let b_start = b.let_("b_column", b_start + column.clone() * b_column);
                    let sum = b.local("sum", product::zero(outputs[0]));
                    b.for_("k", inner, |b, k| {
                        let x = b.load(left, a_start + k.clone() * a_inner);
                        let w = b.load(right, b_start + k * b_inner);
                        b.set(sum, b.get(sum) + x * w);
                    });
                    b.store(y, y_start + column, b.get(sum));
                });
            });
        });
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && !self.transpose_a && operands.inputs[0].shape.rank() == 2
    }

    fn cases() -> Vec<Case> {
        let op = |transpose_a, transpose_b| MatMul {
            transpose_a,
            transpose_b,
            role: ProductRole::Forward,
        };
        // [1 2 3; 4 5 6] [7 8; 9 10; 11 12]
        let a = || Tensor::f32([2, 3], vec![1., 2., 3., 4., 5., 6.]);
        let a_transposed = || Tensor::f32([3, 2], vec![1., 4., 2., 5., 3., 6.]);
        let b = || Tensor::f32([3, 2], vec![7., 8., 9., 10., 11., 12.]);
        let b_transposed = || Tensor::f32([2, 3], vec![7., 9., 11., 8., 10., 12.]);
        let y = || vec![Tensor::f32([2, 2], vec![58., 64., 139., 154.])];
        vec![
            Case::new(op(false, false), vec![a(), b()], y()),
            Case::new(op(true, false), vec![a_transposed(), b()], y()),
            Case::new(op(false, true), vec![a(), b_transposed()], y()),
            Case::new(op(true, true), vec![a_transposed(), b_transposed()], y()),
            // In FP32, ((1 + 2^-24) + 2^-24) is 1: the order is left to right, from the first term.
            Case::new(
                op(false, false),
                vec![
                    Tensor::f32([1, 3], vec![1.0, 2f32.powi(-24), 2f32.powi(-24)]),
                    Tensor::f32([3, 1], vec![1.0; 3]),
                ],
                vec![Tensor::f32([1, 1], vec![1.0])],
            ),
            // The empty sum is +0, and +0 + -0 is +0.
            Case::new(
                op(false, false),
                vec![Tensor::f32([1, 1], vec![-0.0]), Tensor::f32([1, 1], vec![1.0])],
                vec![Tensor::f32([1, 1], vec![0.0])],
            ),
            Case::new(
                op(false, false),
                vec![Tensor::f32([1, 0], vec![]), Tensor::f32([0, 2], vec![])],
                vec![Tensor::f32([1, 2], vec![0.0; 2])],
            ),
            // 3 * 128 * 128, and 127 * -128 * 3.
            Case::new(
                op(false, true),
                vec![
                    Tensor::i8_shared([1, 3], vec![-128; 3], -7),
                    Tensor::i8_shared([2, 3], vec![-128, -128, -128, 127, 127, 127], -9),
                ],
                vec![Tensor::i32_shared([1, 2], vec![49152, -48768], -16)],
            ),
            // Leading axes: one B for both A.
            Case::new(
                op(false, false),
                vec![
                    Tensor::f32([2, 1, 2], vec![1., 2., 3., 4.]),
                    Tensor::f32([2, 1], vec![10., 1.]),
                ],
                vec![Tensor::f32([2, 1, 1], vec![12., 34.])],
            ),
            Case::shape_only(
                op(true, true),
                vec![sample::f32([2, 1, 5, 3], 1), sample::f32([4, 7, 5], 2)],
            ),
            Case::shape_only(
                op(true, false),
                vec![sample::i8_shared([3, 5, 7], 3, i32::MAX), sample::i8_shared([5, 9], 4, 1)],
            ),
            Case::shape_only(op(false, true), vec![sample::f32([0, 3], 1), sample::f32([2, 3], 2)]),
            // u8 by i8 on either side.
            Case::new(
                op(false, true),
                vec![
                    sample::shared_of([1, 2], Element::U8, &[255, 255], -7),
                    Tensor::i8_shared([2, 2], vec![-128, -128, 127, 127], -9),
                ],
                vec![Tensor::i32_shared([1, 2], vec![-65280, 64770], -16)],
            ),
            Case::shape_only(
                op(false, true),
                vec![
                    sample::shared([5, 37], Element::U8, 1, -7),
                    sample::shared([11, 37], Element::I8, 2, -9),
                ],
            ),
            Case::shape_only(
                op(true, false),
                vec![
                    sample::shared([9, 11], Element::I8, 1, -7),
                    sample::shared([9, 37], Element::U8, 2, -9),
                ],
            ),
        ]
    }
}
