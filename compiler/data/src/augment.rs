//! Random changes of training images: crops, mirror images, holes. What happens to an image depends on the seed, the epoch and
//! the image's place in its data set alone, so a run that goes on later sees the same images, whatever the batch size.

use std::num::NonZeroUsize;

use crate::normalize::Normalizer;
use crate::shuffle::SplitMix64;

/// What is done to training images, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Augmentation {
    /// Each side is padded by so many zero pixels, and a window of the image's size cut out anywhere.
    pub crop: usize,
    /// Every second image is mirrored, left to right.
    pub flip: bool,
    /// Side of a square around any pixel, clipped to the image, that becomes 0 in the model's input.
    pub cutout: usize,
}

impl Augmentation {
    /// Whether images stay as they are.
    pub fn is_none(&self) -> bool {
        *self == Augmentation::default()
    }

    /// Changes a normalized image of `shape` (channels, height, width), that at `index` of its split, in an epoch (from 0).
    ///
    /// # Panics
    /// If `image` has not the elements of `shape`.
    pub fn apply(
        &self,
        image: &mut [f32],
        shape: [usize; 3],
        normalizer: &Normalizer,
        (seed, epoch, index): (u64, u64, usize),
    ) {
        let [channels, height, width] = shape;
        assert_eq!(image.len(), channels * height * width, "the image has another shape");
        if image.is_empty() {
            return;
        }
        // All are drawn whatever is asked for, so that one does not move the others.
        let mut random = SplitMix64::for_example(seed, epoch, index as u64);
        let mut below = |bound: usize| random.below(NonZeroUsize::MIN.saturating_add(bound - 1));
        let (down, right) = (below(2 * self.crop + 1), below(2 * self.crop + 1));
        let mirrored = below(2) == 1;
        let (row, column) = (below(height), below(width));
        for (channel, plane) in image.chunks_exact_mut(height * width).enumerate() {
            if self.crop > 0 {
                let empty = normalizer.zero_pixel(channel);
                let old = plane.to_vec();
                for (i, out) in plane.iter_mut().enumerate() {
                    let y = (i / width + down).checked_sub(self.crop).filter(|&y| y < height);
                    let x = (i % width + right).checked_sub(self.crop).filter(|&x| x < width);
                    *out = y.zip(x).map_or(empty, |(y, x)| old[y * width + x]);
                }
            }
            if self.flip && mirrored {
                plane.chunks_exact_mut(width).for_each(<[f32]>::reverse);
            }
            if self.cutout > 0 {
                let span = |center: usize, size: usize| {
                    let start = center.saturating_sub(self.cutout / 2);
                    let end = (center + self.cutout).saturating_sub(self.cutout / 2);
                    start..end.min(size)
                };
                for y in span(row, height) {
                    plane[y * width..][span(column, width)].fill(0.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels of 1 to 12 in two rows of six, and those after an augmentation.
    fn after(augmentation: Augmentation, place: (u64, u64, usize)) -> Vec<f32> {
        let mut image: Vec<f32> = (1u8..=12).map(f32::from).collect();
        augmentation.apply(&mut image, [1, 2, 6], &Normalizer::stated(&[(0.5, 0.5)]), place);
        image
    }

    #[test]
    fn windows_mirrors_and_holes() {
        let none = after(Augmentation::default(), (1, 0, 0));
        let flip = Augmentation { flip: true, ..Augmentation::default() };
        let mirrored: Vec<f32> =
            [6, 5, 4, 3, 2, 1, 12, 11, 10, 9, 8, 7].map(|x: u8| x.into()).to_vec();
        let flips = (0..1000).filter(|&i| match after(flip, (1, 0, i)) {
            image if image == mirrored => true,
            image => {
                assert_eq!(image, none);
                false
            }
        });
        assert!((400..600).contains(&flips.count()));
        // Every window of the padded image is cut out: 3 by 3 of them. Padding is a pixel of 0, here -1.
        let crop = Augmentation { crop: 1, ..Augmentation::default() };
        let mut windows: Vec<Vec<f32>> = (0..300).map(|i| after(crop, (1, 0, i))).collect();
        windows.sort_by(|a, b| a.partial_cmp(b).unwrap());
        windows.dedup();
        assert_eq!(windows.len(), 9);
        let right = [2.0, 3.0, 4.0, 5.0, 6.0, -1.0, 8.0, 9.0, 10.0, 11.0, 12.0, -1.0];
        let up = [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert!(windows.contains(&right.to_vec()) && windows.contains(&up.to_vec()));
        // A hole of 2 by 2, where it is not cut by the edge.
        let cutout = Augmentation { cutout: 2, ..Augmentation::default() };
        let holes =
            (0..300).map(|i| after(cutout, (1, 0, i)).iter().filter(|x| **x == 0.0).count());
        let holes: Vec<usize> = holes.collect();
        assert!(holes.contains(&4) && holes.iter().all(|n| [1, 2, 4].contains(n)), "{holes:?}");
    }

    #[test]
    fn the_same_again_and_another_in_the_next_epoch() {
        let all = Augmentation { crop: 2, flip: true, cutout: 1 };
        let images =
            |seed, epoch| (0..20).map(|i| after(all, (seed, epoch, i))).collect::<Vec<_>>();
        assert_eq!(images(3, 1), images(3, 1));
        assert_ne!(images(3, 1), images(3, 2));
        assert_ne!(images(3, 1), images(4, 1));
    }
}
