//! The file of a checkpoint, written whole.
//!
//! Layout, all integers little-endian:
//!
//! ```text
//! "trainc checkpoint 2\n"
//! u64    length of the header
//! ...    header: JSON, see `Header`
//! ...    for each tensor of the header, then for each frozen one: its elements and scale, in the layout of a
//!        program's memory
//! u32    CRC-32 of everything before it
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainc_data::write_atomically;
use trainc_host::decode_tensor;
use trainc_ir::program::buffer_bytes;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::text::cursor::Cursor;
use trainc_ir::text::parse_type;
use trainc_ir::{Tensor, TensorType};

use crate::options::LossFunction;
use crate::options::value::{Augment, OutputLoss, Schedule};

use crate::error::{Context, Error, InFile, Result, bail, ensure};
use crate::hash::crc32;
use crate::history::{EpochRecord, OpenEpoch};

const MAGIC: &[u8] = b"trainc checkpoint 2\n";

/// What must be the same for a run to go on. Another number of epochs or steps is allowed, see
/// [`crate::checkpoint::resume`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    pub(crate) model: String,
    pub(crate) algorithm: String,
    pub(crate) algorithm_text: String,
    pub(crate) data: String,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    pub(crate) batch_norm: String,
    pub(crate) normalization: String,
    pub(crate) init: String,
    pub(crate) frozen: Vec<String>,
    pub(crate) learning_rate: Option<f64>,
    /// In place of the algorithm's.
    #[serde(default)]
    pub(crate) schedule: Schedule,
    /// In place of the algorithm's.
    #[serde(default)]
    pub(crate) scheduled: BTreeMap<String, Schedule>,
    pub(crate) shuffle: bool,
    #[serde(default)]
    pub(crate) augment: Augment,
    #[serde(default)]
    pub(crate) loss: LossFunction,
    #[serde(default)]
    pub(crate) output_loss: BTreeMap<String, OutputLoss>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    /// Training steps of the whole run, by which the schedule goes.
    pub(crate) steps_of_run: u64,
    pub(crate) steps: u64,
    pub(crate) history: Vec<EpochRecord>,
    /// The epoch that is open, or that a limit on steps cut short.
    #[serde(default)]
    pub(crate) open: OpenEpoch,
    pub(crate) tensors: Vec<Entry>,
    /// Parameters that do not train; a run that goes on has them from the model.
    pub(crate) frozen: Vec<Entry>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) ty: String,
}

/// Whether a file that starts so may be a checkpoint.
pub(crate) fn is_checkpoint(start: &[u8]) -> bool {
    MAGIC.starts_with(start)
}

/// Writes a checkpoint with the tensors that its header lists.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write<'t>(
    path: &Path,
    header: &Header,
    tensors: impl Iterator<Item = &'t Tensor>,
) -> Result<()> {
    let json = serde_json::to_vec(header)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(json);
    tensors.for_each(|tensor| bytes.extend(tensor_bytes(tensor)));
    bytes.extend(crc32(&bytes).to_le_bytes());
    Ok(write_atomically(path, &bytes)?)
}

/// Reads a checkpoint, of whatever run: its header, and the tensors, the frozen ones last.
///
/// # Errors
/// If the file is damaged or no checkpoint.
pub(crate) fn read(path: &Path) -> Result<(Header, Vec<Tensor>)> {
    let fail = |message: String| InFile::new(path, message);
    let bytes = std::fs::read(path).map_err(|e| fail(format!("cannot read: {e}")))?;
    let whole = || {
        let (header, tensors) = split(&bytes)?;
        let tensors = decode(tensors, &types_of(&header)?)?;
        Ok((header, tensors))
    };
    whole().map_err(|e: Error| fail(e.to_string()).into())
}

/// All tensors of a checkpoint by the model's names.
///
/// # Errors
/// As [`read`].
pub(crate) fn tensors(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let (header, tensors) = read(path)?;
    let names = header.tensors.into_iter().chain(header.frozen).map(|entry| entry.name);
    Ok(names.zip(tensors).collect())
}

/// The types of a checkpoint's tensors, the frozen ones last.
fn types_of(header: &Header) -> Result<Vec<TensorType>> {
    let parse = |entry: &Entry| {
        parse_type(&mut Cursor::new(&entry.ty)).map_err(|e| Error::Refused(e.to_string()))
    };
    header.tensors.iter().chain(&header.frozen).map(parse).collect()
}

fn split(bytes: &[u8]) -> Result<(Header, &[u8])> {
    let body = bytes.strip_prefix(MAGIC);
    let Some(body) = body else { bail!("not a checkpoint of this version of trainc") };
    let damaged = "the checkpoint is damaged";
    let (whole, sum) = bytes.split_last_chunk::<4>().context(damaged)?;
    ensure!(crc32(whole) == u32::from_le_bytes(*sum), "{damaged}: its checksum is wrong");
    let body = &body[..body.len() - 4];
    let (length, rest) = body.split_first_chunk::<8>().context(damaged)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().context(damaged)?;
    let (json, tensors) = rest.split_at_checked(length).context(damaged)?;
    Ok((serde_json::from_slice(json)?, tensors))
}

fn decode(mut bytes: &[u8], types: &[TensorType]) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for ty in types {
        let (own, rest) =
            bytes.split_at_checked(buffer_bytes(ty)).context("the checkpoint is too short")?;
        tensors.push(decode_tensor(ty, own)?);
        bytes = rest;
    }
    ensure!(bytes.is_empty(), "the checkpoint is too long");
    Ok(tensors)
}
