//! Checkpoints: one file, written whole after each epoch, from which training goes on bit for bit.
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

use std::path::Path;

use serde::{Deserialize, Serialize};
use trainc_data::{Dataset, Images, Split, write_atomically};
use trainc_host::decode_tensor;
use trainc_ir::program::buffer_bytes;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::text::cursor::Cursor;
use trainc_ir::text::parse_type;
use trainc_ir::{Tensor, TensorType};

use crate::algorithms;
#[cfg(test)]
use crate::config::Config;
use crate::error::{Context, Error, InFile, Result, bail, ensure};
use crate::hash::{Fingerprint, crc32};
use crate::train::{EpochRecord, Trainer};

const MAGIC: &[u8] = b"trainc checkpoint 2\n";

/// What must be the same for a run to go on. Another number of epochs or steps is allowed, see [`resume`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    model: String,
    algorithm: String,
    algorithm_text: String,
    data: String,
    batch: usize,
    seed: u64,
    batch_norm: String,
    normalization: String,
    init: String,
    frozen: Vec<String>,
    learning_rate: Option<f64>,
    shuffle: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    identity: Identity,
    /// Training steps of the whole run, by which the schedule goes.
    steps_of_run: u64,
    steps: u64,
    history: Vec<EpochRecord>,
    tensors: Vec<Entry>,
    /// Parameters that do not train; [`resume`] has them from the model.
    frozen: Vec<Entry>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    ty: String,
}

/// Fingerprint of a data set.
pub fn data_hash(data: &Dataset) -> String {
    let split = |hash: Fingerprint, split: &Split| {
        let hash = hash.add(format!("{:?}", split.shape).as_bytes());
        let hash = split.labels.iter().fold(hash, |h, l| h.add(&l.to_le_bytes()));
        match &split.images {
            Images::U8(pixels) => hash.add(pixels),
            Images::F32(values) => values.iter().fold(hash, |h, v| h.add(&v.to_le_bytes())),
        }
    };
    split(split(Fingerprint::new(), &data.train), &data.test).text()
}

fn identity(trainer: &Trainer, data: &str) -> Identity {
    let session = &trainer.session;
    let config = &session.config;
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}");
    Identity {
        model: session.model_hash.clone(),
        algorithm: session.algorithm.name.clone(),
        algorithm_text: algorithms::hash(&session.algorithm),
        data: data.to_string(),
        batch: config.batch_size(),
        seed: config.seed,
        batch_norm: word(&config.batch_norm),
        normalization: word(&config.normalization),
        init: word(&config.init),
        frozen: session.frozen.clone(),
        learning_rate: config.learning_rate,
        shuffle: config.shuffle,
    }
}

/// Writes a checkpoint. `data` is the data set's [`data_hash`], `data_length` the number of training samples.
///
/// # Errors
/// If the file cannot be written.
pub fn save(path: &Path, trainer: &Trainer, data: &str, data_length: usize) -> Result<()> {
    let state = trainer.state()?;
    let frozen = trainer.session.frozen_tensors();
    let entries = |tensors: &[(String, Tensor)]| {
        let entry = |(name, tensor): &(String, Tensor)| Entry {
            name: name.clone(),
            ty: tensor.ty().to_string(),
        };
        tensors.iter().map(entry).collect()
    };
    let header = Header {
        identity: identity(trainer, data),
        steps_of_run: trainer.steps_of_run(data_length),
        steps: trainer.steps,
        history: trainer.history.clone(),
        tensors: entries(&state),
        frozen: entries(&frozen),
    };
    let json = serde_json::to_vec(&header)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(json);
    for (_, tensor) in state.iter().chain(&frozen) {
        bytes.extend(tensor_bytes(tensor));
    }
    bytes.extend(crc32(&bytes).to_le_bytes());
    Ok(write_atomically(path, &bytes)?)
}

/// Sets a new trainer to where a checkpoint left off. Returns a remark if the run will not be the bits of an
/// uninterrupted one: because the step-size schedule now spans another number of steps, or because a limit on steps
/// had cut the last epoch short. `data` is as for [`save`], `data_length` the number of training samples.
///
/// # Errors
/// If the file is damaged, is no checkpoint, or belongs to another run; the trainer is then as it was.
pub fn resume(
    path: &Path,
    trainer: &mut Trainer,
    data: &str,
    data_length: usize,
) -> Result<Option<String>> {
    let fail = |message: String| InFile::new(path, message);
    let bytes = std::fs::read(path).map_err(|e| fail(format!("cannot read: {e}")))?;
    let (header, tensors) = split(&bytes).map_err(|e| fail(e.to_string()))?;
    check_identity(&header.identity, &identity(trainer, data)).map_err(|e| fail(e.to_string()))?;
    let state = trainer.state()?;
    let names = state.iter().zip(&header.tensors);
    let same = state.len() == header.tensors.len()
        && names.clone().all(|((name, t), e)| *name == e.name && t.ty().to_string() == e.ty);
    if !same {
        return Err(fail("its tensors are not this model's".to_string()).into());
    }
    let whole = types_of(&header).map_err(|e| fail(e.to_string()))?;
    let tensors = decode(tensors, &whole).map_err(|e| fail(e.to_string()))?;
    trainer.set_state(&tensors[..state.len()])?;
    trainer.steps = header.steps;
    trainer.history = header.history;
    let config = &trainer.session.config;
    let scheduled = config.learning_rate.is_none() && trainer.session.algorithm.schedule.len() > 1;
    let steps = trainer.steps_of_run(data_length);
    let whole = trainer.steps_of_epoch(data_length) * trainer.epochs() as u64;
    let remark = if scheduled && header.steps_of_run != steps {
        let before = header.steps_of_run;
        format!("was to run {before} steps, now {steps}: other step sizes than one long run")
    } else if header.steps != whole {
        "its last epoch was cut short; the next one begins with a new order".to_string()
    } else {
        return Ok(None);
    };
    Ok(Some(format!("{}: {remark}", path.display())))
}

/// Whether a file that starts so may be a checkpoint.
pub(crate) fn is_checkpoint(start: &[u8]) -> bool {
    MAGIC.starts_with(start)
}

/// All tensors of a checkpoint, of whatever run, by the model's names.
///
/// # Errors
/// If the file is damaged or no checkpoint.
pub fn tensors(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let fail = |message: String| InFile::new(path, message);
    let bytes = std::fs::read(path).map_err(|e| fail(format!("cannot read: {e}")))?;
    let read = || {
        let (header, tensors) = split(&bytes)?;
        let tensors = decode(tensors, &types_of(&header)?)?;
        let names = header.tensors.into_iter().chain(header.frozen).map(|entry| entry.name);
        Ok(names.zip(tensors).collect())
    };
    read().map_err(|e: Error| fail(e.to_string()).into())
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

fn check_identity(file: &Identity, run: &Identity) -> Result<()> {
    let rate = |r: Option<f64>| r.map_or_else(|| "the schedule".to_string(), |r| r.to_string());
    let fields = [
        ("model", file.model.clone(), run.model.clone()),
        ("algorithm", file.algorithm.clone(), run.algorithm.clone()),
        ("algorithm's text", file.algorithm_text.clone(), run.algorithm_text.clone()),
        ("data", file.data.clone(), run.data.clone()),
        ("batch", file.batch.to_string(), run.batch.to_string()),
        ("seed", file.seed.to_string(), run.seed.to_string()),
        ("batch norm", file.batch_norm.clone(), run.batch_norm.clone()),
        ("normalization", file.normalization.clone(), run.normalization.clone()),
        ("init", file.init.clone(), run.init.clone()),
        ("frozen parameters", file.frozen.join(" "), run.frozen.join(" ")),
        ("learning rate", rate(file.learning_rate), rate(run.learning_rate)),
        ("shuffle", file.shuffle.to_string(), run.shuffle.to_string()),
    ];
    let other: Vec<String> = fields
        .iter()
        .filter(|(_, file, run)| file != run)
        .map(|(name, file, run)| format!("{name}: {file} in the file, {run} here"))
        .collect();
    ensure!(other.is_empty(), "the checkpoint is of another run: {}", other.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelSource;
    use crate::session::{Depth, Entries, Session};
    use crate::zoo::{ZooSpec, build};

    fn trainer(data: &Dataset, seed: u64) -> Trainer {
        let bytes = build(&ZooSpec::new("digits").unwrap()).unwrap();
        let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
        let config = Config { batch: Some(256), epochs: 4, seed, ..Config::default() };
        let session =
            Session::new(&source, &config, Entries::TrainAndInfer, Depth::Planned).unwrap();
        Trainer::new(session, data).unwrap()
    }

    #[test]
    fn whole_files_resume_and_damaged_ones_are_refused() {
        let data = Dataset::digits();
        let (hash, length) = (data_hash(&data), data.train.len());
        let folder = std::env::temp_dir().join(format!("trainc-ckpt-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("run.ckpt");
        let mut first = trainer(&data, 1);
        first.epoch(&data, &mut |_| {}).unwrap();
        save(&path, &first, &hash, length).unwrap();

        let mut second = trainer(&data, 1);
        assert_eq!(resume(&path, &mut second, &hash, length).unwrap(), None);
        assert_eq!(second.history(), first.history());
        let record = second.epoch(&data, &mut |_| {}).unwrap();
        assert_eq!(record, first.epoch(&data, &mut |_| {}).unwrap());
        let states = first.state().unwrap().into_iter().zip(second.state().unwrap());
        for ((name, a), (_, b)) in states {
            assert!(a.bits_equal(&b), "{name}");
        }

        let mut other = trainer(&data, 2);
        let message = resume(&path, &mut other, &hash, length).unwrap_err().to_string();
        assert!(message.contains("run.ckpt") && message.contains("seed: 1"), "{message}");
        let message = resume(&path, &mut second, "other data", length).unwrap_err().to_string();
        assert!(message.contains("data"), "{message}");

        let whole = std::fs::read(&path).unwrap();
        let mut fresh = trainer(&data, 1);
        let before = fresh.state().unwrap();
        let mut refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            assert!(resume(&path, &mut fresh, &hash, length).is_err());
        };
        for position in (0..whole.len()).step_by(whole.len() / 40) {
            let mut flipped = whole.clone();
            flipped[position] ^= 0x10;
            refused(&flipped);
            refused(&whole[..position]);
        }
        refused(b"something else");
        for ((name, a), (_, b)) in before.into_iter().zip(fresh.state().unwrap()) {
            assert!(a.bits_equal(&b), "{name} changed");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
