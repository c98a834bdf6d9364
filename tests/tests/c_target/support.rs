//! Folders, the C compiler, programs and operands of these tests.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_ir::Verified;
use trainc_ir::program::Program;
use trainc_ir::target::ArtifactFile;
pub(crate) use trainc_tests::random::Random;

/// What emitted code must compile with.
pub(crate) const STRICT: &[&str] = &[
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
    "-ffreestanding",
    "-ffp-contract=off",
];

pub(crate) const SANITIZED: &[&str] =
    &["-O1", "-g0", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"];

pub(crate) const SEED: u64 = 0x0123_4567_89ab_cdef;

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_target").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

pub(crate) fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), contents).expect("the file is written");
}

pub(crate) fn write_all(folder: &Path, files: &[ArtifactFile]) {
    files.iter().for_each(|file| write(folder, &file.name, &file.contents));
}

/// Runs the C compiler in a folder.
pub(crate) fn cc(folder: &Path, arguments: &[&str]) {
    compile("cc", folder, arguments);
}

/// Runs a compiler in a folder.
pub(crate) fn compile(compiler: &str, folder: &Path, arguments: &[&str]) {
    let output =
        Command::new(compiler).args(arguments).current_dir(folder).output().unwrap_or_else(|e| {
            panic!("these tests need `{compiler}` (Debian: gcc, clang, gcc-aarch64-linux-gnu, gcc-arm-linux-gnueabihf): {e}")
        });
    assert!(
        output.status.success(),
        "{compiler} {} in {}:\n{}",
        arguments.join(" "),
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Symbols of an object that it does not define.
pub(crate) fn undefined(folder: &Path, object: &str) -> Vec<String> {
    let output = Command::new("nm").args(["-u", object]).current_dir(folder).output();
    let output = output.expect("`nm` comes with the compiler");
    assert!(output.status.success(), "nm -u {object}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().filter(|word| *word != "U").map(str::to_string).collect()
}

/// The text of an emitted file.
pub(crate) fn text(files: &[ArtifactFile], name: &str) -> String {
    let file = files.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(file.contents.clone()).expect("text")
}

/// Runs a program of a folder on some bytes.
pub(crate) fn execute(folder: &Path, program: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(folder.join(program))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    let _ = writer.join();
    assert!(
        output.status.success(),
        "{program}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(2000)]),
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

pub(crate) fn runtime(folder: &Path) {
    write(folder, "trainc_rt.h", trainc_c::RUNTIME_HEADER);
    write(folder, "trainc_rt.c", trainc_c::RUNTIME_SOURCE);
}

/// Training and inference of a zoo model for this target.
pub(crate) fn program(model: &str, algorithm: &str, batch: usize) -> Verified<Program> {
    trainc_tests::programs::program(model, algorithm, batch, &trainc_c::C)
}
