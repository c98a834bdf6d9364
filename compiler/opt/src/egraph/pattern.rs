//! The s-expressions of rules.
//!
//! ```text
//! pattern := ?name                                  any class
//!          | (word pattern...)                      an operation; if it has attributes the first child binds them
//!          | (word{name=value, ...} pattern...)     an operation with exactly these attributes
//!          | (lowered pattern) | (raised pattern)   the markers of translation
//!          | (result{n} pattern)                    result n of an operation with several
//! ```

use egg::{ENodeOrVar, Id, Pattern, PatternAst, Var};
use trainc_ir::OpKind;
use trainc_ir::text::cursor::{Cursor, SyntaxError};

use super::language::Node;

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
    cursor.expect("(")?;
    let at = cursor.clone();
    let word = cursor.word()?;
    let node = match word {
        "lowered" => Node::Lowered([term(cursor, ast, depth + 1)?]),
        "raised" => Node::Raised([term(cursor, ast, depth + 1)?]),
        "result" => {
            cursor.expect("{")?;
            let slot = cursor.parse_number()?;
            cursor.expect("}")?;
            Node::Result(slot, [term(cursor, ast, depth + 1)?])
        }
        word => {
            let kind = OpKind::from_name(word)
                .ok_or_else(|| at.error(format!("unknown operation `{word}`")))?;
            let mut children = Vec::new();
            if cursor.peek() == Some('{') {
                let op = kind.parse_attributes(cursor)?;
                children.push(ast.add(ENodeOrVar::ENode(Node::Attributes(op))));
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
