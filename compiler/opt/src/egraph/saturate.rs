//! The saturation loop. Limits are numbers of nodes and iterations; there is no clock, so every machine gives the
//! same result. Reaching a limit stops early with a correct result, and says so.

use std::sync::Arc;

use egg::{ENodeOrVar, Id, Language, Pattern, Searcher, Subst, Var};
use trainc_ir::attributes::F32;
use trainc_ir::graph::ValueId;
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::{Op, Tensor};

use super::language::{
    Facts, Graph, Node, Ty, Types, add_constant, add_operation, around, operation, retarget,
};
use crate::roles::{Roles, Side};

/// Limits of a saturation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Rounds.
    pub iterations: usize,
    /// E-nodes, checked after each rule.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { iterations: 30, nodes: 200_000 }
    }
}

/// A term to put into a class: classes that exist, under new operations.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// A class.
    Class(Id),
    /// An operation applied to terms.
    Operation(Op, Vec<Term>),
    /// An FP32 scalar constant.
    Scalar(F32),
    /// A constant of unscaled i32: what it is called after its user's name, shape and elements.
    Integers(&'static str, Shape, Vec<i32>),
    /// A constant, and what it is called after its user's name.
    Constant(&'static str, Tensor),
    /// Result `.0` of a term with several.
    Result(u8, Box<Term>),
    /// An operation's attributes, for a variable that stands for them.
    Attributes(Op),
}

impl Term {
    /// An operation applied to classes.
    pub fn operation(op: impl Into<Op>, operands: Vec<Term>) -> Term {
        Term::Operation(op.into(), operands)
    }

    fn add(&self, egraph: &mut Graph) -> Id {
        match self {
            Term::Class(id) => egraph.find(*id),
            Term::Scalar(value) => egraph.add(Node::Scalar(*value)),
            Term::Integers(name, shape, values) => {
                add_constant(egraph, name, Tensor::i32(shape.clone(), values.clone()))
            }
            Term::Constant(name, tensor) => add_constant(egraph, name, tensor.clone()),
            Term::Operation(op, operands) => {
                let operands: Vec<Id> = operands.iter().map(|t| t.add(egraph)).collect();
                add_operation(egraph, op, &operands)
            }
            Term::Result(slot, term) => {
                let child = term.add(egraph);
                egraph.add(Node::Result(*slot, [child]))
            }
            Term::Attributes(op) => egraph.add(Node::Attributes(op.clone())),
        }
    }
}

/// Read access to the e-graph for rules written in Rust.
#[derive(Clone, Copy)]
pub struct View<'e> {
    egraph: &'e Graph,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View of {} nodes", self.egraph.total_number_of_nodes())
    }
}

impl<'e> View<'e> {
    /// The type of a class, if it is one tensor.
    pub fn ty(&self, id: Id) -> Option<&'e TensorType> {
        match &self.egraph[id].data.ty {
            Ty::Tensor(ty) => Some(ty),
            _ => None,
        }
    }

    /// The operations in a class with their operand classes, in a fixed order.
    pub fn operations(&self, id: Id) -> Vec<(Op, Vec<Id>)> {
        self.egraph[id]
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Operation(kind, children) => operation(self.egraph, *kind, children)
                    .map(|(op, operands)| (op, operands.to_vec())),
                _ => None,
            })
            .collect()
    }

    /// The leaf (input, parameter, constant) in a class.
    pub fn leaf(&self, id: Id) -> Option<ValueId> {
        self.egraph[id].nodes.iter().find_map(|node| match node {
            Node::Leaf(value) => Some(*value),
            _ => None,
        })
    }

    /// The constant in a class that a rule introduced.
    pub fn introduced(&self, id: Id) -> Option<&'e Arc<Tensor>> {
        self.egraph[id].nodes.iter().find_map(|node| match node {
            Node::Leaf(value) => self.egraph.analysis.constants.get(value).map(|(_, t)| t),
            _ => None,
        })
    }

    /// The attributes that a class is, if it is an operation's.
    pub fn attributes(&self, id: Id) -> Option<&'e Op> {
        self.egraph[id].data.attributes.as_ref()
    }

    /// Whether both are one class.
    pub fn same(&self, a: Id, b: Id) -> bool {
        self.egraph.find(a) == self.egraph.find(b)
    }
}

/// A replacement that a rule found for a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Replacement {
    /// What is equal to the class.
    pub term: Term,
    /// The operations that it replaces, with operand classes: for the report of what was saved.
    pub replaced: Vec<(Op, Vec<Id>)>,
}

/// A guard of a pattern rule: an attribute of the operation bound by a variable, or the role of a value, is (or is not)
/// one of several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// The variable, without the question mark; `result` is the value that is matched.
    pub variable: String,
    /// The attribute; `role` of what is no operation's attributes.
    pub field: String,
    /// The values' text forms, or names of roles.
    pub values: Vec<String>,
    /// Whether the value must be one of them, or none.
    pub equal: bool,
}

/// What the variables of a pattern stand for in a match.
#[derive(Clone, Copy, Debug)]
pub struct Bindings<'s>(&'s Subst);

impl Bindings<'_> {
    /// The class that a variable (without the question mark) stands for.
    pub fn get(&self, variable: &str) -> Option<Id> {
        self.0.get(super::pattern::variable(variable)?).copied()
    }
}

/// Whether a match of a class holds, and what the variables of the right side that the left does not bind stand for.
pub type Bind =
    Arc<dyn Fn(View<'_>, Id, Bindings<'_>) -> Option<Vec<(&'static str, Term)>> + Send + Sync>;

/// One pattern for another.
#[derive(Clone, Debug)]
pub struct Form {
    /// What is matched.
    pub left: Arc<Pattern<Node>>,
    /// What is equal to it.
    pub right: Arc<Pattern<Node>>,
    /// All must hold.
    pub guards: Vec<Guard>,
}

/// Which matches of patterns count, besides guards.
#[derive(Clone)]
pub enum Condition {
    /// All do.
    Any,
    /// The matched class is FP32 (rules of translation: operations are polymorphic).
    Float,
    /// Rust code (rules of the optimiser).
    Bind(Bind),
}

/// Finds the replacements of one class.
pub type Search = Arc<dyn Fn(View<'_>, Id) -> Vec<Replacement> + Send + Sync>;

/// What a rule does.
#[derive(Clone)]
pub enum Body {
    /// Patterns for others.
    Patterns {
        /// Each is a way to apply the rule.
        forms: Vec<Form>,
        /// Which matches count.
        condition: Condition,
    },
    /// Rust code.
    Search(Search),
}

/// A named rewrite.
#[derive(Clone)]
pub struct Rewrite {
    /// Name, for reports.
    pub name: String,
    /// What it does.
    pub body: Body,
}

impl Rewrite {
    /// The operations that its patterns match, each with what is inside of it.
    ///
    /// Nothing for a rule that says what a form is: the operation itself is computed by others.
    pub fn matched(&self) -> Vec<trainc_ir::OpKind> {
        if !self.defined_forms().is_empty() {
            return Vec::new();
        }
        match &self.body {
            Body::Patterns { forms, .. } => {
                forms.iter().flat_map(|form| super::pattern::operations(&form.left)).collect()
            }
            Body::Search(_) => Vec::new(),
        }
    }
}

impl Rewrite {
    /// The forms that the rule says what they are.
    pub fn defined_forms(&self) -> Vec<&str> {
        match &self.body {
            Body::Patterns { forms, .. } => {
                forms.iter().filter_map(|form| super::pattern::defined_form(&form.left)).collect()
            }
            Body::Search(_) => Vec::new(),
        }
    }

    /// The rule with patterns of the values whose forms it is about, in place of these forms.
    pub fn of_values(&self) -> Rewrite {
        let mut rule = self.clone();
        if let Body::Patterns { forms, .. } = &mut rule.body {
            for form in forms {
                form.left = Arc::new(super::pattern::of_value(&form.left));
            }
        }
        rule
    }
}

impl std::fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rewrite({})", self.name)
    }
}

/// One application of a rule that changed the e-graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Application {
    /// Position in the list of rules.
    pub rule: usize,
    /// The class that was rewritten.
    pub class: Id,
    /// The root e-node that the rule added, if it added one.
    pub added: Option<Node>,
    /// The operations replaced, with operand classes (rules of the optimiser only).
    pub replaced: Vec<(Op, Vec<Id>)>,
}

/// How a saturation ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Rounds run.
    pub iterations: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// Classes at the end.
    pub classes: usize,
    /// Whether no rule could change anything more.
    pub saturated: bool,
    /// Why it stopped early, naming the rule that grew most.
    pub limit: Option<String>,
    /// Every application, in order.
    pub applications: Vec<Application>,
}

/// A match: of a form of patterns with what its condition bound, or of Rust code.
enum Match {
    Form {
        form: usize,
        subst: Subst,
        bound: Vec<(&'static str, Term)>,
        replaced: Vec<(Op, Vec<Id>)>,
    },
    Found(Replacement),
}

/// Applies rules until nothing changes or a limit is reached. `ordered` applies each rule once, in order, instead.
///
/// # Errors
/// If a rule puts values of two types into one class: a bug of that rule, which is named.
pub fn saturate(
    egraph: &mut Graph,
    rules: &[Rewrite],
    limits: Limits,
    ordered: bool,
) -> Result<Report, String> {
    let mut report = Report::default();
    let mut growth = vec![0usize; rules.len()];
    let mut latest = None;
    egraph.rebuild();
    let rounds = if ordered { 1 } else { limits.iterations };
    while report.iterations < rounds {
        report.iterations += 1;
        let applied = report.applications.len();
        let mut changed = false;
        // In a round all rules see the same e-graph; in ordered mode each sees what those before it did.
        let mut found: Vec<Vec<(Id, Match)>> = Vec::new();
        if !ordered {
            found = rules.iter().map(|rule| search(egraph, rule)).collect();
        }
        for (index, rule) in rules.iter().enumerate() {
            let matches =
                if ordered { search(egraph, rule) } else { std::mem::take(&mut found[index]) };
            let before = egraph.total_number_of_nodes();
            for (class, matched) in matches {
                changed |= apply(egraph, rule, index, class, matched, &mut report);
                // A rule with very many matches stops within a round as well; stale e-nodes count here.
                if egraph.total_size() > limits.nodes.saturating_mul(4) {
                    break;
                }
            }
            // Rebuilding goes through every class.
            if !egraph.clean {
                egraph.rebuild();
            }
            if let Some(conflict) = egraph.analysis.conflicts.first() {
                return Err(format!("rule `{}` joins values of two types: {conflict}", rule.name));
            }
            growth[index] += egraph.total_number_of_nodes().saturating_sub(before);
            if egraph.total_number_of_nodes() > limits.nodes {
                break;
            }
        }
        let full = egraph.total_number_of_nodes() > limits.nodes;
        report.saturated = !changed && !full;
        if report.saturated {
            break;
        }
        let last = &report.applications[applied..];
        latest = (0..rules.len())
            .max_by_key(|&i| (last.iter().filter(|a| a.rule == i).count(), std::cmp::Reverse(i)));
        if full {
            let most = (0..rules.len()).max_by_key(|&i| (growth[i], std::cmp::Reverse(i)));
            let name = most.map_or("none", |i| rules[i].name.as_str());
            report.limit = Some(format!(
                "stopped at {} e-nodes (limit {}); rule `{name}` grew most",
                egraph.total_number_of_nodes(),
                limits.nodes
            ));
            break;
        }
    }
    if !report.saturated && report.limit.is_none() && !ordered {
        let name = latest.map_or("none", |i| rules[i].name.as_str());
        report.limit = Some(format!(
            "stopped after {} rounds; rule `{name}` still applies: does its result match again?",
            report.iterations
        ));
    }
    report.nodes = egraph.total_number_of_nodes();
    report.classes = egraph.number_of_classes();
    Ok(report)
}

/// The matches of a rule, by class.
fn search(egraph: &Graph, rule: &Rewrite) -> Vec<(Id, Match)> {
    let view = View { egraph };
    match &rule.body {
        Body::Patterns { forms, condition } => {
            let mut matches = Vec::new();
            for (form, Form { left, right, guards }) in forms.iter().enumerate() {
                let about = about(left, right);
                // A rule that names the value whose form it gives looks for that one.
                let value = about.map(|_| super::pattern::of_value(left));
                let named = about.and_then(|_| super::pattern::defined_form(left));
                for mut found in value.as_ref().unwrap_or(left).search(egraph) {
                    let value = found.eclass;
                    if let Some(name) = named {
                        let class = egraph.lookup(Node::Form(name.to_string(), [value]));
                        let Some(class) = class else { continue };
                        found.eclass = class;
                    }
                    for mut subst in found.substs {
                        if let Some(var) = about {
                            subst.insert(var, value);
                        }
                        if !guards.iter().all(|guard| holds(egraph, guard, &subst, value)) {
                            continue;
                        }
                        let (bound, replaced) = match condition {
                            Condition::Float if !is_translated(egraph, found.eclass) => continue,
                            Condition::Any | Condition::Float => (Vec::new(), Vec::new()),
                            Condition::Bind(bind) => {
                                match bind(view, found.eclass, Bindings(&subst)) {
                                    Some(bound) => (bound, replaced(egraph, left, &subst)),
                                    None => continue,
                                }
                            }
                        };
                        let matched = Match::Form { form, subst, bound, replaced };
                        matches.push((found.eclass, matched));
                    }
                }
            }
            matches.sort_by_key(|(class, _)| *class);
            matches
        }
        Body::Search(search) => {
            let mut ids: Vec<Id> = egraph.classes().map(|class| class.id).collect();
            ids.sort_unstable();
            ids.into_iter()
                .flat_map(|id| search(view, id).into_iter().map(move |r| (id, Match::Found(r))))
                .collect()
        }
    }
}

/// The variable of the value that a rule is about, if its right side asks for that and its left side binds no other.
fn about(left: &Pattern<Node>, right: &Pattern<Node>) -> Option<Var> {
    let own = |side| Searcher::<Node, Types>::vars(side);
    super::pattern::variable(super::pattern::RESULT)
        .filter(|var| own(right).contains(var) && !own(left).contains(var))
}

/// The operations that a match of a pattern holds, the outermost first.
fn replaced(egraph: &Graph, left: &Pattern<Node>, subst: &Subst) -> Vec<(Op, Vec<Id>)> {
    // Every part of a match is in the e-graph; what is not would be left out.
    let mut ids: Vec<Option<Id>> = Vec::with_capacity(left.ast.len());
    let mut found = Vec::new();
    for node in left.ast.as_ref() {
        let id = match node {
            ENodeOrVar::Var(var) => subst.get(*var).copied(),
            ENodeOrVar::ENode(node) => {
                let known = node.all(|i| ids[usize::from(i)].is_some());
                let node = node.clone().map_children(|i| ids[usize::from(i)].unwrap_or(i));
                if let (true, Node::Operation(kind, children)) = (known, &node)
                    && let Some((op, operands)) = operation(egraph, *kind, children)
                {
                    found.push((op, operands.to_vec()));
                }
                known.then(|| egraph.lookup(node)).flatten()
            }
        };
        ids.push(id);
    }
    found.reverse();
    found
}

/// Whether rules of algorithms are about a class: FP32, and no statistics, which are no part of the step that an
/// algorithm describes.
fn is_translated(egraph: &Graph, class: Id) -> bool {
    let facts = &egraph[class].data;
    let float = match &facts.ty {
        Ty::Tensor(ty) => ty.is_f32(),
        Ty::Tuple(types) => types.iter().all(TensorType::is_f32),
        _ => false,
    };
    let side = facts.source.and_then(|v| egraph.analysis.roles.side(v));
    float && side != Some(Side::Statistic)
}

/// Whether a guard holds in a match of the value `result`.
fn holds(egraph: &Graph, guard: &Guard, subst: &Subst, result: Id) -> bool {
    let bound = super::pattern::variable(&guard.variable).and_then(|var| subst.get(var).copied());
    let about = (guard.variable == super::pattern::RESULT).then_some(result);
    let Some(facts) = bound.or(about).map(|id| &egraph[id].data) else { return false };
    let found = match &facts.attributes {
        Some(op) => match op.attribute_text(&guard.field) {
            Some(text) => vec![text],
            None => return false,
        },
        None => of_value(egraph, facts, &guard.field),
    };
    found.iter().any(|text| guard.values.contains(text)) == guard.equal
}

/// A fact of a value, as guards name it; several where a layer is both the first and the last.
fn of_value(egraph: &Graph, facts: &Facts, field: &str) -> Vec<String> {
    let shape = match &facts.ty {
        Ty::Tensor(ty) => Some(&ty.shape),
        _ => None,
    };
    fact(&egraph.analysis.roles, facts.source, shape, field)
}

/// [`of_value`], of a value of a graph.
pub(crate) fn fact(
    roles: &Roles,
    source: Option<ValueId>,
    shape: Option<&Shape>,
    field: &str,
) -> Vec<String> {
    match field {
        "role" => {
            let role = source.and_then(|v| roles.role_in_products(v));
            role.map(|role| role.name().to_string()).into_iter().collect()
        }
        "layer" => {
            let layer = source.map(|v| roles.layer(v)).unwrap_or_default();
            layer.iter().map(|&word| word.to_string()).collect()
        }
        "side" => {
            source.and_then(|v| roles.side(v)).map(|s| s.name().to_string()).into_iter().collect()
        }
        "entry" => vec![if roles.trains() { "train" } else { "infer" }.to_string()],
        "rank" => shape.map(|shape| shape.rank().to_string()).into_iter().collect(),
        "constant" => source.map(|v| roles.constant(v).to_string()).into_iter().collect(),
        "chosen" => source.map(|v| roles.chosen(v).to_string()).into_iter().collect(),
        "quantized" => source.map(|v| roles.quantized(v).to_string()).into_iter().collect(),
        "codes" => source.map(|v| roles.codes(v).to_string()).into_iter().collect(),
        // One input channel for each of several filters.
        "depthwise" => {
            shape.map(|s| (s.rank() > 2 && s[1] == 1 && s[0] > 1).to_string()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The classes that a rule would rewrite.
pub fn matched_classes(egraph: &Graph, rule: &Rewrite) -> Vec<Id> {
    search(egraph, rule).into_iter().map(|(id, _)| egraph.find(id)).collect()
}

fn apply(
    egraph: &mut Graph,
    rule: &Rewrite,
    index: usize,
    class: Id,
    matched: Match,
    report: &mut Report,
) -> bool {
    let before = egraph.total_size();
    let (new, replaced) = match (matched, &rule.body) {
        (Match::Form { form, mut subst, bound, replaced }, Body::Patterns { forms, .. }) => {
            let right = &forms[form].right;
            let used = Searcher::<Node, Types>::vars(&**right);
            for (name, term) in bound {
                let Some(var) = super::pattern::variable(name).filter(|var| used.contains(var))
                else {
                    continue;
                };
                let id = term.add(egraph);
                subst.insert(var, id);
            }
            (instantiate(egraph, right, &subst), replaced)
        }
        (Match::Found(replacement), _) => (replacement.term.add(egraph), replacement.replaced),
        (Match::Form { .. }, Body::Search(_)) => return false,
    };
    let grew = egraph.total_size() != before;
    let added = egraph[new].nodes.last().cloned();
    let joined = egraph.union(class, new);
    if !joined && !grew {
        return false;
    }
    report.applications.push(Application { rule: index, class, added, replaced });
    true
}

fn instantiate(egraph: &mut Graph, pattern: &Pattern<Node>, subst: &Subst) -> Id {
    let mut ids: Vec<Id> = Vec::with_capacity(pattern.ast.len());
    for node in pattern.ast.as_ref() {
        let id = match node {
            ENodeOrVar::Var(var) => subst[*var],
            ENodeOrVar::ENode(node) => {
                let node = node.clone().map_children(|i| ids[usize::from(i)]);
                let node = with_operation(egraph, node);
                let node = with_own_attributes(egraph, node);
                egraph.add(node)
            }
        };
        ids.push(id);
    }
    ids.last().copied().unwrap_or_else(|| Id::from(0))
}

/// Attributes with the operation among them that their variable stands for.
fn with_operation(egraph: &Graph, node: Node) -> Node {
    let Node::Around(kind, text, [of]) = &node else { return node };
    let of = egraph[*of].data.attributes.as_ref();
    of.and_then(|of| around(*kind, text, of).ok()).map_or(node, Node::Attributes)
}

/// The node with attributes of its own kind, where a pattern gives it those of another operation with the same fields: so
/// it is the node that the graph may have already.
fn with_own_attributes(egraph: &mut Graph, node: Node) -> Node {
    let Node::Operation(kind, mut children) = node else { return node };
    let own = children.first().and_then(|&first| {
        let op = egraph[first].data.attributes.clone()?;
        (op.kind() != kind && op.kind().fields() == kind.fields()).then(|| retarget(op, kind))
    });
    if let Some(op) = own {
        children[0] = egraph.add(Node::Attributes(op));
    }
    Node::Operation(kind, children)
}
