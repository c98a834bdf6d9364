//! Folders, the C compiler, programs and operands of these tests.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::graph::InputRole;
use trainc_ir::program::Program;
use trainc_ir::target::ArtifactFile;
use trainc_ir::verify::Stage;
use trainc_ir::{Element, Tensor, TensorType};
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::inference::inference_graph;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};

/// What emitted code must compile with.
pub(crate) const STRICT: &[&str] = &[
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
    "-ffreestanding",
    "-ffp-contract=off",
];

pub(crate) const SANITIZED: &[&str] =
    &["-O1", "-g0", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"];

pub(crate) const SEED: u64 = 0x0123_4567_89ab_cdef;

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_target").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

pub(crate) fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), contents).expect("the file is written");
}

pub(crate) fn write_all(folder: &Path, files: &[ArtifactFile]) {
    files.iter().for_each(|file| write(folder, &file.name, &file.contents));
}

/// Runs the C compiler in a folder.
pub(crate) fn cc(folder: &Path, arguments: &[&str]) {
    compile("cc", folder, arguments);
}

/// Runs a compiler in a folder.
pub(crate) fn compile(compiler: &str, folder: &Path, arguments: &[&str]) {
    let output =
        Command::new(compiler).args(arguments).current_dir(folder).output().unwrap_or_else(|e| {
            panic!("these tests need `{compiler}` (Debian: gcc, clang, gcc-aarch64-linux-gnu, gcc-arm-linux-gnueabihf): {e}")
        });
    assert!(
        output.status.success(),
        "{compiler} {} in {}:\n{}",
        arguments.join(" "),
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Symbols of an object that it does not define.
pub(crate) fn undefined(folder: &Path, object: &str) -> Vec<String> {
    let output = Command::new("nm").args(["-u", object]).current_dir(folder).output();
    let output = output.expect("`nm` comes with the compiler");
    assert!(output.status.success(), "nm -u {object}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().filter(|word| *word != "U").map(str::to_string).collect()
}

/// The text of an emitted file.
pub(crate) fn text(files: &[ArtifactFile], name: &str) -> String {
    let file = files.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(file.contents.clone()).expect("text")
}

/// Runs a program of a folder on some bytes.
pub(crate) fn execute(folder: &Path, program: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(folder.join(program))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    let _ = writer.join();
    assert!(
        output.status.success(),
        "{program}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(2000)]),
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

pub(crate) fn runtime(folder: &Path) {
    write(folder, "trainc_rt.h", trainc_c::RUNTIME_HEADER);
    write(folder, "trainc_rt.c", trainc_c::RUNTIME_SOURCE);
}

/// A small generator of test data (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Training and inference of a zoo model for this target.
pub(crate) fn program(model: &str, algorithm: &str, batch: usize) -> Program {
    let spec = ZooSpec::new(model).expect("a model of the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("no external data".into()), &options);
    let algorithm = Algorithm::built_in(algorithm).expect("a built-in algorithm");
    let forward = remove_operations(&imported.expect("imports").graph, &algorithm.remove);
    let training = training_graph(&forward, None).expect("trains");
    let inference = inference_graph(&forward).expect("infers");
    let stage = Stage::Quantized { float_operations: algorithm.float_operations.clone() };
    let [step, infer] = [&training, &inference].map(|graph| {
        let (module, _) = translate(graph, &algorithm).expect("translates");
        optimise(&module, &stage, &trainc_c::C, &OptimiseOptions::default()).expect("optimises").0
    });
    let entries = [
        PlanEntry { name: "train_step", graph: &step },
        PlanEntry { name: "infer", graph: &infer },
    ];
    plan(model, &entries, &trainc_c::C, &PlanOptions::default()).expect("plans").0
}

pub(crate) fn operand(
    ty: &TensorType,
    role: InputRole,
    classes: usize,
    random: &mut Random,
) -> Tensor {
    let mut draw = |n: usize| (random.next() >> 33) as usize % n;
    match (role, ty.element) {
        (InputRole::Labels, _) => {
            let labels = (0..ty.count()).map(|_| draw(classes) as i32).collect();
            Tensor::i32(ty.shape.clone(), labels)
        }
        (InputRole::LearningRate, Element::I32) => Tensor::i32(ty.shape.clone(), vec![3]),
        (InputRole::LearningRate, _) => Tensor::f32(ty.shape.clone(), vec![0.05]),
        (InputRole::Data, _) => {
            let pixels = (0..ty.count()).map(|_| draw(4096) as f32 / 2048.0 - 1.0).collect();
            Tensor::f32(ty.shape.clone(), pixels)
        }
    }
}
