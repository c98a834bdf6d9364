//! An artifact that was read: its program, planned again of what it keeps ([`crate::stored`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use trainc_data::{read_safetensors, read_safetensors_bytes};
use trainc_ir::batch_split::Splitting;
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::program::{DeviceId, Program};
use trainc_ir::target::Target;
use trainc_ir::text::{content_hash, parse_graph};
use trainc_ir::{Op, Verified};
use trainc_opt::plan::devices::with_devices;
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};

use crate::error::{Context, InFile, Result, ensure};
use crate::hash::FileFingerprint;
use crate::options::micro_batch::MicroBatches;
use crate::session::own_scratch;
use crate::stored::{CONSTANTS, MANIFEST, WEIGHTS, constant, fingerprint, module_file, tensors_of};
use crate::{model, targets};

/// What of the manifest counts here.
#[derive(Deserialize)]
struct Manifest {
    format: u32,
    trainc: String,
    target: String,
    model: Model,
    #[serde(default)]
    flags: Flags,
    program: Option<String>,
    #[serde(default)]
    schedule: Vec<ManifestPoint>,
    #[serde(default)]
    scheduled: Vec<ManifestScheduled>,
    entries: Vec<ManifestEntry>,
    files: Vec<ManifestFile>,
}

#[derive(Default, Deserialize)]
struct Flags {
    #[serde(default)]
    arena_limit: Option<usize>,
    #[serde(default)]
    micro_batch: MicroBatches,
    #[serde(default)]
    local_memory: Option<usize>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
}

#[derive(Deserialize)]
struct ManifestEntry {
    name: String,
    #[serde(default)]
    devices: Option<Vec<usize>>,
}

#[derive(Deserialize)]
struct ManifestPoint {
    step_size: f64,
}

#[derive(Deserialize)]
struct ManifestScheduled {
    name: String,
    points: Vec<ManifestValue>,
}

#[derive(Deserialize)]
struct ManifestValue {
    value: f64,
}

#[derive(Deserialize)]
struct ManifestFile {
    name: String,
    hash: String,
}

/// What schedules give: the values of their points.
pub(crate) struct Rates {
    /// Of the step size.
    pub(crate) learning_rates: Vec<f64>,
    /// Of other inputs, by name.
    pub(crate) scheduled: BTreeMap<String, Vec<f64>>,
}

/// An artifact that was read.
pub(crate) struct Artifact {
    pub(crate) target: &'static dyn Target,
    /// The optimised module of each entry, in the program's order.
    pub(crate) modules: Vec<Graph>,
    pub(crate) program: Verified<Program>,
    /// Values of the schedules.
    pub(crate) rates: Rates,
    /// Files that are not as trainc wrote them.
    pub(crate) edited: Vec<String>,
}

/// Reads an artifact's folder and plans its program again.
///
/// # Errors
/// If it is not an artifact, lacks a file, has another module or weight than the manifest says, or gives another
/// program than the one that was emitted.
pub(crate) fn read(folder: &Path) -> Result<Artifact> {
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
        if FileFingerprint::of(&bytes) != file.hash {
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
    let Flags { arena_limit, micro_batch, local_memory: local_bytes } = manifest.flags;
    let splitting = Splitting { micro_batch: micro_batch.0, local_bytes };
    let options = PlanOptions { arena_limit, splitting, ..PlanOptions::default() };
    let (mut program, _) = plan(&manifest.model.name, &entries, target, &options)
        .with_context(|| folder.display().to_string())?;
    let devices = |entry: &ManifestEntry| {
        Some(entry.devices.as_ref()?.iter().map(|&device| DeviceId(device)).collect())
    };
    if let Some(devices) = manifest.entries.iter().map(devices).collect::<Option<Vec<_>>>() {
        program = with_devices(program, &devices).map_err(|e| fail(MANIFEST, e.0.join("; ")))?;
    }
    program =
        own_scratch(program, target, arena_limit).with_context(|| folder.display().to_string())?;
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
    let values = |points: Vec<ManifestValue>| points.iter().map(|point| point.value).collect();
    let scheduled =
        manifest.scheduled.into_iter().map(|input| (input.name, values(input.points))).collect();
    let rates = Rates { learning_rates, scheduled };
    Ok(Artifact { target, modules, program, rates, edited })
}

impl Artifact {
    /// The model's names of the state, in the order of [`Program::state`].
    pub(crate) fn state_names(&self) -> Vec<String> {
        model::state_names(self.modules.iter())
    }

    /// Number of classes that labels name: columns of what they are compared with.
    pub(crate) fn classes(&self) -> usize {
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

    /// Number of rows that indices of data name, if data are indices: the fewest.
    pub(crate) fn rows(&self) -> Option<usize> {
        let nodes =
            self.modules.iter().flat_map(|graph| graph.nodes().iter().map(move |n| (graph, n)));
        let rows = nodes.filter_map(|(graph, node)| match &node.op {
            Op::Gather(gather) if graph.constant_of(node.inputs[1]).is_none() => {
                Some(graph.ty(node.inputs[0]).shape[gather.axis])
            }
            _ => None,
        });
        rows.min()
    }
}
