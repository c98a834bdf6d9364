//! The rewrite rules of the optimiser, by subject.
//!
//! A rule finds, for a class of the e-graph, terms that are equal to it. How equal is part of its type: [`Exactness::Bit`]
//! rules keep every bit, [`Exactness::Ulp`] rules may move a float by that many units in the last place and are left
//! out of exact compilation. Each rule brings random instances of its left side; a test applies it alone to them and
//! compares the interpreter's bits. A rule that never fires on its own instances fails that test.

mod batch_norm;
mod fusion;
pub mod instance;
pub(crate) mod movement;
mod quantize;
mod rescale;
pub(crate) mod stages;
mod unsigned;

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_ir::{Op, Tensor};

use crate::egraph::Id;
use crate::egraph::saturate::{Body, Replacement, Rewrite, View};
use instance::Random;

/// How equal both sides of a rule are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exactness {
    /// The same bits.
    Bit,
    /// Floats within that many units in the last place of the largest magnitude in the result.
    Ulp(u32),
}

/// What rules may know of the graph besides the e-graph: its constants.
#[derive(Clone, Debug, Default)]
pub struct RuleContext {
    constants: Arc<BTreeMap<ValueId, Arc<Tensor>>>,
}

impl RuleContext {
    /// The context of a graph.
    pub fn of(graph: &Graph) -> RuleContext {
        let constants = graph
            .value_ids()
            .filter_map(|v| match &graph.value(v).definition {
                Definition::Constant(tensor) => Some((v, tensor.clone())),
                _ => None,
            })
            .collect();
        RuleContext { constants: Arc::new(constants) }
    }

    /// The constant tensor in a class.
    pub fn constant<'a>(&'a self, view: View<'a>, id: Id) -> Option<&'a Arc<Tensor>> {
        view.leaf(id).and_then(|v| self.constants.get(&v)).or_else(|| view.introduced(id))
    }
}

/// A rewrite rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// A claim in kebab case.
    pub name: &'static str,
    /// One line: left side, right side, condition.
    pub summary: &'static str,
    /// How equal the sides are.
    pub exactness: Exactness,
    /// Finds terms equal to a class.
    pub search: fn(&RuleContext, View<'_>, Id) -> Vec<Replacement>,
    /// A random graph whose only output holds the rule's left side.
    pub instance: fn(&mut Random) -> Graph,
}

impl Rule {
    /// The rule as the e-graph takes it.
    pub fn rewrite(&self, context: &RuleContext) -> Rewrite {
        let (search, context) = (self.search, context.clone());
        Rewrite {
            name: self.name.to_string(),
            body: Body::Search(Arc::new(move |view, id| search(&context, view, id))),
        }
    }
}

/// Every rule, in the order that `--opt=ordered` applies them.
pub fn rules() -> Vec<Rule> {
    [
        movement::RULES,
        quantize::RULES,
        batch_norm::RULES,
        rescale::RULES,
        stages::RULES,
        unsigned::RULES,
        fusion::RULES,
    ]
    .concat()
}

/// The operations of one kind in a class, by a projection such as `|op| match op { Op::Relu(r) => Some(r), _ => None }`.
fn find<T>(view: View<'_>, id: Id, project: impl Fn(&Op) -> Option<T>) -> Vec<(T, Op, Vec<Id>)> {
    view.operations(id)
        .into_iter()
        .filter_map(|(op, operands)| project(&op).map(|found| (found, op, operands)))
        .collect()
}

/// Finds operations of one variant: `matching!(view, id, Relu)`.
macro_rules! matching {
    ($view:expr, $id:expr, $variant:ident) => {
        $crate::rules::find($view, $id, |op| match op {
            trainc_ir::Op::$variant(found) => Some(found.clone()),
            _ => None,
        })
    };
}
use matching;
