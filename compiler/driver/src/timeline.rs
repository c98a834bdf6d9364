//! Which device runs which launch, and why: a table, a picture with a lane for each device, and the times as a file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use trainc_data::escape;
use trainc_ir::harness::launches;
use trainc_ir::names::shown;
use trainc_ir::overlap::{self, Action};
use trainc_ir::program::{Entry, Launch, Program};
use trainc_ir::target::Cost;
use trainc_opt::plan::devices;

use crate::session::Session;

/// The devices of an entry's launches.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Timeline {
    /// The entry.
    pub entry: String,
    /// The devices, that of operands and results first.
    pub devices: Vec<String>,
    /// Microseconds of a switch.
    pub switch: f64,
    /// Microseconds of the whole, switches included.
    pub microseconds: f64,
    /// Microseconds of the whole on each device alone; none if a launch does not run there.
    pub alone: Vec<Option<f64>>,
    /// Switches, those at both ends included.
    pub switches: usize,
    /// Launches of the first device that run while another one does.
    pub beside: usize,
    /// The launches in order.
    pub launches: Vec<Placed>,
}

/// A launch on its device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Placed {
    /// The model's node.
    pub node: String,
    /// The kernel.
    pub kernel: String,
    /// Position of the device.
    pub device: usize,
    /// Microseconds on each device; none where it does not run.
    pub microseconds: Vec<Option<f64>>,
    /// When it starts, in microseconds.
    pub start: f64,
    /// Why it runs there.
    pub reason: &'static str,
}

fn microseconds(cost: Cost) -> Option<f64> {
    cost.cycles().map(|picoseconds| picoseconds as f64 / 1e6)
}

/// Those of a session; none if the target has one device.
pub(crate) fn timelines(session: &Session) -> Vec<Timeline> {
    let latencies = session.latencies.clone().unwrap_or_default();
    let Some(switch) = latencies.switch(session.target) else { return Vec::new() };
    let program = session.program();
    let cost = |kernel: &_, device| latencies.cost(&program.devices, kernel, device);
    let of = |entry| timeline(program, entry, &devices::costs(program, entry, &cost), switch);
    program.entries.iter().map(of).collect()
}

fn timeline(program: &Program, entry: &Entry, costs: &[Vec<Cost>], switch: Cost) -> Timeline {
    let all: Vec<&Launch> = launches(entry);
    let change = microseconds(switch).unwrap_or(0.0);
    let actions = overlap::actions(program, entry);
    let times = devices::times(&actions, &overlap::devices(entry), costs, switch);
    let switches = 2 * actions.iter().filter(|a| matches!(a, Action::Start(_))).count();
    let mut placed = Vec::new();
    for ((launch, row), start) in all.iter().zip(costs).zip(&times.starts) {
        let own = row[launch.device.0];
        let reason = match row.iter().min() {
            Some(least) if *least < own => {
                "a switch, or the wait, costs more than another device saves"
            }
            _ if row.iter().filter(|cost| **cost == own).count() > 1 => "as fast as elsewhere",
            _ => "fastest here",
        };
        placed.push(Placed {
            node: launch.name.clone(),
            kernel: program.kernel(launch.kernel).name.clone(),
            device: launch.device.0,
            start: microseconds(*start).unwrap_or(f64::INFINITY),
            reason,
            microseconds: row.iter().map(|cost| microseconds(*cost)).collect(),
        });
    }
    let alone = |device: usize| {
        let sum = costs.iter().fold(Cost::ZERO, |sum, row| sum + row[device]);
        microseconds(sum).map(|sum| if device == 0 { sum } else { sum + 2.0 * change })
    };
    Timeline {
        entry: entry.name.clone(),
        devices: program.devices.clone(),
        switch: change,
        microseconds: microseconds(times.end).unwrap_or(f64::INFINITY),
        beside: overlap::beside(&actions),
        alone: (0..program.devices.len()).map(alone).collect(),
        switches,
        launches: placed,
    }
}

impl Timeline {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let alone: Vec<String> = self
            .alone
            .iter()
            .zip(&self.devices)
            .map(|(time, device)| {
                let time = time.map_or_else(|| "never".to_string(), |t| format!("{t:.1} us"));
                format!("{time} on {device} alone")
            })
            .collect();
        let _ = writeln!(
            out,
            "{}: {:.1} us with {} switches of {:.1} us, {}{}",
            shown(&self.entry),
            self.microseconds,
            self.switches,
            self.switch,
            alone.join(", "),
            match self.beside {
                0 => String::new(),
                n => format!("; {n} launches run while the other device does"),
            }
        );
        let heads: String = self.devices.iter().map(|name| format!("{name:>12}")).collect();
        let _ = writeln!(out, "  launch device {heads}   node, and why there");
        for (number, launch) in self.launches.iter().enumerate() {
            let time = |t: &Option<f64>| t.map_or_else(|| "-".to_string(), |t| format!("{t:.2}"));
            let times: String =
                launch.microseconds.iter().map(|t| format!("{:>12}", time(t))).collect();
            let device = &self.devices[launch.device];
            let node = shown(&launch.node);
            let _ = writeln!(out, "  {number:>6} {device:<6} {times}   {node}: {}", launch.reason);
        }
        out
    }
}

/// The timelines' numbers as a file of [`crate::latencies`], to put measured ones in their place.
pub fn latencies(timelines: &[Timeline]) -> String {
    let switch = timelines.first().map_or(0.0, |timeline| timeline.switch);
    let mut out = format!(
        "# Microseconds: of a switch between devices, and of a launch of each kernel on each device. As compiled; put what was\n\
         # measured in their place.\nswitch = {switch:?}\n"
    );
    let mut seen = BTreeSet::new();
    for timeline in timelines {
        for launch in timeline.launches.iter().filter(|launch| seen.insert(&launch.kernel)) {
            let _ = writeln!(out, "\n[kernels.{}]", launch.kernel);
            for (device, time) in timeline.devices.iter().zip(&launch.microseconds) {
                if let Some(time) = time {
                    let _ = writeln!(out, "{device} = {time:?}");
                }
            }
        }
    }
    out
}

/// Width of the picture, of the names of lanes, height of a lane and of the strip for words.
const WIDTH: f64 = 1200.0;
const NAMES: f64 = 60.0;
const LANE: f64 = 60.0;
const WORDS: f64 = 24.0;

/// The timelines as SVG, one below the other: a lane for each device, time to the right. Each launch says what it is where a
/// pointer rests on it.
pub fn svg(name: &str, timelines: &[Timeline]) -> String {
    let lanes = |t: &Timeline| WORDS + LANE * t.devices.len() as f64;
    let height: f64 = timelines.iter().map(lanes).sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut top = 0.0;
    for timeline in timelines {
        let scale = (WIDTH - NAMES) / timeline.microseconds.max(1e-9);
        let (entry, whole) = (escaped(&timeline.entry), timeline.microseconds);
        let _ = writeln!(
            out,
            "<text x=\"4\" y=\"{:.1}\">{} {entry}: {whole:.1} us, {} switches of {:.1} us</text>",
            top + 17.0,
            escaped(name),
            timeline.switches,
            timeline.switch
        );
        let lane = |device: usize| top + WORDS + LANE * device as f64;
        for (device, name) in timeline.devices.iter().enumerate() {
            let y = lane(device);
            let _ = writeln!(
                out,
                "<rect x=\"{NAMES}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f2f2f2\"/>\n\
                 <text x=\"4\" y=\"{:.1}\">{}</text>",
                WIDTH - NAMES,
                LANE - 4.0,
                y + LANE / 2.0,
                escaped(name)
            );
        }
        for (i, launch) in timeline.launches.iter().enumerate() {
            let time = launch.microseconds[launch.device].unwrap_or(0.0);
            let _ = writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"hsl({},55%,70%)\" stroke=\"#333\" \
                 stroke-width=\"0.3\"><title>{}: {time:.2} us, {}: {}</title></rect>",
                NAMES + launch.start * scale,
                lane(launch.device),
                time * scale,
                LANE - 4.0,
                i * 137 % 360,
                escaped(&launch.node),
                escaped(&launch.kernel),
                launch.reason
            );
        }
        top += lanes(timeline);
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    escape(&shown(text))
}
