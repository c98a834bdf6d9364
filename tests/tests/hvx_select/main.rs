//! Selected Hexagon code under `qemu-hexagon`, function by function, against the reference, bit for bit.

mod average_pools;
mod channel_lines;
mod channel_sums;
mod depthwise;
mod gradients;
mod harness;
mod inverse_deviations;
mod normalized_updates;
mod outer_updates;
mod packets;
mod planes;
mod routines;
mod training;
mod vector_loops;
mod weights;

use std::path::Path;

use harness::{Image, START, assemble, tool};
use trainc_hvx::machine::{Function, Options, Version, compile};
use trainc_hvx::select::{Routine, select};
use trainc_ir::implementation::Memory;
use trainc_ir::loops::LoopKernel;

/// The text of a function.
fn text(function: &Function) -> String {
    let assembled = compile(function, Version::V66, &Options::default());
    let assembled = assembled.unwrap_or_else(|e| panic!("{}: {e}", function.name));
    if assembled.spills > 0 {
        println!("{}: {} spills", function.name, assembled.spills);
    }
    assembled.assembly()
}

/// The text of a kernel.
fn assembly(name: &str, kernel: &LoopKernel) -> String {
    let selected =
        select(name, "a case", kernel, Memory::Caller).unwrap_or_else(|e| panic!("{name}: {e}"));
    text(&selected.function)
}

fn routines() -> String {
    Routine::ALL.into_iter().map(|r| text(&r.function().expect("a routine"))).collect()
}

/// Links sources into one program and runs it on the image.
fn check(folder: &Path, image: &Image, kernels: &str) -> u32 {
    let parts = [
        ("start", START.to_string()),
        ("run", image.source()),
        ("kernels", kernels.to_string()),
        ("routines", routines()),
    ];
    let mut objects = Vec::new();
    for (name, text) in parts {
        let (source, object) = (format!("{name}.S"), format!("{name}.o"));
        std::fs::write(folder.join(&source), text).expect("the file is written");
        assemble(folder, &source, &object, 66);
        objects.push(object);
    }
    let mut arguments: Vec<&str> = objects.iter().map(String::as_str).collect();
    arguments.extend(["-o", "program"]);
    tool(folder, "ld.lld-19", &arguments);
    image.check(folder, "./program")
}
