//! Instruction selection: any loop kernel as structured code of the machine layer.
//!
//! The calling convention is the platform's: each buffer of the kernel but its working memory is a pointer, in the
//! order of the kernel's parameters; the working memory, if there is any, is one more pointer at the end. Integers
//! are computed in 32 bits wherever only their low 32 bits matter or every value fits; the rest takes register pairs.
//! Addresses that are linear in a loop's variable are pointers that step.

mod addresses;
mod cache;
mod cleanup;
mod conditions;
mod division;
mod fill;
mod floats;
mod integers;
mod quotients;
mod routines;
mod statements;
mod unrolled;
mod vector;
mod wide;

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::implementation::Memory;
use trainc_ir::loops::{Expr, Local, LoopKernel, Role, Scalar};
use trainc_ir::target::loop_scratch;
use trainc_loops::{Intervals, Locals, count_uses, is_narrow, simplified};

use crate::machine::{Builder, Class, Function, MachineError, Object, Opcode, Register};

pub use routines::Routine;

/// Why no code could be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The kernel is not well formed.
    #[error("{0}")]
    Kernel(String),
    /// The machine layer refused the code: a bug of the selection.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Selected code.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The kernel's function.
    pub function: Function,
    /// Routines that it calls.
    pub routines: BTreeSet<Routine>,
    /// Innermost loops that fill no vector, each with the reason.
    pub scalar_loops: Vec<String>,
    /// Whether operands or results must begin where vectors do.
    pub aligned: bool,
}

/// Selects code for a loop kernel; `name` is the function's symbol, `purpose` is printed above it. Operands and results in the program's
/// memory begin where vectors do.
///
/// # Errors
/// If the kernel is not well formed.
pub fn select(
    name: &str,
    purpose: &str,
    kernel: &LoopKernel,
    memory: Memory,
) -> Result<Selected, SelectError> {
    let kernel = prepared(kernel).map_err(SelectError::Kernel)?;
    let locals = Locals::of_kernel(&kernel).map_err(SelectError::Kernel)?;
    let intervals = Intervals::of_kernel(&kernel, &locals);
    let parameters = kernel.buffers.iter().filter(|b| b.role != Role::Scratch).count();
    let (offsets, scratch_bytes) = loop_scratch(&kernel);
    let has_scratch = kernel.buffers.iter().any(|b| b.role == Role::Scratch);
    let count = u32::try_from(parameters + usize::from(has_scratch)).unwrap_or(u32::MAX);
    let mut b = Builder::new(name, count);
    b.purpose(purpose);
    let mut selector = Selector {
        kernel: &kernel,
        memory,
        locals: &locals,
        uses: count_uses(&kernel, &kernel.body),
        intervals,
        registers: Vec::new(),
        buffers: Vec::new(),
        cache: cache::Cache::default(),
        pointers: Vec::new(),
        disjoint: BTreeSet::new(),
        hoisted: 0,
        guards: None,
        divisors: Vec::new(),
        failure: None,
        predicates: BTreeMap::new(),
        routines: BTreeSet::new(),
        scalar_loops: Vec::new(),
        aligned: false,
    };
    selector.place_buffers(&mut b, &offsets, parameters, scratch_bytes);
    selector.place_locals(&mut b);
    selector.block(&mut b, &kernel.body);
    if let Some(reason) = selector.failure {
        return Err(SelectError::Kernel(reason));
    }
    let (routines, scalar_loops) = (selector.routines, selector.scalar_loops);
    let aligned = selector.aligned;
    let mut function = b.finish(None)?;
    cleanup::remove_dead_code(&mut function);
    Ok(Selected { function, routines, scalar_loops, aligned })
}

/// Simplified loops; those of quotients and roots do some rounds at a time, as far as their counts are known.
///
/// # Errors
/// If the kernel is not well formed.
pub(crate) fn prepared(kernel: &LoopKernel) -> Result<LoopKernel, String> {
    Ok(unrolled::unrolled(simplified(kernel)?))
}

/// Where a buffer is.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: Register,
    object: Object,
}

struct Selector<'k> {
    kernel: &'k LoopKernel,
    memory: Memory,
    locals: &'k Locals,
    /// Mentions of each local.
    uses: Vec<usize>,
    intervals: Intervals<'k>,
    /// A register for each local: a pair if it is wide.
    registers: Vec<Register>,
    buffers: Vec<Place>,
    /// Values that are in registers.
    cache: cache::Cache,
    /// Pointers of the open loops.
    pointers: Vec<addresses::Pointer>,
    /// Objects in which the rounds of the innermost open loop touch different bytes.
    disjoint: BTreeSet<Object>,
    /// Values that were computed ahead of the open loops.
    hoisted: usize,
    /// What is seen of the operands of quotients that stand in the code.
    guards: Option<quotients::Guards>,
    /// Divisors that stay the same in all rounds of the open loops.
    divisors: Vec<(Expr, quotients::Divisor)>,
    /// Bools that are set once: predicates, and whether the opposite is meant.
    predicates: BTreeMap<Local, (Register, bool)>,
    /// A mistake of the selection.
    failure: Option<String>,
    routines: BTreeSet<Routine>,
    scalar_loops: Vec<String>,
    /// Whether vectors of an operand or result begin where those of memory do.
    aligned: bool,
}

impl Selector<'_> {
    /// Buffers are disjoint, but for a result and an operand of as many bytes: an operation may work in place.
    fn place_buffers(&mut self, b: &mut Builder, offsets: &[usize], parameters: usize, _: usize) {
        let bytes = |i: usize| {
            let buffer = &self.kernel.buffers[i];
            buffer.element.bytes(buffer.count)
        };
        let (mut next, mut scratch) = (0, offsets.iter());
        let mut places: Vec<Place> = Vec::new();
        for (i, buffer) in self.kernel.buffers.iter().enumerate() {
            let twin = |place: usize| match (&buffer.role, &self.kernel.buffers[place].role) {
                (Role::Output(_), Role::Input(_)) => bytes(i) == bytes(place),
                (Role::OutputScale(_), Role::InputScale(_)) => true,
                (Role::InputScale(_), Role::InputScale(_)) => true,
                // Two operands of a size may both be what a result of that size takes.
                (Role::Input(_), Role::Input(_)) => bytes(i) == bytes(place),
                _ => false,
            };
            let object = match (0..places.len()).find(|&place| twin(place)) {
                Some(place) => places[place].object,
                None => b.object(&buffer.name),
            };
            let base = match buffer.role {
                Role::Scratch => {
                    let memory = b.parameter(parameters);
                    let offset = *scratch.next().unwrap_or(&0);
                    match i32::try_from(offset).unwrap_or(i32::MAX) {
                        0 => memory,
                        offset => b.emit(Opcode::AddImmediate, (memory, offset)),
                    }
                }
                _ => {
                    next += 1;
                    b.parameter(next - 1)
                }
            };
            places.push(Place { base, object });
        }
        self.buffers = places;
    }

    fn place_locals(&mut self, b: &mut Builder) {
        for i in 0..self.kernel.locals.len() {
            let local = Local(i as u32);
            let wide =
                self.kernel.locals[i].1 == Scalar::I64 && !is_narrow(self.intervals.local(local));
            let register = b.fresh(if wide { Class::RR } else { Class::R });
            if self.locals.is_hoisted(local) {
                match wide {
                    true => b.emit_to(register, Opcode::CombineImmediate, (0, 0)),
                    false => b.emit_to(register, Opcode::Constant, (0,)),
                }
            }
            self.registers.push(register);
        }
    }

    fn register(&self, local: Local) -> Register {
        self.registers[local.0 as usize]
    }

    /// Whether both sides of a selection may be computed whatever the condition.
    fn may_compute_both(&self, condition: &Expr, x: &Expr, y: &Expr) -> bool {
        let in_bounds = |buffer, index: &Expr| self.intervals.in_bounds(buffer, index);
        trainc_loops::may_compute_both(&[condition], [x, y], &in_bounds)
    }

    /// Scalar code computes both sides of a selection: refuses one that may load out of bounds.
    fn demand_both(&mut self, condition: &Expr, x: &Expr, y: &Expr) {
        if !self.may_compute_both(condition, x, y) {
            let reason = "a selection may load out of bounds; a branch would not";
            self.failure.get_or_insert_with(|| reason.into());
        }
    }

    /// Whether every value of an integer fits 32 bits.
    fn is_narrow(&self, e: &Expr) -> bool {
        e.ty != Scalar::I64 || is_narrow(self.intervals.get(e))
    }
}

/// Emits into the target, or a fresh register.
fn emit(
    b: &mut Builder,
    target: Option<Register>,
    opcode: Opcode,
    operands: impl crate::machine::Operands,
) -> Register {
    match target {
        Some(register) => {
            b.emit_to(register, opcode, operands);
            register
        }
        None => b.emit(opcode, operands),
    }
}
