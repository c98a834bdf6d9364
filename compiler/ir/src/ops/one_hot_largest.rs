//! `one_hot_largest`. See [`OneHotLargest`].

use crate::attributes::Attributes;
use crate::graph::{Graph, ValueId};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::rows::Rows;
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// A hard choice (FP32): along an axis 1 at the first largest element, 0 elsewhere. NaN is less than every number; where there is no
    /// number, the first element is chosen.
    ///
    /// The gradient is straight-through: the result's error is the operand's.
    pub struct OneHotLargest = "one_hot_largest" {
        /// Axis.
        pub axis: usize,
    }
}

impl Operator for OneHotLargest {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        let rows = Rows::of(Self::NAME, x, self.axis)?;
        rule::ensure(i32::try_from(rows.length).is_ok(), || format!("{}: {x}", Self::NAME))?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let rows = Rows::of(Self::NAME, inputs[0].ty(), self.axis).expect("checked by infer");
        let x = inputs[0].as_f32();
        let mut y = vec![0f32; x.len()];
        for start in rows.starts() {
            let (mut largest, mut at) = (f32::NEG_INFINITY, start);
            for i in rows.row(start) {
                if x[i] > largest {
                    (largest, at) = (x[i], i);
                }
            }
            y[at] = 1.0;
        }
        vec![Tensor::f32(inputs[0].shape().dims(), y)]
    }

    fn gradient(
        &self,
        _graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        Ok(vec![node.wanted[0].then(|| node.output_gradient())])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let rows = Rows::of(Self::NAME, inputs[0], self.axis).expect("checked by infer");
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (builder.input(0), builder.output(0));
        rows.lower(&mut builder, |builder, start| {
            let largest = builder.local("largest", Expr::f32(f32::NEG_INFINITY));
            let at = builder.local("at", Expr::i32(0));
            builder.for_("j", rows.length, |builder, j| {
                let element = builder.load(x, rows.index(&start, j.clone()));
                let element = builder.let_("element", element);
                let before = builder.get(largest);
                let more = before.clone().less(element.clone());
                let more = builder.let_("more", more);
                let place = more.clone().select(j.truncate(), builder.get(at));
                builder.set(at, place);
                builder.set(largest, more.select(element, before));
            });
            let at = builder.get(at);
            let at = builder.let_("chosen", at);
            builder.for_("k", rows.length, |builder, k| {
                let chosen = k.clone().truncate().equal(at);
                let value = chosen.select(Expr::f32(1.0), Expr::f32(0.0));
                builder.store(y, rows.index(&start, k), value);
            });
        });
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |axis| OneHotLargest { axis };
        let nan = f32::NAN;
        let low = f32::NEG_INFINITY;
        let mut cases = vec![
            // The first of equals; nothing but NaN and -inf; NaN beside numbers; zeros of both signs are equal.
            Case::new(
                op(1),
                vec![Tensor::f32(
                    [4, 3],
                    vec![1.0, 3.0, 3.0, nan, low, low, nan, -2.0, low, -0.0, 0.0, -1.0],
                )],
                vec![Tensor::f32(
                    [4, 3],
                    vec![0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0],
                )],
            ),
            Case::new(
                op(0),
                vec![Tensor::f32([2, 2], vec![1.0, 5.0, 2.0, 4.0])],
                vec![Tensor::f32([2, 2], vec![0.0, 1.0, 1.0, 0.0])],
            ),
            Case::shape_only(op(0), vec![elementwise::extreme_tensor()]),
            Case::shape_only(op(1), vec![Tensor::f32([0, 3], vec![])]),
        ];
        for (axis, shape) in [(1, &[33, 5][..]), (0, &[7, 4]), (2, &[2, 3, 67]), (0, &[1])] {
            cases.push(Case::shape_only(op(axis), vec![sample::f32(shape, axis as u32)]));
        }
        cases
    }
}
