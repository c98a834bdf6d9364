//! From structured code to packets on the register file.

use std::collections::{BTreeMap, BTreeSet};

use super::allocate::{Limits, Outcome, allocate, lives as lives_of};
use super::error::MachineError;
use super::flow::{Flow, FlowBlock, lower};
use super::frame::finish;
use super::function::{Count, Function, Instruction, Operand};
use super::instructions::Opcode;
use super::liveness::{Units, live_out};
use super::packets::{LoopEnd, Packet};
use super::pipeline::{Overlap, Pipelined, pipeline};
use super::registers::{Class, Register, Version};
use super::relax::Plan;
use super::rename::rename;
use super::schedule::{Order, schedule};
use super::spill::{Frame, spill};
use super::table::Unit;

/// Choices of the compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Software pipeline innermost loops.
    pub pipeline: bool,
    /// Scalars that allocation may use, from r0 on (fewer than 28 force spills, for tests).
    pub scalars: u32,
    /// Vectors that allocation may use, from v0 on.
    pub vectors: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { pipeline: true, scalars: 28, vectors: 32 }
    }
}

/// What became of an innermost loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopReport {
    /// Its purpose.
    pub purpose: String,
    /// Packets of one round in the steady state.
    pub packets: usize,
    /// Rounds in flight; 1 if not pipelined.
    pub stages: usize,
}

/// A function ready to print.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// Symbol.
    pub name: String,
    /// Comment above it.
    pub purpose: String,
    /// Version it was made for.
    pub version: Version,
    /// Blocks in order.
    pub blocks: Vec<Block>,
    /// Values that were spilled; a kernel that spills is a bug to look at.
    pub spills: usize,
    /// Innermost hardware loops of one block, in the order of the code.
    pub loops: Vec<LoopReport>,
}

/// Packets behind one label.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Label, if anything jumps here.
    pub label: Option<String>,
    /// Comment above the block.
    pub purpose: Option<String>,
    /// Packets.
    pub packets: Vec<Packet>,
    /// Index of the block that the hardware loop which ends here goes back to.
    pub back: Option<usize>,
}

/// Most rounds of spilling.
const ATTEMPTS: usize = 40;
/// Most schedules that give way, each a little more.
const RELAXATIONS: usize = 48;

/// Compiles a function.
///
/// # Errors
/// An instruction that the version lacks; a register that cannot be allocated.
pub fn compile(
    function: &Function,
    version: Version,
    options: &Options,
) -> Result<Assembled, MachineError> {
    let mut flow = lower(function, version)?;
    rename(&mut flow);
    let limits = Limits { scalars: options.scalars.min(28), vectors: options.vectors.min(32) };
    let mut kept = BTreeSet::new();
    let made = |made: Option<Made>, frame: &Frame| {
        let (Scheduled { flow, loops, .. }, places) = made?;
        Some(finish(function, version, flow, &places, frame, loops))
    };
    let best = best(&flow, version, options.pipeline, limits, &kept);
    if let Some(assembled) = made(best, &Frame::default()) {
        return Ok(assembled);
    }
    let mut frame = Frame::default();
    let known = flow.classes.len();
    for _ in 0..ATTEMPTS {
        let source = packets(&flow, version, &Plan::source(), &mut Known::new());
        match allocate(&source.flow, limits, &kept) {
            Outcome::Placed(places) => {
                // What is left in registers may bear better schedules.
                let best = self::best(&flow, version, options.pipeline, limits, &kept);
                let mut best = (best.unwrap_or((source, places)), frame.clone());
                if options.pipeline {
                    for plan in [Plan::loops(), Plan::default()] {
                        let more = around_loops(&flow, version, &plan, limits, (&frame, &kept));
                        if let Some(more) = more
                            && more.0.0.cost() < best.0.0.cost()
                        {
                            best = more;
                        }
                    }
                }
                let (best, frame) = best;
                return Ok(made(Some(best), &frame).expect("it is given"));
            }
            Outcome::Spill(values) => {
                if let Some(stuck) = values.iter().find(|v| kept.contains(v)) {
                    return Err(MachineError::Allocation {
                        function: function.name.to_string(),
                        register: format!("{:?} {stuck}", flow.classes[*stuck as usize]),
                    });
                }
                flow.needs_frame = true;
                spill(&mut flow, &values, &mut frame, &mut kept);
            }
        }
    }
    Err(MachineError::Allocation {
        function: function.name.to_string(),
        register: format!("any of {known}"),
    })
}

/// A schedule and its registers.
type Made = (Scheduled, BTreeMap<u32, Register>);

/// The best schedules that the registers suffice for: all of them first; then those that are short of registers give way, one
/// by one, and what gave way in vain comes back.
fn best(
    flow: &Flow,
    version: Version,
    pipeline: bool,
    limits: Limits,
    kept: &BTreeSet<u32>,
) -> Option<Made> {
    let mut known = Known::new();
    let mut make = |plan: &Plan| {
        let scheduled = packets(flow, version, plan, &mut known);
        match allocate(&scheduled.flow, limits, kept) {
            Outcome::Placed(places) => Ok((scheduled, places)),
            Outcome::Spill(_) => Err(Box::new(scheduled)),
        }
    };
    let mut plan = if pipeline { Plan::default() } else { Plan::plain() };
    let mut found = None;
    for _ in 0..RELAXATIONS {
        match make(&plan) {
            Ok(made) => {
                found = Some(made);
                break;
            }
            Err(scheduled) => {
                let (segments, starts) = lives_of(&scheduled.flow);
                let pipelined = &scheduled.pipelined;
                if !plan.relax(&scheduled.flow, &segments, &starts, limits, pipelined) {
                    break;
                }
            }
        }
    }
    for simple in [Plan::plain(), Plan::source()] {
        if found.is_none() {
            found = make(&simple).ok();
            plan = simple;
        }
    }
    let mut found = found?;
    if pipeline {
        for origin in plan.given_up(flow) {
            let more = plan.restored(origin);
            if let Ok(made) = make(&more) {
                (plan, found) = (more, made);
            }
        }
    }
    Some(found)
}

/// Schedules as planned, for whose sake values that no innermost loop touches go to memory.
fn around_loops(
    flow: &Flow,
    version: Version,
    plan: &Plan,
    limits: Limits,
    (frame, kept): (&Frame, &BTreeSet<u32>),
) -> Option<(Made, Frame)> {
    let (mut flow, mut frame, mut kept) = (flow.clone(), frame.clone(), kept.clone());
    let inner = flow.blocks.iter().filter(|block| block.inner.is_some());
    let used = inner.flat_map(|block| &block.run).flat_map(Instruction::registers);
    let used = used.map(|(_, _, register)| register).filter(|register| !register.is_fixed());
    let mut stay: BTreeSet<u32> = used.map(Register::number).collect();
    for _ in 0..ATTEMPTS {
        let known = flow.classes.len();
        let scheduled = packets(&flow, version, plan, &mut Known::new());
        match allocate(&scheduled.flow, limits, &kept) {
            Outcome::Placed(places) => return Some(((scheduled, places), frame)),
            Outcome::Spill(values) => {
                let staying =
                    |v: &u32| kept.contains(v) || stay.contains(v) || *v as usize >= known;
                if values.iter().any(staying) {
                    return None;
                }
                flow.needs_frame = true;
                spill(&mut flow, &values, &mut frame, &mut kept);
                stay.extend(&values);
            }
        }
    }
    None
}

/// Pipelines that were made: by the loop, how its rounds may overlap, and what the loop writes that lives on.
type Known = BTreeMap<(usize, Overlap, Vec<u32>), Option<Pipelined>>;

/// A function whose blocks are packets.
struct Scheduled {
    flow: Flow,
    loops: Vec<LoopReport>,
    /// Rounds in flight of pipelined loops, and packets between them, by [`FlowBlock::origin`].
    pipelined: BTreeMap<usize, (usize, usize)>,
}

impl Scheduled {
    /// Packets, ten times as many for each loop around them.
    fn cost(&self) -> usize {
        let blocks = self.flow.blocks.iter().map(|block| {
            let packets = block.packets.as_ref().map_or(0, Vec::len);
            packets.saturating_mul(10usize.saturating_pow(block.depth.min(8)))
        });
        blocks.fold(0, usize::saturating_add)
    }
}

/// Schedules every block and pipelines innermost loops as planned.
fn packets(flow: &Flow, version: Version, plan: &Plan, known: &mut Known) -> Scheduled {
    let mut flow = flow.clone();
    let mut kernels = Vec::new();
    let mut pipelined = BTreeMap::new();
    let mut index = 0;
    while index < flow.blocks.len() {
        let block = &flow.blocks[index];
        let (origin, before) = (block.origin, kernels.len());
        let overlap = plan.overlap(origin);
        if block.inner.is_some() && block.packets.is_none() && overlap.stages > 0 {
            index = pipeline_block(&mut flow, index, version, overlap, known, &mut kernels);
            pipelined.extend(kernels.get(before).map(|(_, made)| (origin, *made)));
        }
        index += 1;
    }
    let live = live_out(&flow);
    let mut loops = Vec::new();
    for (block, live) in flow.blocks.iter_mut().zip(&live) {
        if block.packets.is_none() {
            let order = plan.order(block.origin);
            block.packets = Some(schedule(&block.run, version, order, &lives(live)).0);
        }
        if let Some((LoopEnd::Inner, _)) = block.end
            && let Some(packets) = &block.packets
        {
            let label = block.label.clone().unwrap_or_else(|| "".into());
            let stages = kernels.iter().find(|(l, _)| *l == label).map_or(1, |(_, (s, _))| *s);
            loops.push(LoopReport {
                purpose: block.purpose.as_deref().unwrap_or_default().to_string(),
                packets: packets.len(),
                stages,
            });
        }
    }
    Scheduled { flow, loops, pipelined }
}

fn lives(live: &Units) -> impl Fn(Register) -> bool + use<'_> {
    |register| register.units().any(|u| live.contains(&u))
}

/// Pipelines the loop at a block if that pays; gives the index of its last block.
fn pipeline_block(
    flow: &mut Flow,
    index: usize,
    version: Version,
    overlap: Overlap,
    known: &mut Known,
    kernels: &mut Vec<(std::rc::Rc<str>, (usize, usize))>,
) -> usize {
    let Some((count, at_least)) = flow.blocks[index].inner else { return index };
    let Some(label) = flow.blocks[index].label.clone() else { return index };
    let live = live_out(flow);
    let lives_on = lives(&live[index]);
    let body = &flow.blocks[index].run;
    let (plain, cycles) = schedule(body, version, Order::Critical, &lives_on);
    let stages = match count {
        Count::Constant(n) => (n as usize).min(overlap.stages),
        Count::Register(_) => overlap.stages,
    };
    let overlap = Overlap { stages, ..overlap };
    let written = body.iter().flat_map(Instruction::writes).flat_map(Register::units);
    let kept: Vec<u32> = written.filter(|unit| live[index].contains(unit)).collect();
    let made = known
        .entry((flow.blocks[index].origin, overlap, kept))
        .or_insert_with(|| pipeline(body, version, (plain.len(), cycles), overlap, &lives_on));
    let Some(made) = made.clone() else { return index };
    // The prologue and epilogue cost about a round in each stage.
    let overhead = (made.stages - 1) * made.kernel.len();
    if let Count::Constant(n) = count
        && (n as usize) * plain.len()
            <= (n as usize - (made.stages - 1)) * made.kernel.len() + overhead
        && made.kernel.len() >= plain.len()
    {
        return index;
    }
    kernels.push((label.clone(), (made.stages, made.interval)));
    let fewer = -i32::try_from(made.stages - 1).unwrap_or(i32::MAX);
    // The block before holds the set-up.
    let before = &mut flow.blocks[index - 1].run;
    let setup = before.iter().rposition(|i| i.opcode.row().unit == Unit::Loop);
    let Some(setup) = setup else { return index };
    // Where the count went to memory, the set-up takes what came back.
    let count = match (count, before[setup].operands.get(1)) {
        (Count::Register(_), Some(Operand::Register(register))) => Count::Register(*register),
        _ => count,
    };
    match count {
        Count::Constant(n) => {
            let rounds = n.cast_signed() + fewer;
            let mut instruction = before.remove(setup);
            if instruction.opcode == Opcode::Loop0 && rounds <= 1023 {
                instruction.opcode = Opcode::Loop0Immediate;
                instruction.operands[1] = rounds.into();
                before.extend(made.prologue);
            } else if instruction.opcode == Opcode::Loop0 {
                before.extend(made.prologue);
                let register = flow.fresh(Class::R);
                let constant = vec![register.into(), rounds.into()];
                instruction.operands[1] = register.into();
                let before = &mut flow.blocks[index - 1].run;
                before.push(Instruction::new(Opcode::Constant, constant));
            } else {
                instruction.operands[1] = rounds.into();
                before.extend(made.prologue);
            }
            flow.blocks[index - 1].run.push(instruction);
            flow.blocks[index].packets = Some(made.kernel);
            let after = &mut flow.blocks[index + 1].run;
            after.splice(0..0, made.epilogue);
            index
        }
        Count::Register(register) if made.stages <= at_least as usize => {
            let mut instruction = before.remove(setup);
            before.extend(made.prologue);
            if made.stages > 1 {
                let rounds = flow.fresh(Class::R);
                let reduced = vec![rounds.into(), register.into(), fewer.into()];
                instruction.operands[1] = rounds.into();
                let before = &mut flow.blocks[index - 1].run;
                before.push(Instruction::new(Opcode::AddImmediate, reduced));
            }
            flow.blocks[index - 1].run.push(instruction);
            flow.blocks[index].packets = Some(made.kernel);
            flow.blocks[index + 1].run.splice(0..0, made.epilogue);
            index
        }
        Count::Register(register) => {
            // if (count > stages - 1) { prologue; kernel; epilogue } else { plain loop }
            let loop0 = before.remove(setup);
            let few = flow.fresh(Class::P);
            let rounds = flow.fresh(Class::R);
            let (other, join) = (flow.label(), flow.label());
            let jump = |opcode, mut operands: Vec<Operand>, to: &std::rc::Rc<str>| {
                operands.push(Operand::Symbol(to.clone(), 0));
                Instruction::new(opcode, operands)
            };
            let before = &mut flow.blocks[index - 1].run;
            let enough = vec![few.into(), register.into(), (-fewer).into()];
            before.push(Instruction::new(Opcode::CompareGtImmediate, enough));
            before.push(jump(Opcode::JumpIfNot, vec![few.into()], &other));
            let template = FlowBlock {
                label: None,
                purpose: None,
                run: Vec::new(),
                packets: None,
                end: None,
                inner: None,
                depth: flow.blocks[index - 1].depth,
                call_arguments: 0,
                returns: false,
                origin: flow.blocks[index - 1].origin,
            };
            let mut prologue = template.clone();
            prologue.run = made.prologue;
            let reduced = vec![rounds.into(), register.into(), fewer.into()];
            prologue.run.push(Instruction::new(Opcode::AddImmediate, reduced));
            let mut first_setup = loop0.clone();
            first_setup.operands[1] = rounds.into();
            prologue.run.push(first_setup);
            let mut kernel = flow.blocks[index].clone();
            kernel.packets = Some(made.kernel);
            kernel.inner = None;
            let mut epilogue = template.clone();
            epilogue.run = made.epilogue;
            epilogue.run.push(jump(Opcode::Jump, Vec::new(), &join));
            let mut plain_setup = template;
            plain_setup.label = Some(other);
            let plain_label = flow.label();
            let mut second_setup = loop0;
            second_setup.operands[0] = Operand::Symbol(plain_label.clone(), 0);
            plain_setup.run.push(second_setup);
            let mut plain = flow.blocks[index].clone();
            plain.label = Some(plain_label);
            plain.purpose = Some("the same for few rounds".into());
            plain.inner = None;
            let joined = &mut flow.blocks[index + 1];
            debug_assert!(joined.label.is_none());
            joined.label = Some(join);
            insert_blocks(flow, index, vec![prologue, kernel, epilogue, plain_setup, plain]);
            index + 4
        }
    }
}

/// Replaces a single-block loop by blocks of which the second and the last are loops of their own.
fn insert_blocks(flow: &mut Flow, index: usize, blocks: Vec<FlowBlock>) {
    let more = blocks.len() - 1;
    for block in &mut flow.blocks {
        if let Some((_, start)) = &mut block.end
            && *start > index
        {
            *start += more;
        }
    }
    let loops = [index + 1, index + more];
    flow.blocks.splice(index..=index, blocks);
    for at in loops {
        if let Some((_, start)) = &mut flow.blocks[at].end {
            *start = at;
        }
    }
}
