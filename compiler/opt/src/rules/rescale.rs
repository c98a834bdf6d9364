//! Rescaling: ReLUs into clamps, masks from results, chains of shifts.

use trainc_ir::attributes::F32;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Clip, ClipGradient, Requantize, ShiftRight};
use trainc_ir::types::TensorType;
use trainc_ir::{Element, Op};

use super::instance::{Instance, Random, Value};
use super::{Exactness, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

pub(super) const RULES: &[Rule] = &[
    // max(clamp(v, -127, 127), 0) = clamp(v, 0, 127); the exponent comes from the operand either way.
    Rule {
        name: "relu-of-requantize",
        summary: "relu(requantize{low}(x)) = requantize{low=0}(x), low <= 0",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(relu (requantize ?a ?x))", "(requantize ?from_zero ?x)")],
            computed: (&["from_zero"], |m| {
                let requantize = m.op::<Requantize>("a").filter(|a| a.low <= 0)?;
                let from_zero = Requantize { low: 0, ..requantize.clone() };
                Some(vec![Term::Attributes(from_zero.into())])
            }),
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| sums(r)),
            ("a", |r, _| {
                let rounding = [Rounding::HalfAway, Rounding::PseudoStochastic, Rounding::Truncate];
                let low = r.choose(&[-127, -127, -1, 0]);
                Requantize { bits: 7, rounding: r.choose(&rounding), low }.into()
            }),
        ]),
    },
    // clamp(x) lies strictly inside the bounds exactly where x does. (Not so for integers: with a coarse exponent the
    // clamp can round a value from outside the bounds to one strictly inside them.)
    Rule {
        name: "clip-gradient-of-result",
        summary: "clip_gradient(x, e) = clip_gradient(clip(x), e) of f32, where clip(x) is computed anyway",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(clip_gradient ?a ?x ?e)", "(clip_gradient ?a (clip ?a ?x) ?e)")],
            conditions: &[
                ("x is f32", |m| Some(m.ty("x")?.is_f32())),
                ("x is not clipped already", |m| {
                    let ClipGradient { min, max } = m.op::<ClipGradient>("a")?.clone();
                    Some(!m.operations("x").contains(&Op::from(Clip { min, max })))
                }),
            ],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| {
                let rank = r.range(1, 3);
                TensorType::f32(r.shape(rank)).into()
            }),
            ("e", |_, d| d.ty("x").clone().into()),
            ("a", |r, _| {
                let (min, max) = r.choose(&[(0.0, 6.0), (-1.0, 1.0), (0.0, f32::INFINITY)]);
                ClipGradient { min: F32::new(min), max: F32::new(max) }.into()
            }),
        ]),
    },
    // floor(floor(x / 2^a) / 2^b) = floor(x / 2^(a+b)), likewise toward zero. Not so for rounding to nearest.
    Rule {
        name: "shift-of-shift",
        summary: "shift_right{b}(shift_right{a}(x)) = shift_right{a+b}(x), both floor or both truncate, \
                  inner result i32, a >= 1, a + b < 32",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(shift_right ?b (shift_right ?a ?x))", "(shift_right ?both ?x)")],
            guards: &["?a.rounding = floor | truncate", "?a.element = i32"],
            conditions: &[("both round alike", |m| {
                let (a, b) = (m.op::<ShiftRight>("a")?, m.op::<ShiftRight>("b")?);
                Some(a.rounding == b.rounding)
            })],
            computed: (&["both"], |m| {
                let (a, b) = (m.op::<ShiftRight>("a")?, m.op::<ShiftRight>("b")?);
                let amount = a.amount.checked_add(b.amount).filter(|&both| both < 32)?;
                let both = ShiftRight { amount, ..b.clone() };
                (a.amount >= 1).then(|| vec![Term::Attributes(both.into())])
            }),
        }),
        instance: Instance::Drawn(&[
            ("x", |r, _| sums(r)),
            ("a", |r, _| {
                let rounding = r.choose(&[Rounding::Floor, Rounding::Truncate]);
                ShiftRight { amount: r.range(1, 15) as u8, rounding, element: Element::I32 }.into()
            }),
            ("b", |r, d| {
                let (amount, rounding) = (r.range(0, 15) as u8, d.op::<ShiftRight>("a").rounding);
                ShiftRight { amount, rounding, element: r.choose(&[Element::I32, Element::I8]) }
                    .into()
            }),
        ]),
    },
];

/// Integer sums of any shape.
fn sums(r: &mut Random) -> Value {
    let rank = r.range(1, 3);
    TensorType::shared(r.shape(rank), Element::I32).into()
}
