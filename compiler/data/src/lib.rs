//! Everything about data files: the data sets that training reads, and the arrays, weights and charts it writes.
//!
//! | module | subject |
//! | --- | --- |
//! | `dataset` | [`Dataset`], [`Split`]; [`Dataset::open`] recognises what a path holds |
//! | `idx`, `cifar`, `image_folder`, `image_archive`, `npz_dataset` | one module a kind of data set |
//! | `image_files`, `decode` | from JPEG and PNG files to a data set, in parallel |
//! | `digits` | [`Dataset::digits`], a small real data set inside the crate |
//! | `normalize` | [`Normalization`]: from pixels to model inputs; filling batches |
//! | `shuffle` | the deterministic order of samples, training and evaluation batches |
//! | `npy`, `npy_header`, `npz` | NumPy's array formats, read and written |
//! | `safetensors_io` | weights |
//! | `curve` | charts of training curves in SVG |
//! | `atomic` | files that appear whole or not at all |
//! | `bounded` | the bound on memory for untrusted files |
//!
//! Files come from anywhere, so nothing here panics on their content, allocates on a header's word, or decodes more than
//! [`DECODED_BYTES_LIMIT`]. Every error is a [`DataError`] that names the file and the reason. Everything written is a
//! function of its input: no clock, no hash order.

mod atomic;
mod bounded;
mod cifar;
mod curve;
mod dataset;
mod decode;
mod digits;
mod error;
mod idx;
mod image_archive;
mod image_files;
mod image_folder;
mod normalize;
mod npy;
mod npy_header;
mod npz;
mod npz_dataset;
mod safetensors_io;
mod shuffle;
#[cfg(test)]
mod test_support;

pub use atomic::write_atomically;
pub use bounded::DECODED_BYTES_LIMIT;
pub use curve::{Series, TrainingChart};
pub use dataset::{Dataset, Images, Split};
pub use error::{DataError, SUPPORTED};
pub use normalize::{Normalization, Normalizer};
pub use npy::{NpyArray, NpyData};
pub use npz::{NpzReader, npz_bytes, read_npz, read_npz_bytes, write_npz};
pub use safetensors_io::{
    NamedTensor, TensorData, read_safetensors, read_safetensors_bytes, safetensors_bytes,
    write_safetensors,
};
pub use shuffle::{EvaluationBatch, SplitMix64, TrainingBatches, evaluation_batches, permutation};
