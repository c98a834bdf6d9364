//! Elementwise operators: arithmetic, activations, comparisons of known values.

use trainc_ir::ops::{
    Abs, Add, Ceil, Clip, Div, Erf, Exp, Floor, LeakyRelu, Log, Maximum, Minimum, Mul, Neg, Pow,
    QuantizeLinear, Reciprocal, Relu, Sigmoid, Sign, Sqrt, Sub, Tanh,
};
use trainc_ir::{Op, ValueId};

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::Known;
use crate::ops::movement::one;
use crate::shapes::{fold_binary, fold_two, fold_unary};

/// Operators of one FP32 operand that the graph has too.
pub(crate) fn unary(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let name = call.node.op_type.as_str();
    if let Some(folded) = fold_unary(call, name)? {
        return one(folded);
    }
    let op: Op = match name {
        "Abs" => Abs {}.into(),
        "Ceil" => Ceil {}.into(),
        "Erf" => Erf {}.into(),
        "Exp" => Exp {}.into(),
        "Floor" => Floor {}.into(),
        "Log" => Log {}.into(),
        "Neg" => Neg {}.into(),
        "Reciprocal" => Reciprocal {}.into(),
        "Relu" => Relu {}.into(),
        "Sigmoid" => Sigmoid {}.into(),
        "Sign" => Sign {}.into(),
        "Sqrt" => Sqrt {}.into(),
        "Tanh" => Tanh {}.into(),
        other => return Err(invalid!("internal: {other} is not an operator of one operand")),
    };
    let x = call.f32(0)?;
    one(call.add(op, &[x], "")?)
}

/// Operators of two FP32 operands, or of any number of them, with broadcasting.
pub(crate) fn binary(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let name = call.node.op_type.as_str();
    if let Some(folded) = fold_binary(call, name)? {
        return one(folded);
    }
    let (op, many): (Op, bool) = match name {
        "Add" => (Add {}.into(), false),
        "Sub" => (Sub {}.into(), false),
        "Mul" => (Mul {}.into(), false),
        "Div" => (Div {}.into(), false),
        "Pow" => (Pow {}.into(), false),
        "Sum" | "Mean" => (Add {}.into(), true),
        "Max" => (Maximum {}.into(), true),
        "Min" => (Minimum {}.into(), true),
        other => return Err(invalid!("internal: {other} is not an operator of two operands")),
    };
    let operands = call.operands();
    if if many { operands == 0 } else { operands != 2 } {
        return Err(invalid!("{operands} operand(s)"));
    }
    let mut result = call.f32(0)?;
    for i in 1..operands {
        // The exponent of Pow may be of another type than the base.
        let next = if name == "Pow" { call.as_f32(i)? } else { call.f32(i)? };
        let last = i + 1 == operands && name != "Mean";
        let suffix = if last { String::new() } else { format!("partial{i}") };
        result = call.add(op.clone(), &[result, next], &suffix)?;
    }
    if name == "Mean" && operands > 1 {
        let count = call.scalar(operands as f32);
        result = call.add(Div {}, &[result, count], "")?;
    }
    one(result)
}

/// Operators that exist only on values known while importing.
pub(crate) fn known_only(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let name = call.node.op_type.as_str();
    if name == "Mod" && call.flag("fmod", false)? {
        return Err(unsupported("attribute `fmod`", "is 1", "0"));
    }
    let folded = match call.operands() {
        0 => return Err(invalid!("no operands")),
        1 => fold_unary(call, name)?,
        _ => fold_binary(call, name)?,
    };
    folded.map(|bound| vec![bound]).ok_or_else(|| {
        unsupported(
            "operands",
            "computed at run time, or of an element type it does not fold",
            "integers and floats known while importing",
        )
    })
}

pub(crate) fn leaky_relu(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let alpha = call.float("alpha", 0.01)?.into();
    let x = call.f32(0)?;
    one(call.add(LeakyRelu { alpha }, &[x], "")?)
}

pub(crate) fn clip(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (low, high) = if call.opset() < 11 {
        let (low, high) = (call.float("min", f32::MIN)?, call.float("max", f32::MAX)?);
        let scalar = |v| Bound::from(Known::f32(Vec::new(), vec![v]));
        (Some(scalar(low)), Some(scalar(high)))
    } else {
        let low = if call.given(1) { Some(call.bound(1)?) } else { None };
        let high = if call.given(2) { Some(call.bound(2)?) } else { None };
        (low, high)
    };
    for bound in [&low, &high].into_iter().flatten() {
        let dims = call.dims_of(bound)?;
        if dims.iter().any(|&d| d != 1) {
            return Err(invalid!("a bound of shape {dims:?}, not a scalar"));
        }
    }
    let x = call.bound(0)?;
    if let Bound::Known(known) = &x
        && let Some(folded) = clip_known(call, known, &low, &high)?
    {
        return one(folded);
    }
    let value = call.value(0)?;
    if !call.builder.graph.ty(value).is_f32() {
        return one(clip_quantized(call, value, low, high)?);
    }
    let constant = |bound: &Option<Bound>, default: f32| match bound {
        None => Some(default),
        Some(Bound::Known(known)) => known.scalar_f32(),
        _ => None,
    };
    if let (Some(min), Some(max)) =
        (constant(&low, f32::NEG_INFINITY), constant(&high, f32::INFINITY))
    {
        return one(call.add(Clip { min: min.into(), max: max.into() }, &[value], "")?);
    }
    let mut result = value;
    if let Some(low) = low {
        let low = call.lower(&low, "the lower bound")?;
        let suffix = if high.is_some() { "low" } else { "" };
        result = call.add(Maximum {}, &[result, low], suffix)?;
    }
    if let Some(high) = high {
        let high = call.lower(&high, "the upper bound")?;
        result = call.add(Minimum {}, &[result, high], "")?;
    }
    // Bounds are scalars, perhaps with dimensions of 1 that the operand lacks.
    let dims = call.shape(value);
    one(call.reshaped(&result.into(), dims)?)
}

fn clip_known(
    call: &mut Call<'_, '_>,
    x: &Known,
    low: &Option<Bound>,
    high: &Option<Bound>,
) -> NodeResult<Option<Known>> {
    let mut result = x.clone();
    for (op, bound) in [("Max", low), ("Min", high)] {
        match bound {
            None => {}
            Some(Bound::Known(bound)) => match fold_two(call, op, &result, bound)? {
                Some(next) => result = next.reshaped(x.dims.clone()),
                None => return Ok(None),
            },
            Some(_) => return Ok(None),
        }
    }
    Ok(Some(result))
}

/// Bounds on integers that QuantizeLinear gave, as exporters write for fewer bits than eight: the same bounds
/// on the operand of QuantizeLinear, times the scale. Rounding keeps order and maps the bounds to themselves, so
/// the integers are the same.
fn clip_quantized(
    call: &mut Call<'_, '_>,
    value: ValueId,
    low: Option<Bound>,
    high: Option<Bound>,
) -> NodeResult<ValueId> {
    let refuse = || {
        unsupported(
            "operand `input`",
            "integers at run time",
            "FLOAT; integers that QuantizeLinear gave, between known bounds",
        )
    };
    let graph = &call.builder.graph;
    let Some(producer) = graph.producer(value) else { return Err(refuse()) };
    let Op::QuantizeLinear(QuantizeLinear { axis }) = producer.op else { return Err(refuse()) };
    let [x, scale, zero] = producer.inputs[..] else { return Err(refuse()) };
    let Some(zero_point) = graph.constant_of(zero).cloned() else { return Err(refuse()) };
    let zeros = zero_point.to_i64();
    let rank = graph.ty(x).shape.rank();
    let mut result = x;
    for (suffix, bound, op) in
        [("low", low, Op::from(Maximum {})), ("high", high, Op::from(Minimum {}))]
    {
        let Some(bound) = bound else { continue };
        let Bound::Known(known) = &bound else { return Err(refuse()) };
        let Some(&[limit]) = known.ints() else { return Err(refuse()) };
        let steps: Vec<f32> = zeros.iter().map(|&z| limit.saturating_sub(z) as f32).collect();
        let mut shape = vec![1; rank];
        if zeros.len() > 1 && axis < rank {
            shape[axis] = zeros.len();
        }
        let steps = call.lower(&Known::f32(shape.clone(), steps).into(), "bound")?;
        let count = call.builder.graph.ty(scale).count();
        let mut scale_shape = vec![1; rank];
        if count > 1 && axis < rank {
            scale_shape[axis] = count;
        }
        let scale = call.reshaped(&scale.into(), scale_shape)?;
        let scale = call.lower(&scale, "scale")?;
        let limit = call.add(Mul {}, &[steps, scale], &format!("{suffix}/bound"))?;
        result = call.add(op, &[result, limit], suffix)?;
    }
    call.add(QuantizeLinear { axis }, &[result, scale, zero], "")
}

pub(crate) fn gelu(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let x = call.f32(0)?;
    let half = call.scalar(0.5);
    let unit = call.scalar(1.0);
    let inner = match call.string("approximate", "none")? {
        "none" => {
            let root = call.scalar(std::f32::consts::FRAC_1_SQRT_2);
            let scaled = call.add(Mul {}, &[x, root], "scaled")?;
            call.add(Erf {}, &[scaled], "erf")?
        }
        "tanh" => {
            // tanh(sqrt(2 / pi) * (x + 0.044715 x^3))
            let (cubic, root) = (call.scalar(0.044_715), call.scalar(0.797_884_6));
            let square = call.add(Mul {}, &[x, x], "square")?;
            let cube = call.add(Mul {}, &[square, x], "cube")?;
            let third = call.add(Mul {}, &[cube, cubic], "third")?;
            let sum = call.add(Add {}, &[x, third], "sum")?;
            let scaled = call.add(Mul {}, &[sum, root], "scaled")?;
            call.add(Tanh {}, &[scaled], "tanh")?
        }
        other => {
            return Err(unsupported("attribute `approximate`", format!("`{other}`"), "none, tanh"));
        }
    };
    let gate = call.add(Add {}, &[inner, unit], "gate")?;
    let product = call.add(Mul {}, &[x, gate], "product")?;
    one(call.add(Mul {}, &[product, half], "")?)
}

/// `min(max(alpha x + beta, 0), 1)`.
fn hard_gate(call: &mut Call<'_, '_>, alpha: f32, beta: f32, suffix: &str) -> NodeResult<ValueId> {
    let x = call.f32(0)?;
    let (alpha, beta) = (call.scalar(alpha), call.scalar(beta));
    let scaled = call.add(Mul {}, &[x, alpha], "scaled")?;
    let shifted = call.add(Add {}, &[scaled, beta], "shifted")?;
    call.add(Clip { min: 0.0.into(), max: 1.0.into() }, &[shifted], suffix)
}

pub(crate) fn hard_sigmoid(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let (alpha, beta) = (call.float("alpha", 0.2)?, call.float("beta", 0.5)?);
    one(hard_gate(call, alpha, beta, "")?)
}

pub(crate) fn hard_swish(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let gate = hard_gate(call, 1.0 / 6.0, 0.5, "gate")?;
    let x = call.f32(0)?;
    one(call.add(Mul {}, &[x, gate], "")?)
}
