//! Expressions of rounds that run at a time.

use trainc_ir::loops::{Binary, Expr, Node, Scalar, Unary};
use trainc_loops::magnitude_of;

use super::forms::{Saturation, clamped, truth_of};
use super::lanes::{Kind, Lanes, part_count, quad, suffix, vector_type};
use super::round::{Line, Round};

/// Most characters of an expression that becomes part of another one.
const LONGEST: usize = 48;

impl Round<'_, '_, '_> {
    pub(super) fn lanes(&self, kind: Kind, bits: u32, parts: Vec<String>) -> Lanes {
        Lanes::new(kind, bits, self.count, parts)
    }

    /// The low `bits` of an integer.
    pub(super) fn value(&mut self, e: &Expr, bits: u32) -> Lanes {
        let lanes = self.whole_value(e, bits);
        self.shortened(e, lanes)
    }

    /// [`Round::value`], however long it is.
    pub(super) fn whole_value(&mut self, e: &Expr, bits: u32) -> Lanes {
        if self.is_uniform(e) {
            return self.splat(e, Kind::Signed, bits);
        }
        if let Some(truth) = truth_of(e) {
            let mask = self.mask_of(truth, bits);
            let ones = mask.with(shifted(&mask, "vshr", &format!(", {}", bits - 1)));
            return ones.reinterpret(Kind::Signed);
        }
        let natural = self.natural(e);
        if bits > natural {
            let narrow = self.value(e, natural);
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
    pub(super) fn converted(&mut self, mut lanes: Lanes, bits: u32) -> Lanes {
        while lanes.bits > bits {
            lanes = self.short("wide", lanes).narrowed("vmovn");
        }
        while lanes.bits < bits {
            if !quad(lanes.bits, lanes.count).is_empty() {
                lanes = self.bind("narrow", &lanes);
            }
            lanes = lanes.widened();
        }
        lanes
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
        let fixed = !e.mentions(|l| self.inner.contains(&l))
            && (self.place.rounds().is_some() || !e.loads());
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

    /// What is the same in all rounds.
    pub(super) fn splat(&mut self, e: &Expr, kind: Kind, bits: u32) -> Lanes {
        let name = self.splatted(e, kind, bits, !quad(bits, self.count).is_empty());
        self.lanes(kind, bits, vec![name; part_count(bits, self.count)])
    }

    /// Halves of registers for a widening operation.
    fn half_registers(&mut self, e: &Expr, bits: u32) -> Vec<String> {
        if self.is_uniform(e) {
            let name = self.splatted(e, Kind::Signed, bits, false);
            return vec![name; self.count * bits as usize / 64];
        }
        let lanes = self.value(e, bits);
        let lanes =
            if quad(bits, self.count).is_empty() { lanes } else { self.bind("narrow", &lanes) };
        lanes.halves()
    }

    /// An integer that varies, in lanes of no more than its natural width.
    fn computed(&mut self, e: &Expr, bits: u32) -> Lanes {
        match &*e.node {
            Node::Local(local) if *local == self.plan.variable => self.counted(e, bits),
            Node::Local(local) => {
                let lanes = self.values[local].clone();
                self.converted(lanes, bits)
            }
            Node::Load(buffer, index) => {
                let lanes = self.load(*buffer, index);
                self.converted(lanes, bits).reinterpret(Kind::Signed)
            }
            Node::Unary(op, x) => self.unary(*op, x, bits),
            Node::Binary(op, a, b) => self.binary(e, *op, a, b, bits),
            Node::Select(c, a, b) => self.select(c, a, b, bits),
            Node::Integer(_) | Node::Float(_) | Node::Compare(..) => unreachable!("not planned"),
        }
    }

    /// The loop variable.
    fn counted(&mut self, e: &Expr, bits: u32) -> Lanes {
        let each = self.count / part_count(bits, self.count);
        let ty = vector_type(Kind::Signed, bits, self.count);
        let scalar = match bits {
            64 => self.scope.scalar(e),
            _ => format!("(int{bits}_t){}", self.scope.operand(e)),
        };
        let first = format!("vdup{}_n_s{bits}({scalar})", quad(bits, self.count));
        let mut ramps = Vec::new();
        for part in (0..self.count).step_by(each) {
            let name = format!("lane_{part}");
            let key = format!("{name} {ty}");
            let known = self.splats.iter().find(|(x, i, _)| x == e && *i == key);
            ramps.push(known.map(|(.., ramp)| ramp.clone()).unwrap_or_else(|| {
                let ramp = self.scope.fresh(&name);
                let numbers: Vec<String> = (part..part + each).map(|n| n.to_string()).collect();
                self.before.push(format!("const {ty} {ramp} = {{{}}};", numbers.join(", ")));
                self.splats.push((e.clone(), key, ramp.clone()));
                ramp
            }));
        }
        let first = self.lanes(Kind::Signed, bits, vec![first; ramps.len()]);
        first.zip("vadd", &first.with(ramps))
    }

    /// Whether a sum is of the loop variable's low bits and what is the same in all rounds.
    fn is_counted_from(&self, counter: &Expr, start: &Expr) -> bool {
        let counter = match &*counter.node {
            Node::Unary(Unary::Truncate, x) => x,
            _ => counter,
        };
        let of_words = start.ty == Scalar::I32 && self.is_uniform(start);
        of_words && matches!(&*counter.node, Node::Local(local) if *local == self.plan.variable)
    }

    fn unary(&mut self, op: Unary, x: &Expr, bits: u32) -> Lanes {
        match op {
            Unary::Negate => {
                let x = self.value(x, bits);
                if bits == 64 && self.is_armv7() {
                    let zero = self.splat(&Expr::i64(0), Kind::Signed, 64);
                    return zero.zip("vsub", &x);
                }
                x.map("vneg", "")
            }
            Unary::Extend | Unary::Truncate => self.value(x, bits),
            Unary::ExtendUnsigned if bits <= 32 || self.interval(x).0 >= 0 => self.value(x, bits),
            Unary::ExtendUnsigned => {
                let x = self.value(x, 32).reinterpret(Kind::Unsigned);
                self.converted(x, 64).reinterpret(Kind::Signed)
            }
            Unary::LeadingZeros | Unary::ToInteger | Unary::ToBits => {
                let x = match op {
                    Unary::LeadingZeros => self.value(x, 32).map("vclz", ""),
                    Unary::ToBits => self.float(x).reinterpret(Kind::Signed),
                    _ => self.float(x).called(Kind::Signed, "vcvtq_s32_f32"),
                };
                self.converted(x, bits)
            }
            _ => unreachable!("not planned"),
        }
    }

    fn binary(&mut self, e: &Expr, op: Binary, a: &Expr, b: &Expr, bits: u32) -> Lanes {
        match op {
            Binary::Add => {
                if let Some(sum) = self.shift_added(a, b, bits) {
                    return sum;
                }
                if bits == 32 && [(a, b), (b, a)].iter().any(|(a, b)| self.is_counted_from(a, b)) {
                    return self.counted(e, bits);
                }
                let (a, b) = if self.view().is_wide_product(a, bits) { (b, a) } else { (a, b) };
                if !self.is_uniform(a)
                    && !self.view().is_wide_product(b, bits)
                    && let Some(sum) = self.widening("add", a, b, bits)
                {
                    return sum;
                }
                let sum = self.value(a, bits);
                self.add(b, bits, sum)
            }
            Binary::Subtract if !self.is_uniform(a) => {
                self.widening("sub", a, b, bits).unwrap_or_else(|| self.zipped(op, a, b, bits))
            }
            Binary::Multiply => {
                if self.view().is_wide_product(e, bits) {
                    return self.wide_product(e, bits, None);
                }
                if bits == 64 {
                    let (a, b) = (self.half_registers(a, 32), self.half_registers(b, 32));
                    let unsigned = |p: &str| format!("vreinterpret_u32_s32({p})");
                    let product = |(a, b): (&String, &String)| {
                        format!("vmull_u32({}, {})", unsigned(a), unsigned(b))
                    };
                    let parts = a.iter().zip(&b).map(product).collect();
                    return self.lanes(Kind::Unsigned, 64, parts).reinterpret(Kind::Signed);
                }
                self.zipped(op, a, b, bits)
            }
            Binary::Subtract | Binary::And | Binary::Or | Binary::Xor => {
                self.zipped(op, a, b, bits)
            }
            Binary::Minimum | Binary::Maximum => {
                let view = self.view();
                if let Some(x) = view.without_limit(op, a, b) {
                    return self.value(x, bits);
                }
                if view.saturates(e, a, b, bits) {
                    return self.saturated_extremum(op, a, b, bits);
                }
                let both = view.natural(a).max(view.natural(b));
                let (a, b) = (self.value(a, both), self.value(b, both));
                let limited = self.extremum(op, a, b);
                self.converted(limited, bits)
            }
            Binary::ShiftLeft => {
                let x = self.value(a, bits);
                match b.as_constant() {
                    Some(0) => x,
                    Some(amount) if amount < i64::from(bits) => {
                        x.with(shifted(&x, "vshl", &format!(", {amount}")))
                    }
                    Some(_) => self.splat(&Expr::i32(0), Kind::Signed, bits),
                    None => x.zip("vshl", &self.value(b, bits)),
                }
            }
            Binary::ShiftRight | Binary::ShiftRightUnsigned => {
                let (width, unsigned) = self.view().right_shift(e, op, a);
                let kind = if unsigned { Kind::Unsigned } else { Kind::Signed };
                let x = self.value(a, width).reinterpret(kind);
                let shifted = match b.as_constant() {
                    Some(0) => x,
                    Some(16) if width == 32 && bits <= 16 && x.parts.len().is_multiple_of(2) => {
                        let x = self.short("wide", x);
                        return self.converted(x.upper_halves(), bits);
                    }
                    Some(amount) => {
                        let amount = amount.min(width.into());
                        x.with(shifted(&x, "vshr", &format!(", {amount}")))
                    }
                    None => {
                        let amount = self.value(&b.clone().unary(Unary::Negate), width);
                        x.zip("vshl", &amount)
                    }
                };
                self.converted(shifted.reinterpret(Kind::Signed), bits)
            }
            Binary::Divide | Binary::Remainder => unreachable!("not planned"),
        }
    }

    /// `a + (b >> n)` of lanes that are as wide as the shift's, which is one instruction.
    fn shift_added(&mut self, a: &Expr, b: &Expr, bits: u32) -> Option<Lanes> {
        let shift = |s: &Self, e: &Expr| {
            let Node::Binary(op @ (Binary::ShiftRight | Binary::ShiftRightUnsigned), x, amount) =
                &*e.node
            else {
                return None;
            };
            let amount = amount.as_constant().filter(|n| (1..=bits.into()).contains(n))?;
            let (width, unsigned) = s.view().right_shift(e, *op, x);
            let kind = if unsigned { Kind::Unsigned } else { Kind::Signed };
            let fits = width == bits && bits >= s.view().least && !s.is_uniform(x);
            fits.then(|| (x.clone(), amount, kind))
        };
        let found = shift(self, b).map(|found| (a, found));
        let (sum, (x, amount, kind)) = found.or_else(|| shift(self, a).map(|found| (b, found)))?;
        let sum = self.value(sum, bits).reinterpret(kind);
        let x = self.value(&x, bits).reinterpret(kind);
        let name = format!("vsra{}_n_{}", quad(bits, self.count), suffix(kind, bits));
        let pairs = sum.parts.iter().zip(&x.parts);
        let parts = pairs.map(|(sum, x)| format!("{name}({sum}, {x}, {amount})")).collect();
        Some(sum.with(parts).reinterpret(Kind::Signed))
    }

    /// An operation that is an instruction.
    fn zipped(&mut self, op: Binary, a: &Expr, b: &Expr, bits: u32) -> Lanes {
        let (a, b) = (self.value(a, bits), self.value(b, bits));
        a.zip(instruction(op), &b)
    }

    /// A sum or difference of narrower values in wide lanes; `None` if neither is narrow.
    fn widening(&mut self, name: &str, a: &Expr, b: &Expr, bits: u32) -> Option<Lanes> {
        let half = bits / 2;
        let fits =
            |s: &Self, e: &Expr| s.natural(e) <= half && !s.is_uniform(e) && truth_of(e).is_none();
        if half < self.view().least || !fits(self, b) {
            return None;
        }
        let long = fits(self, a);
        let left = if long { self.half_registers(a, half) } else { self.value(a, bits).parts };
        let right = self.half_registers(b, half);
        let name = format!("v{name}{}_s{half}", if long { "l" } else { "w" });
        let parts = left.iter().zip(&right).map(|(a, b)| format!("{name}({a}, {b})")).collect();
        Some(self.lanes(Kind::Signed, bits, parts))
    }

    /// A product of two values of half the width, added to `sum` if there is one.
    fn wide_product(&mut self, e: &Expr, bits: u32, sum: Option<Lanes>) -> Lanes {
        let Node::Binary(Binary::Multiply, a, b) = &*e.node else { unreachable!("a product") };
        let half = bits / 2;
        if let Some(lanes) = self.wide_product_of_registers(a, b, half, sum.as_ref()) {
            return lanes;
        }
        let (a, b) = (self.half_registers(a, half), self.half_registers(b, half));
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
        self.lanes(Kind::Signed, bits, parts)
    }

    /// The same of whole registers, whose upper halves AArch64 multiplies where they are.
    fn wide_product_of_registers(
        &mut self,
        a: &Expr,
        b: &Expr,
        half: u32,
        sum: Option<&Lanes>,
    ) -> Option<Lanes> {
        if self.is_armv7() || quad(half, self.count).is_empty() {
            return None;
        }
        let [a, b] = [a, b].map(|e| match self.is_uniform(e) {
            true => self.splat(e, Kind::Signed, half),
            false => {
                let lanes = self.value(e, half);
                self.bind("narrow", &lanes)
            }
        });
        let mut sums = sum.iter().flat_map(|sum| &sum.parts);
        let mut product = |upper: &str, operands: [String; 2]| {
            let [a, b] = operands;
            match sums.next() {
                None => format!("vmull{upper}_s{half}({a}, {b})"),
                Some(sum) => format!("vmlal{upper}_s{half}({sum}, {a}, {b})"),
            }
        };
        let mut parts = Vec::new();
        for (a, b) in a.parts.iter().zip(&b.parts) {
            let low = [a, b].map(|x| format!("vget_low_s{half}({x})"));
            parts.push(product("", low));
            parts.push(product("_high", [a.clone(), b.clone()]));
        }
        Some(self.lanes(Kind::Signed, 2 * half, parts))
    }

    /// `sum + e`.
    pub(super) fn add(&mut self, e: &Expr, bits: u32, sum: Lanes) -> Lanes {
        if self.view().is_wide_product(e, bits) {
            return self.wide_product(e, bits, Some(sum));
        }
        if let Some(truth) = truth_of(e).filter(|t| !self.is_uniform(t)) {
            // All ones are -1.
            let mask = self.mask_of(truth, bits).reinterpret(Kind::Signed);
            return sum.zip("vsub", &mask);
        }
        sum.zip("vadd", &self.value(e, bits))
    }

    /// The extremum of two values; of floats the second one where neither is less, which the instructions do not do.
    pub(super) fn extremum(&mut self, op: Binary, a: Lanes, b: Lanes) -> Lanes {
        if a.bits < 64 && a.kind != Kind::Float {
            return a.zip(instruction(op), &b);
        }
        let (a, b) = (self.bind("left", &a), self.bind("right", &b));
        let mask = a.zip(if op == Binary::Minimum { "vclt" } else { "vcgt" }, &b);
        chosen(&mask.parts, &a, &b)
    }

    /// The extremum of two values, one of which `bits` hold, as the nearest value that they hold.
    fn saturated_extremum(&mut self, op: Binary, a: &Expr, b: &Expr, bits: u32) -> Lanes {
        if let Some(x) = clamped(op, a, b, bits) {
            return self.saturated(x, bits);
        }
        let (a, b) = (self.saturated(a, bits), self.saturated(b, bits));
        self.extremum(op, a, b)
    }

    /// The nearest value that `bits` hold.
    fn saturated(&mut self, e: &Expr, bits: u32) -> Lanes {
        match (&*e.node, self.view().saturation(e, bits)) {
            (_, Saturation::None) => self.value(e, bits),
            (Node::Binary(op, a, b), Saturation::Extremum) => {
                self.saturated_extremum(*op, a, b, bits)
            }
            (Node::Binary(op, a, b), Saturation::Sum) => {
                let (a, b) = (self.value(a, bits), self.value(b, bits));
                a.zip(if *op == Binary::Add { "vqadd" } else { "vqsub" }, &b)
            }
            (_, Saturation::Rounding) => {
                let (x, amount) = self.view().rounding_shift(e, bits).expect("as planned");
                let lanes = self.value(x, 2 * bits);
                self.short("wide", lanes).narrowed_by("vqrshrn_n", &format!(", {amount}"))
            }
            _ => {
                let mut lanes = self.value(e, self.natural(e));
                while lanes.bits > bits {
                    lanes = self.short("wide", lanes).narrowed("vqmovn");
                }
                lanes
            }
        }
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr, bits: u32) -> Lanes {
        let view = self.view();
        let magnitude = magnitude_of(c, a, b, &view.known).map(|x| (x, bits.max(view.natural(x))));
        if let Some((x, width)) = magnitude
            && (width < 64 || !self.is_armv7())
        {
            let x = self.value(x, width).map("vabs", "");
            return self.converted(x, bits);
        }
        let mask = self.mask_of(c, bits);
        let zero = |e: &Expr| e.as_constant() == Some(0);
        if zero(b) {
            let a = self.value(a, bits);
            return a.zip("vand", &mask.reinterpret(Kind::Signed));
        }
        let (a, b) = (self.value(a, bits), self.value(b, bits));
        chosen(&mask.parts, &a, &b)
    }
}

/// The instruction of an operation whose operands are of the result's width, integers or truth values.
pub(super) fn instruction(op: Binary) -> &'static str {
    match op {
        Binary::Add => "vadd",
        Binary::Subtract => "vsub",
        Binary::Multiply => "vmul",
        Binary::Divide => "vdiv",
        Binary::Minimum => "vmin",
        Binary::Maximum => "vmax",
        Binary::And => "vand",
        Binary::Or => "vorr",
        Binary::Xor => "veor",
        _ => unreachable!("not planned"),
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
