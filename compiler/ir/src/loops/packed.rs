//! Packed buffers: loads and stores of elements narrower than a byte become accesses to bytes.
//!
//! Operations lower themselves as if each element had a place of its own. Here operands and results of narrow elements
//! become buffers of u8, packed as [`crate::tensor_bytes`] packs them. A load shifts and extends. A store into a loop
//! that walks whole bytes collects a byte before it is stored; any other store replaces its bits of a byte, so its rounds
//! may not run at the same time. Bits behind the last element are 0 in the end. Working memory keeps an element a byte.

use super::{Binary, Buffer, Expr, Local, LoopKernel, Node, Role, Scalar, Stmt};
use crate::types::Element;

/// The kernel with packed operands and results: no buffer of it has elements narrower than a byte.
pub fn packed(mut kernel: LoopKernel) -> LoopKernel {
    let elements: Vec<Element> = kernel.buffers.iter().map(|b| b.element).collect();
    let narrow: Vec<Option<Packing>> = kernel
        .buffers
        .iter_mut()
        .map(|buffer| {
            let packing = Packing::of(buffer.element)?;
            if buffer.role == Role::Scratch {
                buffer.element = if packing.signed { Element::I8 } else { Element::U8 };
                return None;
            }
            let count = buffer.count;
            buffer.count = buffer.element.bytes(count);
            buffer.element = Element::U8;
            Some(Packing { count, ..packing })
        })
        .collect();
    if elements.iter().all(|element| element.bits() >= 8) {
        return kernel;
    }
    let definitions = definitions(&kernel);
    let body = std::mem::take(&mut kernel.body);
    let mut rewriting =
        Rewriting { narrow, definitions, locals: std::mem::take(&mut kernel.locals) };
    kernel.body = rewriting.block(body);
    for (i, buffer) in kernel.buffers.iter().enumerate() {
        let Some(packing) = rewriting.narrow[i] else { continue };
        let used = packing.count % packing.per_byte() as usize;
        if used != 0 && matches!(buffer.role, Role::Output(_)) {
            let (id, last) = (Buffer(i as u32), Expr::index(buffer.count - 1));
            let kept = Expr::i32((1 << (used as u32 * packing.bits)) - 1);
            let value = byte(id, last.clone()).and(kept);
            kernel.body.push(Stmt::Store(id, last, value));
        }
    }
    kernel.locals = rewriting.locals;
    kernel
}

/// How a buffer's elements lie in bytes.
#[derive(Clone, Copy, Debug)]
struct Packing {
    bits: u32,
    signed: bool,
    /// Number of elements.
    count: usize,
}

impl Packing {
    /// `None` for elements of a byte or more.
    fn of(element: Element) -> Option<Packing> {
        let signed = element.integer_range().is_some_and(|(low, _)| low < 0);
        (element.bits() < 8).then(|| Packing { bits: element.bits(), signed, count: 0 })
    }

    fn per_byte(self) -> i64 {
        i64::from(8 / self.bits)
    }

    fn mask(self) -> i32 {
        (1 << self.bits) - 1
    }

    /// The byte that holds element `index`.
    fn byte_index(self, index: &Expr) -> Expr {
        match index.as_constant() {
            Some(index) => Expr::i64(index / self.per_byte()),
            None => index.clone().shift_right(Expr::i64(self.per_byte().trailing_zeros().into())),
        }
    }

    /// How far element `index` is from the lowest bit of its byte.
    fn bit(self, index: &Expr) -> Expr {
        match index.as_constant() {
            Some(index) => Expr::i32((index % self.per_byte()) as i32 * self.bits as i32),
            None => scaled(
                index.clone().truncate().and(Expr::i32(self.per_byte() as i32 - 1)),
                self.bits,
            ),
        }
    }

    fn load(self, buffer: Buffer, index: Expr) -> Expr {
        let (byte, bit) = (byte(buffer, self.byte_index(&index)), self.bit(&index));
        if self.signed {
            // The element's sign becomes the word's.
            let above = Expr::i32(32 - self.bits as i32);
            byte.shift_left(above.clone() - bit).shift_right(above)
        } else {
            byte.shr_unsigned(bit).and(Expr::i32(self.mask()))
        }
    }
}

/// A byte of a buffer.
fn byte(buffer: Buffer, index: Expr) -> Expr {
    Expr { ty: Scalar::I32, node: Box::new(Node::Load(buffer, index)) }
}

/// An I32 times a power of two.
fn scaled(x: Expr, factor: u32) -> Expr {
    match factor.trailing_zeros() {
        0 => x,
        bits => x.shift_left(Expr::i32(bits as i32)),
    }
}

/// What is known of a local from anywhere behind the place where it is set.
#[derive(Clone, Debug)]
enum Definition {
    /// Set once, to this.
    Value(Expr),
    /// The variable of one loop.
    Counter,
    /// Set at several places.
    Changing,
}

/// What is known of each local.
fn definitions(kernel: &LoopKernel) -> Vec<Definition> {
    fn statements(block: &[Stmt], found: &mut [Option<Definition>]) {
        let set = |local: Local, definition: Definition, found: &mut [Option<Definition>]| {
            let place = &mut found[local.0 as usize];
            *place = Some(if place.is_none() { definition } else { Definition::Changing });
        };
        for statement in block {
            match statement {
                Stmt::Assign(local, value) => set(*local, Definition::Value(value.clone()), found),
                Stmt::Store(..) => {}
                Stmt::For { variable, body, .. } => {
                    set(*variable, Definition::Counter, found);
                    statements(body, found);
                }
                Stmt::If { then, otherwise, .. } => {
                    statements(then, found);
                    statements(otherwise, found);
                }
            }
        }
    }
    let mut found = vec![None; kernel.locals.len()];
    statements(&kernel.body, &mut found);
    found.into_iter().map(|found| found.unwrap_or(Definition::Changing)).collect()
}

struct Rewriting {
    /// For each buffer, its packing if it has one.
    narrow: Vec<Option<Packing>>,
    definitions: Vec<Definition>,
    locals: Vec<(String, Scalar)>,
}

impl Rewriting {
    fn packing(&self, buffer: Buffer) -> Option<Packing> {
        self.narrow[buffer.0 as usize]
    }

    fn local(&mut self, name: &str, ty: Scalar) -> (Local, Expr) {
        let local = Local(self.locals.len() as u32);
        self.locals.push((name.into(), ty));
        (local, Expr { ty, node: Box::new(Node::Local(local)) })
    }

    fn block(&mut self, block: Vec<Stmt>) -> Vec<Stmt> {
        let mut result = Vec::with_capacity(block.len());
        for statement in block {
            self.statement(statement, &mut result);
        }
        result
    }

    fn statement(&mut self, statement: Stmt, result: &mut Vec<Stmt>) {
        match statement {
            Stmt::Assign(local, value) => result.push(Stmt::Assign(local, self.expression(value))),
            Stmt::Store(buffer, index, value) => {
                let (index, value) = (self.expression(index), self.expression(value));
                match self.packing(buffer) {
                    None => result.push(Stmt::Store(buffer, index, value)),
                    Some(packing) => self.replace_bits(packing, buffer, &index, value, result),
                }
            }
            Stmt::For { variable, start, end, body } => {
                let whole = self.whole_bytes(variable, &start, &end, &body);
                let (start, end) = (self.expression(start), self.expression(end));
                let body = match whole {
                    Some(whole) => return result.push(self.collect_bytes(variable, whole, body)),
                    None => self.block(body),
                };
                result.push(Stmt::For { variable, start, end, body });
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expression(condition);
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                result.push(Stmt::If { condition, then, otherwise });
            }
        }
    }

    /// A store of one element: the others of its byte, and its bits.
    fn replace_bits(
        &mut self,
        packing: Packing,
        buffer: Buffer,
        index: &Expr,
        value: Expr,
        result: &mut Vec<Stmt>,
    ) {
        let (place, at) = self.local("packed_byte", Scalar::I64);
        result.push(Stmt::Assign(place, packing.byte_index(index)));
        let (shift, bit) = self.local("packed_bit", Scalar::I32);
        result.push(Stmt::Assign(shift, packing.bit(index)));
        let mask = Expr::i32(packing.mask());
        let others = mask.clone().shift_left(bit.clone()).xor(Expr::i32(-1));
        let kept = byte(buffer, at.clone()).and(others);
        result.push(Stmt::Store(buffer, at, kept.or(value.and(mask).shift_left(bit))));
    }

    fn expression(&self, e: Expr) -> Expr {
        let node = match *e.node {
            Node::Load(buffer, index) => {
                let index = self.expression(index);
                match self.packing(buffer) {
                    Some(packing) => return packing.load(buffer, index),
                    None => Node::Load(buffer, index),
                }
            }
            Node::Unary(op, x) => Node::Unary(op, self.expression(x)),
            Node::Binary(op, a, b) => Node::Binary(op, self.expression(a), self.expression(b)),
            Node::Compare(op, a, b) => Node::Compare(op, self.expression(a), self.expression(b)),
            Node::Select(c, a, b) => {
                Node::Select(self.expression(c), self.expression(a), self.expression(b))
            }
            other => other,
        };
        Expr { ty: e.ty, node: Box::new(node) }
    }
}

/// A loop whose rounds store one element after the other, from the first of a byte to the last of another.
struct WholeBytes {
    buffer: Buffer,
    packing: Packing,
    rounds: i64,
    /// Position among the body's statements.
    store: usize,
    index: Expr,
}

/// What an index is, up to multiples of the elements of a byte.
struct Form {
    /// Factor of the loop variable.
    factor: i64,
    /// Whether the rest is such a multiple.
    whole: bool,
}

impl Rewriting {
    /// Whether a loop walks whole bytes of a packed buffer, which it does nothing else with.
    fn whole_bytes(
        &self,
        variable: Local,
        start: &Expr,
        end: &Expr,
        body: &[Stmt],
    ) -> Option<WholeBytes> {
        let (Some(0), Some(rounds)) = (start.as_constant(), end.as_constant()) else { return None };
        let mut found = None;
        for (store, statement) in body.iter().enumerate() {
            let Stmt::Store(buffer, index, _) = statement else { continue };
            let Some(packing) = self.packing(*buffer) else { continue };
            let index = index.clone();
            if found
                .replace(WholeBytes { buffer: *buffer, packing, rounds, store, index })
                .is_some()
            {
                return None;
            }
        }
        let found = found?;
        let mut uses = 0;
        body.iter().for_each(|statement| count_uses(statement, found.buffer, &mut uses));
        let per_byte = found.packing.per_byte();
        let form = self.form(&found.index, variable, per_byte);
        let fits = uses == 1
            && rounds % per_byte == 0
            && form.factor == 1
            && form.whole
            && self.lasts(&found.index);
        fits.then_some(found)
    }

    /// Whether an expression has one value throughout a round of the loops around it.
    fn lasts(&self, e: &Expr) -> bool {
        match &*e.node {
            Node::Integer(_) | Node::Float(_) => true,
            Node::Local(local) => match &self.definitions[local.0 as usize] {
                Definition::Value(value) => self.lasts(value),
                Definition::Counter => true,
                Definition::Changing => false,
            },
            Node::Load(..) => false,
            Node::Unary(_, x) => self.lasts(x),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => self.lasts(a) && self.lasts(b),
            Node::Select(c, a, b) => [c, a, b].into_iter().all(|e| self.lasts(e)),
        }
    }

    fn form(&self, e: &Expr, variable: Local, per_byte: i64) -> Form {
        let form = |e: &Expr| self.form(e, variable, per_byte);
        let unknown = Form { factor: 0, whole: false };
        match &*e.node {
            Node::Integer(value) => Form { factor: 0, whole: value % per_byte == 0 },
            Node::Local(local) if *local == variable => Form { factor: 1, whole: true },
            Node::Local(local) => match &self.definitions[local.0 as usize] {
                Definition::Value(value) => form(value),
                Definition::Counter | Definition::Changing => unknown,
            },
            Node::Binary(Binary::Add, a, b) => {
                let (a, b) = (form(a), form(b));
                Form { factor: a.factor.saturating_add(b.factor), whole: a.whole && b.whole }
            }
            Node::Binary(Binary::Multiply, a, b) => match (a.as_constant(), b.as_constant()) {
                (Some(by), _) if by % per_byte == 0 && form(b).factor == 0 => {
                    Form { factor: 0, whole: true }
                }
                (_, Some(by)) if by % per_byte == 0 && form(a).factor == 0 => {
                    Form { factor: 0, whole: true }
                }
                // A multiple of a multiple, without the variable.
                (_, Some(_)) if form(a).factor == 0 => form(a),
                (Some(_), _) if form(b).factor == 0 => form(b),
                _ => unknown,
            },
            _ => unknown,
        }
    }

    /// A whole index divided by the elements of a byte, with `byte` for the loop variable.
    fn quotient(&self, e: &Expr, variable: Local, byte: &Expr, per_byte: i64) -> Expr {
        let quotient = |e: &Expr| self.quotient(e, variable, byte, per_byte);
        match &*e.node {
            Node::Integer(value) => Expr::i64(value / per_byte),
            Node::Local(local) if *local == variable => byte.clone(),
            Node::Local(local) => match &self.definitions[local.0 as usize] {
                Definition::Value(value) => quotient(value),
                Definition::Counter | Definition::Changing => e.clone(),
            },
            Node::Binary(Binary::Add, a, b) => quotient(a) + quotient(b),
            Node::Binary(Binary::Multiply, a, b) => match (a.as_constant(), b.as_constant()) {
                (Some(by), _) if by % per_byte == 0 => Expr::i64(by / per_byte) * b.clone(),
                (_, Some(by)) if by % per_byte == 0 => a.clone() * Expr::i64(by / per_byte),
                (_, Some(_)) => quotient(a) * b.clone(),
                _ => a.clone() * quotient(b),
            },
            _ => e.clone(),
        }
    }

    /// The loop over bytes, each collected from its elements.
    fn collect_bytes(&mut self, variable: Local, whole: WholeBytes, body: Vec<Stmt>) -> Stmt {
        let WholeBytes { buffer, packing, rounds, store, index } = whole;
        let (byte, at) = self.local("byte", Scalar::I64);
        let (part, place) = self.local("part", Scalar::I64);
        let (collected, bits) = self.local("bits", Scalar::I32);
        let per_byte = packing.per_byte();
        let mut inner =
            vec![Stmt::Assign(variable, at.clone() * Expr::i64(per_byte) + place.clone())];
        for (position, statement) in body.into_iter().enumerate() {
            match statement {
                Stmt::Store(_, _, value) if position == store => {
                    let value = self.expression(value).and(Expr::i32(packing.mask()));
                    let value = value.shift_left(scaled(place.clone().truncate(), packing.bits));
                    inner.push(Stmt::Assign(collected, bits.clone().or(value)));
                }
                other => self.statement(other, &mut inner),
            }
        }
        let body = vec![
            Stmt::Assign(collected, Expr::i32(0)),
            Stmt::For {
                variable: part,
                start: Expr::i64(0),
                end: Expr::i64(per_byte),
                body: inner,
            },
            Stmt::Store(buffer, self.quotient(&index, variable, &at, per_byte), bits),
        ];
        let (start, end) = (Expr::i64(0), Expr::i64(rounds / per_byte));
        Stmt::For { variable: byte, start, end, body }
    }
}

/// Adds the accesses to a buffer.
fn count_uses(statement: &Stmt, buffer: Buffer, uses: &mut usize) {
    fn expression(e: &Expr, buffer: Buffer, uses: &mut usize) {
        match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => {}
            Node::Load(from, index) => {
                *uses += usize::from(*from == buffer);
                expression(index, buffer, uses);
            }
            Node::Unary(_, x) => expression(x, buffer, uses),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => {
                expression(a, buffer, uses);
                expression(b, buffer, uses);
            }
            Node::Select(c, a, b) => {
                [c, a, b].into_iter().for_each(|e| expression(e, buffer, uses));
            }
        }
    }
    match statement {
        Stmt::Assign(_, value) => expression(value, buffer, uses),
        Stmt::Store(to, index, value) => {
            *uses += usize::from(*to == buffer);
            expression(index, buffer, uses);
            expression(value, buffer, uses);
        }
        Stmt::For { start, end, body, .. } => {
            expression(start, buffer, uses);
            expression(end, buffer, uses);
            body.iter().for_each(|s| count_uses(s, buffer, uses));
        }
        Stmt::If { condition, then, otherwise } => {
            expression(condition, buffer, uses);
            then.iter().chain(otherwise).for_each(|s| count_uses(s, buffer, uses));
        }
    }
}
