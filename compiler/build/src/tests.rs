//! Builders against a cargo of the test's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_onnx_import::proto::{GraphProto, Message, ModelProto, NodeProto, OperatorSetIdProto};

use trainc_driver::config::{
    BatchNormHandling, Config, InputNormalization, LossFunction, OptimiserStrategy, WeightSource,
};
use trainc_driver::options::OPTIONS;
use trainc_ir::batch_split::MicroBatch;

use crate::cargo::Cargo;
use crate::{Builder, Error, Output};

/// A fresh folder of the test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("trainc-build-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A model of the repository's tests.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

fn triple() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.expect("rustc names its host").to_string()
}

/// Runs a builder as cargo would; what it said, and its result.
fn run(builder: &Builder, variables: &[(&str, &str)]) -> (Vec<String>, Result<Output, Error>) {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let variable = |name: &str| variables.get(name).map(|value| (*value).to_string());
    let mut lines = Vec::new();
    let mut line = |text| lines.push(text);
    let result = builder.run(&mut Cargo { variable: &variable, line: &mut line, live: false });
    (lines, result)
}

fn sources_only(out: &Path) -> Builder {
    Builder::new().out_dir(out).link(false)
}

/// The message of a builder that must fail.
fn failure(builder: &Builder) -> Error {
    run(builder, &[]).1.expect_err("it fails")
}

#[test]
fn errors_name_file_node_and_reason() {
    let out = folder("errors");
    let base = sources_only(&out);
    let message = |builder: Builder| failure(&builder).to_string();
    assert!(message(base.clone()).contains("no model"));
    let missing = failure(&base.clone().model("no/such.onnx"));
    assert!(missing.to_string().starts_with("no/such.onnx: "), "{missing}");
    assert_eq!(missing.file(), Some("no/such.onnx"));
    assert_eq!(format!("{missing:?}"), missing.to_string());
    let digits = || base.clone().zoo("digits");
    let unknown = message(digits().algorithm("nitti"));
    assert!(unknown.contains("`nitti`") && unknown.contains("niti,"), "{unknown}");
    let absent = message(digits().algorithm("mine.toml"));
    assert!(absent.contains("mine.toml: cannot read"), "{absent}");
    let target = message(digits().target("abacus"));
    assert!(target.contains("`abacus`") && target.contains("neon+dotprod"), "{target}");
    assert!(message(base.clone().zoo("lenet6")).contains("`lenet6`"));
    assert!(message(digits().batch(0)).contains("batch"));
    assert!(message(digits().learning_rate(0.5)).contains("a whole number from 0 to 7"));
    let outside = failure(&Builder::new().zoo("digits"));
    assert!(outside.to_string().contains("OUT_DIR is not set"), "{outside}");
    let config = out.join("trainc.toml");
    fs::write(&config, "bach = 3\n").expect("written");
    let unread = message(digits().config(&config));
    assert!(unread.contains("trainc.toml") && unread.contains("bach"), "{unread}");
    fs::remove_dir_all(out).expect("removed");
}

/// Every option has a method, or a reason why not.
#[test]
fn every_option_has_a_method() {
    type Method = fn(Builder) -> Builder;
    let methods: [(&str, Method); 30] = [
        ("algorithm", |b| b.algorithm("fp32")),
        ("optimizer", |b| b.optimizer("adam")),
        ("precision", |b| b.precision("p.toml")),
        ("target", |b| b.target("c")),
        ("batch", |b| b.batch(3)),
        ("infer-batch", |b| b.infer_batch(3)),
        ("arena-limit", |b| b.arena_limit(3)),
        ("micro-batch", |b| b.micro_batch(MicroBatch::Fit)),
        ("local-memory", |b| b.local_memory(3)),
        ("dimensions", |b| b.dimension("h", 3)),
        ("seed", |b| b.seed(3)),
        ("loss", |b| b.loss(LossFunction::MeanSquaredError)),
        ("output-loss", |b| b.output_loss("y", LossFunction::MeanSquaredError, 0.5)),
        ("opt", |b| b.opt(OptimiserStrategy::Off)),
        ("exact", |b| b.exact(false)),
        ("batch-norm", |b| b.batch_norm(BatchNormHandling::Frozen)),
        ("init", |b| b.init(WeightSource::Random)),
        ("freeze", |b| b.freeze("a")),
        ("train", |b| b.train("a")),
        ("learning-rate", |b| b.learning_rate(3.0)),
        ("schedule", |b| b.schedule(&[(0.0, 3.0)])),
        ("scheduled", |b| b.scheduled("momentum", &[(0.0, 0.5)])),
        ("strict", |b| b.strict(true)),
        ("label-smoothing", |b| b.label_smoothing(0.5)),
        ("clip-value", |b| b.clip_value(1.0)),
        ("clip-norm", |b| b.clip_norm(1.0)),
        ("normalization", |b| b.normalization(InputNormalization::None)),
        ("mean", |b| b.mean(&[0.5])),
        ("deviation", |b| b.deviation(&[0.5])),
        ("latencies", |b| b.latencies("times.toml")),
    ];
    for option in OPTIONS {
        let method = methods.iter().find(|(name, _)| *name == option.name);
        assert_eq!(method.is_none(), !option.not_in_builds.is_empty(), "{}", option.name);
        let Some((name, method)) = method else { continue };
        let said = method(Builder::new()).options().clone();
        assert_eq!(said.names().iter().collect::<Vec<_>>(), [name]);
        assert_ne!(said.over(Config::default()), Config::default(), "{name}");
    }
}

#[test]
fn an_unsupported_node_is_named() {
    let out = folder("unsupported");
    let model = data("models/mlp.onnx");
    let mut proto = ModelProto::decode(&*fs::read(&model).expect("a model")).expect("a model");
    let graph: &mut GraphProto = proto.graph.as_mut().expect("a graph");
    let result = graph.output[0].name.clone();
    let last = graph.node.iter_mut().find(|n| n.output.contains(&result)).expect("a node");
    last.output = vec!["before".to_string()];
    graph.node.push(NodeProto {
        name: "strange".to_string(),
        op_type: "Frobnicate".to_string(),
        input: vec!["before".to_string()],
        output: vec![result],
        ..NodeProto::default()
    });
    assert!(proto.opset_import.iter().any(|set: &OperatorSetIdProto| set.domain.is_empty()));
    let path = out.join("odd.onnx");
    fs::write(&path, proto.encode_to_vec()).expect("written");
    let error = failure(&sources_only(&out).model(&path));
    let text = error.to_string();
    assert!(text.contains("odd.onnx") && text.contains("`strange` (Frobnicate)"), "{text}");
    assert_eq!(error.file(), path.to_str());
    assert_eq!(error.node(), Some("strange"));
    // Cargo shows every line of it.
    let (lines, _) = run(&sources_only(&out).model(&path), &[]);
    let shown: Vec<&str> = lines.iter().filter_map(|l| l.strip_prefix("cargo::error=")).collect();
    assert_eq!(shown, text.lines().collect::<Vec<_>>());
    assert!(shown.len() > 1, "{text}");
    fs::remove_dir_all(out).expect("removed");
}

#[test]
fn cargo_watches_every_input() {
    let out = folder("watch");
    let model = data("pytorch/mlp_dyn22.onnx");
    let algorithm = Path::new(env!("CARGO_MANIFEST_DIR")).join("../opt/algorithms/fp32.toml");
    let config = out.join("trainc.toml");
    fs::write(&config, "batch = 3\ntarget = \"neon\"\n").expect("written");
    let builder = sources_only(&out)
        .model(&model)
        .config(&config)
        .algorithm(algorithm.to_str().expect("text"));
    let (lines, result) = run(&builder, &[("CARGO_CFG_TARGET_ARCH", "x86_64")]);
    assert_eq!(result.expect("it compiles").target, "neon");
    for path in [&model, &data("pytorch/mlp_dyn22.onnx.data"), &algorithm, &config] {
        let line = format!("cargo::rerun-if-changed={}", path.display());
        assert_eq!(lines.iter().filter(|l| **l == line).count(), 1, "{line}\n{lines:#?}");
    }
    assert!(lines.contains(&"cargo::rerun-if-env-changed=TRAINC_TARGET".to_string()));
    // Even of a model that does not compile.
    let (lines, result) = run(&builder.clone().algorithm("no.toml"), &[]);
    assert!(result.is_err());
    assert!(lines.contains(&"cargo::rerun-if-changed=no.toml".to_string()), "{lines:#?}");
    // The variable decides where the script does not, and the script where it does.
    let variables = [("TRAINC_TARGET", "armv7-neon")];
    assert_eq!(run(&builder, &variables).1.expect("it compiles").target, "armv7-neon");
    let (lines, result) = run(&builder.target("c"), &variables);
    assert_eq!(result.expect("it compiles").target, "c");
    assert!(!lines.iter().any(|l| l.contains("TRAINC_TARGET")), "{lines:#?}");
    fs::remove_dir_all(out).expect("removed");
}

/// Every file under a folder with its content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut stack = vec![folder.to_path_buf()];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            stack.extend(fs::read_dir(&path).expect("a folder").map(|e| e.expect("a file").path()));
        } else {
            let name = path.strip_prefix(folder).expect("inside").to_path_buf();
            found.insert(name, fs::read(&path).expect("a file"));
        }
    }
    found
}

#[test]
fn the_same_input_gives_the_same_files() {
    let (one, two) = (folder("same-1"), folder("same-2"));
    let compile = |out: &Path| {
        let builder = sources_only(out).zoo("digits").batch(4).name("Net 2");
        run(&builder, &[]).1.expect("it compiles")
    };
    let output = compile(&one);
    compile(&two);
    let files = contents(&one);
    assert_eq!(files, contents(&two));
    assert_eq!((output.name.as_str(), output.module), ("net_2", one.join("net_2.rs")));
    for name in ["net_2.rs", "net_2/net_2.c", "net_2/net_2.h", "net_2/trainc_rt.c"] {
        assert!(files.contains_key(Path::new(name)), "{name} in {:?}", files.keys());
    }
    // Again: nothing is written, so nothing is rebuilt.
    let time = || fs::metadata(one.join("net_2.rs")).and_then(|m| m.modified()).expect("a time");
    let before = time();
    std::thread::sleep(std::time::Duration::from_millis(20));
    compile(&one);
    assert_eq!(time(), before);
    for folder in [one, two] {
        fs::remove_dir_all(folder).expect("removed");
    }
}

#[test]
fn the_module_needs_core_alone_and_gives_no_warning() {
    let out = folder("module");
    // Dropout draws random numbers; fp32 has other types than niti.
    for (algorithm, batch, model) in [
        ("niti", 2, data("models/lenet5.onnx")),
        ("fp32", 2, data("pytorch/dropout_ts15_train.onnx")),
        ("quantized", 1, data("brevitas/mixed.onnx")),
    ] {
        let builder = sources_only(&out).model(model).batch(batch).algorithm(algorithm).name("net");
        let output = run(&builder, &[]).1.expect("it compiles");
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        for (edition, visibility) in [("2021", "pub "), ("2024", "pub "), ("2024", "")] {
            let source = out.join("lib.rs");
            let text = format!(
                "#![no_std]\n#![deny(warnings, missing_docs, unused, nonstandard_style)]\n\
                 #![forbid(unsafe_op_in_unsafe_fn)]\n//! A crate.\n/// A model.\n{visibility}mod net {{\n    \
                 include!({:?});\n}}\n/// Uses a little.\npub const BYTES: usize = net::ARENA_BYTES;\n",
                output.module
            );
            fs::write(&source, text).expect("written");
            let output = Command::new(&rustc)
                .args(["--crate-type", "lib", "--edition", edition, "--emit", "metadata"])
                .arg("--out-dir")
                .args([&out, &source])
                .output()
                .expect("rustc runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    fs::remove_dir_all(out).expect("removed");
}

#[test]
fn quantized_inference_has_no_training_step() {
    let out = folder("quantized");
    let model = data("brevitas/mixed.onnx");
    let builder =
        sources_only(&out).model(&model).batch(1).target("c").algorithm("quantized").name("net");
    let (lines, result) = run(&builder, &[]);
    let output = result.expect("it compiles");
    assert!(!lines.iter().any(|line| line.starts_with("cargo::warning")), "{lines:#?}");
    let module = fs::read_to_string(&output.module).expect("a module");
    let header = fs::read_to_string(out.join("net/net.h")).expect("a header");
    for text in [&module, &header] {
        assert!(text.contains("infer") && !text.contains("train_step"), "{text}");
    }
    // Output stages: thresholds below 8 bits, a scale and a shift at 8.
    let source = fs::read_to_string(out.join("net/net.c")).expect("a source");
    for stage in ["integer_conv2d_threshold_", "integer_conv2d_scale_shift_"] {
        assert!(source.contains(stage), "{source}");
    }
    // A precision file is read, but not by algorithms that train.
    let layers = out.join("layers.toml");
    fs::write(&layers, "[default]\ninput = 8\nweight = 4\n").expect("written");
    let ranges = failure(&builder.clone().precision(&layers)).to_string();
    assert!(ranges.contains("layers.toml") && ranges.contains("`input_range`"), "{ranges}");
    let other = failure(&builder.algorithm("niti").precision(&layers)).to_string();
    assert!(other.contains("--algorithm quantized") && other.contains("`niti`"), "{other}");
    fs::remove_dir_all(out).expect("removed");
}

#[test]
fn a_library_is_built_and_linked() {
    let out = folder("library");
    let host = triple();
    let folder = out.to_str().expect("text");
    let variables = [("TARGET", host.as_str()), ("HOST", host.as_str()), ("OUT_DIR", folder)];
    let (lines, result) = run(&Builder::new().zoo("digits").batch(2).target("c"), &variables);
    let output = result.expect("it compiles");
    let library = output.folder.join("libdigits.a");
    assert!(library.is_file() || output.folder.join("digits.lib").is_file());
    let search = format!("cargo::rustc-link-search=native={}", output.folder.display());
    assert!(lines.contains(&search), "{lines:#?}");
    assert!(lines.contains(&"cargo::rustc-link-lib=static=digits".to_string()), "{lines:#?}");
    // A compiler that fails is an error in words.
    let broken = Builder::new().zoo("digits").batch(2).target("c").flag("-no-such-flag");
    let message = run(&broken, &variables).1.expect_err("it fails").to_string();
    assert!(message.starts_with("the C compiler: "), "{message}");
    fs::remove_dir_all(out).expect("removed");
}
