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
    ("targets/opencl", "trainc-opencl", &["trainc-ir", "trainc-loops", "trainc-c"]),
    ("targets/pair", "trainc-pair", &["trainc-ir", "trainc-c", "trainc-neon", "trainc-hvx"]),
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
            "trainc-opencl",
            "trainc-pair",
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

/// Modules of one crate that use each other in a circle, and why they may. There are no others.
const CIRCLES: &[(&str, &[&str], &str)] = &[
    (
        "compiler/ir",
        &[
            "attributes",
            "graph",
            "implementation",
            "loops",
            "numeric",
            "ops",
            "program",
            "tensor_bytes",
            "text",
            "verify",
        ],
        "an operation's file has all of it: type rule, meaning, gradient (graphs), lowering (loops), attributes and text",
    ),
    (
        "compiler/opt",
        &["translate", "untranslated"],
        "what a translation lacks is found in its own e-graph, and is its error",
    ),
    (
        "compiler/loops",
        &["intervals", "locals"],
        "intervals look through locals, whose values are intervals",
    ),
    (
        "targets/c",
        &["arranged", "header", "program"],
        "who prints a program walks its launches as it is run",
    ),
    (
        "targets/c",
        &["heads", "leading", "loops"],
        "leading rounds of a loop are loops; a function's head is of its printer",
    ),
    (
        "targets/host",
        &["microkernels", "staging"],
        "a stage of a kernel is a micro-kernel's launch, which packs in stages",
    ),
    (
        "targets/riscv",
        &["access", "bits", "control", "decode", "hardware_loop", "multiply", "scalar", "vector"],
        "decoding asks each group of instructions, whose files speak of what was decoded",
    ),
    (
        "targets/hvx",
        &["documents", "emission", "fastrpc", "target"],
        "documents and the build description name the files that emission writes for the target",
    ),
    (
        "targets/xpulpv2",
        &["elements", "family", "mixed", "products", "target"],
        "a family of kernels is listed where the target asks, and uses what the families share",
    ),
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

/// The modules that a file names after `crate::`, without comments and tests.
fn used(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<&str> = text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect();
    let code = code.join(" ");
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (i, c) in group.char_indices() {
            match c {
                ',' | '}' if depth == 0 => {
                    found.insert(word(&group[start..i]));
                    start = i + 1;
                    if c == '}' {
                        break;
                    }
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found
}

/// For each module of a crate's first level, the others that its files name.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut stack = vec![source.to_path_buf()];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            stack.extend(entries.map(|e| e.expect("an entry").path()));
            continue;
        }
        let inside = path.strip_prefix(source).expect("inside").with_extension("");
        let first = inside.iter().next().expect("a name").to_string_lossy().into_owned();
        let own = path.file_name().is_some_and(|name| name == "tests.rs");
        if own || path.extension().is_none_or(|e| e != "rs") || ["lib", "main"].contains(&&*first) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a file");
        modules.entry(first).or_default().extend(used(&text));
    }
    modules
}

/// Everything that a module uses, by others too.
fn reached(modules: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut reached, mut stack) = (BTreeSet::new(), vec![from]);
    while let Some(module) = stack.pop() {
        for next in modules.get(module).into_iter().flatten() {
            if modules.contains_key(next) && next != module && reached.insert(next.clone()) {
                stack.push(next);
            }
        }
    }
    reached
}

#[test]
fn modules_use_each_other_one_way() {
    assert_eq!(used("use crate::{a::{b, c}, d};\n// crate::e\nlet x = crate::f::g();").len(), 3);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for (folder, _, _) in CRATES {
        let modules = modules(&root.join(folder).join("src"));
        for module in modules.keys() {
            let back = |other: &&String| reached(&modules, other).contains(module);
            let circle: Vec<String> =
                reached(&modules, module).iter().filter(back).cloned().collect();
            let known = |name: &String| {
                let mut listed = CIRCLES.iter().filter(|(of, ..)| of == folder);
                listed.any(|(_, names, _)| names.contains(&&**name) && names.contains(&&**module))
            };
            if !circle.iter().all(known) {
                found.push(format!("{folder}: {module} is in a circle with {circle:?}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
