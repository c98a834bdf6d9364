//! Objects linked into C and Rust programs, against the program in memory, bit for bit.

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::models::{BATCH, operands, small_model};
use trainc_host::{HOST, HostProgram, Listing, listing};
use trainc_ir::target::{ArtifactFile, Target};
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor};

const SEED: u64 = 0x0123_4567_89ab_cdef;
const STEPS: usize = 4;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn written(folder: &Path) -> Vec<ArtifactFile> {
    let files = HOST.emit(&small_model()).expect("the program is emitted");
    for file in &files {
        std::fs::write(folder.join(&file.name), &file.contents).expect("the file is written");
    }
    files
}

/// What a program of `STEPS` steps prints: results of each step, then the state.
fn expected() -> Vec<u8> {
    let program = small_model();
    let mut compiled = HostProgram::compile(&program).expect("the program compiles");
    let mut bytes = Vec::new();
    for step in 0..STEPS {
        let inputs = operands(step);
        let run = RunContext { seed: SEED, step: step as u32 };
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let mut results = compiled.run("train_step", &inputs, &run).expect("a step");
        results.extend(compiled.run("infer", &inputs[..1], &run).expect("inference"));
        for tensor in results {
            bytes.extend(tensor_bytes(&tensor));
        }
    }
    for (_, tensor) in compiled.state().expect("the state") {
        bytes.extend(tensor_bytes(&tensor));
    }
    bytes
}

fn bytes_of(values: &[u8]) -> String {
    values.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
}

fn state_layout() -> Vec<(usize, usize)> {
    small_model().state().iter().map(|b| (b.offset, b.bytes())).collect()
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn a_c_program_gives_the_same_bits() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: no C compiler (`cc`) on this machine");
        return;
    }
    let folder = folder("c");
    written(&folder);
    let mut main = String::from(
        "#include <stdio.h>\n#include <string.h>\n#include \"small_model_1.h\"\n\
         static _Alignas(SMALL_MODEL_1_ALIGNMENT) unsigned char arena[SMALL_MODEL_1_ARENA_BYTES];\n\
         static _Alignas(SMALL_MODEL_1_ALIGNMENT) unsigned char state[SMALL_MODEL_1_STATE_BYTES];\n\
         int main(void) {\n    small_model_1_init(state);\n",
    );
    for step in 0..STEPS {
        let inputs = operands(step);
        let encoded: Vec<Vec<u8>> = inputs.iter().map(tensor_bytes).collect();
        let _ = write!(
            main,
            "    {{\n        static const unsigned char x[] = {{{}}}, l[] = {{{}}}, m[] = {{{}}};\n\
             float images[{}]; int32_t labels[{BATCH}]; small_model_1_train_step_mask mask;\n\
             int32_t flag = {}; small_model_1_train_step_logits logits; float bias[3];\n\
             small_model_1_infer_logits inferred;\n\
             memcpy(images, x, sizeof images); memcpy(labels, l, sizeof labels);\n\
             memcpy(&mask, m, sizeof mask);\n\
             memset(arena, 0xa5, sizeof arena); memset(&logits, 0, sizeof logits);\n\
             memset(&inferred, 0, sizeof inferred);\n\
             small_model_1_train_step(arena, state, {SEED}u, {step}, images, labels, &mask, &flag,\n\
                 {}, 0.125f, &logits, bias);\n\
             memset(arena, 0x5a, sizeof arena);\n\
             small_model_1_infer(arena, state, images, &inferred);\n\
             fwrite(&logits, 1, sizeof logits, stdout); fwrite(bias, 1, sizeof bias, stdout);\n\
             fwrite(&inferred, 1, sizeof inferred, stdout);\n    }}\n",
            bytes_of(&encoded[0]),
            bytes_of(&encoded[1]),
            bytes_of(&encoded[2]),
            BATCH * 32,
            inputs[3].as_i32()[0],
            inputs[4].as_i32()[0],
        );
    }
    for (offset, bytes) in state_layout() {
        let _ = writeln!(main, "    fwrite(state + {offset}, 1, {bytes}, stdout);");
    }
    main.push_str("    return 0;\n}\n");
    std::fs::write(folder.join("main.c"), main).expect("the file is written");
    let binary = folder.join("main");
    run(Command::new("cc")
        .current_dir(&folder)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", "small_model_1.o"])
        .args(["trainc_kernels.o", "-o"])
        .arg(&binary));
    assert_eq!(run(&mut Command::new(&binary)), expected());
    // Nothing but a C library's `memcpy` and `memset`: with those two, a link without any library
    // leaves no name open.
    std::fs::write(
        folder.join("memory.c"),
        "#include <stddef.h>\n\
         void *memcpy(void *restrict to, const void *restrict from, size_t bytes);\n\
         void *memset(void *to, int byte, size_t bytes);\n\
         void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {\n\
             for (size_t i = 0; i < bytes; ++i) ((char *)to)[i] = ((const char *)from)[i];\n\
             return to;\n}\n\
         void *memset(void *to, int byte, size_t bytes) {\n\
             for (size_t i = 0; i < bytes; ++i) ((char *)to)[i] = (char)byte;\n\
             return to;\n}\n",
    )
    .expect("the file is written");
    run(Command::new("cc").current_dir(&folder).args([
        "-nostdlib",
        "-shared",
        "-fPIC",
        "-Wl,-z,defs",
        "-Wl,--fatal-warnings",
        "memory.c",
        "small_model_1.o",
        "trainc_kernels.o",
        "-o",
        "alone.so",
    ]));
}

#[test]
fn a_rust_program_gives_the_same_bits() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: rustc links by `cc`, and there is none on this machine");
        return;
    }
    let folder = folder("rust");
    written(&folder);
    let mut main = String::from(
        "#![deny(warnings)]\nmod model { include!(\"small_model_1.rs\"); }\n\
         use std::io::Write;\nuse model::{Arena, Shared, State};\n\
         fn out(bytes: &[u8]) { std::io::stdout().write_all(bytes).unwrap(); }\n\
         fn shared<const N: usize>(t: &Shared<i8, N>) {\n\
             for x in t.elements { out(&[x as u8]); }\n\
             for _ in 0..(4 - N % 4) % 4 { out(&[0]); }\n\
             out(&t.exponent.to_le_bytes());\n}\n\
         fn main() {\n\
             let mut bytes = [0xa5u8; model::ARENA_BYTES + 128];\n\
             let start = bytes.as_ptr().align_offset(model::ALIGNMENT);\n\
             assert!(Arena::from_bytes(&mut bytes[start + 1..]).is_none());\n\
             assert!(Arena::from_bytes(&mut bytes[start..start + model::ARENA_BYTES - 1]).is_none());\n\
             let arena = Arena::from_bytes(&mut bytes[start..]).unwrap();\n\
             let mut state = State::zeroed();\n    model::init(&mut state);\n",
    );
    for step in 0..STEPS {
        let inputs = operands(step);
        let _ = write!(
            main,
            "    let mut logits = Shared {{ elements: [0; {}], exponent: 0 }};\n\
             let mut inferred = logits;\n    let mut bias = [0.0; 3];\n\
             let images: [f32; {}] = {:?}.map(f32::from_bits);\n\
             let mask = Shared {{ elements: {:?}, exponent: {} }};\n\
             model::train_step(arena, &mut state, {SEED}, {step}, &images, &{:?}, &mask, &[{}], {}, 0.125, &mut logits, &mut bias);\n\
             model::infer(arena, &state, &images, &mut inferred);\n\
             shared(&logits);\n    bias.iter().for_each(|x| out(&x.to_le_bytes()));\n\
             shared(&inferred);\n",
            BATCH * 5,
            BATCH * 32,
            inputs[0].as_f32().iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            inputs[2].as_i8(),
            inputs[2].exponent(),
            inputs[1].as_i32(),
            inputs[3].as_i32()[0],
            inputs[4].as_i32()[0],
        );
    }
    for (offset, bytes) in state_layout() {
        let _ = writeln!(main, "    out(&state.as_bytes()[{offset}..{}]);", offset + bytes);
    }
    main.push_str("}\n");
    std::fs::write(folder.join("main.rs"), main).expect("the file is written");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let binary = folder.join("main");
    run(Command::new(rustc)
        .current_dir(&folder)
        .args(["--edition", "2024", "main.rs", "-o"])
        .arg(&binary)
        .args(["-C", "link-arg=small_model_1.o", "-C", "link-arg=trainc_kernels.o"]));
    assert_eq!(run(&mut Command::new(&binary)), expected());
}

#[test]
fn emission_is_deterministic() {
    let once = HOST.emit(&small_model()).expect("the program is emitted");
    let again = HOST.emit(&small_model()).expect("the program is emitted");
    assert_eq!(once, again);
    let names: Vec<&str> = once.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(
        names,
        ["small_model_1.o", "small_model_1.h", "small_model_1.rs", "trainc_kernels.o",]
    );
    for form in [Listing::Clif, Listing::Assembly] {
        let text = listing(&small_model(), form).expect("the program is listed");
        assert_eq!(text, listing(&small_model(), form).expect("the program is listed"));
        assert!(text.contains("; small_model_1_train_step\n"), "{text}");
        assert!(text.contains("; small_model_1_init\n"), "{text}");
    }
}
