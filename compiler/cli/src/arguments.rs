//! The command line, declared.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use trainc_driver::config::{
    BatchNormHandling, Config, InputNormalization, OptimiserStrategy, WeightSource,
};
use trainc_driver::emit::{self, EmitKind};
use trainc_driver::model::ModelSource;
use trainc_driver::trained::FINE_TUNING;

use crate::message::{Color, MessageFormat};

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
    /// Compile a model's training step and inference for a target
    Compile(CompileArguments),
    /// Show what a model is and what each stage makes of it
    Inspect(InspectArguments),
    /// Evaluate a model on arrays: npz in, npz out
    Run(RunArguments),
    /// Write trained weights back into the model's own ONNX file
    Export(ExportArguments),
    /// Build an artifact, run it (under an emulator), and compare every bit with the reference
    Verify(VerifyArguments),
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

/// What every command that compiles takes. Flags win over the configuration file.
#[derive(Args, Debug, Default)]
pub(crate) struct ConfigArguments {
    /// Read defaults from a configuration file (the keys are these flags' names)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Training algorithm: a built-in name (see `trainc algorithms`) or a .toml file [default: niti, or niti-finetune if
    /// the model brings trained weights; of `run` fp32]
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) algorithm: Option<String>,
    /// Fine-tune the model's weights, whatever they look like: --algorithm niti-finetune
    #[arg(long, conflicts_with = "algorithm")]
    fine_tune: bool,
    /// Bits of each layer's input, weight and output, for quantized inference of a model that is not quantized
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    precision: Option<PathBuf>,
    /// Data set whose activations give the ranges that the precision file leaves out
    #[arg(long, value_name = "DATA", value_hint = ValueHint::AnyPath, requires = "precision")]
    calibrate: Option<PathBuf>,
    /// Target (see `trainc targets`) [default: host]
    #[arg(short, long, value_name = "NAME")]
    target: Option<String>,
    /// Examples of a training step [default: 32]; those that `run` takes at once [default: the data's]
    #[arg(short, long, value_name = "N", value_parser = positive)]
    batch: Option<usize>,
    /// Examples of a call of inference [default: 1 on devices; on the host --batch, or 1 where the algorithm's exponents
    /// follow the values: there examples are always computed one by one]
    #[arg(long, value_name = "N", value_parser = positive)]
    infer_batch: Option<usize>,
    /// Size of an open dimension other than the batch; may be repeated
    #[arg(long = "dimension", value_name = "NAME=SIZE", value_parser = dimension)]
    dimensions: Vec<(String, usize)>,
    /// Seed of weights, shuffling and stochastic rounding [default: 0]
    #[arg(short, long, value_name = "N")]
    seed: Option<u64>,
    /// How the optimiser searches [default: saturate]
    #[arg(long, value_enum, value_name = "STRATEGY")]
    opt: Option<Strategy>,
    /// Allow rewrites that move a float by a stated number of units in the last place
    #[arg(long, conflicts_with = "exact")]
    no_exact: bool,
    /// Only rewrites that keep every bit (the default)
    #[arg(long)]
    exact: bool,
    /// How batch norm normalizes while training [default: as-exported]
    #[arg(long, value_enum, value_name = "HOW")]
    batch_norm: Option<BatchNorm>,
    /// Where the first weights come from [default: model]
    #[arg(long, value_enum, value_name = "FROM")]
    init: Option<Init>,
    /// Weights in place of the model's: safetensors by its names, a checkpoint of `train`, or a device's saved state
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) weights: Option<PathBuf>,
    /// Parameters or layers that do not train: names, with `*` and `?`; may be repeated
    #[arg(long, value_name = "PATTERN")]
    freeze: Vec<String>,
    /// The only parameters or layers that train; may be repeated
    #[arg(long, value_name = "PATTERN")]
    train: Vec<String>,
}

impl ConfigArguments {
    /// Whether the model's weights decide the algorithm, as nothing else does.
    pub(crate) fn model_decides(&self) -> bool {
        self.algorithm.is_none() && self.config.is_none() && !self.fine_tune
    }

    /// Whether the flags name an algorithm, a target, or a file that may.
    pub(crate) fn says_how(&self) -> bool {
        self.algorithm.is_some() || self.target.is_some() || self.config.is_some()
    }
}

/// How the optimiser searches.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Strategy {
    /// Equality saturation
    Saturate,
    /// Each rule once, in order
    Ordered,
    /// Not at all
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BatchNorm {
    /// As the model file says
    AsExported,
    /// With the statistics of the batch
    Training,
    /// With the running statistics
    Frozen,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Init {
    /// The model file
    Model,
    /// Drawn by the seed as the algorithm says
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Normalization {
    /// The stored values
    None,
    /// Stored bytes divided by 255; floats as they stand
    Unit,
    /// Unit, then mean 0 and deviation 1 for each channel
    Standardize,
}

impl ConfigArguments {
    /// The configuration: the defaults, under the file's, under these flags.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        set(&mut config.algorithm, &self.algorithm);
        if self.fine_tune {
            config.algorithm = FINE_TUNING.to_string();
        }
        config.precision = self.precision.clone().or(config.precision);
        config.calibrate = self.calibrate.clone().or(config.calibrate);
        set(&mut config.target, &self.target);
        set(&mut config.seed, &self.seed);
        config.batch = self.batch.or(config.batch);
        config.infer_batch = self.infer_batch.or(config.infer_batch);
        config.dimensions.extend(self.dimensions.iter().cloned());
        config.exact = (config.exact || self.exact) && !self.no_exact;
        config.weights = self.weights.clone().or(config.weights);
        for (list, flags) in [(&mut config.freeze, &self.freeze), (&mut config.train, &self.train)]
        {
            if !flags.is_empty() {
                list.clone_from(flags);
            }
        }
        if let Some(opt) = self.opt {
            config.opt = match opt {
                Strategy::Saturate => OptimiserStrategy::Saturate,
                Strategy::Ordered => OptimiserStrategy::Ordered,
                Strategy::Off => OptimiserStrategy::Off,
            };
        }
        if let Some(batch_norm) = self.batch_norm {
            config.batch_norm = match batch_norm {
                BatchNorm::AsExported => BatchNormHandling::AsExported,
                BatchNorm::Training => BatchNormHandling::Training,
                BatchNorm::Frozen => BatchNormHandling::Frozen,
            };
        }
        if let Some(init) = self.init {
            config.init = match init {
                Init::Model => WeightSource::Model,
                Init::Random => WeightSource::Random,
            };
        }
        Ok(config)
    }
}

fn normalize(config: &mut Config, flag: Option<Normalization>) {
    if let Some(normalization) = flag {
        config.normalization = match normalization {
            Normalization::None => InputNormalization::None,
            Normalization::Unit => InputNormalization::Unit,
            Normalization::Standardize => InputNormalization::Standardize,
        };
    }
}

fn set<T: Clone>(field: &mut T, flag: &Option<T>) {
    if let Some(value) = flag {
        *field = value.clone();
    }
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
also JPEG), a tar of such a folder (also .gz, .xz), or an .npz with x_train, y_train, x_test, y_test.")]
pub(crate) struct TrainArguments {
    /// Model: ONNX, or a graph in the text form (.qir) [default: the built-in net]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) model: Option<PathBuf>,
    /// Data set [default: the built-in digits]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) data: Option<PathBuf>,
    /// Passes over the training images; with 0 the model is only evaluated [default: 10; 30 of the built-in net]
    #[arg(short, long, value_name = "N")]
    epochs: Option<usize>,
    /// A fixed step size (under NITI: bits, 0 to 7) [default: the algorithm's schedule]
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,
    /// At most this many training steps in all; the schedule of step sizes goes by them
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Take the samples in the file's order
    #[arg(long)]
    no_shuffle: bool,
    /// How pixels become model inputs [default: unit]
    #[arg(long, value_enum, value_name = "HOW")]
    normalization: Option<Normalization>,
    /// Train the same model, seed and data under this algorithm too, and show both
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) baseline: Option<String>,
    /// A fixed step size of the baseline [default: its schedule]
    #[arg(long, value_name = "RATE", requires = "baseline")]
    pub(crate) baseline_learning_rate: Option<f64>,
    /// Write a checkpoint after each epoch (the baseline's beside it, with its name appended)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint, if it is there
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Draw the training curve
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) curve: Option<PathBuf>,
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
        let mut config = self.config.config()?;
        if self.model.is_none() && self.config.config.is_none() {
            config.epochs = BUILT_IN_EPOCHS;
        }
        set(&mut config.epochs, &self.epochs);
        config.learning_rate = self.learning_rate.or(config.learning_rate);
        config.steps = self.steps.or(config.steps);
        config.shuffle &= !self.no_shuffle;
        normalize(&mut config, self.normalization);
        Ok(config)
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
    /// Model: ONNX, or a graph in the text form (.qir)
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
    /// How pixels become model inputs, for the header and the manifest; `standardize` takes --data [default: unit]
    #[arg(long, value_enum, value_name = "HOW")]
    normalization: Option<Normalization>,
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
        let mut config = self.config.config()?;
        normalize(&mut config, self.normalization);
        anyhow::ensure!(
            self.data.is_some() || self.normalization != Some(Normalization::Standardize),
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
    /// Model: ONNX, or a graph in the text form (.qir)
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
    /// Model: ONNX, or a graph in the text form (.qir)
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
        let mut config = self.config.config()?;
        if self.config.algorithm.is_none() && self.config.config.is_none() {
            config.algorithm = "fp32".to_string();
        }
        Ok(config)
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
    /// ONNX model that was trained
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
  trainc inspect lenet5.onnx --emit=graph > lenet5.qir       the model as text
  trainc opt lenet5.qir --pass autodiff,translate --algorithm niti
  trainc opt module.qir --pass fuse-elementwise              one rewrite rule, once: the module it gives, or all of them
  trainc opt test.qir                                        what the file's own lines `;! pass: ...` ask for
  trainc opt --list

Passes run from left to right; a text can start at any stage. docs/qir.md describes the text form.")]
pub(crate) struct OptArguments {
    /// Module in the text form; `-` is stdin
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
pub(crate) struct AlgorithmsArguments {
    /// Print this algorithm's file, to start one's own from
    pub(crate) name: Option<String>,
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
    /// Seed of the weights
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Batch norm in inference form
    #[arg(long)]
    pub(crate) inference: bool,
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

fn dimension(text: &str) -> Result<(String, usize), String> {
    let (name, size) = text.split_once('=').ok_or("expected NAME=SIZE")?;
    Ok((name.to_string(), positive(size)?))
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

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// What an option is when it is not given, its help says; so do the words of [`Config`]'s defaults.
    #[test]
    fn help_states_every_default() {
        // Without these nothing is read, written, left out or fixed.
        const NOTHING: &[&str] = &[
            "config",
            "precision",
            "calibrate",
            "dimensions",
            "freeze",
            "train",
            "steps",
            "baseline",
            "checkpoint",
            "curve",
            "weights_out",
            "weights",
            "emit",
            "keep",
            "junit",
            "name",
            "output",
        ];
        fn walk(command: &clap::Command, seen: &mut Vec<(String, String)>) {
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
                assert!(
                    shown || NOTHING.contains(&id),
                    "{place} does not state its default: {help}"
                );
                seen.push((id.to_string(), help));
            }
            command.get_subcommands().for_each(|command| walk(command, seen));
        }
        let mut seen = Vec::new();
        walk(&Arguments::command(), &mut seen);
        let config = Config::default();
        let json = serde_json::to_value(&config).unwrap();
        let word = |key: &str| json[key].as_str().unwrap().to_string();
        for (id, value) in [
            ("algorithm", config.algorithm.clone()),
            ("target", config.target.clone()),
            ("batch", config.batch_size().to_string()),
            ("seed", config.seed.to_string()),
            ("opt", word("opt")),
            ("batch_norm", word("batch-norm")),
            ("init", word("init")),
            ("normalization", word("normalization")),
            ("epochs", config.epochs.to_string()),
        ] {
            let helps: Vec<&String> =
                seen.iter().filter(|(i, _)| i == id).map(|(_, h)| h).collect();
            // The seeds of data and of reference models are clap's own.
            let own = |help: &&&String| help.contains(&format!("[default: {value}"));
            assert!(helps.iter().any(|h| own(&h)), "{id}: {value}: {helps:?}");
        }
        let built_in = format!("{BUILT_IN_EPOCHS} of the built-in net");
        assert!(seen.iter().any(|(id, help)| id == "epochs" && help.contains(&built_in)));
    }

    #[test]
    fn values() {
        assert_eq!(image_shape("3x32x16"), Ok([3, 32, 16]));
        for bad in ["3x32", "3x32x0", "3,32,32", ""] {
            assert!(image_shape(bad).is_err(), "{bad}");
        }
        assert_eq!(dimension("height=5"), Ok(("height".to_string(), 5)));
        assert!(dimension("height").is_err() && positive("0").is_err());
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
        assert_eq!(config.opt, OptimiserStrategy::Off);
    }
}
