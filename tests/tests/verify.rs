//! `trainc_driver::verify`: artifacts of every kind of target are bit-exact, damaged ones are caught at the launch that
//! is wrong, and folders that are not what trainc wrote are refused.

use std::fs;
use std::path::{Path, PathBuf};

use trainc_driver::config::Config;
use trainc_driver::emit;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::verify::{Finding, Outcome, Report, VerifyOptions, junit, verify};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_onnx_import::proto::{AttributeProto, Message, ModelProto, NodeProto, TensorProto};

/// An artifact of the digits net for a batch of 3, in a folder of its own.
fn artifact(test: &str, target: &str) -> PathBuf {
    named_artifact(test, target, "digits")
}

fn digits() -> Vec<u8> {
    build(&ZooSpec::new("digits").expect("in the zoo")).expect("the zoo builds")
}

fn named_artifact(test: &str, target: &str, name: &str) -> PathBuf {
    let source = ModelSource::Bytes { name: name.to_string(), bytes: digits() };
    let target = target.to_string();
    compiled(test, &source, &Config { target, batch: Some(3), ..Config::default() })
}

fn compiled(test: &str, source: &ModelSource, config: &Config) -> PathBuf {
    let session = Session::new(source, config, Entries::TrainAndInfer);
    let session = session.expect("the model compiles");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verify").join(test);
    let _ = fs::remove_dir_all(&folder);
    let files = emit::artifact(&session, &[]).expect("the artifact is emitted");
    emit::write_folder(&folder, &files).expect("the artifact is written");
    folder
}

fn run(folder: &Path, options: &VerifyOptions) -> Report {
    verify(folder, options, &mut |_| {}).unwrap_or_else(|e| panic!("{}: {e:#}", folder.display()))
}

/// One training step on random data.
fn one_step() -> VerifyOptions {
    VerifyOptions { steps: 1, extremes: false, ..VerifyOptions::default() }
}

fn finding(folder: &Path, options: &VerifyOptions) -> Finding {
    let report = run(folder, options);
    assert!(!report.bit_exact);
    assert_eq!(report.calls.iter().filter(|c| c.outcome == Outcome::Failed).count(), 1);
    report.finding.expect("a finding")
}

/// Replaces a text that occurs once in a file.
fn edit(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).expect("the file is read");
    assert_eq!(text.matches(from).count(), 1, "`{from}` in {file}");
    fs::write(path, text.replacen(from, to, 1)).expect("the file is written");
}

/// Adds a statement to the end of a function.
fn append(folder: &Path, function: &str, statement: &str) {
    let path = folder.join("digits.c");
    let text = fs::read_to_string(&path).expect("the source is read");
    let start = text.find(&format!("\nstatic void {function}(")).expect("the function is there");
    let end = start + text[start..].find("\n}\n").expect("the function ends");
    let text = format!("{}\n    {statement}{}", &text[..end], &text[end..]);
    fs::write(path, text).expect("the source is written");
}

/// The function of a launch as the emitted source calls it.
fn function_of_launch(folder: &Path, entry: &str, node: &str) -> (usize, String) {
    let text = fs::read_to_string(folder.join("digits.c")).expect("the source is read");
    let body = text.split(&format!("\nvoid digits_{entry}(")).nth(1).expect("the entry is there");
    let mut before = "";
    for line in body.lines() {
        let Some(hook) = line.trim().strip_prefix("TRAINC_LAUNCHED(arena, state, ") else {
            if let Some((name, _)) = line.trim().split_once('(') {
                before = name;
            }
            continue;
        };
        if hook.ends_with(&format!("\"{node}\");")) {
            let number = hook.split(',').next().unwrap_or_default();
            return (number.parse().expect("a number"), before.to_string());
        }
    }
    panic!("no launch of `{node}` in {entry}");
}

#[test]
fn whole_artifacts_are_bit_exact() {
    // Initial states: one, and one before each of five kinds of extreme data. A call of each entry for each case. A
    // checkpoint, as it was saved and as it was loaded.
    let options = VerifyOptions { steps: 2, seed: 7, ..VerifyOptions::default() };
    for target in ["host", "c", "neon", "armv7-neon", "hvx", "hvx+v62", "xpulpv2"] {
        let report = run(&artifact(&format!("exact-{target}"), target), &options);
        assert_eq!(report.finding, None, "{target}");
        assert!(report.bit_exact && report.notes.is_empty(), "{target}: {:?}", report.notes);
        let checkpoints = usize::from(target != "host");
        assert_eq!(report.calls.len(), 1 + 2 * (2 + 5) + checkpoints, "{target}");
        assert!(report.calls.iter().all(|c| c.outcome == Outcome::Equal));
        // Six initial states and the states after fourteen calls hold 22416 weights each; then there are losses and
        // seven times the scores of one example.
        assert_eq!(
            report.elements,
            (6 + 14 + 2 * checkpoints as u64) * 22416 + 7 * (1 + 10),
            "{target}"
        );
    }
}

/// Mistakes of those who carry the runtime to a machine of their own.
#[test]
fn wrong_checkpoints_are_found() {
    let mistakes = [
        ("get(from + CHECKSUM, 4) != ", "0 && get(from + CHECKSUM, 4) != ", "was not refused"),
        (
            "put(to + STEP, step, 8)",
            "put(to + STEP, step, 4)",
            "header is not what its format says",
        ),
        ("*step = get(from + STEP, 8)", "*step = get(from + STEP, 4)", "is another when loaded"),
        (
            "const unsigned char *from =",
            "*step = 1;\n    const unsigned char *from =",
            "changed the state",
        ),
    ];
    let folder = artifact("checkpoints", "c");
    let path = folder.join("trainc_rt.c");
    let whole = std::fs::read_to_string(&path).expect("the runtime");
    let (before, load) = whole.split_once("void trainc_save").expect("checkpoints");
    for (right, wrong, said) in mistakes {
        assert_eq!(load.matches(right).count(), 1, "{right}");
        let text = format!("{before}void trainc_save{}", load.replace(right, wrong));
        std::fs::write(&path, text).expect("written");
        let finding = run(&folder, &one_step()).finding.expect("a finding");
        assert_eq!((&finding.entry[..], finding.step), ("checkpoint", 0));
        assert!(finding.to_string().contains(said), "{finding}");
    }
}

/// The simulator counts each launch, on one core and on eight, and what the eight compute is compared, too.
#[test]
fn costs_of_launches() {
    let folder = artifact("costs", "xpulpv2");
    let report = run(&folder, &one_step());
    assert!(report.bit_exact, "{:?}", report.finding);
    let entries = |name: &str| report.launches.iter().filter(|l| l.entry == name).count();
    assert!(entries("train_step") > 20 && entries("infer") > 5);
    for launch in &report.launches {
        let on: Vec<&str> = launch.costs.iter().map(|cost| cost.on).collect();
        assert_eq!(on, ["1 core", "8 cores"]);
        // No instruction takes less than a cycle on one core.
        assert!(launch.costs[0].cycles >= launch.costs[0].instructions, "{launch:?}");
    }
    let cycles = |i: usize| report.launches.iter().map(|l| l.costs[i].cycles).sum::<u64>();
    assert!(2 * cycles(1) < cycles(0), "{} and {}", cycles(0), cycles(1));
    let names = well_formed(&junit(&report));
    let properties = names.iter().filter(|name| *name == "property").count();
    assert_eq!(properties, 4 * report.launches.len());

    // Wrong on the cores alone.
    let text = fs::read_to_string(folder.join("digits.c")).expect("the source is read");
    let function = "static void softmax_cross_entropy_f32_scalar(";
    let start = text.find(function).expect("the kernel is there");
    let end = start + text[start..].find("\n}\n").expect("it ends");
    let wrong = "\n#ifdef CORES\n    y0[0] += 1;\n#endif";
    let text = format!("{}{wrong}{}", &text[..end], &text[end..]);
    fs::write(folder.join("digits.c"), text).expect("the source is written");
    let finding = run(&folder, &one_step()).finding.expect("a finding");
    assert_eq!(
        (finding.entry.as_str(), finding.differences[0].tensor.as_str()),
        ("train_step", "loss")
    );
    assert!(finding.remark.expect("a remark").contains("8 cores"));
    let not_counted = VerifyOptions { counts: false, ..one_step() };
    let report = run(&folder, &not_counted);
    assert!(report.bit_exact && report.launches.is_empty());
}

#[test]
fn every_launch_of_a_step() {
    for target in ["c", "neon+dotprod", "neon+i8mm", "hvx"] {
        let folder = artifact(&format!("launches-{target}"), target);
        let options = VerifyOptions { launches: true, ..one_step() };
        let report = run(&folder, &options);
        assert!(report.bit_exact, "{target}: {:?}", report.finding);
        // Beside what calls alone compare: the activations of both entries, and each new weight once more.
        let activations = 64 + 16 * 64 + 16 * 16 + 32 * 16 + 32 * 4 + 128 + 10;
        // A batch of three in training, one example in inference.
        let least = 3 * 22416 + (1 + 10) + 22416 + (3 + 1) * activations;
        assert!(report.elements > least, "{target}: {}", report.elements);
    }
    let folder = artifact("launches-host", "host");
    let options = VerifyOptions { launches: true, ..one_step() };
    let error = verify(&folder, &options, &mut |_| {}).expect_err("objects have no hooks");
    assert!(error.to_string().contains("no hook"), "{error}");
}

#[test]
fn an_update_that_leaves_out_its_last_element() {
    let folder = artifact("update", "c");
    edit(
        &folder,
        "digits.c",
        "for (int32_t i = 0; i < 144; i++) {\n        y0[i] = (int8_t)trainc_minimum32(trainc_maximum32(x0[i] - x1[i]",
        "for (int32_t i = 0; i < 143; i++) {\n        y0[i] = (int8_t)trainc_minimum32(trainc_maximum32(x0[i] - x1[i]",
    );
    let report = run(&folder, &VerifyOptions::default());
    assert_eq!(report.notes, ["`digits.c` is not as trainc wrote it; it was verified as it is"]);
    let finding = report.finding.expect("a finding");
    assert_eq!((finding.case.as_str(), finding.entry.as_str()), ("step 0", "train_step"));
    assert_eq!(finding.differences.len(), 1);
    let launch = finding.launch.expect("the launch is found");
    assert_eq!(launch.kernel, "saturating_subtract_i8_16x1x3x3");
    assert_eq!(launch.node, "conv1.weight/update");
    for difference in [&finding.differences[0], &launch.differences[0]] {
        assert_eq!(difference.tensor, "conv1.weight");
        assert_eq!(
            (difference.index, &difference.coordinates[..]),
            (Some(143), &[15, 0, 2, 2][..])
        );
        assert_eq!((difference.differing, difference.elements), (1, 144));
        assert_ne!(difference.expected, difference.found);
    }
    // Everything after the failure is left out.
    let outcomes: Vec<Outcome> = report.calls.iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes[..3], [Outcome::Equal, Outcome::Failed, Outcome::Skipped]);
}

/// A wrong value in the middle of the forward pass makes nearly everything after it wrong; its launch is named.
#[test]
fn a_wrong_kernel_under_an_emulator() {
    let folder = artifact("emulator", "neon");
    let (number, function) = function_of_launch(&folder, "train_step", "pool2");
    append(&folder, &function, "y0[7] = (int8_t)(y0[7] ^ 64);");
    let finding = finding(&folder, &one_step());
    assert!(finding.differences.len() > 1, "{finding}");
    let launch = finding.launch.expect("the launch is found");
    assert_eq!((launch.launch, launch.kernel.as_str()), (number, function.as_str()));
    assert_eq!(launch.node, "pool2");
    assert_eq!(launch.differences.len(), 1);
    assert_eq!(launch.differences[0].index, Some(7));
}

/// NITI drops exponents of gradients, so that a wrong one changes no weight: only the launches show it.
#[test]
fn a_wrong_exponent_between_launches() {
    let folder = artifact("exponent", "c");
    let (number, function) = function_of_launch(&folder, "train_step", "pool1/gradient_input");
    append(&folder, &function, "y0_exponent[0] += 1;");
    assert!(run(&folder, &one_step()).bit_exact);
    let finding = finding(&folder, &VerifyOptions { launches: true, ..one_step() });
    let launch = finding.launch.expect("the launch is found");
    assert_eq!((launch.launch, launch.kernel), (number, function));
    assert_eq!((launch.differences[0].index, launch.differences[0].differing), (None, 0));
}

#[test]
fn writing_beyond_a_result() {
    let folder = artifact("overrun", "c");
    append(&folder, "softmax_cross_entropy_f32_scalar", "y0[1] = 0;");
    let finding = finding(&folder, &one_step());
    assert!(finding.differences.is_empty(), "{finding}");
    assert_eq!(finding.overruns, ["result `loss`"]);
    let launch = finding.launch.expect("the launch is found");
    assert_eq!(launch.kernel, "softmax_cross_entropy_f32_scalar");
    assert_eq!(launch.overruns, ["result `loss`"]);
}

#[test]
fn a_program_that_ends_early() {
    let folder = artifact("crash", "neon");
    append(&folder, "softmax_cross_entropy_f32_scalar", "*(volatile char *)16 = 1;");
    let finding = finding(&folder, &one_step());
    assert!(finding.crash.is_some(), "{finding}");
    let launch = finding.launch.expect("the launch is found");
    assert_eq!(launch.kernel, "softmax_cross_entropy_f32_scalar");
    assert!(launch.remark.is_some_and(|r| r.contains("ended in it")));
}

#[test]
fn a_wrong_initial_state() {
    let folder = artifact("initial", "c");
    let data = fs::read_to_string(folder.join("digits_data.c")).expect("the data are read");
    let word = data.lines().find(|l| l.starts_with("    0x")).expect("a word");
    edit(&folder, "digits_data.c", word, &word.replacen("    0x", "    1+0x", 1));
    let finding = finding(&folder, &one_step());
    assert_eq!(finding.entry, "init");
    assert_eq!((finding.differences.len(), finding.launch), (1, None));
    assert_eq!(finding.differences[0].tensor, "conv1.weight");
    assert_eq!(finding.differences[0].index, Some(0));
}

/// Another object than the modules say: caught, without a launch.
#[test]
fn an_object_of_other_weights() {
    let folder = artifact("object", "host");
    let path = folder.join("digits.o");
    let mut object = fs::read(&path).expect("the object is read");
    let weights = trainc_driver::data::read_safetensors(&folder.join("weights.safetensors"));
    let weights = weights.expect("weights");
    let first = weights.iter().find(|t| t.name == "conv1.weight.int8").expect("a weight");
    let trainc_driver::data::TensorData::I8(values) = &first.data else { panic!("not int8") };
    let values: Vec<u8> = values.iter().map(|&v| v as u8).collect();
    let at = object.windows(values.len()).position(|w| w == values).expect("the initial state");
    object[at + 9] ^= 1;
    fs::write(path, object).expect("the object is written");
    let finding = finding(&folder, &one_step());
    assert_eq!((finding.entry.as_str(), finding.differences[0].index), ("init", Some(9)));
}

/// The kernels that an object is linked with choose by what the processor has: one without AVX, one with AVX2.
#[test]
#[cfg(target_arch = "x86_64")]
fn an_object_on_older_processors() {
    let folder = artifact("processors", "host");
    for processor in ["Nehalem", "Haswell"] {
        let runner = Some(format!("qemu-x86_64 -cpu {processor}"));
        let report = run(&folder, &VerifyOptions { runner, ..VerifyOptions::default() });
        assert!(report.bit_exact, "{processor}: {:?}", report.finding);
    }
}

#[test]
fn the_seed_decides() {
    let folder = artifact("seed", "c");
    edit(
        &folder,
        "digits.c",
        "for (int32_t i = 0; i < 144; i++) {\n        y0[i] = (int8_t)trainc_minimum32(trainc_maximum32(x0[i] - x1[i]",
        "for (int32_t i = 0; i < 14; i++) {\n        y0[i] = (int8_t)trainc_minimum32(trainc_maximum32(x0[i] - x1[i]",
    );
    let with = |seed: u64| run(&folder, &VerifyOptions { seed, ..one_step() });
    let first = with(3);
    assert_eq!(first, with(3));
    assert_eq!(junit(&first), junit(&with(3)));
    assert_ne!(first.finding, with(4).finding);
}

#[test]
fn folders_that_are_not_artifacts_are_refused() {
    let folder = artifact("refused", "c");
    let refused = |what: &str| {
        let error = verify(&folder, &one_step(), &mut |_| {});
        trainc_driver::error::message(&error.expect_err(what))
    };
    let change = |file: &str, change: &dyn Fn(&str) -> String| {
        let path = folder.join(file);
        let old = fs::read_to_string(&path).expect("the file is read");
        let new = change(&old);
        assert_ne!(new, old, "{file}");
        fs::write(&path, new).expect("the file is written");
        old
    };
    let manifest = fs::read_to_string(folder.join("manifest.json")).expect("the manifest");
    let program = manifest.lines().find(|l| l.starts_with("  \"program\"")).expect("a hash");
    let expect = |file: &str, edit: &dyn Fn(&str) -> String, words: &[&str]| {
        let old = change(file, edit);
        let message = refused(file);
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
        fs::write(folder.join(file), old).expect("the file is written back");
    };
    // Another program: of an earlier planner, say.
    let other = |m: &str| m.replace(program, "  \"program\": \"0123456789abcdef\",");
    expect("manifest.json", &other, &["another program", "0123456789abcdef", "compile again"]);
    let without = |m: &str| m.replace(&format!("{program}\n"), "");
    expect("manifest.json", &without, &["manifest.json", "another format", "compile again"]);
    let format = |m: &str| m.replace("\"format\": 1", "\"format\": 99");
    expect("manifest.json", &format, &["another format"]);
    let target = |m: &str| m.replace("\"target\": \"c\"", "\"target\": \"abacus\"");
    expect("manifest.json", &target, &["no target `abacus`"]);
    expect("manifest.json", &|_| "{}".to_string(), &["manifest.json", "not a manifest"]);
    let outside = |m: &str| m.replace("\"name\": \"digits.h\"", "\"name\": \"../digits.h\"");
    expect("manifest.json", &outside, &["../digits.h"]);
    let gone = |m: &str| m.replace("\"name\": \"digits.h\"", "\"name\": \"gone.h\"");
    expect("manifest.json", &gone, &["gone.h"]);
    let module = |m: &str| m.replacen("strides=[1, 1]", "strides=[2, 2]", 1);
    expect("train_step.module.txt", &module, &["train_step.module.txt", "edited"]);
    expect("digits.c", &|c| c.replace("int32_t", "inte32_t"), &["cc", "inte32_t"]);
    assert!(run(&folder, &one_step()).bit_exact);

    let weights = folder.join("weights.safetensors");
    let mut bytes = fs::read(&weights).expect("weights");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&weights, bytes).expect("weights");
    assert!(refused("weights").contains("weights.safetensors"));
    fs::remove_file(folder.join("manifest.json")).expect("removed");
    let message = refused("no manifest");
    assert!(message.contains("not an artifact") && message.contains("refused"), "{message}");
}

/// A tensor that is no weight is kept beside the weights.
#[test]
fn constants_of_the_model() {
    let mut model = ModelProto::decode(digits().as_slice()).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    let input = graph.input[0].name.clone();
    for node in &mut graph.node {
        node.input.iter_mut().filter(|i| **i == input).for_each(|i| *i = "shifted".to_string());
    }
    let constant = TensorProto {
        dims: vec![1, 1, 8, 8],
        data_type: 1,
        float_data: (0..64).map(|i| i as f32 / 64.0).collect(),
        ..TensorProto::default()
    };
    let value = AttributeProto {
        name: "value".to_string(),
        r#type: 4,
        t: Some(Box::new(constant)),
        ..AttributeProto::default()
    };
    let node = |op: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: op.to_string(),
        name: output.to_string(),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.to_string()],
        ..NodeProto::default()
    };
    let source = NodeProto { attribute: vec![value], ..node("Constant", &[], "mean") };
    graph.node.insert(0, node("Add", &[&input, "mean"], "shifted"));
    graph.node.insert(0, source);
    let source = ModelSource::Bytes { name: "digits".into(), bytes: model.encode_to_vec() };
    let (algorithm, target) = ("fp32".to_string(), "c".to_string());
    let config = Config { algorithm, target, batch: Some(2), ..Config::default() };
    let folder = compiled("constants", &source, &config);
    assert!(folder.join("constants.safetensors").is_file());
    let report = run(&folder, &VerifyOptions::default());
    assert!(report.bit_exact, "{:?}", report.finding);
    let path = folder.join("constants.safetensors");
    let mut bytes = fs::read(&path).expect("constants");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&path, bytes).expect("constants");
    let error = verify(&folder, &one_step(), &mut |_| {}).expect_err("damaged").to_string();
    assert!(error.contains("constants.safetensors"), "{error}");
}

/// Names that neither C nor XML can hold as they are.
#[test]
fn odd_names() {
    let name = "1 <a> & \"b\" */ c's ]]> \u{e9}\u{1}";
    let folder = named_artifact("odd-c", "c", name);
    let mut report = run(&folder, &one_step());
    assert!(report.bit_exact, "{:?}", report.finding);
    report.name = name.to_string();
    report.target = name.to_string();
    for call in &mut report.calls {
        (call.case, call.entry) = (name.to_string(), name.to_string());
    }
    let names = well_formed(&junit(&report));
    assert_eq!(names.iter().filter(|n| *n == "testcase").count(), 4);
    let folder = named_artifact("odd-host", "host", name);
    assert!(run(&folder, &one_step()).bit_exact);
}

#[test]
fn a_report_for_continuous_integration() {
    let folder = artifact("junit", "c");
    append(&folder, "softmax_cross_entropy_f32_scalar", "y0[0] += 1;");
    let report = run(&folder, &VerifyOptions { steps: 2, ..one_step() });
    let xml = junit(&report);
    let names = well_formed(&xml);
    let count = |name: &str| names.iter().filter(|n| *n == name).count();
    assert_eq!((count("testsuite"), count("testcase")), (1, 5));
    assert_eq!((count("failure"), count("skipped")), (1, 3));
    assert!(xml.contains("tests=\"5\" failures=\"1\" errors=\"0\" skipped=\"3\""), "{xml}");
    assert!(xml.contains("kernel `softmax_cross_entropy_f32_scalar` for node `loss` is wrong"));
}

/// Checks an XML document: one root, tags that match, attributes that are quoted and unique, no stray markup. Names of
/// its elements.
fn well_formed(xml: &str) -> Vec<String> {
    let (mut names, mut open, mut roots) = (Vec::new(), Vec::new(), 0);
    let text = |text: &str| {
        assert!(!text.contains(['<', '>', '"', '\u{1}']), "stray markup: {text}");
        for entity in text.split('&').skip(1) {
            let (entity, _) = entity.split_once(';').expect("an entity ends");
            let known = ["amp", "lt", "gt", "quot", "apos"].contains(&entity);
            let number = entity.strip_prefix('#').is_some_and(|n| n.parse::<u32>().is_ok());
            assert!(known || number, "&{entity};");
        }
    };
    let declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    let mut rest = xml.strip_prefix(declaration).expect("a declaration");
    while let Some((before, after)) = rest.split_once('<') {
        text(before);
        assert!(!open.is_empty() || before.trim().is_empty(), "text outside of the root");
        let (mut tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let empty = tag.ends_with('/');
        tag = tag.strip_suffix('/').unwrap_or(tag);
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        roots += usize::from(open.is_empty());
        names.push(name.to_string());
        let mut seen = Vec::new();
        while !attributes.trim().is_empty() {
            let (key, value) = attributes.split_once("=\"").expect("a quoted attribute");
            let (value, after) = value.split_once('"').expect("an attribute ends");
            text(value);
            assert!(!seen.contains(&key.trim()), "{key} twice");
            seen.push(key.trim());
            attributes = after;
        }
        if !empty {
            open.push(name.to_string());
        }
    }
    assert!(open.is_empty() && roots == 1 && rest.trim().is_empty(), "{xml}");
    names
}
