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
    assert!(files.len() >= 20, "{} files", files.len());
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

/// Damaged texts give a module or an error with its place: the tests' texts with pieces removed, doubled and replaced.
#[test]
fn damaged_texts_give_errors() {
    use trainc_opt::rules::instance::Random;
    const WORDS: &str = "% %0 %x { } [ ] < > , = \" ; 0 -1 1 7 65536 4294967296 18446744073709551615 1e38 \
                         nan7fc00000 f32 i8<2^e> u4 f32[] f32[0] output update relu reshape conv2d matmul";
    const PIECES: [&str; 7] =
        ["", "\n", "graph @g {", "data 0x12 {ff}", "blob 0x12 of 4 elements", "\u{e9}", "\u{202e}"];
    let pieces: Vec<&str> = WORDS.split(' ').chain(PIECES).collect();
    let mut random = Random::new(11);
    for path in files() {
        let text = fs::read_to_string(&path).expect("a test");
        let (own, _) = text.split_once(&format!("\n{EXPECTED}")).unwrap_or((&text, ""));
        let Ok(request) = Request::of(own) else { continue };
        for _ in 0..400 {
            let mut damaged: Vec<char> = own.chars().collect();
            for _ in 0..random.range(1, 3) {
                let at = random.range(0, damaged.len() - 1);
                let end = (at + random.range(0, 9)).min(damaged.len());
                let piece = random.choose(&pieces);
                damaged.splice(at..end, piece.chars());
            }
            let damaged: String = damaged.into_iter().collect();
            let run = || opt::run(damaged.as_bytes(), &request).map_err(|e| message(&e));
            match std::panic::catch_unwind(run) {
                Ok(Err(e)) => assert!(!e.is_empty()),
                Ok(Ok(_)) => {}
                Err(_) => panic!("{}:\n{damaged}", path.display()),
            }
        }
    }
}
