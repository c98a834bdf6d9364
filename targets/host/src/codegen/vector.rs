//! Innermost loops as vectors of 128 bits (the widest that Cranelift has), with the same bits.
//!
//! A loop qualifies if its body only assigns and stores, every access walks its buffer one element a round or stays
//! put, and no round depends on another but through exact (integer) sums, extrema and bit operations. A round of the
//! vector loop does [`Plan::parts`] times four rounds; the rest runs as scalars.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{BlockArg, Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use trainc_ir::Element;
use trainc_ir::loops::{
    Binary, Buffer, Comparison, Expr, Local, LoopKernel, Node, Scalar, Stmt, Unary, each_expression,
};
use trainc_loops::{Linear, count_uses};

use super::expression::{element_shift, integer_condition};
use super::loop_kernel::Emitter;

/// Elements of a 128-bit vector of 32-bit lanes.
const LANES: i64 = 4;

/// A value of every round that a vector round does: one vector of four lanes a part. Truth values are all ones or
/// all zeros a lane.
type Parts = Vec<Value>;

/// A local that rounds combine: `local = local op value`.
struct Reduction {
    local: Local,
    op: Binary,
    value: Expr,
}

/// What a loop's body does.
enum Action<'a> {
    Assign(Local, &'a Expr),
    Store(Buffer, &'a Expr, &'a Expr),
    Reduce(usize),
}

/// A loop that can run as vectors.
pub(super) struct Plan<'a> {
    variable: Local,
    actions: Vec<Action<'a>>,
    reductions: Vec<Reduction>,
    /// Locals that each round sets before it reads them.
    private: Vec<Local>,
    stored: Vec<Buffer>,
    /// Vectors of four lanes a value has.
    parts: usize,
}

/// How an expression varies over a vector round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The same in each round.
    Uniform,
    /// A vector.
    Vector,
    /// Neither.
    Other,
}

impl<'a> Plan<'a> {
    /// The plan of a loop; `trip` is its number of rounds where that is known, `body` is `original` by
    /// [`with_indices_inline`].
    pub(super) fn of(
        emitter: &Emitter<'_, '_>,
        variable: Local,
        trip: Option<i64>,
        original: &[Stmt],
        body: &'a [Stmt],
    ) -> Option<Plan<'a>> {
        let (kernel, uses) = (emitter.kernel, &emitter.uses);
        let own = count_uses(kernel, original);
        // The loop itself mentions its variable once.
        if own[variable.0 as usize] + 1 != uses[variable.0 as usize] {
            return None;
        }
        let mut plan = Plan {
            variable,
            actions: Vec::new(),
            reductions: Vec::new(),
            private: Vec::new(),
            stored: Vec::new(),
            parts: 4,
        };
        // What the loop stores and sets must be known before anything is called uniform.
        for statement in body {
            match statement {
                Stmt::Store(buffer, ..) => plan.stored.push(*buffer),
                Stmt::Assign(local, value) => match reduction(*local, value, own[local.0 as usize])
                {
                    Some(reduction) => plan.reductions.push(reduction),
                    None if own[local.0 as usize] == uses[local.0 as usize] => {
                        plan.private.push(*local);
                    }
                    None => return None,
                },
                Stmt::For { .. } | Stmt::If { .. } => return None,
            }
        }
        let mut narrow = false;
        let mut set: Vec<Local> = Vec::new();
        let mut stores: Vec<(Buffer, &Expr)> = Vec::new();
        for statement in body {
            match statement {
                Stmt::Assign(local, value) => {
                    let reduction = plan.reductions.iter().position(|r| r.local == *local);
                    let value = match reduction {
                        Some(i) => &plan.reductions[i].value,
                        None => value,
                    };
                    if !plan.fits(emitter, value, &set, &mut narrow) {
                        return None;
                    }
                    match reduction {
                        Some(i) => plan.actions.push(Action::Reduce(i)),
                        None => {
                            set.push(*local);
                            plan.actions.push(Action::Assign(*local, value_of(statement)?));
                        }
                    }
                }
                Stmt::Store(buffer, index, value) => {
                    narrow |= element_shift(kernel.buffers[buffer.0 as usize].element) < 2;
                    let scalar = matches!(value.ty, Scalar::I32 | Scalar::F32 | Scalar::Bool);
                    if !scalar
                        || plan.stride(index) != Some(1)
                        || !plan.fits(emitter, value, &set, &mut narrow)
                    {
                        return None;
                    }
                    stores.push((*buffer, index));
                    plan.actions.push(Action::Store(*buffer, index, value));
                }
                Stmt::For { .. } | Stmt::If { .. } => return None,
            }
        }
        // Within a buffer that is stored, all accesses are to one place: rounds do not meet.
        let mut accesses = stores.clone();
        each_expression(body, &mut |e| {
            e.each_load(&mut |buffer, index| accesses.push((buffer, index)))
        });
        for (buffer, index) in &stores {
            if accesses.iter().any(|(other, at)| other == buffer && at != index) {
                return None;
            }
        }
        plan.parts = match trip {
            Some(trip) if trip < LANES || (trip < 4 * LANES && narrow) => return None,
            Some(trip) if trip < 4 * LANES => (trip / LANES).min(2) as usize,
            _ => 4,
        };
        Some(plan)
    }

    /// Rounds of the loop that a vector round does: a power of two.
    pub(super) fn rounds(&self) -> i64 {
        LANES * self.parts as i64
    }

    /// Elements that an index advances a round, if that is constant.
    fn stride(&self, index: &Expr) -> Option<i64> {
        let mut stride = 0;
        for (factor, term) in Linear::of(index).terms {
            match &*term.node {
                Node::Local(local) if *local == self.variable => stride += factor,
                _ if self.uniform(&term) => {}
                _ => return None,
            }
        }
        Some(stride)
    }

    /// Whether an expression is the same in each round.
    fn uniform(&self, e: &Expr) -> bool {
        match &*e.node {
            Node::Integer(_) | Node::Float(_) => true,
            Node::Local(local) => {
                *local != self.variable
                    && !self.private.contains(local)
                    && self.reductions.iter().all(|r| r.local != *local)
            }
            Node::Load(buffer, index) => !self.stored.contains(buffer) && self.uniform(index),
            Node::Unary(_, x) => self.uniform(x),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => self.uniform(a) && self.uniform(b),
            Node::Select(c, a, b) => self.uniform(c) && self.uniform(a) && self.uniform(b),
        }
    }

    fn shape(
        &self,
        emitter: &Emitter<'_, '_>,
        e: &Expr,
        set: &[Local],
        narrow: &mut bool,
    ) -> Shape {
        let kernel = emitter.kernel;
        if self.uniform(e) {
            return Shape::Uniform;
        }
        let mut vector = |e: &Expr| self.shape(emitter, e, set, narrow) != Shape::Other;
        let fits = match &*e.node {
            Node::Integer(_) | Node::Float(_) => true,
            Node::Local(local) => set.contains(local) && e.ty != Scalar::I64,
            Node::Load(buffer, index) => {
                *narrow |= element_shift(kernel.buffers[buffer.0 as usize].element) < 2;
                self.stride(index) == Some(1)
            }
            Node::Unary(op, x) => {
                !matches!(
                    op,
                    Unary::LeadingZeros | Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate
                ) && vector(x)
            }
            Node::Binary(op, a, b) => match op {
                _ if e.ty == Scalar::I64 => false,
                Binary::Divide => e.ty == Scalar::F32 && vector(a) && vector(b),
                Binary::Remainder => false,
                // One amount for all lanes.
                Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => {
                    vector(a) && self.uniform(b)
                }
                _ => vector(a) && vector(b),
            },
            Node::Compare(comparison, a, b) => match a.ty {
                Scalar::I64 => false,
                Scalar::Bool => {
                    matches!(comparison, Comparison::Equal | Comparison::NotEqual)
                        && vector(a)
                        && vector(b)
                }
                Scalar::I32 | Scalar::F32 => vector(a) && vector(b),
            },
            Node::Select(c, a, b) => {
                emitter.may_select(c, a, b)
                    && e.ty != Scalar::I64
                    && vector(c)
                    && vector(a)
                    && vector(b)
            }
        };
        if fits { Shape::Vector } else { Shape::Other }
    }

    fn fits(&self, emitter: &Emitter<'_, '_>, e: &Expr, set: &[Local], narrow: &mut bool) -> bool {
        self.shape(emitter, e, set, narrow) != Shape::Other && e.ty != Scalar::I64
    }
}

/// A body with the indices that it names put where they are used, so that strides show.
pub(super) fn with_indices_inline(kernel: &LoopKernel, body: &[Stmt], uses: &[usize]) -> Vec<Stmt> {
    let own = count_uses(kernel, body);
    let assigned = |local: Local| {
        let is = |s: &&Stmt| matches!(s, Stmt::Assign(l, _) if *l == local);
        body.iter().filter(is).count()
    };
    let mut named: Vec<(Local, Expr)> = Vec::new();
    let mut statements = Vec::new();
    for statement in body {
        let substituted = match statement {
            Stmt::Assign(local, value) => {
                let value = substitute(value, &named);
                if value.ty == Scalar::I64
                    && !value.loads()
                    && assigned(*local) == 1
                    && own[local.0 as usize] == uses[local.0 as usize]
                    && !value.mentions(|l| assigned(l) != 0)
                {
                    named.push((*local, value));
                    continue;
                }
                Stmt::Assign(*local, value)
            }
            Stmt::Store(buffer, index, value) => {
                Stmt::Store(*buffer, substitute(index, &named), substitute(value, &named))
            }
            // Such a body is no vector's.
            Stmt::For { .. } | Stmt::If { .. } => return body.to_vec(),
        };
        statements.push(substituted);
    }
    statements
}

fn substitute(e: &Expr, named: &[(Local, Expr)]) -> Expr {
    let found = e.as_local().and_then(|local| named.iter().find(|(l, _)| *l == local));
    match found {
        Some((_, value)) => value.clone(),
        None => e.map_operands(&mut |x| Some(substitute(x, named))).unwrap_or_else(|| e.clone()),
    }
}

fn value_of(statement: &Stmt) -> Option<&Expr> {
    match statement {
        Stmt::Assign(_, value) => Some(value),
        _ => None,
    }
}

/// `local = local op value` with an exact operation, the body's only mention of the local.
fn reduction(local: Local, value: &Expr, mentions: usize) -> Option<Reduction> {
    let exact = matches!(
        value.node.as_ref(),
        Node::Binary(
            Binary::Add
                | Binary::Minimum
                | Binary::Maximum
                | Binary::And
                | Binary::Or
                | Binary::Xor,
            ..
        )
    );
    if !exact || value.ty != Scalar::I32 || mentions != 2 {
        return None;
    }
    let Node::Binary(op, a, b) = &*value.node else { return None };
    let is_local = |e: &Expr| matches!(*e.node, Node::Local(l) if l == local);
    let value = if is_local(a) {
        b.clone()
    } else if is_local(b) {
        a.clone()
    } else {
        return None;
    };
    Some(Reduction { local, op: *op, value })
}

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
    plan: &'p Plan<'p>,
    /// Values of private locals.
    values: Vec<(Local, Parts)>,
    accumulators: Vec<Parts>,
}

impl<'a> Emitter<'a, '_> {
    /// Emits the rounds from `first` that fill vectors; gives the first round that is left.
    pub(super) fn vector_loop(
        &mut self,
        plan: &Plan<'_>,
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
        let mut initial = Vec::new();
        for reduction in &plan.reductions {
            let identity = match reduction.op {
                Binary::Minimum => i32::MAX,
                Binary::Maximum => i32::MIN,
                Binary::And => -1,
                _ => 0,
            };
            let scalar = self.integer(Scalar::I32, i64::from(identity));
            let splat = self.builder.ins().splat(types::I32X4, scalar);
            initial.push(vec![splat; plan.parts]);
        }
        let sums = |e: &mut Self, block| -> Vec<Parts> {
            let mut part = || e.builder.append_block_param(block, types::I32X4);
            initial.iter().map(|p| p.iter().map(|_| part()).collect()).collect()
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
        self.assign(plan.variable, index);
        for local in &plan.private {
            self.depths[local.0 as usize] = self.depth;
        }
        let mut lanes = Lanes { emitter: self, plan, values: Vec::new(), accumulators };
        for action in &plan.actions {
            lanes.action(action);
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
        for (reduction, parts) in plan.reductions.iter().zip(totals) {
            self.reduce(reduction, &parts);
        }
        left
    }

    /// Joins the lanes of a reduction with its local.
    fn reduce(&mut self, reduction: &Reduction, parts: &[Value]) {
        let mut vector = parts[0];
        for &part in &parts[1..] {
            vector = self.join(reduction.op, vector, part);
        }
        let variable = self.locals[reduction.local.0 as usize];
        let mut value = self.builder.use_var(variable);
        for lane in 0..LANES as u8 {
            let element = self.builder.ins().extractlane(vector, lane);
            value = self.join(reduction.op, value, element);
        }
        self.assign(reduction.local, value);
    }

    fn join(&mut self, op: Binary, a: Value, b: Value) -> Value {
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
    fn action(&mut self, action: &Action<'_>) {
        match action {
            Action::Assign(local, value) => {
                let parts = self.parts(value);
                self.values.retain(|(l, _)| l != local);
                self.values.push((*local, parts));
            }
            Action::Reduce(i) => {
                let plan = self.plan;
                let reduction = &plan.reductions[*i];
                let parts = self.parts(&reduction.value);
                for (part, value) in parts.into_iter().enumerate() {
                    let sum = self.accumulators[*i][part];
                    self.accumulators[*i][part] = self.emitter.join(reduction.op, sum, value);
                }
            }
            Action::Store(buffer, index, value) => self.store(*buffer, index, value),
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
        if plan.uniform(e) {
            let mut value = self.emitter.value(e);
            if e.ty == Scalar::Bool {
                value = self.emitter.builder.ins().bmask(types::I32, value);
            }
            let splat = self.emitter.builder.ins().splat(vector_type(e.ty), value);
            return vec![splat; plan.parts];
        }
        match &*e.node {
            Node::Integer(_) | Node::Float(_) => unreachable!("uniform"),
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
                Unary::LeadingZeros | Unary::Extend | Unary::ExtendUnsigned | Unary::Truncate => {
                    unreachable!("not planned")
                }
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
                (_, op) => s.emitter.join(op, a, b),
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
                let ty = if element == Element::F32 { types::F32X4 } else { types::I32X4 };
                (0..count).map(|n| load(ty, n)).collect()
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
