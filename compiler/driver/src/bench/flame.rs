//! What launches take as a picture: the whole call above, below it the parts of the model that nodes' names spell, each as wide as it is dear.

use std::fmt::Write;

use trainc_data::escape;

use super::BenchReport;

/// Width of the picture, and heights of a row and of the strip for its words.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 20.0;
const WORDS: f64 = 24.0;
/// What stands between the parts of a node's name.
const SEPARATORS: [char; 2] = ['.', '/'];
/// Shades of parts with products, and of those without.
const PRODUCTS: [&str; 4] = ["#f2a272", "#f6b98e", "#ec9a68", "#f8c8a4"];
const OTHERS: [&str; 4] = ["#9dc3e6", "#b4d2ed", "#8cb6dd", "#c3dbf0"];
/// Width of a letter, on average.
const LETTER: f64 = 6.5;

/// A part of the call.
#[derive(Default)]
struct Part {
    name: String,
    units: u64,
    macs: u64,
    parts: Vec<Part>,
}

impl Part {
    /// Adds a launch whose node's name has these beginnings, from the outermost part to the node itself.
    fn add(&mut self, beginnings: &[&str], units: u64, macs: u64) {
        self.units += units;
        self.macs += macs;
        let Some((&name, inner)) = beginnings.split_first() else { return };
        let at = match self.parts.iter().position(|part| part.name == name) {
            Some(at) => at,
            None => {
                self.parts.push(Part { name: name.to_string(), ..Part::default() });
                self.parts.len() - 1
            }
        };
        self.parts[at].add(inner, units, macs);
    }

    fn depth(&self) -> usize {
        1 + self.parts.iter().map(Part::depth).max().unwrap_or(0)
    }
}

/// The launches of a report as SVG, joined by the parts of their nodes' names (between `.` and `/`); what a part takes itself, without those
/// below it, is bare at its right end. Each rectangle says what it is where a pointer rests on it.
pub fn flame(report: &BenchReport) -> String {
    let mut whole = Part { name: "the whole call".to_string(), ..Part::default() };
    for launch in &report.launches {
        let node = if launch.node.is_empty() { &launch.kernel } else { &launch.node };
        let ends = node.match_indices(SEPARATORS).map(|(at, _)| at).filter(|&at| at > 0);
        let beginnings: Vec<&str> = ends.chain([node.len()]).map(|at| &node[..at]).collect();
        whole.add(&beginnings, launch.units, launch.macs);
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"4\" y=\"17\" font-size=\"14\">{} for {}, {}: {} {}; with \
         products orange, without blue</text>\n",
        WORDS + whole.depth() as f64 * ROW,
        escape(&report.name),
        escape(&report.target),
        escape(&report.entry),
        whole.units,
        escape(report.unit),
    );
    let scale = WIDTH / whole.units.max(1) as f64;
    draw(&mut out, &whole, [0.0, WORDS], scale, report.unit, whole.units);
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, part: &Part, [x, y]: [f64; 2], scale: f64, unit: &str, all: u64) {
    let width = part.units as f64 * scale;
    let share = 100.0 * part.units as f64 / all.max(1) as f64;
    // Neighbours differ: a name has a shade of its own.
    let shade = part.name.bytes().fold(0usize, |sum, byte| sum + usize::from(byte)) % 4;
    let fill = if part.macs > 0 { PRODUCTS[shade] } else { OTHERS[shade] };
    let products = match part.macs {
        0 => String::new(),
        macs => format!(", {macs} MAC, {:.3} MAC a unit", macs as f64 / part.units.max(1) as f64),
    };
    let _ = writeln!(
        out,
        "<g><rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{ROW}\" fill=\"{fill}\" stroke=\"#fff\" \
         stroke-width=\"0.5\"/><title>{}: {} {unit}, {share:.1} %{products}</title>",
        escape(&part.name),
        part.units,
    );
    let letters = (width / LETTER) as usize;
    let last = part.name.rsplit(SEPARATORS).next().unwrap_or("");
    if letters > 2 {
        let word: String = last.chars().take(letters - 1).collect();
        let _ = writeln!(
            out,
            "<text x=\"{:.2}\" y=\"{:.2}\" pointer-events=\"none\">{}</text>",
            x + 3.0,
            y + 14.0,
            escape(&word)
        );
    }
    out.push_str("</g>\n");
    let mut at = x;
    for inner in &part.parts {
        draw(out, inner, [at, y + ROW], scale, unit, all);
        at += inner.units as f64 * scale;
    }
}
