//! A report as JUnit XML, as continuous integration shows it: a test case for each call, and
//! what launches cost as properties.

use std::fmt::Write;

use super::report::{LaunchCost, Outcome, Report};

/// The report as an XML document: one suite, named after model and target, with a case for each call.
pub fn junit(report: &Report) -> String {
    let count = |outcome| report.calls.iter().filter(|c| c.outcome == outcome).count();
    let suite = escape(&format!("{} ({})", report.name, report.target));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
        report.calls.len(),
        count(Outcome::Failed),
        count(Outcome::Skipped)
    );
    let _ = writeln!(out, "<testsuites name=\"trainc verify\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"{suite}\" {counts}>");
    if !report.launches.is_empty() {
        out.push_str("    <properties>\n");
        for launch in &report.launches {
            for cost in &launch.costs {
                let LaunchCost { entry, launch, node, .. } = launch;
                let name = escape(&format!("{entry} {launch} {node}, {}", cost.on));
                for (what, count) in [("instructions", cost.instructions), ("cycles", cost.cycles)]
                {
                    let _ = writeln!(
                        out,
                        "      <property name=\"{name}: {what}\" value=\"{count}\"/>"
                    );
                }
            }
        }
        out.push_str("    </properties>\n");
    }
    for call in &report.calls {
        let name = escape(&format!("{}: {}", call.case, call.entry));
        let case = format!("    <testcase classname=\"{suite}\" name=\"{name}\"");
        match (call.outcome, &report.finding) {
            (Outcome::Skipped, _) => {
                let _ = writeln!(out, "{case}><skipped/></testcase>");
            }
            (Outcome::Failed, Some(finding)) => {
                let text = finding.to_string();
                let message = match &finding.launch {
                    Some(launch) => {
                        format!("kernel `{}` for node `{}` is wrong", launch.kernel, launch.node)
                    }
                    None => "not what the reference computes".to_string(),
                };
                let (message, text) = (escape(&message), escape(&text));
                let _ = writeln!(out, "{case}>");
                let _ = writeln!(
                    out,
                    "      <failure type=\"mismatch\" message=\"{message}\">{text}</failure>"
                );
                let _ = writeln!(out, "    </testcase>");
            }
            _ => {
                let _ = writeln!(out, "{case}/>");
            }
        }
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Text as XML allows it: markup escaped, characters that XML cannot hold replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // In attributes they would become spaces.
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_escaped() {
        assert_eq!(escape("a<b & \"c\"\u{1}\n'"), "a&lt;b &amp; &quot;c&quot;\u{fffd}&#10;&apos;");
    }
}
