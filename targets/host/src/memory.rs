//! Tensors as bytes: packed elements, then (4-byte aligned) the run-time part of the scale, little-endian.

use trainc_ir::program::{buffer_bytes, scale_offset};
use trainc_ir::{Data, Scale, ScaleData, Tensor, TensorType};

use crate::HostError;

/// Alignment of arena, state and constants: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// Zeroed bytes on a 64-byte boundary.
pub(crate) struct AlignedBytes {
    lines: Vec<Line>,
    length: usize,
}

impl AlignedBytes {
    pub(crate) fn new(length: usize) -> AlignedBytes {
        AlignedBytes { lines: vec![Line([0; ALIGNMENT]); length.div_ceil(ALIGNMENT)], length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.lines.as_flattened_lines()[..self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        &mut self.lines.as_flattened_lines_mut()[..length]
    }
}

trait Lines {
    fn as_flattened_lines(&self) -> &[u8];
    fn as_flattened_lines_mut(&mut self) -> &mut [u8];
}

#[allow(unsafe_code, reason = "a slice of lines is a slice of their bytes")]
impl Lines for Vec<Line> {
    fn as_flattened_lines(&self) -> &[u8] {
        // SAFETY: a `Line` is exactly its 64 bytes, without padding.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() * ALIGNMENT) }
    }

    fn as_flattened_lines_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; any bytes are a `Line`.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * ALIGNMENT) }
    }
}

/// Whether tensors of that type have a layout here.
///
/// # Errors
/// If the elements are narrower than a byte.
pub(crate) fn check_layout(ty: &TensorType) -> Result<(), HostError> {
    if ty.element.bits() < 8 {
        return Err(HostError::Unsupported(format!("{ty}: elements narrower than a byte")));
    }
    Ok(())
}

/// The bytes of a tensor as a program's buffer holds them: elements, then scale (an exponent as i32; affine: all
/// scales, then all zero points; blocks: one byte each).
///
/// # Errors
/// If the elements are narrower than a byte.
pub fn encode_tensor(tensor: &Tensor) -> Result<Vec<u8>, HostError> {
    check_layout(tensor.ty())?;
    let mut bytes = Vec::with_capacity(buffer_bytes(tensor.ty()));
    match tensor.data() {
        Data::F32(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::I8(v) => bytes.extend(v.iter().map(|&x| x as u8)),
        Data::I16(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::I32(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::U8(v) => bytes.extend(v),
        Data::U16(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::U32(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
    }
    if tensor.ty().scale_bytes() > 0 {
        bytes.resize(scale_offset(tensor.ty()), 0);
    }
    match tensor.scale() {
        ScaleData::None => {}
        ScaleData::Exponent(e) => bytes.extend(e.to_le_bytes()),
        ScaleData::Affine { scales, zero_points } => {
            scales.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
            zero_points.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
        }
        ScaleData::Block(exponents) => bytes.extend(exponents.iter().map(|&x| x as u8)),
    }
    Ok(bytes)
}

/// The tensor that [`encode_tensor`] gave those bytes for.
///
/// # Errors
/// If the length is not that type's, or the elements are narrower than a byte.
pub fn decode_tensor(ty: &TensorType, bytes: &[u8]) -> Result<Tensor, HostError> {
    check_layout(ty)?;
    if bytes.len() != buffer_bytes(ty) {
        return Err(HostError::Argument(format!(
            "{ty} takes {} bytes, here {}",
            buffer_bytes(ty),
            bytes.len()
        )));
    }
    let words = |bytes: &[u8]| -> Vec<[u8; 4]> { bytes.as_chunks::<4>().0.to_vec() };
    let halves = |bytes: &[u8]| -> Vec<[u8; 2]> { bytes.as_chunks::<2>().0.to_vec() };
    let elements = &bytes[..ty.element_bytes()];
    let data = match Data::zeros(ty.element, 0) {
        Data::F32(_) => Data::F32(words(elements).into_iter().map(f32::from_le_bytes).collect()),
        Data::I8(_) => Data::I8(elements.iter().map(|&x| x as i8).collect()),
        Data::I16(_) => Data::I16(halves(elements).into_iter().map(i16::from_le_bytes).collect()),
        Data::I32(_) => Data::I32(words(elements).into_iter().map(i32::from_le_bytes).collect()),
        Data::U8(_) => Data::U8(elements.to_vec()),
        Data::U16(_) => Data::U16(halves(elements).into_iter().map(u16::from_le_bytes).collect()),
        Data::U32(_) => Data::U32(words(elements).into_iter().map(u32::from_le_bytes).collect()),
    };
    let scale = &bytes[bytes.len() - ty.scale_bytes()..];
    let scale = match ty.scale {
        Scale::None | Scale::Fixed { .. } => ScaleData::None,
        Scale::Exponent => ScaleData::Exponent(i32::from_le_bytes(words(scale)[0])),
        Scale::Affine { .. } => {
            let (scales, zero_points) = scale.split_at(scale.len() / 2);
            ScaleData::Affine {
                scales: words(scales).into_iter().map(f32::from_le_bytes).collect(),
                zero_points: words(zero_points).into_iter().map(i32::from_le_bytes).collect(),
            }
        }
        Scale::Block { .. } => ScaleData::Block(scale.iter().map(|&x| x as i8).collect()),
    };
    Ok(Tensor::new(ty.clone(), data, scale))
}
