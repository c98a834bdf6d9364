//! The rewrite rules of the optimiser, by subject.
//!
//! A rule says what is equal to a term: patterns ([`Patterns`]: pairs of left and right sides with conditions and
//! computed parts), or Rust code where a pattern cannot say it, with the reason. How equal is part of its type:
//! [`Exactness::Bit`] rules keep every bit, [`Exactness::Ulp`] rules may move a float by that many units in the last place
//! and are left out of exact compilation. Beside it stands how random instances of its left side are drawn; a test
//! applies the rule alone to them and compares the interpreter's bits.

mod batch_norm;
mod binary;
mod bytes;
mod classes;
mod fusion;
pub mod instance;
pub mod matched;
pub(crate) mod movement;
mod quantize;
mod rescale;
mod signs;
pub(crate) mod stages;
mod unsigned;

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::Tensor;
use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_ir::target::Target;

use crate::algorithm::read_guard;
use crate::egraph::Id;
use crate::egraph::pattern::{members, rewrite_by};
use crate::egraph::saturate::{Body, Replacement, Rewrite, Term, View};
use instance::Instance;
use matched::Match;

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
    /// Whether a gradient's product may subtract it from the weights.
    pub(crate) updates_in_products: bool,
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
        RuleContext { constants: Arc::new(constants), updates_in_products: true }
    }

    /// The same, where the target has kernels for what rules make.
    #[must_use]
    pub fn on(self, target: &dyn Target) -> RuleContext {
        RuleContext { updates_in_products: target.updates_in_products(), ..self }
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
    /// The sides.
    pub sides: Sides,
    /// How random graphs that hold the left side are made.
    pub instance: Instance,
}

/// What a rule rewrites.
#[derive(Clone, Copy, Debug)]
pub enum Sides {
    /// Patterns.
    Patterns(Patterns),
    /// Rust code that finds terms equal to a class.
    Search(fn(&RuleContext, View<'_>, Id) -> Vec<Replacement>),
}

/// A condition on a match; not known is not met.
pub type Condition = fn(&Match<'_>) -> Option<bool>;

/// What variables that only right sides have stand for, in their order; `None` where the rule does not apply.
pub type Compute = fn(&Match<'_>) -> Option<Vec<Term>>;

/// A rule's patterns, in the language of [`crate::egraph::pattern`].
#[derive(Clone, Copy, Debug)]
pub struct Patterns {
    /// Left and right sides: each pair is a way to apply the rule.
    pub forms: &'static [(&'static str, &'static str)],
    /// Guards as in algorithm files: `?a.field = value | value`.
    pub guards: &'static [&'static str],
    /// What must hold besides, in words and in Rust.
    pub conditions: &'static [(&'static str, Condition)],
    /// Variables that only right sides have.
    pub computed: (&'static [&'static str], Compute),
}

impl Patterns {
    /// Without forms, and nothing more.
    pub const NONE: Patterns = Patterns {
        forms: &[],
        guards: &[],
        conditions: &[],
        computed: (&[], |_| Some(Vec::new())),
    };

    /// One form, and nothing more.
    pub const fn one(form: &'static [(&'static str, &'static str); 1]) -> Patterns {
        Patterns { forms: form, ..Patterns::NONE }
    }

    /// The pairs of patterns, families of operations spelled out.
    fn pairs(&self) -> Result<Vec<(String, String)>, String> {
        let pairs = self.forms.iter().map(|(left, right)| members(left, right));
        Ok(pairs.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

impl Rule {
    /// In how many ways the rule applies.
    pub fn forms(&self) -> usize {
        match &self.sides {
            Sides::Patterns(patterns) => self.must(patterns.pairs()).len(),
            Sides::Search(_) => 1,
        }
    }

    /// The rule as the e-graph takes it.
    pub fn rewrite(&self, context: &RuleContext) -> Rewrite {
        match self.sides {
            Sides::Patterns(patterns) => {
                self.must(self.patterns(patterns, &self.must(patterns.pairs()), context))
            }
            Sides::Search(search) => {
                let context = context.clone();
                let body = Body::Search(Arc::new(move |view, id| search(&context, view, id)));
                Rewrite { name: self.name.to_string(), body }
            }
        }
    }

    /// The rule, of its forms one alone.
    fn rewrite_form(&self, form: usize, context: &RuleContext) -> Rewrite {
        match self.sides {
            Sides::Patterns(patterns) => {
                let pairs = self.must(patterns.pairs());
                self.must(self.patterns(patterns, &pairs[form..=form], context))
            }
            Sides::Search(_) => self.rewrite(context),
        }
    }

    fn patterns(
        &self,
        patterns: Patterns,
        pairs: &[(String, String)],
        context: &RuleContext,
    ) -> Result<Rewrite, String> {
        let guards = patterns.guards.iter().map(|text| read_guard(text));
        let guards = guards.collect::<Result<Vec<_>, _>>()?;
        let (names, compute) = patterns.computed;
        let context = context.clone();
        let bind = move |view: View<'_>, root, bindings: crate::egraph::saturate::Bindings<'_>| {
            let matched = Match::new(&context, view, root, bindings);
            let met = patterns.conditions.iter().all(|(_, holds)| holds(&matched) == Some(true));
            let terms = if met { compute(&matched)? } else { return None };
            Some(names.iter().copied().zip(terms).collect())
        };
        rewrite_by(self.name, pairs, &guards, names, Arc::new(bind))
    }

    /// What a rule's text says; that it says something is a matter of the rule, not of input.
    fn must<T>(&self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|e| panic!("rule `{}`: {e}", self.name))
    }
}

/// Every rule, in the order that `--opt=ordered` applies them.
pub fn rules() -> Vec<Rule> {
    [
        movement::RULES,
        quantize::RULES,
        batch_norm::RULES,
        rescale::RULES,
        binary::RULES,
        signs::RULES,
        bytes::RULES,
        stages::RULES,
        unsigned::RULES,
        fusion::RULES,
    ]
    .concat()
}
