//! Every option of a compilation or a training run, declared once: the configuration file's keys, the command line's flags
//! and the build crate's methods are made of this list, or held against it.

pub mod micro_batch;
pub mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use self::micro_batch::MicroBatches;
use self::value::{Augment, Bytes, OutputLoss, Schedule, Value, choice};

choice! {
    /// How the optimiser searches.
    OptimiserStrategy:
    /// Equality saturation
    Saturate = "saturate",
    /// Each rule once, in order
    Ordered = "ordered",
    /// Not at all
    Off = "off",
}

choice! {
    /// How batch norm normalizes while training.
    BatchNormHandling:
    /// As the model file says
    AsExported = "as-exported",
    /// With the statistics of the batch
    Training = "training",
    /// With the running statistics
    Frozen = "frozen",
}

choice! {
    /// How pixels become model inputs.
    InputNormalization:
    /// The stored values
    None = "none",
    /// Stored bytes divided by 255; floats as they stand
    Unit = "unit",
    /// Unit, then mean 0 and deviation 1 for each channel
    Standardize = "standardize",
}

choice! {
    /// Where the weights of the first step come from.
    WeightSource:
    /// The model file
    Model = "model",
    /// Drawn by the seed as the algorithm says
    Random = "random",
}

choice! {
    /// What a model without a loss of its own is trained for.
    LossFunction:
    /// The model's own loss, or the softmax cross-entropy of its class scores
    Model = "model",
    /// The mean softmax cross-entropy of each output [N, C, ...], at each position
    CrossEntropy = "cross-entropy",
    /// The mean binary cross-entropy of each output: logits, or what a final sigmoid gives
    BinaryCrossEntropy = "bce",
    /// The mean of each output's squared differences to its targets
    MeanSquaredError = "mse",
}

#[allow(clippy::derivable_impls, reason = "the macro's variants take no attributes")]
impl Default for LossFunction {
    fn default() -> LossFunction {
        LossFunction::Model
    }
}

/// What is said of an option besides its value.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// The configuration file's key and, after `--`, the flag.
    pub name: &'static str,
    /// The flag that turns it off, if it is on or off.
    pub off: &'static str,
    /// The flag's letter.
    pub short: Option<char>,
    /// What the flag's value is called.
    pub value: &'static str,
    /// Lines of its help.
    help: &'static [&'static str],
    /// The default in words; empty if without it nothing is read, left out or fixed.
    pub default: &'static str,
    /// The commands that take it; empty for all that compile.
    pub commands: &'static [&'static str],
    /// Why the build crate has no method for it; empty if it has.
    pub not_in_builds: &'static str,
}

impl OptionInfo {
    /// The flag, without its `--`. Sizes are given one by one.
    pub fn flag(&self) -> &'static str {
        if self.name == "dimensions" { "dimension" } else { self.name }
    }

    /// What it says.
    pub fn summary(&self) -> String {
        let lines: Vec<&str> = self.help.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    }

    /// That with its default.
    pub fn help(&self) -> String {
        match self.default {
            "" => self.summary(),
            default => format!("{} [default: {default}]", self.summary()),
        }
    }
}

const fn letter(letters: &[char]) -> Option<char> {
    match letters {
        [letter, ..] => Some(*letter),
        [] => None,
    }
}

/// Declares the options: help, field, initial value, name, letter, the value's name, and what else [`OptionInfo`] says.
macro_rules! options {
    ($(
        $(#[doc = $help:literal])+
        $field:ident: $ty:ty = $initial:expr,
        $name:literal $($short:literal)* ($value:literal) $(default $default:literal)?
        $(in $($command:literal),+)? $(not in builds: $reason:literal)?;
    )+) => {
        /// What a compilation or a training run is asked to do. [`OPTIONS`] says how each field is spelled.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            $($(#[doc = $help])+ #[serde(rename = $name)] pub $field: $ty,)+
        }

        impl Default for Config {
            fn default() -> Config {
                Config { $($field: $initial,)+ }
            }
        }

        /// Every option, in the order of listings.
        pub const OPTIONS: &[OptionInfo] = &[$(OptionInfo {
            name: $name,
            off: concat!("no-", $name),
            short: letter(&[$($short),*]),
            value: $value,
            help: &[$($help),+],
            default: concat!($($default)?),
            commands: &[$($($command),+)?],
            not_in_builds: concat!($($reason)?),
        },)+];

        impl Config {
            /// The value of that option.
            pub fn value(&self, name: &str) -> Option<&dyn Value> {
                Some(match name { $($name => &self.$field,)+ _ => return None })
            }

            fn value_mut(&mut self, name: &str) -> Option<&mut dyn Value> {
                Some(match name { $($name => &mut self.$field,)+ _ => return None })
            }

            fn copy(&mut self, name: &str, from: &Config) {
                match name { $($name => self.$field = from.$field.clone(),)+ _ => {} }
            }
        }
    };
}

options! {
    /// Training algorithm: a built-in name (see `trainc algorithms`) or a .toml file, with values of its parameters as in
    /// dorefa:w=4,a=4
    algorithm: String = "niti".to_string(), "algorithm" 'a' ("NAME|FILE")
        default "niti, or niti-finetune if the model brings trained weights; of `run` fp32";
    /// Optimizer, where the algorithm takes another than its own: `sgd`, `nesterov`, `adam` or `adamw`, with values of its
    /// parameters as in adamw:beta1=0.8,weight_decay.bias=0 (see `trainc algorithms`)
    optimizer: Option<String> = None, "optimizer" ("NAME[:PARAMETER=VALUE,...]")
        default "the algorithm's";
    /// Refuse operations that the algorithm has no form of its own for, in place of computing them in FP32
    strict: bool = false, "strict" ("true|false") default "false";
    /// Bits of each layer's input, weight and output, for quantized inference of a model that is not quantized
    precision: Option<PathBuf> = None, "precision" ("FILE.toml");
    /// Data set whose activations give the ranges that the precision file leaves out
    calibrate: Option<PathBuf> = None, "calibrate" ("DATA") not in builds: "builds read no data";
    /// Target (see `trainc targets`)
    target: String = "host".to_string(), "target" 't' ("NAME") default "host";
    /// Measured latencies by which a target of several devices divides the program, in place of its estimates
    latencies: Option<PathBuf> = None, "latencies" ("FILE.toml")
        in "compile", "inspect", "bench";
    /// Most bytes that the arena (activations, gradients, working memory) may have, as in 256K. Where it would have more, values
    /// are computed again until it fits; no bit changes
    arena_limit: Option<Bytes> = None, "arena-limit" ("BYTES") default "none"
        in "compile", "inspect", "bench";
    /// Images that a product takes at a time (a layer, its error, the gradient of its weights): at most N; `fit`, as many as fit
    /// the memory next to the machine; `auto`, those where that costs less by the target's estimates. No bit changes
    micro_batch: MicroBatches = MicroBatches::default(), "micro-batch" ("N|fit|auto|off") default "off"
        in "compile", "inspect", "bench";
    /// Bytes of the memory next to the machine, a cache or VTCM, that --micro-batch fits, on each of a target's devices
    local_memory: Option<Bytes> = None, "local-memory" ("BYTES") default "the target's"
        in "compile", "inspect", "bench";
    /// Examples of a training step; those that `run` takes at once
    batch: Option<usize> = None, "batch" 'b' ("N") default "32; of `run` the data's";
    /// Examples of a call of inference
    infer_batch: Option<usize> = None, "infer-batch" ("N")
        default "1 on devices; on the host --batch, or 1 where the algorithm's exponents follow the values: there \
            examples are always computed one by one";
    /// Size of an open dimension other than the batch; may be repeated
    dimensions: BTreeMap<String, usize> = BTreeMap::new(), "dimensions" ("NAME=SIZE");
    /// Seed of what is random: the first weights under --init random (and of the built-in net), the order of the training
    /// images, stochastic rounding. The same seed gives the same bits on every machine
    seed: u64 = 0, "seed" 's' ("N") default "0";
    /// How the optimiser searches
    opt: OptimiserStrategy = OptimiserStrategy::Saturate, "opt" ("STRATEGY") default "saturate";
    /// Only rewrites that keep every bit; without it also those that move a float by a stated number of units in the last
    /// place
    exact: bool = true, "exact" ("true|false") default "true";
    /// How batch norm normalizes while training
    batch_norm: BatchNormHandling = BatchNormHandling::AsExported, "batch-norm" ("HOW")
        default "as-exported";
    /// Where the first weights come from
    init: WeightSource = WeightSource::Model, "init" ("FROM") default "model";
    /// Weights in place of the model's: safetensors by its names, a checkpoint of `train`, or a device's saved state
    weights: Option<PathBuf> = None, "weights" 'w' ("FILE") not in builds: "builds read no data";
    /// Parameters or layers that do not train: names, with `*` and `?`; may be repeated
    freeze: Vec<String> = Vec::new(), "freeze" ("PATTERN");
    /// The only parameters or layers that train; may be repeated
    train: Vec<String> = Vec::new(), "train" ("PATTERN");
    /// What the model is trained for; of several outputs the sum. Targets are inputs of the training step; `train` has them
    /// from the data
    loss: LossFunction = LossFunction::Model, "loss" ("LOSS") default "model"
        in "train", "compile", "inspect", "bench", "measure";
    /// What one result is trained for, and the factor of its loss in the sum: boxes=mse:0.5; may be repeated. The others go by
    /// --loss, and are not trained for where that is not given
    output_loss: BTreeMap<String, OutputLoss> = BTreeMap::new(), "output-loss" ("RESULT=LOSS[:FACTOR]")
        in "train", "compile", "inspect", "bench", "measure";
    /// A fixed step size (under NITI: bits, 0 to 7)
    learning_rate: Option<f64> = None, "learning-rate" ("RATE")
        default "the algorithm's schedule" in "train", "compile";
    /// Step sizes in place of the algorithm's: 0:0.1,0.5:0.01 is 0.1, and 0.01 from half of the training on;
    /// 0:0~linear,500s:0.1~cosine,1:0 rises for 500 steps and then falls to the end
    schedule: Schedule = Schedule::default(), "schedule" ("FROM:RATE[~SHAPE],...")
        default "the algorithm's" in "train", "compile";
    /// Values of another input that the algorithm declares, as a schedule or one number; may be repeated:
    /// momentum=0:0.85,0.5:0.95
    scheduled: BTreeMap<String, Schedule> = BTreeMap::new(), "scheduled" ("NAME=FROM:VALUE[~SHAPE],...")
        default "the algorithm's" in "train", "compile";
    /// Share of the loss that asks for all classes alike
    label_smoothing: f64 = 0.0, "label-smoothing" ("SHARE") default "0";
    /// Largest magnitude of a gradient's element
    clip_value: Option<f64> = None, "clip-value" ("VALUE") default "none";
    /// Largest norm of all gradients together; larger ones are scaled
    clip_norm: Option<f64> = None, "clip-norm" ("NORM") default "none";
    /// How pixels become model inputs; `standardize` takes mean and deviation from the data
    normalization: InputNormalization = InputNormalization::Unit, "normalization" ("HOW")
        default "unit" in "train", "compile", "compare";
    /// Mean that is taken off each channel of pixels in 0 to 1, one number or one a channel: 0.485,0.456,0.406
    mean: Vec<f64> = Vec::new(), "mean" ("MEAN,...") default "0" in "train", "compile", "compare";
    /// Deviation that each channel is divided by after that: 0.229,0.224,0.225
    deviation: Vec<f64> = Vec::new(), "deviation" ("DEVIATION,...") default "1" in "train", "compile", "compare";
    /// Random changes of the training images: `crop=N` cuts a window out of the image with N zero pixels at each side,
    /// `flip` mirrors every second one, `cutout=N` blanks a square of that side
    augment: Augment = Augment::default(), "augment" ("crop=N,flip,cutout=N")
        default "none" in "train", "compare" not in builds: "builds do not train";
    /// Passes over the training images; with 0 the model is only evaluated
    epochs: usize = 10, "epochs" 'e' ("N") default "10; 30 of the built-in net" in "train", "compare"
        not in builds: "builds do not train";
    /// At most this many training steps in all; the schedule of step sizes goes by them
    steps: Option<u64> = None, "steps" ("N") in "train", "compare" not in builds: "builds do not train";
    /// Take the samples in another order each epoch, not in the file's
    shuffle: bool = true, "shuffle" ("true|false") default "true" in "train", "compare"
        not in builds: "builds do not train";
}

/// Options that were said, to go over others.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Said {
    names: BTreeSet<&'static str>,
    values: Config,
}

impl Said {
    /// Says an option by what follows its flag; a list grows.
    ///
    /// # Errors
    /// What was expected.
    pub fn read(&mut self, option: &OptionInfo, text: &OsStr) -> Result<(), String> {
        let Some(value) = self.values.value_mut(option.name) else { return Ok(()) };
        value.read(text)?;
        self.names.insert(option.name);
        self.values.check_each()
    }

    /// Says the option of that name.
    pub fn say(&mut self, name: &'static str, set: impl FnOnce(&mut Config)) {
        debug_assert!(self.values.value(name).is_some(), "there is no option `{name}`");
        self.names.insert(name);
        set(&mut self.values);
    }

    /// The names of what was said.
    pub fn names(&self) -> &BTreeSet<&'static str> {
        &self.names
    }

    /// A configuration with what was said in place of its own. Sizes of other dimensions stay.
    pub fn over(&self, mut config: Config) -> Config {
        let dimensions = std::mem::take(&mut config.dimensions);
        self.names.iter().for_each(|name| config.copy(name, &self.values));
        for (name, size) in dimensions {
            config.dimensions.entry(name).or_insert(size);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::schedule::Point;

    /// What an option is when it is not given, its help says in the words of [`Config`]'s default.
    #[test]
    fn help_states_every_default() {
        let config = Config::default();
        for option in OPTIONS {
            let words = config.value(option.name).and_then(Value::words);
            assert!(!option.help().is_empty() && !option.value.is_empty(), "{}", option.name);
            if let Some(words) = words {
                assert!(option.default.starts_with(&words), "{}: {words}", option.name);
            }
        }
        let batch = config.batch_size().to_string();
        assert!(OPTIONS.iter().any(|o| o.name == "batch" && o.default.starts_with(&batch)));
    }

    #[test]
    fn what_is_said_goes_over_a_file() {
        let file =
            "seed = 4\nbatch = 8\nopt = \"off\"\nfreeze = [\"a\"]\n[dimensions]\nh = 2\nw = 3\n";
        let file: Config = toml::from_str(file).unwrap();
        let mut said = Said::default();
        let option = |name: &str| OPTIONS.iter().find(|o| o.name == name).unwrap();
        let words = [("batch", "16"), ("dimensions", "w=5"), ("freeze", "b"), ("freeze", "c")];
        for (name, text) in words {
            said.read(option(name), OsStr::new(text)).unwrap();
        }
        let config = said.over(file);
        assert_eq!((config.seed, config.batch), (4, Some(16)));
        assert_eq!(config.opt, OptimiserStrategy::Off);
        assert_eq!(config.freeze, ["b", "c"]);
        assert_eq!(config.dimensions, BTreeMap::from([("h".into(), 2), ("w".into(), 5)]));
    }

    #[test]
    fn bytes_have_units() {
        let option = OPTIONS.iter().find(|o| o.name == "arena-limit").unwrap();
        for (text, bytes) in [("77", 77), ("256K", 256 << 10), ("2m", 2 << 20)] {
            let mut said = Said::default();
            said.read(option, OsStr::new(text)).unwrap();
            let config = said.over(Config::default());
            assert_eq!(config.arena_limit, Some(Bytes(bytes)));
            let file: Config = toml::from_str(&format!("arena-limit = \"{text}\"")).unwrap();
            assert_eq!(file, config);
            let file: Config = toml::from_str(&format!("arena-limit = {bytes}")).unwrap();
            assert_eq!(file, config);
        }
    }

    #[test]
    fn values_out_of_range_are_refused_as_they_are_said() {
        let option = |name: &str| OPTIONS.iter().find(|o| o.name == name).unwrap();
        for (name, text) in [
            ("batch", "0"),
            ("batch", "many"),
            ("infer-batch", "0"),
            ("arena-limit", "0"),
            ("micro-batch", "0"),
            ("micro-batch", "few"),
            ("local-memory", "0"),
            ("arena-limit", "many"),
            ("arena-limit", "99999999999999999999K"),
            ("learning-rate", "nan"),
            ("learning-rate", "-1"),
            ("schedule", "0.5:1"),
            ("schedule", "0:1,0:2"),
            ("schedule", "0.1"),
            ("schedule", "0:1~linear"),
            ("augment", "crop"),
            ("augment", "turn"),
            ("augment", "flip=2"),
            ("label-smoothing", "1"),
            ("clip-norm", "0"),
            ("deviation", "0"),
            ("mean", "a,b"),
            ("dimensions", "w"),
            ("dimensions", "w=0"),
            ("opt", "often"),
            ("shuffle", "maybe"),
        ] {
            assert!(Said::default().read(option(name), OsStr::new(text)).is_err(), "{name} {text}");
        }
        let mut said = Said::default();
        said.read(option("schedule"), OsStr::new("0:0.1,0.5:0.01")).unwrap();
        let points = said.over(Config::default()).schedule.0;
        assert_eq!(points, [Point::constant(0.0, 0.1), Point::constant(0.5, 0.01)]);
    }
}
