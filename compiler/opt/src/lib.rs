//! trainc's passes: from a model's graph to an optimised, planned program.
//!
//! Read in the order of the data flow: [`autodiff`] and [`training`] (forward graph to training graph),
//! [`algorithm`] (training algorithms as data), [`translate`] (FP32 to the algorithm's integers, by e-graph),
//! [`optimise`] (exact rewrites, by equality saturation), [`plan`] (schedule and memory).
//!
//! Only [`egraph`] names egg. Targets are seen as `&dyn Target` alone.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod alternatives;
pub mod autodiff;
pub mod batch_norm;
pub mod codes;
pub mod constants;
pub mod coverage;
pub mod dynamic;
pub mod egraph;
pub mod fold_relu;
pub mod freeze;
pub mod frozen_prefix;
pub mod functions;
pub mod gather_formulas;
pub mod inference;
pub mod losses;
pub mod matches;
pub mod model_rules;
pub mod one_by_one;
pub mod optimise;
pub mod plan;
pub mod quantized;
pub mod rebatch;
pub mod roles;
pub mod rules;
mod stage;
pub mod training;
pub mod translate;
pub mod untranslated;
pub mod update;
pub mod widths;
