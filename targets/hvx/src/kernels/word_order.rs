//! Sums of 32 bits whose lanes lie side by side, put in the order of a result in which they lie apart: rows and lanes change places.

use super::product::{LANES, VECTOR};
use super::support::rotate_in;
use super::weight_gradient::word;
use crate::machine::{Builder, Object, Opcode, Register};

/// Most rows that change places in registers at once.
pub(super) const MOST_ROWS: usize = 16;

/// Of up to [`MOST_ROWS`] vectors, the words of each lane side by side, so many lanes: a lane's words lie in as many places as the next
/// power of two of the rows.
pub(super) fn side_by_side(b: &mut Builder, rows: &[Register], lanes: usize) -> Vec<Register> {
    let places = rows.len().next_power_of_two();
    let mut rows = rows.to_vec();
    // Places behind the rows hold anything.
    rows.resize(places, rows[0]);
    if places == 1 {
        return rows;
    }
    rotate_in(b, &rows, 4, (lanes * places).div_ceil(LANES))
}

/// Stores the words of so many lanes one lane after the other, each lane's last vector reaching into what follows, and moves on.
pub(super) fn store_lanes(
    b: &mut Builder,
    rows: &[Register],
    lanes: usize,
    (to, object): (Register, Object),
) {
    let places = rows.len().next_power_of_two();
    let vectors = side_by_side(b, rows, lanes);
    if places == rows.len() {
        for vector in &vectors {
            b.store(Opcode::StoreVUnalignedNext, (to, 1, *vector), object);
        }
        let back = vectors.len() * VECTOR - 4 * lanes * places;
        if back > 0 {
            b.emit_to(to, Opcode::AddImmediate, (to, -word(back)));
        }
        return;
    }
    let in_vector = LANES / places;
    let turns: Vec<Register> =
        (0..in_vector).map(|lane| b.constant(word(4 * places * lane))).collect();
    for lane in 0..lanes {
        let vector = vectors[lane / in_vector];
        let vector = match lane % in_vector {
            0 => vector,
            within => b.emit(Opcode::Vror, (vector, turns[within])),
        };
        b.store(Opcode::StoreVUnaligned, (to, 0, vector), object);
        b.emit_to(to, Opcode::AddImmediate, (to, word(4 * rows.len())));
    }
}

/// An estimate of the packets of [`store_lanes`].
pub(super) fn store_packets(rows: usize, lanes: usize) -> usize {
    let places = rows.next_power_of_two();
    let shuffles = places / 2 * places.ilog2() as usize;
    match places == rows {
        true => shuffles + rows,
        false => shuffles + lanes + lanes / 2,
    }
}
