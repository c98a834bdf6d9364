//! The program's verifier: replays each entry and follows which bytes hold whose value.
//!
//! Checked for the program: names are unique; offsets keep within their regions; state and constants do not share
//! bytes (equal constants may).
//!
//! Checked for each launch, in order:
//! - its buffers have the kernel's types and belong to the entry;
//! - each operand's bytes hold one whole value of that layout, written through the operand's own buffer last if
//!   anything was ever written through it (a buffer that is only read is a view of the value it first sees);
//! - results and working memory overlap neither each other nor the operands, save a result that takes exactly an
//!   operand's place and type where the operation allows it.
//!
//! Checked at the end of each entry: every result and every state buffer holds a whole value.
//!
//! Whether the *right* values meet is not visible here: a planner compares with its graph.

use std::collections::{BTreeMap, BTreeSet};

use crate::Verified;
use crate::program::{Argument, Buffer, BufferId, Entry, Kernel, Launch, Program, Region, Step};
use crate::types::TensorType;

/// Memory that offsets count in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Space {
    Arena,
    State,
    Constant,
    Input(usize),
    Output(usize),
}

impl Space {
    pub(crate) fn of(region: &Region) -> Space {
        match region {
            Region::Arena => Space::Arena,
            Region::State { .. } => Space::State,
            Region::Constant(_) => Space::Constant,
            Region::Input(i) => Space::Input(*i),
            Region::Output(i) => Space::Output(*i),
        }
    }
}

/// Everything that is wrong with a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the program is not valid:\n{}", .0.join("\n"))]
pub struct ProgramErrors(pub Vec<String>);

/// Checks a program. See the module documentation for the list.
///
/// # Errors
/// Everything found.
pub fn verify_program(program: Program) -> Result<Verified<Program>, ProgramErrors> {
    let mut errors = Vec::new();
    check_names(&program, &mut errors);
    check_regions(&program, &mut errors);
    // Without sound ids a replay would go nowhere.
    if errors.is_empty() {
        for entry in &program.entries {
            Replay::new(&program, entry, &mut errors).check();
        }
    }
    if errors.is_empty() { Ok(Verified::accepted(program)) } else { Err(ProgramErrors(errors)) }
}

fn check_names(program: &Program, errors: &mut Vec<String>) {
    let mut unique = |kind: &str, names: Vec<&str>| {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name.to_string()) {
                errors.push(format!("{kind} `{name}`: the name is taken"));
            }
        }
    };
    unique("buffer", program.buffers.iter().map(|b| b.name.as_str()).collect());
    unique("kernel", program.kernels.iter().map(|k| k.name.as_str()).collect());
    unique("entry", program.entries.iter().map(|e| e.name.as_str()).collect());
    let known = |id: BufferId| id.0 < program.buffers.len();
    fn launches<'p>(
        steps: &'p [Step],
        found: &mut Vec<&'p Launch>,
        conditions: &mut Vec<BufferId>,
    ) {
        for step in steps {
            match step {
                Step::Launch(launch) => found.push(launch),
                Step::Branch { condition, then, otherwise } => {
                    conditions.push(*condition);
                    launches(then, found, conditions);
                    launches(otherwise, found, conditions);
                }
            }
        }
    }
    for entry in &program.entries {
        let (mut found, mut ids) = (Vec::new(), Vec::new());
        launches(&entry.steps, &mut found, &mut ids);
        ids.extend(entry.inputs.iter().chain(&entry.outputs).map(|a| a.buffer));
        for launch in found {
            ids.extend(launch.inputs.iter().chain(&launch.outputs));
            if launch.kernel.0 >= program.kernels.len() || launch.device.0 >= program.devices.len()
            {
                errors.push(format!("launch `{}`: no such kernel or device", launch.name));
            }
        }
        if ids.iter().any(|&id| !known(id)) {
            errors.push(format!("entry `{}` names a buffer that is not there", entry.name));
        }
    }
}

fn check_regions(program: &Program, errors: &mut Vec<String>) {
    let mut fixed: BTreeMap<(Space, usize), &Buffer> = BTreeMap::new();
    let mut indices = BTreeSet::new();
    for buffer in &program.buffers {
        let (size, initial) = match &buffer.region {
            Region::Arena => (program.memory.arena_bytes, None),
            Region::State { index, initial } => {
                if !indices.insert(*index) {
                    errors.push(format!("buffer `{}`: state {index} is taken", buffer.name));
                }
                (program.memory.state_bytes, Some(initial))
            }
            Region::Constant(tensor) => (program.memory.constant_bytes, Some(tensor)),
            Region::Input(_) | Region::Output(_) => continue,
        };
        if initial.is_some_and(|tensor| tensor.ty() != &buffer.ty) {
            errors.push(format!("buffer `{}` and its value differ in type", buffer.name));
        }
        if buffer.offset.checked_add(buffer.bytes()).is_none_or(|end| end > size) {
            errors.push(format!("buffer `{}` ends beyond its region", buffer.name));
        }
        if initial.is_some() && buffer.bytes() > 0 {
            let place = (Space::of(&buffer.region), buffer.offset);
            if let Some(other) = fixed.insert(place, buffer) {
                let bytes = |b: &Buffer| match &b.region {
                    Region::Constant(tensor) => Some(crate::tensor_bytes::tensor_bytes(tensor)),
                    _ => None,
                };
                if bytes(buffer).is_none() || bytes(buffer) != bytes(other) {
                    errors.push(format!("`{}` and `{}` share bytes", buffer.name, other.name));
                }
            }
        }
    }
    let places: Vec<_> = fixed.into_iter().collect();
    for pair in places.windows(2) {
        let (((space, start), first), ((next_space, next), second)) = (&pair[0], &pair[1]);
        if space == next_space && start + first.bytes() > *next {
            errors.push(format!("`{}` and `{}` share bytes", first.name, second.name));
        }
    }
}

/// A value in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    /// One past the value's last byte.
    end: usize,
    /// What it was written through.
    buffer: BufferId,
    /// Which write.
    write: usize,
}

/// What memory holds at a point of an entry.
#[derive(Clone, Default)]
struct Memory {
    /// Whole values by first byte; they do not overlap. A value of no bytes is never recorded.
    held: BTreeMap<(Space, usize), Held>,
    /// Buffers that launches wrote.
    written: BTreeSet<BufferId>,
    /// What each buffer that is only read stands for.
    views: BTreeMap<BufferId, usize>,
    writes: usize,
}

impl Memory {
    /// Forgets every value that shares a byte with the range.
    fn clobber(&mut self, space: Space, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let before = self.held.range(..=(space, start)).next_back();
        let first = match before {
            Some((&(s, from), held)) if s == space && held.end > start => from,
            _ => start,
        };
        let found: Vec<(Space, usize)> =
            self.held.range((space, first)..(space, end)).map(|(&place, _)| place).collect();
        for place in found {
            self.held.remove(&place);
        }
    }

    fn write(&mut self, id: BufferId, buffer: &Buffer) {
        let (space, start) = (Space::of(&buffer.region), buffer.offset);
        let end = start + buffer.bytes();
        self.clobber(space, start, end);
        self.writes += 1;
        if end > start {
            self.held.insert((space, start), Held { end, buffer: id, write: self.writes });
        }
    }
}

/// Whether bytes of one type read as another: same elements and scale, in another shape at most.
fn same_layout(a: &TensorType, b: &TensorType) -> bool {
    a == b
        || (a.element == b.element
            && a.scale == b.scale
            && a.count() == b.count()
            && a.scale_bytes() == b.scale_bytes())
}

struct Replay<'p, 'e> {
    program: &'p Program,
    entry: &'p Entry,
    errors: &'e mut Vec<String>,
}

impl<'p, 'e> Replay<'p, 'e> {
    fn new(program: &'p Program, entry: &'p Entry, errors: &'e mut Vec<String>) -> Self {
        Replay { program, entry, errors }
    }

    fn error(&mut self, place: &str, message: String) {
        self.errors.push(format!("{}: {place}: {message}", self.entry.name));
    }

    fn check(&mut self) {
        let mut memory = Memory::default();
        let arguments = self.entry.inputs.iter().enumerate();
        for (i, Argument { name, buffer: id, .. }) in arguments {
            let buffer = self.program.buffer(*id);
            if buffer.region != Region::Input(i) || buffer.offset != 0 {
                self.error(name, format!("`{}` is not input {i}", buffer.name));
            }
            memory.write(*id, buffer);
        }
        for (i, Argument { name, buffer: id, .. }) in self.entry.outputs.iter().enumerate() {
            let buffer = self.program.buffer(*id);
            if buffer.region != Region::Output(i) || buffer.offset != 0 {
                self.error(name, format!("`{}` is not output {i}", buffer.name));
            }
        }
        for (i, buffer) in self.program.buffers.iter().enumerate() {
            if matches!(buffer.region, Region::State { .. } | Region::Constant(_)) {
                memory.write(BufferId(i), buffer);
            }
        }
        self.steps(&self.entry.steps, &mut memory);
        for output in &self.entry.outputs {
            let buffer = self.program.buffer(output.buffer);
            if self.value(buffer, &memory).is_none() {
                self.error(&output.name, "the result is not written".into());
            }
        }
        for buffer in &self.program.buffers {
            if matches!(buffer.region, Region::State { .. })
                && self.value(buffer, &memory).is_none()
            {
                self.error(&buffer.name, "the state is lost".into());
            }
        }
    }

    /// The whole value in a buffer's place, if there is one; buffers without bytes always hold theirs.
    fn value(&self, buffer: &Buffer, memory: &Memory) -> Option<Held> {
        let (space, start) = (Space::of(&buffer.region), buffer.offset);
        let end = start + buffer.bytes();
        if start == end {
            return Some(Held { end, buffer: BufferId(0), write: 0 });
        }
        let held = memory.held.get(&(space, start)).copied()?;
        let whole =
            held.end == end && same_layout(&self.program.buffer(held.buffer).ty, &buffer.ty);
        whole.then_some(held)
    }

    fn steps(&mut self, steps: &'p [Step], memory: &mut Memory) {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, memory),
                Step::Branch { condition, then, otherwise } => {
                    self.read("branch", *condition, memory);
                    if self.program.buffer(*condition).ty.element_bytes() < 4 {
                        self.error("branch", "the condition is not an i32".into());
                    }
                    let mut other = memory.clone();
                    self.steps(then, memory);
                    self.steps(otherwise, &mut other);
                    // What both sides leave in one place through one buffer is a value afterwards.
                    memory.held.retain(|place, held| {
                        let same = |o: &Held| o.end == held.end && o.buffer == held.buffer;
                        other.held.get(place).is_some_and(same)
                    });
                    memory.written.append(&mut other.written);
                    memory.writes = memory.writes.max(other.writes);
                }
            }
        }
    }

    fn read(&mut self, place: &str, id: BufferId, memory: &mut Memory) {
        let buffer = self.program.buffer(id);
        self.reachable(place, buffer);
        if buffer.bytes() == 0 {
            return;
        }
        let Some(held) = self.value(buffer, memory) else {
            let message =
                format!("reads `{}`, whose place holds no value of its layout", buffer.name);
            return self.error(place, message);
        };
        let stale = if memory.written.contains(&id) {
            held.buffer != id
        } else {
            *memory.views.entry(id).or_insert(held.write) != held.write
        };
        if stale {
            let by = &self.program.buffer(held.buffer).name;
            let message = format!("reads `{}`, which `{by}` has overwritten", buffer.name);
            self.error(place, message);
        }
    }

    /// Whether a buffer of the caller's lies within an argument of this entry.
    fn reachable(&mut self, place: &str, buffer: &Buffer) {
        let argument = match buffer.region {
            Region::Input(i) => self.entry.inputs.get(i),
            Region::Output(i) => self.entry.outputs.get(i),
            _ => return,
        };
        let size = argument.map_or(0, |a| self.program.buffer(a.buffer).bytes());
        if buffer.offset.checked_add(buffer.bytes()).is_none_or(|end| end > size) {
            let message = format!("`{}` lies outside of the entry's arguments", buffer.name);
            self.error(place, message);
        }
    }

    fn launch(&mut self, launch: &'p Launch, memory: &mut Memory) {
        let kernel = self.program.kernel(launch.kernel);
        let place = format!("launch `{}` of `{}`", launch.name, kernel.name);
        self.types(&place, &launch.inputs, &kernel.inputs);
        self.types(&place, &launch.outputs, &kernel.outputs);
        for &id in &launch.inputs {
            self.read(&place, id, memory);
        }
        let range = |id: BufferId| {
            let buffer = self.program.buffer(id);
            (Space::of(&buffer.region), buffer.offset, buffer.offset + buffer.bytes())
        };
        let scratch = match (launch.scratch, kernel.scratch_bytes()) {
            (_, 0) => None,
            (Some(start), bytes) => Some((Space::Arena, start, start.saturating_add(bytes))),
            (None, _) => {
                self.error(&place, "the kernel's working memory is missing".into());
                None
            }
        };
        if let Some((_, _, end)) = scratch {
            if end > self.program.memory.arena_bytes {
                self.error(&place, "the working memory ends beyond the arena".into());
            }
            for &id in launch.inputs.iter().chain(&launch.outputs) {
                if scratch.is_some_and(|s| overlap(s, range(id))) {
                    let name = &self.program.buffer(id).name;
                    self.error(&place, format!("the working memory overlaps `{name}`"));
                }
            }
        }
        for (slot, &id) in launch.outputs.iter().enumerate() {
            let buffer = self.program.buffer(id);
            self.reachable(&place, buffer);
            if matches!(buffer.region, Region::Constant(_) | Region::Input(_)) {
                self.error(&place, format!("writes `{}`, which is read-only", buffer.name));
            }
            if let Some(&other) =
                launch.outputs[..slot].iter().find(|&&other| overlap(range(other), range(id)))
            {
                let other = &self.program.buffer(other).name;
                self.error(&place, format!("the results `{other}` and `{}` overlap", buffer.name));
            }
            for (operand, &input) in launch.inputs.iter().enumerate() {
                if overlap(range(input), range(id))
                    && !(range(input) == range(id) && in_place(kernel, slot, operand))
                {
                    let input = &self.program.buffer(input).name;
                    let message = format!("`{}` overlaps the operand `{input}`", buffer.name);
                    self.error(&place, message);
                }
            }
        }
        if let Some((space, start, end)) = scratch {
            memory.clobber(space, start, end);
        }
        for &id in &launch.outputs {
            memory.write(id, self.program.buffer(id));
            memory.written.insert(id);
        }
    }

    fn types(&mut self, place: &str, ids: &[BufferId], expected: &[TensorType]) {
        if ids.len() != expected.len() {
            self.error(
                place,
                format!("{} buffers, the kernel takes {}", ids.len(), expected.len()),
            );
        }
        for (&id, ty) in ids.iter().zip(expected) {
            let buffer = self.program.buffer(id);
            if &buffer.ty != ty {
                let message = format!("`{}` is {}, the kernel takes {ty}", buffer.name, buffer.ty);
                self.error(place, message);
            }
        }
    }
}

/// Whether a result may take an operand's place.
fn in_place(kernel: &Kernel, slot: usize, operand: usize) -> bool {
    kernel.op.overwrites(slot, operand) && kernel.inputs.get(operand) == kernel.outputs.get(slot)
}

fn overlap(a: (Space, usize, usize), b: (Space, usize, usize)) -> bool {
    a.0 == b.0 && a.1.max(b.1) < a.2.min(b.2)
}
