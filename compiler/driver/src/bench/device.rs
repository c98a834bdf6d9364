//! Times of launches on the device that an artifact finds here, such as a GPU: the artifact, built so that it tells them.

use std::collections::BTreeMap;
use std::path::Path;

use trainc_ir::tuning::Tuning;

use crate::error::Result;
use crate::verify::artifact::Artifact;
use crate::verify::measure::{Count, Counts, MeasureOptions, Measured};
use crate::verify::trials::{Call, Trials};

/// Calls that count, behind one that opens the device and compiles.
const CALLS: usize = 11;

/// The median of several calls of an entry, launch by launch, as the artifact was tuned.
///
/// # Errors
/// If the artifact cannot be built or run here.
pub(super) fn measure(
    (folder, artifact): (&Path, &Artifact),
    tuning: &Tuning,
    entry: usize,
    options: &MeasureOptions,
    keep: Option<&Path>,
) -> Result<Measured> {
    let trials = Trials::new((folder, keep), artifact, tuning, entry, options, &mut |_| {})?;
    let times = trials.run_as_tuned(1 + CALLS)?;
    Ok(Measured {
        counts: vec![counts(&times.calls[1..])],
        unit: "nanoseconds",
        model: "times on the device, the median of several calls; the whole call is this machine's time, with copies and all \
                that the driver does",
        compiler: trials.compiler(),
        runner: Some(times.device),
        sizes: None,
        there: None,
    })
}

/// The median of each time.
fn counts(calls: &[Call]) -> Counts {
    let median = |mut all: Vec<u64>| {
        all.sort_unstable();
        Count { instructions: 0, cycles: all.get(all.len() / 2).copied().unwrap_or(0) }
    };
    let mut launches: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for &(launch, time) in calls.iter().flat_map(|call| &call.launches) {
        launches.entry(launch).or_default().push(time);
    }
    Counts {
        step: median(calls.iter().map(|call| call.whole).collect()),
        launches: launches.into_iter().map(|(launch, all)| (launch, median(all))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_each() {
        let call = |whole, launches: &[(usize, u64)]| Call {
            whole,
            kernels: Vec::new(),
            launches: launches.to_vec(),
        };
        let found =
            counts(&[call(9, &[(0, 5), (3, 1)]), call(30, &[(0, 2)]), call(10, &[(0, 6), (3, 3)])]);
        let cycles = |cycles| Count { instructions: 0, cycles };
        assert_eq!(found.step, cycles(10));
        assert_eq!(found.launches, [(0, cycles(5)), (3, cycles(3))].into());
    }
}
