//! Code of an emitted training step, in bytes: `cargo run --release -p trainc-tests --example code_size -- lenet5 32 c`.
//!
//! Compiles the artifact of a zoo model's `train_step` with each compiler that is there, and prints what `size` says of
//! the code (with constant tables) of the kernels and of the runtime.

use std::process::Command;

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::verify::Stage;
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};

/// Compiler, flags, tool that tells sizes.
const COMPILERS: [(&str, &[&str], &str); 4] = [
    ("gcc", &[], "size"),
    ("clang", &[], "size"),
    ("aarch64-linux-gnu-gcc", &[], "aarch64-linux-gnu-size"),
    ("arm-linux-gnueabihf-gcc", &["-mthumb"], "arm-linux-gnueabihf-size"),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lenet5".into());
    let batch: usize = arguments.next().and_then(|b| b.parse().ok()).unwrap_or(32);
    let target = arguments.next().unwrap_or_else(|| "c".into());
    let target = trainc_driver::targets::find(&target).expect("a target");
    let bytes = build(&ZooSpec::new(&name).expect("a model of the zoo")).expect("the zoo builds");
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("none".into()), &options).expect("imports");
    let niti = Algorithm::built_in("niti").expect("niti");
    let forward = remove_operations(&imported.graph, &niti.remove);
    let training = training_graph(&forward, None).expect("trains");
    let (module, _) = translate(&training, &niti).expect("translates");
    let stage = Stage::Quantized { float_operations: niti.float_operations.clone() };
    let (step, _) =
        optimise(&module, &stage, target, &OptimiseOptions::default()).expect("optimises");
    let entries = [PlanEntry { name: "train_step", graph: &step }];
    let (program, _) = plan(&name, &entries, target, &PlanOptions::default()).expect("plans");
    let folder = std::env::temp_dir().join(format!("trainc-code-size-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = target.emit(&program).expect("emits");
    for file in &files {
        std::fs::write(folder.join(&file.name), &file.contents).expect("is written");
    }
    let flags = trainc_driver::targets::compiler_flags(target.description().name);
    let flags = flags.expect("a target that emits C");
    println!("{name}, batch {batch}, target {}", target.description().name);
    println!("{:<36} {:>10} {:>10}", "compiler", "kernels", "runtime");
    for (compiler, own, size) in COMPILERS {
        for level in ["-Os", "-O2"] {
            let text = |source: &str| -> Option<u64> {
                let compiled = Command::new(compiler)
                    .args(own)
                    .args(&flags)
                    .args([level, "-c"])
                    .args([source, "-o", "code.o"])
                    .current_dir(&folder)
                    .output()
                    .ok()?;
                compiled.status.success().then_some(())?;
                let sizes = Command::new(size).arg("code.o").current_dir(&folder).output().ok()?;
                let sizes = String::from_utf8(sizes.stdout).ok()?;
                sizes.lines().nth(1)?.split_whitespace().next()?.parse().ok()
            };
            let own = own.join(" ");
            let what = format!("{compiler} {level} {own}");
            match (text(&format!("{}.c", program.name)), text("trainc_rt.c")) {
                (Some(kernels), Some(runtime)) => {
                    println!("{what:<36} {kernels:>10} {runtime:>10}")
                }
                _ => println!("{what:<36} {:>10} {:>10}", "-", "-"),
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}
