//! Activations that are made of others.

use trainc_ir::ValueId;
use trainc_ir::ops::{
    Abs, Add, Compare, Comparison, Div, Exp, Log, Mul, Neg, Relu, Select, Sub, Tanh,
};

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid};
use crate::ops::movement::one;

impl Call<'_, '_> {
    /// 1 where `x > bound`, else 0.
    fn above(&mut self, x: ValueId, bound: f32) -> NodeResult<ValueId> {
        let bound = self.scalar(bound);
        self.add(Compare { comparison: Comparison::Less }, &[bound, x], "above")
    }

    /// `log(1 + e^x)` as `log(e^(x - m) + e^-m) + m` for `m = max(x, 0)`: it does not overflow, and is smooth at 0.
    pub(super) fn softplus(&mut self, x: ValueId, suffix: &str) -> NodeResult<ValueId> {
        let most = self.add(Relu {}, &[x], "most")?;
        let less = self.add(Sub {}, &[x, most], "less")?;
        let power = self.add(Exp {}, &[less], "power")?;
        let below = self.add(Neg {}, &[most], "negative")?;
        let unit = self.add(Exp {}, &[below], "unit")?;
        let sum = self.add(Add {}, &[power, unit], "sum")?;
        let logarithm = self.add(Log {}, &[sum], "logarithm")?;
        self.add(Add {}, &[logarithm, most], suffix)
    }

    /// `x / (1 + |x|)`.
    pub(super) fn softsign(&mut self, x: ValueId, suffix: &str) -> NodeResult<ValueId> {
        let one = self.scalar(1.0);
        let size = self.add(Abs {}, &[x], "size")?;
        let raised = self.add(Add {}, &[size, one], "raised")?;
        self.add(Div {}, &[x, raised], suffix)
    }

    /// `x` where positive, else `alpha * (e^(x / scale) - 1)`.
    pub(super) fn elu(
        &mut self,
        x: ValueId,
        alpha: f32,
        scale: f32,
        suffix: &str,
    ) -> NodeResult<ValueId> {
        let (zero, one) = (self.scalar(0.0), self.scalar(1.0));
        let above = self.above(x, 0.0)?;
        // Where `x` is chosen nothing may overflow, nor give a gradient.
        let mut below = self.add(Select {}, &[above, zero, x], "below")?;
        if scale != 1.0 {
            let scale = self.scalar(scale);
            below = self.add(Div {}, &[below, scale], "scaled")?;
        }
        let power = self.add(Exp {}, &[below], "power")?;
        let mut curve = self.add(Sub {}, &[power, one], "curve")?;
        if alpha != 1.0 {
            let alpha = self.scalar(alpha);
            curve = self.add(Mul {}, &[curve, alpha], "curve")?;
        }
        self.add(Select {}, &[above, x, curve], suffix)
    }
}

/// Celu, Elu, Selu, Mish, Softplus, Softsign, ThresholdedRelu.
pub(crate) fn activation(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.f32(0)?;
    one(match call.node.op_type.as_str() {
        "Softplus" => call.softplus(x, "")?,
        "Softsign" => call.softsign(x, "")?,
        "Mish" => {
            let soft = call.softplus(x, "softplus")?;
            let gate = call.add(Tanh {}, &[soft], "gate")?;
            call.add(Mul {}, &[x, gate], "")?
        }
        "Elu" => {
            let alpha = call.float("alpha", 1.0)?;
            call.elu(x, alpha, 1.0, "")?
        }
        "Celu" => {
            let alpha = call.float("alpha", 1.0)?;
            if alpha == 0.0 {
                return Err(invalid!("attribute `alpha` is 0"));
            }
            call.elu(x, alpha, alpha, "")?
        }
        "Selu" => {
            let alpha = call.float("alpha", 1.673_263_2)?;
            let gamma = call.float("gamma", 1.050_701)?;
            let y = call.elu(x, alpha, 1.0, "elu")?;
            let gamma = call.scalar(gamma);
            call.add(Mul {}, &[y, gamma], "")?
        }
        "ThresholdedRelu" => {
            let alpha = call.float("alpha", 1.0)?;
            let above = call.above(x, alpha)?;
            let zero = call.scalar(0.0);
            call.add(Select {}, &[above, x, zero], "")?
        }
        other => return Err(invalid!("internal: {other} is no activation")),
    })
}

/// `max(x, 0) + slope * min(x, 0)`; at 0 the slope is the derivative.
pub(crate) fn prelu(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (x, slope) = (call.f32(0)?, call.f32(1)?);
    let positive = call.add(Relu {}, &[x], "positive")?;
    let negative = call.add(Sub {}, &[x, positive], "negative")?;
    let scaled = call.add(Mul {}, &[negative, slope], "scaled")?;
    let y = call.add(Add {}, &[positive, scaled], "")?;
    if call.shape(y) != call.shape(x) {
        return Err(invalid!("slopes of shape {:?} for {:?}", call.shape(slope), call.shape(x)));
    }
    one(y)
}
