//! Programs in C: built with the start-up code, executed by the library and by `riscv-run`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use trainc_riscv::{Cluster, Machine, Memory, Trap, toolchain};

/// A built program, removed at the end.
struct Built(PathBuf);

impl Built {
    fn new(name: &str, source: &str) -> Built {
        let folder =
            std::env::temp_dir().join(format!("trainc-riscv-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let input = folder.join("main.c");
        std::fs::write(&input, source).expect("a file");
        toolchain::compile(&[input], &["-O2"], &folder.join("program.elf")).expect("compiles");
        Built(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("program.elf")
    }

    fn machine(&self) -> Machine {
        let mut machine = Machine::new(Memory::default());
        machine.load(&std::fs::read(self.path()).expect("a file")).expect("a program");
        machine
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sums the bytes of its input as 64 bits, divides by a constant of the data section; memory functions and libgcc.
const SUMS: &str = r#"
#include "host.h"
#include <stddef.h>
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);
static uint64_t divisor = 7;
static uint8_t zeros[100], buffer[100], copy[100];
int main(void)
{
    uint64_t sum = 0;
    int32_t got;
    for (int i = 0; i < 100; i++)
        if (zeros[i])
            return 1;
    while ((got = host_read(buffer, sizeof buffer)) > 0)
        for (int i = 0; i < got; i++)
            sum += (uint64_t)buffer[i] << 32;
    memset(buffer, 0xa5, sizeof buffer);
    memcpy(copy + 1, buffer, 99);
    if (memcmp(copy + 1, buffer + 1, 99) || copy[0] || memcmp(copy, buffer, 1) >= 0)
        return 2;
    sum /= divisor;
    host_write(&sum, sizeof sum);
    return 42;
}
"#;

#[test]
fn programs_in_c_run() {
    let built = Built::new("sums", SUMS);
    let input: Vec<u8> = (0..1000u32).map(|i| (i * 37) as u8).collect();
    let meant = input.iter().map(|&byte| u64::from(byte) << 32).sum::<u64>() / 7;
    let mut machine = built.machine();
    machine.set_input(Box::new(std::io::Cursor::new(input.clone())));
    assert_eq!(machine.run(1_000_000).expect("exits").code, 42);
    assert_eq!(machine.output(), meant.to_le_bytes());
    // The same by the command.
    let mut child = Command::new(env!("CARGO_BIN_EXE_riscv-run"))
        .args(["--cycles", "--hart", "3"])
        .arg(built.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("a pipe").write_all(&input).expect("writes");
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), output.stdout), (Some(42), meant.to_le_bytes().to_vec()));
    let counts = format!("total {} {} {}\n", machine.instructions, machine.cycles, machine.cycles);
    assert_eq!(String::from_utf8_lossy(&output.stderr), counts);
}

#[test]
fn the_command_reports_what_is_wrong() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_riscv-run")).args(arguments).output();
        let output = output.expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&[]).0, Some(2));
    assert_eq!(run(&["--hart", "many", "x"]).0, Some(2));
    let (code, said) = run(&["/nowhere/program"]);
    assert!(code == Some(125) && said.contains("/nowhere/program"), "{said}");
    let (code, said) = run(&[env!("CARGO_BIN_EXE_riscv-run")]);
    assert!(code == Some(125) && said.contains("not a program for this machine"), "{said}");
    let built = Built::new("endless", "int main(void) { for (;;) ; }\n");
    let (code, said) = run(&["--limit", "1000", built.path().to_str().expect("text")]);
    assert!(code == Some(125) && said.contains("limit"), "{said}");
}

/// Eight shares of unequal work, twice; the second region gives core 2 two shares.
const SHARES: &str = r#"
#include "host.h"
static volatile uint32_t harts[8];
static void work(int32_t core, int32_t rounds)
{
    host_share_begin(core);
    uint32_t hart;
    __asm__ volatile("csrr %0, mhartid" : "=r"(hart));
    harts[core] = hart;
    __asm__ volatile("1: addi %0, %0, -1\n bnez %0, 1b" : "+r"(rounds));
    host_share_end();
}
int main(void)
{
    host_mark(1);
    for (int32_t core = 0; core < 8; core++)
        work(core, 100 * (core + 1));
    host_region_end();
    host_mark(2);
    for (int32_t core = 0; core < 4; core++)
        work(core, 500);
    work(2, 500);
    host_region_end();
    host_mark(3);
    for (uint32_t core = 0; core < 8; core++)
        if (harts[core] != core)
            return 1;
    return 0;
}
"#;

#[test]
fn regions_take_as_long_as_their_slowest_core() {
    let built = Built::new("shares", SHARES);
    let mut machine = built.machine();
    machine.cluster = Cluster { cores: 8, barrier: 1000 };
    assert_eq!(machine.run(1_000_000).expect("exits").code, 0);
    let [one, two, three] = machine.marks[..] else { panic!("{:?}", machine.marks) };
    // A round takes 4 cycles (3 of them the branch), the rest of a share a few.
    let between = |low: u64, value: u64| assert!((low..low + 60).contains(&value), "{value} {low}");
    between(8 * 450 * 4 + 8 * 4, two.cycles - one.cycles - 8 * 10);
    between(800 * 4 + 1000, two.parallel_cycles - one.parallel_cycles);
    between(2 * 500 * 4 + 1000, three.parallel_cycles - two.parallel_cycles);
    assert_eq!([one, two, three].map(|mark| mark.label), [1, 2, 3]);
    let sequential = machine.cycles - machine.marks[2].cycles;
    assert_eq!(machine.parallel_cycles() - three.parallel_cycles, sequential);
}

#[test]
fn shares_have_their_order() {
    for (name, calls) in [
        ("nested", "host_share_begin(0); host_share_begin(1);"),
        ("unopened", "host_share_end();"),
        ("empty", "host_region_end();"),
        ("open", "host_share_begin(0); host_region_end();"),
        ("core", "host_share_begin(8);"),
    ] {
        let source = format!("#include \"host.h\"\nint main(void) {{ {calls} return 0; }}\n");
        let result = Built::new(name, &source).machine().run(1000);
        assert!(matches!(result, Err(Trap::Call { .. })), "{name}: {result:?}");
    }
}
