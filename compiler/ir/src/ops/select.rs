//! `select`. See [`Select`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::support::walk::Walk;
use crate::ops::support::{elementwise, gradient};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, Shape, TensorType};

operator! {
    /// `a` where the condition is not 0 (NaN is not), else `b`, with NumPy broadcasting. Operands: the condition (FP32),
    /// `a`, `b` (FP32 both, or unscaled i32 both).
    pub struct Select = "select" {
    }
}

fn shape(inputs: &[&TensorType]) -> Option<Shape> {
    inputs[0].shape.broadcast(&inputs[1].shape)?.broadcast(&inputs[2].shape)
}

impl Operator for Select {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [condition, a, b] = rule::operands::<3>("select", inputs)?;
        rule::all_f32("select", &[condition])?;
        let integer = |ty: &TensorType| ty.element == Element::I32 && ty.scale == Scale::None;
        rule::ensure(a.is_f32() && b.is_f32() || integer(a) && integer(b), || {
            format!("select chooses between two f32 or two i32 operands, here {a} and {b}")
        })?;
        match shape(inputs) {
            Some(shape) => Ok(vec![a.with_shape(shape)]),
            None => Err(TypeError::new(format!(
                "select: shapes {}, {} and {} do not broadcast",
                condition.shape, a.shape, b.shape
            ))),
        }
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let types = [inputs[0].ty(), inputs[1].ty(), inputs[2].ty()];
        let shape = shape(&types).expect("checked by infer");
        let walk = Walk::broadcast(&shape, types.map(|ty| ty.shape.dims()));
        let (count, [c_step, a_step, b_step]) = walk.inner();
        let condition = inputs[0].as_f32();
        // Where each element comes from: the operand, and its element there.
        let mut sources = Vec::with_capacity(shape.count());
        walk.rows(|[c, a, b]| {
            sources.extend((0..count).map(|n| match condition[c + n * c_step] != 0.0 {
                true => (1, a + n * a_step),
                false => (2, b + n * b_step),
            }));
        });
        if types[1].is_f32() {
            let data = sources.into_iter().map(|(from, i)| inputs[from].as_f32()[i]).collect();
            return vec![Tensor::f32(shape, data)];
        }
        let data = sources.into_iter().map(|(from, i)| inputs[from].as_i32()[i]).collect();
        vec![Tensor::i32(shape, data)]
    }

    /// The error goes to the operand that was chosen; the condition has none.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let (condition, dy) = (node.inputs[0], node.output_gradient());
        let mut gradients = vec![None; 3];
        for (i, gradient) in gradients.iter_mut().enumerate().skip(1) {
            if node.wanted[i] {
                let zero = gradient::scalar(graph, 0.0);
                let (a, b) = if i == 1 { (dy, zero) } else { (zero, dy) };
                let full = graph.add1(Select {}, &[condition, a, b], "select/error")?;
                let shape = graph.ty(node.inputs[i]).shape.clone();
                *gradient = Some(gradient::sum_to(graph, full, &shape, "select")?);
            }
        }
        Ok(gradients)
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let buffers = [builder.input(0), builder.input(1), builder.input(2)];
        let y = builder.output(0);
        let dims = outputs[0].shape.dims();
        let operands = [&inputs[0].shape[..], &inputs[1].shape[..], &inputs[2].shape[..], dims];
        Walk::broadcast(dims, operands).lower(&mut builder, "i", |builder, [i, j, k, at]| {
            let [condition, a, b] = buffers;
            let condition = builder.load(condition, i).not_equal(Expr::f32(0.0));
            let condition = builder.let_("condition", condition);
            let (a, b) = (builder.load(a, j), builder.load(b, k));
            let (a, b) = (builder.let_("a", a), builder.let_("b", b));
            builder.store(y, at, condition.select(a, b));
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand < 3
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.broadcast()
    }

    fn cases() -> Vec<Case> {
        let nan = f32::NAN;
        let mut cases = vec![
            // -0 is 0; NaN passes where it is chosen, and chooses `a`.
            Case::new(
                Select {},
                vec![
                    Tensor::f32([5], vec![1.0, 0.0, -0.0, nan, 1.0e-45]),
                    Tensor::f32([], vec![-0.0]),
                    Tensor::f32([5], vec![nan, 1.0, f32::INFINITY, 3.0, 4.0]),
                ],
                vec![Tensor::f32([5], vec![-0.0, 1.0, f32::INFINITY, -0.0, -0.0])],
            ),
            Case::new(
                Select {},
                vec![
                    Tensor::f32([2, 1], vec![0.0, -1.0]),
                    Tensor::i32([3], vec![1, 2, i32::MAX]),
                    Tensor::i32([1, 1], vec![i32::MIN]),
                ],
                vec![Tensor::i32(
                    [2, 3],
                    vec![i32::MIN, i32::MIN, i32::MIN, 1, 2, i32::MAX],
                )],
            ),
        ];
        for operands in elementwise::broadcast_operands() {
            let [a, b] = &operands[..] else { continue };
            let flip = |t: &Tensor, by: usize| {
                let data = (0..t.ty().count()).map(|i| ((i * 7 + by) % 3) as f32 - 1.0).collect();
                Tensor::f32(t.shape().clone(), data)
            };
            cases.push(Case::shape_only(Select {}, vec![flip(a, 1), a.clone(), b.clone()]));
            cases.push(Case::shape_only(Select {}, vec![flip(b, 2), b.clone(), a.clone()]));
        }
        cases
    }
}
