//! Lines of bytes out of rows of the operand.

use trainc_ir::Element;

use super::convolution::{bits, is_signed};
use super::text::Text;
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

/// `NAME_row`: makes words of bytes out of words of narrower integers and keeps their order. Each byte gets the byte that holds its
/// element, then that is shifted.
pub(crate) fn ordered(name: &str, words: usize, element: Element) -> String {
    let (width, mut out) = (bits(element), Text::default());
    let parts = 8 / width;
    let word = |byte: &dyn Fn(usize) -> usize| {
        let bytes = [0, 1, 2, 3].map(|i| byte(i) as u8);
        format!("UINT32_C({:#010x})", u32::from_le_bytes(bytes))
    };
    out.line("/* A row of the operand as bytes. */");
    out.line(format!("static void {name}_row(const uint8_t *from, uint8_t *to)"));
    out.open("{");
    out.for_("i", words);
    out.line("const uint32_t word = trainc_xpulp_load(from);");
    for result in 0..parts {
        let picked =
            format!("trainc_xpulp_shuffle_b(word, {})", word(&|i| (4 * result + i) / parts));
        let value = if is_signed(element) {
            let up = word(&|i| (parts - 1 - i % parts) * width);
            let moved = format!("trainc_xpulp_sll_b({picked}, {up})");
            format!("trainc_xpulp_sra_b({moved}, {})", word(&|_| 8 - width))
        } else {
            let down = word(&|i| i % parts * width);
            let mask = word(&|_| (1 << width) - 1);
            format!("trainc_xpulp_srl_b({picked}, {down}) & {mask}")
        };
        out.line(format!("const uint32_t bytes{result} = {value};"));
    }
    for result in 0..parts {
        out.line(format!("trainc_xpulp_store(to + {}, bytes{result});", 4 * result));
    }
    out.line("from += 4;");
    out.line(format!("to += {};", 4 * parts));
    out.close();
    out.close();
    out.finish()
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
