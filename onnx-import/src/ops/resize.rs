//! Resize and Upsample: along each axis rows by known index (nearest), or a product with known weights.

use trainc_ir::ops::{MatMul, ProductRole, Reshape, Transpose};

use crate::call::{Bound, Call, axis, is_zero};
use crate::error::{NodeResult, invalid, unsupported};
use crate::known::Known;
use crate::limits;
use crate::ops::movement::one;

/// How one axis is resized.
struct Axis {
    at: usize,
    size: usize,
    result: usize,
    /// Result places to one place of the operand, as the file says it: the quotient of the sizes only roughly.
    scale: f64,
}

/// How a place of the result is one of the operand.
#[derive(Clone, Copy)]
struct Rules<'a> {
    coordinates: &'a str,
    nearest: &'a str,
    mode: &'a str,
    cubic: f64,
    /// Whether weights outside the operand are left out and the others raised.
    exclude_outside: bool,
    antialias: bool,
}

impl Axis {
    fn place(&self, i: usize, rules: Rules<'_>) -> f64 {
        // ONNX's own size of the result is no integer where the file gives a scale.
        let (i, size, result) = (i as f64, self.size as f64, self.result as f64);
        let exact = size * self.scale;
        match rules.coordinates {
            "asymmetric" => i / self.scale,
            "align_corners" if self.result == 1 => 0.0,
            "align_corners" => i * (size - 1.0) / (exact - 1.0),
            "pytorch_half_pixel" if self.result == 1 => 0.0,
            "half_pixel_symmetric" => {
                // The part of the last place that a rounded size cuts off, shared by both ends.
                let adjusted = result / exact;
                let offset = size / 2.0 * (1.0 - adjusted);
                offset + (i + 0.5) / self.scale - 0.5
            }
            _ => (i + 0.5) / self.scale - 0.5,
        }
    }

    /// The nearest place of the operand for each of the result.
    fn nearest(&self, rules: Rules<'_>) -> Vec<usize> {
        (0..self.result)
            .map(|i| {
                let place = self.place(i, rules);
                let near = match rules.nearest {
                    "round_prefer_ceil" => (place + 0.5).floor(),
                    "floor" => place.floor(),
                    "ceil" => place.ceil(),
                    _ => (place - 0.5).ceil(),
                };
                near.clamp(0.0, (self.size - 1) as f64) as usize
            })
            .collect()
    }

    /// Weights `[result, size]`: each result is their sum of products with the operand.
    fn weights(&self, rules: Rules<'_>) -> Vec<f32> {
        let mut weights = vec![0f64; self.result * self.size];
        // Shrinking with `antialias` widens the kernel.
        let wide = if rules.antialias && self.scale < 1.0 { self.scale } else { 1.0 };
        let reach = if rules.mode == "cubic" { 2.0 } else { 1.0 } / wide;
        for (i, row) in weights.chunks_exact_mut(self.size).enumerate() {
            let place = self.place(i, rules);
            let (first, last) = ((place - reach).floor() as i64, (place + reach).ceil() as i64);
            let mut total = 0.0;
            for tap in first..=last {
                let distance = ((tap as f64 - place) * wide).abs();
                let weight = match rules.mode {
                    "cubic" => cubic(distance, rules.cubic),
                    _ => (1.0 - distance).max(0.0),
                };
                let outside = tap < 0 || tap >= self.size as i64;
                if weight == 0.0 || outside && rules.exclude_outside {
                    continue;
                }
                total += weight;
                // Beyond the edge the edge goes on.
                row[tap.clamp(0, self.size as i64 - 1) as usize] += weight;
            }
            if (rules.exclude_outside || wide != 1.0) && total != 0.0 {
                row.iter_mut().for_each(|weight| *weight /= total);
            }
        }
        weights.into_iter().map(|weight| weight as f32).collect()
    }
}

/// Keys' kernel: Cubic convolution interpolation for digital image processing (1981).
fn cubic(x: f64, a: f64) -> f64 {
    match x {
        x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

pub(crate) fn resize(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let upsample = call.node.op_type == "Upsample";
    let mode = call.string("mode", "nearest")?;
    let old = upsample || call.opset() < 11;
    let mut rules = Rules {
        // Before opset 11 there was one way.
        coordinates: if old { "asymmetric" } else { "half_pixel" },
        nearest: if old { "floor" } else { "round_prefer_floor" },
        mode,
        cubic: -0.75,
        exclude_outside: false,
        antialias: false,
    };
    if !upsample {
        rules.coordinates = call.string("coordinate_transformation_mode", rules.coordinates)?;
        rules.nearest = call.string("nearest_mode", rules.nearest)?;
        rules.cubic = f64::from(call.float("cubic_coeff_a", -0.75)?);
        rules.exclude_outside = call.flag("exclude_outside", false)?;
        rules.antialias = call.flag("antialias", false)?;
        call.float("extrapolation_value", 0.0)?;
    }
    let known =
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"];
    if !known.contains(&rules.coordinates) {
        return Err(unsupported(
            "attribute `coordinate_transformation_mode`",
            format!("`{}`", rules.coordinates),
            known.join(", "),
        ));
    }
    if !["nearest", "linear", "bilinear", "cubic"].contains(&mode) {
        return Err(unsupported("attribute `mode`", format!("`{mode}`"), "nearest, linear, cubic"));
    }
    let dims = call.dims(0)?;
    let mut x = call.bound(0)?;
    for axis in axes(call, &dims, upsample)? {
        let Axis { at, size, result, .. } = axis;
        if size == result && (axis.scale - 1.0).abs() < 1e-12 {
            continue;
        }
        if limits::count(&[result, size]).is_none_or(|n| n > limits::MAX_FOLDED) {
            return Err(unsupported("sizes", format!("{size} to {result}"), "smaller sizes"));
        }
        if mode == "nearest" {
            x = call.rows(&x, at, &axis.nearest(rules))?;
            continue;
        }
        let weights = Known::f32(vec![result, size], axis.weights(rules));
        call.fold_budget(&[result, size])?;
        let value = call.lower(&x, "operand `X`")?;
        let weights = call.lower(&weights.into(), "weights")?;
        x = call.along(value, at, weights)?.into();
    }
    one(x)
}

impl Call<'_, '_> {
    /// The product of weights `[n, size]` with every line of an operand along an axis.
    fn along(
        &mut self,
        x: trainc_ir::ValueId,
        at: usize,
        weights: trainc_ir::ValueId,
    ) -> NodeResult<trainc_ir::ValueId> {
        let mut dims = self.shape(x);
        let rank = dims.len();
        let product =
            |transpose_b| MatMul { transpose_a: false, transpose_b, role: ProductRole::Forward };
        if at + 1 == rank {
            if rank == 1 {
                let shape = vec![1, dims[0]];
                let x = self.add(Reshape { shape: shape.into() }, &[x], "row")?;
                let y = self.add(product(true), &[x, weights], "resized")?;
                let count = self.shape(y)[1];
                return self.add(Reshape { shape: vec![count].into() }, &[y], "");
            }
            return self.add(product(true), &[x, weights], "");
        }
        if at + 2 == rank {
            return self.add(product(false), &[weights, x], "");
        }
        // To the last place and back.
        let mut permutation: Vec<usize> = (0..rank).collect();
        permutation.swap(at, rank - 1);
        let turn = Transpose { permutation };
        let turned = self.add(turn.clone(), &[x], "turned")?;
        let y = self.add(product(true), &[turned, weights], "resized")?;
        dims[at] = self.shape(y)[rank - 1];
        self.add(turn, &[y], "")
    }
}

/// The axes that are resized, in order.
fn axes(call: &mut Call<'_, '_>, dims: &[usize], upsample: bool) -> NodeResult<Vec<Axis>> {
    let rank = dims.len();
    let (scales, sizes) = match (upsample, call.opset()) {
        (true, ..9) => (call.floats("scales")?.map(<[f32]>::to_vec), None),
        (true, _) | (false, ..11) => (Some(floats(call, 1)?), None),
        _ => {
            let scales = if call.given(2) { floats(call, 2)? } else { Vec::new() };
            let sizes = if call.given(3) { Some(call.must_know_ints(3, "sizes")?) } else { None };
            (Some(scales).filter(|scales| !scales.is_empty()), sizes)
        }
    };
    let named = if upsample { None } else { call.ints("axes")? };
    let named: Vec<usize> = match named {
        Some(named) => named.iter().map(|&a| axis(a, rank)).collect::<NodeResult<_>>()?,
        None => (0..rank).collect(),
    };
    let count = scales.as_ref().map_or(0, Vec::len).max(sizes.as_ref().map_or(0, Vec::len));
    if scales.is_some() == sizes.is_some() || count != named.len() {
        return Err(invalid!("{count} sizes or scales for {} axes", named.len()));
    }
    let policy =
        if upsample { "stretch" } else { call.string("keep_aspect_ratio_policy", "stretch")? };
    let mut found = Vec::new();
    if let Some(scales) = scales {
        for (&at, &scale) in named.iter().zip(&scales) {
            let scale = f64::from(scale);
            let result = (dims[at] as f64 * scale).floor();
            if !(result >= 1.0 && result <= limits::MAX_ELEMENTS as f64) {
                return Err(invalid!("a scale of {scale} for {dims:?}"));
            }
            found.push(Axis { at, size: dims[at], result: result as usize, scale });
        }
    }
    if let Some(sizes) = sizes {
        let ratio = |(&at, &size): (&usize, &i64)| size as f64 / dims[at] as f64;
        let all = named.iter().zip(&sizes).map(ratio);
        let common = match policy {
            "stretch" => None,
            "not_larger" => all.reduce(f64::min),
            "not_smaller" => all.reduce(f64::max),
            other => return Err(invalid!("`keep_aspect_ratio_policy` is `{other}`")),
        };
        for (&at, &size) in named.iter().zip(&sizes) {
            let (result, scale) = match common {
                Some(scale) => ((dims[at] as f64 * scale + 0.5).floor() as i64, scale),
                None => (size, size as f64 / dims[at] as f64),
            };
            let result =
                usize::try_from(result).ok().filter(|&n| n > 0 && n <= limits::MAX_ELEMENTS);
            let Some(result) = result else { return Err(invalid!("a size of {size}")) };
            found.push(Axis { at, size: dims[at], result, scale });
        }
    }
    Ok(found)
}

fn floats(call: &mut Call<'_, '_>, i: usize) -> NodeResult<Vec<f32>> {
    let known = call.must_know(i, "scales")?;
    if is_zero(&known) && known.len() > 0 {
        return Err(invalid!("scales of 0"));
    }
    known.to_f32().ok_or_else(|| invalid!("scales are no floats"))
}
