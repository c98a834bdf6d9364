//! Training on this machine: epochs over a data set through the host's machine code.

use std::num::NonZeroUsize;

use trainc_data::{Augmentation, Dataset, Normalizer, Split, TrainingBatches, evaluation_batches};
use trainc_host::{CallBytes, EntryHandle, HostProgram};
use trainc_ir::graph::InputRole;
use trainc_ir::program::{Entry, Program, buffer_bytes};
use trainc_ir::{Element, RunContext, Scale, Tensor, TensorType};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::algorithm::stages::Stage;

use crate::config::{Config, InputNormalization};
use crate::error::{Context, Result, ensure};
use crate::goal::{self, Goal, Sum};
use crate::history::{EpochRecord, OpenEpoch};
use crate::image_layout::ImageLayout;
use crate::options::value::Augment;
use crate::session::{EPOCH_END, INFER, Session, TRAIN_STEP};

/// Where an epoch is, for a progress display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Training steps of this epoch: done, of how many.
    Train(usize, usize),
    /// Evaluation batches: done, of how many.
    Evaluate(usize, usize),
}

/// A training run of one model under one algorithm.
pub struct Trainer {
    /// The compiled model.
    pub session: Session,
    pub(crate) host: HostProgram,
    pub(crate) state_names: Vec<String>,
    /// The training step of each stage; all take the same operands.
    step_entries: Vec<Call>,
    /// The stage of the step that is next.
    stage: usize,
    /// Calls of inference that run side by side.
    infer_calls: Vec<Call>,
    /// What ends an epoch, if the algorithm does something then.
    end_entry: Option<Call>,
    normalizer: Normalizer,
    goal: Goal,
    pub(crate) steps: u64,
    pub(crate) history: Vec<EpochRecord>,
    /// The epoch that is open, or that a limit on steps cut short.
    pub(crate) open: OpenEpoch,
}

/// Where a call of [`Trainer::advance`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advanced {
    /// The run is finished: there was no step.
    Finished,
    /// Within an epoch.
    Within,
    /// Behind the last step of an epoch, or where the limit on steps cuts it short: [`Trainer::close`] is next.
    Ended,
}

/// Examples of which each is a call of its own that are evaluated side by side: so many that what the first one prepares for the others is
/// little beside them.
const EXAMPLES_TOGETHER: usize = 64;

/// An entry with the places of its operands, and memory for them.
#[derive(Clone)]
struct Call {
    handle: EntryHandle,
    batch: usize,
    /// Shape of the data input.
    shape: Vec<usize>,
    inputs: Vec<(InputRole, Element, Vec<u8>)>,
    /// Names of the operands.
    names: Vec<String>,
    outputs: Vec<Vec<u8>>,
}

impl Call {
    fn new(host: &HostProgram, name: &str) -> Result<Call> {
        let program = host.program();
        let handle = host.entry(name).with_context(|| format!("no entry `{name}`"))?;
        let entry = program.entry(name).with_context(|| format!("no entry `{name}`"))?;
        let bytes = |ty: &TensorType| vec![0; buffer_bytes(ty)];
        let shape = match name {
            EPOCH_END => Vec::new(),
            _ => data_type(program, entry)?.shape.to_vec(),
        };
        Ok(Call {
            handle,
            batch: shape.first().copied().unwrap_or(1),
            shape,
            inputs: entry
                .inputs
                .iter()
                .map(|a| (a.role, &program.buffer(a.buffer).ty))
                .map(|(role, ty)| (role, ty.element, bytes(ty)))
                .collect(),
            names: entry.inputs.iter().map(|a| a.name.clone()).collect(),
            outputs: entry.outputs.iter().map(|a| bytes(&program.buffer(a.buffer).ty)).collect(),
        })
    }

    fn set(&mut self, role: InputRole, words: impl Iterator<Item = [u8; 4]>) {
        if let Some((_, _, bytes)) = self.inputs.iter_mut().find(|(r, ..)| *r == role) {
            bytes.chunks_exact_mut(4).zip(words).for_each(|(b, w)| b.copy_from_slice(&w));
        }
    }

    /// Sets the operand of that role and name to a number, which is one of its element's.
    fn set_number(&mut self, role: InputRole, name: Option<&str>, value: f64) {
        for ((own, element, bytes), known) in self.inputs.iter_mut().zip(&self.names) {
            if *own == role && name.is_none_or(|name| name == known) {
                bytes[..4].copy_from_slice(&number_bits(value, *element));
            }
        }
    }

    fn bytes(&mut self) -> CallBytes<'_> {
        CallBytes {
            inputs: self.inputs.iter().map(|(_, _, bytes)| bytes.as_slice()).collect(),
            outputs: self.outputs.iter_mut().map(Vec::as_mut_slice).collect(),
        }
    }

    fn run(&mut self, host: &mut HostProgram, run: &RunContext) -> Result<()> {
        let handle = self.handle;
        let CallBytes { inputs, mut outputs } = self.bytes();
        Ok(host.run_raw(handle, &inputs, &mut outputs, run)?)
    }

    fn output_f32(&self, position: usize) -> Vec<f32> {
        let words = self.outputs[position].chunks_exact(4);
        words.map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
    }
}

/// The type of an entry's one data input.
fn data_type<'p>(program: &'p Program, entry: &Entry) -> Result<&'p TensorType> {
    let data: Vec<_> = entry.inputs.iter().filter(|a| a.role == InputRole::Data).collect();
    let names: Vec<&str> = data.iter().map(|a| a.name.as_str()).collect();
    ensure!(
        data.len() == 1,
        "training from a data set needs a model with one input, here {} ({})",
        data.len(),
        names.join(", ")
    );
    let ty = &program.buffer(data[0].buffer).ty;
    let integers = matches!(ty.element, Element::I32 | Element::U8) && ty.scale == Scale::None;
    ensure!(
        ty.is_f32() || integers,
        "input `{}` is {ty}; samples are f32, i32 or u8",
        data[0].name
    );
    Ok(ty)
}

impl Trainer {
    /// Compiles a session's program for this machine and checks that the data fit the model.
    ///
    /// # Errors
    /// If the session has no `train_step`, or shapes, classes or the number of samples do not fit.
    pub fn new(session: Session, data: &Dataset) -> Result<Trainer> {
        check_trains(&session.algorithm)?;
        ensure!(
            !session.only_infers,
            "the model has no trainable parameter: all are frozen (`trainc compile` takes it, for inference alone)"
        );
        let host = session.on_this_machine()?;
        let others = session.algorithm.stages.iter().flat_map(|stages| &stages.others);
        let functions = std::iter::once(TRAIN_STEP.to_string()).chain(others.map(Stage::function));
        let step_entries = functions.map(|name| Call::new(&host, &name)).collect::<Result<_>>()?;
        let infer = Call::new(&host, INFER)?;
        let together = if infer.batch == 1 { EXAMPLES_TOGETHER } else { 1 };
        let infer_calls = vec![infer; together];
        let ends = session.entries.iter().any(|entry| entry.name == EPOCH_END);
        let end_entry = ends.then(|| Call::new(&host, EPOCH_END)).transpose()?;
        check_data(&session, data)?;
        Ok(Trainer {
            state_names: session.state_names(),
            normalizer: session.config.normalizer(&data.train)?,
            goal: Goal::of(&session)?,
            host,
            step_entries,
            stage: 0,
            infer_calls,
            end_entry,
            session,
            steps: 0,
            history: Vec::new(),
            open: OpenEpoch::default(),
        })
    }

    /// Starts again from that state, given in the order of [`Trainer::state`], with another seed.
    ///
    /// # Errors
    /// As [`Trainer::set_state`].
    pub fn restart(&mut self, seed: u64, state: &[Tensor]) -> Result<()> {
        self.session.set_seed(seed);
        self.steps = 0;
        self.history.clear();
        self.open = OpenEpoch::default();
        self.set_state(state)
    }

    /// Whether inference is judged by how many are right, not by its loss.
    pub fn is_judged_by_accuracy(&self) -> bool {
        self.goal.is_accuracy()
    }

    /// What each epoch gave so far; epoch 0 is there if [`Trainer::start`] was called.
    pub fn history(&self) -> &[EpochRecord] {
        &self.history
    }

    /// Epochs begun and ended so far (one that the step limit cut short included).
    pub fn epochs(&self) -> usize {
        self.history.last().map_or(0, |record| record.epoch)
    }

    /// The stage of the last step, if the algorithm has stages.
    pub fn stage(&self) -> Option<usize> {
        let stages = self.session.algorithm.stages.as_ref();
        stages.filter(|_| self.steps > 0).map(|_| self.stage)
    }

    /// Training steps done so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether all epochs or steps are done.
    pub fn finished(&self) -> bool {
        let config = &self.session.config;
        self.epochs() >= config.epochs || config.steps.is_some_and(|limit| self.steps >= limit)
    }

    /// Examples of a training step.
    fn batch(&self) -> usize {
        self.step_entries.first().map_or(1, |entry| entry.batch)
    }

    /// Training steps of a whole epoch over that many samples.
    pub(crate) fn steps_of_epoch(&self, samples: usize) -> u64 {
        (samples / self.batch().max(1)) as u64
    }

    /// Training steps of the whole run over that many samples: all epochs, or the limit if it comes first.
    pub(crate) fn steps_of_run(&self, samples: usize) -> u64 {
        let config = &self.session.config;
        let all = self.steps_of_epoch(samples).saturating_mul(config.epochs as u64);
        config.steps.map_or(all, |limit| limit.min(all))
    }

    /// Sets what schedules give for a step, of so many in the whole run, in that epoch (all from 0).
    fn schedule(&mut self, step: u64, steps: u64, epoch: u64, samples: usize) {
        let epochs = steps.div_ceil(self.steps_of_epoch(samples).max(1));
        let algorithm = &self.session.algorithm;
        let size = algorithm.step_size(step, steps);
        let losses = self.history.iter().filter_map(|record| record.train_loss);
        let losses = losses.map(|loss| loss as f32);
        let stages = algorithm.stages.as_ref();
        self.stage = stages.map_or(0, |own| own.at((step, steps), (epoch, epochs), losses));
        for call in self.step_entries.iter_mut().chain(&mut self.end_entry) {
            call.set_number(InputRole::LearningRate, None, size);
            for (name, input) in &algorithm.optimizer.inputs {
                let value = input.value((step, steps), (epoch, epochs));
                call.set_number(InputRole::Scheduled, Some(name), value);
            }
        }
    }

    /// What the algorithm does behind the last step of an epoch (from 0), with that step's schedules.
    fn end_epoch(&mut self, steps: u64, epoch: u64, samples: usize) -> Result<()> {
        self.schedule(self.steps.saturating_sub(1), steps, epoch, samples);
        let step = u32::try_from(self.steps).ok().context("more than 2^32 steps")?;
        let run = RunContext { seed: self.session.config.seed, step };
        match &mut self.end_entry {
            Some(end) => end.run(&mut self.host, &run),
            None => Ok(()),
        }
    }

    /// Evaluates the state before the first step, as epoch 0; `None` if an epoch is recorded already.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn start(
        &mut self,
        data: &Dataset,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<EpochRecord>> {
        if !self.history.is_empty() {
            return Ok(None);
        }
        let record = self.record(0, None, data, progress)?;
        self.history.push(record);
        Ok(Some(record))
    }

    /// Trains one epoch (the rest of one that is open) and evaluates; `None` if the run is finished.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn epoch(
        &mut self,
        data: &Dataset,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<EpochRecord>> {
        match self.advance(data, u64::MAX, progress)? {
            Advanced::Finished => Ok(None),
            Advanced::Within | Advanced::Ended => self.close(data, progress).map(Some),
        }
    }

    /// Trains so many steps of an epoch, or what is left of it.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn advance(
        &mut self,
        data: &Dataset,
        most: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Advanced> {
        if self.finished() {
            return Ok(Advanced::Finished);
        }
        let epoch = self.epochs();
        let steps = self.steps_of_run(data.train.len());
        let config = self.session.config.clone();
        let order = epoch_order(&config, data.train.len(), self.batch(), epoch);
        let left = config.steps.map_or(u64::MAX, |limit| limit - self.steps);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let end = order.len().min(self.open.steps.saturating_add(left));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let before = self.open.steps;
        for _ in 0..most {
            let Some(indices) = order[..end].get(self.open.steps) else { break };
            progress(Progress::Train(self.open.steps, end));
            self.schedule(self.steps, steps, epoch as u64, data.train.len());
            self.open.losses += f64::from(self.step(&data.train, indices, epoch)?);
            self.open.steps += 1;
        }
        if self.open.steps > before && self.open.steps == order.len() {
            self.end_epoch(steps, epoch as u64, data.train.len())?;
        }
        Ok(if self.open.steps < end { Advanced::Within } else { Advanced::Ended })
    }

    /// Evaluates behind an epoch's last step, and records the epoch.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn close(
        &mut self,
        data: &Dataset,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<EpochRecord> {
        let OpenEpoch { steps, losses } = self.open;
        let loss = losses / steps as f64;
        let record = self.record(self.epochs() + 1, Some(loss), data, progress)?;
        if steps as u64 == self.steps_of_epoch(data.train.len()) {
            self.open = OpenEpoch::default();
        }
        self.history.push(record);
        Ok(record)
    }

    /// Goes on where a run was: behind so many steps, with that history, in an epoch that is so far. One that the limit on
    /// steps cut short is opened again if this run's limits let it go on.
    pub(crate) fn go_on(&mut self, steps: u64, history: Vec<EpochRecord>, open: OpenEpoch) {
        (self.steps, self.history, self.open) = (steps, history, open);
        let config = &self.session.config;
        let cut = |record: &EpochRecord| {
            record.steps == steps && record.epoch > 0 && record.epoch <= config.epochs
        };
        let more = config.steps.is_none_or(|limit| limit > steps);
        if open.steps > 0 && more && self.history.last().is_some_and(cut) {
            self.history.pop();
        }
    }

    fn record(
        &mut self,
        epoch: usize,
        train_loss: Option<f64>,
        data: &Dataset,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<EpochRecord> {
        let test = self.evaluate(&data.test, progress)?;
        let (test_accuracy, test_loss) = match self.goal.is_accuracy() {
            true => (Some(test), None),
            false => (None, Some(test)),
        };
        Ok(EpochRecord { epoch, steps: self.steps, train_loss, test_accuracy, test_loss })
    }

    /// One training step on the samples at `indices`, changed at random for this epoch (from 0); its loss.
    fn step(&mut self, split: &Split, indices: &[usize], epoch: usize) -> Result<f32> {
        let Config { seed, augment, .. } = self.session.config;
        let Augment { crop, flip, cutout } = augment;
        let augmentation = Augmentation { crop, flip, cutout };
        let normalizer = &self.normalizer;
        let entry = &mut self.step_entries[self.stage];
        fill(entry, split, normalizer, indices, |image, index| {
            if !augmentation.is_none() {
                let place = (seed, epoch as u64, index);
                augmentation.apply(image, split.shape, normalizer, place);
            }
        });
        let step = u32::try_from(self.steps).ok().context("more than 2^32 steps")?;
        let run = RunContext { seed: self.session.config.seed, step };
        let entry = &mut self.step_entries[self.stage];
        entry.run(&mut self.host, &run)?;
        self.steps += 1;
        let loss = entry.output_f32(0).first().copied();
        loss.context("the step has no loss")
    }

    /// The fraction of samples (of their positions) whose own class has the highest score (the first of equal ones); where
    /// there are no classes, the mean loss.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn evaluate(&mut self, split: &Split, progress: &mut dyn FnMut(Progress)) -> Result<f64> {
        let first = self.infer_calls.first().context("a call of inference")?;
        let (handle, batch) = (first.handle, first.batch);
        let batch = NonZeroUsize::new(batch).context("an empty batch")?;
        let batches: Vec<_> = evaluation_batches(split.len(), batch).collect();
        let run = RunContext { seed: self.session.config.seed, step: 0 };
        let outputs = self.goal.outputs();
        let mut sums = vec![Sum::default(); outputs.len()];
        let together = self.infer_calls.len();
        for (i, several) in batches.chunks(together).enumerate() {
            progress(Progress::Evaluate(i * together, batches.len()));
            let calls = &mut self.infer_calls[..several.len()];
            for (call, batch) in calls.iter_mut().zip(several) {
                fill(call, split, &self.normalizer, &batch.indices, |_, _| {});
            }
            let mut bytes: Vec<CallBytes<'_>> = calls.iter_mut().map(Call::bytes).collect();
            self.host.run_several(handle, &mut bytes, &run)?;
            for (call, batch) in calls.iter().zip(several) {
                for (part, (&output, sum)) in outputs.iter().zip(&mut sums).enumerate() {
                    let values = call.output_f32(output);
                    self.goal.add(sum, (part, &values), split, &batch.indices[..batch.count]);
                }
            }
        }
        Ok(self.goal.judged(&sums))
    }

    /// The state under the model's names, in the order of checkpoints.
    ///
    /// # Errors
    /// None that a compiled program gives.
    pub fn state(&self) -> Result<Vec<(String, Tensor)>> {
        let state = self.host.state()?;
        Ok(self.state_names.iter().cloned().zip(state.into_iter().map(|(_, t)| t)).collect())
    }

    /// Sets the state, given in the order of [`Trainer::state`].
    ///
    /// # Errors
    /// If the number or a type is another.
    pub fn set_state(&mut self, tensors: &[Tensor]) -> Result<()> {
        let buffers: Vec<String> = self.host.state()?.into_iter().map(|(name, _)| name).collect();
        ensure!(buffers.len() == tensors.len(), "{} tensors of state", tensors.len());
        for (name, tensor) in buffers.iter().zip(tensors) {
            self.host.set_state(name, tensor)?;
        }
        Ok(())
    }
}

fn fill(
    call: &mut Call,
    split: &Split,
    normalizer: &Normalizer,
    indices: &[usize],
    change: impl Fn(&mut [f32], usize),
) {
    let words = call.inputs.iter().any(|(r, e, _)| (*r, *e) == (InputRole::Data, Element::I32));
    if let Some(values) = split.integers(indices).filter(|_| words) {
        call.set(InputRole::Data, values.iter().map(|v| v.to_le_bytes()));
    } else {
        fill_images(call, split, normalizer, indices, change);
    }
    for ((role, element, bytes), name) in call.inputs.iter_mut().zip(&call.names) {
        if *role == InputRole::Labels {
            let words = goal::wanted(split, indices, (name, *element));
            bytes.chunks_exact_mut(4).zip(words).for_each(|(b, w)| b.copy_from_slice(&w));
        }
    }
}

fn fill_images(
    call: &mut Call,
    split: &Split,
    normalizer: &Normalizer,
    indices: &[usize],
    change: impl Fn(&mut [f32], usize),
) {
    let mut images = vec![0f32; indices.len() * split.image_len()];
    split.fill_batch(indices, normalizer, &mut images, &mut vec![0; indices.len()]);
    let size = split.image_len().max(1);
    for (image, &index) in images.chunks_exact_mut(size).zip(indices) {
        change(image, index);
    }
    if let Some(layout) = ImageLayout::of(&call.shape, split.shape) {
        layout.arrange(&mut images, split.shape);
    }
    match call.inputs.iter_mut().find(|(role, ..)| *role == InputRole::Data) {
        // Values that are stored as bytes, which the normalization `none` leaves as they are.
        Some((_, Element::U8, bytes)) => {
            bytes.iter_mut().zip(&images).for_each(|(byte, value)| *byte = *value as u8);
        }
        _ => call.set(InputRole::Data, images.iter().map(|v| v.to_le_bytes())),
    }
}

/// The batches of an epoch: all full, in the seed's order or the file's.
fn epoch_order(config: &Config, length: usize, batch: usize, epoch: usize) -> Vec<Vec<usize>> {
    let Some(size) = NonZeroUsize::new(batch) else { return Vec::new() };
    if config.shuffle {
        let batches = TrainingBatches::new(length, size, config.seed, epoch as u64);
        batches.iter().map(<[usize]>::to_vec).collect()
    } else {
        (0..length / batch).map(|i| (i * batch..(i + 1) * batch).collect()).collect()
    }
}

/// A number as an element, of which it is one.
fn number_bits(value: f64, element: Element) -> [u8; 4] {
    match element {
        Element::I32 => (value as i32).to_le_bytes(),
        _ => (value as f32).to_le_bytes(),
    }
}

/// Whether an algorithm trains.
///
/// # Errors
/// If it only infers.
pub fn check_trains(algorithm: &Algorithm) -> Result<()> {
    ensure!(
        algorithm.inference.is_none(),
        "algorithm `{}` only infers: its programs have no training step (`trainc compile` and `trainc run` take it; \
         `trainc algorithms` lists those that train)",
        algorithm.name
    );
    Ok(())
}

fn check_data(session: &Session, data: &Dataset) -> Result<()> {
    let program = session.program();
    let entry = program.entry(TRAIN_STEP).context("no training step")?;
    let ty = data_type(program, entry)?;
    let batch = ty.shape.first().copied().unwrap_or(1).max(1);
    ImageLayout::check(ty, data)?;
    let Config { normalization, ref mean, ref deviation, .. } = session.config;
    let stored =
        normalization == InputNormalization::None && mean.is_empty() && deviation.is_empty();
    ensure!(
        stored || ty.element != Element::U8,
        "the model takes bytes ({ty}), which are fed as they are stored: leave the normalization out, or train the model with \
         FP32 inputs (`trainc zoo` writes one without `--bytes`) under `--normalization none`, whose weights fit this one"
    );
    ensure!(
        ty.element != Element::I32 || session.config.augment == Augment::default(),
        "there is no augmentation of numbers of words or categories ({ty})"
    );
    let labels: Vec<_> = entry.inputs.iter().filter(|a| a.role == InputRole::Labels).collect();
    let names: Vec<&str> = labels.iter().map(|a| a.name.as_str()).collect();
    let given: Vec<String> =
        data.train.named.iter().map(|(name, _)| format!("y_train.{name}")).collect();
    let has = |name: &str| {
        data.train.named.iter().any(|(known, _)| {
            name.strip_prefix(known.as_str())
                .is_some_and(|rest| [".targets", ".labels"].contains(&rest))
        })
    };
    ensure!(
        labels.len() < 2 || names.iter().all(|name| has(name)),
        "a training step for several results ({}) takes an array of each from the data, `y_train.RESULT` and `y_test.RESULT`; \
         `{}` has {}",
        names.join(", "),
        data.name,
        if given.is_empty() { "`y_train` alone".to_string() } else { given.join(", ") }
    );
    for argument in labels {
        let input = (argument.name.as_str(), &program.buffer(argument.buffer).ty);
        goal::check(&data.train, input, &data.name)?;
    }
    if let Some(classes) = Goal::of(session)?.classes() {
        ensure!(
            data.classes.len() <= classes,
            "`{}` has {} classes, the model {classes} outputs",
            data.name,
            data.classes.len()
        );
    }
    ensure!(
        data.train.len() >= batch,
        "`{}` has {} training samples, fewer than one batch of {batch}",
        data.name,
        data.train.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let config = Config { shuffle: false, ..Config::default() };
        assert_eq!(epoch_order(&config, 7, 3, 0), [vec![0, 1, 2], vec![3, 4, 5]]);
        let config = Config { seed: 3, ..Config::default() };
        let first = epoch_order(&config, 9, 3, 0);
        assert_eq!(first, epoch_order(&config, 9, 3, 0));
        assert_ne!(first, epoch_order(&config, 9, 3, 1));
        let mut all: Vec<usize> = first.concat();
        all.sort_unstable();
        assert_eq!(all, (0..9).collect::<Vec<_>>());
    }
}
