//! Quotients and square roots of floats as the scalar core's routines compute them, beside this machine's: numbers near each other,
//! ends of the range, few bits, and fractions whose quotients are hard to round.

use trainc_ir::TensorType;
use trainc_ir::loops::Unary;
use trainc_ir::loops::builder::LoopBuilder;

use super::harness::{Image, folder};
use super::{assembly, check};

/// Pairs of operands, as bits.
fn pairs() -> Vec<[u32; 2]> {
    const ENDS: [u32; 24] = [
        0,
        1,
        2,
        0x40_0000,
        0x7f_ffff,
        0x80_0000,
        0x80_0001,
        0xff_ffff,
        0x100_0000,
        0x3f7f_ffff,
        0x3f80_0000,
        0x3f80_0001,
        0x3fff_fffe,
        0x3fff_ffff,
        0x4000_0000,
        0x4040_0000,
        0x7e80_0000,
        0x7eff_ffff,
        0x7f00_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7f80_0001,
        0x7fc0_0000,
        0x0040_0001,
    ];
    let signs = [0, 1 << 31];
    let mut pairs = Vec::new();
    for a in ENDS {
        for b in ENDS {
            pairs.extend(signs.into_iter().flat_map(|s| signs.map(|t| [a | s, b | t])));
        }
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for n in 0..40_000 {
        let word = next();
        let (a, mut b) = (word as u32, (word >> 32) as u32);
        let exponent = |bits: u32, e: u32| bits & 0x807f_ffff | (e & 255) << 23;
        match n % 5 {
            // Exponents near each other; quotients near the least and the largest numbers.
            0 => b = exponent(b, (a >> 23) + (word >> 20) as u32 % 9),
            1 => b = exponent(b, (a >> 23) + 126 + (word >> 20) as u32 % 30),
            2 => b = exponent(b, (a >> 23).wrapping_sub(124 + (word >> 20) as u32 % 8)),
            // Divisors close to 1 and to 2, whose quotients come close to halves of the last place.
            3 => b = 0x3f80_0000 | (b & 15).wrapping_sub(8) & 0x7f_ffff,
            _ => {}
        }
        pairs.push([a, b]);
    }
    pairs
}

#[test]
fn quotients_and_roots() {
    let pairs = pairs();
    let ty = TensorType::f32([pairs.len()]);
    let mut b = LoopBuilder::new(&[&ty, &ty], &[&ty, &ty], false);
    let (x, y, quotients, roots) = (b.input(0), b.input(1), b.output(0), b.output(1));
    b.for_("i", pairs.len(), |b, i| {
        let quotient = b.load(x, i.clone()).divide(b.load(y, i.clone()));
        b.store(quotients, i.clone(), quotient);
        let root = b.load(x, i.clone()).unary(Unary::Sqrt);
        b.store(roots, i, root);
    });
    let bytes = |words: Vec<u32>| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let of = |f: &dyn Fn(f32, f32) -> f32| {
        let results = pairs.iter().map(|&[a, b]| f(f32::from_bits(a), f32::from_bits(b)));
        // There is one bit pattern for what is no number; a root keeps its operand's.
        let bits = results.zip(&pairs).map(|(result, &[a, _])| match result.is_nan() {
            true if f(1.0, 0.0) == 1.0 && f32::from_bits(a).is_nan() => a,
            true => 0x7fc0_0000,
            false => result.to_bits(),
        });
        bytes(bits.collect())
    };
    let mut image = Image::default();
    let mut arguments: Vec<usize> = [0, 1]
        .map(|n| {
            let operand = bytes(pairs.iter().map(|pair| pair[n]).collect());
            image.place("operands", Some(&operand), None, operand.len())
        })
        .to_vec();
    for (name, results) in [("quotients", of(&|a, b| a / b)), ("roots", of(&|a, _| a.sqrt()))] {
        arguments.push(image.place(name, None, Some(&results), results.len()));
    }
    let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
    image.call("routines", &arguments);
    let packets = check(&folder("routines"), &image, &assembly("routines", &b.finish()));
    println!("{} packets a pair", packets as usize / pairs.len());
}
