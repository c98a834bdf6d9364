//! Models that PyTorch exported: what the importer makes parameters of, and outputs against PyTorch's.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_driver::config::LossFunction;
use trainc_driver::error::message;
use trainc_driver::model;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{Graph, InputRole, OpKind, RunContext, Tensor};
use trainc_onnx_import::{ImportOptions, Imported, WarningKind, import_path};
use trainc_opt::algorithm::{Algorithm, BUILT_IN};
use trainc_opt::translate::translate;

/// Largest difference from PyTorch's outputs, relative to the largest of them (at least 1).
const TOLERANCE: f32 = 1e-4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pytorch")
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join("manifest.json")).expect("the manifest");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    manifest["cases"].as_array().expect("cases").clone()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|v| v.as_str().expect("text").into()).collect()
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().expect("text")
}

/// Arrays of an archive: f32 as they are, i64 as i32.
fn archive(path: &Path) -> BTreeMap<String, Tensor> {
    let mut zip = zip::ZipArchive::new(File::open(path).expect("the archive")).expect("a zip");
    let mut arrays = BTreeMap::new();
    for i in 0..zip.len() {
        let mut file = zip.by_index(i).expect("a member");
        let name = file.name().expect("a name").trim_end_matches(".npy").to_string();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("its bytes");
        // Magic, version 1.0, length of the header, header, data in C order.
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{name}");
        let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..start]).expect("a header");
        assert!(header.contains("'fortran_order': False"), "{name}: {header}");
        let shape = header.split('(').nth(1).and_then(|s| s.split(')').next()).expect("a shape");
        let shape: Vec<usize> = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
        let data = &bytes[start..];
        let tensor = if header.contains("'<f4'") {
            let values = data.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
            Tensor::f32(shape, values)
        } else {
            assert!(header.contains("'<i8'"), "{name}: {header}");
            let values = data.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as i32).collect();
            Tensor::i32(shape, values)
        };
        arrays.insert(name, tensor);
    }
    arrays
}

fn import(case: &Value) -> Imported {
    let options = ImportOptions {
        batch: case["batch"].as_u64().map(|b| b as usize),
        training: true,
        ..ImportOptions::default()
    };
    import_path(&folder().join(text(case, "model")), &options).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn outputs_are_those_of_pytorch() {
    let mut compared = 0;
    let mut failures = Vec::new();
    for case in cases().iter().filter(|c| c["comparable"] == true) {
        let name = text(case, "name");
        let imported = import(case);
        let arrays = archive(&folder().join(text(case, "archive")));
        let graph = &imported.graph;
        let inputs: Vec<Tensor> = graph
            .inputs()
            .iter()
            .map(|input| match input.role {
                InputRole::Data => {
                    arrays[&format!("input/{}", graph.value(input.value).name)].clone()
                }
                _ => arrays["labels"].clone(),
            })
            .collect();
        let outputs = Interpreter::new(graph)
            .step(&inputs, &RunContext::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for (output, found) in graph.outputs().iter().zip(&outputs) {
            let Some(expected) = arrays.get(&format!("output/{}", output.name)) else {
                assert_ne!(output.name, text(case, "output"), "{name}");
                continue;
            };
            assert_eq!(found.shape(), expected.shape(), "{name}: {}", output.name);
            let scale = expected.as_f32().iter().fold(1f32, |m, x| m.max(x.abs()));
            let worst = found.as_f32().iter().zip(expected.as_f32()).fold(0f32, |m, (a, b)| {
                if (a - b).is_nan() { f32::NAN } else { m.max((a - b).abs()) }
            });
            println!("{name}: {}: {worst:e}", output.name);
            if worst.is_nan() || worst > TOLERANCE * scale {
                failures.push(format!("{name}: {}: {worst}", output.name));
            }
            compared += 1;
        }
    }
    assert!(compared >= 30, "only {compared} outputs compared");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn parameters_are_those_of_the_module() {
    let mut failures = Vec::new();
    for case in &cases() {
        let name = text(case, "name");
        let imported = import(case);
        let graph = &imported.graph;
        let of = |trainable: bool| {
            let mut names: Vec<String> = graph
                .parameters()
                .iter()
                .filter(|p| p.trainable == trainable)
                .map(|p| graph.value(p.value).name.clone())
                .collect();
            names.sort();
            names
        };
        let sorted = |key: &str| {
            let mut names = strings(&case[key]);
            names.sort();
            names
        };
        let (trained, statistics) = (of(true), of(false));
        // The exporter left out the bias of `c1`, which was zero: no node has it as an operand.
        let lost = |n: &&String| *n == "c1.bias";
        let merged: Vec<&String> =
            case["merged"].as_object().expect("a map").keys().filter(|n| !lost(n)).collect();
        if merged.is_empty() {
            if trained != sorted("parameters") {
                failures
                    .push(format!("{name}: trained {trained:?}, not {:?}", sorted("parameters")));
            }
            if statistics != sorted("statistics") {
                failures.push(format!(
                    "{name}: statistics {statistics:?}, not {:?}",
                    sorted("statistics")
                ));
            }
        } else {
            // Names that the file lacks are the importer's; their number is the module's.
            let is_statistic = |n: &&&String| n.contains("running_");
            let lost_statistics = merged.iter().filter(is_statistic).count();
            let expected = (
                sorted("parameters").len() + merged.len() - lost_statistics,
                sorted("statistics").len() + lost_statistics,
            );
            if (trained.len(), statistics.len()) != expected {
                failures.push(format!("{name}: {trained:?} and {statistics:?}, not {expected:?}"));
            }
            for kept in sorted("parameters") {
                assert!(trained.contains(&kept), "{name}: {kept}");
            }
        }
        let aliases = case["aliases"].as_object().expect("a map");
        let warned = imported.warnings.iter().any(|w| w.kind == WarningKind::Untied);
        if warned == (aliases.is_empty() && merged.is_empty()) {
            failures.push(format!("{name}: warnings {:?}", imported.warnings));
        }
        for constant in strings(&case["constants"]) {
            assert!(graph.parameter_named(&constant).is_none(), "{name}: {constant}");
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn batch_norm_that_training_would_not_train_is_reported() {
    for case in &cases() {
        let name = text(case, "name");
        let warnings = import(case).warnings;
        let has = |kind: WarningKind| warnings.iter().find(|w| w.kind == kind);
        let notes = text(case, "notes");
        if notes.starts_with("Batch norm folded") {
            let warning = has(WarningKind::FoldedBatchNorm).unwrap_or_else(|| panic!("{name}"));
            assert!(warning.message.contains("TrainingMode.TRAINING"), "{name}: {warning}");
        } else {
            assert_eq!(has(WarningKind::FoldedBatchNorm), None, "{name}");
        }
        let running =
            case["batch_norm"] == "running statistics" && !notes.starts_with("Batch norm folded");
        assert_eq!(has(WarningKind::InferenceBatchNorm).is_some(), running, "{name}: {warnings:?}");
    }
}

#[test]
fn the_loss_inside_a_model_is_found() {
    let case = cases().into_iter().find(|c| c["name"] == "loss_inside_ts17_train").expect("a case");
    let imported = import(&case);
    let loss = imported.loss.expect("a loss");
    assert_eq!(loss.output, "loss");
    assert_eq!(loss.scores_output.as_deref(), Some("logits"));
    assert_eq!(imported.graph.input_of_role(InputRole::Labels), Some(loss.labels));
}

/// Any model trains under any algorithm; what an algorithm has no integers for is FP32.
#[test]
fn every_algorithm_takes_every_export() {
    let algorithms = BUILT_IN.iter().map(|(name, _)| Algorithm::built_in(name).expect("built in"));
    // QAS takes models that are quantized already.
    let trains = |a: &Algorithm| a.inference.is_none() && a.name != "qas";
    let algorithms: Vec<Algorithm> = algorithms.filter(trains).collect();
    assert!(algorithms.len() > 13);
    let mut failures = Vec::new();
    // One of each construct: attention, embeddings, recurrence, transposed convolutions, resampling.
    let chosen = [
        "attending",
        "excited",
        "groups",
        "inception",
        "recurrent",
        "sequence",
        "text",
        "upsampling",
        "windows",
    ];
    for case in cases().iter().filter(|case| case["mode"] == "train") {
        if !chosen.iter().any(|name| text(case, "name").starts_with(&format!("{name}_"))) {
            continue;
        }
        let imported = import(case);
        for algorithm in &algorithms {
            let asked = LossFunction::default();
            let translated =
                model::training(&imported, algorithm, None, &Default::default(), asked)
                    .map_err(|e| message(&e))
                    .and_then(|graph| translate(&graph, algorithm).map_err(|e| e.to_string()));
            // Algorithms whose examples choose say so where there is nothing to choose for, and what to take instead.
            let refused =
                |e: &str| e.contains("no layer of the model could choose") && e.contains("`sbm`");
            let chooses = ["dfq", "fractrain"].contains(&&*algorithm.name);
            if let Err(e) = translated
                && !(chooses && refused(&e))
            {
                failures.push(format!("{}, {}: {e}", text(case, "name"), algorithm.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What PyTorch gives its losses, so the file computes the loss in two operations.
#[test]
fn a_model_with_its_loss_inside_is_trained_in_integers() {
    let case = cases().into_iter().find(|c| c["name"] == "loss_inside_ts17_train").expect("a case");
    let imported = import(&case);
    let kinds =
        |graph: &Graph| -> Vec<OpKind> { graph.nodes().iter().map(|n| n.op.kind()).collect() };
    assert!(kinds(&imported.graph).contains(&OpKind::NllLoss));
    let niti = Algorithm::built_in("niti").expect("NITI");
    let training =
        model::training(&imported, &niti, None, &Default::default(), LossFunction::Model)
            .expect("a training graph");
    assert!(!kinds(&training).contains(&OpKind::NllLoss));
    let (lowered, _) = translate(&training, &niti).expect("integers");
    assert_eq!(lowered.updates().len(), strings(&case["parameters"]).len());
    assert!(kinds(&lowered).contains(&OpKind::IntegerCrossEntropyGradient));

    let arrays = archive(&folder().join(text(&case, "archive")));
    let inputs: Vec<Tensor> = lowered
        .inputs()
        .iter()
        .map(|input| match input.role {
            InputRole::Data => {
                arrays[&format!("input/{}", lowered.value(input.value).name)].clone()
            }
            InputRole::Labels => arrays["labels"].clone(),
            InputRole::LearningRate | InputRole::Scheduled => Tensor::i32([], vec![5]),
        })
        .collect();
    let mut interpreter = Interpreter::new(&lowered);
    let losses: Vec<f32> = (0..30)
        .map(|step| {
            let outputs = interpreter.step(&inputs, &RunContext { seed: 1, step }).expect("a step");
            outputs[0].as_f32()[0]
        })
        .collect();
    // PyTorch's loss before the first step, as far as 8 bits have it; then the samples are learnt.
    let expected = arrays["step0/loss"].as_f32()[0];
    assert!((losses[0] - expected).abs() < 0.1 * expected, "{losses:?}, PyTorch {expected}");
    let end = losses[25..].iter().sum::<f32>() / 5.0;
    assert!(end < 0.5 * losses[0], "{losses:?}");
}
