//! Every operation, and the runtime's float functions.

use std::fmt::Write as _;

use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::target::loop_scratch;
use trainc_ir::tensor_bytes::element_bytes;
use trainc_ir::{RunContext, Tensor};

use crate::support::{Random, SANITIZED, cc, execute, folder, runtime, write};

fn array(bytes: &[u8]) -> String {
    let mut text = String::from("{");
    bytes.iter().for_each(|b| _ = write!(text, "{b},"));
    // An empty initialiser is not C.
    text.push_str(if bytes.is_empty() { "0}" } else { "}" });
    text
}

/// The start of a program of cases. Buffers are allocated one by one, so that the sanitizer sees each access out of
/// bounds, and filled with what a kernel must not rely on.
pub(crate) const CASES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trainc_rt.h"

static void *filled(size_t bytes, const unsigned char *from)
{
    void *place = malloc(bytes);
    if (from != NULL) {
        memcpy(place, from, bytes);
    } else {
        memset(place, 0xa5, bytes);
    }
    return place;
}

static int failures;

static void compare(const char *what, const void *found, const unsigned char *expected, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)found)[i] != expected[i]) {
            printf("%s: byte %zu of %zu is %d, expected %d\n", what, i, bytes,
                ((const unsigned char *)found)[i], expected[i]);
            failures++;
            return;
        }
    }
}
"#;

/// A kernel, and a function that runs it and compares its results.
pub(crate) fn kernel_source(
    n: usize,
    what: &str,
    kernel: &LoopKernel,
    operands: &[&Tensor],
    meaning: &[Tensor],
    run: &RunContext,
) -> String {
    let name = format!("kernel_{n}");
    let mut out = trainc_c::function(&name, kernel).expect("the kernel prints");
    let _ = writeln!(out, "static void case_{n}(void)\n{{");
    let (mut arguments, mut checks, mut frees) = (Vec::new(), String::new(), String::new());
    let words = [run.seed as u32, (run.seed >> 32) as u32, run.step];
    for (i, b) in kernel.buffers.iter().enumerate() {
        let ty = trainc_c::element_type(b.element);
        let size = b.element.bytes(b.count);
        let mut check = |bytes: &[u8]| {
            assert_eq!(bytes.len(), size, "{what} {}", b.name);
            let _ = writeln!(checks, "    static const unsigned char e{i}[] = {};", array(bytes));
            let _ = writeln!(
                checks,
                "    compare(\"{what} case {n}: {}\", b{i}, e{i}, {size});",
                b.name
            );
        };
        let from = match b.role {
            Role::Input(k) => Some(element_bytes(operands[k])),
            Role::InputScale(k) => Some(operands[k].exponent().to_le_bytes().to_vec()),
            Role::RunContext => Some(words.iter().flat_map(|w| w.to_le_bytes()).collect()),
            Role::Output(k) => {
                check(&element_bytes(&meaning[k]));
                None
            }
            Role::OutputScale(k) => {
                check(&meaning[k].exponent().to_le_bytes());
                None
            }
            Role::Scratch => continue,
        };
        let from = match from {
            Some(bytes) => {
                let _ = writeln!(out, "    static const unsigned char d{i}[] = {};", array(&bytes));
                format!("d{i}")
            }
            None => "NULL".into(),
        };
        let _ = writeln!(out, "    {ty} *b{i} = filled({size}, {from});");
        let _ = writeln!(frees, "    free(b{i});");
        arguments.push(format!("b{i}"));
    }
    if kernel.buffers.iter().any(|b| b.role == Role::Scratch) {
        let bytes = loop_scratch(kernel).1;
        let _ = writeln!(out, "    uint8_t *scratch = filled({bytes}, NULL);");
        frees.push_str("    free(scratch);\n");
        arguments.push("scratch".into());
    }
    let _ = writeln!(out, "    {name}({});\n{checks}{frees}}}\n", arguments.join(", "));
    out
}

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
