//! ONNX's quantize and dequantize pair.

use trainc_ir::ops::{DequantizeLinear, QuantizeLinear};
use trainc_ir::types::TensorType;
use trainc_ir::{Element, Tensor};

use super::instance::{Drawn, Instance, Random};
use super::{Exactness, Patterns, Rule, Sides};

pub(super) const RULES: &[Rule] = &[
    // (q - z) * s and the quotient by s are each rounded once: the result is within 2^-21 of the integer q - z, which
    // the rounding to integers finds again, unless the product leaves the normal range.
    Rule {
        name: "quantize-of-dequantize",
        summary: "quantize_linear(dequantize_linear(q, s, z), s, z) = q, for 8-bit q and constant s in 2^-90..2^90",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(quantize_linear ?a (dequantize_linear ?b ?q ?s ?z) ?s ?z)", "?q")],
            conditions: &[
                ("q has 8 bits and the result's type", |m| {
                    Some(m.ty("q")?.element.bits() == 8 && m.ty("q") == m.result())
                }),
                ("s is one number, or along the same axis", |m| {
                    let (a, b) = (m.op::<QuantizeLinear>("a")?, m.op::<DequantizeLinear>("b")?);
                    Some(m.ty("s")?.count() == 1 || a.axis == b.axis)
                }),
                ("s is known and in 2^-90..2^90", |m| {
                    let (low, high) = (f32::from_bits(37 << 23), f32::from_bits(217 << 23));
                    Some(m.constant("s")?.as_f32().iter().all(|s| (low..=high).contains(s)))
                }),
            ],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("q", |r, _| {
                let rank = r.range(1, 3);
                let shape = r.shape(rank);
                TensorType::new(shape, r.choose(&[Element::I8, Element::U8])).into()
            }),
            // One number, or one for each index of an axis.
            ("a", |r, d| QuantizeLinear { axis: r.range(0, d.ty("q").shape.rank() - 1) }.into()),
            ("b", |_, d| DequantizeLinear { axis: d.op::<QuantizeLinear>("a").axis }.into()),
            ("s", |r, d| {
                let shape = of_scale(r, d);
                let count = shape.iter().product();
                let scale = |r: &mut Random| {
                    let mantissa = 1.0 + (r.bits() >> 41) as f32 / (1u32 << 23) as f32;
                    mantissa * f32::from_bits((r.range(40, 215) as u32) << 23)
                };
                let data = (0..count).map(|_| scale(r)).collect();
                Tensor::f32(shape, data).into()
            }),
            ("z", |r, d| {
                let shape = d.ty("s").shape.clone();
                r.tensor(&TensorType::new(shape, d.ty("q").element)).into()
            }),
        ]),
    },
];

fn of_scale(r: &mut Random, d: &Drawn) -> Vec<usize> {
    let axis = d.op::<QuantizeLinear>("a").axis;
    if r.range(0, 1) == 0 { Vec::new() } else { vec![d.ty("q").shape[axis]] }
}
