//! A comparison as one picture: accuracy by epoch with the seeds' spread on the left, accuracy against cost on the right.

use std::fmt::Write;

use trainc_data::{Axis, COLOURS, decimal, escape};

use super::statistics::Spread;
use super::{AlgorithmResult, Comparison};

const SIZE: [f64; 2] = [1120.0, 460.0];
const TOP: f64 = 76.0;
const BOTTOM: f64 = 400.0;
/// From left to right: accuracy by epoch, accuracy against cost.
const PLOTS: [[f64; 2]; 2] = [[64.0, 480.0], [552.0, 842.0]];
/// Where the algorithms' names begin.
const NAMES: f64 = 876.0;
/// From one name to the next.
const LINE: f64 = 19.0;
/// With more algorithms than these, lines are drawn without the bands of their deviations, which would hide each other.
const BANDS: usize = 4;

/// The picture as an SVG document.
pub(super) fn picture(comparison: &Comparison) -> String {
    let means: Vec<Vec<(f64, Spread)>> = comparison.algorithms.iter().map(by_epoch).collect();
    // What is drawn is where accuracies end: the first half of a training may lie below.
    let last = means.iter().flatten().map(|(epoch, _)| *epoch).fold(0.0, f64::max);
    let late = means.iter().flatten().filter(|(epoch, _)| *epoch >= last / 2.0);
    let edges = late.flat_map(|(_, spread)| interval(spread));
    let accuracy = Axis::of_percentages(edges);
    let epochs = Axis::of_epochs(means.iter().flatten().map(|(epoch, _)| *epoch), true);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{left}\" y=\"30\" font-size=\"16\" font-weight=\"600\">{} on {}</text>\n",
        escape(&comparison.model),
        escape(&comparison.data),
        w = SIZE[0],
        h = SIZE[1],
        left = PLOTS[0][0],
    );
    frame(
        &mut svg,
        PLOTS[0],
        &accuracy,
        match means.len() > BANDS {
            true => "Test accuracy (%) by epoch, mean over seeds",
            false => "Test accuracy (%) by epoch, mean and deviation over seeds",
        },
    );
    let last = comparison.algorithms.iter().flat_map(|a| interval(&percent(&a.accuracy)));
    let lasts = Axis::of_percentages(last);
    frame(&mut svg, PLOTS[1], &lasts, "Test accuracy (%) against weighted MACs of a step");
    let dashes = |i: usize| DASHES[i / COLOURS.len() % DASHES.len()];
    let x = |epoch: f64| across(PLOTS[0], epochs.fraction(epoch));
    for tick in &epochs.ticks {
        below(&mut svg, x(tick.value), &tick.label);
    }
    for (i, points) in means.iter().enumerate() {
        band(&mut svg, points, &x, &accuracy, (colour(i), dashes(i), means.len() <= BANDS));
    }
    // Powers of two, a tick for each that is reached.
    let logs = comparison.algorithms.iter().map(|a| a.cost.weighted_macs.max(1.0).log2());
    let (low, high) = logs.clone().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
    let (low, high) = ((low - 0.3).floor(), (high + 0.3).ceil());
    let x = |log: f64| across(PLOTS[1], (log - low) / (high - low).max(1.0));
    let stride = ((high - low) / 4.0).ceil().max(1.0);
    let mut tick = low;
    while tick <= high {
        below(&mut svg, x(tick), &super::text::large(tick.exp2()));
        tick += stride;
    }
    let places: Vec<f64> =
        comparison.algorithms.iter().map(|a| height(&lasts, percent(&a.accuracy).mean)).collect();
    let names = apart(&places);
    for (i, (algorithm, log)) in comparison.algorithms.iter().zip(logs).enumerate() {
        let look = (colour(i), dashes(i));
        point(&mut svg, x(log), &algorithm.accuracy, &lasts, (&algorithm.name, names[i], look));
    }
    svg.push_str("</svg>\n");
    svg
}

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// How lines of one colour differ.
const DASHES: [&str; 4] = ["none", "7 4", "2 4", "9 3 2 3"];

/// Where names stand so that none is on another: as near to these heights as their order allows.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
    let mut places = vec![0.0; heights.len()];
    // The next must not be above this one; the last not below the plot.
    let mut free = TOP;
    for &i in &order {
        places[i] = heights[i].max(free);
        free = places[i] + LINE;
    }
    let mut free = BOTTOM;
    for &i in order.iter().rev() {
        places[i] = places[i].min(free);
        free = places[i] - LINE;
    }
    places
}

/// The accuracy in percent after each epoch that every run has.
fn by_epoch(algorithm: &AlgorithmResult) -> Vec<(f64, Spread)> {
    let epochs = algorithm.runs.iter().map(|run| run.history.len()).min().unwrap_or(0);
    (0..epochs)
        .map(|n| {
            let values = algorithm
                .runs
                .iter()
                .map(|run| 100.0 * run.history[n].test_accuracy.unwrap_or_default());
            (algorithm.runs[0].history[n].epoch as f64, Spread::of(values))
        })
        .collect()
}

/// The mean less and plus the deviation.
fn interval(spread: &Spread) -> [f64; 2] {
    let deviation = spread.deviation.unwrap_or(0.0);
    [(spread.mean - deviation).max(0.0), (spread.mean + deviation).min(100.0)]
}

/// A share of 1 in percent.
fn percent(spread: &Spread) -> Spread {
    let deviation = spread.deviation.map(|deviation| 100.0 * deviation);
    Spread { mean: 100.0 * spread.mean, deviation, ..*spread }
}

fn across(plot: [f64; 2], fraction: f64) -> f64 {
    plot[0] + fraction * (plot[1] - plot[0])
}

fn height(axis: &Axis, value: f64) -> f64 {
    BOTTOM - axis.fraction(value) * (BOTTOM - TOP)
}

fn frame(svg: &mut String, [left, right]: [f64; 2], accuracy: &Axis, caption: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{:.1}\" font-weight=\"600\">{caption}</text>",
        TOP - 10.0
    );
    for tick in &accuracy.ticks {
        let y = height(accuracy, tick.value);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#666\">{}</text>",
            left - 8.0,
            y + 4.0,
            tick.label
        );
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{left}\" y1=\"{BOTTOM}\" x2=\"{right}\" y2=\"{BOTTOM}\" stroke=\"#888\"/>"
    );
}

/// A tick's label below the plots.
fn below(svg: &mut String, x: f64, label: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{label}</text>",
        BOTTOM + 19.0
    );
}

/// A line of means in the band of their deviations.
fn band(
    svg: &mut String,
    points: &[(f64, Spread)],
    x: &dyn Fn(f64) -> f64,
    accuracy: &Axis,
    (colour, dashes, filled): (&str, &str, bool),
) {
    let at = |(epoch, value): (f64, f64)| format!("{:.1} {:.1}", x(epoch), height(accuracy, value));
    let lower = points.iter().map(|(epoch, spread)| (*epoch, interval(spread)[0]));
    let upper = points.iter().rev().map(|(epoch, spread)| (*epoch, interval(spread)[1]));
    let around: Vec<String> = lower.chain(upper).map(at).collect();
    let line: Vec<String> =
        points.iter().map(|(epoch, spread)| at((*epoch, spread.mean))).collect();
    if line.is_empty() {
        return;
    }
    if filled {
        let around = around.join("L");
        let _ = write!(svg, "<path d=\"M{around}Z\" fill=\"{colour}\" fill-opacity=\"0.18\"/>");
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\" \
         stroke-linejoin=\"round\"/>",
        line.join("L")
    );
}

/// An algorithm's last accuracy with its deviation, and its name at a height beside the plot, with what its line looks like.
fn point(
    svg: &mut String,
    x: f64,
    spread: &Spread,
    accuracy: &Axis,
    (name, place, (colour, dashes)): (&str, f64, (&str, &str)),
) {
    let percent = percent(spread);
    let [low, high] = interval(&percent).map(|value| height(accuracy, value));
    let y = height(accuracy, percent.mean);
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"{low:.1}\" x2=\"{x:.1}\" y2=\"{high:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
         <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{colour}\" stroke=\"#fff\"/>\
         <path d=\"M{:.1} {y:.1}L{:.1} {place:.1}\" fill=\"none\" stroke=\"#bbb\" stroke-width=\"0.8\"/>\
         <line x1=\"{NAMES}\" y1=\"{place:.1}\" x2=\"{:.1}\" y2=\"{place:.1}\" stroke=\"{colour}\" stroke-width=\"3\" \
         stroke-dasharray=\"{dashes}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\"><tspan font-weight=\"600\">{}</tspan> {}</text>",
        x + 5.0,
        NAMES - 6.0,
        NAMES + 24.0,
        NAMES + 32.0,
        place + 4.0,
        decimal(percent.mean, 2),
        escape(name),
    );
}
