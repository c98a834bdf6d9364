//! Windows of pools, channels last.

use trainc_ir::TensorType;

use super::text::{Text, times};

/// Where the windows of a pool lie. Every window has an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    kernel: [usize; 2],
    strides: [usize; 2],
    pads: [usize; 4],
    pub(crate) batch: usize,
    /// Rows and columns of the operand.
    pub(crate) input: [usize; 2],
    /// Rows and columns of the result.
    pub(crate) output: [usize; 2],
    pub(crate) channels: usize,
}

impl Windows {
    /// `None` if a window lies outside, or offsets need more than 32 bits.
    pub(crate) fn new(
        [kernel, strides]: [[usize; 2]; 2],
        pads: [usize; 4],
        [x, y]: [&TensorType; 2],
    ) -> Option<Windows> {
        let (&[batch, height, width, channels], &[_, rows, columns, _]) =
            (x.shape.dims(), y.shape.dims())
        else {
            return None;
        };
        let small = [x, y].iter().all(|ty| ty.count() > 0 && ty.count() < 1 << 28);
        let meets = |axis: usize, size: usize, results: usize| {
            let last = (results.max(1) - 1) * strides[axis];
            pads[axis] < kernel[axis] && last < size + pads[axis]
        };
        let whole = meets(0, height, rows) && meets(1, width, columns);
        (small && whole).then_some(Windows {
            kernel,
            strides,
            pads,
            batch,
            input: [height, width],
            output: [rows, columns],
            channels,
        })
    }

    /// Places of a window, those outside of the operand included.
    pub(crate) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Opens the loops over rows `begin..end` of all images and over places; declares `x`, the image; where the window
    /// starts and ends; and `y`, the place of the result. `bytes` are those of the operand's and of the result's places.
    pub(crate) fn open(&self, bytes: [usize; 2], out: &mut Text) {
        let ([height, width], [rows, columns]) = (self.input, self.output);
        let [of_x, of_y] = bytes;
        out.open("for (int32_t line = begin; line < end; line++) {");
        let image = height * width * of_x;
        out.line(format!("const uint8_t *const x = work->x + line / {rows} * {image};"));
        self.range(0, &format!("(line % {rows})"), out);
        out.for_("place", columns);
        self.range(1, "place", out);
        let y = times(&format!("(line * {columns} + place)"), of_y);
        out.line(format!("uint8_t *const y = work->y + {y};"));
    }

    /// Opens the loops over a window's rows and columns, where `at` is a place's part at `offset` in it.
    pub(crate) fn open_window(&self, of_x: usize, offset: &str, out: &mut Text) {
        let width = self.input[1];
        let first = times(&format!("(row_start * {width} + column_start)"), of_x);
        out.line(format!("const uint8_t *from = x + {first} + {offset};"));
        out.open("for (int32_t row = row_start; row < row_end; row++) {");
        out.line("const uint8_t *at = from;");
        out.open("for (int32_t column = column_start; column < column_end; column++) {");
    }

    /// Closes them.
    pub(crate) fn close_window(&self, of_x: usize, out: &mut Text) {
        out.line(format!("at += {of_x};"));
        out.close();
        out.line(format!("from += {};", self.input[1] * of_x));
        out.close();
    }

    /// Declares where a window starts and ends.
    fn range(&self, axis: usize, place: &str, out: &mut Text) {
        let name = ["row", "column"][axis];
        let (stride, pad) = (self.strides[axis], self.pads[axis]);
        let (kernel, size) = (self.kernel[axis], self.input[axis]);
        let start = times(place, stride);
        let edge = (self.output[axis] - 1) * stride + kernel > size + pad;
        if pad == 0 {
            out.line(format!("const int32_t {name}_start = {start};"));
        } else {
            out.line(format!("const int32_t {name}_first = {start} - {pad};"));
            out.line(format!("const int32_t {name}_start = {name}_first < 0 ? 0 : {name}_first;"));
        }
        let first = if pad == 0 { "start" } else { "first" };
        let end = format!("{name}_{first} + {kernel}");
        if edge {
            out.line(format!("const int32_t {name}_end = {end} < {size} ? {end} : {size};"));
        } else {
            out.line(format!("const int32_t {name}_end = {end};"));
        }
    }
}
