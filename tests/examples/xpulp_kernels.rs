//! Multiplications a cycle of quantized convolutions on XpulpV2: the 27 combinations of 8, 4 and 2 bits on the layer that
//! PULP-NN is measured on (16x16x32, 64 filters of 3x3, padded by 1).
//!
//! `cargo run --release -p trainc-tests --example xpulp_kernels` prints a table for Markdown, and a second one of depthwise and
//! fully connected layers; `--check` fails where a figure is below what the target promises. `--elf FOLDER` writes the
//! programs of one core, which `targets/riscv/rtl/run` compares with the RTL.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use trainc_ir::implementation::Signature;
use trainc_ir::{Element, Tensor, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::random::Random;
use trainc_tests::xpulp_convolutions::{Elements, Shape, combinations, convolution};
use trainc_tests::xpulp_kernels::{Measured, simulate};
use trainc_xpulpv2::mixed::{InnerLoop, inner_loop};

/// Multiplications of the layer.
const PRODUCTS: f64 = (16 * 16 * 64 * 9 * 32) as f64;

/// What is known of PULP-NN's kernels by their weights, and what ours must reach: multiplications a cycle.
struct Bound {
    weights: Element,
    /// PULP-NN, innermost loop and whole layer: measured on the RTL of RI5CY.
    pulp_nn: [f64; 2],
    /// The same of ours, and on eight cores.
    least: [f64; 3],
}

const BOUNDS: [Bound; 3] = [
    Bound { weights: Element::I8, pulp_nn: [2.286, 1.830], least: [2.6, 2.2, 16.0] },
    Bound { weights: Element::I4, pulp_nn: [0.889, 0.811], least: [1.75, 1.5, 0.0] },
    Bound { weights: Element::I2, pulp_nn: [0.914, 0.829], least: [1.75, 1.5, 0.0] },
];

fn innermost(case: &Case) -> InnerLoop {
    let inputs: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
    let outputs = case.op.infer(&inputs).expect("the case is well typed");
    let outputs: Vec<&TensorType> = outputs.iter().collect();
    inner_loop(&Signature::new(&case.op, &inputs, &outputs)).expect("the layer suits tiles")
}

/// A name that tells the elements.
fn name(layer: &str, [x, w, y]: Elements) -> String {
    format!("{layer}_{x}_{w}_{y}")
}

/// Where programs are built, and where those of one core are copied to.
struct Folders {
    own: PathBuf,
    elf: Option<PathBuf>,
}

impl Folders {
    /// A program of its own for each case, so that no layer's figures depend on what lies before it.
    fn measure(&self, name: &str, case: &Case) -> Measured {
        let folder = self.own.join(name);
        let measured = simulate(&folder, std::slice::from_ref(case), false)[0];
        if let Some(elf) = &self.elf {
            let to = elf.join(format!("{name}.elf"));
            std::fs::copy(folder.join("kernels.elf"), to).expect("the program is copied");
        }
        measured
    }
}

/// Depthwise and fully connected layers that fit the cluster's memory.
fn further(folders: &Folders, random: &mut Random) {
    use Element::{I2, I4, I8, U2, U4, U8};
    let depthwise = Shape { groups: 32, ..Shape::three([1, 16, 16, 32], 32) };
    let linear = Shape::one([1, 1, 1, 512], 64);
    println!("\n| layer | x | w | y | MAC a cycle | cycles |\n|---|---|---|---|---:|---:|");
    for (layer, shape) in [("depthwise", depthwise), ("linear", linear)] {
        for elements in [[U8, I8, U8], [U8, I4, U4], [U4, I2, U2], [U2, I2, U8]] {
            let case = convolution(&shape, elements, false, true, random);
            let cycles = folders.measure(&name(layer, elements), &case).cycles;
            let products = case.inputs[1].ty().count() * shape.x[1] * shape.x[2];
            let rate = products as f64 / cycles as f64;
            let [x, w, y] = elements;
            println!("| {layer} | {x} | {w} | {y} | {rate:.3} | {cycles} |");
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = arguments.iter().any(|argument| argument == "--check");
    let elf = arguments.iter().position(|argument| argument == "--elf");
    let elf = elf.map(|at| PathBuf::from(arguments.get(at + 1).expect("--elf needs a folder")));
    if let Some(elf) = &elf {
        std::fs::create_dir_all(elf).expect("a folder for the programs");
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xpulp_kernels");
    let folders = Folders { own, elf };
    let mut random = Random(27);
    let cases: Vec<Case> = combinations()
        .into_iter()
        .map(|elements| convolution(&Shape::reference(), elements, false, true, &mut random))
        .collect();
    let shared = simulate(&folders.own.join("eight"), &cases, true);
    println!(
        "RI5CY, one core, ideal memory; MAC a cycle. PULP-NN: its code, measured on the RTL of RI5CY with 8-bit operands and results.\n"
    );
    println!("| x | w | y | inner loop | PULP-NN | layer | PULP-NN | cycles | 8 cores |");
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    for (elements, (case, shared)) in combinations().into_iter().zip(cases.iter().zip(&shared)) {
        let [x, w, y] = elements;
        let round = innermost(case);
        let bound = BOUNDS.iter().find(|bound| bound.weights == w).expect("all weights are known");
        let inner = round.products as f64 / round.cycles as f64;
        let Measured { cycles, .. } = folders.measure(&name("conv", elements), case);
        let layer = PRODUCTS / cycles as f64;
        let eight = PRODUCTS / shared.parallel_cycles as f64;
        let [pulp_inner, pulp_layer] = bound.pulp_nn;
        println!(
            "| {x} | {w} | {y} | {inner:.3} | {pulp_inner:.3} | {layer:.3} | {pulp_layer:.3} | {cycles} | {eight:.2} |"
        );
        for (found, least) in [inner, layer, eight].into_iter().zip(bound.least) {
            if found < least {
                missed.push(format!("{x} {w} {y}: {found:.3} is below {least}"));
            }
        }
    }
    further(&folders, &mut random);
    if check && !missed.is_empty() {
        eprintln!("{}", missed.join("\n"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
