//! `gather`. See [`Gather`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::loops::builder::LoopBuilder;
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::support::indexed::Rows;
use crate::ops::support::movement::{keep_exponent, result_shape};
use crate::ops::support::{derivation, product, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, ScatterAdd, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// Rows of a tensor by run-time indices. Operands: `x` (any type without per-axis scale), `indices` i32. The axes of
    /// `indices` take the place of one axis of `x`. A negative index counts from the end; an index that is outside even so
    /// gives zeros.
    pub struct Gather = "gather" {
        /// The axis of `x` that is indexed.
        pub axis: usize,
    }
}

impl Gather {
    fn rows(&self, inputs: &[&TensorType]) -> Result<(Rows, TensorType), TypeError> {
        let [x, indices] = rule::operands("gather", inputs)?;
        let rows = Rows::new("gather", &x.shape, self.axis, &indices.shape)?;
        rule::ensure(*indices == TensorType::new(indices.shape.clone(), Element::I32), || {
            format!("gather takes indices i32, here {indices}")
        })?;
        let dims = [&x.shape[..self.axis], &indices.shape[..], &x.shape[self.axis + 1..]].concat();
        let shape = result_shape("gather", dims)?;
        Ok((rows, x.with_shape(shape)))
    }
}

impl Operator for Gather {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Moves];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        Ok(vec![self.rows(inputs)?.1])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, indices) = (inputs[0], inputs[1]);
        let (rows, ty) = self.rows(&[x.ty(), indices.ty()]).expect("checked by infer");
        let sources = rows.sources(indices.as_i32());
        if sources.iter().all(Option::is_some) {
            return vec![x.gather(ty.shape, sources.into_iter().flatten())];
        }
        vec![match x.data() {
            Data::F32(x) => {
                let data = sources.iter().map(|i| i.map_or(0.0, |i| x[i])).collect();
                Tensor::new(ty, Data::F32(data), *inputs[0].scale())
            }
            _ => {
                let elements = x.to_i64();
                let data: Vec<i64> =
                    sources.iter().map(|i| i.map_or(0, |i| elements[i])).collect();
                Tensor::from_i64(&ty, &data, *x.scale())
            }
        }]
    }

    /// Each row of the operand gets the errors of the rows that were read from it.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None, None]);
        }
        let name = derivation::name(graph, node, "gradient");
        let size = graph.ty(node.inputs[0]).shape[self.axis];
        let op = ScatterAdd { axis: self.axis, size };
        let dx = graph.add1(op, &[node.output_gradient(), node.inputs[1]], name)?;
        Ok(vec![Some(dx), None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let (rows, _) = self.rows(inputs).expect("checked by infer");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        keep_exponent(&mut b, outputs[0]);
        let indices = b.input(1);
        rows.lower(
            &mut b,
            indices,
            |b, row, at, i| {
                let value = b.load(x, row + i.clone());
                b.store(y, at + i, value);
            },
            Some(|b: &mut LoopBuilder, at, i| b.store(y, at + i, product::zero(outputs[0]))),
        );
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        match operands.data {
            [true, false] => self.axis > 0,
            [false, true] => self.axis == 0,
            _ => false,
        }
    }

    fn cases() -> Vec<Case> {
        let table = || Tensor::f32([3, 2], vec![1., 2., 3., 4., 5., 6.]);
        let gather = |axis| Gather { axis };
        vec![
            // -1 and -3 count from the end; 3 and -4 are outside.
            Case::new(
                gather(0),
                vec![table(), Tensor::i32([2, 3], vec![2, 0, -1, 3, -4, -3])],
                vec![Tensor::f32(
                    [2, 3, 2],
                    vec![5., 6., 1., 2., 5., 6., 0., 0., 0., 0., 1., 2.],
                )],
            ),
            Case::new(
                gather(1),
                vec![table(), Tensor::i32([3], vec![1, 1, i32::MIN])],
                vec![Tensor::f32([3, 3], vec![2., 2., 0., 4., 4., 0., 6., 6., 0.])],
            ),
            // One index: the axis is gone.
            Case::new(
                gather(0),
                vec![
                    Tensor::i8_shared([4], vec![-128, 1, 2, 127], -9),
                    Tensor::i32([], vec![-1]),
                ],
                vec![Tensor::i8_shared([], vec![127], -9)],
            ),
            Case::new(
                gather(0),
                vec![
                    Tensor::i8_shared([2, 1], vec![-128, 127], 3),
                    Tensor::i32([3], vec![1, i32::MAX, 0]),
                ],
                vec![Tensor::i8_shared([3, 1], vec![127, 0, -128], 3)],
            ),
            Case::shape_only(
                gather(1),
                vec![sample::f32([3, 5, 7], 1), Tensor::i32([2, 3], vec![4, 0, 9, -5, 2, 2])],
            ),
            Case::shape_only(
                gather(2),
                vec![sample::f32([2, 3, 33], 2), Tensor::i32([35], (-1..34).collect())],
            ),
            Case::shape_only(
                gather(0),
                vec![
                    sample::integers([9, 5], Element::I4, 3),
                    Tensor::i32([4], vec![8, 3, -10, 9]),
                ],
            ),
            Case::shape_only(
                gather(1),
                vec![
                    sample::integers([3, 40], Element::B1, 4),
                    Tensor::i32([11], (30..41).collect()),
                ],
            ),
            Case::shape_only(
                gather(0),
                vec![sample::integers([6, 17], Element::I32, 5), Tensor::i32([2], vec![5, 6])],
            ),
        ]
    }
}
