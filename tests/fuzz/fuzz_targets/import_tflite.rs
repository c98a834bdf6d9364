//! Any bytes behind the file's mark are a TensorFlow Lite model or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainc_onnx_import::{ExternalLocation, ImportOptions, import_bytes};

fuzz_target!(|bytes: &[u8]| {
    let none = |_: &ExternalLocation| Err("no files".to_string());
    let options = ImportOptions { training: true, ..ImportOptions::default() };
    let mut bytes = bytes.to_vec();
    if let Some(mark) = bytes.get_mut(4..8) {
        mark.copy_from_slice(b"TFL3");
    }
    let _ = import_bytes(&bytes, &none, &options);
});
