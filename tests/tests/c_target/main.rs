//! The C target: every operation, whole training programs, the runtime and checkpoints, compiled by `cc` under its
//! strictest warnings and run under its sanitizers, against the reference interpreter, bit for bit.

mod branching;
mod checkpoints;
mod evaluation;
mod example;
mod launches;
mod operations;
mod parallel;
mod runtime;
mod support;
mod training;
