//! ONNX's quantize and dequantize pair.

use trainc_ir::ops::{DequantizeLinear, QuantizeLinear};
use trainc_ir::types::TensorType;
use trainc_ir::{Element, Tensor};

use super::instance::Instance;
use super::{Exactness, Rule, RuleContext, matching};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};

pub(super) const RULES: &[Rule] = &[
    // (q - z) * s and the quotient by s are each rounded once: the result is within 2^-21 of the integer q - z, which
    // the rounding to integers finds again, unless the product leaves the normal range.
    Rule {
        name: "quantize-of-dequantize",
        summary: "quantize_linear(dequantize_linear(q, s, z), s, z) = q, for 8-bit q and constant s in 2^-90..2^90",
        exactness: Exactness::Bit,
        search: quantize_of_dequantize,
        instance: |r| {
            let mut i = Instance::new();
            let rank = r.range(1, 3);
            let shape = r.shape(rank);
            let element = r.choose(&[Element::I8, Element::U8]);
            let q = i.input(TensorType::new(shape, element));
            let mantissa = 1.0 + (r.bits() >> 41) as f32 / (1u32 << 23) as f32;
            let scale = mantissa * f32::from_bits((r.range(40, 215) as u32) << 23);
            let scale = i.constant(Tensor::f32([], vec![scale]));
            let zero = r.tensor(&TensorType::new([], element));
            let zero = i.constant(zero);
            let x = i.op(DequantizeLinear { axis: 0 }, &[q, scale, zero]);
            let y = i.op(QuantizeLinear { axis: 0 }, &[x, scale, zero]);
            i.finish(y)
        },
    },
];

fn quantize_of_dequantize(context: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (outer, op, operands) in matching!(view, id, QuantizeLinear) {
        for (inner, inner_op, inputs) in matching!(view, operands[0], DequantizeLinear) {
            let same = view.same(operands[1], inputs[1]) && view.same(operands[2], inputs[2]);
            let per_tensor = view.ty(operands[1]).is_some_and(|ty| ty.count() == 1);
            let aligned = per_tensor || outer.axis == inner.axis;
            let narrow = view.ty(inputs[0]).is_some_and(|ty| ty.element.bits() == 8);
            let normal = context.constant(view, operands[1]).is_some_and(|scale| {
                let (low, high) = (f32::from_bits(37 << 23), f32::from_bits(217 << 23));
                scale.as_f32().iter().all(|s| (low..=high).contains(s))
            });
            if same && aligned && narrow && normal && view.ty(inputs[0]) == view.ty(id) {
                found.push(Replacement {
                    term: Term::Class(inputs[0]),
                    replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
                });
            }
        }
    }
    found
}
