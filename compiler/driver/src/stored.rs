//! What an artifact keeps of its program, from which it is planned again.
//!
//! An artifact holds each entry's optimised module as text, `ENTRY.module.txt`. Tensors of more than a few elements
//! stand there as hashes; they are those of `weights.safetensors`, and what that has no form for is in
//! `constants.safetensors`. Planning the modules again gives the program, whose fingerprint must be the manifest's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_data::{NamedTensor, TensorData, safetensors_bytes};
use trainc_ir::graph::Graph;
use trainc_ir::harness::launches;
use trainc_ir::program::{Program, Region};
use trainc_ir::target::ArtifactFile;
use trainc_ir::tensor_bytes::{tensor_bytes, tensor_from_bytes};
use trainc_ir::text::cursor::Cursor;
use trainc_ir::text::{Printer, content_hash, parse_type};
use trainc_ir::{Element, Scale, Tensor};

use crate::error::Result;
use crate::hash::Fingerprint;

/// Name of the manifest in an artifact's folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Name of the initial weights in an artifact's folder.
pub(crate) const WEIGHTS: &str = "weights.safetensors";
/// Tensors of modules that are not among the weights.
pub(crate) const CONSTANTS: &str = "constants.safetensors";

/// The file of an entry's module.
pub(crate) fn module_file(entry: &str) -> String {
    format!("{entry}.module.txt")
}

/// The files with the modules of entries, beside the weights that a state is exported as.
///
/// # Errors
/// If a tensor cannot be written.
pub(crate) fn files(
    modules: &[(&str, &Graph)],
    state: &[(String, Arc<Tensor>)],
) -> Result<Vec<ArtifactFile>> {
    let printer = Printer::default();
    // What `tensors_of` will find.
    let kept = |tensor: &Tensor| match tensor.ty().element {
        Element::F32 => true,
        Element::I8 | Element::I32 => tensor.ty().scale == Scale::Exponent,
        _ => false,
    };
    let known: BTreeSet<u64> =
        state.iter().filter(|(_, t)| kept(t)).map(|(_, t)| content_hash(t)).collect();
    let (mut files, mut constants) = (Vec::new(), BTreeMap::new());
    for (entry, module) in modules {
        let text = printer.graph(module);
        files.push(ArtifactFile { name: module_file(entry), contents: text.into_bytes() });
        for (hash, tensor) in printer.blobs(module) {
            if !known.contains(&hash) {
                constants.insert(hash, tensor);
            }
        }
    }
    if !constants.is_empty() {
        let named: Vec<NamedTensor> = constants
            .into_iter()
            .map(|(hash, tensor)| {
                let data: Vec<i8> = tensor_bytes(&tensor).into_iter().map(|b| b as i8).collect();
                let name = format!("{hash:016x}: {}", tensor.ty());
                NamedTensor { name, shape: vec![data.len()], data: TensorData::I8(data) }
            })
            .collect();
        let contents = safetensors_bytes(&named)?;
        files.push(ArtifactFile { name: CONSTANTS.to_string(), contents });
    }
    Ok(files)
}

/// The tensors that exported weights stand for, by hash.
pub(crate) fn tensors_of(weights: &[NamedTensor]) -> BTreeMap<u64, Arc<Tensor>> {
    let find = |name: &str| weights.iter().find(|t| t.name == name).map(|t| &t.data);
    let mut tensors = BTreeMap::new();
    for NamedTensor { name, shape, data } in weights {
        let exponent = |suffix: &str| {
            let name = format!("{}.exponent", name.strip_suffix(suffix)?);
            match find(&name)? {
                TensorData::I32(e) => e.first().copied(),
                _ => None,
            }
        };
        let shape = shape.clone();
        let tensor = match data {
            TensorData::F32(values) => Some(Tensor::f32(shape, values.clone())),
            TensorData::I8(values) => {
                exponent(".int8").map(|e| Tensor::i8_shared(shape, values.clone(), e))
            }
            TensorData::I32(values) => {
                exponent(".int32").map(|e| Tensor::i32_shared(shape, values.clone(), e))
            }
        };
        if let Some(tensor) = tensor {
            tensors.insert(content_hash(&tensor), Arc::new(tensor));
        }
    }
    tensors
}

/// A fingerprint of all of a program: what it prints, the types of kernels, working memory, arguments, and every value
/// that it starts with.
pub(crate) fn fingerprint(program: &Program) -> String {
    let mut print = Fingerprint::new().add(program.to_string().as_bytes());
    for kernel in &program.kernels {
        print = print.add(format!("{:?} {:?};", kernel.inputs, kernel.outputs).as_bytes());
    }
    for buffer in &program.buffers {
        if let Region::State { initial: tensor, .. } | Region::Constant(tensor) = &buffer.region {
            print = print.add(&content_hash(tensor).to_le_bytes());
        }
    }
    for entry in &program.entries {
        for argument in entry.inputs.iter().chain(&entry.outputs) {
            print = print.add(format!("{} {:?};", argument.name, argument.role).as_bytes());
        }
        for launch in launches(entry) {
            print = print.add(format!("{:?};", launch.scratch).as_bytes());
        }
    }
    print.text()
}

/// A tensor as [`files`] names and packs it.
pub(crate) fn constant(tensor: &NamedTensor) -> Option<Tensor> {
    let (_, ty) = tensor.name.split_once(": ")?;
    let ty = parse_type(&mut Cursor::new(ty)).ok()?;
    let TensorData::I8(bytes) = &tensor.data else { return None };
    let bytes: Vec<u8> = bytes.iter().map(|&b| b as u8).collect();
    tensor_from_bytes(&ty, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::{Data, ScaleData, TensorType};

    /// Weights that are exported stand for themselves.
    #[test]
    fn exported_weights_are_found_by_hash() {
        let state = [
            ("w".to_string(), Tensor::i8_shared([2], vec![-127, 3], -4)),
            ("s".to_string(), Tensor::i32_shared([1], vec![7], 2)),
            ("b".to_string(), Tensor::f32([1], vec![0.5])),
        ];
        let known = tensors_of(&crate::weights::export(&state));
        for (name, tensor) in &state {
            let found = known.get(&content_hash(tensor)).unwrap_or_else(|| panic!("{name}"));
            assert!(found.bits_equal(tensor));
        }
    }

    #[test]
    fn constants_of_any_type_come_back() {
        let ty = TensorType { scale: Scale::Exponent, ..TensorType::new([3], Element::I4) };
        let tensor = Tensor::new(ty, Data::I8(vec![-8, 7, 1]), ScaleData::Exponent(5));
        let bytes: Vec<i8> = tensor_bytes(&tensor).into_iter().map(|b| b as i8).collect();
        let name = format!("{:016x}: {}", content_hash(&tensor), tensor.ty());
        let named =
            NamedTensor { name, shape: vec![bytes.len()], data: TensorData::I8(bytes.clone()) };
        assert!(constant(&named).unwrap().bits_equal(&tensor));
        let damaged = NamedTensor { data: TensorData::I8(bytes[1..].to_vec()), ..named };
        assert!(constant(&damaged).is_none());
    }
}
