//! Whole training steps of networks on devices, under an emulator: every weight, exponent, loss and output equal to the
//! reference interpreter's, bit for bit. Fresh networks by NITI, twenty steps (ten on Hexagon) at sizes that no vector width
//! divides; trained ones by the algorithm that keeps what they know, two steps, whole and from their last layer on.

use std::path::{Path, PathBuf};

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::trained::FINE_TUNING;
use trainc_driver::verify::{VerifyOptions, verify};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_tests::on_device::NATIVE;

const STEPS: u32 = 20;
/// On Hexagon.
const HEXAGON_STEPS: u32 = 10;

/// In the simulator of RISC-V.
const SIMULATED_STEPS: u32 = 5;

/// Of trained networks.
const TUNING_STEPS: u32 = 2;

/// Images whose sizes, batches whose lengths and classes whose number are odd.
fn odd(model: &str) -> (ZooSpec, usize) {
    let (input, classes, batch) = match model {
        "lenet5" => ([1, 29, 33], 7, 3),
        "residual" => ([3, 13, 11], 5, 3),
        _ => ([3, 15, 9], 11, 5),
    };
    (ZooSpec { input, classes, ..ZooSpec::new(model).expect("a model of the zoo") }, batch)
}

fn artifact(model: &str, target: &str) -> PathBuf {
    let (spec, batch) = odd(model);
    let bytes = build(&spec).expect("the zoo builds");
    let source = ModelSource::Bytes { name: model.to_string(), bytes };
    let config = Config { target: target.into(), batch: Some(batch), ..Config::default() };
    compiled(&format!("{model}-{target}"), &source, &config)
}

fn compiled(name: &str, source: &ModelSource, config: &Config) -> PathBuf {
    let session = Session::new(source, config, Entries::TrainAndInfer);
    let files = emit::artifact(&session.expect("compiles"), &[]).expect("emits");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device_networks");
    std::fs::create_dir_all(&folder).expect("a folder");
    let folder = folder.join(name);
    let _ = std::fs::remove_dir_all(&folder);
    emit::write_folder(&folder, &files).expect("written");
    folder
}

fn verified(model: &str, targets: &[&str], steps: u32) {
    for target in targets {
        let folder = artifact(model, target);
        let options = VerifyOptions { steps, seed: 3, launches: true, ..VerifyOptions::default() };
        let report = verify(&folder, &options, &mut |_| {}).expect("builds and runs");
        assert!(report.bit_exact, "{model} on {target}: {:#?}", report.finding);
        assert_eq!(report.steps, steps);
        assert!(report.elements > 0);
    }
}

/// Steps on networks that know MNIST, of all layers or of those that are named.
fn tuned(targets: &[&str], layers: [Option<&str>; 2]) {
    let networks = ["lenet_torchscript", "depthwise_torchscript_training"];
    for (network, train) in networks.into_iter().zip(layers) {
        let file = format!("data/personalise/{network}.onnx");
        let source = ModelSource::File(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        for target in targets {
            let config = Config {
                algorithm: FINE_TUNING.into(),
                target: (*target).into(),
                batch: Some(3),
                train: train.iter().map(ToString::to_string).collect(),
                ..Config::default()
            };
            let folder = compiled(
                &format!("{network}-{target}-{}", train.unwrap_or("all")),
                &source,
                &config,
            );
            let options = VerifyOptions {
                steps: TUNING_STEPS,
                seed: 3,
                extremes: false,
                counts: false,
                ..VerifyOptions::default()
            };
            let report = verify(&folder, &options, &mut |_| {}).expect("builds and runs");
            assert!(report.bit_exact, "{network} on {target}: {:#?}", report.finding);
            assert_eq!(report.steps, TUNING_STEPS);
        }
    }
}

#[test]
fn tuning_on_neon() {
    tuned(&["neon", "neon+i8mm", "armv7-neon"], [None, None]);
}

#[test]
fn tuning_on_xpulpv2() {
    tuned(&["xpulpv2"], [None, None]);
}

/// The first layers are frozen: they run example by example, and their weights are constants.
#[test]
fn tuning_the_last_layer() {
    tuned(&["hvx", "neon+dotprod"], [Some("fc3"), Some("fc")]);
}

/// One artifact for every AArch64 processor: what each has is found when it runs.
#[test]
fn dispatch_at_run_time() {
    let folder = artifact("lenet5", "neon+dispatch");
    for processor in ["cortex-a53", "cortex-a76", "max"] {
        let runner = Some(format!("qemu-aarch64 -cpu {processor}"));
        let options = VerifyOptions { launches: true, runner, ..VerifyOptions::default() };
        let report = verify(&folder, &options, &mut |_| {}).expect("builds and runs");
        assert!(report.bit_exact, "{processor}: {:#?}", report.finding);
    }
}

#[test]
fn lenet5() {
    verified("lenet5", &["neon", "neon+dotprod", "neon+i8mm", "armv7-neon"], STEPS);
}

#[test]
fn residual() {
    verified("residual", &["neon", "neon+dotprod", "neon+i8mm"], STEPS);
}

#[test]
fn depthwise() {
    verified("depthwise", &["neon", "neon+dotprod", "neon+i8mm"], STEPS);
}

#[test]
fn hexagon() {
    for model in ["lenet5", "residual", "depthwise"] {
        verified(model, &["hvx"], HEXAGON_STEPS);
    }
    verified("lenet5", &["hvx+v62", "hvx+v68", "hvx+v73"], HEXAGON_STEPS);
}

/// RISC-V with XpulpV2, in the simulator; then the same sources in their portable form, on this machine.
#[test]
fn xpulpv2() {
    for model in ["lenet5", "residual", "depthwise"] {
        let folder = artifact(model, "xpulpv2");
        let script = folder.with_extension("sh");
        std::fs::write(&script, NATIVE).expect("written");
        let native = (Some(format!("sh {}", script.display())), Some("env".to_string()));
        for (compiler, runner) in [(None, None), native] {
            let options = VerifyOptions {
                steps: SIMULATED_STEPS,
                seed: 3,
                launches: true,
                compiler,
                runner,
                ..VerifyOptions::default()
            };
            let report = verify(&folder, &options, &mut |_| {}).expect("builds and runs");
            assert!(report.bit_exact, "{model}, {}: {:#?}", report.compiler, report.finding);
            assert_eq!(report.steps, SIMULATED_STEPS);
        }
    }
}
