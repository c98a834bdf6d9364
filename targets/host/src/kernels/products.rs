//! The products as they are called.

use super::convolution::Near;
use super::depthwise_products::Depthwise;
use super::engines::{most_f32, most_tiles_i8, with_f32, with_i8};
use super::geometry::{ChannelsLast, ConvGeometry, MatMulGeometry, Pass};
use super::images_beside::ImagesBeside;
use super::memo::Panels;
use super::path::{KernelPath, active_path, on_features};
use super::{
    channels_last, convolution, images_beside, matmul, requantize, threads, weight_gradient,
};

/// Checks the operands of a convolution product.
fn check(g: &ConvGeometry, input: usize, weights: usize, output: usize) {
    g.check();
    assert_eq!(input, g.input_len(), "elements of the input");
    assert_eq!(weights, g.weight_len(), "elements of the weights");
    assert_eq!(output, g.output_len(), "elements of the output");
}

/// Multiplications of the packed products that take as long as one of the direct ones.
pub(crate) const DIRECT: usize = 16;

/// FP32 products report no magnitude.
const fn ignore<T: Copy>(_: T) {}

/// Declares the products of one element type.
macro_rules! products {
    (
        $element:ty, $sum:ty, $with:ident, $most:ident, $result:ty,
        |$largest:ident| $finish:expr, |$sums:ident, $on:ident| $measure:expr;
        $forward:ident, $forward_on:ident, $forward_bytes:ident;
        $input:ident, $input_on:ident, $input_bytes:ident;
        $weight:ident, $weight_on:ident, $weight_bytes:ident;
        $matmul:ident, $matmul_on:ident, $matmul_bytes:ident;
        $returns:literal
    ) => {
        #[doc = concat!("Forward convolution `y[batch, out_channels, ..] = conv(x, w)`", $returns)]
        ///
        /// # Panics
        /// When an operand does not have the size of the shape or the scratch is too small.
        pub fn $forward(
            g: &ConvGeometry,
            x: &[$element],
            w: &[$element],
            y: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            $forward_on(active_path(), g, x, w, y, scratch)
        }

        #[doc = concat!("[`", stringify!($forward), "`] on a given path.")]
        ///
        /// # Panics
        /// Likewise, and when the machine lacks the path.
        pub fn $forward_on(
            path: KernelPath,
            g: &ConvGeometry,
            x: &[$element],
            w: &[$element],
            y: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            check(g, x.len(), w.len(), y.len());
            if g.is_depthwise() {
                Depthwise::forward(path, g, x, w, y, scratch);
                let ($sums, $on) = (&*y, path);
                return $measure;
            }
            let beside = ImagesBeside::product(path, Pass::Forward, g, [x, w], y, scratch);
            if let Some($largest) = beside {
                return $finish;
            }
            let $largest = $with!(path, E if convolution::forward_suits::<E>(g) => {
                convolution::forward::<E>(g, [x, w], y, scratch, (None, None))
            });
            $finish
        }

        #[doc = concat!("Bytes of scratch that [`", stringify!($forward), "`] takes.")]
        #[must_use]
        pub fn $forward_bytes(g: &ConvGeometry) -> usize {
            g.check();
            if g.is_depthwise() {
                return <$element as Depthwise>::forward_bytes(g);
            }
            let beside = <$element as ImagesBeside>::bytes(Pass::Forward, g);
            $most!(E => convolution::forward_bytes::<E>(g)).max(beside)
        }

        #[doc = concat!(
            "Gradient of the input of a convolution, `dx` from `dy[batch, out_channels, ..]`",
            $returns
        )]
        ///
        /// # Panics
        /// When an operand does not have the size of the shape or the scratch is too small.
        pub fn $input(
            g: &ConvGeometry,
            dy: &[$element],
            w: &[$element],
            dx: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            $input_on(active_path(), g, dy, w, dx, scratch)
        }

        #[doc = concat!("[`", stringify!($input), "`] on a given path.")]
        ///
        /// # Panics
        /// Likewise, and when the machine lacks the path.
        pub fn $input_on(
            path: KernelPath,
            g: &ConvGeometry,
            dy: &[$element],
            w: &[$element],
            dx: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            check(g, dx.len(), w.len(), dy.len());
            if g.is_depthwise() {
                Depthwise::input_gradient(path, g, dy, w, dx, scratch);
                let ($sums, $on) = (&*dx, path);
                return $measure;
            }
            let beside = ImagesBeside::product(path, Pass::InputGradient, g, [dy, w], dx, scratch);
            if let Some($largest) = beside {
                return $finish;
            }
            let $largest = $with!(path, E if convolution::input_gradient_suits::<E>(g) => {
                convolution::input_gradient::<E>(g, [dy, w], dx, scratch, None)
            });
            $finish
        }

        #[doc = concat!("Bytes of scratch that [`", stringify!($input), "`] takes.")]
        #[must_use]
        pub fn $input_bytes(g: &ConvGeometry) -> usize {
            g.check();
            if g.is_depthwise() {
                return <$element as Depthwise>::input_gradient_bytes(g);
            }
            let beside = <$element as ImagesBeside>::bytes(Pass::InputGradient, g);
            $most!(E => convolution::input_gradient_bytes::<E>(g)).max(beside)
        }

        #[doc = concat!(
            "Gradient of the weights of a convolution, `dw` from `x` and `dy`",
            $returns
        )]
        ///
        /// # Panics
        /// When an operand does not have the size of the shape or the scratch is too small.
        pub fn $weight(
            g: &ConvGeometry,
            x: &[$element],
            dy: &[$element],
            dw: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            $weight_on(active_path(), g, x, dy, dw, scratch)
        }

        #[doc = concat!("[`", stringify!($weight), "`] on a given path.")]
        ///
        /// # Panics
        /// Likewise, and when the machine lacks the path.
        pub fn $weight_on(
            path: KernelPath,
            g: &ConvGeometry,
            x: &[$element],
            dy: &[$element],
            dw: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            check(g, x.len(), dw.len(), dy.len());
            if g.is_depthwise() {
                Depthwise::weight_gradient(path, g, x, dy, dw, scratch);
                let ($sums, $on) = (&*dw, path);
                return $measure;
            }
            let beside = ImagesBeside::product(path, Pass::WeightGradient, g, [x, dy], dw, scratch);
            if let Some($largest) = beside {
                return $finish;
            }
            let $largest = $with!(path, E if weight_gradient::suits::<E>(g) => {
                weight_gradient::weight_gradient::<E>(g, x, dy, dw, scratch)
            });
            $finish
        }

        #[doc = concat!("Bytes of scratch that [`", stringify!($weight), "`] takes.")]
        #[must_use]
        pub fn $weight_bytes(g: &ConvGeometry) -> usize {
            g.check();
            if g.is_depthwise() {
                return <$element as Depthwise>::weight_gradient_bytes(g);
            }
            let beside = <$element as ImagesBeside>::bytes(Pass::WeightGradient, g);
            $most!(E => weight_gradient::bytes::<E>(g)).max(beside)
        }

        #[doc = concat!("Matrix products `c[batch, m, n] = op(a) op(b)`", $returns)]
        ///
        /// # Panics
        /// When an operand does not have the size of the shape or the scratch is too small.
        pub fn $matmul(
            g: &MatMulGeometry,
            a: &[$element],
            b: &[$element],
            c: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            $matmul_on(active_path(), g, a, b, c, scratch)
        }

        #[doc = concat!("[`", stringify!($matmul), "`] on a given path.")]
        ///
        /// # Panics
        /// Likewise, and when the machine lacks the path.
        pub fn $matmul_on(
            path: KernelPath,
            g: &MatMulGeometry,
            a: &[$element],
            b: &[$element],
            c: &mut [$sum],
            scratch: &mut [u8],
        ) -> $result {
            assert!(a.len() >= g.a_len() && b.len() >= g.b_len(), "elements of the operands");
            assert_eq!(c.len(), g.c_len(), "elements of the product");
            let $largest = $with!(path, E if matmul::suits::<E>(g) => {
                matmul::matmul::<E>(g, a, b, c, scratch)
            });
            $finish
        }

        #[doc = concat!("Bytes of scratch that [`", stringify!($matmul), "`] takes.")]
        #[must_use]
        pub fn $matmul_bytes(g: &MatMulGeometry) -> usize {
            $most!(E => matmul::bytes::<E>(g))
        }
    };
}

/// The forward product of bytes, or the gradient of the input, whose sums are taken while they are near; those that are not kept leave
/// rubbish behind. `None`, with nothing done, where another form than sweeps is shorter.
#[allow(clippy::too_many_arguments, reason = "the operands of one product")]
pub(crate) fn near_i8(
    path: KernelPath,
    pass: Pass,
    g: &ConvGeometry,
    operands: [&[i8]; 2],
    sums: &mut [i32],
    scratch: &mut [u8],
    near: &Near<'_, i32>,
) -> Option<u32> {
    if g.is_depthwise() || images_beside::is_shorter(pass, g) {
        return None;
    }
    let near = Some(near);
    match pass {
        Pass::Forward => {
            check(g, operands[0].len(), operands[1].len(), sums.len());
            Some(with_i8!(path, E if convolution::forward_suits::<E>(g) => {
                convolution::forward::<E>(g, operands, sums, scratch, (near, None))
            }))
        }
        Pass::InputGradient => {
            check(g, sums.len(), operands[1].len(), operands[0].len());
            Some(with_i8!(path, E if convolution::input_gradient_suits::<E>(g) => {
                convolution::input_gradient::<E>(g, operands, sums, scratch, near)
            }))
        }
        Pass::WeightGradient => None,
    }
}

/// The forward product of bytes, whose packed weights stay for further calls of the same product; the sums' largest magnitude. `None`, with
/// nothing done, where they do not stay, or another form than sweeps is shorter.
pub(crate) fn forward_by_panels(
    path: KernelPath,
    g: &ConvGeometry,
    [x, w]: [&[i8]; 2],
    sums: &mut [i32],
    scratch: &mut [u8],
    panels: &Panels,
) -> Option<u32> {
    let packing = panels.packing(match forward_panel_bytes(g) {
        0 => return None,
        bytes => bytes,
    })?;
    check(g, x.len(), w.len(), sums.len());
    Some(with_i8!(path, E if convolution::forward_suits::<E>(g) => {
        convolution::forward::<E>(g, [x, w], sums, scratch, (None, Some(packing)))
    }))
}

/// Bytes of packed weights that [`forward_by_panels`] keeps; none where it keeps none.
pub(crate) fn forward_panel_bytes(g: &ConvGeometry) -> usize {
    g.check();
    if g.is_depthwise() || images_beside::is_shorter(Pass::Forward, g) || g.output_len() == 0 {
        return 0;
    }
    most_tiles_i8!(E => convolution::forward_panel_bytes::<E>(g))
}

/// Convolution of plain bytes, channels last: `x` `[batch, height, width, channels]` (unsigned bytes as their bits), `w` `[features, kernel
/// height, kernel width, channels]`, `y` `[batch, rows, columns, features]`.
///
/// # Panics
/// When an operand does not have the size of the shape or the scratch is too small.
pub fn conv2d_channels_last(
    g: &ChannelsLast,
    x: &[i8],
    w: &[i8],
    y: &mut [i32],
    scratch: &mut [u8],
) {
    conv2d_channels_last_on(active_path(), g, x, w, y, scratch);
}

/// [`conv2d_channels_last`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn conv2d_channels_last_on(
    path: KernelPath,
    g: &ChannelsLast,
    x: &[i8],
    w: &[i8],
    y: &mut [i32],
    scratch: &mut [u8],
) {
    let weights = g.features * g.kernel_height * g.kernel_width * g.channels;
    assert_eq!(x.len(), g.batch * g.height * g.width * g.channels, "elements of the input");
    assert_eq!(w.len(), weights, "elements of the weights");
    assert_eq!(y.len(), g.batch * g.rows * g.columns * g.features, "elements of the output");
    if y.is_empty() || weights == 0 {
        return y.fill(0);
    }
    with_i8!(path, E if channels_last::suits::<E>(g) => {
        channels_last::convolution::<E>(g, x, w, y, scratch);
    });
}

/// Bytes of scratch that [`conv2d_channels_last`] takes.
#[must_use]
pub fn conv2d_channels_last_scratch_bytes(g: &ChannelsLast) -> usize {
    if g.multiplications() == 0 {
        return 0;
    }
    most_tiles_i8!(E => channels_last::bytes::<E>(g))
}

/// Convolution of plain bytes that has a filter for each channel, channels last: `x` `[batch, height, width, channels]` (unsigned bytes
/// as their bits), `w` `[channels, kernel height, kernel width]`, `y` `[batch, rows, columns, channels]`.
///
/// # Panics
/// When an operand does not have the size of the shape or the scratch is too small.
pub fn depthwise_channels_last(
    g: &ChannelsLast,
    x: &[i8],
    w: &[i8],
    y: &mut [i32],
    scratch: &mut [u8],
) {
    depthwise_channels_last_on(active_path(), g, x, w, y, scratch);
}

/// [`depthwise_channels_last`] on a given path.
///
/// # Panics
/// Likewise, and when the machine lacks the path.
pub fn depthwise_channels_last_on(
    path: KernelPath,
    g: &ChannelsLast,
    x: &[i8],
    w: &[i8],
    y: &mut [i32],
    scratch: &mut [u8],
) {
    use channels_last::depthwise;
    assert_eq!(x.len(), g.batch * g.height * g.width * g.channels, "elements of the input");
    assert_eq!(w.len(), g.channels * g.kernel_height * g.kernel_width, "elements of the weights");
    assert_eq!(y.len(), g.batch * g.rows * g.columns * g.channels, "elements of the output");
    if y.is_empty() || w.is_empty() {
        return y.fill(0);
    }
    let w = channels_last::arrange(g, w, scratch);
    let multiplications = y.len() * g.kernel_height * g.kernel_width;
    threads::fill(y, g.columns * g.channels, DIRECT * multiplications, &|first, sums| {
        on_features!(
            path,
            depthwise(g: &ChannelsLast, x: &[i8], w: &[i8], first: usize, sums: &mut [i32])
        );
    });
}

/// Bytes of scratch that [`depthwise_channels_last`] takes.
#[must_use]
pub fn depthwise_channels_last_scratch_bytes(g: &ChannelsLast) -> usize {
    channels_last::depthwise_bytes(g)
}

products!(
    i8, i32, with_i8, most_tiles_i8, u32, |largest| largest,
    |sums, path| requantize::max_abs_i32_on(path, sums);
    conv2d_i8, conv2d_i8_on, conv2d_i8_scratch_bytes;
    conv2d_grad_input_i8, conv2d_grad_input_i8_on, conv2d_grad_input_i8_scratch_bytes;
    conv2d_grad_weight_i8, conv2d_grad_weight_i8_on, conv2d_grad_weight_i8_scratch_bytes;
    matmul_i8, matmul_i8_on, matmul_i8_scratch_bytes;
    "; returns the largest magnitude of the result."
);

products!(
    f32, f32, with_f32, most_f32, (), |largest| ignore(largest), |sums, path| ignore((sums, path));
    conv2d_f32, conv2d_f32_on, conv2d_f32_scratch_bytes;
    conv2d_grad_input_f32, conv2d_grad_input_f32_on, conv2d_grad_input_f32_scratch_bytes;
    conv2d_grad_weight_f32, conv2d_grad_weight_f32_on, conv2d_grad_weight_f32_scratch_bytes;
    matmul_f32, matmul_f32_on, matmul_f32_scratch_bytes;
    "."
);
