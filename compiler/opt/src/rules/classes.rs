//! The producers of a class, as those of a value.

use std::sync::Arc;

use trainc_ir::types::TensorType;
use trainc_ir::{Op, Tensor};

use super::RuleContext;
use crate::egraph::Id;
use crate::egraph::saturate::View;
use crate::stage::source::Source;

/// An e-graph with the constants that it knows.
pub(crate) struct Classes<'e> {
    pub(crate) context: &'e RuleContext,
    pub(crate) view: View<'e>,
}

impl Source for Classes<'_> {
    type Id = Id;

    fn ty(&self, id: Id) -> Option<&TensorType> {
        self.view.ty(id)
    }

    fn producers(&self, id: Id) -> Vec<(Op, Vec<Id>)> {
        self.view.operations(id)
    }

    fn constant(&self, id: Id) -> Option<Arc<Tensor>> {
        self.context.constant(self.view, id).cloned()
    }
}
