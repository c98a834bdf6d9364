//! What the files of an artifact are made of.

use std::collections::BTreeMap;

use trainc_c::interface::Interface;
use trainc_ir::names::unique;
use trainc_ir::program::{KernelId, Program};

use crate::printed::PrintedPhase;

/// See the module documentation.
pub(crate) struct Artifact<'p> {
    pub(crate) program: &'p Program,
    pub(crate) interface: &'p Interface,
    pub(crate) names: Names,
    /// Arrays of data: name, what it is, bytes.
    pub(crate) arrays: &'p [(String, String, Vec<u8>)],
    /// The kernels of each kernel of the program.
    pub(crate) kernels: BTreeMap<KernelId, Vec<PrintedPhase>>,
    /// Lines of their text.
    pub(crate) lines: usize,
    /// Bytes of the arguments of a call.
    pub(crate) arguments: usize,
    /// Whether kernels compute floats.
    pub(crate) floats: bool,
}

/// Names in the source that no argument and no function has.
pub(crate) struct Names {
    /// The device.
    pub(crate) device: String,
    /// Its kernels' names.
    pub(crate) kernels: String,
    /// Their handles.
    pub(crate) handles: String,
    /// Their work items, and how they are launched.
    pub(crate) items: String,
    pub(crate) tuning: String,
    /// What a call gives back, and how much that is.
    pub(crate) results: String,
    pub(crate) count: String,
}

impl Names {
    /// Those of an artifact. No argument begins like its own names.
    pub(crate) fn of(interface: &Interface) -> Names {
        let taken = interface.exported();
        let [device, kernels, handles, items, tuning, results, count] = [
            "device",
            "kernel_names",
            "kernel_handles",
            "kernel_items",
            "kernel_tuning",
            "results",
            "result_count",
        ]
        .map(|name| unique(&format!("{}_{name}", interface.prefix), &taken));
        Names { device, kernels, handles, items, tuning, results, count }
    }
}
