//! Rows of bytes put side by side.

use super::plane_memory::{advance, quads_of};
use super::product::VECTOR;
use super::support::loop_over;
use super::weight_gradient::word;
use crate::machine::{Builder, Object, Opcode, Register};

/// Rows of bytes of which four are interleaved to words.
pub(super) struct Lines {
    /// Bytes of a row.
    pub(super) length: usize,
    /// What stands for bytes that there are none of.
    pub(super) fill: Register,
    /// Whether the fill is added to bytes, bit by bit.
    pub(super) flips: bool,
}

impl Lines {
    /// `[line][byte]` to `[quad][byte][line of the quad]`, whole vectors.
    pub(super) fn interleave(
        &self,
        b: &mut Builder,
        lines: usize,
        [from, to]: [Register; 2],
        (source, target): (Object, Object),
    ) {
        let shuffles = [-1, -2].map(|unit| b.constant(unit));
        let rest = self.length % VECTOR;
        let inside = (rest > 0).then(|| {
            let rest = b.constant(word(rest));
            b.emit(Opcode::Vsetq, (rest,))
        });
        let quad = |b: &mut Builder, lines: usize| {
            let places: Vec<Register> = (0..lines)
                .map(|line| b.emit(Opcode::AddImmediate, (from, word(line * self.length))))
                .collect();
            let piece = |b: &mut Builder, inside: Option<Register>| {
                let mut rows = [self.fill; 4];
                for (row, &place) in rows.iter_mut().zip(&places) {
                    let mut x = b.load(Opcode::LoadVUnaligned, (place, 0), source);
                    advance(b, place, VECTOR);
                    if self.flips {
                        x = b.emit(Opcode::Vxor, (x, self.fill));
                    }
                    *row = match inside {
                        Some(inside) => b.emit(Opcode::Vmux, (inside, x, self.fill)),
                        None => x,
                    };
                }
                for words in quads_of(b, rows, shuffles, 4) {
                    b.store(Opcode::StoreVNext, (to, 1, words), target);
                }
            };
            loop_over(b, self.length / VECTOR, "128 columns", |b| piece(b, None));
            if inside.is_some() {
                piece(b, inside);
            }
            advance(b, from, lines * self.length);
        };
        loop_over(b, lines / 4, "quads of rows", |b| quad(b, 4));
        if !lines.is_multiple_of(4) {
            quad(b, lines % 4);
        }
    }
}
