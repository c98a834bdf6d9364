//! Which kernels of a program are convolutions of each channel by itself that [`kernels`](crate::kernels) has, and their
//! glue: a C function that calls the assembly and sets the exponent.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Conv2d, Conv2dGradientInput, Conv2dGradientWeight, Operator, QuantizeGradient,
};
use trainc_ir::{Element, Op, Scale, Shape, TensorType};

use crate::kernels::{DataObject, Depthwise, Kernel, Span};
use crate::lowering::lower;
use crate::machine::{Function, MachineError};
use crate::products::Glue;
use crate::select::{Routine, SelectError, select};

/// Packets of 128 positions: padding, sums, rounding, order.
const POSITIONS: u64 = 30;
/// Packets of a channel: its kernel, or its lanes.
const CHANNEL: u64 = 40;
/// Packets of a call with its phases.
const CALL: u64 = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pass {
    Forward { bits: u8, low: i8 },
    Error { bits: u8, low: i8 },
    Weight { op: QuantizeGradient, sums: TensorType },
}

/// A depthwise convolution or one of its gradients, with its finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DepthwiseProduct {
    depthwise: Depthwise,
    pass: Pass,
}

/// The convolution of these shapes, if it is one of each channel by itself.
fn depthwise(
    [x, w, y]: [&Shape; 3],
    strides: [usize; 2],
    pads: [usize; 4],
    dilations: [usize; 2],
    groups: usize,
) -> Option<Depthwise> {
    if [x, w, y].iter().any(|shape| shape.rank() != 4) || groups != x[1] || y[1] != x[1] {
        return None;
    }
    let [vertical, horizontal] = std::array::from_fn(|i| Span {
        input: x[2 + i],
        output: y[2 + i],
        kernel: w[2 + i],
        stride: strides[i],
        dilation: dilations[i],
        before: pads[i],
    });
    Some(Depthwise { images: x[0], channels: x[1], vertical, horizontal })
}

impl DepthwiseProduct {
    /// The product that an operation is; `None` if its loops serve.
    pub(crate) fn of(
        op: &Op,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
    ) -> Option<DepthwiseProduct> {
        let Op::Chain(chain) = op else { return None };
        let [product, finish] = &chain.ops[..] else { return None };
        let (&[a, b, ..], &[result]) = (inputs, outputs) else { return None };
        let shared = |ty: &TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
        if ![a, b, result].into_iter().all(shared) {
            return None;
        }
        let (depthwise, gradient) = match product {
            Op::Conv2d(Conv2d { strides, pads, dilations, groups }) => {
                let shapes = [&a.shape, &b.shape, &result.shape];
                (depthwise(shapes, *strides, *pads, *dilations, *groups)?, false)
            }
            Op::Conv2dGradientInput(op) => {
                let Conv2dGradientInput { strides, pads, dilations, groups, .. } = op;
                let shapes = [&result.shape, &b.shape, &a.shape];
                (depthwise(shapes, *strides, *pads, *dilations, *groups)?, false)
            }
            Op::Conv2dGradientWeight(op) => {
                let Conv2dGradientWeight { strides, pads, dilations, groups, .. } = op;
                let shapes = [&a.shape, &result.shape, &b.shape];
                (depthwise(shapes, *strides, *pads, *dilations, *groups)?, true)
            }
            _ => return None,
        };
        let pass = match finish {
            Op::Requantize(op)
                if !gradient && op.rounding == Rounding::HalfAway && inputs.len() == 2 =>
            {
                let (bits, low) = (op.bits, op.low);
                match product {
                    Op::Conv2d(_) => Pass::Forward { bits, low },
                    _ => Pass::Error { bits, low },
                }
            }
            Op::QuantizeGradient(op) if gradient && inputs.len() == 3 => {
                let sums = product.infer(&[a, b]).ok()?.pop()?;
                Pass::Weight { op: op.clone(), sums }
            }
            _ => return None,
        };
        let supported = match pass {
            Pass::Forward { .. } => depthwise.is_supported(),
            Pass::Error { .. } => depthwise.is_error_supported(),
            Pass::Weight { .. } => depthwise.is_gradient_supported(),
        };
        supported.then_some(DepthwiseProduct { depthwise, pass })
    }

    fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        match self.pass {
            Pass::Forward { bits, low } => self.depthwise.convolution(name, bits, low),
            Pass::Error { bits, low } => self.depthwise.error_gradient(name, bits, low),
            Pass::Weight { .. } => self.depthwise.weight_gradient(name),
        }
    }

    /// Bytes of sums, before the kernel's own working memory.
    fn sum_bytes(&self) -> usize {
        match self.pass {
            Pass::Weight { .. } => self.depthwise.gradient_sum_bytes().next_multiple_of(128),
            _ => 0,
        }
    }

    /// Working memory.
    pub(crate) fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.sum_bytes() + self.kernel("kernel")?.scratch_bytes)
    }

    /// An estimate of its packets.
    pub(crate) fn packets(&self) -> u64 {
        let vectors = self.depthwise.vectors(matches!(self.pass, Pass::Error { .. })) as u64;
        vectors * POSITIONS + self.depthwise.channels as u64 * CHANNEL + CALL
    }

    /// Everything for the kernel of that name, and the routines that it calls; `head` is its C function's `static void
    /// name(...)`.
    pub(crate) fn glue(
        &self,
        name: &str,
        head: &str,
    ) -> Result<(Glue, BTreeSet<Routine>), SelectError> {
        let own = format!("{name}_depthwise");
        let kernel = self.kernel(&own)?;
        let mut functions: Vec<Function> = kernel.functions().cloned().collect();
        functions.push(kernel.entry()?);
        let mut routines = BTreeSet::new();
        let mut source = String::new();
        match &self.pass {
            Pass::Forward { .. } | Pass::Error { .. } => {
                let _ = write!(
                    source,
                    "int32_t {own}(const int8_t *x, const int8_t *weights, int8_t *y, uint8_t *scratch);\n\n\
                     {head}\n{{\n    const int32_t shift = {own}(x0, x1, y0, scratch);\n    \
                     y0_exponent[0] = trainc_add32(trainc_add32(x0_exponent[0], x1_exponent[0]), shift);\n}}\n"
                );
            }
            Pass::Weight { op, sums } => {
                let bits = TensorType::new([], Element::I32);
                let operands = [sums, &bits];
                let results =
                    op.infer(&operands).map_err(|e| SelectError::Kernel(e.to_string()))?;
                let results: Vec<&TensorType> = results.iter().collect();
                let loops = lower(&op.clone().into(), &operands, &results);
                let finish = format!("{name}_quantize");
                let selected = select(&finish, "Quantises the sums.", &loops)?;
                functions.push(selected.function);
                routines = selected.routines;
                let (parameters, arguments) = finish_call(&loops)?;
                let bytes = self.sum_bytes();
                let _ = write!(
                    source,
                    "void {own}(const int8_t *x, const int8_t *dy, int32_t *sums, uint8_t *scratch);\n\
                     void {finish}({parameters});\n\n\
                     {head}\n{{\n    int32_t *const sums = (int32_t *)(void *)scratch;\n    \
                     const int32_t exponent = trainc_add32(x0_exponent[0], x1_exponent[0]);\n    \
                     {own}(x0, x1, sums, scratch + {bytes});\n    {finish}({arguments});\n}}\n"
                );
            }
        }
        let tables = kernel.data.iter().map(DataObject::assembly).collect();
        Ok((Glue { functions, tables, source }, routines))
    }
}

/// Parameters and arguments of the finish of a weight gradient.
fn finish_call(loops: &LoopKernel) -> Result<(String, String), SelectError> {
    let parts = loops.buffers.iter().map(|buffer| match buffer.role {
        Role::Input(0) => Ok(("const int32_t *sums", "sums")),
        Role::InputScale(0) => Ok(("const int32_t *exponent", "&exponent")),
        Role::Input(1) => Ok(("const int32_t *bits", "x2")),
        Role::Output(0) => Ok(("int8_t *dw", "y0")),
        Role::OutputScale(0) => Ok(("int32_t *dw_exponent", "y0_exponent")),
        _ => Err(SelectError::Kernel(format!("{} is no buffer of a finish", buffer.name))),
    });
    let parts: Vec<(&str, &str)> = parts.collect::<Result<_, _>>()?;
    let list = |k: fn(&(&'static str, &'static str)) -> &'static str| {
        parts.iter().map(k).collect::<Vec<_>>().join(", ")
    };
    Ok((list(|p| p.0), list(|p| p.1)))
}
