//! The weights of the configuration's file in place of the model's.

#[cfg(feature = "host")]
use std::path::Path;
#[cfg(feature = "host")]
use std::sync::Arc;

#[cfg(feature = "host")]
use trainc_ir::Tensor;
use trainc_ir::graph::Graph;
use trainc_onnx_import::Imported;

use super::Compilation;
#[cfg(feature = "host")]
use super::{Entries, Session};
use crate::config::Config;
use crate::error::Result;
#[cfg(not(feature = "host"))]
use crate::error::ensure;
#[cfg(feature = "host")]
use crate::initial::{self, Contents, InitialState};
use crate::model::ModelSource;

/// The weights that the configuration's file gave, if it names one; a build without the feature `host` has none.
#[cfg(feature = "host")]
pub(super) type Initial = Option<InitialState>;
/// See above.
#[cfg(not(feature = "host"))]
pub(super) type Initial = Option<std::convert::Infallible>;

/// Gives the model, and that for inference, the weights of the configuration's file, if it names one.
///
/// # Errors
/// If the file cannot be read, or does not fit the model.
#[cfg(feature = "host")]
pub(super) fn read(
    source: &ModelSource,
    config: &Config,
    imported: &mut Imported,
    inferring: Option<&mut Imported>,
    warnings: &mut Vec<String>,
) -> Result<Initial> {
    let Some(path) = &config.weights else { return Ok(None) };
    let state = initial_state(path, source, config)?;
    warnings.extend(state.apply(imported, config)?);
    if let Some(imported) = inferring {
        state.apply(imported, config)?;
    }
    Ok(Some(state))
}

/// [`read`] of a build that reads no data.
#[cfg(not(feature = "host"))]
pub(super) fn read(
    _source: &ModelSource,
    config: &Config,
    _imported: &mut Imported,
    _inferring: Option<&mut Imported>,
    _warnings: &mut Vec<String>,
) -> Result<Initial> {
    ensure!(config.weights.is_none(), "weights: reading them needs the cargo feature `host`");
    Ok(None)
}

/// The tensors of a file of weights. The state of a device is one of `source` under `config`: model, algorithm and frozen
/// parts must be those that it was compiled with.
///
/// # Errors
/// If the file cannot be read, is damaged, or is the state of another model.
#[cfg(feature = "host")]
pub(crate) fn initial_state(
    path: &Path,
    source: &ModelSource,
    config: &Config,
) -> Result<InitialState> {
    let state = match initial::read(path)? {
        Contents::Tensors(state) => return Ok(state),
        Contents::Device(state) => state,
    };
    let config = Config { weights: None, target: Config::default().target, ..config.clone() };
    let session = Session::new(source, &config, Entries::TrainAndInfer)?;
    let names = session.state_names();
    let tensors = state.tensors(session.program(), &names, &session.algorithm.name)?;
    Ok(InitialState::of(path, &[tensors, session.frozen_tensors()].concat()))
}

impl Compilation {
    /// Gives parameters of a module that the file of weights has in their stored form that form, bit for bit.
    pub(super) fn with_stored(&self, module: Graph) -> Graph {
        #[cfg(feature = "host")]
        if let Some(initial) = &self.initial {
            // What an optimizer keeps in FP32 is no parameter of the model.
            let model = &self.imported.graph;
            let state = |name: &str| model.parameter_named(name).is_none();
            return crate::select::with_initial(&module, |name, old| {
                let kept = initial.real(name).filter(|(shape, _)| {
                    old.ty().is_f32() && state(name) && **shape == *old.shape().dims()
                });
                match kept {
                    Some((shape, values)) => Arc::new(Tensor::f32(shape, values.to_vec())),
                    None => initial.stored(name, old.ty()).map_or_else(|| old.clone(), Arc::new),
                }
            });
        }
        #[cfg(not(feature = "host"))]
        if let Some(never) = self.initial {
            match never {}
        }
        module
    }
}
