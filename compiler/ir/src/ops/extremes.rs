//! `extremes`. See [`Extremes`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Local, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::walk::Walk;
use crate::ops::support::{elementwise, reduction, sample};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

operator! {
    /// The least and the largest element (FP32): two results, what scales are made of. One pair for each index of the axes
    /// `kept`, of the operand's rank with 1 for all other axes; scalars where no axis is kept.
    ///
    /// NaN elements do not count, infinities count as the largest finite magnitude, a zero is +0; where nothing counts, both are
    /// 0. With `mean`, scalars: the mean of the pairs, added in row-major order from +0 and divided by their number.
    pub struct Extremes = "extremes" {
        /// Axes whose indices have a pair each, ascending.
        pub kept: Vec<usize>,
        /// Whether the results are the means of the pairs.
        pub mean: bool,
    }
}

impl Extremes {
    /// Axes that each pair is found over.
    fn reduced(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|axis| !self.kept.contains(axis)).collect()
    }

    fn result(&self, x: &TensorType) -> Shape {
        if self.mean || self.kept.is_empty() {
            return Shape::scalar();
        }
        let dims = x.shape.iter().enumerate();
        dims.map(|(i, &dim)| if self.kept.contains(&i) { dim } else { 1 }).collect::<Vec<_>>().into()
    }
}

/// What counts of the pair, as results have it.
fn finished(least: f32, largest: f32) -> [f32; 2] {
    if least > largest { [0.0; 2] } else { [least + 0.0, largest + 0.0] }
}

/// Parts of so many elements that are searched apart, so that threads may share them; `None` where that does not pay.
fn parts(count: usize) -> Option<usize> {
    (2..=64).rev().find(|parts| count.is_multiple_of(*parts) && count / parts >= 4096)
}

/// The integer that stands for a float: floats are ordered as theirs are, -0 below 0, NaN beyond the infinities. Integers are
/// compared by vectors on every target, in any order.
fn key(x: f32) -> i32 {
    let bits = x.to_bits().cast_signed();
    bits ^ (bits >> 31 & i32::MAX)
}

/// The keys of the least and of the largest element so far.
struct Keys([Local; 2]);

impl Keys {
    fn new(builder: &mut LoopBuilder) -> Keys {
        let least = builder.local("least", Expr::i32(key(f32::MAX)));
        Keys([least, builder.local("largest", Expr::i32(key(-f32::MAX)))])
    }

    /// Takes an element.
    fn take(&self, builder: &mut LoopBuilder, element: Expr) {
        let bits = builder.let_("bits", element.unary(Unary::ToBits));
        let flip = bits.clone().shift_right(Expr::i32(31)).and(Expr::i32(i32::MAX));
        let own = builder.let_("key", bits.xor(flip));
        // NaN count for neither.
        let below = own.clone().less(Expr::i32(key(f32::NEG_INFINITY)));
        let above = Expr::i32(key(f32::INFINITY)).less(own.clone());
        let least = below.select(Expr::i32(key(f32::MAX)), own.clone());
        let largest = above.select(Expr::i32(key(-f32::MAX)), own);
        self.combine(builder, least, largest);
    }

    fn combine(&self, builder: &mut LoopBuilder, least: Expr, largest: Expr) {
        let least = least.minimum(builder.get(self.0[0]));
        builder.set(self.0[0], least);
        let largest = largest.maximum(builder.get(self.0[1]));
        builder.set(self.0[1], largest);
    }

    /// Stores the pair as results have it, at `index`.
    fn store(&self, builder: &mut LoopBuilder, results: [Buffer; 2], index: &Expr) {
        let [least, largest] = self.0.map(|local| builder.get(local));
        let none = builder.let_("none", largest.clone().less(least.clone()));
        let limits = [
            least.maximum(Expr::i32(key(-f32::MAX))),
            largest.minimum(Expr::i32(key(f32::MAX))),
        ];
        for (result, limited) in results.into_iter().zip(limits) {
            let limited = builder.let_("limited", limited);
            let flip = limited.clone().shift_right(Expr::i32(31)).and(Expr::i32(i32::MAX));
            let value = limited.xor(flip).unary(Unary::FromBits);
            let value = none.clone().select(Expr::f32(0.0), value + Expr::f32(0.0));
            builder.store(result, index.clone(), value);
        }
    }
}

impl Operator for Extremes {
    const WORK: Work = Work::Strides;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands(Self::NAME, inputs)?;
        rule::all_f32(Self::NAME, inputs)?;
        let (kept, rank) = (&self.kept, x.shape.rank());
        rule::ensure(kept.windows(2).all(|pair| pair[0] < pair[1]), || {
            format!("{}: axes must ascend without repetition, here {kept:?}", Self::NAME)
        })?;
        rule::ensure(kept.last().is_none_or(|&axis| axis < rank), || {
            format!("{}: axes {kept:?} exceed the rank of {x}", Self::NAME)
        })?;
        rule::ensure(!self.mean || !kept.is_empty(), || {
            format!("{}: a mean is of pairs, so some axis is kept", Self::NAME)
        })?;
        rule::ensure(x.count() > 0, || format!("{}: no elements in {x}", Self::NAME))?;
        Ok(vec![TensorType::f32(self.result(x)); 2])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let axes = self.reduced(x.shape().rank());
        let pairs: usize = self.kept.iter().map(|&axis| x.shape()[axis]).product();
        let mut least = vec![f32::MAX; pairs];
        let mut largest = vec![-f32::MAX; pairs];
        let smaller = |least: f32, x: f32| if x < least { x } else { least };
        let larger = |largest: f32, x: f32| if x > largest { x } else { largest };
        reduction::fold(x.shape(), &axes, x.as_f32(), &mut least, smaller);
        reduction::fold(x.shape(), &axes, x.as_f32(), &mut largest, larger);
        let found: Vec<[f32; 2]> = least
            .into_iter()
            .zip(largest)
            .map(|(least, largest)| finished(least.max(-f32::MAX), largest.min(f32::MAX)))
            .collect();
        let of = |slot: usize| {
            let all = found.iter().map(|pair| pair[slot]);
            match self.mean {
                true => vec![all.fold(0.0, |sum, x| sum + x) / pairs as f32],
                false => all.collect(),
            }
        };
        [0, 1].map(|slot| Tensor::f32(self.result(x.ty()), of(slot))).into()
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, false);
        let shape = &inputs[0].shape;
        let own = shape.strides();
        let pairs: usize = self.kept.iter().map(|&axis| shape[axis]).product();
        let x = builder.input(0);
        let results = [0, 1].map(|slot| match self.mean {
            true => builder.scratch(["least", "largest"][slot], Element::F32, pairs),
            false => builder.output(slot),
        });
        let dims = |axes: &[usize]| axes.iter().map(|&i| shape[i]).collect::<Vec<_>>();
        let reduced = self.reduced(shape.rank());
        if self.kept.is_empty()
            && let Some(parts) = parts(shape.count())
        {
            let length = shape.count() / parts;
            let found = ["leasts", "largests"].map(|name| builder.scratch(name, Element::I32, parts));
            builder.for_("part", parts, |builder, part| {
                let base = builder.let_("base", part.clone() * Expr::index(length));
                let keys = Keys::new(builder);
                builder.for_("i", length, |builder, i| {
                    let element = builder.load(x, base.clone() + i);
                    keys.take(builder, element);
                });
                let values = keys.0.map(|key| builder.get(key));
                found.into_iter().zip(values).for_each(|(found, value)| {
                    builder.store(found, part.clone(), value);
                });
            });
            let keys = Keys::new(&mut builder);
            builder.for_("part", parts, |builder, part| {
                let [least, largest] = found.map(|found| builder.load(found, part.clone()));
                keys.combine(builder, least, largest);
            });
            keys.store(&mut builder, results, &Expr::i64(0));
            return builder.finish();
        }
        let kept: Shape = dims(&self.kept).into();
        let places = kept.strides();
        let outer: Vec<[usize; 2]> =
            self.kept.iter().zip(&places).map(|(&i, &place)| [own[i], place]).collect();
        let inner: Vec<[usize; 1]> = reduced.iter().map(|&i| [own[i]]).collect();
        Walk::new(&kept, &outer).lower(&mut builder, "i", |builder, [base, index]| {
            let base = builder.let_("base", base);
            let keys = Keys::new(builder);
            Walk::new(&dims(&reduced), &inner).lower(builder, "r", |builder, [offset]| {
                let element = builder.load(x, base.clone() + offset);
                keys.take(builder, element);
            });
            keys.store(builder, results, &index);
        });
        if self.mean {
            for (slot, parts) in results.into_iter().enumerate() {
                let sum = builder.local("sum", Expr::f32(0.0));
                builder.for_("p", pairs, |builder, p| {
                    let value = builder.get(sum) + builder.load(parts, p);
                    builder.set(sum, value);
                });
                let mean = builder.get(sum).divide(Expr::f32(pairs as f32));
                builder.store(builder.output(slot), Expr::i64(0), mean);
            }
        }
        builder.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |kept: &[usize], mean| Extremes { kept: kept.to_vec(), mean };
        let f32 = |shape: &[usize], x: &[f32]| Tensor::f32(shape, x.to_vec());
        let pair = |shape: &[usize], least: &[f32], largest: &[f32]| {
            vec![f32(shape, least), f32(shape, largest)]
        };
        let x = || f32(&[2, 3], &[1.0, -2.0, 0.5, 4.0, 3.0, 8.0]);
        let whole = || op(&[], false);
        let negative = f32::from_bits(0xffc0_0001);
        let specials = [
            [negative, f32::NAN, f32::from_bits(0x7f80_0001)],
            [-0.0, 0.0, -0.0],
            [f32::INFINITY, negative, f32::NEG_INFINITY],
            [f32::NAN, -7.0, 2.0],
        ];
        vec![
            Case::new(whole(), vec![x()], pair(&[], &[-2.0], &[8.0])),
            Case::new(op(&[0], false), vec![x()], pair(&[2, 1], &[-2.0, 3.0], &[1.0, 8.0])),
            Case::new(
                op(&[1], false),
                vec![x()],
                pair(&[1, 3], &[1.0, -2.0, 0.5], &[4.0, 3.0, 8.0]),
            ),
            Case::new(op(&[0], true), vec![x()], pair(&[], &[0.5], &[4.5])),
            Case::new(
                whole(),
                vec![f32(&[4], &[f32::NAN, f32::INFINITY, -0.0, 1.0])],
                pair(&[], &[0.0], &[f32::MAX]),
            ),
            Case::new(
                whole(),
                vec![f32(&[2], &[f32::NEG_INFINITY, f32::NAN])],
                pair(&[], &[-f32::MAX], &[-f32::MAX]),
            ),
            Case::new(
                op(&[0], false),
                vec![f32(&[2, 2], &[f32::NAN, f32::NAN, -3.0, f32::NAN])],
                pair(&[2, 1], &[0.0, -3.0], &[0.0, -3.0]),
            ),
            Case::new(whole(), vec![f32(&[], &[-1.5])], pair(&[], &[-1.5], &[-1.5])),
            // NaN of either sign are none of them, in rows that fill vectors; only zeros; only infinities.
            Case::new(
                op(&[0], false),
                vec![Tensor::f32(
                    [4, 32],
                    (0..128).map(|i| specials[i / 32][i % 32 % 3]).collect(),
                )],
                pair(&[4, 1], &[0.0, 0.0, -f32::MAX, -7.0], &[0.0, 0.0, f32::MAX, 2.0]),
            ),
            Case::shape_only(whole(), vec![sample::f32([2, 4099], 6)]),
            Case::shape_only(whole(), vec![elementwise::extreme_tensor()]),
            Case::shape_only(whole(), vec![sample::f32([5, 67], 1)]),
            Case::shape_only(op(&[0, 1], false), vec![sample::f32([3, 5, 4, 9], 2)]),
            Case::shape_only(op(&[1], false), vec![sample::f32([3, 5, 4, 9], 3)]),
            Case::shape_only(op(&[0, 2], true), vec![sample::f32([3, 5, 33], 4)]),
            Case::shape_only(op(&[0, 1], false), vec![sample::f32([2, 7], 5)]),
        ]
    }
}
