//! What each technique of the target `neon+hvx` is worth: modelled time of a training step, and instructions and packets of it as
//! counted under the emulators, with the technique and without.
//!
//!     cargo run --release -p trainc-tests --example pair_ablation -- lenet5 32 300 "conv*"
//!
//! A model of the zoo, the batch, microseconds of a switch, and the layers that are frozen where packed weights stay.

use std::path::Path;

use trainc_driver::bench::{BenchOptions, BenchReport, Subject, bench};
use trainc_driver::config::Config;
use trainc_driver::inspect::summary;
use trainc_driver::model::ModelSource;
use trainc_driver::options::micro_batch::MicroBatches;
use trainc_driver::residency::residencies;
use trainc_driver::session::{Entries, Session};
use trainc_driver::timeline::Placed;
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::batch_split::MicroBatch;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, batch, switch, frozen] = &words[..] else {
        return Err("usage: pair_ablation MODEL BATCH MICROSECONDS FROZEN".into());
    };
    let bytes = build(&ZooSpec::new(model)?)?;
    let source = ModelSource::Bytes { name: model.clone(), bytes };
    let (batch, switch): (usize, f64) = (batch.parse()?, switch.parse()?);
    let folder = std::env::temp_dir().join(format!("trainc-ablation-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = table(&source, (batch, frozen), switch, &folder);
    std::fs::remove_dir_all(&folder)?;
    done
}

/// The file of latencies that leaves all to the model but the switch, and makes some devices too dear.
fn latencies(session: &Session, switch: f64, without: Option<&str>, path: &Path) -> Result<()> {
    let mut text = format!("switch = {switch:?}\n");
    for kernel in session.program().kernels.iter().filter(|_| without.is_some()) {
        text += &format!("[kernels.{}]\n{} = 1e9\n", kernel.name, without.unwrap_or_default());
    }
    Ok(std::fs::write(path, text)?)
}

fn table(
    source: &ModelSource,
    (batch, frozen): (usize, &str),
    switch: f64,
    folder: &Path,
) -> Result<()> {
    println!("{}, batch {batch}, a switch takes {switch} us\n", source.name());
    println!(
        "| | modelled ms | switches | NEON instructions | HVX packets | arena bytes | products in parts |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    let path = folder.join("latencies.toml");
    let (adaptive, auto) = ("niti:adaptive=1", MicroBatch::Auto);
    let rows = [
        ("all", adaptive, auto, None),
        ("without adaptive rescaling", "niti", auto, None),
        ("without batch splitting", adaptive, MicroBatch::Off, None),
        ("with batch splitting wherever parts fit", adaptive, MicroBatch::Fit, None),
        ("without co-scheduling: all on the processor", adaptive, auto, Some("hvx")),
        ("without co-scheduling: all on the DSP", adaptive, auto, Some("cpu")),
    ];
    for (what, algorithm, micro_batch, without) in rows {
        let mut config = Config {
            target: "neon+hvx".into(),
            algorithm: algorithm.into(),
            batch: Some(batch),
            micro_batch: MicroBatches(micro_batch),
            ..Config::default()
        };
        let session = Session::new(source, &config, Entries::TrainAndInfer)?;
        latencies(&session, switch, None, &path)?;
        config.latencies = Some(path.clone());
        let modelled = summary(&Session::new(source, &config, Entries::TrainAndInfer)?);
        let timeline = modelled.timelines.first().ok_or("no timeline")?;
        let (time, switches) = match without {
            None => (Some(timeline.microseconds), timeline.switches),
            Some("hvx") => (timeline.alone[0], 0),
            Some(_) => (timeline.alone[1], 2),
        };
        latencies(&session, switch, without, &path)?;
        let counted = counted(source, &config, None)?;
        let [cpu, dsp] = [0, 1].map(|at| counted.devices.get(at).map_or(0, |d| d.units));
        println!(
            "| {what} | {:.2} | {switches} | {cpu} | {dsp} | {} | {} of {} |",
            time.unwrap_or(f64::INFINITY) / 1000.0,
            counted.arena_bytes,
            modelled.splits.iter().filter(|split| split.part.is_some()).count(),
            modelled.splits.len()
        );
        if what == "all" {
            let own = |l: &Placed| l.microseconds[l.device].unwrap_or(f64::INFINITY);
            let sum: f64 = timeline.launches.iter().map(own).sum();
            let time = sum + timeline.switches as f64 * timeline.switch;
            println!(
                "| without overlap, the same devices | {:.2} | {switches} | | | | |",
                time / 1000.0
            );
        }
    }
    // Weights that training changes are packed in each step; those of frozen layers can be kept.
    let config = Config {
        target: "hvx".into(),
        batch: Some(batch),
        freeze: vec![frozen.into()],
        ..Config::default()
    };
    let session = match Session::new(source, &config, Entries::TrainAndInfer) {
        Ok(session) => session,
        Err(e) => {
            println!("\nresidency: {e}");
            return Ok(());
        }
    };
    let regions = residencies(session.program());
    let Some(of_step) = regions.first() else {
        println!("\nresidency: no packed constants");
        return Ok(());
    };
    let total: u64 = of_step.regions.iter().map(|region| region.bytes).sum();
    println!(
        "\n{} frozen convolutions' weights packed, {total} bytes, target `hvx`:\n\n| TRAINC_HVX_RESIDENT_BYTES | HVX packets |\n| ---: | ---: |",
        of_step.regions.len()
    );
    for budget in [0, total / 2, total] {
        let compiler = format!("clang-19 -DTRAINC_HVX_RESIDENT_BYTES={budget}");
        println!("| {budget} | {} |", counted(source, &config, Some(compiler))?.units);
    }
    Ok(())
}

fn counted(source: &ModelSource, config: &Config, compiler: Option<String>) -> Result<BenchReport> {
    let options = BenchOptions { compiler, ..BenchOptions::default() };
    Ok(bench(&Subject::Model(source, config), &options, &mut |_| {})?.0)
}
