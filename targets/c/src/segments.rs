//! A part of a program as C: the kernels that one device runs, and a function for each run of launches there. All memory
//! but constants lies in one window, which the functions get.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::loops::Role;
use trainc_ir::names::shown;
use trainc_ir::program::{BufferId, KernelId, Launch, Program, Region};

use crate::arranged::Arranged;
use crate::data;
use crate::dialect::Dialect;
use crate::exponents::KernelFunction;
use crate::interface::Interface;
use crate::kernel::{Piece, lower};
use crate::layout::Lines;
use crate::loops::element_type;
use crate::program::{arranged_names, kernels, working_memory};

/// Where memory lies in a window: offsets in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Of the seed's halves and the step, 32 bits each.
    pub run: usize,
    /// Of the arguments of each entry: operands, then results.
    pub arguments: Vec<Vec<usize>>,
    /// Of the arena.
    pub arena: usize,
    /// Of the state.
    pub state: usize,
    /// All bytes.
    pub bytes: usize,
}

/// Neighbouring launches of an entry that one device runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Segment<'p> {
    /// Of the program.
    pub number: usize,
    /// The entry's position.
    pub entry: usize,
    /// Number of the first launch in the entry.
    pub first: usize,
    /// The launches.
    pub launches: Vec<&'p Launch>,
}

/// A device's part of a program.
#[derive(Clone, Debug)]
pub struct Part {
    /// Kernels, then `static void PREFIX_segment_N(uint8_t *window)` of each segment.
    pub text: String,
    /// What they need in other files.
    pub pieces: Vec<Piece>,
    /// The arrays that they read, and that of the initial state: name, what it is, bytes.
    pub arrays: Vec<(String, String, Vec<u8>)>,
}

/// Name of a segment's function.
pub fn segment_function(interface: &Interface, number: usize) -> String {
    format!("{}_segment_{number}", interface.prefix)
}

/// Prints a device's part: `program` has its launches alone, by its own kernels, and `segments` are all of them. Names are
/// of `interface`, none of `taken`.
///
/// # Errors
/// If a kernel cannot be expressed.
pub fn part(
    program: &Program,
    segments: &[Segment<'_>],
    window: &Window,
    interface: &Interface,
    mut taken: BTreeSet<String>,
    dialect: &dyn Dialect,
) -> Result<Part, String> {
    let arranged = Arranged::of(program)?;
    let program = &*arranged.without(program, dialect.description().alignment);
    let mut arrays = data::arrays(program, interface);
    let names = arranged_names(interface, &arranged, &arrays);
    for (name, (constant, bytes)) in names.iter().zip(arranged.arrays()) {
        let what =
            format!("Constant `{}`, in the order in which its kernel reads it.", shown(constant));
        arrays.push((name.clone(), what, bytes.clone()));
    }
    taken.extend(arrays.iter().map(|(name, ..)| name.clone()));
    taken.extend(segments.iter().map(|s| segment_function(interface, s.number)));
    taken.insert("window".into());
    let mut out = Lines::default();
    let prefix = &interface.prefix;
    let constants = format!("{prefix}_constants");
    let has = arrays.iter().any(|(name, ..)| *name == constants);
    for line in dialect.declarations(program, has.then_some(&constants)) {
        out.line(&line);
    }
    let (kernels, pieces) = kernels(program, &arranged, prefix, dialect, &mut taken, &mut out)?;
    let printer =
        Printer { program, dialect, window, interface, kernels, arranged: &arranged, names };
    for segment in segments {
        printer.segment(segment, &mut out);
    }
    Ok(Part { text: out.finish(), pieces, arrays })
}

struct Printer<'p> {
    program: &'p Program,
    dialect: &'p dyn Dialect,
    window: &'p Window,
    interface: &'p Interface,
    kernels: BTreeMap<KernelId, KernelFunction>,
    arranged: &'p Arranged,
    /// Of arranged constants.
    names: Vec<String>,
}

impl Printer<'_> {
    fn segment(&self, segment: &Segment<'_>, out: &mut Lines) {
        out.line("");
        let name = segment_function(self.interface, segment.number);
        out.open_function(&format!("static void {name}(uint8_t *window)"));
        let Window { arena, state, .. } = self.window;
        // For hooks a segment is what other targets' entries are: each side has its own clock.
        let entry = segment.entry;
        out.line(&format!("TRAINC_ENTERED(window + {arena}, window + {state}, {entry});"));
        for (launch, number) in segment.launches.iter().zip(segment.first..) {
            let call = self.call(entry, launch, out);
            out.line(&format!("{call};"));
            let node = shown(&launch.name);
            out.line(&format!(
                "TRAINC_LAUNCHED(window + {arena}, window + {state}, {number}, \"{node}\");"
            ));
        }
        out.close("}");
    }

    /// The call of a launch; what goes before it is printed.
    fn call(&self, entry: usize, launch: &Launch, out: &mut Lines) -> String {
        let kernel = self.program.kernel(launch.kernel);
        let function = &self.kernels[&launch.kernel];
        let mut arguments: Vec<String> = Vec::new();
        for buffer in lower(kernel).buffers.iter().filter(|buffer| function.takes(&buffer.role)) {
            let element = element_type(buffer.element);
            let place = |id: BufferId, scale: bool| self.place(entry, id, scale);
            let (constant, place) = match buffer.role {
                Role::Input(i) => match self.arranged.operand(launch, i) {
                    None => ("const ", place(launch.inputs[i], false)),
                    Some(at) => ("const ", self.names[at].clone()),
                },
                Role::InputScale(i) => ("const ", place(launch.inputs[i], true)),
                Role::Output(i) => ("", place(launch.outputs[i], false)),
                Role::OutputScale(i) => ("", place(launch.outputs[i], true)),
                Role::RunContext => ("const ", format!("(window + {})", self.window.run)),
                Role::Scratch => continue,
            };
            if let Role::Input(i) = buffer.role {
                let bytes = self.program.buffer(launch.inputs[i]).bytes();
                if let Some(line) = self.dialect.fetch(&place, bytes) {
                    out.line(&line);
                }
            }
            arguments.push(format!("({constant}{element} *)({constant}void *){place}"));
        }
        if kernel.scratch_bytes() > 0 {
            let place = format!("window + {}", self.window.arena + launch.scratch.unwrap_or(0));
            arguments.push(working_memory(self.dialect, kernel, place));
        }
        format!("{}({})", function.name, arguments.join(", "))
    }

    /// The address of a buffer's elements, or of its exponent.
    fn place(&self, entry: usize, id: BufferId, scale: bool) -> String {
        let buffer = self.program.buffer(id);
        let offset = buffer.offset + if scale { buffer.scale_offset() } else { 0 };
        let arguments = &self.window.arguments[entry];
        let base = match buffer.region {
            Region::Constant(_) => {
                let constants = format!("{}_constants", self.interface.prefix);
                return format!("((const uint8_t *){constants} + {offset})");
            }
            Region::Arena => self.window.arena,
            Region::State { .. } => self.window.state,
            Region::Input(i) => arguments[i],
            Region::Output(i) => arguments[self.inputs(entry) + i],
        };
        format!("(window + {})", base + offset)
    }

    fn inputs(&self, entry: usize) -> usize {
        self.program.entries[entry].inputs.len()
    }
}
