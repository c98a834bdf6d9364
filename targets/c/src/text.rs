//! Lines of C and a working memory's parts, for targets that print kernels of their own.

/// C text with indentation.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// A line; without one, an empty line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.is_empty() {
            self.out.extend(std::iter::repeat_n("    ", self.depth));
            self.out.push_str(line);
        }
        self.out.push('\n');
    }

    /// A line that breaks at commas where it is longer than 100 columns.
    pub fn long(&mut self, line: impl AsRef<str>) {
        let (mut rest, mut indent) = (line.as_ref(), 4 * self.depth);
        loop {
            let room = 100 - indent;
            let at = rest.get(..room.min(rest.len())).and_then(|part| part.rfind(", "));
            let (now, later) = match at {
                Some(at) if rest.len() > room => rest.split_at(at + 1),
                _ => (rest, ""),
            };
            self.out.push_str(&" ".repeat(indent));
            self.out.push_str(now);
            self.out.push('\n');
            rest = later.trim_start();
            indent = 4 * self.depth + 4;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// A line after which lines belong to a block.
    pub fn open(&mut self, line: impl AsRef<str>) {
        self.long(line);
        self.depth += 1;
    }

    /// A loop over `0..end`.
    pub fn for_(&mut self, variable: &str, end: impl std::fmt::Display) {
        self.open(format!("for (int32_t {variable} = 0; {variable} < {end}; {variable}++) {{"));
    }

    /// The end of a block.
    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// The end of a block, with what follows the brace.
    pub fn close_with(&mut self, behind: &str) {
        self.depth -= 1;
        self.line(format!("}}{behind}"));
    }

    /// The text.
    pub fn finish(self) -> String {
        self.out
    }
}

/// Parts of a kernel's working memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scratch {
    bytes: usize,
}

impl Scratch {
    /// Offset of a further part.
    pub fn take(&mut self, bytes: usize) -> usize {
        let offset = self.bytes;
        self.bytes += bytes.next_multiple_of(16);
        offset
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Declares a pointer into the working memory.
pub fn declare(out: &mut Text, ty: &str, name: &str, offset: usize, comment: &str) {
    let place = if offset == 0 { "scratch".into() } else { format!("(scratch + {offset})") };
    out.line(format!("/* {comment} */"));
    out.line(format!("{ty} *const {name} = ({ty} *)(void *){place};"));
}

/// `name * factor`, without what is nothing.
pub fn times(name: &str, factor: usize) -> String {
    if factor == 1 { name.into() } else { format!("{name} * {factor}") }
}
