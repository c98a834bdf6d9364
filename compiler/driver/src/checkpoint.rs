//! Checkpoints of training runs, written after each epoch, from which training goes on bit for bit.

use std::collections::BTreeMap;
use std::path::Path;

use trainc_data::{Dataset, Images, Split, TargetValues, Targets};
use trainc_ir::Tensor;

use crate::checkpoint_file::{Entry, Header, Identity};
#[cfg(test)]
use crate::config::Config;
use crate::error::{InFile, Result, ensure};
use crate::hash::Fingerprint;
use crate::options::LossFunction;
use crate::options::value::{Schedule, Value};
use crate::train::Trainer;
use crate::{algorithms, checkpoint_file};

/// Fingerprint of a data set.
pub fn data_hash(data: &Dataset) -> String {
    let split = |hash: Fingerprint, split: &Split| {
        let hash = hash.add(format!("{:?}", split.shape).as_bytes());
        let hash = split.labels.iter().fold(hash, |h, l| h.add(&l.to_le_bytes()));
        let one = |hash: Fingerprint, targets: &Targets| {
            let hash = hash.add(format!("{:?}", targets.shape).as_bytes());
            match &targets.values {
                TargetValues::F32(values) => {
                    values.iter().fold(hash, |h, v| h.add(&v.to_le_bytes()))
                }
                TargetValues::I32(values) => {
                    values.iter().fold(hash, |h, v| h.add(&v.to_le_bytes()))
                }
            }
        };
        let hash = split.targets.iter().fold(hash, one);
        let hash = split.named.iter().fold(hash, |h, (name, t)| one(h.add(name.as_bytes()), t));
        match &split.images {
            Images::U8(pixels) => hash.add(pixels),
            Images::F32(values) => values.iter().fold(hash, |h, v| h.add(&v.to_le_bytes())),
            Images::I32(values) => values.iter().fold(hash, |h, v| h.add(&v.to_le_bytes())),
        }
    };
    split(split(Fingerprint::new(), &data.train), &data.test).text()
}

fn identity(trainer: &Trainer, data: &str) -> Identity {
    let session = &trainer.session;
    let config = &session.config;
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}");
    Identity {
        model: session.model_hash().to_string(),
        algorithm: session.algorithm.spelled(),
        algorithm_text: algorithms::hash(&session.algorithm),
        data: data.to_string(),
        batch: config.batch_size(),
        seed: config.seed,
        batch_norm: word(&config.batch_norm),
        normalization: match (&config.mean[..], &config.deviation[..]) {
            ([], []) => word(&config.normalization),
            stated => word(&stated),
        },
        init: word(&config.init),
        frozen: session.frozen.clone(),
        learning_rate: config.learning_rate,
        schedule: config.schedule.clone(),
        scheduled: config.scheduled.clone(),
        shuffle: config.shuffle,
        augment: config.augment,
        loss: config.loss,
        output_loss: config.output_loss.clone(),
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
        open: trainer.open,
        tensors: entries(&state),
        frozen: entries(&frozen),
    };
    checkpoint_file::write(path, &header, state.iter().chain(&frozen).map(|(_, tensor)| tensor))
}

/// Sets a new trainer to where a checkpoint left off, within an epoch or behind one. Returns a remark if the run will not be
/// the bits of an uninterrupted one, because schedules now span another number of steps. `data` is as for [`save`], `data_length` the number of training samples.
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
    let (header, tensors) = checkpoint_file::read(path)?;
    check_identity(&header.identity, &identity(trainer, data)).map_err(|e| fail(e.to_string()))?;
    let state = trainer.state()?;
    let names = state.iter().zip(&header.tensors);
    let same = state.len() == header.tensors.len()
        && names.clone().all(|((name, t), e)| *name == e.name && t.ty().to_string() == e.ty);
    if !same {
        return Err(fail("its tensors are not this model's".to_string()).into());
    }
    trainer.set_state(&tensors[..state.len()])?;
    trainer.go_on(header.steps, header.history, header.open);
    let algorithm = &trainer.session.algorithm;
    let scheduled = algorithm.schedule.len() > 1
        || algorithm.stages.is_some()
        || algorithm.optimizer.inputs.values().any(|input| input.points.len() > 1);
    let steps = trainer.steps_of_run(data_length);
    let whole = trainer.steps_of_epoch(data_length) * trainer.epochs() as u64;
    let remark = if scheduled && header.steps_of_run != steps {
        let before = header.steps_of_run;
        format!(
            "was to run {before} steps, now {steps}: other values of schedules than in one long run"
        )
    } else if header.open.steps == 0 && header.steps != whole {
        "its last epoch was cut short; the next one begins with a new order".to_string()
    } else {
        return Ok(None);
    };
    Ok(Some(format!("{}: {remark}", path.display())))
}

fn check_identity(file: &Identity, run: &Identity) -> Result<()> {
    let words = |s: &Schedule| s.words().unwrap_or_else(|| "the algorithm's".to_string());
    let others = |all: &BTreeMap<String, Schedule>| {
        all.words().unwrap_or_else(|| "the algorithm's".to_string())
    };
    let word = |loss: &LossFunction| loss.words().unwrap_or_default();
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
        ("schedule", words(&file.schedule), words(&run.schedule)),
        ("scheduled", others(&file.scheduled), others(&run.scheduled)),
        ("loss", word(&file.loss), word(&run.loss)),
        (
            "output-loss",
            file.output_loss.words().unwrap_or_default(),
            run.output_loss.words().unwrap_or_default(),
        ),
        ("augment", String::from(file.augment), String::from(run.augment)),
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
    use crate::session::{Entries, Session};
    use crate::train::Advanced;
    use crate::zoo::{ZooSpec, build};

    fn trainer(data: &Dataset, seed: u64) -> Trainer {
        let bytes = build(&ZooSpec::new("digits").unwrap()).unwrap();
        let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
        // A schedule would go by the limit on steps.
        let learning_rate = Some(4.0);
        let config =
            Config { batch: Some(256), epochs: 4, seed, learning_rate, ..Config::default() };
        let session = Session::new(&source, &config, Entries::TrainAndInfer).unwrap();
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

        // Within an epoch, and where a limit on steps cut one short.
        let [mut straight, mut third] = [trainer(&data, 1), trainer(&data, 1)];
        straight.epoch(&data, &mut |_| {}).unwrap();
        third.session.set_steps(Some(3));
        assert_eq!(third.advance(&data, 2, &mut |_| {}).unwrap(), Advanced::Within);
        save(&path, &third, &hash, length).unwrap();
        let mut fourth = trainer(&data, 1);
        resume(&path, &mut fourth, &hash, length).unwrap();
        assert_eq!(fourth.epoch(&data, &mut |_| {}).unwrap(), straight.history().last().copied());
        third.epoch(&data, &mut |_| {}).unwrap();
        assert_eq!((third.epochs(), third.finished()), (1, true));
        save(&path, &third, &hash, length).unwrap();
        let mut fifth = trainer(&data, 1);
        resume(&path, &mut fifth, &hash, length).unwrap();
        assert_eq!(fifth.epochs(), 0);
        fifth.epoch(&data, &mut |_| {}).unwrap();
        for other in [&fourth, &fifth] {
            assert_eq!(other.history(), straight.history());
            let states = other.state().unwrap().into_iter().zip(straight.state().unwrap());
            for ((name, a), (_, b)) in states {
                assert!(a.bits_equal(&b), "{name}");
            }
        }
        save(&path, &first, &hash, length).unwrap();

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
