//! Code of an emitted training step, in bytes: `cargo run --release -p trainc-tests --example code_size -- lenet5 32 c`.
//!
//! Compiles the artifact of a zoo model's `train_step` with each compiler that is there, and prints what `size` says of
//! the code (with constant tables) of the kernels, of the runtime, and of what a linker makes of both and of the compiler's own
//! library for the one entry.

use std::process::Command;

use trainc_opt::algorithm::Algorithm;
use trainc_tests::programs::step_of;

/// Compiler, flags, tool that tells sizes.
const COMPILERS: [(&str, &[&str], &str); 6] = [
    ("gcc", &[], "size"),
    ("clang", &[], "size"),
    ("aarch64-linux-gnu-gcc", &[], "aarch64-linux-gnu-size"),
    ("arm-linux-gnueabihf-gcc", &["-mthumb"], "arm-linux-gnueabihf-size"),
    ("riscv64-unknown-elf-gcc", &[], "riscv64-unknown-elf-size"),
    ("riscv64-unknown-elf-gcc", &["-msave-restore"], "riscv64-unknown-elf-size"),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "lenet5".into());
    let batch: usize = arguments.next().and_then(|b| b.parse().ok()).unwrap_or(32);
    let target = arguments.next().unwrap_or_else(|| "c".into());
    let target = trainc_driver::targets::find(&target).expect("a target");
    let niti = Algorithm::built_in("niti").expect("niti");
    let program = step_of(&name, &niti, batch, target);
    let folder = std::env::temp_dir().join(format!("trainc-code-size-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = target.emit(&program).expect("emits");
    for file in &files {
        std::fs::write(folder.join(&file.name), &file.contents).expect("is written");
    }
    let flags = trainc_driver::targets::compiler_flags(target.description().name);
    let flags = flags.expect("a target that emits C");
    println!("{name}, batch {batch}, target {}", target.description().name);
    println!("{:<44} {:>10} {:>10} {:>10}", "compiler", "kernels", "runtime", "linked");
    for (compiler, own, size) in COMPILERS {
        for level in ["-Os", "-O2", "-O3"] {
            let run = |arguments: &[&str]| {
                let mut command = Command::new(compiler);
                command.args(own).args(&flags).arg(level).args(arguments).current_dir(&folder);
                command.output().is_ok_and(|output| output.status.success()).then_some(())
            };
            let size = |file: &str| -> Option<u64> {
                let sizes = Command::new(size).arg(file).current_dir(&folder).output().ok()?;
                let sizes = String::from_utf8(sizes.stdout).ok()?;
                sizes.lines().nth(1)?.split_whitespace().next()?.parse().ok()
            };
            let source = format!("{}.c", program.name);
            let object = |source: &str| {
                run(&["-c", source, "-o", "code.o"])?;
                size("code.o")
            };
            let entry = format!("-Wl,-e,{}_train_step", program.name);
            let linked = || {
                let sections = ["-ffunction-sections", "-fdata-sections", "-c"];
                run(&[&sections[..], &[&source, "-o", "code.o"]].concat())?;
                run(&[&sections[..], &["trainc_rt.c", "-o", "runtime.o"]].concat())?;
                // What a C library has is not counted.
                let open = ["-nostdlib", "-static", "-Wl,--unresolved-symbols=ignore-all"];
                let files = ["-Wl,--gc-sections", &entry, "code.o", "runtime.o", "-lgcc"];
                run(&[&open[..], &files, &["-o", "code.elf"]].concat())?;
                size("code.elf")
            };
            let all = [object(&source), object("trainc_rt.c"), linked()];
            let [kernels, runtime, linked] =
                all.map(|bytes| bytes.map_or("-".to_string(), |bytes| bytes.to_string()));
            let what = format!("{compiler} {level} {}", own.join(" "));
            println!("{what:<44} {kernels:>10} {runtime:>10} {linked:>10}");
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}
