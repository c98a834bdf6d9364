//! Times of launches on this machine: the program as `trainc train` runs it, in memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trainc_host::{HostProgram, LaunchTimes};
use trainc_ir::{RunContext, Tensor};

use crate::error::{Context, Result};
use crate::verify::artifact::Artifact;
use crate::verify::elf::sizes;
use crate::verify::inputs::{cases, operands};
use crate::verify::measure::{Count, Counts, Measured};

/// Calls before those that count.
const WARM: u32 = 2;
/// Fewest and most calls that count, and how long they may take together once there are enough.
const CALLS: [u32; 2] = [5, 100];
const ENOUGH: Duration = Duration::from_secs(2);

/// The median of several calls of an entry, launch by launch.
///
/// # Errors
/// If the program does not run here.
pub(super) fn measure(artifact: &Artifact, entry: usize, seed: u64) -> Result<Measured> {
    let program = &artifact.program;
    let called = &program.entries[entry];
    let mut host = HostProgram::compile_timed(program)?;
    let context = (artifact.classes(), artifact.rows(), &artifact.rates);
    let operands: Vec<Vec<Tensor>> = cases(WARM, false)
        .iter()
        .map(|case| operands(program, called, case, seed, context))
        .collect();
    let mut times: Vec<LaunchTimes> = Vec::new();
    let begun = Instant::now();
    for step in 0..WARM + CALLS[1] {
        let operands: Vec<&Tensor> = operands[(step % WARM) as usize].iter().collect();
        host.run(&called.name, &operands, &RunContext { seed, step })?;
        if step < WARM {
            continue;
        }
        times.push(host.launch_times().context("the program is not timed")?);
        if times.len() >= CALLS[0] as usize && begun.elapsed() > ENOUGH {
            break;
        }
    }
    let median = |of: &dyn Fn(&LaunchTimes) -> Duration| {
        let mut all: Vec<Duration> = times.iter().map(of).collect();
        all.sort_unstable();
        let cycles = all[all.len() / 2].as_nanos() as u64;
        Count { instructions: 0, cycles }
    };
    let ran = |i: &usize| times.iter().any(|call| !call.launches[*i].is_zero());
    let launches: BTreeMap<usize, Count> = (0..times[0].launches.len())
        .filter(ran)
        .map(|i| (i, median(&|call| call.launches[i])))
        .collect();
    let object = artifact.target.emit(program)?;
    let object = object.iter().find(|file| file.name.ends_with(".o"));
    Ok(Measured {
        counts: vec![Counts { step: median(&|call| call.call), launches }],
        unit: "nanoseconds",
        model: "times on this machine, the median of several calls; they depend on what else runs on it. Bytes of code are \
                the object's, whose kernels are others than those that train here",
        compiler: String::new(),
        runner: None,
        sizes: object.and_then(|file| sizes(&file.contents)),
        there: None,
    })
}
