//! The arena as a picture: launches from left to right, bytes from bottom to top.

use std::fmt::Write;

use trainc_data::escape;

use super::memory::Span;

/// Width and height of the picture, and of the strip for its words.
const SIZE: [f64; 2] = [1200.0, 600.0];
const WORDS: f64 = 24.0;

/// A map of the arena of an entry, as SVG. Each rectangle says what it is where a pointer rests on it.
pub fn svg(title: &str, arena_bytes: usize, spans: &[Span]) -> String {
    let launches = spans.iter().map(|s| s.to + 1).max().unwrap_or(1) as f64;
    let [x, y] = [SIZE[0] / launches, SIZE[1] / arena_bytes.max(1) as f64];
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"4\" y=\"17\">{}: {arena_bytes} bytes of \
         arena upwards, {launches} launches to the right</text>\n",
        SIZE[0],
        SIZE[1] + WORDS,
        escape(title),
    );
    for (i, span) in spans.iter().enumerate() {
        let scratch = span.name.starts_with("working memory");
        // Neighbours differ: the golden angle between their hues.
        let hue = i * 137 % 360;
        let fill = if scratch { "#bbb".to_string() } else { format!("hsl({hue},55%,70%)") };
        let top = WORDS + SIZE[1] - (span.offset + span.bytes) as f64 * y;
        let _ = writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{top:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{fill}\" stroke=\"#333\" \
             stroke-width=\"0.3\"><title>{}: {} bytes at {}, launches {} to {}</title></rect>",
            span.from as f64 * x,
            (span.to + 1 - span.from) as f64 * x,
            span.bytes as f64 * y,
            escape(&span.name),
            span.bytes,
            span.offset,
            span.from,
            span.to,
        );
    }
    out.push_str("</svg>\n");
    out
}
