//! `aligned_sum`. See [`AlignedSum`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::sample;
use crate::ops::support::walk::Walk;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// The sum of two integer tensors with shared exponents as i32: a residual addition with one rounding, the
    /// requantization of its result. Operands: i8, u8 or i32, NumPy broadcasting.
    ///
    /// The result's exponent is the largest of `e - h` over the operands, with the headroom h = 21 for 8-bit elements
    /// and 0 for i32. Each operand is shifted to it, left exactly (8-bit elements only) or right toward minus infinity
    /// by at most 31, and they are added modulo 2^32.
    pub struct AlignedSum = "aligned_sum" {
    }
}

/// Bits that an element can be shifted to the left.
fn headroom(ty: &TensorType) -> i64 {
    if ty.element == Element::I32 { 0 } else { 21 }
}

impl Operator for AlignedSum {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, y] = rule::operands(Self::NAME, inputs)?;
        let fits = |ty: &TensorType| {
            matches!(ty.element, Element::I8 | Element::U8 | Element::I32)
                && ty.scale == Scale::Exponent
        };
        rule::ensure(fits(x) && fits(y), || {
            format!("{} takes i8<2^e>, u8<2^e> or i32<2^e>, here {x} and {y}", Self::NAME)
        })?;
        let shape = x.shape.broadcast(&y.shape).ok_or_else(|| {
            TypeError::new(format!("{}: {x} and {y} do not broadcast", Self::NAME))
        })?;
        Ok(vec![TensorType::shared(shape, Element::I32)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let exponent = inputs
            .iter()
            .map(|x| i64::from(x.exponent()) - headroom(x.ty()))
            .max()
            .expect("two operands");
        let aligned = [0, 1].map(|i: usize| -> Vec<i32> {
            let distance = i64::from(inputs[i].exponent()) - exponent;
            let align = |&x: &i64| match distance {
                d if d >= 0 => (x as i32).wrapping_shl(d as u32),
                d => (x as i32) >> (-d).min(31),
            };
            inputs[i].to_i64().iter().map(align).collect()
        });
        let shape = inputs[0].shape().broadcast(inputs[1].shape()).expect("checked by infer");
        let walk = Walk::broadcast(&shape, [inputs[0].shape().dims(), inputs[1].shape().dims()]);
        let (count, inner) = walk.inner();
        let mut data = Vec::with_capacity(shape.count());
        walk.rows(|[i, j]| {
            data.extend((0..count).map(|n| {
                aligned[0][i + n * inner[0]].wrapping_add(aligned[1][j + n * inner[1]])
            }));
        });
        vec![Tensor::i32_shared(shape, data, exponent as i32)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let y = b.output(0);
        let own = [0, 1].map(|i| b.input_exponent(i).extend());
        let own = [b.let_("e0", own[0].clone()), b.let_("e1", own[1].clone())];
        let lowest = |i: usize| own[i].clone() - Expr::i64(headroom(inputs[i]));
        let exponent = b.let_("exponent", lowest(0).maximum(lowest(1)));
        b.set_output_exponent(0, exponent.clone().truncate());
        let amounts = [0, 1].map(|i: usize| {
            let distance = own[i].clone() - exponent.clone();
            let distance = b.let_("distance", distance);
            let limit = |amount: Expr| amount.maximum(Expr::i64(0)).minimum(Expr::i64(31)).truncate();
            let left = b.let_("left", limit(distance.clone()));
            let right = b.let_("right", limit(Expr::i64(0) - distance));
            [left, right]
        });
        let walk = Walk::broadcast(
            &outputs[0].shape,
            [inputs[0].shape.dims(), inputs[1].shape.dims(), outputs[0].shape.dims()],
        );
        walk.lower(&mut b, "i", |b, [i, j, k]| {
            let mut term = |n: usize, at: Expr| {
                let [left, right] = amounts[n].clone();
                let x = b.load(b.input(n), at);
                let x = if headroom(inputs[n]) > 0 { x.shift_left(left) } else { x };
                b.let_("aligned", x.shift_right(right))
            };
            let sum = term(0, i) + term(1, j);
            b.store(y, k, sum);
        });
        b.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand < 2
    }

    fn cases() -> Vec<Case> {
        let op = AlignedSum {};
        let sums = |x: &[i32], e: i32| Tensor::i32_shared([x.len()], x.to_vec(), e);
        let bytes = |x: &[i8], e: i32| Tensor::i8_shared([x.len()], x.to_vec(), e);
        let case = |x: Tensor, y: Tensor, z: Tensor| Case::new(op.clone(), vec![x, y], vec![z]);
        let unsigned = sample::shared([2], Element::U8, 3, -2);
        let mut cases = vec![
            // Both shift left: exponent max(-3 - 21, -4 - 21) = -24: by 21 and by 20.
            case(bytes(&[1, -128], -3), bytes(&[1, 127], -4), sums(&[3 << 20, -129 << 20], -24)),
            // i32 leads: the byte is shifted left by 3 ...
            case(sums(&[100, -100], -10), bytes(&[5, -5], -7), sums(&[140, -140], -10)),
            // ... or right by 2, toward minus infinity.
            case(sums(&[100, -100], 0), bytes(&[5, -5], -2), sums(&[101, -102], 0)),
            // Two sums meet at the larger exponent.
            case(sums(&[9, -9], -1), sums(&[1, 1], 1), sums(&[3, -2], 1)),
            // Far apart: the byte's 21 bits of headroom end, the sums vanish.
            case(sums(&[1 << 30, -1], -60), bytes(&[1, 0], 0), sums(&[1 << 21, -1], -21)),
            // u8: 0 and 255.
            case(unsigned.clone(), sums(&[1, 1], -2), sums(&[1, 256], -2)),
        ];
        for (ex, ey) in [(-3, -3), (-3, -10), (-10, -3), (-3, -30), (i32::MIN, i32::MAX)] {
            for [element, other] in [
                [Element::I8, Element::I8],
                [Element::I8, Element::U8],
                [Element::U8, Element::I8],
                [Element::U8, Element::U8],
            ] {
                let x = sample::shared([45], element, 1, ex);
                let y = sample::shared([45], other, 2, ey);
                cases.push(Case::shape_only(op.clone(), vec![x, y]));
            }
        }
        for (ex, ey) in [(-3, -3), (-3, -30), (-30, -3), (i32::MIN, i32::MAX)] {
            for (element, other) in [
                (Element::U8, Element::I8),
                (Element::I32, Element::U8),
                (Element::I32, Element::I32),
            ] {
                let x = sample::shared([2, 3, 5], element, 1, ex);
                let y = sample::shared([3, 1], other, 2, ey);
                cases.push(Case::shape_only(op.clone(), vec![x, y]));
            }
        }
        cases
    }
}
