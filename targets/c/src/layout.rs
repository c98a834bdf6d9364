//! Lines of C: indentation and wrapping at 100 columns.

use trainc_ir::names;

/// Columns of a line.
pub(crate) const COLUMNS: usize = 100;
const INDENT: usize = 4;

/// A text that grows by lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    /// Appends a line of code, indented, broken where it is too long.
    pub fn line(&mut self, code: &str) {
        let mut indent = INDENT * self.depth;
        let mut rest = code.trim_end();
        if rest.is_empty() {
            return self.text.push('\n');
        }
        let inner = indent + INDENT;
        // A directive of the preprocessor ends with its line.
        while !rest.starts_with('#') && indent + rest.len() > COLUMNS {
            let Some(at) = break_at(rest, COLUMNS - indent) else { break };
            self.put(indent, &rest[..at]);
            rest = rest[at..].trim_start();
            indent = inner;
        }
        self.put(indent, rest);
    }

    fn put(&mut self, indent: usize, text: &str) {
        self.text.push_str(&" ".repeat(indent));
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Appends a line and indents what follows.
    pub fn open(&mut self, code: &str) {
        self.line(code);
        self.depth += 1;
    }

    /// Appends the head of a function and its opening brace.
    pub fn open_function(&mut self, head: &str) {
        self.line(head);
        self.open("{");
    }

    /// Indents what follows a line that closed one block and opened the next.
    pub fn open_quietly(&mut self) {
        self.depth += 1;
    }

    /// Ends what [`Lines::open`] began.
    pub fn close(&mut self, code: &str) {
        self.depth -= 1;
        self.line(code);
    }

    /// Appends a comment of some paragraphs, wrapped between words; those that start with a space stay as they are.
    pub fn comment(&mut self, paragraphs: &[String]) {
        let margin = INDENT * self.depth;
        let pad = " ".repeat(margin);
        let mut rows = Vec::new();
        for paragraph in paragraphs {
            let (mut row, paragraph) = (String::new(), names::comment(paragraph));
            if paragraph.starts_with(' ') {
                rows.push(paragraph);
                continue;
            }
            for word in paragraph.split_whitespace() {
                if !row.is_empty() && margin + 3 + row.len() + 1 + word.len() > COLUMNS - 3 {
                    rows.push(std::mem::take(&mut row));
                    // Code hangs, prose does not.
                    row.push_str(if paragraph.ends_with('.') { "" } else { "   " });
                }
                if !row.trim().is_empty() {
                    row.push(' ');
                }
                row.push_str(word);
            }
            rows.push(row);
        }
        for (i, row) in rows.iter().enumerate() {
            let open = if i == 0 { "/*" } else { " *" };
            let close = if i + 1 == rows.len() { " */" } else { "" };
            let line = format!("{pad}{open} {row}");
            self.text.push_str(line.trim_end());
            self.text.push_str(close);
            self.text.push('\n');
        }
    }

    /// Nothing yet, with room for a text of that many bytes.
    pub fn of(size: usize) -> Lines {
        Lines { text: String::with_capacity(size), ..Lines::default() }
    }

    /// Appends a text as it is.
    pub fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// The space at which to break: the outermost; of these one after a comma, else beside the loosest operator, the
/// last of its kind. Not in the first third of the line.
fn break_at(code: &str, columns: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let (mut depth, mut best) = (0i32, None::<((i32, u8), usize)>);
    for (i, c) in bytes.iter().enumerate().take(columns + 1) {
        match c {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b' ' if i >= columns / 3 => {
                let (before, after) = (bytes[i - 1], bytes.get(i + 1).copied().unwrap_or(b' '));
                let kind = match before {
                    b',' | b';' => 0,
                    b'?' | b':' => continue,
                    _ if matches!(after, b'?' | b':') => 1,
                    b'=' | b'<' | b'>' => 1,
                    b'+' | b'-' | b'&' | b'|' | b'^' => 2,
                    b'*' | b'/' | b'%' => 3,
                    _ => continue,
                };
                if best.is_none_or(|(rank, _)| (depth, kind) <= rank) {
                    best = Some(((depth, kind), i));
                }
            }
            _ => {}
        }
    }
    best.map(|(_, at)| at)
        .or_else(|| code[..columns.min(code.len())].rfind(' ').filter(|&at| at > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_the_outermost_comma_or_operator() {
        let mut lines = Lines::default();
        let arguments: Vec<String> = (0..12).map(|i| format!("argument(a, {i})")).collect();
        lines.open(&format!("function({});", arguments.join(", ")));
        lines.line(&format!("sum = {};", ["left * (x + right)"; 6].join(" + ")));
        let text = lines.finish();
        assert_eq!(
            text,
            "function(argument(a, 0), argument(a, 1), argument(a, 2), argument(a, 3), argument(a, 4),\n    \
             argument(a, 5), argument(a, 6), argument(a, 7), argument(a, 8), argument(a, 9), argument(a, 10),\n    \
             argument(a, 11));\n    \
             sum = left * (x + right) + left * (x + right) + left * (x + right) + left * (x + right) +\n        \
             left * (x + right) + left * (x + right);\n"
        );
    }

    #[test]
    fn directives_stay_on_one_line() {
        let mut lines = Lines::default();
        let line = format!("#define LONG ({})", ["ONE_TERM_OF_A_SUM"; 12].join(" + "));
        lines.line(&line);
        assert_eq!(lines.finish(), format!("{line}\n"));
    }

    #[test]
    fn comments_cannot_be_ended_from_inside() {
        let mut lines = Lines::default();
        lines.comment(&["a */ b".into(), "  c".into()]);
        assert_eq!(lines.finish(), "/* a *_ b\n *   c */\n");
    }
}
