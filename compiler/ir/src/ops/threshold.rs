//! `threshold`. See [`Threshold`].

use crate::attributes::Attributes;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::support::{narrow, sample};
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// `low` plus the number of a channel's thresholds that are not above the sum: i32 sums to narrow integers, any
    /// monotone staircase at once. Operands: `acc` i32 `[..,C]`, `thresholds` i32 `[C,L]` (each row ascending), optional
    /// `flip` i32 `[C]` (each 0 or -1). Result: `low + #{k : (acc ^ flip[c]) >= thresholds[c][k]}`. A flip of -1
    /// compares the complement, for stairs that fall; rows of the extremes give constants. No gradient.
    pub struct Threshold = "threshold" {
        /// Result below all thresholds.
        pub low: i32,
        /// Element of the result.
        pub element: Element,
    }
}

impl Operator for Threshold {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::ContinuesChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let (acc, thresholds, flip) = match *inputs {
            [acc, thresholds] => (acc, thresholds, None),
            [acc, thresholds, flip] => (acc, thresholds, Some(flip)),
            _ => {
                let count = inputs.len();
                let message = format!("{} takes 2 or 3 operand(s), here {count}", Self::NAME);
                return Err(TypeError::new(message));
            }
        };
        let vectors: Vec<&TensorType> = flip.into_iter().collect();
        let channels = narrow::channelwise(Self::NAME, acc, &vectors)?;
        let plain = thresholds.element == Element::I32 && thresholds.scale == Scale::None;
        let levels = match *thresholds.shape.dims() {
            [rows, levels] if plain && rows == channels && levels >= 1 => levels,
            _ => {
                return Err(TypeError::new(format!(
                    "{} takes i32 thresholds [{channels}, L], here {thresholds}",
                    Self::NAME
                )));
            }
        };
        let high = i64::from(self.low).saturating_add(i64::try_from(levels).unwrap_or(i64::MAX));
        narrow::result_range(Self::NAME, [self.low.into(), high], self.element)?;
        Ok(vec![acc.with_element(self.element)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (acc, thresholds) = (inputs[0].as_i32(), inputs[1].as_i32());
        let flip = inputs.get(2).map(|flip| flip.as_i32());
        let (channels, levels) = (inputs[1].shape()[0], inputs[1].shape()[1]);
        let q = acc.iter().enumerate().map(|(i, acc)| {
            let channel = i % channels;
            let acc = acc ^ flip.map_or(0, |flip| flip[channel]);
            let row = &thresholds[channel * levels..][..levels];
            i64::from(self.low) + row.iter().filter(|&&t| acc >= t).count() as i64
        });
        let ty = inputs[0].ty().with_element(self.element);
        vec![Tensor::from_i64(&ty, &q.collect::<Vec<_>>(), ScaleData::None)]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let (channels, levels) = (inputs[1].shape[0], inputs[1].shape[1]);
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let [acc, thresholds] = [0, 1].map(|i| b.input(i));
        let flip = (inputs.len() == 3).then(|| b.input(2));
        let y = b.output(0);
        let rows = inputs[0].count().checked_div(channels).unwrap_or(0);
        b.for_("row", rows, |b, row| {
            let row = b.let_("first", row * Expr::index(channels));
            b.for_("channel", channels, |b, channel| {
                let i = row + channel.clone();
                let sum = b.load(acc, i.clone());
                let sum = match flip {
                    Some(flip) => sum.xor(b.load(flip, channel.clone())),
                    None => sum,
                };
                let sum = b.let_("sum", sum);
                let stairs = b.let_("stairs", channel * Expr::index(levels));
                let level = b.local("level", Expr::i32(self.low));
                b.for_("k", levels, |b, k| {
                    let reached = b.load(thresholds, stairs + k).less_equal(sum);
                    b.set(level, b.get(level) + reached.unary(Unary::BoolToInteger));
                });
                b.store(y, i, b.get(level));
            });
        });
        b.finish()
    }

    fn cases() -> Vec<Case> {
        use Element::{B1, I2, I4, I8, I32, U2, U4, U8};
        let op = |low, element| Threshold { low, element };
        let case =
            |op: Threshold, acc: &[i32], rows: &[&[i32]], flip: Option<&[i32]>, y: &[i64]| {
                let (channels, levels) = (rows.len(), rows[0].len());
                let shape = [acc.len() / channels, channels];
                let mut inputs = vec![
                    Tensor::i32(shape, acc.to_vec()),
                    Tensor::i32([channels, levels], rows.concat()),
                ];
                inputs.extend(flip.map(|flip| Tensor::i32([channels], flip.to_vec())));
                let ty = TensorType::new(shape, op.element);
                Case::new(op, inputs, vec![Tensor::from_i64(&ty, y, ScaleData::None)])
            };
        let mut cases = vec![
            // Below, on and above each threshold; equal thresholds are passed together.
            case(
                op(0, U2),
                &[-6, 0, -5, 1, -4, 2, 7, 3, 8, 9],
                &[&[-5, 0, 8], &[2, 2, 3]],
                None,
                &[0, 0, 1, 0, 1, 2, 2, 3, 3, 3],
            ),
            case(op(-2, I2), &[0, 4, 5, 100], &[&[0, 5, 100]], None, &[-1, -1, 0, 1]),
            // Flipped: acc <= -1 - t, so 4, 0 and -9 for the first channel.
            case(
                op(0, U2),
                &[5, 5, 4, 4, 0, 0, -9, -9],
                &[&[-5, -1, 8], &[-5, -1, 8]],
                Some(&[-1, 0]),
                &[0, 2, 1, 2, 2, 2, 3, 0],
            ),
            // Constants: all or none of a row, whatever the sum but the largest.
            case(
                op(-1, I2),
                &[i32::MIN, i32::MIN, i32::MAX - 1, i32::MAX - 1],
                &[&[i32::MIN, i32::MIN], &[i32::MAX, i32::MAX]],
                None,
                &[1, -1, 1, -1],
            ),
            case(
                op(0, B1),
                &[i32::MIN, i32::MIN, i32::MAX, i32::MAX],
                &[&[i32::MAX], &[i32::MAX]],
                Some(&[-1, 0]),
                &[1, 0, 0, 1],
            ),
        ];
        let ranges = [(U8, 0), (U4, 0), (U2, 0), (I8, -128), (I4, -8), (I2, -2), (B1, 0)];
        for (salt, (element, low)) in ranges.into_iter().enumerate() {
            let salt = 4 * salt as u32;
            let levels = (1 << element.bits()) - 1;
            // Wide rows for few channels.
            let channels = if element.bits() == 8 { [2, 3] } else { [5, 8] };
            for (shape, flipped) in
                [([2, 3, 3, channels[0]], true), ([1, 2, 3, channels[1]], false)]
            {
                let channels = shape[3];
                let mut rows = sample::integers([channels, levels], I32, salt).as_i32().to_vec();
                rows.chunks_exact_mut(levels).for_each(|row| row.sort_unstable());
                let mut inputs = vec![
                    sample::integers(shape, I32, salt + 1),
                    Tensor::i32([channels, levels], rows),
                ];
                if flipped {
                    let flip = (0..channels as i32).map(|c| -(c % 2)).collect();
                    inputs.push(Tensor::i32([channels], flip));
                }
                cases.push(Case::shape_only(op(low, element), inputs));
            }
        }
        cases
    }
}
