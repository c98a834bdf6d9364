//! Texts for language models: at each byte, which comes next.

use std::fs::File;
use std::path::Path;

use crate::DECODED_BYTES_LIMIT;
use crate::bounded::read_to_limit;
use crate::dataset::{Dataset, Images, Split, TargetValues, Targets, name_of};
use crate::error::DataError;

/// Bytes of a sample.
pub const TEXT_WINDOW: usize = 32;
/// The last of so many parts is for testing.
const PARTS: usize = 10;

/// Whether a file is a text by its name, which is all that says so.
pub(crate) fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt"))
}

/// Windows of [`TEXT_WINDOW`] bytes, one behind the other; the targets of each are the same bytes one later. The last tenth of the text is
/// the test split.
pub(crate) fn open(path: &Path) -> Result<Dataset, DataError> {
    let place = path.display().to_string();
    let file = File::open(path).map_err(DataError::read(path))?;
    let text = read_to_limit(file, DECODED_BYTES_LIMIT, &place)?;
    split(&text, name_of(path)).map_err(|reason| DataError::at(&place, reason))
}

fn split(text: &[u8], name: String) -> Result<Dataset, String> {
    let least = PARTS * (TEXT_WINDOW + 1);
    if text.len() < least {
        return Err(format!("has {} bytes; a text has {least} or more", text.len()));
    }
    let (train, test) = text.split_at(text.len() - text.len() / PARTS);
    let [train, test] = [train, test].map(windows);
    // Any byte may come.
    let classes = (0..=u8::MAX).map(|byte| byte.to_string()).collect();
    Ok(Dataset { name, train, test, classes })
}

fn windows(text: &[u8]) -> Split {
    let count = (text.len() - 1) / TEXT_WINDOW;
    let bytes = |from: usize| -> Vec<i32> {
        text[from..from + count * TEXT_WINDOW].iter().map(|&byte| i32::from(byte)).collect()
    };
    let targets = Targets { shape: vec![TEXT_WINDOW], values: TargetValues::I32(bytes(1)) };
    Split {
        shape: [1, 1, TEXT_WINDOW],
        images: Images::I32(bytes(0)),
        labels: vec![0; count],
        targets: Some(targets),
        named: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TemporaryFolder;

    /// 700 bytes: 630 of 19 whole windows and what follows the last, 70 of 2.
    #[test]
    fn windows_and_what_follows() {
        let text: Vec<u8> = (0..700u32).map(|i| (i * i % 251) as u8).collect();
        let folder = TemporaryFolder::new();
        let path = folder.path().join("book.TXT");
        std::fs::write(&path, &text).unwrap();
        let found = Dataset::open(&path).unwrap();
        assert_eq!((found.train.len(), found.test.len()), (19, 2));
        assert_eq!((found.train.shape, found.classes.len()), ([1, 1, 32], 256));
        for (split, begin) in [(&found.train, 0), (&found.test, 630)] {
            let targets = split.targets.as_ref().unwrap();
            let TargetValues::I32(next) = &targets.values else { panic!("integers") };
            assert_eq!((&targets.shape[..], next.len()), (&[32][..], split.len() * 32));
            for sample in 0..split.len() {
                let bytes = split.integers(&[sample]).unwrap();
                for (i, byte) in bytes.iter().enumerate() {
                    let at = begin + sample * 32 + i;
                    assert_eq!(*byte, i32::from(text[at]));
                    assert_eq!(next[sample * 32 + i], i32::from(text[at + 1]));
                }
            }
        }
    }

    #[test]
    fn short_texts_are_refused() {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("note.txt");
        std::fs::write(&path, "hello").unwrap();
        let error = Dataset::open(&path).unwrap_err().to_string();
        assert!(error.contains("has 5 bytes; a text has 330 or more"), "{error}");
    }
}
