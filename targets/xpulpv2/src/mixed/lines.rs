//! Lines of bytes out of rows of the operand.

use crate::instructions::{Binary, Block, Builder, Immediate, Kind, Width};

/// Words that are on their way at once, so that nothing waits for a load.
const COPIES: usize = 4;

/// Copies words. Parameters: `from`, `to`.
pub(crate) fn copy(words: usize) -> Block {
    let (mut b, slots) = Builder::new(&[("from", Kind::Source), ("to", Kind::Target)]);
    let (from, to) = (b.take_slot(slots[0]), b.take_slot(slots[1]));
    let on_the_way: Vec<_> = (0..COPIES).map(|i| b.word(format!("word{i}"))).collect();
    each(&mut b, words, COPIES, |b, count| {
        on_the_way[..count].iter().for_each(|&word| b.load_step(word, from, 4));
        on_the_way[..count].iter().for_each(|&word| b.store_step(Width::Word, word, to, 4));
    });
    b.finish()
}

/// Fills words. Parameters: `to`, `word`.
pub(crate) fn fill(words: usize) -> Block {
    let (mut b, slots) = Builder::new(&[("to", Kind::Target), ("word", Kind::Word)]);
    let (to, word) = (b.take_slot(slots[0]), b.take_slot(slots[1]));
    each(&mut b, words, COPIES, |b, count| {
        (0..count).for_each(|_| b.store_step(Width::Word, word, to, 4));
    });
    b.finish()
}

/// Makes words of bytes out of words of narrower integers: part `p` of the word holds bits `p * bits..` of each byte.
/// Parameters: `from`, `to`.
pub(crate) fn unpack(words: usize, bits: usize, signed: bool) -> Block {
    let (mut b, slots) = Builder::new(&[("from", Kind::Source), ("to", Kind::Target)]);
    let (from, to) = (b.take_slot(slots[0]), b.take_slot(slots[1]));
    let mask = (!signed).then(|| b.word("mask"));
    if let Some(mask) = mask {
        b.constant(mask, ((1 << bits) - 1) * 0x0101_0101);
    }
    let packed: Vec<_> = (0..2).map(|i| b.word(format!("packed{i}"))).collect();
    let bytes = b.word("bytes");
    let (parts, unused) = (8 / bits, (8 - bits) as i32);
    each(&mut b, words, packed.len(), |b, count| {
        packed[..count].iter().for_each(|&word| b.load_step(word, from, 4));
        for &word in &packed[..count] {
            for part in 0..parts {
                let at = (part * bits) as i32;
                let last = part + 1 == parts;
                let part = if last { word } else { bytes };
                match mask {
                    Some(_) if last => {
                        b.immediate(Immediate::ShiftBytesRightUnsigned, part, word, at);
                    }
                    Some(mask) if at == 0 => b.binary(Binary::And, part, word, mask),
                    Some(mask) => {
                        b.immediate(Immediate::ShiftBytesRightUnsigned, part, word, at);
                        b.binary(Binary::And, part, part, mask);
                    }
                    None if last => b.immediate(Immediate::ShiftBytesRight, part, word, at),
                    None => {
                        b.immediate(Immediate::ShiftBytesLeft, part, word, unused - at);
                        b.immediate(Immediate::ShiftBytesRight, part, part, unused);
                    }
                }
                b.store_step(Width::Word, part, to, 4);
            }
        }
    });
    b.finish()
}

/// A loop of so many at once, and the rest.
fn each(b: &mut Builder, total: usize, at_once: usize, body: impl Fn(&mut Builder, usize)) {
    let rounds = total / at_once;
    match rounds {
        0 => {}
        1 => body(b, at_once),
        _ => {
            let count = b.word("count");
            b.hardware_loop(0, rounds, count, |b| body(b, at_once));
            b.free([count]);
        }
    }
    if !total.is_multiple_of(at_once) {
        body(b, total % at_once);
    }
}
