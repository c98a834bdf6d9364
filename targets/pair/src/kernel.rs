//! A kernel of a pair: both machines' ways of running it, until a launch has its device.

use trainc_ir::implementation::{Cost, Implementation, Selection};
use trainc_ir::program::{DeviceId, Kernel};

/// The processor among the devices.
pub(crate) const CPU: DeviceId = DeviceId(0);
/// The DSP among the devices.
pub(crate) const DSP: DeviceId = DeviceId(1);

/// Picoseconds of an instruction: a processor at 2 GHz that retires two a cycle. A model.
pub(crate) const INSTRUCTION: u64 = 250;
/// Picoseconds of a packet: a DSP at 1 GHz without stalls. A model.
pub(crate) const PACKET: u64 = 1000;
/// Picoseconds of going from one to the other and being there: the 25 ms that Mandheling (Xu et al., 2022) measured on a
/// XiaoMI 10.
pub(crate) const SWITCH: u64 = 25_000_000_000;

/// Both machines' ways of running a kernel.
#[derive(Debug)]
pub struct Both {
    cpu: Selection,
    dsp: Selection,
}

impl Both {
    pub(crate) fn new(cpu: Selection, dsp: Selection) -> Both {
        Both { cpu, dsp }
    }

    /// The way of a device.
    pub fn on(&self, device: DeviceId) -> &Selection {
        if device == CPU { &self.cpu } else { &self.dsp }
    }

    fn cheaper(&self) -> DeviceId {
        if self.device_cost(DSP) < self.device_cost(CPU) { DSP } else { CPU }
    }
}

fn times(cost: Cost, picoseconds: u64) -> Cost {
    cost.cycles().map_or(Cost::INFEASIBLE, |n| Cost::new(n.saturating_mul(picoseconds)))
}

impl Implementation for Both {
    /// Of the way that takes less time, wherever a launch runs.
    fn name(&self) -> &'static str {
        self.on(self.cheaper()).name()
    }

    fn cost(&self) -> Cost {
        self.device_cost(self.cheaper())
    }

    fn device_cost(&self, device: DeviceId) -> Cost {
        times(self.on(device).cost(), if device == CPU { INSTRUCTION } else { PACKET })
    }

    fn scratch_bytes(&self) -> usize {
        self.cpu.scratch_bytes().max(self.dsp.scratch_bytes())
    }
}

/// What the DSP's kernel packs, as [`CKernel::packed`](trainc_c::CKernel::packed) has it; `None` for a kernel of another target.
pub fn packed_there(kernel: &Kernel) -> Option<(usize, usize)> {
    let selection = kernel.selection.implementation::<Both>()?.on(DSP).clone();
    let kernel = Kernel { selection, ..kernel.clone() };
    trainc_c::in_c(&kernel).ok()?.packed()
}
