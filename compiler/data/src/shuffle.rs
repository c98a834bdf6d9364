//! Deterministic order of samples: the same (seed, epoch) gives the same batches on every machine and in every
//! version of this crate.
//!
//! The generator is SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014): the state is a counter that advances by an odd constant, the output a bijective mix of it. An epoch's
//! stream starts at `mix(mix(seed) + epoch)`, so neighbouring seeds and epochs share no visible structure. The
//! permutation is a Fisher-Yates shuffle from the last position down, with bounded draws that reject the biased tail
//! (D. Lemire, "Fast random integer generation in an interval", 2019), so every order is equally likely.

use std::num::NonZeroUsize;

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The SplitMix64 generator. Not for cryptography.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream whose counter starts at `state`.
    pub fn new(state: u64) -> Self {
        Self { state }
    }

    /// The stream of one epoch under one seed.
    pub fn for_epoch(seed: u64, epoch: u64) -> Self {
        Self::new(mix(mix(seed).wrapping_add(epoch)))
    }

    /// The stream of one example in one epoch under one seed; none of those that order examples.
    pub fn for_example(seed: u64, epoch: u64, index: u64) -> Self {
        let epoch = mix(mix(seed ^ GOLDEN_GAMMA).wrapping_add(epoch));
        Self::new(mix(epoch.wrapping_add(index)))
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// A uniform integer in `0..bound`, without bias.
    pub fn below(&mut self, bound: NonZeroUsize) -> usize {
        let bound = bound.get() as u64;
        // Products whose low word falls below 2^64 mod bound are the surplus that would favour some results.
        let surplus = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= surplus {
                return (product >> 64) as usize;
            }
        }
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The order in which epoch `epoch` visits `length` samples: a permutation of `0..length`.
pub fn permutation(length: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    let mut generator = SplitMix64::for_epoch(seed, epoch);
    for last in (1..length).rev() {
        // `last + 1` is at least 2.
        let chosen = generator.below(NonZeroUsize::MIN.saturating_add(last));
        order.swap(last, chosen);
    }
    order
}

/// One epoch of training batches: every batch is full, and the samples of the last partial batch are left out of this
/// epoch (another epoch's order brings them in).
#[derive(Debug, Clone)]
pub struct TrainingBatches {
    order: Vec<usize>,
    batch: NonZeroUsize,
}

impl TrainingBatches {
    /// Epoch `epoch` over `length` samples in batches of `batch`.
    pub fn new(length: usize, batch: NonZeroUsize, seed: u64, epoch: u64) -> Self {
        Self { order: permutation(length, seed, epoch), batch }
    }

    /// The number of batches: `length / batch`, rounded down.
    pub fn len(&self) -> usize {
        self.order.len() / self.batch
    }

    /// Whether there are fewer samples than one batch needs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batches' sample indices, in order; each slice has `batch` of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.order.chunks_exact(self.batch.get())
    }
}

/// One evaluation batch: always `batch` indices, of which the first `count` are samples and the rest padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationBatch {
    /// Sample indices, in file order; padding repeats the last sample.
    pub indices: Vec<usize>,
    /// How many of `indices` count towards the result; at least 1.
    pub count: usize,
}

/// All of `length` samples in file order, in batches of `batch`; the last one padded. Their counts add up to `length`.
pub fn evaluation_batches(
    length: usize,
    batch: NonZeroUsize,
) -> impl ExactSizeIterator<Item = EvaluationBatch> {
    let batch = batch.get();
    (0..length.div_ceil(batch)).map(move |number| {
        let first = number * batch;
        let count = batch.min(length - first);
        let indices = (0..batch).map(|slot| first + slot.min(count - 1)).collect();
        EvaluationBatch { indices, count }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn non_zero(value: usize) -> NonZeroUsize {
        NonZeroUsize::new(value).unwrap()
    }

    #[test]
    fn splitmix64_gives_the_published_stream() {
        // The widely published check values for the seed 1234567.
        let mut generator = SplitMix64::new(1_234_567);
        let stream: Vec<u64> = (0..5).map(|_| generator.next_u64()).collect();
        assert_eq!(
            stream,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn a_permutation_holds_every_index_once_and_depends_on_seed_and_epoch() {
        let order = permutation(1000, 7, 3);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(order, permutation(1000, 7, 3));
        assert_ne!(order, permutation(1000, 7, 4));
        assert_ne!(order, permutation(1000, 8, 3));
        // (seed, epoch + 1) must not be (seed + 1, epoch).
        assert_ne!(permutation(1000, 7, 4), permutation(1000, 8, 3));
        assert!(permutation(0, 7, 3).is_empty());
        assert_eq!(permutation(1, 7, 3), [0]);
    }

    #[test]
    fn every_order_of_four_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        let epochs = 24_000;
        for epoch in 0..epochs {
            *counts.entry(permutation(4, 1, epoch)).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // Chi-square with 23 degrees of freedom: 49.7 is exceeded once in a thousand fair streams.
        let chi_square: f64 =
            counts.values().map(|&count| (f64::from(count) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_square < 49.7, "{chi_square}");
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn bounded_draws_are_unbiased() {
        // Of 2^64 inputs to this bound, taking all would give multiples of 3 twice as often as the others.
        let bound = NonZeroUsize::new(3 << 62).unwrap();
        let mut generator = SplitMix64::new(5);
        let mut counts = [0u32; 3];
        for _ in 0..3000 {
            counts[generator.below(bound) % 3] += 1;
        }
        // Five standard deviations around 1000.
        assert!(counts.iter().all(|count| (870..1130).contains(count)), "{counts:?}");
    }

    #[test]
    fn this_stream_never_changes() {
        // Computed by an independent implementation (Python integers); a change here breaks every recorded run.
        assert_eq!(permutation(10, 0, 0), [4, 9, 2, 5, 1, 7, 6, 0, 3, 8]);
        assert_eq!(permutation(10, 42, 1), [6, 5, 1, 4, 7, 3, 2, 9, 8, 0]);
    }

    #[test]
    fn training_drops_the_partial_batch() {
        let batches = TrainingBatches::new(10, non_zero(4), 0, 0);
        assert_eq!(batches.len(), 2);
        let order = permutation(10, 0, 0);
        assert_eq!(batches.iter().collect::<Vec<_>>(), [&order[..4], &order[4..8]]);
        assert!(TrainingBatches::new(3, non_zero(4), 0, 0).is_empty());
    }

    #[test]
    fn evaluation_pads_the_partial_batch() {
        let batches: Vec<_> = evaluation_batches(5, non_zero(3)).collect();
        assert_eq!(
            batches,
            [
                EvaluationBatch { indices: vec![0, 1, 2], count: 3 },
                EvaluationBatch { indices: vec![3, 4, 4], count: 2 }
            ]
        );
        assert_eq!(evaluation_batches(0, non_zero(3)).len(), 0);
        assert_eq!(evaluation_batches(6, non_zero(3)).map(|batch| batch.count).sum::<usize>(), 6);
    }
}
