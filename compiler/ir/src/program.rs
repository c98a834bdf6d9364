//! The reference interpreter: what a graph means.
