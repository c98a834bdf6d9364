//! How a kernel of the program runs here: as one loop kernel, as one vector kernel, or (a chain that holds a product)
//! as stages with intermediate tensors in the kernel's working memory.

use trainc_ir::implementation::Signature;
use trainc_ir::loops::LoopKernel;
use trainc_ir::ops::Chain;
use trainc_ir::program::buffer_bytes;
use trainc_ir::target::loop_scratch;
use trainc_ir::{Op, TensorType};

use crate::divided::{Section, WORTH, sections};
use crate::memory::ALIGNMENT;
use crate::microkernels::MicroKernel;

/// Where an operand of a stage lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Operand of the kernel.
    Input(usize),
    /// Result of the kernel.
    Output(usize),
    /// Offset in the kernel's working memory.
    Intermediate(usize),
}

/// What a stage does.
#[derive(Debug)]
pub(crate) enum Work {
    /// An operation by its loops.
    Loop(Op),
    /// A vector kernel.
    Vector(Box<MicroKernel>),
}

/// One call of generated code.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) work: Work,
    pub(crate) inputs: Vec<(Place, TensorType)>,
    pub(crate) outputs: Vec<(Place, TensorType)>,
    /// Offset of the stage's own working memory in the kernel's.
    pub(crate) scratch: usize,
}

/// A kernel as stages.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) stages: Vec<Stage>,
    /// Working memory of the kernel.
    pub(crate) scratch_bytes: usize,
}

impl Staging {
    /// The kernel by its loops.
    pub(crate) fn generic(signature: &Signature<'_>) -> Staging {
        let Signature { op, inputs, outputs, .. } = *signature;
        let places = |types: &[&TensorType], place: fn(usize) -> Place| {
            types.iter().enumerate().map(|(i, &ty)| (place(i), ty.clone())).collect()
        };
        let stage = Stage {
            work: Work::Loop(op.clone()),
            inputs: places(inputs, Place::Input),
            outputs: places(outputs, Place::Output),
            scratch: 0,
        };
        Staging { stages: vec![stage], scratch_bytes: loop_bytes(&signature.lower()) }
    }

    /// The kernel by vector kernels as far as there are any; `None` if there is none.
    pub(crate) fn vector(signature: &Signature<'_>) -> Option<Staging> {
        let inputs = signature.inputs;
        let [output] = signature.outputs else { return Staging::of_two(signature) };
        let segments = segments(signature.ops(), inputs)?;
        if !segments.iter().any(Segment::is_vector) {
            return None;
        }
        let last = segments.len() - 1;
        let mut stages = Vec::new();
        let mut intermediates = 0;
        let mut carried: Option<(Place, TensorType)> = None;
        for (i, segment) in segments.into_iter().enumerate() {
            let further = segment.operands.map(|n| (Place::Input(n), inputs[n].clone()));
            let place = if i == last {
                Place::Output(0)
            } else {
                let offset = intermediates;
                intermediates += buffer_bytes(&segment.output).next_multiple_of(ALIGNMENT);
                Place::Intermediate(offset)
            };
            let result = (place, segment.output);
            let inputs = carried.take().into_iter().chain(further).collect();
            carried = Some(result.clone());
            stages.push(Stage { work: segment.work, inputs, outputs: vec![result], scratch: 0 });
        }
        debug_assert_eq!(carried.map(|(_, ty)| ty).as_ref(), Some(*output));
        let mut own = 0;
        for stage in &mut stages {
            stage.scratch = intermediates;
            own = own.max(stage.own_scratch_bytes());
        }
        Some(Staging { stages, scratch_bytes: intermediates + own })
    }
}

impl Staging {
    /// A kernel of two results by one vector kernel; `None` if there is none.
    fn of_two(signature: &Signature<'_>) -> Option<Staging> {
        let kernel = of_two(signature)?;
        let place = |place: fn(usize) -> Place, types: &[&TensorType]| {
            types.iter().enumerate().map(|(i, &ty)| (place(i), ty.clone())).collect()
        };
        let scratch_bytes = kernel.scratch_bytes();
        let stage = Stage {
            work: Work::Vector(Box::new(kernel)),
            inputs: place(Place::Input, signature.inputs),
            outputs: place(Place::Output, signature.outputs),
            scratch: 0,
        };
        Some(Staging { stages: vec![stage], scratch_bytes })
    }
}

/// The vector kernel that does all of a kernel of two results.
pub(crate) fn of_two(signature: &Signature<'_>) -> Option<MicroKernel> {
    let (kernel, count) = MicroKernel::of(signature.ops(), signature.inputs)?.ok()?;
    let all = count == signature.ops().len() && kernel.operands() == signature.inputs.len();
    let results = kernel.outputs().iter().eq(signature.outputs.iter().copied());
    (all && results && signature.outputs.len() == 2).then_some(kernel)
}

impl Stage {
    /// The loops of the operation that it runs.
    pub(crate) fn lower(&self, op: &Op) -> LoopKernel {
        let inputs: Vec<&TensorType> = self.inputs.iter().map(|(_, ty)| ty).collect();
        let outputs: Vec<&TensorType> = self.outputs.iter().map(|(_, ty)| ty).collect();
        op.lower(&inputs, &outputs)
    }

    fn own_scratch_bytes(&self) -> usize {
        match &self.work {
            Work::Vector(kernel) => kernel.scratch_bytes(),
            Work::Loop(op) => loop_bytes(&self.lower(op)),
        }
    }
}

/// Bytes of working memory of an operation's loops, divided or not.
fn loop_bytes(kernel: &LoopKernel) -> usize {
    let of = |section: &Section| loop_scratch(&section.kernel).1;
    sections(kernel, WORTH).iter().map(of).max().unwrap_or(0)
}

/// Successive operations of a chain that run as one stage.
pub(crate) struct Segment {
    work: Work,
    /// Operands of the kernel that it takes besides the result so far.
    operands: std::ops::Range<usize>,
    output: TensorType,
    /// What it does over whole tensors.
    pub(crate) passes: Vec<Pass>,
}

impl Segment {
    /// Whether a vector kernel does it.
    pub(crate) fn is_vector(&self) -> bool {
        matches!(self.work, Work::Vector(_))
    }
}

/// A pass over whole tensors, as the cost model sees it.
pub(crate) enum Pass {
    /// A product by a vector kernel.
    Product { multiplications: usize, float: bool, inputs: Vec<TensorType>, output: TensorType },
    /// A product of groups by a vector kernel.
    Grouped { multiplications: usize, inputs: Vec<TensorType>, output: TensorType },
    /// A product of bits by a vector kernel.
    Bits { products: usize, inputs: Vec<TensorType>, output: TensorType },
    /// A pass over tensors of codes by a vector kernel.
    Codes { inputs: Vec<TensorType>, outputs: Vec<TensorType> },
    /// The largest magnitude of sums.
    LargestMagnitude { input: TensorType },
    /// Sums to i8.
    Requantize { input: TensorType, output: TensorType },
    /// An operation's loops.
    Loops { op: Op, inputs: Vec<TensorType>, output: TensorType },
}

/// Splits a sequence of operations, each applied to the result so far. `None` if it does not type.
pub(crate) fn segments(ops: &[Op], inputs: &[&TensorType]) -> Option<Vec<Segment>> {
    let vector =
        |at: usize, available: &[&TensorType]| MicroKernel::of(&ops[at..], available)?.ok();
    let mut segments = Vec::new();
    let mut carried: Option<TensorType> = None;
    let (mut at, mut next) = (0, 0);
    while at < ops.len() {
        let own = usize::from(carried.is_some());
        let available: Vec<&TensorType> =
            carried.iter().chain(inputs[next..].iter().copied()).collect();
        if let Some((kernel, count)) = vector(at, &available) {
            let operands = next..next + kernel.operands() - own;
            next = operands.end;
            at += count;
            carried = Some(kernel.output().clone());
            let (output, passes) = (kernel.output().clone(), kernel.passes());
            let work = Work::Vector(Box::new(kernel));
            segments.push(Segment { work, operands, output, passes });
            continue;
        }
        // Loops up to the next product.
        let (first, start, mut passes) = (at, next, Vec::new());
        loop {
            let own = usize::from(carried.is_some());
            let operands = arity(&ops[at], carried.as_ref(), &inputs[next..])?;
            let types: Vec<&TensorType> =
                carried.iter().chain(inputs[next..next + operands - own].iter().copied()).collect();
            let mut results = ops[at].infer(&types).ok()?;
            let output = results.pop()?;
            let inputs_of = types.iter().map(|&ty| ty.clone()).collect();
            passes.push(Pass::Loops {
                op: ops[at].clone(),
                inputs: inputs_of,
                output: output.clone(),
            });
            next += operands - own;
            at += 1;
            carried = Some(output);
            let available: Vec<&TensorType> =
                carried.iter().chain(inputs[next..].iter().copied()).collect();
            if at == ops.len() || vector(at, &available).is_some() {
                break;
            }
        }
        let op = match &ops[first..at] {
            [op] => op.clone(),
            several => Op::Chain(Chain { ops: several.to_vec() }),
        };
        let output = carried.clone()?;
        segments.push(Segment { work: Work::Loop(op), operands: start..next, output, passes });
    }
    Some(segments)
}

/// How many operands an operation takes, the result so far among them: the most that type, as [`Chain`] has it.
fn arity(op: &Op, carried: Option<&TensorType>, further: &[&TensorType]) -> Option<usize> {
    let all: Vec<&TensorType> = carried.into_iter().chain(further.iter().copied()).collect();
    (1..=all.len()).rev().find(|&n| op.infer(&all[..n]).is_ok())
}
