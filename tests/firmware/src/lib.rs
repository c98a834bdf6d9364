//! Firmware that learns to read digits. All memory is the learner's own: a `static`, or what the caller has.
#![no_std]
#![deny(warnings)]
#![forbid(unsafe_op_in_unsafe_fn)]

/// The model, as `build.rs` compiled it.
pub mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

use digits::{Arena, BATCH, CLASSES, State, Status};

/// Pixels of a batch: 8 x 8 each, from 0 to 1.
pub type Images = [f32; BATCH * 64];
/// Digits of a batch.
pub type Labels = [i32; BATCH];

/// A model that learns, with the memory it needs.
pub struct Learner {
    arena: Arena,
    state: State,
    seed: u64,
    steps: u32,
}

impl Learner {
    /// A learner that knows nothing; [`Learner::reset`] comes before its first step.
    pub const fn new(seed: u64) -> Learner {
        Learner { arena: Arena::zeroed(), state: State::zeroed(), seed, steps: 0 }
    }

    /// Sets the weights to those of the model file.
    pub fn reset(&mut self) {
        digits::init(&mut self.state);
        self.steps = 0;
    }

    /// One training step; its loss.
    pub fn learn(&mut self, images: &Images, labels: &Labels, step_size: i32) -> f32 {
        let (seed, step) = (self.seed, self.steps);
        self.steps += 1;
        digits::train_step(&mut self.arena, &mut self.state, seed, step, images, labels, step_size)
    }

    /// The digits that the images show.
    pub fn read(&mut self, images: &Images) -> Labels {
        let mut scores = [0.0; BATCH * CLASSES];
        digits::infer(&mut self.arena, &self.state, images, &mut scores);
        let mut labels = [0; BATCH];
        for (label, row) in labels.iter_mut().zip(scores.chunks(CLASSES)) {
            for (class, score) in (0..).zip(row) {
                if *score > row[*label as usize] {
                    *label = class;
                }
            }
        }
        labels
    }

    /// How many of the first `examples` images the learner reads rightly.
    pub fn right(&mut self, images: &Images, labels: &Labels, examples: u32) -> u32 {
        let mut scores = [0.0; BATCH * CLASSES];
        let (arena, state) = (&mut self.arena, &self.state);
        digits::evaluate(arena, state, images, labels, examples, &mut scores)
    }

    /// The weights.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Steps since the weights of the model file.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Writes what is to survive a loss of power.
    pub fn save(&self, checkpoint: &mut [u8; digits::CHECKPOINT_BYTES]) {
        digits::save(&self.state, self.steps.into(), checkpoint);
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    /// If it is not this model's or is damaged; the learner is then as it was.
    pub fn resume(&mut self, checkpoint: &[u8]) -> Result<(), Status> {
        let steps = digits::load(&mut self.state, checkpoint)?;
        self.steps = u32::try_from(steps).unwrap_or(u32::MAX);
        Ok(())
    }
}
