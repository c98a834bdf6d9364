//! Quantized networks of Brevitas on devices: what the driver emits, launch by launch against the interpreter; and the recorded
//! images, every integer of every layer against the interpreter's and qonnx's own.

use std::path::{Path, PathBuf};

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::verify::{VerifyOptions, verify};
use trainc_ir::target::Target;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::verify::Stage;
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::quantized::EightBit;
use trainc_tests::brevitas::{self, CASES, Case, differences, interpreted, with_outputs};
use trainc_tests::on_device::{NATIVE, Tools, run};

/// Networks of [`CASES`] that are no variants of one another.
const DISTINCT: [&str; 3] = ["mixed", "bipolar_trunc", "affine"];

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quantized_networks").join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// The portable form of XpulpV2's sources on this machine, under sanitizers.
fn native() -> Tools {
    let script = folder("native").join("compiler.sh");
    std::fs::write(&script, NATIVE).expect("written");
    let script = script.display().to_string();
    Tools { compiler: Some(vec!["sh".into(), script]), runner: Some("env".into()) }
}

/// The artifact that `trainc compile --algorithm quantized` writes.
fn artifact(name: &str, target: &str) -> PathBuf {
    let source = ModelSource::File(brevitas::folder().join(format!("{name}.onnx")));
    let config = Config {
        algorithm: "quantized".into(),
        target: target.into(),
        batch: Some(1),
        ..Config::default()
    };
    let session = Session::new(&source, &config, Entries::TrainAndInfer);
    let session = session.expect("compiles");
    let files = emit::artifact(&session, &[]).expect("emits");
    let folder = folder("artifacts").join(format!("{name}-{target}"));
    emit::write_folder(&folder, &files).expect("written");
    folder
}

fn verified(name: &str, target: &str, tools: &Tools) {
    let options = VerifyOptions {
        steps: 3,
        seed: 5,
        launches: true,
        compiler: tools.compiler.as_ref().map(|words| words.join(" ")),
        runner: tools.runner.clone(),
        ..VerifyOptions::default()
    };
    let report = verify(&artifact(name, target), &options, &mut |_| {}).expect("builds and runs");
    assert!(report.bit_exact, "{name} on {target}: {:#?}", report.finding);
    // Images of every kind and the scores of each.
    assert_eq!(report.calls.len(), 1 + 3 + 5, "{name} on {target}");
    assert!(report.elements > 10 * 8, "{name} on {target}");
}

#[test]
fn artifacts_for_xpulpv2() {
    for name in CASES {
        verified(name, "xpulpv2", &Tools::default());
    }
    for name in DISTINCT {
        verified(name, "xpulpv2", &native());
    }
}

#[test]
fn artifacts_for_vectors() {
    for target in ["neon", "hvx"] {
        verified("mixed", target, &Tools::default());
    }
}

/// The recorded images on a target: each integer that qonnx recorded, with the exact stages for 8 bits.
fn recorded_images(name: &str, target: &dyn Target, tools: &[Tools]) {
    let case = Case::read(name);
    let recorded = case.recorded();
    let graph = with_outputs(&case.imported.graph, &recorded);
    let module = case.quantized(&graph, EightBit::Threshold).module;
    let quantized = Algorithm::built_in("quantized").expect("quantized");
    let stage = Stage::Quantized { float_operations: quantized.float_operations };
    let optimised = optimise(&module, &stage, target, &OptimiseOptions::default());
    let (optimised, _) = optimised.expect("optimises");
    let entries = [PlanEntry { name: "infer", graph: &optimised }];
    let (program, _) = plan("net", &entries, target, &PlanOptions::default()).expect("plans");
    for (i, tools) in tools.iter().enumerate() {
        let folder = folder(&format!("{name}-{}-{i}", target.description().name));
        let mut on_device = |operands: &[Vec<_>]| {
            let found = run(&folder, (&program, target), tools, operands);
            for (sample, (found, expected)) in
                found.iter().zip(interpreted(&module, operands)).enumerate()
            {
                for (output, (found, expected)) in
                    module.outputs().iter().zip(found.iter().zip(&expected))
                {
                    let equal = tensor_bytes(found) == tensor_bytes(expected);
                    assert!(equal, "{name}, image {sample}: `{}`", output.name);
                }
            }
            found
        };
        let all = differences(&case, &graph, &mut on_device);
        assert_eq!(all.len(), recorded.len(), "{name}");
        for (tensor, found) in all {
            assert_eq!(found.different, 0, "{name}, `{tensor}`: {found:?}");
            assert!(found.positions > 0, "{name}, `{tensor}`");
        }
    }
}

#[test]
fn recorded_images_on_xpulpv2() {
    for name in CASES {
        let tools = [Tools::default(), native()];
        let count = if DISTINCT.contains(&name) { 2 } else { 1 };
        recorded_images(name, &trainc_xpulpv2::XPULPV2, &tools[..count]);
    }
}

#[test]
fn recorded_images_on_vectors() {
    recorded_images("mixed", &trainc_neon::NEON, &[Tools::default()]);
    recorded_images("mixed", &trainc_hvx::HVX, &[Tools::default()]);
}
