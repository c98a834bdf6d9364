//! A launch of a product, of a product whose sums are rounded, or of the rounding of sums, described by words: what programs in this
//! process and objects have in common. Objects hold the words as data.

use super::direct;
use super::geometry::{ChannelsLast, ConvGeometry, MatMulGeometry};
use super::products::{
    conv2d_channels_last, conv2d_f32, conv2d_grad_input_f32, conv2d_grad_input_i8,
    conv2d_grad_weight_f32, conv2d_grad_weight_i8, conv2d_i8, depthwise_channels_last, matmul_f32,
    matmul_i8,
};
use super::requantize::{max_abs_i32, requantize_half_away, requantize_pseudo_stochastic};

/// Words of a description.
pub const LAUNCH_WORDS: usize = 36;

/// Words of a shape.
const SHAPE: usize = 17;

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

/// How far sums are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// So that the largest has so many bits, at most.
    Sums(u8),
    /// Likewise in steps for which the further operand, a state, says so, and else by the shift that it keeps.
    Kept(u8),
    /// So that the largest has as many bits as the further operand says.
    Given,
    /// By so many bits.
    Shift(u8),
}

/// How sums become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish {
    /// How far they are shifted.
    pub width: Width,
    /// Whether by pseudo-stochastic rounding rather than to nearest, halves away from zero.
    pub pseudo_stochastic: bool,
    /// The lower clamp.
    pub low: i8,
}

/// A tensor: its elements, and where its shared exponent lies, in bytes behind the first element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// How many.
    pub elements: usize,
    /// Nothing of one that has none.
    pub exponent: Option<usize>,
}

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Nothing where sums are an operand.
    pub product: Option<Product>,
    /// Whether the product is of FP32.
    pub float: bool,
    /// Nothing where sums are the result.
    pub finish: Option<Finish>,
    /// The operands: of the product or the sums, then the finish's further one; the first `count` of them.
    pub inputs: [Operand; 3],
    /// How many operands there are.
    pub count: usize,
    /// The result.
    pub output: Operand,
    /// Bytes of the i32 sums between product and finish, the first of the working memory.
    pub sums_bytes: usize,
    /// Bytes of working memory.
    pub scratch_bytes: usize,
}

impl Launch {
    /// The description as words.
    #[must_use]
    pub fn encode(&self) -> [i64; LAUNCH_WORDS] {
        let mut words = [0; LAUNCH_WORDS];
        let mut next = words.iter_mut();
        let mut put = |word: i64| {
            if let Some(place) = next.next() {
                *place = word;
            }
        };
        let (kind, shape) = match self.product {
            None => (0, [0; SHAPE]),
            Some(Product::Forward(g)) => (1, convolution(&g)),
            Some(Product::InputGradient(g)) => (2, convolution(&g)),
            Some(Product::WeightGradient(g)) => (3, convolution(&g)),
            Some(Product::MatMul(g)) => (4, matrices(&g)),
            Some(Product::ChannelsLast(g)) => (5, channels_last(&g)),
            Some(Product::DepthwiseLast(g)) => (6, channels_last(&g)),
        };
        put(kind);
        shape.into_iter().for_each(|size| put(size as i64));
        put(self.float.into());
        let (width, bits) = match self.finish.map(|finish| finish.width) {
            None => (0, 0),
            Some(Width::Sums(bits)) => (1, bits),
            Some(Width::Kept(bits)) => (2, bits),
            Some(Width::Given) => (3, 0),
            Some(Width::Shift(bits)) => (4, bits),
        };
        put(width);
        put(bits.into());
        put(self.finish.is_some_and(|finish| finish.pseudo_stochastic).into());
        put(self.finish.map_or(0, |finish| finish.low).into());
        for operand in self.inputs.iter().chain([&self.output]) {
            put(operand.elements as i64);
            put(operand.exponent.map_or(-1, |offset| offset as i64));
        }
        put(self.count as i64);
        put(self.sums_bytes as i64);
        put(self.scratch_bytes as i64);
        words
    }

    /// The description that words are.
    #[must_use]
    pub fn decode(words: &[i64; LAUNCH_WORDS]) -> Self {
        let size = |at: usize| words[at] as usize;
        let shape: [usize; SHAPE] = core::array::from_fn(|at| size(1 + at));
        let product = match words[0] {
            1 => Some(Product::Forward(convolution_of(&shape))),
            2 => Some(Product::InputGradient(convolution_of(&shape))),
            3 => Some(Product::WeightGradient(convolution_of(&shape))),
            4 => Some(Product::MatMul(matrices_of(&shape))),
            5 => Some(Product::ChannelsLast(channels_last_of(&shape))),
            6 => Some(Product::DepthwiseLast(channels_last_of(&shape))),
            _ => None,
        };
        let bits = words[20] as u8;
        let width = match words[19] {
            1 => Some(Width::Sums(bits)),
            2 => Some(Width::Kept(bits)),
            3 => Some(Width::Given),
            4 => Some(Width::Shift(bits)),
            _ => None,
        };
        let finish = width.map(|width| Finish {
            width,
            pseudo_stochastic: words[21] != 0,
            low: words[22] as i8,
        });
        let operand = |at: usize| Operand {
            elements: size(23 + 2 * at),
            exponent: usize::try_from(words[24 + 2 * at]).ok(),
        };
        Self {
            product,
            float: words[18] != 0,
            finish,
            inputs: [operand(0), operand(1), operand(2)],
            count: size(31),
            output: operand(3),
            sums_bytes: size(32),
            scratch_bytes: size(33),
        }
    }

    /// Runs it.
    ///
    /// # Safety
    /// `arguments` are the addresses of the operands, of the result and of the working memory, each valid for its size and 4-byte
    /// aligned; nothing else refers to the result and the working memory.
    pub unsafe fn run(&self, arguments: *const *mut u8) {
        // SAFETY: the caller passes one address an operand, one for the result, and one for the working memory.
        let addresses = unsafe { core::slice::from_raw_parts(arguments, self.count + 2) };
        let input = |i: usize| Place { address: addresses[i], operand: self.inputs[i] };
        let output = Place { address: addresses[self.count], operand: self.output };
        // SAFETY: the caller's promise for each address; the working memory, if there is any, is split into the sums and the rest.
        unsafe {
            let scratch: &mut [u8] = match self.scratch_bytes {
                0 => &mut [],
                bytes => core::slice::from_raw_parts_mut(addresses[self.count + 1], bytes),
            };
            let (sums, scratch) = scratch.split_at_mut(self.sums_bytes);
            let Some(finish) = self.finish else {
                if let Some(product) = self.product {
                    if self.float {
                        let (a, b) = (input(0).elements(), input(1).elements());
                        product.run_f32(a, b, output.elements_mut(), scratch);
                    } else {
                        let (a, b) = (input(0).elements(), input(1).elements());
                        // Plain numbers, of which nobody asks for the largest.
                        match product {
                            Product::ChannelsLast(g) => {
                                conv2d_channels_last(&g, a, b, output.elements_mut(), scratch);
                                return;
                            }
                            Product::DepthwiseLast(g) => {
                                depthwise_channels_last(&g, a, b, output.elements_mut(), scratch);
                                return;
                            }
                            _ => {}
                        }
                        product.run_i8(a, b, output.elements_mut(), scratch);
                        let exponent = input(0).exponent().wrapping_add(input(1).exponent());
                        output.set_exponent(exponent);
                    }
                }
                return;
            };
            let (sums, exponent, operands, largest): (&[i32], i32, usize, Option<u32>) =
                match self.product {
                    Some(product) => {
                        let sums: &mut [i32] = core::slice::from_raw_parts_mut(
                            sums.as_mut_ptr().cast(),
                            self.output.elements,
                        );
                        let (a, b) = (input(0).elements(), input(1).elements());
                        let largest = product.run_i8(a, b, sums, scratch);
                        let exponent = input(0).exponent().wrapping_add(input(1).exponent());
                        (sums, exponent, 2, Some(largest))
                    }
                    None => (input(0).elements(), input(0).exponent(), 1, None),
                };
            let further = (self.count > operands).then(|| input(operands));
            let shift = finish.shift(|| largest.unwrap_or_else(|| max_abs_i32(sums)), further);
            finish.round(sums, shift, output.elements_mut());
            output.set_exponent(exponent.wrapping_add(shift as i32));
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

    /// The sums and their largest magnitude.
    fn run_i8(&self, a: &[i8], b: &[i8], sums: &mut [i32], scratch: &mut [u8]) -> u32 {
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

impl Finish {
    /// The shift for sums of that largest magnitude, which constant shifts and kept ones do not ask for.
    ///
    /// # Safety
    /// The further operand, a width or the state of a shift that is kept, is valid and aligned, nothing writes to it.
    unsafe fn shift(&self, largest: impl Fn() -> u32, further: Option<Place>) -> i64 {
        let width = |magnitude: u32| i64::from(32 - magnitude.leading_zeros());
        let above = |bits: u8| (width(largest()) - i64::from(bits)).max(0);
        match self.width {
            Width::Sums(bits) => above(bits),
            Width::Kept(bits) => {
                // SAFETY: promised by the caller; a state is FP32.
                let state: &[f32] = further.map_or(&[], |place| unsafe { place.elements() });
                kept_shift(state, bits).map_or_else(|| above(bits), i64::from)
            }
            Width::Given => {
                // SAFETY: promised by the caller; a width is an i32.
                let bits = further.map_or(0, |place| unsafe { place.elements::<i32>() }[0]);
                (width(largest()) - i64::from(bits)).max(0)
            }
            Width::Shift(amount) => amount.into(),
        }
    }

    fn round(&self, sums: &[i32], shift: i64, out: &mut [i8]) {
        match u32::try_from(shift) {
            Ok(shift) if !self.pseudo_stochastic => {
                requantize_half_away(sums, shift, self.low, out);
            }
            Ok(shift) if shift <= 32 => {
                requantize_pseudo_stochastic(sums, shift, out);
                if self.low > -127 {
                    out.iter_mut().for_each(|q| *q = (*q).max(self.low));
                }
            }
            // A shift beyond the width: a negative number of bits was asked for.
            _ => {
                let shift = shift.clamp(0, u32::MAX.into()) as u32;
                for (q, &x) in out.iter_mut().zip(sums) {
                    *q = shift_beyond(x, shift).max(self.low);
                }
            }
        }
    }
}

/// The shift of a state's steps that do not look for one; see the IR's `requantize_adaptive`, which a test compares it with.
pub(crate) fn kept_shift(state: &[f32], bits: u8) -> Option<u32> {
    let &[left, shift, ..] = state else { return None };
    if left <= 0.0 {
        return None;
    }
    let most = 32.0 - f32::from(bits);
    let least = if shift < most { shift } else { most };
    Some(if 0.0 < shift { least as u32 } else { 0 })
}

/// A pseudo-stochastic shift by more than 32 bits, which leaves nothing but what is rounded up.
pub(crate) fn shift_beyond(x: i32, shift: u32) -> i8 {
    if shift >= 128 {
        return 0;
    }
    let (discarded, half) = (u64::from(x.unsigned_abs()), shift / 2);
    let random = (discarded & ((1 << half) - 1)) << (shift % 2);
    let up = i8::from(discarded >> half > random);
    if x < 0 { -up } else { up }
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

fn convolution(g: &ConvGeometry) -> [usize; SHAPE] {
    [
        g.batch,
        g.in_channels,
        g.in_height,
        g.in_width,
        g.out_channels,
        g.out_height,
        g.out_width,
        g.kernel_height,
        g.kernel_width,
        g.stride_height,
        g.stride_width,
        g.dilation_height,
        g.dilation_width,
        g.pad_top,
        g.pad_left,
        g.groups,
        0,
    ]
}

fn convolution_of(sizes: &[usize; SHAPE]) -> ConvGeometry {
    let &[
        batch,
        in_channels,
        in_height,
        in_width,
        out_channels,
        out_height,
        out_width,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        groups,
        _,
    ] = sizes;
    ConvGeometry {
        batch,
        in_channels,
        in_height,
        in_width,
        out_channels,
        out_height,
        out_width,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        groups,
    }
}

fn matrices(g: &MatMulGeometry) -> [usize; SHAPE] {
    let [a, b] = [g.transpose_a, g.transpose_b].map(usize::from);
    let sizes = [g.batch, g.batch_stride_a, g.batch_stride_b, g.m, g.n, g.k, a, b];
    core::array::from_fn(|at| if at < sizes.len() { sizes[at] } else { 0 })
}

fn matrices_of(sizes: &[usize; SHAPE]) -> MatMulGeometry {
    let &[batch, batch_stride_a, batch_stride_b, m, n, k, a, b, ..] = sizes;
    let [transpose_a, transpose_b] = [a, b].map(|flag| flag != 0);
    MatMulGeometry { batch, batch_stride_a, batch_stride_b, m, n, k, transpose_a, transpose_b }
}

fn channels_last(g: &ChannelsLast) -> [usize; SHAPE] {
    [
        g.batch,
        g.height,
        g.width,
        g.channels,
        g.features,
        g.rows,
        g.columns,
        g.kernel_height,
        g.kernel_width,
        g.stride_height,
        g.stride_width,
        g.dilation_height,
        g.dilation_width,
        g.pad_top,
        g.pad_left,
        usize::from(g.padding),
        usize::from(g.unsigned),
    ]
}

fn channels_last_of(sizes: &[usize; SHAPE]) -> ChannelsLast {
    let &[
        batch,
        height,
        width,
        channels,
        features,
        rows,
        columns,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        padding,
        unsigned,
    ] = sizes;
    ChannelsLast {
        batch,
        height,
        width,
        channels,
        features,
        rows,
        columns,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top,
        pad_left,
        padding: padding as u8,
        unsigned: unsigned != 0,
    }
}
