//! Which kernels of a program are pools that [`kernels`](crate::kernels) has, and their glue: a C function that calls
//! the assembly and sets the exponent.

use std::collections::BTreeSet;

use trainc_ir::implementation::Signature;
use trainc_ir::ops::{AvgPool2d, AvgPool2dGradient, MaxPool2d, MaxPool2dGradient};
use trainc_ir::{Element, Op, OpKind, Scale, TensorType};

use crate::glue::{Glue, Printed};
use crate::kernels::{GlobalAverage, PairPool, Pool};
use crate::machine::{Function, MachineError};
use crate::select::SelectError;

/// Packets of a vector, forward.
const FORWARD: u64 = 6;
/// Packets of a vector's gradient.
const GRADIENT: u64 = 16;
/// Packets of a vector of a plane's average.
const PLANE: u64 = 5;
/// Packets of a vector of maxima of pairs, forward or backward.
const PAIRS: u64 = 5;
/// Packets of a call with its masked stores.
const CALL: u64 = 60;

/// What becomes of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Maximum,
    /// Of four elements: their sum, the exponent two lower.
    Average,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// 2x2 at stride 2.
    Windows(Pool, Kind),
    /// Maxima of neighbours in rows, two by two.
    Pairs(PairPool),
    /// Averages of whole planes.
    Planes(GlobalAverage),
}

/// A pool or its gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pooling {
    extent: Extent,
    gradient: bool,
}

/// Whether windows are 2x2 at stride 2, without padding or a part of a window behind the last.
fn is_halving(kernel: &[usize; 2], strides: &[usize; 2], pads: &[usize; 4], ceil: bool) -> bool {
    (kernel, strides, pads, ceil) == (&[2, 2], &[2, 2], &[0; 4], false)
}

impl Pooling {
    /// The pool that a kernel is; `None` if it is none.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Pooling, String>> {
        let Signature { op, inputs, outputs, .. } = *signature;
        use OpKind as K;
        let pools = [K::MaxPool2d, K::AvgPool2d, K::MaxPool2dGradient, K::AvgPool2dGradient];
        if !pools.contains(&op.kind()) {
            return None;
        }
        let shared = |ty: &&TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
        if !inputs.iter().all(shared) {
            return Some(Err("its operands are no bytes with exponents".into()));
        }
        let pooling = Pooling::new(op, inputs, outputs);
        Some(pooling.ok_or_else(|| {
            "its windows are neither 2x2 at stride 2 within rows of at most a vector, nor maxima of pairs of rows of an even length, nor \
             whole planes"
                .into()
        }))
    }

    fn new(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<Pooling> {
        // The larger of operand and result.
        let (gradient, planes) = match op {
            Op::MaxPool2d(_) | Op::AvgPool2d(_) => (false, inputs.first()?),
            Op::MaxPool2dGradient(_) => (true, inputs.first()?),
            Op::AvgPool2dGradient(_) => (true, outputs.first()?),
            _ => return None,
        };
        let &[images, channels, height, width] = &planes.shape[..] else { return None };
        let pool = Pool { planes: images * channels, height, width };
        let windows = |kind| pool.is_supported().then_some(Extent::Windows(pool, kind));
        let extent = match op {
            Op::MaxPool2d(MaxPool2d { kernel, strides, pads, dilations, ceil })
            | Op::MaxPool2dGradient(MaxPool2dGradient { kernel, strides, pads, dilations, ceil })
                if is_halving(kernel, strides, pads, *ceil) && dilations == &[1, 1] =>
            {
                windows(Kind::Maximum)?
            }
            Op::MaxPool2d(MaxPool2d { kernel, strides, pads, dilations, .. })
            | Op::MaxPool2dGradient(MaxPool2dGradient {
                kernel, strides, pads, dilations, ..
            }) if (kernel, strides, pads, dilations) == (&[1, 2], &[1, 2], &[0; 4], &[1, 1])
                && width.is_multiple_of(2) =>
            {
                let pairs = PairPool { pairs: pool.planes * height * width / 2 };
                pairs.is_supported().then_some(Extent::Pairs(pairs))?
            }
            Op::AvgPool2d(AvgPool2d { kernel, strides, pads, ceil, .. })
            | Op::AvgPool2dGradient(AvgPool2dGradient { kernel, strides, pads, ceil, .. }) => {
                if *pads == [0; 4] && *kernel == [height, width] {
                    let average = GlobalAverage { planes: pool.planes, size: height * width };
                    average.is_supported().then_some(Extent::Planes(average))?
                } else if is_halving(kernel, strides, pads, *ceil) {
                    windows(Kind::Average)?
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        Some(Pooling { extent, gradient })
    }

    /// The assembly of that name, and its tables.
    fn function(&self, name: &str) -> Result<(Function, String), MachineError> {
        let made = match (&self.extent, self.gradient) {
            (Extent::Windows(pool, Kind::Maximum), false) => pool.forward(name)?,
            (Extent::Windows(pool, Kind::Maximum), true) => pool.gradient(name)?,
            (Extent::Windows(pool, Kind::Average), false) => pool.sums(name)?,
            (Extent::Windows(pool, Kind::Average), true) => pool.average_gradient(name)?,
            (Extent::Pairs(pairs), gradient) => {
                let function =
                    if gradient { pairs.gradient(name)? } else { pairs.forward(name)? };
                return Ok((function, String::new()));
            }
            (Extent::Planes(average), false) => average.forward(name)?,
            (Extent::Planes(average), true) => {
                return Ok((average.gradient(name)?, String::new()));
            }
        };
        Ok((made.0, made.1.assembly()))
    }

    fn working_bytes(&self) -> usize {
        match &self.extent {
            Extent::Planes(average) if self.gradient => average.scratch_bytes(),
            _ => 0,
        }
    }
}

impl Glue for Pooling {
    const NAME: &str = "pools";

    fn packets(&self) -> u64 {
        let each = if self.gradient { GRADIENT } else { FORWARD };
        CALL + match &self.extent {
            Extent::Windows(pool, _) => pool.vectors(self.gradient) as u64 * each,
            Extent::Pairs(pairs) => pairs.vectors() as u64 * PAIRS,
            Extent::Planes(average) => average.vectors() as u64 * PLANE,
        }
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.working_bytes())
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let own = format!("{name}_pool");
        let (function, tables) = self.function(&own)?;
        let is_maximum =
            matches!(self.extent, Extent::Windows(_, Kind::Maximum) | Extent::Pairs(_));
        let (mut parameters, mut call, from) = match (is_maximum, self.gradient) {
            (true, false) => ("const int8_t *x, int8_t *y".to_string(), "x0, y0", "x0"),
            (true, true) => {
                ("const int8_t *x, const int8_t *dy, int8_t *dx".into(), "x0, x1, y0", "x1")
            }
            (false, false) => ("const int8_t *x, int32_t *y".into(), "x0, y0", "x0"),
            (false, true) => ("const int8_t *dy, int8_t *dx".into(), "x0, y0", "x0"),
        };
        if self.working_bytes() > 0 {
            parameters.push_str(", uint8_t *scratch");
            call = "x0, y0, scratch";
        }
        let lower = match &self.extent {
            Extent::Windows(_, Kind::Maximum) | Extent::Pairs(_) => 0,
            Extent::Windows(_, Kind::Average) => 2,
            Extent::Planes(average) => average.exponent(),
        };
        let exponent = match lower {
            0 => format!("{from}_exponent[0]"),
            n => format!("trainc_add32({from}_exponent[0], -{n})"),
        };
        let source = format!(
            "void {own}({parameters});\n\n{head}\n{{\n    {own}({call});\n    \
             y0_exponent[0] = {exponent};\n}}\n"
        );
        Ok(Printed { functions: vec![function], tables, source, routines: BTreeSet::new() })
    }
}
