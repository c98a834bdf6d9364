//! Image folders: `train/<class>/<image>` and `test/<class>/<image>`.

use std::fs::{self, File};
use std::path::Path;

use crate::bounded::{DECODED_BYTES_LIMIT, read_to_limit};
use crate::dataset::{Dataset, name_of};
use crate::decode::{ImageFile, Part};
use crate::error::DataError;
use crate::image_files::{dataset_of, is_image_name};

/// Whether a folder has one of the two folders of the layout.
pub(crate) fn is_image_folder(folder: &Path) -> bool {
    Part::ALL.iter().any(|part| folder.join(part.folder()).is_dir())
}

/// Opens the folder. Files that are not named like images are left out.
pub(crate) fn open(folder: &Path) -> Result<Dataset, DataError> {
    let mut files = Vec::new();
    let mut remaining = DECODED_BYTES_LIMIT;
    for part in Part::ALL {
        let part_folder = folder.join(part.folder());
        for class in names(&part_folder)? {
            let class_folder = part_folder.join(&class);
            if !class_folder.is_dir() {
                if is_image_name(&class) {
                    let reason = format!("is an image outside {}/<class>/", part.folder());
                    return Err(DataError::invalid(&class_folder, reason));
                }
                continue;
            }
            for name in names(&class_folder)? {
                let path = class_folder.join(&name);
                if path.is_dir() {
                    let reason = format!("is a folder inside a class of {}/", part.folder());
                    return Err(DataError::invalid(&path, reason));
                }
                if !is_image_name(&name) {
                    continue;
                }
                let place = path.display().to_string();
                let file = File::open(&path).map_err(DataError::read(&path))?;
                let bytes = read_to_limit(file, remaining, &place)?;
                remaining -= bytes.len() as u64;
                files.push(ImageFile { part, class: class.clone(), name, place, bytes });
            }
        }
    }
    dataset_of(files, name_of(folder), &folder.display().to_string(), DECODED_BYTES_LIMIT)
}

/// The names in a folder that are not hidden.
fn names(folder: &Path) -> Result<Vec<String>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::read(folder))? {
        let entry = entry.map_err(DataError::read(folder))?;
        let name = entry.file_name().into_string().map_err(|name| {
            DataError::invalid(&folder.join(name), "has a name that is not Unicode")
        })?;
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Images;
    use crate::image_files::tests_support::{grey_png, rgb_png};
    use crate::test_support::TemporaryFolder;

    /// Two classes of 2 x 1 grey images; the files are written in an order that is not the sorted one.
    fn folder() -> TemporaryFolder {
        let folder = TemporaryFolder::new();
        folder.write("train/dog/1.png", &grey_png(2, 1, &[30, 31]));
        folder.write("train/cat/b.PNG", &grey_png(2, 1, &[20, 21]));
        folder.write("train/cat/a.png", &grey_png(2, 1, &[10, 11]));
        folder.write("train/cat/notes.txt", b"left out");
        folder.write("train/cat/._a.png", b"left out");
        folder.write("test/dog/x.png", &grey_png(2, 1, &[40, 41]));
        folder
    }

    fn error_with(name: &str, bytes: &[u8]) -> String {
        let folder = folder();
        folder.write(name, bytes);
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        let relative = error.replace(folder.path().to_str().unwrap(), "");
        relative.trim_start_matches('/').to_string()
    }

    #[test]
    fn classes_and_files_are_sorted_by_name() {
        let dataset = Dataset::open(folder().path()).unwrap();
        assert_eq!(dataset.classes, ["cat", "dog"]);
        assert_eq!(dataset.train.shape, [1, 1, 2]);
        assert_eq!(dataset.train.images, Images::U8(vec![10, 11, 20, 21, 30, 31]));
        assert_eq!(dataset.train.labels, [0, 0, 1]);
        assert_eq!(dataset.test.images, Images::U8(vec![40, 41]));
        assert_eq!(dataset.test.labels, [1]);
    }

    #[test]
    fn one_coloured_image_makes_the_set_three_planes() {
        let folder = folder();
        folder.write("test/cat/colour.png", &rgb_png(2, 1, &[1, 2, 3, 4, 5, 6]));
        let dataset = Dataset::open(folder.path()).unwrap();
        assert_eq!(dataset.train.shape, [3, 1, 2]);
        let Images::U8(train) = &dataset.train.images else { panic!("not bytes") };
        assert_eq!(train[..6], [10, 11, 10, 11, 10, 11]);
        assert_eq!(dataset.test.images, Images::U8(vec![1, 4, 2, 5, 3, 6, 40, 41, 40, 41, 40, 41]));
    }

    #[test]
    fn each_defect_is_named_with_its_file() {
        let error = error_with("test/bird/1.png", &grey_png(2, 1, &[0, 0]));
        assert!(error.starts_with("test/bird/1.png: is of the class \"bird\""), "{error}");
        let error = error_with("train/dog/2.png", &grey_png(1, 2, &[0, 0]));
        assert!(error.starts_with("train/dog/2.png: is 1 x 2 pixels"), "{error}");
        assert!(error.contains("train/cat/a.png is 2 x 1"), "{error}");
        let error = error_with("train/dog/2.png", b"not an image");
        assert!(error.starts_with("train/dog/2.png: is no readable JPEG or PNG"), "{error}");
        let png = grey_png(2, 1, &[0, 0]);
        let error = error_with("train/dog/2.png", &png[..png.len() - 20]);
        assert!(error.starts_with("train/dog/2.png: "), "{error}");
        let error = error_with("train/2.png", &png);
        assert!(error.starts_with("train/2.png: is an image outside"), "{error}");
        let error = error_with("train/dog/deep/2.png", &png);
        assert!(error.starts_with("train/dog/deep: is a folder inside a class"), "{error}");
        let folder = TemporaryFolder::new();
        folder.write("train/dog/1.png", &png);
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("test: cannot read"), "{error}");
        folder.write("test/readme", b"");
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("has no images test/<class>"), "{error}");
    }
}
