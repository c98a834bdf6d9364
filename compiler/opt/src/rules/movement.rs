//! Data movement: reshapes and transposes that meet, cancel, move out of the way, or vanish into products.

use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{MatMul, ProductRole, QuantizeGradient, Reshape, Transpose};
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::{Element, Tensor};

use super::instance::{Drawn, Instance, Random, Value};
use super::{Exactness, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "reshape-of-reshape",
        summary: "reshape(reshape(x)) = reshape(x)",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns::one(&[(
            "(reshape ?to (reshape ?from ?x))",
            "(reshape ?to ?x)",
        )])),
        instance: Instance::Drawn(&[
            ("x", any_value),
            ("from", |_, d| Reshape { shape: [d.ty("x").count()].into() }.into()),
            ("to", |_, d| {
                let (first, all) = (d.ty("x").shape[0], d.ty("x").count());
                Reshape { shape: [first, all / first].into() }.into()
            }),
        ]),
    },
    Rule {
        name: "reshape-to-own-shape",
        summary: "reshape(x) = x if the shape is that of x",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(reshape ?to ?x)", "?x")],
            conditions: &[("the shape is that of x", |m| {
                Some(m.ty("x")?.shape == m.op::<Reshape>("to")?.shape)
            })],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("x", any_value),
            ("to", |_, d| Reshape { shape: d.ty("x").shape.clone() }.into()),
        ]),
    },
    Rule {
        name: "transpose-of-transpose",
        summary: "transpose{p}(transpose{q}(x)) = transpose{q[p]}(x)",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(transpose ?p (transpose ?q ?x))", "(transpose ?both ?x)")],
            computed: (&["both"], |m| {
                let (p, q) = (m.op::<Transpose>("p")?, m.op::<Transpose>("q")?);
                let permutation = p.permutation.iter().map(|&axis| q.permutation[axis]).collect();
                Some(vec![Term::Attributes(Transpose { permutation }.into())])
            }),
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("x", any_value),
            ("q", any_permutation),
            ("p", any_permutation),
        ]),
    },
    Rule {
        name: "transpose-identity",
        summary: "transpose{0, 1, ..}(x) = x",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(transpose ?p ?x)", "?x")],
            conditions: &[("p is 0, 1, ..", |m| {
                Some(m.op::<Transpose>("p")?.permutation.is_sorted())
            })],
            ..Patterns::NONE
        }),
        instance: Instance::Drawn(&[
            ("x", any_value),
            ("p", |_, d| Transpose { permutation: (0..d.ty("x").shape.rank()).collect() }.into()),
        ]),
    },
    Rule {
        name: "transpose-into-matmul",
        summary: "a matmul operand with its last two axes exchanged = the matmul with that operand's flag turned",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                ("(matmul ?a (transpose ?p ?x) ?y)", "(matmul ?left ?x ?y)"),
                ("(matmul ?a ?x (transpose ?p ?y))", "(matmul ?right ?x ?y)"),
            ],
            conditions: &[("p exchanges the last two axes", |m| {
                let permutation = &m.op::<Transpose>("p")?.permutation;
                Some(*permutation == exchanged(permutation.len()))
            })],
            computed: (&["left", "right"], |m| {
                let product = m.op::<MatMul>("a")?;
                let left = MatMul { transpose_a: !product.transpose_a, ..product.clone() };
                let right = MatMul { transpose_b: !product.transpose_b, ..product.clone() };
                Some(vec![Term::Attributes(left.into()), Term::Attributes(right.into())])
            }),
            ..Patterns::NONE
        }),
        // Square, so that each flag fits; sums are long enough to tell the axes apart.
        instance: Instance::Drawn(&[
            ("x", |r, _| {
                let size = r.range(2, 4);
                let shape = [size, size];
                match r.range(0, 1) {
                    0 => TensorType::f32(shape).into(),
                    _ => TensorType::shared(shape, Element::I8).into(),
                }
            }),
            ("y", |_, d| d.ty("x").clone().into()),
            ("p", |_, _| Transpose { permutation: exchanged(2) }.into()),
            ("a", |r, _| {
                let [transpose_a, transpose_b] = [(); 2].map(|()| r.range(0, 1) == 0);
                MatMul { transpose_a, transpose_b, role: ProductRole::Forward }.into()
            }),
        ]),
    },
    Rule {
        name: "reshape-after-elementwise",
        summary: "f(reshape(x)) = reshape(f(x)) for f elementwise or by the whole tensor",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns::one(&[(
            "(any{ignores_shape} ?f (reshape ?to ?x))",
            "(reshape ?to (any{ignores_shape} ?f ?x))",
        )])),
        instance: Instance::Drawn(&[
            ("x", any_value),
            ("to", |_, d| Reshape { shape: [d.ty("x").count()].into() }.into()),
        ]),
    },
    // Gradients of weights that a product takes under another shape, as those of a convolution over one axis.
    Rule {
        name: "reshape-after-quantize-gradient",
        summary: "quantize_gradient(reshape(x), bits) = reshape(quantize_gradient(x, bits))",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns::one(&[(
            "(quantize_gradient ?a (reshape ?to ?x) ?bits)",
            "(reshape ?to (quantize_gradient ?a ?x ?bits))",
        )])),
        instance: Instance::Drawn(&[
            ("x", |r, _| TensorType::shared(r.shape(3), Element::I32).into()),
            ("to", |_, d| Reshape { shape: [d.ty("x").count()].into() }.into()),
            ("a", |r, _| {
                let rounding = Rounding::ALL[r.range(0, Rounding::ALL.len() - 1)];
                Value::Attributes(QuantizeGradient { rounding }.into())
            }),
            ("bits", |r, _| Tensor::i32([], vec![r.range(0, 9) as i32 - 1]).into()),
        ]),
    },
];

/// A value of random type, of rank 3.
fn any_value(r: &mut Random, _: &Drawn) -> Value {
    let shape: Shape = r.shape(3);
    match r.range(0, 2) {
        0 => TensorType::f32(shape).into(),
        1 => TensorType::shared(shape, Element::I8).into(),
        _ => TensorType::shared(shape, Element::I32).into(),
    }
}

fn any_permutation(r: &mut Random, d: &Drawn) -> Value {
    let mut permutation: Vec<usize> = (0..d.ty("x").shape.rank()).collect();
    for last in (1..permutation.len()).rev() {
        permutation.swap(last, r.range(0, last));
    }
    Transpose { permutation }.into()
}

/// The permutation that exchanges the last two axes and nothing else.
fn exchanged(rank: usize) -> Vec<usize> {
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation[rank.saturating_sub(2)..].reverse();
    permutation
}
