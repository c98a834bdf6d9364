//! Parameters of an algorithm: numbers that its file declares, that its texts use as `$(2^bits - 1)`, and that a user sets.
//!
//! ```text
//! expression := number | name | (expression) | -expression | expression op expression     op: + - * / ^, as in mathematics
//! ```
//!
//! Worked out in double precision; the result stands in the text in its place, a whole number without a point.

use std::collections::BTreeMap;

use trainc_ir::text::cursor::{Cursor, SyntaxError};
use trainc_ir::text::nearest::did_you_mean;

use super::file::{File, FormText, RuleText};
use super::optimizer::Parameter;

/// What stands before an expression.
const OPEN: &str = "$(";

/// An algorithm's parameters and their values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parameters {
    declared: BTreeMap<String, Parameter>,
    set: BTreeMap<String, f64>,
}

impl Parameters {
    /// Those that a file declares.
    ///
    /// # Errors
    /// The key and what is wrong: a name that is no word, a default out of range.
    pub(super) fn new(declared: BTreeMap<String, Parameter>) -> Result<Self, (String, String)> {
        for (name, parameter) in &declared {
            let place = || format!("parameters.{name}");
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(word) {
                return Err((place(), "a name is a letter, then letters, digits and `_`".into()));
            }
            parameter.check(name, parameter.default).map_err(|e| (place(), e))?;
        }
        Ok(Parameters { declared, set: BTreeMap::new() })
    }

    /// Sets values: `w=4,a=4`.
    ///
    /// # Errors
    /// If there is no such parameter, or the value is out of range: what is allowed.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',') {
            let expected = || format!("expected NAME=NUMBER with commas between, not `{part}`");
            let (name, value) = part.split_once('=').ok_or_else(expected)?;
            let name = name.trim();
            let Some(parameter) = self.declared.get(name) else { return Err(self.absent(name)) };
            let value: f64 = value.trim().parse().map_err(|_| expected())?;
            parameter.check(name, value)?;
            self.set.insert(name.to_string(), value);
        }
        Ok(())
    }

    fn absent(&self, name: &str) -> String {
        let near = did_you_mean(name, self.declared.keys().map(String::as_str));
        match self.lines().join("; ") {
            known if known.is_empty() => {
                format!("there is no parameter `{name}`; the algorithm has none")
            }
            known => format!("there is no parameter `{name}`{near}; there are {known}"),
        }
    }

    /// Every parameter with its value, by name.
    pub fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        self.declared.keys().filter_map(|name| Some((name.as_str(), self.value(name)?)))
    }

    /// Every parameter by name.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.declared.iter().map(|(name, parameter)| (name.as_str(), parameter))
    }

    fn value(&self, name: &str) -> Option<f64> {
        let default = self.declared.get(name)?.default;
        Some(self.set.get(name).copied().unwrap_or(default))
    }

    /// A line for each: name, value, range, what it is.
    pub fn lines(&self) -> Vec<String> {
        let line = |(name, parameter): (&str, &Parameter)| {
            let value = self.value(name).unwrap_or_default();
            let about = match parameter.about.as_str() {
                "" => String::new(),
                about => format!(", {about}"),
            };
            format!("{name}={value} ({}{about})", parameter.range())
        };
        self.declared().map(line).collect()
    }

    /// The values that are set otherwise than the file has them, as the command line spells them: `:w=4,a=4`, or nothing.
    pub fn spelled(&self) -> String {
        let other = |(name, value): &(&String, &f64)| self.declared[*name].default != **value;
        let words: Vec<String> =
            self.set.iter().filter(other).map(|(name, value)| format!("{name}={value}")).collect();
        if words.is_empty() { String::new() } else { format!(":{}", words.join(",")) }
    }

    /// A text with what its expressions give in their places.
    ///
    /// # Errors
    /// If an expression does not parse, names no parameter, or gives no finite number.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut result = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            result.push_str(&rest[..at]);
            let inside = &rest[at + OPEN.len()..];
            let end =
                closing(inside).ok_or_else(|| format!("`{OPEN}` is not closed in `{text}`"))?;
            let value = self.evaluate(&inside[..end])?;
            result.push_str(&format!("{value}"));
            rest = &inside[end + 1..];
        }
        result.push_str(rest);
        Ok(result)
    }

    fn evaluate(&self, text: &str) -> Result<f64, String> {
        let mut cursor = Cursor::new(text);
        let value = self.sum(&mut cursor, 0).map_err(|e| format!("`$({text})`: {e}"))?;
        if !cursor.at_end() {
            return Err(format!("`$({text})`: {}", cursor.error("text after the expression")));
        }
        if !value.is_finite() {
            return Err(format!("`$({text})` is {value}"));
        }
        // Without the sign of a zero.
        Ok(value + 0.0)
    }

    fn sum(&self, cursor: &mut Cursor<'_>, depth: usize) -> Result<f64, SyntaxError> {
        if depth > 64 {
            return Err(cursor.error("nested too deeply"));
        }
        let mut value = self.product(cursor, depth)?;
        loop {
            if cursor.accept("+") {
                value += self.product(cursor, depth)?;
            } else if cursor.accept("-") {
                value -= self.product(cursor, depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&self, cursor: &mut Cursor<'_>, depth: usize) -> Result<f64, SyntaxError> {
        let mut value = self.power(cursor, depth)?;
        loop {
            if cursor.accept("*") {
                value *= self.power(cursor, depth)?;
            } else if cursor.accept("/") {
                value /= self.power(cursor, depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn power(&self, cursor: &mut Cursor<'_>, depth: usize) -> Result<f64, SyntaxError> {
        if depth > 64 {
            return Err(cursor.error("nested too deeply"));
        }
        if cursor.accept("-") {
            return Ok(-self.power(cursor, depth + 1)?);
        }
        let base = self.single(cursor, depth)?;
        match cursor.accept("^") {
            true => {
                let at = cursor.clone();
                let exponent = self.power(cursor, depth + 1)?;
                // Whose last bit is the same on every machine.
                match exponent.fract() == 0.0 && exponent.abs() <= 1024.0 {
                    true => Ok(base.powi(exponent as i32)),
                    false => Err(at.error("an exponent is a whole number")),
                }
            }
            false => Ok(base),
        }
    }

    fn single(&self, cursor: &mut Cursor<'_>, depth: usize) -> Result<f64, SyntaxError> {
        if cursor.accept("(") {
            let value = self.sum(cursor, depth + 1)?;
            cursor.expect(")")?;
            return Ok(value);
        }
        if cursor.peek().is_some_and(|c| c.is_ascii_digit() || c == '.') {
            return cursor.parse_number();
        }
        let at = cursor.clone();
        let name = cursor.word()?;
        self.value(name).ok_or_else(|| at.error(self.absent(name)))
    }

    /// Whether a condition on parameters holds, such as `$(w) = 1|2` or `$(w + a) <= 8`; `None` if the text is none.
    fn condition(&self, text: &str) -> Option<Result<bool, String>> {
        text.trim_start().starts_with(OPEN).then(|| {
            let expanded = self.expand(text)?;
            let words = ["!=", "<=", ">=", "=", "<", ">"];
            let found = words.iter().find_map(|word| Some((*word, expanded.split_once(word)?)));
            let form = || format!("`{text}` is not of the form `$(expression) = number|number`, or with !=, <, <=, >, >=");
            let (word, (left, right)) = found.ok_or_else(form)?;
            let number = |text: &str| text.trim().parse::<f64>().map_err(|_| form());
            let left = number(left)?;
            let right = right.split('|').map(number).collect::<Result<Vec<f64>, _>>()?;
            match (word, &right[..]) {
                ("=", values) => Ok(values.contains(&left)),
                ("!=", values) => Ok(!values.contains(&left)),
                ("<", [value]) => Ok(left < *value),
                ("<=", [value]) => Ok(left <= *value),
                (">", [value]) => Ok(left > *value),
                (">=", [value]) => Ok(left >= *value),
                _ => Err(form()),
            }
        })
    }

    fn all_hold(&self, conditions: &[String]) -> Result<bool, String> {
        conditions.iter().try_fold(true, |all, text| match self.condition(text) {
            Some(holds) => Ok(holds? && all),
            None => Err(format!(
                "`{text}`: a form's conditions are on parameters, `$(expression) = number`"
            )),
        })
    }

    /// Puts values in the texts of a file: rules whose conditions on parameters do not hold are left out, of each form the
    /// first whose conditions do is kept.
    ///
    /// # Errors
    /// The key or rule, and what is wrong with it.
    pub(super) fn apply(&self, file: &mut File) -> Result<(), (String, String)> {
        let one = |place: &str, text: &mut String| -> Result<(), (String, String)> {
            *text = self.expand(text).map_err(|e| (place.to_string(), e))?;
            Ok(())
        };
        let optional = [
            ("translation.input", &mut file.translation.input),
            ("translation.output", &mut file.translation.output),
            ("weight.quantizer", &mut file.weight.quantizer),
            ("weight.bias_quantizer", &mut file.weight.bias_quantizer),
        ];
        for (place, text) in optional {
            text.iter_mut().try_for_each(|text| one(place, text))?;
        }
        if let Some(widths) = &mut file.widths {
            one("widths.budget", &mut widths.budget)?;
        }
        if let Some(dynamic) = &mut file.dynamic {
            one("dynamic.weight_bits", &mut dynamic.weight_bits)?;
            one("dynamic.target", &mut dynamic.target)?;
            one("dynamic.band", &mut dynamic.band)?;
            one("dynamic.weight", &mut dynamic.weight)?;
        }
        let narrow = [
            ("translation.narrow", &mut file.translation.narrow),
            ("backpropagation.narrow", &mut file.backpropagation.narrow),
        ];
        for (place, texts) in narrow {
            texts.values_mut().try_for_each(|text| one(place, text))?;
        }
        let forms = [
            ("translation.forms", &mut file.translation.forms),
            ("backpropagation.forms", &mut file.backpropagation.forms),
            ("weight.forms", &mut file.weight.forms),
        ];
        for (part, forms) in forms {
            for (name, form) in forms {
                let place = format!("{part}.{name}");
                let mut text = self.chosen(form).map_err(|e| (place.clone(), e))?;
                one(&place, &mut text)?;
                *form = FormText::One(text);
            }
        }
        let model = &mut file.model.rules;
        let mut rules = vec![model, &mut file.translation.rules, &mut file.backpropagation.rules];
        if let Some(optimizer) = &mut file.optimizer {
            for (name, text) in &mut optimizer.update {
                one(&format!("optimizer.update.{name}"), text)?;
            }
            for (name, text) in &mut optimizer.epoch_end {
                one(&format!("optimizer.epoch_end.{name}"), text)?;
            }
            rules.push(&mut optimizer.rules);
        }
        for rules in rules {
            self.rules(rules)?;
        }
        Ok(())
    }

    fn rules(&self, rules: &mut Vec<RuleText>) -> Result<(), (String, String)> {
        for mut rule in std::mem::take(rules) {
            let mut holds = true;
            let mut guards = Vec::new();
            for guard in std::mem::take(&mut rule.r#where) {
                match self.condition(&guard) {
                    Some(found) => holds &= found.map_err(|e| (rule.name.clone(), e))?,
                    None => guards.push(guard),
                }
            }
            rule.r#where = guards;
            for text in [&mut rule.r#match, &mut rule.into] {
                *text = self.expand(text).map_err(|e| (rule.name.clone(), e))?;
            }
            if holds {
                rules.push(rule);
            }
        }
        Ok(())
    }

    fn chosen(&self, form: &FormText) -> Result<String, String> {
        match form {
            FormText::One(text) => Ok(text.clone()),
            FormText::Choice(choices) => {
                for choice in choices {
                    if self.all_hold(&choice.r#where)? {
                        return Ok(choice.is.clone());
                    }
                }
                Err("no choice's conditions hold: give a last one without `where`".into())
            }
        }
    }
}

/// Where the parenthesis closes that a text is inside of.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        let parameter = |default, min, whole| Parameter {
            default,
            min: Some(min),
            max: None,
            below: None,
            whole,
            about: "bits".into(),
        };
        let declared = [("w", parameter(8.0, 1.0, true)), ("rate", parameter(0.5, 0.0, false))];
        Parameters::new(declared.map(|(name, p)| (name.to_string(), p)).into()).unwrap()
    }

    #[test]
    fn expressions_are_worked_out() {
        let mut own = parameters();
        for (text, expected) in [
            ("low=-$(2^(w - 1)), x", "low=-128, x"),
            ("$(2 / (2^w - 1))", "0.00784313725490196"),
            ("$(1 - 2 - 3) $(2^3^2) $(-2^2) $(rate * 4)", "-4 512 -4 2"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(own.expand(text).unwrap(), expected);
        }
        own.set("w=4").unwrap();
        assert_eq!(own.expand("$(2^w-1)").unwrap(), "15");
        assert_eq!((own.spelled(), parameters().spelled()), (":w=4".into(), String::new()));
        for (text, part) in [
            ("$(q)", "no parameter `q`"),
            ("$(w", "not closed"),
            ("$(w w)", "text after"),
            ("$(w / 0)", "inf"),
            ("$(2^rate)", "whole number"),
        ] {
            let message = own.expand(text).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn what_is_set_is_checked() {
        let mut own = parameters();
        for (text, part) in [
            ("v=4", "did you mean `w`"),
            ("w=0", "whole number of at least 1"),
            ("w=1.5", "whole number"),
            ("w", "NAME=NUMBER"),
            ("w=x", "NAME=NUMBER"),
            ("rate=-1", "at least 0"),
        ] {
            let message = own.set(text).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn conditions() {
        let own = parameters();
        let holds = |text: &str| own.condition(text).unwrap().unwrap();
        assert!(holds("$(w) = 1|8") && holds("$(w)!=1") && holds("$(w - 1) >= 7"));
        assert!(!holds("$(w) < 8") && holds("$(w) <= 8") && !holds("$(w) > 8"));
        assert!(own.condition("?a.role = forward").is_none());
        assert!(own.condition("$(w) ~ 3").unwrap().is_err());
    }
}
