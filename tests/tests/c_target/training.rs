//! Whole training programs against the interpreter, bit for bit: outputs and state of each step.

use std::fmt::Write as _;

use trainc_ir::graph::InputRole;
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::Target;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor};

use crate::parallel::{REVERSED, THREADS_FLAGS, THREADS_HEADER, THREADS_SOURCE};
use crate::support::{
    Random, SANITIZED, SEED, STRICT, cc, compile, execute, folder, operand, program, text,
    undefined, write, write_all,
};

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
    let readme = text(&files, "README.md");
    let command = readme.lines().find_map(|l| l.strip_prefix("    cc ")).expect("a command");
    cc(&folder, &command.split(' ').collect::<Vec<_>>());
    compile("clang", &folder, &[STRICT, &["-O1", "-c"], &sources].concat());
    cc(&folder, &[STRICT, &["-O2", "-c"], &sources].concat());
    let objects = sources.map(|s| s.replace(".c", ".o"));
    cc(&folder, &["-r", "-nostdlib", "-o", "all.o", &objects[0], &objects[1], &objects[2]]);
    for symbol in undefined(&folder, "all.o") {
        assert!(["memcpy", "memset", "memmove"].contains(&&*symbol), "{symbol} is undefined");
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
    let mut bodies = String::new();
    for entry in &program.entries {
        let mut arguments = vec!["arena".to_string(), "state".to_string()];
        let header = files[0].contents.clone();
        let header = String::from_utf8(header).expect("text");
        let prototype = format!("void {prefix}_{}(", entry.name);
        let prototype = header.split(&prototype).nth(1).expect("the entry is declared");
        let prototype = prototype.split(';').next().unwrap_or_default();
        if prototype.contains("uint64_t seed") {
            arguments.extend([format!("UINT64_C({SEED})"), "step".into()]);
        }
        let mut results = String::new();
        for (i, argument) in entry.inputs.iter().enumerate() {
            let ty = &program.buffer(argument.buffer).ty;
            let (c, name) = (trainc_c::element_type(ty.element), format!("{}_i{i}", entry.name));
            let _ = writeln!(bodies, "        static {c} {name}[{}];", ty.count());
            let _ = writeln!(bodies, "        in({name}, sizeof {name});");
            let rate = argument.role == InputRole::LearningRate;
            arguments.push(if rate { format!("{name}[0]") } else { name });
        }
        for (i, argument) in entry.outputs.iter().enumerate() {
            let ty = &program.buffer(argument.buffer).ty;
            let (c, name) = (trainc_c::element_type(ty.element), format!("{}_o{i}", entry.name));
            let _ = writeln!(bodies, "        static {c} {name}[{}];", ty.count());
            let _ = writeln!(results, "        out({name}, sizeof {name});");
            arguments.push(name);
        }
        let _ = writeln!(bodies, "        memset(arena, 0xa5, sizeof arena);");
        let _ = writeln!(bodies, "        {prefix}_{}({});", entry.name, arguments.join(", "));
        bodies.push_str(&results);
    }
    let _ = write!(main, "{bodies}        out(state, sizeof state);\n    }}\n    return 0;\n}}\n");
    write(&folder, "main.c", main);
    write(&folder, "reversed.h", REVERSED);
    write(&folder, "threads.h", THREADS_HEADER);
    write(&folder, "threads.c", THREADS_SOURCE);
    let warnings = ["-Wall", "-Wextra", "-Werror"];
    let builds: [(&str, &[&str]); 4] = [
        ("sanitized", &[SANITIZED, &warnings].concat()),
        ("optimised", &["-O3"]),
        ("reversed", &["-O1", "-DTRAINC_HOOKS=\"reversed.h\""]),
        ("threads", THREADS_FLAGS),
    ];
    for (name, flags) in builds {
        let own: &[&str] = if name == "threads" { &["main.c", "threads.c"] } else { &["main.c"] };
        let end = ["-o", name];
        cc(&folder, &[&["-std=c11", "-ffp-contract=off"], flags, own, &sources, &end].concat());
    }

    let mut reference = ProgramInterpreter::new(&program);
    let mut random = Random(SEED);
    let (mut input, mut expected, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut changed = false;
    for step in 0..steps {
        let run = RunContext { seed: SEED, step };
        for entry in &program.entries {
            let operands: Vec<Tensor> = entry
                .inputs
                .iter()
                .map(|a| operand(&program.buffer(a.buffer).ty, a.role, 10, &mut random))
                .collect();
            operands.iter().for_each(|t| input.extend(tensor_bytes(t)));
            let results = reference.run(&entry.name, &operands, &run).expect("the entry runs");
            for (argument, tensor) in entry.outputs.iter().zip(&results) {
                expected.extend(tensor_bytes(tensor));
                ends.push((expected.len(), format!("step {step}: {}", argument.name)));
            }
        }
        // The state as it lies in memory, from its tensors.
        let mut state = vec![0u8; program.memory.state_bytes];
        for (buffer, (_, tensor)) in program.state().into_iter().zip(reference.state()) {
            let bytes = tensor_bytes(&tensor);
            assert_eq!(bytes.len(), buffer.bytes());
            state[buffer.offset..buffer.offset + bytes.len()].copy_from_slice(&bytes);
            ends.push((
                expected.len() + buffer.offset + bytes.len(),
                format!("step {step}: {}", buffer.name),
            ));
        }
        ends.push((expected.len() + state.len(), format!("step {step}: the state's padding")));
        changed |= step > 0 && !expected.ends_with(&state);
        expected.extend(state);
    }
    assert!(changed, "training changes the state");
    for (executable, _) in builds {
        let found = execute(&folder, executable, &input);
        assert_eq!(found.len(), expected.len(), "{executable}");
        if let Some(at) = found.iter().zip(&expected).position(|(a, b)| a != b) {
            let place = ends.iter().find(|(end, _)| at < *end).map(|(_, name)| name.as_str());
            panic!("{model}, {executable}: byte {at} differs, in {}", place.unwrap_or("?"));
        }
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

/// The same program gives the same bytes.
#[test]
fn emission_is_deterministic() {
    let emit = || trainc_c::C.emit(&program("digits", "niti", 2)).expect("emitted");
    assert_eq!(emit(), emit());
}
