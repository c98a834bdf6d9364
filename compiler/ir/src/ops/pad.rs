//! `pad`. See [`Pad`].

use crate::attributes::F32;
use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder, flat_index};
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::rule::{ensure, operands};
use crate::ops::support::movement::{Gather, keep_exponent, result_shape};
use crate::ops::support::{derivation, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, Slice, TypeError};
use crate::random::RunContext;
use crate::tensor::{Data, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// The operand with a constant border (FP32 with `value`; integers only with value 0).
    pub struct Pad = "pad" {
        /// Border before each axis.
        pub before: Vec<usize>,
        /// Border after each axis.
        pub after: Vec<usize>,
        /// The border's value.
        pub value: F32,
    }
}

impl Pad {
    /// Where the operand's elements go: as [`Gather`] over the operand, whose indices are the result's.
    fn inside(&self, operand: &[usize], result: &Shape) -> Gather {
        let strides = result.strides();
        let before = self.before.iter().zip(&strides);
        Gather {
            shape: operand.to_vec(),
            start: before.map(|(&before, &stride)| (before * stride) as i64).sum(),
            strides: strides.iter().map(|&stride| stride as i64).collect(),
        }
    }

    fn padded(&self, shape: &Shape) -> Option<Vec<usize>> {
        let border = self.before.iter().zip(&self.after);
        let sizes = shape.iter().zip(border);
        sizes.map(|(&n, (&before, after))| n.checked_add(before)?.checked_add(*after)).collect()
    }
}

impl Operator for Pad {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Moves];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands("pad", inputs)?;
        ensure(x.is_f32() || self.value.get() == 0.0, || {
            format!("pad: the border of {x} is 0, not {}", self.value.get())
        })?;
        let rank = x.shape.rank();
        ensure([self.before.len(), self.after.len()] == [rank; 2], || {
            format!("pad: needs a border before and after each of the {rank} axes")
        })?;
        let dims = self.padded(&x.shape);
        let dims = dims.ok_or_else(|| TypeError::new("pad: the border is too large"))?;
        Ok(vec![x.with_shape(result_shape("pad", dims)?)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let dims = self.padded(x.shape()).expect("the type rule has checked the border");
        let ty = x.ty().with_shape(dims);
        let places = self.inside(x.shape(), &ty.shape).indices();
        let tensor = match x.data() {
            Data::F32(values) => {
                let mut data = vec![self.value.get(); ty.count()];
                places.iter().zip(values).for_each(|(&at, &value)| data[at as usize] = value);
                Tensor::new(ty, Data::F32(data), *x.scale())
            }
            _ => {
                let mut data = vec![0; ty.count()];
                places.iter().zip(x.to_i64()).for_each(|(&at, value)| data[at as usize] = value);
                Tensor::from_i64(&ty, &data, *x.scale())
            }
        };
        vec![tensor]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let lengths = graph.ty(node.inputs[0]).shape.dims().to_vec();
        let slice = Slice::contiguous(self.before.clone(), lengths);
        let name = derivation::name(graph, node, "gradient");
        Ok(vec![Some(graph.add1(slice, &[node.output_gradient()], name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        keep_exponent(&mut b, outputs[0]);
        let border = || match outputs[0].element {
            Element::F32 => Expr::f32(self.value.get()),
            _ => Expr::i32(0),
        };
        b.for_("i", outputs[0].count(), |b, i| b.store(y, i, border()));
        let inside = self.inside(&inputs[0].shape, &outputs[0].shape);
        b.for_shape("i", &inside.shape, |b, i| {
            let value = b.load(x, flat_index(&inside.shape, i));
            b.store(y, inside.index(i), value);
        });
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first() && self.before[0] == 0 && self.after[0] == 0
    }

    fn cases() -> Vec<Case> {
        let pad = |before: &[usize], after: &[usize], value: f32| Pad {
            before: before.to_vec(),
            after: after.to_vec(),
            value: value.into(),
        };
        vec![
            Case::new(
                pad(&[0, 1], &[1, 2], -1.5),
                vec![Tensor::f32([1, 2], vec![1., 2.])],
                vec![Tensor::f32(
                    [2, 5],
                    vec![-1.5, 1., 2., -1.5, -1.5, -1.5, -1.5, -1.5, -1.5, -1.5],
                )],
            ),
            Case::new(
                pad(&[2], &[1], 0.0),
                vec![Tensor::i8_shared([2], vec![-128, 127], -3)],
                vec![Tensor::i8_shared([5], vec![0, 0, -128, 127, 0], -3)],
            ),
            Case::new(
                pad(&[1], &[1], 0.0),
                vec![Tensor::f32([2], vec![1., 2.])],
                vec![Tensor::f32([4], vec![0., 1., 2., 0.])],
            ),
            Case::shape_only(pad(&[], &[], 1.0), vec![Tensor::f32([0; 0], vec![2.0])]),
            Case::shape_only(pad(&[1], &[2], f32::INFINITY), vec![Tensor::f32([0], vec![])]),
            Case::shape_only(pad(&[1, 0, 3], &[0, 2, 1], 0.1), vec![sample::f32([3, 5, 2], 1)]),
            Case::shape_only(
                pad(&[0, 0, 1, 1], &[0, 0, 2, 0], -0.0),
                vec![sample::i8_shared([2, 1, 3, 3], 2, 11)],
            ),
            Case::shape_only(
                pad(&[0, 0, 0], &[0, 0, 3], 0.0),
                vec![sample::integers([2, 3, 5], Element::B1, 3)],
            ),
        ]
    }
}
