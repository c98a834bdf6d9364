//! The example of the target xpulpv2: it includes no header of a library, and trains in the simulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_tests::brevitas;
use trainc_tests::simulated::simulate;

/// What the simulator's program does after the example: a number for what is wrong.
const AFTER: &str = r#"
#define main example_main
#include "main.c"
#undef main

int main(void)
{
    const int code = example_main();
    const struct example_results *r = &example_results;
    if (code != 0 || r->restored != 1 || r->refused != 1) {
        return 1;
    }
    if (!(r->losses[EPOCHS - 1] < r->losses[0] / 2.0f)) {
        return 2;
    }
    if (r->examples != MADE_UP || 10 * r->right <= 8 * r->examples) {
        return 3;
    }
    return r->steps == 12 * EPOCHS ? 0 : 4;
}
"#;

/// An artifact with its example, in a folder of its own.
fn artifact(test: &str, source: &ModelSource, algorithm: &str, batch: usize) -> PathBuf {
    let config = Config {
        algorithm: algorithm.into(),
        target: "xpulpv2".into(),
        batch: Some(batch),
        ..Config::default()
    };
    let session = Session::new(source, &config, Entries::TrainAndInfer);
    let files = emit::artifact_with_example(&session.expect("compiles"), &[]).expect("emits");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xpulp_example").join(test);
    let _ = fs::remove_dir_all(&folder);
    emit::write_folder(&folder, &files).expect("written");
    let example = fs::read_to_string(folder.join("main.c")).expect("an example");
    assert!(!example.contains('@') && !example.contains("#include <"), "{example}");
    folder
}

/// The sources of an artifact but for its example, and the flags of its README.
fn build_of(folder: &Path) -> (Vec<PathBuf>, Vec<&'static str>) {
    let mut sources: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder")
        .map(|e| e.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "c"))
        .filter(|path| !path.ends_with("main.c") && !path.ends_with("after.c"))
        .collect();
    sources.sort();
    (sources, trainc_driver::targets::compiler_flags("xpulpv2").expect("it emits C"))
}

/// The README's command compiles the example, too.
fn compiles_as_the_readme_says(folder: &Path) {
    let readme = fs::read_to_string(folder.join("README.md")).expect("a README");
    let command = readme.lines().find_map(|l| l.strip_prefix("    riscv64-unknown-elf-gcc "));
    let output = Command::new("riscv64-unknown-elf-gcc")
        .current_dir(folder)
        .args(command.expect("a command").split(' '))
        .args(["-Wall", "-Wextra", "-Werror", "main.c"])
        .output()
        .expect("the compiler starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn it_learns_what_it_made_up() {
    let spec = ZooSpec { classes: 4, ..ZooSpec::new("digits").expect("in the zoo") };
    let bytes = build(&spec).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "digits".into(), bytes };
    let folder = artifact("training", &source, "niti", 4);
    compiles_as_the_readme_says(&folder);
    fs::write(folder.join("after.c"), AFTER).expect("written");
    let (mut sources, flags) = build_of(&folder);
    sources.push(folder.join("after.c"));
    simulate(&sources, &flags, &folder.join("program"));
}

#[test]
fn it_infers() {
    let file = fs::read_dir(brevitas::folder())
        .expect("the networks")
        .map(|e| e.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "onnx"))
        .min()
        .expect("a network");
    let folder = artifact("inference", &ModelSource::File(file), "quantized", 1);
    compiles_as_the_readme_says(&folder);
    let (mut sources, flags) = build_of(&folder);
    sources.push(folder.join("main.c"));
    simulate(&sources, &flags, &folder.join("program"));
}
