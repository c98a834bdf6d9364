//! Chains: what stands between integer sums and the integers that a quantizer makes of them, as operations on each
//! channel alone.
//!
//! A chain starts with `dequantize_linear`, ends with `quantize_linear`, and all between is elementwise with operands
//! that are known and depend on nothing but the channel. It is evaluated by the operations' own definitions, so what
//! is found about it holds for the module's bits.

use std::sync::Arc;

use trainc_ir::ops::properties::Order;
use trainc_ir::types::{Scale, Shape};
use trainc_ir::{Data, Element, Op, RunContext, ScaleData, Tensor, TensorType};

use super::source::Source;

/// Longest chain.
const LONGEST: usize = 24;

/// An operation on the running value.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    /// The other operands, in order.
    pub(crate) constants: Vec<Arc<Tensor>>,
    /// Which operand is the running value.
    pub(crate) position: usize,
    /// Shape of the running value before the operation.
    pub(crate) shape: Shape,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// The axis of the channels, the same in every step; not 0.
    pub(crate) axis: usize,
    /// Size of that axis.
    pub(crate) channels: usize,
    /// From `dequantize_linear` to `quantize_linear`.
    pub(crate) steps: Vec<Step>,
    /// Element of the result.
    pub(crate) element: Element,
}

/// The chain that ends in `root`, with the integers that it starts from.
pub(crate) fn trace<S: Source>(source: &S, root: S::Id) -> Option<(S::Id, Chain)> {
    let element = source.ty(root)?.element;
    source.producers(root).into_iter().find_map(|(op, operands)| {
        if !matches!(op, Op::QuantizeLinear(_) | Op::SignBits(_)) {
            return None;
        }
        let mut steps = vec![step(source, op, &operands, 0)?];
        let start = walk(source, operands[0], &mut steps)?;
        steps.reverse();
        let axis = channel_axis(&steps)?;
        let channels = *steps[0].shape.get(axis)?;
        Some((start, Chain { axis, channels, steps, element }))
    })
}

fn step<S: Source>(source: &S, op: Op, operands: &[S::Id], position: usize) -> Option<Step> {
    let others = operands.iter().enumerate().filter(|(i, _)| *i != position);
    let constants = others.map(|(_, &o)| source.constant(o)).collect::<Option<Vec<_>>>()?;
    let shape = source.ty(operands[position])?.shape.clone();
    Some(Step { op, constants, position, shape })
}

/// Steps back from an FP32 value to integers; the steps are appended, last first.
fn walk<S: Source>(source: &S, id: S::Id, steps: &mut Vec<Step>) -> Option<S::Id> {
    if steps.len() > LONGEST || !source.ty(id)?.is_f32() {
        return None;
    }
    let length = steps.len();
    for (op, operands) in source.producers(id) {
        if let Op::DequantizeLinear(_) = op {
            if let Some(step) = step(source, op, &operands, 0) {
                steps.push(step);
                return Some(operands[0]);
            }
            continue;
        }
        for position in 0..operands.len() {
            if op.order(position).is_none()
                || source
                    .ty(operands[position])
                    .is_none_or(|ty| Some(ty.count()) != source.ty(id).map(TensorType::count))
            {
                continue;
            }
            let Some(step) = step(source, op.clone(), &operands, position) else { continue };
            steps.push(step);
            if let Some(start) = walk(source, operands[position], steps) {
                return Some(start);
            }
            steps.truncate(length);
        }
    }
    None
}

/// The axis that constants vary along: 1 where they do not, the last of two where there is no other.
fn channel_axis(steps: &[Step]) -> Option<usize> {
    let mut found: Option<usize> = None;
    let mut agree = |axis: usize| *found.get_or_insert(axis) == axis;
    for step in steps {
        for constant in &step.constants {
            if constant.ty().count() == 1 {
                continue;
            }
            let axis = match &step.op {
                Op::DequantizeLinear(op) => op.axis,
                Op::QuantizeLinear(op) => op.axis,
                Op::BatchNorm(_) => 1,
                _ => varying(constant.shape(), &step.shape)?,
            };
            if !agree(axis) {
                return None;
            }
        }
    }
    let axis = found.unwrap_or(1);
    let kept = |step: &Step| match &step.op {
        Op::Reshape(reshape) => {
            let (before, after) = (&step.shape, &reshape.shape);
            before.get(..=axis) == after.get(..=axis)
        }
        _ => true,
    };
    let fits = axis > 0 && steps.iter().all(|s| s.shape.rank() > axis && kept(s));
    fits.then_some(axis)
}

/// The only axis of `shape` along which a tensor that broadcasts to it has more than one element.
fn varying(constant: &Shape, shape: &Shape) -> Option<usize> {
    let missing = shape.rank().checked_sub(constant.rank())?;
    let mut axes = (0..constant.rank()).filter(|&i| constant[i] > 1);
    let axis = axes.next()?;
    axes.next().is_none().then_some(missing + axis)
}

impl Chain {
    /// Whether every step keeps the order of its operands whatever they are.
    pub(crate) fn is_monotone(&self) -> bool {
        let inner = &self.steps[1..self.steps.len() - 1];
        inner.iter().all(|s| s.op.order(s.position) == Some(Order::Monotone))
    }

    /// The chain's integers for rows of one sum a channel. `None` if a step gives a number that is not finite.
    pub(crate) fn evaluate(&self, sums: &[i32]) -> Option<Vec<i64>> {
        Some(self.after(&self.steps, sums)?.to_i64())
    }

    /// Least and largest integer for sums within bounds (one pair, or one a channel), where the last step would not
    /// clamp them. `None` if the chain is not monotone, or a number is not finite.
    pub(crate) fn reach(&self, bounds: &[(i64, i64)]) -> Option<(i64, i64)> {
        let (last, inner) = self.steps.split_last()?;
        let scale = f64::from(*last.constants.first()?.as_f32().first()?);
        let zero = *last.constants.get(1)?.to_i64().first()?;
        let mut found: Option<(i64, i64)> = None;
        for end in [|b: &(i64, i64)| b.0, |b: &(i64, i64)| b.1] {
            let at = |c: usize| bounds.get(c).or(bounds.first()).map(end);
            let sums = (0..self.channels).map(|c| i32::try_from(at(c)?).ok());
            let values = self.after(inner, &sums.collect::<Option<Vec<i32>>>()?)?;
            for v in values.as_f32() {
                let q = (f64::from(*v) / scale).round_ties_even() as i64 + zero;
                found = Some(found.map_or((q, q), |(low, high)| (low.min(q), high.max(q))));
            }
        }
        found.filter(|_| self.is_monotone())
    }

    /// The running value after steps from the first on.
    fn after(&self, steps: &[Step], sums: &[i32]) -> Option<Tensor> {
        let rows = sums.len() / self.channels.max(1);
        let sample = |shape: &Shape| -> Shape {
            let mut dims = vec![1; shape.rank()];
            dims[0] = rows;
            dims[self.axis] = self.channels;
            dims.into()
        };
        let ty = TensorType::new(sample(&self.steps[0].shape), Element::I32);
        let mut value = match self.start() {
            Element::I32 => Tensor::new(ty, Data::I32(sums.to_vec()), ScaleData::None),
            narrow => {
                let values: Vec<i64> = sums.iter().map(|&q| q.into()).collect();
                Tensor::from_i64(&ty.with_element(narrow), &values, ScaleData::None)
            }
        };
        let run = RunContext::default();
        for step in steps {
            value = value.reshaped(sample(&step.shape));
            if let Op::Reshape(_) = step.op {
                continue;
            }
            let mut operands: Vec<&Tensor> = step.constants.iter().map(Arc::as_ref).collect();
            operands.insert(step.position, &value);
            value = step.op.evaluate(&operands, &run).into_iter().next()?;
            if value.ty().is_f32() && !value.as_f32().iter().all(|x| x.is_finite()) {
                return None;
            }
        }
        debug_assert_eq!(value.ty().scale, Scale::None);
        Some(value)
    }

    /// Element of the integers that it starts from: that of the zero point.
    pub(crate) fn start(&self) -> Element {
        self.steps[0].constants.last().map_or(Element::I32, |zero| zero.ty().element)
    }
}
