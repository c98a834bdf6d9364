//! A training program as its README builds it, under the emulator, against the reference interpreter, bit for bit.

use trainc_hvx::HvxTarget;
use trainc_ir::Verified;
use trainc_ir::program::Program;
use trainc_ir::target::{ArtifactFile, Target};
use trainc_opt::algorithm::Algorithm;
use trainc_tests::programs::{SEED, Session, program_of};

use super::harness::{execute, folder, tool};

/// The start of a C program without a library.
const MAIN: &str = r#"
static long call(long number, long a, long b, long c)
{
    register long r6 __asm__("r6") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2) : "memory");
    return r0;
}
static void transfer(long number, int file, char *p, unsigned long n)
{
    while (n > 0) {
        long done = call(number, file, (long)p, (long)n);
        if (done <= 0)
            call(94, 111, 0, 0);
        p += done;
        n -= (unsigned long)done;
    }
}
static void in(void *p, unsigned long n) { transfer(63, 0, p, n); }
static void out(const void *p, unsigned long n) { transfer(64, 1, (char *)p, n); }
static void *memset(void *p, int value, unsigned long n)
{
    volatile char *bytes = p;
    while (n-- > 0)
        *bytes++ = (char)value;
    return p;
}
"#;

/// Steps of a program: its files.
fn runs(
    target: &HvxTarget,
    what: &str,
    program: &Verified<Program>,
    steps: u32,
) -> Vec<ArtifactFile> {
    let version = target.version();
    let folder = folder(&format!("{}_{version}", what.replace(' ', "_")));
    let files = target.emit(program).expect("the program is emitted");
    for file in &files {
        std::fs::write(folder.join(&file.name), &file.contents).expect("the file is written");
    }
    // What qaic makes of the interface, as far as the implementation names it.
    let prefix = &program.name;
    let header = "#include <stdint.h>\ntypedef int AEEResult;\ntypedef int32_t int32;\ntypedef uint32_t uint32;\n\
                  typedef uint64_t uint64;\ntypedef uint64_t remote_handle64;\n";
    std::fs::write(folder.join(format!("{prefix}_dsp.h")), header).expect("the file is written");
    let sdk = "#ifndef SDK\n#define SDK\n#include <stddef.h>\nvoid *malloc(size_t);\nvoid free(void *);\n#endif\n";
    std::fs::write(folder.join("stdlib.h"), sdk).expect("the file is written");
    let implementation = format!("{prefix}_dsp_imp.c");
    let target_flags = ["--target=hexagon-unknown-none-elf", "-ffreestanding", "-fsyntax-only"];
    let strict = ["-Wall", "-Wextra", "-Werror", "-I.", &implementation];
    tool(&folder, "clang-19", &[&target_flags[..], &strict].concat());
    let session = Session::new(program, &files, steps);
    let macros = prefix.to_uppercase();
    let main = format!(
        "#include \"{prefix}.h\"\n{MAIN}\
         static _Alignas(128) unsigned char arena[{macros}_ARENA_BYTES], state[{macros}_STATE_BYTES];\n\
         int main(void)\n{{\n    {prefix}_init(state);\n    \
         for (uint32_t step = 0; step < {steps}; step++) {{\n{}        \
         out(state, sizeof state);\n    }}\n    return 0;\n}}\n\
         __asm__(\".globl _start\\n_start:\\n{{ r29 = and(r29,#-128) }}\\ncall main\\n{{ r6 = #94 }}\\ntrap0(#1)\\n\");\n",
        session.calls
    );
    assert_eq!(SEED, 0x0123_4567_89ab_cdef);
    std::fs::write(folder.join("main.c"), main).expect("the file is written");
    // The command of the README.
    let readme = files.iter().find(|f| f.name == "README.md").expect("a README");
    let readme = String::from_utf8(readme.contents.clone()).expect("text");
    let command = readme.lines().find_map(|l| l.strip_prefix("    clang ")).expect("a command");
    let arguments: Vec<&str> = command.split(' ').collect();
    tool(&folder, "clang-19", &arguments);
    let sources = arguments.iter().position(|a| *a == "-c").expect("-c") + 1;
    let mut flags: Vec<&str> = arguments[..sources].to_vec();
    flags.retain(|f| *f != "-std=c99");
    flags.extend(["-std=c11", "main.c"]);
    tool(&folder, "clang-19", &flags);
    let mut objects: Vec<String> = vec!["main.o".into()];
    let object = |s: &&str| s.replace(".c", ".o").replace(".S", ".o");
    objects.extend(arguments[sources..].iter().map(object));

    let mut link: Vec<&str> = objects.iter().map(String::as_str).collect();
    link.extend(["-o", "program"]);
    tool(&folder, "ld.lld-19", &link);
    let found = execute(&folder, "./program", &session.input);
    session.check(&format!("{what} {version}"), &found);
    files
}

/// NITI with exponents that are known ahead: shifts of a number of bits each. Products are kernels of their own, but for one: to pack
/// the weights of the first fully connected layer takes longer than its loops. Those of few channels leave their sums to shifts by
/// loops, for positions side by side have no kernel that shifts.
#[test]
fn static_exponents_train() {
    let mut text = include_str!("../../../compiler/opt/algorithms/niti.toml").to_string();
    for (from, to) in [
        (
            "requantize{bits=7, rounding=half_away, low=-127} (conv2d_g",
            "shift_right{amount=6, rounding=floor, element=i8} (conv2d_g",
        ),
        (
            "requantize{bits=7, rounding=half_away, low=-127} (conv2d ",
            "shift_right{amount=8, rounding=half_away, element=i8} (conv2d ",
        ),
        (
            "requantize{bits=7, rounding=half_away, low=-127} (matmul",
            "shift_right{amount=7, rounding=truncate, element=i8} (matmul",
        ),
        (
            "quantize_gradient{rounding=pseudo_stochastic} (lowered ?g) (lowered ?bits)",
            "shift_right{amount=6, rounding=pseudo_stochastic, element=i8} (lowered ?g)",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let algorithm = Algorithm::parse("static", &text).expect("an algorithm");
    let program = program_of("lenet5", &algorithm, 3, &trainc_hvx::HVX);
    let files = runs(&trainc_hvx::HVX, "lenet5 static", &program, 3);
    let kernels = files.iter().find(|f| f.name == "lenet5_kernels.S").expect("kernels");
    let kernels = String::from_utf8(kernels.contents.clone()).expect("text");
    let functions = || kernels.lines().filter_map(|l| l.trim().strip_prefix(".globl "));
    let shifts = || functions().filter(|name| name.contains("_shift_right_"));
    // Five layers forward and their weights, and four errors, less one.
    let products = || functions().filter(|name| name.ends_with("_product"));
    assert_eq!(products().count(), 13);
    let sums = products().filter(|name| !name.contains("_shift_right_")).count();
    let alone = |name: &&str| name.starts_with("lenet5_shift_right_");
    assert_eq!(shifts().filter(alone).count(), sums);
    let loops = shifts()
        .filter(|name| !name.contains("_product") && !name.ends_with("_pack_weights"))
        .filter(|name| !alone(name))
        .find(|name| !name.contains("_matmul_shift_right_relu_"));
    assert_eq!(loops, None, "left to loops");
}
