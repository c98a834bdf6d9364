//! Weights as safetensors: under the model's names as FP32, and as they are stored.
//!
//! Every state tensor is written under its own name as FP32; a quantized one by its real values (for a shared exponent
//! `q * 2^e`). Beside it stand its stored elements, named `NAME.int8` (or `NAME.int32` for wider integers), and
//! `NAME.exponent`, one i32.

use trainc_data::{NamedTensor, TensorData};
use trainc_ir::{Data, Element, Scale, ScaleData, Tensor, TensorType};

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

/// The stored form of a tensor among those that [`export`] gave, bit for bit; `None` if they do not have it in a form of
/// that type.
pub(crate) fn stored(tensors: &[NamedTensor], name: &str, ty: &TensorType) -> Option<Tensor> {
    let find = |name: &str| tensors.iter().find(|t| t.name == name);
    let (suffix, integer) = match ty.element {
        Element::F32 => return None,
        Element::I8 => ("int8", true),
        Element::I16 | Element::I32 => ("int32", false),
        _ => return None,
    };
    let elements = find(&format!("{name}.{suffix}"))?;
    let values: Vec<i64> = match &elements.data {
        TensorData::I8(values) if integer => values.iter().map(|&v| v.into()).collect(),
        TensorData::I32(values) if !integer => values.iter().map(|&v| v.into()).collect(),
        _ => return None,
    };
    let fits = |v: &i64| ty.element != Element::I16 || i16::try_from(*v).is_ok();
    if *elements.shape != *ty.shape.dims() || !values.iter().all(fits) {
        return None;
    }
    let exponent = || match find(&format!("{name}.exponent")).map(|t| &t.data) {
        Some(TensorData::I32(exponent)) if exponent.len() == 1 => Some(exponent[0]),
        _ => None,
    };
    let scale = match ty.scale {
        Scale::Exponent => ScaleData::Exponent(exponent()?),
        Scale::None | Scale::Fixed { .. } => ScaleData::None,
        Scale::Affine { .. } | Scale::Block { .. } => return None,
    };
    Some(Tensor::from_i64(ty, &values, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let state = [
            ("w".to_string(), Tensor::i8_shared([2], vec![-127, 3], -4)),
            ("b".to_string(), Tensor::i32_shared([2], vec![-70_000, 3], -9)),
        ];
        let tensors = export(&state);
        for (name, tensor) in &state {
            let found = stored(&tensors, name, tensor.ty()).unwrap();
            assert!(found.bits_equal(tensor), "{name}");
        }
        // Another type or shape is another form.
        assert!(stored(&tensors, "w", state[1].1.ty()).is_none());
        assert!(stored(&tensors, "w", Tensor::i8_shared([3], vec![0; 3], 0).ty()).is_none());
        assert!(stored(&tensors, "v", state[0].1.ty()).is_none());
        let plain: Vec<NamedTensor> = tensors.into_iter().filter(|t| t.name == "w").collect();
        assert!(stored(&plain, "w", state[0].1.ty()).is_none());
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
