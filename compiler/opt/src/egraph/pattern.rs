//! The s-expressions of rules.
//!
//! ```text
//! pattern := ?name                                  any class
//!          | (word pattern...)                      an operation; if it has attributes the first child binds them
//!          | (word{name=value, ...} pattern...)     an operation with exactly these attributes
//!          | (word{name=?a, ...} pattern...)        in `into`: one of them is the operation whose attributes `match` bound to ?a
//!          | (lowered pattern) | (narrowed pattern) | (floated pattern) | (raised pattern)   the markers of translation
//!          | (form{name} pattern)                    a form that the algorithm gives a name
//!          | (state{name} pattern)                   what the algorithm keeps of a value from step to step
//!          | (result{n} pattern)                    result n of an operation with several
//!          | (any{property} ?a pattern...)          each operation with the property; ?a binds its attributes, if any
//!          | ?name...                              one operand or more: in `match`, behind the others
//!          | pattern...                            in `into`: the pattern for each of them
//!          | number                                in `into`: an FP32 scalar
//!          | ?result                               in `into` of a translation: the value that the rule is about
//! ```

use std::sync::Arc;

use egg::{ENodeOrVar, Id, Language, Pattern, PatternAst, Searcher, Var};
use trainc_ir::OpKind;
use trainc_ir::attributes::{Attribute, F32};
use trainc_ir::ops::properties::Property;
use trainc_ir::text::cursor::{Cursor, SyntaxError};

use super::check;
use super::language::{Graph, Node, Types};
use super::saturate::{Bind, Body, Condition, Form, Guard, Rewrite};

/// Reads a pattern.
///
/// # Errors
/// Where the text is not a pattern, with the column.
pub fn parse(text: &str) -> Result<Pattern<Node>, SyntaxError> {
    let mut cursor = Cursor::new(text);
    let mut ast = PatternAst::default();
    term(&mut cursor, &mut ast, 0)?;
    if !cursor.at_end() {
        return Err(cursor.error("text after the pattern"));
    }
    Ok(Pattern::new(ast))
}

/// The variable of that name (without the question mark).
pub fn variable(name: &str) -> Option<Var> {
    format!("?{name}").parse().ok()
}

/// The operations that a pattern holds.
pub fn operations(pattern: &Pattern<Node>) -> impl Iterator<Item = OpKind> {
    pattern.ast.as_ref().iter().filter_map(|node| match node {
        ENodeOrVar::ENode(Node::Operation(kind, _)) => Some(*kind),
        _ => None,
    })
}

fn term(
    cursor: &mut Cursor<'_>,
    ast: &mut PatternAst<Node>,
    depth: usize,
) -> Result<Id, SyntaxError> {
    if depth > 64 {
        return Err(cursor.error("nested too deeply"));
    }
    if cursor.accept("?") {
        let name = cursor.word()?;
        let var = variable(name).ok_or_else(|| cursor.error("not a variable"))?;
        return Ok(ast.add(ENodeOrVar::Var(var)));
    }
    if cursor.peek().is_some_and(|c| c.is_ascii_digit() || "+-.".contains(c)) {
        return Ok(ast.add(ENodeOrVar::ENode(Node::Scalar(F32::parse(cursor)?))));
    }
    cursor.expect("(")?;
    let at = cursor.clone();
    let word = cursor.word()?;
    let node = match word {
        "lowered" => Node::Lowered([term(cursor, ast, depth + 1)?]),
        "narrowed" => Node::Narrowed([term(cursor, ast, depth + 1)?]),
        "floated" => Node::Floated([term(cursor, ast, depth + 1)?]),
        "raised" => Node::Raised([term(cursor, ast, depth + 1)?]),
        "form" => {
            cursor.expect("{")?;
            let name = cursor.word()?.to_string();
            cursor.expect("}")?;
            Node::Form(name, [term(cursor, ast, depth + 1)?])
        }
        "state" => {
            cursor.expect("{")?;
            let name = format!("{STATE}{}", cursor.word()?);
            cursor.expect("}")?;
            Node::Form(name, [term(cursor, ast, depth + 1)?])
        }
        "result" => {
            cursor.expect("{")?;
            let slot = cursor.parse_number()?;
            cursor.expect("}")?;
            Node::Result(slot, [term(cursor, ast, depth + 1)?])
        }
        word => {
            let kind = OpKind::named(word).map_err(|message| at.error(message))?;
            let mut children = Vec::new();
            if cursor.peek() == Some('{') {
                let node = match cursor.clone().braced()?.split_once('?') {
                    Some((before, rest)) => {
                        cursor.braced()?;
                        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
                        let var = variable(name).ok_or_else(|| at.error("not a variable"))?;
                        let var = ast.add(ENodeOrVar::Var(var));
                        Node::Around(kind, [before.to_string(), after.to_string()], [var])
                    }
                    None => Node::Attributes(kind.parse_attributes(cursor)?),
                };
                children.push(ast.add(ENodeOrVar::ENode(node)));
            }
            while !matches!(cursor.peek(), Some(')') | None) {
                children.push(term(cursor, ast, depth + 1)?);
            }
            Node::Operation(kind, children)
        }
    };
    cursor.expect(")")?;
    Ok(ast.add(ENodeOrVar::ENode(node)))
}

/// The names of the forms in a pattern.
pub fn forms(pattern: &Pattern<Node>) -> impl Iterator<Item = &str> {
    pattern.ast.as_ref().iter().filter_map(|node| match node {
        ENodeOrVar::ENode(Node::Form(name, _)) => Some(name.as_str()),
        _ => None,
    })
}

/// The states of the value that a rule is about, in a right side, without [`STATE`]; `None` if it asks for one of another value.
pub fn states_of_result(pattern: &Pattern<Node>) -> Option<Vec<&str>> {
    let nodes = pattern.ast.as_ref();
    let states = nodes.iter().filter_map(|node| match node {
        ENodeOrVar::ENode(Node::Form(name, [of])) => Some((name.strip_prefix(STATE)?, *of)),
        _ => None,
    });
    let own = |of: Id| matches!(&nodes[usize::from(of)], ENodeOrVar::Var(var) if Some(*var) == variable(RESULT));
    states.map(|(name, of)| own(of).then_some(name)).collect()
}

/// What right sides of translations call the value that the rule is about: the one that is matched, or whose form is.
pub const RESULT: &str = "result";

/// What stands before the name of a state in the name of its form.
pub const STATE: &str = "state:";

/// The form whose meaning a pattern is about: `codes` of `(form{codes} (reshape ?a ?x))`.
pub fn defined_form(pattern: &Pattern<Node>) -> Option<&str> {
    match pattern.ast.as_ref().last() {
        Some(ENodeOrVar::ENode(Node::Form(name, _))) => Some(name),
        _ => None,
    }
}

/// The pattern of the value that a pattern is a form of; the pattern itself if it is of no form.
pub fn of_value(pattern: &Pattern<Node>) -> Pattern<Node> {
    let nodes = pattern.ast.as_ref();
    match defined_form(pattern) {
        // The form is written last, its value before it.
        Some(_) => Pattern::new(nodes[..nodes.len() - 1].to_vec().into()),
        None => pattern.clone(),
    }
}

/// A pattern as a template: what an algorithm puts around inputs and outputs.
#[derive(Clone, Debug)]
pub struct Template(Pattern<Node>);

/// A pattern that is one operation on variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Single {
    /// The operation.
    pub kind: OpKind,
    /// Its attributes, if they are written out.
    pub attributes: Option<trainc_ir::Op>,
    /// The variables, without the question mark.
    pub operands: Vec<String>,
}

impl Single {
    /// `None` if the pattern is another.
    pub fn of(pattern: &Pattern<Node>) -> Option<Single> {
        let nodes = pattern.ast.as_ref();
        let Some(ENodeOrVar::ENode(Node::Operation(kind, children))) = nodes.last() else {
            return None;
        };
        let mut single = Single { kind: *kind, attributes: None, operands: Vec::new() };
        for (i, &child) in children.iter().enumerate() {
            match &nodes[usize::from(child)] {
                ENodeOrVar::Var(_) if i == 0 && !kind.fields().is_empty() => {}
                ENodeOrVar::Var(var) => {
                    single.operands.push(var.to_string().trim_start_matches('?').to_string());
                }
                ENodeOrVar::ENode(Node::Attributes(op)) => single.attributes = Some(op.clone()),
                ENodeOrVar::ENode(_) => return None,
            }
        }
        Some(single)
    }
}

/// One part of a template, operands before their user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The variable of that name: a value, or attributes.
    Variable(String),
    /// An FP32 scalar.
    Number(F32),
    /// An operation applied to earlier parts.
    Operation(Attributes, Vec<usize>),
}

/// The attributes of an operation in a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attributes {
    /// These.
    Given(trainc_ir::Op),
    /// Those that the variable of that name stands for.
    Variable(OpKind, String),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// Where the text is not a pattern.
    pub fn parse(text: &str) -> Result<Template, SyntaxError> {
        parse(text).map(Template)
    }

    /// A side of a rule.
    pub fn of(side: &Pattern<Node>) -> Template {
        Template(side.clone())
    }

    /// Adds the template to an e-graph with every variable bound to `class`.
    pub(crate) fn instantiate(&self, egraph: &mut Graph, class: Id) -> Id {
        let mut ids: Vec<Id> = Vec::new();
        for node in self.0.ast.as_ref() {
            let id = match node {
                ENodeOrVar::Var(_) => class,
                ENodeOrVar::ENode(node) => {
                    let node = node.clone().map_children(|i| ids[usize::from(i)]);
                    egraph.add(node)
                }
            };
            ids.push(id);
        }
        ids.last().copied().unwrap_or(class)
    }

    /// The names of its variables.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        let variables = Searcher::<Node, Types>::vars(&self.0);
        variables.into_iter().map(|var| var.to_string().trim_start_matches('?').to_string())
    }

    /// The template's parts, the whole last; `None` if it holds anything but operations, numbers and variables.
    pub fn parts(&self) -> Option<Vec<Part>> {
        let nodes = self.0.ast.as_ref();
        let name = |var: &Var| var.to_string().trim_start_matches('?').to_string();
        // Attribute leaves are no parts: they belong to the operation above them.
        let mut position = vec![0; nodes.len()];
        let mut parts = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            position[i] = parts.len();
            match node {
                ENodeOrVar::Var(var) => parts.push(Part::Variable(name(var))),
                ENodeOrVar::ENode(Node::Attributes(_)) => {}
                ENodeOrVar::ENode(Node::Scalar(number)) => parts.push(Part::Number(*number)),
                ENodeOrVar::ENode(Node::Operation(kind, children)) => {
                    let (attributes, operands) = match kind.fields().is_empty() {
                        true => (None, &children[..]),
                        false => children.split_first().map(|(a, rest)| (Some(a), rest))?,
                    };
                    let attributes = match attributes.map(|&a| &nodes[usize::from(a)]) {
                        Some(ENodeOrVar::ENode(Node::Attributes(op))) => {
                            Attributes::Given(op.clone())
                        }
                        Some(ENodeOrVar::Var(var)) => Attributes::Variable(*kind, name(var)),
                        Some(ENodeOrVar::ENode(_)) => return None,
                        None => {
                            Attributes::Given(kind.parse_attributes(&mut Cursor::new("")).ok()?)
                        }
                    };
                    let operands = operands.iter().map(|&i| position[usize::from(i)]);
                    parts.push(Part::Operation(attributes, operands.collect()));
                }
                ENodeOrVar::ENode(_) => return None,
            }
        }
        Some(parts)
    }
}

/// A rule of translation from two patterns.
///
/// # Errors
/// If a pattern does not parse, or `into` has a variable that `left` does not bind.
pub fn rewrite(
    name: &str,
    left: &str,
    into: &str,
    guards: Vec<Guard>,
    condition: Condition,
) -> Result<Rewrite, String> {
    let lists = lists(left);
    let given: &[&str] = if matches!(condition, Condition::Float) { &[RESULT] } else { &[] };
    let forms = match &lists[..] {
        [] if into.contains(EACH) => return Err(format!("into: `{EACH}` needs one in `match`")),
        [] => vec![form(left, into, &guards, given)?],
        lists => (1..=MOST_OPERANDS)
            .map(|n| form(&repeated(left, lists, n)?, &repeated(into, lists, n)?, &guards, given))
            .collect::<Result<_, _>>()?,
    };
    // What a form is has no element of its own that would have to be FP32.
    let of_form = forms.iter().all(|form| defined_form(&form.left).is_some());
    let condition = if of_form { Condition::Any } else { condition };
    let body = Body::Patterns { forms, condition };
    Ok(Rewrite { name: name.to_string(), body })
}

/// A rule of one form whose right side has the variables `bound`, too, that its user gives.
///
/// # Errors
/// As [`rewrite`].
pub fn rewrite_with(
    name: &str,
    left: &str,
    into: &str,
    guards: &[Guard],
    bound: &[&str],
) -> Result<Rewrite, String> {
    if bound.is_empty() {
        return rewrite(name, left, into, guards.to_vec(), Condition::Float);
    }
    let forms = vec![form(left, into, guards, bound)?];
    let body = Body::Patterns { forms, condition: Condition::Float };
    Ok(Rewrite { name: name.to_string(), body })
}

/// What stands behind a pattern for several operands.
const EACH: &str = "...";
/// The most operands that `?x...` stands for.
pub const MOST_OPERANDS: usize = 64;

/// The variables of a pattern that stand for several operands, without the question mark.
fn lists(text: &str) -> Vec<String> {
    let ends = text.match_indices(EACH).filter_map(|(at, _)| {
        let name = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        text[..at - name.len()].ends_with('?').then(|| name.to_string())
    });
    ends.collect()
}

/// A pattern with what stands before each `...` written out `n` times, the lists' variables numbered.
fn repeated(text: &str, lists: &[String], n: usize) -> Result<String, String> {
    let mut text = text.to_string();
    while let Some(at) = text.find(EACH) {
        let start = last_term(&text[..at])
            .ok_or_else(|| format!("`{EACH}` stands behind no pattern in `{text}`"))?;
        let term = &text[start..at];
        let copies: Vec<String> = (1..=n).map(|i| numbered(term, lists, i)).collect();
        text = format!("{}{}{}", &text[..start], copies.join(" "), &text[at + EACH.len()..]);
    }
    Ok(text)
}

/// Where the term begins that a text ends with.
fn last_term(text: &str) -> Option<usize> {
    if !text.ends_with(')') {
        let start = text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        return text[start..].starts_with('?').then_some(start);
    }
    let mut open = 0usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' => open += 1,
            '(' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// A term with the lists' variables numbered.
fn numbered(term: &str, lists: &[String], number: usize) -> String {
    let mut parts = term.split('?');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let list = lists.iter().any(|list| list == name);
        let number = if list { format!("_{number}") } else { String::new() };
        text.push_str(&format!("?{name}{number}{rest}"));
    }
    text
}

/// A rule of the optimiser from pairs of patterns; `bind` gives the variables `bound` that only right sides have.
///
/// # Errors
/// If a pattern does not parse, or a right side has another variable that its left side does not bind.
pub fn rewrite_by(
    name: &str,
    pairs: &[(String, String)],
    guards: &[Guard],
    bound: &[&str],
    bind: Bind,
) -> Result<Rewrite, String> {
    let forms = pairs.iter().map(|(left, into)| form(left, into, guards, bound));
    let forms = forms.collect::<Result<_, _>>()?;
    let body = Body::Patterns { forms, condition: Condition::Bind(bind) };
    Ok(Rewrite { name: name.to_string(), body })
}

fn form(left: &str, into: &str, guards: &[Guard], given: &[&str]) -> Result<Form, String> {
    let left = parse(left).map_err(|e| format!("match: {e}"))?;
    let right = parse(into).map_err(|e| format!("into: {e}"))?;
    if left.ast.as_ref().iter().any(|n| matches!(n, ENodeOrVar::ENode(Node::Scalar(_)))) {
        return Err("match: a number; numbers stand in `into` alone".into());
    }
    if left.ast.as_ref().iter().any(|n| matches!(n, ENodeOrVar::ENode(Node::Around(..)))) {
        return Err("match: `?a` among attributes; that stands in `into` alone".into());
    }
    check::patterns(&left, &right)?;
    let guards = guards.iter().map(|guard| check::guard(&left, guard.clone()));
    let guards = guards.collect::<Result<Vec<_>, _>>()?;
    let mut bound = Searcher::<Node, Types>::vars(&left);
    bound.extend(given.iter().filter_map(|name| variable(name)));
    for node in right.ast.as_ref() {
        if let ENodeOrVar::Var(var) = node
            && !bound.contains(var)
        {
            return Err(format!("`{var}` is not bound by `match`"));
        }
    }
    Ok(Form { left: Arc::new(left), right: Arc::new(right), guards })
}

/// A pair of patterns with `any{property}` in them, once for each operation with the property; in those without
/// attributes their variable is left out.
///
/// # Errors
/// If there is no such property.
pub fn members(left: &str, into: &str) -> Result<Vec<(String, String)>, String> {
    let Some((_, rest)) = left.split_once("(any{") else {
        return Ok(vec![(left.to_string(), into.to_string())]);
    };
    let word = rest.split('}').next().unwrap_or_default();
    let property = Property::parse(&mut Cursor::new(word)).map_err(|e| e.to_string())?;
    let family = format!("any{{{word}}}");
    let with = |text: &str, kind: OpKind| {
        let mut parts = text.split(&family);
        let mut result = parts.next().unwrap_or_default().to_string();
        for part in parts {
            result.push_str(kind.name());
            // ` ?a rest`: the variable of the attributes comes first.
            let rest = part.trim_start().split_once([' ', ')']).map(|(variable, _)| variable);
            let attributes = rest.filter(|_| kind.fields().is_empty());
            result.push_str(&part[attributes.map_or(0, |a| part.find(a).unwrap_or(0) + a.len())..]);
        }
        result
    };
    Ok(OpKind::all_with(property).map(|kind| (with(left, kind), with(into, kind))).collect())
}
