//! The command line, declared.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueHint};
use trainc_driver::config::{Config, InputNormalization};
use trainc_driver::emit::{self, EmitKind};
use trainc_driver::model::ModelSource;

use crate::message::{Color, MessageFormat};
use crate::options::ConfigArguments;

const EXAMPLES: &str = "\
Examples:
  trainc train                                      train the built-in net on the built-in digits, in INT8
  trainc zoo lenet5 -o lenet5.onnx                  write a reference model
  trainc train lenet5.onnx --data mnist/ --baseline fp32 --curve curve.svg
  trainc compile lenet5.onnx --batch 64 -o build/   an object file, C header and Rust bindings
  trainc inspect lenet5.onnx --rewrites             which rewrite rules fired, and what each saved

Exit codes: 0 success, 1 an error in what was given (or an artifact that is wrong), 2 wrong usage, 101 a bug of trainc.
The messages of --message-format json are described in docs/cli.md.";

/// Compiles the training step of a neural network under a low-precision training algorithm.
#[derive(Parser, Debug)]
#[command(name = "trainc", version, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Arguments {
    /// For whom stdout is: people, or scripts (one JSON object a line)
    #[arg(long, global = true, value_enum, default_value = "human", value_name = "FORMAT")]
    pub(crate) message_format: MessageFormat,
    /// When diagnostics are coloured; `auto` honours NO_COLOR
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Train a model on this machine, with the integers that a device will compute
    Train(TrainArguments),
    /// Train a model under several algorithms and seeds, and set accuracy beside cost
    Compare(CompareArguments),
    /// Compile a model's training step and inference for a target
    Compile(CompileArguments),
    /// Show what a model is and what each stage makes of it
    Inspect(InspectArguments),
    /// Evaluate a model on arrays: npz in, npz out
    Run(RunArguments),
    /// Write trained weights back into the model's own ONNX file (of TensorFlow Lite: as ONNX)
    Export(ExportArguments),
    /// Build an artifact, run it (under an emulator), and compare every bit with the reference
    Verify(VerifyArguments),
    /// Count what each launch of a training step costs on a target, and show what fills its memory
    Bench(BenchArguments),
    /// Measure what launches take on each device of a target of several, for --latencies
    Measure(MeasureArguments),
    /// Try how an OpenCL artifact's kernels are launched best on this machine's device, and write that into it
    Tune(TuneArguments),
    /// Run passes on a module in the text form
    Opt(OptArguments),
    /// List the training algorithms, or print one's file
    Algorithms(AlgorithmsArguments),
    /// List the targets
    Targets,
    /// Write a reference model as ONNX, or list them
    Zoo(ZooArguments),
    /// Print a completion script for a shell
    Completions(CompletionsArguments),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc train
      The built-in net on the built-in digits under NITI, in INT8 from the image to the updated weight.
  trainc train lenet5.onnx --data mnist/ --epochs 10 --batch 64 --baseline fp32 --curve curve.svg
      Loss and test accuracy an epoch beside FP32 with the same model, seed and data; the curve as SVG.
  trainc train net.onnx --data images.tar.xz --algorithm my.toml --checkpoint run.ckpt --resume
      Another algorithm; goes on where a killed run left off, bit for bit.

Data: a folder of IDX files (MNIST), of CIFAR-10's binary files, or of images (train/CLASS/*.png, test/CLASS/*.png,
also JPEG), a tar of such a folder (also .gz, .xz), an .npz with x_train, y_train, x_test, y_test, or a .txt for models of
the next byte (with --loss cross-entropy).")]
pub(crate) struct TrainArguments {
    /// Model: ONNX, TensorFlow Lite, or a graph in the text form (.qir) [default: the built-in net]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<PathBuf>,
    /// Data set; `digits` is the built-in one [default: digits]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    /// Train the same model, seed and data under this algorithm too, and show both
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) baseline: Option<String>,
    /// A fixed step size of the baseline [default: its schedule]
    #[arg(long, value_name = "RATE", requires = "baseline")]
    pub(crate) baseline_learning_rate: Option<f64>,
    /// Write a checkpoint after each epoch (the baseline's beside it, with its name appended)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Write it every N training steps, too [default: at the end of epochs alone]
    #[arg(long, value_name = "N", requires = "checkpoint", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) checkpoint_every: Option<u64>,
    /// Go on from the checkpoint, if it is there
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Draw the training curve
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) curve: Option<PathBuf>,
    /// Draw the widths of blocks that training chose, tensor by tensor (`dynasty`)
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) widths: Option<PathBuf>,
    /// Write the trained weights under the model's names
    #[arg(long, value_name = "FILE.safetensors", value_hint = ValueHint::FilePath)]
    pub(crate) weights_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

/// Epochs of the quick start.
const BUILT_IN_EPOCHS: usize = 30;

impl TrainArguments {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let mut defaults = Config::default();
        if self.model.is_none() {
            defaults.epochs = BUILT_IN_EPOCHS;
        }
        self.config.config(defaults)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc compare --algorithms niti,fp32 --seeds 5 -o compared/
      The built-in net on the built-in digits; the folder gets report.html, comparison.svg and runs.jsonl.
  trainc compare lenet5.onnx --data mnist/ --algorithms niti,my.toml --epochs 5 --seeds 3 --init random --targets hvx,neon
      Each seed draws its own weights; a step's packets and instructions, too.

Runs that the folder holds already are not made again. docs/compare.md says what is counted.")]
pub(crate) struct CompareArguments {
    /// Model: ONNX, TensorFlow Lite, or a graph in the text form (.qir) [default: the built-in net]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<PathBuf>,
    /// Data set; `digits` is the built-in one [default: digits]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    /// Algorithms, built-in names or .toml files
    #[arg(long, value_name = "NAME|FILE,...", required = true)]
    pub(crate) algorithms: Vec<String>,
    /// Runs of each algorithm, with this seed and those that follow
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) seeds: u64,
    /// Folder for the report, and for runs: one that was cut short goes on
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Targets whose training step is measured under each algorithm, as `trainc bench` does [default: none]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

impl CompareArguments {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let given = ["algorithm", "target"].into_iter().find(|option| self.config.has(option));
        if let Some(option) = given {
            anyhow::bail!("a comparison takes --{option}s in place of --{option}");
        }
        let mut defaults = Config::default();
        if self.model.is_none() {
            defaults.epochs = BUILT_IN_EPOCHS;
        }
        Ok(Config { target: Config::default().target, ..self.config.config(defaults)? })
    }

    /// The algorithms one by one. A comma before `NAME=VALUE` belongs to the algorithm before it: `dorefa:w=4,a=4`.
    pub(crate) fn algorithms(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for word in self.algorithms.iter().flat_map(|list| list.split(',')) {
            let goes_on = word.contains('=') && !word.contains(':');
            match found.last_mut().filter(|_| goes_on) {
                Some(last) => *last = format!("{last},{word}"),
                None => found.push(word.trim().to_string()),
            }
        }
        found
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc compile lenet5.onnx --batch 32 -o build/
  trainc compile lenet5.onnx -o build/ --emit=program,asm=lenet5.s
  trainc compile lenet5.onnx --target c --example -o build/

The folder holds the target's files, weights.safetensors and manifest.json. It appears whole or not at all, and the
same input gives the same bytes on every machine.")]
pub(crate) struct CompileArguments {
    /// Model: ONNX, TensorFlow Lite, or a graph in the text form (.qir)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: PathBuf,
    /// Folder to write; replaced if it holds an artifact as it was written and nothing else
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// Name of the artifact, its files and symbols: letters a to z, digits, `_` [default: the model file's]
    #[arg(long, value_name = "NAME", value_parser = emit::checked_name)]
    pub(crate) name: Option<String>,
    /// Add main.c, an example that trains, evaluates, saves and loads (every target but `host`)
    #[arg(long)]
    pub(crate) example: bool,
    /// Data set whose normalization and class names the header and the manifest state [default: none]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) emit: EmitArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

impl CompileArguments {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let config = self.config.config(Config::default())?;
        anyhow::ensure!(
            self.data.is_some()
                || !self.config.has("normalization")
                || config.normalization != InputNormalization::Standardize,
            "--normalization standardize takes the mean and deviation from data: give --data"
        );
        Ok(config)
    }
}

/// Texts of stages, in rustc's manner.
#[derive(Args, Debug)]
pub(crate) struct EmitArguments {
    /// Texts of stages: graph, training, qir, optimised, program, clif, asm; `=-` is stdout
    #[arg(long, value_name = "KIND[=PATH],...", value_delimiter = ',', value_parser = stage)]
    pub(crate) emit: Vec<Emit>,
}

/// One text asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Emit {
    pub(crate) kind: EmitKind,
    /// Where to, `-` for stdout; the command's default if absent.
    pub(crate) path: Option<PathBuf>,
}

impl Emit {
    pub(crate) fn to_stdout(&self) -> bool {
        self.path.as_deref() == Some(Path::new("-"))
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc inspect lenet5.onnx                    stages with times, memory plan, kernels by cost
  trainc inspect lenet5.onnx --check            does it import, and if not, all that is in the way
  trainc inspect lenet5.onnx --check -a niti -t c   does it compile, and if not, why
  trainc inspect lenet5.onnx --rewrites         rules that fired, where, what each saved; saturation against in-order
  trainc inspect lenet5.onnx --emit=qir         the quantized module, as text that reads back
  trainc inspect lenet5.onnx --emit=graph --with-data > lenet5.qir   the model as text that every command takes")]
pub(crate) struct InspectArguments {
    /// Model: ONNX, TensorFlow Lite, or a graph in the text form (.qir)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: PathBuf,
    /// Only say whether the model imports, and with --algorithm or --target whether it compiles; list what is in the way
    #[arg(long, conflicts_with_all = ["rewrites", "emit"])]
    pub(crate) check: bool,
    /// Say which rules fired, where, and what each saved
    #[arg(long)]
    pub(crate) rewrites: bool,
    /// Texts have the data of tensors of more than 16 elements, too, not only their hash: they read back bit for bit
    #[arg(long, requires = "emit")]
    pub(crate) with_data: bool,
    #[command(flatten)]
    pub(crate) emit: EmitArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  trainc run lenet5.onnx --input in.npz --output out.npz

Arrays are named as the model's inputs and outputs. The batch is the data's unless --batch is given. Batch norm is as
the file says (see --batch-norm); dropout never drops.")]
pub(crate) struct RunArguments {
    /// Model: ONNX, TensorFlow Lite, or a graph in the text form (.qir)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: PathBuf,
    /// Arrays for the inputs
    #[arg(short, long, value_name = "FILE.npz", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// Where the outputs go
    #[arg(short, long, value_name = "FILE.npz", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

impl RunArguments {
    /// FP32 unless a flag or the file says otherwise.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        self.config.config(Config { algorithm: "fp32".to_string(), ..Config::default() })
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc export lenet5.onnx --weights trained.safetensors --onnx trained.onnx
  trainc export lenet5.onnx --weights run.ckpt --onnx trained.onnx
  trainc export lenet5.onnx --weights device.bin --algorithm niti --onnx trained.onnx

The graph stays as it is; initializers get the trained values, running statistics of batch norm included. What cannot be
mapped back is an error. A device's state needs the algorithm and the frozen parts that its artifact was compiled with.")]
pub(crate) struct ExportArguments {
    /// Model that was trained: ONNX, or TensorFlow Lite
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: PathBuf,
    /// File to write, with all weights within
    #[arg(long, value_name = "FILE.onnx", value_hint = ValueHint::FilePath)]
    pub(crate) onnx: PathBuf,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc verify build/                                     three training steps and extreme data
  trainc verify build/ --steps 20 --seed 7 --junit verify.xml
  trainc verify build/ --runner 'qemu-aarch64 -cpu neoverse-n1'

The target names compiler and emulator; docs/verify.md lists them with their Debian packages. The exit code is 1 if
anything differs.")]
pub(crate) struct VerifyArguments {
    /// Artifact, as `trainc compile` wrote it (its sources may have been edited)
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
    /// Training steps, one after another
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3)]
    pub(crate) steps: u32,
    /// Seed of data and stochastic rounding
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Leave out the single steps on extreme data
    #[arg(long)]
    pub(crate) no_extremes: bool,
    /// Compare the results of each launch, too, not only the entries' and the state
    #[arg(long)]
    pub(crate) launches: bool,
    /// Don't count what launches cost, where the target's simulator can
    #[arg(long)]
    pub(crate) no_counts: bool,
    /// Compiler; it gets the target's flags [default: the target's]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_CC")]
    pub(crate) cc: Option<String>,
    /// Emulator with its arguments [default: the target's]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_RUNNER")]
    pub(crate) runner: Option<String>,
    /// Keep the program around the artifact, its requests and executables in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    /// Write a JUnit report
    #[arg(long, value_name = "FILE.xml", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc bench lenet5.onnx --target hvx --batch 4          packets of each launch of the second training step
  trainc bench lenet5.onnx --target xpulpv2 --batch 1      cycles, on one core and on eight
  trainc bench lenet5.onnx --batch 64                      times on this machine, beside what it makes at most
  trainc bench vgg11.onnx --batch 64 --flame vgg11.svg     and a picture of where the time goes
  trainc bench build/ --map arena.svg                      an artifact as it is, and a picture of its arena

What counts needs the target's compiler and emulator (`trainc targets` says which); instructions are counted by a plugin
that `cc` builds for qemu. docs/bench.md says what is counted.")]
pub(crate) struct BenchArguments {
    /// Model (ONNX, TensorFlow Lite, .qir), or the folder of an artifact
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// Entry to measure [default: train_step, or infer where nothing trains]
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,
    /// Draw what lies in the arena, launch by launch
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) map: Option<PathBuf>,
    /// Draw what launches take, joined by the parts of the model's names, as wide as they are dear
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) flame: Option<PathBuf>,
    /// Compiler; it gets the target's flags [default: the target's]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_CC")]
    pub(crate) cc: Option<String>,
    /// Emulator with its arguments; for counts of instructions it must be a qemu with plugins [default: the target's]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_RUNNER")]
    pub(crate) runner: Option<String>,
    /// Keep the program around the artifact, its requests and executables in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc measure net.onnx --target neon+hvx --batch 8 -o latencies.toml
  trainc compile net.onnx --target neon+hvx --batch 8 --latencies latencies.toml -o build/
  trainc measure build/ --log device.log -o latencies.toml     of what a device wrote

The program runs once on each device alone, so that every kernel is timed on every one, by that side's own clock. Under emulators
these are no device's times. docs/pair.md says how a device writes a log.")]
pub(crate) struct MeasureArguments {
    /// Model (ONNX, TensorFlow Lite, .qir), or the folder of an artifact, whose program is measured
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// File to write [default: stdout]
    #[arg(short, long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Calls of each entry, of which the median counts
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    pub(crate) calls: u32,
    /// Read times that a device wrote, in place of a run here [default: none]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Compiler of the processor's side; it gets the target's flags [default: the target's]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_CC")]
    pub(crate) cc: Option<String>,
    /// What runs the processor's side, with its arguments [default: the target's emulator]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_RUNNER")]
    pub(crate) runner: Option<String>,
    /// Keep the artifact of each device and what was built of it in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc compile net.onnx --target opencl --batch 1 -o build/
  trainc tune build/                        groups of work items and variants of kernels, the best written into build/
  trainc tune build/ --entry train_step     by the times of a training step

Each kernel that takes a hundredth of a call or more is launched in every way that its manifest lists (`tunables`), timed by the
device itself; every call's results are compared with the first's. The choice stands in NAME_tuning.h, which the next build of
the folder uses; results are the same whatever it is. docs/opencl.md says more.")]
pub(crate) struct TuneArguments {
    /// Artifact, as `trainc compile` wrote it
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
    /// Entry whose calls are timed [default: infer, or the first where none infers]
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,
    /// Calls of which the fastest counts, for each way
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3)]
    pub(crate) repeats: usize,
    /// Seed of data and stochastic rounding
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Compiler; it gets the target's flags [default: the target's]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_CC")]
    pub(crate) cc: Option<String>,
    /// A command that starts the program, with arguments [default: none]
    #[arg(long, value_name = "COMMAND", env = "TRAINC_VERIFY_RUNNER")]
    pub(crate) runner: Option<String>,
    /// Keep the program around the artifact, its plans and times in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc inspect lenet5.onnx --emit=graph > lenet5.qir       the model as text
  trainc opt lenet5.qir --pass autodiff,translate --algorithm niti
  trainc opt module.qir --pass fuse-elementwise              one rewrite rule, once: the module it gives, or all of them
  trainc opt test.qir                                        what the file's own lines `;! pass: ...` ask for
  trainc opt --list

Passes run from left to right; a text can start at any stage. docs/qir.md describes the text form.")]
pub(crate) struct OptArguments {
    /// Module in the text form; `-` is stdin [default: none, with --list]
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "list")]
    pub(crate) file: Option<PathBuf>,
    /// Passes, in order [default: those that the file names]
    #[arg(short, long = "pass", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) passes: Vec<String>,
    /// Training algorithm: a built-in name or a .toml file [default: the file's; none]
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) algorithm: Option<String>,
    /// Target for costs, plan and code [default: the file's; host]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) target: Option<String>,
    /// What the text is: forward, training, quantized [default: the file's; what it looks like]
    #[arg(long, value_name = "FORM")]
    pub(crate) form: Option<String>,
    /// How the optimiser searches: saturate, ordered, off [default: the file's; saturate]
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) opt: Option<String>,
    /// The only file to print of those that `emit` gives [default: the file's; all]
    #[arg(long, value_name = "NAME")]
    pub(crate) file_name: Option<String>,
    /// Print the data of tensors of more than 16 elements after each graph, not only their hash
    #[arg(long)]
    pub(crate) with_data: bool,
    /// List the passes
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc algorithms                                  list the algorithms
  trainc algorithms niti > my.toml                   print one, to start one's own from
  trainc algorithms --check my.toml lenet5.onnx      what its rules do in a model")]
pub(crate) struct AlgorithmsArguments {
    /// Print this algorithm's file, to start one's own from; with --check a built-in name or a .toml file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) name: Option<String>,
    /// Say whether it is an algorithm, and with a model: what each rule matches there, what stays FP32 and why
    #[arg(long, requires = "name")]
    pub(crate) check: bool,
    /// Model to check it with [default: the file alone]
    #[arg(requires = "check", value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trainc zoo                                                     list the models
  trainc zoo resnet18 -o resnet18.onnx --input 3x32x32 --classes 10")]
pub(crate) struct ZooArguments {
    /// Model; without it the models are listed
    #[arg(requires = "output")]
    pub(crate) name: Option<String>,
    /// File to write
    #[arg(short, long, value_name = "FILE.onnx", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Channels x height x width of an image [default: the model's own]
    #[arg(long, value_name = "CxHxW", value_parser = image_shape)]
    pub(crate) input: Option<[usize; 3]>,
    /// Number of classes [default: the model's own]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) classes: Option<usize>,
    /// Factor of the channels (mobilenetv2), in hundredths
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub(crate) width: trainc_driver::zoo::Width,
    /// Seed of the weights
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Batch norm in inference form
    #[arg(long)]
    pub(crate) inference: bool,
    /// The image as bytes (UINT8), which the model takes as 0 to 255
    #[arg(long)]
    pub(crate) bytes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number from 1".to_string()),
        Ok(n) => Ok(n),
    }
}

fn image_shape(text: &str) -> Result<[usize; 3], String> {
    let sizes: Option<Vec<usize>> = text.split('x').map(|s| s.parse().ok()).collect();
    sizes
        .and_then(|s| <[usize; 3]>::try_from(s).ok())
        .filter(|s| !s.contains(&0))
        .ok_or_else(|| "expected channels x height x width, such as 3x32x32".to_string())
}

fn stage(text: &str) -> Result<Emit, String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (name, Some(PathBuf::from(path))),
        None => (text, None),
    };
    let kind = EmitKind::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = EmitKind::ALL.iter().map(|k| k.name()).collect();
        format!("expected one of {}", names.join(", "))
    })?;
    Ok(Emit { kind, path })
}

/// A model file that is there.
pub(crate) fn model_file(path: &Path) -> ModelSource {
    ModelSource::File(path.to_path_buf())
}

/// The built-in net.
pub(crate) fn built_in_model(seed: u64) -> anyhow::Result<ModelSource> {
    use trainc_driver::zoo;
    let spec = zoo::ZooSpec { seed, ..zoo::ZooSpec::new("digits")? };
    let bytes = zoo::build(&spec).context("the built-in net")?;
    Ok(ModelSource::Bytes { name: "digits".to_string(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use trainc_driver::options::OPTIONS;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// What an argument is when it is not given, its help says; that of options their list says.
    #[test]
    fn help_states_every_default() {
        // Without these nothing is read, written, left out or fixed.
        const NOTHING: &[&str] = &[
            "config",
            "baseline",
            "checkpoint",
            "curve",
            "widths",
            "weights_out",
            "emit",
            "keep",
            "map",
            "flame",
            "junit",
            "name",
            "output",
        ];
        let nothing = |id: &str| {
            let option = OPTIONS.iter().find(|option| option.name == id);
            option.is_some_and(|option| option.default.is_empty()) || NOTHING.contains(&id)
        };
        fn walk(command: &clap::Command, nothing: &dyn Fn(&str) -> bool, seen: &mut Vec<String>) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let takes = argument.get_action().takes_values();
                if !takes || argument.is_required_set() || ["help", "version"].contains(&id) {
                    continue;
                }
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let shown =
                    !argument.get_default_values().is_empty() || help.contains("[default: ");
                let place = format!("{} {id}", command.get_name());
                assert!(shown || nothing(id), "{place} does not state its default: {help}");
                seen.push(help);
            }
            command.get_subcommands().for_each(|command| walk(command, nothing, seen));
        }
        let mut seen = Vec::new();
        walk(&Arguments::command(), &nothing, &mut seen);
        let built_in = format!("{BUILT_IN_EPOCHS} of the built-in net");
        assert!(seen.iter().any(|help| help.contains(&built_in)));
    }

    #[test]
    fn values() {
        assert_eq!(image_shape("3x32x16"), Ok([3, 32, 16]));
        for bad in ["3x32", "3x32x0", "3,32,32", ""] {
            assert!(image_shape(bad).is_err(), "{bad}");
        }
        assert!(positive("0").is_err());
        let found = stage("asm=x.s").unwrap();
        assert_eq!((found.kind, found.path), (EmitKind::Asm, Some(PathBuf::from("x.s"))));
        assert!(stage("qir").unwrap().path.is_none() && stage("qor").is_err());
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = std::env::temp_dir().join(format!("trainc-flags-{}.toml", std::process::id()));
        std::fs::write(&file, "seed = 4\nbatch = 8\nopt = \"off\"\n").unwrap();
        let file_name = file.to_string_lossy().into_owned();
        let line = ["trainc", "train", "--config", &file_name, "--batch", "16", "--no-exact"];
        let Command::Train(arguments) = Arguments::parse_from(line).command else { panic!() };
        let config = arguments.config().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((config.seed, config.batch, config.exact), (4, Some(16), false));
        assert_eq!(config.opt, trainc_driver::config::OptimiserStrategy::Off);
    }
}
