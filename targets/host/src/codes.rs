//! Operations on tensors of codes beside products: which of them run by [`crate::kernels`], and how.

use trainc_ir::numeric::Rounding as Rounds;
use trainc_ir::{Element, Op, Scale, TensorType};

use crate::kernels::{ChannelSums, Finish, Line, Lines, Planes, Rounding, Source, Width};
use crate::pools::pool;

/// A launch for the first operations of a sequence, each applied to the result so far.
pub(crate) struct Codes {
    pub(crate) source: Source,
    pub(crate) finish: Option<Finish>,
    /// How many operations it does.
    pub(crate) ops: usize,
    /// How many operands it takes.
    pub(crate) operands: usize,
    pub(crate) outputs: Vec<TensorType>,
    /// Bytes of working memory.
    pub(crate) scratch_bytes: usize,
}

impl Codes {
    /// `None` if the first operation is another one, or its sums are kept.
    ///
    /// # Errors
    /// Why loops run it.
    pub(crate) fn of(ops: &[Op], operands: &[&TensorType]) -> Option<Result<Codes, String>> {
        let first = ops.first()?;
        if let Some(source) = pool(first, operands) {
            let count = if matches!(first, Op::MaxPool2d(_)) { 1 } else { 2 };
            return match source {
                Ok(source) => Codes::new(&ops[..1], &operands[..count], source, None, 0).map(Ok),
                Err(reason) => Some(Err(reason)),
            };
        }
        Codes::of_codes(ops, operands).map(Ok)
    }

    fn of_codes(ops: &[Op], operands: &[&TensorType]) -> Option<Codes> {
        let (first, next) = (ops.first()?, ops.get(1));
        let x = operands.first().filter(|x| x.count() > 0)?;
        match first {
            Op::AlignedAdd(_) => {
                let y = operands.get(1)?;
                if x.shape != y.shape {
                    return None;
                }
                let clamps = matches!(next, Some(Op::Relu(_)));
                let low = if clamps { 0 } else { -127 };
                let source = Source::Aligned { low };
                Codes::new(&ops[..1 + usize::from(clamps)], &operands[..2], source, None, 0)
            }
            Op::IntegerBatchNorm(_) | Op::IntegerBatchNormError(_) => {
                let (line, count) = match first {
                    Op::IntegerBatchNormError(op) => (Line::Error { batch: op.batch }, 7),
                    _ => (Line::Norm, 5),
                };
                let finish = rounding(next?)?;
                let lines = Lines { planes: planes(x)?, line };
                let source = Source::Lines(lines);
                let bytes = lines.scratch_bytes();
                Codes::new(&ops[..2], operands.get(..count)?, source, Some(finish), bytes)
            }
            Op::IntegerBatchStatistics(_) | Op::IntegerBatchNormSums(_) => {
                let (sums, count) = match first {
                    Op::IntegerBatchStatistics(_) => (ChannelSums::Statistics, 1),
                    _ => (ChannelSums::Gradients, 4),
                };
                let planes = planes(x)?;
                let source = Source::ChannelSums(planes, sums);
                let bytes = ChannelSums::scratch_bytes(&planes);
                Codes::new(&ops[..1], operands.get(..count)?, source, None, bytes)
            }
            Op::Clip(op) if x.element == Element::I8 && x.scale == Scale::Exponent => {
                let source = Source::Clip([op.min, op.max].map(|bound| bound.get().to_bits()));
                Codes::new(&ops[..1], &operands[..1], source, None, 0)
            }
            Op::ReluGradient(_) | Op::ClipGradient(_)
                if x.element == Element::I8 && x.scale == Scale::Exponent =>
            {
                let bounds = match first {
                    Op::ClipGradient(op) => [op.min.get(), op.max.get()],
                    _ => [0.0, f32::INFINITY],
                };
                let source = Source::ClipGradient(bounds.map(f32::to_bits));
                Codes::new(&ops[..1], operands.get(..2)?, source, None, 0)
            }
            Op::RequantizeStochastic(_) if x.element == Element::I32 => {
                Codes::new(&ops[..1], &operands[..1], Source::Operand, rounding(first), 0)
            }
            _ => None,
        }
    }

    fn new(
        ops: &[Op],
        operands: &[&TensorType],
        source: Source,
        finish: Option<Finish>,
        scratch_bytes: usize,
    ) -> Option<Codes> {
        let mut outputs = ops.first()?.infer(operands).ok()?;
        for op in &ops[1..] {
            outputs = op.infer(&outputs.iter().collect::<Vec<_>>()).ok()?;
        }
        let (ops, operands) = (ops.len(), operands.len());
        Some(Codes { source, finish, ops, operands, outputs, scratch_bytes })
    }
}

/// Images, channels and elements of a channel's plane.
fn planes(x: &TensorType) -> Option<Planes> {
    let [batch, channels, space @ ..] = x.shape.dims() else { return None };
    Some(Planes { batch: *batch, channels: *channels, space: space.iter().product() })
}

/// The rounding of sums by their own width.
fn rounding(op: &Op) -> Option<Finish> {
    match op {
        Op::Requantize(op) => {
            let rounding = match op.rounding {
                Rounds::HalfAway => Rounding::HalfAway,
                Rounds::PseudoStochastic => Rounding::PseudoStochastic,
                _ => return None,
            };
            Some(Finish { width: Width::Sums(op.bits), rounding, low: op.low })
        }
        Op::RequantizeStochastic(op) => {
            let rounding = Rounding::Stochastic { stream: op.stream };
            Some(Finish { width: Width::Sums(7), rounding, low: -127 })
        }
        _ => None,
    }
}
