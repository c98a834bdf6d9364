//! Types of the language: elements, shapes, scales.
//!
//! A tensor type is a shape, an element type and a *scale*: how stored elements map to real numbers. A scaled
//! tensor is one value: its elements travel with the run-time part of the scale, an exponent, so an operation defines both
//! at once. Scales that are FP32 numbers, one or many a tensor, are values of their own (`quantize_steps`).

use std::fmt;

/// The type of one stored element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Element {
    /// IEEE binary32.
    F32,
    /// Signed two's complement integers.
    I2,
    /// 4-bit signed.
    I4,
    /// 8-bit signed.
    I8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// Unsigned integers.
    U2,
    /// 4-bit unsigned.
    U4,
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// One bit; the operation says which real numbers 0 and 1 stand for.
    B1,
}

impl Element {
    /// Every element type.
    pub const ALL: [Element; 12] = [
        Element::F32,
        Element::I2,
        Element::I4,
        Element::I8,
        Element::I16,
        Element::I32,
        Element::U2,
        Element::U4,
        Element::U8,
        Element::U16,
        Element::U32,
        Element::B1,
    ];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::I2 => "i2",
            Element::I4 => "i4",
            Element::I8 => "i8",
            Element::I16 => "i16",
            Element::I32 => "i32",
            Element::U2 => "u2",
            Element::U4 => "u4",
            Element::U8 => "u8",
            Element::U16 => "u16",
            Element::U32 => "u32",
            Element::B1 => "b1",
        }
    }

    /// The element type of that name.
    pub fn from_name(name: &str) -> Option<Element> {
        Element::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Element::B1 => 1,
            Element::I2 | Element::U2 => 2,
            Element::I4 | Element::U4 => 4,
            Element::I8 | Element::U8 => 8,
            Element::I16 | Element::U16 => 16,
            Element::I32 | Element::U32 | Element::F32 => 32,
        }
    }

    /// Bytes that `count` packed elements take.
    pub fn bytes(self, count: usize) -> usize {
        (count * self.bits() as usize).div_ceil(8)
    }

    /// Whether the element is a floating-point number.
    pub fn is_float(self) -> bool {
        self == Element::F32
    }

    /// Smallest and largest value of an integer element; `None` for floats.
    pub fn integer_range(self) -> Option<(i64, i64)> {
        let bits = self.bits();
        match self {
            Element::F32 => None,
            Element::I2 | Element::I4 | Element::I8 | Element::I16 | Element::I32 => {
                Some((-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1))
            }
            Element::U2 | Element::U4 | Element::U8 | Element::U16 | Element::U32 | Element::B1 => {
                Some((0, (1i64 << bits) - 1))
            }
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How stored elements `q` map to real numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Scale {
    /// The element is the number.
    #[default]
    None,
    /// `q * 2^e`, one run-time exponent `e` (i32) a tensor: NITI's shared power of two.
    Exponent,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scale::None => Ok(()),
            Scale::Exponent => f.write_str("<2^e>"),
        }
    }
}

/// Dimensions of a tensor, outermost first; row-major order. The empty shape is a scalar.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// The scalar shape.
    pub fn scalar() -> Shape {
        Shape(Vec::new())
    }

    /// Dimensions as a slice.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements (1 for a scalar). Saturates, so that a hostile shape cannot overflow.
    pub fn count(&self) -> usize {
        self.0.iter().fold(1usize, |n, &d| n.saturating_mul(d))
    }

    /// Row-major strides in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.0.len()];
        for i in (0..self.0.len().saturating_sub(1)).rev() {
            strides[i] = strides[i + 1].saturating_mul(self.0[i + 1]);
        }
        strides
    }

    /// The shape that both broadcast to by NumPy's rule (align right; 1 stretches), if there is one.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let dim = |s: &Shape, i: usize| {
            let missing = rank - s.rank();
            if i < missing { 1 } else { s.0[i - missing] }
        };
        (0..rank)
            .map(|i| match (dim(self, i), dim(other, i)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Shape)
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(dims)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(dims.to_vec())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(dims.to_vec())
    }
}

impl std::ops::Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// The type of a tensor value.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TensorType {
    /// Dimensions.
    pub shape: Shape,
    /// Stored element.
    pub element: Element,
    /// Meaning of the stored elements.
    pub scale: Scale,
}

impl TensorType {
    /// An unscaled tensor type.
    pub fn new(shape: impl Into<Shape>, element: Element) -> TensorType {
        TensorType { shape: shape.into(), element, scale: Scale::None }
    }

    /// An FP32 tensor type.
    pub fn f32(shape: impl Into<Shape>) -> TensorType {
        TensorType::new(shape, Element::F32)
    }

    /// A tensor with one shared run-time exponent.
    pub fn shared(shape: impl Into<Shape>, element: Element) -> TensorType {
        TensorType { shape: shape.into(), element, scale: Scale::Exponent }
    }

    /// The same type with another shape.
    pub fn with_shape(&self, shape: impl Into<Shape>) -> TensorType {
        TensorType { shape: shape.into(), ..self.clone() }
    }

    /// The same type with another element.
    pub fn with_element(&self, element: Element) -> TensorType {
        TensorType { element, ..self.clone() }
    }

    /// Whether this is an unscaled FP32 tensor.
    pub fn is_f32(&self) -> bool {
        self.element == Element::F32 && self.scale == Scale::None
    }

    /// Whether elements are integers with one shared run-time exponent.
    pub fn is_shared_integer(&self) -> bool {
        !self.element.is_float() && self.scale == Scale::Exponent
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// Bytes of the packed elements.
    pub fn element_bytes(&self) -> usize {
        self.element.bytes(self.count())
    }

    /// Bytes of the run-time part of the scale: 4 for an exponent.
    pub fn scale_bytes(&self) -> usize {
        match self.scale {
            Scale::None => 0,
            Scale::Exponent => 4,
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.element, self.scale, self.shape)
    }
}
