//! The XpulpV2 target's products of 8-bit integers and its kernels by elements: every case of the operations, and shapes and
//! values that tiles and words do not fit, natively in the portable form under sanitizers, and in the simulator as RI5CY's
//! instructions, by gcc and by clang, compared with the interpreter byte by byte. Loops are divided, and their last share comes first.

#[path = "neon_products/cases.rs"]
mod cases;

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cases::Product;
use trainc_c::Dialect;
use trainc_ir::loops::Role;
use trainc_ir::ops::{MaxPool2dGradient, QuantizeExponent, ReluGradient, SaturatingSubtract};
use trainc_ir::program::Kernel;
use trainc_ir::{Data, Element, Op, OpKind, RunContext, Tensor, TensorType};
use trainc_riscv::{Machine, Memory, toolchain};
use trainc_tests::random::Random;
use trainc_xpulpv2::XPULPV2;

const STRICT: [&str; 6] =
    ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off"];

/// Buffers of a case lie one behind the other between guards; answers are a byte of damage and the results.
const RUNNER: &str = r#"
#include <stddef.h>
#include <stdint.h>
#define TRAINC_PARALLEL_FOR(context, count, body) \
    do { \
        for (int32_t share = 2; share >= 0; share--) { \
            body(context, (count) * share / 3, (count) * (share + 1) / 3); \
        } \
    } while (0)
#ifdef __riscv
#include "host.h"
static void get(uint8_t *place, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const int32_t some = host_read(place + done, bytes - done);
        if (some <= 0) {
            host_exit(3);
        }
        done += (size_t)some;
    }
}
static void put(const uint8_t *place, size_t bytes) { host_write(place, bytes); }
#else
#include <stdio.h>
#include <stdlib.h>
static void get(uint8_t *place, size_t bytes)
{
    if (fread(place, 1, bytes, stdin) != bytes) {
        exit(3);
    }
}
static void put(const uint8_t *place, size_t bytes) { fwrite(place, 1, bytes, stdout); }
#endif

enum { GUARD = 32 };
static uint8_t *next;

static uint8_t *place(size_t bytes)
{
    uint8_t *const start = next + GUARD;
    next = start + (bytes + GUARD + 15) / 16 * 16;
    for (uint8_t *at = start - GUARD; at < next; at++) {
        *at = 0xa5;
    }
    return start;
}

static uint8_t damaged(const uint8_t *start, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (*(start - 1 - i) != 0xa5 || start[bytes + i] != 0xa5) {
            return 1;
        }
    }
    return 0;
}
"#;

fn element_bytes(data: &Data) -> Vec<u8> {
    match data {
        Data::I8(v) => v.iter().map(|&x| x as u8).collect(),
        Data::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        other => panic!("{other:?} is no operand of these kernels"),
    }
}

/// The cases as a program.
struct Suite {
    text: String,
    input: Vec<u8>,
    /// Of each case: what it is, and its results.
    expected: Vec<(String, Vec<u8>)>,
}

/// The cases that the target has kernels of its own for.
fn suite(products: &[Product]) -> Suite {
    let context = RunContext { seed: 7, step: 3 };
    let mut suite = Suite { text: RUNNER.into(), input: Vec::new(), expected: Vec::new() };
    for file in Dialect::support(&XPULPV2).iter().filter(|file| file.name.ends_with(".h")) {
        let _ = writeln!(suite.text, "#include \"{}\"", file.name);
    }
    let (mut main, mut most) = (String::new(), 0);
    for Product { op, inputs, what } in products {
        let types: Vec<&TensorType> = inputs.iter().map(Tensor::ty).collect();
        let outputs = op.infer(&types).unwrap_or_else(|e| panic!("{what}: {e}"));
        let output_types: Vec<&TensorType> = outputs.iter().collect();
        let n = suite.expected.len();
        let kernel = Kernel {
            name: format!("kernel_{n}"),
            op: op.clone(),
            inputs: types.iter().map(|&ty| ty.clone()).collect(),
            outputs: outputs.clone(),
            scratch_bytes: Dialect::scratch_bytes(&XPULPV2, op, &types, &output_types),
        };
        let function = Dialect::kernel(&XPULPV2, &kernel.name, &kernel).expect("prints");
        // Everything else runs in loops, which have tests of their own.
        assert_eq!(function.is_some(), !what.contains("not a product"), "{what}");
        let Some(function) = function else { continue };
        let results = op.evaluate(&inputs.iter().collect::<Vec<_>>(), &context);
        let (mut expected, mut arguments, mut total) = (Vec::new(), Vec::new(), 0);
        let (mut damage, mut answers) = (String::new(), String::new());
        let _ = writeln!(suite.text, "{function}\nstatic void case_{n}(void)\n{{");
        let mut buffer = |i: usize, bytes: usize, text: &mut String| {
            let _ = writeln!(text, "    uint8_t *const b{i} = place({bytes});");
            let _ = write!(damage, " | damaged(b{i}, {bytes})");
            arguments.push(format!("(void *)b{i}"));
            total += bytes + 96;
        };
        let lowered = op.lower(&types, &output_types);
        for (i, parameter) in lowered.buffers.iter().enumerate() {
            let (contents, result) = match parameter.role {
                Role::Input(k) => (element_bytes(inputs[k].data()), false),
                Role::InputScale(k) => (inputs[k].exponent().to_le_bytes().to_vec(), false),
                Role::Output(k) => (element_bytes(results[k].data()), true),
                Role::OutputScale(k) => (results[k].exponent().to_le_bytes().to_vec(), true),
                Role::RunContext => panic!("{what} is random"),
                Role::Scratch => continue,
            };
            let bytes = contents.len();
            buffer(i, bytes, &mut suite.text);
            if result {
                let _ = writeln!(answers, "    put(b{i}, {bytes});");
                expected.extend(contents);
            } else {
                let _ = writeln!(suite.text, "    get(b{i}, {bytes});");
                suite.input.extend(contents);
            }
        }
        if kernel.scratch_bytes > 0 {
            buffer(99, kernel.scratch_bytes, &mut suite.text);
        }
        let call = format!("    kernel_{n}({});", arguments.join(", "));
        let _ = writeln!(suite.text, "{call}\n    const uint8_t damage = (uint8_t)(0{damage});");
        let _ = writeln!(suite.text, "    put(&damage, 1);\n{answers}}}\n");
        let _ = writeln!(main, "    next = memory;\n    case_{n}();");
        most = most.max(total);
        suite.expected.push((what.clone(), expected));
    }
    let memory = format!("TRAINC_ALIGNED(16) static uint8_t memory[{most}];");
    let _ = writeln!(suite.text, "{memory}\nint main(void)\n{{\n{main}    return 0;\n}}");
    suite
}

fn same(output: &[u8], suite: &Suite, how: &str) {
    let mut rest = output;
    for (what, expected) in &suite.expected {
        assert!(rest.len() > expected.len(), "{how}: the answers end before {what}");
        let (damage, after) = (rest[0], &rest[1..]);
        let (found, after) = after.split_at(expected.len());
        let differs = found.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{how}: {what}: byte of {}", expected.len());
        assert_eq!(damage, 0, "{how}: {what}: written beyond its ends");
        rest = after;
    }
    assert!(rest.is_empty(), "{how}");
}

fn written(name: &str, suite: &Suite) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xpulp_products").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("cases.c"), &suite.text).expect("written");
    for file in Dialect::support(&XPULPV2) {
        std::fs::write(folder.join(file.name), file.contents).expect("written");
    }
    std::fs::write(folder.join("trainc_rt.h"), trainc_c::RUNTIME_HEADER).expect("written");
    std::fs::write(folder.join("trainc_rt.c"), trainc_c::RUNTIME_SOURCE).expect("written");
    folder
}

fn check(name: &str, products: &[Product], least: usize) {
    let suite = suite(products);
    assert!(suite.expected.len() >= least, "{} cases", suite.expected.len());
    let folder = written(name, &suite);
    let mut command = Command::new("gcc");
    command.current_dir(&folder).args(STRICT).args(["-O1", "-fsanitize=undefined,address"]);
    // Words are read at any address.
    command.args(["-fno-sanitize-recover=all", "cases.c", "trainc_rt.c", "-o", "cases"]);
    let output = command.output().expect("gcc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut child = Command::new(folder.join("cases"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let (mut stdin, input) = (child.stdin.take().expect("piped"), suite.input.clone());
    let writer = std::thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join();
    assert!(output.status.success(), "{name}: {}", output.status);
    same(&output.stdout, &suite, "portable");

    let include = format!("-I{}", folder.display());
    let flags = [&STRICT[..], &["-O3", "-DTRAINC_XPULP_INSN", &include]].concat();
    let runtime = folder.join("trainc_rt.c");
    simulated(&[folder.join("cases.c"), runtime.clone()], &flags, &suite, &folder.join("gcc"));
    let object = folder.join("clang.o");
    let support = format!("-I{}", toolchain::support().display());
    let mut clang = Command::new("clang-19");
    clang.args(["--target=riscv32", "-march=rv32imc", "-mabi=ilp32", "-ffreestanding", &support]);
    clang.args(&flags).arg("-c").arg(folder.join("cases.c")).arg("-o").arg(&object);
    let output = clang.output().expect("clang-19 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    simulated(&[object, runtime], &flags, &suite, &folder.join("clang"));
}

fn simulated(sources: &[PathBuf], flags: &[&str], suite: &Suite, executable: &Path) {
    let file = toolchain::compile(sources, flags, executable);
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(Memory::default());
    machine.set_input(Box::new(Cursor::new(suite.input.clone())));
    machine.load(&std::fs::read(file).expect("the executable")).expect("loads");
    let exit = machine.run(u64::MAX).unwrap_or_else(|trap| panic!("{trap}"));
    assert_eq!(exit.code, 0);
    same(machine.output(), suite, &executable.display().to_string());
}

#[test]
fn products() {
    check("products", &cases::all(), 150);
}

/// Bytes of all values, extreme ones often.
fn bytes(random: &mut Random, count: usize) -> Vec<i8> {
    const EXTREMES: [i8; 6] = [-128, -127, -1, 0, 1, 127];
    let mut one = || match random.next() % 3 {
        0 => EXTREMES[(random.next() % 6) as usize],
        _ => random.next() as i8,
    };
    (0..count).map(|_| one()).collect()
}

#[test]
fn elements() {
    let mut products = Vec::new();
    let kinds = [
        OpKind::SaturatingSubtract,
        OpKind::ReluGradient,
        OpKind::QuantizeExponent,
        OpKind::MaxPool2dGradient,
    ];
    for kind in kinds {
        for (n, case) in kind.cases().into_iter().enumerate() {
            let types: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
            let signed = types[0].element == Element::I8;
            let own = match &case.op {
                Op::QuantizeExponent(_) => true,
                Op::MaxPool2dGradient(op) => {
                    let (x, dy) = (types[0], types[1]);
                    let whole = (0..2).all(|a| dy.shape[a + 2] * op.kernel[a] <= x.shape[a + 2]);
                    let apart = op.kernel == op.strides && op.dilations == [1, 1];
                    signed && whole && apart && op.pads == [0; 4] && dy.count() > 0
                }
                _ => signed,
            };
            let note = if own && types[0].count() > 0 { "" } else { " (not a product)" };
            let what = format!("{kind:?} {n}{note}");
            products.push(Product { op: case.op, inputs: case.inputs, what });
        }
    }
    let random = &mut Random(11);
    for count in (1..40).chain([255, 1021]) {
        for op in [Op::from(SaturatingSubtract {}), Op::from(ReluGradient {})] {
            let [a, b] = [3, -4].map(|e| Tensor::i8_shared([count], bytes(random, count), e));
            let what = format!("{op} {count}");
            products.push(Product { op, inputs: vec![a, b], what });
        }
        // Floats of one size, of any size, and of any bits.
        for spread in [1, 40, 255] {
            let low = random.next() % (256 - spread) as u64;
            let mut one = || {
                let exponent = (low + random.next() % spread as u64) as u32;
                f32::from_bits(exponent << 23 | (random.next() as u32 & 0x807f_ffff))
            };
            let x = Tensor::f32([count], (0..count).map(|_| one()).collect());
            let what = format!("quantize_exponent {count}, spread {spread}");
            products.push(Product { op: QuantizeExponent {}.into(), inputs: vec![x], what });
        }
    }
    for (size, kernel) in [([9, 7], [2, 2]), ([8, 8], [2, 2]), ([6, 11], [3, 1]), ([7, 9], [3, 4])]
    {
        let [rows, columns] = [0, 1].map(|a| size[a] / kernel[a]);
        let x =
            Tensor::i8_shared([2, 3, size[0], size[1]], bytes(random, 6 * size[0] * size[1]), 1);
        let dy = Tensor::i8_shared([2, 3, rows, columns], bytes(random, 6 * rows * columns), -9);
        let op = MaxPool2dGradient {
            kernel,
            strides: kernel,
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        let what = format!("{op:?} {size:?}");
        products.push(Product { op: op.into(), inputs: vec![x, dy], what });
    }
    check("elements", &products, 200);
}
