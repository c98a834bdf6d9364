//! `concat`. See [`Concat`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::rule::ensure;
use crate::ops::support::movement::result_shape;
use crate::ops::support::{derivation, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, Slice, TypeError};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// Operands (at least one) joined along an axis (FP32, or any unscaled type).
    pub struct Concat = "concat" {
        /// Axis.
        pub axis: usize,
    }
}

/// Joins runs: of each round, `lengths[n]` elements of part `n`.
fn join<T: Copy>(parts: &[&[T]], lengths: &[usize], rounds: usize) -> Vec<T> {
    let mut joined = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for round in 0..rounds {
        for (part, &length) in parts.iter().zip(lengths) {
            joined.extend_from_slice(&part[round * length..][..length]);
        }
    }
    joined
}

impl Concat {
    /// The result's type of operands that fit.
    fn result(&self, inputs: &[&TensorType]) -> Result<TensorType, TypeError> {
        let Some(first) = inputs.first() else {
            return Err(TypeError::new("concat takes at least one operand"));
        };
        let axis = self.axis;
        ensure(axis < first.shape.rank(), || {
            format!("concat: {} has no axis {axis}", first.shape)
        })?;
        let mut dims = first.shape.dims().to_vec();
        dims[axis] = 0;
        for ty in inputs {
            ensure(ty.scale == Scale::None, || {
                format!("concat takes unscaled operands, here {ty}")
            })?;
            let fits = ty.element == first.element
                && ty.shape.rank() == first.shape.rank()
                && (0..dims.len()).all(|i| i == axis || ty.shape[i] == first.shape[i]);
            ensure(fits, || format!("concat along axis {axis}: {ty} does not fit {first}"))?;
            dims[axis] = dims[axis].saturating_add(ty.shape[axis]);
        }
        Ok(first.with_shape(result_shape("concat", dims)?))
    }

    /// Number of rounds, and each operand's run of elements in a round.
    fn runs(&self, inputs: &[&TensorType]) -> (usize, Vec<usize>) {
        let rounds = inputs[0].shape[..self.axis].iter().product();
        (rounds, inputs.iter().map(|ty| ty.shape[self.axis..].iter().product()).collect())
    }
}

impl Operator for Concat {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Moves, Property::Variadic];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        Ok(vec![self.result(inputs)?])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let types: Vec<&TensorType> = inputs.iter().map(|x| x.ty()).collect();
        let ty = self.result(&types).expect("the type rule has checked the operands");
        let (rounds, lengths) = self.runs(&types);
        macro_rules! join_storage {
            ($($storage:ident),*) => {
                match inputs[0].data() {
                    $(Data::$storage(_) => {
                        let parts = inputs.iter().map(|x| match x.data() {
                            Data::$storage(part) => &part[..],
                            _ => panic!("operands of one type"),
                        });
                        Data::$storage(join(&parts.collect::<Vec<_>>(), &lengths, rounds))
                    })*
                }
            };
        }
        let data = join_storage!(F32, I8, I16, I32, U8, U16, U32);
        vec![Tensor::new(ty, data, ScaleData::None)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let mut start = 0;
        let mut gradients = Vec::with_capacity(node.inputs.len());
        for (i, (&input, &wanted)) in node.inputs.iter().zip(node.wanted).enumerate() {
            let lengths = graph.ty(input).shape.dims().to_vec();
            let mut starts = vec![0; lengths.len()];
            starts[self.axis] = start;
            start += lengths[self.axis];
            gradients.push(if wanted {
                let slice = Slice::contiguous(starts, lengths);
                let name = derivation::name(graph, node, &format!("gradient{i}"));
                Some(graph.add1(slice, &[node.output_gradient()], name)?)
            } else {
                None
            });
        }
        Ok(gradients)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (rounds, lengths) = self.runs(inputs);
        let total: usize = lengths.iter().sum();
        let y = b.output(0);
        let mut offset = 0;
        for (part, &length) in lengths.iter().enumerate() {
            let x = b.input(part);
            b.for_("round", rounds, |b, round| {
                let from = round.clone() * Expr::index(length);
                let to = round * Expr::index(total) + Expr::index(offset);
                b.for_("i", length, |b, i| {
                    let value = b.load(x, from + i.clone());
                    b.store(y, to + i, value);
                });
            });
            offset += length;
        }
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        self.axis > 0 && operands.data.iter().all(|&data| data)
    }

    fn cases() -> Vec<Case> {
        vec![
            Case::new(
                Concat { axis: 1 },
                vec![
                    Tensor::f32([2, 1], vec![1., 2.]),
                    Tensor::f32([2, 2], vec![3., 4., 5., 6.]),
                ],
                vec![Tensor::f32([2, 3], vec![1., 3., 4., 2., 5., 6.])],
            ),
            Case::new(
                Concat { axis: 0 },
                vec![Tensor::i32([1], vec![i32::MIN]), Tensor::i32([2], vec![7, i32::MAX])],
                vec![Tensor::i32([3], vec![i32::MIN, 7, i32::MAX])],
            ),
            Case::shape_only(Concat { axis: 0 }, vec![sample::f32([3, 2], 1)]),
            Case::shape_only(
                Concat { axis: 2 },
                vec![
                    sample::f32([2, 3, 1, 5], 2),
                    sample::f32([2, 3, 0, 5], 3),
                    sample::f32([2, 3, 4, 5], 4),
                ],
            ),
            Case::shape_only(
                Concat { axis: 1 },
                vec![
                    sample::integers([3, 2], Element::U16, 5),
                    sample::integers([3, 3], Element::U16, 6),
                ],
            ),
            Case::shape_only(
                Concat { axis: 1 },
                vec![
                    sample::integers([3, 5, 7], Element::U4, 7),
                    sample::integers([3, 9, 7], Element::U4, 8),
                ],
            ),
            Case::shape_only(
                Concat { axis: 1 },
                vec![
                    sample::integers([3, 16], Element::I2, 9),
                    sample::integers([3, 40], Element::I2, 10),
                ],
            ),
        ]
    }
}
