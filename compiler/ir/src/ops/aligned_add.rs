//! `aligned_add`. See [`AlignedAdd`].

use crate::graph::{Graph, ValueId};
use crate::loops::LoopKernel;
use crate::operator;
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::TensorType;

operator! {
    /// NITI's residual addition of two i8 with shared exponents `ea`, `eb`, NumPy broadcasting. D = |ea -
    /// eb|: D > 1: the operand with the smaller exponent is shifted right by D (pseudo-stochastic),
    /// exponent the larger; D = 1: the operand with the larger exponent is doubled, exponent the smaller; D
    /// = 0: as they are. If max |sum| > 127 the sum is shifted right by 2 (pseudo-stochastic), clamped to
    /// +-127, exponent + 2.
    pub struct AlignedAdd = "aligned_add" {
    }
}

impl Operator for AlignedAdd {
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
