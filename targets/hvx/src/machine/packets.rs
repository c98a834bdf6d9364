//! Packets, and the rules that make one legal.

use std::rc::Rc;

use super::function::Instruction;

/// How a value of the same packet is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Nothing special.
    None,
    /// This operand is read as `.new`: it is written by another instruction of the packet.
    New(usize),
    /// A vector load that others of the packet read.
    Current,
    /// A vector load that only others of the packet read: the register keeps its old value.
    Temporary,
}

/// An instruction in a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The instruction.
    pub instruction: Instruction,
    /// Its use of values of the same packet.
    pub forward: Forward,
}

/// Which hardware loops end with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// None.
    None,
    /// `:endloop0`.
    Inner,
    /// `:endloop1`.
    Outer,
}

/// Instructions that execute together: all read old values, apart from [`Forward`].
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// At most four, loads before stores.
    pub instructions: Vec<Placed>,
    /// Loop ends.
    pub end: LoopEnd,
    /// Comment beside it.
    pub purpose: Option<Rc<str>>,
}
