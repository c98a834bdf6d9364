//! The OpenCL target beside what every target's tests see: its float arithmetic by itself, its sources under a strict compiler,
//! what a user without OpenCL is told.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::verify::{VerifyOptions, verify};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_driver::{emit, error};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("opencl").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// The artifact of a model of the zoo.
fn artifact(model: &str, algorithm: &str) -> PathBuf {
    let bytes = build(&ZooSpec::new(model).expect("a model of the zoo")).expect("the zoo builds");
    let config = Config {
        algorithm: algorithm.into(),
        batch: Some(2),
        target: "opencl".into(),
        ..Config::default()
    };
    let source = ModelSource::Bytes { name: model.to_string(), bytes };
    let session = Session::new(&source, &config, Entries::TrainAndInfer).expect("compiles");
    let place = folder(&format!("{model}-{algorithm}"));
    emit::write_folder(&place, &emit::artifact(&session, &[]).expect("emits")).expect("written");
    place
}

/// Runs a command that must succeed.
fn succeed(folder: &Path, words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(folder).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
}

/// What OpenCL C has and C has not, and a comparison with this machine's division and square root: all pairs of special
/// floats, random bits, quotients and roots next to halfway.
const FLOATS: &str = r#"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
static uint as_uint(float x) { uint u; memcpy(&u, &x, 4); return u; }
static int as_int(float x) { return (int)as_uint(x); }
static float as_float(uint u) { float x; memcpy(&x, &u, 4); return x; }
static uint clz(uint x) { return x == 0 ? 32 : (uint)__builtin_clz(x); }
static uint64_t state = 1;
static uint draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint)(state >> 32);
}
static int same(float a, float b) { return as_uint(a) == as_uint(b) || (a != a && b != b); }
static int check(float a, float b)
{
    volatile float quotient = a / b, root = sqrtf(a);
    if (!same(trainc_divide(a, b), quotient)) {
        printf("%a / %a: %a, not %a\n", a, b, trainc_divide(a, b), quotient);
        return 1;
    }
    if (!same(trainc_sqrt(a), root)) {
        printf("root of %a: %a, not %a\n", a, trainc_sqrt(a), root);
        return 1;
    }
    return 0;
}
int main(void)
{
    static const uint edges[] = { 0, 1, 2, 3, 0x3fffff, 0x400000, 0x7ffffe, 0x7fffff, 0x800000, 0x800001, 0xffffff, 0x1000000,
        0x33800000, 0x34000000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fc00000, 0x40000000, 0x40400000, 0x4b7fffff,
        0x7effffff, 0x7f000000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000 };
    const int count = sizeof edges / sizeof edges[0];
    int bad = 0;
    for (int i = 0; i < 2 * count; i++) {
        for (int j = 0; j < 2 * count; j++) {
            bad += check(as_float(edges[i / 2] | (uint)(i % 2) << 31), as_float(edges[j / 2] | (uint)(j % 2) << 31));
        }
    }
    for (int i = 0; i < 2000000 && bad < 10; i++) {
        const float a = as_float(draw()), b = as_float(draw());
        /* Mantissas with few bits, whose quotients end, and results around the smallest normal one. */
        const float c = as_float(draw() & 0xfff00000), d = as_float((draw() & 0x1ffffff) | 0x3f000000);
        bad += check(a, b) + check(c, as_float(draw() & 0xffff0000)) + check(as_float(draw() & 0x80ffffff), d);
        /* Products are near quotients that end. */
        bad += check(b * d, d) + check(b * b, b);
    }
    printf("%d\n", bad);
    return bad != 0;
}
"#;

/// Division and square root round as IEEE 754 has it, where a device's own do not.
#[test]
fn floats_round_to_nearest() {
    let place = folder("floats");
    let source = FLOATS.replacen(
        "static uint64_t state",
        &format!("{}\nstatic uint64_t state", trainc_opencl::floats()),
        1,
    );
    std::fs::write(place.join("floats.c"), source).expect("written");
    let flags = ["-O1", "-std=c99", "-ffp-contract=off", "-Wno-unused-function"];
    succeed(&place, &[&["gcc"], &flags[..], &["floats.c", "-lm", "-o", "floats"]].concat());
    succeed(&place, &["./floats"]);
}

/// Clang takes the kernels for OpenCL C 1.2 and warns of nothing, for addresses of 64 and of 32 bits.
#[test]
fn kernels_are_opencl_c() {
    for (model, algorithm) in [("lenet5", "niti"), ("digits", "fp32"), ("residual", "bnn-ste")] {
        let place = artifact(model, algorithm);
        for addresses in ["spir64", "spir"] {
            let target = format!("--target={addresses}");
            let mut words = vec!["clang-19", "-x", "cl", "-cl-std=CL1.2", &target, "-fsyntax-only"];
            let source = format!("{model}.cl");
            words.extend(["-Wall", "-Wextra", "-Werror", &source]);
            succeed(&place, &words);
        }
    }
}

/// Training in FP32 and with binary weights on this machine's driver.
#[test]
fn floats_and_binary_networks_train() {
    let place = artifact("digits", "bnn-ste");
    let options = VerifyOptions { steps: 2, ..VerifyOptions::default() };
    let report = verify(&place, &options, &mut |_| {}).expect("verified");
    assert!(report.bit_exact, "{:?}", report.finding);
}

/// A compiler without OpenCL's header or library says which, and trainc what to install.
#[test]
fn what_is_missing_is_named() {
    let place = artifact("digits", "niti");
    let script = place.join("compiler.sh");
    for said in ["fatal error: CL/cl.h: No such file or directory", "cannot find -lOpenCL"] {
        let mut text = String::new();
        let _ = writeln!(text, "echo '{said}' >&2\nexit 1");
        std::fs::write(&script, text).expect("written");
        let compiler = Some(format!("sh {}", script.display()));
        let options = VerifyOptions { compiler, ..VerifyOptions::default() };
        let refused = verify(&place, &options, &mut |_| {}).expect_err("there is no OpenCL");
        let message = error::message(&refused);
        assert!(message.contains("apt-get install pocl-opencl-icd"), "{message}");
    }
}
