//! Loads and stores of rounds that run at a time.

use trainc_ir::Element;
use trainc_ir::loops::{Buffer, Expr, Scalar};
use trainc_loops::{Access, Linear, Pair};

use super::lanes::{Kind, Lanes, part_count, quad, suffix, vector_type};
use super::round::{Line, Round};

/// A store to every other element that waits for the elements between.
#[derive(Clone, Debug)]
pub(super) struct WaitingStore {
    access: Access,
    lanes: Lanes,
}

/// How the lanes of an element are loaded.
pub(super) fn element_kind(element: Element) -> (Kind, u32) {
    match element {
        Element::F32 => (Kind::Float, 32),
        Element::I2 | Element::I4 | Element::I8 => (Kind::Signed, 8),
        Element::I16 => (Kind::Signed, 16),
        Element::I32 => (Kind::Signed, 32),
        Element::B1 | Element::U2 | Element::U4 | Element::U8 => (Kind::Unsigned, 8),
        Element::U16 => (Kind::Unsigned, 16),
        Element::U32 => (Kind::Unsigned, 32),
    }
}

impl Round<'_, '_, '_> {
    fn element(&self, buffer: Buffer, index: &Linear, constant: i64) -> String {
        let name = &self.scope.kernel().buffers[buffer.0 as usize].name;
        format!("&{name}[{}]", self.scope.scalar(&index.expr(constant)))
    }

    /// The elements of the rounds, as they are stored.
    pub(super) fn load(&mut self, buffer: Buffer, index: &Expr) -> Lanes {
        let index = Linear::of(index);
        let found = self.loaded.iter().find(|(b, i, _)| *b == buffer && *i == index);
        if let Some((_, _, lanes)) = found {
            return lanes.clone();
        }
        let parameter = &self.scope.kernel().buffers[buffer.0 as usize];
        let (kind, bits) = element_kind(parameter.element);
        let name = format!("{}_v", parameter.name);
        if index.factor(self.plan.variable) == 2 {
            return self.load_pair(buffer, &index, (kind, bits), &name);
        }
        let parts = part_count(bits, self.count);
        let each = self.count / parts;
        let (quad, suffix) = (quad(bits, self.count), suffix(kind, bits));
        let lanes = if self.loads_several(parts) {
            // One instruction, which also steps to the next rounds.
            let name = self.scope.fresh(&name);
            let ty = vector_type(kind, bits, self.count).replace("_t", &format!("x{parts}_t"));
            let place = self.element(buffer, &index, index.constant);
            let load = format!("const {ty} {name} = vld1q_{suffix}_x{parts}({place});");
            self.lines.push(Line::Code(load));
            let values = (0..parts).map(|n| format!("{name}.val[{n}]")).collect();
            Lanes::new(kind, bits, self.count, values)
        } else {
            let at = |n: usize| index.constant.wrapping_add((n * each) as i64);
            let load = |n| format!("vld1{quad}_{suffix}({})", self.element(buffer, &index, at(n)));
            let lanes = Lanes::new(kind, bits, self.count, (0..parts).map(load).collect());
            self.bind(&name, &lanes)
        };
        self.loaded.push((buffer, index, lanes.clone()));
        lanes
    }

    /// Whether so many registers that lie together are loaded and stored by one instruction.
    fn loads_several(&self, parts: usize) -> bool {
        !self.is_armv7() && matches!(parts, 2 | 4)
    }

    /// Loads every other element, and those between, which another load of the loop may ask for.
    fn load_pair(
        &mut self,
        buffer: Buffer,
        index: &Linear,
        (kind, bits): (Kind, u32),
        name: &str,
    ) -> Lanes {
        let Pair { first, both } = self.plan.pair(buffer, index);
        let parts = part_count(bits, self.count);
        let each = self.count / parts;
        let (quad, suffix) = (quad(bits, self.count), suffix(kind, bits));
        let ty = vector_type(kind, bits, self.count).replace("_t", "x2_t");
        let pairs = self.names(name, parts);
        for (n, pair) in pairs.iter().enumerate() {
            let place = self.element(buffer, index, first + (2 * n * each) as i64);
            self.lines
                .push(Line::Code(format!("const {ty} {pair} = vld2{quad}_{suffix}({place});")));
        }
        let of = |which: i64| {
            let parts = pairs.iter().map(|p| format!("{p}.val[{which}]")).collect();
            Lanes::new(kind, bits, self.count, parts)
        };
        let known = |constant: i64| Linear { constant, terms: index.terms.clone() };
        self.loaded.push((buffer, known(first), of(0)));
        if both {
            self.loaded.push((buffer, known(first + 1), of(1)));
        }
        of(index.constant - first)
    }

    /// Stores a value's rounds.
    pub(super) fn store(&mut self, buffer: Buffer, index: &Expr, value: &Expr) {
        let index = Linear::of(index);
        let (kind, bits) = element_kind(self.scope.kernel().buffers[buffer.0 as usize].element);
        let lanes = match kind {
            Kind::Float => self.float(value),
            _ if value.ty == Scalar::Bool => {
                let whole = value.clone().unary(trainc_ir::loops::Unary::BoolToInteger);
                self.value(&whole, bits).reinterpret(kind)
            }
            _ => self.value(value, bits).reinterpret(kind),
        };
        self.loaded.retain(|(b, ..)| *b != buffer);
        if index.factor(self.plan.variable) == 2 {
            let lanes = self.bind("even", &lanes);
            let access = Access { buffer, index, stored: true, moves: false };
            return self.store_pair(WaitingStore { access, lanes });
        }
        let name = lanes.intrinsic("vst1");
        let parts = lanes.parts.len();
        if self.loads_several(parts) {
            let ty = lanes.ty().replace("_t", &format!("x{parts}_t"));
            let all = self.scope.fresh("all");
            let values = lanes.parts.join(", ");
            let place = self.element(buffer, &index, index.constant);
            self.lines.push(Line::Code(format!("const {ty} {all} = {{{{{values}}}}};")));
            return self.lines.push(Line::Code(format!("{name}_x{parts}({place}, {all});")));
        }
        let each = self.count / parts;
        for (n, part) in lanes.parts.iter().enumerate() {
            let place = self.element(buffer, &index, index.constant + (n * each) as i64);
            self.lines.push(Line::Code(format!("{name}({place}, {part});")));
        }
    }

    fn store_pair(&mut self, store: WaitingStore) {
        let beside = |other: &WaitingStore| other.access.is_beside(&store.access);
        let Some(at) = self.waiting.iter().position(beside) else {
            return self.waiting.push(store);
        };
        let other = self.waiting.remove(at);
        let first = other.access.index.constant < store.access.index.constant;
        let (low, high) = if first { (other, store) } else { (store, other) };
        let name = low.lanes.intrinsic("vst2");
        let ty = low.lanes.ty().replace("_t", "x2_t");
        let each = self.count / low.lanes.parts.len();
        let Access { buffer, index, .. } = &low.access;
        for (n, (even, odd)) in low.lanes.parts.iter().zip(&high.lanes.parts).enumerate() {
            let pair = self.scope.fresh("pair");
            let place = self.element(*buffer, index, index.constant + (2 * n * each) as i64);
            self.lines.push(Line::Code(format!("const {ty} {pair} = {{{{{even}, {odd}}}}};")));
            self.lines.push(Line::Code(format!("{name}({place}, {pair});")));
        }
    }
}
