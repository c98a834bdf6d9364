//! MNIST-style IDX files: big-endian `0x00000803, count, height, width` and pixels; `0x00000801, count` and labels.
//! The format is described at the bottom of Y. LeCun's MNIST page.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::bounded::{DECODED_BYTES_LIMIT, read_to_limit};
use crate::dataset::{Dataset, Images, Split, file_names, name_of, numbered_classes};
use crate::error::DataError;

const IMAGES_MAGIC: u32 = 0x0000_0803;
const LABELS_MAGIC: u32 = 0x0000_0801;
const TRAIN_PREFIXES: [&str; 1] = ["train"];
const TEST_PREFIXES: [&str; 2] = ["t10k", "test"];

/// Whether a folder holds at least one file named like an IDX image or label file.
pub(crate) fn is_idx_folder(folder: &Path) -> Result<bool, DataError> {
    let names = file_names(folder)?;
    let prefixes = TRAIN_PREFIXES.iter().chain(&TEST_PREFIXES);
    Ok(prefixes
        .flat_map(|prefix| [candidates(prefix, "images-idx3"), candidates(prefix, "labels-idx1")])
        .flatten()
        .any(|candidate| names.binary_search(&candidate).is_ok()))
}

pub(crate) fn open(folder: &Path) -> Result<Dataset, DataError> {
    let names = file_names(folder)?;
    let train = open_split(folder, &names, &TRAIN_PREFIXES)?;
    let test = open_split(folder, &names, &TEST_PREFIXES)?;
    let classes = numbered_classes(&train.labels, &folder.display().to_string())?;
    Ok(Dataset { name: name_of(folder), train, test, classes })
}

/// `train-images-idx3-ubyte`, its other common spelling with a dot, and both gzipped.
fn candidates(prefix: &str, middle: &str) -> [String; 4] {
    let dotted = middle.replace('-', ".");
    [
        format!("{prefix}-{middle}-ubyte"),
        format!("{prefix}-{middle}-ubyte.gz"),
        format!("{prefix}-{dotted}-ubyte"),
        format!("{prefix}-{dotted}-ubyte.gz"),
    ]
}

fn find(
    folder: &Path,
    names: &[String],
    prefixes: &[&str],
    middle: &str,
) -> Result<PathBuf, DataError> {
    prefixes
        .iter()
        .flat_map(|prefix| candidates(prefix, middle))
        .find(|candidate| names.binary_search(candidate).is_ok())
        .map(|name| folder.join(name))
        .ok_or_else(|| {
            let wanted = prefixes
                .iter()
                .map(|prefix| format!("{prefix}-{middle}-ubyte"))
                .collect::<Vec<_>>()
                .join(" or ");
            DataError::invalid(folder, format!("the file {wanted} (or with .gz) is missing"))
        })
}

fn open_split(folder: &Path, names: &[String], prefixes: &[&str]) -> Result<Split, DataError> {
    let images_path = find(folder, names, prefixes, "images-idx3")?;
    let labels_path = find(folder, names, prefixes, "labels-idx1")?;
    let images = parse_images(&read(&images_path)?, &images_path.display().to_string())?;
    let labels = parse_labels(&read(&labels_path)?, &labels_path.display().to_string())?;
    if images.count != labels.len() {
        return Err(DataError::invalid(
            &labels_path,
            format!(
                "has {} labels, but {} has {} images",
                labels.len(),
                images_path.display(),
                images.count
            ),
        ));
    }
    Ok(Split {
        shape: [1, images.height, images.width],
        images: Images::U8(images.pixels),
        labels: labels.into_iter().map(u32::from).collect(),
        targets: None,
        named: Vec::new(),
    })
}

/// The content of a file, unzipped when it starts like gzip, whatever its name says.
fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    let place = path.display().to_string();
    let mut reader = BufReader::new(File::open(path).map_err(DataError::read(path))?);
    let mut start = [0u8; 2];
    let is_gzip = match reader.read_exact(&mut start) {
        Ok(()) => start == [0x1f, 0x8b],
        Err(_) => return Err(DataError::at(place, "is cut short in its header")),
    };
    let whole = (&start[..]).chain(reader);
    if is_gzip {
        read_to_limit(MultiGzDecoder::new(whole), DECODED_BYTES_LIMIT, &place)
    } else {
        read_to_limit(whole, DECODED_BYTES_LIMIT, &place)
    }
}

/// The images of one file: `count` x `height` x `width` pixels.
pub(crate) struct IdxImages {
    pub(crate) count: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) pixels: Vec<u8>,
}

pub(crate) fn parse_images(bytes: &[u8], place: &str) -> Result<IdxImages, DataError> {
    let ([count, height, width], content) = parse(bytes, IMAGES_MAGIC, place)?;
    Ok(IdxImages { count, height, width, pixels: content.to_vec() })
}

pub(crate) fn parse_labels(bytes: &[u8], place: &str) -> Result<Vec<u8>, DataError> {
    let (_, content) = parse::<1>(bytes, LABELS_MAGIC, place)?;
    Ok(content.to_vec())
}

/// Checks the magic number and that exactly as many bytes follow the dimensions as they say.
fn parse<'a, const DIMENSIONS: usize>(
    bytes: &'a [u8],
    magic: u32,
    place: &str,
) -> Result<([usize; DIMENSIONS], &'a [u8]), DataError> {
    let (words, _) = bytes.as_chunks::<4>();
    let found = words.first().map(|word| u32::from_be_bytes(*word));
    if let Some(found) = found.filter(|&found| found != magic) {
        return Err(DataError::at(
            place,
            format!("starts with the magic number {found:#010x}; {magic:#010x} is expected"),
        ));
    }
    let Some(lengths) = words.get(1..1 + DIMENSIONS) else {
        return Err(DataError::at(place, "is cut short in its header"));
    };
    let mut dimensions = [0usize; DIMENSIONS];
    for (dimension, word) in dimensions.iter_mut().zip(lengths) {
        *dimension = u32::from_be_bytes(*word) as usize;
    }
    let content = &bytes[4 * (1 + DIMENSIONS)..];
    // Three 32-bit numbers fit 96 bits.
    let expected: u128 = dimensions.iter().map(|&dimension| dimension as u128).product();
    match content.len() as u128 {
        length if length < expected => Err(DataError::at(
            place,
            format!("is truncated: its header says {expected} bytes of data, {length} are there"),
        )),
        length if length > expected => Err(DataError::at(
            place,
            format!("has {} bytes more than its header says", length - expected),
        )),
        _ => Ok((dimensions, content)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{TemporaryFolder, every_damage, gzip};
    use std::fs;

    fn images_file(count: u32, height: u32, width: u32, pixels: &[u8]) -> Vec<u8> {
        let words = [IMAGES_MAGIC, count, height, width].map(u32::to_be_bytes);
        [words.as_flattened(), pixels].concat()
    }

    fn labels_file(labels: &[u8]) -> Vec<u8> {
        let words = [LABELS_MAGIC, labels.len() as u32].map(u32::to_be_bytes);
        [words.as_flattened(), labels].concat()
    }

    /// Three training and two test images of 1 x 2.
    fn folder() -> TemporaryFolder {
        let folder = TemporaryFolder::new();
        folder.write("train-images-idx3-ubyte", &images_file(3, 1, 2, &[1, 2, 3, 4, 5, 6]));
        folder.write("train-labels-idx1-ubyte.gz", &gzip(&labels_file(&[0, 2, 1])));
        folder.write("t10k-images.idx3-ubyte.gz", &gzip(&images_file(2, 1, 2, &[7, 8, 9, 10])));
        folder.write("test-labels-idx1-ubyte", &labels_file(&[2, 2]));
        folder
    }

    fn error_of(folder: &TemporaryFolder) -> String {
        Dataset::open(folder.path()).unwrap_err().to_string()
    }

    #[test]
    fn opens_plain_and_zipped_files_under_their_usual_names() {
        let dataset = Dataset::open(folder().path()).unwrap();
        assert_eq!(
            dataset.train,
            Split {
                shape: [1, 1, 2],
                images: Images::U8(vec![1, 2, 3, 4, 5, 6]),
                labels: vec![0, 2, 1],
                targets: None,
                named: Vec::new(),
            }
        );
        assert_eq!(dataset.test.images, Images::U8(vec![7, 8, 9, 10]));
        assert_eq!(dataset.test.labels, [2, 2]);
        assert_eq!(dataset.classes, ["0", "1", "2"]);
    }

    #[test]
    fn gzip_is_recognised_by_content_not_by_name() {
        let folder = folder();
        folder.write("train-labels-idx1-ubyte.gz", &labels_file(&[0, 2, 1]));
        folder.write("test-labels-idx1-ubyte", &gzip(&labels_file(&[2, 2])));
        assert!(Dataset::open(folder.path()).is_ok());
    }

    #[test]
    fn each_defect_is_named_with_its_file() {
        let with = |name: &str, bytes: &[u8]| {
            let folder = folder();
            folder.write(name, bytes);
            error_of(&folder)
        };
        let images = "train-images-idx3-ubyte";
        let error = with(images, &labels_file(&[0; 6]));
        assert!(error.contains(images) && error.contains("0x00000801"), "{error}");
        let error = with(images, &images_file(3, 1, 2, &[1; 5]));
        assert!(error.contains("truncated") && error.contains("6 bytes of data, 5"), "{error}");
        let error = with(images, &images_file(3, 1, 2, &[1; 7]));
        assert!(error.contains("1 bytes more"), "{error}");
        let error = with(images, &images_file(u32::MAX, u32::MAX, u32::MAX, &[1; 5]));
        assert!(error.contains("truncated"), "{error}");
        let error = with(images, &images_file(2, 1, 2, &[1; 4]));
        assert!(error.contains("3 labels, but") && error.contains("2 images"), "{error}");
        assert!(with(images, &[0]).contains("cut short"));
        assert!(with(images, &[0, 0, 8, 3, 0]).contains("cut short"));
        let error = with("test-labels-idx1-ubyte", &labels_file(&[2, 3]));
        assert!(error.contains("label 3 at sample 1"), "{error}");
        let zipped = gzip(&labels_file(&[0, 2, 1]));
        let error = with("train-labels-idx1-ubyte.gz", &zipped[..zipped.len() - 9]);
        assert!(error.contains("cannot be decoded"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = folder();
        fs::remove_file(folder.path().join("test-labels-idx1-ubyte")).unwrap();
        let error = error_of(&folder);
        assert!(error.contains("t10k-labels-idx1-ubyte or test-labels-idx1-ubyte"), "{error}");
        assert!(error.contains("missing"), "{error}");
    }

    #[test]
    fn damaged_bytes_fail_or_read_but_never_panic() {
        every_damage(&images_file(2, 1, 2, &[7, 8, 9, 10]), |bytes| {
            let _ = parse_images(bytes, "x");
        });
        every_damage(&labels_file(&[1, 2]), |bytes| {
            let _ = parse_labels(bytes, "x");
        });
    }
}
