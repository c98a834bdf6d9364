//! Convolutions of bytes whose planes have FP32 scales, and their glue: a C function that packs each part's weights, calls the
//! assembly and applies the exponents.
//!
//! A part, the terms of one channel of a convolution, of one feature of an error or of one example of a weight gradient, is a sum
//! over windows of its own, by vectors; its sums are added to the result's totals in FP32, on the scalar core, for v66 has no
//! vectors of floats.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use trainc_ir::implementation::Signature;
use trainc_ir::ops::GroupedProduct;
use trainc_ir::product::{Convolution, Pass, Product, Shape};
use trainc_ir::{Op, TensorType};

use crate::glue::{Glue, Printed};
use crate::kernels::Span;
use crate::kernels::{DataObject, OperandStrides, SumProduct, WindowProduct};
use crate::machine::{Function, MachineError};
use crate::parts;
use crate::products::sides;
use crate::select::SelectError;

/// C around the assembly.
pub(crate) const HEADER: &str = include_str!("support/trainc_hvx_groups.h");

/// Packets for which a scale is made, and for which a result begins and gets its exponents.
const SCALE: usize = 6;
const RESULT: usize = 4;
/// Packets of a part's calls.
const CALL: usize = 150;

/// A product of planes with scales.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupedWindows {
    /// A part.
    product: SumProduct,
    parts: usize,
    /// Which operand stands for maps and which for weights, and for each from a part's bytes to the next part's.
    operands: [(usize, usize); 2],
    /// Scales of maps and of weights: from an image's or feature's to the next, and from a part's.
    scales: [[usize; 2]; 2],
    results: usize,
}

impl GroupedWindows {
    /// The product of groups that a kernel is; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<GroupedWindows, String>> {
        let Some(Op::GroupedProduct(op)) = signature.ops().first() else { return None };
        if signature.ops().len() > 1 {
            return Some(Err("more follows its sums".into()));
        }
        Some(GroupedWindows::new(op, signature.inputs))
    }

    fn new(op: &GroupedProduct, operands: &[&TensorType]) -> Result<GroupedWindows, String> {
        let &[a, b, scale_a, scale_b, ..] = operands else {
            return Err("it has fewer than four operands".into());
        };
        let of = [Op::from(op.of.clone())];
        let product =
            Product::of(&of, &[a, b], |_| false).ok_or("it is no product")??.of_bytes()?;
        let Shape::Convolution(c) = &product.shape else {
            return Err("groups of matrices have products of one term".into());
        };
        if c.groups > 1 {
            return Err("its channels lie in groups".into());
        }
        let shapes = [&scale_a.shape, &scale_b.shape];
        let by_part = op.scales_parts([&a.shape, &b.shape], shapes).map_err(|e| e.to_string())?;
        let (product, parts, steps) = parts_of(c, by_part)?;
        if product.product.spread.is_some() {
            return Err("windows without a tap lie between others".into());
        }
        let operands = c.operands();
        let step = |ty: &TensorType, axis: usize| match ty.shape.dims() {
            &[first, second, ..] if [first, second][axis] > 1 => [second, 1][axis],
            _ => 0,
        };
        // Axes of images or features, and of parts.
        let axes = match c.pass {
            Pass::Forward => [[0, 1], [0, 1]],
            Pass::Error => [[0, 1], [1, 0]],
            Pass::Gradient => [[1, 0], [1, 0]],
        };
        let scale = |i: usize| axes[i].map(|axis| step([scale_a, scale_b][operands[i]], axis));
        let results = match c.pass {
            Pass::Forward => c.images * c.outputs * c.places(),
            Pass::Error => c.images * c.channels * c.plane(),
            Pass::Gradient => c.outputs * c.channels * c.tap_count(),
        };
        Ok(GroupedWindows {
            product,
            parts,
            operands: [0, 1].map(|i| (operands[i], steps[i])),
            scales: [scale(0), scale(1)],
            results,
        })
    }

    /// Products of images and features of a part.
    fn pairs(&self) -> [usize; 2] {
        [self.product.product.images, self.product.product.features]
    }

    /// Where the working memory holds, behind a part's packed weights, its scales, and at last the kernel's own part.
    fn places(&self) -> [usize; 2] {
        let weights = self.product.product.weight_bytes().next_multiple_of(128);
        let [images, features] = self.pairs();
        [weights, weights + (4 * images * features).next_multiple_of(128)]
    }
}

/// A part (or, with one scale for all, the whole), how many there are, and the bytes of maps and weights from one to the next.
fn parts_of(c: &Convolution, by_part: bool) -> Result<(SumProduct, usize, [usize; 2]), String> {
    if c.pass == Pass::Gradient {
        let images = if by_part { 1 } else { c.images };
        let product = SumProduct::gradient([images, c.channels, c.outputs], Span::of(c))?;
        let steps = [c.channels * c.plane(), c.outputs * c.places()];
        return Ok((product, c.images / images, steps));
    }
    let ([channels, features], axes, strides) = sides(c);
    let own = if by_part { 1 } else { channels };
    let product = WindowProduct::new(c.images, own, features, axes)?;
    let positions = product.inputs();
    let operand = OperandStrides::natural(channels, positions);
    let product = SumProduct::natural(WindowProduct { operand, ..product }, strides);
    Ok((product, channels / own, [positions, strides.channel]))
}

impl Glue for GroupedWindows {
    const NAME: &str = "window products with scales";

    fn packets(&self) -> u64 {
        let [images, features] = self.pairs();
        let part = self.product.scaled_packets() + images * features * SCALE + CALL;
        (self.parts * part + self.results * RESULT) as u64
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        let packing = self.product.product.packing_bytes(&self.product.weights);
        Ok(self.places()[1] + self.product.scaled_kernel("kernel")?.scratch_bytes.max(packing))
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let own = format!("{name}_product");
        let pack = format!("{name}_pack_weights");
        let mut kernel = self.product.scaled_kernel(&own)?;
        let mut functions: Vec<Function> = kernel.functions().cloned().collect();
        let (entry, mut source) = parts::entry(&kernel, self.packets() / self.parts.max(1) as u64)?;
        functions.push(entry);
        let (function, table) = self.product.product.pack_weights(&pack, &self.product.weights)?;
        functions.push(function);
        kernel.data.extend(table);
        let GroupedWindows { parts, operands, scales, results, .. } = self;
        let [(x, x_step), (w, w_step)] = operands;
        let [[image, of_x], [feature, of_w]] = scales;
        let [images, features] = self.pairs();
        let [scales_at, own_at] = self.places();
        let _ = write!(
            source,
            "void {pack}(const int8_t *weights, uint8_t *packed, uint8_t *scratch);\n\
             void {own}(const int8_t *x, const uint8_t *weights, float *y,\n    \
             const float *scales, uint8_t *scratch);\n\n\
             {head}\n{{\n    \
             static const struct trainc_hvx_scales shape = {{\n        \
             {images}, {features}, {image}, {feature}\n    }};\n    \
             float *const scales = (float *)(void *)(scratch + {scales_at});\n    \
             trainc_hvx_begin(y0, {results});\n    \
             for (int32_t part = 0; part < {parts}; part++) {{\n        \
             trainc_hvx_scales(&shape, x{} + part * {of_x}, x{} + part * {of_w}, scales);\n        \
             {pack}(x{w} + part * {w_step}, scratch, scratch + {own_at});\n        \
             {own}(x{x} + part * {x_step}, scratch, y0, scales, scratch + {own_at});\n    }}\n    \
             trainc_hvx_end(y0, {results}, trainc_add32(x0_exponent[0], x1_exponent[0]));\n}}\n",
            x + 2,
            w + 2,
        );
        let tables = kernel.data.iter().map(DataObject::assembly).collect();
        Ok(Printed { functions, tables, source, routines: BTreeSet::new() })
    }
}
