//! `shift_schedule`. See [`ShiftSchedule`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::shift_state::{self, LEFT, LOOKS, PERIOD, SHIFT};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// The next state of a `requantize_adaptive`. Operands: the state before, the result `y`, and the factors of what was rounded (or
    /// that itself): tensors with shared exponents, of which the exponents alone are read. The shift was
    /// `s = e(y) - (sum of e(factor))`.
    ///
    /// The state is FP32: `left`, the steps until the next look; `shift`; `period`, the steps between looks; and the last looks, the
    /// newest first, each the steps since the one before, less than 0 if the shift was another than there, 0 where there was none.
    /// It begins as `0, 0, 1, 0, 0, ..`.
    ///
    /// Where `left <= 0` the step has looked: with P the period, at least 1 and at most `longest`, the looks get `-P` if s is not
    /// `shift` and there was a look before, else `P`; the oldest is left out. As soon as there are `looks`, with n the steps of all of
    /// them and c those below 0, `P = floor(n / 2c)`, or n if c is 0, between 1 and `longest`; until then P is 1. `left = P`.
    /// In each step `left` becomes `left - 1`.
    ///
    /// So n / c steps pass between changes, and it looks twice in that time. Xu et al., Mandheling (MobiCom 2022), section 3.3.
    /// Order: n is summed from the newest look on.
    pub struct ShiftSchedule = "shift_schedule" {
        /// Looks that are kept.
        pub looks: u32,
        /// The most steps between two.
        pub longest: u32,
    }
}

impl ShiftSchedule {
    /// Steps to the next look, of a number of steps that may be none.
    fn bounded(&self, steps: f32) -> f32 {
        let steps = if 1.0 < steps { steps } else { 1.0 };
        if steps < self.longest as f32 { steps } else { self.longest as f32 }
    }

    fn lower_bounded(&self, b: &mut LoopBuilder, steps: Expr) -> Expr {
        let longest = || Expr::f32(self.longest as f32);
        let steps = b.let_("steps", steps);
        let steps = Expr::f32(1.0).less(steps.clone()).select(steps, Expr::f32(1.0));
        let steps = b.let_("least", steps);
        steps.clone().less(longest()).select(steps, longest())
    }
}

impl Operator for ShiftSchedule {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Variadic];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [state, y, factors @ ..] = inputs else {
            return Err(TypeError::new(format!("{} takes at least 3 operands", Self::NAME)));
        };
        rule::ensure(!factors.is_empty(), || {
            format!("{} takes at least 3 operands, here 2", Self::NAME)
        })?;
        shift_state::check(Self::NAME, state)?;
        rule::ensure((1..=64).contains(&self.looks) && (1..=65536).contains(&self.longest), || {
            format!(
                "{} keeps 1 to 64 looks, 1 to 65536 steps apart, here {} and {}",
                Self::NAME,
                self.looks,
                self.longest
            )
        })?;
        rule::ensure(state.count() == LOOKS + self.looks as usize, || {
            format!("{} of {} looks has another state than {state}", Self::NAME, self.looks)
        })?;
        let shared = |ty: &&TensorType| ty.scale == Scale::Exponent;
        rule::ensure(shared(y) && y.element == Element::I8 && factors.iter().all(shared), || {
            format!("{} takes i8<2^e> and factors with shared exponents, here {y}", Self::NAME)
        })?;
        Ok(vec![(*state).clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let mut state = inputs[0].as_f32().to_vec();
        if shift_state::due(&state) {
            let own = inputs[2..].iter().fold(0i32, |e, x| e.wrapping_add(x.exponent()));
            let shift = inputs[1].exponent().wrapping_sub(own) as f32;
            let period = self.bounded(state[PERIOD]);
            let changed = state[LOOKS] != 0.0 && shift != state[SHIFT];
            let oldest = state.len() - 1;
            state.copy_within(LOOKS..oldest, LOOKS + 1);
            state[LOOKS] = if changed { -period } else { period };
            let steps = state[LOOKS..].iter().fold(0.0, |n, look| n + look.abs());
            let changes = state[LOOKS..].iter().filter(|&&look| look < 0.0).count() as f32;
            let next = if changes == 0.0 { steps } else { (steps / (changes * 2.0)).floor() };
            state[SHIFT] = shift;
            state[PERIOD] = if state[oldest] == 0.0 { 1.0 } else { self.bounded(next) };
            state[LEFT] = state[PERIOD];
        }
        state[LEFT] -= 1.0;
        vec![Tensor::f32(inputs[0].shape().clone(), state)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (state, next, count) = (b.input(0), b.output(0), inputs[0].count());
        let load = |b: &LoopBuilder, i: usize| b.load(state, Expr::index(i));
        let left = load(&b, LEFT);
        let left = b.local("left", left);
        let shift = load(&b, SHIFT);
        let shift = b.local("shift", shift);
        let period = load(&b, PERIOD);
        let period = b.local("period", period);
        let due = b.get(left).less_equal(Expr::f32(0.0));
        let looks: Vec<Expr> = (LOOKS..count).map(|i| load(&b, i)).collect();
        let looks: Vec<Expr> = looks.into_iter().map(|look| b.let_("look", look)).collect();
        b.if_else(
            due,
            |b| {
                let factors = (2..inputs.len()).map(|i| b.input_exponent(i));
                let own = factors.fold(Expr::i32(0), |all, e| all + e);
                let found = b.input_exponent(1) - own;
                let found = b.let_("found", found.unary(Unary::ToFloat));
                let before = b.get(period);
                let before = self.lower_bounded(b, before);
                let before = b.let_("before", before);
                let other = found.clone().not_equal(b.get(shift));
                let changed = looks[0].clone().not_equal(Expr::f32(0.0)).and(other);
                let negative = before.clone().unary(Unary::Negate);
                let newest = b.let_("newest", changed.select(negative, before));
                let kept: Vec<Expr> =
                    std::iter::once(newest).chain(looks[..looks.len() - 1].to_vec()).collect();
                let mut steps = Expr::f32(0.0);
                let mut changes = Expr::f32(0.0);
                for (i, look) in kept.iter().enumerate() {
                    b.store(next, Expr::index(LOOKS + i), look.clone());
                    steps = b.let_("n", steps + look.clone().unary(Unary::FloatAbs));
                    let change = look.clone().less(Expr::f32(0.0));
                    changes = b.let_("c", changes + change.select(Expr::f32(1.0), Expr::f32(0.0)));
                }
                let none = changes.clone().equal(Expr::f32(0.0));
                let twice = b.let_("twice", none.clone().select(Expr::f32(1.0), changes * Expr::f32(2.0)));
                let half = steps.clone().divide(twice).unary(Unary::Floor);
                let half = none.select(steps, half);
                let half = self.lower_bounded(b, half);
                let few = kept[kept.len() - 1].clone().equal(Expr::f32(0.0));
                b.set(shift, found);
                b.set(period, few.select(Expr::f32(1.0), half));
                let following = b.get(period);
                b.set(left, following);
            },
            |b| {
                for (i, look) in looks.iter().enumerate() {
                    b.store(next, Expr::index(LOOKS + i), look.clone());
                }
            },
        );
        let values = [b.get(left) - Expr::f32(1.0), b.get(shift), b.get(period)];
        for (i, value) in values.into_iter().enumerate() {
            b.store(next, Expr::index(i), value);
        }
        b.finish()
    }

    /// All numbers are read before the first is written.
    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let f32 = |x: &[f32]| Tensor::f32([x.len()], x.to_vec());
        // Factors of exponents -4 and -6, so that the shift is `s`.
        let operands = |state: &[f32], s: i32| {
            let byte = |e: i32| Tensor::i8_shared([2], vec![3, -4], e);
            vec![f32(state), byte(s - 10), byte(-4), Tensor::i8_shared([1], vec![9], -6)]
        };
        let op = |looks: u32, longest: u32| ShiftSchedule { looks, longest };
        let three = |state: [f32; 6], s: i32, next: [f32; 6]| {
            Case::new(op(3, 64), operands(&state, s), vec![f32(&next)])
        };
        let whole = |state: &[f32], s: i32, next: &[f32]| {
            Case::new(op(8, 64), operands(state, s), vec![f32(next)])
        };
        vec![
            // The first look changes nothing, whatever it finds.
            three([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], 7, [0.0, 7.0, 1.0, 1.0, 0.0, 0.0]),
            three([0.0, 7.0, 1.0, 1.0, 0.0, 0.0], 8, [0.0, 8.0, 1.0, -1.0, 1.0, 0.0]),
            // Three looks, 3 steps, one change: 3 / 2 is 1.
            three([0.0, 8.0, 1.0, -1.0, 1.0, 0.0], 8, [0.0, 8.0, 1.0, 1.0, -1.0, 1.0]),
            three([0.0, 8.0, 1.0, 1.0, -1.0, 1.0], 8, [0.0, 8.0, 1.0, 1.0, 1.0, -1.0]),
            // Three looks without one: as many steps as they were, 3.
            three([0.0, 8.0, 1.0, 1.0, 1.0, -1.0], 8, [2.0, 8.0, 3.0, 1.0, 1.0, 1.0]),
            // Not due: the shift that `y` has does not count.
            three([2.0, 8.0, 3.0, 1.0, 1.0, 1.0], 5, [1.0, 8.0, 3.0, 1.0, 1.0, 1.0]),
            three([1.0, 8.0, 3.0, 1.0, 1.0, 1.0], 8, [0.0, 8.0, 3.0, 1.0, 1.0, 1.0]),
            // 3 + 1 + 1 steps and no change, then 3 + 5 + 1 and one.
            three([0.0, 8.0, 3.0, 1.0, 1.0, 1.0], 8, [4.0, 8.0, 5.0, 3.0, 1.0, 1.0]),
            three([0.0, 8.0, 5.0, 3.0, 1.0, 1.0], 7, [3.0, 7.0, 4.0, -5.0, 3.0, 1.0]),
            // 4 + 5 + 3 and three changes: 2.
            three([0.0, 7.0, 4.0, -5.0, -3.0, 1.0], 9, [1.0, 9.0, 2.0, -4.0, -5.0, -3.0]),
            // No further apart than `longest`.
            three([0.0, 9.0, 64.0, 64.0, 50.0, 1.0], 9, [63.0, 9.0, 64.0, 64.0, 64.0, 50.0]),
            Case::new(
                op(1, 5),
                operands(&[-3.0, 2.0, 9.0, -4.0], 2),
                vec![f32(&[4.0, 2.0, 5.0, 5.0])],
            ),
            Case::new(
                op(1, 5),
                operands(&[0.0, 2.0, 5.0, 5.0], -1),
                vec![f32(&[1.0, -1.0, 2.0, -5.0])],
            ),
            whole(
                &[0.0, 6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
                6,
                &[7.0, 6.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            ),
            // 8 + 1 + 1 + 1 + 1 + 1 + 1 + 1 steps, two changes: 15 / 4.
            whole(
                &[0.0, 6.0, 8.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
                7,
                &[2.0, 7.0, 3.0, -8.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            ),
            // A state that no step gave.
            Case::shape_only(op(3, 64), operands(&[-1.0, 7.5, f32::NAN, 0.5, -2.5, 1e30], 7)),
            Case::shape_only(op(2, 9), operands(&[0.0, 3.0, -8.0, f32::INFINITY, 4.0], 4)),
            Case::shape_only(op(2, 9), operands(&[f32::NAN, 3.0, 2.0, 1.0, 4.0], 4)),
            // Of what was rounded itself.
            Case::new(
                op(1, 64),
                vec![
                    f32(&[0.0, 3.0, 4.0, 4.0]),
                    Tensor::i8_shared([1], vec![100], 5),
                    Tensor::i32_shared([1], vec![800], 2),
                ],
                vec![f32(&[3.0, 3.0, 4.0, 4.0])],
            ),
        ]
    }
}
