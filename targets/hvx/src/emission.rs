//! A program as the files of an artifact: entries, data and checkpoints in C, kernels in assembly.

use std::collections::BTreeSet;
use std::sync::Mutex;

use trainc_c::{Dialect, Facts, element_type};
use trainc_ir::harness::{Harness, Runner, Tool, Toolchain};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::names::{self, identifier};
use trainc_ir::program::{Kernel, Program, Region, Step};
use trainc_ir::target::{ArtifactFile, Target, TargetDescription};
use trainc_ir::{Element, Op, TensorType, Verified};

use crate::depthwise::DepthwiseProduct;
use crate::lowering::lower;
use crate::machine::{Function, Options, Version, compile};
use crate::pools::Pooling;
use crate::products::{Glue, Product};
use crate::select::{Routine, select};
use crate::target::HvxTarget;
use crate::{documents, fastrpc};

/// Name of the file with the routines that kernels call.
pub(crate) const RUNTIME: &str = "trainc_hvx_rt.S";

/// The files of a program.
pub(crate) fn emit(
    program: &Verified<Program>,
    target: &HvxTarget,
) -> Result<Vec<ArtifactFile>, String> {
    let emission = Emission::of(program, target);
    let mut files = trainc_c::emit(program, &emission)?;
    let made = emission.made.into_inner().map_err(|e| e.to_string())?;
    let prefix = names::prefix(&program.name);
    let version = target.version();
    let mut kernels = documents::head(&format!("{prefix}: kernels"), version);
    kernels.push_str(&made.text);
    let mut runtime = documents::head("routines that kernels call", version);
    for routine in made.routines {
        let function = routine.function().map_err(|e| e.to_string())?;
        runtime.push_str(&assembly(&function, version)?);
    }
    let has_data = files.iter().any(|file| file.name == format!("{prefix}_data.c"));
    let mut add = |name: String, text: String| {
        files.retain(|file| file.name != name);
        files.push(ArtifactFile { name, contents: text.into_bytes() });
    };
    add(format!("{prefix}_kernels.S"), kernels);
    add(RUNTIME.into(), runtime);
    for (name, text) in fastrpc::files(program, &harness(program, target)?, &prefix, version) {
        add(name, text);
    }
    add("CMakeLists.txt".into(), documents::cmake(&prefix, has_data, version));
    Ok(files)
}

/// What builds an artifact, and the emulator that runs it.
pub(crate) fn toolchain(version: Version) -> Toolchain {
    let machine = documents::machine(version);
    let arguments: Vec<&str> = machine
        .split(' ')
        .chain(["-nostdlib", "-fuse-ld=lld", "-Wno-incompatible-library-redeclaration"])
        .chain(documents::FLAGS.split(' '))
        .collect();
    let packages = "clang-19 lld-19";
    let compilers = ["clang-19", "clang"].map(|c| Tool::new(c, &arguments, packages));
    // An emulator that knows the version by its number, and one that knows v67 alone.
    let emulators = vec![Tool::new("qemu-hexagon", &["-cpu", "v67"], "qemu-user")];
    Toolchain { compilers: compilers.into(), runner: Runner::Emulator(emulators) }
}

/// What of the artifact of a program is built.
pub(crate) fn harness(program: &Program, target: &HvxTarget) -> Result<Harness, String> {
    let mut harness = trainc_c::harness(program, &Emission::of(program, target))?;
    let prefix = names::prefix(&program.name);
    harness.sources.extend([format!("{prefix}_kernels.S"), RUNTIME.to_string()]);
    harness.support = EMULATION.map(|(name, text)| (name.to_string(), text.to_string())).into();
    Ok(harness)
}

/// A C library of a few functions for the emulator.
const EMULATION: [(&str, &str); 4] = [
    ("stdio.h", include_str!("emulation/stdio.h")),
    ("stdlib.h", include_str!("emulation/stdlib.h")),
    ("string.h", include_str!("emulation/string.h")),
    ("emulation.c", include_str!("emulation/emulation.c")),
];

/// A function in packets.
fn assembly(function: &Function, version: Version) -> Result<String, String> {
    let assembled = compile(function, version, &Options::default()).map_err(|e| e.to_string())?;
    // A kernel that spills is one to look at.
    let spills = match assembled.spills {
        0 => String::new(),
        n => format!("// Values that live in the frame for want of registers: {n}.\n"),
    };
    Ok(format!("\n{spills}{}", assembled.assembly()))
}

#[derive(Debug, Default)]
struct Made {
    /// Kernels so far.
    text: String,
    routines: BTreeSet<Routine>,
}

/// The dialect of one emission: kernels are declared in C and collected as assembly.
struct Emission<'t> {
    target: &'t HvxTarget,
    /// Kernels that touch the caller's memory, which need not be aligned as vectors are.
    callers: BTreeSet<String>,
    made: Mutex<Made>,
}

impl<'t> Emission<'t> {
    fn of(program: &Program, target: &'t HvxTarget) -> Self {
        fn visit(program: &Program, steps: &[Step], callers: &mut BTreeSet<String>) {
            for step in steps {
                match step {
                    Step::Launch(launch) => {
                        let outside = launch.inputs.iter().chain(&launch.outputs).any(|&id| {
                            let buffer = program.buffer(id);
                            // What products and pools read or write by vectors is i8.
                            matches!(buffer.region, Region::Input(_) | Region::Output(_))
                                && buffer.ty.element == Element::I8
                        });
                        if outside {
                            callers.insert(program.kernel(launch.kernel).name.clone());
                        }
                    }
                    Step::Branch { then, otherwise, .. } => {
                        visit(program, then, callers);
                        visit(program, otherwise, callers);
                    }
                }
            }
        }
        let mut callers = BTreeSet::new();
        program.entries.iter().for_each(|entry| visit(program, &entry.steps, &mut callers));
        Emission { target, callers, made: Mutex::default() }
    }
}

impl Emission<'_> {
    /// Takes the assembly of a kernel and gives its C.
    fn add(&self, glue: Glue) -> Result<String, String> {
        let mut made = self.made.lock().map_err(|e| e.to_string())?;
        for function in &glue.functions {
            made.text.push_str(&assembly(function, self.target.version())?);
        }
        made.text.push_str(&glue.tables);
        Ok(glue.source)
    }
}

/// `void name(...)`: the buffers in order, then the working memory.
fn prototype(name: &str, kernel: &LoopKernel) -> String {
    let parameter = |b: &trainc_ir::loops::BufferParameter| {
        let constant = match b.role {
            Role::Input(_) | Role::InputScale(_) | Role::RunContext => "const ",
            _ => "",
        };
        format!("{constant}{} *{}", element_type(b.element), identifier(&b.name))
    };
    let buffers = kernel.buffers.iter().filter(|b| b.role != Role::Scratch);
    let mut parameters: Vec<String> = buffers.map(parameter).collect();
    if kernel.buffers.iter().any(|b| b.role == Role::Scratch) {
        parameters.push("uint8_t *scratch".into());
    }
    format!("void {name}({})", parameters.join(", "))
}

impl Dialect for Emission<'_> {
    fn description(&self) -> &TargetDescription {
        self.target.description()
    }

    fn kernel_name(&self, prefix: &str, kernel: &Kernel) -> String {
        format!("{prefix}_{}", kernel.name)
    }

    fn constants_attribute(&self) -> &'static str {
        "__attribute__((aligned(128)))"
    }

    fn kernel(&self, name: &str, kernel: &Kernel) -> Result<Option<String>, String> {
        let (inputs, outputs) = (kernel.input_types(), kernel.output_types());
        let loops = lower(&kernel.op, &inputs, &outputs);
        let list = |types: &[&trainc_ir::TensorType]| {
            types.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ")
        };
        let prototype = prototype(name, &loops);
        let purpose =
            format!("{}\n{} -> {}\n{prototype}", kernel.op, list(&inputs), list(&outputs));
        if let Some(product) = Product::of(&kernel.op, &inputs, &outputs)
            && !self.callers.contains(&kernel.name)
        {
            let scratch = if prototype.contains("scratch") { "" } else { ", uint8_t *scratch" };
            let head = format!("static {}{scratch})", prototype.trim_end_matches(')'));
            return self.add(product.glue(name, &head).map_err(|e| e.to_string())?).map(Some);
        }
        if let Some(product) = DepthwiseProduct::of(&kernel.op, &inputs, &outputs)
            && !self.callers.contains(&kernel.name)
        {
            let head = format!("static {prototype}");
            let (glue, routines) = product.glue(name, &head).map_err(|e| e.to_string())?;
            let source = self.add(glue)?;
            let mut made = self.made.lock().map_err(|e| e.to_string())?;
            made.routines.extend(routines);
            return Ok(Some(source));
        }
        if let Some(pool) = Pooling::of(&kernel.op, &inputs, &outputs)
            && !self.callers.contains(&kernel.name)
        {
            let scratch = match pool.scratch_bytes() > 0 && !prototype.contains("scratch") {
                true => ", uint8_t *scratch",
                false => "",
            };
            let head = format!("static {}{scratch})", prototype.trim_end_matches(')'));
            return self.add(pool.glue(name, &head).map_err(|e| e.to_string())?).map(Some);
        }
        let selected = select(name, &purpose, &loops).map_err(|e| e.to_string())?;
        let text = assembly(&selected.function, self.target.version())?;
        let mut made = self.made.lock().map_err(|e| e.to_string())?;
        made.text.push_str(&text);
        made.routines.extend(selected.routines);
        Ok(Some(format!("{prototype};\n")))
    }

    fn scratch_bytes(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> usize {
        Target::scratch_bytes(self.target, op, inputs, outputs)
    }

    fn cost(&self, op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> String {
        format!("{} packets", crate::cost::packets(op, inputs, outputs))
    }

    fn readme(&self, facts: &Facts<'_>) -> Option<String> {
        Some(documents::readme(facts, self.target.version()))
    }
}
