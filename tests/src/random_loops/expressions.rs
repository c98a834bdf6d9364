//! Expressions of random loop kernels.

use trainc_ir::Element;
use trainc_ir::loops::{Binary, Buffer, Comparison, Expr, Scalar, Unary};

use super::{Generator, LENGTH};

impl Generator {
    pub(super) fn index(&mut self, depth: usize) -> Expr {
        if self.walk.is_some() {
            return self.walked();
        }
        match self.below(3) {
            0 => Expr::index(self.random.below(LENGTH)),
            _ => self.expr(Scalar::I64, depth).and(Expr::index(LENGTH - 1)),
        }
    }

    fn load(&mut self, ty: Scalar, depth: usize) -> Expr {
        let fits = |(_, e): &&(Buffer, Element)| (*e == Element::F32) == (ty == Scalar::F32);
        let mut buffers: Vec<Buffer> = self.read.iter().filter(fits).map(|(b, _)| *b).collect();
        // Seldom what rounds before have written.
        if buffers.is_empty() || (!self.plain && self.below(12) == 0) {
            buffers = self.written.iter().filter(fits).map(|(b, _)| *b).collect();
        }
        let buffer = self.any(&buffers);
        if self.plain || self.below(10) > 0 {
            let index = self.index(depth);
            return self.b.load(buffer, index);
        }
        // A place that may be out of bounds: where it is, another one is loaded, or none.
        let at = match &self.walk {
            Some(walk) => walk.place.clone() * Expr::i64(3) - Expr::index(walk.reach),
            None => self.expr(Scalar::I64, depth),
        };
        let at = self.b.let_("at", at);
        let (length, last) = (Expr::index(self.length), Expr::index(self.length - 1));
        let inside = match self.below(2) {
            0 => at.clone().compare(Comparison::LessUnsigned, length),
            _ => Expr::i64(0).less_equal(at.clone()).and(at.clone().less(length)),
        };
        let otherwise = self.constant(ty);
        if self.below(2) == 0 {
            let near = at.maximum(Expr::i64(0)).minimum(last);
            return inside.select(self.b.load(buffer, near), otherwise);
        }
        let value = self.b.local("guarded", otherwise);
        self.b.if_(inside, |b| {
            let loaded = b.load(buffer, at);
            b.set(value, loaded);
        });
        self.b.get(value)
    }

    fn constant(&mut self, ty: Scalar) -> Expr {
        let value = self.random.integer();
        let value = if self.small { value >> 24 } else { value };
        match ty {
            Scalar::I32 => Expr::i32(value as i32),
            Scalar::I64 => {
                Expr::i64(self.any(&[value, value << 29, i64::MIN, i64::MAX, value >> 16]))
            }
            Scalar::F32 => Expr::f32(self.random.float()),
            Scalar::Bool => Expr::i64(value).less(Expr::i64(2)),
        }
    }

    fn leaf(&mut self, ty: Scalar) -> Expr {
        if self.below(2) == 0 {
            let locals = self.locals.iter().map(|local| self.b.get(*local));
            let known: Vec<Expr> =
                self.values.iter().cloned().chain(locals).filter(|v| v.ty == ty).collect();
            if !known.is_empty() {
                return known[self.random.below(known.len())].clone();
            }
        }
        match ty {
            Scalar::F32 | Scalar::I32 if self.below(5) > 0 => self.load(ty, 0),
            Scalar::I64 if self.walk.is_some() && self.below(2) == 0 => self.place(),
            Scalar::I64 if self.below(2) == 0 => self.leaf(Scalar::I32).extend(),
            ty => self.constant(ty),
        }
    }

    pub(super) fn expr(&mut self, ty: Scalar, depth: usize) -> Expr {
        if depth == 0 || self.below(6) == 0 {
            return self.leaf(ty);
        }
        let d = depth - 1;
        if self.below(7) == 0 {
            let condition = self.expr(Scalar::Bool, d);
            return condition.select(self.expr(ty, d), self.expr(ty, d));
        }
        match ty {
            Scalar::Bool => self.truth(d),
            Scalar::F32 => self.float(d),
            Scalar::I32 | Scalar::I64 => self.integer(ty, d),
        }
    }

    fn truth(&mut self, d: usize) -> Expr {
        let of = match self.below(4) {
            0 if self.floats => Scalar::F32,
            1 if self.wide => Scalar::I64,
            _ => Scalar::I32,
        };
        use Comparison::{Equal, Less, LessEqual, LessUnsigned, NotEqual};
        let known = [Equal, NotEqual, Less, LessEqual, LessUnsigned];
        let comparison = self.any(&known[..if of == Scalar::F32 { 4 } else { 5 }]);
        let (a, b) = (self.expr(of, d), self.expr(of, d));
        let compared = a.compare(comparison, b);
        match self.below(8) {
            0 => compared.and(self.expr(Scalar::Bool, d)),
            1 => compared.or(self.expr(Scalar::Bool, d)),
            2 => compared.xor(self.expr(Scalar::Bool, d)),
            3 => compared.equal(self.expr(Scalar::Bool, d)),
            4 => compared.unary(Unary::Not),
            _ => compared,
        }
    }

    fn float(&mut self, d: usize) -> Expr {
        use Unary::{Ceil, FloatAbs, Floor, Negate, RoundTiesEven, Sqrt};
        let binary = [
            Binary::Add,
            Binary::Subtract,
            Binary::Multiply,
            Binary::Divide,
            Binary::Minimum,
            Binary::Maximum,
        ];
        match self.below(10) {
            0 => self.expr(Scalar::I32, d).unary(Unary::ToFloat),
            1 => self.expr(Scalar::I32, d).unary(Unary::FromBits),
            2..=4 => {
                let op = self.any(&[FloatAbs, Sqrt, RoundTiesEven, Floor, Ceil, Negate]);
                self.expr(Scalar::F32, d).unary(op)
            }
            _ => {
                let (a, op) = (self.expr(Scalar::F32, d), self.any(&binary));
                a.binary(op, self.expr(Scalar::F32, d))
            }
        }
    }

    /// Another type's value as an integer.
    fn converted(&mut self, ty: Scalar, d: usize) -> Expr {
        match (ty, self.below(6)) {
            (Scalar::I64, 0) => self.expr(Scalar::I32, d).unary(Unary::ExtendUnsigned),
            (Scalar::I64, _) => self.expr(Scalar::I32, d).extend(),
            (_, 0) if self.wide => self.expr(Scalar::I64, d).truncate(),
            (_, 1) if self.floats => self.expr(Scalar::F32, d).unary(Unary::ToInteger),
            (_, 2) if self.floats => {
                // The sign and payload of a NaN are not part of the meaning.
                let x = self.expr(Scalar::F32, d);
                x.clone().equal(x.clone()).select(x.unary(Unary::ToBits), Expr::i32(-3))
            }
            (_, 3) if !self.small && !self.plain => self.expr(ty, d).unary(Unary::LeadingZeros),
            (_, 4) => {
                let x = self.expr(ty, d);
                let negative = x.clone().less(Expr::i32(0));
                negative.select(x.clone().unary(Unary::Negate), x)
            }
            _ => self.expr(Scalar::Bool, d).unary(Unary::BoolToInteger),
        }
    }

    fn integer(&mut self, ty: Scalar, d: usize) -> Expr {
        let constant = |n: i64| if ty == Scalar::I32 { Expr::i32(n as i32) } else { Expr::i64(n) };
        if self.below(4) == 0 {
            return self.converted(ty, d);
        }
        // Seldom where it keeps a loop from being a vector's.
        let divides = if self.walk.is_some() { 64 } else { 8 };
        if !self.small && !self.plain && self.below(divides) == 0 {
            let op = self.any(&[Binary::Divide, Binary::Remainder]);
            let divisor = match self.below(2) {
                0 => constant(self.any(&[1, -1, 2, 3, 10, -7, 8, -16, i32::MIN.into()])),
                // Odd, so not 0.
                _ => self.expr(ty, d).or(constant(1)),
            };
            return self.expr(ty, d).binary(op, divisor);
        }
        let (a, b) = (self.expr(ty, d), self.expr(ty, d));
        let amount = match self.below(3) {
            0 if !self.plain => b.clone().and(constant(if ty == Scalar::I32 { 31 } else { 63 })),
            _ => constant(self.below(12) as i64),
        };
        match self.below(if self.small { 11 } else { 15 }) {
            0 => a.minimum(b),
            1 => a.maximum(b),
            2 => a.and(b),
            3 => a.or(b),
            4 => a.xor(b),
            5 => a.unary(Unary::Negate),
            6 => a.maximum(constant(-127)).minimum(constant(127)),
            7 | 8 => a - b,
            9 | 10 => a + b,
            11 => a.shift_left(amount),
            12 => a.shift_right(amount),
            13 => a.shr_unsigned(amount),
            _ => a * b,
        }
    }
}
