//! The builder: what a build script asks for, and its compilation.

use std::path::{Path, PathBuf};

use trainc_driver::config::{
    BatchNormHandling, Config, InputNormalization, LossFunction, OptimiserStrategy, WeightSource,
};
use trainc_driver::model::ModelSource;
use trainc_driver::options::Said;
use trainc_driver::options::micro_batch::MicroBatches;
use trainc_driver::options::value::{Bytes, OutputLoss, Schedule};
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{self, ZooSpec};
use trainc_driver::{algorithms, targets};
use trainc_ir::batch_split::MicroBatch;
use trainc_ir::names;
use trainc_ir::schedule::Point;
use trainc_onnx_import::external_files;

use crate::Error;
use crate::cargo::{Cargo, TARGET_OVERRIDE};
use crate::files;
use crate::native::{self, Library};

/// What to compile and how. Paths are relative to the package, where cargo runs build scripts.
///
/// What is not set comes from the configuration file if there is one, else from trainc's defaults: algorithm `niti`,
/// batch 32, the model's own weights, seed 0.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    model: Option<Model>,
    name: Option<String>,
    config: Option<PathBuf>,
    options: Said,
    out_dir: Option<PathBuf>,
    no_link: bool,
    flags: Vec<String>,
    opt_level: Option<u32>,
}

#[derive(Clone, Debug)]
enum Model {
    File(PathBuf),
    Zoo(String),
}

/// What [`Builder::compile`] made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The Rust module, to be included.
    pub module: PathBuf,
    /// The artifact's folder: sources or object, header, notes.
    pub folder: PathBuf,
    /// Prefix of every symbol, name of the module.
    pub name: String,
    /// The target.
    pub target: String,
    /// Bytes of working memory.
    pub arena_bytes: usize,
    /// Bytes of weights and statistics.
    pub state_bytes: usize,
}

impl Builder {
    /// A builder that knows no model yet.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The ONNX or TensorFlow Lite file. Weights in other files are read from its folder.
    pub fn model(mut self, path: impl AsRef<Path>) -> Builder {
        self.model = Some(Model::File(path.as_ref().to_path_buf()));
        self
    }

    /// A reference model in place of a file, with its usual input and 10 classes: `digits`, `lenet5`, ...
    pub fn zoo(mut self, name: &str) -> Builder {
        self.model = Some(Model::Zoo(name.to_string()));
        self
    }

    /// Name of the module and prefix of its symbols, by default the model file's. Two models of one program need two.
    pub fn name(mut self, name: &str) -> Builder {
        self.name = Some(name.to_string());
        self
    }

    /// A `trainc.toml`, under what else is set here. Its target counts unless it is `host`, which is what such a file
    /// means for `trainc train`.
    pub fn config(mut self, path: impl AsRef<Path>) -> Builder {
        self.config = Some(path.as_ref().to_path_buf());
        self
    }

    /// The training algorithm: a built-in name, or the path of a `.toml` file; with values of its parameters, `dorefa:w=4,a=4`.
    pub fn algorithm(mut self, name: &str) -> Builder {
        self.options.say("algorithm", |c| c.algorithm = name.to_string());
        self
    }

    /// The optimizer, where the algorithm takes another than its own: `adamw`, or `adamw:beta1=0.8,weight_decay.bias=0`.
    pub fn optimizer(mut self, name: &str) -> Builder {
        self.options.say("optimizer", |c| c.optimizer = Some(name.to_string()));
        self
    }

    /// A file with the bits of each layer, for the algorithm `quantized` and a model that is not quantized itself.
    pub fn precision(mut self, path: impl AsRef<Path>) -> Builder {
        self.options.say("precision", |c| c.precision = Some(path.as_ref().to_path_buf()));
        self
    }

    /// The target: `c`, `neon`, `neon+dotprod`, `neon+i8mm`, `armv7-neon`; `host` with the feature of that name.
    ///
    /// By default the environment's `TRAINC_TARGET`, else what suits the machine that cargo builds for: a NEON target
    /// where the architecture and its enabled features have one, else `c`. All give the same bits.
    pub fn target(mut self, name: &str) -> Builder {
        self.options.say("target", |c| c.target = name.to_string());
        self
    }

    /// A file with measured latencies, by which a target of several devices divides the program.
    pub fn latencies(mut self, path: impl AsRef<Path>) -> Builder {
        self.options.say("latencies", |c| c.latencies = Some(path.as_ref().to_path_buf()));
        self
    }

    /// Examples of a batch.
    pub fn batch(mut self, examples: usize) -> Builder {
        self.options.say("batch", |c| c.batch = Some(examples));
        self
    }

    /// Examples of a call of inference; without it 1 (`host` under an algorithm that does not compute examples one by
    /// one: those of a batch).
    pub fn infer_batch(mut self, examples: usize) -> Builder {
        self.options.say("infer-batch", |c| c.infer_batch = Some(examples));
        self
    }

    /// Most bytes that the arena may have; values are computed again where it would have more.
    pub fn arena_limit(mut self, bytes: usize) -> Builder {
        self.options.say("arena-limit", |c| c.arena_limit = Some(Bytes(bytes)));
        self
    }

    /// How many images products take at a time, so that they fit the memory next to the machine; no bit changes.
    pub fn micro_batch(mut self, how: MicroBatch) -> Builder {
        self.options.say("micro-batch", |c| c.micro_batch = MicroBatches(how));
        self
    }

    /// Bytes of the memory next to the machine, in place of what the target says.
    pub fn local_memory(mut self, bytes: usize) -> Builder {
        self.options.say("local-memory", |c| c.local_memory = Some(Bytes(bytes)));
        self
    }

    /// The size of an open dimension other than the batch, by its symbol in the model.
    pub fn dimension(mut self, symbol: &str, size: usize) -> Builder {
        self.options.say("dimensions", |c| {
            c.dimensions.insert(symbol.to_string(), size);
        });
        self
    }

    /// Seed of random weights.
    pub fn seed(mut self, seed: u64) -> Builder {
        self.options.say("seed", |c| c.seed = seed);
        self
    }

    /// Where the weights of the first step come from.
    pub fn init(mut self, source: WeightSource) -> Builder {
        self.options.say("init", |c| c.init = source);
        self
    }

    /// What a model without a loss of its own is trained for.
    pub fn loss(mut self, loss: LossFunction) -> Builder {
        self.options.say("loss", |c| c.loss = loss);
        self
    }

    /// What one result is trained for, and the factor of its loss in the sum.
    pub fn output_loss(mut self, result: &str, loss: LossFunction, factor: f64) -> Builder {
        let own = OutputLoss { loss, factor };
        self.options.say("output-loss", |c| {
            c.output_loss.insert(result.to_string(), own);
        });
        self
    }

    /// A fixed step size that the module's `learning_rate` gives in place of the algorithm's schedule.
    pub fn learning_rate(mut self, size: f64) -> Builder {
        self.options.say("learning-rate", |c| c.learning_rate = Some(size));
        self
    }

    /// Step sizes in place of the algorithm's: from which fraction of the training on, and the size. A `trainc.toml`
    /// ([`Builder::config`]) states lines and cosines: `schedule = ["0:0~linear", "100s:0.1~cosine", "1:0"]`.
    pub fn schedule(mut self, points: &[(f64, f64)]) -> Builder {
        let point = |&(from, size): &(f64, f64)| Point::constant(from, size);
        self.options.say("schedule", |c| c.schedule = Schedule(points.iter().map(point).collect()));
        self
    }

    /// Values of another input that the algorithm declares, as [`Builder::schedule`].
    pub fn scheduled(mut self, name: &str, points: &[(f64, f64)]) -> Builder {
        let point = |&(from, size): &(f64, f64)| Point::constant(from, size);
        let schedule = Schedule(points.iter().map(point).collect());
        self.options.say("scheduled", |c| drop(c.scheduled.insert(name.to_string(), schedule)));
        self
    }

    /// Share of the loss that asks for all classes alike.
    pub fn label_smoothing(mut self, share: f64) -> Builder {
        self.options.say("label-smoothing", |c| c.label_smoothing = share);
        self
    }

    /// Largest magnitude of a gradient's element.
    pub fn clip_value(mut self, value: f64) -> Builder {
        self.options.say("clip-value", |c| c.clip_value = Some(value));
        self
    }

    /// Largest norm of all gradients together; larger ones are scaled.
    pub fn clip_norm(mut self, norm: f64) -> Builder {
        self.options.say("clip-norm", |c| c.clip_norm = Some(norm));
        self
    }

    /// How pixels become model inputs, for the notes in the header; `Standardize` leaves them out, for it takes data.
    pub fn normalization(mut self, normalization: InputNormalization) -> Builder {
        self.options.say("normalization", |c| c.normalization = normalization);
        self
    }

    /// The mean that is taken off each channel of pixels in 0 to 1, one or one a channel, for the notes in the header.
    pub fn mean(mut self, channels: &[f64]) -> Builder {
        self.options.say("mean", |c| c.mean = channels.to_vec());
        self
    }

    /// The deviation that each channel is divided by after that.
    pub fn deviation(mut self, channels: &[f64]) -> Builder {
        self.options.say("deviation", |c| c.deviation = channels.to_vec());
        self
    }

    /// Whether operations that the algorithm has no form of its own for are refused, in place of being computed in FP32.
    pub fn strict(mut self, strict: bool) -> Builder {
        self.options.say("strict", |c| c.strict = strict);
        self
    }

    /// Whether only rewrites that keep every bit are allowed (default).
    pub fn exact(mut self, exact: bool) -> Builder {
        self.options.say("exact", |c| c.exact = exact);
        self
    }

    /// How the optimiser searches.
    pub fn opt(mut self, strategy: OptimiserStrategy) -> Builder {
        self.options.say("opt", |c| c.opt = strategy);
        self
    }

    /// How batch norm normalizes while training.
    pub fn batch_norm(mut self, handling: BatchNormHandling) -> Builder {
        self.options.say("batch-norm", |c| c.batch_norm = handling);
        self
    }

    /// Parameters or layers that do not train, by name with `*` and `?`: constants of the artifact. May be called again.
    pub fn freeze(mut self, pattern: &str) -> Builder {
        self.options.say("freeze", |c| c.freeze.push(pattern.to_string()));
        self
    }

    /// The only parameters or layers that train, as for [`Builder::freeze`].
    pub fn train(mut self, pattern: &str) -> Builder {
        self.options.say("train", |c| c.train.push(pattern.to_string()));
        self
    }

    /// The folder for the module and the artifact, by default cargo's `OUT_DIR`.
    pub fn out_dir(mut self, path: impl AsRef<Path>) -> Builder {
        self.out_dir = Some(path.as_ref().to_path_buf());
        self
    }

    /// Whether to run the C compiler and link its output (default); without it the sources and the module are written.
    pub fn link(mut self, link: bool) -> Builder {
        self.no_link = !link;
        self
    }

    /// A flag for the C compiler, such as `-mcpu=cortex-a72`.
    pub fn flag(mut self, flag: &str) -> Builder {
        self.flags.push(flag.to_string());
        self
    }

    /// The level of the C compiler's optimisation, by default the target's own in every profile.
    pub fn opt_level(mut self, level: u32) -> Builder {
        self.opt_level = Some(level);
        self
    }

    /// Compiles the model, builds and links the result, writes the module `NAME.rs`, and tells cargo what to watch.
    ///
    /// # Errors
    /// Anything wrong with the model, the algorithm, the target or the C compiler. The message, with file and node, is
    /// told to cargo as well; returning the error from `main` ends the build.
    pub fn compile(&self) -> Result<Output, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut cargo =
            Cargo { variable: &variable, line: &mut |line| println!("{line}"), live: true };
        self.run(&mut cargo)
    }

    /// The options that were set.
    #[cfg(test)]
    pub(crate) fn options(&self) -> &Said {
        &self.options
    }

    /// [`Builder::compile`] against any cargo.
    pub(crate) fn run(&self, cargo: &mut Cargo<'_>) -> Result<Output, Error> {
        self.compiled(cargo).inspect_err(|error| cargo.say("error", &error.to_string()))
    }

    fn compiled(&self, cargo: &mut Cargo<'_>) -> Result<Output, Error> {
        let (config, source) = self.inputs(cargo)?;
        let name = self.name.clone().unwrap_or_else(|| source.name());
        let out_dir = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => cargo.out_dir()?,
        };
        let session = Session::named(&name, &source, &config, Entries::TrainAndInfer)?;
        session.warnings.iter().for_each(|warning| cargo.say("warning", warning));
        let program = session.program();
        let artifact = session.target.emit(program).map_err(|e| Error::new(e.to_string()))?;
        let module = artifact
            .iter()
            .find(|file| file.name.ends_with(".rs"))
            .ok_or_else(|| Error::new(format!("target `{}` has no Rust module", config.target)))?;
        let name = module.name.trim_end_matches(".rs").to_string();
        let folder = out_dir.join(&name);
        for file in artifact.iter().filter(|file| file.name != module.name) {
            files::write(&folder.join(&file.name), &file.contents)?;
        }
        let contents = &module.contents;
        let module = out_dir.join(&module.name);
        files::write(&module, contents)?;
        if !self.no_link {
            let ending = |ending: &str| -> Vec<PathBuf> {
                let files = artifact.iter().filter(|file| file.name.ends_with(ending));
                files.map(|file| folder.join(&file.name)).collect()
            };
            let flags = targets::compiler_flags(&config.target);
            if flags.is_none() && cargo.need("TARGET")? != cargo.need("HOST")? {
                return Err(Error::new(format!(
                    "target `{}` is for the machine that builds; cargo builds for {}",
                    config.target,
                    cargo.need("TARGET")?
                )));
            }
            let library = Library {
                name: &names::library(&name),
                folder: &folder,
                sources: &ending(".c"),
                objects: &ending(".o"),
                flags: &flags.unwrap_or_default(),
                libraries: targets::libraries(&config.target),
                more_flags: &self.flags,
                opt_level: self.opt_level,
            };
            native::build(&library, cargo)?;
        }
        Ok(Output {
            module,
            folder,
            name,
            target: config.target,
            arena_bytes: program.memory.arena_bytes,
            state_bytes: program.memory.state_bytes,
        })
    }

    /// The configuration and the model; cargo is told of every file and variable that decides them.
    fn inputs(&self, cargo: &mut Cargo<'_>) -> Result<(Config, ModelSource), Error> {
        let source = match &self.model {
            None => return Err(Error::new("no model: call `model` or `zoo`")),
            Some(Model::File(path)) => {
                cargo.watch_file(path);
                // What is wrong with the file, its import says.
                let beside = external_files(path).unwrap_or_default();
                beside.iter().for_each(|file| cargo.watch_file(file));
                ModelSource::File(path.clone())
            }
            Some(Model::Zoo(name)) => {
                // Without any line, cargo would watch the whole package.
                cargo.watch_file(Path::new("build.rs"));
                let bytes = ZooSpec::new(name).and_then(|spec| zoo::build(&spec));
                let bytes = bytes.map_err(|e| Error::new(format!("the zoo: {e}")))?;
                ModelSource::Bytes { name: name.clone(), bytes }
            }
        };
        let config = match &self.config {
            Some(path) => {
                cargo.watch_file(path);
                Config::read(path)?
            }
            None => Config::default(),
        };
        let mut config = self.options.over(config);
        let (algorithm, _) = algorithms::split(&config.algorithm);
        if algorithms::is_path(algorithm) {
            cargo.watch_file(Path::new(algorithm));
        }
        if let Some(path) = &config.precision {
            cargo.watch_file(path);
        }
        if !self.options.names().contains("target") {
            config.target = match cargo.watched(TARGET_OVERRIDE) {
                Some(target) => target,
                None if config.target != Config::default().target => config.target,
                None => cargo.default_target().to_string(),
            };
        }
        Ok((config, source))
    }
}
