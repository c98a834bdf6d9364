//! Data movement: results whose elements are elements of the operand, at indices linear in the result's.

use crate::loops::builder::{LoopBuilder, flat_index};
use crate::loops::{Expr, LoopKernel};
use crate::ops::TypeError;
use crate::ops::rule::ensure;
use crate::tensor::Tensor;
use crate::types::{Scale, Shape, TensorType};

/// Most elements a result may have: far above any device, far below what index arithmetic could overflow.
const ELEMENT_LIMIT: usize = 1 << 40;

/// A shape that attributes ask for, refused if it is beyond any memory.
pub(crate) fn result_shape(name: &str, dims: Vec<usize>) -> Result<Shape, TypeError> {
    let shape = Shape::from(dims);
    ensure(shape.iter().all(|&d| d <= ELEMENT_LIMIT) && shape.count() <= ELEMENT_LIMIT, || {
        format!("{name}: a result of shape {shape} is too large")
    })?;
    Ok(shape)
}

/// Result 0 gets the shared exponent of operand 0, if it has one.
pub(crate) fn keep_exponent(b: &mut LoopBuilder, result: &TensorType) {
    if result.scale == Scale::Exponent {
        b.set_output_exponent(0, b.input_exponent(0));
    }
}

/// Element `i` of the result is element `start + sum(i[axis] * strides[axis])` of the operand.
#[derive(Debug)]
pub(crate) struct Gather {
    /// The result's dimensions.
    pub(crate) shape: Vec<usize>,
    /// Operand index of the result's first element.
    pub(crate) start: i64,
    /// Operand elements from one result element to the next, one an axis.
    pub(crate) strides: Vec<i64>,
}

impl Gather {
    /// An operand stretched to a shape by NumPy's rule.
    pub(crate) fn broadcast(operand: &Shape, shape: &Shape) -> Gather {
        let mut strides = vec![0; shape.rank() - operand.rank()];
        let own = operand.iter().zip(operand.strides());
        strides.extend(own.map(|(&dim, stride)| if dim == 1 { 0 } else { stride as i64 }));
        Gather { shape: shape.dims().to_vec(), start: 0, strides }
    }

    /// Operand indices of the result's elements in row-major order.
    pub(crate) fn indices(&self) -> Vec<i64> {
        let axes = self.shape.iter().zip(&self.strides);
        axes.fold(vec![self.start], |bases, (&count, &stride)| {
            let along = |base: i64| (0..count as i64).map(move |i| base + i * stride);
            bases.into_iter().flat_map(along).collect()
        })
    }

    /// Operand index of a result element.
    pub(crate) fn index(&self, i: &[Expr]) -> Expr {
        let axes = i.iter().zip(&self.strides);
        axes.fold(Expr::i64(self.start), |at, (i, &stride)| at + i.clone() * Expr::i64(stride))
    }

    /// The moved tensor; the scale is kept.
    pub(crate) fn apply(&self, x: &Tensor) -> Tensor {
        x.gather(&self.shape[..], self.indices().into_iter().map(|i| i as usize))
    }

    /// The same movement with fewer axes where neighbours form one run.
    fn coalesced(&self) -> Gather {
        let (mut shape, mut strides): (Vec<usize>, Vec<i64>) = Default::default();
        for (&count, &stride) in self.shape.iter().zip(&self.strides) {
            match (shape.last_mut(), strides.last_mut()) {
                _ if count == 1 => {}
                (Some(outer), Some(outer_stride)) if *outer_stride == stride * count as i64 => {
                    *outer *= count;
                    *outer_stride = stride;
                }
                _ => {
                    shape.push(count);
                    strides.push(stride);
                }
            }
        }
        Gather { shape, start: self.start, strides }
    }

    /// The loops of [`Gather::apply`].
    pub(crate) fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        keep_exponent(&mut b, outputs[0]);
        let gather = self.coalesced();
        b.for_shape("i", &gather.shape, |b, i| {
            let value = b.load(x, gather.index(i));
            b.store(y, flat_index(&gather.shape, i), value);
        });
        b.finish()
    }
}
