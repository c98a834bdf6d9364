//! `trainc_driver::bench` on every target: what launches cost adds up to what the whole call does in a build that marks
//! nothing inside of it, two runs give the same counts, and products have their multiplications.

use trainc_driver::bench::{BenchOptions, BenchReport, Span, Subject, bench, flame, svg, text};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::zoo::{ZooSpec, build};

use super::targets;

fn report(target: &str) -> (BenchReport, Vec<Span>) {
    let spec = ZooSpec::new("digits").expect("in the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let source = ModelSource::Bytes { name: "digits".to_string(), bytes };
    let config = Config { target: target.to_string(), batch: Some(2), ..Config::default() };
    let options = BenchOptions::default();
    let found = bench(&Subject::Model(&source, &config), &options, &mut |_| {});
    found.unwrap_or_else(|e| panic!("{target}: {e:#}"))
}

/// Multiplications of the digits net: two 3x3 convolutions on 8x8 (1 to 16 channels) and 4x4 (to 32), layers of 128 to 128
/// and to 10. The first layer has no error.
fn multiplications(batch: u64) -> u64 {
    let layers = [16 * 9 * 64, 16 * 32 * 9 * 16, 128 * 128, 128 * 10];
    batch * (3 * layers.iter().sum::<u64>() - layers[0])
}

/// Below a part its own parts are no wider than it, and the widest rectangle is the whole call.
fn whole_call_is_as_wide_as_its_parts(found: &BenchReport) {
    let picture = flame(found);
    let rectangles: Vec<[f64; 3]> = picture
        .lines()
        .filter(|line| line.starts_with("<g><rect"))
        .map(|line| {
            ["x", "y", "width"].map(|name| {
                let (_, value) = line.split_once(&format!(" {name}=\"")).expect(name);
                value.split_once('"').and_then(|(value, _)| value.parse().ok()).expect(name)
            })
        })
        .collect();
    assert!(rectangles.len() > found.launches.len() / 2, "{picture}");
    let [x, y, width] = rectangles[0];
    assert!(x == 0.0 && width > 1199.9, "{picture}");
    // Every launch has a node, whose first part stands in the second row.
    let below: f64 = rectangles.iter().filter(|r| r[1] == y + 20.0).map(|r| r[2]).sum();
    assert!((below - width).abs() < 1.0, "{below} of {width}: {picture}");
}

/// What the machine makes at most is measured for the host alone, and no product is above it by more than what clocks do.
fn limits(found: &BenchReport) {
    assert_eq!(found.machine.is_some(), found.target == "host");
    for launch in &found.launches {
        assert_eq!(launch.factors.is_some(), launch.macs > 0, "{launch:#?}");
        assert!(launch.bytes > 0, "{launch:#?}");
    }
    if let Some(machine) = &found.machine {
        assert!(machine.bandwidth > 0.0 && machine.bytes.is_some_and(|peak| peak > 0.0));
        assert!(machine.bits.is_none() && machine.singles.is_none(), "{machine:?}");
        assert!(machine.share(found).is_some_and(|share| share > 0.0 && share < 1.5));
        assert!(text(found).iter().any(|line| line.starts_with("this machine makes at most")));
    }
}

#[test]
fn launches_add_up() {
    for target in targets() {
        let name = target.description().name;
        // What the others run, too, on another processor.
        // Nothing counts on a device of OpenCL.
        if name.contains('+') || name == "opencl" {
            continue;
        }
        let (found, spans) = report(name);
        let launches: u64 = found.launches.iter().map(|l| l.units).sum();
        assert_eq!((found.target.as_str(), found.entry.as_str()), (name, "train_step"));
        assert_eq!(found.batch, Some(2));
        assert_eq!(launches as i64 + found.outside, found.units as i64, "{name}");
        // Without marks a compiler joins what it calls once; times depend on what else runs.
        let apart = found.units.abs_diff(launches) as f64 / found.units as f64;
        assert!(apart < 0.05 || name == "host", "{name}: {launches} of {}", found.units);
        assert_eq!(found.macs, multiplications(2), "{name}");
        assert!(found.launches.iter().all(|l| l.units > 0), "{name}: {:#?}", found.launches);
        assert!(found.code_bytes.is_some_and(|bytes| bytes > 1000), "{name}");
        let peak = found.peak.as_ref().expect("it has an arena");
        let held: usize = peak.held.iter().map(|held| held.bytes).sum();
        assert!(held == peak.bytes && held <= found.arena_bytes, "{name}: {peak:?}");
        assert!(spans.iter().all(|s| s.offset + s.bytes <= found.arena_bytes), "{name}");
        assert_eq!(svg("net", found.arena_bytes, &spans).matches("<title>").count(), spans.len());
        assert!(text(&found).iter().any(|line| line.starts_with("the whole call")));
        whole_call_is_as_wide_as_its_parts(&found);
        limits(&found);
        if name == "hvx" {
            assert_eq!(report(name).0, found);
        }
    }
}
