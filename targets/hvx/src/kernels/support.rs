//! What kernels share.

use crate::machine::{Builder, Opcode, Register};

/// A loop that runs a constant number of times; a single time needs none.
pub(crate) fn loop_over(
    b: &mut Builder,
    count: usize,
    purpose: &str,
    body: impl FnOnce(&mut Builder),
) {
    match u32::try_from(count).unwrap_or(u32::MAX) {
        0 => {}
        1 => body(b),
        count => b.repeat(count, purpose, body),
    }
}

/// As [`loop_over`], for innermost loops.
pub(crate) fn constant_loop(
    b: &mut Builder,
    count: usize,
    purpose: &str,
    body: impl FnOnce(&mut Builder),
) {
    loop_over(b, count, purpose, body);
}

/// A piece of code to be placed between others.
pub(crate) type Piece<'a> = Box<dyn Fn(&mut Builder) + 'a>;

/// Lays several sequences of pieces into one another evenly.
pub(crate) fn weave(b: &mut Builder, sequences: &[Vec<Piece<'_>>]) {
    let mut done = vec![0; sequences.len()];
    // The one that is the least far; fractions compare by their cross products.
    while let Some(next) =
        (0..sequences.len()).filter(|&i| done[i] < sequences[i].len()).min_by(|&i, &j| {
            let (i, j) = ((done[i], sequences[i].len()), (done[j], sequences[j].len()));
            (i.0 * j.1).cmp(&(j.0 * i.1))
        })
    {
        sequences[next][done[next]](b);
        done[next] += 1;
    }
}

/// Accumulates products two by two, a packet's worth, with other pieces spread between them: the order of the text is
/// then a good schedule already, whatever the registers allow.
///
/// Products are `[vector][row]` accumulators, one vector of unsigned bytes each, and the scalars of the rows. Comments
/// name lanes and rows.
pub(crate) fn multiply_among(
    b: &mut Builder,
    accumulate: Opcode,
    accumulators: &[[Register; 4]],
    vectors: &[Register],
    rows: [Register; 4],
    pieces: &[Piece<'_>],
    (lanes, row_name): (&str, &str),
) {
    let pairs = 2 * vectors.len();
    let mut done = 0;
    for pair in 0..pairs {
        let vector = pair / 2;
        let first = 2 * (pair % 2);
        for row in [first, first + 1] {
            if row == first {
                let (lane, last) = (32 * vector, 32 * vector + 31);
                b.comment(&format!("{lanes} {lane}-{last}, {row_name} {first} and {}", first + 1));
            }
            let operands = (accumulators[vector][row], vectors[vector], rows[row]);
            b.update(accumulate, operands);
        }
        while done * pairs < (pair + 1) * pieces.len() && done < pieces.len() {
            pieces[done](b);
            done += 1;
        }
    }
}

/// The four words of two pairs.
pub(crate) fn words(pairs: [Register; 2]) -> [Register; 4] {
    [pairs[0].low(), pairs[0].high(), pairs[1].low(), pairs[1].high()]
}

/// Zero in all lanes.
pub(crate) fn zero_vector(b: &mut Builder, result: Register) {
    let zero = b.zero();
    b.emit_to(result, Opcode::VsplatW, (zero,));
}

/// The bitwise or of a vector's 32-bit lanes.
pub(crate) fn or_lanes(b: &mut Builder, vector: Register) -> Register {
    let mut all = vector;
    for bytes in [64, 32, 16, 8, 4] {
        let distance = b.constant(bytes);
        let turned = b.emit(Opcode::Vror, (all, distance));
        all = b.emit(Opcode::Vor, (all, turned));
    }
    let zero = b.zero();
    b.emit(Opcode::VextractW, (all, zero))
}

/// Interleaves the bytes of registers, read as one long index, so that the register number moves to the low end of
/// the index in units of `unit` bytes: 2^k registers go through k stages, each a perfect shuffle of pairs.
///
/// `registers` holds 2^k vectors; result `i` holds what the rotated index says. Only results in `wanted` are made.
pub(crate) fn rotate_in(
    b: &mut Builder,
    registers: &[Register],
    unit: i32,
    wanted: usize,
) -> Vec<Register> {
    let stages = registers.len().ilog2();
    let unit = b.constant(-unit);
    let mut network =
        Network { unit, levels: vec![vec![None; registers.len()]; stages as usize + 1] };
    network.levels[0] = registers.iter().map(|&r| Some(r)).collect();
    (0..wanted.min(registers.len())).map(|i| network.make(b, stages as usize, i)).collect()
}

/// What [`rotate_in`] does, undone: the lowest part of the index, in units of `unit` bytes, becomes the register number.
pub(crate) fn rotate_out(b: &mut Builder, registers: &[Register], unit: i32) -> Vec<Register> {
    let unit = b.constant(-unit);
    let half = registers.len() / 2;
    let mut registers = registers.to_vec();
    for _ in 0..registers.len().ilog2() {
        let pairs: Vec<Register> = (0..half)
            .map(|i| b.emit(Opcode::Vdeal, (registers[2 * i + 1], registers[2 * i], unit)))
            .collect();
        registers = pairs.iter().map(|p| p.low()).chain(pairs.iter().map(|p| p.high())).collect();
    }
    registers
}

struct Network {
    unit: Register,
    levels: Vec<Vec<Option<Register>>>,
}

impl Network {
    fn make(&mut self, b: &mut Builder, level: usize, index: usize) -> Register {
        if let Some(register) = self.levels[level][index] {
            return register;
        }
        // A stage takes the pair that differs in the top bit of the register number; the index's top bit becomes the
        // lowest bit of the number.
        let half = self.levels[level].len() / 2;
        let pair = index / 2;
        let low = self.make(b, level - 1, pair);
        let high = self.make(b, level - 1, pair + half);
        let both = b.emit(Opcode::Vshuff, (high, low, self.unit));
        self.levels[level][2 * pair] = Some(both.low());
        self.levels[level][2 * pair + 1] = Some(both.high());
        self.levels[level][index].unwrap_or(low)
    }
}
