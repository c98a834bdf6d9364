//! Generated parts of the documents equal what the code says. `TRAINC_BLESS=1 cargo test -p trainc-tests --test documents`
//! rewrites them.

use std::fs;
use std::path::{Path, PathBuf};

use trainc_driver::options::OPTIONS;
use trainc_driver::targets::TARGETS;
use trainc_ir::OpKind;
use trainc_ir::harness::{Runner, Tool};
use trainc_onnx_import::{
    supported_lite_ops_table, supported_ops, supported_ops_table, supported_qonnx_ops_table,
};
use trainc_opt::algorithm::{Algorithm, BUILT_IN};
use trainc_opt::coverage::{Coverage, coverage};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Checks (or, when blessing, rewrites) the text between `<!-- NAME -->` and `<!-- /NAME -->` in a document.
fn section(document: &str, name: &str, expected: &str) {
    let path = root().join(document);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{document}: {e}"));
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = text.find(&open).unwrap_or_else(|| panic!("{document} lacks {open}")) + open.len();
    let end = text.find(&close).unwrap_or_else(|| panic!("{document} lacks {close}"));
    if text[start..end] == *expected {
        return;
    }
    assert!(
        std::env::var_os("TRAINC_BLESS").is_some(),
        "the section `{name}` of {document} is not what the code says; \
         run `TRAINC_BLESS=1 cargo test -p trainc-tests --test documents`"
    );
    let new = format!("{}{expected}{}", &text[..start], &text[end..]);
    fs::write(&path, new).unwrap_or_else(|e| panic!("{document}: {e}"));
}

#[test]
fn imported_operators() {
    section("docs/onnx.md", "operators", &supported_ops_table());
    section("docs/onnx.md", "qonnx-operators", &supported_qonnx_ops_table());
    section("docs/tflite.md", "operators", &supported_lite_ops_table());
    let names: Vec<&str> = supported_ops().map(|op| op.op).collect();
    section("README.md", "operators", &format!("{}.\n", names.join(", ")));
}

#[test]
fn options() {
    let mut table =
        "| option | what it says | default | commands |\n| --- | --- | --- | --- |\n".to_string();
    for option in OPTIONS {
        let commands: Vec<String> = option.commands.iter().map(|c| format!("`{c}`")).collect();
        let cells = [
            format!("`{} {}`", option.name, option.value),
            option.summary(),
            option.default.to_string(),
            if commands.is_empty() { "all".to_string() } else { commands.join(", ") },
        ];
        table
            .push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
    }
    section("docs/cli.md", "options", &table);
}

#[test]
fn operations_that_algorithms_train() {
    let algorithms: Vec<Algorithm> = BUILT_IN
        .iter()
        .map(|(name, _)| Algorithm::built_in(name).expect("it is built in"))
        .collect();
    let training: Vec<&Algorithm> = algorithms.iter().filter(|a| a.inference.is_none()).collect();
    let columns: Vec<_> = training.iter().map(|algorithm| coverage(algorithm)).collect();
    let names: Vec<String> = training.iter().map(|a| format!("`{}`", a.name)).collect();
    let mut table =
        format!("| operation | {} |\n|{}\n", names.join(" | "), " --- |".repeat(1 + names.len()));
    for (row, (kind, _)) in columns[0].iter().enumerate() {
        let cells: Vec<&str> = columns
            .iter()
            .map(|column| {
                assert_eq!(column[row].0, *kind);
                match column[row].1 {
                    Coverage::Trains => "yes",
                    Coverage::Float => "in FP32",
                    Coverage::Removed => "left out",
                    Coverage::Forward => "forward only",
                    Coverage::None => "",
                }
            })
            .collect();
        table.push_str(&format!("| `{}` | {} |\n", kind.name(), cells.join(" | ")));
    }
    section("docs/algorithms.md", "trains", &table);
}

#[test]
fn operations_of_the_ir() {
    let mut table = String::from("| operation | attributes | meaning |\n| --- | --- | --- |\n");
    for kind in OpKind::ALL {
        let summary = kind.summary();
        let first = summary.trim().split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().collect();
        let text = words.join(" ").replace('|', "\\|");
        table.push_str(&format!("| `{}` | {} | {text} |\n", kind.name(), kind.fields().join(", ")));
    }
    section("docs/operations.md", "operations", &table);
}

/// The tools of each target as it names them.
#[test]
fn tools_of_verification() {
    let mut table = String::from(
        "| target | compiler | runs in | Debian packages |\n| --- | --- | --- | --- |\n",
    );
    for target in TARGETS {
        let name = target.description().name;
        let toolchain = target.toolchain().expect("every target is run");
        let compiler = |tool: &Tool| {
            let linked = ["-static", "-nostartfiles"].into_iter();
            let linked = linked.filter(|flag| tool.arguments.iter().any(|a| a == flag));
            let words: Vec<&str> = std::iter::once(tool.command.as_str()).chain(linked).collect();
            format!("`{}`", words.join(" "))
        };
        let emulator = |tool: &Tool| {
            format!("`{}`", format!("{} {}", tool.command, tool.arguments.join(" ")).trim_end())
        };
        let list = |tools: &[Tool], cell: &dyn Fn(&Tool) -> String| {
            tools.iter().map(cell).collect::<Vec<_>>().join(" or ")
        };
        let runs = match &toolchain.runner {
            Runner::Native => String::new(),
            Runner::Emulator(tools) => list(tools, &emulator),
            Runner::Simulator(_) => "trainc itself".to_string(),
        };
        table.push_str(&format!(
            "| `{name}` | {} | {runs} | `{}` |\n",
            list(&toolchain.compilers, &compiler),
            toolchain.packages().join(" ")
        ));
    }
    section("docs/verify.md", "targets", &table);
}
