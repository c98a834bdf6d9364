//! The map is the territory: dependencies between the crates point the way ARCHITECTURE.md says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Each crate's folder, name and the workspace crates it may depend on.
const CRATES: &[(&str, &str, &[&str])] = &[
    ("compiler/ir", "trainc-ir", &[]),
    ("compiler/data", "trainc-data", &[]),
    ("compiler/opt", "trainc-opt", &["trainc-ir"]),
    ("onnx-import", "trainc-onnx-import", &["trainc-ir"]),
    ("compiler/loops", "trainc-loops", &["trainc-ir"]),
    ("targets/c", "trainc-c", &["trainc-ir", "trainc-loops"]),
    ("targets/host", "trainc-host", &["trainc-ir", "trainc-loops", "trainc-c"]),
    ("targets/neon", "trainc-neon", &["trainc-ir", "trainc-loops", "trainc-c"]),
    ("targets/hvx", "trainc-hvx", &["trainc-ir", "trainc-loops", "trainc-c"]),
    ("targets/riscv", "trainc-riscv", &[]),
    ("targets/xpulpv2", "trainc-xpulpv2", &["trainc-ir", "trainc-c", "trainc-riscv"]),
    (
        "compiler/driver",
        "trainc-driver",
        &[
            "trainc-ir",
            "trainc-opt",
            "trainc-data",
            "trainc-onnx-import",
            "trainc-c",
            "trainc-host",
            "trainc-neon",
            "trainc-hvx",
            "trainc-xpulpv2",
        ],
    ),
    ("compiler/cli", "trainc", &["trainc-driver"]),
    ("compiler/build", "trainc-build", &["trainc-ir", "trainc-onnx-import", "trainc-driver"]),
];

/// External crates that one crate alone may name.
const CONFINED: &[(&str, &str)] = &[
    ("egg", "trainc-opt"),
    ("petgraph", "trainc-opt"),
    ("prost", "trainc-onnx-import"),
    ("cranelift-codegen", "trainc-host"),
    ("clap", "trainc"),
    ("anyhow", "trainc"),
    ("cc", "trainc-build"),
];

/// Names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            names.push(name.to_string());
        }
    }
    names
}

#[test]
fn dependencies_point_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifests: BTreeMap<&str, Vec<String>> = CRATES
        .iter()
        .map(|(folder, name, _)| {
            let path = root.join(folder).join("Cargo.toml");
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            (*name, dependencies(&text))
        })
        .collect();
    for (_, name, allowed) in CRATES {
        for dependency in &manifests[name] {
            if dependency.starts_with("trainc") {
                assert!(allowed.contains(&dependency.as_str()), "{name} must not use {dependency}");
            }
        }
    }
    for (external, owner) in CONFINED {
        for (name, found) in &manifests {
            assert!(
                name == owner || !found.iter().any(|d| d == external),
                "{external} belongs to {owner}, not {name}"
            );
        }
        assert!(manifests[owner].iter().any(|d| d == external), "{owner} does not use {external}");
    }
}

#[test]
fn the_map_names_every_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let workspace = fs::read_to_string(root.join("Cargo.toml")).expect("Cargo.toml");
    for (folder, name, _) in CRATES {
        assert!(map.contains(&format!("`{folder}`")) && map.contains(name), "{name} on the map");
        assert!(workspace.contains(&format!("\"{folder}\"")), "{folder} in the workspace");
    }
}

/// Packages that a package is built of (without its own tests'), with these flags.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|l| l.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

/// It sits in other people's builds: no machine code generator, no data formats, few crates.
#[test]
fn the_build_crate_is_light() {
    const MOST: usize = 65;
    let heavy = |packages: &BTreeSet<String>| -> Vec<String> {
        let names = ["cranelift-codegen ", "image ", "zip ", "tar ", "safetensors ", "clap "];
        let is = |package: &&String| names.iter().any(|name| package.starts_with(name));
        packages.iter().filter(is).cloned().collect()
    };
    let packages = tree(&["-p", "trainc-build"]);
    assert!(heavy(&packages).is_empty(), "{:?}", heavy(&packages));
    assert!(packages.len() <= MOST, "{} crates: {packages:#?}", packages.len());
    assert!(!heavy(&tree(&["-p", "trainc-build", "--features", "host"])).is_empty());
}

/// egg is named in one folder only.
#[test]
fn the_e_graph_stays_in_its_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/opt/src");
    let mut found = Vec::new();
    let mut stack = vec![folder.clone()];
    while let Some(path) = stack.pop() {
        if path == folder.join("egraph") {
            continue;
        }
        if path.is_dir() {
            stack.extend(
                fs::read_dir(&path).expect("a folder").map(|e| e.expect("an entry").path()),
            );
        } else if fs::read_to_string(&path).expect("a file").contains("egg::") {
            found.push(path);
        }
    }
    assert!(found.is_empty(), "egg is named in {found:?}");
}
