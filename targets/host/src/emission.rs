//! Artifacts.
use trainc_ir::program::Program;
use trainc_ir::target::ArtifactFile;
use crate::HostError;
pub(crate) fn emit(_program: &Program) -> Result<Vec<ArtifactFile>, HostError> { Err(HostError::Unsupported("emission".into())) }
