//! `dropout`. See [`Dropout`].

use crate::attributes::F32;
use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// Elements dropped at random (a draw of `stream` for each element of each step). FP32: kept ones times
    /// `1 / (1 - ratio)`. i8 with a shared exponent (ratio 0.5 only): the exponent grows by one. Its
    /// gradient is the same operation on the error: the mask is drawn again.
    pub struct Dropout = "dropout" {
        /// Probability of dropping, in [0, 1).
        pub ratio: F32,
        /// Which random stream.
        pub stream: u32,
    }
}

impl Operator for Dropout {
    fn infer(&self, _inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        todo!()
    }

    fn evaluate(&self, _inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        todo!()
    }

    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        todo!()
    }

    fn lower(&self, _inputs: &[&TensorType], _outputs: &[&TensorType]) -> LoopKernel {
        todo!()
    }

    fn cases() -> Vec<Case> {
        todo!()
    }
}
