//! Data sets in NumPy archives: `x_train`, `y_train`, `x_test`, `y_test`.

use std::io::{Read, Seek};
use std::path::Path;

use crate::dataset::{Dataset, Images, Split, TargetValues, Targets, name_of, numbered_classes};
use crate::error::DataError;
use crate::npy::{NpyArray, NpyData};
use crate::npz::NpzReader;

pub(crate) fn open(path: &Path) -> Result<Dataset, DataError> {
    read(NpzReader::open(path)?, name_of(path), &path.display().to_string())
}

fn read<R: Read + Seek>(
    mut reader: NpzReader<R>,
    name: String,
    place: &str,
) -> Result<Dataset, DataError> {
    let train = read_split(&mut reader, "train", place)?;
    let test = read_split(&mut reader, "test", place)?;
    if std::mem::discriminant(&train.images) != std::mem::discriminant(&test.images) {
        return Err(DataError::at(place, "has elements of another type in x_test than in x_train"));
    }
    let kind = |split: &Split| {
        let of = |t: &Targets| (t.shape.clone(), std::mem::discriminant(&t.values));
        let named: Vec<_> = split.named.iter().map(|(name, t)| (name.clone(), of(t))).collect();
        (split.targets.as_ref().map(of), named)
    };
    if kind(&train) != kind(&test) {
        return Err(DataError::at(
            place,
            "y_train and y_test differ in type or shape of a sample's",
        ));
    }
    let classes = numbered_classes(&train.labels, &format!("{place}: y_train"))?;
    Ok(Dataset { name, train, test, classes })
}

fn read_split<R: Read + Seek>(
    reader: &mut NpzReader<R>,
    part: &str,
    place: &str,
) -> Result<Split, DataError> {
    let (x_name, y_name) = (format!("x_{part}"), format!("y_{part}"));
    let x = reader.read(&x_name)?;
    let x_place = format!("{place}: {x_name}");
    let (count, shape) = image_shape(&x.shape).map_err(|reason| DataError::at(&x_place, reason))?;
    let images = images_of(x.data).map_err(|reason| DataError::at(&x_place, reason))?;
    let of_images = |name: &str, found: usize| match found == count {
        true => Ok(()),
        false => Err(DataError::at(
            format!("{place}: {name}"),
            format!("has {found} labels, but {x_name} has {count} images"),
        )),
    };
    let head = format!("{y_name}.");
    let results = reader.names().iter().filter_map(|name| name.strip_prefix(&head));
    let mut results: Vec<String> = results.map(ToString::to_string).collect();
    results.sort();
    let mut named = Vec::new();
    for result in results {
        let name = format!("{head}{result}");
        let y = reader.read(&name)?;
        let at = |reason: String| DataError::at(format!("{place}: {name}"), reason);
        let targets = match targets_of(&y).map_err(at)? {
            Some(targets) => targets,
            None => Targets {
                shape: Vec::new(),
                values: TargetValues::I32(y.data.to_integers().map_err(at)?),
            },
        };
        of_images(&name, y.shape[0])?;
        named.push((result, targets));
    }
    if let Some((result, _)) = named.first() {
        if reader.names().contains(&y_name) {
            return Err(DataError::at(
                place,
                format!(
                    "has {y_name} and {head}{result}; it is one for all results, or one for each"
                ),
            ));
        }
        return Ok(Split { shape, images, labels: vec![0; count], targets: None, named });
    }
    let y = reader.read(&y_name)?;
    let at = |reason| DataError::at(format!("{place}: {y_name}"), reason);
    let targets = targets_of(&y).map_err(at)?;
    let labels = match &targets {
        Some(_) => vec![0; y.shape[0]],
        None => labels_of(&y).map_err(at)?,
    };
    of_images(&y_name, labels.len())?;
    Ok(Split { shape, images, labels, targets, named: Vec::new() })
}

/// Floats, and integers of more than one a sample; nothing where there is one integer a sample, a class.
fn targets_of(array: &NpyArray) -> Result<Option<Targets>, String> {
    let values = match (&array.data, &array.shape[..]) {
        (_, []) => return Err("is a scalar".to_string()),
        (NpyData::F32(_) | NpyData::F64(_), _) => {
            let values = array.data.to_f32();
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(format!("has the value {} at element {index}", values[index]));
            }
            TargetValues::F32(values)
        }
        (_, [_] | [_, 1]) => return Ok(None),
        _ => TargetValues::I32(array.data.to_integers()?),
    };
    Ok(Some(Targets { shape: array.shape[1..].to_vec(), values }))
}

/// Splits an array's shape into the number of images and their channels, height, width.
fn image_shape(shape: &[usize]) -> Result<(usize, [usize; 3]), String> {
    match *shape {
        [count, features] => Ok((count, [1, 1, features])),
        [count, height, width] => Ok((count, [1, height, width])),
        [count, channels, height, width] => Ok((count, [channels, height, width])),
        _ => Err(format!(
            "has the shape {shape:?}; supported are (N, C, H, W), (N, H, W) and (N, features)"
        )),
    }
}

fn images_of(data: NpyData) -> Result<Images, String> {
    let values = match data {
        NpyData::U8(pixels) => return Ok(Images::U8(pixels)),
        NpyData::F32(values) => values,
        NpyData::F64(_) => data.to_f32(),
        integers => return Ok(Images::I32(integers.to_integers()?)),
    };
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(format!("has the value {} at element {index}", values[index])),
        None => Ok(Images::F32(values)),
    }
}

/// Labels of shape (N) or (N, 1).
fn labels_of(array: &NpyArray) -> Result<Vec<u32>, String> {
    match array.shape[..] {
        [_] | [_, 1] => array.data.to_integers(),
        _ => Err(format!("has the shape {:?}; labels are (N) or (N, 1)", array.shape)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npz::npz_bytes;
    use crate::test_support::TemporaryFolder;
    use std::io::Cursor;

    fn arrays() -> Vec<(&'static str, NpyArray)> {
        let bytes = |shape: &[usize], values: Vec<u8>| NpyArray {
            shape: shape.to_vec(),
            data: NpyData::U8(values),
        };
        vec![
            ("x_train", bytes(&[2, 1, 2], vec![1, 2, 3, 4])),
            ("y_train", NpyArray { shape: vec![2, 1], data: NpyData::I64(vec![1, 0]) }),
            ("x_test", bytes(&[1, 1, 2], vec![5, 6])),
            ("y_test", bytes(&[1], vec![1])),
        ]
    }

    fn with(name: &str, array: NpyArray) -> Result<Dataset, DataError> {
        let mut arrays = arrays();
        arrays.iter_mut().find(|(known, _)| *known == name).unwrap().1 = array;
        let bytes = npz_bytes(&arrays).unwrap();
        read(NpzReader::new(Cursor::new(bytes), "a.npz", 1 << 20)?, "a".into(), "a.npz")
    }

    #[test]
    fn opens_by_content_with_any_name() {
        let folder = TemporaryFolder::new();
        let path = folder.write("set.data", &npz_bytes(&arrays()).unwrap());
        let dataset = Dataset::open(&path).unwrap();
        assert_eq!(dataset.name, "set.data");
        assert_eq!(dataset.train.shape, [1, 1, 2]);
        assert_eq!(dataset.train.images, Images::U8(vec![1, 2, 3, 4]));
        assert_eq!(dataset.train.labels, [1, 0]);
        assert_eq!(dataset.test.labels, [1]);
        assert_eq!(dataset.classes, ["0", "1"]);
    }

    #[test]
    fn shapes_and_floats() {
        assert_eq!(image_shape(&[7, 3, 4, 5]), Ok((7, [3, 4, 5])));
        assert_eq!(image_shape(&[7, 5]), Ok((7, [1, 1, 5])));
        assert!(image_shape(&[7]).is_err());
        assert_eq!(images_of(NpyData::F64(vec![0.5, -3.0])), Ok(Images::F32(vec![0.5, -3.0])));
    }

    #[test]
    fn each_defect_is_named_with_its_array() {
        let error = |name, array| with(name, array).unwrap_err().to_string();
        let floats = |shape: &[usize], values| NpyArray::f32(shape, values);
        let text = error("x_train", floats(&[2, 1], vec![1.0, f32::NAN]));
        assert_eq!(text, "a.npz: x_train: has the value NaN at element 1");
        let text = error("x_train", floats(&[2, 2], vec![0.0; 4]));
        assert!(text.contains("another type in x_test than in x_train"), "{text}");
        let far = NpyArray { shape: vec![2, 1], data: NpyData::I64(vec![0, 1 << 40]) };
        let text = error("x_train", far);
        assert!(text.contains("x_train: element 1 is 1099511627776"), "{text}");
        let text = error("y_train", floats(&[2], vec![0.0; 2]));
        assert!(text.contains("y_train and y_test differ"), "{text}");
        let text = error("y_train", floats(&[2], vec![0.0, f32::INFINITY]));
        assert!(text.contains("y_train: has the value inf at element 1"), "{text}");
        let text = error("y_train", NpyArray::i32(&[2], vec![0, -1]));
        assert!(text.contains("element 1 is -1"), "{text}");
        let text = error("y_train", NpyArray::i32(&[2], vec![0, i32::MAX]));
        assert!(text.contains("a.npz: y_train: has the label 2147483647"), "{text}");
        let text = error("y_train", NpyArray::i32(&[3], vec![0; 3]));
        assert!(text.contains("3 labels, but x_train has 2 images"), "{text}");
        let text = error("y_train", NpyArray::i32(&[1, 2], vec![0; 2]));
        assert!(text.contains("1 labels, but x_train has 2 images"), "{text}");
    }

    #[test]
    fn numbers_of_words() {
        let mut all = arrays();
        all[0].1 = NpyArray { shape: vec![2, 3], data: NpyData::I64(vec![5, 0, 7, -1, 2, 30000]) };
        all[2].1 = NpyArray { shape: vec![1, 3], data: NpyData::I64(vec![1, 2, 3]) };
        let bytes = npz_bytes(&all).unwrap();
        let reader = NpzReader::new(Cursor::new(bytes), "a.npz", 1 << 20).unwrap();
        let data = read(reader, "a".into(), "a.npz").unwrap();
        assert_eq!(data.train.integers(&[1, 0]), Some(vec![-1, 2, 30000, 5, 0, 7]));
        let split = |images| Split { images, ..data.train.clone() };
        assert_eq!(split(Images::U8(vec![9; 6])).integers(&[1]), Some(vec![9; 3]));
        assert_eq!(split(Images::F32(vec![9.0; 6])).integers(&[1]), None);
    }

    /// Targets of named results stand alone.
    #[test]
    fn targets_of_results() {
        let mut all = arrays();
        all.push(("y_train.size", NpyArray::f32(&[2, 1], vec![0.5, 1.5])));
        all.push(("y_test.size", NpyArray::f32(&[1, 1], vec![2.5])));
        let opened = |all: &[(&str, NpyArray)]| {
            let bytes = npz_bytes(all).unwrap();
            let reader = NpzReader::new(Cursor::new(bytes), "a.npz", 1 << 20).unwrap();
            read(reader, "a".into(), "a.npz")
        };
        let size = Targets { shape: vec![1], values: TargetValues::F32(vec![0.5, 1.5]) };
        let named = vec![("size".to_string(), size)];
        let text = opened(&all).unwrap_err().to_string();
        assert!(text.contains("has y_train and y_train.size"), "{text}");
        all[4].1 = NpyArray::f32(&[3, 1], vec![0.0; 3]);
        let text = opened(&all).unwrap_err().to_string();
        assert_eq!(text, "a.npz: y_train.size: has 3 labels, but x_train has 2 images");
        all[4].1 = NpyArray::f32(&[2, 1], vec![0.5, 1.5]);
        all.retain(|(name, _)| *name != "y_train" && *name != "y_test");
        let data = opened(&all).unwrap();
        assert_eq!((data.train.labels, data.train.named), (vec![0, 0], named));
    }

    #[test]
    fn targets_that_are_no_classes() {
        let mut all = arrays();
        all[1].1 = NpyArray::f32(&[2, 1, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        all[3].1 = NpyArray::f32(&[1, 1, 3], vec![6.0; 3]);
        let bytes = npz_bytes(&all).unwrap();
        let reader = NpzReader::new(Cursor::new(bytes), "a.npz", 1 << 20).unwrap();
        let data = read(reader, "a".into(), "a.npz").unwrap();
        assert_eq!((data.train.labels.as_slice(), data.classes.len()), (&[0, 0][..], 1));
        let values = TargetValues::F32(vec![6.0; 3]);
        assert_eq!(data.test.targets, Some(Targets { shape: vec![1, 3], values }));
        all[1].1 = NpyArray::i32(&[2, 2], vec![0, 1, -1, 3]);
        all[3].1 = NpyArray::i32(&[1, 2], vec![2, 2]);
        let bytes = npz_bytes(&all).unwrap();
        let reader = NpzReader::new(Cursor::new(bytes), "a.npz", 1 << 20).unwrap();
        let data = read(reader, "a".into(), "a.npz").unwrap();
        let values = TargetValues::I32(vec![0, 1, -1, 3]);
        assert_eq!(data.train.targets, Some(Targets { shape: vec![2], values }));
    }
}
