//! Weights as safetensors: under the model's names as FP32, and as they are stored.
//!
//! Every state tensor is written under its own name as FP32; a quantized one by its real values (for a shared exponent
//! `q * 2^e`). Beside it stand its stored elements, named `NAME.int8` (or `NAME.int32` for wider integers), and
//! `NAME.exponent`, one i32.

use trainc_data::{NamedTensor, TensorData};
use trainc_ir::{Data, Scale, Tensor};

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

#[cfg(test)]
mod tests {
    use super::*;

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
