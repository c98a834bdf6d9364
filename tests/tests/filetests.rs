//! Tests as text: every `tests/filetests/*/*.qir` is a module, the passes to run, and what they must print.
//!
//! Lines `;! key: value` say what to run, as the options of `trainc opt` do; lines `;=` at the end are the expectation: the
//! module, or the error. `TRAINC_BLESS=1 cargo test -p trainc-tests --test filetests` writes the expectations anew.

use std::fs;
use std::path::{Path, PathBuf};

use trainc_driver::error::message;
use trainc_driver::opt::{self, Request};
use trainc_opt::rules::rules;

/// How a line of an expectation starts.
const EXPECTED: &str = ";=";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests")
}

/// Every test, in order.
fn files() -> Vec<PathBuf> {
    let list = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    list(&folder()).iter().flat_map(|folder| list(folder)).collect()
}

/// What the passes print for a text, or the error.
fn result(text: &str) -> String {
    let request = match Request::of(text) {
        Ok(request) => request,
        Err(e) => return format!("error: {}", e.shown(text)),
    };
    match opt::run(text.as_bytes(), &request) {
        Ok(result) => result,
        Err(e) => format!("error: {}", message(&e)),
    }
}

/// The text without its expectation, and with another one.
fn blessed(text: &str, result: &str) -> String {
    let own: Vec<&str> = text.lines().filter(|line| !line.starts_with(EXPECTED)).collect();
    let expected: Vec<String> =
        result.lines().map(|line| format!("{EXPECTED} {line}").trim_end().to_string()).collect();
    format!("{}\n\n{}\n", own.join("\n").trim_end(), expected.join("\n"))
}

#[test]
fn every_file_gives_what_it_says() {
    let bless = std::env::var_os("TRAINC_BLESS").is_some();
    let mut failures = Vec::new();
    let files = files();
    assert!(files.len() >= 18, "{} files", files.len());
    for path in files {
        let name = path.strip_prefix(folder()).expect("a file of the folder").display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(path.extension().and_then(|e| e.to_str()), Some("qir"), "{name}");
        let (own, _) = text.split_once(&format!("\n{EXPECTED}")).unwrap_or((&text, ""));
        let expected = blessed(&text, &result(own));
        if bless && expected != text {
            fs::write(&path, expected).unwrap_or_else(|e| panic!("{name}: {e}"));
        } else if expected != text {
            let (line, (was, is)) = text
                .lines()
                .chain(std::iter::once("the end"))
                .zip(expected.lines().chain(std::iter::once("the end")))
                .enumerate()
                .find(|(_, (was, is))| was != is)
                .unwrap_or((0, ("", "")));
            failures.push(format!("{name}:{}\n  here {is}\n  not  {was}", line + 1));
        }
    }
    let bless = "TRAINC_BLESS=1 cargo test -p trainc-tests --test filetests";
    assert!(failures.is_empty(), "{}\n`{bless}` writes what is printed now", failures.join("\n"));
}

#[test]
fn every_rule_has_a_file_in_which_it_fires() {
    for rule in rules() {
        let path = folder().join(format!("rules/{}.qir", rule.name.replace('-', "_")));
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("rule `{}`: {}: {e}", rule.name, path.display()));
        let pass = format!(";! pass: {}", rule.name);
        assert!(text.lines().any(|line| line == pass), "{}: no line `{pass}`", path.display());
        let expected: Vec<&str> = text.lines().filter(|l| l.starts_with(EXPECTED)).collect();
        let fired = |line: &&str| !line.contains("finds nothing here") && !line.contains("error:");
        let named = expected.iter().any(|line| line.contains("output"));
        assert!(named && expected.iter().all(fired), "{}: it does not fire", path.display());
    }
}
