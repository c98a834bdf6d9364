//! `trainc`: the command line of the compiler.
//!
//! Exit codes: 0 success, 1 an error in what was given (or an artifact that is wrong), 2 wrong usage, 101 a bug of trainc.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod compare;
mod compile;
mod export;
mod inspect;
mod listings;
mod measure;
mod message;
mod opt;
mod options;
mod progress;
mod run;
mod train;
mod tune;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use message::Output;

fn main() -> ExitCode {
    say_that_panics_are_bugs();
    let arguments = Arguments::parse();
    let output = Output::new(arguments.message_format, arguments.color);
    let result = match &arguments.command {
        Command::Train(options) => train::run(options, &output),
        Command::Compare(options) => compare::run(options, &output),
        Command::Compile(options) => compile::run(options, &output),
        Command::Inspect(options) => inspect::run(options, &output),
        Command::Run(options) => run::run(options, &output),
        Command::Export(options) => export::run(options, &output),
        Command::Verify(options) => match verify::run(options, &output) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(1),
            Err(error) => Err(error),
        },
        Command::Bench(options) => bench::run(options, &output),
        Command::Measure(options) => measure::run(options, &output),
        Command::Tune(options) => tune::run(options, &output),
        Command::Opt(options) => opt::run(options, &output),
        Command::Algorithms(options) => listings::algorithms(options, &output),
        Command::Targets => listings::targets(&output),
        Command::Zoo(options) => listings::zoo(options, &output),
        Command::Completions(options) => listings::completions(options, &output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(1)
        }
    }
}

/// A panic is never the user's fault: say so, with what reproduces it. The process then exits with 101.
fn say_that_panics_are_bugs() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        let command: Vec<String> = std::env::args().collect();
        eprintln!(
            "trainc {}: this is a bug of trainc. Please report it with the lines above, the model and the command:\n  {}",
            env!("CARGO_PKG_VERSION"),
            command.join(" ")
        );
    }));
}
