//! Weights in files beside the model. A location may not leave the model's folder.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use crate::known::ExternalLocation;
use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto, data_location};

/// The folder of a model.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Sizes of the files read from, and bytes read so far.
    read: RefCell<(BTreeMap<PathBuf, u64>, u64)>,
}

impl Folder {
    /// The folder that holds `model`.
    pub(crate) fn of(model: &Path) -> Folder {
        let path = match model.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Folder { path, read: RefCell::default() }
    }

    /// Reads an external location.
    ///
    /// # Errors
    /// In words: an absolute path, a path with `..` or through a link that leaves the folder, not a plain file,
    /// too few bytes, tensors that claim the same bytes over and over, or an error of the system.
    pub(crate) fn read(&self, at: &ExternalLocation) -> Result<Vec<u8>, String> {
        self.read_plain(at).map_err(|reason| format!("external data `{}`: {reason}", at.location))
    }

    fn read_plain(&self, at: &ExternalLocation) -> Result<Vec<u8>, String> {
        const LEAVES: &str = "the path leaves the model's folder";
        let relative = Path::new(&at.location);
        let plain =
            relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !plain || at.location.is_empty() || at.location.contains('\\') {
            return Err(LEAVES.to_string());
        }
        let fail = |e: std::io::Error| e.to_string();
        let root = self.path.canonicalize().map_err(fail)?;
        let path = root.join(relative).canonicalize().map_err(fail)?;
        if !path.starts_with(&root) {
            return Err(LEAVES.to_string());
        }
        let metadata = path.metadata().map_err(fail)?;
        if !metadata.is_file() {
            return Err("not a file".to_string());
        }
        // All checks come before the allocation.
        if at.offset.checked_add(at.length).is_none_or(|end| end > metadata.len()) {
            return Err(format!(
                "{} bytes from byte {} are claimed, the file has {}",
                at.length,
                at.offset,
                metadata.len()
            ));
        }
        let (files, total) = &mut *self.read.borrow_mut();
        files.insert(path.clone(), metadata.len());
        *total = total.saturating_add(at.length);
        if *total / 2 > files.values().sum::<u64>() {
            return Err("tensors share bytes: they claim twice what the files hold".to_string());
        }
        let length = usize::try_from(at.length).map_err(|e| e.to_string())?;
        let mut file = File::open(&path).map_err(fail)?;
        file.seek(SeekFrom::Start(at.offset)).map_err(fail)?;
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }
}

/// The files beside a model that hold weights: each location that a tensor names, once, in order of names. Empty for
/// what is no model.
pub(crate) fn locations(model: &ModelProto) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Some(graph) = &model.graph {
        in_graph(graph, &mut found);
    }
    model.functions.iter().for_each(|f| f.node.iter().for_each(|n| in_node(n, &mut found)));
    found
}

fn in_graph(graph: &GraphProto, found: &mut BTreeSet<String>) {
    graph.initializer.iter().for_each(|t| in_tensor(t, found));
    graph.node.iter().for_each(|n| in_node(n, found));
}

fn in_node(node: &NodeProto, found: &mut BTreeSet<String>) {
    for attribute in &node.attribute {
        attribute.t.iter().for_each(|t| in_tensor(t, found));
        attribute.tensors.iter().for_each(|t| in_tensor(t, found));
        attribute.g.iter().for_each(|g| in_graph(g, found));
        attribute.graphs.iter().for_each(|g| in_graph(g, found));
    }
}

fn in_tensor(tensor: &TensorProto, found: &mut BTreeSet<String>) {
    if tensor.data_location == Some(data_location::EXTERNAL) {
        let location = tensor.external_data.iter().find(|e| e.key == "location");
        found.extend(location.map(|e| e.value.clone()));
    }
}
