//! Executed AArch64 instructions per multiplication of VGG-11's eight convolutions on 32x32 images: the forward pass,
//! the error and the weight gradient of each, as the NEON targets emit them and as gcc compiles the portable C.
//!
//! `cargo run --release -p trainc-tests --example neon_instructions -- [--batch N] [--check] [--only LEVEL]`
//!
//! Needs the cross compiler, a C compiler and `qemu-aarch64` with plugins (Debian: gcc-aarch64-linux-gnu,
//! libc6-dev-arm64-cross, gcc, qemu-user). A plugin counts each executed instruction of a kernel from its call to its
//! return: packing, edges and requantization included. `--check` compares the results of all builds.
//!
//! Multiplications are counted as everybody does, with those by the padding's zeros, and, in brackets, without them.
//! Kernels that leave those out so look better in the first count than they are as arithmetic.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_c::Dialect;
use trainc_ir::loops::Role;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, QuantizeGradient, Requantize,
};
use trainc_ir::target::loop_scratch;
use trainc_ir::{Element, Op, TensorType};
use trainc_neon::{DOTPROD, I8MM, NEON, NeonTarget};
use trainc_tests::kernels;

/// Input channels, output channels, height and width.
const LAYERS: [[usize; 3]; 8] = [
    [3, 64, 32],
    [64, 128, 16],
    [128, 256, 8],
    [256, 256, 8],
    [256, 512, 4],
    [512, 512, 4],
    [512, 512, 2],
    [512, 512, 2],
];
const PASSES: [&str; 3] = ["forward", "error", "gradient"];

/// A kernel of the table.
struct Layer {
    op: Op,
    inputs: Vec<TensorType>,
    /// With the products with the padding's zeros, and without.
    multiplications: [f64; 2],
}

fn layer([channels, outputs, size]: [usize; 3], pass: usize, batch: usize) -> Layer {
    let (strides, pads, dilations, groups) = ([1, 1], [1; 4], [1, 1], 1);
    let x = TensorType::shared([batch, channels, size, size], Element::I8);
    let w = TensorType::shared([outputs, channels, 3, 3], Element::I8);
    let y = TensorType::shared([batch, outputs, size, size], Element::I8);
    let rounding = Rounding::HalfAway;
    let (product, finish, inputs): (Op, Op, _) = match pass {
        0 => (
            Conv2d { strides, pads, dilations, groups }.into(),
            Requantize { bits: 7, rounding, low: 0 }.into(),
            vec![x, w],
        ),
        1 => (
            Conv2dGradientInput { strides, pads, dilations, groups, input_size: [size; 2] }.into(),
            Requantize { bits: 7, rounding, low: -127 }.into(),
            vec![y, w],
        ),
        _ => (
            Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: [3, 3] }.into(),
            QuantizeGradient { rounding: Rounding::PseudoStochastic }.into(),
            vec![x, y, TensorType::new([0usize; 0], Element::I32)],
        ),
    };
    let of_taps = |taps: usize| (batch * channels * outputs * taps * taps) as f64;
    Layer {
        op: Chain { ops: vec![product, finish] }.into(),
        inputs,
        // Of 3 size taps along an axis, 2 lie in the padding.
        multiplications: [of_taps(3 * size), of_taps(3 * size - 2)],
    }
}

/// One way of compiling the kernels.
struct Build {
    name: &'static str,
    target: Option<&'static NeonTarget>,
    flags: &'static [&'static str],
}

const BUILDS: [Build; 6] = [
    Build { name: "neon", target: Some(&NEON), flags: &["-O3"] },
    Build {
        name: "neon+dotprod",
        target: Some(&DOTPROD),
        flags: &["-O3", "-march=armv8.2-a+dotprod"],
    },
    Build {
        name: "neon+i8mm",
        target: Some(&I8MM),
        flags: &["-O3", "-march=armv8.2-a+dotprod+i8mm"],
    },
    Build { name: "C, gcc -O3", target: None, flags: &["-O3"] },
    Build {
        name: "C, gcc -O3 +dotprod",
        target: None,
        flags: &["-O3", "-march=armv8.2-a+dotprod"],
    },
    Build { name: "C, gcc -O3 +i8mm", target: None, flags: &["-O3", "-march=armv8.2-a+i8mm"] },
];

const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

static uint32_t state = 1;

/* Operands from -127 to 127; results are overwritten. */
static void *filled(size_t bytes, int scalar)
{
    signed char *place = aligned_alloc(64, (bytes + 127) / 64 * 64);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        place[i] = (signed char)((int)(state >> 24) % 255 - 127);
    }
    if (scalar) {
        memset(place, 0, bytes);
        place[0] = 5;
    }
    return place;
}

static unsigned long long hash(unsigned long long h, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        h = (h ^ bytes[i]) * 1099511628211ull;
    }
    return h;
}
"#;

/// The C source of all kernels and of a main program that runs each between marks.
fn source(build: &Build, layers: &[Layer]) -> Result<String, Box<dyn Error>> {
    let mut text = String::from("#define _GNU_SOURCE\n#include \"trainc_rt.h\"\n");
    for file in build.target.iter().flat_map(|target| Dialect::support(*target)) {
        writeln!(text, "#include \"{}\"", file.name)?;
    }
    text.push_str(MAIN);
    let mut main = String::from("int main(void)\n{\n");
    for (n, layer) in layers.iter().enumerate() {
        let inputs: Vec<&TensorType> = layer.inputs.iter().collect();
        let outputs = layer.op.infer(&inputs)?;
        let output_types: Vec<&TensorType> = outputs.iter().collect();
        let name = format!("kernel_{n}");
        let lowered = layer.op.lower(&inputs, &output_types);
        let (function, scratch) = match build.target {
            None => (trainc_c::function(&name, &lowered)?, loop_scratch(&lowered).1),
            Some(target) => {
                let kernel = kernels::kernel(target, &name, &layer.op, &inputs);
                (kernels::text(&kernel), kernel.scratch_bytes())
            }
        };
        // One call each, that must not be inlined or specialised.
        text.push_str(&function.replacen(
            "static void ",
            "__attribute__((noinline, noclone)) static void ",
            1,
        ));
        let (mut arguments, mut after) = (Vec::new(), String::new());
        writeln!(main, "    state = {n};\n    {{")?;
        for (i, buffer) in lowered.buffers.iter().enumerate() {
            let bytes = buffer.element.bytes(buffer.count);
            if buffer.role == Role::Scratch {
                continue;
            }
            let scalar = i32::from(matches!(buffer.role, Role::Input(2) | Role::InputScale(_)));
            writeln!(main, "        void *b{i} = filled({bytes}, {scalar});")?;
            if matches!(buffer.role, Role::Output(_) | Role::OutputScale(_)) {
                writeln!(after, "        h = hash(h, b{i}, {bytes});")?;
            }
            arguments.push(format!("b{i}"));
        }
        writeln!(
            main,
            "        void *scratch = aligned_alloc(64, {});",
            scratch.next_multiple_of(64)
        )?;
        arguments.push("scratch".into());
        writeln!(main, "        unsigned long long h = 14695981039346656037ull;")?;
        writeln!(main, "        syscall(32343, {n});")?;
        writeln!(main, "        {name}({});", arguments.join(", "))?;
        writeln!(main, "        syscall(32343, {n});\n{after}")?;
        writeln!(main, "        printf(\"%llu\\n\", h);\n    }}")?;
    }
    main.push_str("    syscall(32343, 999);\n    syscall(32343, 999);\n    return 0;\n}\n");
    text.push_str(&main);
    Ok(text)
}

fn run(command: &mut Command, package: &str) -> Result<(String, String), Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("needs `{name}` (Debian: {package}): {e}"))?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("{command:?}: {}\n{error}", output.status).into());
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), error))
}

/// Instructions and hashes of the results of each kernel.
fn measure(
    build: &Build,
    layers: &[Layer],
    folder: &Path,
) -> Result<(Vec<f64>, Vec<String>), Box<dyn Error>> {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
    write("trainc_rt.h", trainc_c::RUNTIME_HEADER)?;
    write("trainc_rt.c", trainc_c::RUNTIME_SOURCE)?;
    for file in build.target.iter().flat_map(|target| Dialect::support(*target)) {
        write(&file.name, &file.contents)?;
    }
    write("kernels.c", &source(build, layers)?)?;
    let mut compiler = Command::new("aarch64-linux-gnu-gcc");
    compiler.current_dir(folder).args(["-std=c99", "-ffp-contract=off", "-static"]);
    compiler.args(build.flags).args(["kernels.c", "trainc_rt.c", "-o", "kernels"]);
    run(&mut compiler, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross")?;
    let mut emulator = Command::new("qemu-aarch64");
    emulator.args(["-cpu", "max", "-plugin"]).arg(folder.join("count_instructions.so"));
    let (out, marks) = run(emulator.arg(folder.join("kernels")), "qemu-user")?;
    let mut counts = Vec::new();
    for line in marks.lines() {
        let mark = line.strip_prefix("trainc-mark ").and_then(|mark| mark.split_once(' '));
        let (mark, count) = mark.ok_or("not a mark")?;
        counts.push((mark.parse::<usize>()?, count.parse::<u64>()?));
    }
    let between: Vec<u64> = counts.chunks_exact(2).map(|pair| pair[1].1 - pair[0].1).collect();
    if between.len() != layers.len() + 1 {
        return Err(format!("{} marks of {} kernels", counts.len(), layers.len()).into());
    }
    let overhead = between[layers.len()];
    let counted = between[..layers.len()].iter().map(|&count| (count - overhead) as f64).collect();
    Ok((counted, out.lines().map(String::from).collect()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut batch, mut check, mut only) = (16, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--batch" => batch = arguments.next().ok_or("--batch takes a number")?.parse()?,
            "--check" => check = true,
            "--only" => only = Some(arguments.next().ok_or("--only takes a name")?),
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    let layers: Vec<Layer> = LAYERS
        .iter()
        .flat_map(|&shape| (0..3).map(move |pass| layer(shape, pass, batch)))
        .collect();
    let folder: PathBuf =
        std::env::temp_dir().join(format!("neon_instructions_{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("count_instructions.c"), trainc_c::PLUGIN)?;
    let mut plugin = Command::new("cc");
    plugin.current_dir(&folder).args(["-O2", "-shared", "-fPIC", "count_instructions.c"]);
    run(plugin.args(["-o", "count_instructions.so"]), "gcc")?;
    println!(
        "Instructions per multiplication, batch {batch}; in brackets: per multiplication outside the padding."
    );
    let mut results: Vec<(&str, Vec<String>)> = Vec::new();
    for build in BUILDS.iter().filter(|b| only.as_deref().is_none_or(|only| b.name == only)) {
        let (counts, hashes) = measure(build, &layers, &folder)?;
        println!("\n| {} | forward | error | gradient |\n|---|---|---|---|", build.name);
        let cell = |of: &[usize]| {
            let instructions: f64 = of.iter().map(|&i| counts[i]).sum();
            let [all, inside] =
                [0, 1].map(|k| of.iter().map(|&i| layers[i].multiplications[k]).sum::<f64>());
            format!("{:.4} ({:.4})", instructions / all, instructions / inside)
        };
        for (n, [channels, outputs, size]) in LAYERS.iter().enumerate() {
            let cells: Vec<String> = (0..3).map(|pass| cell(&[3 * n + pass])).collect();
            println!("| {channels} to {outputs}, {size}x{size} | {} |", cells.join(" | "));
        }
        let wide: Vec<usize> = (3..layers.len()).collect();
        let of_pass = |pass| wide.iter().copied().filter(|i| i % 3 == pass).collect::<Vec<_>>();
        let cells: Vec<String> = (0..3).map(|pass| cell(&of_pass(pass))).collect();
        println!("| from 64 channels on | {} |", cells.join(" | "));
        println!("| all of these | {} | | |", cell(&wide));
        results.push((build.name, hashes));
    }
    if check {
        for (name, hashes) in &results {
            for (n, hash) in hashes.iter().enumerate() {
                if *hash != results[0].1[n] {
                    let pass = PASSES[n % 3];
                    return Err(
                        format!("{name}, layer {}, {pass}: other results", n / 3 + 1).into()
                    );
                }
            }
        }
        println!("\nAll {} builds give the same results.", results.len());
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
