//! From encoded image files, each under a split and a class, to a [`Dataset`]; where they come from (a folder, an
//! archive) is the callers' matter.

use std::collections::BTreeMap;

use crate::dataset::{CLASS_LIMIT, Dataset, Images, Split};
use crate::decode::{ImageFile, Part, decode_all, inspect_all};
use crate::error::DataError;

impl Part {
    pub(crate) const ALL: [Part; 2] = [Part::Train, Part::Test];

    /// The name of the split's folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Test => "test",
        }
    }
}

/// Whether a file's name says that it is an image this crate decodes. Hidden files (`._a.png` beside `a.png`) are not.
pub(crate) fn is_image_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    !name.starts_with('.') && matches!(extension.as_deref(), Some("jpg" | "jpeg" | "png"))
}

/// Decodes and sorts. Samples are ordered by split, class name and file name, so a folder and an archive of it give the
/// same data set. Classes are the training split's class names, sorted by bytes. Images are one channel when every one
/// of both splits is stored as grey, otherwise three (red, green, blue). `place` names the whole in errors.
pub(crate) fn dataset_of(
    mut files: Vec<ImageFile>,
    name: String,
    place: &str,
    limit: u64,
) -> Result<Dataset, DataError> {
    files.sort_unstable();
    let key = |file: &ImageFile| (file.part, file.class.clone(), file.name.clone());
    if let Some(pair) = files.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
        return Err(DataError::at(&pair[1].place, "appears twice"));
    }
    let train_count = files.partition_point(|file| file.part == Part::Train);
    for (part, count) in [(Part::Train, train_count), (Part::Test, files.len() - train_count)] {
        if count == 0 {
            let folder = part.folder();
            return Err(DataError::at(
                place,
                format!("has no images {folder}/<class>/*.png (or .jpg, .jpeg)"),
            ));
        }
    }

    let mut indices: BTreeMap<&str, u32> = BTreeMap::new();
    for file in &files[..train_count] {
        let next = indices.len() as u32;
        // Files are sorted by class, so the numbers follow the names' order.
        indices.entry(&file.class).or_insert(next);
    }
    if indices.len() > CLASS_LIMIT {
        return Err(DataError::at(
            place,
            format!("has {} classes; the limit is {CLASS_LIMIT}", indices.len()),
        ));
    }
    let labels: Vec<u32> = files
        .iter()
        .map(|file| {
            indices.get(file.class.as_str()).copied().ok_or_else(|| {
                let reason =
                    format!("is of the class {:?}, which train/ does not have", file.class);
                DataError::at(&file.place, reason)
            })
        })
        .collect::<Result<_, _>>()?;

    let shape = inspect_all(&files, limit)?;
    let split = |files: &[ImageFile], labels: &[u32]| {
        let pixels = decode_all(files, shape)?;
        let labels = labels.to_vec();
        Ok::<_, DataError>(Split {
            shape,
            images: Images::U8(pixels),
            labels,
            targets: None,
            named: Vec::new(),
        })
    };
    let train = split(&files[..train_count], &labels[..train_count])?;
    let test = split(&files[train_count..], &labels[train_count..])?;
    let classes = indices.keys().map(|class| class.to_string()).collect();
    Ok(Dataset { name, train, test, classes })
}

#[cfg(test)]
pub(crate) mod tests_support {
    use png::{BitDepth, ColorType};

    pub(crate) fn png(
        (width, height): (u32, u32),
        pixels: &[u8],
        (color, depth): (ColorType, BitDepth),
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
        bytes
    }

    pub(crate) fn grey_png(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
        png((width, height), pixels, (ColorType::Grayscale, BitDepth::Eight))
    }

    pub(crate) fn rgb_png(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
        png((width, height), pixels, (ColorType::Rgb, BitDepth::Eight))
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::{grey_png, png, rgb_png};
    use super::*;
    use crate::test_support::{crc32, every_damage};
    use png::{BitDepth, ColorType};

    /// Images that another program wrote; testdata/README.md has the script.
    const RAMP: &[u8] = include_bytes!("../testdata/ramp.jpg");
    const TWO: &[u8] = include_bytes!("../testdata/two.jpg");
    const SIXTEEN: &[u8] = include_bytes!("../testdata/sixteen.jpg");

    fn files(encoded: &[Vec<u8>]) -> Vec<ImageFile> {
        let parts = [Part::Train, Part::Test];
        let file = |(part, bytes): (_, &Vec<u8>)| ImageFile {
            part,
            class: "a".into(),
            name: "1".into(),
            place: "1".into(),
            bytes: bytes.clone(),
        };
        parts.into_iter().zip(encoded).map(file).collect()
    }

    fn decode(encoded: &[Vec<u8>; 2]) -> Result<Dataset, DataError> {
        dataset_of(files(encoded), "x".into(), "x", 1 << 20)
    }

    #[test]
    fn jpegs_decode_close_to_what_was_encoded() {
        // A smooth ramp, which a JPEG of quality 100 keeps to within a few grey levels.
        let pixels: Vec<u8> = (0..64).map(|i| 100 + i).collect();
        let dataset = decode(&[RAMP.to_vec(), grey_png(8, 8, &pixels)]).unwrap();
        assert_eq!(dataset.train.shape, [1, 8, 8]);
        let Images::U8(decoded) = &dataset.train.images else { panic!("not bytes") };
        let worst = decoded.iter().zip(&pixels).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(worst <= 3, "{worst}");
        assert_eq!(dataset.test.images, Images::U8(pixels));
    }

    #[test]
    fn alpha_is_dropped_and_sixteen_bits_are_reduced() {
        let encode = |pixels: &[u8], kind| png((1, 1), pixels, kind);
        let grey_alpha = encode(&[90, 10], (ColorType::GrayscaleAlpha, BitDepth::Eight));
        let deep = encode(&[0x80, 0x80], (ColorType::Grayscale, BitDepth::Sixteen));
        let dataset = decode(&[grey_alpha, deep]).unwrap();
        assert_eq!(dataset.train.images, Images::U8(vec![90]));
        assert_eq!(dataset.test.images, Images::U8(vec![0x80]));
    }

    #[test]
    fn a_size_without_the_bytes_for_it_is_refused_before_decoding() {
        let mut png = grey_png(1, 1, &[5]);
        // Width and height are the first two words of the header chunk; its checksum covers them.
        png[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
        let checksum = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        let error = decode(&[png, grey_png(1, 1, &[5])]).unwrap_err().to_string();
        assert!(error.contains("claims 16384 x 16384 pixels in"), "{error}");
    }

    #[test]
    fn the_whole_set_is_held_against_the_limit() {
        let pair = [rgb_png(1, 1, &[1, 2, 3]), rgb_png(1, 1, &[1, 2, 3])];
        assert!(dataset_of(files(&pair), "x".into(), "x", 6).is_ok());
        let error = dataset_of(files(&pair), "x".into(), "x", 5).unwrap_err();
        assert!(matches!(error, DataError::TooLarge { limit: 5, .. }), "{error}");
    }

    #[test]
    fn damaged_images_fail_or_decode_but_never_panic() {
        let png = grey_png(2, 2, &[1, 2, 3, 4]);
        for bytes in [&png, &TWO.to_vec()] {
            every_damage(bytes, |damaged| {
                if let Err(error) = decode(&[damaged.to_vec(), bytes.clone()]) {
                    assert!(!error.to_string().contains("image decoder"), "a decoder panicked");
                }
            });
        }
    }

    #[test]
    fn a_cut_image_is_an_error() {
        let png = grey_png(2, 2, &[1, 2, 3, 4]);
        let jpeg = SIXTEEN.to_vec();
        // A PNG's last chunk is an empty mark of 12 bytes; the pixels are whole without it.
        for (bytes, length) in [(&png, png.len() - 12), (&jpeg, jpeg.len())] {
            assert!(decode(&[bytes.clone(), bytes.clone()]).is_ok());
            for length in 0..length {
                assert!(decode(&[bytes[..length].to_vec(), bytes.clone()]).is_err(), "{length}");
            }
        }
    }
}
