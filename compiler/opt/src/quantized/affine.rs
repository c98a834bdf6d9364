//! Chains that are affine up to clamps and one rounding: the only ones that a scale, an offset and a shift can follow.

use trainc_ir::Op;
use trainc_ir::ops::Rounding;

use crate::stage::chain::{Chain, Step};

/// `clamp(round(slope * sum + offset), low, high)` of one channel, in real numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Affine {
    pub(crate) slope: f64,
    pub(crate) offset: f64,
    /// Bounds of the running value.
    low: f64,
    high: f64,
}

/// A chain as affine functions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AffineChain {
    /// One a channel.
    pub(crate) channels: Vec<Affine>,
    /// Least and largest result: the same for all channels.
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// What is added before the floor: 0.5 rounds to nearest, 0 down.
    pub(crate) rounding: f64,
}

impl Affine {
    fn scaled(self, factor: f64) -> Affine {
        if factor == 0.0 {
            // One number, which needs no clamp.
            return Affine { slope: 0.0, offset: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let (a, b) = (self.low * factor, self.high * factor);
        let (slope, offset) = (self.slope * factor, self.offset * factor);
        Affine { slope, offset, low: a.min(b), high: a.max(b) }
    }

    fn moved(self, by: f64) -> Affine {
        Affine {
            slope: self.slope,
            offset: self.offset + by,
            low: self.low + by,
            high: self.high + by,
        }
    }

    fn clamped(self, low: f64, high: f64) -> Affine {
        let clamp = |v: f64| v.max(low).min(high);
        Affine { low: clamp(self.low), high: clamp(self.high), ..self }
    }
}

/// The constant `index` of a step at a channel.
fn at(step: &Step, index: usize, channel: usize) -> f64 {
    let constant = &step.constants[index];
    let position = if constant.ty().count() == 1 { 0 } else { channel };
    if constant.ty().is_f32() {
        f64::from(constant.as_f32()[position])
    } else {
        constant.to_i64()[position] as f64
    }
}

/// The chain as affine functions; `None` if it is not of that form.
pub(crate) fn affine(chain: &Chain) -> Option<AffineChain> {
    let start = Affine { slope: 1.0, offset: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
    let mut values = vec![start; chain.channels];
    // After a rounding nothing but the same grid may follow.
    let mut rounded: Option<(f64, Vec<(f64, f64)>)> = None;
    let mut rounding = 0.5;
    for step in &chain.steps {
        let last = matches!(step.op, Op::QuantizeLinear(_));
        if let Some((_, grids)) = &rounded {
            let same = last
                && grids
                    .iter()
                    .enumerate()
                    .all(|(c, &(scale, zero))| scale == at(step, 0, c) && zero == at(step, 1, c));
            if same {
                continue;
            }
            return None;
        }
        let mut grids = Vec::new();
        for (c, value) in values.iter_mut().enumerate() {
            let v = *value;
            let constant = |i: usize| at(step, i, c);
            let first = step.position == 0;
            *value = match &step.op {
                Op::DequantizeLinear(_) => v.moved(-constant(1)).scaled(constant(0)),
                Op::Add(_) => v.moved(constant(0)),
                Op::Sub(_) if first => v.moved(-constant(0)),
                Op::Sub(_) => v.scaled(-1.0).moved(constant(0)),
                Op::Mul(_) => v.scaled(constant(0)),
                Op::Div(_) if first => v.scaled(1.0 / constant(0)),
                Op::Neg(_) => v.scaled(-1.0),
                Op::Maximum(_) => v.clamped(constant(0), f64::INFINITY),
                Op::Minimum(_) => v.clamped(f64::NEG_INFINITY, constant(0)),
                Op::Relu(_) => v.clamped(0.0, f64::INFINITY),
                Op::Clip(clip) => v.clamped(clip.min.get().into(), clip.max.get().into()),
                Op::Reshape(_) => v,
                Op::BatchNorm(norm) => {
                    let inverse = 1.0 / (constant(3) + f64::from(norm.epsilon.get())).sqrt();
                    v.moved(-constant(2)).scaled(inverse * constant(0)).moved(constant(1))
                }
                Op::Quant(quant) => {
                    rounding = match quant.rounding {
                        Rounding::HalfEven | Rounding::HalfUp | Rounding::HalfDown => 0.5,
                        Rounding::Floor => 0.0,
                        _ => return None,
                    };
                    if quant.is_bipolar() {
                        return None;
                    }
                    grids.push((constant(0), constant(1)));
                    let [low, high] = quant.bounds().map(f64::from);
                    v.scaled(1.0 / constant(0)).moved(constant(1)).clamped(low, high)
                }
                Op::QuantizeLinear(_) => v.scaled(1.0 / constant(0)).moved(constant(1)),
                _ => return None,
            };
        }
        if !grids.is_empty() {
            rounded = Some((rounding, grids));
        }
    }
    let (least, most) = chain.element.integer_range()?;
    let whole = |v: f64| (v + rounding).floor().clamp(least as f64, most as f64) as i64;
    let ends = |v: &Affine| (whole(v.low), whole(v.high));
    let (low, high) = ends(values.first()?);
    let finite = |v: &Affine| v.slope.is_finite() && v.offset.is_finite();
    let fits = values.iter().all(|v| ends(v) == (low, high) && finite(v));
    (fits && low <= high).then_some(AffineChain { channels: values, low, high, rounding })
}
