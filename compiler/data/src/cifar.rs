//! CIFAR-10's binary version: records of one label byte and 3 x 32 x 32 pixels (A. Krizhevsky, "Learning multiple
//! layers of features from tiny images", 2009; the layout is described on the data set's page).

use std::fs::File;
use std::path::Path;

use crate::bounded::{DECODED_BYTES_LIMIT, read_to_limit};
use crate::dataset::{Dataset, Images, Split, file_names, name_of};
use crate::error::DataError;

const SHAPE: [usize; 3] = [3, 32, 32];
const PIXELS: usize = 3 * 32 * 32;
const RECORD: usize = 1 + PIXELS;
const TEST_FILE: &str = "test_batch.bin";
/// The names in the archive's `batches.meta.txt`.
const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

fn train_files() -> impl Iterator<Item = String> {
    (1..=5).map(|number| format!("data_batch_{number}.bin"))
}

/// Whether a folder holds at least one of the files of the binary version.
pub(crate) fn is_cifar_folder(folder: &Path) -> Result<bool, DataError> {
    let names = file_names(folder)?;
    Ok(train_files()
        .chain([TEST_FILE.to_string()])
        .any(|wanted| names.binary_search(&wanted).is_ok()))
}

pub(crate) fn open(folder: &Path) -> Result<Dataset, DataError> {
    let mut train = empty_split();
    for name in train_files() {
        append(&mut train, folder, &name)?;
    }
    let mut test = empty_split();
    append(&mut test, folder, TEST_FILE)?;
    Ok(Dataset {
        name: name_of(folder),
        train: train.into(),
        test: test.into(),
        classes: CLASSES.map(str::to_string).to_vec(),
    })
}

struct Records {
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

fn empty_split() -> Records {
    Records { pixels: Vec::new(), labels: Vec::new() }
}

impl From<Records> for Split {
    fn from(records: Records) -> Self {
        Split {
            shape: SHAPE,
            images: Images::U8(records.pixels),
            labels: records.labels,
            targets: None,
            named: Vec::new(),
        }
    }
}

fn append(records: &mut Records, folder: &Path, name: &str) -> Result<(), DataError> {
    let path = folder.join(name);
    let file = File::open(&path).map_err(DataError::read(&path))?;
    let place = path.display().to_string();
    append_records(records, &read_to_limit(file, DECODED_BYTES_LIMIT, &place)?, &place)
}

fn append_records(records: &mut Records, bytes: &[u8], place: &str) -> Result<(), DataError> {
    let (whole, rest) = bytes.as_chunks::<RECORD>();
    if !rest.is_empty() || whole.is_empty() {
        return Err(DataError::at(
            place,
            format!(
                "has {} bytes, which is no positive multiple of the record size {RECORD} (truncated?)",
                bytes.len()
            ),
        ));
    }
    for (index, record) in whole.iter().enumerate() {
        let label = record[0];
        if usize::from(label) >= CLASSES.len() {
            return Err(DataError::at(
                place,
                format!("has the label {label} in record {index}; labels are 0 to 9"),
            ));
        }
        records.labels.push(u32::from(label));
        records.pixels.extend_from_slice(&record[1..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TemporaryFolder;
    use std::fs;

    fn record(label: u8, pixel: u8) -> Vec<u8> {
        let mut bytes = vec![pixel; RECORD];
        bytes[0] = label;
        bytes
    }

    /// One record in each training batch but two in the first, one in the test batch.
    fn folder() -> TemporaryFolder {
        let folder = TemporaryFolder::new();
        folder.write("data_batch_1.bin", &[record(9, 10), record(0, 11)].concat());
        for number in 2..=5u8 {
            folder.write(&format!("data_batch_{number}.bin"), &record(number, 10 + number));
        }
        let mut test = record(3, 0);
        // The first green and the last blue pixel.
        test[1 + 1024] = 77;
        test[3072] = 88;
        folder.write(TEST_FILE, &test);
        folder
    }

    #[test]
    fn batches_follow_one_another() {
        let dataset = Dataset::open(folder().path()).unwrap();
        assert_eq!(dataset.train.shape, [3, 32, 32]);
        assert_eq!(dataset.train.labels, [9, 0, 2, 3, 4, 5]);
        let Images::U8(train) = &dataset.train.images else { panic!("not bytes") };
        let firsts: Vec<u8> = train.iter().step_by(3072).copied().collect();
        assert_eq!(firsts, [10, 11, 12, 13, 14, 15]);
        let Images::U8(test) = &dataset.test.images else { panic!("not bytes") };
        assert_eq!((test.len(), test[1024], test[3071]), (3072, 77, 88));
        assert_eq!(dataset.classes[9], "truck");
    }

    #[test]
    fn each_defect_is_named_with_its_file() {
        let with = |name: &str, bytes: &[u8]| {
            let folder = folder();
            folder.write(name, bytes);
            Dataset::open(folder.path()).unwrap_err().to_string()
        };
        let error = with("data_batch_3.bin", &record(1, 1)[..3000]);
        assert!(error.contains("data_batch_3.bin: has 3000 bytes"), "{error}");
        assert!(with(TEST_FILE, &[]).contains("has 0 bytes"));
        let error = with(TEST_FILE, &[record(1, 1), record(10, 1)].concat());
        assert!(error.contains("label 10 in record 1"), "{error}");
        let folder = folder();
        fs::remove_file(folder.path().join("data_batch_4.bin")).unwrap();
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("data_batch_4.bin: cannot read"), "{error}");
    }
}
