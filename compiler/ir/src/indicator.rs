//! Stages of a training that follow its loss: when the losses of the last epochs are near to each other, the next stage begins
//! (the precision indicator of progressive fractional quantization; Fu et al., FracTrain, NeurIPS 2020, section 3.1).

/// How stages follow the loss.
#[derive(Clone, PartialEq, Debug)]
pub struct Indicator {
    /// The stages' numbers in their order; the training begins with the first.
    pub order: Vec<u32>,
    /// Losses that are compared, the newest with those before it: at least 2.
    pub epochs: u32,
    /// How near they are when the next stage begins, as a share of the scale.
    pub threshold: f32,
    /// What the threshold is multiplied with when a stage begins.
    pub decay: f32,
    /// How often it is.
    pub decays: u32,
    /// The scale is the mean of so many first losses, of those that there are.
    pub average: u32,
}

/// Most losses that an indicator compares: what a device keeps.
pub const MOST_EPOCHS: u32 = 64;

/// What an indicator knows of a training.
#[derive(Clone, PartialEq, Debug)]
pub struct Indication {
    /// The last losses of the present stage, oldest first.
    losses: Vec<f32>,
    /// Epochs so far.
    epochs: u32,
    /// The sum of the first losses.
    sum: f32,
    threshold: f32,
    /// Position in [`Indicator::order`].
    position: u32,
}

impl Indicator {
    /// What is wrong with it, for so many stages.
    ///
    /// # Errors
    /// The key and what is allowed.
    pub fn check(&self, stages: usize) -> Result<(), (&'static str, String)> {
        if self.order.is_empty() || self.order.iter().any(|&n| n as usize >= stages) {
            let last = stages.saturating_sub(1);
            return Err(("order", format!("a list of numbers of stages, from 0 to {last}")));
        }
        if !(2..=MOST_EPOCHS).contains(&self.epochs) {
            return Err(("epochs", format!("2 to {MOST_EPOCHS}, here {}", self.epochs)));
        }
        if self.average == 0 {
            return Err(("average", "at least one epoch".into()));
        }
        for (key, value) in [("threshold", self.threshold), ("decay", self.decay)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err((key, format!("a number from 0 on, here {value}")));
            }
        }
        Ok(())
    }

    /// Before the first epoch.
    pub fn start(&self) -> Indication {
        Indication {
            losses: Vec::new(),
            epochs: 0,
            sum: 0.0,
            threshold: self.threshold,
            position: 0,
        }
    }

    /// Takes the mean training loss of an epoch.
    ///
    /// Order (FP32), without a division, which small processors have none of: while there are at most `average` epochs the loss is
    /// added to the sum, of n losses then. Another loss is near the newest if `|loss - newest| * n <= threshold * sum`. If `epochs`
    /// losses are there and near, and a stage is left, it begins with no losses; at the first `decays` of these times the threshold
    /// is multiplied with `decay`.
    pub fn take(&self, state: &mut Indication, loss: f32) {
        state.epochs = state.epochs.saturating_add(1);
        if state.epochs <= self.average {
            state.sum += loss;
        }
        if state.losses.len() == self.epochs as usize {
            state.losses.remove(0);
        }
        state.losses.push(loss);
        let count = state.epochs.min(self.average) as f32;
        let near = |other: &f32| (other - loss).abs() * count <= state.threshold * state.sum;
        let full = state.losses.len() == self.epochs as usize;
        if full && state.losses.iter().all(near) && state.position as usize + 1 < self.order.len() {
            state.position += 1;
            state.losses.clear();
            if state.position <= self.decays {
                state.threshold *= self.decay;
            }
        }
    }

    /// The stage behind epochs of these losses.
    pub fn stage(&self, losses: impl IntoIterator<Item = f32>) -> u32 {
        let mut state = self.start();
        losses.into_iter().for_each(|loss| self.take(&mut state, loss));
        self.now(&state)
    }

    /// The stage that it is in.
    pub fn now(&self, state: &Indication) -> u32 {
        self.order.get(state.position as usize).copied().unwrap_or_default()
    }
}
