//! `scatter_add`. See [`ScatterAdd`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::loops::Expr;
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::indexed::Rows;
use crate::ops::support::movement::{keep_exponent, result_shape};
use crate::ops::support::{derivation, product, sample};
use crate::ops::{Case, Differentiated, Gather, GradientError, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

operator! {
    /// Rows summed where run-time indices say, the error of [`super::Gather`]. Operands: `dy` (FP32, or i8 with a shared
    /// exponent, giving i32 with the same exponent), `indices` i32. The axes of `indices` in `dy`, from `axis` on, become
    /// one of `size` rows. Indices count as in `gather`; rows whose index is outside are left out.
    ///
    /// Order: each result is a sequential sum from +0 over the indices in row-major order.
    pub struct ScatterAdd = "scatter_add" {
        /// The first axis of `dy` that the indices stand for, and the axis of the result that they name.
        pub axis: usize,
        /// Rows of the result.
        pub size: usize,
    }
}

/// Terms of magnitude 128 that an i32 sum holds.
const MAX_INTEGER_TERMS: usize = (1 << 24) - 1;

impl ScatterAdd {
    fn rows(&self, inputs: &[&TensorType]) -> Result<(Rows, TensorType), TypeError> {
        let name = "scatter_add";
        let [dy, indices] = rule::operands(name, inputs)?;
        rule::f32_or_shared_i8(name, dy)?;
        rule::ensure(*indices == TensorType::new(indices.shape.clone(), Element::I32), || {
            format!("{name} takes indices i32, here {indices}")
        })?;
        let end = self.axis.saturating_add(indices.shape.rank());
        rule::ensure(dy.shape.get(self.axis..end) == Some(&indices.shape[..]), || {
            format!("{name}: {dy} does not hold a row for each of {indices} from axis {}", self.axis)
        })?;
        rule::ensure(dy.is_f32() || indices.count() <= MAX_INTEGER_TERMS, || {
            format!("{name}: {} terms may overflow i32", indices.count())
        })?;
        let dims = [&dy.shape[..self.axis], &[self.size], &dy.shape[end..]].concat();
        let shape = result_shape(name, dims)?;
        let rows = Rows::new(name, &shape, self.axis, &indices.shape)?;
        Ok((rows, match dy.is_f32() {
            true => TensorType::f32(shape),
            false => TensorType::shared(shape, Element::I32),
        }))
    }
}

impl Operator for ScatterAdd {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        Ok(vec![self.rows(inputs)?.1])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (dy, indices) = (inputs[0], inputs[1]);
        let (rows, ty) = self.rows(&[dy.ty(), indices.ty()]).expect("checked by infer");
        let places = rows.sources(indices.as_i32());
        if ty.is_f32() {
            let mut sums = vec![0f32; ty.count()];
            for (place, dy) in places.into_iter().zip(dy.as_f32()) {
                place.into_iter().for_each(|place| sums[place] += dy);
            }
            return vec![Tensor::f32(ty.shape, sums)];
        }
        let mut sums = vec![0i32; ty.count()];
        for (place, &dy) in places.into_iter().zip(dy.as_i8()) {
            place.into_iter().for_each(|place| sums[place] += i32::from(dy));
        }
        vec![Tensor::i32_shared(ty.shape, sums, dy.exponent())]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None, None]);
        }
        let name = derivation::name(graph, node, "gradient");
        let op = Gather { axis: self.axis };
        let error = graph.add1(op, &[node.output_gradient(), node.inputs[1]], name)?;
        Ok(vec![Some(error), None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let (rows, _) = self.rows(inputs).expect("checked by infer");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (dy, y) = (b.input(0), b.output(0));
        keep_exponent(&mut b, outputs[0]);
        b.for_("i", outputs[0].count(), |b, i| b.store(y, i, product::zero(outputs[0])));
        let indices = b.input(1);
        rows.lower(
            &mut b,
            indices,
            |b, row, at, i| {
                let place = b.let_("place", row + i.clone());
                let sum = b.load(y, place.clone()) + b.load(dy, at + i);
                b.store(y, place, sum);
            },
            None::<fn(&mut LoopBuilder, Expr, Expr)>,
        );
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && self.axis > 0
    }

    fn cases() -> Vec<Case> {
        let scatter = |axis, size| ScatterAdd { axis, size };
        let big = 16_777_216.0;
        vec![
            // Rows 2 and -1 are one; 3 and -4 are outside.
            Case::new(
                scatter(0, 3),
                vec![
                    Tensor::f32([5, 2], vec![1., 2., 3., 4., 5., 6., 7., 8., 9., 10.]),
                    Tensor::i32([5], vec![2, 0, -1, 3, -4]),
                ],
                vec![Tensor::f32([3, 2], vec![3., 4., 0., 0., 6., 8.])],
            ),
            // In the order of the indices: 2^24 + 1 + 1 stays 2^24; 1 + 1 + 2^24 does not.
            Case::new(
                scatter(0, 2),
                vec![
                    Tensor::f32([2, 3], vec![big, 1., 1., 1., 1., big]),
                    Tensor::i32([2, 3], vec![0, 1, 0, 0, 1, 1]),
                ],
                vec![Tensor::f32([2], vec![big, 2.0 + big])],
            ),
            Case::new(
                scatter(1, 2),
                vec![
                    Tensor::i8_shared([2, 3], vec![-128, -128, 5, 127, 1, 127], -7),
                    Tensor::i32([3], vec![1, 1, 0]),
                ],
                vec![Tensor::i32_shared([2, 2], vec![5, -256, 127, 128], -7)],
            ),
            Case::new(
                scatter(0, 2),
                vec![Tensor::f32([3], vec![-0.0, 1.5, 2.0]), Tensor::i32([], vec![1])],
                vec![Tensor::f32([2, 3], vec![0., 0., 0., 0., 1.5, 2.0])],
            ),
            Case::shape_only(
                scatter(1, 5),
                vec![sample::f32([3, 2, 3, 7], 1), Tensor::i32([2, 3], vec![4, 0, 9, -5, 2, 2])],
            ),
            Case::shape_only(
                scatter(2, 33),
                vec![sample::f32([2, 3, 35], 2), Tensor::i32([35], (-1..34).collect())],
            ),
            Case::shape_only(
                scatter(0, 4),
                vec![
                    sample::i8_shared([6, 19], 3, i32::MIN),
                    Tensor::i32([6], vec![3, 1, 3, -1, 4, 0]),
                ],
            ),
        ]
    }
}
