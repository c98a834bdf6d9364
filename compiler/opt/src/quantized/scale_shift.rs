//! Affine chains as PULP-NN's output stage: `(sum * kappa + lambda) >> shift`, clamped.
//!
//! The shift is the largest at which no channel's product and sum leave 32 bits for the sums that its weights allow, so
//! `kappa` keeps as many bits as there are. `lambda` holds the offset, the half that rounds to nearest, and what
//! centres the error of the rounded `kappa` on the sums that are not clamped. Where the largest error is below one
//! level the result is at most one level off; where it would not be, or more than a quarter of the sums tried are off,
//! there is no such stage.

use super::affine::{Affine, affine};
use crate::stage::chain::Chain;

/// The operands and attributes of `scale_shift`, with how close it comes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stage {
    pub(crate) scale: Vec<i32>,
    pub(crate) offset: Vec<i32>,
    pub(crate) shift: u32,
    pub(crate) low: i32,
    pub(crate) high: i32,
    /// Share of the sums tried, in the range that is not clamped, whose result is one level off.
    pub(crate) off_by_one: f64,
}

/// Sums of a channel that are tried.
const SAMPLES: i64 = 1 << 10;
/// Largest error in levels, before the floor, that leaves room for the chain's own roundings.
const LARGEST_ERROR: f64 = 0.99;
/// Largest share of sums that may be one level off.
const LARGEST_SHARE: f64 = 0.25;

/// The stage for a chain whose sums are within bounds (one pair, or one a channel).
pub(crate) fn stage(chain: &Chain, bounds: &[(i64, i64)]) -> Option<Stage> {
    let form = affine(chain)?;
    let bounds: Vec<(i64, i64)> = (0..chain.channels)
        .map(|c| if bounds.len() == 1 { Some(bounds[0]) } else { bounds.get(c).copied() })
        .collect::<Option<_>>()?;
    // Channels that give one integer, whatever the sum, take it from the chain.
    let ends = |pick: fn(&(i64, i64)) -> i64| {
        let sums: Option<Vec<i32>> = bounds.iter().map(|b| i32::try_from(pick(b)).ok()).collect();
        chain.evaluate(&sums?)
    };
    let (first, last) = (ends(|b| b.0)?, ends(|b| b.1)?);
    let constant: Vec<Option<i64>> =
        first.iter().zip(&last).map(|(a, b)| (a == b).then_some(*a)).collect();
    let levels = (form.low as f64, form.high as f64);
    let chosen = (0..=31u32).rev().find_map(|shift| {
        let unit = (1u64 << shift) as f64;
        let mut pairs = Vec::with_capacity(chain.channels);
        for (c, channel) in form.channels.iter().enumerate() {
            let pair = match constant[c] {
                Some(value) => (0, i32::try_from((value << shift) + (1i64 << shift >> 1)).ok()?),
                None => pair(channel, form.rounding, unit, levels, bounds[c])?,
            };
            pairs.push(pair);
        }
        Some((shift, pairs))
    });
    let (shift, pairs) = chosen?;
    let unit = (1u64 << shift) as f64;
    let close = form.channels.iter().enumerate().all(|(c, channel)| {
        constant[c].is_some()
            || error(channel, form.rounding, unit, levels, bounds[c], pairs[c]) < LARGEST_ERROR
    });
    if !close {
        return None;
    }
    let mut stage = Stage {
        scale: pairs.iter().map(|p| p.0).collect(),
        offset: pairs.iter().map(|p| p.1).collect(),
        shift,
        low: i32::try_from(form.low).ok()?,
        high: i32::try_from(form.high).ok()?,
        off_by_one: 0.0,
    };
    stage.off_by_one = stage.compare(chain, &form.channels, &bounds)?;
    (stage.off_by_one <= LARGEST_SHARE).then_some(stage)
}

/// The sums that are not clamped, or not by more than a level.
fn open(channel: &Affine, (low, high): (f64, f64), (least, most): (i64, i64)) -> (f64, f64) {
    let at = |level: f64| (level - channel.offset) / channel.slope;
    let (a, b) = (at(low - 1.0), at(high + 1.0));
    let clamp = |v: f64| v.clamp(least as f64, most as f64);
    (clamp(a.min(b)), clamp(a.max(b)))
}

/// Kappa and lambda at a scale of `unit`; `None` if something leaves 32 bits.
fn pair(
    channel: &Affine,
    rounding: f64,
    unit: f64,
    levels: (f64, f64),
    bounds: (i64, i64),
) -> Option<(i32, i32)> {
    let limit = f64::from(i32::MAX);
    let kappa = (channel.slope * unit).round();
    let (a, b) = open(channel, levels, bounds);
    let excess = kappa - channel.slope * unit;
    let lambda = (unit * (channel.offset + rounding) - excess * (a + b) / 2.0).round();
    let fits = |v: f64| v.abs() < limit;
    let at = |sum: i64| kappa * sum as f64 + lambda;
    let all = fits(kappa) && fits(lambda);
    (all && fits(at(bounds.0)) && fits(at(bounds.1))).then_some((kappa as i32, lambda as i32))
}

/// The largest difference from the chain before the floor, in levels, of sums that are not clamped.
fn error(
    channel: &Affine,
    rounding: f64,
    unit: f64,
    levels: (f64, f64),
    bounds: (i64, i64),
    (kappa, lambda): (i32, i32),
) -> f64 {
    let (a, b) = open(channel, levels, bounds);
    let at = |sum: f64| {
        let exact = channel.slope * sum + channel.offset + rounding;
        ((f64::from(kappa) * sum + f64::from(lambda)) / unit - exact).abs()
    };
    at(a).max(at(b))
}

impl Stage {
    /// The result for a sum of a channel.
    pub(crate) fn value(&self, channel: usize, sum: i32) -> i64 {
        let moved = sum.wrapping_mul(self.scale[channel]).wrapping_add(self.offset[channel]);
        (moved >> self.shift).clamp(self.low, self.high).into()
    }

    /// The share of sums that are one level off; `None` if one is further off.
    fn compare(&self, chain: &Chain, form: &[Affine], bounds: &[(i64, i64)]) -> Option<f64> {
        let levels = (f64::from(self.low), f64::from(self.high));
        let ranges: Vec<(i64, i64)> = form
            .iter()
            .zip(bounds)
            .map(|(channel, &bounds)| match channel.slope {
                0.0 => bounds,
                _ => {
                    let (a, b) = open(channel, levels, bounds);
                    (a as i64, b as i64)
                }
            })
            .collect();
        let mut sums = Vec::new();
        for row in 0..=SAMPLES {
            sums.extend(ranges.iter().map(|&(a, b)| (a + (b - a) * row / SAMPLES) as i32));
        }
        let found = chain.evaluate(&sums)?;
        let off =
            |(i, found): (usize, i64)| (self.value(i % chain.channels, sums[i]) - found).abs();
        let total: Vec<i64> = found.into_iter().enumerate().map(off).collect();
        let most = total.iter().max().copied().unwrap_or(0);
        let count: i64 = total.iter().sum();
        (most <= 1).then_some(count as f64 / total.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trainc_ir::ops::{Add, DequantizeLinear, Mul, QuantizeLinear, Relu};
    use trainc_ir::{Element, Op, ScaleData, Shape, Tensor, TensorType};

    use super::*;
    use crate::stage::chain::Step;

    /// `u8(relu(sum * gain + bias) / 0.05)` of each channel.
    fn chain(gains: &[f32], biases: &[f32]) -> Chain {
        let channels = gains.len();
        let shape: Shape = [1, channels, 1, 1].into();
        let step = |op: Op, constants: Vec<Tensor>| Step {
            op,
            constants: constants.into_iter().map(Arc::new).collect(),
            position: 0,
            shape: shape.clone(),
        };
        let scalar = |v: f32| Tensor::f32([], vec![v]);
        let vector = |v: &[f32]| Tensor::f32([1, channels, 1, 1], v.to_vec());
        let zero = Tensor::from_i64(&TensorType::new([], Element::U8), &[0], ScaleData::None);
        let steps = vec![
            step(DequantizeLinear { axis: 1 }.into(), vec![scalar(1.0), Tensor::i32([], vec![0])]),
            step(Mul {}.into(), vec![vector(gains)]),
            step(Add {}.into(), vec![vector(biases)]),
            step(Relu {}.into(), vec![]),
            step(QuantizeLinear { axis: 0 }.into(), vec![scalar(0.05), zero]),
        ];
        Chain { axis: 1, channels, steps, element: Element::U8 }
    }

    /// Slopes of both signs and zero; every sum, against the chain, and never out of 32 bits.
    #[test]
    fn at_most_one_level_off_and_no_overflow() {
        let (gains, biases) = ([0.013, -0.0071, 0.0, 0.0, 2.5], [0.2, 3.0, 1.0, -1.0, -4.0]);
        let chain = chain(&gains, &biases);
        let bounds = [(-9000, 9000), (-20000, 800), (-5, 5), (-100, 100), (-300, 300)];
        let stage = stage(&chain, &bounds).expect("an affine chain");
        assert_eq!((stage.low, stage.high), (0, 255));
        assert!(stage.scale[1] < 0 && stage.scale[2..4] == [0, 0]);
        let (mut off, mut total) = (0, 0);
        for sum in -20000..=9000 {
            let sums: Vec<i32> =
                bounds.iter().map(|&(a, b)| i64::from(sum).clamp(a, b) as i32).collect();
            for (c, expected) in chain.evaluate(&sums).expect("finite").into_iter().enumerate() {
                let wide =
                    i64::from(sums[c]) * i64::from(stage.scale[c]) + i64::from(stage.offset[c]);
                assert!(i32::try_from(wide).is_ok(), "channel {c}, sum {}", sums[c]);
                let difference = (stage.value(c, sums[c]) - expected).abs();
                assert!(difference <= 1, "channel {c}, sum {}: {difference}", sums[c]);
                off += difference;
                total += 1;
            }
        }
        assert!(off * 1000 < total, "{off} of {total} are one level off");
    }

    /// The shift is the largest: one more would leave 32 bits.
    #[test]
    fn the_shift_uses_the_bits_there_are() {
        let chain = chain(&[0.05], &[0.0]);
        let stage = stage(&chain, &[(0, 1000)]).expect("an affine chain");
        // 1000 * 2^21 < 2^31 <= 1000 * 2^22, and the half for rounding.
        assert_eq!((stage.shift, stage.scale[0]), (21, 1 << 21));
        assert_eq!(stage.offset[0], 1 << 20);
        assert!(stage.off_by_one < 0.001);
    }

    /// Where sums are so wide that kappa keeps too few bits, there is no such stage.
    #[test]
    fn too_wide_sums_are_refused() {
        let chain = chain(&[0.05], &[0.0]);
        assert_eq!(stage(&chain, &[(-(1 << 30), 1 << 30)]), None);
    }
}
