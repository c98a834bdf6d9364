//! One way to look at a value's producers, in a graph and in an e-graph.

use std::sync::Arc;

use trainc_ir::graph::{Graph, ValueId};
use trainc_ir::types::TensorType;
use trainc_ir::{Op, Tensor};

/// Values with producers.
pub(crate) trait Source {
    /// A value, or a class of equal ones.
    type Id: Copy;
    /// The type of a value.
    fn ty(&self, id: Self::Id) -> Option<&TensorType>;
    /// The operations that give it, with their operands.
    fn producers(&self, id: Self::Id) -> Vec<(Op, Vec<Self::Id>)>;
    /// Its value, if that is known.
    fn constant(&self, id: Self::Id) -> Option<Arc<Tensor>>;
}

impl Source for Graph {
    type Id = ValueId;

    fn ty(&self, id: ValueId) -> Option<&TensorType> {
        Some(Graph::ty(self, id))
    }

    fn producers(&self, id: ValueId) -> Vec<(Op, Vec<ValueId>)> {
        let single = self.producer(id).filter(|node| node.outputs.len() == 1);
        single.map(|node| (node.op.clone(), node.inputs.clone())).into_iter().collect()
    }

    fn constant(&self, id: ValueId) -> Option<Arc<Tensor>> {
        self.constant_of(id).cloned()
    }
}
