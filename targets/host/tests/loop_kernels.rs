//! Loop kernels by Cranelift against their evaluation, bit for bit.

mod common;

use common::{Random, check_kernel, run_compiled};
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Binary, Expr, Unary};
use trainc_ir::{Element, RunContext, Tensor, TensorType};

const CONTEXT: RunContext = RunContext { seed: 0x0123_4567_89ab_cdef, step: 41 };

#[test]
fn a_product_with_an_exponent() {
    let x = TensorType::shared([5, 7], Element::I8);
    let w = TensorType::shared([7, 3], Element::I8);
    let y = TensorType::shared([5, 3], Element::I32);
    let mut b = LoopBuilder::new(&[&x, &w], &[&y], false);
    let (bx, bw, by) = (b.input(0), b.input(1), b.output(0));
    b.for_shape("i", &[5, 3], |b, i| {
        let sum = b.local("sum", Expr::i32(0));
        b.for_("k", 7, |b, k| {
            let p = b.load(bx, i[0].clone() * Expr::i64(7) + k.clone())
                * b.load(bw, k * Expr::i64(3) + i[1].clone());
            let total = b.get(sum) + p;
            b.set(sum, total);
        });
        let value = b.get(sum);
        b.store(by, i[0].clone() * Expr::i64(3) + i[1].clone(), value);
    });
    let exponent = b.input_exponent(0) + b.input_exponent(1);
    b.set_output_exponent(0, exponent);
    let kernel = b.finish();
    let mut random = Random(7);
    let (tx, tw) = (random.tensor(&x), random.tensor(&w));
    check_kernel("product", &kernel, &[&tx, &tw], std::slice::from_ref(&y), &CONTEXT);
    // And against the sum written out here.
    let found = &run_compiled(&kernel, &[&tx, &tw], std::slice::from_ref(&y), &CONTEXT)[0];
    assert_eq!(found.exponent(), tx.exponent() + tw.exponent());
    for (at, &sum) in found.as_i32().iter().enumerate() {
        let (i, j) = (at / 3, at % 3);
        let expected: i32 = (0..7)
            .map(|k| i32::from(tx.as_i8()[i * 7 + k]) * i32::from(tw.as_i8()[k * 3 + j]))
            .sum();
        assert_eq!(sum, expected, "[{i},{j}]");
    }
}

#[test]
fn draws_are_the_generators() {
    let y = TensorType::new([37], Element::I32);
    let mut b = LoopBuilder::new(&[], &[&y], true);
    let by = b.output(0);
    b.for_("i", 37, |b, i| {
        let draw = b.draw(9, i.clone());
        b.store(by, i, draw);
    });
    let found = run_compiled(&b.finish(), &[], std::slice::from_ref(&y), &CONTEXT).remove(0);
    for (i, &word) in found.as_i32().iter().enumerate() {
        assert_eq!(word as u32, CONTEXT.draw(9, i as u32), "element {i}");
    }
}

/// Conversions, extremes of float comparison, rounding and division: the expected bits are Rust's.
#[test]
fn scalar_operations_at_the_extremes() {
    let floats = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -2.5,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        2147483600.0,
        2147483648.0,
        -2147483648.0,
        -2147483904.0,
        1e-45,
        8388609.0,
    ];
    let n = floats.len();
    let x = TensorType::f32([n]);
    let tx = Tensor::f32([n], floats.to_vec());
    type Meaning = fn(f32) -> f32;
    let unary: [(Unary, Meaning); 6] = [
        (Unary::RoundTiesEven, f32::round_ties_even),
        (Unary::Floor, f32::floor),
        (Unary::Ceil, f32::ceil),
        (Unary::Sqrt, f32::sqrt),
        (Unary::FloatAbs, f32::abs),
        (Unary::Negate, |x| -x),
    ];
    for (op, meaning) in unary {
        let mut b = LoopBuilder::new(&[&x], &[&x], false);
        let (bx, by) = (b.input(0), b.output(0));
        b.for_("i", n, |b, i| {
            let value = b.load(bx, i.clone()).unary(op);
            b.store(by, i, value);
        });
        let found = run_compiled(&b.finish(), &[&tx], std::slice::from_ref(&x), &CONTEXT).remove(0);
        for (&input, &output) in floats.iter().zip(found.as_f32()) {
            let expected = meaning(input);
            assert!(
                expected.to_bits() == output.to_bits() || (expected.is_nan() && output.is_nan()),
                "{op:?} of {input}: {output}, expected {expected}"
            );
        }
    }
    let integers = TensorType::new([n], Element::I32);
    let mut b = LoopBuilder::new(&[&x], &[&integers], false);
    let (bx, by) = (b.input(0), b.output(0));
    b.for_("i", n, |b, i| {
        let value = b.load(bx, i.clone()).unary(Unary::ToInteger);
        b.store(by, i, value);
    });
    let found = run_compiled(&b.finish(), &[&tx], &[integers], &CONTEXT).remove(0);
    let expected: Vec<i32> = floats.iter().map(|&x| x as i32).collect();
    assert_eq!(found.as_i32(), expected);

    // Minimum and maximum of all pairs: the second operand where neither is less, as for NaN and zeros of two signs.
    let pairs = TensorType::f32([n, n]);
    for (op, keeps_first) in
        [(Binary::Minimum, (|a, b| a < b) as fn(f32, f32) -> bool), (Binary::Maximum, |a, b| a > b)]
    {
        let mut b = LoopBuilder::new(&[&x], &[&pairs], false);
        let (bx, by) = (b.input(0), b.output(0));
        b.for_shape("i", &[n, n], |b, i| {
            let value = b.load(bx, i[0].clone()).binary(op, b.load(bx, i[1].clone()));
            b.store(by, i[0].clone() * Expr::index(n) + i[1].clone(), value);
        });
        let found = run_compiled(&b.finish(), &[&tx], std::slice::from_ref(&pairs), &CONTEXT);
        for (at, value) in found[0].as_f32().iter().enumerate() {
            let (a, b) = (floats[at / n], floats[at % n]);
            let expected = if keeps_first(a, b) { a } else { b };
            assert_eq!(expected.to_bits(), value.to_bits(), "{op:?} of {a} and {b}");
        }
    }
}

#[test]
fn division_never_traps() {
    let a = TensorType::new([4], Element::I32);
    let dividends = Tensor::i32([4], vec![i32::MIN, 7, -7, 9]);
    let divisors = Tensor::i32([4], vec![-1, 2, 2, 0]);
    let mut b = LoopBuilder::new(&[&a, &a], &[&a, &a], false);
    let (bx, bw, by, bz) = (b.input(0), b.input(1), b.output(0), b.output(1));
    b.for_("i", 4, |b, i| {
        let (x, w) = (b.load(bx, i.clone()), b.load(bw, i.clone()));
        let divisible = w.clone().not_equal(Expr::i32(0));
        let quotient = divisible.clone().select(x.clone().divide(w.clone()), Expr::i32(99));
        b.store(by, i.clone(), quotient);
        let remainder = divisible.select(x.remainder(w), Expr::i32(99));
        b.store(bz, i, remainder);
    });
    let kernel = b.finish();
    let found = run_compiled(&kernel, &[&dividends, &divisors], &[a.clone(), a], &CONTEXT);
    assert_eq!(found[0].as_i32(), [i32::MIN, 3, -3, 99]);
    assert_eq!(found[1].as_i32(), [0, 1, -1, 99]);
}

/// A condition that keeps a load in bounds keeps it there, also where the load does not change from round to round.
#[test]
fn guarded_loads_stay_guarded() {
    let n = 8;
    let x = TensorType::f32([n]);
    let mut b = LoopBuilder::new(&[&x], &[&x], false);
    let (bx, by) = (b.input(0), b.output(0));
    // Far enough that a stray load would fault.
    let far = 1i64 << 40;
    b.for_("h", n, |b, h| {
        let row = b.let_("row", h.clone() * Expr::i64(far));
        b.for_("w", n, |b, w| {
            let inside = row.clone().less(Expr::i64(n as i64));
            let value = inside.select(b.load(bx, row.clone()), Expr::f32(-1.0));
            b.store(by, h.clone(), value);
            b.if_(row.clone().less(Expr::i64(1)), |b| {
                let value = b.load(bx, row.clone() + Expr::i64(1));
                b.store(by, w, value);
            });
        });
        // No round at all where the row is outside.
        let end = row.clone().less(Expr::i64(1)).select(Expr::i64(1), Expr::i64(0));
        b.for_range("k", Expr::i64(0), end, |b, k| {
            let value = b.load(bx, row.clone() + Expr::i64(2));
            b.store(by, k, value);
        });
    });
    let tx = Tensor::f32([n], (0..n).map(|i| i as f32).collect());
    check_kernel("guards", &b.finish(), &[&tx], std::slice::from_ref(&x), &CONTEXT);
}

/// Rounds that read what others wrote keep their order: a running sum, and stores that meet.
#[test]
fn rounds_that_depend_on_each_other_stay_in_order() {
    let n = 70;
    let x = TensorType::new([n], Element::I32);
    let mut b = LoopBuilder::new(&[&x], &[&x, &x], false);
    let (bx, by, bz) = (b.input(0), b.output(0), b.output(1));
    let zero = Expr::i64(0);
    b.store(by, zero.clone(), Expr::i32(5));
    b.store(bz, zero, Expr::i32(7));
    b.for_("i", n - 1, |b, i| {
        let sum = b.load(by, i.clone()) + b.load(bx, i.clone());
        b.store(by, i + Expr::i64(1), sum);
    });
    b.for_("i", n - 1, |b, i| {
        let value = b.load(bx, i.clone());
        b.store(bz, i.clone() + Expr::i64(1), value.clone());
        b.store(bz, i, value + Expr::i32(1));
    });
    let tx = Tensor::i32([n], (0..n as i32).map(|i| i * i).collect());
    let found = run_compiled(&b.finish(), &[&tx], &[x.clone(), x], &CONTEXT);
    let sums: Vec<i32> = (0..n as i32).map(|i| 5 + (0..i).map(|j| j * j).sum::<i32>()).collect();
    assert_eq!(found[0].as_i32(), sums);
    // Each place is last written by its own round, the last by the round before.
    let mut met: Vec<i32> = (0..n as i32).map(|i| i * i + 1).collect();
    met[n - 1] = (n as i32 - 2) * (n as i32 - 2);
    assert_eq!(found[1].as_i32(), met);
}
