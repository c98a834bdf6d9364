//! How a target runs a kernel: chosen once by a target's `select` and carried along. Extraction
//! asks it for its cost, planning for its working memory and what it demands, the target's emission for its code.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::loops::LoopKernel;
use crate::loops::scratch::loop_scratch;
use crate::ops::Op;
use crate::program::DeviceId;
use crate::types::{Element, TensorType};

/// Cost of a kernel on a target, in the target's own unit (an estimate of cycles). Saturating.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cost(u64);

impl Cost {
    /// No cost.
    pub const ZERO: Cost = Cost(0);
    /// The target cannot run it, or must not.
    pub const INFEASIBLE: Cost = Cost(u64::MAX);

    /// A cost; the largest number is reserved.
    pub fn new(cycles: u64) -> Cost {
        Cost(cycles.min(u64::MAX - 1))
    }

    /// The number; `None` if infeasible.
    pub fn cycles(self) -> Option<u64> {
        (self != Cost::INFEASIBLE).then_some(self.0)
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        if self == Cost::INFEASIBLE || other == Cost::INFEASIBLE {
            Cost::INFEASIBLE
        } else {
            Cost::new(self.0.saturating_add(other.0))
        }
    }
}

/// Whose memory a kernel's operands and results lie in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Memory {
    /// The program's: each tensor as aligned as the target's buffers are.
    Program,
    /// Some the caller's: aligned as their elements are.
    Caller,
}

/// What is to be run: an operation on types.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Signature<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Operand types.
    pub inputs: &'a [&'a TensorType],
    /// Result types.
    pub outputs: &'a [&'a TensorType],
    /// Where they lie.
    pub memory: Memory,
}

impl<'a> Signature<'a> {
    /// An operation in the program's memory.
    pub fn new(
        op: &'a Op,
        inputs: &'a [&'a TensorType],
        outputs: &'a [&'a TensorType],
    ) -> Signature<'a> {
        Signature { op, inputs, outputs, memory: Memory::Program }
    }

    /// The operations, each applied to the result so far: those of a chain, or the only one.
    pub fn ops(&self) -> &'a [Op] {
        match self.op {
            Op::Chain(chain) => &chain.ops,
            op => std::slice::from_ref(op),
        }
    }

    /// Its generic loops.
    pub fn lower(&self) -> LoopKernel {
        self.op.lower(self.inputs, self.outputs)
    }

    /// Its generic loops for machines that run many rounds at a time.
    pub fn lower_apart(&self) -> LoopKernel {
        self.op.lower_apart(self.inputs, self.outputs)
    }
}

/// A target's way of running a kernel.
pub trait Implementation: Any + Debug + Send + Sync {
    /// What it is, for readers: `loops`, `window products`.
    fn name(&self) -> &'static str;

    /// An estimate of what a launch costs.
    fn cost(&self) -> Cost;

    /// What a launch costs on a device, where the target has [`switch_cost`](crate::target::Target::switch_cost): in its
    /// unit.
    fn device_cost(&self, device: DeviceId) -> Cost {
        if device == DeviceId(0) { self.cost() } else { Cost::INFEASIBLE }
    }

    /// Working memory of a launch in bytes.
    fn scratch_bytes(&self) -> usize;

    /// Elements whose operands and results must lie in the program's memory, since vectors read and write them whole; a
    /// kernel that meets them in the caller's is selected anew, for [`Memory::Caller`].
    fn aligned_elements(&self) -> &'static [Element] {
        &[]
    }

    /// Innermost loops of which a round runs at a time, each by its variable with the reason, where the target's plans for
    /// vectors tell. Worked out when it is asked for.
    fn scalar_loops(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A way that was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declined {
    /// Its name.
    pub name: &'static str,
    /// Why it does not suit.
    pub reason: String,
}

/// How one machine runs a product under [`Splitting`](crate::batch_split::Splitting).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitOutcome {
    /// The machine.
    pub device: &'static str,
    /// All of it.
    pub whole: String,
    /// What is taken at a time, if not all.
    pub part: Option<String>,
    /// Why.
    pub reason: String,
}

/// What a target answers to a [`Signature`].
#[derive(Clone, Debug)]
pub struct Selection {
    implementation: Arc<dyn Implementation>,
    /// The other ways that the target has for such an operation, best first.
    pub declined: Vec<Declined>,
    /// Whether a product takes its batch in parts, on each machine, where that was asked for.
    pub splits: Vec<SplitOutcome>,
}

impl Selection {
    /// A way without alternatives.
    pub fn new(implementation: impl Implementation) -> Selection {
        let implementation = Arc::new(implementation);
        Selection { implementation, declined: Vec::new(), splits: Vec::new() }
    }

    /// The generic loops at a cost, where a target has nothing else.
    pub fn loops(signature: &Signature<'_>, cost: Cost) -> Selection {
        Selection::known("loops", cost, loop_scratch(&signature.lower()).1)
    }

    /// A way of which no more is known.
    pub fn known(name: &'static str, cost: Cost, scratch_bytes: usize) -> Selection {
        Selection::new(Known { name, cost, scratch_bytes })
    }

    /// With what is said of its batch.
    #[must_use]
    pub fn with_splits(self, splits: Vec<SplitOutcome>) -> Selection {
        Selection { splits, ..self }
    }

    /// See [`Implementation::name`].
    pub fn name(&self) -> &'static str {
        self.implementation.name()
    }

    /// See [`Implementation::cost`].
    pub fn cost(&self) -> Cost {
        self.implementation.cost()
    }

    /// See [`Implementation::device_cost`].
    pub fn device_cost(&self, device: DeviceId) -> Cost {
        self.implementation.device_cost(device)
    }

    /// See [`Implementation::scratch_bytes`].
    pub fn scratch_bytes(&self) -> usize {
        self.implementation.scratch_bytes()
    }

    /// See [`Implementation::aligned_elements`].
    pub fn aligned_elements(&self) -> &'static [Element] {
        self.implementation.aligned_elements()
    }

    /// See [`Implementation::scalar_loops`].
    pub fn scalar_loops(&self) -> Vec<String> {
        self.implementation.scalar_loops()
    }

    /// The implementation as the target made it; `None` if another target did.
    pub fn implementation<T: Implementation>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.implementation;
        any.downcast_ref()
    }
}

/// By what it is, not how it is kept.
impl PartialEq for Selection {
    fn eq(&self, other: &Selection) -> bool {
        (self.name(), self.cost(), &self.declined) == (other.name(), other.cost(), &other.declined)
    }
}

/// Asks the ways that a target has, best first, and notes why they do not suit.
#[derive(Debug, Default)]
pub struct Ways(Vec<Declined>);

impl Ways {
    /// Whether a way suits. It answers `None` about operations that are none of its business, and a reason about those
    /// that it has a kernel for, but not for these types.
    pub fn ask<T>(&mut self, name: &'static str, answer: Option<Result<T, String>>) -> Option<T> {
        match answer? {
            Ok(way) => Some(way),
            Err(reason) => {
                self.0.push(Declined { name, reason });
                None
            }
        }
    }

    /// The way that is taken.
    pub fn take(self, implementation: impl Implementation) -> Selection {
        Selection { declined: self.0, ..Selection::new(implementation) }
    }
}

/// See [`Selection::known`].
#[derive(Debug)]
struct Known {
    name: &'static str,
    cost: Cost,
    scratch_bytes: usize,
}

impl Implementation for Known {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Relu;

    #[test]
    fn ways_are_asked_in_turn_and_say_why_not() {
        let ty = TensorType::f32([3]);
        let (op, types) = (Op::from(Relu {}), [&ty]);
        let signature = Signature::new(&op, &types, &types);
        let mut ways = Ways::default();
        assert_eq!(ways.ask::<u8>("of others", None), None);
        assert_eq!(ways.ask::<u8>("narrow", Some(Err("the operand is f32".into()))), None);
        assert_eq!(ways.ask("wide", Some(Ok(7))), Some(7));
        let selection = ways.take(Known { name: "wide", cost: Cost::new(5), scratch_bytes: 0 });
        let reason = "the operand is f32".to_string();
        assert_eq!(selection.declined, [Declined { name: "narrow", reason }]);
        assert!(selection.implementation::<Known>().is_some());
        assert_ne!(selection, Selection::loops(&signature, Cost::new(5)));
    }
}
