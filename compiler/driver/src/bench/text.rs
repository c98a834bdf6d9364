//! A report for people.

use super::{BenchDevice, BenchLaunch, BenchReport, Machine};

/// Most tensors of the arena's peak that are shown.
const SHOWN: usize = 8;
/// Widest names of nodes and of implementations.
const NODE: usize = 44;
const WAY: usize = 22;

/// Lines of a report.
pub fn text(report: &BenchReport) -> Vec<String> {
    let BenchReport { name, target, entry, unit, units, .. } = report;
    let batch = report.batch.map_or(String::new(), |batch| format!(", batch {batch}"));
    let mut lines = vec![format!("{name} for {target}, {entry}{batch}: the second call")];
    lines.extend(report.compiler.iter().map(|command| format!("built by {command}")));
    lines.extend(report.runner.iter().map(|command| format!("run by {command}")));
    lines.push(String::new());
    let several = !report.devices.is_empty();
    let eight = report.cycles_8_cores.is_some();
    let same = report.launches.iter().all(|l| l.estimate_unit == *unit);
    let estimate =
        if same { "estimate".to_string() } else { format!("estimate ({})", estimated(report)) };
    lines.push(format!(
        "{:NODE$} {:WAY$} {:>13} {:>13} {:>9} {:>6}{}{} {estimate:>13}",
        "node",
        "runs as",
        "MAC",
        if several { "counted" } else { unit },
        if several { "MAC/unit" } else { per(unit) },
        "share",
        if eight { format!(" {:>13}", "8 cores") } else { String::new() },
        if report.machine.is_some() { LIMITS } else { "" },
    ));
    let share = |of: u64| 100.0 * of as f64 / (*units).max(1) as f64;
    for launch in &report.launches {
        let own = report.devices.iter().find(|d| Some(&d.device) == launch.device.as_ref());
        let part = own.map_or(share(launch.units), |own| {
            100.0 * launch.units as f64 / own.units.max(1) as f64
        });
        lines.push(row(launch, launch.unit, part, eight, report.machine.as_ref()));
    }
    for BenchDevice { device, units, unit, outside, .. } in &report.devices {
        let of = |launch: &&BenchLaunch| launch.device.as_ref() == Some(device);
        let macs: u64 = report.launches.iter().filter(of).map(|launch| launch.macs).sum();
        for (what, macs, units) in [
            (format!("outside of launches, {device}: {unit}"), String::new(), outside.to_string()),
            (format!("the whole call, {device}: {unit}"), macs.to_string(), units.to_string()),
        ] {
            lines.push(format!("{what:NODE$} {:WAY$} {macs:>13} {units:>13}", ""));
        }
    }
    if !several && report.outside != 0 {
        let share = 100.0 * report.outside as f64 / (*units).max(1) as f64;
        lines.push(format!(
            "{:NODE$} {:WAY$} {:>13} {:>13} {:>9} {share:>5.1}%",
            "outside of launches", "", "", report.outside, ""
        ));
    }
    let cores = report.cycles_8_cores.map_or(String::new(), |cycles| format!(" {cycles:>13}"));
    if !several {
        lines.push(format!(
            "{:NODE$} {:WAY$} {:>13} {units:>13} {:>9} {:>5.1}%{cores}",
            "the whole call",
            "",
            report.macs,
            ratio(report.macs, *units),
            100.0
        ));
    }
    if let Some(cycles) = report.cycles_8_cores {
        lines.push(format!("on 8 cores {} MAC a cycle", ratio(report.macs, cycles)));
    }
    if several {
        let model = |d: &BenchDevice| format!("counted on {}: {}", d.device, d.model);
        lines.extend(report.devices.iter().map(model));
    } else {
        lines.push(format!("counted: {}", report.model));
    }
    lines.extend(report.machine.iter().flat_map(|machine| most(report, machine)));
    lines.push(String::new());
    if let Some(bytes) = report.code_bytes {
        let tables = report.table_bytes.unwrap_or(0);
        lines.push(format!(
            "code       {bytes:>12} bytes, and {tables} of tables beside it; the runtime is apart"
        ));
    }
    lines.push(format!("constants  {:>12} bytes", report.constant_bytes));
    lines.push(format!("state      {:>12} bytes", report.state_bytes));
    lines.push(format!("arena      {:>12} bytes", report.arena_bytes));
    if let Some(peak) = &report.peak {
        lines.push(format!(
            "fullest in launch {}, {}: {} bytes",
            peak.launch, peak.node, peak.bytes
        ));
        for held in peak.held.iter().take(SHOWN) {
            lines.push(format!("  {:>12} {}", held.bytes, held.name));
        }
        if let Some(rest) = peak.held.get(SHOWN..).filter(|rest| !rest.is_empty()) {
            let bytes: usize = rest.iter().map(|held| held.bytes).sum();
            lines.push(format!("  {bytes:>12} in {} more", rest.len()));
        }
    }
    lines
}

/// Heads of the columns that compare launches with the machine.
const LIMITS: &str = " of peak      GB/s  of copy";

/// What a machine makes at most, and how near the whole call comes to it.
fn most(report: &BenchReport, machine: &Machine) -> Vec<String> {
    let peaks = [
        (machine.bytes, "bytes"),
        (machine.singles, "FP32, fused with their sums"),
        (machine.bits, "bits"),
    ];
    let peaks: Vec<String> = peaks
        .into_iter()
        .filter_map(|(peak, of)| Some(format!("{:.0} products of {of} a nanosecond", peak?)))
        .chain([format!("{:.1} GB/s copied in memory", machine.bandwidth)])
        .collect();
    let mut lines = vec![format!("this machine makes at most {}", peaks.join(", "))];
    if let Some(share) = machine.share(report) {
        lines.push(format!(
            "products of the whole call at these peaks would take {:.1} % of its time",
            100.0 * share
        ));
    }
    lines
}

fn row(
    launch: &BenchLaunch,
    unit: &str,
    share: f64,
    eight: bool,
    machine: Option<&Machine>,
) -> String {
    let macs = if launch.macs == 0 { String::new() } else { launch.macs.to_string() };
    let each = if launch.macs == 0 { String::new() } else { ratio(launch.macs, launch.units) };
    let cores = match (eight, launch.cycles_8_cores) {
        (true, Some(cycles)) => format!(" {cycles:>13}"),
        (true, None) => format!(" {:>13}", ""),
        (false, _) => String::new(),
    };
    let estimate = launch.estimate.map_or("-".to_string(), |estimate| estimate.to_string());
    // A count and its estimate in one unit can be compared.
    let off = match launch.estimate {
        Some(estimate) if launch.estimate_unit == unit && launch.units > 0 => {
            format!(" {:>6.2}x", estimate as f64 / launch.units as f64)
        }
        _ => String::new(),
    };
    let way = match &launch.device {
        Some(device) => {
            let room = WAY.saturating_sub(device.len() + 2);
            format!("{device}: {}", cut(launch.implementation, room))
        }
        None => cut(launch.implementation, WAY),
    };
    let limits = machine.map_or(String::new(), |machine| {
        let part = |share: f64| format!("{:.0} %", 100.0 * share);
        let rate = launch.bytes as f64 / launch.units.max(1) as f64;
        let peak = machine.share_of_launch(launch).map_or(String::new(), part);
        format!(" {peak:>7} {rate:>9.1} {:>8}", part(rate / machine.bandwidth))
    });
    format!(
        "{:NODE$} {:WAY$} {macs:>13} {:>13} {each:>9} {share:>5.1}%{cores}{limits} {estimate:>13}{off}",
        cut(&launch.node, NODE),
        way,
        launch.units,
    )
}

/// The end of a name that is too long.
fn cut(name: &str, width: usize) -> String {
    match name.chars().count().checked_sub(width) {
        None | Some(0) => name.to_string(),
        Some(over) => format!("…{}", name.chars().skip(over + 1).collect::<String>()),
    }
}

fn ratio(macs: u64, units: u64) -> String {
    format!("{:.3}", macs as f64 / units.max(1) as f64)
}

fn per(unit: &str) -> &'static str {
    match unit {
        "packets" => "MAC/pkt",
        "cycles" => "MAC/cycle",
        "nanoseconds" => "MAC/ns",
        _ => "MAC/instr",
    }
}

fn estimated(report: &BenchReport) -> &'static str {
    report.launches.first().map_or("", |launch| launch.estimate_unit)
}
