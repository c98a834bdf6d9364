//! What an algorithm file says in words of its own: rules, their guards, and quantizers.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::attributes::Attribute;
use trainc_ir::text::cursor::Cursor;
use trainc_ir::text::nearest::did_you_mean;
use trainc_ir::{Op, TensorType};

use super::file::{DrawnText, InitialText, KeptOf, RuleText, StateText};
use crate::egraph::forms::Kept;
use crate::egraph::pattern::{self, Template};
use crate::egraph::saturate::{Condition, Guard, Rewrite};
use crate::model_rules::{self, Added, First, ModelRule};

/// An operation that stores a parameter, and nothing after it.
pub(super) fn read_quantizer(text: &str) -> Result<Op, String> {
    let mut cursor = Cursor::new(text);
    let op = Op::parse(&mut cursor).map_err(|e| e.to_string())?;
    if !cursor.at_end() {
        return Err(cursor
            .error(format!("text after the operation `{}`", op.kind().name()))
            .to_string());
    }
    let shape = [2, 2];
    match op.infer(&[&TensorType::f32(shape)]) {
        Err(e) => Err(format!("not an operation that stores an FP32 parameter: {e}")),
        Ok(results) if results.len() == 1 && results[0].shape == shape.into() => Ok(op),
        Ok(_) => Err(format!("`{op}` does not keep a parameter's shape")),
    }
}

/// Forms with names, those that each holds written out.
///
/// # Errors
/// With the name of the form: if it does not parse, names a form that there is not, or holds itself.
pub(super) fn read_forms(
    own: &BTreeMap<String, String>,
    others: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Template>, (String, String)> {
    const MARKER: &str = "(form{";
    let mut forms = BTreeMap::new();
    for (name, text) in own {
        let fail = |message: String| (name.clone(), message);
        let mut text = text.clone();
        for round in 0.. {
            let Some(at) = text.find(MARKER) else { break };
            if round > 64 {
                return Err(fail("the form holds itself".into()));
            }
            let rest = &text[at + MARKER.len()..];
            let inner = rest.split('}').next().unwrap_or_default();
            let whole = format!("{MARKER}{inner}}} ?x)");
            if !text[at..].starts_with(&whole) {
                return Err(fail(format!("in a form, another is `(form{{{inner}}} ?x)`")));
            }
            let Some(found) = own.get(inner).or_else(|| others.get(inner)) else {
                let near = did_you_mean(inner, own.keys().chain(others.keys()).map(String::as_str));
                return Err(fail(format!("there is no form `{inner}`{near}")));
            };
            text = text.replacen(&whole, found, 1);
        }
        let form = Template::parse(&text).map_err(|e| fail(e.to_string()))?;
        if form.variables().any(|variable| variable != "x") {
            return Err(fail("a form is made of ?x alone".into()));
        }
        forms.insert(name.clone(), form);
    }
    Ok(forms)
}

/// What is kept of values, and checks of the forms that ask for it.
///
/// # Errors
/// With the name of the state or form: if a state has no numbers or a name that is taken, its next is no form (of the file, or one
/// of those that rules give), or a form asks for what is not kept.
pub(super) fn read_states(
    states: &[StateText],
    forms: [&BTreeMap<String, String>; 3],
    by_rules: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Kept>, (String, String)> {
    const MARKER: &str = "(state{";
    let mut found = BTreeMap::new();
    for StateText { name, initial, of, next } in states {
        let fail = |message: String| Err((name.clone(), message));
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(word) {
            return fail("a name is letters, digits and `_`".into());
        }
        if initial.is_empty() || initial.iter().any(|x| !(*x as f32).is_finite()) {
            return fail("`initial` is a list of numbers".into());
        }
        let of_blocks = *of == KeptOf::Block;
        if of_blocks && initial.len() != 1 {
            return fail("`initial` is one number, which each block has".into());
        }
        if let Some(next) = next
            && !forms[0].contains_key(next)
            && !by_rules.contains(next.as_str())
        {
            let known = forms[0].keys().map(String::as_str).chain(by_rules.iter().copied());
            let near = did_you_mean(next, known);
            return fail(format!("`next`: there is no form `{next}` in [translation.forms]{near}"));
        }
        let initial = initial.iter().map(|&x| x as f32).collect();
        let kept = Kept { initial, of_blocks, next: next.clone() };
        if found.insert(name.clone(), kept).is_some() {
            return fail("there are two of that name".into());
        }
    }
    for (form, text) in forms.iter().flat_map(|forms| forms.iter()) {
        for rest in text.split(MARKER).skip(1) {
            let name = rest.split('}').next().unwrap_or_default();
            if !found.contains_key(name) {
                let near = did_you_mean(name, found.keys().map(String::as_str));
                let message = format!("there is no state `{name}`{near}: [[translation.state]]");
                return Err((format!("forms.{form}"), message));
            }
        }
    }
    Ok(found)
}

/// A message of the TOML reader, with the word that was meant where it lists those it expects.
pub(super) fn with_nearest_word(message: &str) -> String {
    let known = ["unknown field ", "unknown variant "];
    let words = message.lines().rev().find(|line| known.iter().any(|k| line.starts_with(k)));
    let mut words = words.unwrap_or_default().split('`').skip(1).step_by(2);
    let near = words.next().map_or_else(String::new, |word| did_you_mean(word, words));
    format!("{}{near}", message.trim_end())
}

/// The line of a file, from 1, of a rule by its name, or of a key with the tables that it is in.
pub(super) fn line_of(text: &str, place: &str) -> Option<usize> {
    let lines = || text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let quoted = format!("\"{place}\"");
    let named = |line: &str| {
        line.strip_prefix("name").is_some_and(|rest| rest.trim_start().starts_with('='))
            && line.contains(&quoted)
    };
    if let Some((number, _)) = lines().find(|(_, line)| named(line)) {
        return Some(number);
    }
    let (mut table, mut header) = ("", None);
    for (number, line) in lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = name.trim_matches(['[', ']']);
            if place.starts_with(table) {
                header = Some(number);
            }
        } else if let Some(rest) = place.strip_prefix(table) {
            // `update.m` may be a key `m` of a table, or stand in a key `update`.
            let key = rest.trim_start_matches('.').split('.').next().unwrap_or_default();
            let found = line.split_once('=').is_some_and(|(own, _)| own.trim() == key);
            if found && !key.is_empty() {
                return Some(number);
            }
        }
    }
    header
}

pub(super) fn read_rule(rule: &RuleText) -> Result<Rewrite, String> {
    if !(rule.parameters.is_empty() && rule.freezes.is_empty()) {
        return Err(
            "rules of the model alone (`[[model.rules]]`) add parameters and freeze them".into()
        );
    }
    let guards = rule.r#where.iter().map(|text| read_guard(text)).collect::<Result<_, _>>()?;
    pattern::rewrite(&rule.name, &rule.r#match, &rule.into, guards, Condition::Float)
}

/// A rule of the model, with the parameters that it adds.
pub(super) fn read_model_rule(rule: &RuleText) -> Result<ModelRule, String> {
    let variable = |text: &str, place: &str| {
        let name = text.strip_prefix('?').map(str::to_string);
        name.ok_or_else(|| {
            format!("{place}: expected a variable of `match`, as `?w`, not `{text}`")
        })
    };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parameters = rule.parameters.iter().map(|own| {
        if own.name.is_empty() || !own.name.chars().all(word) {
            return Err("parameters: a name is letters, digits and `_`".to_string());
        }
        let (initial, number) = match own.initial {
            InitialText::Number(value) => (First::Number(value), value),
            InitialText::Drawn(DrawnText::Uniform(bound)) => (First::Uniform(bound), bound),
            InitialText::Drawn(DrawnText::Normal(deviation)) => {
                (First::Normal(deviation), deviation)
            }
        };
        if !(number as f32).is_finite() {
            return Err(format!("parameters: `{}` is {number} at first", own.name));
        }
        Ok(Added {
            name: own.name.clone(),
            of: match own.of.as_str() {
                "result" => None,
                text => Some(variable(text, "parameters: of")?),
            },
            single: own.single.clone(),
            initial,
            trains: own.trains,
        })
    });
    let parameters: Vec<Added> = parameters.collect::<Result<_, _>>()?;
    let guards = rule.r#where.iter().map(|text| read_guard(text)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = parameters.iter().map(|own| own.name.as_str()).collect();
    let rewrite = pattern::rewrite_with(&rule.name, &rule.r#match, &rule.into, &guards, &names)?;
    let freezes = rule.freezes.iter().map(|text| variable(text, "freezes"));
    let freezes = freezes.collect::<Result<_, _>>()?;
    let read = ModelRule { rewrite, parameters, freezes };
    model_rules::check(&read)?;
    Ok(read)
}

/// Reads a guard such as `?a.role = gradient`.
pub(crate) fn read_guard(text: &str) -> Result<Guard, String> {
    let guard = || {
        let (place, equal, value) = match text.split_once("!=") {
            Some((place, value)) => (place, false, value),
            None => text.split_once('=').map(|(place, value)| (place, true, value))?,
        };
        let (variable, field) = place.trim().strip_prefix('?')?.split_once('.')?;
        Some(Guard {
            variable: variable.trim().to_string(),
            field: field.trim().to_string(),
            values: value.split('|').map(|v| v.trim().to_string()).collect(),
            equal,
        })
    };
    guard().ok_or_else(|| {
        format!(
            "`{text}` is not of the form `?variable.attribute = value`, `?variable.role = weight|bias`, or either with `!=`"
        )
    })
}
