//! From stored elements to the f32 values that a model sees, and filling batches with them.

use crate::dataset::{Images, Split};

/// How stored elements become model inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Normalization {
    /// The stored value itself: a pixel 0 to 255 becomes 0.0 to 255.0.
    None,
    /// Pixels divided by 255, into 0.0 to 1.0. Float images are taken as they are.
    #[default]
    UnitInterval,
    /// `(x - mean) / deviation`, with the mean and the population standard deviation of each channel over the training
    /// split, where `x` is the value that [`Normalization::UnitInterval`] gives.
    Standardize,
}

/// A [`Normalization`] with the constants it takes from a training split. Applies to both splits of the data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalizer {
    channels: Vec<ChannelMap>,
}

/// The affine map of one channel.
#[derive(Debug, Clone, PartialEq)]
struct ChannelMap {
    mean: f64,
    deviation: f64,
    /// What stored pixels are divided by before the mean is taken off.
    pixel_scale: f64,
    /// The results for all 256 pixel values.
    table: Vec<f32>,
}

impl ChannelMap {
    fn new(mean: f64, deviation: f64, pixel_scale: f64) -> Self {
        // A constant channel carries nothing; it becomes 0 and not a division by 0.
        let deviation = if deviation > 0.0 { deviation } else { 1.0 };
        let table = (0..=255u8)
            .map(|pixel| ((f64::from(pixel) / pixel_scale - mean) / deviation) as f32)
            .collect();
        Self { mean, deviation, pixel_scale, table }
    }

    fn apply_pixels(&self, pixels: &[u8], out: &mut [f32]) {
        for (out, &pixel) in out.iter_mut().zip(pixels) {
            *out = self.table[usize::from(pixel)];
        }
    }

    fn apply_values(&self, values: &[f32], out: &mut [f32]) {
        for (out, &value) in out.iter_mut().zip(values) {
            *out = ((f64::from(value) - self.mean) / self.deviation) as f32;
        }
    }
}

impl Normalizer {
    /// Takes from `train` what `normalization` needs. Statistics of pixels are exact integer sums; those of floats are
    /// f64 sums in file order: the same on every machine.
    pub fn fit(normalization: Normalization, train: &Split) -> Self {
        let channels = (0..train.shape[0])
            .map(|channel| match normalization {
                Normalization::None => ChannelMap::new(0.0, 1.0, 1.0),
                Normalization::UnitInterval => ChannelMap::new(0.0, 1.0, 255.0),
                Normalization::Standardize => {
                    let (mean, deviation) = statistics(train, channel);
                    ChannelMap::new(mean, deviation, 255.0)
                }
            })
            .collect();
        Self { channels }
    }

    /// With a mean and a deviation for each channel, in the units of [`Normalization::UnitInterval`].
    pub fn stated(channels: &[(f64, f64)]) -> Self {
        let channel = |&(mean, deviation)| ChannelMap::new(mean, deviation, 255.0);
        Self { channels: channels.iter().map(channel).collect() }
    }

    /// The mean that is taken off each channel and the deviation it is divided by, for reports and for repeating the
    /// preprocessing elsewhere. The units are those of [`Normalization::UnitInterval`], or of the stored values under
    /// [`Normalization::None`].
    pub fn mean_and_deviation(&self) -> Vec<(f64, f64)> {
        self.channels.iter().map(|channel| (channel.mean, channel.deviation)).collect()
    }

    /// What a pixel of 0 becomes in a channel; 0 for a channel that there is not.
    pub fn zero_pixel(&self, channel: usize) -> f32 {
        self.channels.get(channel).and_then(|map| map.table.first()).copied().unwrap_or(0.0)
    }

    /// What stored pixels are divided by before anything else: 255, or 1 under [`Normalization::None`].
    pub fn pixel_scale(&self) -> f64 {
        self.channels.first().map_or(1.0, |channel| channel.pixel_scale)
    }

    /// Every image of `split`, normalized, in the split's order (N, C, H, W).
    pub fn to_f32(&self, split: &Split) -> Vec<f32> {
        let mut out = vec![0.0; split.images.len()];
        let image_length = split.image_len();
        if image_length > 0 {
            for (index, out) in out.chunks_exact_mut(image_length).enumerate() {
                self.fill_image(split, index, out);
            }
        }
        out
    }

    fn fill_image(&self, split: &Split, index: usize, out: &mut [f32]) {
        let [channels, height, width] = split.shape;
        assert_eq!(channels, self.channels.len(), "the normalizer was fitted to other channels");
        let plane = height * width;
        for (channel, map) in self.channels.iter().enumerate() {
            let source = (index * channels + channel) * plane;
            let out = &mut out[channel * plane..(channel + 1) * plane];
            match &split.images {
                Images::U8(pixels) => map.apply_pixels(&pixels[source..source + plane], out),
                Images::F32(values) => map.apply_values(&values[source..source + plane], out),
                Images::I32(values) => {
                    let values = &values[source..source + plane];
                    out.iter_mut().zip(values).for_each(|(out, &value)| *out = value as f32);
                }
            }
        }
    }
}

impl Split {
    /// Writes the images at `indices`, normalized, one after another into `out`, and their class indices into `labels`.
    ///
    /// # Panics
    /// If an index is not below [`Split::len`], if `out` does not have `indices.len() * image_len()` elements or
    /// `labels` not `indices.len()`, or if `normalizer` was fitted to another number of channels.
    pub fn fill_batch(
        &self,
        indices: &[usize],
        normalizer: &Normalizer,
        out: &mut [f32],
        labels: &mut [i32],
    ) {
        let image_length = self.image_len();
        assert_eq!(out.len(), indices.len() * image_length, "the batch buffer has another size");
        assert_eq!(labels.len(), indices.len(), "the label buffer has another size");
        for (slot, &index) in indices.iter().enumerate() {
            let out = &mut out[slot * image_length..(slot + 1) * image_length];
            normalizer.fill_image(self, index, out);
            // Class indices are below 2^16.
            labels[slot] = self.labels[index] as i32;
        }
    }
}

/// Mean and population standard deviation of one channel; pixels count as x / 255.
fn statistics(split: &Split, channel: usize) -> (f64, f64) {
    let [channels, height, width] = split.shape;
    let plane = height * width;
    let planes = (0..split.len()).map(|index| {
        let start = (index * channels + channel) * plane;
        start..start + plane
    });
    match &split.images {
        Images::U8(pixels) => {
            let mut histogram = [0u128; 256];
            for range in planes {
                for &pixel in &pixels[range] {
                    histogram[usize::from(pixel)] += 1;
                }
            }
            let weighted = |power: u32| -> u128 {
                (0u128..).zip(&histogram).map(|(pixel, count)| pixel.pow(power) * count).sum()
            };
            let (count, sum, squares) = (weighted(0), weighted(1), weighted(2));
            let mean = sum as f64 / count as f64;
            let variance = (count * squares - sum * sum) as f64 / (count as f64 * count as f64);
            (mean / 255.0, variance.sqrt() / 255.0)
        }
        Images::F32(values) => {
            let all =
                || planes.clone().flat_map(|range| &values[range]).map(|&value| f64::from(value));
            let count = (split.len() * plane) as f64;
            let mean = all().sum::<f64>() / count;
            let variance = all().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
            (mean, variance.sqrt())
        }
        Images::I32(_) => (0.0, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two images of two channels, 1 x 2.
    fn pixels() -> Split {
        Split {
            shape: [2, 1, 2],
            images: Images::U8(vec![0, 51, 255, 255, 102, 255, 255, 255]),
            labels: vec![4, 9],
            targets: None,
            named: Vec::new(),
        }
    }

    fn floats() -> Split {
        Split { images: Images::F32(vec![1.0, -1.0, 0.5, 0.5, 3.0, 5.0, 0.5, 0.5]), ..pixels() }
    }

    fn close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn none_and_unit_interval() {
        let found = Normalizer::fit(Normalization::None, &pixels()).to_f32(&pixels());
        assert_eq!(found, [0.0, 51.0, 255.0, 255.0, 102.0, 255.0, 255.0, 255.0]);
        let found = Normalizer::fit(Normalization::UnitInterval, &pixels()).to_f32(&pixels());
        assert_eq!(found, [0.0, 0.2, 1.0, 1.0, 0.4, 1.0, 1.0, 1.0]);
        let found = Normalizer::fit(Normalization::UnitInterval, &floats()).to_f32(&floats());
        assert_eq!(found, [1.0, -1.0, 0.5, 0.5, 3.0, 5.0, 0.5, 0.5]);
    }

    #[test]
    fn standardize_is_per_channel_and_survives_a_constant_one() {
        // Channel 0 over both images is 0, .2, .4, 1: mean .4, variance (.16 + .04 + 0 + .36) / 4 = .14.
        let normalizer = Normalizer::fit(Normalization::Standardize, &pixels());
        let deviation = 0.14f32.sqrt();
        let expected = [-0.4, -0.2, 0.0, 0.0, 0.0, 0.6, 0.0, 0.0].map(|x: f32| x / deviation);
        close(&normalizer.to_f32(&pixels()), &expected);
        let constants = normalizer.mean_and_deviation();
        assert!(
            (constants[0].0 - 0.4).abs() < 1e-12 && (constants[0].1 - 0.14f64.sqrt()).abs() < 1e-12
        );
        assert_eq!(constants[1], (1.0, 1.0));
        // Channel 0 is 1, -1, 3, 5: mean 2, variance (1 + 9 + 1 + 9) / 4 = 5.
        let normalizer = Normalizer::fit(Normalization::Standardize, &floats());
        let expected = [-1.0, -3.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0].map(|x: f32| x / 5f32.sqrt());
        close(&normalizer.to_f32(&floats()), &expected);
    }

    #[test]
    fn a_batch_holds_the_chosen_images_in_order() {
        for split in [pixels(), floats()] {
            let normalizer = Normalizer::fit(Normalization::UnitInterval, &split);
            let all = normalizer.to_f32(&split);
            let (mut out, mut labels) = (vec![f32::NAN; 12], vec![-1; 3]);
            split.fill_batch(&[1, 0, 1], &normalizer, &mut out, &mut labels);
            assert_eq!(out, [&all[4..], &all[..4], &all[4..]].concat());
            assert_eq!(labels, [9, 4, 9]);
        }
    }
}
