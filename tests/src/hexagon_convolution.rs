//! Convolutions on Hexagon beside the reference operations.

use std::fmt::Write as _;
use std::path::Path;

use trainc_hvx::kernels::{
    Argument, Kernel, Span, StaticShift, WeightGradient, WeightStrides, WindowProduct, convolution,
    in_parts, static_convolution,
};
use trainc_hvx::machine::{Builder, Function, Opcode, Options, Version, compile};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, QuantizeGradient, Requantize,
    ShiftRight,
};
use trainc_ir::{Element, Op, Operator, RunContext, Scale, Tensor, TensorType};

use crate::hexagon::{Call, Outcome, Value, run};
pub use crate::random::Random;

/// A convolution of i8 maps.
#[derive(Clone, Copy, Debug)]
pub struct ConvolutionCase {
    /// Images.
    pub images: usize,
    /// Channels of the operand.
    pub channels: usize,
    /// Channels of the result.
    pub features: usize,
    /// Height and width of the operand.
    pub size: [usize; 2],
    /// Taps.
    pub kernel: [usize; 2],
    /// Positions from a window to the next.
    pub strides: [usize; 2],
    /// Top, left, bottom, right.
    pub pads: [usize; 4],
    /// Positions from a tap to the next.
    pub dilations: [usize; 2],
}

/// What operands hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Uniform over all of i8.
    Random,
    /// Uniform over -3..=3.
    Small,
    /// -128 and 127 only.
    Extreme,
    /// -128 everywhere.
    Lowest,
    /// 127 everywhere.
    Highest,
    /// -128 in the first operand, 127 in the second: the most negative sums.
    Opposite,
    /// Nothing but zero.
    Zero,
}

impl Fill {
    /// What the second operand holds.
    fn second(self) -> Fill {
        if self == Fill::Opposite { Fill::Highest } else { self }
    }
}

/// A run beside its reference.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What differs, if anything.
    pub difference: Option<String>,
    /// Packets of each call, with its symbol: the packing of weights, the phases, the whole kernel.
    pub packets: Vec<(String, u32)>,
    /// Multiplications, with and without those with padding.
    pub multiplications: [usize; 2],
}

impl Checked {
    /// Packets of the whole kernel, called at its entry, without the packing of weights.
    #[must_use]
    pub fn kernel_packets(&self) -> u32 {
        self.packets.last().map_or(0, |(_, packets)| *packets)
    }
}

impl Random {
    /// Bits without the lowest.
    pub fn next_bits(&mut self) -> u64 {
        self.next() >> 16
    }

    /// A tensor's worth of i8.
    pub fn bytes(&mut self, count: usize, fill: Fill) -> Vec<i8> {
        let byte = |bits: u64| match fill {
            Fill::Random => bits as i8,
            Fill::Small => (bits % 7) as i8 - 3,
            Fill::Extreme => {
                if bits & 1 == 0 {
                    -128
                } else {
                    127
                }
            }
            Fill::Lowest | Fill::Opposite => -128,
            Fill::Highest => 127,
            Fill::Zero => 0,
        };
        (0..count).map(|_| byte(self.next_bits())).collect()
    }
}

/// The assembly of functions and tables.
///
/// # Panics
/// If a function does not compile.
#[must_use]
pub fn assembly<'a>(functions: impl Iterator<Item = &'a Function>, kernel: &Kernel) -> String {
    let mut text = String::new();
    for function in functions {
        let assembled = compile(function, Version::V66, &Options::default())
            .unwrap_or_else(|e| panic!("{}: {e}", function.name));
        text.push_str(&assembled.assembly());
    }
    for object in &kernel.data {
        let _ = writeln!(text, "\t.section .rodata\n\t.balign 128\n{}:", object.symbol);
        for word in &object.words {
            let _ = writeln!(text, "\t.word {word}");
        }
    }
    text
}

/// Hands out pieces of memory.
pub struct Memory {
    /// Bytes so far.
    pub bytes: Vec<u8>,
}

impl Memory {
    /// A piece with these contents.
    pub fn place(&mut self, contents: &[i8]) -> usize {
        let offset = self.bytes.len().next_multiple_of(128);
        self.bytes.resize(offset, 0xa5);
        self.bytes.extend(contents.iter().map(|&x| x as u8));
        offset
    }

    /// A piece with what nobody may rely on.
    pub fn reserve(&mut self, bytes: usize) -> usize {
        let offset = self.bytes.len().next_multiple_of(128);
        self.bytes.resize(offset + bytes, 0xa5);
        offset
    }
}

/// The call of a kernel's entry.
#[must_use]
pub fn entry_call(kernel: &Kernel, parameters: &[usize], scratch: usize) -> Call {
    let arguments = parameters.iter().chain([&scratch]).map(|&at| Value::Memory(at)).collect();
    Call { symbol: kernel.name.clone(), arguments }
}

/// Calls of a kernel's phases; results are numbered from `first`.
#[must_use]
pub fn phase_calls(
    kernel: &Kernel,
    parameters: &[usize],
    scratch: usize,
    first: usize,
) -> Vec<Call> {
    let value = |argument: &Argument| match *argument {
        Argument::Parameter(index) => Value::Memory(parameters[index]),
        Argument::Scratch(offset) => Value::Memory(scratch + offset),
        Argument::Result(phase) => Value::Result(first + phase),
    };
    kernel
        .phases
        .iter()
        .map(|phase| {
            let mut arguments: Vec<Value> = phase.arguments.iter().map(value).collect();
            if let Some(range) = &phase.function.range {
                arguments.extend([Value::Number(0), Value::Number(range.count.cast_signed())]);
            }
            Call { symbol: phase.function.name.to_string(), arguments }
        })
        .collect()
}

/// The kernel's entry, and functions that run each range of its phases in uneven pieces, the last first.
///
/// # Panics
/// If the machine layer refuses.
#[must_use]
pub fn entry_in_pieces(kernel: &Kernel) -> Vec<Function> {
    let divided = kernel.phases.iter().filter_map(|phase| {
        let range = phase.function.range.as_ref()?;
        let parameters = range.parameters.len();
        let mut b = Builder::new(&in_parts(&phase.function.name), u32::try_from(parameters).ok()?);
        let count = range.count.cast_signed();
        let mut all = b.zero();
        let mut end = count;
        for first in [count - 1, count / 3, 0] {
            if first < end {
                let mut arguments: Vec<_> = (0..parameters).map(|i| b.parameter(i)).collect();
                arguments.extend([b.constant(first), b.constant(end - first)]);
                let seen = b.call(&phase.function.name, &arguments);
                all = b.emit(Opcode::Or, (all, seen));
                end = first;
            }
        }
        Some(b.finish(phase.function.result.map(|_| all)).expect("pieces"))
    });
    divided.chain([kernel.divided_entry().expect("an entry")]).collect()
}

impl ConvolutionCase {
    /// A 3x3 convolution with padding 1.
    #[must_use]
    pub fn same(images: usize, channels: usize, features: usize, size: usize) -> Self {
        Self {
            images,
            channels,
            features,
            size: [size; 2],
            kernel: [3; 2],
            strides: [1; 2],
            pads: [1; 4],
            dilations: [1; 2],
        }
    }

    /// Height and width of the result.
    #[must_use]
    pub fn output(&self) -> [usize; 2] {
        std::array::from_fn(|i| {
            let extent = (self.kernel[i] - 1) * self.dilations[i] + 1;
            (self.size[i] + self.pads[i] + self.pads[i + 2] - extent) / self.strides[i] + 1
        })
    }

    fn spans(&self) -> [Span; 2] {
        let output = self.output();
        std::array::from_fn(|i| Span {
            input: self.size[i],
            output: output[i],
            kernel: self.kernel[i],
            stride: self.strides[i],
            dilation: self.dilations[i],
            before: self.pads[i],
        })
    }

    fn shapes(&self) -> [[usize; 4]; 3] {
        let output = self.output();
        [
            [self.images, self.channels, self.size[0], self.size[1]],
            [self.features, self.channels, self.kernel[0], self.kernel[1]],
            [self.images, self.features, output[0], output[1]],
        ]
    }

    /// The convolution as a sum over windows.
    #[must_use]
    pub fn forward_product(&self) -> WindowProduct {
        let [vertical, horizontal] = self.spans();
        let axes = [vertical.forward(), horizontal.forward()];
        WindowProduct::new(self.images, self.channels, self.features, axes).expect("a product")
    }

    /// Its error gradient as a sum over windows.
    #[must_use]
    pub fn error_product(&self) -> WindowProduct {
        let [vertical, horizontal] = self.spans();
        let axes = [vertical.error(), horizontal.error()];
        WindowProduct::new(self.images, self.features, self.channels, axes).expect("a product")
    }

    fn weight_strides(&self, error: bool) -> WeightStrides {
        let taps = self.kernel[0] * self.kernel[1];
        let (feature, channel) = (self.channels * taps, taps);
        match error {
            false => WeightStrides { feature, channel, tap: 1 },
            true => WeightStrides { feature: channel, channel: feature, tap: 1 },
        }
    }

    /// Runs the convolution, or its error gradient, and compares with the reference.
    ///
    /// # Panics
    /// If the kernel does not compile or run.
    #[must_use]
    pub fn check(&self, folder: &Path, error: bool, fill: Fill, low: i8) -> Checked {
        let product = if error { self.error_product() } else { self.forward_product() };
        let kernel = convolution("conv", &product, 7, low).expect("a kernel");
        let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low };
        self.check_kernel(folder, error, fill, kernel, &requantize.into())
    }

    /// As [`Self::check`], with a shift known ahead.
    ///
    /// # Panics
    /// If the kernel does not compile or run.
    #[must_use]
    pub fn check_shift(
        &self,
        folder: &Path,
        error: bool,
        fill: Fill,
        shift: StaticShift,
    ) -> Checked {
        let product = if error { self.error_product() } else { self.forward_product() };
        assert!(shift.is_supported(product.depth()));
        let kernel = static_convolution("conv", &product, shift).expect("a kernel");
        self.check_kernel(folder, error, fill, kernel, &shift_right(shift))
    }

    fn check_kernel(
        &self,
        folder: &Path,
        error: bool,
        fill: Fill,
        mut kernel: Kernel,
        finish: &Op,
    ) -> Checked {
        let product = if error { self.error_product() } else { self.forward_product() };
        let (pack, table) =
            product.pack_weights("pack_weights", &self.weight_strides(error)).expect("packing");
        kernel.data.extend(table);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let [x, w, y] = self.shapes();
        let (from, to) = if error { (y, x) } else { (x, y) };
        let count = |shape: [usize; 4]| shape.iter().product::<usize>();
        let operand = random.bytes(count(from), fill);
        let weights = random.bytes(count(w), fill.second());
        let mut memory = Memory { bytes: Vec::new() };
        let operand_at = memory.place(&operand);
        let weights_at = memory.place(&weights);
        let packed_at = memory.reserve(product.weight_bytes());
        let result_at = memory.reserve(count(to));
        let packing_bytes = product.packing_bytes(&self.weight_strides(error));
        let scratch_at = memory.reserve(kernel.scratch_bytes.max(packing_bytes));
        let places = [weights_at, packed_at, scratch_at];
        let mut calls = vec![Call {
            symbol: "pack_weights".into(),
            arguments: places.map(Value::Memory).to_vec(),
        }];
        calls.extend(phase_calls(&kernel, &[operand_at, packed_at, result_at], scratch_at, 1));
        let again_at = memory.reserve(count(to));
        calls.push(entry_call(&kernel, &[operand_at, packed_at, again_at], scratch_at));
        let entry = entry_in_pieces(&kernel);
        let functions = entry.iter().chain([&pack]).chain(kernel.functions());
        let outcome = run(folder, 66, &assembly(functions, &kernel), &memory.bytes, &calls);

        let operand = Tensor::i8_shared(from, operand, -3);
        let weights = Tensor::i8_shared(w, weights, -4);
        let context = RunContext { seed: 0, step: 0 };
        let sums = if error {
            Conv2dGradientInput {
                strides: self.strides,
                pads: self.pads,
                dilations: self.dilations,
                groups: 1,
                input_size: self.size,
            }
            .evaluate(&[&operand, &weights], &context)
        } else {
            Conv2d { strides: self.strides, pads: self.pads, dilations: self.dilations, groups: 1 }
                .evaluate(&[&operand, &weights], &context)
        };
        let expected = finish.evaluate(&[&sums[0]], &context).remove(0);
        // A shift known ahead is not returned.
        let shift = (!matches!(finish, Op::ShiftRight(_))).then_some(expected.exponent() + 7);
        Checked {
            difference: compare(&outcome, result_at, &expected, shift.map(|s| (5, s))).or_else(
                || compare(&outcome, again_at, &expected, shift.map(|s| (calls.len() - 1, s))),
            ),
            packets: named(&calls, &outcome),
            multiplications: [product.multiplications(), product.multiplications_inside()],
        }
    }
}

/// The operation of a shift to i8.
fn shift_right(shift: StaticShift) -> Op {
    let StaticShift { amount, rounding } = shift;
    ShiftRight { amount, rounding, element: Element::I8 }.into()
}

impl ConvolutionCase {
    /// The three passes as fused operations: forward, error, weight, with their operands' and result's types.
    #[must_use]
    pub fn operations(&self) -> [(Op, Vec<TensorType>, TensorType); 3] {
        let [x, w, y] = self.shapes().map(|shape| TensorType {
            scale: Scale::Exponent,
            ..TensorType::new(shape, Element::I8)
        });
        let Self { strides, pads, dilations, size, kernel, .. } = *self;
        let forward = Op::from(Conv2d { strides, pads, dilations, groups: 1 });
        let error =
            Op::from(Conv2dGradientInput { strides, pads, dilations, groups: 1, input_size: size });
        let weight = Op::from(Conv2dGradientWeight {
            strides,
            pads,
            dilations,
            groups: 1,
            kernel_size: kernel,
        });
        let requantize = Op::from(Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 });
        let quantize = Op::from(QuantizeGradient { rounding: Rounding::PseudoStochastic });
        let bits = TensorType::new([], Element::I32);
        let chain = |first: Op, last: &Op| Op::from(Chain { ops: vec![first, last.clone()] });
        [
            (chain(forward, &requantize), vec![x.clone(), w.clone()], y.clone()),
            (chain(error, &requantize), vec![y.clone(), w.clone()], x.clone()),
            (chain(weight, &quantize), vec![x, y, bits], w),
        ]
    }
}

impl ConvolutionCase {
    /// The weight gradient.
    #[must_use]
    pub fn weight_gradient(&self) -> WeightGradient {
        let [vertical, horizontal] = self.spans();
        WeightGradient {
            images: self.images,
            channels: self.channels,
            features: self.features,
            vertical: vertical.forward(),
            horizontal: horizontal.forward(),
            narrow: None,
            unsigned: false,
        }
    }

    /// Runs the weight gradient, quantised to so many bits, and compares with the reference.
    ///
    /// # Panics
    /// If the kernel does not compile or run.
    #[must_use]
    pub fn check_weight_gradient(&self, folder: &Path, fill: Fill, bits: i32) -> Checked {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let [operand, error] = self.gradient_operands(&mut random, fill);
        self.check_weight_gradient_of(folder, operand, error, bits)
    }

    /// As [`Self::check_weight_gradient`], with neighbouring columns side by side; `None` where they do not fit.
    ///
    /// # Panics
    /// If the kernel does not compile or run.
    #[must_use]
    pub fn check_narrow_gradient(&self, folder: &Path, fill: Fill, bits: i32) -> Option<Checked> {
        let [_, horizontal] = self.spans();
        let gradient = WeightGradient::narrowed(&self.weight_gradient(), &horizontal)?;
        let kernel = gradient.kernel("gradient").expect("a kernel");
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let [operand, error] = self.gradient_operands(&mut random, fill);
        let quantize = QuantizeGradient { rounding: Rounding::PseudoStochastic };
        let quantize = quantize.into();
        Some(self.check_gradient_kernel(folder, &kernel, operand, error, &quantize, Some(bits)))
    }

    /// As [`Self::check_weight_gradient`], with a shift known ahead.
    ///
    /// # Panics
    /// If the kernel does not compile or run.
    #[must_use]
    pub fn check_weight_gradient_shift(
        &self,
        folder: &Path,
        fill: Fill,
        shift: StaticShift,
    ) -> Checked {
        let gradient = self.weight_gradient();
        assert!(shift.is_supported(gradient.depth()));
        let kernel = gradient.static_kernel("gradient", shift).expect("a kernel");
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let [operand, error] = self.gradient_operands(&mut random, fill);
        self.check_gradient_kernel(folder, &kernel, operand, error, &shift_right(shift), None)
    }

    fn gradient_operands(&self, random: &mut Random, fill: Fill) -> [Vec<i8>; 2] {
        let [x, _, y] = self.shapes();
        [(x, fill), (y, fill.second())]
            .map(|(shape, fill)| random.bytes(shape.iter().product(), fill))
    }

    /// As [`Self::check_weight_gradient`], of a given operand and error.
    ///
    /// # Panics
    /// If the kernel does not compile or run.
    #[must_use]
    pub fn check_weight_gradient_of(
        &self,
        folder: &Path,
        operand: Vec<i8>,
        error: Vec<i8>,
        bits: i32,
    ) -> Checked {
        let kernel = self.weight_gradient().kernel("gradient").expect("a kernel");
        let quantize = QuantizeGradient { rounding: Rounding::PseudoStochastic };
        self.check_gradient_kernel(folder, &kernel, operand, error, &quantize.into(), Some(bits))
    }

    fn check_gradient_kernel(
        &self,
        folder: &Path,
        kernel: &Kernel,
        operand: Vec<i8>,
        error: Vec<i8>,
        finish: &Op,
        bits: Option<i32>,
    ) -> Checked {
        let gradient = self.weight_gradient();
        assert!(gradient.is_supported());
        let [x, w, y] = self.shapes();
        let count = |shape: [usize; 4]| shape.iter().product::<usize>();
        let mut memory = Memory { bytes: Vec::new() };
        let mut parameters = vec![memory.place(&operand), memory.place(&error)];
        parameters.extend(bits.map(|bits| memory.place(&bits.to_le_bytes().map(|x| x as i8))));
        let result_at = memory.reserve(count(w));
        let scratch_at = memory.reserve(kernel.scratch_bytes);
        parameters.push(result_at);
        let mut calls = phase_calls(kernel, &parameters, scratch_at, 0);
        let again_at = memory.reserve(count(w));
        parameters.pop();
        parameters.push(again_at);
        calls.push(entry_call(kernel, &parameters, scratch_at));
        let entry = entry_in_pieces(kernel);
        let functions = entry.iter().chain(kernel.functions());
        let outcome = run(folder, 66, &assembly(functions, kernel), &memory.bytes, &calls);

        let operand = Tensor::i8_shared(x, operand, 3);
        let error = Tensor::i8_shared(y, error, 4);
        let context = RunContext { seed: 0, step: 0 };
        let sums = Conv2dGradientWeight {
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            groups: 1,
            kernel_size: self.kernel,
        }
        .evaluate(&[&operand, &error], &context);
        let bits_tensor = bits.map(|bits| Tensor::i32([], vec![bits]));
        let operands: Vec<&Tensor> = sums.iter().chain(&bits_tensor).collect();
        let expected = finish.evaluate(&operands, &context).remove(0);
        // The phase that rounds by a run-time width returns the shift; one known ahead is not returned.
        let rounds = kernel.phases.iter().position(|p| p.function.name.ends_with("_quantize"));
        let rounds = rounds.unwrap_or(5);
        let shift = bits.map(|_| expected.exponent().wrapping_sub(7));
        Checked {
            difference: compare(&outcome, result_at, &expected, shift.map(|s| (rounds, s)))
                .or_else(|| {
                    compare(&outcome, again_at, &expected, shift.map(|s| (calls.len() - 1, s)))
                }),
            packets: std::iter::once(("nothing".into(), 0))
                .chain(named(&calls, &outcome))
                .collect(),
            multiplications: [gradient.multiplications(), gradient.multiplications_inside()],
        }
    }
}

/// Names of calls beside their packets.
#[must_use]
pub fn named(calls: &[Call], outcome: &Outcome) -> Vec<(String, u32)> {
    calls.iter().map(|c| c.symbol.clone()).zip(outcome.packets.iter().copied()).collect()
}

/// The first difference of a result in memory, or of the shift that a call, if any, returned.
#[must_use]
pub fn compare(
    outcome: &Outcome,
    at: usize,
    expected: &Tensor,
    shift: Option<(usize, i32)>,
) -> Option<String> {
    if let Some((call, shift)) = shift
        && outcome.results[call] != shift
    {
        return Some(format!("shift {} instead of {shift}", outcome.results[call]));
    }
    let values = expected.as_i8();
    let found = outcome.memory[at..][..values.len()].iter().map(|&x| x as i8);
    let wrong: Vec<(usize, (i8, i8))> = found
        .zip(values.iter().copied())
        .enumerate()
        .filter(|(_, (found, expected))| found != expected)
        .collect();
    let (position, (found, expected)) = wrong.first()?;
    Some(format!(
        "{} of {} differ, the first at {position}: {found} instead of {expected}",
        wrong.len(),
        values.len()
    ))
}
