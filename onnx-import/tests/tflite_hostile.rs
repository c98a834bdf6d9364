//! Damaged TensorFlow Lite files: every truncation, and every byte changed, give a model or an error, never a panic, and
//! in little memory.

#[path = "common/memory.rs"]
mod memory;

use std::path::Path;

use trainc_onnx_import::{ExternalLocation, ImportOptions, check_bytes, import_bytes};

/// Most memory the whole of these tests may take, in KiB.
const MEMORY: u64 = 128 << 10;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tflite");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the models")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "tflite"))
        .collect();
    files.sort();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), std::fs::read(path).expect("a model"))).collect()
}

fn import(bytes: &[u8]) -> bool {
    let none = |_: &ExternalLocation| Err("no files".to_string());
    let options = ImportOptions { training: true, ..ImportOptions::default() };
    match import_bytes(bytes, &none, &options) {
        Ok(_) => true,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

#[test]
fn truncated_models() {
    for (name, bytes) in corpus() {
        assert!(import(&bytes), "{name}");
        for length in 0..bytes.len() {
            import(&bytes[..length]);
        }
        assert!(!import(&bytes[..bytes.len() / 2]), "{name}");
    }
    memory::stays_below(MEMORY);
}

#[test]
fn every_other_byte_changed() {
    let none = |_: &ExternalLocation| Err("no files".to_string());
    let changes: [fn(u8) -> u8; 5] =
        [|_| 0, |_| 0xff, |b| b ^ 0x80, |b| b.wrapping_add(1), |b| b ^ 4];
    for (name, bytes) in corpus() {
        let mut imported = 0;
        // Neighbours are parts of one number mostly.
        for at in (0..bytes.len()).step_by(2) {
            // Weights are most of a file; one change is enough for each of them.
            let mut damaged = bytes.clone();
            damaged[at] = changes[at / 2 % changes.len()](bytes[at]);
            imported += usize::from(import(&damaged));
            if at % 16 == 0 {
                check_bytes(&damaged, &none);
            }
        }
        // If all imported, nothing was checked.
        assert!(imported < bytes.len(), "{name}");
    }
    memory::stays_below(MEMORY);
}

/// Offsets and counts are words: each word of the tables takes extreme values.
#[test]
fn every_word_extreme() {
    let extremes = [0u32, 1, 4, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x0001_0000];
    for (_, bytes) in corpus() {
        for (number, at) in (0..bytes.len().saturating_sub(4)).step_by(4).enumerate() {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].copy_from_slice(&extremes[number % extremes.len()].to_le_bytes());
            import(&damaged);
        }
    }
    memory::stays_below(MEMORY);
}
