//! Products of channels in groups, group by group: a group's planes are copied behind each other, a kernel of plain sums multiplies them by
//! the group's weights, and its sums are copied to where they belong. Their rounding is a launch of its own.

use std::fmt::Write as _;

use trainc_ir::Element;
use trainc_ir::implementation::Signature;
use trainc_ir::product::{self, Convolution, Numbers, Pass};

use crate::glue::{Glue, Printed};
use crate::machine::MachineError;
use crate::products::Product;
use crate::select::SelectError;

/// Slices in C.
pub(crate) const HEADER: &str = include_str!("support/trainc_hvx_slices.h");

/// Packets in which a vector of a slice is copied, a byte of one that is shorter, and those around a slice and around a group.
const VECTOR: usize = 3;
const BYTE: usize = 2;
const SLICE: usize = 12;
const GROUP: usize = 80;

/// Planes of one group, of all images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slices {
    images: usize,
    /// Of an image's slice.
    bytes: usize,
    groups: usize,
}

impl Slices {
    fn total(&self) -> usize {
        (self.images * self.bytes).next_multiple_of(128)
    }

    fn packets(&self) -> usize {
        let copy = match self.bytes / 128 {
            0 => self.bytes * BYTE,
            vectors => (vectors + 1) * VECTOR,
        };
        self.images * (copy + SLICE)
    }

    /// The C of it.
    fn fields(&self) -> String {
        let Slices { images, bytes, groups } = self;
        format!("{{ {images}, {bytes}, {} }}", bytes * groups)
    }
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlicedProduct {
    /// Of one group.
    product: Product,
    groups: usize,
    /// Of the operands and the result.
    slices: [Slices; 3],
    /// Which operand each of the first two is of.
    operands: [usize; 2],
    unsigned: bool,
}

impl SlicedProduct {
    /// The product of groups that a kernel is; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<SlicedProduct, String>> {
        let product = product::Product::of(signature.ops(), signature.inputs, |_| true)?;
        Some(product.and_then(|product| match product.numbers {
            Numbers::Unsigned => SlicedProduct::new(signature, &product),
            _ => SlicedProduct::new(signature, &product.of_bytes()?),
        }))
    }

    fn new(signature: &Signature<'_>, product: &product::Product) -> Result<SlicedProduct, String> {
        let c = product.convolution()?;
        if c.groups < 2 {
            return Err("its channels are one group".into());
        }
        if signature.ops().len() > 1 {
            return Err("its sums are rounded by a launch of their own".into());
        }
        let groups = c.groups;
        let unsigned = product.numbers == Numbers::Unsigned;
        if unsigned && c.swapped {
            return Err("what takes the weights' place is u8".into());
        }
        let own = Convolution { groups: 1, swapped: false, ..c.clone() };
        let own = Product::sums(&own, unsigned)?;
        let slices = |images, bytes| Slices { images, bytes, groups };
        let x = slices(c.images, c.channels * c.plane());
        let w = slices(1, c.outputs * c.channels * c.tap_count());
        let y = slices(c.images, c.outputs * c.places());
        let sums = |of: Slices| Slices { bytes: 4 * of.bytes, ..of };
        let slices = match c.pass {
            Pass::Forward => [x, w, sums(y)],
            Pass::Error => [y, w, sums(x)],
            Pass::Gradient => [x, y, sums(w)],
        };
        Ok(SlicedProduct { product: own, groups, slices, operands: c.operands(), unsigned })
    }

    /// Where the working memory holds the slices of both operands and of the result, and then the product's own part.
    fn places(&self) -> [usize; 4] {
        let [a, b, y] = self.slices.map(|slices| slices.total());
        [0, a, a + b, a + b + y]
    }
}

impl Glue for SlicedProduct {
    const NAME: &str = "window products by groups";

    fn packets(&self) -> u64 {
        let copies: usize = self.slices.iter().map(Slices::packets).sum();
        self.groups as u64 * (self.product.packets() + (copies + GROUP) as u64)
    }

    fn aligned_elements(&self) -> &'static [Element] {
        &[Element::I8, Element::U8, Element::I32]
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.places()[3] + self.product.scratch_bytes()?)
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let group = format!("{name}_group");
        let element = if self.unsigned { "uint8_t" } else { "int8_t" };
        let own = format!(
            "static void {group}(const {element} *x0, const int32_t *x0_exponent, const int8_t *x1,\n    \
             const int32_t *x1_exponent, int32_t *y0, int32_t *y0_exponent, uint8_t *scratch)"
        );
        let mut printed = self.product.print(&group, &own)?;
        let [a_at, b_at, y_at, own_at] = self.places();
        let steps = self.slices.map(|slices| slices.bytes);
        let [x, w] = self.operands;
        let [a, b, y] = self.slices;
        let place =
            |at: usize| if at == 0 { "scratch".to_string() } else { format!("scratch + {at}") };
        let source = &mut printed.source;
        let _ = write!(source, "\n{head}\n{{\n");
        for (slices, which) in [(a, "first"), (b, "second"), (y, "sums")] {
            let fields = slices.fields();
            let _ = writeln!(
                source,
                "    static const struct trainc_hvx_slices {which}_slices = {fields};"
            );
        }
        for (ty, which, at) in
            [(element, "first", a_at), ("int8_t", "second", b_at), ("int32_t", "sums", y_at)]
        {
            let _ = writeln!(source, "    {ty} *const {which} = ({ty} *)(void *)({});", place(at));
        }
        let from =
            |operand: usize, step: usize| format!("(const int8_t *)x{operand} + group * {step}");
        let _ = write!(
            source,
            "    for (int32_t group = 0; group < {groups}; group++) {{\n        \
             trainc_hvx_gather(&first_slices, {first}, (int8_t *)first);\n        \
             trainc_hvx_gather(&second_slices, {second}, (int8_t *)second);\n        \
             {group}(first, x{x}_exponent, second, x{w}_exponent, sums, y0_exponent, {scratch});\n        \
             trainc_hvx_scatter(&sums_slices, (const int8_t *)sums, (int8_t *)y0 + group * {step});\n    \
             }}\n}}\n",
            groups = self.groups,
            first = from(x, steps[0]),
            second = from(w, steps[1]),
            scratch = place(own_at),
            step = steps[2],
        );
        Ok(printed)
    }
}
