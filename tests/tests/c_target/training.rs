//! A training program as its README builds it, stricter, on threads, with divided loops backwards: outputs and state of each
//! step against the interpreter.

use std::fmt::Write as _;

use trainc_ir::target::Target;
use trainc_tests::programs::Session;

use crate::parallel::{REVERSED, THREADS_FLAGS, THREADS_HEADER, THREADS_SOURCE};
use crate::support::{
    SANITIZED, STRICT, cc, compile, execute, folder, program, text, undefined, write, write_all,
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
    let session = Session::new(&program, &files, steps);
    let _ = write!(
        main,
        "{}        out(state, sizeof state);\n    }}\n    return 0;\n}}\n",
        session.calls
    );
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

    for (executable, _) in builds {
        let found = execute(&folder, executable, &session.input);
        session.check(&format!("{model}, {executable}"), &found);
    }
}

#[test]
fn digits_trains() {
    trains("digits", "niti", 4, 5);
}

/// The same program gives the same bytes.
#[test]
fn emission_is_deterministic() {
    let emit = || trainc_c::C.emit(&program("digits", "niti", 2)).expect("emitted");
    assert_eq!(emit(), emit());
}
