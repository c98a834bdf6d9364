//! Rows of sums and of rounded bytes that XpulpV2's normalizations are made of, in the simulator and on this machine, beside plain
//! C: draws that just carry are too rare for tensors of any size to have them.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_c::Dialect;
use trainc_riscv::toolchain;
use trainc_tests::simulated::{simulate, sources};
use trainc_xpulpv2::XPULPV2;

const STRICT: [&str; 4] = ["-std=c99", "-Wall", "-Wextra", "-Werror"];

/// A folder with the headers.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xpulp_rows");
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in XPULPV2.support() {
        std::fs::write(folder.join(&*file.name), &*file.contents).expect("written");
    }
    folder
}

/// Rows, those that differ, and of the first of these its kind, its length and its shift.
fn passes(report: &[u8], form: &str) {
    let words: Vec<i32> =
        report.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect();
    let [rows, wrong, first @ ..] = &words[..] else { panic!("{form}: no report") };
    assert!(*rows > 2000, "{form}: {rows} rows");
    assert_eq!(*wrong, 0, "{form}: kind, length and shift of the first are {first:?}");
}

#[test]
fn rows_beside_plain_c() {
    let folder = folder();
    let include = format!("-I{}", folder.display());
    let source = sources().join("rows.c");
    let runtime = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runtime-stub");
    let native = folder.join("native");
    let mut gcc = Command::new("gcc");
    gcc.args(STRICT).args(["-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all", &include]);
    gcc.arg("-I").arg(&runtime).arg(&source).arg(runtime.join("trainc_rt.c"));
    let built = gcc.arg("-o").arg(&native).output().expect("gcc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let output = Command::new(&native).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    passes(&output.stdout, "portable");
    let support = format!("-I{}", toolchain::support().display());
    let rt = format!("-I{}", runtime.display());
    let own = [&STRICT[..], &["-DTRAINC_XPULP_INSN", &include, &support, &rt]].concat();
    for level in ["-O0", "-O3"] {
        let sources = [source.clone(), runtime.join("trainc_rt.c")];
        let machine = simulate(&sources, &[&own[..], &[level]].concat(), &folder.join("gcc"));
        passes(machine.output(), level);
    }
}
