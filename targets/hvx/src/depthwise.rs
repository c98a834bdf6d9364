//! Which kernels of a program are convolutions of each channel by itself that [`kernels`](crate::kernels) has, and their
//! glue: a C function that calls the assembly and sets the exponent.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use trainc_ir::implementation::{Memory, Signature};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Operator, QuantizeGradient};
use trainc_ir::product::{self, Convolution, Narrowing, Numbers, Product};
use trainc_ir::{Element, Op, TensorType};

use crate::glue::{Glue, Printed};
use crate::kernels::Span;
use crate::kernels::{DataObject, Depthwise, Kernel};
use crate::lowering::lower;
use crate::machine::{Function, MachineError};
use crate::select::{SelectError, select};

/// Sums of a vector, and packets of its rounding in a weight gradient.
const LANES: usize = 32;
const FINISH: usize = 7;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pass {
    Forward {
        bits: u8,
        low: i8,
    },
    Error {
        bits: u8,
        low: i8,
    },
    Weight {
        op: QuantizeGradient,
        sums: TensorType,
    },
    /// Sums that are not rounded.
    Sums(product::Pass),
}

/// A depthwise convolution or one of its gradients, with its finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DepthwiseProduct {
    depthwise: Depthwise,
    pass: Pass,
}

impl DepthwiseProduct {
    /// The depthwise convolution with its finish that a kernel is; `None` if it is none.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<DepthwiseProduct, String>> {
        let product = Product::of(signature.ops(), signature.inputs, |_| true)?;
        let c = match product.as_ref().map(Product::convolution) {
            Ok(Ok(convolution)) if convolution.is_depthwise() => convolution,
            _ => return None,
        };
        let product = product.and_then(|product| match product.numbers {
            Numbers::Unsigned if product.finish.is_none() => Ok(product),
            _ => product.of_bytes(),
        });
        Some(product.and_then(|product| DepthwiseProduct::new(signature, &product, &c)))
    }

    fn new(
        signature: &Signature<'_>,
        product: &Product,
        c: &Convolution,
    ) -> Result<DepthwiseProduct, String> {
        if c.outputs != 1 {
            return Err("channels have several filters each".into());
        }
        if product.ops < signature.ops().len() {
            return Err("more than the rounding of its sums follows".into());
        }
        let [vertical, horizontal] = Span::of(c);
        let (images, channels) = (c.images, c.groups);
        let unsigned = product.numbers == Numbers::Unsigned;
        let depthwise = Depthwise { images, channels, vertical, horizontal, unsigned };
        let pass = match (product.narrowing(), c.pass, signature.ops().get(1)) {
            (None, ..) if c.swapped => return Err("its operands stand in the other order".into()),
            (None, pass, _) => Pass::Sums(pass),
            (Some(Narrowing::Requantize { bits, rounding: Rounding::HalfAway, low }), pass, _)
                if pass != product::Pass::Gradient =>
            {
                match pass {
                    product::Pass::Forward => Pass::Forward { bits, low },
                    _ => Pass::Error { bits, low },
                }
            }
            (
                Some(Narrowing::Gradient { .. }),
                product::Pass::Gradient,
                Some(Op::QuantizeGradient(op)),
            ) => Pass::Weight { op: op.clone(), sums: product.sums.clone() },
            _ => return Err("its sums are rounded in a way of their own".into()),
        };
        let supported = match pass {
            Pass::Forward { .. } => depthwise.is_supported(),
            Pass::Error { .. } => depthwise.is_error_supported(),
            Pass::Weight { .. } => depthwise.is_gradient_supported(),
            Pass::Sums(product::Pass::Forward) => depthwise.are_sums_supported(),
            Pass::Sums(product::Pass::Error) => depthwise.are_error_sums_supported(),
            Pass::Sums(product::Pass::Gradient) => depthwise.is_gradient_supported(),
        };
        supported
            .then_some(DepthwiseProduct { depthwise, pass })
            .ok_or_else(|| "its windows or planes are too large for a vector".into())
    }

    fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        match self.pass {
            Pass::Forward { bits, low } => self.depthwise.convolution(name, bits, low),
            Pass::Error { bits, low } => self.depthwise.error_gradient(name, bits, low),
            Pass::Weight { .. } => self.depthwise.weight_gradient(name),
            Pass::Sums(product::Pass::Forward) => self.depthwise.convolution_sums(name),
            Pass::Sums(product::Pass::Error) => self.depthwise.error_sums(name),
            Pass::Sums(product::Pass::Gradient) => self.depthwise.weight_sums(name),
        }
    }

    /// Bytes of sums, before the kernel's own working memory.
    fn sum_bytes(&self) -> usize {
        match self.pass {
            Pass::Weight { .. } => self.depthwise.gradient_sum_bytes().next_multiple_of(128),
            _ => 0,
        }
    }
}

impl Glue for DepthwiseProduct {
    const NAME: &str = "depthwise planes";

    fn packets(&self) -> u64 {
        let packets = match self.pass {
            Pass::Forward { .. } => self.depthwise.packets(),
            Pass::Error { .. } => self.depthwise.error_packets(),
            Pass::Weight { .. } => {
                let sums = self.depthwise.channels * self.depthwise.taps();
                self.depthwise.gradient_packets() + sums.div_ceil(LANES) * FINISH
            }
            Pass::Sums(product::Pass::Forward) => self.depthwise.sum_packets(),
            Pass::Sums(product::Pass::Error) => self.depthwise.error_sum_packets(),
            Pass::Sums(product::Pass::Gradient) => self.depthwise.weight_sum_packets(),
        };
        packets as u64
    }

    fn aligned_elements(&self) -> &'static [Element] {
        match self.pass {
            Pass::Sums(_) => &[Element::I8, Element::U8, Element::I32],
            _ => &[Element::I8],
        }
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.sum_bytes() + self.kernel("kernel")?.scratch_bytes)
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
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
            Pass::Sums(_) => {
                let element = if self.depthwise.unsigned { "uint8_t" } else { "int8_t" };
                let _ = write!(
                    source,
                    "void {own}(const {element} *x, const int8_t *w, int32_t *y, uint8_t *scratch);\n\n\
                     {head}\n{{\n    {own}(x0, x1, y0, scratch);\n    \
                     y0_exponent[0] = trainc_add32(x0_exponent[0], x1_exponent[0]);\n}}\n"
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
                let selected = select(&finish, "Quantises the sums.", &loops, Memory::Caller)?;
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
        Ok(Printed { functions, tables, source, routines })
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
