//! Models and modules in the text form, on the command line.

mod common;

use std::fs;

use common::Folder;

/// A folder with the ONNX file of a small net and its text.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.succeed(&["zoo", "digits", "-o", "net.onnx"]);
    let text = folder.succeed(&["inspect", "net.onnx", "--emit=graph", "--with-data"]);
    fs::create_dir(folder.path("text")).expect("a folder");
    fs::write(folder.path("text/net.qir"), text).expect("the text");
    folder
}

fn files(folder: &Folder, name: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder.path(name)).expect("an artifact");
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|e| e.expect("an entry").path())
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&p).unwrap()))
        .collect();
    files.sort();
    files
}

/// The text in the place of the file gives the same bytes.
#[test]
fn a_text_compiles_to_the_same_artifact() {
    let folder = folder("text-compile");
    for (i, flags) in [
        &["-t", "c"][..],
        &["-t", "c", "-a", "fp32", "-b", "3", "--infer-batch", "2"],
        &["-t", "neon", "-a", "niti-finetune", "--train", "fc2*"],
    ]
    .iter()
    .enumerate()
    {
        let artifacts = ["net.onnx", "text/net.qir"].map(|model| {
            let name = format!("{}-{i}", model.replace(['/', '.'], "-"));
            let mut arguments = vec!["compile", model, "-o", &name];
            arguments.extend(*flags);
            folder.succeed(&arguments);
            files(&folder, &name)
        });
        assert!(artifacts[0].len() > 5);
        assert!(artifacts[0] == artifacts[1], "{flags:?}");
    }
}

#[test]
fn every_command_takes_a_text() {
    let folder = folder("text-commands");
    let text = "text/net.qir";
    // What is printed of a text is the text.
    let again = folder.succeed(&["inspect", text, "--emit=graph", "--with-data"]);
    assert_eq!(again, fs::read_to_string(folder.path(text)).unwrap());
    let check = folder.succeed(&["inspect", text, "--check", "-a", "niti"]);
    assert!(check.contains("conv2d x2") && check.contains("it compiles"), "{check}");
    let train = |model: &str| {
        folder.json(&["train", model, "--epochs", "1", "--steps", "3", "--batch", "8"])[1].clone()
    };
    assert_eq!(train(text)["test_accuracy"], train("net.onnx")["test_accuracy"]);
    // The first word is enough; hashes without data are drawn, with a word.
    let bare = folder.succeed(&["inspect", "net.onnx", "--emit=graph"]);
    fs::write(folder.path("bug_report.txt"), format!("; from a mail\n\n{bare}")).unwrap();
    let output = folder.run(&["inspect", "bug_report.txt"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("by their hash alone"), "{stderr}");
    let error = folder.fail(&["export", text, "--weights", "w.safetensors", "--onnx", "o.onnx"]);
    assert!(error.contains("text/net.qir: export changes the weights of an ONNX file"), "{error}");
    // A training graph is no model.
    let training = folder.succeed(&["inspect", text, "--emit=training"]);
    fs::write(folder.path("training.qir"), training).unwrap();
    let error = folder.fail(&["compile", "training.qir", "-o", "build"]);
    assert!(error.contains("training.qir: the text is a training graph"), "{error}");
}

#[test]
fn passes_run_on_texts() {
    let folder = folder("text-opt");
    let module =
        ["opt", "text/net.qir", "--pass", "autodiff,translate", "-a", "niti", "--with-data"];
    let module = folder.succeed(&module);
    // What a session makes of the model is what the passes make of its text.
    let session = ["inspect", "net.onnx", "-a", "niti", "--emit=qir", "--with-data"];
    assert!(folder.succeed(&session).starts_with(&module));
    fs::write(folder.path("module.qir"), &module).unwrap();
    let program = folder.succeed(&["opt", "module.qir", "-a", "niti", "-p", "optimise,plan"]);
    assert!(program.starts_with("program @") && program.contains("entry train_step("));
    let error = folder.fail(&["opt", "module.qir", "--pass", "autodiff"]);
    assert!(error.contains("module.qir: autodiff: it takes a forward graph"), "{error}");
    let error = folder.fail(&["opt", "module.qir"]);
    assert!(error.contains("no pass: give `--pass"), "{error}");
    fs::write(folder.path("bad.qir"), "graph @bad {\n  %0: f32[2] = input \"x\" {role=dada}\n}")
        .unwrap();
    let error = folder.fail(&["compile", "bad.qir", "-o", "build"]);
    let expected = "error: bad.qir: line 2, column 32: unknown role `dada`\n\
                    2 |   %0: f32[2] = input \"x\" {role=dada}\n  |                                ^^^^\n";
    assert!(error.ends_with(expected), "{error}");
    fs::write(folder.path("latin1.qir"), b"graph @g {\n ; \xe9\n}").unwrap();
    let error = folder.fail(&["inspect", "latin1.qir"]);
    assert!(error.contains("latin1.qir: line 2: the text is not UTF-8"), "{error}");
    let list = folder.json(&["opt", "--list"]);
    assert!(list.iter().any(|pass| pass["name"] == "autodiff" && pass["rule"] == false));
    assert!(list.iter().filter(|pass| pass["rule"] == true).count() > 10);
}
