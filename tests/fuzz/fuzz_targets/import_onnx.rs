//! Any bytes are a model or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainc_onnx_import::{ExternalLocation, ImportOptions, import_bytes};

fuzz_target!(|bytes: &[u8]| {
    let external = |at: &ExternalLocation| match at.length {
        0..=65536 => Ok(vec![0; at.length as usize]),
        _ => Err("too long".to_string()),
    };
    let options = ImportOptions { batch: Some(2), training: true, ..ImportOptions::default() };
    let _ = import_bytes(bytes, &external, &options);
});
