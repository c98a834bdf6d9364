//! `loops`. See [`Loops`].

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::loops::{LoopKernel, evaluate};
use crate::ops::properties::Work;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::text::cursor::{Cursor, SyntaxError};
use crate::types::TensorType;

/// Loops as they are: their meaning is [`evaluate::run`].
///
/// Programs alone make it. It is not part of the language: no text names it, so that whoever makes it answers for its loads
/// and stores being in bounds.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Loops {
    /// What it is, for readers.
    pub name: String,
    /// The loops.
    pub kernel: Arc<LoopKernel>,
    /// Types of the operands.
    pub inputs: Vec<TensorType>,
    /// Types of the results.
    pub outputs: Vec<TensorType>,
}

impl Attributes for Loops {
    const NAME: &'static str = "loops";
    const SUMMARY: &'static str = "Loops as they are.";
    const FIELDS: &'static [&'static str] = &[];

    fn print(&self, out: &mut String) {
        out.push_str(&format!("{{{}}}", self.name));
    }

    fn field_text(&self, _name: &str) -> Option<String> {
        None
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Loops, SyntaxError> {
        Err(cursor.error("`loops` cannot be read from text"))
    }

    fn canonical(name: &str, _value: &str) -> Result<String, SyntaxError> {
        Err(Cursor::new(name).error("`loops` cannot be read from text"))
    }
}

impl Operator for Loops {
    const WORK: Work = Work::Little;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        match inputs.iter().copied().eq(&self.inputs) {
            true => Ok(self.outputs.clone()),
            false => Err(TypeError::new("loops: other operands than these are made for")),
        }
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        evaluate::run(&self.kernel, inputs, &self.outputs, run)
    }

    fn lower(&self, _inputs: &[&TensorType], _outputs: &[&TensorType]) -> LoopKernel {
        LoopKernel::clone(&self.kernel)
    }

    /// None: there are as many as there are loops.
    fn cases() -> Vec<Case> {
        Vec::new()
    }
}
