//! Tensors whose value is known while importing: initializers, constants and what is folded from them.

use std::ops::Deref;
use std::sync::Arc;

use trainc_ir::{Data, Element, ScaleData, Tensor, TensorType};

use crate::limits;
use crate::proto::{TensorProto, data_location, data_type};

/// A tensor known while importing.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Known {
    /// Dimensions; a zero is allowed (an empty list of axes).
    pub(crate) dims: Vec<usize>,
    /// ONNX's element type.
    pub(crate) dtype: i32,
    /// Elements, row-major.
    pub(crate) data: KnownData,
}

/// Elements of a [`Known`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum KnownData {
    /// FLOAT, and FLOAT16 and BFLOAT16 widened.
    Float(Floats),
    /// DOUBLE.
    Double(Vec<f64>),
    /// Integers and booleans.
    Ints(Vec<i64>),
    /// An element type of which nothing is read.
    Opaque,
}

/// FP32 elements, which the tensors made of them share.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Floats(Arc<Tensor>);

impl Floats {
    /// Elements that will mostly be needed under these dimensions.
    fn of(dims: &[usize], values: Vec<f32>) -> Floats {
        match dims.iter().product::<usize>() == values.len() {
            true => Floats(Arc::new(Tensor::f32(dims.to_vec(), values))),
            false => values.into(),
        }
    }

    fn tensor(self, dims: Vec<usize>) -> Arc<Tensor> {
        match **self.0.shape() == *dims {
            true => self.0,
            false => Arc::new(Tensor::f32(dims, self.to_vec())),
        }
    }
}

impl From<Vec<f32>> for Floats {
    fn from(values: Vec<f32>) -> Floats {
        Floats(Arc::new(Tensor::f32([values.len()], values)))
    }
}

impl FromIterator<f32> for Floats {
    fn from_iter<I: IntoIterator<Item = f32>>(values: I) -> Floats {
        Vec::from_iter(values).into()
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.0.as_f32()
    }
}

/// Bits of one element in `raw_data`; `None` for types of which nothing is read.
fn element_bits(dtype: i32) -> Option<usize> {
    use data_type::*;
    Some(match dtype {
        UINT2 | INT2 => 2,
        UINT4 | INT4 => 4,
        UINT8 | INT8 | BOOL => 8,
        UINT16 | INT16 | FLOAT16 | BFLOAT16 => 16,
        FLOAT | INT32 | UINT32 => 32,
        DOUBLE | INT64 | UINT64 => 64,
        _ => return None,
    })
}

/// The first `count` elements that share bytes, each byte from its low bits; what is left of the last is ignored.
fn unpacked(dtype: i32, bytes: impl Iterator<Item = u8>, count: usize) -> Vec<i64> {
    use data_type::*;
    let bits = if matches!(dtype, UINT2 | INT2) { 2 } else { 4 };
    let signed = matches!(dtype, INT2 | INT4);
    let element = |byte: u8, place: u32| {
        let high = byte << (8 - bits - place);
        let value = if signed { i64::from(high as i8) } else { i64::from(high) };
        value >> (8 - bits)
    };
    bytes
        .flat_map(|byte| (0..8).step_by(bits as usize).map(move |place| element(byte, place)))
        .take(count)
        .collect()
}

/// Whether the type is one of the floats that are read.
pub(crate) fn is_float(dtype: i32) -> bool {
    use data_type::*;
    matches!(dtype, FLOAT | DOUBLE | FLOAT16 | BFLOAT16)
}

/// Smallest and largest value of an integer type (of those that fit 64 signed bits), or of BOOL.
pub(crate) fn integer_range(dtype: i32) -> Option<(i64, i64)> {
    use data_type::*;
    Some(match dtype {
        BOOL => (0, 1),
        UINT2 => (0, 3),
        INT2 => (-2, 1),
        UINT4 => (0, 0xf),
        INT4 => (-8, 7),
        UINT8 => (0, 0xff),
        INT8 => (-0x80, 0x7f),
        UINT16 => (0, 0xffff),
        INT16 => (-0x8000, 0x7fff),
        INT32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        UINT32 => (0, i64::from(u32::MAX)),
        INT64 => (i64::MIN, i64::MAX),
        UINT64 => (0, i64::MAX),
        _ => return None,
    })
}

/// The value of an IEEE binary16.
fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0f32 } else { -1.0 };
    let mantissa = f32::from(bits & 0x3ff);
    match (bits >> 10) & 0x1f {
        0 => sign * mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        e => sign * (1.0 + mantissa / 1024.0) * 2f32.powi(i32::from(e) - 15),
    }
}

fn chunks<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
}

fn from_bytes(dtype: i32, bytes: &[u8], dims: &[usize]) -> KnownData {
    use data_type::*;
    let floats = |v: Vec<f32>| KnownData::Float(Floats::of(dims, v));
    let ints = |v: Vec<i64>| KnownData::Ints(v);
    match dtype {
        FLOAT => floats(chunks(bytes, f32::from_le_bytes)),
        FLOAT16 => floats(chunks(bytes, |b: [u8; 2]| half(u16::from_le_bytes(b)))),
        BFLOAT16 => {
            floats(chunks(bytes, |[low, high]: [u8; 2]| f32::from_le_bytes([0, 0, low, high])))
        }
        DOUBLE => KnownData::Double(chunks(bytes, f64::from_le_bytes)),
        UINT2 | INT2 | UINT4 | INT4 => {
            ints(unpacked(dtype, bytes.iter().copied(), dims.iter().product()))
        }
        BOOL => ints(bytes.iter().map(|&b| i64::from(b != 0)).collect()),
        UINT8 => ints(bytes.iter().map(|&b| i64::from(b)).collect()),
        INT8 => ints(bytes.iter().map(|&b| i64::from(b as i8)).collect()),
        UINT16 => ints(chunks(bytes, |b: [u8; 2]| i64::from(u16::from_le_bytes(b)))),
        INT16 => ints(chunks(bytes, |b: [u8; 2]| i64::from(i16::from_le_bytes(b)))),
        INT32 => ints(chunks(bytes, |b: [u8; 4]| i64::from(i32::from_le_bytes(b)))),
        UINT32 => ints(chunks(bytes, |b: [u8; 4]| i64::from(u32::from_le_bytes(b)))),
        INT64 | UINT64 => ints(chunks(bytes, i64::from_le_bytes)),
        _ => KnownData::Opaque,
    }
}

/// Where a tensor's bytes are in another file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalLocation {
    /// The file, relative to the model's folder, as the model gives it.
    pub location: String,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, as the tensor's type demands.
    pub length: u64,
}

/// Gives the bytes of an [`ExternalLocation`], or says why not.
pub type ExternalReader<'a> = dyn Fn(&ExternalLocation) -> Result<Vec<u8>, String> + 'a;

pub(crate) fn external_location(
    tensor: &TensorProto,
    expected: u64,
) -> Result<ExternalLocation, String> {
    let entry =
        |key: &str| tensor.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
    let number = |key: &str| {
        entry(key)
            .map(|text| text.parse::<u64>().map_err(|_| format!("external data: {key} `{text}`")))
            .transpose()
    };
    let location = entry("location").ok_or("external data without a location")?.to_string();
    let offset = number("offset")?.unwrap_or(0);
    if let Some(length) = number("length")?
        && length != expected
    {
        return Err(format!("external data of {length} bytes where {expected} are needed"));
    }
    Ok(ExternalLocation { location, offset, length: expected })
}

/// Bytes of a tensor's elements.
///
/// # Errors
/// In words, if the shape or the type is none.
pub(crate) fn tensor_bytes(tensor: &TensorProto) -> Result<u64, String> {
    let (_, count) = limits::dimensions(&tensor.dims)?;
    let width = element_bits(tensor.data_type).ok_or("an element type that is not read")?;
    Ok((count as u64 * width as u64).div_ceil(8))
}

impl Known {
    /// Reads a tensor message, taking its bytes.
    ///
    /// # Errors
    /// In words, if the data do not fit the claimed type and shape, or cannot be read.
    pub(crate) fn read(
        tensor: &mut TensorProto,
        external: &ExternalReader<'_>,
    ) -> Result<Known, String> {
        let (dims, count) = limits::dimensions(&tensor.dims)?;
        let dtype = tensor.data_type;
        let Some(width) = element_bits(dtype) else {
            return Ok(Known { dims, dtype, data: KnownData::Opaque });
        };
        let bytes = (count as u64 * width as u64).div_ceil(8);
        let data = if tensor.data_location == Some(data_location::EXTERNAL) {
            let raw = external(&external_location(tensor, bytes)?)?;
            if raw.len() as u64 != bytes {
                return Err(format!("{} bytes of external data, not {bytes}", raw.len()));
            }
            from_bytes(dtype, &raw, &dims)
        } else if let Some(raw) = tensor.raw_data.take() {
            if raw.len() as u64 != bytes {
                let name = data_type::name(dtype);
                return Err(format!(
                    "{} bytes of data, but {name}{dims:?} takes {bytes}",
                    raw.len()
                ));
            }
            from_bytes(dtype, &raw, &dims)
        } else {
            Known::typed_fields(tensor, dtype, &dims, count)?
        };
        let known = Known { dims, dtype, data };
        let found = known.len();
        if found != count {
            let name = data_type::name(dtype);
            return Err(format!(
                "{found} elements of data, but {name}{:?} has {count}",
                known.dims
            ));
        }
        if dtype == data_type::UINT64
            && known.ints().is_some_and(|values| values.iter().any(|&v| v < 0))
        {
            return Err("UINT64 values beyond 2^63 are not supported".to_string());
        }
        Ok(known)
    }

    fn typed_fields(
        tensor: &mut TensorProto,
        dtype: i32,
        dims: &[usize],
        count: usize,
    ) -> Result<KnownData, String> {
        use data_type::*;
        let floats = |v: Vec<f32>| KnownData::Float(Floats::of(dims, v));
        let narrow = |values: &[i32]| -> Result<Vec<u16>, String> {
            values
                .iter()
                .map(|&v| u16::try_from(v).map_err(|_| format!("{v} is not a 16-bit pattern")))
                .collect()
        };
        Ok(match dtype {
            FLOAT => floats(std::mem::take(&mut tensor.float_data)),
            DOUBLE => KnownData::Double(std::mem::take(&mut tensor.double_data)),
            FLOAT16 => floats(narrow(&tensor.int32_data)?.into_iter().map(half).collect()),
            BFLOAT16 => floats(
                narrow(&tensor.int32_data)?
                    .into_iter()
                    .map(|b| f32::from_bits(u32::from(b) << 16))
                    .collect(),
            ),
            INT64 => KnownData::Ints(std::mem::take(&mut tensor.int64_data)),
            UINT2 | INT2 | UINT4 | INT4 => {
                // Bytes as in `raw_data`, one in each number (which some writers sign-extend).
                let bytes: Vec<u8> = tensor
                    .int32_data
                    .iter()
                    .map(|&v| match (-0x80..=0xff).contains(&v) {
                        true => Ok(v as u8),
                        false => Err(format!("{v} is not an 8-bit pattern")),
                    })
                    .collect::<Result<_, _>>()?;
                let needed = count.div_ceil(if matches!(dtype, UINT2 | INT2) { 4 } else { 2 });
                if bytes.len() != needed {
                    let name = data_type::name(dtype);
                    return Err(format!(
                        "{} bytes of data, but {count} of {name} take {needed}",
                        bytes.len()
                    ));
                }
                KnownData::Ints(unpacked(dtype, bytes.into_iter(), count))
            }
            UINT32 | UINT64 => {
                let values = tensor.uint64_data.iter().map(|&v| v as i64).collect();
                KnownData::Ints(Known::in_range(values, dtype)?)
            }
            _ => {
                let values = tensor.int32_data.iter().map(|&v| i64::from(v)).collect();
                KnownData::Ints(Known::in_range(values, dtype)?)
            }
        })
    }

    fn in_range(values: Vec<i64>, dtype: i32) -> Result<Vec<i64>, String> {
        let (low, high) = integer_range(dtype).unwrap_or((i64::MIN, i64::MAX));
        match values.iter().find(|&&v| v < low || v > high) {
            Some(v) => Err(format!("{v} is not a value of {}", data_type::name(dtype))),
            None => Ok(values),
        }
    }

    /// Integers of type INT64.
    pub(crate) fn i64(dims: Vec<usize>, values: Vec<i64>) -> Known {
        Known { dims, dtype: data_type::INT64, data: KnownData::Ints(values) }
    }

    /// Floats of type FLOAT.
    pub(crate) fn f32(dims: Vec<usize>, values: Vec<f32>) -> Known {
        let data = KnownData::Float(Floats::of(&dims, values));
        Known { dims, dtype: data_type::FLOAT, data }
    }

    /// Number of elements there are.
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            KnownData::Float(v) => v.len(),
            KnownData::Double(v) => v.len(),
            KnownData::Ints(v) => v.len(),
            KnownData::Opaque => 0,
        }
    }

    /// The integers, if they are.
    pub(crate) fn ints(&self) -> Option<&[i64]> {
        match &self.data {
            KnownData::Ints(v) => Some(v),
            _ => None,
        }
    }

    /// All elements as f32, rounded where they do not fit; `None` for types of which nothing is read.
    pub(crate) fn to_f32(&self) -> Option<Vec<f32>> {
        Some(match &self.data {
            KnownData::Float(v) => v.to_vec(),
            KnownData::Double(v) => v.iter().map(|&x| x as f32).collect(),
            KnownData::Ints(v) => v.iter().map(|&x| x as f32).collect(),
            KnownData::Opaque => return None,
        })
    }

    /// The only element as f32.
    pub(crate) fn scalar_f32(&self) -> Option<f32> {
        match self.len() {
            1 => self.to_f32().map(|v| v[0]),
            _ => None,
        }
    }

    /// The same elements under other dimensions of the same count.
    pub(crate) fn reshaped(&self, dims: Vec<usize>) -> Known {
        Known { dims, ..self.clone() }
    }

    /// Elements by their index, under new dimensions.
    pub(crate) fn pick(&self, dims: Vec<usize>, source: impl Iterator<Item = usize>) -> Known {
        let data = match &self.data {
            KnownData::Float(v) => {
                KnownData::Float(Floats::of(&dims, source.map(|i| v[i]).collect()))
            }
            KnownData::Double(v) => KnownData::Double(source.map(|i| v[i]).collect()),
            KnownData::Ints(v) => KnownData::Ints(source.map(|i| v[i]).collect()),
            KnownData::Opaque => KnownData::Opaque,
        };
        Known { dims, dtype: self.dtype, data }
    }

    /// As a tensor of trainc's language: floats as f32, integers by their width, INT64 and UINT64 as i32.
    ///
    /// # Errors
    /// In words, if a value or the type does not fit.
    pub(crate) fn to_tensor(&self) -> Result<Arc<Tensor>, String> {
        use data_type::*;
        if self.dims.contains(&0) {
            return Err(format!("an empty tensor of shape {:?}", self.dims));
        }
        let element = match self.dtype {
            INT2 => Element::I2,
            UINT2 => Element::U2,
            INT4 => Element::I4,
            UINT4 => Element::U4,
            INT8 => Element::I8,
            INT16 => Element::I16,
            INT32 | INT64 => Element::I32,
            BOOL => Element::B1,
            UINT8 => Element::U8,
            UINT16 => Element::U16,
            UINT32 | UINT64 => Element::U32,
            _ => Element::F32,
        };
        let ty = TensorType::new(self.dims.clone(), element);
        match &self.data {
            KnownData::Float(v) => Ok(v.clone().tensor(self.dims.clone())),
            KnownData::Double(v) => {
                let values = v.iter().map(|&x| x as f32).collect();
                Ok(Arc::new(Tensor::new(ty, Data::F32(values), ScaleData::None)))
            }
            KnownData::Ints(v) => {
                let (low, high) = element.integer_range().unwrap_or((i64::MIN, i64::MAX));
                match v.iter().find(|&&x| x < low || x > high) {
                    Some(x) => Err(format!("the value {x} does not fit {element}")),
                    None => Ok(Arc::new(Tensor::from_i64(&ty, v, ScaleData::None))),
                }
            }
            KnownData::Opaque => {
                Err(format!("element type {} is not supported", data_type::name(self.dtype)))
            }
        }
    }
}
