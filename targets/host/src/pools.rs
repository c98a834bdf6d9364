//! Max-pools and their gradients by [`crate::kernels`].

use trainc_ir::{Element, Op, TensorType};

use crate::kernels::{PoolGeometry, Pooled, Source};

/// Maxima over windows of two by two that do not overlap, or their gradient; `None` if it is another operation.
///
/// # Errors
/// Why loops run it.
pub(crate) fn pool(op: &Op, operands: &[&TensorType]) -> Option<Result<Source, String>> {
    let x = operands.first()?;
    let (kernel, strides, pads, dilations, window) = match op {
        Op::MaxPool2d(pool) => {
            let y = op.infer(&operands[..1]).ok()?.pop()?;
            (pool.kernel, pool.strides, pool.pads, pool.dilations, y.shape)
        }
        Op::MaxPool2dGradient(op) => {
            let dy = operands.get(1)?;
            (op.kernel, op.strides, op.pads, op.dilations, dy.shape.clone())
        }
        _ => return None,
    };
    let (&[batch, channels, height, width], &[.., rows, columns]) = (x.shape.dims(), window.dims())
    else {
        return None;
    };
    let beside = [kernel, strides] == [[2, 2]; 2] && pads == [0; 4] && dilations == [1, 1];
    if !beside || 2 * rows > height || 2 * columns > width {
        return Some(Err("windows are not of two by two, beside each other".into()));
    }
    let geometry = PoolGeometry { planes: batch * channels, height, width, rows, columns };
    let pooled = match x.element {
        Element::F32 => Pooled::F32,
        Element::U8 => Pooled::U8,
        Element::I8 => Pooled::I8,
        _ => return None,
    };
    Some(Ok(match op {
        Op::MaxPool2d(_) => Source::Pool(geometry, pooled),
        _ => Source::PoolGradient(geometry, pooled),
    }))
}
