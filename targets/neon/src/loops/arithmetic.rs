//! Expressions of rounds that run at a time.
//!
//! Integers are computed in the narrowest lanes that hold their values, as far as the intervals prove it; sums,
//! differences, products and bit operations also in narrower ones where only low bits are asked for.

use trainc_ir::loops::{Binary, Expr, Node, Scalar, Unary};
use trainc_loops::{bits_of, magnitude_of};

use super::lanes::{Kind, Lanes, quad, suffix, vector_type};
use super::round::{Line, Round, is_ring};
use crate::level::Level;

/// Most characters of an expression that becomes part of another one.
const LONGEST: usize = 48;

impl Round<'_, '_, '_> {
    /// Lanes of 32 bits and more only where few rounds run at a time: values take four registers at most.
    pub(super) fn allows(&self, bits: u32) -> Option<()> {
        let all = bits as usize * self.count;
        ((64..=256).contains(&all) || all == 512 && bits == 64).then_some(())
    }

    pub(super) fn lanes(&self, kind: Kind, bits: u32, parts: Vec<String>) -> Lanes {
        Lanes::new(kind, bits, self.count, parts)
    }

    /// The low `bits` of an integer.
    pub(super) fn value(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        let lanes = self.whole_value(e, bits)?;
        Some(self.shortened(e, lanes))
    }

    /// [`Round::value`], however long it is.
    pub(super) fn whole_value(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        self.allows(bits)?;
        if self.is_uniform(e) {
            return Some(self.splat(e, bits));
        }
        if let Some(truth) = truth_of(e) {
            let mask = self.mask_of(truth, bits)?;
            let ones = mask.with(shifted(&mask, "vshr", &format!(", {}", bits - 1)));
            return Some(ones.reinterpret(Kind::Signed));
        }
        let natural = self.natural(e);
        if bits > natural {
            let narrow = self.value(e, natural)?;
            return self.converted(narrow, bits);
        }
        self.computed(e, bits)
    }

    /// Lanes with names if their expressions are long.
    pub(super) fn shortened(&mut self, e: &Expr, lanes: Lanes) -> Lanes {
        let name = match &*e.node {
            Node::Unary(Unary::Negate, _) => "negated",
            Node::Unary(Unary::RoundTiesEven | Unary::Floor | Unary::Ceil, _) => "rounded",
            Node::Unary(..) => "converted",
            Node::Binary(Binary::Add, ..) => "sum",
            Node::Binary(Binary::Subtract, ..) => "difference",
            Node::Binary(Binary::Multiply, ..) => "product",
            Node::Binary(Binary::Divide, ..) => "ratio",
            Node::Binary(Binary::Minimum | Binary::Maximum, ..) => "limited",
            Node::Binary(Binary::ShiftLeft, ..) => "raised",
            Node::Binary(Binary::ShiftRight | Binary::ShiftRightUnsigned, ..) => "shifted",
            Node::Binary(..) => "bits",
            Node::Select(..) => "chosen",
            Node::Compare(..) => "holds",
            _ => "wide",
        };
        self.short(name, lanes)
    }

    pub(super) fn short(&mut self, name: &str, lanes: Lanes) -> Lanes {
        let short = lanes.parts.iter().all(|part| part.len() <= LONGEST);
        if short { lanes } else { self.bind(name, &lanes) }
    }

    /// The low bits of lanes, or the values in wider ones.
    pub(super) fn converted(&mut self, mut lanes: Lanes, bits: u32) -> Option<Lanes> {
        self.allows(bits)?;
        while lanes.bits > bits {
            lanes = self.short("wide", lanes).narrowed("vmovn");
        }
        while lanes.bits < bits {
            if !quad(lanes.bits, lanes.count).is_empty() {
                lanes = self.bind("narrow", &lanes);
            }
            lanes = lanes.widened();
        }
        Some(lanes)
    }

    /// The name of a scalar in all lanes of a vector, set before the loop where that is possible.
    pub(super) fn splatted(&mut self, e: &Expr, kind: Kind, bits: u32, quad: bool) -> String {
        let intrinsic = format!("vdup{}_n_{}", if quad { "q" } else { "" }, suffix(kind, bits));
        let scalar = match (&*e.node, kind) {
            (Node::Integer(value), Kind::Signed) => {
                let value = value << (64 - bits) >> (64 - bits);
                let low = value == i64::from(i32::MIN) || value == i64::MIN;
                let ty = format!("INT{bits}_MIN");
                return match (low, bits) {
                    (true, _) => format!("{intrinsic}({ty})"),
                    (_, 64) => format!("{intrinsic}({})", self.scope.scalar(&Expr::i64(value))),
                    _ => format!("{intrinsic}({value})"),
                };
            }
            (_, Kind::Signed) if bits < 32 || bits == 32 && e.ty == Scalar::I64 => {
                format!("(int{bits}_t){}", self.scope.operand(e))
            }
            (_, Kind::Unsigned) => {
                format!("(uint{bits}_t)({} ? -1 : 0)", self.scope.operand(e))
            }
            _ => self.scope.scalar(e),
        };
        if matches!(*e.node, Node::Float(_)) {
            return format!("{intrinsic}({scalar})");
        }
        let fixed = !e.mentions(|l| self.inner.contains(&l)) && (self.certain || !e.loads());
        if fixed
            && let Some((.., name)) = self.splats.iter().find(|(x, i, _)| x == e && *i == intrinsic)
        {
            return name.clone();
        }
        let base = match &*e.node {
            Node::Local(local) => format!("{}_v", self.scope.local_name(*local)),
            Node::Load(buffer, _) => {
                format!("{}_v", self.scope.kernel().buffers[buffer.0 as usize].name)
            }
            Node::Unary(Unary::Negate, x) if matches!(*x.node, Node::Local(_)) => {
                format!("minus_{}", self.scope.scalar(x))
            }
            _ => "all".into(),
        };
        let name = self.scope.fresh(&base);
        let ty = vector_type(kind, bits, if quad { 128 } else { 64 } / bits as usize);
        let line = format!("const {ty} {name} = {intrinsic}({scalar});");
        if fixed && scalar.len() > LONGEST && kind == Kind::Signed && bits <= 32 {
            let plain = self.scope.fresh("scalar");
            self.before.push(format!("const int{bits}_t {plain} = {scalar};"));
            self.before.push(format!("const {ty} {name} = {intrinsic}({plain});"));
            self.splats.push((e.clone(), intrinsic, name.clone()));
        } else if fixed {
            self.before.push(line);
            self.splats.push((e.clone(), intrinsic, name.clone()));
        } else {
            self.lines.push(Line::Code(line));
        }
        name
    }

    /// An integer that is the same in all rounds.
    fn splat(&mut self, e: &Expr, bits: u32) -> Lanes {
        let quad = !quad(bits, self.count).is_empty();
        let name = self.splatted(e, Kind::Signed, bits, quad);
        let parts = super::lanes::part_count(bits, self.count);
        self.lanes(Kind::Signed, bits, vec![name; parts])
    }

    /// Halves of registers for a widening operation.
    fn half_registers(&mut self, e: &Expr, bits: u32) -> Option<Vec<String>> {
        if self.is_uniform(e) {
            let name = self.splatted(e, Kind::Signed, bits, false);
            return Some(vec![name; self.count * bits as usize / 64]);
        }
        let lanes = self.value(e, bits)?;
        let lanes =
            if quad(bits, self.count).is_empty() { lanes } else { self.bind("narrow", &lanes) };
        Some(lanes.halves())
    }

    /// An integer that varies, in lanes of no more than its natural width.
    fn computed(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        match &*e.node {
            Node::Integer(_) | Node::Float(_) => None,
            Node::Local(local) => {
                if *local == self.variable {
                    return self.counted(e, bits);
                }
                let lanes = self.named(*local)?.lanes.clone();
                match lanes.kind {
                    Kind::Signed => self.converted(lanes, bits),
                    _ => None,
                }
            }
            Node::Load(buffer, index) => {
                let lanes = self.load(*buffer, index)?;
                Some(self.converted(lanes, bits)?.reinterpret(Kind::Signed))
            }
            Node::Unary(op, x) => self.unary(*op, x, bits),
            Node::Binary(op, a, b) => self.binary(e, *op, a, b, bits),
            Node::Compare(..) => None,
            Node::Select(c, a, b) => self.select(c, a, b, bits),
        }
    }

    /// The loop variable.
    fn counted(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        let quad = !quad(bits, self.count).is_empty();
        let parts = super::lanes::part_count(bits, self.count);
        let each = self.count / parts;
        let ty = vector_type(Kind::Signed, bits, self.count);
        let intrinsic = format!("vdup{}_n_s{bits}", if quad { "q" } else { "" });
        let scalar = match bits {
            64 => self.scope.scalar(e),
            _ => format!("(int{bits}_t){}", self.scope.operand(e)),
        };
        let parts = (0..parts).map(|part| {
            let name = format!("lane_{}", part * each);
            let numbers: Vec<String> = (0..each).map(|n| (part * each + n).to_string()).collect();
            let known = self.splats.iter().find(|(x, i, _)| x == e && *i == format!("{name} {ty}"));
            let ramp = match known {
                Some((.., ramp)) => ramp.clone(),
                None => {
                    let ramp = self.scope.fresh(&name);
                    let list = numbers.join(", ");
                    self.before.push(format!("const {ty} {ramp} = {{{list}}};"));
                    self.splats.push((e.clone(), format!("{name} {ty}"), ramp.clone()));
                    ramp
                }
            };
            let add = format!("vadd{}_s{bits}", if quad { "q" } else { "" });
            format!("{add}({intrinsic}({scalar}), {ramp})")
        });
        let parts = parts.collect();
        Some(self.lanes(Kind::Signed, bits, parts))
    }

    fn unary(&mut self, op: Unary, x: &Expr, bits: u32) -> Option<Lanes> {
        let armv7 = self.level == Level::Armv7;
        match op {
            Unary::Negate => {
                let x = self.value(x, bits)?;
                if bits == 64 && armv7 {
                    let zero = self.splat(&Expr::i64(0), 64);
                    return Some(zero.zip("vsub", &x));
                }
                Some(x.map("vneg", ""))
            }
            Unary::Extend | Unary::Truncate => self.value(x, bits),
            Unary::ExtendUnsigned if bits <= 32 || self.interval(x).0 >= 0 => self.value(x, bits),
            Unary::ExtendUnsigned => {
                let x = self.value(x, 32)?.reinterpret(Kind::Unsigned);
                Some(self.converted(x, 64)?.reinterpret(Kind::Signed))
            }
            Unary::LeadingZeros => {
                let x = self.value(x, 32)?.map("vclz", "");
                self.converted(x, bits)
            }
            Unary::ToInteger if !armv7 => {
                let x = self.float(x)?;
                let parts = x.parts.iter().map(|p| format!("vcvtq_s32_f32({p})")).collect();
                let x = self.lanes(Kind::Signed, 32, parts);
                self.converted(x, bits)
            }
            Unary::ToBits => {
                let x = self.float(x)?.reinterpret(Kind::Signed);
                self.converted(x, bits)
            }
            _ => None,
        }
    }

    fn binary(&mut self, e: &Expr, op: Binary, a: &Expr, b: &Expr, bits: u32) -> Option<Lanes> {
        match op {
            Binary::Add => {
                let (a, b) = if self.is_wide_product(a, bits) { (b, a) } else { (a, b) };
                if !self.is_uniform(a)
                    && !self.is_wide_product(b, bits)
                    && let Some(sum) = self.widening("add", a, b, bits)
                {
                    return sum;
                }
                let sum = self.value(a, bits)?;
                self.add(b, bits, sum)
            }
            Binary::Subtract => {
                if !self.is_uniform(a)
                    && let Some(difference) = self.widening("sub", a, b, bits)
                {
                    return difference;
                }
                let (a, b) = (self.value(a, bits)?, self.value(b, bits)?);
                Some(a.zip("vsub", &b))
            }
            Binary::Multiply => {
                if self.is_wide_product(e, bits) {
                    return self.wide_product(e, bits, None);
                }
                let wide = |i: (i128, i128)| i.0 >= 0 && i.1 <= u32::MAX.into();
                if bits == 64 && wide(self.interval(a)) && wide(self.interval(b)) {
                    let (a, b) = (self.half_registers(a, 32)?, self.half_registers(b, 32)?);
                    let unsigned = |p: &str| format!("vreinterpret_u32_s32({p})");
                    let product = |(a, b): (&String, &String)| {
                        format!("vmull_u32({}, {})", unsigned(a), unsigned(b))
                    };
                    let parts = a.iter().zip(&b).map(product).collect();
                    let product = self.lanes(Kind::Unsigned, 64, parts);
                    return Some(product.reinterpret(Kind::Signed));
                }
                if bits == 64 {
                    return None;
                }
                let (a, b) = (self.value(a, bits)?, self.value(b, bits)?);
                Some(a.zip("vmul", &b))
            }
            op if is_ring(op) => {
                let (a, b) = (self.value(a, bits)?, self.value(b, bits)?);
                let name = match op {
                    Binary::And => "vand",
                    Binary::Or => "vorr",
                    _ => "veor",
                };
                Some(a.zip(name, &b))
            }
            Binary::Minimum | Binary::Maximum => {
                if let Some(x) = self.without_limit(op, a, b) {
                    return self.value(x, bits);
                }
                let both = self.natural(a).max(self.natural(b));
                let fits = [a, b].map(|x| self.natural(x) <= bits);
                if bits >= self.natural(e) && bits < both && (fits[0] || fits[1]) {
                    return self.saturated_extremum(op, a, b, bits);
                }
                let (a, b) = (self.value(a, both)?, self.value(b, both)?);
                let limited = self.extremum(op, a, b)?;
                self.converted(limited, bits)
            }
            Binary::ShiftLeft => {
                let x = self.value(a, bits)?;
                match self.amount(b) {
                    Some(0) => Some(x),
                    Some(amount) if amount < i64::from(bits) => {
                        Some(x.with(shifted(&x, "vshl", &format!(", {amount}"))))
                    }
                    Some(_) => Some(self.splat(&Expr::i32(0), bits)),
                    None => {
                        let amount = self.value(b, bits)?;
                        Some(x.zip("vshl", &amount))
                    }
                }
            }
            Binary::ShiftRight | Binary::ShiftRightUnsigned => {
                // Without a sign, both shifts are one; otherwise the whole type's bits count.
                let unsigned = op == Binary::ShiftRightUnsigned && self.interval(a).0 < 0;
                let width = match (unsigned, e.ty) {
                    (true, Scalar::I32) => 32,
                    (true, _) => 64,
                    (false, _) => self.natural(a),
                };
                let kind = if unsigned { Kind::Unsigned } else { Kind::Signed };
                let x = self.value(a, width)?.reinterpret(kind);
                let shifted = match self.amount(b) {
                    Some(0) => x,
                    Some(amount) => {
                        let amount = amount.min(width.into());
                        x.with(shifted(&x, "vshr", &format!(", {amount}")))
                    }
                    None => {
                        let amount = self.value(&b.clone().unary(Unary::Negate), width)?;
                        x.zip("vshl", &amount)
                    }
                };
                self.converted(shifted.reinterpret(Kind::Signed), bits)
            }
            _ => None,
        }
    }

    fn amount(&self, e: &Expr) -> Option<i64> {
        e.as_constant()
    }

    /// A sum or difference of narrower values in wide lanes; `None` if neither is narrow.
    #[expect(clippy::option_option, reason = "not this form, and not expressible, differ")]
    fn widening(&mut self, name: &str, a: &Expr, b: &Expr, bits: u32) -> Option<Option<Lanes>> {
        let half = bits / 2;
        let fits =
            |s: &Self, e: &Expr| s.natural(e) <= half && !s.is_uniform(e) && truth_of(e).is_none();
        if half < self.least_bits().max(8) || !fits(self, b) || self.count * (half as usize) < 64 {
            return None;
        }
        let long = fits(self, a);
        let mut print = || {
            let left =
                if long { self.half_registers(a, half)? } else { self.value(a, bits)?.parts };
            let right = self.half_registers(b, half)?;
            let name = format!("v{name}{}_s{half}", if long { "l" } else { "w" });
            let parts = left.iter().zip(&right).map(|(a, b)| format!("{name}({a}, {b})")).collect();
            Some(self.lanes(Kind::Signed, bits, parts))
        };
        Some(print())
    }

    /// Whether an expression is a product of two values of half the width.
    fn is_wide_product(&self, e: &Expr, bits: u32) -> bool {
        let Node::Binary(Binary::Multiply, a, b) = &*e.node else { return false };
        let half = bits / 2;
        half >= self.least_bits().max(8)
            && self.count * half as usize >= 64
            && !self.is_uniform(e)
            && [a, b].iter().all(|x| bits_of(self.interval(x)) <= half)
    }

    /// A product of two values of half the width, added to `sum` if there is one.
    fn wide_product(&mut self, e: &Expr, bits: u32, sum: Option<Lanes>) -> Option<Lanes> {
        let Node::Binary(Binary::Multiply, a, b) = &*e.node else { return None };
        let half = bits / 2;
        let (a, b) = (self.half_registers(a, half)?, self.half_registers(b, half)?);
        let pairs = a.iter().zip(&b);
        let parts = match sum {
            None => pairs.map(|(a, b)| format!("vmull_s{half}({a}, {b})")).collect(),
            Some(sum) => sum
                .parts
                .iter()
                .zip(pairs)
                .map(|(sum, (a, b))| format!("vmlal_s{half}({sum}, {a}, {b})"))
                .collect(),
        };
        Some(self.lanes(Kind::Signed, bits, parts))
    }

    /// `sum + e`.
    pub(super) fn add(&mut self, e: &Expr, bits: u32, sum: Lanes) -> Option<Lanes> {
        if self.is_wide_product(e, bits) {
            return self.wide_product(e, bits, Some(sum));
        }
        if let Some(truth) = truth_of(e).filter(|t| !self.is_uniform(t)) {
            // All ones are -1.
            let mask = self.mask_of(truth, bits)?.reinterpret(Kind::Signed);
            return Some(sum.zip("vsub", &mask));
        }
        let value = self.value(e, bits)?;
        Some(sum.zip("vadd", &value))
    }

    fn extremum(&mut self, op: Binary, a: Lanes, b: Lanes) -> Option<Lanes> {
        let minimum = op == Binary::Minimum;
        if a.bits < 64 {
            return Some(a.zip(if minimum { "vmin" } else { "vmax" }, &b));
        }
        if self.level == Level::Armv7 {
            return None;
        }
        let (a, b) = (self.bind("left", &a), self.bind("right", &b));
        let mask = a.zip(if minimum { "vclt" } else { "vcgt" }, &b);
        Some(chosen(&mask.parts, &a, &b))
    }

    /// The operand that an extremum always is.
    fn without_limit<'e>(&self, op: Binary, a: &'e Expr, b: &'e Expr) -> Option<&'e Expr> {
        let (of_a, of_b) = (self.interval(a), self.interval(b));
        let a_is_less = of_a.1 <= of_b.0;
        let b_is_less = of_b.1 <= of_a.0;
        match op {
            Binary::Minimum if a_is_less => Some(a),
            Binary::Minimum if b_is_less => Some(b),
            Binary::Maximum if a_is_less => Some(b),
            Binary::Maximum if b_is_less => Some(a),
            _ => None,
        }
    }

    /// The extremum of two values, one of which `bits` hold, as the nearest value that they hold.
    fn saturated_extremum(&mut self, op: Binary, a: &Expr, b: &Expr, bits: u32) -> Option<Lanes> {
        // The ends of the range are limits anyway.
        let end = match op {
            Binary::Minimum => (1i64 << (bits - 1)) - 1,
            _ => -1i64 << (bits - 1),
        };
        for (limit, x) in [(a, b), (b, a)] {
            if limit.as_constant() == Some(end) {
                return self.saturated(x, bits);
            }
        }
        let (a, b) = (self.saturated(a, bits)?, self.saturated(b, bits)?);
        self.extremum(op, a, b)
    }

    /// The nearest value that `bits` hold.
    fn saturated(&mut self, e: &Expr, bits: u32) -> Option<Lanes> {
        let natural = self.natural(e);
        if natural <= bits {
            return self.value(e, bits);
        }
        if let Node::Binary(op, a, b) = &*e.node {
            let fits = [a, b].map(|x| self.natural(x) <= bits);
            match op {
                // A limit that fits is a limit of the saturated values.
                Binary::Minimum | Binary::Maximum if fits[0] || fits[1] => {
                    return self.saturated_extremum(*op, a, b, bits);
                }
                Binary::Add | Binary::Subtract if fits[0] && fits[1] => {
                    let (a, b) = (self.value(a, bits)?, self.value(b, bits)?);
                    let name = if *op == Binary::Add { "vqadd" } else { "vqsub" };
                    return Some(a.zip(name, &b));
                }
                _ => {}
            }
        }
        let mut lanes = self.value(e, natural)?;
        while lanes.bits > bits {
            lanes = self.short("wide", lanes).narrowed("vqmovn");
        }
        Some(lanes)
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr, bits: u32) -> Option<Lanes> {
        if !self.may_load(&[c], [a, b]) {
            return None;
        }
        if let Some(x) = magnitude_of(c, a, b, self) {
            let width = bits.max(self.natural(x));
            if width < 64 || self.level != Level::Armv7 {
                let x = self.value(x, width)?.map("vabs", "");
                return self.converted(x, bits);
            }
        }
        let mask = self.mask_of(c, bits)?;
        let zero = |e: &Expr| e.as_constant() == Some(0);
        if zero(b) {
            let a = self.value(a, bits)?;
            return Some(a.zip("vand", &mask.reinterpret(Kind::Signed)));
        }
        let (a, b) = (self.value(a, bits)?, self.value(b, bits)?);
        Some(chosen(&mask.parts, &a, &b))
    }
}

/// The truth value that an integer of 0 or 1 is.
fn truth_of(e: &Expr) -> Option<&Expr> {
    match &*e.node {
        Node::Unary(Unary::BoolToInteger, truth) => Some(truth),
        Node::Unary(Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate, x) => truth_of(x),
        _ => None,
    }
}

/// Each part shifted by a constant.
pub(super) fn shifted(lanes: &Lanes, operation: &str, amount: &str) -> Vec<String> {
    let (quad, suffix) = (quad(lanes.bits, lanes.count), suffix(lanes.kind, lanes.bits));
    lanes.parts.iter().map(|p| format!("{operation}{quad}_n_{suffix}({p}{amount})")).collect()
}

/// `a` where the mask is set, else `b`.
pub(super) fn chosen(mask: &[String], a: &Lanes, b: &Lanes) -> Lanes {
    let name = a.intrinsic("vbsl");
    let parts = mask.iter().zip(a.parts.iter().zip(&b.parts));
    a.with(parts.map(|(m, (a, b))| format!("{name}({m}, {a}, {b})")).collect())
}

pub(super) fn inverted(mask: &Lanes) -> Lanes {
    // There is none of 64 bits.
    if mask.bits == 64 {
        let narrow = mask.reinterpret_as(Kind::Unsigned, 32);
        return narrow.map("vmvn", "").reinterpret_as(Kind::Unsigned, 64);
    }
    mask.map("vmvn", "")
}
