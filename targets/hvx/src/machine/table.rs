//! The facts of one instruction: form, operands, unit, first version.

use super::registers::{Class, Version};

/// How an instruction treats an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written, old value irrelevant.
    Define,
    /// Read.
    Use,
    /// Read and written.
    Update,
}

impl Role {
    /// Whether the operand's old value is read.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Define
    }

    /// Whether the operand is written.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Use
    }
}

/// What an operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A register.
    Register {
        /// Its class.
        class: Class,
        /// Only r0..r7 can be named.
        low: bool,
    },
    /// A number.
    Immediate {
        /// Whether it has a sign.
        signed: bool,
        /// Bits of the field.
        bits: u32,
        /// Low zero bits that the field does not store.
        scale: u32,
        /// Whether a constant extender makes it a free 32-bit number (or a symbol's address).
        extendable: bool,
    },
}

/// One operand in a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// How it is treated.
    pub role: Role,
    /// What it may be.
    pub kind: Kind,
}

/// Where an instruction executes: its slots, its share of HVX, and its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Scalar arithmetic in any slot.
    Alu32,
    /// Scalar pair arithmetic, shifts, bit counts: slots 2 and 3.
    Xtype,
    /// Scalar multiplication: slots 2 and 3.
    Multiply,
    /// Scalar binary32: slots 2 and 3.
    Float,
    /// Logic of predicates: slots 2 and 3.
    Predicate,
    /// Transfer to or from a control register: slot 3.
    Control,
    /// Set-up of a hardware loop: slot 3.
    Loop,
    /// Direct jump or call: slots 2 and 3.
    Jump,
    /// Jump to a register: slot 2.
    JumpRegister,
    /// Scalar load: slots 0 and 1.
    Load,
    /// Scalar store: slots 0 and 1.
    Store,
    /// Frame set-up: slot 0, memory.
    Frame,
    /// Vector arithmetic: any slot, any one HVX lane.
    VectorAlu,
    /// Vector arithmetic on pairs: any slot, two neighbouring lanes.
    VectorAluPair,
    /// Vector multiplication on one multiplier: slots 2 and 3.
    VectorMultiply,
    /// Vector multiplication on both multipliers: slots 2 and 3.
    VectorMultiplyPair,
    /// As [`Self::VectorMultiplyPair`] before v69, as [`Self::VectorMultiply`] since.
    VectorMultiplyWide,
    /// Vector shift: any slot.
    VectorShift,
    /// Vector permutation: any slot.
    VectorPermute,
    /// Permutation that takes the shifter too: any slot.
    VectorPermuteShift,
    /// Aligned vector load: slots 0 and 1, any lane.
    VectorLoad,
    /// Unaligned vector load: both memory slots, permuter.
    VectorLoadUnaligned,
    /// Aligned vector store: slot 0, any lane.
    VectorStore,
    /// Unaligned vector store: both memory slots, permuter.
    VectorStoreUnaligned,
    /// Read of a vector's word into a scalar: alone in its packet.
    Extract,
}

impl Unit {
    /// Whether this is an HVX unit.
    #[must_use]
    pub fn is_vector(self) -> bool {
        self >= Self::VectorAlu
    }
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Reads.
    Load,
    /// Writes.
    Store,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Assembly form: `{n}` stands for operand n.
    pub form: &'static str,
    /// Operands in the order of the form's numbers.
    pub fields: &'static [Field],
    /// Where it executes.
    pub unit: Unit,
    /// First version that has it.
    pub since: Version,
}

impl Row {
    /// What it does to memory.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self.unit {
            Unit::Load | Unit::VectorLoad | Unit::VectorLoadUnaligned => Effect::Load,
            Unit::Store | Unit::VectorStore | Unit::VectorStoreUnaligned | Unit::Frame => {
                Effect::Store
            }
            _ => Effect::None,
        }
    }
}

/// Roles and kinds under the short names of the table.
#[allow(
    missing_docs,
    non_upper_case_globals,
    reason = "short names keep a row of the table on a line"
)]
pub(crate) mod short {
    use super::{Class, Kind, Role};

    pub(crate) const d: Role = Role::Define;
    pub(crate) const u: Role = Role::Use;
    pub(crate) const x: Role = Role::Update;

    const fn register(class: Class) -> Kind {
        Kind::Register { class, low: false }
    }
    pub(crate) const R: Kind = register(Class::R);
    pub(crate) const RR: Kind = register(Class::RR);
    pub(crate) const P: Kind = register(Class::P);
    pub(crate) const V: Kind = register(Class::V);
    pub(crate) const VV: Kind = register(Class::VV);
    pub(crate) const Q: Kind = register(Class::Q);
    pub(crate) const M: Kind = register(Class::M);
    /// r0..r7.
    pub(crate) const R8: Kind = Kind::Register { class: Class::R, low: true };

    const fn signed(bits: u32, scale: u32) -> Kind {
        Kind::Immediate { signed: true, bits, scale, extendable: false }
    }
    const fn unsigned(bits: u32) -> Kind {
        Kind::Immediate { signed: false, bits, scale: 0, extendable: false }
    }
    const fn extended(signed: bool, bits: u32, scale: u32) -> Kind {
        Kind::Immediate { signed, bits, scale, extendable: true }
    }
    /// Extendable forms end in X; `S11_2` is 11 bits of a multiple of 4.
    pub(crate) const S8X: Kind = extended(true, 8, 0);
    pub(crate) const S10X: Kind = extended(true, 10, 0);
    pub(crate) const S16X: Kind = extended(true, 16, 0);
    pub(crate) const U8X: Kind = extended(false, 8, 0);
    pub(crate) const U9X: Kind = extended(false, 9, 0);
    pub(crate) const U6X: Kind = extended(false, 6, 0);
    pub(crate) const S11_0: Kind = extended(true, 11, 0);
    pub(crate) const S11_1: Kind = extended(true, 11, 1);
    pub(crate) const S11_2: Kind = extended(true, 11, 2);
    pub(crate) const S11_3: Kind = extended(true, 11, 3);
    pub(crate) const U6_0: Kind = extended(false, 6, 0);
    pub(crate) const U6_2: Kind = extended(false, 6, 2);
    pub(crate) const S8: Kind = signed(8, 0);
    pub(crate) const S4_0: Kind = signed(4, 0);
    pub(crate) const S4_1: Kind = signed(4, 1);
    pub(crate) const S4_2: Kind = signed(4, 2);
    pub(crate) const S4_3: Kind = signed(4, 3);
    pub(crate) const S3: Kind = signed(3, 0);
    pub(crate) const U1: Kind = unsigned(1);
    pub(crate) const U2: Kind = unsigned(2);
    pub(crate) const U3: Kind = unsigned(3);
    pub(crate) const U5: Kind = unsigned(5);
    pub(crate) const U6: Kind = unsigned(6);
    pub(crate) const U10: Kind = unsigned(10);
    /// Multiple of 8 in 11 bits.
    pub(crate) const U11_3: Kind =
        Kind::Immediate { signed: false, bits: 11, scale: 3, extendable: false };
}
