//! Rescaling: ReLUs into clamps, masks from results, chains of shifts.

use trainc_ir::Element;
use trainc_ir::attributes::F32;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Clip, ClipGradient, Relu, Requantize, ShiftRight};
use trainc_ir::types::TensorType;

use super::instance::{Instance, Random};
use super::{Exactness, Rule, RuleContext, matching};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};

pub(super) const RULES: &[Rule] = &[
    // max(clamp(v, -127, 127), 0) = clamp(v, 0, 127); the exponent comes from the operand either way.
    Rule {
        name: "relu-of-requantize",
        summary: "relu(requantize{low=-127}(x)) = requantize{low=0}(x)",
        exactness: Exactness::Bit,
        search: relu_of_requantize,
        instance: |r| {
            let mut i = Instance::new();
            let rank = r.range(1, 3);
            let x = i.input(TensorType::shared(r.shape(rank), Element::I32));
            let q = i.op(requantize(r, -127), &[x]);
            let y = i.op(Relu {}, &[q]);
            i.finish(y)
        },
    },
    // clamp(x) lies strictly inside the bounds exactly where x does. (Not so for integers: with a coarse exponent the
    // clamp can round a value from outside the bounds to one strictly inside them.)
    Rule {
        name: "clip-gradient-of-result",
        summary: "clip_gradient(x, e) = clip_gradient(clip(x), e) of f32, where clip(x) is computed anyway",
        exactness: Exactness::Bit,
        search: clip_gradient_of_result,
        instance: |r| {
            let mut i = Instance::new();
            let rank = r.range(1, 3);
            let ty = TensorType::f32(r.shape(rank));
            let x = i.input(ty.clone());
            let e = i.input(ty);
            let (min, max) = r.choose(&[(0.0, 6.0), (-1.0, 1.0), (0.0, f32::INFINITY)]);
            let (min, max) = (F32::new(min), F32::new(max));
            let clipped = i.op(Clip { min, max }, &[x]);
            let masked = i.op(ClipGradient { min, max }, &[x, e]);
            let mut graph = i.finish(masked);
            graph.add_output("clip", clipped);
            graph
        },
    },
    // floor(floor(x / 2^a) / 2^b) = floor(x / 2^(a+b)), likewise toward zero. Not so for rounding to nearest.
    Rule {
        name: "shift-of-shift",
        summary: "shift_right{b}(shift_right{a}(x)) = shift_right{a+b}(x), both floor or both truncate, \
                  inner result i32, a >= 1, a + b < 32",
        exactness: Exactness::Bit,
        search: shift_of_shift,
        instance: |r| {
            let mut i = Instance::new();
            let rank = r.range(1, 3);
            let x = i.input(TensorType::shared(r.shape(rank), Element::I32));
            let rounding = r.choose(&[Rounding::Floor, Rounding::Truncate]);
            let inner =
                ShiftRight { amount: r.range(1, 15) as u8, rounding, element: Element::I32 };
            let element = r.choose(&[Element::I32, Element::I8]);
            let outer = ShiftRight { amount: r.range(0, 15) as u8, rounding, element };
            let y = i.op(inner, &[x]);
            let y = i.op(outer, &[y]);
            i.finish(y)
        },
    },
];

fn requantize(r: &mut Random, low: i8) -> Requantize {
    let rounding = r.choose(&[Rounding::HalfAway, Rounding::PseudoStochastic, Rounding::Truncate]);
    Requantize { bits: 7, rounding, low }
}

fn relu_of_requantize(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (_, relu, operands) in matching!(view, id, Relu) {
        for (inner, op, inputs) in matching!(view, operands[0], Requantize) {
            if inner.low <= 0 {
                let fused = Requantize { low: 0, ..inner };
                found.push(Replacement {
                    term: Term::operation(fused, vec![Term::Class(inputs[0])]),
                    replaced: vec![(relu.clone(), operands.clone()), (op, inputs)],
                });
            }
        }
    }
    found
}

fn clip_gradient_of_result(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (gradient, op, operands) in matching!(view, id, ClipGradient) {
        let clip = Clip { min: gradient.min, max: gradient.max };
        let repeated = matching!(view, operands[0], Clip).iter().any(|(c, _, _)| *c == clip);
        let float = view.ty(operands[0]).is_some_and(TensorType::is_f32);
        if float && !repeated {
            let clipped = Term::operation(clip, vec![Term::Class(operands[0])]);
            let term = Term::operation(gradient, vec![clipped, Term::Class(operands[1])]);
            found.push(Replacement { term, replaced: vec![(op, operands)] });
        }
    }
    found
}

fn shift_of_shift(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (outer, op, operands) in matching!(view, id, ShiftRight) {
        for (inner, inner_op, inputs) in matching!(view, operands[0], ShiftRight) {
            let exact = matches!(inner.rounding, Rounding::Floor | Rounding::Truncate)
                && inner.rounding == outer.rounding
                && inner.element == Element::I32
                && inner.amount >= 1
                && inner.amount + outer.amount < 32;
            if exact {
                let amount = inner.amount + outer.amount;
                let merged = ShiftRight { amount, ..outer.clone() };
                found.push(Replacement {
                    term: Term::operation(merged, vec![Term::Class(inputs[0])]),
                    replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
                });
            }
        }
    }
    found
}
