//! The text form of whole networks: every stage reads back, and a model's text is the model.

use std::path::{Path, PathBuf};

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, FloatEntry, Staged, import};
use trainc_driver::zoo::{self, ZooSpec};
use trainc_ir::Graph;
use trainc_ir::text::{Parsed, Printer, parse_graph, parse_graphs};

/// Networks that go through every stage, and those whose FP32 graphs alone do.
const SMALL: &[&str] = &["digits", "mlp", "lenet5", "residual", "depthwise", "resnet8"];
const LARGE: &[&str] = &["lenet20-50", "mobilenetv2"];

fn model(name: &str) -> ModelSource {
    let spec = ZooSpec { seed: 3, ..ZooSpec::new(name).expect("a model") };
    ModelSource::Bytes { name: name.to_string(), bytes: zoo::build(&spec).expect("builds") }
}

fn config(algorithm: &str) -> Config {
    Config { algorithm: algorithm.to_string(), batch: Some(4), ..Config::default() }
}

fn staged(source: &ModelSource, config: &Config) -> Result<Staged<FloatEntry>, String> {
    let entries = Entries::TrainAndInfer;
    import("net", source, config, entries).map_err(|e| trainc_driver::error::message(&e))
}

/// Data in the text, and tensors as hashes that the caller has.
fn reads_back(what: &str, graph: &Graph) {
    let printer = Printer::default();
    let (text, blobs) = (printer.graph(graph), printer.blobs(graph));
    let read = parse_graph(&text, &|hash| blobs.get(&hash).cloned());
    assert!(read.unwrap_or_else(|e| panic!("{what}: {e}")) == *graph, "{what} with hashes");
    let text = printer.with_data(graph);
    let read = parse_graphs(&text).unwrap_or_else(|e| panic!("{what}: {e}"));
    let [Parsed { graph: read, drawn: 0, .. }] = &read[..] else {
        panic!("{what}: {}", read.len())
    };
    assert!(read == graph, "{what} with data");
    assert!(printer.with_data(read) == text, "{what} printed again");
}

/// The model of the text that `inspect --emit=graph --with-data` prints for it.
fn as_text(float: &Staged<FloatEntry>) -> ModelSource {
    let bytes = Printer::default().with_data(&float.imported.graph).into_bytes();
    ModelSource::Bytes { name: "net".to_string(), bytes }
}

/// The FP32 graphs from a text are those from the file that it was printed from.
fn is_the_model(what: &str, file: &Staged<FloatEntry>, config: &Config) -> Result<(), String> {
    let text = staged(&as_text(file), config).map_err(|e| format!("{what}: {e}"))?;
    assert_eq!(text.model_hash(), file.model_hash(), "{what}");
    assert_eq!(text.imported.loss, file.imported.loss, "{what}");
    assert!(text.imported.graph == file.imported.graph, "{what}");
    for (text, file) in text.entries.iter().zip(&file.entries) {
        assert!(text.float == file.float, "{what}: {}\n{}\n{}", file.name, text.float, file.float);
    }
    Ok(())
}

#[test]
fn networks_read_back_at_every_stage() {
    for name in SMALL {
        for algorithm in ["fp32", "niti", "niti-finetune"] {
            let (source, config) = (model(name), config(algorithm));
            let float = staged(&source, &config).unwrap_or_else(|e| panic!("{name}: {e}"));
            is_the_model(name, &float, &config).unwrap_or_else(|e| panic!("{e}"));
            reads_back(name, &float.imported.graph);
            let optimised = float.translate().and_then(Staged::optimise);
            for entry in &optimised.unwrap_or_else(|e| panic!("{name}: {e}")).entries {
                let what = |stage: &str| format!("{name} {algorithm} {} {stage}", entry.name);
                reads_back(&what("float"), &entry.float);
                reads_back(&what("module"), &entry.module);
                reads_back(&what("optimised"), &entry.optimised);
            }
        }
    }
}

#[test]
fn large_networks_read_back() {
    for name in LARGE {
        let (source, config) = (model(name), config("niti"));
        let float = staged(&source, &config).unwrap_or_else(|e| panic!("{name}: {e}"));
        is_the_model(name, &float, &config).unwrap_or_else(|e| panic!("{e}"));
        reads_back(name, &float.entries[0].float);
    }
}

/// Exported networks with losses, batch normalization, dropout and reshapes of their own.
/// Networks whose graphs hold the batch inside.
const FOR_ONE_BATCH: [&str; 4] = ["recurrent_", "attending_", "shuffled_", "windows_"];

#[test]
fn exported_networks_are_their_texts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pytorch");
    let entries = std::fs::read_dir(&folder).expect("the exported networks");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "onnx"));
    files.sort();
    let mut compared = 0;
    for path in files {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for algorithm in ["fp32", "niti"] {
            let config = config(algorithm);
            // Some are tests of what is refused.
            let Ok(file) = staged(&ModelSource::File(path.clone()), &config) else { continue };
            match is_the_model(&name, &file, &config) {
                Ok(()) => compared += 1,
                // Steps, windows or pixels come before examples inside, a token is repeated for each example: such
                // a text is for the batch that it was printed for, and says so.
                Err(e) if FOR_ONE_BATCH.iter().any(|one| name.starts_with(one)) => {
                    assert!(e.contains("at another batch size: node `"), "{e}");
                }
                Err(e) => panic!("{e}"),
            }
        }
    }
    assert!(compared >= 40, "{compared} networks");
}
