//! Weights as safetensors: under the model's names as FP32, and as they are stored.
//!
//! Every state tensor is written under its own name as FP32; a quantized one by its real values (for a shared exponent
//! `q * 2^e`). Beside it stand its stored elements, named `NAME.int8` (or `NAME.int32` for wider integers), and
//! `NAME.exponent`, one i32.

use std::path::Path;

use anyhow::{Context, ensure};
use trainc_data::{NamedTensor, TensorData, read_safetensors};
use trainc_ir::{Data, Element, Op, RunContext, Scale, Tensor};

/// The real values of a tensor; `None` for scales that have no export.
pub fn real_values(tensor: &Tensor) -> Option<Vec<f32>> {
    if let Data::F32(values) = tensor.data() {
        return Some(values.clone());
    }
    match tensor.ty().scale {
        Scale::None | Scale::Fixed { .. } | Scale::Exponent => {
            let power = 2f64.powi(tensor.exponent());
            Some(tensor.to_i64().iter().map(|&q| (q as f64 * power) as f32).collect())
        }
        Scale::Affine { .. } | Scale::Block { .. } => None,
    }
}

/// State as named tensors for a safetensors file; see the module documentation.
pub fn export(state: &[(String, Tensor)]) -> Vec<NamedTensor> {
    let mut tensors = Vec::new();
    for (name, tensor) in state {
        let shape = tensor.shape().to_vec();
        if let Some(values) = real_values(tensor) {
            let data = TensorData::F32(values);
            tensors.push(NamedTensor { name: name.clone(), shape: shape.clone(), data });
        }
        if matches!(tensor.data(), Data::F32(_)) {
            continue;
        }
        let (suffix, data) = match tensor.data() {
            Data::I8(values) => ("int8", TensorData::I8(values.clone())),
            _ => ("int32", TensorData::I32(tensor.to_i64().iter().map(|&v| v as i32).collect())),
        };
        tensors.push(NamedTensor { name: format!("{name}.{suffix}"), shape, data });
        if tensor.ty().scale == Scale::Exponent {
            let data = TensorData::I32(vec![tensor.exponent()]);
            tensors.push(NamedTensor { name: format!("{name}.exponent"), shape: Vec::new(), data });
        }
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors
}

/// Reads weights that [`export`] wrote, or that another engine wrote as FP32 under the model's names, as new values of
/// `state`. A quantized tensor takes its stored elements from the file if they are there, else `quantizer` makes them of
/// the FP32 values.
///
/// # Errors
/// If the file cannot be read, or a tensor is missing or of another shape.
pub fn read(
    path: &Path,
    state: &[(String, Tensor)],
    quantizer: Option<&Op>,
) -> anyhow::Result<Vec<Tensor>> {
    let tensors = read_safetensors(path)?;
    let file = path.display();
    state
        .iter()
        .map(|(name, old)| {
            import(&tensors, name, old, quantizer).with_context(|| format!("{file}: `{name}`"))
        })
        .collect()
}

fn import(
    tensors: &[NamedTensor],
    name: &str,
    old: &Tensor,
    quantizer: Option<&Op>,
) -> anyhow::Result<Tensor> {
    let find = |name: &str| tensors.iter().find(|t| t.name == name);
    let fits = |found: &NamedTensor| {
        let (a, b) = (&found.shape, old.shape().dims());
        ensure!(*a == b, "its shape is {a:?}, the model's {b:?}");
        Ok(())
    };
    let shared = old.ty().element == Element::I8 && old.ty().scale == Scale::Exponent;
    if let (true, Some(elements), Some(exponent)) =
        (shared, find(&format!("{name}.int8")), find(&format!("{name}.exponent")))
        && let (TensorData::I8(values), TensorData::I32(exponent)) =
            (&elements.data, &exponent.data)
    {
        fits(elements)?;
        ensure!(exponent.len() == 1, "it has {} exponents", exponent.len());
        return Ok(Tensor::i8_shared(old.shape().dims(), values.clone(), exponent[0]));
    }
    let found = find(name).context("the file has no such tensor")?;
    fits(found)?;
    let TensorData::F32(values) = &found.data else {
        anyhow::bail!("its elements are not FP32");
    };
    let real = Tensor::f32(old.shape().dims(), values.clone());
    if old.ty().is_f32() {
        return Ok(real);
    }
    let quantizer = quantizer.context("the algorithm has no form for FP32 weights")?;
    let stored = quantizer.evaluate(&[&real], &RunContext::default());
    let stored = stored.into_iter().next().context("the quantizer gives nothing")?;
    ensure!(
        stored.ty() == old.ty(),
        "it is stored as {}, the model's is {}",
        stored.ty(),
        old.ty()
    );
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let state = [
            ("w".to_string(), Tensor::i8_shared([2], vec![-127, 3], -4)),
            ("b".to_string(), Tensor::f32([1], vec![0.5])),
        ];
        let tensors = export(&state);
        for (name, tensor) in &state {
            let blank = Tensor::zeros(tensor.ty());
            let found = import(&tensors, name, &blank, None).unwrap();
            assert!(found.bits_equal(tensor), "{name}");
        }
        // FP32 values alone go through the quantizer.
        let plain: Vec<NamedTensor> = tensors.into_iter().filter(|t| t.name == "w").collect();
        let quantizer = Op::QuantizeWeight(trainc_ir::ops::QuantizeWeight {});
        let found = import(&plain, "w", &state[0].1, Some(&quantizer)).unwrap();
        assert_eq!((found.as_i8(), found.exponent()), (&[-127i8, 3][..], -4));
        let wide = Tensor::i8_shared([3], vec![0; 3], 0);
        let message =
            |name: &str, old: &Tensor| import(&plain, name, old, None).unwrap_err().to_string();
        assert!(message("w", &wide).contains("[2]"));
        assert!(message("v", &wide).contains("no such tensor"));
    }

    #[test]
    fn quantized_and_plain() {
        let state = [
            ("w".to_string(), Tensor::i8_shared([2], vec![-127, 3], -4)),
            ("b".to_string(), Tensor::f32([1], vec![0.5])),
        ];
        let tensors = export(&state);
        let named = |name: &str| &tensors.iter().find(|t| t.name == name).unwrap().data;
        assert_eq!(named("w"), &TensorData::F32(vec![-7.9375, 0.1875]));
        assert_eq!(named("w.int8"), &TensorData::I8(vec![-127, 3]));
        assert_eq!(named("w.exponent"), &TensorData::I32(vec![-4]));
        assert_eq!(named("b"), &TensorData::F32(vec![0.5]));
        assert_eq!(tensors.len(), 4);
    }
}
