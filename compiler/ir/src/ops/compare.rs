//! `compare`. See [`Compare`].

use crate::graph::{Graph, ValueId};
use crate::loops::{Comparison as Test, Expr, LoopKernel};
use crate::ops::properties::{Examples, Work};
use crate::ops::support::{elementwise, walk::Walk};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};
use crate::{keyword_enum, operator};

keyword_enum! {
    /// What is asked of two numbers; false where one is NaN.
    pub enum Comparison {
        /// `a == b`.
        Equal = "equal",
        /// `a < b`.
        Less = "less",
        /// `a <= b`.
        LessEqual = "less_equal",
    }
}

operator! {
    /// 1 where a comparison holds, else 0, with NumPy broadcasting: two FP32 operands or two of unscaled i32, the result
    /// FP32. The gradient is zero.
    pub struct Compare = "compare" {
        /// Which comparison.
        pub comparison: Comparison,
    }
}

impl Compare {
    fn holds<T: PartialOrd>(&self, a: T, b: T) -> f32 {
        let holds = match self.comparison {
            Comparison::Equal => a == b,
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
        };
        if holds { 1.0 } else { 0.0 }
    }
}

impl Operator for Compare {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [a, b] = rule::operands::<2>("compare", inputs)?;
        let integer = |ty: &TensorType| ty.element == Element::I32 && ty.scale == Scale::None;
        rule::ensure(a.is_f32() && b.is_f32() || integer(a) && integer(b), || {
            format!("compare takes two f32 or two i32 operands, here {a} and {b}")
        })?;
        match a.shape.broadcast(&b.shape) {
            Some(shape) => Ok(vec![TensorType::f32(shape)]),
            None => Err(TypeError::new(format!(
                "compare: shapes {} and {} do not broadcast",
                a.shape, b.shape
            ))),
        }
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (a, b) = (inputs[0], inputs[1]);
        if a.ty().is_f32() {
            return elementwise::evaluate_binary(inputs, |a, b| self.holds(a, b));
        }
        let shape = a.shape().broadcast(b.shape()).expect("checked by infer");
        let walk = Walk::broadcast(&shape, [a.shape(), b.shape()]);
        let (a, b) = (a.as_i32(), b.as_i32());
        let (count, [i_step, j_step]) = walk.inner();
        let mut out = Vec::with_capacity(shape.count());
        walk.rows(|[i, j]| {
            out.extend((0..count).map(|n| self.holds(a[i + n * i_step], b[j + n * j_step])));
        });
        vec![Tensor::f32(shape, out)]
    }

    /// The gradient is zero everywhere, so none is given.
    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        Ok(vec![None, None])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let test = match self.comparison {
            Comparison::Equal => Test::Equal,
            Comparison::Less => Test::Less,
            Comparison::LessEqual => Test::LessEqual,
        };
        elementwise::lower_binary(inputs, outputs, |_, a, b| {
            a.compare(test, b).select(Expr::f32(1.0), Expr::f32(0.0))
        })
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand < 2
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn cases() -> Vec<Case> {
        let nan = f32::NAN;
        let compare = |comparison| Compare { comparison };
        let floats = || {
            vec![
                Tensor::f32([2, 1], vec![-0.0, nan]),
                Tensor::f32([5], vec![-1.0, 0.0, 1.0e-45, f32::INFINITY, nan]),
            ]
        };
        let integers = || {
            vec![Tensor::i32([3], vec![i32::MIN, 0, i32::MAX]), Tensor::i32([], vec![0])]
        };
        let ones = |at: &[usize]| {
            let element = |i| if at.contains(&i) { 1.0 } else { 0.0 };
            vec![Tensor::f32([2, 5], (0..10).map(element).collect())]
        };
        let mut cases = vec![
            Case::new(compare(Comparison::Equal), floats(), ones(&[1])),
            Case::new(compare(Comparison::Less), floats(), ones(&[2, 3])),
            Case::new(compare(Comparison::LessEqual), floats(), ones(&[1, 2, 3])),
            Case::new(
                compare(Comparison::Equal),
                integers(),
                vec![Tensor::f32([3], vec![0., 1., 0.])],
            ),
            Case::new(
                compare(Comparison::Less),
                integers(),
                vec![Tensor::f32([3], vec![1., 0., 0.])],
            ),
            Case::new(
                compare(Comparison::LessEqual),
                integers(),
                vec![Tensor::f32([3], vec![1., 1., 0.])],
            ),
            Case::shape_only(
                compare(Comparison::LessEqual),
                vec![
                    Tensor::i32([3, 7], (0..21).map(|i| i * 5 % 8).collect()),
                    Tensor::i32([3, 1], vec![1, 4, 7]),
                ],
            ),
        ];
        for &comparison in Comparison::ALL {
            let operands = elementwise::broadcast_operands().into_iter();
            cases.extend(operands.map(|o| Case::shape_only(compare(comparison), o)));
        }
        cases
    }
}
