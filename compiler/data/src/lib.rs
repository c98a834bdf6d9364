//! Everything about data files: the data sets that training reads, and the arrays, weights and charts it writes.
//!
//! | module | subject |
//! | --- | --- |
//! | `dataset` | [`Dataset`], [`Split`] |
//! | `open` | `Dataset::open` recognises what a path holds |
//! | `idx`, `cifar`, `image_folder`, `image_archive`, `npz_dataset`, `text` | one module a kind of data set |
//! | `image_files`, `decode`, `picture` | from JPEG and PNG files to a data set, in parallel |
//! | `digits` | [`Dataset::digits`], a small real data set inside the crate |
//! | `augment` | [`Augmentation`]: random crops, mirror images and holes of training images |
//! | `normalize` | [`Normalization`]: from pixels to model inputs; filling batches |
//! | `shuffle` | the deterministic order of samples, training and evaluation batches |
//! | `npy`, `npy_header`, `npz` | NumPy's array formats, read and written |
//! | `safetensors_io` | weights |
//! | `curve`, `axis`, `svg` | charts of training curves in SVG, and what other charts share with them |
//! | `atomic` | files that appear whole or not at all |
//! | `stale` | temporary files and folders of runs that were killed |
//! | `bounded` | the bound on memory for untrusted files |
//!
//! Without the feature `formats` (default) only `digits`, `normalize`, `shuffle`, `curve`, `axis`, `svg`, `atomic` and `stale` are there.
//!
//! Files come from anywhere, so nothing here panics on their content, allocates on a header's word, or decodes more than
//! [`DECODED_BYTES_LIMIT`]. Every error is a [`DataError`] that names the file and the reason. Everything written is a
//! function of its input: no clock, no hash order.
#![cfg_attr(
    not(feature = "formats"),
    allow(dead_code, reason = "what the formats share has fewer users without them")
)]

mod atomic;
mod augment;
mod axis;
mod bounded;
#[cfg(feature = "formats")]
mod cifar;
mod curve;
mod dataset;
#[cfg(feature = "formats")]
mod decode;
mod digits;
mod error;
mod idx;
#[cfg(feature = "formats")]
mod image_archive;
#[cfg(feature = "formats")]
mod image_files;
#[cfg(feature = "formats")]
mod image_folder;
mod normalize;
#[cfg(feature = "formats")]
mod npy;
#[cfg(feature = "formats")]
mod npy_header;
#[cfg(feature = "formats")]
mod npz;
#[cfg(feature = "formats")]
mod npz_dataset;
#[cfg(feature = "formats")]
mod open;
#[cfg(feature = "formats")]
mod picture;
#[cfg(feature = "formats")]
mod safetensors_io;
mod shuffle;
mod stale;
mod svg;
#[cfg(all(test, feature = "formats"))]
mod test_support;
#[cfg(feature = "formats")]
mod text;

pub use atomic::write_atomically;
pub use augment::Augmentation;
pub use axis::{Axis, Tick, decimal};
pub use bounded::DECODED_BYTES_LIMIT;
pub use curve::{Series, TrainingChart};
pub use dataset::{Dataset, Images, Split, TargetValues, Targets};
pub use error::{DataError, SUPPORTED};
pub use normalize::{Normalization, Normalizer};
#[cfg(feature = "formats")]
pub use npy::{NpyArray, NpyData};
#[cfg(feature = "formats")]
pub use npz::{NpzReader, npz_bytes, read_npz, read_npz_bytes, write_npz};
#[cfg(feature = "formats")]
pub use safetensors_io::{
    Elements, NamedTensor, StreamedData, StreamedTensor, TensorData, elements, read_safetensors,
    read_safetensors_bytes, safetensors_bytes, stream_safetensors, write_safetensors,
};
pub use shuffle::{EvaluationBatch, SplitMix64, TrainingBatches, evaluation_batches, permutation};
pub use stale::{Hold, create_held, hold, is_numbered, stale};
pub use svg::{COLOURS, escape};
#[cfg(feature = "formats")]
pub use text::TEXT_WINDOW;
