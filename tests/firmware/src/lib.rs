//! Firmware that learns to read digits. All memory is the learner's own: a `static`, or what the caller has.
#![no_std]
#![deny(warnings)]
#![forbid(unsafe_op_in_unsafe_fn)]

/// The model, as `build.rs` compiled it.
pub mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

use digits::{Arena, BATCH, CLASSES, INFER_BATCH, State, Status};

/// Pixels of an image: 8 x 8, from 0 to 1.
pub type Image = [f32; INFER_BATCH * 64];
/// Pixels of a batch.
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

    /// The digit that an image shows.
    pub fn read(&mut self, image: &Image) -> i32 {
        let mut scores = [0.0; INFER_BATCH * CLASSES];
        digits::infer(&mut self.arena, &self.state, image, &mut scores);
        let mut label = 0;
        for (class, score) in (0..).zip(&scores) {
            if *score > scores[label as usize] {
                label = class;
            }
        }
        label
    }

    /// How many of the images the learner reads rightly.
    pub fn right(&mut self, images: &[Image], labels: &[i32]) -> u32 {
        let mut scores = [0.0; INFER_BATCH * CLASSES];
        let mut right = 0;
        for (image, &label) in images.iter().zip(labels) {
            let (arena, state) = (&mut self.arena, &self.state);
            right += digits::evaluate(arena, state, image, &[label], 1, &mut scores);
        }
        right
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
