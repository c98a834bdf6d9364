//! Register classes, virtual and fixed registers, halves of pairs, and versions of the architecture.

use std::fmt;

/// A version of the architecture, scalar core and HVX alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Hexagon v62.
    V62,
    /// Hexagon v65.
    V65,
    /// Hexagon v66.
    V66,
    /// Hexagon v67 (HVX as in v66).
    V67,
    /// Hexagon v68.
    V68,
    /// Hexagon v69.
    V69,
    /// Hexagon v71.
    V71,
    /// Hexagon v73.
    V73,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 8] =
        [Self::V62, Self::V65, Self::V66, Self::V67, Self::V68, Self::V69, Self::V71, Self::V73];

    /// The number in the version's name, for example 66.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::V62 => 62,
            Self::V65 => 65,
            Self::V66 => 66,
            Self::V67 => 67,
            Self::V68 => 68,
            Self::V69 => 69,
            Self::V71 => 71,
            Self::V73 => 73,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}

/// A class of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// 32-bit scalar, r0..r31.
    R,
    /// 64-bit pair of scalars, r1:0..r31:30.
    RR,
    /// Scalar predicate of 8 bits, p0..p3.
    P,
    /// Vector of 128 bytes, v0..v31.
    V,
    /// Pair of vectors, v1:0..v31:30.
    VV,
    /// Vector predicate of 128 bits, one a byte lane, q0..q3.
    Q,
    /// Modifier: the step of a post-increment, m0 and m1.
    M,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 7] = [Self::R, Self::RR, Self::P, Self::V, Self::VV, Self::Q, Self::M];

    /// The class of one half of a pair; other classes are their own half.
    #[must_use]
    pub fn half(self) -> Class {
        match self {
            Self::RR => Self::R,
            Self::VV => Self::V,
            other => other,
        }
    }

    /// Whether registers of the class are two halves.
    #[must_use]
    pub fn is_pair(self) -> bool {
        matches!(self, Self::RR | Self::VV)
    }

    /// Registers of one half's class in the register file.
    #[must_use]
    pub fn file(self) -> u32 {
        match self.half() {
            Self::R | Self::V => 32,
            Self::P | Self::Q => 4,
            _ => 2,
        }
    }

    /// Bytes of a value in the evaluator's register file (a predicate of either kind is one byte a bit lane).
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::P => 1,
            Self::R | Self::M => 4,
            Self::RR => 8,
            Self::V | Self::Q => 128,
            Self::VV => 256,
        }
    }
}

/// Which part of the register is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All of it.
    Whole,
    /// The low half of a virtual pair (the even register).
    Low,
    /// The high half of a virtual pair (the odd register).
    High,
}

/// A register operand: virtual until allocation, or fixed to a place in the register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register {
    pub(crate) number: u32,
    pub(crate) class: Class,
    pub(crate) part: Part,
    pub(crate) fixed: bool,
}

impl Register {
    /// A register of the register file: `r5` is `(Class::R, 5)`, `v3:2` is `(Class::VV, 2)`.
    #[must_use]
    pub const fn fixed(class: Class, number: u32) -> Self {
        Self { number, class, part: Part::Whole, fixed: true }
    }

    /// The virtual register with this index.
    pub(crate) const fn virtual_of(class: Class, number: u32) -> Self {
        Self { number, class, part: Part::Whole, fixed: false }
    }

    /// The class that an instruction sees: a half of a pair is a single register.
    #[must_use]
    pub fn class(self) -> Class {
        if self.part == Part::Whole { self.class } else { self.class.half() }
    }

    /// The low (even) half of a pair; any other register is itself.
    #[must_use]
    pub fn low(self) -> Self {
        self.take(Part::Low)
    }

    /// The high (odd) half of a pair; any other register is itself.
    #[must_use]
    pub fn high(self) -> Self {
        self.take(Part::High)
    }

    fn take(self, part: Part) -> Self {
        if !self.class.is_pair() || self.part != Part::Whole {
            self
        } else if self.fixed {
            let number = self.number + u32::from(part == Part::High);
            Self { number, class: self.class.half(), ..self }
        } else {
            Self { part, ..self }
        }
    }

    /// Whether this is a place in the register file.
    #[must_use]
    pub fn is_fixed(self) -> bool {
        self.fixed
    }

    /// Index of the virtual register, or number of the fixed one.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// The single registers that this operand covers: keys that are equal where storage is shared.
    #[must_use]
    pub fn units(self) -> Units {
        let first = if self.fixed {
            let base = match self.class.half() {
                Class::R => 0,
                Class::V => 32,
                Class::P => 64,
                Class::Q => 68,
                _ => 72,
            };
            base + self.number
        } else {
            FIRST_VIRTUAL_UNIT + 2 * self.number + u32::from(self.part == Part::High)
        };
        Units { next: first, end: first + 1 + u32::from(self.class().is_pair()) }
    }
}

/// First unit key of virtual registers; those of fixed ones lie below.
pub(crate) const FIRST_VIRTUAL_UNIT: u32 = 128;

/// The single registers of an operand; see [`Register::units`].
#[derive(Clone, Copy, Debug)]
pub struct Units {
    next: u32,
    end: u32,
}

impl Iterator for Units {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        (self.next < self.end).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

impl fmt::Display for Register {
    /// `r5`, `r5:4`, `p0`, `v3:2`; virtual ones as `%r5`, `%vv7.low`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.class.half() {
            Class::R => "r",
            Class::V => "v",
            Class::P => "p",
            Class::Q => "q",
            _ => "m",
        };
        if self.fixed {
            return match self.class.is_pair() {
                true => write!(f, "{letter}{}:{}", self.number + 1, self.number),
                false => write!(f, "{letter}{}", self.number),
            };
        }
        let double = if self.class.is_pair() { letter } else { "" };
        let part = match self.part {
            Part::Whole => "",
            Part::Low => ".low",
            Part::High => ".high",
        };
        write!(f, "%{letter}{double}{}{part}", self.number)
    }
}

/// Registers that hold arguments: r0..r5; further ones lie on the caller's stack.
pub const ARGUMENT_REGISTERS: u32 = 6;
/// First register that a function must give back unchanged.
pub const FIRST_CALLEE_SAVED: u32 = 16;
/// Last register that a function must give back unchanged.
pub const LAST_CALLEE_SAVED: u32 = 27;
/// Kept free of values for addresses of spilled vectors.
pub const SCRATCH: Register = Register::fixed(Class::R, 28);
/// Stack pointer.
pub const STACK_POINTER: Register = Register::fixed(Class::R, 29);
/// Frame pointer.
pub const FRAME_POINTER: Register = Register::fixed(Class::R, 30);
/// Return address.
pub const LINK: Register = Register::fixed(Class::R, 31);
