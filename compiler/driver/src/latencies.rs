//! Measured latencies, by which a target of several devices divides a program in the place of its own estimates.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use trainc_ir::Verified;
use trainc_ir::program::{DeviceId, Kernel, Program};
use trainc_ir::target::{Cost, Target};
use trainc_opt::plan::devices::assign_program;

use crate::error::{InFile, Result};

/// Picoseconds of a microsecond.
const MICROSECOND: f64 = 1e6;

/// A file of latencies, in microseconds. What it leaves out is the target's estimate.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Of going from one device to another and being there.
    #[serde(default)]
    switch: Option<f64>,
    /// Of a launch of a kernel, by its name and the device's.
    #[serde(default)]
    kernels: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Latencies {
    /// Reads a file for a target's program.
    ///
    /// # Errors
    /// If it cannot be read, names what the program has not, or the target has one device.
    pub(crate) fn read(path: &Path, target: &dyn Target, program: &Program) -> Result<Latencies> {
        let in_file = |message: String| InFile::new(path, message);
        let name = target.description().name;
        if target.switch_cost().is_none() {
            let message =
                format!("latencies divide a program, and target `{name}` runs all on one device");
            return Err(in_file(message).into());
        }
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| in_file(format!("cannot read: {e}")))?;
        let found = Latencies::parse(&text, program).map_err(in_file)?;
        Ok(found)
    }

    fn parse(text: &str, program: &Program) -> Result<Latencies, String> {
        let found: Latencies = toml::from_str(text).map_err(|e| format!("no latencies: {e}"))?;
        let values = found.kernels.values().flat_map(BTreeMap::values).chain(&found.switch);
        if values.into_iter().any(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err("latencies are microseconds, 0 or more".into());
        }
        for (kernel, devices) in &found.kernels {
            if !program.kernels.iter().any(|k| k.name == *kernel) {
                return Err(format!(
                    "the program has no kernel `{kernel}`; `trainc inspect` lists those that it has"
                ));
            }
            if let Some(device) = devices.keys().find(|d| !program.devices.contains(d)) {
                let known = program.devices.join(", ");
                return Err(format!("kernel `{kernel}`: no device `{device}`; there are {known}"));
            }
        }
        Ok(found)
    }

    /// What a launch of a kernel takes on a device, in picoseconds.
    pub(crate) fn cost(&self, program: &[String], kernel: &Kernel, device: DeviceId) -> Cost {
        let measured = self.kernels.get(&kernel.name).and_then(|of| of.get(&program[device.0]));
        measured.map_or_else(|| kernel.selection.device_cost(device), |m| picoseconds(*m))
    }

    /// What a switch takes, in picoseconds; `None` if the target has one device.
    pub(crate) fn switch(&self, target: &dyn Target) -> Option<Cost> {
        let estimate = target.switch_cost()?;
        Some(self.switch.map_or(estimate, picoseconds))
    }

    /// The program divided by these latencies.
    ///
    /// # Errors
    /// None, for a program that was verified.
    pub(crate) fn assign(
        &self,
        program: Verified<Program>,
        target: &dyn Target,
    ) -> Result<Verified<Program>> {
        let Some(switch) = self.switch(target) else { return Ok(program) };
        let devices = program.devices.clone();
        let cost = |kernel: &Kernel, device| self.cost(&devices, kernel, device);
        Ok(assign_program(program, &cost, switch).map_err(trainc_opt::plan::PlanError::Internal)?)
    }
}

fn picoseconds(microseconds: f64) -> Cost {
    Cost::new((microseconds * MICROSECOND).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::program::{MemoryPlan, Notes};

    #[test]
    fn a_file_says_what_is_wrong_with_it() {
        let program = Program {
            name: "m".into(),
            devices: vec!["cpu".into(), "hvx".into()],
            buffers: Vec::new(),
            kernels: Vec::new(),
            entries: Vec::new(),
            memory: MemoryPlan::default(),
            notes: Notes::default(),
        };
        let found = Latencies::parse("switch = 250.5", &program).unwrap();
        assert_eq!(found.switch.map(picoseconds), Some(Cost::new(250_500_000)));
        assert_eq!(Latencies::parse("", &program).unwrap(), Latencies::default());
        for (text, word) in [
            ("switch = -1.0", "0 or more"),
            ("switch = nan", "0 or more"),
            ("swich = 1.0", "swich"),
            ("[kernels.conv]\ncpu = 1.0", "conv"),
        ] {
            let error = Latencies::parse(text, &program).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
