//! `riscv-run [--hart N] [--limit N] [--cycles] [--trace] PROGRAM`: runs an executable in the simulator. Standard streams are the
//! program's, the exit code is the program's; a trap exits with 125.

use std::process::ExitCode;

use trainc_riscv::{Exit, Machine, Memory, Trap};

const USAGE: &str = "usage: riscv-run [--hart N] [--limit N] [--cycles] [--trace] PROGRAM";

struct Arguments {
    program: String,
    hart: u32,
    limit: u64,
    cycles: bool,
    trace: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut found =
        Arguments { program: String::new(), hart: 0, limit: u64::MAX, cycles: false, trace: false };
    let mut all = std::env::args().skip(1);
    while let Some(argument) = all.next() {
        let mut number = || -> Result<u64, String> {
            let value = all.next().ok_or(format!("{argument} needs a number"))?;
            value.parse().map_err(|_| format!("{argument} needs a number, not `{value}`"))
        };
        match argument.as_str() {
            "--hart" => found.hart = u32::try_from(number()?).map_err(|e| e.to_string())?,
            "--limit" => found.limit = number()?,
            "--cycles" => found.cycles = true,
            "--trace" => found.trace = true,
            _ if argument.starts_with('-') => return Err(format!("unknown option {argument}")),
            _ if found.program.is_empty() => found.program = argument,
            _ => return Err("more than one program".into()),
        }
    }
    if found.program.is_empty() { Err("no program".into()) } else { Ok(found) }
}

/// Prints the cycle and the address of each instruction.
fn trace(machine: &mut Machine) -> Result<Exit, Trap> {
    loop {
        let pc = machine.pc;
        let exit = machine.step()?;
        eprintln!("{} {pc:08x}", machine.began);
        if let Some(exit) = exit {
            return Ok(exit);
        }
    }
}

fn run(arguments: &Arguments) -> Result<i32, String> {
    let path = &arguments.program;
    let file = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let mut machine = Machine::new(Memory::default());
    machine.hart = arguments.hart;
    machine.set_input(Box::new(std::io::stdin()));
    machine.set_output(Box::new(std::io::stdout()), Box::new(std::io::stderr()));
    machine.load(&file).map_err(|error| format!("{path}: {error}"))?;
    let result = if arguments.trace { trace(&mut machine) } else { machine.run(arguments.limit) };
    if arguments.cycles {
        for mark in &machine.marks {
            let (instructions, cycles) = (mark.instructions, mark.cycles);
            let parallel = mark.parallel_cycles;
            eprintln!("mark {} {instructions} {cycles} {parallel}", mark.label);
        }
        let (instructions, cycles) = (machine.instructions, machine.cycles);
        eprintln!("total {instructions} {cycles} {}", machine.parallel_cycles());
    }
    result.map(|exit| exit.code).map_err(|trap: Trap| format!("{path}: {trap}"))
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("riscv-run: {reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(code) => ExitCode::from(code as u8),
        Err(reason) => {
            eprintln!("riscv-run: {reason}");
            ExitCode::from(125)
        }
    }
}
