//! Truth values and floats of rounds that run at a time.

use trainc_ir::loops::{Binary, Comparison, Expr, Node, Scalar, Unary};

use super::arithmetic::{chosen, inverted, shifted};
use super::lanes::{Kind, Lanes, quad};
use super::round::Round;
use crate::level::Level;

impl Round<'_, '_, '_> {
    /// A truth value in lanes of a width.
    pub(super) fn mask_of(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        let mask = self.mask(e, bits)?;
        self.mask_in(mask, bits)
    }

    fn mask_in(&mut self, mask: Lanes, bits: u32) -> Option<Lanes> {
        let lanes = self.converted(mask.reinterpret(Kind::Signed), bits)?;
        Some(self.short("holds", lanes.reinterpret(Kind::Unsigned)))
    }

    /// A truth value in lanes of any width, of `bits` if there is a choice.
    pub(super) fn mask(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        let lanes = self.whole_mask(e, bits)?;
        Some(self.shortened(e, lanes))
    }

    /// [`Round::mask`], however long it is.
    pub(super) fn whole_mask(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        let bits = bits.max(self.least_bits());
        self.allows(bits)?;
        if self.is_uniform(e) {
            let whole = !quad(bits, self.count).is_empty();
            let name = self.splatted(e, Kind::Unsigned, bits, whole);
            let parts = super::lanes::part_count(bits, self.count);
            return Some(self.lanes(Kind::Unsigned, bits, vec![name; parts]));
        }
        match &*e.node {
            Node::Local(local) => {
                let lanes = self.named(*local)?.lanes.clone();
                (lanes.kind == Kind::Unsigned).then_some(lanes)
            }
            Node::Unary(Unary::Not, x) => {
                let x = self.mask(x, bits)?;
                Some(inverted(&x))
            }
            Node::Binary(op, a, b) => {
                let name = match op {
                    Binary::And => "vand",
                    Binary::Or => "vorr",
                    Binary::Xor => "veor",
                    _ => return None,
                };
                let (a, b) = self.masks(a, b, bits)?;
                Some(a.zip(name, &b))
            }
            Node::Select(c, a, b) => {
                let (a, b) = self.masks(a, b, bits)?;
                let c = self.mask_of(c, a.bits)?;
                Some(chosen(&c.parts, &a, &b))
            }
            Node::Compare(comparison, a, b) => match a.ty {
                Scalar::Bool => {
                    let (a, b) = self.masks(a, b, bits)?;
                    match comparison {
                        Comparison::Equal => Some(inverted(&a.zip("veor", &b))),
                        Comparison::NotEqual => Some(a.zip("veor", &b)),
                        _ => None,
                    }
                }
                Scalar::F32 => self.compare_floats(*comparison, a, b),
                Scalar::I32 | Scalar::I64 => self.compare(*comparison, a, b),
            },
            _ => None,
        }
    }

    /// Two truth values in lanes of one width.
    fn masks(&mut self, a: &Expr, b: &Expr, bits: u32) -> Option<(Lanes, Lanes)> {
        if !self.may_load(&[], [a, b]) {
            return None;
        }
        let (a, b) = (self.mask(a, bits)?, self.mask(b, bits)?);
        let bits = a.bits.max(b.bits);
        Some((self.mask_in(a, bits)?, self.mask_in(b, bits)?))
    }

    fn compare_floats(&mut self, comparison: Comparison, a: &Expr, b: &Expr) -> Option<Lanes> {
        if self.level == Level::Armv7 {
            return None;
        }
        let (a, b) = (self.float(a)?, self.float(b)?);
        let name = match comparison {
            Comparison::Equal | Comparison::NotEqual => "vceq",
            Comparison::Less => "vclt",
            Comparison::LessEqual => "vcle",
            Comparison::LessUnsigned => return None,
        };
        let mask = self.lanes(Kind::Unsigned, 32, a.zip(name, &b).parts);
        Some(if comparison == Comparison::NotEqual { inverted(&mask) } else { mask })
    }

    fn compare(&mut self, comparison: Comparison, a: &Expr, b: &Expr) -> Option<Lanes> {
        let (of_a, of_b) = (self.interval(a), self.interval(b));
        let unsigned = comparison == Comparison::LessUnsigned && (of_a.0 < 0 || of_b.0 < 0);
        let bits = match (unsigned, a.ty) {
            (true, Scalar::I32) => 32,
            (true, _) => 64,
            (false, _) => self.natural(a).max(self.natural(b)),
        };
        let kind = if unsigned { Kind::Unsigned } else { Kind::Signed };
        let (x, y) =
            (self.value(a, bits)?.reinterpret(kind), self.value(b, bits)?.reinterpret(kind));
        if bits == 64 && self.level == Level::Armv7 {
            // No comparisons of 64 bits: the sign of a difference that fits.
            let fits = of_a.0 - of_b.1 >= i64::MIN.into() && of_a.1 - of_b.0 <= i64::MAX.into();
            if comparison != Comparison::Less || !fits {
                return None;
            }
            let difference = x.zip("vsub", &y);
            let signs = difference.with(shifted(&difference, "vshr", ", 63"));
            return Some(signs.reinterpret(Kind::Unsigned));
        }
        let name = match comparison {
            Comparison::Equal | Comparison::NotEqual => "vceq",
            Comparison::Less | Comparison::LessUnsigned => "vclt",
            Comparison::LessEqual => "vcle",
        };
        let mask = self.lanes(Kind::Unsigned, bits, x.zip(name, &y).parts);
        Some(if comparison == Comparison::NotEqual { inverted(&mask) } else { mask })
    }

    /// A float. Vectors of Armv7 flush subnormal numbers, so that there only copies are exact.
    pub(super) fn float(&mut self, e: &Expr) -> Option<Lanes> {
        let lanes = self.whole_float(e)?;
        Some(self.shortened(e, lanes))
    }

    /// [`Round::float`], however long it is.
    pub(super) fn whole_float(&mut self, e: &Expr) -> Option<Lanes> {
        self.allows(32)?;
        if self.is_uniform(e) {
            let name = self.splatted(e, Kind::Float, 32, true);
            let parts = super::lanes::part_count(32, self.count);
            return Some(self.lanes(Kind::Float, 32, vec![name; parts]));
        }
        let copies = self.level == Level::Armv7;
        match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Compare(..) => None,
            Node::Local(local) => {
                let lanes = self.named(*local)?.lanes.clone();
                (lanes.kind == Kind::Float).then_some(lanes)
            }
            Node::Load(buffer, index) => self.load(*buffer, index),
            Node::Select(c, a, b) => {
                if !self.may_load(&[c], [a, b]) {
                    return None;
                }
                let mask = self.mask_of(c, 32)?;
                let (a, b) = (self.float(a)?, self.float(b)?);
                Some(chosen(&mask.parts, &a, &b))
            }
            Node::Unary(Unary::FromBits, x) => Some(self.value(x, 32)?.reinterpret(Kind::Float)),
            _ if copies => None,
            Node::Unary(Unary::ToFloat, x) => {
                let x = self.value(x, 32)?;
                let parts = x.parts.iter().map(|p| format!("vcvtq_f32_s32({p})")).collect();
                Some(self.lanes(Kind::Float, 32, parts))
            }
            Node::Unary(op, x) => {
                let name = match op {
                    Unary::Negate => "vneg",
                    Unary::FloatAbs => "vabs",
                    Unary::Sqrt => "vsqrt",
                    Unary::RoundTiesEven => "vrndn",
                    Unary::Floor => "vrndm",
                    Unary::Ceil => "vrndp",
                    _ => return None,
                };
                Some(self.float(x)?.map(name, ""))
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.float(a)?, self.float(b)?);
                let name = match op {
                    Binary::Add => "vadd",
                    Binary::Subtract => "vsub",
                    Binary::Multiply => "vmul",
                    Binary::Divide => "vdiv",
                    // The second operand where neither is less, which the minimum instructions do not do.
                    Binary::Minimum | Binary::Maximum => {
                        let (a, b) = (self.bind("left", &a), self.bind("right", &b));
                        let minimum = *op == Binary::Minimum;
                        let mask = a.zip(if minimum { "vclt" } else { "vcgt" }, &b);
                        return Some(chosen(&mask.parts, &a, &b));
                    }
                    _ => return None,
                };
                Some(a.zip(name, &b))
            }
        }
    }
}
