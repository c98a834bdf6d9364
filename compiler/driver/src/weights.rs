//! Weights as safetensors: under the model's names as FP32, and as they are stored.
//!
//! Every state tensor is written under its own name as FP32; a quantized one by its real values (for a shared exponent
//! `q * 2^e`). Beside it stand its stored elements, named `NAME.int8` (or `NAME.int32` for wider integers), and
//! `NAME.exponent`, one i32.

use std::borrow::Borrow;
use std::io::Write;

use trainc_data::{
    DataError, Elements, NamedTensor, StreamedData, StreamedTensor, TensorData, elements,
    stream_safetensors,
};
use trainc_ir::{Data, Element, Scale, ScaleData, Tensor, TensorType};

/// The real values of a tensor; `None` for scales that have no export.
pub fn real_values(tensor: &Tensor) -> Option<Vec<f32>> {
    reals(tensor).map(|values| all(values, tensor.ty().count()))
}

fn all<T: Clone + Default>(values: Elements<'_, T>, count: usize) -> Vec<T> {
    let mut all = vec![T::default(); count];
    values(0, &mut all);
    all
}

/// [`real_values`], some at a time.
fn reals(tensor: &Tensor) -> Option<Elements<'_, f32>> {
    if let Data::F32(values) = tensor.data() {
        return Some(elements(values, |v| v));
    }
    let power = 2f64.powi(tensor.exponent());
    Some(integers(tensor, move |q| (q as f64 * power) as f32))
}

/// What is made of the elements of an integer tensor.
fn integers<'t, T: 't>(tensor: &'t Tensor, make: impl Fn(i64) -> T + 't) -> Elements<'t, T> {
    match tensor.data() {
        Data::F32(_) => unreachable!("{} is not an integer tensor", tensor.ty()),
        Data::I8(v) => elements(v, move |q| make(q.into())),
        Data::I16(v) => elements(v, move |q| make(q.into())),
        Data::I32(v) => elements(v, move |q| make(q.into())),
        Data::U8(v) => elements(v, move |q| make(q.into())),
        Data::U16(v) => elements(v, move |q| make(q.into())),
        Data::U32(v) => elements(v, move |q| make(q.into())),
    }
}

/// Parts of a file: names, shapes and elements; see the module documentation.
fn parts<'t, T: Borrow<Tensor>>(state: &'t [(String, T)]) -> Vec<StreamedTensor<'t>> {
    let mut parts = Vec::new();
    for (name, tensor) in state {
        let tensor = tensor.borrow();
        let shape = tensor.shape().to_vec();
        let mut add = |name: String, shape: Vec<usize>, data: StreamedData<'t>| {
            parts.push(StreamedTensor { name, shape, data });
        };
        if let Some(values) = reals(tensor) {
            add(name.clone(), shape.clone(), StreamedData::F32(values));
        }
        if matches!(tensor.data(), Data::F32(_)) {
            continue;
        }
        match tensor.data() {
            Data::I8(values) => {
                add(format!("{name}.int8"), shape, StreamedData::I8(elements(values, |v| v)));
            }
            _ => {
                let values = integers(tensor, |q| q as i32);
                add(format!("{name}.int32"), shape, StreamedData::I32(values));
            }
        }
        if tensor.ty().scale == Scale::Exponent {
            let exponent = tensor.exponent();
            let data = StreamedData::I32(Box::new(move |_, out| out.fill(exponent)));
            add(format!("{name}.exponent"), Vec::new(), data);
        }
    }
    parts
}

/// State as named tensors for a safetensors file; see the module documentation.
pub fn export<T: Borrow<Tensor>>(state: &[(String, T)]) -> Vec<NamedTensor> {
    let named = |part: StreamedTensor<'_>| {
        let count = part.shape.iter().product();
        let data = match part.data {
            StreamedData::F32(values) => TensorData::F32(all(values, count)),
            StreamedData::I8(values) => TensorData::I8(all(values, count)),
            StreamedData::I32(values) => TensorData::I32(all(values, count)),
        };
        NamedTensor { name: part.name, shape: part.shape, data }
    };
    let mut tensors: Vec<NamedTensor> = parts(state).into_iter().map(named).collect();
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors
}

/// Writes [`export`]'s tensors as a safetensors file, without making them all.
///
/// # Errors
/// If `out` refuses, or two names are the same.
pub(crate) fn write<T: Borrow<Tensor>>(
    out: &mut dyn Write,
    state: &[(String, T)],
) -> Result<(), DataError> {
    stream_safetensors(out, parts(state))
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
        Scale::None => ScaleData::None,
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
