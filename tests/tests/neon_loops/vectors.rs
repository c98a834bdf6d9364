//! Random loops of the kind that runs as vectors, of all widths and with reductions, against their evaluation.

use std::fmt::Write as _;

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Binary, Comparison, Expr, Local, Scalar, Unary};
use trainc_ir::{Element, RunContext, ScaleData, Tensor, TensorType};

use trainc_tests::random::Random;

use super::{KernelCase, MACHINES, folder, program, runtime, write};

const LOADED: [Element; 7] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::U16,
    Element::I32,
    Element::U32,
    Element::F32,
];
const STORED: [Element; 5] = [Element::I8, Element::U8, Element::I16, Element::I32, Element::F32];
const KERNELS: u64 = 260;

/// A random loop's body.
struct Generator {
    random: Random,
    b: LoopBuilder,
    i: Expr,
    /// Values of this round.
    values: Vec<Expr>,
    /// Locals of this round that may change.
    locals: Vec<Local>,
    /// Operands that a kernel loads, so that lanes have the same width more often.
    loaded: Vec<usize>,
    floats: bool,
}

impl Generator {
    fn below(&mut self, n: usize) -> usize {
        (self.random.next() >> 33) as usize % n
    }

    fn constant(&mut self, ty: Scalar) -> Expr {
        let value = self.random.integer();
        match ty {
            Scalar::I32 => Expr::i32(value as i32),
            Scalar::I64 => Expr::i64(value),
            Scalar::F32 => Expr::f32(value as f32 / 8.0),
            Scalar::Bool => Expr::i64(value).less(Expr::i64(2)),
        }
    }

    fn load(&mut self, buffer: usize) -> Expr {
        let i = self.i.clone();
        let index = match self.below(9) {
            0 => i + Expr::i64(1),
            1 => i + Expr::i64(2),
            2 => i * Expr::i64(2),
            3 => i * Expr::i64(2) + Expr::i64(1),
            4 => Expr::i64(3),
            _ => i,
        };
        self.b.load(self.b.input(buffer), index)
    }

    fn leaf(&mut self, ty: Scalar) -> Expr {
        let known: Vec<Expr> = self.values.iter().filter(|v| v.ty == ty).cloned().collect();
        if !known.is_empty() && self.below(3) == 0 {
            let at = self.below(known.len());
            return known[at].clone();
        }
        let locals: Vec<Expr> =
            self.locals.iter().map(|l| self.b.get(*l)).filter(|v| v.ty == ty).collect();
        if !locals.is_empty() && self.below(3) == 0 {
            let at = self.below(locals.len());
            return locals[at].clone();
        }
        match ty {
            Scalar::F32 if self.below(4) > 0 => self.load(6),
            Scalar::I32 if self.below(4) > 0 => {
                let at = self.below(self.loaded.len());
                let buffer = self.loaded[at];
                self.load(buffer)
            }
            Scalar::I64 if self.below(2) == 0 => self.i.clone(),
            Scalar::I64 => self.leaf(Scalar::I32).extend(),
            ty => self.constant(ty),
        }
    }

    fn expr(&mut self, ty: Scalar, depth: usize) -> Expr {
        if depth == 0 {
            return self.leaf(ty);
        }
        let d = depth - 1;
        if self.below(6) == 0 {
            let condition = self.expr(Scalar::Bool, d);
            return condition.select(self.expr(ty, d), self.expr(ty, d));
        }
        match ty {
            Scalar::Bool => {
                let of = if self.floats && self.below(3) == 0 {
                    Scalar::F32
                } else {
                    [Scalar::I32, Scalar::I32, Scalar::I64][self.below(3)]
                };
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
                match self.below(7) {
                    0 => compared.and(self.expr(ty, d)),
                    1 => compared.or(self.expr(ty, d)),
                    2 => compared.xor(self.expr(ty, d)),
                    3 => compared.unary(Unary::Not),
                    _ => compared,
                }
            }
            Scalar::F32 => {
                let a = self.expr(ty, d);
                match self.below(12) {
                    0 => self.expr(Scalar::I32, d).unary(Unary::ToFloat),
                    1 => self.expr(Scalar::I32, d).unary(Unary::FromBits),
                    2 => a.unary(Unary::Negate),
                    3 => a.unary(Unary::FloatAbs),
                    4 => a.unary(Unary::Sqrt),
                    5 => a.unary(Unary::RoundTiesEven),
                    6 => a.unary([Unary::Floor, Unary::Ceil][self.below(2)]),
                    n => {
                        let binary = [
                            Binary::Add,
                            Binary::Subtract,
                            Binary::Multiply,
                            Binary::Divide,
                            [Binary::Minimum, Binary::Maximum][self.below(2)],
                        ];
                        a.binary(binary[n - 7], self.expr(ty, d))
                    }
                }
            }
            Scalar::I32 | Scalar::I64 => self.integer_expr(ty, d),
        }
    }

    fn integer_expr(&mut self, ty: Scalar, d: usize) -> Expr {
        let constant = |n: i64| if ty == Scalar::I32 { Expr::i32(n as i32) } else { Expr::i64(n) };
        if self.below(5) == 0 {
            return match (ty, self.below(5)) {
                (Scalar::I64, 0) => self.expr(Scalar::I32, d).unary(Unary::ExtendUnsigned),
                (Scalar::I64, _) => self.expr(Scalar::I32, d).extend(),
                (_, 0) => self.expr(Scalar::I64, d).truncate(),
                (_, 1) if self.floats => self.expr(Scalar::F32, d).unary(Unary::ToInteger),
                (_, 2) => self.expr(ty, d).unary(Unary::LeadingZeros),
                (_, 3) => {
                    let x = self.expr(ty, d);
                    let negative = x.clone().less(Expr::i32(0));
                    negative.select(x.clone().unary(Unary::Negate), x)
                }
                _ => self.expr(Scalar::Bool, d).unary(Unary::BoolToInteger),
            };
        }
        let a = self.expr(ty, d);
        let amount = match self.below(3) {
            0 => self.expr(ty, d).and(constant(if ty == Scalar::I32 { 31 } else { 63 })),
            _ => constant(self.below(12) as i64),
        };
        match self.below(16) {
            0 => a.shift_left(amount),
            1 => a.shift_right(amount),
            2 => a.shr_unsigned(amount),
            3 => a.and(self.expr(ty, d)),
            4 => a.or(self.expr(ty, d)),
            5 => a.xor(self.expr(ty, d)),
            6 => a.unary(Unary::Negate),
            7 | 8 => a * self.expr(ty, d),
            9 | 10 => a - self.expr(ty, d),
            11 => a.minimum(self.expr(ty, d)),
            12 => a.maximum(self.expr(ty, d)),
            13 => a.maximum(constant(-127)).minimum(constant(127)),
            _ => a + self.expr(ty, d),
        }
    }

    /// One round: values, changes of locals, reductions, stores.
    fn round(&mut self, reductions: &[Local]) {
        for _ in 0..1 + self.below(3) {
            let ty = match self.below(5) {
                0 if self.floats => Scalar::F32,
                1 => Scalar::I64,
                2 => Scalar::Bool,
                _ => Scalar::I32,
            };
            let value = self.expr(ty, 2);
            if self.below(3) == 0 && ty != Scalar::Bool {
                let local = self.b.local("state", value);
                self.locals.push(local);
            } else {
                let value = self.b.let_("value", value);
                self.values.push(value);
            }
        }
        if let Some(&local) = self.locals.first() {
            let ty = self.b.get(local).ty;
            match self.below(3) {
                0 => {
                    let (condition, value) = (self.expr(Scalar::Bool, 1), self.expr(ty, 1));
                    self.b.if_(condition, |b| b.set(local, value));
                }
                n => {
                    // An inner loop, written out or not.
                    let buffer = if ty == Scalar::F32 { 6 } else { self.loaded[0] };
                    let (x, i) = (self.b.input(buffer), self.i.clone());
                    self.b.for_("tap", [3, 6][n - 1], |b, tap| {
                        let value = b.load(x, i + tap);
                        let value = if ty == Scalar::I64 { value.extend() } else { value };
                        let sum = b.get(local) + value;
                        b.set(local, sum);
                    });
                }
            }
        }
        let operations =
            [Binary::Add, Binary::Maximum, Binary::Or, Binary::Minimum, Binary::And, Binary::Xor];
        for &local in reductions {
            if self.below(3) > 0 {
                continue;
            }
            let before = self.b.get(local);
            let value = if before.ty == Scalar::F32 {
                if !self.floats {
                    continue;
                }
                self.expr(Scalar::F32, 1).unary(Unary::FloatAbs).maximum(before)
            } else {
                let operation =
                    operations[self.below(if before.ty == Scalar::I64 { 1 } else { 6 })];
                before.binary(operation, self.expr(self.b.get(local).ty, 1))
            };
            self.b.set(local, value);
        }
        for (k, &element) in STORED.iter().enumerate() {
            if self.below(4) > 0 {
                continue;
            }
            let (y, i) = (self.b.output(k), self.i.clone());
            if element == Element::F32 {
                let value = self.expr(Scalar::F32, if self.floats { 3 } else { 0 });
                self.b.store(y, i, value);
            } else {
                let value = self.expr(Scalar::I32, 3);
                self.b.store(y, i, value);
            }
        }
    }
}

#[test]
fn random_vectors() {
    let run = RunContext::default();
    let (mut sources, mut vectors) = ([String::new(), String::new()], [0, 0]);
    for n in 0..KERNELS {
        let mut random = Random(n * 991 + 17);
        random.next();
        let count = 8 + (random.next() >> 33) as usize % 40;
        // Loads of every other element reach the end.
        let length = 2 * count;
        let inputs = LOADED.map(|e| TensorType::new([length], e));
        let mut outputs: Vec<TensorType> =
            STORED.iter().map(|&e| TensorType::new([length], e)).collect();
        outputs.push(TensorType::new([3], Element::I32));
        outputs.push(TensorType::new([1], Element::F32));
        let mut b = LoopBuilder::new(
            &inputs.iter().collect::<Vec<_>>(),
            &outputs.iter().collect::<Vec<_>>(),
            false,
        );
        for (k, ty) in outputs.iter().enumerate() {
            let zero = if ty.element == Element::F32 { Expr::f32(0.0) } else { Expr::i32(0) };
            let y = b.output(k);
            b.for_("i", ty.count(), |b, i| b.store(y, i, zero));
        }
        let first = [Expr::i32(0), Expr::i32(-9), Expr::i64(7), Expr::f32(0.25)];
        let reductions = first.map(|e| b.local("total", e));
        let empty = LoopBuilder::new(&[], &[], false);
        let placeholder = Expr::i64(0);
        let loaded = match n % 3 {
            0 => vec![0, 0, 1],
            1 => vec![0, 2, 4],
            _ => (0..6).collect(),
        };
        let floats = n % 4 == 3;
        let mut g = Generator {
            random,
            b: empty,
            i: placeholder,
            values: Vec::new(),
            locals: Vec::new(),
            loaded,
            floats,
        };
        // Some loops have bounds that only the kernel knows.
        let start = match n % 5 {
            0 => b.load(b.input(1), Expr::i64(0)).extend().and(Expr::i64(3)),
            _ => Expr::i64(0),
        };
        b.for_range("i", start, Expr::index(count), |b, i| {
            std::mem::swap(b, &mut g.b);
            g.i = i;
            g.round(&reductions);
            std::mem::swap(b, &mut g.b);
        });
        for (k, &local) in reductions.iter().enumerate() {
            let total = b.get(local);
            let (y, at) = if k == 3 { (b.output(6), 0) } else { (b.output(5), k as i64) };
            let total = if total.ty == Scalar::I64 { total.truncate() } else { total };
            b.store(y, Expr::i64(at), total);
        }
        let operands: Vec<Tensor> = inputs
            .iter()
            .map(|ty| match ty.element {
                Element::F32 => {
                    Tensor::f32([length], (0..length).map(|_| g.random.float()).collect())
                }
                _ => {
                    let values: Vec<i64> = (0..length).map(|_| g.random.integer()).collect();
                    Tensor::from_i64(ty, &values, ScaleData::None)
                }
            })
            .collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let kernel = b.finish();
        let meaning = trainc_ir::loops::evaluate::run(&kernel, &operands, &outputs, &run);
        let case = KernelCase {
            n: n as usize,
            what: "random",
            kernel: &kernel,
            operands: &operands,
            meaning: &meaning,
            run: &run,
            may_overwrite: n % 2 == 0,
        };
        for ((machine, text), vectors) in MACHINES.iter().zip(&mut sources).zip(&mut vectors) {
            let source = case.source(machine.level);
            // The loops that set results to zero are vectors too; those before the first `total` are not meant.
            let own = source.split("total = ").nth(1).unwrap_or_default();
            *vectors += usize::from(["vld1", "vld2", "vst1q"].iter().any(|v| own.contains(v)));
            let _ = write!(text, "{source}");
        }
    }
    // Not a test of loops that stay scalars.
    assert!(vectors[0] > 120 && vectors[1] > 80, "{vectors:?} of {KERNELS} have vectors");
    std::thread::scope(|scope| {
        for (machine, text) in MACHINES.iter().zip(&sources) {
            scope.spawn(move || {
                let folder = folder(&format!("vectors_{}", machine.name));
                runtime(&folder);
                write(&folder, "main.c", program(text, KERNELS as usize));
                machine.check_with(&folder, &["-std=gnu99", "-O1", "-ffp-contract=off", "-static"]);
            });
        }
    });
}
