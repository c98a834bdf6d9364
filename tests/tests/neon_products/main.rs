//! The NEON targets' products of 8-bit integers, of every level: every case of the operations, and shapes and values
//! that the panels do not fit, compiled by the cross compilers under strict warnings, run under the emulator, and
//! compared with the interpreter byte by byte.

mod cases;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_c::Dialect;
use trainc_ir::loops::Role;
use trainc_ir::program::Kernel;
use trainc_ir::{Data, RunContext, Tensor, TensorType};
use trainc_neon::NeonTarget;

use cases::Product;

const STRICT: &[&str] =
    &["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off", "-static"];
const AARCH64: &str = "aarch64-linux-gnu-gcc";
const ARM: &str = "arm-linux-gnueabihf-gcc";

/// A kernel's buffers lie between guards of this many bytes.
const GUARD: usize = 64;

/// What runs the cases: reads, for each buffer of each case in order, its contents (operands) or what it must become
/// (results), and says what differs. A buffer lies between guards that nothing may change.
const RUNNER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };
static int failures;

struct buffer {
    size_t bytes;
    int result;
    unsigned char *place, *contents;
};

static void make(struct buffer *b, size_t bytes, int result)
{
    b->bytes = bytes;
    b->result = result;
    b->place = aligned_alloc(64, (bytes + 2 * GUARD + 63) / 64 * 64);
    b->contents = malloc(bytes + 1);
    memset(b->place, 0xa5, bytes + 2 * GUARD);
    if (fread(b->contents, 1, bytes, stdin) != bytes) {
        printf("input ends early\n");
        exit(3);
    }
    if (!result) {
        memcpy(b->place + GUARD, b->contents, bytes);
    }
}

static void check(struct buffer *b, const char *name, const char *what)
{
    for (size_t i = 0; i < b->bytes; i++) {
        if (b->place[GUARD + i] != b->contents[i]) {
            printf("%s, %s: byte %zu of %zu is %d, expected %d\n", name, what, i, b->bytes,
                b->place[GUARD + i], b->contents[i]);
            failures++;
            break;
        }
    }
    for (size_t i = 0; i < GUARD; i++) {
        if (b->place[i] != 0xa5 || b->place[GUARD + b->bytes + i] != 0xa5) {
            printf("%s, %s: written beyond its ends\n", name, what);
            failures++;
            break;
        }
    }
    free(b->place);
    free(b->contents);
}
"#;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neon_products").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn run(command: &mut Command, package: &str, input: &[u8]) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("these tests need `{name}` (Debian: {package}): {e}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    let _ = writer.join();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        &text[..text.len().min(4000)],
        &error[..error.len().min(8000)]
    );
    text.into_owned()
}

fn element_bytes(data: &Data) -> Vec<u8> {
    match data {
        Data::I8(v) => v.iter().map(|&x| x as u8).collect(),
        Data::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        other => panic!("{other:?} is no operand of a product"),
    }
}

/// The C source of the cases that the target has kernels for, the bytes of their buffers, and how many they are.
fn source(target: &NeonTarget, products: &[Product]) -> (String, Vec<u8>, usize) {
    let context = RunContext { seed: 7, step: 3 };
    let mut text = String::from("#define _ISOC11_SOURCE\n");
    for file in Dialect::support(target).iter().filter(|file| file.name.ends_with(".h")) {
        let _ = writeln!(text, "#include \"{}\"", file.name);
    }
    text.push_str(RUNNER);
    let (mut main, mut bytes, mut count) = (String::new(), Vec::new(), 0);
    for (n, Product { op, inputs, what }) in products.iter().enumerate() {
        let types: Vec<&TensorType> = inputs.iter().map(Tensor::ty).collect();
        let outputs = op.infer(&types).unwrap_or_else(|e| panic!("{what}: {e}"));
        let output_types: Vec<&TensorType> = outputs.iter().collect();
        let scratch = Dialect::scratch_bytes(target, op, &types, &output_types);
        let kernel = Kernel {
            name: format!("kernel_{n}"),
            op: op.clone(),
            inputs: types.iter().map(|&ty| ty.clone()).collect(),
            outputs: outputs.clone(),
            scratch_bytes: scratch,
        };
        let function = target.kernel(&kernel.name, &kernel).expect("the kernel prints");
        let function = function.expect("a kernel of the target's own");
        // Everything else runs in loops, which have tests of their own.
        let is_product = function.contains("trainc_tile *");
        assert_eq!(is_product, !what.contains("not a product"), "{what}");
        if !is_product {
            continue;
        }
        count += 1;
        let results = op.evaluate(&inputs.iter().collect::<Vec<_>>(), &context);
        let lowered = op.lower(&types, &output_types);
        let mut arguments: Vec<String> = Vec::new();
        let mut checks = String::new();
        let _ = writeln!(text, "{function}\nstatic void case_{n}(void)\n{{");
        let _ = writeln!(text, "    struct buffer b[16];");
        for (i, buffer) in lowered.buffers.iter().enumerate() {
            let (contents, result) = match buffer.role {
                Role::Input(k) => (element_bytes(inputs[k].data()), 0),
                Role::InputScale(k) => (inputs[k].exponent().to_le_bytes().to_vec(), 0),
                Role::Output(k) => (element_bytes(results[k].data()), 1),
                Role::OutputScale(k) => (results[k].exponent().to_le_bytes().to_vec(), 1),
                Role::RunContext => {
                    let words = [context.seed as u32, (context.seed >> 32) as u32, context.step];
                    (words.iter().flat_map(|w| w.to_le_bytes()).collect(), 0)
                }
                Role::Scratch => continue,
            };
            let _ = writeln!(text, "    make(&b[{i}], {}, {result});", contents.len());
            let _ = writeln!(checks, "    check(&b[{i}], \"{what}\", \"{}\");", buffer.name);
            bytes.extend(contents);
            arguments.push(format!("(void *)(b[{i}].place + GUARD)"));
        }
        if scratch > 0 {
            let _ = writeln!(text, "    make(&b[15], 0, 0);\n    free(b[15].place);");
            let _ = writeln!(
                text,
                "    b[15].place = aligned_alloc(64, ({scratch} + 2 * GUARD + 63) / 64 * 64);\n    \
                 memset(b[15].place, 0xa5, {scratch} + 2 * GUARD);"
            );
            arguments.push("(void *)(b[15].place + GUARD)".into());
            // Only its guards are of interest.
            let _ = writeln!(
                checks,
                "    memset(b[15].place + GUARD, 0, {scratch});\n    free(b[15].contents);\n    \
                 b[15].bytes = {scratch};\n    b[15].contents = calloc({scratch}, 1);\n    \
                 check(&b[15], \"{what}\", \"scratch\");"
            );
        }
        let _ = writeln!(text, "    kernel_{n}({});\n{checks}}}\n", arguments.join(", "));
        let _ = writeln!(main, "    case_{n}();");
    }
    let _ = writeln!(text, "int main(void)\n{{\n{main}    return failures != 0;\n}}");
    assert_eq!(GUARD, 64);
    (text, bytes, count)
}

/// Compiles the cases for a target and runs them on some processors.
fn level(target: &NeonTarget, compiler: (&str, &str), emulator: &str, processors: &[&str]) {
    let name = Dialect::description(target).name;
    let products = cases::all();
    let (text, bytes, count) = source(target, &products);
    assert!(count > 150, "{count} cases");
    let folder = folder(name);
    std::fs::write(folder.join("cases.c"), text).expect("written");
    for file in Dialect::support(target) {
        std::fs::write(folder.join(file.name), file.contents).expect("written");
    }
    std::fs::write(folder.join("trainc_rt.h"), trainc_c::RUNTIME_HEADER).expect("written");
    std::fs::write(folder.join("trainc_rt.c"), trainc_c::RUNTIME_SOURCE).expect("written");
    let mut command = Command::new(compiler.0);
    command.current_dir(&folder).args(STRICT).args(target.flags());
    run(command.args(["cases.c", "trainc_rt.c", "-o", "cases"]), compiler.1, &[]);
    for processor in processors {
        let mut command = Command::new(emulator);
        command.args(["-cpu", processor]).arg(folder.join("cases"));
        run(&mut command, "qemu-user", &bytes);
    }
}

const GCC_AARCH64: (&str, &str) = (AARCH64, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross");

#[test]
fn baseline() {
    level(&trainc_neon::NEON, GCC_AARCH64, "qemu-aarch64", &["cortex-a53", "max"]);
}

#[test]
fn dotprod() {
    level(&trainc_neon::DOTPROD, GCC_AARCH64, "qemu-aarch64", &["cortex-a76", "max"]);
}

#[test]
fn i8mm() {
    level(&trainc_neon::I8MM, GCC_AARCH64, "qemu-aarch64", &["max"]);
}

#[test]
fn dispatch() {
    let processors = ["cortex-a53", "cortex-a76", "max"];
    level(&trainc_neon::DISPATCH, GCC_AARCH64, "qemu-aarch64", &processors);
}

#[test]
fn armv7() {
    let compiler = (ARM, "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross");
    level(&trainc_neon::ARMV7, compiler, "qemu-arm", &["cortex-a9"]);
}
