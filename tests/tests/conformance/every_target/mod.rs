//! What every registered target must compute, to the bit, as the interpreter does: operations in programs of their own, built
//! and run as the target says. `exceptions` has what is special about a target.

mod bench;
mod elements;
mod exceptions;
mod floats;
mod gradients;
mod loops;
mod narrow_loops;
mod networks;
mod packed;
mod parts;
mod products;
mod quantized;
mod scalars;
mod shapes;
mod sizes;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use exceptions::{Build, Suite};
use trainc_driver::targets::TARGETS;
use trainc_driver::verify::VerifyOptions;
use trainc_ir::OpKind;
use trainc_ir::target::Target;
use trainc_tests::cases::{self, Case, GraphCase, Place};

/// Cases of one program: one translation unit that takes seconds.
const PROGRAM: usize = 100;

/// A folder for what a test builds, for those who look into a failure.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// The variable of the environment with what names of operations begin with, to ask those alone.
const OPERATIONS: &str = "TRAINC_OPERATIONS";

/// A variable of the environment.
const ONE_TARGET: &str = "TRAINC_TARGET";

/// Every registered target; for those who work on one, that which [`ONE_TARGET`] names.
fn targets() -> Vec<&'static dyn Target> {
    let named = std::env::var(ONE_TARGET).ok();
    let chosen = |target: &&&dyn Target| {
        named.as_ref().is_none_or(|name| *name == target.description().name)
    };
    let targets: Vec<&dyn Target> = TARGETS.iter().filter(chosen).copied().collect();
    assert!(!targets.is_empty(), "{ONE_TARGET} names no target: {named:?}");
    targets
}

/// A case of a program.
#[derive(Clone, Copy)]
enum Placed<'c> {
    Operation(&'c Case, Place),
    Graph(&'c GraphCase),
}

impl Placed<'_> {
    fn graph(&self) -> GraphCase {
        match self {
            Placed::Operation(case, place) => case.placed(*place),
            Placed::Graph(case) => GraphCase::clone(case),
        }
    }

    /// What it is, for those who look into a failure.
    fn shown(&self) -> String {
        match self {
            Placed::Operation(case, place) => format!("{}, {place:?}", loops::shown(case)),
            Placed::Graph(case) => case.what.clone(),
        }
    }
}

/// A program of cases for a target, and a way to build and run it.
struct Job<'c> {
    target: &'static dyn Target,
    build: Build,
    part: usize,
    cases: Vec<Placed<'c>>,
}

impl Job<'_> {
    /// What is wrong with it.
    fn failures(&self, test: &str) -> Vec<String> {
        let name = self.target.description().name;
        let what = format!("{test}-{name}-{}-{}", self.build.name, self.part);
        // What is built stays for those who look at one target.
        let keep = std::env::var_os(ONE_TARGET).map(|_| folder(&what));
        let options = VerifyOptions { keep, ..self.build.options() };
        let graphs: Vec<GraphCase> = self.cases.iter().map(Placed::graph).collect();
        let report = match cases::run(self.target, &graphs, &options) {
            Ok(report) => report,
            Err(error) => {
                let named = |n: usize| error.contains(&format!("case_{n}:"));
                let case = (0..self.cases.len()).find(|n| named(*n));
                let case = case.map(|n| self.cases[n].shown());
                return vec![format!("{what}: {error}, {}", case.unwrap_or_default())];
            }
        };
        let finding = |finding: &trainc_driver::verify::Finding| {
            let number = finding.entry.strip_prefix("case_").and_then(|n| n.parse::<usize>().ok());
            let case = number.and_then(|n| self.cases.get(n)).map(Placed::shown);
            format!("{what}: {}: {finding}", case.unwrap_or_default())
        };
        report.findings.iter().map(finding).collect()
    }
}

/// Runs operations on every target.
fn conform(suite: Suite, all: &[Case]) {
    run(suite, all.len(), |n, target| {
        let case = &all[n];
        // The caller's memory is not aligned, and need not be what kernels would like.
        let caller = match suite {
            Suite::Operations | Suite::Sizes => n % 2 == 0,
            Suite::Shapes => false,
            _ => n % 4 == 0,
        };
        let place = if caller { Place::Caller } else { Place::Arena };
        (!exceptions::has_no_form(target, case)).then_some(Placed::Operation(case, place))
    });
}

/// Runs graphs on every target.
fn conform_graphs(suite: Suite, all: &[GraphCase]) {
    run(suite, all.len(), |n, _| Some(Placed::Graph(&all[n])));
}

/// Runs cases on every target that has them, as many programs side by side as this machine has processors.
fn run<'c>(suite: Suite, count: usize, case: impl Fn(usize, &str) -> Option<Placed<'c>>) {
    let mut jobs = Vec::new();
    for target in targets() {
        let name = target.description().name;
        let every = exceptions::every(name, suite);
        let chosen: Vec<Placed<'c>> = (0..count)
            .filter(|n| every.is_some_and(|every| n % every == 0))
            .filter_map(|n| case(n, name))
            .collect();
        for build in exceptions::builds(name, Some(suite)) {
            let own = chosen.iter().enumerate().filter(|(n, _)| build.takes(*n));
            let cases: Vec<Placed<'c>> = own.map(|(_, placed)| *placed).collect();
            for (part, cases) in cases.chunks(PROGRAM).enumerate() {
                jobs.push(Job { target, build: build.clone(), part, cases: cases.to_vec() });
            }
        }
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    on_all_processors(jobs.len(), |n| jobs[n].failures(test));
}

/// Something for each of a list on each target.
fn side_by_side<T: Sync>(
    all: &[T],
    failures: impl Fn(usize, &T, &'static dyn Target) -> Vec<String> + Sync,
) {
    let targets = targets();
    on_all_processors(all.len() * targets.len(), |n| {
        let number = n % all.len();
        failures(number, &all[number], targets[n / all.len()])
    });
}

/// Runs jobs by their numbers, as many at a time as this machine has processors.
///
/// # Panics
/// With what they say is wrong.
fn on_all_processors(jobs: usize, run: impl Fn(usize) -> Vec<String> + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        break;
                    }
                    let found = run(job);
                    failures.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    let shown: String = failures.iter().take(30).map(|failure| format!("\n{failure}")).collect();
    assert!(failures.is_empty(), "{} failures{shown}", failures.len());
}

/// Every case of every operation, or of those whose names begin as [`OPERATIONS`] says.
#[test]
fn operations() {
    let mut all = Vec::new();
    let wanted = std::env::var(OPERATIONS).unwrap_or_default();
    for &kind in OpKind::ALL.iter().filter(|kind| kind.name().starts_with(&wanted)) {
        let cases = kind.cases();
        assert!(!cases.is_empty(), "{}: no case", kind.name());
        for (n, case) in cases.into_iter().enumerate() {
            let what = format!("{} case {n}", kind.name());
            all.push(Case { what, op: case.op, inputs: case.inputs, constant: false });
        }
    }
    assert!(!all.is_empty(), "no operation's name begins with `{wanted}`");
    conform(Suite::Operations, &all);
}

#[test]
fn gradients_of_operations() {
    conform_graphs(Suite::Operations, &gradients::all());
}

#[test]
fn random_loops() {
    conform(Suite::Loops, &loops::all());
}

#[test]
fn narrow_loops() {
    conform(Suite::Sizes, &narrow_loops::all());
}

#[test]
fn scalar_operations() {
    conform(Suite::Operations, &scalars::all());
}

#[test]
fn sizes_around_vectors() {
    conform(Suite::Sizes, &sizes::all());
}

#[test]
fn products_and_what_follows() {
    conform(Suite::Products, &products::all());
}

#[test]
fn products_of_floats() {
    conform(Suite::Floats, &floats::all());
}

#[test]
fn shapes_of_convolutions() {
    conform(Suite::Shapes, &shapes::convolutions());
}

#[test]
fn shapes_of_depthwise_convolutions() {
    conform(Suite::Shapes, &shapes::depthwise());
}

#[test]
fn shapes_of_pools() {
    conform(Suite::Shapes, &shapes::pools());
}

#[test]
fn depthwise_products() {
    conform(Suite::Products, &sizes::depthwise());
}

#[test]
fn elements_of_a_step() {
    conform(Suite::Sizes, &elements::all());
}

#[test]
fn long_tensors() {
    conform(Suite::Sizes, &elements::long());
}

#[test]
fn quantized_convolutions() {
    conform(Suite::Quantized, &quantized::convolutions());
}

#[test]
fn quantized_layers_that_do_not_fit() {
    conform(Suite::Large, &quantized::large());
}

#[test]
fn quantized_pools_and_additions() {
    conform(Suite::Quantized, &quantized::pools_and_additions());
}
