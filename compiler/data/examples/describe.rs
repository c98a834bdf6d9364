//! Says what data set a path holds: `cargo run --release -p trainc-data --example describe -- PATH` (or `digits`).

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use trainc_data::{DataError, Dataset, Normalization, Normalizer, Split};

fn main() -> ExitCode {
    let result = match std::env::args().nth(1) {
        Some(path) => run(&path).map_err(|error| error.to_string()),
        None => Err("usage: describe PATH|digits".to_string()),
    };
    if let Err(message) = result {
        eprintln!("error: {message}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(path: &str) -> Result<(), DataError> {
    let start = Instant::now();
    let dataset = match path {
        "digits" => Dataset::digits(),
        path => Dataset::open(Path::new(path))?,
    };
    println!("{}: opened in {:.2} s", dataset.name, start.elapsed().as_secs_f64());
    println!("classes: {}", dataset.classes.join(", "));
    describe("train", &dataset.train, dataset.classes.len());
    describe("test", &dataset.test, dataset.classes.len());
    let normalizer = Normalizer::fit(Normalization::Standardize, &dataset.train);
    println!("mean and deviation of each channel: {:.4?}", normalizer.mean_and_deviation());
    Ok(())
}

fn describe(name: &str, split: &Split, classes: usize) {
    let mut counts = vec![0; classes];
    for &label in &split.labels {
        counts[label as usize] += 1;
    }
    println!("{name}: {} images of shape {:?}, by class {counts:?}", split.len(), split.shape);
}
