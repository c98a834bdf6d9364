//! An entry of a program on a device: built as its target says, run on operands one after another.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use trainc_ir::harness::{Runner, Streams};
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::tensor_bytes::{tensor_bytes, tensor_from_bytes};
use trainc_ir::{Tensor, TensorType, Verified};

/// A compiler for this machine in the place of RISC-V's, as a shell script: it drops what is for the other one.
pub const NATIVE: &str = r#"for argument; do
    shift
    case $argument in
    -march=* | -mabi=* | -misa-spec=* | -nostartfiles | -nolibc | -static | -fno-builtin) ;;
    -Wl,* | -DTRAINC_XPULP_INSN | */start.S | */memory.c | */streams.c) ;;
    # The folder's own `stdio.h` is for the other machine, too.
    -I) set -- "$@" -iquote ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec gcc -fsanitize=undefined,address -fno-sanitize-recover=all "$@"
"#;

/// Commands in the place of a target's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tools {
    /// A compiler with its first arguments; the target's flags follow.
    pub compiler: Option<Vec<String>>,
    /// An emulator.
    pub runner: Option<String>,
}

/// Runs a program that is named `net` and has no state: results for each of the operands.
///
/// # Panics
/// If it cannot be built or run.
pub fn run(
    folder: &Path,
    (program, target): (&Verified<Program>, &dyn Target),
    tools: &Tools,
    operands: &[Vec<Tensor>],
) -> Vec<Vec<Tensor>> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("a folder for the test");
    let write = |name: &str, contents: &[u8]| {
        std::fs::write(folder.join(name), contents).expect("a file is written");
    };
    for file in target.emit(program).expect("emits") {
        write(&file.name, &file.contents);
    }
    let harness = target.harness(program).expect("a harness").expect("the target is run here");
    harness.support.iter().for_each(|(name, text)| write(name, text.as_bytes()));
    let entry = &program.entries[0];
    let inputs = entry.inputs.iter().map(|a| &program.buffer(a.buffer).ty);
    let outputs: Vec<&TensorType> =
        entry.outputs.iter().map(|a| &program.buffer(a.buffer).ty).collect();
    let bytes = |ty: &TensorType| tensor_bytes(&Tensor::zeros(ty)).len();
    let of_inputs: Vec<usize> = inputs.map(bytes).collect();
    let of_outputs: Vec<usize> = outputs.iter().map(|ty| bytes(ty)).collect();
    write(
        "main.c",
        source(
            &harness.header,
            &harness.functions[0].symbol,
            operands.len(),
            [&of_inputs, &of_outputs],
        )
        .as_bytes(),
    );

    let toolchain = target.toolchain().expect("the target is built here");
    let compiler = &toolchain.compilers[0];
    let own = vec![compiler.command.clone()];
    let command = tools.compiler.as_ref().unwrap_or(&own);
    let sources = harness.support.iter().map(|(name, _)| name).chain(&harness.sources);
    let sources = sources.filter(|name| !name.ends_with(".h")).map(|name| format!("./{name}"));
    let built = Command::new(&command[0])
        .current_dir(folder)
        .args(&command[1..])
        .args(&compiler.arguments)
        .args(["-I", ".", "main.c"])
        .args(sources)
        .args(["-o", "net"])
        .output()
        .expect("the compiler starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let sent: Vec<u8> = operands.iter().flatten().flat_map(tensor_bytes).collect();
    let output = output(&folder.join("net"), (&toolchain.runner, tools.runner.as_deref()), sent);
    let mut rest = &output[..];
    let mut results = Vec::new();
    for _ in operands {
        let one = outputs.iter().zip(&of_outputs).map(|(ty, &count)| {
            let (own, others) = rest.split_at(count);
            rest = others;
            tensor_from_bytes(ty, own).expect("a result")
        });
        results.push(one.collect());
    }
    assert!(rest.is_empty(), "the program says more than its results");
    results
}

/// What an executable writes, run as a target says or by another command.
fn output(executable: &Path, (runner, named): (&Runner, Option<&str>), sent: Vec<u8>) -> Vec<u8> {
    let mut command = match (named, runner) {
        (Some(named), _) => Command::new(named),
        (None, Runner::Native) => Command::new("env"),
        (None, Runner::Emulator(tools)) => {
            let mut command = Command::new(&tools[0].command);
            command.args(&tools[0].arguments);
            command
        }
        (None, Runner::Simulator(simulator)) => {
            let written = executable.with_extension("output");
            let output = std::fs::File::create(&written).expect("a file");
            let program = std::fs::read(executable).expect("an executable");
            let streams = Streams {
                input: Box::new(std::io::Cursor::new(sent)),
                output: Box::new(output),
                errors: Box::new(std::io::stderr()),
            };
            simulator.run(&program, streams).expect("the program ends");
            return std::fs::read(written).expect("what it wrote");
        }
    };
    let mut child = command
        .arg(executable)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("no panic").expect("the program reads all");
    assert!(output.status.success(), "{}", output.status);
    output.stdout
}

/// The C around the entry: operands from standard input, results to standard output.
fn source(header: &str, symbol: &str, rounds: usize, [inputs, outputs]: [&[usize]; 2]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("#include <stdio.h>\n#include \"{header}\"\n#include \"trainc_rt.h\"\n");
    let all = inputs.iter().enumerate().map(|(i, bytes)| (format!("x{i}"), *bytes));
    let all: Vec<(String, usize)> =
        all.chain(outputs.iter().enumerate().map(|(i, bytes)| (format!("y{i}"), *bytes))).collect();
    for (name, bytes) in &all {
        let _ = writeln!(text, "static TRAINC_ALIGNED(128) unsigned char {name}[{bytes}];");
    }
    let _ = writeln!(text, "static TRAINC_ALIGNED(128) unsigned char arena[NET_ARENA_BYTES + 1];");
    let _ = writeln!(text, "int main(void)\n{{\n    for (int i = 0; i < {rounds}; i++) {{");
    for (name, bytes) in &all[..inputs.len()] {
        let _ = writeln!(
            text,
            "        if (fread({name}, 1, {bytes}, stdin) != {bytes}) {{\n            return 9;\n        }}"
        );
    }
    let arguments: Vec<String> = all.iter().map(|(name, _)| format!("(void *){name}")).collect();
    let _ = writeln!(text, "        {symbol}(arena, 0, {});", arguments.join(", "));
    for (name, bytes) in &all[inputs.len()..] {
        let _ = writeln!(text, "        fwrite({name}, 1, {bytes}, stdout);");
    }
    text.push_str("    }\n    return fflush(stdout);\n}\n");
    text
}
