//! A small real data set inside the crate, for trials and tests without any download; digits/README.md says whose it is.

use flate2::read::GzDecoder;

use crate::bounded::read_to_limit;
use crate::dataset::{Dataset, Images, Split};
use crate::idx::{parse_images, parse_labels};

const IMAGES: &[u8] = include_bytes!("../digits/images.idx3.gz");
const LABELS: &[u8] = include_bytes!("../digits/labels.idx1.gz");
/// The stored pixels' highest value.
const FULL: u16 = 16;
/// One test image for this many images of a class.
const TEST_STRIDE: usize = 4;

impl Dataset {
    /// The UCI handwritten digits: 1,352 training and 445 test images of 1 x 8 x 8 pixels in 10 classes.
    ///
    /// The source counts 0 to 16 dark pixels; here a count `v` is the byte `v * 255 / 16`, rounded to nearest, so that
    /// images have the full range of other pixel sets and [`UnitInterval`](crate::Normalization::UnitInterval) gives
    /// `v / 16` to within 1/510.
    ///
    /// The split is fixed and stratified: of each class, in file order, every fourth image is a test image.
    pub fn digits() -> Dataset {
        let unpack = |bytes, name: &str| {
            read_to_limit(GzDecoder::new(bytes), 1 << 20, name).expect("embedded at compile time")
        };
        let images =
            parse_images(&unpack(IMAGES, "digits"), "digits").expect("embedded at compile time");
        let labels =
            parse_labels(&unpack(LABELS, "digits"), "digits").expect("embedded at compile time");
        let shape = [1, images.height, images.width];
        let mut parts = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        let mut seen = [0usize; 10];
        for (image, &label) in images.pixels.chunks_exact(images.height * images.width).zip(&labels)
        {
            let count = &mut seen[usize::from(label)];
            *count += 1;
            let (pixels, part_labels) = &mut parts[usize::from(*count % TEST_STRIDE == 0)];
            pixels.extend(image.iter().map(|&value| scaled(value)));
            part_labels.push(u32::from(label));
        }
        let [train, test] = parts.map(|(pixels, labels)| Split {
            shape,
            images: Images::U8(pixels),
            labels,
            targets: None,
            named: Vec::new(),
        });
        let classes = (0..10).map(|digit| digit.to_string()).collect();
        Dataset { name: "digits".to_string(), train, test, classes }
    }
}

fn scaled(value: u8) -> u8 {
    ((u16::from(value) * 255 + FULL / 2) / FULL) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(split: &Split) -> &[u8] {
        let Images::U8(pixels) = &split.images else { panic!("not bytes") };
        pixels
    }

    #[test]
    fn counts_are_those_of_the_source() {
        let digits = Dataset::digits();
        assert_eq!((digits.train.len(), digits.test.len()), (1352, 445));
        // scikit-learn: numpy.bincount(load_digits().target).
        let expected = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];
        for (class, expected) in expected.into_iter().enumerate() {
            let count =
                |split: &Split| split.labels.iter().filter(|&&l| l as usize == class).count();
            assert_eq!(count(&digits.train) + count(&digits.test), expected, "{class}");
            assert_eq!(count(&digits.test), expected / 4, "{class}");
        }
        assert_eq!(digits.train.labels.len() * 64, pixels(&digits.train).len());
        assert_eq!(digits.test.labels.len() * 64, pixels(&digits.test).len());
    }

    #[test]
    fn pixels_are_those_of_the_source() {
        let digits = Dataset::digits();
        // scikit-learn: load_digits().images.sum(), over values 0 to 16.
        let all = pixels(&digits.train).iter().chain(pixels(&digits.test));
        let sum: u32 = all.map(|&byte| (u32::from(byte) * 16 + 127) / 255).sum();
        assert_eq!(sum, 561_718);
        // Its first image, a zero, and the last, an eight; as bytes: 5 -> 79.69, 13 -> 207.19, 9 -> 143.44, 1 -> 15.94.
        assert_eq!(pixels(&digits.train)[..8], [0, 0, 80, 207, 143, 16, 0, 0]);
        assert_eq!(digits.train.labels[0], 0);
        assert_eq!(pixels(&digits.train).iter().max(), Some(&255));
    }
}
