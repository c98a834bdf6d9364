//! Loop kernels by Cranelift against their evaluation, bit for bit.

mod common;

use common::{Random, check_kernel, run_compiled};
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{self, Binary, Buffer, Comparison, Expr, Local, LoopKernel, Scalar, Unary};
use trainc_ir::{Data, Element, RunContext, Tensor, TensorType};

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

/// Random programs over all operations, types and statements.
struct Generator {
    random: Random,
    builder: LoopBuilder,
    buffers: Vec<(Buffer, Element)>,
    written: Vec<(Buffer, Element)>,
    locals: Vec<(Local, Scalar)>,
}

/// Elements of every buffer: a power of two, so that a mask keeps an index in bounds.
const LENGTH: usize = 16;

impl Generator {
    fn pick_local(&mut self, ty: Scalar) -> Option<Expr> {
        let matching: Vec<Local> =
            self.locals.iter().filter(|(_, t)| *t == ty).map(|(l, _)| *l).collect();
        if matching.is_empty() {
            return None;
        }
        let local = matching[self.random.below(matching.len())];
        Some(self.builder.get(local))
    }

    fn index(&mut self, depth: usize) -> Expr {
        match self.random.below(3) {
            0 => Expr::index(self.random.below(LENGTH)),
            _ => self.expr(Scalar::I64, depth).and(Expr::index(LENGTH - 1)),
        }
    }

    fn expr(&mut self, ty: Scalar, depth: usize) -> Expr {
        if depth == 0 || self.random.below(6) == 0 {
            if self.random.below(2) == 0
                && let Some(local) = self.pick_local(ty)
            {
                return local;
            }
            return match ty {
                Scalar::I32 => Expr::i32(self.random.integer()),
                Scalar::I64 => Expr::i64(i64::from(self.random.integer())),
                Scalar::F32 => Expr::f32(self.random.float()),
                Scalar::Bool => {
                    let (a, b) = (self.random.integer(), self.random.integer());
                    Expr::i32(a).compare(Comparison::LessUnsigned, Expr::i32(b))
                }
            };
        }
        let d = depth - 1;
        if self.random.below(6) == 0 {
            let condition = self.expr(Scalar::Bool, d);
            let (a, b) = (self.expr(ty, d), self.expr(ty, d));
            return condition.select(a, b);
        }
        match ty {
            Scalar::I32 | Scalar::F32 if self.random.below(3) == 0 => {
                let candidates: Vec<Buffer> = self
                    .buffers
                    .iter()
                    .filter(|(_, e)| (*e == Element::F32) == (ty == Scalar::F32))
                    .map(|(b, _)| *b)
                    .collect();
                let buffer = candidates[self.random.below(candidates.len())];
                let index = self.index(d);
                self.builder.load(buffer, index)
            }
            Scalar::I32 => match self.random.below(9) {
                0 => self.expr(Scalar::I64, d).truncate(),
                1 => self.expr(Scalar::F32, d).unary(Unary::ToInteger),
                2 => {
                    // The sign and payload of a NaN are not part of the meaning.
                    let x = self.expr(Scalar::F32, d);
                    x.clone().equal(x.clone()).select(x.unary(Unary::ToBits), Expr::i32(-3))
                }
                3 => self.expr(Scalar::I32, d).unary(Unary::LeadingZeros),
                4 => self.expr(Scalar::Bool, d).unary(Unary::BoolToInteger),
                _ => self.integer_operation(ty, d),
            },
            Scalar::I64 => match self.random.below(6) {
                0 => self.expr(Scalar::I32, d).extend(),
                1 => self.expr(Scalar::I32, d).unary(Unary::ExtendUnsigned),
                _ => self.integer_operation(ty, d),
            },
            Scalar::F32 => match self.random.below(12) {
                0 => self.expr(Scalar::I32, d).unary(Unary::ToFloat),
                1 => self.expr(Scalar::I32, d).unary(Unary::FromBits),
                2 => {
                    let op = [
                        Unary::FloatAbs,
                        Unary::Sqrt,
                        Unary::RoundTiesEven,
                        Unary::Floor,
                        Unary::Ceil,
                        Unary::Negate,
                    ][self.random.below(6)];
                    self.expr(ty, d).unary(op)
                }
                _ => {
                    let op = [
                        Binary::Add,
                        Binary::Subtract,
                        Binary::Multiply,
                        Binary::Divide,
                        Binary::Minimum,
                        Binary::Maximum,
                    ][self.random.below(6)];
                    let a = self.expr(ty, d);
                    a.binary(op, self.expr(ty, d))
                }
            },
            Scalar::Bool => match self.random.below(4) {
                0 => self.expr(ty, d).unary(Unary::Not),
                1 => {
                    let op = [Binary::And, Binary::Or, Binary::Xor][self.random.below(3)];
                    let a = self.expr(ty, d);
                    a.binary(op, self.expr(ty, d))
                }
                _ => {
                    let of = [Scalar::I32, Scalar::I64, Scalar::F32][self.random.below(3)];
                    let mut comparison = [
                        Comparison::Equal,
                        Comparison::NotEqual,
                        Comparison::Less,
                        Comparison::LessEqual,
                        Comparison::LessUnsigned,
                    ][self.random.below(5)];
                    if of == Scalar::F32 && comparison == Comparison::LessUnsigned {
                        comparison = Comparison::Less;
                    }
                    let a = self.expr(of, d);
                    a.compare(comparison, self.expr(of, d))
                }
            },
        }
    }

    fn integer_operation(&mut self, ty: Scalar, d: usize) -> Expr {
        let constant = |v: i64| if ty == Scalar::I32 { Expr::i32(v as i32) } else { Expr::i64(v) };
        let width = if ty == Scalar::I32 { 32 } else { 64 };
        let a = self.expr(ty, d);
        match self.random.below(13) {
            0 => a.unary(Unary::Negate),
            1..=3 => {
                let op = [Binary::ShiftLeft, Binary::ShiftRight, Binary::ShiftRightUnsigned]
                    [self.random.below(3)];
                let amount = self.expr(ty, d).and(constant(width - 1));
                a.binary(op, amount)
            }
            4 => {
                let op = [Binary::Divide, Binary::Remainder][self.random.below(2)];
                let divisor = match self.random.below(2) {
                    0 => constant([1, -1, 2, 3, 10, -7, 8][self.random.below(7)]),
                    // Odd, so not 0; -1 now and then.
                    _ => self.expr(ty, d).or(constant(1)),
                };
                a.binary(op, divisor)
            }
            _ => {
                let op = [
                    Binary::Add,
                    Binary::Subtract,
                    Binary::Multiply,
                    Binary::Minimum,
                    Binary::Maximum,
                    Binary::And,
                    Binary::Or,
                    Binary::Xor,
                ][self.random.below(8)];
                a.binary(op, self.expr(ty, d))
            }
        }
    }

    fn scalar(&mut self) -> Scalar {
        [Scalar::I32, Scalar::I64, Scalar::F32, Scalar::Bool][self.random.below(4)]
    }

    fn statements(&mut self, loops: usize) {
        let before = self.locals.len();
        for _ in 0..1 + self.random.below(3) {
            match self.random.below(if loops < 3 { 8 } else { 5 }) {
                0 => {
                    let ty = self.scalar();
                    let value = self.expr(ty, 3);
                    let local = self.builder.local("v", value);
                    self.locals.push((local, ty));
                }
                1 => {
                    let assignable = self.locals.clone();
                    if !assignable.is_empty() {
                        let (local, ty) = assignable[self.random.below(assignable.len())];
                        let value = self.expr(ty, 3);
                        self.builder.set(local, value);
                    }
                }
                2..=4 => {
                    let (buffer, element) = self.written[self.random.below(self.written.len())];
                    let ty = if element == Element::F32 { Scalar::F32 } else { Scalar::I32 };
                    let (index, value) = (self.index(2), self.expr(ty, 4));
                    self.builder.store(buffer, index, value);
                }
                5 => {
                    let condition = self.expr(Scalar::Bool, 2);
                    // The closures need the generator; the builder is moved in and out.
                    self.nested(|b, body, other| b.if_else(condition, body, other), loops);
                }
                _ => {
                    let start = Expr::index(self.random.below(3));
                    let end = match self.random.below(2) {
                        0 => Expr::index(self.random.below(7)),
                        _ => self.expr(Scalar::I64, 2).and(Expr::i64(7)),
                    };
                    self.looped(start, end, loops);
                }
            }
        }
        self.locals.truncate(before);
    }

    fn enter(&mut self, builder: &mut LoopBuilder, loops: usize) {
        std::mem::swap(&mut self.builder, builder);
        self.statements(loops + 1);
        std::mem::swap(&mut self.builder, builder);
    }

    fn empty() -> LoopBuilder {
        LoopBuilder::new(&[], &[], false)
    }

    #[allow(clippy::type_complexity, reason = "one use")]
    fn nested(
        &mut self,
        shape: impl FnOnce(
            &mut LoopBuilder,
            Box<dyn FnOnce(&mut LoopBuilder) + '_>,
            Box<dyn FnOnce(&mut LoopBuilder) + '_>,
        ),
        loops: usize,
    ) {
        let mut builder = std::mem::replace(&mut self.builder, Self::empty());
        let this = std::cell::RefCell::new(self);
        shape(
            &mut builder,
            Box::new(|b| this.borrow_mut().enter(b, loops)),
            Box::new(|b| this.borrow_mut().enter(b, loops)),
        );
        this.into_inner().builder = builder;
    }

    fn looped(&mut self, start: Expr, end: Expr, loops: usize) {
        let mut builder = std::mem::replace(&mut self.builder, Self::empty());
        builder.for_range("i", start, end, |b, i| {
            let trainc_ir::loops::Node::Local(local) = *i.node else { unreachable!() };
            self.locals.push((local, Scalar::I64));
            self.enter(b, loops);
            self.locals.pop();
        });
        self.builder = builder;
    }
}

fn random_kernel(seed: u64) -> (LoopKernel, Vec<Tensor>, Vec<TensorType>) {
    let mut random = Random(seed);
    let of = |element: Element| TensorType::new([LENGTH], element);
    let inputs = [
        TensorType::shared([LENGTH], Element::I8),
        of(Element::F32),
        of(Element::I32),
        of(Element::U8),
        of(Element::I16),
        of(Element::U16),
        of(Element::U32),
    ];
    let outputs = vec![
        of(Element::I32),
        of(Element::F32),
        of(Element::I8),
        of(Element::I16),
        of(Element::U8),
    ];
    let tensors: Vec<Tensor> = inputs.iter().map(|ty| random.tensor(ty)).collect();
    let mut builder = LoopBuilder::new(
        &inputs.iter().collect::<Vec<_>>(),
        &outputs.iter().collect::<Vec<_>>(),
        false,
    );
    let mut buffers: Vec<(Buffer, Element)> =
        inputs.iter().enumerate().map(|(i, ty)| (builder.input(i), ty.element)).collect();
    let written: Vec<(Buffer, Element)> =
        outputs.iter().enumerate().map(|(i, ty)| (builder.output(i), ty.element)).collect();
    // All results are written before they are read.
    for &(buffer, element) in &written {
        let value = if element == Element::F32 { Expr::f32(0.25) } else { Expr::i32(-5) };
        builder.for_("i", LENGTH, |b, i| b.store(buffer, i, value));
    }
    buffers.extend(&written);
    let mut generator = Generator { random, builder, buffers, written, locals: Vec::new() };
    for _ in 0..4 {
        generator.statements(0);
    }
    (generator.builder.finish(), tensors, outputs)
}

/// NaN to one NaN: which one an operation gives is not part of the meaning.
fn without_payloads(tensor: &Tensor) -> Tensor {
    match tensor.data() {
        Data::F32(v) => Tensor::f32(
            tensor.shape().clone(),
            v.iter().map(|x| if x.is_nan() { f32::NAN } else { *x }).collect(),
        ),
        _ => tensor.clone(),
    }
}

#[test]
fn random_kernels() {
    for seed in 1..=300u64 {
        let (kernel, tensors, outputs) = random_kernel(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let operands: Vec<&Tensor> = tensors.iter().collect();
        let expected = loops::evaluate::run(&kernel, &operands, &outputs, &CONTEXT);
        let found = run_compiled(&kernel, &operands, &outputs, &CONTEXT);
        for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let (expected, found) = (without_payloads(expected), without_payloads(found));
            assert!(
                expected.bits_equal(&found),
                "seed {seed}, result {i} differs at {:?}\nexpected {expected:?}\nfound {found:?}\n{kernel:#?}",
                expected.first_difference(&found),
            );
        }
    }
}

/// Elements of the buffers of walks.
const WALK: usize = 80;

/// Random loops that walk buffers one element a round: what runs as vectors.
fn random_walk(seed: u64) -> (LoopKernel, Vec<Tensor>, Vec<TensorType>) {
    let mut random = Random(seed);
    let of = |element: Element| TensorType::new([WALK], element);
    let mut inputs = vec![
        TensorType::shared([WALK], Element::I8),
        of(Element::F32),
        of(Element::I32),
        of(Element::U8),
        of(Element::I16),
        of(Element::U16),
    ];
    let mut outputs = vec![
        of(Element::I32),
        of(Element::F32),
        of(Element::I8),
        of(Element::U16),
        of(Element::U8),
    ];
    if random.below(3) == 0 {
        // Words only: vectors of fewer parts.
        inputs = vec![of(Element::F32), of(Element::I32), of(Element::U32)];
        outputs.truncate(2);
    }
    let tensors: Vec<Tensor> = inputs.iter().map(|ty| random.tensor(ty)).collect();
    let mut builder = LoopBuilder::new(
        &inputs.iter().collect::<Vec<_>>(),
        &outputs.iter().collect::<Vec<_>>(),
        false,
    );
    let buffers: Vec<(Buffer, Element)> =
        inputs.iter().enumerate().map(|(i, ty)| (builder.input(i), ty.element)).collect();
    let written: Vec<(Buffer, Element)> =
        outputs.iter().enumerate().map(|(i, ty)| (builder.output(i), ty.element)).collect();
    for &(buffer, element) in &written {
        let value = if element == Element::F32 { Expr::f32(0.25) } else { Expr::i32(-5) };
        builder.for_("i", WALK, |b, i| b.store(buffer, i, value));
    }
    let factor = builder.let_("factor", Expr::f32(random.float()));
    let shift = builder.let_("shift", Expr::i32(random.below(32) as i32));
    let total = builder.local("total", Expr::i32(random.integer()));
    let op = [Binary::Add, Binary::Minimum, Binary::Maximum, Binary::And, Binary::Or, Binary::Xor]
        [random.below(6)];
    let start = random.below(4);
    let trip = random.below(50);
    let end = match random.below(2) {
        0 => Expr::index(start + trip),
        // Unknown to the compiler: the load of the first element times nothing.
        _ => {
            let zero = builder.load(buffers[2].0, Expr::i64(0)).and(Expr::i32(0)).extend();
            Expr::index(start + trip) + zero
        }
    };
    let base = random.below(10);
    builder.for_range("i", Expr::index(start), end, |b, i| {
        let mut walk =
            Walk { random: &mut random, buffers, i, base, factor, shift, set: Vec::new() };
        for _ in 0..walk.random.below(3) {
            let ty = [Scalar::I32, Scalar::F32, Scalar::Bool][walk.random.below(3)];
            let value = walk.expr(b, ty, 3);
            let value = b.let_("v", value);
            walk.set.push(value);
        }
        for &(buffer, element) in &written {
            let ty = match element {
                Element::F32 => Scalar::F32,
                _ => [Scalar::I32, Scalar::I32, Scalar::Bool][walk.random.below(3)],
            };
            let index = walk.i.clone() + Expr::index(walk.random.below(walk.base + 1));
            let value = walk.expr(b, ty, 4);
            b.store(buffer, index.clone(), value);
            if element != Element::U16 && walk.random.below(2) == 0 {
                // What was just stored, once more.
                let again = b.load(buffer, index.clone());
                b.store(buffer, index, again.clone() + again);
            }
        }
        let value = walk.expr(b, Scalar::I32, 3);
        let value = b.get(total).binary(op, value);
        b.set(total, value);
    });
    let value = builder.get(total);
    builder.store(written[0].0, Expr::index(WALK - 1), value);
    (builder.finish(), tensors, outputs)
}

struct Walk<'a> {
    random: &'a mut Random,
    buffers: Vec<(Buffer, Element)>,
    i: Expr,
    base: usize,
    factor: Expr,
    shift: Expr,
    set: Vec<Expr>,
}

impl Walk<'_> {
    fn expr(&mut self, b: &LoopBuilder, ty: Scalar, depth: usize) -> Expr {
        if self.random.below(5) == 0
            && let Some(value) = self.set.iter().find(|v| v.ty == ty)
        {
            return value.clone();
        }
        if ty != Scalar::Bool && (depth == 0 || self.random.below(4) == 0) {
            let constant = self.random.below(5) == 0;
            return match (ty, constant) {
                (Scalar::F32, true) if self.random.below(2) == 0 => self.factor.clone(),
                (Scalar::F32, true) => Expr::f32(self.random.float()),
                (_, true) => Expr::i32(self.random.integer()),
                _ => {
                    let fits = |e: Element| (e == Element::F32) == (ty == Scalar::F32);
                    let candidates: Vec<Buffer> =
                        self.buffers.iter().filter(|(_, e)| fits(*e)).map(|(b, _)| *b).collect();
                    let buffer = candidates[self.random.below(candidates.len())];
                    let offset = Expr::index(self.random.below(self.base + 1));
                    let index =
                        if self.random.below(6) == 0 { offset } else { offset + self.i.clone() };
                    b.load(buffer, index)
                }
            };
        }
        let d = depth.saturating_sub(1);
        if self.random.below(6) == 0 {
            let c = self.expr(b, Scalar::Bool, d);
            let (x, y) = (self.expr(b, ty, d), self.expr(b, ty, d));
            return c.select(x, y);
        }
        match ty {
            Scalar::F32 => match self.random.below(10) {
                0 => self.expr(b, Scalar::I32, d).unary(Unary::ToFloat),
                1 => self.expr(b, Scalar::I32, d).unary(Unary::FromBits),
                2 | 3 => {
                    let op = [
                        Unary::FloatAbs,
                        Unary::Sqrt,
                        Unary::RoundTiesEven,
                        Unary::Floor,
                        Unary::Ceil,
                        Unary::Negate,
                    ][self.random.below(6)];
                    self.expr(b, ty, d).unary(op)
                }
                _ => {
                    let op = [
                        Binary::Add,
                        Binary::Subtract,
                        Binary::Multiply,
                        Binary::Divide,
                        Binary::Minimum,
                        Binary::Maximum,
                    ][self.random.below(6)];
                    let x = self.expr(b, ty, d);
                    x.binary(op, self.expr(b, ty, d))
                }
            },
            Scalar::Bool => match self.random.below(4) {
                0 => self.compared(b, d).unary(Unary::Not),
                1 => {
                    let op = [Binary::And, Binary::Or, Binary::Xor][self.random.below(3)];
                    let x = self.compared(b, d);
                    x.binary(op, self.compared(b, d))
                }
                2 => {
                    let x = self.compared(b, d);
                    x.equal(self.compared(b, d))
                }
                _ => self.compared(b, d),
            },
            _ => match self.random.below(12) {
                0 => self.expr(b, Scalar::F32, d).unary(Unary::ToInteger),
                1 => {
                    let x = self.expr(b, Scalar::F32, d);
                    x.clone().equal(x.clone()).select(x.unary(Unary::ToBits), Expr::i32(-3))
                }
                2 => self.expr(b, Scalar::Bool, d).unary(Unary::BoolToInteger),
                3 => self.expr(b, ty, d).unary(Unary::Negate),
                4 | 5 => {
                    let op = [Binary::ShiftLeft, Binary::ShiftRight, Binary::ShiftRightUnsigned]
                        [self.random.below(3)];
                    let amount = match self.random.below(2) {
                        0 => self.shift.clone(),
                        _ => Expr::i32(self.random.below(32) as i32),
                    };
                    self.expr(b, ty, d).binary(op, amount)
                }
                // Seldom, as it keeps a loop from being a vector's.
                6 if self.random.below(8) == 0 => self.expr(b, ty, d).unary(Unary::LeadingZeros),
                _ => {
                    let op = [
                        Binary::Add,
                        Binary::Subtract,
                        Binary::Multiply,
                        Binary::Minimum,
                        Binary::Maximum,
                        Binary::And,
                        Binary::Or,
                        Binary::Xor,
                    ][self.random.below(8)];
                    let x = self.expr(b, ty, d);
                    x.binary(op, self.expr(b, ty, d))
                }
            },
        }
    }

    fn compared(&mut self, b: &LoopBuilder, d: usize) -> Expr {
        let of = [Scalar::I32, Scalar::F32][self.random.below(2)];
        let mut comparison = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessEqual,
            Comparison::LessUnsigned,
        ][self.random.below(5)];
        if of == Scalar::F32 && comparison == Comparison::LessUnsigned {
            comparison = Comparison::LessEqual;
        }
        let x = self.expr(b, of, d);
        x.compare(comparison, self.expr(b, of, d))
    }
}

#[test]
fn random_walks() {
    let mut vectors = 0;
    for seed in 1..=600u64 {
        let (kernel, tensors, outputs) = random_walk(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let operands: Vec<&Tensor> = tensors.iter().collect();
        // The first loops, which set the results, are vectors in any case: one with a total has more.
        let function = trainc_host::LoopFunction::compile(&kernel).expect("the kernel compiles");
        vectors += usize::from(function.listing().0.contains("extractlane"));
        let expected = loops::evaluate::run(&kernel, &operands, &outputs, &CONTEXT);
        let found = run_compiled(&kernel, &operands, &outputs, &CONTEXT);
        for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let (expected, found) = (without_payloads(expected), without_payloads(found));
            assert!(
                expected.bits_equal(&found),
                "seed {seed}, result {i} differs at {:?}\nexpected {expected:?}\nfound {found:?}\n{kernel:#?}",
                expected.first_difference(&found),
            );
        }
    }
    assert!(vectors > 200, "only {vectors} of 600 loops ran as vectors");
}
