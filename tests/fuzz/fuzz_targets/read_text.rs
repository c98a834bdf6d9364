//! Any bytes are a model in the text form that passes take, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainc_driver::opt::{self, Request};
use trainc_driver::text_model;
use trainc_onnx_import::ImportOptions;

fuzz_target!(|bytes: &[u8]| {
    let options = ImportOptions { batch: Some(2), training: true, ..ImportOptions::default() };
    let _ = text_model::import(bytes, &options);
    let passes = ["autodiff", "translate"].map(str::to_string).to_vec();
    let request = Request { passes, algorithm: Some("niti".to_string()), ..Request::default() };
    let _ = opt::run(bytes, &request);
});
