//! Packets that Hexagon's kernels take, by the emulator's counter: VGG-11's convolutions of 64 channels and more, batch 4.
//!
//! `cargo run --release -p trainc-tests --example hvx_packets -- [phases]`

use std::path::Path;

use trainc_tests::hexagon_convolution::{Checked, ConvolutionCase, Fill};

fn main() {
    let phases = std::env::args().any(|a| a == "phases");
    let filter = std::env::args().nth(2);
    let layers =
        [(64, 128, 16), (128, 256, 8), (256, 256, 8), (256, 512, 4), (512, 512, 4), (512, 512, 2)];
    println!(
        "{:20} {:9} {:>9} {:>12} {:>9} {:>9}",
        "layer", "pass", "packets", "MACs/packet", "no pads", "packing"
    );
    for (channels, features, size) in layers {
        let name = format!("{channels}->{features} @{size}x{size}");
        if filter.as_ref().is_some_and(|f| !name.starts_with(f.as_str())) {
            continue;
        }
        let case = ConvolutionCase::same(4, channels, features, size);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tmp/hvx_packets");
        let folder = |pass: &str| folder.join(format!("{channels}_{features}_{size}_{pass}"));
        for (pass, checked) in [
            ("forward", case.check(&folder("forward"), false, Fill::Random, -127)),
            ("error", case.check(&folder("error"), true, Fill::Random, -127)),
            ("weight", case.check_weight_gradient(&folder("weight"), Fill::Random, 5)),
        ] {
            line(&name, pass, &checked, phases);
        }
    }
}

fn line(name: &str, pass: &str, checked: &Checked, phases: bool) {
    let packets = checked.kernel_packets();
    let rate = |multiplications: usize| multiplications as f64 / f64::from(packets);
    let [nominal, inside] = checked.multiplications;
    println!(
        "{name:20} {pass:9} {packets:9} {:12.1} {:9.1} {:9}{}",
        rate(nominal),
        rate(inside),
        checked.packets[0].1,
        checked.difference.as_ref().map(|d| format!("  WRONG: {d}")).unwrap_or_default()
    );
    if phases {
        for (phase, packets) in &checked.packets {
            println!("    {phase:20} {packets:9}");
        }
    }
}
