//! Grids of integers: what a quantizer of the model rounds to.

use trainc_ir::ops::grid_bounds;
use trainc_ir::{Element, Op, ScaleData, Shape, Tensor, TensorType};

/// One grid for a whole tensor: `(q - zero) * scale` for integers `low..=high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Grid {
    /// Real size of a step, positive.
    pub(crate) scale: f32,
    /// The integer that stands for 0.
    pub(crate) zero: i64,
    /// Smallest integer.
    pub(crate) low: i64,
    /// Largest integer.
    pub(crate) high: i64,
    /// What holds the integers and the zero.
    pub(crate) element: Element,
}

/// From narrow to wide, unsigned first.
const ELEMENTS: [Element; 6] =
    [Element::U2, Element::I2, Element::U4, Element::I4, Element::U8, Element::I8];

/// The narrowest element that holds all these integers.
pub(crate) fn narrowest(low: i64, high: i64) -> Option<Element> {
    ELEMENTS
        .into_iter()
        .find(|e| e.integer_range().is_some_and(|(least, most)| least <= low && high <= most))
}

impl Grid {
    /// A grid, if its integers fit 8 bits and its scale is a positive number.
    pub(crate) fn new(scale: f32, zero: i64, low: i64, high: i64) -> Result<Grid, String> {
        if !(scale.is_finite() && scale > 0.0) {
            return Err(format!("its scale is {scale}, not a positive number"));
        }
        let element = narrowest(low.min(zero), high.max(zero))
            .ok_or_else(|| format!("its integers {low}..={high} do not fit 8 bits"))?;
        Ok(Grid { scale, zero, low, high, element })
    }

    /// The grid of a quantizer with these operands beside the quantized value.
    pub(crate) fn of(op: &Op, constants: &[&Tensor]) -> Result<Grid, String> {
        let one = |i: usize, what: &str| -> Result<f32, String> {
            let values = constants.get(i).map(|t| t.as_f32()).unwrap_or_default();
            match values {
                [first, rest @ ..] if rest.iter().all(|v| v == first) => Ok(*first),
                _ => Err(format!("its {what} differs from channel to channel")),
            }
        };
        let whole = |v: f32| match v.fract() == 0.0 && v.abs() <= 1024.0 {
            true => Ok(v as i64),
            false => Err(format!("its zero point {v} is not a small whole number")),
        };
        match op {
            Op::Quant(quant) => {
                let [low, high] = quant.bounds().map(|v| v as i64);
                Grid::new(one(0, "scale")?, whole(one(1, "zero point")?)?, low, high)
            }
            Op::BipolarQuant(_) => Grid::new(one(0, "scale")?, 0, -1, 1),
            Op::Trunc(trunc) => {
                let [low, high] = grid_bounds(trunc.signed, trunc.narrow, trunc.bits);
                let (scale, zero) = (one(2, "scale")?, whole(one(3, "zero point")?)?);
                Grid::new(scale, zero, low as i64, high as i64)
            }
            Op::QuantizeLinear(_) | Op::DequantizeLinear(_) => {
                let zeros = constants.get(1).ok_or("it has no zero point")?;
                let integers = zeros.to_i64();
                let zero = match integers.split_first() {
                    Some((first, rest)) if rest.iter().all(|v| v == first) => *first,
                    _ => return Err("its zero point differs from channel to channel".into()),
                };
                let element = zeros.ty().element;
                let (low, high) = element.integer_range().ok_or("its zero point is a float")?;
                let grid = Grid::new(one(0, "scale")?, zero, low, high)?;
                Ok(Grid { element, ..grid })
            }
            other => Err(format!("`{}` is no quantizer", other.kind().name())),
        }
    }

    /// Whether results need all 8 bits: no other element holds them.
    pub(crate) fn is_wide(&self) -> bool {
        self.high - self.low >= 128
    }

    /// The scale as an operand.
    pub(crate) fn scale_tensor(&self) -> Tensor {
        Tensor::f32(Shape::scalar(), vec![self.scale])
    }

    /// The zero point as an operand.
    pub(crate) fn zero_tensor(&self) -> Tensor {
        let ty = TensorType::new(Shape::scalar(), self.element);
        Tensor::from_i64(&ty, &[self.zero], ScaleData::None)
    }

    /// The integer of a real number that lies on the grid; `None` if it does not.
    pub(crate) fn integer(&self, value: f32) -> Option<i64> {
        let q = (value / self.scale).round_ties_even();
        (q * self.scale == value && q.abs() < 1e6).then_some(q as i64 + self.zero)
    }
}

/// Integers of at most 8 bits with a scale for each index of the first axis (or one for all).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Weights {
    /// The zero point is taken away already.
    pub(crate) integers: Vec<i64>,
    /// One, or one a channel.
    pub(crate) scales: Vec<f32>,
}

impl Weights {
    /// Weights from their values and a scale for each element; `outer` is the axis of output channels.
    ///
    /// # Errors
    /// If the values are not multiples of the scales within 8 bits, or scales vary within a channel.
    pub(crate) fn of(values: &Tensor, scales: &Tensor, outer: usize) -> Result<Weights, String> {
        let (v, s) = (values.as_f32(), scales.as_f32());
        let shape = values.shape();
        let channels = shape.get(outer).copied().unwrap_or(1);
        let stride = shape.strides().get(outer).copied().unwrap_or(1).max(1);
        let mut own: Vec<Option<f32>> = vec![None; channels];
        let mut integers = Vec::with_capacity(v.len());
        for (i, (&v, &s)) in v.iter().zip(s).enumerate() {
            let scale = own[i / stride % channels.max(1)].get_or_insert(s);
            if *scale != s {
                return Err("their scale varies within an output channel".into());
            }
            let q = (v / s).round_ties_even();
            let close = (q * s - v).abs() <= 1e-5 * v.abs();
            if !(close && q.abs() <= 256.0) {
                return Err(format!("{v} is no multiple of {s} within 8 bits"));
            }
            integers.push(q as i64);
        }
        let (low, high) = (integers.iter().min(), integers.iter().max());
        if low.is_some_and(|&v| v < -128) || high.is_some_and(|&v| v > 127) {
            return Err("less their zero point they do not fit 8 signed bits".into());
        }
        let mut scales: Vec<f32> = own.into_iter().map(|s| s.unwrap_or(1.0)).collect();
        if scales.windows(2).all(|w| w[0] == w[1]) {
            scales.truncate(1);
        }
        Ok(Weights { integers, scales })
    }

    /// The narrowest signed element that holds them.
    pub(crate) fn element(&self) -> Element {
        let fits = |e: &Element| {
            let (low, high) = e.integer_range().unwrap_or((0, 0));
            self.integers.iter().all(|v| (low..=high).contains(v))
        };
        [Element::I2, Element::I4].into_iter().find(fits).unwrap_or(Element::I8)
    }
}
