//! The C of an artifact: its entries, which copy arguments to the device and launch kernels there.

use std::collections::BTreeMap;

use trainc_c::interface::{Function, Passing};
use trainc_c::parts::{Lines, entry_macro};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::names::shown;
use trainc_ir::program::{BufferId, Entry, KernelId, Launch, Program, Region, Step, scale_offset};

use crate::artifact::{Artifact, Names};
use crate::kernel;
use crate::printed::{PrintedPhase, Variant};
use crate::tuning;

/// A place in the device's memory: which, and the offset in bytes.
type Place = (&'static str, usize);

/// What all entries share: the program's kernels by number, and their device.
pub(crate) fn device(artifact: &Artifact<'_>, out: &mut Lines) {
    let Artifact { program, interface, arguments, names, .. } = artifact;
    let (prefix, macros) = (&interface.prefix, interface.macros());
    let Names { device, kernels: table, handles, items, tuning, results, count } = names;
    let kernels: Vec<&PrintedPhase> = artifact.kernels.values().flatten().collect();
    out.line(&format!("/* Lines of {prefix}.cl. */"));
    out.line(&format!("extern const char *const {prefix}_kernels[{}];", artifact.lines));
    for (name, _, bytes) in artifact.arrays {
        out.line(&format!("extern {};", trainc_c::parts::data::declaration(name, bytes)));
    }
    out.line("");
    out.line("/* The kernels. */");
    out.open("enum {");
    kernels.iter().for_each(|phase| out.line(&format!("{},", number(&macros, &phase.name))));
    out.line(&format!("{macros}_KERNELS,"));
    out.close("};");
    out.line("");
    out.open(&format!("static const char *const {table}[{macros}_KERNELS + 1] = {{"));
    kernels.iter().for_each(|phase| out.line(&format!("\"{}\",", phase.name)));
    out.line("NULL,");
    out.close("};");
    out.line("");
    out.line(&format!("static struct _cl_kernel *{handles}[{macros}_KERNELS + 1];"));
    out.line("");
    out.line("/* Their work items. */");
    out.open(&format!("static const size_t {items}[{macros}_KERNELS + 1][3] = {{"));
    for phase in &kernels {
        let [x, y, z] = phase.items();
        out.line(&format!("{{ {x}, {y}, {z} }},"));
    }
    out.line("{ 0, 0, 0 },");
    out.close("};");
    out.line("");
    out.open(&format!("static struct trainc_tuning {tuning}[{macros}_KERNELS + 1] = {{"));
    out.raw(&format!("#include \"{}\"\n", tuning::file(prefix)));
    out.line("{ 0, { 0, 0, 0 } },");
    out.close("};");
    out.line("");
    out.line("/* The device, once it is open. */");
    out.open(&format!("static struct trainc_opencl {device} = {{"));
    let constants = program.memory.constant_bytes;
    let named = artifact.arrays.iter().find(|(name, ..)| name.ends_with("_constants"));
    for line in [
        format!(".source = {prefix}_kernels,"),
        format!(".lines = {},", artifact.lines),
        format!(".names = {table},"),
        format!(".count = {macros}_KERNELS,"),
        format!(".kernels = {handles},"),
        format!(".items = {items},"),
        format!(".tuning = {tuning},"),
        format!(
            ".bytes = {{ {macros}_ARENA_BYTES, {macros}_STATE_BYTES, {constants}, {arguments} }},"
        ),
        match named {
            Some((name, ..)) => format!(".constants = {name},"),
            None => ".constants = NULL,".into(),
        },
        format!(".floats = {},", u8::from(artifact.floats)),
    ] {
        out.line(&line);
    }
    out.close("};");
    out.line("");
    out.open_function(&format!("const char *{prefix}_open(void)"));
    out.line(&format!("return trainc_opencl_open(&{device});"));
    out.close("}");
    out.line("");
    out.open_function(&format!("void {prefix}_close(void)"));
    out.line(&format!("trainc_opencl_close(&{device});"));
    out.close("}");
    out.line("");
    out.raw(&format!(
        "/* Hooks see what a launch has done: arena (if the caller has one), state and results. */\n\
         #ifdef TRAINC_HOOKS\n\
         #define {macros}_LAUNCHED(launch, node) \\\n\
         \x20   do {{ \\\n\
         \x20       trainc_opencl_show(&{device}, arena, {results}, {count}); \\\n\
         \x20       TRAINC_LAUNCHED(arena, state, launch, node); \\\n\
         \x20   }} while (0)\n\
         #elif defined TRAINC_OPENCL_TRIALS\n\
         #define {macros}_LAUNCHED(launch, node) trainc_trial_reached(launch)\n\
         #else\n\
         #define {macros}_LAUNCHED(launch, node) ((void)0)\n\
         #endif\n"
    ));
}

/// The enumerator of a kernel.
fn number(macros: &str, name: &str) -> String {
    format!("{macros}_KERNEL_{}", name.to_uppercase())
}

/// Where the arguments of an entry lie on the device, and how many bytes they take with the run's context behind them.
pub(crate) fn argument_places(program: &Program, entry: &Entry) -> (Vec<usize>, usize) {
    let mut offset = 0usize;
    let arguments = entry.inputs.iter().chain(&entry.outputs);
    let places = arguments.map(|argument| {
        let at = offset;
        offset += program.buffer(argument.buffer).bytes().next_multiple_of(16);
        at
    });
    let places: Vec<usize> = places.collect();
    // Seed and step.
    (places, offset + 16)
}

/// Prints an entry.
pub(crate) struct EntryPrinter<'a> {
    artifact: &'a Artifact<'a>,
    entry: &'a Entry,
    function: &'a Function,
    places: Vec<usize>,
    run: usize,
    launches: usize,
}

impl<'a> EntryPrinter<'a> {
    pub(crate) fn new(
        artifact: &'a Artifact<'a>,
        entry: &'a Entry,
        function: &'a Function,
    ) -> Self {
        let (places, bytes) = argument_places(artifact.program, entry);
        EntryPrinter { artifact, entry, function, places, run: bytes - 16, launches: 0 }
    }

    pub(crate) fn print(mut self, out: &mut Lines) {
        let Artifact { program, interface, names, .. } = self.artifact;
        let Names { device, results: table, count, .. } = names;
        let macros = interface.macros();
        let (entry, function) = (self.entry, self.function);
        out.comment(&[format!("Entry `{}`: see the header.", shown(&entry.name))]);
        out.open_function(&function.prototype());
        let mut results = Vec::new();
        if program.memory.state_bytes > 0 && writes_state(program, &entry.steps) {
            results.push(format!("{{ TRAINC_STATE, 0, state, {macros}_STATE_BYTES }},"));
        }
        let mut inputs = Vec::new();
        let arguments = entry.inputs.iter().chain(&entry.outputs).zip(&function.parameters);
        for ((argument, parameter), at) in arguments.zip(&self.places) {
            let (name, bytes) = (&parameter.name, program.buffer(argument.buffer).bytes());
            let address = match parameter.passing {
                Passing::Value => format!("&{name}"),
                Passing::Read | Passing::Write => name.clone(),
            };
            match parameter.passing {
                _ if bytes == 0 => out.line(&format!("(void){name};")),
                Passing::Write => {
                    results.push(format!("{{ TRAINC_ARGUMENTS, {at}, {address}, {bytes} }},"));
                }
                Passing::Value | Passing::Read => inputs.push(format!(
                    "trainc_opencl_put(&{device}, TRAINC_ARGUMENTS, {at}, {address}, {bytes});"
                )),
            }
        }
        if !results.is_empty() {
            out.open(&format!("const struct trainc_result {table}[] = {{"));
            results.iter().for_each(|line| out.line(line));
            out.close("};");
        }
        out.line(&format!("enum {{ {count} = {} }};", results.len()));
        if results.is_empty() {
            out.line(&format!("const struct trainc_result *const {table} = NULL;"));
        }
        if function.random {
            out.line("const int32_t run[3] = {");
            out.line(
                "    (int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), (int32_t)step,",
            );
            out.line("};");
        }
        out.line("(void)arena;");
        if program.memory.state_bytes == 0 {
            out.line("(void)state;");
        }
        out.line(&format!("trainc_opencl_enter(&{device});"));
        if program.memory.state_bytes > 0 {
            out.line(&format!(
                "trainc_opencl_put(&{device}, TRAINC_STATE, 0, state, {macros}_STATE_BYTES);"
            ));
        }
        inputs.iter().for_each(|line| out.line(line));
        if function.random {
            out.line(&format!(
                "trainc_opencl_put(&{device}, TRAINC_ARGUMENTS, {}, run, sizeof run);",
                self.run
            ));
        }
        out.line("");
        out.line(&format!(
            "TRAINC_ENTERED(arena, state, {}_ENTRY);",
            entry_macro(interface, function)
        ));
        self.steps(&entry.steps, out);
        out.line("");
        out.line(&format!("trainc_opencl_get(&{device}, {table}, {count});"));
        out.line(&format!("trainc_opencl_leave(&{device});"));
        out.close("}");
    }

    fn place(&self, id: BufferId) -> Place {
        let buffer = self.artifact.program.buffer(id);
        match buffer.region {
            Region::Arena => ("TRAINC_ARENA", buffer.offset),
            Region::State { .. } => ("TRAINC_STATE", buffer.offset),
            Region::Constant(_) => ("TRAINC_CONSTANTS", buffer.offset),
            Region::Input(i) => ("TRAINC_ARGUMENTS", self.places[i]),
            Region::Output(i) => ("TRAINC_ARGUMENTS", self.places[self.entry.inputs.len() + i]),
        }
    }

    fn exponent(&self, id: BufferId) -> Place {
        let (memory, offset) = self.place(id);
        (memory, offset + scale_offset(&self.artifact.program.buffer(id).ty))
    }

    fn steps(&mut self, steps: &[Step], out: &mut Lines) {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, out),
                Step::Branch { condition, then, otherwise } => {
                    let (memory, offset) = self.place(*condition);
                    let device = &self.artifact.names.device;
                    out.open(&format!(
                        "if (trainc_opencl_word(&{device}, {memory}, {offset}) != 0) {{"
                    ));
                    self.steps(then, out);
                    if !otherwise.is_empty() {
                        out.close("} else {");
                        out.open_quietly();
                        self.steps(otherwise, out);
                    }
                    out.close("}");
                }
            }
        }
    }

    fn launch(&mut self, launch: &Launch, out: &mut Lines) {
        let kernels: &BTreeMap<KernelId, Vec<PrintedPhase>> = &self.artifact.kernels;
        let own = kernel::of(self.artifact.program.kernel(launch.kernel));
        // Emission has printed it.
        let Ok(buffers) = own.and_then(|own| own.buffers()) else { return };
        let node = shown(&launch.name);
        let macros = self.artifact.interface.macros();
        let device = &self.artifact.names.device;
        out.comment(std::slice::from_ref(&node));
        let all = &kernels[&launch.kernel];
        let apart =
            all.iter().position(|phase| matches!(phase.variant, Some(Variant { group: None, .. })));
        if let Some(at) = apart {
            let own = number(&macros, &all[0].name);
            out.open(&format!("if (trainc_opencl_takes(&{device}, {own}, {at})) {{"));
            for phase in &all[at..] {
                let (places, count) = self.places_of(phase, buffers, launch);
                out.line(&format!(
                    "trainc_opencl_part(&{device}, {}, {own}, {places}, {count});",
                    number(&macros, &phase.name),
                ));
            }
            out.close("} else {");
            out.open_quietly();
        }
        for phase in all.iter().filter(|phase| phase.variant.is_none()) {
            let (places, count) = self.places_of(phase, buffers, launch);
            out.line(&format!(
                "trainc_opencl_launch(&{device}, {}, {places}, {count});",
                number(&macros, &phase.name),
            ));
        }
        if apart.is_some() {
            out.close("}");
        }
        out.line(&format!("{macros}_LAUNCHED({}, \"{node}\");", self.launches));
        self.launches += 1;
    }

    /// The places of a kernel's buffers as C has them, and how many.
    fn places_of(
        &self,
        phase: &PrintedPhase,
        buffers: &LoopKernel,
        launch: &Launch,
    ) -> (String, usize) {
        let mut places: Vec<Place> = Vec::new();
        let mut scratch = false;
        for pointer in &phase.pointers {
            places.push(match buffers.buffers[pointer.buffer].role {
                Role::Input(i) => self.place(launch.inputs[i]),
                Role::InputScale(i) => self.exponent(launch.inputs[i]),
                Role::Output(i) => self.place(launch.outputs[i]),
                Role::OutputScale(i) => self.exponent(launch.outputs[i]),
                Role::RunContext => ("TRAINC_ARGUMENTS", self.run),
                Role::Scratch => {
                    scratch = true;
                    continue;
                }
            });
        }
        if scratch {
            places.push(("TRAINC_ARENA", launch.scratch.unwrap_or(0)));
        }
        let shown: Vec<String> =
            places.iter().map(|(memory, offset)| format!("{{ {memory}, {offset} }}")).collect();
        (format!("(const struct trainc_place[]){{ {} }}", shown.join(", ")), places.len())
    }
}

/// Whether some step writes the state.
fn writes_state(program: &Program, steps: &[Step]) -> bool {
    let is_state = |id: &BufferId| matches!(program.buffer(*id).region, Region::State { .. });
    steps.iter().any(|step| match step {
        Step::Launch(launch) => launch.outputs.iter().any(is_state),
        Step::Branch { then, otherwise, .. } => {
            writes_state(program, then) || writes_state(program, otherwise)
        }
    })
}
