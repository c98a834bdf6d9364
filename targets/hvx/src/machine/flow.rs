//! Structured code as blocks with labels: loops become hardware loops by their nesting, or compare and jump.

use std::rc::Rc;

use super::error::MachineError;
use super::function::{Branch, Call, Count, Function, Instruction, Loop, Node, Operand};
use super::instructions::Opcode;
use super::packets::{LoopEnd, Packet};
use super::registers::{ARGUMENT_REGISTERS, Class, Register, Version};

/// A block: straight code, at most one branch, last.
#[derive(Clone, Debug)]
pub(super) struct FlowBlock {
    /// Label, if something jumps here.
    pub(super) label: Option<Rc<str>>,
    /// Comment above it.
    pub(super) purpose: Option<Rc<str>>,
    /// Code before scheduling.
    pub(super) run: Vec<Instruction>,
    /// Code after scheduling.
    pub(super) packets: Option<Vec<Packet>>,
    /// Hardware loop that ends here, and the index of its first block.
    pub(super) end: Option<(LoopEnd, usize)>,
    /// Set on a block that is the whole body of a `loop0`: its count, and the promise of how often at least.
    pub(super) inner: Option<(Count, u32)>,
    /// Loops around it.
    pub(super) depth: u32,
    /// Argument registers that the call at its end reads.
    pub(super) call_arguments: u32,
    /// Whether the function returns at its end.
    pub(super) returns: bool,
    /// Number of the block before pipelining.
    pub(super) origin: usize,
}

/// A function as blocks.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Blocks in the order of the text.
    pub(super) blocks: Vec<FlowBlock>,
    /// Class of each virtual register.
    pub(super) classes: Vec<Class>,
    /// Whether r0 holds a result at the end.
    pub(super) has_result: bool,
    /// Whether the frame pointer and return address are saved.
    pub(super) needs_frame: bool,
    name: Rc<str>,
    labels: usize,
}

impl Flow {
    /// Adds a virtual register.
    pub(super) fn fresh(&mut self, class: Class) -> Register {
        let number = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        self.classes.push(class);
        Register::virtual_of(class, number)
    }

    /// A new label.
    pub(super) fn label(&mut self) -> Rc<str> {
        self.labels += 1;
        format!(".L{}_{}", self.name, self.labels).into()
    }

    /// Blocks that can follow a block.
    #[must_use]
    pub(super) fn successors(&self, index: usize) -> Vec<usize> {
        let block = &self.blocks[index];
        let mut next = Vec::new();
        let mut falls = !block.returns;
        let jump = match &block.packets {
            Some(packets) => packets
                .iter()
                .flat_map(|p| &p.instructions)
                .map(|p| &p.instruction)
                .find(|i| is_jump(i.opcode)),
            None => block.run.iter().find(|i| is_jump(i.opcode)),
        };
        if let Some(jump) = jump {
            falls &= jump.opcode != Opcode::Jump;
            let target = jump.operands.iter().find_map(|o| match o {
                Operand::Symbol(name, _) => Some(name),
                _ => None,
            });
            next.extend(self.blocks.iter().position(|b| b.label.as_ref() == target));
        }
        if let Some((_, start)) = block.end {
            next.push(start);
        }
        if falls && index + 1 < self.blocks.len() {
            next.push(index + 1);
        }
        next
    }
}

fn is_jump(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Jump | Opcode::JumpIf | Opcode::JumpIfNot)
}

/// Blocks of a function.
///
/// # Errors
/// An instruction that the version lacks.
pub(super) fn lower(function: &Function, version: Version) -> Result<Flow, MachineError> {
    let flow = Flow {
        blocks: Vec::new(),
        classes: function.classes.clone(),
        has_result: function.result.is_some(),
        needs_frame: function.needs_frame,
        name: function.name.clone(),
        labels: 0,
    };
    let mut lowering = Lowering { flow, version, depth: 0 };
    lowering.open(None);
    for (index, parameter) in function.parameters.iter().enumerate() {
        if index < ARGUMENT_REGISTERS as usize {
            let place = Register::fixed(Class::R, index as u32);
            lowering.push(Opcode::Move, vec![(*parameter).into(), place.into()]);
        }
    }
    lowering.nodes(&function.body)?;
    if let Some(result) = function.result {
        let place = Register::fixed(Class::R, 0);
        lowering.push(Opcode::Move, vec![place.into(), result.into()]);
    }
    lowering.last().returns = true;
    Ok(lowering.flow)
}

struct Lowering {
    flow: Flow,
    version: Version,
    depth: u32,
}

impl Lowering {
    fn open(&mut self, label: Option<Rc<str>>) -> usize {
        self.flow.blocks.push(FlowBlock {
            label,
            purpose: None,
            run: Vec::new(),
            packets: None,
            end: None,
            inner: None,
            depth: self.depth,
            call_arguments: 0,
            returns: false,
            origin: self.flow.blocks.len(),
        });
        self.flow.blocks.len() - 1
    }

    fn last(&mut self) -> &mut FlowBlock {
        if self.flow.blocks.is_empty() {
            self.open(None);
        }
        let last = self.flow.blocks.len() - 1;
        &mut self.flow.blocks[last]
    }

    fn push(&mut self, opcode: Opcode, operands: Vec<Operand>) {
        self.last().run.push(Instruction::new(opcode, operands));
    }

    fn nodes(&mut self, nodes: &[Node]) -> Result<(), MachineError> {
        for node in nodes {
            match node {
                Node::Straight(run) => {
                    for instruction in run {
                        if instruction.opcode.row().since > self.version {
                            return Err(MachineError::Version {
                                function: self.flow.name.to_string(),
                                instruction: instruction.opcode.row().form.to_string(),
                                version: self.version,
                            });
                        }
                        self.last().run.push(instruction.clone());
                    }
                }
                Node::Loop(inner) => self.repeat(inner)?,
                Node::Branch(branch) => self.branch(branch)?,
                Node::Call(call) => self.call(call),
            }
        }
        Ok(())
    }

    fn repeat(&mut self, node: &Loop) -> Result<(), MachineError> {
        let label = self.flow.label();
        let symbol = Operand::Symbol(label.clone(), 0);
        let height = height(&node.body);
        let mut counter = None;
        match (height, node.count) {
            (Some(height @ 0..=1), count) => {
                let (by_number, by_register) = match height {
                    0 => (Opcode::Loop0Immediate, Opcode::Loop0),
                    _ => (Opcode::Loop1Immediate, Opcode::Loop1),
                };
                match count {
                    Count::Constant(n @ 0..=1023) => {
                        self.push(by_number, vec![symbol, n.cast_signed().into()]);
                    }
                    Count::Constant(n) => {
                        let register = self.flow.fresh(Class::R);
                        let number = n.cast_signed().into();
                        self.push(Opcode::Constant, vec![register.into(), number]);
                        self.push(by_register, vec![symbol, register.into()]);
                    }
                    Count::Register(register) => {
                        self.push(by_register, vec![symbol, register.into()]);
                    }
                }
            }
            (_, count) => {
                let register = self.flow.fresh(Class::R);
                match count {
                    Count::Constant(n) => {
                        let number = n.cast_signed().into();
                        self.push(Opcode::Constant, vec![register.into(), number]);
                    }
                    Count::Register(from) => {
                        self.push(Opcode::Move, vec![register.into(), from.into()]);
                    }
                }
                counter = Some((register, symbol));
            }
        }
        self.depth += 1;
        let start = self.open(Some(label));
        self.last().purpose = Some(node.purpose.clone()).filter(|p| !p.is_empty());
        self.nodes(&node.body)?;
        if let Some((counter, symbol)) = counter {
            let more = self.flow.fresh(Class::P);
            let compare = vec![more.into(), counter.into(), 1.into()];
            self.push(Opcode::CompareGtImmediate, compare);
            self.push(Opcode::AddImmediate, vec![counter.into(), counter.into(), (-1).into()]);
            self.push(Opcode::JumpIf, vec![more.into(), symbol]);
        } else {
            if self.last().run.is_empty() {
                self.push(Opcode::Nop, Vec::new());
            }
            let end = if height == Some(0) { LoopEnd::Inner } else { LoopEnd::Outer };
            let single = self.flow.blocks.len() - 1 == start && end == LoopEnd::Inner;
            let last = self.last();
            last.end = Some((end, start));
            if single {
                last.inner = Some((node.count, node.at_least));
            }
        }
        self.depth -= 1;
        self.open(None);
        Ok(())
    }

    fn branch(&mut self, node: &Branch) -> Result<(), MachineError> {
        let (other, join) = (self.flow.label(), self.flow.label());
        let target = if node.otherwise.is_empty() { join.clone() } else { other.clone() };
        self.push(Opcode::JumpIfNot, vec![node.condition.into(), Operand::Symbol(target, 0)]);
        self.open(None);
        self.nodes(&node.then)?;
        if !node.otherwise.is_empty() {
            self.push(Opcode::Jump, vec![Operand::Symbol(join.clone(), 0)]);
            self.open(Some(other));
            self.nodes(&node.otherwise)?;
        }
        self.open(Some(join));
        Ok(())
    }

    fn call(&mut self, node: &Call) {
        for (index, argument) in node.arguments.iter().enumerate() {
            let place = Register::fixed(Class::R, index as u32);
            self.push(Opcode::Move, vec![place.into(), (*argument).into()]);
        }
        self.push(Opcode::Call, vec![Operand::Symbol(node.symbol.clone(), 0)]);
        self.last().call_arguments = node.arguments.len() as u32;
        self.flow.needs_frame = true;
        self.open(None);
        if let Some(result) = node.result {
            let place = Register::fixed(Class::R, 0);
            self.push(Opcode::Move, vec![result.into(), place.into()]);
        }
    }
}

/// Loops nested within, or None if there are calls (which use the loop registers themselves).
fn height(nodes: &[Node]) -> Option<u32> {
    let mut most = 0;
    for node in nodes {
        let inner = match node {
            Node::Straight(_) => 0,
            Node::Call(_) => return None,
            Node::Loop(inner) => height(&inner.body)? + 1,
            Node::Branch(branch) => height(&branch.then)?.max(height(&branch.otherwise)?),
        };
        most = most.max(inner);
    }
    Some(most)
}
