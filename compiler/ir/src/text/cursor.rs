//! A cursor over text: the lexer under the graph parser and the attribute parser.

use std::fmt;

/// An error at a place of a text: in its syntax, or in what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Characters that it is about, at least 1.
    pub length: usize,
    /// What is wrong.
    pub message: String,
}

/// Most characters of a line that [`SyntaxError::shown`] shows.
const SHOWN: usize = 100;

impl SyntaxError {
    /// The error, and beneath it the line of the text with carets under what it is about.
    ///
    /// Of a long line a part is shown; characters that might move others stand as `?`.
    pub fn shown(&self, text: &str) -> String {
        let plain = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
        let line = text.lines().nth(self.line - 1).unwrap_or("");
        let before = (self.column - 1).saturating_sub(SHOWN / 2);
        let skip = if self.column + self.length > SHOWN { before } else { 0 };
        let shown = line.chars().skip(skip).take(SHOWN);
        let shown: String = shown.map(|c| if plain(c) { c } else { '?' }).collect();
        let length = self.length.min(SHOWN - (self.column - 1 - skip).min(SHOWN - 1));
        let (number, dots) = (self.line.to_string(), if skip > 0 { "..." } else { "" });
        let margin = " ".repeat(number.len());
        let space = " ".repeat(self.column - 1 - skip + dots.len());
        let carets = "^".repeat(length.max(1));
        format!("{self}\n{number} | {dots}{}\n{margin} | {space}{carets}", shown.trim_end())
    }
}

/// A stretch of a text, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

impl Span {
    /// An error about this stretch of `text`.
    pub fn error(self, text: &str, message: impl Into<String>) -> SyntaxError {
        let before = &text[..self.start];
        SyntaxError {
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or("").chars().count() + 1,
            length: text[self.start..self.end].chars().count().max(1),
            message: message.into(),
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// A position in a text. White space and `;` comments (to the end of the line) separate tokens.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `text`.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, position: 0 }
    }

    /// The whole text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// Skips white space and comments.
    pub fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.position += rest.len() - trimmed.len();
            if trimmed.starts_with(';') {
                self.position += trimmed.find('\n').unwrap_or(trimmed.len());
            } else {
                return;
            }
        }
    }

    /// An error at the next token.
    pub fn error(&self, message: impl Into<String>) -> SyntaxError {
        self.token().error(self.text, message)
    }

    /// The next token: a word or number with its sign, a string as far as the line's end, or a character.
    pub fn token(&self) -> Span {
        let mut token = self.clone();
        token.skip_space();
        let (start, rest) = (token.position, token.rest());
        let part = |c: char| c.is_ascii_alphanumeric() || "_%@+-.".contains(c);
        let length = match rest.chars().next() {
            Some('"') => {
                let inner = rest[1..].lines().next().unwrap_or("");
                inner.find('"').map_or(1 + inner.len(), |end| end + 2)
            }
            Some(c) if part(c) => rest.find(|c| !part(c)).unwrap_or(rest.len()),
            c => c.map_or(0, char::len_utf8),
        };
        Span { start, end: start + length }
    }

    /// From the start of the next token of `self` to where `end` stands.
    pub fn span_to(&self, end: &Cursor<'_>) -> Span {
        let start = self.token().start;
        Span { start, end: end.position.max(start) }
    }

    /// Whether nothing but space is left.
    pub fn at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    /// The next character, without taking it.
    pub fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    /// Takes `token` if it comes next.
    pub fn accept(&mut self, token: &str) -> bool {
        self.skip_space();
        if self.rest().starts_with(token) {
            self.position += token.len();
            true
        } else {
            false
        }
    }

    /// Takes `token` or fails.
    pub fn expect(&mut self, token: &str) -> Result<(), SyntaxError> {
        if self.accept(token) { Ok(()) } else { Err(self.error(format!("expected `{token}`"))) }
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let length = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    /// Goes to a place of the text, where a character begins.
    pub(super) fn go_to(&mut self, position: usize) {
        self.position = position;
    }

    /// What stands in braces that come next, and they, up to the one that closes the first.
    pub fn braced(&mut self) -> Result<&'a str, SyntaxError> {
        self.skip_space();
        let rest = self.rest();
        let mut open = 0usize;
        for (at, c) in rest.char_indices() {
            open += usize::from(c == '{');
            open = open.saturating_sub(usize::from(c == '}'));
            if open == 0 {
                let end = if c == '}' { at + 1 } else { 0 };
                self.position += end;
                return if end > 0 { Ok(&rest[..end]) } else { Err(self.error("expected `{`")) };
            }
        }
        Err(self.error("expected `{` and a `}` that closes it"))
    }

    /// A word: letters, digits, `_`.
    pub fn word(&mut self) -> Result<&'a str, SyntaxError> {
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if word.is_empty() { Err(self.error("expected a word")) } else { Ok(word) }
    }

    /// A number's text: digits, sign, point, exponent, or `inf`, `nan`.
    pub fn number(&mut self) -> Result<&'a str, SyntaxError> {
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if word.is_empty() { Err(self.error("expected a number")) } else { Ok(word) }
    }

    /// A number of type `T`.
    pub fn parse_number<T: std::str::FromStr>(&mut self) -> Result<T, SyntaxError> {
        let start = self.clone();
        let text = self.number()?;
        text.parse().map_err(|_| start.error(format!("`{text}` is not a number of this kind")))
    }

    /// A quoted string with `\"`, `\\`, `\n` and `\u{..}` escapes.
    pub fn string(&mut self) -> Result<String, SyntaxError> {
        self.expect("\"")?;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.position += i + 1;
                    return Ok(out);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 'u')) => {
                        let digits: String = chars
                            .by_ref()
                            .map(|(_, c)| c)
                            .skip_while(|&c| c == '{')
                            .take_while(|&c| c != '}')
                            .collect();
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        out.push(code.ok_or_else(|| self.error("bad escape"))?);
                    }
                    Some((_, c)) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(self.error("unterminated string"))
    }
}

/// Writes `text` quoted so that [`Cursor::string`] reads it back.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            // What might change the order or the end of a line is not shown as itself.
            c if c.is_control() || (!c.is_ascii() && !c.is_alphanumeric()) => {
                out.push_str(&format!("\\u{{{:x}}}", u32::from(c)))
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
