//! The statements and integers of a vector loop's rounds.

use trainc_ir::Element;
use trainc_ir::loops::{Binary, Expr, Node, Scalar, Unary};
use trainc_loops::Step;

use super::super::Selector;
use super::super::addresses::element_bytes;
use super::forms::{ClampedByte, ClampedSum, counted_from, is_upper_half};
use super::{Lanes, Plan, Stored, Stream, VECTOR};
use crate::machine::{Builder, Opcode, Register};

impl Selector<'_> {
    pub(super) fn vector_round(&mut self, b: &mut Builder, plan: &mut Plan) {
        let stored = self.vectors_of_round(b, plan);
        self.store_vectors(b, &stored);
        self.step(b, plan);
    }

    /// What a round stores.
    pub(super) fn vectors_of_round(&mut self, b: &mut Builder, plan: &mut Plan) -> Vec<Stored> {
        let mut stores: Vec<Vec<Register>> = Vec::new();
        let steps = plan.vectors.steps.clone();
        for part in 0..plan.parts {
            plan.values.clear();
            plan.locals.clear();
            let mut store = 0;
            for step in &steps {
                match step {
                    Step::Assign(local, value) => {
                        let value = match value.ty {
                            Scalar::Bool => {
                                let (q, inverted) = self.truth(b, plan, value, part);
                                Lanes::Truth(q, inverted)
                            }
                            _ => Lanes::Words(self.words(b, plan, value, part)),
                        };
                        plan.locals.insert(*local, value);
                    }
                    Step::Reduce(at, value) => {
                        self.reduce(b, plan, *at, value, part);
                    }
                    Step::Store(buffer, _, value) => {
                        let element = self.kernel.buffers[buffer.0 as usize].element;
                        let clamped = plan.clamped_byte(element, value);
                        let value = clamped.as_ref().map_or(value, |clamped| clamped.value);
                        let words = self.words(b, plan, value, part);
                        if part == 0 {
                            stores.push(Vec::new());
                        }
                        stores[store].push(words);
                        store += 1;
                    }
                    // Done ahead of the rounds.
                    Step::Once(..) | Step::Change(..) | Step::Loop { .. } => {}
                }
            }
        }
        let statements = steps.iter().filter_map(|step| match step {
            Step::Store(buffer, index, value) => Some((buffer, index, value)),
            _ => None,
        });
        let mut stored = Vec::new();
        for ((buffer, index, value), words) in statements.zip(stores) {
            let Some(stream) = self.find_stream(plan, buffer.0, index) else { continue };
            let element = self.kernel.buffers[buffer.0 as usize].element;
            let vectors = match plan.clamped_byte(element, value) {
                Some(ClampedByte { limits, .. }) => {
                    let saturating = [Opcode::VpackWHSaturate, Opcode::VpackHBSaturate];
                    let mut vectors = narrowed(b, plan.width, 1, &words, saturating);
                    for (limit, opcode) in limits.iter().zip([Opcode::VmaxB, Opcode::VminB]) {
                        if let Some(limit) = limit {
                            let limit = self.known(plan, limit, false);
                            vectors = vectors.iter().map(|&y| b.emit(opcode, (y, limit))).collect();
                        }
                    }
                    vectors
                }
                None => {
                    let truncating = [Opcode::VpackeH, Opcode::VpackeB];
                    narrowed(b, plan.width, self.size(buffer.0), &words, truncating)
                }
            };
            let Stream { pointer, aligned, .. } = plan.streams[stream];
            let object = self.object(buffer.0);
            let opcode = if aligned { Opcode::StoreV } else { Opcode::StoreVUnaligned };
            for (offset, vector) in (0..).zip(vectors) {
                stored.push(Stored { opcode, pointer, offset, vector, object });
            }
        }
        stored
    }

    pub(super) fn store_vectors(&mut self, b: &mut Builder, stored: &[Stored]) {
        for &Stored { opcode, pointer, offset, vector, object } in stored {
            b.store(opcode, (pointer, offset, vector), object);
            self.promise(b, object);
        }
    }

    /// On to the next round.
    fn step(&mut self, b: &mut Builder, plan: &mut Plan) {
        for stream in &plan.streams {
            let step = plan.lanes as i32 * self.size(stream.buffer);
            b.emit_to(stream.pointer, Opcode::AddImmediate, (stream.pointer, step));
        }
        for at in 0..plan.counters.len() {
            let last = self.counter(b, plan, at, plan.parts - 1);
            let step = self.known(plan, &plan.part_lanes(), false);
            b.emit_to(plan.counters[at].first, Opcode::VaddW, (last, step));
            plan.counters[at].others.clear();
        }
        plan.loaded.clear();
        plan.half_loads.clear();
        plan.products.clear();
    }

    /// A counter of a part: each part's from the one before, so that one vector is added to all.
    fn counter(&mut self, b: &mut Builder, plan: &mut Plan, at: usize, part: usize) -> Register {
        let step = self.known(plan, &plan.part_lanes(), false);
        let counter = &mut plan.counters[at];
        while counter.others.len() < part {
            let last = counter.others.last().copied().unwrap_or(counter.first);
            counter.others.push(b.emit(Opcode::VaddW, (last, step)));
        }
        match part {
            0 => counter.first,
            part => counter.others[part - 1],
        }
    }

    /// The loop variable, and `added`, in each lane of a part.
    fn counter_of(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        added: Option<&Expr>,
        part: usize,
    ) -> Register {
        match plan.counters.iter().position(|counter| counter.added.as_ref() == added) {
            Some(at) => self.counter(b, plan, at, part),
            None => self.known(plan, &Expr::i32(0), false),
        }
    }

    /// Words of a part of a stream.
    pub(super) fn load_words(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        stream: usize,
        part: usize,
    ) -> Register {
        if let Some(words) = plan.loaded.get(&stream) {
            return words[part];
        }
        let Stream { buffer, pointer, aligned, .. } = plan.streams[stream];
        let object = self.object(buffer);
        let element = self.kernel.buffers[buffer as usize].element;
        let size = element_bytes(element);
        let vectors = (plan.lanes as i32 * size) / VECTOR;
        let mut words = Vec::new();
        let opcode = if aligned { Opcode::LoadV } else { Opcode::LoadVUnaligned };
        for offset in 0..vectors {
            let vector = b.load(opcode, (pointer, offset), object);
            self.promise(b, object);
            words.extend(widened(b, element, plan.width, vector));
        }
        let word = words[part];
        plan.loaded.insert(stream, words);
        word
    }

    pub(super) fn words(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        part: usize,
    ) -> Register {
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

    pub(super) fn compute_words(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        part: usize,
    ) -> Register {
        if let Some(x) = plan.magnitude(e) {
            let x = self.words(b, plan, x, part);
            return b.emit(plan.of(Opcode::VabsW, Opcode::VabsH, Opcode::VabsB), (x,));
        }
        if let Some((ClampedSum { subtracts, operands, .. }, [low, high])) = plan.clamped_sum(e) {
            let [x, y] = operands.map(|x| self.words(b, plan, x, part));
            let [halves, bytes] = match subtracts {
                true => [Opcode::VsubHSaturate, Opcode::VsubBSaturate],
                false => [Opcode::VaddHSaturate, Opcode::VaddBSaturate],
            };
            let mut sum = b.emit(if plan.width == 1 { bytes } else { halves }, (x, y));
            for (limit, opcodes) in [
                (low, [Opcode::VmaxW, Opcode::VmaxH, Opcode::VmaxB]),
                (high, [Opcode::VminW, Opcode::VminH, Opcode::VminB]),
            ] {
                let [words, halves, bytes] = opcodes;
                if let Some(limit) = limit {
                    let limit = self.known(plan, limit, false);
                    sum = b.emit(plan.of(words, halves, bytes), (sum, limit));
                }
            }
            return sum;
        }
        if let Some((x, amount)) = self.one_more(plan, e) {
            let (x, amount) = (self.words(b, plan, x, part), self.known(plan, &amount, false));
            return b.emit(Opcode::VlsrWv, (x, amount));
        }
        if let Some((parts, amount)) = self.half_sum(plan, e) {
            let [x, y] = parts.map(|x| self.words(b, plan, x, part));
            let half = b.emit(Opcode::VavgW, (x, y));
            let amount = self.known(plan, &amount, true);
            return b.emit(Opcode::VasrW, (half, amount));
        }
        if let Some(sum) = self.products(b, plan, e, part) {
            return sum;
        }
        if let Some(added) = counted_from(e, &self.of_plan(plan)) {
            return self.counter_of(b, plan, Some(added), part);
        }
        match &*e.node {
            Node::Local(local) if *local == plan.vectors.variable => {
                self.counter_of(b, plan, None, part)
            }
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
                    Unary::Negate if e.ty == Scalar::F32 => {
                        let sign = self.known(plan, &Expr::i32(i32::MIN), false);
                        b.emit(Opcode::Vxor, (x, sign))
                    }
                    Unary::FloatAbs => {
                        let mask = self.known(plan, &Expr::i32(i32::MAX), false);
                        b.emit(Opcode::Vand, (x, mask))
                    }
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
                    Binary::ShiftLeft => Some((Opcode::VaslW, Opcode::VaslH, Opcode::VaslWv)),
                    Binary::ShiftRight => Some((Opcode::VasrW, Opcode::VasrH, Opcode::VasrWv)),
                    Binary::ShiftRightUnsigned => {
                        Some((Opcode::VlsrW, Opcode::VlsrH, Opcode::VlsrWv))
                    }
                    _ => None,
                };
                if let Some((words, halves, by_lanes)) = by {
                    let left = self.words(b, plan, x, part);
                    if is_upper_half(*op, y, plan.width) {
                        let zero = self.known(plan, &Expr::i32(0), false);
                        return b.emit(Opcode::VshuffoH, (zero, left));
                    }
                    if self.stays(plan, y) {
                        let amount = self.known(plan, y, true);
                        let opcode = if plan.width == 2 { halves } else { words };
                        return b.emit(opcode, (left, amount));
                    }
                    let amount = self.words(b, plan, y, part);
                    return b.emit(by_lanes, (left, amount));
                }
                if let Some((x, half)) = self.product_by_half(plan, e) {
                    let (x, half) = (self.words(b, plan, x, part), self.words(b, plan, half, part));
                    return b.emit(Opcode::VmpyieWUh, (x, half));
                }
                let (x, y) = (self.words(b, plan, x, part), self.words(b, plan, y, part));
                match op {
                    Binary::Multiply if plan.width == 2 => b.emit(Opcode::VmpyiH, (x, y)),
                    Binary::Multiply => {
                        // x * (y's high half * 2^16 + y's low half): of the first, only x's low half counts.
                        let product = b.emit(Opcode::VmpyieoH, (x, y));
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

/// Lanes of `width` bytes as vectors of elements of `size` bytes, in order, by what makes halves of words and bytes of halves.
fn narrowed(
    b: &mut Builder,
    width: i32,
    size: i32,
    lanes: &[Register],
    [to_halves, to_bytes]: [Opcode; 2],
) -> Vec<Register> {
    let mut vectors = lanes.to_vec();
    for (to, opcode) in [(2, to_halves), (1, to_bytes)] {
        if size <= to && to < width {
            vectors = vectors.chunks(2).map(|pair| b.emit(opcode, (pair[1], pair[0]))).collect();
        }
    }
    vectors
}
