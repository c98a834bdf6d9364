//! Labelled images in memory.

use std::fs;
use std::path::Path;

use crate::error::DataError;

/// More classes than any image set has; bounds what a hostile label can make this crate allocate.
pub(crate) const CLASS_LIMIT: usize = 1 << 16;

/// A training and a test split over the same classes. Both splits have at least one sample, one shape and one element
/// type, and every label is an index into `classes`; `Dataset::open` and [`Dataset::digits`] promise it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// A short name for reports: the file's or folder's name without its extension.
    pub name: String,
    /// The samples to train on.
    pub train: Split,
    /// The samples to evaluate on.
    pub test: Split,
    /// The class names; a label is an index into them.
    pub classes: Vec<String>,
}

/// Labelled images of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Channels, height, width of one image.
    pub shape: [usize; 3],
    /// All images one after another, each in channel, row, column order (NCHW).
    pub images: Images,
    /// One class index an image; zeros where there are targets.
    pub labels: Vec<u32>,
    /// What each image is trained for, if that is no class.
    pub targets: Option<Targets>,
    /// What each image is trained for by a model of several results, with the result's name.
    pub named: Vec<(String, Targets)>,
}

/// What samples are trained for other than a class each.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// Dimensions of one sample's.
    pub shape: Vec<usize>,
    /// All samples' one after another.
    pub values: TargetValues,
}

/// The elements of [`Targets`].
#[derive(Debug, Clone, PartialEq)]
pub enum TargetValues {
    /// Values to come near to, always finite.
    F32(Vec<f32>),
    /// Class indices, one a position.
    I32(Vec<i32>),
}

/// The elements of all images of a split.
#[derive(Debug, Clone, PartialEq)]
pub enum Images {
    /// Pixels, 0 to 255.
    U8(Vec<u8>),
    /// Values as the file gives them; always finite.
    F32(Vec<f32>),
    /// Numbers of words or categories, which are not normalized.
    I32(Vec<i32>),
}

impl Images {
    /// The number of elements of all images together.
    pub fn len(&self) -> usize {
        match self {
            Images::U8(values) => values.len(),
            Images::F32(values) => values.len(),
            Images::I32(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Split {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The elements of one image: channels x height x width.
    pub fn image_len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The samples at `indices` as integers, one after another; nothing where they are floats.
    ///
    /// # Panics
    /// If an index is not below [`Split::len`].
    pub fn integers(&self, indices: &[usize]) -> Option<Vec<i32>> {
        let length = self.image_len();
        let ranges = indices.iter().map(|i| i * length..(i + 1) * length);
        match &self.images {
            Images::U8(values) => {
                Some(ranges.flat_map(|range| &values[range]).map(|&v| i32::from(v)).collect())
            }
            Images::I32(values) => Some(ranges.flat_map(|range| &values[range]).copied().collect()),
            Images::F32(_) => None,
        }
    }
}

impl Dataset {
    /// What every kind promises, checked once: labels within the classes, samples in both splits, equal shapes.
    pub(crate) fn checked(self, path: &Path) -> Result<Self, DataError> {
        for (name, split) in [("train", &self.train), ("test", &self.test)] {
            let invalid =
                |reason| Err(DataError::invalid(path, format!("the {name} split {reason}")));
            if split.is_empty() || split.image_len() == 0 {
                return invalid("is empty".to_string());
            }
            if split.images.len() != split.len() * split.image_len() {
                return invalid(format!("has {} labels for other images", split.len()));
            }
            let beyond =
                split.labels.iter().position(|&label| label as usize >= self.classes.len());
            if let Some(index) = beyond {
                return invalid(format!(
                    "has the label {} at sample {index}, but the train split has the classes 0 to {}",
                    split.labels[index],
                    self.classes.len() - 1
                ));
            }
        }
        if self.train.shape != self.test.shape {
            return Err(DataError::invalid(
                path,
                format!(
                    "train images are {} but test images are {} (channels x height x width)",
                    shape_text(self.train.shape),
                    shape_text(self.test.shape)
                ),
            ));
        }
        Ok(self)
    }
}

/// The names in a folder, sorted; names that are not Unicode are spelled with replacement characters.
pub(crate) fn file_names(path: &Path) -> Result<Vec<String>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(DataError::read(path))? {
        let entry = entry.map_err(DataError::read(path))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// `mnist` for `data/mnist/`, `cifar10` for `cifar10.tar.xz`.
pub(crate) fn name_of(path: &Path) -> String {
    let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let name = canonical.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let lower = name.to_ascii_lowercase();
    let extension = [".tar.gz", ".tar.xz", ".tgz", ".txz", ".tar", ".npz", ".txt"]
        .into_iter()
        .find(|extension| lower.ends_with(extension) && lower.len() > extension.len());
    match extension {
        Some(extension) => name[..name.len() - extension.len()].to_string(),
        None => name,
    }
}

/// The class names `0`, `1`, ... up to the highest label, for kinds whose files name no classes.
pub(crate) fn numbered_classes(labels: &[u32], place: &str) -> Result<Vec<String>, DataError> {
    let highest = labels.iter().copied().max().unwrap_or(0) as usize;
    if highest >= CLASS_LIMIT {
        return Err(DataError::at(
            place,
            format!("has the label {highest}; labels are class indices below {CLASS_LIMIT}"),
        ));
    }
    Ok((0..=highest).map(|class| class.to_string()).collect())
}

/// `3 x 32 x 32`.
pub(crate) fn shape_text(shape: [usize; 3]) -> String {
    shape.map(|length| length.to_string()).join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_extension() {
        assert_eq!(name_of(Path::new("/no/such/cifar10.tar.xz")), "cifar10");
        assert_eq!(name_of(Path::new("/no/such/mnist/")), "mnist");
        assert_eq!(name_of(Path::new("/no/such/A.NPZ")), "A");
        assert_eq!(name_of(Path::new("/no/such/.tar")), ".tar");
    }

    #[test]
    fn the_promises_are_checked() {
        let split = |label, shape: [usize; 3]| Split {
            shape,
            images: Images::U8(vec![0; shape.iter().product()]),
            labels: vec![label],
            targets: None,
            named: Vec::new(),
        };
        let check = |train, test| {
            let classes = vec!["0".to_string(), "1".to_string()];
            Dataset { name: String::new(), train, test, classes }.checked(Path::new("here"))
        };
        assert!(check(split(0, [1, 2, 2]), split(1, [1, 2, 2])).is_ok());
        let error = check(split(0, [1, 2, 2]), split(2, [1, 2, 2])).unwrap_err().to_string();
        assert!(error.contains("test split has the label 2 at sample 0"), "{error}");
        let error = check(split(0, [1, 2, 2]), split(1, [3, 2, 2])).unwrap_err().to_string();
        assert!(error.contains("1 x 2 x 2") && error.contains("3 x 2 x 2"), "{error}");
        let images = Images::U8(vec![]);
        let empty =
            Split { shape: [1, 1, 1], images, labels: vec![], targets: None, named: Vec::new() };
        let error = check(empty, split(1, [1, 1, 1])).unwrap_err().to_string();
        assert!(error.contains("train split is empty"), "{error}");
    }
}
