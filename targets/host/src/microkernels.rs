//! Which operations run as vector kernels ([`crate::kernels`]), and how: the three convolution products and matrix
//! products of i8 and f32, requantization, and a product that is requantized at once, for which the largest magnitude
//! falls out of the product.

#![allow(unsafe_code, reason = "addresses from generated code become slices here")]

use trainc_ir::bit_product::BitTail;
use trainc_ir::numeric::{self, Rounding};
use trainc_ir::ops::requantize_adaptive::kept_shift;
use trainc_ir::product::{self, Finish, Narrowing, Numbers, Shape};
use trainc_ir::program::scale_offset;
use trainc_ir::{Element, Op, TensorType};

use crate::bits::Bits;
use crate::geometry::{geometry, matmul_geometry};
use crate::grouped::Grouped;
use crate::kernels::{
    ConvGeometry, MatMulGeometry, conv2d_f32, conv2d_f32_scratch_bytes, conv2d_grad_input_f32,
    conv2d_grad_input_f32_scratch_bytes, conv2d_grad_input_i8, conv2d_grad_input_i8_scratch_bytes,
    conv2d_grad_weight_f32, conv2d_grad_weight_f32_scratch_bytes, conv2d_grad_weight_i8,
    conv2d_grad_weight_i8_scratch_bytes, conv2d_i8, conv2d_i8_scratch_bytes, matmul_f32,
    matmul_f32_scratch_bytes, matmul_i8, matmul_i8_scratch_bytes, max_abs_i32,
    requantize_half_away, requantize_pseudo_stochastic,
};
use crate::memory::ALIGNMENT;
use crate::staging::Pass;

/// A vector kernel with its shape: what generated code passes to [`launch`].
#[derive(Debug)]
pub(crate) struct MicroKernel {
    product: Option<Product>,
    /// In the place of all else.
    grouped: Option<Grouped>,
    /// Likewise.
    bits: Option<Bits>,
    finish: Option<Narrowing>,
    inputs: Vec<TensorType>,
    output: TensorType,
    /// Bytes of the i32 sums between product and finish.
    sums_bytes: usize,
    scratch_bytes: usize,
}

/// A product and its operands' shape.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Product {
    Forward(ConvGeometry),
    InputGradient(ConvGeometry),
    WeightGradient(ConvGeometry),
    MatMul(MatMulGeometry),
}

impl Product {
    fn new(product: &product::Product) -> Result<Product, String> {
        match product.numbers {
            Numbers::Bytes | Numbers::Float => {}
            Numbers::Unsigned => return Err("an operand is u8".into()),
            Numbers::Plain => return Err("the operands are plain integers".into()),
        }
        Ok(match &product.shape {
            Shape::Convolution(c) => {
                let geometry = geometry(c);
                match c.pass {
                    product::Pass::Forward => Product::Forward(geometry),
                    product::Pass::Error => Product::InputGradient(geometry),
                    product::Pass::Gradient => Product::WeightGradient(geometry),
                }
            }
            Shape::Matrices(matrices) => Product::MatMul(matmul_geometry(matrices)),
        })
    }

    /// Multiplications.
    pub(crate) fn multiplications(&self) -> usize {
        match self {
            Product::Forward(g) | Product::InputGradient(g) | Product::WeightGradient(g) => {
                g.multiplications()
            }
            Product::MatMul(g) => g.multiplications(),
        }
    }

    fn scratch_bytes(&self, float: bool) -> usize {
        match (self, float) {
            (Product::Forward(g), false) => conv2d_i8_scratch_bytes(g),
            (Product::Forward(g), true) => conv2d_f32_scratch_bytes(g),
            (Product::InputGradient(g), false) => conv2d_grad_input_i8_scratch_bytes(g),
            (Product::InputGradient(g), true) => conv2d_grad_input_f32_scratch_bytes(g),
            (Product::WeightGradient(g), false) => conv2d_grad_weight_i8_scratch_bytes(g),
            (Product::WeightGradient(g), true) => conv2d_grad_weight_f32_scratch_bytes(g),
            (Product::MatMul(g), false) => matmul_i8_scratch_bytes(g),
            (Product::MatMul(g), true) => matmul_f32_scratch_bytes(g),
        }
    }

    /// The sums and their largest magnitude.
    fn run_i8(&self, a: &[i8], b: &[i8], sums: &mut [i32], scratch: &mut [u8]) -> u32 {
        match self {
            Product::Forward(g) => conv2d_i8(g, a, b, sums, scratch),
            Product::InputGradient(g) => conv2d_grad_input_i8(g, a, b, sums, scratch),
            Product::WeightGradient(g) => conv2d_grad_weight_i8(g, a, b, sums, scratch),
            Product::MatMul(g) => matmul_i8(g, a, b, sums, scratch),
        }
    }

    fn run_f32(&self, a: &[f32], b: &[f32], sums: &mut [f32], scratch: &mut [u8]) {
        match self {
            Product::Forward(g) => conv2d_f32(g, a, b, sums, scratch),
            Product::InputGradient(g) => conv2d_grad_input_f32(g, a, b, sums, scratch),
            Product::WeightGradient(g) => conv2d_grad_weight_f32(g, a, b, sums, scratch),
            Product::MatMul(g) => matmul_f32(g, a, b, sums, scratch),
        }
    }
}

/// How a finish narrows sums, if the vector kernels round so.
fn narrowing(finish: &Finish) -> Option<Narrowing> {
    let rounds =
        |n: &Narrowing| matches!(n.rounding(), Rounding::HalfAway | Rounding::PseudoStochastic);
    finish.narrowing().filter(rounds)
}

/// The shift for sums of that largest magnitude (which constant shifts and kept ones do not ask for), and the lower clamp. `further` is
/// the finish's own operand: a width, or the state of a shift that is kept.
///
/// # Safety
/// The operand is valid and aligned, nothing writes to it.
unsafe fn shift(
    finish: Narrowing,
    largest: impl FnOnce() -> u32,
    further: Option<Operand<'_>>,
) -> (i64, i8) {
    match finish {
        Narrowing::Adaptive { bits, low, .. } => {
            // SAFETY: promised by the caller; a state is FP32.
            let state: &[f32] = further.map_or(&[], |operand| unsafe { operand.elements() });
            let shift = match kept_shift(state, bits) {
                Some(shift) => shift,
                None => numeric::bit_width(largest()).saturating_sub(bits.into()),
            };
            (shift.into(), low)
        }
        Narrowing::Requantize { bits, low, .. } => {
            (i64::from(numeric::bit_width(largest()).saturating_sub(bits.into())), low)
        }
        Narrowing::Gradient { .. } => {
            let width = i64::from(numeric::bit_width(largest()));
            // SAFETY: promised by the caller; a width is an i32.
            let bits: i32 = further.map_or(0, |operand| unsafe { operand.elements() }[0]);
            ((width - i64::from(bits)).max(0), -127)
        }
        Narrowing::Shift { amount, .. } => (amount.into(), -127),
    }
}

impl MicroKernel {
    /// The vector kernel for the first operations of a sequence, each applied to the result so far, and how many of
    /// them it does; `None` if they are neither a product nor the rounding of sums. `operands` are those of the first
    /// operation, then the further ones of the next.
    ///
    /// # Errors
    /// Why vectors do not have that product.
    pub(crate) fn of(
        ops: &[Op],
        operands: &[&TensorType],
    ) -> Option<Result<(MicroKernel, usize), String>> {
        let first = ops.first()?;
        let sums = operands.first()?;
        if let Op::BinaryConv2d(_) = first {
            return Some(Bits::of(ops, operands).map(|(bits, [taken, count], output)| {
                let kernel = MicroKernel::new(None, None, &operands[..taken], output, 0);
                (MicroKernel { bits: Some(bits), ..kernel }, count)
            }));
        }
        if let Op::GroupedProduct(op) = first {
            return Some(Grouped::of(op, operands).and_then(|grouped| {
                let operands = &operands[..4];
                let output = first.infer(operands).ok().and_then(one).ok_or("it does not type")?;
                let kernel = MicroKernel::new(None, None, operands, output, 0);
                Ok((MicroKernel { grouped: Some(grouped), ..kernel }, 1))
            }));
        }
        if let Some(finish) = Finish::of(first, sums).as_ref().and_then(narrowing) {
            let operands = operands.get(..1 + finish.operands())?;
            let output = one(first.infer(operands).ok()?)?;
            return Some(Ok((MicroKernel::new(None, Some(finish), operands, output, 0), 1)));
        }
        let product = product::Product::of(ops, operands, |finish| narrowing(finish).is_some())?;
        Some(product.and_then(|product| {
            let own = Product::new(&product)?;
            let finish = product.finish.as_ref().and_then(narrowing);
            let bytes =
                finish.map_or(0, |_| product.sums.element_bytes().next_multiple_of(ALIGNMENT));
            let operands = &operands[..product.operands];
            let kernel = MicroKernel::new(Some(own), finish, operands, product.result, bytes);
            Ok((kernel, product.ops))
        }))
    }

    fn new(
        product: Option<Product>,
        finish: Option<Narrowing>,
        operands: &[&TensorType],
        output: TensorType,
        sums_bytes: usize,
    ) -> MicroKernel {
        let float = output.is_f32();
        let product_bytes = product.map_or(0, |p| p.scratch_bytes(float));
        MicroKernel {
            product,
            grouped: None,
            bits: None,
            finish,
            inputs: operands.iter().map(|&ty| ty.clone()).collect(),
            output,
            sums_bytes,
            scratch_bytes: sums_bytes + product_bytes,
        }
    }

    /// Number of operands.
    pub(crate) fn operands(&self) -> usize {
        self.inputs.len()
    }

    /// Type of the result.
    pub(crate) fn output(&self) -> &TensorType {
        &self.output
    }

    /// What it does over whole tensors.
    pub(crate) fn passes(&self) -> Vec<Pass> {
        let mut passes = Vec::new();
        if let Some(grouped) = &self.grouped {
            passes.push(Pass::Grouped {
                multiplications: grouped.multiplications(),
                inputs: self.inputs.clone(),
                output: self.output.clone(),
            });
        }
        if let Some(bits) = &self.bits {
            passes.push(Pass::Bits {
                products: bits.products(),
                inputs: self.inputs.clone(),
                output: self.output.clone(),
            });
        }
        if let Some(product) = &self.product {
            let float = self.output.is_f32();
            let sums = if float { Element::F32 } else { Element::I32 };
            passes.push(Pass::Product {
                multiplications: product.multiplications(),
                float,
                inputs: self.inputs[..2].to_vec(),
                output: self.output.with_element(sums),
            });
        }
        if let Some(finish) = self.finish {
            let input = self.output.with_element(Element::I32);
            if self.product.is_none() && finish.asks_magnitude() {
                passes.push(Pass::LargestMagnitude { input: input.clone() });
            }
            passes.push(Pass::Requantize { input, output: self.output.clone() });
        }
        passes
    }

    /// Bytes of working memory.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// `arguments` are the addresses of the operands, of the result and of the working memory, each valid for its
    /// size and 4-byte aligned; nothing else refers to the result and the working memory.
    unsafe fn run(&self, arguments: *const *mut u8) {
        // SAFETY: the caller passes one address an operand, one for the result, and one for the working memory.
        let addresses = unsafe { std::slice::from_raw_parts(arguments, self.inputs.len() + 2) };
        let input = |i: usize| Operand { address: addresses[i], ty: &self.inputs[i] };
        let output = Operand { address: addresses[self.inputs.len()], ty: &self.output };
        // SAFETY: an i8 is a byte; `Operand`'s promise for each address; the working memory, if there is any, is
        // split into the sums and the rest.
        unsafe {
            let scratch: &mut [u8] = match self.scratch_bytes {
                0 => &mut [],
                bytes => std::slice::from_raw_parts_mut(addresses[self.inputs.len() + 1], bytes),
            };
            let (sums, scratch) = scratch.split_at_mut(self.sums_bytes);
            if let Some(grouped) = &self.grouped {
                grouped.run(
                    [input(0).elements(), input(1).elements()],
                    [input(2).elements(), input(3).elements()],
                    input(0).exponent().wrapping_add(input(1).exponent()),
                    output.elements_mut(),
                );
                return;
            }
            if let Some(bits) = &self.bits {
                let packed = [input(0).bytes(), input(1).bytes()];
                if bits.tail == BitTail::Sums {
                    bits.sums(packed, output.elements_mut());
                } else {
                    let flips = (bits.tail == BitTail::Flipped).then(|| input(3).elements());
                    bits.bits(packed, input(2).elements(), flips, output.bytes_mut());
                }
                return;
            }
            match (&self.product, &self.finish) {
                (Some(product), None) if self.output.is_f32() => {
                    product.run_f32(
                        input(0).elements(),
                        input(1).elements(),
                        output.elements_mut(),
                        scratch,
                    );
                }
                (Some(product), None) => {
                    product.run_i8(
                        input(0).elements(),
                        input(1).elements(),
                        output.elements_mut(),
                        scratch,
                    );
                    output.set_exponent(input(0).exponent().wrapping_add(input(1).exponent()));
                }
                (Some(product), Some(finish)) => {
                    let count = self.output.count();
                    let sums: &mut [i32] =
                        std::slice::from_raw_parts_mut(sums.as_mut_ptr().cast(), count);
                    let largest =
                        product.run_i8(input(0).elements(), input(1).elements(), sums, scratch);
                    let exponent = input(0).exponent().wrapping_add(input(1).exponent());
                    let further = (self.inputs.len() > 2).then(|| input(2));
                    let (shift, low) = shift(*finish, || largest, further);
                    requantize(sums, shift, finish.rounding(), low, output.elements_mut());
                    output.set_exponent(exponent.wrapping_add(shift as i32));
                }
                (None, Some(finish)) => {
                    let sums: &[i32] = input(0).elements();
                    let further = (self.inputs.len() > 1).then(|| input(1));
                    let (shift, low) = shift(*finish, || max_abs_i32(sums), further);
                    requantize(sums, shift, finish.rounding(), low, output.elements_mut());
                    if self.output.scale_bytes() > 0 {
                        output.set_exponent(input(0).exponent().wrapping_add(shift as i32));
                    }
                }
                (None, None) => {}
            }
        }
    }
}

fn one(mut results: Vec<TensorType>) -> Option<TensorType> {
    if results.len() == 1 { results.pop() } else { None }
}

/// A tensor at an address that is valid for its size.
struct Operand<'a> {
    address: *mut u8,
    ty: &'a TensorType,
}

impl Operand<'_> {
    /// The elements as `T`, which has their width.
    ///
    /// # Safety
    /// The address is valid and aligned, `T` fits the type's element, nothing writes meanwhile.
    unsafe fn elements<'s, T>(&self) -> &'s [T] {
        debug_assert_eq!(size_of::<T>() * 8, self.ty.element.bits() as usize);
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.ty.count()) }
    }

    /// As [`Self::elements`], to write.
    ///
    /// # Safety
    /// Likewise, and nothing else refers to the elements.
    unsafe fn elements_mut<'s, T>(&self) -> &'s mut [T] {
        debug_assert_eq!(size_of::<T>() * 8, self.ty.element.bits() as usize);
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.ty.count()) }
    }

    /// Packed elements.
    ///
    /// # Safety
    /// The address is valid, nothing writes meanwhile.
    unsafe fn bytes<'s>(&self) -> &'s [u8] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.address, self.ty.element_bytes()) }
    }

    /// As [`Self::bytes`], to write.
    ///
    /// # Safety
    /// Likewise, and nothing else refers to them.
    unsafe fn bytes_mut<'s>(&self) -> &'s mut [u8] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.ty.element_bytes()) }
    }

    /// The shared exponent.
    ///
    /// # Safety
    /// The address is valid and 4-byte aligned.
    unsafe fn exponent(&self) -> i32 {
        if self.ty.scale_bytes() == 0 {
            return 0;
        }
        // SAFETY: the exponent lies behind the elements, on a 4-byte boundary.
        unsafe { self.address.add(scale_offset(self.ty)).cast::<i32>().read() }
    }

    /// Sets the shared exponent.
    ///
    /// # Safety
    /// As [`Self::exponent`], and the type has one.
    unsafe fn set_exponent(&self, exponent: i32) {
        // SAFETY: as above.
        unsafe { self.address.add(scale_offset(self.ty)).cast::<i32>().write(exponent) }
    }
}

fn requantize(sums: &[i32], shift: i64, rounding: Rounding, low: i8, out: &mut [i8]) {
    match (rounding, u32::try_from(shift)) {
        (Rounding::HalfAway, Ok(shift)) => requantize_half_away(sums, shift, low, out),
        (_, Ok(shift)) if shift <= 32 => {
            requantize_pseudo_stochastic(sums, shift, out);
            if low > -127 {
                out.iter_mut().for_each(|q| *q = (*q).max(low));
            }
        }
        // A shift beyond the width: a negative number of bits was asked for.
        _ => {
            let shift = shift.clamp(0, u32::MAX.into()) as u32;
            for (q, &x) in out.iter_mut().zip(sums) {
                let rounded = numeric::shift_right(x.into(), shift, rounding);
                *q = rounded.clamp(low.into(), 127) as i8;
            }
        }
    }
}

/// Runs a vector kernel; generated code calls this.
///
/// # Safety
/// `kernel` is the address of a live [`MicroKernel`], `arguments` are as it takes them.
pub(crate) unsafe extern "C" fn launch(kernel: *const MicroKernel, arguments: *const *mut u8) {
    // SAFETY: promised by the caller.
    unsafe { (*kernel).run(arguments) }
}
