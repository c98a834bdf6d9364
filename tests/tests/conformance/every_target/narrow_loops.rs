//! Loops over bytes and halves whose results fit narrow lanes, which targets compute in instructions of their own: sums of products,
//! saturating sums, magnitudes.

use std::sync::Arc;

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, Local, Unary};
use trainc_ir::numeric::integer::clamp;
use trainc_ir::ops::Loops;
use trainc_ir::{Element, ScaleData, Tensor, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;

/// Rounds: whole vectors of every target, and some more.
const COUNT: usize = 300;
/// Bytes, then halves.
const OPERANDS: [Element; 4] = [Element::I8, Element::I8, Element::I16, Element::I16];

/// What a round works on.
struct Round {
    bytes: [Expr; 2],
    halves: [Expr; 2],
    place: Expr,
}

/// A kernel: elements of its results (one for a sum), and what a round does with them and the sums' locals.
struct Shape {
    name: &'static str,
    results: &'static [Element],
    sums: usize,
    round: fn(&mut LoopBuilder, &Round, &[Buffer], &[Local]),
}

fn add(b: &mut LoopBuilder, sum: Local, x: Expr) {
    let sums = b.get(sum) + x;
    b.set(sum, sums);
}

const SHAPES: [Shape; 9] = [
    Shape {
        name: "sums of bytes",
        results: &[],
        sums: 2,
        round: |b, round, _, sums| {
            let [x, y] = round.bytes.clone();
            add(b, sums[0], x.clone() * y);
            add(b, sums[1], x);
        },
    },
    Shape {
        name: "sums of bytes beside halves",
        results: &[Element::I16],
        sums: 2,
        round: |b, round, y, sums| {
            let [x, z] = round.bytes.clone();
            b.store(y[0], round.place.clone(), x.clone() + z.clone());
            add(b, sums[0], x.clone() * z);
            add(b, sums[1], x);
        },
    },
    Shape {
        name: "products in halves",
        results: &[Element::I16],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.bytes.clone();
            b.store(y[0], round.place.clone(), x.clone() * z + x);
        },
    },
    Shape {
        name: "differences in bytes",
        results: &[Element::I8],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.bytes.clone();
            b.store(y[0], round.place.clone(), clamp(x - z, -127, 127));
        },
    },
    Shape {
        name: "sums in bytes",
        results: &[Element::I8],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.bytes.clone();
            b.store(y[0], round.place.clone(), clamp(x + z, -128, 127));
        },
    },
    Shape {
        name: "sums in some bytes",
        results: &[Element::I8],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.bytes.clone();
            b.store(y[0], round.place.clone(), clamp(x + z, -5, 100));
        },
    },
    Shape {
        name: "differences in halves",
        results: &[Element::I16],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.halves.clone();
            b.store(y[0], round.place.clone(), clamp(x - z, -32768, 32767));
        },
    },
    Shape {
        name: "sums in some halves",
        results: &[Element::I16],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.halves.clone();
            b.store(y[0], round.place.clone(), clamp(x + z, -30000, 5));
        },
    },
    Shape {
        name: "magnitudes",
        results: &[Element::I16, Element::I16],
        sums: 0,
        round: |b, round, y, _| {
            let [x, z] = round.bytes.clone();
            let larger = x.clone().maximum(x.unary(Unary::Negate));
            b.store(y[0], round.place.clone(), larger);
            let chosen = z.clone().less(Expr::i32(0)).select(z.clone().unary(Unary::Negate), z);
            b.store(y[1], round.place.clone(), chosen);
        },
    },
];

/// Each kernel on random operands, and on the least and the largest numbers both in the program's memory and in the caller's, which cases
/// take in turn.
pub(crate) fn all() -> Vec<Case> {
    let mut random = Random(0x6e61_7272_6f77);
    let mut cases = Vec::new();
    for shape in &SHAPES {
        for extreme in [false, true, true] {
            cases.push(case(shape, extreme, &mut random));
        }
    }
    cases
}

fn case(shape: &Shape, extreme: bool, random: &mut Random) -> Case {
    let of = |element: Element| match element {
        Element::I8 => TensorType::shared([COUNT], element),
        _ => TensorType::new([COUNT], element),
    };
    let inputs = OPERANDS.map(of).to_vec();
    let mut outputs: Vec<TensorType> = shape.results.iter().map(|e| of(*e)).collect();
    outputs.extend((0..shape.sums).map(|_| TensorType::new([1], Element::I32)));
    let types = [&inputs, &outputs].map(|types| types.iter().collect::<Vec<_>>());
    let mut b = LoopBuilder::new(&types[0], &types[1], false);
    let read = [0, 1, 2, 3].map(|i| b.input(i));
    let results: Vec<Buffer> = (0..outputs.len()).map(|i| b.output(i)).collect();
    let sums: Vec<Local> = (0..shape.sums).map(|_| b.local("sum", Expr::i32(0))).collect();
    b.for_("i", COUNT, |b, i| {
        let [bytes, halves] = [[0, 1], [2, 3]].map(|at| at.map(|k| b.load(read[k], i.clone())));
        (shape.round)(b, &Round { bytes, halves, place: i }, &results, &sums);
    });
    for (sum, result) in sums.iter().zip(&results[shape.results.len()..]) {
        let sum = b.get(*sum);
        b.store(*result, Expr::i64(0), sum);
    }
    for (i, _) in shape.results.iter().enumerate().filter(|(_, e)| **e == Element::I8) {
        let exponent = b.input_exponent(0);
        b.set_output_exponent(i, exponent);
    }
    let what = format!("{}{}", shape.name, if extreme { ", extreme" } else { "" });
    let kernel = Arc::new(b.finish());
    let operands = inputs.iter().map(|ty| operand(ty, extreme, random)).collect();
    let op = Loops { name: what.clone(), kernel, inputs, outputs };
    Case { what, op: op.into(), inputs: operands, constant: false }
}

fn operand(ty: &TensorType, extreme: bool, random: &mut Random) -> Tensor {
    let low = -(1i64 << (ty.element.bits() - 1));
    let value = |random: &mut Random| match extreme {
        true => [low, low, -low - 1, low + 1, 0][random.below(5)],
        false => random.between(low, -low - 1),
    };
    let values: Vec<i64> = (0..ty.count()).map(|_| value(random)).collect();
    let scale = match ty.scale {
        trainc_ir::Scale::None => ScaleData::None,
        _ => ScaleData::Exponent(-5),
    };
    Tensor::from_i64(ty, &values, scale)
}
