//! The runtime by itself: memory functions, artifacts without any library, C++.

use std::process::Command;

use trainc_ir::target::Target;

use crate::support::{
    SANITIZED, STRICT, cc, compile, execute, folder, program, runtime, undefined, write, write_all,
};

/// Copies, moves and fills at all small sizes and offsets, by the C library's names too.
#[test]
fn memory_functions() {
    let folder = folder("memory");
    runtime(&folder);
    write(
        &folder,
        "main.c",
        r#"
#include <stdio.h>
#include "trainc_rt.h"
void *memcpy(void *dst, const void *src, size_t bytes);
void *memmove(void *dst, const void *src, size_t bytes);
void *memset(void *dst, int value, size_t bytes);
#define SIZE 64
static TRAINC_ALIGNED(16) unsigned char found[SIZE], before[SIZE], expected[SIZE], other[SIZE];
static void start(void)
{
    for (int i = 0; i < SIZE; i++) {
        found[i] = before[i] = expected[i] = (unsigned char)(i * 37 + 1);
        other[i] = (unsigned char)(i * 11 + 5);
    }
}
static int differs(const char *what, size_t to, size_t from, size_t bytes)
{
    for (int i = 0; i < SIZE; i++) {
        if (found[i] != expected[i]) {
            printf("%s: to %zu from %zu, %zu bytes\n", what, to, from, bytes);
            return 1;
        }
    }
    return 0;
}
int main(void)
{
    for (size_t to = 0; to < 20; to++) {
        for (size_t from = 0; from < 20; from++) {
            for (size_t bytes = 0; bytes <= 40; bytes++) {
                for (int library = 0; library < 2; library++) {
                    start();
                    for (size_t i = 0; i < bytes; i++) {
                        expected[to + i] = other[from + i];
                    }
                    if (library) {
                        if (memcpy(found + to, other + from, bytes) != found + to) return 2;
                    } else {
                        trainc_copy(found + to, other + from, bytes);
                    }
                    if (differs("copy", to, from, bytes)) return 1;
                    start();
                    for (size_t i = 0; i < bytes; i++) {
                        expected[to + i] = before[from + i];
                    }
                    if (library) {
                        if (memmove(found + to, found + from, bytes) != found + to) return 2;
                    } else {
                        trainc_move(found + to, found + from, bytes);
                    }
                    if (differs("move", to, from, bytes)) return 1;
                    start();
                    for (size_t i = 0; i < bytes; i++) {
                        expected[to + i] = (unsigned char)(from * 13);
                    }
                    if (library) {
                        if (memset(found + to, (int)(from * 13) + 256, bytes) != found + to) return 2;
                    } else {
                        trainc_set(found + to, (unsigned char)(from * 13), bytes);
                    }
                    if (differs("set", to, from, bytes)) return 1;
                }
            }
        }
    }
    return 0;
}
"#,
    );
    let sources = ["main.c", "trainc_rt.c"];
    let provide = "-DTRAINC_PROVIDE_MEMORY_FUNCTIONS";
    for (compiler, optimisation) in [("cc", "-O3"), ("cc", "-Os"), ("clang", "-O2")] {
        // The runtime as compilers like to see it: its loops must not become calls of its functions.
        let flags = ["-std=c11", "-Wall", "-Werror", optimisation, provide, "-c", "trainc_rt.c"];
        compile(compiler, &folder, &flags);
        // -fno-builtin: calls by name are calls.
        let flags = ["-std=c11", "-Wall", "-Werror", "-fno-builtin", "main.c", "trainc_rt.o"];
        compile(compiler, &folder, &[&flags[..], &["-o", "memory"]].concat());
        execute(&folder, "memory", &[]);
    }
    // The sanitizer has its own memcpy, so this one sees the runtime's functions alone.
    let flags = [&["-std=c11"], SANITIZED, &sources, &["-o", "sanitized"]].concat();
    cc(&folder, &flags);
    execute(&folder, "sanitized", &[]);
}

/// An artifact links without any library: nothing is undefined, but what a processor without an operation needs.
#[test]
fn no_library() {
    // Integers and floats by turns, both by the compilers of each machine.
    for (model, algorithm, compilers) in [
        ("residual", "niti", [("cc", "-Os"), ("clang", "-O2"), ("arm-linux-gnueabihf-gcc", "-O2")]),
        (
            "digits",
            "fp32",
            [("cc", "-O3"), ("aarch64-linux-gnu-gcc", "-O3"), ("arm-linux-gnueabihf-gcc", "-Os")],
        ),
    ] {
        let folder = folder(&format!("bare_{model}"));
        let program = program(model, algorithm, 3);
        write_all(&folder, &trainc_c::C.emit(&program).expect("emitted"));
        let sources = [format!("{model}.c"), format!("{model}_data.c"), "trainc_rt.c".into()];
        for (compiler, level) in compilers {
            let provide = "-DTRAINC_PROVIDE_MEMORY_FUNCTIONS";
            let mut flags =
                [STRICT, &[level, provide, "-fno-pie", "-nostdlib", "-r", "-o", "all.o"]].concat();
            flags.extend(sources.iter().map(String::as_str));
            compile(compiler, &folder, &flags);
            for symbol in undefined(&folder, "all.o") {
                let helper = compiler.starts_with("arm-") && symbol.starts_with("__aeabi_");
                assert!(helper, "{model}, {compiler} {level}: {symbol}");
            }
        }
    }
}

/// The headers serve C++ callers, and the hooks' macros expand there too.
#[test]
fn headers_in_cpp() {
    let folder = folder("cpp");
    write_all(&folder, &trainc_c::C.emit(&program("digits", "niti", 1)).expect("emitted"));
    write(
        &folder,
        "main.cpp",
        "#define TRAINC_LAUNCH_NAMES\n#include \"digits.h\"\n\
         TRAINC_ALIGNED(DIGITS_ALIGNMENT) static unsigned char state[DIGITS_STATE_BYTES];\n\
         int main()\n{\n    digits_init(state);\n    \
         return digits_infer_launches[DIGITS_INFER_LAUNCHES - 1] == nullptr;\n}\n",
    );
    let sources = ["digits.c", "digits_data.c", "trainc_rt.c"];
    cc(&folder, &[STRICT, &["-c"], &sources].concat());
    let objects = ["digits.o", "digits_data.o", "trainc_rt.o"];
    for compiler in ["c++", "clang++"] {
        let flags = ["-std=c++11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"];
        let flags = [&flags[..], &["main.cpp"], &objects, &["-o", "cpp"]].concat();
        compile(compiler, &folder, &flags);
        execute(&folder, "cpp", &[]);
    }
}

/// All of the runtime is small; a linker that drops unused functions makes it smaller.
#[test]
fn size() {
    let folder = folder("size");
    runtime(&folder);
    for (compiler, size) in [
        ("cc", "size"),
        ("clang", "size"),
        ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-size"),
        ("arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-size"),
    ] {
        compile(compiler, &folder, &[STRICT, &["-Os", "-c", "trainc_rt.c"]].concat());
        let output = Command::new(size).arg("trainc_rt.o").current_dir(&folder).output();
        let output = String::from_utf8(output.expect("`size` runs").stdout).expect("text");
        let numbers = output.lines().nth(1).expect("a row").split_whitespace();
        let numbers: Vec<u64> = numbers.take(3).map(|n| n.parse().expect("a number")).collect();
        assert!(0 < numbers[0] && numbers[0] < 4096, "{compiler}: {} bytes", numbers[0]);
        assert_eq!(numbers[1..], [0, 0], "{compiler}: global state");
    }
}
