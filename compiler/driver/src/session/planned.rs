//! The last stage before code: the program.

use std::ops::Deref;

#[cfg(feature = "host")]
use trainc_host::HostProgram;
use trainc_ir::batch_split::MicroBatch;
use trainc_ir::program::{InputNotes, MemoryPlan, Notes, Program};
use trainc_ir::target::Target;
use trainc_ir::{Tensor, Verified};
use trainc_opt::plan::devices::with_own_scratch;
use trainc_opt::plan::{PlanEntry, PlanError, PlanOptions, PlanReport, plan};

use super::compilation::timed;
use super::{Entries, OptimisedEntry, Staged, import, words};
use crate::config::{Config, InputNormalization};
use crate::error::{Context, Result, ensure};
#[cfg(feature = "host")]
use crate::image_layout::ImageLayout;
use crate::latencies::Latencies;
use crate::model::{self, ModelSource};
use crate::splits::note;

/// A compiled model, with what every stage made of it.
pub struct Session {
    before: Staged<OptimisedEntry>,
    program: Verified<Program>,
    /// How the program was planned.
    pub plan: PlanReport,
    /// By what its launches were divided among the target's devices, if not by the target's estimates.
    #[cfg_attr(not(feature = "host"), expect(dead_code, reason = "for reports"))]
    pub(crate) latencies: Option<Latencies>,
}

impl Deref for Session {
    type Target = Staged<OptimisedEntry>;

    fn deref(&self) -> &Staged<OptimisedEntry> {
        &self.before
    }
}

impl Session {
    /// Takes another seed for what is drawn while it trains; weights that the first one drew stay.
    #[cfg(feature = "host")]
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.before.compilation.config.seed = seed;
    }

    /// Takes another limit on the steps of training.
    #[cfg(all(test, feature = "host"))]
    pub(crate) fn set_steps(&mut self, steps: Option<u64>) {
        self.before.compilation.config.steps = steps;
    }

    /// Takes a model through every stage.
    ///
    /// # Errors
    /// The first stage's that fails, with the file and node where it is about one.
    pub fn new(source: &ModelSource, config: &Config, entries: Entries) -> Result<Session> {
        Session::named(&source.name(), source, config, entries)
    }

    /// [`Session::new`] under another name than the model's: that of the program, its files and symbols.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn named(
        name: &str,
        source: &ModelSource,
        config: &Config,
        entries: Entries,
    ) -> Result<Session> {
        let float = import(name, source, config, entries)?;
        source.about(float.translate().and_then(Staged::optimise).and_then(Staged::plan))
    }
}

/// Where launches run beside each other on several devices, with working memory of their own.
pub(crate) fn own_scratch(
    program: Verified<Program>,
    target: &dyn Target,
    limit: Option<usize>,
) -> Result<Verified<Program>> {
    if target.switch_cost().is_none() {
        return Ok(program);
    }
    let alignment = target.description().alignment;
    Ok(with_own_scratch(program, alignment, limit).map_err(PlanError::Internal)?)
}

impl Staged<OptimisedEntry> {
    /// Plans the functions as one program.
    ///
    /// # Errors
    /// If there is no plan, or none that the target's machines can address.
    pub fn plan(mut self) -> Result<Session> {
        let mut times = Vec::new();
        let (mut program, report, split) = timed(&mut times, "plan", || {
            let entries =
                self.entries.iter().map(|e| PlanEntry { name: &e.name, graph: &e.optimised });
            let entries: Vec<PlanEntry<'_>> = entries.collect();
            let arena_limit = self.config.arena_limit.map(|limit| limit.0);
            let splitting = self.config.splitting();
            let options = PlanOptions { arena_limit, splitting, ..PlanOptions::default() };
            let planned = plan(&self.name, &entries, self.target, &options)?;
            check_size(self.target, self.config.batch_size(), &planned.0.memory)?;
            let split = (splitting.micro_batch != MicroBatch::Off).then(|| {
                let whole = PlanOptions { arena_limit: None, ..PlanOptions::default() };
                let (unsplit, _) = plan(&self.name, &entries, self.target, &whole)?;
                let (target, unsplit) =
                    (self.target.description().name, unsplit.memory.arena_bytes);
                Ok::<_, PlanError>(note(splitting.micro_batch, &planned.0, unsplit, target))
            });
            Ok((planned.0, planned.1, split.transpose()?))
        })?;
        self.compilation.notes.extend(split);
        self.compilation.times.extend(times);
        let unit = self.target.description().cost_unit;
        self.compilation.notes.extend(words::limited(&report, unit));
        let mut latencies = None;
        if let Some(path) = &self.config.latencies {
            let found = Latencies::read(path, self.target, &program)?;
            program = found.assign(program, self.target)?;
            latencies = Some(found);
        }
        program = own_scratch(program, self.target, self.config.arena_limit.map(|limit| limit.0))?;
        let input = self.normalization()?;
        let (schedule, frozen) = (self.schedule(), self.frozen.clone());
        let (scheduled, stages) = (self.scheduled(), self.stages());
        *program.notes_mut() =
            Notes { schedule, scheduled, stages, frozen, input, classes: Vec::new() };
        Ok(Session { before: self, program, plan: report, latencies })
    }

    /// How images become the model's input by the configuration alone; `None` where that takes data, or for a model
    /// that takes no images.
    fn normalization(&self) -> Result<Option<InputNotes>> {
        let images = self.entries.first().and_then(|entry| {
            let graph = &entry.float;
            match graph.ty(model::data_input(graph)?).shape[..] {
                [_, channels, _, _] => Some(channels),
                _ => None,
            }
        });
        let Some(channels) = images else { return Ok(None) };
        let stated = self.config.stated(channels)?;
        let divisor = match self.config.normalization {
            InputNormalization::None => 1.0,
            InputNormalization::Unit => 255.0,
            InputNormalization::Standardize => return Ok(None),
        };
        let channels = stated.unwrap_or_else(|| vec![(0.0, 1.0); channels]);
        Ok(Some(InputNotes { divisor, channels }))
    }
}

impl Session {
    /// The program.
    pub fn program(&self) -> &Verified<Program> {
        &self.program
    }

    /// The function of that name.
    ///
    /// # Errors
    /// If the session has none.
    pub fn entry(&self, name: &str) -> Result<&OptimisedEntry> {
        self.entries.iter().find(|e| e.name == name).with_context(|| format!("no entry `{name}`"))
    }

    /// Notes what a data set says about the model's input and classes, for the artifact.
    ///
    /// # Errors
    /// If the data are not what the model takes.
    #[cfg(feature = "host")]
    pub fn note_data(&mut self, data: &trainc_data::Dataset) -> Result<()> {
        let normalizer = self.config.normalizer(&data.train)?;
        let graph = &self.entries.first().context("the session has no entry")?.float;
        let ty = graph.ty(model::data_input(graph).context("the model has several inputs")?);
        ensure!(
            ImageLayout::check(ty, data)? == ImageLayout::ChannelsFirst,
            "the model takes {ty}, channels last; notes on data are of images with channels first"
        );
        let input = ty.is_f32().then(|| InputNotes {
            divisor: normalizer.pixel_scale(),
            channels: normalizer.mean_and_deviation(),
        });
        let notes = self.program.notes_mut();
        notes.input = input;
        notes.classes = data.classes.clone();
        Ok(())
    }

    /// The model's names of the program's state, in the order of checkpoints.
    pub fn state_names(&self) -> Vec<String> {
        model::state_names(self.entries.iter().map(|entry| &entry.optimised))
    }

    /// The frozen parameters that the program uses, with their FP32 values, in the model's order.
    pub fn frozen_tensors(&self) -> Vec<(String, Tensor)> {
        let constant = |name: &String| {
            self.entries.iter().find_map(|entry| {
                let graph = &entry.float;
                let named = graph.value_ids().filter(|&v| graph.value(v).name == *name);
                let tensor = named.filter_map(|v| graph.constant_of(v)).next()?;
                Some((name.clone(), (**tensor).clone()))
            })
        };
        self.frozen.iter().filter_map(constant).collect()
    }

    /// The program compiled for this machine.
    ///
    /// # Errors
    /// If it was planned for another target.
    #[cfg(feature = "host")]
    pub fn on_this_machine(&self) -> Result<HostProgram> {
        let target = self.target.description().name;
        let host = trainc_host::HOST.description().name;
        ensure!(
            target == host,
            "programs for target `{target}` do not run here; every target computes the same bits, so leave the target \
             out (`{host}` is what trains and runs on this machine)"
        );
        Ok(HostProgram::compile(&self.program)?)
    }
}

/// Checks that memory fits the addresses of a target's machines. No object of C has half of them or more.
fn check_size(target: &dyn Target, batch: usize, memory: &MemoryPlan) -> Result<()> {
    let bits = target.address_bits();
    let most = (1u64 << (bits - 1)) - 1;
    let parts = [
        ("arena", memory.arena_bytes),
        ("state", memory.state_bytes),
        ("data of constants", memory.constant_bytes),
    ];
    for (what, bytes) in parts {
        let way_out = match (what, batch) {
            ("arena", 2..) => format!("; a smaller batch than {batch} needs less (--batch)"),
            _ => String::new(),
        };
        ensure!(
            bytes as u64 <= most,
            "target {}: the {what} would have {bytes} bytes ({:.1} GiB), and on machines of {bits} bits one object has at \
             most {most}{way_out}",
            target.description().name,
            bytes as f64 / f64::from(1u32 << 30),
        );
    }
    Ok(())
}
