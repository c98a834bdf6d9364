//! What a vector loop needs ahead of its rounds.

use trainc_ir::implementation::Memory;
use trainc_ir::loops::{Binary, Expr, Node, Role, Scalar, Stmt, Unary};
use trainc_loops::{Linear, Step};

use super::super::Selector;
use super::super::addresses::element_bytes;
use super::forms::{ClampedByte, counted_from, is_upper_half};
use super::reduce::{INFINITY, Kept, NO_NUMBER, ones};
use super::{Counter, Plan, Stream, VECTOR};
use crate::machine::{Builder, Class, Opcode, Register};

/// Predicates that hold a condition while a loop runs: there are four, and rounds need some.
const MOST_REFUSALS: usize = 1;

impl Selector<'_> {
    /// Pointers and counters of rounds that begin elsewhere, of a loop that is prepared.
    pub(super) fn prepare_again(&mut self, b: &mut Builder, plan: &mut Plan, start: &Expr) {
        plan.streams.clear();
        plan.counters.clear();
        plan.start = start.clone();
        let reductions = plan.reductions.clone();
        self.prepare_steps(b, plan, start, true);
        plan.reductions = reductions;
    }

    /// Pointers, splats and empty reductions, ahead of the loop.
    pub(super) fn prepare(&mut self, b: &mut Builder, plan: &mut Plan, start: &Expr) {
        self.prepare_steps(b, plan, start, false);
    }

    fn prepare_steps(&mut self, b: &mut Builder, plan: &mut Plan, start: &Expr, again: bool) {
        let first = self.linear(start);
        for step in plan.vectors.steps.clone() {
            match step {
                Step::Assign(_, value) => self.prepare_value(b, plan, &value, &first, false),
                Step::Once(..) if again => {}
                Step::Once(local, value) => self.block(b, &[Stmt::Assign(local, value)]),
                Step::Reduce(at, value) => {
                    let reduction = plan.vectors.reductions[at].clone();
                    // Sums are words.
                    let width = if reduction.op == Binary::Add { 4 } else { plan.width };
                    let empty = match reduction.value.ty {
                        // No number: nothing is less.
                        Scalar::F32 => NO_NUMBER,
                        _ => reduction.identity(8 * width as u32),
                    };
                    let empty = b.constant(empty);
                    let splat = if width == 2 { Opcode::VsplatH } else { Opcode::VsplatW };
                    let lanes = b.emit(splat, (empty,));
                    if reduction.value.ty == Scalar::F32 {
                        self.splat(b, plan, INFINITY);
                        self.splat(b, plan, NO_NUMBER);
                    }
                    match self.dot(plan, &reduction, &value) {
                        Some(bytes) => {
                            for x in bytes.factors() {
                                self.prepare_value(b, plan, x, &first, false);
                            }
                            match plan.width {
                                1 => self.splat(b, plan, 1),
                                _ => self.prepare_value(b, plan, &ones(), &first, true),
                            }
                        }
                        None => self.prepare_value(b, plan, &value, &first, false),
                    }
                    plan.reductions.push(Kept { reduction, width, lanes });
                }
                Step::Store(buffer, index, value) => {
                    self.open_stream(b, plan, buffer.0, &index, &first);
                    let element = self.kernel.buffers[buffer.0 as usize].element;
                    match plan.clamped_byte(element, &value) {
                        Some(ClampedByte { value, limits }) => {
                            self.prepare_value(b, plan, value, &first, false);
                            for limit in limits.iter().flatten() {
                                self.prepare_value(b, plan, limit, &first, false);
                            }
                        }
                        None => self.prepare_value(b, plan, &value, &first, false),
                    }
                }
                Step::Change(..) | Step::Loop { .. } => {
                    self.failure = Some("a loop in a vector loop was not offered".into());
                }
            }
        }
    }

    pub(super) fn open_stream(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        buffer: u32,
        index: &Expr,
        first: &Linear,
    ) {
        if self.find_stream(plan, buffer, index).is_some() {
            return;
        }
        let bytes = self.linear(index).scaled(self.size(buffer).into());
        let at = bytes.with(plan.vectors.variable, first);
        let base = self.buffers[buffer as usize].base;
        let place = self.place(b, base, &at);
        let pointer = b.emit(Opcode::AddImmediate, (place, at.constant as i32));
        let aligned = self.is_aligned(buffer, &at);
        self.aligned |= aligned;
        plan.streams.push(Stream { buffer, bytes, pointer, aligned });
    }

    pub(super) fn size(&self, buffer: u32) -> i32 {
        element_bytes(self.kernel.buffers[buffer as usize].element)
    }

    /// Whether a place of a buffer, in bytes, is one of a vector.
    fn is_aligned(&self, buffer: u32, at: &Linear) -> bool {
        let role = &self.kernel.buffers[buffer as usize].role;
        let placed = matches!(role, Role::Input(_) | Role::Output(_));
        let whole = |bytes: i64| bytes % i64::from(VECTOR) == 0;
        let vectors = whole(at.constant) && at.terms.iter().all(|(factor, _)| whole(*factor));
        self.memory == Memory::Program && placed && vectors
    }

    pub(super) fn find_stream(&self, plan: &Plan, buffer: u32, index: &Expr) -> Option<usize> {
        let bytes = self.linear(index).scaled(self.size(buffer).into());
        plan.streams.iter().position(|s| {
            s.buffer == buffer && s.bytes.is_parallel(&bytes) && s.bytes.constant == bytes.constant
        })
    }

    pub(super) fn prepare_value(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        first: &Linear,
        scalar: bool,
    ) {
        if self.stays(plan, e) {
            let known = if scalar { &plan.scalars } else { &plan.splats };
            if known.iter().any(|(k, _)| k == e) {
                return;
            }
            let value = self.value(b, e);
            if scalar {
                plan.scalars.push((e.clone(), value));
            } else {
                let opcode = plan.of(Opcode::VsplatW, Opcode::VsplatH, Opcode::VsplatB);
                let lanes = b.emit(opcode, (value,));
                plan.splats.push((e.clone(), lanes));
            }
            if e.ty == Scalar::Bool {
                self.splat(b, plan, 0);
                if plan.refusals.len() < MOST_REFUSALS {
                    let (words, zero) =
                        (self.known(plan, e, false), self.known(plan, &Expr::i32(0), false));
                    let refusal = b.emit(plan.equal(), (words, zero));
                    plan.refusals.push((e.clone(), refusal));
                }
            }
            return;
        }
        if let Some(x) = plan.magnitude(e) {
            return self.prepare_value(b, plan, x, first, false);
        }
        if let Some((sum, limits)) = plan.clamped_sum(e) {
            for limit in limits.into_iter().flatten() {
                self.prepare_value(b, plan, limit, first, false);
            }
            return sum
                .operands
                .into_iter()
                .for_each(|x| self.prepare_value(b, plan, x, first, false));
        }
        if let Some((x, amount)) = self.one_more(plan, e) {
            self.prepare_value(b, plan, x, first, false);
            return self.prepare_value(b, plan, &amount, first, false);
        }
        if let Some((parts, amount)) = self.half_sum(plan, e) {
            parts.into_iter().for_each(|x| self.prepare_value(b, plan, x, first, false));
            return self.prepare_value(b, plan, &amount, first, true);
        }
        if self.prepare_products(b, plan, e, first) {
            return;
        }
        if let Some(added) = counted_from(e, &self.of_plan(plan)) {
            return self.prepare_counter(b, plan, Some(added), first);
        }
        match &*e.node {
            Node::Local(local) if *local == plan.vectors.variable => {
                self.prepare_counter(b, plan, None, first);
            }
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
            Node::Load(buffer, index) => self.open_stream(b, plan, buffer.0, index, first),
            Node::Unary(op, x) => {
                match op {
                    Unary::Negate if e.ty == Scalar::F32 => self.splat(b, plan, i32::MIN),
                    Unary::FloatAbs => self.splat(b, plan, i32::MAX),
                    Unary::Negate => self.splat(b, plan, 0),
                    Unary::BoolToInteger => {
                        self.splat(b, plan, 0);
                        self.splat(b, plan, 1);
                    }
                    _ => {}
                }
                self.prepare_value(b, plan, x, first, false);
            }
            Node::Binary(op, x, y) => {
                let shift = matches!(
                    op,
                    Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned
                );
                self.prepare_value(b, plan, x, first, false);
                if is_upper_half(*op, y, plan.width) {
                    return self.splat(b, plan, 0);
                }
                self.prepare_value(b, plan, y, first, shift && self.stays(plan, y));
            }
            Node::Compare(_, x, y) => {
                self.prepare_value(b, plan, x, first, false);
                self.prepare_value(b, plan, y, first, false);
            }
            Node::Select(c, x, y) => {
                self.prepare_value(b, plan, c, first, false);
                self.prepare_value(b, plan, x, first, false);
                self.prepare_value(b, plan, y, first, false);
            }
        }
        if e.ty == Scalar::Bool {
            self.splat(b, plan, 0);
        }
    }

    /// The first values of the loop variable, or of it and something that stays, and what is added to them.
    fn prepare_counter(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        added: Option<&Expr>,
        first: &Linear,
    ) {
        if plan.counters.iter().any(|counter| counter.added.as_ref() == added) {
            return;
        }
        let step = plan.part_lanes();
        self.prepare_value(b, plan, &step, first, false);
        let numbers = self.lane_numbers(b, plan);
        let start = plan.start.clone().truncate();
        let start = added.map_or(start.clone(), |added| start + added.clone());
        let start = self.value(b, &start);
        let start = b.emit(Opcode::VsplatW, (start,));
        let first = b.emit(Opcode::VaddW, (numbers, start));
        plan.counters.push(Counter { added: added.cloned(), first, others: Vec::new() });
    }

    /// The number of each lane.
    fn lane_numbers(&mut self, b: &mut Builder, plan: &mut Plan) -> Register {
        if let Some(numbers) = plan.numbers {
            return numbers;
        }
        let zero = b.zero();
        let one = b.constant(1);
        let one = b.emit(Opcode::VsplatW, (one,));
        let word = b.constant(-4);
        // From each lane modulo 2^k to modulo 2^(k + 1): twice that, and one more, in turn.
        let mut numbers = b.emit(Opcode::VsplatW, (zero,));
        for _ in 0..5 {
            let even = b.emit(Opcode::VaddW, (numbers, numbers));
            let odd = b.emit(Opcode::VaddW, (even, one));
            numbers = b.emit(Opcode::Vshuff, (odd, even, word)).low();
        }
        plan.numbers = Some(numbers);
        numbers
    }

    pub(super) fn splat(&mut self, b: &mut Builder, plan: &mut Plan, number: i32) {
        self.prepare_value(b, plan, &Expr::i32(number), &Linear::default(), false);
    }

    pub(super) fn known(&mut self, plan: &Plan, e: &Expr, scalar: bool) -> Register {
        let known = if scalar { &plan.scalars } else { &plan.splats };
        match known.iter().find(|(k, _)| k == e) {
            Some((_, register)) => *register,
            None => {
                self.failure = Some("a value was not prepared for a vector loop".into());
                plan.streams.first().map_or(Register::fixed(Class::R, 0), |s| s.pointer)
            }
        }
    }
}
