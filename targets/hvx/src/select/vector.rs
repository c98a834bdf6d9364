//! Innermost loops over neighbouring elements on HVX: lanes of 32 bits, or of 16 or 8 where all values fit, as many
//! rounds at once as a vector holds of the narrowest element; a scalar loop does the rest.
//!
//! Narrower elements are widened in order and stored truncated, so lanes hold what the scalar core would. Sums, extremes
//! and bits that all rounds add to one local are kept by lane, and folded after the loop: all of these operations give
//! the same bits in any order.

use std::collections::BTreeMap;

use trainc_c::analysis::reads;
use trainc_ir::Element;
use trainc_ir::loops::{Binary, Comparison, Expr, Local, Node, Scalar, Stmt, Unary};

use super::Selector;
use super::addresses::{element_bytes, height};
use super::cache::Changes;
use super::linear::Linear;
use crate::machine::{Builder, Class, Count, Opcode, Register};

/// Bytes of a vector.
const VECTOR: i32 = 128;

/// A value of one part of the lanes.
#[derive(Clone, Copy, Debug)]
enum Lanes {
    /// Words.
    Words(Register),
    /// A predicate, and whether its opposite is meant.
    Truth(Register, bool),
}

/// Neighbouring elements that a round reads or writes.
#[derive(Clone, Debug)]
struct Stream {
    buffer: u32,
    bytes: Linear,
    pointer: Register,
}

/// A local that all rounds add to.
#[derive(Clone, Debug)]
struct Reduction {
    local: Local,
    op: Binary,
    lanes: Register,
}

/// A loop that runs on vectors.
struct Plan<'e> {
    variable: Local,
    changes: Changes,
    body: &'e [Stmt],
    /// Bytes of a lane.
    width: i32,
    /// Vectors that the lanes of a round take.
    parts: usize,
    /// Rounds at once.
    lanes: i64,
    streams: Vec<Stream>,
    reductions: Vec<Reduction>,
    /// What is the same in all rounds, in every lane.
    splats: Vec<(Expr, Register)>,
    /// What is the same in all rounds, as a scalar.
    scalars: Vec<(Expr, Register)>,
    /// Words of loaded streams, all parts.
    loaded: BTreeMap<usize, Vec<Register>>,
    /// Values of the current part.
    values: Vec<(Expr, Lanes)>,
    locals: BTreeMap<Local, Lanes>,
}

impl Plan<'_> {
    /// The form of an instruction for the lanes' width.
    fn of(&self, words: Opcode, halves: Opcode, bytes: Opcode) -> Opcode {
        match self.width {
            1 => bytes,
            2 => halves,
            _ => words,
        }
    }

    fn equal(&self) -> Opcode {
        self.of(Opcode::VcompareEqW, Opcode::VcompareEqH, Opcode::VcompareEqB)
    }
}

/// The reduction that an assignment is: its operation and what it adds.
fn reduction(local: Local, value: &Expr) -> Option<(Binary, &Expr)> {
    let Node::Binary(op, a, b) = &*value.node else { return None };
    let known = matches!(op, Binary::Add | Binary::Or | Binary::Minimum | Binary::Maximum);
    let is = |e: &Expr| matches!(*e.node, Node::Local(l) if l == local);
    let other = match (is(a), is(b)) {
        (true, false) => b,
        (false, true) => a,
        _ => return None,
    };
    let integer = matches!(value.ty, Scalar::I32 | Scalar::I64);
    (known && integer && !reads(other, local)).then_some((*op, other))
}

impl Selector<'_> {
    /// Runs a loop's first rounds on vectors if it has a form for that: the number of rounds done.
    pub(super) fn vectorise(
        &mut self,
        b: &mut Builder,
        variable: Local,
        start: &Expr,
        rounds: i64,
        body: &[Stmt],
    ) -> i64 {
        if height(body) > 0 {
            return 0;
        }
        let changes = self.changes(body, Some(variable));
        let mut plan = Plan {
            variable,
            changes,
            body,
            width: 1,
            parts: 1,
            lanes: 32,
            streams: Vec::new(),
            reductions: Vec::new(),
            splats: Vec::new(),
            scalars: Vec::new(),
            loaded: BTreeMap::new(),
            values: Vec::new(),
            locals: BTreeMap::new(),
        };
        let Some(narrowest) = self.survey(&mut plan) else { return 0 };
        plan.parts = (plan.width / narrowest) as usize;
        plan.lanes = i64::from(VECTOR / narrowest);
        let count = rounds / plan.lanes;
        let Ok(times) = u32::try_from(count) else { return 0 };
        if times == 0 {
            return 0;
        }
        self.prepare(b, &mut plan, start);
        let outside = std::mem::take(&mut self.disjoint);
        self.disjoint.extend(self.disjoint_rounds(variable, body));
        let name = &self.kernel.locals[variable.0 as usize].0;
        let purpose = format!("{name}: {} at once", plan.lanes);
        match times {
            1 => self.vector_round(b, &mut plan),
            _ => b.repeat(Count::Constant(times), &purpose, |b| self.vector_round(b, &mut plan)),
        }
        self.disjoint = outside;
        for r in plan.reductions.clone() {
            self.fold(b, &r);
        }
        let changes = plan.changes;
        self.forget(&changes);
        count * plan.lanes
    }

    /// Whether a loop can run on vectors: bytes of its narrowest element.
    fn survey(&self, plan: &mut Plan<'_>) -> Option<i32> {
        let mut narrowest = None;
        let mut seen: Vec<(Local, bool)> = Vec::new();
        let mut stored = Vec::new();
        let disjoint = self.disjoint_rounds(plan.variable, plan.body);
        for statement in plan.body {
            match statement {
                Stmt::Assign(local, value) => {
                    if seen.iter().any(|(l, _)| l == local) {
                        return None;
                    }
                    if self.locals.value(*local).is_some() {
                        self.supported(plan, value, &seen, &stored, &mut narrowest)?;
                        seen.push((*local, true));
                    } else {
                        let (_, added) = reduction(*local, value)?;
                        let elsewhere = plan.body.iter().any(|s| match s {
                            Stmt::Assign(l, v) => l != local && reads(v, *local),
                            Stmt::Store(_, i, v) => reads(i, *local) || reads(v, *local),
                            _ => true,
                        });
                        if elsewhere || !self.is_narrow(value) {
                            return None;
                        }
                        self.supported(plan, added, &seen, &stored, &mut narrowest)?;
                        plan.width = 4;
                        seen.push((*local, false));
                    }
                }
                Stmt::Store(buffer, index, value) => {
                    if !disjoint.contains(&self.object(buffer.0)) {
                        return None;
                    }
                    self.stream(plan, buffer.0, index, &mut narrowest)?;
                    self.supported(plan, value, &seen, &stored, &mut narrowest)?;
                    stored.push(self.object(buffer.0));
                }
                _ => return None,
            }
        }
        narrowest
    }

    /// Whether an access is to neighbouring elements.
    fn stream(
        &self,
        plan: &mut Plan<'_>,
        buffer: u32,
        index: &Expr,
        narrowest: &mut Option<i32>,
    ) -> Option<()> {
        let element = self.kernel.buffers[buffer as usize].element;
        let size = element_bytes(element);
        let bytes = self.linear(index).scaled(size);
        let neighbours = bytes.factor(plan.variable) == size
            && element != Element::F32
            && self.steps(&bytes, plan.variable, &plan.changes);
        plan.width = plan.width.max(size);
        neighbours.then(|| *narrowest = Some(narrowest.map_or(size, |n| n.min(size))))
    }

    fn stays(&self, plan: &Plan<'_>, e: &Expr) -> bool {
        !plan.changes.touch(e, &|buffer| self.object(buffer))
    }

    fn supported(
        &self,
        plan: &mut Plan<'_>,
        e: &Expr,
        seen: &[(Local, bool)],
        stored: &[crate::machine::Object],
        narrowest: &mut Option<i32>,
    ) -> Option<()> {
        if e.ty == Scalar::F32 || !self.is_narrow(e) {
            return None;
        }
        let (low, high) = self.intervals.get(e);
        plan.width = plan.width.max(match () {
            () if low >= i8::MIN.into() && high <= i8::MAX.into() => 1,
            () if low >= i16::MIN.into() && high <= i16::MAX.into() => 2,
            () => 4,
        });
        if self.stays(plan, e) {
            return Some(());
        }
        // These have forms for words alone.
        if let Node::Binary(
            Binary::Multiply | Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned,
            ..,
        )
        | Node::Unary(Unary::LeadingZeros, _) = &*e.node
        {
            plan.width = 4;
        }
        let mut all = |operands: &[&Expr]| {
            operands.iter().try_for_each(|x| self.supported(plan, x, seen, stored, narrowest))
        };
        match &*e.node {
            Node::Integer(_) => Some(()),
            Node::Float(_) => None,
            Node::Local(local) => seen.contains(&(*local, true)).then_some(()),
            Node::Load(buffer, index) => {
                let after = stored.contains(&self.object(buffer.0));
                if after { None } else { self.stream(plan, buffer.0, index, narrowest) }
            }
            Node::Unary(op, x) => match op {
                Unary::Negate
                | Unary::LeadingZeros
                | Unary::Extend
                | Unary::Truncate
                | Unary::Not
                | Unary::BoolToInteger => all(&[x]),
                Unary::ExtendUnsigned if self.intervals.get(x).0 >= 0 => all(&[x]),
                _ => None,
            },
            Node::Binary(op, x, y) => {
                let amount = self.intervals.get(y);
                let in_word = amount.0 >= 0 && amount.1 < 32;
                match op {
                    Binary::Divide | Binary::Remainder => None,
                    Binary::ShiftLeft | Binary::ShiftRight if in_word => all(&[x, y]),
                    Binary::ShiftRightUnsigned
                        if in_word && (e.ty == Scalar::I32 || self.intervals.get(x).0 >= 0) =>
                    {
                        all(&[x, y])
                    }
                    Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => None,
                    _ => all(&[x, y]),
                }
            }
            Node::Compare(_, x, y) => all(&[x, y]),
            Node::Select(c, x, y) => all(&[c, x, y]),
        }
    }

    /// Pointers, splats and empty reductions, ahead of the loop.
    fn prepare(&mut self, b: &mut Builder, plan: &mut Plan<'_>, start: &Expr) {
        let first = self.linear(start);
        for statement in plan.body {
            match statement {
                Stmt::Assign(local, value) if self.locals.value(*local).is_none() => {
                    if let Some((op, added)) = reduction(*local, value) {
                        let empty = match op {
                            Binary::Minimum => i32::MAX,
                            Binary::Maximum => i32::MIN,
                            _ => 0,
                        };
                        let empty = b.constant(empty);
                        let lanes = b.emit(Opcode::VsplatW, (empty,));
                        plan.reductions.push(Reduction { local: *local, op, lanes });
                        self.prepare_value(b, plan, added, &first, false);
                    }
                }
                Stmt::Assign(_, value) => self.prepare_value(b, plan, value, &first, false),
                Stmt::Store(buffer, index, value) => {
                    self.open_stream(b, plan, buffer.0, index, &first);
                    self.prepare_value(b, plan, value, &first, false);
                }
                _ => {}
            }
        }
    }

    fn open_stream(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan<'_>,
        buffer: u32,
        index: &Expr,
        first: &Linear,
    ) {
        if self.find_stream(plan, buffer, index).is_some() {
            return;
        }
        let bytes = self.linear(index).scaled(self.size(buffer));
        let at = bytes.with(plan.variable, first);
        let base = self.buffers[buffer as usize].base;
        let place = self.place(b, base, &at);
        let pointer = b.emit(Opcode::AddImmediate, (place, at.constant));
        plan.streams.push(Stream { buffer, bytes, pointer });
    }

    fn size(&self, buffer: u32) -> i32 {
        element_bytes(self.kernel.buffers[buffer as usize].element)
    }

    fn find_stream(&self, plan: &Plan<'_>, buffer: u32, index: &Expr) -> Option<usize> {
        let bytes = self.linear(index).scaled(self.size(buffer));
        plan.streams.iter().position(|s| {
            s.buffer == buffer && s.bytes.is_parallel(&bytes) && s.bytes.constant == bytes.constant
        })
    }

    fn prepare_value(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan<'_>,
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
            }
            return;
        }
        match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
            Node::Load(buffer, index) => self.open_stream(b, plan, buffer.0, index, first),
            Node::Unary(op, x) => {
                match op {
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
                if *op == Binary::Multiply {
                    let sixteen = Expr::i32(16);
                    self.prepare_value(b, plan, &sixteen, first, true);
                }
                self.prepare_value(b, plan, x, first, false);
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

    fn splat(&mut self, b: &mut Builder, plan: &mut Plan<'_>, number: i32) {
        self.prepare_value(b, plan, &Expr::i32(number), &Linear::default(), false);
    }

    fn known(&mut self, plan: &Plan<'_>, e: &Expr, scalar: bool) -> Register {
        let known = if scalar { &plan.scalars } else { &plan.splats };
        match known.iter().find(|(k, _)| k == e) {
            Some((_, register)) => *register,
            None => {
                self.failure = Some("a value was not prepared for a vector loop".into());
                plan.streams.first().map_or(Register::fixed(Class::R, 0), |s| s.pointer)
            }
        }
    }

    fn vector_round(&mut self, b: &mut Builder, plan: &mut Plan<'_>) {
        let mut stores: Vec<Vec<Register>> = Vec::new();
        for part in 0..plan.parts {
            plan.values.clear();
            plan.locals.clear();
            let mut store = 0;
            for statement in plan.body {
                match statement {
                    Stmt::Assign(local, value) => {
                        let reduction = plan.reductions.iter().find(|r| r.local == *local).cloned();
                        let Some(Reduction { op, lanes, .. }) = reduction else {
                            let value = match value.ty {
                                Scalar::Bool => {
                                    let (q, inverted) = self.truth(b, plan, value, part);
                                    Lanes::Truth(q, inverted)
                                }
                                _ => Lanes::Words(self.words(b, plan, value, part)),
                            };
                            plan.locals.insert(*local, value);
                            continue;
                        };
                        if let Node::Binary(_, x, y) = &*value.node {
                            let is = matches!(*x.node, Node::Local(l) if l == *local);
                            let added = self.words(b, plan, if is { y } else { x }, part);
                            b.emit_to(lanes, folding(op), (lanes, added));
                        }
                    }
                    Stmt::Store(_, _, value) => {
                        let words = self.words(b, plan, value, part);
                        if part == 0 {
                            stores.push(Vec::new());
                        }
                        stores[store].push(words);
                        store += 1;
                    }
                    _ => {}
                }
            }
        }
        let statements = plan.body.iter().filter_map(|s| match s {
            Stmt::Store(buffer, index, _) => Some((buffer, index)),
            _ => None,
        });
        for ((buffer, index), words) in statements.zip(stores) {
            let Some(stream) = self.find_stream(plan, buffer.0, index) else { continue };
            let vectors = narrowed(b, plan.width, self.size(buffer.0), &words);
            let (pointer, object) = (plan.streams[stream].pointer, self.object(buffer.0));
            for (offset, vector) in (0..).zip(vectors) {
                b.store(Opcode::StoreVUnaligned, (pointer, offset, vector), object);
                self.promise(b, object);
            }
        }
        for stream in &plan.streams {
            let step = plan.lanes as i32 * self.size(stream.buffer);
            b.emit_to(stream.pointer, Opcode::AddImmediate, (stream.pointer, step));
        }
        plan.loaded.clear();
    }

    /// Words of a part of a stream.
    fn load_words(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan<'_>,
        stream: usize,
        part: usize,
    ) -> Register {
        if let Some(words) = plan.loaded.get(&stream) {
            return words[part];
        }
        let Stream { buffer, pointer, .. } = plan.streams[stream];
        let object = self.object(buffer);
        let element = self.kernel.buffers[buffer as usize].element;
        let size = element_bytes(element);
        let vectors = (plan.lanes as i32 * size) / VECTOR;
        let mut words = Vec::new();
        for offset in 0..vectors {
            let vector = b.load(Opcode::LoadVUnaligned, (pointer, offset), object);
            self.promise(b, object);
            words.extend(widened(b, element, plan.width, vector));
        }
        let word = words[part];
        plan.loaded.insert(stream, words);
        word
    }

    fn words(&mut self, b: &mut Builder, plan: &mut Plan<'_>, e: &Expr, part: usize) -> Register {
        if self.stays(plan, e) {
            return self.known(plan, e, false);
        }
        let found = plan.values.iter().find(|(k, _)| k == e).map(|(_, lanes)| *lanes);
        if let Some(Lanes::Words(words)) = found {
            return words;
        }
        let words = self.compute_words(b, plan, e, part);
        plan.values.push((e.clone(), Lanes::Words(words)));
        words
    }

    fn compute_words(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan<'_>,
        e: &Expr,
        part: usize,
    ) -> Register {
        match &*e.node {
            Node::Local(local) => match plan.locals.get(local) {
                Some(Lanes::Words(words)) => *words,
                _ => {
                    let (q, inverted) = self.truth(b, plan, e, part);
                    self.truth_words(b, plan, q, inverted)
                }
            },
            Node::Load(buffer, index) => match self.find_stream(plan, buffer.0, index) {
                Some(stream) => self.load_words(b, plan, stream, part),
                None => self.known(plan, e, false),
            },
            Node::Unary(Unary::BoolToInteger, x) => {
                let (q, inverted) = self.truth(b, plan, x, part);
                self.truth_words(b, plan, q, inverted)
            }
            Node::Unary(op, x) => {
                let x = self.words(b, plan, x, part);
                match op {
                    Unary::Negate => {
                        let zero = self.known(plan, &Expr::i32(0), false);
                        b.emit(plan.of(Opcode::VsubW, Opcode::VsubH, Opcode::VsubB), (zero, x))
                    }
                    Unary::LeadingZeros => b.emit(Opcode::VcountZerosW, (x,)),
                    _ => x,
                }
            }
            Node::Binary(op, x, y) => {
                let by = match op {
                    Binary::ShiftLeft => Some((Opcode::VaslW, Opcode::VaslWv)),
                    Binary::ShiftRight => Some((Opcode::VasrW, Opcode::VasrWv)),
                    Binary::ShiftRightUnsigned => Some((Opcode::VlsrW, Opcode::VlsrWv)),
                    _ => None,
                };
                if let Some((by_scalar, by_lanes)) = by {
                    let left = self.words(b, plan, x, part);
                    if self.stays(plan, y) {
                        let amount = self.known(plan, y, true);
                        return b.emit(by_scalar, (left, amount));
                    }
                    let amount = self.words(b, plan, y, part);
                    return b.emit(by_lanes, (left, amount));
                }
                let (x, y) = (self.words(b, plan, x, part), self.words(b, plan, y, part));
                match op {
                    Binary::Multiply => {
                        // x * (y's high half * 2^16 + y's low half).
                        let sixteen = self.known(plan, &Expr::i32(16), true);
                        let high = b.emit(Opcode::VmpyioWH, (x, y));
                        let product = b.emit(Opcode::VaslW, (high, sixteen));
                        b.update(Opcode::VmpyieWUhAccumulate, (product, x, y));
                        product
                    }
                    Binary::Subtract => {
                        b.emit(plan.of(Opcode::VsubW, Opcode::VsubH, Opcode::VsubB), (x, y))
                    }
                    Binary::Add => {
                        b.emit(plan.of(Opcode::VaddW, Opcode::VaddH, Opcode::VaddB), (x, y))
                    }
                    Binary::Minimum => {
                        b.emit(plan.of(Opcode::VminW, Opcode::VminH, Opcode::VminB), (x, y))
                    }
                    Binary::Maximum => {
                        b.emit(plan.of(Opcode::VmaxW, Opcode::VmaxH, Opcode::VmaxB), (x, y))
                    }
                    Binary::And => b.emit(Opcode::Vand, (x, y)),
                    Binary::Xor => b.emit(Opcode::Vxor, (x, y)),
                    _ => b.emit(Opcode::Vor, (x, y)),
                }
            }
            Node::Select(c, x, y) => {
                let (x, y) = (self.words(b, plan, x, part), self.words(b, plan, y, part));
                let (q, inverted) = self.truth(b, plan, c, part);
                let (x, y) = if inverted { (y, x) } else { (x, y) };
                b.emit(Opcode::Vmux, (q, x, y))
            }
            _ => self.known(plan, e, false),
        }
    }

    fn truth_words(
        &mut self,
        b: &mut Builder,
        plan: &Plan<'_>,
        q: Register,
        inverted: bool,
    ) -> Register {
        let zero = self.known(plan, &Expr::i32(0), false);
        let one = self.known(plan, &Expr::i32(1), false);
        let (x, y) = if inverted { (zero, one) } else { (one, zero) };
        b.emit(Opcode::Vmux, (q, x, y))
    }

    fn truth(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan<'_>,
        e: &Expr,
        part: usize,
    ) -> (Register, bool) {
        if self.stays(plan, e) {
            let words = self.known(plan, e, false);
            return self.not_zero(b, plan, words);
        }
        match &*e.node {
            Node::Local(local) => match plan.locals.get(local) {
                Some(Lanes::Truth(q, inverted)) => (*q, *inverted),
                _ => {
                    let words = self.words(b, plan, e, part);
                    self.not_zero(b, plan, words)
                }
            },
            Node::Unary(_, x) => {
                let (q, inverted) = self.truth(b, plan, x, part);
                (q, !inverted)
            }
            Node::Compare(comparison, x, y) => {
                let (x, y) = (self.words(b, plan, x, part), self.words(b, plan, y, part));
                let equal = plan.equal();
                let more = plan.of(Opcode::VcompareGtW, Opcode::VcompareGtH, Opcode::VcompareGtB);
                let more_unsigned =
                    plan.of(Opcode::VcompareGtUw, Opcode::VcompareGtUh, Opcode::VcompareGtUb);
                match comparison {
                    Comparison::Equal => (b.emit(equal, (x, y)), false),
                    Comparison::NotEqual => (b.emit(equal, (x, y)), true),
                    Comparison::Less => (b.emit(more, (y, x)), false),
                    Comparison::LessEqual => (b.emit(more, (x, y)), true),
                    Comparison::LessUnsigned => (b.emit(more_unsigned, (y, x)), false),
                }
            }
            Node::Binary(op, x, y) => {
                let (x, y) = (self.truth(b, plan, x, part), self.truth(b, plan, y, part));
                match (op, x.1 && y.1) {
                    (Binary::And, true) => (b.emit(Opcode::QOr, (x.0, y.0)), true),
                    (Binary::Or, true) => (b.emit(Opcode::QAnd, (x.0, y.0)), true),
                    (Binary::And | Binary::Or, false) => {
                        let mut plain = |(q, inverted): (Register, bool)| match inverted {
                            true => b.emit(Opcode::QNot, (q,)),
                            false => q,
                        };
                        let (x, y) = (plain(x), plain(y));
                        let and = *op == Binary::And;
                        (b.emit(if and { Opcode::QAnd } else { Opcode::QOr }, (x, y)), false)
                    }
                    _ => (b.emit(Opcode::QXor, (x.0, y.0)), x.1 != y.1),
                }
            }
            Node::Select(c, x, y) => {
                let mut as_words = |e: &Expr| {
                    if self.stays(plan, e) {
                        return self.known(plan, e, false);
                    }
                    let (q, inverted) = self.truth(b, plan, e, part);
                    // Any words that are 0 where it does not hold.
                    let zero = self.known(plan, &Expr::i32(0), false);
                    let ones = b.emit(Opcode::Vnot, (zero,));
                    let (x, y) = if inverted { (zero, ones) } else { (ones, zero) };
                    b.emit(Opcode::Vmux, (q, x, y))
                };
                let (x, y) = (as_words(x), as_words(y));
                let (q, inverted) = self.truth(b, plan, c, part);
                let (x, y) = if inverted { (y, x) } else { (x, y) };
                let words = b.emit(Opcode::Vmux, (q, x, y));
                self.not_zero(b, plan, words)
            }
            _ => {
                let words = self.words(b, plan, e, part);
                self.not_zero(b, plan, words)
            }
        }
    }

    fn not_zero(&mut self, b: &mut Builder, plan: &Plan<'_>, words: Register) -> (Register, bool) {
        let zero = self.known(plan, &Expr::i32(0), false);
        (b.emit(plan.equal(), (words, zero)), true)
    }

    /// Folds the lanes of a reduction into its local.
    fn fold(&mut self, b: &mut Builder, reduction: &Reduction) {
        let Reduction { local, op, lanes } = *reduction;
        for shift in [64, 32, 16, 8, 4] {
            let shift = b.constant(shift);
            let turned = b.emit(Opcode::Vror, (lanes, shift));
            b.emit_to(lanes, folding(op), (lanes, turned));
        }
        let zero = b.zero();
        let word = b.emit(Opcode::VextractW, (lanes, zero));
        let register = self.register(local);
        let opcode = match op {
            Binary::Add => Opcode::Add,
            Binary::Or => Opcode::Or,
            Binary::Minimum => Opcode::Min,
            _ => Opcode::Max,
        };
        b.emit_to(register, opcode, (register, word));
    }
}

/// The instruction of an operation that can be folded.
fn folding(op: Binary) -> Opcode {
    match op {
        Binary::Add => Opcode::VaddW,
        Binary::Or => Opcode::Vor,
        Binary::Minimum => Opcode::VminW,
        _ => Opcode::VmaxW,
    }
}

/// The elements of a vector as lanes of that many bytes, in order.
fn widened(b: &mut Builder, element: Element, width: i32, vector: Register) -> Vec<Register> {
    let (to_halves, to_words) = match element {
        Element::I2 | Element::I4 | Element::I8 => (Opcode::VunpackB, Opcode::VunpackH),
        Element::I16 => (Opcode::VunpackB, Opcode::VunpackH),
        _ => (Opcode::VunpackUb, Opcode::VunpackUh),
    };
    let mut lanes = vec![vector];
    for (from, opcode) in [(1, to_halves), (2, to_words)] {
        if element_bytes(element) <= from && from < width {
            let mut wide = Vec::new();
            for vector in lanes {
                let pair = b.emit(opcode, (vector,));
                wide.extend([pair.low(), pair.high()]);
            }
            lanes = wide;
        }
    }
    lanes
}

/// Lanes of `width` bytes as vectors of elements of `size` bytes, truncated, in order.
fn narrowed(b: &mut Builder, width: i32, size: i32, lanes: &[Register]) -> Vec<Register> {
    let mut vectors = lanes.to_vec();
    for (to, opcode) in [(2, Opcode::VpackeH), (1, Opcode::VpackeB)] {
        if size <= to && to < width {
            vectors = vectors.chunks(2).map(|pair| b.emit(opcode, (pair[1], pair[0]))).collect();
        }
    }
    vectors
}
