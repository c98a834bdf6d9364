//! The weight gradient of a depthwise convolution: for each channel and tap, the dot product of the error, spread over
//! padded planes, with the shifted operand.

use super::depthwise::{CALL, COPIED, Depthwise};
use super::depthwise_pack::{PlanePacking, step};
use super::depthwise_sheet_gradient::SheetGradient;
use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::lanes::{LANES, lane_sums, shuffle_unit};
use super::pool::{VECTOR, number, store};
use super::support::{loop_over, zero_vector};
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// Most taps of a pass: each has an accumulator and a pointer.
const TAPS: usize = 9;
/// Packets of 128 positions, for each tap.
const TAP: usize = 1;
/// Packets of a channel's sums, for each tap.
const TAP_SUMS: usize = 3;
/// Largest kernel.
const LARGEST: usize = 81;

/// Products of operands and errors, and those that are added up.
pub(super) fn products(unsigned: bool) -> [Opcode; 2] {
    match unsigned {
        false => [Opcode::VrmpyBBv, Opcode::VrmpyBBvAccumulate],
        true => [Opcode::VrmpyUbBv, Opcode::VrmpyUbBvAccumulate],
    }
}

impl Depthwise {
    /// The error as the operand's padded planes have it: each where the first tap of its window reads.
    fn spread_error(&self) -> PlanePacking {
        PlanePacking {
            rows: self.vertical.output,
            columns: self.horizontal.output,
            steps: [self.vertical.stride, self.horizontal.stride],
            first: 0,
            ..self.forward().packing(false)
        }
    }

    /// Taps of a channel's kernel.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.vertical.kernel * self.horizontal.kernel
    }

    /// Vectors of sums, with those that fill the last block.
    fn sum_vectors(&self) -> usize {
        (self.channels * self.taps()).next_multiple_of(LANES)
    }

    /// Whether [`Self::weight_gradient`] can do it.
    #[must_use]
    pub fn is_gradient_supported(&self) -> bool {
        SheetGradient::of(self).is_some() || self.is_padded_gradient_supported()
    }

    fn is_padded_gradient_supported(&self) -> bool {
        self.forward().has_places()
            && self.taps() <= LARGEST
            && self.forward().packing(false).is_supported()
            && self.spread_error().is_supported()
    }

    /// Bytes of the sums of all channels and taps.
    fn weight_bytes(&self) -> usize {
        4 * self.channels * self.taps()
    }

    /// An estimate of the packets of [`Self::weight_sums`].
    #[must_use]
    pub fn weight_sum_packets(&self) -> usize {
        self.gradient_packets() + self.weight_bytes() / VECTOR + 20
    }

    /// `void kernel(x, dy, sums, working memory)`: i32 `[channel][tap]`, nothing behind them.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn weight_sums(&self, name: &str) -> Result<Kernel, MachineError> {
        let mut kernel = self.weight_gradient(name)?;
        let mut scratch = Scratch { bytes: kernel.scratch_bytes };
        let (sums, result) = (scratch.take(self.gradient_sum_bytes()), Argument::Parameter(2));
        let arguments = kernel.phases.iter_mut().flat_map(|phase| &mut phase.arguments);
        arguments.filter(|argument| **argument == result).for_each(|argument| *argument = sums);
        let function = self.copy(&format!("{name}_copy"))?;
        kernel.phases.push(Phase { function, arguments: vec![sums, result] });
        kernel.scratch_bytes = scratch.bytes;
        Ok(kernel)
    }

    /// `void copy(sums, result)`.
    fn copy(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Copies sums.");
        let (from, to) = (b.parameter(0), b.parameter(1));
        let (source, target) = (b.object("sums"), b.object("result"));
        let bytes = self.weight_bytes();
        let (at, result) = (b.copy(from), b.copy(to));
        loop_over(&mut b, bytes / VECTOR, "vectors", |b| {
            let sums = b.load(Opcode::LoadVNext, (at, 1), source);
            b.store(Opcode::StoreVNext, (result, 1, sums), target);
        });
        if !bytes.is_multiple_of(VECTOR) {
            let sums = b.load(Opcode::LoadV, (at, 0), source);
            store(&mut b, to, target, bytes / VECTOR * VECTOR..bytes, sums);
        }
        b.finish(None)
    }

    /// An estimate of the packets of [`Self::weight_gradient`], without the rounding of its sums.
    #[must_use]
    pub fn gradient_packets(&self) -> usize {
        if let Some(gradient) = SheetGradient::of(self) {
            return gradient.packets();
        }
        let operand = self.forward().packing(false);
        let copied = (operand.vectors() + self.spread_error().vectors()) * COPIED;
        let (vectors, taps) = (self.forward().channel() / VECTOR, self.taps());
        self.channels * (copied + vectors * (taps + 1) * TAP + taps * TAP_SUMS) + CALL
    }

    /// Bytes of the sums that [`Self::weight_gradient`] writes.
    #[must_use]
    pub fn gradient_sum_bytes(&self) -> usize {
        match SheetGradient::of(self) {
            Some(gradient) => gradient.sum_bytes(),
            None => 4 * self.sum_vectors(),
        }
    }

    /// `void kernel(x, dy, sums, working memory)`: i32 `[channel][tap]`; the sums take [`Self::gradient_sum_bytes`].
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn weight_gradient(&self, name: &str) -> Result<Kernel, MachineError> {
        if let Some(gradient) = SheetGradient::of(self) {
            return gradient.kernel(name);
        }
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let (operand, error) = (self.forward().packing(false), self.spread_error());
        let mut scratch = Scratch::default();
        let planes = scratch.take(operand.bytes() + self.furthest());
        let errors = scratch.take(error.bytes());
        let partial = scratch.take(self.sum_vectors() * VECTOR);
        let (pack, pack_table) = operand.function(&phase_name("pack"))?;
        let (pack_error, error_table) = error.function(&phase_name("pack_error"))?;
        let arguments = |a, b| vec![a, b];
        let phases = vec![
            Phase { function: pack, arguments: arguments(Argument::Parameter(0), planes) },
            Phase { function: pack_error, arguments: arguments(Argument::Parameter(1), errors) },
            Phase {
                function: self.products(&phase_name("products"))?,
                arguments: vec![planes, errors, partial],
            },
            Phase {
                function: self.add_lanes(&phase_name("add_lanes"))?,
                arguments: arguments(partial, Argument::Parameter(2)),
            },
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Sums of errors times operands for each channel and tap.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: vec![pack_table, error_table],
        })
    }

    fn tap_offset(&self, tap: usize) -> usize {
        let (row, column) = (tap / self.horizontal.kernel, tap % self.horizontal.kernel);
        row * self.vertical.dilation * self.forward().row() + column
    }

    /// Bytes from the first tap to the last.
    fn furthest(&self) -> usize {
        self.tap_offset(self.taps() - 1)
    }

    /// `void products(planes, errors, sums)`: a vector of partial sums for each channel and tap.
    fn products(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Products of errors and operands, 128 positions at a time.");
        let (planes, errors, sums) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let memory = (b.object("planes"), b.object("errors"), b.object("sums"));
        let channel = self.forward().channel();
        let [_, accumulate] = products(self.unsigned);
        loop_over(&mut b, self.channels, "channels", |b| {
            let mut taps = (0..self.taps()).peekable();
            while taps.peek().is_some() {
                let pass: Vec<usize> = taps.by_ref().take(TAPS).collect();
                let accumulators: Vec<Register> = pass
                    .iter()
                    .map(|_| {
                        let accumulator = b.fresh(Class::V);
                        zero_vector(b, accumulator);
                        accumulator
                    })
                    .collect();
                let pointers: Vec<Register> = pass
                    .iter()
                    .map(|&tap| {
                        b.emit(Opcode::AddImmediate, (planes, number(self.tap_offset(tap))))
                    })
                    .collect();
                let error = b.copy(errors);
                loop_over(b, channel / VECTOR, "128 positions", |b| {
                    let error = b.load(Opcode::LoadVNext, (error, 1), memory.1);
                    for (&pointer, &accumulator) in pointers.iter().zip(&accumulators) {
                        let x = b.load(Opcode::LoadVUnalignedNext, (pointer, 1), memory.0);
                        b.update(accumulate, (accumulator, x, error));
                    }
                });
                for accumulator in accumulators {
                    b.store(Opcode::StoreVNext, (sums, 1, accumulator), memory.2);
                }
            }
            step(b, planes, planes, channel);
            step(b, errors, errors, channel);
        });
        b.finish(None)
    }

    /// `void add_lanes(partial sums, sums)`: the sum of each vector's lanes, 32 vectors at a time.
    fn add_lanes(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Adds up the lanes of 32 vectors.");
        let (from, to) = (b.parameter(0), b.parameter(1));
        let (source, target) = (b.object("partial sums"), b.object("sums"));
        let unit = shuffle_unit(&mut b);
        loop_over(&mut b, self.sum_vectors() / LANES, "32 vectors", |b| {
            let bases: Vec<Register> = (0..4)
                .map(|i| b.emit(Opcode::AddImmediate, (from, number(8 * i * VECTOR))))
                .collect();
            let sum = lane_sums(b, unit, &mut |b, vector| {
                let place = (bases[vector / 8], number(vector % 8));
                b.load(Opcode::LoadV, place, source)
            });
            b.store(Opcode::StoreVNext, (to, 1, sum), target);
            step(b, from, from, LANES * VECTOR);
        });
        b.finish(None)
    }
}
