//! What a training step costs under an algorithm: counts that no machine changes, and those of targets.

use serde::Serialize;
use trainc_ir::TensorType;
use trainc_ir::harness::launches;
use trainc_ir::program::{BufferId, Program};

use crate::bench::{BenchOptions, Subject, batch, bench, multiplications};
use crate::config::Config;
use crate::error::{Context, Result, message};
use crate::model::ModelSource;
use crate::session::TRAIN_STEP;

/// What a training step costs on any machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StepCost {
    /// Examples of a step.
    pub batch: usize,
    /// Multiplications of its products.
    pub macs: u64,
    /// These weighted by the bits of both operands, each over 32, as FracTrain counts (Fu et al., NeurIPS 2020, section
    /// 4.1): 1 for FP32 by FP32, 1/16 for 8 by 8 bits.
    pub weighted_macs: f64,
    /// Bytes that launches read and write.
    pub bytes_moved: u64,
    /// Arena, state and constants.
    pub memory_bytes: usize,
    /// State alone.
    pub state_bytes: usize,
}

impl StepCost {
    /// That of a program's training step.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn of(program: &Program) -> Result<StepCost> {
        let entry = program.entry(TRAIN_STEP).context("no training step")?;
        let memory = &program.memory;
        let mut cost = StepCost {
            batch: batch(program, entry).unwrap_or(1),
            macs: 0,
            weighted_macs: 0.0,
            bytes_moved: 0,
            memory_bytes: memory.arena_bytes + memory.state_bytes + memory.constant_bytes,
            state_bytes: memory.state_bytes,
        };
        for launch in launches(entry) {
            let kernel = program.kernel(launch.kernel);
            let macs = multiplications(kernel);
            let share = |ty: &TensorType| ty.element.bits() as f64 / 32.0;
            cost.macs += macs;
            cost.weighted_macs +=
                macs as f64 * kernel.inputs.iter().take(2).map(share).product::<f64>();
            let bytes = |id: &BufferId| program.buffer(*id).bytes() as u64;
            cost.bytes_moved += launch.inputs.iter().chain(&launch.outputs).map(bytes).sum::<u64>();
        }
        Ok(cost)
    }
}

/// What a training step costs on a target.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TargetCost {
    /// The target.
    pub target: String,
    /// What is counted; empty where nothing was.
    pub unit: &'static str,
    /// So many of them, everything included.
    pub units: Option<u64>,
    /// Bytes of code and tables, without the runtime.
    pub code_bytes: Option<u64>,
    /// Arena, state and constants.
    pub memory_bytes: Option<usize>,
    /// Why nothing was counted.
    pub error: Option<String>,
}

impl TargetCost {
    /// Measures the second training step, as `trainc bench` does.
    pub(super) fn measure(source: &ModelSource, config: &Config, target: &str) -> TargetCost {
        let config = Config { target: target.to_string(), ..config.clone() };
        let options = BenchOptions { seed: config.seed, ..BenchOptions::default() };
        let empty = TargetCost {
            target: target.to_string(),
            unit: "",
            units: None,
            code_bytes: None,
            memory_bytes: None,
            error: None,
        };
        match bench(&Subject::Model(source, &config), &options, &mut |_| {}) {
            Ok((found, _)) => TargetCost {
                unit: found.unit,
                units: Some(found.units),
                code_bytes: found.code_bytes.map(|code| code + found.table_bytes.unwrap_or(0)),
                memory_bytes: Some(found.arena_bytes + found.state_bytes + found.constant_bytes),
                ..empty
            },
            Err(error) => TargetCost { error: Some(message(&error)), ..empty },
        }
    }
}
