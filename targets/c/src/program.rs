//! A program as the files of an artifact.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::loops::Role;
use trainc_ir::names::{identifier, shown, unique};
use trainc_ir::program::{
    BufferId, Entry, Kernel, KernelId, Launch, Program, Region, Step, scale_offset,
};
use trainc_ir::target::ArtifactFile;
use trainc_ir::{Scale, TensorType, Verified};

use crate::arranged::Arranged;
use crate::dialect::Dialect;
use crate::evaluate::Evaluation;
use crate::exponents::{KernelFunction, found_behind};
use crate::interface::{Function, Interface, Parameter, Passing};
use crate::kernel::{CKernel, Piece, in_c, lower};
use crate::layout::Lines;
use crate::loops::element_type;
use crate::{RUNTIME_HEADER, RUNTIME_SOURCE, data, documents, header, rust};

/// The files of a program in a dialect of C.
///
/// # Errors
/// What the program holds that the dialect cannot express.
pub fn emit(
    program: &Verified<Program>,
    dialect: &dyn Dialect,
) -> Result<Vec<ArtifactFile>, String> {
    emit_with_pieces(program, dialect).map(|(files, _)| files)
}

/// As [`emit`], with the pieces of other files that kernels need, in order, each once.
///
/// # Errors
/// As [`emit`].
pub fn emit_with_pieces(
    program: &Verified<Program>,
    dialect: &dyn Dialect,
) -> Result<(Vec<ArtifactFile>, Vec<Piece>), String> {
    check(program)?;
    let interface = Interface::of(program)?;
    let prefix = &interface.prefix;
    let arranged = Arranged::of(program)?;
    let program = &*arranged.without(program, dialect.description().alignment);
    let mut arrays = data::arrays(program, &interface);
    let names = arranged_names(&interface, &arranged, &arrays);
    for (name, (constant, bytes)) in names.iter().zip(arranged.arrays()) {
        let what =
            format!("Constant `{}`, in the order in which its kernel reads it.", shown(constant));
        arrays.push((name.clone(), what, bytes.clone()));
    }
    let arranged = (&arranged, &names[..]);
    let (source, pieces) = source(program, &interface, &arrays, arranged, dialect)?;
    let mut files = vec![
        (format!("{prefix}.h"), header::header(program, &interface, dialect)),
        (format!("{prefix}.c"), source),
    ];
    if !arrays.is_empty() {
        files.push((format!("{prefix}_data.c"), data::source(&interface, &arrays, dialect)));
    }
    files.push(("trainc_rt.h".into(), RUNTIME_HEADER.into()));
    files.push(("trainc_rt.c".into(), RUNTIME_SOURCE.into()));
    let alignment = dialect.description().alignment;
    let services = rust::Services { alignment, checkpoints: true, evaluation: true };
    files.push((format!("{prefix}.rs"), rust::module(program, &interface, &services)));
    files.extend(dialect.support_of(program).into_iter().map(|file| (file.name, file.contents)));
    let sources: Vec<String> =
        files.iter().map(|(name, _)| name.clone()).filter(|n| n.ends_with(".c")).collect();
    files.push(("README.md".into(), documents::readme(program, &interface, &sources, dialect)));
    files.push(("CMakeLists.txt".into(), documents::cmake(&interface, &sources, dialect)));
    if files.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len() < files.len() {
        return Err(format!("`{prefix}` is the name of another file; rename the model"));
    }
    let file = |(name, text): (String, String)| ArtifactFile { name, contents: text.into_bytes() };
    Ok((files.into_iter().map(file).collect(), pieces))
}

/// Whether the program's memory has a form in C.
///
/// # Errors
/// What does not.
pub fn check(program: &Program) -> Result<(), String> {
    for buffer in &program.buffers {
        if !buffer.offset.is_multiple_of(4) {
            return Err(format!("`{}` is not 4-byte aligned", buffer.name));
        }
    }
    if u32::try_from(program.memory.state_bytes).is_err() {
        return Err("the state has 4 GiB or more".into());
    }
    Ok(())
}

/// FNV-1a of what a checkpoint must agree on: the name, type and place of each state buffer. An artifact's own name is not
/// among it.
pub fn model_hash(program: &Program) -> u64 {
    let mut text = String::new();
    for buffer in program.state() {
        text.push_str(&format!("\n{}: {} at {}", buffer.name, buffer.ty, buffer.offset));
    }
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Each launch of some steps.
pub fn each_launch<'p>(steps: &'p [Step], f: &mut dyn FnMut(&'p Launch)) {
    for step in steps {
        match step {
            Step::Launch(launch) => f(launch),
            Step::Branch { then, otherwise, .. } => {
                each_launch(then, f);
                each_launch(otherwise, f);
            }
        }
    }
}

/// What the macros of an entry start with.
pub fn entry_macro(interface: &Interface, function: &Function) -> String {
    format!("{}_{}", interface.macros(), identifier(&function.entry).to_uppercase())
}

fn source(
    program: &Program,
    interface: &Interface,
    arrays: &[(String, String, Vec<u8>)],
    arranged: (&Arranged, &[String]),
    dialect: &dyn Dialect,
) -> Result<(String, Vec<Piece>), String> {
    let prefix = &interface.prefix;
    let mut out = Lines::default();
    out.comment(&[format!("{prefix}: kernels and entries. Generated by trainc.")]);
    out.line(&format!("#include \"{prefix}.h\""));
    out.line("");
    out.line("#include \"trainc_rt.h\"");
    for file in dialect.support_of(program).iter().filter(|file| file.name.ends_with(".h")) {
        out.line(&format!("#include \"{}\"", file.name));
    }
    out.line("");
    for (name, _, bytes) in arrays {
        out.line(&format!("extern {};", data::declaration(name, bytes)));
    }
    let constants = format!("{prefix}_constants");
    let has = arrays.iter().any(|(name, ..)| *name == constants);
    for line in dialect.declarations(program, has.then_some(&constants)) {
        out.line(&line);
    }
    let mut taken = interface.exported();
    // An argument would hide a kernel of its name.
    let arguments = interface.functions.iter().flat_map(|f| &f.parameters);
    taken.extend(arguments.map(|p| p.name.clone()));
    let evaluation = Evaluation::of(interface);
    taken.extend(arrays.iter().map(|(name, ..)| name.clone()));
    let (functions, pieces) = kernels(program, arranged.0, prefix, dialect, &mut taken, &mut out)?;
    let macros = interface.macros();
    out.line("");
    out.open_function(&format!("void {prefix}_init(void *state)"));
    match arrays.iter().find(|(name, ..)| name.ends_with("_initial_state")) {
        Some((name, ..)) => {
            out.line(&format!("trainc_copy(state, {name}, {macros}_STATE_BYTES);"));
        }
        None => out.line("(void)state;"),
    }
    out.close("}");
    let hash = format!("UINT64_C({:#018x})", model_hash(program));
    out.line("");
    out.open_function(&format!(
        "void {prefix}_save(const void *state, uint64_t step, void *checkpoint)"
    ));
    out.line(&format!("trainc_save(checkpoint, state, {macros}_STATE_BYTES, {hash}, step);"));
    out.close("}");
    out.line("");
    out.open_function(&format!(
        "enum trainc_status {prefix}_load(void *state, uint64_t *step, const void *checkpoint, size_t bytes)"
    ));
    out.line(&format!(
        "return trainc_load(state, step, checkpoint, bytes, {macros}_STATE_BYTES, {hash});"
    ));
    out.close("}");
    for (entry, function) in program.entries.iter().zip(&interface.functions) {
        out.line("");
        let entered = format!("{}_ENTRY", entry_macro(interface, function));
        EntryPrinter::new(
            (program, dialect),
            entry,
            function,
            &functions,
            &taken,
            prefix,
            arranged,
        )
        .print(&entered, &mut out);
    }
    if let Some(evaluation) = &evaluation {
        out.line("");
        evaluation.define(&taken, &mut out);
    }
    Ok((out.finish(), pieces))
}

/// Prints the kernels that are launched: their functions, and the pieces that they need in other files, each once.
///
/// # Errors
/// If one cannot be expressed.
pub(crate) fn kernels(
    program: &Program,
    arranged: &Arranged,
    prefix: &str,
    dialect: &dyn Dialect,
    taken: &mut BTreeSet<String>,
    out: &mut Lines,
) -> Result<(BTreeMap<KernelId, KernelFunction>, Vec<Piece>), String> {
    let mut pieces: Vec<Piece> = Vec::new();
    // Nodes that each launched kernel serves.
    let mut nodes: BTreeMap<KernelId, Vec<&str>> = BTreeMap::new();
    for entry in &program.entries {
        each_launch(&entry.steps, &mut |launch| {
            let names = nodes.entry(launch.kernel).or_default();
            if !names.contains(&launch.name.as_str()) {
                names.push(&launch.name);
            }
        });
    }
    let mut functions: BTreeMap<KernelId, KernelFunction> = BTreeMap::new();
    for (&id, nodes) in &nodes {
        let kernel = program.kernel(id);
        let name = unique(&dialect.kernel_name(prefix, kernel), taken);
        taken.insert(name.clone());
        out.line("");
        out.comment(&kernel_comment(kernel, nodes, dialect));
        let emitted = in_c(kernel).and_then(|own| match arranged.is_constant(id) {
            true => own.emit_arranged(&name, kernel),
            false => own.emit(&name, kernel),
        });
        let emitted = emitted.map_err(|e| format!("kernel `{}`: {e}", kernel.name))?;
        // No exponent lies behind a constant in an order of its own.
        let found = match arranged.is_constant(id) {
            true => None,
            false => found_behind(&emitted.text, &name, kernel),
        };
        let finds_exponents = found.is_some();
        out.raw(&found.unwrap_or(emitted.text));
        for piece in emitted.pieces {
            if !pieces.contains(&piece) {
                pieces.push(piece);
            }
        }
        functions.insert(id, KernelFunction { name, finds_exponents });
    }
    Ok((functions, pieces))
}

/// A name for each array of an arranged constant.
pub(crate) fn arranged_names(
    interface: &Interface,
    arranged: &Arranged,
    arrays: &[(String, String, Vec<u8>)],
) -> Vec<String> {
    let prefix = &interface.prefix;
    let mut taken = interface.exported();
    taken.extend(arrays.iter().map(|(name, ..)| name.clone()));
    let of = arranged.arrays().iter().map(|(constant, _)| {
        let name = unique(&format!("{prefix}_{}", identifier(constant)), &taken);
        taken.insert(name.clone());
        name
    });
    of.collect()
}

/// Where a launch's working memory is that the program has there.
pub(crate) fn working_memory(dialect: &dyn Dialect, kernel: &Kernel, place: String) -> String {
    match in_c(kernel).is_ok_and(CKernel::places_working_memory) {
        true => place,
        false => dialect.working_memory(place, kernel.scratch_bytes()),
    }
}

/// What stands above a kernel: the operation, its types, the nodes that it serves and its cost.
pub fn kernel_comment(kernel: &Kernel, nodes: &[&str], dialect: &dyn Dialect) -> Vec<String> {
    let list = |types: &[TensorType], name: &str| {
        let all = types.iter().enumerate().map(|(i, ty)| format!("{name}{i}: {ty}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let nodes: Vec<String> = nodes.iter().map(|name| shown(name)).collect();
    let cost = match kernel.selection.cost().cycles() {
        Some(cost) => format!("About {cost} {}", dialect.description().cost_unit),
        None => "Of unknown cost".to_string(),
    };
    vec![
        kernel.op.to_string(),
        format!("{} -> {}", list(&kernel.inputs, "x"), list(&kernel.outputs, "y")),
        format!("For {}. {cost}.", nodes.join(", ")),
    ]
}

/// Prints one entry: pointers to its buffers, then the calls.
struct EntryPrinter<'p> {
    program: &'p Program,
    dialect: &'p dyn Dialect,
    entry: &'p Entry,
    function: &'p Function,
    kernels: &'p BTreeMap<KernelId, KernelFunction>,
    constants: String,
    /// Constants of an order of their own, and the names of their arrays.
    arranged: (&'p Arranged, &'p [String]),
    /// Launches printed so far.
    launches: usize,
    /// Names that a local must not take.
    taken: BTreeSet<String>,
    /// Buffers in use.
    places: BTreeMap<BufferId, Place>,
    /// Those whose exponent a kernel is given.
    exponents: BTreeSet<BufferId>,
}

/// Pointers to a buffer, as the entry's C has them.
#[derive(Debug)]
struct Place {
    elements: String,
    /// Empty if it has none, or if no kernel is given it.
    exponent: String,
    /// To the elements with the exponent behind them.
    both: String,
}

impl Place {
    /// Of a buffer without an exponent.
    fn of(elements: String) -> Place {
        Place { both: elements.clone(), elements, exponent: String::new() }
    }
}

impl<'p> EntryPrinter<'p> {
    fn new(
        (program, dialect): (&'p Program, &'p dyn Dialect),
        entry: &'p Entry,
        function: &'p Function,
        kernels: &'p BTreeMap<KernelId, KernelFunction>,
        taken: &BTreeSet<String>,
        prefix: &str,
        arranged: (&'p Arranged, &'p [String]),
    ) -> Self {
        let mut taken = taken.clone();
        taken.extend(["arena", "state", "a", "s", "c", "run", "seed", "step"].map(String::from));
        taken.extend(function.parameters.iter().map(|p| p.name.clone()));
        let constants = format!("{prefix}_constants");
        EntryPrinter {
            program,
            dialect,
            entry,
            function,
            kernels,
            constants,
            arranged,
            launches: 0,
            taken,
            places: BTreeMap::new(),
            exponents: BTreeSet::new(),
        }
    }

    fn print(mut self, entered: &str, out: &mut Lines) {
        out.comment(&[format!("Entry `{}`: see the header.", shown(&self.entry.name))]);
        out.open_function(&self.function.prototype());
        let (mut used, mut scratch) = (BTreeMap::new(), false);
        self.uses(&self.entry.steps, &mut used, &mut scratch);
        let of = |id: BufferId| &self.program.buffer(id).region;
        let arena = scratch || used.keys().any(|&id| *of(id) == Region::Arena);
        let state = used.keys().any(|&id| matches!(of(id), Region::State { .. }));
        let constants = used.keys().any(|&id| matches!(of(id), Region::Constant(_)));
        let line = |out: &mut Lines, on: bool, yes: &str, no: &str| {
            out.line(if on { yes } else { no });
        };
        line(out, arena, "uint8_t *const a = (uint8_t *)arena;", "(void)arena;");
        line(out, state, "uint8_t *const s = (uint8_t *)state;", "(void)state;");
        if constants {
            let name = &self.constants;
            out.line(&format!("const uint8_t *const c = (const uint8_t *){name};"));
        }
        if self.function.random {
            out.line("const int32_t run[3] = {");
            out.line(
                "    (int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), (int32_t)step,",
            );
            out.line("};");
        }
        for (i, parameter) in self.function.parameters.iter().enumerate() {
            let touched = used.keys().any(|&id| self.parameter(id) == Some(i));
            if !touched {
                out.line(&format!("(void){};", parameter.name));
            }
        }
        for (&id, &written) in &used {
            self.place(id, written, out);
        }
        out.line("");
        out.line(&format!("TRAINC_ENTERED(arena, state, {entered});"));
        let around = self.dialect.around();
        if let Some([before, _]) = around {
            out.line(before);
        }
        self.steps(&self.entry.steps, out);
        if let Some([_, behind]) = around {
            out.line(behind);
        }
        out.close("}");
    }

    /// Buffers that the steps name, and whether they are written.
    fn uses(&mut self, steps: &[Step], used: &mut BTreeMap<BufferId, bool>, scratch: &mut bool) {
        for step in steps {
            match step {
                Step::Launch(launch) => {
                    if !self.kernels[&launch.kernel].finds_exponents {
                        self.exponents.extend(launch.inputs.iter().chain(&launch.outputs));
                    }
                    for (i, &id) in launch.inputs.iter().enumerate() {
                        if self.arranged.0.operand(launch, i).is_none() {
                            used.entry(id).or_insert(false);
                        }
                    }
                    launch.outputs.iter().for_each(|&id| _ = used.insert(id, true));
                    *scratch |= self.takes_scratch(launch.kernel);
                }
                Step::Branch { condition, then, otherwise } => {
                    used.entry(*condition).or_insert(false);
                    self.uses(then, used, scratch);
                    self.uses(otherwise, used, scratch);
                }
            }
        }
    }

    fn takes_scratch(&self, id: KernelId) -> bool {
        self.program.kernel(id).scratch_bytes() > 0
    }

    /// Position of the parameter that a buffer shows.
    fn parameter(&self, id: BufferId) -> Option<usize> {
        match self.program.buffer(id).region {
            Region::Input(i) => Some(i),
            Region::Output(i) => Some(self.entry.inputs.len() + i),
            _ => None,
        }
    }

    /// Declares the pointers of a buffer.
    fn place(&mut self, id: BufferId, written: bool, out: &mut Lines) {
        let buffer = self.program.buffer(id);
        let exponent_offset =
            (buffer.ty.scale == Scale::Exponent).then(|| scale_offset(&buffer.ty));
        let element = element_type(buffer.ty.element);
        let (constant, base) = match buffer.region {
            Region::Arena => ("", "a"),
            Region::State { .. } => ("", "s"),
            Region::Constant(_) => ("const ", "c"),
            Region::Input(_) => ("const ", ""),
            Region::Output(_) => ("", ""),
        };
        let constant = if written { "" } else { "const " }.max(constant);
        if let Some(i) = self.parameter(id) {
            let parameter: &Parameter = &self.function.parameters[i];
            let name = &parameter.name;
            let place = if parameter.ty == buffer.ty && parameter.is_struct() {
                let element = element_type(buffer.ty.element);
                let constant = if written { "" } else { "const " }.max(constant);
                Some(Place {
                    elements: format!("{name}->elements"),
                    exponent: format!("&{name}->exponent"),
                    both: format!("({constant}{element} *)({constant}void *){name}"),
                })
            } else if parameter.passing == Passing::Value && parameter.ty == buffer.ty {
                Some(Place::of(format!("&{name}")))
            } else if !parameter.is_struct()
                && exponent_offset.is_none()
                && parameter.passing != Passing::Value
                && parameter.ty.element == buffer.ty.element
            {
                Some(Place::of(name.clone()))
            } else {
                None
            };
            if let Some(place) = place {
                self.places.insert(id, place);
                return;
            }
        }
        let base = match self.parameter_name(id) {
            Some(name) => format!("({constant}uint8_t *){name}"),
            None => base.to_string(),
        };
        let taken = &mut self.taken;
        let mut declare = |name: String, ty: &str, offset: usize| {
            let name = unique(&name, taken);
            taken.insert(name.clone());
            let place = if offset == 0 { base.clone() } else { format!("({base} + {offset})") };
            out.line(&format!(
                "{constant}{ty} *const {name} = ({constant}{ty} *)({constant}void *){place};"
            ));
            name
        };
        let elements = declare(buffer.name.clone(), element, buffer.offset);
        let exponent = exponent_offset.filter(|_| self.exponents.contains(&id)).map(|offset| {
            declare(format!("{}_exponent", buffer.name), "int32_t", buffer.offset + offset)
        });
        let place = Place { exponent: exponent.unwrap_or_default(), ..Place::of(elements) };
        self.places.insert(id, place);
    }

    fn parameter_name(&self, id: BufferId) -> Option<String> {
        let parameter = &self.function.parameters[self.parameter(id)?];
        let address = if parameter.passing == Passing::Value { "&" } else { "" };
        Some(format!("{address}{}", parameter.name))
    }

    fn steps(&mut self, steps: &[Step], out: &mut Lines) {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch, out),
                Step::Branch { condition, then, otherwise } => {
                    let place = &self.places[condition].elements;
                    out.open(&format!("if (*(const int32_t *)(const void *){place} != 0) {{"));
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
        let kernel = lower(self.program.kernel(launch.kernel));
        let function = &self.kernels[&launch.kernel];
        let elements = |id: BufferId| {
            let place = &self.places[&id];
            if function.finds_exponents { place.both.clone() } else { place.elements.clone() }
        };
        let mut arguments: Vec<String> = Vec::new();
        for buffer in kernel.buffers.iter().filter(|buffer| function.takes(&buffer.role)) {
            arguments.push(match buffer.role {
                Role::Input(i) => match self.arranged.0.operand(launch, i) {
                    None => elements(launch.inputs[i]),
                    Some(at) => {
                        let ty = element_type(buffer.element);
                        format!("(const {ty} *)(const void *){}", self.arranged.1[at])
                    }
                },
                Role::InputScale(i) => self.places[&launch.inputs[i]].exponent.clone(),
                Role::Output(i) => elements(launch.outputs[i]),
                Role::OutputScale(i) => self.places[&launch.outputs[i]].exponent.clone(),
                Role::RunContext => "run".into(),
                Role::Scratch => continue,
            });
        }
        if self.takes_scratch(launch.kernel) {
            let place = match launch.scratch {
                None | Some(0) => "a".into(),
                Some(offset) => format!("a + {offset}"),
            };
            let kernel = self.program.kernel(launch.kernel);
            arguments.push(working_memory(self.dialect, kernel, place));
        }
        let taken = kernel.buffers.iter().filter(|buffer| function.takes(&buffer.role));
        for (argument, buffer) in arguments.iter().zip(taken) {
            if let Role::Input(i) = buffer.role {
                let bytes = self.program.buffer(launch.inputs[i]).bytes();
                if let Some(line) = self.dialect.fetch(argument, bytes) {
                    out.line(&line);
                }
            }
        }
        out.line(&format!("{}({});", function.name, arguments.join(", ")));
        let node = shown(&launch.name);
        out.line(&format!("TRAINC_LAUNCHED(arena, state, {}, \"{node}\");", self.launches));
        self.launches += 1;
    }
}
