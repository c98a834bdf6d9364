//! The three products of a depthwise convolution as loops without edges.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, Local, LoopKernel};
use trainc_ir::product::{Convolution, Pass};
use trainc_ir::{Element, TensorType};

use super::plane::{Axis, Plane};

/// Most taps of a window, which are written out.
const TAPS: usize = 49;
/// Elements that one round of a vector loop does.
const LANES: usize = 8;

/// A depthwise convolution's shape; pairs are vertical and horizontal.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    channels: usize,
    input: [usize; 2],
    output: [usize; 2],
    kernel: [usize; 2],
    /// From a tap to the next.
    dilations: [usize; 2],
    strides: [usize; 2],
    /// Padding at the top and left.
    before: [usize; 2],
}

impl Shape {
    fn of(c: &Convolution) -> Result<Shape, String> {
        let reason = if c.outputs != 1 {
            "channels have several filters each"
        } else if !c.strides.iter().all(|s| [1, 2].contains(s)) {
            "its stride is over 2"
        } else if c.tap_count() > TAPS {
            "its windows have more than 49 taps"
        } else {
            return Ok(Shape {
                batch: c.images,
                channels: c.groups,
                input: [c.height, c.width],
                output: [c.rows, c.columns],
                kernel: c.taps,
                dilations: c.dilations,
                strides: c.strides,
                before: [c.pads[0], c.pads[1]],
            });
        };
        Err(reason.into())
    }

    /// The padded operand, split by the strides: window `o` starts at place `o`.
    fn windows(&self) -> [Axis; 2] {
        [0, 1].map(|i| Axis {
            stride: self.strides[i],
            before: self.before[i],
            length: self.output[i] - 1 + self.reach()[i].div_ceil(self.strides[i]),
        })
    }

    /// Rows and columns from a window's first tap to its last, both counted.
    fn reach(&self) -> [usize; 2] {
        [0, 1].map(|i| (self.kernel[i] - 1) * self.dilations[i] + 1)
    }

    /// Where taps lie in a window.
    fn taps(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let ([height, width], [down, right]) = (self.kernel, self.dilations);
        (0..height).flat_map(move |kh| (0..width).map(move |kw| [kh * down, kw * right]))
    }
}

/// The loops of a depthwise product of i8, of those operands.
///
/// # Errors
/// Why they would not fill vectors.
pub(super) fn product(
    c: &Convolution,
    inputs: &[&TensorType],
    sums: &TensorType,
) -> Result<LoopKernel, String> {
    let shape = Shape::of(c)?;
    let mut b = LoopBuilder::new(inputs, &[sums], false);
    exponents(&mut b);
    match c.pass {
        Pass::Forward => forward(&mut b, &shape),
        Pass::Error => input_gradient(&mut b, &shape),
        Pass::Gradient => weight_gradient(&mut b, &shape),
    }
    Ok(b.finish())
}

fn exponents(b: &mut LoopBuilder) {
    let sum = b.input_exponent(0) + b.input_exponent(1);
    b.set_output_exponent(0, sum);
}

/// The weights of a channel, each in a local.
fn weights(b: &mut LoopBuilder, shape: &Shape, channel: &Expr) -> Vec<Expr> {
    let count = shape.kernel[0] * shape.kernel[1];
    let w = b.input(1);
    let load = |b: &mut LoopBuilder, n: usize| {
        let weight = b.load(w, channel.clone() * Expr::index(count) + Expr::index(n));
        b.let_("weight", weight)
    };
    (0..count).map(|n| load(b, n)).collect()
}

/// Sums of taps over `[height, width]` places of a plane with a pitch, each at `place` and the taps' offsets from there;
/// `put` stores one. Rows that fill no vector run together, with the places between them.
fn sums(
    b: &mut LoopBuilder,
    plane: &Plane,
    [height, width]: [usize; 2],
    taps: &[(usize, Expr)],
    put: &mut dyn FnMut(&mut LoopBuilder, [Expr; 2], Expr),
    together: bool,
) {
    let pitch = plane.pitch();
    let mut sum = |b: &mut LoopBuilder, row: Expr, column: Expr| {
        let place = row.clone() * Expr::index(pitch) + column.clone();
        let mut sum: Option<Expr> = None;
        for (offset, weight) in taps {
            let value = plane.load(b, place.clone() + Expr::index(*offset));
            let product = value * weight.clone();
            let next = match sum {
                None => product,
                Some(sum) => sum + product,
            };
            sum = Some(b.let_("sum", next));
        }
        put(b, [row, column], sum.unwrap_or(Expr::i32(0)));
    };
    if together {
        let count = (height - 1) * pitch + width;
        b.for_("place", count, |b, place| sum(b, Expr::i64(0), place));
    } else {
        b.for_("row", height, |b, row| {
            b.for_("column", width, |b, column| sum(b, row, column));
        });
    }
}

/// `y[o] = sum of x[o * stride + k - before] * w[k]`.
fn forward(b: &mut LoopBuilder, shape: &Shape) {
    let (x, y) = (b.input(0), b.output(0));
    let axes = shape.windows();
    let plane = Plane::new(b, "padded", Element::I16, axes, 0);
    let together = shape.output[1] < LANES;
    let dense =
        [0, 1].map(|i| Axis { stride: 1, before: 0, length: [shape.output[0], axes[1].length][i] });
    let collected = together.then(|| Plane::new(b, "collected", Element::I32, dense, 0));
    each_plane(b, shape, |b, channel, image| {
        let weights = weights(b, shape, &channel);
        let number = image * Expr::index(shape.channels) + channel;
        let from = number.clone() * Expr::index(shape.input[0] * shape.input[1]);
        let from = b.let_("x_plane", from);
        let to = number * Expr::index(shape.output[0] * shape.output[1]);
        let to = b.let_("y_plane", to);
        plane.fill(b, x, &from, shape.input);
        let taps: Vec<(usize, Expr)> =
            shape.taps().map(|tap| offset(shape, &plane, tap)).zip(weights).collect();
        finish(b, (&plane, shape.output, &taps), (y, &to), collected.as_ref());
    });
}

/// Where a tap reads, from the place of its window.
fn offset(shape: &Shape, plane: &Plane, [kh, kw]: [usize; 2]) -> usize {
    let [sh, sw] = shape.strides;
    plane.start([kh % sh, kw % sw]) + kh / sh * plane.pitch() + kw / sw
}

/// Sums to a dense plane: directly by rows, or all together by way of `collected`.
fn finish(
    b: &mut LoopBuilder,
    (plane, size, taps): (&Plane, [usize; 2], &[(usize, Expr)]),
    (y, to): (Buffer, &Expr),
    collected: Option<&Plane>,
) {
    match collected {
        Some(collected) => {
            let put = &mut |b: &mut LoopBuilder, [_, place]: [Expr; 2], sum| {
                collected.store(b, place, sum);
            };
            sums(b, plane, size, taps, put, true);
            collected.extract(b, y, to, size);
        }
        None => {
            let put = &mut |b: &mut LoopBuilder, [row, column]: [Expr; 2], sum| {
                b.store(y, to.clone() + row * Expr::index(size[1]) + column, sum);
            };
            sums(b, plane, size, taps, put, false);
        }
    }
}

fn each_plane(b: &mut LoopBuilder, shape: &Shape, body: impl FnOnce(&mut LoopBuilder, Expr, Expr)) {
    let batch = shape.batch;
    b.for_("channel", shape.channels, |b, channel| {
        b.for_("image", batch, |b, image| body(b, channel, image));
    });
}

/// `dx[i] = sum of dy[o] * w[k]` over `o * stride + k - before = i`: position `i + before` is place `u` of its part `p`,
/// where tap `p + stride * a` of window `u - a` reads.
fn input_gradient(b: &mut LoopBuilder, shape: &Shape) {
    let (dy, dx) = (b.input(0), b.output(0));
    // Windows before the first that reach a position.
    let earlier = [0, 1].map(|i| shape.reach()[i].div_ceil(shape.strides[i]) - 1);
    let places = [0, 1].map(|i| (shape.input[i] - 1 + shape.before[i]) / shape.strides[i] + 1);
    let windows = [0, 1].map(|i| Axis {
        stride: 1,
        before: earlier[i],
        length: places[i].max(shape.output[i]) + earlier[i],
    });
    let plane = Plane::new(b, "padded", Element::I16, windows, 0);
    let pitch = plane.pitch();
    let direct = shape.strides == [1, 1] && shape.input[1] >= LANES;
    // Sums by the residues of their positions, with the pitch of what they are sums of.
    let split = [0, 1].map(|i| Axis {
        stride: shape.strides[i],
        before: shape.before[i],
        length: [places[0], pitch][i],
    });
    let collected = (!direct).then(|| Plane::new(b, "collected", Element::I32, split, 0));
    each_plane(b, shape, |b, channel, image| {
        let weights = weights(b, shape, &channel);
        let number = image * Expr::index(shape.channels) + channel;
        let from = number.clone() * Expr::index(shape.output[0] * shape.output[1]);
        let from = b.let_("dy_plane", from);
        let to = number * Expr::index(shape.input[0] * shape.input[1]);
        let to = b.let_("dx_plane", to);
        plane.fill(b, dy, &from, shape.output);
        for row in 0..shape.strides[0] {
            for column in 0..shape.strides[1] {
                // Of place `[u, v]`, seen from place `[u, v]` of the padded plane.
                let of_part = |tap: &[usize; 2]| {
                    tap[0] % shape.strides[0] == row && tap[1] % shape.strides[1] == column
                };
                let taps: Vec<(usize, Expr)> = shape
                    .taps()
                    .zip(&weights)
                    .filter(|(tap, _)| of_part(tap))
                    .map(|([kh, kw], weight)| {
                        let back = [kh / shape.strides[0], kw / shape.strides[1]];
                        let at = (earlier[0] - back[0]) * pitch + earlier[1] - back[1];
                        (at, weight.clone())
                    })
                    .collect();
                match &collected {
                    None => {
                        let first = shape.before[0] * pitch + shape.before[1];
                        let taps: Vec<_> =
                            taps.into_iter().map(|(at, w)| (at + first, w)).collect();
                        finish(b, (&plane, shape.input, &taps), (dx, &to), None);
                    }
                    Some(collected) => {
                        let start = collected.start([row, column]);
                        let put = &mut |b: &mut LoopBuilder, [_, place]: [Expr; 2], sum| {
                            collected.store(b, place + Expr::index(start), sum);
                        };
                        sums(b, &plane, places, &taps, put, true);
                    }
                }
            }
        }
        if let Some(collected) = &collected {
            collected.extract(b, dx, &to, shape.input);
        }
    });
}

/// `dw[k] = sum of x[o * stride + k - before] * dy[o]` over images and windows.
fn weight_gradient(b: &mut LoopBuilder, shape: &Shape) {
    let (x, dy, dw) = (b.input(0), b.input(1), b.output(0));
    let axes = shape.windows();
    let pitch = axes[1].length;
    // Whole vectors: what is beyond the errors is zero.
    let used = (shape.output[0] - 1) * pitch + shape.output[1];
    let count = used.next_multiple_of(LANES);
    let plane = Plane::new(b, "padded", Element::I16, axes, LANES);
    let errors = [shape.output[0], pitch].map(|length| Axis { stride: 1, before: 0, length });
    let errors = Plane::new(b, "errors", Element::I16, errors, LANES);
    b.for_("channel", shape.channels, |b, channel| {
        let taps: Vec<[usize; 2]> = shape.taps().collect();
        let totals: Vec<Local> = taps.iter().map(|_| b.local("total", Expr::i32(0))).collect();
        b.for_("image", shape.batch, |b, image| {
            let number = image * Expr::index(shape.channels) + channel.clone();
            let from = number.clone() * Expr::index(shape.input[0] * shape.input[1]);
            let from = b.let_("x_plane", from);
            let errors_from = number * Expr::index(shape.output[0] * shape.output[1]);
            let errors_from = b.let_("dy_plane", errors_from);
            plane.fill(b, x, &from, shape.input);
            errors.fill(b, dy, &errors_from, shape.output);
            for (taps, totals) in taps.chunks(shape.kernel[1]).zip(totals.chunks(shape.kernel[1])) {
                b.for_("place", count, |b, place| {
                    let error = errors.load(b, place.clone());
                    let error = b.let_("error", error);
                    for (tap, total) in taps.iter().zip(totals) {
                        let at = Expr::index(offset(shape, &plane, *tap));
                        let value = plane.load(b, place.clone() + at);
                        let sum = b.get(*total) + value * error.clone();
                        b.set(*total, sum);
                    }
                });
            }
        });
        for (n, total) in totals.iter().enumerate() {
            let at = channel.clone() * Expr::index(taps.len()) + Expr::index(n);
            let total = b.get(*total);
            b.store(dw, at, total);
        }
    });
}
