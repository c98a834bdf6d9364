//! Locals that rounds combine in any order: `local = local op value`.

use trainc_ir::loops::{Binary, Expr, Local, LoopKernel, Node, Scalar, Stmt, each_statement};

use crate::reasons::Reason;
use crate::uses::count_uses;

/// A local that rounds combine: `local = local op value`, with the same bits in any order.
#[derive(Clone, PartialEq, Debug)]
pub struct Reduction {
    /// The local, which nothing else in the body mentions.
    pub local: Local,
    /// An operation that is exact, commutative and associative.
    pub op: Binary,
    /// What a round adds.
    pub value: Expr,
}

impl Reduction {
    /// The reduction that an assignment is. Of floats only the maximum with the local on the right: `a > b ? a : b` of
    /// values that are no zeros of either sign, the order of which does not matter if NaNs leave the local as it is.
    pub fn of(local: Local, value: &Expr) -> Option<Reduction> {
        let Node::Binary(op, a, b) = &*value.node else { return None };
        let is = |e: &Expr| e.as_local() == Some(local);
        let other = match (is(a), is(b)) {
            (false, true) => a,
            (true, false) if value.ty != Scalar::F32 => b,
            _ => return None,
        };
        let exact = match value.ty {
            Scalar::F32 => *op == Binary::Maximum,
            Scalar::Bool => false,
            Scalar::I32 | Scalar::I64 => matches!(
                op,
                Binary::Add
                    | Binary::Minimum
                    | Binary::Maximum
                    | Binary::And
                    | Binary::Or
                    | Binary::Xor
            ),
        };
        let alone = exact && !other.mentions(|l| l == local);
        alone.then(|| Reduction { local, op: *op, value: other.clone() })
    }

    /// Whether a round may be done twice.
    pub fn is_idempotent(&self) -> bool {
        matches!(self.op, Binary::Minimum | Binary::Maximum | Binary::And | Binary::Or)
    }

    /// What changes no value of signed lanes of that many bits (32 at most).
    pub fn identity(&self, bits: u32) -> i32 {
        match self.op {
            Binary::Minimum => i32::MAX >> (32 - bits),
            Binary::Maximum => i32::MIN >> (32 - bits),
            Binary::And => -1,
            _ => 0,
        }
    }

    /// The locals that a loop's rounds combine, in the order of the text; `uses` counts all mentions of each local in the
    /// kernel. That a round sets its other locals before it reads them is left to whoever reads its statements.
    ///
    /// # Errors
    /// If something outside asks for a local that the body sets otherwise.
    pub fn all(
        kernel: &LoopKernel,
        body: &[Stmt],
        uses: &[usize],
    ) -> Result<Vec<Reduction>, Reason> {
        let own = count_uses(kernel, body);
        let (mut reductions, mut refused) = (Vec::new(), None);
        each_statement(body, &mut |statement| {
            let Some(local) = statement.sets() else { return };
            let at = local.0 as usize;
            let reduction = match statement {
                // The assignment and its value mention it.
                Stmt::Assign(_, value) if own[at] == 2 => Reduction::of(local, value),
                _ => None,
            };
            match reduction {
                Some(reduction) => reductions.push(reduction),
                None if own[at] == uses[at] => {}
                None if kernel.locals[at].1 == Scalar::F32 => {
                    refused.get_or_insert(Reason::FloatOrder(local));
                }
                None => _ = refused.get_or_insert(Reason::UsedOutside(local)),
            }
        });
        refused.map_or(Ok(reductions), Err)
    }
}
