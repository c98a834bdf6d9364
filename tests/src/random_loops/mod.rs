//! Random loop kernels, each of a number: statements over all scalar operations and types, and walks along buffers, of the
//! kind that runs as vectors. With operands; every target's code is held against the interpreter on them.

mod expressions;

use std::cell::RefCell;
use std::sync::Arc;

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Binary, Buffer, Expr, Local, Scalar, Unary};
use trainc_ir::ops::Loops;
use trainc_ir::{Element, ScaleData, Tensor, TensorType};

use crate::cases::Case;
use crate::random::Random;

const LOADED: [Element; 7] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::U16,
    Element::I32,
    Element::U32,
    Element::F32,
];
const STORED: [Element; 6] =
    [Element::I8, Element::U8, Element::I16, Element::U16, Element::I32, Element::F32];
/// Elements of the buffers of statements: a power of two, so that a mask keeps an index in bounds.
const LENGTH: usize = 16;
/// Largest distance of an access from a walk's place.
const REACH: usize = 8;

/// Where a walk is.
struct Walk {
    /// The round's place, and the same from the other end.
    place: Expr,
    reverse: Expr,
    /// Distances are less than this.
    reach: usize,
}

struct Generator {
    random: Random,
    b: LoopBuilder,
    /// Elements of each buffer.
    length: usize,
    read: Vec<(Buffer, Element)>,
    written: Vec<(Buffer, Element)>,
    /// Values, and locals that may be set.
    values: Vec<Expr>,
    locals: Vec<Local>,
    walk: Option<Walk>,
    floats: bool,
    /// Whether 64-bit integers are computed with.
    wide: bool,
    /// Whether operations keep small values small.
    small: bool,
    /// Whether random numbers are drawn.
    draws: bool,
    /// Whether there is only what vectors do on most machines.
    plain: bool,
}

/// The kernel of a number and its operands: every third is made of statements, the others walk.
pub fn random_loops(n: usize) -> Case {
    let mut random = Random((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.next();
    let walks = random.below(3) != 0;
    let rows = 1 + usize::from(random.below(4) == 0) * random.below(4);
    let plain = walks && random.below(2) == 0;
    let count = match random.below(4) {
        _ if plain => 130 + random.below(200) / rows,
        0 => 1 + random.below(8),
        1 => 100 + random.below(300) / rows,
        _ => 8 + random.below(40),
    };
    let length = if walks { 2 * rows * count + 2 * REACH } else { LENGTH };
    let of = |element: Element| TensorType::new([length], element);
    let inputs: Vec<TensorType> = LOADED
        .iter()
        .map(|&e| if e == Element::I8 { TensorType::shared([length], e) } else { of(e) })
        .collect();
    let mut outputs: Vec<TensorType> = STORED.iter().map(|&e| of(e)).collect();
    outputs[0] = TensorType::shared([length], Element::I8);
    outputs.extend([TensorType::new([3], Element::I32), TensorType::new([2], Element::F32)]);
    let draws = !plain && random.below(8) == 0;
    let types = [&inputs, &outputs].map(|types| types.iter().collect::<Vec<_>>());
    let b = LoopBuilder::new(&types[0], &types[1], draws);
    let mut read: Vec<_> = LOADED.iter().enumerate().map(|(i, &e)| (b.input(i), e)).collect();
    let written: Vec<_> = STORED.iter().enumerate().map(|(i, &e)| (b.output(i), e)).collect();
    // Lanes have the same width more often where few operands are read.
    match random.below(4) {
        0 => read.truncate(2),
        1 => read.retain(|(_, e)| e.bits() == 32),
        _ => {}
    }
    let (floats, wide, small) =
        (!walks || random.below(3) == 0, !plain && random.below(3) == 0, random.below(3) == 0);
    let mut g = Generator {
        random,
        b,
        length,
        read,
        written,
        values: Vec::new(),
        locals: Vec::new(),
        walk: None,
        floats,
        wide,
        small: walks && small,
        draws,
        plain,
    };
    g.begin();
    if walks {
        g.walks(rows, count)
    } else {
        g.statements()
    }
    let exponent = g.b.input_exponent(0) + Expr::i32(3);
    g.b.set_output_exponent(0, exponent);
    let kernel = Arc::new(g.b.finish());
    let operands = inputs.iter().map(|ty| operand(&mut g.random, ty, small)).collect();
    let name = format!("random {n}");
    let op = Loops { name: name.clone(), kernel, inputs, outputs };
    Case { what: name, op: op.into(), inputs: operands, constant: false }
}

/// Elements of any size, extremes among them.
fn operand(random: &mut Random, ty: &TensorType, small: bool) -> Tensor {
    if ty.is_f32() {
        return Tensor::f32(
            ty.shape.clone(),
            (0..ty.count()).map(|_| random.float()).collect::<Vec<_>>(),
        );
    }
    let mut one = || match random.integer() {
        value if small => value >> 24,
        value => value,
    };
    let values: Vec<i64> = (0..ty.count()).map(|_| one()).collect();
    let scale = match ty.scale {
        trainc_ir::Scale::None => ScaleData::None,
        _ => ScaleData::Exponent(-5),
    };
    Tensor::from_i64(ty, &values, scale)
}

impl Generator {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    /// Something of a list.
    fn any<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len())]
    }

    /// Everything is written once, working memory too.
    fn begin(&mut self) {
        let length = self.length;
        if self.below(4) == 0 {
            let scratch = self.b.scratch("scratch", Element::I16, length);
            self.written.push((scratch, Element::I16));
        }
        for &(buffer, element) in &self.written {
            let value = if element == Element::F32 { Expr::f32(0.25) } else { Expr::i32(-5) };
            self.b.for_("i", length, |b, i| b.store(buffer, i, value));
        }
        let [sums, floats] = [self.b.output(STORED.len()), self.b.output(STORED.len() + 1)];
        self.b.for_("i", 3, |b, i| b.store(sums, i, Expr::i32(0)));
        self.b.for_("i", 2, |b, i| b.store(floats, i, Expr::f32(0.0)));
    }

    /// Statements around the generator's own: `body` runs for each block that `open` opens, with its variable.
    fn within(
        &mut self,
        open: impl FnOnce(&mut LoopBuilder, &mut dyn FnMut(&mut LoopBuilder, Expr)),
        body: &mut dyn FnMut(&mut Generator, Expr),
    ) {
        let empty = LoopBuilder::new(&[], &[], false);
        let mut builder = std::mem::replace(&mut self.b, empty);
        open(&mut builder, &mut |inner, variable| {
            std::mem::swap(inner, &mut self.b);
            body(self, variable);
            std::mem::swap(inner, &mut self.b);
        });
        self.b = builder;
    }

    /// A loop.
    fn range(
        &mut self,
        name: &str,
        [start, end]: [Expr; 2],
        body: &mut dyn FnMut(&mut Generator, Expr),
    ) {
        self.within(|b, body| b.for_range(name, start, end, |b, i| body(b, i)), body);
    }

    // Statements.

    fn statements(&mut self) {
        self.read.extend(&self.written);
        let first = [Expr::i32(7), Expr::i64(-9), Expr::f32(1.5)];
        self.locals = first.map(|e| self.b.local("first", e)).into();
        self.block(3);
        self.store();
        let value = self.expr(Scalar::I32, 2);
        self.b.store(self.b.output(STORED.len()), Expr::i64(1), value);
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..3 {
            let kinds = if depth == 0 { 4 } else { 7 };
            match self.below(kinds) {
                0 => {
                    let ty = self.any(&[Scalar::I32, Scalar::I64, Scalar::F32, Scalar::Bool]);
                    let value = self.expr(ty, 3);
                    let local = self.b.local("v", value);
                    self.locals.push(local);
                }
                1 => {
                    let at = self.below(self.locals.len());
                    let local = self.locals[at];
                    let before = self.b.get(local);
                    let value = self.expr(before.ty, 2);
                    let sum = before.ty != Scalar::Bool && self.below(2) == 0;
                    self.b.set(local, if sum { before + value } else { value });
                }
                2 if self.draws => {
                    let element = self.expr(Scalar::I64, 1).and(Expr::i64(63));
                    let drawn = self.b.draw(9, element);
                    let local = self.b.local("drawn", drawn);
                    self.locals.push(local);
                }
                2 | 3 => self.store(),
                4 => {
                    // A bound that the body may change.
                    let bounds = [1, 2].map(|depth| self.index(depth));
                    self.range("i", bounds, &mut |g, i| g.nested(Some(i), depth - 1));
                }
                kind => {
                    let condition = self.expr(Scalar::Bool, 2);
                    self.within(
                        |b, body| {
                            let body = RefCell::new(body);
                            let block = |b: &mut LoopBuilder| body.borrow_mut()(b, Expr::i64(0));
                            match kind {
                                5 => b.if_(condition, block),
                                _ => b.if_else(condition, block, block),
                            }
                        },
                        &mut |g, _| g.nested(None, depth - 1),
                    );
                }
            }
        }
    }

    fn nested(&mut self, counter: Option<Expr>, depth: usize) {
        let known = (self.locals.len(), self.values.len());
        self.values.extend(counter);
        self.block(depth);
        self.store();
        // A local of the block may be read after it: it keeps its value.
        let kept = self.below(2);
        self.locals.truncate(known.0 + kept);
        self.values.truncate(known.1);
    }

    fn store(&mut self) {
        let (buffer, element) = self.any(&self.written.clone());
        let ty = if element == Element::F32 { Scalar::F32 } else { Scalar::I32 };
        let (index, value) = (self.index(1), self.expr(ty, 4));
        self.b.store(buffer, index, value);
    }

    // Walks.

    /// Rows of some elements, which may be one row, once or twice; with sums.
    fn walks(&mut self, rows: usize, count: usize) {
        for _ in 0..1 + self.below(2) {
            let first =
                [Expr::i32(0), Expr::i32(-9), Expr::i64(7), Expr::f32(0.25), Expr::f32(0.0)];
            let totals = first.map(|e| self.b.local("total", e));
            let reach = 1 + self.below(REACH);
            let unknown = self.below(3) == 0;
            let row = |g: &mut Generator, base: Expr| {
                // Bounds that only the kernel knows.
                let same = g.b.load(g.b.input(1), Expr::i64(0)).extend();
                let start = if unknown { same.clone().and(Expr::i64(3)) } else { Expr::i64(0) };
                let end = match unknown {
                    true => Expr::index(count) - same.and(Expr::i64(1)),
                    false => Expr::index(count),
                };
                g.range("walk", [start, end], &mut |g, i| {
                    let place = base.clone() + i;
                    let reverse = Expr::index(rows * count - 1) - place.clone();
                    g.walk = Some(Walk { place, reverse, reach });
                    g.round(&totals);
                    g.walk = None;
                    g.values.clear();
                    g.locals.clear();
                });
            };
            match rows {
                1 => row(self, Expr::i64(0)),
                _ => self.range("row", [Expr::i64(0), Expr::index(rows)], &mut |g, h| {
                    row(g, h * Expr::index(count));
                }),
            }
            for (k, &local) in totals.iter().enumerate() {
                let total = self.b.get(local);
                let (result, at) = if k < 3 { (0, k) } else { (1, k - 3) };
                let total = if total.ty == Scalar::I64 { total.truncate() } else { total };
                let buffer = self.b.output(STORED.len() + result);
                self.b.store(buffer, Expr::index(at), total);
            }
        }
    }

    /// One round: values, locals, sums, stores.
    fn round(&mut self, totals: &[Local]) {
        if self.draws && self.below(2) == 0 {
            let place = self.place();
            let drawn = self.b.draw(9, place);
            self.values.push(drawn);
        }
        for _ in 0..self.below(4) {
            let ty = match self.below(5) {
                0 if self.floats => Scalar::F32,
                1 if self.wide => Scalar::I64,
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
        if let (Some(&local), false) = (self.locals.first(), self.plain) {
            self.change(local);
        }
        self.add_to(totals);
        for (buffer, element) in self.written.clone() {
            if self.below(4) > 0 {
                continue;
            }
            let index = if self.plain { self.place() } else { self.walked() };
            let value = match element {
                Element::F32 => self.expr(Scalar::F32, if self.floats { 3 } else { 0 }),
                _ => self.expr(Scalar::I32, 3),
            };
            self.b.store(buffer, index.clone(), value);
            if self.below(6) == 0 {
                // What was just stored, once more.
                let again = self.b.load(buffer, index.clone());
                self.b.store(buffer, index, again.clone() + again);
            }
        }
    }

    /// A local under a condition, or by an inner loop, which is written out or not.
    fn change(&mut self, local: Local) {
        let ty = self.b.get(local).ty;
        match self.below(3) {
            0 => {
                let (condition, value) = (self.expr(Scalar::Bool, 1), self.expr(ty, 1));
                self.b.if_(condition, |b| b.set(local, value));
            }
            n => {
                let place = self.place();
                let x = self.b.input(if ty == Scalar::F32 { 6 } else { 0 });
                self.b.for_("tap", [3, 6][n - 1], |b, tap| {
                    let value = b.load(x, place + tap);
                    let value = if ty == Scalar::I64 { value.extend() } else { value };
                    let sum = b.get(local) + value;
                    b.set(local, sum);
                });
            }
        }
    }

    fn add_to(&mut self, totals: &[Local]) {
        let operations =
            [Binary::Add, Binary::Maximum, Binary::Or, Binary::Minimum, Binary::And, Binary::Xor];
        for (k, &local) in totals.iter().enumerate() {
            if self.below(3) > 0 {
                continue;
            }
            let before = self.b.get(local);
            if before.ty == Scalar::I32 && !self.plain && self.below(4) == 0 {
                // Of neighbours, by an inner loop, which is written out or not.
                let (x, place) = (self.b.input(0), self.place());
                let (operation, taps) = (self.any(&operations), self.any(&[2, 3, 6]));
                self.b.for_("tap", taps, |b, tap| {
                    let value = b.load(x, place + tap);
                    let joined = b.get(local).binary(operation, value);
                    b.set(local, joined);
                });
                continue;
            }
            let value = match (before.ty, k) {
                (Scalar::F32, _) if !self.floats || (self.plain && k == 4) => continue,
                // The largest magnitude, in any order; a sum in its own.
                (Scalar::F32, 3) => {
                    self.expr(Scalar::F32, 1).unary(Unary::FloatAbs).maximum(before)
                }
                (Scalar::F32, _) => before + self.expr(Scalar::F32, 1),
                (Scalar::I64, _) if self.plain => continue,
                (Scalar::I64, _) => before + self.expr(Scalar::I64, 1),
                (ty, _) => {
                    let kinds = if self.plain { 1 } else { operations.len() };
                    let operation = self.any(&operations[..kinds]);
                    before.binary(operation, self.expr(ty, 1))
                }
            };
            self.b.set(local, value);
        }
    }

    fn place(&self) -> Expr {
        self.walk.as_ref().map_or(Expr::i64(0), |walk| walk.place.clone())
    }

    /// A place near a walk's: ahead, from the other end, every other one, or always the same.
    fn walked(&mut self) -> Expr {
        let Some(Walk { place, reverse, reach }) = &self.walk else { return Expr::i64(0) };
        let (place, reverse) = (place.clone(), reverse.clone());
        let distance = Expr::index(self.random.below(*reach));
        match self.below(12) {
            0..=3 if self.plain => place + distance,
            0 => reverse + distance,
            1 => place * Expr::i64(2),
            2 => place * Expr::i64(2) + Expr::i64(1),
            3 => distance,
            4..=6 => place + distance,
            _ => place,
        }
    }
}
