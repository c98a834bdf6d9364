//! Snapshots of what the compiler makes of small models, for reviewers: `golden/<model>/*.snap`.
//!
//! `INSTA_UPDATE=always cargo test -p trainc-tests --test golden` rewrites them.

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::graph::Graph;
use trainc_ir::text::print::Printer;
use trainc_ir::verify::Stage;
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::inference::inference_graph;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};

/// Training and inference modules of a zoo model at batch 4, optimised for the host.
fn modules(model: &str) -> [Graph; 3] {
    let spec = ZooSpec::new(model).expect("a model of the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let options = ImportOptions { batch: Some(4), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("no external data".into()), &options);
    let niti = Algorithm::built_in("niti").expect("niti");
    let forward = remove_operations(&imported.expect("imports").graph, &niti.remove);
    let training = training_graph(&forward, None).expect("trains");
    let inference = inference_graph(&forward).expect("infers");
    let stage = Stage::Quantized { float_operations: niti.float_operations.clone() };
    let [step, infer] = [&training, &inference].map(|graph| {
        let (module, _) = translate(graph, &niti).expect("translates");
        optimise(&module, &stage, &trainc_host::HOST, &OptimiseOptions::default())
            .expect("optimises")
            .0
    });
    [training, step, infer]
}

fn snapshots(model: &str) {
    let [training, step, infer] = modules(model);
    let entries = [
        PlanEntry { name: "train_step", graph: &step },
        PlanEntry { name: "infer", graph: &infer },
    ];
    let (program, _) =
        plan(model, &entries, &trainc_host::HOST, &PlanOptions::default()).expect("plans");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../../golden/{model}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let printer = Printer::default();
    settings.bind(|| {
        insta::assert_snapshot!("training", printer.graph(&training));
        insta::assert_snapshot!("niti", printer.graph(&step));
        insta::assert_snapshot!("program", program.to_string());
    });
}

#[test]
fn digits() {
    snapshots("digits");
}

#[test]
fn residual() {
    snapshots("residual");
}

/// The same input gives the same bytes, whatever ran before in the process.
#[test]
fn stages_are_deterministic() {
    let text = |[a, b, c]: [Graph; 3]| format!("{a}{b}{c}");
    assert_eq!(text(modules("depthwise")), text(modules("depthwise")));
}
