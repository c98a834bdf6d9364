//! Two tensors of one type, element by element.

use serde::Serialize;
use trainc_ir::tensor_bytes::tensor_from_bytes;
use trainc_ir::{Data, ScaleData, Tensor, TensorType};

/// Where two tensors first differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// The tensor: a result, the model's name of a state, or a buffer of the program.
    pub tensor: String,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: String,
    /// The first element that differs, row-major; none if the elements are equal and the scale differs.
    pub index: Option<usize>,
    /// Coordinates of that element.
    pub coordinates: Vec<usize>,
    /// What the reference interpreter computes: an element, or the scale.
    pub expected: String,
    /// What the artifact computed.
    pub found: String,
    /// Number of elements that differ.
    pub differing: usize,
    /// Number of elements.
    pub elements: usize,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { tensor, ty, expected, found, differing, elements, .. } = self;
        let place = match self.index {
            Some(index) => format!("element {index} {:?}", self.coordinates),
            None => "scale".to_string(),
        };
        write!(f, "`{tensor}` ({ty}), {place}: {found}, expected {expected}")?;
        if *differing > 0 {
            write!(f, "; {differing} of {elements} elements differ")?;
        }
        Ok(())
    }
}

/// The first difference between what was computed and the reference, both as
/// [`trainc_ir::tensor_bytes`] lays them out; `None` if there is none. NaNs count as equal: which of them a float
/// operation gives is open in IEEE 754.
pub(super) fn difference(
    name: &str,
    ty: &TensorType,
    expected: &[u8],
    found: &[u8],
) -> Option<Difference> {
    if expected == found {
        return None;
    }
    let tensors = tensor_from_bytes(ty, expected).zip(tensor_from_bytes(ty, found));
    let Some((expected, found)) = tensors else {
        return Some(Difference {
            tensor: name.to_string(),
            ty: ty.to_string(),
            index: None,
            coordinates: Vec::new(),
            expected: format!("{} bytes", expected.len()),
            found: format!("{} bytes", found.len()),
            differing: ty.count(),
            elements: ty.count(),
        });
    };
    let differs: Vec<usize> =
        (0..ty.count()).filter(|&i| !same(expected.data(), found.data(), i)).collect();
    let first = differs.first().copied();
    let (expected_text, found_text) = match first {
        Some(i) => (element(&expected, i), element(&found, i)),
        None if expected.scale() == found.scale() => return None,
        None => (scale(expected.scale()), scale(found.scale())),
    };
    Some(Difference {
        tensor: name.to_string(),
        ty: ty.to_string(),
        index: first,
        coordinates: first.map(|i| coordinates(ty, i)).unwrap_or_default(),
        expected: expected_text,
        found: found_text,
        differing: differs.len(),
        elements: ty.count(),
    })
}

fn same_float(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn same(a: &Data, b: &Data, i: usize) -> bool {
    match (a, b) {
        (Data::F32(a), Data::F32(b)) => same_float(a[i], b[i]),
        (Data::I8(a), Data::I8(b)) => a[i] == b[i],
        (Data::I16(a), Data::I16(b)) => a[i] == b[i],
        (Data::I32(a), Data::I32(b)) => a[i] == b[i],
        (Data::U8(a), Data::U8(b)) => a[i] == b[i],
        (Data::U16(a), Data::U16(b)) => a[i] == b[i],
        (Data::U32(a), Data::U32(b)) => a[i] == b[i],
        _ => false,
    }
}

fn element(tensor: &Tensor, i: usize) -> String {
    match tensor.data() {
        Data::F32(v) => format!("{:?} (0x{:08x})", v[i], v[i].to_bits()),
        Data::I8(v) => v[i].to_string(),
        Data::I16(v) => v[i].to_string(),
        Data::I32(v) => v[i].to_string(),
        Data::U8(v) => v[i].to_string(),
        Data::U16(v) => v[i].to_string(),
        Data::U32(v) => v[i].to_string(),
    }
}

fn scale(scale: &ScaleData) -> String {
    match scale {
        ScaleData::None => "none".to_string(),
        ScaleData::Exponent(e) => format!("2^{e}"),
    }
}

fn coordinates(ty: &TensorType, index: usize) -> Vec<usize> {
    let mut rest = index;
    let mut all = Vec::new();
    for stride in ty.shape.strides() {
        let stride = stride.max(1);
        all.push(rest / stride);
        rest %= stride;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::tensor_bytes::tensor_bytes;

    fn compare(expected: &Tensor, found: &Tensor) -> Option<Difference> {
        difference("t", expected.ty(), &tensor_bytes(expected), &tensor_bytes(found))
    }

    #[test]
    fn elements_and_their_place() {
        let a = Tensor::i8_shared([2, 3], vec![1, 2, 3, 4, 5, 6], -1);
        let b = Tensor::i8_shared([2, 3], vec![1, 2, 3, 4, -5, 7], -1);
        assert_eq!(compare(&a, &a), None);
        let found = compare(&a, &b).unwrap();
        assert_eq!((found.index, &found.coordinates[..]), (Some(4), &[1, 1][..]));
        assert_eq!((found.expected.as_str(), found.found.as_str()), ("5", "-5"));
        assert_eq!((found.differing, found.elements), (2, 6));
        let text = found.to_string();
        assert!(text.contains("element 4 [1, 1]: -5, expected 5; 2 of 6"), "{text}");
    }

    #[test]
    fn scales() {
        let a = Tensor::i8_shared([1], vec![1], -1);
        let found = compare(&a, &Tensor::i8_shared([1], vec![1], 3)).unwrap();
        assert_eq!((found.index, found.differing), (None, 0));
        assert_eq!((found.expected.as_str(), found.found.as_str()), ("2^-1", "2^3"));
    }

    #[test]
    fn floats_by_bits_but_for_nan() {
        let nan = |bits: u32| Tensor::f32([1], vec![f32::from_bits(bits)]);
        assert_eq!(compare(&nan(0x7fc0_0000), &nan(0xffc0_0001)), None);
        let zero = compare(&Tensor::f32([1], vec![0.0]), &Tensor::f32([1], vec![-0.0])).unwrap();
        assert!(zero.found.contains("0x80000000"), "{}", zero.found);
    }
}
