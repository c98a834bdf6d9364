//! Writes a zoo model's training step for the C target and for a NEON target, to read and compare their kernels.

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::target::Target;
use trainc_ir::verify::Stage;
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, batch, folder] = &arguments[..] else {
        panic!("arguments: model, batch, folder");
    };
    let spec = ZooSpec::new(model).expect("a model of the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let batch = batch.parse().expect("a batch size");
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("no external data".into()), &options);
    let algorithm = Algorithm::built_in("niti").expect("a built-in algorithm");
    let forward = remove_operations(&imported.expect("imports").graph, &algorithm.remove);
    let training = training_graph(&forward, None).expect("trains");
    let stage = Stage::Quantized { float_operations: algorithm.float_operations.clone() };
    let targets: [&dyn Target; 3] = [&trainc_c::C, &trainc_neon::NEON, &trainc_neon::ARMV7];
    for target in targets {
        let (module, _) = translate(&training, &algorithm).expect("translates");
        let (step, _) =
            optimise(&module, &stage, target, &OptimiseOptions::default()).expect("optimises");
        let entries = [PlanEntry { name: "train_step", graph: &step }];
        let (program, _) = plan(model, &entries, target, &PlanOptions::default()).expect("plans");
        let place = std::path::Path::new(folder).join(target.description().name);
        std::fs::create_dir_all(&place).expect("a folder");
        for file in target.emit(&program).expect("emits") {
            std::fs::write(place.join(file.name), file.contents).expect("written");
        }
    }
}
