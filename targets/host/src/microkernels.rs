//! Which operations run as vector kernels ([`crate::kernels`]), and how: the three convolution products and matrix
//! products of i8 and f32, requantization, a product that is requantized at once, for which the largest magnitude falls out of the product,
//! products of bits, gradients of max-pools, and passes over tensors of codes.

#![allow(unsafe_code, reason = "addresses from generated code become slices here")]

use trainc_ir::numeric::Rounding;
use trainc_ir::product::{self, Finish as Finishes, Narrowing, Numbers, Shape};
use trainc_ir::program::scale_offset;
use trainc_ir::{Element, Op, TensorType};

use crate::bits;
use crate::codes::Codes;
use crate::geometry::{channels_last, geometry, matmul_geometry};
use crate::grouped;
use crate::kernels::{
    Finish, Launch, MOST_INPUTS, Operand, Product, Rounding as Rounds, Source, Width,
    conv2d_channels_last_scratch_bytes, conv2d_f32_scratch_bytes,
    conv2d_grad_input_f32_scratch_bytes, conv2d_grad_input_i8_scratch_bytes,
    conv2d_grad_weight_f32_scratch_bytes, conv2d_grad_weight_i8_scratch_bytes,
    conv2d_i8_scratch_bytes, depthwise_channels_last_scratch_bytes, matmul_f32_scratch_bytes,
    matmul_i8_scratch_bytes,
};
use crate::memory::ALIGNMENT;
use crate::staging::Pass;

/// A vector kernel with its shape: what generated code passes to [`launch`].
#[derive(Debug)]
pub(crate) struct MicroKernel {
    launch: Launch,
    inputs: Vec<TensorType>,
    outputs: Vec<TensorType>,
}

/// The product that the vector kernels have for one that was recognised.
fn product_of(product: &product::Product, operands: &[&TensorType]) -> Result<Product, String> {
    match product.numbers {
        Numbers::Bytes | Numbers::Float => {}
        Numbers::Unsigned => return Err("an operand is u8".into()),
        Numbers::Plain => return channels_last(product, operands),
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

fn product_scratch(product: &Product, float: bool) -> usize {
    match (product, float) {
        (Product::Forward(g), false) => conv2d_i8_scratch_bytes(g),
        (Product::Forward(g), true) => conv2d_f32_scratch_bytes(g),
        (Product::InputGradient(g), false) => conv2d_grad_input_i8_scratch_bytes(g),
        (Product::InputGradient(g), true) => conv2d_grad_input_f32_scratch_bytes(g),
        (Product::WeightGradient(g), false) => conv2d_grad_weight_i8_scratch_bytes(g),
        (Product::WeightGradient(g), true) => conv2d_grad_weight_f32_scratch_bytes(g),
        (Product::MatMul(g), false) => matmul_i8_scratch_bytes(g),
        (Product::ChannelsLast(g), _) => conv2d_channels_last_scratch_bytes(g),
        (Product::DepthwiseLast(g), _) => depthwise_channels_last_scratch_bytes(g),
        (Product::MatMul(g), true) => matmul_f32_scratch_bytes(g),
    }
}

/// How a finish narrows sums, if the vector kernels round so.
fn narrowing(finish: &Finishes) -> Option<Narrowing> {
    let rounds =
        |n: &Narrowing| matches!(n.rounding(), Rounding::HalfAway | Rounding::PseudoStochastic);
    finish.narrowing().filter(rounds)
}

/// As the vector kernels take it.
fn finish_of(narrowing: Narrowing) -> Finish {
    let rounding = match narrowing.rounding() {
        Rounding::PseudoStochastic => Rounds::PseudoStochastic,
        _ => Rounds::HalfAway,
    };
    let (width, low) = match narrowing {
        Narrowing::Requantize { bits, low, .. } => (Width::Sums(bits), low),
        Narrowing::Adaptive { bits, low, .. } => (Width::Kept(bits), low),
        Narrowing::Gradient { .. } => (Width::Given, -127),
        Narrowing::Shift { amount, .. } => (Width::Shift(amount), -127),
    };
    Finish { width, rounding, low }
}

fn operand_of(ty: &TensorType) -> Operand {
    let exponent = (ty.scale_bytes() > 0).then(|| scale_offset(ty));
    let elements = if ty.element.bits() < 8 { ty.element_bytes() } else { ty.count() };
    Operand { elements, exponent }
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
            return Some(bits::product_of(ops, operands).map(
                |(product, [taken, count], output)| {
                    let codes = Codes {
                        source: Source::Bits(product),
                        finish: None,
                        ops: count,
                        operands: taken,
                        outputs: vec![output],
                        scratch_bytes: product.scratch_bytes(),
                    };
                    (MicroKernel::of_codes(codes, operands), count)
                },
            ));
        }
        if let Op::GroupedProduct(op) = first {
            return Some(grouped::product_of(op, operands).and_then(|product| {
                let own = &operands[..4];
                let output = first.infer(own).ok().and_then(one).ok_or("it does not type")?;
                let codes = Codes {
                    source: Source::Grouped(product),
                    finish: None,
                    ops: 1,
                    operands: 4,
                    outputs: vec![output],
                    scratch_bytes: product.scratch_bytes(),
                };
                Ok((MicroKernel::of_codes(codes, operands), 1))
            }));
        }
        if let Some(codes) = Codes::of(ops, operands) {
            return Some(codes.map(|codes| {
                let count = codes.ops;
                (MicroKernel::of_codes(codes, operands), count)
            }));
        }
        if let Some(finish) = Finishes::of(first, sums).as_ref().and_then(narrowing) {
            let operands = operands.get(..1 + finish.operands())?;
            let output = one(first.infer(operands).ok()?)?;
            return Some(Ok((MicroKernel::new(None, Some(finish), operands, output, 0), 1)));
        }
        let product = product::Product::of(ops, operands, |finish| narrowing(finish).is_some())?;
        Some(product.and_then(|product| {
            let own = product_of(&product, operands)?;
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
        let product_bytes = product.map_or(0, |p| product_scratch(&p, float));
        let codes = Codes {
            source: product.map_or(Source::Operand, Source::Product),
            finish: finish.map(finish_of),
            ops: 0,
            operands: operands.len(),
            outputs: vec![output],
            scratch_bytes: sums_bytes + product_bytes,
        };
        let mut kernel = MicroKernel::of_codes(codes, operands);
        kernel.launch.float = float;
        kernel.launch.sums_bytes = sums_bytes;
        kernel
    }

    fn of_codes(codes: Codes, operands: &[&TensorType]) -> MicroKernel {
        let operands = &operands[..codes.operands];
        let mut inputs = [Operand::default(); MOST_INPUTS];
        for (input, ty) in inputs.iter_mut().zip(operands) {
            *input = operand_of(ty);
        }
        let mut outputs = [Operand::default(); 2];
        for (output, ty) in outputs.iter_mut().zip(&codes.outputs) {
            *output = operand_of(ty);
        }
        let launch = Launch {
            source: codes.source,
            float: false,
            finish: codes.finish,
            inputs,
            count: operands.len(),
            outputs,
            results: codes.outputs.len(),
            sums_bytes: 0,
            scratch_bytes: codes.scratch_bytes,
        };
        let inputs = operands.iter().map(|&ty| ty.clone()).collect();
        let outputs = codes.outputs;
        MicroKernel { launch, inputs, outputs }
    }

    /// The description.
    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Number of operands.
    pub(crate) fn operands(&self) -> usize {
        self.inputs.len()
    }

    /// Type of the result, the first if there are two.
    pub(crate) fn output(&self) -> &TensorType {
        &self.outputs[0]
    }

    /// Types of the results.
    pub(crate) fn outputs(&self) -> &[TensorType] {
        &self.outputs
    }

    /// What it does over whole tensors.
    pub(crate) fn passes(&self) -> Vec<Pass> {
        let mut passes = Vec::new();
        match &self.launch.source {
            Source::Product(product) => {
                let float = self.output().is_f32();
                let sums = if float { Element::F32 } else { Element::I32 };
                passes.push(Pass::Product {
                    multiplications: product.multiplications(),
                    float,
                    inputs: self.inputs[..2].to_vec(),
                    output: self.output().with_element(sums),
                });
            }
            Source::Operand => {}
            Source::Grouped(product) => passes.push(Pass::Grouped {
                multiplications: product.multiplications(),
                inputs: self.inputs.clone(),
                output: self.output().clone(),
            }),
            Source::Bits(product) => passes.push(Pass::Bits {
                products: product.products(),
                inputs: self.inputs.clone(),
                output: self.output().clone(),
            }),
            _ => {
                let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
                passes.push(Pass::Codes { inputs, outputs });
                return passes;
            }
        }
        if let Some(finish) = self.launch.finish {
            let input = self.output().with_element(Element::I32);
            if matches!(self.launch.source, Source::Operand) && finish.asks_magnitude() {
                passes.push(Pass::LargestMagnitude { input: input.clone() });
            }
            passes.push(Pass::Requantize { input, output: self.output().clone() });
        }
        passes
    }

    /// Bytes of working memory.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.launch.scratch_bytes
    }
}

fn one(mut results: Vec<TensorType>) -> Option<TensorType> {
    if results.len() == 1 { results.pop() } else { None }
}

/// Runs a vector kernel; generated code calls this.
///
/// # Safety
/// `kernel` is the address of a live [`MicroKernel`], `arguments` are as [`Launch::run`] takes them.
pub(crate) unsafe extern "C" fn launch(kernel: *const MicroKernel, arguments: *const *mut u8) {
    // SAFETY: promised by the caller.
    unsafe { (*kernel).launch.run(arguments) }
}

#[cfg(test)]
mod tests {
    use trainc_ir::numeric::{Rounding, shift_right};
    use trainc_ir::ops::requantize_adaptive;

    use crate::kernels::numbers;
    use crate::kernels::{
        BitGeometry, BitProduct, ChannelSums, ChannelsLast, ConvGeometry, Finish, GroupedPass,
        GroupedProduct, GroupedShape, Launch, Line, Lines, MOST_INPUTS, MatMulGeometry, Operand,
        Planes, PoolGeometry, Pooled, Product, Rounding as Rounds, Source, Width, kept_shift,
        shift_beyond,
    };

    #[test]
    fn descriptions_are_words_and_back() {
        let convolution = ConvGeometry {
            batch: 1,
            in_channels: 2,
            in_height: 3,
            in_width: 4,
            out_channels: 5,
            out_height: 6,
            out_width: 7,
            kernel_height: 8,
            kernel_width: 9,
            stride_height: 10,
            stride_width: 11,
            dilation_height: 12,
            dilation_width: 13,
            pad_top: 14,
            pad_left: 15,
            groups: 16,
        };
        let matrices = MatMulGeometry {
            batch: 1,
            batch_stride_a: 2,
            batch_stride_b: 3,
            m: 4,
            n: 5,
            k: 6,
            transpose_a: true,
            transpose_b: false,
        };
        let channels_last = ChannelsLast {
            batch: 1,
            height: 2,
            width: 3,
            channels: 4,
            features: 5,
            rows: 6,
            columns: 7,
            kernel_height: 8,
            kernel_width: 9,
            stride_height: 10,
            stride_width: 11,
            dilation_height: 12,
            dilation_width: 13,
            pad_top: 14,
            pad_left: 15,
            padding: 0x80,
            unsigned: true,
        };
        let planes = Planes { batch: 1, channels: 2, space: 3 };
        let pool = PoolGeometry { planes: 1, height: 2, width: 3, rows: 4, columns: 5 };
        let line = |line| Source::Lines(Lines { planes, line });
        let geometry = BitGeometry {
            batch: 1,
            x: [2, 3],
            bytes: 4,
            channels: 5,
            features: 6,
            kernel: [7, 8],
            y: [9, 10],
            strides: [11, 12],
            pads: [13, 14],
        };
        let bits = BitProduct { geometry, groups: 15 };
        let grouped = |shape| {
            let steps = [[17, 18], [19, 20]];
            Source::Grouped(GroupedProduct { shape, steps, by_part: true })
        };
        let sources = [
            Source::Operand,
            Source::Product(Product::Forward(convolution)),
            Source::Product(Product::InputGradient(convolution)),
            Source::Product(Product::WeightGradient(convolution)),
            Source::Product(Product::MatMul(matrices)),
            Source::Product(Product::ChannelsLast(channels_last)),
            Source::Product(Product::DepthwiseLast(channels_last)),
            Source::Aligned { low: -127 },
            Source::Aligned { low: 0 },
            Source::Pool(pool, Pooled::I8),
            Source::Pool(pool, Pooled::U8),
            Source::PoolGradient(pool, Pooled::F32),
            Source::Clip([0xff80_0000, 0x7f80_0000]),
            Source::ClipGradient([0, u32::MAX]),
            line(Line::Norm),
            line(Line::Error { batch: false }),
            line(Line::Error { batch: true }),
            Source::ChannelSums(planes, ChannelSums::Statistics),
            Source::ChannelSums(planes, ChannelSums::Gradients),
            Source::Bits(bits),
            grouped(GroupedShape::Convolution(GroupedPass::Forward, convolution)),
            grouped(GroupedShape::Convolution(GroupedPass::InputGradient, convolution)),
            grouped(GroupedShape::Convolution(GroupedPass::WeightGradient, convolution)),
            grouped(GroupedShape::MatMul(matrices)),
        ];
        let widths = [Width::Sums(7), Width::Kept(5), Width::Given, Width::Shift(31)];
        let roundings =
            [Rounds::HalfAway, Rounds::PseudoStochastic, Rounds::Stochastic { stream: u32::MAX }];
        let finish = |width| roundings.map(|rounding| Finish { width, rounding, low: -127 });
        for source in sources {
            for finish in widths.into_iter().flat_map(finish).map(Some).chain([None]) {
                let operand = |n: usize| Operand {
                    elements: 20 + n,
                    exponent: n.is_multiple_of(2).then_some(4 * n),
                };
                let launch = Launch {
                    source,
                    float: finish.is_none(),
                    finish,
                    inputs: std::array::from_fn(operand),
                    count: 3,
                    outputs: [MOST_INPUTS, MOST_INPUTS + 1].map(operand),
                    results: 2,
                    sums_bytes: 64,
                    scratch_bytes: 128,
                };
                assert_eq!(Launch::decode(&launch.encode()), launch);
            }
        }
    }

    #[test]
    fn numbers_are_the_irs() {
        use trainc_ir::numeric::{self, dither};
        let mut bits = vec![0, 1, 2, 3, 0x7f_ffff, 0x80_0000, 0x80_0001, 0x7f7f_ffff, 0x7f80_0000];
        bits.extend((0..4000u32).map(dither::mix));
        // Halves, and what lies beside them.
        bits.extend((0..64).map(|n| (n as f32 * 0.5).to_bits()));
        bits.extend((0..64).flat_map(|n| [(8_388_600.0 + n as f32 * 0.5).to_bits(), 0x7fc0_0000]));
        for &word in &bits {
            assert_eq!(numbers::mix(word), dither::mix(word));
            let wide = i64::from(word as i32) * i64::from(dither::mix(word) as i32);
            assert_eq!(
                numbers::float_of_wide(wide).to_bits(),
                numeric::float_of_wide(wide).to_bits()
            );
            for x in [f32::from_bits(word), -f32::from_bits(word)] {
                if x > 0.0 && x.is_finite() {
                    assert_eq!(numbers::ceil_log2(x), numeric::ceil_log2(x), "{x}");
                }
                for limit in [32_767, 1 << 30] {
                    let expected = (x.round_ties_even() as i32).clamp(-limit, limit);
                    assert_eq!(numbers::round_ties_even(x, limit), expected, "{x}");
                }
                for by in [-1000, -252, -140, -126, -1, 0, 1, 127, 128, 254, 1000] {
                    let expected = numeric::scale_by_power_of_two(x, by);
                    let found = numbers::scale_by_power_of_two(x, by);
                    assert!(found == expected || found.is_nan() && expected.is_nan(), "{x}, {by}");
                }
            }
        }
        let floats: Vec<f32> = bits.iter().map(|&word| f32::from_bits(word)).collect();
        for floats in [&floats[..], &floats[..8], &[], &[f32::NAN]] {
            assert_eq!(numbers::largest_finite(floats), numeric::largest_finite(floats));
        }
        let run = trainc_ir::RunContext { seed: 0x1234_5678_9abc_def0, step: 77 };
        for (stream, element) in [(0, 0), (5, 1), (u32::MAX, 6), (9, u32::MAX)] {
            let words = [run.seed as u32, (run.seed >> 32) as u32, run.step];
            assert_eq!(numbers::draw(&words, stream, element), run.draw(stream, element));
        }
    }

    #[test]
    fn shifts_are_the_interpreters() {
        for state in [[0.0, 3.0, 1.0], [1.0, 3.0, 1.0], [2.0, -1.0, 1.0], [1.0, 40.0, 1.0]] {
            for bits in 1..=7 {
                let expected = requantize_adaptive::kept_shift(&state, bits);
                assert_eq!(kept_shift(&state, bits), expected, "{state:?}, {bits}");
            }
        }
        for x in [0, 1, -1, 5, i32::MAX, i32::MIN, 1 << 30, -(1 << 17), 0x0123_4567] {
            for shift in 33..140 {
                let expected = shift_right(x.into(), shift, Rounding::PseudoStochastic);
                assert_eq!(i64::from(shift_beyond(x, shift)), expected, "{x} >> {shift}");
            }
        }
    }
}
