//! Tensor values of the reference interpreter.

use std::sync::OnceLock;

use crate::types::{Element, Scale, Shape, TensorType};

/// Elements, unpacked: sub-byte integers sit in the next wider storage.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// F32.
    F32(Vec<f32>),
    /// I2, I4, I8.
    I8(Vec<i8>),
    /// I16.
    I16(Vec<i16>),
    /// I32.
    I32(Vec<i32>),
    /// B1, U2, U4, U8.
    U8(Vec<u8>),
    /// U16.
    U16(Vec<u16>),
    /// U32.
    U32(Vec<u32>),
}

/// The run-time part of a scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScaleData {
    /// Nothing is known only at run time.
    #[default]
    None,
    /// One exponent.
    Exponent(i32),
}

/// A tensor value: type, elements, and the run-time part of its scale.
#[derive(Clone, Debug)]
pub struct Tensor {
    ty: TensorType,
    data: Data,
    scale: ScaleData,
    /// [`Tensor::content_hash`], once it was asked for.
    hash: OnceLock<u64>,
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        (&self.ty, &self.data, &self.scale) == (&other.ty, &other.data, &other.scale)
    }
}

impl Data {
    /// Zeros for that element type.
    pub fn zeros(element: Element, count: usize) -> Data {
        match element {
            Element::F32 => Data::F32(vec![0.0; count]),
            Element::I2 | Element::I4 | Element::I8 => Data::I8(vec![0; count]),
            Element::I16 => Data::I16(vec![0; count]),
            Element::I32 => Data::I32(vec![0; count]),
            Element::B1 | Element::U2 | Element::U4 | Element::U8 => Data::U8(vec![0; count]),
            Element::U16 => Data::U16(vec![0; count]),
            Element::U32 => Data::U32(vec![0; count]),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(v) => v.len(),
            Data::I8(v) => v.len(),
            Data::I16(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::U8(v) => v.len(),
            Data::U16(v) => v.len(),
            Data::U32(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stores(&self, element: Element) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(&Data::zeros(element, 0))
    }
}

impl Tensor {
    /// A tensor of that type. Panics if `data` or `scale` does not fit the type: that is a bug of the caller,
    /// user data is checked where it enters.
    pub fn new(ty: TensorType, data: Data, scale: ScaleData) -> Tensor {
        assert_eq!(ty.count(), data.len(), "element count of {ty}");
        assert!(data.stores(ty.element), "storage of {ty}");
        let fits = matches!(
            (ty.scale, scale),
            (Scale::None, ScaleData::None) | (Scale::Exponent, ScaleData::Exponent(_))
        );
        assert!(fits, "scale of {ty}");
        Tensor { ty, data, scale, hash: OnceLock::new() }
    }

    /// An FP32 tensor.
    pub fn f32(shape: impl Into<Shape>, data: Vec<f32>) -> Tensor {
        Tensor::new(TensorType::f32(shape), Data::F32(data), ScaleData::None)
    }

    /// An unscaled i32 tensor (labels, scalars).
    pub fn i32(shape: impl Into<Shape>, data: Vec<i32>) -> Tensor {
        Tensor::new(TensorType::new(shape, Element::I32), Data::I32(data), ScaleData::None)
    }

    /// An int8 tensor with a shared exponent.
    pub fn i8_shared(shape: impl Into<Shape>, data: Vec<i8>, exponent: i32) -> Tensor {
        Tensor::new(
            TensorType::shared(shape, Element::I8),
            Data::I8(data),
            ScaleData::Exponent(exponent),
        )
    }

    /// An int32 tensor (accumulators) with a shared exponent.
    pub fn i32_shared(shape: impl Into<Shape>, data: Vec<i32>, exponent: i32) -> Tensor {
        Tensor::new(
            TensorType::shared(shape, Element::I32),
            Data::I32(data),
            ScaleData::Exponent(exponent),
        )
    }

    /// All elements zero, the exponent 0.
    pub fn zeros(ty: &TensorType) -> Tensor {
        let scale = match ty.scale {
            Scale::None => ScaleData::None,
            Scale::Exponent => ScaleData::Exponent(0),
        };
        Tensor::new(ty.clone(), Data::zeros(ty.element, ty.count()), scale)
    }

    /// Its type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.ty.shape
    }

    /// Its elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The run-time part of its scale.
    pub fn scale(&self) -> &ScaleData {
        &self.scale
    }

    /// The shared exponent; 0 where there is none.
    pub fn exponent(&self) -> i32 {
        match self.scale {
            ScaleData::Exponent(e) => e,
            ScaleData::None => 0,
        }
    }

    /// Elements as f32. Panics on another storage (the verifier has checked the type).
    pub fn as_f32(&self) -> &[f32] {
        match &self.data {
            Data::F32(v) => v,
            _ => panic!("{} is not f32", self.ty),
        }
    }

    /// Elements as i8. Panics on another storage.
    pub fn as_i8(&self) -> &[i8] {
        match &self.data {
            Data::I8(v) => v,
            _ => panic!("{} is not i8", self.ty),
        }
    }

    /// Elements as i32. Panics on another storage.
    pub fn as_i32(&self) -> &[i32] {
        match &self.data {
            Data::I32(v) => v,
            _ => panic!("{} is not i32", self.ty),
        }
    }

    /// Integer elements widened to i64, for meanings that do not depend on the width. Panics on floats.
    pub fn to_i64(&self) -> Vec<i64> {
        match &self.data {
            Data::I8(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Data::I16(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Data::I32(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Data::U8(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Data::U16(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Data::U32(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Data::F32(_) => panic!("{} is not an integer tensor", self.ty),
        }
    }

    /// An integer tensor from wide values, each reduced to the element by wrapping. Panics on float types.
    pub fn from_i64(ty: &TensorType, values: &[i64], scale: ScaleData) -> Tensor {
        let data = match Data::zeros(ty.element, 0) {
            Data::I8(_) => Data::I8(values.iter().map(|&v| v as i8).collect()),
            Data::I16(_) => Data::I16(values.iter().map(|&v| v as i16).collect()),
            Data::I32(_) => Data::I32(values.iter().map(|&v| v as i32).collect()),
            Data::U8(_) => Data::U8(values.iter().map(|&v| v as u8).collect()),
            Data::U16(_) => Data::U16(values.iter().map(|&v| v as u16).collect()),
            Data::U32(_) => Data::U32(values.iter().map(|&v| v as u32).collect()),
            Data::F32(_) => panic!("{ty} is not an integer type"),
        };
        Tensor::new(ty.clone(), data, scale)
    }

    /// The same elements and scale under another shape of the same count.
    pub fn reshaped(&self, shape: impl Into<Shape>) -> Tensor {
        Tensor::new(self.ty.with_shape(shape), self.data.clone(), self.scale)
    }

    /// Elements gathered by flat index into a new shape; the scale is kept. The common core of data movement.
    pub fn gather(&self, shape: impl Into<Shape>, source: impl Iterator<Item = usize>) -> Tensor {
        let ty = self.ty.with_shape(shape);
        let data = match &self.data {
            Data::F32(v) => Data::F32(source.map(|i| v[i]).collect()),
            Data::I8(v) => Data::I8(source.map(|i| v[i]).collect()),
            Data::I16(v) => Data::I16(source.map(|i| v[i]).collect()),
            Data::I32(v) => Data::I32(source.map(|i| v[i]).collect()),
            Data::U8(v) => Data::U8(source.map(|i| v[i]).collect()),
            Data::U16(v) => Data::U16(source.map(|i| v[i]).collect()),
            Data::U32(v) => Data::U32(source.map(|i| v[i]).collect()),
        };
        Tensor::new(ty, data, self.scale)
    }

    /// Whether both have the same type and the same bits (floats compared by bits).
    pub fn bits_equal(&self, other: &Tensor) -> bool {
        self.ty == other.ty && self.first_difference(other).is_none()
    }

    /// FNV-1a (64 bits) of the type's text, a zero byte, the elements in little-endian order as stored (sub-byte ones a
    /// byte each), then the run-time scale (exponent; scales, then zero points; block exponents).
    pub fn content_hash(&self) -> u64 {
        *self.hash.get_or_init(|| self.hashed())
    }

    fn hashed(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        add(self.ty.to_string().as_bytes());
        add(&[0]);
        match &self.data {
            Data::F32(v) => v.iter().for_each(|x| add(&x.to_bits().to_le_bytes())),
            Data::I8(v) => v.iter().for_each(|x| add(&x.to_le_bytes())),
            Data::I16(v) => v.iter().for_each(|x| add(&x.to_le_bytes())),
            Data::I32(v) => v.iter().for_each(|x| add(&x.to_le_bytes())),
            Data::U8(v) => add(v),
            Data::U16(v) => v.iter().for_each(|x| add(&x.to_le_bytes())),
            Data::U32(v) => v.iter().for_each(|x| add(&x.to_le_bytes())),
        }
        match &self.scale {
            ScaleData::None => {}
            ScaleData::Exponent(e) => add(&e.to_le_bytes()),
        }
        hash
    }

    /// Index of the first element whose bits differ (`usize::MAX` if only the scale differs).
    pub fn first_difference(&self, other: &Tensor) -> Option<usize> {
        let floats =
            |a: &[f32], b: &[f32]| a.iter().zip(b).position(|(x, y)| x.to_bits() != y.to_bits());
        let element = match (&self.data, &other.data) {
            (Data::F32(a), Data::F32(b)) => floats(a, b),
            (a, b) if a == b => None,
            (a, b) if std::mem::discriminant(a) == std::mem::discriminant(b) => {
                self.to_i64().iter().zip(other.to_i64()).position(|(x, y)| *x != y)
            }
            _ => Some(0),
        };
        element.or((self.scale != other.scale).then_some(usize::MAX))
    }
}
