//! Matrix products of few images, and errors of them, in which the weights are read where they lie: `sdot` takes four k of a
//! row of weights or, for an error, of four rows; of five to eight images `smmla` takes eight. `support/trainc_neon_matrix.h`,
//! `trainc_neon_matrix_i8mm.h`.

use trainc_c::product::suffix;
use trainc_ir::product::{Convolution, Narrowing, Pass};

use super::emit_finish;
use super::parts::{PARTS, Parts, for_parts, own, range};
use super::text::{Scratch, Text, declare};
use crate::level::Level;

/// Most images: with more, packed weights are shared by enough of them.
const IMAGES: usize = 16;
/// Instructions of a function's call, of a unit of rows or lanes.
const CALL: usize = 150;
const UNIT: usize = 60;

/// A matrix product or its error.
#[derive(Debug)]
pub(super) struct FewImages<'a> {
    convolution: &'a Convolution,
    /// Whether images lie in blocks of 8 k by 8 images, for `smmla`.
    eights: bool,
    sums: usize,
    padded: usize,
    bytes: usize,
}

impl<'a> FewImages<'a> {
    /// Plans one, where it is one.
    pub(super) fn of(
        level: Level,
        c: &'a Convolution,
        finish: Option<Narrowing>,
    ) -> Option<FewImages<'a>> {
        let matrix = c.groups == 1 && c.tap_count() == 1 && c.plane() == 1 && c.places() == 1;
        let least = match c.pass {
            Pass::Forward => c.outputs >= 8,
            Pass::Error => c.channels >= 16,
            Pass::Gradient => false,
        };
        let adaptive = matches!(finish, Some(Narrowing::Adaptive { .. }));
        let few = (1..=IMAGES).contains(&c.images);
        if !matches!(level, Level::Dotprod | Level::I8mm) || !matrix || !least || !few || adaptive {
            return None;
        }
        let mut scratch = Scratch::default();
        let summed = if c.pass == Pass::Error { c.outputs } else { c.channels };
        let eights = level == Level::I8mm && (5..=8).contains(&c.images) && summed >= 8;
        let mut product = FewImages { convolution: c, eights, sums: 0, padded: 0, bytes: 0 };
        product.sums = scratch.take(4 * product.results());
        if eights {
            product.padded = scratch.take(8 * summed.next_multiple_of(8));
        } else if c.pass == Pass::Error {
            let images = c.images.next_multiple_of(4);
            product.padded = scratch.take(images * c.outputs.next_multiple_of(16));
        }
        product.bytes = scratch.bytes();
        Some(product)
    }

    /// Bytes of working memory.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.bytes
    }

    fn results(&self) -> usize {
        let c = self.convolution;
        c.images * if c.pass == Pass::Error { c.channels } else { c.outputs }
    }

    /// An estimate of the instructions of a call.
    pub(super) fn instructions(&self) -> usize {
        let c = self.convolution;
        let fours = c.images.div_ceil(4);
        if self.eights {
            // A unit of 8 rows takes 16 k at a time, one of 8 lanes 8 outputs.
            let (blocks, units) = match c.pass {
                Pass::Error => {
                    (c.outputs, c.channels.div_ceil(8) * (100 + 46 * c.outputs.div_ceil(8)))
                }
                _ => (c.channels, c.outputs.div_ceil(8) * (100 + 27 * c.channels.div_ceil(8))),
            };
            return CALL + 32 * blocks.div_ceil(8) + units + 2 * self.results();
        }
        let units = match (c.pass, c.images) {
            (Pass::Error, 1) => c.channels.div_ceil(16) * (UNIT + 22 * c.outputs.div_ceil(4)),
            (Pass::Error, _) => {
                c.channels.div_ceil(16) * fours * (UNIT + 34 * c.outputs.div_ceil(4))
            }
            (_, 1) => c.outputs.div_ceil(8) * (UNIT + 20 * c.channels.div_ceil(16)),
            _ => c.outputs.div_ceil(4) * fours * (UNIT + 28 * c.channels.div_ceil(16)),
        };
        CALL + units + 2 * self.results()
    }

    /// The kernel's body.
    pub(super) fn emit(&self, finish: Option<Narrowing>, parts: &mut Parts<'_>, out: &mut Text) {
        let c = self.convolution;
        let error = c.pass == Pass::Error;
        declare(out, "int32_t", "sums", self.sums, "Of the results.");
        let summed = if error { c.outputs } else { c.channels };
        let units = match (error, c.images) {
            _ if self.eights => (if error { c.channels } else { c.outputs }) / 8,
            (true, _) => c.channels / 16,
            (false, 1) => c.outputs / 8,
            (false, _) => c.outputs / 4,
        };
        let outputs16 = c.outputs.next_multiple_of(16);
        if self.eights {
            let of = if error { "errors" } else { "operand" };
            let comment = format!("The {of}, 8 by 8 images.");
            declare(out, "int8_t", "eights", self.padded, &comment);
            out.long(format!("trainc_in_eights(x0, {}, {summed}, eights);", c.images));
        } else if error {
            declare(out, "int8_t", "padded", self.padded, "The errors, in whole blocks.");
            out.long(format!(
                "trainc_padded(x0, {}, {}, padded, {outputs16});",
                c.images, c.outputs
            ));
            let missing = c.images.next_multiple_of(4) - c.images;
            if missing > 0 {
                out.long(format!(
                    "trainc_zero(padded + {}, {});",
                    c.images * outputs16,
                    missing * outputs16
                ));
            }
        }
        let shares = units.min(PARTS);
        out.line(format!("int32_t bits = 0, part_bits[{shares}];"));
        let operand = match (self.eights, error) {
            (true, _) => "eights",
            (_, true) => "padded",
            (_, false) => "x0",
        };
        let taken = [
            own("const int8_t *", operand),
            own("const int8_t *", "x1"),
            own("int32_t *", "sums"),
            own("int32_t *", "part_bits"),
        ];
        parts.run(out, shares, &taken, |out| {
            for_parts(out);
            let [begin, end] = range(units, shares);
            out.long(match error {
                _ if self.eights => {
                    let function = if error { "errors" } else { "dots" };
                    format!(
                        "part_bits[part] = trainc_{function}_i8mm(eights, x1, {}, {}, {}, {begin}, {end}, sums);",
                        c.images, c.outputs, c.channels
                    )
                }
                true => format!(
                    "part_bits[part] = trainc_errors(padded, x1, {}, {}, {outputs16}, {}, {begin}, {end}, sums);",
                    c.images, c.outputs, c.channels
                ),
                false => format!(
                    "part_bits[part] = trainc_dots(x0, x1, {}, {}, {}, {begin}, {end}, sums);",
                    c.images, c.outputs, c.channels
                ),
            });
            out.close();
        });
        out.line(format!("bits |= trainc_all_bits(part_bits, {shares});"));
        if !finish.is_some_and(Narrowing::asks_magnitude) {
            out.line("(void)bits;");
        }
        emit_finish(finish, out);
        let rounding = if finish.is_some() { ", &rounding" } else { "" };
        out.long(format!(
            "trainc_store_all_{}(sums, {}, y0{rounding});",
            suffix(finish),
            self.results()
        ));
    }
}
