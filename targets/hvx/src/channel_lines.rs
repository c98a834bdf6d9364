//! Batch normalization by integers and its error, sums or bytes: loops make each channel's coefficients, a kernel does the rest.

use std::fmt::Write as _;

use trainc_ir::implementation::{Memory, Signature};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Operator, Requantize, RequantizeStochastic};
use trainc_ir::{Op, TensorType};

use crate::glue::{Glue, Printed, parameters};
use crate::kernels::{ChannelLineSums, ChannelLines, DataObject, DitheredLines, Kernel};
use crate::line_coefficients::{CALL, Coefficients, ERROR, NORM};
use crate::machine::{Function, MachineError};
use crate::parts;
use crate::select::{SelectError, select};

/// What becomes of codes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Bytes(ChannelLines),
    Dithered(DitheredLines),
    Sums(ChannelLineSums),
}

/// A normalization or its error, alone or with the rounding of its sums to bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinesOfChannels {
    work: Work,
    coefficients: Coefficients,
}

impl LinesOfChannels {
    /// The operation that a kernel is; `None` if it is none.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<LinesOfChannels, String>> {
        let [images, channels, space @ ..] = signature.inputs.first()?.shape.dims() else {
            return None;
        };
        let (images, channels, positions) = (*images, *channels, space.iter().product());
        let sums = |two| Work::Sums(ChannelLineSums { images, channels, positions, two });
        let mut drawn = None;
        let (head, work) = match signature.ops() {
            [head @ Op::IntegerBatchNorm(_)] => (head, sums(false)),
            [head @ Op::IntegerBatchNormError(_)] => (head, sums(true)),
            [head @ Op::IntegerBatchNormError(_), Op::RequantizeStochastic(rounding)] => {
                let RequantizeStochastic { stream } = *rounding;
                drawn = Some(stream);
                (head, Work::Dithered(DitheredLines { images, channels, positions }))
            }
            [head @ Op::IntegerBatchNorm(_), Op::Requantize(rounding)] => {
                let Requantize { bits: 7, rounding: Rounding::HalfAway, low } = *rounding else {
                    return Some(Err("its sums are rounded in a way of their own".into()));
                };
                (head, Work::Bytes(ChannelLines { images, channels, positions, low }))
            }
            _ => return None,
        };
        let supported = match &work {
            Work::Bytes(lines) => lines.is_supported(),
            Work::Dithered(lines) => lines.is_supported(),
            Work::Sums(lines) => lines.is_supported(),
        };
        if !supported {
            return Some(Err("its planes are no whole parts of vectors".into()));
        }
        let results = match head {
            Op::IntegerBatchNorm(op) => op.infer(signature.inputs),
            Op::IntegerBatchNormError(op) => op.infer(signature.inputs),
            _ => return None,
        };
        let sums: TensorType = results.ok()?.pop()?;
        let coefficients = Coefficients::of(head, signature.inputs, &sums, drawn)?;
        Some(Ok(LinesOfChannels { work, coefficients }))
    }

    fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let factors = &self.coefficients.factors;
        let between = factors.last().map_or(0, |last| last - factors[0]);
        match &self.work {
            Work::Bytes(lines) => lines.rounded(name),
            Work::Dithered(lines) => lines.kernel(name, between),
            Work::Sums(lines) => lines.kernel(name, between),
        }
    }
}

impl Glue for LinesOfChannels {
    const NAME: &str = "channel lines";

    fn packets(&self) -> u64 {
        let (packets, channels, each) = match &self.work {
            Work::Bytes(lines) => (lines.packets(), lines.channels, NORM),
            Work::Dithered(lines) => (lines.packets(), lines.channels, ERROR),
            Work::Sums(lines) => {
                (lines.packets(), lines.channels, if lines.two { ERROR } else { NORM })
            }
        };
        packets as u64 + channels as u64 * each + CALL
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.kernel("kernel")?.scratch_bytes + self.coefficients.scratch_bytes())
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let [own, make] = ["lines", "coefficients"].map(|part| format!("{name}_{part}"));
        let Coefficients { loops, factors, offsets, key } = &self.coefficients;
        let selected = select(&make, "Coefficients of channels.", loops, Memory::Caller)?;
        let kernel = self.kernel(&own)?;
        let (entry, divided) = parts::entry(&kernel, self.packets())?;
        let mut functions: Vec<Function> = kernel.functions().cloned().collect();
        functions.extend([entry, selected.function]);
        let taken = parameters(&loops.buffers, true);
        let list: Vec<String> = taken.iter().map(|(ty, name)| format!("{ty}{name}")).collect();
        let at = kernel.scratch_bytes;
        let given: Vec<String> = taken
            .iter()
            .map(|(ty, name)| match name.as_str() {
                // Not written.
                "y0" => format!("({ty})(void *)y0"),
                "scratch" => format!("scratch + {at}"),
                _ => name.clone(),
            })
            .collect();
        let place =
            |place: usize| format!("(const int32_t *)(const void *)(scratch + {})", at + place);
        let words = format!("{},\n        {}", place(factors[0]), place(*offsets));
        let mut source = divided;
        let _ = writeln!(source, "void {make}({});", list.join(", "));
        let taken = "const int32_t *factors, const int32_t *offsets";
        let given = given.join(", ");
        let _ = match &self.work {
            Work::Bytes(_) => write!(
                source,
                "int32_t {own}(const int8_t *codes, {taken},\n    int8_t *bytes, uint8_t *scratch);\n\n\
                 {head}\n{{\n    {make}({given});\n    \
                 const int32_t shift = {own}(x0,\n        {words}, y0, scratch);\n    \
                 y0_exponent[0] = trainc_add32(y0_exponent[0], shift);\n}}\n",
            ),
            Work::Dithered(_) => write!(
                source,
                "int32_t {own}(const int8_t *codes, const int8_t *others,\n    {taken},\n    \
                 const int32_t *key, int8_t *bytes, uint8_t *scratch);\n\n\
                 {head}\n{{\n    {make}({given});\n    \
                 const int32_t shift = {own}(x1, x0,\n        {words},\n        {}, y0, scratch);\n    \
                 y0_exponent[0] = trainc_add32(y0_exponent[0], shift);\n}}\n",
                place(key.unwrap_or(0)),
            ),
            Work::Sums(lines) => {
                let codes = if lines.two { "x1, x0" } else { "x0, x0" };
                write!(
                    source,
                    "void {own}(const int8_t *codes, const int8_t *others,\n    {taken},\n    \
                     int32_t *sums, uint8_t *scratch);\n\n\
                     {head}\n{{\n    {make}({given});\n    \
                     {own}({codes},\n        {words}, y0, scratch);\n}}\n",
                )
            }
        };
        let tables = kernel.data.iter().map(DataObject::assembly).collect();
        Ok(Printed { functions, tables, source, routines: selected.routines })
    }
}
