//! Convolutions of each channel by itself, forward and both gradients, by `sdot`: `support/trainc_neon_depthwise.h`.
//!
//! Planes are copied with a border of zeros, one channel after the other. A sum of a row of taps is one instruction for four places,
//! whose windows table lookups gather; windows next to each other share them between rows of sums. An error is such a product, too: of the
//! result's error, with zeros between its places where there is a stride, by the taps backwards. A weight gradient has a tap's sum in
//! a register, over all places of a plane that lie together.

use trainc_c::product::{ProductKernel, suffix};
use trainc_c::text::{Scratch, Text, declare, times};
use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::product::{Convolution, Narrowing, Pass};
use trainc_ir::program::Kernel;

use super::in_place::Border;
use super::parts::{PARTS, Parts, for_parts, given, own, range};
use super::{argument, emit_finish, operands};
use crate::level::Level;

/// Most rows and columns of taps: those of a register.
const TAPS: usize = 4;
/// Columns whose windows are gathered together.
const COLUMNS: usize = 4;
/// Bytes behind a plane that are read or written.
const BEHIND: usize = 32;

/// A kernel that starts with a convolution of each channel by itself.
#[derive(Debug)]
pub(crate) struct DepthwiseProduct {
    kernel: ProductKernel,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Windows(Windows),
    Gradient(Gradient),
}

impl DepthwiseProduct {
    /// The name for readers.
    pub(crate) const NAME: &str = "depthwise windows";

    /// The convolution that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why there is no such kernel for it.
    pub(crate) fn of(
        level: Level,
        signature: &Signature<'_>,
    ) -> Option<Result<DepthwiseProduct, String>> {
        Some(ProductKernel::of_depthwise(signature)?.and_then(|kernel| {
            let c = &kernel.convolution;
            if !matches!(level, Level::Dotprod | Level::I8mm) {
                return Err("there is no sdot".into());
            }
            if c.sums() >= 1 << 28 || c.images * c.groups * c.plane().max(c.places()) >= 1 << 30 {
                return Err("its offsets exceed 32 bits".into());
            }
            let fits = c.outputs == 1 && c.dilations == [1, 1] && c.padding == 0 && c.images > 0;
            if !fits {
                return Err("channels have several filters, or taps lie apart".into());
            }
            let way = match c.pass {
                Pass::Gradient => Way::Gradient(Gradient::of(c)?),
                Pass::Forward | Pass::Error => Way::Windows(Windows::of(c, kernel.finish)?),
            };
            Ok(DepthwiseProduct { kernel, way })
        }))
    }
}

impl Implementation for DepthwiseProduct {
    fn name(&self) -> &'static str {
        DepthwiseProduct::NAME
    }

    fn cost(&self) -> Cost {
        let c = &self.kernel.convolution;
        let product = match &self.way {
            Way::Windows(windows) => windows.instructions(c, self.kernel.finish),
            Way::Gradient(gradient) => gradient.instructions(c),
        };
        Cost::new(product as u64 + self.kernel.rest_cycles())
    }

    fn scratch_bytes(&self) -> usize {
        self.kernel.scratch_bytes(match &self.way {
            Way::Windows(windows) => windows.bytes,
            Way::Gradient(gradient) => gradient.bytes,
        })
    }
}

impl CKernel for DepthwiseProduct {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let mut parts = Parts::new(name);
        let (c, finish) = (&self.kernel.convolution, self.kernel.finish);
        let text = self.kernel.emit(name, kernel, |out| match &self.way {
            Way::Windows(windows) => windows.emit(c, finish, &mut parts, out),
            Way::Gradient(gradient) => gradient.emit(c, finish, &mut parts, out),
        })?;
        Ok(Emitted::from(parts.finish() + &text))
    }
}

/// Rows of a plane that are copied with a border.
#[derive(Debug)]
struct Copy {
    /// Of the plane.
    size: [usize; 2],
    /// Rows and columns that are copied, and where the first goes.
    count: [usize; 2],
    first: usize,
    /// From a row of the copy to the next, and from a copied one.
    pitch: usize,
    step: usize,
    /// Whether columns are copied to every other one.
    spread: bool,
}

impl Copy {
    /// Of a plane whose place `(i, j)` goes to `margin + spread * (i, j)` of `length` rows and columns.
    fn new(size: [usize; 2], margin: [usize; 2], spread: [usize; 2], length: [usize; 2]) -> Copy {
        let count = [0, 1].map(|axis| {
            let room = length[axis].saturating_sub(margin[axis]);
            room.div_ceil(spread[axis]).min(size[axis])
        });
        let pitch = length[1];
        let first = margin[0] * pitch + margin[1];
        Copy { size, count, first, pitch, step: spread[0] * pitch, spread: spread[1] == 2 }
    }

    /// The C of the copy of plane number `number` of an operand.
    fn call(&self, from: &str, number: &str, to: &str) -> String {
        format!(
            "trainc_{}_rows({from} + {}, {}, {to} + {}, {}, {}, {});",
            if self.spread { "spread" } else { "copy" },
            times(number, self.size[0] * self.size[1]),
            self.size[1],
            self.first,
            self.step,
            self.count[0],
            self.count[1]
        )
    }

    /// Instructions of a call.
    fn instructions(&self) -> usize {
        let row = match (self.spread, self.count[1]) {
            (true, count) => 3 + 4 * count.div_ceil(16),
            (false, 32) => 7,
            (false, 4 | 8 | 16) => 5,
            (false, count @ 16..) => 6 + 4 * count.div_ceil(16),
            (false, 4..) => 7,
            (false, count) => 6 + 4 * count,
        };
        8 + self.count[0] * row
    }
}

/// A product whose lanes are places of the result.
#[derive(Debug)]
struct Windows {
    copy: Copy,
    /// Rows and columns of the result.
    result: [usize; 2],
    /// From a window to the next.
    step: [usize; 2],
    /// Whether taps run backwards.
    backwards: bool,
    /// Bytes of a copy, where copies and sums are in the working memory, and of all of it.
    plane_bytes: usize,
    planes: usize,
    bytes: usize,
}

impl Windows {
    fn of(c: &Convolution, finish: Option<Narrowing>) -> Result<Windows, String> {
        let error = c.pass == Pass::Error;
        let (size, result) = match error {
            true => ([c.rows, c.columns], [c.height, c.width]),
            false => ([c.height, c.width], [c.rows, c.columns]),
        };
        let (step, spread) = if error { ([1, 1], c.strides) } else { (c.strides, [1, 1]) };
        let before = [c.pads[0], c.pads[1]];
        let margin = match error {
            true if (0..2).any(|axis| before[axis] >= c.taps[axis]) => {
                return Err("its padding exceeds its taps".into());
            }
            true => [0, 1].map(|axis| c.taps[axis] - 1 - before[axis]),
            false => before,
        };
        let few = c.taps.iter().all(|&taps| taps <= TAPS) && c.strides[1] <= 2;
        if !few || result[1] < COLUMNS || result[0] == 0 {
            return Err("its windows do not fit registers".into());
        }
        let length = [0, 1].map(|axis| (result[axis] - 1) * step[axis] + c.taps[axis]);
        let plane_bytes = (length[0] * length[1] + BEHIND).next_multiple_of(16);
        let mut scratch = Scratch::default();
        if finish.is_some() {
            scratch.take(4 * c.sums());
        }
        let planes = scratch.take(c.groups.min(PARTS) * plane_bytes);
        Ok(Windows {
            copy: Copy::new(size, margin, spread, length),
            result,
            step,
            backwards: error,
            plane_bytes,
            planes,
            bytes: scratch.bytes(),
        })
    }

    /// Whether rows of sums share the windows of a row.
    fn near(&self, c: &Convolution) -> bool {
        self.step == [1, 1] && c.taps[0] == 3
    }

    /// An estimate of the instructions of a call.
    fn instructions(&self, c: &Convolution, finish: Option<Narrowing>) -> usize {
        let [rows, columns] = self.result;
        let (sixteens, rest) = (columns / 16, columns % 16);
        let sums = if self.near(c) {
            let (eights, fours) = (rest / 8, (rest % 8).div_ceil(COLUMNS));
            let each = [(sixteens, 37), (eights, 17), (fours, 8)];
            10 + each.iter().map(|(count, row)| count * (20 + rows * row)).sum::<usize>()
        } else {
            20 + rows * (2 + columns.div_ceil(COLUMNS) * (3 + 3 * c.taps[0]))
        };
        let planes = c.images * c.groups * (5 + self.copy.instructions() + sums);
        let taps = c.groups * if c.taps == [3, 3] { 20 } else { 20 + 8 * c.tap_count() };
        let store = if finish.is_some() { c.sums() * 6 / 5 } else { 0 };
        200 + planes + taps + store + self.plane_bytes / 8
    }

    fn emit(
        &self,
        c: &Convolution,
        finish: Option<Narrowing>,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let ([high, wide], [rows, columns]) = (c.taps, self.result);
        let shares = c.groups.min(PARTS);
        if finish.is_some() {
            declare(out, "int32_t", "sums", 0, "Of the results.");
        }
        declare(out, "int8_t", "planes", self.planes, "A plane with its border, by parts.");
        out.line(format!("int32_t bits = 0, part_bits[{PARTS}];"));
        let taken = [
            own("const int8_t *", "x0"),
            own("const int8_t *", "x1"),
            own("int8_t *", "planes"),
            given("int32_t *", "sums", if finish.is_some() { "sums" } else { "y0" }),
            own("int32_t *", "part_bits"),
        ];
        parts.run(out, shares, &taken, |out| {
            for_parts(out);
            let [begin, end] = range(c.groups, shares);
            out.line(format!(
                "int8_t *const plane = planes + {};",
                times("part", self.plane_bytes)
            ));
            out.line(format!("trainc_zero(plane, {});", self.plane_bytes));
            out.line("uint32x4_t bits = vdupq_n_u32(0);");
            out.open(format!("for (int32_t channel = {begin}; channel < {end}; channel++) {{"));
            out.long(format!(
                "const int8x16_t taps = trainc_taps(x1 + {}, {high}, {wide}, {});",
                times("channel", high * wide),
                i32::from(self.backwards)
            ));
            let number = number(c, out);
            out.long(self.copy.call("x0", number, "plane"));
            let to = format!("sums + {}", times(number, rows * columns));
            let pitch = self.copy.pitch;
            let [down, right] = self.step;
            let windows = match (self.near(c), high) {
                (true, _) => format!("near_windows(plane, {pitch}, taps"),
                (false, 3) => format!("three_rows_apart(plane, {pitch}, taps, {down}, {right}"),
                (false, _) => format!("rows_apart(plane, {pitch}, taps, {high}, {down}, {right}"),
            };
            out.long(format!(
                "bits = vorrq_u32(bits, trainc_{windows}, {rows}, {columns}, {to}));"
            ));
            close_images(c, out);
            out.close();
            out.line("part_bits[part] = trainc_magnitude_bits(bits);");
            out.close();
        });
        out.line(format!("bits |= trainc_all_bits(part_bits, {shares});"));
        finish_sums(c, finish, parts, out);
    }
}

/// The weight gradient.
#[derive(Debug)]
struct Gradient {
    /// The operand with its border, apart by remainders of strides; rows of places where there are none.
    border: Border,
    rows: Copy,
    errors: Copy,
    /// Where each tap reads, from a place on.
    offsets: Vec<usize>,
    /// Places with what is between rows, in whole vectors.
    count: usize,
    /// Bytes of an image's planes.
    plane_bytes: usize,
    /// Where planes and errors are in the working memory, and bytes of all of it.
    planes: usize,
    errors_at: usize,
    bytes: usize,
}

impl Gradient {
    fn of(c: &Convolution) -> Result<Gradient, String> {
        let windows = [c.rows, c.columns];
        if windows.contains(&0) || c.plane() == 0 {
            return Err("there is nothing to sum".into());
        }
        let apart = |axis: usize| c.strides[axis].min(c.taps[axis]);
        let size = [0, 1].map(|axis| windows[axis] + (c.taps[axis] - 1) / c.strides[axis]);
        let border = Border {
            plane: [c.height, c.width],
            start: [c.pads[0], c.pads[1]],
            step: c.strides,
            parts: [apart(0), apart(1)],
            size,
        };
        let place = |down: usize, right: usize| {
            let of = down % c.strides[0] * border.parts[1] + right % c.strides[1];
            of * size[0] * size[1] + down / c.strides[0] * size[1] + right / c.strides[1]
        };
        let offsets: Vec<usize> =
            (0..c.tap_count()).map(|tap| place(tap / c.taps[1], tap % c.taps[1])).collect();
        let pitch = size[1];
        let count = ((c.rows - 1) * pitch + c.columns).next_multiple_of(16);
        let read = offsets.iter().max().copied().unwrap_or(0) + count;
        let plane_bytes = border.bytes().max(read).next_multiple_of(16);
        let shares = c.groups.min(PARTS);
        let mut scratch = Scratch::default();
        scratch.take(4 * c.sums());
        let planes = scratch.take(shares * c.images * plane_bytes);
        let errors_at = scratch.take(shares * c.images * count);
        Ok(Gradient {
            rows: Copy::new(border.plane, border.start, [1, 1], size),
            errors: Copy::new(windows, [0, 0], [1, 1], [c.rows, pitch]),
            border,
            offsets,
            count,
            plane_bytes,
            planes,
            errors_at,
            bytes: scratch.bytes(),
        })
    }

    /// An estimate of the instructions of a call.
    fn instructions(&self, c: &Convolution) -> usize {
        let taps = c.tap_count();
        let (nines, ones) = (taps / 9, taps % 9);
        let vectors = self.count / 16;
        let operand = match c.strides {
            [1, 1] => self.rows.instructions(),
            _ => {
                let parts = self.border.parts[0] * self.border.parts[1];
                let row = match self.border.size[1] {
                    columns @ 8.. => 5 * columns.div_ceil(8),
                    columns => 8 * columns,
                };
                30 + parts * (40 + self.border.size[0] * (10 + row))
            }
        };
        let sums = nines * (14 + 20 * vectors) + ones * (10 + 6 * vectors);
        let image = 5 + operand + self.errors.instructions() + sums;
        200 + c.groups * (30 + 2 * taps + c.images * image) + 4 * c.sums()
    }

    fn emit(
        &self,
        c: &Convolution,
        finish: Option<Narrowing>,
        parts: &mut Parts<'_>,
        out: &mut Text,
    ) {
        let [x, dy] = operands(c);
        let (taps, shares) = (c.tap_count(), c.groups.min(PARTS));
        if finish.is_some() {
            declare(out, "int32_t", "sums", 0, "Of the results.");
        }
        let text = "Planes of a channel with borders, by parts.";
        declare(out, "int8_t", "planes", self.planes, text);
        declare(out, "int8_t", "errors", self.errors_at, "Their errors, with zeros between rows.");
        let taken = [
            own("const int8_t *", "x0"),
            own("const int8_t *", "x1"),
            own("int8_t *", "planes"),
            own("int8_t *", "errors"),
            given("int32_t *", "sums", if finish.is_some() { "sums" } else { "y0" }),
        ];
        let [all_planes, all_errors] = [self.plane_bytes, self.count].map(|n| c.images * n);
        parts.run(out, shares, &taken, |out| {
            let offsets: Vec<String> = self.offsets.iter().map(ToString::to_string).collect();
            out.long(format!(
                "static const int32_t offsets[{taps}] = {{ {} }};",
                offsets.join(", ")
            ));
            let apart = c.strides != [1, 1];
            if apart {
                self.border.emit("border", out);
            }
            for_parts(out);
            out.line(format!("int8_t *const own = planes + {};", times("part", all_planes)));
            out.line(format!("int8_t *const own_errors = errors + {};", times("part", all_errors)));
            out.line(format!("trainc_zero(own, {all_planes});"));
            out.line(format!("trainc_zero(own_errors, {all_errors});"));
            let [begin, end] = range(c.groups, shares);
            out.open(format!("for (int32_t channel = {begin}; channel < {end}; channel++) {{"));
            let number = number(c, out);
            let to = |name: &str, bytes: usize| match c.images {
                1 => name.to_string(),
                _ => format!("{name} + {}", times("image", bytes)),
            };
            let plane = to("own", self.plane_bytes);
            out.long(match apart {
                true => format!(
                    "trainc_bordered(&border, {x} + {}, {plane});",
                    times(number, c.plane())
                ),
                false => self.rows.call(x, number, &plane),
            });
            out.long(self.errors.call(dy, number, &to("own_errors", self.count)));
            close_images(c, out);
            out.long(format!(
                "trainc_tap_gradients(own_errors, {count}, own, {}, {}, {count}, offsets, {taps}, sums + {});",
                self.plane_bytes,
                c.images,
                times("channel", taps),
                count = self.count
            ));
            out.close();
            out.close();
        });
        if finish.is_some_and(Narrowing::asks_magnitude) {
            out.line(format!("const int32_t bits = trainc_bits_of_sums(sums, {});", c.sums()));
        } else {
            out.line("const int32_t bits = 0;");
        }
        finish_sums(c, finish, parts, out);
    }
}

/// Opens a loop over images, if there are several; the C of the number of a channel's plane.
fn number(c: &Convolution, out: &mut Text) -> &'static str {
    if c.images == 1 {
        return "channel";
    }
    out.for_("image", c.images);
    out.line(format!("const int32_t number = {} + channel;", times("image", c.groups)));
    "number"
}

fn close_images(c: &Convolution, out: &mut Text) {
    if c.images > 1 {
        out.close();
    }
}

/// Rounds sums that lie together.
fn finish_sums(c: &Convolution, finish: Option<Narrowing>, parts: &mut Parts<'_>, out: &mut Text) {
    if !finish.is_some_and(Narrowing::asks_magnitude) {
        out.line("(void)bits;");
    }
    emit_finish(finish, out);
    if finish.is_none() {
        return;
    }
    let (all, units) = (c.sums(), c.sums().div_ceil(16));
    let shares = units.min(PARTS);
    let taken = [
        own("const int32_t *", "sums"),
        own("int8_t *", "y0"),
        given("const struct trainc_rounding *", "rounding", "&rounding"),
    ];
    parts.run(out, shares, &taken, |out| {
        for_parts(out);
        let [begin, end] = range(units, shares);
        out.long(format!(
            "const int32_t first = 16 * ({begin}), last = trainc_minimum32(16 * ({end}), {all});"
        ));
        out.long(format!(
            "trainc_store_all_{}(sums + first, last - first, y0 + first{});",
            suffix(finish),
            argument(finish)
        ));
        out.close();
    });
}
