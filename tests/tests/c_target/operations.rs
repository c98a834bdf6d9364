//! The runtime's float functions.

use crate::support::{Random, SANITIZED, cc, execute, folder, runtime, write};

/// The runtime's float functions against this machine's, at all exponents and fractions near halves.
#[test]
fn float_functions() {
    let folder = folder("floats");
    runtime(&folder);
    write(
        &folder,
        "main.c",
        r#"
#include <stdio.h>
#include "trainc_rt.h"
int main(void)
{
    int32_t in;
    while (fread(&in, 4, 1, stdin) == 1) {
        float x = trainc_float(in);
        int32_t out[6] = { trainc_bits(trainc_round(x)), trainc_bits(trainc_floor(x)),
            trainc_bits(trainc_ceil(x)), trainc_bits(trainc_sqrt(x)), trainc_to_integer(x),
            trainc_leading_zeros(in) };
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"#,
    );
    let mut flags = vec!["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror"];
    flags.extend(SANITIZED);
    cc(&folder, &[&flags[..], &["main.c", "trainc_rt.c", "-o", "floats"]].concat());
    let mut random = Random(9);
    let mut bits: Vec<u32> = (0..100_000).map(|_| (random.next() >> 32) as u32).collect();
    for exponent in 0..256u32 {
        for fraction in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
            bits.extend([0, 1u32 << 31].map(|sign| sign | exponent << 23 | fraction));
        }
    }
    bits.extend((-4096..4096).map(|i| (i as f32 / 16.0).to_bits()));
    bits.extend((0..24).map(|i| 1 << i));
    let input: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let output = execute(&folder, "floats", &input);
    assert_eq!(output.len(), 6 * input.len());
    for (&bits, out) in bits.iter().zip(output.as_chunks::<24>().0) {
        let found: Vec<u32> =
            out.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
        let x = f32::from_bits(bits);
        let expected = [x.round_ties_even(), x.floor(), x.ceil(), x.sqrt()];
        for (what, (found, expected)) in
            ["round", "floor", "ceil", "sqrt"].iter().zip(found.iter().zip(expected))
        {
            let same = *found == expected.to_bits()
                || (f32::from_bits(*found).is_nan() && expected.is_nan());
            assert!(
                same,
                "{what} of {x} ({bits:#x}): {found:#x}, expected {:#x}",
                expected.to_bits()
            );
        }
        assert_eq!(found[4] as i32, x as i32, "to integer, {x}");
        assert_eq!(found[5], bits.leading_zeros(), "leading zeros, {bits:#x}");
    }
}
