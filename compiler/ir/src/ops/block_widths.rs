//! `block_widths`. See [`BlockWidths`].

use crate::attributes::{Attributes, F32};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Local, LoopKernel, Unary};
use crate::numeric::{self, float};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::partial_sums::{self, PartialSumLoops, PartialSums};
use crate::ops::support::sample;
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, TensorType};

/// 1 / ln 2.
const PER_BIT: f32 = std::f32::consts::LOG2_E;
/// Tensors of one choice: each has two results beside the first.
const MOST: usize = 127;

operator! {
    /// The widths of blocks for the next epoch (see `quantize_blocks`), so that their mean is a budget and the loss minds their rounding
    /// alike: DYNASTY's Algorithm 1. Operands (FP32): the state, `lambda` and the epochs so far; then for each tensor the widths
    /// and the sensitivities of its blocks (see `block_sensitivity`). Results: the next state; then for each tensor the next
    /// widths and as many zeros, with which sensitivities begin anew.
    ///
    /// A block of a tensor whose elements have `u` uses each has weight `T = 16 u` and `r = 0.5 * (log(S / T) * log2 e)`. Blocks whose
    /// `S / T` is no number above 0 are dead: they get no bits and do not count below. With `mean` the mean weighed by T and
    /// `avg(l) = mean(clamp(r - l, 0, largest))`: in the first epoch `lambda = mean(r) - budget`. Later
    /// `l0 = min(r) - budget`, `l1 = max(r) - budget`, `l = min(max(lambda, l0), l1)`, and `rounds` times: `a = avg(l)`; where
    /// `a > budget`, with `t = (a - budget) / (a - avg(l1))`, l0 becomes l and l becomes `(1 - t) l + t l1`; else, with
    /// `t = (a - budget) / (a - avg(l0))`, l1 becomes l and l becomes `(1 - t) l + t l0`; neither where the divisor is 0. Then
    /// `width = kept * width + (1 - kept) * clamp(r - l, 0, largest)` of each block. Where all are dead nothing changes.
    ///
    /// Order: all in FP32; blocks are numbered through all tensors, and block `i` is added to partial sum `i mod 16`, from +0; then the
    /// partial sums from the first to the last; a mean is the quotient of two such sums, of `T * value` and of T.
    pub struct BlockWidths = "block_widths" {
        /// Bits in the mean.
        pub budget: F32,
        /// The most bits of a block.
        pub largest: F32,
        /// Share of the widths before in the next.
        pub kept: F32,
        /// Rounds of the search.
        pub rounds: u32,
        /// For each tensor, how often each of its elements is multiplied in a step.
        pub uses: Vec<F32>,
    }
}

impl BlockWidths {
    fn clamped(&self, bits: f32) -> f32 {
        let bits = if bits > 0.0 { bits } else { 0.0 };
        if bits < self.largest.get() { bits } else { self.largest.get() }
    }

    fn clamped_expression(&self, bits: Expr) -> Expr {
        bits.maximum(Expr::f32(0.0)).minimum(Expr::f32(self.largest.get()))
    }

    fn weights(&self) -> impl Iterator<Item = f32> {
        self.uses.iter().map(|uses| 16.0 * uses.get())
    }

    /// `lambda` for the blocks `r` of weights `t`, dead ones of weight 0; `before` is that of the last epoch, if there was one.
    fn search(&self, (r, t): (&[f32], &[f32]), total: f32, before: Option<f32>) -> f32 {
        let mean = |value: &dyn Fn(f32) -> f32| {
            PartialSums::sum(r.iter().zip(t).map(|(&r, &t)| t * value(r))) / total
        };
        let budget = self.budget.get();
        let Some(before) = before else { return mean(&|r| r) - budget };
        let average = |l: f32| mean(&|r| self.clamped(r - l));
        let live = || r.iter().zip(t).filter(|(_, t)| **t > 0.0).map(|(&r, _)| r);
        let mut l0 = live().fold(f32::MAX, |m, r| if r < m { r } else { m }) - budget;
        let mut l1 = live().fold(-f32::MAX, |m, r| if r > m { r } else { m }) - budget;
        let l = if before > l0 { before } else { l0 };
        let mut l = if l < l1 { l } else { l1 };
        for _ in 0..self.rounds {
            let a = average(l);
            let other = if a > budget { l1 } else { l0 };
            let slope = a - average(other);
            if slope == 0.0 {
                break;
            }
            let share = (a - budget) / slope;
            let next = (1.0 - share) * l + share * other;
            if a > budget {
                l0 = l;
            } else {
                l1 = l;
            }
            l = next;
        }
        l
    }

    /// [`BlockWidths::search`] in loops.
    fn lower_search(&self, b: &mut LoopBuilder, numbers: &Numbers, lambda: Local, epochs: &Expr) {
        let budget = || Expr::f32(self.budget.get());
        let later = Expr::f32(0.0).less(epochs.clone());
        b.if_else(
            later,
            |b| {
                let least = b.local("l0", Expr::f32(f32::MAX));
                let most = b.local("l1", Expr::f32(-f32::MAX));
                b.for_("i", numbers.count, |b, i| {
                    let live = Expr::f32(0.0).less(b.load(numbers.t, i.clone()));
                    b.if_(live, |b| {
                        let r = b.load(numbers.r, i);
                        let r = b.let_("own", r);
                        let smaller = r.clone().minimum(b.get(least));
                        b.set(least, smaller);
                        let larger = r.maximum(b.get(most));
                        b.set(most, larger);
                    });
                });
                for end in [least, most] {
                    let value = b.get(end) - budget();
                    b.set(end, value);
                }
                let l = b.get(lambda).maximum(b.get(least));
                b.set(lambda, l);
                let l = b.get(lambda).minimum(b.get(most));
                b.set(lambda, l);
                b.for_("round", self.rounds as usize, |b, _| {
                    let l = b.get(lambda);
                    let l = b.let_("l", l);
                    let average = |b: &mut LoopBuilder, l: &Expr| {
                        numbers.mean(b, |r| self.clamped_expression(r - l.clone()))
                    };
                    let a = average(b, &l);
                    let above = b.let_("above", budget().less(a.clone()));
                    let other = above.clone().select(b.get(most), b.get(least));
                    let other = b.let_("other", other);
                    let slope = a.clone() - average(b, &other);
                    let slope = b.let_("slope", slope);
                    b.if_(slope.clone().not_equal(Expr::f32(0.0)), |b| {
                        let share = b.let_("share", (a - budget()).divide(slope));
                        let next = (Expr::f32(1.0) - share.clone()) * l.clone() + share * other;
                        b.set(lambda, next);
                        let value = above.clone().select(l.clone(), b.get(least));
                        b.set(least, value);
                        let value = above.unary(Unary::Not).select(l, b.get(most));
                        b.set(most, value);
                    });
                });
            },
            |b| {
                let mean = numbers.mean(b, |r| r);
                b.set(lambda, mean - budget());
            },
        );
    }
}

/// The blocks of all tensors in working memory, and their number.
struct Numbers {
    r: Buffer,
    t: Buffer,
    count: usize,
    sums: PartialSumLoops,
    total: Option<Expr>,
}

impl Numbers {
    fn mean(&self, b: &mut LoopBuilder, value: impl Fn(Expr) -> Expr) -> Expr {
        let sum = partial_sums::lower(b, &self.sums, self.count, |b, i| {
            b.load(self.t, i.clone()) * value(b.load(self.r, i))
        });
        let mean = match &self.total {
            Some(total) => sum.divide(total.clone()),
            None => sum,
        };
        b.let_("mean", mean)
    }
}

impl Operator for BlockWidths {
    const WORK: Work = Work::Series;
    const PROPERTIES: &'static [Property] = &[Property::Variadic];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        rule::all_f32(Self::NAME, inputs)?;
        let tensors = self.uses.len();
        rule::ensure((1..=MOST).contains(&tensors) && inputs.len() == 1 + 2 * tensors, || {
            format!(
                "{} takes a state and two operands for each of 1 to {MOST} tensors, here {} operands and {tensors} uses",
                Self::NAME,
                inputs.len()
            )
        })?;
        rule::ensure(inputs[0].shape.dims() == [2], || {
            format!("{}: the state has 2 numbers, here {}", Self::NAME, inputs[0])
        })?;
        let alike = inputs[1..].chunks(2).all(|pair| pair[0] == pair[1] && pair[0].count() > 0);
        rule::ensure(alike, || format!("{}: a width and a sensitivity for each block", Self::NAME))?;
        let numbers = [self.budget, self.largest, self.kept].map(F32::get);
        let fits = (0.0..=8.0).contains(&numbers[0])
            && (0.0..=8.0).contains(&numbers[1])
            && (0.0..=1.0).contains(&numbers[2])
            && (1..=64).contains(&self.rounds)
            && self.weights().all(|t| t > 0.0 && t.is_finite());
        rule::ensure(fits, || {
            format!(
                "{}: budget and largest width within 8 bits, a share, 1 to 64 rounds, uses above 0",
                Self::NAME
            )
        })?;
        Ok(inputs.iter().map(|ty| (*ty).clone()).collect())
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (mut r, mut t) = (Vec::new(), Vec::new());
        for (pair, weight) in inputs[1..].chunks(2).zip(self.weights()) {
            for &sensitivity in pair[1].as_f32() {
                let quotient = sensitivity / weight;
                let live = quotient > 0.0 && quotient < f32::INFINITY;
                r.push(if live { 0.5 * (numeric::log(quotient) * PER_BIT) } else { 0.0 });
                t.push(if live { weight } else { 0.0 });
            }
        }
        let total = PartialSums::sum(t.iter().copied());
        let state = inputs[0].as_f32();
        let some = total > 0.0;
        let lambda = match some {
            true => self.search((&r, &t), total, (state[1] > 0.0).then_some(state[0])),
            false => state[0],
        };
        let epochs = if some { state[1] + 1.0 } else { state[1] };
        let mut results = vec![Tensor::f32([2], vec![lambda, epochs])];
        let kept = self.kept.get();
        let mut next = r.iter().zip(&t).map(|(&r, &t)| {
            if t > 0.0 { self.clamped(r - lambda) } else { 0.0 }
        });
        for pair in inputs[1..].chunks(2) {
            let widths = pair[0].as_f32().iter().zip(&mut next).map(|(&width, bits)| {
                if some { width * kept + bits * (1.0 - kept) } else { width }
            });
            let widths: Vec<f32> = widths.collect();
            results.push(Tensor::f32(pair[0].shape().clone(), widths));
            results.push(Tensor::zeros(pair[1].ty()));
        }
        results
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let counts: Vec<usize> = inputs[1..].chunks(2).map(|pair| pair[0].count()).collect();
        let count = counts.iter().sum();
        let firsts = counts.iter().scan(0, |next, count| {
            *next += count;
            Some(*next - count)
        });
        let firsts: Vec<usize> = firsts.collect();
        let [r, t] = ["r", "t"].map(|name| b.scratch(name, Element::F32, count));
        let sums = PartialSumLoops::one(&mut b, "parts");
        let mut numbers = Numbers { r, t, count, sums, total: None };
        for (tensor, weight) in self.weights().enumerate() {
            let sensitivities = b.input(2 + 2 * tensor);
            b.for_("i", counts[tensor], |b, i| {
                let quotient = b.load(sensitivities, i.clone()).divide(Expr::f32(weight));
                let quotient = b.let_("quotient", quotient);
                let live = Expr::f32(0.0).less(quotient.clone());
                let live = live.and(quotient.clone().less(Expr::f32(f32::INFINITY)));
                let live = b.let_("live", live);
                let log = float::log_expression(b, quotient) * Expr::f32(PER_BIT);
                let place = i + Expr::index(firsts[tensor]);
                let bits = live.clone().select(Expr::f32(0.5) * log, Expr::f32(0.0));
                b.store(r, place.clone(), bits);
                b.store(t, place, live.select(Expr::f32(weight), Expr::f32(0.0)));
            });
        }
        let total = partial_sums::lower(&mut b, &numbers.sums, count, |b, i| b.load(t, i));
        let total = b.let_("total", total);
        let some = b.let_("some", Expr::f32(0.0).less(total.clone()));
        numbers.total = Some(total);
        let state = b.input(0);
        let [before, epochs] = [0, 1].map(|i| b.load(state, Expr::i64(i)));
        let lambda = b.local("lambda", before);
        let epochs = b.let_("epochs", epochs);
        b.if_(some.clone(), |b| self.lower_search(b, &numbers, lambda, &epochs));
        let l = b.get(lambda);
        b.store(b.output(0), Expr::i64(0), l.clone());
        let more = epochs.clone() + Expr::f32(1.0);
        b.store(b.output(0), Expr::i64(1), some.clone().select(more, epochs));
        let kept = self.kept.get();
        for (tensor, &count) in counts.iter().enumerate() {
            let widths = b.input(1 + 2 * tensor);
            let [next, cleared] = [1, 2].map(|i| b.output(i + 2 * tensor));
            b.for_("i", count, |b, i| {
                let width = b.load(widths, i.clone());
                let width = b.let_("width", width);
                let place = i.clone() + Expr::index(firsts[tensor]);
                let bits = self.clamped_expression(b.load(r, place.clone()) - l.clone());
                let live = Expr::f32(0.0).less(b.load(t, place));
                let bits = live.select(bits, Expr::f32(0.0)) * Expr::f32(1.0 - kept);
                let mixed = width.clone() * Expr::f32(kept) + bits;
                b.store(next, i.clone(), some.clone().select(mixed, width));
                b.store(cleared, i, Expr::f32(0.0));
            });
        }
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let op = |budget: f32, kept: f32, rounds, uses: &[f32]| BlockWidths {
            budget: budget.into(),
            largest: 8.0.into(),
            kept: kept.into(),
            rounds,
            uses: uses.iter().map(|&u| u.into()).collect(),
        };
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        let zeros = |n: usize| f32(&vec![0.0; n]);
        let made = |n: usize, salt: u32, power: i32| {
            let x = sample::f32([n], salt);
            f32(&x.as_f32().iter().map(|x| x.powi(power)).collect::<Vec<_>>())
        };
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        vec![
            // r is 4 (S / T = 2^8: the logarithm of a power of two is exact here) and 0, their mean 2: lambda -1 for 3 bits.
            Case::new(
                op(3.0, 0.5, 3, &[1.0]),
                vec![f32(&[0.0, 0.0]), f32(&[4.0, 4.0]), f32(&[4096.0, 16.0])],
                vec![f32(&[-1.0, 1.0]), f32(&[4.5, 2.5]), zeros(2)],
            ),
            // The same with the first block's tensor used three times as often (r = 4 again): the mean is 3.
            Case::new(
                op(3.0, 0.0, 3, &[3.0, 1.0]),
                vec![f32(&[9.0, 0.0]), f32(&[4.0]), f32(&[12288.0]), f32(&[4.0]), f32(&[16.0])],
                vec![f32(&[0.0, 1.0]), f32(&[4.0]), zeros(1), f32(&[0.0]), zeros(1)],
            ),
            // Dead blocks get no bits and do not count: of r = 4 the mean is 4.
            Case::new(
                op(3.0, 0.5, 3, &[1.0]),
                vec![f32(&[0.0, 0.0]), f32(&[4.0; 4]), f32(&[4096.0, 0.0, nan, infinity])],
                vec![f32(&[1.0, 1.0]), f32(&[3.5, 2.0, 2.0, 2.0]), zeros(4)],
            ),
            // All dead: as it was.
            Case::new(
                op(3.0, 0.5, 3, &[1.0]),
                vec![f32(&[2.5, 7.0]), f32(&[4.0, 3.0]), zeros(2)],
                vec![f32(&[2.5, 7.0]), f32(&[4.0, 3.0]), zeros(2)],
            ),
            // One block: both ends are 1, where its width is 3. There is nothing to search, and 0 / 0 is not worked out.
            Case::new(
                op(3.0, 0.0, 3, &[1.0]),
                vec![f32(&[50.0, 1.0]), f32(&[4.0]), f32(&[4096.0])],
                vec![f32(&[1.0, 2.0]), f32(&[3.0]), zeros(1)],
            ),
            // A search that moves.
            Case::shape_only(
                op(3.0, 0.5, 1, &[1.0]),
                vec![f32(&[9.0, 1.0]), f32(&[4.0, 4.0]), f32(&[4096.0, 16.0])],
            ),
            Case::shape_only(
                op(2.0, 0.5, 3, &[64.0, 9.5]),
                vec![f32(&[-1.5, 3.0]), made(37, 1, 1), made(37, 2, 8), made(5, 3, 2), made(5, 4, 6)],
            ),
            Case::shape_only(
                op(4.0, 0.5, 3, &[2.0, 1.0]),
                vec![f32(&[nan, 1.0]), made(21, 5, 1), made(21, 6, 12), made(18, 7, 2), made(18, 8, 3)],
            ),
            Case::shape_only(
                op(0.0, 0.25, 7, &[1.0e9]),
                vec![f32(&[0.0, 2.0]), made(3, 9, 1), f32(&[1.0e-44, 3.0e38, 1.0e-20])],
            ),
            Case::shape_only(
                op(8.0, 1.0, 2, &[1.0]),
                vec![f32(&[infinity, 2.0]), f32(&[nan, 1.0]), f32(&[2.0, 3.0])],
            ),
        ]
    }
}
