//! The C target: every operation, whole training programs, the runtime and checkpoints, compiled by `cc` under its
//! strictest warnings and run under its sanitizers, against the reference interpreter, bit for bit.

mod random;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::graph::InputRole;
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::ops::{Dropout, Relu, SaturatingSubtract};
use trainc_ir::program::{
    Argument, Buffer, BufferId, DeviceId, Entry, Kernel, KernelId, Launch, MemoryPlan, Program,
    Region, Step,
};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::{ArtifactFile, Cost, Target, loop_scratch};
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::verify::Stage;
use trainc_ir::{Data, Element, Op, OpKind, RunContext, Tensor, TensorType};
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::inference::inference_graph;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};
use trainc_tests::programs::{SEED, Session};
use trainc_tests::random::Random;

/// What emitted code must compile with.
const STRICT: &[&str] = &[
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-ffreestanding",
    "-ffp-contract=off",
];
const SANITIZED: &[&str] =
    &["-O1", "-g0", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"];

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_target").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), contents).expect("the file is written");
}

fn write_all(folder: &Path, files: &[ArtifactFile]) {
    files.iter().for_each(|file| write(folder, &file.name, &file.contents));
}

/// Runs the C compiler in a folder.
fn cc(folder: &Path, arguments: &[&str]) {
    let output = Command::new("cc")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("these tests need a C compiler, `cc` (Debian: gcc): {e}"));
    assert!(
        output.status.success(),
        "cc {} in {}:\n{}",
        arguments.join(" "),
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a program of a folder on some bytes.
fn execute(folder: &Path, program: &str, input: &[u8]) -> Vec<u8> {
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

fn runtime(folder: &Path) {
    write(folder, "trainc_rt.h", trainc_c::RUNTIME_HEADER);
    write(folder, "trainc_rt.c", trainc_c::RUNTIME_SOURCE);
}

/// Elements as loop kernels hold them: one a byte where they are narrower.
fn element_bytes(data: &Data) -> Vec<u8> {
    match data {
        Data::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::I8(v) => v.iter().map(|&x| x as u8).collect(),
        Data::I16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::U8(v) => v.clone(),
        Data::U16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::U32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn array(bytes: &[u8]) -> String {
    let mut text = String::from("{");
    bytes.iter().for_each(|b| _ = write!(text, "{b},"));
    // An empty initialiser is not C.
    text.push_str(if bytes.is_empty() { "0}" } else { "}" });
    text
}

/// The start of a program of cases. Buffers are allocated one by one, so that the sanitizer sees each access out of
/// bounds, and filled with what a kernel must not rely on.
const CASES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trainc_rt.h"

static void *filled(size_t bytes, const unsigned char *from)
{
    void *place = malloc(bytes);
    if (from != NULL) {
        memcpy(place, from, bytes);
    } else {
        memset(place, 0xa5, bytes);
    }
    return place;
}

static int failures;

static void compare(const char *what, const void *found, const unsigned char *expected, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)found)[i] != expected[i]) {
            printf("%s: byte %zu of %zu is %d, expected %d\n", what, i, bytes,
                ((const unsigned char *)found)[i], expected[i]);
            failures++;
            return;
        }
    }
}
"#;

/// A function that runs one case of an operation, and its kernel; `n` makes names unique.
fn case_source(n: usize, kind: OpKind, case: &trainc_ir::ops::Case, run: &RunContext) -> String {
    let operands: Vec<&Tensor> = case.inputs.iter().collect();
    let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
    let results = case.op.infer(&types).expect("a case types");
    let meaning = case.op.evaluate(&operands, run);
    let kernel = case.op.lower(&types, &results.iter().collect::<Vec<_>>());
    kernel_source(n, kind.name(), &kernel, &operands, &meaning, run)
}

/// A kernel, and a function that runs it and compares its results.
fn kernel_source(
    n: usize,
    what: &str,
    kernel: &LoopKernel,
    operands: &[&Tensor],
    meaning: &[Tensor],
    run: &RunContext,
) -> String {
    let name = format!("kernel_{n}");
    let mut out = trainc_c::function(&name, kernel).expect("the kernel prints");
    let _ = writeln!(out, "static void case_{n}(void)\n{{");
    let (mut arguments, mut checks, mut frees) = (Vec::new(), String::new(), String::new());
    let words = [run.seed as u32, (run.seed >> 32) as u32, run.step];
    for (i, b) in kernel.buffers.iter().enumerate() {
        let ty = trainc_c::element_type(b.element);
        let size = b.count * (b.element.bits() as usize).div_ceil(8);
        let mut check = |bytes: &[u8]| {
            assert_eq!(bytes.len(), size, "{what} {}", b.name);
            let _ = writeln!(checks, "    static const unsigned char e{i}[] = {};", array(bytes));
            let _ = writeln!(
                checks,
                "    compare(\"{what} case {n}: {}\", b{i}, e{i}, {size});",
                b.name
            );
        };
        let from = match b.role {
            Role::Input(k) => Some(element_bytes(operands[k].data())),
            Role::InputScale(k) => Some(operands[k].exponent().to_le_bytes().to_vec()),
            Role::RunContext => Some(words.iter().flat_map(|w| w.to_le_bytes()).collect()),
            Role::Output(k) => {
                check(&element_bytes(meaning[k].data()));
                None
            }
            Role::OutputScale(k) => {
                check(&meaning[k].exponent().to_le_bytes());
                None
            }
            Role::Scratch => continue,
        };
        let from = match from {
            Some(bytes) => {
                let _ = writeln!(out, "    static const unsigned char d{i}[] = {};", array(&bytes));
                format!("d{i}")
            }
            None => "NULL".into(),
        };
        let _ = writeln!(out, "    {ty} *b{i} = filled({size}, {from});");
        let _ = writeln!(frees, "    free(b{i});");
        arguments.push(format!("b{i}"));
    }
    if kernel.buffers.iter().any(|b| b.role == Role::Scratch) {
        let bytes = loop_scratch(kernel).1;
        let _ = writeln!(out, "    uint8_t *scratch = filled({bytes}, NULL);");
        frees.push_str("    free(scratch);\n");
        arguments.push("scratch".into());
    }
    let _ = writeln!(out, "    {name}({});\n{checks}{frees}}}\n", arguments.join(", "));
    out
}

/// Every case of every operation, in two programs.
#[test]
fn every_operation() {
    let run = RunContext { seed: 0x1234_5678_9abc_def0, step: 3 };
    let cases: Vec<_> = OpKind::ALL
        .iter()
        .flat_map(|&kind| kind.cases().into_iter().map(move |c| (kind, c)))
        .collect();
    assert!(cases.len() > OpKind::ALL.len());
    let folder = folder("operations");
    runtime(&folder);
    let programs = ["first", "second"];
    for (part, name) in programs.iter().enumerate() {
        let mut source = CASES.to_string();
        let mut main = String::from("int main(void)\n{\n");
        for (n, (kind, case)) in cases.iter().enumerate().filter(|(n, _)| n % 2 == part) {
            source.push_str(&case_source(n, *kind, case, &run));
            let _ = writeln!(main, "    case_{n}();");
        }
        let _ = write!(source, "{main}    return failures != 0;\n}}\n");
        write(&folder, &format!("{name}.c"), source);
    }
    std::thread::scope(|scope| {
        for name in programs {
            let folder = &folder;
            scope.spawn(move || {
                let source = format!("{name}.c");
                // The cases themselves use a hosted library.
                let strict = STRICT.iter().copied().filter(|f| *f != "-ffreestanding");
                let mut flags: Vec<&str> = strict.chain(SANITIZED.iter().copied()).collect();
                flags.extend([&source, "trainc_rt.c", "-o", name]);
                cc(folder, &flags);
                execute(folder, name, &[]);
            });
        }
    });
}

/// The runtime's float functions against this machine's, at all exponents and fractions near halves.
#[test]
fn float_functions() {
    let folder = folder("floats");
    runtime(&folder);
    write(
        &folder,
        "main.c",
        r#"
#include <stdio.h>
#include "trainc_rt.h"
int main(void)
{
    int32_t in;
    while (fread(&in, 4, 1, stdin) == 1) {
        float x = trainc_float(in);
        int32_t out[6] = { trainc_bits(trainc_round(x)), trainc_bits(trainc_floor(x)),
            trainc_bits(trainc_ceil(x)), trainc_bits(trainc_sqrt(x)), trainc_to_integer(x),
            trainc_leading_zeros(in) };
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"#,
    );
    let mut flags = vec!["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror"];
    flags.extend(SANITIZED);
    cc(&folder, &[&flags[..], &["main.c", "trainc_rt.c", "-o", "floats"]].concat());
    let mut random = Random(9);
    let mut bits: Vec<u32> = (0..100_000).map(|_| (random.next() >> 32) as u32).collect();
    for exponent in 0..256u32 {
        for fraction in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
            bits.extend([0, 1u32 << 31].map(|sign| sign | exponent << 23 | fraction));
        }
    }
    bits.extend((-4096..4096).map(|i| (i as f32 / 16.0).to_bits()));
    bits.extend((0..24).map(|i| 1 << i));
    let input: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let output = execute(&folder, "floats", &input);
    assert_eq!(output.len(), 6 * input.len());
    for (&bits, out) in bits.iter().zip(output.as_chunks::<24>().0) {
        let found: Vec<u32> =
            out.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
        let x = f32::from_bits(bits);
        let expected = [x.round_ties_even(), x.floor(), x.ceil(), x.sqrt()];
        for (what, (found, expected)) in
            ["round", "floor", "ceil", "sqrt"].iter().zip(found.iter().zip(expected))
        {
            let same = *found == expected.to_bits()
                || (f32::from_bits(*found).is_nan() && expected.is_nan());
            assert!(
                same,
                "{what} of {x} ({bits:#x}): {found:#x}, expected {:#x}",
                expected.to_bits()
            );
        }
        assert_eq!(found[4] as i32, x as i32, "to integer, {x}");
        assert_eq!(found[5], bits.leading_zeros(), "leading zeros, {bits:#x}");
    }
}

/// Training and inference of a zoo model for this target.
fn program(model: &str, algorithm: &str, batch: usize) -> Program {
    trainc_tests::programs::program(model, algorithm, batch, &trainc_c::C)
}

/// Size of a batch, number of steps, sanitized or not.
fn trains(model: &str, algorithm: &str, batch: usize, steps: u32) {
    let program = program(model, algorithm, batch);
    let folder = folder(&format!("{model}_{algorithm}"));
    let files = trainc_c::C.emit(&program).expect("the program is emitted");
    write_all(&folder, &files);
    // The command of the README, as it is and stricter; nothing but the compiler's own helpers may be undefined.
    let prefix = &program.name;
    let (source, data) = (format!("{prefix}.c"), format!("{prefix}_data.c"));
    let sources = [source.as_str(), &data, "trainc_rt.c"];
    let readme = files.iter().find(|f| f.name == "README.md").expect("a README");
    let readme = String::from_utf8(readme.contents.clone()).expect("text");
    let command = readme.lines().find_map(|l| l.strip_prefix("    cc ")).expect("a command");
    cc(&folder, &command.split(' ').collect::<Vec<_>>());
    cc(&folder, &[STRICT, &["-O2", "-c"], &sources].concat());
    let objects = sources.map(|s| s.replace(".c", ".o"));
    cc(&folder, &["-r", "-nostdlib", "-o", "all.o", &objects[0], &objects[1], &objects[2]]);
    let undefined = Command::new("nm").args(["-u", "all.o"]).current_dir(&folder).output();
    let undefined = undefined.expect("`nm` comes with the compiler");
    for symbol in String::from_utf8_lossy(&undefined.stdout).split_whitespace() {
        assert!(["U", "memcpy", "memset", "memmove"].contains(&symbol), "{symbol} is undefined");
    }
    // The program reads the operands of each entry and writes its results, then the state.
    let mut main = format!(
        "#include <stdio.h>\n#include \"{prefix}.h\"\n\
         static _Alignas(16) unsigned char arena[{0}_ARENA_BYTES], state[{0}_STATE_BYTES];\n\
         static void in(void *p, size_t n) {{ if (fread(p, 1, n, stdin) != n) abort(); }}\n\
         static void out(const void *p, size_t n) {{ fwrite(p, 1, n, stdout); }}\n\
         int main(void)\n{{\n    {prefix}_init(state);\n    \
         for (uint32_t step = 0; step < {steps}; step++) {{\n",
        prefix.to_uppercase()
    )
    .replace("#include <stdio.h>", "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>");
    let session = Session::new(&program, &files, steps);
    let bodies = &session.calls;
    let _ = write!(main, "{bodies}        out(state, sizeof state);\n    }}\n    return 0;\n}}\n");
    write(&folder, "main.c", main);
    let mut flags = vec!["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"];
    flags.extend(SANITIZED);
    cc(&folder, &[&flags[..], &["main.c"], &sources, &["-o", "sanitized"]].concat());
    let mut flags = vec!["-std=c11", "-O3", "-ffp-contract=off", "main.c"];
    flags.extend(sources);
    cc(&folder, &[&flags[..], &["-o", "optimised"]].concat());

    for executable in ["sanitized", "optimised"] {
        let found = execute(&folder, executable, &session.input);
        session.check(&format!("{model}, {executable}"), &found);
    }
}

#[test]
fn digits_trains() {
    trains("digits", "niti", 4, 5);
}

#[test]
fn residual_trains() {
    trains("residual", "niti", 2, 5);
}

#[test]
fn lenet_trains() {
    trains("lenet5", "niti", 2, 2);
}

#[test]
fn depthwise_trains() {
    trains("depthwise", "niti", 3, 3);
}

/// Floats all the way.
#[test]
fn digits_trains_in_floats() {
    trains("digits", "fp32", 3, 3);
}

/// What is saved loads again; anything else is refused and changes nothing.
#[test]
fn checkpoints() {
    let program = program("digits", "niti", 1);
    let other = self::program("digits", "fp32", 1);
    let folder = folder("checkpoints");
    write_all(&folder, &trainc_c::C.emit(&program).expect("emitted"));
    // Another model's hash, by its save function.
    let files = trainc_c::C.emit(&other).expect("emitted");
    let source = files.iter().find(|f| f.name == "digits.c").expect("the source");
    let source = String::from_utf8(source.contents.clone()).expect("text");
    let hash = source.split("UINT64_C(").nth(1).and_then(|t| t.split(')').next()).expect("a hash");
    write(
        &folder,
        "main.c",
        format!(
            r#"
#include <stdio.h>
#include <string.h>
#include "digits.h"
#define BYTES DIGITS_CHECKPOINT_BYTES
static _Alignas(16) unsigned char state[DIGITS_STATE_BYTES], first[DIGITS_STATE_BYTES];
static unsigned char checkpoint[BYTES + 1], kept[BYTES];
static int refused(const void *bytes, size_t size, enum trainc_status expected)
{{
    uint64_t step = 77;
    memset(state, 0x5a, sizeof state);
    enum trainc_status status = digits_load(state, &step, bytes, size);
    for (size_t i = 0; i < sizeof state; i++) {{
        if (state[i] != 0x5a) {{
            return 0;
        }}
    }}
    return status == expected && step == 77;
}}
#define CHECK(x) do {{ if (!(x)) {{ printf("line %d: " #x "\n", __LINE__); return 1; }} }} while (0)
int main(void)
{{
    uint64_t step = 0;
    digits_init(first);
    for (size_t i = 0; i < sizeof first; i += 7) {{
        first[i] ^= (unsigned char)i;
    }}
    digits_save(first, UINT64_C(0x123456789a), checkpoint);
    memcpy(kept, checkpoint, BYTES);
    CHECK(digits_load(state, &step, checkpoint, BYTES) == TRAINC_OK);
    CHECK(memcmp(state, first, sizeof state) == 0 && step == UINT64_C(0x123456789a));
    /* The CRC is the common one: that of zlib. */
    fwrite(checkpoint, 1, BYTES, stdout);
    for (size_t size = 0; size < BYTES; size += size < 64 ? 1 : 997) {{
        enum trainc_status why = TRAINC_WRONG_SIZE;
        CHECK(refused(checkpoint, size, why));
    }}
    CHECK(refused(checkpoint, BYTES + 1, TRAINC_WRONG_SIZE));
    for (size_t at = 0; at < BYTES; at += at < 64 ? 1 : 101) {{
        for (int bit = 0; bit < 8; bit++) {{
            checkpoint[at] = (unsigned char)(kept[at] ^ (1 << bit));
            enum trainc_status why = at < 8 ? TRAINC_WRONG_FORMAT : at < 16 ? TRAINC_WRONG_MODEL
                : at >= 24 && at < 28 ? TRAINC_WRONG_SIZE : TRAINC_DAMAGED;
            CHECK(refused(checkpoint, BYTES, why));
        }}
        checkpoint[at] = kept[at];
    }}
    trainc_save(checkpoint, first, DIGITS_STATE_BYTES, UINT64_C({hash}), 1);
    CHECK(refused(checkpoint, BYTES, TRAINC_WRONG_MODEL));
    CHECK(digits_load(state, &step, kept, BYTES) == TRAINC_OK);
    return 0;
}}
"#
        ),
    );
    let mut flags = vec!["-std=c11", "-Wall", "-Wextra", "-Werror"];
    flags.extend(SANITIZED);
    flags.extend(["main.c", "digits.c", "digits_data.c", "trainc_rt.c", "-o", "checkpoints"]);
    cc(&folder, &flags);
    let checkpoint = execute(&folder, "checkpoints", &[]);
    assert_eq!(checkpoint.len(), 32 + program.memory.state_bytes);
    let mut crc = flate2::Crc::new();
    crc.update(&checkpoint[..28]);
    crc.update(&checkpoint[32..]);
    assert_eq!(checkpoint[28..32], crc.sum().to_le_bytes());
    assert_eq!(checkpoint[..8], *b"TRNC\x01\0\0\0");
}

/// A branch, a constant, tensors with exponents as arguments, and random numbers: what the networks above lack.
fn branching() -> Program {
    let ty = TensorType::shared([5], Element::I8);
    let flag = TensorType::new([0usize; 0], Element::I32);
    let buffer = |name: &str, ty: &TensorType, region: Region, offset: usize| Buffer {
        name: name.into(),
        ty: ty.clone(),
        region,
        offset,
    };
    let constant = Arc::new(Tensor::i8_shared([5], vec![100, -100, 3, -4, 0], -2));
    let initial = Arc::new(Tensor::i8_shared([5], vec![0; 5], 0));
    let kernel = |name: &str, op: Op, inputs: usize| Kernel {
        name: name.into(),
        op,
        inputs: vec![ty.clone(); inputs],
        outputs: vec![ty.clone()],
        scratch_bytes: 0,
    };
    let launch = |kernel: usize, inputs: &[usize], output: usize| {
        Step::Launch(Launch {
            kernel: KernelId(kernel),
            device: DeviceId(0),
            inputs: inputs.iter().map(|&i| BufferId(i)).collect(),
            outputs: vec![BufferId(output)],
            scratch: None,
            name: "node */".into(),
        })
    };
    let argument = |name: &str, buffer: usize| Argument {
        name: name.into(),
        buffer: BufferId(buffer),
        role: InputRole::Data,
    };
    let dropout = Dropout { ratio: 0.5f32.into(), stream: 6 };
    Program {
        name: "Branching 1".into(),
        devices: vec!["cpu".into()],
        buffers: vec![
            buffer("x", &ty, Region::Input(0), 0),
            buffer("flag", &flag, Region::Input(1), 0),
            buffer("c", &ty, Region::Constant(constant), 16),
            buffer("t", &ty, Region::Arena, 32),
            buffer("y", &ty, Region::Output(0), 0),
            buffer("int", &ty, Region::State { index: 0, initial }, 0),
        ],
        kernels: vec![
            kernel("difference", SaturatingSubtract {}.into(), 2),
            kernel("dropout", dropout.into(), 1),
            kernel("relu", Relu {}.into(), 1),
        ],
        entries: vec![Entry {
            name: "run".into(),
            inputs: vec![argument("state", 0), argument("double", 1)],
            outputs: vec![argument("state", 4)],
            steps: vec![
                launch(0, &[0, 2], 3),
                Step::Branch {
                    condition: BufferId(1),
                    then: vec![launch(1, &[3], 4)],
                    otherwise: vec![launch(2, &[3], 4)],
                },
                launch(2, &[4], 5),
            ],
        }],
        memory: MemoryPlan {
            arena_bytes: 48,
            arena_lower_bound_bytes: 48,
            state_bytes: 12,
            constant_bytes: 28,
        },
    }
}

#[test]
fn branches_constants_and_exponents() {
    let program = branching();
    let folder = folder("branching");
    let files = trainc_c::C.emit(&program).expect("emitted");
    write_all(&folder, &files);
    write(
        &folder,
        "main.c",
        format!(
            r#"
#include <stdio.h>
#include "branching_1.h"
int main(void)
{{
    static _Alignas(16) unsigned char arena[BRANCHING_1_ARENA_BYTES], state[BRANCHING_1_STATE_BYTES];
    branching_1_init(state);
    for (uint32_t step = 0; step < 4; step++) {{
        branching_1_run_state_2 x = {{ {{ 1, -2, 127, -128, 50 }}, 3 }};
        branching_1_run_state_3 y;
        int32_t flag[1] = {{ (int32_t)(step & 1) }};
        branching_1_run(arena, state, UINT64_C({SEED}), step, &x, flag, &y);
        fwrite(y.elements, 1, sizeof y.elements, stdout);
        fwrite(&y.exponent, 1, sizeof y.exponent, stdout);
        fwrite(state, 1, 5, stdout);
        fwrite(state + 8, 1, 4, stdout);
    }}
    return 0;
}}
"#
        ),
    );
    let sources = ["main.c", "branching_1.c", "branching_1_data.c", "trainc_rt.c"];
    let mut flags = vec!["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"];
    flags.extend(SANITIZED);
    cc(&folder, &[&flags[..], &sources, &["-o", "branching"]].concat());
    let found = execute(&folder, "branching", &[]);
    let mut reference = ProgramInterpreter::new(&program);
    let x = Tensor::i8_shared([5], vec![1, -2, 127, -128, 50], 3);
    let mut expected = Vec::new();
    for step in 0..4 {
        let flag = Tensor::i32([0usize; 0], vec![(step & 1) as i32]);
        let run = RunContext { seed: SEED, step };
        let results = reference.run("run", &[x.clone(), flag], &run).expect("it runs");
        for tensor in [&results[0], &reference.state()[0].1] {
            expected.extend(element_bytes(tensor.data()));
            expected.extend(tensor.exponent().to_le_bytes());
        }
    }
    assert_eq!(found, expected);
}

/// What C cannot express, or a plan that lies, is an error and not a wrong program.
#[test]
fn refusals() {
    let refused = |change: &dyn Fn(&mut Program)| {
        let mut program = branching();
        change(&mut program);
        trainc_c::C.emit(&program).expect_err("refused").to_string()
    };
    let beyond = refused(&|p| p.memory.arena_bytes = 8);
    assert!(beyond.starts_with("target c: "), "{beyond}");
    let clash = refused(&|p| p.entries[0].name = "init".into());
    assert!(clash.contains("`branching_1_init`"), "{clash}");
    let file = refused(&|p| p.name = "trainc_rt".into());
    assert!(file.contains("rename the model"), "{file}");
    let narrow = TensorType::shared([5], Element::I4);
    assert_eq!(trainc_c::C.cost(&Relu {}.into(), &[&narrow], &[&narrow]), Cost::INFEASIBLE);
}

/// The same program gives the same bytes.
#[test]
fn emission_is_deterministic() {
    let emit = || trainc_c::C.emit(&program("digits", "niti", 2)).expect("emitted");
    assert_eq!(emit(), emit());
}
