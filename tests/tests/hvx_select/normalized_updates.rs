//! Updates of floats by integers, at the ends of what they take and of what floats' own loops do, and their packets.

use trainc_hvx::lower;
use trainc_ir::ops::{NormalizedUpdate, Operator};
use trainc_ir::{Op, RunContext, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check};

/// Packets that it takes; the results are the definition's.
fn packets(what: &str, [w, g]: [Vec<f32>; 2], bits: i32) -> u32 {
    let op = NormalizedUpdate {};
    let operands = [w, g].map(|x| Tensor::f32([x.len()], x));
    let bits = Tensor::i32([], vec![bits]);
    let operands = [&operands[0], &operands[1], &bits];
    let meaning = op.evaluate(&operands, &RunContext::default());
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let kernel = lower(&Op::from(op), &types, &types[..1]);
    let mut image = Image::default();
    image.kernel("kernel", what, &kernel, &operands, &meaning, &RunContext::default());
    check(&folder(what), &image, &assembly("kernel", &kernel))
}

/// Gradients and parameters near the steps that these make, near 0, and of few bits, for which differences are halfway.
fn drawn(random: &mut Random, count: usize, bits: i32) -> [Vec<f32>; 2] {
    let largest = ((20 + random.next() as u32 % 200) << 23) | (random.next() >> 41) as u32;
    let mut g: Vec<f32> = (0..count)
        .map(|i| {
            let lower = (random.next() >> 20) as u32 % [4 << 23, 50 << 23, 1 << 22, 12][i % 4];
            let bits = largest.saturating_sub(lower).max(1 << 23);
            let bits = if i.is_multiple_of(3) { bits & 0xffff_0000 } else { bits };
            let sign = (random.next() as u32 & 1) << 31;
            f32::from_bits(if i % 13 == 5 { sign } else { sign | bits.max(1 << 23) })
        })
        .collect();
    let place = random.next() as usize % count;
    g[place] = f32::from_bits(largest);
    let w = g.iter().enumerate().map(|(i, g)| {
        let step = 2f32.powi(bits - 10) * (g / f32::from_bits(largest));
        let drawn = (random.next() >> 30) as u32;
        match i % 7 {
            0 => step,
            1 => -step,
            2 => f32::from_bits(step.to_bits().wrapping_add(drawn % 9).wrapping_sub(4)),
            3 => f32::from_bits(step.to_bits() ^ (drawn & 0x83ff_ffff)),
            4 => 0.0,
            5 => f32::from_bits((drawn & 0x807f_ffff) | (64 + drawn % 189) << 23),
            _ => f32::from_bits((drawn & 0x8070_0000) | (100 + drawn % 40) << 23),
        }
    });
    let w = w.map(|w| if w.is_normal() { w } else { 0.0 }).collect();
    [w, g]
}

#[test]
fn differences_of_the_definition() {
    let mut random = Random(59);
    for (count, bits) in [(32, 5), (64, 1), (100, 7), (31, 3), (4096, 5), (4096, 2)] {
        let operands = drawn(&mut random, count, bits);
        let usual = packets(&format!("update {count} {bits}"), operands, bits);
        println!("{count} elements, {bits} bits: {usual} packets");
        assert!(count < 4096 || usual < 3 * 4096, "{usual} packets");
    }
    // What the floats' own loops do.
    for (case, rare) in [
        -0.0,
        f32::from_bits(1),
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE / 2.0,
        -f32::INFINITY,
    ]
    .into_iter()
    .enumerate()
    {
        for operand in [0, 1] {
            let mut operands = drawn(&mut random, 50, 5);
            operands[operand][random.next() as usize % 50] = rare;
            packets(&format!("update {case} {operand}"), operands, 5);
        }
    }
    for bits in [0, -3, 100] {
        let operands = drawn(&mut random, 40, 7);
        packets(&format!("update by {bits} bits"), operands, bits);
    }
    let [w, _] = drawn(&mut random, 40, 7);
    packets("update by nothing", [w, vec![0.0; 40]], 5);
}
