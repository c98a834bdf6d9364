//! Work that is divided into parts: functions beside a kernel, which `TRAINC_PARALLEL_FOR` calls for ranges of them.

use trainc_c::text::Text;

use crate::level::Level;

/// Most parts of a piece of work.
pub(crate) const PARTS: usize = 8;

/// What a function takes from its kernel: the C of a type up to the name, the name, and what the kernel gives.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    ty: &'static str,
    name: &'static str,
    given: String,
}

/// Something of the kernel under its own name.
pub(crate) fn own(ty: &'static str, name: &'static str) -> Taken {
    given(ty, name, name)
}

/// Something of the kernel by a name of its own.
pub(crate) fn given(ty: &'static str, name: &'static str, given: impl Into<String>) -> Taken {
    Taken { ty, name, given: given.into() }
}

/// The functions of a kernel.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    kernel: &'a str,
    count: usize,
    text: Text,
}

impl<'a> Parts<'a> {
    /// Of a kernel that has none yet.
    pub(crate) fn new(kernel: &'a str) -> Parts<'a> {
        Parts { kernel, count: 0, text: Text::default() }
    }

    /// Their text.
    pub(crate) fn finish(self) -> String {
        self.text.finish()
    }

    /// Calls a function for parts of some work. `body` prints it for `begin..end`, by what is taken.
    pub(crate) fn run(
        &mut self,
        out: &mut Text,
        parts: usize,
        taken: &[Taken],
        body: impl FnOnce(&mut Text),
    ) {
        self.count += 1;
        let name = format!("{}_part{}", self.kernel, self.count);
        let text = &mut self.text;
        text.open(format!("struct {name} {{"));
        for Taken { ty, name, .. } in taken {
            text.line(format!("{ty}{name};"));
        }
        text.close_with(";");
        text.line("");
        text.long(format!("static void {name}(void *context, int32_t begin, int32_t end)"));
        text.open("{");
        text.line(format!("const struct {name} *const work ="));
        text.line(format!("    (const struct {name} *)context;"));
        for Taken { ty, name, .. } in taken {
            // A pointer that does not change, or a number.
            let local = match ty.strip_suffix('*') {
                Some(_) => format!("{ty}const {name}"),
                None => format!("const {ty}{name}"),
            };
            text.line(format!("{local} = work->{name};"));
        }
        body(text);
        text.close();
        text.line("");
        let given: Vec<&str> = taken.iter().map(|taken| taken.given.as_str()).collect();
        out.open("{");
        out.long(format!("struct {name} work = {{ {} }};", given.join(", ")));
        out.long(format!("TRAINC_PARALLEL_FOR(&work, {parts}, {name});"));
        out.close();
    }
}

/// A loop over the parts of a range.
pub(crate) fn for_parts(out: &mut Text) {
    out.open("for (int32_t part = begin; part < end; part++) {");
}

/// The least of what a part has of `count`, and what the next one starts with.
pub(crate) fn range(count: usize, parts: usize) -> [String; 2] {
    if count == parts {
        return ["part".into(), "part + 1".into()];
    }
    let at = |part: &str| match count.is_multiple_of(parts) {
        true => format!("{part} * {}", count / parts),
        false => format!("{part} * {count} / {parts}"),
    };
    [at("part"), at("(part + 1)")]
}

/// What functions of a level need to be called.
pub(crate) fn of_level(level: Level) -> Vec<Taken> {
    match level {
        Level::Dispatch => vec![own("const struct trainc_level *", "level")],
        _ => Vec::new(),
    }
}

/// How many there are in a panel of 8, of so many in all.
pub(crate) fn of_panel(count: usize, panel: &str) -> String {
    match count.is_multiple_of(8) {
        true => "8".into(),
        false => format!("trainc_of_panel({count}, {panel})"),
    }
}
