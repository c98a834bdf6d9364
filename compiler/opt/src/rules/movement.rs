//! Data movement: reshapes and transposes that meet, cancel, move out of the way, or vanish into products.

use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{Dequantize, MatMul, ProductRole, Relu, Requantize, Reshape, Transpose};
use trainc_ir::types::TensorType;
use trainc_ir::{Element, Op};

use super::instance::{Instance, Random};
use super::{Exactness, Rule, RuleContext, matching};
use crate::egraph::Id;
use crate::egraph::saturate::{Replacement, Term, View};

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "reshape-of-reshape",
        summary: "reshape(reshape(x)) = reshape(x)",
        exactness: Exactness::Bit,
        search: reshape_of_reshape,
        instance: |r| {
            let mut i = Instance::new();
            let (x, shape) = typed_input(r, &mut i, 3);
            let flat: usize = shape.iter().product();
            let y = i.op(Reshape { shape: [flat].into() }, &[x]);
            let y = i.op(Reshape { shape: [shape[0], flat / shape[0]].into() }, &[y]);
            i.finish(y)
        },
    },
    Rule {
        name: "reshape-to-own-shape",
        summary: "reshape(x) = x if the shape is that of x",
        exactness: Exactness::Bit,
        search: reshape_to_own_shape,
        instance: |r| {
            let mut i = Instance::new();
            let (x, shape) = typed_input(r, &mut i, 2);
            let y = i.op(Reshape { shape: shape.into() }, &[x]);
            i.finish(y)
        },
    },
    Rule {
        name: "transpose-of-transpose",
        summary: "transpose{p}(transpose{q}(x)) = transpose{q[p]}(x)",
        exactness: Exactness::Bit,
        search: transpose_of_transpose,
        instance: |r| {
            let mut i = Instance::new();
            let (x, _) = typed_input(r, &mut i, 3);
            let y = i.op(random_transpose(r, 3), &[x]);
            let y = i.op(random_transpose(r, 3), &[y]);
            i.finish(y)
        },
    },
    Rule {
        name: "transpose-identity",
        summary: "transpose{0, 1, ..}(x) = x",
        exactness: Exactness::Bit,
        search: transpose_identity,
        instance: |r| {
            let mut i = Instance::new();
            let (x, _) = typed_input(r, &mut i, 3);
            let y = i.op(Transpose { permutation: vec![0, 1, 2] }, &[x]);
            i.finish(y)
        },
    },
    Rule {
        name: "transpose-into-matmul",
        summary: "a matmul operand with its last two axes exchanged = the matmul with that operand's flag turned",
        exactness: Exactness::Bit,
        search: transpose_into_matmul,
        instance: |r| {
            let mut i = Instance::new();
            let (m, k, n) = (r.range(1, 4), r.range(1, 4), r.range(1, 4));
            let float = r.range(0, 1) == 0;
            let ty = |shape: [usize; 2]| {
                if float { TensorType::f32(shape) } else { TensorType::shared(shape, Element::I8) }
            };
            let (ta, tb) = (r.range(0, 1) == 0, r.range(0, 1) == 0);
            let mut a = i.input(ty(if ta { [m, k] } else { [k, m] }));
            let mut b = i.input(ty(if tb { [n, k] } else { [k, n] }));
            // One operand at least comes through a transpose.
            a = i.op(Transpose { permutation: vec![1, 0] }, &[a]);
            if r.range(0, 1) == 0 {
                b = i.op(Transpose { permutation: vec![1, 0] }, &[b]);
                let product =
                    MatMul { transpose_a: ta, transpose_b: !tb, role: ProductRole::Forward };
                let y = i.op(product, &[a, b]);
                return i.finish(y);
            }
            let product = MatMul { transpose_a: ta, transpose_b: tb, role: ProductRole::Forward };
            let y = i.op(product, &[a, b]);
            i.finish(y)
        },
    },
    Rule {
        name: "reshape-after-elementwise",
        summary: "f(reshape(x)) = reshape(f(x)) for f elementwise or by the whole tensor",
        exactness: Exactness::Bit,
        search: reshape_after_elementwise,
        instance: |r| {
            let mut i = Instance::new();
            let shape = r.shape(3);
            let flat = shape.count();
            let rounding = trainc_ir::numeric::Rounding::HalfAway;
            let (element, f): (Element, Op) = match r.range(0, 2) {
                0 => (Element::I8, Relu {}.into()),
                1 => (Element::I8, Dequantize {}.into()),
                _ => (Element::I32, Requantize { bits: 7, rounding, low: -127 }.into()),
            };
            let x = i.input(TensorType::shared(shape, element));
            let y = i.op(Reshape { shape: [flat].into() }, &[x]);
            let y = i.op(f, &[y]);
            i.finish(y)
        },
    },
];

/// An input of random type, with its shape.
fn typed_input(r: &mut Random, i: &mut Instance, rank: usize) -> (trainc_ir::ValueId, Vec<usize>) {
    let shape = r.shape(rank);
    let ty = match r.range(0, 2) {
        0 => TensorType::f32(shape.clone()),
        1 => TensorType::shared(shape.clone(), Element::I8),
        _ => TensorType::shared(shape.clone(), Element::I32),
    };
    (i.input(ty), shape.to_vec())
}

fn random_transpose(r: &mut Random, rank: usize) -> Transpose {
    let mut permutation: Vec<usize> = (0..rank).collect();
    for last in (1..rank).rev() {
        permutation.swap(last, r.range(0, last));
    }
    Transpose { permutation }
}

fn reshape_of_reshape(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (outer, op, operands) in matching!(view, id, Reshape) {
        for (_, inner_op, inputs) in matching!(view, operands[0], Reshape) {
            found.push(Replacement {
                term: Term::operation(outer.clone(), vec![Term::Class(inputs[0])]),
                replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
            });
        }
    }
    found
}

fn reshape_to_own_shape(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    matching!(view, id, Reshape)
        .into_iter()
        .filter(|(reshape, _, operands)| {
            view.ty(operands[0]).is_some_and(|ty| ty.shape == reshape.shape)
        })
        .map(|(_, op, operands)| Replacement {
            term: Term::Class(operands[0]),
            replaced: vec![(op, operands)],
        })
        .collect()
}

fn transpose_of_transpose(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (outer, op, operands) in matching!(view, id, Transpose) {
        for (inner, inner_op, inputs) in matching!(view, operands[0], Transpose) {
            let permutation = outer.permutation.iter().map(|&p| inner.permutation[p]).collect();
            found.push(Replacement {
                term: Term::operation(Transpose { permutation }, vec![Term::Class(inputs[0])]),
                replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
            });
        }
    }
    found
}

fn transpose_identity(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    matching!(view, id, Transpose)
        .into_iter()
        .filter(|(transpose, _, _)| transpose.permutation.iter().enumerate().all(|(i, &p)| i == p))
        .map(|(_, op, operands)| Replacement {
            term: Term::Class(operands[0]),
            replaced: vec![(op, operands)],
        })
        .collect()
}

/// Whether a permutation exchanges the last two axes and nothing else.
fn swaps_last_two(permutation: &[usize]) -> bool {
    let rank = permutation.len();
    rank >= 2
        && permutation[..rank - 2].iter().enumerate().all(|(i, &p)| i == p)
        && permutation[rank - 2..] == [rank - 1, rank - 2]
}

fn transpose_into_matmul(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (product, op, operands) in matching!(view, id, MatMul) {
        for side in 0..2 {
            for (transpose, inner_op, inputs) in matching!(view, operands[side], Transpose) {
                if !swaps_last_two(&transpose.permutation) {
                    continue;
                }
                let mut turned = product.clone();
                let flag =
                    if side == 0 { &mut turned.transpose_a } else { &mut turned.transpose_b };
                *flag = !*flag;
                let mut terms: Vec<Term> = operands.iter().map(|&o| Term::Class(o)).collect();
                terms[side] = Term::Class(inputs[0]);
                found.push(Replacement {
                    term: Term::operation(turned, terms),
                    replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
                });
            }
        }
    }
    found
}

fn reshape_after_elementwise(_: &RuleContext, view: View<'_>, id: Id) -> Vec<Replacement> {
    let mut found = Vec::new();
    for (op, operands) in view.operations(id) {
        if !op.kind().has(Property::IgnoresShape) {
            continue;
        }
        for (reshape, inner_op, inputs) in matching!(view, operands[0], Reshape) {
            let inner = Term::operation(op.clone(), vec![Term::Class(inputs[0])]);
            found.push(Replacement {
                term: Term::operation(reshape, vec![inner]),
                replaced: vec![(op.clone(), operands.clone()), (inner_op, inputs)],
            });
        }
    }
    found
}
