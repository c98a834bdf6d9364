//! Conformance: every registered target computes what the interpreter does. Its tests have one name in common, so that
//! `tests/run` can run them beside all others.

mod every_target;
