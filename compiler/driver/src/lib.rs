//! The driver: what is behind the command line and the build-script crate.
//!
//! [`options`] lists every option, [`config`] is what they mean together; [`session`] takes a model through the stages, each
//! a type; [`passes`] is the table of passes by name, [`opt`] runs them on texts; [`zoo`] writes reference models. With the
//! feature `host` (default) `emit` writes stages and artifacts, `train` runs training
//! on this machine, with `checkpoint`s, `run` evaluates, `inspect` reports, [`verify`] compares an artifact with the reference and `bench` counts
//! what its launches cost; `compare` trains under several algorithms. Nothing here prints.
#![forbid(unsafe_code)]

#[cfg(feature = "host")]
pub mod algorithm_check;
pub mod algorithms;
#[cfg(feature = "host")]
pub mod bench;
#[cfg(feature = "host")]
pub mod checkpoint;
#[cfg(feature = "host")]
mod checkpoint_file;
#[cfg(feature = "host")]
pub mod choices;
#[cfg(feature = "host")]
pub mod compare;
pub mod config;
#[cfg(feature = "host")]
mod device_state;
#[cfg(feature = "host")]
pub mod emit;
pub mod error;
#[cfg(feature = "host")]
pub mod export;
#[cfg(feature = "host")]
mod folder;
mod form;
mod freeze;
#[cfg(feature = "host")]
mod goal;
mod hash;
#[cfg(feature = "host")]
pub mod history;
#[cfg(feature = "host")]
mod image_layout;
#[cfg(feature = "host")]
pub mod initial;
#[cfg(feature = "host")]
pub mod inspect;
pub mod latencies;
#[cfg(feature = "host")]
pub mod manifest;
#[cfg(feature = "host")]
pub mod measure;
pub mod model;
pub mod opt;
pub mod options;
pub mod passes;
mod precision;
#[cfg(all(feature = "host", feature = "hvx"))]
pub mod residency;
#[cfg(feature = "host")]
pub mod run;
mod select;
pub mod session;
pub mod splits;
#[cfg(feature = "host")]
mod stored;
pub mod targets;
pub mod text_model;
#[cfg(feature = "host")]
pub mod timeline;
#[cfg(feature = "host")]
pub mod train;
pub mod trained;
#[cfg(feature = "host")]
pub mod tune;
#[cfg(feature = "host")]
pub mod verify;
#[cfg(feature = "host")]
pub mod weights;
#[cfg(feature = "host")]
pub mod widths;
pub mod zoo;

#[cfg(feature = "host")]
pub use trainc_data as data;
