//! Formulas of an optimizer's update: s-expressions of operations, numbers and names.
//!
//! ```text
//! formula := number | ?name | ?name'                 a value before the step; after it
//!          | (operation formula...) | (operation{name=value, ...} formula...)
//!          | (result{n} formula)                    result n of an operation with several
//! ```

use trainc_ir::text::cursor::{Cursor, SyntaxError};
use trainc_ir::{Op, OpKind};

/// A formula as it stands in a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Formula {
    /// A number.
    Number(f64),
    /// `?name`: a value before the step.
    Before(String),
    /// `?name'`: what the step makes of it.
    After(String),
    /// An operation with its attributes, applied.
    Apply(Op, Vec<Formula>),
    /// A result of an operation with several.
    Result(usize, Op, Vec<Formula>),
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// Where the text is none, with the column.
    pub fn parse(text: &str) -> Result<Formula, SyntaxError> {
        let mut cursor = Cursor::new(text);
        let formula = term(&mut cursor, 0)?;
        if !cursor.at_end() {
            return Err(cursor.error("text after the formula"));
        }
        Ok(formula)
    }

    /// Every name in it.
    pub fn names<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Formula::Number(_) => {}
            Formula::Before(name) | Formula::After(name) => found.push(name),
            Formula::Apply(_, operands) | Formula::Result(_, _, operands) => {
                operands.iter().for_each(|f| f.names(found));
            }
        }
    }

    /// Every operation in it.
    pub fn operations(&self, found: &mut Vec<OpKind>) {
        if let Formula::Apply(op, operands) | Formula::Result(_, op, operands) = self {
            found.push(op.kind());
            operands.iter().for_each(|f| f.operations(found));
        }
    }
}

fn term(cursor: &mut Cursor<'_>, depth: usize) -> Result<Formula, SyntaxError> {
    if depth > 64 {
        return Err(cursor.error("nested too deeply"));
    }
    if cursor.accept("?") {
        let name = cursor.word()?.to_string();
        // Only right behind the name.
        return Ok(match cursor.accept("'") {
            true => Formula::After(name),
            false => Formula::Before(name),
        });
    }
    if cursor.peek().is_some_and(|c| c.is_ascii_digit() || "+-.".contains(c)) {
        let at = cursor.clone();
        let value: f64 = cursor.parse_number()?;
        return match value.is_finite() {
            true => Ok(Formula::Number(value)),
            false => Err(at.error("expected a finite number")),
        };
    }
    if cursor.peek() != Some('(') {
        return Err(cursor.error("expected a number, `?name`, `?name'` or `(operation ...)`"));
    }
    cursor.expect("(")?;
    let at = cursor.clone();
    if cursor.accept("result{") {
        let slot = cursor.parse_number()?;
        cursor.expect("}")?;
        let inner = cursor.clone();
        let Formula::Apply(op, operands) = term(cursor, depth + 1)? else {
            return Err(inner.error("expected `(operation ...)`, whose result it is"));
        };
        cursor.expect(")")?;
        return Ok(Formula::Result(slot, op, operands));
    }
    let kind = OpKind::named(cursor.word()?).map_err(|message| at.error(message))?;
    if !kind.fields().is_empty() && cursor.peek() != Some('{') {
        return Err(at.error(format!(
            "`{name}` has attributes ({}), written out as in `({name}{{{}=...}} ...)`",
            kind.fields().join(", "),
            kind.fields()[0],
            name = kind.name()
        )));
    }
    let op = kind.parse_attributes(cursor)?;
    let mut operands = Vec::new();
    while !matches!(cursor.peek(), Some(')') | None) {
        operands.push(term(cursor, depth + 1)?);
    }
    cursor.expect(")")?;
    if let Some(function) = trainc_ir::ops::formula::Function::of(kind)
        && operands.len() != function.arity()
    {
        return Err(at.error(format!(
            "`{}` takes {} operand(s), here {}",
            kind.name(),
            function.arity(),
            operands.len()
        )));
    }
    Ok(Formula::Apply(op, operands))
}
