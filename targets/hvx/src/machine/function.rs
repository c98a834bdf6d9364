//! Structured machine code: straight runs of instructions, counted loops, branches, calls.

use std::fmt;
use std::rc::Rc;

use super::instructions::Opcode;
use super::registers::{Class, Register};
use super::table::{Effect, Kind, Role};

/// A disjoint piece of memory, as the dependence analysis sees it: accesses to different objects never touch the same
/// byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(pub(crate) u32);

impl Object {
    /// Memory about which nothing is known; may overlap with any object.
    pub const ANY: Object = Object(0);
}

/// The bytes that a load or store may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub object: Object,
    /// Promise: within the object, what one round of the innermost loop touches, no other round touches (through
    /// accesses that carry the promise too). Lets rounds overlap when a buffer is updated in place.
    pub rounds_disjoint: bool,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A number; see [`Kind::Immediate`] for its unit.
    Immediate(i32),
    /// The address of a label or symbol plus an offset in bytes; always extended.
    Symbol(Rc<str>, i32),
}

impl Operand {
    /// The register, if it is one.
    #[must_use]
    pub fn register(&self) -> Option<Register> {
        match self {
            Self::Register(r) => Some(*r),
            _ => None,
        }
    }
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Immediate(number)
    }
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Which.
    pub opcode: Opcode,
    /// Operands in the order of the form's numbers.
    pub operands: Vec<Operand>,
    /// What a load or store touches.
    pub access: Option<Access>,
    /// Printed at its packet.
    pub comment: Option<Rc<str>>,
}

impl Instruction {
    /// An instruction without access or comment.
    #[must_use]
    pub fn new(opcode: Opcode, operands: Vec<Operand>) -> Self {
        Self { opcode, operands, access: None, comment: None }
    }

    /// Register operands with their index and role.
    pub fn registers(&self) -> impl Iterator<Item = (usize, Role, Register)> {
        let fields = self.opcode.row().fields;
        self.operands
            .iter()
            .zip(fields)
            .enumerate()
            .filter_map(|(i, (operand, field))| Some((i, field.role, operand.register()?)))
    }

    /// Registers whose old value is read.
    pub fn reads(&self) -> impl Iterator<Item = Register> {
        self.registers().filter(|(_, role, _)| role.reads()).map(|(_, _, r)| r)
    }

    /// Registers that are written.
    pub fn writes(&self) -> impl Iterator<Item = Register> {
        self.registers().filter(|(_, role, _)| role.writes()).map(|(_, _, r)| r)
    }

    /// Whether it and another one must stay in their order.
    pub(crate) fn meets(&self, other: &Instruction) -> bool {
        let share = |x: Register, y: Register| x.units().any(|u| y.units().any(|v| u == v));
        let feeds = |from: &Instruction, to: &Instruction| {
            from.writes().any(|x| to.registers().any(|(_, _, y)| share(x, y)))
        };
        let stores = self.effect() == Effect::Store || other.effect() == Effect::Store;
        feeds(self, other) || feeds(other, self) || stores
    }

    /// What it does to memory.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.opcode.row().effect()
    }

    /// Whether a constant extender goes before it (one more word of the packet).
    #[must_use]
    pub fn is_extended(&self) -> bool {
        self.operands.iter().zip(self.opcode.row().fields).any(|(operand, field)| {
            let Kind::Immediate { signed, bits, scale, extendable } = field.kind else {
                return false;
            };
            match operand {
                Operand::Register(_) => false,
                // A loop's start may lie out of the field's reach: the assembler then needs room for an extender.
                Operand::Symbol(..) => {
                    !self.is_branch() || self.opcode.row().unit == super::table::Unit::Loop
                }
                Operand::Immediate(n) => extendable && !in_field(*n, signed, bits, scale),
            }
        })
    }

    /// Whether it may change the flow of control.
    #[must_use]
    pub fn is_branch(&self) -> bool {
        use super::table::Unit;
        matches!(self.opcode.row().unit, Unit::Jump | Unit::JumpRegister | Unit::Loop)
    }

    /// Checks count, classes and ranges of the operands.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        let row = self.opcode.row();
        if self.operands.len() != row.fields.len() {
            return Err(format!(
                "{:?} takes {} operands, not {}",
                self.opcode,
                row.fields.len(),
                self.operands.len()
            ));
        }
        for (index, (operand, field)) in self.operands.iter().zip(row.fields).enumerate() {
            let good = match (operand, field.kind) {
                (Operand::Register(r), Kind::Register { class, low }) => {
                    r.class() == class && !(low && r.fixed && r.number > 7)
                }
                (Operand::Immediate(n), Kind::Immediate { signed, bits, scale, extendable }) => {
                    extendable || in_field(*n, signed, bits, scale)
                }
                (Operand::Symbol(..), Kind::Immediate { extendable, .. }) => extendable,
                _ => false,
            };
            if !good {
                return Err(format!("operand {index} of {:?} cannot be {operand:?}", self.opcode));
            }
        }
        let mut written: Vec<u32> = self.writes().flat_map(Register::units).collect();
        let count = written.len();
        written.sort_unstable();
        written.dedup();
        if written.len() != count {
            return Err(format!("{:?} writes a register twice", self.opcode));
        }
        Ok(())
    }
}

/// Whether a number fits an immediate field without an extender.
#[must_use]
pub fn in_field(number: i32, signed: bool, bits: u32, scale: u32) -> bool {
    let number = i64::from(number);
    let aligned = number % (1 << scale) == 0;
    let (low, high) = match signed {
        true => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
        false => (0, (1i64 << bits) - 1),
    };
    aligned && (low << scale) <= number && number <= (high << scale)
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This often; at least 1.
    Constant(u32),
    /// As often as the 32-bit register says on entry; the code must ensure that this is at least 1 (signed).
    Register(Register),
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self::Constant(count)
    }
}

impl From<Register> for Count {
    fn from(count: Register) -> Self {
        Self::Register(count)
    }
}

/// A counted loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// How often.
    pub count: Count,
    /// Promise: at least this often. A pipelined loop that may run fewer rounds than it has in flight comes with a
    /// plain copy of itself and a test.
    pub at_least: u32,
    /// What is repeated.
    pub body: Vec<Node>,
    /// Printed above the loop.
    pub purpose: Rc<str>,
}

/// A branch on a predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Class P; taken when its lowest bit is set.
    pub condition: Register,
    /// Runs if the condition holds.
    pub then: Vec<Node>,
    /// Runs if it does not.
    pub otherwise: Vec<Node>,
    /// Whether the condition seldom holds.
    pub rare: bool,
}

/// A call of another function by the calling convention; clobbers everything that a callee may.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Symbol of the callee.
    pub symbol: Rc<str>,
    /// Values for r0..r5.
    pub arguments: Vec<Register>,
    /// Receives r0.
    pub result: Option<Register>,
}

/// A piece of structured code.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Instructions in order; none of them a branch.
    Straight(Vec<Instruction>),
    /// A counted loop.
    Loop(Loop),
    /// A branch.
    Branch(Branch),
    /// A call.
    Call(Call),
}

/// A function in structured code on virtual registers.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Symbol.
    pub name: Rc<str>,
    /// Printed above it.
    pub purpose: Rc<str>,
    /// Virtual registers of the parameters: they arrive in r0..r5.
    pub parameters: Vec<Register>,
    /// Code.
    pub body: Vec<Node>,
    /// Returned in r0.
    pub result: Option<Register>,
    /// Class of each virtual register.
    pub(crate) classes: Vec<Class>,
    /// Names of the memory objects; the first is [`Object::ANY`].
    pub(crate) objects: Vec<Rc<str>>,
    /// Whether parameters beyond r5 are read from the caller's frame.
    pub(crate) needs_frame: bool,
    /// Of a function that does a range of its rounds: then its last two parameters are the first and how many.
    pub range: Option<Rounds>,
}

/// Rounds of a function that are independent of one another: those of different ranges may run at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// In all, at least two.
    pub count: u32,
    /// Names of the parameters before the range, as identifiers.
    pub parameters: Vec<Rc<str>>,
}

impl Function {
    /// Adds a virtual register.
    pub(crate) fn fresh(&mut self, class: Class) -> Register {
        let number = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        self.classes.push(class);
        Register::virtual_of(class, number)
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(r) => write!(f, "{r}"),
            Self::Immediate(n) => write!(f, "#{n}"),
            Self::Symbol(name, 0) => write!(f, "##{name}"),
            Self::Symbol(name, offset) => write!(f, "##{name}{offset:+}"),
        }
    }
}

impl fmt::Display for Instruction {
    /// The assembly form, without `.new` and the like.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", super::print::instruction(self, |_| ""))
    }
}
