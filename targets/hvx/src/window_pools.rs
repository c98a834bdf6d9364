//! Loops of maxima over windows of any size and stride, and of their gradient, on vectors.
//!
//! Planes go to working memory with what never is a maximum between rows and planes, so that a tap is a distance, whatever the row: the
//! maximum of a window is found at every position, whole vectors at a time, and the windows that there are take theirs. Errors are put
//! where windows begin, and each tap in turn takes those of the windows whose first maximum it is.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, LoopKernel};
use trainc_ir::numeric::integer;
use trainc_ir::ops::{MaxPool2d, MaxPool2dGradient};
use trainc_ir::{Element, Scale, TensorType};

/// Elements that are copied at once.
const VECTOR: usize = 128;
/// Most taps of a window: each has a pointer.
const MOST_TAPS: usize = 12;
/// Most elements of planes that are in working memory at a time, with what lies between rows.
const MOST: usize = 1 << 14;
/// Below all bytes.
const NOTHING: i32 = -129;

/// Maxima over windows; `None` where the operation's own loops serve.
pub(crate) fn maxima(
    op: &MaxPool2d,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let MaxPool2d { kernel, strides, pads, dilations, .. } = *op;
    let layout = Layout::of([kernel, strides, dilations], pads, inputs.first()?, outputs.first()?)?;
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let exponent = b.input_exponent(0);
    b.set_output_exponent(0, exponent);
    let (x, y) = (b.input(0), b.output(0));
    // Where nothing is, the least byte is no greater than any.
    let padded = b.scratch("padded", Element::I8, layout.elements());
    let dense = b.scratch("maxima", Element::I8, layout.dense());
    b.for_("image", layout.images, |b, image| {
        layout.pad(b, x, padded, i8::MIN.into(), &image);
        layout.maxima(b, padded, dense);
        layout.each_window(b, &image, |b, place, window| {
            let value = b.load(dense, place);
            b.store(y, window, value);
        });
    });
    Some(b.finish())
}

/// Their gradient; `None` where the operation's own loops serve.
pub(crate) fn gradient(
    op: &MaxPool2dGradient,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let MaxPool2dGradient { kernel, strides, pads, dilations, .. } = *op;
    let layout = Layout::of([kernel, strides, dilations], pads, inputs.first()?, inputs.get(1)?)?;
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let exponent = b.input_exponent(1);
    b.set_output_exponent(0, exponent);
    let (x, dy, dx) = (b.input(0), b.input(1), b.output(0));
    let padded = b.scratch("padded", Element::I16, layout.elements());
    let dense = b.scratch("maxima", Element::I16, layout.dense());
    let errors = b.scratch("errors", Element::I16, layout.dense());
    let sums = b.scratch("sums", Element::I16, layout.elements());
    b.for_("image", layout.images, |b, image| {
        layout.pad(b, x, padded, NOTHING, &image);
        layout.maxima(b, padded, dense);
        for (buffer, count) in [(errors, layout.dense()), (sums, layout.elements())] {
            b.for_("i", count, |b, i| b.store(buffer, i, Expr::i32(0)));
        }
        layout.each_window(b, &image, |b, place, window| {
            let error = b.load(dy, window);
            b.store(errors, place, error);
        });
        for tap in layout.taps() {
            b.for_("i", layout.dense(), |b, i| {
                let at = i.clone() + Expr::index(tap);
                let value = b.load(padded, at.clone());
                let most = b.load(dense, i.clone());
                let error = b.let_("error", b.load(errors, i.clone()));
                let first = b.let_("first", value.equal(most));
                let sum = b.load(sums, at.clone());
                let taken = first.clone().select(error.clone(), Expr::i32(0));
                let sum = b.let_("sum", sum + taken);
                b.store(sums, at, sum);
                b.store(errors, i, first.select(Expr::i32(0), error));
            });
        }
        layout.each_row(b, &image, |b, place, row, columns| {
            b.for_("column", columns, |b, column| {
                let sum = b.load(sums, place.clone() + column.clone());
                b.store(dx, row.clone() + column, integer::clamp(sum, -127, 127));
            });
        });
    });
    Some(b.finish())
}

/// Planes in working memory: position `(row, column)` of plane `p` at `first + p plane + row pitch + column`.
struct Layout {
    images: usize,
    channels: usize,
    /// Rows and columns of a plane, and of its windows.
    size: [usize; 2],
    windows: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    first: usize,
    pitch: usize,
    plane: usize,
}

impl Layout {
    fn of(
        [kernel, strides, dilations]: [[usize; 2]; 3],
        pads: [usize; 4],
        x: &TensorType,
        y: &TensorType,
    ) -> Option<Layout> {
        let bytes = |ty: &TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
        let (&[images, channels, height, width], &[_, _, rows, columns]) =
            (&x.shape[..], &y.shape[..])
        else {
            return None;
        };
        if dilations != [1, 1] {
            return None;
        }
        let (size, windows) = ([height, width], [rows, columns]);
        // What the last window reads behind the plane.
        let behind = |axis: usize| {
            let reach = windows[axis].checked_sub(1)? * strides[axis] + kernel[axis];
            Some(reach.saturating_sub(pads[axis] + size[axis]))
        };
        let [below, right] = [behind(0)?, behind(1)?];
        let [top, left, ..] = pads;
        // Each window reads something.
        let reads = |axis: usize, before: usize, behind: usize| {
            before < kernel[axis] && behind < kernel[axis] && size[axis] > 0
        };
        let pitch = width + left.max(right);
        let plane = (height + top.max(below)) * pitch;
        // So many planes at a time as fit: they are what an image is below.
        let parts = (1..=channels).filter(|parts| channels.is_multiple_of(*parts));
        let parts = parts.into_iter().find(|parts| channels / parts * plane <= MOST)?;
        let (images, channels) = (images * parts, channels / parts);
        let layout = Layout {
            images,
            channels,
            size,
            windows,
            kernel,
            strides,
            first: top * pitch + left,
            pitch,
            plane,
        };
        let fits = kernel[0] * kernel[1] <= MOST_TAPS
            && channels * plane >= VECTOR
            && channels * height * width >= VECTOR
            && images > 0;
        let serves = bytes(x) && bytes(y) && reads(0, top, below) && reads(1, left, right);
        (serves && fits).then_some(layout)
    }

    /// Distances of the taps of a window from its begin, in order.
    fn taps(&self) -> Vec<usize> {
        let [rows, columns] = self.kernel;
        let taps = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        taps.map(|(row, column)| row * self.pitch + column).collect()
    }

    /// Positions where windows may begin, whole vectors.
    fn dense(&self) -> usize {
        let last = |axis: usize| (self.windows[axis] - 1) * self.strides[axis];
        let last = (self.channels - 1) * self.plane + last(0) * self.pitch + last(1);
        (last + 1).next_multiple_of(VECTOR)
    }

    /// Elements of an image, and what is read and written behind them.
    fn elements(&self) -> usize {
        let taps = self.dense() + self.taps().last().copied().unwrap_or(0);
        let behind = self.first + self.channels * self.plane + self.between(true) + VECTOR;
        taps.max(behind).next_multiple_of(VECTOR)
    }

    /// Elements behind a row, or behind a plane's last one, whole vectors.
    fn between(&self, last: bool) -> usize {
        let gap = self.pitch - self.size[1];
        let rows = if last { self.plane - self.size[0] * self.pitch } else { 0 };
        (gap + rows).next_multiple_of(VECTOR)
    }

    /// Rows of an image from whose begin as many columns as whole vectors have lie in the image.
    fn whole_rows(&self) -> usize {
        let [height, width] = self.size;
        let rows = self.channels * height;
        let columns = width.next_multiple_of(VECTOR);
        (rows * width).checked_sub(columns).map_or(0, |last| (last / width + 1).min(rows))
    }

    /// Each row of an image: where it is in working memory, and in the tensor, and how many columns of it go at once; the columns
    /// behind the row's are the next one's.
    fn each_row(
        &self,
        b: &mut LoopBuilder,
        image: &Expr,
        mut body: impl FnMut(&mut LoopBuilder, Expr, Expr, usize),
    ) {
        let [height, width] = self.size;
        let whole = self.whole_rows();
        let mut one = |b: &mut LoopBuilder, plane: Expr, row: Expr, columns: usize| {
            let place = Expr::index(self.first)
                + plane.clone() * Expr::index(self.plane)
                + row.clone() * Expr::index(self.pitch);
            let row = (image.clone() * Expr::index(self.channels) + plane)
                * Expr::index(height * width)
                + row * Expr::index(width);
            body(b, place, row, columns);
        };
        let columns = width.next_multiple_of(VECTOR);
        let (planes, rest) = (whole / height, whole % height);
        b.for_("plane", planes, |b, plane| {
            b.for_("row", height, |b, row| one(b, plane.clone(), row, columns));
        });
        // The plane that only some rows of are whole, and those behind it.
        if rest > 0 {
            let plane = || Expr::index(planes);
            b.for_("row", rest, |b, row| one(b, plane(), row, columns));
            b.for_range("row", Expr::index(rest), Expr::index(height), |b, row| {
                one(b, plane(), row, width);
            });
        }
        let behind = planes + usize::from(rest > 0);
        if behind < self.channels {
            b.for_range("plane", Expr::index(behind), Expr::index(self.channels), |b, plane| {
                b.for_("row", height, |b, row| one(b, plane.clone(), row, width));
            });
        }
    }

    /// Copies an image, with `nothing` around its rows.
    fn pad(&self, b: &mut LoopBuilder, x: Buffer, padded: Buffer, nothing: i32, image: &Expr) {
        let fill = |b: &mut LoopBuilder, from: Expr, count: usize| {
            if count > 0 {
                b.for_("i", count, |b, i| b.store(padded, from.clone() + i, Expr::i32(nothing)));
            }
        };
        fill(b, Expr::i64(0), self.first.next_multiple_of(VECTOR));
        let width = self.size[1];
        let between = self.between(true);
        self.each_row(b, image, |b, place, row, columns| {
            b.for_("column", columns, |b, column| {
                let value = b.load(x, row.clone() + column.clone());
                b.store(padded, place.clone() + column, value);
            });
            // Behind any row as much as behind a plane's last one: the next row is written over it.
            fill(b, place + Expr::index(width), between);
        });
    }

    /// Maxima of windows that begin anywhere.
    fn maxima(&self, b: &mut LoopBuilder, padded: Buffer, dense: Buffer) {
        let taps = self.taps();
        b.for_("i", self.dense(), |b, i| {
            let values = taps.iter().map(|&tap| b.load(padded, i.clone() + Expr::index(tap)));
            let values: Vec<Expr> = values.collect();
            let most = values.into_iter().reduce(Expr::maximum);
            if let Some(most) = most {
                b.store(dense, i, most);
            }
        });
    }

    /// Each window of an image: where it begins in working memory, and which of the tensor it is.
    fn each_window(
        &self,
        b: &mut LoopBuilder,
        image: &Expr,
        mut body: impl FnMut(&mut LoopBuilder, Expr, Expr),
    ) {
        let [rows, columns] = self.windows;
        b.for_shape("w", &[self.channels, rows, columns], |b, indices| {
            let [plane, row, column] = indices else { return };
            let place = plane.clone() * Expr::index(self.plane)
                + row.clone() * Expr::index(self.strides[0] * self.pitch)
                + column.clone() * Expr::index(self.strides[1]);
            let window = ((image.clone() * Expr::index(self.channels) + plane.clone())
                * Expr::index(rows)
                + row.clone())
                * Expr::index(columns)
                + column.clone();
            body(b, place, window);
        });
    }
}
