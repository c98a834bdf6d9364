//! The driver: what is behind the command line and the build-script crate.
//!
//! [`config`] is one configuration; [`session`] takes a model through the stages and keeps each one's value; [`emit`]
//! writes them; [`train`] runs training on this machine, with [`checkpoint`]s; [`run`] evaluates; [`inspect`] reports.
//! Nothing here prints.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod config;
pub mod error;
mod hash;
pub mod model;
mod select;
pub mod session;
pub mod targets;
pub mod train;
