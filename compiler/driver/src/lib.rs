//! Placeholder.
pub mod zoo;
