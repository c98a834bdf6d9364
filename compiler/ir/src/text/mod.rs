//! The text form of graphs: printing and parsing.

pub mod cursor;
