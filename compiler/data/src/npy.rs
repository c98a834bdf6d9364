//! NumPy's `.npy` format: one array in one stream (NEP 1; format versions 1.0, 2.0 and 3.0).
//!
//! Reads little and big endian, C and Fortran order; float16 widens to f32 exactly. Pickled objects, structured types,
//! complex numbers and text are refused: no byte of a file is ever executed. Writes version 1.0, little endian, C order,
//! byte for byte what `numpy.save` writes.

use std::io::Read;

use crate::error::DataError;
use crate::npy_header::{Header, MAX_DIMENSIONS, header_bytes, read_exactly, read_fully};

/// An array in C (row-major) order. `data.len()` is the product of `shape`; no dimensions is one scalar.
#[derive(Debug, Clone, PartialEq)]
pub struct NpyArray {
    /// The dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The elements, row-major.
    pub data: NpyData,
}

/// The elements of an array by their type. float16 arrives as `F32`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is its element type")]
pub enum NpyData {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// Evaluates `$body` with `$values` bound to the vector, whatever its type.
macro_rules! with_values {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            NpyData::Bool($values) => $body,
            NpyData::I8($values) => $body,
            NpyData::U8($values) => $body,
            NpyData::I16($values) => $body,
            NpyData::U16($values) => $body,
            NpyData::I32($values) => $body,
            NpyData::U32($values) => $body,
            NpyData::I64($values) => $body,
            NpyData::U64($values) => $body,
            NpyData::F32($values) => $body,
            NpyData::F64($values) => $body,
        }
    };
}

impl NpyData {
    /// The number of elements.
    pub fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// NumPy's name of the element type, such as `float32`.
    pub fn type_name(&self) -> &'static str {
        match self {
            NpyData::Bool(_) => "bool",
            NpyData::I8(_) => "int8",
            NpyData::U8(_) => "uint8",
            NpyData::I16(_) => "int16",
            NpyData::U16(_) => "uint16",
            NpyData::I32(_) => "int32",
            NpyData::U32(_) => "uint32",
            NpyData::I64(_) => "int64",
            NpyData::U64(_) => "uint64",
            NpyData::F32(_) => "float32",
            NpyData::F64(_) => "float64",
        }
    }

    /// The bytes of one element in memory.
    pub(crate) fn element_bytes(&self) -> u64 {
        fn size<T>(_: &[T]) -> u64 {
            size_of::<T>() as u64
        }
        with_values!(self, values => size(values))
    }

    fn descriptor(&self) -> &'static str {
        match self {
            NpyData::Bool(_) => "|b1",
            NpyData::I8(_) => "|i1",
            NpyData::U8(_) => "|u1",
            NpyData::I16(_) => "<i2",
            NpyData::U16(_) => "<u2",
            NpyData::I32(_) => "<i4",
            NpyData::U32(_) => "<u4",
            NpyData::I64(_) => "<i8",
            NpyData::U64(_) => "<u8",
            NpyData::F32(_) => "<f4",
            NpyData::F64(_) => "<f8",
        }
    }

    /// The elements as f32: exact from f32, bool and integers up to 16 bits, rounded to nearest even from the others.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            NpyData::Bool(values) => values.iter().map(|&value| f32::from(value)).collect(),
            NpyData::I8(values) => values.iter().map(|&value| f32::from(value)).collect(),
            NpyData::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
            NpyData::I16(values) => values.iter().map(|&value| f32::from(value)).collect(),
            NpyData::U16(values) => values.iter().map(|&value| f32::from(value)).collect(),
            NpyData::I32(values) => values.iter().map(|&value| value as f32).collect(),
            NpyData::U32(values) => values.iter().map(|&value| value as f32).collect(),
            NpyData::I64(values) => values.iter().map(|&value| value as f32).collect(),
            NpyData::U64(values) => values.iter().map(|&value| value as f32).collect(),
            NpyData::F32(values) => values.clone(),
            NpyData::F64(values) => values.iter().map(|&value| value as f32).collect(),
        }
    }

    /// The elements as `T` when they are integers (or bool) and every one fits; otherwise the reason why not.
    pub fn to_integers<T>(&self) -> Result<Vec<T>, String>
    where
        T: TryFrom<i128>,
    {
        fn convert<T: TryFrom<i128>>(values: impl Iterator<Item = i128>) -> Result<Vec<T>, String> {
            values
                .enumerate()
                .map(|(index, value)| {
                    T::try_from(value).map_err(|_| {
                        format!(
                            "element {index} is {value}, which does not fit {}",
                            std::any::type_name::<T>()
                        )
                    })
                })
                .collect()
        }
        match self {
            NpyData::Bool(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::I8(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::U8(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::I16(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::U16(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::I32(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::U32(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::I64(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::U64(values) => convert(values.iter().map(|&value| i128::from(value))),
            NpyData::F32(_) | NpyData::F64(_) => {
                Err(format!("the elements are {}, not integers", self.type_name()))
            }
        }
    }
}

impl NpyArray {
    /// An array of f32. Like the other constructors it does not check the shape; writing does.
    pub fn f32(shape: &[usize], values: Vec<f32>) -> Self {
        Self { shape: shape.to_vec(), data: NpyData::F32(values) }
    }

    /// An array of i32.
    pub fn i32(shape: &[usize], values: Vec<i32>) -> Self {
        Self { shape: shape.to_vec(), data: NpyData::I32(values) }
    }

    /// An array of i8.
    pub fn i8(shape: &[usize], values: Vec<i8>) -> Self {
        Self { shape: shape.to_vec(), data: NpyData::I8(values) }
    }

    /// Reads one array that takes up all of `reader`. `place` names it in errors; `limit` bounds the decoded bytes.
    pub fn read(mut reader: impl Read, place: &str, limit: u64) -> Result<Self, DataError> {
        let header = Header::read(&mut reader, place)?;
        let data = header.read_data(&mut reader, place, limit)?;
        let mut excess = [0u8; 1];
        // Reading to the very end also makes an archive check its entry's checksum.
        match read_fully(&mut reader, &mut excess) {
            Ok(0) => Ok(Self { shape: header.shape, data }),
            Ok(_) => Err(DataError::at(place, "has more bytes than its header says")),
            Err(error) => Err(DataError::at(place, format!("cannot be decoded: {error}"))),
        }
    }

    /// The array as a `.npy` file. Fails when the shape and the number of elements contradict each other, or when the
    /// shape has more than 64 dimensions.
    pub fn to_npy_bytes(&self) -> Result<Vec<u8>, DataError> {
        let expected = element_count(&self.shape);
        if expected != Some(self.data.len()) || self.shape.len() > MAX_DIMENSIONS {
            return Err(DataError::at(
                "array to be written",
                format!("has the shape {:?} but {} elements", self.shape, self.data.len()),
            ));
        }
        let mut bytes = header_bytes(self.data.descriptor(), &self.shape);
        match &self.data {
            NpyData::Bool(values) => bytes.extend(values.iter().map(|&value| u8::from(value))),
            NpyData::U8(values) => bytes.extend_from_slice(values),
            NpyData::I8(values) => bytes.extend(values.iter().map(|&value| value as u8)),
            NpyData::I16(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::U16(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::I32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::U32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::I64(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::U64(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::F32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            NpyData::F64(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
        }
        Ok(bytes)
    }
}

/// The product of the dimensions, or `None` beyond what memory can address.
fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |product, &length| product.checked_mul(length))
}

impl Header {
    fn read_data(
        &self,
        reader: &mut impl Read,
        place: &str,
        limit: u64,
    ) -> Result<NpyData, DataError> {
        let unsupported = || {
            DataError::at(
                place,
                format!(
                    "has the element type {:?}; supported are bool, integers of 8 to 64 bits, float16, float32 \
                     and float64",
                    self.descriptor
                ),
            )
        };
        let mut characters = self.descriptor.chars();
        let big = match characters.next() {
            Some('<' | '|') => false,
            Some('>') => true,
            _ => return Err(unsupported()),
        };
        let kind = characters.as_str();
        let bits = match kind {
            "b1" | "i1" | "u1" => 1,
            "i2" | "u2" | "f2" => 2,
            "i4" | "u4" | "f4" => 4,
            "i8" | "u8" | "f8" => 8,
            _ => return Err(unsupported()),
        };
        let too_large = || DataError::TooLarge { place: place.to_string(), limit };
        let count = element_count(&self.shape).ok_or_else(too_large)?;
        if (count as u64).checked_mul(bits).is_none_or(|bytes| bytes > limit) {
            return Err(too_large());
        }
        let mut source = Elements { reader, place, count, big };
        let data = match kind {
            "b1" => NpyData::Bool(source.read(|[byte]: [u8; 1]| byte != 0)?),
            "i1" => NpyData::I8(source.read(i8::from_le_bytes)?),
            "u1" => NpyData::U8(source.read(u8::from_le_bytes)?),
            "i2" => NpyData::I16(source.read(i16::from_le_bytes)?),
            "u2" => NpyData::U16(source.read(u16::from_le_bytes)?),
            "f2" => NpyData::F32(source.read(|bytes| half_to_f32(u16::from_le_bytes(bytes)))?),
            "i4" => NpyData::I32(source.read(i32::from_le_bytes)?),
            "u4" => NpyData::U32(source.read(u32::from_le_bytes)?),
            "f4" => NpyData::F32(source.read(f32::from_le_bytes)?),
            "i8" => NpyData::I64(source.read(i64::from_le_bytes)?),
            "u8" => NpyData::U64(source.read(u64::from_le_bytes)?),
            _ => NpyData::F64(source.read(f64::from_le_bytes)?),
        };
        if !self.fortran_order || self.shape.len() < 2 {
            return Ok(data);
        }
        let order = fortran_positions(&self.shape, data.len());
        Ok(match data {
            NpyData::Bool(values) => NpyData::Bool(gather(&values, &order)),
            NpyData::I8(values) => NpyData::I8(gather(&values, &order)),
            NpyData::U8(values) => NpyData::U8(gather(&values, &order)),
            NpyData::I16(values) => NpyData::I16(gather(&values, &order)),
            NpyData::U16(values) => NpyData::U16(gather(&values, &order)),
            NpyData::I32(values) => NpyData::I32(gather(&values, &order)),
            NpyData::U32(values) => NpyData::U32(gather(&values, &order)),
            NpyData::I64(values) => NpyData::I64(gather(&values, &order)),
            NpyData::U64(values) => NpyData::U64(gather(&values, &order)),
            NpyData::F32(values) => NpyData::F32(gather(&values, &order)),
            NpyData::F64(values) => NpyData::F64(gather(&values, &order)),
        })
    }
}

/// Where elements come from: `count` of them, in the byte order of `big`.
struct Elements<'a, R> {
    reader: &'a mut R,
    place: &'a str,
    count: usize,
    big: bool,
}

impl<R: Read> Elements<'_, R> {
    /// Reads in pieces, so that memory grows with the bytes that exist, not with the header's claim. `decode` takes
    /// little-endian bytes.
    fn read<T, const SIZE: usize>(
        &mut self,
        decode: impl Fn([u8; SIZE]) -> T,
    ) -> Result<Vec<T>, DataError> {
        const PIECE: usize = 8192;
        let mut values = Vec::new();
        let mut buffer = vec![0u8; PIECE.min(self.count) * SIZE];
        while values.len() < self.count {
            let piece = &mut buffer[..PIECE.min(self.count - values.len()) * SIZE];
            read_exactly(self.reader, piece, self.place, "its elements")?;
            let (elements, _) = piece.as_chunks_mut::<SIZE>();
            values.extend(elements.iter_mut().map(|bytes| {
                if self.big {
                    bytes.reverse();
                }
                decode(*bytes)
            }));
        }
        Ok(values)
    }
}

/// For each element in C order, its position in Fortran order (first dimension fastest).
fn fortran_positions(shape: &[usize], count: usize) -> Vec<usize> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1usize;
    for &length in shape {
        strides.push(stride);
        // Dimensions beside a zero may multiply out of range; then there is nothing to place.
        stride = stride.saturating_mul(length);
    }
    let mut index = vec![0usize; shape.len()];
    let mut position = 0;
    let mut order = Vec::with_capacity(count);
    for _ in 0..count {
        order.push(position);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            position += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            position -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    order
}

fn gather<T: Copy>(values: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&position| values[position]).collect()
}

/// IEEE 754 binary16 to binary32; every value is exact.
fn half_to_f32(half: u16) -> f32 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((half >> 10) & 0x1f);
    let fraction = f32::from(half & 0x03ff);
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy_header::tests_support::with_header;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<NpyArray, DataError> {
        NpyArray::read(bytes, "x.npy", 1 << 20)
    }

    #[test]
    fn half_precision_values() {
        // From the tables of IEEE 754-2008: (bits, value).
        let table = [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0x3c01, 1.000_976_6),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, value) in table {
            assert_eq!(half_to_f32(bits), value, "{bits:#x}");
        }
        assert!(half_to_f32(0x8000).is_sign_negative());
        assert!(half_to_f32(0x7e00).is_nan());
    }

    #[test]
    fn every_version_and_spelling_of_the_header_is_read() {
        let expected = NpyArray { shape: vec![2], data: NpyData::I16(vec![1, -2]) };
        for version in 1..=3 {
            for header in [
                "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }  \n",
                "{\"shape\":(2L,),\"fortran_order\":True,\"descr\":\"<i2\"}",
            ] {
                let bytes = with_header(version, header, &[1, 0, 0xfe, 0xff]);
                assert_eq!(read(&bytes).unwrap(), expected);
            }
        }
    }

    #[test]
    fn big_endian_and_fortran_order_are_turned_round() {
        let header = "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }";
        let bytes = with_header(1, header, &[0, 11, 0, 21, 0, 12, 0, 22, 0, 13, 1, 0]);
        let expected = NpyData::U16(vec![11, 12, 13, 21, 22, 256]);
        assert_eq!(read(&bytes).unwrap(), NpyArray { shape: vec![2, 3], data: expected });
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let cases = [
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "\"|O\""),
            ("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "\"<c8\""),
            ("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "structured"),
            ("{'descr': '<i4', 'fortran_order': False}", "without"),
            ("{'descr': '<i4', 'fortran_order': 0, 'shape': ()}", "True or False"),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}", "a dimension"),
            ("{'descr': '<i4', 'color': False, 'shape': ()}", "color"),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': ()} x", "after"),
            ("{'descr': '<i4", "end"),
        ];
        for (header, reason) in cases {
            let error = read(&with_header(1, header, &[0; 8])).unwrap_err().to_string();
            assert!(error.starts_with("x.npy: has ") && error.contains(reason), "{error}");
        }
        let error = read(b"\x93NUMPY\x04\0\0\0").unwrap_err().to_string();
        assert!(error.contains("version 4"), "{error}");
        assert!(read(b"PK\x03\x04aaaaaaaa").unwrap_err().to_string().contains("magic"));
    }

    #[test]
    fn claims_beyond_the_limit_or_the_bytes_are_refused() {
        for shape in ["(1000000,)", "(4294967296, 4294967296)", "(18446744073709551615, 2)"] {
            let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
            let error = read(&with_header(1, &header, &[0; 16])).unwrap_err();
            assert!(matches!(error, DataError::TooLarge { .. }), "{error}");
        }
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (100,), }";
        let error = read(&with_header(1, header, &[0; 16])).unwrap_err().to_string();
        assert!(error.contains("cut short in its elements"), "{error}");
        let error = read(&with_header(1, header, &[0; 801])).unwrap_err().to_string();
        assert!(error.contains("more bytes"), "{error}");
        let mut bytes = b"\x93NUMPY\x02\0".to_vec();
        bytes.extend(u32::MAX.to_le_bytes());
        assert!(read(&bytes).unwrap_err().to_string().contains("4294967295"));
    }

    #[test]
    fn a_zero_dimension_is_an_empty_array_whatever_the_others_are() {
        let header =
            "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 9999999999999, 9999999999999), }";
        let array = read(&with_header(1, header, &[])).unwrap();
        assert!(array.data.is_empty());
    }

    #[test]
    fn an_inconsistent_array_is_not_written() {
        assert!(NpyArray::f32(&[2, 2], vec![0.0; 3]).to_npy_bytes().is_err());
        assert!(NpyArray::f32(&[1; 65], vec![0.0]).to_npy_bytes().is_err());
    }

    #[test]
    fn integers_convert_when_they_fit() {
        assert_eq!(NpyData::I64(vec![0, 255]).to_integers::<u8>().unwrap(), [0, 255]);
        let error = NpyData::I64(vec![0, 256]).to_integers::<u8>().unwrap_err();
        assert!(error.contains("element 1 is 256"), "{error}");
        assert!(NpyData::I8(vec![-1]).to_integers::<u32>().is_err());
        assert!(NpyData::F32(vec![1.0]).to_integers::<u32>().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_read_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn any_header_text_reads_or_fails(header in "[{}()\\[\\]':,a-z0-9<>| FTL]{0,80}") {
            let _ = read(&with_header(1, &header, &[0; 64]));
        }

        #[test]
        fn fortran_order_is_the_transpose_of_c_order(
            shape in proptest::collection::vec(0usize..4, 2..5)
        ) {
            let count = element_count(&shape).unwrap();
            // Place each C-order element by its own index arithmetic.
            let mut fortran = vec![0u16; count];
            for position in 0..count {
                let (mut rest, mut target, mut index) = (position, 0, vec![0; shape.len()]);
                for axis in (0..shape.len()).rev() {
                    index[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                for axis in (0..shape.len()).rev() {
                    target = target * shape[axis] + index[axis];
                }
                fortran[target] = position as u16;
            }
            let tuple = shape.iter().map(|n| format!("{n},")).collect::<String>();
            let header = format!("{{'descr': '<u2', 'fortran_order': True, 'shape': ({tuple}), }}");
            let data: Vec<u8> = fortran.iter().flat_map(|v| v.to_le_bytes()).collect();
            let array = read(&with_header(1, &header, &data)).unwrap();
            prop_assert_eq!(array.data, NpyData::U16((0..count as u16).collect()));
        }
    }
}
