//! Products of u8 as products of i8, for targets whose kernels take i8: an unsigned byte is twice its upper seven bits
//! plus its lowest bit, and products are linear.

use trainc_ir::Element;
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::split_byte::BytePart;
use trainc_ir::ops::{
    Conv2d, Conv2dGradientWeight, DoubledSum, MatMul, Op, ProductRole, SplitByte,
};
use trainc_ir::types::TensorType;

use super::instance::Instance;
use super::{Exactness, Rule, RuleContext};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};

pub(super) const RULES: &[Rule] = &[
    // Sums are modulo 2^32 on both sides.
    Rule {
        name: "unsigned-product-by-parts",
        summary: "product(x: u8, y) = doubled_sum(product(upper(x), y), product(lowest(x), y)), x either operand",
        exactness: Exactness::Bit,
        search: product_by_parts,
        instance: |r| {
            let mut i = Instance::new();
            let bytes = |r: &mut super::Random, unsigned: bool, shape: Vec<usize>| {
                let element = if unsigned { Element::U8 } else { Element::I8 };
                r.tensor(&TensorType::shared(shape, element))
            };
            let (batch, input, output) = (r.range(1, 2), r.range(1, 3), r.range(1, 3));
            let size = r.range(3, 5);
            let strides = [r.range(1, 2); 2];
            let rows = (size - 1) / strides[0] + 1;
            let (pads, dilations, groups) = ([1; 4], [1, 1], 1);
            let y = match r.range(0, 3) {
                0 => {
                    let x = i.constant(bytes(r, true, vec![batch, input, size, size]));
                    let w = i.constant(bytes(r, false, vec![output, input, 3, 3]));
                    i.op(Conv2d { strides, pads, dilations, groups }, &[x, w])
                }
                1 => {
                    let x = i.constant(bytes(r, true, vec![batch, input, size, size]));
                    let e = i.constant(bytes(r, false, vec![batch, output, rows, rows]));
                    let kernel_size = [3, 3];
                    let op = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size };
                    i.op(op, &[x, e])
                }
                side => {
                    let a = i.constant(bytes(r, side == 2, vec![batch, size]));
                    let b = i.constant(bytes(r, side == 3, vec![size, output]));
                    let role = ProductRole::Forward;
                    i.op(MatMul { transpose_a: false, transpose_b: false, role }, &[a, b])
                }
            };
            i.finish(y)
        },
    },
];

fn product_by_parts(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (op, operands) in view.operations(id) {
        if !op.kind().has(Property::Bilinear) {
            continue;
        }
        let unsigned =
            |&&operand: &&Id| view.ty(operand).is_some_and(|ty| ty.element == Element::U8);
        let Some(&byte) = operands.iter().find(unsigned) else { continue };
        let part = |part: BytePart| {
            let split: Op = SplitByte { part }.into();
            let operand = |&operand: &Id| match view.same(operand, byte) {
                true => Term::operation(split.clone(), vec![Term::Class(operand)]),
                false => Term::Class(operand),
            };
            Term::operation(op.clone(), operands.iter().map(operand).collect())
        };
        let parts = vec![part(BytePart::Upper), part(BytePart::Lowest)];
        found.push(Replacement {
            term: Term::operation(DoubledSum {}, parts),
            replaced: vec![(op, operands)],
        });
    }
    found
}
