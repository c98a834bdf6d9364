//! Times each stage of the pipeline on a model of the zoo: `cargo run --release -p trainc-tests --example pipeline -- resnet18 64`.

use std::time::Instant;

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::verify::{Stage, verify};
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{OptimiseOptions, Strategy, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "resnet18".into());
    let batch: usize = arguments.next().and_then(|b| b.parse().ok()).unwrap_or(64);
    let mut clock = Instant::now();
    let mut lap = |what: &str| {
        println!("{what:12} {:8.3} s", clock.elapsed().as_secs_f64());
        clock = Instant::now();
    };
    let spec = ZooSpec { input: [3, 32, 32], classes: 10, ..ZooSpec::new(&name).expect("a model") };
    let bytes = build(&spec).expect("a model");
    lap("zoo");
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("none".into()), &options).expect("import");
    lap("import");
    let niti = Algorithm::built_in("niti").expect("niti");
    let model = remove_operations(&imported.graph, &niti.remove);
    let training = training_graph(&model, None).expect("training");
    verify(&training, &Stage::Float).expect("valid");
    lap("autodiff");
    println!("             {} nodes", training.nodes().len());
    let (module, report) = translate(&training, &niti).expect("translate");
    lap("translate");
    println!("             {} e-nodes, {} rounds", report.nodes, report.iterations);
    let stage = Stage::Quantized { float_operations: niti.float_operations.clone() };
    for strategy in [Strategy::Ordered, Strategy::Saturate] {
        let options = OptimiseOptions { strategy, ..OptimiseOptions::default() };
        let (optimised, report) =
            optimise(&module, &stage, &trainc_host::HOST, &options).expect("optimise");
        lap(&format!("{strategy:?}"));
        println!(
            "             {} e-nodes, {} rounds, cost {} -> {}, saturated {}",
            report.nodes,
            report.iterations,
            report.cost_before,
            report.cost_after,
            report.saturated
        );
        if strategy == Strategy::Saturate {
            let entries = [PlanEntry { name: "train_step", graph: &optimised }];
            let (program, _) =
                plan(&name, &entries, &trainc_host::HOST, &PlanOptions::default()).expect("plan");
            lap("plan");
            let m = program.memory;
            println!(
                "             arena {} lower bound {} ratio {:.4}",
                m.arena_bytes,
                m.arena_lower_bound_bytes,
                m.arena_bytes as f64 / m.arena_lower_bound_bytes as f64
            );
        }
    }
}
