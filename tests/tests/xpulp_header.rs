//! The instructions of XpulpV2 as functions: every form gives the bits of the portable one, on extreme and random operands.
//! Builtins of compilers that are not at hand are stood in for by functions written from their documentation, which shows
//! that the names and operands fit it.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_riscv::toolchain;
use trainc_tests::simulated::{simulate, sources};
use trainc_xpulpv2::{FLOAT, HEADER, NUMBER};

const STRICT: [&str; 4] = ["-std=c99", "-Wall", "-Wextra", "-Werror"];
/// Functions times operands times bytes of a result.
const BYTES: usize = 47 * 2144 * 4;

/// A folder with the header.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xpulp_header").join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("trainc_xpulp.h"), HEADER).expect("written");
    folder
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Results of the form that a compiler of this machine takes with some flags.
fn native(compiler: &str, flags: &[&str], folder: &Path, name: &str) -> Vec<u8> {
    let executable = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(flags).arg("-I").arg(folder).arg(sources().join("header.c"));
    run(command.arg("-o").arg(&executable));
    run(&mut Command::new(executable))
}

fn portable(folder: &Path) -> Vec<u8> {
    let flags =
        [&STRICT[..], &["-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all"]].concat();
    let results = native("gcc", &flags, folder, "portable");
    assert_eq!(results.len(), BYTES);
    results
}

/// Equal results, told apart by function.
fn same(found: &[u8], expected: &[u8], form: &str) {
    assert_eq!(found.len(), expected.len(), "{form}");
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let place = differs.map(|at| (at / (2144 * 4), at / 4 % 2144));
    assert_eq!(place, None, "{form}: function and operands");
}

#[test]
fn compilers_of_this_machine() {
    let folder = folder("native");
    let expected = portable(&folder);
    for (i, level) in ["-O0", "-O2"].into_iter().enumerate() {
        let found =
            native("clang", &[&STRICT[..], &[level]].concat(), &folder, &format!("clang{i}"));
        same(&found, &expected, level);
    }
}

#[test]
fn sums_products_and_quotients_of_floats() {
    let folder = folder("floats");
    std::fs::write(folder.join("trainc_xpulp_float.h"), FLOAT).expect("written");
    let runtime = format!("-I{}/../runtime-stub", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("gcc");
    command.args(STRICT).args(["-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all"]);
    command.arg(runtime).arg("-I").arg(&folder).arg(sources().join("float.c"));
    let executable = folder.join("floats");
    run(command.arg("-o").arg(&executable));
    run(&mut Command::new(executable));
}

#[test]
fn chains_of_numbers() {
    let folder = folder("numbers");
    std::fs::write(folder.join("trainc_xpulp_float.h"), FLOAT).expect("written");
    std::fs::write(folder.join("trainc_xpulp_number.h"), NUMBER).expect("written");
    let runtime = format!("-I{}/../runtime-stub", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("gcc");
    command.args(STRICT).args(["-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all"]);
    command.arg(&runtime).arg("-I").arg(&folder).arg(sources().join("number.c"));
    let executable = folder.join("numbers");
    run(command.arg("-o").arg(&executable));
    run(&mut Command::new(executable));
    let include = format!("-I{}", folder.display());
    for level in ["-O0", "-O3"] {
        let own = [level, "-DTRAINC_XPULP_INSN", "-DROUNDS=20000", &runtime, &include];
        let flags = [&STRICT[..], &own].concat();
        simulate(&[sources().join("number.c")], &flags, &folder.join("gcc"));
    }
}

#[test]
fn encodings_in_the_simulator() {
    let folder = folder("encodings");
    let expected = portable(&folder);
    let include = format!("-I{}", folder.display());
    let own = [&STRICT[..], &["-DTRAINC_XPULP_INSN", &include]].concat();
    for level in ["-O0", "-O3"] {
        let flags = [&own[..], &[level]].concat();
        let machine = simulate(&[sources().join("header.c")], &flags, &folder.join("gcc"));
        same(machine.output(), &expected, level);
        let object = folder.join("clang.o");
        let support = format!("-I{}", toolchain::support().display());
        let mut clang = Command::new("clang-19");
        clang.args([
            "--target=riscv32",
            "-march=rv32imc",
            "-mabi=ilp32",
            "-ffreestanding",
            &support,
        ]);
        clang.args(&flags).arg("-c").arg(sources().join("header.c"));
        run(clang.arg("-o").arg(&object));
        let machine = simulate(&[object], &[], &folder.join("clang"));
        same(machine.output(), &expected, &format!("clang {level}"));
    }
}

#[test]
fn builtins_as_they_are_documented() {
    let folder = folder("builtins");
    let expected = portable(&folder);
    let core_v = "-D__riscv_xcvsimd -D__riscv_xcvalu -D__riscv_xcvmac";
    for (mock, macros) in [("mock_pulp.h", "-D__pulp__"), ("mock_corev.h", core_v)] {
        let mock = sources().join(mock);
        let mut flags: Vec<&str> = macros.split(' ').collect();
        flags.extend(["-std=c99", "-O2", "-w", "-include", mock.to_str().expect("text")]);
        same(&native("gcc", &flags, &folder, "builtins"), &expected, macros);
    }
}
