//! Packets that Hexagon's kernels take, by the emulator's counter: VGG-11's convolutions of 64 channels and more, batch
//! 4, whole kernels but for the packing of weights. `clang` adds the MACs a packet of the same loops (of 32 to 16
//! channels; of the weight gradient the sums alone) in C by clang-19, `phases` the parts of each kernel, `static` takes shifts
//! known ahead instead of those by the largest magnitude; other words choose layers by their names' start.
//!
//! `cargo run --release -p trainc-tests --example hvx_packets -- clang`

use std::path::Path;

use trainc_hvx::kernels::StaticShift;
use trainc_ir::Op;
use trainc_ir::numeric::Rounding;
use trainc_tests::hexagon_clang::clang_packets;
use trainc_tests::hexagon_convolution::{Checked, ConvolutionCase, Fill};

/// Channels, features, height and width.
const LAYERS: [(usize, usize, usize); 6] =
    [(64, 128, 16), (128, 256, 8), (256, 256, 8), (256, 512, 4), (512, 512, 4), (512, 512, 2)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let (phases, clang, known) = (has("phases"), has("clang"), has("static"));
    let chosen: Vec<&String> =
        arguments.iter().filter(|a| !["phases", "clang", "static"].contains(&a.as_str())).collect();
    println!(
        "{:18} {:8} {:>9} {:>12} {:>12} {:>14} {:>12}",
        "layer", "pass", "packets", "MACs/packet", "without pads", "weight packing", "clang-19"
    );
    if clang {
        println!(
            "clang-19: 32 to 16 channels of the same maps; weight gradients without their rounding"
        );
    }
    for (channels, features, size) in LAYERS {
        let name = format!("{channels}->{features} @{size}x{size}");
        if !chosen.is_empty() && !chosen.iter().any(|c| name.starts_with(c.as_str())) {
            continue;
        }
        let case = ConvolutionCase::same(4, channels, features, size);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tmp/hvx_packets");
        let folder =
            |pass: &str| folder.join(format!("{channels}_{features}_{size}_{pass}_{known}"));
        let passes = ["forward", "error", "weight"];
        // The rate of plain loops does not grow with the channels: a part of them is enough.
        let small = ConvolutionCase::same(4, 32, 16, size);
        let multiplications = small.forward_product().multiplications();
        for (pass, (op, inputs, output)) in passes.into_iter().zip(small.operations()) {
            let shift = |rounding| StaticShift { amount: 9, rounding };
            let checked = match pass {
                "weight" if known => {
                    let shift = shift(Rounding::PseudoStochastic);
                    case.check_weight_gradient_shift(&folder(pass), Fill::Random, shift)
                }
                _ if known => {
                    let shift = shift(Rounding::HalfAway);
                    case.check_shift(&folder(pass), pass == "error", Fill::Random, shift)
                }
                "weight" => case.check_weight_gradient(&folder(pass), Fill::Random, 5),
                _ => case.check(&folder(pass), pass == "error", Fill::Random, -127),
            };
            let mut inputs: Vec<_> = inputs.iter().collect();
            let (mut op, mut outputs) = (op, vec![output]);
            // clang-19 does not end where it is to vectorise the rounding in 64 bits: the sums alone, in its favour.
            if let ("weight", Op::Chain(chain)) = (pass, &op) {
                inputs.truncate(2);
                op = chain.ops[0].clone();
                outputs = op.infer(&inputs).expect("types");
            }
            let plain = clang.then(|| {
                let folder = folder("clang").join(pass);
                let outputs: Vec<_> = outputs.iter().collect();
                let packets = clang_packets(&folder, &op, &inputs, &outputs);
                multiplications as f64 / f64::from(packets)
            });
            line(&name, pass, &checked, plain, phases);
        }
    }
}

fn line(name: &str, pass: &str, checked: &Checked, clang: Option<f64>, phases: bool) {
    let [nominal, inside] = checked.multiplications;
    let rate = |multiplications: usize, packets: u32| {
        format!("{:.1}", multiplications as f64 / f64::from(packets))
    };
    let packets = checked.kernel_packets();
    println!(
        "{name:18} {pass:8} {packets:9} {:>12} {:>12} {:14} {:>12}{}",
        rate(nominal, packets),
        rate(inside, packets),
        checked.packets[0].1,
        clang.map(|rate| format!("{rate:.1}")).unwrap_or_default(),
        checked.difference.as_ref().map(|d| format!("  WRONG: {d}")).unwrap_or_default()
    );
    if phases {
        for (phase, packets) in &checked.packets {
            println!("    {phase:24} {packets:9}");
        }
    }
}
