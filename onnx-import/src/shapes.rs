//! Arithmetic on tensors known while importing, as exporters write it to compute shapes, axes and bounds.
//!
//! Floats fold only where IEEE arithmetic gives one answer (no transcendental functions).

use trainc_ir::Shape;

use crate::call::{Bound, Call};
use crate::error::{NodeResult, invalid};
use crate::known::{Known, KnownData, integer_range};
use crate::proto::data_type;

/// For each element of a broadcast result, the flat index into an operand.
pub(crate) fn broadcast_index(dims: &[usize], operand: &[usize]) -> impl Iterator<Item = usize> {
    let missing = dims.len() - operand.len();
    let operand_strides = Shape::from(operand).strides();
    let strides: Vec<usize> = (0..dims.len())
        .map(|i| match i.checked_sub(missing) {
            Some(j) if operand[j] != 1 => operand_strides[j],
            _ => 0,
        })
        .collect();
    let dims = dims.to_vec();
    let count: usize = dims.iter().product();
    (0..count).map(move |mut flat| {
        let mut index = 0;
        for (d, s) in dims.iter().zip(&strides).rev() {
            index += flat % d * s;
            flat /= d;
        }
        index
    })
}

/// Brings an integer into its type by wrapping.
pub(crate) fn wrap(value: i128, dtype: i32) -> i64 {
    match dtype {
        data_type::BOOL => i64::from(value != 0),
        data_type::UINT8 => i64::from(value as u8),
        data_type::INT8 => i64::from(value as i8),
        data_type::UINT4 => i64::from(value as u8 & 0xf),
        data_type::INT4 => i64::from((value as i8) << 4 >> 4),
        data_type::UINT2 => i64::from(value as u8 & 3),
        data_type::INT2 => i64::from((value as i8) << 6 >> 6),
        data_type::UINT16 => i64::from(value as u16),
        data_type::INT16 => i64::from(value as i16),
        data_type::UINT32 => i64::from(value as u32),
        data_type::INT32 => i64::from(value as i32),
        _ => value as i64,
    }
}

/// What a binary operator does to known values of each kind; `None` where it does not fold.
struct Binary {
    ints: Option<fn(i128, i128) -> Option<i128>>,
    f32: Option<fn(f32, f32) -> f32>,
    f64: Option<fn(f64, f64) -> f64>,
    /// Whether the result is BOOL.
    compares: bool,
}

fn binary(op: &str) -> Option<Binary> {
    macro_rules! arithmetic {
        ($ints:expr, $float:expr) => {
            Binary { ints: Some($ints), f32: Some($float), f64: Some($float), compares: false }
        };
    }
    macro_rules! compare {
        ($op:tt) => {
            Binary {
                ints: Some(|a, b| Some(i128::from(a $op b))),
                f32: Some(|a, b| f32::from(u8::from(a $op b))),
                f64: Some(|a, b| f64::from(u8::from(a $op b))),
                compares: true,
            }
        };
    }
    let ints_only = |f: fn(i128, i128) -> Option<i128>| Binary {
        ints: Some(f),
        f32: None,
        f64: None,
        compares: false,
    };
    Some(match op {
        "Add" | "Sum" => arithmetic!(|a, b| a.checked_add(b), |a, b| a + b),
        "Sub" => arithmetic!(|a, b| a.checked_sub(b), |a, b| a - b),
        "Mul" => arithmetic!(|a, b| a.checked_mul(b), |a, b| a * b),
        // ONNX divides integers towards zero.
        "Div" => arithmetic!(|a, b| a.checked_div(b), |a, b| a / b),
        "Max" => arithmetic!(|a, b| Some(a.max(b)), |a, b| if a > b || a.is_nan() { a } else { b }),
        "Min" => arithmetic!(|a, b| Some(a.min(b)), |a, b| if a < b || a.is_nan() { a } else { b }),
        "Mod" => ints_only(|a, b| if b == 0 { None } else { Some((a % b + b) % b) }),
        "Pow" => ints_only(|a, b| u32::try_from(b).ok().and_then(|b| a.checked_pow(b))),
        "Equal" => compare!(==),
        "Less" => compare!(<),
        "LessOrEqual" => compare!(<=),
        "Greater" => compare!(>),
        "GreaterOrEqual" => compare!(>=),
        "And" => ints_only(|a, b| Some(a & b)),
        "Or" => ints_only(|a, b| Some(a | b)),
        "Xor" => ints_only(|a, b| Some(a ^ b)),
        _ => return None,
    })
}

pub(crate) fn fold_two(
    call: &mut Call<'_, '_>,
    op: &str,
    a: &Known,
    b: &Known,
) -> NodeResult<Option<Known>> {
    let Some(rule) = binary(op) else { return Ok(None) };
    let dims = Shape::from(&*a.dims)
        .broadcast(&Shape::from(&*b.dims))
        .ok_or_else(|| invalid!("shapes {:?} and {:?} do not broadcast", a.dims, b.dims))?
        .to_vec();
    if a.dtype != b.dtype && op != "Pow" {
        return Err(invalid!(
            "operands of types {} and {}",
            data_type::name(a.dtype),
            data_type::name(b.dtype)
        ));
    }
    call.fold_budget(&dims)?;
    let pairs = broadcast_index(&dims, &a.dims).zip(broadcast_index(&dims, &b.dims));
    let dtype = if rule.compares { data_type::BOOL } else { a.dtype };
    let data = match (&a.data, &b.data) {
        (KnownData::Ints(x), KnownData::Ints(y)) => {
            let Some(f) = rule.ints else { return Ok(None) };
            let values = pairs
                .map(|(i, j)| f(i128::from(x[i]), i128::from(y[j])).map(|v| wrap(v, dtype)))
                .collect::<Option<Vec<i64>>>()
                .ok_or_else(|| invalid!("{op} of known integers has no value"))?;
            KnownData::Ints(values)
        }
        (KnownData::Float(x), KnownData::Float(y)) => {
            let Some(f) = rule.f32 else { return Ok(None) };
            let values = pairs.map(|(i, j)| f(x[i], y[j]));
            if rule.compares {
                KnownData::Ints(values.map(|v| v as i64).collect())
            } else {
                KnownData::Float(values.collect())
            }
        }
        (KnownData::Double(x), KnownData::Double(y)) => {
            let Some(f) = rule.f64 else { return Ok(None) };
            let values = pairs.map(|(i, j)| f(x[i], y[j]));
            if rule.compares {
                KnownData::Ints(values.map(|v| v as i64).collect())
            } else {
                KnownData::Double(values.collect())
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(Known { dims, dtype, data }))
}

/// Folds an elementwise operator of one or more operands, all alike, if all are known and it folds.
pub(crate) fn fold_binary(call: &mut Call<'_, '_>, op: &str) -> NodeResult<Option<Bound>> {
    let Some(operands) = call.all_known()? else { return Ok(None) };
    let Some((first, rest)) = operands.split_first() else { return Ok(None) };
    let mut result = (**first).clone();
    for operand in rest {
        match fold_two(call, op, &result, operand)? {
            Some(next) => result = next,
            None => return Ok(None),
        }
    }
    Ok(Some(result.into()))
}

/// Folds an elementwise operator of one operand, if it is known and the operator folds.
pub(crate) fn fold_unary(call: &mut Call<'_, '_>, op: &str) -> NodeResult<Option<Bound>> {
    let Some(x) = call.known(0)? else { return Ok(None) };
    macro_rules! floats {
        ($v:expr, $ty:ty) => {{
            let f: fn($ty) -> $ty = match op {
                "Neg" => |x| -x,
                "Abs" => <$ty>::abs,
                "Sqrt" => <$ty>::sqrt,
                "Floor" => <$ty>::floor,
                "Ceil" => <$ty>::ceil,
                "Sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
                "Reciprocal" => |x| 1.0 / x,
                _ => return Ok(None),
            };
            $v.iter().map(|&x| f(x)).collect()
        }};
    }
    let data = match &x.data {
        KnownData::Ints(v) => {
            let f: fn(i128) -> i128 = match op {
                "Neg" => |x| -x,
                "Abs" => |x| x.abs(),
                "Sign" => |x| x.signum(),
                "Not" => |x| i128::from(x == 0),
                _ => return Ok(None),
            };
            KnownData::Ints(v.iter().map(|&x| f(i128::from(x))).map(|y| wrap(y, x.dtype)).collect())
        }
        KnownData::Float(v) => KnownData::Float(floats!(v, f32)),
        KnownData::Double(v) => KnownData::Double(floats!(v, f64)),
        KnownData::Opaque => return Ok(None),
    };
    call.fold_budget(&x.dims)?;
    Ok(Some(Known { data, ..(*x).clone() }.into()))
}

/// Converts a known tensor to another type.
pub(crate) fn cast(x: &Known, to: i32) -> NodeResult<Option<Known>> {
    use data_type::{DOUBLE, FLOAT};
    let data = match (&x.data, to) {
        (KnownData::Opaque, _) => return Ok(None),
        (_, FLOAT) => return Ok(x.to_f32().map(|v| Known::f32(x.dims.clone(), v))),
        (KnownData::Float(v), DOUBLE) => {
            KnownData::Double(v.iter().map(|&x| f64::from(x)).collect())
        }
        (KnownData::Double(v), DOUBLE) => KnownData::Double(v.clone()),
        (KnownData::Ints(v), DOUBLE) => KnownData::Double(v.iter().map(|&x| x as f64).collect()),
        (data, to) if integer_range(to).is_some() => {
            let truncate = |x: f64| match to {
                data_type::BOOL => i64::from(x != 0.0),
                _ => wrap(x as i128, to),
            };
            KnownData::Ints(match data {
                KnownData::Ints(v) => v.iter().map(|&x| wrap(i128::from(x), to)).collect(),
                KnownData::Float(v) => v.iter().map(|&x| truncate(f64::from(x))).collect(),
                KnownData::Double(v) => v.iter().map(|&x| truncate(x)).collect(),
                KnownData::Opaque => return Ok(None),
            })
        }
        // Narrower floats are read but not made.
        (data, to) if to == x.dtype => data.clone(),
        _ => return Ok(None),
    };
    Ok(Some(Known { dims: x.dims.clone(), dtype: to, data }))
}

/// One step of a reduction; `None` where it overflows.
type Step = fn(i64, i64) -> Option<i64>;

/// Reduces known integers over axes; `None` if they are floats.
pub(crate) fn reduce(
    x: &Known,
    op: &str,
    axes: &[usize],
    keep_dims: bool,
) -> NodeResult<Option<Known>> {
    let Some(values) = x.ints() else { return Ok(None) };
    let (start, f): (Option<i64>, Step) = match op {
        "ReduceSum" => (Some(0), i64::checked_add),
        "ReduceProd" => (Some(1), i64::checked_mul),
        "ReduceMax" => (None, |a, b| Some(a.max(b))),
        "ReduceMin" => (None, |a, b| Some(a.min(b))),
        _ => return Ok(None),
    };
    let kept: Vec<usize> =
        (0..x.dims.len()).map(|i| if axes.contains(&i) { 1 } else { x.dims[i] }).collect();
    let count: usize = kept.iter().product();
    let mut result: Vec<Option<i64>> = vec![start; count];
    let target = broadcast_index(&x.dims, &kept);
    for (&value, i) in values.iter().zip(target) {
        let next = match result[i] {
            None => Some(value),
            Some(sum) => f(sum, value),
        };
        result[i] = Some(next.ok_or_else(|| invalid!("{op} of known integers overflows"))?);
    }
    let values = result
        .into_iter()
        .collect::<Option<Vec<i64>>>()
        .ok_or_else(|| invalid!("{op} of no elements"))?
        .into_iter()
        .map(|v| wrap(i128::from(v), x.dtype))
        .collect();
    let dims = match keep_dims {
        true => kept,
        false => (0..x.dims.len()).filter(|i| !axes.contains(i)).map(|i| x.dims[i]).collect(),
    };
    Ok(Some(Known { dims, dtype: x.dtype, data: KnownData::Ints(values) }))
}
