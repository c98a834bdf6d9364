//! What an artifact keeps of its program, and the program from it.
//!
//! An artifact holds each entry's optimised module as text, `ENTRY.module.txt`. Tensors of more than a few elements
//! stand there as hashes; they are those of `weights.safetensors`, and what that has no form for is in
//! `constants.safetensors`. Planning the modules again gives the program, whose fingerprint must be the manifest's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use trainc_data::{
    NamedTensor, TensorData, read_safetensors, read_safetensors_bytes, safetensors_bytes,
};
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::harness::launches;
use trainc_ir::program::{Program, Region};
use trainc_ir::target::{ArtifactFile, Target};
use trainc_ir::tensor_bytes::{tensor_bytes, tensor_from_bytes};
use trainc_ir::text::cursor::Cursor;
use trainc_ir::text::{Printer, content_hash, parse_graph, parse_type};
use trainc_ir::{Tensor, Verified};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};

use crate::emit::{MANIFEST, WEIGHTS};
use crate::error::{Context, InFile, Result, ensure};
use crate::hash::Fingerprint;
use crate::session::Session;
use crate::targets;

/// Tensors of modules that are not among the weights.
const CONSTANTS: &str = "constants.safetensors";

/// The file of an entry's module.
pub(crate) fn module_file(entry: &str) -> String {
    format!("{entry}.module.txt")
}

/// The files with the modules of a session, beside the weights that were exported.
///
/// # Errors
/// If the session has no modules.
pub(crate) fn files(session: &Session, weights: &[NamedTensor]) -> Result<Vec<ArtifactFile>> {
    let printer = Printer::default();
    let known = tensors_of(weights);
    let (mut files, mut constants) = (Vec::new(), BTreeMap::new());
    for entry in &session.entries {
        let (module, _) = entry.optimised.as_ref().context("the modules are not optimised")?;
        let text = printer.graph(module);
        files.push(ArtifactFile { name: module_file(entry.name), contents: text.into_bytes() });
        for (hash, tensor) in printer.blobs(module) {
            if !known.contains_key(&hash) {
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
fn tensors_of(weights: &[NamedTensor]) -> BTreeMap<u64, Arc<Tensor>> {
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

/// What of the manifest counts here.
#[derive(Deserialize)]
struct Manifest {
    format: u32,
    trainc: String,
    target: String,
    model: Model,
    program: Option<String>,
    #[serde(default)]
    schedule: Vec<ManifestPoint>,
    entries: Vec<ManifestEntry>,
    files: Vec<ManifestFile>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
}

#[derive(Deserialize)]
struct ManifestEntry {
    name: String,
}

#[derive(Deserialize)]
struct ManifestPoint {
    step_size: f64,
}

#[derive(Deserialize)]
struct ManifestFile {
    name: String,
    hash: String,
}

/// An artifact that was read.
pub(super) struct Artifact {
    pub(super) target: &'static dyn Target,
    /// The optimised module of each entry, in the program's order.
    pub(super) modules: Vec<Graph>,
    pub(super) program: Verified<Program>,
    /// Step sizes of the schedule.
    pub(super) learning_rates: Vec<f64>,
    /// Files that are not as trainc wrote them.
    pub(super) edited: Vec<String>,
}

/// Reads an artifact's folder and plans its program again.
///
/// # Errors
/// If it is not an artifact, lacks a file, has another module or weight than the manifest says, or gives another
/// program than the one that was emitted.
pub(super) fn read(folder: &Path) -> Result<Artifact> {
    let fail = |file: &str, message: String| InFile::new(&folder.join(file), message);
    let text = std::fs::read_to_string(folder.join(MANIFEST)).map_err(|e| {
        InFile::new(folder, format!("not an artifact of `trainc compile`: {MANIFEST}: {e}"))
    })?;
    let manifest: Manifest = serde_json::from_str(&text)
        .map_err(|e| fail(MANIFEST, format!("not a manifest of trainc: {e}")))?;
    let by = format!("made by trainc {}, this is {}", manifest.trainc, env!("CARGO_PKG_VERSION"));
    let Some(expected) = manifest.program.filter(|_| manifest.format == 1) else {
        return Err(fail(MANIFEST, format!("of another format ({by}); compile again")).into());
    };
    let target = targets::find(&manifest.target)
        .map_err(|e| fail(MANIFEST, format!("{e} in this build")))?;
    let mut edited = Vec::new();
    for file in &manifest.files {
        let plain = Path::new(&file.name).file_name() == Some(file.name.as_ref());
        ensure!(plain, fail(MANIFEST, format!("`{}` names no file of the folder", file.name)));
        let bytes = std::fs::read(folder.join(&file.name))
            .map_err(|e| fail(&file.name, format!("the manifest names it: {e}")))?;
        if Fingerprint::new().add(&bytes).text() != file.hash {
            edited.push(file.name.clone());
        }
    }
    let listed = |name: &str| manifest.files.iter().any(|f| f.name == name);
    let unchanged = |name: &str| {
        ensure!(listed(name), fail(name, "the manifest does not list it".to_string()));
        let same = !edited.iter().any(|f| f == name);
        ensure!(same, fail(name, "it was edited since trainc wrote it; compile again".to_string()));
        Ok(folder.join(name))
    };
    let mut tensors = tensors_of(&read_safetensors(&unchanged(WEIGHTS)?)?);
    if listed(CONSTANTS) {
        let path = unchanged(CONSTANTS)?;
        let bytes = std::fs::read(&path).map_err(|e| fail(CONSTANTS, e.to_string()))?;
        for tensor in read_safetensors_bytes(&bytes, &path.display().to_string())? {
            let tensor = constant(&tensor)
                .ok_or_else(|| fail(CONSTANTS, format!("`{}` is not a constant", tensor.name)))?;
            tensors.insert(content_hash(&tensor), Arc::new(tensor));
        }
    }
    let mut modules = Vec::new();
    for entry in &manifest.entries {
        let name = module_file(&entry.name);
        let text =
            std::fs::read_to_string(unchanged(&name)?).map_err(|e| fail(&name, e.to_string()))?;
        let module = parse_graph(&text, &|hash| tensors.get(&hash).cloned())
            .map_err(|e| fail(&name, e.to_string()))?;
        modules.push(module);
    }
    let named = manifest.entries.iter().zip(&modules);
    let entries: Vec<PlanEntry<'_>> =
        named.map(|(entry, graph)| PlanEntry { name: &entry.name, graph }).collect();
    let (program, _) = plan(&manifest.model.name, &entries, target, &PlanOptions::default())
        .with_context(|| folder.display().to_string())?;
    let found = fingerprint(&program);
    ensure!(
        found == expected,
        fail(
            MANIFEST,
            format!(
                "this trainc plans another program ({found}) of these modules than the one that was emitted \
                 ({expected}; {by}); compile again"
            )
        )
    );
    let learning_rates = manifest.schedule.iter().map(|point| point.step_size).collect();
    Ok(Artifact { target, modules, program, learning_rates, edited })
}

/// A tensor as [`files`] names and packs it.
fn constant(tensor: &NamedTensor) -> Option<Tensor> {
    let (_, ty) = tensor.name.split_once(": ")?;
    let ty = parse_type(&mut Cursor::new(ty)).ok()?;
    let TensorData::I8(bytes) = &tensor.data else { return None };
    let bytes: Vec<u8> = bytes.iter().map(|&b| b as u8).collect();
    tensor_from_bytes(&ty, &bytes)
}

impl Artifact {
    /// The model's names of the state, in the order of [`Program::state`].
    pub(super) fn state_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for graph in &self.modules {
            for parameter in graph.parameters() {
                let name = &graph.value(parameter.value).name;
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Number of classes that labels name: columns of what they are compared with.
    pub(super) fn classes(&self) -> usize {
        for graph in &self.modules {
            let Some(labels) = graph.input_of_role(InputRole::Labels) else { continue };
            let users = graph.nodes().iter().filter(|n| n.inputs.contains(&labels));
            let columns = users.flat_map(|n| &n.inputs).filter_map(|&id| {
                let shape = graph.ty(id).shape.dims();
                (shape.len() > 1).then(|| shape.last().copied()).flatten()
            });
            if let Some(columns) = columns.min() {
                return columns.max(1);
            }
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::{Data, Element, Scale, ScaleData, TensorType};

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
