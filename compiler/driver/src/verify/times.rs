//! What launches take on the clocks of their devices: an artifact of two machines, built so that it says so.

use std::collections::BTreeMap;
use std::path::Path;

use trainc_ir::harness::Timing;

use crate::error::{Context, Error, Result, bail, ensure};

use super::artifact::Artifact;
use super::inputs::{cases, operands};
use super::measure::MeasureOptions;
use super::partner::Partner;
use super::process::{Ended, Requests};
use super::runnable;
use super::source::source;
use super::tools::{Build, Hooks, Tools, Workspace};

/// The flag of builds that time launches.
const PROFILE: &str = "-DTRAINC_PROFILE";

/// What lines of times say: nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times {
    /// Of a switch, each time that it was measured.
    pub(crate) switch: Vec<u64>,
    /// Of launches, by device, entry and number.
    pub(crate) launches: BTreeMap<(String, usize, usize), Vec<u64>>,
}

impl Times {
    /// Reads lines `trainc-time DEVICE ENTRY LAUNCH NANOSECONDS` and `trainc-time switch NANOSECONDS` among others.
    ///
    /// # Errors
    /// Which line is none of these, by its number.
    pub(crate) fn parse(text: &str) -> Result<Times, String> {
        let mut times = Times::default();
        for (number, line) in text.lines().enumerate() {
            // A log may have its own words in front.
            let Some(at) = line.find("trainc-time ") else { continue };
            let words: Vec<&str> = line[at..].split_whitespace().skip(1).collect();
            let read = |word: &str| word.parse::<u64>().ok();
            let found = match words[..] {
                ["switch", time] => read(time).map(|time| times.switch.push(time)),
                [device, entry, launch, time] => {
                    let numbers = read(entry).zip(read(launch)).zip(read(time));
                    numbers.map(|((entry, launch), time)| {
                        let place = (device.to_string(), entry as usize, launch as usize);
                        times.launches.entry(place).or_default().push(time);
                    })
                }
                _ => None,
            };
            if found.is_none() {
                return Err(format!(
                    "line {}: not `trainc-time DEVICE ENTRY LAUNCH NANOSECONDS` or `trainc-time switch NANOSECONDS`",
                    number + 1
                ));
            }
        }
        Ok(times)
    }
}

/// Runs the entries of an artifact so many times and reads what it says of them.
///
/// # Errors
/// If it cannot be built or run here.
pub(crate) fn times(
    (folder, artifact): (&Path, &Artifact),
    timing: &Timing,
    calls: u32,
    options: &MeasureOptions,
    workspace: &Workspace,
) -> Result<(Times, Vec<String>)> {
    let program = &artifact.program;
    let target = artifact.target.description();
    let (toolchain, mut harness) = runnable(artifact.target, program)?;
    let (compiler, runner) = (options.compiler.as_deref(), options.runner.as_deref());
    let mut tools = Tools::find(target.name, &toolchain, compiler, runner)?;
    let Some(mut partner) = Partner::of(artifact.target, program, workspace)? else {
        bail!("target `{}` has no second machine", target.name);
    };
    let support = timing.support.iter();
    harness.support.extend(support.map(|(name, text)| (name.to_string(), text.to_string())));
    partner.support(timing.partner);
    tools.flag(PROFILE);
    partner.flag(PROFILE);
    let hooks = Hooks { name: "times", text: timing.hooks };
    tools.partner = Some(partner.build(folder, Some(hooks))?);
    let main = source(program, &harness, target.alignment, false);
    let build = Build { folder, tools: &tools, workspace, harness: &harness };
    let executable = build.executable(&main, Some(hooks))?;

    let context = (artifact.classes(), artifact.rows(), &artifact.rates);
    let mut requests = Requests::default();
    requests.init();
    let exported = |name: &str| harness.functions.iter().any(|f| f.entry == name);
    let entries: Vec<_> =
        program.entries.iter().enumerate().filter(|(_, e)| exported(&e.name)).collect();
    let mut answers = vec![program.memory.state_bytes];
    // The first call warms up.
    for case in cases(calls + 1, false) {
        for &(number, entry) in &entries {
            let operands = operands(program, entry, &case, options.seed, context);
            requests.call((number, false), (options.seed, case.step), &operands);
            let results = entry.outputs.iter().map(|a| program.buffer(a.buffer).bytes());
            answers.push(results.sum::<usize>() + program.memory.state_bytes);
        }
    }
    let mut process = build.start(&executable, &requests)?;
    let mut said = || -> Result<String, Ended> {
        for bytes in &answers {
            process.read(1 + 4 + bytes)?;
        }
        process.said()
    };
    let said =
        said().map_err(|Ended(how)| Error::Refused(format!("the program ended early: {how}")))?;
    let times = Times::parse(&said).map_err(Error::Refused).context("the program's own times")?;
    ensure!(!times.launches.is_empty(), "the program told of no launch");
    Ok((times, tools.runner().into_iter().chain(partner.runner()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_among_others() {
        let text = "booted\ntrainc-time switch 900\n[12.3] trainc-time hvx 0 7 1234\ntrainc-time hvx 0 7 1200\n\
                    trainc-time cpu 1 0 5\n";
        let times = Times::parse(text).unwrap();
        assert_eq!(times.switch, [900]);
        assert_eq!(times.launches[&("hvx".into(), 0, 7)], [1234, 1200]);
        assert_eq!(times.launches[&("cpu".into(), 1, 0)], [5]);
        let error = Times::parse("trainc-time switch 1\ntrainc-time cpu 0 1\n").unwrap_err();
        assert!(error.starts_with("line 2:"), "{error}");
        assert!(Times::parse("trainc-time cpu 0 one 3\n").is_err());
    }
}
