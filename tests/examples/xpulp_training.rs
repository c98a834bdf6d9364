//! Cycles of LeNet-5's NITI training step in the simulator of RISC-V (RI5CY's timing, ideal memory): the XpulpV2 target's
//! kernels on one core and on a cluster of eight, beside the C target's loops on plain RV32IMC, both by the same compiler at
//! `-O3`. All builds must end with the same weights.
//!
//! `cargo run --release -p trainc-tests --example xpulp_training -- [--batch N] [--launches] [--elf FOLDER]`
//!
//! `--elf` writes the program of one core, `lenet5.elf`, which `targets/riscv/rtl/run` compares with the RTL.
//!
//! Needs Debian's gcc-riscv64-unknown-elf. Floats are emulated on all builds, as on GAP8.

use std::path::{Path, PathBuf};

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::harness::launches;
use trainc_ir::program::Program;
use trainc_riscv::{Machine, Mark};
use trainc_tests::simulated::{simulate, sources};

/// The last of which is measured.
const STEPS: u32 = 2;
/// Labels of the marks around a step.
const BEGIN: u32 = 1000;
const END: u32 = 2000;

/// Writes the artifact for a target.
fn artifact(target: &str, batch: usize) -> (PathBuf, Program) {
    let bytes =
        build(&ZooSpec::new("lenet5").expect("a model of the zoo")).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "lenet5".into(), bytes };
    let config = Config { target: target.into(), batch: Some(batch), ..Config::default() };
    let session = Session::new(&source, &config, Entries::TrainAndInfer);
    let session = session.expect("compiles");
    let files = emit::artifact(&session, &[]).expect("emits");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tmp/xpulp_training");
    std::fs::create_dir_all(&folder).expect("a folder");
    let folder = folder.join(target);
    emit::write_folder(&folder, &files).expect("written");
    (folder, session.program().clone().into_inner())
}

/// Counters of the last step, and of each of its launches.
struct Measured {
    step: [u64; 3],
    launches: Vec<[u64; 3]>,
    weights: Vec<u8>,
}

fn counters(mark: &Mark) -> [u64; 3] {
    [mark.instructions, mark.cycles, mark.parallel_cycles]
}

fn difference(from: [u64; 3], to: [u64; 3]) -> [u64; 3] {
    [0, 1, 2].map(|i| to[i] - from[i])
}

fn measure(folder: &Path, batch: usize, flags: &[&str]) -> Measured {
    let files = ["lenet5.c", "lenet5_data.c", "trainc_rt.c"].map(|name| folder.join(name));
    let all = [&[sources().join("training.c")], &files[..]].concat();
    let hooks = sources().join("../../../targets/xpulpv2/src/simulator");
    let own = [
        format!("-I{}", folder.display()),
        // After the compiler's own headers.
        format!("-idirafter{}", hooks.display()),
        format!("-DBATCH={batch}"),
        format!("-DSTEPS={STEPS}"),
    ];
    let mut every = vec![
        "-O3",
        "-ffp-contract=off",
        "-DTRAINC_HOOKS=\"hooks.h\"",
        "-DTRAINC_ENTERED(a, s, e)=((void)0)",
    ];
    every.extend(own.iter().map(String::as_str));
    every.extend(flags);
    let machine: Machine = simulate(&all, &every, &folder.join("training"));
    let begin = machine.marks.iter().rposition(|m| m.label == BEGIN).expect("a step begins");
    let marks = &machine.marks[begin..];
    let end = marks.iter().find(|m| m.label == END).expect("it ends");
    let pairs = marks.iter().zip(&marks[1..]).take_while(|(_, next)| next.label != END);
    Measured {
        step: difference(counters(&marks[0]), counters(end)),
        launches: pairs.map(|(a, b)| difference(counters(a), counters(b))).collect(),
        weights: machine.output().to_vec(),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |option: &str| {
        arguments.iter().position(|a| a == option).map(|i| arguments.get(i + 1).expect(option))
    };
    let batch = value("--batch").map_or(4, |value| value.parse().expect("--batch needs a number"));
    let (plain, _) = artifact("c", batch);
    let (own, program) = artifact("xpulpv2", batch);
    let loops = measure(&plain, batch, &[]);
    let one = measure(&own, batch, &["-DTRAINC_XPULP_INSN"]);
    if let Some(to) = value("--elf") {
        std::fs::create_dir_all(to).expect("a folder");
        std::fs::copy(own.join("training"), Path::new(to).join("lenet5.elf")).expect("copied");
    }
    let eight = measure(&own, batch, &["-DTRAINC_XPULP_INSN", "-DCORES=8"]);
    for other in [&one, &eight] {
        assert_eq!(other.weights, loops.weights, "the weights differ");
    }
    // Forward, error and weight gradient of each layer; the first has no error.
    let layers = [784 * 6 * 25, 100 * 16 * 150, 400 * 120, 120 * 84, 84 * 10];
    let products = (3 * layers.iter().sum::<u64>() - layers[0]) * batch as u64;
    println!("LeNet-5, NITI, batch {batch}: RI5CY, ideal memory");
    println!(
        "{:34} {:>12} {:>12} {:>8} {:>10}",
        "", "instructions", "cycles", "ratio", "MAC/cycle"
    );
    let row = |name: &str, instructions: u64, cycles: u64| {
        let ratio = loops.step[1] as f64 / cycles as f64;
        let rate = products as f64 / cycles as f64;
        println!("{name:34} {instructions:12} {cycles:12} {ratio:8.2} {rate:10.3}");
    };
    row("loops, RV32IMC -O3, 1 core", loops.step[0], loops.step[1]);
    row("xpulpv2, 1 core", one.step[0], one.step[1]);
    row("xpulpv2, 8 cores", eight.step[0], eight.step[2]);
    if arguments.iter().any(|a| a == "--launches") {
        let entry = program.entries.iter().find(|e| e.name == "train_step").expect("trains");
        println!("\n{:44} {:>10} {:>10} {:>10}", "launch", "loops", "1 core", "8 cores");
        for (i, launch) in launches(entry).iter().enumerate() {
            let [a, b, c] = [loops.launches[i][1], one.launches[i][1], eight.launches[i][2]];
            println!("{:44} {a:10} {b:10} {c:10}", launch.name);
        }
    }
}
