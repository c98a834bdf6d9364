//! Lines of C.

/// C text with indentation.
#[derive(Debug, Default)]
pub(crate) struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// A line, broken at commas where it is longer than 100 columns; without one, an empty line.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let (mut rest, mut indent) = (line.as_ref(), 4 * self.depth);
        if rest.is_empty() {
            self.out.push('\n');
        }
        while !rest.is_empty() {
            let room = 100 - indent;
            let at = rest.get(..room.min(rest.len())).and_then(|part| part.rfind(", "));
            let (now, later) = match at {
                Some(at) if rest.len() > room => rest.split_at(at + 1),
                _ => (rest, ""),
            };
            self.out.push_str(&format!("{:indent$}{now}\n", ""));
            rest = later.trim_start();
            indent = 4 * self.depth + 4;
        }
    }

    /// A line after which lines belong to a block.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// A loop over `0..end`.
    pub(crate) fn for_(&mut self, variable: &str, end: impl std::fmt::Display) {
        self.open(format!("for (int32_t {variable} = 0; {variable} < {end}; {variable}++) {{"));
    }

    /// The end of a block.
    pub(crate) fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// A text as it is.
    pub(crate) fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        self.out
    }
}

/// `name * factor`, without what is nothing.
pub(crate) fn times(name: &str, factor: usize) -> String {
    if factor == 1 { name.into() } else { format!("{name} * {factor}") }
}
