//! Loads and stores, and the pointers that step through a loop.

use std::collections::BTreeSet;

use trainc_ir::Element;
use trainc_ir::loops::{Buffer, Expr, Local, Node, Stmt, height};
use trainc_loops::{Changes, Linear};

use super::integers::multiply;
use super::quotients::calls;
use super::{Selector, emit};
use crate::machine::{Builder, Object, Opcode, Register};

/// Loops around which loops nest deeper than this compute addresses anew.
const DEEPEST: usize = 2;
/// Pointers of one loop.
const MOST_POINTERS: usize = 10;

/// A register that holds an address in a buffer while a loop is open.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    buffer: u32,
    /// The address is the buffer's plus this many bytes.
    bytes: Linear,
    register: Register,
    /// Bytes that a round adds.
    step: i32,
    /// The one access of a round moves it on.
    moves_itself: bool,
    /// Accesses so far.
    uses: usize,
}

/// An address that a loop's rounds ask for.
#[derive(Clone, Debug)]
struct Request {
    buffer: u32,
    bytes: Linear,
    /// Exactly once a round.
    once: bool,
}

/// Bytes of a stored element.
pub(super) fn element_bytes(element: Element) -> i32 {
    element.bits().div_ceil(8).cast_signed()
}

struct Accesses {
    load: Opcode,
    load_next: Opcode,
    load_at: Opcode,
    store: Opcode,
    store_next: Opcode,
    store_at: Opcode,
}

macro_rules! accesses {
    ($load:ident $load_next:ident $load_at:ident, $store:ident $store_next:ident $store_at:ident) => {
        Accesses {
            load: Opcode::$load,
            load_next: Opcode::$load_next,
            load_at: Opcode::$load_at,
            store: Opcode::$store,
            store_next: Opcode::$store_next,
            store_at: Opcode::$store_at,
        }
    };
}

fn accesses(element: Element) -> Accesses {
    match element {
        Element::I2 | Element::I4 | Element::I8 => {
            accesses!(LoadB LoadBNext LoadBAt, StoreB StoreBNext StoreBAt)
        }
        Element::B1 | Element::U2 | Element::U4 | Element::U8 => {
            accesses!(LoadUb LoadUbNext LoadUbAt, StoreB StoreBNext StoreBAt)
        }
        Element::I16 => accesses!(LoadH LoadHNext LoadHAt, StoreH StoreHNext StoreHAt),
        Element::U16 => accesses!(LoadUh LoadUhNext LoadUhAt, StoreH StoreHNext StoreHAt),
        Element::I32 | Element::U32 | Element::F32 => {
            accesses!(LoadW LoadWNext LoadWAt, StoreW StoreWNext StoreWAt)
        }
    }
}

/// How an address is written.
enum Address {
    /// A register and a number.
    Offset(Register, i32),
    /// A register and another, shifted left.
    Indexed(Register, Register, i32),
    /// A register that moves on by a number.
    Next(Register, i32),
}

impl Selector<'_> {
    pub(super) fn object(&self, buffer: u32) -> Object {
        self.buffers[buffer as usize].object
    }

    fn element(&self, buffer: u32) -> Element {
        self.kernel.buffers[buffer as usize].element
    }

    /// An integer as a linear form of locals and of what is not linear. Everything is of 32 bits and wraps around, as
    /// addresses do, so the forms need no proof that an index does not overflow.
    pub(super) fn linear(&self, e: &Expr) -> Linear {
        Linear::of_low_bits(e, &|local| self.expanded(local))
    }

    /// What a local always is, if that is linear in locals that stay while it is in sight.
    fn expanded(&self, local: Local) -> Option<Linear> {
        let value = self.locals.value(local)?;
        if value.loads() || value.mentions(|l| !self.locals.is_fixed(l)) {
            return None;
        }
        let form = self.linear(value);
        form.terms.iter().all(|(_, atom)| atom.as_local().is_some()).then_some(form)
    }

    /// Bytes from a buffer's start to an element.
    fn bytes(&self, buffer: u32, index: &Expr) -> Linear {
        self.linear(index).scaled(element_bytes(self.element(buffer)).into())
    }

    pub(super) fn load(
        &mut self,
        b: &mut Builder,
        buffer: Buffer,
        index: &Expr,
        target: Option<Register>,
    ) -> Register {
        let forms = accesses(self.element(buffer.0));
        let address = self.address(b, buffer.0, index);
        let object = self.object(buffer.0);
        let result = match target {
            Some(target) => target,
            None => b.fresh(crate::machine::Class::R),
        };
        match address {
            Address::Offset(base, offset) => b.load_to(result, forms.load, (base, offset), object),
            Address::Indexed(base, index, shift) => {
                b.load_to(result, forms.load_at, (base, index, shift), object);
            }
            Address::Next(base, step) => b.load_to(result, forms.load_next, (base, step), object),
        }
        self.promise(b, object);
        result
    }

    pub(super) fn store(&mut self, b: &mut Builder, buffer: Buffer, index: &Expr, value: &Expr) {
        let forms = accesses(self.element(buffer.0));
        let value = self.value(b, value);
        let object = self.object(buffer.0);
        match self.address(b, buffer.0, index) {
            Address::Offset(base, offset) => b.store(forms.store, (base, offset, value), object),
            Address::Indexed(base, index, shift) => {
                b.store(forms.store_at, (base, index, shift, value), object);
            }
            Address::Next(base, step) => b.store(forms.store_next, (base, step, value), object),
        }
        self.promise(b, object);
    }

    pub(super) fn promise(&self, b: &mut Builder, object: Object) {
        if self.disjoint.contains(&object) {
            b.promise_disjoint_rounds();
        }
    }

    /// An open loop's pointer to an address, and the number of bytes from there.
    pub(super) fn open_pointer(&mut self, buffer: u32, bytes: &Linear) -> Option<(Register, i32)> {
        let known = self
            .pointers
            .iter_mut()
            .rev()
            .find(|p| p.buffer == buffer && p.bytes.is_parallel(bytes) && !p.moves_itself)?;
        known.uses += 1;
        Some((known.register, (bytes.constant - known.bytes.constant) as i32))
    }

    fn address(&mut self, b: &mut Builder, buffer: u32, index: &Expr) -> Address {
        let bytes = self.bytes(buffer, index);
        let base = self.buffers[buffer as usize].base;
        let known = self
            .pointers
            .iter_mut()
            .rev()
            .find(|p| p.buffer == buffer && p.bytes.is_parallel(&bytes));
        if let Some(p) = known {
            p.uses += 1;
            if p.moves_itself && p.uses > 1 {
                self.failure = Some("a pointer moves on twice in a round".into());
            }
            return match p.moves_itself {
                true => Address::Next(p.register, p.step),
                false => Address::Offset(p.register, (bytes.constant - p.bytes.constant) as i32),
            };
        }
        if let ([(factor @ (1 | 2 | 4 | 8), atom)], 0) = (&bytes.terms[..], bytes.constant) {
            let (atom, shift) = (atom.clone(), factor.trailing_zeros().cast_signed());
            let index = self.value(b, &atom);
            return Address::Indexed(base, index, shift);
        }
        let register = self.place(b, base, &bytes);
        Address::Offset(register, bytes.constant as i32)
    }

    /// `base` plus the terms, without the constant.
    pub(super) fn place(&mut self, b: &mut Builder, base: Register, bytes: &Linear) -> Register {
        bytes.terms.iter().fold(base, |place, (factor, atom)| {
            let atom = self.value(b, atom);
            match factor {
                1 => b.emit(Opcode::Add, (place, atom)),
                2 | 4 | 8 => {
                    let shift = factor.trailing_zeros().cast_signed();
                    b.emit(Opcode::AddShifted, (place, atom, shift))
                }
                _ => {
                    let product = multiply(b, atom, *factor as i32, None);
                    b.emit(Opcode::Add, (place, product))
                }
            }
        })
    }

    /// Whether an expression may have another value after the changes.
    pub(super) fn touches(&self, changes: &Changes, e: &Expr) -> bool {
        changes.touch(e, &|a, b| self.object(a.0) == self.object(b.0))
    }

    /// What a block changes.
    pub(super) fn changes(&self, block: &[Stmt], variable: Option<Local>) -> Changes {
        let mut changes = Changes::of(block);
        changes.locals.extend(variable);
        changes
    }

    /// Sets up the pointers of a loop that is about to open, and tells of them.
    pub(super) fn open_pointers(
        &mut self,
        b: &mut Builder,
        variable: Local,
        start: &Expr,
        body: &[Stmt],
    ) {
        if height(body) > DEEPEST {
            return;
        }
        let mut requests = Vec::new();
        self.requests(body, true, &mut requests);
        let changes = self.changes(body, Some(variable));
        let first = self.linear(start);
        let mut groups: Vec<(Request, usize)> = Vec::new();
        for request in requests {
            if !self.steps(&request.bytes, variable, &changes) {
                continue;
            }
            let same = |(known, _): &&mut (Request, usize)| {
                known.buffer == request.buffer && known.bytes.is_parallel(&request.bytes)
            };
            match groups.iter_mut().find(same) {
                Some((_, count)) => *count += 1,
                None => groups.push((request, 1)),
            }
        }
        for (request, count) in groups.into_iter().take(MOST_POINTERS) {
            let Request { buffer, bytes, once } = request;
            let step = bytes.factor(variable) as i32;
            let size = element_bytes(self.element(buffer));
            let known = |p: &Pointer| p.buffer == buffer && p.bytes.is_parallel(&bytes);
            if bytes.terms.is_empty() || (step == 0 && self.pointers.iter().any(known)) {
                continue;
            }
            let at = bytes.with(variable, &first);
            let base = self.buffers[buffer as usize].base;
            let outer = self
                .pointers
                .iter()
                .rev()
                .find(|p| p.buffer == buffer && p.bytes.is_parallel(&at) && !p.moves_itself);
            let (base, offset) = match outer {
                Some(p) => (p.register, (at.constant - p.bytes.constant) as i32),
                None => (self.place(b, base, &at), at.constant as i32),
            };
            // A number of elements in four bits.
            let reach = step % size == 0 && (-8..8).contains(&(step / size));
            let moves_itself = once && count == 1 && step != 0 && reach;
            let register = b.fresh(crate::machine::Class::R);
            emit(b, Some(register), Opcode::AddImmediate, (base, offset));
            self.pointers.push(Pointer { buffer, bytes, register, step, moves_itself, uses: 0 });
        }
    }

    /// Moves the pointers of a loop on, at the end of a round; `from` is how many there were outside.
    pub(super) fn step_pointers(&mut self, b: &mut Builder, from: usize) {
        for p in &self.pointers[from..] {
            // Of an access that was left out because its value is not needed, the step remains.
            if p.step != 0 && !(p.moves_itself && p.uses > 0) {
                b.emit_to(p.register, Opcode::AddImmediate, (p.register, p.step));
            }
        }
    }

    /// Whether an address changes by a fixed number each round.
    pub(super) fn steps(&self, bytes: &Linear, variable: Local, changes: &Changes) -> bool {
        bytes.terms.iter().all(|(_, atom)| {
            atom.as_local() == Some(variable) || (!atom.loads() && !self.touches(changes, atom))
        })
    }

    /// Addresses that a block asks for; of its loops, those at which their pointers start.
    fn requests(&self, block: &[Stmt], once: bool, out: &mut Vec<Request>) {
        for statement in block {
            match statement {
                // Routines may do again what a quotient takes.
                Stmt::Assign(_, value) => {
                    let times = if calls(value) { 2 } else { 1 };
                    (0..times).for_each(|_| self.requests_of(value, once, out));
                }
                Stmt::Store(buffer, index, value) => {
                    self.requests_of(index, once, out);
                    self.requests_of(value, once, out);
                    let bytes = self.bytes(buffer.0, index);
                    out.push(Request { buffer: buffer.0, bytes, once });
                }
                Stmt::If { condition, then, otherwise } => {
                    self.requests_of(condition, once, out);
                    self.requests(then, false, out);
                    self.requests(otherwise, false, out);
                }
                Stmt::For { variable, start, end, body } => {
                    self.requests_of(start, once, out);
                    self.requests_of(end, once, out);
                    if height(body) > DEEPEST {
                        continue;
                    }
                    let mut inner = Vec::new();
                    self.requests(body, false, &mut inner);
                    let changes = self.changes(body, Some(*variable));
                    let first = self.linear(start);
                    for request in inner {
                        if self.steps(&request.bytes, *variable, &changes) {
                            let bytes = request.bytes.with(*variable, &first);
                            out.push(Request { bytes, ..request });
                        }
                    }
                }
            }
        }
    }

    fn requests_of(&self, e: &Expr, once: bool, out: &mut Vec<Request>) {
        e.operands().for_each(|x| self.requests_of(x, once, out));
        if let Node::Load(buffer, index) = &*e.node {
            let bytes = self.bytes(buffer.0, index);
            out.push(Request { buffer: buffer.0, bytes, once });
        }
    }

    /// Objects of an innermost loop's body in which no two rounds touch the same byte.
    pub(super) fn disjoint_rounds(&self, variable: Local, body: &[Stmt]) -> Vec<Object> {
        if height(body) > 0 {
            return Vec::new();
        }
        let mut requests = Vec::new();
        self.requests(body, false, &mut requests);
        let changes = self.changes(body, Some(variable));
        let alone = |object: &Object| {
            let mut of_object = requests.iter().filter(|r| self.object(r.buffer) == *object);
            let Some(first) = of_object.next() else { return false };
            let size = element_bytes(self.element(first.buffer));
            let step = first.bytes.factor(variable) as i32;
            self.steps(&first.bytes, variable, &changes)
                && step.unsigned_abs() >= size.unsigned_abs()
                && of_object.all(|r| {
                    r.bytes.is_parallel(&first.bytes)
                        && r.bytes.constant == first.bytes.constant
                        && element_bytes(self.element(r.buffer)) == size
                })
        };
        let objects: BTreeSet<Object> = changes.buffers.iter().map(|b| self.object(b.0)).collect();
        objects.into_iter().filter(alone).collect()
    }
}
