//! What can go wrong in the machine layer.

/// An error of the machine layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// An instruction was written with operands that it cannot have.
    #[error("{function}: {reason}")]
    Operand {
        /// The function.
        function: String,
        /// Why.
        reason: String,
    },
    /// The version lacks an instruction.
    #[error("{function}: {instruction} is not in {version}")]
    Version {
        /// The function.
        function: String,
        /// The instruction's form.
        instruction: String,
        /// The version asked for.
        version: super::registers::Version,
    },
    /// Structure that the layer cannot express.
    #[error("{function}: {reason}")]
    Structure {
        /// The function.
        function: String,
        /// Why.
        reason: String,
    },
    /// No assignment of registers was found, even with spilling.
    #[error("{function}: cannot allocate {register}")]
    Allocation {
        /// The function.
        function: String,
        /// The register.
        register: String,
    },
    /// The evaluator met something that has no meaning.
    #[error("evaluation: {0}")]
    Evaluation(String),
}
