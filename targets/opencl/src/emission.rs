//! A program as the files of an artifact.

use std::collections::{BTreeMap, BTreeSet};

use trainc_c::interface::Interface;
use trainc_c::parts::{Evaluation, Lines, check, data, each_launch, header, kernel_comment};
use trainc_c::{Dialect, RUNTIME_HEADER, RUNTIME_SOURCE, model_hash, rust};
use trainc_ir::Verified;
use trainc_ir::names::unique;
use trainc_ir::program::{KernelId, Program};
use trainc_ir::target::ArtifactFile;
use trainc_ir::tuning::Tuning;

use crate::artifact::{Artifact, Names};
use crate::driver::{EntryPrinter, argument_places, device};
use crate::kernel;
use crate::printed::{PrintedPhase, Variant};
use crate::{documents, helpers, tuning};

/// Header and source of the runtime on the host.
const DEVICE_HEADER: &str = include_str!("../support/trainc_opencl.h");
const DEVICE_SOURCE: &str = include_str!("../support/trainc_opencl.c");
/// Their names.
pub(crate) const DEVICE: [&str; 2] = ["trainc_opencl.h", "trainc_opencl.c"];

/// The files of a program.
///
/// # Errors
/// What the program holds that the target cannot express.
pub(crate) fn emit(
    program: &Verified<Program>,
    dialect: &dyn Dialect,
) -> Result<Vec<ArtifactFile>, String> {
    check(program)?;
    let program: &Program = program;
    let interface = Interface::of(program)?;
    let prefix = &interface.prefix;
    for service in ["open", "close"].map(|name| format!("{prefix}_{name}")) {
        if interface.functions.iter().any(|f| f.symbol == service) {
            return Err(format!("two functions are called `{service}`"));
        }
    }
    let sizes = program.entries.iter().map(|entry| argument_places(program, entry).1);
    let arguments = sizes.max().unwrap_or(0);
    let memory = &program.memory;
    for (what, bytes) in [
        ("arena", memory.arena_bytes),
        ("constants", memory.constant_bytes),
        ("arguments", arguments),
    ] {
        if u32::try_from(bytes).is_err() {
            return Err(format!(
                "the {what} would have {bytes} bytes, and offsets on the device have 32 bits; a smaller batch needs less"
            ));
        }
    }
    let arrays = data::arrays(program, &interface);
    let (text, kernels) = kernels(program, &interface, dialect)?;
    let floats = text.contains("float");
    let artifact = Artifact {
        program,
        interface: &interface,
        names: Names::of(&interface),
        arrays: &arrays,
        kernels,
        lines: text.lines().count(),
        arguments,
        floats,
    };
    let mut files = vec![
        (format!("{prefix}.h"), header(program, &interface, dialect)),
        (format!("{prefix}.c"), source(&artifact)),
        (format!("{prefix}_kernels.c"), embedded(prefix, &text)),
        (format!("{prefix}.cl"), text),
    ];
    let tuning = tuning::tuning(prefix, artifact.kernels.values().flatten());
    let chosen = tuning.contents(&vec![0; tuning.tunables.len()], None);
    files.push((tuning.file, chosen));
    if !arrays.is_empty() {
        files.push((format!("{prefix}_data.c"), data::source(&interface, &arrays, dialect)));
    }
    files.extend([
        (DEVICE[0].to_string(), DEVICE_HEADER.to_string()),
        (DEVICE[1].to_string(), DEVICE_SOURCE.to_string()),
        ("trainc_rt.h".into(), RUNTIME_HEADER.into()),
        ("trainc_rt.c".into(), RUNTIME_SOURCE.into()),
    ]);
    let alignment = dialect.description().alignment;
    let services = rust::Services { alignment, checkpoints: true, evaluation: true };
    files.push((format!("{prefix}.rs"), rust::module(program, &interface, &services)));
    let sources: Vec<String> =
        files.iter().map(|(name, _)| name.clone()).filter(|n| n.ends_with(".c")).collect();
    files.push(("README.md".into(), documents::readme(program, &interface, &sources)));
    files.push(("CMakeLists.txt".into(), documents::cmake(&interface, &sources)));
    if files.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len() < files.len() {
        return Err(format!("`{prefix}` is the name of another file; rename the model"));
    }
    let file = |(name, text): (String, String)| ArtifactFile { name, contents: text.into_bytes() };
    Ok(files.into_iter().map(file).collect())
}

/// What may be chosen for a program's kernels.
///
/// # Errors
/// As [`emit`].
pub(crate) fn tunable(
    program: &Verified<Program>,
    dialect: &dyn Dialect,
) -> Result<Tuning, String> {
    let interface = Interface::of(program)?;
    let (_, kernels) = kernels(program, &interface, dialect)?;
    Ok(tuning::tuning(&interface.prefix, kernels.values().flatten()))
}

/// The kernels that are launched, as a text, and by kernel of the program.
fn kernels(
    program: &Program,
    interface: &Interface,
    dialect: &dyn Dialect,
) -> Result<(String, BTreeMap<KernelId, Vec<PrintedPhase>>), String> {
    let mut nodes: BTreeMap<KernelId, Vec<&str>> = BTreeMap::new();
    for entry in &program.entries {
        each_launch(&entry.steps, &mut |launch| {
            let names = nodes.entry(launch.kernel).or_default();
            if !names.contains(&launch.name.as_str()) {
                names.push(&launch.name);
            }
        });
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut all = BTreeMap::new();
    let mut out = Lines::default();
    for (&id, nodes) in &nodes {
        let kernel = program.kernel(id);
        let mut name = |wanted: &str| {
            // Enumerators of C are made of them, in capitals.
            let name = unique(&wanted.to_lowercase(), &taken);
            taken.insert(name.clone());
            name
        };
        let printed = kernel::of(kernel).and_then(|own| own.print(&mut name, &kernel.name));
        let printed = printed.map_err(|e| format!("kernel `{}`: {e}", kernel.name))?;
        let parts = printed.iter().filter(|phase| phase.variant.is_none()).count();
        let mut part = 0;
        for phase in &printed {
            out.line("");
            let [x, y, z] = phase.items();
            let range = match (phase.rounds.is_empty(), phase.variant) {
                (true, _) => "One work item.".to_string(),
                (_, None | Some(Variant { group: None, .. })) => {
                    format!("Work items: {x} x {y} x {z}.")
                }
                (_, Some(Variant { group: Some([gx, gy, gz]), .. })) => {
                    format!("Work items: {x} x {y} x {z} in groups of {gx} x {gy} x {gz}.")
                }
            };
            part += usize::from(phase.variant.is_none());
            let mut comment = match (part, phase.variant) {
                (_, Some(variant)) => vec![variant.about.to_string()],
                (1, _) => kernel_comment(kernel, nodes, dialect),
                _ => vec![format!("Part {part} of it.")],
            };
            comment.push(match (part, parts, phase.variant) {
                (1, 2.., None) => format!("Part 1 of {parts}. {range}"),
                _ => range,
            });
            out.comment(&comment);
            out.raw(&phase.text);
        }
        all.insert(id, printed);
    }
    let kernels = out.finish();
    let mut text =
        format!("/* {}: kernels in OpenCL C 1.2. Generated by trainc. */\n", interface.prefix);
    text.push_str("#pragma OPENCL FP_CONTRACT OFF\n\n");
    text.push_str(&helpers::needed(&kernels));
    text.push_str(&kernels);
    Ok((text, all))
}

/// The kernels as lines of C: a literal may be short, their number any.
fn embedded(prefix: &str, text: &str) -> String {
    let mut out = format!(
        "/* {prefix}: the text of {prefix}.cl, which OpenCL compiles when the device is opened. Generated by trainc. */\n\
         extern const char *const {prefix}_kernels[{lines}];\n\
         const char *const {prefix}_kernels[{lines}] = {{\n",
        lines = text.lines().count(),
    );
    for line in text.lines() {
        let line = line.replace('\\', "\\\\").replace('"', "\\\"").replace("??", "?\\?");
        out.push_str(&format!("    \"{line}\\n\",\n"));
    }
    out.push_str("};\n");
    out
}

/// The C of the artifact.
fn source(artifact: &Artifact<'_>) -> String {
    let Artifact { program, interface, arrays, .. } = artifact;
    let (prefix, macros) = (&interface.prefix, interface.macros());
    let mut out = Lines::default();
    out.comment(&[format!("{prefix}: entries. Generated by trainc.")]);
    for name in [&format!("{prefix}.h"), "trainc_opencl.h", "trainc_rt.h"] {
        out.line(&format!("#include \"{name}\""));
    }
    out.line("");
    device(artifact, &mut out);
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
        EntryPrinter::new(artifact, entry, function).print(&mut out);
    }
    if let Some(evaluation) = Evaluation::of(interface) {
        out.line("");
        evaluation.define(&interface.exported(), &mut out);
    }
    out.finish()
}
