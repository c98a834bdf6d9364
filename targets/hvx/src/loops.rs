//! Any operation by its loops; those of much work in sections, whose rounds hardware threads share.

use std::fmt::Write as _;
use std::sync::OnceLock;

use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Memory, Signature};
use trainc_ir::loops::{LoopKernel, Role, Stmt, height};
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;
use trainc_ir::{Element, TensorType};
use trainc_loops::{Between, Phase, blocked, phases, ranged};

use crate::cost;
use crate::glue::{assembly, emitted, parameters, prototype};
use crate::lowering::lower;
use crate::machine::Version;
use crate::parts::DIVIDED;
use crate::select::{prepared, select};

/// Rounds from which on a loop is divided rather than one in it.
const MANY: i32 = 4;
/// Bytes of which the blocks of a long loop are multiples, so that vectors are full, and numbers of blocks that are tried.
const VECTOR: i64 = 128;
const BLOCKS: [i64; 8] = [8, 16, 12, 10, 6, 9, 5, 4];

/// An operation's loops.
#[derive(Debug)]
pub(crate) struct Loops {
    kernel: LoopKernel,
    memory: Memory,
    version: Version,
    /// Packets, and whether vectors of operands or results begin where those of memory do.
    cost: OnceLock<(u64, bool)>,
    sections: OnceLock<Vec<Section>>,
}

/// What runs as one function.
#[derive(Clone, Debug)]
struct Section {
    /// Its loops; if it is divided, with a range.
    kernel: LoopKernel,
    /// Rounds that threads share.
    rounds: Option<i32>,
}

impl Loops {
    pub(crate) fn of(signature: &Signature<'_>, version: Version) -> Loops {
        let kernel = lower(signature.op, signature.inputs, signature.outputs);
        let memory = signature.memory;
        Loops { kernel, memory, version, cost: OnceLock::new(), sections: OnceLock::new() }
    }

    fn estimate(&self) -> (u64, bool) {
        *self.cost.get_or_init(|| cost::of_loops(&self.kernel, self.memory))
    }

    /// The sections; the kernel alone where nothing is divided.
    fn sections(&self) -> &[Section] {
        self.sections.get_or_init(|| {
            let whole = || vec![Section { kernel: self.kernel.clone(), rounds: None }];
            let far = self.estimate().0 >= DIVIDED;
            far.then(|| sections(&self.kernel, self.memory)).flatten().unwrap_or_else(whole)
        })
    }
}

/// Sections, if one of them is divided.
fn sections(kernel: &LoopKernel, memory: Memory) -> Option<Vec<Section>> {
    // A kernel that is not well formed is no more divided than one without independent rounds. Rounds of a part are not counted, so
    // those that run together do so before.
    let kernel = prepared(kernel).ok()?;
    let phases = phases(&kernel, Between::Alone, &|_| true).ok()?;
    let sections: Vec<Section> = phases.into_iter().map(|phase| section(phase, memory)).collect();
    sections.iter().any(|section| section.rounds.is_some()).then_some(sections)
}

fn section(phase: Phase, memory: Memory) -> Section {
    let Phase { kernel, rounds } = phase;
    let first = rounds.iter().position(|&rounds| rounds >= MANY);
    let most = (0..rounds.len()).max_by_key(|&depth| rounds[depth]);
    let divided = first.or(most).filter(|_| cost::of_loops(&kernel, memory).0 >= DIVIDED);
    let divided = divided.and_then(|depth| {
        let role = Role::Input(usize::MAX);
        if loops_in(&kernel.body, depth) > 0 {
            let rounds = rounds[depth];
            return Some((ranged(kernel.clone(), depth, rounds, role), rounds));
        }
        let count = i64::from(rounds[depth]);
        let blocks = BLOCKS.into_iter().find(|blocks| count % (blocks * VECTOR) == 0)?;
        let kernel = blocked(kernel.clone(), depth, blocks)?;
        let blocks = i32::try_from(blocks).ok()?;
        Some((ranged(kernel, depth, blocks, role), blocks))
    });
    match divided {
        Some((kernel, rounds)) => Section { kernel, rounds: Some(rounds) },
        None => Section { kernel, rounds: None },
    }
}

/// Loops that nest in the one that is so many loops deep in the last statement.
fn loops_in(body: &[Stmt], depth: usize) -> usize {
    match (body.last(), depth) {
        (Some(Stmt::For { body, .. }), 0) => height(body),
        (Some(Stmt::For { body, .. }), depth) => loops_in(body, depth - 1),
        _ => 0,
    }
}

impl Implementation for Loops {
    fn name(&self) -> &'static str {
        "loops"
    }

    fn cost(&self) -> Cost {
        Cost::new(self.estimate().0)
    }

    fn scratch_bytes(&self) -> usize {
        self.sections().iter().map(|section| loop_scratch(&section.kernel).1).max().unwrap_or(0)
    }

    fn aligned_elements(&self) -> &'static [Element] {
        if self.estimate().1 { &Element::ALL } else { &[] }
    }

    fn scalar_loops(&self) -> Vec<String> {
        select("kernel", "", &self.kernel, self.memory)
            .map_or_else(|_| Vec::new(), |s| s.scalar_loops)
    }
}

impl CKernel for Loops {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let list = |types: &[TensorType]| {
            types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let scratch = self.scratch_bytes() > 0;
        let whole = prototype(name, &self.kernel.buffers, scratch);
        let (inputs, outputs) = (list(&kernel.inputs), list(&kernel.outputs));
        let purpose = format!("{}\n{inputs} -> {outputs}", kernel.op);
        if let [section] = self.sections()
            && section.rounds.is_none()
        {
            let purpose = format!("{purpose}\n{whole}");
            let selected =
                select(name, &purpose, &section.kernel, self.memory).map_err(|e| e.to_string())?;
            let text = assembly(&selected.function, self.version)?;
            return Ok(emitted(name, format!("{whole};\n"), text, &selected.routines));
        }
        let (mut text, mut source, mut calls) = (String::new(), String::new(), String::new());
        let mut routines = std::collections::BTreeSet::new();
        let taken: Vec<(String, String)> = parameters(&self.kernel.buffers, scratch);
        let names: Vec<&str> = taken.iter().map(|(_, name)| name.as_str()).collect();
        for (at, section) in (1..).zip(self.sections()) {
            let own = format!("{name}_section{at}");
            let has_scratch = loop_scratch(&section.kernel).1 > 0;
            let head = prototype(&own, &section.kernel.buffers, has_scratch);
            let purpose = format!("{purpose}\nPart {at}: {head}");
            let selected =
                select(&own, &purpose, &section.kernel, self.memory).map_err(|e| e.to_string())?;
            text.push_str(&assembly(&selected.function, self.version)?);
            routines.extend(selected.routines);
            let _ = writeln!(source, "{head};");
            let given = |prefix: &str| {
                let of = parameters(&section.kernel.buffers, has_scratch);
                let of = of.iter().map(|(_, name)| match name.as_str() {
                    "range" if section.rounds.is_some() => name.clone(),
                    name => format!("{prefix}{name}"),
                });
                of.collect::<Vec<_>>().join(", ")
            };
            let Some(rounds) = section.rounds else {
                let _ = writeln!(calls, "    {own}({});", given(""));
                continue;
            };
            let _ = writeln!(
                source,
                "\nstatic void {own}_part(void *context, int32_t begin, int32_t end)\n{{\n    \
                 const struct {name} *const work = (const struct {name} *)context;\n    \
                 const int32_t range[2] = {{ begin, end }};\n    {own}({});\n}}\n",
                given("work->")
            );
            let _ = writeln!(calls, "    TRAINC_PARALLEL_FOR(&work, {rounds}, {own}_part);");
        }
        let fields: String =
            taken.iter().fold(String::new(), |all, (ty, name)| format!("{all}    {ty}{name};\n"));
        let source = format!(
            "struct {name} {{\n{fields}}};\n\n{source}\nstatic {whole}\n{{\n    \
             struct {name} work = {{ {} }};\n{calls}}}\n",
            names.join(", ")
        );
        Ok(emitted(name, source, text, &routines))
    }
}
