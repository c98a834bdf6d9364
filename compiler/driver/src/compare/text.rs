//! A comparison as a table for terminals, and what its differences mean in words.

use super::statistics::Spread;
use super::{AlgorithmResult, Comparison, TargetCost};

/// The lines.
pub fn text(comparison: &Comparison) -> Vec<String> {
    let (head, rows) = table(comparison);
    let widths: Vec<usize> = (0..head.len())
        .map(|i| rows.iter().chain([&head]).map(|row| row[i].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let mut lines = vec![line(&head)];
    lines.extend(rows.iter().map(line));
    lines.push(String::new());
    lines.extend(sentences(comparison));
    lines
}

/// Column heads, and a row for each algorithm.
pub(super) fn table(comparison: &Comparison) -> (Vec<String>, Vec<Vec<String>>) {
    let mut head: Vec<String> =
        ["algorithm", "accuracy", "MACs", "weighted", "bytes moved", "memory", "ms a step"]
            .map(str::to_string)
            .into();
    for target in targets(comparison) {
        let unit = comparison.algorithms.iter().flat_map(|a| &a.targets);
        let unit =
            unit.filter(|t| t.target == target).map(|t| t.unit).find(|unit| !unit.is_empty());
        head.push(format!("{target} {}", unit.unwrap_or("units")));
        head.push(format!("{target} code"));
    }
    let rows = comparison.algorithms.iter().map(|algorithm| {
        let AlgorithmResult { cost, .. } = algorithm;
        let mut row = vec![
            algorithm.name.clone(),
            percent(&algorithm.accuracy),
            large(cost.macs as f64),
            large(cost.weighted_macs),
            large(cost.bytes_moved as f64),
            large(cost.memory_bytes as f64),
            format!("{:.3}", 1e3 * algorithm.step_seconds.mean),
        ];
        for target in &algorithm.targets {
            row.extend(cells(target));
        }
        row
    });
    let rows = rows.collect();
    (head, rows)
}

/// The targets that were measured.
fn targets(comparison: &Comparison) -> Vec<&str> {
    let first = comparison.algorithms.first();
    first.into_iter().flat_map(|a| &a.targets).map(|t| t.target.as_str()).collect()
}

fn cells(cost: &TargetCost) -> [String; 2] {
    let units = cost.units.map_or_else(|| "-".to_string(), |units| large(units as f64));
    let code = cost.code_bytes.map_or_else(|| "-".to_string(), |code| large(code as f64));
    [units, code]
}

/// What the table means: the best, who is as good, what was not measured, what was counted.
pub(super) fn sentences(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let best = comparison
        .algorithms
        .iter()
        .reduce(|a, b| if b.accuracy.mean > a.accuracy.mean { b } else { a });
    let Some(best) = best else { return lines };
    let seeds = best.accuracy.count;
    if seeds < 2 {
        lines.push("one seed says nothing of its spread: no difference is judged".to_string());
    } else if comparison.algorithms.len() > 1 {
        let mut words = Vec::new();
        for difference in comparison.differences() {
            let [a, b] = &difference.pair;
            if *a != best.name && *b != best.name {
                continue;
            }
            let other = if *a == best.name { b } else { a };
            let gap = 100.0 * difference.difference.abs();
            let half = 100.0 * difference.uncertainty.unwrap_or(0.0);
            let judged = if difference.exceeds { "worse" } else { "not told apart" };
            words.push(format!("{other} {judged} ({gap:.2} +- {half:.2} points)"));
        }
        lines.push(format!(
            "beside {}, over {seeds} seeds (Welch's test, 95 %): {}",
            best.name,
            words.join(", ")
        ));
    }
    for algorithm in &comparison.algorithms {
        for target in &algorithm.targets {
            if let Some(error) = &target.error {
                let name = &algorithm.name;
                lines.push(format!("{name} was not measured on {}: {error}", target.target));
            }
        }
    }
    let weights =
        if comparison.fresh_weights { "weights of its own" } else { "the model's weights" };
    lines.push(format!(
        "a step has {} examples; each seed begins with {weights}; weighted MACs are times the bits of both operands, each over 32",
        comparison.batch
    ));
    lines
}

/// `97.90 % +- 0.21`.
pub(super) fn percent(spread: &Spread) -> String {
    let mean = format!("{:.2} %", 100.0 * spread.mean);
    match spread.deviation {
        Some(deviation) => format!("{mean} +- {:.2}", 100.0 * deviation),
        None => mean,
    }
}

/// A count in thousands, millions or billions.
pub(super) fn large(count: f64) -> String {
    match count {
        c if c >= 1e9 => format!("{:.2} G", c / 1e9),
        c if c >= 1e6 => format!("{:.2} M", c / 1e6),
        c if c >= 1e3 => format!("{:.1} k", c / 1e3),
        c => format!("{c:.0}"),
    }
}
