//! A loop kernel as one function of its buffers' addresses.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, Value, types};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use trainc_ir::loops::{
    BufferParameter, Expr, Local, LoopKernel, Node, Role, Stmt, each_statement,
};
use trainc_loops::{Intervals, Place, collapsed, count_uses};

use super::expression::register;
use super::vector::Plan;

/// The signature of a loop kernel: one address a buffer, in order; no result.
pub fn loop_kernel_signature(kernel: &LoopKernel, convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(types::I64); kernel.buffers.len()];
    signature
}

/// For each buffer of a kernel, whether nothing that it writes overlaps it, given whether each operand is kept.
pub(crate) fn readonly(kernel: &LoopKernel, kept: impl Fn(usize) -> bool) -> Vec<bool> {
    let kept = |b: &BufferParameter| match b.role {
        Role::Input(i) | Role::InputScale(i) => kept(i),
        Role::RunContext => true,
        Role::Output(_) | Role::OutputScale(_) | Role::Scratch => false,
    };
    kernel.buffers.iter().map(kept).collect()
}

/// Fills `function` (whose signature is [`loop_kernel_signature`]) with the kernel's code.
///
/// `readonly` says for each buffer whether nothing that the kernel writes overlaps it.
///
/// # Panics
/// If the kernel does not type: a bug of the lowering.
pub fn build_loop_kernel(
    kernel: &LoopKernel,
    readonly: &[bool],
    function: &mut Function,
    context: &mut FunctionBuilderContext,
    config: TargetFrontendConfig,
) {
    let kernel = &collapsed(kernel);
    let mut builder = FunctionBuilder::new(function, context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let pointers = builder.block_params(entry).to_vec();
    let locals: Vec<Variable> = kernel
        .locals
        .iter()
        .map(|(_, scalar)| {
            // Locals start at zero; what is assigned before its use costs nothing.
            let variable = builder.declare_var(register(*scalar));
            let zero = match register(*scalar) {
                types::F32 => builder.ins().f32const(0.0),
                ty => builder.ins().iconst(ty, 0),
            };
            builder.def_var(variable, zero);
            variable
        })
        .collect();
    let mut emitter = Emitter {
        builder,
        kernel,
        uses: count_uses(kernel, &kernel.body),
        intervals: Intervals::of_any_kernel(kernel),
        readonly,
        pointers,
        depths: vec![0; locals.len()],
        locals,
        depth: 0,
        guards: 0,
    };
    emitter.block(&kernel.body);
    emitter.builder.ins().return_(&[]);
    emitter.builder.finalize(config);
}

pub(super) struct Emitter<'a, 'f> {
    pub(super) builder: FunctionBuilder<'f>,
    pub(super) kernel: &'a LoopKernel,
    /// How often the kernel mentions each local.
    pub(super) uses: Vec<usize>,
    pub(super) intervals: Intervals<'a>,
    pub(super) readonly: &'a [bool],
    /// Addresses of the buffers.
    pub(super) pointers: Vec<Value>,
    pub(super) locals: Vec<Variable>,
    /// For each local, how many loops deep it was last assigned.
    pub(super) depths: Vec<usize>,
    /// How many loops deep the current statement is.
    pub(super) depth: usize,
    /// How many conditions stand between the current statement and the function's start.
    pub(super) guards: usize,
}

impl Emitter<'_, '_> {
    fn block(&mut self, statements: &[Stmt]) {
        for statement in statements {
            match statement {
                Stmt::Assign(local, value) => {
                    let value = self.value(value);
                    self.assign(*local, value);
                }
                Stmt::Store(buffer, index, value) => self.store(*buffer, index, value),
                Stmt::For { variable, start, end, body } => {
                    self.for_loop(*variable, start, end, body);
                }
                Stmt::If { condition, then, otherwise } => {
                    self.if_else(condition, then, otherwise);
                }
            }
        }
    }

    pub(super) fn assign(&mut self, local: Local, value: Value) {
        self.depths[local.0 as usize] = self.depth;
        self.builder.def_var(self.locals[local.0 as usize], value);
    }

    /// The loop whose rounds an expression depends on: how deep it is.
    pub(super) fn depth_of(&self, expr: &Expr) -> usize {
        match &*expr.node {
            Node::Local(local) => self.depths[local.0 as usize],
            Node::Load(..) => self.depth,
            _ => expr.operands().map(|x| self.depth_of(x)).max().unwrap_or(0),
        }
    }

    fn for_loop(&mut self, variable: Local, start: &Expr, end: &Expr, body: &[Stmt]) {
        let bounds = (start.as_constant(), end.as_constant());
        if matches!(bounds, (Some(first), Some(last)) if first >= last) {
            return;
        }
        let trip = match bounds {
            (Some(first), Some(last)) => Some(last.wrapping_sub(first)),
            _ => None,
        };
        let mut first = self.value(start);
        let last = self.value(end);
        let mut certain = trip.is_some();
        let (kernel, uses, intervals) = (self.kernel, &self.uses, &self.intervals);
        let place = Place { kernel, uses, intervals, variable, start, end, body };
        if let Ok(plan) = Plan::of(&place) {
            first = self.vector_loop(&plan, first, last, trip);
            match trip {
                Some(trip) if trip % plan.rounds() == 0 => return,
                Some(_) => {}
                None => certain = false,
            }
        }
        let [round, done] = [(); 2].map(|()| self.builder.create_block());
        let index = self.builder.append_block_param(round, types::I64);
        if certain {
            self.builder.ins().jump(round, &[first.into()]);
        } else {
            let any = self.builder.ins().icmp(IntCC::SignedLessThan, first, last);
            self.builder.ins().brif(any, round, &[first.into()], done, &[]);
        }
        self.builder.switch_to_block(round);
        self.depth += 1;
        self.guards += usize::from(!certain);
        self.assign(variable, index);
        // What the body assigns differs from round to round even where it is used before that.
        self.mark_assigned(body);
        self.block(body);
        self.guards -= usize::from(!certain);
        self.depth -= 1;
        let next = self.builder.ins().iadd_imm_s(index, 1);
        let more = self.builder.ins().icmp(IntCC::SignedLessThan, next, last);
        self.builder.ins().brif(more, round, &[next.into()], done, &[]);
        self.builder.seal_block(round);
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
    }

    fn mark_assigned(&mut self, body: &[Stmt]) {
        each_statement(body, &mut |statement| {
            if let Some(local) = statement.sets() {
                self.depths[local.0 as usize] = self.depth;
            }
        });
    }

    /// Assignments of what is at hand, such as the larger value and its place, are selections: which side it is follows no pattern, and a
    /// wrong guess takes longer than both.
    fn if_else(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let condition = self.value(condition);
        if let (Some(assignments), []) = (at_hand(then), otherwise) {
            for (local, value) in assignments {
                let value = self.value(value);
                let before = self.builder.use_var(self.locals[local.0 as usize]);
                let value = self.builder.ins().select(condition, value, before);
                self.assign(local, value);
            }
            return;
        }
        let [yes, no, done] = [(); 3].map(|()| self.builder.create_block());
        self.builder.ins().brif(condition, yes, &[], no, &[]);
        self.guards += 1;
        for (block, statements) in [(yes, then), (no, otherwise)] {
            self.builder.seal_block(block);
            self.builder.switch_to_block(block);
            self.block(statements);
            self.builder.ins().jump(done, &[]);
        }
        self.guards -= 1;
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
    }
}

/// Most assignments that are made by selections.
const MOST_SELECTIONS: usize = 4;

/// The assignments of a few statements that do nothing but copy locals and constants.
fn at_hand(statements: &[Stmt]) -> Option<Vec<(Local, &Expr)>> {
    if statements.len() > MOST_SELECTIONS {
        return None;
    }
    let mut assignments = Vec::new();
    for statement in statements {
        let Stmt::Assign(local, value) = statement else { return None };
        if !matches!(*value.node, Node::Local(_) | Node::Integer(_) | Node::Float(_)) {
            return None;
        }
        assignments.push((*local, value));
    }
    Some(assignments)
}
