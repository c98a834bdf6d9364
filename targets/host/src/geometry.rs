//! Shapes of products as the vector kernels take them.

use trainc_ir::product::{Convolution, Matrices, Product, Shape};
use trainc_ir::{Element, TensorType};

use crate::kernels::{self, ChannelsLast, ConvGeometry, MatMulGeometry};

/// Of a convolution, whichever of its products.
pub(crate) fn geometry(c: &Convolution) -> ConvGeometry {
    ConvGeometry {
        batch: c.images,
        in_channels: c.groups * c.channels,
        in_height: c.height,
        in_width: c.width,
        out_channels: c.groups * c.outputs,
        out_height: c.rows,
        out_width: c.columns,
        kernel_height: c.taps[0],
        kernel_width: c.taps[1],
        stride_height: c.strides[0],
        stride_width: c.strides[1],
        dilation_height: c.dilations[0],
        dilation_width: c.dilations[1],
        pad_top: c.pads[0],
        pad_left: c.pads[1],
        groups: c.groups,
    }
}

/// Of matrix products.
pub(crate) fn matmul_geometry(matrices: &Matrices) -> MatMulGeometry {
    let &Matrices { count: [batch_a, batch_b], rows: m, columns: n, depth: k, transposed } =
        matrices;
    let [transpose_a, transpose_b] = transposed;
    if batch_b == 1 && !transpose_a {
        // One matrix on the right: the rows of all matrices on the left are rows of one.
        return MatMulGeometry::single(batch_a * m, n, k, false, transpose_b);
    }
    let stride = |batch: usize, length: usize| if batch == 1 { 0 } else { length };
    MatMulGeometry {
        batch: batch_a.max(batch_b),
        batch_stride_a: stride(batch_a, m * k),
        batch_stride_b: stride(batch_b, k * n),
        m,
        n,
        k,
        transpose_a,
        transpose_b,
    }
}

/// The product that a convolution of plain integers is.
///
/// # Errors
/// Why the vector kernels do not have it.
pub(crate) fn channels_last(
    product: &Product,
    operands: &[&TensorType],
) -> Result<kernels::Product, String> {
    let (Shape::Convolution(c), [x, w, ..]) = (&product.shape, operands) else {
        return Err("it is no convolution".into());
    };
    // A filter for each channel.
    let depthwise = c.groups > 1 && c.channels == 1 && c.outputs == 1;
    if c.groups != 1 && !depthwise {
        return Err(format!("it has {} groups of channels", c.groups));
    }
    if w.element != Element::I8 || !matches!(x.element, Element::I8 | Element::U8) {
        return Err(format!("its kernels multiply bytes by i8, here {x} and {w}"));
    }
    let shape = ChannelsLast {
        batch: c.images,
        height: c.height,
        width: c.width,
        channels: c.groups * c.channels,
        features: c.groups * c.outputs,
        rows: c.rows,
        columns: c.columns,
        kernel_height: c.taps[0],
        kernel_width: c.taps[1],
        stride_height: c.strides[0],
        stride_width: c.strides[1],
        dilation_height: c.dilations[0],
        dilation_width: c.dilations[1],
        pad_top: c.pads[0],
        pad_left: c.pads[1],
        padding: c.padding as u8,
        unsigned: x.element == Element::U8,
    };
    Ok(match depthwise {
        true => kernels::Product::DepthwiseLast(shape),
        false => kernels::Product::ChannelsLast(shape),
    })
}
