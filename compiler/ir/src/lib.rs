//! trainc's language: typed tensor graphs for training, their reference interpreter, loop kernels, and programs.
//!
//! Read in this order: [`types`] (what a tensor is), [`ops`] (what can be computed, one file an operation),
//! [`graph`] (FP32 graphs, training graphs and quantized modules alike), [`verify`] (what each stage allows; [`Verified`]
//! is a value that it accepts),
//! [`interpreter`] (what a graph means, in exact bits), [`loops`] (what any target can run), [`program`] (the
//! static schedule that emitters receive, with [`program_verify`] and [`program_interpreter`]) and [`target`] (what a
//! target is).
//!
//! This crate does no I/O, reads no clock, and knows no e-graph, no file format and no target.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod batch_split;
pub mod bit_product;
pub mod graph;
pub mod harness;
pub mod implementation;
pub mod indicator;
pub mod interpreter;
pub mod loops;
pub mod names;
pub mod numeric;
pub mod ops;
pub mod overlap;
pub mod product;
pub mod program;
pub mod program_interpreter;
pub mod program_verify;
pub mod random;
pub mod repeated;
pub mod schedule;
pub mod target;
pub mod tensor;
pub mod tensor_bytes;
pub mod text;
pub mod tuning;
pub mod types;
pub mod verified;
pub mod verify;

pub use graph::{Graph, InputRole, NodeId, ValueId};
pub use ops::{Op, OpKind, Operator, TypeError};
pub use random::RunContext;
pub use tensor::{Data, ScaleData, Tensor};
pub use types::{Element, Scale, Shape, TensorType};
pub use verified::Verified;
