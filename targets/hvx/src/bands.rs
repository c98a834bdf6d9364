//! Products of fewer images than a tile has rows: bands of an image's rows stand for images.
//!
//! A tile multiplies four images at a time. Of one or two, two to four bands of the result's rows are taken as images of
//! their own, each with the operand's rows that its windows read, and with rows of zeros where they leave the operand.

use trainc_ir::product::{Convolution, Pass};

use crate::kernels::{GROUP, Span};

/// Bands in C.
pub(crate) const HEADER: &str = include_str!("support/trainc_hvx_bands.h");

/// How the planes of a tensor are divided; `struct trainc_hvx_bands` of the support header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    images: usize,
    planes: usize,
    height: usize,
    width: usize,
    bands: usize,
    rows: usize,
    step: usize,
    before: isize,
}

impl Slices {
    /// Bytes of all bands.
    pub(crate) fn bytes(&self) -> usize {
        self.images * self.bands * self.planes * self.rows * self.width
    }

    /// An estimate of the packets in which they are copied.
    fn packets(&self) -> usize {
        let vectors = (self.rows * self.width).div_ceil(128);
        self.images * self.bands * self.planes * (COPY * vectors + PLANE)
    }

    /// The C of it.
    pub(crate) fn fields(&self) -> String {
        let Slices { images, planes, height, width, bands, rows, step, before } = self;
        format!("{{ {images}, {planes}, {height}, {width}, {bands}, {rows}, {step}, {before} }}")
    }
}

/// A product in bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Of an image.
    pub(crate) count: usize,
    /// The windows' operand.
    pub(crate) operand: Slices,
    /// The result, or a gradient's other operand: their rows are divided among the bands.
    pub(crate) divided: Slices,
    /// The rows of a band's windows.
    pub(crate) vertical: Span,
}

impl Bands {
    /// How many images stand for one, and the rest; `None` where rows do not divide, or nothing is gained.
    pub(crate) fn of(c: &Convolution) -> Option<Bands> {
        let error = c.pass == Pass::Error;
        if error && c.strides != [1, 1] {
            return None;
        }
        let (planes, height, width) = (c.channels, c.height, c.width);
        let x = (planes, height, width);
        let y = (c.outputs, c.rows, c.columns);
        let (operand, divided) = if error { (y, x) } else { (x, y) };
        let most = GROUP / c.images.max(1);
        let count = (2..=most).rev().find(|n| divided.1 % n == 0)?;
        let rows = divided.1 / count;
        let reach = (c.taps[0] - 1) * c.dilations[0];
        let stride = if error { 1 } else { c.strides[0] };
        let pad = c.pads[0] as isize;
        let slices = |(planes, height, width), rows, step, before| Slices {
            images: c.images,
            planes,
            height,
            width,
            bands: count,
            rows,
            step,
            before,
        };
        let read = (rows - 1) * stride + reach + 1;
        let before = if error { reach as isize - pad } else { pad };
        let operand = slices(operand, read, rows * stride, before);
        // A band must begin in the operand, and end there.
        let starts = |band: usize| (band * operand.step) as isize - before;
        let inside = (0..count)
            .all(|n| starts(n) <= operand.height as isize && starts(n) + read as isize >= 0);
        let span = Span {
            input: if error { rows } else { read },
            output: if error { read } else { rows },
            kernel: c.taps[0],
            stride,
            dilation: c.dilations[0],
            before: if error { reach } else { 0 },
        };
        let divided = slices(divided, rows, rows, 0);
        inside.then_some(Bands { count, operand, divided, vertical: span })
    }

    /// An estimate of the packets in which bands are copied.
    pub(crate) fn packets(&self) -> usize {
        self.operand.packets() + self.divided.packets()
    }
}

/// Packets in which a vector is copied, and those around a band's plane.
const COPY: usize = 4;
const PLANE: usize = 12;

/// The product with bands, if it takes fewer packets; `packets` estimates those of one.
pub(crate) fn better<P>(
    c: &Convolution,
    plain: P,
    banded: impl FnOnce(&Bands) -> Option<P>,
    packets: impl Fn(&P) -> usize,
) -> (P, Option<Bands>) {
    let Some(bands) = Bands::of(c) else { return (plain, None) };
    let Some(product) = banded(&bands) else { return (plain, None) };
    let gains = packets(&product) + bands.packets() < packets(&plain);
    if gains { (product, Some(bands)) } else { (plain, None) }
}
