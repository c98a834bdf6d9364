//! Named tensors in safetensors files, the exchange format of trained weights.

use std::borrow::Cow;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, View};

use crate::atomic::write_atomically;
use crate::bounded::{DECODED_BYTES_LIMIT, read_to_limit};
use crate::error::DataError;

/// A tensor with its name. `data.len()` is the product of `shape`, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// The name, unique in a file.
    pub name: String,
    /// The dimensions, outermost first; none for a scalar.
    pub shape: Vec<usize>,
    /// The elements, row-major.
    pub data: TensorData,
}

/// The elements of a tensor by their type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is its element type")]
pub enum TensorData {
    F32(Vec<f32>),
    I8(Vec<i8>),
    I32(Vec<i32>),
}

impl TensorData {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            TensorData::F32(values) => values.len(),
            TensorData::I8(values) => values.len(),
            TensorData::I32(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl View for &NamedTensor {
    fn dtype(&self) -> Dtype {
        match &self.data {
            TensorData::F32(_) => Dtype::F32,
            TensorData::I8(_) => Dtype::I8,
            TensorData::I32(_) => Dtype::I32,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(match &self.data {
            TensorData::F32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            TensorData::I8(values) => values.iter().map(|&value| value as u8).collect(),
            TensorData::I32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        })
    }

    fn data_len(&self) -> usize {
        let size = match &self.data {
            TensorData::I8(_) => 1,
            TensorData::F32(_) | TensorData::I32(_) => 4,
        };
        self.data.len() * size
    }
}

/// The tensors as one safetensors file. The bytes depend on the tensors alone, not on their order: the format sorts them
/// by element type and name. Fails on two equal names or a shape that contradicts the number of elements.
pub fn safetensors_bytes(tensors: &[NamedTensor]) -> Result<Vec<u8>, DataError> {
    let invalid = |name: &str, reason: String| {
        Err(DataError::at(format!("safetensors to be written: {name}"), reason))
    };
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid(pair[0], "two tensors have this name".to_string());
    }
    for NamedTensor { name, shape, data } in tensors {
        // The format keeps this key for itself.
        if name == "__metadata__" {
            return invalid(name, "the name is reserved".to_string());
        }
        let count = shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
        if count != Some(data.len()) {
            return invalid(name, format!("has the shape {shape:?} but {} elements", data.len()));
        }
    }
    safetensors::serialize(tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)), None)
        .map_err(|error| DataError::at("safetensors to be written", error))
}

/// Writes [`safetensors_bytes`] to `path`, whole or not at all.
pub fn write_safetensors(path: &Path, tensors: &[NamedTensor]) -> Result<(), DataError> {
    write_atomically(path, &safetensors_bytes(tensors)?)
}

/// Reads every tensor of the file at `path`, sorted by name.
pub fn read_safetensors(path: &Path) -> Result<Vec<NamedTensor>, DataError> {
    let place = path.display().to_string();
    let file = std::fs::File::open(path).map_err(DataError::read(path))?;
    read_safetensors_bytes(&read_to_limit(file, DECODED_BYTES_LIMIT, &place)?, &place)
}

/// Reads every tensor of the file in `bytes`, sorted by name; `place` names it in errors. Element types other than F32,
/// I8 and I32 are an error.
pub fn read_safetensors_bytes(bytes: &[u8], place: &str) -> Result<Vec<NamedTensor>, DataError> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| DataError::at(place, format!("is no readable safetensors: {error}")))?;
    let mut names = file.names();
    names.sort_unstable();
    names
        .into_iter()
        .map(|name| {
            let at = |reason: String| DataError::at(format!("{place}: {name}"), reason);
            let view = file.tensor(name).map_err(|error| at(error.to_string()))?;
            let words = || view.data().as_chunks::<4>().0.iter().copied();
            let data = match view.dtype() {
                Dtype::F32 => TensorData::F32(words().map(f32::from_le_bytes).collect()),
                Dtype::I32 => TensorData::I32(words().map(i32::from_le_bytes).collect()),
                Dtype::I8 => TensorData::I8(view.data().iter().map(|&byte| byte as i8).collect()),
                other => {
                    return Err(at(format!(
                        "has elements of {other}; supported are F32, I8 and I32"
                    )));
                }
            };
            Ok(NamedTensor { name: name.to_string(), shape: view.shape().to_vec(), data })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{TemporaryFolder, every_damage};

    fn tensors() -> Vec<NamedTensor> {
        let tensor = |name: &str, shape: &[usize], data| NamedTensor {
            name: name.to_string(),
            shape: shape.to_vec(),
            data,
        };
        vec![
            tensor("bias", &[], TensorData::I32(vec![i32::MIN])),
            tensor("conv", &[2, 1], TensorData::I8(vec![-128, 127])),
            tensor("empty", &[0, 3], TensorData::F32(vec![])),
            tensor("fc", &[1, 2], TensorData::F32(vec![-0.0, f32::INFINITY])),
        ]
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let scalar =
            NamedTensor { name: "a".into(), shape: vec![2], data: TensorData::I8(vec![1, -1]) };
        // Written out by hand from the format's description: length, JSON padded to 8 bytes, data.
        let json = br#"{"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}   "#;
        let expected = [&56u64.to_le_bytes()[..], json, &[1, 0xff]].concat();
        assert_eq!(json.len(), 56);
        assert_eq!(safetensors_bytes(std::slice::from_ref(&scalar)).unwrap(), expected);
        assert_eq!(read_safetensors_bytes(&expected, "x").unwrap(), [scalar]);
    }

    #[test]
    fn files_read_back_and_do_not_depend_on_the_order() {
        let folder = TemporaryFolder::new();
        let path = folder.path().join("w.safetensors");
        write_safetensors(&path, &tensors()).unwrap();
        assert_eq!(read_safetensors(&path).unwrap(), tensors());
        let mut reversed = tensors();
        reversed.reverse();
        assert_eq!(safetensors_bytes(&reversed).unwrap(), std::fs::read(&path).unwrap());
    }

    #[test]
    fn what_cannot_be_written_or_read_is_named() {
        let [first, second, ..] = &tensors()[..] else { panic!("two tensors") };
        let same = NamedTensor { name: first.name.clone(), ..second.clone() };
        let error = safetensors_bytes(&[first.clone(), same]).unwrap_err().to_string();
        assert!(error.contains("bias: two tensors"), "{error}");
        let wrong = NamedTensor { shape: vec![3], ..second.clone() };
        let error = safetensors_bytes(&[wrong]).unwrap_err().to_string();
        assert!(error.contains("conv: has the shape [3] but 2 elements"), "{error}");
        let json = br#"{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}} "#;
        let file = [&56u64.to_le_bytes()[..], json, &[1, 2]].concat();
        assert_eq!(json.len(), 56);
        let error = read_safetensors_bytes(&file, "x").unwrap_err().to_string();
        assert!(error.contains("x: a: has elements of BF16"), "{error}");
        let error = read_safetensors_bytes(&[0xff; 16], "x").unwrap_err().to_string();
        assert!(error.starts_with("x: is no readable safetensors"), "{error}");
    }

    #[test]
    fn damaged_files_fail_or_read_but_never_panic() {
        let bytes = safetensors_bytes(&tensors()).unwrap();
        every_damage(&bytes, |damaged| {
            let result = read_safetensors_bytes(damaged, "x");
            assert!(damaged.len() == bytes.len() || result.is_err());
        });
    }
}
