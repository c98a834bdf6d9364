//! Gradients of max-pools by [`crate::kernels`].

use trainc_ir::{Element, Op, TensorType};

use crate::kernels::{
    PoolGeometry, max_pool_gradient_f32, max_pool_gradient_i8, max_pool_gradient_u8,
};

/// The gradient of maxima over windows of two by two that do not overlap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolGradient {
    geometry: PoolGeometry,
    /// Of what the pool took.
    element: Element,
}

impl PoolGradient {
    /// `None` if it is another operation.
    ///
    /// # Errors
    /// Why loops run it.
    pub(crate) fn of(op: &Op, operands: &[&TensorType]) -> Option<Result<PoolGradient, String>> {
        let Op::MaxPool2dGradient(op) = op else { return None };
        let [x, dy, ..] = operands else { return None };
        let (&[batch, channels, height, width], &[.., rows, columns]) =
            (x.shape.dims(), dy.shape.dims())
        else {
            return None;
        };
        let beside = [op.kernel, op.strides] == [[2, 2]; 2] && op.pads == [0; 4];
        let beside = beside && op.dilations == [1, 1];
        if !beside || 2 * rows > height || 2 * columns > width {
            return Some(Err("windows are not of two by two, beside each other".into()));
        }
        let planes = batch * channels;
        let geometry = PoolGeometry { planes, height, width, rows, columns };
        Some(Ok(PoolGradient { geometry, element: x.element }))
    }

    /// Element of what the pool took.
    pub(crate) const fn element(&self) -> Element {
        self.element
    }

    /// Of signed bytes.
    pub(crate) fn signed(&self, x: &[i8], dy: &[i8], dx: &mut [i8]) {
        max_pool_gradient_i8(&self.geometry, x, dy, dx);
    }

    /// Of unsigned bytes.
    pub(crate) fn unsigned(&self, x: &[u8], dy: &[i8], dx: &mut [i8]) {
        max_pool_gradient_u8(&self.geometry, x, dy, dx);
    }

    /// Of FP32.
    pub(crate) fn floats(&self, x: &[f32], dy: &[f32], dx: &mut [f32]) {
        max_pool_gradient_f32(&self.geometry, x, dy, dx);
    }
}
