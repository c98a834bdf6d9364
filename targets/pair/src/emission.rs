//! A program as the files of an artifact: the processor's C, and the DSP's C and assembly.

use std::collections::BTreeSet;

use trainc_c::interface::Interface;
use trainc_c::parts::{
    Evaluation, Lines, Part, Segment, Window, check, data, header, part, segment_function,
};
use trainc_c::{Dialect, RUNTIME_HEADER, RUNTIME_SOURCE, model_hash, rust};
use trainc_ir::harness::Timing;
use trainc_ir::program::{DeviceId, Program};
use trainc_ir::target::ArtifactFile;

use crate::documents;
use crate::entries::{connection, elsewhere, entry, start_and_join};
use crate::kernel::{CPU, DSP};
use crate::machines::Machines;
use crate::segments::{Segments, segments, view, window};

/// What the caller of an artifact gets from the connection.
const STATUS: (&str, &str) = ("trainc_pair.h", include_str!("../runtime/trainc_pair.h"));
/// The connection to a process.
pub(crate) const PROCESS: [(&str, &str); 2] = [
    ("trainc_pair_process.h", include_str!("../runtime/trainc_pair_process.h")),
    ("trainc_pair_process.c", include_str!("../runtime/trainc_pair_process.c")),
];
/// Marks of the DSP's side.
pub(crate) const PARTNER_MARKS: [(&str, &str); 1] =
    [("counting.c", include_str!("../runtime/partner_marks.c"))];
/// What launches of either side take.
pub(crate) const TIMING: Timing = Timing {
    hooks: include_str!("../runtime/times.h"),
    support: &[("times.c", include_str!("../runtime/times.c"))],
    partner: &[("times.c", include_str!("../runtime/partner_times.c"))],
};
const PARTNER: &str = include_str!("../runtime/partner.c");
const CONNECT: &str = include_str!("../runtime/connect.c");

/// Names of the functions beside those that every artifact has, without the program's prefix.
pub(crate) const SERVICES: [&str; 4] = ["connect", "status", "window_bytes", "overlap"];

/// What `trainc verify` builds beside the artifact: the start of the other side.
pub(crate) fn connect(prefix: &str) -> String {
    let variable = trainc_ir::harness::PARTNER;
    CONNECT.replace("@PREFIX@", prefix).replace("@VARIABLE@", variable)
}

/// What tells `trainc verify` of the DSP's launches.
pub(crate) fn partner_watched() -> (String, String) {
    ("partner_watched.c".into(), include_str!("../runtime/partner_watched.c").into())
}

/// The files of a program.
///
/// # Errors
/// What the program holds that the target cannot express.
pub(crate) fn emit(
    program: &Program,
    machines: &Machines,
    dialect: &dyn Dialect,
) -> Result<Vec<ArtifactFile>, String> {
    check(program)?;
    let interface = Interface::of(program)?;
    let prefix = &interface.prefix;
    for service in SERVICES.map(|name| format!("{prefix}_{name}")) {
        if interface.functions.iter().any(|f| f.symbol == service) {
            return Err(format!("two functions are called `{service}`"));
        }
    }
    let alignment = machines.alignment;
    let window = window(program, alignment);
    if i32::try_from(window.bytes).is_err() {
        return Err(format!(
            "the shared memory would have {} bytes, and the DSP addresses 2 GiB; a smaller batch needs less",
            window.bytes
        ));
    }
    let segments = segments(program)?;
    let number = number(program);
    let (source, cpu) = processor(program, &interface, &window, &segments, number, machines)?;
    let dsp = dsp(program, &interface, &window, &segments.all, number, machines)?;
    let mut files = vec![
        (format!("{prefix}.h"), header(program, &interface, dialect)),
        (format!("{prefix}.c"), source),
    ];
    if !cpu.arrays.is_empty() {
        files.push((format!("{prefix}_data.c"), data::source(&interface, &cpu.arrays, dialect)));
    }
    let is_source = |name: &&str| name.ends_with(".c") || name.ends_with(".S");
    let own = dsp.iter().map(|(n, _)| n.as_str()).filter(is_source);
    let sources: Vec<&str> = own.chain([trainc_hvx::RESIDENT]).collect();
    let sources = sources.join(" ");
    files.extend(dsp);
    files.push((format!("{prefix}_dsp_main.c"), partner(prefix, &window)));
    let own = [
        STATUS,
        PROCESS[0],
        PROCESS[1],
        ("trainc_rt.h", RUNTIME_HEADER),
        ("trainc_rt.c", RUNTIME_SOURCE),
    ];
    files.extend(own.map(|(name, text)| (name.to_string(), text.to_string())));
    let services = rust::Services { alignment, checkpoints: true, evaluation: true };
    files.push((format!("{prefix}.rs"), rust::module(program, &interface, &services)));
    let support = machines.cpu.support_of(program).into_iter();
    files.extend(support.chain(machines.dsp.support_of(program)).map(|f| (f.name, f.contents)));
    files.extend(documents::files(program, prefix, &segments.all, &sources, machines));
    if files.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len() < files.len() {
        return Err(format!("`{prefix}` is the name of another file; rename the model"));
    }
    let file = |(name, text): (String, String)| ArtifactFile { name, contents: text.into_bytes() };
    Ok(files.into_iter().map(file).collect())
}

/// What both sides must agree on, as a number: FNV-1a of the program's text.
fn number(program: &Program) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    program.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn partner(prefix: &str, window: &Window) -> String {
    PARTNER.replace("@PREFIX@", prefix).replace("@BYTES@", &window.bytes.to_string())
}

fn of<'p>(segments: &[(DeviceId, Segment<'p>)], device: DeviceId) -> Vec<Segment<'p>> {
    segments.iter().filter(|(d, _)| *d == device).map(|(_, segment)| segment.clone()).collect()
}

/// Comment, includes and declarations of arrays at the beginning of a source.
fn head(what: &str, includes: &[String], arrays: &[(String, String, Vec<u8>)]) -> Lines {
    let mut out = Lines::default();
    out.comment(&[format!("{what}. Generated by trainc.")]);
    includes.iter().for_each(|name| out.line(&format!("#include \"{name}\"")));
    out.line("");
    for (name, _, bytes) in arrays {
        out.line(&format!("extern {};", data::declaration(name, bytes)));
    }
    out
}

/// Headers that a dialect's kernels include.
fn headers(program: &Program, dialect: &dyn Dialect) -> Vec<String> {
    let support = dialect.support_of(program).into_iter().map(|file| file.name);
    support.filter(|name| name.ends_with(".h")).collect()
}

/// The processor's source, and its part of the program.
fn processor(
    program: &Program,
    interface: &Interface,
    window: &Window,
    segments: &Segments<'_>,
    number: u64,
    machines: &Machines,
) -> Result<(String, Part), String> {
    let prefix = &interface.prefix;
    let mut taken = interface.exported();
    let services = SERVICES.iter().copied().chain(["pair", "elsewhere", "start", "join"]);
    taken.extend(services.map(|name| format!("{prefix}_{name}")));
    taken.extend(interface.functions.iter().flat_map(|f| &f.parameters).map(|p| p.name.clone()));
    taken.extend(["context", "number", "segment", "start", "join"].map(String::from));
    let own = of(&segments.all, CPU);
    let view = view(program, CPU)?;
    let part = part(&view, &own, window, interface, taken.clone(), machines.cpu)?;
    let mut includes = vec![format!("{prefix}.h"), "trainc_pair.h".into(), "trainc_rt.h".into()];
    includes.extend(headers(program, machines.cpu));
    let what = format!("{prefix}: entries, and what the processor runs");
    let mut out = head(&what, &includes, &part.arrays);
    out.line("");
    connection(prefix, number, window, &mut out);
    out.raw(&part.text);
    let macros = interface.macros();
    out.line("");
    out.open_function(&format!("void {prefix}_init(void *state)"));
    match part.arrays.iter().find(|(name, ..)| name.ends_with("_initial_state")) {
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
    if segments.all.iter().any(|(device, _)| *device == DSP) {
        elsewhere(prefix, &mut out);
    }
    if !segments.beside.is_empty() {
        start_and_join(prefix, &mut out);
    }
    for function in interface.functions.iter().enumerate() {
        entry(program, function, interface, window, segments, &mut out);
    }
    if let Some(evaluation) = Evaluation::of(interface) {
        out.line("");
        evaluation.define(&taken, &mut out);
    }
    Ok((out.finish(), part))
}

/// The DSP's files.
fn dsp(
    program: &Program,
    interface: &Interface,
    window: &Window,
    segments: &[(DeviceId, Segment<'_>)],
    number: u64,
    machines: &Machines,
) -> Result<Vec<(String, String)>, String> {
    let prefix = format!("{}_dsp", interface.prefix);
    let own = Interface { prefix: prefix.clone(), functions: Vec::new() };
    let view = view(program, DSP)?;
    let taken: BTreeSet<String> = [format!("{prefix}_segment"), "segment".into()].into();
    let dialect = machines.dsp;
    let list = of(segments, DSP);
    let mut part = part(&view, &list, window, &own, taken, dialect)?;
    // The state begins on the processor.
    part.arrays.retain(|(name, ..)| !name.ends_with("_initial_state"));
    let mut includes = vec!["trainc_pair.h".to_string(), "trainc_rt.h".into()];
    includes.extend(headers(program, dialect));
    let what = format!("{}: what the DSP runs", interface.prefix);
    let mut out = head(&what, &includes, &part.arrays);
    out.raw(&part.text);
    out.line("");
    out.line(&format!("int {prefix}_segment(uint32_t segment, uint8_t *window);"));
    out.line("");
    out.open_function(&format!("int {prefix}_segment(uint32_t segment, uint8_t *window)"));
    out.open(&format!(
        "if (*(const uint64_t *)(const void *)window != UINT64_C({number:#018x})) {{"
    ));
    out.line("return TRAINC_PAIR_REFUSED;");
    out.close("}");
    out.open("switch (segment) {");
    let [acquire, release] = dialect.around().unwrap_or_default();
    for segment in &list {
        let function = segment_function(&own, segment.number);
        out.line(&format!(
            "case {}: {acquire} {function}(window); {release} return TRAINC_PAIR_OK;",
            segment.number
        ));
    }
    out.line("case TRAINC_PAIR_NOTHING: return TRAINC_PAIR_OK;");
    out.line("default: return TRAINC_PAIR_REFUSED;");
    out.close("}");
    out.close("}");
    let mut files = vec![(format!("{prefix}.c"), out.finish())];
    if !part.arrays.is_empty() {
        files.push((format!("{prefix}_data.c"), data::source(&own, &part.arrays, dialect)));
    }
    let assembly = trainc_hvx::assembly_files(&prefix, &part.pieces, dialect.version())?;
    files.extend(assembly);
    Ok(files)
}
