//! Reads ONNX models into trainc's language.
#![forbid(unsafe_code)]

pub mod proto;
