//! Sums of products of 16 bits in lanes of words: made of vectors of halves, which are not widened first, two parts at a time.

use trainc_ir::Element;
use trainc_ir::loops::{Binary, Expr, Node, Scalar};
use trainc_loops::{Linear, bits_of};

use super::super::Selector;
use super::super::addresses::element_bytes;
use super::{Plan, Stream, VECTOR};
use crate::machine::{Builder, Opcode, Register};

/// Where vectors of halves come from.
enum Halves<'e> {
    /// The same in all rounds.
    Splat(&'e Expr),
    /// A stream of bytes or halves.
    Stream(usize),
}

/// What a sum adds up: products, by their factors, and the rest.
#[derive(Default)]
struct Terms<'e> {
    products: Vec<[&'e Expr; 2]>,
    others: Vec<&'e Expr>,
}

impl<'e> Terms<'e> {
    fn collect(&mut self, e: &'e Expr) {
        match &*e.node {
            Node::Binary(Binary::Add, x, y) if e.ty == Scalar::I32 => {
                self.collect(x);
                self.collect(y);
            }
            Node::Binary(Binary::Multiply, x, y) if e.ty == Scalar::I32 => {
                self.products.push([x, y]);
            }
            _ => self.others.push(e),
        }
    }
}

impl Selector<'_> {
    /// A factor of 16 bits with a sign whose halves need not be made of words.
    fn halves<'e>(&self, plan: &Plan, e: &'e Expr) -> Option<Halves<'e>> {
        if self.stays(plan, e) {
            let short = bits_of(self.of_plan(plan).interval(e)) <= 16;
            return short.then_some(Halves::Splat(e));
        }
        let Node::Load(buffer, index) = &*e.node else { return None };
        let element = self.kernel.buffers[buffer.0 as usize].element;
        let short = element_bytes(element) == 1 || element == Element::I16;
        let stream = self.find_stream(plan, buffer.0, index).filter(|_| short)?;
        Some(Halves::Stream(stream))
    }

    /// Whether a factor has halves once the streams of its loads are open.
    fn will_have_halves(&self, plan: &Plan, e: &Expr) -> bool {
        match &*e.node {
            _ if self.stays(plan, e) => self.halves(plan, e).is_some(),
            Node::Load(buffer, _) => {
                let element = self.kernel.buffers[buffer.0 as usize].element;
                element_bytes(element) == 1 || element == Element::I16
            }
            _ => false,
        }
    }

    /// The terms of a sum in lanes of words all of whose products are of halves.
    fn product_terms<'e>(&self, plan: &Plan, e: &'e Expr) -> Option<Terms<'e>> {
        if plan.width != 4 || !plan.parts.is_multiple_of(2) {
            return None;
        }
        let mut terms = Terms::default();
        terms.collect(e);
        let factors = || terms.products.iter().flatten();
        let vary = terms.products.iter().all(|both| both.iter().any(|x| !self.stays(plan, x)));
        let fits = vary && factors().all(|x| self.will_have_halves(plan, x));
        (fits && !terms.products.is_empty()).then_some(terms)
    }

    /// Streams and splats of such a sum; whether it is one.
    pub(super) fn prepare_products(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        first: &Linear,
    ) -> bool {
        let Some(terms) = self.product_terms(plan, e) else { return false };
        for factor in terms.products.iter().flatten() {
            if !self.stays(plan, factor) {
                self.prepare_value(b, plan, factor, first, false);
            } else if plan.halves.iter().all(|(known, _)| known != *factor) {
                let value = self.value(b, factor);
                let splat = b.emit(Opcode::VsplatH, (value,));
                plan.halves.push(((*factor).clone(), splat));
            }
        }
        if plan.interleaves.is_none() {
            plan.interleaves = Some(b.constant(-4));
        }
        terms.others.iter().for_each(|other| self.prepare_value(b, plan, other, first, false));
        true
    }

    /// Such a sum of a part.
    pub(super) fn products(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        part: usize,
    ) -> Option<Register> {
        let terms = self.product_terms(plan, e)?;
        let interleaves = plan.interleaves?;
        let made = plan.products.iter().find(|(known, pair, _)| known == e && *pair == part / 2);
        let pair = match made {
            Some((_, _, pair)) => *pair,
            None => {
                let mut sums: Option<Register> = None;
                for [x, y] in &terms.products {
                    let x = self.half_vector(b, plan, x, part / 2)?;
                    let y = self.half_vector(b, plan, y, part / 2)?;
                    match sums {
                        None => sums = Some(b.emit(Opcode::VmpyHHv, (x, y))),
                        Some(sums) => b.update(Opcode::VmpyHHvAccumulate, (sums, x, y)),
                    }
                }
                // Products of even lanes come first, then those of odd ones.
                let sums = sums?;
                let pair = b.emit(Opcode::Vshuff, (sums.high(), sums.low(), interleaves));
                plan.products.push((e.clone(), part / 2, pair));
                pair
            }
        };
        let mut sum = if part.is_multiple_of(2) { pair.low() } else { pair.high() };
        for other in terms.others {
            let other = self.words(b, plan, other, part);
            sum = b.emit(Opcode::VaddW, (sum, other));
        }
        Some(sum)
    }

    /// Halves of two parts of a factor, in order.
    fn half_vector(
        &mut self,
        b: &mut Builder,
        plan: &mut Plan,
        e: &Expr,
        at: usize,
    ) -> Option<Register> {
        let stream = match self.halves(plan, e)? {
            Halves::Splat(e) => {
                return plan.halves.iter().find(|(known, _)| known == e).map(|(_, splat)| *splat);
            }
            Halves::Stream(stream) => stream,
        };
        if let Some((_, vectors)) = plan.half_loads.iter().find(|(known, _)| *known == stream) {
            return vectors.get(at).copied();
        }
        let Stream { buffer, pointer, aligned, .. } = plan.streams[stream];
        let object = self.object(buffer);
        let element = self.kernel.buffers[buffer as usize].element;
        let opcode = if aligned { Opcode::LoadV } else { Opcode::LoadVUnaligned };
        let mut vectors = Vec::new();
        for offset in 0..plan.lanes as i32 * element_bytes(element) / VECTOR {
            let vector = b.load(opcode, (pointer, offset), object);
            self.promise(b, object);
            let widen = match element {
                Element::I16 => None,
                Element::I2 | Element::I4 | Element::I8 => Some(Opcode::VunpackB),
                _ => Some(Opcode::VunpackUb),
            };
            match widen {
                None => vectors.push(vector),
                Some(widen) => {
                    let pair = b.emit(widen, (vector,));
                    vectors.extend([pair.low(), pair.high()]);
                }
            }
        }
        let vector = vectors.get(at).copied();
        plan.half_loads.push((stream, vectors));
        vector
    }
}
