//! What each launch costs: the first step again, in builds that mark where they are. Their results are compared as any.

use std::collections::BTreeMap;

use trainc_ir::harness::{CALL, Counted, ENTERED, Mark, Simulator, launches};
use trainc_ir::program::Program;
use trainc_ir::program_interpreter::ProgramInterpreter;

use crate::error::Result;

use super::inputs::Kind;
use super::process::{Ended, Requests};
use super::report::{Cost, Finding, LaunchCost};
use super::run::{Call, Run};
use super::tools::{Build, Hooks};

/// Entry and launch, by their numbers.
type Place = (usize, usize);

/// The costs of the launches that the first step runs, or what is wrong in such a build.
///
/// # Errors
/// If it cannot be built, or the interpreter refuses the program.
pub(super) fn count(
    build: &Build<'_>,
    main: &str,
    run: &Run<'_>,
    simulator: &dyn Simulator,
    calls: &[Call<'_>],
) -> Result<(Vec<LaunchCost>, Option<Finding>)> {
    let Some(first) = calls.first().filter(|call| call.case.kind == Kind::Random) else {
        return Ok((Vec::new(), None));
    };
    let wrong = |finding: Finding, counted: &Counted| {
        let remark = Some(format!("so it is as built to be counted for {}", counted.name));
        (Vec::new(), Some(Finding { remark, ..finding }))
    };
    let step = || calls.iter().take_while(|call| call.case == first.case);
    let mut requests = Requests::default();
    requests.init();
    step().for_each(|call| {
        requests.call((call.number, false), (run.seed, call.case.step), &call.operands);
    });
    let mut costs: BTreeMap<Place, Vec<Cost>> = BTreeMap::new();
    for (number, counted) in simulator.counted().iter().enumerate() {
        let name = format!("counted_{number}");
        let hooks = Hooks { name: &name, text: counted.hooks };
        let executable = build.executable(main, Some(hooks))?;
        let mut again = Run {
            process: build.start(&executable, &requests)?,
            reference: ProgramInterpreter::new(run.program),
            ..*run
        };
        let mut finding = again.initial(&first.case.name);
        for call in step() {
            if finding.is_none() {
                finding = again.call(call, false)?;
            }
        }
        let marks = match finding {
            None => again.process.marks(),
            Some(finding) => return Ok(wrong(finding, counted)),
        };
        let marks = match marks {
            Ok(marks) => marks,
            Err(Ended(how)) => {
                let finding = Finding::new(&first.case.name, first.case.step, &first.entry.name);
                return Ok(wrong(Finding { crash: Some(how), ..finding }, counted));
            }
        };
        for (place, instructions, cycles) in between(&marks) {
            let cost = Cost { on: counted.name, instructions, cycles };
            costs.entry(place).or_default().push(cost);
        }
    }
    Ok((costs.into_iter().filter_map(|one| named(run.program, one)).collect(), None))
}

/// Instructions and cycles of each launch: from the mark before its own.
fn between(marks: &[Mark]) -> Vec<(Place, u64, u64)> {
    let mut entry = 0;
    let mut found = Vec::new();
    let marks: Vec<Mark> =
        marks.iter().filter(|m| m.label & ENTERED != 0 || m.label & CALL == 0).copied().collect();
    for pair in marks.windows(2) {
        let [before, after] = pair else { continue };
        if before.label & ENTERED != 0 {
            entry = (before.label & !ENTERED) as usize;
        }
        if after.label & ENTERED == 0 {
            let instructions = after.instructions - before.instructions;
            let cycles = after.cycles - before.cycles;
            found.push(((entry, after.label as usize), instructions, cycles));
        }
    }
    found
}

fn named(program: &Program, (place, costs): (Place, Vec<Cost>)) -> Option<LaunchCost> {
    let entry = program.entries.get(place.0)?;
    let launch = *launches(entry).get(place.1)?;
    Some(LaunchCost {
        entry: entry.name.clone(),
        launch: place.1,
        kernel: program.kernel(launch.kernel).name.clone(),
        node: launch.name.clone(),
        costs,
    })
}
