//! A progress bar on stderr, where that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: usize = 30;
const INTERVAL: Duration = Duration::from_millis(100);

/// One line that is drawn over again.
pub(crate) struct ProgressBar {
    shown: bool,
    last: Option<Instant>,
    drawn: bool,
}

impl ProgressBar {
    pub(crate) fn new() -> ProgressBar {
        ProgressBar { shown: std::io::stderr().is_terminal(), last: None, drawn: false }
    }

    /// Shows that `done` of `total` are done.
    pub(crate) fn show(&mut self, what: &str, done: usize, total: usize) {
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        self.drawn = true;
        let text = bar(what, done, total);
        let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(what: &str, done: usize, total: usize) -> String {
    let filled = (WIDTH * done).checked_div(total).unwrap_or(0).min(WIDTH);
    format!("{what} [{}{}] {done}/{total}", "=".repeat(filled), " ".repeat(WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        assert_eq!(bar("x", 0, 2), format!("x [{}] 0/2", " ".repeat(WIDTH)));
        assert_eq!(bar("x", 2, 2), format!("x [{}] 2/2", "=".repeat(WIDTH)));
        assert!(bar("x", 1, 2).contains(&format!("[{} ", "=".repeat(WIDTH / 2))));
        assert!(bar("x", 0, 0).ends_with("0/0"));
    }
}
