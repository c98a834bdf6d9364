//! What launches take on each device of a target that has several, measured: a file for `--latencies`.
//!
//! A program runs once on each device alone, as far as its launches run there, so that every kernel is measured on every one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trainc_ir::program::{DeviceId, Program};
use trainc_opt::plan::PlanError;
use trainc_opt::plan::devices::{costs, with_devices};

use crate::bench::Subject;
use crate::emit;
use crate::error::{Context, InFile, Result, bail, ensure};
use crate::session::{Entries, Session};
use crate::verify::artifact::{self, Artifact};
use crate::verify::measure::MeasureOptions;
use crate::verify::times::{Times, times};
use crate::verify::tools::Workspace;

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls of each entry, of which the median counts.
    pub calls: u32,
    /// Seed of data and random numbers.
    pub seed: u64,
    /// A compiler of the first device's side in place of the target's, which gets the target's flags.
    pub compiler: Option<String>,
    /// What runs the first device's side in place of the target's emulator, with its arguments.
    pub runner: Option<String>,
    /// A folder for the artifacts, the programs around them and their executables, which then stay.
    pub keep: Option<PathBuf>,
    /// A log with a device's own lines of times, in place of a run here.
    pub log: Option<PathBuf>,
}

/// What was measured, in microseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasureReport {
    /// The program.
    pub name: String,
    /// Its target.
    pub target: String,
    /// Its devices.
    pub devices: Vec<String>,
    /// Of a switch; none if the log has none.
    pub switch: Option<f64>,
    /// Of a launch of each kernel on each device, both by name.
    pub kernels: BTreeMap<String, BTreeMap<String, f64>>,
    /// Kernels without a time on some device, which the target's estimate gives then.
    pub missing: usize,
    /// What ran it, if it was emulated.
    pub emulators: Vec<String>,
}

/// Where a measurement is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The model is compiled.
    Compile,
    /// All launches run on this device.
    Run(String),
}

/// Measures the kernels of an artifact's or a model's program.
///
/// # Errors
/// If its target has one device, or the program cannot be built or run here; of a log, if it names what the program has not.
pub fn measure(
    subject: &Subject<'_>,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<MeasureReport> {
    let workspace = Workspace::new(options.keep.as_deref())?;
    let compiled = workspace.path().join("compiled");
    let folder = match subject {
        Subject::Folder(folder) => folder,
        Subject::Model(source, config) => {
            progress(Progress::Compile);
            let session = Session::new(source, config, Entries::TrainAndInfer)?;
            emit::write_folder(&compiled, &emit::artifact(&session, &[])?)?;
            compiled.as_path()
        }
    };
    let mut artifact = artifact::read(folder)?;
    let target = artifact.target.description().name;
    let Some(timing) = artifact.target.timing() else {
        bail!(
            "latencies divide a program among devices, and target `{target}` runs all on one: measure for `neon+hvx`; \
             `trainc bench --target {target}` counts what launches execute"
        );
    };
    let devices = artifact.program.devices.clone();
    let (mut all, mut emulators) = (Times::default(), Vec::new());
    if let Some(log) = &options.log {
        let in_file = |message: String| InFile::new(log, message);
        let text =
            std::fs::read_to_string(log).map_err(|e| in_file(format!("cannot read: {e}")))?;
        all = Times::parse(&text).map_err(in_file)?;
        ensure!(
            !all.launches.is_empty() || !all.switch.is_empty(),
            in_file(
                "no line `trainc-time ...` in it; docs/pair.md says how a device writes them"
                    .into()
            )
        );
        check(&all, &artifact.program).map_err(in_file)?;
    } else {
        for (device, name) in devices.iter().enumerate() {
            progress(Progress::Run(name.clone()));
            let workspace = match &options.keep {
                Some(keep) => Workspace::new(Some(&keep.join(name)))?,
                None => Workspace::new(None)?,
            };
            alone(&mut artifact, DeviceId(device))?;
            let folder = workspace.path().join("artifact");
            write(&artifact, &folder)?;
            let Options { seed, compiler, runner, .. } = options.clone();
            let build = MeasureOptions { seed, compiler, runner };
            let (found, by) =
                times((&folder, &artifact), &timing, options.calls.max(1), &build, &workspace)?;
            all.switch.extend(found.switch);
            // What ran elsewhere for want of a way here was measured there.
            all.launches.extend(found.launches.into_iter().filter(|((on, ..), _)| on == name));
            emulators = by;
        }
        if options.runner.as_ref().is_some_and(|runner| !runner.contains("qemu")) {
            emulators.remove(0);
        }
    }
    Ok(report(&artifact, &all, emulators))
}

/// Puts all launches on a device that run there.
fn alone(artifact: &mut Artifact, device: DeviceId) -> Result<()> {
    let program = &artifact.program;
    let of = |kernel: &trainc_ir::program::Kernel, device| kernel.selection.device_cost(device);
    let places: Vec<Vec<DeviceId>> = program
        .entries
        .iter()
        .map(|entry| {
            let runs = |row: Vec<trainc_ir::target::Cost>| match row[device.0].cycles() {
                Some(_) => device,
                None => DeviceId((0..row.len()).find(|&d| row[d].cycles().is_some()).unwrap_or(0)),
            };
            costs(program, entry, &of).into_iter().map(runs).collect()
        })
        .collect();
    artifact.program = with_devices(program.clone(), &places).map_err(PlanError::Internal)?;
    Ok(())
}

/// The target's files of a program.
fn write(artifact: &Artifact, folder: &Path) -> Result<()> {
    let place = || format!("{}: cannot be written", folder.display());
    std::fs::create_dir_all(folder).with_context(place)?;
    for file in artifact.target.emit(&artifact.program)? {
        std::fs::write(folder.join(&file.name), &file.contents).with_context(place)?;
    }
    Ok(())
}

/// Whether a program has what times are of.
fn check(times: &Times, program: &Program) -> Result<(), String> {
    for (device, entry, launch) in times.launches.keys() {
        if !program.devices.contains(device) {
            let known = program.devices.join(", ");
            return Err(format!("no device `{device}`; there are {known}"));
        }
        let steps = program.entries.get(*entry).map(|e| e.steps.len());
        if steps.is_none_or(|steps| *launch >= steps) {
            return Err(format!(
                "the program has no launch {launch} in entry {entry}: it is of another model, batch or algorithm"
            ));
        }
    }
    Ok(())
}

fn median(times: &mut [u64]) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(|&nanoseconds| nanoseconds as f64 / 1e3)
}

fn report(artifact: &Artifact, times: &Times, emulators: Vec<String>) -> MeasureReport {
    let program = &artifact.program;
    let mut all: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for ((device, entry, launch), found) in &times.launches {
        let steps = trainc_ir::harness::launches(&program.entries[*entry]);
        let kernel = program.kernel(steps[*launch].kernel).name.clone();
        // Where it was called more than once, the first call is not like the others.
        let warm = &found[usize::from(found.len() > 1)..];
        all.entry((kernel, device.clone())).or_default().extend(warm);
    }
    let mut kernels: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for ((kernel, device), mut found) in all {
        if let Some(time) = median(&mut found) {
            kernels.entry(kernel).or_default().insert(device, time);
        }
    }
    let launched: std::collections::BTreeSet<&str> = program
        .entries
        .iter()
        .flat_map(trainc_ir::harness::launches)
        .map(|launch| program.kernel(launch.kernel).name.as_str())
        .collect();
    let whole =
        |name: &&&str| kernels.get(**name).is_some_and(|k| k.len() == program.devices.len());
    let missing = launched.len() - launched.iter().filter(whole).count();
    MeasureReport {
        name: program.name.clone(),
        target: artifact.target.description().name.to_string(),
        devices: program.devices.clone(),
        switch: median(&mut times.switch.clone()),
        kernels,
        missing,
        emulators,
    }
}

impl MeasureReport {
    /// The file for `--latencies`.
    pub fn file(&self) -> String {
        let mut out = format!(
            "# Microseconds of {} for {}: medians, by `trainc measure`.\n",
            trainc_ir::names::shown(&self.name),
            self.target
        );
        if let Some(warning) = self.warning() {
            let _ = writeln!(out, "# {warning}");
        }
        if let Some(switch) = self.switch {
            let _ = writeln!(out, "switch = {switch:?}");
        }
        for (kernel, devices) in &self.kernels {
            let _ = writeln!(out, "\n[kernels.{kernel}]");
            for (device, time) in devices {
                let _ = writeln!(out, "{device} = {time:?}");
            }
        }
        out
    }

    /// What is to be known of the times.
    pub fn warning(&self) -> Option<String> {
        let by = (!self.emulators.is_empty()).then(|| self.emulators.join(" and "))?;
        Some(format!(
            "Emulated by {by}: times of this machine's processor, and no device's. On a device: docs/pair.md."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_latencies_read() {
        let report = MeasureReport {
            name: "net".into(),
            target: "neon+hvx".into(),
            devices: vec!["cpu".into(), "hvx".into()],
            switch: Some(31.5),
            kernels: [("relu".to_string(), [("cpu".to_string(), 2.0)].into())].into(),
            missing: 1,
            emulators: vec!["qemu-aarch64".into()],
        };
        let text = report.file();
        assert!(text.contains("no device's"), "{text}");
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["switch"].as_float(), Some(31.5));
        assert_eq!(table["kernels"]["relu"]["cpu"].as_float(), Some(2.0));
        let real = MeasureReport { emulators: Vec::new(), ..report };
        assert_eq!(real.warning(), None);
    }
}
