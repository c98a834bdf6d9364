//! What each operation of training steps takes on each target, counted a product or an element, and how many times that the
//! target's scalar loops take for the same, counted too.
//!
//!     cargo run --release -p trainc-tests --example operation_costs [TARGET]...
//!
//! writes the targets' tables in docs/operation-costs.md, anew after each training step. Scalar loops are C of the same
//! program's operations, by the target's compiler without its vectors. For Hexagon these lack a division and are not
//! counted; OpenCL and the host are timed, on this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use trainc_c::{Floats, Loops, take};
use trainc_driver::bench::{BenchOptions, BenchReport, Subject, bench, bench_planned};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::harness::{Harness, Toolchain};
use trainc_ir::implementation::{Selection, Signature, Ways};
use trainc_ir::program::{Kernel, Program};
use trainc_ir::target::{ArtifactFile, EmitError, Target, TargetDescription};
use trainc_ir::{Op, Verified};
use trainc_neon::{ARMV7, DOTPROD};
use trainc_opt::algorithm::{Algorithm, BUILT_IN};
use trainc_xpulpv2::XPULPV2;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Networks by `niti`: of the zoo, the factor of its channels, the batch.
const NETWORKS: [(&str, &str, usize); 4] =
    [("lenet5", "1", 4), ("resnet8", "1", 4), ("mobilenetv2", "0.25", 1), ("encoder", "1", 4)];

/// The network that every algorithm trains, and its batch.
const ALL_ALGORITHMS: (&str, usize) = ("residual", 4);

/// For algorithms that take other networks alone.
const QUANTIZED: (&str, usize) = ("qas-residual", 4);
const BINARY: (&str, usize) = ("lenet-binary", 4);

/// What counts, its unit, and the same with nothing but loops, for which a compiler makes no vectors.
const TARGETS: [(&str, &str, Option<ByLoops>); 6] = [
    ("xpulpv2", "cycles", Some((&LoopsAlone(&XPULPV2, Floats::Software), None))),
    (
        "neon+dotprod",
        "instructions",
        Some((
            &LoopsAlone(&DOTPROD, Floats::Hardware),
            Some("aarch64-linux-gnu-gcc -static -fno-tree-vectorize"),
        )),
    ),
    (
        "armv7-neon",
        "instructions",
        Some((
            &LoopsAlone(&ARMV7, Floats::Hardware),
            Some("arm-linux-gnueabihf-gcc -static -fno-tree-vectorize"),
        )),
    ),
    ("hvx", "packets", None),
    ("opencl", "nanoseconds", None),
    ("host", "nanoseconds", None),
];

type ByLoops = (&'static LoopsAlone, Option<&'static str>);

/// Loops of these algorithms alone are counted on a target whose simulator takes minutes for a step of them.
const FEW_BY_LOOPS: (&str, [&str; 2]) = ("xpulpv2", ["niti", "fp32"]);

/// Where loops are always scalar.
const SCALAR: &str = "xpulpv2";

/// Below this many times the speed of scalar loops an operation is listed.
const FEW_TIMES: f64 = 4.0;

/// A target with nothing but loops in C.
struct LoopsAlone(&'static dyn Target, Floats);

impl Target for LoopsAlone {
    fn description(&self) -> &TargetDescription {
        self.0.description()
    }

    fn address_bits(&self) -> u32 {
        self.0.address_bits()
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        take(Ways::default(), Loops::with(signature, self.1))
    }

    fn updates_in_products(&self) -> bool {
        self.0.updates_in_products()
    }

    fn emit(
        &self,
        program: &Verified<Program>,
    ) -> std::result::Result<Vec<ArtifactFile>, EmitError> {
        self.0.emit(program)
    }

    fn toolchain(&self) -> Option<Toolchain> {
        self.0.toolchain()
    }

    fn harness(
        &self,
        program: &Verified<Program>,
    ) -> std::result::Result<Option<Harness>, EmitError> {
        self.0.harness(program)
    }
}

/// What launches of a kind take together.
#[derive(Default)]
struct Taken {
    launches: usize,
    macs: u64,
    elements: u64,
    units: u64,
    /// Of those that loops alone were counted for, too, what both take.
    both: [u64; 2],
    /// Launches some of whose loops are scalar.
    scalar: usize,
}

/// The first operation of a kernel, which products and reductions are.
fn first(kernel: &Kernel) -> &Op {
    match &kernel.op {
        Op::Chain(chain) => &chain.ops[0],
        op => op,
    }
}

/// Elements of the largest operand or result.
fn elements(kernel: &Kernel) -> u64 {
    kernel.inputs.iter().chain(&kernel.outputs).map(|ty| ty.count() as u64).max().unwrap_or(1)
}

/// A launch's operation and the element of its operand.
fn kind(kernel: &Kernel) -> (&'static str, String) {
    let element = kernel.inputs.first().or(kernel.outputs.first()).map(|ty| ty.element.to_string());
    (first(kernel).kind().name(), element.unwrap_or_default())
}

/// What launches of a node's operation take, in their order.
type Launches = BTreeMap<(String, &'static str), Vec<u64>>;

fn launches(report: &BenchReport, program: &Program) -> Result<Launches> {
    let mut all = Launches::new();
    for launch in &report.launches {
        let name = kind(kernel(program, &launch.kernel)?).0;
        all.entry((launch.node.clone(), name)).or_default().push(launch.units);
    }
    Ok(all)
}

fn kernel<'p>(program: &'p Program, name: &str) -> Result<&'p Kernel> {
    let found = program.kernels.iter().find(|kernel| kernel.name == name);
    Ok(found.ok_or("a launch has no kernel")?)
}

/// A model and how it trains.
struct Step {
    source: ModelSource,
    batch: usize,
    algorithm: &'static str,
}

impl Step {
    /// Of the zoo, with a factor of its channels.
    fn of_zoo((name, width, batch): (&str, &str, usize), algorithm: &'static str) -> Result<Step> {
        let spec = ZooSpec { width: width.parse()?, ..ZooSpec::new(name)? };
        let source = ModelSource::Bytes { name: name.into(), bytes: build(&spec)? };
        Ok(Step { source, batch, algorithm })
    }

    fn name(&self) -> String {
        format!("`{}` by `{}`", self.source.name(), self.algorithm)
    }

    fn config(&self, target: &str) -> Config {
        Config {
            target: target.into(),
            algorithm: self.algorithm.into(),
            batch: Some(self.batch),
            ..Config::default()
        }
    }

    fn is_by_loops(&self, target: &str) -> bool {
        let (few, algorithms) = FEW_BY_LOOPS;
        target != few || algorithms.contains(&self.algorithm)
    }

    /// What its launches take by loops alone.
    fn by_loops(&self, target: &str, (loops, compiler): ByLoops) -> Result<Launches> {
        let options =
            BenchOptions { compiler: compiler.map(str::to_string), ..BenchOptions::default() };
        let config = self.config(target);
        let (report, program) = bench_planned((&self.source, &config), loops, &options)?;
        launches(&report, &program)
    }

    /// What its launches take on a target.
    fn count(&self, target: &str, loops: Option<ByLoops>) -> Result<Operations> {
        let config = self.config(target);
        let subject = Subject::Model(&self.source, &config);
        let (report, _) = bench(&subject, &BenchOptions::default(), &mut |_| {})?;
        let session = Session::new(&self.source, &config, Entries::TrainAndInfer)?;
        let loops = loops.filter(|_| self.is_by_loops(target));
        let loops = loops.map(|loops| self.by_loops(target, loops)).transpose()?;
        let mut loops = loops.unwrap_or_default();
        let own = launches(&report, session.program())?;
        // Of a node's operation that is in as many launches.
        loops.retain(|key, counts| own.get(key).is_some_and(|own| own.len() == counts.len()));
        let mut all = Operations::new();
        for launch in &report.launches {
            let kernel = kernel(session.program(), &launch.kernel)?;
            let (name, element) = kind(kernel);
            let key = (name, element, launch.implementation.to_string());
            let taken = all.entry(key).or_default();
            taken.launches += 1;
            taken.macs += launch.macs;
            taken.elements += elements(kernel);
            taken.units += launch.units;
            taken.scalar += usize::from(!kernel.selection.scalar_loops().is_empty());
            if let Some(counts) = loops.get_mut(&(launch.node.clone(), name)) {
                taken.both = [taken.both[0] + launch.units, taken.both[1] + counts.remove(0)];
            }
        }
        Ok(all)
    }
}

/// Every network and algorithm.
fn steps() -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for network in NETWORKS {
        steps.push(Step::of_zoo(network, "niti")?);
    }
    for (algorithm, _) in BUILT_IN {
        if Algorithm::built_in(algorithm)?.inference.is_none() && *algorithm != "qas" {
            steps.push(Step::of_zoo((ALL_ALGORITHMS.0, "1", ALL_ALGORITHMS.1), algorithm)?);
        }
    }
    let file = format!("{}/data/carrier/{}.onnx", env!("CARGO_MANIFEST_DIR"), QUANTIZED.0);
    steps.push(Step {
        source: ModelSource::File(file.into()),
        batch: QUANTIZED.1,
        algorithm: "qas",
    });
    steps.push(Step::of_zoo((BINARY.0, "1", BINARY.1), "bnn-ste")?);
    Ok(steps)
}

fn main() -> Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let steps = steps()?;
    let chosen = TARGETS.iter().filter(|(t, ..)| named.is_empty() || named.iter().any(|n| n == t));
    for (target, unit, loops) in chosen {
        let mut found = Found::default();
        for step in &steps {
            eprintln!("{target}: {}", step.name());
            match step.count(target, *loops) {
                Ok(more) => {
                    found.steps.push(step.name());
                    found.join(more);
                }
                Err(reason) => found.refused.push(format!("{}: {reason:#}", step.name())),
            }
            put(&format!("## `{target}`"), &table((target, unit), &found)?)?;
        }
    }
    Ok(())
}

/// By operation, element of the operand and how it runs.
type Operations = BTreeMap<(&'static str, String, String), Taken>;

/// What was counted on a target, and what the target or the algorithm does not take.
#[derive(Default)]
struct Found {
    own: Operations,
    steps: Vec<String>,
    refused: Vec<String>,
}

impl Found {
    fn join(&mut self, more: Operations) {
        for (key, more) in more {
            let taken = self.own.entry(key).or_default();
            taken.launches += more.launches;
            taken.macs += more.macs;
            taken.elements += more.elements;
            taken.units += more.units;
            taken.both = [0, 1].map(|i| taken.both[i] + more.both[i]);
            taken.scalar += more.scalar;
        }
    }
}

/// Puts a section in the document, in place of the one that begins so.
fn put(begin: &str, section: &str) -> Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operation-costs.md");
    let text = std::fs::read_to_string(file)?;
    let (before, rest) = match text.find(begin) {
        Some(at) => text.split_at(at),
        None => (text.as_str(), ""),
    };
    let after = rest.find("\n## ").map_or("", |at| &rest[at + 1..]);
    let all = format!("{}\n\n{section}{after}", before.trim_end());
    Ok(std::fs::write(file, format!("{}\n", all.trim_end()))?)
}

/// A target's operations.
fn table((target, unit): (&str, &str), found: &Found) -> Result<String> {
    let mut text = format!("## `{target}`: {unit}\n\n");
    let mut line = |cells: [&str; 8]| writeln!(text, "| {} |", cells.join(" | "));
    line(["operation", "operand", "runs as", "launches", "of", unit, "loops", ""])?;
    line(["---", "---", "---", "---:", "---", "---:", "---:", "---"])?;
    for ((name, element, way), taken) in &found.own {
        let (each, of) = match taken.macs {
            0 => ("element", taken.elements),
            macs => ("product", macs),
        };
        let times = (taken.both[1] > 0).then(|| taken.both[1] as f64 / taken.both[0] as f64);
        let listed = match times {
            Some(times) if times < FEW_TIMES => format!("within {FEW_TIMES} times of scalar loops"),
            None if target == SCALAR && way == "loops" => "scalar loops".to_string(),
            None if taken.scalar == 1 => "scalar loops in 1 launch".to_string(),
            None if taken.scalar > 0 => format!("scalar loops in {} launches", taken.scalar),
            _ => String::new(),
        };
        line([
            &format!("`{name}`"),
            element,
            way,
            &taken.launches.to_string(),
            each,
            &format!("{:.3}", taken.units as f64 / of as f64),
            &times.map_or_else(|| "-".to_string(), |times| format!("{times:.1}")),
            &listed,
        ])?;
    }
    writeln!(text, "\nCounted: {}.", found.steps.join(", "))?;
    for refused in &found.refused {
        writeln!(text, "\nNot taken: {refused}.")?;
    }
    writeln!(text)?;
    Ok(text)
}
