//! Packed constants that Hexagon's kernels can keep between calls, and what a budget does to them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use trainc_ir::harness::launches;
use trainc_ir::names::shown;
use trainc_ir::program::{BufferId, DeviceId, Kernel, KernelId, Program, Region};
use trainc_opt::plan::residency::{Eviction, preparations};

/// Calls of which preparations are counted.
const CALLS: usize = 20;

/// The packed constants of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Residency {
    /// The entry.
    pub entry: String,
    /// In the order in which launches use them.
    pub regions: Vec<Packed>,
    /// What budgets do in so many calls.
    pub calls: usize,
    /// See `calls`.
    pub budgets: Vec<Budget>,
}

/// A constant in the order of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Packed {
    /// The constant.
    pub constant: String,
    /// The kernel.
    pub kernel: String,
    /// Its bytes, in whole vectors.
    pub bytes: u64,
}

/// A budget, and how often something is packed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Budget {
    /// TRAINC_HVX_RESIDENT_BYTES.
    pub bytes: u64,
    /// As the artifact does it: the most recently used give way.
    pub prepared: usize,
    /// If the least recently used did.
    pub least_recent: usize,
}

/// What a kernel packs where it runs.
fn packed(kernel: &Kernel, device: DeviceId) -> Option<(usize, usize)> {
    if kernel.selection.implementation::<trainc_pair::Both>().is_some() {
        return (device.0 == 1).then(|| trainc_pair::packed_there(kernel)).flatten();
    }
    trainc_c::in_c(kernel).ok()?.packed()
}

/// Those of each entry that has some.
pub fn residencies(program: &Program) -> Vec<Residency> {
    let mut all = Vec::new();
    for entry in &program.entries {
        let mut places: BTreeMap<(KernelId, BufferId), usize> = BTreeMap::new();
        let mut regions = Vec::new();
        for launch in launches(entry) {
            let kernel = program.kernel(launch.kernel);
            let Some((operand, bytes)) = packed(kernel, launch.device) else { continue };
            let buffer = program.buffer(launch.inputs[operand]);
            let key = (launch.kernel, launch.inputs[operand]);
            if !matches!(buffer.region, Region::Constant(_)) || places.contains_key(&key) {
                continue;
            }
            places.insert(key, regions.len());
            regions.push(Packed {
                constant: buffer.name.clone(),
                kernel: kernel.name.clone(),
                bytes: bytes.next_multiple_of(128) as u64,
            });
        }
        if regions.is_empty() {
            continue;
        }
        let sizes: Vec<u64> = regions.iter().map(|region| region.bytes).collect();
        let total: u64 = sizes.iter().sum();
        let budgets = [0, 1, 2, 3, 4].map(|quarters| {
            let bytes = (total * quarters / 4).next_multiple_of(128);
            let count = |eviction| preparations(&sizes, bytes, CALLS, eviction, false);
            Budget {
                bytes,
                prepared: count(Eviction::MostRecent),
                least_recent: count(Eviction::LeastRecent),
            }
        });
        let (entry, budgets) = (entry.name.clone(), budgets.into());
        all.push(Residency { entry, regions, calls: CALLS, budgets });
    }
    all
}

impl Residency {
    /// For people.
    pub fn text(&self) -> String {
        let total: u64 = self.regions.iter().map(|region| region.bytes).sum();
        let mut out = format!(
            "{}: {} packed constants that can be kept between calls, {total} bytes (docs/hexagon-device.md)\n",
            shown(&self.entry),
            self.regions.len()
        );
        for Packed { constant, kernel, bytes } in &self.regions {
            let _ = writeln!(out, "  {bytes:>10} {} for {kernel}", shown(constant));
        }
        let uses = self.calls * self.regions.len();
        let _ = writeln!(out, "  {:>10} packed of {uses} uses in {} calls", "budget", self.calls);
        for Budget { bytes, prepared, least_recent } in &self.budgets {
            let _ = writeln!(
                out,
                "  {bytes:>10} {prepared}, and {least_recent} if the least recently used gave way"
            );
        }
        out
    }
}
