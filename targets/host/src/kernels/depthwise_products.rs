//! Products whose groups read a single channel, on all threads: bytes by units of neighbouring taps, or, as floats, tap by tap.

use super::depthwise_units::Units;
use super::engines::{most_i8, with_i8};
use super::geometry::ConvGeometry;
use super::own::Own;
use super::path::{KernelPath, on_features};
use super::products::DIRECT;
use super::{channels_beside, depthwise, threads};

/// Images from which on threads take whole ones.
const WHOLE: usize = 8;

/// What has these products.
pub(crate) trait Depthwise: depthwise::Scalar {
    /// `y = conv(x, w)`.
    fn forward(
        path: KernelPath,
        g: &ConvGeometry,
        x: &[Self],
        w: &[Self],
        y: &mut [Self::Sum],
        scratch: &mut [u8],
    );

    /// Bytes of working memory of [`Self::forward`].
    fn forward_bytes(g: &ConvGeometry) -> usize;

    /// `dx` from `dy` and `w`.
    fn input_gradient(
        path: KernelPath,
        g: &ConvGeometry,
        dy: &[Self],
        w: &[Self],
        dx: &mut [Self::Sum],
        scratch: &mut [u8],
    );

    /// Bytes of working memory of [`Self::input_gradient`].
    fn input_gradient_bytes(g: &ConvGeometry) -> usize;

    /// `dw` from `x` and `dy`.
    fn weight_gradient(
        path: KernelPath,
        g: &ConvGeometry,
        x: &[Self],
        dy: &[Self],
        dw: &mut [Self::Sum],
        scratch: &mut [u8],
    );

    /// Bytes of working memory of [`Self::weight_gradient`].
    fn weight_gradient_bytes(g: &ConvGeometry) -> usize;
}

/// A product tap by tap.
macro_rules! by_taps {
    ($element:ty, $function:path as $name:ident, $grain:expr, $bytes:expr;
        $path:ident, $g:ident, $a:ident, $b:ident, $out:ident, $scratch:ident) => {{
        use $function as $name;
        let own = Own::new($scratch);
        threads::fill($out, $grain, DIRECT * $g.multiplications(), &|first, out| {
            own.with($bytes, |scratch| {
                on_features!(
                    $path,
                    $name::<$element>(
                        $g: &ConvGeometry,
                        $a: &[$element],
                        $b: &[$element],
                        first: usize,
                        out: &mut [<$element as depthwise::Scalar>::Sum],
                        scratch: &mut [u8],
                    )
                );
            });
        });
    }};
}

/// The planes of a result by units.
fn by_units(
    path: KernelPath,
    units: &Units,
    [batch, image, plane, work]: [usize; 4],
    [x, w]: [&[i8]; 2],
    out: &mut [i32],
    scratch: &mut [u8],
) {
    let own = Own::new(scratch);
    let (grain, planes) = if batch >= WHOLE { (image, image / plane) } else { (plane, 1) };
    threads::fill(out, grain, DIRECT * work, &|first, out| {
        own.with(run_bytes(units), |scratch| {
            with_i8!(path, E => units.run::<E>(x, w, first * planes, out, scratch));
        });
    });
}

fn run_bytes(units: &Units) -> usize {
    most_i8!(E => units.run_bytes::<E>())
}

impl Depthwise for i8 {
    fn forward(
        path: KernelPath,
        g: &ConvGeometry,
        x: &[i8],
        w: &[i8],
        y: &mut [i32],
        scratch: &mut [u8],
    ) {
        if let Some(units) = Units::forward(g) {
            let plane = g.out_plane();
            let sizes = [g.batch, g.out_channels * plane, plane, g.multiplications()];
            return by_units(path, &units, sizes, [x, w], y, scratch);
        }
        by_taps!(i8, depthwise::forward as forward, g.out_plane(), depthwise::padded_bytes(g); path, g, x, w, y, scratch);
    }

    fn forward_bytes(g: &ConvGeometry) -> usize {
        Units::forward(g).map_or_else(|| depthwise::padded_bytes(g), |units| run_bytes(&units))
    }

    fn input_gradient(
        path: KernelPath,
        g: &ConvGeometry,
        dy: &[i8],
        w: &[i8],
        dx: &mut [i32],
        scratch: &mut [u8],
    ) {
        if let Some(units) = Units::input_gradient(g) {
            let plane = g.in_plane();
            let sizes = [g.batch, g.in_channels * plane, plane, g.multiplications()];
            return by_units(path, &units, sizes, [dy, w], dx, scratch);
        }
        by_taps!(i8, depthwise::input_gradient as input_gradient, g.in_plane(), depthwise::spaced_bytes(g); path, g, dy, w, dx, scratch);
    }

    fn input_gradient_bytes(g: &ConvGeometry) -> usize {
        let units = Units::input_gradient(g);
        units.map_or_else(|| depthwise::spaced_bytes(g), |units| run_bytes(&units))
    }

    fn weight_gradient(
        path: KernelPath,
        g: &ConvGeometry,
        x: &[i8],
        dy: &[i8],
        dw: &mut [i32],
        scratch: &mut [u8],
    ) {
        let Some(units) = Units::forward(g) else {
            by_taps!(i8, depthwise::weight_gradient as weight_gradient, g.taps(), depthwise::padded_bytes(g); path, g, x, dy, dw, scratch);
            return;
        };
        let (own, batch) = (Own::new(scratch), g.batch);
        threads::fill(dw, g.taps(), DIRECT * g.multiplications(), &|first, dw| {
            own.with(units.gradient_bytes(), |scratch| {
                let units = &units;
                on_features!(
                    path,
                    weight_gradient(
                        units: &Units,
                        batch: usize,
                        x: &[i8],
                        dy: &[i8],
                        first: usize,
                        dw: &mut [i32],
                        scratch: &mut [u8],
                    )
                );
            });
        });
    }

    fn weight_gradient_bytes(g: &ConvGeometry) -> usize {
        let units = Units::forward(g);
        units.map_or_else(|| depthwise::padded_bytes(g), |units| units.gradient_bytes())
    }
}

#[inline(always)]
fn weight_gradient(
    units: &Units,
    batch: usize,
    x: &[i8],
    dy: &[i8],
    first: usize,
    dw: &mut [i32],
    scratch: &mut [u8],
) {
    units.weight_gradient(batch, x, dy, first, dw, scratch);
}

impl Depthwise for f32 {
    fn forward(
        path: KernelPath,
        g: &ConvGeometry,
        x: &[f32],
        w: &[f32],
        y: &mut [f32],
        scratch: &mut [u8],
    ) {
        by_taps!(f32, depthwise::forward as forward, g.out_plane(), depthwise::padded_bytes(g); path, g, x, w, y, scratch);
    }

    fn forward_bytes(g: &ConvGeometry) -> usize {
        depthwise::padded_bytes(g)
    }

    fn input_gradient(
        path: KernelPath,
        g: &ConvGeometry,
        dy: &[f32],
        w: &[f32],
        dx: &mut [f32],
        scratch: &mut [u8],
    ) {
        by_taps!(f32, depthwise::input_gradient as input_gradient, g.in_plane(), depthwise::spaced_bytes(g); path, g, dy, w, dx, scratch);
    }

    fn input_gradient_bytes(g: &ConvGeometry) -> usize {
        depthwise::spaced_bytes(g)
    }

    fn weight_gradient(
        path: KernelPath,
        g: &ConvGeometry,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        scratch: &mut [u8],
    ) {
        by_taps!(f32, channels_beside::weight_gradient as weight_gradient, g.taps(), channels_beside::bytes(g); path, g, x, dy, dw, scratch);
    }

    fn weight_gradient_bytes(g: &ConvGeometry) -> usize {
        channels_beside::bytes(g)
    }
}
