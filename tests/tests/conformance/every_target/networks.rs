//! Whole networks, launch by launch: what training steps and inference leave equals the interpreter's on every target.

use std::path::Path;

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::trained::FINE_TUNING;
use trainc_driver::verify::{ProgramCall, VerifyOptions, verify, verify_program};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::target::Target;
use trainc_ir::verify::Stage;
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::quantized::EightBit;
use trainc_tests::brevitas::{self, CASES, differences, interpreted, with_outputs};

use super::exceptions::{self, Network};
use super::{folder, side_by_side};

/// A network with its configuration.
struct Verified {
    network: Network,
    /// Whether its operations are those of another.
    again: bool,
    name: String,
    source: ModelSource,
    config: Config,
}

/// Images whose sizes, batches whose lengths and classes whose number are odd.
fn odd(model: &str) -> (ZooSpec, usize) {
    let (input, classes, batch) = match model {
        "lenet5" => ([1, 29, 33], 7, 3),
        "residual" => ([3, 13, 11], 5, 3),
        "digits" => ([1, 8, 8], 10, 3),
        _ => ([3, 15, 9], 11, 5),
    };
    (ZooSpec { input, classes, ..ZooSpec::new(model).expect("a model of the zoo") }, batch)
}

fn of_the_zoo(network: Network, again: bool, model: &str, algorithm: &str) -> Verified {
    let (spec, batch) = odd(model);
    let bytes = build(&spec).expect("the zoo builds");
    let config = Config { algorithm: algorithm.into(), batch: Some(batch), ..Config::default() };
    let source = ModelSource::Bytes { name: model.to_string(), bytes };
    Verified { network, again, name: format!("{model}-{algorithm}"), source, config }
}

/// A binary network that takes an image's bytes, its weights constants of bits.
fn binary() -> Verified {
    let spec = ZooSpec {
        input: [3, 17, 19],
        classes: 5,
        bytes: true,
        ..ZooSpec::new("lenet-binary").expect("a model of the zoo")
    };
    let bytes = build(&spec).expect("the zoo builds");
    Verified {
        network: Network::Trained,
        again: false,
        name: "lenet-binary".into(),
        source: ModelSource::Bytes { name: "lenet-binary".into(), bytes },
        config: Config {
            algorithm: "bnn-ste".into(),
            batch: Some(2),
            infer_batch: Some(2),
            freeze: vec!["*".into()],
            ..Config::default()
        },
    }
}

/// A network that knows MNIST, whole or from a layer on.
fn tuned(file: &str, train: Option<&str>) -> Verified {
    let path = format!("data/personalise/{file}.onnx");
    let config = Config {
        algorithm: FINE_TUNING.into(),
        batch: Some(3),
        train: train.iter().map(ToString::to_string).collect(),
        ..Config::default()
    };
    Verified {
        network: Network::Tuned,
        again: train.is_some(),
        name: format!("{file}-{}", train.unwrap_or("all")),
        source: ModelSource::File(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)),
        config,
    }
}

fn quantized(name: &str) -> Verified {
    let config = Config { algorithm: "quantized".into(), batch: Some(1), ..Config::default() };
    let source = ModelSource::File(brevitas::folder().join(format!("{name}.onnx")));
    Verified {
        network: Network::Packed,
        again: name != "mixed",
        name: name.to_string(),
        source,
        config,
    }
}

/// What is wrong with a network on a target.
fn failures(network: &Verified, target: &str) -> Vec<String> {
    let Some(steps) = exceptions::steps(target, network.network, network.again) else {
        return Vec::new();
    };
    let config = Config { target: target.into(), ..network.config.clone() };
    let session = Session::new(&network.source, &config, Entries::TrainAndInfer);
    let files = emit::artifact(&session.expect("compiles"), &[]).expect("emits");
    let name = format!("{}-{target}", network.name);
    let place = folder("networks").join(&name);
    let _ = std::fs::remove_dir_all(&place);
    emit::write_folder(&place, &files).expect("written");
    let mut failures = Vec::new();
    let builds = exceptions::builds(target, None).into_iter();
    for build in builds.filter(|build| build.every == 1 || !network.again) {
        let options = VerifyOptions {
            steps,
            seed: 3,
            // A second executable, with a hook before each launch; what is loaded of state and given back is compared in any
            // case.
            launches: target != "host" && !network.again,
            extremes: network.network != Network::Tuned,
            ..build.options()
        };
        let what = format!("{}, {name}, {}", network.name, build.name);
        match verify(&place, &options, &mut |_| {}) {
            Ok(report) => {
                assert!(report.finding.is_some() || report.elements > 0, "{what}: nothing");
                failures.extend(report.finding.map(|finding| format!("{what}: {finding}")));
            }
            Err(error) => {
                failures.push(format!("{what}: {}", trainc_driver::error::message(&error)));
            }
        }
    }
    failures
}

fn conform(networks: &[Verified]) {
    side_by_side(networks, |_, network, target| failures(network, target.description().name));
}

#[test]
fn fresh_networks_train() {
    conform(&[
        of_the_zoo(Network::Trained, true, "lenet5", "niti"),
        of_the_zoo(Network::Trained, false, "residual", "niti"),
        of_the_zoo(Network::Trained, false, "depthwise", "niti"),
        of_the_zoo(Network::Tuned, false, "digits", "fp32"),
    ]);
}

/// Whole, and the last layer alone: the first run example by example, and their weights are constants.
#[test]
fn trained_networks_are_tuned() {
    conform(&[
        tuned("lenet_torchscript", None),
        tuned("depthwise_torchscript_training", None),
        tuned("lenet_torchscript", Some("fc3")),
        tuned("depthwise_torchscript_training", Some("fc")),
    ]);
}

#[test]
fn binary_networks_infer() {
    conform(&[binary()]);
}

#[test]
fn quantized_networks_infer() {
    conform(&CASES.map(quantized));
}

/// The images that qonnx recorded: every integer of every layer, with the exact stages for 8 bits.
#[test]
fn recorded_images() {
    side_by_side(&CASES, |_, name, target| {
        match exceptions::steps(target.description().name, Network::Packed, *name != "mixed") {
            Some(_) => recorded(name, target),
            None => Vec::new(),
        }
    });
}

fn recorded(name: &str, target: &dyn Target) -> Vec<String> {
    let case = brevitas::Case::read(name);
    let recorded = case.recorded();
    let graph = with_outputs(&case.imported.graph, &recorded);
    let module = case.quantized(&graph, EightBit::Threshold).module;
    let quantized = Algorithm::built_in("quantized").expect("quantized");
    let stage = Stage::Quantized { float_operations: quantized.float_operations };
    let optimised = optimise(&module, &stage, target, &OptimiseOptions::default());
    let (optimised, _) = optimised.expect("optimises");
    let entries = [PlanEntry { name: "infer", graph: &optimised }];
    let (program, _) = plan("net", &entries, target, &PlanOptions::default()).expect("plans");
    let mut failures = Vec::new();
    // What the device computes is the interpreter's, which is then compared with the records.
    let mut on_device = |operands: &[Vec<_>]| {
        let call =
            |operands: &Vec<_>| ProgramCall { entry: 0, step: 0, operands: operands.clone() };
        let calls: Vec<ProgramCall> = operands.iter().map(call).collect();
        for build in exceptions::builds(target.description().name, None) {
            let what = format!("{name} on {}, {}", target.description().name, build.name);
            match verify_program(&program, target, &calls, &build.options()) {
                Ok(report) => {
                    failures.extend(report.findings.iter().map(|f| format!("{what}: {f}")));
                }
                Err(error) => failures.push(format!("{what}: {error}")),
            }
        }
        interpreted(&module, operands)
    };
    let all = differences(&case, &graph, &mut on_device);
    assert_eq!(all.len(), recorded.len(), "{name}");
    for (tensor, found) in all {
        if found.different != 0 || found.positions == 0 {
            failures.push(format!("{name}, `{tensor}`: {found:?}"));
        }
    }
    failures
}
