//! A match of a rule's pattern, as its conditions and computed parts see it.

use std::sync::Arc;

use trainc_ir::types::TensorType;
use trainc_ir::{Element, Op, Tensor};

use super::RuleContext;
use crate::egraph::Id;
use crate::egraph::saturate::{Bindings, View};

/// See the module documentation. Variables go by their names without the question mark; what a match does not have, or is
/// not known, is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Match<'e> {
    context: &'e RuleContext,
    view: View<'e>,
    root: Id,
    bindings: Bindings<'e>,
}

impl<'e> Match<'e> {
    pub(super) fn new(
        context: &'e RuleContext,
        view: View<'e>,
        root: Id,
        bindings: Bindings<'e>,
    ) -> Match<'e> {
        Match { context, view, root, bindings }
    }

    /// Read access to the e-graph.
    pub fn view(&self) -> View<'e> {
        self.view
    }

    /// What is known of the graph besides.
    pub fn context(&self) -> &'e RuleContext {
        self.context
    }

    /// The class that a variable stands for.
    pub fn id(&self, variable: &str) -> Option<Id> {
        self.bindings.get(variable)
    }

    /// The type of a value.
    pub fn ty(&self, variable: &str) -> Option<&'e TensorType> {
        self.view.ty(self.id(variable)?)
    }

    /// The type of the whole.
    pub fn result(&self) -> Option<&'e TensorType> {
        self.view.ty(self.root)
    }

    /// The operation whose attributes a variable stands for.
    pub fn op<T>(&self, variable: &str) -> Option<&'e T>
    where
        &'e T: TryFrom<&'e Op>,
    {
        self.view.attributes(self.id(variable)?)?.try_into().ok()
    }

    /// The constant that a variable stands for.
    pub fn constant(&self, variable: &str) -> Option<&'e Arc<Tensor>> {
        self.context.constant(self.view, self.id(variable)?)
    }

    /// The elements of a constant of i32.
    pub fn integers(&self, variable: &str) -> Option<&'e [i32]> {
        let tensor = self.constant(variable)?;
        (tensor.ty().element == Element::I32).then(|| tensor.as_i32())
    }

    /// The operations that give a value.
    pub fn operations(&self, variable: &str) -> Vec<Op> {
        let operations = self.id(variable).map(|id| self.view.operations(id));
        operations.into_iter().flatten().map(|(op, _)| op).collect()
    }
}
