//! Running the binary.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trainc_data::NpyArray;

/// A folder of a test's own, removed when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trainc-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .expect("the folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// A command in this folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainc"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Runs it and asserts success; what it wrote on stdout.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {:?}\n{stderr}", output.status);
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// As [`Folder::succeed`] in JSON mode: every line of stdout is one object with a reason.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let mut all = arguments.to_vec();
        all.extend(["--message-format", "json"]);
        objects(&self.succeed(&all))
    }

    /// Runs it and asserts exit code 1; its stderr.
    pub(crate) fn fail(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}\n{stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?} wrote on stdout");
        stderr
    }

    /// Writes `data.npz`: 40 training and 16 test images of 1 x 8 x 8, whose class is the brighter half.
    pub(crate) fn data(&self) -> &'static str {
        let split = |count: usize, offset: usize| {
            let label = |i: usize| (i * 7 + offset) % 3 % 2;
            let pixel = |i: usize, p: usize| {
                let bright = (p % 8 < 4) == (label(i) == 0);
                (if bright { 200 } else { 40 }) + ((i * 31 + p * 17 + offset) % 50) as u8
            };
            let images = (0..count).flat_map(|i| (0..64).map(move |p| (i, p)));
            let images: Vec<u8> = images.map(|(i, p)| pixel(i, p)).collect();
            let labels: Vec<i32> = (0..count).map(|i| label(i) as i32).collect();
            let images =
                NpyArray { shape: vec![count, 1, 8, 8], data: trainc_data::NpyData::U8(images) };
            (images, NpyArray::i32(&[count], labels))
        };
        let (x_train, y_train) = split(40, 0);
        let (x_test, y_test) = split(16, 5);
        let arrays =
            [("x_train", x_train), ("y_train", y_train), ("x_test", x_test), ("y_test", y_test)];
        trainc_data::write_npz(&self.path("data.npz"), &arrays).expect("the data");
        "data.npz"
    }

    /// Writes `digits.onnx`, the smallest convolutional net.
    pub(crate) fn model(&self) -> &'static str {
        self.succeed(&["zoo", "digits", "-o", "digits.onnx", "--classes", "2"]);
        "digits.onnx"
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lines of JSON.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).expect("a line of JSON");
            assert!(value["reason"].is_string(), "{line}");
            value
        })
        .collect()
}

/// The object of that reason; there is exactly one.
pub(crate) fn only<'v>(objects: &'v [Value], reason: &str) -> &'v Value {
    let mut found = objects.iter().filter(|o| o["reason"] == reason);
    let first = found.next().unwrap_or_else(|| panic!("no {reason} in {objects:?}"));
    assert!(found.next().is_none(), "several {reason}");
    first
}

/// The content of a file.
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
