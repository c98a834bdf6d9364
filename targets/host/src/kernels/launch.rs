//! A launch of a product, of a product whose sums are rounded, of the rounding of sums, or of a pass over tensors of codes, described by
//! words: what programs in this process and objects have in common. Objects hold the words as data.

use super::aligned::aligned_add;
use super::bit_groups::BitProduct;
use super::bit_thresholds::BitThresholds;
use super::chunks::Chunks;
use super::clips::{clip, clip_bounds, gate, inner_bounds};
use super::direct;
use super::finish::{Finish, Further, Width};
use super::geometry::{ChannelsLast, ConvGeometry, MatMulGeometry};
use super::grouped::GroupedProduct;
use super::memo::{Memo, Panels};
use super::path::active_path;
use super::planes::{ChannelSums, Line, Lines, Planes};
use super::pools::{
    PoolGeometry, Pooled, max_pool_bytes, max_pool_f32, max_pool_gradient_bytes,
    max_pool_gradient_f32,
};
use super::products::{
    conv2d_channels_last, conv2d_f32, conv2d_grad_input_f32, conv2d_grad_input_i8,
    conv2d_grad_weight_f32, conv2d_grad_weight_i8, conv2d_i8, depthwise_channels_last,
    forward_by_panels, forward_panel_bytes, matmul_f32, matmul_i8,
};
use super::requantize::max_abs_i32;

/// Most operands of a launch.
pub const MOST_INPUTS: usize = 7;

/// A product and its operands' shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// `conv(x, w)`.
    Forward(ConvGeometry),
    /// Of the input, from errors and weights.
    InputGradient(ConvGeometry),
    /// Of the weights, from input and errors.
    WeightGradient(ConvGeometry),
    /// Matrices.
    MatMul(MatMulGeometry),
    /// `conv(x, w)` of plain bytes, channels last.
    ChannelsLast(ChannelsLast),
    /// Likewise with a filter for each channel.
    DepthwiseLast(ChannelsLast),
}

/// Where sums come from, or what else is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The first operand.
    Operand,
    /// A product of the first two.
    Product(Product),
    /// Codes by coefficients of their channels: the first operand's, the second's if it is an error; the others are what coefficients
    /// are made of.
    Lines(Lines),
    /// Two tensors of codes, added: bytes at once.
    Aligned {
        /// The lower clamp: -127, or 0 where a ReLU follows.
        low: i8,
    },
    /// Sums of each channel's codes, of which two vectors are made.
    ChannelSums(Planes, ChannelSums),
    /// The largest of each window.
    Pool(PoolGeometry, Pooled),
    /// The gradient of the first operand, which a pool took, from the second, its result's errors.
    PoolGradient(PoolGeometry, Pooled),
    /// Bytes clipped to real bounds, which are the bits of FP32.
    Clip([u32; 2]),
    /// Errors, the second operand, where the first lies strictly inside real bounds.
    ClipGradient([u32; 2]),
    /// A convolution of the first two operands' bits: sums; or bits of those that reach the third operand's thresholds, of which the
    /// fourth flips some.
    Bits(BitProduct),
    /// A product of the first two operands by the scales of their groups, the others.
    Grouped(GroupedProduct),
}

/// A tensor: its elements, and where its shared exponent lies, in bytes behind the first element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// How many; bytes of packed ones.
    pub elements: usize,
    /// Nothing of one that has none.
    pub exponent: Option<usize>,
}

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Where sums come from.
    pub source: Source,
    /// Whether the product is of FP32.
    pub float: bool,
    /// Nothing where sums are the result.
    pub finish: Option<Finish>,
    /// The operands: of the source, then the finish's further one; the first `count` of them.
    pub inputs: [Operand; MOST_INPUTS],
    /// How many operands there are.
    pub count: usize,
    /// The first `results` of them.
    pub outputs: [Operand; 2],
    /// How many results there are.
    pub results: usize,
    /// Bytes of the i32 sums between product and finish, the first of the working memory.
    pub sums_bytes: usize,
    /// Bytes of working memory.
    pub scratch_bytes: usize,
}

impl Launch {
    /// Runs it.
    ///
    /// # Safety
    /// `arguments` are the addresses of the operands, of the results, of the working memory, of seed and step (which what does not
    /// round by chance may lack), and of a [`Memo`] (or none); each valid for its size and 4-byte aligned; nothing else refers to the results and the working memory.
    pub unsafe fn run(&self, arguments: *const *mut u8) {
        let (count, results) = (self.count, self.results);
        // SAFETY: the caller passes one address an operand, one a result, and the two others.
        let addresses = unsafe { core::slice::from_raw_parts(arguments, count + results + 3) };
        let input = |i: usize| Place { address: addresses[i], operand: self.inputs[i] };
        let result = |i: usize| Place { address: addresses[count + i], operand: self.outputs[i] };
        let output = result(0);
        // SAFETY: the caller's promise for each address; the working memory, if there is any, is split into the sums and the rest.
        unsafe {
            let run = || addresses[count + results + 1].cast::<[u32; 3]>().read();
            let scratch: &mut [u8] = match self.scratch_bytes {
                0 => &mut [],
                bytes => core::slice::from_raw_parts_mut(addresses[count + results], bytes),
            };
            let memo = addresses[count + results + 2].cast::<Memo>().as_ref();
            let hint = memo.map(Memo::hint);
            let codes = |i: usize| (input(i).elements::<i8>(), input(i).exponent());
            match &self.source {
                Source::Operand | Source::Product(_) => {
                    self.sums(&input, output, scratch, &run, memo);
                }
                Source::Aligned { low } => {
                    let exponent = aligned_add(codes(0), codes(1), *low, output.elements_mut());
                    output.set_exponent(exponent);
                }
                Source::Lines(lines) => {
                    let Some(finish) = self.finish else { return };
                    let (x, ex) = codes(0);
                    let (dy, edy) = match lines.line {
                        Line::Norm => (None, 0),
                        Line::Error { .. } => (Some(codes(1).0), codes(1).1),
                    };
                    let first = 1 + usize::from(dy.is_some());
                    let vectors: [&[f32]; MOST_INPUTS] = core::array::from_fn(|i| {
                        if first + i < count { input(first + i).elements() } else { &[] }
                    });
                    let vectors = &vectors[..count - first];
                    let (coefficients, exponent) = lines.coefficients(vectors, [ex, edy], scratch);
                    let out = output.elements_mut();
                    let narrow = lines.bytes((x, dy), coefficients, &finish, run, out, hint);
                    output.set_exponent(exponent.wrapping_add(narrow.shift as i32));
                }
                Source::Pool(geometry, pooled) => {
                    let path = active_path();
                    match pooled {
                        Pooled::F32 => {
                            let x = input(0).elements();
                            max_pool_f32(path, geometry, x, output.elements_mut());
                        }
                        bytes => {
                            let signed = *bytes == Pooled::I8;
                            let x = input(0).elements();
                            max_pool_bytes(path, geometry, signed, x, output.elements_mut());
                        }
                    }
                    output.set_exponent(input(0).exponent());
                }
                Source::PoolGradient(geometry, pooled) => {
                    let path = active_path();
                    match pooled {
                        Pooled::F32 => {
                            let (x, dy) = (input(0).elements(), input(1).elements());
                            max_pool_gradient_f32(path, geometry, x, dy, output.elements_mut());
                        }
                        bytes => {
                            let signed = *bytes == Pooled::I8;
                            let (x, dy) = (input(0).elements(), input(1).elements());
                            let dx = output.elements_mut();
                            max_pool_gradient_bytes(path, geometry, signed, x, dy, dx);
                        }
                    }
                    output.set_exponent(input(1).exponent());
                }
                Source::Clip(bounds) => {
                    let exponent = input(0).exponent();
                    let bounds = clip_bounds(bounds.map(f32::from_bits), exponent);
                    let [x, out] = [addresses[0], output.address].map(<*mut u8>::cast::<i8>);
                    clip(bounds, x, out, output.operand.elements);
                    output.set_exponent(exponent);
                }
                Source::ClipGradient(bounds) => {
                    let bounds = inner_bounds(bounds.map(f32::from_bits), input(0).exponent());
                    let exponent = input(1).exponent();
                    let [x, dy, out] =
                        [addresses[0], addresses[1], output.address].map(<*mut u8>::cast::<i8>);
                    gate(bounds, x, dy, out, output.operand.elements);
                    output.set_exponent(exponent);
                }
                Source::Bits(product) => {
                    let operands = [input(0).elements(), input(1).elements()];
                    if count == 2 {
                        product.sums(operands, output.elements_mut(), scratch);
                    } else {
                        let flips = (count > 3).then(|| input(3).elements());
                        let thresholds = BitThresholds { least: input(2).elements(), flips };
                        product.bits(operands, thresholds, output.elements_mut(), scratch);
                    }
                }
                Source::Grouped(product) => {
                    let scales = [input(2).elements(), input(3).elements()];
                    let [(a, exponent_a), (b, exponent_b)] = [codes(0), codes(1)];
                    let exponent = exponent_a.wrapping_add(exponent_b);
                    product.run([a, b], scales, exponent, output.elements_mut(), scratch);
                }
                Source::ChannelSums(planes, sums) => {
                    let results = [result(0).elements_mut(), result(1).elements_mut()];
                    match sums {
                        ChannelSums::Statistics => {
                            ChannelSums::statistics(planes, codes(0), results, scratch);
                        }
                        ChannelSums::Gradients => {
                            let vectors = [input(2).elements(), input(3).elements()];
                            let codes = [codes(0), codes(1)];
                            ChannelSums::gradients(planes, codes, vectors, results, scratch);
                        }
                    }
                }
            }
        }
    }

    /// Runs a product, or the rounding of sums.
    ///
    /// # Safety
    /// As of [`Self::run`], for each of the addresses.
    unsafe fn sums(
        &self,
        input: &dyn Fn(usize) -> Place,
        output: Place,
        scratch: &mut [u8],
        run: &dyn Fn() -> [u32; 3],
        memo: Option<&Memo>,
    ) {
        let hint = memo.map(Memo::hint);
        let panels = memo.map(Memo::panels);
        let (sums, scratch) = scratch.split_at_mut(self.sums_bytes);
        let product = match &self.source {
            Source::Product(product) => Some(product),
            _ => None,
        };
        // SAFETY: promised by the caller; sums lie in the working memory, which is 4-byte aligned.
        unsafe {
            let Some(finish) = self.finish else {
                if let Some(product) = product {
                    if self.float {
                        let (a, b) = (input(0).elements(), input(1).elements());
                        product.run_f32(a, b, output.elements_mut(), scratch);
                    } else {
                        let (a, b) = (input(0).elements(), input(1).elements());
                        // Plain numbers, of which nobody asks for the largest.
                        match product {
                            Product::ChannelsLast(g) => {
                                conv2d_channels_last(g, a, b, output.elements_mut(), scratch);
                                return;
                            }
                            Product::DepthwiseLast(g) => {
                                depthwise_channels_last(g, a, b, output.elements_mut(), scratch);
                                return;
                            }
                            _ => {}
                        }
                        product.run_i8(a, b, output.elements_mut(), scratch, panels);
                        let exponent = input(0).exponent().wrapping_add(input(1).exponent());
                        output.set_exponent(exponent);
                    }
                }
                return;
            };
            let operands = if product.is_some() { 2 } else { 1 };
            let further = match finish.width {
                _ if self.count == operands => Further::None,
                Width::Kept(_) => Further::State(input(operands).elements()),
                _ => Further::Bits(input(operands).elements::<i32>()[0]),
            };
            let out = output.elements_mut();
            let (narrow, exponent) = match product {
                Some(product) => {
                    let sums: &mut [i32] = core::slice::from_raw_parts_mut(
                        sums.as_mut_ptr().cast(),
                        output.operand.elements,
                    );
                    let (a, b) = (input(0).elements(), input(1).elements());
                    let narrow = match hint.zip(Chunks::of(product)) {
                        Some((hint, chunks)) => {
                            chunks.run(&finish, further, run, [a, b], sums, scratch, out, hint)
                        }
                        None => {
                            let largest = product.run_i8(a, b, sums, scratch, panels);
                            let narrow = finish.narrow(|| largest, further, run);
                            narrow.round(sums, 0, out);
                            narrow
                        }
                    };
                    (narrow, input(0).exponent().wrapping_add(input(1).exponent()))
                }
                None => {
                    let sums = input(0).elements();
                    let narrow = finish.narrow(|| max_abs_i32(sums), further, run);
                    narrow.round(sums, 0, out);
                    (narrow, input(0).exponent())
                }
            };
            output.set_exponent(exponent.wrapping_add(narrow.shift as i32));
        }
    }
}

impl Launch {
    /// Bytes of memory that the packed weights of its product take where they stay from call to call.
    #[must_use]
    pub fn panel_bytes(&self) -> usize {
        match &self.source {
            Source::Product(product) if !self.float => product.panel_bytes(),
            _ => 0,
        }
    }
}

impl Product {
    /// Multiplications.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        match self {
            Self::Forward(g) | Self::InputGradient(g) | Self::WeightGradient(g) => {
                g.multiplications()
            }
            Self::MatMul(g) => g.multiplications(),
            Self::ChannelsLast(g) => g.multiplications(),
            Self::DepthwiseLast(g) => g.multiplications() / g.features.max(1),
        }
    }

    /// Bytes of memory that a forward product's packed weights take where they stay from call to call; none of products that do not pack
    /// them whole.
    #[must_use]
    pub fn panel_bytes(&self) -> usize {
        match self {
            Self::Forward(g) => forward_panel_bytes(g),
            _ => 0,
        }
    }

    /// The sums and their largest magnitude.
    pub(super) fn run_i8(
        &self,
        a: &[i8],
        b: &[i8],
        sums: &mut [i32],
        scratch: &mut [u8],
        panels: Option<&Panels>,
    ) -> u32 {
        if let (Self::Forward(g), Some(panels)) = (self, panels) {
            let kept = forward_by_panels(active_path(), g, [a, b], sums, scratch, panels);
            if let Some(largest) = kept {
                return largest;
            }
        }
        match self {
            Self::Forward(g) => conv2d_i8(g, a, b, sums, scratch),
            Self::InputGradient(g) => conv2d_grad_input_i8(g, a, b, sums, scratch),
            Self::WeightGradient(g) => conv2d_grad_weight_i8(g, a, b, sums, scratch),
            Self::MatMul(g) => matmul_i8(g, a, b, sums, scratch),
            Self::ChannelsLast(g) => {
                conv2d_channels_last(g, a, b, sums, scratch);
                max_abs_i32(sums)
            }
            Self::DepthwiseLast(g) => {
                depthwise_channels_last(g, a, b, sums, scratch);
                max_abs_i32(sums)
            }
        }
    }

    fn run_f32(&self, a: &[f32], b: &[f32], sums: &mut [f32], scratch: &mut [u8]) {
        let finite = matches!(self, Self::MatMul(_)) || direct::finite(a) && direct::finite(b);
        match self {
            Self::Forward(g) if !finite => direct::forward(g, a, b, sums),
            Self::InputGradient(g) if !finite => direct::input_gradient(g, a, b, sums),
            Self::WeightGradient(g) if !finite => direct::weight_gradient(g, a, b, sums),
            Self::Forward(g) => conv2d_f32(g, a, b, sums, scratch),
            Self::InputGradient(g) => conv2d_grad_input_f32(g, a, b, sums, scratch),
            Self::WeightGradient(g) => conv2d_grad_weight_f32(g, a, b, sums, scratch),
            Self::MatMul(g) => matmul_f32(g, a, b, sums, scratch),
            Self::ChannelsLast(_) | Self::DepthwiseLast(_) => unreachable!("of bytes alone"),
        }
    }
}

/// An operand at an address that is valid for its size.
#[derive(Clone, Copy)]
struct Place {
    address: *mut u8,
    operand: Operand,
}

impl Place {
    /// The elements as `T`, which has their width.
    ///
    /// # Safety
    /// The address is valid and aligned, nothing writes meanwhile.
    unsafe fn elements<'s, T>(&self) -> &'s [T] {
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts(self.address.cast(), self.operand.elements) }
    }

    /// As [`Self::elements`], to write.
    ///
    /// # Safety
    /// Likewise, and nothing else refers to the elements.
    unsafe fn elements_mut<'s, T>(&self) -> &'s mut [T] {
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts_mut(self.address.cast(), self.operand.elements) }
    }

    /// The shared exponent; 0 of an operand that has none.
    ///
    /// # Safety
    /// The address is valid and 4-byte aligned.
    unsafe fn exponent(&self) -> i32 {
        // SAFETY: promised by the caller; an exponent lies on a 4-byte boundary.
        self.operand.exponent.map_or(0, |at| unsafe { self.address.add(at).cast::<i32>().read() })
    }

    /// Sets the shared exponent, if there is one.
    ///
    /// # Safety
    /// As [`Self::exponent`].
    unsafe fn set_exponent(&self, exponent: i32) {
        if let Some(at) = self.operand.exponent {
            // SAFETY: as above.
            unsafe { self.address.add(at).cast::<i32>().write(exponent) }
        }
    }
}
