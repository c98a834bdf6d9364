//! `trainc train`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use trainc_driver::checkpoint;
use trainc_driver::choices::{ChoiceCost, Choices};
use trainc_driver::config::Config;
use trainc_driver::data::{Dataset, write_atomically, write_safetensors};
use trainc_driver::error::Result;
use trainc_driver::history::{EpochRecord, chart};
use trainc_driver::model::ModelSource;
use trainc_driver::options::value::Schedule;
use trainc_driver::session::{Entries, Session};
use trainc_driver::train::{Advanced, Progress, Trainer, check_trains};
use trainc_driver::trained::choose_algorithm;
use trainc_driver::weights;
use trainc_driver::widths::{self, WidthMap};

use crate::arguments::{TrainArguments, built_in_model, model_file};
use crate::message::Output;
use crate::progress::ProgressBar;

/// One of the runs side by side.
struct Run {
    trainer: Trainer,
    checkpoint: Option<PathBuf>,
    /// What examples had chosen when an epoch was reported last.
    choices: Option<Choices>,
}

impl Run {
    /// What choices of precision cost since this was asked last.
    fn choice_cost(&mut self) -> Result<Option<ChoiceCost>> {
        let Some(now) = self.trainer.choices()? else { return Ok(None) };
        let before = self.choices.take().unwrap_or_else(|| now.none());
        let cost = now.cost_since(&before, &self.trainer.session)?;
        self.choices = Some(now);
        Ok(cost)
    }

    fn name(&self) -> &str {
        &self.trainer.session.algorithm.name
    }
}

pub(crate) fn run(arguments: &TrainArguments, output: &Output) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut config = arguments.config()?;
    let data = match &arguments.data {
        Some(path) => Dataset::open(path)?,
        None => Dataset::digits(),
    };
    let source = match &arguments.model {
        Some(path) => model_file(path),
        None => built_in_model(config.seed)?,
    };
    if arguments.config.model_decides()
        && let Some(note) = choose_algorithm(&source, &mut config)
    {
        output.note(&format!("note: {note}"));
    }
    // Where results shall go must be known to be writable before hours are spent.
    let TrainArguments { checkpoint, curve, widths, weights_out, .. } = arguments;
    let outputs = [checkpoint, curve, widths, weights_out];
    for path in outputs.into_iter().flatten() {
        check_folder(path)?;
    }
    let mut runs = vec![prepare(&source, &config, &data, arguments.checkpoint.clone(), output)?];
    if let Some(baseline) = &arguments.baseline {
        let config = Config {
            algorithm: baseline.clone(),
            learning_rate: arguments.baseline_learning_rate,
            optimizer: None,
            schedule: Schedule::default(),
            scheduled: BTreeMap::new(),
            ..config.clone()
        };
        let beside = arguments.checkpoint.as_ref().map(|path| {
            let mut name = path.clone().into_os_string();
            name.push(".baseline");
            PathBuf::from(name)
        });
        runs.push(prepare(&source, &config, &data, beside, output)?);
    }
    let fingerprint = match arguments.checkpoint {
        Some(_) => checkpoint::data_hash(&data),
        None => String::new(),
    };
    if arguments.resume {
        for run in &mut runs {
            resume(run, &fingerprint, data.train.len(), output)?;
        }
    }
    train(&mut runs, &data, (&fingerprint, arguments.checkpoint_every), output)?;
    finish(arguments, &runs, &data, start, output)
}

/// Draws the widths that blocks have in the end, and says what they cost.
fn draw_widths(path: &Path, trainer: &Trainer, output: &Output) -> anyhow::Result<()> {
    let session = &trainer.session;
    let maps = WidthMap::of(session.program(), &trainer.state()?)?;
    if maps.is_empty() {
        output.warning(&format!(
            "{}: not written, for no width is state under {}; blocks choose theirs under `dynasty`",
            path.display(),
            session.algorithm.name
        ));
        return Ok(());
    }
    let title = format!("{} under {}", session.name, session.algorithm.spelled());
    write_atomically(path, widths::svg(&title, &maps).as_bytes())?;
    for map in &maps {
        let shares = map.shares().map(|share| format!("{:.0}", 100.0 * share)).join(", ");
        output.line(&format!(
            "{}: {:.2} bits in the mean ({shares} % of 0, 2, 4, 6, 8), {} multiplications a step, {:.0} of 8 by 8 bits",
            map.name, map.mean_bits, map.macs, map.bit_serial_macs
        ))?;
    }
    output.line(&format!("widths: {}", path.display()))
}

fn check_folder(path: &Path) -> anyhow::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    anyhow::ensure!(folder.is_dir(), "{}: its folder does not exist", path.display());
    Ok(())
}

fn prepare(
    source: &ModelSource,
    config: &Config,
    data: &Dataset,
    checkpoint: Option<PathBuf>,
    output: &Output,
) -> anyhow::Result<Run> {
    check_trains(&config.chosen_algorithm()?)?;
    let session = Session::new(source, config, Entries::TrainAndInfer)?;
    session.warnings.iter().for_each(|w| output.warning(w));
    session.notes.iter().for_each(|n| output.note(&format!("note: {n}")));
    let program = session.program();
    output.note(&format!(
        "{} under {}: {} kernels, arena {} bytes, compiled in {:.2} s",
        session.name,
        session.algorithm.spelled(),
        program.kernels.len(),
        program.memory.arena_bytes,
        session.seconds(),
    ));
    let schedule: Vec<String> =
        session.algorithm.schedule.iter().map(ToString::to_string).collect();
    let others = session.scheduled().into_iter().map(|input| {
        let points: Vec<String> = input.points.iter().map(ToString::to_string).collect();
        format!("; {} {}", input.name, points.join(", "))
    });
    output.note(&format!(
        "optimizer: {}; step sizes {}{}",
        session.algorithm.optimizer.described(),
        schedule.join(", "),
        others.collect::<String>()
    ));
    Ok(Run { trainer: Trainer::new(session, data)?, checkpoint, choices: None })
}

fn resume(run: &mut Run, fingerprint: &str, samples: usize, output: &Output) -> anyhow::Result<()> {
    let Some(path) = &run.checkpoint else { return Ok(()) };
    if !path.exists() {
        output.note(&format!("{}: not there yet, starting from the first epoch", path.display()));
        return Ok(());
    }
    if let Some(remark) = checkpoint::resume(path, &mut run.trainer, fingerprint, samples)? {
        output.warning(&remark);
    }
    run.choices = run.trainer.choices()?;
    let epochs = run.trainer.epochs();
    let steps = run.trainer.steps();
    output.note(&format!("{}: {epochs} epoch(s) done, {steps} step(s)", path.display()));
    Ok(())
}

fn train(
    runs: &mut [Run],
    data: &Dataset,
    (fingerprint, every): (&str, Option<u64>),
    output: &Output,
) -> anyhow::Result<()> {
    let names: Vec<String> = runs.iter().map(|r| r.name().to_string()).collect();
    // Runs side by side are trained for the same.
    let judged = match runs[0].trainer.is_judged_by_accuracy() {
        true => "accuracy",
        false => "test loss",
    };
    output.line(&header(&names, judged))?;
    let start = Instant::now();
    let mut records = Vec::new();
    for run in runs.iter_mut() {
        records.push(with_bar(run, 0, |trainer, progress| trainer.start(data, progress))?);
    }
    report(&records, (None, None), start, output)?;
    loop {
        let start = Instant::now();
        let mut records = Vec::new();
        for run in runs.iter_mut() {
            let epoch = run.trainer.epochs() + 1;
            let path = run.checkpoint.clone();
            let record = with_bar(run, epoch, |trainer, progress| {
                loop {
                    let most = every.map_or(u64::MAX, |every| every - trainer.steps() % every);
                    match (trainer.advance(data, most, progress)?, &path) {
                        (Advanced::Finished, _) => return Ok(None),
                        (Advanced::Ended, _) => return trainer.close(data, progress).map(Some),
                        (Advanced::Within, Some(path)) => {
                            checkpoint::save(path, trainer, fingerprint, data.train.len())?;
                        }
                        (Advanced::Within, None) => {}
                    }
                }
            })?;
            if let (Some(_), Some(path)) = (record, &run.checkpoint) {
                checkpoint::save(path, &run.trainer, fingerprint, data.train.len())?;
            }
            records.push(record);
        }
        if records.iter().all(Option::is_none) {
            return Ok(());
        }
        let cost = runs[0].choice_cost()?;
        report(&records, (runs[0].trainer.stage(), cost), start, output)?;
    }
}

/// Part of a run under a progress bar.
fn with_bar(
    run: &mut Run,
    epoch: usize,
    work: impl FnOnce(&mut Trainer, &mut dyn FnMut(Progress)) -> Result<Option<EpochRecord>>,
) -> anyhow::Result<Option<EpochRecord>> {
    let mut bar = ProgressBar::new();
    let name = run.name().to_string();
    let record = work(&mut run.trainer, &mut |progress| match progress {
        Progress::Train(done, total) => {
            bar.show(&format!("{name} epoch {epoch}: training"), done, total);
        }
        Progress::Evaluate(done, total) => {
            bar.show(&format!("{name} epoch {epoch}: testing"), done, total);
        }
    })?;
    bar.clear();
    Ok(record)
}

/// The row and the object of an epoch with the first run's stage, if it has stages, and what its examples' choices cost, if they have any;
/// nothing if no run has the epoch.
fn report(
    records: &[Option<EpochRecord>],
    (stage, cost): (Option<usize>, Option<ChoiceCost>),
    start: Instant,
    output: &Output,
) -> anyhow::Result<()> {
    if records.iter().all(Option::is_none) {
        return Ok(());
    }
    let mut shown = stage.map_or_else(String::new, |stage| format!("  stage {stage}"));
    if let Some(ChoiceCost { share, term }) = cost {
        shown += &format!("  cost {share:.2} % of FP32's ({term:+.4} of the loss)");
    }
    output.line(&format!("{}{shown}", row(records, start.elapsed().as_secs_f64())))?;
    if let Some(record) = records[0] {
        let mut object = json!({
            "reason": "epoch", "epoch": record.epoch, "train_loss": record.train_loss,
            "test_accuracy": record.test_accuracy, "test_loss": record.test_loss,
        });
        if let Some(stage) = stage {
            object["stage"] = json!(stage);
        }
        if let Some(ChoiceCost { share, term }) = cost {
            object["cost_percent"] = json!(share);
            object["cost_loss"] = json!(term);
        }
        if let Some(Some(baseline)) = records.get(1) {
            object["baseline_train_loss"] = json!(baseline.train_loss);
            object["baseline_test_accuracy"] = json!(baseline.test_accuracy);
            object["baseline_test_loss"] = json!(baseline.test_loss);
        }
        output.object(&object)?;
    }
    Ok(())
}

fn header(names: &[String], judged: &str) -> String {
    let columns: Vec<String> = names
        .iter()
        .map(|name| format!("{:>14}  {:>14}", format!("{name} loss"), format!("{name} {judged}")))
        .collect();
    format!("epoch  {}  {:>8}", columns.join("  "), "seconds")
}

fn row(records: &[Option<EpochRecord>], seconds: f64) -> String {
    let epoch = records.iter().flatten().map(|r| r.epoch).next().unwrap_or(0);
    let columns: Vec<String> = records
        .iter()
        .map(|record| match record {
            Some(r) => {
                let loss = r.train_loss.map_or_else(|| "-".into(), |loss| format!("{loss:.4}"));
                format!("{loss:>14}  {:>14}", judgement(r))
            }
            None => format!("{:>14}  {:>14}", "-", "-"),
        })
        .collect();
    format!("{epoch:>5}  {}  {seconds:>8.2}", columns.join("  "))
}

/// Accuracy, or loss, on the test split.
fn judgement(record: &EpochRecord) -> String {
    match (record.test_accuracy, record.test_loss) {
        (Some(accuracy), _) => format!("{:.2} %", 100.0 * accuracy),
        (None, Some(loss)) => format!("{loss:.4}"),
        (None, None) => "-".into(),
    }
}

fn finish(
    arguments: &TrainArguments,
    runs: &[Run],
    data: &Dataset,
    start: Instant,
    output: &Output,
) -> anyhow::Result<()> {
    if let Some(path) = &arguments.curve {
        let title = format!("{} on {}", runs[0].trainer.session.name, data.name);
        let series: Vec<(&str, &[EpochRecord])> =
            runs.iter().map(|run| (run.name(), run.trainer.history())).collect();
        write_atomically(path, chart(&title, &series).to_svg().as_bytes())?;
        output.line(&format!("curve: {}", path.display()))?;
    }
    if let Some(path) = &arguments.widths {
        draw_widths(path, &runs[0].trainer, output)?;
    }
    if let Some(path) = &arguments.weights_out {
        let trainer = &runs[0].trainer;
        let tensors = [trainer.state()?, trainer.session.frozen_tensors()].concat();
        write_safetensors(path, &weights::export(&tensors))?;
        output.line(&format!("weights: {}", path.display()))?;
    }
    let first = &runs[0].trainer;
    let counted = first.choices()?.zip(first.weighted_by_choices()?);
    if let Some((choices, weighted)) = &counted
        && let Some(cost) = choices.cost_since(&choices.none(), &first.session)?
    {
        output.line(&format!(
            "cost of the training: layers that choose {:.2} % of FP32's; {weighted:.0} multiplications a step, each times the bits of both \
             operands over 32",
            cost.share
        ))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let last = |run: &Run| run.trainer.history().last().copied();
    let words: Vec<String> = runs
        .iter()
        .filter_map(|run| Some(format!("{} {}", run.name(), judgement(&last(run)?))))
        .collect();
    let judged = match runs[0].trainer.is_judged_by_accuracy() {
        true => "test accuracy",
        false => "test loss",
    };
    output.line(&format!("{judged}: {}; {seconds:.1} s", words.join(", ")))?;
    let record = runs.first().and_then(last);
    let mut object: Value = json!({
        "reason": "finished", "test_accuracy": record.and_then(|r| r.test_accuracy),
        "test_loss": record.and_then(|r| r.test_loss), "seconds": seconds,
    });
    if let Some(baseline) = runs.get(1) {
        let record = last(baseline);
        object["baseline_test_accuracy"] = json!(record.and_then(|r| r.test_accuracy));
        object["baseline_test_loss"] = json!(record.and_then(|r| r.test_loss));
    }
    if let Some((_, weighted)) = counted {
        object["weighted_macs"] = json!(weighted);
    }
    output.object(&object)
}
