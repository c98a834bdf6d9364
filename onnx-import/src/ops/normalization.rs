//! Batch norm, layer norm and dropout.

use trainc_ir::graph::Definition;
use trainc_ir::ops::{
    Add, BatchNorm, BatchStatistics, Div, Dropout, Mul, Reciprocal, ReduceMean, Sqrt, Sub,
};
use trainc_ir::{ValueId, attributes::F32};

use crate::call::{Bound, Call, axis};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::{Known, KnownData};
use crate::ops::movement::one;
use crate::proto::data_type;
use crate::{BatchNormMode, DropoutMode};

/// Whether the file says that the node normalizes with the statistics of the batch.
fn trains(call: &Call<'_, '_>) -> NodeResult<bool> {
    if call.opset() >= 14 {
        return call.flag("training_mode", false);
    }
    // Before opset 14 the training form is the one with more than one result.
    Ok(call.node.output.iter().skip(1).any(|name| !name.is_empty()))
}

pub(crate) fn batch_norm(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if call.opset() < 9 && !call.flag("spatial", true)? {
        return Err(unsupported("attribute `spatial`", "is 0", "1"));
    }
    let epsilon: F32 = call.float("epsilon", 1e-5)?.into();
    let momentum = call.float("momentum", 0.9)?;
    let as_exported = trains(call)?;
    let batch = match call.builder.options.batch_norm {
        BatchNormMode::AsExported => as_exported,
        BatchNormMode::Training => true,
        BatchNormMode::Frozen => false,
    };
    if as_exported {
        call.builder.training_batch_norms.push(call.name.clone());
    }
    let x = call.f32(0)?;
    let dims = call.shape(x);
    if dims.len() < 2 {
        return Err(invalid!("an operand of shape {dims:?}"));
    }
    let mut vectors = Vec::new();
    for i in 1..5 {
        let vector = call.f32(i)?;
        if call.shape(vector) != [dims[1]] {
            return Err(invalid!(
                "{} is of shape {:?}, not [{}]",
                call.operand_name(i),
                call.shape(vector),
                dims[1]
            ));
        }
        vectors.push(vector);
    }
    let &[scale, shift, running_mean, running_variance] = &*vectors else {
        return Err(invalid!("internal: four vectors"));
    };
    if !batch {
        if !as_exported {
            call.builder.inference_batch_norms.push(call.name.clone());
        }
        if (1..3).any(|i| call.uses_output(i)) {
            return Err(unsupported(
                "output `running_mean`",
                "is used, but batch norm is frozen",
                "batch norm as exported, or in training form",
            ));
        }
        let op = BatchNorm { epsilon, batch };
        return one(call.add(op, &[x, scale, shift, running_mean, running_variance], "")?);
    }
    if (3..5).any(|i| call.uses_output(i)) {
        return Err(unsupported("output `saved_mean`", "is used", "the first three outputs"));
    }
    let statistics = call.add_many(BatchStatistics {}, &[x], "statistics")?;
    let &[mean, variance] = &*statistics else {
        return Err(invalid!("internal: two statistics"));
    };
    let y = call.add(BatchNorm { epsilon, batch }, &[x, scale, shift, mean, variance], "")?;
    let new_mean = running(call, running_mean, mean, momentum, "running_mean")?;
    let new_variance = running(call, running_variance, variance, momentum, "running_var")?;
    Ok(vec![y.into(), new_mean.into(), new_variance.into()])
}

/// `running * momentum + batch * (1 - momentum)`, and the update of the parameter if `running` is one.
fn running(
    call: &mut Call<'_, '_>,
    running: ValueId,
    batch: ValueId,
    momentum: f32,
    suffix: &str,
) -> NodeResult<ValueId> {
    let parameter = match call.builder.graph.value(running).definition {
        Definition::Parameter(position) => Some(position),
        _ => None,
    };
    // A module that is used twice moves its statistics twice.
    let old = parameter.and_then(|p| call.builder.updates.get(&p).copied()).unwrap_or(running);
    let (keep, take) = (call.scalar(momentum), call.scalar(1.0 - momentum));
    let kept = call.add(Mul {}, &[old, keep], &format!("{suffix}/kept"))?;
    let taken = call.add(Mul {}, &[batch, take], &format!("{suffix}/taken"))?;
    let new = call.add(Add {}, &[kept, taken], suffix)?;
    if let Some(position) = parameter {
        call.builder.updates.insert(position, new);
    }
    Ok(new)
}

pub(crate) fn dropout(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let training = call.opset() >= 12 && call.given(2) && {
        let known = call.must_know(2, "training_mode")?;
        match known.ints() {
            Some(&[mode]) => mode != 0,
            _ => return Err(invalid!("training_mode is not a BOOL scalar")),
        }
    };
    let ratio = if call.opset() < 12 {
        call.float("ratio", 0.5)?
    } else if call.given(1) {
        let known = call.must_know(1, "ratio")?;
        known.scalar_f32().ok_or_else(|| invalid!("ratio is not a scalar"))?
    } else {
        0.5
    };
    call.int("seed", 0)?;
    if !(0.0..1.0).contains(&ratio) {
        return Err(unsupported("operand `ratio`", format!("{ratio}"), "from 0, less than 1"));
    }
    let drops = training && ratio > 0.0 && call.builder.options.dropout == DropoutMode::AsExported;
    let x = call.bound(0)?;
    if drops {
        if call.uses_output(1) {
            return Err(unsupported("output `mask`", "is used", "the mask only in inference"));
        }
        let stream = call.builder.streams;
        call.builder.streams += 1;
        let x = call.f32(0)?;
        return one(call.add(Dropout { ratio: ratio.into(), stream }, &[x], "")?);
    }
    let mut results = vec![x];
    if call.uses_output(1) {
        let dims = call.dims(0)?;
        let count = call.fold_budget(&dims)?;
        let data = KnownData::Ints(vec![1; count]);
        results.push(Known { dims, dtype: data_type::BOOL, data }.into());
    }
    Ok(results)
}

pub(crate) fn layer_norm(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if call.int("stash_type", 1)? != 1 {
        return Err(unsupported("attribute `stash_type`", "is not FLOAT", "1 (FLOAT)"));
    }
    let epsilon = call.float("epsilon", 1e-5)?;
    let x = call.f32(0)?;
    let dims = call.shape(x);
    let first = axis(call.int("axis", -1)?, dims.len())?;
    let axes: Vec<usize> = (first..dims.len()).collect();
    let Standardized { mean, deviation, normal } = standardized(call, x, axes, epsilon)?;
    let scale = call.f32(1)?;
    let mut y = call.add(Mul {}, &[normal, scale], if call.given(2) { "scaled" } else { "" })?;
    if call.given(2) {
        let shift = call.f32(2)?;
        y = call.add(Add {}, &[y, shift], "")?;
    }
    if call.shape(y) != dims {
        return Err(invalid!("scale or shift do not broadcast to {dims:?}"));
    }
    let mut results = vec![y.into(), mean.into()];
    if call.uses_output(2) {
        results.push(call.add(Reciprocal {}, &[deviation], "inverse_deviation")?.into());
    }
    Ok(results)
}

/// A value without its mean and deviation.
struct Standardized {
    mean: ValueId,
    /// `sqrt(variance + epsilon)`.
    deviation: ValueId,
    /// `(x - mean) / deviation`.
    normal: ValueId,
}

/// Means and deviations over axes taken away.
fn standardized(
    call: &mut Call<'_, '_>,
    x: ValueId,
    axes: Vec<usize>,
    epsilon: f32,
) -> NodeResult<Standardized> {
    let over = || ReduceMean { axes: axes.clone(), keep_dims: true };
    let mean = call.add(over(), &[x], "mean")?;
    let centred = call.add(Sub {}, &[x, mean], "centred")?;
    let square = call.add(Mul {}, &[centred, centred], "square")?;
    let variance = call.add(over(), &[square], "variance")?;
    let epsilon = call.scalar(epsilon);
    let raised = call.add(Add {}, &[variance, epsilon], "raised")?;
    let deviation = call.add(Sqrt {}, &[raised], "deviation")?;
    let normal = call.add(Div {}, &[centred, deviation], "normal")?;
    Ok(Standardized { mean, deviation, normal })
}

/// InstanceNormalization and GroupNormalization: each example's channels, alone or in groups.
pub(crate) fn group_norm(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let instance = call.node.op_type == "InstanceNormalization";
    let epsilon = call.float("epsilon", 1e-5)?;
    let x = call.f32(0)?;
    let dims = call.shape(x);
    let &[batch, channels, ..] = &*dims else { return Err(invalid!("an operand of {dims:?}")) };
    let groups = if instance { channels as i64 } else { call.int("num_groups", 0)? };
    if !instance && call.int("stash_type", 1)? != 1 {
        return Err(unsupported("attribute `stash_type`", "is not FLOAT", "1 (FLOAT)"));
    }
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&groups| groups > 0 && channels % groups == 0)
        .ok_or_else(|| invalid!("{groups} group(s) of {channels} channels"))?;
    let space: usize = dims[2..].iter().product();
    let normal = match groups == channels && dims.len() > 2 {
        true => standardized(call, x, (2..dims.len()).collect(), epsilon)?.normal,
        false => {
            let table = vec![batch, groups, channels / groups * space];
            let table = call.reshaped(&x.into(), table)?;
            let table = call.lower(&table, "the operand")?;
            let normal = standardized(call, table, vec![2], epsilon)?.normal;
            let normal = call.reshaped(&normal.into(), dims.clone())?;
            call.lower(&normal, "the operand")?
        }
    };
    // Before opset 21 GroupNormalization has one factor a group.
    let each = if instance || call.opset() >= 21 { channels } else { groups };
    let mut wide = vec![1; dims.len()];
    wide[1] = channels;
    let mut y = normal;
    for (i, neutral) in [(1, 1.0), (2, 0.0)] {
        let is = |known: &Known| known.to_f32().is_some_and(|v| v.iter().all(|x| *x == neutral));
        if call.dims(i)? != [each] {
            return Err(invalid!(
                "{} is of shape {:?}, not [{each}]",
                call.operand_name(i),
                call.dims(i)?
            ));
        }
        if call.known(i)?.is_some_and(|known| is(&known)) {
            continue;
        }
        let vector = call.bound(i)?;
        let vector = if each == channels {
            vector
        } else {
            let rows: Vec<usize> = (0..channels).map(|c| c / (channels / groups)).collect();
            call.rows(&vector, 0, &rows)?
        };
        let vector = call.reshaped(&vector, wide.clone())?;
        let vector = call.lower(&vector, "the operand")?;
        let suffix = if i == 1 { "scaled" } else { "" };
        y = match i {
            1 => call.add(Mul {}, &[y, vector], suffix)?,
            _ => call.add(Add {}, &[y, vector], suffix)?,
        };
    }
    one(y)
}
