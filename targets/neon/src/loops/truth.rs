//! Truth values and floats of rounds that run at a time.

use trainc_ir::loops::{Binary, Comparison, Expr, Node, Scalar, Unary};

use super::arithmetic::{chosen, instruction, inverted, shifted};
use super::lanes::{Kind, Lanes};
use super::round::Round;

impl Round<'_, '_, '_> {
    /// A truth value in lanes of a width.
    pub(super) fn mask_of(&mut self, e: &Expr, bits: u32) -> Lanes {
        let mask = self.mask(e, bits);
        self.mask_in(mask, bits)
    }

    fn mask_in(&mut self, mask: Lanes, bits: u32) -> Lanes {
        let lanes = self.converted(mask.reinterpret(Kind::Signed), bits);
        self.short("holds", lanes.reinterpret(Kind::Unsigned))
    }

    /// A truth value in lanes of any width, of `bits` if there is a choice.
    pub(super) fn mask(&mut self, e: &Expr, bits: u32) -> Lanes {
        let lanes = self.whole_mask(e, bits);
        self.shortened(e, lanes)
    }

    /// [`Round::mask`], however long it is.
    pub(super) fn whole_mask(&mut self, e: &Expr, bits: u32) -> Lanes {
        let bits = bits.max(self.view().least);
        if self.is_uniform(e) {
            return self.splat(e, Kind::Unsigned, bits);
        }
        match &*e.node {
            Node::Local(local) => self.values[local].clone(),
            Node::Unary(Unary::Not, x) => {
                let x = self.mask(x, bits);
                inverted(&x)
            }
            Node::Binary(op, a, b) => {
                let (a, b) = self.masks(a, b, bits);
                a.zip(instruction(*op), &b)
            }
            Node::Select(c, a, b) => {
                let (a, b) = self.masks(a, b, bits);
                let c = self.mask_of(c, a.bits);
                chosen(&c.parts, &a, &b)
            }
            Node::Compare(comparison, a, b) if a.ty == Scalar::Bool => {
                let (a, b) = self.masks(a, b, bits);
                let differs = a.zip("veor", &b);
                if *comparison == Comparison::Equal { inverted(&differs) } else { differs }
            }
            Node::Compare(comparison, a, b) => self.compare(*comparison, a, b),
            _ => unreachable!("not planned"),
        }
    }

    /// Two truth values in lanes of one width.
    fn masks(&mut self, a: &Expr, b: &Expr, bits: u32) -> (Lanes, Lanes) {
        let (a, b) = (self.mask(a, bits), self.mask(b, bits));
        let bits = a.bits.max(b.bits);
        (self.mask_in(a, bits), self.mask_in(b, bits))
    }

    fn compare(&mut self, comparison: Comparison, a: &Expr, b: &Expr) -> Lanes {
        let (bits, unsigned) = match a.ty {
            Scalar::F32 => (32, false),
            _ => self.view().comparison(comparison, a, b),
        };
        let kind = if unsigned { Kind::Unsigned } else { Kind::Signed };
        let (x, y) = match a.ty {
            Scalar::F32 => (self.float(a), self.float(b)),
            _ => (self.value(a, bits).reinterpret(kind), self.value(b, bits).reinterpret(kind)),
        };
        if bits == 64 && self.is_armv7() {
            // No comparisons of 64 bits: the sign of a difference that fits.
            let difference = x.zip("vsub", &y);
            let signs = difference.with(shifted(&difference, "vshr", ", 63"));
            return signs.reinterpret(Kind::Unsigned);
        }
        let name = match comparison {
            Comparison::Equal | Comparison::NotEqual => "vceq",
            Comparison::Less | Comparison::LessUnsigned => "vclt",
            Comparison::LessEqual => "vcle",
        };
        let mask = self.lanes(Kind::Unsigned, bits, x.zip(name, &y).parts);
        if comparison == Comparison::NotEqual { inverted(&mask) } else { mask }
    }

    /// A float. Vectors of Armv7 flush subnormal numbers, so that there only copies are exact.
    pub(super) fn float(&mut self, e: &Expr) -> Lanes {
        let lanes = self.whole_float(e);
        self.shortened(e, lanes)
    }

    /// [`Round::float`], however long it is.
    pub(super) fn whole_float(&mut self, e: &Expr) -> Lanes {
        if self.is_uniform(e) {
            return self.splat(e, Kind::Float, 32);
        }
        match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Compare(..) => unreachable!("not planned"),
            Node::Local(local) => self.values[local].clone(),
            Node::Load(buffer, index) => self.load(*buffer, index),
            Node::Select(c, a, b) => {
                let mask = self.mask_of(c, 32);
                let (a, b) = (self.float(a), self.float(b));
                chosen(&mask.parts, &a, &b)
            }
            Node::Unary(Unary::FromBits, x) => self.value(x, 32).reinterpret(Kind::Float),
            Node::Unary(Unary::ToFloat, x) => {
                self.value(x, 32).called(Kind::Float, "vcvtq_f32_s32")
            }
            Node::Unary(op, x) => {
                let name = match op {
                    Unary::Negate => "vneg",
                    Unary::FloatAbs => "vabs",
                    Unary::Sqrt => "vsqrt",
                    Unary::RoundTiesEven => "vrndn",
                    Unary::Floor => "vrndm",
                    Unary::Ceil => "vrndp",
                    _ => unreachable!("not planned"),
                };
                self.float(x).map(name, "")
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.float(a), self.float(b));
                match op {
                    Binary::Minimum | Binary::Maximum => self.extremum(*op, a, b),
                    _ => a.zip(instruction(*op), &b),
                }
            }
        }
    }
}
