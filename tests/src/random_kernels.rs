//! Random loop kernels over all scalar operations, types and statements, with operands.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Binary, Comparison, Expr, Local, LoopKernel, Scalar, Unary};
use trainc_ir::{Element, Tensor, TensorType};

use crate::random::Random;

struct Generator {
    random: Random,
    builder: LoopBuilder,
    locals: Vec<Local>,
}

/// Elements of every buffer: a power of two, so that a mask keeps an index in bounds.
const LENGTH: usize = 16;
const LOADED: [Element; 7] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::U16,
    Element::I32,
    Element::U32,
    Element::F32,
];

impl Generator {
    fn below(&mut self, n: usize) -> usize {
        (self.random.next() >> 33) as usize % n
    }

    fn integer(&mut self) -> i64 {
        let any = self.random.next() as i64;
        let extremes = [0, 1, -1, 2, 31, 255, i32::MIN.into(), i32::MAX.into(), i64::MIN, i64::MAX];
        match self.below(4) {
            0 => extremes[self.below(extremes.len())],
            1 => any >> 20,
            _ => any >> 58,
        }
    }

    fn index(&mut self, depth: usize) -> Expr {
        self.expr(Scalar::I64, depth).and(Expr::index(LENGTH - 1))
    }

    fn expr(&mut self, ty: Scalar, depth: usize) -> Expr {
        if depth == 0 || self.below(5) == 0 {
            let (at, value) = (self.below(self.locals.len()), self.integer());
            let local = self.builder.get(self.locals[at]);
            return match ty {
                ty if local.ty == ty => local,
                Scalar::I32 => Expr::i32(value as i32),
                Scalar::I64 => Expr::i64(value),
                Scalar::F32 => Expr::f32(value as f32 / 64.0),
                Scalar::Bool => Expr::i64(value).less(Expr::i64(2)),
            };
        }
        let d = depth - 1;
        if self.below(8) == 0 {
            let condition = self.expr(Scalar::Bool, d);
            return condition.select(self.expr(ty, d), self.expr(ty, d));
        }
        match ty {
            Scalar::Bool => {
                let of = [Scalar::I32, Scalar::I64, Scalar::F32][self.below(3)];
                let (a, b) = (self.expr(of, d), self.expr(of, d));
                let comparisons = [
                    Comparison::Equal,
                    Comparison::NotEqual,
                    Comparison::Less,
                    Comparison::LessEqual,
                    Comparison::LessUnsigned,
                ];
                let known = if of == Scalar::F32 { 4 } else { 5 };
                let compared = a.compare(comparisons[self.below(known)], b);
                match self.below(6) {
                    0 => compared.and(self.expr(ty, d)),
                    1 => compared.or(self.expr(ty, d)),
                    2 => compared.xor(self.expr(ty, d)),
                    3 => compared.unary(Unary::Not),
                    _ => compared,
                }
            }
            Scalar::F32 => {
                let a = self.expr(ty, d);
                let binary = [
                    Binary::Add,
                    Binary::Subtract,
                    Binary::Multiply,
                    Binary::Divide,
                    Binary::Minimum,
                    Binary::Maximum,
                ];
                let unary = [
                    Unary::Negate,
                    Unary::FloatAbs,
                    Unary::Sqrt,
                    Unary::RoundTiesEven,
                    Unary::Floor,
                    Unary::Ceil,
                ];
                match self.below(6) {
                    0 => self.expr(Scalar::I32, d).unary(Unary::ToFloat),
                    1 => self.expr(Scalar::I32, d).unary(Unary::FromBits),
                    2 => self.load(6, d),
                    3 => a.unary(unary[self.below(unary.len())]),
                    _ => a.binary(binary[self.below(binary.len())], self.expr(ty, d)),
                }
            }
            Scalar::I32 if self.below(2) == 0 => match self.below(7) {
                0 => self.expr(Scalar::I64, d).truncate(),
                1 => self.expr(Scalar::F32, d).unary(Unary::ToInteger),
                2 => {
                    // The sign and payload of a NaN are not part of the meaning.
                    let x = self.expr(Scalar::F32, d);
                    x.clone().equal(x.clone()).select(x.unary(Unary::ToBits), Expr::i32(-3))
                }
                3 => self.expr(ty, d).unary(Unary::LeadingZeros),
                4 => self.expr(Scalar::Bool, d).unary(Unary::BoolToInteger),
                _ => {
                    let buffer = self.below(6);
                    self.load(buffer, d)
                }
            },
            Scalar::I64 if self.below(3) == 0 => {
                let x = self.expr(Scalar::I32, d);
                if self.below(2) == 0 { x.extend() } else { x.unary(Unary::ExtendUnsigned) }
            }
            Scalar::I32 | Scalar::I64 => {
                let constant =
                    |n: i64| if ty == Scalar::I32 { Expr::i32(n as i32) } else { Expr::i64(n) };
                let (a, b) = (self.expr(ty, d), self.expr(ty, d));
                let amount = b.clone().and(constant(if ty == Scalar::I32 { 31 } else { 63 }));
                let divisor = b.clone().or(constant(1));
                match self.below(14) {
                    0 => a.shift_left(amount),
                    1 => a.shift_right(amount),
                    2 => a.shr_unsigned(amount),
                    3 => a.divide(divisor),
                    4 => a.remainder(divisor),
                    5 => a.minimum(b),
                    6 => a.maximum(b),
                    7 => a.and(b),
                    8 => a.or(b),
                    9 => a.xor(b),
                    10 => a.unary(Unary::Negate),
                    11 => a * b,
                    12 => a - b,
                    _ => a + b,
                }
            }
        }
    }

    fn load(&mut self, buffer: usize, depth: usize) -> Expr {
        let index = self.index(depth);
        self.builder.load(self.builder.input(buffer), index)
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..3 {
            let ty = [Scalar::I32, Scalar::I64, Scalar::F32][self.below(3)];
            let value = self.expr(ty, 3);
            let known = self.locals.len();
            match self.below(if depth == 0 { 3 } else { 5 }) {
                0 => {
                    let local = self.builder.local("v", value);
                    self.locals.push(local);
                }
                1 => {
                    let at = self.below(known);
                    let local = self.builder.get(self.locals[at]);
                    let value = self.expr(local.ty, 2);
                    let sum = if self.below(2) == 0 { local + value } else { value };
                    self.builder.set(self.locals[at], sum);
                }
                2 => self.store(),
                3 => {
                    // A bound that the body may change.
                    let (start, end) = (self.index(1), self.index(2));
                    self.nested(
                        |builder, body| {
                            builder.for_range("i", start, end, |b, i| body(b, Some(i)));
                        },
                        depth - 1,
                    );
                }
                _ => {
                    let condition = self.expr(Scalar::Bool, 2);
                    self.nested(
                        |builder, body| builder.if_(condition, |b| body(b, None)),
                        depth - 1,
                    );
                }
            }
        }
    }

    fn nested(
        &mut self,
        open: impl FnOnce(&mut LoopBuilder, &mut dyn FnMut(&mut LoopBuilder, Option<Expr>)),
        depth: usize,
    ) {
        let empty = LoopBuilder::new(&[], &[], false);
        let mut builder = std::mem::replace(&mut self.builder, empty);
        open(&mut builder, &mut |inner, counter| {
            std::mem::swap(inner, &mut self.builder);
            let known = self.locals.len();
            if let Some(counter) = counter {
                let local = self.builder.local("count", counter);
                self.locals.push(local);
            }
            self.block(depth);
            self.store();
            // Locals of the block may be read after it: they keep their values.
            self.locals.truncate(known + 1);
            std::mem::swap(inner, &mut self.builder);
        });
        self.builder = builder;
    }

    fn store(&mut self) {
        let (index, ty) = (self.index(1), [Scalar::I32, Scalar::F32][self.below(2)]);
        let value = self.expr(ty, 4);
        if ty == Scalar::I32 {
            let buffer = self.builder.output(self.random.next() as usize % 2);
            return self.builder.store(buffer, index, value);
        }
        let number = value.clone().equal(value.clone()).select(value, Expr::f32(0.0));
        self.builder.store(self.builder.output(2), index, number);
    }
}

/// A kernel, its operands, and the types of its results.
#[derive(Debug)]
pub struct RandomKernel {
    /// The kernel.
    pub kernel: LoopKernel,
    /// Operands.
    pub operands: Vec<Tensor>,
    /// Types of the results: i32, i8, f32.
    pub outputs: Vec<TensorType>,
}

/// The random kernel of a number.
pub fn random_kernel(n: usize) -> RandomKernel {
    let inputs: Vec<TensorType> = LOADED.iter().map(|&e| TensorType::new([LENGTH], e)).collect();
    let outputs = [Element::I32, Element::I8, Element::F32].map(|e| TensorType::new([LENGTH], e));
    let inputs: Vec<&TensorType> = inputs.iter().collect();
    let builder = LoopBuilder::new(&inputs, &outputs.iter().collect::<Vec<_>>(), false);
    let mut random = Random(n as u64 * 77 + 5);
    random.next();
    let mut g = Generator { random, builder, locals: Vec::new() };
    let first = [Expr::i32(7), Expr::i64(-9), Expr::f32(1.5)];
    g.locals = first.map(|e| g.builder.local("first", e)).into();
    // Everything is written once.
    for k in 0..3 {
        let output = g.builder.output(k);
        let zero = if k == 2 { Expr::f32(0.0) } else { Expr::i32(0) };
        g.builder.for_("i", LENGTH, |b, i| b.store(output, i, zero));
    }
    g.block(3);
    g.store();
    let operands: Vec<Tensor> = inputs
        .iter()
        .map(|ty| {
            let values: Vec<i64> = (0..LENGTH).map(|_| g.integer()).collect();
            match ty.element {
                Element::F32 => {
                    Tensor::f32([LENGTH], values.iter().map(|&v| v as f32 / 8.0).collect())
                }
                _ => Tensor::from_i64(ty, &values, trainc_ir::ScaleData::None),
            }
        })
        .collect();
    RandomKernel { kernel: g.builder.finish(), operands, outputs: outputs.into() }
}
