//! Named tensors in safetensors files, the exchange format of trained weights.

use std::io::{self, Write};
use std::path::Path;

use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};

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

/// A tensor that is made while it is written, so that a file takes no memory.
#[allow(missing_debug_implementations, reason = "the elements are a function")]
pub struct StreamedTensor<'t> {
    /// The name, unique in a file.
    pub name: String,
    /// The dimensions, outermost first; none for a scalar.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: StreamedData<'t>,
}

/// Gives the elements from an index on.
pub type Elements<'t, T> = Box<dyn Fn(usize, &mut [T]) + 't>;

/// Elements made of those of a slice, one by one.
pub fn elements<'t, S: Copy, T>(values: &'t [S], make: impl Fn(S) -> T + 't) -> Elements<'t, T> {
    Box::new(move |start, out| {
        out.iter_mut().zip(&values[start..]).for_each(|(o, &value)| *o = make(value));
    })
}

/// The elements of a [`StreamedTensor`] by their type: as many as its shape says, row-major.
#[allow(missing_docs, missing_debug_implementations, reason = "each variant is its element type")]
pub enum StreamedData<'t> {
    F32(Elements<'t, f32>),
    I8(Elements<'t, i8>),
    I32(Elements<'t, i32>),
}

impl StreamedData<'_> {
    fn element(&self) -> Dtype {
        match self {
            StreamedData::F32(_) => Dtype::F32,
            StreamedData::I8(_) => Dtype::I8,
            StreamedData::I32(_) => Dtype::I32,
        }
    }

    fn write(&self, out: &mut dyn Write, count: usize) -> io::Result<()> {
        match self {
            StreamedData::F32(values) => pieces(out, count, values, f32::to_le_bytes),
            StreamedData::I8(values) => pieces(out, count, values, i8::to_le_bytes),
            StreamedData::I32(values) => pieces(out, count, values, i32::to_le_bytes),
        }
    }
}

/// Elements piece by piece.
fn pieces<const N: usize, T: Copy + Default>(
    out: &mut dyn Write,
    count: usize,
    values: &Elements<'_, T>,
    bytes_of: impl Fn(T) -> [u8; N],
) -> io::Result<()> {
    const PIECE: usize = 1 << 14;
    let (mut elements, mut bytes) = (vec![T::default(); PIECE], vec![0; PIECE * N]);
    for start in (0..count).step_by(PIECE) {
        let size = PIECE.min(count - start);
        values(start, &mut elements[..size]);
        let words = bytes.as_chunks_mut().0.iter_mut();
        words.zip(&elements).for_each(|(bytes, &element)| *bytes = bytes_of(element));
        out.write_all(&bytes[..size * N])?;
    }
    Ok(())
}

impl<'t> From<&'t NamedTensor> for StreamedTensor<'t> {
    fn from(tensor: &'t NamedTensor) -> StreamedTensor<'t> {
        let data = match &tensor.data {
            TensorData::F32(values) => StreamedData::F32(elements(values, |v| v)),
            TensorData::I8(values) => StreamedData::I8(elements(values, |v| v)),
            TensorData::I32(values) => StreamedData::I32(elements(values, |v| v)),
        };
        StreamedTensor { name: tensor.name.clone(), shape: tensor.shape.clone(), data }
    }
}

/// The tensors as one safetensors file. The bytes depend on the tensors alone, not on their order: the format sorts them
/// by element type and name. Fails on two equal names or a shape that contradicts the number of elements.
pub fn safetensors_bytes(tensors: &[NamedTensor]) -> Result<Vec<u8>, DataError> {
    for NamedTensor { name, shape, data } in tensors {
        let count = shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length));
        if count != Some(data.len()) {
            let reason = format!("has the shape {shape:?} but {} elements", data.len());
            return Err(to_be_written(name, reason));
        }
    }
    let mut bytes = Vec::new();
    stream_safetensors(&mut bytes, tensors.iter().map(StreamedTensor::from).collect())?;
    Ok(bytes)
}

fn to_be_written(name: &str, reason: impl std::fmt::Display) -> DataError {
    DataError::at(format!("safetensors to be written: {name}"), reason)
}

/// Writes the bytes of [`safetensors_bytes`], each tensor while it is made. Fails on two equal names.
pub fn stream_safetensors(
    out: &mut dyn Write,
    mut tensors: Vec<StreamedTensor<'_>>,
) -> Result<(), DataError> {
    tensors
        .sort_by(|a, b| b.data.element().cmp(&a.data.element()).then_with(|| a.name.cmp(&b.name)));
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(to_be_written(pair[0], "two tensors have this name"));
    }
    // The format keeps this key for itself.
    if names.contains(&"__metadata__") {
        return Err(to_be_written("__metadata__", "the name is reserved"));
    }
    let (mut infos, mut offset) = (Vec::with_capacity(tensors.len()), 0);
    for tensor in &tensors {
        let dtype = tensor.data.element();
        let bytes = tensor.shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let data_offsets = (offset, offset + bytes);
        infos.push((
            tensor.name.clone(),
            TensorInfo { dtype, shape: tensor.shape.clone(), data_offsets },
        ));
        offset += bytes;
    }
    let fail = |error: &dyn std::fmt::Display| DataError::at("safetensors to be written", error);
    let metadata = Metadata::new(None, infos).map_err(|e| fail(&e))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|e| fail(&e))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut write = || {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        tensors.iter().try_for_each(|t| t.data.write(out, t.shape.iter().product()))
    };
    write().map_err(|e| fail(&e))
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
