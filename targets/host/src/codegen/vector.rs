//! Innermost loops as vectors of 128 bits (the widest that Cranelift has), with the same bits.
//!
//! Which loops qualify is [`VectorLoop`]'s to say, from what [`Words`] can do. A round of the vector loop
//! does [`Plan::parts`] times four rounds; the rest runs as scalars.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{BlockArg, Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use trainc_ir::Element;
use trainc_ir::loops::{Binary, Buffer, Comparison, Expr, Local, Node, Scalar, Unary};
use trainc_loops::{Form, Known, Place, Reason, Reduction, Step, VectorLoop, Vectors};

use super::expression::{element_shift, integer_condition};
use super::loop_kernel::Emitter;

/// Elements of a 128-bit vector of 32-bit lanes.
const LANES: i64 = 4;

/// A value of every round that a vector round does: one vector of four lanes a part. Truth values are all ones or
/// all zeros a lane.
type Parts = Vec<Value>;

/// A loop that can run as vectors.
pub(super) struct Plan {
    plan: VectorLoop,
    /// Vectors of four lanes a value has.
    parts: usize,
}

impl Plan {
    /// The plan of a loop.
    ///
    /// # Errors
    /// Why it stays scalar.
    pub(super) fn of(place: &Place<'_>) -> Result<Plan, Reason> {
        let plan = VectorLoop::of(place, &Words)?;
        let parts = match place.rounds() {
            Some(rounds) if rounds < 4 * LANES => (rounds / LANES).min(2) as usize,
            _ => 4,
        };
        Ok(Plan { plan, parts })
    }

    /// Rounds of the loop that a vector round does: a power of two.
    pub(super) fn rounds(&self) -> i64 {
        LANES * self.parts as i64
    }
}

/// Lanes of 32 bits.
pub(super) struct Words;

impl Vectors for Words {
    /// Of 64 bits the low half is kept, which is all that [`Unary::Truncate`] asks for: other users are refused.
    fn value_bits(&self, _: &Expr, _: u32, _: &Known<'_>) -> Result<u32, Reason> {
        Ok(32)
    }

    fn counter_bits(&self) -> Option<u32> {
        Some(32)
    }

    fn form<'e>(&self, e: &'e Expr, _: u32, known: &Known<'_>) -> Result<Form<'e>, Reason> {
        let is_wide = |e: &Expr| e.ty == Scalar::I64;
        match &*e.node {
            // Their low halves are those of their operands' low halves.
            Node::Unary(Unary::Truncate | Unary::Extend | Unary::ExtendUnsigned, _)
            | Node::Binary(Binary::Add | Binary::Subtract | Binary::Multiply, ..)
                if is_wide(e) || e.operands().any(is_wide) =>
            {
                Ok(Form::of(e, 32))
            }
            _ if is_wide(e) || e.operands().any(is_wide) => Err(Reason::Wide),
            Node::Unary(op @ Unary::LeadingZeros, _) => Err(Reason::Unary(*op)),
            Node::Binary(op @ (Binary::Divide | Binary::Remainder), ..) if e.ty != Scalar::F32 => {
                Err(Reason::Binary(*op))
            }
            // One amount for all lanes.
            Node::Binary(
                op @ (Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned),
                _,
                amount,
            ) if !known.is_uniform(amount) => Err(Reason::Binary(*op)),
            _ => Ok(Form::of(e, 32)),
        }
    }

    fn reduction<'e>(&self, r: &'e Reduction, known: &Known<'_>) -> Result<Form<'e>, Reason> {
        match r.value.ty {
            Scalar::F32 if known.is_magnitude(&r.value) => Ok(Form::of_one(&r.value, 32)),
            Scalar::F32 => Err(Reason::FloatOrder(r.local)),
            Scalar::I32 => Ok(Form::of_one(&r.value, 32)),
            _ => Err(Reason::Reduction(r.local)),
        }
    }

    fn least_rounds(&self, plan: &VectorLoop) -> i64 {
        // Narrow elements fill whole vectors.
        if plan.element_bits < 32 { 4 * LANES } else { LANES }
    }
}

/// The lanes of a value: of 64 bits the low half.
fn vector_type(ty: Scalar) -> Type {
    if ty == Scalar::F32 { types::F32X4 } else { types::I32X4 }
}

/// The flags of a cast between vectors of other lanes: both machines are little-endian.
fn cast() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

/// The code of one vector loop.
struct Lanes<'e, 'a, 'f, 'p> {
    emitter: &'e mut Emitter<'a, 'f>,
    plan: &'p Plan,
    /// Values of private locals.
    values: Vec<(Local, Parts)>,
    accumulators: Vec<Parts>,
}

impl<'a> Emitter<'a, '_> {
    /// Emits the rounds from `first` that fill vectors; gives the first round that is left.
    pub(super) fn vector_loop(
        &mut self,
        plan: &Plan,
        first: Value,
        last: Value,
        trip: Option<i64>,
    ) -> Value {
        let rounds = plan.rounds();
        let certain = trip.is_some_and(|trip| trip >= rounds);
        let count = self.builder.ins().isub(last, first);
        // Rounds of the whole vectors; rounds() is a power of two.
        let whole = self.builder.ins().band_imm_s(count, -rounds);
        let end = self.builder.ins().iadd(first, whole);
        let [round, done] = [(); 2].map(|()| self.builder.create_block());
        let index = self.builder.append_block_param(round, types::I64);
        let left = self.builder.append_block_param(done, types::I64);
        for step in &plan.plan.steps {
            if let Step::Once(local, value) = step {
                let value = self.value(value);
                self.assign(*local, value);
            }
        }
        let mut initial = Vec::new();
        for reduction in &plan.plan.reductions {
            let ty = reduction.value.ty;
            let scalar = match ty {
                Scalar::F32 => self.builder.ins().f32const(f32::NEG_INFINITY),
                _ => self.integer(Scalar::I32, reduction.identity(32).into()),
            };
            let splat = self.builder.ins().splat(vector_type(ty), scalar);
            initial.push(vec![splat; plan.parts]);
        }
        let kinds = plan.plan.reductions.iter().map(|r| vector_type(r.value.ty));
        let kinds: Vec<Type> = kinds.collect();
        let sums = |e: &mut Self, block| -> Vec<Parts> {
            let mut part = |kind| e.builder.append_block_param(block, kind);
            initial.iter().zip(&kinds).map(|(p, &k)| p.iter().map(|_| part(k)).collect()).collect()
        };
        let accumulators = sums(self, round);
        let totals = sums(self, done);
        let arguments = |index: Value, parts: &[Parts]| -> Vec<BlockArg> {
            std::iter::once(&index).chain(parts.iter().flatten()).map(|&v| v.into()).collect()
        };
        if certain {
            self.builder.ins().jump(round, &arguments(first, &initial));
        } else {
            let any = self.builder.ins().icmp(IntCC::SignedLessThan, first, end);
            self.builder.ins().brif(
                any,
                round,
                &arguments(first, &initial),
                done,
                &arguments(first, &initial),
            );
        }
        self.builder.switch_to_block(round);
        self.depth += 1;
        self.guards += usize::from(!certain);
        self.assign(plan.plan.variable, index);
        let mut lanes = Lanes { emitter: self, plan, values: Vec::new(), accumulators };
        for step in &plan.plan.steps {
            lanes.step(step);
        }
        let accumulators = lanes.accumulators;
        self.guards -= usize::from(!certain);
        self.depth -= 1;
        let next = self.builder.ins().iadd_imm_s(index, rounds);
        let more = self.builder.ins().icmp(IntCC::SignedLessThan, next, end);
        self.builder.ins().brif(
            more,
            round,
            &arguments(next, &accumulators),
            done,
            &arguments(next, &accumulators),
        );
        self.builder.seal_block(round);
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
        for (reduction, parts) in plan.plan.reductions.iter().zip(totals) {
            self.reduce(reduction, &parts);
        }
        left
    }

    /// Joins the lanes of a reduction with its local.
    fn reduce(&mut self, reduction: &Reduction, parts: &[Value]) {
        let mut vector = parts[0];
        for &part in &parts[1..] {
            vector = self.join(reduction, vector, part);
        }
        let variable = self.locals[reduction.local.0 as usize];
        let mut value = self.builder.use_var(variable);
        for lane in 0..LANES as u8 {
            let element = self.builder.ins().extractlane(vector, lane);
            value = self.join(reduction, value, element);
        }
        self.assign(reduction.local, value);
    }

    /// What is combined so far with one more, of vectors or of scalars.
    fn join(&mut self, reduction: &Reduction, so_far: Value, value: Value) -> Value {
        if reduction.value.ty == Scalar::F32 {
            // The maximum, which NaNs leave as it is.
            let greater = self.builder.ins().fcmp(FloatCC::GreaterThan, value, so_far);
            if self.builder.func.dfg.value_type(value) == types::F32 {
                return self.builder.ins().select(greater, value, so_far);
            }
            let greater = self.builder.ins().bitcast(types::F32X4, cast(), greater);
            return self.builder.ins().bitselect(greater, value, so_far);
        }
        self.integers(reduction.op, so_far, value)
    }

    fn integers(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let ins = self.builder.ins();
        match op {
            Binary::Add => ins.iadd(a, b),
            Binary::Minimum => ins.smin(a, b),
            Binary::Maximum => ins.smax(a, b),
            Binary::And => ins.band(a, b),
            Binary::Or => ins.bor(a, b),
            Binary::Xor => ins.bxor(a, b),
            _ => unreachable!("not a reduction"),
        }
    }
}

impl Lanes<'_, '_, '_, '_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Assign(local, value) => {
                let parts = self.parts(value);
                self.values.push((*local, parts));
            }
            Step::Reduce(i, value) => {
                let reduction = &self.plan.plan.reductions[*i];
                let parts = self.parts(value);
                for (part, value) in parts.into_iter().enumerate() {
                    let sum = self.accumulators[*i][part];
                    self.accumulators[*i][part] = self.emitter.join(reduction, sum, value);
                }
            }
            Step::Store(buffer, index, value) => self.store(*buffer, index, value),
            // Set ahead of the loop.
            Step::Once(..) => {}
            Step::Change(..) | Step::Loop { .. } => unreachable!("not offered"),
        }
    }

    fn map(&mut self, parts: &[Value], mut f: impl FnMut(&mut Self, Value) -> Value) -> Parts {
        parts.iter().map(|&x| f(self, x)).collect()
    }

    fn zip(
        &mut self,
        a: &[Value],
        b: &[Value],
        mut f: impl FnMut(&mut Self, Value, Value) -> Value,
    ) -> Parts {
        a.iter().zip(b).map(|(&x, &y)| f(self, x, y)).collect()
    }

    fn parts(&mut self, e: &Expr) -> Parts {
        let plan = self.plan;
        if !plan.plan.changes.touch(e, &|a, b| a == b) {
            let mut value = self.emitter.value(e);
            match e.ty {
                Scalar::Bool => value = self.emitter.builder.ins().bmask(types::I32, value),
                Scalar::I64 => value = self.emitter.builder.ins().ireduce(types::I32, value),
                Scalar::I32 | Scalar::F32 => {}
            }
            let splat = self.emitter.builder.ins().splat(vector_type(e.ty), value);
            return vec![splat; plan.parts];
        }
        match &*e.node {
            Node::Integer(_) | Node::Float(_) => unreachable!("uniform"),
            Node::Local(local) if *local == plan.plan.variable => self.counter(e),
            Node::Local(local) => {
                let found = self.values.iter().find(|(l, _)| l == local);
                found.map(|(_, parts)| parts.clone()).expect("set before, as planned")
            }
            Node::Load(buffer, index) => self.load(*buffer, index),
            Node::Unary(op, x) => self.unary(*op, x),
            Node::Binary(op, a, b) => self.binary(*op, a, b),
            Node::Compare(comparison, a, b) => {
                let (ty, x, y) = (a.ty, self.parts(a), self.parts(b));
                self.zip(&x, &y, |s, x, y| {
                    let ins = s.emitter.builder.ins();
                    match (ty, comparison) {
                        (Scalar::F32, Comparison::Equal) => ins.fcmp(FloatCC::Equal, x, y),
                        (Scalar::F32, Comparison::NotEqual) => ins.fcmp(FloatCC::NotEqual, x, y),
                        (Scalar::F32, Comparison::Less) => ins.fcmp(FloatCC::LessThan, x, y),
                        (Scalar::F32, _) => ins.fcmp(FloatCC::LessThanOrEqual, x, y),
                        (_, comparison) => ins.icmp(integer_condition(*comparison), x, y),
                    }
                })
            }
            Node::Select(c, a, b) => {
                let (ty, c, a, b) = (e.ty, self.parts(c), self.parts(a), self.parts(b));
                (0..c.len()).map(|i| self.choose(ty, c[i], a[i], b[i])).collect()
            }
        }
    }

    /// The low half of the loop variable in each round.
    fn counter(&mut self, variable: &Expr) -> Parts {
        let first = self.emitter.value(variable);
        let builder = &mut self.emitter.builder;
        let first = builder.ins().ireduce(types::I32, first);
        let first = builder.ins().splat(types::I32X4, first);
        (0..self.plan.parts as i32)
            .map(|part| {
                let rounds =
                    (0..LANES as i32).flat_map(|lane| (part * LANES as i32 + lane).to_le_bytes());
                let rounds = builder.func.dfg.constants.insert(rounds.collect::<Vec<u8>>().into());
                let rounds = builder.ins().vconst(types::I32X4, rounds);
                builder.ins().iadd(first, rounds)
            })
            .collect()
    }

    fn choose(&mut self, ty: Scalar, mask: Value, a: Value, b: Value) -> Value {
        let ins = self.emitter.builder.ins();
        let mask = if ty == Scalar::F32 { ins.bitcast(types::F32X4, cast(), mask) } else { mask };
        self.emitter.builder.ins().bitselect(mask, a, b)
    }

    fn unary(&mut self, op: Unary, operand: &Expr) -> Parts {
        let (float, x) = (operand.ty == Scalar::F32, self.parts(operand));
        self.map(&x, |s, x| {
            let ins = s.emitter.builder.ins();
            match op {
                Unary::Negate if float => ins.fneg(x),
                Unary::Negate => ins.ineg(x),
                Unary::FloatAbs => ins.fabs(x),
                Unary::Sqrt => ins.sqrt(x),
                Unary::RoundTiesEven => ins.nearest(x),
                Unary::Floor => ins.floor(x),
                Unary::Ceil => ins.ceil(x),
                Unary::ToFloat => ins.fcvt_from_sint(types::F32X4, x),
                Unary::ToInteger => ins.fcvt_to_sint_sat(types::I32X4, x),
                Unary::ToBits => ins.bitcast(types::I32X4, cast(), x),
                Unary::FromBits => ins.bitcast(types::F32X4, cast(), x),
                Unary::Not => ins.bnot(x),
                // All ones are -1.
                Unary::BoolToInteger => ins.ineg(x),
                // Lanes have the low half of 64 bits.
                Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate => x,
                Unary::LeadingZeros => unreachable!("not planned"),
            }
        })
    }

    fn binary(&mut self, op: Binary, left: &Expr, right: &Expr) -> Parts {
        let (ty, a) = (left.ty, self.parts(left));
        if let Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned = op {
            let amount = self.emitter.value(right);
            return self.map(&a, |s, a| {
                let ins = s.emitter.builder.ins();
                match op {
                    Binary::ShiftLeft => ins.ishl(a, amount),
                    Binary::ShiftRight => ins.sshr(a, amount),
                    _ => ins.ushr(a, amount),
                }
            });
        }
        let b = self.parts(right);
        self.zip(&a, &b, |s, a, b| {
            let ins = s.emitter.builder.ins();
            match (ty, op) {
                (Scalar::F32, Binary::Add) => ins.fadd(a, b),
                (Scalar::F32, Binary::Subtract) => ins.fsub(a, b),
                (Scalar::F32, Binary::Multiply) => ins.fmul(a, b),
                (Scalar::F32, Binary::Divide) => ins.fdiv(a, b),
                (Scalar::F32, Binary::Minimum) => {
                    let less = ins.fcmp(FloatCC::LessThan, a, b);
                    s.choose(ty, less, a, b)
                }
                (Scalar::F32, Binary::Maximum) => {
                    let less = ins.fcmp(FloatCC::LessThan, b, a);
                    s.choose(ty, less, a, b)
                }
                (_, Binary::Subtract) => ins.isub(a, b),
                (_, Binary::Multiply) => ins.imul(a, b),
                (_, op) => s.emitter.integers(op, a, b),
            }
        })
    }

    /// Loads the elements of the rounds, widened to 32 bits.
    fn load(&mut self, buffer: Buffer, index: &Expr) -> Parts {
        let (address, offset) = self.emitter.address(buffer, index);
        let flags = MemFlagsData::new().with_notrap();
        let element = self.emitter.kernel.buffers[buffer.0 as usize].element;
        let count = self.plan.parts;
        let mut load = |ty: Type, n: usize| {
            let offset = offset + 16 * n as i32;
            self.emitter.builder.ins().load(ty, flags, address, offset)
        };
        match element_shift(element) {
            2 => {
                let words: Parts = (0..count).map(|n| load(types::I32X4, n)).collect();
                if element != Element::F32 {
                    return words;
                }
                // Cast, so that Cranelift does not make the load an operand of `cmpps`, which wants it aligned.
                let ins = |word| self.emitter.builder.ins().bitcast(types::F32X4, cast(), word);
                words.into_iter().map(ins).collect()
            }
            1 => {
                let halves: Parts = (0..2).map(|n| load(types::I16X8, n)).collect();
                self.widen(&halves, element == Element::I16)
            }
            _ => {
                let bytes = [load(types::I8X16, 0)];
                let signed = matches!(element, Element::I2 | Element::I4 | Element::I8);
                let halves = self.widen(&bytes, signed);
                self.widen(&halves, signed)
            }
        }
    }

    fn widen(&mut self, vectors: &[Value], signed: bool) -> Parts {
        let builder = &mut self.emitter.builder;
        vectors
            .iter()
            .flat_map(|&v| {
                if signed {
                    [builder.ins().swiden_low(v), builder.ins().swiden_high(v)]
                } else {
                    [builder.ins().uwiden_low(v), builder.ins().uwiden_high(v)]
                }
            })
            .collect()
    }

    fn store(&mut self, buffer: Buffer, index: &Expr, value: &Expr) {
        let mut parts = self.parts(value);
        if value.ty == Scalar::Bool {
            parts = self.map(&parts, |s, x| s.emitter.builder.ins().ineg(x));
        }
        let shift = element_shift(self.emitter.kernel.buffers[buffer.0 as usize].element);
        if shift < 2 {
            // Truncation: without the upper bits, narrowing does not saturate.
            let mask = if shift == 1 { 0xffff } else { 0xff };
            let mask = self.emitter.integer(Scalar::I32, mask);
            let mask = self.emitter.builder.ins().splat(types::I32X4, mask);
            parts = self.map(&parts, |s, x| s.emitter.builder.ins().band(x, mask));
            parts = self.narrow(&parts);
        }
        if shift == 0 {
            parts = self.narrow(&parts);
        }
        let (address, offset) = self.emitter.address(buffer, index);
        for (n, part) in parts.into_iter().enumerate() {
            let flags = MemFlagsData::new().with_notrap();
            self.emitter.builder.ins().store(flags, part, address, offset + 16 * n as i32);
        }
    }

    /// Pairs of vectors to one of half the width, for values that fit it unsigned.
    fn narrow(&mut self, parts: &[Value]) -> Parts {
        let builder = &mut self.emitter.builder;
        parts.as_chunks::<2>().0.iter().map(|&[a, b]| builder.ins().unarrow(a, b)).collect()
    }
}
