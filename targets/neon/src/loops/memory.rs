//! Loads and stores of rounds that run at a time.

use trainc_ir::Element;
use trainc_ir::loops::{Buffer, Expr, Scalar};
use trainc_loops::{Access, Linear, rounds_are_apart};

use super::lanes::{Kind, Lanes, part_count, part_name, quad, suffix, vector_type};
use super::round::{Line, Round};

/// A load of every other element.
#[derive(Clone, Debug)]
pub(super) struct StridedLoad {
    buffer: Buffer,
    index: Linear,
}

/// A store to every other element that waits for the elements between.
#[derive(Clone, Debug)]
pub(super) struct PendingStore {
    buffer: Buffer,
    index: Linear,
    lanes: Lanes,
}

/// How the lanes of an element are loaded.
pub(super) fn element_kind(element: Element) -> (Kind, u32) {
    match element {
        Element::F32 => (Kind::Float, 32),
        Element::I2 | Element::I4 | Element::I8 => (Kind::Signed, 8),
        Element::I16 => (Kind::Signed, 16),
        Element::I32 => (Kind::Signed, 32),
        Element::B1 | Element::U2 | Element::U4 | Element::U8 | Element::F8E5M2 => {
            (Kind::Unsigned, 8)
        }
        Element::U16 => (Kind::Unsigned, 16),
        Element::U32 => (Kind::Unsigned, 32),
    }
}

impl Round<'_, '_, '_> {
    fn place(&self, buffer: Buffer, index: &Linear, constant: i64) -> String {
        let name = &self.scope.kernel().buffers[buffer.0 as usize].name;
        format!("&{name}[{}]", self.scope.scalar(&index.expr(constant)))
    }

    fn access(&mut self, buffer: Buffer, index: &Linear, stored: bool) {
        let moves = self.inner.iter().any(|&l| index.factor(l) != 0);
        self.accesses.push(Access { buffer, index: index.clone(), stored, moves });
    }

    /// The index of an access whose other terms are the same in each round, and what it advances.
    fn strided(&self, index: &Expr) -> Option<(Linear, i64)> {
        let index = Linear::of(index);
        let stride = index.factor(self.variable);
        let rest = index.terms.iter().filter(|(_, t)| *t != self.variable_expr());
        let uniform = rest.into_iter().all(|(_, t)| self.is_uniform(t));
        uniform.then_some((index, stride))
    }

    fn variable_expr(&self) -> Expr {
        let node = Box::new(trainc_ir::loops::Node::Local(self.variable));
        Expr { ty: Scalar::I64, node }
    }

    /// The elements of the rounds, as they are stored.
    pub(super) fn load(&mut self, buffer: Buffer, index: &Expr) -> Option<Lanes> {
        let (index, stride) = self.strided(index)?;
        let found = self.loaded.iter().find(|(b, i, _)| *b == buffer && *i == index);
        if let Some((_, _, lanes)) = found {
            return Some(lanes.clone());
        }
        let parameter = &self.scope.kernel().buffers[buffer.0 as usize];
        let (kind, bits) = element_kind(parameter.element);
        let name = format!("{}_v", parameter.name);
        if (bits as usize) * self.count < 64 {
            return None;
        }
        self.access(buffer, &index, false);
        let (parts, each) =
            (part_count(bits, self.count), self.count / part_count(bits, self.count));
        let (quad, suffix) = (quad(bits, self.count), suffix(kind, bits));
        let at = |n: usize| index.constant.wrapping_add((n * each) as i64 * stride);
        let lanes = match stride {
            1 => {
                let load =
                    |n| format!("vld1{quad}_{suffix}({})", self.place(buffer, &index, at(n)));
                let lanes = Lanes::new(kind, bits, self.count, (0..parts).map(load).collect());
                self.bind(&name, &lanes)
            }
            2 => return self.load_pair(buffer, &index, (kind, bits), &name),
            _ => return None,
        };
        self.loaded.push((buffer, index, lanes.clone()));
        Some(lanes)
    }

    /// Loads every other element, and those between, which another load of the loop may ask for.
    fn load_pair(
        &mut self,
        buffer: Buffer,
        index: &Linear,
        (kind, bits): (Kind, u32),
        name: &str,
    ) -> Option<Lanes> {
        self.strided.push(StridedLoad { buffer, index: index.clone() });
        let mut constants: Vec<i64> = self
            .expected
            .iter()
            .chain(&self.strided)
            .filter(|load| load.buffer == buffer && load.index.is_parallel(index))
            .map(|load| load.index.constant)
            .collect();
        constants.sort_unstable();
        constants.dedup();
        // Neighbours pair up from the first on.
        let (mut at, mut base, mut both) = (0, index.constant, false);
        while at < constants.len() {
            both = constants.get(at + 1) == Some(&(constants[at] + 1));
            base = constants[at];
            if base == index.constant || both && base + 1 == index.constant {
                break;
            }
            at += 1 + usize::from(both);
        }
        self.reads_beyond |= !both;
        let parts = part_count(bits, self.count);
        let each = self.count / parts;
        let (quad, suffix) = (quad(bits, self.count), suffix(kind, bits));
        let ty = vector_type(kind, bits, self.count).replace("_t", "x2_t");
        let pairs: Vec<String> = (0..parts)
            .map(|n| {
                let variable = self.scope.fresh(&if parts > 1 {
                    part_name(name, n)
                } else {
                    name.to_string()
                });
                let place = self.place(buffer, index, base + (2 * n * each) as i64);
                let load = format!("vld2{quad}_{suffix}({place})");
                self.lines.push(Line::Code(format!("const {ty} {variable} = {load};")));
                variable
            })
            .collect();
        let of = |which: usize| {
            let parts = pairs.iter().map(|p| format!("{p}.val[{which}]")).collect();
            Lanes::new(kind, bits, self.count, parts)
        };
        let known = |constant: i64| Linear { constant, terms: index.terms.clone() };
        self.loaded.push((buffer, known(base), of(0)));
        if both {
            self.loaded.push((buffer, known(base + 1), of(1)));
        }
        Some(of((index.constant - base) as usize))
    }

    /// Stores a value's rounds.
    pub(super) fn store(&mut self, buffer: Buffer, index: &Expr, value: &Expr) -> Option<()> {
        let (index, value) = (self.current(index)?, self.current(value)?);
        let (index, stride) = self.strided(&index)?;
        let (kind, bits) = element_kind(self.scope.kernel().buffers[buffer.0 as usize].element);
        let lanes = match kind {
            Kind::Float => self.float(&value)?,
            _ if value.ty == Scalar::Bool => {
                let whole = value.unary(trainc_ir::loops::Unary::BoolToInteger);
                self.value(&whole, bits)?.reinterpret(kind)
            }
            _ => self.value(&value, bits)?.reinterpret(kind),
        };
        self.access(buffer, &index, true);
        self.loaded.retain(|(b, ..)| *b != buffer);
        match stride {
            1 => {
                let name = lanes.intrinsic("vst1");
                let each = self.count / lanes.parts.len();
                for (n, part) in lanes.parts.iter().enumerate() {
                    let place = self.place(buffer, &index, index.constant + (n * each) as i64);
                    self.lines.push(Line::Code(format!("{name}({place}, {part});")));
                }
                Some(())
            }
            2 => {
                let lanes = self.bind("even", &lanes);
                self.store_pair(PendingStore { buffer, index, lanes })
            }
            _ => None,
        }
    }

    fn store_pair(&mut self, store: PendingStore) -> Option<()> {
        let meets = |other: &PendingStore| {
            let apart = other.index.constant - store.index.constant;
            other.buffer == store.buffer
                && other.index.is_parallel(&store.index)
                && apart.abs() == 1
        };
        let Some(at) = self.pending.iter().position(meets) else {
            self.pending.push(store);
            return Some(());
        };
        let other = self.pending.remove(at);
        let (low, high) = if other.index.constant < store.index.constant {
            (other, store)
        } else {
            (store, other)
        };
        let name = low.lanes.intrinsic("vst2");
        let ty = low.lanes.ty().replace("_t", "x2_t");
        let each = self.count / low.lanes.parts.len();
        for (n, (even, odd)) in low.lanes.parts.iter().zip(&high.lanes.parts).enumerate() {
            let pair = self.scope.fresh("pair");
            let place =
                self.place(low.buffer, &low.index, low.index.constant + (2 * n * each) as i64);
            self.lines.push(Line::Code(format!("const {ty} {pair} = {{{{{even}, {odd}}}}};")));
            self.lines.push(Line::Code(format!("{name}({place}, {pair});")));
        }
        Some(())
    }

    /// Whether the rounds do not meet in memory: what they load and store may be done a statement at a time.
    pub(super) fn rounds_are_apart(&self) -> bool {
        // A store that waits for its pair comes too late for a load.
        let late = |store: &Access| {
            let same = |a: &Access| a.buffer == store.buffer && !a.stored;
            store.index.factor(self.variable) == 2 && self.accesses.iter().any(same)
        };
        let in_place = |a, b| self.may_share(a, b);
        self.pending.is_empty()
            && !self.accesses.iter().any(|a| a.stored && late(a))
            && rounds_are_apart(&self.accesses, self.variable, self.rounds, &in_place).is_ok()
    }
}
