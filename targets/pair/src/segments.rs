//! A program in segments: maximal runs of launches on one device, and where their memory lies in the window.

use std::collections::BTreeMap;

use trainc_c::parts::{Segment, Window};
use trainc_ir::overlap::{Action, actions};
use trainc_ir::program::{DeviceId, Launch, Program, Step};

use crate::kernel::Both;

/// Bytes at the window's beginning: the program's number (8), seed and step (12).
const HEAD: usize = 128;
/// Offset of seed and step.
const RUN: usize = 8;

/// The segments of a program.
#[derive(Debug)]
pub(crate) struct Segments<'p> {
    /// Of all entries in order, each with its device.
    pub(crate) all: Vec<(DeviceId, Segment<'p>)>,
    /// Numbers of the DSP's segments that run beside the processor's: the last of these before it waits.
    pub(crate) beside: BTreeMap<usize, usize>,
}

/// Segments of all entries in order.
///
/// # Errors
/// If an entry has a branch.
pub(crate) fn segments(program: &Program) -> Result<Segments<'_>, String> {
    let mut all: Vec<(DeviceId, Segment<'_>)> = Vec::new();
    let mut beside = BTreeMap::new();
    for (number, entry) in program.entries.iter().enumerate() {
        let launches: Vec<&Launch> = entry.steps.iter().map(launch).collect::<Result<_, _>>()?;
        let mut started = None;
        for action in actions(program, entry) {
            let (range, starts) = match action {
                Action::Here(range) => (range, false),
                Action::Start(range) => (range, true),
                Action::Join => {
                    started = None;
                    continue;
                }
            };
            let segment = Segment {
                number: all.len(),
                entry: number,
                first: range.start,
                launches: launches[range.clone()].to_vec(),
            };
            match started {
                Some(there) => {
                    beside.insert(there, segment.number);
                }
                None if starts => started = Some(segment.number),
                None => {}
            }
            all.push((launches[range.start].device, segment));
        }
    }
    Ok(Segments { all, beside })
}

fn launch(step: &Step) -> Result<&Launch, String> {
    match step {
        Step::Launch(launch) => Ok(launch),
        Step::Branch { .. } => Err("a branch has no device to be decided on".into()),
    }
}

/// The program as a device sees it: its launches, by its kernels.
///
/// # Errors
/// If it was planned for another target.
pub(crate) fn view(program: &Program, device: DeviceId) -> Result<Program, String> {
    let mut view = program.clone();
    for kernel in &mut view.kernels {
        let both = kernel.selection.implementation::<Both>();
        let own = both.ok_or("the program was planned for another target")?.on(device).clone();
        kernel.selection = own;
    }
    for entry in &mut view.entries {
        let runs = |launch: &Launch| launch.device == device;
        entry.steps.retain(|step| matches!(step, Step::Launch(launch) if runs(launch)));
    }
    Ok(view)
}

/// The window of a program: its head, a place for the arguments of the entry that runs, arena and state. Each buffer is as
/// aligned there as in its region, and arguments are aligned like buffers.
pub(crate) fn window(program: &Program, alignment: usize) -> Window {
    let mut arena = HEAD;
    let mut arguments = Vec::new();
    for entry in &program.entries {
        let mut at = HEAD;
        let places = entry.inputs.iter().chain(&entry.outputs).map(|argument| {
            let place = at;
            at += program.buffer(argument.buffer).bytes().next_multiple_of(alignment);
            place
        });
        arguments.push(places.collect());
        arena = arena.max(at);
    }
    let state = (arena + program.memory.arena_bytes).next_multiple_of(alignment);
    let bytes = (state + program.memory.state_bytes).next_multiple_of(alignment) + alignment;
    Window { run: RUN, arguments, arena, state, bytes }
}
