//! What can go wrong on the host.

/// Why a program could not be compiled or run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// Cranelift refused, or does not know this machine.
    #[error("code generation: {0}")]
    Codegen(String),
    /// The program is not what the planner promises.
    #[error("the program is not valid: {0}")]
    Program(String),
    /// The program holds something that this target has no memory layout for.
    #[error("not supported on the host: {0}")]
    Unsupported(String),
    /// The caller's arguments do not fit the entry.
    #[error("{0}")]
    Argument(String),
}

impl From<cranelift_module::ModuleError> for HostError {
    fn from(error: cranelift_module::ModuleError) -> HostError {
        HostError::Codegen(format!("{error:?}"))
    }
}
