//! What examples chose while a network trained whose blocks choose precisions, and what that cost.

use trainc_ir::Tensor;
use trainc_opt::dynamic::{
    COST, block_multiplications, count_names, counted_blocks, counts, share,
};

use crate::compare::StepCost;
use crate::error::{Context, Result};
use crate::session::{Session, TRAIN_STEP};
use crate::train::Trainer;

/// Choices since the first step, by the state that counts them.
#[derive(Clone, PartialEq, Debug)]
pub struct Choices {
    /// Training steps.
    pub steps: u64,
    /// For each block, how many examples chose each option.
    pub counts: Vec<Vec<u64>>,
    /// The term of cost, added over all steps.
    pub cost: f64,
}

/// What an interval of a training cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChoiceCost {
    /// What products of layers that choose cost, percent of the cost of the same in FP32.
    pub share: f64,
    /// The mean term of cost in the loss.
    pub term: f64,
}

impl Choices {
    /// Those in a state, by its names; `None` if the algorithm has no gates.
    ///
    /// # Errors
    /// If a part of the state is missing.
    pub(crate) fn in_state(
        session: &Session,
        steps: u64,
        state: &[(String, Tensor)],
    ) -> Result<Option<Choices>> {
        if session.algorithm.dynamic.is_none() {
            return Ok(None);
        }
        let find = |name: &str| {
            let found = state.iter().find(|(known, _)| known == name);
            found.map(|(_, tensor)| tensor).with_context(|| format!("no state `{name}`"))
        };
        let of_block = |block: &str| {
            let [count, rounds] = count_names(block);
            Ok(counts(find(&count)?, find(&rounds)?))
        };
        let blocks = counted_blocks(state.iter().map(|(name, _)| name.as_str()));
        let counts = blocks.into_iter().map(of_block).collect::<Result<_>>()?;
        let cost = find(COST)?.as_f32().first().copied().unwrap_or_default();
        Ok(Some(Choices { steps, counts, cost: f64::from(cost) }))
    }

    /// What the steps behind earlier choices cost; `None` where there are none.
    ///
    /// # Errors
    /// If the session has no training step.
    pub fn cost_since(&self, before: &Choices, session: &Session) -> Result<Option<ChoiceCost>> {
        let Some(dynamic) = &session.algorithm.dynamic else { return Ok(None) };
        if self.steps <= before.steps {
            return Ok(None);
        }
        let training = &session.entry(TRAIN_STEP)?.float;
        let less = |(now, before): (&Vec<u64>, &Vec<u64>)| {
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
        };
        let own: Vec<Vec<u64>> = self.counts.iter().zip(&before.counts).map(less).collect();
        Ok(Some(ChoiceCost {
            share: share(dynamic, &block_multiplications(training), &own),
            term: (self.cost - before.cost) / (self.steps - before.steps) as f64,
        }))
    }

    /// The choices before the first step.
    pub fn none(&self) -> Choices {
        let counts = self.counts.iter().map(|own| vec![0; own.len()]).collect();
        Choices { steps: 0, counts, cost: 0.0 }
    }
}

impl Trainer {
    /// What examples chose so far; `None` if the algorithm has no gates.
    ///
    /// # Errors
    /// None that a compiled program gives.
    pub fn choices(&self) -> Result<Option<Choices>> {
        match self.session.algorithm.dynamic {
            Some(_) => Choices::in_state(&self.session, self.steps(), &self.state()?),
            None => Ok(None),
        }
    }

    /// The weighted multiplications of a mean step so far by what examples chose (see
    /// [`StepCost::weighted_macs`](crate::compare::StepCost::weighted_macs)); `None` if the algorithm has no gates, or before the first step.
    ///
    /// # Errors
    /// None that a compiled program gives.
    pub fn weighted_by_choices(&self) -> Result<Option<f64>> {
        let of = |own: Choices| {
            StepCost::weighted_by_choices(self.session.program(), &own.counts, own.steps)
        };
        self.choices()?.filter(|own| own.steps > 0).map(of).transpose()
    }
}
