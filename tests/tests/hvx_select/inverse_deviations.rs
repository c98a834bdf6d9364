//! Reciprocals of roots by integers, at the ends of what they take and of what floats' own loops do, and their packets.

use trainc_hvx::lower;
use trainc_ir::attributes::F32;
use trainc_ir::ops::{InverseDeviation, Operator};
use trainc_ir::{Op, RunContext, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check};

/// Packets that it takes; the results are the definition's.
fn packets(what: &str, epsilon: f32, variances: Vec<f32>) -> u32 {
    let op = InverseDeviation { epsilon: F32::new(epsilon), batch: true };
    let operand = Tensor::f32([variances.len()], variances);
    let meaning = op.evaluate(&[&operand], &RunContext::default());
    let types: Vec<&TensorType> = vec![operand.ty()];
    let kernel = lower(&Op::from(op), &types, &types);
    let mut image = Image::default();
    image.kernel("kernel", what, &kernel, &[&operand], &meaning, &RunContext::default());
    check(&folder(what), &image, &assembly("kernel", &kernel))
}

#[test]
fn bits_of_the_definition() {
    let mut random = Random(53);
    for (number, epsilon) in
        [1e-5, 1e-3, 1.0, 0.1, 1e-20, 3e10, f32::MIN_POSITIVE, 0.0, 1e30].into_iter().enumerate()
    {
        let near = epsilon.to_bits() >> 23;
        for count in [32, 64, 100, 31, 4096] {
            let variances = |random: &mut Random| -> Vec<f32> {
                let one = |i: usize| {
                    let drawn = random.next();
                    let (bits, by) = ((drawn >> 32) as u32, (drawn >> 8) as u32);
                    // Of all exponents, of those about the epsilon's, and with few bits, for which sums are halfway.
                    let bits = match i % 4 {
                        0 => bits % 0x7f00_0000,
                        1 | 2 => ((near + 30).saturating_sub(by % 60) % 254) << 23 | bits >> 9,
                        _ => ((near + 30).saturating_sub(by % 60) % 254) << 23 | (bits & 7) << 20,
                    };
                    f32::from_bits(bits)
                };
                (0..count).map(one).collect()
            };
            let mut usual = variances(&mut random);
            for (place, bits) in
                usual.iter_mut().zip([0, 1, 0x7f_ffff, 0x80_0000, 0x7eff_ffff, near << 23])
            {
                *place = f32::from_bits(bits);
            }
            let name = format!("inverse {number} {count}");
            let usual = packets(&name, epsilon, usual);
            println!("{epsilon:e}, {count} channels: {usual} packets");
            for (case, rare) in
                [-0.0, -1.0, -epsilon, f32::MAX, f32::INFINITY, f32::NAN].into_iter().enumerate()
            {
                if (case + number).is_multiple_of(3) || count > 100 {
                    continue;
                }
                let mut variances = variances(&mut random);
                let place = random.next() as usize % count;
                variances[place] = rare;
                packets(&format!("{name} {case}"), epsilon, variances);
            }
            if count == 4096 && (40..=200).contains(&near) {
                assert!(usual < 2 * 4096, "{epsilon:e}: {usual} packets");
            }
        }
    }
}
