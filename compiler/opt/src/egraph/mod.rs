//! Equality saturation. This folder is the only place that names egg.
//!
//! [`language`]: the nodes and the type analysis; [`pattern`]: the rules' s-expressions; [`saturate`]: the loop with
//! its limits (nodes and iterations, never the clock); [`extract`]: greedy DAG extraction by integer costs;
//! `check`: patterns that could never match or build; [`convert`]: graphs to e-graphs and back.

mod check;
pub mod convert;
pub mod extract;
pub mod forms;
pub mod language;
pub mod pattern;
pub mod saturate;
mod set;

pub use egg::Id;
