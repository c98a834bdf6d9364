//! `trainc compile`, `inspect` and `run`.

mod common;

use std::fs;
use std::process::Stdio;

use common::{Folder, bytes, objects, only};
use trainc_data::{NpyArray, read_npz, write_npz};
use trainc_onnx_import::proto::{Message, ModelProto, NodeProto};

#[test]
fn an_artifact_is_whole_and_the_same_every_time() {
    let folder = Folder::new("artifact");
    let model = folder.model();
    let compile = |output: &str| {
        folder.json(&["compile", model, "--batch", "4", "-o", output, "--emit", "qir,program"])
    };
    let lines = compile("a");
    compile("b");
    compile("b");
    let artifact = only(&lines, "artifact");
    assert_eq!(artifact["directory"], "a");
    let (arena, bound) = (
        artifact["arena_bytes"].as_u64().unwrap(),
        artifact["arena_lower_bound_bytes"].as_u64().unwrap(),
    );
    assert!(0 < bound && bound <= arena && arena as f64 <= 1.15 * bound as f64);
    assert!(artifact["seconds"].as_f64().unwrap() > 0.0);
    let list = |name: &str| {
        let entries = fs::read_dir(folder.path(name)).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let names = list("a");
    assert_eq!(
        names,
        [
            "digits.h",
            "digits.o",
            "digits.program.txt",
            "digits.qir.txt",
            "digits.rs",
            "infer.module.txt",
            "manifest.json",
            "train_step.module.txt",
            "trainc_kernels.o",
            "weights.safetensors"
        ]
    );
    assert_eq!(list("b"), names);
    for name in &names {
        let file = |dir: &str| bytes(&folder.path(dir).join(name));
        assert!(file("a") == file("b"), "{name} differs");
        let here = folder.0.to_string_lossy().into_owned();
        let content = file("a");
        let found = content.windows(here.len()).any(|w| w == here.as_bytes());
        assert!(!found, "{name} holds a path of this machine");
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&bytes(&folder.path("a/manifest.json"))).unwrap();
    assert_eq!(manifest["algorithm"]["name"], "niti");
    assert_eq!(manifest["memory"]["arena_bytes"], arena);
    assert_eq!(manifest["entries"][0]["name"], "train_step");
    assert_eq!(manifest["entries"][1]["name"], "infer");
    assert!(manifest["operations"].as_object().unwrap().len() > 3);
    let sizes = manifest["files"].as_array().unwrap();
    assert_eq!(sizes.len(), names.len() - 1);
    for file in sizes {
        let content = bytes(&folder.path("a").join(file["name"].as_str().unwrap()));
        assert_eq!(file["bytes"], content.len());
    }
    // Nothing else lies around.
    assert_eq!(folder.names(), ["a", "b", "digits.onnx"]);
}

/// `digits.onnx` with its first ReLU turned into an operator that nobody supports.
/// Every target's files are the same bytes from every process (each has its own hash seeds), on one thread and on
/// many, from any folder.
#[test]
fn emission_is_deterministic() {
    let folder = Folder::new("deterministic");
    folder.succeed(&["zoo", "depthwise", "-o", "net.onnx"]);
    let targets = trainc_driver::targets::TARGETS.iter().map(|t| t.description().name);
    for target in targets {
        let mut runs = Vec::new();
        for (run, threads) in ["1", "2", "5"].into_iter().enumerate() {
            let place = folder.path(&format!("{target}-{run}"));
            fs::create_dir(&place).unwrap();
            let output = folder
                .command(&[
                    "compile",
                    "../net.onnx",
                    "--target",
                    target,
                    "--batch",
                    "3",
                    "-o",
                    "out",
                ])
                .current_dir(&place)
                .env("TRAINC_THREADS", threads)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(place.join("out"))
                .unwrap()
                .map(|e| e.unwrap().path())
                .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), bytes(&p)))
                .collect();
            files.sort();
            runs.push(files);
        }
        assert!(runs[0].len() > 4, "{target}");
        assert!(runs.iter().all(|run| *run == runs[0]), "{target} is not deterministic");
    }
}

fn unsupported(folder: &Folder) -> &'static str {
    with_activation(folder, "Frobnicate", "bad.onnx");
    "bad.onnx"
}

/// The digits' model with its first ReLU as another operator, `odd`.
fn with_activation(folder: &Folder, op: &str, file: &str) {
    folder.model();
    let content = bytes(&folder.path("digits.onnx"));
    let mut model = ModelProto::decode(content.as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let relu = |n: &&mut NodeProto| n.op_type == "Relu";
    let node = graph.node.iter_mut().find(relu).unwrap();
    (node.op_type, node.name) = (op.to_string(), "odd".to_string());
    fs::write(folder.path(file), model.encode_to_vec()).unwrap();
}

/// A check with an algorithm and a target answers as a compilation would, and why.
#[test]
fn checks_say_what_compile_would() {
    let folder = Folder::new("checks");
    let good = folder.model();
    with_activation(&folder, "Frobnicate", "unknown.onnx");
    with_activation(&folder, "Softmax", "softmax.onnx");
    // NITI as an algorithm that computes nothing in FP32.
    let strict = folder.succeed(&["algorithms", "niti"]).replace("\"float\"", "\"refuse\"");
    fs::write(folder.path("strict.toml"), strict).unwrap();
    for (model, algorithm, imports, compiles) in [
        (good, "niti", true, true),
        ("softmax.onnx", "niti", true, true),
        ("softmax.onnx", "strict.toml", true, false),
        ("softmax.onnx", "fp32", true, true),
        ("unknown.onnx", "fp32", false, false),
    ] {
        let how = ["--algorithm", algorithm, "--target", "c", "--batch", "2"];
        let compiled = folder.run(&[&["compile", model, "-o", "out"][..], &how].concat());
        assert_eq!(compiled.status.success(), compiles, "{model} {algorithm}");
        let json = ["inspect", "--check", model, "--message-format", "json"];
        let output = folder.run(&[&json[..], &how].concat());
        assert_eq!(output.status.success(), compiles, "{model} {algorithm}");
        let lines = objects(std::str::from_utf8(&output.stdout).unwrap());
        let report = only(&lines, "check");
        assert_eq!(report["imports"], imports);
        if imports {
            assert_eq!(report["compiles"]["compiles"], compiles);
            assert_eq!(report["compiles"]["target"], "c");
        } else {
            assert!(report.get("compiles").is_none());
        }
    }
    // Without either flag the question is whether it imports.
    assert!(folder.succeed(&["inspect", "--check", "softmax.onnx"]).contains("the model imports"));
    let said = folder.run(&["inspect", "--check", "softmax.onnx", "--algorithm", "strict.toml"]);
    assert_eq!(said.status.code(), Some(1));
    let said = String::from_utf8(said.stderr).unwrap();
    for part in ["softmax.onnx", "softmax", "`odd`", "`--algorithm fp32`"] {
        assert!(said.contains(part), "{said}");
    }
    let error =
        folder.fail(&["compile", "softmax.onnx", "-o", "out2", "--algorithm", "strict.toml"]);
    let reason =
        |text: &str| text[text.find("softmax: no rule").expect("the reason")..].to_string();
    assert_eq!(reason(&said), reason(&error));
    let output =
        ["inspect", "--check", "softmax.onnx", "-a", "strict.toml", "--message-format", "json"];
    let output = folder.run(&output);
    let lines = objects(std::str::from_utf8(&output.stdout).unwrap());
    let report = &only(&lines, "check")["compiles"];
    assert_eq!(report["without_rule"][0]["op"], "softmax");
    assert_eq!(report["without_rule"][0]["nodes"][0], "odd");
    assert!(report["would_train"].as_array().unwrap().contains(&"fp32".into()));
    assert_eq!(report["node"], "odd");
}

#[test]
fn errors_name_file_and_node_and_leave_nothing() {
    let folder = Folder::new("errors");
    let model = unsupported(&folder);
    let before = folder.names();
    let message = folder.fail(&["compile", model, "-o", "out"]);
    for word in ["bad.onnx", "odd", "Frobnicate"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    let output = folder.run(&["compile", model, "-o", "out", "--message-format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let lines = objects(std::str::from_utf8(&output.stdout).unwrap());
    let error = only(&lines, "error");
    assert_eq!((&error["file"], &error["node"]), (&"bad.onnx".into(), &"odd".into()));
    assert!(error["message"].as_str().unwrap().contains("Frobnicate"));
    let output = folder.run(&["inspect", "--check", model, "--message-format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let lines = objects(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(only(&lines, "check")["unsupported"][0]["node"], "odd");
    assert_eq!(folder.names(), before);

    assert!(folder.fail(&["compile", "missing.onnx", "-o", "out"]).contains("missing.onnx"));
    fs::write(folder.path("junk.onnx"), b"not a model at all").unwrap();
    assert!(folder.fail(&["inspect", "junk.onnx"]).contains("junk.onnx"));
    let named = ["compile", "digits.onnx", "-o", "out", "--algorithm"];
    assert!(folder.fail(&[&named[..], &["nitty"]].concat()).contains("nitty"));
    fs::write(folder.path("mine.toml"), "name = 3\n").unwrap();
    assert!(folder.fail(&[&named[..], &["mine.toml"]].concat()).contains("mine.toml"));
    let target = ["compile", "digits.onnx", "-o", "out", "--target", "abacus"];
    assert!(folder.fail(&target).contains("abacus"));
    assert!(!folder.path("out").exists());
}

#[test]
fn a_foreign_folder_is_not_replaced() {
    let folder = Folder::new("foreign");
    let model = folder.model();
    fs::create_dir(folder.path("mine")).unwrap();
    fs::write(folder.path("mine/thesis.tex"), "x").unwrap();
    assert!(folder.fail(&["compile", model, "-o", "mine"]).contains("mine"));
    assert_eq!(bytes(&folder.path("mine/thesis.tex")), b"x");
    assert_eq!(folder.names(), ["digits.onnx", "mine"]);
    // Another program's manifest makes it no artifact; a file beside an artifact's, or one that was edited, stays.
    fs::write(folder.path("mine/manifest.json"), "{}").unwrap();
    assert!(folder.fail(&["compile", model, "-o", "mine"]).contains("thesis.tex"));
    assert_eq!(bytes(&folder.path("mine/thesis.tex")), b"x");
    folder.succeed(&["compile", model, "-t", "c", "--example", "-o", "out"]);
    folder.succeed(&["compile", model, "-t", "c", "--example", "-o", "out"]);
    fs::write(folder.path("out/notes"), "x").unwrap();
    assert!(folder.fail(&["compile", model, "-o", "out"]).contains("notes"));
    fs::remove_file(folder.path("out/notes")).unwrap();
    fs::write(folder.path("out/main.c"), "/* mine now */").unwrap();
    assert!(folder.fail(&["compile", model, "-o", "out"]).contains("main.c (edited)"));
    assert_eq!(bytes(&folder.path("out/main.c")), b"/* mine now */");
    fs::remove_file(folder.path("out/main.c")).unwrap();
    folder.succeed(&["compile", model, "-o", "out"]);
    assert!(folder.path("out/digits.o").exists() && !folder.path("out/digits.c").exists());
}

#[test]
fn a_name_for_the_artifact() {
    let folder = Folder::new("name");
    let model = folder.model();
    folder.succeed(&["compile", model, "-t", "c", "--name", "reader_2", "-o", "out"]);
    let header = fs::read_to_string(folder.path("out/reader_2.h")).unwrap();
    for word in ["reader_2_train_step(", "reader_2_init(", "READER_2_ARENA_BYTES"] {
        assert!(header.contains(word), "{word}");
    }
    assert!(!header.to_lowercase().contains("digits"));
    assert!(folder.succeed(&["verify", "out", "--steps", "1"]).contains("bit-exact"));
    for (bad, near) in [("Reader", "reader"), ("2nd", "v2nd"), ("a b", "a_b"), ("int", "int_model")]
    {
        let output = folder.run(&["compile", model, "--name", bad, "-o", "other"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{bad}: {said}");
        assert!(said.contains(&format!("`{near}` is one")), "{bad}: {said}");
    }
    assert!(!folder.path("other").exists());
}

/// Memory that a target's machines cannot have is an error, with its size and the way out.
#[test]
fn an_arena_beyond_the_target() {
    let folder = Folder::new("addresses");
    let model = folder.model();
    for target in ["hvx", "xpulpv2", "armv7-neon"] {
        let large = ["compile", model, "-b", "1000000", "-t", target, "-o", "out"];
        let said = folder.fail(&large);
        for word in [target, "the arena would have", "GiB", "32 bits", "--batch"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
    assert!(!folder.path("out").exists());
    // Where addresses may have 64 bits the header says what it needs.
    folder.succeed(&["compile", model, "-b", "1000000", "-t", "c", "-o", "out"]);
    let header = fs::read_to_string(folder.path("out/digits.h")).unwrap();
    assert!(header.contains("#if PTRDIFF_MAX < ") && header.contains("#error \"digits needs"));
}

#[test]
fn texts_of_stages() {
    let folder = Folder::new("emit");
    let model = folder.model();
    let training = folder.succeed(&["inspect", model, "--emit=training"]);
    assert!(training.contains("sgd_update") && !training.contains("requantize"));
    let qir = folder.succeed(&["inspect", model, "--emit=qir"]);
    assert!(qir.contains("requantize") && qir.contains("i8<2^e>"));
    // What is printed for people reads back where no weight stands as a hash.
    assert!(folder.succeed(&["inspect", model, "--emit=graph=g.txt,asm=-"]).contains("train_step"));
    assert!(bytes(&folder.path("g.txt")).starts_with(b"graph @"));
    let program = folder.succeed(&["inspect", model, "--emit=program"]);
    assert!(program.contains("entry train_step") && program.contains("entry infer"));
    let json = folder.json(&["inspect", model, "--emit=optimised"]);
    assert!(only(&json, "emit")["text"].as_str().unwrap().starts_with("graph @"));
    assert_eq!(folder.run(&["inspect", model, "--emit=nonsense"]).status.code(), Some(2));
}

#[test]
fn reports() {
    let folder = Folder::new("reports");
    let model = folder.model();
    let text = folder.succeed(&["inspect", model]);
    for word in ["trainable", "arena", "kernels", "train_step", "optimise"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let summary = folder.json(&["inspect", model]);
    let summary = only(&summary, "summary");
    assert!(summary["trainable_parameters"].as_u64().unwrap() > 1000);
    assert!(summary["memory"]["arena_bytes"].as_u64().unwrap() > 0);
    let text = folder.succeed(&["inspect", model, "--rewrites"]);
    for word in ["equality saturation", "each rule once, in order", "conv2d-gradient"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let rewrites = folder.json(&["inspect", model, "--rewrites"]);
    let entry = &only(&rewrites, "rewrites")["entries"][0];
    let cost = |name: &str| entry["cost"][name].as_u64().unwrap();
    assert!(cost("saturate") <= cost("ordered") && cost("ordered") <= cost("off"));
    assert!(entry["fired"].as_array().unwrap().iter().all(|f| f["node"].is_string()));
    // What a search reports is what it gives when it is asked for alone.
    let ordered = folder.json(&["inspect", model, "--rewrites", "--opt", "ordered"]);
    assert_eq!(only(&ordered, "rewrites")["entries"][0]["cost"], entry["cost"]);
    assert!(folder.succeed(&["inspect", model, "--check"]).contains("the model imports"));
}

#[test]
fn evaluation_in_batches_and_at_once() {
    let folder = Folder::new("run");
    let model = folder.model();
    let count = 7;
    let values: Vec<f32> = (0..count * 64).map(|i| ((i * 37) % 101) as f32 / 101.0).collect();
    let array = NpyArray::f32(&[count, 1, 8, 8], values);
    write_npz(&folder.path("in.npz"), &[("input", array)]).unwrap();
    let run = |output: &str, more: &[&str]| {
        let arguments = ["run", model, "--input", "in.npz", "--output", output];
        folder.succeed(&[&arguments[..], more].concat());
        read_npz(&folder.path(output)).unwrap()
    };
    let whole = run("a.npz", &[]);
    assert_eq!((whole.len(), whole[0].0.as_str()), (1, "logits"));
    assert_eq!(whole[0].1.shape, [count, 2]);
    assert_eq!(run("b.npz", &["--batch", "3"]), whole);
    // Another algorithm gives other numbers of the same direction: NITI's form of a weight rescales its layer by up to 2.
    let niti = run("c.npz", &["--algorithm", "niti"]);
    assert_eq!(niti[0].1.shape, [count, 2]);
    let (a, b) = (whole[0].1.data.to_f32(), niti[0].1.data.to_f32());
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
    let cosine = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
    assert!(a != b && cosine > 0.99, "{cosine}: {a:?} {b:?}");

    let wrong = NpyArray::f32(&[1, 1, 9, 8], vec![0.0; 72]);
    write_npz(&folder.path("wrong.npz"), &[("input", wrong)]).unwrap();
    let arguments = ["run", model, "--output", "d.npz", "--input"];
    let message = folder.fail(&[&arguments[..], &["wrong.npz"]].concat());
    assert!(message.contains("wrong.npz") && message.contains("[1, 1, 8, 8]"), "{message}");
    let other = NpyArray::f32(&[1], vec![0.0]);
    write_npz(&folder.path("other.npz"), &[("y", other)]).unwrap();
    let message = folder.fail(&[&arguments[..], &["other.npz"]].concat());
    assert!(message.contains("other.npz") && message.contains("input"), "{message}");
    assert!(!folder.path("d.npz").exists());
}

/// A reader that has seen enough is no error.
#[test]
fn a_closed_pipe_is_success() {
    let folder = Folder::new("pipe");
    let model = folder.model();
    let mut child = folder
        .command(&["inspect", model, "--emit=asm"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("bug"), "{output:?}");
}

/// The example is a file of the artifact like the others; where there is none, nothing is written.
#[test]
fn an_example_on_request() {
    let folder = Folder::new("example");
    let model = folder.model();
    folder.json(&["compile", model, "--batch", "4", "-t", "c", "-o", "plain"]);
    folder.json(&["compile", model, "--batch", "4", "-t", "c", "-o", "with", "--example"]);
    assert!(!folder.path("plain/main.c").exists());
    let example = fs::read_to_string(folder.path("with/main.c")).unwrap();
    assert!(example.contains("digits_train_step(") && example.contains("digits_evaluate("));
    assert!(!example.contains('@'), "a part was not filled in");
    let manifest: serde_json::Value =
        serde_json::from_slice(&bytes(&folder.path("with/manifest.json"))).unwrap();
    let files = manifest["files"].as_array().unwrap();
    assert!(files.iter().any(|f| f["name"] == "main.c" && f["bytes"] == example.len()));
    let output = folder.run(&["compile", model, "-t", "host", "-o", "host", "--example"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no example"));
    assert!(!folder.path("host").exists());
}
