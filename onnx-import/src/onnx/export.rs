//! Other values for the parameters of a model file: an ONNX file, whatever the model's format.

use std::path::Path;

use crate::error::ImportError;
use crate::file::read_file;
use crate::known::{external_location, tensor_bytes};
use crate::onnx::decode;
use crate::onnx::external::Folder;
use crate::proto::{Message, ModelProto, TensorProto, data_location, data_type};
use crate::tflite;

/// Protocol buffers end at 2 GiB.
const MAX_BYTES: usize = i32::MAX as usize;

/// A parameter's new value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ParameterValue<'a> {
    /// The importer's name of the parameter.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// Elements, row-major.
    pub values: &'a [f32],
    /// What the file stores in their place, if it stores integers.
    pub integers: Option<&'a [i64]>,
}

/// The model file with other values in the initializers of these parameters. Its graph is as before, but that the
/// Identity node that shares an initializer with another parameter makes room for one of its own. Weights in other
/// files come within.
///
/// # Errors
/// If the file cannot be read, a parameter has no initializer of its own, the initializer's type cannot hold the
/// values, or the result has 2 GiB or more.
pub fn with_parameters(
    path: &Path,
    parameters: &[ParameterValue<'_>],
) -> Result<Vec<u8>, ImportError> {
    let result = read_file(path).and_then(|bytes| {
        let mut model = match tflite::is_lite(&bytes) {
            true => tflite::decode(&bytes)?.model,
            false => decode(&bytes)?,
        };
        bring_in(&mut model, &Folder::of(path))?;
        for parameter in parameters {
            let name = parameter.name;
            replace(&mut model, parameter)
                .map_err(|e| ImportError::invalid(format!("parameter `{name}`"), e))?;
        }
        if model.encoded_len() > MAX_BYTES {
            return Err(ImportError::limit("2 GiB or more with all weights within".to_string()));
        }
        Ok(model.encode_to_vec())
    });
    result.map_err(|e| e.in_file(path))
}

/// Integers as an initializer of that type has them; `None` of other types, and if one is beyond its range.
fn integer_bytes(dtype: i32, integers: &[i64]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for &q in integers {
        match dtype {
            data_type::INT8 => bytes.push(i8::try_from(q).ok()? as u8),
            data_type::UINT8 => bytes.push(u8::try_from(q).ok()?),
            data_type::INT32 => bytes.extend(i32::try_from(q).ok()?.to_le_bytes()),
            _ => return None,
        }
    }
    Some(bytes)
}

/// Puts the bytes of external initializers into the model.
fn bring_in(model: &mut ModelProto, folder: &Folder) -> Result<(), ImportError> {
    let mut total = 0usize;
    for tensor in model.graph.iter_mut().flat_map(|g| &mut g.initializer) {
        if tensor.data_location != Some(data_location::EXTERNAL) {
            continue;
        }
        let place = format!("initializer `{}`", tensor.name);
        let fail = |e: String| ImportError::invalid(place.clone(), e);
        let bytes = tensor_bytes(tensor).map_err(fail)?;
        total = total.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        if total > MAX_BYTES {
            return Err(ImportError::limit("2 GiB or more with all weights within".to_string()));
        }
        let at = external_location(tensor, bytes).map_err(fail)?;
        tensor.raw_data = Some(folder.read(&at).map_err(fail)?);
        tensor.external_data.clear();
        tensor.data_location = None;
    }
    Ok(())
}

fn replace(model: &mut ModelProto, parameter: &ParameterValue<'_>) -> Result<(), String> {
    let graph = model.graph.as_mut().ok_or("the model has no graph")?;
    let raw: Vec<u8> = parameter.values.iter().flat_map(|v| v.to_le_bytes()).collect();
    if let Some(tensor) = graph.initializer.iter_mut().find(|t| t.name == parameter.name) {
        let same = tensor.dims.len() == parameter.shape.len()
            && tensor.dims.iter().zip(parameter.shape).all(|(&a, &b)| usize::try_from(a) == Ok(b));
        if !same {
            return Err(format!("its initializer is {:?}", tensor.dims));
        }
        tensor.float_data.clear();
        tensor.double_data.clear();
        tensor.int32_data.clear();
        tensor.raw_data = Some(match tensor.data_type {
            data_type::FLOAT => raw,
            data_type::DOUBLE => {
                parameter.values.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect()
            }
            found => {
                let integers = parameter.integers.and_then(|all| integer_bytes(found, all));
                integers.ok_or("its initializer is not of FLOAT or DOUBLE, and would round")?
            }
        });
        return Ok(());
    }
    let is_copy = |node: &crate::proto::NodeProto| {
        node.op_type == "Identity" && node.output.iter().any(|o| o == parameter.name)
    };
    let Some(copy) = graph.node.iter().position(is_copy) else {
        return Err(
            "the file has no initializer for it alone: the exporter merged it with others, or it is computed".into()
        );
    };
    graph.node.remove(copy);
    graph.initializer.push(TensorProto {
        name: parameter.name.to_string(),
        dims: parameter.shape.iter().map(|&d| d as i64).collect(),
        data_type: data_type::FLOAT,
        raw_data: Some(raw),
        ..TensorProto::default()
    });
    Ok(())
}
