//! Tensors as bytes, as a program's buffers hold them.
//!
//! Packed elements, little-endian, the first element of a byte in its low bits; then, from the next multiple of 4,
//! the run-time part of the scale: an exponent as i32. Bytes between are zero.

use crate::program::{buffer_bytes, scale_offset};
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

/// The bytes of a tensor; [`buffer_bytes`] of its type.
pub fn tensor_bytes(tensor: &Tensor) -> Vec<u8> {
    let ty = tensor.ty();
    let mut bytes = packed_elements(ty.element, tensor.data());
    bytes.reserve(buffer_bytes(ty) - bytes.len());
    if ty.scale_bytes() > 0 {
        bytes.resize(scale_offset(ty), 0);
    }
    match tensor.scale() {
        ScaleData::None => {}
        ScaleData::Exponent(e) => bytes.extend(e.to_le_bytes()),
    }
    bytes
}

/// The bytes of a tensor's elements, without its scale.
pub fn element_bytes(tensor: &Tensor) -> Vec<u8> {
    packed_elements(tensor.ty().element, tensor.data())
}

/// The bytes of elements without a scale.
pub(crate) fn packed_elements(element: Element, data: &Data) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(element.bytes(data.len()));
    match data {
        Data::F32(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::I8(v) => pack(&mut bytes, v.iter().map(|&x| x as u8), element.bits()),
        Data::I16(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::I32(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::U8(v) => pack(&mut bytes, v.iter().copied(), element.bits()),
        Data::U16(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
        Data::U32(v) => v.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
    }
    bytes
}

/// The tensor that [`tensor_bytes`] gave these bytes for; `None` if their number is not that type's.
pub fn tensor_from_bytes(ty: &TensorType, bytes: &[u8]) -> Option<Tensor> {
    if bytes.len() != buffer_bytes(ty) {
        return None;
    }
    let data = unpacked_elements(ty, &bytes[..ty.element_bytes()]);
    let scale = &bytes[bytes.len() - ty.scale_bytes()..];
    let scale = match ty.scale {
        Scale::None => ScaleData::None,
        Scale::Exponent => {
            ScaleData::Exponent(words(scale).first().map_or(0, |&e| i32::from_le_bytes(e)))
        }
    };
    Some(Tensor::new(ty.clone(), data, scale))
}

fn words(bytes: &[u8]) -> Vec<[u8; 4]> {
    bytes.as_chunks::<4>().0.to_vec()
}

/// The elements of a tensor of that type from their bytes; as many as there are whole ones, if the length is wrong.
pub fn unpacked_elements(ty: &TensorType, elements: &[u8]) -> Data {
    let halves = |bytes: &[u8]| -> Vec<[u8; 2]> { bytes.as_chunks::<2>().0.to_vec() };
    let (bits, count) = (ty.element.bits(), ty.count());
    match Data::zeros(ty.element, 0) {
        Data::F32(_) => Data::F32(words(elements).into_iter().map(f32::from_le_bytes).collect()),
        Data::I8(_) => {
            // The sign bit of a narrow element is its highest.
            let widen = |x: u8| ((x << (8 - bits)) as i8) >> (8 - bits);
            Data::I8(unpack(elements, bits, count).map(widen).collect())
        }
        Data::I16(_) => Data::I16(halves(elements).into_iter().map(i16::from_le_bytes).collect()),
        Data::I32(_) => Data::I32(words(elements).into_iter().map(i32::from_le_bytes).collect()),
        Data::U8(_) => Data::U8(unpack(elements, bits, count).collect()),
        Data::U16(_) => Data::U16(halves(elements).into_iter().map(u16::from_le_bytes).collect()),
        Data::U32(_) => Data::U32(words(elements).into_iter().map(u32::from_le_bytes).collect()),
    }
}

/// Appends elements of at most a byte, the first of a byte in its low bits.
fn pack(bytes: &mut Vec<u8>, elements: impl Iterator<Item = u8>, bits: u32) {
    if bits == 8 {
        bytes.extend(elements);
        return;
    }
    let mask = (1u8 << bits) - 1;
    let mut used = 8;
    for element in elements {
        if used == 8 {
            bytes.push(0);
            used = 0;
        }
        if let Some(last) = bytes.last_mut() {
            *last |= (element & mask) << used;
        }
        used += bits;
    }
}

fn unpack(bytes: &[u8], bits: u32, count: usize) -> impl Iterator<Item = u8> + '_ {
    let mask = (0xffu16 >> (8 - bits)) as u8;
    (0..count).map(move |i| {
        let bit = i * bits as usize;
        (bytes[bit / 8] >> (bit % 8)) & mask
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layouts written down by hand.
    #[test]
    fn layouts() {
        let narrow = TensorType::shared([3], Element::I4);
        let tensor = Tensor::new(narrow, Data::I8(vec![-8, 7, -1]), ScaleData::Exponent(-2));
        assert_eq!(tensor_bytes(&tensor), [0x78, 0x0f, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
        let bits = TensorType::new([10], Element::B1);
        let elements = vec![1, 0, 1, 1, 0, 0, 0, 0, 0, 1];
        let tensor = Tensor::new(bits, Data::U8(elements), ScaleData::None);
        assert_eq!(tensor_bytes(&tensor), [0b1101, 0b10]);
        let tensor = Tensor::f32([2], vec![1.0, -2.0]);
        assert_eq!(tensor_bytes(&tensor), [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
    }

    /// Every element and scale comes back.
    #[test]
    fn round_trip() {
        let scales = [Scale::None, Scale::Exponent];
        for element in Element::ALL {
            for scale in scales {
                let ty = TensorType { scale, ..TensorType::new([3, 5], element) };
                let bytes: Vec<u8> = (0..buffer_bytes(&ty))
                    .map(|i| if i < ty.element_bytes() { (i * 37 + 5) as u8 } else { 0 })
                    .collect();
                let tensor = tensor_from_bytes(&ty, &bytes).expect("the length fits");
                let again = tensor_from_bytes(&ty, &tensor_bytes(&tensor)).expect("same type");
                assert!(tensor.bits_equal(&again), "{ty}");
                assert!(tensor_from_bytes(&ty, &bytes[1..]).is_none());
            }
        }
    }
}
