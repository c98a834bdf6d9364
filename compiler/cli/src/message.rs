//! What goes to stdout and stderr. Stdout holds what was asked for and nothing else; a reader that went away is no
//! error. Diagnostics go to stderr.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Value, json};
use trainc_driver::error::{message, place};

/// For whom stdout is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MessageFormat {
    /// Tables and sentences.
    Human,
    /// One JSON object a line, with its kind in `reason`.
    Json,
}

/// When diagnostics are coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Where messages go.
pub(crate) struct Output {
    format: MessageFormat,
    colored: bool,
}

impl Output {
    pub(crate) fn new(format: MessageFormat, color: Color) -> Output {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let colored = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => !no_color && std::io::stderr().is_terminal(),
        };
        Output { format, colored }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == MessageFormat::Json
    }

    /// Text for stdout, as it is.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            // The reader has what it wanted.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            Err(e) => Err(e).context("stdout"),
        }
    }

    /// A line for people; nothing in JSON mode.
    pub(crate) fn line(&self, text: &str) -> anyhow::Result<()> {
        if self.is_json() { Ok(()) } else { self.print(&format!("{text}\n")) }
    }

    /// A JSON object; nothing for people.
    pub(crate) fn object(&self, value: &Value) -> anyhow::Result<()> {
        if self.is_json() { self.print(&format!("{value}\n")) } else { Ok(()) }
    }

    /// A remark on stderr.
    pub(crate) fn note(&self, text: &str) {
        // Nobody is left to be told when stderr is gone.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// A warning on stderr.
    pub(crate) fn warning(&self, text: &str) {
        self.note(&format!("{} {text}", self.paint("33", "warning:")));
    }

    /// An error: on stderr for people, on stdout for scripts.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let message = message(error.as_ref());
        if self.is_json() {
            let place = place(error.as_ref());
            let object = json!({
                "reason": "error", "message": message, "file": place.file, "node": place.node,
            });
            let _ = self.object(&object);
        } else {
            self.note(&format!("{} {message}", self.paint("31", "error:")));
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colored { format!("\x1b[1;{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}
