//! What chosen kernels cost on each target, for reviewers: `golden/budget/*.snap`. Counts are exact: of the simulator, of the
//! emulator's packet counter, of the compilers that `tests/run` installs on Debian 12.
//!
//! `INSTA_UPDATE=always cargo test -p trainc-tests --test budget` rewrites them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_driver::bench::{BenchLaunch, BenchOptions, Subject, bench};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::targets::TARGETS;
use trainc_driver::verify::{Cost, LaunchCost, ProgramCall, VerifyOptions, verify_program};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_hvx::kernels::StaticShift;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    BatchNorm, BinaryConv2d, Chain, Conv2d, IntegerAdd, IntegerMaxPool2d, IntegerSumPool2d, MatMul,
    ProductRole, ScaleShift, Threshold,
};
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::{Element, Op, Tensor, TensorType, Verified};
use trainc_tests::cases::{self, Case, Place};
use trainc_tests::hexagon_convolution::{ConvolutionCase, Fill};
use trainc_tests::programs::{operand, program};
use trainc_tests::random::Random;
use trainc_tests::xpulp_convolutions::{Shape, combinations, convolution, tensor};
use trainc_tests::xpulp_kernels::simulate_loops;
use trainc_xpulpv2::XPULPV2;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budget").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../golden/budget");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// LeNet-5's training step by NITI at batch 4.
fn lenet5(target: &dyn Target) -> Verified<Program> {
    program("lenet5", "niti", 4, target)
}

fn row(table: &mut String, name: &str, numbers: &[u64]) {
    let numbers: String = numbers.iter().map(|number| format!(" {number:>12}")).collect();
    let _ = writeln!(table, "{name:72}{numbers}");
}

/// Instructions and cycles of one core, cycles of eight.
fn counts(costs: &[Cost]) -> [u64; 3] {
    [costs[0].instructions, costs[0].cycles, costs[1].cycles]
}

#[test]
fn xpulpv2_training_step() {
    let program = lenet5(&XPULPV2);
    let mut random = Random(5);
    let entry = program.entries.iter().position(|e| e.name == "train_step").expect("it trains");
    let operands = program.entries[entry].inputs.iter();
    let operands =
        operands.map(|a| operand(&program.buffer(a.buffer).ty, a.role, 10, &mut random)).collect();
    let calls = [ProgramCall { entry, step: 0, operands }];
    let report = verify_program(&program, &XPULPV2, &calls, &VerifyOptions::default());
    let report = report.expect("builds and runs");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let mut table = format!("{:72}{:>13}{:>13}{:>13}\n", "", "instructions", "cycles", "8 cores");
    let mut total = [0; 3];
    for LaunchCost { node, kernel, costs, .. } in &report.launches {
        let counts = counts(costs);
        total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        row(&mut table, &format!("{node}: {kernel}"), &counts);
        // Rewrites are chosen by estimates.
        let selection = &program.kernels.iter().find(|k| k.name == *kernel).expect("it").selection;
        let estimate = selection.cost().cycles().unwrap_or(0);
        if selection.name() == "products of words" && counts[1] > 50_000 {
            let ratio = estimate as f64 / counts[1] as f64;
            assert!((0.75..=1.25).contains(&ratio), "{kernel}: {estimate}, counted {}", counts[1]);
        }
    }
    row(&mut table, "all", &total);
    snapshot("xpulpv2_lenet5_niti_4", &table);
}

/// An output stage for sums of some size, and its operands: a scale and a shift at 8 bits, else thresholds.
fn stage(element: Element, most: i64, random: &mut Random) -> (Op, Vec<Tensor>) {
    let (low, high) = element.integer_range().expect("an integer");
    let low_word = low as i32;
    if element.bits() == 8 {
        let mut vector = |low: i64, high: i64| {
            Tensor::i32([32], (0..32).map(|_| random.between(low, high) as i32).collect())
        };
        let scale = (1 << 20) / most;
        let operands = vec![vector(-scale, scale), vector(-(60 << 12), 200 << 12)];
        return (
            ScaleShift { shift: 12, low: low_word, high: high as i32, element }.into(),
            operands,
        );
    }
    let levels = (high - low) as usize;
    let mut rows: Vec<i32> = (0..32 * levels).map(|_| random.between(-most, most) as i32).collect();
    rows.chunks_exact_mut(levels).for_each(<[i32]>::sort_unstable);
    (Threshold { low: low_word, element }.into(), vec![Tensor::i32([32, levels], rows)])
}

/// Additions, pools and depthwise convolutions of packed integers, 16x16x32.
fn packed() -> Vec<Case> {
    let mut random = Random(61);
    let x = [1, 16, 16, 32];
    let mut cases = Vec::new();
    for element in [Element::U8, Element::U4, Element::U2] {
        let mut case = |name: &str, op: Op, operands: usize, staged: bool| {
            let mut inputs: Vec<Tensor> =
                (0..operands).map(|_| tensor(&x, element, &mut random)).collect();
            let op = match staged {
                true => {
                    let (stage, operands) = stage(element, 1000, &mut random);
                    inputs.extend(operands);
                    Chain { ops: vec![op, stage] }.into()
                }
                false => op,
            };
            let what = name.replace("%", &element.to_string());
            cases.push(Case { what, op, inputs, constant: false });
        };
        let add = Op::from(IntegerAdd { factors: [77, -13] });
        case("add %", add.clone(), 2, true);
        case("add %, sums", add, 2, false);
        for (name, size) in [("sum pool 2x2 %", 2), ("sum pool global %", 16)] {
            let [kernel, strides] = [[size; 2]; 2];
            let pool = IntegerSumPool2d { kernel, strides, pads: [0; 4], padding: 0 };
            case(name, pool.into(), 1, true);
        }
        let pool = IntegerMaxPool2d { kernel: [2; 2], strides: [2; 2], pads: [0; 4] };
        case("max pool 2x2 %", pool.into(), 1, false);
        let layer = Shape { groups: 32, ..Shape::three(x, 32) };
        let elements = [element, Element::I8, element];
        let depthwise = convolution(&layer, elements, false, true, &mut random);
        cases.push(Case { what: format!("depthwise 3x3 {element}"), ..depthwise });
    }
    cases
}

/// A line for each case: what is counted, and what the target's cost says, which must be near.
fn packed_costs(cases: &[Case], nearness: f64, table: &mut String) -> Vec<u64> {
    let mut cycles = Vec::new();
    // Some in one program; many would be long to compile.
    for cases in cases.chunks(9) {
        let placed: Vec<_> = cases.iter().map(|case| case.placed(Place::Arena)).collect();
        let report = cases::run(&XPULPV2, &placed, &VerifyOptions::default());
        let report = report.unwrap_or_else(|e| panic!("{e}"));
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        for (n, case) in cases.iter().enumerate() {
            let mut launches = report.launches.iter();
            let launch = launches.find(|l| l.entry == format!("case_{n}") && l.node == "node");
            let counts = counts(&launch.expect("it is launched").costs);
            let inputs: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
            let kernel = trainc_tests::kernels::kernel(&XPULPV2, &case.what, &case.op, &inputs);
            let estimate = kernel.selection.cost().cycles().expect("it runs");
            row(table, &case.what, &[&counts[..], &[estimate]].concat());
            let off = (estimate as f64 / counts[1] as f64 - 1.0).abs();
            assert!(off < nearness, "{}: estimate {estimate} of {counts:?}", case.what);
            cycles.push(counts[1]);
        }
    }
    cycles
}

/// The layer that PULP-NN is measured on in all 27 combinations, and what stands between such layers, beside loops.
#[test]
fn xpulpv2_packed_kernels() {
    let mut random = Random(27);
    let convolutions: Vec<Case> = combinations()
        .into_iter()
        .map(|elements| {
            let [x, w, y] = elements;
            let case = convolution(&Shape::reference(), elements, false, true, &mut random);
            Case { what: format!("conv 3x3 16x16x32 to 64, {x} {w} {y}"), ..case }
        })
        .collect();
    let mut table = format!(
        "{:72}{:>13}{:>13}{:>13}{:>13}\n",
        "", "instructions", "cycles", "8 cores", "estimate"
    );
    packed_costs(&convolutions, 0.02, &mut table);
    let packed = packed();
    let own = packed_costs(&packed, 0.2, &mut table);
    let loops = simulate_loops(&folder("loops"), &packed);
    let _ = writeln!(table, "\n{:72}{:>13}{:>13}", "", "loops", "own");
    for ((case, own), loops) in packed.iter().zip(own).zip(loops) {
        row(&mut table, &case.what, &[loops.cycles, own]);
        assert!(own < loops.cycles, "{}: {own} of {loops:?}", case.what);
    }
    snapshot("xpulpv2_packed", &table);
}

/// Products of bits, by the kernel of their own and by loops where pixels are no words, and what binary networks compute in FP32
/// around them, which this core does by functions.
fn bits_and_floats() -> Vec<Case> {
    let mut random = Random(63);
    let mut cases = Vec::new();
    for (stored, features, window, staged) in
        [(64, 64, 3, true), (128, 32, 3, false), (256, 40, 1, true), (48, 16, 3, false)]
    {
        let x = tensor(&[1, 8, 8, stored], Element::B1, &mut random);
        let w = tensor(&[features, window, window, stored], Element::B1, &mut random);
        let product = BinaryConv2d {
            strides: [1, 1],
            pads: [window / 2; 4],
            dilations: [1, 1],
            groups: 1,
            padding: 0,
            channels: stored,
        };
        let (mut inputs, mut ops) = (vec![x, w], vec![Op::from(product)]);
        if staged {
            ops.push(Threshold { low: 0, element: Element::B1 }.into());
            let rows = (0..features).map(|_| random.between(-20, 20) as i32).collect();
            inputs.push(Tensor::i32([features, 1], rows));
        }
        let what = format!("bits {window}x{window}, 8x8x{stored} to {features}");
        let op = if staged { Chain { ops }.into() } else { ops.remove(0) };
        cases.push(Case { what, op, inputs, constant: false });
    }
    let mut floats = |shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        Tensor::f32(shape, (0..count).map(|_| random.between(1, 2000) as f32 / 512.0).collect())
    };
    let (x, w, rows) = (floats(&[1, 3, 12, 12]), floats(&[8, 3, 3, 3]), floats(&[10, 64]));
    let conv = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
    let norm = BatchNorm { epsilon: 1e-5.into(), batch: false };
    let mut normed = vec![floats(&[1, 8, 12, 12])];
    normed.extend((0..4).map(|_| floats(&[8])));
    let linear = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    for (what, op, inputs) in [
        ("FP32 conv 3x3, 12x12x3 to 8", Op::from(conv), vec![x, w]),
        ("FP32 batch norm, 12x12x8", norm.into(), normed),
        ("FP32 linear, 64 to 10", linear.into(), vec![floats(&[1, 64]), rows]),
    ] {
        cases.push(Case { what: what.into(), op, inputs, constant: false });
    }
    cases
}

#[test]
fn xpulpv2_bits_and_floats() {
    let mut table = format!(
        "{:72}{:>13}{:>13}{:>13}{:>13}\n",
        "", "instructions", "cycles", "8 cores", "estimate"
    );
    packed_costs(&bits_and_floats(), 0.25, &mut table);
    snapshot("xpulpv2_bits", &table);
}

/// Packets that kernels of a training step are written in, and values in the frame for want of registers.
#[test]
fn hexagon_training_step() {
    let files = trainc_hvx::HVX.emit(&lenet5(&trainc_hvx::HVX)).expect("emits");
    let file = files.iter().find(|f| f.name == "lenet5_kernels.S").expect("kernels");
    let text = String::from_utf8(file.contents.clone()).expect("text");
    let mut table = format!("{:72}{:>13}{:>13}\n", "", "packets", "spills");
    let (mut spills, mut kernel) = (0, None::<(String, u64, u64)>);
    for line in text.lines().chain(["    .globl "]) {
        if let Some(said) =
            line.strip_prefix("// Values that live in the frame for want of registers: ")
        {
            spills = said.trim_end_matches('.').parse().expect("a number");
        } else if let Some(name) =
            line.trim().strip_prefix(".globl ").or(line.strip_prefix("    .globl"))
        {
            if let Some((name, packets, spills)) = kernel.replace((name.into(), 0, spills)) {
                row(&mut table, &name, &[packets, spills]);
            }
            spills = 0;
        } else if let (true, Some((_, packets, _))) = (line.trim().starts_with('{'), &mut kernel) {
            *packets += 1;
        }
    }
    snapshot("hvx_lenet5_niti_4", &table);
}

/// Packets that products take: packing the weights, the three passes, and two of them with shifts known ahead.
#[test]
fn hexagon_products() {
    let mut table = format!(
        "{:72}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}\n",
        "", "packing", "forward", "error", "weight", "forward >>", "weight >>"
    );
    let shapes = [(64, 128, 8), (256, 256, 4), (128, 128, 2), (256, 256, 2), (3, 32, 16)];
    for (channels, features, size) in shapes {
        let case = ConvolutionCase::same(4, channels, features, size);
        let name = format!("{channels} to {features}, {size}x{size}, batch 4");
        let folder = folder(&name.replace([' ', ','], "_"));
        let shift = |rounding| StaticShift { amount: 9, rounding };
        let (away, pseudo) = (shift(Rounding::HalfAway), shift(Rounding::PseudoStochastic));
        let checked = [
            case.check(&folder.join("forward"), false, Fill::Random, -127),
            case.check(&folder.join("error"), true, Fill::Random, -127),
            case.check_weight_gradient(&folder.join("weight"), Fill::Random, 5),
            case.check_shift(&folder.join("forward_shift"), false, Fill::Random, away),
            case.check_weight_gradient_shift(&folder.join("weight_shift"), Fill::Random, pseudo),
        ];
        let packing = u64::from(checked[0].packets[0].1);
        let packets = checked.map(|checked| {
            assert_eq!(checked.difference, None, "{name}");
            u64::from(checked.kernel_packets())
        });
        row(&mut table, &name, &[&[packing], &packets[..]].concat());
    }
    snapshot("hvx_products", &table);
}

/// Bytes of a training step's code, the runtime without, as each target's compiler makes them.
#[test]
fn bytes_of_code() {
    let mut table = format!("{:72}{:>13}\n", "", "bytes");
    for target in TARGETS {
        let name = target.description().name;
        // An object holds constants and state, too; later versions of Hexagon have the same kernels, and so has a processor
        // beside a DSP.
        if matches!(name, "host" | "hvx+v68" | "hvx+v73" | "neon+hvx") {
            continue;
        }
        let program = lenet5(*target);
        let (toolchain, harness) = (target.toolchain(), target.harness(&program).expect("emits"));
        let (toolchain, harness) = (toolchain.expect("tools"), harness.expect("a harness"));
        let folder = folder(name);
        for file in target.emit(&program).expect("emits") {
            std::fs::write(folder.join(&file.name), &file.contents).expect("written");
        }
        for (file, text) in &harness.support {
            std::fs::write(folder.join(file), text).expect("written");
        }
        let compiler = &toolchain.compilers[0];
        let size = match compiler.command.as_str() {
            "cc" => "size".to_string(),
            "clang-19" => "llvm-size-19".to_string(),
            cross => format!("{}size", cross.trim_end_matches("gcc")),
        };
        let mut bytes = 0;
        for source in harness.sources.iter().filter(|s| s.ends_with(".c") || s.ends_with(".S")) {
            if source.contains("_data") || source.contains("trainc_") {
                continue;
            }
            run(Command::new(&compiler.command)
                .current_dir(&folder)
                .args(compiler.arguments.iter().filter(|a| !a.starts_with("-Wl,")))
                .args(["-Wno-unused-command-line-argument", "-I.", "-c", "-o", "code.o", source]));
            let said = run(Command::new(&size).current_dir(&folder).args(["-A", "code.o"]));
            for line in said.lines().filter(|line| line.starts_with(".text")) {
                let number = line.split_whitespace().nth(1).expect("a size");
                bytes += number.parse::<u64>().expect("a number");
            }
        }
        row(&mut table, name, &[bytes]);
    }
    snapshot("code_lenet5_niti_4", &table);
}

/// What a command prints; it must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What every launch of a training step executes, beside its estimate: HVX packets, NEON instructions.
#[test]
fn executed_training_steps() {
    let spec = ZooSpec::new("lenet5").expect("in the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "lenet5".to_string(), bytes };
    for (target, algorithm, unit) in [
        ("hvx", "niti", "packets"),
        ("hvx", "mls", "packets"),
        ("neon+dotprod", "niti", "instructions"),
        ("neon", "fp32", "instructions"),
        ("neon", "mls", "instructions"),
    ] {
        let config = Config {
            target: target.to_string(),
            algorithm: algorithm.to_string(),
            batch: Some(4),
            ..Config::default()
        };
        let report =
            bench(&Subject::Model(&source, &config), &BenchOptions::default(), &mut |_| {});
        let (report, _) = report.unwrap_or_else(|e| panic!("{target}: {e:#}"));
        assert_eq!(report.unit, unit);
        let mut table = format!("{:72}{:>13}{:>13}{:>13}\n", "", "MAC", unit, "estimate");
        for launch in &report.launches {
            let name = format!("{}: {}", launch.node, launch.kernel);
            row(&mut table, &name, &[launch.macs, launch.units, launch.estimate.unwrap_or(0)]);
            // Launches of some size: estimates choose their kernels. Hexagon's, made of its packets, are nearer.
            let bounds = match target {
                // Products of floats are loops.
                "hvx" if algorithm == "mls" && !launch.kernel.starts_with("grouped_product_") => {
                    None
                }
                "hvx" if launch.macs > 0 => Some(0.8..=1.25),
                "hvx" => None,
                _ if launch.macs > 0 => Some(0.5..=2.0),
                _ => Some(1.0 / 3.0..=3.0),
            };
            if let Some(bounds) =
                bounds.filter(|_| launch.units >= if target == "hvx" { 1_000 } else { 20_000 })
            {
                let ratio = launch.estimate.unwrap_or(0) as f64 / launch.units as f64;
                assert!(
                    bounds.contains(&ratio),
                    "{name}: {} {unit}, {:?} estimated",
                    launch.units,
                    launch.estimate
                );
            }
        }
        row(&mut table, "all", &[report.macs, report.units]);
        for (what, bytes) in [
            ("bytes of code", report.code_bytes.unwrap_or(0)),
            ("bytes of tables", report.table_bytes.unwrap_or(0)),
            ("bytes of arena", report.arena_bytes as u64),
        ] {
            row(&mut table, what, &[bytes]);
        }
        let target = target.replace('+', "_");
        snapshot(&format!("{target}_lenet5_{algorithm}_4_executed"), &table);
    }
}

/// Asserts that what launches take on NEON with `sdot` and with `smmla` is within a quarter of their estimates, and returns how many
/// those were.
fn near_estimates(spec: &ZooSpec, batch: usize, counts: impl Fn(&BenchLaunch) -> bool) -> usize {
    let ZooSpec { name, input, .. } = spec;
    let bytes = build(spec).expect("the zoo builds");
    let source = ModelSource::Bytes { name: name.clone(), bytes };
    let mut checked = 0;
    for target in ["neon+dotprod", "neon+i8mm"] {
        let config = Config { target: target.to_string(), batch: Some(batch), ..Config::default() };
        let report =
            bench(&Subject::Model(&source, &config), &BenchOptions::default(), &mut |_| {});
        let (report, _) = report.unwrap_or_else(|e| panic!("{target}: {e:#}"));
        for launch in report.launches.iter().filter(|launch| counts(launch)) {
            let ratio = launch.estimate.unwrap_or(0) as f64 / launch.units as f64;
            assert!(
                (0.75..=1.25).contains(&ratio),
                "{target}, {name} of {input:?} at batch {batch}, {}: {} instructions, {:?} estimated",
                launch.node,
                launch.units,
                launch.estimate
            );
            checked += 1;
        }
    }
    checked
}

/// First layers of few channels on NEON: rewrites and ways are chosen by what forward products and errors are said to take, which must
/// be near what they execute, whatever the batch.
#[test]
fn neon_first_layers_are_near_their_estimates() {
    let mut checked = 0;
    for (input, batch) in [([1, 28, 28], 1), ([1, 28, 28], 8), ([2, 24, 36], 2), ([5, 20, 20], 1)] {
        let spec = ZooSpec { input, ..ZooSpec::new("lenet5").expect("in the zoo") };
        let kernels = ["conv2d_requantize_", "conv2d_gradient_input_"];
        checked += near_estimates(&spec, batch, |launch| {
            kernels.iter().any(|kernel| launch.kernel.starts_with(kernel))
        });
    }
    assert_eq!(checked, 24);
}

/// Attention on NEON, whose matrices each have their own: kernels or loops are chosen by what these are said to take.
#[test]
fn neon_matrices_by_their_own_are_near_their_estimates() {
    let mut checked = 0;
    for (input, batch) in [([1, 40, 24], 2), ([1, 64, 16], 1)] {
        let spec = ZooSpec { input, ..ZooSpec::new("encoder").expect("in the zoo") };
        checked += near_estimates(&spec, batch, |launch| {
            let attention = launch.node.contains("scores") || launch.node.contains("mixed");
            attention && launch.macs > 0 && launch.implementation == "products in panels"
        });
    }
    assert_eq!(checked, 48);
}
