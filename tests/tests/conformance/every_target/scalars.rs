//! Scalar operations of loop kernels, each alone: floats, comparisons, quotients and remainders on edges and random operands.

use std::sync::Arc;

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Expr, Unary};
use trainc_ir::ops::Loops;
use trainc_ir::{Element, Tensor, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;

fn edges(random: &mut Random) -> Vec<u32> {
    let mut bits = Vec::new();
    for exponent in
        [0, 1, 2, 64, 125, 126, 127, 128, 129, 149, 150, 151, 157, 158, 190, 253, 254, 255]
    {
        for fraction in [0, 1, 0x3f_ffff, 0x40_0000, 0x7f_ffff, (random.next() >> 41) as u32] {
            bits.extend([0, 1u32 << 31].map(|sign| sign | exponent << 23 | fraction));
        }
    }
    bits.extend((0..24).map(|i| 1 << i));
    bits
}

/// Two lists of operands: all pairs of edges, and random ones.
fn pairs(random: &mut Random) -> (Vec<i32>, Vec<i32>) {
    let edges = edges(random);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in &edges {
        for y in edges.iter().step_by(3) {
            a.push(x.cast_signed());
            b.push(y.cast_signed());
        }
    }
    for i in 0..4_000 {
        // Similar exponents, so that quotients are neither 0 nor infinite.
        let near = |r: u64| (r as u32 & 0x87ff_ffff) | 0x3800_0000;
        let (x, y) = (random.next() >> 16, random.next() >> 16);
        let (x, y) = if i % 2 == 0 { (near(x), near(y)) } else { (x as u32, y as u32) };
        a.push(x.cast_signed());
        b.push(y.cast_signed());
    }
    (a, b)
}

/// What a kernel computes of two words.
type Body = Box<dyn Fn(Expr, Expr) -> Expr>;

fn cases(kernels: Vec<(&str, Element, Body)>) -> impl Iterator<Item = Case> {
    let mut random = Random(77);
    random.next();
    let (a, b) = pairs(&mut random);
    let count = a.len();
    kernels.into_iter().map(move |(what, element, body)| {
        let operands = [&a, &b].map(|words| Tensor::i32([count], words.clone()));
        let types = operands.each_ref().map(|tensor| tensor.ty().clone());
        let output = TensorType::new([count], element);
        let mut builder = LoopBuilder::new(&types.each_ref(), &[&output], false);
        let (x, y, z) = (builder.input(0), builder.input(1), builder.output(0));
        builder.for_("i", count, |b, i| {
            let value = body(b.load(x, i.clone()), b.load(y, i.clone()));
            b.store(z, i, value);
        });
        let (kernel, name) = (Arc::new(builder.finish()), what.to_string());
        let op = Loops { name, kernel, inputs: types.into(), outputs: vec![output] };
        let inputs = operands.into();
        Case { what: what.to_string(), op: op.into(), inputs, constant: false }
    })
}

fn float(e: Expr) -> Expr {
    e.unary(Unary::FromBits)
}

fn floats() -> impl Iterator<Item = Case> {
    let one = |op: Unary| -> Body { Box::new(move |a, _| float(a).unary(op)) };
    cases(vec![
        ("divide", Element::F32, Box::new(|a, b| float(a).divide(float(b)))),
        ("add", Element::F32, Box::new(|a, b| float(a) + float(b))),
        ("subtract", Element::F32, Box::new(|a, b| float(a) - float(b))),
        ("multiply", Element::F32, Box::new(|a, b| float(a) * float(b))),
        ("minimum", Element::F32, Box::new(|a, b| float(a).minimum(float(b)))),
        ("maximum", Element::F32, Box::new(|a, b| float(a).maximum(float(b)))),
        ("sqrt", Element::F32, one(Unary::Sqrt)),
        ("round", Element::F32, one(Unary::RoundTiesEven)),
        ("floor", Element::F32, one(Unary::Floor)),
        ("ceil", Element::F32, one(Unary::Ceil)),
        ("negate", Element::F32, one(Unary::Negate)),
        ("absolute", Element::F32, one(Unary::FloatAbs)),
        ("to_integer", Element::I32, one(Unary::ToInteger)),
        ("to_float", Element::F32, Box::new(|a, _| a.unary(Unary::ToFloat))),
        (
            "less",
            Element::I32,
            Box::new(|a, b| float(a).less(float(b)).unary(Unary::BoolToInteger)),
        ),
        (
            "less_equal",
            Element::I32,
            Box::new(|a, b| float(a).less_equal(float(b)).unary(Unary::BoolToInteger)),
        ),
        (
            "unequal",
            Element::I32,
            Box::new(|a, b| float(a).not_equal(float(b)).unary(Unary::BoolToInteger)),
        ),
    ])
}

/// Each comparison with edges on both sides, as the bits of a word.
fn comparisons(a: &Expr, wide: bool) -> Expr {
    use trainc_ir::loops::Comparison as C;
    let kinds = [C::Equal, C::NotEqual, C::Less, C::LessEqual, C::LessUnsigned];
    let mut bits = Expr::i32(0);
    for (n, edge) in [0, 1, -1, 1 << 23, i32::MAX, i32::MIN].into_iter().enumerate() {
        for (k, kind) in kinds.into_iter().enumerate() {
            let (a, edge) = match wide {
                true => (a.clone().extend() * Expr::i64(3), Expr::i64(i64::from(edge) * 3)),
                false => (a.clone(), Expr::i32(edge)),
            };
            let (a, b) = if (n + k) % 2 == 0 { (a, edge) } else { (edge, a) };
            let bit = a.compare(kind, b).unary(Unary::BoolToInteger);
            bits = bits.or(bit.shift_left(Expr::i32((5 * n + k) as i32)));
        }
    }
    bits
}

fn compared_with_edges() -> impl Iterator<Item = Case> {
    cases(vec![
        ("vectors", Element::I32, Box::new(|a, _| comparisons(&a, false))),
        // What passes through a float stays on a scalar core.
        (
            "words",
            Element::I32,
            Box::new(|a, _| comparisons(&float(a).unary(Unary::ToBits), false)),
        ),
        ("pairs", Element::I32, Box::new(|a, _| comparisons(&a, true))),
        // Swapped operands of each.
        (
            "swapped",
            Element::I32,
            Box::new(|a, _| {
                let a = float(a).unary(Unary::ToBits);
                let low = a.clone().less_equal(Expr::i32(1)).unary(Unary::BoolToInteger);
                let high = Expr::i32(1).less_equal(a.clone()).unary(Unary::BoolToInteger);
                let less = Expr::i32(-1).less(a.clone()).unary(Unary::BoolToInteger);
                low + high * Expr::i32(2) + a.less(Expr::i32(1)).select(less, Expr::i32(4))
            }),
        ),
    ])
}

fn quotients() -> impl Iterator<Item = Case> {
    let nonzero = |b: Expr| b.clone().equal(Expr::i32(0)).select(Expr::i32(7), b);
    let wide =
        |a: Expr, b: Expr| a.extend().shift_left(Expr::i64(32)).or(b.unary(Unary::ExtendUnsigned));
    let divisor = move |a: Expr, b: Expr| {
        let amount = a.clone().and(Expr::i32(63)).extend();
        wide(b, a).shift_right(amount).or(Expr::i64(1))
    };
    cases(vec![
        ("quotient", Element::I32, Box::new(move |a, b| a.divide(nonzero(b)))),
        ("remainder", Element::I32, Box::new(move |a, b| a.remainder(nonzero(b)))),
        (
            "small",
            Element::I32,
            Box::new(move |a, b| a.divide(b.shift_right(Expr::i32(20)).or(Expr::i32(1)))),
        ),
        ("seven", Element::I32, Box::new(|a, _| a.divide(Expr::i32(7)))),
        ("minus_100", Element::I32, Box::new(|a, _| a.remainder(Expr::i32(-100)))),
        ("eight", Element::I32, Box::new(|a, _| a.divide(Expr::i32(8)))),
        ("minus_16", Element::I32, Box::new(|a, _| a.divide(Expr::i32(-16)))),
        ("modulo_1024", Element::I32, Box::new(|a, _| a.remainder(Expr::i32(1024)))),
        ("lowest", Element::I32, Box::new(|a, _| a.divide(Expr::i32(i32::MIN)))),
        (
            "wide_quotient",
            Element::I32,
            Box::new(move |a, b| {
                let q = wide(a.clone(), b.clone()).divide(divisor(a, b));
                q.clone().truncate().xor(q.shift_right(Expr::i64(32)).truncate())
            }),
        ),
        (
            "wide_remainder",
            Element::I32,
            Box::new(move |a, b| {
                let r = wide(a.clone(), b.clone()).remainder(divisor(a, b));
                r.clone().truncate().xor(r.shift_right(Expr::i64(32)).truncate())
            }),
        ),
    ])
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    floats().chain(compared_with_edges()).chain(quotients()).collect()
}
