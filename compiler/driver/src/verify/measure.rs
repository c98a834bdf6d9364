//! What the second step of an artifact costs: counts of the whole call in a build without marks inside of it, and of each
//! launch in one that marks them; bytes of its code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_ir::harness::{CALL, Counting, ENTERED, Harness, Mark, Tool, UNMARKED};
use trainc_ir::program::Program;

use crate::error::{Context, Result, bail, ensure};

use super::artifact::Artifact;
use super::elf::{Sizes, sizes};
use super::inputs::{cases, operands};
use super::partner::Partner;
use super::process::{Ended, Requests};
use super::runnable;
use super::source::source;
use super::tools::{Build, Hooks, Tools, Workspace, installed, tool};

/// What counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasureOptions {
    /// Seed of data and random numbers.
    pub(crate) seed: u64,
    /// A compiler in place of the target's.
    pub(crate) compiler: Option<String>,
    /// An emulator in place of the target's.
    pub(crate) runner: Option<String>,
}

/// Counters of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    pub(crate) instructions: u64,
    pub(crate) cycles: u64,
}

/// Counts of one build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Of the whole call, everything included.
    pub(crate) step: Count,
    /// Of the launches that ran.
    pub(crate) launches: BTreeMap<usize, Count>,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// On one core, then on several where that is modelled.
    pub(crate) counts: Vec<Counts>,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// What the counts assume.
    pub(crate) model: &'static str,
    pub(crate) compiler: String,
    pub(crate) runner: Option<String>,
    /// Of entries and kernels, without the runtime; `None` if the objects are of another format than ELF.
    pub(crate) sizes: Option<Sizes>,
    /// What the second machine counted, where two run an artifact.
    pub(crate) there: Option<There>,
}

/// Counts of the second machine.
#[derive(Clone, Debug)]
pub(crate) struct There {
    pub(crate) counts: Counts,
    pub(crate) unit: &'static str,
    pub(crate) model: &'static str,
}

/// A step is counted after one that sets things up.
const STEPS: u32 = 2;

/// A way of counting: the hooks of each build.
struct Way {
    hooks: Vec<&'static str>,
    unit: &'static str,
    model: &'static str,
}

/// Measures a call of an entry.
///
/// # Errors
/// If the artifact cannot be built, run or counted here.
pub(crate) fn measure(
    (folder, artifact): (&Path, &Artifact),
    entry: usize,
    options: &MeasureOptions,
    workspace: &Workspace,
) -> Result<Measured> {
    let program = &artifact.program;
    let target = artifact.target.description();
    let (toolchain, mut harness) = runnable(artifact.target, program)?;
    let (compiler, runner) = (options.compiler.as_deref(), options.runner.as_deref());
    let tools = Tools::find(target.name, &toolchain, compiler, runner)?;
    let mut partner = Partner::of(artifact.target, program, workspace)?;
    let (mut tools, way) = match (tools.simulator(), &toolchain.counting) {
        (Some(simulator), _) => {
            let hooks = simulator.counted().iter().map(|counted| counted.hooks).collect();
            (tools, Way { hooks, unit: "cycles", model: simulator.model() })
        }
        (None, Some(counting)) => {
            let support = counting.support.iter();
            harness
                .support
                .extend(support.map(|(name, text)| (name.to_string(), text.to_string())));
            let tools = counting_tools(target.name, tools, counting, runner, workspace)?;
            let way =
                Way { hooks: vec![counting.hooks], unit: counting.unit, model: counting.model };
            (tools, way)
        }
        (None, None) => bail!("nothing counts what artifacts of target `{}` execute", target.name),
    };
    ensure!(harness.hooks && !way.hooks.is_empty(), "its sources have no hooks for counting");
    let counted_there = partner.as_ref().and_then(|p| p.toolchain.counting.clone());
    if let (Some(partner), Some(counting)) = (&mut partner, &counted_there) {
        partner.support(counting.support);
    }
    let main = source(program, &harness, target.alignment, false);
    let requests = requests(artifact, &harness, entry, options.seed)?;
    let run = |build: &Build<'_>, executable: &Path| -> Result<Vec<(bool, Mark)>> {
        let mut process = build.start(executable, &requests)?;
        let mut marks = || -> Result<Vec<(bool, Mark)>, Ended> {
            let results = program.entries[entry].outputs.iter();
            let results: usize = results.map(|a| program.buffer(a.buffer).bytes()).sum();
            let head = 1 + 4;
            process.read(head + program.memory.state_bytes)?;
            for _ in 0..STEPS {
                process.read(head + results + program.memory.state_bytes)?;
            }
            process.all_marks()
        };
        marks().map_err(|Ended(how)| {
            crate::error::Error::Refused(format!("the program ended early: {how}"))
        })
    };
    let (mut counts, mut found, mut there) = (Vec::new(), None, None);
    for (number, hooks) in way.hooks.iter().enumerate() {
        let (name, text) = (format!("unmarked_{number}"), format!("{UNMARKED}{hooks}"));
        let unmarked = Hooks { name: &name, text: &text };
        tools.partner = partner.as_ref().map(|p| p.build(folder, Some(unmarked))).transpose()?;
        let build = Build { folder, tools: &tools, workspace, harness: &harness };
        let objects = build.objects(unmarked)?;
        let mut all = objects.clone();
        if let Some(partner) = &partner {
            all.extend(partner.objects(folder, unmarked)?);
        }
        found = found.or(code(&all)?);
        let marks = run(&build, &build.linked(&main, Some(unmarked), &objects)?)?;
        let step = whole(&own(&marks))?;
        let step_there = whole_there(&marks)?;
        let name = format!("marked_{number}");
        let marked = Hooks { name: &name, text: hooks };
        tools.partner = partner.as_ref().map(|p| p.build(folder, Some(marked))).transpose()?;
        let build = Build { folder, tools: &tools, workspace, harness: &harness };
        let marks = run(&build, &build.executable(&main, Some(marked))?)?;
        counts.push(Counts { step, launches: launches(&own(&marks))? });
        if let Some(counting) = &counted_there {
            let counts = Counts { step: step_there, launches: launches_there(&marks)? };
            there = Some(There { counts, unit: counting.unit, model: counting.model });
        }
    }
    Ok(Measured {
        counts,
        unit: way.unit,
        model: way.model,
        compiler: tools.compiler(),
        runner: tools.runner(),
        sizes: found,
        there,
    })
}

/// The initial state, then the steps.
fn requests(artifact: &Artifact, harness: &Harness, entry: usize, seed: u64) -> Result<Requests> {
    let program: &Program = &artifact.program;
    let called = &program.entries[entry];
    let exported = harness.functions.iter().any(|f| f.entry == called.name);
    ensure!(exported, "entry `{}` is not exported", called.name);
    let context = (artifact.classes(), artifact.rows(), &artifact.rates);
    let mut requests = Requests::default();
    requests.init();
    for case in cases(STEPS, false) {
        let operands = operands(program, called, &case, seed, context);
        requests.call((entry, false), (seed, case.step), &operands);
    }
    Ok(requests)
}

/// The tools with an emulator that counts.
fn counting_tools(
    target: &str,
    tools: Tools,
    counting: &Counting,
    named: Option<&str>,
    workspace: &Workspace,
) -> Result<Tools> {
    let Some(plugin) = &counting.plugin else { return Ok(tools) };
    let mut words = match (named, tools.runner_words()) {
        (Some(_), Some(words)) => words.to_vec(),
        _ => tool(target, "is counted with", &plugin.emulators, None, "--runner")?,
    };
    words.push("-plugin".to_string());
    words.push(build_plugin(plugin.source, workspace)?.display().to_string());
    Ok(tools.run_by(words))
}

/// The plugin as a shared object of this machine.
fn build_plugin(text: &str, workspace: &Workspace) -> Result<PathBuf> {
    let compilers = ["cc", "gcc"].map(|name| Tool::new(name, &[], "gcc"));
    let Some(compiler) = compilers.iter().find(|t| installed(&t.command)) else {
        bail!(
            "the plugin that counts is built with `cc`, which is not installed: on Debian, `apt-get install gcc`"
        );
    };
    let place = workspace.path();
    let (source, plugin) = (place.join("plugin.c"), place.join("plugin.so"));
    std::fs::write(&source, text).with_context(|| source.display().to_string())?;
    let mut command = Command::new(&compiler.command);
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&plugin).arg(&source);
    let output = command.output().with_context(|| format!("`{}`", compiler.command))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the plugin that counts cannot be built: {said}");
    Ok(plugin)
}

/// What sections of objects hold, those of data and of the runtime left out.
fn code(objects: &[PathBuf]) -> Result<Option<Sizes>> {
    let mut all = Sizes::default();
    for path in objects {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("_data.c") || name.starts_with("trainc_") {
            continue;
        }
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        match sizes(&bytes) {
            Some(found) => all = all + found,
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

fn between(from: &Mark, to: &Mark) -> Count {
    Count { instructions: to.instructions - from.instructions, cycles: to.cycles - from.cycles }
}

fn less(count: Count, cost: Count) -> Count {
    Count {
        instructions: count.instructions.saturating_sub(cost.instructions),
        cycles: count.cycles.saturating_sub(cost.cycles),
    }
}

/// The marks of the last call, and what a mark costs.
fn last_call(marks: &[Mark]) -> Result<(&[Mark], Count)> {
    let around = |mark: &Mark| mark.label & ENTERED == 0 && mark.label & CALL != 0;
    let places: Vec<usize> = (0..marks.len()).filter(|&i| around(&marks[i])).collect();
    let [.., cost, begin, end] = places[..] else { bail!("the program has made no marks") };
    Ok((&marks[begin..=end], between(&marks[cost], &marks[begin])))
}

/// The whole of the last call.
fn whole(marks: &[Mark]) -> Result<Count> {
    let (marks, cost) = last_call(marks)?;
    ensure!(marks.len() == 2, "the last call has {} marks and not two", marks.len());
    Ok(less(between(&marks[0], &marks[1]), cost))
}

/// The launches of the last call.
fn launches(marks: &[Mark]) -> Result<BTreeMap<usize, Count>> {
    let (marks, cost) = last_call(marks)?;
    let launch = |pair: &[Mark]| match pair {
        [before, after] if after.label & (ENTERED | CALL) == 0 => {
            Some((after.label as usize, less(between(before, after), cost)))
        }
        _ => None,
    };
    Ok(marks.windows(2).filter_map(launch).collect())
}

/// The marks of the first machine.
fn own(marks: &[(bool, Mark)]) -> Vec<Mark> {
    marks.iter().filter(|(there, _)| !there).map(|(_, mark)| *mark).collect()
}

/// The marks of the second machine during the last call, segment by segment: two before each, of which the second begins it,
/// and one behind it.
fn segments_there(marks: &[(bool, Mark)]) -> Result<Vec<Vec<Mark>>> {
    let is_call = |mark: &Mark| mark.label & ENTERED == 0 && mark.label & CALL != 0;
    let places: Vec<usize> =
        (0..marks.len()).filter(|&i| !marks[i].0 && is_call(&marks[i].1)).collect();
    let [.., begin, end] = places[..] else { bail!("the program has made no marks") };
    let (mut segments, mut segment, mut around) = (Vec::new(), Vec::new(), 0);
    for (_, mark) in marks[begin..end].iter().filter(|(there, _)| *there) {
        segment.push(*mark);
        around += usize::from(is_call(mark));
        if around == 3 {
            segments.push(std::mem::take(&mut segment));
            around = 0;
        }
    }
    ensure!(segment.is_empty(), "the other side made marks outside of segments");
    Ok(segments)
}

/// The whole of the last call on the second machine.
fn whole_there(marks: &[(bool, Mark)]) -> Result<Count> {
    let mut sum = Count::default();
    for segment in segments_there(marks)? {
        let count = whole(&segment)?;
        sum.instructions += count.instructions;
        sum.cycles += count.cycles;
    }
    Ok(sum)
}

/// The launches of the last call on the second machine.
fn launches_there(marks: &[(bool, Mark)]) -> Result<BTreeMap<usize, Count>> {
    let mut all = BTreeMap::new();
    for segment in segments_there(marks)? {
        all.extend(launches(&segment)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(of: &[(u32, u64)]) -> Vec<Mark> {
        let mark =
            |&(label, count): &(u32, u64)| Mark { label, instructions: count, cycles: 2 * count };
        of.iter().map(mark).collect()
    }

    #[test]
    fn the_last_call_less_its_marks() {
        let first = [(CALL, 0), (CALL, 900), (CALL, 1000)];
        let unmarked = marks(&[&first[..], &[(CALL, 2000), (CALL, 2007), (CALL, 2114)]].concat());
        assert_eq!(whole(&unmarked).unwrap(), Count { instructions: 100, cycles: 200 });
        let call = [(CALL, 0), (CALL, 7), (ENTERED, 20), (0, 60), (2, 167), (CALL, 175)];
        let marked = marks(&[&first[..], &call].concat());
        assert!(whole(&marked).is_err());
        let found = launches(&marked).unwrap();
        let expected =
            [(0, 33), (2, 100)].map(|(n, c)| (n, Count { instructions: c, cycles: 2 * c }));
        assert_eq!(found, expected.into());
        assert!(launches(&[]).is_err());
    }

    #[test]
    fn the_other_side_s_segments_of_the_last_call() {
        let mark = |there: bool, label: u32, count: u64| {
            (there, Mark { label, instructions: count, cycles: count })
        };
        let (here, there) = (false, true);
        let segment = |at: u64, launches: &[(u32, u64)]| {
            let mut marks = vec![mark(there, CALL, at), mark(there, CALL, at + 3)];
            let mut now = at + 3 + 5;
            marks.push(mark(there, ENTERED, now));
            for &(launch, packets) in launches {
                now += packets + 3;
                marks.push(mark(there, launch, now));
            }
            marks.push(mark(there, CALL, now + 4));
            marks
        };
        let around = [mark(here, CALL, 10), mark(here, CALL, 11)];
        let end = [mark(here, CALL, 90)];
        let first = [&around[..], &segment(0, &[(1, 1000)]), &end].concat();
        let call =
            [&around[..], &segment(2000, &[(1, 70), (2, 30)]), &segment(3000, &[(6, 9)]), &end];
        let marks = [first, call.concat()].concat();
        let count = |n| Count { instructions: n, cycles: n };
        let found = launches_there(&marks).unwrap();
        assert_eq!(found, [(1, count(70)), (2, count(30)), (6, count(9))].into());
        // Without marks inside.
        let bare: Vec<(bool, Mark)> =
            marks.iter().filter(|(there, mark)| !there || mark.label == CALL).copied().collect();
        assert_eq!(whole_there(&bare).unwrap(), count(112 + 18));
        assert_eq!(whole(&own(&bare)).unwrap(), count(78));
        // A segment without its end.
        let mut cut = marks;
        cut.remove(cut.len() - 2);
        assert!(segments_there(&cut).is_err());
    }
}
