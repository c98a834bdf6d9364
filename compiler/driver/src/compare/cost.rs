//! What a training step costs under an algorithm: counts that no machine changes, and those of targets.

use std::collections::BTreeMap;

use serde::Serialize;
use trainc_ir::harness::launches;
use trainc_ir::ops::properties::Property;
use trainc_ir::program::{BufferId, Program, StageChoice};
use trainc_ir::schedule::{self, Per};
use trainc_ir::{Op, Tensor, TensorType};

use crate::bench::{BenchOptions, Subject, batch, bench, multiplications};
use crate::config::Config;
use crate::error::{Context, Result, message};
use crate::model::ModelSource;
use crate::session::TRAIN_STEP;
use crate::widths::state_of;

use super::chosen::Choosing;
use super::results::RunRecord;

/// Parts of a training whose stages go by its steps.
const PARTS: u64 = 1000;

/// What a training step costs on any machine.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct StepCost {
    /// Examples of a step.
    pub batch: usize,
    /// Multiplications of its products.
    pub macs: u64,
    /// These weighted by the bits of both operands, each over 32, as FracTrain counts (Fu et al., NeurIPS 2020, section
    /// 4.1): 1 for FP32 by FP32, 1/16 for 8 by 8 bits. An operand has the bits of the numbers that it was rounded to, however
    /// wide the elements are that hold them.
    pub weighted_macs: f64,
    /// Bytes that launches read and write.
    pub bytes_moved: u64,
    /// Arena, state and constants.
    pub memory_bytes: usize,
    /// State alone.
    pub state_bytes: usize,
}

/// What each stage's training step costs.
pub(super) struct StageCosts {
    steps: Vec<StepCost>,
    /// What says which stage it is, if there are several.
    choice: Option<StageChoice>,
}

impl StageCosts {
    /// Those of a program.
    ///
    /// # Errors
    /// If it has no training step.
    pub(super) fn of(program: &Program) -> Result<StageCosts> {
        let Some(stages) = &program.notes.stages else {
            let steps = vec![StepCost::of_entry(program, TRAIN_STEP, &[])?];
            return Ok(StageCosts { steps, choice: None });
        };
        let steps = stages.functions.iter().map(|name| StepCost::of_entry(program, name, &[]));
        Ok(StageCosts { steps: steps.collect::<Result<_>>()?, choice: Some(stages.choice.clone()) })
    }

    /// The mean of all steps of trainings of so many epochs, which these runs were.
    ///
    /// # Errors
    /// If a stage has no step.
    pub(super) fn mean(&self, epochs: usize, runs: &[RunRecord]) -> Result<StepCost> {
        let stages: Vec<usize> = match &self.choice {
            None => vec![0],
            Some(StageChoice::Schedule(own)) => {
                let all = match own.per {
                    Per::Epoch => epochs.max(1) as u64,
                    Per::Step => PARTS,
                };
                (0..all).map(|part| schedule::value(&own.points, part, all) as usize).collect()
            }
            Some(StageChoice::Indicator(indicator)) => {
                let losses = |run: &RunRecord| -> Vec<f32> {
                    let losses = run.history.iter().filter_map(|record| record.train_loss);
                    losses.map(|loss| loss as f32).collect()
                };
                let of_run = |run| {
                    let mut state = indicator.start();
                    let stage = |loss| {
                        let stage = indicator.now(&state) as usize;
                        indicator.take(&mut state, loss);
                        stage
                    };
                    losses(run).into_iter().map(stage).collect::<Vec<_>>()
                };
                runs.iter().flat_map(of_run).collect()
            }
        };
        let first = self.steps.first().context("no training step")?;
        // What runs counted by the widths that they were in.
        let counted: Vec<f64> = runs.iter().filter_map(|run| run.weighted_macs).collect();
        if !counted.is_empty() {
            let weighted_macs = counted.iter().sum::<f64>() / counted.len() as f64;
            return Ok(StepCost { weighted_macs, ..*first });
        }
        if stages.is_empty() {
            return Ok(*first);
        }
        let mut times = vec![0u64; self.steps.len()];
        for &stage in &stages {
            *times.get_mut(stage).context("a stage without a step")? += 1;
        }
        let (mut weighted, [mut macs, mut bytes]) = (0.0, [0u64; 2]);
        let all = stages.len() as u64;
        for (cost, times) in self.steps.iter().zip(times) {
            weighted += cost.weighted_macs * times as f64 / all as f64;
            macs += cost.macs * times;
            bytes += cost.bytes_moved * times;
        }
        let (macs, bytes_moved) = (macs / all, bytes / all);
        Ok(StepCost { weighted_macs: weighted, macs, bytes_moved, ..*first })
    }
}

impl StepCost {
    /// That of a program's training step in a state; `None` if no width of its operands is state.
    ///
    /// # Errors
    /// If it has no training step.
    pub(super) fn in_state(program: &Program, state: &[Tensor]) -> Result<Option<StepCost>> {
        let entry = program.entry(TRAIN_STEP).context("no training step")?;
        let of_state = |op: &Op, inputs: usize| matches!(op, Op::QuantizeBlocks(_)) && inputs > 1;
        let kernels = launches(entry).into_iter().map(|launch| program.kernel(launch.kernel));
        let mut kernels = kernels.filter(|kernel| of_state(&kernel.op, kernel.inputs.len()));
        let some = kernels.next().is_some();
        some.then(|| StepCost::of_entry(program, TRAIN_STEP, state)).transpose()
    }

    /// The weighted multiplications of a mean step where examples chose the precisions of blocks; `counts` are examples of all steps for each
    /// option of each block.
    ///
    /// # Errors
    /// If there is no training step.
    pub(crate) fn weighted_by_choices(
        program: &Program,
        counts: &[Vec<u64>],
        steps: u64,
    ) -> Result<f64> {
        let (cost, chosen) = StepCost::parts(program, TRAIN_STEP, &[])?;
        let mut all = 0.0;
        for (own, counts) in chosen.iter().zip(counts) {
            all += own.iter().zip(counts).map(|(own, &n)| own * n as f64).sum::<f64>();
        }
        Ok(cost.weighted_macs + all / steps.max(1) as f64)
    }

    /// That of an entry; widths that are state as in `state`, or the most that they may be, as are those that examples choose.
    fn of_entry(program: &Program, name: &str, state: &[Tensor]) -> Result<StepCost> {
        let (mut cost, chosen) = StepCost::parts(program, name, state)?;
        let largest = |own: &Vec<f64>| own.iter().copied().fold(0.0, f64::max);
        cost.weighted_macs += cost.batch as f64 * chosen.iter().map(largest).sum::<f64>();
        Ok(cost)
    }

    /// That of an entry without products whose operands' widths are chosen; and the weighted multiplications of these for one example, for
    /// each option of each block.
    fn parts(program: &Program, name: &str, state: &[Tensor]) -> Result<(StepCost, Vec<Vec<f64>>)> {
        let entry = program.entry(name).context("no training step")?;
        let memory = &program.memory;
        let mut cost = StepCost {
            batch: batch(program, entry).unwrap_or(1),
            macs: 0,
            weighted_macs: 0.0,
            bytes_moved: 0,
            memory_bytes: memory.arena_bytes + memory.state_bytes + memory.constant_bytes,
            state_bytes: memory.state_bytes,
        };
        let mut widths: BTreeMap<BufferId, f64> = BTreeMap::new();
        let mut choices = Choosing::default();
        for launch in launches(entry) {
            let kernel = program.kernel(launch.kernel);
            let macs = multiplications(kernel);
            let share = |(ty, id): (&TensorType, &BufferId)| {
                let held = f64::from(ty.element.bits());
                widths.get(id).map_or(held, |&bits| bits.min(held)) / 32.0
            };
            let operands = kernel.inputs.iter().zip(&launch.inputs).take(2);
            cost.macs += macs;
            let shares: Vec<f64> = operands.map(share).collect();
            if !choices.count(&launch.inputs, (macs, cost.batch), &shares) {
                cost.weighted_macs += macs as f64 * shares.iter().product::<f64>();
            }
            choices.follow(kernel, &launch.inputs, &launch.outputs);
            let width = match (&kernel.op, launch.inputs.get(1)) {
                (Op::QuantizeBlocks(op), Some(id)) => {
                    let x = &kernel.inputs[0].shape;
                    let bits = state_of(program, *id, state).and_then(|own| op.mean_bits(x, own));
                    Some(bits.unwrap_or(f64::from(op.bits)))
                }
                _ => width(&kernel.op, launch.inputs.first().and_then(|id| widths.get(id))),
            };
            for id in &launch.outputs {
                match width {
                    Some(bits) => widths.insert(*id, bits),
                    None => widths.remove(id),
                };
            }
            let bytes = |id: &BufferId| program.buffer(*id).bytes() as u64;
            cost.bytes_moved += launch.inputs.iter().chain(&launch.outputs).map(bytes).sum::<u64>();
        }
        Ok((cost, choices.each))
    }
}

/// The bits of the numbers that an operation rounds to, if it says so; of what only moves, those of its first operand.
fn width(op: &Op, of_operand: Option<&f64>) -> Option<f64> {
    let known = of_operand.copied();
    match op {
        Op::Chain(chain) => chain.ops.iter().fold(known, |known, op| width(op, known.as_ref())),
        Op::QuantizeSteps(op) => {
            let signed = u32::from(op.low < 0);
            let bits = |q: i32| 32 - (if q < 0 { !q } else { q }).leading_zeros();
            let own = f64::from((bits(op.low).max(bits(op.high)) + signed).max(1));
            Some(known.map_or(own, |known| known.min(own)))
        }
        Op::QuantizeBlocks(op) => Some(f64::from(op.bits)),
        Op::QuantizeFloat(op) => Some(f64::from(op.format.bits())),
        Op::Ones(_) => Some(1.0),
        op if op.kind().has(Property::Moves) => known,
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::EpochRecord;
    use trainc_ir::attributes::Attribute;
    use trainc_ir::indicator::Indicator;
    use trainc_ir::schedule::{Point, Scheduled};
    use trainc_ir::text::cursor::Cursor;

    /// Counted by hand: levels of a format of four bits and one bit, a sign with five exponent and two mantissa bits.
    #[test]
    fn widths() {
        let steps = |low: i32, high: i32| {
            format!(
                "quantize_steps{{element=i8, exponent=0, base=0, low={low}, high={high}, rounding=half_even, stream=0}}"
            )
        };
        let of = |text: &str, known: Option<f64>| {
            width(&Op::parse(&mut Cursor::new(text)).expect(text), known.as_ref())
        };
        for (low, high, bits) in
            [(-8, 7, 4), (-7, 7, 4), (0, 15, 4), (-1, 0, 1), (-1, 1, 2), (-128, 127, 8), (0, 1, 1)]
        {
            assert_eq!(of(&steps(low, high), None), Some(f64::from(bits)), "{low}..={high}");
        }
        assert_eq!(of(&steps(-127, 127), Some(7.0)), Some(7.0), "of numbers that have seven");
        assert_eq!(of("quantize_blocks{axes=last, bits=6}", None), Some(6.0));
        let float = "quantize_float{format=e5m2, rounding=half_even, stream=0}";
        assert_eq!(of(float, None), Some(8.0));
        assert_eq!(
            (of("transpose{permutation=[1, 0]}", Some(4.0)), of("neg", Some(4.0))),
            (Some(4.0), None)
        );
    }

    fn cost(macs: u64) -> StepCost {
        StepCost {
            macs,
            weighted_macs: macs as f64 / 16.0,
            bytes_moved: 2 * macs,
            ..StepCost::default()
        }
    }

    /// Three epochs at 10 and one at 100: by a schedule, and by losses that stand still for two epochs.
    #[test]
    fn a_training_costs_the_mean_of_its_steps() {
        let steps = vec![cost(100), cost(10)];
        let schedule = Scheduled {
            name: "stage".into(),
            per: Per::Epoch,
            points: vec![Point::constant(0.0, 1.0), Point::constant(0.75, 0.0)],
        };
        let by_epoch =
            StageCosts { steps: steps.clone(), choice: Some(StageChoice::Schedule(schedule)) };
        let indicator = Indicator {
            order: vec![1, 0],
            epochs: 2,
            threshold: 0.1,
            decay: 1.0,
            decays: 0,
            average: 10,
        };
        let by_loss = StageCosts { steps, choice: Some(StageChoice::Indicator(indicator)) };
        let record = |(epoch, train_loss)| EpochRecord {
            epoch,
            steps: 7 * epoch as u64,
            train_loss,
            test_accuracy: None,
            test_loss: None,
        };
        let losses = [None, Some(4.0), Some(1.0), Some(1.0), Some(1.0)];
        let run = RunRecord {
            key: String::new(),
            algorithm: String::new(),
            seed: 0,
            history: losses.into_iter().enumerate().map(record).collect(),
            step_seconds: 0.0,
            weighted_macs: None,
        };
        for costs in [by_epoch, by_loss] {
            let mean = costs.mean(4, std::slice::from_ref(&run)).expect("stages with steps");
            let found = (mean.macs, mean.weighted_macs, mean.bytes_moved);
            assert_eq!(found, (130 / 4, 130.0 / 64.0, 260 / 4));
        }
    }
}
