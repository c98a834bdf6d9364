//! The driver: what is behind the command line and the build-script crate.
//!
//! [`config`] is one configuration; [`session`] takes a model through the stages and keeps each one's value; [`emit`]
//! writes them; [`train`] runs training on this machine, with [`checkpoint`]s; [`run`] evaluates; [`inspect`] reports;
//! [`verify`] compares an artifact with the reference; [`zoo`] writes reference models. Nothing here prints.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod checkpoint;
pub mod config;
pub mod emit;
pub mod error;
mod hash;
pub mod inspect;
pub mod model;
pub mod run;
mod select;
pub mod session;
pub mod targets;
pub mod train;
pub mod verify;
pub mod weights;
pub mod zoo;

pub use trainc_data as data;
