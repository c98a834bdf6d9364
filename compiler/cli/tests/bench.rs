//! `trainc bench`.

mod common;

use std::fs;

use common::Folder;

#[test]
fn a_model_and_its_artifact_cost_the_same() {
    let folder = Folder::new("bench");
    let model = folder.model();
    let flags = ["--batch", "2", "--target", "hvx", "--seed", "3"];
    folder.succeed(&[&["compile", model, "-o", "out"][..], &flags].concat());
    let of_model = folder.json(&[&["bench", model][..], &flags].concat());
    let of_folder = folder.json(&["bench", "out", "--map", "arena.svg"]);
    let [of_model, of_folder] = [of_model, of_folder].map(|lines| lines.last().unwrap().clone());
    assert_eq!(of_model["reason"], "benched");
    assert_eq!((&of_model["target"], &of_model["unit"]), (&"hvx".into(), &"packets".into()));
    for field in ["macs", "code_bytes", "arena_bytes", "state_bytes", "constant_bytes"] {
        assert!(of_model[field].is_u64(), "{field}: {of_model}");
        assert_eq!(of_model[field], of_folder[field], "{field}");
    }
    let launch = &of_model["launches"][0];
    for field in ["launch", "macs", "units", "estimate"] {
        assert!(launch[field].is_u64(), "{field}: {launch}");
    }
    assert!(launch["node"].is_string() && launch["kernel"].is_string());
    assert!(fs::read_to_string(folder.path("arena.svg")).unwrap().starts_with("<svg "));
    let text = folder.succeed(&["bench", "out", "--entry", "infer"]);
    assert!(text.contains("digits for hvx, infer, batch 1") && text.contains("arena"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = Folder::new("bench-wrong");
    let model = folder.model();
    folder.succeed(&["compile", model, "--target", "c", "-o", "out"]);
    for (command, said) in [
        (&["bench", "out", "--batch", "3"][..], "measured as it was compiled"),
        (&["bench", "out", "--entry", "train"], "train_step, infer"),
        (&["bench", "nowhere"], "nowhere"),
    ] {
        let output = folder.run(command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains(said), "{command:?}: {stderr}");
    }
}
