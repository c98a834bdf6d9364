//! Scalar expressions of loop kernels as C.
//!
//! I32 and Bool print as `int32_t` (or `int`) expressions. An I64 prints as 32-bit arithmetic where every value on
//! the way provably fits, otherwise as `int64_t`. Arithmetic that may overflow calls the wrapping helpers of
//! `trainc_rt.h`; the rest is plain C.

use trainc_ir::loops::{Binary, Comparison, Expr, Local, LoopKernel, Node, Scalar, Unary};

use trainc_loops::{Intervals, all, exact, is_narrow, within};

use crate::syntax::Syntax;

/// Binding strength of C operators.
mod precedence {
    pub(super) const CONDITIONAL: u8 = 3;
    pub(super) const LOGICAL_OR: u8 = 4;
    pub(super) const LOGICAL_AND: u8 = 5;
    pub(super) const BIT: u8 = 6;
    pub(super) const EQUALITY: u8 = 9;
    pub(super) const RELATION: u8 = 10;
    pub(super) const SHIFT: u8 = 11;
    pub(super) const SUM: u8 = 12;
    pub(super) const PRODUCT: u8 = 13;
    pub(super) const UNARY: u8 = 14;
    pub(super) const PRIMARY: u8 = 16;
}
use precedence::*;

/// An expression's text.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    precedence: u8,
    /// Whether its C type is `int64_t`.
    pub(crate) wide: bool,
}

impl Text {
    fn new(text: impl Into<String>, precedence: u8, wide: bool) -> Text {
        Text { text: text.into(), precedence, wide }
    }

    /// In parentheses unless it binds at least as strongly.
    fn at_least(self, precedence: u8) -> String {
        if self.precedence >= precedence { self.text } else { format!("({})", self.text) }
    }

    /// As an operand of any operator.
    pub(crate) fn primary(self) -> String {
        self.at_least(PRIMARY)
    }

    /// As the right side of a comparison.
    pub(crate) fn compared(self) -> String {
        self.at_least(SHIFT)
    }

    /// Converted to a C type.
    pub(crate) fn cast(self, ty: &str) -> Text {
        let wide = matches!(ty, "int64_t" | "uint64_t");
        Text::new(format!("({ty}){}", self.at_least(UNARY)), UNARY, wide)
    }

    /// As an `int32_t`; the value fits, or its low bits are meant.
    pub(crate) fn narrowed(self) -> Text {
        if self.wide { self.cast("int32_t") } else { self }
    }
}

/// Prints the expressions of one kernel.
pub(crate) struct Expressions<'k> {
    pub(crate) kernel: &'k LoopKernel,
    pub(crate) intervals: &'k Intervals<'k>,
    /// Current name of each local.
    pub(crate) names: Vec<String>,
    /// The language, if it is not C.
    pub(crate) syntax: Option<&'k dyn Syntax>,
}

impl Expressions<'_> {
    /// Whether an I64 local is declared as `int32_t`.
    pub(crate) fn is_narrow(&self, local: Local) -> bool {
        is_narrow(self.intervals.local(local))
    }

    /// The C type of a local.
    pub(crate) fn local_type(&self, local: Local) -> &'static str {
        match self.kernel.locals[local.0 as usize].1 {
            Scalar::F32 => "float",
            Scalar::Bool => "int",
            Scalar::I32 => "int32_t",
            Scalar::I64 if self.is_narrow(local) => "int32_t",
            Scalar::I64 => "int64_t",
        }
    }

    /// An expression.
    pub(crate) fn print(&self, e: &Expr) -> Text {
        match &*e.node {
            Node::Integer(value) => integer(*value),
            Node::Float(value) => float(value.get()),
            Node::Local(local) => {
                let wide = e.ty == Scalar::I64 && !self.is_narrow(*local);
                Text::new(&self.names[local.0 as usize], PRIMARY, wide)
            }
            Node::Load(buffer, index) => {
                let parameter = &self.kernel.buffers[buffer.0 as usize];
                let text = format!("{}[{}]", parameter.name, self.print(index).text);
                let text = Text::new(text, PRIMARY, false);
                if parameter.element == trainc_ir::Element::U32 {
                    text.cast("int32_t")
                } else {
                    text
                }
            }
            Node::Unary(op, x) => self.unary(*op, x),
            Node::Binary(op, a, b) => self.binary(*op, a, b),
            Node::Compare(comparison, a, b) => self.compare(*comparison, a, b),
            Node::Select(condition, a, b) => {
                let (a, b) = (self.print(a), self.print(b));
                let wide = a.wide || b.wide;
                let text = format!(
                    "{} ? {} : {}",
                    self.print(condition).at_least(LOGICAL_OR),
                    a.at_least(LOGICAL_OR),
                    b.at_least(CONDITIONAL)
                );
                Text::new(text, CONDITIONAL, wide)
            }
        }
    }

    fn unary(&self, op: Unary, x: &Expr) -> Text {
        let interval = self.intervals.get(x);
        let text = self.print(x);
        let call = |name: &str| Text::new(format!("{name}({})", text.text), PRIMARY, false);
        match op {
            Unary::Negate if x.ty == Scalar::F32 => {
                Text::new(format!("-{}", guarded(&text)), UNARY, false)
            }
            Unary::Negate => {
                let negated = (-interval.1, -interval.0);
                if is_narrow(negated) || (text.wide && within(negated, all(x.ty))) {
                    Text::new(format!("-{}", guarded(&text)), UNARY, text.wide)
                } else if x.ty == Scalar::I32 {
                    call("trainc_negate32")
                } else {
                    Text { wide: true, ..call("trainc_negate64") }
                }
            }
            Unary::FloatAbs => call("trainc_absolute"),
            Unary::Sqrt => call("trainc_sqrt"),
            Unary::RoundTiesEven => call("trainc_round"),
            Unary::Floor => call("trainc_floor"),
            Unary::Ceil => call("trainc_ceil"),
            Unary::LeadingZeros => call("trainc_leading_zeros"),
            Unary::Extend => text,
            Unary::ExtendUnsigned if interval.0 >= 0 => text,
            Unary::ExtendUnsigned => text.cast("uint32_t").cast("int64_t"),
            Unary::Truncate => text.narrowed(),
            Unary::ToFloat => text.cast("float"),
            Unary::ToInteger => call("trainc_to_integer"),
            Unary::ToBits => call("trainc_bits"),
            Unary::FromBits => call("trainc_float"),
            Unary::Not => Text::new(format!("!{}", text.at_least(UNARY)), UNARY, false),
            // The operators that give a Bool give an int of 0 or 1.
            Unary::BoolToInteger => text,
        }
    }

    fn binary(&self, op: Binary, a: &Expr, b: &Expr) -> Text {
        match a.ty {
            Scalar::F32 => self.float_binary(op, a, b),
            Scalar::Bool => {
                let (symbol, level) = match op {
                    Binary::And => ("&&", LOGICAL_AND),
                    Binary::Or => ("||", LOGICAL_OR),
                    _ => ("!=", EQUALITY),
                };
                // Mixed logical operators, and comparisons of comparisons, keep their parentheses.
                let side = |e: &Expr| {
                    let text = self.print(e);
                    let same = text.precedence == level && op != Binary::Xor;
                    if same {
                        text.text
                    } else {
                        text.at_least(EQUALITY + u8::from(level == EQUALITY) * 2)
                    }
                };
                let (a, b) = (side(a), side(b));
                Text::new(format!("{a} {symbol} {b}"), level, false)
            }
            Scalar::I32 | Scalar::I64 => self.integer_binary(op, a, b),
        }
    }

    fn float_binary(&self, op: Binary, a: &Expr, b: &Expr) -> Text {
        let (a, b) = (self.print(a), self.print(b));
        let infix = |symbol: &str, level: u8| {
            let text =
                format!("{} {symbol} {}", a.clone().at_least(level), b.clone().at_least(level + 1));
            Text::new(text, level, false)
        };
        match op {
            Binary::Add => infix("+", SUM),
            Binary::Subtract => infix("-", SUM),
            Binary::Multiply => infix("*", PRODUCT),
            Binary::Divide => match self.syntax {
                Some(syntax) => Text::new(syntax.quotient(&a.text, &b.text), PRIMARY, false),
                None => infix("/", PRODUCT),
            },
            Binary::Minimum => call("trainc_minimum", &a, &b, false),
            Binary::Maximum => call("trainc_maximum", &a, &b, false),
            _ => unreachable!("{op:?} of floats, which loop kernels do not have"),
        }
    }

    fn integer_binary(&self, op: Binary, a: &Expr, b: &Expr) -> Text {
        let ty = a.ty;
        let bits = if ty == Scalar::I32 { "32" } else { "64" };
        let (of_a, of_b) = (self.intervals.get(a), self.intervals.get(b));
        let result = exact(op, ty, of_a, of_b);
        // Where nothing is known of a left shift, it may overflow; the bits of the others stay bits.
        let fits = result.map_or(op != Binary::ShiftLeft, |r| within(r, all(ty)));
        let result = result.unwrap_or(all(ty));
        let (left, right) = (self.print(a), self.print(b));
        let wide = ty == Scalar::I64;
        // Two 32-bit operands whose result needs 64 bits: one is widened first.
        let widened = || match wide && !is_narrow(result) && !left.wide && !right.wide {
            true => left.clone().cast("int64_t"),
            false => left.clone(),
        };
        let infix = |left: Text, symbol: &str, level: u8, least: u8, right: &Text| {
            let both = left.wide || right.wide;
            let (a, b) = (left.at_least(least), right.clone().at_least(least.max(level + 1)));
            Text::new(format!("{a} {symbol} {b}"), level, both)
        };
        let helper = |name: &str, left: &Text, right: &Text| {
            call(&format!("trainc_{name}{bits}"), left, right, wide)
        };
        match op {
            Binary::Add | Binary::Subtract if !fits => {
                helper(if op == Binary::Add { "add" } else { "subtract" }, &left, &right)
            }
            Binary::Multiply if !fits => helper("multiply", &left, &right),
            Binary::Add | Binary::Subtract => {
                let left = widened();
                match b.as_constant() {
                    Some(value) if value < 0 && value > i64::from(i32::MIN) => {
                        let symbol = if op == Binary::Add { "-" } else { "+" };
                        infix(left, symbol, SUM, SUM, &integer(-value))
                    }
                    _ => infix(left, if op == Binary::Add { "+" } else { "-" }, SUM, SUM, &right),
                }
            }
            Binary::Multiply => infix(widened(), "*", PRODUCT, PRODUCT, &right),
            Binary::Divide | Binary::Remainder => {
                let lowest = if left.wide || right.wide { all(ty).0 } else { i32::MIN.into() };
                let safe = !within((-1, -1), of_b) || of_a.0 > lowest;
                match op {
                    Binary::Divide if safe && fits => {
                        infix(widened(), "/", PRODUCT, PRODUCT, &right)
                    }
                    Binary::Remainder if safe => infix(left, "%", PRODUCT, PRODUCT, &right),
                    Binary::Divide => helper("divide", &left, &right),
                    _ => helper("remainder", &left, &right),
                }
            }
            Binary::Minimum | Binary::Maximum => {
                let name = if op == Binary::Minimum { "minimum" } else { "maximum" };
                let both = left.wide || right.wide;
                call(&format!("trainc_{name}{}", if both { 64 } else { 32 }), &left, &right, both)
            }
            Binary::And => infix(left, "&", BIT, UNARY, &right),
            Binary::Or => infix(left, "|", BIT, UNARY, &right),
            Binary::Xor => infix(left, "^", BIT, UNARY, &right),
            // A 32-bit left operand takes amounts below 32 only.
            Binary::ShiftLeft if fits && of_a.0 >= 0 => {
                let grows = wide && !left.wide && (!is_narrow(result) || of_b.1 > 31);
                shift(if grows { left.cast("int64_t") } else { left }, "<<", &right)
            }
            Binary::ShiftLeft => helper("shift_left", &left, &right),
            Binary::ShiftRightUnsigned if of_a.0 < 0 => {
                helper("shift_right_unsigned", &left, &right)
            }
            Binary::ShiftRight | Binary::ShiftRightUnsigned => {
                let grows = wide && !left.wide && of_b.1 > 31;
                shift(if grows { left.cast("int64_t") } else { left }, ">>", &right)
            }
        }
    }

    fn compare(&self, comparison: Comparison, a: &Expr, b: &Expr) -> Text {
        let unsigned = comparison == Comparison::LessUnsigned
            && (self.intervals.get(a).0 < 0 || self.intervals.get(b).0 < 0);
        let (symbol, level) = match comparison {
            Comparison::Equal => ("==", EQUALITY),
            Comparison::NotEqual => ("!=", EQUALITY),
            Comparison::Less | Comparison::LessUnsigned => ("<", RELATION),
            Comparison::LessEqual => ("<=", RELATION),
        };
        let ty = if a.ty == Scalar::I64 { "uint64_t" } else { "uint32_t" };
        let side = |e: &Expr| {
            let text = self.print(e);
            let text = if unsigned { text.cast(ty) } else { text };
            text.at_least(SHIFT)
        };
        Text::new(format!("{} {symbol} {}", side(a), side(b)), level, false)
    }
}

/// An operand of a minus sign.
fn guarded(text: &Text) -> String {
    let inner = text.clone().at_least(UNARY);
    if inner.starts_with('-') { format!("({inner})") } else { inner }
}

fn shift(left: Text, symbol: &str, right: &Text) -> Text {
    let wide = left.wide;
    let text = format!("{} {symbol} {}", left.at_least(UNARY), right.clone().at_least(UNARY));
    Text::new(text, SHIFT, wide)
}

fn call(name: &str, a: &Text, b: &Text, wide: bool) -> Text {
    Text::new(format!("{name}({}, {})", a.text, b.text), PRIMARY, wide)
}

fn integer(value: i64) -> Text {
    let level = if value < 0 { UNARY } else { PRIMARY };
    match value {
        i64::MIN => Text::new("INT64_MIN", PRIMARY, true),
        _ if value == i64::from(i32::MIN) => Text::new("INT32_MIN", PRIMARY, false),
        _ if i32::try_from(value).is_ok() => Text::new(value.to_string(), level, false),
        _ if value < 0 => Text::new(format!("-INT64_C({})", -value), UNARY, true),
        _ => Text::new(format!("INT64_C({value})"), PRIMARY, true),
    }
}

/// Decimal where that is short and exact, else hexadecimal.
fn float(value: f32) -> Text {
    let bits = value.to_bits();
    if !value.is_finite() {
        return Text::new(
            format!("trainc_float({})", integer(i64::from(bits as i32)).text),
            PRIMARY,
            false,
        );
    }
    let level = if value.is_sign_negative() { UNARY } else { PRIMARY };
    if value.abs() < 65536.0 && (value * 256.0).fract() == 0.0 {
        return Text::new(format!("{value:?}f"), level, false);
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32, bits & 0x7f_ffff);
    let digits = format!("{:06x}", fraction << 1);
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let (lead, power) = if exponent == 0 { (0, -126) } else { (1, exponent - 127) };
    Text::new(format!("{sign}0x{lead}{point}{digits}p{power:+}f"), level, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants() {
        for (value, expected) in [
            (0.5, "0.5f"),
            (-0.0, "-0.0f"),
            (3.0, "3.0f"),
            (0.1, "0x1.99999ap-4f"),
            (-1e30, "-0x1.93e594p+99f"),
            (f32::MIN_POSITIVE, "0x1p-126f"),
            (f32::from_bits(1), "0x0.000002p-126f"),
            (f32::INFINITY, "trainc_float(2139095040)"),
        ] {
            assert_eq!(float(value).text, expected);
        }
        for (value, expected) in [
            (-5, "-5"),
            (i64::from(i32::MIN), "INT32_MIN"),
            (1 << 31, "INT64_C(2147483648)"),
            (-(1 << 40), "-INT64_C(1099511627776)"),
            (i64::MIN, "INT64_MIN"),
        ] {
            assert_eq!(integer(value).text, expected);
        }
    }
}
