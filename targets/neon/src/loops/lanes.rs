//! Vectors of lanes as C expressions, and the names of intrinsics.

/// What the bits of a lane are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The low bits of an integer.
    Signed,
    /// Elements of an unsigned buffer, or a truth value: all ones or all zeros.
    Unsigned,
    /// Binary32.
    Float,
}

/// The value of an expression in the rounds that run at a time, one a lane: one vector or several, the first rounds
/// first. A single vector may be half a register.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Lanes {
    pub(crate) kind: Kind,
    /// Bits of a lane.
    pub(crate) bits: u32,
    /// Lanes of all parts.
    pub(crate) count: usize,
    /// An expression for each vector.
    pub(crate) parts: Vec<String>,
}

/// Vectors that lanes take.
pub(crate) fn part_count(bits: u32, count: usize) -> usize {
    (bits as usize * count).div_ceil(128)
}

/// The name of part `n` of several.
pub(crate) fn part_name(name: &str, n: usize) -> String {
    format!("{name}_{}", char::from(b'a' + n as u8))
}

/// The type of a vector of some lanes, such as `int8x16_t`.
pub(crate) fn vector_type(kind: Kind, bits: u32, count: usize) -> String {
    let name = match kind {
        Kind::Signed => "int",
        Kind::Unsigned => "uint",
        Kind::Float => "float",
    };
    let each = count / part_count(bits, count);
    format!("{name}{bits}x{each}_t")
}

/// `s8`, `u16`, `f32`.
pub(crate) fn suffix(kind: Kind, bits: u32) -> String {
    let letter = match kind {
        Kind::Signed => 's',
        Kind::Unsigned => 'u',
        Kind::Float => 'f',
    };
    format!("{letter}{bits}")
}

/// `q` for whole registers.
pub(crate) fn quad(bits: u32, count: usize) -> &'static str {
    if bits as usize * count >= 128 { "q" } else { "" }
}

impl Lanes {
    pub(crate) fn new(kind: Kind, bits: u32, count: usize, parts: Vec<String>) -> Lanes {
        debug_assert_eq!(parts.len(), part_count(bits, count));
        Lanes { kind, bits, count, parts }
    }

    /// The type of each part.
    pub(crate) fn ty(&self) -> String {
        vector_type(self.kind, self.bits, self.count)
    }

    /// The intrinsic of an operation on such vectors.
    pub(crate) fn intrinsic(&self, operation: &str) -> String {
        format!("{operation}{}_{}", quad(self.bits, self.count), suffix(self.kind, self.bits))
    }

    /// The same type with other parts.
    pub(crate) fn with(&self, parts: Vec<String>) -> Lanes {
        Lanes { parts, ..self.clone() }
    }

    /// `operation(part, arguments)` of each part.
    pub(crate) fn map(&self, operation: &str, arguments: &str) -> Lanes {
        let name = self.intrinsic(operation);
        self.with(self.parts.iter().map(|p| format!("{name}({p}{arguments})")).collect())
    }

    /// `function(part)` as lanes of another kind.
    pub(crate) fn called(&self, kind: Kind, function: &str) -> Lanes {
        let parts = self.parts.iter().map(|p| format!("{function}({p})")).collect();
        Lanes { kind, parts, ..*self }
    }

    /// `operation(part, part of other)`.
    pub(crate) fn zip(&self, operation: &str, other: &Lanes) -> Lanes {
        debug_assert_eq!((self.bits, self.parts.len()), (other.bits, other.parts.len()));
        let name = self.intrinsic(operation);
        let pairs = self.parts.iter().zip(&other.parts);
        self.with(pairs.map(|(a, b)| format!("{name}({a}, {b})")).collect())
    }

    /// The same bits as another kind of lanes.
    pub(crate) fn reinterpret(&self, kind: Kind) -> Lanes {
        self.reinterpret_as(kind, self.bits)
    }

    /// The same bits as lanes of another width; only to use their bits.
    pub(crate) fn reinterpret_as(&self, kind: Kind, bits: u32) -> Lanes {
        if (kind, bits) == (self.kind, self.bits) {
            return self.clone();
        }
        let quad = quad(self.bits, self.count);
        let (from, to) = (suffix(self.kind, self.bits), suffix(kind, bits));
        let back = format!("vreinterpret{quad}_{from}_{to}(");
        let name = format!("vreinterpret{quad}_{to}_{from}");
        let cast = |p: &String| match p.strip_prefix(&back).and_then(|p| p.strip_suffix(')')) {
            // There and back; the parenthesis is the call's own if none closes before it.
            Some(inner) if is_balanced(inner) => inner.to_string(),
            _ => format!("{name}({p})"),
        };
        let parts = self.parts.iter().map(cast).collect();
        let count = self.count * self.bits as usize / bits as usize;
        Lanes { kind, bits, count, parts }
    }

    /// Halves of whole registers: the low and the high one of each part, or the part that is half a register.
    pub(crate) fn halves(&self) -> Vec<String> {
        if quad(self.bits, self.count).is_empty() {
            return self.parts.clone();
        }
        let suffix = suffix(self.kind, self.bits);
        let halves =
            |p: &String| [format!("vget_low_{suffix}({p})"), format!("vget_high_{suffix}({p})")];
        self.parts.iter().flat_map(halves).collect()
    }

    /// Lanes of twice the width, of the same values.
    pub(crate) fn widened(&self) -> Lanes {
        let suffix = suffix(self.kind, self.bits);
        let parts = self.halves().iter().map(|half| format!("vmovl_{suffix}({half})")).collect();
        Lanes::new(self.kind, 2 * self.bits, self.count, parts)
    }

    /// Lanes of half the width: the low bits (`vmovn`), or the values as far as they fit (`vqmovn`).
    pub(crate) fn narrowed(&self, operation: &str) -> Lanes {
        self.narrowed_by(operation, "")
    }

    /// Lanes of half the width, by an operation with further arguments.
    pub(crate) fn narrowed_by(&self, operation: &str, arguments: &str) -> Lanes {
        let (from, to) = (suffix(self.kind, self.bits), suffix(self.kind, self.bits / 2));
        let halves: Vec<String> =
            self.parts.iter().map(|p| format!("{operation}_{from}({p}{arguments})")).collect();
        let parts = match &halves[..] {
            [half] => vec![half.clone()],
            _ => halves
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[low, high]| format!("vcombine_{to}({low}, {high})"))
                .collect(),
        };
        Lanes::new(self.kind, self.bits / 2, self.count, parts)
    }

    /// The upper halves of words, those of two vectors in one. There must be an even number of vectors.
    pub(crate) fn upper_halves(&self) -> Lanes {
        let halves = self.reinterpret_as(Kind::Signed, self.bits / 2);
        let name = halves.intrinsic("vuzp");
        let pairs = halves.parts.as_chunks::<2>().0.iter();
        let parts = pairs.map(|[low, high]| format!("{name}({low}, {high}).val[1]")).collect();
        Lanes::new(Kind::Signed, self.bits / 2, self.count, parts)
    }

    /// Whether each part is a variable or a member of one.
    pub(crate) fn is_named(&self) -> bool {
        let named = |c: char| c.is_ascii_alphanumeric() || "_.[]".contains(c);
        self.parts.iter().all(|p| p.chars().all(named))
    }
}

fn is_balanced(text: &str) -> bool {
    let mut depth = 0i32;
    for c in text.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_change_by_halves() {
        let bytes = Lanes::new(Kind::Signed, 8, 16, vec!["x".into()]);
        let words = bytes.widened();
        assert_eq!(words.parts, ["vmovl_s8(vget_low_s8(x))", "vmovl_s8(vget_high_s8(x))"]);
        assert_eq!((words.ty(), bytes.ty()), ("int16x8_t".into(), "int8x16_t".into()));
        let pair = words.with(vec!["a".into(), "b".into()]);
        assert_eq!(pair.narrowed("vmovn").parts, ["vcombine_s8(vmovn_s16(a), vmovn_s16(b))"]);
        let half = Lanes::new(Kind::Signed, 8, 8, vec!["h".into()]);
        assert_eq!((half.ty(), half.intrinsic("vadd")), ("int8x8_t".into(), "vadd_s8".into()));
        assert_eq!(half.widened().parts, ["vmovl_s8(h)"]);
        assert_eq!(half.widened().narrowed("vqmovn").parts, ["vqmovn_s16(vmovl_s8(h))"]);
    }

    #[test]
    fn there_and_back_is_nothing() {
        let x = Lanes::new(Kind::Signed, 32, 4, vec!["f(x)".into()]);
        let there = x.reinterpret(Kind::Float);
        assert_eq!(there.parts, ["vreinterpretq_f32_s32(f(x))"]);
        assert_eq!(there.reinterpret(Kind::Signed), x);
    }
}
