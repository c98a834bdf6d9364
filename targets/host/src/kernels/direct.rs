//! FP32 convolutions term by term, for operands that are not all finite: the other kernels multiply the padding's zeros, which makes NaN of
//! infinities. Each sum has the terms that its definition has, in its order; see the module's documentation.

use super::geometry::ConvGeometry;

/// Whether all values are finite.
pub(crate) fn finite(values: &[f32]) -> bool {
    let magnitude = |value: &f32| value.to_bits() & 0x7fff_ffff;
    values.iter().map(magnitude).fold(0, u32::max) < f32::INFINITY.to_bits()
}

/// Where in `0..size` the tap of a window lies, if it does.
fn inside(window: usize, stride: usize, tap: usize, pad: usize, size: usize) -> Option<usize> {
    (window * stride + tap).checked_sub(pad).filter(|&at| at < size)
}

/// Calls `term` for each tap of a window of one channel that lies in the input: with the place in its plane, and the tap.
fn taps(g: &ConvGeometry, [row, column]: [usize; 2], mut term: impl FnMut(usize, usize)) {
    for kh in 0..g.kernel_height {
        let tap = kh * g.dilation_height;
        let Some(y) = inside(row, g.stride_height, tap, g.pad_top, g.in_height) else { continue };
        for kw in 0..g.kernel_width {
            let tap = kw * g.dilation_width;
            if let Some(x) = inside(column, g.stride_width, tap, g.pad_left, g.in_width) {
                term(y * g.in_width + x, kh * g.kernel_width + kw);
            }
        }
    }
}

/// `y = conv(x, w)`.
pub(crate) fn forward(g: &ConvGeometry, x: &[f32], w: &[f32], y: &mut [f32]) {
    let (inputs, outputs) = (g.group_in_channels(), g.group_out_channels());
    for (index, y) in y.iter_mut().enumerate() {
        let (plane, place) = (index / g.out_plane(), index % g.out_plane());
        let (image, feature) = (plane / g.out_channels, plane % g.out_channels);
        let mut sum = 0.0;
        for channel in 0..inputs {
            let source = image * g.in_channels + feature / outputs * inputs + channel;
            let weights = (feature * inputs + channel) * g.taps();
            taps(g, [place / g.out_width, place % g.out_width], |at, tap| {
                sum += x[source * g.in_plane() + at] * w[weights + tap];
            });
        }
        *y = sum;
    }
}

/// The gradient of the input.
pub(crate) fn input_gradient(g: &ConvGeometry, dy: &[f32], w: &[f32], dx: &mut [f32]) {
    let (inputs, outputs) = (g.group_in_channels(), g.group_out_channels());
    // The window whose tap meets a place.
    let window = |at: usize, pad: usize, tap: usize, stride: usize, count: usize| {
        let first = (at + pad).checked_sub(tap)?;
        (first % stride == 0 && first / stride < count).then(|| first / stride)
    };
    for (index, dx) in dx.iter_mut().enumerate() {
        let (plane, place) = (index / g.in_plane(), index % g.in_plane());
        let (image, channel) = (plane / g.in_channels, plane % g.in_channels);
        let (row, column) = (place / g.in_width, place % g.in_width);
        let mut sum = 0.0;
        for output in 0..outputs {
            let feature = channel / inputs * outputs + output;
            let errors = (image * g.out_channels + feature) * g.out_plane();
            let weights = (feature * inputs + channel % inputs) * g.taps();
            for kh in 0..g.kernel_height {
                let tap = kh * g.dilation_height;
                let Some(y) = window(row, g.pad_top, tap, g.stride_height, g.out_height) else {
                    continue;
                };
                for kw in 0..g.kernel_width {
                    let tap = kw * g.dilation_width;
                    if let Some(x) = window(column, g.pad_left, tap, g.stride_width, g.out_width) {
                        let weight = w[weights + kh * g.kernel_width + kw];
                        sum += dy[errors + y * g.out_width + x] * weight;
                    }
                }
            }
        }
        *dx = sum;
    }
}

/// The gradient of the weights.
pub(crate) fn weight_gradient(g: &ConvGeometry, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let (inputs, outputs) = (g.group_in_channels(), g.group_out_channels());
    dw.fill(0.0);
    for (plane, dw) in dw.chunks_exact_mut(g.taps()).enumerate() {
        let (feature, channel) = (plane / inputs, plane % inputs);
        let channel = feature / outputs * inputs + channel;
        for image in 0..g.batch {
            let source = (image * g.in_channels + channel) * g.in_plane();
            let errors = (image * g.out_channels + feature) * g.out_plane();
            for place in 0..g.out_plane() {
                let error = dy[errors + place];
                taps(g, [place / g.out_width, place % g.out_width], |at, tap| {
                    dw[tap] += x[source + at] * error;
                });
            }
        }
    }
}
