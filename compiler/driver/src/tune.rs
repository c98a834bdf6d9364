//! How an artifact's kernels are launched on the device of this machine: ways to do so are tried, and the best is written into the
//! artifact. Every trial's results are compared with the first's.

use std::path::{Path, PathBuf};

use serde::Serialize;
use trainc_data::write_atomically;
use trainc_ir::names;
use trainc_ir::tuning::{Tunable, Tuning};

use crate::error::{Context, InFile, Result, bail};
use crate::hash::FileFingerprint;
use crate::manifest::Tunables;
use crate::stored::MANIFEST;
use crate::verify::artifact;
use crate::verify::measure::MeasureOptions;
use crate::verify::trials::{Call, Trials};

/// How it is tuned.
#[derive(Clone, Debug, Default)]
pub struct TuneOptions {
    /// The entry; without it `infer`, or the first where none infers.
    pub entry: Option<String>,
    /// Seed of data and random numbers.
    pub seed: u64,
    /// Calls of which the fastest counts, for each trial.
    pub repeats: usize,
    /// A compiler in place of the target's, which gets the target's flags.
    pub compiler: Option<String>,
    /// A command that starts the program.
    pub runner: Option<String>,
    /// A folder for the program around the artifact, its plans and times, which then stay.
    pub keep: Option<PathBuf>,
}

/// Where tuning is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The compiler runs: its command.
    Build(String),
    /// The kernels run as the driver likes.
    Untuned,
    /// So many trials of so many kernels run.
    Try(usize, usize),
    /// The best of each kernel run beside the driver's choices.
    Compare,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TuneReport {
    /// The program.
    pub name: String,
    /// Its target.
    pub target: String,
    /// The entry that was called.
    pub entry: String,
    /// The device.
    pub device: String,
    /// Nanoseconds of a call with the driver's choices, and with those that were written.
    pub before: u64,
    /// See `before`.
    pub after: u64,
    /// Choices that were tried, of all kernels.
    pub tried: usize,
    /// Whether the choices found were faster together, and so were written; otherwise the driver's were.
    pub faster: bool,
    /// The artifact's file that holds them.
    pub file: String,
    /// The kernels that were tried.
    pub kernels: Vec<TunedKernel>,
    /// Kernels that take too little of a call to be tried.
    pub small: usize,
}

/// A kernel that was tried.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TunedKernel {
    /// Its name.
    pub kernel: String,
    /// The best way to launch it.
    pub chosen: String,
    /// Nanoseconds in a call with the driver's choice, and with the one that was chosen.
    pub before: u64,
    /// See `before`.
    pub after: u64,
    /// Every way with its nanoseconds; `None` where the device refuses it.
    pub tried: Vec<TriedWay>,
}

/// A way to launch a kernel.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TriedWay {
    /// The way.
    pub way: String,
    /// Nanoseconds.
    pub nanoseconds: Option<u64>,
}

/// A kernel that takes less than this part of a call is not tried.
const SMALL: u64 = 100;
/// What is not faster by this part stays as it is: times move by more.
const NOTICEABLE: u64 = 30;

/// Tries ways to launch the kernels of an artifact on this machine's device, and writes the best into its folder.
///
/// # Errors
/// If the folder is no artifact with something to choose, it cannot be built or run here, or a trial has other results.
pub fn tune(
    folder: &Path,
    options: &TuneOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<TuneReport> {
    let artifact = artifact::read(folder)?;
    let target = artifact.target.description().name;
    let Some(tuning) = artifact.target.tuning(&artifact.program)? else {
        bail!(
            "{}: artifacts of target `{target}` have nothing to choose on a device; those of `opencl` have: compile with \
             `--target opencl`",
            folder.display()
        );
    };
    let entry = entry(&artifact, options.entry.as_deref())?;
    let TuneOptions { seed, compiler, runner, keep, .. } = options.clone();
    let built = MeasureOptions { seed, compiler, runner };
    let place = (folder, keep.as_deref());
    let trials = Trials::new(place, &artifact, &tuning, entry, &built, &mut |compiler| {
        progress(Progress::Build(compiler));
    })?;
    let own = vec![0; tuning.tunables.len()];
    // The first call compiles.
    progress(Progress::Untuned);
    let repeats = options.repeats.max(1);
    let untuned = trials.run(&vec![own.clone(); repeats + 1])?;
    let before = fastest(&untuned.calls[1..]);
    let whole: u64 = before.kernels.iter().flatten().sum();
    let counts = |at: &usize| {
        let several = tuning.tunables[*at].candidates.len() > 1;
        several && before.kernels[*at].is_some_and(|own| own * SMALL >= whole)
    };
    let (tried, small): (Vec<usize>, Vec<usize>) = (0..tuning.tunables.len())
        .filter(|&at| !tuning.tunables[at].candidates.is_empty())
        .partition(counts);
    let most = tried.iter().map(|&at| tuning.tunables[at].candidates.len()).max().unwrap_or(1);
    let ways: usize = tried.iter().map(|&at| tuning.tunables[at].candidates.len()).sum();
    progress(Progress::Try(ways, tried.len()));
    // A call tries one way of each kernel.
    let choice = |round: usize| {
        let mut choice = own.clone();
        for &at in tried.iter().filter(|&&at| round < tuning.tunables[at].candidates.len()) {
            choice[at] = round;
        }
        choice
    };
    let rounds: Vec<Vec<usize>> =
        (0..most).flat_map(|round| vec![choice(round); repeats + 1]).collect();
    let measured = trials.run(&rounds)?;
    let rounds: Vec<Call> =
        measured.calls.chunks(repeats + 1).map(|calls| fastest(&calls[1..])).collect();
    let mut best = own.clone();
    let mut kernels = Vec::new();
    for &at in &tried {
        let Tunable { kernel, candidates } = &tuning.tunables[at];
        let of = |round: usize| rounds[round].kernels[at];
        let first = of(0).unwrap_or(u64::MAX);
        let found = (0..candidates.len()).min_by_key(|&round| of(round).unwrap_or(u64::MAX));
        let found =
            found.filter(|&round| of(round).is_some_and(|time| time < first - first / NOTICEABLE));
        best[at] = found.unwrap_or(0);
        let way =
            |round: usize| TriedWay { way: candidates[round].to_string(), nanoseconds: of(round) };
        kernels.push(TunedKernel {
            kernel: kernel.clone(),
            chosen: candidates[best[at]].to_string(),
            before: first,
            after: of(best[at]).unwrap_or(first),
            tried: (0..candidates.len()).map(way).collect(),
        });
    }
    progress(Progress::Compare);
    let turns: Vec<Vec<usize>> =
        std::iter::repeat_n([own.clone(), best.clone()], repeats + 1).flatten().collect();
    let turns = trials.run(&turns)?;
    let of = |which: usize| {
        let calls = turns.calls[2..].iter().skip(which).step_by(2);
        calls.map(|call| call.whole).min().unwrap_or(0)
    };
    let (before, after) = (of(0), of(1));
    let faster = after < before;
    let chosen = if faster { &best } else { &own };
    write(folder, &tuning, chosen, &turns.device)?;
    Ok(TuneReport {
        name: artifact.program.name.clone(),
        target: target.to_string(),
        entry: artifact.program.entries[entry].name.clone(),
        device: turns.device.clone(),
        before,
        after: if faster { after } else { before },
        tried: ways,
        faster,
        file: tuning.file.clone(),
        kernels,
        small: small.len(),
    })
}

fn entry(artifact: &artifact::Artifact, named: Option<&str>) -> Result<usize> {
    let names: Vec<&str> = artifact.program.entries.iter().map(|e| e.name.as_str()).collect();
    let position = |name: &str| names.iter().position(|n| *n == name);
    match named {
        Some(name) => position(name).with_context(|| {
            format!("there is no entry `{name}`; the program has {}", names.join(", "))
        }),
        None if names.is_empty() => bail!("the program has no entry"),
        None => Ok(position(crate::session::INFER).unwrap_or(0)),
    }
}

/// The least of each time.
fn fastest(calls: &[Call]) -> Call {
    let least = |at: usize| calls.iter().map(|call| call.kernels[at]).min().flatten();
    let kernels = calls.first().map_or(0, |call| call.kernels.len());
    Call {
        whole: calls.iter().map(|call| call.whole).min().unwrap_or(0),
        kernels: (0..kernels).map(least).collect(),
        launches: Vec::new(),
    }
}

/// Writes a choice into an artifact: the target's file, then the manifest.
fn write(folder: &Path, tuning: &Tuning, choice: &[usize], device: &str) -> Result<()> {
    let contents = tuning.contents(choice, Some(device));
    let path = folder.join(MANIFEST);
    let place = || path.display().to_string();
    let manifest = std::fs::read_to_string(&path).with_context(place)?;
    let tunables = serde_json::to_string_pretty(&Tunables::of(tuning, choice, Some(device)))?;
    let again = edited(&manifest, &tuning.file, contents.as_bytes(), &names::json(&tunables))
        .ok_or_else(|| {
            InFile::new(&path, "it lacks what `trainc tune` writes; compile again".to_string())
        })?;
    write_atomically(&folder.join(&tuning.file), contents.as_bytes())?;
    write_atomically(&path, again.as_bytes())?;
    Ok(())
}

/// The manifest with another file of choices, and with them in words; `None` if it has neither. All else keeps its place.
fn edited(manifest: &str, file: &str, contents: &[u8], tunables: &str) -> Option<String> {
    const OPEN: &str = "\n  \"tunables\": {";
    const CLOSE: &str = "\n  }";
    let start = manifest.find(OPEN)?;
    let end = start + manifest[start..].find(CLOSE)? + CLOSE.len();
    let tunables = tunables.replace('\n', "\n  ");
    let text = format!("{}\n  \"tunables\": {tunables}{}", &manifest[..start], &manifest[end..]);
    let name = format!("\"name\": {},", serde_json::to_string(file).ok()?);
    let start = text.find(&name)?;
    let end = start + text[start..].find('}')?;
    let hash = FileFingerprint::of(contents);
    let entry =
        format!("{name}\n      \"bytes\": {},\n      \"hash\": \"{hash}\"\n    ", contents.len());
    Some(format!("{}{entry}{}", &text[..start], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_choice_changes_in_a_manifest() {
        let before = "{\n  \"format\": 1,\n  \"tunables\": {\n    \"device\": null\n  },\n  \"files\": [\n    {\n      \"name\": \
                      \"a_tuning.h\",\n      \"bytes\": 1,\n      \"hash\": \"x\"\n    },\n    {\n      \"name\": \"b\"\n    }\n  ]\n}\n";
        let after = edited(before, "a_tuning.h", b"12", "{\n  \"device\": \"d\"\n}").unwrap();
        let hash = FileFingerprint::of(b"12");
        let expected = before
            .replace("null", "\"d\"")
            .replace("\"bytes\": 1", "\"bytes\": 2")
            .replace("\"x\"", &format!("\"{hash}\""));
        assert_eq!(after, expected);
        assert_eq!(edited("{}", "a", b"", "{}"), None);
    }

    #[test]
    fn the_least_of_each_time() {
        let call = |whole, kernels: &[Option<u64>]| Call {
            whole,
            kernels: kernels.to_vec(),
            launches: Vec::new(),
        };
        let calls = [call(9, &[Some(3), None]), call(7, &[Some(4), None])];
        assert_eq!(fastest(&calls), call(7, &[Some(3), None]));
    }
}
