//! What turns a product's 32-bit sums into its result.

use trainc_ir::numeric::Rounding;
use trainc_ir::{Element, Op, Scale, TensorType};

use super::text::Text;

/// The operation on the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finish {
    /// The sums are the result.
    None,
    /// To the sums' own width.
    Requantize { bits: u8, rounding: Rounding, low: i8 },
    /// To a width given at run time.
    Gradient { rounding: Rounding },
    /// By a constant.
    Shift { amount: u8, rounding: Rounding },
}

impl Finish {
    /// The finish that an operation on sums of that type is.
    pub(crate) fn of(op: &Op, sums: &TensorType) -> Option<Finish> {
        let finish = match op {
            Op::Requantize(op) => {
                Finish::Requantize { bits: op.bits, rounding: op.rounding, low: op.low }
            }
            Op::QuantizeGradient(op) => Finish::Gradient { rounding: op.rounding },
            Op::ShiftRight(op) if op.element == Element::I8 && sums.scale == Scale::Exponent => {
                Finish::Shift { amount: op.amount, rounding: op.rounding }
            }
            _ => return None,
        };
        finish.suffix()?;
        Some(finish)
    }

    /// Operands besides the sums.
    pub(crate) fn operands(self) -> usize {
        usize::from(matches!(self, Finish::Gradient { .. }))
    }

    /// Suffix of the storing functions; `None` if they lack the rounding.
    pub(crate) fn suffix(self) -> Option<&'static str> {
        let rounding = match self {
            Finish::None => return Some("sums"),
            Finish::Requantize { rounding, .. }
            | Finish::Gradient { rounding }
            | Finish::Shift { rounding, .. } => rounding,
        };
        match rounding {
            Rounding::HalfAway => Some("half_away"),
            Rounding::PseudoStochastic => Some("pseudo_stochastic"),
            Rounding::Truncate | Rounding::Floor => None,
        }
    }

    /// Whether it asks for the sums' largest magnitude.
    pub(crate) fn asks_magnitude(self) -> bool {
        matches!(self, Finish::Requantize { .. } | Finish::Gradient { .. })
    }

    /// Sets the result's exponent and, if there is a shift, the rounding of `results`. `bits` holds the sums' magnitudes.
    pub(crate) fn emit(self, out: &mut Text) {
        let exponent = "trainc_add32(x0_exponent[0], x1_exponent[0])";
        let width = "32 - trainc_leading_zeros((int32_t)bits)";
        let (shift, low) = match self {
            Finish::None => {
                out.line(format!("y0_exponent[0] = {exponent};"));
                return;
            }
            Finish::Requantize { bits, low, .. } => {
                out.line(format!("const int32_t width = {width};"));
                out.line(format!("const int32_t shift = trainc_maximum32(width - {bits}, 0);"));
                ("shift".to_string(), low)
            }
            Finish::Gradient { .. } => {
                out.line(format!("const int64_t width = {width};"));
                out.line("const int64_t shift = trainc_maximum64(width - x2[0], 0);");
                ("(int32_t)shift".into(), -127)
            }
            Finish::Shift { amount, .. } => {
                out.line(format!("const int32_t shift = {amount};"));
                ("shift".into(), -127)
            }
        };
        out.line(format!("y0_exponent[0] = trainc_add32({exponent}, {shift});"));
        out.line(format!("results.rounding = trainc_xpulp_rounding(shift, {low});"));
    }
}
