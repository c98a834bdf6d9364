//! Training as `trainc train` does it: the same samples in the same order with the same step sizes.

use std::num::NonZeroUsize;

use trainc_data::{Dataset, Normalization, Normalizer, Split, TrainingBatches, evaluation_batches};
use trainc_firmware::digits::{BATCH, learning_rate};
use trainc_firmware::{Images, Labels, Learner};

/// A learner in memory of its own, with the model file's weights.
pub(crate) fn learner(seed: u64) -> Box<Learner> {
    let mut learner = Box::new(Learner::new(seed));
    learner.reset();
    learner
}

/// Trains epochs on the training digits; the loss of the last step.
pub(crate) fn train(learner: &mut Learner, data: &Dataset, seed: u64, epochs: u32) -> f32 {
    let normalizer = Normalizer::fit(Normalization::UnitInterval, &data.train);
    let (mut images, mut labels) = ([0.0; BATCH * 64], [0; BATCH]);
    let mut loss = f32::NAN;
    let steps = epochs * (data.train.len() / BATCH) as u32;
    for epoch in 0..epochs {
        let order = TrainingBatches::new(data.train.len(), batch(), seed, epoch.into());
        for indices in order.iter() {
            fill(&data.train, &normalizer, indices, &mut images, &mut labels);
            let size = learning_rate(learner.steps(), steps);
            loss = learner.learn(&images, &labels, size);
        }
    }
    loss
}

/// The fraction of images that the learner reads rightly.
#[allow(dead_code, reason = "not every user of this module evaluates")]
pub(crate) fn accuracy(learner: &mut Learner, split: &Split) -> f64 {
    let normalizer = Normalizer::fit(Normalization::UnitInterval, split);
    let (mut images, mut labels) = ([0.0; BATCH * 64], [0; BATCH]);
    let mut right = 0;
    for batch in evaluation_batches(split.len(), batch()) {
        fill(split, &normalizer, &batch.indices, &mut images, &mut labels);
        let alone = &images.as_chunks::<64>().0[..batch.count];
        let counted = learner.right(alone, &labels);
        let agree = alone.iter().zip(&labels).filter(|(x, label)| learner.read(x) == **label);
        let agree = agree.count();
        assert_eq!(counted as usize, agree, "what the model counts is what it reads");
        right += counted;
    }
    f64::from(right) / split.len() as f64
}

fn batch() -> NonZeroUsize {
    NonZeroUsize::new(BATCH).expect("a batch has examples")
}

fn fill(
    split: &Split,
    normalizer: &Normalizer,
    indices: &[usize],
    images: &mut Images,
    labels: &mut Labels,
) {
    split.fill_batch(indices, normalizer, images, labels);
}
