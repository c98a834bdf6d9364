//! A comparison as files: a page that needs nothing else, and its picture.

use std::fmt::Write;

use trainc_data::escape;

use super::picture::picture;
use super::text::{sentences, table};
use super::{Comparison, Difference};

/// The page's file.
pub const REPORT: &str = "report.html";
/// The picture's.
pub const PICTURE: &str = "comparison.svg";

/// The files by name; `command` is what made them.
pub fn files(comparison: &Comparison, command: &str) -> [(&'static str, String); 2] {
    let picture = picture(comparison);
    [(REPORT, page(comparison, &picture, command)), (PICTURE, picture)]
}

fn page(comparison: &Comparison, picture: &str, command: &str) -> String {
    let title = escape(&format!("{} on {}", comparison.model, comparison.data));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<p>{} training and {} test images, {} epochs. Made by <code>{}</code>.</p>\n{picture}",
        comparison.images[0],
        comparison.images[1],
        epochs(comparison),
        escape(command)
    );
    let (head, rows) = table(comparison);
    page.push_str("<table>\n<tr>");
    head.iter().for_each(|cell| cell_of(&mut page, "th", cell));
    page.push_str("</tr>\n");
    for (row, algorithm) in rows.iter().zip(&comparison.algorithms) {
        let _ = write!(page, "<tr title=\"{}\">", escape(&algorithm.title));
        row.iter().for_each(|cell| cell_of(&mut page, "td", cell));
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    for sentence in sentences(comparison) {
        let _ = writeln!(page, "<p>{}</p>", escape(&sentence));
    }
    let differences = comparison.differences();
    if differences.iter().any(|difference| difference.uncertainty.is_some()) {
        page.push_str(
            "<h2>Differences</h2>\n<p>Of mean test accuracies, in points, with the half of a 95 % interval (Welch). Bold: \
             more than the seeds explain.</p>\n<table>\n",
        );
        differences.iter().for_each(|difference| row_of(&mut page, difference));
        page.push_str("</table>\n");
    }
    page.push_str("</html>\n");
    page
}

const STYLE: &str = "body{font:15px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif;max-width:1120px;margin:2em auto;\
padding:0 1em;color:#222}svg{max-width:100%;height:auto}table{border-collapse:collapse;margin:1em 0}\
td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
td:first-child,th:first-child{text-align:left}code{font-size:.9em}";

fn cell_of(page: &mut String, tag: &str, text: &str) {
    let _ = write!(page, "<{tag}>{}</{tag}>", escape(text).replace("+-", "&plusmn;"));
}

fn row_of(page: &mut String, difference: &Difference) {
    let [a, b] = &difference.pair;
    let half = difference.uncertainty.map_or_else(String::new, |u| format!(" +- {:.2}", 100.0 * u));
    let value = format!("{:+.2}{half}", 100.0 * difference.difference);
    page.push_str("<tr>");
    cell_of(page, "td", &format!("{a} - {b}"));
    cell_of(page, if difference.exceeds { "th" } else { "td" }, &value);
    page.push_str("</tr>\n");
}

/// Epochs of the runs.
fn epochs(comparison: &Comparison) -> usize {
    let runs = comparison.algorithms.iter().flat_map(|a| &a.runs);
    runs.filter_map(|run| run.history.last()).map(|record| record.epoch).max().unwrap_or(0)
}
